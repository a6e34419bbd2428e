//! Coordinates of nodes in the form of `topobw --coords`, also read by `libhopbyte_topology` and `libhopbyte_reorder`.

use super::slurm::host;
use super::{FabricFormat, Written, cannot};
use crate::error::ApplyError;
use hopbyte_fabric::Fabric;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Dimensions of the form at most.
const DIMENSIONS: usize = 6;

/// `dims`, `wrap`, and a line for every host: `node HOST X Y Z NAME NID`.
pub(super) fn coords(fabric: &Fabric) -> Result<Written, ApplyError> {
    let refuse = |why: String| {
        let instead = "machines without coordinates are measured by `topobw --tournament`";
        cannot(FabricFormat::Coords, why, instead)
    };
    let Some(shape) = fabric.shape() else {
        return Err(refuse("its routers have no coordinates".into()));
    };
    let count = shape.dims.len();
    if count == 0 || count > DIMENSIONS {
        return Err(refuse(format!(
            "it has {count} dimensions, the form at most {DIMENSIONS}"
        )));
    }
    let join = |words: &mut dyn Iterator<Item = u32>| {
        let words: Vec<String> = words.map(|w| w.to_string()).collect();
        words.join(" ")
    };
    let mut text = format!(
        "dims {}\nwrap {}\n",
        join(&mut shape.dims.iter().copied()),
        join(&mut shape.wrap.iter().map(|&w| u32::from(w)))
    );
    let (mut seen, mut ports) = (HashSet::new(), 0);
    for node in fabric.node_ids().map(|n| fabric.node(n)) {
        let Some(at) = fabric.coord(node.router) else {
            return Err(refuse(format!(
                "{} is on a router without coordinates",
                node.name
            )));
        };
        let name = host(&node.host, &node.name)?;
        if !seen.insert(name.clone()) {
            ports += 1;
            continue;
        }
        let at = join(&mut at.iter().copied());
        let title = host(&node.name, &node.name).unwrap_or_else(|_| name.clone());
        let nid = node.nid.map_or_else(String::new, |nid| format!(" {nid}"));
        let _ = writeln!(text, "node {name} {at} {title}{nid}");
    }
    let mut lost = vec!["capacities and latencies are left out".to_owned()];
    if ports > 0 {
        lost.push(format!("{ports} further ports of hosts are left out"));
    }
    Ok(Written {
        bytes: text.into_bytes(),
        lost,
    })
}

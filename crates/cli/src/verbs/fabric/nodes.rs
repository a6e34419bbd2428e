//! `hopbyte fabric nodes`: names of the nodes, as other verbs take them.

use crate::args::FabricArgs;
use crate::output::{Answer, Output, Table};
use anyhow::Result;
use serde_json::json;

/// Lists nodes in the machine's order.
pub fn run(args: &FabricArgs, out: &mut Output) -> Result<Answer> {
    let fabric = args.read(out)?.fabric;
    let mut table = Table::new(&["<node", "<host", "nid", "<router"]);
    for node in fabric.nodes() {
        let router = &fabric.router(node.router).name;
        if out.json {
            let (name, host, nid) = (&node.name, &node.host, node.nid);
            out.object(&json!({"schema": "hopbyte.node/1", "name": name, "host": host, "nid": nid, "router": router}))?;
        }
        let nid = node.nid.map_or("-".into(), |n| n.to_string());
        table.row([node.name.clone(), node.host.clone(), nid, router.clone()]);
    }
    if !out.json {
        out.table(&table)?;
    }
    Ok(Answer::Yes)
}

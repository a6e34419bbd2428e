//! Companions of a dump in the same folder, found by the tools' default names.

use super::formats::Format;
use super::machine::MachineFiles;
use std::path::{Path, PathBuf};

/// Fills in missing companions from the dump's folder, with a note.
pub fn find(path: &Path, format: Format, files: &mut MachineFiles, notes: &mut Vec<String>) {
    let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
        return;
    };
    let beside = |name: String| Some(path.with_file_name(name)).filter(|p| p.exists());
    let routes_given = !files.routes.is_empty();
    if format.is_infiniband() && files.system_map.is_none() {
        // OpenSM's torus-2QoS writes coordinates; its configuration contains the size.
        if let Some(found) = variants("opensm-torus.dump").find_map(beside) {
            notes.push(format!(
                "coordinates found beside the scan: {}",
                found.display()
            ));
            files.system_map = Some(found);
            files.routes.extend(beside("torus-2QoS.conf".into()));
        }
    }
    match format {
        _ if format.is_infiniband() && !routes_given => {
            if let Some(found) = tables(name, beside) {
                notes.push(format!(
                    "forwarding tables found beside the scan: {}",
                    found.display()
                ));
                files.routes.push(found);
            }
        }
        Format::Gemini | Format::Aries => {
            // edison.interconnect.txt.zst: edison.system-map.txt.zst, compressed or not
            let companion = |what| {
                let name = name.replace("interconnect", what);
                variants(&name).find_map(|n| beside(n).filter(|p| p != path))
            };
            if let (Some(found), None) = (companion("system-map"), &files.system_map) {
                notes.push(format!(
                    "system map found beside the interconnect: {}",
                    found.display()
                ));
                files.system_map = Some(found);
            }
            if let (Some(found), false) = (companion("phys-routes"), routes_given) {
                notes.push(format!(
                    "routes found beside the interconnect: {}",
                    found.display()
                ));
                files.routes.push(found);
            }
        }
        _ => {}
    }
}

/// netloc's `ib-subnet-X.txt` belongs to the folder `ibroutes-X`; `fabric convert` writes `X.ibnetdiscover` and
/// `X.lfts`; opensm `opensm-lfts.dump` and `opensm.fdbs` (formerly `osm.fdbs`).
fn tables(name: &str, beside: impl Fn(String) -> Option<PathBuf>) -> Option<PathBuf> {
    let subnet = plain(name)
        .strip_prefix("ib-subnet-")
        .and_then(|n| n.strip_suffix(".txt"));
    let written = plain(name).strip_suffix(".ibnetdiscover");
    subnet
        .and_then(|subnet| beside(format!("ibroutes-{subnet}")))
        .or_else(|| variants(&format!("{}.lfts", written?)).find_map(&beside))
        .or_else(|| variants("opensm-lfts.dump").find_map(&beside))
        .or_else(|| variants("opensm.fdbs").find_map(&beside))
        .or_else(|| variants("osm.fdbs").find_map(&beside))
}

/// A name without its compression suffix.
fn plain(name: &str) -> &str {
    name.strip_suffix(".zst")
        .or_else(|| name.strip_suffix(".gz"))
        .unwrap_or(name)
}

/// A name unchanged, and with each compression suffix.
fn variants(name: &str) -> impl Iterator<Item = String> {
    let plain = plain(name).to_owned();
    ["", ".zst", ".gz"]
        .into_iter()
        .map(move |ending| format!("{plain}{ending}"))
}

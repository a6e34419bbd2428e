//! hopbyte's own format as JSON: one record per line, which suits `grep` and `diff`.

use hopbyte_fabric::document::{Document, RoutingRecord};
use hopbyte_fabric::{Fabric, Routing};
use serde::Serialize;

/// Entries of forwarding tables per line.
const ENTRIES: usize = 64;

/// Writes [`Document`].
pub fn json(fabric: &Fabric, routing: &Routing) -> Vec<u8> {
    let document = Document::of(fabric, routing);
    let mut out = Vec::new();
    out.extend(b"{");
    field(&mut out, "schema", &document.schema);
    field(&mut out, "family", &document.family);
    field(&mut out, "source", &document.source);
    if let Some(shape) = &document.shape {
        field(&mut out, "shape", shape);
    }
    list(&mut out, "kinds", &document.kinds);
    list(&mut out, "routers", &document.routers);
    list(&mut out, "nodes", &document.nodes);
    list(&mut out, "links", &document.links);
    if let Some(hosts) = &document.hosts {
        field(&mut out, "hosts", hosts);
    }
    match &document.routing {
        RoutingRecord::Tables(rows) => {
            out.extend(b"\"routing\":{\"tables\":[");
            for (i, row) in rows.iter().enumerate() {
                out.extend(if i > 0 { &b",\n["[..] } else { b"\n[" });
                for (i, part) in row.chunks(ENTRIES).enumerate() {
                    out.extend(if i > 0 { &b",\n"[..] } else { b"" });
                    let start = out.len();
                    value(&mut out, &part);
                    // Removes the brackets of the part: its entries belong to the row.
                    out.remove(start);
                    out.pop();
                }
                out.extend(b"]");
            }
            out.extend(b"\n]}");
        }
        rule => {
            out.extend(b"\"routing\":");
            value(&mut out, rule);
        }
    }
    out.extend(b"}\n");
    out
}

fn field(out: &mut Vec<u8>, name: &str, of: &impl Serialize) {
    value(out, &name);
    out.push(b':');
    value(out, of);
    out.extend(b",\n");
}

fn list(out: &mut Vec<u8>, name: &str, items: &[impl Serialize]) {
    value(out, &name);
    out.extend(b":[");
    for (i, item) in items.iter().enumerate() {
        out.extend(if i > 0 { &b",\n"[..] } else { b"\n" });
        value(out, item);
    }
    out.extend(b"],\n");
}

/// Serialising records cannot fail: map keys are strings, the builder rejects numbers outside JSON, and writing to
/// memory cannot fail.
fn value(out: &mut Vec<u8>, of: &impl Serialize) {
    let _ = serde_json::to_writer(out, of);
}

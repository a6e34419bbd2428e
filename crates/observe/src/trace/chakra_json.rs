//! Chakra's execution traces as JSON: an object with the nodes in `workload_graph`, as ASTRA-sim's feeder reads them.

use super::{COLLECTIVE, Node};
use crate::text::{Text, float, whole_value};
use hopbyte_fabric::InputError;
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;

/// Whether a text is such a file.
pub(super) fn is(text: &Text) -> bool {
    let bytes = text.bytes().trim_ascii_start();
    bytes.starts_with(b"{") && memmem::find(bytes, b"\"workload_graph\"").is_some()
}

#[derive(Deserialize)]
struct Document {
    workload_graph: Vec<Read>,
}

#[derive(Deserialize)]
struct Read {
    #[serde(rename = "Id", alias = "id")]
    id: u64,
    #[serde(rename = "NodeType", alias = "type")]
    kind: Value,
    #[serde(default, alias = "duration_micros")]
    runtime: Value,
    #[serde(default)]
    data_deps: Vec<u64>,
    #[serde(default)]
    ctrl_deps: Vec<u64>,
    #[serde(default)]
    num_ops: Value,
    #[serde(default)]
    comm_type: Value,
    #[serde(default)]
    comm_size: Value,
    #[serde(default)]
    comm_src: Value,
    #[serde(default)]
    comm_dst: Value,
    #[serde(default)]
    comm_tag: Value,
    #[serde(default)]
    pg_name: Value,
    #[serde(default, alias = "comm_root")]
    root: Value,
}

/// Names of the node types, by number from 1.
const KINDS: [&str; 7] = [
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
];

/// Names of the collectives, by number.
const COLLECTIVES: [&str; 10] = [
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
];

/// A number, or its place in a list of names.
fn number(value: &Value, names: &[&str], first: u64) -> Option<u64> {
    whole_value(value).or_else(|| {
        let name = value.as_str()?;
        let at = names.iter().position(|n| *n == name)?;
        Some(at as u64 + first)
    })
}

/// A value that a node may lack, 0 then; `found` names an unreadable one.
fn or_zero<T: Default>(
    value: &Value,
    read: impl Fn(&Value) -> Option<T>,
    found: &dyn Fn(&str, &Value) -> InputError,
    name: &str,
) -> Result<T, InputError> {
    match value {
        Value::Null => Ok(T::default()),
        value => read(value).ok_or_else(|| found(name, value)),
    }
}

/// Microseconds, from a number or a text.
fn micros(value: &Value) -> Option<f64> {
    let micros = match value {
        Value::String(text) => float(text.as_bytes()),
        value => value.as_f64(),
    };
    micros.filter(|m| *m >= 0.0 && m.is_finite())
}

/// A tag, negative ones as Chakra's messages hold them.
fn tag(value: &Value) -> Option<u64> {
    whole_value(value).or_else(|| value.as_i64().map(|tag| tag as u64))
}

/// The nodes of a rank's file.
pub(super) fn nodes(text: &Text) -> Result<Vec<Node>, InputError> {
    let document: Document = text
        .json("Chakra's nodes in a list workload_graph")
        .map_err(|e| e.hint("was the file cut off?"))?;
    let node = |read: Read| {
        let kind = number(&read.kind, &KINDS, 1).filter(|k| (1..=COLLECTIVE).contains(k));
        let kind = kind.ok_or_else(|| {
            let found = format!("node type {} in node {}", read.kind, read.id);
            text.error(found, format!("1 to {COLLECTIVE}, or {}", KINDS.join(", ")))
        })?;
        let unread = |name: &str, value: &Value| {
            let found = format!("{name} {value} in node {}", read.id);
            text.error(found, "a number, not negative, or none")
        };
        let mut after = read.data_deps;
        after.extend(read.ctrl_deps);
        after.sort_unstable();
        after.dedup();
        Ok(Node {
            id: read.id,
            kind,
            after,
            micros: or_zero(&read.runtime, micros, &unread, "runtime")?,
            operations: or_zero(&read.num_ops, whole_value, &unread, "num_ops")?,
            comm_type: number(&read.comm_type, &COLLECTIVES, 0),
            bytes: whole_value(&read.comm_size),
            from: whole_value(&read.comm_src),
            to: whole_value(&read.comm_dst),
            root: whole_value(&read.root),
            tag: or_zero(&read.comm_tag, tag, &unread, "comm_tag")?,
            group: match read.pg_name {
                Value::String(name) => name,
                Value::Null => String::new(),
                other => other.to_string(),
            },
        })
    };
    document.workload_graph.into_iter().map(node).collect()
}

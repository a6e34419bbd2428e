//! Counters include the protocol: predictions of `map` equal the counters, on a machine with a known protocol.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const FABRIC: &str = "gemini:2x2x8";

fn hopbyte(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopbyte"));
    command.current_dir(folder).args(["--quiet", "--json"]);
    command.args(args).output().unwrap()
}

fn answer(folder: &Path, args: &[&str]) -> Value {
    let output = hopbyte(folder, args);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {text}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A record: a ring of 32 ranks that sends 200 messages of 64 B to each neighbour, and in other
/// phases some of 8 B and of 20,000 B.
fn record(folder: &Path) {
    let mut text = String::from("src,dst,bytes,messages,phase\n");
    for rank in 0..32 {
        for (step, bytes, messages, phase) in [
            (1, 12_800, 200, "halo"),
            (31, 12_800, 200, "halo"),
            (8, 80, 10, "sums"),
            (4, 20_000, 1, "bulk"),
        ] {
            let to = (rank * 5 + step * 5) % 32;
            text += &format!("{},{to},{bytes},{messages},{phase}\n", rank * 5 % 32);
        }
    }
    fs::write(folder.join("traffic.csv"), text).unwrap();
    let scenario = format!(
        "schema = \"hopbyte.scenario/1\"\nname = \"recorded\"\nfabric = \"{FABRIC}\"\nnetwork = \"gemini\"\n\
         [job]\nworkload.recorded = {{ traffic = \"traffic.csv\" }}\n"
    );
    fs::write(folder.join("scenario.toml"), scenario).unwrap();
}

fn map(folder: &Path, out: &str, more: &[&str]) -> Value {
    let mut args = vec!["map", "traffic.csv", "--fabric", FABRIC, "--nodes", "all"];
    args.extend(["--ranks-per-node", "1", "--trials", "5000", "--out", out]);
    args.extend(more);
    answer(folder, &args)
}

/// Runs the mapping's job on the model, at both levels that have counters, and verifies.
fn verdicts(folder: &Path, mapping: &str) -> Vec<(i32, Value)> {
    let mapping = format!("{mapping}/mapping.json");
    let run = ["model", "run", "scenario.toml", "--placement", &mapping];
    answer(
        folder,
        &[&run[..], &["--counters", "counters.jsonl"]].concat(),
    );
    answer(
        folder,
        &[&run[..], &["--level", "packet", "--registers", "run.gpcd"]].concat(),
    );
    let verify = |after| {
        let output = hopbyte(folder, &["verify", "--mapping", &mapping, "--after", after]);
        let value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), value)
    };
    ["counters.jsonl", "run.gpcd"].map(verify).into()
}

#[test]
fn a_map_of_small_messages_on_gemini_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    record(at);
    let mapped = map(at, "wire", &[]);
    let wire = &mapped["wire"];
    assert_eq!(wire["network"], "gemini");
    assert_eq!(wire["payload_bytes"], mapped["traffic"]["bytes"]);
    // A message of 64 B: envelope 78 + 9 B, credit 33 + 9 B, data 96 + 9 B.
    let ratio = wire["wire_bytes"].as_f64().unwrap() / wire["payload_bytes"].as_f64().unwrap();
    assert!((2.6..3.0).contains(&ratio), "{ratio}");
    for (code, verdict) in verdicts(at, "wire") {
        assert_eq!(
            (code, &verdict["as_predicted"]),
            (0, &Value::Bool(true)),
            "{verdict}"
        );
        assert_eq!(verdict["predicted"]["wire"], "gemini");
        let apart = verdict["predicted"]["bytes_apart"].as_f64().unwrap();
        assert!(apart < 1e-3, "{apart}");
    }
    // Links do not count the payload alone.
    assert_eq!(
        map(at, "payload", &["--wire", "payload"])["wire"]["network"],
        "payload"
    );
    for (code, verdict) in verdicts(at, "payload") {
        assert_eq!(
            (code, &verdict["as_predicted"]),
            (1, &Value::Bool(false)),
            "{verdict}"
        );
    }
}

#[test]
fn what_is_counted_beside_the_payload_can_be_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    record(at);
    let worst = |m: &Value| m["baseline"]["worst_link_seconds"].as_f64().unwrap();
    let payload = map(at, "a", &["--wire", "payload"]);
    let fraction = map(at, "b", &["--response-fraction", "0.5"]);
    assert_eq!(fraction["response_fraction"], 0.5);
    assert_eq!(fraction["wire"]["network"], "response-fraction");
    assert!(worst(&fraction) > worst(&payload));
    for key in ["hop_bytes", "off_node_bytes", "average_dilation"] {
        assert_eq!(fraction["baseline"][key], payload["baseline"][key], "{key}");
    }
    let ethernet = map(at, "c", &["--wire", "ethernet"]);
    assert_eq!(ethernet["wire"]["network"], "ethernet");
    for bad in [["--wire", "token-ring"], ["--response-fraction", "-1"]] {
        let args = [
            &["map", "traffic.csv", "--fabric", FABRIC, "--nodes", "all"][..],
            &bad,
        ]
        .concat();
        let output = hopbyte(at, &args);
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
    }
}

/// Packets of other networks than Gemini were counted in Gemini's phits of three bytes, a quarter too few, and arrivals at
/// nodes, which no router counts, as zero.
#[test]
fn packets_of_other_networks_are_counted_in_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let capture = "data/infiniband/opensm-torus-5x4x3/ibnetdiscover.out.zst";
    let capture = hopbyte_testdata::workspace().join(capture);
    for (network, fabric) in [
        ("infiniband", capture.to_str().unwrap()),
        ("plain", "torus:4x4x4"),
        ("seastar", "torus:4x4x4"),
    ] {
        for bytes in [1000, 4096, 65_536] {
            let mut text = String::from("src,dst,bytes,messages\n");
            for rank in 0..16 {
                text += &format!("{rank},{},{},20\n", (rank + 1) % 16, 20 * bytes);
            }
            fs::write(at.join("traffic.csv"), text).unwrap();
            let scenario = format!(
                "schema = \"hopbyte.scenario/1\"\nname = \"ring\"\nfabric = \"{fabric}\"\nnetwork = \"{network}\"\n\
                 level = \"packet\"\n[job]\nworkload.recorded = {{ traffic = \"traffic.csv\" }}\n"
            );
            fs::write(at.join("scenario.toml"), scenario).unwrap();
            let words = ["map", "traffic.csv", "--fabric", fabric, "--nodes", "all"];
            let more = ["--ranks-per-node", "1", "--trials", "500", "--out", "ring"];
            answer(at, &[words, more].concat());
            let mapping = "ring/mapping.json";
            let run = ["model", "run", "scenario.toml", "--placement", mapping];
            answer(at, &[&run[..], &["--counters", "counters.jsonl"]].concat());
            let verify = ["verify", "--mapping", mapping, "--after", "counters.jsonl"];
            let output = hopbyte(at, &verify);
            let verdict = String::from_utf8_lossy(&output.stdout);
            assert_eq!(
                output.status.code(),
                Some(0),
                "{network}, {bytes} B: {verdict}"
            );
        }
    }
}

/// Maps the traffic, runs the mapping's job on the model, and verifies; the mapping and the verdict.
fn verified(at: &Path, fabric: &str, (network, wire, level): (&str, &str, &str)) -> (Value, Value) {
    let scenario = format!(
        "schema = \"hopbyte.scenario/1\"\nname = \"any\"\nfabric = \"{fabric}\"\nnetwork = \"{network}\"\n\
         level = \"{level}\"\n[job]\nworkload.recorded = {{ traffic = \"traffic.csv\" }}\n"
    );
    fs::write(at.join("scenario.toml"), scenario).unwrap();
    let words = ["map", "traffic.csv", "--fabric", fabric, "--nodes", "all"];
    let more = ["--ranks-per-node", "1", "--trials", "500", "--out", "out"];
    let mapped = answer(at, &[&words[..], &more, &["--wire", wire]].concat());
    let mapping = "out/mapping.json";
    let run = ["model", "run", "scenario.toml", "--placement", mapping];
    answer(at, &[&run[..], &["--counters", "counters.jsonl"]].concat());
    let verify = ["verify", "--mapping", mapping, "--after", "counters.jsonl"];
    (mapped, answer(at, &verify))
}

/// Packets of small messages had the headers of large ones, and no acknowledgements: a third to a half of the bytes was
/// missing.
#[test]
fn small_messages_on_infiniband_are_counted_packet_by_packet() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for bytes in [1, 8, 64, 100, 1000, 4097] {
        let mut text = String::from("src,dst,bytes,messages\n");
        for rank in 0..16 {
            text += &format!("{rank},{},{},20\n", (rank + 3) % 16, 20 * bytes);
        }
        fs::write(at.join("traffic.csv"), text).unwrap();
        let how = ("infiniband", "infiniband", "packet");
        let (_, verdict) = verified(at, "torus:4x4x4", how);
        let apart = verdict["predicted"]["bytes_apart"].as_f64().unwrap();
        // Packets have whole phits of four bytes.
        assert!(apart < 0.02, "{bytes} B: {verdict}");
    }
}

/// Aries and Slingshot count payload, as said in the mapping: the same in `map`, the model and `verify`.
#[test]
fn maps_on_aries_and_slingshot_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    record(at);
    for fabric in ["aries:2x2x8", "slingshot:4x4:nodes=4"] {
        let (mapped, verdict) = verified(at, fabric, ("plain", "auto", "fluid"));
        let assumed = mapped["wire"]["assumed"].as_str().unwrap();
        assert!(assumed.contains("headers are not known"), "{assumed}");
        let apart = verdict["predicted"]["bytes_apart"].as_f64().unwrap();
        assert!(apart < 1e-9, "{fabric}: {apart}");
    }
}

/// At packet level only routers count, and arrivals at Gemini's hosts are missing, not zero.
#[test]
fn arrivals_at_hosts_are_missing_packet_by_packet() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    record(at);
    map(at, "out", &[]);
    let mapping = "out/mapping.json";
    let run = ["model", "run", "scenario.toml", "--placement", mapping];
    let packet = ["--level", "packet", "--counters", "counters.jsonl"];
    answer(at, &[&run[..], &packet].concat());
    let verify = ["verify", "--mapping", mapping, "--after", "counters.jsonl"];
    let verdict = answer(at, &verify);
    let apart = verdict["predicted"]["bytes_apart"].as_f64().unwrap();
    assert!(apart < 1e-3, "{verdict}");
}

/// `links` exits with 1 if the counters of two readings differ, and never takes the totals of the later one for an increase.
#[test]
fn counters_that_change_between_readings_are_no_complete_answer() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let tree = |name: &str, counters: &[(&str, u64)]| {
        let net = at.join(name).join("sys/class/net/eth0/statistics");
        fs::create_dir_all(&net).unwrap();
        let kernel = at.join(name).join("proc/sys/kernel");
        fs::create_dir_all(&kernel).unwrap();
        fs::write(kernel.join("hostname"), "n0-0\n").unwrap();
        for (counter, value) in counters {
            fs::write(net.join(counter), value.to_string()).unwrap();
        }
    };
    let links = |later: &str| {
        let output = hopbyte(at, &["links", "first", later, "--fabric", "torus:2x2"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Value> = (text.lines().map(serde_json::from_str))
            .collect::<Result<_, _>>()
            .unwrap();
        let bytes: f64 = rows
            .iter()
            .filter_map(|r| r["received_bytes"].as_f64())
            .sum();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), bytes.abs(), said)
    };
    tree("first", &[("rx_bytes", 1000), ("tx_bytes", 7)]);
    tree("same", &[("rx_bytes", 1500), ("tx_bytes", 10)]);
    assert_eq!(links("same"), (Some(0), 503.0, String::new()));
    tree("fewer", &[("rx_bytes", 1500)]);
    assert_eq!(links("fewer"), (Some(1), 500.0, String::new()));
    tree("others", &[("rx_packets", 90)]);
    let (code, _, said) = links("others");
    assert_eq!(code, Some(2));
    assert!(
        said.contains("counters changed between two readings"),
        "{said}"
    );
}

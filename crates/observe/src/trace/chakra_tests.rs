use super::*;
use crate::text::Limits;
use crate::trace::{read_trace, trace};
use hopbyte_testdata::shared;

fn number(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            out.push(low);
            return out;
        }
        out.push(low | 0x80);
    }
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [
        number(field << 3 | 2),
        number(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}

fn whole(field: u64, value: u64) -> Vec<u8> {
    [number(field << 3), number(value)].concat()
}

/// A node: id, type, dependencies and attributes (name, field of the value, value).
fn node(id: u64, kind: u64, after: &[u64], attributes: &[(&str, u64, u64)]) -> Vec<u8> {
    let mut message = [whole(1, id), bytes(2, b"n"), whole(3, kind)].concat();
    let packed: Vec<u8> = after.iter().flat_map(|&a| number(a)).collect();
    message.extend(bytes(5, &packed));
    for &(name, field, value) in attributes {
        let attribute = [bytes(1, name.as_bytes()), whole(field, value)].concat();
        message.extend(bytes(10, &attribute));
    }
    message
}

fn file(nodes: &[Vec<u8>]) -> Vec<u8> {
    let head = [bytes(1, b"0.0.4")];
    let all = head.iter().chain(nodes);
    all.flat_map(|m| [number(m.len() as u64), m.clone()].concat())
        .collect()
}

fn folder(files: &[(&str, Vec<u8>)]) -> Result<Trace, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let read = read_trace(&folder.path().display().to_string());
    let place = folder.path().display().to_string() + "/";
    read.map_err(|e| e.to_string().replace(&place, ""))
}

fn send(id: u64, to: u64, size: u64, after: &[u64]) -> Vec<u8> {
    node(
        id,
        SEND,
        after,
        &[
            ("comm_dst", 7, to),
            ("comm_size", 9, size),
            ("comm_tag", 7, 3),
        ],
    )
}

fn receive(id: u64, from: u64, after: &[u64]) -> Vec<u8> {
    node(
        id,
        RECEIVE,
        after,
        &[
            ("comm_src", 7, from),
            ("comm_size", 13, 8),
            ("comm_tag", 7, 3),
        ],
    )
}

#[test]
fn messages_keep_their_graph() {
    let compute = [whole(1, 9), whole(3, 4), whole(5, 4), whole(7, 250)].concat();
    let trace = folder(&[
        ("t.0.et", file(&[send(4, 1, 1 << 20, &[]), compute])),
        ("t.1.et", file(&[receive(7, 0, &[])])),
    ])
    .unwrap();
    let sent = Call::Send {
        to: 1,
        tag: 3,
        group: 0,
        request: None,
        bytes: 1048576.0,
    };
    assert_eq!(
        trace.ranks[0].calls,
        [sent, Call::Compute { seconds: 250e-6 }]
    );
    let after = Dependency {
        later: 1,
        earlier: 0,
        begun: false,
    };
    assert_eq!(trace.ranks[0].order, Order::Graph(vec![after]));
    let traffic = trace.traffic().unwrap();
    assert_eq!(traffic.total().total_bytes(), 1048576.0);
}

#[test]
fn collectives_of_groups_take_turns() {
    let all_reduce = |id: u64, group: u64, after: &[u64]| {
        let attributes = [
            ("comm_type", 9, 0),
            ("comm_size", 9, 600),
            ("pg_name", 9, group),
        ];
        node(id, COLLECTIVE, after, &attributes)
    };
    let groups = br#"{"1": [0, 2], "2": [1, 3]}"#.to_vec();
    let rank = |r: u64| {
        // The send is before the collective in the file, and after it in the graph.
        let message = match r {
            0 => send(5, 1, 10, &[6]),
            1 => receive(5, 0, &[6]),
            _ => node(5, 4, &[6], &[]),
        };
        file(&[
            message,
            all_reduce(6, 1 + r % 2, &[]),
            node(7, 4, &[5], &[]),
        ])
    };
    let names = ["a.0.et", "a.1.et", "a.2.et", "a.3.et"];
    let mut files: Vec<(&str, Vec<u8>)> = (0..).zip(names).map(|(r, n)| (n, rank(r))).collect();
    files.push(("groups.json", groups));
    let trace = folder(&files).unwrap();
    assert_eq!(trace.groups, [vec![0, 1, 2, 3], vec![0, 2], vec![1, 3]]);
    let calls = &trace.ranks[0].calls;
    assert!(
        matches!(
            calls[..],
            [
                Call::Collective {
                    group: 1,
                    kind: Collective::Allreduce,
                    ..
                },
                Call::Send {
                    request: Some(0),
                    ..
                },
                Call::Wait { request: 0 },
                Call::Compute { .. }
            ]
        ),
        "{calls:?}"
    );
    assert_eq!(trace.ranks[1].order, Order::InTurn);
    // Two all-reduces of two ranks each exchange the vector both ways, and the message.
    assert_eq!(
        trace.traffic().unwrap().total().total_bytes(),
        2.0 * 1200.0 + 10.0
    );
}

#[test]
fn wrong_files_are_refused_with_their_place() {
    let good = || file(&[send(4, 1, 8, &[])]);
    let pair =
        |first: Vec<u8>| folder(&[("t.0.et", first), ("t.1.et", file(&[receive(1, 0, &[])]))]);
    for (content, found) in [
        (file(&[send(4, 2, 8, &[])]), "comm_dst 2 in node 4"),
        (file(&[send(4, 1, 8, &[3])]), "node 4 after node 3"),
        (
            file(&[send(4, 1, 8, &[]), send(4, 1, 8, &[])]),
            "node 4 again",
        ),
        (
            file(&[send(4, 1, 8, &[5]), send(5, 1, 8, &[4])]),
            "nodes that wait for each other",
        ),
        (
            file(&[node(4, SEND, &[], &[("comm_dst", 7, 1)])]),
            "no comm_size in node 4",
        ),
        (
            file(&[node(4, COLLECTIVE, &[], &[("comm_type", 9, 77)])]),
            "comm_type 77",
        ),
        (file(&[node(4, 12, &[], &[])]), "node type 12"),
        (file(&[send(4, 1, u64::MAX, &[])]), "comm_size -1"),
    ] {
        let error = pair(content).unwrap_err();
        assert!(error.starts_with("t.0.et: found "), "{error}");
        assert!(error.contains(found), "{error} does not have {found}");
    }
    let error = folder(&[("t.0.et", good())]).unwrap_err();
    assert!(error.contains("comm_dst 1"), "{error}");
    let error = folder(&[("t.1.et", good()), ("t.3.et", good())]).unwrap_err();
    assert!(error.contains("rank"), "{error}");
}

/// Every prefix and every flipped byte is read or refused, without panic.
#[test]
fn cut_and_bent_files_end_in_errors() {
    let content = file(&[
        send(4, 0, 8, &[]),
        receive(5, 0, &[4]),
        node(6, 4, &[5], &[]),
    ]);
    let read = |bytes: &[u8]| {
        let text = Text::from_bytes("t.0.et", bytes, Limits::ANY).unwrap();
        trace(&text).map(|t| t.ranks[0].calls.len())
    };
    assert_eq!(read(&content).unwrap(), 3);
    let mut whole = 0;
    for end in 0..content.len() {
        whole += usize::from(read(&content[..end]).is_ok());
    }
    // Only at the ends of messages is a cut file a shorter one.
    assert_eq!(whole, 3);
    for at in 0..content.len() {
        for bit in 0..8 {
            let mut bent = content.clone();
            bent[at] ^= 1 << bit;
            let _ = read(&bent);
        }
    }
}

/// Files of astra-sim, if they are beside the checkout.
#[test]
fn real_files_have_their_collectives_and_messages() {
    let Some(folder) = shared("ai/chakra") else {
        return;
    };
    let read = |name: &str| read_trace(&folder.join(name).display().to_string()).unwrap();
    for (name, ranks, kind, size) in [
        ("4npus_1MB.all_gather", 4, Collective::Allgather, 1048576.0),
        (
            "4npus_1MB.reduce_scatter",
            4,
            Collective::ReduceScatter,
            262144.0,
        ),
        ("8npus_1MB.all_reduce", 8, Collective::Allreduce, 1048576.0),
        ("8npus_1MB.all_to_all", 8, Collective::Alltoall, 131072.0),
    ] {
        let trace = read(name);
        assert_eq!(trace.ranks.len(), ranks, "{name}");
        for rank in &trace.ranks {
            let called = Call::Collective {
                kind,
                how: How::default(),
                group: 0,
                root: 0,
                bytes: size,
                row: None,
                request: None,
                neighbors: false,
            };
            assert_eq!(rank.calls, [called], "{name}");
        }
    }
    let ring = read("custom_ring_allreduce_8npus_1MB.custom_collectives");
    let total = ring.traffic().unwrap().total();
    // A ring of eight: 2 x 7 eighths of the vector from every rank to the next.
    assert_eq!(ring.ranks.len(), 8);
    assert_eq!(total.pairs(), 8);
    assert_eq!(total.total_bytes(), 8.0 * 14.0 * 131072.0);
}

#[test]
fn json_gives_the_same_as_messages() {
    let send = node(
        1,
        SEND,
        &[],
        &[
            ("comm_size", 9, 300),
            ("comm_dst", 7, 1),
            ("comm_tag", 7, 5),
        ],
    );
    let wait = node(
        2,
        COLLECTIVE,
        &[1],
        &[("comm_size", 9, 800), ("comm_type", 9, 0)],
    );
    let receive = node(
        1,
        RECEIVE,
        &[],
        &[
            ("comm_size", 9, 300),
            ("comm_src", 7, 0),
            ("comm_tag", 7, 5),
        ],
    );
    let of = |nodes: [&Vec<u8>; 2]| file(&nodes.map(Clone::clone));
    let binary = folder(&[
        ("x.0.et", of([&send, &wait])),
        ("x.1.et", of([&receive, &wait])),
    ])
    .unwrap();
    let all = r#"{"Id": 2, "NodeType": "COMM_COLL_NODE", "data_deps": [1], "comm_size": 800, "comm_type": "ALL_REDUCE"}"#;
    let json = |first: &str| format!(r#"{{"workload_graph": [{first}, {all}]}}"#).into_bytes();
    let sends = r#"{"Id": 1, "Name": "s", "NodeType": 5, "comm_size": 300.0, "comm_dst": 1, "comm_tag": 5}"#;
    let receives = r#"{"Id": 1, "Name": "r", "NodeType": 6, "comm_size": 300, "comm_src": "0", "comm_tag": 5}"#;
    let files = [("x.0.json", json(sends)), ("x.1.json", json(receives))];
    let read = folder(&files).unwrap();
    assert_eq!(read.ranks, binary.ranks);
    let error = folder(&[("x.0.json", json(&sends.replace('5', "9")))]).unwrap_err();
    assert!(error.contains("node type 9 in node 1"), "{error}");
    let whole = json(sends);
    for end in 0..whole.len() {
        assert!(
            folder(&[("x.0.json", whole[..end].to_vec())]).is_err(),
            "{end}"
        );
    }
}

#[test]
fn values_of_json_are_read_or_refused() {
    let read = |node: &str| {
        let content = format!(r#"{{"workload_graph": [{node}]}}"#);
        folder(&[("x.0.json", content.into_bytes())]).map(|t| t.ranks[0].calls[0])
    };
    for (runtime, micros) in [("2000.5", 2000.5), ("\"3\"", 3.0), ("null", 0.0)] {
        let call = read(&format!(
            r#"{{"Id": 1, "NodeType": 4, "runtime": {runtime}}}"#
        ));
        let seconds = micros * 1e-6;
        assert_eq!(call.unwrap(), Call::Compute { seconds });
    }
    for (field, value) in [
        ("runtime", "-1"),
        ("runtime", "\"long\""),
        ("num_ops", "0.5"),
        ("comm_tag", "[1]"),
    ] {
        let node = format!(r#"{{"Id": 7, "NodeType": 4, "{field}": {value}}}"#);
        let error = read(&node).unwrap_err();
        assert!(
            error.contains(&format!("{field} {value} in node 7")),
            "{error}"
        );
    }
}

#[test]
fn tags_and_roots_keep_their_values_or_are_refused() {
    let send = |tag: u64| {
        let attributes = [
            ("comm_size", 9, 8),
            ("comm_dst", 7, 0),
            ("comm_tag", 7, tag),
        ];
        folder(&[("x.0.et", file(&[node(1, SEND, &[], &attributes)]))])
    };
    for (tag, expected) in [(5, 5), (u64::MAX, u32::MAX)] {
        let calls = &send(tag).unwrap().ranks[0].calls;
        assert!(matches!(calls[..], [Call::Send { tag, .. }] if tag == expected));
    }
    let error = send((1 << 32) + 5).unwrap_err();
    assert!(error.contains("comm_tag 4294967301 in node 1"), "{error}");
    let broadcast = |root: &[(&str, u64, u64)]| {
        let size = [("comm_size", 9, 8), ("comm_type", 9, 5)];
        let attributes = [&size[..], root].concat();
        folder(&[("x.0.et", file(&[node(1, COLLECTIVE, &[], &attributes)]))])
    };
    assert!(broadcast(&[]).is_ok());
    assert!(broadcast(&[("root", 9, 0)]).is_ok());
    let error = broadcast(&[("root", 9, 3)]).unwrap_err();
    assert!(error.contains("root 3 in node 1"), "{error}");
}

//! Messages for refused machine files: position, text found, text expected, hint.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::parse;
use hopbyte_observe::{MachineFiles, read_machine};
use std::io::Write;

/// Input, and the texts that the message must contain.
const BAD: [(&str, &[&str]); 31] = [
    (
        "",
        &[
            "input: found nothing, expected a description of a machine",
            "hint: known formats",
        ],
    ),
    (" \n\n\t\n", &["found nothing"]),
    (
        "hello world\n",
        &["input:1: found hello world, expected a description"],
    ),
    ("\u{7f}ELF\u{0}\u{1}", &["found binary data, expected"]),
    // Gemini
    (
        "c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: wire",
        &[":1: found wire, expected mezzanine, backplane or cable"],
    ),
    (
        "c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: backplane\nc0-0c0s1g0l32[(0,0,1)] W- -> c0-0c0s0g0l00[(0,0,0)] LinkType: backplane",
        &[":2: found W-, expected a direction"],
    ),
    (
        "c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: backplane\nc0-0c0s1g0l32[(0,0,1)] Z-",
        &[":2: found nothing, expected ->"],
    ),
    (
        "c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: backplane\nc0-0c0s1g0l92[(0,0,1)] Z- -> c0-0c0s0g0l00[(0,0,0)] LinkType: backplane",
        &[":2: found c0-0c0s1g0l92[(0,0,1)], expected a tile"],
    ),
    (
        "c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,3)] LinkType: backplane\nc0-0c0s1g0l32[(0,0,3)] Z- -> c0-0c0s0g0l00[(0,0,0)] LinkType: backplane",
        &[":1: found Z+ from [0, 0, 0] to [0, 0, 3], expected the neighbour [0, 0, 1]"],
    ),
    (
        "c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: backplane\nc0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l21[(0,0,1)] LinkType: backplane",
        &[
            ":2: found c0-0c0s0g0l00, expected every tile once",
            "hint: are two dumps",
        ],
    ),
    (
        "c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: backplane\nc0-0c0s7g0l32[(0,0,1)] Z- -> c0-0c0s0g0l00[(0,0,0)] LinkType: backplane",
        &[":2: found c0-0c0s7g0l32[(0,0,1)], expected c0-0c0s1g0, which has these coordinates"],
    ),
    (
        "c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: backplane\nc0-0c0s1g0l32[(0,0,1)] Z- -> c0-0c0s0g0l01[(0,0,0)] LinkType: backplane\nc0-0c0s0g0l01[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: backplane",
        &[":1: found c0-0c0s0g0l00 -> c0-0c0s1g0l32, expected wiring that the far tile"],
    ),
    (
        "c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(65535,60000,1)] LinkType: backplane",
        &["2 routers on a grid of [65536, 60001, 2], expected a machine that fills its grid"],
    ),
    (
        "c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: backplane\nc0-0c0s0g0l01[(0,0,0)] Z+ -> c0-0c0s1g0l21[(0,0,1)] LinkType: cable11z",
        &[":2: found cable, expected backplane, as other tiles"],
    ),
    // Aries
    (
        "c0-0c0s0a0l00(0:0:0) green -> c0-0c0s6a0l10(0:1:6)",
        &[":1: found", "expected green tiles to stay in the chassis"],
    ),
    (
        "c0-0c0s0a0l00(0:0:0) blue -> c0-0c0s6a0l10(0:1:6)",
        &["expected blue tiles to reach another group"],
    ),
    (
        "c0-0c0s0a0l00(0:0:0) green -> unused\nc0-0c0s0a0l01(0:0:0) pink -> unused",
        &[":2: found pink, expected green, black, blue or ptile"],
    ),
    (
        "c0-0c0s0a0l50(0:0:0) ptile -> nobody",
        &[":1: found nobody, expected processor or unused"],
    ),
    // Maps
    (
        "NID    NIC-Addr  Node  Gemini X Y Z\n0 0 c0-0c0s0n0 c0-0c0s0g0 0 0",
        &[
            ":2: found 0 0 c0-0c0s0n0",
            "expected NID NIC-ADDRESS NODE ROUTER",
        ],
    ),
    (
        "NID    NIC-Addr  Node  Gemini X Y Z\n0 0 a g 0 0 0\n0 1 b g 0 0 0",
        &[":3: found nid 0 again, expected every nid once"],
    ),
    (
        "NID    NIC-Addr  Node  Gemini X Y Z\n7 0 c0-0c0s0n0 c0-0c0s0g0 0 0 0",
        &[
            ":2: found nid 7 c0-0c0s0n0",
            "hint: give the machine's interconnect",
        ],
    ),
    (
        "NID    NIC-Addr  Node  Aries Blue Black Green\n0 0 c0-0c0s0n0 c0-0c0s0a0 0 0 0",
        &["found the system map of an Aries machine, expected its interconnect too"],
    ),
    (
        "3 4\nnid00000 0 0 0 0\nnid00001 0 0 0 1",
        &[
            "found 2 nodes, expected 3, as the first line says",
            "hint: is the file cut?",
        ],
    ),
    // ibnetdiscover
    (
        "Switch\t36 \"S-1\" # \"a\"\nnonsense",
        &[":2: found nonsense, expected a record of ibnetdiscover"],
    ),
    (
        "vendid=0x2c9\n[1]\t\"S-1\"[1]",
        &[":2:", "expected a Switch or Ca line before the ports"],
    ),
    (
        "Switch\t36 \"S-1\" # \"a\"\n[1]\t\"S-2\"[999]",
        &[":2: found 999, expected a port number from 0 to 254"],
    ),
    (
        "Switch\t36 \"S-1\" # \"a\"\n[1]\t\"S-1\"[1]",
        &[":2: found a[1] cabled to itself, expected two ports"],
    ),
    (
        "switchguid=0xfffffffffffffffff(1)\nSwitch\t36 \"S-1\" # \"a\"",
        &[":1:", "expected a GUID of up to 16 hex digits"],
    ),
    (
        "Switch\t36 \"spine\" # \"a\"\n[1]\t\"leaf\"[1]",
        &["found leaf, expected a record for every device", "hint:"],
    ),
    // ibnetdiscover -p
    (
        "SW     1  1 0x1 4x QDR - CA     3  1 0x1 ( 'a' - 'b' )",
        &[":1: found 0x1, expected a GUID that is either"],
    ),
    // Tables alone
    (
        "Unicast lids [0x0-0x6a] of switch Lid 60 guid 0x1 (a):\n",
        &[
            "found forwarding tables or LIDs, expected a machine",
            "hint: give the fabric",
        ],
    ),
];

#[test]
fn refusals_say_where_what_and_why() {
    for (input, expected) in BAD {
        let error = match parse(input) {
            Ok(_) => panic!("{input}: was read"),
            Err(error) => error,
        };
        assert!(error.starts_with("input"), "{error}");
        for part in expected {
            assert!(
                error.contains(part),
                "{input}\n  says {error}\n  lacks {part}"
            );
        }
    }
}

#[test]
fn a_hundred_megabytes_without_a_line_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, byte) in [("letters", b'x'), ("blanks", b' '), ("digits", b'7')] {
        let path = folder.path().join(name);
        let mut file = std::fs::File::create(&path).unwrap();
        let block = vec![byte; 1 << 20];
        for _ in 0..100 {
            file.write_all(&block).unwrap();
        }
        let error = read_machine(&MachineFiles::new(path.to_str().unwrap())).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(":1: found a line of more than 1048576 bytes"),
            "{text}"
        );
        assert!(text.contains("hint: "), "{text}");
    }
}

#[test]
fn hostile_names_are_made_printable_and_finite() {
    let long = "n".repeat(5000);
    let scan = format!(
        "Switch\t2 \"S-0000000000000001\" # \"\u{1b}[31mred\u{7}\" base port 0 lid 1 lmc 0\n\
         [1]\t\"H-0000000000000002\"[1](3)\t# \"{long}\" lid 2 4xEDR\n\
         [2]\t\"H-0000000000000004\"[1](5)\t# \"../../etc/passwd `rm` \u{fffd}\" lid 3 4xEDR\n"
    );
    let m = parse(&scan).unwrap();
    let names = m.fabric.routers().iter().map(|r| &r.name);
    for name in names.chain(m.fabric.nodes().iter().map(|n| &n.name)) {
        assert!(
            name.chars().count() <= 256 && !name.chars().any(char::is_control),
            "{name}"
        );
    }
    assert_eq!(
        m.fabric.router(m.fabric.find_router("lid:1").unwrap()).name,
        "\u{fffd}[31mred\u{fffd}"
    );
}

/// hopbyte's own format, edited by hand.
#[test]
fn documents_that_make_no_machine_are_refused() {
    let seed = hopbyte_testdata::workspace().join("fuzz/seeds/document/torus.json");
    let good = std::fs::read_to_string(seed).unwrap();
    assert!(parse(&good).is_ok());
    for (from, to, expected) in [
        (
            "machine/1",
            "machine/9",
            "input: found schema: hopbyte.machine/9, expected hopbyte.machine/1",
        ),
        (
            "\"family\":\"torus\"",
            "\"family\":\"donut\"",
            ":2: found unknown variant `donut`",
        ),
        (
            "\"routers\"",
            "\"rooters\"",
            ":8: found unknown field `rooters`",
        ),
        (
            "\"dimension-order\"",
            "\"up-and-away\"",
            "expected a routing that fits this fabric",
        ),
        (
            "\"direction\":\"X+\"",
            "\"direction\":\"Q+\"",
            "direction of link",
        ),
        (
            "\"name\":\"n0-1\"",
            "\"name\":\"n0-0\"",
            "two nodes have the name 'n0-0', expected parts of a valid machine\nhint: names must",
        ),
        (
            "\"host\":\"n0-0\"",
            "\"host\":\"\\u001b[2J\"",
            "printable characters",
        ),
        ("\n", "", "hint: "),
    ] {
        let bad = match from {
            "\n" => good[..good.len() / 2].to_owned(),
            _ => good.replacen(from, to, 1),
        };
        assert_ne!(bad, good, "{from} is not in the seed");
        let text = parse(&bad).unwrap_err();
        assert!(text.contains(expected), "{from}: {text}");
    }
}

#[test]
fn tables_are_for_infiniband_only() {
    let scratch = tempfile::tempdir().unwrap();
    let tables = scratch.path().join("tables");
    std::fs::write(
        &tables,
        "Unicast lids [0x0-0x1] of switch Lid 1 guid 0x1 (a):\n",
    )
    .unwrap();
    let files = |spec: &str| MachineFiles {
        routes: vec![tables.clone()],
        ..MachineFiles::new(spec)
    };
    let error = read_machine(&files("torus:4x4")).unwrap_err().to_string();
    assert!(
        error.contains("InfiniBand fabrics take forwarding tables"),
        "{error}"
    );
    let error = read_machine(&files("gemini:2x2x8"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("tables:1: found Unicast, expected a hop"),
        "{error}"
    );
    let missing = read_machine(&MachineFiles::new("no-such-file")).unwrap_err();
    assert!(missing.to_string().contains("no-such-file: "), "{missing}");
    let preset = read_machine(&MachineFiles::new("gemini:2x")).unwrap_err();
    assert!(preset.to_string().contains("hint: "), "{preset}");
}

/// A file that is given and not used would be a silent difference between the question and the answer.
#[test]
fn companions_that_a_machine_does_not_use_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let slurm = write("topology.conf", b"SwitchName=s0 Nodes=n[0-3]\n");
    let data = |name: &str| hopbyte_testdata::workspace().join("data").join(name);
    let gemini = data("cray/gemini-2x2x8.interconnect.txt.zst");
    let hwloc = data("node-topology/hwloc-2.xml");
    let extra = write("extra", b"0x1 name\n");
    let of = |main: &str, map: bool, names: bool| {
        let files = MachineFiles {
            system_map: map.then(|| extra.clone()),
            names: names.then(|| extra.clone()),
            ..MachineFiles::new(main)
        };
        read_machine(&files).unwrap_err().to_string()
    };
    for main in [
        "torus:4x4",
        slurm.to_str().unwrap(),
        hwloc.to_str().unwrap(),
    ] {
        let error = of(main, true, false);
        assert!(
            error.contains("found --system-map, expected an interconnect"),
            "{error}"
        );
        let error = of(main, false, true);
        assert!(error.contains("found --names, expected a scan"), "{error}");
    }
    let error = of(gemini.to_str().unwrap(), false, true);
    assert!(error.contains("found --names"), "{error}");
}

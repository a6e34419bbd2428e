//! Text as it comes from terminals, editors, other systems and other tools.

#![allow(clippy::unwrap_used)]

use crate::common::{parse, with_tables};
use hopbyte_observe::fabric::{Companions, read_machine_text};
use hopbyte_observe::text::{Limits, Text};

const SUBNET: &str = include_str!("../../../fuzz/seeds/ibnetdiscover/two-switches.txt");

fn refusal(bytes: &[u8]) -> String {
    let text = Text::from_bytes("f", bytes, Limits::ANY).unwrap();
    let read = read_machine_text(&text, None, Companions::default());
    read.unwrap_err().to_string()
}

#[test]
fn prompts_around_an_output_are_skipped() {
    let plain = parse(SUBNET).unwrap();
    for (before, after) in [
        ("[root@head ~]# ibnetdiscover\n", "[root@head ~]# \n"),
        ("head:~ # ibnetdiscover\n", "head:~ #\n"),
        ("user@head:/tmp$ cat net\n", "user@head:/tmp$ exit\n"),
    ] {
        let typed = parse(&format!("{before}{SUBNET}{after}")).unwrap();
        assert_eq!(
            typed.fabric.fingerprint(),
            plain.fabric.fingerprint(),
            "{before}"
        );
        assert_eq!(typed.notes, plain.notes, "{before}");
    }
}

#[test]
fn lines_may_end_in_carriage_returns_alone() {
    let plain = parse(SUBNET).unwrap();
    let mac = parse(&SUBNET.replace('\n', "\r")).unwrap();
    assert_eq!(mac.fabric.fingerprint(), plain.fabric.fingerprint());
    let error = parse("SwitchName=a Nodes=n1\rSwitchName=b Color=red\r").unwrap_err();
    assert!(error.starts_with("input:2: found Color=red"), "{error}");
}

#[test]
fn compressions_encodings_and_padding_are_named() {
    let utf16: Vec<u8> = SUBNET.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [&[0xff, 0xfe][..], &utf16].concat();
    let padded = [SUBNET.as_bytes(), &[0; 300]].concat();
    for (bytes, found, todo) in [
        (&b"\xfd7zXZ\0\0\x04abc"[..], "xz compression", "xz -dc"),
        (&b"BZh91AY&SYabc"[..], "bzip2 compression", "bzip2 -dc"),
        (&b"PK\x03\x04abc"[..], "a zip archive", "unzip"),
        (&utf16[..], "text in UTF-16", "iconv -f UTF-16"),
        (&marked[..], "text in UTF-16", "iconv -f UTF-16"),
        (
            &padded[..],
            "zero bytes to the end behind line",
            "not written to its end",
        ),
    ] {
        let error = refusal(bytes);
        assert!(error.contains(&format!("found {found}")), "{error}");
        assert!(error.contains(todo), "{error}");
        let text = Text::from_bytes("f", bytes, Limits::TEXT)
            .unwrap_err()
            .to_string();
        assert!(text.contains(found) && text.contains(todo), "{text}");
    }
    assert!(refusal(b"BZhave a look\n").contains("found BZhave a look"));
}

/// `topology:` and `switches:` begin files of many tools.
#[test]
fn yaml_of_other_tools_is_not_taken_for_slurm_s_or_topograph_s() {
    for other in [
        "topology: Ring\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\n",
        "name: lab\ntopology:\n  nodes:\n    a:\n      kind: linux\n",
    ] {
        let error = parse(other).unwrap_err();
        assert!(
            error.contains("expected a description of a machine"),
            "{error}"
        );
        assert!(error.contains("known formats"), "{error}");
    }
}

#[test]
fn quotes_in_descriptions_and_guids_in_capitals() {
    let quoted = SUBNET.replace("leaf two", "leaf \"02\" two");
    let m = parse(&quoted).unwrap();
    assert!(m.fabric.find_router("leaf \"02\" two").is_ok());
    let digits = |c: char| {
        if c.is_ascii_hexdigit() {
            c.to_ascii_uppercase()
        } else {
            c
        }
    };
    let line = |line: &str| match line.split_once("\"S-") {
        Some((before, id)) if line.starts_with("Switch") => {
            let (id, rest) = id.split_once('"').unwrap();
            let id: String = id.chars().map(digits).collect();
            format!("{before}\"S-{id}\"{rest}\n")
        }
        _ => format!("{line}\n"),
    };
    let wide = SUBNET.replace("000000000000000", "00000000000000a");
    let capital: String = wide.lines().map(line).collect();
    assert_ne!(capital, wide);
    let (one, other) = (parse(&wide).unwrap(), parse(&capital).unwrap());
    assert_eq!(one.fabric.links().len(), other.fabric.links().len());
    assert_eq!(one.fabric.routers().len(), other.fabric.routers().len());
}

#[test]
fn a_prompt_behind_tables_is_no_port_that_is_missing() {
    let tables = "Unicast lids [0x0-0x6] of switch Lid 2 guid 0x0000000000000002 (leaf two):\n  Lid  Out   Destination\n       Port     Info \n0x0002 000 : (Switch portguid 0x2: 'leaf two')\n0x0004 005 : (Channel Adapter portguid 0x32: 'h2 HCA-1')\n2 valid lids dumped \nhead:~ # \n";
    let m = with_tables(SUBNET, tables).unwrap();
    let notes = m.notes.join("\n");
    assert!(!notes.contains("could not read"), "{notes}");
}

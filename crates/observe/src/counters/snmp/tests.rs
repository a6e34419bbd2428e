use super::*;
use crate::text::Limits;

const TABLES: &str = "DISMAN-EVENT-MIB::sysUpTimeInstance = Timeticks: (100) 0:00:01.00\n\
    SNMPv2-MIB::sysName.0 = STRING: leaf1\nIF-MIB::ifDescr.7 = STRING: Ethernet 7\nIF-MIB::ifInErrors.7 = Counter32: 3\n\
    IF-MIB::ifName.7 = STRING: \"Ethernet1/7\"\nIF-MIB::ifHCInOctets.7 = Counter64: 1000\n\
    IF-MIB::ifHCOutOctets.7 = Counter64: 2000\nIF-MIB::ifHighSpeed.7 = Gauge32: 100000\nIF-MIB::ifAlias.7 = STRING: up\n\
    IF-MIB::ifInErrors.8 = Counter32: 0\n";

const NUMERIC: &str = ".1.3.6.1.2.1.1.3.0 = Timeticks: (300) 0:00:03.00\n.1.3.6.1.2.1.1.5.0 = STRING: \"leaf1\"\n\
    .1.3.6.1.2.1.31.1.1.1.1.7 = STRING: \"Ethernet1/7\"\n.1.3.6.1.2.1.31.1.1.1.6.7 = Counter64: 5000\n\
    iso.3.6.1.2.1.31.1.1.1.10.7 = Counter64: 2000\n";

fn read(content: &str, node: Option<&str>) -> Result<(Vec<Reading>, Vec<String>), String> {
    let text = Text::from_bytes("s", content.as_bytes(), Limits::TEXT).unwrap();
    let mut left_out = LeftOut::default();
    let found = readings(&text, node, &mut left_out).map_err(|e| e.to_string())?;
    Ok((found, left_out.sentences().collect()))
}

#[test]
fn names_and_numbers_of_objects_are_one_switch_over_time() {
    let (found, said) = read(&(TABLES.to_owned() + NUMERIC), None).unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|r| {
            (
                r.layout.node.as_str(),
                r.moment.steady_ns,
                &r.layout.ports[..],
                r.get(0),
                r.get(1),
            )
        })
        .collect();
    let port = [Port::Named("Ethernet1/7".into())];
    assert_eq!(
        seen,
        [
            (
                "leaf1",
                Some(1_000_000_000),
                &port[..],
                Some(1000),
                Some(2000)
            ),
            (
                "leaf1",
                Some(3_000_000_000),
                &port[..],
                Some(5000),
                Some(2000)
            ),
        ]
    );
    let layout = &found[0].layout;
    let speed = layout
        .counters
        .iter()
        .position(|c| c.quantity == Q::Capacity)
        .unwrap();
    assert_eq!(
        found[0].get(speed).unwrap() as f64 * layout.counters[speed].factor,
        12.5e9
    );
    assert!(
        said.iter()
            .any(|s| s.contains("without 64-bit") && s.contains("if8")),
        "{said:?}"
    );
    assert!(said.iter().any(|s| s.contains("ifAlias")), "{said:?}");
}

/// Forms of net-snmp's `-O`: without types, signs, MIBs, and with brackets.
#[test]
fn quick_and_short_forms_are_the_same_walk() {
    let (expected, _) = read(TABLES, None).unwrap();
    let quick = TABLES.replace("Timeticks: (100) 0:00:01.00", "0:0:00:01.00");
    let kinds = ["STRING: ", "Counter32: ", "Counter64: ", "Gauge32: "];
    let quick = kinds
        .iter()
        .fold(quick, |text, kind| text.replace(kind, ""));
    let short = |text: &str| {
        let starts = ["IF-MIB::", "SNMPv2-MIB::", "DISMAN-EVENT-MIB::"];
        starts
            .iter()
            .fold(text.to_owned(), |text, start| text.replace(start, ""))
    };
    let brackets = TABLES.replace(".7 = ", "[7] = ").replace(".8 = ", "[8] = ");
    let forms = [
        quick.clone(),
        quick.replace(" = ", " "),
        short(TABLES),
        short(&quick.replace(" = ", " ")),
        short(&brackets),
        brackets,
    ];
    for form in forms {
        let (found, said) = read(&form, None).unwrap();
        assert_eq!(found, expected, "{form}");
        assert!(said.iter().any(|s| s.contains("ifAlias")), "{said:?}");
        assert!(form.lines().all(|l| is_line(l.as_bytes())), "{form}");
    }
    for other in [
        "if a b",
        "ifconfig.1 x",
        "system.7 x",
        "ifName.7",
        "iface.1.2 = 3",
    ] {
        assert!(!is_line(other.as_bytes()), "{other}");
    }
    assert!(read(&quick.replace("0:0:00:01.00", "1:00.0"), None).is_err());
}

#[test]
fn what_is_missing_or_doubled_is_refused() {
    let nameless = TABLES.replace("SNMPv2-MIB::sysName.0", "SNMPv2-MIB::sysContact.0");
    assert!(read(&nameless, None).unwrap_err().contains("sysName"));
    assert_eq!(
        read(&nameless, Some("given")).unwrap().0[0].layout.node,
        "given"
    );
    let doubled = TABLES.to_owned() + "IF-MIB::ifHCInOctets.7 = Counter64: 1\n";
    assert!(read(&doubled, None).unwrap_err().contains("once in a walk"));
    for bad in [
        "ifHCInOctets.x = Counter64: 1",
        "ifHCInOctets.7 = Counter64: x",
        "ifHCInOctets.9 = No Such Object",
    ] {
        assert!(
            read(&format!("IF-MIB::{bad}\n"), Some("n")).is_err(),
            "{bad}"
        );
    }
    let narrow = "IF-MIB::ifInOctets.1 = Counter32: 5\n";
    assert!(
        read(narrow, Some("n"))
            .unwrap_err()
            .contains("ifHCInOctets")
    );
}

/// Some devices name no interface.
#[test]
fn an_empty_name_gives_way_to_the_next_or_to_the_number() {
    for empty in ["STRING: \"\"", "STRING: ", "\"\"", ""] {
        let unnamed = TABLES.replace("STRING: \"Ethernet1/7\"", empty);
        for (content, expected) in [
            (unnamed.clone(), "Ethernet 7"),
            (unnamed.replace("STRING: Ethernet 7", empty), "if7"),
        ] {
            let (found, _) = read(&content, None).unwrap();
            let port = Port::Named(expected.into());
            assert_eq!(found[0].layout.ports, [port], "{empty}");
        }
        let (found, _) = read(&TABLES.replace("STRING: leaf1", empty), Some("leaf2")).unwrap();
        assert_eq!(found[0].layout.node, "leaf2");
    }
}

use super::*;
use crate::counters::{Counted, CounterOptions, counter_series, sum};
use crate::text::Limits;
use hopbyte_fabric::{LinkId, Missing, Quantity as Q};

const SCAN: &str = "switchguid=0x10\nSwitch 4 \"S-10\" # \"leaf\" base port 0 lid 1 lmc 0\n\
    [1] \"H-20\"[1](21) # \"n1\" lid 2 4xSDR\n[2] \"H-30\"[1](31) # \"n2\" lid 3 4xSDR\n\
    caguid=0x20\nCa 1 \"H-20\" # \"n1\"\n[1](21) \"S-10\"[1] # lid 2 lmc 0 \"leaf\" lid 1 4xSDR\n\
    caguid=0x30\nCa 1 \"H-30\" # \"n2\"\n[1](31) \"S-10\"[2] # lid 3 lmc 0 \"leaf\" lid 1 4xSDR\n";

fn fabric() -> Fabric {
    let text = Text::from_bytes("scan", SCAN.as_bytes(), Limits::TEXT).unwrap();
    let companions = crate::fabric::Companions::default();
    crate::fabric::read_machine_text(&text, None, companions)
        .unwrap()
        .fabric
}

fn clean(thresholds: &str, suppressed: &str) -> String {
    format!(
        "\n## Summary: 3 nodes checked, 0 bad nodes found\n##          4 ports checked, 0 ports have errors beyond threshold\n\
         ## Thresholds: {thresholds}\n## Suppressed: {suppressed}\n"
    )
}

const FAULTY: &str = "Errors for 0x10 \"leaf\"\n   GUID 0x10 port 1: [PortRcvErrors == 5] [LinkDownedCounter == 3]\n\n\
    ## Summary: 3 nodes checked, 1 bad nodes found\n## Thresholds: \n## Suppressed: \n";

fn read(files: &[&str]) -> (Fabric, Counted) {
    let fabric = fabric();
    let texts: Vec<Text> = (files.iter().enumerate())
        .map(|(i, f)| Text::from_bytes(format!("f{i}"), f.as_bytes(), Limits::TEXT).unwrap())
        .collect();
    let options = CounterOptions {
        interval_seconds: Some(60.0),
        ..CounterOptions::default()
    };
    let read = sum(counter_series(&texts, &fabric, &options).unwrap()).unwrap();
    (fabric, read)
}

/// The link that ends at port 1 of the switch.
fn arriving(fabric: &Fabric) -> LinkId {
    fabric.find_link("n1[1]").unwrap()
}

#[test]
fn a_report_without_ports_says_nothing_of_any_link() {
    for files in [&[&*clean("", "")][..], &[&*clean("", ""), &*clean("", "")]] {
        let (fabric, read) = read(files);
        assert!(fabric.link_ids().all(|l| read.get(Q::Errors, l).is_none()));
        let said: Vec<String> = read.left_out.sentences().collect();
        assert!(said.join(" ").contains("no file lists"), "{said:?}");
        assert_eq!(matches!(read, Counted::Totals(_)), files.len() == 1);
    }
    let none = "## Summary: 0 nodes checked, 0 bad nodes found\n";
    assert!(!is_summary(none.trim().as_bytes()));
}

#[test]
fn errors_after_a_clean_report_are_those_of_the_interval() {
    let (fabric, counted) = read(&[&clean("", ""), FAULTY]);
    let link = arriving(&fabric);
    assert_eq!(counted.get(Q::Errors, link), Some(5.0));
    assert_eq!(counted.window_seconds(), Some(60.0));
    assert_eq!(counted.get(Q::Downs, link), Some(3.0));
    // A port that no file lists is not one without errors.
    let other = fabric.find_link("n2[1]").unwrap();
    assert_eq!(counted.get(Q::Errors, other), None);
    // Cleared counters were reset.
    let (_, counted) = read(&[FAULTY, &clean("", "")]);
    assert_eq!(counted.get(Q::Errors, link), None);
}

#[test]
fn below_a_threshold_nothing_is_known() {
    for clean in [
        clean("[PortRcvErrors == 10]", ""),
        clean("", "PortRcvErrors"),
    ] {
        let (fabric, counted) = read(&[&clean, FAULTY]);
        let link = arriving(&fabric);
        assert_eq!(counted.get(Q::Errors, link), None, "{clean}");
        assert_eq!(counted.missing(Q::Errors, link), Some(Missing::Unread));
    }
}

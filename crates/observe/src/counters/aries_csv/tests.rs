use crate::counters::{Counted, CounterOptions, counters};
use crate::text::{Limits, Text};
use hopbyte_fabric::{End, Fabric, LinkId, Missing, Quantity, spec};

const HEADER: &str = "sg,sr,sc,dg,dr,dc,color,flits,stalls,stalls/flit,flits_vc_0,flits_vc_1,flits_vc_2,flits_vc_3,flits_vc_4,flits_vc_5,flits_vc_6,flits_vc_7,stalls_vc_0,stalls_vc_1,stalls_vc_2,stalls_vc_3,stalls_vc_4,stalls_vc_5,stalls_vc_6,stalls_vc_7";

fn read(content: &str, fabric: &Fabric) -> Result<Counted, String> {
    let text = Text::from_bytes("net.csv", content.as_bytes(), Limits::TEXT).unwrap();
    counters(&text, fabric, &CounterOptions::default()).map_err(|e| e.to_string())
}

fn link(fabric: &Fabric, from: [u32; 3], to: [u32; 3], kind: &str) -> LinkId {
    let to = End::Router(fabric.router_at(&to).unwrap());
    *fabric
        .links_from(fabric.router_at(&from).unwrap())
        .iter()
        .find(|&&l| fabric.link(l).to == to && fabric.kind(l).name == kind)
        .unwrap()
}

fn row(place: &str, flits: [u64; 8], stalls: [u64; 8]) -> String {
    let join = |v: &[u64; 8]| v.map(|n| n.to_string()).join(",");
    let (f, s): (u64, u64) = (flits.iter().sum(), stalls.iter().sum());
    format!("{place},{f},{s},0,{},{}\n", join(&flits), join(&stalls))
}

#[test]
fn arrivals_belong_to_the_link_that_ends_at_the_counting_router() {
    let fabric = spec::fabric("aries:2x6x16").unwrap();
    let content = format!("{HEADER}\n")
        + &row("0,0,0,0,0,5,g", [3, 0, 0, 0, 0, 0, 0, 0], [8; 8])
        + &row(
            "0,0,0,0,3,0,k",
            [6, 0, 0, 0, 0, 0, 0, 9],
            [8, 0, 0, 0, 0, 0, 0, 0],
        )
        + &row(
            "0,0,0,0,3,0,k",
            [1, 1, 1, 0, 0, 0, 0, 0],
            [16, 0, 0, 0, 0, 0, 0, 0],
        );
    let cut = read(&content, &fabric).unwrap();
    let content = content + &row("0,0,0,0,3,0,k", [0; 8], [0; 8]);
    let s = read(&content, &fabric).unwrap();
    assert_eq!((s.matched, s.unmatched), (4, 0));
    let green = link(&fabric, [0, 0, 5], [0, 0, 0], "green");
    assert_eq!(s.get(Quantity::ReceivedBytes, green), Some(20.0));
    assert_eq!(s.get(Quantity::InputStallNs, green), Some(80.0));
    // Three parallel tiles: flits add up, stalls are their mean. Two of them are not the link.
    let black = link(&fabric, [0, 3, 0], [0, 0, 0], "black");
    assert_eq!(
        s.get(Quantity::ReceivedBytes, black),
        Some(18.0 * 20.0 / 3.0)
    );
    assert_eq!(s.get(Quantity::InputStallNs, black), Some(8.0 * 1.25));
    assert_eq!(
        cut.missing(Quantity::ReceivedBytes, black),
        Some(Missing::Unread)
    );
    assert_eq!(cut.get(Quantity::ReceivedBytes, green), Some(20.0));
    let outgoing = fabric.reverse(green).unwrap();
    assert_eq!(s.get(Quantity::ReceivedBytes, outgoing), None);
}

#[test]
fn both_headers_and_either_columns_are_read() {
    let fabric = spec::fabric("aries:2x6x16").unwrap();
    let rows = row("0,0,0,0,0,5,g", [3; 8], [8; 8]);
    let new = read(&format!("{HEADER}\n{rows}"), &fabric).unwrap();
    let old = HEADER.replace("sg,sr,sc", "sg,sr,sg");
    let old = read(&format!("{old}\n{rows}"), &fabric).unwrap();
    assert_eq!(
        new.column(Quantity::ReceivedBytes),
        old.column(Quantity::ReceivedBytes)
    );
    let quoted = |text: &str| format!("\"{}\"\n", text.trim_end().replace(',', "\",\""));
    let quoted = read(&(quoted(HEADER) + &quoted(&rows)), &fabric).unwrap();
    assert_eq!(
        new.column(Quantity::ReceivedBytes),
        quoted.column(Quantity::ReceivedBytes)
    );
    let short = "sg,sr,sc,dg,dr,dc,color,flits,stalls\n0,0,0,0,0,5,g,24,64\n";
    let short = read(short, &fabric).unwrap();
    assert_eq!(
        new.column(Quantity::InputStallNs),
        short.column(Quantity::InputStallNs)
    );
    let other = "color,stalls,flits,dc,dr,dg,sc,sr,sg\ngreen,64,24,5,0,0,0,0,0\n";
    let other = read(other, &fabric).unwrap();
    for quantity in [Quantity::InputStallNs, Quantity::ReceivedBytes] {
        assert_eq!(new.column(quantity), other.column(quantity));
    }
}

#[test]
fn bad_rows_are_named() {
    let fabric = spec::fabric("aries:2x6x16").unwrap();
    let good = row("0,0,0,0,0,5,g", [3; 8], [8; 8]);
    for (content, line, found) in [
        (
            format!("{HEADER}\n{}", good.replacen(",24,", ",25,", 1)),
            2,
            "a total of 25",
        ),
        (format!("{HEADER}\n{}", good.replace(",g,", ",x,")), 2, "x"),
        (
            format!("{HEADER}\n{}", good.replace("0,0,0", "-1,0,0")),
            2,
            "-1",
        ),
        (
            format!("{HEADER}\n{}", good.replace(",3,3", ",3")),
            2,
            "cells",
        ),
        (format!("{HEADER}\n{good}0,0\n"), 3, "2 cells"),
        (
            format!("{HEADER}\n{}", good.replacen(",24,", ",nan,", 1)),
            2,
            "nan",
        ),
        ("sg,sr,xx,dg,dr,dc,color,flits,stalls\n".into(), 1, "xx"),
        ("sg,sr\n".into(), 1, "sg,sr, expected a column 'sc'"),
        ("sg,sr,sc,dg,dr,dc,color,stalls\n".into(), 1, "sg,sr"),
        ("sg,sr,sc,dg,dr,dc,color,flits\n".into(), 1, "sg,sr"),
        (format!("{HEADER}\n"), 0, "0 rows"),
        (
            format!("{HEADER}\n{}", good.replace("0,0,0,0,0,5", "7,0,0,7,0,5")),
            0,
            "1 rows, none",
        ),
        (
            format!(
                "{HEADER}\n{}",
                row("0,0,0,0,0,5,g", [0; 8], [0; 8])
                    .replace("g,0,0,0,0", &format!("g,0,0,0,{},1", u64::MAX))
            ),
            2,
            "",
        ),
    ] {
        let error = read(&content, &fabric).unwrap_err();
        assert!(
            error.contains(found) && error.contains("expected"),
            "{error}"
        );
        if line > 0 {
            assert!(error.starts_with(&format!("net.csv:{line}: ")), "{error}");
        }
    }
}

use crate::counters::{Counted, CounterOptions, counters};
use crate::text::{Limits, Text};
use hopbyte_fabric::{Fabric, Quantity, spec};

const HEAD: &str = "---\nkey: TEST\n---\n- [linkid, int32]\n- [sx, int32]\n- [sy, int32]\n- [tx, int32]\n- [ty, int32]\n- [code_region, int32]\n- [packets, int64]\n...\n";

fn read(content: &str, fabric: &Fabric, region: Option<i64>) -> Result<Counted, String> {
    let text = Text::from_bytes("links.yaml", content.as_bytes(), Limits::TEXT).unwrap();
    let options = CounterOptions {
        region,
        ..CounterOptions::default()
    };
    counters(&text, fabric, &options).map_err(|e| e.to_string())
}

#[test]
fn regions_are_chosen_and_rows_of_one_region_added_up() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let rows = "0 0 0 1 0 -2 100 \n0 0 0 1 0 1 7 \n1 0 0 3 0 1 5\n0 0 0 1 0 1 2 \n0 0 0 1 0 2 40 \n\
        0 2 0 3 0 -2 1\n";
    let content = format!("{HEAD}{rows}");
    let right = fabric.find_link("r0-0 X+").unwrap();
    let left = fabric.find_link("r0-0 X-").unwrap();
    let packets = |region, link| {
        read(&content, &fabric, region)
            .unwrap()
            .get(Quantity::SentPackets, link)
    };
    assert_eq!(packets(None, right), Some(100.0));
    assert_eq!(packets(Some(1), right), Some(9.0));
    assert_eq!(
        packets(Some(1), left),
        None,
        "one row, where another link has two: the file was cut"
    );
    assert_eq!(packets(Some(2), left), None);
    let error = read(&content, &fabric, Some(9)).unwrap_err();
    assert!(
        error.contains("no code region 9") && error.contains("there are -2, 1, 2"),
        "{error}"
    );
    let said: Vec<String> = read(&content, &fabric, None)
        .unwrap()
        .left_out
        .sentences()
        .collect();
    let others = "row of another code region than -2, the whole run: region 1, region 2";
    assert!(said.iter().any(|s| s.contains(others)), "{said:?}");
    // Less than its parts is not the whole run.
    let less = read(&content.replace("-2 100", "-2 48"), &fabric, None).unwrap();
    assert_eq!(less.get(Quantity::SentPackets, right), Some(49.0));
    let said: Vec<String> = less.left_out.sentences().collect();
    let none = "2 left out, row of a negative code region that is not the whole run";
    assert!(said.iter().any(|s| s.starts_with(none)), "{said:?}");
    // Without a row for the whole run the regions add up.
    let parts = content.replace("-2 1", "0 1");
    let all = read(&parts, &fabric, None).unwrap();
    assert_eq!(all.get(Quantity::SentPackets, right), Some(149.0));
    assert_eq!((all.matched, all.unmatched), (6, 0));
    let state = all.state(&fabric);
    assert_eq!(state.packets.get(right), Some(149.0));
    assert_eq!(
        state.received_bytes.get(right),
        None,
        "packets of unknown size"
    );
}

#[test]
fn in_a_dimension_of_two_the_number_says_which_link() {
    let fabric = spec::fabric("torus:2x4").unwrap();
    let content = format!("{HEAD}0 0 0 1 0 0 11\n1 0 0 1 0 0 22\n0 0 1 1 1 0 3\n");
    let s = read(&content, &fabric, None).unwrap();
    let get = |name| s.get(Quantity::SentPackets, fabric.find_link(name).unwrap());
    assert_eq!(get("r0-0 X+"), Some(11.0));
    assert_eq!(get("r0-0 X-"), Some(22.0));
}

#[test]
fn bad_tables_are_named() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    for (content, line, found) in [
        (format!("{HEAD}0 0 0 1 0 -2\n"), 12, "6 words"),
        (format!("{HEAD}0 0 0 1 0 -2 1 1\n"), 12, "8 words"),
        (format!("{HEAD}0 0 0 1 0 x 1\n"), 12, "x"),
        (format!("{HEAD}0 0 -1 1 0 0 1\n"), 12, "-1"),
        (format!("{HEAD}0 0 0 1 0 0 1.5\n"), 12, "1.5"),
        (HEAD.replace("- [packets, int64]\n", ""), 10, "linkid"),
        (HEAD.replace("tx", "ux"), 11, "linkid"),
        (HEAD.replace("sx", "a").replace("sy", "b"), 11, "linkid"),
        (HEAD.replace("...\n", ""), 0, "no line '...'"),
        (HEAD.into(), 0, "0 rows"),
        (format!("{HEAD}0 0 0 2 2 0 1\n"), 0, "1 rows, none"),
    ] {
        let error = read(&content, &fabric, None).unwrap_err();
        assert!(
            error.contains(found) && error.contains("expected"),
            "{error}"
        );
        if line > 0 {
            assert!(
                error.starts_with(&format!("links.yaml:{line}: ")),
                "{line}: {error}"
            );
        }
    }
}

use super::*;
use crate::text::Limits;

fn read(content: &str, node: Option<&str>) -> Result<(Vec<Reading>, Vec<String>), String> {
    let text = Text::from_bytes("g", content.as_bytes(), Limits::TEXT).unwrap();
    let mut left_out = LeftOut::default();
    let found = readings(&text, node, &mut left_out).map_err(|e| e.to_string())?;
    Ok((found, left_out.sentences().collect()))
}

/// The same counters in five forms.
fn forms() -> [String; 5] {
    let leaves = r#""in-octets":"1000","out-octets":2000,"in-errors":"3","in-fcs-errors":"1""#;
    let path = "interfaces/interface[name=ethernet-1/7]/state/counters";
    let state = format!("{{{leaves}}}");
    let subscribed = format!(
        r#"{{"source":"leaf1:57400","timestamp":5,"updates":[{{"Path":"{path}","values":{{"interfaces/interface/state/counters":{state}}}}}]}}"#
    );
    let single = |leaf: &str, value: &str| {
        format!(
            r#"{{"source":"leaf1:57400","timestamp":5,"updates":[{{"Path":"{path}/{leaf}","values":{{"interfaces/interface/state/counters/{leaf}":{value}}}}}]}}"#
        )
    };
    let event = r#"[{"name":"s","timestamp":5,"tags":{"interface_name":"ethernet-1/7","source":"leaf1:57400"},"values":{"/interfaces/interface/state/counters/in-octets":"1000","/interfaces/interface/state/counters/out-octets":2000,"/interfaces/interface/state/counters/in-errors":"3","/interfaces/interface/state/counters/in-fcs-errors":"1"}}]"#.to_owned();
    let tree = format!(
        r#"{{"source":"leaf1","timestamp":5,"openconfig-interfaces:interfaces":{{"interface":[{{"name":"ethernet-1/7","state":{{"counters":{state}}}}}]}}}}"#
    );
    let leafs = ["in-octets", "out-octets", "in-errors", "in-fcs-errors"];
    let values = ["\"1000\"", "2000", "\"3\"", "\"1\""];
    let singles: String = leafs
        .iter()
        .zip(values)
        .map(|(l, v)| single(l, v) + "\n")
        .collect();
    [format!("[{subscribed}]"), subscribed, event, tree, singles]
}

#[test]
fn five_forms_are_one_reading() {
    for form in forms() {
        let (found, said) = read(&form, None).unwrap();
        let [one] = &found[..] else {
            panic!("{form}: {found:?}")
        };
        assert_eq!(one.layout.node, "leaf1", "{form}");
        assert_eq!(
            one.layout.ports,
            [Port::Named("ethernet-1/7".into())],
            "{form}"
        );
        assert_eq!(one.moment.time_ns, Some(5), "{form}");
        let some: Vec<_> = one.values.iter().collect();
        assert_eq!(some[..2], [Some(1000), Some(2000)], "{form}");
        assert_eq!(one.values.known(), 3, "{form}");
        assert!(said.iter().any(|s| s.contains("in-fcs-errors")), "{said:?}");
    }
}

#[test]
fn messages_follow_each_other_over_time() {
    let [_, first, ..] = forms();
    let second = first
        .replace("\"timestamp\":5", "\"timestamp\":7")
        .replace("1000", "4000");
    let (found, _) = read(&(first + "\n" + &second), None).unwrap();
    let seen: Vec<_> = found.iter().map(|r| (r.moment.time_ns, r.get(0))).collect();
    assert_eq!(seen, [(Some(5), Some(1000)), (Some(7), Some(4000))]);
}

#[test]
fn what_is_missing_is_said() {
    let [_, one, ..] = forms();
    assert!(
        read(&one[..one.len() - 1], None)
            .unwrap_err()
            .contains("gNMI messages")
    );
    let nameless = one.replace("source", "sauce");
    assert!(read(&nameless, None).unwrap_err().contains("name, source"));
    assert_eq!(read(&nameless, Some("s")).unwrap().0[0].layout.node, "s");
    assert!(
        read(&one.replace("2000", "-2"), None)
            .unwrap_err()
            .contains("a count")
    );
    assert!(
        read("{\"in-octets\":5}", Some("s"))
            .unwrap_err()
            .contains("interface[name=")
    );
    for (source, name) in [
        ("leaf1", "leaf1"),
        ("[fe80::1]:57400", "fe80::1"),
        ("10.0.0.1:6030", "10.0.0.1"),
    ] {
        assert_eq!(host(source), name);
    }
}

#[test]
fn subinterfaces_are_part_of_their_interface() {
    let inner = r#""subinterfaces":{"subinterface":[{"index":0,"openconfig-if-ip:ipv4":{"state":{"counters":{"in-octets":"900","out-octets":"5000"}}}}]}"#;
    let [_, _, event, tree, _] = forms();
    let tree = tree.replace("\"name\":", &format!("{inner},\"name\":"));
    let below = event
        .replace(
            "interface/state",
            "interface/subinterfaces/subinterface/state",
        )
        .replace("1000", "900");
    for form in [tree, event + "\n" + &below] {
        let (found, said) = read(&form, None).unwrap();
        let [one] = &found[..] else {
            panic!("{form}: {found:?}")
        };
        assert_eq!((one.get(0), one.get(1)), (Some(1000), Some(2000)), "{form}");
        assert!(said.iter().any(|s| s.contains("subinterface")), "{said:?}");
    }
}

#[test]
fn traffic_of_another_time_is_left_out() {
    let leaf = |time: u64, leaf: &str, value: u64| {
        format!(
            r#"{{"source":"leaf1","timestamp":{time},"prefix":"interfaces/interface[name=e1]/state/counters","updates":[{{"Path":"{leaf}","values":{{"{leaf}":{value}}}}}]}}"#
        )
    };
    let messages = [
        leaf(100_000_000_000, "in-octets", 1000),
        leaf(100_050_000_000, "out-octets", 1000),
        leaf(110_000_000_000, "in-octets", 11_000),
        leaf(160_000_000_000, "out-octets", 61_000),
        leaf(160_000_000_000, "out-errors", 7),
    ];
    let (found, said) = read(&messages.join("\n"), None).unwrap();
    let seen: Vec<_> = found.iter().map(|r| [0, 1, 6].map(|i| r.get(i))).collect();
    let expected = [
        [Some(1000), Some(1000), None],
        [Some(11_000), None, Some(7)],
    ];
    assert_eq!(seen, expected);
    assert!(
        said.iter().any(|s| s.contains("leaf1 e1 out-octets")),
        "{said:?}"
    );
}

#[test]
fn the_protocol_s_own_json_is_read() {
    let form = r#"[{"update":{"timestamp":"5","prefix":{"elem":[{"name":"interfaces"},{"name":"interface","key":{"name":"eth42"}}],"target":"leaf1"},"update":[
        {"path":{"elem":[{"name":"state"},{"name":"counters"},{"name":"in-octets"}]},"val":{"uintVal":"1000"}},
        {"path":{"elem":[{"name":"state"},{"name":"counters"},{"name":"out-octets"}]},"val":{"uintVal":"2000"}}]}}]"#;
    let (found, _) = read(form, None).unwrap();
    let [one] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(one.layout.node, "leaf1");
    assert_eq!(one.layout.ports, [Port::Named("eth42".into())]);
    let values = (one.moment.time_ns, one.get(0), one.get(1));
    assert_eq!(values, (Some(5), Some(1000), Some(2000)));
}

/// `ifindex` is also a key of `ip -s -json link`.
#[test]
fn the_index_of_an_interface_is_no_sign_of_another_format() {
    let [.., tree, _] = forms();
    let tree = tree.replace("\"state\":{", "\n\"state\":{\n\"ifindex\":7,\n");
    for form in [tree.replace('\n', ""), tree] {
        let text = Text::from_bytes("g", form.as_bytes(), Limits::TEXT).unwrap();
        let known = crate::counters::format(&text).unwrap();
        assert_eq!(known.name, "gNMI JSON", "complete without a line end");
    }
}

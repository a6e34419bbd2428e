use super::*;
use crate::counters::{Counted, CounterOptions, counters, openmetrics};
use crate::text::Limits;
use hopbyte_fabric::{Quantity, spec};

fn text(content: &str) -> Text {
    Text::from_bytes("p", content.as_bytes(), Limits::TEXT).unwrap()
}

fn read(content: &str) -> Result<(Vec<Reading>, Vec<String>), String> {
    let mut left_out = LeftOut::default();
    let found = readings(&text(content), None, &mut left_out).map_err(|e| e.to_string())?;
    Ok((found, left_out.sentences().collect()))
}

/// An answer with series: labels, and its value or values.
fn answer(kind: &str, series: &[(&str, &str)]) -> String {
    let series = series
        .iter()
        .map(|(labels, values)| format!("{{\"metric\":{{{labels}}},{values}}}"));
    let result = series.collect::<Vec<_>>().join(",");
    format!(
        "{{\"status\":\"success\",\"data\":{{\"resultType\":\"{kind}\",\"result\":[{result}]}}}}\n"
    )
}

/// Counters and values of readings.
fn values(readings: &[Reading]) -> Vec<(String, Vec<hopbyte_fabric::Side>, Vec<Option<u64>>)> {
    let of = |r: &Reading| {
        let counters = &r.layout.counters;
        let values = (0..counters.len()).map(|i| r.get(i)).collect();
        (
            r.layout.node.clone(),
            counters.iter().map(|c| c.side).collect(),
            values,
        )
    };
    readings.iter().map(of).collect()
}

/// A vector is what the exporters say, at the time of the query.
#[test]
fn a_vector_is_read_as_the_text_of_its_exporters() {
    let samples = [
        (
            "node_network_receive_bytes_total",
            "\"device\":\"eth0\",\"instance\":\"n1:9100\"",
            "1.5e+06",
        ),
        (
            "node_infiniband_port_transmit_wait_total",
            "\"device\":\"mlx5_0\",\"port\":\"1\",\"instance\":\"n1:9100\"",
            "7",
        ),
        (
            "infiniband_switch_port_transmit_data_bytes_total",
            "\"guid\":\"0x7cfe9003009ce5b0\",\"port\":\"3\",\"instance\":\"ib:9315\"",
            "4000",
        ),
        (
            "hopbyte_port_sent_lanes",
            "\"node\":\"n2\",\"port\":\"X+\",\"instance\":\"head:9667\"",
            "2",
        ),
        (
            "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES",
            "\"gpu\":\"3\",\"Hostname\":\"n3\",\"instance\":\"n3:9400\"",
            "9",
        ),
    ];
    let series: Vec<(String, String)> = samples
        .iter()
        .map(|(name, labels, value)| {
            let value = format!("\"value\":[1700000000.5,\"{value}\"]");
            (format!("\"__name__\":\"{name}\",{labels}"), value)
        })
        .collect();
    let series: Vec<(&str, &str)> = series
        .iter()
        .map(|(l, v)| (l.as_str(), v.as_str()))
        .collect();
    let (found, said) = read(&answer("vector", &series)).unwrap();
    assert!(said.is_empty(), "{said:?}");
    assert!(
        found
            .iter()
            .all(|r| r.moment.time_ns == Some(1_700_000_000_500_000_000))
    );
    let lines: String = samples
        .iter()
        .map(|(name, labels, value)| {
            format!(
                "{name}{{{}}} {value}\n",
                labels
                    .replace("\":", "=")
                    .replace(",\"", ",")
                    .trim_start_matches('"')
            )
        })
        .collect();
    let mut expected = openmetrics::readings(&text(&lines), None, &mut LeftOut::default()).unwrap();
    let mut found = found;
    for list in [&mut found, &mut expected] {
        list.sort_by(|a, b| a.layout.node.cmp(&b.layout.node));
    }
    assert_eq!(values(&found), values(&expected));
}

const RECEIVED: &str = "\"__name__\":\"node_network_receive_bytes_total\",\"device\":\"eth0\",\"instance\":\"nid00000:9100\",\"job\":\"node\"";
const SENT: &str = "\"__name__\":\"node_network_transmit_bytes_total\",\"device\":\"eth0\",\"instance\":\"nid00000:9100\",\"job\":\"node\"";

/// Targets are scraped at times of their own: the increase of each is over its own samples, and its times share a layout.
#[test]
fn a_matrix_is_a_reading_for_each_time_of_a_target() {
    let other = SENT.replace("nid00000", "nid00001");
    let content = answer(
        "matrix",
        &[
            (
                RECEIVED,
                "\"values\":[[1700000000.25,\"1000\"],[1700000010.25,\"5000\"],[1700000020.25,\"9000\"]]",
            ),
            (&other, "\"values\":[[1700000003,\"1\"],[1700000013,\"2\"]]"),
            (
                SENT,
                "\"values\":[[1700000000.25,\"10\"],[1700000010.25,\"20\"],[1700000020.25,\"70\"]]",
            ),
        ],
    );
    let (found, _) = read(&content).unwrap();
    let sources: Vec<&str> = found.iter().map(|r| r.layout.source.as_str()).collect();
    let (node, of_other) = (
        "openmetrics nid00000:9100 node",
        "openmetrics nid00001:9100 node",
    );
    assert_eq!(sources, [node, node, node, of_other, of_other]);
    assert!(Arc::ptr_eq(&found[0].layout, &found[2].layout));
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let counted = counters(&text(&content), &fabric, &CounterOptions::default()).unwrap();
    assert!(matches!(counted, Counted::Increase(_)));
    let node = fabric.node(fabric.find_node("nid00000").unwrap());
    assert_eq!(
        counted.get(Quantity::ReceivedBytes, node.eject),
        Some(8000.0)
    );
    assert_eq!(counted.get(Quantity::SentBytes, node.inject), Some(60.0));
    assert!((counted.window_seconds().unwrap() - 20.0).abs() < 1e-3);
}

#[test]
fn series_that_are_no_counters_are_counted() {
    let content = answer(
        "vector",
        &[
            (RECEIVED, "\"value\":[5,\"1\"]"),
            ("\"device\":\"eth0\"", "\"value\":[5,\"0.25\"]"),
            ("\"__name__\":\"up\"", "\"value\":[5,\"1\"]"),
            (
                "\"__name__\":\"h\"",
                "\"histogram\":[5,{\"count\":\"1\",\"sum\":\"2\"}]",
            ),
        ],
    );
    let warned = content.replace(
        "\"status\"",
        "\"warnings\":[\"a store is away\"],\"status\"",
    );
    let (found, said) = read(&warned).unwrap();
    assert_eq!(found.len(), 1);
    for words in [
        "no rate()",
        "belongs to no link: up",
        "histogram: h",
        "warns: a store is away",
    ] {
        assert!(
            said.iter()
                .any(|s| s.starts_with("1 left out") && s.contains(words)),
            "{words}: {said:?}"
        );
    }
}

#[test]
fn other_answers_are_refused() {
    let twice = "\"value\":[5,\"1\"]";
    let replica = RECEIVED.replace("\"job\"", "\"replica\":\"b\",\"job\"");
    let error =
        "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error at char 3\"}\n";
    let scalar =
        "{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":[5,\"1\"]}}\n";
    let one = |value: &str| answer("vector", &[(RECEIVED, value)]);
    for (content, words) in [
        (
            error.to_owned(),
            "the error 'parse error at char 3', expected a vector or matrix",
        ),
        (scalar.to_owned(), "a scalar"),
        (
            scalar.replace("scalar", "streams"),
            "unknown variant `streams`",
        ),
        ("{\"status\":\"success\"}\n".to_owned(), "no data"),
        (answer("vector", &[]), "no series"),
        (
            one("\"value\":[5,\"NaN\"]"),
            "result 1, node_network_receive_bytes_total",
        ),
        (one("\"value\":[-5,\"1\"]"), "[UNIX SECONDS"),
        (one("\"value\":[5,\"0.5\"]"), "a whole number"),
        (one("\"value\":[5]"), "p:1: found"),
        (
            answer("vector", &[(RECEIVED, twice), (&replica, twice)]),
            "result 1 too",
        ),
    ] {
        assert!(is_line(content.trim().as_bytes()), "{content}");
        let said = read(&content).unwrap_err();
        assert!(said.starts_with("p") && said.contains(words), "{said}");
    }
    assert!(is_line(b"\"status\": \"success\",") && !is_line(b"{\"status\": 3"));
}

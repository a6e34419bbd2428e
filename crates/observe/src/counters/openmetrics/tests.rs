use super::*;
use crate::text::Limits;

fn read(content: &str) -> Result<Vec<Reading>, String> {
    let text = Text::from_bytes("m", content.as_bytes(), Limits::TEXT).unwrap();
    readings(&text, Some("given"), &mut LeftOut::default()).map_err(|e| e.to_string())
}

#[test]
fn families_labels_and_times() {
    let content = "# HELP node_network_receive_bytes_total x\n\
        node_network_receive_bytes_total{device=\"eth0\",instance=\"n1:9100\"} 1.5e+06 1700000000123\n\
        node_network_transmit_drop_total{instance=\"n1:9100\",device=\"a\\\"b\\n\"} 3\n\
        node_network_speed_bytes{device=\"eth0\",instance=\"n2\"} 1.25e9 1700000000.5\n\
        node_infiniband_port_data_received_bytes_total{device=\"mlx5_0\",port=\"2\"} 40\n\
        go_gc_duration_seconds 0.1\n# EOF\n";
    let readings = read(content).unwrap();
    let seen: Vec<_> = readings
        .iter()
        .map(|r| {
            (
                r.layout.node.as_str(),
                r.moment.time_ns,
                r.values.iter().flatten().collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("given", None, vec![40]),
            ("n1", Some(1_700_000_000_123_000_000), vec![1_500_000, 3]),
            (
                "n2",
                Some(1_700_000_000_500_000_000),
                vec![1_250_000_000; 2]
            ),
        ]
    );
    let data = &readings[0].layout.counters[0];
    assert_eq!(
        (data.factor, data.quantity),
        (1.0, Quantity::ReceivedBytes),
        "bytes already"
    );
    assert_eq!(readings[0].layout.ports[0], Port::Named("mlx5_0/2".into()));
    assert_eq!(readings[1].layout.ports[1], Port::Named("a\"b\n".into()));
}

/// Two exporters of the same switch: bytes by treydock's, words by guilbaults's, which knows the switch's type.
#[test]
fn exporters_of_a_whole_fabric_name_ports_by_guid() {
    let treydock = "# TYPE infiniband_switch_port_transmit_data_bytes_total counter\n\
        infiniband_switch_port_transmit_data_bytes_total{guid=\"0x7cfe9003009ce5b0\",port=\"3\",switch=\"s\"} 4.0e+12\n\
        infiniband_switch_port_transmit_wait_total{guid=\"0x7cfe9003009ce5b0\",port=\"3\",switch=\"s\"} 8\n\
        infiniband_switch_port_rate_bytes_per_second{guid=\"0x7cfe9003009ce5b0\",port=\"3\"} 1.25e+10\n\
        infiniband_switch_port_qp1_dropped_total{guid=\"0x7cfe9003009ce5b0\",port=\"3\",switch=\"s\"} 7\n\
        infiniband_hca_port_receive_data_bytes_total{guid=\"0x08c0eb0300\",port=\"1\",hca=\"n1 HCA-1\"} 40\n";
    let found = read(treydock).unwrap();
    let names: Vec<&str> = found.iter().map(|r| r.layout.node.as_str()).collect();
    assert_eq!(names, ["0x00000008c0eb0300", "0x7cfe9003009ce5b0"]);
    let guid = 0x7cfe_9003_009c_e5b0;
    let layout = &found[1].layout;
    assert_eq!(layout.ports, [Port::InfiniBand { guid, port: 3 }]);
    let measured = |r: &Reading| -> Vec<(Quantity, f64)> {
        let counters = r.layout.counters.iter().enumerate();
        let value = |(i, c): (usize, &super::super::reading::Counter)| {
            Some((c.quantity, r.get(i)? as f64 * c.factor))
        };
        counters.filter_map(value).collect()
    };
    let rate = (Quantity::Capacity, 1.25e10);
    let bytes = (Quantity::SentBytes, 4e12);
    let waits = (Quantity::CreditStallCount, 8.0);
    assert_eq!(measured(&found[1]), [bytes, waits, rate, rate]);
    let labels = "{component=\"switch\",local_name=\"MF0;s:MSB7700/U1\",local_guid=\"0x7cfe9003009ce5b0\",\
        local_port=\"3\",remote_guid=\"0x1\",remote_port=\"1\",remote_name=\"n1\"}";
    let guilbaults = format!(
        "infiniband_portxmitwait_total{labels} 8.0\ninfiniband_portxmitdata_total{labels} 1e12\n\
         infiniband_portrcverrors_total{labels} 5.0\ninfiniband_speed{labels} 25.78125\ninfiniband_scrape_ok 1.0\n"
    );
    let found = read(&guilbaults).unwrap();
    let errors = (Quantity::Errors, 5.0);
    let ticks = (Quantity::CreditStallBytes, 1024.0);
    assert_eq!(measured(&found[0]), [ticks, bytes, errors]);
    // Without the exporter's last family others may be missing, of which errors are a sum.
    let cut = guilbaults.replace("infiniband_scrape_ok 1.0\n", "");
    assert_eq!(measured(&read(&cut).unwrap()[0]), [ticks, bytes]);
}

#[test]
fn what_a_collector_exports_is_read_back() {
    let content = "hopbyte_port_received_bytes_total{node=\"n1\",source=\"gpcdr\",port=\"X+\"} 900\n\
        hopbyte_port_received_bytes_created{node=\"n1\",source=\"gpcdr\",port=\"X+\"} 17.5\n\
        hopbyte_port_credit_stall_seconds_total{node=\"n1\",source=\"gpcdr\",port=\"X+\"} 0.00000125\n";
    let readings = read(content).unwrap();
    let layout = &readings[0].layout;
    assert_eq!(layout.ports, [Port::parse("X+")]);
    assert_eq!(
        (readings[0].get(0), readings[0].get(1)),
        (Some(900), Some(1250))
    );
    assert_eq!(layout.counters[1].quantity, Quantity::CreditStallNs);
    assert!(read("hopbyte_port_errors_total{port=\"X+\"} -1\n").is_err());
    let both = "hopbyte_port_capacity_bytes_per_second{node=\"n1\",port=\"eth0\"} 9\n\
        hopbyte_port_sent_capacity_bytes_per_second{node=\"n1\",port=\"eth0\"} 4\n";
    let sides = |r: &Reading| r.layout.counters.iter().map(|c| c.side).collect::<Vec<_>>();
    let both = read(both).unwrap();
    assert_eq!(sides(&both[0]), [Side::Arrivals, Side::Departures]);
}

#[test]
fn bad_samples_are_named() {
    for bad in [
        "node_network_receive_bytes_total{device=\"eth0\" 1",
        "node_network_receive_bytes_total{device=\"eth0\"} +Inf",
        "node_network_receive_bytes_total{device=\"eth0\"} 1.5",
        "node_network_receive_bytes_total{device=\"eth0\"} -1",
        "node_network_receive_bytes_total{device=\"eth0\"}",
        "node_network_receive_bytes_total{device=\"eth0\"} 1 x",
    ] {
        let error = read(bad).unwrap_err();
        assert!(
            error.starts_with("m:1: found") && error.contains("expected"),
            "{error}"
        );
    }
    // An interface of unknown speed reports -1 (or -10^6/8).
    let unknown = read("node_network_speed_bytes{device=\"eth0\"} -125000\n").unwrap();
    assert_eq!(unknown[0].values.known(), 0);
}

#[test]
fn samples_without_a_number_are_missing() {
    let content = "node_network_receive_bytes_total{device=\"eth0\"} 1000\n\
        node_network_receive_errs_total{device=\"eth0\"} NaN\ngo_gc_duration_seconds NaN\n";
    let text = Text::from_bytes("m", content.as_bytes(), Limits::TEXT).unwrap();
    let mut left_out = LeftOut::default();
    let found = readings(&text, Some("n"), &mut left_out).unwrap();
    assert_eq!((found[0].get(0), found[0].get(1)), (Some(1000), None));
    let said: Vec<_> = left_out.sentences().collect();
    let errors = "1 left out, sample without a value (NaN): node_network_receive_errs_total";
    assert!(said.iter().any(|s| s == errors), "{said:?}");
}

#[test]
fn ports_that_are_down_have_no_lane() {
    let state = |id: u32| {
        let content = format!("node_infiniband_state_id{{device=\"mlx5_0\",port=\"1\"}} {id}\n");
        let found = read(&content).unwrap();
        let counters = &found[0].layout.counters;
        assert!(counters.iter().all(|c| c.quantity == Quantity::Lanes));
        [found[0].get(0), found[0].get(1)]
    };
    let seen = [0, 1, 2, 3, 4, 5].map(state);
    let (down, other) = ([Some(0); 2], [None; 2]);
    assert_eq!(seen, [other, down, down, down, other, other]);
}

#[test]
fn a_counter_declared_without_total_is_prometheus_if_its_samples_are() {
    let wants = |content: &str| {
        wants_eof(&Text::from_bytes("m", content.as_bytes(), Limits::TEXT).unwrap())
    };
    assert!(!wants(
        "# TYPE my_jobs counter\nmy_jobs 5\nnode_network_receive_bytes_total{device=\"a\"} 1\n"
    ));
    assert!(!wants(
        "# TYPE a counter\n# TYPE a_total counter\na 5\na_total 5\n"
    ));
    assert!(wants("# TYPE my_jobs counter\nmy_jobs_total{x=\"1\"} 5\n"));
    assert!(wants("# TYPE my_jobs counter\nmy_jobs_total 5\n"));
}

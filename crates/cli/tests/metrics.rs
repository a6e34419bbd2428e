//! Metrics of a running oracle: both ends of a link, and the jobs on it.

#![allow(clippy::unwrap_used)]

use crate::cluster::{Served, until};
use hopbyte_fabric::spec;
use std::io::{Read, Write};
use std::net::TcpStream;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hopbyte");

/// The value of a sample whose name and labels contain all words.
fn sample(text: &str, words: &[&str]) -> Option<f64> {
    let has_all = |line: &&str| !line.starts_with('#') && words.iter().all(|w| line.contains(w));
    let mut lines = text.lines().filter(has_all);
    let value = lines.next()?.rsplit_once(' ').unwrap().1;
    assert_eq!(lines.next(), None, "{words:?}");
    Some(value.parse().unwrap())
}

#[test]
fn metrics_name_both_ends_of_a_link_and_the_jobs_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let put = |name: &str, text: &str| {
        std::fs::write(at("new"), text).unwrap();
        std::fs::rename(at("new"), at(name)).unwrap();
    };
    let fabric = spec::fabric("mesh:6").unwrap();
    // Job a sends from one end to the other, through the routers of job b; 1 GB on a link is of neither.
    let counters = || {
        let link = |id| {
            let name = fabric.link_name(id);
            let (from, to) = (fabric.link(id).from, fabric.link(id).to);
            let (from, to) = (fabric.end_name(from), fabric.end_name(to));
            let bytes = match name.as_str() {
                "r2 X+" => 11e9,
                "r0 X+" | "r1 X+" | "r3 X+" | "r4 X+" => 9e9,
                _ if from == "n0" || to == "n5" => 9e9,
                _ if from == "n2" || to == "n3" => 1e9,
                _ => 0.0,
            };
            let errors = if name == "r4 X+" { 123_456 } else { 2 };
            format!(
                "{{\"schema\":\"hopbyte.link/1\",\"link\":\"{name}\",\"from\":\"{from}\",\"to\":\"{to}\",\
                 \"received_bytes\":{bytes},\"errors\":{errors}}}\n"
            )
        };
        let lines: String = fabric.link_ids().map(link).collect();
        lines + "{\"schema\":\"hopbyte.link/1\",\"summary\":{\"window_seconds\":10}}\n"
    };
    put("links.jsonl", &counters());
    put("jobs.csv", "job,node\na \"x\",n0\na \"x\",n5\nb,n2\nb,n3\n");
    let words = [at("links.jsonl"), at("jobs.csv")];
    let words = words.each_ref().map(|w| w.to_str().unwrap());
    let served = Served::start(
        PROGRAM,
        &["--fabric", "mesh:6", words[0], "--jobs", words[1]],
    );
    let scrape = || {
        let (host, path) = served
            .url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "GET /{path}metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(
            text.starts_with("HTTP/1.1 200") && text.ends_with("# EOF\n"),
            "{text}"
        );
        text
    };
    let job = |text: &str, job: &str| {
        let job = format!("job=\"{job}\"");
        sample(
            text,
            &[
                "hopbyte_link_job_bytes_total{link=\"r2 X+\",from=\"r2\",to=\"r3\"",
                &job,
            ],
        )
    };
    let a = "a \\\"x\\\"";
    for readings in 1..3 {
        let all = f64::from(readings);
        until("the reading is attributed", || {
            job(&scrape(), a) == Some(9e9 * all)
        });
        let text = scrape();
        assert_eq!(job(&text, "b"), Some(1e9 * all));
        assert_eq!(job(&text, "(unexplained)"), Some(1e9 * all));
        let of = |name: &str| {
            sample(
                &text,
                &[name, "{link=\"r2 X+\",from=\"r2\",to=\"r3\",kind=\""],
            )
        };
        assert_eq!(of("hopbyte_link_received_bytes_total"), Some(11e9 * all));
        assert_eq!(of("hopbyte_link_errors_total"), Some(2.0 * all));
        let capacity = of("hopbyte_link_capacity_bytes_per_second").unwrap();
        assert_eq!(
            of("hopbyte_link_used_ratio"),
            Some(11e9 / (10.0 * capacity))
        );
        assert_eq!(of("hopbyte_link_up"), Some(1.0));
        assert!(sample(&text, &["hopbyte_link_credit_stall_seconds_total", "r2 X+"]).is_none());
        assert_eq!(sample(&text, &["hopbyte_oracle_source_up"]), Some(1.0));
        assert_eq!(sample(&text, &["hopbyte_oracle_faults_judged"]), Some(1.0));
        let fault = "hopbyte_fault{fault=\"errors\",kind=\"link\",name=\"r4 X+\"}";
        assert_eq!(sample(&text, &[fault]), Some(1.0));
        assert_eq!(sample(&text, &["hopbyte_fault{"]), Some(1.0));
        put("links.jsonl", &counters());
    }
    // A list that cannot be read leaves the one before; a new one counts.
    put("jobs.csv", "job,node\n");
    put("jobs.csv", "job,node\nc,n0\nc,n5\n");
    until("the new job is seen", || job(&scrape(), "c").is_some());
}

//! NVLink series of NVIDIA's dcgm-exporter (`DCGM_FI_PROF_NVLINK_*`, `DCGM_FI_DEV_NVLINK_*`).
//!
//! Profiling fields are rates in bytes per second, averaged by DCGM over its sampling interval, although older
//! configurations of the exporter declare them as counters. `COUNT_TX_BYTES` and its like (NVLink 5) are counters.
//! `BANDWIDTH_TOTAL` is a rate of both directions together. Series are of a GPU, or of one of its NVLinks
//! (`nvlink="3"`, `…_L3`); DCGM 4 renamed the counters (`…_ERROR_COUNT_TOTAL` is `…_ERROR_TOTAL`).

use super::reading::{Layout, Port};
use hopbyte_fabric::{LeftOut, Quantity as Q, Side};
use std::collections::BTreeMap;

/// Starts of the names of series.
const PREFIXES: [&str; 2] = ["DCGM_FI_PROF_NVLINK_", "DCGM_FI_DEV_NVLINK_"];

/// Names without prefix, link and the words for a total; the quantity, and the end of the link that counts it. Replays and
/// recoveries are the sender's.
const FAMILIES: [(&str, Q, Side); 15] = [
    ("RX_BYTES", Q::ReceivedBytes, Side::Arrivals),
    ("TX_BYTES", Q::SentBytes, Side::Departures),
    ("RX_PACKETS", Q::ReceivedPackets, Side::Arrivals),
    ("RX_PACKET", Q::ReceivedPackets, Side::Arrivals),
    ("TX_PACKETS", Q::SentPackets, Side::Departures),
    ("TX_PACKET", Q::SentPackets, Side::Departures),
    ("CRC_FLIT_ERROR", Q::Errors, Side::Arrivals),
    ("CRC_DATA_ERROR", Q::Errors, Side::Arrivals),
    ("REPLAY_ERROR", Q::Errors, Side::Departures),
    ("RECOVERY_ERROR", Q::Errors, Side::Departures),
    ("RX_ERRORS", Q::Errors, Side::Arrivals),
    ("RX_ERROR", Q::Errors, Side::Arrivals),
    ("RX_SYMBOL_ERRORS", Q::Errors, Side::Arrivals),
    ("RX_SYMBOL_ERROR", Q::Errors, Side::Arrivals),
    ("TX_DISCARDS", Q::Errors, Side::Departures),
];

const BOTH_WAYS: &str = "NVLink bandwidth of both directions together, which belongs to no one link \
    (DCGM_FI_PROF_NVLINK_TX_BYTES and RX_BYTES have each)";
const INSTANCE: &str = "NVLink series of an instance of a GPU (MIG), which has no NVLink";
const UNNAMED: &str = "NVLink series without the number of its GPU";
const FINER: &str = "NVLink series of the same bytes or errors as another of its GPU";
const UNKNOWN: &str = "NVLink series that is not read";

/// DCGM's values for "not available": of integers, and of floating-point numbers.
const NO_INTEGER: f64 = 9.223_372_036_854e18;
const NO_FLOAT: f64 = 140_737_488_355_328.0;

/// Whether a line is a sample of such a series.
pub(super) fn is_sample(line: &[u8]) -> bool {
    PREFIXES.iter().any(|p| line.starts_with(p.as_bytes()))
}

/// Series of one GPU that count the same, in the order of their use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Counter,
    CounterOfLinks,
    Rate,
    RateOfLinks,
}

/// Names and values of series, by number of the GPU, family and way.
type Series = BTreeMap<(u16, usize, Way), Vec<(String, Option<u64>)>>;

/// The NVLink series of a node while they are read.
#[derive(Debug, Default)]
pub(super) struct Found {
    series: Series,
}

impl Found {
    /// Takes a sample; one that is not used is counted.
    pub(super) fn take<'a>(
        &mut self,
        name: &str,
        value: f64,
        label: impl Fn(&str) -> Option<&'a str>,
        left_out: &mut LeftOut,
    ) -> Result<(), &'static str> {
        let stem = PREFIXES.iter().find_map(|p| name.strip_prefix(p));
        let stem = stem.unwrap_or_default();
        if stem.starts_with("BANDWIDTH") || stem.starts_with("THROUGHPUT") {
            left_out.note(BOTH_WAYS, name);
            return Ok(());
        }
        let (family, link) = family(stem);
        let Some(at) = FAMILIES.iter().position(|f| f.0 == family) else {
            left_out.note(UNKNOWN, name);
            return Ok(());
        };
        if label("GPU_I_ID").is_some() {
            left_out.note(INSTANCE, name);
            return Ok(());
        }
        let Some(gpu) = label("gpu").and_then(|g| g.parse().ok()) else {
            left_out.note(UNNAMED, name);
            return Ok(());
        };
        let link = link.or_else(|| label("nvlink"));
        let is_rate = name.starts_with(PREFIXES[0]);
        let way = match (is_rate, link) {
            (false, None) => Way::Counter,
            (false, Some(_)) => Way::CounterOfLinks,
            (true, None) => Way::Rate,
            (true, Some(_)) => Way::RateOfLinks,
        };
        let value = match value {
            v if v.is_nan() || v >= NO_INTEGER || (is_rate && v == NO_FLOAT) => None,
            v if v >= 0.0 && (is_rate || v.fract() == 0.0) => Some(v.round() as u64),
            _ if is_rate => return Err("bytes per second"),
            _ => return Err("a count (a whole number)"),
        };
        let name = link.map_or_else(|| name.to_owned(), |l| format!("{name} {l}"));
        let series = self.series.entry((gpu, at, way)).or_default();
        if series.iter().any(|(other, _)| *other == name) {
            left_out.note(FINER, name);
        } else {
            series.push((name, value));
        }
        Ok(())
    }

    /// Adds a counter for every series, the first [`Way`] of each family and GPU; the others are counted.
    pub(super) fn add(
        self,
        layout: &mut Layout,
        values: &mut Vec<Option<u64>>,
        left_out: &mut LeftOut,
    ) {
        let mut used = None;
        for ((gpu, family, way), series) in self.series {
            let (_, quantity, side) = FAMILIES[family];
            if used == Some((gpu, family)) {
                for (name, _) in series {
                    left_out.note(FINER, name);
                }
                continue;
            }
            used = Some((gpu, family));
            for (name, value) in series {
                let counter = layout.counter(&Port::Gpu(gpu), name, quantity, 1.0);
                counter.side = side;
                counter.behaviour.rate = matches!(way, Way::Rate | Way::RateOfLinks);
                values.push(value);
            }
        }
    }
}

/// The family of a name without its prefix, and the number of the link in it.
fn family(stem: &str) -> (String, Option<&str>) {
    let mut words: Vec<&str> = stem.split('_').collect();
    let numbered = |w: &&str| -> bool {
        let digits = w.strip_prefix('L').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    let link = words.iter().position(numbered).map(|at| {
        let word = words.remove(at);
        &word[1..]
    });
    words.retain(|w| !matches!(*w, "COUNT" | "TOTAL"));
    (words.join("_"), link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{Counted, CounterOptions, counter_series, sum};
    use crate::text::{Limits, Text};
    use hopbyte_fabric::{LinkId, spec};

    #[test]
    fn names_of_all_versions_mean_the_same() {
        for (name, expected, link) in [
            ("TX_BYTES", "TX_BYTES", None),
            ("L12_TX_BYTES", "TX_BYTES", Some("12")),
            ("COUNT_TX_BYTES", "TX_BYTES", None),
            ("TX_BYTES_TOTAL", "TX_BYTES", None),
            ("CRC_FLIT_ERROR_COUNT_L0", "CRC_FLIT_ERROR", Some("0")),
            ("CRC_FLIT_ERROR_COUNT_TOTAL", "CRC_FLIT_ERROR", None),
            ("CRC_FLIT_ERROR_L0_TOTAL", "CRC_FLIT_ERROR", Some("0")),
            ("RECOVERY_ERROR_TOTAL", "RECOVERY_ERROR", None),
        ] {
            assert_eq!(family(name), (expected.to_owned(), link), "{name}");
            assert!(FAMILIES.iter().any(|f| f.0 == expected));
        }
    }

    const DGX: &str = "fattree:k=4,hosts=dgx-h100";

    /// A scrape as dcgm-exporter 3 and 4 write it.
    fn scrape(rate: u64, flit: u64) -> String {
        let labels = |gpu: u16| {
            format!("gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",device=\"nvidia{gpu}\",Hostname=\"h0\"")
        };
        let mut out = String::from(
            "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n",
        );
        for gpu in 0..8 {
            let labels = labels(gpu);
            out += &format!("DCGM_FI_DEV_GPU_TEMP{{{labels}}} 40\n");
            out += &format!(
                "DCGM_FI_PROF_NVLINK_TX_BYTES{{{labels}}} {}\n",
                rate + u64::from(gpu)
            );
            out += &format!("DCGM_FI_PROF_NVLINK_RX_BYTES{{{labels}}} 1.5e+09\n");
            out += &format!("DCGM_FI_PROF_NVLINK_RX_BYTES{{{labels},nvlink=\"3\"}} 7\n");
            out += &format!("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{labels}}} 3000\n");
        }
        out += "# TYPE DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL counter\n";
        let labels = labels(5);
        out += &format!("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{{{labels}}} {flit}\n");
        out += &format!("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L2{{{labels}}} 2\n");
        out += &format!("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L3{{{labels}}} 3\n");
        out += &format!("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{{{labels}}} 9\n");
        out
    }

    fn read(scrapes: &[String], spec: &str, seconds: Option<f64>) -> Result<Counted, String> {
        let fabric = spec::fabric(spec).unwrap();
        let texts: Vec<Text> = scrapes
            .iter()
            .map(|s| Text::from_bytes("m", s.as_bytes(), Limits::TEXT).unwrap())
            .collect();
        let options = CounterOptions {
            interval_seconds: seconds,
            ..CounterOptions::default()
        };
        let series = counter_series(&texts, &fabric, &options).map_err(|e| e.to_string())?;
        sum(series).map_err(|e| e.to_string())
    }

    fn ends(spec: &str, gpu: u16) -> (LinkId, LinkId) {
        let fabric = spec::fabric(spec).unwrap();
        let inside = fabric.inside().unwrap();
        let out = inside.links_of_place(inside.host_named("h0").unwrap(), gpu, "NVLink")[0];
        (out, fabric.reverse(out).unwrap())
    }

    /// Fifteen seconds between two scrapes, at the rate of the later one.
    #[test]
    fn rates_become_bytes_and_errors_stay_counters() {
        let scrapes = [scrape(900, 4), scrape(2_000_000_000, 10)];
        let counted = read(&scrapes, DGX, Some(15.0)).unwrap();
        for gpu in 0..8 {
            let (out, back) = ends(DGX, gpu);
            let sent = 15.0 * (2e9 + f64::from(gpu));
            assert_eq!(counted.get(Q::SentBytes, out), Some(sent));
            assert_eq!(counted.get(Q::ReceivedBytes, back), Some(15.0 * 1.5e9));
            assert_eq!(counted.get(Q::SentBytes, back), None);
        }
        let (out, back) = ends(DGX, 5);
        assert_eq!(counted.errors(back), Ok(6.0));
        assert_eq!(counted.errors(out), Ok(0.0));
        let fabric = spec::fabric(DGX).unwrap();
        let used = counted.state(&fabric).used_ratio.get(out).unwrap();
        assert!((used - (2e9 + 5.0) / 450e9).abs() < 1e-12);
        let said: Vec<String> = counted.left_out.sentences().collect();
        for words in [
            "16 left out, NVLink series of the same",
            "16 left out, NVLink bandwidth of both",
        ] {
            assert!(said.iter().any(|s| s.contains(words)), "{words}: {said:?}");
        }
        // Without the time between two scrapes there are no bytes.
        let timeless = read(&scrapes, DGX, None).unwrap();
        assert_eq!(timeless.get(Q::SentBytes, out), None);
        assert_eq!(timeless.get(Q::Errors, back), Some(6.0));
        assert!(
            timeless
                .left_out
                .sentences()
                .any(|s| s.contains("--interval"))
        );
    }

    #[test]
    fn a_single_scrape_gives_a_second() {
        let counted = read(&[scrape(2_000_000_000, 4)], DGX, None).unwrap();
        let (out, back) = ends(DGX, 5);
        assert_eq!(counted.window_seconds(), Some(1.0));
        assert_eq!(counted.get(Q::SentBytes, out), Some(2_000_000_005.0));
        assert_eq!(counted.get(Q::Errors, back), None);
        assert!(
            counted
                .left_out
                .sentences()
                .any(|s| s.contains("two readings"))
        );
    }

    /// The series of a fabric without NVLink, and of GPUs that are joined to several others, are counted.
    #[test]
    fn series_without_a_link_are_counted() {
        let error = read(&[scrape(1, 4)], "fattree:k=4", None).unwrap_err();
        assert!(
            error.contains("20 left out, NVLink series of a GPU"),
            "{error}"
        );
        let error = read(&[scrape(1, 4)], "fattree:k=4,hosts=gh200-quad", None).unwrap_err();
        assert!(error.contains("NVLinks to several others"), "{error}");
    }

    /// NVLink 5 has counters, which are used in place of the rates; values of DCGM that are not available are missing.
    #[test]
    fn counters_precede_rates() {
        let of = |bytes: &str, rate: &str| {
            format!(
                "DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL{{gpu=\"0\",Hostname=\"h0\"}} {bytes}\n\
                 DCGM_FI_PROF_NVLINK_TX_BYTES{{gpu=\"0\",Hostname=\"h0\"}} {rate}\n\
                 DCGM_FI_PROF_NVLINK_TX_BYTES{{gpu=\"0\",GPU_I_ID=\"3\",Hostname=\"h0\"}} {rate}\n\
                 DCGM_FI_PROF_NVLINK_RX_BYTES{{gpu=\"0\",Hostname=\"h0\"}} {rate}\n"
            )
        };
        let blank = "140737488355328";
        let scrapes = [of("1000", blank), of("5000", blank)];
        let counted = read(&scrapes, DGX, Some(1.0)).unwrap();
        let (out, back) = ends(DGX, 0);
        assert_eq!(counted.get(Q::SentBytes, out), Some(4000.0));
        assert_eq!(counted.get(Q::ReceivedBytes, back), None);
        assert!(counted.left_out.sentences().any(|s| s.contains("MIG")));
        let error = read(&[of("0.5", "1")], DGX, None).unwrap_err();
        assert!(error.starts_with("m:1: "), "{error}");
    }
}

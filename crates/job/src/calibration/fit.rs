//! Parameters of a network from measurements.

use super::lines::{Measurements, Pair, Seconds, is_apart};
use crate::error::Result;
use crate::statistics::median;
use hopbyte_fabric::units::BytesPerSecond;
use hopbyte_fabric::{Fabric, Family, InputError, LinkId, NodeId, Routing};
use hopbyte_model::parameters::Parameters;
use std::collections::HashMap;

/// Share of what its ranks would start one by one below which a node's rate of messages is a limit of its own.
const LIMITED: f64 = 0.8;

/// A machine's links and routes, and what is filled in.
pub(super) struct Fit<'a> {
    fabric: &'a Fabric,
    routing: &'a Routing,
    found: &'a Measurements,
    parameters: Parameters,
    /// What was measured, in words.
    said: Vec<String>,
}

/// Parameters from measurements in a file, the rest as in the preset of such a machine.
///
/// # Errors
/// Nothing was measured.
pub(super) fn fit(
    file: &str,
    found: &Measurements,
    fabric: &Fabric,
    routing: &Routing,
) -> Result<Parameters> {
    let (parameters, frames) = match fabric.family() {
        Family::Gemini => (Parameters::gemini(), "requests of Gemini"),
        Family::InfiniBand => (Parameters::infiniband(), "packets of InfiniBand"),
        _ => (Parameters::ethernet(), "frames and windows of TCP"),
    };
    let mut fit = Fit {
        fabric,
        routing,
        found,
        parameters,
        said: Vec::new(),
    };
    fit.overhead();
    fit.latency();
    fit.links();
    fit.memory();
    fit.eager();
    fit.progress();
    if fit.said.is_empty() {
        let expected = "results of latency, bandwidth, rate, allreduce, eager or progress";
        return Err(InputError::new(file, "no such result", expected).into());
    }
    let mut assumed = String::new();
    if found.eager.is_none() {
        assumed += ", eager limit of the preset";
    }
    // Without larger messages there is nothing to assume.
    if found.left.is_none() && fit.parameters.eager_bytes < f64::MAX {
        assumed += ", progress of the preset";
    }
    fit.parameters.calibration = format!(
        "hopbyte-probe, {}: {}; {frames}{assumed}: assumed",
        found.day,
        fit.said.join(", ")
    );
    Ok(fit.parameters)
}

fn ms(seconds: f64) -> String {
    format!("{:.4} ms", 1e3 * seconds)
}

fn spread(s: Seconds, by: f64) -> String {
    let (least, most) = (ms(s.least / by), ms(s.most / by));
    format!("{} ({least} to {most})", ms(s.median / by))
}

impl Fit<'_> {
    /// The overhead of a message, and the rate of a node whose ranks send at once.
    fn overhead(&mut self) {
        let found = self.found;
        let single = |apart: bool| {
            let mut rates = found.rates.iter();
            rates.rfind(|(pairs, _)| pairs.len() == 1 && is_apart(pairs[0]) == apart)
        };
        let Some(&(_, rate)) = single(true).or_else(|| single(false)) else {
            return;
        };
        self.parameters.overhead_s = 1.0 / rate;
        self.said.push(format!("overhead {}", ms(1.0 / rate)));
        for (pairs, together) in &found.rates {
            let mut from: HashMap<NodeId, usize> = HashMap::new();
            for pair in pairs.iter().filter(|p| is_apart(**p)) {
                *from.entry(pair.0).or_default() += 1;
            }
            let ranks = from.into_values().max().unwrap_or(0);
            let node = together * ranks as f64 / pairs.len() as f64;
            if ranks > 1 && node < LIMITED * ranks as f64 * rate {
                self.parameters.messages_per_s = Some(node);
                let text = format!("{node:.0} messages a second by {ranks} ranks of a node");
                self.said.push(text);
            }
        }
    }

    /// The latency: half a round trip without links and overheads, or a step of an allreduce if that takes longer.
    fn latency(&mut self) {
        let found = self.found;
        let overheads = 2.0 * self.parameters.overhead_s;
        let apart = (found.latencies.iter()).filter(|(pair, ..)| is_apart(*pair));
        let smallest = apart.clone().min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some(&(_, bytes, seconds)) = smallest {
            let text = format!("half a round trip {}", spread(seconds, 1.0));
            self.said.push(text);
            let of_size = apart.filter(|l| l.1 == bytes);
            let of_size: Vec<_> = of_size
                .map(|(pair, _, s)| (*pair, s.median - overheads))
                .collect();
            let point = |&(pair, rest): &(Pair, f64)| (self.route(pair).len() as f64, rest);
            let points: Vec<(f64, f64)> = of_size.iter().map(point).collect();
            let rest = of_size.iter().map(|&(pair, rest)| rest - self.delay(pair));
            let by_fabric = median(&rest.collect::<Vec<_>>());
            self.parameters.latency_s = self.by_distance(&points).unwrap_or(by_fabric).max(0.0);
        }
        if let Some((nodes, seconds)) = &found.together {
            let (steps, delay) = self.steps(nodes);
            let step = (seconds.median / steps - overheads - delay).max(0.0);
            self.parameters.latency_s = match smallest {
                Some(_) => self.parameters.latency_s.max(step),
                None => step,
            };
            self.said.push(format!(
                "a step of an allreduce by {} nodes (recursive doubling assumed) {}",
                nodes.len(),
                spread(*seconds, steps)
            ));
        }
    }

    /// Delay of each link and the latency beyond, from latencies over routes of several lengths: medians of the slopes of all
    /// pairs of points and of what is left (Theil and Sen), if the slope exceeds the scatter.
    fn by_distance(&mut self, points: &[(f64, f64)]) -> Option<f64> {
        let mut slopes = Vec::new();
        for (i, a) in points.iter().enumerate() {
            let longer = points[i + 1..].iter().filter(|b| b.0 != a.0);
            slopes.extend(longer.map(|b| (b.1 - a.1) / (b.0 - a.0)));
        }
        if slopes.len() < 3 {
            return None;
        }
        let slope = median(&slopes);
        let rest = |slope: f64| points.iter().map(move |p| p.1 - slope * p.0);
        let base = median(&rest(slope).collect::<Vec<_>>());
        let scatter = median(&rest(slope).map(|r| (r - base).abs()).collect::<Vec<_>>());
        let least = points.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let most = points.iter().map(|p| p.0).fold(0.0, f64::max);
        if slope * (most - least) <= 2.0 * scatter {
            let text = format!(
                "no difference above {} between routes of {least} and {most} links",
                ms(2.0 * scatter)
            );
            self.said.push(text);
            return None;
        }
        self.parameters.hop_latency_s = Some(slope);
        let text = format!("{} a link (routes of {least} to {most} links)", ms(slope));
        self.said.push(text);
        Some(base)
    }

    /// Share of the links that one flow fills, or that several flows on one link do, if that is more.
    fn links(&mut self) {
        let found = self.found;
        let mut shares: Vec<(f64, usize)> = Vec::new();
        for (pairs, bytes, rate) in &found.bandwidths {
            if !pairs.iter().all(|p| is_apart(*p)) {
                continue;
            }
            let wire = self.parameters.protocol.wire(*bytes).forward.bytes() / bytes;
            let mut flows: HashMap<LinkId, usize> = HashMap::new();
            for link in pairs.iter().flat_map(|p| self.route(*p)) {
                *flows.entry(link).or_default() += 1;
            }
            let load = |(link, flows): (LinkId, usize)| {
                (flows as f64 / self.fabric.link(link).capacity().0, flows)
            };
            let busiest = flows
                .into_iter()
                .map(load)
                .max_by(|a, b| a.0.total_cmp(&b.0));
            // Flows on links of their own tell no more than one.
            if let Some((load, flows)) = busiest.filter(|b| b.1 > 1 || pairs.len() == 1) {
                shares.push((rate / pairs.len() as f64 * wire * load, flows));
            }
        }
        let Some(most) = shares.iter().map(|s| s.0).max_by(f64::total_cmp) else {
            return;
        };
        self.parameters.link_efficiency = most.min(1.0);
        for (share, flows) in shares {
            let with = if flows == 1 {
                "one flow".into()
            } else {
                format!("{flows} flows")
            };
            let text = format!("links {:.1} % full with {with}", 100.0 * share);
            self.said.push(text);
        }
    }

    /// Latency on a node, and the bytes per second of all its pairs.
    fn memory(&mut self) {
        let found = self.found;
        let inside = (found.latencies.iter()).filter(|(pair, ..)| !is_apart(*pair));
        if let Some((_, _, seconds)) = inside.min_by(|a, b| a.1.total_cmp(&b.1)) {
            let rest = seconds.median - 2.0 * self.parameters.overhead_s;
            self.parameters.memory_latency_s = rest.max(0.0);
            let text = format!("half a round trip on a node {}", ms(seconds.median));
            self.said.push(text);
        }
        let on_one = |pairs: &[Pair]| pairs.iter().all(|p| *p == (pairs[0].0, pairs[0].0));
        let rates = (found.bandwidths.iter()).filter(|(pairs, ..)| on_one(pairs));
        let Some((pairs, _, rate)) = rates.max_by(|a, b| a.2.total_cmp(&b.2)) else {
            return;
        };
        self.parameters.memory_bytes_per_s = *rate;
        let many = match pairs.len() {
            1 => String::new(),
            n => format!(" by {n} pairs"),
        };
        self.said.push(format!(
            "on a node {} GB/s{many}",
            BytesPerSecond(*rate).gb_text(3)
        ));
    }

    /// The largest message that does not wait for its receiver.
    fn eager(&mut self) {
        let found = self.found;
        let Some((_, bytes)) = found.eager else {
            return;
        };
        self.parameters.eager_bytes = bytes.min(f64::MAX);
        self.said.push(match bytes.is_finite() {
            true => format!("eager up to {bytes:.0} bytes"),
            false => "eager at all sizes".into(),
        });
    }

    /// Whether messages above the eager limit go on while their ranks compute.
    fn progress(&mut self) {
        let Some((_, left)) = self.found.left else {
            return;
        };
        self.parameters.asynchronous_progress = left < 0.5;
        let named = match left < 0.5 {
            true => "asynchronous progress",
            false => "progress in MPI calls only",
        };
        let percent = 100.0 * left;
        self.said.push(format!(
            "{named} ({percent:.0} % of a message was left after computation)"
        ));
    }

    /// Steps of an allreduce by recursive doubling, and the mean delay of the links in one.
    fn steps(&self, nodes: &[NodeId]) -> (f64, f64) {
        let power = nodes.len().ilog2();
        // Ranks beyond a power of two take a step before and one after.
        let beyond = if nodes.len().is_power_of_two() { 0 } else { 2 };
        let of = |k: u32| {
            nodes
                .get(1usize << k)
                .map_or(0.0, |&to| self.delay((nodes[0], to)))
        };
        let delay = (0..power).map(of).sum::<f64>() / f64::from(power);
        (f64::from(power + beyond), delay)
    }

    /// The links of a route; none if there is none.
    fn route(&self, (from, to): Pair) -> Vec<LinkId> {
        let mut links = Vec::new();
        match self.routing.route(self.fabric, from, to, &mut links) {
            Ok(()) => links,
            Err(_) => Vec::new(),
        }
    }

    /// Delays of the links of a route.
    fn delay(&self, pair: Pair) -> f64 {
        let of = |&link: &LinkId| {
            let own = self.fabric.link(link).latency.0;
            self.parameters.hop_latency_s.unwrap_or(own)
        };
        self.route(pair).iter().map(of).sum()
    }
}

//! Congestion protection (paper 002, II.G).
//!
//! *Active throttling*: a controller compares a router's stalled with its forwarding time; if the ratio
//! exceeds a threshold for a period, the application with most bytes through that router is throttled on
//! all of its nodes. *Auto-throttling*: a module without a connection to the controller throttles its own
//! nodes after a delay, regardless of their traffic and without a message.
//!
//! At packet level the controller reads the routers' counters once a period during the run. Flows are
//! periodic, so that rates are constant between two events: the run is composed of the shares of its
//! work done in each stretch.

use super::result::{LinkOutcome, Outcome};
use super::throttled::{ThrottleEvent, ThrottleKind};
use crate::engine::network::{Network, Way};
use crate::engine::packet::{Crossing, Guard};
use crate::error::ModelError;
use crate::question::place::find_nodes;
use crate::question::placed::Question;
use crate::question::protection::Protection;
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId};
use std::collections::{BTreeMap, BTreeSet};

/// A stretch of the run at constant rates.
struct Stretch {
    /// Share of the job's work done in it.
    share: f64,
    outcome: Outcome,
}

/// Maximum number of throttling events of one run: one for each application.
const MOST_EVENTS: usize = 64;

/// Runs a question with its protection.
pub(crate) fn answer(question: &Question<'_>, rules: &Protection) -> Result<Outcome, ModelError> {
    let mut waiting = auto_events(question, rules)?;
    let crossing = crossing(question, &question.network()?)?;
    let mut throttled: BTreeSet<NodeId> = BTreeSet::new();
    let mut accused: BTreeSet<u32> = BTreeSet::new();
    let (mut now, mut left) = (0.0f64, 1.0f64);
    let (mut stretches, mut events) = (Vec::new(), Vec::new());
    loop {
        let outcome = question.answer_throttled(&throttled, rules.throttle)?;
        let end = now + left * outcome.time_seconds;
        let accusation = if events.len() < MOST_EVENTS {
            active_event(
                question.fabric,
                rules,
                &outcome,
                now,
                &throttled,
                &crossing,
                &accused,
            )
        } else {
            None
        };
        let next = [accusation, waiting.clone()]
            .into_iter()
            .flatten()
            .filter(|(event, _)| event.seconds < end)
            .min_by(|a, b| a.0.seconds.total_cmp(&b.0.seconds));
        let Some((event, nodes)) = next else {
            stretches.push(Stretch {
                share: left,
                outcome,
            });
            return Ok(blend(stretches, end, events));
        };
        let share = (event.seconds - now) / outcome.time_seconds;
        if event.kind == ThrottleKind::Auto {
            waiting = None;
        }
        accused.extend(event.application);
        (now, left) = (event.seconds, left - share);
        stretches.push(Stretch { share, outcome });
        events.push(event);
        throttled.extend(nodes);
    }
}

/// Throttling by modules without a controller.
type Waiting = Option<(ThrottleEvent, Vec<NodeId>)>;

fn auto_events(question: &Question<'_>, rules: &Protection) -> Result<Waiting, ModelError> {
    let fabric = question.fabric;
    let mut routers = BTreeSet::new();
    for name in &rules.unreachable {
        let nodes = find_nodes(fabric, name)?;
        routers.extend(nodes.into_iter().map(|n| fabric.node(n).router));
    }
    let nodes: Vec<NodeId> = routers
        .iter()
        .flat_map(|&r| fabric.nodes_on(r).iter().copied())
        .collect();
    Ok(routers.first().map(|&router| {
        let event = ThrottleEvent {
            seconds: rules.patience_s,
            kind: ThrottleKind::Auto,
            router: fabric.router(router).name.clone(),
            stalls_per_forwarded: None,
            application: None,
            nodes: nodes.len() as u32,
        };
        (event, nodes)
    }))
}

/// The controller's action on the most congested router, if any is above the threshold.
fn active_event(
    fabric: &Fabric,
    rules: &Protection,
    outcome: &Outcome,
    now: f64,
    throttled: &BTreeSet<NodeId>,
    crossing: &Crossing,
    accused: &BTreeSet<u32>,
) -> Waiting {
    let threshold = rules.stalls_per_forwarded?;
    let mut sums: BTreeMap<RouterId, (f64, f64)> = BTreeMap::new();
    for link in &outcome.links {
        if let End::Router(router) = fabric.link(LinkId(link.id)).to {
            let (stalled, forwarding) = sums.entry(router).or_default();
            *stalled += link.input_stall_ratio.unwrap_or(0.0);
            *forwarding += link.used_ratio;
        }
    }
    let ratios = sums
        .iter()
        .map(|(&router, &(stalled, forwarding))| (router, stalled / forwarding.max(1e-12)));
    let mut worst: Vec<(RouterId, f64)> = ratios.filter(|&(_, r)| r > threshold).collect();
    worst.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let &(router, ratio) = worst.first()?;
    let application = crossing.most(router, accused)?;
    let nodes = crossing.nodes.get(&application)?;
    let nodes: Vec<NodeId> = nodes.difference(throttled).copied().collect();
    let event = ThrottleEvent {
        seconds: now + rules.period_s,
        kind: ThrottleKind::Active,
        router: fabric.router(router).name.clone(),
        stalls_per_forwarded: Some(ratio),
        application: Some(application),
        nodes: nodes.len() as u32,
    };
    Some((event, nodes))
}

/// The same rules at packet level.
pub(crate) fn guard(
    question: &Question<'_>,
    network: &Network<'_>,
    rules: &Protection,
) -> Result<Guard, ModelError> {
    Ok(Guard {
        stalls_per_forwarded: rules.stalls_per_forwarded,
        period_s: rules.period_s,
        share: rules.throttle,
        crossing: crossing(question, network)?,
        auto: auto_events(question, rules)?,
    })
}

/// Bytes of each application through each router, and its nodes.
fn crossing(question: &Question<'_>, network: &Network<'_>) -> Result<Crossing, ModelError> {
    let mut way = Way::default();
    let mut crossing = Crossing::default();
    for (application, from, to, weight) in question.demands() {
        if from == to {
            continue;
        }
        let nodes = crossing.nodes.entry(application).or_default();
        nodes.extend([from, to]);
        network
            .find(from, to, &mut way)
            .map_err(|pair| ModelError::unroutable(question.fabric, &pair))?;
        for &(link, share) in way.shares() {
            if let End::Router(router) = question.fabric.link(link).to {
                let here = crossing.weights.entry(router).or_default();
                *here.entry(application).or_default() += weight * share;
            }
        }
    }
    Ok(crossing)
}

/// Combines the outcomes of stretches: loads of links add up, ratios are over the whole time.
fn blend(stretches: Vec<Stretch>, seconds: f64, events: Vec<ThrottleEvent>) -> Outcome {
    let mut links: BTreeMap<u32, LinkOutcome> = BTreeMap::new();
    for stretch in &stretches {
        let part = stretch.share * stretch.outcome.time_seconds / seconds.max(f64::MIN_POSITIVE);
        for link in &stretch.outcome.links {
            let sum = links.entry(link.id).or_insert_with(|| LinkOutcome {
                bytes: 0.0,
                load: Default::default(),
                used_ratio: 0.0,
                input_stall_ratio: link.input_stall_ratio.map(|_| 0.0),
                credit_stall_ratio: link.credit_stall_ratio.map(|_| 0.0),
                ..link.clone()
            });
            sum.bytes += stretch.share * link.bytes;
            sum.load += link.load * stretch.share;
            sum.used_ratio += part * link.used_ratio;
            for (sum, ratio) in [
                (&mut sum.input_stall_ratio, link.input_stall_ratio),
                (&mut sum.credit_stall_ratio, link.credit_stall_ratio),
            ] {
                if let (Some(sum), Some(ratio)) = (sum.as_mut(), ratio) {
                    *sum += part * ratio;
                }
            }
        }
    }
    let mut links: Vec<LinkOutcome> = links.into_values().collect();
    links.sort_by(|a, b| b.used_ratio.total_cmp(&a.used_ratio).then(a.id.cmp(&b.id)));
    // The bottlenecks are those of the longest stretch.
    let longest = |s: &Stretch| s.share * s.outcome.time_seconds;
    let main = stretches
        .into_iter()
        .max_by(|a, b| longest(a).total_cmp(&longest(b)));
    let mut outcome = main.map(|s| s.outcome).unwrap_or_default();
    outcome.time_seconds = seconds;
    outcome.links = links;
    outcome.throttled = events;
    outcome
}

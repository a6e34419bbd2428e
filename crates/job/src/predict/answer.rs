//! Rows of a prediction, caveats, and the answer in a sentence.

use super::RunTime;
use super::learnt::Margins;
use hopbyte_fabric::NodeId;
use hopbyte_fabric::trace::folded::Folded;
use hopbyte_model::program::{Forecast, LeftOut};

/// Differences of run times below which placement does not matter.
const MATTERS: f64 = 0.01;

/// Differences below which the shown figures are equal.
const SEEN: f64 = 0.0005;

/// A row of the table; `moved` if its placement is another one than the reference's.
pub(super) fn row(
    name: &str,
    f: &Forecast,
    reference: &Forecast,
    moved: bool,
    margins: Margins,
) -> RunTime {
    let Margins {
        factors,
        apart,
        rest,
    } = margins;
    let at = |f: &Forecast, factor: f64| f.seconds + (factor - 1.0) * f.network_seconds();
    let gain = |own, factor| 1.0 - at(f, own) / at(reference, factor);
    let apart = if moved { apart } else { 0.0 };
    // Errors that both placements have, or one of them.
    let gains = [
        gain(factors.0, factors.0),
        gain(factors.1, factors.1),
        gain((1.0 - apart).max(0.0), 1.0),
        gain(1.0 + apart, 1.0),
    ];
    RunTime {
        name: name.to_owned(),
        seconds: f.seconds,
        least_seconds: at(f, factors.0) * (1.0 - rest).max(0.0),
        most_seconds: at(f, factors.1) * (1.0 + rest),
        compute_seconds: f.compute_seconds,
        waiting_seconds: f.waiting_seconds,
        latency_seconds: f.latency_seconds,
        bandwidth_seconds: f.bandwidth_seconds,
        contention_seconds: f.contention_seconds,
        unsteady_seconds: f.unsteady_seconds,
        gain_ratio: gain(1.0, 1.0),
        least_gain_ratio: gains.into_iter().fold(f64::INFINITY, f64::min),
        most_gain_ratio: gains.into_iter().fold(f64::NEG_INFINITY, f64::max),
    }
}

/// A recorded run whose duration is outside every interval.
pub(super) fn unlike(
    folded: &Folded,
    recorded: Option<f64>,
    rows: &[RunTime],
    notes: &mut Vec<String>,
) {
    let Some(recorded) = recorded else { return };
    let least = rows.iter().map(|r| r.least_seconds);
    let most = rows.iter().map(|r| r.most_seconds);
    let interval = least.fold(f64::INFINITY, f64::min)..=most.fold(0.0, f64::max);
    if interval.contains(&recorded) {
        return;
    }
    let mpi: f64 = folded.ranks.iter().map(|r| r.mpi_seconds).sum();
    let all: f64 = folded.ranks.iter().map(|r| r.seconds).sum();
    notes.push(format!(
        "the recorded run took {:.1} times the predicted run time, {:.0} % of it in MPI: compare predictions with each \
         other rather than with the clock, unless that run had another network, its ranks shared cores, or it waited for files",
        recorded / rows[0].seconds.max(f64::MIN_POSITIVE),
        100.0 * mpi / all.max(f64::MIN_POSITIVE),
    ));
}

/// Calls that the trace has without their counterparts.
pub(super) fn unmatched(left: LeftOut) -> Option<String> {
    let counts = [
        (left.sends, "sends that no rank receives"),
        (left.receives, "receives of messages that no rank sends"),
        (
            left.collectives,
            "collective calls that not all members make",
        ),
    ];
    let parts: Vec<String> = counts
        .iter()
        .filter(|c| c.0 > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "left out, as the trace lacks their counterparts: {}",
            parts.join(", ")
        )
    })
}

/// Messages that are larger than the network's eager size, and were buffered in the recorded run.
pub(super) fn buffered(found: &[Forecast], eager_bytes: f64) -> Option<String> {
    let most = found.iter().map(|f| f.buffered_bytes).fold(0.0, f64::max);
    (most > 0.0).then(|| {
        format!(
            "ranks wait for each other in blocking sends of up to {most} B, which the recorded run's MPI buffered: they are \
             buffered here too, though the network's eager limit is {eager_bytes} B; an MPI with that limit would never end them"
        )
    })
}

/// Iteration times that still change.
pub(super) fn unsteady(rows: &[RunTime], notes: &mut Vec<String>) {
    let share = |r: &RunTime| r.unsteady_seconds / r.seconds.max(f64::MIN_POSITIVE);
    let worst = rows.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
    if let Some(row) = worst.filter(|r| share(r) > 1e-3) {
        notes.push(format!(
            "iterations of {} are not steady where they were cut: {:.1} % of its run time rests on them",
            row.name,
            100.0 * share(row)
        ));
    }
}

/// The answer: of the given placements, or of those in order and at random.
pub(super) fn sentence(rows: &[RunTime], placed: &[(String, Vec<NodeId>)], given: usize) -> String {
    let reference = &rows[0];
    let times = || rows.iter().map(|r| r.seconds);
    let (least, most) = (
        times().fold(f64::INFINITY, f64::min),
        times().fold(0.0, f64::max),
    );
    if most - least < MATTERS * most {
        let share = |seconds: f64| 100.0 * seconds / reference.seconds.max(f64::MIN_POSITIVE);
        return format!(
            "placement does not matter for this job, because {:.1} % of its time is computation, {:.1} % waiting for \
             other ranks and {:.1} % latency and bytes that every placement has; the run times differ by {:.1} %",
            share(reference.compute_seconds),
            share(reference.waiting_seconds),
            share(reference.latency_seconds + reference.bandwidth_seconds),
            100.0 * (most - least) / most
        );
    }
    let first = if given > 0 { rows.len() - given } else { 1 };
    let candidates = || rows.iter().zip(placed).skip(first);
    let others = candidates().filter(|(_, (_, nodes))| *nodes != placed[0].1);
    let best = others.min_by(|a, b| a.0.seconds.total_cmp(&b.0.seconds));
    let Some((best, _)) = best else {
        let same = candidates().next().map_or("", |(row, _)| &row.name);
        return format!(
            "{same} and {} are the same placement: every rank is on the same node",
            reference.name
        );
    };
    if best.gain_ratio.abs() < SEEN {
        return format!(
            "{} and {} take as long: the run times differ by less than {} %",
            best.name,
            reference.name,
            100.0 * SEEN
        );
    }
    let percent = |ratio: f64| 100.0 * ratio.abs();
    let (low, high) = (best.least_gain_ratio, best.most_gain_ratio);
    if given == 0 && best.gain_ratio < 0.0 {
        return format!(
            "{} is {}the fastest of these placements; with {} the job would run {:.1} % ({:.1} to {:.1}) slower",
            reference.name,
            if high > 0.0 { "probably " } else { "" },
            best.name,
            percent(best.gain_ratio),
            -100.0 * high,
            -100.0 * low
        );
    }
    let (word, low, high) = match best.gain_ratio >= 0.0 {
        true => ("faster", low, high),
        false => ("slower", -high, -low),
    };
    let sure = if low < 0.0 { "probably " } else { "" };
    format!(
        "the job will {sure}run {:.1} % ({:.1} to {:.1}) {word} with {} than {}",
        percent(best.gain_ratio),
        100.0 * low,
        100.0 * high,
        best.name,
        reference.name
    )
}

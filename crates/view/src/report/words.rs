//! Sentences of the report.

use super::{Job, ReportInput, Side};
use crate::draw::{LinkLoads, Sign, Unit};
pub use hopbyte_fabric::units::percent;
use hopbyte_fabric::units::{bytes_text, count, significant};
use hopbyte_fabric::{Fabric, Placement};
use hopbyte_map::{Certificate, Goal, Verdict};

/// Change below which values count as equal, as a ratio.
const SAME: f64 = 5e-4;

/// A change as text: `−46 %`, `+3 %`, `unchanged`.
pub fn change(before: f64, after: f64) -> String {
    if (before - after).abs() <= SAME * before.abs().max(after.abs()) {
        return "unchanged".into();
    }
    if before == 0.0 {
        return "new".into();
    }
    let percent = (after / before - 1.0) * 100.0;
    let digits = if percent.abs() < 10.0 { 2 } else { 3 };
    let size = significant(percent.abs(), digits);
    format!("{}{size} %", if percent < 0.0 { '−' } else { '+' })
}

/// A time with its unit.
pub fn time(seconds: f64) -> String {
    LinkLoads::new("", Unit::Seconds, Vec::new()).text(seconds)
}

/// Tasks on another node.
pub fn moved(before: &Placement, after: &Placement) -> usize {
    before.moved(after)
}

/// The first sentence: the gain of the mapping.
pub fn lead(input: &ReportInput<'_>) -> String {
    match &input.job {
        None => state(input),
        Some(job) => match &job.after {
            None => alone(input.fabric, job),
            Some(after) => compared(job, after),
        },
    }
}

fn alone(fabric: &Fabric, job: &Job<'_>) -> String {
    let e = job.before.evaluation;
    let link = e
        .worst_link
        .map_or("no link".into(), |l| fabric.link_name(l));
    format!(
        "As placed, the worst link of this job is {link}: it needs {} for one exchange. A byte travels \
         {} hops on average.",
        time(e.worst_link_seconds),
        significant(e.average_dilation, 3)
    )
}

fn compared(job: &Job<'_>, after: &Side<'_>) -> String {
    let (b, a) = (job.before.evaluation, after.evaluation);
    let improved = job
        .certificate
        .is_none_or(|c| c.verdict == Verdict::Improved);
    let count = moved(job.before.placement, after.placement);
    let tasks = after.placement.tasks();
    let mut text = if count == 0 {
        "Every rank stays on its node".to_owned()
    } else {
        format!("Moving {count} of {tasks} ranks")
    };
    let link = |name: &str| {
        format!(
            "{name} the worst link’s time from {} to {} ({})",
            time(b.worst_link_seconds),
            time(a.worst_link_seconds),
            change(b.worst_link_seconds, a.worst_link_seconds)
        )
    };
    let share = |before: f64, after: f64| (after - before) / before.abs().max(f64::MIN_POSITIVE);
    let (time_share, hop_share) = (
        share(b.worst_link_seconds, a.worst_link_seconds),
        share(b.hop_bytes, a.hop_bytes),
    );
    let hops = format!(
        "hop-bytes go from {} to {} ({})",
        bytes_text(b.hop_bytes),
        bytes_text(a.hop_bytes),
        change(b.hop_bytes, a.hop_bytes)
    );
    if count == 0 {
        text.push_str(": the worst link takes ");
        text.push_str(&time(b.worst_link_seconds));
    } else if time_share < -SAME {
        text.push_str(&link(" takes"));
    } else if time_share > SAME {
        text.push_str(&link(" raises"));
    } else {
        text.push_str(" leaves the worst link’s time at ");
        text.push_str(&time(a.worst_link_seconds));
    }
    if count > 0 {
        text.push_str(if hop_share > SAME {
            "; the price: "
        } else {
            "; "
        });
        text.push_str(&hops);
    }
    text.push('.');
    if !improved {
        text.push_str(" The search found nothing better than the best of the usual placements.");
    }
    text
}

fn state(input: &ReportInput<'_>) -> String {
    let Some(view) = input.readings.first() else {
        let f = input.fabric;
        return format!(
            "{} routers, {} nodes, {} links; no readings were given.",
            f.routers().len(),
            f.nodes().len(),
            f.links().len()
        );
    };
    let (fabric, total) = (input.fabric, input.fabric.links().len());
    let known = view.values().iter().filter(|v| !v.is_nan()).count();
    let link = |link| format!("{} ({})", fabric.link_name(link), fabric.kind(link).name);
    let mut text = match (view.worst(1)[..].first(), view.unit) {
        (Some(&(worst, value)), _) => format!(
            "The most loaded link is {}: {} {}.",
            link(worst),
            view.name,
            view.text(value)
        ),
        (None, Unit::Ratio) => {
            let most = view.text(view.max());
            format!("The network is idle: {} at most {most}.", view.name)
        }
        (None, _) => "No link carries anything.".into(),
    };
    text.push_str(&format!(
        " Known for {} of {} links.",
        count(known),
        count(total)
    ));
    if let Some(&(worst, errors)) = input.signs.errors().first() {
        let links = input.signs.errors().len();
        text.push_str(&format!(
            " {} with errors, most on {}: {}{}.",
            plural(links, "link"),
            link(worst),
            input.signs.at_least(worst),
            LinkLoads::new("", Unit::Count, Vec::new()).text(errors)
        ));
    }
    let down = input.signs.links(Sign::Down).len();
    if down > 0 {
        text.push_str(&format!(" {} down.", plural(down, "link")));
    }
    text
}

/// `1 link`, `2 links`.
fn plural(n: usize, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// Distance of the result from the bound, in a sentence.
pub fn gap(certificate: &Certificate) -> String {
    let goal = Goal::ALL
        .into_iter()
        .find(|g| g.label() == certificate.objective);
    let (result, bound) = match goal {
        Some(Goal::HopBytes) => (certificate.result.hop_bytes, certificate.bound.hop_bytes),
        Some(Goal::WorstNetworkLink) => (
            certificate.result.worst_network_link_seconds,
            certificate.bound.worst_network_link_seconds,
        ),
        Some(Goal::WorstLink) => (
            certificate.result.worst_link_seconds,
            certificate.bound.worst_link_seconds,
        ),
        None if !certificate.result.turn_seconds.is_empty() => (
            certificate.result.exchange_seconds(),
            certificate.bound.turns_seconds.unwrap_or(0.0),
        ),
        Some(Goal::RouteCost) | None => (0.0, 0.0),
    };
    if bound <= 0.0 {
        return "No useful bound is known for this objective.".into();
    }
    let over = (result / bound - 1.0) * 100.0;
    if over < 0.05 {
        return "The result reaches the bound: no placement is better.".into();
    }
    if over > 200.0 {
        return format!(
            "The result is {} times the bound that no placement can pass: such a loose bound \
             says little about the optimum.",
            significant(result / bound, 3)
        );
    }
    format!(
        "The result is {} % above a bound that no placement can pass; the optimum lies \
         between the two.",
        significant(over, 3)
    )
}

/// `0–3, 7, 9–12`.
pub fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < numbers.len() {
        let mut end = at;
        while end + 1 < numbers.len() && numbers[end + 1] == numbers[end] + 1 {
            end += 1;
        }
        parts.push(match end - at {
            0 => numbers[at].to_string(),
            1 => format!("{}, {}", numbers[at], numbers[end]),
            _ => format!("{}–{}", numbers[at], numbers[end]),
        });
        at = end + 1;
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_honest() {
        assert_eq!(change(2.0, 1.0), "−50.0 %");
        assert_eq!(change(1.0, 1.034), "+3.4 %");
        assert_eq!(change(1.0, 1.0), "unchanged");
        assert_eq!(change(0.0, 1.0), "new");
        assert_eq!(change(0.0, 0.0), "unchanged");
    }

    #[test]
    fn rank_lists_are_short() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0–3, 7, 9, 10");
        assert_eq!(ranges(&[]), "");
    }
}

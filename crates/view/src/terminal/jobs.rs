//! Jobs of a link as text.

use hopbyte_fabric::{Fabric, LinkId, LinkState};
use hopbyte_job::Jobs;

/// Text of a link's jobs.
type Words<'a> = Box<dyn Fn(LinkId) -> String + 'a>;

/// Header and text of the column of jobs: their bytes, else their shares of the nodes at the ends of each link.
pub fn beside_links<'a>(
    by_job: Option<&'a Attribution>,
    jobs: Option<&'a Jobs>,
    fabric: &'a Fabric,
    state: &'a LinkState,
) -> Option<(&'static str, Words<'a>)> {
    if let Some(all) = by_job {
        let header = "<jobs, % of the link's bytes (at least to at most)";
        let text = move |link| by_job_text(all, link, state.received_bytes.get(link));
        return Some((header, Box::new(text)));
    }
    let jobs = jobs?;
    let text = move |link| shares_text(jobs, fabric, link);
    Some(("<jobs beside it, % of its ends' nodes", Box::new(text)))
}
use hopbyte_job::attribution::{Attribution, JobBytes};

/// `7 61 % (55 to 80), rest 3 %`.
fn by_job_text(all: &Attribution, link: LinkId, carried: Option<f64>) -> String {
    let of = all.link(link, carried);
    let Some(carried) = carried.filter(|&c| c > 0.0) else {
        return String::new();
    };
    let percent = |bytes: f64| format!("{:.0}", 100.0 * bytes / carried);
    let job = |j: &JobBytes| {
        let (least, most) = (percent(j.least_bytes), percent(j.most_bytes));
        format!("{} {} ({least} to {most})", j.job, percent(j.bytes))
    };
    let mut words: Vec<String> = of.jobs.iter().take(4).map(job).collect();
    if of.jobs.len() > 4 {
        words.push(format!("{} more", of.jobs.len() - 4));
    }
    let rest = of.unexplained_bytes.unwrap_or(0.0);
    if rest >= 0.005 * carried {
        words.push(format!("unexplained {}", percent(rest)));
    }
    words.join(", ")
}

/// `7 62, 8 25`: shares of the nodes at its ends.
fn shares_text(jobs: &Jobs, fabric: &Fabric, link: LinkId) -> String {
    let shares = jobs.shares(fabric, link).into_iter();
    let words: Vec<String> = shares
        .map(|(job, share)| format!("{} {:.0}", jobs.ids()[job], 100.0 * share))
        .collect();
    words.join(", ")
}

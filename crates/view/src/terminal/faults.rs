//! Faults of links as text.

use hopbyte_job::faults::{Fault, Kind};

/// `1795415605 to 1795415607: r0 X+ down; job 7 sent 160.000 MB less than at its 100.000 MB/s before`, with times in Unix
/// seconds as `--at` takes them.
pub fn fault_text(fault: &Fault) -> String {
    let time = match fault.to_seconds {
        Some(to) => format!("{:.0} to {to:.0}", fault.from_seconds),
        None => format!("since {:.0}", fault.from_seconds),
    };
    format!("{time}: {}", fault_words(fault))
}

/// The same without the time.
pub fn fault_words(fault: &Fault) -> String {
    let percent = fault.left_ratio.map_or(f64::NAN, |left| 100.0 * left);
    let kind = match fault.fault {
        Kind::Down => "down".to_owned(),
        Kind::Lanes => format!("with {percent:.0} % of its lanes"),
        Kind::Slower => format!("at {percent:.0} % of its rate"),
        Kind::Errors => format!("with {:.0} errors", fault.errors),
    };
    let mut text = format!("{} {kind}", fault.link);
    if fault.still_seconds > 0.0 {
        text += &format!(
            "; all links stood still for {:.0} s of it",
            fault.still_seconds
        );
    }
    for loss in fault.jobs.iter().take(4) {
        let (less, rate) = (loss.less_bytes / 1e6, loss.bytes_per_s_before / 1e6);
        text += &format!(
            "; job {} sent {less:.3} MB less than at its {rate:.3} MB/s before",
            loss.job
        );
    }
    if fault.jobs.len() > 4 {
        text += &format!("; {} more jobs", fault.jobs.len() - 4);
    }
    text
}

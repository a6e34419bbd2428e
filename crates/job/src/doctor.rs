//! Text of the findings on sources of counters.

use hopbyte_fabric::Quantity;
use hopbyte_fabric::units::count;
use hopbyte_observe::sources::{Finding, State};

/// Whole lines: state, name and place; what it says and does not say; remedies.
#[must_use]
pub fn text(finding: &Finding) -> String {
    let state = match finding.state {
        State::Readable => "yes",
        State::Unreadable => "no",
        State::Absent => "-",
    };
    let mut text = format!("{state:4}{:12}  {}\n", finding.source, finding.place);
    if finding.counters > 0 {
        let (known, all) = (count(finding.known), count(finding.counters));
        text += &format!("    {known} of {all} counters: {}\n", words(&finding.says));
    }
    if !finding.says.is_empty() && !finding.silent.is_empty() {
        text += &format!("    does not say: {}\n", words(&finding.silent));
    }
    for sentence in &finding.help {
        text += &format!("    {}\n", sentence.replace('\n', "; "));
    }
    text
}

/// Quantities in words.
fn words(quantities: &[Quantity]) -> String {
    let word = |q: &Quantity| match q {
        Quantity::ReceivedBytes => "received bytes",
        Quantity::SentBytes => "sent bytes",
        Quantity::ReceivedPackets => "received packets",
        Quantity::SentPackets => "sent packets",
        Quantity::InputStallNs => "input stall",
        Quantity::CreditStallNs => "credit stall",
        Quantity::Errors => "errors",
        Quantity::Lanes => "lanes",
        Quantity::Capacity => "capacity",
        _ => "other",
    };
    quantities.iter().map(word).collect::<Vec<_>>().join(", ")
}

//! Route costs as tables.

use super::Table;
use hopbyte_fabric::units::count;
use hopbyte_job::costs::{CostsSummary, PairCost};
use std::fmt::Write as _;

/// Costs of pairs, most expensive first.
pub fn pairs_text(costs: &[PairCost], colour: bool) -> String {
    let Some(first) = costs.first() else {
        return String::new();
    };
    let key = |c: &PairCost| c.pair.cost.or(c.pair.lower).unwrap_or(f64::INFINITY);
    let mut sorted: Vec<&PairCost> = costs.iter().collect();
    sorted.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let unit = format!("cost ({})", first.asked.unit());
    let mut table = Table::new(&["<from", "<to", &unit, "links", "read %"]);
    for PairCost { from, to, pair, .. } in sorted {
        let value = match (pair.cost, pair.lower, pair.upper) {
            (Some(cost), ..) => number(cost),
            (None, Some(lower), Some(upper)) => format!("{}..{}", number(lower), number(upper)),
            (None, Some(lower), None) => format!(">= {}", number(lower)),
            _ => "no route".into(),
        };
        let read = format!("{:.0}", 100.0 * pair.coverage);
        let links = pair.links.to_string();
        table.row([from.clone(), to.clone(), value, links, read]);
    }
    let words = first.asked.words();
    format!("# {words}, most expensive first\n{}", table.render(colour))
}

/// The distribution of a matrix, and its most expensive pair.
pub fn matrix_text(summary: &CostsSummary, colour: bool) -> String {
    let unit = format!("cost ({})", summary.asked.unit());
    let mut table = Table::new(&["<of all pairs", &unit]);
    for (name, value) in [
        ("least", summary.min),
        ("median", summary.median),
        ("99 %", summary.percentile_99),
        ("most", summary.max),
    ] {
        let value = value.map_or("-".into(), |v| number(f64::from(v)));
        table.row([name.to_owned(), value]);
    }
    let mut page = format!(
        "# {}, all {} pairs of routers\n{}unknown {}, without a route {}\n",
        summary.asked.words(),
        count(summary.pairs),
        table.render(colour),
        count(summary.unknown),
        count(summary.unroutable)
    );
    if let Some((from, to)) = &summary.dearest {
        let _ = writeln!(page, "dearest: {from} to {to}");
    }
    page
}

/// Formats whole numbers exactly, ratios and seconds per byte with significant digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value}")
    } else if value.abs() < 1e-3 {
        format!("{value:.3e}")
    } else {
        format!("{value:.4}")
    }
}

//! The answer of a model as text.

use super::Table;
use hopbyte_fabric::units::{BytesPerSecond, SIZES, TIMES, count, scale};
use hopbyte_model::{Level, Outcome, ThrottleKind};

/// Times, causes and the `top` most loaded links (0: all), and the number of links that are left out.
pub fn model_text(o: &Outcome, top: usize, colour: bool) -> (String, usize) {
    let mut text = String::new();
    let line = |text: &mut String, words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    let time = |seconds: f64| {
        let (unit, factor) = scale(seconds, &TIMES);
        format!("{:.3} {unit}", seconds / factor)
    };
    let (size, bytes) = scale(o.network_bytes, &SIZES);
    line(&mut text, format!("# {} ({})", o.name, level_name(o.level)));
    line(&mut text, format!("time   {}", time(o.time_seconds)));
    line(
        &mut text,
        format!(
            "bound  {} ({} is the most loaded)",
            time(o.bound_seconds),
            o.bound_resource
        ),
    );
    line(
        &mut text,
        format!(
            "moved  {:.2} {size} between nodes in {} transfers",
            o.network_bytes / bytes,
            count(o.flows as usize)
        ),
    );
    let shares: Vec<String> = o
        .held_back
        .iter()
        .map(|h| format!("{} {:.0} %", h.by, 100.0 * h.share))
        .collect();
    if !shares.is_empty() {
        line(
            &mut text,
            format!("held back, by bytes: {}", shares.join(", ")),
        );
    }
    for event in &o.throttled {
        let who = match event.kind {
            ThrottleKind::Active => "the controller",
            ThrottleKind::Auto => "a module without its controller",
        };
        line(
            &mut text,
            format!(
                "throttled at {} by {who}: {} nodes, {}",
                time(event.seconds),
                event.nodes,
                event.router
            ),
        );
    }
    line(&mut text, format!("calibrated by: {}", o.calibration));
    let stalls = o.links.iter().any(|l| l.credit_stall_ratio.is_some());
    let mut header = vec!["<link", "<kind", "GB/s", "carried GB", "used %"];
    if stalls {
        header.extend(["input stall %", "credit stall %"]);
    }
    let mut table = Table::new(&header);
    let top = match top {
        0 => o.links.len(),
        n => n.min(o.links.len()),
    };
    for link in o.links.iter().take(top) {
        let percent =
            |ratio: Option<f64>| ratio.map_or("-".into(), |r| format!("{:.1}", 100.0 * r));
        let mut cells = vec![
            link.link.clone(),
            link.kind.clone(),
            BytesPerSecond(link.capacity_bytes_per_s).gb_text(2),
            format!("{:.3}", link.bytes / 1e9),
            percent(Some(link.used_ratio)),
        ];
        if stalls {
            cells.extend([
                percent(link.input_stall_ratio),
                percent(link.credit_stall_ratio),
            ]);
        }
        table.row(cells);
    }
    text += &table.render(colour);
    (text, o.links.len() - top)
}

/// A level in words.
pub fn level_name(level: Level) -> &'static str {
    match level {
        Level::Static => "static bound",
        Level::Fluid => "flows",
        Level::Stalls => "flows with back-pressure",
        Level::Packet => "packets",
    }
}

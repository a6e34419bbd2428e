//! Curves with confidence intervals, in panels side by side.

use super::svg::{Anchor, num, text};
use super::{escape, sheet};
use std::fmt::Write;

/// One point of a curve with the interval of its height.
#[derive(Clone, Copy, Debug)]
pub struct CurvePoint {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A named curve; points from left to right.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Name.
    pub name: String,
    /// Its points.
    pub points: Vec<CurvePoint>,
    /// Published values, drawn as diamonds: position and value.
    pub published: Vec<[f64; 2]>,
}

/// One pair of axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Label of the horizontal axis, with unit.
    pub x: String,
    /// Label of the vertical axis, with unit.
    pub y: String,
    /// Whether the horizontal axis is logarithmic.
    pub log: bool,
    /// Labels of bars at 0, 1, 2 …; empty for curves.
    pub names: Vec<String>,
    /// Curves.
    pub curves: Vec<Curve>,
}

const WIDTH: f32 = 420.0;
const HEIGHT: f32 = 280.0;
const LEFT: f32 = 58.0;
const TOP: f32 = 64.0;
const EDGE: f32 = 16.0;
const BELOW: f32 = 48.0;
/// Looks of curves: those of kinds of links, distinguished by dashes and marks too.
const LOOKS: usize = super::PLAIN.len();
const DASHES: [&str; LOOKS] = ["", "6 2", "2 2", "8 3 2 3", "10 4", "1 3"];

/// A complete SVG file.
pub fn curves_svg(title: &str, panels: &[Panel], command: &str) -> String {
    let most = panels.iter().map(|p| p.curves.len()).max().unwrap_or(0);
    let legend = 18.0 * most.div_ceil(2) as f32;
    let width = LEFT + panels.len().max(1) as f32 * (WIDTH + LEFT);
    let height = TOP + HEIGHT + BELOW + legend + 24.0;
    let mut body = String::new();
    text(&mut body, "t1", 16.0, 30.0, Anchor::Start, title);
    for (i, panel) in panels.iter().enumerate() {
        draw(&mut body, panel, LEFT + i as f32 * (WIDTH + LEFT));
    }
    let same = panels.windows(2).all(|p| names(&p[0]) == names(&p[1]));
    let named = if same { 1 } else { panels.len() };
    for (i, panel) in panels.iter().enumerate().take(named) {
        names_of(&mut body, panel, LEFT + i as f32 * (WIDTH + LEFT));
    }
    let mut all = panels.iter().flat_map(|p| &p.curves);
    if all.any(|c| !c.published.is_empty()) {
        let (x, y) = (width - EDGE, height - 10.0);
        diamond(&mut body, 0, [x - 74.0, y - 4.0]);
        text(&mut body, "t2", x, y, Anchor::End, "published");
    }
    text(
        &mut body,
        "mono",
        16.0,
        height - 10.0,
        Anchor::Start,
        command,
    );
    let (w, h) = (num(width), num(height));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hb\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" \
         height=\"{h}\" role=\"img\">\n<title>{}</title>\n<style>\n{}</style>\n<rect class=\"bg\" \
         width=\"{w}\" height=\"{h}\"/>\n{body}</svg>\n",
        escape(title),
        sheet()
    )
}

fn names(panel: &Panel) -> Vec<&str> {
    panel.curves.iter().map(|c| c.name.as_str()).collect()
}

/// The legend of a panel.
fn names_of(body: &mut String, panel: &Panel, left: f32) {
    for (i, curve) in panel.curves.iter().enumerate() {
        let x = left + (i % 2) as f32 * (WIDTH / 2.0 + 20.0);
        let y = TOP + HEIGHT + BELOW + 18.0 * (i / 2) as f32;
        stroke(body, i, &format!("M{} {}h28", num(x), num(y - 4.0)));
        let name = super::names::shorten(&curve.name, 30);
        text(body, "t2", x + 36.0, y, Anchor::Start, &name);
    }
}

fn stroke(body: &mut String, look: usize, data: &str) {
    let dash = DASHES[look % LOOKS];
    let _ = writeln!(
        body,
        "<g class=\"s\"><path class=\"k{}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\" d=\"{data}\"/></g>",
        look % LOOKS
    );
}

/// A published value.
fn diamond(body: &mut String, look: usize, [x, y]: [f32; 2]) {
    let _ = writeln!(
        body,
        "<g class=\"s\"><path class=\"k{} published\" stroke-width=\"2\" d=\"M{} {}l6 6l-6 6l-6 -6z\"/></g>",
        look % LOOKS,
        num(x),
        num(y - 6.0)
    );
}

/// Minimum and maximum of some numbers, widened if they are equal.
fn range(values: impl Iterator<Item = f64> + Clone, least: f64) -> (f64, f64) {
    let low = values
        .clone()
        .filter(|v| v.is_finite())
        .fold(least, f64::min);
    let high = values.filter(|v| v.is_finite()).fold(least, f64::max);
    if high - low > 1e-9 {
        (low, high)
    } else {
        (low, low + 1.0)
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides a range into about five.
fn step(range: f64) -> f64 {
    let raw = range / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0];
    times
        .into_iter()
        .find(|t| t * power >= raw * 0.999)
        .unwrap_or(10.0)
        * power
}

/// Horizontal axis of a panel.
struct Across {
    from: f64,
    to: f64,
    log: bool,
    bars: bool,
}

impl Across {
    fn of(panel: &Panel) -> Self {
        let log = panel.log;
        if !panel.names.is_empty() {
            let to = panel.names.len() as f64 - 0.5;
            return Self {
                from: -0.5,
                to,
                log: false,
                bars: true,
            };
        }
        let all = panel.curves.iter().flat_map(|c| &c.points).map(|p| p.x);
        let least = if log {
            all.clone().fold(f64::MAX, f64::min).clamp(1e-12, 1e12)
        } else {
            0.0
        };
        let (from, to) = range(all, least);
        Self {
            from,
            to,
            log,
            bars: false,
        }
    }

    /// Horizontal position.
    fn share(&self, x: f64) -> f32 {
        let (x, from, to) = if self.log {
            (x.max(self.from).ln(), self.from.ln(), self.to.ln())
        } else {
            (x, self.from, self.to)
        };
        ((x - from) / (to - from)) as f32
    }

    /// Labels under the points, as far as they fit.
    fn ticks(&self, panel: &Panel) -> Vec<(f64, String)> {
        if self.bars {
            let named = panel.names.iter().enumerate();
            return named.map(|(i, name)| (i as f64, name.clone())).collect();
        }
        let points = panel.curves.iter().flat_map(|c| &c.points);
        let mut ticks: Vec<f64> = points.map(|p| p.x).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let mut free = f32::MIN;
        let mut labels = Vec::new();
        for x in ticks {
            let (at, label) = (self.share(x) * WIDTH, short(x));
            let half = 4.0 * label.len() as f32;
            if at - half > free {
                free = at + half;
                labels.push((x, label));
            }
        }
        labels
    }
}

/// A short form of a number: 4K, 16M (powers of two), 0.25.
fn short(x: f64) -> String {
    for (unit, letter) in [(1_048_576.0, 'M'), (1024.0, 'K')] {
        if x >= unit && x % unit == 0.0 {
            return format!("{}{letter}", x / unit);
        }
    }
    let label = format!("{x:.3}");
    label.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn draw(body: &mut String, panel: &Panel, left: f32) {
    let points = || panel.curves.iter().flat_map(|c| &c.points);
    let across = Across::of(panel);
    let published = panel.curves.iter().flat_map(|c| &c.published);
    let heights = points().flat_map(|p| [p.y, p.low, p.high]);
    let (y0, y1) = range(heights.chain(published.map(|p| p[1])), 0.0);
    let y_step = step(y1 - y0);
    let (y0, y1) = (
        (y0 / y_step).floor() * y_step,
        (y1 / y_step).ceil() * y_step,
    );
    let x_at = |x: f64| left + across.share(x) * WIDTH;
    let y_at = |y: f64| TOP + HEIGHT - ((y - y0) / (y1 - y0)) as f32 * HEIGHT;
    let mut y = y0;
    while y <= y1 + 0.5 * y_step {
        let _ = writeln!(
            body,
            "<path class=\"frame\" d=\"M{} {}h{}\"/>",
            num(left),
            num(y_at(y)),
            num(WIDTH)
        );
        let digits = usize::from(y_step < 1.0) + usize::from(y_step < 0.1);
        let label = format!("{y:.digits$}");
        text(body, "t3", left - 6.0, y_at(y) + 4.0, Anchor::End, &label);
        y += y_step;
    }
    for (x, label) in across.ticks(panel) {
        let below = TOP + HEIGHT + 16.0;
        text(body, "t3", x_at(x), below, Anchor::Middle, &label);
    }
    text(
        body,
        "t3",
        left + WIDTH / 2.0,
        TOP + HEIGHT + 32.0,
        Anchor::Middle,
        &panel.x,
    );
    text(body, "t3", left - 40.0, TOP - 10.0, Anchor::Start, &panel.y);
    let bar = if panel.names.is_empty() {
        0.0
    } else {
        0.8 / (panel.names.len() * panel.curves.len().max(1)) as f32 * WIDTH
    };
    for (i, curve) in panel.curves.iter().enumerate() {
        let offset = bar * (i as f32 - 0.5 * (panel.curves.len() as f32 - 1.0));
        let mut data = String::new();
        for (k, p) in curve.points.iter().enumerate() {
            let (x, y) = (x_at(p.x) + offset, y_at(p.y));
            if bar > 0.0 {
                let (x, floor, width) = (num(x - 0.45 * bar), num(y_at(0.0)), num(0.9 * bar));
                let _ = write!(data, "M{x} {floor}V{}h{width}V{floor}", num(y));
            } else {
                let letter = if k == 0 { 'M' } else { 'L' };
                let _ = write!(data, "{letter}{} {}", num(x), num(y));
            }
        }
        stroke(body, i, &data);
        let mut bars = String::new();
        for p in curve.points.iter().filter(|p| p.high > p.low) {
            let (x, high, low) = (x_at(p.x) + offset, y_at(p.high), y_at(p.low));
            let _ = write!(
                bars,
                "M{0} {1}v{2}M{3} {1}h8M{3} {4}h8",
                num(x),
                num(high),
                num(low - high),
                num(x - 4.0),
                num(low)
            );
        }
        if !bars.is_empty() {
            stroke(body, 6 * (i / LOOKS) + i % LOOKS, &bars);
        }
        for &[x, y] in &curve.published {
            diamond(body, i, [x_at(x) + offset, y_at(y)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_stays_within_its_frame_and_names_everything() {
        let at = |x: f64, y: f64| CurvePoint {
            x,
            y,
            low: y - 1.0,
            high: y + 2.0,
        };
        let curve = |name: &str, points: &[CurvePoint]| Curve {
            name: name.into(),
            points: points.into(),
            published: Vec::new(),
        };
        let panel = Panel {
            x: "factor".into(),
            y: "% slower".into(),
            log: false,
            names: Vec::new(),
            curves: vec![
                curve("a<b>", &[at(0.25, 32.6), at(0.5, 9.0), at(1.0, 0.0)]),
                curve("flat", &[at(1.0, 0.0)]),
                curve("none", &[]),
            ],
        };
        let svg = curves_svg("T", std::slice::from_ref(&panel), "hopbyte sweep");
        assert!(svg.contains("a&lt;b&gt;") && svg.contains("% slower") && svg.contains(">0.25<"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(step(40.0), 10.0);
        assert_eq!(step(0.3), 0.1);
        // Logarithmic axis, and bars.
        let sizes: Vec<CurvePoint> = (0..12).map(|k| at(4f64.powi(k), 3.0)).collect();
        let factors = Panel {
            log: true,
            curves: vec![curve("sizes", &sizes)],
            ..panel.clone()
        };
        let across = Across::of(&factors);
        assert!((across.share(2048.0) - 0.5).abs() < 1e-6);
        let labels = across.ticks(&factors);
        assert!(labels.iter().any(|l| l.1 == "1K") && labels.iter().any(|l| l.1 == "4M"));
        let bars = Panel {
            names: vec!["X".into(), "Y".into()],
            curves: vec![curve("a", &[at(0.0, 5.0), at(1.0, 2.0)])],
            ..panel
        };
        let svg = curves_svg("T", &[factors, bars.clone()], "c");
        assert!(svg.contains(">X<") && svg.contains(">4M<") && !svg.contains("NaN"));
        let mut printed = curve("a", &[at(0.5, 5.0), at(1.0, 2.0)]);
        printed.published = vec![[1.0, 40.0]];
        let svg = curves_svg(
            "T",
            &[Panel {
                curves: vec![printed],
                names: Vec::new(),
                ..bars.clone()
            }],
            "c",
        );
        assert_eq!(svg.matches("k0 published").count(), 2);
        assert!(svg.contains(">40<") && svg.contains(">published<"));
        // No data is a picture too.
        assert!(curves_svg("T", &[], "c").ends_with("</svg>\n"));
    }
}

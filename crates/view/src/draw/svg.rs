//! SVG elements of the drawings.

use std::borrow::Cow;
use std::fmt::Write;

/// Look of a link. The order is that of painting: the most important lies on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Unknown load.
    Unknown,
    /// Known to be idle.
    Idle,
    /// No load is drawn: the kind of the link, by number.
    Kind(u8),
    /// A load class from 1.
    Load(u8),
    /// No lane in service.
    Down,
}

/// Looks of kinds when no load is drawn.
const KIND_LOOKS: usize = 7;
/// Look of kinds that are called black.
pub const BLACK: u8 = 6;
const MARKS: usize = 3 + KIND_LOOKS + super::loads::CLASSES;

impl Mark {
    /// All marks in painting order.
    pub fn all() -> impl Iterator<Item = Self> {
        let kinds = (0..KIND_LOOKS as u8).map(Self::Kind);
        let loads = (1..=super::loads::CLASSES as u8).map(Self::Load);
        [Self::Unknown, Self::Idle]
            .into_iter()
            .chain(kinds)
            .chain(loads)
            .chain([Self::Down])
    }

    /// Position in painting order.
    fn index(self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Idle => 1,
            Self::Kind(k) => 2 + k as usize % KIND_LOOKS,
            Self::Load(c) => 1 + KIND_LOOKS + (c as usize).clamp(1, super::loads::CLASSES),
            Self::Down => MARKS - 1,
        }
    }

    /// CSS class.
    pub fn class(self) -> String {
        match self {
            Self::Unknown => "u".into(),
            Self::Idle => "z".into(),
            Self::Kind(k) => format!("k{}", k as usize % KIND_LOOKS),
            Self::Load(c) => format!("l{c}"),
            Self::Down => "d".into(),
        }
    }

    /// Width of a stroke in units of the layer: load is shown by width as well as by colour.
    pub fn width(self) -> f32 {
        match self {
            Self::Unknown => 1.0,
            Self::Idle => 0.7,
            Self::Kind(_) => 1.5,
            Self::Load(c) => [0.7, 1.2, 1.9, 2.8, 3.7, 4.7][(c as usize).min(5)],
            Self::Down => 1.6,
        }
    }

    /// Dash pattern in units of the layer.
    fn dash(self) -> Option<[f32; 2]> {
        match self {
            Self::Unknown => Some([0.8, 2.6]),
            Self::Down => Some([3.0, 2.0]),
            Self::Kind(1) => Some([6.0, 1.6]),
            Self::Kind(2) => Some([3.0, 1.6]),
            Self::Kind(3) => Some([1.6, 1.2]),
            Self::Kind(4) => Some([8.0, 3.0]),
            Self::Kind(5) => Some([4.0, 3.0]),
            Self::Kind(6) => Some([9.0, 1.2]),
            _ => None,
        }
    }

    /// Fill of a level meter of this mark (0 to 1).
    pub fn fill(self) -> f32 {
        match self {
            Self::Load(c) => f32::from(c) / super::loads::CLASSES as f32,
            Self::Kind(_) => 1.0,
            Self::Idle => 0.06,
            _ => 0.0,
        }
    }
}

/// Strokes and areas of one part of a drawing, grouped by mark so that a path element holds many links.
pub struct Layer {
    /// Stroke widths are multiples of this.
    unit: f32,
    strokes: Vec<String>,
    areas: Vec<String>,
}

impl Layer {
    /// An empty layer.
    pub fn new(unit: f32) -> Self {
        Self {
            unit,
            strokes: vec![String::new(); MARKS],
            areas: vec![String::new(); MARKS],
        }
    }

    /// A straight stroke; `barb` adds half an arrow head of that size on its right-hand side.
    pub fn line(&mut self, mark: Mark, [x1, y1, x2, y2]: [f32; 4], barb: f32) {
        let d = &mut self.strokes[mark.index()];
        let _ = write!(d, "M{} {}", num(x1), num(y1));
        let (dx, dy) = (x2 - x1, y2 - y1);
        if dy.abs() < 0.05 {
            let _ = write!(d, "h{}", num(dx));
        } else if dx.abs() < 0.05 {
            let _ = write!(d, "v{}", num(dy));
        } else {
            let _ = write!(d, "l{} {}", num(dx), num(dy));
        }
        let length = dx.hypot(dy);
        if barb > 0.0 && length > 2.0 * barb {
            let (ux, uy) = (dx / length, dy / length);
            let (bx, by) = (-ux - 0.55 * uy, -uy + 0.55 * ux);
            let _ = write!(d, "l{} {}", num(bx * barb), num(by * barb));
        }
    }

    /// Any path data as a stroke.
    pub fn path(&mut self, mark: Mark, data: &str) {
        self.strokes[mark.index()].push_str(data);
    }

    /// A filled rectangle.
    pub fn rect(&mut self, mark: Mark, [x, y, w, h]: [f32; 4]) {
        if w <= 0.0 || h <= 0.0 {
            return;
        }
        let _ = write!(
            self.areas[mark.index()],
            "M{} {}h{}v{}h{}z",
            num(x),
            num(y),
            num(w),
            num(h),
            num(-w)
        );
    }

    /// A meter filled from the bottom up to the mark's class, with a bare floor when idle,
    /// dotted when unknown: a load shown as an area is encoded by its height as well as by its colour.
    pub fn meter(&mut self, mark: Mark, [x, y, w, h]: [f32; 4]) {
        let filled = h * mark.fill();
        self.rect(mark, [x, y + h - filled, w, filled]);
        if mark == Mark::Unknown {
            self.line(mark, [x + w / 2.0, y, x + w / 2.0, y + h], 0.0);
        }
        if mark == Mark::Down {
            self.line(mark, [x, y, x + w, y + h], 0.0);
        }
    }

    /// Writes the paths, unimportant marks first.
    pub fn write(&self, out: &mut String) {
        out.push_str("<g class=\"f\">");
        for mark in Mark::all() {
            let d = &self.areas[mark.index()];
            if !d.is_empty() {
                let _ = write!(out, "<path class=\"{}\" d=\"{d}\"/>", mark.class());
            }
        }
        out.push_str("</g>\n<g class=\"s\">");
        for mark in Mark::all() {
            let d = &self.strokes[mark.index()];
            if d.is_empty() {
                continue;
            }
            let _ = write!(
                out,
                "<path class=\"{}\" stroke-width=\"{}\"",
                mark.class(),
                num2(mark.width() * self.unit)
            );
            if let Some([on, off]) = mark.dash() {
                let (on, off) = (num2(on * self.unit), num2(off * self.unit));
                let _ = write!(out, " stroke-dasharray=\"{on} {off}\"");
            }
            let _ = write!(out, " d=\"{d}\"/>");
        }
        out.push_str("</g>\n");
    }
}

/// Radius of a [`badge`].
pub const BADGE: f32 = 7.0;

/// Horizontal alignment of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Begins at the point.
    Start,
    /// Is centred on it.
    Middle,
    /// Ends at it.
    End,
}

/// Adds a line of text of a class (`t1` title, `t2` body, `t3` small and muted, …).
pub fn text(out: &mut String, class: &str, x: f32, y: f32, anchor: Anchor, content: &str) {
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{}\" y=\"{}\"{anchor}>{}</text>",
        num(x),
        num(y),
        escape(content)
    );
}

/// A rectangle of a class, outside the marks.
pub fn rect(out: &mut String, class: &str, [x, y, w, h]: [f32; 4], radius: f32) {
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>",
        num(x),
        num(y),
        num(w),
        num(h),
        num(radius)
    );
}

/// A numbered disc.
pub fn badge(out: &mut String, [x, y]: [f32; 2], number: usize) {
    let _ = writeln!(
        out,
        "<circle class=\"badge\" cx=\"{}\" cy=\"{}\" r=\"{BADGE}\"/>",
        num(x),
        num(y)
    );
    let class = if number > 9 { "badget b2" } else { "badget" };
    text(out, class, x, y + 3.1, Anchor::Middle, &number.to_string());
}

/// Text with bidirectional control characters shown by number: in a name, one would reverse its row.
pub fn visible(text: &str) -> Cow<'_, str> {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(turns) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // Writing into a string cannot fail.
        let _ = match turns(c) {
            true => write!(out, "‹U+{:04X}›", u32::from(c)),
            false => out.write_char(c),
        };
    }
    Cow::Owned(out)
}

/// Escapes text for markup: names come from files and networks. Control characters, which
/// XML cannot hold, become a visible replacement, and those of [`visible`] their number.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate with at most one decimal.
pub fn num(value: f32) -> String {
    trim(&format!("{value:.1}"))
}

/// A number with at most two decimals.
pub fn num2(value: f32) -> String {
    trim(&format!("{value:.2}"))
}

fn trim(text: &str) -> String {
    let short = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    };
    if short == "-0" || short.is_empty() {
        return "0".into();
    }
    short.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_markup() {
        assert_eq!(
            escape("a<b>&\"'\u{1}\n"),
            "a&lt;b&gt;&amp;&quot;&#39;\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn what_turns_the_direction_of_writing_is_shown() {
        assert_eq!(visible("r0-\u{202e}RTL X+"), "r0-‹U+202E›RTL X+");
        assert_eq!(escape("\u{2066}a<"), "‹U+2066›a&lt;");
        assert_eq!(visible("شبكة-1"), "شبكة-1");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [num(1.0), num(-0.04), num(2.55), num2(0.35), num(10.0)],
            ["1", "0", "2.5", "0.35", "10"]
        );
    }

    #[test]
    fn every_mark_has_its_own_place_and_louder_ones_come_later() {
        let order: Vec<usize> = Mark::all().map(Mark::index).collect();
        assert_eq!(order, (0..MARKS).collect::<Vec<_>>());
        let widths: Vec<f32> = (1..=5).map(|c| Mark::Load(c).width()).collect();
        assert!(widths.is_sorted(), "{widths:?}");
    }
}

//! A whole drawing: title, picture, legend, worst links, and its command.

use super::names::{shorten, shorten_all};
use super::svg::{self, Anchor, Mark};
use super::{CLASSES, LinkLoads, Looks, Picture, Scale, Signs, badges, isometric, picture, style};
use hopbyte_fabric::{Fabric, LinkId, NodeId};
use std::fmt::Write;

/// Further parts of a drawing.
#[derive(Clone, Debug, Default)]
pub struct DrawOptions {
    /// Title; empty for the fabric's source and size.
    pub title: String,
    /// A line below the title: window, coverage, calibration.
    pub subtitle: String,
    /// The command line of the picture, printed below it.
    pub command: String,
    /// Scale, if several pictures must share one.
    pub scale: Option<Scale>,
    /// Number of the worst links to label; 0 for none.
    pub worst: usize,
    /// Nodes to frame, such as those of a job.
    pub job: Vec<NodeId>,
    /// Links with errors and links that are down, by their counters.
    pub signs: Option<Signs>,
}

/// Width of the page's contents.
pub const WIDTH: f32 = 1160.0;
/// Target height of the picture itself.
const HEIGHT: f32 = 980.0;
/// Margin around the page.
const EDGE: f32 = 22.0;
/// Height of a line of text.
const LINE: f32 = 19.0;

/// Draws the fabric as one SVG page with the given load on its links.
///
/// The result is a complete file with light and dark colours (`prefers-color-scheme`). Names are escaped
/// and shortened. Size: below 3 MB for 4,608 routers; larger grids are drawn by rings.
pub fn fabric_svg(fabric: &Fabric, loads: Option<&LinkLoads>, options: &DrawOptions) -> String {
    let mut looks = Looks::new(fabric, loads, options.scale, &options.job);
    if let Some(signs) = &options.signs {
        looks = looks.with_signs(signs);
    }
    let mut main = picture(&looks, WIDTH, HEIGHT);
    let worst = loads.map_or(Vec::new(), |l| l.worst(options.worst));
    badges::add(
        &mut main,
        &worst.iter().map(|&(l, _)| l).collect::<Vec<_>>(),
    );
    let mut page = Page::new();
    page.head(fabric, loads, options);
    page.legend(&looks, None);
    page.place(&main, (WIDTH - main.width) / 2.0);
    page.words(&main.words);
    let space = isometric::picture(&looks, if worst.is_empty() { WIDTH } else { 520.0 });
    page.space_and_worst(&looks, space.as_ref(), &worst);
    page.command(options);
    page.finish(fabric, options)
}

fn title(fabric: &Fabric, options: &DrawOptions) -> String {
    if options.title.is_empty() {
        format!(
            "{} · {} routers, {} nodes",
            shorten(fabric.source(), 60),
            fabric.routers().len(),
            fabric.nodes().len()
        )
    } else {
        options.title.clone()
    }
}

/// A page that grows downwards.
pub struct Page {
    body: String,
    /// Position of the next part.
    pub y: f32,
}

impl Page {
    /// An empty page.
    pub fn new() -> Self {
        Self {
            body: String::new(),
            y: EDGE,
        }
    }

    /// A line of text, truncated to so many characters.
    pub fn line(&mut self, class: &str, x: f32, text: &str, most: usize) {
        self.y += LINE;
        let text = shorten(text, most);
        svg::text(
            &mut self.body,
            class,
            EDGE + x,
            self.y - 5.0,
            Anchor::Start,
            &text,
        );
    }

    /// Title and subtitle.
    pub fn head(&mut self, fabric: &Fabric, loads: Option<&LinkLoads>, options: &DrawOptions) {
        self.y += 6.0;
        self.line("t1", 0.0, &title(fabric, options), 100);
        for line in wrap(&options.subtitle, 170) {
            self.line("t2", 0.0, &line, 180);
        }
        if let Some(loads) = loads {
            let unknown = fabric
                .link_ids()
                .filter(|&l| loads.get(l).is_none())
                .count();
            let mut text = format!("Drawn on the links: {}.", loads.name);
            if Scale::of([loads]).is_some_and(|s| !s.colours().is_empty()) {
                text.push_str(" Darker means more; the end of the scale is the largest value, not a capacity.");
            }
            if unknown > 0 {
                let total = fabric.links().len();
                let _ = write!(text, " Not known for {unknown} of {total} links.");
            }
            self.line("t2", 0.0, &text, 170);
        }
        self.y += 8.0;
    }

    /// Samples of all marks in use, with their ranges and numbers of links, before and after
    /// if there are two.
    pub fn legend(&mut self, looks: &Looks, after: Option<&Looks>) {
        let entries = entries(looks, after);
        let mut x = EDGE;
        let y = self.y + 9.0;
        for (mark, text) in entries {
            let wide = 44.0 + 6.4 * text.chars().count() as f32 + 16.0;
            if x + wide > EDGE + WIDTH {
                x = EDGE;
                self.y += 20.0;
            }
            let y = y.max(self.y + 9.0);
            let mut layer = svg::Layer::new(1.1);
            layer.line(mark, [x, y, x + 26.0, y], 0.0);
            layer.meter(mark, [x + 29.0, y - 6.0, 6.0, 12.0]);
            self.layer(&layer, looks);
            svg::text(
                &mut self.body,
                "t2",
                x + 41.0,
                y + 4.5,
                Anchor::Start,
                &text,
            );
            x += wide;
        }
        for (sign, links) in looks.signs.counts() {
            let text = format!("{} ({links})", sign.words());
            let wide = 16.0 + 6.4 * text.chars().count() as f32 + 16.0;
            if x + wide > EDGE + WIDTH {
                x = EDGE;
                self.y += 20.0;
            }
            let y = y.max(self.y + 9.0);
            self.body.push_str(&sign.at([[x + 6.0, y]].into_iter()));
            let body = &mut self.body;
            svg::text(body, "t2", x + 16.0, y + 4.5, Anchor::Start, &text);
            x += wide;
        }
        self.y += 26.0;
    }

    /// Strokes and areas in the colours of the loads.
    fn layer(&mut self, layer: &svg::Layer, looks: &Looks) {
        let _ = writeln!(self.body, "<g class=\"{}\">", looks.colours());
        layer.write(&mut self.body);
        self.body.push_str("</g>\n");
    }

    /// A picture at a horizontal offset.
    pub fn place(&mut self, picture: &Picture, left: f32) {
        let left = EDGE + left;
        let _ = writeln!(
            self.body,
            "<g transform=\"translate({} {})\">\n{}</g>",
            svg::num(left),
            svg::num(self.y),
            picture.body
        );
        self.y += picture.height + 8.0;
    }

    /// Explanation of the picture.
    pub fn words(&mut self, words: &str) {
        for line in wrap(words, 190) {
            self.line("t3", 0.0, &line, 200);
        }
        self.y += 8.0;
    }

    fn space_and_worst(&mut self, looks: &Looks, space: Option<&Picture>, worst: &[(LinkId, f64)]) {
        let top = self.y;
        if let Some(space) = space {
            let _ = writeln!(
                self.body,
                "<g transform=\"translate({EDGE} {})\">\n{}</g>",
                svg::num(top),
                space.body
            );
            self.y += space.height + 4.0;
            let line = wrap(&space.words, if worst.is_empty() { 190 } else { 92 });
            for l in line {
                self.line("t3", 0.0, &l, 200);
            }
        }
        let bottom = self.y;
        if !worst.is_empty() {
            self.y = top;
            let x = if space.is_some() { 560.0 } else { 0.0 };
            self.worst(looks, x, WIDTH - x, "Worst links", worst);
        }
        self.y = self.y.max(bottom);
    }

    /// The numbered links by name, in a column of the given width.
    pub fn worst(
        &mut self,
        looks: &Looks,
        x: f32,
        width: f32,
        title: &str,
        worst: &[(LinkId, f64)],
    ) {
        let Some(loads) = looks.loads else { return };
        let fabric = looks.fabric;
        self.line("tb", x, title, 40);
        let name = |&(link, _): &(LinkId, f64)| {
            let to = fabric.end_name(fabric.link(link).to);
            let (name, kind) = (fabric.link_name(link), &fabric.kind(link).name);
            format!("{name} to {to} · {kind}")
        };
        let full: Vec<String> = worst.iter().map(name).collect();
        let full: Vec<&str> = full.iter().map(String::as_str).collect();
        let names = shorten_all(&full, ((width - 200.0) / 6.3) as usize);
        for (rank, (&(link, value), name)) in worst.iter().zip(&names).enumerate() {
            self.y += 4.0;
            let y = self.y + LINE / 2.0;
            let left = EDGE + x;
            let b = &mut self.body;
            svg::badge(b, [left + 7.0, y], rank + 1);
            let share = (value / looks.scale.max.max(f64::MIN_POSITIVE)).min(1.0) as f32;
            let mut layer = svg::Layer::new(1.0);
            layer.rect(looks.mark(link), [left + 20.0, y - 5.0, 90.0 * share, 10.0]);
            self.layer(&layer, looks);
            let b = &mut self.body;
            svg::text(
                b,
                "t2",
                left + 182.0,
                y + 4.5,
                Anchor::End,
                &looks.signs.text(loads, link).unwrap_or_default(),
            );
            svg::text(b, "t2", left + 194.0, y + 4.5, Anchor::Start, name);
            self.y += LINE - 2.0;
        }
    }

    /// The command that reproduces the page.
    pub fn command(&mut self, options: &DrawOptions) {
        if !options.command.is_empty() {
            self.y += 6.0;
            self.line("mono t3", 0.0, &format!("$ {}", options.command), 170);
        }
    }

    /// The file.
    pub fn finish(self, fabric: &Fabric, options: &DrawOptions) -> String {
        let title = title(fabric, options);
        let (w, h) = (svg::num(WIDTH + 2.0 * EDGE), svg::num(self.y + EDGE));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hb\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\">\n<title>{}</title>\n<style>\n{}</style>\n<rect class=\"bg\" width=\"{w}\" height=\"{h}\"/>\n{}</svg>\n",
            svg::escape(&title),
            style::sheet(),
            self.body
        )
    }
}

/// The marks that occur, with words and counts.
pub fn legend(looks: &Looks) -> Vec<(Mark, String)> {
    entries(looks, None)
}

fn entries(looks: &Looks, after: Option<&Looks>) -> Vec<(Mark, String)> {
    let fabric = looks.fabric;
    let count = |looks: &Looks, mark: Mark| {
        let same = |&l: &LinkId| looks.mark(l) == mark;
        fabric.link_ids().filter(same).count()
    };
    let counts = |mark: Mark| match after {
        Some(after) => format!("{} → {}", count(looks, mark), count(after, mark)),
        None => count(looks, mark).to_string(),
    };
    let mut entries: Vec<(Mark, String)> = Vec::new();
    if looks.loads.is_none() {
        for (name, (links, capacity)) in fabric.kind_summary() {
            let Some(kind) = fabric.kinds().iter().position(|k| k.name == name) else {
                continue;
            };
            let mark = Mark::Kind(looks.kind_looks[kind]);
            entries.push((mark, format!("{name}, {capacity} ({links})")));
        }
        entries.sort_by_key(|&(mark, _)| mark);
    } else {
        let idle = looks.scale.idle_text();
        entries.push((Mark::Idle, format!("{idle} ({})", counts(Mark::Idle))));
        let classes = if looks.scale.max > 0.0 { CLASSES } else { 0 };
        for class in 1..=classes {
            let mark = Mark::Load(class as u8);
            let (range, unit) = (looks.scale.range_text(class), looks.scale.unit_text());
            entries.push((mark, format!("{range} {unit} ({})", counts(mark))));
        }
        let unknown = counts(Mark::Unknown);
        entries.push((Mark::Unknown, format!("not known ({unknown})")));
    }
    entries.retain(|(mark, text)| {
        let none = text.ends_with("(0)") || text.ends_with("(0 → 0)");
        matches!(mark, Mark::Kind(_) | Mark::Load(_)) || !none
    });
    entries
}

/// Breaks text into lines of at most `most` characters, between words.
fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

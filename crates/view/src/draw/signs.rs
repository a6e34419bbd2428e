//! Errors and missing lanes as symbols on the links: a state that no load shows.

use super::svg::num;
use super::{LinkLoads, Looks, Picture};
use hopbyte_fabric::{Fabric, LinkId, LinkState};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

/// Name of the quantity whose values may be lower bounds.
pub const ERRORS: &str = "errors";

/// Half the size of a symbol in pixels.
const SIZE: f32 = 5.5;

/// State of a link that is drawn as a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It counts transmission errors: a triangle.
    Errors,
    /// Some of its lanes are out of service: a diamond.
    Lanes,
    /// No lane is in service: a cross.
    Down,
}

impl Sign {
    /// All symbols, the most important last: it is painted on top.
    pub const ALL: [Self; 3] = [Self::Lanes, Self::Errors, Self::Down];

    /// CSS class.
    pub fn class(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::Lanes => "lanes",
            Self::Down => "cross",
        }
    }

    /// Meaning, for legends.
    pub fn words(self) -> &'static str {
        match self {
            Self::Errors => "transmission errors",
            Self::Lanes => "lanes out of service",
            Self::Down => "down",
        }
    }

    /// The symbol as path data.
    fn path(self, [x, y]: [f32; 2]) -> String {
        let (left, right, top, bottom) = (x - SIZE, x + SIZE, y - SIZE, y + SIZE);
        let [x, y, left, right, top, bottom] = [x, y, left, right, top, bottom].map(num);
        match self {
            Self::Errors => format!("M{left} {bottom}L{right} {bottom}L{x} {top}z"),
            Self::Lanes => format!("M{x} {top}L{right} {y}L{x} {bottom}L{left} {y}z"),
            Self::Down => format!("M{left} {top}L{right} {bottom}M{right} {top}L{left} {bottom}"),
        }
    }

    /// A path element with this symbol at several places.
    pub fn at(self, places: impl Iterator<Item = [f32; 2]>) -> String {
        let data: String = places.map(|place| self.path(place)).collect();
        if data.is_empty() {
            return data;
        }
        format!("<path class=\"sign {}\" d=\"{data}\"/>\n", self.class())
    }
}

/// The symbols of a machine's links.
#[derive(Clone, Debug, Default)]
pub struct Signs {
    errors: Vec<(LinkId, f64)>,
    /// Links of which the errors are a lower bound, and the words for that.
    least: BTreeMap<LinkId, &'static str>,
    lanes: Vec<LinkId>,
    down: HashSet<LinkId>,
}

impl Signs {
    /// From the fabric, and from the counters of its links if there are any.
    pub fn of(fabric: &Fabric, state: Option<&LinkState>) -> Self {
        let mut signs = Self::default();
        for id in fabric.link_ids() {
            let link = fabric.link(id);
            let counted = state.and_then(|s| s.lanes.get(id));
            let lanes = counted.unwrap_or(f64::from(link.lanes_in_service));
            if !link.is_up() || lanes <= 0.0 {
                signs.down.insert(id);
            } else if lanes < f64::from(link.lanes) {
                signs.lanes.push(id);
            }
            let errors = state.and_then(|s| s.errors.get(id));
            signs
                .errors
                .extend(errors.filter(|&e| e > 0.0).map(|e| (id, e)));
            let least = state.map_or("", |s| s.at_least(id));
            if !least.is_empty() {
                signs.least.insert(id, least);
            }
        }
        signs
            .errors
            .sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        signs
    }

    /// Whether a link has no lane in service.
    pub fn is_down(&self, link: LinkId) -> bool {
        self.down.contains(&link)
    }

    /// Links with errors and their number, most errors first.
    pub fn errors(&self) -> &[(LinkId, f64)] {
        &self.errors
    }

    /// Links of which there may be more errors.
    pub fn least(&self) -> impl Iterator<Item = LinkId> {
        self.least.keys().copied()
    }

    /// [`LinkState::at_least`].
    pub fn at_least(&self, link: LinkId) -> &'static str {
        self.least.get(&link).copied().unwrap_or_default()
    }

    /// A link's value as text, if known; of errors of which there may be more, `≥` before it.
    pub fn text(&self, loads: &LinkLoads, link: LinkId) -> Option<String> {
        let least = match loads.name == ERRORS {
            true => self.at_least(link),
            false => "",
        };
        Some(format!("{least}{}", loads.text(loads.get(link)?)))
    }

    /// Links with a symbol.
    pub fn links(&self, sign: Sign) -> Vec<LinkId> {
        match sign {
            Sign::Errors => self.errors.iter().map(|&(l, _)| l).collect(),
            Sign::Lanes => self.lanes.clone(),
            Sign::Down => {
                let mut down: Vec<LinkId> = self.down.iter().copied().collect();
                down.sort();
                down
            }
        }
    }

    /// Symbols in use with their numbers of links.
    pub fn counts(&self) -> impl Iterator<Item = (Sign, usize)> {
        let count = |sign| (sign, self.links(sign).len());
        Sign::ALL.map(count).into_iter().filter(|(_, n)| *n > 0)
    }

    /// Draws the symbols at the middles of the links' strokes, one per place.
    pub(super) fn add(&self, picture: &mut Picture) {
        for sign in Sign::ALL {
            let mut taken = HashSet::new();
            let places = self.links(sign).into_iter().filter_map(|link| {
                let [x1, y1, x2, y2] = picture.geometry.links[link.index()];
                let middle = [(x1 + x2) / 2.0, (y1 + y2) / 2.0];
                let known = !x1.is_nan() && taken.insert(middle.map(|v| (v * 10.0) as i64));
                known.then_some(middle)
            });
            let element = sign.at(places);
            picture.body.push_str(&element);
        }
    }
}

/// Sample of a symbol for legends in HTML.
pub fn sign_sample(sign: Sign) -> String {
    let mut out = String::from(
        "<svg class=\"hb sample\" viewBox=\"0 0 14 16\" width=\"14\" height=\"16\" aria-hidden=\"true\">",
    );
    let _ = write!(
        out,
        "{}</svg>",
        sign.at([[7.0, 8.0]].into_iter()).trim_end()
    );
    out
}

impl Looks<'_> {
    /// With the symbols of a reading in place of those of the fabric alone.
    pub fn with_signs(mut self, signs: &Signs) -> Self {
        self.signs = signs.clone();
        self
    }
}

//! Values drawn on the links, and their scale.

use hopbyte_fabric::units::significant;
use hopbyte_fabric::{Column, LinkId, LinkState};

/// Unit of the values of [`LinkLoads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds: bytes over the capacity of the lanes in service.
    Seconds,
    /// Bytes.
    Bytes,
    /// A share of something, 0 to 1, shown in per cent.
    Ratio,
    /// A plain count (packets, flits, errors).
    Count,
}

/// Share below which a link counts as idle: keepalives and monitoring are no load.
const IDLE: f64 = 0.01;

impl Unit {
    /// Largest value of an idle link.
    fn idle(self) -> f64 {
        match self {
            Self::Ratio => IDLE,
            Self::Seconds | Self::Bytes | Self::Count => 0.0,
        }
    }
}

/// One value per directed link, with its meaning. Unknown values stay unknown in every picture.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkLoads {
    /// Name of the quantity: `link time`, `used share of capacity`.
    pub name: String,
    /// Unit of the values.
    pub unit: Unit,
    values: Vec<f64>,
}

impl LinkLoads {
    /// From one value per link id; not-a-number is unknown.
    pub fn new(name: impl Into<String>, unit: Unit, values: Vec<f64>) -> Self {
        Self {
            name: name.into(),
            unit,
            values,
        }
    }

    /// From a column of a link state.
    pub fn of_column(name: impl Into<String>, unit: Unit, column: &Column) -> Self {
        Self::new(name, unit, column.as_slice().to_vec())
    }

    /// The most informative column of a link state: the used share of capacity if the window is known,
    /// otherwise the stalls, otherwise the bytes.
    pub fn of_state(state: &LinkState) -> Self {
        let choices = [
            ("used share of capacity", Unit::Ratio, &state.used_ratio),
            ("bytes received", Unit::Bytes, &state.received_bytes),
            ("input stall", Unit::Seconds, &state.input_stall_seconds),
            ("credit stall", Unit::Seconds, &state.credit_stall_seconds),
        ];
        let best = choices
            .iter()
            .find(|(_, _, column)| column.known() > 0)
            .unwrap_or(&choices[0]);
        Self::of_column(best.0, best.1, best.2)
    }

    /// The value of a link, if known.
    #[inline]
    pub fn get(&self, link: LinkId) -> Option<f64> {
        let value = *self.values.get(link.index())?;
        (!value.is_nan()).then_some(value)
    }

    /// All values by link id, unknown as not-a-number.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The largest known value, or 0 without one.
    pub fn max(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    /// The `count` largest values that are not idle, worst first; equal values by link id.
    pub fn worst(&self, count: usize) -> Vec<(LinkId, f64)> {
        let mut known: Vec<(LinkId, f64)> = self
            .values
            .iter()
            .enumerate()
            .filter(|&(_, &v)| v > self.unit.idle())
            .map(|(i, &v)| (LinkId::of(i), v))
            .collect();
        known.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        known.truncate(count);
        known
    }

    /// Name of the unit in machine-readable output.
    pub fn unit_name(&self) -> &'static str {
        match self.unit {
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
            Unit::Ratio => "ratio",
            Unit::Count => "count",
        }
    }

    /// A value as text with its unit, three significant digits; counts below a million in full.
    pub fn text(&self, value: f64) -> String {
        if self.unit == Unit::Count && value.abs() < 1e6 {
            return hopbyte_fabric::units::count(value.max(0.0).round() as usize);
        }
        let (factor, unit) = prefix(self.unit, value);
        format!("{}{unit}", significant(value * factor, 3))
    }
}

/// Number of load classes above idle.
pub const CLASSES: usize = 5;

/// A linear scale from zero in [`CLASSES`] equal steps.
///
/// Shares of a link's capacity or of the window have an absolute scale to 100 %: its colours mean severity, and an idle
/// network looks idle. Other quantities have no such reference; their scale ends at a round number above the largest value,
/// and its colours ([`Scale::colours`]) show amounts without judging them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Upper end.
    pub max: f64,
    /// Unit of the values.
    pub unit: Unit,
}

impl Scale {
    /// The scale that covers all of these loads; pass before and after together so that equal colours
    /// mean equal loads.
    pub fn of<'a>(loads: impl IntoIterator<Item = &'a LinkLoads>) -> Option<Self> {
        let mut scale: Option<Self> = None;
        for l in loads {
            let max = l.max().max(scale.map_or(0.0, |s| s.max));
            scale = Some(Self { max, unit: l.unit });
        }
        scale.map(|s| Self {
            max: match s.unit {
                Unit::Ratio => 1.0,
                _ => round_up(s.max),
            },
            ..s
        })
    }

    /// CSS class of the drawing: empty for severity, `amount` for quantities without an absolute scale.
    pub fn colours(&self) -> &'static str {
        match self.unit {
            Unit::Ratio => "",
            Unit::Seconds | Unit::Bytes | Unit::Count => "amount",
        }
    }

    /// The class of a value: 0 for idle, 1 to [`CLASSES`] for the fifths of the scale.
    #[inline]
    pub fn class(&self, value: f64) -> usize {
        if value <= self.unit.idle() || self.max <= 0.0 {
            return 0;
        }
        // The tolerance keeps a value at the upper end of a fifth inside it, despite rounding.
        let fifth = (value / self.max * CLASSES as f64 - 1e-9).ceil();
        (fifth as usize).clamp(1, CLASSES)
    }

    /// Upper end of a class.
    pub fn upper(&self, class: usize) -> f64 {
        self.max * class as f64 / CLASSES as f64
    }

    /// The range of a class as text without the unit, in the unit of [`Scale::unit_text`].
    pub fn range_text(&self, class: usize) -> String {
        let (factor, _) = prefix(self.unit, self.max);
        let number = |c| match self.unit {
            Unit::Count if factor == 1.0 && self.max >= 1e3 => {
                hopbyte_fabric::units::count(self.upper(c).round() as usize)
            }
            _ => significant_short(self.upper(c) * factor),
        };
        let idle = significant_short(self.unit.idle() * factor);
        match class {
            0 if self.unit.idle() > 0.0 => format!("at most {idle}"),
            0 => "0".into(),
            1 if self.unit.idle() > 0.0 => format!("{idle}–{}", number(1)),
            _ => format!("{}–{}", number(class - 1), number(class)),
        }
    }

    /// The entry of idle links in a legend.
    pub fn idle_text(&self) -> String {
        match self.unit.idle() > 0.0 {
            true => format!("idle, {} {}", self.range_text(0), self.unit_text()),
            false => "nothing".into(),
        }
    }

    /// The unit of the whole scale: that of its upper end.
    pub fn unit_text(&self) -> &'static str {
        prefix(self.unit, self.max).1.trim_start()
    }
}

/// Factor and unit text that show a value of this size with one to three digits before the point.
fn prefix(unit: Unit, value: f64) -> (f64, &'static str) {
    let size = value.abs();
    let pick = |steps: &[(f64, f64, &'static str)]| {
        steps
            .iter()
            .find(|&&(from, ..)| size >= from)
            .or(steps.last())
            .map_or((1.0, ""), |&(_, factor, text)| (factor, text))
    };
    match unit {
        Unit::Ratio => (100.0, " %"),
        Unit::Seconds if size == 0.0 => (1.0, " s"),
        Unit::Seconds => pick(&[
            (0.9995, 1.0, " s"),
            (0.9995e-3, 1e3, " ms"),
            (0.9995e-6, 1e6, " µs"),
            (0.0, 1e9, " ns"),
        ]),
        Unit::Bytes => pick(&[
            (0.9995e15, 1e-15, " PB"),
            (0.9995e12, 1e-12, " TB"),
            (0.9995e9, 1e-9, " GB"),
            (0.9995e6, 1e-6, " MB"),
            (0.9995e3, 1e-3, " kB"),
            (0.0, 1.0, " B"),
        ]),
        Unit::Count => pick(&[
            (0.9995e12, 1e-12, " × 10¹²"),
            (0.9995e9, 1e-9, " × 10⁹"),
            (0.9995e6, 1e-6, " × 10⁶"),
            (0.0, 1.0, ""),
        ]),
    }
}

/// The next number of the form 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .iter()
        .map(|m| m * power)
        .find(|&m| m >= value * (1.0 - 1e-12))
        .unwrap_or(10.0 * power)
}

/// Up to three significant digits without trailing zeros.
fn significant_short(value: f64) -> String {
    let text = significant(value, 3);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(unit: Unit, values: &[f64]) -> LinkLoads {
        LinkLoads::new("x", unit, values.to_vec())
    }

    #[test]
    fn scales_are_round_and_shared() {
        let before = loads(Unit::Seconds, &[3.67e-3, 0.0, f64::NAN]);
        let after = loads(Unit::Seconds, &[1.2e-3]);
        let scale = Scale::of([&before, &after]).unwrap();
        assert!((scale.max - 4e-3).abs() < 1e-12);
        assert_eq!(scale.unit_text(), "ms");
        assert_eq!(scale.range_text(2), "0.8–1.6");
        assert_eq!(
            [0.0, 1e-9, 0.8e-3, 0.81e-3, 4e-3].map(|v| scale.class(v)),
            [0, 1, 1, 2, 5]
        );
        assert_eq!(scale.colours(), "amount");
        let idle = Scale::of([&loads(Unit::Bytes, &[0.0])]).unwrap();
        assert_eq!((idle.class(0.0), idle.max), (0, 0.0));
    }

    /// The scale of shares is the same for an idle network and for a saturated one.
    #[test]
    fn shares_have_an_absolute_scale() {
        for largest in [1e-6, 0.004, 0.3, 0.61, 1.0, 1.7] {
            let used = loads(Unit::Ratio, &[largest, 0.0]);
            let scale = Scale::of([&used]).unwrap();
            assert_eq!(
                (scale.max, scale.unit_text(), scale.colours()),
                (1.0, "%", "")
            );
            let class = [0, 0, 2, 4, 5, 5];
            let at = [1e-6, 0.004, 0.3, 0.61, 1.0, 1.7]
                .iter()
                .position(|&v| v == largest);
            assert_eq!(scale.class(largest), class[at.unwrap()]);
            assert_eq!(
                used.worst(3).len(),
                usize::from(largest > 0.01),
                "{largest}"
            );
            assert_eq!(
                [0, 1, 5].map(|c| scale.range_text(c)),
                ["at most 1", "1–20", "80–100"]
            );
        }
    }

    #[test]
    fn worst_links_come_first_and_unknown_ones_never() {
        let l = loads(Unit::Bytes, &[1.0, f64::NAN, 5e6, 5e6, 0.0]);
        let worst: Vec<u32> = l.worst(3).iter().map(|(l, _)| l.0).collect();
        assert_eq!(worst, [2, 3, 0]);
        assert_eq!(l.text(5e6), "5.00 MB");
        assert_eq!(l.get(LinkId(1)), None);
    }
}

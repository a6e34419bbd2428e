//! The tables of metrics, aggregates and route choices. Names in the CLI, C and Python, units, help and the book come
//! from here.

use hopbyte_fabric::{Column, Fabric, LinkId, LinkState};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// An enum with a name and a help line for every value, from one list; further columns of a row are passed on.
macro_rules! named {
    (
        $(#[$doc:meta])* $kind:ident, $what:literal, $row:ty:
        $($variant:ident = $name:literal: $about:literal => $value:expr,)+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $kind {
            $(#[doc = $about] $variant,)+
        }

        impl $kind {
            /// All values, in the order of help texts and of the numbers in C.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            const ROWS: &[(&str, &str, $row)] = &[$(($name, $about, $value)),+];

            /// Name on the command line, in Python and in JSON.
            pub fn name(self) -> &'static str {
                Self::ROWS[self as usize].0
            }

            /// Meaning, in one line.
            pub fn about(self) -> &'static str {
                Self::ROWS[self as usize].1
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $kind {
            type Err = String;

            /// Parses the name; the error lists the valid names.
            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.into_iter().find(|k| k.name() == text);
                found.ok_or_else(|| {
                    let names = Self::ALL.map(Self::name).join(", ");
                    format!("no {} '{}': expected {names}", $what, text.escape_default())
                })
            }
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                name.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// The source of a metric's values.
#[derive(Clone, Copy)]
enum Source {
    /// 1 per link.
    One,
    /// 1 over the capacity of the lanes in service.
    Capacity,
    /// A reading of the machine's counters.
    Counters(fn(&LinkState) -> &Column),
    /// A share of the window, and the same in seconds, which orders links where no window is known.
    Stall(fn(&LinkState) -> &Column, fn(&LinkState) -> &Column),
}

/// Properties of a metric besides name and meaning.
struct Measure {
    unit: &'static str,
    source: Source,
    /// Upper bound of an unread link's value; infinite if there is no limit.
    ceiling: f64,
    /// The default aggregate.
    aggregate: Aggregate,
}

const fn counted(unit: &'static str, ceiling: f64, source: Source) -> Measure {
    Measure {
        unit,
        source,
        ceiling,
        aggregate: Aggregate::Max,
    }
}

const fn known(unit: &'static str, source: Source, aggregate: Aggregate) -> Measure {
    Measure {
        unit,
        source,
        ceiling: f64::INFINITY,
        aggregate,
    }
}

named! {
    /// A value of every directed link.
    Metric, "metric", Measure:
    Hops = "hops": "1 per link"
        => known("links", Source::One, Aggregate::Sum),
    InverseBandwidth = "inverse-bandwidth": "Seconds per byte: one over the capacity of the lanes in service"
        => known("s/B", Source::Capacity, Aggregate::Max),
    Used = "used": "Received bytes over the link's capacity in the window, 0 to 1 (USED_BW of paper 003)"
        => counted("ratio", 1.0, Source::Counters(|s| &s.used_ratio)),
    InputStall = "input-stall": "Share of the window that arrivals waited in the input queue, 0 to 1 (INQ_STALL)"
        => counted("ratio", 1.0, Source::Stall(|s| &s.input_stall_ratio, |s| &s.input_stall_seconds)),
    CreditStall = "credit-stall": "Share of the window that departures lacked credits, 0 to 1 (CREDIT_STALL)"
        => counted("ratio", 1.0, Source::Stall(|s| &s.credit_stall_ratio, |s| &s.credit_stall_seconds)),
    Bytes = "bytes": "Bytes received in the window"
        => counted("B", f64::INFINITY, Source::Counters(|s| &s.received_bytes)),
    Packets = "packets": "Packets received in the window"
        => counted("packets", f64::INFINITY, Source::Counters(|s| &s.packets)),
    Errors = "errors": "Transmission errors and dropped packets in the window"
        => counted("errors", f64::INFINITY, Source::Counters(|s| &s.errors)),
}

named! {
    /// How the link values of a route are aggregated; a route without links costs 0.
    Aggregate, "aggregate", ():
    Max = "max": "The highest value" => (),
    Sum = "sum": "The sum" => (),
    Mean = "mean": "The sum divided by the number of links" => (),
}

named! {
    /// Which routes of a transaction count (paper 000, V.C: the response takes another route back).
    Over, "route choice", ():
    Request = "request": "The route from source to target" => (),
    Response = "response": "The route from target back to source" => (),
    Both = "both": "The links of both" => (),
}

impl Default for Metric {
    /// The first value of the table.
    fn default() -> Self {
        Self::ALL[0]
    }
}

impl Metric {
    fn measure(self) -> &'static Measure {
        &Self::ROWS[self as usize].2
    }

    /// Unit for table headers.
    pub fn unit(self) -> &'static str {
        self.measure().unit
    }

    /// Whether the metric needs a reading of the machine's counters.
    pub fn needs_state(self) -> bool {
        matches!(
            self.measure().source,
            Source::Counters(_) | Source::Stall(..)
        )
    }

    /// Metrics read from counters, by which links can be ordered.
    pub fn counted() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|m| m.needs_state())
    }

    /// The column that orders links by this metric: its values, or, if none is known, a stall in seconds. `None` if the
    /// metric needs no counters.
    pub fn column(self, state: &LinkState) -> Option<&Column> {
        match self.measure().source {
            Source::One | Source::Capacity => None,
            Source::Counters(column) => Some(column(state)),
            Source::Stall(ratio, seconds) => {
                let ratio = ratio(state);
                Some(if ratio.known() > 0 {
                    ratio
                } else {
                    seconds(state)
                })
            }
        }
    }

    /// The default aggregate of a mapping's route costs: the sum for hops (the maximum would be 1 for any route), the
    /// maximum for the others.
    pub fn default_aggregate(self) -> Aggregate {
        self.measure().aggregate
    }

    /// Upper bound of an unread link's value; infinite if there is no limit.
    pub(crate) fn ceiling(self) -> f64 {
        self.measure().ceiling
    }

    /// The value of one link. The state has already assigned the readings of both ends to the link: used and input
    /// stall are read at its receiving end, credit stall at its sending end.
    pub fn of_link(self, fabric: &Fabric, state: Option<&LinkState>, link: LinkId) -> Option<f64> {
        match self.measure().source {
            Source::One => Some(1.0),
            Source::Capacity => Some(1.0 / fabric.link(link).capacity().0),
            Source::Counters(column) | Source::Stall(column, _) => column(state?).get(link),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_errors_list_them() {
        for metric in Metric::ALL {
            assert_eq!(metric.name().parse(), Ok(metric));
        }
        for over in Over::ALL {
            assert_eq!(over.name().parse(), Ok(over));
        }
        assert_eq!("mean".parse(), Ok(Aggregate::Mean));
        let error = "stall".parse::<Metric>().unwrap_err();
        assert!(error.contains("credit-stall"), "{error}");
    }
}

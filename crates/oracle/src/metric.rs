//! The tables of metrics, aggregates and route choices: what is counted on a link, and how a route's links become
//! one number. Names on every face, units, help and the book come from here.

use hopbyte_fabric::{Column, Fabric, LinkId, LinkState};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// An enum with a name and a line of help for every value, from one list; a row is what else belongs to it.
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
            /// All of them, in the order of help texts and of the numbers in C.
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

            /// Reads the name; the error lists the names there are.
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

/// Where a metric's values come from.
#[derive(Clone, Copy)]
enum Source {
    /// 1 a link.
    One,
    /// 1 over the capacity of the lanes in service.
    Capacity,
    /// A reading of the machine's counters.
    Counters(fn(&LinkState) -> &Column),
}

/// What belongs to a metric beside its name and meaning.
struct Measure {
    unit: &'static str,
    source: Source,
    /// The highest value of a link that was not read; infinite where there is no limit.
    ceiling: f64,
    /// How a route's links become one number where the question does not say.
    aggregate: Aggregate,
}

const fn counted(unit: &'static str, ceiling: f64, column: fn(&LinkState) -> &Column) -> Measure {
    Measure {
        unit,
        source: Source::Counters(column),
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
    Hops = "hops": "1 a link"
        => known("links", Source::One, Aggregate::Sum),
    InverseBandwidth = "inverse-bandwidth": "Seconds per byte: one over the capacity of the lanes in service"
        => known("s/B", Source::Capacity, Aggregate::Max),
    Used = "used": "Received bytes over what the link could have carried, 0 to 1 (USED_BW of paper 003)"
        => counted("ratio", 1.0, |s| &s.used_ratio),
    InputStall = "input-stall": "Share of the window that arrivals waited in the input queue, 0 to 1 (INQ_STALL)"
        => counted("ratio", 1.0, |s| &s.input_stall_ratio),
    CreditStall = "credit-stall": "Share of the window that departures lacked credits, 0 to 1 (CREDIT_STALL)"
        => counted("ratio", 1.0, |s| &s.credit_stall_ratio),
    Bytes = "bytes": "Bytes received in the window"
        => counted("B", f64::INFINITY, |s| &s.received_bytes),
}

named! {
    /// How the values of a route's links become one number; a route without links costs 0.
    Aggregate, "aggregate", ():
    Max = "max": "The highest value" => (),
    Sum = "sum": "The sum" => (),
    Mean = "mean": "The sum over the number of links" => (),
}

named! {
    /// Which routes of a transaction count (paper 000, V.C: the response takes another route back).
    Over, "route choice", ():
    Request = "request": "The route from source to target" => (),
    Response = "response": "The route from target back to source" => (),
    Both = "both": "The links of both" => (),
}

impl Default for Metric {
    /// The first of the table.
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
        matches!(self.measure().source, Source::Counters(_))
    }

    /// The aggregate of a mapping's route costs where none is asked for: hops are added up (the longest hop of a
    /// route is one hop, whatever the route), of the others the worst link counts.
    pub fn default_aggregate(self) -> Aggregate {
        self.measure().aggregate
    }

    /// The highest value that a link which was not read can have; infinite where there is no limit.
    pub(crate) fn ceiling(self) -> f64 {
        self.measure().ceiling
    }

    /// The value of one link. The state has filed the records of both ends under the link already:
    /// used and input stall were read where it ends, credit stall where it begins.
    pub fn of_link(self, fabric: &Fabric, state: Option<&LinkState>, link: LinkId) -> Option<f64> {
        match self.measure().source {
            Source::One => Some(1.0),
            Source::Capacity => Some(1.0 / fabric.link(link).capacity().0),
            Source::Counters(column) => column(state?).get(link),
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

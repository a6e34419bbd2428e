//! What is counted on a link, and how a route's links become one number.

use hopbyte_fabric::{Fabric, LinkId, LinkState};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A value of every directed link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// 1 a link.
    #[default]
    Hops,
    /// Seconds per byte: one over the capacity of the lanes in service.
    InverseBandwidth,
    /// Received bytes over what the link could have carried, 0..1 (USED_BW of paper 003).
    Used,
    /// Share of the window that arrivals waited in the input queue, 0..1 (INQ_STALL).
    InputStall,
    /// Share of the window that departures lacked credits, 0..1 (CREDIT_STALL).
    CreditStall,
    /// Bytes received in the window.
    Bytes,
}

/// How the values of a route's links become one number; a route without links costs 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregate {
    /// The highest value.
    Max,
    /// The sum.
    Sum,
    /// The sum over the number of links.
    Mean,
}

/// Which routes of a transaction count (paper 000, V.C: the response takes another route back).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// The route from source to target.
    Request,
    /// The route from target back to source.
    Response,
    /// The links of both.
    Both,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 6] = [
        Self::Hops,
        Self::InverseBandwidth,
        Self::Used,
        Self::InputStall,
        Self::CreditStall,
        Self::Bytes,
    ];

    /// Name as written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hops => "hops",
            Self::InverseBandwidth => "inverse-bandwidth",
            Self::Used => "used",
            Self::InputStall => "input-stall",
            Self::CreditStall => "credit-stall",
            Self::Bytes => "bytes",
        }
    }

    /// Unit for table headers.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Hops => "links",
            Self::InverseBandwidth => "s/B",
            Self::Bytes => "B",
            Self::Used | Self::InputStall | Self::CreditStall => "ratio",
        }
    }

    /// Whether the metric needs a reading of the machine's counters.
    pub fn needs_state(self) -> bool {
        !matches!(self, Self::Hops | Self::InverseBandwidth)
    }

    /// The highest value that a link which was not read can have; infinite where there is no limit.
    pub(crate) fn ceiling(self) -> f64 {
        match self {
            Self::Used | Self::InputStall | Self::CreditStall => 1.0,
            _ => f64::INFINITY,
        }
    }

    /// The value of one link. The state has filed the records of both ends under the link already:
    /// used and input stall were read where it ends, credit stall where it begins.
    pub fn of_link(self, fabric: &Fabric, state: Option<&LinkState>, link: LinkId) -> Option<f64> {
        match self {
            Self::Hops => Some(1.0),
            Self::InverseBandwidth => Some(1.0 / fabric.link(link).capacity().0),
            Self::Used => state?.used_ratio.get(link),
            Self::InputStall => state?.input_stall_ratio.get(link),
            Self::CreditStall => state?.credit_stall_ratio.get(link),
            Self::Bytes => state?.received_bytes.get(link),
        }
    }
}

impl Aggregate {
    /// All aggregates.
    pub const ALL: [Self; 3] = [Self::Max, Self::Sum, Self::Mean];

    /// Name as written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Sum => "sum",
            Self::Mean => "mean",
        }
    }
}

impl Over {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Request, Self::Response, Self::Both];

    /// Name as written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Both => "both",
        }
    }
}

macro_rules! named {
    ($($kind:ty, $what:literal);+) => {$(
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
    )+};
}

named!(Metric, "metric"; Aggregate, "aggregate"; Over, "route choice");

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

//! The table of objectives: names for CLI, C and Python, units, help texts and the book come from it.

use crate::problem::Objective;
use std::fmt;
use std::str::FromStr;

/// Further properties of an objective.
struct GoalRow {
    name: &'static str,
    about: &'static str,
    label: &'static str,
    unit: &'static str,
    needs: &'static str,
    make: for<'a> fn(&'a [f32]) -> Objective<'a>,
}

macro_rules! goals {
    ($($goal:ident: $about:literal => $row:expr,)+) => {
        /// An objective by name, minimised.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Goal {
            $(#[doc = $about] $goal,)+
        }

        impl Goal {
            /// All of them, in the order of help texts and of the numbers in C; the default first.
            pub const ALL: [Self; TABLE.len()] = [$(Self::$goal),+];
        }

        const TABLE: &[GoalRow] = &[$(GoalRow { about: $about, ..$row }),+];
    };
}

const fn row(
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    make: for<'a> fn(&'a [f32]) -> Objective<'a>,
) -> GoalRow {
    GoalRow {
        name,
        about: "",
        label,
        unit,
        needs: "",
        make,
    }
}

goals! {
    WorstLink: "Time of the worst link: bytes over live capacity, host links included"
        => row("worst-link", "worst link", "s", |_| Objective::WorstLink),
    WorstNetworkLink: "Time of the worst link between routers"
        => row("worst-network-link", "worst network link", "s", |_| Objective::WorstNetworkLink),
    HopBytes: "Bytes times links crossed"
        => row("hop-bytes", "hop-bytes", "B", |_| Objective::HopBytes),
    RouteCost: "Bytes times the cost of the route by a metric and an aggregate, as in paper 003"
        => GoalRow {
            needs: "costs between the allocated nodes",
            ..row("route-cost", "route cost", "B × the metric's unit", |costs| Objective::RouteCost(costs))
        },
}

impl Goal {
    fn row(self) -> &'static GoalRow {
        &TABLE[self as usize]
    }

    /// Name on the command line and in Python.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Meaning, in one line.
    pub fn about(self) -> &'static str {
        self.row().about
    }

    /// The label in a certificate.
    pub fn label(self) -> &'static str {
        self.row().label
    }

    /// Unit of its value.
    pub fn unit(self) -> &'static str {
        self.row().unit
    }

    /// Its input besides machine and traffic; empty if none.
    pub fn needs(self) -> &'static str {
        self.row().needs
    }

    /// Whether it needs costs between nodes.
    pub fn needs_costs(self) -> bool {
        !self.needs().is_empty()
    }

    /// The objective, with costs row by row if it needs them (else they are ignored). A wrong number of costs
    /// is an error of the `Problem`.
    pub fn with(self, costs: &[f32]) -> Objective<'_> {
        (self.row().make)(costs)
    }
}

impl Objective<'_> {
    /// Name of the objective.
    pub fn goal(&self) -> Goal {
        match self {
            Self::WorstLink => Goal::WorstLink,
            Self::WorstNetworkLink => Goal::WorstNetworkLink,
            Self::HopBytes => Goal::HopBytes,
            Self::RouteCost(_) => Goal::RouteCost,
        }
    }
}

impl fmt::Display for Objective<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.goal().label())
    }
}

impl Default for Goal {
    /// The first row of the table.
    fn default() -> Self {
        Self::ALL[0]
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Goal {
    type Err = String;

    /// Parses a name; the error lists the valid names.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|g| g.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("no objective '{}': expected {names}", text.escape_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_make_their_objective() {
        for goal in Goal::ALL {
            assert_eq!(goal.name().parse(), Ok(goal));
            assert_eq!(goal.with(&[]).goal(), goal);
        }
        let error = "load".parse::<Goal>().unwrap_err();
        assert!(
            error.contains("expected worst-link, worst-network-link"),
            "{error}"
        );
    }
}

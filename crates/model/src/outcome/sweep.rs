//! Sensitivity: one question at many operating points, and the statistics of their results.
//!
//! Paper 001 slowed down links and injection one at a time and printed the slowdown of applications.
//! A [`Plan`] is such an experiment: factors for each of the quantities that can be tuned,
//! and trials that differ in their random numbers. [`sensitivities`] turns its results into
//! differences and slopes with their confidence.

use crate::error::ModelError;
use crate::question::level::Level;
use crate::question::parameters::OperatingPoint;
use crate::question::scenario::Scenario;
use serde::{Deserialize, Serialize};

/// Tunable quantities, independent of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Bandwidth of links between routers (lanes in service).
    Link,
    /// Bandwidth between nodes and network.
    Injection,
    /// Latency of messages and of hops.
    Latency,
    /// Messages that a node can start.
    MessageRate,
    /// Speed of processors.
    Cpu,
    /// Bandwidth of nodes' memories.
    Memory,
    /// Length of interruptions by the operating system.
    Interruptions,
}

impl Axis {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Link,
        Self::Injection,
        Self::Latency,
        Self::MessageRate,
        Self::Cpu,
        Self::Memory,
        Self::Interruptions,
    ];

    /// Name for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Link => "link bandwidth",
            Self::Injection => "injection bandwidth",
            Self::Latency => "latency",
            Self::MessageRate => "message rate",
            Self::Cpu => "processor speed",
            Self::Memory => "memory bandwidth",
            Self::Interruptions => "interruptions",
        }
    }

    /// Its factor at an operating point.
    pub fn of(self, point: &OperatingPoint) -> f64 {
        match self {
            Self::Link => point.link,
            Self::Injection => point.injection,
            Self::Latency => point.latency,
            Self::MessageRate => point.message_rate,
            Self::Cpu => point.cpu,
            Self::Memory => point.memory,
            Self::Interruptions => point.interruptions,
        }
    }

    fn set(self, point: &mut OperatingPoint, factor: f64) {
        *match self {
            Self::Link => &mut point.link,
            Self::Injection => &mut point.injection,
            Self::Latency => &mut point.latency,
            Self::MessageRate => &mut point.message_rate,
            Self::Cpu => &mut point.cpu,
            Self::Memory => &mut point.memory,
            Self::Interruptions => &mut point.interruptions,
        } = factor;
    }

    /// Growth, compared with a factor of 1, of times that depend on it: rates divide, latency
    /// and interruptions multiply.
    fn longer(self, factor: f64) -> f64 {
        match self {
            Self::Latency | Self::Interruptions => factor,
            _ => 1.0 / factor,
        }
    }
}

/// Maximum number of runs of one plan.
pub const MAX_RUNS: u64 = 1_000_000;
/// Maximum number of operating points of one scenario.
const MAX_POINTS: u64 = 4096;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Factors to try of each axis.
    pub axes: Vec<(Axis, Vec<f64>)>,
    /// All combinations of factors, instead of one axis at a time.
    pub cross: bool,
    /// Trials of each point; trial `i` adds `i` to the scenario's seed.
    pub trials: u32,
}

/// One run of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Index of the scenario.
    pub scenario: usize,
    /// Its operating point.
    pub factors: OperatingPoint,
    /// Number of the trial, from 0.
    pub trial: u32,
}

impl Plan {
    /// All runs over several scenarios, in a fixed order. A scenario's own operating point is
    /// always the first, as the baseline of the others.
    ///
    /// # Errors
    /// No trials, factors outside their range, too many points; several trials of a scenario without
    /// random numbers.
    pub fn points(&self, scenarios: &[Scenario]) -> Result<Vec<Point>, ModelError> {
        if self.trials == 0 {
            return Err(ModelError::out_of_range("trials", &0, "at least 1"));
        }
        self.check_size(scenarios.len())?;
        let mut points = Vec::new();
        for (scenario, asked) in scenarios.iter().enumerate() {
            if self.trials > 1 && !asked.is_random() {
                return Err(ModelError::out_of_range(
                    format!("{} trials of '{}'", self.trials, asked.name),
                    &"nothing that differs between trials",
                    "a random placement, random nodes or noise",
                ));
            }
            self.check_effect(asked)?;
            for factors in self.operating_points(asked.point) {
                factors.check()?;
                if let Some(interruptions) = &asked.interruptions {
                    interruptions.check(factors.interruptions)?;
                }
                points.extend((0..self.trials).map(|trial| Point {
                    scenario,
                    factors,
                    trial,
                }));
            }
        }
        Ok(points)
    }

    /// Rejects axes of which the scenario has nothing that they could change.
    fn check_effect(&self, asked: &Scenario) -> Result<(), ModelError> {
        for (axis, _) in &self.axes {
            let (found, expected) = match axis {
                Axis::Memory | Axis::Interruptions if asked.level == Level::Static => (
                    "level static, which has no computing",
                    "level fluid, stalls or packet",
                ),
                Axis::Memory
                    if asked.memory_bound == 0.0
                        && asked.parameters()?.memory_bytes_per_s == f64::MAX =>
                {
                    (
                        "nothing that depends on it",
                        "memory_bound above zero, or parameters.memory_bytes_per_s",
                    )
                }
                Axis::Interruptions if asked.interruptions.is_none() => (
                    "a scenario without interruptions",
                    "interruptions = { period_s = 0.01, duration_s = 0.000025 } or the like",
                ),
                _ => continue,
            };
            let what = format!("axis {} of '{}'", axis.name(), asked.name);
            return Err(ModelError::out_of_range(what, &found, expected));
        }
        Ok(())
    }

    /// Rejects plans that are too large, before they are expanded.
    fn check_size(&self, scenarios: usize) -> Result<(), ModelError> {
        let counts = self.axes.iter().map(|(_, factors)| factors.len() as u64);
        let points = if self.cross {
            counts.fold(1, |n: u64, c| n.saturating_mul(c + 1))
        } else {
            1 + counts.sum::<u64>()
        };
        let runs = points
            .saturating_mul(self.trials.into())
            .saturating_mul(scenarios as u64);
        for (what, found, most) in [
            ("operating points of the sweep", points, MAX_POINTS),
            ("runs of the sweep", runs, MAX_RUNS),
        ] {
            if found > most {
                return Err(ModelError::out_of_range(
                    what,
                    &found,
                    format!("at most {most}"),
                ));
            }
        }
        Ok(())
    }

    fn operating_points(&self, base: OperatingPoint) -> Vec<OperatingPoint> {
        let mut list = vec![base];
        for (axis, factors) in &self.axes {
            let begin_with = if self.cross { list.clone() } else { vec![base] };
            for mut point in begin_with {
                for &factor in factors {
                    axis.set(&mut point, factor);
                    if !list.contains(&point) {
                        list.push(point);
                    }
                }
            }
        }
        list
    }
}

impl Point {
    /// Its scenario with this operating point and seed.
    pub fn scenario(&self, scenarios: &[Scenario]) -> Scenario {
        let mut scenario = scenarios[self.scenario].clone();
        scenario.point = self.factors;
        scenario.seed = scenario.seed.wrapping_add(self.trial.into());
        scenario
    }
}

/// Result of one run, as needed for a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The run.
    pub point: Point,
    /// Its time.
    pub seconds: f64,
    /// Its main bottleneck.
    pub binds: String,
}

/// A mean with its 95 % confidence interval; no interval from one trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean over trials.
    pub mean: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Estimate {
    /// Mean and Student's interval.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n.max(1.0);
        if values.len() < 2 {
            return Self {
                mean,
                low: None,
                high: None,
            };
        }
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let half = student(values.len() - 1) * (squares / (n - 1.0) / n).sqrt();
        Self {
            mean,
            low: Some(mean - half),
            high: Some(mean + half),
        }
    }
}

/// Student's t, two-sided 95 %, by degrees of freedom.
fn student(freedom: usize) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match T.get(freedom.wrapping_sub(1)) {
        Some(&t) => t,
        // Beyond the table the error is below 0.002.
        None => 1.96 + 2.5 / freedom as f64,
    }
}

/// One factor of an axis, compared with the scenario's own point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtFactor {
    /// The factor.
    pub factor: f64,
    /// Time.
    pub seconds: Estimate,
    /// Increase of the time over the scenario's own point, in percent, trial by trial.
    pub slower_percent: Estimate,
    /// Main bottleneck in most of the trials.
    pub binds: String,
}

/// Sensitivity of a scenario to one axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// Index of the scenario.
    pub scenario: usize,
    /// The axis.
    pub axis: Axis,
    /// Factors, lowest first, with the scenario's own among them.
    pub factors: Vec<AtFactor>,
    /// Growth of the time over growth of the times that depend on the axis, both relative to the scenario's
    /// own point, by least squares over the factors tried. 0 if the axis has no effect,
    /// 1 if the time is proportional.
    pub slope: Estimate,
}

/// Sensitivity of each scenario to each axis, from all runs.
pub fn sensitivities(plan: &Plan, runs: &[Run]) -> Vec<Sensitivity> {
    let scenarios = runs.iter().map(|r| r.point.scenario + 1).max().unwrap_or(0);
    let mut list = Vec::new();
    for scenario in 0..scenarios {
        let own: Vec<&Run> = runs
            .iter()
            .filter(|r| r.point.scenario == scenario)
            .collect();
        let Some(base) = own.first().map(|r| r.point.factors) else {
            continue;
        };
        list.extend(plan.axes.iter().map(|(axis, _)| one(*axis, base, &own)));
    }
    list
}

fn one(axis: Axis, base: OperatingPoint, own: &[&Run]) -> Sensitivity {
    // Runs in which only the axis differs.
    let alone = |r: &&&Run| {
        let mut point = r.point.factors;
        axis.set(&mut point, axis.of(&base));
        point == base
    };
    let along: Vec<&Run> = own.iter().filter(alone).copied().collect();
    let reference = |trial: u32| {
        let same = |r: &&&Run| r.point.trial == trial && r.point.factors == base;
        along.iter().find(same).map_or(f64::NAN, |r| r.seconds)
    };
    let mut factors: Vec<f64> = along.iter().map(|r| axis.of(&r.point.factors)).collect();
    factors.sort_by(f64::total_cmp);
    factors.dedup();
    let at = |&factor: &f64| {
        let here: Vec<&&Run> = along
            .iter()
            .filter(|r| axis.of(&r.point.factors) == factor)
            .collect();
        let seconds: Vec<f64> = here.iter().map(|r| r.seconds).collect();
        let slower = here
            .iter()
            .map(|r| 100.0 * (r.seconds / reference(r.point.trial) - 1.0));
        AtFactor {
            factor,
            seconds: Estimate::of(&seconds),
            slower_percent: Estimate::of(&slower.collect::<Vec<_>>()),
            binds: commonest(here.iter().map(|r| r.binds.as_str())),
        }
    };
    let mut trials: Vec<u32> = along.iter().map(|r| r.point.trial).collect();
    trials.sort_unstable();
    trials.dedup();
    let normal = axis.longer(axis.of(&base));
    let slope = |&trial: &u32| {
        let pairs = along.iter().filter(|r| r.point.trial == trial);
        let pairs = pairs.map(|r| {
            let longer = axis.longer(axis.of(&r.point.factors)) / normal;
            (longer - 1.0, r.seconds / reference(trial) - 1.0)
        });
        // The fit passes through the scenario's own point, the origin.
        let (xy, xx) = pairs.fold((0.0, 0.0), |(xy, xx), (x, y)| (xy + x * y, xx + x * x));
        if xx > 0.0 { xy / xx } else { 0.0 }
    };
    Sensitivity {
        scenario: along.first().map_or(0, |r| r.point.scenario),
        axis,
        factors: factors.iter().map(at).collect(),
        slope: Estimate::of(&trials.iter().map(slope).collect::<Vec<_>>()),
    }
}

/// The most frequent word; among several the first in alphabetical order.
fn commonest<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut sorted: Vec<&str> = words.collect();
    sorted.sort_unstable();
    let mut best: (&str, usize) = ("", 0);
    for group in sorted.chunk_by(|a, b| a == b) {
        if group.len() > best.1 {
            best = (group[0], group.len());
        }
    }
    best.0.to_owned()
}

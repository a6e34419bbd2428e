//! Which faults explain a set of observations: a search by likelihood.
//!
//! An observation is a rate, its expected value without faults, and its noise. A hypothesis names a component and the rates
//! that it would allow each observation at full strength; at a remaining share `s` it allows `s` times as much. Faults are
//! added greedily as long as the likelihood gains more than chance would among so many hypotheses; then every fault is
//! compared with its alternatives.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Probability of an accusation by chance in one search.
const CHANCE: f64 = 1e-3;
/// Gains of log-likelihood closer than this cannot be told apart: a ratio of 20 to 1.
pub const TIE: f64 = 3.0;
/// Deviations from which a residual counts linearly: one disturbed measurement is not decisive.
const LINEAR: f64 = 8.0;
/// Deviations below its prediction that make an observation suspicious.
const SUSPICIOUS: f64 = 1.5;
/// Lowest remaining share of a fault.
const LEAST: f64 = 1e-3;
/// Remaining shares tried for a hypothesis.
const TRIED: usize = 24;
/// Maximum number of steps of the search.
const MOST: usize = 256;

/// A measured rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Rate without faults.
    pub expected: f64,
    /// Measured rate, in the same unit.
    pub measured: f64,
    /// Standard deviation of the logarithm of the rate.
    pub sigma: f64,
}

/// A possible fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// The component; several hypotheses may be about one.
    pub component: usize,
    /// Observations that it limits, and the limit of each at full strength.
    pub limits: Vec<(usize, f64)>,
}

/// A fault that explains observations.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Number of the hypothesis.
    pub hypothesis: usize,
    /// Remaining share of its strength.
    pub share: f64,
    /// Gain of log-likelihood.
    pub gain: f64,
    /// Observations that it lowers.
    pub lowered: Vec<usize>,
    /// Hypotheses of other components that explain the same as well, with their shares.
    pub or: Vec<(usize, f64)>,
}

/// The search.
pub struct Inference<'a> {
    observations: &'a [Observation],
    hypotheses: &'a [Hypothesis],
    /// Hypotheses by observation.
    about: Vec<Vec<u32>>,
    /// Required gain of a fault.
    threshold: f64,
    /// Highest share of its expected value at which an observation is slow.
    ceiling: f64,
    /// Highest remaining share of each hypothesis: above it no observation would be slow.
    ceilings: Vec<f64>,
}

/// Cost of a residual, in units of log-likelihood.
fn cost(o: &Observation, predicted: f64) -> f64 {
    // Faster than expected is as good as expected: a slow partner leaves its share of a link.
    let measured = o.measured.min(o.expected).max(f64::MIN_POSITIVE);
    let z = ((measured / predicted).ln() / o.sigma).abs();
    if z <= LINEAR {
        0.5 * z * z
    } else {
        LINEAR * (z - 0.5 * LINEAR)
    }
}

/// Required gain of log-likelihood among so many hypotheses.
pub fn threshold(hypotheses: usize) -> f64 {
    (hypotheses.max(1) as f64 / CHANCE).ln()
}

/// Deviations that chance does not reach among so many observations.
pub fn deviations(observations: usize) -> f64 {
    (2.0 * (observations.max(1) as f64 / CHANCE).ln()).sqrt()
}

impl<'a> Inference<'a> {
    /// A search for faults that leave some observation at most `1 - tolerance` of its expected value.
    pub fn new(
        observations: &'a [Observation],
        hypotheses: &'a [Hypothesis],
        tolerance: f64,
    ) -> Self {
        let mut about = vec![Vec::new(); observations.len()];
        for (h, hypothesis) in hypotheses.iter().enumerate() {
            for &(o, _) in &hypothesis.limits {
                about[o].push(h as u32);
            }
        }
        let components: BTreeSet<usize> = hypotheses.iter().map(|h| h.component).collect();
        let ceiling = 1.0 - tolerance;
        // A limit may lie above what is expected: its full strength then says nothing about the observation.
        let of = |h: &Hypothesis| {
            let nearest = |&(o, limit): &(usize, f64)| observations[o].expected / limit;
            let nearest = h.limits.iter().map(nearest).fold(0.0, f64::max);
            (ceiling * nearest.min(1.0)).max(LEAST)
        };
        Self {
            observations,
            hypotheses,
            about,
            threshold: threshold(components.len()),
            ceiling,
            ceilings: hypotheses.iter().map(of).collect(),
        }
    }

    /// The faults, those that explain most first.
    pub fn faults(&self) -> Vec<Fault> {
        let mut found: Vec<(usize, f64)> = Vec::new();
        let mut gains: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        let mut predicted = self.predicted(&found, None);
        let mut stale: BTreeSet<u32> = self.suspects(&predicted, 0..self.observations.len());
        for _ in 0..MOST {
            for &h in &stale {
                gains.insert(h, self.best(h as usize, &predicted));
            }
            // Ties go to the hypothesis of the lowest number.
            let best = (gains.iter()).max_by(|a, b| a.1.0.total_cmp(&b.1.0).then(b.0.cmp(a.0)));
            let Some((&h, &(gain, share))) = best.filter(|(_, g)| g.0 >= self.threshold) else {
                break;
            };
            debug_assert!(gain >= self.threshold);
            found.push((h as usize, share));
            self.prune(&mut found);
            let now = self.predicted(&found, None);
            let changed = (0..now.len()).filter(|&o| now[o] != predicted[o]);
            let changed: Vec<usize> = changed.collect();
            if changed.is_empty() {
                break;
            }
            predicted = now;
            stale = changed
                .iter()
                .flat_map(|&o| self.about[o].iter().copied())
                .collect();
        }
        let mut faults: Vec<Fault> = (0..found.len()).map(|at| self.fault(&found, at)).collect();
        faults.sort_by(|a, b| {
            b.gain
                .total_cmp(&a.gain)
                .then(a.hypothesis.cmp(&b.hypothesis))
        });
        faults
    }

    /// Predicted rates with these faults, except one.
    fn predicted(&self, faults: &[(usize, f64)], except: Option<usize>) -> Vec<f64> {
        let mut rates: Vec<f64> = self.observations.iter().map(|o| o.expected).collect();
        for (at, &(h, share)) in faults.iter().enumerate() {
            if Some(at) != except {
                for &(o, limit) in &self.hypotheses[h].limits {
                    rates[o] = rates[o].min(share * limit);
                }
            }
        }
        rates
    }

    /// Observations that no fault explains: further below their prediction than chance allows.
    pub fn unexplained(&self, faults: &[Fault]) -> Vec<usize> {
        let found: Vec<_> = faults.iter().map(|f| (f.hypothesis, f.share)).collect();
        let predicted = self.predicted(&found, None);
        let far = deviations(self.observations.len());
        let low = |&o: &usize| {
            let Observation {
                measured, sigma, ..
            } = self.observations[o];
            let ratio = measured / predicted[o];
            ratio < self.ceiling && -ratio.max(f64::MIN_POSITIVE).ln() > far * sigma
        };
        (0..predicted.len()).filter(low).collect()
    }

    /// Hypotheses about observations that are below their prediction.
    fn suspects(
        &self,
        predicted: &[f64],
        observations: impl Iterator<Item = usize>,
    ) -> BTreeSet<u32> {
        observations
            .filter(|&o| self.is_suspicious(o, predicted))
            .flat_map(|o| self.about[o].iter().copied())
            .collect()
    }

    fn is_suspicious(&self, o: usize, predicted: &[f64]) -> bool {
        let Observation {
            measured, sigma, ..
        } = self.observations[o];
        measured < predicted[o] * (-SUSPICIOUS * sigma).exp()
    }

    /// Gain of a hypothesis at a share.
    fn gain(&self, h: usize, share: f64, predicted: &[f64]) -> f64 {
        let of = |&(o, limit): &(usize, f64)| {
            let lowered = share * limit;
            if lowered >= predicted[o] {
                return 0.0;
            }
            let observation = &self.observations[o];
            cost(observation, predicted[o]) - cost(observation, lowered)
        };
        self.hypotheses[h].limits.iter().map(of).sum()
    }

    /// The highest gain of a hypothesis, and its share. A slowdown within the tolerance is none: no gain if the observations
    /// fit a share above the ceiling better than the ceiling.
    fn best(&self, h: usize, predicted: &[f64]) -> (f64, f64) {
        let ceiling = self.ceilings[h];
        let limits = self.hypotheses[h].limits.iter();
        let mut shares: Vec<f64> = limits
            .filter(|&&(o, _)| self.is_suspicious(o, predicted))
            .map(|&(o, limit)| self.observations[o].measured / limit)
            .map(|share| share.clamp(LEAST, ceiling))
            .collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        let step = shares.len().div_ceil(TRIED).max(1);
        let tried = shares.into_iter().step_by(step);
        let of = |share| (self.gain(h, share, predicted), share);
        let Some(best) = tried.map(of).max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return (0.0, 1.0);
        };
        // The likelihood has one peak near the best of the measured shares.
        let sigma = self.hypotheses[h].limits.first();
        let width = 4.0 * sigma.map_or(0.0, |&(o, _)| self.observations[o].sigma);
        let (mut low, mut high) = (best.1 * (-width).exp(), best.1 * width.exp());
        for _ in 0..24 {
            let third = (high - low) / 3.0;
            match of(low + third).0.total_cmp(&of(high - third).0) {
                Ordering::Less => low += third,
                _ => high -= third,
            }
        }
        let fine = of((0.5 * (low + high)).clamp(LEAST, ceiling));
        let best = if fine.0 > best.0 { fine } else { best };
        let within = |share: f64| self.gain(h, share, predicted) > best.0;
        if best.1 >= ceiling && within(ceiling * (1.0 + 0.1 * self.error(h, ceiling))) {
            return (0.0, 1.0);
        }
        best
    }

    /// Standard error of a fitted share near this one, relative to it.
    fn error(&self, h: usize, share: f64) -> f64 {
        let limits = self.hypotheses[h].limits.iter();
        let lowered = limits.filter(|&&(o, limit)| share * limit < self.observations[o].expected);
        let weights = lowered.map(|&(o, _)| self.observations[o].sigma.powi(-2));
        weights.sum::<f64>().max(1.0).sqrt().recip()
    }

    /// Fits the faults again beside each other, and removes those that the others explain.
    fn prune(&self, found: &mut Vec<(usize, f64)>) {
        let mut at = 0;
        while at < found.len() {
            let others = self.predicted(found, Some(at));
            let (gain, share) = self.best(found[at].0, &others);
            if gain < self.threshold {
                found.remove(at);
                at = 0;
            } else {
                found[at].1 = share;
                at += 1;
            }
        }
    }

    /// A fault with its alternatives.
    fn fault(&self, found: &[(usize, f64)], at: usize) -> Fault {
        let (h, share) = found[at];
        let others = self.predicted(found, Some(at));
        let lowered: Vec<usize> = (self.hypotheses[h].limits.iter())
            .filter(|&&(o, limit)| share * limit < others[o])
            .map(|&(o, _)| o)
            .collect();
        let gain = self.gain(h, share, &others);
        let component = self.hypotheses[h].component;
        let mut or: BTreeMap<usize, (f64, usize, f64)> = BTreeMap::new();
        for other in self.suspects(&others, lowered.iter().copied()) {
            let other = other as usize;
            let of = self.hypotheses[other].component;
            if of == component {
                continue;
            }
            let (another, share) = self.best(other, &others);
            if another > gain - TIE {
                let known = or.entry(of).or_insert((another, other, share));
                if another > known.0 {
                    *known = (another, other, share);
                }
            }
        }
        Fault {
            hypothesis: h,
            share,
            gain,
            lowered,
            or: or.into_values().map(|(_, h, share)| (h, share)).collect(),
        }
    }

    /// The highest remaining share at which a hypothesis would be found; `None` if at none.
    pub fn detectable(&self, h: usize) -> Option<f64> {
        let gain = |share: f64| -> f64 {
            let of = |&(o, limit): &(usize, f64)| {
                let Observation {
                    expected, sigma, ..
                } = self.observations[o];
                let z = (share * limit / expected).ln().min(0.0) / sigma;
                cost(
                    &Observation {
                        expected,
                        measured: expected * (z * sigma).exp(),
                        sigma,
                    },
                    expected,
                )
            };
            self.hypotheses[h].limits.iter().map(of).sum()
        };
        if gain(LEAST) < self.threshold {
            return None;
        }
        // The fitted share must be below the ceiling, two standard errors of it included.
        let ceiling = self.ceilings[h];
        let (mut low, mut high) = (LEAST, ceiling * (-2.0 * self.error(h, ceiling)).exp());
        if gain(high) >= self.threshold {
            return Some(high);
        }
        for _ in 0..24 {
            let middle = 0.5 * (low + high);
            if gain(middle) >= self.threshold {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }
}

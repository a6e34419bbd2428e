//! Where the time of recorded ranks went.

use hopbyte_observe::traffic::RankHead;
use serde::Serialize;
use std::collections::BTreeMap;

/// Times of all ranks, added up.
#[derive(Debug, Default)]
pub(super) struct Sums {
    ranks: u64,
    /// From the first to the last moment of each rank, and its time in MPI.
    seconds: f64,
    mpi: Vec<f64>,
    /// Calls and seconds by function.
    calls: BTreeMap<String, (u64, f64)>,
    /// Names and order of phases, of the first rank.
    phases: Vec<String>,
    order: Option<String>,
    /// The most threads of a rank that called MPI.
    threads: u64,
}

impl Sums {
    /// Adds a rank's times; records of older recorders have none.
    pub(super) fn add(&mut self, head: &RankHead) {
        let times = &head.times;
        if head.rank == 0 {
            self.phases.clone_from(&times.phases);
            self.order.clone_from(&times.order);
        }
        self.threads = self.threads.max(times.threads);
        if times.calls.is_empty() {
            return;
        }
        for (name, calls, seconds) in &times.calls {
            let sum = self.calls.entry(name.clone()).or_default();
            sum.0 = sum.0.saturating_add(*calls);
            sum.1 += seconds;
        }
        self.ranks += 1;
        self.seconds += times.seconds;
        // Calls of several threads overlap; the times of phases have each moment once.
        let inside = || times.calls.iter().map(|c| c.2).sum();
        self.mpi.push(times.mpi_seconds.unwrap_or_else(inside));
    }

    pub(super) fn times(&self) -> Option<Times> {
        let ranks = self.ranks as f64;
        if self.ranks == 0 {
            return None;
        }
        let calls = self.calls.iter().map(|(name, &(calls, seconds))| CallTime {
            name: name.clone(),
            calls,
            seconds: seconds / ranks,
        });
        let mut calls: Vec<CallTime> = calls.collect();
        calls.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let (seconds, mpi_seconds) = (self.seconds / ranks, self.mpi.iter().sum::<f64>() / ranks);
        Some(Times {
            seconds,
            // Older recorders added the calls of several threads up.
            compute_seconds: (seconds - mpi_seconds).max(0.0),
            mpi_seconds,
            least_mpi_seconds: self.mpi.iter().copied().fold(f64::INFINITY, f64::min),
            most_mpi_seconds: self.mpi.iter().copied().fold(0.0, f64::max),
            threads: self.threads.max(1),
            calls,
            phase_names: self.phases.clone(),
            phase_order: self.order.clone(),
        })
    }
}

/// Where the ranks' time went.
#[derive(Debug, Serialize)]
pub struct Times {
    /// From MPI's initialisation to its end, mean over ranks.
    pub seconds: f64,
    /// Time outside MPI, mean over ranks.
    pub compute_seconds: f64,
    /// Time in MPI, mean over ranks; moments in which several threads call count once.
    pub mpi_seconds: f64,
    /// The least of a rank.
    pub least_mpi_seconds: f64,
    /// The most of a rank.
    pub most_mpi_seconds: f64,
    /// The most threads of a rank that called MPI.
    pub threads: u64,
    /// By function, largest first.
    pub calls: Vec<CallTime>,
    /// Names of phases, by number.
    pub phase_names: Vec<String>,
    /// Numbers of phases as the first rank entered them, loops folded: `0 (90: 1 2 )`. Absent if it was killed.
    pub phase_order: Option<String>,
}

/// Time in one function.
#[derive(Debug, Serialize)]
pub struct CallTime {
    /// Name.
    pub name: String,
    /// Calls of all ranks.
    pub calls: u64,
    /// Mean over ranks, of all threads.
    pub seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_observe::text::{Limits, Text};

    #[test]
    fn moments_of_several_threads_count_once() {
        let mut sums = Sums::default();
        let lines = "# hopbyte-record 2\nrank\t0\nsize\t1\ntime\t0\t2.0\t1\t1.5\ntime\t1\t1.0\t1\t0.5\n\
             mpi\tMPI_Wait\t8\t6.0\nthreads\t4\nend\t7\n";
        let text = Text::from_bytes("rank.0.hbr", lines.as_bytes(), Limits::ANY).unwrap();
        sums.add(&RankHead::parse(&text).unwrap());
        let times = sums.times().unwrap();
        assert_eq!(times.threads, 4);
        assert_eq!(
            (times.seconds, times.mpi_seconds, times.compute_seconds),
            (3.0, 2.0, 1.0)
        );
        assert_eq!(times.calls[0].seconds, 6.0);
    }
}

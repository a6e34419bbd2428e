//! Oracles: a view of one snapshot, fetched on request.

use crate::border::{self, Failure};
use crate::machine::{Known, hopbyte_machine};
use ::hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};
use hopbyte_fabric::NodeId;
use hopbyte_job::LinkReading;
use hopbyte_observe::oracle::Oracle;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum timeout of a request.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(86_400);

/// `hopbyte_oracle`.
#[allow(non_camel_case_types, reason = "as C calls it")]
pub struct hopbyte_oracle {
    machine: Arc<Known>,
    now: Mutex<Now>,
}

/// The connection and the latest snapshot.
struct Now {
    remote: Option<Oracle>,
    reading: Option<Arc<LinkReading>>,
    version: u64,
}

impl hopbyte_oracle {
    fn now(&self) -> MutexGuard<'_, Now> {
        // A refresh replaces all fields or none, so a poisoned lock is safe to use.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reading of the links as of the last refresh, and its version.
    pub(crate) fn reading(&self) -> (Option<Arc<LinkReading>>, u64) {
        let now = self.now();
        (now.reading.clone(), now.version)
    }

    /// Whether it belongs to this machine.
    pub(crate) fn serves(&self, machine: &Arc<Known>) -> bool {
        Arc::ptr_eq(&self.machine, machine)
    }

    fn nodes(&self, numbers: &[u32]) -> Result<Vec<NodeId>, Failure> {
        numbers.iter().map(|&n| self.machine.node(n)).collect()
    }

    /// Runs `body` with the requested costs.
    fn costs<T>(
        &self,
        asked: (c_int, c_int, c_int),
        body: impl FnOnce(&RouteCosts) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure>
    where
        T: Send,
    {
        let metric = choice("metric", asked.0, &Metric::ALL)?;
        let aggregate = choice("aggregate", asked.1, &Aggregate::ALL)?;
        let over = choice("route choice", asked.2, &Over::ALL)?;
        let (reading, _) = self.reading();
        let state = reading.as_ref().map(|r| &r.state);
        let (fabric, routing) = (&self.machine.machine.fabric, &self.machine.machine.routing);
        // One thread: the application's ranks use the other cores.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.map_err(|e| Failure::lacking(e.to_string()))?;
        pool.install(|| {
            let costs = RouteCosts::new(fabric, routing, state, metric, aggregate, over);
            body(&costs)
        })
    }
}

/// A C enumerator's value.
pub(crate) fn choice<T: Copy>(what: &str, number: c_int, all: &[T]) -> Result<T, Failure> {
    let found = usize::try_from(number).ok().and_then(|n| all.get(n));
    found.copied().ok_or_else(|| {
        let last = all.len() - 1;
        Failure::input(format!("found {what} {number}, expected 0 to {last}"))
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_oracle_connect(
    machine: *const hopbyte_machine,
    address: *const c_char,
) -> *mut hopbyte_oracle {
    border::object(|| {
        // SAFETY: the caller gives an open machine or null.
        let machine = unsafe { border::given(machine, "machine") }?;
        let remote = if address.is_null() {
            None
        } else {
            // SAFETY: the caller gives a string.
            Some(Oracle::connect(unsafe {
                border::text(address, "address")
            }?)?)
        };
        Ok(hopbyte_oracle {
            machine: machine.0.clone(),
            now: Mutex::new(Now {
                remote,
                reading: None,
                version: 0,
            }),
        })
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_oracle_close(oracle: *mut hopbyte_oracle) {
    // SAFETY: the caller gives an open oracle or null, and uses it no more.
    unsafe { border::end(oracle) }
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_oracle_set_timeout(
    oracle: *mut hopbyte_oracle,
    seconds: f64,
) -> c_int {
    border::status(|| {
        // SAFETY: the caller gives an open oracle or null; it is shared and only changed under its lock.
        let oracle = unsafe { border::given(oracle.cast_const(), "oracle") }?;
        let timeout = Duration::try_from_secs_f64(seconds).ok();
        let timeout = timeout.filter(|t| !t.is_zero() && *t <= LONGEST_TIMEOUT);
        let Some(timeout) = timeout else {
            let expected = format!("seconds above 0, at most {}", LONGEST_TIMEOUT.as_secs());
            return Err(Failure::input(format!(
                "found a timeout of {seconds}, expected {expected}"
            )));
        };
        if let Some(remote) = &mut oracle.now().remote {
            remote.set_timeout(timeout);
        }
        Ok(())
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_oracle_refresh(
    oracle: *mut hopbyte_oracle,
    version: *mut u64,
    time_seconds: *mut f64,
) -> c_int {
    border::status(|| {
        // SAFETY: the caller gives an open oracle or null; it is shared and only changed under its lock.
        let oracle = unsafe { border::given(oracle.cast_const(), "oracle") }?;
        let mut now = oracle.now();
        let mut time = None;
        if let Some(remote) = &mut now.remote {
            let (fresh, when, state) = remote.links(&oracle.machine.machine.fabric)?;
            now.reading = state.map(|state| {
                let source = format!("oracle {}", remote.address());
                Arc::new(LinkReading::of_state(source, state))
            });
            now.version = fresh;
            time = when;
        }
        let fresh = now.version;
        drop(now);
        if !version.is_null() {
            // SAFETY: not null, and the caller gives a place.
            *unsafe { border::place(version, "the version") }? = fresh;
        }
        if !time_seconds.is_null() {
            // SAFETY: not null, and the caller gives a place.
            *unsafe { border::place(time_seconds, "the time") }? = time.unwrap_or(f64::NAN);
        }
        Ok(())
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "as C calls it")]
pub unsafe extern "C" fn hopbyte_oracle_costs(
    oracle: *const hopbyte_oracle,
    metric: c_int,
    aggregate: c_int,
    over: c_int,
    count: usize,
    from: *const u32,
    to: *const u32,
    costs: *mut f32,
) -> c_int {
    border::status(|| {
        // SAFETY: the caller gives an open oracle and arrays of this length, or null.
        let (oracle, from, to, out) = unsafe {
            (
                border::given(oracle, "oracle")?,
                border::array(from, count, "senders")?,
                border::array(to, count, "receivers")?,
                border::output(costs, count, "costs")?,
            )
        };
        let (from, to) = (oracle.nodes(from)?, oracle.nodes(to)?);
        let pairs: Vec<(NodeId, NodeId)> = from.into_iter().zip(to).collect();
        let found = oracle.costs((metric, aggregate, over), |costs| Ok(costs.many(&pairs)))?;
        out.copy_from_slice(&found);
        Ok(())
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "as C calls it")]
pub unsafe extern "C" fn hopbyte_oracle_matrix(
    oracle: *const hopbyte_oracle,
    metric: c_int,
    aggregate: c_int,
    over: c_int,
    count: usize,
    nodes: *const u32,
    costs: *mut f32,
) -> c_int {
    border::status(|| {
        let all = count.saturating_mul(count);
        // SAFETY: the caller gives an open oracle and arrays of these lengths, or null.
        let (oracle, nodes, out) = unsafe {
            (
                border::given(oracle, "oracle")?,
                border::array(nodes, count, "nodes")?,
                border::output(costs, all, "costs")?,
            )
        };
        let nodes = oracle.nodes(nodes)?;
        let asked = (metric, aggregate, over);
        let matrix = oracle.costs(asked, |costs| Ok(costs.among(&nodes)?))?;
        out.copy_from_slice(matrix.as_slice());
        Ok(())
    })
}

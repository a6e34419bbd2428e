//! Traffic.

use crate::border::{self, Failure};
use hopbyte_fabric::Exchange;
use std::collections::HashMap;
use std::ffi::c_int;

/// Maximum number of tasks of a job.
const MOST_TASKS: usize = 1 << 24;

/// `hopbyte_traffic`: bytes and messages by pair.
#[allow(non_camel_case_types, reason = "as C calls it")]
pub struct hopbyte_traffic {
    tasks: usize,
    pairs: HashMap<(u32, u32), (f64, u64)>,
}

/// See `hopbyte.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hopbyte_traffic_create(tasks: usize) -> *mut hopbyte_traffic {
    border::object(|| match tasks {
        1..=MOST_TASKS => Ok(hopbyte_traffic {
            tasks,
            pairs: HashMap::new(),
        }),
        _ => Err(Failure::input(format!(
            "found {tasks} tasks, expected 1 to {MOST_TASKS}"
        ))),
    })
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_traffic_free(traffic: *mut hopbyte_traffic) {
    // SAFETY: the caller gives a traffic or null, and uses it no more.
    unsafe { border::end(traffic) }
}

/// See `hopbyte.h`.
///
/// # Safety
/// As documented in `hopbyte.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hopbyte_traffic_add(
    traffic: *mut hopbyte_traffic,
    count: usize,
    from: *const u32,
    to: *const u32,
    bytes: *const f64,
) -> c_int {
    border::status(|| {
        // SAFETY: the caller gives a traffic without concurrent use and arrays of this length, or null.
        let (traffic, from, to, bytes) = unsafe {
            (
                border::place(traffic, "the traffic")?,
                border::array(from, count, "senders")?,
                border::array(to, count, "receivers")?,
                border::array(bytes, count, "bytes")?,
            )
        };
        let messages = || from.iter().zip(to).zip(bytes);
        for ((&a, &b), &size) in messages() {
            let most = traffic.tasks;
            if a.max(b) as usize >= most {
                let text = format!("found task {}, expected one below {most}", a.max(b));
                return Err(Failure::input(text));
            }
            if !(size.is_finite() && size >= 0.0) {
                let text = format!("found {size} bytes from task {a} to {b}, expected 0 or more");
                return Err(Failure::input(text));
            }
        }
        for ((&a, &b), &size) in messages() {
            let (bytes, messages) = traffic.pairs.entry((a, b)).or_default();
            *bytes += size;
            *messages += 1;
        }
        Ok(())
    })
}

impl hopbyte_traffic {
    /// Number of tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks
    }

    /// Conversion for the mapper.
    pub(crate) fn exchange(&self) -> Result<Exchange, Failure> {
        let pairs = self.pairs.iter();
        Ok(Exchange::new(
            self.tasks,
            pairs.map(|(&(from, to), &(bytes, messages))| (from, to, bytes, messages)),
        )?)
    }
}

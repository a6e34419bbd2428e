//! Threads of this machine that are ready to run and have no processor: their run delay, which the kernel counts in
//! `/proc/PID/schedstat` (second number).
//!
//! Of every interval the longest delay of one thread counts: a parallel program is as slow as its slowest rank. Threads
//! that lowered their priority mean to wait, and those that hardly run wait for moments, because they wake up often.

use super::places::{Clock, Places};
use super::source::{Sample, Source, Unreadable};
use crate::counters::processors;
use crate::counters::reading::Reading;
use crate::text::decimal;
use hopbyte_fabric::LeftOut;
use std::collections::HashMap;
use std::fs::{File, read_dir, read_link};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two readings of all threads. Between them the value stays.
const COUNTS: Duration = Duration::from_secs(5);
/// Most threads that are read; with more of them the value is missing.
const MOST: usize = 16_384;
/// Share of an interval that a thread runs at least for its delay to count, or else nanoseconds that it waits each time.
const RUNS: f64 = 0.05;
const WAITS: u64 = 8_000_000;
/// Bytes of a status line at most.
const LONGEST: usize = 1024;
/// `PF_KTHREAD`; `SCHED_BATCH` and `SCHED_IDLE`.
const KERNEL: u64 = 0x0020_0000;
const PATIENT: [u64; 2] = [3, 5];

/// Time that a thread ran and waited, in nanoseconds, and how often it got a processor.
type Spent = [u64; 3];

/// The table of processes.
#[derive(Debug)]
struct Processors {
    proc: PathBuf,
    /// The network namespace of the processes, if others are not of this node.
    space: Option<PathBuf>,
    clock: Clock,
    /// Whether each process is of this node.
    own: HashMap<u32, bool>,
    /// What each thread had spent at the last count; `None` if there is nothing to compare with.
    threads: Option<HashMap<u32, Spent>>,
    waited: u64,
    counted: Instant,
}

/// The kernel's table of processes; nothing in a captured tree, or where other users' processes are hidden.
pub(super) fn open(places: &Places) -> Option<Source> {
    if !places.is_this_machine() {
        return None;
    }
    let proc = places.root.join("proc");
    let space = match places.own_processes {
        true => Some(space(&proc.join("thread-self"))?),
        false => None,
    };
    let mut processors = Processors {
        space,
        proc,
        clock: places.clock(),
        own: HashMap::new(),
        threads: None,
        waited: 0,
        counted: Instant::now(),
    };
    spent(&processors.proc.join("1"))?;
    processors.count();
    let layout = Arc::new(processors::layout(&places.node));
    let mut reading = Reading::new(layout, processors.clock.now());
    reading.set(0, Some(0));
    Some(Source {
        reading,
        left_out: LeftOut::default(),
        place: processors.proc.display().to_string(),
        way: Box::new(processors),
    })
}

impl Processors {
    /// Adds the longest delay since the last call; false if there are too many threads.
    fn count(&mut self) -> bool {
        let interval = self.counted.elapsed();
        self.counted = Instant::now();
        let before = std::mem::take(&mut self.own);
        let last = self.threads.take();
        let mut threads = HashMap::with_capacity(last.as_ref().map_or(0, HashMap::len));
        for process in numbers(&self.proc) {
            let folder = self.proc.join(process.to_string());
            let known = before.get(&process).copied();
            let own = known.unwrap_or_else(|| self.is_own(&folder));
            self.own.insert(process, own);
            if own {
                waiting(&folder, process, &mut threads);
            }
            if threads.len() > MOST {
                return false;
            }
        }
        if let Some(last) = last {
            self.waited += longest(&last, &threads, interval);
        }
        self.threads = Some(threads);
        true
    }

    fn is_own(&self, process: &Path) -> bool {
        let own = |own: &PathBuf| space(process).as_ref() == Some(own);
        self.space.as_ref().is_none_or(own)
    }
}
impl Sample for Processors {
    fn sample(&mut self, reading: &mut Reading) -> Result<(), Unreadable> {
        reading.moment = self.clock.now();
        if self.counted.elapsed() >= COUNTS {
            let value = self.count().then_some(self.waited);
            reading.set(0, value);
        }
        Ok(())
    }
}

/// The longest delay of a thread in an interval, in nanoseconds.
fn longest(last: &HashMap<u32, Spent>, now: &HashMap<u32, Spent>, interval: Duration) -> u64 {
    let ns = interval.as_nanos() as f64;
    let delays = now.iter().filter_map(|(thread, new)| {
        // Threads that are new count from their beginning; so do those whose number is used again.
        let old = last.get(thread).copied().unwrap_or_default();
        let grown = |i: usize| new[i].checked_sub(old[i]).unwrap_or(new[i]);
        let (runs, waits, times) = (grown(0), grown(1), grown(2));
        (runs as f64 >= RUNS * ns || waits / times.max(1) >= WAITS).then_some(waits)
    });
    delays.max().unwrap_or(0).min(interval.as_nanos() as u64)
}

/// Numbers of processes or threads that a folder has.
fn numbers(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok())
}

/// The network namespace of a process.
fn space(process: &Path) -> Option<PathBuf> {
    read_link(process.join("ns/net")).ok()
}

/// Adds the threads of a process that does not wait on purpose.
fn waiting(folder: &Path, process: u32, into: &mut HashMap<u32, Spent>) {
    let status = small(&folder.join("stat")).ok();
    match status.and_then(|s| threads(&s)) {
        Some(1) => into.extend(spent(folder).map(|s| (process, s))),
        Some(_) => {
            let tasks = folder.join("task");
            let spent = |t: u32| Some((t, spent(&tasks.join(t.to_string()))?));
            into.extend(numbers(&tasks).filter_map(spent));
        }
        None => {}
    }
}

/// Number of threads of a process by its status line; `None` of one of the kernel, and of one that lowered its priority.
fn threads(status: &[u8]) -> Option<u64> {
    // The name of the program, in brackets, may contain anything.
    let end = status.iter().rposition(|&b| b == b')')?;
    let words: Vec<&[u8]> = status[end + 1..]
        .split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty())
        .collect();
    // Fields 9, 19, 20 and 41 of proc_pid_stat(5); the first of these words is field 3.
    let field = |number: usize| words.get(number - 3).copied();
    let is_kernel = decimal(field(9)?)? & KERNEL != 0;
    let is_nice = decimal(field(19)?).is_some_and(|nice| nice > 0);
    let is_patient = PATIENT.contains(&decimal(field(41)?)?);
    let threads = decimal(field(20)?)?;
    (!is_kernel && !is_nice && !is_patient).then_some(threads)
}

/// What a thread spent.
fn spent(folder: &Path) -> Option<Spent> {
    let text = small(&folder.join("schedstat")).ok()?;
    let mut words = text.trim_ascii().split(u8::is_ascii_whitespace);
    let mut number = || decimal(words.next()?);
    Some([number()?, number()?, number()?])
}

fn small(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(LONGEST);
    let file = File::open(path)?;
    file.take(LONGEST as u64).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn processes_that_mean_to_wait_are_passed_over() {
        let status = |flags: u64, nice: i32, threads: u64, policy: u64| {
            let rest = "0 -1 4194560 0 0 0 0";
            let mut words: Vec<String> = (3..=52).map(|n| n.to_string()).collect();
            words[9 - 3] = flags.to_string();
            words[19 - 3] = nice.to_string();
            words[20 - 3] = threads.to_string();
            words[41 - 3] = policy.to_string();
            format!("17 (a ) {rest} 1) {}\n", words.join(" "))
        };
        let of = |s: String| threads(s.as_bytes());
        assert_eq!(of(status(4_194_304, 0, 3, 0)), Some(3));
        assert_eq!(of(status(4_194_304, -5, 1, 1)), Some(1));
        assert_eq!(of(status(4_194_304, 5, 3, 0)), None);
        assert_eq!(of(status(4_194_304, 0, 3, 5)), None);
        assert_eq!(of(status(KERNEL, 0, 1, 0)), None);
        let own = small(Path::new("/proc/self/stat")).unwrap();
        assert!(threads(&own).is_none_or(|n| n >= 1));
    }

    /// Two threads that share a processor wait half of the time; they are read before they end.
    #[test]
    fn threads_without_a_processor_are_counted() {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        use std::sync::Barrier;
        let here = Places {
            own_processes: true,
            ..Places::here("n1")
        };
        let Some(mut source) = open(&here) else {
            println!("skipped: no /proc/1/schedstat");
            return;
        };
        // Nice programs are passed over.
        if rustix::process::getpriority_process(None).unwrap() > 0 {
            println!("skipped: the tests run under nice");
            return;
        }
        let busy = Barrier::new(3);
        let read = Barrier::new(3);
        let work = || {
            let allowed = sched_getaffinity(None).unwrap();
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).find(|&c| allowed.is_set(c)).unwrap());
            sched_setaffinity(None, &one).unwrap();
            let end = Instant::now() + COUNTS + Duration::from_millis(50);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            busy.wait();
            read.wait();
        };
        let waited = std::thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
            assert_eq!(source.sample().unwrap().get(0), Some(0));
            busy.wait();
            let waited = source.sample().unwrap().get(0);
            read.wait();
            waited
        });
        let share = waited.unwrap() as f64 / COUNTS.as_nanos() as f64;
        assert!((0.3..1.1).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn bent_lines_are_passed_over(bytes: Vec<u8>) {
            let _ = threads(&bytes);
        }
    }
}

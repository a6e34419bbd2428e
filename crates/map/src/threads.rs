//! Work on all threads, and pools of them under a limit on processes.

use rayon::prelude::*;
use rayon::{ThreadBuilder, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

/// `one(number)` for each number below `count`, on all threads. Not generic over the function: the searches are compiled for
/// every form of paths, and rayon's code for each of their closures was a third of the crate's.
pub(crate) fn each<T: Send>(count: usize, one: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    (0..count).into_par_iter().map(one).collect()
}

/// `one(number, item)` for each item, on all threads.
pub(crate) fn each_mut<T: Send>(items: &mut [T], one: &(dyn Fn(usize, &mut T) + Sync)) {
    let items = items.par_iter_mut().enumerate();
    items.for_each(|(number, item)| one(number, item));
}

/// Work of a thread.
type Work = Box<dyn FnOnce() + Send>;

fn start(work: Work) -> io::Result<()> {
    std::thread::Builder::new().spawn(work).map(drop)
}

/// A pool of the threads that the system starts, at most `most`, or of the calling thread if it starts none: `ulimit -u` of a
/// login node and `pids.max` of a container often allow fewer threads than the machine has processors. The process's shared
/// pool (`None`) can be tried only once, so that its threads are started before.
fn begin(
    most: usize,
    is_shared: bool,
    start: impl Fn(Work) -> io::Result<()>,
) -> Result<Option<ThreadPool>, ThreadPoolBuildError> {
    let (give, given) = channel::<ThreadBuilder>();
    let given = Arc::new(Mutex::new(given));
    let member = || {
        let given = given.clone();
        let work = move || {
            let next = given.lock().unwrap_or_else(PoisonError::into_inner).recv();
            // None is given if the pool exists already.
            next.into_iter().for_each(ThreadBuilder::run);
        };
        start(Box::new(work)).ok()
    };
    let started = (0..most).map_while(|_| member()).count();
    let give = move |thread| {
        give.send(thread)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    };
    let mut pool = ThreadPoolBuilder::new()
        .num_threads(started.max(1))
        .spawn_handler(give);
    if started == 0 {
        pool = pool.use_current_thread();
    }
    match is_shared {
        true => pool.build_global().map(|()| None),
        false => pool.build().map(Some),
    }
}

/// A pool of at most so many threads, one per processor for 0; `None` if the calling thread must do the work.
pub(crate) fn pool(most: usize) -> Option<ThreadPool> {
    let most = if most == 0 { processors() } else { most };
    // Fails only for a calling thread that is the shared pool already.
    begin(most, false, start).ok().flatten()
}

/// Starts the process's shared pool, which would otherwise panic on its first use if the system refuses a thread. If it
/// refuses even one, the calling thread does all the work. Does nothing if the pool runs.
pub fn start_shared_pool() {
    let _ = begin(processors(), true, start);
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_pool_has_as_many_threads_as_the_system_starts() {
        for allowed in [0, 1, 3, 64] {
            let begun = std::thread::spawn(move || {
                let asked = AtomicUsize::new(0);
                let limited = |work| match asked.fetch_add(1, Ordering::Relaxed) < allowed {
                    true => start(work),
                    false => Err(io::ErrorKind::WouldBlock.into()),
                };
                let pool = begin(16, false, limited).unwrap().unwrap();
                let sum = pool.install(|| each(100, &|n| n).into_iter().sum::<usize>());
                (pool.current_num_threads(), sum)
            });
            assert_eq!(begun.join().unwrap(), (allowed.clamp(1, 16), 4950));
        }
    }
}

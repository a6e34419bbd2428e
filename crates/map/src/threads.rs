//! Work on all threads, and pools of them under a limit on processes.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

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

/// Builds with `most` threads, or with half as many until the system starts them all: `ulimit -u` of a login node and
/// `pids.max` of a container often allow fewer threads than the machine has processors.
fn fewer<T>(
    most: usize,
    build: impl Fn(ThreadPoolBuilder) -> Result<T, ThreadPoolBuildError>,
) -> Result<T, ThreadPoolBuildError> {
    let mut threads = most.max(1);
    loop {
        match build(ThreadPoolBuilder::new().num_threads(threads)) {
            Err(_) if threads > 1 => threads /= 2,
            built => return built,
        }
    }
}

/// A pool of at most one thread per processor.
pub(crate) fn pool() -> Result<ThreadPool, ThreadPoolBuildError> {
    fewer(processors(), ThreadPoolBuilder::build)
}

/// Starts the process's shared pool, which would otherwise panic on its first use if the system refuses a thread. If it
/// refuses even one, the calling thread does all the work. Does nothing if the pool runs.
pub fn start_shared_pool() {
    if fewer(processors(), ThreadPoolBuilder::build_global).is_err() {
        let alone = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
        let _ = alone.build_global();
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_as_many_threads_as_the_system_starts() {
        for allowed in [1, 3, 64] {
            let build = |builder: ThreadPoolBuilder| {
                let started = std::sync::atomic::AtomicUsize::new(0);
                builder
                    .spawn_handler(|thread| {
                        if started.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= allowed {
                            return Err(std::io::ErrorKind::WouldBlock.into());
                        }
                        std::thread::spawn(|| thread.run());
                        Ok(())
                    })
                    .build()
            };
            let pool = fewer(16, build).unwrap();
            let expected = [16, 8, 4, 2, 1].into_iter().find(|&n| n <= allowed);
            assert_eq!(Some(pool.current_num_threads()), expected);
        }
    }
}

//! Processor time of a process.

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// User and system time of all threads of this process (Linux, CLOCK_PROCESS_CPUTIME_ID).
pub fn cpu_seconds() -> f64 {
    let mut time = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: the pointer is to a live value of the C type's layout.
    unsafe { clock_gettime(2, &raw mut time) };
    time.seconds as f64 + time.nanoseconds as f64 * 1e-9
}

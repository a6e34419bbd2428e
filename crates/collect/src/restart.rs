//! Servers of a program that is built to abort on panics, as the static one is: a panic starts the process again in its
//! place, with the same process ID and command line. What was acknowledged is in the store, as after a kill.

use std::os::unix::process::CommandExt;
use std::panic::{set_hook, take_hook};
use std::process::Command;
use std::sync::Once;
use std::time::{Duration, Instant};

/// Age of a server that a panic starts again; a younger one ends, so that no failure repeats without a pause.
const SETTLED: Duration = Duration::from_secs(10);

/// From the first call on, a panic of any thread starts the process again, if it would abort otherwise.
pub fn if_aborting() {
    static ONCE: Once = Once::new();
    if cfg!(panic = "abort") {
        ONCE.call_once(|| on_panic(SETTLED));
    }
}

fn on_panic(settled: Duration) {
    let (since, report) = (Instant::now(), take_hook());
    set_hook(Box::new(move |panic| {
        report(panic);
        if since.elapsed() < settled {
            return;
        }
        eprintln!("hopbyte: internal error; the server starts again");
        let mut words = std::env::args_os();
        let mut itself = Command::new("/proc/self/exe");
        if let Some(name) = words.next() {
            itself.arg0(name);
        }
        let error = itself.args(words).exec();
        eprintln!("hopbyte: the server does not start again: {error}");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a process of its own, which fails twice: as a settled server, then as a young one.
    #[test]
    fn a_settled_server_starts_again_and_a_young_one_ends() {
        const FOLDER: &str = "HOPBYTE_TEST_RESTARTS";
        const NAME: &str = "restart::tests::a_settled_server_starts_again_and_a_young_one_ends";
        if let Some(folder) = std::env::var_os(FOLDER) {
            let second = std::fs::create_dir(std::path::Path::new(&folder).join("first")).is_err();
            println!("process {}", std::process::id());
            on_panic(Duration::from_secs(if second { 3600 } else { 0 }));
            let _ = std::thread::spawn(|| panic!("of a thread")).join();
            std::process::exit(9);
        }
        let folder = tempfile::tempdir().unwrap();
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", NAME, "--nocapture"])
            .env(FOLDER, folder.path());
        let done = test.output().unwrap();
        assert_eq!(done.status.code(), Some(9));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (said, told) = (text(done.stdout), text(done.stderr));
        let processes: Vec<&str> = said.lines().filter(|l| l.contains("process ")).collect();
        assert!(
            processes.len() == 2 && processes[0] == processes[1],
            "{said}"
        );
        assert_eq!(told.matches("of a thread").count(), 2, "{told}");
        assert_eq!(told.matches("starts again").count(), 1, "{told}");
    }
}

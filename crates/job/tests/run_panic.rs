//! `hopbyte run` when hopbyte itself fails.

use hopbyte_job::run::launch_on_panic;
use std::ffi::OsString;
use std::process::Command;

/// In a process of its own, which becomes the command.
#[test]
fn a_panic_of_any_thread_launches_the_command() {
    const CHILD: &str = "HOPBYTE_TEST_PANICS";
    if std::env::var_os(CHILD).is_some() {
        let words = ["sh", "-c", "echo job; exit 7"].map(OsString::from);
        launch_on_panic(&words, |reason| eprintln!("told: {reason}"));
        let _ = std::thread::spawn(|| panic!("two\nlines")).join();
        panic!("after the thread");
    }
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args([
        "--exact",
        "run_panic::a_panic_of_any_thread_launches_the_command",
    ]);
    let done = test.arg("--nocapture").env(CHILD, "1").output().unwrap();
    assert_eq!(done.status.code(), Some(7));
    assert!(done.stdout.ends_with(b"job\n"));
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(told.starts_with("told: command unchanged: internal error: panicked at"));
    assert!(
        told.ends_with(" two lines\n") && told.lines().count() == 1,
        "{told}"
    );
}

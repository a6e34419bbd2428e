//! Running `ip` and `tc`, and a lab's files.

use crate::error::{Context, Result, refuse};
use hopbyte_job::Lacking;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Folder of the labs' state.
pub fn folder(lab: &str) -> PathBuf {
    PathBuf::from("/run/hopbyte-lab").join(lab)
}

/// Checks rights and programs before any change.
pub fn check_rights() -> Result<()> {
    let uid = Command::new("id")
        .arg("-u")
        .output()
        .context("running id")?;
    if uid.stdout.trim_ascii() != b"0" {
        return Err(Lacking(
            "the lab makes network namespaces and shaped links, which Linux lets only root do\n\
             hint: run it with sudo, or, where the kernel lets everybody be root of a namespace, in a shell of\n\
             unshare --user --map-root-user --net --mount sh -c 'mount -t tmpfs tmpfs /run && exec sh'"
                .into(),
        )
        .into());
    }
    for program in ["ip", "tc", "unshare"] {
        if Command::new(program).arg("-V").output().is_err() {
            return Err(Lacking(format!(
                "the lab needs the program '{program}'\nhint: install iproute2 and util-linux"
            ))
            .into());
        }
    }
    Ok(())
}

/// Runs `PROGRAM ARGUMENTS… -batch -` with the given lines; `program` is `ip` or `tc`.
pub fn batch(program: &str, place: Option<&str>, lines: &str) -> Result<()> {
    let mut command = Command::new(program);
    if let Some(place) = place {
        command.args(["-n", place]);
    }
    command
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(lines.as_bytes())
            .with_context(|| format!("writing to {program}"))?;
    }
    let done = child
        .wait_with_output()
        .with_context(|| format!("waiting for {program}"))?;
    if !done.status.success() {
        let place = place.unwrap_or("the outer namespace");
        refuse!(
            "{program} in {place}: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(())
}

/// Runs a command in a namespace and returns its output.
pub fn inside(place: &str, command: &[&str]) -> Result<String> {
    let done = Command::new("ip")
        .args(["netns", "exec", place])
        .args(command)
        .output()
        .context("starting ip")?;
    if !done.status.success() {
        refuse!(
            "{} in {place}: {}",
            command.join(" "),
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// All namespaces of this machine that belong to a lab.
pub fn places_of(lab: &str) -> Result<Vec<String>> {
    let done = Command::new("ip")
        .args(["netns", "list"])
        .output()
        .context("starting ip")?;
    let text = String::from_utf8_lossy(&done.stdout);
    let belongs = |name: &&str| {
        name.strip_prefix(lab)
            .and_then(|rest| rest.strip_prefix('-'))
            .is_some_and(|rest| {
                let digits = rest.strip_prefix(['r', 'n']);
                digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
            })
    };
    Ok(text
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .filter(belongs)
        .map(str::to_owned)
        .collect())
}

/// Kills every process in a lab's namespaces and removes them, with the lab's state;
/// returns the number of namespaces. Works after a kill too, since it needs only names. An
/// `ip` that was building the lab may outlive its parent for a moment, so it repeats until none is left.
pub fn remove(lab: &str) -> Result<usize> {
    let mut removed = 0;
    loop {
        let places = places_of(lab)?;
        if places.is_empty() {
            std::thread::sleep(Duration::from_millis(100));
            if places_of(lab)?.is_empty() {
                break;
            }
            continue;
        }
        removed += places.len();
        places.iter().for_each(|place| end_processes(place));
        let lines: String = places.iter().map(|p| format!("netns del {p}\n")).collect();
        batch("ip", None, &lines)?;
    }
    match std::fs::remove_dir_all(folder(lab)) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(e).with_context(|| format!("removing {}", folder(lab).display())),
    }
    Ok(removed)
}

/// Kills every process in a namespace.
pub fn end_processes(place: &str) {
    let pids = Command::new("ip").args(["netns", "pids", place]).output();
    let text = pids
        .map(|p| String::from_utf8_lossy(&p.stdout).into_owned())
        .unwrap_or_default();
    for pid in text.split_whitespace() {
        let _ = Command::new("kill").args(["-9", pid]).status();
    }
}

/// A command that enters a host of a lab: its network, its host name, its `/etc/hosts`, a `/dev/shm` of
/// its own, so that shared memory cannot cross hosts.
pub fn enter(lab: &str, place: &str, host: &str) -> Command {
    let hosts = folder(lab).join("hosts");
    let script = "hostname \"$1\" && mount --make-rprivate / && mount --bind \"$2\" /etc/hosts && \
                  mount -t tmpfs tmpfs /dev/shm && shift 2 && exec \"$@\"";
    let mut command = Command::new("ip");
    command.args([
        "netns", "exec", place, "unshare", "-u", "-m", "-i", "sh", "-c", script, "lab", host,
    ]);
    command.arg(hosts);
    command
}

/// The script that launchers call in place of ssh: `agent [OPTIONS] HOST COMMAND…`.
pub fn agent_script(lab: &str) -> String {
    let folder = folder(lab).display().to_string();
    format!(
        "#!/bin/sh\n\
         # Starts a command on a host of the lab, as ssh would.\n\
         while [ \"${{1#-}}\" != \"$1\" ]; do shift; done\n\
         host=$1; shift\n\
         found=$(awk -v h=\"$host\" '$1==h || $2==h || $4==h {{ print; exit }}' {folder}/places)\n\
         [ -n \"$found\" ] || {{ echo \"lab: no host $host\" >&2; exit 255; }}\n\
         read -r address _ place name interface <<END\n$found\nEND\n\
         export HOPBYTE_LAB_ADDRESS=$address HOPBYTE_LAB_INTERFACE=$interface\n\
         exec ip netns exec \"$place\" unshare -u -m -i sh -c 'hostname \"$1\"; mount --make-rprivate /; \
         mount --bind {folder}/hosts /etc/hosts; mount -t tmpfs tmpfs /dev/shm; shift; exec sh -c \"$*\"' lab \"$name\" \"$@\"\n"
    )
}

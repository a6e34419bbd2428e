//! The application on an emulated cluster: it reports the times of its products, and moves its blocks on request.

use crate::error::{Context, LabError, Result, refuse};
use crate::{Lab, system};
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_observe::threads::start;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Timeout for a line of a job.
const PATIENCE: Duration = Duration::from_secs(120);
/// Grace period of a job after the signal to end.
const GRACE: Duration = Duration::from_secs(10);

/// Where a job runs.
pub struct Place<'a> {
    /// The cluster.
    pub lab: &'a Lab,
    /// Its machine.
    pub fabric: &'a Fabric,
    /// Nodes in the launcher's order.
    pub nodes: Vec<NodeId>,
    /// Ranks on each.
    pub ranks_per_node: u32,
}

impl Place<'_> {
    /// Open MPI's launcher on the first node, for these nodes; the program and its arguments follow.
    /// `before` comes before the launcher.
    pub fn launcher(&self, before: &[String]) -> Command {
        let hosts: Vec<String> = (self.nodes.iter())
            .map(|&n| format!("{}:{}", self.fabric.node(n).name, self.ranks_per_node))
            .collect();
        let mut command = self.lab.command(self.fabric, self.nodes[0]);
        command.args(before).arg(LAUNCHER).args([
            "--allow-run-as-root",
            "--mca",
            "plm_rsh_agent",
            &self.lab.agent,
            "--host",
            &hosts.join(","),
        ]);
        command.args(["--map-by", "slot", "--bind-to", "none"]);
        for (name, value) in NETWORK {
            command.args(["--mca", name, value]);
        }
        let ranks = self.nodes.len() * self.ranks_per_node as usize;
        command.args(["-np", &ranks.to_string()]);
        command
    }
}

/// Open MPI's own name, since other MPIs have an `mpirun` too.
pub const LAUNCHER: &str = "mpirun.openmpi";
/// TCP over the emulated cables, shared memory inside a host.
const NETWORK: [(&str, &str); 3] = [
    ("btl", "tcp,self,vader"),
    ("btl_tcp_if_include", "eth0"),
    ("oob_tcp_if_include", "eth0"),
];

/// A running job that prints JSON lines.
pub struct Job {
    child: Child,
    lines: Receiver<Value>,
    log: PathBuf,
    /// Namespaces of its nodes; all processes in them are killed at the end.
    places: Vec<String>,
}

impl Job {
    /// Starts a job; its standard error goes into `log`.
    pub fn start(place: &Place, program: &[String], log: &Path) -> Result<Self> {
        let errors =
            std::fs::File::create(log).with_context(|| format!("writing {}", log.display()))?;
        let mut child = place
            .launcher(&[])
            .args(program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .context("starting ip")?;
        let (sender, lines) = channel();
        if let Some(out) = child.stdout.take() {
            let read = move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    let Ok(value) = serde_json::from_str(&line) else {
                        continue;
                    };
                    if sender.send(value).is_err() {
                        return;
                    }
                }
            };
            start(read)?;
        }
        let naming = place.lab.naming(place.fabric);
        Ok(Self {
            child,
            lines,
            log: log.to_owned(),
            places: place.nodes.iter().map(|&n| naming.node(n)).collect(),
        })
    }

    /// The next line that `wanted` accepts.
    pub fn line(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let start = Instant::now();
        while let Some(left) = PATIENCE.checked_sub(start.elapsed()) {
            let Ok(value) = self.lines.recv_timeout(left) else {
                break;
            };
            if value["record"] == "refused" {
                refuse!("the application refused a map: {}", value["problem"]);
            }
            if wanted(&value) {
                return Ok(value);
            }
        }
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        refuse!(
            "a job on the lab printed nothing for {} s or ended: {}\nhint: all of it is in {}",
            PATIENCE.as_secs(),
            last.into_iter().rev().collect::<Vec<_>>().join(" / "),
            self.log.display()
        )
    }

    /// Time of a product in the next complete window of so many timed products.
    pub fn product_seconds(&mut self, products: u64) -> Result<f64> {
        let line = self.line(|v| v["record"] == "window" && v["iterations"] == products)?;
        let seconds = line["average_seconds"].as_f64();
        seconds.ok_or_else(|| {
            LabError::Refused(format!("no time in a report of the application: {line}"))
        })
    }

    /// Discards the output so far, including a partial line.
    pub fn catch_up(&mut self) -> Result<()> {
        while self.lines.try_recv().is_ok() {}
        self.line(|v| v["record"] == "window").map(|_| ())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.places
            .iter()
            .for_each(|place| system::end_processes(place));
    }
}

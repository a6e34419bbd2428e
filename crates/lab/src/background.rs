//! Background traffic: streams of datagrams between nodes of a lab, each at a fixed rate without congestion
//! control. One process sends them all, each from its node's namespace; the receiver discards them.
//!
//! Each running set of streams has a file in the lab's folder, locked by the sending process. The process ends when
//! the file is removed, so taking the lab down ends it too.

use super::plan::Naming;
use super::{Lab, plan, space, system};
use crate::error::{Context, Result, refuse};
use hopbyte_fabric::{Fabric, NodeId};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Payload of a datagram, which fills a frame.
const PAYLOAD: usize = 1472;
/// Bytes of its frame: 8 of UDP, 20 of IP and 14 of Ethernet more.
pub const FRAME: usize = PAYLOAD + 42;
/// Port that datagrams go to.
const PORT: u16 = 7077;
/// Interval between checks for due datagrams.
const TICK: Duration = Duration::from_millis(1);
/// Longest delay after which a sender still catches up; after a longer one it skips the missed datagrams.
const CATCH_UP: Duration = Duration::from_millis(100);
/// Timeout for a sender to begin or to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limit of streams per process: two descriptors each.
const MOST: usize = 400;

/// A stream from one node to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Name of the sending node.
    pub from: String,
    /// Name of the receiving node.
    pub to: String,
    /// Bits per second on the wire, frames with their Ethernet header.
    pub bits_per_second: f64,
}

impl Flow {
    /// A stream between two nodes that takes a share of its sender's link.
    pub fn of_share(lab: &Lab, fabric: &Fabric, [from, to]: [NodeId; 2], share: f64) -> Self {
        let naming = lab.naming(fabric);
        let own = naming.rate(fabric, fabric.node(naming.seats.port(from)).inject) as f64;
        Self {
            from: fabric.node(from).name.clone(),
            to: fabric.node(to).name.clone(),
            bits_per_second: own * share,
        }
    }
}

/// Streams that one process sends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    /// Number of its file.
    pub id: u32,
    /// The streams.
    pub flows: Vec<Flow>,
    /// Whether the process still runs; a killed process leaves its file.
    #[serde(skip)]
    pub sends: bool,
}

/// Starts streams that run until they are stopped; returns once the first datagrams may be on their way.
pub fn start(lab: &Lab, fabric: &Fabric, flows: &[Flow]) -> Result<u32> {
    if flows.is_empty() || flows.len() > MOST {
        refuse!(
            "lab background: found {} streams, expected 1 to {MOST}",
            flows.len()
        );
    }
    let seats = lab.naming(fabric).seats;
    for flow in flows {
        let (from, to) = (fabric.find_node(&flow.from)?, fabric.find_node(&flow.to)?);
        if from == to {
            refuse!(
                "lab background: found a stream from {} to itself",
                flow.from
            );
        }
        if seats.together(from, to) {
            refuse!(
                "lab background: found a stream inside {}, expected two hosts",
                fabric.node(from).host
            );
        }
    }
    let folder = folder(lab);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let id = running(lab)?.iter().map(|r| r.id).max().unwrap_or(0) + 1;
    let record = Running {
        id,
        flows: flows.to_vec(),
        sends: false,
    };
    let path = file(lab, id);
    hopbyte_apply::write_atomic(&path, &serde_json::to_string(&record)?)?;
    let begun = spawn(lab, id);
    if begun.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    begun.map(|()| id)
}

/// Starts the process and waits for its ready line.
fn spawn(lab: &Lab, id: u32) -> Result<()> {
    let own = hopbyte_job::program::own().context("finding this program")?;
    let mut child = Command::new(own)
        .args(["--quiet", "lab", "background", "send", "--name", &lab.name])
        .arg(id.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("starting the sender")?;
    let (out, errors) = (child.stdout.take(), child.stderr.take());
    let mut line = String::new();
    if let Some(out) = out {
        BufReader::new(out)
            .read_line(&mut line)
            .context("listening to the sender")?;
    }
    if line.trim() == READY {
        return Ok(());
    }
    let _ = child.wait();
    let mut said = String::new();
    if let Some(mut errors) = errors {
        let _ = errors.read_to_string(&mut said);
    }
    refuse!("the sender did not begin: {}", said.trim())
}

/// The sender's ready line.
const READY: &str = "ready";

/// Stops all streams of a lab and waits until their processes have ended; returns the number of streams.
pub fn stop(lab: &Lab) -> Result<usize> {
    let all = running(lab)?;
    let mut count = 0;
    for one in &all {
        let path = file(lab, one.id);
        let held = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        let asked = Instant::now();
        while held.try_lock().is_err() {
            if asked.elapsed() > PATIENCE {
                refuse!(
                    "streams of lab '{}' do not end; `hopbyte lab down` takes their nodes away",
                    lab.name
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        count += one.flows.len();
    }
    Ok(count)
}

/// Streams that were started and not stopped.
pub fn running(lab: &Lab) -> Result<Vec<Running>> {
    let Ok(entries) = std::fs::read_dir(folder(lab)) else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for path in entries.flatten().map(|e| e.path()) {
        // Skips files that are being written.
        let number =
            |stem: &std::ffi::OsStr| stem.to_str().is_some_and(|s| s.parse::<u32>().is_ok());
        if !path.file_stem().is_some_and(number) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let mut one: Running =
            serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        one.sends = File::open(&path).is_ok_and(|f| f.try_lock().is_err());
        all.push(one);
    }
    all.sort_by_key(|r| r.id);
    Ok(all)
}

/// Sends the streams of a set until their file is removed.
pub fn send(lab: &Lab, fabric: &Fabric, id: u32) -> Result<()> {
    let path = file(lab, id);
    let held = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    held.lock().context("locking the streams' file")?;
    let text = std::fs::read_to_string(&path).context("reading the streams")?;
    let record: Running = serde_json::from_str(&text).context("reading the streams")?;
    let naming = lab.naming(fabric);
    let mut streams = Vec::new();
    let mut holes = Vec::new();
    for flow in &record.flows {
        let (from, to) = (fabric.find_node(&flow.from)?, fabric.find_node(&flow.to)?);
        holes.extend(hole(&naming, to)?);
        streams.push(Stream {
            socket: socket(&naming, from, to)?,
            frames_per_second: flow.bits_per_second / 8.0 / FRAME as f64,
            done: 0,
        });
    }
    println!("{READY}");
    std::io::stdout().flush().context("saying that it sends")?;
    send_all(&mut streams, &path);
    drop(holes);
    Ok(())
}

/// A stream and its progress.
struct Stream {
    socket: UdpSocket,
    frames_per_second: f64,
    done: u64,
}

fn send_all(streams: &mut [Stream], path: &Path) {
    let begun = Instant::now();
    let payload = [0u8; PAYLOAD];
    let mut looked = begun;
    loop {
        let now = begun.elapsed();
        for stream in streams.iter_mut() {
            let due = |t: Duration| (t.as_secs_f64() * stream.frames_per_second) as u64;
            stream.done = stream.done.max(due(now.saturating_sub(CATCH_UP)));
            let due = due(now);
            while stream.done < due {
                // Datagrams refused by a full queue or a cut cable are lost.
                let _ = stream.socket.send(&payload);
                stream.done += 1;
            }
        }
        if looked.elapsed() > 20 * TICK {
            if !path.exists() {
                return;
            }
            looked = Instant::now();
        }
        std::thread::sleep(TICK);
    }
}

/// A socket of one node that sends to another; bytes of a host leave by the port of its bound address.
fn socket(naming: &Naming, from: NodeId, to: NodeId) -> Result<UdpSocket> {
    let open = || -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind((plan::address(from).as_str(), 0))?;
        socket.connect((plan::address(to).as_str(), PORT))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    Ok(space::inside(&naming.node(from), open)??)
}

/// The receiving end of streams to a node: a socket without a reader, which prevents ICMP replies. Absent if
/// another stream has opened it already.
fn hole(naming: &Naming, node: NodeId) -> Result<Option<UdpSocket>> {
    let open = || UdpSocket::bind(("0.0.0.0", PORT));
    match space::inside(&naming.node(node), open)? {
        Ok(socket) => Ok(Some(socket)),
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => Ok(None),
        Err(e) => Err(e).context("opening the end of a stream"),
    }
}

fn folder(lab: &Lab) -> PathBuf {
    system::folder(&lab.name).join("background")
}

fn file(lab: &Lab, id: u32) -> PathBuf {
    folder(lab).join(format!("{id}.json"))
}

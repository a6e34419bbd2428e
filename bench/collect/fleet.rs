//! Cost of a collector. A fleet of emulated nodes reports to one, in a process of its own.
//!
//! `cargo bench -p hopbyte-collect --bench collect -- [--nodes N] [--counters N] [--seconds N] [--udp]
//! [--store FOLDER] [--shards N]`. The collector's processor time and memory are read from /proc; the
//! fleet's are reported separately. All reports of a tick are encoded before it begins and sent when it begins.
//! With shards, as many fleets report to as many collectors at the same time, each with its part of the
//! nodes: together more connections than one process may have.

use hopbyte_collect::Refusal;
use hopbyte_collect::datagram;
use hopbyte_collect::gather::Rules;
use hopbyte_collect::server::{Server, Setup, Told, now_ns};
use hopbyte_collect::store::{Keeping, Store};
use hopbyte_collect::wire::{
    Header, Hello, Kind, PREAMBLE, Sampled, frame, next_frame, put_report, put_source,
};
use hopbyte_fabric::Quantity;
use hopbyte_fabric::random::Random;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

#[derive(Clone)]
struct Options {
    nodes: usize,
    counters: usize,
    seconds: u64,
    udp: bool,
    store: Option<PathBuf>,
    collector: bool,
    shards: usize,
    /// First tick, if several fleets begin together.
    begin: Option<u64>,
}

impl Options {
    fn read() -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            nodes: 1000,
            counters: 200,
            seconds: 4,
            udp: false,
            store: None,
            collector: false,
            shards: 1,
            begin: None,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--nodes" => options.nodes = value()?.parse()?,
                "--counters" => options.counters = value()?.parse()?,
                "--seconds" => options.seconds = value()?.parse()?,
                "--shards" => options.shards = value()?.parse()?,
                "--begin" => options.begin = Some(value()?.parse()?),
                "--store" => options.store = Some(value()?.into()),
                "--udp" => options.udp = true,
                "--collector" => options.collector = true,
                _ => {}
            }
        }
        Ok(options)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read()?;
    if options.collector {
        return collector(&options);
    }
    if options.shards > 1 {
        return shards(&options);
    }
    fleet(&options)
}

/// Seconds for fleets to connect before they begin together.
const CONNECT: u64 = 12;

/// Runs one fleet and one collector for each shard at the same time; each prints its own figures.
fn shards(options: &Options) -> Result<(), Box<dyn Error>> {
    let begin = now_ns() / SECOND + CONNECT;
    let fleets = (0..options.shards).map(|shard| {
        let nodes = (options.nodes + options.shards - 1 - shard) / options.shards;
        let mut fleet = Command::new(std::env::current_exe()?);
        let numbers = [
            ("--nodes", nodes as u64),
            ("--counters", options.counters as u64),
            ("--seconds", options.seconds),
            ("--begin", begin),
        ];
        for (name, number) in numbers {
            fleet.arg(name).arg(number.to_string());
        }
        fleet.args(options.udp.then_some("--udp"));
        if let Some(folder) = &options.store {
            fleet.arg("--store").arg(folder.join(shard.to_string()));
        }
        fleet.stdout(Stdio::piped()).spawn()
    });
    let fleets: Vec<_> = fleets.collect::<Result<_, _>>()?;
    for fleet in fleets {
        let done = fleet.wait_with_output()?;
        print!("{}", String::from_utf8_lossy(&done.stdout));
        if !done.status.success() {
            return Err(format!("a fleet ended with {}", done.status).into());
        }
    }
    Ok(())
}

/// The measured process: prints its addresses, then a line for every tick.
fn collector(options: &Options) -> Result<(), Box<dyn Error>> {
    let setup = Setup {
        listen: vec!["127.0.0.1:0".parse()?],
        udp: Some("127.0.0.1:0".parse()?),
        bus: None,
        identity: None,
        token: None,
        readers: None,
        most_connections: 100_000,
        rules: Rules::default(),
    };
    let store = options
        .store
        .as_ref()
        .map(|f| Store::open(f, Keeping::default()));
    let mut server = Server::new(setup, store.transpose()?)?;
    let addresses = server.addresses()?;
    println!("{} {}", addresses[0], addresses[1]);
    server.run(|told| {
        match told {
            Told::Closed(c, gathering, block) => {
                let after = c.closed_ns as i64 - (c.tick * SECOND) as i64;
                println!(
                    "{} {} {} {after} {} {} {} {}",
                    c.tick,
                    c.expected,
                    c.reported,
                    c.late.len(),
                    block.len(),
                    c.reset.len() + c.frozen.len(),
                    gathering.size().1,
                );
            }
            Told::Note(text) | Told::Warning(text) => eprintln!("collector: {text}"),
        }
        true
    })?;
    Ok(())
}

/// One emulated node.
struct Node {
    hello: Hello,
    stream: Option<TcpStream>,
    values: Values,
    sent: Option<Values>,
    sequence: u64,
    random: Random,
    ready: Vec<u8>,
}

impl Node {
    fn new(i: usize, options: &Options) -> Self {
        let mut node = Self {
            hello: Hello {
                node: format!("nid{i:05}"),
                boot: 1,
                start: now_ns(),
                period_ns: SECOND,
            },
            stream: None,
            values: Values::new(options.counters),
            sent: None,
            sequence: 0,
            random: Random::stream(0, i as u64),
            ready: Vec::new(),
        };
        (0..options.counters).for_each(|c| {
            let start = node.random.next_u64() >> 16;
            node.values.set(c, Some(start));
        });
        node
    }

    fn introduction(&self, challenge: &[u8], source: &[u8], out: &mut Vec<u8>) {
        frame(out, Kind::Hello, |b| {
            self.hello.put(b);
            b.extend_from_slice(challenge);
        });
        frame(out, Kind::Source, |b| b.extend_from_slice(source));
    }

    /// Encodes the report of a tick.
    fn prepare(&mut self, tick: u64, udp: bool) {
        for counter in 0..self.values.len() {
            // Up to 1 GB in a second, as a busy link counts.
            let step = self.random.next_u64() >> 34;
            let value = self.values.get(counter).unwrap_or(0).wrapping_add(step);
            self.values.set(counter, Some(value));
        }
        self.sequence += 1;
        let header = Header {
            sequence: self.sequence,
            tick,
            time_ns: tick * SECOND,
            steady_ns: tick * SECOND,
            took_ns: 50_000,
            ..Header::default()
        };
        let base = self.sent.take().filter(|_| !udp);
        let mut frames = Vec::new();
        frame(&mut frames, Kind::Report, |out| {
            let sampled = Sampled::new(&self.values, base.as_ref());
            put_report(&header, [sampled], out);
        });
        self.sent = Some(self.values.clone());
        if udp {
            self.ready.clear();
            datagram::wrap(
                &self.hello.node,
                self.hello.start,
                None,
                &frames,
                &mut self.ready,
            );
        } else {
            self.ready = frames;
        }
    }
}

fn source_of(counters: usize) -> Result<Vec<u8>, Refusal> {
    let mut layout = Layout::new("", "emulated");
    for i in 0..counters {
        let port = Port::Tile((i % 48) as u16);
        layout.counter(
            &port,
            format!("counter_{i:03}"),
            Quantity::ReceivedBytes,
            1.0,
        );
    }
    let mut source = Vec::new();
    put_source(0, None, &layout, &mut source)?;
    Ok(source)
}

fn fleet(options: &Options) -> Result<(), Box<dyn Error>> {
    raise_descriptors();
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--collector")
        .args(
            options
                .store
                .iter()
                .flat_map(|s| [PathBuf::from("--store"), s.clone()]),
        )
        .stdout(Stdio::piped())
        .spawn()?;
    let pid = child.id();
    let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
    let first = lines.next().ok_or("the collector did not start")??;
    let mut addresses = first.split(' ').map(str::parse::<SocketAddr>);
    let tcp = addresses.next().ok_or("no address")??;
    let udp = addresses.next().ok_or("no address")??;
    let (send, closings) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|l| send.send(l)));

    let empty_kb = memory_kb(pid)?;
    let source = source_of(options.counters)?;
    let mut nodes: Vec<Node> = (0..options.nodes).map(|i| Node::new(i, options)).collect();
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(udp)?;
    for node in &mut nodes {
        let mut out = Vec::new();
        if options.udp {
            // A hello, which is answered with a challenge, and the hello with that.
            let (mut challenge, mut room) = (Vec::new(), [0; 512]);
            for _ in 0..2 {
                let mut frames = Vec::new();
                node.introduction(&challenge, &source, &mut frames);
                out.clear();
                datagram::wrap(&node.hello.node, node.hello.start, None, &frames, &mut out);
                socket.send(&out)?;
                if challenge.is_empty() {
                    let n = socket.recv(&mut room)?;
                    let answer = next_frame(&room[..n], n)?.ok_or("no challenge")?;
                    challenge = answer.1.to_vec();
                }
            }
            // As an agent does: names without a report are limited.
            node.prepare(now_ns() / SECOND, true);
            socket.send(&node.ready)?;
        } else {
            let mut stream = TcpStream::connect(tcp)?;
            stream.set_nodelay(true)?;
            out.extend_from_slice(&PREAMBLE);
            node.introduction(&[], &source, &mut out);
            stream.write_all(&out)?;
            stream.set_nonblocking(true)?;
            node.stream = Some(stream);
        }
    }
    let connected_kb = memory_kb(pid)?;

    // Two ticks to settle (whole values, memory), then the measured ones.
    let begin = options.begin.unwrap_or(now_ns() / SECOND + 2);
    let (mut cpu, mut own) = ((0, 0), (0, 0));
    let mut sending_ns = BTreeMap::new();
    let mut report_bytes = 0;
    for tick in begin..begin + 2 + options.seconds {
        nodes.iter_mut().for_each(|n| n.prepare(tick, options.udp));
        report_bytes = nodes.iter().map(|n| n.ready.len()).sum::<usize>();
        let now = now_ns();
        if now > tick * SECOND {
            return Err(format!(
                "the fleet is too slow: {} ms",
                (now - tick * SECOND) / 1_000_000
            )
            .into());
        }
        std::thread::sleep(Duration::from_nanos(tick * SECOND - now));
        if tick == begin + 2 {
            (cpu.0, own.0) = (cpu_ns(pid)?, cpu_ns(std::process::id())?);
        }
        let start = now_ns();
        for node in &mut nodes {
            match &mut node.stream {
                Some(stream) => stream.write_all(&node.ready)?,
                None => drop(socket.send(&node.ready)?),
            }
        }
        sending_ns.insert(tick as i64, (now_ns() - start, now_ns() - tick * SECOND));
        // Acknowledgements are read well after the tick, as agents do.
        let mut room = [0; 256];
        for stream in nodes.iter_mut().filter_map(|n| n.stream.as_mut()) {
            if tick % 8 == 0 {
                let _ = stream.read(&mut room);
            }
        }
    }
    let left = (begin + 2 + options.seconds) * SECOND;
    std::thread::sleep(Duration::from_nanos(left.saturating_sub(now_ns())));
    (cpu.1, own.1) = (cpu_ns(pid)?, cpu_ns(std::process::id())?);
    let full_kb = memory_kb(pid)?;
    child.kill()?;
    child.wait()?;

    let rows: Vec<Vec<i64>> = closings
        .iter()
        .map(|line| {
            line.split(' ')
                .filter_map(|w| w.parse().ok())
                .collect::<Vec<_>>()
        })
        .filter(|row| {
            row.len() == 8 && row[0] >= (begin + 2) as i64 && row[0] < (left / SECOND) as i64
        })
        .collect();
    let column = |i: usize| {
        let mut column: Vec<i64> = rows.iter().map(|r| r[i]).collect();
        column.sort_unstable();
        column
    };
    let (after, reported) = (column(3), column(2));
    // From the fleet's last send, which needs one of two cores as long as it takes.
    let mut since: Vec<i64> = rows
        .iter()
        .map(|row| row[3] - sending_ns[&row[0]].1 as i64)
        .collect();
    since.sort_unstable();
    let mut sending: Vec<u64> = rows.iter().map(|row| sending_ns[&row[0]].0).collect();
    sending.sort_unstable();
    let per_node = |ns: u64| ns as f64 / 1e3 / options.nodes as f64 / options.seconds as f64;
    let kb = |kb: u64| (kb as f64 * 1024.0 / 1000.0) / options.nodes as f64;
    println!(
        "{} nodes, {} counters, {}, {} ticks{}",
        options.nodes,
        options.counters,
        if options.udp { "UDP" } else { "TCP" },
        rows.len(),
        if options.store.is_some() {
            ", stored"
        } else {
            ""
        }
    );
    println!(
        "  reported in time        {} to {} of {}",
        reported[0],
        reported[reported.len() - 1],
        options.nodes
    );
    println!(
        "  closed after the second median {:.0} ms, latest {:.0} ms; the fleet sends for {:.0} ms (median), \
         closed {:.0} ms (latest {:.0} ms) after its last",
        after[after.len() / 2] as f64 / 1e6,
        after[after.len() - 1] as f64 / 1e6,
        sending[sending.len() / 2] as f64 / 1e6,
        since[since.len() / 2] as f64 / 1e6,
        since[since.len() - 1] as f64 / 1e6
    );
    println!(
        "  collector               {:.2} us of processor time a node and second",
        per_node(cpu.1 - cpu.0)
    );
    println!(
        "  fleet                   {:.2} us",
        per_node(own.1 - own.0)
    );
    println!(
        "  memory                  {:.2} kB a node ({:.2} kB connected), {} kB empty",
        kb(full_kb - empty_kb),
        kb(connected_kb - empty_kb),
        empty_kb
    );
    println!(
        "  report                  {} B, in a block {} B a node",
        report_bytes / options.nodes,
        column(5)[rows.len() / 2] / options.nodes as i64
    );
    Ok(())
}

fn cpu_ns(pid: u32) -> Result<u64, Box<dyn Error>> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        sum += text.split(' ').next().ok_or("schedstat")?.parse::<u64>()?;
    }
    Ok(sum)
}

fn memory_kb(pid: u32) -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let word = line
        .and_then(|l| l.split_whitespace().next())
        .ok_or("VmRSS")?;
    Ok(word.parse()?)
}

fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    // Root may exceed the hard limit, and the collector inherits the new one.
    let wanted = Some(1 << 18);
    let most = Rlimit {
        current: wanted,
        maximum: limit.maximum.max(wanted),
    };
    if setrlimit(Resource::Nofile, most).is_err() {
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

//! One trial of the experiment: alone, beside others, and after a remap with each method.

use super::Settings;
use super::application::{Job, Place};
use super::figures::{Method, Remap, Seen, Trial};
use super::reading::{self, FRAMES, Read, own_bytes};
use super::rivals::{self, Situation};
use crate::background::{self, Flow};
use crate::error::Result;
use hopbyte_apply::write_atomic;
use hopbyte_fabric::{Allocation, Exchange, LinkId, NodeId, Placement};
use hopbyte_job::statistics::median;
use hopbyte_job::{Asked, Effort, Goal, Machine, MachineSource, WireOptions, search};
use hopbyte_oracle::Metric;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Cells of a block: one, so that the exchange is large beside the data moved in a remap.
pub const CELLS: &str = "1,1,1";
/// Microseconds that ranks sleep between polls: there are far more ranks than processors.
pub const NAP: &str = "1000";
/// Warm-up products of a window. A queue that fills while products are faster than the link serves them
/// approaches its limit by a constant share with each product, an eighth at three quarters of the link used.
const SETTLE: u64 = 20;
/// Products that are timed.
const TIMED: u64 = 10;
/// Milliseconds that the application waits for a map after a window.
const LINGER: &str = "600";
/// Minimum number of products and minimum length of a reading.
const READ_PRODUCTS: f64 = 10.0;
const READING: f64 = 2.0;
/// Minimum loss by the streams for a meaningful trial.
const LEAST_LOSS: f64 = 0.05;

/// State shared by all trials.
pub struct Scene<'a> {
    pub place: Place<'a>,
    pub others: Vec<NodeId>,
    pub machine: &'a Machine,
    pub folder: PathBuf,
    pub program: PathBuf,
    /// Traffic between the blocks in one product.
    pub exchange: Exchange,
    pub traffic: PathBuf,
    pub competing: usize,
    pub share: f64,
    pub seed: u64,
}

/// The initial map: the best of an idle machine.
struct Start {
    allocation: Allocation,
    placement: Placement,
    blocks: Vec<usize>,
}

/// A map of a method.
struct Made {
    method: Method,
    placement: Placement,
    blocks: Vec<usize>,
    seconds: f64,
}

impl Scene<'_> {
    pub fn trials(
        &self,
        settings: &Settings,
        say: &mut dyn FnMut(String),
    ) -> Result<(Vec<Trial>, bool)> {
        let (map, stop) = (self.folder.join("map"), self.folder.join("stop"));
        for path in [&map, &stop] {
            let _ = std::fs::remove_file(path);
        }
        let mut app = self.application(settings, &map, &stop)?;
        let start = self.start()?;
        send(&mut app, &map, &start.blocks)?;
        let begun = Instant::now();
        let mut trials: Vec<Trial> = Vec::new();
        while trials.len() < settings.trials && begun.elapsed().as_secs_f64() < settings.budget {
            let number = settings.first + trials.len() as u64;
            let trial = self.trial(&mut app, &map, &start, number)?;
            let times = trial.remaps.iter().map(|r| {
                let ms = 1e3 * r.product_seconds;
                format!("{} {ms:.0}", r.method.words())
            });
            say(format!(
                "trial {number} after {:.0} s: {:.0} ms alone, {:.0} beside the streams; {}",
                begun.elapsed().as_secs_f64(),
                1e3 * trial.alone_seconds,
                1e3 * trial.congested_seconds,
                times.collect::<Vec<_>>().join(", "),
            ));
            trials.push(trial);
        }
        write_atomic(&stop, "")?;
        let total = app.line(|v| v["record"] == "total")?;
        Ok((trials, total["verified"] == true))
    }

    /// The application, which runs until `stop` appears and moves its blocks when `map` changes.
    fn application(&self, settings: &Settings, map: &Path, stop: &Path) -> Result<Job> {
        let products = (SETTLE + TIMED).to_string();
        let settle = SETTLE.to_string();
        let (map, stop) = (map.display().to_string(), stop.display().to_string());
        let program = self.program.display().to_string();
        let words = [
            &program,
            "--grid",
            &settings.grid,
            "--cells",
            CELLS,
            "--unknowns",
            &settings.unknowns.to_string(),
            "--nap",
            NAP,
            "--json",
            "--iterations",
            "100000000",
            "--remap",
            &map,
            "--stop",
            &stop,
            "--report-every",
            &products,
            "--check-every",
            &products,
            "--settle",
            &settle,
            "--linger",
            LINGER,
        ]
        .map(str::to_owned);
        let mut app = Job::start(&self.place, &words, &self.folder.join("application.log"))?;
        app.line(|v| v["record"] == "setup")?;
        Ok(app)
    }

    /// The best map for an otherwise idle machine.
    fn start(&self) -> Result<Start> {
        let (mapping, allocation) = self.map_by(Goal::WorstLink, Metric::Hops, None)?;
        Ok(Start {
            blocks: self.blocks(&mapping),
            allocation,
            placement: mapping,
        })
    }

    /// Alone and beside others with the static map, after a remap with each method, and with the static map again
    /// after each two of them: load changes of the underlying machine show on both sides.
    fn trial(&self, app: &mut Job, map: &Path, start: &Start, number: u64) -> Result<Trial> {
        let question = rivals::Question {
            machine: self.machine,
            exchange: &self.exchange,
            allocation: &start.allocation,
            placement: &start.placement,
            others: &self.others,
            count: self.competing,
            share: self.share,
        };
        let situation = question.situation((self.seed << 20) + number)?;
        app.catch_up()?;
        let mut alone = [app.product_seconds(TIMED)?, 0.0];
        let flows = self.flows(&situation);
        background::start(self.place.lab, self.place.fabric, &flows)?;
        app.catch_up()?;
        let mut beside = vec![app.product_seconds(TIMED)?];
        let own = own_bytes(self.machine, &self.exchange, &start.placement)?;
        let reads = self.read(&own, beside[0])?;
        let made = self.maps(number)?;
        beside[0] = 0.5 * (beside[0] + app.product_seconds(TIMED)?);
        let mut remaps = Vec::new();
        for pair in made.chunks(2) {
            for one in pair {
                let moved = send(app, map, &one.blocks)?;
                remaps.push(Remap {
                    method: one.method,
                    product_seconds: app.product_seconds(TIMED)?,
                    predicted_seconds: self.seconds(question.beside(&situation, &one.placement)?),
                    recovered_ratio: None,
                    mapping_seconds: one.seconds,
                    moving_seconds: moved["move_seconds"].as_f64().unwrap_or(0.0),
                    moved_blocks: moved["moved_blocks"].as_u64().unwrap_or(0),
                });
            }
            send(app, map, &start.blocks)?;
            beside.push(app.product_seconds(TIMED)?);
        }
        background::stop(self.place.lab)?;
        app.catch_up()?;
        alone[1] = app.product_seconds(TIMED)?;
        let alone_seconds = 0.5 * (alone[0] + alone[1]);
        for (i, remap) in remaps.iter_mut().enumerate() {
            let congested = 0.5 * (beside[i / 2] + beside[i / 2 + 1]);
            let lost = congested - alone_seconds;
            if lost > LEAST_LOSS * alone_seconds {
                remap.recovered_ratio = Some((congested - remap.product_seconds) / lost);
            }
        }
        Ok(Trial {
            alone,
            alone_seconds,
            congested_seconds: median(&beside),
            beside,
            alone_predicted_seconds: self.seconds(situation.free),
            congested_predicted_seconds: self.seconds(situation.congested),
            streams: flows.into_iter().map(|f| [f.from, f.to]).collect(),
            links: self.seen(&situation, &reads, &own, &made)?,
            remaps,
        })
    }

    /// Converts the model's seconds on the machine to seconds on the lab.
    fn seconds(&self, model: f64) -> f64 {
        model * 8.0 * FRAMES / self.place.lab.scale_bits_per_byte
    }

    /// The streams of a situation.
    fn flows(&self, situation: &Situation) -> Vec<Flow> {
        let (lab, fabric) = (self.place.lab, self.place.fabric);
        let flow = |&ends: &[NodeId; 2]| Flow::of_share(lab, fabric, ends, self.share);
        situation.flows.iter().map(flow).collect()
    }

    /// Counters of the timed part of a window of the static map that begins now.
    fn read(
        &self,
        own: &HashMap<LinkId, f64>,
        product_seconds: f64,
    ) -> Result<HashMap<LinkId, Read>> {
        std::thread::sleep(Duration::from_secs_f64(SETTLE as f64 * product_seconds));
        let window = Duration::from_secs_f64((READ_PRODUCTS * product_seconds).max(READING));
        let (all, others) = (
            self.folder.join("links.jsonl"),
            self.folder.join("others.jsonl"),
        );
        reading::read(&self.place, own, window, &all, &others)
    }

    /// The map of each method, in an order that rotates from trial to trial.
    fn maps(&self, number: u64) -> Result<Vec<Made>> {
        let mut methods = Method::MAPPED;
        methods.rotate_left(number as usize % Method::MAPPED.len());
        let make = |method| {
            let begun = Instant::now();
            let placement = self.mapping(method)?;
            Ok(Made {
                method,
                blocks: self.blocks(&placement),
                placement,
                seconds: begun.elapsed().as_secs_f64(),
            })
        };
        methods.into_iter().map(make).collect()
    }

    /// Load of the streams on each link, with its reading and the messages of the maps over it.
    fn seen(
        &self,
        situation: &Situation,
        reads: &HashMap<LinkId, Read>,
        own: &HashMap<LinkId, f64>,
        made: &[Made],
    ) -> Result<Vec<Seen>> {
        let fabric = self.place.fabric;
        let total = self.exchange.iter().count().max(1) as f64;
        let message = FRAMES * self.exchange.total_bytes() / total;
        let by_map = (made.iter())
            .map(|m| own_bytes(self.machine, &self.exchange, &m.placement))
            .collect::<Result<Vec<_>>>()?;
        let of = |bytes: &HashMap<LinkId, f64>, link| {
            let messages = bytes.get(&link).copied().unwrap_or(0.0) / message;
            (10.0 * messages).round() / 10.0
        };
        let links = fabric.link_ids().filter(|&link| {
            let apart = situation.taken[link.index()] > 0.0 || own.contains_key(&link);
            apart && fabric.is_hop(link)
        });
        Ok(links
            .filter_map(|link| {
                let read = reads.get(&link)?;
                Some(Seen {
                    link: fabric.link_name(link),
                    streams_ratio: situation.taken[link.index()],
                    used_ratio: read.load.used(read.rate),
                    others_ratio: read.others * 8.0 / read.rate as f64,
                    waiting_ratio: read.load.waiting,
                    drops: read.load.drops,
                    static_messages: of(own, link),
                    messages: by_map.iter().map(|bytes| of(bytes, link)).collect(),
                })
            })
            .collect())
    }

    /// The map of one method.
    fn mapping(&self, method: Method) -> Result<Placement> {
        let (goal, metric, file) = match method {
            Method::WorstLink | Method::None => (Goal::WorstLink, Metric::Hops, "others.jsonl"),
            Method::Hops => (Goal::RouteCost, Metric::Hops, "links.jsonl"),
            Method::Used => (Goal::RouteCost, Metric::Used, "links.jsonl"),
            Method::CreditStall => (Goal::RouteCost, Metric::CreditStall, "links.jsonl"),
        };
        let (placement, _) = self.map_by(goal, metric, Some(self.folder.join(file)))?;
        Ok(placement)
    }

    /// Runs the mapper as the command line does; returns the placement and its nodes.
    fn map_by(
        &self,
        objective: Goal,
        metric: Metric,
        background: Option<PathBuf>,
    ) -> Result<(Placement, Allocation)> {
        let nodes = self.place.nodes.iter();
        let names: Vec<&str> = nodes
            .map(|&n| self.machine.fabric.node(n).name.as_str())
            .collect();
        let asked = Asked {
            traffic: self.traffic.display().to_string(),
            machine: MachineSource {
                fabric: self.place.lab.machine.fabric.clone(),
                ..MachineSource::default()
            },
            nodes: Some(names.join(",")),
            ranks_per_node: Some(self.place.ranks_per_node),
            background: background.into_iter().collect(),
            goal: objective,
            metric,
            // The emulated links differ from those of the machine whose topology they have.
            wire: WireOptions::payload(),
            ..Asked::default()
        };
        let question = asked.read()?;
        let effort = Effort {
            seconds: 0.0,
            trials: Some(20_000),
            seed: self.seed,
            ..Effort::DEFAULT
        };
        let mapping = search(&question, &effort, &|_| {})?;
        Ok((mapping.placement, question.allocation))
    }

    /// Block of every rank, ranks numbered node by node.
    fn blocks(&self, placement: &Placement) -> Vec<usize> {
        let per_node = self.place.ranks_per_node as usize;
        let mut blocks = vec![0; placement.tasks()];
        for task in 0..placement.tasks() {
            let slot = placement.slot(task as u32);
            let node = self
                .place
                .nodes
                .iter()
                .position(|&n| n == slot.node)
                .unwrap_or(0);
            blocks[node * per_node + slot.slot as usize] = task;
        }
        blocks
    }
}

/// Gives the running application a map; returns its report of the move.
fn send(app: &mut Job, map: &Path, blocks: &[usize]) -> Result<serde_json::Value> {
    let lines = blocks
        .iter()
        .enumerate()
        .map(|(rank, block)| format!("{rank} {block}\n"));
    write_atomic(map, &lines.collect::<String>())?;
    app.line(|v| v["record"] == "migration")
}

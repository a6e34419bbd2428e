//! One trial of the experiment: alone, beside others, and after a remap with each method.

use super::super::lab::{Window, window_lines};
use super::super::map::{Asked, Effort, Goal, search};
use super::experiment::Settings;
use super::figures::{Method, Remap, Trial};
use super::job::{Job, Place};
use super::rivals;
use crate::args::FabricOption;
use crate::lab::counters;
use crate::machine::Machine;
use crate::output::Output;
use anyhow::Result;
use hopbyte_apply::write_atomic;
use hopbyte_fabric::{Allocation, Exchange, LinkId, NodeId, Placement};
use hopbyte_oracle::Metric;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Wire bytes of a payload byte: 1,448 in a frame of 1,514.
const FRAMES: f64 = 1514.0 / 1448.0;
/// Bytes of a message of the competing application.
const COMPETING_BYTES: &str = "8MB";
/// Bytes that it keeps on their way.
const COMPETING_WINDOW: u32 = 262_144;
/// Its ranks on each node, as many connections to the other node's.
const COMPETING_RANKS: u32 = 2;
/// Cells of a block: one, so that what neighbours exchange is large beside what moves in a remap.
pub const CELLS: &str = "1,1,1";
/// Microseconds that ranks sleep between looks at their messages: far more of them than processors.
pub const NAP: &str = "1000";
/// Seconds of counters that a remap is based on.
const READING: Duration = Duration::from_secs(5);
/// Share of the samples in which frames wait that makes a link full.
const FULL: f64 = 0.9;
/// A trial in which the competing application cost less than this share has nothing to give back.
const LEAST_LOSS: f64 = 0.05;
/// Windows of products that a time is the median of.
const WINDOWS: usize = 3;

/// Everything that stays the same over trials.
pub struct Scene<'a> {
    pub place: Place<'a>,
    pub others: Vec<NodeId>,
    pub machine: &'a Machine,
    pub folder: PathBuf,
    pub program: PathBuf,
    /// What the blocks send each other in one product.
    pub exchange: Exchange,
    pub traffic: PathBuf,
    pub products: u64,
    pub competing: usize,
    pub share: f64,
    pub seed: u64,
}

/// The map that the application starts with: the best of a machine that nobody else uses.
struct Start {
    allocation: Allocation,
    placement: Placement,
    blocks: Vec<usize>,
}

impl Scene<'_> {
    pub fn trials(&self, settings: &Settings, out: &mut Output) -> Result<(Vec<Trial>, bool)> {
        let (map, stop) = (self.folder.join("map"), self.folder.join("stop"));
        for path in [&map, &stop] {
            let _ = std::fs::remove_file(path);
        }
        let mut app = self.application(settings, &map, &stop)?;
        let start = self.start()?;
        send(&mut app, &map, &start.blocks)?;
        let begun = Instant::now();
        let mut trials: Vec<Trial> = Vec::new();
        let lost = |t: &Trial| t.remaps.iter().any(|r| r.recovered_ratio.is_some());
        while trials.iter().filter(|t| lost(t)).count() < settings.trials
            && begun.elapsed().as_secs_f64() < settings.budget
        {
            let trial = self.trial(&mut app, &map, &start, trials.len() as u64)?;
            let best = trial
                .remaps
                .iter()
                .min_by(|a, b| a.product_seconds.total_cmp(&b.product_seconds));
            out.talk(format!(
                "trial {}: {:.1} ms alone, {:.1} congested ({} links overloaded), best {}",
                trials.len() + 1,
                1e3 * trial.alone_seconds,
                1e3 * trial.congested_seconds,
                trial.overloaded_links,
                best.map_or(String::new(), |b| format!(
                    "{:.1} with {}",
                    1e3 * b.product_seconds,
                    b.method.words()
                )),
            ));
            trials.push(trial);
        }
        write_atomic(&stop, "")?;
        let total = app.line(|v| v["record"] == "total")?;
        Ok((trials, total["verified"] == true))
    }

    /// The application, which runs until `stop` appears and moves its blocks when `map` changes.
    fn application(&self, settings: &Settings, map: &Path, stop: &Path) -> Result<Job> {
        let products = self.products.to_string();
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
        ]
        .map(str::to_owned);
        let mut app = Job::start(&self.place, &words, &self.folder.join("application.log"))?;
        app.line(|v| v["record"] == "setup")?;
        Ok(app)
    }

    /// The best map of the machine as if nobody else used it.
    fn start(&self) -> Result<Start> {
        let (mapping, allocation) = self.map_by(Goal::WorstLink, Metric::Hops, None)?;
        Ok(Start {
            blocks: self.blocks(&mapping),
            allocation,
            placement: mapping,
        })
    }

    /// Alone and beside others with the static map, after a remap with each method, and with the static map again:
    /// what the machine itself does meanwhile shows at both ends.
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
        let situation = question.situation(self.seed.wrapping_add(1000 + number))?;
        app.catch_up()?;
        let alone_before = app.product_seconds(WINDOWS, self.products)?;
        let mut others = Vec::new();
        for (i, pair) in situation.pairs.iter().enumerate() {
            others.push(self.competitor(pair, i)?);
        }
        for other in &mut others {
            other.line(|_| true)?;
        }
        std::thread::sleep(Duration::from_secs(1));
        app.catch_up()?;
        let congested_before = app.product_seconds(WINDOWS, self.products)?;
        self.read_counters(&start.placement, congested_before)?;
        let mut methods = Method::MAPPED;
        methods.rotate_left(number as usize % Method::MAPPED.len());
        let mut remaps = Vec::new();
        for method in methods {
            let begun = Instant::now();
            let blocks = self.mapping(method)?;
            let mapping_seconds = begun.elapsed().as_secs_f64();
            let moved = send(app, map, &blocks)?;
            remaps.push(Remap {
                method,
                product_seconds: app.product_seconds(WINDOWS, self.products)?,
                recovered_ratio: None,
                mapping_seconds,
                moving_seconds: moved["move_seconds"].as_f64().unwrap_or(0.0),
                moved_blocks: moved["moved_blocks"].as_u64().unwrap_or(0),
            });
        }
        send(app, map, &start.blocks)?;
        let congested_after = app.product_seconds(WINDOWS, self.products)?;
        others.iter().for_each(Job::tell_to_end);
        drop(others);
        app.catch_up()?;
        let alone_after = app.product_seconds(WINDOWS, self.products)?;
        let alone_seconds = 0.5 * (alone_before + alone_after);
        let congested_seconds = 0.5 * (congested_before + congested_after);
        let lost = congested_seconds - alone_seconds;
        if lost > LEAST_LOSS * alone_seconds {
            for remap in &mut remaps {
                remap.recovered_ratio = Some((congested_seconds - remap.product_seconds) / lost);
            }
        }
        Ok(Trial {
            alone_seconds,
            congested_seconds,
            overloaded_links: situation.overloaded_links,
            remaps,
        })
    }

    /// Two nodes that send each other all the time.
    fn competitor(&self, pair: &[NodeId; 2], number: usize) -> Result<Job> {
        let nodes = pair.to_vec();
        let place = Place {
            lab: self.place.lab,
            fabric: self.place.fabric,
            nodes,
            ranks_per_node: COMPETING_RANKS,
            window_bytes: Some(COMPETING_WINDOW),
        };
        let program = self
            .program
            .with_file_name("hopbyte-probe")
            .display()
            .to_string();
        let words = [
            &program,
            "background",
            "--background",
            "pairs",
            "--background-bytes",
            COMPETING_BYTES,
            "--seconds",
            "3000",
            "--nap",
            NAP,
            "--deadline",
            "0",
            "--json",
        ]
        .map(str::to_owned);
        Job::start(
            &place,
            &words,
            &self.folder.join(format!("competing-{number}.log")),
        )
    }

    /// Reads the lab's counters into two files: all that links carry, and what is not the application's.
    fn read_counters(&self, placement: &Placement, product_seconds: f64) -> Result<()> {
        let (fabric, lab) = (&self.machine.fabric, self.place.lab);
        let loads = counters::watch(lab, fabric, READING)?;
        let own = self.own_bytes(placement)?;
        let (window, naming) = (READING.as_secs_f64(), lab.naming());
        let of = |mine: bool| {
            let rows = loads.iter().map(|(&link, load)| {
                let own = own.get(&link).copied().unwrap_or(0.0) * load.seconds / product_seconds;
                let bytes = match mine {
                    true => load.bytes as f64,
                    // Others take all that a full link has, whatever passed of them beside the application.
                    false if load.waiting > FULL => {
                        naming.rate(fabric, link) as f64 / 8.0 * load.seconds
                    }
                    false => load.bytes as f64 - own,
                };
                Window {
                    link,
                    seconds: load.seconds,
                    bytes: bytes.max(0.0),
                    packets: load.packets,
                    waiting: load.waiting,
                }
            });
            window_lines(lab, fabric, window, rows)
        };
        write_atomic(&self.folder.join("links.jsonl"), &of(true))?;
        write_atomic(&self.folder.join("others.jsonl"), &of(false))?;
        Ok(())
    }

    /// Bytes on the wire that one product puts on each link.
    fn own_bytes(&self, placement: &Placement) -> Result<HashMap<LinkId, f64>> {
        let mut bytes = HashMap::new();
        let mut route = Vec::new();
        for (from, message) in self.exchange.iter() {
            route.clear();
            let (a, b) = (placement.node(from), placement.node(message.to));
            let walked = self
                .machine
                .routing
                .route(&self.machine.fabric, a, b, &mut route);
            walked.map_err(|e| anyhow::anyhow!("{}", e.describe(&self.machine.fabric)))?;
            for &link in &route {
                *bytes.entry(link).or_insert(0.0) += message.bytes * FRAMES;
            }
        }
        Ok(bytes)
    }

    /// The block of every rank by one method.
    fn mapping(&self, method: Method) -> Result<Vec<usize>> {
        let (goal, metric, file) = match method {
            Method::WorstLink | Method::None => (Goal::WorstLink, Metric::Hops, "others.jsonl"),
            Method::Hops => (Goal::RouteCost, Metric::Hops, "links.jsonl"),
            Method::Used => (Goal::RouteCost, Metric::Used, "links.jsonl"),
            Method::CreditStall => (Goal::RouteCost, Metric::CreditStall, "links.jsonl"),
        };
        let (placement, _) = self.map_by(goal, metric, Some(self.folder.join(file)))?;
        Ok(self.blocks(&placement))
    }

    /// Asks the mapper as the command line does; the placement and its nodes.
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
            fabric: FabricOption {
                fabric: self.place.lab.machine.fabric.clone(),
                ..FabricOption::default()
            },
            nodes: Some(names.join(",")),
            ranks_per_node: Some(self.place.ranks_per_node),
            background: background.into_iter().collect(),
            objective,
            metric,
            ..Asked::default()
        };
        let question = asked.read(&mut Output::silent())?;
        let effort = Effort {
            seconds: 0.0,
            trials: Some(20_000),
            seed: self.seed,
            threads: 0,
        };
        let mapping = search(&question, &effort, &Output::silent())?;
        Ok((mapping.placement, question.allocation))
    }

    /// Which block every rank gets, ranks being numbered node by node.
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

/// Gives the running application a map; what it says of the move.
fn send(app: &mut Job, map: &Path, blocks: &[usize]) -> Result<serde_json::Value> {
    let lines = blocks
        .iter()
        .enumerate()
        .map(|(rank, block)| format!("{rank} {block}\n"));
    write_atomic(map, &lines.collect::<String>())?;
    app.line(|v| v["record"] == "migration")
}

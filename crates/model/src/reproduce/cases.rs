//! Quantities of expressions.

use super::case::Case;
use super::expression::Value;
use super::row::Row;
use super::tools::Tools;
use super::{machines, remap};
use crate::error::ModelError;
use crate::outcome::ThrottleKind;
use crate::outcome::{LinkOutcome, Outcome};
use crate::question::scenario::{self, Scenario};
use crate::topobw::{self, Measured};
use hopbyte_fabric::NodeId;
use hopbyte_fabric::wire::gemini::{self, Regime, Side};
use hopbyte_fabric::wire::{OneWay, Protocol, Wire};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The cases of a row, with cached results.
pub(super) struct Cases<'a> {
    row: &'a Row,
    tools: &'a Tools<'a>,
    /// Fields that apply to every case, by path, after its own.
    set: Vec<(&'a str, toml::Value)>,
    made: BTreeMap<String, Rc<Case>>,
    outcomes: BTreeMap<String, Rc<Outcome>>,
    measured: BTreeMap<String, Rc<Vec<Vec<Measured>>>>,
}

type Found = Result<Value, ModelError>;

fn wrong(row: &Row, name: &str, found: &dyn ToString, expected: &str) -> ModelError {
    let what = format!("{name}() in row {}", row.id);
    ModelError::out_of_range(what, found, expected)
}

impl<'a> Cases<'a> {
    /// With other values of some fields (`job.workload.ping-pong.bytes`).
    pub(super) fn with(
        row: &'a Row,
        tools: &'a Tools<'a>,
        set: Vec<(&'a str, toml::Value)>,
    ) -> Self {
        Self {
            row,
            tools,
            set,
            made: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            measured: BTreeMap::new(),
        }
    }

    /// The value of a quantity.
    pub(super) fn find(&mut self, name: &str, arguments: &[Value]) -> Found {
        let row = self.row;
        let text = |i: usize| match arguments.get(i) {
            Some(Value::Text(text)) => Ok(text.as_str()),
            _ => Err(wrong(
                row,
                name,
                &"",
                &format!("a word as argument {}", i + 1),
            )),
        };
        let number = |i: usize| match arguments.get(i) {
            Some(Value::Number(n)) => Ok(*n),
            _ => Err(wrong(
                row,
                name,
                &"",
                &format!("a number as argument {}", i + 1),
            )),
        };
        match name {
            "abs" => return Ok(Value::Number(number(0)?.abs())),
            "max" => return Ok(Value::Number(number(0)?.max(number(1)?))),
            "min" => return Ok(Value::Number(number(0)?.min(number(1)?))),
            "phases_hold" => return Ok(Value::Truth(machines::phases_hold(number(0)? as u32))),
            "put" | "get" => return self.transaction(name, text(0)?, number(1)?),
            _ => {}
        }
        let of = text(0)?.to_owned();
        match name {
            "message" => self.message(&of, number(1)?, text(2)?),
            "regime" => self.regime(&of, number(1)?),
            "time" => Ok(Value::Number(self.outcome(&of)?.time_seconds)),
            "throttles" => {
                let outcome = self.outcome(&of)?;
                let events = outcome.throttled.iter();
                let kind = text(1)?;
                let chosen = events.filter(|e| match e.kind {
                    ThrottleKind::Active => kind == "active",
                    ThrottleKind::Auto => kind == "auto",
                });
                Ok(Value::Number(chosen.count() as f64))
            }
            "bound" => Ok(Value::Number(self.outcome(&of)?.bound_seconds)),
            "link" => self.link(&of, text(1)?, text(2)?, text(3)?),
            "bytes_per" => self.bytes_per(&of, text(1)?, text(2)?),
            "topobw" => self.topobw(&of, text(1)?, text(2)?),
            "located" => self.located(&of, text(1)?),
            "topobw_line" => self.topobw_line(&of, text(1)?),
            "leaders" => self.leaders(&of),
            "remapped" => {
                let (case, metric) = (self.case(&of)?, text(1)?);
                let outcome = self.outcome(&of)?;
                let tools = self.tools;
                let seconds = remap::time(&case, tools, &outcome, metric)?;
                Ok(Value::Number(seconds))
            }
            _ => {
                let case = self.case(&of)?;
                match machines::find(name, &case, arguments)? {
                    Some(value) => Ok(value),
                    None => Err(wrong(self.row, name, &name, "a quantity")),
                }
            }
        }
    }

    fn case(&mut self, name: &str) -> Result<Rc<Case>, ModelError> {
        if let Some(known) = self.made.get(name) {
            return Ok(known.clone());
        }
        let mut table = self.row.base.clone();
        match self.row.case.get(name) {
            Some(changes) => merge(&mut table, changes),
            None if name == "base" => {}
            None => return Err(wrong(self.row, "case", &name, "a case of the row")),
        }
        for (path, value) in &self.set {
            put(&mut table, path, value);
        }
        for (key, value) in [
            ("schema", scenario::SCHEMA),
            ("name", &format!("{} {name}", self.row.id)),
        ] {
            table.insert(key.into(), value.into());
        }
        if !table.contains_key("job") {
            let idle = "workload.ping-pong = { bytes = 8.0 }";
            let job = idle.parse::<toml::Table>().unwrap_or_default();
            table.insert("job".into(), job.into());
        }
        let text = toml::to_string(&table).unwrap_or_default();
        let scenario = Scenario::parse(&format!("case {name} of {}", self.row.id), &text)?;
        let (fabric, routing) = scenario.machine()?;
        let case = Rc::new(Case {
            scenario,
            fabric,
            routing,
        });
        self.made.insert(name.into(), case.clone());
        Ok(case)
    }

    fn outcome(&mut self, name: &str) -> Result<Rc<Outcome>, ModelError> {
        if let Some(known) = self.outcomes.get(name) {
            return Ok(known.clone());
        }
        let outcome = Rc::new(self.case(name)?.question()?.answer()?);
        self.outcomes.insert(name.into(), outcome.clone());
        Ok(outcome)
    }

    /// `put(vc0, 64)`: phits of one transaction by virtual channel.
    fn transaction(&self, kind: &str, field: &str, bytes: f64) -> Found {
        let wire = match kind {
            "put" => gemini::put(bytes, 0.0),
            _ => gemini::get(bytes, 0.0),
        };
        self.field(kind, &wire, field)
    }

    /// `message(case, bytes, vc0_phits)`: both ways together; `source_bytes` are the bytes that leave the sender.
    fn message(&mut self, case: &str, bytes: f64, field: &str) -> Found {
        let wire = self.case(case)?.scenario.parameters()?.protocol.wire(bytes);
        self.field("message", &wire, field)
    }

    fn field(&self, name: &str, wire: &Wire, field: &str) -> Found {
        let both = |f: fn(&OneWay) -> f64| f(&wire.forward) + f(&wire.backward);
        Ok(Value::Number(match field {
            "vc0_phits" => both(|w| w.vc0_phits),
            "vc1_phits" => both(|w| w.vc1_phits),
            "vc0_packets" => both(|w| w.vc0_packets),
            "vc1_packets" => both(|w| w.vc1_packets),
            "packets" => both(OneWay::packets),
            "bytes" => both(OneWay::bytes),
            "source_bytes" => wire.forward.bytes(),
            _ => {
                return Err(wrong(
                    self.row,
                    name,
                    &field,
                    "vc0_phits, bytes, source_bytes …",
                ));
            }
        }))
    }

    /// The protocol for a message size: the kind of its data transactions.
    fn regime(&mut self, case: &str, bytes: f64) -> Found {
        let Protocol::Gemini(mpi) = self.case(case)?.scenario.parameters()?.protocol else {
            return Err(wrong(self.row, "regime", &case, "a case on Gemini"));
        };
        let data = mpi.batches(bytes).into_iter().find(|b| b.data);
        let by_sender = data.is_some_and(|b| b.by == Side::Sender);
        let word = match mpi.regime(bytes) {
            Regime::SinglePut => "single-put",
            Regime::MultiPut => "multi-put",
            Regime::Get if !by_sender => "get",
            Regime::Get => "wrong",
            Regime::BlockPut => "block-put",
        };
        Ok(Value::Text(word.into()))
    }

    /// `link(case, 'X cable', used, max)`: over links of a kind, of a dimension (`X`) or direction (`X+`), host links into
    /// the network (`in`) or out of it (`out`).
    fn link(&mut self, case: &str, which: &str, field: &str, how: &str) -> Found {
        let outcome = self.outcome(case)?;
        let chosen = |l: &&LinkOutcome| match which {
            "all" => true,
            "in" | "out" => l.kind == "host" && l.link.ends_with(which),
            _ if which.len() == 1 => l.direction.as_ref().is_some_and(|d| d.starts_with(which)),
            _ => l.kind == which || l.direction.as_deref() == Some(which),
        };
        let value = |l: &LinkOutcome| match field {
            "used" => Some(l.used_ratio),
            "bytes" => Some(l.bytes),
            "input_stall" => l.input_stall_ratio,
            "credit_stall" => l.credit_stall_ratio,
            "vc0_packets" => Some(l.load.vc0_packets),
            "vc1_packets" => Some(l.load.vc1_packets),
            "vc1_per_packet" => Some(l.load.vc1_phits / l.load.vc1_packets),
            "vc0_per_packet" => Some(l.load.vc0_phits / l.load.vc0_packets),
            "packet_ratio" => Some(l.load.vc1_packets / l.load.vc0_packets),
            _ => None,
        };
        let values: Vec<f64> = outcome
            .links
            .iter()
            .filter(chosen)
            .filter_map(value)
            .collect();
        if values.is_empty() {
            return Err(wrong(
                self.row,
                "link",
                &format!("{which} {field}"),
                "links with that value",
            ));
        }
        let sum: f64 = values.iter().sum();
        Ok(Value::Number(match how {
            "max" => values.iter().copied().fold(f64::MIN, f64::max),
            "min" => values.iter().copied().fold(f64::MAX, f64::min),
            "sum" => sum,
            _ => sum / values.len() as f64,
        }))
    }

    /// `bytes_per(case, router, mean)`: bytes of data that a router or a node of the job sends to others.
    fn bytes_per(&mut self, case: &str, unit: &str, how: &str) -> Found {
        let case = self.case(case)?;
        let placement = case.question()?.placement;
        let exchange = case.scenario.job.workload.exchange(None)?;
        let of = |n: NodeId| match unit {
            "router" => case.fabric.node(n).router.0,
            _ => n.0,
        };
        let mut sent: BTreeMap<u32, f64> = BTreeMap::new();
        for (from, message) in exchange.iter() {
            let (a, b) = (of(placement.node(from)), of(placement.node(message.to)));
            let bytes = sent.entry(a).or_default();
            if a != b {
                *bytes += message.bytes;
            }
        }
        let most = sent.values().copied().fold(0.0, f64::max);
        let mean = sent.values().sum::<f64>() / sent.len().max(1) as f64;
        Ok(Value::Number(if how == "max" { most } else { mean }))
    }

    /// Routers on which the job has nodes: one leader each.
    fn leaders(&mut self, case: &str) -> Found {
        let case = self.case(case)?;
        let placement = case.question()?.placement;
        let nodes = placement.slots().iter().map(|s| s.node);
        let routers: BTreeSet<_> = nodes.map(|n| case.fabric.node(n).router).collect();
        Ok(Value::Number(routers.len() as f64))
    }

    /// All pairs of TopoBW on the nodes of the case's job.
    fn pairs(&mut self, name: &str) -> Result<Rc<Vec<Vec<Measured>>>, ModelError> {
        if let Some(known) = self.measured.get(name) {
            return Ok(known.clone());
        }
        let case = self.case(name)?;
        let phases = case.question()?.topobw(TOPOBW_BYTES)?;
        let all: Vec<Vec<Measured>> = phases.into_iter().map(|(_, pairs)| pairs).collect();
        let all = Rc::new(all);
        self.measured.insert(name.into(), all.clone());
        Ok(all)
    }

    /// `topobw(case, 'X cable', exclusive)`: median in MB/s over pairs of a kind or dimension;
    /// `mean` and `least` over all of them.
    fn topobw(&mut self, case: &str, which: &str, sharing: &str) -> Found {
        let all = self.pairs(case)?;
        let chosen = |m: &&Measured| {
            let kind = if which.len() == 1 {
                m.pair.kind.starts_with(which)
            } else {
                m.pair.kind == which
            };
            kind && match sharing {
                "exclusive" => !m.pair.shared,
                "shared" => m.pair.shared,
                _ => true,
            }
        };
        let mut rates: Vec<f64> = all
            .iter()
            .flatten()
            .filter(chosen)
            .map(|m| m.bytes_per_s)
            .collect();
        rates.sort_by(f64::total_cmp);
        let Some(&median) = rates.get(rates.len() / 2) else {
            return Err(wrong(self.row, "topobw", &which, "pairs of that kind"));
        };
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let rate = match sharing {
            "mean" => mean,
            "least" => rates[0],
            _ => median,
        };
        Ok(Value::Number(rate / 1e6))
    }

    /// Result of analysing TopoBW's values: `located(case, components)` the components that explain slow
    /// pairs; `located(case, pairs)` the slow pairs without such a component, a pair on one router as
    /// `router c0-0c0s0g0`.
    fn located(&mut self, name: &str, which: &str) -> Found {
        let all = self.pairs(name)?;
        let case = self.case(name)?;
        let found = (self.tools.locate)(&case.fabric, &case.routing, &all);
        let found =
            found.map_err(|e| wrong(self.row, "located", &e, "an analysis of the pairs"))?;
        let pair = |&(a, b): &(NodeId, NodeId)| {
            let (from, to) = (case.fabric.node(a), case.fabric.node(b));
            if from.router == to.router {
                format!("router {}", case.fabric.router(from.router).name)
            } else {
                format!("pair {} {}", from.name, to.name)
            }
        };
        let mut names: Vec<String> = match which {
            "components" => found.components,
            "pairs" => found.unexplained.iter().map(pair).collect(),
            _ => return Err(wrong(self.row, "located", &which, "components or pairs")),
        };
        names.sort();
        Ok(Value::Text(names.join(", ")))
    }

    /// Whether TopoBW prints a line for a pair that begins with `text`.
    fn topobw_line(&mut self, name: &str, text: &str) -> Found {
        let all = self.pairs(name)?;
        let case = self.case(name)?;
        let line = |m: &Measured| topobw::line(&case.fabric, m, TOPOBW_BYTES);
        Ok(Value::Truth(
            all.iter().flatten().any(|m| line(m).starts_with(text)),
        ))
    }
}

/// Sets the field at a path and creates missing tables.
fn put(table: &mut toml::Table, path: &str, value: &toml::Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.into(), value.clone());
        }
        Some((first, rest)) => {
            let inner = table
                .entry(first)
                .or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if let toml::Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// Message size of TopoBW's measurement, large enough for the plateau.
const TOPOBW_BYTES: f64 = 64e6;

fn merge(table: &mut toml::Table, changes: &toml::Table) {
    for (key, value) in changes {
        match (table.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) if key != "workload" => {
                merge(old, new);
            }
            _ => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
}

//! Requests to a running oracle and their answers, each computed from one snapshot.

use crate::http::{self, Needs, Request};
use crate::jobs::Attributor;
use crate::ledger::Ledger;
use crate::source::{Fresh, Sink};
use hopbyte_collect::export::openmetrics;
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_job::Machine;
use hopbyte_job::costs::{Asked, Pair};
use hopbyte_observe::oracle::{Ask, COLUMNS, MOST_PAIRS, Place, SCHEMA, State};
use hopbyte_oracle::{Aggregate, Metric, Over, View};
use serde::{Serialize, Serializer};
use std::sync::{Arc, PoisonError, RwLock};

/// The machine that is served, with its current view.
pub struct Desk<'a> {
    machine: &'a Machine,
    fingerprint: String,
    now: RwLock<Now<'a>>,
    ledger: Ledger<'a>,
}

/// The current view with its source.
struct Now<'a> {
    view: Arc<View<'a>>,
    source: String,
    rows: (usize, usize),
    error: Option<String>,
}

/// An answer: a line, and packed floats after it.
#[derive(Default)]
pub struct Answered {
    /// JSON without the newline.
    pub line: Vec<u8>,
    /// Packed costs.
    pub packed: Vec<f32>,
    /// Whether it is a refusal.
    pub refused: bool,
}

/// Fields of all answers.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
struct Line<'a> {
    schema: &'static str,
    version: u64,
    time_seconds: Option<f64>,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What<'a> {
    Pair {
        #[serde(flatten)]
        asked: Asked,
        #[serde(flatten)]
        pair: Pair,
    },
    List {
        #[serde(flatten)]
        asked: Asked,
        #[serde(flatten)]
        list: List,
    },
    Names {
        names: Vec<&'a str>,
    },
    State {
        state: Option<State>,
        #[serde(skip_serializing_if = "Option::is_none")]
        packed: Option<usize>,
    },
    Status(Box<Status<'a>>),
    Error {
        error: String,
    },
}

/// A list or an allocation.
#[derive(Serialize)]
struct List {
    /// Rows and columns of an allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<usize>,
    /// `null`: not measured, or no route.
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<Costs>,
    /// Number of packed floats after the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    packed: Option<usize>,
    unknown: usize,
    /// Indices of pairs without a route.
    no_route: Vec<usize>,
}

/// Costs as numbers, `null` if not finite; written without a copy.
struct Costs(Vec<f32>);

impl Serialize for Costs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|c| c.is_finite().then_some(c)))
    }
}

/// Why a request has no answer.
enum Stop {
    /// It is refused.
    Refused(String),
    /// Its answer takes more bytes than granted.
    Needs(Needs),
}

impl From<String> for Stop {
    fn from(error: String) -> Self {
        Self::Refused(error)
    }
}

#[derive(Serialize)]
struct Status<'a> {
    hopbyte: &'static str,
    fabric: &'a str,
    fingerprint: String,
    routers: usize,
    nodes: usize,
    links: usize,
    source: String,
    matched: usize,
    unmatched: usize,
    coverage: Vec<Known>,
    error: Option<String>,
}

/// Share of the hops with a known value of a metric.
#[derive(Serialize)]
struct Known {
    metric: Metric,
    coverage: f64,
}

/// Maximum number of pairs without a route listed in an answer.
const MOST_LISTED: usize = 1000;
/// Bytes in memory, at most, for one cost of an answer while it is written: packed, as JSON, and for a node's name.
/// JSON grows by doubling: old text, new text and the value.
const PACKED_BYTES: usize = 16;
const JSON_BYTES: usize = 40;
const NAME_BYTES: usize = 3 * 64;

impl<'a> Desk<'a> {
    /// A machine without readings.
    pub fn new(machine: &'a Machine, source: &str) -> Self {
        let view = View::new(&machine.fabric, &machine.routing, None, 0, None);
        Self {
            machine,
            fingerprint: machine.fabric.fingerprint(),
            now: RwLock::new(Now {
                view: Arc::new(view),
                source: source.into(),
                rows: (0, 0),
                error: None,
            }),
            ledger: Ledger::new(machine, None),
        }
    }

    /// Counts bytes by the jobs of a list too, if [`Desk::attribute`] runs.
    #[must_use]
    pub fn with_jobs(mut self, jobs: Option<Attributor>) -> Self {
        self.ledger = Ledger::new(self.machine, jobs);
        self
    }

    /// Attributes bytes to jobs, without end; `talk` hears of lists that cannot be read. Returns if there is no list.
    pub fn attribute(&self, talk: &dyn Fn(&str)) {
        self.ledger.attribute(talk);
    }

    /// The current view.
    pub fn view(&self) -> Arc<View<'a>> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        now.view.clone()
    }

    /// Answers a line of JSON and the packed node numbers after it, if the answer takes at most `granted` bytes.
    ///
    /// # Errors
    /// The bytes that it takes.
    pub fn answer(&self, line: &[u8], packed: &[u8], granted: usize) -> Result<Answered, Needs> {
        match Ask::read(line) {
            Ok(ask) => self.ask(&ask, packed, granted),
            Err(error) => Ok(refusal(&self.view(), error)),
        }
    }

    /// Answers a request, if the answer takes at most `granted` bytes.
    ///
    /// # Errors
    /// The bytes that it takes.
    pub fn ask(&self, ask: &Ask, packed: &[u8], granted: usize) -> Result<Answered, Needs> {
        let view = self.view();
        let mut answered = match self.respond(&view, ask, packed, granted) {
            Ok(answered) => answered,
            Err(Stop::Refused(error)) => refusal(&view, error),
            Err(Stop::Needs(needs)) => return Err(needs),
        };
        if let Some(id) = ask.id {
            answered.number(id);
        }
        Ok(answered)
    }

    fn respond(
        &self,
        view: &View<'a>,
        ask: &Ask,
        packed: &[u8],
        granted: usize,
    ) -> Result<Answered, Stop> {
        let needs = needs(view.fabric(), ask);
        if needs > granted {
            return Err(Stop::Needs(Needs(needs)));
        }
        let asked = Asked::read(ask)?;
        let fabric = view.fabric();
        let costs = || view.costs(asked.metric, asked.aggregate, asked.over);
        let what = match ask {
            Ask {
                from: Some(from),
                to: Some(to),
                ..
            } => {
                let pair = (node(fabric, from)?, node(fabric, to)?);
                What::Pair {
                    asked,
                    pair: Pair::of(fabric, costs(), pair),
                }
            }
            Ask {
                packed: Some(n), ..
            } => {
                let pairs = unpack(fabric, *n, packed)?;
                return Ok(list(view, asked, costs().many(&pairs), None, true)?);
            }
            Ask {
                pairs: Some(pairs), ..
            } => {
                let pairs = self.named(pairs)?;
                return Ok(list(view, asked, costs().many(&pairs), None, ask.pack)?);
            }
            Ask {
                among: Some(nodes), ..
            } => {
                if nodes.len().saturating_mul(nodes.len()) > MOST_PAIRS {
                    let n = nodes.len();
                    return Err(format!("{n} nodes, the maximum is {MOST_PAIRS} pairs").into());
                }
                let nodes: Result<Vec<_>, _> = nodes.iter().map(|n| node(fabric, n)).collect();
                let matrix = costs().among(&nodes?).map_err(|e| e.to_string())?;
                let size = Some(matrix.size());
                return Ok(list(view, asked, matrix.into_vec(), size, ask.pack)?);
            }
            Ask { from: Some(_), .. } | Ask { to: Some(_), .. } => {
                return Err(Stop::Refused(
                    "only one of from and to, expected both".into(),
                ));
            }
            Ask { names: true, .. } => What::Names {
                names: fabric.nodes().iter().map(|n| n.name.as_str()).collect(),
            },
            Ask { links: true, .. } => return Ok(self.links(view, ask.pack)?),
            _ => What::Status(Box::new(self.status(view))),
        };
        Ok(said(view, what, Vec::new())?)
    }

    /// The state of every link.
    fn links(&self, view: &View<'a>, pack: bool) -> Result<Answered, String> {
        let columns = view.state().map_or(Vec::new(), State::columns_of);
        let links = view.fabric().links().len();
        let known = |c: &f32| (!c.is_nan()).then_some(*c);
        let rows = columns.chunks(links.max(1)).filter(|_| !pack);
        let state = view.state().map(|state| State {
            fingerprint: self.fingerprint.clone(),
            links,
            window_seconds: state.window_seconds,
            columns: rows.map(|row| row.iter().map(known).collect()).collect(),
        });
        let packed = state.is_some() && pack;
        let what = What::State {
            state,
            packed: packed.then_some(columns.len()),
        };
        said(view, what, if packed { columns } else { Vec::new() })
    }

    fn named(&self, pairs: &[(Place, Place)]) -> Result<Vec<(NodeId, NodeId)>, String> {
        if pairs.len() > MOST_PAIRS {
            return Err(format!(
                "{} pairs, the maximum is {MOST_PAIRS}",
                pairs.len()
            ));
        }
        let fabric = &self.machine.fabric;
        let pair = |(a, b): &(Place, Place)| Ok((node(fabric, a)?, node(fabric, b)?));
        pairs.iter().map(pair).collect()
    }

    fn status(&self, view: &View<'a>) -> Status<'a> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let (source, rows, error) = (now.source.clone(), now.rows, now.error.clone());
        drop(now);
        let fabric = view.fabric();
        let known = |metric| Known {
            metric,
            coverage: view.costs(metric, Aggregate::Max, Over::Request).coverage(),
        };
        Status {
            hopbyte: env!("CARGO_PKG_VERSION"),
            fabric: fabric.source(),
            fingerprint: self.fingerprint.clone(),
            routers: fabric.routers().len(),
            nodes: fabric.nodes().len(),
            links: fabric.links().len(),
            source,
            matched: rows.0,
            unmatched: rows.1,
            coverage: Metric::ALL.map(known).into(),
            error,
        }
    }

    /// Answers an HTTP request.
    ///
    /// # Errors
    /// The bytes that the answer takes, if they are more than granted.
    pub fn http(&self, request: &Request) -> Result<http::Answer, Needs> {
        let granted = request.granted;
        if request.body.is_none() && request.name == "metrics" {
            return self.metrics(granted);
        }
        let get = |ask: &Ask| self.ask(ask, &[], granted);
        let answered = match (&request.body, request.name.as_str()) {
            (Some(body), "ask") => {
                let end = body.iter().position(|&b| b == b'\n').unwrap_or(body.len());
                let (line, rest) = body.split_at(end);
                self.answer(line, rest.get(1..).unwrap_or_default(), granted)
            }
            (None, "" | "status") => get(&Ask::default()),
            (None, "pair") => get(&pair_asked(request)),
            (None, "links") => get(&Ask {
                links: true,
                ..Ask::default()
            }),
            (None, "names") => get(&Ask {
                names: true,
                ..Ask::default()
            }),
            _ => {
                let text = "expected GET /status, /pair?from=A&to=B, /links, /names and /metrics, and POST /ask";
                return Ok(http::Answer::words(404, text));
            }
        }?;
        let kind = match answered.packed.is_empty() {
            true => "application/json",
            false => "application/octet-stream",
        };
        Ok(http::Answer {
            status: if answered.refused { 400 } else { 200 },
            kind,
            body: answered.bytes(),
        })
    }

    /// Metrics of every link for Prometheus.
    fn metrics(&self, granted: usize) -> Result<http::Answer, Needs> {
        let view = self.view();
        let (needs, asked) = self.ledger.needs(view.state());
        if needs > granted {
            return Err(Needs(asked));
        }
        let mut text = self.ledger.text(view.state(), view.version());
        text.push_str(openmetrics::END);
        Ok(http::Answer {
            status: 200,
            kind: openmetrics::CONTENT_TYPE,
            body: text.into_bytes(),
        })
    }
}

impl Sink for Desk<'_> {
    /// Replaces the view. Answers in progress continue with the previous one.
    fn publish(&self, fresh: Fresh) {
        self.ledger.take(&fresh);
        let (fabric, routing) = (&self.machine.fabric, &self.machine.routing);
        let (version, time) = (fresh.version, fresh.time_seconds);
        let view = Arc::new(View::new(fabric, routing, Some(fresh.state), version, time));
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut now.view, view);
        now.rows = fresh.rows;
        now.error = None;
        // Dropped outside the lock: freeing a view takes time.
        drop(now);
        drop(before);
    }

    fn fail(&self, error: &str) {
        self.ledger.fail();
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        now.error = Some(error.into());
    }

    fn version(&self) -> u64 {
        self.view().version()
    }
}

impl Answered {
    /// Adds the request's number as the first field.
    fn number(&mut self, id: u64) {
        let fields = self.line.split_off(1);
        self.line
            .extend_from_slice(format!("\"id\":{id},").as_bytes());
        self.line.extend(fields);
    }

    /// The bytes of the answer on a socket.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = self.line;
        bytes.push(b'\n');
        let line = bytes.len();
        bytes.reserve_exact(4 * self.packed.len());
        bytes.resize(line + 4 * self.packed.len(), 0);
        for (room, cost) in bytes[line..].chunks_exact_mut(4).zip(&self.packed) {
            room.copy_from_slice(&cost.to_le_bytes());
        }
        bytes
    }
}

fn refusal(view: &View, error: String) -> Answered {
    let refused = said(view, What::Error { error }, Vec::new());
    Answered {
        refused: true,
        ..refused.unwrap_or_default()
    }
}

fn said(view: &View, what: What, packed: Vec<f32>) -> Result<Answered, String> {
    let line = Line {
        schema: SCHEMA,
        version: view.version(),
        time_seconds: view.time_seconds(),
        what,
    };
    Ok(Answered {
        line: serde_json::to_vec(&line).map_err(|e| e.to_string())?,
        packed,
        refused: false,
    })
}

fn list(
    view: &View,
    asked: Asked,
    costs: Vec<f32>,
    size: Option<usize>,
    pack: bool,
) -> Result<Answered, String> {
    let infinite = costs.iter().enumerate().filter(|(_, c)| c.is_infinite());
    let list = List {
        size,
        unknown: costs.iter().filter(|c| c.is_nan()).count(),
        no_route: infinite.map(|(i, _)| i).take(MOST_LISTED).collect(),
        packed: pack.then_some(costs.len()),
        costs: None,
    };
    let (text, packed) = if pack {
        (None, costs)
    } else {
        (Some(Costs(costs)), Vec::new())
    };
    let list = List {
        costs: text,
        ..list
    };
    said(view, What::List { asked, list }, packed)
}

/// Bytes in memory, at most, for the answer to a request.
fn needs(fabric: &Fabric, ask: &Ask) -> usize {
    let each = if ask.pack || ask.packed.is_some() {
        PACKED_BYTES
    } else {
        JSON_BYTES
    };
    let pairs = match ask {
        Ask {
            packed: Some(n), ..
        } => *n,
        Ask {
            pairs: Some(pairs), ..
        } => pairs.len(),
        Ask {
            among: Some(nodes), ..
        } => nodes.len().saturating_mul(nodes.len()),
        _ if ask.names => return fabric.nodes().len() * NAME_BYTES,
        _ if ask.links => COLUMNS * fabric.links().len(),
        _ => 0,
    };
    // Beyond the maximum the request is refused.
    pairs.min(MOST_PAIRS).saturating_mul(each)
}

fn node(fabric: &Fabric, place: &Place) -> Result<NodeId, String> {
    match place {
        Place::Number(n) if (*n as usize) < fabric.nodes().len() => Ok(NodeId(*n)),
        Place::Number(n) => Err(format!("node {n} of {}", fabric.nodes().len())),
        Place::Name(name) => fabric.find_node(name).map_err(|e| e.to_string()),
    }
}

fn unpack(fabric: &Fabric, n: usize, packed: &[u8]) -> Result<Vec<(NodeId, NodeId)>, String> {
    if n > MOST_PAIRS {
        return Err(format!("{n} pairs, the maximum is {MOST_PAIRS}"));
    }
    if packed.len() != 8 * n {
        return Err(format!(
            "{} bytes after the line, expected {}",
            packed.len(),
            8 * n
        ));
    }
    let nodes = fabric.nodes().len() as u32;
    let number = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let mut pairs = Vec::with_capacity(n);
    for pair in packed.chunks_exact(8) {
        let (from, to) = (number(pair), number(&pair[4..]));
        if from.max(to) >= nodes {
            return Err(format!("node {} of {nodes}", from.max(to)));
        }
        pairs.push((NodeId(from), NodeId(to)));
    }
    Ok(pairs)
}

/// `GET /pair?from=A&to=B&metric=…`.
fn pair_asked(request: &Request) -> Ask {
    let value = |key: &str| request.value(key).map(decoded);
    Ask {
        metric: value("metric"),
        aggregate: value("aggregate"),
        over: value("over"),
        from: value("from").map(Place::Name),
        to: value("to").map(Place::Name),
        ..Ask::default()
    }
}

/// Decodes `+` and `%20` in a query value.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|h| std::str::from_utf8(h).ok());
        let code = hex.and_then(|h| u8::from_str_radix(h, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &tail[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            (&other, _) => bytes.push(other),
        }
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_query_are_decoded() {
        assert_eq!(decoded("miriel063%20qib0+x%2"), "miriel063 qib0 x%2");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%e4%c3%a4"), "\u{fffd}ä");
    }
}

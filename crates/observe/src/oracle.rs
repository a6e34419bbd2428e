//! Client of a running oracle, and the requests it accepts.
//!
//! A request is a line of JSON ([`Ask`]), an answer another: over a Unix socket one after the other, over HTTP one
//! per `POST /ask`. Long lists are packed: a request with `"packed": N` is followed by N pairs of 32-bit node
//! numbers, an answer with `"packed": N` by N 32-bit floats (not-a-number: not measured, infinite: no route), both
//! little endian. All values of one answer come from one snapshot, identified by `version` and `time_seconds`.
//!
//! A request may carry a number (`"id"`), which its answer repeats. The client numbers its requests and takes only the
//! answer with the number of its question. After an error, a timeout included, it closes the connection, since the
//! answer may still come; the next request connects again, so a handle survives a restart of the oracle.

use crate::ObserveError;
use crate::address::is_address;
use crate::http::Client;
use crate::secret;
use hopbyte_fabric::{Fabric, InputError, LinkState};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum length of a request line, in bytes.
pub const LONGEST_LINE: usize = 32 << 20;
/// Maximum number of pairs in one request.
pub const MOST_PAIRS: usize = 4 << 20;
/// Schema of answers.
pub const SCHEMA: &str = "hopbyte.oracle/1";
/// Maximum length of an answer that the client accepts, in bytes.
const LONGEST_ANSWER: u64 = 512 << 20;
/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A node by name, or by its position among all nodes of the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Place {
    /// Position in the list that `{"names": true}` returns.
    Number(u32),
    /// Name, host or number of a Cray node, as on the command line.
    Name(String),
}

/// A request. Without any of its parts it requests the status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Number that the answer repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Metric of a link (default hops).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Aggregate of a route's links (default sum).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<String>,
    /// Routes that count (default request).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// One pair: the sending node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Place>,
    /// One pair: the receiving node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Place>,
    /// A list of pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Vec<(Place, Place)>>,
    /// All pairs among nodes, row by row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub among: Option<Vec<Place>>,
    /// Number of pairs of node numbers that follow the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packed: Option<usize>,
    /// Whether the answer to a list or an allocation is packed.
    #[serde(skip_serializing_if = "is_false")]
    pub pack: bool,
    /// Requests the state of every link.
    #[serde(skip_serializing_if = "is_false")]
    pub links: bool,
    /// Requests the names of all nodes.
    #[serde(skip_serializing_if = "is_false")]
    pub names: bool,
}

impl Ask {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is not a valid request; the text describes the error.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|e| e.to_string())
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Columns of a transmitted state: all that metrics of links are made of, and the coverage.
pub const COLUMNS: usize = 9;

/// State of every link: with `"pack": true` the columns follow the answer, one after the other.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct State {
    /// [`Fabric::fingerprint`] of the machine.
    pub fingerprint: String,
    /// Number of links of the machine.
    pub links: usize,
    /// Length of the window.
    pub window_seconds: Option<f64>,
    /// By column and link number, `null` if not measured; empty if the columns follow the line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Vec<Option<f32>>>,
}

impl State {
    /// The columns of a state, one after the other; not-a-number if not measured.
    pub fn columns_of(state: &LinkState) -> Vec<f32> {
        let columns = [
            state.received_bytes.as_slice(),
            state.used_ratio.as_slice(),
            state.input_stall_ratio.as_slice(),
            state.credit_stall_ratio.as_slice(),
            state.input_stall_seconds.as_slice(),
            state.credit_stall_seconds.as_slice(),
            state.packets.as_slice(),
            state.errors.as_slice(),
            state.coverage.as_slice(),
        ];
        let columns: [&[f64]; COLUMNS] = columns;
        columns.into_iter().flatten().map(|&v| v as f32).collect()
    }

    /// The state of a machine from packed columns.
    pub fn link_state(&self, fabric: &Fabric, packed: &[f32]) -> Result<LinkState, InputError> {
        let links = fabric.links().len();
        if self.links != links || packed.len() != COLUMNS * links {
            return Err(self.other_machine(fabric));
        }
        let mut state = LinkState::unknown(fabric);
        state.window_seconds = self.window_seconds;
        for link in fabric.link_ids() {
            let value = |column: usize| {
                let value = f64::from(packed[column * links + link.index()]);
                (value >= 0.0 && value.is_finite()).then_some(value)
            };
            state.received_bytes.set(link, value(0));
            state.used_ratio.set(link, value(1));
            state.input_stall_ratio.set(link, value(2));
            state.credit_stall_ratio.set(link, value(3));
            state.input_stall_seconds.set(link, value(4));
            state.credit_stall_seconds.set(link, value(5));
            state.packets.set(link, value(6));
            state.errors.set(link, value(7));
            state.coverage[link.index()] = value(8).unwrap_or(0.0).min(1.0);
        }
        Ok(state)
    }

    fn other_machine(&self, fabric: &Fabric) -> InputError {
        let found = format!("{} links of another machine", self.links);
        let expected = format!("the {} links of {}", fabric.links().len(), fabric.source());
        InputError::new("oracle", found, expected).hint("give the fabric that the oracle serves")
    }
}

/// The parts of an answer that programs need; parts that were not requested are missing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// Number of the request.
    pub id: Option<u64>,
    /// Error of the request.
    pub error: Option<String>,
    /// Version of the snapshot that all values come from; 0 before the first.
    pub version: u64,
    /// Time of the counters (Unix time).
    pub time_seconds: Option<f64>,
    /// Cost of one pair, if the measured links determine it.
    pub cost: Option<f64>,
    /// Lower bound of the cost.
    pub lower: Option<f64>,
    /// Reason why a pair has no route.
    pub unroutable: Option<String>,
    /// Costs of a list or an allocation.
    pub costs: Option<Vec<Option<f64>>>,
    /// Number of floats that follow the line.
    pub packed: Option<usize>,
    /// State of every link.
    pub state: Option<State>,
    /// Names of all nodes.
    pub names: Option<Vec<String>>,
}

impl Reply {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is not a valid answer; the text describes the error.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|e| e.to_string())
    }
}

/// Environment variable with the file of the token that an oracle requires: in an address it would be kept in
/// histories and lists of processes.
pub const TOKEN_FILE: &str = "HOPBYTE_TOKEN_FILE";

/// A running oracle, connected on demand.
#[derive(Debug)]
pub struct Oracle {
    address: String,
    way: Way,
    patience: Duration,
    /// Number of the last request.
    id: u64,
    /// Fingerprint of the machine of the last request.
    machine: Option<String>,
}

#[derive(Debug)]
enum Way {
    Socket {
        path: String,
        /// Without a connection after an error.
        stream: Option<BufReader<Timed>>,
    },
    Http {
        client: Client,
        url: String,
    },
}

impl Oracle {
    /// Connects to `http://HOST:PORT`, `https://…` or `HOST:PORT`, with the token in the file that [`TOKEN_FILE`] names
    /// if one is required, or to the path of a Unix socket.
    ///
    /// # Errors
    /// No oracle at the address, or not an address.
    pub fn connect(address: &str) -> Result<Self, ObserveError> {
        Self::connect_with(address, None)
    }

    /// The same with the file of the token.
    ///
    /// # Errors
    /// As there.
    pub fn connect_with(address: &str, token: Option<&Path>) -> Result<Self, ObserveError> {
        let is_plain = !Path::new(address).exists() && is_address(address);
        let address = match is_plain {
            true => &format!("http://{address}"),
            false => address,
        };
        let way = match address.split_once("://") {
            Some(_) => {
                // What precedes an @ may be a secret too; neither is repeated.
                let shown = address.split(['?', '@']).next().unwrap_or_default();
                let host = match shown.len() < address.len() {
                    true if address.contains('@') => "an address with a name or secret before @",
                    _ => shown,
                };
                if !Client::takes(address) || shown.len() < address.len() {
                    let expected = "http://HOST:PORT or the path of a socket";
                    let hint = format!("a token is read from the file that {TOKEN_FILE} names");
                    return Err(InputError::new("oracle", host, expected).hint(hint).into());
                }
                let named = || std::env::var_os(TOKEN_FILE).map(PathBuf::from);
                let file = token.map(Path::to_owned).or_else(named);
                let tokens = file.as_deref().map(secret::bearers).transpose();
                let tokens = tokens.map_err(|e| refused(address, e))?.unwrap_or_default();
                let client = Client::new(PATIENCE, LONGEST_ANSWER);
                Way::Http {
                    client: client.with_bearer(tokens.first().map(String::as_str)),
                    url: format!("{}/ask", host.trim_end_matches('/')),
                }
            }
            None => {
                let path = address.strip_prefix("unix:").unwrap_or(address);
                let stream = Timed::connect(path).map_err(|e| refused(address, e))?;
                Way::Socket {
                    path: path.to_owned(),
                    stream: Some(stream),
                }
            }
        };
        let address = address.split('?').next().unwrap_or_default().to_owned();
        Ok(Self {
            address,
            way,
            patience: PATIENCE,
            id: 0,
            machine: None,
        })
    }

    /// Sets the timeout of a request with its answer (default 10 s).
    pub fn set_timeout(&mut self, patience: Duration) {
        self.patience = patience;
        if let Way::Http { client, .. } = &mut self.way {
            *client = client.with_patience(patience);
        }
    }

    /// The address without its token.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request; `pairs` are those that [`Ask::packed`] counts. Returns the answer and its packed costs.
    ///
    /// # Errors
    /// No connection, no answer within the timeout, not an answer to this request, or the oracle returned an error.
    pub fn ask(
        &mut self,
        ask: &Ask,
        pairs: &[(u32, u32)],
    ) -> Result<(Reply, Vec<f32>), ObserveError> {
        self.id += 1;
        let ask = Ask {
            id: Some(self.id),
            ..ask.clone()
        };
        let mut question = serde_json::to_vec(&ask).map_err(|e| self.wrong(&e.to_string()))?;
        question.push(b'\n');
        let line = question.len();
        question.resize(line + 8 * pairs.len(), 0);
        for (room, (from, to)) in question[line..].chunks_exact_mut(8).zip(pairs) {
            room[..4].copy_from_slice(&from.to_le_bytes());
            room[4..].copy_from_slice(&to.to_le_bytes());
        }
        let exchanged = match &mut self.way {
            Way::Socket { path, stream } => over_socket(path, stream, &question, self.patience),
            Way::Http { client, url } => over_http(client, url, &question),
        };
        let (line, packed) =
            exchanged.map_err(|e| refused(&self.address, unanswered(e, self.patience)))?;
        let reply = Reply::read(&line).map_err(|e| self.wrong(&e));
        if !matches!(&reply, Ok(reply) if reply.id == ask.id)
            && let Way::Socket { stream, .. } = &mut self.way
        {
            *stream = None;
        }
        let reply = reply?;
        if let Some(error) = &reply.error {
            return Err(self.wrong(error));
        }
        if reply.id != ask.id {
            let found = reply.id.map_or("no number".to_owned(), |id| id.to_string());
            let found = format!("an answer to request {found}");
            let expected = format!("one to request {}", self.id);
            let error = InputError::new(format!("oracle {}", self.address), found, expected);
            return Err(error
                .hint("is it an oracle of this version of hopbyte?")
                .into());
        }
        let floats = packed.chunks_exact(4);
        let costs = floats.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        Ok((reply, costs.collect()))
    }

    /// State of every link, with the version and time of the snapshot; `None` before the first. Use the same fabric
    /// for all calls to one oracle.
    ///
    /// # Errors
    /// As [`Oracle::ask`], and if the oracle serves another machine.
    pub fn links(
        &mut self,
        fabric: &Fabric,
    ) -> Result<(u64, Option<f64>, Option<LinkState>), ObserveError> {
        let ask = Ask {
            links: true,
            pack: true,
            ..Ask::default()
        };
        let (reply, packed) = self.ask(&ask, &[])?;
        let Some(state) = reply.state else {
            return Ok((reply.version, reply.time_seconds, None));
        };
        if self.machine.as_ref() != Some(&state.fingerprint) {
            if state.fingerprint != fabric.fingerprint() {
                return Err(state.other_machine(fabric).into());
            }
            self.machine = Some(state.fingerprint.clone());
        }
        let state = state.link_state(fabric, &packed)?;
        Ok((reply.version, reply.time_seconds, Some(state)))
    }

    fn wrong(&self, found: &str) -> ObserveError {
        InputError::new(format!("oracle {}", self.address), found, "an answer").into()
    }
}

fn refused(address: &str, source: io::Error) -> ObserveError {
    ObserveError::Io {
        path: format!("oracle {}", address.split('?').next().unwrap_or_default()),
        hint: Some(advice(address, source.kind())),
        source,
    }
}

/// A timeout in words; of a connection it has words already.
fn unanswered(error: io::Error, patience: Duration) -> io::Error {
    let of_answer =
        error.kind() == io::ErrorKind::TimedOut && !error.to_string().contains("connect");
    match of_answer {
        true => {
            let text = format!("no answer within {} s", patience.as_secs_f64());
            io::Error::new(error.kind(), text)
        }
        false => error,
    }
}

/// What to do about an oracle that does not answer.
fn advice(address: &str, kind: io::ErrorKind) -> String {
    let start = "start one with: hopbyte oracle serve";
    let (host, is_url) = match address.split_once("://") {
        Some((_, rest)) => (rest.split(['/', '?']).next().unwrap_or_default(), true),
        None => (address, false),
    };
    let is_absent = kind == io::ErrorKind::NotFound;
    if kind == io::ErrorKind::TimedOut {
        return "is the program there an oracle, and not stopped or overloaded?".into();
    }
    if is_url && !is_address(host) {
        format!(
            "no port in the address: http://HOST:PORT, as `hopbyte oracle serve` prints it; {start}"
        )
    } else if !is_url && is_absent {
        format!("an address is http://HOST:PORT, HOST:PORT or the path of a socket; {start}")
    } else {
        start.to_owned()
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// A connection whose exchanges end at a deadline, however slowly the bytes come.
#[derive(Debug)]
struct Timed {
    stream: UnixStream,
    deadline: Instant,
}

impl Timed {
    fn connect(path: &str) -> io::Result<BufReader<Self>> {
        let timed = Self {
            stream: UnixStream::connect(path)?,
            deadline: Instant::now(),
        };
        Ok(BufReader::with_capacity(1 << 16, timed))
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

/// A blocking call that reached its timeout, by its usual name.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(into).map_err(timed_out)
    }
}

impl Write for Timed {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(from).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Asks over a connection, which is closed after an error. One from an earlier request may be to an oracle that has
/// ended since: then a new one is tried, unless an answer has begun.
fn over_socket(
    path: &str,
    connection: &mut Option<BufReader<Timed>>,
    question: &[u8],
    patience: Duration,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let deadline = Instant::now() + patience;
    if let Some(mut stream) = connection.take() {
        match exchange(&mut stream, question, deadline) {
            Ok(answer) => {
                *connection = Some(stream);
                return Ok(answer);
            }
            Err(error) if is_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let mut stream = Timed::connect(path)?;
    let answer = exchange(&mut stream, question, deadline)?;
    *connection = Some(stream);
    Ok(answer)
}

/// Whether the other side had closed the connection before it answered.
fn is_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Sends a question; reads a line, and the packed bytes that it announces.
fn exchange(
    stream: &mut BufReader<Timed>,
    question: &[u8],
    deadline: Instant,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    stream.get_mut().deadline = deadline;
    stream.get_mut().write_all(question)?;
    let mut line = Vec::new();
    stream.take(LONGEST_ANSWER).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let ended = || invalid("the connection ended within an answer");
    if line.last() != Some(&b'\n') {
        return Err(ended());
    }
    let mut packed = vec![0; announced(&line)?];
    let read = stream.read_exact(&mut packed);
    read.map_err(|e| if is_ended(&e) { ended() } else { e })?;
    Ok((line, packed))
}

fn over_http(client: &Client, url: &str, question: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let answer = client.post(url, "application/json", question)?;
    let body = answer.body;
    if answer.status != 200 && body.first() != Some(&b'{') {
        let text = String::from_utf8_lossy(&body[..body.len().min(300)]);
        return Err(invalid(text.trim()));
    }
    let line = body.iter().position(|&b| b == b'\n');
    let (line, packed) = body.split_at(line.map_or(body.len(), |at| at + 1));
    if packed.len() != announced(line)? {
        return Err(invalid("the connection ended within an answer"));
    }
    Ok((line.to_vec(), packed.to_vec()))
}

/// Number of bytes that follow a line.
fn announced(line: &[u8]) -> io::Result<usize> {
    #[derive(Deserialize)]
    struct Head {
        packed: Option<usize>,
    }
    let head: Head = serde_json::from_slice(line).map_err(|e| invalid(&e.to_string()))?;
    let floats = head.packed.unwrap_or(0);
    if floats > LONGEST_ANSWER as usize / 4 {
        return Err(invalid("an answer that is too long"));
    }
    Ok(floats * 4)
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;

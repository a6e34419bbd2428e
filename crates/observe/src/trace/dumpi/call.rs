//! One MPI call with its arguments.

use super::Rank;
use super::comms::{How, Made};
use crate::text::{Line, Text, decimal, lossy};
use crate::trace::signed;
use hopbyte_fabric::InputError;
use hopbyte_fabric::collective::{Collective, How as Called};
use hopbyte_fabric::trace::Call;

/// Number of `MPI_COMM_WORLD`.
const WORLD: u32 = 2;

/// The arguments of a call: names and values.
pub(super) struct Fields<'a> {
    text: &'a Text,
    line: Line<'a>,
    pub name: &'a [u8],
    list: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Fields<'a> {
    pub fn new(text: &'a Text, line: Line<'a>, name: &'a [u8]) -> Self {
        Self {
            text,
            line,
            name,
            list: Vec::new(),
        }
    }

    /// Adds `int count=1`, `MPI_Comm comm=2 (MPI_COMM_WORLD)`, `int dims[2]=[4, 4]`.
    pub fn add(&mut self, content: &'a [u8]) {
        let Some(at) = content.iter().position(|&b| b == b'=') else {
            return;
        };
        let (left, value) = (&content[..at], &content[at + 1..]);
        let name = left.rsplit(|&b| b == b' ').next().unwrap_or_default();
        let name = name.split(|&b| b == b'[').next().unwrap_or_default();
        self.list.push((name, value));
    }

    fn wrong(&self, found: &str, expected: &str) -> InputError {
        let name = lossy(self.name);
        self.text
            .error(format!("{name} {found}"), expected)
            .at(self.line.number)
    }

    fn value(&self, name: &str) -> Option<&'a [u8]> {
        let found = self.list.iter().find(|(n, _)| *n == name.as_bytes());
        found.map(|(_, value)| *value)
    }

    fn int(&self, name: &str) -> Result<i64, InputError> {
        let value = self
            .value(name)
            .ok_or_else(|| self.wrong("", &format!("its argument {name}")))?;
        let word = value.split(|&b| b == b' ').next().unwrap_or_default();
        signed(word).ok_or_else(|| self.wrong(&lossy(value), &format!("a number for {name}")))
    }

    fn id(&self, name: &str) -> Result<u32, InputError> {
        let value = self.int(name)?;
        u32::try_from(value).map_err(|_| self.wrong(&value.to_string(), &format!("a {name}")))
    }

    /// A number of elements; in-place arguments may be negative.
    fn count(&self, name: &str) -> Result<f64, InputError> {
        Ok(self.int(name)?.max(0) as f64)
    }

    /// Numbers between brackets; empty if they were not recorded.
    fn array(&self, name: &str) -> Result<Vec<i64>, InputError> {
        let Some(inside) = self.value(name).and_then(|v| {
            v.strip_prefix(b"[")
                .and_then(|v| v.split(|&b| b == b']').next())
        }) else {
            return Ok(Vec::new());
        };
        let cells = inside.split(|&b| b == b',').map(<[u8]>::trim_ascii);
        cells
            .filter(|c| !c.is_empty())
            .map(|c| signed(c).ok_or_else(|| self.wrong(&lossy(c), &format!("numbers in {name}"))))
            .collect()
    }

    /// Senders of statuses `[{bytes=4, cancelled=0, source=3, …}, …]`.
    fn sources(&self, name: &str) -> Vec<Option<u32>> {
        let Some(value) = self.value(name).filter(|v| v.starts_with(b"[")) else {
            return Vec::new();
        };
        let statuses = value.split(|&b| b == b'{').skip(1);
        let source = |status: &[u8]| {
            let mut cells = status.split(|&b| b == b',').map(<[u8]>::trim_ascii);
            let digits = cells.find_map(|c| c.strip_prefix(b"source="))?;
            decimal(digits).and_then(|n| u32::try_from(n).ok())
        };
        statuses.map(source).collect()
    }

    fn group(&self, state: &Rank, name: &str) -> Result<u32, InputError> {
        let id = self.id(name)?;
        state.current.get(&id).copied().ok_or_else(|| {
            self.wrong(
                &format!("on communicator {id}"),
                "a communicator that was made before",
            )
        })
    }

    /// Applies the call to the rank's state.
    pub fn call(&self, state: &mut Rank) -> Result<(), InputError> {
        let name = self.name.strip_prefix(b"MPI_").unwrap_or(self.name);
        match name {
            b"Send" | b"Bsend" | b"Ssend" | b"Rsend" => {
                self.send(state, ("count", "datatype"), None)
            }
            b"Isend" | b"Ibsend" | b"Issend" | b"Irsend" => {
                let request = self.request("request")?;
                self.send(state, ("count", "datatype"), request)
            }
            b"Recv" => self.receive(state, None),
            b"Irecv" => {
                let request = self.request("request")?;
                self.receive(state, request)
            }
            b"Sendrecv" | b"Sendrecv_replace" => self.both(state, name == b"Sendrecv"),
            b"Send_init" | b"Bsend_init" | b"Ssend_init" | b"Rsend_init" | b"Recv_init" => {
                self.persistent(state)
            }
            b"Start" | b"Startall" => self.start(state),
            b"Wait" | b"Waitall" | b"Waitany" | b"Waitsome" | b"Test" | b"Testall" | b"Testany"
            | b"Testsome" => self.wait(state, name),
            b"Comm_rank" if self.id("comm")? == WORLD => {
                state.rank = Some(self.id("rank")?);
                Ok(())
            }
            b"Comm_size" if self.id("comm")? == WORLD => {
                state.size = Some(self.id("size")?);
                Ok(())
            }
            b"Alltoallw" => Err(self
                .wrong(
                    "with a datatype for each rank",
                    "collectives with one datatype",
                )
                .hint("such calls are not supported yet")),
            _ => {
                if self.value("newcomm").is_some() {
                    self.make(state, name)
                } else {
                    self.collective(state, name)
                }
            }
        }
    }

    /// The single request of a call; `None` for the null request.
    fn request(&self, name: &str) -> Result<Option<u32>, InputError> {
        let first = self.array(name)?.first().copied();
        Ok(first.and_then(|n| u32::try_from(n).ok()))
    }

    fn tag(&self, names: [&str; 2]) -> Result<Option<u32>, InputError> {
        let name = if self.value(names[0]).is_some() {
            names[0]
        } else {
            names[1]
        };
        Ok(u32::try_from(self.int(name)?).ok())
    }

    fn message(
        &self,
        state: &Rank,
        (count, datatype): (&str, &str),
        request: Option<u32>,
    ) -> Result<Option<(Call, u32)>, InputError> {
        // Negative: no process.
        let Ok(to) = u32::try_from(self.int("dest")?) else {
            return Ok(None);
        };
        let call = Call::Send {
            to,
            tag: self.tag(["sendtag", "tag"])?.unwrap_or(0),
            group: self.group(state, "comm")?,
            request,
            bytes: self.count(count)?,
        };
        Ok(Some((call, self.id(datatype)?)))
    }

    fn reception(&self, state: &Rank, request: Option<u32>) -> Result<Option<Call>, InputError> {
        let source = self.int("source")?;
        if source < -1 {
            return Ok(None);
        }
        let known = self.sources("status").first().copied().flatten();
        Ok(Some(Call::Receive {
            from: u32::try_from(source).ok().or(known),
            tag: self.tag(["recvtag", "tag"])?,
            group: self.group(state, "comm")?,
            request,
        }))
    }

    fn send(
        &self,
        state: &mut Rank,
        size: (&str, &str),
        request: Option<u32>,
    ) -> Result<(), InputError> {
        if let Some(message) = self.message(state, size, request)? {
            state.begin(message, request);
        }
        Ok(())
    }

    fn receive(&self, state: &mut Rank, request: Option<u32>) -> Result<(), InputError> {
        if let Some(call) = self.reception(state, request)? {
            state.begin((call, 0), request);
        }
        Ok(())
    }

    /// A combined send and receive: the receive ends first, as far as the rank can observe.
    fn both(&self, state: &mut Rank, own_sizes: bool) -> Result<(), InputError> {
        let size = if own_sizes {
            ("sendcount", "sendtype")
        } else {
            ("count", "datatype")
        };
        // A number that no recorded request has.
        let request = Some(u32::MAX);
        let sent = self.message(state, size, request)?;
        let waits = sent.is_some();
        if let Some(message) = sent {
            state.begin(message, request);
        }
        self.receive(state, None)?;
        if waits {
            state.end(u32::MAX);
        }
        Ok(())
    }

    fn persistent(&self, state: &mut Rank) -> Result<(), InputError> {
        let Some(request) = self.request("request")? else {
            return Ok(());
        };
        let begun = if self.value("dest").is_some() {
            self.message(state, ("count", "datatype"), Some(request))?
        } else {
            self.reception(state, Some(request))?.map(|call| (call, 0))
        };
        if let Some(begun) = begun {
            state.persistent.insert(request, begun);
        }
        Ok(())
    }

    fn start(&self, state: &mut Rank) -> Result<(), InputError> {
        for request in [self.array("request")?, self.array("requests")?].concat() {
            let request = u32::try_from(request).ok();
            if let Some(begun) = request.and_then(|r| state.persistent.get(&r)).copied() {
                state.begin(begun, request);
            }
        }
        Ok(())
    }

    /// Ends the completed requests: all, those at the given indices, or none if a test failed.
    fn wait(&self, state: &mut Rank, name: &[u8]) -> Result<(), InputError> {
        if name.starts_with(b"Test") && name != b"Testsome" && self.int("flag")? == 0 {
            return Ok(());
        }
        let requests = [self.array("request")?, self.array("requests")?].concat();
        let ended: Vec<i64> = match name {
            b"Waitany" | b"Testany" => {
                let index = usize::try_from(self.int("index")?).ok();
                index
                    .and_then(|i| requests.get(i))
                    .copied()
                    .into_iter()
                    .collect()
            }
            b"Waitsome" | b"Testsome" => {
                let indices = self.array("indices")?;
                let at = |i: &i64| {
                    usize::try_from(*i)
                        .ok()
                        .and_then(|i| requests.get(i))
                        .copied()
                };
                indices.iter().filter_map(at).collect()
            }
            _ => requests,
        };
        let sources = [self.sources("status"), self.sources("statuses")].concat();
        for (i, request) in ended.into_iter().enumerate() {
            let Ok(request) = u32::try_from(request) else {
                continue;
            };
            if let Some(&begun) = state.under_way.get(&request)
                && let Call::Receive { from, .. } = &mut state.trace.calls[begun as usize]
                && from.is_none()
            {
                *from = sources.get(i).copied().flatten();
            }
            state.end(request);
        }
        Ok(())
    }

    fn make(&self, state: &mut Rank, name: &[u8]) -> Result<(), InputError> {
        let parent_name = if self.value("oldcomm").is_some() {
            "oldcomm"
        } else {
            "comm"
        };
        let how = match name {
            b"Comm_dup" => How::Copy,
            b"Comm_split" => How::Split {
                color: self.int("color")?,
                key: self.int("key")?,
            },
            b"Cart_create" => How::Grid(self.array("dims")?),
            b"Cart_sub" => How::Part(self.array("remain_dims")?),
            _ => How::Unknown(lossy(self.name).into_owned()),
        };
        // An intercommunicator, or one of other processes: its group is unknown.
        let parent = match self.value(parent_name) {
            Some(_) => Some(self.group(state, parent_name)?),
            None => None,
        };
        let number = self.id("newcomm")?;
        state.made.push(Made { parent, how });
        let newest = state.made.len() as u32 - 1;
        state.current.insert(number, newest);
        Ok(())
    }

    fn collective(&self, state: &mut Rank, name: &[u8]) -> Result<(), InputError> {
        use Collective as C;
        let (kind, count, datatype) = match name {
            b"Barrier" => (C::Barrier, None, None),
            b"Bcast" => (C::Broadcast, Some("count"), Some("datatype")),
            b"Reduce" => (C::Reduce, Some("count"), Some("datatype")),
            b"Allreduce" => (C::Allreduce, Some("count"), Some("datatype")),
            b"Scan" | b"Exscan" => (C::Scan, Some("count"), Some("datatype")),
            b"Gather" | b"Gatherv" => (C::Gather, Some("sendcount"), Some("sendtype")),
            b"Allgather" | b"Allgatherv" => (C::Allgather, Some("sendcount"), Some("sendtype")),
            b"Scatter" | b"Scatterv" => (C::Scatter, Some("recvcount"), Some("recvtype")),
            b"Alltoall" => (C::Alltoall, Some("sendcount"), Some("sendtype")),
            b"Alltoallv" => (C::Alltoall, None, Some("sendtype")),
            b"Reduce_scatter" => (C::ReduceScatter, None, Some("datatype")),
            // All other calls move no data between ranks, or are skipped.
            _ => return Ok(()),
        };
        let at = state.trace.calls.len() as u32;
        let (mut row, mut in_rows) = (None, 0);
        let list = match name {
            b"Alltoallv" => Some(self.array("sendcounts")?),
            b"Reduce_scatter" => Some(self.array("recvcounts")?),
            _ => None,
        };
        if let Some(list) = list {
            let from = state.trace.rows.len();
            let counts = list.iter().map(|&c| c.max(0) as f64);
            state.trace.rows.extend(counts);
            (row, in_rows) = (Some(from as u32), list.len() as u32);
            if kind == C::ReduceScatter {
                state.own_counts.push((at, from, from + list.len()));
            }
        }
        let rooted = self.value("root").is_some();
        state.trace.calls.push(Call::Collective {
            kind,
            how: Called {
                vector: matches!(name, b"Allgatherv" | b"Reduce_scatter"),
                ..Called::default()
            },
            group: self.group(state, "comm")?,
            root: if rooted { self.id("root")? } else { 0 },
            bytes: count.map_or(Ok(0.0), |c| self.count(c))?,
            row,
            request: None,
            neighbors: false,
        });
        if let Some(datatype) = datatype {
            state.typed.push((at, self.id(datatype)?, in_rows));
        }
        Ok(())
    }
}

impl Rank {
    /// Starts a message of elements of a datatype (sends).
    fn begin(&mut self, (call, datatype): (Call, u32), request: Option<u32>) {
        let at = self.trace.calls.len() as u32;
        self.trace.calls.push(call);
        if matches!(call, Call::Send { .. }) {
            self.typed.push((at, datatype, 0));
        }
        if let Some(request) = request {
            self.under_way.insert(request, at);
        }
    }

    /// Ends a request, if it is pending.
    fn end(&mut self, request: u32) {
        if self.under_way.remove(&request).is_some() {
            self.trace.calls.push(Call::Wait { request });
        }
    }
}

//! liballprof's traces (spcl/LogGOPSim, `src/liballprof`): a file a rank, a line a call, fields between colons.
//!
//! ```text
//! # htor's PMPI Tracer 0.4 Output File
//! MPI_Init:-:140732:140733:2000
//! MPI_Isend:2100:140737:10:0,8,8:1:7:0,0,2:140800:2110
//! MPI_Wait:2200:140800:140900:2300
//! ```
//!
//! The call's name, its start (`-` where the clock is not running yet), its arguments in the order of the C binding, its
//! end (`-` of `MPI_Finalize`, which is the last line); times in microseconds. A datatype
//! is `TYPE,SIZE[,EXTENT]`, a communicator `HANDLE,RANK,SIZE` (own rank and size), counts of every rank are
//! `ADDRESS:C0,C1,…`, requests are addresses. Time between two calls is computing. Rank -1 is any source and -2 is no
//! process, as Open MPI and LogGOPSim's own Schedgen have it.

use super::requests::Requests;
use super::{MAX_CALLS, bounded, in_order, signed};
use crate::ObserveError;
use crate::text::{Line, Text, decimal, decimal_u32, float};
use crate::traffic::MAX_TASKS;
use hopbyte_fabric::collective::{Collective, How};
use hopbyte_fabric::trace::{Call, RankTrace};
use hopbyte_fabric::{InputError, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a line belongs to such a trace.
pub(super) fn begins(line: &[u8]) -> bool {
    let mut fields = line.split(|&b| b == b':');
    let name = fields.next().filter(|n| n.starts_with(b"MPI_"));
    let is_name = |n: &[u8]| n.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let is_start = |s: &[u8]| s == b"-" || float(s).is_some();
    name.is_some_and(is_name) && fields.next().is_some_and(is_start)
}

/// Beginnings of the names of calls without messages of the program. Communicators may be made; calls in those of other
/// sizes than the world are refused.
const SILENT: [&[u8]; 31] = [
    b"MPI_Init",
    b"MPI_Finalize",
    b"MPI_Wti",
    b"MPI_Iprobe",
    b"MPI_Probe",
    b"MPI_Comm_",
    b"MPI_Intercomm_",
    b"MPI_Group_",
    b"MPI_Cart_",
    b"MPI_Cartdim_get",
    b"MPI_Graph",
    b"MPI_Dims_create",
    b"MPI_Topo_test",
    b"MPI_Type_",
    b"MPI_Op_",
    b"MPI_Pack",
    b"MPI_Unpack",
    b"MPI_Get_",
    b"MPI_Address",
    b"MPI_Attr_",
    b"MPI_Keyval_",
    b"MPI_Errhandler_",
    b"MPI_Error_",
    b"MPI_Info_",
    b"MPI_Buffer_",
    b"MPI_Alloc_mem",
    b"MPI_Free_mem",
    b"MPI_Pcontrol",
    b"MPI_Status_",
    b"MPI_Query_thread",
    b"MPI_Is_thread_main",
];

pub(super) fn read(
    source: &str,
    texts: impl Iterator<Item = Result<Text, ObserveError>>,
) -> Result<Trace, ObserveError> {
    let mut ranks: BTreeMap<u32, RankTrace> = BTreeMap::new();
    let (mut calls, mut world) = (0, 1);
    for text in texts {
        let text = text?;
        let mut rank = Rank::of(&text)?;
        for line in text.lines() {
            rank.line(&text, line)?;
        }
        if !rank.finalized {
            let found = format!("the end of rank {} without MPI_Finalize", rank.rank);
            let error = text.error(found, "a trace of the whole program");
            return Err(error.hint("was the file cut off?").into());
        }
        calls += rank.trace.calls.len();
        bounded(&text, calls.min(MAX_CALLS + 1))?;
        world = world.max(rank.size);
        if ranks.insert(rank.rank, rank.trace).is_some() {
            let found = format!("a second file of rank {}", rank.rank);
            return Err(text.error(found, "one file a rank").into());
        }
    }
    let found = ranks.len();
    let ranks = in_order(source, ranks)?;
    if found < world as usize {
        let error = InputError::new(
            source,
            format!("{found} ranks"),
            format!("all {world} ranks"),
        );
        return Err(error
            .hint("give the folder or archive that holds every rank's file")
            .into());
    }
    Ok(Trace {
        source: source.to_owned(),
        groups: vec![(0..ranks.len() as u32).collect()],
        ranks,
    })
}

/// State of a rank while its lines are read.
struct Rank {
    rank: u32,
    /// Ranks of the world.
    size: u32,
    trace: RankTrace,
    /// End of the last call, in microseconds.
    ended: Option<f64>,
    /// Whether the program came to its end.
    finalized: bool,
    requests: Requests<u64>,
    /// Addresses of pending requests.
    pending: BTreeSet<u64>,
    /// Bytes of a request: 4 (an integer handle) if an address says so, else 8.
    width: u64,
}

/// Fields of a line.
struct Fields<'a> {
    text: &'a Text,
    line: Line<'a>,
    fields: Vec<&'a [u8]>,
    rank: u32,
    size: u32,
}

/// Own rank and size of a communicator.
fn communicator(field: &[u8]) -> Option<(u32, u32)> {
    let mut parts = field.split(|&b| b == b',').skip(1).map(decimal_u32);
    let (rank, size) = (parts.next()??, parts.next()??);
    let fits = rank < size && size as usize <= MAX_TASKS && parts.next().is_none();
    fits.then_some((rank, size))
}

/// Calls whose last argument before a status or request is the communicator: position from the end of the line.
fn place_of_communicator(name: &[u8]) -> Option<usize> {
    Some(match name {
        b"MPI_Send" | b"MPI_Ssend" | b"MPI_Rsend" | b"MPI_Bsend" => 2,
        b"MPI_Isend" | b"MPI_Issend" | b"MPI_Irsend" | b"MPI_Ibsend" | b"MPI_Recv"
        | b"MPI_Irecv" => 3,
        b"MPI_Sendrecv" => 3,
        _ => collective(name)?.1,
    })
}

/// Kind of a collective, and its communicator's position from the end of the line.
fn collective(name: &[u8]) -> Option<(Collective, usize)> {
    use Collective as C;
    Some(match name {
        b"MPI_Barrier" => (C::Barrier, 2),
        b"MPI_Bcast" => (C::Broadcast, 2),
        b"MPI_Reduce" => (C::Reduce, 2),
        b"MPI_Allreduce" => (C::Allreduce, 2),
        b"MPI_Gather" | b"MPI_Gatherv" => (C::Gather, 2),
        b"MPI_Scatter" | b"MPI_Scatterv" => (C::Scatter, 2),
        b"MPI_Allgather" | b"MPI_Allgatherv" => (C::Allgather, 2),
        b"MPI_Reduce_scatter" => (C::ReduceScatter, 2),
        b"MPI_Alltoall" | b"MPI_Alltoallv" => (C::Alltoall, 2),
        b"MPI_Scan" | b"MPI_Exscan" => (C::Scan, 2),
        _ => return None,
    })
}

impl<'a> Fields<'a> {
    fn wrong(&self, found: &[u8], expected: &str) -> InputError {
        self.text.error_in(self.line, found, expected)
    }

    /// Argument `i` of the C binding.
    fn get(&self, i: usize) -> Result<&'a [u8], InputError> {
        let last = self.fields.len() - 1;
        self.fields[..last].get(2 + i).copied().ok_or_else(|| {
            let expected = format!("at least {} arguments between start and end", i + 1);
            self.text
                .error_at(self.line, expected)
                .hint("was the file cut off?")
        })
    }

    fn count(&self, i: usize) -> Result<f64, InputError> {
        let field = self.get(i)?;
        let count = decimal(field).ok_or_else(|| self.wrong(field, "a count"))?;
        Ok(count as f64)
    }

    /// Bytes of a datatype.
    fn datatype(&self, i: usize) -> Result<f64, InputError> {
        let field = self.get(i)?;
        let size = field.split(|&b| b == b',').nth(1).and_then(decimal);
        size.map(|s| s as f64)
            .ok_or_else(|| self.wrong(field, "a datatype TYPE,SIZE"))
    }

    fn bytes(&self, count: usize, datatype: usize) -> Result<f64, InputError> {
        Ok(self.count(count)? * self.datatype(datatype)?)
    }

    /// Counts of every rank.
    fn counts(&self, i: usize) -> Result<Vec<f64>, InputError> {
        let field = self.get(i)?;
        let counts = field.split(|&b| b == b',').map(decimal);
        let counts: Option<Vec<f64>> = counts.map(|c| c.map(|c| c as f64)).collect();
        counts
            .filter(|c| c.len() == self.size as usize)
            .ok_or_else(|| self.wrong(field, "a count for every rank"))
    }

    /// A partner: `None` for no process (-2); the flag is any source (-1).
    fn partner(&self, i: usize) -> Result<Option<Option<u32>>, InputError> {
        let field = self.get(i)?;
        match signed(field) {
            Some(-1) => Ok(Some(None)),
            Some(-2) => Ok(None),
            Some(rank) => u32::try_from(rank)
                .ok()
                .filter(|&r| r < self.size)
                .map(|r| Some(Some(r)))
                .ok_or_else(|| self.wrong(field, "a rank of the communicator")),
            None => Err(self.wrong(field, "a rank")),
        }
    }

    fn root(&self, i: usize) -> Result<u32, InputError> {
        let field = self.get(i)?;
        let root = decimal_u32(field).filter(|&r| r < self.size);
        root.ok_or_else(|| self.wrong(field, "a rank of the communicator"))
    }

    fn tag(&self, i: usize) -> Result<Option<u32>, InputError> {
        let field = self.get(i)?;
        let tag = signed(field).ok_or_else(|| self.wrong(field, "a tag"))?;
        Ok(u32::try_from(tag).ok())
    }

    fn address(&self, i: usize) -> Result<u64, InputError> {
        let field = self.get(i)?;
        decimal(field).ok_or_else(|| self.wrong(field, "the address of a request"))
    }
}

impl Rank {
    /// The rank of a file: that of its largest communicator, else the number at the end of its name.
    fn of(text: &Text) -> Result<Self, InputError> {
        let mut largest: Option<(u32, u32)> = None;
        for line in text.lines() {
            let fields: Vec<&[u8]> = line.trimmed().split(|&b| b == b':').collect();
            let back = place_of_communicator(fields[0]);
            let field = back.and_then(|b| fields.get(fields.len().checked_sub(b)?));
            if let Some((rank, size)) = field.and_then(|f| communicator(f))
                && largest.is_none_or(|(_, most)| size > most)
            {
                largest = Some((rank, size));
            }
        }
        let of_name = || {
            let stem = text.file().trim_end_matches(|c: char| !c.is_ascii_digit());
            let digits = stem.len() - stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            stem[stem.len() - digits..]
                .parse()
                .ok()
                .filter(|&r: &u32| (r as usize) < MAX_TASKS)
        };
        let (rank, size) = match largest {
            Some(known) => known,
            None => {
                let rank = of_name().ok_or_else(|| {
                    text.error("no communicator HANDLE,RANK,SIZE", "the rank of the file")
                })?;
                (rank, rank + 1)
            }
        };
        Ok(Self {
            rank,
            size,
            trace: RankTrace::default(),
            ended: None,
            finalized: false,
            requests: Requests::default(),
            pending: BTreeSet::new(),
            width: 8,
        })
    }

    fn line(&mut self, text: &Text, line: Line<'_>) -> Result<(), InputError> {
        let content = line.trimmed();
        if content.is_empty() || content.starts_with(b"#") {
            return Ok(());
        }
        let fields: Vec<&[u8]> = content.split(|&b| b == b':').collect();
        let wrong = || text.error_at(line, "MPI_NAME:START:ARGUMENTS:END");
        if fields.len() < 3 || !begins(content) {
            return Err(wrong());
        }
        let name = fields[0];
        let is_end = name == b"MPI_Finalize";
        self.finalized |= is_end;
        let last = match fields[fields.len() - 1] {
            // The tracer's own clock ends with the library.
            b"-" if is_end => float(fields[1]),
            last => float(last),
        };
        let start = match fields[1] {
            b"-" => last,
            start => float(start),
        };
        let start = start.filter(|t| *t >= 0.0).ok_or_else(wrong)?;
        let end = last.filter(|&t| t >= start).ok_or_else(|| {
            wrong().hint("a line ends with the time at which the call ended; was the file cut off?")
        })?;
        if let Some(seconds) = self.ended.map(|t| (start - t) / 1e6).filter(|&s| s > 0.0) {
            self.trace.calls.push(Call::Compute { seconds });
        }
        self.ended = Some(end);
        let f = Fields {
            text,
            line,
            fields,
            rank: self.rank,
            size: self.size,
        };
        if let Some(back) = place_of_communicator(name) {
            let at = f.fields.len().checked_sub(back).filter(|&at| at >= 2);
            let comm = at.and_then(|at| communicator(f.fields[at]));
            match comm {
                Some(own) if own == (f.rank, f.size) => {}
                Some((_, size)) => {
                    let expected = format!("calls in the world of {} ranks", f.size);
                    return Err(text
                        .error(format!("a communicator of {size} ranks"), expected)
                        .at(line.number)
                        .hint("the trace does not say which ranks are in it"));
                }
                None => return Err(text.error_at(line, "a communicator HANDLE,RANK,SIZE")),
            }
        }
        self.call(name, &f)
    }

    fn call(&mut self, name: &[u8], f: &Fields<'_>) -> Result<(), InputError> {
        if SILENT.iter().any(|s| name.starts_with(s)) {
            return Ok(());
        }
        match name {
            b"MPI_Send" | b"MPI_Ssend" | b"MPI_Rsend" | b"MPI_Bsend" => {
                self.send(f, [1, 2, 3, 4], None)
            }
            b"MPI_Isend" | b"MPI_Issend" | b"MPI_Irsend" | b"MPI_Ibsend" => {
                self.send(f, [1, 2, 3, 4], Some(f.address(6)?))
            }
            b"MPI_Recv" => self.receive(f, 3, None),
            b"MPI_Irecv" => self.receive(f, 3, Some(f.address(6)?)),
            b"MPI_Sendrecv" => {
                // Both at once: the receive is waited for.
                let request = u64::MAX;
                self.receive(f, 8, Some(request))?;
                self.send(f, [1, 2, 3, 4], None)?;
                self.wait(request);
                Ok(())
            }
            b"MPI_Wait" | b"MPI_Test" => {
                // Only later calls tell a test that ended the request from one that did not: it is read as a wait.
                self.wait(f.address(0)?);
                Ok(())
            }
            b"MPI_Waitall" | b"MPI_Testall" => {
                let (count, first) = (f.count(0)? as u64, f.address(1)?);
                let past = first.saturating_add(count.saturating_mul(self.width));
                let mut all: Vec<u64> = self.pending.range(first..past).copied().collect();
                if all.is_empty() && self.pending.len() as u64 <= count {
                    // Fortran's requests are handles, of which the line has only the first.
                    all = self.pending.iter().copied().collect();
                }
                for request in all {
                    self.wait(request);
                }
                Ok(())
            }
            _ => self.collective(name, f),
        }
    }

    fn begin(&mut self, address: u64) -> u32 {
        if address != u64::MAX && address % 8 == 4 {
            self.width = 4;
        }
        self.pending.insert(address);
        self.requests.begin(address)
    }

    fn wait(&mut self, address: u64) {
        if let Some(request) = self.requests.end(&address) {
            self.pending.remove(&address);
            self.trace.calls.push(Call::Wait { request });
        }
    }

    fn send(
        &mut self,
        f: &Fields<'_>,
        [count, of, to, tag]: [usize; 4],
        request: Option<u64>,
    ) -> Result<(), InputError> {
        let Some(partner) = f.partner(to)? else {
            return Ok(());
        };
        let to = partner.ok_or_else(|| f.wrong(b"-1", "the rank of a receiver"))?;
        let (bytes, tag) = (f.bytes(count, of)?, f.tag(tag)?.unwrap_or(0));
        let request = request.map(|r| self.begin(r));
        self.trace.calls.push(Call::Send {
            to,
            tag,
            group: 0,
            request,
            bytes,
        });
        Ok(())
    }

    fn receive(
        &mut self,
        f: &Fields<'_>,
        at: usize,
        request: Option<u64>,
    ) -> Result<(), InputError> {
        let Some(from) = f.partner(at)? else {
            return Ok(());
        };
        let tag = f.tag(at + 1)?;
        let request = request.map(|r| self.begin(r));
        self.trace.calls.push(Call::Receive {
            from,
            tag,
            group: 0,
            request,
        });
        Ok(())
    }

    fn collective(&mut self, name: &[u8], f: &Fields<'_>) -> Result<(), InputError> {
        let Some((kind, _)) = collective(name) else {
            return Err(f.wrong(name, "a call that the reader knows").hint(
                "point-to-point calls, waits and collectives of MPI-1 are read; one-sided calls, files and new communicators are not",
            ));
        };
        let own = f.rank as usize;
        let mut row = None;
        let (root, bytes) = match name {
            b"MPI_Barrier" => (0, 0.0),
            b"MPI_Bcast" => (f.root(3)?, f.bytes(1, 2)?),
            b"MPI_Reduce" => (f.root(5)?, f.bytes(2, 3)?),
            b"MPI_Allreduce" | b"MPI_Scan" | b"MPI_Exscan" => (0, f.bytes(2, 3)?),
            b"MPI_Alltoall" | b"MPI_Allgather" | b"MPI_Allgatherv" => (0, f.bytes(1, 2)?),
            b"MPI_Gather" => (f.root(6)?, f.bytes(1, 2)?),
            // recvcounts and displs take two fields each.
            b"MPI_Gatherv" => (f.root(9)?, f.bytes(1, 2)?),
            b"MPI_Scatter" => (f.root(6)?, f.bytes(4, 5)?),
            b"MPI_Scatterv" => (f.root(9)?, f.bytes(7, 8)?),
            b"MPI_Reduce_scatter" => (0, f.counts(3)?[own] * f.datatype(4)?),
            _ => {
                let size = f.datatype(5)?;
                let counts = f.counts(2)?;
                row = Some(self.trace.rows.len() as u32);
                self.trace.rows.extend(counts.iter().map(|c| c * size));
                (0, 0.0)
            }
        };
        self.trace.calls.push(Call::Collective {
            kind,
            how: How {
                vector: matches!(name, b"MPI_Allgatherv" | b"MPI_Reduce_scatter"),
                ..How::default()
            },
            group: 0,
            root,
            bytes,
            row,
            request: None,
            neighbors: false,
        });
        Ok(())
    }
}

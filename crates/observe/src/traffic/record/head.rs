//! The lines of a rank's file beside its counts: the rank and its host, times, and the end.

use super::super::entries::{task, task_count};
use super::{cells, release};
use crate::text::{Line, Text, decimal, float, lossy};
use hopbyte_fabric::InputError;
use hopbyte_fabric::collective::Library;

/// A rank's file without its counts.
#[derive(Debug)]
pub struct RankHead {
    /// Rank in the first world; 0 for a spawned process.
    pub rank: u32,
    /// Ranks of its world.
    pub size: usize,
    /// Whether `MPI_Comm_spawn` started it.
    pub spawned: bool,
    /// Processes that it started, which may have no files.
    pub started: u64,
    /// The launcher's name of the job.
    pub job: Option<String>,
    /// Its host; empty if the file has none.
    pub host: String,
    /// How it ended: `finalize` if it is complete.
    pub ended: String,
    /// The call that had not returned at its end, and the seconds in it, if its end was seen.
    pub inside: Option<(String, Option<f64>)>,
    /// Functions with messages that are not in the file, and the reasons.
    pub unknown: Vec<(String, String)>,
    /// Where its time went.
    pub times: RankTimes,
    pub(super) library: Option<Library>,
    /// Major and minor release of Open MPI.
    pub(super) release: Option<(u32, u32)>,
    /// Variables that select algorithms of collectives.
    pub(super) settings: Vec<(String, String)>,
}

/// Where the time of a rank went.
#[derive(Debug, Default)]
pub struct RankTimes {
    /// From the first to the last moment, in seconds.
    pub seconds: f64,
    /// Seconds in MPI, each moment once; absent in records of older recorders.
    pub mpi_seconds: Option<f64>,
    /// Threads that called MPI, if several.
    pub threads: u64,
    /// Functions with their calls and seconds of all threads; none in records of older recorders.
    pub calls: Vec<(String, u64, f64)>,
    /// Names of phases, in the order of their numbers.
    pub phases: Vec<String>,
    /// The phases as they were entered, by number.
    pub order: Option<String>,
}

impl RankTimes {
    /// Takes a line, if it is one of times.
    fn take(&mut self, text: &Text, line: Line<'_>) -> Result<(), InputError> {
        let seconds = |cell: &[u8]| seconds(text, line, cell);
        match cells(line)[..] {
            [b"mpi", name, calls, time, ..] => {
                let count = decimal(calls);
                let count = count.ok_or_else(|| text.error_in(line, calls, "a count of calls"))?;
                let name = lossy(name).into_owned();
                self.calls.push((name, count, seconds(time)?));
            }
            [b"time", _, time, ref rest @ ..] => {
                self.seconds += seconds(time)?;
                if let [_, within, ..] = rest {
                    *self.mpi_seconds.get_or_insert(0.0) += seconds(within)?;
                }
            }
            [b"threads", n, ..] => {
                let count = decimal(n);
                self.threads = count.ok_or_else(|| text.error_in(line, n, "a count of threads"))?;
            }
            [b"mpi" | b"time", ..] => {
                return Err(text.error_at(line, "all fields of its kind"));
            }
            [b"phase", _, name, ..] => self.phases.push(lossy(name).into_owned()),
            [b"order", order, ..] => self.order = Some(lossy(order).into_owned()),
            _ => {}
        }
        Ok(())
    }
}

impl RankHead {
    /// Reads the file of a rank.
    ///
    /// # Errors
    /// Another version, no last line, or a line that is not as the recorder writes it.
    pub fn parse(text: &Text) -> Result<Self, InputError> {
        let (mut rank, mut size, mut last) = (None, None, None);
        let mut head = Self {
            rank: 0,
            size: 0,
            spawned: false,
            started: 0,
            job: None,
            host: String::new(),
            ended: "without a word".to_owned(),
            inside: None,
            unknown: Vec::new(),
            times: RankTimes::default(),
            library: None,
            release: None,
            settings: Vec::new(),
        };
        let own = |cell: &[u8]| lossy(cell).into_owned();
        for (line, before) in text.lines().zip(0u64..) {
            if before == 0 {
                version(text, line)?;
            }
            match cells(line)[..] {
                [b"rank", n] => rank = Some((line, n)),
                [b"size", n] => size = Some(task_count(text, line, n)?),
                [b"spawned", flag] => head.spawned = flag == b"1",
                [b"started", n, ..] => {
                    let count = decimal(n);
                    let count =
                        count.ok_or_else(|| text.error_in(line, n, "a count of processes"))?;
                    head.started = head.started.saturating_add(count);
                }
                [b"unknown", name, reason, ..] => head.unknown.push((own(name), own(reason))),
                [b"ended", word, ..] => head.ended = own(word),
                [b"inside", name] => head.inside = Some((own(name), None)),
                [b"inside", name, time, ..] => {
                    head.inside = Some((own(name), Some(seconds(text, line, time)?)));
                }
                [b"library", name, ..] => {
                    head.library = Library::of_version(&lossy(name));
                    head.release = release(&lossy(name));
                }
                [b"job", name, ..] => head.job = Some(own(name)),
                [b"host", name, ..] => head.host = own(name),
                [b"setting", name, value, ..] => head.settings.push((own(name), own(value))),
                _ => head.times.take(text, line)?,
            }
            last = Some((line, before));
        }
        whole(text, last)?;
        head.size = size.ok_or_else(|| text.error("no line 'size'", "the size of the world"))?;
        let (line, n) = rank.ok_or_else(|| text.error("no line 'rank'", "the rank"))?;
        if !head.spawned {
            head.rank = task(text, line, n, head.size)?;
        }
        Ok(head)
    }
}

fn seconds(text: &Text, line: Line<'_>, cell: &[u8]) -> Result<f64, InputError> {
    let known = float(cell).filter(|s| *s >= 0.0);
    known.ok_or_else(|| text.error_in(line, cell, "seconds, not negative"))
}

/// Refuses other versions than 2.
fn version(text: &Text, line: Line<'_>) -> Result<(), InputError> {
    let error = || text.error_at(line, "# hopbyte-record 2");
    match line.bytes {
        b"# hopbyte-record 2" => Ok(()),
        b"# hopbyte-record 1" => Err(error().hint(
            "version 1 held collectives already expanded by algorithms of its own; record the job again",
        )),
        _ => Err(error()),
    }
}

/// Refuses a file whose last line is not its end.
fn whole(text: &Text, last: Option<(Line<'_>, u64)>) -> Result<(), InputError> {
    let is_end = |(line, before): (Line<'_>, u64)| matches!(cells(line)[..], [b"end", n, ..] if decimal(n) == Some(before));
    if last.is_some_and(is_end) {
        return Ok(());
    }
    let found = last.map_or_else(String::new, |(line, _)| line.text());
    Err(text
        .error(found, "the line 'end' with the number of lines before it")
        .hint("the file is incomplete: was it copied while it was written?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Limits;

    fn head(lines: &str) -> Result<RankHead, String> {
        let content = format!("# hopbyte-record 2\nrank\t1\nsize\t2\nhost\tn0\n{lines}");
        let content = format!("{content}end\t{}\n", content.lines().count());
        let text = Text::from_bytes("rank.1.hbr", content.as_bytes(), Limits::ANY).unwrap();
        RankHead::parse(&text).map_err(|e| e.to_string())
    }

    #[test]
    fn times_are_read_or_refused_with_their_line() {
        let lines =
            "phase\t0\tmain\ntime\t0\t1.5\t1\t0.5\ntime\t1\t0.25\t1\nmpi\tMPI_Send\t4\t0.5\n";
        let times = head(lines).unwrap().times;
        assert_eq!((times.seconds, times.phases.len()), (1.75, 1));
        assert_eq!(times.calls, [("MPI_Send".to_owned(), 4, 0.5)]);
        for (line, found) in [
            ("time\t0\tnan\t1\n", "found nan"),
            ("time\t0\t-1\t1\n", "found -1"),
            ("time\t0\tinf\t1\n", "found inf"),
            ("mpi\tMPI_Send\t4\tsoon\n", "found soon"),
            ("mpi\tMPI_Send\t-4\t1\n", "found -4"),
            ("mpi\tMPI_Send\n", "all fields"),
        ] {
            let error = head(line).unwrap_err();
            assert!(error.starts_with("rank.1.hbr:5: found"), "{error}");
            assert!(error.contains(found), "{error}");
        }
    }
}

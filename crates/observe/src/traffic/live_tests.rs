//! Counts of killed ranks, built as the recorder lays them out; `tests/mpi` has those of real ranks.

use super::*;

const TEXT_LINES: &str = "# hopbyte-record 2\nrank\t0\nsize\t2\nhost\tn0\nspawned\t0\nphase\t0\tmain\nphase\t1\tsolve\n\
    group\tab\t2\t0-1\nP\t0\t1\t5\t1\n";

/// A file of counts: a header, a table of 4 entries, one block of slots, and two phases.
struct File(Vec<u8>);

const TABLE: usize = 4096;
const SLOTS: usize = 8192;
const TIMES: usize = 12288;

fn key(phase: u64, class: u64, kind: u64, group: u64, rank: u64) -> u64 {
    phase << 52 | class << 49 | kind << 44 | group << 28 | rank.wrapping_add(1)
}

impl File {
    fn new() -> Self {
        let mut file = Self(vec![0; 16384]);
        file.0[..16].copy_from_slice(MAGIC);
        file.set(at::ORDER, &[ORDER, 1]);
        // State 0 is not the current one.
        file.set(at::STATES, &[1 << 40, 1, 1 << 40, 0]);
        file.set(
            at::STATES + 32,
            &[TEXT_LINES.len() as u64, TABLE as u64, 4, 0],
        );
        file.set(at::CAUSE + 48, &[TIMES as u64]);
        file.set(at::TALLIES, &[SLOTS as u64, 2]);
        file.item(TABLE, &[key(0, 1, 0, 0, 1), 0, 100, 2]);
        file.item(TABLE + ITEM, &[key(1, 3, 4, 0, u64::MAX), 8, 16, 2]);
        file.item(SLOTS + BLOCK, &[key(0, 1, 0, 0, 1), 0, 11, 1]);
        file.item(SLOTS + 3 * ITEM, &[key(1, 4, 23, 0, 0), 0, 7, 1]);
        file.item(SLOTS, &[key(1, 1, 0, 0, 0), 0, 0, 0]);
        file.set(TIMES, &[1.5f64.to_bits(), 3, 2.5f64.to_bits(), 1]);
        file
    }

    fn set(&mut self, at: usize, numbers: &[u64]) -> &mut Self {
        for (i, n) in numbers.iter().enumerate() {
            self.0[at + 8 * i..at + 8 * i + 8].copy_from_slice(&n.to_ne_bytes());
        }
        self
    }

    fn item(&mut self, at: usize, item: &[u64; 4]) -> &mut Self {
        self.set(at, item)
    }

    fn read(&self) -> Result<String, InputError> {
        let text = format!("{TEXT_LINES}P\t0\t1\tunfini");
        let text = Text::from_bytes("rank.0.hbr.7.tmp", text.as_bytes(), TEXT).unwrap();
        complete("rank.0.hbr.7.live", self.0.clone(), &text)
    }
}

const COUNTS: &str = "P\t0\t1\t111\t3\nK\t1\tab\tallreduce\t-1\t8\t16\t2\nR\t1\tput\tout\t0\t7\t1\n\
    time\t0\t1.500000\t3\ntime\t1\t2.500000\t1\n";

#[test]
fn table_and_slots_add_up() {
    let expected = format!("{TEXT_LINES}{COUNTS}ended\tkilled\nend\t15\n");
    assert_eq!(File::new().read().unwrap(), expected);
}

#[test]
fn time_of_a_killed_rank_ends_with_its_last_call() {
    let mut file = File::new();
    // Phase 1 since second 10 of the clock; ticks of 1 ms, 1,000 at second 8 and 7,250 at the end of the last call.
    file.set(at::CAUSE + 32, &[1, 10f64.to_bits()]);
    file.set(at::CALLS + 16, &[1e-3f64.to_bits()]);
    file.set(at::THREADS + 8, &[1_000, 8f64.to_bits(), 7_250]);
    let found = file.read().unwrap();
    assert!(
        found.contains("\ntime\t0\t1.500000\t3\ntime\t1\t6.750000\t1\n"),
        "{found}"
    );
    // Without a call nothing is known, and a clock that went back adds nothing.
    for (last, since) in [(0u64, 10f64), (7_250, 99.0)] {
        file.set(at::THREADS + 24, &[last]);
        file.set(at::CAUSE + 40, &[since.to_bits()]);
        assert!(file.read().unwrap().contains(COUNTS), "{last} {since}");
    }
}

/// Of a rank that hung in a call: ticks of 1 ms, 1,000 at second 8; the last call ended at 7,250, the next began at 8,000.
#[test]
fn the_call_at_the_end_is_told_and_is_time_in_mpi() {
    let mut file = File::new();
    const CALLS: usize = TABLE + 1024;
    file.set(at::CAUSE, &[1, 15, 1e9f64.to_bits(), 75f64.to_bits()]);
    file.set(at::CAUSE + 32, &[1, 10f64.to_bits()]);
    file.set(at::CALLS, &[CALLS as u64, CALLS as u64, 1e-3f64.to_bits()]);
    file.set(at::THREADS + 8, &[1_000, 8f64.to_bits(), 7_250, 3, 8_000]);
    file.set(CALLS + 8, &[250]);
    file.set(CALLS + 48, &[250, 2]);
    let text = TEXT_LINES.replace("P\t", "call\t3\tMPI_Recv\nP\t");
    let read = |file: &mut File| {
        file.set(at::STATES + 32, &[text.len() as u64]);
        let text = Text::from_bytes("rank.0.hbr.7.tmp", text.as_bytes(), TEXT).unwrap();
        complete("rank.0.hbr.7.live", file.0.clone(), &text).unwrap()
    };
    let found = read(&mut file);
    let lines = "time\t1\t67.500000\t1\t60.250000\ninside\tMPI_Recv\t60.000000\nmpi\tMPI_Recv\t2\t60.250000\n";
    assert!(found.contains(lines), "{found}");
    // By SIGKILL the end is not seen.
    file.set(at::CAUSE, &[0, 0, 0, 0]);
    let found = read(&mut file);
    assert!(
        found.contains("\ninside\tMPI_Recv\nmpi\tMPI_Recv\t2\t0.250000\n"),
        "{found}"
    );
    // Between two calls.
    file.set(at::THREADS + 24, &[8_001]);
    assert!(!read(&mut file).contains("inside"), "{found}");
}

#[test]
fn how_a_collective_was_called_is_no_part_of_its_size() {
    for (size, text) in [
        (8 | 1 << 62 | 1 << 59, "8\t16\t2\tnonblocking,in_place"),
        (
            8 | 1 << 63 | 1 << 61 | 1 << 60,
            "~8\t16\t2\tpersistent,ordered",
        ),
        (1 << 60, "0\t16\t2\tordered"),
    ] {
        let mut file = File::new();
        file.item(TABLE + ITEM, &[key(1, 3, 4, 0, u64::MAX), size, 16, 2]);
        let found = file.read().unwrap();
        let line = format!("\nK\t1\tab\tallreduce\t-1\t{text}\n");
        assert!(found.contains(&line), "{found}");
    }
}

#[test]
fn an_emptied_table_is_not_counted_again() {
    let mut file = File::new();
    file.set(at::STATES + 32 + 24, &[1]);
    let found = file.read().unwrap();
    assert!(
        found.contains("\nP\t0\t1\t11\t1\n") && !found.contains("\nK\t"),
        "{found}"
    );
}

/// A process killed between any two stores of a move has counted everything once.
#[test]
fn every_prefix_of_a_move_counts_once() {
    let (from, to) = (SLOTS + BLOCK, TABLE);
    let (old, fresh) = (key(0, 1, 0, 0, 1), key(1, 1, 0, 0, 0));
    // The stores of slot_turn after `valid` is set, in any order.
    let stores = [
        (to + 16, 111),
        (to + 24, 3),
        (from, fresh),
        (from + 16, 0),
        (from + 24, 0),
    ];
    for done in 0..1 << stores.len() {
        let mut file = File::new();
        file.set(at::MOVE, &[1, to as u64, from as u64, fresh, 0, 0]);
        file.item(at::MOVE + 48, &[old, 0, 111, 3]);
        for (i, (at, value)) in stores.iter().enumerate() {
            if done >> i & 1 == 1 {
                file.set(*at, &[*value]);
            }
        }
        let expected = format!("{TEXT_LINES}{COUNTS}ended\tkilled\nend\t15\n");
        assert_eq!(file.read().unwrap(), expected, "stores {done:b}");
    }
}

#[test]
fn the_cause_is_told() {
    for (cause, ended) in [
        ([1u64, 11], "SIGSEGV"),
        ([1, 34], "signal 34"),
        ([2, 3], "_exit(3)"),
    ] {
        let mut file = File::new();
        file.set(at::CAUSE, &cause);
        // Stopped at 100 s, 4 s after the second phase was entered.
        file.set(
            at::CAUSE + 16,
            &[100f64.to_bits(), 14f64.to_bits(), 1, 10f64.to_bits()],
        );
        let found = file.read().unwrap();
        let end = format!("time\t1\t6.500000\t1\nstop\t100.000000\nended\t{ended}\nend\t16\n");
        assert!(found.ends_with(&end), "{found}");
    }
}

/// No prefix, and no changed byte, is read as something else without an error, or panics.
#[test]
fn damage_is_refused() {
    let whole = File::new();
    let expected = whole.read().unwrap();
    for length in 0..whole.0.len() {
        // The end of the last page holds nothing.
        match File(whole.0[..length].to_vec()).read() {
            Ok(found) => assert!(length >= TIMES && found == expected, "{length} bytes"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    for at in 0..TABLE + 4 * ITEM {
        for flip in [1u8, 0x80] {
            let mut file = File(whole.0.clone());
            file.0[at] ^= flip;
            let _ = file.read();
        }
    }
    let short = Text::from_bytes("rank.0.hbr.7.tmp", &TEXT_LINES.as_bytes()[..40], TEXT).unwrap();
    let error = complete("rank.0.hbr.7.live", whole.0, &short).unwrap_err();
    assert!(error.to_string().contains("40 bytes"), "{error}");
}

#[test]
fn names_belong_together() {
    let record = record_of(Path::new("a/rank.3.hbr.77.live")).unwrap();
    assert_eq!(record, Path::new("a/rank.3.hbr"));
    for other in ["rank.3.hbr", "rank.3.hbr.77.tmp", "notes.live", "a.b.live"] {
        assert!(record_of(Path::new(other)).is_none(), "{other}");
    }
}

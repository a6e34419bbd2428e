use super::super::{read_traffic, traffic};
use crate::text::{Limits, Text};
use hopbyte_fabric::Traffic;
use std::fs;

fn text(name: &str, content: impl AsRef<[u8]>) -> Text {
    Text::from_bytes(name, content.as_ref(), Limits::ANY).unwrap()
}

/// Bytes of a pair in all phases.
fn bytes(traffic: &Traffic, from: u32, to: u32) -> f64 {
    let all = traffic.phases.iter().flat_map(|p| p.exchange.iter());
    let pair = all.filter(|(sender, m)| (*sender, m.to) == (from, to));
    pair.map(|(_, m)| m.bytes).sum()
}

fn total(traffic: &Traffic) -> f64 {
    let all = traffic.phases.iter().flat_map(|p| p.exchange.iter());
    all.map(|(_, m)| m.bytes).sum()
}

fn kineto(rank: u32, world: u32, events: &[String]) -> String {
    format!(
        r#"{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {world}}},
"traceEvents": [{{"ph": "M", "name": "process_name", "args": {{"name": "python"}}}}, {}]}}"#,
        events.join(",\n")
    )
}

fn event(cat: &str, collective: &str, group: &str, nelems: u64, more: &str) -> String {
    let name = if cat == "kernel" {
        "ncclKernel"
    } else {
        "record_param_comms"
    };
    format!(
        r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "ts": 1, "dur": 2, "args": {{"External id": 7,
"Collective name": "{collective}", "In msg nelems": {nelems}, "Out msg nelems": {nelems}, "dtype": "BFloat16",
"Process Group Ranks": "{group}", "In split size": "[]"{more}}}}}"#
    )
}

#[test]
fn a_call_is_counted_once_although_host_and_device_have_it() {
    let events: Vec<String> = ["cpu_op", "kernel"]
        .map(|cat| event(cat, "allreduce", "[0, 1, 2, 3]", 500, ""))
        .into();
    let read = traffic(&text("t.json", kineto(0, 4, &events))).unwrap();
    assert_eq!(read.tasks, 4);
    // A ring: twice three quarters of 1,000 bytes to the next rank; the three ranks without a file do the same.
    assert_eq!(bytes(&read, 0, 1), 1500.0);
    assert_eq!(total(&read), 6000.0);
    assert!(
        read.notes
            .iter()
            .any(|n| n.starts_with("files of 1 of 4 ranks")),
        "{:?}",
        read.notes
    );
    let device = traffic(&text("t.json", kineto(0, 4, &events[1..]))).unwrap();
    assert_eq!(total(&device), 6000.0, "kernels alone");
}

#[test]
fn one_file_of_a_mesh_gives_all_its_groups() {
    let tensor = r#", "Process Group Description": "tp""#;
    let data = r#", "Process Group Description": "dp""#;
    let events = [
        event("cpu_op", "_reduce_scatter_base", "[0, 1]", 1000, tensor),
        event("cpu_op", "allreduce", "[0, 2, 4, 6]", 1000, data),
        event("cpu_op", "wait", "[]", 0, ""),
    ];
    let read = traffic(&text("t.json", kineto(0, 8, &events))).unwrap();
    let names: Vec<&str> = read.phases.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["dp", "tp"]);
    assert_eq!(
        bytes(&read, 6, 7),
        2000.0,
        "the last tensor group: a block of 2,000 bytes"
    );
    assert_eq!(bytes(&read, 1, 3), 3000.0, "the second data group");
    assert!(
        read.notes[0].contains("4 groups are placed"),
        "{:?}",
        read.notes
    );
}

#[test]
fn messages_are_counted_at_one_end() {
    let send = |from: u32, to: u32| {
        let more = format!(r#", "Dst Rank": {to}, "Rank": {to}"#);
        (from, event("cpu_op", "send", "[0, 1, 2]", 50, &more))
    };
    let receive = |at: u32, from: u32| {
        let more = format!(r#", "Src Rank": "{from}""#);
        (at, event("cpu_op", "recv", "[0, 1, 2]", 50, &more))
    };
    let folder = tempfile::tempdir().unwrap();
    let calls = [send(0, 1), receive(1, 0), send(1, 2)];
    for rank in 0..2 {
        let own: Vec<String> = calls
            .iter()
            .filter(|c| c.0 == rank)
            .map(|c| c.1.clone())
            .collect();
        let path = folder.path().join(format!("rank-{rank}.json"));
        fs::write(path, kineto(rank, 3, &own)).unwrap();
    }
    let read = read_traffic(folder.path().to_str().unwrap()).unwrap();
    assert_eq!((bytes(&read, 0, 1), bytes(&read, 1, 2)), (100.0, 100.0));
    assert!(
        read.notes
            .iter()
            .any(|n| n.starts_with("incomplete: messages")),
        "{:?}",
        read.notes
    );
}

#[test]
fn parts_of_an_all_to_all_go_to_their_members() {
    let more = r#", "In split size": "[1, 0, 3]""#;
    let call = event("cpu_op", "all_to_allv", "[0, 1, 2]", 400, "")
        .replace(r#", "In split size": "[]""#, more);
    let read = traffic(&text("t.json", kineto(0, 3, &[call]))).unwrap();
    assert_eq!((bytes(&read, 0, 1), bytes(&read, 0, 2)), (0.0, 600.0));
}

#[test]
fn sizes_and_roots_that_are_not_there_are_counted_in_notes() {
    let call = event("cpu_op", "allreduce", "[0, 1]", 500, "");
    for nelems in ["-1", "\"many\"", "null"] {
        let unsized_call = call.replace("500", nelems);
        let read = traffic(&text("t.json", kineto(0, 2, &[unsized_call]))).unwrap();
        let note = read.notes.last().unwrap();
        let expected = "incomplete: 1 calls of unknown size are not in the traffic";
        assert_eq!(note, expected, "{nelems}");
    }
    let half = call.replace("\"In msg nelems\": 500, ", "");
    let read = traffic(&text("t.json", kineto(0, 2, &[half]))).unwrap();
    assert_eq!(bytes(&read, 0, 1), 1000.0, "the output's size");
    let told = |rank: &str| {
        let more = format!(r#", "Rank": {rank}"#);
        let call = event("cpu_op", "broadcast", "[0, 1]", 5, &more);
        let read = traffic(&text("t.json", kineto(0, 2, &[call]))).unwrap();
        read.notes
            .iter()
            .any(|n| n.starts_with("1 calls have no root"))
    };
    assert_eq!([told("1"), told("2"), told("-1")], [false, true, true]);
}

#[test]
fn traces_that_cannot_be_used_say_why() {
    let whole = kineto(0, 2, &[event("cpu_op", "allreduce", "[0, 1]", 5, "")]);
    let nameless = whole.replace("Collective name", "other");
    let error = traffic(&text("t.json", nameless)).unwrap_err().to_string();
    assert!(error.contains("PyTorch 2.2"), "{error}");
    let ranked = whole.replace(r#""rank": 0, "#, "");
    assert!(traffic(&text("rank_1.json", &ranked)).is_ok());
    let folder = tempfile::tempdir().unwrap();
    for (name, whole) in [("rank-1.json", &ranked), ("t_0.json", &ranked)] {
        fs::write(folder.path().join(name), whole).unwrap();
    }
    let error = read_traffic(folder.path().to_str().unwrap()).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("t_0.json: found no rank") && error.contains("rank-3.json"),
        "{error}"
    );
    let read = traffic(&text("t.json", whole.replace("allreduce", "all_swap"))).unwrap();
    assert_eq!(
        read.notes.last().unwrap(),
        "incomplete: 1 calls of the unknown kind all_swap"
    );
    // Every prefix is refused, and none panics.
    for end in 0..whole.len() {
        assert!(traffic(&text("t.json", &whole[..end])).is_err(), "{end}");
    }
}

/// The number at the end of a name may be a run or a process.
#[test]
fn only_a_number_after_rank_is_the_rank_of_a_trace() {
    let whole = kineto(0, 2, &[event("cpu_op", "allreduce", "[0, 1]", 500, "")]);
    let ranked = whole.replace(r#""rank": 0, "#, "");
    for name in ["mi300x-run2.json", "chat__1016005.json", "t.json"] {
        let read = traffic(&text(name, &ranked)).unwrap();
        assert_eq!((read.tasks, total(&read)), (2, 2000.0), "{name}");
        let note = "1 file that names no rank is taken for that of rank 0";
        assert_eq!(read.notes[0], note, "{name}");
    }
    let read = traffic(&text("franklin-rank5.json", &ranked)).unwrap();
    let foreign =
        "incomplete: 1 calls of groups without the rank of their file are not in the traffic";
    assert_eq!(read.notes.last().unwrap(), foreign);
}

#[test]
fn kernels_without_sizes_are_counted() {
    let call = event("cpu_op", "allreduce", "[0, 1]", 500, "");
    let kernel = |name: &str| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "ts": 1, "dur": 2, "args": {{}}}}"#
        )
    };
    let nccl = kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
    let other = kernel("void multimem_all_reduce_kernel<c10::BFloat16>");
    let lost = |events: &[String]| {
        let read = traffic(&text("t.json", kineto(0, 2, events))).unwrap();
        let notes = read.notes.into_iter();
        notes
            .filter(|n| n.contains("in kernels without a size"))
            .collect::<String>()
    };
    assert_eq!(lost(&[call.clone(), nccl.clone()]), "", "the host's call");
    let named = event("kernel", "allreduce", "[0, 1]", 500, "");
    for events in [
        vec![nccl.clone()],
        vec![call.clone(), other],
        vec![call, named, nccl],
    ] {
        let lost = lost(&events);
        assert!(lost.starts_with("incomplete: 1 calls in kernels"), "{lost}");
    }
}

const FLIGHT: &str = r#"{"version": "2.4",
"pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
"pg_status": {},
"entries": [
 {"record_id": 3, "pg_id": 0, "process_group": ["0", "default_pg"], "profiling_name": "nccl:all_reduce",
  "input_sizes": [[3, 4]], "input_dtypes": ["Float"], "output_sizes": [[3, 4]], "output_dtypes": ["Float"],
  "state": "completed"},
 {"record_id": 4, "pg_id": 0, "process_group": ["0", "default_pg"], "profiling_name": "nccl:send 1->0",
  "input_sizes": [[25]], "input_dtypes": ["Double"], "output_sizes": [], "output_dtypes": [], "state": "scheduled"}]}"#;

#[test]
fn flight_recorders_are_read_as_json_and_as_pickles() {
    let read = traffic(&text("nccl_trace_rank_1", FLIGHT)).unwrap();
    assert_eq!(bytes(&read, 0, 1), 48.0);
    assert_eq!(bytes(&read, 1, 0), 48.0 + 200.0);
    let notes = read.notes.join("\n");
    assert!(notes.contains("3 earlier calls had left"), "{notes}");
    assert!(notes.contains("1 calls had not completed"), "{notes}");
    let error = traffic(&text("dump.json", FLIGHT)).unwrap_err().to_string();
    assert!(error.contains("nccl_trace_rank_3"), "{error}");
    for protocol in 2..=5 {
        // Written by another implementation.
        let script = "import json, pickle, sys; sys.stdout.buffer.write(pickle.dumps(json.load(sys.stdin), int(sys.argv[1])))";
        let pickled = python(&[script, &protocol.to_string()], FLIGHT);
        let name = "nccl_trace_rank_1";
        let same = traffic(&text(name, &pickled)).unwrap();
        assert_eq!(
            (same.phases, &same.notes),
            (read.phases.clone(), &read.notes),
            "{protocol}"
        );
        for end in 0..pickled.len() {
            let _ = Text::from_bytes(name, &pickled[..end], Limits::ANY).map(|t| traffic(&t));
            let mut flipped = pickled.clone();
            flipped[end] ^= 0x15;
            let _ = Text::from_bytes(name, &flipped, Limits::ANY).map(|t| traffic(&t));
        }
    }
}

#[test]
fn hostile_pickles_are_refused() {
    let run = |body: &[u8]| super::pickle::parse(body, &[]).unwrap_err();
    assert!(
        run(b"\x80\x02cos\nsystem\nU\x02lstR.").contains("0x63"),
        "an import"
    );
    let mut deep = b"\x80\x02".to_vec();
    deep.extend([b']'; 100_000]);
    deep.extend([b'a'; 99_999]);
    deep.push(b'.');
    assert!(run(&deep).contains("deeper"));
    // A list in itself, and lists of the same list again and again.
    assert!(run(b"\x80\x02]q\x00h\x00a.").contains("deeper"));
    let mut laughs = b"\x80\x02]q\x00".to_vec();
    for n in 0..20u8 {
        laughs.extend([b']', b'q', n + 1, b'(']);
        laughs.extend((0..20).flat_map(|_| [b'h', n]));
        laughs.push(b'e');
    }
    laughs.push(b'.');
    assert!(run(&laughs).contains("refers to itself"));
    assert!(run(b"\x80\x02]q\x00").contains("without its end"));
}

/// Runs a script of Python's on an input.
fn python(arguments: &[&str], input: &str) -> Vec<u8> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut command = Command::new("python3");
    let command = command.arg("-c").args(arguments);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap().stdout
}

/// A line of the Inspector's, of a process on host `a` or `b`.
fn inspected(
    comm: (&str, &str),
    (rank, of): (u32, u32),
    process: (&str, u32),
    call: &str,
) -> String {
    format!(
        r#"{{"header": {{"id": "{}", "comm_name": "{}", "rank": {rank}, "n_ranks": {of}, "nnodes": 2}}, "metadata": {{"inspector_output_format_version": "v4.0", "hostname": "{}", "pid": {}}}, {call}}}"#,
        comm.0, comm.1, process.0, process.1
    )
}

#[test]
fn ranks_of_communicators_become_ranks_of_the_job() {
    let all = |sn: u32| {
        format!(
            r#""coll_perf": {{"coll": "AllReduce", "coll_algo": "TREE", "coll_sn": {sn}, "coll_msg_size_bytes": 1000, "coll_exec_time_us": 5, "coll_busbw_gbs": 1.5}}"#
        )
    };
    let gather = r#""coll_perf": {"coll": "AllGather", "coll_sn": 1, "coll_msg_size_bytes": 64, "coll_exec_time_us": 5}"#;
    let send = r#""p2p_perf": {"p2p": "Send", "p2p_sn": 1, "p2p_peer": 0, "p2p_msg_size_bytes": 10, "p2p_exec_time_us": 1}"#;
    let world = ("0xaa", "world");
    let folder = tempfile::tempdir().unwrap();
    for (rank, host) in [(0u32, "a"), (1, "a"), (2, "b"), (3, "b")] {
        let process = (host, 100 + rank);
        let mut lines = vec![
            inspected(world, (rank, 4), process, &all(1)),
            inspected(world, (rank, 4), process, &all(4)),
        ];
        if rank % 2 == 1 {
            // Ranks 1 and 3 of the job, in the other order.
            let own = (3 - rank) / 2;
            lines.push(inspected(("0xbb", "odd"), (own, 2), process, gather));
            if own == 1 {
                lines.push(inspected(("0xbb", "odd"), (own, 2), process, send));
            }
        }
        fs::write(
            folder.path().join(format!("{host}-{rank}.log")),
            lines.join("\n"),
        )
        .unwrap();
    }
    let read = read_traffic(&format!("{}/*.log", folder.path().display())).unwrap();
    assert_eq!(read.tasks, 4);
    let odd = read.phases.iter().find(|p| p.name == "odd").unwrap();
    let pairs: Vec<(u32, u32, f64)> = odd
        .exchange
        .iter()
        .map(|(from, m)| (from, m.to, m.bytes))
        .collect();
    assert_eq!(pairs, [(1, 3, 64.0 + 10.0), (3, 1, 64.0)]);
    let notes = read.notes.join("\n");
    assert!(
        notes.contains("allreduce by tree (as the log says): 2 calls, 4 ranks"),
        "{notes}"
    );
    assert!(
        notes.contains("2 collective calls are not in the logs"),
        "{notes}"
    );
}

#[test]
fn a_log_with_one_header_for_many_calls_is_read() {
    let header = r#"{"header": {"id": 7, "comm_name": "unknown", "rank": 0, "n_ranks": 2, "nnodes": 1}, "metadata": {"inspector_output_format_version": "v4.3", "hostname": "a", "pid": 1}, "dump_stats": {"coll": {"records": 1, "dropped_total": 9, "dropped_since_last_dump": 4}}}"#;
    let call =
        r#"{"coll_perf": {"coll": "ReduceScatter", "coll_sn": 1, "coll_msg_size_bytes": 80}}"#;
    let log = format!("{header}\n{call}\n{call}\n");
    let read = traffic(&text("a.log", &log)).unwrap();
    assert_eq!((bytes(&read, 0, 1), bytes(&read, 1, 0)), (160.0, 160.0));
    assert!(
        read.notes
            .iter()
            .any(|n| n.contains("4 calls were dropped")),
        "{:?}",
        read.notes
    );
    let error = traffic(&text("a.log", &log[..log.len() - 5])).unwrap_err();
    assert!(error.to_string().starts_with("a.log:3:"), "{error}");
}

use super::*;
use crate::text::Limits;
use crate::traffic::LIMITS;
use hopbyte_fabric::collective::{Collective, How};
use hopbyte_fabric::trace::{Call, Dependency, Order};
use std::fmt::Write;

fn one(content: &str) -> Result<Trace, String> {
    let text = Text::from_bytes("t", content.as_bytes(), LIMITS).unwrap();
    trace(&text).map_err(|e| e.to_string())
}

fn many(files: &[(&str, String)]) -> Result<Trace, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    read_trace(&folder.path().display().to_string()).map_err(|e| e.to_string())
}

fn send(to: u32, tag: u32, bytes: f64, request: Option<u32>) -> Call {
    Call::Send {
        to,
        tag,
        group: 0,
        request,
        bytes,
    }
}

fn receive(from: u32, tag: u32, request: Option<u32>) -> Call {
    Call::Receive {
        from: Some(from),
        tag: Some(tag),
        group: 0,
        request,
    }
}

fn collective(kind: Collective, root: u32, bytes: f64) -> Call {
    Call::Collective {
        kind,
        how: How::default(),
        group: 0,
        root,
        bytes,
        row: None,
        request: None,
        neighbors: false,
    }
}

#[test]
fn simgrid_calls_have_their_bytes() {
    let t = one(
        "# made by hand\n0 init 1\n1 init\n0 compute 5e6\n0 isend 1 7 100\n0 irecv 1 7 -1 6\n\
         0 wait 0 1 7\n0 waitall\n0 send 1 3 10 1\n1 recv 0 7 100\n1 isend 0 7 20\n1 waitall\n\
         1 recv 0 3 10\n1 sleep 2\n0 finalize\n1 finalize\n",
    )
    .unwrap();
    assert_eq!(
        t.ranks[0].calls,
        [
            Call::Work { operations: 5e6 },
            send(1, 7, 800.0, Some(0)),
            receive(1, 7, Some(1)),
            Call::Wait { request: 0 },
            Call::WaitAll,
            send(1, 3, 40.0, None),
        ]
    );
    assert_eq!(t.ranks[1].calls[1], send(0, 7, 20.0, Some(0)));
    assert_eq!(t.ranks[1].calls[4], Call::Compute { seconds: 2.0 });
    // Without tags and with p before the rank, as from old versions.
    let old = one("p0 send 1 10\np1 recv 0 10\n").unwrap();
    assert_eq!(old.ranks[0].calls, [send(1, 0, 10.0, None)]);
    let traffic = t.traffic().unwrap();
    assert_eq!(traffic.total().sends(0)[0].bytes, 840.0);
    assert_eq!(traffic.total().sends(1)[0].bytes, 20.0);
}

#[test]
fn roots_of_lists_are_ranks_of_the_job() {
    let gathered = |root: &str| one(&format!("0 init\n0 gatherv 3 1 {root}\n0 finalize\n"));
    assert!(gathered("0").is_ok());
    for root in ["4", "0.5", "-1"] {
        let error = gathered(root).unwrap_err().to_string();
        assert!(error.contains(&format!("with the root {root}")), "{error}");
    }
}

#[test]
fn simgrid_collectives() {
    let mut content = String::new();
    for r in 0..2 {
        writeln!(
            content,
            "{r} init\n{r} bcast 5 1 1\n{r} reduce 3 9 1 0\n{r} allreduce 2 0\n{r} alltoall 4 4\n\
             {r} gather 6 6 1 0 0\n{r} scatter 6 7 1 0 0\n{r} allgather 2 2 0 0\n{r} barrier\n\
             {r} alltoallv 3 1 2 3 1 2 1 1\n{r} allgatherv 5 5 5\n{r} gatherv {r} 1 2 1\n\
             {r} scatterv 1 2 {r} 1\n{r} reducescatter 3 4 0\n{r} finalize"
        )
        .unwrap();
    }
    let t = one(&content).unwrap();
    use Collective as C;
    let calls = &t.ranks[1].calls;
    let expected = [
        collective(C::Broadcast, 1, 20.0),
        collective(C::Reduce, 1, 24.0),
        Call::Work { operations: 9.0 },
        collective(C::Allreduce, 0, 2.0),
        collective(C::Alltoall, 0, 4.0),
        collective(C::Gather, 1, 48.0),
        collective(C::Scatter, 1, 56.0),
        collective(C::Allgather, 0, 16.0),
        collective(C::Barrier, 0, 0.0),
    ];
    assert_eq!(calls[..9], expected);
    assert!(matches!(calls[9], Call::Collective { row: Some(0), .. }));
    // Elements of type 1 (int) are 4 bytes.
    assert_eq!(t.ranks[1].rows, [4.0, 8.0]);
    let vector = |mut call| {
        if let Call::Collective { how, .. } = &mut call {
            how.vector = true;
        }
        call
    };
    assert_eq!(
        calls[10..],
        [
            vector(collective(C::Allgather, 0, 5.0)),
            collective(C::Gather, 1, 1.0),
            collective(C::Scatter, 1, 1.0),
            vector(collective(C::ReduceScatter, 0, 4.0)),
        ]
    );
    assert_eq!(t.traffic().unwrap().phases.len(), 9);
}

#[test]
fn simgrid_refuses_what_is_not_whole() {
    for (content, part) in [
        (
            "0 init\n0 send 1\n",
            "t:2: found 0 send 1, expected at least 2 arguments",
        ),
        ("0 init\n0 compute -5\n", "a non-negative number"),
        ("0 init\n0 compute nan\n", "a non-negative number"),
        ("0 init\n2 init\n", "rank 1 is missing"),
        ("0 init\n16777215 init\n", "rank 1 is missing"),
        ("0 init\n0 send 1 0 9\n0 finalize\n", "give the folder"),
        ("0 init\n0 bcast 9 3\n0 finalize\n", "rank 1 is missing"),
        ("0 init\n99999999999 init\n", "a rank"),
        ("0 init\n0 jump 3\n", "an action"),
        ("0 init\n0 bcast 5 0 77\n", "a datatype from 0 to 29"),
        ("0 init\n1 init\n0 alltoallv 1 2\n", "counts for 2 ranks"),
        ("0 init\n0 isend 0 -3 5\n", "a non-negative tag"),
        (
            "0 init\n1 init\n0 barrier\n0 finalize\n1 barrier\n",
            "the end of rank 1 after 1 calls, expected finalize",
        ),
    ] {
        let error = one(content).unwrap_err();
        assert!(error.contains(part), "{content}: {error}");
    }
    // One rank waits in a collective that the other never calls.
    let t = one("0 init\n1 init\n0 barrier\n0 finalize\n1 finalize\n").unwrap();
    assert!(t.traffic().is_err());
}

#[test]
fn simgrid_s_list_of_files_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("ti_files")).unwrap();
    std::fs::write(path("ti_files/0.txt"), "0 init\n0 send 1 0 5\n0 finalize\n").unwrap();
    std::fs::write(path("ti_files/1.txt"), "1 init\n1 recv 0 0 5\n1 finalize\n").unwrap();
    std::fs::write(path("ti.txt"), "ti_files/0.txt\nti_files/1.txt\n").unwrap();
    let read = || read_trace(path("ti.txt").to_str().unwrap()).map_err(|e| e.to_string());
    assert_eq!(read().unwrap().ranks.len(), 2);
    std::fs::write(path("ti.txt"), "ti_files/0.txt\nti_files/2.txt\n").unwrap();
    assert!(read().unwrap_err().contains("2.txt"));
    // A list cannot name files outside its folder.
    std::fs::write(path("ti.txt"), "../ti_files/0.txt\n").unwrap();
    assert!(read().unwrap_err().contains("no trace"));
}

#[test]
fn goal_is_a_graph() {
    let t = one(
        "// made by hand\nnum_ranks 2\n\nrank 0 {\nl1: calc 1500 cpu 1\nl2: send 8b to 1 tag 3 cpu 0 nic 1\n\
         l2 requires l1\nl3: recv 4 b from -1 tag -1\nl3 irequires l2\n}\n/* two\nlines */\n\
         rank 1 { a: recv 8b from 0 tag 3; b: send 4b to 0; b requires a }\n",
    )
    .unwrap();
    let seconds = 1500.0 * 1e-9;
    let any = Call::Receive {
        from: None,
        tag: None,
        group: 0,
        request: None,
    };
    assert_eq!(
        t.ranks[0].calls,
        [Call::Compute { seconds }, send(1, 3, 8.0, None), any]
    );
    let order = |later, earlier, begun| Dependency {
        later,
        earlier,
        begun,
    };
    assert_eq!(
        t.ranks[0].order,
        Order::Graph(vec![order(1, 0, false), order(2, 1, true)])
    );
    assert_eq!(t.ranks[1].calls[1], send(0, 0, 4.0, None));
    let total = t.traffic().unwrap().total();
    assert_eq!(
        (total.sends(0)[0].bytes, total.sends(1)[0].bytes),
        (8.0, 4.0)
    );
}

#[test]
fn goal_refuses_counts_that_the_file_cannot_hold() {
    for (content, part) in [
        (
            "num_ranks 4000000000\nrank 0 {\n}\n",
            "as many as the file can hold",
        ),
        ("num_ranks 2\nrank 0 {\n}\n", "rank 1 is missing"),
        ("num_ranks 1\nrank 0 {\n", "a closing brace of rank 0"),
        ("num_ranks 1\nrank 1 {\n}\n", "a rank below 1"),
        (
            "num_ranks 1\nrank 0 {\na: send 8b to 1\n}\n",
            "a rank below 1",
        ),
        (
            "num_ranks 1\nrank 0 {\na requires b\n}\n",
            "a label of this rank",
        ),
        (
            "num_ranks 1\nrank 0 {\na: calc 1\na: calc 2\n}\n",
            "label a once more",
        ),
        ("num_ranks 1\nrank 0 {\ncalc -1\n}\n", "a whole number"),
        ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}\n", "no block yet"),
        ("num_ranks 1\ncalc 5\n", "num_ranks N, or rank R"),
    ] {
        let error = one(content).unwrap_err();
        assert!(error.contains(part), "{content}: {error}");
    }
}

/// A DUMPI text from calls of a name and arguments, 2 ms apart and 1 ms long.
fn dumpi(calls: &[(&str, &[&str])]) -> String {
    let mut text = String::from("version=1.0.0\nhostname=h\nmeshdim=0\n");
    for (i, (name, arguments)) in calls.iter().enumerate() {
        let at = |ms: usize| {
            format!(
                "at walltime 12.{:09}, cputime 0.1 seconds in thread 0.",
                ms * 1_000_000
            )
        };
        writeln!(text, "MPI_{name} entering {}", at(2 * i)).unwrap();
        for a in *arguments {
            writeln!(text, "{a}").unwrap();
        }
        writeln!(text, "MPI_{name} returning {}", at(2 * i + 1)).unwrap();
    }
    text + "Total keyvals: 0\nMPI_Send called 0 times and ignored 0 times\n\
            Datatype 9 (MPI_INT) has size 4\nDatatype 14 (MPI_DOUBLE) has size 8\n"
}

const WORLD: &str = "MPI_Comm comm=2 (MPI_COMM_WORLD)";
const INT: &str = "MPI_Datatype datatype=9 (MPI_INT)";

fn without_computing(t: &Trace, rank: usize) -> Vec<Call> {
    let calls = t.ranks[rank].calls.iter();
    calls
        .filter(|c| !matches!(c, Call::Compute { .. }))
        .copied()
        .collect()
}

#[test]
fn dumpi_requests_and_statuses() {
    let zero = dumpi(&[
        ("Comm_size", &[WORLD, "int size=2"]),
        ("Comm_rank", &[WORLD, "int rank=0"]),
        (
            "Isend",
            &[
                "int count=3",
                INT,
                "int dest=1",
                "int tag=5",
                WORLD,
                "MPI_Request request=[4]",
            ],
        ),
        (
            "Irecv",
            &[
                "int count=9",
                INT,
                "int source=-1 (MPI_ANY_SOURCE)",
                "int tag=-1 (MPI_ANY_TAG)",
                WORLD,
                "MPI_Request request=[5]",
            ],
        ),
        (
            "Waitall",
            &[
                "int count=2",
                "MPI_Request requests[2]=[4, 5]",
                "MPI_Status statuses[2]=[{bytes=0, cancelled=0, source=9, tag=9, error=0}, {bytes=8, cancelled=0, source=1, tag=5, error=0}]",
            ],
        ),
        (
            "Test",
            &[
                "MPI_Request request=[4]",
                "int flag=0",
                "MPI_Status status=<IGNORED>",
            ],
        ),
        (
            "Send",
            &["int count=1", INT, "int dest=-3", "int tag=5", WORLD],
        ),
    ]);
    let one = dumpi(&[
        (
            "Recv",
            &[
                "int count=3",
                INT,
                "int source=-1 (MPI_ANY_SOURCE)",
                "int tag=5",
                WORLD,
                "MPI_Status status=[{bytes=12, cancelled=0, source=0, tag=5, error=0}]",
            ],
        ),
        (
            "Sendrecv",
            &[
                "int sendcount=1",
                "MPI_Datatype sendtype=14 (MPI_DOUBLE)",
                "int dest=0",
                "int sendtag=5",
                "int recvcount=1",
                "MPI_Datatype recvtype=9 (MPI_INT)",
                "int source=1",
                "int recvtag=2",
                WORLD,
                "MPI_Status status=<IGNORED>",
            ],
        ),
    ]);
    // The second rank never queries its number: it is taken from the file's name.
    let t = many(&[
        ("dumpi-0000.txt", zero.clone()),
        ("dumpi-0001.txt", one.clone()),
        ("notes.txt", "nothing of interest\n".into()),
    ])
    .unwrap();
    let any_tag = Call::Receive {
        from: Some(1),
        tag: None,
        group: 0,
        request: Some(5),
    };
    assert_eq!(
        without_computing(&t, 0),
        [
            send(1, 5, 12.0, Some(4)),
            any_tag,
            Call::Wait { request: 4 },
            Call::Wait { request: 5 },
        ]
    );
    let both = Some(u32::MAX);
    assert_eq!(
        without_computing(&t, 1),
        [
            receive(0, 5, None),
            send(0, 5, 8.0, both),
            receive(1, 2, None),
            Call::Wait { request: u32::MAX },
        ]
    );
    let computing: f64 = t.ranks[0]
        .calls
        .iter()
        .map(|c| match c {
            Call::Compute { seconds } => *seconds,
            _ => 0.0,
        })
        .sum();
    assert!(
        (computing - 6e-3).abs() < 1e-9,
        "six gaps of 1 ms: {computing}"
    );
    let error = many(&[("dumpi-0000.txt", zero)]).unwrap_err();
    assert!(error.contains("rank 1 is missing"), "{error}");
    let cut = one
        .rsplit_once("MPI_Sendrecv returning")
        .unwrap()
        .0
        .to_owned();
    let error = many(&[("dumpi-0001.txt", cut)]).unwrap_err();
    assert!(
        error.contains("the line on which this call returns"),
        "{error}"
    );
}

#[test]
fn dumpi_communicators_are_followed() {
    // A 2 x 2 grid, its rows, and an odd-even split of the world with keys that reverse the order.
    let file = |rank: usize| {
        let rank_line = format!("int rank={rank}");
        let color = format!("int color={}", rank % 2);
        let key = format!("int key={}", 10 - rank);
        let counts: [&str; 1] = ["int recvcounts[2]=[3, 5]"];
        dumpi(&[
            ("Comm_rank", &[WORLD, &rank_line]),
            (
                "Cart_create",
                &[
                    "MPI_Comm oldcomm=2 (MPI_COMM_WORLD)",
                    "int ndim=2",
                    "int dims[2]=[2, 2]",
                    "int periods[2]=[0, 0]",
                    "int reorder=1",
                    "MPI_Comm newcomm=4 (user-defined)",
                ],
            ),
            (
                "Cart_sub",
                &[
                    "int ndim=2",
                    "MPI_Comm oldcomm=4 (user-defined)",
                    "int remain_dims[2]=[0, 1]",
                    "MPI_Comm newcomm=5 (user-defined)",
                ],
            ),
            (
                "Comm_split",
                &[
                    "MPI_Comm oldcomm=2 (MPI_COMM_WORLD)",
                    &color,
                    &key,
                    "MPI_Comm newcomm=6 (user-defined)",
                ],
            ),
            (
                "Bcast",
                &[
                    "int count=2",
                    INT,
                    "int root=0",
                    "MPI_Comm comm=5 (user-defined)",
                ],
            ),
            (
                "Bcast",
                &[
                    "int count=7",
                    INT,
                    "int root=0",
                    "MPI_Comm comm=6 (user-defined)",
                ],
            ),
            (
                "Reduce_scatter",
                &[
                    "int commsize=2",
                    counts[0],
                    INT,
                    "MPI_Op op=3 (MPI_SUM)",
                    "MPI_Comm comm=6 (user-defined)",
                ],
            ),
        ])
    };
    let files: Vec<(String, String)> = (0..4).map(|r| (format!("d-{r}.txt"), file(r))).collect();
    let files: Vec<(&str, String)> = files.iter().map(|(n, c)| (n.as_str(), c.clone())).collect();
    let t = many(&files).unwrap();
    for members in [vec![0, 1], vec![2, 3], vec![2, 0], vec![3, 1]] {
        assert!(t.groups.contains(&members), "{members:?} in {:?}", t.groups);
    }
    // In its part of the split, rank 0 is the second member: its block has 5 numbers.
    let last = t.ranks[0].calls.last().unwrap();
    assert!(
        matches!(last, Call::Collective { kind: Collective::ReduceScatter, bytes, row: None, .. } if *bytes == 20.0),
        "{last:?}"
    );
    let traffic = t.traffic().unwrap();
    let broadcast = traffic
        .phases
        .iter()
        .find(|p| p.name == "broadcast")
        .unwrap();
    let bytes = |from, to: u32| {
        let sends = broadcast.exchange.sends(from);
        sends.iter().find(|m| m.to == to).map(|m| m.bytes)
    };
    assert_eq!(bytes(0, 1), Some(8.0));
    assert_eq!(bytes(2, 0), Some(28.0), "the root of {{2, 0}} is rank 2");
    let broken = file(0).replace("MPI_Cart_sub", "MPI_Graph_create");
    let mut files = files;
    files[0].1 = broken;
    let error = many(&files).unwrap_err();
    assert!(error.contains("MPI_Graph_create"), "{error}");
}

#[test]
fn archives_of_traces_pass_over_the_rest() {
    let limits = Limits {
        bytes: 1 << 20,
        ..LIMITS
    };
    let text = Text::from_bytes("b", b"\x7fELF\0\0", limits).unwrap();
    assert!(Format::of(&text).is_none());
    for (content, format) in [
        ("0 init\n", Some("SimGrid time-independent trace")),
        ("/* c */\nnum_ranks 1\n", Some("GOAL schedule")),
        ("0 1 5\n", None),
        ("3 2\n2\n1 3\n2\n", None),
        ("src,dst,bytes\n", None),
    ] {
        let text = Text::from_bytes("b", content.as_bytes(), limits).unwrap();
        assert_eq!(Format::of(&text).map(|f| f.known.name), format, "{content}");
    }
}

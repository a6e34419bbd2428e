use super::entries::Entry;
use super::*;

fn read(content: &str) -> Result<Traffic, String> {
    let text = Text::from_bytes("t", content.as_bytes(), LIMITS).unwrap();
    traffic(&text).map_err(|e| e.to_string())
}

/// The sum of all entries of all phases.
fn entries(content: &str) -> Vec<Entry> {
    let total = read(content)
        .unwrap_or_else(|e| panic!("{content}: {e}"))
        .total();
    total
        .iter()
        .map(|(from, m)| (from, m.to, m.bytes, m.messages))
        .collect()
}

#[test]
fn a_square_of_numbers_is_a_dense_matrix() {
    let expected = [(0, 1, 5.0, 0), (1, 0, 2.5, 0)];
    assert_eq!(entries("0 5\n2.5 0 \n"), expected);
    assert_eq!(
        entries("7,5\n2.5e0, 9,\n"),
        expected,
        "the diagonal crosses no link"
    );
    assert_eq!(entries("# one\n\n% two\n0\t5\n2.5\t0"), expected);
    assert_eq!(read("0 5\n2.5 0\n").unwrap().tasks, 2);
    // Three lines of three: read as a matrix, although they could be three triplets.
    assert_eq!(
        entries("0 1 5\n0 0 0\n0 0 0\n"),
        [(0, 1, 1.0, 0), (0, 2, 5.0, 0)]
    );
}

#[test]
fn lists_of_pairs() {
    let expected = [(0, 3, 10.0, 0), (2, 1, 7.0, 0)];
    assert_eq!(entries("2 1 3\n0 3 10\n2 1 4\n1 1 99\n"), expected);
    assert_eq!(entries("2,1,3\n0,3,10\n2,1,4\n1,1,99\n"), expected);
    assert_eq!(read("0 3 10\n").unwrap().tasks, 4);
    assert_eq!(
        entries("src,dst,bytes,messages\n0,3,10,2\n"),
        [(0, 3, 10.0, 2)]
    );
    assert_eq!(
        entries("0,3,10,2\n1,0,1,1\n"),
        [(0, 3, 10.0, 2), (1, 0, 1.0, 1)]
    );
    assert_eq!(
        entries("Messages,Dst,Src,Bytes\n2,3,0,10\n"),
        [(0, 3, 10.0, 2)]
    );
    assert_eq!(
        entries("src,dst,bytes\n0,3,10\n1,0,4\n"),
        [(0, 3, 10.0, 0), (1, 0, 4.0, 0)]
    );
    let phases = read("src,dst,bytes,messages,phase\n0,1,10,1,a\n3,3,0,0,a\n0,1,5,1,b\n").unwrap();
    assert_eq!(
        (
            phases.tasks,
            phases.phases.len(),
            phases.phases[1].name.as_str()
        ),
        (4, 2, "b")
    );
    assert_eq!(phases.phases[0].exchange.total_bytes(), 10.0);
    // A .topo states the number of ranks.
    let topo = read("1024\n0 1 643976096\n").unwrap();
    assert_eq!((topo.tasks, topo.total().pairs()), (1024, 1));
}

#[test]
fn matrix_market_in_its_forms() {
    let head = "%%MatrixMarket matrix coordinate";
    let expected = [(0, 1, 3.0, 0), (2, 0, 1.5, 0)];
    assert_eq!(
        entries(&format!(
            "{head} real general\n% c\n3 3 3\n1 2 3\n3 1 1.5\n2 2 8\n"
        )),
        expected
    );
    assert_eq!(
        entries(&format!("{head} integer symmetric\n2 2 1\n2 1 9\n")),
        [(0, 1, 9.0, 0), (1, 0, 9.0, 0)]
    );
    assert_eq!(
        entries(&format!("{head} pattern symmetric\n2 2 2\n1 1\n2 1\n")),
        [(0, 1, 1.0, 0), (1, 0, 1.0, 0)]
    );
    let array = "%%MatrixMarket matrix array real";
    assert_eq!(
        entries(&format!("{array} general\n2 2\n0\n4\n5 0\n")),
        [(0, 1, 5.0, 0), (1, 0, 4.0, 0)]
    );
    assert_eq!(
        entries(&format!("{array} symmetric\n2 2\n8\n4\n8\n")),
        [(0, 1, 4.0, 0), (1, 0, 4.0, 0)]
    );
    // CHOLMOD's triplets.
    assert_eq!(
        entries("% title\n 3 3 2 -1\n 2 1 5\n 3 3 1\n"),
        [(0, 1, 5.0, 0), (1, 0, 5.0, 0)]
    );
    assert_eq!(
        entries("3 3 2 0\n2 1 5\n3 1 1\n"),
        [(1, 0, 5.0, 0), (2, 0, 1.0, 0)]
    );
}

#[test]
fn metis_graphs_with_and_without_weights() {
    let path = [
        (0, 1, 1.0, 0),
        (1, 0, 1.0, 0),
        (1, 2, 1.0, 0),
        (2, 1, 1.0, 0),
    ];
    assert_eq!(entries("% a path\n3 2\n2\n1 3\n2\n"), path);
    assert_eq!(entries("3 2 000\n2\n1 3\n2\n"), path);
    assert_eq!(entries("3 2 010\n9 2\n9 1 3\n9 2\n"), path);
    assert_eq!(entries("3 2 110 2\n5 9 8 2\n5 9 8 1 3\n5 9 8 2\n"), path);
    assert_eq!(
        entries("3 2 1\n2 7\n1 7 3 4\n2 4\n"),
        [
            (0, 1, 7.0, 0),
            (1, 0, 7.0, 0),
            (1, 2, 4.0, 0),
            (2, 1, 4.0, 0)
        ]
    );
    // A vertex without neighbours is an empty line, also the last one, which may be lost.
    for content in ["4 1\n\n3\n2\n\n", "4 1\n\n3\n2\n", "4 1\n\n3\n2"] {
        let t = read(content).unwrap();
        assert_eq!((t.tasks, t.total().pairs()), (4, 2), "{content:?}");
    }
    // A ring: every line has two words, the header three.
    assert_eq!(
        read("4 4 000\n2 4\n1 3\n2 4\n1 3\n")
            .unwrap()
            .total()
            .pairs(),
        8
    );
}

const PROF_0: &str = "# POINT TO POINT\nE\t0\t1\t100 bytes\t4 msgs sent\t1,2\nI\t0\t1\t8 bytes\t1 msgs sent\n# OSC\nS\t0\t1\t50 bytes\t1 msgs sent\nR\t0\t1\t60 bytes\t1 msgs sent\n# COLLECTIVES\nC\t0\t1\t8 bytes\t1 msgs sent\nD\tMPI_COMM_WORLD\tprocs: 0,1\nO2A\t1\t2\n";
const PROF_1: &str = "# POINT TO POINT\nE\t1\t0\t7 bytes\t1 msgs sent\n# OSC\n# COLLECTIVES\n";

pub(super) fn prof(files: &[(&str, &str)]) -> Result<Traffic, String> {
    let texts: Vec<Text> = files
        .iter()
        .map(|(name, content)| Text::from_bytes(*name, content.as_bytes(), LIMITS).unwrap())
        .collect();
    let format = Format::of(&texts[0]).map_err(|e| e.to_string())?;
    format
        .read("run", &mut texts.into_iter().map(Ok), None)
        .map(|found| found.0)
        .map_err(|e| e.to_string())
}

#[test]
fn monitoring_keeps_application_library_and_one_sided_apart() {
    let t = prof(&[("x.0.prof", PROF_0), ("x.1.prof", PROF_1)]).unwrap();
    let names: Vec<_> = t.phases.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["point-to-point", "library", "one-sided"]);
    let phase = |i: usize| -> Vec<Entry> {
        let e = &t.phases[i].exchange;
        e.iter()
            .map(|(f, m)| (f, m.to, m.bytes, m.messages))
            .collect()
    };
    assert_eq!(phase(0), [(0, 1, 100.0, 4), (1, 0, 7.0, 1)]);
    assert_eq!(phase(1), [(0, 1, 8.0, 1)]);
    // Puts travel to the target, gets travel back.
    assert_eq!(phase(2), [(0, 1, 50.0, 1), (1, 0, 60.0, 1)]);
    // A rank with an empty file is known by the file's name.
    let silent = prof(&[
        ("x.0.prof", PROF_0),
        ("x.1.prof", "# POINT TO POINT\n# OSC\n# COLLECTIVES\n"),
    ])
    .unwrap();
    assert_eq!(silent.tasks, 2);
}

#[test]
fn ranks_that_are_missing_or_double_are_named() {
    for (files, found) in [
        (&[("x.0.prof", PROF_0)][..], "rank 1 is missing"),
        (
            &[("x.0.prof", PROF_0), ("y.0.prof", PROF_0)],
            "rank 0 once more",
        ),
        (
            &[("x.prof", "# POINT TO POINT\n# OSC\n# COLLECTIVES\n")],
            "neither a line nor a number",
        ),
        (
            &[(
                "x.0.prof",
                "# POINT TO POINT\nE\t0\t1\t1 bytes\t1 msgs sent\nE\t1\t0\t1 bytes\t1 msgs sent\n",
            )],
            "E\\t1",
        ),
        (
            &[(
                "x.0.prof",
                "# POINT TO POINT\nE\t0\t1\t1 bytes\t1 msgs sent\n# OSC\n",
            )],
            "was the file cut off?",
        ),
        (
            &[("x.0.prof", "# POINT TO POINT\nE\t0\t1\t1 bytes\n")],
            "E\\t0",
        ),
        (
            &[(
                "x.0.prof",
                "# POINT TO POINT\nE\t0\t1\t-1 bytes\t1 msgs sent\n",
            )],
            "-1",
        ),
        (
            &[(
                "x.0.prof",
                "# POINT TO POINT\nE\t0\t1000000000\t1 bytes\t1 msgs sent\n",
            )],
            "1000000000",
        ),
        (
            &[(
                "x.0.prof",
                "# POINT TO POINT\nQ\t0\t1\t1 bytes\t1 msgs sent\n",
            )],
            "Q",
        ),
        (&[("a.mtx", "0 1\n1 0\n"), ("b.mtx", "0 1\n1 0\n")], "0 1"),
    ] {
        let error = prof(files).unwrap_err();
        assert!(
            error.contains(found) && error.contains("expected"),
            "{error}"
        );
    }
}

pub(super) fn hbr(rank: u32, size: u32, body: &str) -> String {
    let lines = format!(
        "# hopbyte-record 2\nrank\t{rank}\nsize\t{size}\nspawned\t0\n{body}ended\tfinalize\n"
    );
    format!("{lines}end\t{}\n", lines.lines().count())
}

#[test]
fn records_of_our_own_by_phase_and_kind() {
    let first = "phase\t0\tmain\nphase\t3\tsolve/halo\ngroup\tab\t3\t0-2\ngroup\tcd\t2\t0-2:2\n";
    let bodies = [
        format!("{first}P\t3\t1\t100\t2\nP\t3\t1\t11\t1\nP\t3\t-1\t5\t1\nK\t0\tab\talltoall\t-1\t8\t8\t1\nsomething\tnew\n"),
        "phase\t1\tmain\ngroup\tab\t3\t-\nK\t1\tab\talltoall\t-1\t8\t8\t1\nP\t1\t1\t9\t1\n".to_string(),
        "phase\t0\tmain\ngroup\tcd\t2\t-\nC\t0\tcd\talltoallv\t0\t4\t1\nR\t0\tput\tout\t1\t70\t1\nR\t0\tget\tin\t1\t80\t1\nK\t0\tcd\talltoallv\t-1\t-\t4\t1\nK\t0\tab\talltoall\t-1\t8\t8\t1\n".to_string(),
    ];
    let files: Vec<(String, String)> = (0..3)
        .map(|r| (format!("rank.{r}.hbr"), hbr(r, 3, &bodies[r as usize])))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(n, c)| (n.as_str(), c.as_str()))
        .collect();
    let t = prof(&files).unwrap();
    let phase = |name: &str| -> Vec<Entry> {
        let p = t.phases.iter().find(|p| p.name == name).unwrap();
        p.exchange
            .iter()
            .map(|(f, m)| (f, m.to, m.bytes, m.messages))
            .collect()
    };
    assert_eq!(t.tasks, 3);
    assert_eq!(phase("solve/halo"), [(0, 1, 111.0, 3)]);
    assert_eq!(
        phase("main collectives"),
        [
            (0, 1, 8.0, 1),
            (0, 2, 8.0, 1),
            (1, 0, 8.0, 1),
            (1, 2, 8.0, 1),
            (2, 0, 12.0, 2),
            (2, 1, 8.0, 1),
        ]
    );
    assert_eq!(phase("main one-sided"), [(1, 2, 80.0, 1), (2, 1, 70.0, 1)]);
    assert_eq!(phase("main"), [], "messages of rank 1 to itself");
    let damaged = |change: fn(&str) -> String| {
        let content = change(files[0].1);
        prof(&[("rank.0.hbr", content.as_str()), files[1], files[2]]).unwrap_err()
    };
    for (error, found) in [
        (prof(&files[..2]).unwrap_err(), "rank 2 is missing"),
        (damaged(|c| c.replace("ended\tfinalize\n", "")), "end"),
        (
            damaged(|c| c.replace("size\t3", "size\t4")),
            "a world of 3 ranks",
        ),
        (
            damaged(|c| c.replace("size\t3", "size\t1000000000")),
            "1000000000",
        ),
        (damaged(|c| c.replace("0-2:2", "0-9999999")), "0-9999999"),
        (
            damaged(|c| c.replace("group\tab\t3\t0-2", "group\tab\t3\t0-1")),
            "0-1",
        ),
        (damaged(|c| c.replace("\t100\t2", "\t-100\t2")), "-100"),
        (damaged(|c| c.replace("P\t3\t1", "P\t9\t1")), "9"),
        (damaged(|c| c.replace("P\t3\t1\t11", "P\t3\t7\t11")), "7"),
        (
            damaged(|c| c.replace("record 2", "record 1")),
            "record the job again",
        ),
    ] {
        assert!(
            error.contains(found) && error.contains("expected"),
            "{error}"
        );
    }
}

#[test]
fn numbers_that_make_no_sense_are_refused_where_they_stand() {
    for (content, line, found) in [
        ("0 -5\n1 0\n", 1, "-5"),
        ("0 5\nnan 0\n", 2, "nan"),
        ("0 5\ninf 0\n", 2, "inf"),
        ("0,5,1,2,3\n1,0,1,2\n", 1, "5 numbers"),
        ("0 1 -3\n1 0 1\n", 1, "-3"),
        ("0 1000000000 3\n", 1, "1000000000"),
        ("1000000000\n0 1 3\n", 1, "1000000000"),
        ("4\n0 4 3\n", 2, "4"),
        ("src,dst,size\n0,1,2\n", 1, "src,dst,size"),
        ("src,dst,bytes\n0,1\n", 2, "2 cells"),
        ("src,dst,bytes\n0,1,x\n", 2, "x"),
        ("src,dst,bytes\n0,1,1,1\n", 2, "4 cells"),
        ("src,dst,bytes\n", 0, "nothing"),
        (
            "%%MatrixMarket matrix coordinate real general\n1000000000 1000000000 1\n1 1 1\n",
            2,
            "1000000000",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1\n",
            2,
            "3",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1\n",
            2,
            "2",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n0 2 1\n",
            3,
            "0",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 -1\n",
            3,
            "-1",
        ),
        (
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2\n",
            3,
            "1 2",
        ),
        (
            "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 2 1 1\n",
            1,
            "complex",
        ),
        (
            "%%MatrixMarket matrix coordinate real hermitian\n2 2 1\n",
            1,
            "hermitian",
        ),
        (
            "%%MatrixMarket matrix array pattern general\n2 2\n",
            1,
            "pattern",
        ),
        (
            "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n",
            2,
            "2 2",
        ),
        (
            "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n5\n",
            7,
            "5",
        ),
        ("%%MatrixMarket\n", 1, "%%MatrixMarket"),
        (
            "%%MatrixMarket matrix coordinate real general\n",
            1,
            "%%Matrix",
        ),
        ("3 3 1 7\n1 2 3\n", 1, "7"),
        ("3 3 9 0\n1 2 3\n", 1, "9"),
        ("3 2\n2\n1 1\n2\n", 0, "an edge from"),
        ("3 2\n2\n2 3\n2\n", 3, "2"),
        ("3 2\n2\n1 4\n2\n", 3, "4"),
        ("3 9\n2\n1 3\n2\n", 1, "9"),
        ("1000000000 2\n2\n1 3\n2\n", 1, "1000000000"),
        ("2 1\n2\n1\n1\n", 4, "1"),
        ("2 1 1\n2 5\n1 6\n", 0, "an edge from 1 to 2 of 5"),
        ("hello\n", 1, "hello"),
        ("1 2 3 4 5\n", 1, "5 numbers"),
        ("", 0, "nothing"),
        ("# only a comment\n", 0, "nothing"),
    ] {
        let error = read(content).unwrap_err();
        assert!(
            error.contains(found) && error.contains("expected"),
            "{content:?}: {error}"
        );
        let start = if line > 0 {
            format!("t:{line}: ")
        } else {
            "t: ".into()
        };
        assert!(error.starts_with(&start), "{content:?}: {error}");
    }
}

#[test]
fn specs_files_lists_and_what_is_no_traffic() {
    assert_eq!(read_traffic("stencil:4x4x4:7").unwrap().tasks, 64);
    for (name, found) in [
        ("stencil:4x4x4:9", "hint"),
        ("/nonexistent/traffic", "check the path"),
        ("/nonexistent/*.prof", "/nonexistent"),
        ("/*.prof", "no such file"),
        ("/nonexistent/a.prof,/nonexistent/b.prof", "a.prof"),
    ] {
        let error = read_traffic(name).unwrap_err().to_string();
        assert!(error.contains(found), "{name}: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let empty = read_traffic(&at("")).unwrap_err().to_string();
    assert!(empty.contains("no file of a rank"), "{empty}");
    std::fs::write(at("x.0.prof"), PROF_0).unwrap();
    std::fs::write(at("x.1.prof"), PROF_1).unwrap();
    std::fs::write(at("README"), "not a rank").unwrap();
    let expected = prof(&[("x.0.prof", PROF_0), ("x.1.prof", PROF_1)]).unwrap();
    let list = [at("x.0.prof"), at("x.1.prof")].join(",");
    for name in [at(""), at("*.prof"), at("x.?.pro*"), list] {
        let t = read_traffic(&name).unwrap();
        assert_eq!(
            (&t.phases, t.tasks),
            (&expected.phases, expected.tasks),
            "{name}"
        );
    }
    let one = read_traffic(&at("x.0.prof")).unwrap_err().to_string();
    assert!(
        one.contains("rank 1 is missing") && one.contains("hint"),
        "{one}"
    );
    std::fs::write(at("rank.0.hbr"), "").unwrap();
    let mixed = read_traffic(&at("")).unwrap_err().to_string();
    assert!(mixed.contains("two recorders"), "{mixed}");
    std::fs::write(at("binary"), b"\0\0\0").unwrap();
    let binary = read_traffic(&at("binary")).unwrap_err().to_string();
    assert!(binary.contains("binary data"), "{binary}");
}

/// Calls of five ranks: sizes that differ by rank, members with different numbers of calls, groups that no file
/// lists.
#[test]
fn collective_calls_are_expanded_and_what_is_missing_is_said() {
    let body = |rank: u32| {
        let list = if rank == 0 { "4,3,1-2" } else { "-" };
        let block = [0, 10, 20, 30, 40][rank as usize];
        let calls = if rank == 2 { 1 } else { 2 };
        let mut body = format!("phase\t0\tmain\ngroup\tab\t4\t{list}\n");
        if rank > 0 {
            body += &format!("K\t0\tab\tallgatherv\t-1\t100\t{block}\t1\n");
            // Rank 4 did not need to round.
            let size = if rank == 4 { "70" } else { "~64" };
            body += &format!("K\t0\tab\tbcast\t1\t{size}\t{}\t{calls}\n", 70 * calls);
        }
        body += "K\t0\t-\tbarrier\t-1\t0\t0\t7\nrounded\t2\n";
        body
    };
    let files: Vec<(String, String)> = (0..5)
        .map(|r| (format!("rank.{r}.hbr"), hbr(r, 5, &body(r))))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in &files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let path = folder.path().display().to_string();
    let rules = "openmpi,allgather=linear,bcast=linear";
    let t = read_traffic(&format!("{path}:collectives={rules}")).unwrap();
    assert!(t.source.ends_with(rules));
    let sent = |from: u32| -> Vec<(u32, f64, u64)> {
        let total = t.total();
        let sends = total.sends(from).iter();
        sends.map(|m| (m.to, m.bytes, m.messages)).collect()
    };
    // A separate block from each to each; rank 3, the root, also sent 70 bytes twice.
    assert_eq!(sent(1), [(2, 10.0, 1), (3, 10.0, 1), (4, 10.0, 1)]);
    assert_eq!(sent(3), [(1, 170.0, 3), (2, 170.0, 3), (4, 170.0, 3)]);
    assert_eq!(
        t.notes,
        [
            "broadcast by linear (given): 2 calls, 4 ranks, 70 B",
            "allgather by linear (given): 1 call, 4 ranks, 25 B",
            "7 collective calls of groups that the record does not list are not in the traffic",
            "1 collective calls are missing although other members of the group made them in the same phase",
            "2 collective calls are expanded by the mean of their sizes between two powers of two",
        ]
    );
    let wrong = read_traffic(&format!("{path}:collectives=bcast=bruck")).unwrap_err();
    assert!(wrong.to_string().contains("scatter-allgather"), "{wrong}");
    let matrix = folder.path().join("m.csv");
    std::fs::write(&matrix, "0,1\n1,0\n").unwrap();
    let wrong = read_traffic(&format!("{}:collectives=mpich", matrix.display())).unwrap_err();
    assert!(wrong.to_string().contains("collective calls"), "{wrong}");
    let stranger = hbr(
        0,
        1,
        "phase\t0\tmain\ngroup\tab\t2\t0,x\nK\t0\tab\tbcast\t0\t8\t8\t1\n",
    );
    let alone = prof(&[("rank.0.hbr", &stranger)]).unwrap();
    assert_eq!(alone.total().pairs(), 0);
}

/// Lists that were cut: a number without its line end, senders that are missing, an instance without its second matrix.
#[test]
fn lists_that_may_be_cut_say_so() {
    let notes = |text: &str| read(text).unwrap().notes.join("\n");
    let line_end = "the last line has no line end";
    let symmetric = "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 1.0D+03";
    for list in [
        "0 1 50\n1 0 70",
        "src,dst,bytes\n0,1,50\n1,0,70",
        "2 2 1 0\n1 2 50",
        symmetric,
        "1,2\n3,40",
    ] {
        assert!(notes(list).contains(line_end), "{list}");
        assert!(!notes(&format!("{list}\n")).contains(line_end), "{list}");
    }
    // Fortran's exponents.
    assert_eq!(read(symmetric).unwrap().total().total_bytes(), 2000.0);
    // Matrix Market without its first line, of which the symmetry is not known.
    for list in [
        "2 2 3\n1 2 50\n2 1 70\n1 1 4\n",
        "2 2 9\n1 2 50\n",
        "2 3 1\n1 3 5\n",
    ] {
        let error = read(list).unwrap_err();
        assert!(
            error.contains(":1: found 2 ") && error.contains("expected %%MatrixMarket"),
            "{error}"
        );
    }
    assert!(read("2 2 3\n0 2 50\n2 1 70\n1 1 4\n").is_ok());
    let ring = "4\n0 1 9\n1 2 9\n2 3 9\n";
    assert!(notes(ring).contains("the last 1 of 4 ranks send nothing"));
    assert_eq!(notes(&format!("{ring}3 0 9\n")), "");
    let cut = read("3\n\n0 1 2\n1 0 1\n2 1 0\n\n0 5\n").unwrap_err();
    assert!(
        cut.contains("size 3 has 18 numbers after the first, this file 11: was it cut off?"),
        "{cut}"
    );
}

//! Graphs and profiles of other tools.

use super::entries::Entry;
use super::*;

fn text(name: &str, content: &[u8]) -> Text {
    Text::from_bytes(name, content, LIMITS).unwrap()
}

fn read(content: &str) -> Result<Traffic, String> {
    traffic(&text("t", content.as_bytes())).map_err(|e| e.to_string())
}

fn entries(traffic: &Traffic) -> Vec<Entry> {
    let total = traffic.total();
    total
        .iter()
        .map(|(from, m)| (from, m.to, m.bytes, m.messages))
        .collect()
}

fn folder(files: &[(&str, &str)]) -> Result<Traffic, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    read_traffic(&folder.path().display().to_string()).map_err(|e| e.to_string())
}

#[test]
fn scotch_graphs_with_labels_and_weights() {
    let path = [
        (0, 1, 1.0, 0),
        (1, 0, 1.0, 0),
        (1, 2, 1.0, 0),
        (2, 1, 1.0, 0),
    ];
    assert_eq!(
        entries(&read("0\n3 4\n0 000\n1 1\n2 0 2\n1 1\n").unwrap()),
        path
    );
    assert_eq!(
        entries(&read("0\n3 4\n1 001\n9 1 2\n9 2 1 3\n9 1 2\n").unwrap()),
        path
    );
    // Neighbours are given by labels, regardless of line breaks.
    assert_eq!(
        entries(&read("0\n3 4\n0 100\n10 1 20 20 2 10\n30 30 1 20\n").unwrap()),
        path
    );
    let weighted = read("0\n2 2\n100000 010\n1 7 100001\n1 7 100000\n").unwrap();
    assert_eq!(entries(&weighted), [(0, 1, 7.0, 0), (1, 0, 7.0, 0)]);
    for (content, part) in [
        ("0\n3 4\n0 000\n1 1\n2 0 2\n1\n", "the end of the file"),
        (
            "0\n3 6\n0 000\n1 1\n2 0 2\n1 1\n",
            "t:2: found 6, expected 4 arcs",
        ),
        ("0\n3 4\n0 000\n1 1\n2 0 2\n1 3\n", "another vertex"),
        ("0\n2 2\n0 000\n1 0\n1 0\n", "another vertex"),
        ("0\n2 2\n0 000\n1 1\n0\n", "found 2, expected 1 arcs"),
        ("0\n2 2\n0 010\n1 7 1\n1 8 0\n", "the same edge"),
        (
            "0\n16777216 2\n0 000\n1 1\n",
            "no more vertices than the file can hold",
        ),
        ("0\n2 2\n0 010\n1 nan 1\n1 nan 0\n", "non-negative"),
        ("0\n2 2\n0 100\n5 1 5\n5 1 5\n", "vertex 5 once more"),
        ("0\n2 2\n0 000\n1 1\n1 0\n4 4\n", "no more than 2 vertices"),
    ] {
        let error = read(content).unwrap_err();
        assert!(error.contains(part), "{content}: {error}");
    }
}

const IPM: &str = r#"<?xml version="1.0" encoding="iso-8859-1"?>
<ipm>
<task ipm_version="2.0.6" mpi_rank="0" mpi_size="2" stamp_init="1">
<hash nlog="3" nkey="3" >
<hent key="0x1" call="MPI_Isend" bytes="8192" orank="1" region="0" callsite="1" count="10" tid="0" >1.0e-1 1.0e-2 1.0e-2</hent>
<hent key="0x2" call="MPI_Irecv" bytes="4096" orank="1" region="0" callsite="2" count="5" tid="0" >1 1 1</hent>
<hent key="0x3" call="MPI_Allreduce" bytes="8" orank="0" region="0" callsite="3" count="7" tid="0" >1 1 1</hent>
</hash>
</task>
<task ipm_version="2.0.6" mpi_rank="1" mpi_size="2"><hash nlog="1" nkey="1" ><hent key="0x1" call="MPI_Send" bytes="4096" orank="0" region="0" callsite="1" count="5" tid="0" >1 1 1</hent><hent key="0x1" call="MPI_Send" bytes="100" orank="0" region="0" callsite="4" count="2" tid="0" >1 1 1</hent></hash></task>
</ipm>
"#;

#[test]
fn ipm_counts_sends() {
    let cut = read(&IPM[..IPM.find("<task").unwrap()]).unwrap_err();
    assert!(cut.contains("no rank"), "{cut}");
    let t = read(IPM).unwrap();
    assert_eq!(entries(&t), [(0, 1, 81_920.0, 10), (1, 0, 20_680.0, 7)]);
    // A file for each task, and an HTML page among them.
    let (head, second) = IPM
        .split_once("<task ipm_version=\"2.0.6\" mpi_rank=\"1\"")
        .unwrap();
    let second = format!("<ipm>\n<task ipm_version=\"2.0.6\" mpi_rank=\"1\"{second}");
    let split = folder(&[
        ("a.ipm.xml", head),
        ("b.ipm.xml", &second),
        ("c.txt", "1 2\n"),
    ])
    .unwrap();
    assert_eq!(entries(&split), entries(&t));
    for (from, to, part) in [
        (
            "mpi_size=\"2\" stamp",
            "mpi_size=\"3\" stamp",
            "rank 2 is missing",
        ),
        ("mpi_rank=\"1\"", "mpi_rank=\"0\"", "rank 0 once more"),
        ("orank=\"1\"", "orank=\"-1\"", "a rank of the world"),
        ("bytes=\"8192\"", "bytes=\"x\"", "bytes of one call"),
        ("bytes=\"8192\" ", "", "an entry with bytes"),
        (
            "<task ipm_version=\"2.0.6\" mpi_rank=\"1\"",
            "<taskcopy mpi_rank=\"1\"",
            "behave alike",
        ),
    ] {
        let error = read(&IPM.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(part), "{from} -> {to}: {error}");
    }
}

const TAU: &str = "2 templated_functions_MULTI_TIME\n# Name Calls Subrs Excl Incl ProfileCalls\n\
\".TAU application\" 1 1 1 1 0 GROUP=\"TAU_DEFAULT\"\n0 aggregates\n3 userevents\n\
# eventname numevents max min mean sumsqr\n\
\"Message size sent to node 1\" 10 4096 1024 2048 1\n\
\"Message size sent to node 1 : main => MPI_Send()\" 10 4096 1024 2048 1\n\
\"Message size received from all nodes\" 3 1 1 1 1\n";

#[test]
fn tau_adds_up_events() {
    let silent = "1 templated_functions_MULTI_TIME\n0 aggregates\n0 userevents\n";
    let t = folder(&[("profile.0.0.0", TAU), ("profile.1.0.0", silent)]).unwrap();
    assert_eq!(entries(&t), [(0, 1, 20_480.0, 10)]);
    // Only by call path.
    let by_path = TAU.replace("\"Message size sent to node 1\" 10 4096 1024 2048 1\n", "");
    let t = folder(&[("profile.0.0.0", &by_path), ("profile.1.0.0", silent)]).unwrap();
    assert_eq!(entries(&t), [(0, 1, 20_480.0, 10)]);
    let error = folder(&[("profile.0.0.0", TAU)]).unwrap_err();
    assert!(error.contains("rank 1 is missing"), "{error}");
    let error = folder(&[("profile.0.0.0", silent)]).unwrap_err();
    assert!(error.contains("TAU_COMM_MATRIX=1"), "{error}");
    for bad in [
        "node x\" 1 1 1 1",
        "node 1\" 1 1",
        "node 1\" -1 1 1 1",
        "node 1\" 1 1 1 nan",
        "node 1",
    ] {
        let content = format!("{silent}\"Message size sent to {bad}\n");
        let error = folder(&[("profile.0.0.0", &content)]).unwrap_err();
        assert!(error.contains("expected"), "{bad}: {error}");
    }
    // Cut at any byte it is read or refused.
    for end in 0..TAU.len() {
        let _ = folder(&[("profile.0.0.0", &TAU[..end])]);
    }
}

#[test]
fn mpitrace_as_text_and_binary() {
    let zero = "MPI rank 0, host n1\n   dest     bytes      count     host\n      1  2.000e+03         4   n2\n";
    let one = "MPI rank 1, host n2\n   dest     bytes      count     host\n      0  5.000e+02         1   n1\n";
    let expected = [(0, 1, 2000.0, 4), (1, 0, 500.0, 1)];
    let t = folder(&[("pattern.99.0", zero), ("pattern.99.1", one)]).unwrap();
    assert_eq!(entries(&t), expected);
    let error = folder(&[("pattern.99.1", one)]).unwrap_err();
    assert!(error.contains("rank 0 is missing"), "{error}");
    let mut binary: Vec<u8> = Vec::new();
    let connection = |bytes: f32, count: u32, rank: u32| {
        let mut c = bytes.to_le_bytes().to_vec();
        [count, rank, 0]
            .iter()
            .for_each(|n| c.extend(n.to_le_bytes()));
        c
    };
    binary.extend(2u32.to_le_bytes());
    binary.extend(1u32.to_le_bytes());
    binary.extend(connection(2000.0, 4, 1));
    binary.extend(1u32.to_le_bytes());
    binary.extend(connection(500.0, 1, 0));
    let t = traffic(&text("send_bytes.sparse.99", &binary)).unwrap();
    assert_eq!(entries(&t), expected);
    // Content that does not end with the last rank's peers is not in this format.
    for end in 1..binary.len() {
        assert!(traffic(&text("b", &binary[..end])).is_err(), "{end}");
    }
    binary.push(0);
    assert!(traffic(&text("b", &binary)).is_err());
}

#[test]
fn mpip_is_refused_with_what_to_do() {
    let error = read("@ mpiP\n@ Command : lmp\n").unwrap_err();
    assert!(
        error.contains("without receivers") && error.contains("hopbyte record"),
        "{error}"
    );
}

/// Entries of traffic that must be readable.
fn of(content: &str) -> Vec<Entry> {
    entries(&read(content).unwrap_or_else(|e| panic!("{content}: {e}")))
}

/// Lists with a header between blanks or tabs, and tables with names as pandas writes them.
#[test]
fn lists_and_matrices_of_spreadsheets_and_pandas() {
    let expected = [(0, 1, 500.0, 0), (1, 2, 700.0, 0), (2, 0, 900.0, 0)];
    for header in ["src\tdst\tbytes", "src dst bytes", "src,dst,bytes"] {
        let list = format!("{header}\n0 1 500\n1 2 700\n2 0 900\n");
        let list = if header.contains(',') {
            list.replace(' ', ",")
        } else {
            list
        };
        assert_eq!(of(&list), expected, "{header}");
    }
    // Without the header as many lines as columns are a matrix, and a note says so.
    let square = read("0 1 500\n1 2 700\n2 0 900\n").unwrap();
    let notes = square.notes.join("\n");
    assert!(
        notes.contains("matrix of 3 x 3 tasks") && notes.contains("header src,dst,bytes"),
        "{notes}"
    );
    assert!(read("0 1.5 2\n1.5 0 3\n2 3 0\n").unwrap().notes.is_empty());

    let named = ",a,b\na,0,5\nb,7,0\n";
    assert_eq!(of(named), [(0, 1, 5.0, 0), (1, 0, 7.0, 0)]);
    let numbered = named.replace('a', "0").replace('b', "1");
    assert_eq!(of(&numbered), of(named));
    for corner in ["Source", "rank", "\"\""] {
        assert_eq!(of(&format!("{corner}{named}")), of(named), "{corner}");
        assert_eq!(of(&format!("{corner}{numbered}")), of(named), "{corner}");
    }
    assert!(read("Source,a,b\nb,0,5\na,7,0\n").is_err());
    // The names of the columns are the first row of this symmetric matrix.
    let symmetric = [(0, 1, 5.0, 0), (1, 0, 5.0, 0)];
    assert_eq!(of("0,5\n5,0\n"), symmetric);
    assert!(read(",").is_err());
    let error = read(",a,b\nb,0,5\na,7,0\n").unwrap_err();
    assert!(
        error.starts_with("t:2: ") && error.contains("in the order of the columns, here a"),
        "{error}"
    );
}

#[test]
fn unsigned_integers_of_scipy_are_bytes() {
    let matrix = "%%MatrixMarket matrix coordinate unsigned-integer general\n2 2 2\n1 2 5\n2 1 7\n";
    assert_eq!(of(matrix), [(0, 1, 5.0, 0), (1, 0, 7.0, 0)]);
}

#[test]
fn hints_follow_from_the_number() {
    for (value, hint) in [
        ("-1", "no negative entries"),
        ("nan", "sent nothing is 0"),
        ("1e19", "are these bytes?"),
        ("5MB", "without a unit"),
    ] {
        let error = read(&format!("src,dst,bytes\n0,1,{value}\n")).unwrap_err();
        assert!(
            error.starts_with("t:2: ") && error.contains(hint),
            "{error}"
        );
    }
}

#[test]
fn folders_of_compressed_records_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..2 {
        let record = format!(
            "# hopbyte-record 2\nrank\t{rank}\nsize\t2\nspawned\t0\nphase\t0\tmain\nP\t0\t{}\t100\t2\nended\tfinalize\nend\t7\n",
            1 - rank
        );
        let file = std::fs::File::create(folder.path().join(format!("rank.{rank}.hbr.gz")));
        let mut gz = flate2::write::GzEncoder::new(file.unwrap(), flate2::Compression::default());
        std::io::Write::write_all(&mut gz, record.as_bytes()).unwrap();
        gz.finish().unwrap();
    }
    let read = read_traffic(&folder.path().display().to_string()).unwrap();
    assert_eq!(entries(&read), [(0, 1, 100.0, 2), (1, 0, 100.0, 2)]);
}

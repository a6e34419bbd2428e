//! Forms of traffic and trace files that real tools write, each with a small example made for this test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use hopbyte_observe::read_traffic;
use hopbyte_observe::trace::read_trace;

fn traffic(name: &str, content: &str) -> hopbyte_fabric::Traffic {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, content).unwrap();
    read_traffic(file.to_str().unwrap()).unwrap()
}

fn bytes(traffic: &hopbyte_fabric::Traffic) -> f64 {
    traffic
        .phases
        .iter()
        .map(|p| p.exchange.total_bytes())
        .sum()
}

#[test]
fn flows_of_qaplib_are_traffic() {
    let seed = hopbyte_testdata::workspace().join("fuzz/seeds/traffic/qaplib.dat");
    let content = std::fs::read_to_string(seed).unwrap();
    let flows = traffic("q.dat", &content);
    assert_eq!((flows.tasks, bytes(&flows)), (4, 28.0));
    assert!(
        flows.notes[0].contains("flows are the second matrix"),
        "{:?}",
        flows.notes
    );
    // The matrices swapped: the distances are recognised.
    let numbers: Vec<&str> = content.split_whitespace().collect();
    let swapped = [&numbers[..1], &numbers[17..], &numbers[1..17]]
        .concat()
        .join("\n");
    let flows = traffic("q.dat", &swapped);
    assert_eq!(bytes(&flows), 28.0);
    assert!(
        flows.notes[0].contains("flows are the first matrix"),
        "{:?}",
        flows.notes
    );
}

/// Lines end anywhere, and three tasks have as many numbers as a list of all pairs of three ranks.
#[test]
fn instances_of_qaplib_are_told_from_lists_of_three_ranks() {
    let three = "3\n0 1 2\n1 0 1\n2 1 0\n\n0 2 0\n2 0 1\n0 1 0\n";
    assert_eq!(bytes(&traffic("q.dat", three)), 6.0);
    let far = "3\n0 1 2\n1 0 1\n2 1 0\n\n0 5 0\n0 0 0\n0 0 0\n";
    assert_eq!(bytes(&traffic("q.dat", far)), 5.0);
    let list = "3\n0 1 7\n1 0 7\n0 2 7\n2 0 7\n1 2 7\n2 1 7\n";
    assert_eq!(bytes(&traffic("q.topo", list)), 42.0);
    for break_at in [0, 9, 10, 18] {
        let words = three.split_whitespace().enumerate();
        let ending = |i| if i == break_at { '\n' } else { ' ' };
        let text: String = words.map(|(i, w)| format!("{w}{}", ending(i))).collect();
        let found = traffic("q.dat", &format!("{}\n", text.trim_end()));
        assert_eq!(bytes(&found), 6.0, "{text:?}");
    }
    // Six ranks and 24 lines are a list.
    let pairs = (0..24).map(|i| format!("{} {} 1\n", i % 6, (i % 6 + 1 + i / 6) % 6));
    let list = format!("6\n{}", pairs.collect::<String>());
    assert_eq!(bytes(&traffic("six.topo", &list)), 24.0);
}

#[test]
fn cells_of_csv_may_be_quoted() {
    let plain = traffic("t.csv", "src,dst,bytes,phase\n0,1,10,halo\n1,0,5,x\n");
    let quoted = traffic(
        "t.csv",
        "\"src\",\"dst\",\"bytes\",\"phase\"\n\"0\",\"1\",\"10\",\"halo, first\"\n1,\"0\",5,x\n",
    );
    assert_eq!((plain.tasks, bytes(&plain)), (quoted.tasks, bytes(&quoted)));
}

#[test]
fn traces_of_liballprof_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |rank: u32, lines: &[String]| {
        let file = folder.path().join(format!("pmpi-trace-rank-{rank}.txt"));
        let head = format!(
            "# htor's PMPI Tracer 0.4 Output File\nMPI_Init:100:-:-:{}\n",
            1000 + rank
        );
        std::fs::write(file, head + &lines.join("\n") + "\n").unwrap();
    };
    let rank = |own: u32, other: u32| {
        let comm = format!("0,{own},2");
        vec![
            format!("MPI_Comm_rank:2000:{comm}:9:2001"),
            format!("MPI_Irecv:2100:5:10:0,8,8:{other}:7:{comm}:800:2101"),
            format!("MPI_Isend:2200:5:10:0,8,8:{other}:7:{comm}:808:2201"),
            "MPI_Waitall:2300:2:800:900:2400".to_owned(),
            format!("MPI_Sendrecv:2500:1:3:0,4:{other}:1:2:3:0,4:{other}:1:{comm}:900:2600"),
            format!("MPI_Allreduce:2700:1:2:4:0,8,8:3:{comm}:2800"),
            format!("MPI_Alltoallv:2900:1:50:1,2:60:0,1:0,8:2:70:1,2:80:0,1:0,8:{comm}:3000"),
            // The tracer's clock has ended.
            "# Finalize clockdiff: 0.000000\nMPI_Finalize:3100:-".to_owned(),
        ]
    };
    write(0, &rank(0, 1));
    write(1, &rank(1, 0));
    let trace = read_trace(folder.path().to_str().unwrap()).unwrap();
    assert_eq!(trace.ranks.len(), 2);
    let sums = trace.traffic().unwrap();
    let point: f64 = sums
        .phases
        .iter()
        .filter(|p| p.name == "point-to-point")
        .map(|p| p.exchange.total_bytes())
        .sum();
    assert_eq!(point, 2.0 * (80.0 + 12.0));
    use hopbyte_fabric::trace::Call;
    let waits = trace.ranks[0]
        .calls
        .iter()
        .filter(|c| matches!(c, Call::Wait { .. }))
        .count();
    assert_eq!(waits, 3, "two requests and the receive of the exchange");
    let computed: f64 = trace.ranks[1]
        .calls
        .iter()
        .map(|c| {
            if let Call::Compute { seconds } = c {
                *seconds
            } else {
                0.0
            }
        })
        .sum();
    assert!((computed - 1.6e-3).abs() < 2e-4, "{computed}");
    for (bad, why) in [
        ("MPI_Barrier:10:0,0,4:20", "the world"),
        ("MPI_Send:10:5:x:0,8:1:7:0,0,2:20", "a count"),
        ("MPI_Put:10:5:20", "a call that the reader knows"),
        ("MPI_Send:10:5:1:0,8:1:7:0,0,2:x", "ends with the time"),
        ("nonsense", "MPI_NAME:START"),
    ] {
        let mut lines = rank(0, 1);
        lines.insert(1, bad.to_owned());
        write(0, &lines);
        let error = read_trace(folder.path().to_str().unwrap())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(why) || error.contains("expected"),
            "{bad}: {error}"
        );
    }
    write(0, &rank(0, 1));
    std::fs::remove_file(folder.path().join("pmpi-trace-rank-1.txt")).unwrap();
    let error = read_trace(folder.path().to_str().unwrap())
        .unwrap_err()
        .to_string();
    assert!(error.contains("all 2 ranks"), "{error}");
}

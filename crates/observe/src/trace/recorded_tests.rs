use super::*;

const HEAD: &str = "# hopbyte-trace 1\nrank\tRANK\nsize\t2\nseconds\t1.5\nphase\t0\tmain\ngroup\t08\t2\t0-1\n\
    event\t0\treceive\t0\t08\tPEER\t7\t0\t-\nevent\t1\tsend\t0\t08\tPEER\t7\t-1\t-\nevent\t2\twait\t0\t-\t-1\t-1\t0\t-\n\
    event\t3\tcollective\t0\t08\t-1\t0\t-1\tallreduce\nevent\t4\tend\t0\t-\t-1\t-1\t-1\t-\nprogram\n";

fn text(rank: u32, program: &str) -> Text {
    let head = HEAD.replace("RANK", &rank.to_string());
    let head = head.replace("PEER", &(1 - rank).to_string());
    let whole = format!("{head}{program}events\t16\nended\tfinalize\n");
    Text::from_bytes(format!("rank.{rank}.hbt"), whole.as_bytes(), LIMITS).unwrap()
}

const LOOP: &str = "(\t3\n(\t2,1*2\n0\t1000\t50\n1\t0\t0\t64\n2\n)\n3\t2000\t10\t8\n)\n4\t500\n";

#[test]
fn loops_and_calls_are_read() {
    let folded = read("t", &[text(0, LOOP), text(1, LOOP)]).unwrap();
    // Inner iterations: 2, 1, 1; a computation, a receive, a send and a wait in each.
    assert_eq!(folded.calls(), 2 * (4 * 4 + 3 * 2 + 1));
    let trace = folded.unfold(100).unwrap();
    let traffic = trace.traffic().unwrap();
    let sent = traffic.phases[0].exchange.sends(0)[0];
    assert_eq!((sent.bytes, sent.messages), (4.0 * 64.0, 4));
    assert_eq!(folded.ranks[0].seconds, 1.5);
    let inside = folded.ranks[1].mpi_seconds;
    assert!(
        (inside - (4.0 * 50.0 + 3.0 * 10.0) * 1e-9).abs() < 1e-15,
        "{inside}"
    );
    assert!(folded.notes.is_empty());
}

#[test]
fn every_prefix_and_wrong_line_is_refused_or_said() {
    let whole = text(0, LOOP);
    let other = text(1, LOOP);
    let bytes = whole.bytes().to_vec();
    for end in 0..bytes.len() - 1 {
        let cut = Text::from_bytes("rank.0.hbt", &bytes[..end], LIMITS).unwrap();
        let read = read("t", &[cut, other.clone()]);
        let said = read.as_ref().is_ok_and(|f| !f.notes.is_empty());
        assert!(read.is_err() || said, "{end} bytes");
    }
    for (from, to) in [
        ("(\t3", "(\t3*0"),
        ("(\t3", "(\tx"),
        (")\n4", ")\n)\n4"),
        ("\n3\t2000", "\n9\t2000"),
        ("0\t1000", "0\t-1"),
        ("0\t1000", "0\tnan"),
        ("receive\t0\t08\t1", "receive\t0\t08\t2"),
        ("size\t2", "size\t3"),
    ] {
        let wrong = lossy(&bytes).replacen(from, to, 1);
        assert_ne!(wrong.as_bytes(), &bytes[..], "{from}");
        let wrong = Text::from_bytes("rank.0.hbt", wrong.as_bytes(), LIMITS).unwrap();
        assert!(read("t", &[wrong, other.clone()]).is_err(), "{to}");
    }
    assert!(read("t", &[whole]).is_err());
}

#[test]
fn counts_of_loops_and_events_add_up() {
    let refused = |from: &str, to: &str| {
        let wrong = lossy(text(0, LOOP).bytes()).replacen(from, to, 1);
        assert_ne!(wrong.as_bytes(), text(0, LOOP).bytes(), "{from}");
        let wrong = Text::from_bytes("rank.0.hbt", wrong.as_bytes(), LIMITS).unwrap();
        read("t", &[wrong, text(1, LOOP)]).unwrap_err().to_string()
    };
    let said = refused("(\t3\n", "(\t3,5\n");
    assert!(
        said.starts_with("rank.0.hbt:13: found 3,5, expected iterations of 1 "),
        "{said}"
    );
    for (counts, wrong) in [("2,1*3", "surplus"), ("2,1", "few"), ("2*4", "surplus")] {
        let said = refused("(\t2,1*2\n", &format!("(\t{counts}\n"));
        let expected =
            format!("rank.0.hbt:14: found {counts}, expected iterations of 3 executions");
        assert!(said.starts_with(&expected), "{wrong}: {said}");
    }
    let said = refused("events\t16", "events\t17");
    assert!(said.contains(":22: found 17, expected 16, "), "{said}");
    let said = refused("(\t3\n", "(\t4\n");
    assert!(
        said.contains(":14: found 2,1*2, expected iterations of 4 executions"),
        "{said}"
    );
    // A trace that was cut has counts of what came before.
    let cut =
        lossy(text(0, LOOP).bytes()).replace("events\t16\n", "events\t17\ncut\tout of memory\n");
    let cut = Text::from_bytes("rank.0.hbt", cut.as_bytes(), LIMITS).unwrap();
    assert!(!read("t", &[cut, text(1, LOOP)]).unwrap().complete);
}

/// Libraries have other algorithms for these.
#[test]
fn ways_of_calling_collectives_are_kept() {
    let collective = |kind: &str, rest: &str| format!("collective\t0\t08\t-1\t0\t-1\t{kind}{rest}");
    let called = |kind: &str, rest: &str| {
        let event = collective(kind, rest);
        match calls(&pair(&[&event], "0\t0\t0\t8\n"))[0] {
            Call::Collective { how, .. } => how,
            other => panic!("{other:?}"),
        }
    };
    let plain = How::default();
    let requested = How {
        requested: true,
        ..plain
    };
    let ordered = How {
        ordered: true,
        vector: true,
        ..plain
    };
    for (kind, rest, expected) in [
        ("allreduce", "", plain),
        ("allreduce", "\t3", plain),
        ("allreduce", "\t0\tnonblocking", requested),
        ("bcast", "\t2\tpersistent", requested),
        ("reduce_scatter", "\t0\tordered", ordered),
    ] {
        assert_eq!(called(kind, rest), expected, "{kind}{rest}");
    }
}

#[test]
fn traces_that_end_early_say_so() {
    let running = lossy(text(0, LOOP).bytes()).replace("finalize", "running");
    let running = Text::from_bytes("rank.0.hbt", running.as_bytes(), LIMITS).unwrap();
    let folded = read("t", &[running, text(1, LOOP)]).unwrap();
    assert_eq!(
        folded.notes,
        [
            "incomplete: the traces of 1 ranks end early: they ended without MPI_Finalize, seconds after the last write"
        ]
    );
}

/// Two files with other events and programs: `event` lines without their number.
fn pair(events: &[&str], program: &str) -> Folded {
    let file = |rank: u32| {
        let head = format!("# hopbyte-trace 1\nrank\t{rank}\nsize\t2\ngroup\t08\t2\t0-1\n");
        let list: String = (events.iter().enumerate())
            .map(|(number, event)| format!("event\t{number}\t{event}\n"))
            .collect();
        let other = (1 - rank).to_string();
        let whole = format!("{head}{list}program\n{program}ended\tfinalize\n");
        let whole = whole.replace("OTHER", &other);
        Text::from_bytes(format!("rank.{rank}.hbt"), whole.as_bytes(), LIMITS).unwrap()
    };
    read("t", &[file(0), file(1)]).unwrap()
}

fn calls(folded: &Folded) -> Vec<Call> {
    folded.unfold(100).unwrap().ranks[0].calls.clone()
}

#[test]
fn a_neighbour_in_two_directions_gets_both_blocks() {
    let row = "row\t0\t-\tOTHER\t-1\t-1\t-";
    let folded = pair(
        &[
            row,
            "collective\t0\t08\t-1\t0\t-1\tneighbor_alltoall",
            "collective\t0\t08\t-1\t0\t-1\tinter_bcast",
        ],
        "0\t0\t0\t30\n0\t0\t0\t12\n1\t0\t0\t42\n0\t0\t0\t5\n2\t0\t0\t5\n",
    );
    assert_eq!(folded.ranks[0].rows, [0.0, 42.0, 0.0, 5.0]);
    for call in calls(&folded) {
        let expected = Collective::Alltoall;
        assert!(matches!(call, Call::Collective { kind, neighbors: true, .. } if kind == expected));
    }
}

#[test]
fn requests_of_collectives_sources_and_cancelled_receives_are_read() {
    let folded = pair(
        &[
            "collective\t0\t08\t-1\t0\t4\tallreduce",
            "receive\t0\t08\t-1\t-1\t5\t-",
            "wait\t0\t-\tOTHER\t9\t5\t-",
            "cancel\t0\t-\t-1\t-1\t5\t-",
            "wait\t0\t-\t-1\t-1\t4\t-",
        ],
        "0\t0\t0\t8\n1\n2\n1\n3\n4\n",
    );
    let calls = calls(&folded);
    assert!(matches!(
        calls[0],
        Call::Collective {
            request: Some(4),
            neighbors: false,
            ..
        }
    ));
    let receive = Call::Receive {
        from: None,
        tag: None,
        group: 0,
        request: Some(5),
    };
    let matched = Call::Matched {
        request: 5,
        from: 1,
        tag: 9,
    };
    let (wait, cancel) = (Call::Wait { request: 5 }, Call::Cancel { request: 5 });
    assert_eq!(calls[1..6], [receive, matched, wait, receive, cancel]);
    assert_eq!(calls[6], Call::Wait { request: 4 });
}

#[test]
fn communicators_with_the_same_members_are_told_apart() {
    let folded = pair(
        &[
            "collective\t0\t08\t-1\t0\t-1\tbarrier",
            "collective\t0\t08\t-1\t0\t-1\tbarrier\t3",
            "send\t0\t08\tOTHER\t0\t-1\t-\t3",
        ],
        "0\n1\n2\t0\t0\t8\n",
    );
    let groups: Vec<u32> = calls(&folded)
        .iter()
        .map(|call| match call {
            Call::Collective { group, .. } | Call::Send { group, .. } => *group,
            _ => u32::MAX,
        })
        .collect();
    assert_eq!(groups[0], 0);
    assert_ne!(groups[1], 0);
    assert_eq!(groups[1], groups[2]);
    assert_eq!(folded.groups[groups[1] as usize], [0, 1]);
}

#[test]
fn traces_of_spawned_processes_are_passed_over() {
    let folder = std::env::temp_dir().join(format!("hopbyte-spawned-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for rank in 0..2 {
        let path = folder.join(format!("rank.{rank}.hbt"));
        std::fs::write(path, text(rank, LOOP).bytes()).unwrap();
    }
    let other = "# hopbyte-trace 1\nrank\t0\nsize\t1\nprogram\nended\tfinalize\n";
    std::fs::write(folder.join("spawned.n1.77.hbt"), other).unwrap();
    let found = super::folder(folder.to_str().unwrap()).unwrap().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(found.ranks.len(), 2);
    assert!(!found.complete);
    assert!(
        found.notes[0].starts_with("1 processes"),
        "{:?}",
        found.notes
    );
}

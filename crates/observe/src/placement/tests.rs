use super::*;
use hopbyte_fabric::spec;

fn machine() -> Fabric {
    spec::fabric("gemini:2x2x8").unwrap()
}

fn read(content: &str, allocation: Option<&Allocation>) -> Result<Placed, String> {
    let text = Text::from_bytes("p", content.as_bytes(), Limits::TEXT).unwrap();
    placement(&text, &machine(), allocation).map_err(|e| e.to_string())
}

/// nids and slots by rank, and nids with capacities.
fn seen(content: &str) -> [Vec<(u32, u32)>; 2] {
    let fabric = machine();
    let placed = read(content, None).unwrap_or_else(|e| panic!("{content}: {e}"));
    let nid = |n| fabric.node(n).nid.unwrap();
    let slots = placed.placement.slots().iter();
    let nodes = placed.allocation.nodes().iter();
    [
        slots.map(|s| (nid(s.node), s.slot)).collect(),
        nodes.map(|&(n, c)| (nid(n), c)).collect(),
    ]
}

#[test]
fn netloc_lists_hosts_slots_and_core_rank_pairs() {
    let [ranks, nodes] = seen("2 nid00005 nid00003 2 3 0 0 1 4 0 1 12 2\n7 3\n");
    assert_eq!(ranks, [(5, 0), (3, 0), (3, 2), (3, 1), (5, 1)]);
    assert_eq!(nodes, [(5, 2), (3, 3)]);
}

#[test]
fn forms_of_launchers_and_of_names() {
    let [expected, _] = seen("rank 0=nid00005 slot=1\nrank 1=nid00005 slot=0\n");
    let [ranks, _] = seen("rank 0 = nid00005 slot = 1\nrank 1 =nid00005 slot= 0\n");
    assert_eq!(ranks, expected);
    let [ranks, _] = seen("nid00005.cluster.example\nnid00003\n");
    assert_eq!(ranks, [(5, 0), (3, 0)]);
    let [ranks, _] = seen("0,nid00005 # the first\n1,nid00003 # more\n");
    assert_eq!(ranks, [(5, 0), (3, 0)]);
    // Within a name it is no comment, which would leave the name of another node.
    let error = read("0,nid00005#2\n", None).unwrap_err();
    assert!(
        error.contains("found nid00005#2, expected a node"),
        "{error}"
    );
    let [ranks, _] = seen("nid00005:2 binding=user:0,1\nnid00003:1\n");
    assert_eq!(ranks, [(5, 0), (5, 1), (3, 0)]);
    let run = |gpu: u32| {
        format!(
            "#  Rank  0 Group  0 Pid  81 on nid00005 device  0 [0x07] X\n#  Rank  1 Group  0 Pid  82 on nid00003 device  {gpu} [0x07] X\n1 2 3\n"
        )
    };
    let [once, _] = seen(&run(0));
    let [twice, _] = seen(&run(0).repeat(2));
    assert_eq!(once, twice);
    let error = read(&(run(0) + &run(1)), None).unwrap_err();
    assert!(
        error.contains("p:5: ") && error.contains("as on line 2"),
        "{error}"
    );
}

#[test]
fn a_slot_that_two_ranks_name_is_refused_at_its_line() {
    for file in [
        "rank 0=nid00005 slot=0\nrank 1=nid00005 slot=0\n",
        "0,nid00005,0\n1,nid00005,0\n",
    ] {
        let error = read(file, None).unwrap_err();
        let expected = "p:2: found ranks 0 and 1 in slot 0 of ";
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn rankfiles_keep_slots_or_their_order() {
    let [ranks, nodes] =
        seen("# made\nrank 0=nid00005 slot=1\nrank 2=nid00003 slot=0\nrank 1=nid00005 slot=0\n");
    assert_eq!(ranks, [(5, 1), (5, 0), (3, 0)]);
    assert_eq!(nodes, [(5, 2), (3, 1)]);
    let [ranks, _] =
        seen("rank 0=nid00005 slot=0:3\nrank 1=nid00005 slot=1:0-1\nrank 2=nid00003\n");
    assert_eq!(ranks, [(5, 0), (5, 1), (3, 0)]);
    // Within an allocation the numbers are slots, if they are in range.
    let fabric = machine();
    let allocation = parse_nodes("nid00003:4,nid00005:4", 1, &fabric).unwrap();
    let placed = read(
        "rank 0=nid00005 slot=3\nrank 1=nid00003 slot=2\n",
        Some(&allocation),
    )
    .unwrap();
    assert_eq!(placed.allocation, allocation);
    let slots: Vec<u32> = placed.placement.slots().iter().map(|s| s.slot).collect();
    assert_eq!(slots, [3, 2]);
    let cores = read(
        "rank 0=nid00005 slot=30\nrank 1=nid00005 slot=20\n",
        Some(&allocation),
    )
    .unwrap();
    let slots: Vec<u32> = cores.placement.slots().iter().map(|s| s.slot).collect();
    assert_eq!(slots, [1, 0]);
}

#[test]
fn hostfiles_and_csv() {
    let expected = [vec![(5, 0), (3, 0), (5, 1)], vec![(5, 2), (3, 1)]];
    assert_eq!(seen("nid00005\nnid00003\nnid00005\n"), expected);
    assert_eq!(
        seen("rank,node\n0,nid00005\n1,nid00003\n2,nid00005\n"),
        expected
    );
    assert_eq!(
        seen("rank,node,slot\n2,nid00005,1\n1,\"nid00003\",0\n0,nid00005,0\n"),
        expected
    );
    assert_eq!(seen("1,nid00003\n0,nid00005\n2,nid00005\n"), expected);
    let block = [vec![(5, 0), (5, 1), (3, 0)], vec![(5, 2), (3, 1)]];
    assert_eq!(seen("nid00005 slots=2 max_slots=4\nnid00003\n"), block);
    assert_eq!(seen("nid00005:2\nnid00003:1\n"), block);
    assert_eq!(
        seen("{\"schema\":\"x\",\"placement\":[\"nid00005\",\"nid00005\",\"nid00003\"]}"),
        block
    );
    assert_eq!(
        seen(
            "{\"allocation\":[{\"node\":\"nid00003\",\"slots\":4},{\"node\":\"nid00005\",\"slots\":2}],\"placement\":[\"nid00003\"],\"slots\":[3]}"
        ),
        [vec![(3, 3)], vec![(3, 4), (5, 2)]]
    );
}

#[test]
fn a_rank_order_permutes_the_default_launch() {
    let fabric = machine();
    let allocation = parse_nodes("nid[00003,00005]", 2, &fabric).unwrap();
    for order in ["3,0\n1,2\n", "3,0-2", "3\n0\n1\n2\n", "# c\n3,0,1,2 # d\n"] {
        let placed = read(order, Some(&allocation)).unwrap();
        let nids: Vec<u32> = (0..4)
            .map(|r| fabric.node(placed.placement.node(r)).nid.unwrap())
            .collect();
        // Slots of the launch: 3, 3, 5, 5; they hold the ranks 3, 0, 1, 2.
        assert_eq!(nids, [3, 5, 5, 3], "{order}");
    }
    let downwards = read("2-0,\t3\n", Some(&allocation)).unwrap();
    let nids = (0..4).map(|r| fabric.node(downwards.placement.node(r)).nid.unwrap());
    assert_eq!(nids.collect::<Vec<_>>(), [5, 3, 3, 5]);
    let error = read("1,0\n", None).unwrap_err();
    assert!(
        error.contains("the allocation beside it") && error.contains("hint"),
        "{error}"
    );
    for (bad, found) in [
        ("0,1,2,3,4", "0,1,2,3,4"),
        ("0,2,3", "rank 3 among 3"),
        ("0,0,1", "rank 0 among 3"),
        ("0,-1", "nothing"),
        ("0,4294967295", "4294967295"),
        ("0-4294967295", "4294967295"),
    ] {
        let error = read(bad, Some(&allocation)).unwrap_err();
        assert!(
            error.contains(found) && error.contains("expected"),
            "{bad}: {error}"
        );
    }
}

#[test]
fn what_cannot_be_is_named() {
    for (content, line, found) in [
        ("", 0, "nothing"),
        ("# only\n", 0, "nothing"),
        ("\u{b}\u{b}", 1, "nothing"),
        ("nowhere\n", 1, "nowhere"),
        ("nid00003 x\n", 1, "x"),
        ("nid00003 slots=0\n", 1, "0"),
        ("nid00003 slots=4000000000\n", 1, "4000000000"),
        (
            "rank 0=nid00003 slot=0\nrank 0=nid00003 slot=1\n",
            2,
            "rank 0",
        ),
        ("rank 1=nid00003 slot=0\n", 0, "1 ranks without rank 0"),
        ("rank 0=nid00003 slot=0\nranks\n", 2, "ranks"),
        ("rank 0=nid00003 core=0\n", 1, "rank 0"),
        ("rank x=nid00003 slot=0\n", 1, "x"),
        ("rank,node\n0,nowhere\n", 2, "nowhere"),
        ("rank,node\n0,nid00003,x\n", 2, "x"),
        ("rank,node\n0\n", 2, "0"),
        ("rank,node\n0,\"nid00003\n", 2, "0,"),
        ("1000000000 a b\n", 1, "1000000000"),
        ("1 nid00003\n", 0, "the end of the file"),
        ("1 nid00003 2 0 0\n", 0, "the end of the file"),
        ("1 nid00003 1 0 0 9\n", 1, "9"),
        ("1 nid00003 1 0 1\n", 0, "1 ranks without rank 0"),
        ("{", 1, "EOF"),
        (
            "{\"placement\":[\"nid00003\"],\"slots\":[0,1]}",
            0,
            "1 nodes and 2 slots",
        ),
    ] {
        let error = read(content, None).unwrap_err();
        assert!(
            error.contains(found) && error.contains("expected"),
            "{content:?}: {error}"
        );
        let start = if line > 0 {
            format!("p:{line}: ")
        } else {
            "p: ".into()
        };
        assert!(error.starts_with(&start), "{content:?}: {error}");
    }
    let fabric = machine();
    let allocation = parse_nodes("nid00003:1", 1, &fabric).unwrap();
    for content in ["nid00005\n", "nid00003\nnid00003\n"] {
        let error = read(content, Some(&allocation)).unwrap_err();
        assert!(error.contains("a slot of the allocation"), "{error}");
        assert!(error.starts_with("p: found"), "the file: {error}");
    }
}

/// Files of launchers name hosts; ranks take the GPUs of each in the order of local ranks.
#[test]
fn ranks_on_hosts_with_several_gpus_take_them_in_order() {
    let fabric = spec::fabric("gpu-rails").unwrap();
    let read = |content: &str, allocation: Option<&Allocation>| -> Result<Vec<String>, String> {
        let text = Text::from_bytes("p", content.as_bytes(), Limits::TEXT).unwrap();
        let placed = placement(&text, &fabric, allocation).map_err(|e| e.to_string())?;
        let slots = placed.placement.slots().iter();
        Ok(slots.map(|s| fabric.node(s.node).name.clone()).collect())
    };
    let host = |h: u32| (0..8).map(move |g| format!("h{h}-r{g}"));
    let expected: Vec<String> = host(5).chain(host(2)).collect();
    assert_eq!(read("h5 slots=8\nh2:8\n", None).unwrap(), expected);
    let each: String = ["h5\n"; 8].concat() + &["h2\n"; 8].concat();
    assert_eq!(read(&each, None).unwrap(), expected);
    // Slots count GPUs; a place named beside its host is taken.
    let ranks = "rank 0=h5 slot=3\nrank 1=h2 slot=0\nrank 2=h5 slot=1\n";
    assert_eq!(read(ranks, None).unwrap(), ["h5-r3", "h2-r0", "h5-r1"]);
    let mixed = "rank,node\n0,h5-r0\n1,h5\n2,h5\n";
    assert_eq!(read(mixed, None).unwrap(), ["h5-r0", "h5-r1", "h5-r2"]);
    // Of an allocation with some GPUs of each host only these count.
    let allocation = parse_nodes("h5-r6,h5-r2,h2:2", 1, &fabric).unwrap();
    let found = read("h2\nh5\nh5\nh2\n", Some(&allocation)).unwrap();
    assert_eq!(found, ["h2-r0", "h5-r2", "h5-r6", "h2-r1"]);
    let refused = read("h5 slots=3\n", Some(&allocation)).unwrap_err();
    let said = "p: found 3 ranks on h5, expected at most 2, its allocated places";
    assert_eq!(refused, said);
    let refused = read("h5 slots=9\n", None).unwrap_err();
    let said = "p: found 9 ranks on h5, expected at most 8, one for each GPU";
    assert_eq!(refused, said);
}

#[test]
fn nccl_says_where_its_ranks_run() {
    let fabric = machine();
    let line = |rank: u32, of: u32, host: &str, id: &str| {
        format!(
            "{host}:8{rank}:9 [0] NCCL INFO ncclCommInitRank comm 0x5{rank} rank {rank} nranks {of} cudaDev 0 nvmlDev {rank} busId 7000 {id}- Init COMPLETE\n"
        )
    };
    let world = [
        line(1, 2, "nid00003", "commId 0x1 "),
        line(0, 2, "nid00005", "commId 0x1 "),
    ]
    .concat();
    let pair = line(0, 1, "nid00003", "commId 0x2 ");
    let nids = |placed: Placed| -> Vec<u32> {
        let rank = |r| fabric.node(placed.placement.node(r)).nid.unwrap();
        (0..2).map(rank).collect()
    };
    let log = format!("some text of the job\n{pair}{world}{world}");
    assert_eq!(nids(read(&log, None).unwrap()), [5, 3]);
    // Versions before 2.18 name no communicator.
    let old = [line(1, 2, "nid00003", ""), line(0, 2, "nid00005", "")].concat();
    assert_eq!(nids(read(&old, None).unwrap()), [5, 3]);
    // Words of launchers and times before a line, and much output before all.
    for before in [
        " 1: ",
        "[2025-06-23 12:34:00] ",
        "[1,0]<stdout>:",
        "[default0]:",
        "2025-06-23T12:34:56.000000789Z ",
        "12:34:56 0: ",
    ] {
        let log: String = world.lines().map(|l| format!("{before}{l}\n")).collect();
        let log = "loading\n".repeat(5000) + &log;
        assert_eq!(nids(read(&log, None).unwrap()), [5, 3], "{before}");
    }
    let error = read(&line(0, 2, "nid00003", ""), None).unwrap_err();
    assert!(error.contains("1 of 2 ranks"), "{error}");
    let error = read(&(world + &line(1, 2, "nid00005", "commId 0x1 ")), None).unwrap_err();
    assert!(error.contains("several jobs"), "{error}");
    let error = read("a:1:2 [0] NCCL INFO Bootstrap : Using eth0\n", None).unwrap_err();
    assert!(error.contains("NCCL_DEBUG=INFO"), "{error}");
    let table = "#  Rank  0 Pid 81 on nid00005 device  0 [0x07] A100\n#  Rank  1 Group  0 Pid 82 on nid00003 device 0 [0x0f] A100\n";
    assert_eq!(
        nids(read(&format!("{table} 8 2 float\n"), None).unwrap()),
        [5, 3]
    );
    assert_eq!(nids(read(table, None).unwrap()), [5, 3], "the header alone");
    let tagged = table.replace('#', "[1,0]<stdout>:#");
    assert_eq!(nids(read(&tagged, None).unwrap()), [5, 3], "with tags");
    for among in [
        "nid00005:81:81 [0] NCCL INFO Launch mode Parallel\n",
        &line(0, 2, "nid00005", ""),
    ] {
        let mixed = format!("{table}{among} 8 2 float\n");
        assert_eq!(nids(read(&mixed, None).unwrap()), [5, 3], "{among}");
    }
}

/// GPUs are numbered among the allocated ones, or as the host's; others are refused.
#[test]
fn gpus_of_a_file_are_those_of_the_job() {
    let machine = spec::machine("gpu-rails").unwrap();
    let fabric = &machine.fabric;
    let names = ["h0-r2", "h0-r5", "h1-r2", "h1-r5"];
    let nodes = names.map(|n| (fabric.find_node(n).unwrap(), 1));
    let allocation = Allocation::new(fabric, nodes.to_vec()).unwrap();
    let read = |file: &str, allocation: Option<&Allocation>| {
        let text = Text::from_bytes("p", file.as_bytes(), Limits::TEXT).unwrap();
        placement(&text, fabric, allocation).map_err(|e| e.to_string())
    };
    let on = |file: &str| -> Vec<&str> {
        let placed = read(file, Some(&allocation)).unwrap();
        assert!(placed.states_gpus);
        let slots = placed.placement.slots().iter();
        slots.map(|s| &fabric.node(s.node).name[..]).collect()
    };
    assert_eq!(on("0,h0,1\n1,h0,0\n"), ["h0-r5", "h0-r2"]);
    assert_eq!(on("0,h0,5\n1,h0,2\n"), ["h0-r5", "h0-r2"]);
    let error = read("0,h0,6\n1,h0,7\n", Some(&allocation)).unwrap_err();
    assert!(error.contains("rank 0 on GPU 6 of h0"), "{error}");
    assert!(error.contains("2, 5"), "{error}");
    // Several ranks on the place of a GPU.
    let error = read("0,h1-r0,0\n1,h1-r0,1\n", None).unwrap_err();
    assert!(error.contains("one for each GPU"), "{error}");
    // Cores give an order alone, and hosts no GPUs.
    let placed = read("rank 0=h0 slot=40\nrank 1=h0 slot=8\n", Some(&allocation)).unwrap();
    assert!(!placed.states_gpus);
    assert_eq!(fabric.node(placed.placement.node(0)).name, "h0-r5");
    assert!(!read("h0\nh0\n", Some(&allocation)).unwrap().states_gpus);
}

/// GPUs that a host does not have are refused, not dealt in order.
#[test]
fn torchrun_names_gpus_of_the_host() {
    let machine = spec::machine("gpu-rails").unwrap();
    let table = |gpus: &str| {
        let content = format!("# torchrun: hosts\nh0 0 0,1\nh1 1 {gpus}\n");
        let text = Text::from_bytes("t", content.as_bytes(), Limits::TEXT).unwrap();
        placement(&text, &machine.fabric, None).map_err(|e| e.to_string())
    };
    assert_eq!(table("1,7").unwrap().placement.tasks(), 4);
    for (bad, part) in [
        ("1,8", "0 to 7"),
        ("9,0", "0 to 7"),
        ("1,x", "0,1,2,3"),
        ("1", "2 GPUs"),
    ] {
        let error = table(bad).unwrap_err();
        assert!(
            error.contains("t:3") && error.contains(part),
            "{bad}: {error}"
        );
    }
}

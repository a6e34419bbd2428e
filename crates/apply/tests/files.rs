//! Launcher files: exact text of a small map, and maps read back from it.

#![allow(clippy::unwrap_used)]

use hopbyte_apply::{Advice, ApplyError, Checked, Job, Launch, Launcher, Seen, SlotCores};
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Allocation, Fabric, NodeId, Placement, Routing, Slot, spec};
use proptest::prelude::*;
use std::collections::HashMap;

/// Eight ranks, two per node, on n1 n0 n0 n1 n3 n2 n2 n3.
fn example() -> (Fabric, Allocation, Placement) {
    let fabric = spec::fabric("torus:4").unwrap();
    let nodes = (0..4).map(|n| (NodeId(n), 2)).collect();
    let allocation = Allocation::new(&fabric, nodes).unwrap();
    let order = [1, 0, 0, 1, 3, 2, 2, 3].map(NodeId);
    let placement = Placement::on_nodes(&fabric, &allocation, order).unwrap();
    (fabric, allocation, placement)
}

fn launch<'a>(
    (fabric, allocation): (&'a Fabric, &'a Allocation),
    placement: &'a Placement,
    mpich: Option<bool>,
) -> Launch<'a> {
    Launch {
        fabric,
        allocation,
        placement,
        mpich,
        cores: None,
        job: Some(Job {
            traffic: "plan:dp=4,tp=2",
            routing: Box::leak(Box::new(Routing::default_for(fabric))),
        }),
    }
}

fn render(
    launcher: Launcher,
    fabric: &Fabric,
    allocation: &Allocation,
    placement: &Placement,
) -> Result<String, ApplyError> {
    let launch = launch((fabric, allocation), placement, None);
    Ok(launch.prepare(launcher)?.text)
}

#[test]
fn the_example_reads_as_each_launcher_wants_it() {
    let (f, a, p) = example();
    let text = |launcher| render(launcher, &f, &a, &p).unwrap();
    assert_eq!(text(Launcher::MpichRankOrder), "1,2,0,3,5,6,4,7\n");
    assert_eq!(
        text(Launcher::OpenmpiRankfile),
        "rank 0=n1 slot=0\nrank 1=n0 slot=0\nrank 2=n0 slot=1\nrank 3=n1 slot=1\n\
         rank 4=n3 slot=0\nrank 5=n2 slot=0\nrank 6=n2 slot=1\nrank 7=n3 slot=1\n"
    );
    let hosts = "n1\nn0\nn0\nn1\nn3\nn2\nn2\nn3\n";
    assert_eq!(text(Launcher::OpenmpiHostfile), hosts);
    assert_eq!(text(Launcher::SlurmHostfile), hosts);
    assert_eq!(
        text(Launcher::Csv),
        "rank,node,slot\n0,n1,0\n1,n0,0\n2,n0,1\n3,n1,1\n4,n3,0\n5,n2,0\n6,n2,1\n7,n3,1\n"
    );
    let json: serde_json::Value = serde_json::from_str(&text(Launcher::Json)).unwrap();
    assert_eq!(json["placement"][4], "n3");
    assert_eq!(json["slots"][7], 1);
    assert_eq!(
        json["nodes"][0],
        serde_json::json!({"node": "n0", "host": "n0", "slots": 2})
    );
    for launcher in Launcher::ALL {
        assert_eq!(launcher.name().parse::<Launcher>().unwrap(), launcher);
        // The tuner's file has no order of ranks.
        let fails = launcher.narrow() && launcher != Launcher::NcclTuner;
        assert_eq!(render(launcher, &f, &a, &p).is_err(), fails);
    }
    assert_eq!(text(Launcher::FluxHostfile), hosts);
    assert_eq!(
        text(Launcher::FluxTaskmap),
        "{\"map\":[[1,1,1,1],[0,1,2,1],[1,1,1,1],[3,1,1,1],[2,1,2,1],[3,1,1,1]],\"version\":1}\n"
    );
    let counts = "n1:1\nn0:2\nn1:1\nn3:1\nn2:2\nn3:1\n";
    assert_eq!(text(Launcher::HydraHostfile), counts);
    assert_eq!(text(Launcher::IntelMachinefile), counts);
    assert!("aprun".parse::<Launcher>().is_err());
}

/// Every row of the table against `golden/launchers.txt`: a new launcher without a section there fails.
/// `GOLDEN=overwrite` rewrites the file.
#[test]
fn every_launcher_writes_its_golden_text() {
    let (f, a, mixed) = example();
    let in_order = Placement::in_order(&a, 8).unwrap();
    let mut all = String::from(
        "Eight ranks on four nodes: n1 n0 n0 n1 n3 n2 n2 n3, in order where a launcher has words for blocks alone.\n",
    );
    for launcher in Launcher::ALL {
        let placement = match launcher.narrow() {
            true => &in_order,
            false => &mixed,
        };
        let prepared = launch((&f, &a), placement, None).prepare(launcher).unwrap();
        let name = launcher.name();
        all.push_str(&format!("\n## {name}\n{}", prepared.text));
        if !prepared.advice.command.is_empty() {
            all.push_str(&format!("launch: {}\n", prepared.advice.command));
        }
        assert!(
            !launcher.about().is_empty()
                && !launcher.effect().is_empty()
                && !launcher.seen_on().is_empty(),
            "{name}"
        );
        assert_eq!(name.parse::<Launcher>().unwrap(), launcher);
        let file = |l: &Launcher| l.file_name() == launcher.file_name();
        assert_eq!(
            Launcher::ALL.iter().filter(|l| file(l)).count(),
            1,
            "{name}"
        );
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/launchers.txt");
    if std::env::var_os("GOLDEN").is_some_and(|v| v == "overwrite") {
        std::fs::write(path, &all).unwrap();
    }
    assert_eq!(all, std::fs::read_to_string(path).unwrap());
}

#[test]
fn blocks_of_ranks_have_launchers_of_their_own() {
    let (f, a, _) = example();
    let on = |order: [u32; 8]| Placement::on_nodes(&f, &a, order.map(NodeId)).unwrap();
    let text = |launcher, p: &Placement| render(launcher, &f, &a, p).unwrap();
    let turned = on([2, 2, 0, 0, 1, 1, 3, 3]);
    assert!(render(Launcher::GridOrder, &f, &a, &turned).is_err());
    // A 2x4 grid of ranks in boxes of 2x1: column by column.
    let boxes = on([0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(
        text(Launcher::GridOrder, &boxes),
        "grid_order -R -g 2,4 -c 2,1\n"
    );
    assert_eq!(text(Launcher::MpichRankOrder, &boxes), "0,4,1,5,2,6,3,7\n");
    assert_eq!(
        text(Launcher::MpichMethod4, &boxes),
        "--ndims=2 --dims=2,4 --nearest\n"
    );
    assert_eq!(
        text(Launcher::Pals, &turned),
        "--hosts n2,n0,n1,n3 --ppn 2\n"
    );
    assert_eq!(text(Launcher::NodeOrder, &turned), "n2\nn0\nn1\nn3\n");
    assert_eq!(
        text(Launcher::FluxTaskmap, &turned),
        "{\"map\":[[2,1,2,1],[0,2,2,1],[3,1,2,1]],\"version\":1}\n"
    );
    assert!(render(Launcher::SlurmPlane, &f, &a, &turned).is_err());
    let dealt = on([0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(text(Launcher::SlurmPlane, &dealt), "plane=1\n");
    let plane = launch((&f, &a), &dealt, None);
    let plane = plane.prepare(Launcher::SlurmPlane).unwrap().advice;
    assert!(
        plane
            .command
            .starts_with("srun -N 4 -n 8 --ntasks-per-node=2 --distribution=")
    );
    assert!(plane.warnings.is_empty() && plane.refused.is_none());
    assert!(render(Launcher::Pals, &f, &a, &dealt).is_err());
    let idle = Placement::on_nodes(&f, &a, [NodeId(0), NodeId(3)]).unwrap();
    for launcher in [Launcher::FluxHostfile, Launcher::FluxTaskmap] {
        let error = render(launcher, &f, &a, &idle).unwrap_err();
        assert!(error.to_string().contains("n1 has none"), "{error}");
    }
}

#[test]
fn what_a_launcher_would_spoil_is_refused() {
    let (f, a, mixed) = example();
    let on = |order: [u32; 8]| Placement::on_nodes(&f, &a, order.map(NodeId)).unwrap();
    let turned = on([2, 2, 0, 0, 1, 1, 3, 3]);
    let said = |launcher, p: &Placement, mpich| -> Advice {
        let prepared = launch((&f, &a), p, mpich).prepare(launcher);
        prepared.unwrap().advice
    };
    let why = |launcher, p: &Placement, mpich| said(launcher, p, mpich).refused.map(|r| r.why);
    // Hydra treats each run of consecutive ranks as a node; Intel's Hydra groups by host name and does not.
    let split = why(Launcher::HydraHostfile, &mixed, None).unwrap();
    assert!(
        split.starts_with("2 of 4 nodes hold ranks that are not neighbours"),
        "{split}"
    );
    assert_eq!(why(Launcher::HydraHostfile, &turned, None), None);
    // A node with three runs of ranks is one node.
    let roomy = Allocation::new(&f, (0..4).map(|n| (NodeId(n), 3)).collect()).unwrap();
    let thrice = Placement::on_nodes(&f, &roomy, [0, 1, 0, 1, 0, 2, 2, 3].map(NodeId)).unwrap();
    let prepared = launch((&f, &roomy), &thrice, None).prepare(Launcher::HydraHostfile);
    let refused = prepared.unwrap().advice.refused.unwrap().why;
    assert!(refused.starts_with("2 of 4 nodes hold"), "{refused}");
    assert_eq!(why(Launcher::IntelMachinefile, &mixed, None), None);
    // Slurm's arbitrary distribution disables shared memory for MPICH only, with consecutive ranks too.
    for (p, mpich, refused) in [
        (&mixed, Some(true), true),
        (&turned, Some(true), true),
        (&mixed, Some(false), false),
        (&mixed, None, false),
    ] {
        let advice = said(Launcher::SlurmHostfile, p, mpich);
        assert_eq!(advice.refused.is_some(), refused, "{advice:?}");
        let warned = advice
            .warnings
            .iter()
            .any(|w| w.contains("shared memory is lost"));
        assert_eq!(warned, mpich.is_none(), "{advice:?}");
    }
    let alone = Placement::on_nodes(&f, &a, [3, 1].map(NodeId)).unwrap();
    assert_eq!(why(Launcher::SlurmHostfile, &alone, Some(true)), None);
    // Slurm numbers nodes in its own order; the order of other launchers is not known here.
    let wide = spec::fabric("torus:11").unwrap();
    let nodes = [10, 9, 2, 1].map(|n| (NodeId(n), 2));
    let nodes = Allocation::new(&wide, nodes.to_vec()).unwrap();
    let in_order = Placement::in_order(&nodes, 8).unwrap();
    let in_order = launch((&wide, &nodes), &in_order, None);
    let advice = |launcher| in_order.prepare(launcher).unwrap().advice;
    let order = "n10 comes before n9";
    assert!(
        advice(Launcher::SlurmPlane)
            .refused
            .unwrap()
            .why
            .contains(order)
    );
    let counting = advice(Launcher::MpichRankOrder);
    assert!(
        counting.refused.is_none() && counting.warnings[0].contains(order),
        "{counting:?}"
    );
}

#[test]
fn ranks_get_the_cores_of_their_slots() {
    let (f, a, p) = example();
    let cores = SlotCores {
        cores: vec![4, 1],
        processors: vec![8, 2],
    };
    let with = |placement| Launch {
        cores: Some(&cores),
        ..launch((&f, &a), placement, None)
    };
    let prepared = |p, launcher| with(p).prepare(launcher).unwrap();
    let rankfile = prepared(&p, Launcher::OpenmpiRankfile);
    assert!(
        rankfile
            .text
            .starts_with("rank 0=n1 slot=4\nrank 1=n0 slot=4\nrank 2=n0 slot=1\n")
    );
    let said = |p, launcher| prepared(p, launcher).advice;
    // A rank order does not move processes; others bind the ranks of a node in rank order.
    let order = said(&p, Launcher::MpichRankOrder).command;
    assert!(
        order.contains("map_cpu:8,2 or mpiexec -bind-to user:8,2"),
        "{order}"
    );
    let command = "srun -n 8 --distribution=arbitrary --cpu-bind=map_cpu:8,2 ./app";
    let slurm = said(&p, Launcher::SlurmHostfile);
    assert!(slurm.command.ends_with(command), "{slurm:?}");
    let intel = said(&p, Launcher::IntelMachinefile).command;
    assert!(
        intel.contains("-genv I_MPI_PIN_PROCESSOR_LIST 8,2 ./app"),
        "{intel}"
    );
    // The ranks of one node reversed: no single list fits all nodes.
    let mut slots = p.slots().to_vec();
    slots.swap(0, 3);
    let turned = Placement::new(&f, &a, slots).unwrap();
    assert_eq!(
        prepared(&turned, Launcher::MpichRankOrder).text,
        "1,2,3,0,5,6,4,7\n"
    );
    let lost = |launcher| {
        let advice = said(&turned, launcher);
        let warned = advice
            .warnings
            .iter()
            .any(|w| w.contains("is lost; openmpi"));
        (warned, advice.command.contains("8,2"))
    };
    assert_eq!(lost(Launcher::SlurmHostfile), (true, false));
    assert_eq!(lost(Launcher::FluxTaskmap), (true, false));
    assert_eq!(lost(Launcher::MpichRankOrder), (false, true));
    // The cores expected by the check.
    let seen = |core: u32, host: &str| {
        Some(Seen {
            host: host.into(),
            gpu: None,
            shared: None,
            cpus: None,
            cores: Some(core.to_string()),
        })
    };
    let hosts = ["n1", "n0", "n0", "n1", "n3", "n2", "n2", "n3"];
    let at = [4, 4, 1, 1, 4, 4, 1, 0].into_iter().zip(hosts);
    let ran: Vec<_> = at.map(|(core, host)| seen(core, host)).collect();
    let off = with(&p).check(&ran, true).unwrap().off_core;
    assert_eq!((off.len(), off[0].rank, off[0].expected), (1, 7, 1));
}

#[test]
fn a_rank_order_cannot_leave_holes() {
    let (f, a, _) = example();
    let holes = Placement::on_nodes(&f, &a, [NodeId(0), NodeId(3)]).unwrap();
    let error = render(Launcher::MpichRankOrder, &f, &a, &holes).unwrap_err();
    assert!(matches!(error, ApplyError::Inexpressible { .. }));
    assert!(
        error
            .to_string()
            .contains("default launch, which has 2 on n0"),
        "{error}"
    );
    // The rankfile can express it.
    assert!(render(Launcher::OpenmpiRankfile, &f, &a, &holes).is_ok());
}

#[test]
fn hostile_host_names_are_refused() {
    use hopbyte_fabric::units::{BytesPerSecond, Seconds};
    use hopbyte_fabric::{FabricBuilder, Family};
    for (hosts, why) in [
        (["good", "$(reboot)"], "host name"),
        (["good", "two words"], "host name"),
        (["good", "-x"], "host name"),
    ] {
        let mut b = FabricBuilder::new(Family::Generic, "test");
        let router = b.router("r", &[]);
        let kind = b.kind("host", true);
        let (inject, eject) = b.host_link(router, kind, BytesPerSecond(1.0), Seconds(0.0));
        for (i, host) in hosts.iter().enumerate() {
            b.node(format!("node{i}"), *host, None, router, inject, eject);
        }
        let fabric = b.finish().unwrap();
        let nodes = vec![(NodeId(0), 1), (NodeId(1), 1)];
        let allocation = Allocation::new(&fabric, nodes).unwrap();
        let placement = Placement::in_order(&allocation, 2).unwrap();
        for launcher in [
            Launcher::MpichRankOrder,
            Launcher::OpenmpiRankfile,
            Launcher::OpenmpiHostfile,
            Launcher::SlurmHostfile,
        ] {
            let error = render(launcher, &fabric, &allocation, &placement).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        assert!(render(Launcher::Csv, &fabric, &allocation, &placement).is_ok());
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back_as_the_same_map(
        slots in prop::collection::vec(1u32..5, 1..9), seed: u64,
    ) {
        let fabric = spec::fabric("torus:3x3").unwrap();
        let nodes: Vec<_> = slots.iter().enumerate().map(|(n, &c)| (NodeId(n as u32), c)).collect();
        let allocation = Allocation::new(&fabric, nodes).unwrap();
        let mut order: Vec<Slot> = allocation.slots().collect();
        Random::new(seed).shuffle(&mut order);
        let placement = Placement::new(&fabric, &allocation, order.clone()).unwrap();
        let text = |launcher| render(launcher, &fabric, &allocation, &placement).unwrap();

        // A rank order: the i-th slot of the block layout gets the i-th rank of the file.
        let file = text(Launcher::MpichRankOrder);
        prop_assert!(file.lines().all(|l| l.len() <= 80 && !l.ends_with(',')));
        let ranks: Vec<usize> =
            file.split([',', '\n']).filter(|w| !w.is_empty()).map(|w| w.parse().unwrap()).collect();
        let block: Vec<Slot> = allocation.slots().collect();
        let mut back = vec![None; ranks.len()];
        for (slot, &rank) in block.iter().zip(&ranks) {
            back[rank] = Some(*slot);
        }
        prop_assert_eq!(back, order.iter().map(|&s| Some(s)).collect::<Vec<_>>());

        // A rankfile names host and slot.
        for (rank, line) in text(Launcher::OpenmpiRankfile).lines().enumerate() {
            let (left, slot) = line.split_once(" slot=").unwrap();
            let (number, host) = left.strip_prefix("rank ").unwrap().split_once('=').unwrap();
            prop_assert_eq!(number.parse::<usize>().unwrap(), rank);
            prop_assert_eq!(fabric.find_node(host).unwrap(), order[rank].node);
            prop_assert_eq!(slot.parse::<u32>().unwrap(), order[rank].slot);
        }

        // Hostfiles: the same number of ranks on every node, in rank order.
        let mut count: HashMap<NodeId, u32> = HashMap::new();
        for (rank, host) in text(Launcher::SlurmHostfile).lines().enumerate() {
            let node = fabric.find_node(host).unwrap();
            prop_assert_eq!(node, order[rank].node);
            *count.entry(node).or_default() += 1;
        }
        for &(node, slots) in allocation.nodes() {
            prop_assert_eq!(count[&node], slots);
        }
    }
}

#[test]
fn a_job_is_compared_with_its_placement() {
    let (f, a, p) = example();
    let rank = |host: &str, shared| {
        Some(Seen {
            host: host.into(),
            gpu: None,
            shared: Some(shared),
            cpus: Some("0-1".into()),
            cores: None,
        })
    };
    let check = |seen: &[Option<Seen>], cores| -> Checked {
        launch((&f, &a), &p, None).check(seen, cores).unwrap()
    };
    let right: Vec<_> = ["n1", "n0", "n0.site", "n1", "N3", "n2", "n2", "n3"]
        .map(|h| rank(h, 2))
        .into();
    let checked = check(&right, false);
    assert!(checked.holds() && checked.memory_known && checked.notes.is_empty());

    // The launcher's own order.
    let blocks: Vec<_> = (0..8).map(|r| rank(&format!("n{}", r / 2), 2)).collect();
    let checked = check(&blocks, false);
    let ranks: Vec<usize> = checked.elsewhere.iter().map(|d| d.rank).collect();
    assert_eq!(ranks, [0, 2, 4, 6]);
    assert_eq!(checked.elsewhere[0].expected.as_deref(), Some("n1"));
    assert_eq!(checked.elsewhere[0].found.as_deref(), Some("n0"));

    // Every run of ranks treated as a node: correct hosts, shared memory lost on two of four.
    let mut lost = right.clone();
    for r in [0, 3, 4, 7] {
        lost[r].as_mut().unwrap().shared = Some(1);
    }
    let checked = check(&lost, false);
    assert!(!checked.holds() && checked.elsewhere.is_empty());
    let hosts: Vec<&str> = checked.split.iter().map(|s| s.host.as_str()).collect();
    assert_eq!((hosts, checked.split[0].most_shared), (vec!["n1", "n3"], 1));

    // Fewer and more ranks than placed.
    let fewer = check(&right[..6], false);
    assert_eq!((fewer.elsewhere.len(), fewer.elsewhere[0].rank), (2, 6));
    assert_eq!(fewer.elsewhere[0].found, None);
    let mut more = right.clone();
    more.push(rank("n0", 3));
    assert_eq!(check(&more, false).elsewhere[0].expected, None);

    // Two ranks on one processor.
    let mut crowded = right;
    for r in [1, 2] {
        crowded[r].as_mut().unwrap().cpus = Some("1".into());
    }
    let checked = check(&crowded, false);
    assert!(checked.holds());
    assert_eq!(checked.notes, ["2 ranks of n0 share 1 processors (1)"]);
    assert!(!checked.cores_known);

    // Each on the core of its slot; then two exchanged, one unbound, and overlapping sets.
    let mut bound = crowded;
    for (r, core) in [0, 0, 1, 1, 0, 0, 1, 1].into_iter().enumerate() {
        let seen = bound[r].as_mut().unwrap();
        (seen.cpus, seen.cores) = (Some(format!("{core}")), Some(format!("{core}")));
    }
    let checked = check(&bound, true);
    assert!(
        checked.holds() && checked.cores_known && checked.notes.is_empty(),
        "{checked:?}"
    );
    for (r, cores) in [(1, "1"), (2, "0"), (7, "0-1")] {
        let seen = bound[r].as_mut().unwrap();
        (seen.cpus, seen.cores) = (Some(cores.into()), Some(cores.into()));
    }
    assert!(check(&bound, false).holds());
    let checked = check(&bound, true);
    let off: Vec<_> = checked
        .off_core
        .iter()
        .map(|c| (c.rank, c.expected, &c.found[..]))
        .collect();
    assert!(!checked.holds());
    assert_eq!(off, [(1, 0, "1"), (2, 1, "0"), (7, 1, "0-1")]);
    assert_eq!(
        checked.notes,
        ["ranks of n3 are bound to processors 0 and 0-1, which overlap"]
    );
}

/// Eight GPUs of a host are its eight slots, in the order of the GPUs, for any order of the allocation.
#[test]
fn gpus_of_a_host_are_its_slots() {
    let machine = hopbyte_fabric::spec::machine("gpu-rails").unwrap();
    let f = machine.fabric;
    let mut nodes = [f.places_of_host("h3"), f.places_of_host("h1")].concat();
    nodes.swap(0, 5);
    let a = Allocation::new(&f, nodes.iter().map(|&n| (n, 1)).collect()).unwrap();
    let order = [f.places_of_host("h1"), f.places_of_host("h3")].concat();
    let p = Placement::on_nodes(&f, &a, order.iter().copied()).unwrap();
    let gpus = render(Launcher::RankGpus, &f, &a, &p).unwrap();
    let lines: Vec<&str> = gpus.lines().skip(1).collect();
    assert_eq!(lines.len(), 16, "{gpus}");
    assert_eq!((lines[0], lines[13]), ("0,h1,0", "13,h3,5"));
    // The number of a GPU is no core.
    let refused = render(Launcher::OpenmpiRankfile, &f, &a, &p).unwrap_err();
    assert!(
        refused.to_string().contains("cores near the GPUs"),
        "{refused}"
    );
    let hosts = render(Launcher::SlurmHostfile, &f, &a, &p).unwrap();
    assert_eq!(hosts.lines().filter(|l| *l == "h1").count(), 8, "{hosts}");
}

/// Some GPUs of two hosts: files number the allocated ones, and say so; a rank on another GPU of its host is elsewhere.
#[test]
fn gpus_of_a_part_of_a_host_are_told() {
    let f = spec::machine("gpu-rails").unwrap().fabric;
    let names = ["h0-r2", "h0-r5", "h1-r2", "h1-r5"];
    let nodes = names.map(|n| f.find_node(n).unwrap());
    let a = Allocation::new(&f, nodes.iter().map(|&n| (n, 1)).collect()).unwrap();
    let order = [1, 0, 2, 3].map(|i| nodes[i]);
    let p = Placement::on_nodes(&f, &a, order).unwrap();
    let notes = |launcher| {
        let prepared = launch((&f, &a), &p, None).prepare(launcher).unwrap();
        prepared.advice.warnings.join("\n")
    };
    for launcher in [
        Launcher::OpenmpiHostfile,
        Launcher::IntelMachinefile,
        Launcher::HydraHostfile,
        Launcher::MpichRankOrder,
    ] {
        let notes = notes(launcher);
        assert!(notes.contains("CUDA_VISIBLE_DEVICES=2,5"), "{notes}");
        assert!(notes.contains("rank-gpus keeps it"), "{notes}");
    }
    assert!(!notes(Launcher::RankGpus).contains("rank-gpus keeps it"));
    let seen = |gpus: [usize; 4]| -> Vec<Option<Seen>> {
        let of = |at: usize| Seen {
            host: names[at][..2].into(),
            gpu: Some(names[at].into()),
            shared: None,
            cpus: None,
            cores: None,
        };
        gpus.map(|at| Some(of(at))).to_vec()
    };
    let check = |seen: &[Option<Seen>]| launch((&f, &a), &p, None).check(seen, false).unwrap();
    assert!(check(&seen([1, 0, 2, 3])).holds());
    let checked = check(&seen([0, 1, 2, 3]));
    let first = &checked.elsewhere[0];
    assert_eq!(checked.elsewhere.len(), 2);
    assert_eq!(first.expected.as_deref(), Some("h0-r5"));
    assert_eq!(first.found.as_deref(), Some("h0-r2"));
}

/// Two hosts of GPUs: the second host first, its GPUs in another order.
#[test]
fn training_frameworks_get_their_orders() {
    let described = spec::machine("fattree:down=8x2,up=1x1,link=50,hosts=dgx-h100").unwrap();
    let fabric = described.fabric;
    let places = fabric.places();
    let nodes = places.iter().map(|&n| (n, 1)).collect();
    let allocation = Allocation::new(&fabric, nodes).unwrap();
    let order = [9, 8, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7];
    let on = order.map(|at: usize| places[at]);
    let placement = Placement::on_nodes(&fabric, &allocation, on).unwrap();
    let text = |launcher| render(launcher, &fabric, &allocation, &placement).unwrap();
    let table = "# torchrun: host, node rank, GPUs in the order of local ranks\n\
                 h1 0 1,0,2,3,4,5,6,7\nh0 1 0,1,2,3,4,5,6,7\n";
    assert_eq!(text(Launcher::Torchrun), table);
    assert!(text(Launcher::JaxDevices).contains("[9,8,10,11,12,13,14,15,0,1,2,3,4,5,6,7]"));
    assert!(text(Launcher::DlroverWorld).starts_with("{\"world\": {\"1\": 8, \"0\": 8},"));
    assert!(
        text(Launcher::KueueAssignment)
            .contains("values: [h1]\n  - count: 1\n    values: [h0]\nranksPerPod: 8")
    );
    assert!(text(Launcher::RankGpus).starts_with("rank,node,slot\n0,h1,1\n1,h1,0\n"));
    let launch = launch((&fabric, &allocation), &placement, None);
    let warned = launch
        .prepare(Launcher::SlurmHostfile)
        .unwrap()
        .advice
        .warnings;
    assert!(warned.iter().any(|w| w.contains("rank-gpus")), "{warned:?}");
    let straight = Placement::on_nodes(&fabric, &allocation, places.clone()).unwrap();
    let bound = Launch {
        placement: &straight,
        ..launch
    };
    let command = bound
        .prepare(Launcher::SlurmHostfile)
        .unwrap()
        .advice
        .command;
    assert!(
        command.contains("--gpu-bind=map_gpu:0,1,2,3,4,5,6,7"),
        "{command}"
    );
}

use super::jobs as jobs_of;
use super::*;
use hopbyte_fabric::units::BytesPerSecond;
use hopbyte_fabric::{FabricBuilder, Family, spec};

fn read(content: &str, fabric: &Fabric) -> Result<Jobs, String> {
    let text = Text::from_bytes("jobs.csv", content.as_bytes(), Limits::TEXT).unwrap();
    jobs(&text, fabric, Then::Now(0.0)).map_err(|e| e.to_string())
}

#[test]
fn shares_are_of_the_nodes_at_both_ends() {
    let fabric = spec::fabric("aries:1x2x16").unwrap();
    let content =
        "g,r,c,n,jobid\n0,0,0,0,77\n0,0,0,1,77\n0,0,0,2,78\n0,0,1,3,78\n0,0,1,2,78\n9,0,0,0,79\n";
    let jobs = read(content, &fabric).unwrap();
    assert_eq!(jobs.ids(), ["77", "78"]);
    assert_eq!((jobs.nodes(), jobs.unmatched()), (5, 1));
    let other = "job,n,c,r,g,user\n77,0,0,0,0,a\n77,1,0,0,0,a\n78,2,0,0,0,b\n78,3,1,0,0,b\n78,2,1,0,0,b\n79,0,0,0,9,c\n";
    assert_eq!(read(other, &fabric).unwrap(), jobs);
    let at = |c| fabric.router_at(&[0, 0, c]).unwrap();
    let between = |a: u32, b: u32| {
        *fabric
            .links_from(at(a))
            .iter()
            .find(|&&l| fabric.link(l).to == End::Router(at(b)))
            .unwrap()
    };
    // Eight nodes at the ends: three of job 78, two of 77, three idle.
    assert_eq!(jobs.shares(&fabric, between(0, 1)), [(1, 0.375), (0, 0.25)]);
    assert_eq!(jobs.shares(&fabric, between(0, 2)), [(0, 0.25), (1, 0.125)]);
    assert_eq!(jobs.shares(&fabric, between(2, 3)), []);
    // A node's own link belongs to its job alone.
    let node = fabric.nodes_on(at(0))[2];
    assert_eq!(jobs.jobs_on(node), [1]);
    assert!(fabric.node(node).name.ends_with("n2"));
    assert_eq!(jobs.shares(&fabric, fabric.node(node).inject), [(1, 1.0)]);
}

#[test]
fn bad_jobs_are_named() {
    let fabric = spec::fabric("aries:1x2x16").unwrap();
    for (content, start) in [
        ("", "jobs.csv: found nothing"),
        ("a,b\n", "jobs.csv:1: found a,b"),
        ("g,r,c,n,jobid\n0,0,0,0\n", "jobs.csv:2: found 0,0,0,0"),
        ("g,r,c,n,jobid\n0,0,x,0,1\n", "jobs.csv:2: found x"),
        ("g,r,c,n,jobid\n0,0,0,0,\n", "jobs.csv:2: found nothing"),
        (
            "g,r,c,n,jobid\n0,0,0,0,1\n0,0,0,0,2\n",
            "jobs.csv:3: found 0,0,0,0,2",
        ),
        ("g,r,c,n,jobid\n9,0,0,0,1\n", "jobs.csv: found 1 rows, none"),
        ("job,node\n7,n0\n,n1\n", "jobs.csv:3: found nothing"),
    ] {
        let error = read(content, &fabric).unwrap_err();
        assert!(
            error.starts_with(start) && error.contains("expected"),
            "{error}"
        );
    }
}

#[test]
fn lists_without_times_say_so() {
    let fabric = spec::fabric("torus:2x2").unwrap();
    let at = |content: &str| {
        let text = Text::from_bytes("jobs", content.as_bytes(), Limits::TEXT).unwrap();
        jobs(&text, &fabric, Then::Past(150.0))
            .unwrap_err()
            .to_string()
    };
    // PBS prints local times without their zone.
    let without = "Job Id: 7\n    job_state = R\n    exec_host = n0-0/0\n    stime = Fri Nov 27 10:00:00 2026\n";
    assert!(at(without).contains("has no times"), "{}", at(without));
    let other = "job,node,start,end\n7,n0-0,10,20\n";
    assert!(at(other).contains("within the list"), "{}", at(other));
}

/// The components of a heterogeneous job have ids of their own.
#[test]
fn a_heterogeneous_job_of_slurm_is_one_job() {
    let fabric = spec::fabric("torus:2x2").unwrap();
    let set = |n: u32| format!("{{\"set\":true,\"infinite\":false,\"number\":{n}}}");
    let squeue = |id: u32, node: &str| {
        format!(
            "{{\"job_id\":{id},\"het_job_id\":{},\"job_state\":[\"RUNNING\"],\"nodes\":\"{node}\"}}",
            set(7)
        )
    };
    let sacct = |id: u32, node: &str| {
        format!(
            "{{\"job_id\":{id},\"het\":{{\"job_id\":7,\"job_offset\":{}}},\"state\":{{\"current\":[\"RUNNING\"]}},\"nodes\":\"{node}\"}}",
            set(id - 7)
        )
    };
    let alone = squeue(9, "n1-1").replace(&set(7), &set(0));
    let scontrol = |id: u32, node: &str| {
        format!(
            "JobId={id} HetJobId=7 HetJobOffset=0 JobName=a\n   JobState=RUNNING\n   NodeList={node}\n"
        )
    };
    let json = |jobs: &[String]| format!("{{\"jobs\":[{}]}}", jobs.join(","));
    for (list, ids) in [
        (
            json(&[squeue(7, "n0-0"), squeue(8, "n1-0"), alone]),
            vec!["7", "9"],
        ),
        (json(&[sacct(7, "n0-0"), sacct(8, "n1-0")]), vec!["7"]),
        (scontrol(7, "n0-0") + &scontrol(8, "n1-0"), vec!["7"]),
    ] {
        let jobs = read(&list, &fabric).unwrap();
        assert_eq!(jobs.ids(), ids, "{list}");
        let node = fabric.find_node("n1-0").unwrap();
        assert_eq!(jobs.jobs_on(node), [0]);
    }
}

/// The same jobs in the form of every batch system.
#[test]
fn every_batch_system_lists_the_same_jobs() {
    let fabric = spec::fabric("torus:2x2:nodes=2").unwrap();
    let squeue = r#"{"meta":{},"jobs":[
        {"job_id":7,"job_state":["RUNNING"],"nodes":"n0-0-[0-1],n0-1-0","start_time":{"set":true,"infinite":false,"number":100},"end_time":{"set":true,"number":200}},
        {"job_id":8,"job_state":"RUNNING","nodes":"n0-1-0,n9-9-9","start_time":100,"end_time":0},
        {"job_id":9,"job_state":["PENDING"],"nodes":"","start_time":{"set":false,"number":0}}]}"#;
    let sacct = r#"{"jobs":[
        {"job_id":7,"state":{"current":["RUNNING"]},"nodes":"n0-0-[0-1],n0-1-0","time":{"start":100,"end":200}},
        {"job_id":8,"state":{"current":"RUNNING"},"nodes":"n0-1-0,n9-9-9","time":{"start":100,"end":0}},
        {"job_id":9,"state":{"current":["PENDING"]},"nodes":"None assigned","time":{"start":0}}]}"#;
    let scontrol = "JobId=7 JobName=a b\n   JobState=RUNNING Reason=None\n   ReqNodeList=(null) ExcNodeList=x\n   \
        NodeList=n0-0-[0-1],n0-1-0\n\nJobId=8 JobName=x\n   JobState=RUNNING\n   NodeList=n0-1-0,n9-9-9\n\n\
        JobId=9 JobName=y\n   JobState=PENDING\n   NodeList=\n";
    let qstat = "Job Id: 7\n    job_state = R\n    exec_host = n0-0-0/0*4+n0-0-1/0*4+\n\tn0-1-0/0\n\nJob Id: 8\n    \
        job_state = R\n    exec_host = n0-1-0/1+n9-9-9/0\n\nJob Id: 9\n    job_state = Q\n";
    let qstat_json = r#"{"timestamp":1,"Jobs":{"7":{"job_state":"R","exec_host":"n0-0-0/0*4+n0-0-1/0*4+n0-1-0/0"},
        "8":{"job_state":"R","exec_host":"n0-1-0/1+n9-9-9/0"},"9":{"job_state":"Q"}}}"#;
    let flux = r#"{"jobs":[{"id":7,"state":"RUN","nodelist":"n0-0-[0-1],n0-1-0","t_run":100.0},
        {"id":"8","state":"RUN","nodelist":"n0-1-0,n9-9-9","t_run":100.0},{"id":9,"state":"SCHED","nodelist":""}]}"#;
    for content in [squeue, sacct, scontrol, qstat, qstat_json, flux] {
        let jobs = read(content, &fabric).unwrap();
        assert_eq!(jobs.ids(), ["7", "8"], "{content}");
        assert_eq!(
            (jobs.nodes(), jobs.unmatched(), jobs.others),
            (3, 1, 1),
            "{content}"
        );
        let shared = fabric.find_node("n0-1-0").unwrap();
        assert_eq!(jobs.jobs_on(shared), [0, 1], "{content}");
        assert_eq!(jobs.nodes_of(1), [shared]);
    }
    let csv = "node,job\nn0-0-0,7\nn0-0-1,7\nn0-1-0,7\nn0-1-0,8\nn9-9-9,8\n";
    let jobs = read(csv, &fabric).unwrap();
    assert_eq!(
        (
            jobs.ids().len(),
            jobs.nodes(),
            jobs.unmatched(),
            jobs.others
        ),
        (2, 3, 1, 0)
    );
}

#[test]
fn hosts_have_all_their_adapters_with_and_without_their_domain() {
    let mut builder = FabricBuilder::new(Family::Generic, "three hosts");
    let switch = builder.router("s", &[]);
    let kind = builder.kind("host", false);
    for (name, host) in [
        ("a HCA-1", "a.site.org"),
        ("a HCA-2", "a.site.org"),
        ("b HCA-1", "b.site.org"),
        ("b.other HCA-1", "b.other.org"),
        ("c HCA-1", "c"),
    ] {
        builder.node_with_link(name, host, switch, kind, BytesPerSecond(1e9));
    }
    let fabric = builder.finish().unwrap();
    let jobs = read("node,job\na,1\nb.site.org,2\nc.site.org,3\n", &fabric).unwrap();
    assert_eq!([0, 1, 2].map(|job| jobs.nodes_of(job).len()), [2, 1, 1]);
    // Two hosts are called b.
    let jobs = read("node,job\na.site.org,1\nb,2\n", &fabric).unwrap();
    assert_eq!((jobs.nodes(), jobs.unmatched()), (2, 1));
    let notes = jobs.notes(std::path::Path::new("jobs.csv"));
    assert_eq!(
        notes,
        ["jobs.csv: 1 left out, host that is no node of the fabric: b"]
    );
}

#[test]
fn jobs_of_a_past_time_are_selected_by_it() {
    let fabric = spec::fabric("torus:2x2").unwrap();
    let at = |content: &str, at: Option<f64>| {
        let text = Text::from_bytes("jobs", content.as_bytes(), Limits::TEXT).unwrap();
        jobs(&text, &fabric, at.map_or(Then::Now(1e9), Then::Past))
            .map(|j| j.ids().to_vec())
            .map_err(|e| e.to_string())
    };
    let sacct = r#"{"jobs":[{"job_id":1,"state":{"current":["COMPLETED"]},"nodes":"n0-0","time":{"start":100,"end":200}},
        {"job_id":2,"state":{"current":["TIMEOUT"]},"nodes":"n0-1","time":{"start":150,"end":250}}]}"#;
    assert_eq!(at(sacct, Some(120.0)).unwrap(), ["1"]);
    assert_eq!(at(sacct, Some(150.0)).unwrap(), ["1", "2"]);
    assert_eq!(at(sacct, Some(250.0)).unwrap(), ["2"]);
    assert!(
        at(sacct, Some(251.0))
            .unwrap_err()
            .contains("2 of them not running then")
    );
    assert!(at(sacct, None).unwrap_err().contains("2 jobs"));
    assert_eq!(
        at("job,node,start,end\n5,n0-0,1,2\n6,n0-1,2,\n", Some(3.0)).unwrap(),
        ["6"]
    );
    for content in [
        r#"{"jobs":{}}"#,
        "{",
        r#"{"jobs":[{"nodes":"n0-0"}]}"#,
        "job,node\n1\n",
        "job,node,start\n1,n0-0,x\n",
    ] {
        assert!(
            at(content, None).unwrap_err().contains("expected"),
            "{content}"
        );
    }
    let open = r#"{"jobs":[{"job_id":1,"job_state":"RUNNING","nodes":"n[0-"}]}"#;
    assert!(at(open, None).unwrap_err().contains("nodes of job 1"));
}

#[test]
fn jobs_of_a_table_that_have_ended_do_not_run() {
    let fabric = spec::fabric("torus:2x2").unwrap();
    let of = |content: &str, then| {
        let text = Text::from_bytes("jobs", content.as_bytes(), Limits::TEXT).unwrap();
        jobs(&text, &fabric, then).map_err(|e| e.to_string())
    };
    let table = "job,node,start,end\n1,n0-0,100,200\n2,n0-0,150,\n3,n0-1,400,\n";
    let now = of(table, Then::Now(300.0)).unwrap();
    assert_eq!(
        (now.ids(), now.others, now.change),
        (&["2".to_owned()][..], 2, true)
    );
    let ended = "job,node,start,end\n1,n0-0,100,200\n";
    let error = of(ended, Then::Now(300.0)).unwrap_err();
    assert!(
        error.contains("1 of them not running then") && error.contains("--jobs-at"),
        "{error}"
    );
    let live = of(ended, Then::Live(300.0)).unwrap();
    assert_eq!((live.nodes(), live.others), (0, 1));
    // Without times a job of a table runs.
    let plain = of("job,node\n1,n0-0\n", Then::Now(300.0)).unwrap();
    assert_eq!((plain.nodes(), plain.change), (1, false));
    // What a batch system says counts more than the end that it allows.
    let late = r#"{"jobs":[{"job_id":1,"job_state":"RUNNING","nodes":"n0-0","start_time":100,"end_time":200}]}"#;
    assert_eq!(of(late, Then::Now(300.0)).unwrap().nodes(), 1);
}

#[test]
fn jobs_without_nodes_or_an_id_are_told() {
    let fabric = spec::fabric("torus:2x2").unwrap();
    let runs = |id: u32, nodes: &str| {
        format!(r#"{{"job_id":{id},"job_state":"RUNNING","nodes":"{nodes}"}}"#)
    };
    let list = |jobs: &[String]| format!(r#"{{"jobs":[{}]}}"#, jobs.join(","));
    let some = list(&[runs(7, "n0-0"), runs(8, "")]);
    let jobs = read(&some, &fabric).unwrap();
    assert_eq!((jobs.ids().len(), jobs.unmatched()), (1, 0));
    let told = "jobs: 1 left out, job that runs, of which the list has no nodes: 8";
    assert_eq!(jobs.notes(Path::new("jobs")), [told]);
    let none = list(&[runs(8, "")]);
    let error = read(&none, &fabric).unwrap_err();
    assert!(error.contains("1 without nodes, 0 hosts"), "{error}");
    let text = Text::from_bytes("jobs", none.as_bytes(), Limits::TEXT).unwrap();
    assert!(jobs_of(&text, &fabric, Then::Live(0.0)).is_ok());
    // Rows that lost their ids would be one job.
    let lost = read(&list(&[runs(0, "n0-0"), runs(0, "n1-0")]), &fabric);
    assert!(lost.unwrap_err().contains("a job without job_id"));
    let pod = |name: &str, label: &str, node: &str| {
        format!(
            r#"{{"kind":"Pod","metadata":{{"name":"{name}","labels":{{"job-name":"{label}"}}}},"spec":{{"nodeName":"{node}"}},
            "status":{{"phase":"Running"}}}}"#
        )
    };
    let pods = |a, b| format!(r#"{{"kind":"List","items":[{a},{b}]}}"#);
    let jobs = read(&pods(pod("a", "", "n0-0"), pod("b", "", "n1-0")), &fabric);
    assert_eq!(jobs.unwrap().ids(), ["a", "b"]);
    let lost = read(&pods(pod("", "", "n0-0"), pod("", "", "n1-0")), &fabric);
    assert!(lost.unwrap_err().contains("expected pods"));
}

#[test]
fn a_list_that_was_cut_is_refused() {
    let fabric = spec::fabric("torus:2x2").unwrap();
    for cut in [
        "job,node\n7,n0-0\n8,n0-",
        "job,node\n7,n0-0",
        "JobId=7 JobState=RUNNING NodeList=n0-0",
        "Job Id: 7\n    job_state = R\n    exec_host = n0-0/0",
    ] {
        let error = read(cut, &fabric).unwrap_err();
        assert!(
            error.contains("line end") && error.contains("was cut"),
            "{cut}: {error}"
        );
        assert!(read(&format!("{cut}\n"), &fabric).is_ok(), "{cut}");
    }
}

#[test]
fn pods_are_jobs_by_their_labels_and_owners() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let pod = |name: &str, more: &str, node: &str, phase: &str| {
        format!(
            r#"{{"kind":"Pod","metadata":{{"name":"{name}","namespace":"ml"{more}}},"spec":{{"nodeName":"{node}"}},
            "status":{{"phase":"{phase}","startTime":"2026-11-27T10:00:00Z"}}}}"#
        )
    };
    let label = r#","labels":{"job-name":"train"}"#;
    let owner = |kind: &str| format!(r#","ownerReferences":[{{"kind":"{kind}","name":"own"}}]"#);
    let pods = [
        pod("train-0", label, "n0-0", "Running"),
        pod("train-1", label, "n2-0", "Running"),
        pod("shell", "", "n1-1", "Running"),
        pod("s-0", &owner("StatefulSet"), "n1-2", "Running"),
        pod("net", &owner("DaemonSet"), "n0-0", "Running"),
        pod("next", label, "", "Pending"),
    ];
    let list = format!(r#"{{"kind":"List","items":[{}]}}"#, pods.join(","));
    let jobs = read(&list, &fabric).unwrap();
    assert_eq!(jobs.ids(), ["ml/train", "ml/shell", "ml/own"]);
    assert_eq!(
        (jobs.nodes_of(0).len(), jobs.nodes(), jobs.others),
        (2, 4, 1),
        "pods of a DaemonSet are no jobs"
    );
    assert_eq!(read(&pods[4], &fabric).unwrap().others, 0);
    assert_eq!(
        read(&pods[2], &fabric).unwrap().ids(),
        ["ml/shell"],
        "a single pod"
    );
    let other = r#"{"kind":"List","items":[{"kind":"Service","metadata":{"name":"s"}}]}"#;
    assert!(
        read(other, &fabric)
            .unwrap_err()
            .contains("found Service, expected pods")
    );
    let text = Text::from_bytes("pods", list.as_bytes(), Limits::TEXT).unwrap();
    let before = jobs_of(&text, &fabric, Then::Past(1_795_773_599.0));
    assert!(before.unwrap_err().to_string().contains("not running then"));
}

#[test]
fn a_single_job_of_flux_is_a_list() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let one = r#"{"id": 58577289183232, "name": "a", "state": "RUN", "nodelist": "n0-0,n2-0", "t_run": 1700000000.5}"#;
    let jobs = read(one, &fabric).unwrap();
    assert_eq!(
        (jobs.ids(), jobs.nodes()),
        (&["58577289183232".to_owned()][..], 2)
    );
}

#[test]
fn jobs_of_flux_that_wait_have_no_nodes() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let waits = r#"{"id": 7, "jobid": "ƒ8", "t_submit": 5.0, "state": "SCHED", "nnodes": 2}"#;
    let runs = r#"{"id": 9, "jobid": "ƒA", "t_submit": 5.0, "state": "RUN", "nodelist": "n0-0", "t_run": 6.0}"#;
    let jobs = read(&format!(r#"{{"jobs": [{waits}, {runs}]}}"#), &fabric).unwrap();
    assert_eq!((jobs.ids(), jobs.nodes()), (&["ƒA".to_owned()][..], 1));
    // A list of jobs that wait is as an empty one, and says so.
    let alone = read(waits, &fabric).unwrap();
    assert_eq!((alone.nodes(), alone.others), (0, 1));
    let told = "jobs: 1 jobs do not run then";
    assert_eq!(alone.notes(Path::new("jobs")), [told]);
    let pending = "JobId=7 JobState=PENDING NodeList=(null)\nJobId=8 JobState=PENDING NodeList=\n";
    assert_eq!(read(pending, &fabric).unwrap().others, 2);
    let ended = "JobId=7 JobState=COMPLETED NodeList=n0-0\n";
    assert!(read(ended, &fabric).unwrap_err().contains("not running"));
}

/// A finished job shows the zone of its dates, here five hours behind UTC: 10:00 is 1795791600.
#[test]
fn jobs_of_pbs_have_a_past_beside_finished_ones() {
    let fabric = spec::fabric("torus:2x2").unwrap();
    let json = r#"{"timestamp":1795793000,"Jobs":{
        "1.s":{"job_state":"F","exec_host":"n0-0/0*4","stime":"Fri Nov 27 10:00:00 2026","mtime":"Fri Nov 27 10:10:20 2026",
            "obittime":"Fri Nov 27 10:10:00 2026","history_timestamp":1795792220},
        "2.s":{"job_state":"R","exec_host":"n0-1/0","stime":"Fri Nov 27 10:05:00 2026","mtime":"Fri Nov 27 10:05:00 2026"},
        "3.s":{"job_state":"Q","stime":"Fri Nov 27 09:00:00 2026"}}}"#;
    let text = "Job Id: 1.s\n    job_state = F\n    exec_host = n0-0/0*4\n    stime = Fri Nov 27 10:00:00 2026\n    \
        mtime = Fri Nov 27 10:10:20 2026\n    obittime = Fri Nov 27 10:10:00 2026\n    history_timestamp = 1795792220\n\n\
        Job Id: 2.s\n    job_state = R\n    exec_host = n0-1/0\n    stime = Fri Nov 27 10:05:00 2026\n";
    let without = text.replace("    obittime = Fri Nov 27 10:10:00 2026\n", "");
    for content in [json, text, &without] {
        let at = |time: f64| {
            let text = Text::from_bytes("jobs", content.as_bytes(), Limits::TEXT).unwrap();
            let jobs = jobs(&text, &fabric, Then::Past(time));
            jobs.map_or_else(|e| vec![e.to_string()], |j| j.ids().to_vec())
        };
        assert_eq!(at(1_795_791_601.0), ["1.s"]);
        assert_eq!(at(1_795_791_960.0), ["1.s", "2.s"]);
        assert_eq!(at(1_795_793_000.0), ["2.s"]);
        assert!(at(1_795_791_599.0)[0].contains("within the list"));
    }
}

#[test]
fn arrays_of_pbs_without_their_members_are_told() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let array = r#""5[].n0": {"job_state": "B"}"#;
    let member = r#""5[1].n0": {"job_state": "R", "exec_host": "n0-0/0*2"}"#;
    let told = |jobs: &str| {
        let list = format!(r#"{{"Jobs": {{{jobs}}}}}"#);
        let error = read(&list, &fabric).err();
        error.is_some_and(|e| e.contains("qstat -t -f"))
    };
    assert!(told(array));
    assert!(!told(&format!("{array}, {member}")));
    // Of a list with the finished jobs (qstat -x); one that was deleted before it began had no members.
    let finished = r#""5[].n0": {"job_state": "F", "stime": "Fri Nov 27 10:00:00 2026"}"#;
    assert!(told(finished));
    assert!(!told(&format!("{finished}, {member}")));
    assert!(!told(r#""5[].n0": {"job_state": "F"}"#));
}

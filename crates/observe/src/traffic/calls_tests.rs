use super::tests::{hbr, prof};
use super::*;
use crate::text::Limits;

/// MPICH's algorithms depend on the hosts where these have several ranks.
#[test]
fn collectives_of_mpich_between_hosts_are_assumed() {
    let notes = |version: &str, hosts: [&str; 4]| {
        let body = |r: usize| {
            let listing = if r == 0 { "0-3" } else { "-" };
            let (host, call) = (hosts[r], "allreduce\t-1\t8000\t8000\t1");
            format!(
                "library\t{version}\nhost\t{host}\nphase\t0\tmain\ngroup\tab\t4\t{listing}\nK\t0\tab\t{call}\n"
            )
        };
        let files = [0, 1, 2, 3].map(|r| (format!("rank.{r}.hbr"), hbr(r as u32, 4, &body(r))));
        let files: Vec<(&str, &str)> = files.iter().map(|(n, c)| (&**n, &**c)).collect();
        prof(&files).unwrap().notes.join("\n")
    };
    let (four, three) = ("MPICH Version: 4.0.2", "MPICH Version: 3.4.3");
    let assumed = "assumed: MPICH reduces and broadcasts inside hosts and between them";
    assert!(notes(four, ["a", "a", "b", "b"]).contains(assumed));
    for (version, hosts) in [
        (four, ["a", "b", "c", "d"]),
        (four, ["a"; 4]),
        (three, ["a", "a", "b", "b"]),
    ] {
        let found = notes(version, hosts);
        assert!(!found.contains("assumed"), "{version} {hosts:?}: {found}");
    }
    assert!(notes(four, ["a"; 4]).contains("rabenseifner (as MPICH decides)"));
    assert!(notes(three, ["a"; 4]).contains("rabenseifner (as MPICH 3 decides)"));
}

/// Nonblocking and persistent calls, and operations that do not commute, have other algorithms than plain calls.
#[test]
fn calls_unlike_plain_ones_have_other_algorithms() {
    let by = |library: &str, call: &str, rules: &str| {
        let body = |r: usize| {
            let listing = if r == 0 { "0-3" } else { "-" };
            format!(
                "library\t{library}\nsetting\tOMPI_MCA_coll_tuned_use_dynamic_rules\t1\n\
                 setting\tOMPI_MCA_coll_tuned_allreduce_algorithm\t1\nphase\t0\tmain\n\
                 group\tab\t4\t{listing}\nK\t0\tab\t{call}\n"
            )
        };
        let files = [0, 1, 2, 3].map(|r| (format!("rank.{r}.hbr"), hbr(r as u32, 4, &body(r))));
        let text = |(name, content): &(String, String)| {
            Text::from_bytes(name.as_str(), content.as_bytes(), Limits::ROWS).unwrap()
        };
        let texts: Vec<Text> = files.iter().map(text).collect();
        let rules = match rules {
            "" => Algorithms::default(),
            given => Algorithms::parse(given).unwrap(),
        };
        let traffic = record::read("r", &texts, &rules).unwrap().0;
        traffic.notes.join("\n")
    };
    let read = |call: &str, rules: &str| by("Open MPI v4.1.4, x", call, rules);
    for (call, expected) in [
        (
            "allreduce\t-1\t80\t80\t1",
            "linear (set by the job's variables)",
        ),
        (
            "allreduce\t-1\t80\t80\t1\tnonblocking",
            "binomial-near-binomial (as Open MPI decides)",
        ),
        (
            "reduce_scatter\t-1\t80\t20\t1\tpersistent",
            "binomial-linear (as Open MPI decides)",
        ),
        // A scan goes from rank to rank with any operation; words of later versions are passed over.
        (
            "scan\t-1\t80\t80\t1\tordered",
            "linear (as Open MPI decides)",
        ),
        ("scan\t-1\t80\t80\t1\tlater", "linear (as Open MPI decides)"),
    ] {
        let found = read(call, "");
        assert!(found.contains(&format!(" by {expected}: ")), "{found}");
        assert!(!found.contains("assumed"), "{found}");
    }
    let assumed = |found: &str, reason: &str| {
        let notes = found
            .lines()
            .filter(|l| l.contains("collectives are assumed: "));
        let notes: Vec<&str> = notes.collect();
        assert!(found.contains("(assumed, as "), "{found}");
        assert!(
            matches!(notes[..], [note] if note.contains(reason)),
            "{found}"
        );
    };
    for call in [
        "reduce\t0\t~64\t80\t1\tordered",
        "allreduce\t-1\t80\t80\t1\tpersistent,ordered",
    ] {
        assumed(&read(call, ""), "operations that do not commute");
        assert!(!read(call, "allreduce=ring,reduce=linear").contains("assumed"));
    }
    let of_mpich = by(
        "MPICH Version: 4.1.2",
        "bcast\t0\t80\t80\t1\tnonblocking",
        "",
    );
    assumed(&of_mpich, "nonblocking and persistent calls");
}

/// Open MPI 5 on several hosts.
#[test]
fn collectives_of_open_mpi_5_follow_hosts() {
    let read = |version: &str, hosts: [&str; 4], kind: &str| {
        let body = |r: usize| {
            let listing = if r == 0 { "0-3" } else { "-" };
            let (host, call) = (hosts[r], format!("{kind}\t-1\t80\t80\t1"));
            format!(
                "library\t{version}\nhost\t{host}\nphase\t0\tmain\ngroup\tab\t4\t{listing}\nK\t0\tab\t{call}\n"
            )
        };
        let files = [0, 1, 2, 3].map(|r| (format!("rank.{r}.hbr"), hbr(r as u32, 4, &body(r))));
        let files: Vec<(&str, &str)> = files.iter().map(|(n, c)| (&**n, &**c)).collect();
        let traffic = prof(&files).unwrap();
        traffic.notes.join("\n")
    };
    let (four, five) = ("Open MPI v4.1.4, x", "Open MPI v5.0.11, x");
    let blocks = ["a", "a", "b", "b"];
    let by_hosts = "allreduce by han (as Open MPI decides)";
    for hosts in [blocks, ["a", "b", "a", "b"]] {
        assert!(read(five, hosts, "allreduce").contains(by_hosts));
    }
    for (version, hosts, kind) in [
        (four, blocks, "allreduce"),
        (five, ["a", "b", "c", "d"], "allreduce"),
        (five, ["a"; 4], "allreduce"),
        (five, blocks, "alltoall"),
        (five, ["a", "a", "a", "b"], "bcast"),
    ] {
        let found = read(version, hosts, kind);
        let flat = !found.contains("by han") && !found.contains("assumed");
        assert!(flat, "{version} {hosts:?} {kind}: {found}");
    }
    let found = read(five, blocks, "allgatherv");
    assert!(found.contains("assumed: Open MPI 5"), "{found}");
}

use super::*;
use hopbyte_fabric::spec;

fn read(content: &str, fabric: &Fabric) -> Result<Jobs, String> {
    let text = Text::from_bytes("jobs.csv", content.as_bytes(), Limits::TEXT).unwrap();
    jobs(&text, fabric).map_err(|e| e.to_string())
}

#[test]
fn shares_are_of_the_nodes_at_both_ends() {
    let fabric = spec::fabric("aries:1x2x16").unwrap();
    let content =
        "g,r,c,n,jobid\n0,0,0,0,77\n0,0,0,1,77\n0,0,0,2,78\n0,0,1,3,78\n0,0,1,2,78\n9,0,0,0,79\n";
    let jobs = read(content, &fabric).unwrap();
    assert_eq!(jobs.ids(), ["77", "78"]);
    assert_eq!((jobs.nodes(), jobs.unmatched), (5, 1));
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
    assert_eq!(jobs.job_of(node), Some(1));
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
    ] {
        let error = read(content, &fabric).unwrap_err();
        assert!(
            error.starts_with(start) && error.contains("expected"),
            "{error}"
        );
    }
}

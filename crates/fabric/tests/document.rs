//! hopbyte's own format of a machine: round trips, and checks of untrusted input.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::compact::{Damage, from_bytes, seal, to_bytes};
use hopbyte_fabric::document::{Document, EndRecord, RoutingRecord};
use hopbyte_fabric::routing::ForwardingTables;
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    End, Fabric, FabricBuilder, Family, LinkId, LinkSpec, NodeId, Reach, RouterId, Routing, faults,
    spec,
};
use proptest::prelude::*;

/// Both forms give the same machine: the whole fabric, and the shares of all pairs for small ones.
fn comes_back(fabric: &Fabric, routing: &Routing) {
    let (a, ra) = Document::of(fabric, routing).build().unwrap();
    assert_eq!(&a, fabric, "{}", fabric.source());
    let (b, rb) = from_bytes(&to_bytes(fabric, routing)).unwrap();
    assert_eq!(&b, fabric, "{}", fabric.source());
    for read in [&ra, &rb] {
        assert_eq!(read.describe(), routing.describe());
        let few = fabric.nodes().len().min(40);
        for (from, to) in (0..few).flat_map(|a| (0..few).map(move |b| (a, b))) {
            let shares = |r: &Routing| {
                let mut out = Vec::new();
                let (from, to) = (NodeId::of(from), NodeId::of(to));
                r.shares(fabric, from, to, &mut out).map(|()| out)
            };
            assert_eq!(shares(read), shares(routing));
        }
    }
}

#[test]
fn every_family_comes_back() {
    for (text, names) in [
        ("gemini:4x3x4", &["dimension-order:ZYX", "shortest"][..]),
        ("torus:2x3x4x2:nodes=2", &["dimension-order"]),
        ("torus:5x5:open=Y", &[]),
        ("mesh:3x3", &["updown"]),
        ("aries:2x2x4", &["valiant", "adaptive:0.6", "minimal"]),
        ("dragonfly:5x4", &[]),
        ("slingshot:3x4", &["adaptive"]),
        ("fattree:k=6,levels=3", &["updown"]),
        ("fattree:down=4x8,up=1x4", &[]),
        ("fattree:down=8x8,up=1x8,rails=4", &[]),
        ("hyperx:3x4", &["shortest"]),
        ("theta", &[]),
    ] {
        let machine = spec::machine(text).unwrap();
        comes_back(&machine.fabric, &machine.routing);
        for name in names {
            comes_back(
                &machine.fabric,
                &Routing::named(&machine.fabric, name).unwrap(),
            );
        }
    }
}

#[test]
fn faults_come_back() {
    let machine = spec::machine("gemini:4x4x4").unwrap();
    let name = |l| machine.fabric.link_name(LinkId(l));
    let text = format!("{}\none-way {}\n{}\n", name(0), name(40), name(81));
    let (down, _) = faults::parse(&machine.fabric, "", &text).unwrap();
    let fabric = machine.fabric.with_faults(&down);
    let routing = machine.routing.rerouted(&fabric);
    comes_back(&fabric, &routing);
}

/// A random machine: arbitrary names, kinds, lanes, ports, one-way links, missing table entries.
fn random_machine() -> impl Strategy<Value = (Fabric, Routing)> {
    let link = (
        0..6usize,
        0..6usize,
        0..3usize,
        1..5u16,
        0..5u16,
        0..3u16,
        0.5..9.0f64,
    );
    let node = (
        0..6usize,
        any::<Option<u16>>(),
        0..4usize,
        "[a-zé \"<&\\\\]{0,6}",
    );
    let hole = proptest::collection::vec(any::<u8>(), 64);
    (
        proptest::collection::vec(link, 1..20),
        proptest::collection::vec(node, 0..9),
        hole,
    )
        .prop_map(|(links, nodes, holes)| {
            let mut b = FabricBuilder::new(Family::Generic, "random \u{1f}");
            let kinds = ["4xQDR", "Kabel ü", ""].map(|k| b.kind(k, k.is_empty()));
            for r in 0..6 {
                b.router(format!("sw{}", r * 7), &[]);
                b.router_alias(format!("0x{r:016x}"), RouterId::of(r));
            }
            for (from, to, kind, lanes, lost, ports, rate) in links {
                let ends = [from, to].map(|r| End::Router(RouterId::of(r)));
                let id = b.link(LinkSpec {
                    from: ends[0],
                    to: ends[1],
                    kind: kinds[kind],
                    direction: None,
                    capacity: BytesPerSecond(rate * 1e9),
                    latency: Seconds(rate * 1e-7),
                    lanes,
                    lanes_in_service: lanes.saturating_sub(lost),
                });
                (0..ports).for_each(|p| b.port(id, p, p + 100));
            }
            for (i, (router, nid, host, name)) in nodes.into_iter().enumerate() {
                let (end, at) = (End::Node(NodeId::of(i)), End::Router(RouterId::of(router)));
                let rate = BytesPerSecond(1e9 / 3.0);
                let inject = b.link(LinkSpec::new(end, at, kinds[2], rate, Seconds(0.0)));
                let eject = b.link(LinkSpec::new(at, end, kinds[2], rate, Seconds(0.0)));
                let router = RouterId::of(router);
                let nid = nid.map(u32::from);
                let id = b.node(
                    format!("{name}{i}"),
                    format!("h{host}"),
                    nid,
                    router,
                    inject,
                    eject,
                );
                b.node_alias(format!("h{}", (host + 1) % 4), id);
                b.node_alias(format!("lid:{i}"), id);
            }
            let fabric = b.finish().unwrap();
            let mut tables = ForwardingTables::new(&fabric);
            let pairs = fabric
                .router_ids()
                .flat_map(|r| fabric.node_ids().map(move |n| (r, n)));
            for ((r, n), hole) in pairs.zip(holes) {
                let out = fabric.links_from(r);
                if let Some(&link) = out.get(usize::from(hole) % (out.len() + 1)) {
                    assert!(tables.set(&fabric, r, n, link));
                }
            }
            (fabric, Routing::Tables(tables))
        })
}

proptest! {
    #[test]
    fn anything_comes_back((fabric, routing) in random_machine()) {
        comes_back(&fabric, &routing);
        if let (Routing::Tables(a), Ok((_, Routing::Tables(b)))) =
            (&routing, from_bytes(&to_bytes(&fabric, &routing)))
        {
            prop_assert_eq!(a, &b);
        }
    }

    /// All pairs at once agree with all pairs one by one.
    #[test]
    fn reach_is_what_routes_say((fabric, routing) in random_machine()) {
        let reach = Reach::of(&fabric, &routing);
        let mut hops = std::collections::BTreeMap::new();
        let mut dead = Vec::new();
        for (from, to) in fabric.node_ids().flat_map(|a| fabric.node_ids().map(move |b| (a, b))) {
            match routing.hops(&fabric, from, to) {
                _ if from == to => {}
                Ok(n) => *hops.entry(n).or_default() += 1,
                Err(error) => dead.push(error),
            }
        }
        prop_assert_eq!(&reach.hops, &hops);
        prop_assert_eq!(reach.unroutable, dead);
        let nodes = fabric.nodes().len() as u64;
        prop_assert_eq!(reach.pairs, nodes * nodes.saturating_sub(1));
        prop_assert_eq!(reach.routable, hops.values().sum::<u64>());
    }

    /// Any byte changed: refused by the hash; with a corrected hash, refused or read, never a panic.
    #[test]
    fn damage_is_found(at in 0usize..4000, bits in 1u8..=255, machine in 0usize..4) {
        let spec = ["gemini:2x2x3", "fattree:k=4,levels=2", "aries:1x2x3", "mesh:2x3"][machine];
        let machine = spec::machine(spec).unwrap();
        let mut bytes = to_bytes(&machine.fabric, &machine.routing);
        let at = at % bytes.len();
        bytes[at] ^= bits;
        prop_assert!(from_bytes(&bytes).is_err());
        bytes.truncate(bytes.len() - 8);
        seal(&mut bytes);
        let _ = from_bytes(&bytes);
    }
}

#[test]
fn tables_take_little_room() {
    let machine = spec::machine("fattree:k=12,levels=3").unwrap();
    let fabric = &machine.fabric;
    let mut tables = ForwardingTables::new(fabric);
    for (at, to) in fabric
        .router_ids()
        .flat_map(|r| fabric.node_ids().map(move |n| (r, n)))
    {
        let link = machine.routing.next_link(fabric, at, to).unwrap();
        assert!(tables.set(fabric, at, to, link));
    }
    let routing = Routing::Tables(tables);
    comes_back(fabric, &routing);
    let rule = to_bytes(fabric, &machine.routing).len();
    let entries = fabric.routers().len() * fabric.nodes().len();
    assert_eq!(entries, 180 * 432);
    let rows = to_bytes(fabric, &routing).len() - rule;
    assert!(rows * 8 < entries, "{rows} bytes for {entries} entries");
}

#[test]
fn what_makes_no_machine_is_refused() {
    let machine = spec::machine("torus:3x3").unwrap();
    let good = Document::of(&machine.fabric, &machine.routing);
    assert!(good.clone().build().is_ok());
    let refused = |change: &dyn Fn(&mut Document)| {
        let mut bad = good.clone();
        change(&mut bad);
        bad.build().unwrap_err().to_string()
    };
    type Change<'a> = &'a dyn Fn(&mut Document);
    let cases: [(Change<'_>, &str); 12] = [
        (&|d| d.schema = "hopbyte.machine/2".into(), "schema"),
        (&|d| d.links[0].kind = 9, "kind of link 0"),
        (
            &|d| d.links[0].from = EndRecord::Router(9),
            "direction of link 0",
        ),
        (&|d| d.links[0].to = d.links[1].to, "direction of link 0"),
        (&|d| d.links[0].capacity_bytes_per_s = 0.0, "capacity"),
        (&|d| d.links[0].lanes_in_service = 7, "lanes"),
        (&|d| d.nodes[3].inject = 0, "node 3"),
        (&|d| d.nodes[3].router = 1000, "node 3"),
        (&|d| d.routers[1].name = d.routers[0].name.clone(), "router"),
        (
            &|d| d.shape.as_mut().unwrap().dims = vec![1 << 20, 1 << 20],
            "shape",
        ),
        (
            &|d| d.routing = RoutingRecord::Tables(vec![vec![Some(0); 9]; 9]),
            "table of router",
        ),
        (
            &|d| {
                d.routing = RoutingRecord::Tree {
                    down: vec![3, 3],
                    up: vec![1, 1],
                }
            },
            "tree",
        ),
    ];
    for (change, what) in cases {
        let text = refused(change);
        assert!(text.contains(what), "{what}: {text}");
    }
    let bytes = to_bytes(&machine.fabric, &machine.routing);
    let cut = from_bytes(&bytes[..bytes.len() - 1]).unwrap_err();
    assert!(matches!(cut, Damage::At { .. }) && cut.to_string().contains("hash"));
}

//! The HTML report: self-contained, deterministic, with missing values marked and names escaped.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    Allocation, End, Exchange, Fabric, FabricBuilder, Family, LinkSpec, NodeId, Placement,
    RouterId, Routing, declared, spec,
};
use hopbyte_map::{Options, Problem, evaluate, map};
use hopbyte_view::draw::{LinkLoads, Signs, Unit};
use hopbyte_view::report::{Job, ReportInput, Side, html};

/// A job on every third node of a machine, four ranks a node, before and after mapping.
fn report(fabric: &Fabric, exchange: &Exchange, ranks_per_node: u32) -> (String, f64, f64) {
    let routing = Routing::default_for(fabric);
    let wanted = exchange.tasks().div_ceil(ranks_per_node as usize);
    let step = fabric.nodes().len() / wanted;
    let nodes = (0..wanted).map(|n| (NodeId::of(n * step), ranks_per_node));
    let allocation = Allocation::new(fabric, nodes.collect()).unwrap();
    let problem = Problem::new(fabric, &routing, exchange, &allocation);
    let before = Placement::round_robin(&allocation, exchange.tasks()).unwrap();
    let cost = evaluate(&problem, &before).unwrap();
    let options = Options {
        trials: Some(20_000),
        ..Options::default()
    };
    let (after, mut certificate) = map(&problem, &options, &|_| {}).unwrap();
    (
        certificate.wall_seconds,
        certificate.cpu_seconds,
        certificate.threads,
    ) = (1.0, 1.0, 1);
    let input = ReportInput {
        title: String::new(),
        fabric,
        routing: &routing,
        job: Some(Job {
            traffic: "stencil:<test>".into(),
            exchange,
            before: Side::new("round robin", &problem, &before, &cost),
            after: Some(Side::new("mapped", &problem, &after, &certificate.result)),
            certificate: Some(&certificate),
        }),
        readings: Vec::new(),
        signs: Signs::default(),
        readings_source: String::new(),
        notes: vec!["assumed & noted".into()],
        command: "hopbyte map '<a>' --report r.html".into(),
    };
    let (b, a) = (
        cost.worst_link_seconds,
        certificate.result.worst_link_seconds,
    );
    (html(&input), b, a)
}

fn stencil() -> (Fabric, Exchange) {
    let fabric = spec::fabric("torus:5x4x3:nodes=2").unwrap();
    let exchange = declared::traffic("stencil:4x4x4:27:20000,400,8")
        .unwrap()
        .total();
    (fabric, exchange)
}

/// Text between two markers.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from}")) + from.len();
    &text[start..start + text[start..].find(to).unwrap()]
}

#[test]
fn it_needs_nothing_but_itself_and_says_the_gain() {
    let (fabric, exchange) = stencil();
    let (page, before, after) = report(&fabric, &exchange, 4);
    assert!(after < before, "{before} {after}");
    for tag in page.split('<').skip(1) {
        for attribute in ["src=", "href="] {
            if let Some(at) = tag
                .split_once('>')
                .and_then(|(t, _)| t.split_once(attribute))
            {
                assert!(at.1.starts_with("\"data:"), "{tag}");
            }
        }
    }
    assert!(!page.contains("@import") && !page.contains("url("));
    let lead = between(&page, "<p class=\"lead\">", "</p>");
    let words = LinkLoads::new("", Unit::Seconds, Vec::new());
    for value in [before, after] {
        assert!(lead.contains(&words.text(value)), "{lead}");
    }
    assert!(lead.starts_with("Moving ") && lead.contains('−'), "{lead}");
    for part in [
        "id=\"links\"",
        "id=\"spread\"",
        "id=\"ranks\"",
        "id=\"certificate\"",
        "id=\"how\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("Uncalibrated") && page.contains("assumed &amp; noted"));
    assert!(page.contains("hopbyte map &#39;&lt;a&gt;&#39; --report r.html"));
}

#[test]
fn the_same_question_gives_the_same_page() {
    let (fabric, exchange) = stencil();
    assert_eq!(
        report(&fabric, &exchange, 4).0,
        report(&fabric, &exchange, 4).0
    );
}

#[test]
fn the_embedded_numbers_are_those_of_the_evaluation() {
    let (fabric, exchange) = stencil();
    let (page, _, _) = report(&fabric, &exchange, 4);
    let json = between(
        &page,
        "<script type=\"application/json\" id=\"data\">",
        "</script>",
    );
    let data: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(data["schema"], "hopbyte-report-1");
    assert_eq!(
        data["links"]["name"].as_array().unwrap().len(),
        fabric.links().len()
    );
    for side in ["before", "after"] {
        let nodes = data["ranks"][side].as_array().unwrap();
        assert_eq!(nodes.len(), 64);
    }
    // The users of the most loaded link are pairs of the job's nodes.
    let worst = data["views"][0]["numbered_before"][0].as_u64().unwrap();
    let users = data["users"][0]["of_link"].as_array().unwrap();
    let of_worst = users.iter().find(|u| u[0].as_u64() == Some(worst)).unwrap();
    let job: Vec<&serde_json::Value> = data["ranks"]["before"].as_array().unwrap().iter().collect();
    for pair in of_worst[1].as_array().unwrap() {
        assert!(job.contains(&&pair[0]) && job.contains(&&pair[1]), "{pair}");
    }
}

#[test]
fn readings_without_a_job_are_shown_with_their_gaps() {
    let fabric = spec::fabric("gemini:4x4x8").unwrap();
    let routing = Routing::default_for(&fabric);
    let values = (0..fabric.links().len()).map(|i| if i % 2 == 0 { f64::NAN } else { 0.25 });
    let used = LinkLoads::new("used share of capacity", Unit::Ratio, values.collect());
    let input = ReportInput {
        title: "Now".into(),
        fabric: &fabric,
        routing: &routing,
        job: None,
        readings: vec![used],
        signs: Signs::default(),
        readings_source: "counters.txt, 60 s".into(),
        notes: Vec::new(),
        command: String::new(),
    };
    let page = html(&input);
    assert!(page.contains("<title>Now</title>") && page.contains("counters.txt, 60 s"));
    let lead = between(&page, "<p class=\"lead\">", "</p>");
    assert!(
        lead.contains("25.0 %") && lead.contains("Known for 512 of 1,024 links"),
        "{lead}"
    );
    assert!(page.contains("not known"));
    assert!(!page.contains("id=\"ranks\"") && !page.contains("Uncalibrated"));
}

#[test]
fn names_cannot_end_the_script_or_begin_an_element() {
    let mut b = FabricBuilder::new(Family::InfiniBand, "</script><img onerror=x>");
    let kind = b.kind("</script>", false);
    for name in ["</script><script>alert(1)</script>", "<!--"] {
        b.router(name, &[]);
    }
    let mut hosts = Vec::new();
    for r in [0, 1] {
        let (router, host) = (End::Router(RouterId(r)), End::Node(NodeId(r)));
        let spec = |a, z| LinkSpec::new(a, z, kind, BytesPerSecond(4e9), Seconds(1e-7));
        b.link(spec(router, End::Router(RouterId(1 - r))));
        hosts.push((b.link(spec(host, router)), b.link(spec(router, host))));
    }
    for (r, (inject, eject)) in hosts.into_iter().enumerate() {
        let name = format!("<b>{r}</b>");
        b.node(name.clone(), name, None, RouterId::of(r), inject, eject);
    }
    let fabric = b.finish().unwrap();
    let exchange = Exchange::new(4, [(0, 3, 1e6, 1), (1, 2, 1e6, 1), (0, 1, 5e6, 1)]).unwrap();
    let (page, _, _) = report(&fabric, &exchange, 2);
    assert_eq!(
        page.matches("<script").count(),
        2,
        "one of data, one of code"
    );
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img") && !page.contains("<!--") && !page.contains("<b>0"));
}

#[test]
fn hosts_show_places_ports_and_what_stays_inside() {
    let spec = "fattree:down=2x8,up=1x1,rails=4,link=50,hosts=gh200-quad";
    let machine = spec::machine(spec).unwrap();
    let (fabric, routing) = (&machine.fabric, &machine.routing);
    let pairs = (0..16u32).map(|rank| (rank, rank ^ 1, 1e9, 1));
    let exchange = Exchange::new(16, pairs).unwrap();
    let places = fabric.places();
    let slots = places.iter().map(|&place| (place, 1)).collect();
    let allocation = Allocation::new(fabric, slots).unwrap();
    let problem = Problem::new(fabric, routing, &exchange, &allocation);
    // Partners on two hosts, and on one.
    let apart = (0..16).map(|rank| places[rank / 2 + 8 * (rank % 2)]);
    let before = Placement::on_nodes(fabric, &allocation, apart).unwrap();
    let after = Placement::in_order(&allocation, 16).unwrap();
    let costs = [&before, &after].map(|p| evaluate(&problem, p).unwrap());
    let page = html(&ReportInput {
        title: String::new(),
        fabric,
        routing,
        job: Some(Job {
            traffic: "pairs".into(),
            exchange: &exchange,
            before: Side::new("apart", &problem, &before, &costs[0]),
            after: Some(Side::new("mapped", &problem, &after, &costs[1])),
            certificate: None,
        }),
        readings: Vec::new(),
        signs: Signs::default(),
        readings_source: String::new(),
        notes: Vec::new(),
        command: String::new(),
    });
    let section = between(&page, "<section id=\"hosts\">", "</section>");
    assert!(
        section.contains(
            "16.0 GB (100 %) stay inside (before 0 B, 0 %); 0 B leave by ports (before 16.0 GB)"
        ),
        "{section}"
    );
    // Two pictures of four hosts with four places and ports each.
    assert_eq!(section.matches("4 places, 4 ports").count(), 8);
    assert_eq!(section.matches(">NVLink</text>").count(), 8);
    assert_eq!(section.matches("<th scope=\"row\">h").count(), 4);
    let (page, ..) = report(&stencil().0, &stencil().1, 4);
    assert!(!page.contains("Inside the hosts"));
}

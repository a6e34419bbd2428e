//! Drawings of every kind of fabric: complete, well-formed, of reasonable size, with unknown values marked.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    End, Fabric, FabricBuilder, Family, LinkId, LinkSpec, LinkState, NodeId, RouterId, spec,
};
use hopbyte_view::draw::{
    DrawOptions, ERRORS, LinkLoads, Looks, Picture, Sign, Signs, Unit, compare_svg, fabric_svg,
    picture,
};

const SPECS: [&str; 9] = [
    "torus:5x4x3",
    "torus:8",
    "mesh:6x5",
    "torus:3x3x2x2:nodes=2",
    "gemini:4x4x8",
    "aries:3x2x4",
    "fattree:k=8,levels=3",
    "hyperx:4x4",
    "hyperx:12x12",
];

fn fabric(text: &str) -> Fabric {
    spec::fabric(text).unwrap()
}

/// A load that grows with the link's number, with every fifth link unknown and every seventh idle.
fn loads(fabric: &Fabric) -> LinkLoads {
    let value = |i: usize| match i {
        _ if i % 5 == 4 => f64::NAN,
        _ if i % 7 == 6 => 0.0,
        _ => i as f64,
    };
    let values = (0..fabric.links().len()).map(value).collect();
    LinkLoads::new("bytes received", Unit::Bytes, values)
}

fn drawn(fabric: &Fabric, loads: Option<&LinkLoads>) -> Picture {
    picture(&Looks::new(fabric, loads, None, &[]), 1000.0, 800.0)
}

/// Checks that tags are closed in order and that no stray ampersand is left.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece
            .split_once('>')
            .unwrap_or_else(|| panic!("open tag: {piece}"));
        for part in [tag, text] {
            for after in part.split('&').skip(1) {
                let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
                assert!(known.iter().any(|e| after.starts_with(e)), "{after}");
            }
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    assert!(!svg.contains("NaN"), "a place that is no number");
}

#[test]
fn every_link_and_router_has_a_place_inside_the_picture() {
    for text in SPECS {
        let fabric = fabric(text);
        let loads = loads(&fabric);
        let p = drawn(&fabric, Some(&loads));
        for l in fabric.link_ids() {
            let [x1, y1, x2, y2] = p.geometry.links[l.index()];
            let name = fabric.link_name(l);
            for (x, y) in [(x1, y1), (x2, y2)] {
                assert!(
                    (0.0..=p.width).contains(&x) && (0.0..=p.height).contains(&y),
                    "{text} {name}: {x} {y} outside {} {}",
                    p.width,
                    p.height
                );
            }
        }
        assert!(p.geometry.routers.iter().all(|r| r[2] > 0.0), "{text}");
        assert!(p.geometry.nodes.iter().all(|n| n[2] > 0.0), "{text}");
        assert_well_formed(&format!("<g>{}</g>", p.body));
    }
}

#[test]
fn places_do_not_depend_on_the_load() {
    for text in SPECS {
        let fabric = fabric(text);
        let loads = loads(&fabric);
        let tripled = loads.values().iter().map(|v| v * 3.0).collect();
        let heavier = LinkLoads::new("bytes received", Unit::Bytes, tripled);
        let (a, b) = (drawn(&fabric, Some(&loads)), drawn(&fabric, Some(&heavier)));
        assert_eq!((a.width, a.height), (b.width, b.height), "{text}");
        assert_eq!(a.geometry.links, b.geometry.links, "{text}");
    }
}

#[test]
fn missing_data_is_shown_as_missing() {
    let fabric = fabric("torus:4x4x4");
    let all = |value: f64| {
        let values = vec![value; fabric.links().len()];
        let loads = LinkLoads::new("bytes received", Unit::Bytes, values);
        fabric_svg(&fabric, Some(&loads), &DrawOptions::default())
    };
    let unknown = all(f64::NAN);
    assert!(unknown.contains("Not known for 512 of 512 links"));
    assert!(unknown.contains("class=\"u\" stroke-width=\"1.1\" stroke-dasharray"));
    assert!(
        !unknown.contains("class=\"l1\" d"),
        "a load was drawn without a measurement"
    );
    assert!(!all(1.0).contains("Not known"));
}

#[test]
fn cielo_is_drawn_link_by_link_and_stays_small() {
    let fabric = fabric("gemini:16x12x24");
    let loads = loads(&fabric);
    let options = DrawOptions {
        worst: 10,
        job: fabric.node_ids().take(2000).collect(),
        command: "hopbyte fabric draw gemini:16x12x24 -o x.svg".into(),
        ..DrawOptions::default()
    };
    let svg = fabric_svg(&fabric, Some(&loads), &options);
    assert_well_formed(&svg);
    assert!(svg.len() < 3_000_000, "{} bytes", svg.len());
    let (worst, _) = loads.worst(1)[0];
    assert!(svg.contains(&fabric.link_name(worst)));
    let larger = self::fabric("torus:40x40x40");
    let svg = fabric_svg(&larger, None, &DrawOptions::default());
    assert!(svg.len() < 1_000_000, "{} bytes", svg.len());
}

#[test]
fn names_from_a_network_stay_text() {
    let mut b = FabricBuilder::new(Family::InfiniBand, "<script>alert(1)</script>");
    let kind = b.kind("4x\"QDR\"&", false);
    let r = b.router("</title><script>alert('x')</script>", &[]);
    let other = b.router("\u{1}\u{fffe}", &[]);
    let (r, other, host) = (End::Router(r), End::Router(other), End::Node(NodeId(0)));
    let mut link = |from, to| {
        b.link(LinkSpec::new(
            from,
            to,
            kind,
            BytesPerSecond(4e9),
            Seconds(1e-7),
        ))
    };
    link(r, other);
    link(other, r);
    let (inject, eject) = (link(host, r), link(r, host));
    b.node("n&<1>", "h", None, RouterId(0), inject, eject);
    let fabric = b.finish().unwrap();
    let options = DrawOptions {
        worst: 4,
        command: "hopbyte fabric draw '<x>'".into(),
        ..DrawOptions::default()
    };
    let svg = fabric_svg(&fabric, Some(&loads(&fabric)), &options);
    assert_well_formed(&svg);
    assert!(!svg.contains("<script"));
}

#[test]
fn two_states_share_one_scale() {
    for text in ["torus:5x4x3", "fattree:k=4,levels=2", "gemini:16x12x24"] {
        let fabric = fabric(text);
        let heavy = loads(&fabric);
        let tenth = heavy.values().iter().map(|v| v / 10.0).collect();
        let light = LinkLoads::new("bytes received", Unit::Bytes, tenth);
        let options = DrawOptions {
            worst: 3,
            ..DrawOptions::default()
        };
        let svg = compare_svg(&fabric, ("heavy", &heavy), ("light", &light), &options);
        assert_well_formed(&svg);
        for words in [
            "Before: heavy",
            "After: light",
            "Worst links before",
            "Worst links after",
        ] {
            assert!(svg.contains(words), "{text}: {words}");
        }
        // A tenth of the maximum is in the lowest class: the picture after has no other class.
        let after = svg.split("After: light").nth(1).unwrap();
        let drawn = after.split("Worst links").next().unwrap();
        let shapes = |class: &str| drawn.matches(&format!("class=\"{class}\" ")).count();
        assert!(shapes("l1") > 0, "{text}");
        assert_eq!(shapes("l2") + shapes("l3") + shapes("l4") + shapes("l5"), 0);
    }
}

/// Every picture of a machine whose links carry almost nothing shows idle links and none of a load.
#[test]
fn an_idle_network_looks_idle() {
    for text in SPECS {
        let fabric = fabric(text);
        let at = |largest: f64| {
            let n = fabric.links().len();
            let values = (0..n)
                .map(|i| largest * (i + 1) as f64 / n as f64)
                .collect();
            let used = LinkLoads::new("used share of capacity", Unit::Ratio, values);
            let options = DrawOptions {
                worst: 5,
                ..DrawOptions::default()
            };
            let svg = fabric_svg(&fabric, Some(&used), &options);
            let drawn = svg.split("</style>").nth(1).unwrap();
            let parts = |class: &str| drawn.matches(&format!("class=\"{class}\" ")).count();
            let badges = drawn.matches("class=\"badge\"").count();
            // The legend has a sample of every class.
            let busy = (2..=5).map(|c| parts(&format!("l{c}"))).sum::<usize>();
            (parts("l1"), busy, badges)
        };
        let (quiet, busy, badges) = at(1e-5);
        assert_eq!((quiet, busy, badges), (2, 8, 0), "{text}");
        let (_, busy, badges) = at(1.0);
        assert!(busy > 8 && badges > 0, "{text}: {busy} {badges}");
    }
}

#[test]
fn errors_and_links_that_are_down_are_symbols() {
    for text in SPECS {
        let fabric = fabric(text);
        let mut state = LinkState::unknown(&fabric);
        let (erring, down) = (LinkId(1), LinkId(2));
        state.errors.set(LinkId(0), Some(0.0));
        state.errors.set(erring, Some(123_456.0));
        state.at_least.insert(erring);
        state.lanes.set(down, Some(0.0));
        let signs = Signs::of(&fabric, Some(&state));
        assert_eq!(signs.links(Sign::Errors), [erring]);
        assert_eq!(signs.links(Sign::Down), [down]);
        let counted = LinkLoads::of_column(ERRORS, Unit::Count, &state.errors);
        let said = [erring, LinkId(0), down].map(|link| signs.text(&counted, link));
        assert_eq!(said, [Some("≥ 123,456".into()), Some("0".into()), None]);
        let options = DrawOptions {
            worst: 1,
            signs: Some(signs.clone()),
            ..DrawOptions::default()
        };
        let page = fabric_svg(&fabric, Some(&counted), &options);
        assert!(page.contains(">≥ 123,456<"), "{text}");
        let idle = LinkLoads::new("used", Unit::Ratio, vec![0.0; fabric.links().len()]);
        let looks = Looks::new(&fabric, Some(&idle), None, &[]);
        let plain = picture(&looks, 1000.0, 800.0);
        assert!(!plain.body.contains("class=\"sign"), "{text}");
        let marked = picture(&looks.with_signs(&signs), 1000.0, 800.0);
        for class in ["sign errors", "sign cross"] {
            assert!(marked.body.contains(class), "{text}: {class}");
        }
        assert_well_formed(&format!("<g>{}</g>", marked.body));
    }
}

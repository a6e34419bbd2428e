//! Tables of the book, the C header and the Python types equal the tables in the code.
//!
//! Between `<!-- table NAME -->` and `<!-- end -->` a page holds a table as it is rendered here;
//! `TABLES=overwrite cargo test -p hopbyte-cli --test all tables` rewrites them.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_apply::{Job, Launch, Launcher};
use hopbyte_fabric::{Allocation, Class, NodeId, Placement, Routing, spec};
use hopbyte_map::Goal;
use hopbyte_observe::kinds::{Kind, kinds};
use hopbyte_observe::placement;
use hopbyte_observe::text::{Limits, Text};
use hopbyte_oracle::{Aggregate, Metric, Over};
use std::collections::BTreeMap;

fn table(head: &str, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rule = "|---".repeat(head.split(" | ").count());
    let rows: String = rows
        .into_iter()
        .map(|row| format!("| {} |\n", row.join(" | ")))
        .collect();
    format!("| {head} |\n{rule}|\n{rows}")
}

/// Formats with their pages, as links from `page`.
fn formats(kind: &Kind, page: &str) -> String {
    let rows = kind.formats.iter().map(|f| {
        let mut row = vec![f.name.to_owned(), f.about.to_owned()];
        if f.page != page {
            let file = f.page.rsplit('/').next().unwrap();
            row.push(format!("[{}]({file})", file.trim_end_matches(".md")));
        }
        row
    });
    let pages = kind.formats.iter().any(|f| f.page != page);
    let head = if pages {
        "format | content | page"
    } else {
        "format | content"
    };
    table(head, rows)
}

fn launchers() -> String {
    table(
        "`--emit` | file | use | effect of the launcher on a placement | seen on",
        Launcher::ALL.map(|l| {
            let words = [l.name(), l.file_name(), l.about(), l.effect(), l.seen_on()];
            words.map(str::to_owned).into()
        }),
    )
}

/// Every class of errors, with an anchor.
fn errors() -> String {
    let section = |class: &Class| {
        let about = class.about();
        let example = match about.example {
            "" => String::new(),
            line => format!("Example: `{line}`\n\n"),
        };
        format!(
            "\n### {}: {}\n\n{}\n\n{example}**What to do:** {}\n",
            about.id, about.title, about.cause, about.remedy
        )
    };
    Class::ALL.iter().map(section).collect::<String>() + "\n"
}

/// All blocks of pages.
fn blocks() -> BTreeMap<String, String> {
    let mut blocks = BTreeMap::new();
    for kind in kinds() {
        let page = match kind.name {
            "machines" => "formats/index.md",
            "counters" => "counters.md",
            "placements" => "launchers.md",
            _ => "formats/traffic.md",
        };
        blocks.insert(kind.name.into(), formats(&kind, page));
    }
    blocks.insert("launchers".into(), launchers());
    let metrics = Metric::ALL.map(|m| {
        let needs = if m.needs_state() { "counters" } else { "–" };
        [
            m.name(),
            m.unit(),
            m.about(),
            needs,
            m.default_aggregate().name(),
        ]
        .map(str::to_owned)
        .into()
    });
    let head = "`metric` | unit | meaning | needs | aggregate of a mapping where none is given";
    blocks.insert("metrics".into(), table(head, metrics));
    let named = |head: &str, rows: Vec<(&str, &str)>| {
        let row = |(name, about): (&str, &str)| vec![name.to_owned(), about.to_owned()];
        table(head, rows.into_iter().map(row))
    };
    let aggregates = Aggregate::ALL.map(|a| (a.name(), a.about())).into();
    blocks.insert(
        "aggregates".into(),
        named("`aggregate` | meaning", aggregates),
    );
    let overs = Over::ALL.map(|o| (o.name(), o.about())).into();
    blocks.insert("routes".into(), named("`over` | meaning", overs));
    let goals = Goal::ALL.map(|g| {
        let needs = if g.needs_costs() { g.needs() } else { "–" };
        [g.name(), g.unit(), g.about(), needs]
            .map(str::to_owned)
            .into()
    });
    let head = "`--objective` | unit | meaning | needs";
    blocks.insert("objectives".into(), table(head, goals));
    blocks.insert("errors".into(), errors());
    blocks
}

#[test]
fn the_book_lists_what_the_code_lists() {
    let overwrite = std::env::var_os("TABLES").is_some_and(|v| v == "overwrite");
    let root = hopbyte_testdata::workspace();
    let mut left = blocks();
    for page in [
        "docs/src/formats/index.md",
        "docs/src/formats/traffic.md",
        "docs/src/counters.md",
        "docs/src/explain.md",
        "docs/src/launchers.md",
        "docs/src/oracle.md",
        "docs/src/mapping.md",
    ] {
        let old = std::fs::read_to_string(root.join(page)).unwrap();
        let mut new = String::new();
        let mut rest = &old[..];
        while let Some((before, after)) = rest.split_once("<!-- table ") {
            let (name, after) = after.split_once(" -->\n").unwrap();
            let (_, after) = after
                .split_once("<!-- end -->")
                .unwrap_or_else(|| panic!("{page}: table {name} does not end"));
            let block = left
                .remove(name)
                .unwrap_or_else(|| panic!("{page}: no table {name}, or twice"));
            new.push_str(&format!(
                "{before}<!-- table {name} -->\n{block}<!-- end -->"
            ));
            rest = after;
        }
        new.push_str(rest);
        if overwrite {
            std::fs::write(root.join(page), &new).unwrap();
        } else {
            assert!(
                old == new,
                "{page} differs from the tables in the code; it should be:\n{new}"
            );
        }
    }
    assert!(left.is_empty(), "on no page: {:?}", left.keys());
}

/// The words of `Literal[…]` after a name.
fn literals(types: &str, name: &str) -> Vec<String> {
    let start = types
        .find(&format!("{name}: TypeAlias = Literal["))
        .unwrap();
    let list = types[start..].split(['[', ']']).nth(1).unwrap();
    let words = list
        .split(',')
        .map(|w| w.trim().trim_matches('"').to_owned());
    words.filter(|w| !w.is_empty()).collect()
}

#[test]
fn types_of_python_are_the_names_of_the_tables() {
    let root = hopbyte_testdata::workspace();
    let types = std::fs::read_to_string(root.join("python/hopbyte/_core.pyi")).unwrap();
    assert_eq!(literals(&types, "_Metric"), Metric::ALL.map(Metric::name));
    assert_eq!(
        literals(&types, "_Aggregate"),
        Aggregate::ALL.map(Aggregate::name)
    );
    assert_eq!(literals(&types, "_Over"), Over::ALL.map(Over::name));
    assert_eq!(literals(&types, "_Objective"), Goal::ALL.map(Goal::name));
    assert_eq!(
        literals(&types, "_Launcher"),
        Launcher::ALL.map(Launcher::name)
    );
    let says = |file: &str, names: Vec<&str>| {
        let source = std::fs::read_to_string(root.join("crates/py/src").join(file)).unwrap();
        for name in names {
            assert!(source.contains(name), "{file}: no docstring says {name}");
        }
    };
    says("costs.rs", Metric::ALL.map(Metric::name).into());
    says("mapping.rs", Goal::ALL.map(Goal::name).into());
}

/// Enumerators of an `enum` of the header, with their numbers.
fn enumerators(header: &str, name: &str) -> Vec<(String, usize)> {
    let start = header.find(&format!("typedef enum {name} {{")).unwrap();
    let body = header[start..].split(['{', '}']).nth(1).unwrap();
    let lines = body.lines().map(|l| l.split("/*").next().unwrap());
    let code = lines.collect::<String>();
    let pairs = code.split(',').filter_map(|item| item.split_once('='));
    pairs
        .map(|(name, number)| (name.trim().to_owned(), number.trim().parse().unwrap()))
        .collect()
}

#[test]
fn numbers_of_c_are_the_places_in_the_tables() {
    let root = hopbyte_testdata::workspace();
    let header = std::fs::read_to_string(root.join("crates/capi/include/hopbyte.h")).unwrap();
    let check = |kind: &str, names: Vec<&str>| {
        let expected: Vec<(String, usize)> = names
            .into_iter()
            .map(|n| format!("HOPBYTE_{}", n.to_uppercase().replace('-', "_")))
            .zip(0..)
            .collect();
        assert_eq!(enumerators(&header, kind), expected, "{kind}");
    };
    check("hopbyte_metric", Metric::ALL.map(Metric::name).into());
    check(
        "hopbyte_aggregate",
        Aggregate::ALL.map(Aggregate::name).into(),
    );
    check("hopbyte_over", Over::ALL.map(Over::name).into());
    let goals = Goal::ALL.into_iter().filter(|g| !g.needs_costs());
    check("hopbyte_objective", goals.map(Goal::name).collect());
}

#[test]
fn what_a_launcher_reads_is_read_back() {
    let fabric = spec::fabric("torus:4").unwrap();
    let routing = Routing::default_for(&fabric);
    let nodes = (0..4).map(|n| (NodeId(n), 2)).collect();
    let allocation = Allocation::new(&fabric, nodes).unwrap();
    let placed = |order: [u32; 8]| Placement::on_nodes(&fabric, &allocation, order.map(NodeId));
    let mixed = placed([1, 0, 0, 1, 3, 2, 2, 3]).unwrap();
    let blocks = placed([1, 1, 0, 0, 3, 3, 2, 2]).unwrap();
    let mut read = 0;
    for launcher in Launcher::ALL {
        let Some(format) = launcher.read_back() else {
            continue;
        };
        let asked = if launcher.narrow() { &blocks } else { &mixed };
        let launch = Launch {
            fabric: &fabric,
            allocation: &allocation,
            placement: asked,
            mpich: None,
            cores: None,
            job: Some(Job {
                traffic: "plan:dp=4,tp=2",
                routing: &routing,
            }),
        };
        let name = launcher.name();
        let written = launch.prepare(launcher).unwrap().text;
        let text = Text::from_bytes(name, written.as_bytes(), Limits::TEXT).unwrap();
        assert_eq!(placement::format(&text).unwrap().name, format, "{name}");
        let back = placement::placement(&text, &fabric, Some(&allocation)).unwrap();
        let nodes = |p: &Placement| p.slots().iter().map(|s| s.node).collect::<Vec<_>>();
        assert_eq!(nodes(&back.placement), nodes(asked), "{name}");
        read += 1;
    }
    assert!(read >= 8, "{read}");
}

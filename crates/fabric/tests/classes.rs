//! Identifiers of errors are unique, and none is ever given to another class.

use hopbyte_fabric::class::{Class, RETIRED};
use std::collections::BTreeMap;

/// All identifiers that were ever published with their classes: lines are only added.
const PUBLISHED: &str = include_str!("classes.txt");

#[test]
fn an_identifier_means_one_class_for_ever() {
    let mut live = BTreeMap::new();
    for class in Class::ALL {
        let again = live.insert(class.id(), format!("{class:?}"));
        assert_eq!(again, None, "{} twice", class.id());
    }
    let mut published = BTreeMap::new();
    for line in PUBLISHED.lines() {
        let (id, name) = line.split_once(' ').unwrap();
        assert_eq!(published.insert(id, name), None, "{id} twice");
        let retired = RETIRED.iter().any(|(old, _)| *old == id);
        match live.get(id) {
            Some(class) => assert!(!retired && class == name, "{id} was {name}"),
            None => assert!(retired, "{id} {name} is neither a class nor in RETIRED"),
        }
    }
    for (id, name) in live {
        assert!(
            published.contains_key(id),
            "add to classes.txt: {id} {name}"
        );
    }
}

#[test]
fn every_class_is_described_and_found() {
    let mut last = "";
    for class in Class::ALL {
        let about = class.about();
        assert!(last < about.id, "{} is not in order", about.id);
        last = about.id;
        let number = about.id.strip_prefix("HB").unwrap();
        assert!(number.len() == 4 && number.parse::<u32>().is_ok());
        for text in [about.id, &about.id.to_lowercase(), number] {
            assert_eq!(Class::find(text), Some(*class));
        }
        assert!(!about.title.ends_with('.'), "{}", about.id);
        assert!(about.cause.ends_with('.') && about.remedy.ends_with('.'));
        assert!(about.example.is_empty() || about.example.starts_with("hopbyte "));
        for text in [about.title, about.cause, about.remedy] {
            assert!(!text.contains("  "), "{}: two blanks", about.id);
        }
    }
    for text in ["", "HB", "HB9999", "HB-001", "XB0201"] {
        assert_eq!(Class::find(text), None, "{text}");
    }
}

use super::*;
use crate::text::Limits;

fn parse(text: &str) -> Result<Yaml, String> {
    let text = Text::from_bytes("f", text.as_bytes(), Limits::TEXT).unwrap();
    read(&text).map_err(|e| e.to_string())
}

#[test]
fn documents_are_counted() {
    let all = |content: &str| {
        let text = Text::from_bytes("f", content.as_bytes(), Limits::TEXT).unwrap();
        documents(&text).map_err(|e| e.to_string())
    };
    let found = all("---\na: 1\n---\n# none\n---\nb: 2\n...\nc: 3\n").unwrap();
    let keys: Vec<&str> = found.iter().map(|d| d.pairs()[0].0.as_str()).collect();
    assert_eq!(keys, ["a", "b", "c"]);
    assert_eq!(all("{\"a\": 1}").unwrap().len(), 1);
    assert!(all("---\n---\n").is_err());
    let error = parse("a: 1\n---\nb: 2\n").unwrap_err();
    assert_eq!(error, "f:3: found a second document, expected one document");
}

#[test]
fn blocks_lists_and_scalars() {
    let yaml = parse(
        "---\n# comment\n- name: \"a # b\"   # after\n  list:\n  - 1\n  - x: 2\n    y: [3, 'four']\n  \
         empty:\n- - nested\n  - again\n...\n",
    )
    .unwrap();
    let Value::List(items) = &yaml.value else {
        panic!("{yaml:?}")
    };
    assert_eq!(items[0].get("name").unwrap().text(), Some("a # b"));
    let Value::List(list) = &items[0].get("list").unwrap().value else {
        panic!()
    };
    assert_eq!((list[0].text(), list[0].line), (Some("1"), 5));
    assert_eq!(list[1].get("x").unwrap().text(), Some("2"));
    let Value::List(flow) = &list[1].get("y").unwrap().value else {
        panic!()
    };
    assert_eq!(flow[1].text(), Some("four"));
    assert!(items[0].get("empty").unwrap().is_empty());
    let Value::List(nested) = &items[1].value else {
        panic!()
    };
    assert_eq!(nested.len(), 2);
}

#[test]
fn folded_text_and_brackets() {
    let yaml = parse(
        "a: |-\n  one: two\n  - three\nb: plain text\n  that goes on\nc: {d: [1, {e: 'f, g'}], h: i}\n\
         j: [k,\n  l]\nm: \"n\n  o\"\np: >\n  q\n",
    )
    .unwrap();
    let text = |key| yaml.get(key).unwrap().text();
    assert_eq!(text("a"), Some("one: two\n- three"));
    assert_eq!(text("b"), Some("plain text that goes on"));
    assert_eq!((text("m"), text("p")), (Some("n o"), Some("q")));
    let c = yaml.get("c").unwrap();
    let inner = &c.get("d").unwrap().items()[1];
    assert_eq!((inner.word("e"), c.word("h")), (Some("f, g"), Some("i")));
    assert_eq!(yaml.get("j").unwrap().words(), ["k", "l"]);
    let json = Text::from_bytes("f", b"{\"a\": [1, null, {\"b\": true}]}", Limits::TEXT).unwrap();
    let json = document(&json).unwrap();
    assert_eq!(json.get("a").unwrap().items()[2].word("b"), Some("true"));
}

#[test]
fn the_rest_is_refused() {
    for (text, expected) in [
        ("", "found nothing, expected YAML"),
        ("a: 1\n\tb: 2", "f:2: found \\tb: 2, expected blanks"),
        ("a: 1\n   b: 2", "f:2:"),
        ("a: {b: 1", "f:1: found {b: 1, expected closed brackets"),
        ("a: [b] c", "f:1: found [b] c, expected nothing after"),
        ("a: 'b", "f:1: found 'b, expected a closed quote"),
        ("a: &x 1\nb: *x", "f:1: found &x 1"),
        ("- a\nb: 1", "f:2:"),
        ("just text", "f:1: found just text, expected key: value"),
        (
            "a: 1\nb: 2\na: 3",
            "f:3: found a, expected every key once, but line 1 has it too",
        ),
        (
            "- a:\n    - 1\n  a: 2",
            "f:3: found a, expected every key once",
        ),
        (
            "a: {b: 1, c: 2, b: 3}",
            "f:1: found b, expected every key once",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let json = Text::from_bytes("f", b"{\"a\": 1,\n\"a\": 2}", Limits::TEXT).unwrap();
    let error = document(&json).unwrap_err().to_string();
    assert!(error.starts_with("f:2: found key a twice"), "{error}");
    let deep: String = (0..100).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    assert!(parse(&deep).unwrap_err().contains("at most 32 levels"));
}

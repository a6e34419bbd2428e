//! The YAML subset of configuration files: block mappings and lists, plain and quoted scalars, lists in brackets,
//! comments. No anchors, tags, multi-line scalars or flow mappings.

use crate::text::{Line, Text, lossy};
use hopbyte_fabric::InputError;

/// Maximum nesting.
const DEPTH: usize = 32;

/// A value and the line on which it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Yaml {
    /// Line, from 1.
    pub line: u64,
    /// Its value.
    pub value: Value,
}

/// A YAML value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text, number, boolean or null, as written.
    Scalar(String),
    /// A list.
    List(Vec<Yaml>),
    /// Keys with values, in order.
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// The value of a key; `None` also if this is not a mapping.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(pairs) => pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// A scalar's text.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        match &self.value {
            Value::Scalar(text) => matches!(text.as_str(), "" | "~" | "null"),
            Value::List(list) => list.is_empty(),
            Value::Map(pairs) => pairs.is_empty(),
        }
    }
}

/// A line with content: indentation and text without comment.
struct Content<'a> {
    line: Line<'a>,
    indent: usize,
    text: &'a [u8],
}

/// Reads the first document of a file.
pub fn read(text: &Text) -> Result<Yaml, InputError> {
    let mut contents = Vec::new();
    for line in text.lines() {
        let bare = without_comment(line.bytes).trim_ascii_end();
        let indent = bare.iter().take_while(|&&b| b == b' ').count();
        let content = &bare[indent..];
        match content {
            [] => {}
            b"---" if indent == 0 && contents.is_empty() => {}
            b"---" | b"..." if indent == 0 => break,
            [b'\t', ..] => {
                return Err(text.error_at(line, "blanks, not tabs, before the text"));
            }
            _ => contents.push(Content {
                line,
                indent,
                text: content,
            }),
        }
    }
    let mut parser = Parser { text, contents };
    // Items are popped from the end.
    parser.contents.reverse();
    let Some(first) = parser.contents.last() else {
        return Err(text.error("", "YAML"));
    };
    let indent = first.indent;
    let value = parser.block(indent, 0)?;
    match parser.contents.last() {
        None => Ok(value),
        Some(rest) => Err(text.error_at(rest.line, "the indentation of the lines above")),
    }
}

struct Parser<'a> {
    text: &'a Text,
    contents: Vec<Content<'a>>,
}

impl Parser<'_> {
    /// The list or mapping whose lines have this indentation.
    fn block(&mut self, indent: usize, depth: usize) -> Result<Yaml, InputError> {
        let Some(first) = self.contents.last() else {
            return Err(self.text.error("the end of the file", "a value"));
        };
        let line = first.line;
        if depth > DEPTH {
            return Err(self.text.error_at(line, format!("at most {DEPTH} levels")));
        }
        let is_list = is_item(first.text);
        let (mut list, mut pairs) = (Vec::new(), Vec::new());
        while let Some(next) = self.contents.last() {
            if next.indent != indent || is_item(next.text) != is_list {
                break;
            }
            if is_list {
                list.push(self.item(indent, depth)?);
            } else {
                pairs.push(self.pair(indent, depth)?);
            }
        }
        let value = if is_list {
            Value::List(list)
        } else {
            Value::Map(pairs)
        };
        Ok(Yaml {
            line: line.number,
            value,
        })
    }

    /// `- value`, or `- key: value` with the rest of a mapping on the following lines.
    fn item(&mut self, indent: usize, depth: usize) -> Result<Yaml, InputError> {
        let Some(mut content) = self.contents.pop() else {
            return Err(self.text.error("the end of the file", "a list item"));
        };
        let line = content.line;
        let rest = content.text[1..].trim_ascii_start();
        if rest.is_empty() {
            return self.nested(line, indent, depth);
        }
        if is_item(rest) || split_key(rest).is_some() {
            content.indent = indent + (content.text.len() - rest.len());
            content.text = rest;
            let inner = content.indent;
            self.contents.push(content);
            return self.block(inner, depth + 1);
        }
        self.scalar(line, rest)
    }

    /// `key: value`, or `key:` with a deeper block (or a list at the same depth) below.
    fn pair(&mut self, indent: usize, depth: usize) -> Result<(String, Yaml), InputError> {
        let Some(content) = self.contents.pop() else {
            return Err(self.text.error("the end of the file", "key: value"));
        };
        let (key, rest) = split_key(content.text)
            .ok_or_else(|| self.text.error_at(content.line, "key: value"))?;
        let key = unquoted(key);
        if !rest.is_empty() {
            return Ok((key, self.scalar(content.line, rest)?));
        }
        let list_below = self
            .contents
            .last()
            .is_some_and(|next| next.indent == indent && is_item(next.text));
        if list_below {
            return Ok((key, self.block(indent, depth + 1)?));
        }
        Ok((key, self.nested(content.line, indent, depth)?))
    }

    /// A deeper block, or nothing.
    fn nested(&mut self, line: Line<'_>, indent: usize, depth: usize) -> Result<Yaml, InputError> {
        match self.contents.last() {
            Some(next) if next.indent > indent => {
                let inner = next.indent;
                self.block(inner, depth + 1)
            }
            _ => Ok(Yaml {
                line: line.number,
                value: Value::Scalar(String::new()),
            }),
        }
    }

    /// Text, or a list in brackets.
    fn scalar(&self, line: Line<'_>, text: &[u8]) -> Result<Yaml, InputError> {
        let is_flow_list = text.starts_with(b"[") && text.ends_with(b"]");
        let value = match text {
            _ if is_flow_list => {
                let inner = text[1..text.len() - 1].split(|&b| b == b',');
                let items = inner.map(<[u8]>::trim_ascii).filter(|i| !i.is_empty());
                Value::List(
                    items
                        .map(|i| self.scalar_of(line, i))
                        .collect::<Result<_, _>>()?,
                )
            }
            _ => return self.scalar_of(line, text),
        };
        Ok(Yaml {
            line: line.number,
            value,
        })
    }

    fn scalar_of(&self, line: Line<'_>, text: &[u8]) -> Result<Yaml, InputError> {
        if matches!(
            text.first(),
            Some(b'{' | b'[' | b'&' | b'*' | b'!' | b'|' | b'>' | b'%' | b'@' | b'`')
        ) {
            return Err(self
                .text
                .error_in(line, text, "plain or quoted text")
                .hint("mappings in braces, anchors, tags and folded text are not read"));
        }
        Ok(Yaml {
            line: line.number,
            value: Value::Scalar(unquoted(text)),
        })
    }
}

fn is_item(text: &[u8]) -> bool {
    text == b"-" || text.starts_with(b"- ")
}

/// Splits at the first `: ` (or a `:` at the end) outside quotes.
fn split_key(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = match text.first()? {
        quote @ (b'"' | b'\'') => 1 + text[1..].iter().position(|b| b == quote)?,
        b'[' | b'{' => return None,
        _ => 0,
    };
    let colon = (start..text.len())
        .find(|&i| text[i] == b':' && matches!(text.get(i + 1), None | Some(b' ')))?;
    Some((&text[..colon], text[colon + 1..].trim_ascii()))
}

fn unquoted(text: &[u8]) -> String {
    let text = text.trim_ascii();
    let inner = [b'"', b'\''].iter().find_map(|quote| {
        let inner = text.strip_prefix(&[*quote])?;
        inner.strip_suffix(&[*quote])
    });
    lossy(inner.unwrap_or(text)).into_owned()
}

/// A line without `# comment`, which begins the line or follows a blank, outside quotes.
fn without_comment(line: &[u8]) -> &[u8] {
    let mut quote = None;
    for (i, &byte) in line.iter().enumerate() {
        match (quote, byte) {
            (None, b'#') if i == 0 || line[i - 1].is_ascii_whitespace() => return &line[..i],
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if byte == open => quote = None,
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Limits;

    fn parse(text: &str) -> Result<Yaml, String> {
        let text = Text::from_bytes("f", text.as_bytes(), Limits::TEXT).unwrap();
        read(&text).map_err(|e| e.to_string())
    }

    #[test]
    fn blocks_lists_and_scalars() {
        let yaml = parse(
            "---\n# comment\n- name: \"a # b\"   # after\n  list:\n  - 1\n  - x: 2\n    y: [3, 'four']\n  \
             empty:\n- - nested\n  - again\n...\nnot read",
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
    fn the_rest_is_refused() {
        for (text, expected) in [
            ("", "found nothing, expected YAML"),
            ("a: 1\n\tb: 2", "f:2: found \\tb: 2, expected blanks"),
            ("a: 1\n   b: 2", "f:2:"),
            (
                "a: {b: 1}",
                "f:1: found {b: 1}, expected plain or quoted text",
            ),
            ("a: &x 1\nb: *x", "f:1: found &x 1"),
            ("- a\nb: 1", "f:2:"),
            ("just text", "f:1: found just text, expected key: value"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let deep: String = (0..100).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
        assert!(parse(&deep).unwrap_err().contains("at most 32 levels"));
    }
}

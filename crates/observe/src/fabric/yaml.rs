//! The YAML subset of configuration files: block mappings and lists, plain, quoted and folded scalars, lists and mappings
//! in brackets, comments; JSON gives the same values. No anchors, tags or complex keys.

mod flow;

use self::flow::Flow;
use crate::text::{Line, Text, lossy, without_comment};
use hopbyte_fabric::InputError;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;

/// Maximum nesting.
const DEPTH: usize = 32;

/// A value and the line on which it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Yaml {
    /// Line, from 1; 0 in JSON.
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

impl Yaml {
    fn scalar(text: impl Into<String>) -> Self {
        Self {
            line: 0,
            value: Value::Scalar(text.into()),
        }
    }

    /// Items of a list; of anything else none.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(list) => list,
            _ => &[],
        }
    }

    /// Keys and values of a mapping; of anything else none.
    pub fn pairs(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Map(pairs) => pairs,
            _ => &[],
        }
    }

    /// The text of a key's value, if it is a scalar that is not empty.
    pub fn word(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|v| !v.is_empty()).and_then(Self::text)
    }

    /// Texts of a list, or the one text of a scalar.
    pub fn words(&self) -> Vec<&str> {
        match &self.value {
            Value::List(list) => list.iter().filter_map(Self::text).collect(),
            Value::Scalar(_) if !self.is_empty() => self.text().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// An error about this value.
    pub fn wrong(&self, text: &Text, expected: impl Into<String>) -> InputError {
        let found = match &self.value {
            Value::Scalar(text) => text.clone(),
            Value::List(list) => format!("a list of {}", list.len()),
            Value::Map(pairs) => {
                let keys: Vec<&str> = pairs.iter().map(|(k, _)| k.as_str()).collect();
                keys.join(", ")
            }
        };
        let error = text.error(found, expected);
        if self.line > 0 {
            error.at(self.line)
        } else {
            error
        }
    }
}

/// A key that a mapping has twice: the positions of both.
fn repeated(pairs: &[(String, Yaml)]) -> Option<(usize, usize)> {
    const FEW: usize = 8;
    if pairs.len() <= FEW {
        let mut all = (1..pairs.len()).flat_map(|i| (0..i).map(move |before| (before, i)));
        return all.find(|&(before, i)| pairs[before].0 == pairs[i].0);
    }
    let mut seen = HashMap::new();
    let mut keys = pairs.iter().enumerate();
    keys.find_map(|(i, (key, _))| Some((seen.insert(key, i)?, i)))
}

/// Refuses a mapping that has a key twice: readers of YAML differ in the value that they take.
fn once(text: &Text, pairs: &[(String, Yaml)]) -> Result<(), InputError> {
    let Some((first, second)) = repeated(pairs) else {
        return Ok(());
    };
    let (key, value) = &pairs[second];
    let expected = format!(
        "every key once, but line {} has it too",
        pairs[first].1.line
    );
    Err(text.error(key, expected).at(value.line))
}

/// Parts of Kubernetes objects that take most of their size and are never read.
const SKIPPED: [&str; 2] = ["images", "managedFields"];

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Yaml;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Yaml, E> {
                Ok(Yaml::scalar(v.to_string()))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Yaml, E> {
                Ok(Yaml::scalar(v.to_string()))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Yaml, E> {
                Ok(Yaml::scalar(v.to_string()))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Yaml, E> {
                Ok(Yaml::scalar(v.to_string()))
            }
            fn visit_str<E>(self, v: &str) -> Result<Yaml, E> {
                Ok(Yaml::scalar(v))
            }
            fn visit_unit<E>(self) -> Result<Yaml, E> {
                Ok(Yaml::scalar(""))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Yaml, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                let value = Value::List(list);
                Ok(Yaml { line: 0, value })
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Yaml, A::Error> {
                let mut pairs = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    if SKIPPED.contains(&key.as_str()) {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        pairs.push((key, map.next_value()?));
                    }
                }
                if let Some((first, _)) = repeated(&pairs) {
                    let key = &pairs[first].0;
                    return Err(serde::de::Error::custom(format!("key {key} twice")));
                }
                let value = Value::Map(pairs);
                Ok(Yaml { line: 0, value })
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Whether a text is JSON: an object or a list.
pub fn is_json(text: &Text) -> bool {
    matches!(text.bytes().trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Whether a text is JSON that has all of some keys within its first 64 KiB.
pub fn is_json_with(text: &Text, keys: &[&str]) -> bool {
    let start = &text.bytes()[..text.bytes().len().min(1 << 16)];
    let has = |key: &&str| memchr::memmem::find(start, format!("\"{key}\"").as_bytes()).is_some();
    is_json(text) && keys.iter().all(has)
}

/// Reads a document in JSON or YAML.
pub fn document(text: &Text) -> Result<Yaml, InputError> {
    only(text, documents(text)?)
}

/// Reads a document in JSON, or all of a file in YAML (`---` between them), at least one.
pub fn documents(text: &Text) -> Result<Vec<Yaml>, InputError> {
    if is_json(text) {
        return Ok(vec![text.json("JSON")?]);
    }
    read_all(text)
}

/// A line with content: indentation and text without comment.
struct Content<'a> {
    line: Line<'a>,
    indent: usize,
    text: &'a [u8],
}

/// Reads a file of one document.
pub fn read(text: &Text) -> Result<Yaml, InputError> {
    only(text, read_all(text)?)
}

/// The document of a file that has one.
fn only(text: &Text, mut documents: Vec<Yaml>) -> Result<Yaml, InputError> {
    if let Some(second) = documents.get(1) {
        let error = text.error("a second document", "one document");
        return Err(error.at(second.line));
    }
    let first = documents.pop();
    first.ok_or_else(|| text.error("", "YAML"))
}

fn read_all(text: &Text) -> Result<Vec<Yaml>, InputError> {
    let (mut documents, mut contents) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let bare = without_comment(line.bytes).trim_ascii_end();
        let indent = bare.iter().take_while(|&&b| b == b' ').count();
        let content = &bare[indent..];
        match content {
            [] => {}
            b"---" | b"..." if indent == 0 => {
                documents.extend(parsed(text, std::mem::take(&mut contents))?);
            }
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
    documents.extend(parsed(text, contents)?);
    if documents.is_empty() {
        return Err(text.error("", "YAML"));
    }
    Ok(documents)
}

/// The document of these lines; none of no lines.
fn parsed(text: &Text, contents: Vec<Content<'_>>) -> Result<Option<Yaml>, InputError> {
    let mut parser = Parser { text, contents };
    // Items are popped from the end.
    parser.contents.reverse();
    let Some(first) = parser.contents.last() else {
        return Ok(None);
    };
    let indent = first.indent;
    let value = parser.block(indent, 0)?;
    match parser.contents.last() {
        None => Ok(Some(value)),
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
            once(self.text, &pairs)?;
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
        self.scalar(line, rest, indent, depth)
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
            return Ok((key, self.scalar(content.line, rest, indent, depth)?));
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

    /// Text, which may go on in the deeper lines below, or a list or mapping in brackets.
    fn scalar(
        &mut self,
        line: Line<'_>,
        text: &[u8],
        indent: usize,
        depth: usize,
    ) -> Result<Yaml, InputError> {
        let value = match text {
            [b'|' | b'>', rest @ ..] if rest.iter().all(|b| b"+-123456789".contains(b)) => {
                let mut whole = Vec::new();
                while let Some(next) = self.contents.pop_if(|next| next.indent > indent) {
                    whole.push(lossy(next.text).into_owned());
                }
                let between = if text[0] == b'|' { "\n" } else { " " };
                Value::Scalar(whole.join(between))
            }
            [b'[' | b'{', ..] => {
                let mut whole = text.to_vec();
                while !is_balanced(&whole) {
                    let Some(next) = self.contents.pop() else {
                        return Err(self.text.error_in(line, text, "closed brackets"));
                    };
                    whole.push(b' ');
                    whole.extend_from_slice(next.text);
                }
                let mut flow = Flow {
                    text: self.text,
                    line,
                    rest: &whole,
                };
                let value = flow.value(depth)?;
                if !flow.rest.trim_ascii().is_empty() {
                    return Err(self.text.error_in(line, text, "nothing after the brackets"));
                }
                return Ok(value);
            }
            [quote @ (b'"' | b'\''), ..] if !is_closed(text, *quote) => {
                let mut whole = text.to_vec();
                while !is_closed(&whole, *quote) {
                    let Some(next) = self.contents.pop() else {
                        return Err(self.text.error_in(line, text, "a closed quote"));
                    };
                    whole.push(b' ');
                    whole.extend_from_slice(next.text);
                }
                Value::Scalar(unquoted(&whole))
            }
            _ => {
                check_plain(self.text, line, text)?;
                let mut whole = unquoted(text);
                let goes_on =
                    |next: &mut Content<'_>| next.indent > indent && split_key(next.text).is_none();
                while let Some(next) = self.contents.pop_if(goes_on) {
                    whole.push(' ');
                    whole.push_str(&lossy(next.text));
                }
                Value::Scalar(whole)
            }
        };
        Ok(Yaml {
            line: line.number,
            value,
        })
    }
}

fn check_plain(text: &Text, line: Line<'_>, word: &[u8]) -> Result<(), InputError> {
    match word.first() {
        Some(b'{' | b'[' | b'&' | b'*' | b'!' | b'|' | b'>' | b'%' | b'@' | b'`') => Err(text
            .error_in(line, word, "plain or quoted text")
            .hint("anchors and tags are not read")),
        _ => Ok(()),
    }
}

/// Whether all brackets outside quotes are closed.
fn is_balanced(text: &[u8]) -> bool {
    let (mut open, mut quote) = (0i64, None);
    for &byte in text {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(q), _) if q == byte => quote = None,
            (None, b'[' | b'{') => open += 1,
            (None, b']' | b'}') => open -= 1,
            _ => {}
        }
    }
    open <= 0
}

/// Whether a text that begins with a quote ends with it.
fn is_closed(text: &[u8], quote: u8) -> bool {
    text.len() > 1 && text.trim_ascii_end().last() == Some(&quote)
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

#[cfg(test)]
mod tests;

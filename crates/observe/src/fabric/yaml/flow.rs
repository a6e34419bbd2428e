//! Lists and mappings in brackets.

use super::{DEPTH, Value, Yaml, check_plain, once, unquoted};
use crate::text::{Line, Text};
use hopbyte_fabric::InputError;

/// A list or mapping in brackets.
pub(super) struct Flow<'a, 't> {
    pub(super) text: &'t Text,
    pub(super) line: Line<'a>,
    pub(super) rest: &'a [u8],
}

impl Flow<'_, '_> {
    fn wrong(&self, expected: &str) -> InputError {
        self.text.error_in(self.line, self.rest, expected)
    }

    fn next(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    pub(super) fn value(&mut self, depth: usize) -> Result<Yaml, InputError> {
        if depth > DEPTH {
            return Err(self.wrong(&format!("at most {DEPTH} levels")));
        }
        let value = match self.next() {
            Some(b'[') => {
                let mut list = Vec::new();
                self.each(b']', |flow| {
                    list.push(flow.value(depth + 1)?);
                    Ok(())
                })?;
                Value::List(list)
            }
            Some(b'{') => {
                let mut pairs = Vec::new();
                self.each(b'}', |flow| {
                    let key = flow.word(b":,}")?;
                    let value = if flow.next() == Some(b':') {
                        flow.rest = &flow.rest[1..];
                        flow.value(depth + 1)?
                    } else {
                        Yaml::scalar("")
                    };
                    pairs.push((key, value));
                    Ok(())
                })?;
                once(self.text, &pairs)?;
                Value::Map(pairs)
            }
            _ => Value::Scalar(self.word(b",]}")?),
        };
        Ok(Yaml {
            line: self.line.number,
            value,
        })
    }

    /// Calls `item` for every item up to the closing bracket.
    fn each(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), InputError>,
    ) -> Result<(), InputError> {
        self.rest = &self.rest[1..];
        loop {
            match self.next() {
                Some(b) if b == close => {
                    self.rest = &self.rest[1..];
                    return Ok(());
                }
                Some(b',') => self.rest = &self.rest[1..],
                Some(_) => item(self)?,
                None => return Err(self.wrong("a closed bracket")),
            }
        }
    }

    /// Text in quotes, or up to one of `ends`.
    fn word(&mut self, ends: &[u8]) -> Result<String, InputError> {
        let first = self.next();
        let end = match first {
            Some(quote @ (b'"' | b'\'')) => {
                let close = self.rest[1..].iter().position(|&b| b == quote);
                close
                    .map(|at| at + 2)
                    .ok_or_else(|| self.wrong("a closed quote"))?
            }
            _ => {
                check_plain(self.text, self.line, self.rest)?;
                let end = self.rest.iter().position(|b| ends.contains(b));
                end.unwrap_or(self.rest.len())
            }
        };
        if end == 0 {
            return Err(self.wrong("text"));
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(unquoted(word))
    }
}

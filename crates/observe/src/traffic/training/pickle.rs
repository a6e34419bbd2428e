//! Pickles of plain data: dictionaries, lists, tuples, texts and numbers. Nothing of them is run.
//!
//! Opcodes are those of Python's `pickletools` for protocols 2 to 5; those that import or build objects are refused.

use serde_json::{Map, Number, Value};
use std::collections::HashMap;

/// Maximum depth of lists and dictionaries.
const DEPTH: usize = 32;

/// A value; lists and dictionaries hold the positions of their parts, since a pickle can refer to a part again.
enum Node {
    Plain(Value),
    List(Vec<usize>),
    /// Keys and values in turn.
    Dictionary(Vec<usize>),
}

struct Reader<'a> {
    rest: &'a [u8],
    nodes: Vec<Node>,
    stack: Vec<usize>,
    marks: Vec<usize>,
    memo: HashMap<u32, usize>,
}

/// Reads a pickle as JSON, without the values of the keys `without`.
///
/// # Errors
/// Anything that is not plain data or is cut off; the text says what was found.
pub(super) fn parse(bytes: &[u8], without: &[&str]) -> Result<Value, String> {
    let mut reader = Reader {
        rest: bytes,
        nodes: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    while let Some(&opcode) = reader.rest.first() {
        let at = bytes.len() - reader.rest.len();
        reader.rest = &reader.rest[1..];
        if opcode == b'.' {
            let last = reader.stack.pop().ok_or("an empty pickle")?;
            // Parts can be shared; a hostile pickle would grow without bound.
            let mut budget = bytes.len().saturating_mul(4);
            return reader.value(last, (DEPTH, &mut budget), without);
        }
        let done = reader.step(opcode);
        done.ok_or_else(|| format!("opcode {opcode:#04x} at byte {at} of a pickle"))?;
    }
    Err("a pickle without its end".into())
}

impl<'a> Reader<'a> {
    /// Runs an opcode; `None` if it is refused or its operands are missing.
    fn step(&mut self, opcode: u8) -> Option<()> {
        match opcode {
            0x80 => self.take(1).map(drop)?, // PROTO
            0x95 => self.take(8).map(drop)?, // FRAME
            b'(' => self.marks.push(self.stack.len()),
            b'N' => self.push(Node::Plain(Value::Null)),
            0x88 | 0x89 => self.push(Node::Plain(Value::Bool(opcode == 0x88))),
            b']' | b')' => self.push(Node::List(Vec::new())),
            b'}' => self.push(Node::Dictionary(Vec::new())),
            b'J' | b'K' | b'M' | 0x8a | b'G' => {
                let number = self.number(opcode)?;
                self.push(Node::Plain(Value::Number(number)));
            }
            b'X' | 0x8c | 0x8d | b'U' | b'T' => {
                let width = match opcode {
                    b'X' | b'T' => 4,
                    0x8d => 8,
                    _ => 1,
                };
                let length = usize::try_from(self.little(width)?).ok()?;
                let text = String::from_utf8_lossy(self.take(length)?).into_owned();
                self.push(Node::Plain(Value::String(text)));
            }
            b'q' | b'r' | 0x94 => {
                let number = match opcode {
                    0x94 => u32::try_from(self.memo.len()).ok()?,
                    b'q' => self.little(1)? as u32,
                    _ => self.little(4)? as u32,
                };
                self.memo.insert(number, *self.stack.last()?);
            }
            b'h' | b'j' => {
                let number = self.little(if opcode == b'h' { 1 } else { 4 })? as u32;
                self.stack.push(*self.memo.get(&number)?);
            }
            b'a' => {
                let part = self.stack.pop()?;
                self.extend(&[part], false)?;
            }
            b's' => {
                let parts = [self.stack.len().checked_sub(2)?, self.stack.len() - 1];
                let parts = parts.map(|at| self.stack[at]);
                self.stack.truncate(self.stack.len() - 2);
                self.extend(&parts, true)?;
            }
            b'e' | b'u' => {
                let parts = self.marked()?;
                self.extend(&parts, opcode == b'u')?;
            }
            b't' => {
                let parts = self.marked()?;
                self.push(Node::List(parts));
            }
            0x85..=0x87 => {
                let count = usize::from(opcode - 0x84);
                let parts = self.stack.split_off(self.stack.len().checked_sub(count)?);
                self.push(Node::List(parts));
            }
            _ => return None,
        }
        Some(())
    }

    fn push(&mut self, node: Node) {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (own, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(own)
    }

    fn little(&mut self, width: usize) -> Option<u64> {
        let bytes = self.take(width)?.iter().rev();
        Some(bytes.fold(0, |all, &b| all << 8 | u64::from(b)))
    }

    fn number(&mut self, opcode: u8) -> Option<Number> {
        Some(match opcode {
            b'K' => self.little(1)?.into(),
            b'M' => self.little(2)?.into(),
            b'J' => (self.little(4)? as u32 as i32).into(),
            b'G' => {
                let bytes: [u8; 8] = self.take(8)?.try_into().ok()?;
                let value = f64::from_be_bytes(bytes);
                // JSON has no infinity; such a value is none of ours.
                Number::from_f64(value).unwrap_or_else(|| 0.into())
            }
            _ => {
                let width = self.little(1)? as usize;
                if width > 8 {
                    return None;
                }
                let value = self.little(width)?;
                let unused = 64 - 8 * width as u32;
                match width {
                    0 => 0.into(),
                    _ => ((value << unused) as i64 >> unused).into(),
                }
            }
        })
    }

    /// The values since the last mark.
    fn marked(&mut self) -> Option<Vec<usize>> {
        let mark = self.marks.pop().filter(|&m| m <= self.stack.len())?;
        Some(self.stack.split_off(mark))
    }

    /// Adds parts to the list or dictionary on the stack.
    fn extend(&mut self, parts: &[usize], pairs: bool) -> Option<()> {
        let to = *self.stack.last()?;
        match (self.nodes.get_mut(to)?, pairs) {
            (Node::List(list), false) => list.extend_from_slice(parts),
            (Node::Dictionary(list), true) if parts.len().is_multiple_of(2) => {
                list.extend_from_slice(parts);
            }
            _ => return None,
        }
        Some(())
    }

    fn value(
        &self,
        at: usize,
        (depth, budget): (usize, &mut usize),
        without: &[&str],
    ) -> Result<Value, String> {
        *budget = budget
            .checked_sub(1)
            .ok_or("a pickle that refers to itself")?;
        let deeper = depth.checked_sub(1);
        let deeper = deeper.ok_or_else(|| format!("data nested deeper than {DEPTH} levels"))?;
        Ok(match &self.nodes[at] {
            Node::Plain(value) => value.clone(),
            Node::List(parts) => {
                let mut all = Vec::new();
                for &part in parts {
                    all.push(self.value(part, (deeper, budget), without)?);
                }
                Value::Array(all)
            }
            Node::Dictionary(parts) => {
                let mut all = Map::new();
                for pair in parts.chunks_exact(2) {
                    let key = match &self.nodes[pair[0]] {
                        Node::Plain(Value::String(key)) => key.clone(),
                        Node::Plain(other) => other.to_string(),
                        _ => return Err("a list as a key".into()),
                    };
                    if !without.contains(&key.as_str()) {
                        all.insert(key, self.value(pair[1], (deeper, budget), without)?);
                    }
                }
                Value::Object(all)
            }
        })
    }
}

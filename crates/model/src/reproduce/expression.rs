//! Expressions of scenario files: values for comparison with published ones.
//!
//! Numbers, `+ - * /`, comparisons that may be chained (`a > b > c`), `and`, calls of quantities, and
//! bare words, which are text: `time(quarter) / time(full)`, `regime(base, 16) == single-put`.

use crate::error::ModelError;
use serde::Serialize;
use std::fmt;

/// Value of an expression.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// Yes or no.
    Truth(bool),
    /// A word.
    Text(String),
}

impl fmt::Display for Value {
    /// Four significant digits; `yes` and `no`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) if n.fract() == 0.0 && n.abs() < 1e15 => write!(f, "{n}"),
            Self::Number(n) => {
                let digits = (3 - n.abs().log10().floor() as i32).clamp(0, 9) as usize;
                write!(f, "{n:.digits$}")
            }
            Self::Truth(true) => f.write_str("yes"),
            Self::Truth(false) => f.write_str("no"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Finds the value of a quantity with its arguments.
pub(super) type Quantities<'a> = dyn FnMut(&str, &[Value]) -> Result<Value, ModelError> + 'a;

/// Evaluates an expression; the word `x` has the value `x` if that is given.
pub(super) fn evaluate(
    text: &str,
    x: Option<&Value>,
    quantities: &mut Quantities<'_>,
) -> Result<Value, ModelError> {
    let mut parser = Parser {
        text,
        x,
        tokens: tokens(text)?,
        at: 0,
        quantities,
    };
    let value = parser.all()?;
    match parser.peek() {
        None => Ok(value),
        Some(token) => Err(wrong(text, token, "an end")),
    }
}

fn wrong(text: &str, found: &str, expected: &str) -> ModelError {
    ModelError::out_of_range(format!("expression '{text}'"), &found, expected)
}

fn tokens(text: &str) -> Result<Vec<&str>, ModelError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '.' || c == '-';
        let length = if first == '\'' {
            let end = rest[1..].find('\'');
            2 + end.ok_or_else(|| wrong(text, rest, "a closing '"))?
        } else if first.is_ascii_digit() {
            number_length(rest)
        } else if first.is_alphabetic() {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else if ["<=", ">=", "=="].iter().any(|op| rest.starts_with(op)) {
            2
        } else if "+-*/()<>,".contains(first) {
            1
        } else {
            return Err(wrong(text, rest, "a number, a word or an operator"));
        };
        let (token, next) = rest.split_at(length);
        tokens.push(token);
        rest = next.trim_start();
    }
    Ok(tokens)
}

fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let part = |i: usize| {
        let c = bytes[i];
        let signed = (c == b'-' || c == b'+') && matches!(bytes[i - 1], b'e' | b'E');
        c.is_ascii_digit() || c == b'.' || matches!(c, b'e' | b'E') || signed
    };
    (1..bytes.len()).find(|&i| !part(i)).unwrap_or(bytes.len())
}

struct Parser<'a, 'q> {
    text: &'a str,
    x: Option<&'a Value>,
    tokens: Vec<&'a str>,
    at: usize,
    quantities: &'q mut Quantities<'q>,
}

impl<'a> Parser<'a, '_> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn take(&mut self, options: &[&str]) -> Option<&'a str> {
        let token = self.peek().filter(|t| options.contains(t))?;
        self.at += 1;
        Some(token)
    }

    fn all(&mut self) -> Result<Value, ModelError> {
        let mut value = self.comparison()?;
        while self.take(&["and"]).is_some() {
            let next = self.comparison()?;
            let both = self.truth(&value)? && self.truth(&next)?;
            value = Value::Truth(both);
        }
        Ok(value)
    }

    fn comparison(&mut self) -> Result<Value, ModelError> {
        let mut left = self.sum()?;
        let mut holds = None;
        while let Some(op) = self.take(&["<", "<=", ">", ">=", "=="]) {
            let right = self.sum()?;
            let this = if op == "==" {
                left == right
            } else {
                let (a, b) = (self.number(&left)?, self.number(&right)?);
                match op {
                    "<" => a < b,
                    "<=" => a <= b,
                    ">" => a > b,
                    _ => a >= b,
                }
            };
            holds = Some(holds.unwrap_or(true) && this);
            left = right;
        }
        Ok(holds.map_or(left, Value::Truth))
    }

    fn sum(&mut self) -> Result<Value, ModelError> {
        let mut value = self.product()?;
        while let Some(op) = self.take(&["+", "-"]) {
            let right = self.product()?;
            let (a, b) = (self.number(&value)?, self.number(&right)?);
            value = Value::Number(if op == "+" { a + b } else { a - b });
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<Value, ModelError> {
        let mut value = self.factor()?;
        while let Some(op) = self.take(&["*", "/"]) {
            let right = self.factor()?;
            let (a, b) = (self.number(&value)?, self.number(&right)?);
            value = Value::Number(if op == "*" { a * b } else { a / b });
        }
        Ok(value)
    }

    fn factor(&mut self) -> Result<Value, ModelError> {
        let Some(token) = self.peek() else {
            return Err(wrong(self.text, "its end", "a value"));
        };
        self.at += 1;
        match token {
            "(" => {
                let value = self.all()?;
                self.close()?;
                Ok(value)
            }
            "-" => {
                let value = self.factor()?;
                Ok(Value::Number(-self.number(&value)?))
            }
            _ if token.starts_with(|c: char| c.is_ascii_digit()) => {
                let number = token.parse().map(Value::Number);
                number.map_err(|_| wrong(self.text, token, "a number"))
            }
            _ if token.starts_with('\'') => Ok(Value::Text(token.trim_matches('\'').into())),
            _ if token.starts_with(char::is_alphabetic) => self.word(token),
            _ => Err(wrong(self.text, token, "a value")),
        }
    }

    fn word(&mut self, name: &str) -> Result<Value, ModelError> {
        if self.take(&["("]).is_none() {
            let x = self.x.filter(|_| name == "x");
            return Ok(x.cloned().unwrap_or_else(|| Value::Text(name.into())));
        }
        let mut arguments = Vec::new();
        if self.take(&[")"]).is_none() {
            loop {
                arguments.push(self.all()?);
                if self.take(&[","]).is_none() {
                    break;
                }
            }
            self.close()?;
        }
        (self.quantities)(name, &arguments)
    }

    fn close(&mut self) -> Result<(), ModelError> {
        match self.take(&[")"]) {
            Some(_) => Ok(()),
            None => Err(wrong(self.text, self.peek().unwrap_or("its end"), ")")),
        }
    }

    fn number(&self, value: &Value) -> Result<f64, ModelError> {
        match value {
            Value::Number(n) => Ok(*n),
            other => Err(wrong(self.text, &other.to_string(), "a number")),
        }
    }

    fn truth(&self, value: &Value) -> Result<bool, ModelError> {
        match value {
            Value::Truth(t) => Ok(*t),
            other => Err(wrong(self.text, &other.to_string(), "a comparison")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        let mut sum = |name: &str, arguments: &[Value]| {
            assert_eq!(name, "sum");
            let numbers = arguments.iter().map(|a| match a {
                Value::Number(n) => *n,
                _ => f64::NAN,
            });
            Ok(Value::Number(numbers.sum()))
        };
        evaluate(text, Some(&Value::Number(7.0)), &mut sum).unwrap()
    }

    #[test]
    fn expressions_mean_what_they_say() {
        assert_eq!(value("1 + 2 * 3 - -4 / 2"), Value::Number(9.0));
        assert_eq!(
            value("(1 + 2) * sum(1e3, 2.5e-1, 3)"),
            Value::Number(3009.75)
        );
        assert_eq!(value("3 > 2 >= 2 > 1"), Value::Truth(true));
        assert_eq!(value("3 > 2 > 2 and 1 < 2"), Value::Truth(false));
        assert_eq!(value("single-put == 'single-put'"), Value::Truth(true));
        assert_eq!(value("0.0123456").to_string(), "0.01235");
        assert_eq!(value("184320").to_string(), "184320");
        assert_eq!(value("2 * x - sum(x, 1)"), Value::Number(6.0));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "", "1 +", "(1", "sum(1", "1 2", "a < 1", "1 and 2", "'open", "#",
        ] {
            let mut none = |_: &str, _: &[Value]| Ok(Value::Number(0.0));
            assert!(evaluate(text, None, &mut none).is_err(), "{text}");
        }
    }
}

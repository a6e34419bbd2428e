//! `hopbyte fabric specs`.

use crate::output::{Answer, Output, Table};
use anyhow::Result;
use hopbyte_fabric::{presets::PRESETS, spec::FABRIC_SPECS};
use serde::Serialize;

/// One spec or named machine.
#[derive(Serialize)]
struct Spec {
    schema: &'static str,
    name: Option<&'static str>,
    spec: &'static str,
    meaning: &'static str,
}

/// Lists forms and named machines.
pub fn run(out: &mut Output) -> Result<Answer> {
    let forms = FABRIC_SPECS
        .iter()
        .map(|&(spec, meaning)| (None, spec, meaning));
    let named = PRESETS
        .iter()
        .map(|&(name, spec, meaning)| (Some(name), spec, meaning));
    if out.json {
        for (name, spec, meaning) in forms.chain(named) {
            out.object(&Spec {
                schema: "hopbyte.spec/1",
                name,
                spec,
                meaning,
            })?;
        }
        return Ok(Answer::Yes);
    }
    let mut table = Table::new(&["<spec", "<machine"]);
    for (_, spec, meaning) in forms {
        table.row([spec.to_owned(), meaning.to_owned()]);
    }
    out.table(&table)?;
    out.line("")?;
    let mut table = Table::new(&["<name", "<spec", "<machine"]);
    for (name, spec, meaning) in named {
        table.row([
            name.unwrap_or("").to_owned(),
            spec.to_owned(),
            meaning.to_owned(),
        ]);
    }
    out.table(&table)?;
    Ok(Answer::Yes)
}

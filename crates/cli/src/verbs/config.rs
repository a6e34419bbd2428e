//! `hopbyte config`: the settings that hold, and their origin.

use crate::output::{Answer, Output, Table};
use anyhow::Result;
use hopbyte_job::settings::{Settings, TABLE};
use serde_json::json;

/// Prints the table of settings.
pub fn run(out: &mut Output) -> Result<Answer> {
    let settings = Settings::load()?;
    settings.remarks().iter().for_each(|text| out.talk(text));
    if out.json {
        out.object(&json!({"schema": "hopbyte.config/1", "settings": settings.0}))?;
        return Ok(Answer::Yes);
    }
    let mut table = Table::new(&["<setting", "<value", "<from", "<meaning"]);
    for (name, about, _) in TABLE {
        let (value, origin) = settings.shown(name);
        table.row([name.to_owned(), value, origin, about.to_owned()]);
    }
    out.table(&table)?;
    Ok(Answer::Yes)
}

//! `hopbyte model reproduce [ID…]`.

use crate::output::{Answer, Output, Table};
use anyhow::{Context, Result};
use hopbyte_apply::write_atomic;
use hopbyte_fabric::similar;
use hopbyte_job::reproduce::{TOOLS, row_files, rows};
use hopbyte_model::reproduce::{Basis, Drawn, Kind, Row, Summary, VERDICT_SCHEMA, Verdict};
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_view::report::figure_svg;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Selection of rows.
#[derive(clap::Args, Debug)]
pub struct ReproduceArgs {
    /// Rows (D1, G13 …) or claims (1.3); all by default
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Folder of the rows, one TOML file each (default: scenarios, or those installed with hopbyte)
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Redraw the papers' figures of these rows as FOLDER/ROW.svg, and write their values
    /// as ROW.json
    #[arg(long, value_name = "FOLDER")]
    figures: Option<PathBuf>,
}

/// Reproduces the rows: yes if all exact checks hold.
pub fn run(args: &ReproduceArgs, out: &mut Output) -> Result<Answer> {
    let from = rows(args.from.as_deref());
    let read = |file: &PathBuf| -> Result<Row> {
        let text = Text::read(file, Limits::TEXT)?;
        let text = lossy(text.bytes());
        Ok(Row::parse(&file.display().to_string(), &text)?)
    };
    let all: Result<Vec<Row>> = row_files(&from)?.iter().map(read).collect();
    let all = all?;
    args.check(&all, &from)?;
    let mut verdicts = Vec::new();
    for row in all.iter().filter(|row| args.wants(row)) {
        let step = || format!("row {}", row.id);
        let found = row.reproduce(&TOOLS).with_context(step)?;
        verdicts.extend(found.into_iter().filter(|v| args.wants_claim(v)));
        if let Some(folder) = &args.figures
            && let Some(figure) = row.figure(&TOOLS).with_context(step)?
        {
            draw(folder, row, &figure, out)?;
        }
    }
    if out.json {
        for verdict in &verdicts {
            out.object(verdict)?;
        }
        out.object(&Last::of(&verdicts))?;
    } else {
        write(&verdicts, out)?;
    }
    let broken = |v: &Verdict| v.kind == Kind::Exact && v.holds == Some(false);
    Ok(Answer::of(!verdicts.iter().any(broken)))
}

/// The last JSON line.
#[derive(Serialize)]
struct Last {
    schema: &'static str,
    id: &'static str,
    kind: &'static str,
    summary: Summary,
}

impl Last {
    fn of(verdicts: &[Verdict]) -> Self {
        Self {
            schema: VERDICT_SCHEMA,
            id: "summary",
            kind: "summary",
            summary: Summary::of(verdicts),
        }
    }
}

/// Writes a figure and its values.
fn draw(folder: &Path, row: &Row, figure: &Drawn, out: &mut Output) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: no folder", folder.display()))?;
    let path = folder.join(format!("{}.svg", row.id));
    write_atomic(&path, &figure_svg(row, figure))?;
    let values = format!("{}\n", serde_json::to_string_pretty(figure)?);
    write_atomic(&folder.join(format!("{}.json", row.id)), &values)?;
    out.talk(format!("{}: {}", path.display(), figure.title));
    Ok(())
}

impl ReproduceArgs {
    /// Refuses ids of no row and no claim.
    fn check(&self, rows: &[Row], from: &Path) -> Result<()> {
        let claims = rows.iter().flat_map(|r| &r.check);
        let claims = claims.filter_map(|c| c.id.as_deref());
        let known: Vec<&str> = rows.iter().map(|r| &*r.id).chain(claims).collect();
        let has = |id: &String| known.iter().any(|k| k.eq_ignore_ascii_case(id));
        let Some(id) = self.ids.iter().find(|id| !has(id)) else {
            return Ok(());
        };
        let hint = match &similar(id, known)[..] {
            [] => "`hopbyte model reproduce` alone runs all".to_owned(),
            near => format!("there is {}", near.join(", ")),
        };
        anyhow::bail!("no row {id} in {}\nhint: {hint}", from.display())
    }

    fn wants(&self, row: &Row) -> bool {
        let claim = |id: &str| row.check.iter().any(|c| is(id, c.id.as_deref()));
        let is_own = |id: &str| is(id, Some(&row.id)) || claim(id);
        self.ids.is_empty() || self.ids.iter().any(|id| is_own(id))
    }

    fn wants_claim(&self, verdict: &Verdict) -> bool {
        let asked = |id: &str| is(id, Some(&verdict.row)) || is(id, Some(&verdict.id));
        self.ids.is_empty() || self.ids.iter().any(|id| asked(id))
    }
}

/// Whether an id is the given one, in any case.
fn is(id: &str, name: Option<&str>) -> bool {
    name.is_some_and(|name| name.eq_ignore_ascii_case(id))
}

fn write(verdicts: &[Verdict], out: &mut Output) -> Result<()> {
    let mut table = Table::new(&[
        "<row",
        "<claim",
        "<kind",
        "<basis",
        "<what",
        "<published",
        "<ours",
        "<tolerance",
        "<holds",
    ]);
    for v in verdicts {
        let kind = match v.kind {
            Kind::Exact => "exact",
            Kind::Shape => "shape",
            Kind::Elsewhere => "-",
        };
        let basis = v.basis.to_string();
        let holds = match v.holds {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "-",
        };
        let ours = v.ours.as_ref().map_or("-".into(), ToString::to_string);
        let cells = [
            &v.row,
            &v.id,
            kind,
            &basis,
            &v.what,
            &v.published,
            &ours,
            &v.tolerance,
            holds,
        ];
        table.row(cells.map(|c: &str| c.to_owned()));
    }
    out.table(&table)?;
    out.line("")?;
    for v in verdicts {
        let word = if v.holds.is_none() {
            "not modelled"
        } else {
            "does not hold"
        };
        if !v.why.is_empty() {
            let about = format!("{} ({}), {}", v.row, v.id, v.what);
            out.line(format!("{about}: {word}: {}", v.why))?;
        }
        if !v.command.is_empty() {
            out.line(format!("  measured by: {}", v.command))?;
        }
    }
    summarise(verdicts, out)
}

/// Checks by kind, checks by basis, rows by basis.
fn summarise(verdicts: &[Verdict], out: &mut Output) -> Result<()> {
    let mut fitted: Vec<(&str, &str)> = (verdicts.iter())
        .filter(|v| v.basis == Basis::Fitted)
        .map(|v| (v.row.as_str(), v.fitted_to.as_str()))
        .collect();
    fitted.dedup();
    for (row, to) in fitted {
        out.line(format!("{row}: fitted to {to}"))?;
    }
    let count = |kind: Kind, holds: bool| {
        verdicts
            .iter()
            .filter(|v| v.kind == kind && v.holds == Some(holds))
            .count()
    };
    let elsewhere = verdicts.iter().filter(|v| v.holds.is_none()).count();
    out.line(format!(
        "exact: {} hold, {} do not; shape: {} hold, {} do not; {elsewhere} not modelled",
        count(Kind::Exact, true),
        count(Kind::Exact, false),
        count(Kind::Shape, true),
        count(Kind::Shape, false)
    ))?;
    let summary = Summary::of(verdicts);
    for basis in [Basis::Computed, Basis::Fitted, Basis::Restated] {
        let checks = summary.checks.get(&basis).copied().unwrap_or_default();
        let (hold, do_not) = (checks.hold, checks.do_not);
        out.line(format!("{basis} checks: {hold} hold, {do_not} do not"))?;
    }
    let missed = match summary.not_holding.len() {
        0 => String::new(),
        n => format!(
            " ({n} computed but not holding: {})",
            summary.not_holding.join(", ")
        ),
    };
    out.line(format!(
        "reproduced: {} of {} rows computed{missed}; {} fitted, {} restated, {} measured elsewhere",
        summary.reproduced, summary.rows, summary.fitted, summary.restated, summary.elsewhere
    ))?;
    Ok(())
}

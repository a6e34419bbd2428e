//! Pictures as files.

use crate::error::{JobError, Lacking, Result};
use hopbyte_apply::write_atomic;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Program that makes other formats of SVG.
const CONVERTER: &str = "rsvg-convert";

/// Writes an SVG picture; as PDF or PNG, by librsvg's `rsvg-convert`, if the path ends in `.pdf` or `.png`. A page is written as
/// it is.
///
/// # Errors
/// The file cannot be written; the converter is missing or fails.
pub fn write_picture(path: &Path, svg: &str) -> Result<()> {
    let end = path.extension().and_then(|end| end.to_str());
    match end.filter(|end| ["pdf", "png"].contains(end)) {
        Some(format) => Ok(write_atomic(path, &converted(svg, format)?)?),
        None => Ok(write_atomic(path, svg)?),
    }
}

fn converted(svg: &str, format: &str) -> Result<Vec<u8>> {
    let started = Command::new(CONVERTER)
        .args(["--format", format])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut program = started.map_err(|e| {
        let hint = "install librsvg (Debian: librsvg2-bin), or write a file that ends in .svg";
        Lacking(format!(
            "{CONVERTER}, which makes {format} of SVG: {e}\nhint: {hint}"
        ))
    })?;
    let input = program.stdin.take();
    let done = std::thread::scope(|scope| {
        scope.spawn(move || input.map(|mut input| input.write_all(svg.as_bytes())));
        program.wait_with_output()
    })?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let problem = format!("{CONVERTER}: {}, {}", done.status, said.trim());
        return Err(JobError::refused(&problem));
    }
    Ok(done.stdout)
}

//! Pictures as files.

use crate::Lacking;
use crate::error::{Result, refuse};
use crate::record::launch::find;
use crate::record::output::filtered;
use hopbyte_apply::write_atomic;
use hopbyte_fabric::InputError;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Program that makes other formats of SVG.
const CONVERTER: &str = "rsvg-convert";

/// Endings of pictures.
const PICTURES: [&str; 3] = ["svg", "pdf", "png"];

/// Time limit of the converter, and the longest picture in bytes.
const PATIENCE: Duration = Duration::from_secs(120);
const MOST: usize = 1 << 30;

/// Writes an SVG picture; as PDF or PNG, by librsvg's `rsvg-convert`, if the path ends in `.pdf` or `.png`. A page is written as
/// it is.
///
/// # Errors
/// The file cannot be written; the converter is missing, fails or takes longer than two minutes.
pub fn write_picture(path: &Path, svg: &str) -> Result<()> {
    match ending(path).filter(|end| ["pdf", "png"].contains(&end.as_str())) {
        Some(format) => Ok(write_atomic(path, &converted(svg, &format)?)?),
        None => Ok(write_atomic(path, svg)?),
    }
}

/// Whether a name ends as a picture's.
pub fn is_picture(path: &Path) -> bool {
    ending(path).is_some_and(|end| PICTURES.contains(&end.as_str()))
}

/// Refuses a name whose ending is neither that of a picture nor, of an `option` that writes pages too, that of a page. A name
/// without ending (`/dev/stdout`) is taken.
///
/// # Errors
/// The ending.
pub fn check_ending(option: &str, path: Option<&Path>, is_page: bool) -> Result<(), InputError> {
    let Some((path, end)) = path.and_then(|path| Some((path, ending(path)?))) else {
        return Ok(());
    };
    let page = ["html", "htm"].iter().filter(|_| is_page);
    let forms: Vec<&str> = page.chain(&PICTURES).copied().collect();
    if forms.contains(&end.as_str()) {
        return Ok(());
    }
    let expected = format!("a name that ends in .{}", forms.join(", ."));
    Err(InputError::new(
        option,
        path.display().to_string(),
        expected,
    ))
}

fn ending(path: &Path) -> Option<String> {
    let end = path.extension()?;
    Some(end.to_string_lossy().to_ascii_lowercase())
}

fn converted(svg: &str, format: &str) -> Result<Vec<u8>> {
    if find(CONVERTER.as_ref()).is_none() {
        return Err(Lacking(format!(
            "{CONVERTER}, which makes {format} of SVG: no such program\n\
             hint: install librsvg (Debian: librsvg2-bin), or write a file that ends in .svg"
        ))
        .into());
    }
    let mut command = Command::new(CONVERTER);
    command.args(["--format", format]);
    let done = filtered(&mut command, svg.into(), PATIENCE, MOST)?;
    let problem = match done.status {
        None => format!("it took more than {} s", PATIENCE.as_secs()),
        Some(status) if !status.success() => status.to_string(),
        Some(_) if done.bytes.is_empty() => "it printed nothing".into(),
        Some(_) if done.truncated => format!("it printed more than {MOST} B"),
        Some(_) => return Ok(done.bytes),
    };
    refuse!(
        "{CONVERTER}: {problem}\nhint: write a file that ends in .svg, and convert it with another program"
    )
}

//! Machines: fabrics and routing tables from the dumps of the networks' own tools.
//!
//! [`read_machine`] recognises the format from the content. Gaps of a dump are listed in [`Machine::notes`], never
//! guessed: pairs without forwarding table entries have no route.

mod assemble;
mod codes;
mod cray;
mod flux;
mod formats;
mod host_files;
mod hosts;
pub(crate) mod infiniband;
mod infragraph;
mod inside;
mod kubernetes;
mod labels;
mod machine;
mod names;
mod own;
mod rates;
mod scotch_target;
mod siblings;
mod slingshot;
mod slurm;
mod topograph;
pub(crate) mod yaml;

pub use formats::Format;
pub use host_files::is_numbered;
pub use machine::{Companions, KnownHost, Machine, MachineFiles};

use crate::ObserveError;
use crate::text::{Limits, Text};
use assemble::Parts;
use hopbyte_fabric::{InputError, spec};
use std::path::{Path, PathBuf};

/// Reads a machine: recognises the format, merges tables and maps, and notes missing parts.
pub fn read_machine(files: &MachineFiles) -> Result<Machine, ObserveError> {
    hosts::attach(read_network(files)?, &files.hosts)
}

/// The same without the options for hosts.
fn read_network(files: &MachineFiles) -> Result<Machine, ObserveError> {
    let path = Path::new(&files.main);
    if spec::is_fabric_spec(&files.main) && !path.exists() {
        rates::refuse(files)?;
        let given = (files.system_map.is_some(), files.names.is_some());
        Format::check_companions(None, &files.main, given)?;
        let described = spec::machine(&files.main)?;
        let paths = paths_of(&files.routes)?;
        return assemble::finish(
            described.fabric,
            Some(described.routing),
            &mut texts_of(&paths),
            Vec::new(),
        );
    }
    let text = Text::read(path, Limits::ANY)?;
    let format = Format::of(&text)?;
    let mut files = files.clone();
    let mut notes = Vec::new();
    siblings::find(path, format, &mut files, &mut notes);
    let optional = |path: &Option<PathBuf>| {
        let path = path.as_deref();
        path.map(|p| Text::read(p, Limits::TEXT)).transpose()
    };
    let (map, names) = (optional(&files.system_map)?, optional(&files.names)?);
    let named = match format {
        Format::Codes => named_files(path, &codes::file_names(&text)?)?,
        _ => Vec::new(),
    };
    let paths = paths_of(&files.routes)?;
    let parts = Parts {
        text: &text,
        named: &named,
        map: map.as_ref(),
        names: names.as_ref(),
        routes: &mut texts_of(&paths),
        notes,
    };
    let machine = format.read(parts)?;
    rates::apply(machine, format, &files)
}

/// Reads a machine from texts in memory; without `format` it is recognised.
pub fn read_machine_text(
    text: &Text,
    format: Option<Format>,
    with: Companions<'_>,
) -> Result<Machine, ObserveError> {
    let format = format.map_or_else(|| Format::of(text), Ok)?;
    let parts = Parts {
        text,
        named: with.parts,
        map: with.system_map,
        names: with.names,
        routes: &mut with.routes.iter().map(|t| Ok((t.clone(), false))),
        notes: Vec::new(),
    };
    format.read(parts)
}

/// Reads the files that a model names.
fn named_files(model: &Path, names: &[String]) -> Result<Vec<Text>, ObserveError> {
    let mut texts = Vec::new();
    for name in names {
        let places = codes::candidates(model, name);
        let path = places.iter().find(|p| p.is_file()).unwrap_or(&places[1]);
        texts.push(Text::read(path, Limits::ANY)?);
    }
    Ok(texts)
}

/// Files with tables, each with whether it comes from a folder of files.
fn paths_of(routes: &[PathBuf]) -> Result<Vec<(PathBuf, bool)>, ObserveError> {
    let mut paths = Vec::new();
    for path in routes {
        let of_folder = path.is_dir();
        paths.extend(files_of(path)?.into_iter().map(|p| (p, of_folder)));
    }
    Ok(paths)
}

/// Their contents, read on demand.
fn texts_of(
    paths: &[(PathBuf, bool)],
) -> impl Iterator<Item = Result<(Text, bool), ObserveError>> + '_ {
    paths
        .iter()
        .map(|(path, of_folder)| Ok((Text::read(path, Limits::TEXT)?, *of_folder)))
}

/// A file itself, or the files of a folder in the order of their names.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, ObserveError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|e| ObserveError::io(path, e))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| ObserveError::io(path, e))?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort_unstable();
    if files.is_empty() {
        return Err(InputError::new(
            path.display().to_string(),
            "an empty folder",
            "files of forwarding tables",
        )
        .into());
    }
    Ok(files)
}

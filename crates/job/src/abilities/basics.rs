//! Properties of an MPI: version, threads, I/O, windows, kinds of memory, the standard ABI.

use super::connect::Attempt;
use super::{Ability, Checked, version_in};
use crate::error::Result;
use crate::record::launch::Flavour;
use serde::Deserialize;
use std::path::Path;

/// The probe's line about a whole MPI.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Basics {
    library: String,
    pub(super) mpi: String,
    abi: Option<String>,
    pub(super) threads: String,
    windows: bool,
    small_windows_right: bool,
    performance_variables: i64,
    control_variables: i64,
    io: Option<String>,
    memory_kinds: Option<String>,
    /// File names of hopbyte's libraries in the process; probes of earlier versions do not tell.
    loaded: Option<Vec<String>>,
}

impl Basics {
    /// Whether the probe had this library: the loader goes on without one that it cannot use.
    pub(super) fn has_loaded(&self, library: &Path) -> bool {
        self.loaded
            .as_ref()
            .is_none_or(|names| names.iter().any(|n| library.ends_with(n)))
    }
}

impl Checked {
    pub(super) fn properties(&self, b: &Basics, rows: &mut Vec<Ability>) {
        let library = b.library.split_whitespace().collect::<Vec<_>>().join(" ");
        let other = match version_in(&library) {
            Some(version) if version != self.version && self.version > 0 => format!(
                "; the launcher is of version {}: the rows below are of the library that the probe is linked with",
                self.version
            ),
            _ => String::new(),
        };
        let says = format!("{library}, MPI {}{other}", b.mpi);
        rows.push(self.row("launch", Some(true), "", says));
        let multiple = b.threads == "multiple";
        rows.push(self.row(
            "threads",
            Some(multiple),
            "",
            format!("MPI_THREAD_{}", b.threads.to_uppercase()),
        ));
        let none = match b.performance_variables {
            0 => "; hopbyte's own are there with libhopbyte_mpit",
            _ => "",
        };
        let (performance, control) = (b.performance_variables, b.control_variables);
        let says =
            format!("{performance} performance and {control} control variables of its own{none}");
        rows.push(self.row("MPI_T", Some(performance >= 0), "", says));
        let io = match b.io.as_deref() {
            Some("ROMIO") => "ROMIO: libhopbyte_io times exchange, file system and waiting",
            Some("OMPIO") => "OMPIO: libhopbyte_io infers the exchange; --mca io romio321 times it",
            _ => "no file could be opened",
        };
        rows.push(self.row("I/O", Some(b.io.is_some()), "", io));
        let windows = match (b.windows, b.small_windows_right) {
            (false, _) => "MPI_Win_allocate fails; Open MPI: --mca osc rdma, or ^ucx",
            (true, false) => {
                "windows below 64 bytes misplace data (MPICH 4.0): allocate larger ones"
            }
            (true, true) => "small ones are right on this host",
        };
        rows.push(self.row(
            "windows",
            Some(b.windows && b.small_windows_right),
            "",
            windows,
        ));
        let kinds = b
            .memory_kinds
            .as_deref()
            .unwrap_or("the MPI tells of none (before MPI 4.1)");
        rows.push(self.row("memory kinds", Some(b.memory_kinds.is_some()), "", kinds));
    }

    /// Whether a program for the standard ABI runs under the launcher.
    pub(super) fn standard_abi(&self, basics: &Basics) -> Result<Ability> {
        let says = "programs linked with libmpi_abi.so: version";
        if let Some(version) = &basics.abi {
            return Ok(self.row("ABI", Some(true), "", format!("{says} {version}")));
        }
        let Some(program) = self
            .probe(Flavour::Abi)
            .filter(|_| self.kind.starts(Flavour::Abi))
        else {
            return Ok(self.row(
                "ABI",
                Some(false),
                "",
                "no standard ABI: MPICH from 5, Open MPI from 6",
            ));
        };
        let basics: Option<Basics> = self.answer(self.command(2, &Attempt::default(), &program))?;
        Ok(match basics.and_then(|b| Some((b.abi?, b.library))) {
            Some((version, library)) => {
                let says = format!("{says} {version} ({library})");
                self.row("ABI", Some(true), "", says)
            }
            None => self.row(
                "ABI",
                Some(false),
                "",
                "a program linked with libmpi_abi.so does not run",
            ),
        })
    }
}

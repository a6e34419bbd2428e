//! `hopbyte generate`: man pages and completions from the command line's own definition.

use crate::command::Cli;
use crate::output::{Answer, Output};
use anyhow::{Context, Result};
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

/// Kind of files and their folder.
#[derive(clap::Args, Debug)]
pub struct GenerateArgs {
    /// Kind of files.
    #[arg(value_enum)]
    what: What,
    /// Folder to write into; created if missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// One page for each command, section 1.
    Man,
    /// For bash, zsh, fish and more.
    Completions,
}

/// Writes the files.
pub fn run(args: &GenerateArgs, out: &mut Output) -> Result<Answer> {
    let folder = &args.folder;
    let place = || format!("writing into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(place)?;
    match args.what {
        What::Man => clap_mangen::generate_to(Cli::command(), folder).with_context(place)?,
        What::Completions => {
            for &shell in Shell::value_variants() {
                clap_complete::generate_to(shell, &mut Cli::command(), "hopbyte", folder)
                    .with_context(place)?;
            }
        }
    }
    out.talk(format!("wrote {}", folder.display()));
    Ok(Answer::Yes)
}

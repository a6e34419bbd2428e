//! A command with what its launch is told and writes.

use super::store::Begun;
use crate::shell_word;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;

/// A command, ready to replace this process.
pub struct Launch {
    /// The command.
    pub command: Command,
    /// Changes of the command and findings of earlier runs, one sentence each.
    pub remarks: Vec<String>,
    /// Whether the command is the user's own, without a change.
    pub unchanged: bool,
    pub(super) begun: Option<Begun>,
}

impl Launch {
    pub(super) fn unchanged(words: &[OsString], remarks: Vec<String>) -> Self {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        Self {
            command,
            remarks,
            unchanged: true,
            begun: None,
        }
    }

    /// The launch behind words that run it, such as `timeout 30`.
    pub(super) fn behind(mut self, before: &[OsString]) -> Self {
        if let Some((first, rest)) = before.split_first() {
            let mut command = Command::new(first);
            command.args(rest).arg(self.command.get_program());
            command.args(self.command.get_args());
            let variables = self.command.get_envs();
            command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
            self.command = command;
        }
        self
    }

    /// Replaces this process by the command; returns only if it cannot be started.
    pub fn replace(mut self) -> std::io::Error {
        use std::os::unix::process::CommandExt;
        let error = self.command.exec();
        self.discard();
        error
    }

    /// The command as a line for a shell, with the variables that differ.
    pub fn line(&self) -> String {
        let word = |w: &std::ffi::OsStr| shell_word(&w.to_string_lossy());
        let variables = self
            .command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        let mut words: Vec<String> = variables
            .map(|(name, value)| format!("{}={}", name.display(), word(value)))
            .collect();
        words.push(word(self.command.get_program()));
        words.extend(self.command.get_args().map(word));
        words.join(" ")
    }

    /// The command with the variables that it adds, and the remarks, as `run --dry-run --json` prints them.
    pub fn described(&self) -> serde_json::Value {
        let text = |word: &std::ffi::OsStr| word.to_string_lossy().into_owned();
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        let variables = self.command.get_envs();
        let variables = variables.filter_map(|(name, value)| Some((text(name), text(value?))));
        json!({
            "schema": "hopbyte.run/1",
            "command": words.map(text).collect::<Vec<_>>(),
            "variables": variables.collect::<BTreeMap<_, _>>(),
            "unchanged": self.unchanged,
            "remarks": self.remarks,
        })
    }

    /// Forgets a run that does not take place.
    pub fn discard(self) {
        self.begun.into_iter().for_each(Begun::discard);
    }
}

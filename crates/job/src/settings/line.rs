//! A command line completed by settings: the machine, the counters, the live load, tokens and the launcher.
//!
//! What the command line names replaces the setting. A live load is that of the configured machine, so it is taken only
//! with this one, and a token goes to its collector or oracle alone.

use super::{PARTS, Settings, misspelt_variables};
use crate::error::Result;
use hopbyte_observe::address::is_address;
use std::ffi::OsString;

/// Verbs with an option `--fabric` that is no default: `run` reads the settings itself, the documents of `apply` and
/// `verify` name their machine, and `demo` has one.
const OWN_MACHINE: [&str; 4] = ["run", "apply", "verify", "demo"];

/// Verbs that read a collector as their first argument.
const READS: [&str; 3] = ["links", "blame", "watch"];

/// Verbs that present a token.
const ADMITTED: [&str; 7] = ["links", "blame", "watch", "replay", "view", "serve", "map"];

/// A verb of the command line, as far as settings may complete it.
pub struct Verb<'a> {
    /// Its name.
    pub name: &'a str,
    /// Position of the word behind it.
    pub at: usize,
    /// Whether it takes a machine as an option `--fabric` (true) or as its first argument, if it takes one.
    pub machine: Option<bool>,
    /// Whether words of the command line lack an argument, by its name in the definition.
    pub lacks: &'a dyn Fn(&[OsString], &str) -> bool,
}

/// The command line with the settings that the verb lacks, and remarks on them.
///
/// # Errors
/// The settings are needed and not valid.
pub fn complete(words: Vec<OsString>, verb: &Verb<'_>) -> Result<(Vec<OsString>, Vec<String>)> {
    completed_by(words, verb, Settings::load)
}

fn completed_by(
    words: Vec<OsString>,
    verb: &Verb<'_>,
    load: impl FnOnce() -> Result<Settings>,
) -> Result<(Vec<OsString>, Vec<String>)> {
    let lacks = |argument| (verb.lacks)(&words, argument);
    let own = ["--json", "--check", "--ran"].map(OsString::from);
    let machine = verb
        .machine
        .filter(|_| !OWN_MACHINE.contains(&verb.name) && lacks("fabric"));
    let source = READS.contains(&verb.name) && lacks("source");
    let launcher = verb.name == "apply" && lacks("emit") && !own.iter().any(|o| words.contains(o));
    let addressed = words.iter().any(|w| is_address(&w.to_string_lossy()));
    let token = ADMITTED.contains(&verb.name) && (addressed || source || machine.is_some());
    if machine.is_none() && !source && !launcher && !token {
        return Ok((words, Vec::new()));
    }
    let mut line = Line {
        settings: load()?,
        remarks: misspelt_variables().into_iter().collect(),
        words,
        verb,
    };
    let is_configured = match machine {
        Some(is_option) => line.add_machine(is_option),
        None => false,
    };
    if source && let Some(collector) = line.told("collector") {
        line.words.insert(verb.at, collector.into());
    }
    if is_configured && verb.name == "map" && line.lacks("oracle") && line.lacks("background") {
        if let Some(oracle) = line.told("oracle") {
            line.add("oracle", &oracle);
        } else if let Some(collector) = line.told("collector") {
            line.add("background", &collector);
        }
    }
    if token {
        line.add_access();
    }
    if launcher && let Some(name) = line.told("launcher") {
        line.add("emit", &name);
    }
    Ok((line.words, line.remarks))
}

struct Line<'a> {
    settings: Settings,
    remarks: Vec<String>,
    words: Vec<OsString>,
    verb: &'a Verb<'a>,
}

impl Line<'_> {
    fn lacks(&self, argument: &str) -> bool {
        (self.verb.lacks)(&self.words, argument)
    }

    /// The value of a setting, with a remark on its origin.
    fn told(&mut self, name: &str) -> Option<String> {
        let value = self.settings.value(name)?.clone();
        let (_, origin) = self.settings.shown(name);
        self.remarks.push(format!("{name} {value} of {origin}"));
        Some(value)
    }

    fn add(&mut self, option: &str, value: &str) {
        let word = format!("--{option}={value}").into();
        self.words.insert(self.verb.at, word);
    }

    /// Inserts the configured machine with its parts; false if there is none.
    fn add_machine(&mut self, is_option: bool) -> bool {
        let Some(fabric) = self.told("fabric") else {
            return false;
        };
        for name in PARTS {
            for value in self.settings.values(name).to_vec().iter().rev() {
                self.add(name, value);
            }
        }
        match is_option {
            true => self.add("fabric", &fabric),
            false => self.words.insert(self.verb.at, fabric.into()),
        }
        true
    }

    /// Inserts token and certificates, if the words name the configured collector or oracle.
    fn add_access(&mut self) {
        let to = |name| {
            let address = self.settings.value(name)?;
            let joined = |word: &str| word.split_once('=').is_some_and(|(_, v)| v == address);
            let mut words = self.words.iter().map(|w| w.to_string_lossy());
            words
                .any(|word| *word == **address || joined(&word))
                .then_some(())
        };
        let (collector, oracle) = (to("collector").is_some(), to("oracle").is_some());
        for (name, argument, is_used) in [
            ("token", "token", collector || oracle),
            ("tls-ca", "tls_ca", collector),
        ] {
            let value = self.settings.value(name).cloned();
            if let Some(value) = value.filter(|_| is_used && self.lacks(argument)) {
                self.add(name, &value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command line in which an argument is there if a word begins with its name.
    fn lacks(words: &[OsString], argument: &str) -> bool {
        let has = |word: &OsString| word.to_string_lossy().starts_with(&format!("--{argument}"));
        match argument {
            "source" => words.len() < 3 || words[2].to_string_lossy().starts_with("--"),
            _ => !words.iter().any(has),
        }
    }

    fn completed(words: &str, settings: &[(&'static str, &str)]) -> (String, usize) {
        let mut all = Settings::default();
        for &(name, value) in settings {
            all.set(name, vec![value.to_owned()], "t".into());
        }
        let words = format!("hopbyte {words}");
        let words: Vec<OsString> = words.split(' ').map(Into::into).collect();
        let name = words[1].to_string_lossy().into_owned();
        let verb = Verb {
            name: &name,
            at: 2,
            machine: Some(true),
            lacks: &lacks,
        };
        let (words, remarks) = completed_by(words, &verb, || Ok(all)).unwrap();
        let words: Vec<String> = words.iter().map(|w| w.to_string_lossy().into()).collect();
        (words[1..].join(" "), remarks.len())
    }

    #[test]
    fn settings_fill_what_the_line_lacks() {
        let all = [
            ("fabric", "torus:4x4"),
            ("routes", "r"),
            ("collector", "head:7667"),
            ("token", "t"),
            ("tls-ca", "ca"),
            ("launcher", "openmpi-rankfile"),
        ];
        let with = |oracle| [&all[..], &[("oracle", oracle)]].concat();
        for (typed, settings, line) in [
            (
                "links",
                all.to_vec(),
                "links --tls-ca=ca --token=t head:7667 --fabric=torus:4x4 --routes=r",
            ),
            (
                "links x.csv",
                all.to_vec(),
                "links --fabric=torus:4x4 --routes=r x.csv",
            ),
            (
                "links head:7667 --fabric=mesh:2x2",
                all.to_vec(),
                "links --tls-ca=ca --token=t head:7667 --fabric=mesh:2x2",
            ),
            (
                "links other:7667 --fabric=mesh:2x2",
                all.to_vec(),
                "links other:7667 --fabric=mesh:2x2",
            ),
            // The load is that of the configured machine.
            (
                "map x --fabric=mesh:2x2",
                all.to_vec(),
                "map x --fabric=mesh:2x2",
            ),
            (
                "map x",
                all.to_vec(),
                "map --tls-ca=ca --token=t --background=head:7667 --fabric=torus:4x4 --routes=r x",
            ),
            (
                "map x",
                with("http://head:7668"),
                "map --token=t --oracle=http://head:7668 --fabric=torus:4x4 --routes=r x",
            ),
            (
                "map x --background=b",
                all.to_vec(),
                "map --fabric=torus:4x4 --routes=r x --background=b",
            ),
            ("apply m", all.to_vec(), "apply --emit=openmpi-rankfile m"),
            ("apply m --json", all.to_vec(), "apply m --json"),
            ("apply m --emit=csv", all.to_vec(), "apply m --emit=csv"),
            ("verify m", all.to_vec(), "verify m"),
            ("links", Vec::new(), "links"),
        ] {
            let (completed, remarks) = completed(typed, &settings);
            assert_eq!(completed, line);
            let told = [
                "--fabric=torus",
                " head:7667",
                "background=h",
                "oracle",
                "emit=o",
            ];
            let added = told
                .iter()
                .filter(|w| line.contains(*w) && !typed.contains(*w));
            assert_eq!(remarks, added.count(), "{line}");
        }
    }
}

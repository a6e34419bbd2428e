//! Settings that hold for every command: system, user and project files `hopbyte.toml`, then the environment.
//!
//! A later source replaces the value of an earlier one: `/etc/hopbyte/hopbyte.toml`,
//! `$XDG_CONFIG_HOME/hopbyte/hopbyte.toml`, the nearest `hopbyte.toml` at or above the working directory,
//! `HOPBYTE_NAME`. Options on the command line replace all of them.

pub mod line;

use crate::error::Result;
use crate::load::{Live, ReadCollector};
use crate::machine::MachineSource;
use hopbyte_apply::Launcher;
use hopbyte_fabric::spec::is_fabric_spec;
use hopbyte_fabric::{Class, InputError, misspelt, similar};
use hopbyte_model::parameters::PRESETS;
use hopbyte_observe::address::{FORM, check_address};
use hopbyte_observe::{ObserveError, text};
use serde::Serialize;
use std::env::VarError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Name of the files.
const FILE: &str = "hopbyte.toml";

/// Name, meaning, and whether several values are possible.
pub const TABLE: [(&str, &str, bool); 13] = [
    ("fabric", "the machine: a file or a spec", false),
    ("routes", "its forwarding tables", true),
    ("system-map", "node numbers of a Cray machine", false),
    ("names", "names for GUIDs", false),
    ("hosts", "kinds of hosts", true),
    (
        "network",
        "rates and delays beyond the links, for predictions",
        false,
    ),
    ("oracle", "a running oracle, for the live load", false),
    (
        "collector",
        "a running collector, for the live load: HOST:PORT",
        false,
    ),
    ("token", "file of the token for oracle and collector", false),
    (
        "tls-ca",
        "certificates for the collector, which then uses TLS",
        false,
    ),
    (
        "launcher",
        "the launcher that `hopbyte apply` writes for",
        false,
    ),
    ("libraries", "folder of the preload libraries", false),
    ("state", "folder of what `hopbyte run` has learnt", false),
];

const NAMES: [&str; TABLE.len()] = {
    let mut names = [""; TABLE.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = TABLE[i].0;
        i += 1;
    }
    names
};

/// Settings whose values are paths, or for a machine a spec, for a network a preset.
const FILES: [&str; 8] = [
    "fabric",
    "network",
    "routes",
    "system-map",
    "names",
    "token",
    "tls-ca",
    "libraries",
];

/// Variables of the probes, of jobs and of the oracle's clients that resemble a setting's.
const OTHERS: [&str; 5] = ["NAME", "NID", "NODE", "JOB", "TOKEN_FILE"];

/// First words of the variables of libraries and tools.
const FAMILIES: [&str; 14] = [
    "AGENT", "ALLOC", "DPM", "GM", "GPCD", "IO", "LAB", "LOCK", "MEMORY", "NOTIFY", "RECORD",
    "REORDER", "SHMEM", "TEST",
];

/// Settings that belong to one machine, beside `fabric`.
const PARTS: [&str; 4] = ["routes", "system-map", "names", "hosts"];

/// A setting that holds.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// Its name in [`TABLE`].
    pub name: &'static str,
    /// Its values.
    pub values: Vec<String>,
    /// The file or variable that it comes from.
    pub origin: String,
}

/// The settings that hold.
#[derive(Clone, Debug, Default)]
pub struct Settings(pub Vec<Setting>);

impl Settings {
    /// Reads the files of this user and working directory, and the environment.
    ///
    /// # Errors
    /// A file is not TOML, or has an unknown name or a value of another type.
    pub fn load() -> Result<Self> {
        let mut settings = Self::default();
        for file in files() {
            settings.read(&file)?;
        }
        for (name, _, several) in TABLE {
            let variable = variable(name);
            let value = match std::env::var(&variable) {
                Ok(value) if !value.is_empty() => value,
                Err(VarError::NotUnicode(found)) => {
                    let found = format!("{} with bytes that are not UTF-8", found.display());
                    return Err(InputError::new(variable, found, "UTF-8").into());
                }
                _ => continue,
            };
            check(name, &value, &variable)?;
            let values = match several {
                true => value.split(',').map(str::to_owned).collect(),
                false => vec![value],
            };
            settings.set(name, values, variable);
        }
        Ok(settings)
    }

    /// What a user would want to know about settings that are read without an error: files that do not exist, and
    /// variables whose name is almost that of a setting.
    pub fn remarks(&self) -> Vec<String> {
        let files = self.0.iter().filter(|s| FILES.contains(&s.name));
        let mut remarks: Vec<String> = files
            .flat_map(|s| s.values.iter().map(move |value| (s, value)))
            .filter(|(s, value)| {
                let is_spec = s.name == "fabric" && is_fabric_spec(value);
                let is_preset = s.name == "network" && PRESETS.contains(&value.as_str());
                !is_spec && !is_preset && !Path::new(value).exists()
            })
            .map(|(s, value)| {
                let near = match s.name {
                    "network" => Some(format!("expected a file or one of {}", PRESETS.join(", "))),
                    _ => misspelt(value),
                };
                let near = near.unwrap_or_else(|| "there is no such file".into());
                format!("{} = {value} of {}: {near}", s.name, s.origin)
            })
            .collect();
        remarks.extend(misspelt_variables());
        remarks
    }

    /// The running source of the load, the oracle first, since it answers at once.
    pub fn live(&self, read: ReadCollector) -> Option<Live> {
        let path = |name| self.value(name).map(PathBuf::from);
        let token = path("token");
        if let Some(address) = self.value("oracle").cloned() {
            return Some(Live::Oracle { address, token });
        }
        Some(Live::Collector {
            address: self.value("collector")?.clone(),
            token,
            tls_ca: path("tls-ca"),
            read,
        })
    }

    /// Adds the settings of a file.
    fn read(&mut self, path: &Path) -> Result<()> {
        let file = path.display().to_string();
        let advice = "the settings are in a text file of this name: move what is there away";
        let text = match text::small(path) {
            Err(ObserveError::Input(e)) if e.class == Class::NotAFile => {
                return Err(e.hint(advice).into());
            }
            other => other?,
        };
        let table = table(&file, &text)?;
        for (name, value) in &table {
            let Some((known, _, several)) = TABLE.into_iter().find(|row| row.0 == name) else {
                let expected = NAMES.join(", ");
                let error = InputError::new(&file, name, expected).at(line_of(&text, name));
                return Err(match &similar(name, NAMES)[..] {
                    [] => error,
                    near => error.hint(format!("there is {}", near.join(", "))),
                }
                .into());
            };
            let values = match value {
                Value::String(one) if !one.is_empty() => Some(vec![one.clone()]),
                Value::Array(many) if several => {
                    many.iter().map(|v| v.as_str().map(str::to_owned)).collect()
                }
                _ => None,
            };
            let Some(values) = values else {
                let found = format!("{name} = {value}");
                let expected = if several {
                    "a text, or a list of texts"
                } else {
                    "a text"
                };
                let error = InputError::new(&file, found, expected);
                return Err(error.at(line_of(&text, name)).into());
            };
            for value in &values {
                check(name, value, &file).map_err(|e| e.at(line_of(&text, name)))?;
            }
            let folder = path.parent().unwrap_or(Path::new(""));
            let values = values.into_iter().map(|v| match known {
                // It may be made later.
                "state" => folder.join(v).display().to_string(),
                _ => beside(folder, v),
            });
            let values = values.collect();
            self.set(known, values, file.clone());
        }
        Ok(())
    }

    /// A machine without its own routes must not get those of another, hence the parts of the earlier one go.
    fn set(&mut self, name: &'static str, values: Vec<String>, origin: String) {
        self.0.retain(|s| {
            s.name != name && !(name == "fabric" && PARTS.contains(&s.name) && s.origin != origin)
        });
        self.0.push(Setting {
            name,
            values,
            origin,
        });
    }

    /// The values of a name; none if it is not set.
    pub fn values(&self, name: &str) -> &[String] {
        let found = self.0.iter().find(|s| s.name == name);
        found.map_or(&[], |s| s.values.as_slice())
    }

    /// The value and the origin of a name as text, `-` if it is not set.
    pub fn shown(&self, name: &str) -> (String, String) {
        let none = || ("-".to_owned(), "-".to_owned());
        let set = self.0.iter().find(|s| s.name == name);
        set.map_or_else(none, |s| (s.values.join(" "), s.origin.clone()))
    }

    /// The value of a name.
    pub fn value(&self, name: &str) -> Option<&String> {
        self.values(name).first()
    }

    /// The machine, if one is configured.
    pub fn machine(&self) -> Option<MachineSource> {
        let paths = |name| self.values(name).iter().map(PathBuf::from);
        Some(MachineSource {
            fabric: self.value("fabric")?.clone(),
            routes: paths("routes").collect(),
            system_map: paths("system-map").next(),
            names: paths("names").next(),
            hosts: self.values("hosts").to_vec(),
            ..MachineSource::default()
        })
    }
}

/// A remark on variables whose name is almost that of a setting.
pub fn misspelt_variables() -> Option<String> {
    let mut found: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| {
            let name = name.to_str()?;
            let near = meant(name)?;
            Some(format!("{name} is not read; there is {near}"))
        })
        .collect();
    found.sort();
    (!found.is_empty()).then(|| found.join("; "))
}

/// The variable of a setting that a misspelt one may stand for.
fn meant(name: &str) -> Option<String> {
    let short = name.strip_prefix("HOPBYTE_")?;
    let family = short.split('_').next()?;
    let is_known = NAMES.iter().any(|known| variable(known) == name);
    if is_known || OTHERS.contains(&short) || FAMILIES.contains(&family) {
        return None;
    }
    similar(short, NAMES).first().map(|near| variable(near))
}

/// Refuses a value that its setting cannot have; `place` is the file or variable.
fn check(name: &str, value: &str, place: &str) -> Result<(), InputError> {
    let found = format!("{name} = {value}");
    match name {
        "collector" if check_address(place, value).is_err() => {
            Err(InputError::new(place, found, FORM))
        }
        "launcher" if value.parse::<Launcher>().is_err() => {
            let names = Launcher::ALL.map(Launcher::name);
            let error = InputError::new(place, found, names.join(", "));
            Err(match &similar(value, names)[..] {
                [] => error,
                near => error.hint(format!("there is {}", near.join(", "))),
            })
        }
        _ => Ok(()),
    }
}

/// Lines of TOML as options of the command line: a list repeats its option, `false` leaves it out.
///
/// # Errors
/// No TOML, or a value of another type.
pub fn option_words(file: &str, text: &str) -> Result<Vec<OsString>> {
    let table = table(file, text)?;
    let mut options = Vec::new();
    for (name, value) in &table {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let option = match value {
                Value::Boolean(false) => continue,
                Value::Boolean(true) => format!("--{name}"),
                Value::String(text) => format!("--{name}={text}"),
                Value::Integer(_) | Value::Float(_) => format!("--{name}={value}"),
                other => {
                    let expected = "a text, a number, true or false, or a list of them";
                    let found = format!("{name} = {other}");
                    return Err(InputError::new(file, found, expected).into());
                }
            };
            options.push(option.into());
        }
    }
    Ok(options)
}

/// The variable of a setting.
fn variable(name: &str) -> String {
    format!("HOPBYTE_{}", name.to_uppercase().replace('-', "_"))
}

/// The line of a name at the top level of a settings file that is valid TOML.
fn line_of(text: &str, name: &str) -> u64 {
    let is_it = |line: &str| {
        let line = line.trim_start().trim_start_matches(['[', '"', '\'']);
        let rest = line.strip_prefix(name).map(str::trim_start);
        rest.is_some_and(|r| r.starts_with(['=', ']', '.', '"', '\'']))
    };
    text.lines().position(is_it).map_or(1, |i| i as u64 + 1)
}

fn table(file: &str, text: &str) -> Result<Table, InputError> {
    text.parse().map_err(|e: toml::de::Error| {
        let error = InputError::parsed(file, e.message(), "lines of TOML, name = value")
            .hint("texts are in quotation marks: fabric = \"torus:4x4x4\"");
        match e.span() {
            Some(span) => error.at_byte(text, span.start),
            None => error,
        }
    })
}

/// The settings files that exist, from the system's to the project's.
fn files() -> Vec<PathBuf> {
    let home = |variable: &str, below: &str| {
        let named = std::env::var_os(variable).filter(|v| !v.is_empty());
        let home = std::env::var_os("HOME").filter(|v| !v.is_empty());
        named
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(home?).join(below)))
    };
    let user = home("XDG_CONFIG_HOME", ".config").map(|c| c.join("hopbyte").join(FILE));
    let here = std::env::current_dir().unwrap_or_default();
    // Anything of this name is meant: a folder, a pipe or a link to nowhere is refused when it is read.
    let is_there = |file: &PathBuf| file.symlink_metadata().is_ok();
    let project = here.ancestors().map(|f| f.join(FILE)).find(is_there);
    let system = Path::new("/etc/hopbyte").join(FILE);
    let all = std::iter::once(system).chain(user).chain(project);
    all.filter(is_there).collect()
}

/// A path of a settings file, which counts from its folder; anything else as it is.
fn beside(folder: &Path, value: String) -> String {
    let path = folder.join(&value);
    match path.exists() {
        true => path.display().to_string(),
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Result<Settings> {
        let folder = tempfile::tempdir()?;
        let mut settings = Settings::default();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text)?;
            settings.read(&folder.path().join(name))?;
        }
        Ok(settings)
    }

    #[test]
    fn a_nearer_file_wins_and_another_machine_takes_no_routes_along() {
        let first = "fabric = 'torus:4x4'\nroutes = ['a', 'b']\noracle = 'here:1'\n";
        let settings = read(&[("a.toml", first), ("b.toml", "fabric = 'torus:8x8'")]).unwrap();
        let machine = settings.machine().unwrap();
        assert_eq!(machine.fabric, "torus:8x8");
        assert!(machine.routes.is_empty());
        assert_eq!(settings.value("oracle").unwrap(), "here:1");
        // The same file may name both, in any order.
        let both = "routes = 'a'\nfabric = 'torus:4x4'\n";
        let settings = read(&[("a.toml", both)]).unwrap();
        assert_eq!(settings.machine().unwrap().routes, [PathBuf::from("a")]);
    }

    #[test]
    fn a_file_of_the_folder_is_named_from_anywhere() {
        let settings = read(&[("machine.txt", ""), ("b.toml", "fabric = 'machine.txt'")]);
        // The first "file" is read as settings too; an empty one has none.
        let fabric = settings.unwrap().value("fabric").unwrap().clone();
        assert!(Path::new(&fabric).is_absolute(), "{fabric}");
    }

    #[test]
    fn unknown_names_and_types_are_refused_with_their_file() {
        for (text, found) in [
            ("fabrik = 'x'", "c.toml:1: found fabrik"),
            ("fabrik = 'x'", "there is fabric"),
            ("# one\n\nsystem_map = 'x'", "c.toml:3: found system_map"),
            ("system_map = 'x'", "there is system-map"),
            ("[fabric]\nfile = 'x'", "c.toml:1: found fabric = "),
            (
                "oracle = 'a:1'\nfabric = ''",
                "c.toml:2: found fabric = \"\"",
            ),
            ("fabric = 3", "fabric = 3"),
            ("fabric = ['a']", "fabric ="),
            ("hosts = [1]", "hosts ="),
            ("fabric", "c.toml:1"),
            (
                "fabric = \"torus:4x4",
                "found invalid basic string, expected `\"`\nhint: texts are in quotation marks",
            ),
            ("fabric = torus:4x4", "hint: texts are in quotation marks"),
        ] {
            let error = read(&[("c.toml", text)]).unwrap_err().to_string();
            assert!(error.contains("c.toml") && error.contains(found), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_told_and_a_spec_is_none() {
        let remarks = |text: &str| {
            let settings = read(&[("c.toml", text)]).unwrap();
            let all = settings.remarks();
            // The environment of the tests may add to them.
            let own = all.into_iter().filter(|r| r.contains("c.toml"));
            own.collect::<Vec<_>>()
        };
        assert!(remarks("fabric = 'torus:4x4'\nhosts = ['dgx-h100']").is_empty());
        assert!(remarks("network = 'gemini'").is_empty());
        let told = remarks("network = 'gemeni'");
        assert!(told[0].contains("seastar, infiniband"), "{told:?}");
        let told = remarks("fabric = 'toros:4x4'\nroutes = ['none.txt']");
        assert!(told[0].contains("did you mean torus:4x4?"), "{told:?}");
        assert!(told[1].starts_with("routes = none.txt of "), "{told:?}");
        assert!(told[1].ends_with("there is no such file"), "{told:?}");
    }

    fn words(text: &str) -> Result<Vec<String>> {
        let options = option_words("c.toml", text)?;
        Ok(options
            .into_iter()
            .map(|o| o.to_string_lossy().into_owned())
            .collect())
    }

    #[test]
    fn files_become_options() {
        let text = "listen = [\"10.0.0.1:7667\", \"[::1]:7667\"]\nsync = true\nverbose = false\ndeadline = 200\n";
        let expected = [
            "--listen=10.0.0.1:7667",
            "--listen=[::1]:7667",
            "--sync",
            "--deadline=200",
        ];
        let mut got = words(text).unwrap();
        got.sort_by_key(|w| expected.iter().position(|e| e == w));
        assert_eq!(got, expected);
    }

    #[test]
    fn what_is_no_option_is_refused_with_its_line() {
        let error = words("listen = 1\nstore\n").unwrap_err().to_string();
        assert!(error.starts_with("c.toml:2: found"), "{error}");
        assert!(
            words("[a]\nb = 1")
                .unwrap_err()
                .to_string()
                .contains("expected a text")
        );
    }
}

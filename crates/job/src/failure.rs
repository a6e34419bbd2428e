//! A failure as every interface reports it: identifier, exit code, message and its parts.

use crate::error::{JobError, causes, class, is_lacking, told};
use hopbyte_fabric::class::RETIRED;
use hopbyte_fabric::{Class, FabricError, InputError};
use hopbyte_observe::ObserveError;
use serde::Serialize;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of input that is not valid.
pub const BAD_INPUT: u8 = 2;
/// Exit code if the environment lacks a permission, a device, a program or disk space.
pub const ENVIRONMENT: u8 = 3;

/// Refuses `--json` where the answer has another form.
///
/// # Errors
/// `json` is true.
pub fn without_json(json: bool, form: &str) -> Result<(), InputError> {
    let refused = || InputError::new("command line", "--json", format!("{form} without it"));
    match json {
        true => Err(refused().of(Class::Conflict)),
        false => Ok(()),
    }
}

/// A failure: as text `error[HB0201]: …`, as JSON `hopbyte.error/1`.
#[derive(Debug, Serialize)]
pub struct Failure {
    schema: &'static str,
    /// Identifier of its class, for `hopbyte explain`.
    pub id: &'static str,
    title: &'static str,
    /// Exit code of the command.
    pub exit: u8,
    /// The message, with its hint.
    pub message: String,
    /// File or argument, line, found and expected value, and hint, if the error has them.
    #[serde(flatten)]
    parts: Option<Parts>,
}

#[derive(Debug, Serialize)]
struct Parts {
    file: String,
    line: Option<u64>,
    found: String,
    expected: String,
    hint: Option<String>,
}

impl Failure {
    /// The failure of an error.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let exit = match is_lacking(error) {
            true => ENVIRONMENT,
            false => BAD_INPUT,
        };
        let parts = input(error).map(|input| Parts {
            file: input.file.clone(),
            line: input.line,
            found: input.found.to_string(),
            expected: input.expected.clone(),
            hint: input.hint.clone(),
        });
        let mut message = told(error);
        if !message.contains("\nhint: ")
            && let Some(advice) = advice(error, &message)
        {
            message.push_str(&format!("\nhint: {advice}"));
        }
        Self {
            exit,
            parts,
            ..Self::new(class(error), message)
        }
    }

    /// A failure of bad input from its message.
    pub fn new(class: Class, message: String) -> Self {
        let about = class.about();
        Self {
            schema: "hopbyte.error/1",
            id: about.id,
            title: about.title,
            exit: BAD_INPUT,
            message,
            parts: None,
        }
    }
}

/// Advice on an error of the system that comes without any.
fn advice(error: &(dyn Error + 'static), message: &str) -> Option<&'static str> {
    use io::ErrorKind as K;
    let refusal = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>())?;
    if refusal.raw_os_error() == Some(TOO_MANY_LINKS) {
        return Some("a symbolic link leads back to itself; `ls -l` shows where links lead");
    }
    Some(match refusal.kind() {
        K::NotFound => "check the path; a folder that is written into must exist",
        K::NotADirectory => "a part of the path is a file, not a folder: name another place",
        K::PermissionDenied if message.contains("requires a token") => {
            "ask the collector's administrator for its token; `token = FILE` in hopbyte.toml gives it to every verb"
        }
        K::PermissionDenied => {
            "`ls -ld` shows the owner and the rights; name another place, or ask its owner"
        }
        K::ReadOnlyFilesystem => "name a place on a file system that can be written",
        K::StorageFull | K::QuotaExceeded => "free some space, or name a place on another disk",
        K::AddrInUse => "another program listens there: choose another port",
        K::ConnectionRefused if message.starts_with("collector ") => {
            "nothing listens there: check HOST:PORT, or start one with: hopbyte collect"
        }
        K::ConnectionRefused => "nothing listens there: check HOST:PORT, and start the program",
        K::TimedOut if message.contains("sent nothing") => {
            "the program there is stopped, or no collector"
        }
        K::TimedOut | K::HostUnreachable | K::NetworkUnreachable => {
            "check HOST:PORT, and that no firewall is between"
        }
        // The standard library has no kind for a failed lookup.
        _ if message.contains("failed to lookup address") => {
            "no host of this name is known here: check its spelling"
        }
        _ => return None,
    })
}

/// `ELOOP`, whose kind is not stable.
const TOO_MANY_LINKS: i32 = rustix::io::Errno::LOOP.raw_os_error();

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.id, self.message)
    }
}

/// The input that an error is about, if it is one.
pub fn input<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a InputError> {
    causes(error).find_map(|cause| {
        let fabric = |error: &'a FabricError| match error {
            FabricError::Input(input) => Some(input),
            _ => None,
        };
        if let Some(input) = cause.downcast_ref::<InputError>() {
            return Some(input);
        }
        if let Some(error) = cause.downcast_ref::<FabricError>() {
            return fabric(error);
        }
        if let Some(JobError::Input(input)) = cause.downcast_ref::<JobError>() {
            return Some(input);
        }
        match cause.downcast_ref::<ObserveError>()? {
            ObserveError::Input(input) => Some(input),
            ObserveError::Fabric(error) => fabric(error),
            _ => None,
        }
    })
}

/// The description of a class of errors, as JSON `hopbyte.explain/1`.
#[derive(Debug, Serialize)]
pub struct Explained {
    schema: &'static str,
    id: &'static str,
    title: &'static str,
    cause: &'static str,
    /// A command line that fails so; none if it takes another machine or input.
    example: Option<&'static str>,
    remedy: &'static str,
}

impl Explained {
    /// The class as text, or as a line of the list.
    pub fn text(&self, whole: bool) -> String {
        if !whole {
            return format!("{}  {}\n", self.id, self.title);
        }
        let example = self
            .example
            .map_or_else(String::new, |e| format!("Example:\n  $ {e}\n\n"));
        format!(
            "{}: {}\n\nCause: {}\n\n{example}What to do: {}\n",
            self.id, self.title, self.cause, self.remedy
        )
    }
}

/// Classes by identifier, or all.
///
/// # Errors
/// An identifier that no class has, with similar ones.
pub fn explained(ids: &[String]) -> Result<Vec<Explained>, InputError> {
    let find = |id: &String| {
        Class::find(id).ok_or_else(|| {
            let retired = RETIRED.iter().find(|(old, _)| old.eq_ignore_ascii_case(id));
            let error = InputError::new("ID", id, "an identifier such as HB0201");
            let error = error.of(Class::OptionValue);
            match retired {
                Some((_, title)) => error.hint(format!("it was: {title}")),
                None => error.hint("`hopbyte explain` lists all"),
            }
        })
    };
    let classes = match ids {
        [] => Class::ALL.to_vec(),
        ids => ids.iter().map(find).collect::<Result<_, _>>()?,
    };
    Ok(classes.into_iter().map(Explained::of).collect())
}

impl Explained {
    /// The description of a class.
    pub fn of(class: Class) -> Self {
        let about = class.about();
        Self {
            schema: "hopbyte.explain/1",
            id: about.id,
            title: about.title,
            cause: about.cause,
            example: Some(about.example).filter(|e| !e.is_empty()),
            remedy: about.remedy,
        }
    }
}

/// The reader of standard output has left, as `head` does after its lines.
#[derive(Debug, thiserror::Error)]
#[error("the reader of standard output has left")]
pub struct ReaderLeft;

/// Whether the process has no standard output (`>&-`).
static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Looks whether standard output is closed, before the standard library opens `/dev/null` in its place.
pub extern "C" fn look_for_output() {
    let closed = rustix::io::fcntl_getfd(io::stdout()).is_err();
    OUTPUT_CLOSED.store(closed, Ordering::Relaxed);
}

/// The error of a write of a part of the answer to standard output, with its place.
///
/// # Errors
/// That of the write; that of a closed output, which the standard library passes over.
pub fn printed(written: io::Result<()>) -> io::Result<()> {
    match OUTPUT_CLOSED.load(Ordering::Relaxed) {
        true => named(Err(rustix::io::Errno::BADF.into())),
        false => named(written),
    }
}

/// The error of a write to standard output, with its place.
///
/// # Errors
/// That of the write.
pub fn named(written: io::Result<()>) -> io::Result<()> {
    written.map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(e.kind(), ReaderLeft),
        kind => io::Error::new(kind, format!("cannot write standard output: {e}")),
    })
}

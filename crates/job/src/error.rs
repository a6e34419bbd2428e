//! Errors of the loop.

use hopbyte_apply::ApplyError;
use hopbyte_fabric::{Class, FabricError, InputError};
use hopbyte_map::MapError;
use hopbyte_model::ModelError;
use hopbyte_observe::{ObserveError, system_class};
use hopbyte_oracle::OracleError;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use thiserror::Error;

/// Result of a step of the loop.
pub type Result<T, E = JobError> = std::result::Result<T, E>;

/// Why a step of the loop has no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JobError {
    /// Unreadable input: file, line, found, expected, hint.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A machine, placement or traffic that is not valid.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A file or source that cannot be read.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// Route costs that cannot be computed.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// A model without a result.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A mapping that cannot be searched.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A launcher file that cannot be written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The environment lacks a permission, a device or a program.
    #[error(transparent)]
    Lacking(#[from] Lacking),
    /// A document that is not the JSON that hopbyte writes.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Valid inputs that do not form a question.
    #[error("{problem}{}", hint_line(.hint))]
    Refused {
        /// The contradiction, with the found and the expected value.
        problem: String,
        /// Advice for the user.
        hint: Option<String>,
    },
    /// An error of a named step.
    #[error("{step}")]
    During {
        /// The step, and the file that it works on.
        step: String,
        /// Its error.
        source: Box<JobError>,
    },
}

impl JobError {
    /// A refusal from a message whose hint, if any, follows in a line `hint: …`.
    pub fn refused(message: &str) -> Self {
        let (problem, hint) = match message.split_once("\nhint: ") {
            Some((problem, hint)) => (problem, Some(hint.to_owned())),
            None => (message, None),
        };
        Self::Refused {
            problem: problem.to_owned(),
            hint,
        }
    }

    /// Class of the error.
    pub fn class(&self) -> Class {
        match self {
            Self::Input(e) => e.class,
            Self::Fabric(e) => e.class(),
            Self::Observe(e) => e.class(),
            Self::Oracle(e) => e.class(),
            Self::Model(e) => e.class(),
            Self::Map(e) => e.class(),
            Self::Apply(e) => e.class(),
            Self::Lacking(_) => Class::Lacking,
            Self::Json(_) => Class::Content,
            Self::Io(e) => system_class(e.kind()),
            Self::Refused { problem, .. } => class_of_words(problem),
            Self::During { source, .. } => source.class(),
        }
    }

    /// The error itself, without the steps and the variant around it.
    pub fn root(&self) -> &(dyn StdError + 'static) {
        match self {
            Self::Input(e) => e,
            Self::Fabric(e) => e,
            Self::Observe(e) => e,
            Self::Oracle(e) => e,
            Self::Model(e) => e,
            Self::Map(e) => e,
            Self::Apply(e) => e,
            Self::Lacking(e) => e,
            Self::Json(e) => e,
            Self::Io(e) => e,
            Self::Refused { .. } => self,
            Self::During { source, .. } => source.root(),
        }
    }
}

/// Ends a function with [`JobError::Refused`].
macro_rules! refuse {
    ($($message:tt)*) => {
        return Err($crate::error::JobError::refused(&format!($($message)*)).into())
    };
}
pub(crate) use refuse;

/// Names the step that failed.
pub(crate) trait Context<T> {
    /// The step, if it is cheap to name.
    fn context(self, step: impl Into<String>) -> Result<T>;

    /// The step, named only on failure.
    fn with_context<S: Into<String>>(self, step: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: Into<JobError>> Context<T> for Result<T, E> {
    fn context(self, step: impl Into<String>) -> Result<T> {
        self.with_context(|| step)
    }

    fn with_context<S: Into<String>>(self, step: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|source| JobError::During {
            step: step().into(),
            source: Box::new(source.into()),
        })
    }
}

/// A missing device, permission or program of this machine or user, with a hint: exit code 3.
#[derive(Debug)]
pub struct Lacking(pub String);

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Lacking {}

/// The causes of an error, first the error; a [`JobError`] counts as its [`JobError::root`].
pub fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source()).map(|cause| {
        match cause.downcast_ref::<JobError>() {
            Some(error) => error.root(),
            None => cause,
        }
    })
}

/// The error and its causes in one line, without repetition: many errors include their cause already.
pub fn told(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    for cause in causes.map(ToString::to_string) {
        if !text.contains(&cause) {
            // A hint stays last.
            let at = text.find("\nhint: ").unwrap_or(text.len());
            text.insert_str(at, &format!(": {cause}"));
        }
    }
    text
}

/// The same without a line for the hint.
pub fn one_line(error: &(dyn StdError + 'static)) -> String {
    told(error).replace("\nhint: ", "; ").replace('\n', " ")
}

/// Class of an error: of the first of its causes that has one.
pub fn class(error: &(dyn StdError + 'static)) -> Class {
    type Cause<'a> = &'a (dyn StdError + 'static);
    fn of<E: StdError + 'static>(cause: Cause<'_>, class: impl Fn(&E) -> Class) -> Option<Class> {
        cause.downcast_ref::<E>().map(class)
    }
    let known = |cause| {
        of(cause, JobError::class)
            .or_else(|| of(cause, |e: &InputError| e.class))
            .or_else(|| of(cause, FabricError::class))
            .or_else(|| of(cause, ObserveError::class))
            .or_else(|| of(cause, OracleError::class))
            .or_else(|| of(cause, ModelError::class))
            .or_else(|| of(cause, MapError::class))
            .or_else(|| of(cause, ApplyError::class))
            .or_else(|| of(cause, |e: &io::Error| system_class(e.kind())))
            .or_else(|| of(cause, |_: &serde_json::Error| Class::Content))
            .or_else(|| of(cause, |_: &Lacking| Class::Lacking))
    };
    causes(error)
        .find_map(known)
        .unwrap_or_else(|| class_of_words(&error.to_string()))
}

/// Class of a refusal in words; one of an option begins with its name.
fn class_of_words(text: &str) -> Class {
    match text.starts_with("--") {
        true => Class::OptionValue,
        false => Class::Refused,
    }
}

/// Whether an error is due to the environment (permission, device, disk space) rather than the input.
pub fn is_lacking(error: &(dyn StdError + 'static)) -> bool {
    causes(error).any(|cause| match cause.downcast_ref::<io::Error>() {
        // A path that does not exist was mistyped; denied access or lack of space is the environment's.
        Some(refusal) => !matches!(
            refusal.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::InvalidData
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::UnexpectedEof
        ),
        None => cause.is::<Lacking>(),
    })
}

fn hint_line(hint: &Option<String>) -> String {
    hint.as_ref()
        .map_or_else(String::new, |hint| format!("\nhint: {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let said = full.to_string();
        let error = ObserveError::io("out".as_ref(), full);
        let error = Err::<(), _>(error).context("writing").unwrap_err();
        assert_eq!(told(&error), format!("writing: out: {said}"));
        let again = Err::<(), _>(error).context(format!("a: out: {said}"));
        assert_eq!(
            told(&again.unwrap_err()),
            format!("a: out: {said}: writing")
        );
    }

    #[test]
    fn every_error_of_the_system_and_of_a_step_has_its_class() {
        use io::ErrorKind as K;
        for (kind, expected) in [
            (K::NotFound, Class::NoSuchFile),
            (K::PermissionDenied, Class::Denied),
            (K::StorageFull, Class::NoSpace),
            (K::ConnectionRefused, Class::Unreachable),
            (K::InvalidData, Class::Content),
            (K::AddrInUse, Class::System),
        ] {
            let observed = ObserveError::io("out".as_ref(), kind.into());
            assert_eq!(class(&observed), expected, "{kind}");
            let error = Err::<(), _>(observed).context("writing").unwrap_err();
            assert_eq!(class(&error), expected, "{kind}");
            assert_eq!(class(&io::Error::from(kind)), expected, "{kind}");
        }
        let refused = |text| class(&JobError::refused(text));
        assert_eq!(refused("nothing asked"), Class::Refused);
        assert_eq!(refused("--every: found 0"), Class::OptionValue);
        assert_eq!(class(&Lacking("no MPI".into())), Class::Lacking);
        assert_eq!(class(&std::fmt::Error), Class::Refused);
    }

    #[test]
    fn a_refusal_keeps_its_text_and_has_its_hint_apart() {
        let error = JobError::refused("no nodes\nhint: give --nodes LIST");
        let JobError::Refused { problem, hint } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(problem, "no nodes");
        assert_eq!(hint.as_deref(), Some("give --nodes LIST"));
        assert_eq!(error.to_string(), "no nodes\nhint: give --nodes LIST");
        assert!(!is_lacking(&error));
    }

    #[test]
    fn the_environment_is_found_below_every_variant_and_step() {
        let kinds = [
            (io::ErrorKind::NotFound, false),
            (io::ErrorKind::InvalidData, false),
            (io::ErrorKind::PermissionDenied, true),
            (io::ErrorKind::StorageFull, true),
            (io::ErrorKind::BrokenPipe, true),
        ];
        for (kind, lacking) in kinds {
            let io = || io::Error::from(kind);
            let observed = ObserveError::io("out".as_ref(), io());
            let variants = [JobError::from(io()), JobError::from(observed)];
            for error in variants {
                assert_eq!(is_lacking(&error), lacking, "{error:?}");
                let text = error.to_string();
                let error = Err::<(), _>(error).context("writing out").unwrap_err();
                assert_eq!(is_lacking(&error), lacking, "{error:?}");
                assert_eq!(error.to_string(), "writing out");
                assert_eq!(error.source().unwrap().to_string(), text);
            }
        }
        let error = JobError::from(Lacking("no MPI".into()));
        assert!(is_lacking(&error));
        assert_eq!(error.to_string(), "no MPI");
        assert!(!is_lacking(&JobError::from(InputError::new("f", "a", "b"))));
    }
}

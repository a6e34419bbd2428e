//! The border between C and Rust: converts pointers to references, errors to a status and a text, and catches
//! panics.

use hopbyte_fabric::{FabricError, InputError};
use hopbyte_job::JobError;
use hopbyte_observe::ObserveError;
use hopbyte_oracle::OracleError;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Success.
pub const OK: c_int = 0;
const BAD_INPUT: c_int = 2;
const ENVIRONMENT: c_int = 3;
const BROKEN: c_int = 4;

/// Maximum length of an array.
const LONGEST: usize = 1 << 30;

thread_local! {
    static SAID: RefCell<CString> = RefCell::default();
}

/// Status and text of a failed call.
pub struct Failure(c_int, String);

impl Failure {
    /// An invalid argument.
    pub fn input(text: impl Into<String>) -> Self {
        Self(BAD_INPUT, text.into())
    }

    /// A missing or failing system resource.
    pub fn lacking(text: impl Into<String>) -> Self {
        Self(ENVIRONMENT, text.into())
    }
}

macro_rules! bad_input {
    ($($error:ty),+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self(BAD_INPUT, error.to_string())
            }
        }
    )+};
}

bad_input!(FabricError, InputError);

impl From<ObserveError> for Failure {
    fn from(error: ObserveError) -> Self {
        let code = match error {
            ObserveError::Io { .. } => ENVIRONMENT,
            _ => BAD_INPUT,
        };
        Self(code, error.to_string())
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        let code = match hopbyte_job::is_lacking(&error) {
            true => ENVIRONMENT,
            false => BAD_INPUT,
        };
        Self(code, hopbyte_job::told(&error))
    }
}

impl From<OracleError> for Failure {
    fn from(error: OracleError) -> Self {
        Self(ENVIRONMENT, error.to_string())
    }
}

fn say(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // Fails only while the thread ends; no caller can read the text then.
    let _ = SAID.try_with(|said| said.replace(text));
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("internal error of libhopbyte: {}", text.unwrap_or_default())
}

/// Runs the body of a call; stores its error as the thread's text.
fn enter<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, c_int> {
    say("");
    // Unwind safe: a body changes objects in its last step only, so after a panic they are in their previous
    // state.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Failure(code, text))) => {
            say(&text);
            Err(code)
        }
        Err(panic) => {
            say(&words(&*panic));
            Err(BROKEN)
        }
    }
}

/// A call that returns a status.
pub fn status(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    enter(body).map_or_else(|code| code, |()| OK)
}

/// A call that creates an object.
pub fn object<T>(body: impl FnOnce() -> Result<T, Failure>) -> *mut T {
    enter(body).map_or(std::ptr::null_mut(), |made| Box::into_raw(Box::new(made)))
}

/// A call that returns a value, or `otherwise` on failure.
pub fn value<T>(otherwise: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    enter(body).unwrap_or(otherwise)
}

/// Frees an object.
///
/// # Safety
/// `object` is null or came from [`object`] and has no other users.
pub unsafe fn end<T>(object: *mut T) {
    if object.is_null() {
        return;
    }
    // SAFETY: the caller guarantees that it came from `Box::into_raw` and is not used elsewhere.
    let object = unsafe { Box::from_raw(object) };
    let _ = enter(|| {
        drop(object);
        Ok(())
    });
}

/// A mandatory object.
///
/// # Safety
/// `object` is null or a live object of this library, without concurrent changes.
pub unsafe fn given<'a, T>(object: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: guaranteed by the caller.
    let found = unsafe { object.as_ref() };
    found.ok_or_else(|| Failure::input(format!("found no {what} (NULL)")))
}

/// A mandatory output.
///
/// # Safety
/// `place` is null or points to memory for one value, without concurrent use.
pub unsafe fn place<'a, T>(place: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: guaranteed by the caller.
    let found = unsafe { place.as_mut() };
    found.ok_or_else(|| Failure::input(format!("found no place for {what} (NULL)")))
}

/// An array; null is valid only if it is empty.
///
/// # Safety
/// `array` is null or points to `count` values, without concurrent changes.
pub unsafe fn array<'a, T>(array: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check(array.is_null(), count, what)?;
    // SAFETY: not null, of a bounded length; the rest is guaranteed by the caller.
    Ok(unsafe { std::slice::from_raw_parts(array, count) })
}

/// An output array.
///
/// # Safety
/// `array` is null or points to initialised memory for `count` values, without concurrent use (any bits are
/// valid for the types used here).
pub unsafe fn output<'a, T>(
    array: *mut T,
    count: usize,
    what: &str,
) -> Result<&'a mut [T], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(array.is_null(), count, what)?;
    // SAFETY: not null, of a bounded length; the rest is guaranteed by the caller.
    Ok(unsafe { std::slice::from_raw_parts_mut(array, count) })
}

fn check(is_null: bool, count: usize, what: &str) -> Result<(), Failure> {
    if count > LONGEST {
        return Err(Failure::input(format!(
            "found {count} {what}, expected at most {LONGEST}"
        )));
    }
    if is_null {
        return Err(Failure::input(format!(
            "found no {what} (NULL), expected {count}"
        )));
    }
    Ok(())
}

/// A mandatory string.
///
/// # Safety
/// `text` is null or a string that ends with a zero byte.
pub unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::input(format!("found no {what} (NULL)")));
    }
    // SAFETY: not null; the rest is guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| Failure::input(format!("found a {what} that is not UTF-8")))
}

/// Error text of this thread's last call; see `hopbyte.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hopbyte_error_text() -> *const c_char {
    // The pointer is valid until the thread's next call replaces the text.
    let text = SAID.try_with(|said| said.borrow().as_ptr());
    text.unwrap_or(c"".as_ptr())
}

//! Between C and Rust: pointers become references, errors become codes and a text, panics stay inside.

use hopbyte_fabric::{FabricError, InputError};
use hopbyte_observe::ObserveError;
use hopbyte_oracle::OracleError;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Done.
pub const OK: c_int = 0;
const BAD_INPUT: c_int = 2;
const ENVIRONMENT: c_int = 3;
const BROKEN: c_int = 4;

/// Longest array that is taken.
const LONGEST: usize = 1 << 30;

thread_local! {
    static SAID: RefCell<CString> = RefCell::default();
}

/// Why a call failed.
pub struct Failure(c_int, String);

impl Failure {
    /// An argument that makes no sense.
    pub fn input(text: impl Into<String>) -> Self {
        Self(BAD_INPUT, text.into())
    }

    /// What the system did not give.
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

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let code = match hopbyte_job::is_lacking(&error) {
            true => ENVIRONMENT,
            false => BAD_INPUT,
        };
        Self(code, format!("{error:#}"))
    }
}

impl From<OracleError> for Failure {
    fn from(error: OracleError) -> Self {
        Self(ENVIRONMENT, error.to_string())
    }
}

fn say(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has nobody left to read it.
    let _ = SAID.try_with(|said| said.replace(text));
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a mistake in libhopbyte: {}", text.unwrap_or_default())
}

/// Runs the body of a call; its error becomes the thread's text.
fn enter<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, c_int> {
    say("");
    // Objects are changed last of all, so that what a panic leaves is what was there before.
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

/// A call that makes an object.
pub fn object<T>(body: impl FnOnce() -> Result<T, Failure>) -> *mut T {
    enter(body).map_or(std::ptr::null_mut(), |made| Box::into_raw(Box::new(made)))
}

/// A call that returns a value, and another one where it fails.
pub fn value<T>(otherwise: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    enter(body).unwrap_or(otherwise)
}

/// Ends an object.
///
/// # Safety
/// `object` is null or came from [`object`] and is used nowhere any more.
pub unsafe fn end<T>(object: *mut T) {
    if object.is_null() {
        return;
    }
    // SAFETY: as the caller promises, it is a box of ours and nobody else has it.
    let object = unsafe { Box::from_raw(object) };
    let _ = enter(|| {
        drop(object);
        Ok(())
    });
}

/// An object that must be there.
///
/// # Safety
/// `object` is null or a live object of ours that nobody changes meanwhile.
pub unsafe fn given<'a, T>(object: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: as the caller promises.
    let found = unsafe { object.as_ref() };
    found.ok_or_else(|| Failure::input(format!("found no {what} (NULL)")))
}

/// A place for an output that must be there.
///
/// # Safety
/// `place` is null or points to memory for one value that nobody else uses meanwhile.
pub unsafe fn place<'a, T>(place: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: as the caller promises.
    let found = unsafe { place.as_mut() };
    found.ok_or_else(|| Failure::input(format!("found no place for {what} (NULL)")))
}

/// An array; null only where it is empty.
///
/// # Safety
/// `array` is null or points to `count` values that nobody changes meanwhile.
pub unsafe fn array<'a, T>(array: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check(array.is_null(), count, what)?;
    // SAFETY: not null, of a bounded length, and as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(array, count) })
}

/// An array to write into.
///
/// # Safety
/// `array` is null or points to memory for `count` values that nobody else uses meanwhile, initialised
/// (any bits are a value of the types used here).
pub unsafe fn output<'a, T>(
    array: *mut T,
    count: usize,
    what: &str,
) -> Result<&'a mut [T], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(array.is_null(), count, what)?;
    // SAFETY: not null, of a bounded length, and as the caller promises.
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

/// A text that must be there.
///
/// # Safety
/// `text` is null or a string that ends with a zero byte.
pub unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::input(format!("found no {what} (NULL)")));
    }
    // SAFETY: not null, and as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| Failure::input(format!("found a {what} that is not UTF-8")))
}

/// Why the last call of this thread failed; see `hopbyte.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hopbyte_error_text() -> *const c_char {
    // The text stays where it is until the thread's next call replaces it.
    let text = SAID.try_with(|said| said.borrow().as_ptr());
    text.unwrap_or(c"".as_ptr())
}

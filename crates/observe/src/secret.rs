//! Secrets in files: bounded, and readable by their owner and group only.

use crate::text::open;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Maximum length of a file of secrets.
const LONGEST: u64 = 4096;
/// Minimum length of a secret.
const SHORTEST: usize = 16;
/// Permissions of users other than the owner and the group.
const OTHERS: u32 = 0o007;

fn wrong(file: &Path, text: &str) -> io::Error {
    let text = format!("{}: {text}", file.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Refuses a regular file that every user of this machine may read or replace.
///
/// # Errors
/// The file is open to others.
pub fn check_mode(file: &Path, opened: &std::fs::File) -> io::Result<()> {
    let about = opened.metadata()?;
    let mode = about.permissions().mode() & 0o777;
    if about.is_file() && mode & OTHERS != 0 {
        let text = format!(
            "found mode {mode:04o}, open to every user, expected 0600 or 0640\nhint: chmod o-rwx {}",
            file.display()
        );
        return Err(wrong(file, &text));
    }
    Ok(())
}

/// The bytes of a file with a secret.
///
/// # Errors
/// The file cannot be read, is open to others, or is longer than a secret.
pub fn read(file: &Path) -> io::Result<Vec<u8>> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("token {}: {e}", file.display()));
    let opened = open(file).map_err(named)?;
    check_mode(file, &opened)?;
    let mut secret = Vec::new();
    opened
        .take(LONGEST + 1)
        .read_to_end(&mut secret)
        .map_err(named)?;
    if secret.len() as u64 > LONGEST {
        let text = format!("found more than {LONGEST} bytes, expected a short secret");
        return Err(wrong(file, &text));
    }
    Ok(secret)
}

/// Bearer tokens in a file, one per line: several are valid while they are replaced.
///
/// # Errors
/// Those of [`read`], no token, or one that is short or not printable ASCII.
pub fn bearers(file: &Path) -> io::Result<Vec<String>> {
    let secret = read(file)?;
    let text = String::from_utf8_lossy(&secret);
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let all: Vec<String> = lines.map(Into::into).collect();
    if all.is_empty() {
        return Err(wrong(file, "found no token, expected one per line"));
    }
    let sound = |t: &&String| t.len() >= SHORTEST && t.bytes().all(|b| b.is_ascii_graphic());
    if !all.iter().all(|t| sound(&t)) {
        let text = format!(
            "found a token that is short or has other characters, expected at least {SHORTEST} letters and digits"
        );
        return Err(wrong(file, &text));
    }
    Ok(all)
}

/// A URL for messages: without user, password and query, which may hold secrets.
pub fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    // A password may contain a slash although it should not: the last `@` decides.
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    format!("{scheme}{place}")
}

/// Whether a URL has a user, or a query with a name of secrets.
pub fn has_secrets(url: &str) -> bool {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let is_secret = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        let names = ["token", "password", "secret", "key", "auth"];
        name == "p" || names.iter().any(|n| name.contains(n))
    };
    place.contains('@') || query.split('&').any(is_secret)
}

/// A warning if this process was started with a secret in a URL on its command line, which every user may read.
pub fn exposed(option: &str, url: &str) -> Option<String> {
    let shown = has_secrets(url) && std::env::args().any(|word| word.contains(url));
    shown.then(|| {
        format!(
            "{option} {}: its password or token is on the command line, which every user of this machine may read; \
             put the option into --config FILE, mode 0600",
            without_secrets(url)
        )
    })
}

/// Refuses a file of options `--NAME=VALUE` that is open to every user and has a URL with a secret.
///
/// # Errors
/// Those of [`check_mode`].
pub fn check_options(file: &Path, options: &[OsString]) -> io::Result<()> {
    let is_url = |option: &OsString| {
        let option = option.to_string_lossy();
        let url = ["--nats=", "--lines="]
            .iter()
            .find_map(|name| option.strip_prefix(name));
        url.is_some_and(has_secrets)
    };
    match options.iter().any(is_url) {
        true => check_mode(file, &open(file)?),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn messages_show_no_secrets_of_a_url() {
        for (url, shown, secret) in [
            ("nats://bus:4222", "nats://bus:4222", false),
            ("nats://u:p@bus", "nats://bus", true),
            ("nats://token@bus:x/y", "nats://bus:x/y", true),
            ("u:p/w@bus", "bus", true),
            ("http://h:1/api?db=hpc", "http://h:1/api", false),
            ("http://h:1/api?db=hpc&p=x", "http://h:1/api", true),
            ("https://u:p@h/write?api_Token=x", "https://h/write", true),
        ] {
            assert_eq!(without_secrets(url), shown);
            assert_eq!(has_secrets(url), secret, "{url}");
        }
    }

    #[test]
    fn files_that_every_user_may_read_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "0123456789abcdef\n\n fedcba9876543210 \n").unwrap();
        for (mode, sound) in (0..=0o777).map(|mode| (mode, mode & 0o007 == 0)) {
            // The owner could not open it.
            if mode & 0o400 == 0 {
                continue;
            }
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let read = bearers(&file);
            assert_eq!(read.is_ok(), sound, "{mode:o}");
            match read {
                Ok(tokens) => assert_eq!(tokens, ["0123456789abcdef", "fedcba9876543210"]),
                Err(error) => assert!(error.to_string().contains("hint: chmod o-rwx"), "{error}"),
            }
        }
    }

    #[test]
    fn tokens_are_long_and_printable() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let long = "x".repeat(5000);
        for text in [
            "",
            "short",
            "0123456789abcde\u{e9}f",
            "0123456789 abcdef",
            &long,
        ] {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            assert!(bearers(&file).is_err(), "{text}");
        }
    }

    #[test]
    fn files_with_passwords_are_not_open_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        fs::write(&file, "").unwrap();
        let check = |option: &str, mode: u32| {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            check_options(&file, &["--sync".into(), option.into()])
        };
        for secret in ["--nats=nats://u:p@bus", "--lines=http://h/api?token=x"] {
            assert!(check(secret, 0o600).is_ok() && check(secret, 0o640).is_ok());
            let error = check(secret, 0o644).unwrap_err().to_string();
            assert!(error.contains("open to every user"), "{error}");
        }
        assert!(check("--nats=nats://bus", 0o644).is_ok());
    }
}

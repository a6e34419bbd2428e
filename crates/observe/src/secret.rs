//! Secrets in files: bounded, and readable by their owner and group only.

use crate::text::open;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

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
}

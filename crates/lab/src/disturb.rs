//! Commands under measured operating-system noise or beside streams through memory: `hopbyte-disturb` of `probes/`.
//!
//! All nodes of a lab share this machine's processors and memory, so that a disturbance meets all of them.

use crate::error::{Result, refuse};
use hopbyte_job::Lacking;
use hopbyte_job::record::launch::beside;

/// Status of the program when it did not deliver what was asked for.
const NOT_DELIVERED: i32 = 3;

/// The command, run by the program with these disturbances: `noise=PERIOD:DURATION`, `memory=SHARE`.
///
/// # Errors
/// Another word, or the program is not built.
pub fn command(disturbances: &[String], command: &[String]) -> Result<Vec<String>> {
    if disturbances.is_empty() {
        return Ok(command.to_vec());
    }
    let mut words = Vec::new();
    for word in disturbances {
        match word.split_once('=') {
            Some((name @ ("noise" | "memory"), value)) => {
                words.extend([format!("--{name}"), value.to_owned()]);
            }
            _ => refuse!(
                "--disturb: found '{}', expected noise=PERIOD:DURATION (noise=10ms:25us) or memory=SHARE (memory=0.5)",
                word.escape_debug()
            ),
        }
    }
    let places = ["libexec/hopbyte".into(), "build/probes".into()];
    let program = beside(
        "hopbyte-disturb",
        None,
        &places,
        ("make -C probes disturb", None),
    )?;
    words.insert(0, program.display().to_string());
    words.push("--".into());
    words.extend_from_slice(command);
    Ok(words)
}

/// Status of such a command.
///
/// # Errors
/// The disturbance was refused or not delivered; the program has said why.
pub fn status(disturbances: &[String], status: i32) -> Result<i32> {
    if !disturbances.is_empty() && status == NOT_DELIVERED {
        return Err(Lacking(format!(
            "{} is not delivered on this machine, see above; or the command ended with status {NOT_DELIVERED}",
            disturbances.join(" and ")
        ))
        .into());
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_disturbances_are_refused_and_none_changes_nothing() {
        let own = ["sleep".to_owned(), "1".to_owned()];
        assert_eq!(command(&[], &own).unwrap(), own);
        assert_eq!(status(&[], 3).unwrap(), 3);
        for word in ["noise", "noise:1", "cache=1"] {
            let error = command(&[word.to_owned()], &own).unwrap_err().to_string();
            assert!(
                error.contains(&format!("found '{word}', expected noise=")),
                "{error}"
            );
        }
        let error = status(&["memory=0.1".to_owned()], 3).unwrap_err();
        assert!(error.to_string().starts_with("memory=0.1 is not delivered"));
    }
}

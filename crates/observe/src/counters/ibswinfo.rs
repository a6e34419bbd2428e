//! `ibswinfo`: hardware of an InfiniBand switch without a management processor.
//!
//! ```text
//! =================================================
//! SwitchIB Mellanox Technologies
//! =================================================
//! part number        | MSB7790-ES2F
//! GUID               | 0x1c34da0300010540
//! uptime (d-h:m:s)   | 160d-10:38:53
//! fan status         | ERROR
//! ```
//!
//! It counts nothing on links. Its part number gives the tick of `PortXmitWait` of the switch's ports, and each status
//! other than OK is reported.

use crate::text::{Text, hexadecimal, lossy};
use hopbyte_fabric::{InputError, LeftOut};

/// Whether a line belongs to such a text.
pub(super) fn is_line(line: &[u8]) -> bool {
    row(line).is_some_and(|(key, _)| key == "part number" || key == "PSID")
}

/// Key and value between the bar.
fn row(line: &[u8]) -> Option<(String, String)> {
    let at = memchr::memchr(b'|', line)?;
    let of = |part: &[u8]| lossy(part.trim_ascii()).into_owned();
    Some((of(&line[..at]), of(&line[at + 1..]))).filter(|(key, _)| !key.is_empty())
}

/// GUIDs of switches with their part numbers; statuses other than OK go to `left_out`.
pub(super) fn systems(
    text: &Text,
    left_out: &mut LeftOut,
) -> Result<Vec<(u64, String)>, InputError> {
    let mut systems = Vec::new();
    let (mut part, mut guid) = (None, None);
    let mut faults: Vec<String> = Vec::new();
    let mut unit = String::new();
    let mut name = String::new();
    for line in text.lines() {
        let Some((key, value)) = row(line.bytes) else {
            let content = line.trimmed();
            let is_rule = content.iter().all(|b| matches!(b, b'=' | b'-'));
            if !is_rule {
                // The title of the next switch.
                name = lossy(content).into_owned();
            }
            continue;
        };
        match key.as_str() {
            "part number" => part = Some(value),
            "GUID" => {
                let number = hexadecimal(value.as_bytes());
                guid = Some(number.ok_or_else(|| text.error_in(line, value.as_bytes(), "a GUID"))?);
            }
            _ if key.ends_with("status") => {
                unit.clone_from(&key);
                if value != "OK" {
                    faults.push(format!("{key} {value}"));
                }
            }
            "DC power" | "AC power" if value != "OK" => {
                faults.push(format!("{unit}: {key} {value}"));
            }
            _ => {}
        }
        if let (Some(part), Some(guid)) = (&part, guid) {
            let known: &(u64, String) = &(guid, part.clone());
            if systems.last() != Some(known) {
                systems.push(known.clone());
            }
        }
    }
    let switch = systems
        .last()
        .map_or(name, |(guid, part)| format!("0x{guid:016x} ({part})"));
    for fault in faults {
        left_out.note(
            "status of a switch's hardware that is not OK",
            format!("{switch}: {fault}"),
        );
    }
    if systems.is_empty() {
        return Err(text.error("no GUID with a part number", "the output of ibswinfo"));
    }
    Ok(systems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Limits;

    const SWITCH: &str = "=====\nSwitchX Technologies\n=====\npart number        | MSB7790-XY\nserial number      | 1\n\
        GUID               | 0x2\nuptime (d-h:m:s)   | 1d-10:38:53\n-----\nPSU0 status        | OK\n\
        \x20    DC power      | FAIL\nfan status         | ERROR\nfan#1 (rpm)        | 8493\n";

    #[test]
    fn a_switch_gives_its_part_number_and_its_faults() {
        let text = |s: &str| Text::from_bytes("sw", s.as_bytes(), Limits::TEXT).unwrap();
        let mut left_out = LeftOut::default();
        let found = systems(&text(SWITCH), &mut left_out).unwrap();
        assert_eq!(found, [(2, "MSB7790-XY".to_owned())]);
        let said: Vec<String> = left_out.sentences().collect();
        assert!(
            said[0].contains("0x0000000000000002 (MSB7790-XY): PSU0 status: DC power FAIL"),
            "{said:?}"
        );
        assert!(said[0].contains("fan status ERROR"), "{said:?}");
        assert!(systems(&text("part number | x\n"), &mut left_out).is_err());
        assert!(SWITCH.lines().any(|l| is_line(l.as_bytes())));
    }
}

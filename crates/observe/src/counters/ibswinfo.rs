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
    // The switch whose statuses follow.
    let mut name = String::new();
    for line in text.lines() {
        let Some((key, value)) = row(line.bytes) else {
            let content = line.trimmed();
            let is_rule = content.iter().all(|b| matches!(b, b'=' | b'-'));
            if !is_rule {
                // The title of the next switch.
                name = lossy(content).into_owned();
                (part, guid) = (None, None);
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
                if value.is_empty() {
                    faults.push(format!("{name}: {key} without a value"));
                } else if value != "OK" {
                    faults.push(format!("{name}: {key} {value}"));
                }
            }
            "DC power" | "AC power" if value != "OK" => {
                faults.push(format!("{name}: {unit}: {key} {value}"));
            }
            _ => {}
        }
        // Taken together: the next switch has both anew.
        if let (Some(of), Some(number)) = (&part, guid) {
            name = format!("0x{number:016x} ({of})");
            systems.push((number, of.clone()));
            (part, guid) = (None, None);
        }
    }
    for fault in faults {
        left_out.note("status of a switch's hardware that is not OK", fault);
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

    /// Two switches, and every beginning of their text: no part number of one for the other, and none cut short.
    #[test]
    fn switches_are_told_apart_in_every_prefix() {
        let other = SWITCH
            .replace("MSB7790-XY", "MQM8790")
            .replace("0x2", "0x3");
        let both = format!("{SWITCH}{other}");
        let text = |s: &str| Text::from_bytes("sw", s.as_bytes(), Limits::TEXT).unwrap();
        let mut left_out = LeftOut::default();
        let whole = systems(&text(&both), &mut left_out).unwrap();
        assert_eq!(
            whole,
            [(2, "MSB7790-XY".to_owned()), (3, "MQM8790".to_owned())]
        );
        let said: Vec<String> = left_out.sentences().collect();
        assert!(
            said[0].contains("0x0000000000000003 (MQM8790): PSU0 status"),
            "{said:?}"
        );
        for length in 0..both.len() {
            let text = text(&both[..length]);
            if crate::counters::format(&text).is_err() {
                continue;
            }
            let found = systems(&text, &mut LeftOut::default()).unwrap_or_default();
            assert!(whole.starts_with(&found), "{length}: {found:?}");
        }
    }
}

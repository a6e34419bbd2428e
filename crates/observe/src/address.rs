//! Addresses of services, `HOST:PORT`.

use hopbyte_fabric::InputError;
use hopbyte_fabric::spec::is_fabric_spec;

/// The form, for messages.
pub const FORM: &str = "HOST:PORT, such as head:7667 or [::1]:7667";

/// Whether a word is `HOST:PORT`, an IPv6 address in brackets; a spec such as `torus:4` is none.
pub fn is_address(word: &str) -> bool {
    is_host_and_port(word) && !is_fabric_spec(word)
}

/// Refuses an address in another form; `place` is the option or setting.
///
/// # Errors
/// No host, or no port from 1 to 65535.
pub fn check_address(place: &str, address: &str) -> Result<(), InputError> {
    if is_host_and_port(address) {
        return Ok(());
    }
    Err(InputError::new(place, address, FORM))
}

fn is_host_and_port(word: &str) -> bool {
    let Some((host, port)) = word.rsplit_once(':') else {
        return false;
    };
    let inside = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let is_host = match inside {
        Some(address) => address.contains(':'),
        None => !host.contains([':', '[', ']']),
    };
    let plain = |c: char| c.is_ascii_graphic() && !"/@?#".contains(c);
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    is_host
        && !host.is_empty()
        && host.chars().all(plain)
        && digits
        && port.parse::<u16>().is_ok_and(|p| p > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_ports_are_told_from_files_and_specs() {
        for good in ["head:7667", "10.0.0.1:1", "[::1]:65535", "a-b.c:80"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "head",
            "head:",
            ":7667",
            "head:0",
            "head:65536",
            "head:+1",
            "head:http",
            "::1",
            "::1:7667",
            "[head]:1",
            "a/b:1",
            "a b:1",
            "torus:4",
            "torus:4x4",
            "stencil:4x4:5",
            "",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
        let said = check_address("--to", "nowhere").unwrap_err().to_string();
        assert!(said.starts_with("--to: found nowhere, expected HOST:PORT"));
    }
}

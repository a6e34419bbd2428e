//! The address of a server of the bus.

use crate::Refusal;
use hopbyte_observe::secret::without_secrets;
use serde::{Deserialize, Serialize};

/// A server of the bus: `nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT]`, or `tls://…`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Url {
    /// `HOST:PORT`.
    pub address: String,
    /// Whether the connection is encrypted.
    pub tls: bool,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "tls" } else { "nats" };
        write!(f, "{scheme}://{}", self.address)
    }
}

impl Url {
    /// Parses an address; the scheme is optional.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let (tls, rest) = match text.strip_prefix("tls://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("nats://").unwrap_or(text)),
        };
        let (secret, host) = match rest.rsplit_once('@') {
            Some((secret, host)) => (Some(secret), host),
            None => (None, rest),
        };
        let host = host.trim_end_matches('/');
        let ported = host.rsplit_once(':').is_some_and(|(name, port)| {
            (!name.contains(':') || name.ends_with(']')) && port.parse::<u16>().is_ok()
        });
        let sound = !host.is_empty() && !host.contains(['/', ' ', '\t']) && !host.ends_with(':');
        if !sound || rest.contains("://") {
            return Err(Refusal::new(format!(
                "{}, expected nats://[USER:PASSWORD@]HOST[:PORT] or tls://…",
                without_secrets(text)
            )));
        }
        let address = if ported {
            host.to_owned()
        } else {
            format!("{host}:4222")
        };
        let (user, password) = match secret.map(|s| s.split_once(':').ok_or(s)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(user.to_owned()), Some(password.to_owned())),
            Some(Err(token)) => (Some(token.to_owned()), None),
        };
        Ok(Self {
            address,
            tls,
            user,
            password,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let of = |text: &str| Url::parse(text).map(|u| (u.address, u.user, u.password));
        let word = |s: &str| Some(s.to_owned());
        assert_eq!(of("nats://bus"), Ok(("bus:4222".into(), None, None)));
        assert_eq!(
            of("nats://a:b@[::1]:99/"),
            Ok(("[::1]:99".into(), word("a"), word("b")))
        );
        assert_eq!(of("[::1]").unwrap().0, "[::1]:4222");
        let tls = Url::parse("tls://a:b@bus").unwrap();
        assert_eq!((tls.tls, &*format!("{tls:?}")), (true, "tls://bus:4222"));
        assert_eq!(
            of("nats://t0k@bus:1"),
            Ok(("bus:1".into(), word("t0k"), None))
        );
        for bad in ["", "nats://", "http://bus", "bus:", "a b", "nats://x/y"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        for bad in ["nats://a:secret@bus/x", "a:secret@", "http://secret@bus"] {
            let refusal = Url::parse(bad).unwrap_err().to_string();
            assert!(!refusal.contains("secret"), "{refusal}");
        }
        let secret = format!("{:?}", Url::parse("nats://a:secret@bus").unwrap());
        assert_eq!(secret, "nats://bus:4222", "no secret in a log");
    }
}

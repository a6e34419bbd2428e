//! The only HTTP client: a POST with limits on time and size, over http or https.
//!
//! Certificates are checked against the system's trusted ones (`SSL_CERT_FILE` overrides them).

use crate::resolve::Lookup;
use std::io;
use std::time::Duration;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

/// Connection timeout.
const CONNECT: Duration = Duration::from_secs(5);

/// Addresses of a name that are tried; as many have room.
const MOST_ADDRESSES: usize = 16;

/// A client with persistent connections.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    longest: u64,
    bearer: Option<String>,
}

/// A response: status and body.
#[derive(Debug)]
pub struct Answered {
    /// Status code.
    pub status: u16,
    /// Content.
    pub body: Vec<u8>,
}

impl Client {
    /// A client with a timeout of `patience` per request and a limit of `longest` bytes per response.
    pub fn new(patience: Duration, longest: u64) -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
        let config = Agent::config_builder()
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(patience))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("hopbyte/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build());
        Self {
            agent: Agent::with_parts(config.build(), DefaultConnector::default(), Names),
            longest,
            bearer: None,
        }
    }

    /// Presents a bearer token with every request.
    #[must_use]
    pub fn with_bearer(mut self, token: Option<&str>) -> Self {
        self.bearer = token.map(|token| format!("Bearer {token}"));
        self
    }

    /// The same client with another timeout.
    #[must_use]
    pub fn with_patience(&self, patience: Duration) -> Self {
        let bearer = self.bearer.clone();
        Self {
            bearer,
            ..Self::new(patience, self.longest)
        }
    }

    /// Whether the URL is supported: http:// or https://, a host, and no port outside 1 to 65535 (it would be ignored).
    pub fn takes(url: &str) -> bool {
        let rest = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"));
        let plain = |c: u8| c.is_ascii_graphic();
        let is_port = |port: &str| {
            port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0)
        };
        rest.is_some_and(|r| {
            let place = r.split(['/', '?', '#']).next().unwrap_or_default();
            let port = place.rsplit_once(':').map(|(_, port)| port);
            !place.is_empty()
                && !place.starts_with(':')
                && r.bytes().all(plain)
                && port.is_none_or(|port| port.ends_with(']') || is_port(port))
        })
    }

    /// Posts a body.
    ///
    /// # Errors
    /// No connection, no trusted certificate, no response before the timeout, or a response that is too long.
    pub fn post(&self, url: &str, kind: &str, body: &[u8]) -> io::Result<Answered> {
        let mut request = self.agent.post(url).content_type(kind);
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        let mut response = request.send(body).map_err(of_system)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(self.longest);
        Ok(Answered {
            status,
            body: body.read_to_vec().map_err(of_system)?,
        })
    }
}

fn of_system(error: Error) -> io::Error {
    match error {
        Error::Timeout(_) => io::Error::new(io::ErrorKind::TimedOut, error),
        other => other.into_io(),
    }
}

/// Resolves names as agents do: ureq's own way panics where a limit on processes refuses a thread.
#[derive(Debug)]
struct Names;

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        _config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let named = uri.scheme().zip(uri.authority());
        let host = named.and_then(|(scheme, at)| DefaultResolver::host_and_port(scheme, at));
        let lookup = Lookup::start(&host.ok_or(Error::HostNotFound)?)?;
        let found = lookup
            .wait(*timeout.after)
            .ok_or(Error::Timeout(timeout.reason))??;
        let mut all = self.empty();
        found
            .into_iter()
            .take(MOST_ADDRESSES)
            .for_each(|address| all.push(address));
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::Client;
    use std::time::Duration;

    #[test]
    fn another_timeout_keeps_the_token() {
        let client = Client::new(Duration::from_secs(1), 1).with_bearer(Some("secret"));
        let other = client.with_patience(Duration::from_secs(2));
        assert_eq!(other.bearer.as_deref(), Some("Bearer secret"));
    }

    #[test]
    fn addresses_are_those_of_the_web() {
        for good in [
            "http://127.0.0.1:80/x",
            "https://db.example/api?u=1",
            "http://[::1]:1",
        ] {
            assert!(Client::takes(good), "{good}");
        }
        for bad in [
            "",
            "http://",
            "ftp://a/b",
            "http:///write",
            "http://a b",
            "a:1",
            "http://a:65536",
            "http://a:0/ask",
            "https://[::1]:99999?x",
            "http://a:",
        ] {
            assert!(!Client::takes(bad), "{bad}");
        }
    }
}

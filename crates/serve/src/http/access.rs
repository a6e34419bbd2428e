//! Admission of requests: bearer tokens, cookies of browsers, and the headers `Host` and `Origin`, by which
//! requests are told apart that a foreign web page makes a browser send.

use super::Answer;
use hopbyte_collect::renewed::Renewed;
use hyper::http::header::{AUTHORIZATION, COOKIE, HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

/// Whether other machines can reach an address.
pub fn is_open_to_all(address: &SocketAddr) -> bool {
    !address.ip().is_loopback()
}

/// Receives the address of the page after its one-time token was used.
type Say = Box<dyn Fn(&str) + Send + Sync>;

/// Bearer tokens, of which each admits: the present content of their file.
pub type Bearers = Arc<Renewed<Vec<String>>>;

/// Rules of admission.
pub struct Access {
    tokens: Option<Bearers>,
    hosts: Vec<String>,
    is_tls: bool,
    page: Option<Page>,
}

/// Sign-in of browsers.
struct Page {
    url: String,
    /// The token of the next sign-in.
    once: Mutex<String>,
    cookie: String,
    session: String,
    say: Say,
}

/// An admitted request.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// To be answered.
    Answer,
    /// A browser with the one-time token: to be redirected to the same path with this `Set-Cookie` header.
    SignIn(String),
}

impl Access {
    /// Admits clients with one of the tokens, or all if there is none. `hosts` are accepted besides addresses,
    /// `localhost` and the name of this host.
    pub fn new(tokens: Option<Bearers>, mut hosts: Vec<String>, is_tls: bool) -> Self {
        hosts.push("localhost".into());
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim();
        if !name.is_empty() {
            hosts.push(name.into());
            hosts.extend(name.split('.').next().map(Into::into));
        }
        Self {
            tokens,
            hosts,
            is_tls,
            page: None,
        }
    }

    /// Requires browsers to sign in, with a one-time token after `url`.
    pub(super) fn sign_in(&mut self, url: String, say: Say) -> io::Result<()> {
        // Cookies are not separated by port: the name separates pages of one host.
        let cookie = format!("hopbyte-{}", &token()?[..8]);
        self.page = Some(Page {
            url,
            once: Mutex::new(token()?),
            cookie,
            session: token()?,
            say,
        });
        Ok(())
    }

    /// Address of the page with its one-time token.
    pub fn page(&self) -> Option<String> {
        let page = self.page.as_ref()?;
        let once = page.once.lock().unwrap_or_else(PoisonError::into_inner);
        Some(format!("{}?token={once}", page.url))
    }

    /// Checks a request's head.
    ///
    /// # Errors
    /// The answer that refuses the request.
    pub fn admit(&self, head: &Parts) -> Result<Entry, Answer> {
        let host = self.host(head)?;
        origin(head, host, self.is_tls)?;
        // Names of schemes are case-insensitive (RFC 9110, 11.1).
        let shown = text(head, &AUTHORIZATION).and_then(|v| v.split_once(' '));
        if shown.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && self.knows(token)
        }) {
            return Ok(Entry::Answer);
        }
        let Some(page) = &self.page else {
            if self.tokens.is_none() {
                return Ok(Entry::Answer);
            }
            return Err(Answer::words(
                401,
                "missing or wrong token, expected Authorization: Bearer TOKEN",
            ));
        };
        let query = head.uri.query().unwrap_or_default();
        if let Some(shown) = value(query, "token")
            && page.take(shown)?
        {
            return Ok(Entry::SignIn(page.set_cookie(self.is_tls)));
        }
        let mut cookies = head.headers.get_all(COOKIE).iter();
        let mut cookies = cookies.by_ref().filter_map(|c| c.to_str().ok());
        let signed_in = cookies.any(|c| c.split(';').any(|one| page.signed(one.trim())));
        if signed_in {
            return Ok(Entry::Answer);
        }
        let text = "missing, wrong or used token: open the address that hopbyte printed last";
        Err(Answer::words(403, text))
    }

    fn knows(&self, shown: &str) -> bool {
        let Some(tokens) = &self.tokens else {
            return false;
        };
        let present = tokens.get();
        if let Some(text) = tokens.news() {
            eprintln!("hopbyte: {text}");
        }
        let equal = present.iter().map(|token| same(shown, token));
        // No early end: the time must not tell which token was nearly right.
        equal.fold(false, |any, one| any | one)
    }

    /// The header `Host`, if it names this server. A foreign name that resolves to this address would let a web
    /// page read answers as its own.
    fn host<'a>(&self, head: &'a Parts) -> Result<&'a str, Answer> {
        let mut all = head.headers.get_all(HOST).iter();
        let (Some(host), None) = (all.next().and_then(|h| h.to_str().ok()), all.next()) else {
            return Err(Answer::words(400, "expected one Host header"));
        };
        let asked = head
            .uri
            .authority()
            .map(hyper::http::uri::Authority::as_str);
        for name in std::iter::once(host).chain(asked) {
            let name = without_port(name);
            let bare = name.trim_start_matches('[').trim_end_matches(']');
            let known = bare.parse::<IpAddr>().is_ok()
                || self.hosts.iter().any(|h| h.eq_ignore_ascii_case(name));
            if !known {
                let shown: String = name.chars().take(64).collect();
                let text =
                    format!("found Host {shown:?}, which is not this server's name (--allow-host)");
                return Err(Answer::words(421, &text));
            }
        }
        Ok(host)
    }
}

impl Page {
    /// Whether this is the one-time token, which then changes.
    fn take(&self, shown: &str) -> Result<bool, Answer> {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        if !same(shown, &once) {
            return Ok(false);
        }
        *once = token().map_err(|_| Answer::words(500, "no randomness for a token"))?;
        (self.say)(&format!("{}?token={once}", self.url));
        Ok(true)
    }

    fn signed(&self, cookie: &str) -> bool {
        let (name, value) = cookie.split_once('=').unwrap_or_default();
        name == self.cookie && same(value, &self.session)
    }

    fn set_cookie(&self, is_tls: bool) -> String {
        let secure = if is_tls { "; Secure" } else { "" };
        format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict{secure}",
            self.cookie, self.session
        )
    }
}

/// Refuses requests that another site's page makes a browser send.
fn origin(head: &Parts, host: &str, is_tls: bool) -> Result<(), Answer> {
    let scheme = if is_tls { "https://" } else { "http://" };
    let own = |origin: &str| {
        let rest = origin.strip_prefix(scheme);
        rest.is_some_and(|o| o.eq_ignore_ascii_case(host))
    };
    let origins = head.headers.get_all(ORIGIN).iter();
    let foreign = origins
        .map(|o| o.to_str().unwrap_or_default())
        .any(|o| !own(o));
    let site = text(head, &HeaderName::from_static("sec-fetch-site"));
    if foreign || site.is_some_and(|s| s != "same-origin" && s != "none") {
        return Err(Answer::words(403, "a request of another site's page"));
    }
    Ok(())
}

fn text<'a>(head: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    head.headers.get(name)?.to_str().ok()
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => authority,
    }
}

/// The value of a query parameter.
pub fn value<'a>(query: &'a str, key: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(name, value)| (name == key).then_some(value))
}

/// Constant-time comparison.
fn same(shown: &str, token: &str) -> bool {
    let (shown, token) = (shown.as_bytes(), token.as_bytes());
    let differing = shown.iter().zip(token).fold(0, |d, (a, b)| d | (a ^ b));
    shown.len() == token.len() && differing == 0
}

/// A random token: 128 bits from the operating system.
///
/// # Errors
/// No randomness.
pub fn token() -> io::Result<String> {
    use std::io::Read;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn head(target: &str, headers: &[(&str, &str)]) -> Parts {
        let builder = Request::builder().uri(target);
        let all = headers
            .iter()
            .fold(builder, |b, (name, value)| b.header(*name, *value));
        all.body(()).unwrap().into_parts().0
    }

    fn admitted(access: &Access, target: &str, headers: &[(&str, &str)]) -> Result<Entry, u16> {
        access.admit(&head(target, headers)).map_err(|a| a.status)
    }

    fn fixed(tokens: &[&str]) -> Option<Bearers> {
        let tokens = tokens.iter().map(|&t| t.into()).collect();
        Some(Arc::new(Renewed::fixed(tokens)))
    }

    const OWN: (&str, &str) = ("host", "127.0.0.1:9667");

    #[test]
    fn only_clients_with_a_token_are_admitted() {
        let access = Access::new(fixed(&["first-secret", "second"]), vec![], false);
        for token in ["first-secret", "second"] {
            let bearer = format!("Bearer {token}");
            let headers = [OWN, ("authorization", bearer.as_str())];
            assert_eq!(admitted(&access, "/metrics", &headers), Ok(Entry::Answer));
        }
        for wrong in [
            "",
            "Bearer ",
            "Bearer secon",
            "Bearer seconds",
            "Basic second",
        ] {
            let headers = [OWN, ("authorization", wrong)];
            assert_eq!(admitted(&access, "/metrics", &headers), Err(401), "{wrong}");
        }
        // A token in the address would stay in logs and histories.
        assert_eq!(admitted(&access, "/metrics?token=second", &[OWN]), Err(401));
        assert_eq!(
            admitted(&access, "/metrics", &[OWN, ("cookie", "hopbyte=second")]),
            Err(401)
        );
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let access = Access::new(None, vec!["monitor.site".into()], false);
        let good: [&[(&str, &str)]; 6] = [
            &[OWN],
            &[("host", "[::1]:80")],
            &[("host", "LOCALHOST:80"), ("sec-fetch-site", "none")],
            &[("host", "monitor.site")],
            &[OWN, ("origin", "http://127.0.0.1:9667")],
            &[
                OWN,
                ("origin", "http://127.0.0.1:9667"),
                ("sec-fetch-site", "same-origin"),
            ],
        ];
        for headers in good {
            assert_eq!(
                admitted(&access, "/write", headers),
                Ok(Entry::Answer),
                "{headers:?}"
            );
        }
        let bad: [(&[(&str, &str)], u16); 11] = [
            (&[], 400),
            (&[OWN, ("host", "127.0.0.1")], 400),
            // A foreign name that resolves to this address.
            (&[("host", "rebound.example:9667")], 421),
            (&[("host", "127.0.0.1.example")], 421),
            (&[("host", "localhost.example")], 421),
            (&[("host", "")], 421),
            (&[OWN, ("origin", "http://evil.example")], 403),
            (&[OWN, ("origin", "null")], 403),
            (&[OWN, ("origin", "https://127.0.0.1:9667")], 403),
            (&[OWN, ("origin", "http://127.0.0.1:80")], 403),
            (&[OWN, ("sec-fetch-site", "cross-site")], 403),
        ];
        for (headers, status) in bad {
            assert_eq!(
                admitted(&access, "/write", headers),
                Err(status),
                "{headers:?}"
            );
        }
        let absolute = "http://rebound.example/write";
        assert_eq!(admitted(&access, absolute, &[OWN]), Err(421));
    }

    #[test]
    fn the_token_of_a_page_works_once_and_becomes_a_cookie() {
        let mut access = Access::new(None, vec![], true);
        access
            .sign_in("https://127.0.0.1:1/".into(), Box::new(|_| {}))
            .unwrap();
        let target = |access: &Access| access.page().unwrap().replace("https://127.0.0.1:1", "");
        let first = target(&access);
        assert_eq!(admitted(&access, "/", &[OWN]), Err(403));
        assert_eq!(admitted(&access, "/?token=", &[OWN]), Err(403));
        let Ok(Entry::SignIn(cookie)) = admitted(&access, &first, &[OWN]) else {
            panic!("no sign-in");
        };
        assert!(
            cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"),
            "{cookie}"
        );
        assert_eq!(admitted(&access, &first, &[OWN]), Err(403), "used");
        assert_ne!(target(&access), first);
        let pair = cookie.split(';').next().unwrap();
        let cookies = format!("a=b; {pair}");
        assert_eq!(
            admitted(&access, "/state", &[OWN, ("cookie", &cookies)]),
            Ok(Entry::Answer)
        );
        let wrong = pair.replace('=', "=0");
        assert_eq!(
            admitted(&access, "/state", &[OWN, ("cookie", &wrong)]),
            Err(403)
        );
        assert!(
            !first.contains(pair.split_once('=').unwrap().1),
            "the cookie is another secret"
        );
    }

    #[test]
    fn tokens_differ_and_are_long() {
        let (a, b) = (token().unwrap(), token().unwrap());
        assert_eq!(a.len(), 32);
        assert_ne!(a, b);
    }
}

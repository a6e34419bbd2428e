//! Options of HTTP servers: beyond this machine they need tokens of their own.

use crate::error::{Result, ServeError};
use crate::http::Setup;
use hopbyte_collect::tls::Identity;
use hopbyte_collect::wire::Token;
use hopbyte_fabric::InputError;
use hopbyte_job::Lacking;
use hopbyte_observe::secret;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// Common parts of the HTTP servers of a process.
pub struct Doors<'a> {
    /// File with the secret of the cluster, which no token may be.
    pub cluster: Option<&'a Path>,
    /// Further names of the server.
    pub hosts: &'a [String],
    /// Certificate; without one connections are not encrypted.
    pub identity: Option<Identity>,
    /// Whether addresses of this machine are not encrypted either way.
    pub plain_within: bool,
}

impl Doors<'_> {
    /// Parameters of a server: its option and address, and the option with the file of its tokens. `warn` hears of
    /// tokens that are not encrypted.
    ///
    /// # Errors
    /// An address that others reach without tokens, or an unsuitable file of tokens.
    pub fn setup(
        &self,
        (option, address): (&str, SocketAddr),
        (named, file): (&str, Option<&Path>),
        warn: &mut dyn FnMut(String),
    ) -> Result<Setup> {
        let outside = !address.ip().is_loopback();
        let tokens = match file {
            Some(file) => bearers(named, file, self.cluster)?,
            None if outside => {
                let found = format!("{address}, which others can reach");
                let expected = format!("{named} FILE as well");
                let hint =
                    "a file with at least 16 random characters, another one than that of --token";
                return Err(InputError::new(option, found, expected).hint(hint).into());
            }
            None => Vec::new(),
        };
        if outside && self.identity.is_none() {
            warn(format!(
                "{option} {address}: tokens and figures are not encrypted (--tls-cert FILE --tls-key FILE)"
            ));
        }
        let encrypts = outside || !self.plain_within;
        Ok(Setup {
            address,
            tokens,
            hosts: self.hosts.to_vec(),
            identity: self.identity.clone().filter(|_| encrypts),
        })
    }
}

/// The tokens in a file, none of which is the secret of the cluster.
fn bearers(option: &str, file: &Path, cluster: Option<&Path>) -> Result<Vec<String>> {
    let tokens = secret::bearers(file)?;
    if let Some(cluster) = cluster {
        let cluster = secret::read(cluster)?;
        if tokens.iter().any(|t| t.as_bytes() == cluster.trim_ascii()) {
            let found = "the secret of --token, which admits agents";
            return Err(InputError::new(option, found, "another one").into());
        }
    }
    Ok(tokens)
}

/// An address in use or not ours is an error of the environment, not of the command line.
pub fn unavailable(error: &io::Error) -> ServeError {
    match error.kind() {
        io::ErrorKind::InvalidInput => io::Error::new(error.kind(), error.to_string()).into(),
        _ => Lacking(error.to_string()).into(),
    }
}

/// Secrets of viewers: those of a file of bearer tokens.
///
/// # Errors
/// An unsuitable file.
pub fn readers(file: Option<&Path>, cluster: Option<&Path>) -> Result<Vec<Token>> {
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    let tokens = bearers("--read-token", file, cluster)?;
    let tokens = tokens.iter().map(|t| Token::new(t.as_bytes()));
    tokens
        .collect::<Result<_, _>>()
        .map_err(|refusal| InputError::new("--read-token", refusal.to_string(), "tokens").into())
}

//! Options of HTTP servers: beyond this machine they need tokens of their own.

use crate::error::{Result, ServeError};
use crate::http::{Bearers, Setup};
use hopbyte_collect::renewed::Renewed;
use hopbyte_collect::tls::Identity;
use hopbyte_collect::wire::{Readers, Token};
use hopbyte_fabric::InputError;
use hopbyte_job::Lacking;
use hopbyte_observe::secret;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Common parts of the HTTP servers of a process.
#[derive(Default)]
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
            Some(file) => Some(self.bearers(named, file)?),
            None if outside => {
                let found = format!("{address}, which others can reach");
                let expected = format!("{named} FILE as well");
                let hint =
                    "a file with at least 16 random characters, another one than that of --token";
                return Err(InputError::new(option, found, expected).hint(hint).into());
            }
            None => None,
        };
        if outside && self.identity.is_none() {
            warn(format!(
                "{option} {address}: tokens and figures are not encrypted (--tls-cert FILE --tls-key FILE)"
            ));
        }
        let encrypts = outside || !self.plain_within;
        // A collector, which is plain within this machine, warns of its certificate itself.
        let own = self.identity.as_ref().filter(|_| !self.plain_within);
        if let Some(why) = own.and_then(Identity::untimely) {
            warn(why);
        }
        Ok(Setup {
            address,
            tokens,
            hosts: self.hosts.to_vec(),
            identity: self.identity.clone().filter(|_| encrypts),
        })
    }

    fn bearers(&self, option: &str, file: &Path) -> Result<Bearers> {
        let option = option.to_owned();
        renewed(file, self.cluster, move |files| bearers(&option, files))
    }
}

/// What `load` makes of a file of tokens and the secret of the cluster, read again when one of them changes.
fn renewed<T>(
    file: &Path,
    cluster: Option<&Path>,
    load: impl Fn(&[PathBuf]) -> io::Result<T> + Send + Sync + 'static,
) -> Result<Arc<Renewed<T>>> {
    let files: Vec<&Path> = std::iter::once(file).chain(cluster).collect();
    Ok(Arc::new(Renewed::read(&files, load)?))
}

fn refused(option: &str, found: impl AsRef<str>, expected: &str) -> io::Error {
    let error = InputError::new(option, found, expected);
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// The tokens in the first file, none of which is the secret of the cluster in the second.
fn bearers(option: &str, files: &[PathBuf]) -> io::Result<Vec<String>> {
    let tokens = secret::bearers(&files[0])?;
    if let Some(cluster) = files.get(1) {
        let cluster = secret::read(cluster)?;
        if tokens.iter().any(|t| t.as_bytes() == cluster.trim_ascii()) {
            let found = "the secret of --token, which admits agents";
            return Err(refused(option, found, "another one"));
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
pub fn readers(file: Option<&Path>, cluster: Option<&Path>) -> Result<Option<Readers>> {
    let Some(file) = file else {
        return Ok(None);
    };
    let load = |files: &[PathBuf]| {
        let tokens = bearers("--read-token", files)?;
        let tokens = tokens.iter().map(|t| Token::new(t.as_bytes()));
        let tokens: Result<Vec<Token>, _> = tokens.collect();
        tokens.map_err(|refusal| refused("--read-token", refusal.to_string(), "tokens"))
    };
    renewed(file, cluster, load).map(Some)
}

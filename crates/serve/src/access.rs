//! Access to a collector or oracle: the files of a token and of certificates.

use crate::error::Result;
use hopbyte_collect::stream::Stream;
use hopbyte_collect::tls::Trust;
use hopbyte_collect::wire::Token;
use hopbyte_fabric::InputError;
use std::io;
use std::path::Path;

/// How to be admitted by a collector.
#[derive(Default)]
pub struct Access {
    /// Its secret.
    pub token: Option<Token>,
    /// Trusted certificates.
    pub trust: Option<Trust>,
}

impl Access {
    /// From a file with the secret, or with a read token, and one of certificates.
    pub fn read(secret: Option<&Path>, certificates: Option<&Path>) -> Result<Self> {
        Ok(Self {
            token: secret.map(Token::read).transpose()?,
            trust: certificates.map(Trust::read).transpose()?,
        })
    }

    /// The ticks of a collector from now on.
    pub fn connect(&self, address: &str) -> io::Result<Stream> {
        Stream::connect(address, self.token.as_ref(), self.trust.as_ref())
    }
}

/// Refuses a token and certificates that nothing takes.
///
/// # Errors
/// One of them is given.
pub fn unused(token: Option<&Path>, tls_ca: Option<&Path>) -> Result<(), InputError> {
    for (option, given, taker) in [
        ("--token", token, "a collector (HOST:PORT) or an oracle"),
        ("--tls-ca", tls_ca, "a collector (HOST:PORT)"),
    ] {
        if let Some(file) = given {
            let expected = format!("{taker} that takes it");
            let error = InputError::new(option, file.display().to_string(), expected);
            return Err(error.hint("leave the option out, or name the source that needs it"));
        }
    }
    Ok(())
}

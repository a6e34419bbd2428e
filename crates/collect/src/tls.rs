//! Connections as they are, or within TLS 1.3.
//!
//! The token proves who may talk; TLS keeps what they say from others on the way, and tells an agent that
//! it talks to its collector. Nobody is asked for a certificate but the collector.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig,
    ServerConnection, StreamOwned,
};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

/// How a TLS end that does not understand says so; no frame is of its kind.
pub const TLS_ALERT: [u8; 5] = [0x15, 3, 3, 0, 2];

/// A connection.
pub enum Wire {
    /// As it is.
    Plain(TcpStream),
    /// The collector's end.
    Collector(Box<StreamOwned<ServerConnection, TcpStream>>),
    /// The other end.
    Guest(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Collector(tls) => &tls.sock,
            Self::Guest(tls) => &tls.sock,
        }
    }

    /// Whether bytes may wait in our memory although the socket is empty.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Whether it waits for room in the socket, when the caller `has_more` to write: within a handshake
    /// only what the handshake says next counts.
    pub fn waits_for_room(&self, has_more: bool) -> bool {
        match self {
            Self::Plain(_) => has_more,
            Self::Collector(tls) => waits_for_room(&tls.conn, has_more),
            Self::Guest(tls) => waits_for_room(&tls.conn, has_more),
        }
    }
}

fn waits_for_room<Side>(tls: &ConnectionCommon<Side>, has_more: bool) -> bool {
    tls.wants_write() || (has_more && !tls.is_handshaking())
}

impl Read for Wire {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(room),
            Self::Collector(tls) => tls.read(room),
            Self::Guest(tls) => tls.read(room),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Collector(tls) => tls.write(bytes),
            Self::Guest(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Collector(tls) => tls.flush(),
            Self::Guest(tls) => tls.flush(),
        }
    }
}

/// Appends what waits at a stream in non-blocking mode, at most a `room` full of it; `None`: nothing at the
/// moment, or not connected yet; zero: the other end closed it.
pub fn receive(
    stream: &mut impl Read,
    room: &mut [u8],
    came: &mut Vec<u8>,
) -> io::Result<Option<usize>> {
    loop {
        match stream.read(room) {
            Ok(n) => {
                came.extend_from_slice(&room[..n]);
                return Ok(Some(n));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if is_for_later(&e) => return Ok(None),
            Err(e) => return Err(e),
        }
    }
}

/// Writes what fits into a stream in non-blocking mode; the rest stays in `goes`.
pub fn send(stream: &mut impl Write, goes: &mut Vec<u8>) -> io::Result<()> {
    let mut done = 0;
    let sent = loop {
        if done == goes.len() {
            break stream.flush();
        }
        match stream.write(&goes[done..]) {
            Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => break Err(e),
        }
    };
    goes.drain(..done);
    match sent {
        Err(e) if is_for_later(&e) => Ok(()),
        sent => sent,
    }
}

/// Whether a stream cannot at the moment, or is not connected yet.
fn is_for_later(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.kind() == io::ErrorKind::NotConnected
}

/// A collector's certificate.
#[derive(Clone)]
pub struct Identity(Arc<ServerConfig>);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    /// From a chain of certificates and the key of the first, PEM.
    pub fn read(certificates: &Path, key: &Path) -> io::Result<Self> {
        let chain = read_certificates(certificates)?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(key, "a key", &e))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|e| wrong(certificates, "a certificate of that key", &e))?;
        Ok(Self(Arc::new(config)))
    }

    /// The collector's end of a connection.
    pub fn accept(&self, socket: TcpStream) -> io::Result<Wire> {
        let connection = ServerConnection::new(self.0.clone()).map_err(io::Error::other)?;
        let tls = StreamOwned::new(connection, socket);
        Ok(Wire::Collector(Box::new(tls)))
    }
}

/// Whose certificates are believed.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// In those that certificates of a file vouch for, PEM: an authority's, or the collector's own.
    pub fn read(certificates: &Path) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in read_certificates(certificates)? {
            let added = roots.add(certificate);
            added.map_err(|e| wrong(certificates, "certificates of an authority", &e))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// Our end of a connection to `HOST:PORT`, whose certificate must be of that host.
    pub fn connect(&self, address: &str, socket: TcpStream) -> io::Result<Wire> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("{host}: {e}")))?;
        let connection = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        let tls = StreamOwned::new(connection, socket);
        Ok(Wire::Guest(Box::new(tls)))
    }
}

fn read_certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let expected = "certificates, PEM";
    let all = CertificateDer::pem_file_iter(file).map_err(|e| wrong(file, expected, &e))?;
    let all: Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|e| wrong(file, expected, &e))?;
    if all.is_empty() {
        return Err(wrong(file, expected, &"none"));
    }
    Ok(all)
}

fn wrong(file: &Path, expected: &str, found: &dyn fmt::Display) -> io::Error {
    let text = format!("{}: found {found}, expected {expected}", file.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

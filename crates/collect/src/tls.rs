//! Connections in plain TCP or TLS 1.3.
//!
//! The token authenticates agents and viewers. TLS encrypts the connection and authenticates the
//! collector, the only side with a certificate.

use crate::renewed::Renewed;
use hopbyte_observe::secret::check_mode;
use hopbyte_observe::text::open;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, ConnectionCommon, DigitallySignedStruct,
    RootCertStore, ServerConfig, ServerConnection, SignatureScheme, StreamOwned,
};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum length of a file of certificates: those of all authorities of a distribution take 200 kB.
const LONGEST: u64 = 4 << 20;

/// TLS alert that a TLS peer sends on unintelligible input; no frame kind has this first byte.
pub const TLS_ALERT: [u8; 5] = [0x15, 3, 3, 0, 2];

/// What is said of a collector that ends a connection before it said anything.
pub const UNANSWERED: &str =
    "the collector closed the connection without an answer; does it require TLS (--tls-ca FILE)?";

/// A connection.
pub enum Wire {
    /// Plain TCP.
    Plain(TcpStream),
    /// The collector's end.
    Collector(Box<StreamOwned<ServerConnection, TcpStream>>),
    /// The agent's or viewer's end.
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

    /// Whether the socket is unencrypted. A TLS connection may hold received bytes while its socket is empty.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Whether the connection waits for write space in the socket when the caller `has_more` to write.
    /// During a handshake only the handshake's own pending bytes count.
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

/// Appends the bytes available from a non-blocking stream, at most `room.len()`. `None`: no bytes available,
/// or not connected yet; zero: closed by the peer.
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

/// Writes as many bytes as a non-blocking stream accepts; the rest stays in `goes`.
pub fn send(stream: &mut impl Write, goes: &mut Vec<u8>) -> io::Result<()> {
    let done = send_part(stream, goes)?;
    goes.drain(..done);
    Ok(())
}

/// Writes as many bytes as a non-blocking stream accepts; returns their number.
pub fn send_part(stream: &mut impl Write, goes: &[u8]) -> io::Result<usize> {
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
    match sent {
        Err(e) if !is_for_later(&e) => Err(e),
        _ => Ok(done),
    }
}

/// Whether the operation would block, or the stream is not connected yet.
fn is_for_later(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.kind() == io::ErrorKind::NotConnected
}

/// A collector's certificate. A renewed one is used for the handshakes that follow.
#[derive(Clone)]
pub struct Identity {
    config: Arc<ServerConfig>,
    certificate: Arc<Certificate>,
}

#[derive(Debug)]
struct Certificate(Renewed<CertifiedKey>);

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.get())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    /// Reads a certificate chain and the key of its first certificate, PEM.
    pub fn read(certificates: &Path, key: &Path) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let signing = provider.clone();
        let load = move |files: &[PathBuf]| certified(&files[0], &files[1], &signing);
        let certificate = Arc::new(Certificate(Renewed::read(&[certificates, key], load)?));
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        Ok(Self {
            config: Arc::new(config),
            certificate,
        })
    }

    /// A sentence about a renewed certificate, once.
    pub fn news(&self) -> Option<String> {
        self.certificate.0.news()
    }

    /// A sentence about a chain with a certificate that is expired or not valid yet.
    pub fn untimely(&self) -> Option<String> {
        let file = self.certificate.0.files().first()?.display();
        let why = self.why_untimely()?;
        Some(format!("{file}: the certificate {why}: clients refuse it"))
    }

    fn why_untimely(&self) -> Option<&'static str> {
        let held = self.certificate.0.get();
        let chain = &held.cert;
        let (first, others) = chain.split_first()?;
        let mut roots = RootCertStore::empty();
        roots.add(chain.last()?.clone()).ok()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
        let name = ServerName::try_from("localhost").ok()?;
        let now = UnixTime::now();
        // Times are checked before issuer and name.
        let verified = verifier
            .build()
            .ok()?
            .verify_server_cert(first, others, &name, &[], now);
        let Err(rustls::Error::InvalidCertificate(why)) = verified else {
            return None;
        };
        match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                Some("has expired")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Some("is not valid yet")
            }
            _ => None,
        }
    }

    /// The configuration, for servers with other sockets.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// The collector's end of a connection.
    pub fn accept(&self, socket: TcpStream) -> io::Result<Wire> {
        let connection = ServerConnection::new(self.config.clone()).map_err(io::Error::other)?;
        let tls = StreamOwned::new(connection, socket);
        Ok(Wire::Collector(Box::new(tls)))
    }
}

/// Reads a certificate chain and the key of its first certificate.
fn certified(
    certificates: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> io::Result<CertifiedKey> {
    let chain = read_certificates(certificates)?;
    let (opened, text) = read(key)?;
    let secret = PrivateKeyDer::from_pem_slice(&text).map_err(|e| wrong(key, "a key", &e))?;
    check_mode(key, &opened)?;
    CertifiedKey::from_der(chain, secret, provider)
        .map_err(|e| wrong(certificates, "a certificate of that key", &e))
}

/// Trusted certificates. Those of a changed file are used for the connections that follow.
#[derive(Clone)]
pub struct Trust(Arc<Renewed<Arc<ClientConfig>>>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// Reads trusted certificates from a PEM file: an authority's, or the collector's own.
    pub fn read(certificates: &Path) -> io::Result<Self> {
        let load = |files: &[PathBuf]| trusting(&files[0]);
        Ok(Self(Arc::new(Renewed::read(&[certificates], load)?)))
    }

    /// A sentence about changed certificates, once.
    pub fn news(&self) -> Option<String> {
        self.0.news()
    }

    /// The client's end of a connection to `HOST:PORT`; the certificate must be valid for that host.
    pub fn connect(&self, address: &str, socket: TcpStream) -> io::Result<Wire> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("{host}: {e}")))?;
        let connection =
            ClientConnection::new(self.0.get().as_ref().clone(), name).map_err(io::Error::other)?;
        let tls = StreamOwned::new(connection, socket);
        Ok(Wire::Guest(Box::new(tls)))
    }
}

fn trusting(certificates: &Path) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let own = read_certificates(certificates)?;
    for certificate in &own {
        let added = roots.add(certificate.clone());
        added.map_err(|e| wrong(certificates, "certificates of an authority", &e))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone());
    let verifier = verifier.build().map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { verifier, own }))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Verifies a server by authorities, and accepts a trusted certificate itself though it is marked as an authority's, as
/// `openssl req -x509` makes it. Its time and name are checked as always.
#[derive(Debug)]
struct Pinned {
    verifier: Arc<WebPkiServerVerifier>,
    own: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        let own = self.own.iter().any(|c| c.as_ref() == end_entity.as_ref());
        match verified {
            // The time was checked before the mark of an authority.
            Err(error) if is_authority(&error) && own => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        (self.verifier).verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        (self.verifier).verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Whether a certificate was refused only because it is marked as an authority's.
fn is_authority(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(why)) = error else {
        return false;
    };
    why.to_string() == "CaUsedAsEndEntity"
}

fn read_certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let expected = "certificates, PEM";
    let (_, text) = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|e| wrong(file, expected, &e))?;
    if all.is_empty() {
        return Err(wrong(file, expected, &"none"));
    }
    Ok(all)
}

/// The bytes of a regular file of at most [`LONGEST`] bytes, and the file.
fn read(file: &Path) -> io::Result<(File, Vec<u8>)> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", file.display()));
    let opened = open(file).map_err(named)?;
    let mut text = Vec::new();
    (&opened)
        .take(LONGEST + 1)
        .read_to_end(&mut text)
        .map_err(named)?;
    if text.len() as u64 > LONGEST {
        let found = format!("more than {LONGEST} bytes");
        return Err(wrong(file, "certificates or a key, PEM", &found));
    }
    Ok((opened, text))
}

fn wrong(file: &Path, expected: &str, found: &dyn fmt::Display) -> io::Error {
    let text = format!("{}: found {found}, expected {expected}", file.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

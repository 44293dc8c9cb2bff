//! Certificates and keys, from PEM files.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme};
use thiserror::Error;

/// The protocol that both sides name in the handshake (RFC 9289 §8.2).
pub(crate) const ALPN: &[u8] = b"sunrpc";

/// Files in which systems keep the authorities that they trust: Debian, Red Hat, SUSE.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// Why keys cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or has no such part.
    #[error("{path}: no {what} can be read there ({why}); name a PEM file that has one")]
    File {
        /// Its path.
        path: String,
        /// The part that was searched.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// No authorities are known on this machine.
    #[error("no certificate authorities are installed here (package ca-certificates); name the server's with ca=FILE")]
    NoAuthorities,
    /// The host is neither a name nor an address.
    #[error("{0} is not a name that a certificate can have")]
    Name(String),
    /// rustls refuses the keys.
    #[error("the certificate or its key cannot be used: {0}")]
    Keys(#[from] Error),
}

/// The keys of a client, and whom it trusts.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientKeys<'a> {
    /// File with the authorities that are trusted; `None`: those of the system.
    pub ca: Option<&'a Path>,
    /// File with a certificate and its key, for servers that ask for one.
    pub certificate: Option<&'a Path>,
    /// Any certificate of the server is accepted: the connection is encrypted, but the server is not known.
    pub insecure: bool,
}

/// TLS towards one server.
#[derive(Debug)]
pub struct ClientTls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl ClientTls {
    /// Reads the keys. The server's certificate must be for `host`, a name or an address.
    pub fn new(keys: &ClientKeys<'_>, host: &str) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let builder = if keys.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
        } else {
            builder.with_root_certificates(authorities(keys.ca)?)
        };
        let mut config = match keys.certificate {
            Some(path) => builder.with_client_auth_cert(certificates(path)?, key(path)?)?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = match host.parse::<IpAddr>() {
            Ok(address) => ServerName::IpAddress(address.into()),
            Err(_) => ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))?,
        };
        Ok(Self { config: Arc::new(config), name })
    }
}

/// TLS of a server.
#[derive(Debug, Clone)]
pub struct ServerTls(pub(crate) Arc<ServerConfig>);

impl ServerTls {
    /// Reads the certificate, with those of its authorities, and its key. Both may be in one file. With a file of authorities for `clients`,
    /// each client must show a certificate that one of them has signed.
    pub fn new(certificate: &Path, key_file: &Path, clients: Option<&Path>) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let builder = match clients {
            Some(path) => {
                let trusted = Arc::new(authorities(Some(path))?);
                let verifier = WebPkiClientVerifier::builder_with_provider(trusted, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| Error::General(error.to_string()))?)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(certificates(certificate)?, key(key_file)?)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A client connects once for a long time: tickets would save it nothing.
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let system = || SYSTEM_AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists());
    let path = file.or_else(system).ok_or(TlsError::NoAuthorities)?;
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates(path)?);
    if added == 0 { Err(unreadable(path, "certificate", "none can be used")) } else { Ok(store) }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| unreadable(path, "certificate", &error.to_string()))?;
    if found.is_empty() { Err(unreadable(path, "certificate", "it has none")) } else { Ok(found) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable(path, "private key", &error.to_string()))
}

fn unreadable(path: &Path, what: &'static str, why: &str) -> TlsError {
    TlsError::File { path: path.display().to_string(), what, why: why.to_owned() }
}

/// Accepts every server that holds the key of the certificate it shows.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

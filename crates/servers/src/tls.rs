//! TLS to a server, verified as an address asks for it.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error as RustlsError, RootCertStore,
    SignatureScheme,
};

use crate::error::Error;

/// A new connection to `host`. With an authority's file its certificate must be of that name, and signed by one of
/// those in the file; without, any will do.
pub(crate) fn connect(host: &str, authority: Option<&Path>) -> Result<ClientConnection, Error> {
    let failed = |error: RustlsError| Error::Tls(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match authority {
        Some(path) => verified(path, &provider)?,
        None => Arc::new(AnyServer { provider: Arc::clone(&provider) }),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::Tls(format!("{host} is no name that a certificate can be of")))?;
    ClientConnection::new(Arc::new(config), name).map_err(failed)
}

fn verified(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let of_file = |error: String| Error::Tls(format!("could not use {}: {error}", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| of_file(error.to_string()))? {
        let certificate = certificate.map_err(|error| of_file(error.to_string()))?;
        roots.add(certificate).map_err(|error| of_file(error.to_string()))?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| of_file(error.to_string()))
}

/// Takes any certificate: what is sent is kept from others, but nobody knows who the server is.
#[derive(Debug)]
struct AnyServer {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

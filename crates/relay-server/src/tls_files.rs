//! Certificates and keys of a relay: from the user, or created by the relay at its first start, as mysqld does.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logs::{FileAccess, open_regular, replace_file};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use wire::PasswordKey;

use crate::error::RelayServerError;

/// Files with the certificate of a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain (PEM); `None` for a certificate that the relay creates at its first start.
    pub certificate: Option<PathBuf>,
    /// Private key (PEM); `None` if the certificate's file contains it.
    pub key: Option<PathBuf>,
    /// Authorities of client certificates (PEM); `None` to request no client certificates.
    pub client_ca: Option<PathBuf>,
}

/// Name of the relay's own certificate, as in mysqld.
const CERTIFICATE_NAME: &str = "server-cert.pem";
/// Name of the certificate's key.
const KEY_NAME: &str = "server-key.pem";
/// Name of the authority's certificate, for clients.
const CA_NAME: &str = "ca.pem";
/// Name of the RSA key for clients without TLS.
const PASSWORD_KEY_NAME: &str = "private_key.pem";
/// Names in the relay's own certificate. A client that verifies another name needs a given certificate.
const CERTIFICATE_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

impl TlsFiles {
    /// Reads the files, or creates a certificate in the state directory.
    pub(crate) fn load(&self, state: &Path) -> Result<Arc<ServerConfig>, RelayServerError> {
        let (certificate, key) = match &self.certificate {
            Some(certificate) => (certificate.clone(), self.key.clone().unwrap_or(certificate.clone())),
            None => {
                let (certificate, key) = (state.join(CERTIFICATE_NAME), state.join(KEY_NAME));
                if !(certificate.exists() && key.exists()) {
                    make_certificate(state)?;
                }
                (certificate, key)
            }
        };
        let chain = read_certificates(&certificate)?;
        let key = PrivateKeyDer::from_pem_file(&key).map_err(|error| match error {
            pem::Error::NoItemsFound => unusable(&key)("it contains no private key (PEM)"),
            error => unusable(&key)(error),
        })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable(&certificate))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in read_certificates(path)? {
                    roots.add(certificate).map_err(unusable(path))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(unusable(path))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        builder.with_single_cert(chain, key).map(Arc::new).map_err(unusable(&certificate))
    }
}

/// Reads the RSA key of the state directory, or creates a key.
pub(crate) fn load_password_key(state: &Path) -> Result<PasswordKey, RelayServerError> {
    let path = state.join(PASSWORD_KEY_NAME);
    let unusable = |cause| RelayServerError::PasswordKey { path: path.clone(), cause };
    if path.exists() {
        let text = open_regular(&path)
            .and_then(io::read_to_string)
            .map_err(|cause| RelayServerError::State { verb: "read", path: path.clone(), cause })?;
        return PasswordKey::from_pem(&text).map_err(unusable);
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let key = PasswordKey::generate(seed).map_err(unusable)?;
    write_new(&path, &key.private_pem().map_err(unusable)?)?;
    Ok(key)
}

/// Creates the state directory, with access for the owner only, and its missing parents.
pub(crate) fn make_state_directory(directory: &Path) -> Result<(), RelayServerError> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|cause| {
        let (verb, path) = ("create the directory", directory.to_owned());
        RelayServerError::State { verb, path, cause }
    })
}

/// Creates an authority, and a certificate signed by it. Discards the authority's key.
fn make_certificate(state: &Path) -> Result<(), RelayServerError> {
    let failed = |error: rcgen::Error| RelayServerError::NewCertificate { reason: error.to_string() };
    let named = |params: &mut CertificateParams, name: &str| {
        params.distinguished_name.push(DnType::CommonName, name);
    };
    let mut authority = CertificateParams::new(Vec::new()).map_err(failed)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    named(&mut authority, "bintide relay CA");
    let authority_key = KeyPair::generate().map_err(failed)?;
    let authority = CertifiedIssuer::self_signed(authority, authority_key).map_err(failed)?;
    let names: Vec<String> = CERTIFICATE_NAMES.map(str::to_owned).into();
    let mut server = CertificateParams::new(names).map_err(failed)?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    named(&mut server, "bintide relay");
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = server.signed_by(&key, &authority).map_err(failed)?;
    write_new(&state.join(CA_NAME), &authority.pem())?;
    write_new(&state.join(KEY_NAME), &key.serialize_pem())?;
    write_new(&state.join(CERTIFICATE_NAME), &certificate.pem())
}

/// Writes a file that only its owner can read, atomically.
fn write_new(path: &Path, text: &str) -> Result<(), RelayServerError> {
    replace_file(path, text.as_bytes(), FileAccess::OwnerOnly).map_err(|cause| RelayServerError::State {
        verb: "write",
        path: path.to_owned(),
        cause,
    })
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, RelayServerError> {
    let found = CertificateDer::pem_file_iter(path).map_err(unusable(path))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(unusable(path))?;
    match found.is_empty() {
        false => Ok(found),
        true => Err(unusable(path)("it contains no certificate (PEM)")),
    }
}

fn unusable<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> RelayServerError + use<'_, E> {
    move |error| RelayServerError::Certificate { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{TlsFiles, load_password_key, make_state_directory};

    #[test]
    fn own_files_are_created_once_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        make_state_directory(&state).unwrap();
        TlsFiles::default().load(&state).unwrap();
        let made = std::fs::read(state.join("server-cert.pem")).unwrap();
        TlsFiles::default().load(&state).unwrap();
        assert_eq!(std::fs::read(state.join("server-cert.pem")).unwrap(), made);
        let key = load_password_key(&state).unwrap().public_pem().to_owned();
        assert_eq!(load_password_key(&state).unwrap().public_pem(), key);
        for entry in std::fs::read_dir(&state).unwrap() {
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(std::fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn files_without_a_certificate_or_key_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        TlsFiles::default().load(directory.path()).unwrap();
        let certificate = std::fs::read(directory.path().join("server-cert.pem")).unwrap();
        let path = directory.path().join("given.pem");
        let files = TlsFiles { certificate: Some(path.clone()), ..TlsFiles::default() };
        for (content, expected) in
            [(&b""[..], "contains no certificate"), (&certificate, "contains no private key")]
        {
            std::fs::write(&path, content).unwrap();
            let error = files.load(directory.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

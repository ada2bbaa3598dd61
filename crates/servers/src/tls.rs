//! TLS connections to a server, verified by the address's policy.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct,
    Error as RustlsError, RootCertStore, SignatureScheme, SupportedProtocolVersion,
};

use crate::error::ConnectionError;
use crate::server_address::ServerAddress;
use crate::tls_policy::{SslMode, TlsPath, TlsPolicy, TlsVersion};

impl TlsVersion {
    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &TLS12,
            Self::Tls13 => &TLS13,
        }
    }
}

/// Supported cipher suites of TLS 1.2, by OpenSSL's names.
const TLS12_CIPHERS: [(&str, CipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];
/// Supported cipher suites of TLS 1.3.
const TLS13_SUITES: [(&str, CipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
];

/// Returns a new TLS connection to the server at this address, which verifies the server as the address's policy
/// requires.
pub(crate) fn connect(address: &ServerAddress) -> Result<ClientConnection, ConnectionError> {
    let policy = &address.tls;
    policy.check()?;
    let failed = |error: RustlsError| ConnectionError::Tls(error.to_string());
    let provider = Arc::new(build_provider(policy)?);
    let named = |name: &str| {
        ServerName::try_from(name.to_owned()).map_err(|_| {
            let why = "neither a host name nor an IP address, so no certificate can be verified for it";
            ConnectionError::Tls(format!("{name} is {why}"))
        })
    };
    let host = match (named(&address.host), policy.mode) {
        (Ok(host), _) => host,
        (Err(error), SslMode::VerifyIdentity) => return Err(error),
        // The name is neither verified nor sent.
        (Err(_), _) => ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into()),
    };
    let verifier: Arc<dyn ServerCertVerifier> = match policy.mode.verifies() {
        true => {
            let verifier = build_verifier(policy, &provider)?;
            Arc::new(TrustedCaVerifier { verifier, host: host.clone(), mode: policy.mode })
        }
        false => Arc::new(AnyCertificateVerifier {
            schemes: provider.signature_verification_algorithms.supported_schemes(),
        }),
    };
    let versions: Vec<_> = match policy.versions.as_slice() {
        [] => rustls::DEFAULT_VERSIONS.to_vec(),
        versions => versions.iter().map(|version| version.supported()).collect(),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match ClientCertificateFiles::of(policy) {
        None => config.with_no_client_auth(),
        Some(files) => {
            let (chain, key) = (files.read_chain()?, files.read_key()?);
            config.with_client_auth_cert(chain, key).map_err(|error| files.unusable_pair(&error))?
        }
    };
    // As in MySQL's programs, send a server name only if one is given.
    config.enable_sni = policy.server_name.is_some();
    let name = policy.server_name.as_deref().map_or(Ok(host), named)?;
    ClientConnection::new(Arc::new(config), name).map_err(failed)
}

/// Files with the client certificate and its private key.
struct ClientCertificateFiles<'p> {
    certificate: &'p Path,
    key: &'p Path,
    policy: &'p TlsPolicy,
}

impl<'p> ClientCertificateFiles<'p> {
    /// Returns the files of a policy. If the policy names only one file, this file must contain both the certificate
    /// and the key.
    fn of(policy: &'p TlsPolicy) -> Option<Self> {
        let (certificate, key) = (policy.certificate.as_deref(), policy.key.as_deref());
        Some(Self { certificate: certificate.or(key)?, key: key.or(certificate)?, policy })
    }

    fn read_chain(&self) -> Result<Vec<CertificateDer<'static>>, ConnectionError> {
        let option = if self.policy.certificate.is_some() { "ssl-cert" } else { "ssl-key" };
        let chain = read_pem(TlsPath { option, path: self.certificate })?;
        let file = self.certificate.display();
        match (chain.is_empty(), self.policy.certificate.is_some()) {
            (false, _) => Ok(chain),
            (true, true) => {
                Err(ConnectionError::Tls(format!("ssl-cert {file} contains no certificate (PEM)")))
            }
            (true, false) => Err(ConnectionError::Tls(format!(
                "ssl-cert is not set, and ssl-key {file} contains no certificate: set ssl-cert to the file with the \
                 certificate of this key"
            ))),
        }
    }

    fn read_key(&self) -> Result<PrivateKeyDer<'static>, ConnectionError> {
        let file = self.key.display();
        PrivateKeyDer::from_pem_file(self.key).map_err(|error| match (error, self.policy.key.is_some()) {
            (PemError::NoItemsFound, true) => ConnectionError::Tls(format!(
                "ssl-key {file} contains no private key (PEM, not encrypted by a passphrase)"
            )),
            (PemError::NoItemsFound, false) => ConnectionError::Tls(format!(
                "ssl-key is not set, and ssl-cert {file} contains no private key: set ssl-key to the file with the key \
                 of this certificate"
            )),
            (error, is_key_set) => {
                let option = if is_key_set { "ssl-key" } else { "ssl-cert" };
                unusable_file(TlsPath { option, path: self.key }, error)
            }
        })
    }

    fn unusable_pair(&self, error: &RustlsError) -> ConnectionError {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        ConnectionError::Tls(match error {
            RustlsError::InconsistentKeys(_) => format!(
                "the certificate in {certificate} (ssl-cert) and the private key in {key} (ssl-key) do not belong \
                 together: set both to the files of one pair"
            ),
            _ => format!(
                "could not use the certificate in {certificate} (ssl-cert) with the private key in {key} (ssl-key): \
                 {error}"
            ),
        })
    }
}

/// Returns the crypto provider with the offered cipher suites.
fn build_provider(policy: &TlsPolicy) -> Result<CryptoProvider, ConnectionError> {
    let mut provider = ring::default_provider();
    for (names, known) in [(&policy.ciphers, &TLS12_CIPHERS[..]), (&policy.suites, &TLS13_SUITES[..])] {
        let Some(names) = names else { continue };
        let is_named = |suite: CipherSuite| {
            let found = known.iter().find(|(_, known)| *known == suite);
            // Keep suites of the other TLS version.
            found.is_none_or(|(name, _)| names.iter().any(|accepted| accepted.eq_ignore_ascii_case(name)))
        };
        provider.cipher_suites.retain(|suite| is_named(suite.suite()));
        let is_known = |suite: CipherSuite| known.iter().any(|(_, known)| *known == suite);
        if !provider.cipher_suites.iter().any(|suite| is_known(suite.suite())) {
            let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let (names, known) = (names.join(":"), known.join(", "));
            return Err(ConnectionError::Tls(format!(
                "none of the ciphers {names} is supported; supported ciphers: {known}"
            )));
        }
    }
    Ok(provider)
}

fn build_verifier(
    policy: &TlsPolicy,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, ConnectionError> {
    let mut roots = RootCertStore::empty();
    for named in policy.authority_paths() {
        for path in &list_files(named, "")? {
            let file = TlsPath { path, ..named };
            for certificate in read_pem::<CertificateDer<'static>>(file)? {
                roots.add(certificate).map_err(|error| unusable_file(file, error))?;
            }
        }
    }
    let mut revoked: Vec<CertificateRevocationListDer<'static>> = Vec::new();
    for named in policy.revocation_paths() {
        let before = revoked.len();
        for path in &list_files(named, "r")? {
            revoked.extend(read_pem(TlsPath { path, ..named })?);
        }
        // Refuse an empty file: no certificate would be revoked.
        if revoked.len() == before {
            return Err(unusable_file(named, "it has no revocation list (PEM)"));
        }
    }
    let unusable = |error: VerifierBuilderError| {
        let named = |file: TlsPath<'_>| format!("{} {}", file.option, file.path.display());
        let paths: Vec<String> = policy.authority_paths().map(named).collect();
        let reason = match error {
            VerifierBuilderError::NoRootAnchors => "no CA certificate (PEM) found".to_owned(),
            error => error.to_string(),
        };
        ConnectionError::Tls(format!("could not use {}: {reason}", paths.join(" and ")))
    };
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .with_crls(revoked)
        .enforce_revocation_expiration()
        .build()
        .map_err(unusable)
}

/// Returns the file, or the files of a directory with names by `openssl rehash`: eight hexadecimal digits, a dot, a
/// letter for the kind, a number.
fn list_files(named: TlsPath<'_>, letter: &str) -> Result<Vec<PathBuf>, ConnectionError> {
    let path = named.path;
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let is_digits = |text: &str, radix| !text.is_empty() && text.chars().all(|one| one.is_digit(radix));
    let is_named = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('.'));
        let Some((hash, number)) = name else { return false };
        let number = number.strip_prefix(letter).unwrap_or_default();
        hash.len() == 8 && is_digits(hash, 16) && is_digits(number, 10)
    };
    let listed = fs::read_dir(path).map_err(|error| unusable_file(named, error))?;
    // An unreadable entry could be a revocation list.
    let paths: Result<Vec<PathBuf>, io::Error> = listed.map(|entry| Ok(entry?.path())).collect();
    let mut files = paths.map_err(|error| unusable_file(named, error))?;
    files.retain(is_named);
    files.sort();
    Ok(files)
}

/// Reads all items of this type from a PEM file.
fn read_pem<T: PemObject>(file: TlsPath<'_>) -> Result<Vec<T>, ConnectionError> {
    let found = T::pem_file_iter(file.path).map_err(|error| unusable_file(file, error))?;
    found.collect::<Result<Vec<T>, PemError>>().map_err(|error| unusable_file(file, error))
}

fn unusable_file(file: TlsPath<'_>, error: impl ToString) -> ConnectionError {
    let TlsPath { option, path } = file;
    ConnectionError::Tls(format!("could not use {option} {}: {}", path.display(), error.to_string()))
}

/// Verifier that accepts certificates of trusted authorities.
#[derive(Debug)]
struct TrustedCaVerifier {
    verifier: Arc<WebPkiServerVerifier>,
    /// Host name to verify, whatever server name (SNI) was sent.
    host: ServerName<'static>,
    mode: SslMode,
}

impl ServerCertVerifier for TrustedCaVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        match (self.verifier.verify_server_cert(certificate, chain, &self.host, stapled, now), self.mode) {
            // The host's name is verified last, so all other checks have passed.
            (
                Err(RustlsError::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )),
                SslMode::VerifyCa,
            ) => Ok(ServerCertVerified::assertion()),
            (verified, _) => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Verifier that accepts any certificate, even one that cannot be parsed. A man in the middle can pose as the server,
/// but the connection is still encrypted.
#[derive(Debug)]
struct AnyCertificateVerifier {
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for AnyCertificateVerifier {
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

    // A signature by the key of an unverified certificate proves nothing. Skipping it allows old servers, whose
    // certificates have X.509 version 1 or short keys.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::connect;
    use crate::server_address::ServerAddress;
    use crate::tls_policy::SslMode;

    /// Writes a certificate and its key, and a file with both.
    fn write_pair(directory: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap().pem();
        let key = key.serialize_pem();
        fs::write(directory.join(name).with_extension("both"), format!("{certificate}{key}")).unwrap();
        fs::write(directory.join(name).with_extension("pem"), certificate).unwrap();
        fs::write(directory.join(name).with_extension("key"), key).unwrap();
    }

    #[test]
    fn client_certificates_and_keys_must_be_pairs() {
        let directory = TempDir::new().unwrap();
        write_pair(directory.path(), "one");
        write_pair(directory.path(), "two");
        let check = |certificate: Option<&str>, key: Option<&str>, expected: Result<(), &str>| {
            let mut address = ServerAddress::parse("mysql://u@h").unwrap();
            address.tls.certificate = certificate.map(|name| directory.path().join(name));
            address.tls.key = key.map(|name| directory.path().join(name));
            let result = connect(&address).map(drop).map_err(|error| error.to_string());
            let expected =
                expected.map_err(|text| text.replace('^', &format!("{}/", directory.path().display())));
            assert_eq!(result, expected, "{certificate:?} {key:?}");
        };
        check(None, None, Ok(()));
        check(Some("one.pem"), Some("one.key"), Ok(()));
        check(Some("one.both"), None, Ok(()));
        check(None, Some("one.both"), Ok(()));
        check(
            Some("one.pem"),
            None,
            Err(
                "TLS: ssl-key is not set, and ssl-cert ^one.pem contains no private key: set ssl-key to the file with \
                 the key of this certificate",
            ),
        );
        check(
            None,
            Some("one.key"),
            Err(
                "TLS: ssl-cert is not set, and ssl-key ^one.key contains no certificate: set ssl-cert to the file with \
                 the certificate of this key",
            ),
        );
        check(
            Some("one.pem"),
            Some("two.key"),
            Err(
                "TLS: the certificate in ^one.pem (ssl-cert) and the private key in ^two.key (ssl-key) do not belong \
                 together: set both to the files of one pair",
            ),
        );
        check(Some("one.key"), Some("one.pem"), Err("TLS: ssl-cert ^one.key contains no certificate (PEM)"));
        check(
            Some("one.pem"),
            Some("two.pem"),
            Err("TLS: ssl-key ^two.pem contains no private key (PEM, not encrypted by a passphrase)"),
        );
    }

    #[test]
    fn revocation_lists_are_files_of_their_own() {
        let directory = TempDir::new().unwrap();
        write_pair(directory.path(), "one");
        let check = |mode: SslMode, expected: &str| {
            let mut address = ServerAddress::parse("mysql://u@h").unwrap();
            let one = directory.path().join("one.pem");
            (address.tls.mode, address.tls.authorities) = (mode, Some(one.clone()));
            address.tls.revocations = Some(one);
            let error = connect(&address).map(drop).unwrap_err().to_string();
            assert_eq!(error.replace(&directory.path().display().to_string(), "DIR"), expected);
        };
        check(SslMode::VerifyCa, "TLS: could not use ssl-crl DIR/one.pem: it has no revocation list (PEM)");
        check(
            SslMode::Required,
            "ssl-crl and ssl-crlpath have an effect only if ssl-mode is VERIFY_CA or VERIFY_IDENTITY: set --ssl-ca",
        );
    }
}

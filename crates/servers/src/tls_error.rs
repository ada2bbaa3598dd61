//! Explains errors of TLS handshakes, with remedies.

use std::io::{self, ErrorKind};

use binlog::ServerVersion;
use rustls::{AlertDescription, CertificateError, Error as RustlsError};

use crate::error::ConnectionError;
use crate::server_address::ServerAddress;
use crate::tls_policy::{SslMode, TlsPolicy};

/// Explains an error of a TLS handshake with the server at this address, which has this version.
pub(crate) fn explain_handshake_error(
    error: &io::Error,
    address: &ServerAddress,
    server_version: &str,
) -> ConnectionError {
    let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref::<RustlsError>()) else {
        return ConnectionError::lost(match error.kind() {
            ErrorKind::UnexpectedEof => {
                "the server closed the connection during the TLS handshake".to_owned()
            }
            _ => error.to_string(),
        });
    };
    match cause {
        RustlsError::InvalidCertificate(why) => ConnectionError::Tls(certificate_message(why, address)),
        // Old servers answer with messages of a TLS version that rustls does not know.
        RustlsError::PeerIncompatible(_)
        | RustlsError::InvalidMessage(_)
        | RustlsError::AlertReceived(
            AlertDescription::HandshakeFailure
            | AlertDescription::InsufficientSecurity
            | AlertDescription::ProtocolVersion,
        ) => no_common_version_or_cipher(&cause.to_string(), address, server_version),
        _ => ConnectionError::Tls(cause.to_string()),
    }
}

/// Returns the error for a server and client without a common TLS version or cipher suite.
fn no_common_version_or_cipher(
    cause: &str,
    address: &ServerAddress,
    server_version: &str,
) -> ConnectionError {
    let policy = &address.tls;
    let server = match ServerVersion::parse(server_version).numbers() {
        Some([major, minor, patch]) => format!("the server ({major}.{minor}.{patch})"),
        None => "the server".to_owned(),
    };
    let is_restricted = !policy.versions.is_empty() || policy.ciphers.is_some() || policy.suites.is_some();
    let ours = match is_restricted {
        true => "tls-version, ssl-cipher or tls-ciphersuites restricts the choice",
        false => {
            "bintide supports TLS 1.3, and TLS 1.2 with ECDHE; MySQL 5.5, and builds of 5.6 and 5.7 with yaSSL, support TLS 1.1 at \
             most, some of 8.0 before 8.0.16 only DHE"
        }
    };
    let remedy = match (is_restricted, policy.mode) {
        (true, _) => "allow more versions or ciphers",
        (false, SslMode::Disabled | SslMode::Preferred) => {
            "upgrade the server, connect through its Unix socket file, or turn TLS off by --ssl-mode=DISABLED"
        }
        (false, _) => "upgrade the server",
    };
    ConnectionError::Tls(format!(
        "{server} has no TLS version or cipher suite in common with bintide ({cause}): {ours}; {remedy}"
    ))
}

/// Returns the message for a refused certificate.
fn certificate_message(why: &CertificateError, address: &ServerAddress) -> String {
    let authorities = authority_names(&address.tls);
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("the server's certificate is not signed by an authority in {authorities}")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the server's certificate has expired: {why}")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the server's certificate is not for {}, the host of its address: {why}", address.host)
        }
        CertificateError::Revoked => "the server's certificate has been revoked".to_owned(),
        CertificateError::UnknownRevocationStatus => {
            "the server's certificate may have been revoked: ssl-crl and ssl-crlpath have no revocation list of the \
             authority that signed it"
                .to_owned()
        }
        _ if why.to_string().contains("UnsupportedCertVersion") => {
            "the server's certificate has X.509 version 1, which cannot be verified: replace it with one of version 3"
                .to_owned()
        }
        _ if why.to_string().contains("CaUsedAsEndEntity") => {
            "the server's certificate is a CA certificate (CA:TRUE): replace it with one that the CA has signed"
                .to_owned()
        }
        _ => format!("the server's certificate was refused, with the authorities in {authorities}: {why}"),
    }
}

/// Returns the paths of the file and the directory of trusted authorities.
fn authority_names(policy: &TlsPolicy) -> String {
    let paths: Vec<String> = policy.authority_paths().map(|file| file.path.display().to_string()).collect();
    paths.join(" and ")
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustls::{AlertDescription, CertificateError, Error as RustlsError};

    use super::explain_handshake_error;
    use crate::server_address::ServerAddress;

    fn check(error: RustlsError, options: &str, expected: &str) {
        let address = ServerAddress::parse(&format!("mysql://u@h/?{options}")).unwrap();
        let error = io::Error::other(error);
        let explained = explain_handshake_error(&error, &address, "8.0.15");
        assert_eq!(explained.to_string(), format!("TLS: {expected}"), "{error:?}");
    }

    #[test]
    fn refused_certificates_have_a_remedy() {
        let check = |why: CertificateError, expected: &str| {
            check(RustlsError::InvalidCertificate(why), "ssl-ca=/ca.pem&ssl-mode=VERIFY_CA", expected);
        };
        check(
            CertificateError::UnknownIssuer,
            "the server's certificate is not signed by an authority in /ca.pem",
        );
        check(CertificateError::Revoked, "the server's certificate has been revoked");
        check(
            CertificateError::UnknownRevocationStatus,
            "the server's certificate may have been revoked: ssl-crl and ssl-crlpath have no revocation list of the \
             authority that signed it",
        );
        check(
            CertificateError::BadEncoding,
            "the server's certificate was refused, with the authorities in /ca.pem: BadEncoding",
        );
    }

    #[test]
    fn versions_and_ciphers_in_common_are_required() {
        let failed = || RustlsError::AlertReceived(AlertDescription::HandshakeFailure);
        check(
            failed(),
            "ssl-mode=REQUIRED&tls-version=TLSv1.3",
            "the server (8.0.15) has no TLS version or cipher suite in common with bintide (received fatal alert: \
             HandshakeFailure): tls-version, ssl-cipher or tls-ciphersuites restricts the choice; allow more versions or \
             ciphers",
        );
        check(
            failed(),
            "ssl-mode=REQUIRED",
            "the server (8.0.15) has no TLS version or cipher suite in common with bintide (received fatal alert: \
             HandshakeFailure): bintide supports TLS 1.3, and TLS 1.2 with ECDHE; MySQL 5.5, and builds of 5.6 and 5.7 with yaSSL, \
             support TLS 1.1 at most, some of 8.0 before 8.0.16 only DHE; upgrade the server",
        );
        check(
            failed(),
            "ssl-mode=PREFERRED",
            "the server (8.0.15) has no TLS version or cipher suite in common with bintide (received fatal alert: \
             HandshakeFailure): bintide supports TLS 1.3, and TLS 1.2 with ECDHE; MySQL 5.5, and builds of 5.6 and 5.7 with yaSSL, \
             support TLS 1.1 at most, some of 8.0 before 8.0.16 only DHE; upgrade the server, connect through its Unix \
             socket file, or turn TLS off by --ssl-mode=DISABLED",
        );
    }
}

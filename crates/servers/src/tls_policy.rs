//! TLS policy: encryption of a connection, and verification of the server.

use std::path::{Path, PathBuf};

use crate::error::ConnectionError;

/// Encryption of a connection and verification of the server, as set by the `--ssl-*` and `--tls-*` options of `mysql`.
///
/// The default encrypts if the server supports it, as in MySQL's programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPolicy {
    /// `ssl-mode`: minimum security of a connection.
    pub mode: SslMode,
    /// `ssl-ca`: file of trusted CA certificates (PEM).
    pub authorities: Option<PathBuf>,
    /// `ssl-capath`: directory of trusted CA certificates, with names by `openssl rehash`.
    pub authority_directory: Option<PathBuf>,
    /// `ssl-crl`: file of revocation lists (PEM). With at least one list, each certificate's authority must have a
    /// list.
    pub revocations: Option<PathBuf>,
    /// `ssl-crlpath`: directory of revocation lists, with names by `openssl rehash`.
    pub revocation_directory: Option<PathBuf>,
    /// `ssl-cert`: client certificate (PEM); if absent, the key's file must contain it.
    pub certificate: Option<PathBuf>,
    /// `ssl-key`: key of the client certificate (PEM); if absent, the certificate's file must contain it.
    pub key: Option<PathBuf>,
    /// `tls-version`: offered versions; empty for all supported ones.
    pub versions: Vec<TlsVersion>,
    /// `ssl-cipher`: offered cipher suites of TLS 1.2, by OpenSSL's names; `None` for all supported ones.
    pub ciphers: Option<Vec<String>>,
    /// `tls-ciphersuites`: offered cipher suites of TLS 1.3; `None` for all supported ones.
    pub suites: Option<Vec<String>>,
    /// `tls-sni-servername`: requested server name (SNI). The certificate is still verified against the host's name.
    pub server_name: Option<String>,
}

/// MySQL's `ssl-mode`. Each mode requires more than the previous mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SslMode {
    /// The connection is not encrypted.
    Disabled,
    /// The connection is encrypted if the server supports it. A man in the middle can prevent the encryption.
    #[default]
    Preferred,
    /// The connection is encrypted. A man in the middle can pose as the server.
    Required,
    /// The connection is encrypted, and a trusted authority has signed the server's certificate.
    VerifyCa,
    /// As `VerifyCa`, and the certificate is for the host's name.
    VerifyIdentity,
}

/// Version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2
    Tls12,
    /// TLS 1.3
    Tls13,
}

impl SslMode {
    /// All modes, the weakest first.
    pub const ALL: [Self; 5] =
        [Self::Disabled, Self::Preferred, Self::Required, Self::VerifyCa, Self::VerifyIdentity];

    /// Returns MySQL's name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disabled => "DISABLED",
            Self::Preferred => "PREFERRED",
            Self::Required => "REQUIRED",
            Self::VerifyCa => "VERIFY_CA",
            Self::VerifyIdentity => "VERIFY_IDENTITY",
        }
    }

    /// Returns the mode with this name, in upper or lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name))
    }

    /// Returns whether the mode verifies the server's certificate.
    pub const fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyIdentity)
    }
}

impl TlsPolicy {
    /// Returns a policy with this mode and no other settings.
    pub fn with_mode(mode: SslMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Returns a policy that verifies the host's name, and the certificate against this file of authorities.
    pub fn verify_identity(authorities: impl Into<PathBuf>) -> Self {
        let authorities = Some(authorities.into());
        Self { mode: SslMode::VerifyIdentity, authorities, ..Self::default() }
    }

    /// Raises the mode to this mode. A stronger mode remains.
    pub fn require(&mut self, mode: SslMode) {
        self.mode = self.mode.max(mode);
    }

    /// Checks that the settings are consistent.
    ///
    /// # Errors
    ///
    /// Fails if the mode verifies certificates but no authority is trusted, or if revocation lists are given but no
    /// certificate is verified.
    pub fn check(&self) -> Result<(), ConnectionError> {
        let (has_authority, has_list) =
            (self.authority_paths().next().is_some(), self.revocation_paths().next().is_some());
        match self.mode {
            SslMode::VerifyCa | SslMode::VerifyIdentity if !has_authority => Err(ConnectionError::CaRequired),
            SslMode::Preferred | SslMode::Required if has_list => Err(ConnectionError::UnusedRevocationLists),
            _ => Ok(()),
        }
    }

    /// Returns the file and the directory of trusted authorities.
    pub(crate) fn authority_paths(&self) -> impl Iterator<Item = TlsPath<'_>> {
        let named = [("ssl-ca", &self.authorities), ("ssl-capath", &self.authority_directory)];
        named.into_iter().filter_map(|(option, path)| Some(TlsPath { option, path: path.as_deref()? }))
    }

    /// Returns the file and the directory of revocation lists.
    pub(crate) fn revocation_paths(&self) -> impl Iterator<Item = TlsPath<'_>> {
        let named = [("ssl-crl", &self.revocations), ("ssl-crlpath", &self.revocation_directory)];
        named.into_iter().filter_map(|(option, path)| Some(TlsPath { option, path: path.as_deref()? }))
    }
}

/// File or directory of a TLS option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsPath<'p> {
    pub(crate) option: &'static str,
    pub(crate) path: &'p Path,
}

#[cfg(test)]
mod tests {
    use super::{SslMode, TlsPolicy};
    use crate::ConnectionError;

    #[test]
    fn weaker_modes_never_replace_stronger_ones() {
        for strong in SslMode::ALL {
            for weak in SslMode::ALL.into_iter().filter(|weak| *weak <= strong) {
                let mut policy = TlsPolicy::with_mode(strong);
                policy.require(weak);
                assert_eq!(policy.mode, strong);
                policy.mode = weak;
                policy.require(strong);
                assert_eq!(policy.mode, strong);
            }
        }
    }

    #[test]
    fn verification_needs_an_authority() {
        for mode in SslMode::ALL {
            let mut policy = TlsPolicy::with_mode(mode);
            assert_eq!(
                matches!(policy.check(), Err(ConnectionError::CaRequired)),
                mode.verifies(),
                "{mode:?}"
            );
            policy.authority_directory = Some("/certificates".into());
            assert!(policy.check().is_ok(), "{mode:?}");
        }
    }

    #[test]
    fn revocation_lists_need_verification() {
        for mode in SslMode::ALL {
            let mut policy = TlsPolicy { mode, ..TlsPolicy::verify_identity("/ca") };
            policy.revocations = Some("/revoked".into());
            let is_idle = matches!(mode, SslMode::Preferred | SslMode::Required);
            assert_eq!(
                matches!(policy.check(), Err(ConnectionError::UnusedRevocationLists)),
                is_idle,
                "{mode:?}"
            );
        }
    }

    #[test]
    fn modes_have_the_names_of_mysql() {
        assert_eq!(SslMode::from_name("verify_ca"), Some(SslMode::VerifyCa));
        assert_eq!(SslMode::from_name("VERIFY"), None);
    }
}

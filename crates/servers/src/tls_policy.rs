//! How a connection is encrypted, and what is verified of the server.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// How a connection is encrypted, and what is verified of the server: what `mysql` has its `--ssl-*` and `--tls-*` options for.
///
/// The default encrypts if the server can, as MySQL's own programs do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPolicy {
    /// `ssl-mode`: the least that a connection must have.
    pub mode: SslMode,
    /// `ssl-ca`: a file of certificates (PEM) of trusted authorities.
    pub authorities: Option<PathBuf>,
    /// `ssl-capath`: a folder of them, as `openssl rehash` makes it.
    pub authority_folder: Option<PathBuf>,
    /// `ssl-crl`: a file of revocation lists (PEM). Once there is a list, each certificate's authority must have one.
    pub revocations: Option<PathBuf>,
    /// `ssl-crlpath`: a folder of them, as `openssl rehash` makes it.
    pub revocation_folder: Option<PathBuf>,
    /// `ssl-cert`: the client's own certificate (PEM); without it, the file of the key must hold it.
    pub certificate: Option<PathBuf>,
    /// `ssl-key`: the key of the client's own certificate (PEM); without it, the file of the certificate must hold it.
    pub key: Option<PathBuf>,
    /// `tls-version`: the versions to offer; empty for all that are supported.
    pub versions: Vec<TlsVersion>,
    /// `ssl-cipher`: the cipher suites of TLS 1.2 to offer, by OpenSSL's names; `None` for all that are supported.
    pub ciphers: Option<Vec<String>>,
    /// `tls-ciphersuites`: the cipher suites of TLS 1.3 to offer; `None` for all that are supported.
    pub suites: Option<Vec<String>>,
    /// `tls-sni-servername`: the name to ask for. The certificate is verified against the host's name all the same.
    pub server_name: Option<String>,
}

/// MySQL's `ssl-mode`. Each mode asks for more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SslMode {
    /// The connection is not encrypted.
    Disabled,
    /// The connection is encrypted if the server can. A man in the middle can prevent that.
    #[default]
    Preferred,
    /// The connection is encrypted. A man in the middle can pose as the server.
    Required,
    /// And a trusted authority has signed the server's certificate.
    VerifyCa,
    /// And the certificate is for the host's name.
    VerifyIdentity,
}

/// A version of TLS.
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

    /// Returns the mode of this name, in capitals or not.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name))
    }

    /// Does it verify the server's certificate?
    pub const fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyIdentity)
    }
}

impl TlsPolicy {
    /// Returns the policy of this mode, and nothing else.
    pub fn with_mode(mode: SslMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Returns the policy that verifies certificates against this file of authorities, and the host's name.
    pub fn verify_identity(authorities: impl Into<PathBuf>) -> Self {
        let authorities = Some(authorities.into());
        Self { mode: SslMode::VerifyIdentity, authorities, ..Self::default() }
    }

    /// Raises the mode to this one. A mode that is stronger already remains.
    pub fn require(&mut self, mode: SslMode) {
        self.mode = self.mode.max(mode);
    }

    /// Checks that it can be kept at all.
    ///
    /// # Errors
    ///
    /// When certificates are to be verified, and no authority is trusted; or when revocation lists are given, and no
    /// certificate is to be verified.
    pub fn check(&self) -> Result<(), Error> {
        let (has_authority, has_list) =
            (self.authority_paths().next().is_some(), self.revocation_paths().next().is_some());
        match self.mode {
            SslMode::VerifyCa | SslMode::VerifyIdentity if !has_authority => Err(Error::NoAuthority),
            SslMode::Preferred | SslMode::Required if has_list => Err(Error::IdleRevocations),
            _ => Ok(()),
        }
    }

    /// Returns the file and the folder of trusted authorities.
    pub(crate) fn authority_paths(&self) -> impl Iterator<Item = &Path> {
        [&self.authorities, &self.authority_folder].into_iter().filter_map(|path| path.as_deref())
    }

    /// Returns the file and the folder of revocation lists.
    pub(crate) fn revocation_paths(&self) -> impl Iterator<Item = &Path> {
        [&self.revocations, &self.revocation_folder].into_iter().filter_map(|path| path.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::{SslMode, TlsPolicy};
    use crate::Error;

    #[test]
    fn a_weaker_mode_never_replaces_a_stronger_one() {
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
            assert_eq!(matches!(policy.check(), Err(Error::NoAuthority)), mode.verifies(), "{mode:?}");
            policy.authority_folder = Some("/certificates".into());
            assert!(policy.check().is_ok(), "{mode:?}");
        }
    }

    #[test]
    fn revocation_lists_need_verification() {
        for mode in SslMode::ALL {
            let mut policy = TlsPolicy { mode, ..TlsPolicy::verify_identity("/ca") };
            policy.revocations = Some("/revoked".into());
            let is_idle = matches!(mode, SslMode::Preferred | SslMode::Required);
            assert_eq!(matches!(policy.check(), Err(Error::IdleRevocations)), is_idle, "{mode:?}");
        }
    }

    #[test]
    fn modes_have_the_names_of_mysql() {
        assert_eq!(SslMode::from_name("verify_ca"), Some(SslMode::VerifyCa));
        assert_eq!(SslMode::from_name("VERIFY"), None);
    }
}

//! TLS options of one option source, and the policy resulting from several sources.

use std::path::PathBuf;

use crate::tls_policy::{SslMode, TlsPolicy, TlsVersion};

/// TLS options of one source: a command line, an address, the settings, or the option files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsRequest {
    /// `ssl-mode`, if given; the last value counts.
    pub mode: Option<SslMode>,
    /// Verification of the host's name, which `tls-ca` requires.
    pub host_verification: HostVerification,
    /// `ssl-ca`
    pub authorities: Option<PathBuf>,
    /// `ssl-capath`
    pub authority_directory: Option<PathBuf>,
    /// `ssl-crl`
    pub revocations: Option<PathBuf>,
    /// `ssl-crlpath`
    pub revocation_directory: Option<PathBuf>,
    /// `ssl-cert`
    pub certificate: Option<PathBuf>,
    /// `ssl-key`
    pub key: Option<PathBuf>,
    /// `tls-version`
    pub versions: Option<Vec<TlsVersion>>,
    /// `ssl-cipher`
    pub ciphers: Option<Vec<String>>,
    /// `tls-ciphersuites`
    pub suites: Option<Vec<String>>,
    /// `tls-sni-servername`
    pub server_name: Option<String>,
}

/// Verification of the host's name, by the option that names the authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostVerification {
    /// The mode decides: `ssl-ca` and similar options imply VERIFY_CA, as in MySQL's programs.
    #[default]
    AsMode,
    /// `tls-ca` requires the verification.
    Required,
}

impl TlsRequest {
    /// Returns the mode that the files and directories of this source imply.
    fn implied_mode(&self) -> Option<SslMode> {
        let has_material = self.authorities.is_some()
            || self.authority_directory.is_some()
            || self.revocations.is_some()
            || self.revocation_directory.is_some();
        match (has_material, self.host_verification) {
            (_, HostVerification::Required) => Some(SslMode::VerifyIdentity),
            (true, HostVerification::AsMode) => Some(SslMode::VerifyCa),
            (false, HostVerification::AsMode) => None,
        }
    }

    /// Returns whether this source explicitly sets DISABLED or PREFERRED, and verifies nothing.
    fn lowers_mode(&self) -> bool {
        self.mode.is_some_and(|mode| mode <= SslMode::Preferred) && self.implied_mode().is_none()
    }

    /// Removes a mode that is not stronger than the default. Used for servers other than the one for which the option
    /// was given.
    pub(crate) fn drop_lowering_mode(&mut self) {
        self.mode = self.mode.filter(|mode| *mode > SslMode::Preferred);
    }
}

/// Returns the policy of several sources, the strongest source first.
///
/// The strongest mode of all sources applies, whether set by `ssl-mode` or implied by verification files. Only an
/// explicit DISABLED or PREFERRED lowers the mode of weaker sources, and only if its own source verifies nothing.
pub(crate) fn strongest_policy(sources: &[&TlsRequest]) -> TlsPolicy {
    // Ignore sources weaker than the source that lowers the mode.
    let counted =
        sources.iter().position(|source| source.lowers_mode()).map_or(sources, |at| &sources[..=at]);
    let modes = counted.iter().flat_map(|source| [source.mode, source.implied_mode()]);
    let mode = modes.flatten().max().unwrap_or_default();
    // Use one source only: the authorities of two sources together would be more than either source trusts.
    let trusting =
        counted.iter().find(|source| source.authorities.is_some() || source.authority_directory.is_some());
    TlsPolicy {
        mode,
        authorities: trusting.and_then(|source| source.authorities.clone()),
        authority_directory: trusting.and_then(|source| source.authority_directory.clone()),
        revocations: first(counted, |source| &source.revocations),
        revocation_directory: first(counted, |source| &source.revocation_directory),
        certificate: first(sources, |source| &source.certificate),
        key: first(sources, |source| &source.key),
        versions: first(sources, |source| &source.versions).unwrap_or_default(),
        ciphers: first(sources, |source| &source.ciphers),
        suites: first(sources, |source| &source.suites),
        server_name: first(sources, |source| &source.server_name),
    }
}

fn first<T: Clone>(sources: &[&TlsRequest], field: impl Fn(&TlsRequest) -> &Option<T>) -> Option<T> {
    sources.iter().find_map(|source| field(source).clone())
}

#[cfg(test)]
mod tests {
    use super::{HostVerification, TlsRequest, strongest_policy};
    use crate::tls_policy::SslMode;

    /// Parses the words `MODE`, `ca=FILE`, `capath=DIRECTORY`, `crl=FILE`, `tls-ca=FILE`, separated by blanks.
    fn request(text: &str) -> TlsRequest {
        let mut request = TlsRequest::default();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some(("ca", file)) => request.authorities = Some(file.into()),
                Some(("capath", directory)) => request.authority_directory = Some(directory.into()),
                Some(("crl", file)) => request.revocations = Some(file.into()),
                Some(("tls-ca", file)) => {
                    request.authorities = Some(file.into());
                    request.host_verification = HostVerification::Required;
                }
                _ => request.mode = Some(SslMode::from_name(word).expect(word)),
            }
        }
        request
    }

    /// Cases: the requests of command line, address and option files; the resulting mode and CA file.
    const CASES: [([&str; 3], &str, &str); 31] = [
        (["", "", ""], "PREFERRED", ""),
        (["", "", "DISABLED"], "DISABLED", ""),
        (["", "", "REQUIRED"], "REQUIRED", ""),
        (["", "", "VERIFY_CA"], "VERIFY_CA", ""),
        // A CA implies verification, regardless of the mode in the same source of options.
        (["", "", "ca=f"], "VERIFY_CA", "f"),
        (["", "", "capath=d"], "VERIFY_CA", ""),
        (["", "", "crl=f"], "VERIFY_CA", ""),
        (["", "", "ca=f VERIFY_IDENTITY"], "VERIFY_IDENTITY", "f"),
        (["", "", "ca=f REQUIRED"], "VERIFY_CA", "f"),
        (["", "", "ca=f PREFERRED"], "VERIFY_CA", "f"),
        (["", "", "ca=f DISABLED"], "VERIFY_CA", "f"),
        (["", "tls-ca=f", ""], "VERIFY_IDENTITY", "f"),
        (["", "tls-ca=f REQUIRED", ""], "VERIFY_IDENTITY", "f"),
        (["", "tls-ca=f DISABLED", ""], "VERIFY_IDENTITY", "f"),
        (["", "tls-ca=f VERIFY_CA", ""], "VERIFY_IDENTITY", "f"),
        // A source of higher precedence that requires more does not weaken anything.
        (["", "REQUIRED", "ca=f"], "VERIFY_CA", "f"),
        (["REQUIRED", "", "ca=f VERIFY_IDENTITY"], "VERIFY_IDENTITY", "f"),
        (["REQUIRED", "tls-ca=f", ""], "VERIFY_IDENTITY", "f"),
        (["VERIFY_CA", "", "VERIFY_IDENTITY ca=f"], "VERIFY_IDENTITY", "f"),
        (["VERIFY_IDENTITY", "", "ca=f"], "VERIFY_IDENTITY", "f"),
        (["VERIFY_IDENTITY", "REQUIRED", "DISABLED"], "VERIFY_IDENTITY", ""),
        // Only one source's CAs are trusted: the source with the highest precedence that names CAs.
        (["ca=c", "tls-ca=f", ""], "VERIFY_IDENTITY", "c"),
        (["capath=d", "", "ca=f"], "VERIFY_CA", ""),
        // An explicit weaker mode lowers only the mode of sources with lower precedence.
        (["DISABLED", "", "ca=f VERIFY_IDENTITY"], "DISABLED", ""),
        (["PREFERRED", "tls-ca=f", ""], "PREFERRED", ""),
        (["", "DISABLED", "REQUIRED"], "DISABLED", ""),
        (["REQUIRED", "DISABLED", "ca=f"], "REQUIRED", ""),
        (["", "REQUIRED", "DISABLED"], "REQUIRED", ""),
        (["ca=c", "DISABLED", ""], "VERIFY_CA", "c"),
        // An explicit weaker mode lowers nothing if the same source also implies verification.
        (["DISABLED ca=c", "", "VERIFY_IDENTITY"], "VERIFY_IDENTITY", "c"),
        (["PREFERRED crl=r", "", "ca=f"], "VERIFY_CA", "f"),
    ];

    #[test]
    fn requests_are_combined_by_precedence() {
        for (sources, mode, authorities) in CASES {
            let requests = sources.map(request);
            let policy = strongest_policy(&requests.each_ref());
            let found = policy.authorities.map(|path| path.display().to_string()).unwrap_or_default();
            assert_eq!((policy.mode.name(), found.as_str()), (mode, authorities), "{sources:?}");
        }
    }

    #[test]
    fn stronger_requests_never_weaken() {
        let words = ["", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY", "ca=f", "capath=d", "crl=f", "tls-ca=f"];
        for weak in words.into_iter().chain(["DISABLED", "PREFERRED"]) {
            for strong in words {
                let (weak_request, strong_request) = (request(weak), request(strong));
                let alone = strongest_policy(&[&weak_request]).mode;
                let both = strongest_policy(&[&strong_request, &weak_request]).mode;
                assert!(both >= alone, "{strong:?} over {weak:?}: {both:?}, and alone {alone:?}");
                let beside = strongest_policy(&[&request(&format!("{weak} {strong}"))]).mode;
                let said_last = request(strong).mode.is_some() && request(weak).mode.is_some();
                assert!(said_last || beside >= alone, "{weak:?} and {strong:?}");
            }
        }
    }
}

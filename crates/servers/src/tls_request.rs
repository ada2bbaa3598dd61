//! TLS as it is asked for in one place, and what comes of several.

use std::path::PathBuf;

use crate::tls_policy::{SslMode, TlsPolicy, TlsVersion};

/// TLS options of one place: of a command line, an address, the settings, or the option files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsRequest {
    /// `ssl-mode`, if it is given: the last one.
    pub mode: Option<SslMode>,
    /// `tls-ca`: the host's name is verified, too.
    pub identity: Identity,
    /// `ssl-ca`
    pub authorities: Option<PathBuf>,
    /// `ssl-capath`
    pub authority_folder: Option<PathBuf>,
    /// `ssl-crl`
    pub revocations: Option<PathBuf>,
    /// `ssl-crlpath`
    pub revocation_folder: Option<PathBuf>,
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

/// Whether an authority is given by an option that asks for the host's name to be verified, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// It is not: `ssl-ca` and its like ask for VERIFY_CA, as in MySQL's programs.
    #[default]
    AsMode,
    /// It is, by `tls-ca`.
    Verified,
}

impl TlsRequest {
    /// Returns the mode that the files and folders of this place ask for by themselves.
    fn implied_mode(&self) -> Option<SslMode> {
        let has_material = self.authorities.is_some()
            || self.authority_folder.is_some()
            || self.revocations.is_some()
            || self.revocation_folder.is_some();
        match (has_material, self.identity) {
            (_, Identity::Verified) => Some(SslMode::VerifyIdentity),
            (true, Identity::AsMode) => Some(SslMode::VerifyCa),
            (false, Identity::AsMode) => None,
        }
    }

    /// Does this place ask for no more than PREFERRED, in so many words, and verify nothing?
    fn lowers(&self) -> bool {
        self.mode.is_some_and(|mode| mode <= SslMode::Preferred) && self.implied_mode().is_none()
    }

    /// Removes what asks for less than the default policy gives: for a server that the option was not given for.
    pub(crate) fn keep_what_raises(&mut self) {
        self.mode = self.mode.filter(|mode| *mode > SslMode::Preferred);
    }
}

/// Returns the policy of several places, the strongest place first.
///
/// The strongest mode holds of all that the places ask for, by `ssl-mode` or by naming what to verify with. Only an
/// explicit DISABLED or PREFERRED lowers what weaker places ask for, and only if its own place verifies nothing.
pub(crate) fn strongest_policy(places: &[&TlsRequest]) -> TlsPolicy {
    // What is weaker than the place that lowers counts no more.
    let counted = places.iter().position(|place| place.lowers()).map_or(places, |at| &places[..=at]);
    let modes = counted.iter().flat_map(|place| [place.mode, place.implied_mode()]);
    let mode = modes.flatten().max().unwrap_or_default();
    // To trust the authorities of two places would be to trust more than either says.
    let trusting =
        counted.iter().find(|place| place.authorities.is_some() || place.authority_folder.is_some());
    TlsPolicy {
        mode,
        authorities: trusting.and_then(|place| place.authorities.clone()),
        authority_folder: trusting.and_then(|place| place.authority_folder.clone()),
        revocations: first(counted, |place| &place.revocations),
        revocation_folder: first(counted, |place| &place.revocation_folder),
        certificate: first(places, |place| &place.certificate),
        key: first(places, |place| &place.key),
        versions: first(places, |place| &place.versions).unwrap_or_default(),
        ciphers: first(places, |place| &place.ciphers),
        suites: first(places, |place| &place.suites),
        server_name: first(places, |place| &place.server_name),
    }
}

fn first<T: Clone>(places: &[&TlsRequest], field: impl Fn(&TlsRequest) -> &Option<T>) -> Option<T> {
    places.iter().find_map(|place| field(place).clone())
}

#[cfg(test)]
mod tests {
    use super::{Identity, TlsRequest, strongest_policy};
    use crate::tls_policy::SslMode;

    /// Reads `MODE`, `ca=FILE`, `capath=FOLDER`, `crl=FILE`, `tls-ca=FILE`, with blanks between.
    fn request(text: &str) -> TlsRequest {
        let mut request = TlsRequest::default();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some(("ca", file)) => request.authorities = Some(file.into()),
                Some(("capath", folder)) => request.authority_folder = Some(folder.into()),
                Some(("crl", file)) => request.revocations = Some(file.into()),
                Some(("tls-ca", file)) => {
                    request.authorities = Some(file.into());
                    request.identity = Identity::Verified;
                }
                _ => request.mode = Some(SslMode::from_name(word).expect(word)),
            }
        }
        request
    }

    /// Each case: command line, address, option files; then the mode, and the file of authorities.
    const CASES: [([&str; 3], &str, &str); 31] = [
        (["", "", ""], "PREFERRED", ""),
        (["", "", "DISABLED"], "DISABLED", ""),
        (["", "", "REQUIRED"], "REQUIRED", ""),
        (["", "", "VERIFY_CA"], "VERIFY_CA", ""),
        // An authority asks for verification, whatever else is asked for beside it.
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
        // Asking for more in a stronger place takes nothing away.
        (["", "REQUIRED", "ca=f"], "VERIFY_CA", "f"),
        (["REQUIRED", "", "ca=f VERIFY_IDENTITY"], "VERIFY_IDENTITY", "f"),
        (["REQUIRED", "tls-ca=f", ""], "VERIFY_IDENTITY", "f"),
        (["VERIFY_CA", "", "VERIFY_IDENTITY ca=f"], "VERIFY_IDENTITY", "f"),
        (["VERIFY_IDENTITY", "", "ca=f"], "VERIFY_IDENTITY", "f"),
        (["VERIFY_IDENTITY", "REQUIRED", "DISABLED"], "VERIFY_IDENTITY", ""),
        // Nor does it trust more than the strongest place that names authorities.
        (["ca=c", "tls-ca=f", ""], "VERIFY_IDENTITY", "c"),
        (["capath=d", "", "ca=f"], "VERIFY_CA", ""),
        // An explicit weaker mode lowers what weaker places say, and only that.
        (["DISABLED", "", "ca=f VERIFY_IDENTITY"], "DISABLED", ""),
        (["PREFERRED", "tls-ca=f", ""], "PREFERRED", ""),
        (["", "DISABLED", "REQUIRED"], "DISABLED", ""),
        (["REQUIRED", "DISABLED", "ca=f"], "REQUIRED", ""),
        (["", "REQUIRED", "DISABLED"], "REQUIRED", ""),
        (["ca=c", "DISABLED", ""], "VERIFY_CA", "c"),
        // Not beside what verifies.
        (["DISABLED ca=c", "", "VERIFY_IDENTITY"], "VERIFY_IDENTITY", "c"),
        (["PREFERRED crl=r", "", "ca=f"], "VERIFY_CA", "f"),
    ];

    #[test]
    fn the_strongest_of_what_is_said_holds() {
        for (places, mode, authorities) in CASES {
            let requests = places.map(request);
            let policy = strongest_policy(&requests.each_ref());
            let found = policy.authorities.map(|path| path.display().to_string()).unwrap_or_default();
            assert_eq!((policy.mode.name(), found.as_str()), (mode, authorities), "{places:?}");
        }
    }

    #[test]
    fn asking_for_more_never_takes_away() {
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

//! Address of a schema registry, and the login there.

use std::fmt;
use std::path::PathBuf;

use reqwest::Url;

use crate::http_client::{has_login, is_readable_by_others};

/// Property with a user and a password, as Confluent's clients name it.
const LOGIN_PROPERTY: &str = "basic.auth.user.info";
/// Property with a file of certificates.
pub(crate) const AUTHORITY_PROPERTY: &str = "ssl.ca.location";

/// Address of a schema registry, and the login there.
#[derive(Clone, Debug)]
pub struct RegistrySettings {
    pub(crate) url: Url,
    pub(crate) login: Option<RegistryLogin>,
    /// File with the certificates to trust, as PEM; `None` for those of the system.
    pub authority_file: Option<PathBuf>,
    /// Contents of this file.
    pub(crate) authority: Option<Vec<u8>>,
}

/// User and password.
#[derive(Clone)]
pub(crate) struct RegistryLogin {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for RegistryLogin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RegistryLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Error of the settings of a schema registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrySettingsError {
    /// Not an address.
    #[error("{0:?} is not an address of a schema registry: expected http://HOST:PORT/ or https://HOST:PORT/")]
    Malformed(String),
    /// A user in the address.
    #[error(
        "an address of a schema registry must not contain a user: put basic.auth.user.info=USER:PASSWORD into a file, for \
         --schema-registry-file"
    )]
    User,
    /// An unknown property, or a malformed one.
    #[error(
        "line {0} is not a property of a schema registry: expected basic.auth.user.info=USER:PASSWORD or ssl.ca.location=FILE"
    )]
    Property(usize),
    /// A password for an address without TLS.
    #[error(
        "the password of the schema registry would be sent without encryption: give an address with https://"
    )]
    PlainPassword,
}

impl RegistrySettings {
    /// Parses an address.
    ///
    /// # Errors
    ///
    /// Fails if it is malformed, or has a user.
    pub fn new(text: &str) -> Result<Self, RegistrySettingsError> {
        // The text may have a password.
        let shown = if text.contains('@') { "the address" } else { text };
        let malformed = || RegistrySettingsError::Malformed(shown.to_owned());
        let mut url = Url::parse(text).map_err(|_| malformed())?;
        if has_login(&url) {
            return Err(RegistrySettingsError::User);
        }
        let is_plain = url.query().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !is_plain {
            return Err(malformed());
        }
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        Ok(Self { url, login: None, authority_file: None, authority: None })
    }

    /// Adds the properties of a file: one per line; empty lines and lines that start with `#` are ignored.
    ///
    /// # Errors
    ///
    /// Fails if a line is not a known property, or a password would be sent without TLS to another machine.
    pub fn add_file(&mut self, text: &str) -> Result<(), RegistrySettingsError> {
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let malformed = RegistrySettingsError::Property(index + 1);
            let Some((name, value)) = line.split_once('=') else { return Err(malformed) };
            match (name.trim(), value.trim()) {
                (LOGIN_PROPERTY, value) => {
                    let Some((user, password)) = value.split_once(':') else { return Err(malformed) };
                    let (user, password) = (user.to_owned(), password.to_owned());
                    self.login = Some(RegistryLogin { user, password });
                }
                (AUTHORITY_PROPERTY, file) => self.authority_file = Some(PathBuf::from(file)),
                _ => return Err(malformed),
            }
        }
        match &self.login {
            Some(_) if is_readable_by_others(&self.url) => Err(RegistrySettingsError::PlainPassword),
            _ => Ok(()),
        }
    }

    /// Sets the contents of the file with the certificates to trust.
    #[must_use]
    pub fn with_authority(self, pem: Vec<u8>) -> Self {
        Self { authority: Some(pem), ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{RegistrySettings, RegistrySettingsError};

    #[test]
    fn passwords_need_tls_or_this_machine() {
        let check = |address: &str, is_allowed: bool| {
            let mut settings = RegistrySettings::new(address).unwrap();
            let added = settings.add_file("basic.auth.user.info=me:x");
            assert_eq!(added.is_ok(), is_allowed, "{address}: {added:?}");
        };
        check("https://registry/", true);
        check("http://registry/", false);
        check("http://10.0.0.7:8081/", false);
        check("http://localhost:8081/", true);
        check("http://127.0.0.1:8081/", true);
        check("http://[::1]:8081/", true);
    }

    #[test]
    fn addresses_have_no_user() {
        let check = |text: &str, expected: Option<&str>| {
            let url = RegistrySettings::new(text).map(|settings| settings.url.to_string());
            assert_eq!(url.as_deref().ok(), expected, "{text}");
        };
        check("http://r:8081", Some("http://r:8081/"));
        check("https://r/apis/ccompat/v7", Some("https://r/apis/ccompat/v7/"));
        for malformed in ["r:8081", "ftp://r/", "http://r/?a=b", "http://me:x@r/", "http://"] {
            check(malformed, None);
        }
    }

    #[test]
    fn logins_come_from_files() {
        let mut settings = RegistrySettings::new("https://r/").unwrap();
        settings.add_file("# login\n\nbasic.auth.user.info = me:a:b=c\nssl.ca.location=/ca.pem\n").unwrap();
        let login = settings.login.as_ref().unwrap();
        assert_eq!((&*login.user, &*login.password), ("me", "a:b=c"));
        assert_eq!(settings.authority_file.as_deref(), Some(Path::new("/ca.pem")));
        assert!(!format!("{settings:?}").contains("a:b"), "{settings:?}");
        for (line, expected) in [("x=y", 1), ("\nbasic.auth.user.info=me", 2)] {
            assert_eq!(settings.add_file(line), Err(RegistrySettingsError::Property(expected)));
        }
    }
}

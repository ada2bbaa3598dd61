//! Login by tokens, which a server issues to clients with a secret (OAuth 2.0 client credentials).
//!
//! The properties are those of librdkafka, which can use them only with libcurl. bintide fetches the tokens itself.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use reqwest::Url;

use crate::error::KafkaSinkError;
use crate::http_client::{has_login, is_readable_by_others};

/// Property with the address of the server.
const URL_PROPERTY: &str = "sasl.oauthbearer.token.endpoint.url";
/// Property with the client's name.
const CLIENT_PROPERTY: &str = "sasl.oauthbearer.client.id";
/// Property with the client's secret.
const SECRET_PROPERTY: &str = "sasl.oauthbearer.client.secret";
/// Property with what the token is to permit.
const SCOPE_PROPERTY: &str = "sasl.oauthbearer.scope";
/// Property with a file of certificates.
pub(crate) const AUTHORITY_PROPERTY: &str = "https.ca.location";

/// Properties that librdkafka does not get.
pub(crate) const OAUTH_PROPERTIES: [&str; 6] = [
    AUTHORITY_PROPERTY,
    CLIENT_PROPERTY,
    SECRET_PROPERTY,
    "sasl.oauthbearer.method",
    SCOPE_PROPERTY,
    URL_PROPERTY,
];

/// Server of tokens, and the client's account there.
#[derive(Clone)]
pub(crate) struct OauthSettings {
    pub(crate) url: Url,
    pub(crate) client: String,
    pub(crate) secret: String,
    pub(crate) scope: Option<String>,
    /// Certificates to trust, as PEM; `None` for those of the system.
    pub(crate) authorities: Option<Vec<u8>>,
}

impl OauthSettings {
    /// Returns the settings in the properties of a connection; `None` without `sasl.mechanism=OAUTHBEARER`.
    pub(crate) fn from_properties(
        properties: &BTreeMap<String, String>,
    ) -> Result<Option<Self>, KafkaSinkError> {
        let value = |name: &str| properties.get(name).filter(|value| !value.is_empty());
        let mechanism = value("sasl.mechanism");
        if !mechanism.is_some_and(|mechanism| mechanism.eq_ignore_ascii_case("OAUTHBEARER")) {
            return Ok(None);
        }
        let failed = |reason: String| KafkaSinkError::Oauth { reason };
        let required = |name: &str| {
            value(name).cloned().ok_or_else(|| {
                failed(format!("{name} is missing: put {URL_PROPERTY}, {CLIENT_PROPERTY} and {SECRET_PROPERTY} into a file, for --kafka-file"))
            })
        };
        let [address, client, secret] = [URL_PROPERTY, CLIENT_PROPERTY, SECRET_PROPERTY].map(required);
        let (address, client, secret) = (address?, client?, secret?);
        let url = Url::parse(&address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url
            .ok_or_else(|| failed(format!("{URL_PROPERTY} is not an address: expected https://HOST/PATH")))?;
        if has_login(&url) || url.query().is_some() {
            return Err(failed(format!(
                "{URL_PROPERTY} must not contain a user or a query: put the client and its secret into {CLIENT_PROPERTY} and \
                 {SECRET_PROPERTY}"
            )));
        }
        if is_readable_by_others(&url) {
            return Err(failed(format!(
                "the secret would be sent without encryption: give {URL_PROPERTY} an address with https://"
            )));
        }
        let authorities = value(AUTHORITY_PROPERTY).map(fs::read).transpose();
        let authorities =
            authorities.map_err(|error| failed(format!("could not read {AUTHORITY_PROPERTY}: {error}")))?;
        Ok(Some(Self { url, client, secret, scope: value(SCOPE_PROPERTY).cloned(), authorities }))
    }
}

impl fmt::Debug for OauthSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_str();
        out.debug_struct("OauthSettings")
            .field("url", &url)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::OauthSettings;

    #[test]
    fn settings_are_checked() {
        let check = |lines: &[&str], expected: Option<&str>| {
            let pairs = lines.iter().map(|line| line.split_once('=').unwrap());
            let properties = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let found = OauthSettings::from_properties(&properties);
            match expected {
                None => drop(found.unwrap()),
                Some(expected) => {
                    let error = found.unwrap_err().to_string();
                    assert_eq!(error, format!("sasl.mechanism=OAUTHBEARER: {expected}"), "{lines:?}");
                }
            }
        };
        let url = "sasl.oauthbearer.token.endpoint.url=https://idp/token";
        let local = "sasl.oauthbearer.token.endpoint.url=http://127.0.0.1:80/token";
        let [mechanism, client, secret] = [
            "sasl.mechanism=OAUTHBEARER",
            "sasl.oauthbearer.client.id=me",
            "sasl.oauthbearer.client.secret=x",
        ];
        check(&["sasl.mechanism=PLAIN"], None);
        check(&[mechanism, url, client, secret], None);
        check(&[mechanism, local, client, secret], None);
        let refused = |address: &str, expected: &str| {
            let address = format!("sasl.oauthbearer.token.endpoint.url={address}");
            check(&[mechanism, &address, client, secret], Some(expected));
        };
        for address in ["https://me:x@idp/token", "https://idp/token?key=x"] {
            refused(
                address,
                "sasl.oauthbearer.token.endpoint.url must not contain a user or a query: put the client and its secret \
                 into sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
            );
        }
        refused(
            "http://idp/token",
            "the secret would be sent without encryption: give sasl.oauthbearer.token.endpoint.url an address with \
             https://",
        );
        refused("idp", "sasl.oauthbearer.token.endpoint.url is not an address: expected https://HOST/PATH");
        check(
            &[mechanism, url, client],
            Some(
                "sasl.oauthbearer.client.secret is missing: put sasl.oauthbearer.token.endpoint.url, \
                 sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret into a file, for --kafka-file",
            ),
        );
        check(
            &[mechanism, url, client, secret, "https.ca.location=/nowhere"],
            Some("could not read https.ca.location: No such file or directory (os error 2)"),
        );
    }
}

//! Addresses of brokers.

use std::str::FromStr;

/// Scheme of an address.
const SCHEME: &str = "kafka://";
/// Port of a broker without one.
const DEFAULT_PORT: &str = "9092";

/// Addresses of the brokers that tell a client all others: `kafka://b1:9092,b2:9092/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaAddress {
    /// As librdkafka's `bootstrap.servers`: `b1:9092,b2:9092`.
    pub brokers: String,
}

/// Error of parsing an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KafkaAddressError {
    /// Another scheme, or no broker.
    #[error("{0:?} is not an address of Kafka: expected kafka://HOST:PORT,HOST:PORT/")]
    Malformed(String),
    /// A user in the address.
    #[error(
        "an address of Kafka must not contain a user: put sasl.username and sasl.password into a file, for --kafka-file"
    )]
    User,
}

impl KafkaAddress {
    /// Returns whether a text has the scheme of an address.
    pub fn has_scheme(text: &str) -> bool {
        text.starts_with(SCHEME)
    }
}

impl FromStr for KafkaAddress {
    type Err = KafkaAddressError;

    fn from_str(text: &str) -> Result<Self, KafkaAddressError> {
        // The text may be another address, with a password.
        let shown = if text.contains('@') { "the address" } else { text };
        let malformed = || KafkaAddressError::Malformed(shown.to_owned());
        let hosts = text.strip_prefix(SCHEME).ok_or_else(malformed)?;
        if hosts.contains('@') {
            return Err(KafkaAddressError::User);
        }
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
        let brokers: Option<Vec<String>> = hosts.split(',').map(broker).collect();
        Ok(Self { brokers: brokers.ok_or_else(malformed)?.join(",") })
    }
}

/// Adds the default port to a broker; `None` if it is malformed.
fn broker(text: &str) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (text, DEFAULT_PORT),
    };
    let is_host = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "/?#".contains(c));
    let is_ipv6 = host.starts_with('[') && host.ends_with(']');
    let is_one =
        is_host && (is_ipv6 || !host.contains(':')) && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_one.then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::KafkaAddress;

    #[test]
    fn addresses_are_lists_of_brokers() {
        let check = |text: &str, expected: Option<&str>| {
            let brokers = text.parse::<KafkaAddress>().map(|address| address.brokers);
            assert_eq!(brokers.as_deref().ok(), expected, "{text}");
        };
        check("kafka://b1:9092,b2:9093/", Some("b1:9092,b2:9093"));
        check("kafka://b1", Some("b1:9092"));
        check("kafka://[::1]:9092,[::1]", Some("[::1]:9092,[::1]:9092"));
        for malformed in
            ["kafka://", "kafka:///", "http://b1/", "kafka://b1:x/", "kafka://b1/topic", "kafka://b1:0"]
        {
            check(malformed, None);
        }
        check("kafka://me@b1/", None);
        check("kafka://::1/", None);
    }
}

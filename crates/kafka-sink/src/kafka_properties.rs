//! Properties of librdkafka that a user chooses.

use std::collections::BTreeMap;
use std::fmt;

/// Properties of librdkafka, by name. One with two names has the second of `ALIASES`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KafkaProperties {
    pub(crate) values: BTreeMap<String, String>,
}

impl fmt::Debug for KafkaProperties {
    /// Writes only the names: values may be secrets.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.values.keys()).finish()
    }
}

/// Error of a property.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KafkaPropertyError {
    /// Not of the form KEY=VALUE.
    #[error("{0:?} is not a property: expected KEY=VALUE")]
    Malformed(String),
    /// A property that exactly-once delivery fixes.
    #[error("{0} cannot be set: bintide sets it, because each transaction is written exactly once")]
    Fixed(String),
    /// A secret on the command line.
    #[error(
        "{0} is a secret, which other users of this machine would see: put it into a file, for --kafka-file"
    )]
    Secret(String),
    /// A property that needs OpenSSL, which this build lacks.
    #[error("{0} needs OpenSSL, and this bintide was built without it: build it with --features kafka-tls")]
    WithoutTls(String),
}

/// Properties that have two names in librdkafka.
const ALIASES: [(&str, &str); 12] = [
    // alias, name
    ("auto.commit.enable", "enable.auto.commit"),
    ("compression.codec", "compression.type"),
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
    ("max.in.flight", "max.in.flight.requests.per.connection"),
    ("message.send.max.retries", "retries"),
    ("message.timeout.ms", "delivery.timeout.ms"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("request.required.acks", "acks"),
    ("sasl.mechanisms", "sasl.mechanism"),
    ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"),
    ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"),
];

/// Properties that bintide sets.
const FIXED_NAMES: [&str; 13] = [
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "delivery.report.only.error",
    "dr_cb",
    "dr_msg_cb",
    "enable.auto.commit",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "isolation.level",
    "transactional.id",
];

/// Properties that contain secrets.
const SECRET_NAMES: [&str; 5] = [
    "sasl.oauthbearer.client.secret",
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
];

impl KafkaProperties {
    /// Adds a property `KEY=VALUE` of the command line.
    ///
    /// # Errors
    ///
    /// Fails if it is malformed, fixed, or a secret.
    pub fn add_argument(&mut self, text: &str) -> Result<(), KafkaPropertyError> {
        let (name, _) = split(text)?;
        if SECRET_NAMES.contains(&without_alias(name)) {
            return Err(KafkaPropertyError::Secret(name.to_owned()));
        }
        self.add(text)
    }

    /// Adds the properties of a file: one per line; empty lines and lines that start with `#` are ignored.
    ///
    /// # Errors
    ///
    /// Fails if a property is malformed or fixed.
    pub fn add_file(&mut self, text: &str) -> Result<(), KafkaPropertyError> {
        let lines = text.lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).try_for_each(|line| self.add(line))
    }

    /// Checks that this build has what the properties need.
    ///
    /// # Errors
    ///
    /// Fails if TLS, SCRAM or OAUTHBEARER are needed, and the build has no OpenSSL.
    pub fn check_build(&self) -> Result<(), KafkaPropertyError> {
        match self.values.iter().find(|(name, value)| needs_tls(name, value)) {
            Some((name, value)) if !cfg!(feature = "tls") => {
                Err(KafkaPropertyError::WithoutTls(format!("{name}={value}")))
            }
            _ => Ok(()),
        }
    }

    fn add(&mut self, text: &str) -> Result<(), KafkaPropertyError> {
        let (name, value) = split(text)?;
        let name_without_alias = without_alias(name);
        if FIXED_NAMES.contains(&name_without_alias) {
            return Err(KafkaPropertyError::Fixed(name.to_owned()));
        }
        self.values.insert(name_without_alias.to_owned(), value.to_owned());
        Ok(())
    }
}

/// Returns the name of a property, in place of its alias.
fn without_alias(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
}

/// Returns whether a property needs OpenSSL in librdkafka.
fn needs_tls(name: &str, value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    match name {
        "security.protocol" => value.ends_with("ssl"),
        "sasl.mechanism" => value.starts_with("scram-") || value == "oauthbearer",
        _ => false,
    }
}

/// Splits `KEY=VALUE`.
pub(crate) fn split(text: &str) -> Result<(&str, &str), KafkaPropertyError> {
    // The text may contain a secret.
    let malformed = || KafkaPropertyError::Malformed(text.chars().take(12).chain(['…']).collect());
    let (name, value) = text.split_once('=').ok_or_else(malformed)?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() { Err(malformed()) } else { Ok((name, value)) }
}

#[cfg(test)]
mod tests {
    use super::{KafkaProperties, KafkaPropertyError};

    #[test]
    fn secrets_come_from_files() {
        let mut properties = KafkaProperties::default();
        let secret = properties.add_argument("sasl.password=x").unwrap_err();
        assert_eq!(secret, KafkaPropertyError::Secret("sasl.password".to_owned()));
        properties.add_file("# login\n\nsasl.username = me\nsasl.password=a=b\n").unwrap();
        let found: Vec<&str> = properties.values.values().map(String::as_str).collect();
        assert_eq!(found, ["a=b", "me"]);
    }

    #[test]
    fn properties_of_exactly_once_delivery_are_fixed() {
        let mut properties = KafkaProperties::default();
        let fixed = properties.add_file("transactional.id=x").unwrap_err();
        assert_eq!(fixed, KafkaPropertyError::Fixed("transactional.id".to_owned()));
        assert!(properties.add_argument("linger.ms").is_err());
        properties.add_argument("linger.ms=5").unwrap();
    }

    #[test]
    fn aliases_are_the_same_property() {
        let mut properties = KafkaProperties::default();
        properties.add_file("queue.buffering.max.ms=2000\nlinger.ms=3000\ncompression.codec=lz4").unwrap();
        properties.add_argument("queue.buffering.max.ms=4000").unwrap();
        let found: Vec<(&str, &str)> =
            properties.values.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, [("compression.type", "lz4"), ("linger.ms", "4000")]);
        let fixed = properties.add_argument("metadata.broker.list=b1").unwrap_err();
        assert_eq!(fixed, KafkaPropertyError::Fixed("metadata.broker.list".to_owned()));
        let secret = "sasl.oauthbearer.client.credentials.client.secret";
        let refused = properties.add_argument(&format!("{secret}=x")).unwrap_err();
        assert_eq!(refused, KafkaPropertyError::Secret(secret.to_owned()));
    }

    #[test]
    fn missing_features_are_named() {
        let check = |text: &str, needs_tls: bool| {
            let mut properties = KafkaProperties::default();
            properties.add_argument(text).unwrap();
            let text = text.replace("mechanisms", "mechanism");
            let expected = match needs_tls && !cfg!(feature = "tls") {
                true => Err(KafkaPropertyError::WithoutTls(text.clone())),
                false => Ok(()),
            };
            assert_eq!(properties.check_build(), expected, "{text}");
        };
        check("security.protocol=ssl", true);
        check("security.protocol=SASL_SSL", true);
        check("security.protocol=sasl_plaintext", false);
        check("sasl.mechanisms=SCRAM-SHA-512", true);
        check("sasl.mechanism=OAUTHBEARER", true);
        check("sasl.mechanism=PLAIN", false);
    }
}

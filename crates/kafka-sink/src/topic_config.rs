//! Configuration of created topics that a user chooses.

use std::collections::BTreeMap;

use rdkafka::admin::NewTopic;

use crate::kafka_properties::{KafkaPropertyError, split};

/// Configuration of created topics: Kafka's properties of topics, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicConfig {
    values: BTreeMap<String, String>,
}

impl TopicConfig {
    /// Adds a property `KEY=VALUE`. Only the brokers know all names.
    ///
    /// # Errors
    ///
    /// Fails if it is malformed.
    pub fn add(&mut self, text: &str) -> Result<(), KafkaPropertyError> {
        let (name, value) = split(text)?;
        self.values.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// Returns a topic with this configuration.
    pub(crate) fn applied_to<'t>(&'t self, topic: NewTopic<'t>) -> NewTopic<'t> {
        self.values.iter().fold(topic, |topic, (name, value)| topic.set(name, value))
    }
}

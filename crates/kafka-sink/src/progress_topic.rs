//! Saved progress of a stream: the last committed records of its topic.

use rdkafka::error::KafkaError;
use stream::BrokerProgress;

use crate::error::KafkaSinkError;
use crate::kafka_connection::ConnectionConfig;
use crate::topic_reader::{parts, read_topic};

/// Key of the progress.
pub(crate) const PROGRESS_KEY: &[u8] = b"progress";
/// Key of the table definitions.
pub(crate) const DEFINITIONS_KEY: &[u8] = b"definitions";
/// Key of the number of a commit that saves no progress, such as those within a snapshot.
pub(crate) const COMMIT_KEY: &[u8] = b"commit";
/// The partition with the progress.
pub(crate) const PROGRESS_PARTITION: i32 = 0;

/// Progress and table definitions that a stream has saved.
#[derive(Debug, Default)]
pub(crate) struct SavedRecords {
    pub(crate) progress: Option<BrokerProgress>,
    /// As CREATE TABLE statements.
    pub(crate) definitions: Option<String>,
    /// Number of the last commit without progress.
    pub(crate) commit: Option<String>,
}

/// Reads the saved progress. All earlier transactions of the stream must be over.
pub(crate) fn read_progress(config: &ConnectionConfig, topic: &str) -> Result<SavedRecords, KafkaSinkError> {
    let failed = |error: KafkaError| KafkaSinkError::Other {
        what: "reading the progress of the stream",
        reason: error.to_string(),
    };
    let damaged = |reason: String| KafkaSinkError::Progress { topic: topic.to_owned(), reason };
    let (mut progress, mut definitions, mut commit) = (None, None, None);
    let read = read_topic(config, topic, &[PROGRESS_PARTITION], |record| {
        let (key, value) = parts(record);
        let value = value.map(<[u8]>::to_vec);
        match key {
            Some(PROGRESS_KEY) => progress = value,
            Some(DEFINITIONS_KEY) => definitions = value,
            Some(COMMIT_KEY) => commit = value,
            _ => {}
        }
    });
    read.map_err(failed)?;
    let text = |value: Option<Vec<u8>>| {
        value.map(String::from_utf8).transpose().map_err(|error| damaged(error.to_string()))
    };
    let progress = text(progress)?.map(|text| BrokerProgress::parse(&text)).transpose();
    let progress = progress.map_err(|error| damaged(error.to_string()))?;
    Ok(SavedRecords { progress, definitions: text(definitions)?, commit: text(commit)? })
}

//! Saved progress of a stream: the last committed records of its topic.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use stream::BrokerProgress;

use crate::connector_records::ConnectorRanges;
use crate::error::KafkaSinkError;
use crate::kafka_connection::ConnectionConfig;
use crate::topic_reader::{PartitionRange, TopicReader, parts, reader_reason};

/// Key of the progress.
pub(crate) const PROGRESS_KEY: &[u8] = b"progress";
/// Key of the table definitions.
pub(crate) const DEFINITIONS_KEY: &[u8] = b"definitions";
/// Key of the number of a commit that saves no progress, such as those within a snapshot.
pub(crate) const COMMIT_KEY: &[u8] = b"commit";
/// Key of the records that a connector wrote after its offset, until the stream has passed them.
pub(crate) const CONNECTOR_KEY: &[u8] = b"connector";
/// The partition with the progress.
pub(crate) const PROGRESS_PARTITION: i32 = 0;

/// Progress and table definitions that a stream has saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedRecords {
    pub(crate) progress: Option<BrokerProgress>,
    /// As CREATE TABLE statements.
    pub(crate) definitions: Option<String>,
    /// Number of the last commit without progress; `None` before the first one.
    pub(crate) commit_number: Option<u64>,
    /// Ranges with the records that a connector wrote after its offset; `None` without such records.
    pub(crate) connector: Option<ConnectorRanges>,
}

/// Values of the last records by their keys.
#[derive(Debug, Default)]
struct SavedValues {
    progress: Option<Vec<u8>>,
    definitions: Option<Vec<u8>>,
    commit_number: Option<Vec<u8>>,
    connector: Option<Vec<u8>>,
}

/// Reads the saved progress. All earlier transactions of the stream must be over.
pub(crate) fn read_progress(config: &ConnectionConfig, topic: &str) -> Result<SavedRecords, KafkaSinkError> {
    let failed = |error: KafkaError| KafkaSinkError::ReadProgress {
        topic: topic.to_owned(),
        reason: reader_reason(&error),
        remedy: match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                ". Give this account the permission READ on the topic"
            }
            _ => "",
        },
    };
    let mut values = SavedValues::default();
    let reader = TopicReader::new(config).map_err(failed)?;
    let read = reader.read(topic, &[PartitionRange::whole(PROGRESS_PARTITION)], |record| {
        let (key, value) = parts(record);
        let value = value.map(<[u8]>::to_vec);
        match key {
            Some(PROGRESS_KEY) => values.progress = value,
            Some(DEFINITIONS_KEY) => values.definitions = value,
            Some(COMMIT_KEY) => values.commit_number = value,
            Some(CONNECTOR_KEY) => values.connector = value,
            _ => {}
        }
    });
    read.map_err(failed)?;
    values.parse().map_err(|reason| KafkaSinkError::Progress { topic: topic.to_owned(), reason })
}

impl SavedValues {
    /// Parses the values. Returns the reason if one is damaged.
    fn parse(self) -> Result<SavedRecords, String> {
        let text = |value: Option<Vec<u8>>| {
            value.map(String::from_utf8).transpose().map_err(|error| error.to_string())
        };
        let progress = text(self.progress)?.map(|text| BrokerProgress::parse(&text)).transpose();
        let number = text(self.commit_number)?.map(|text| parse_number(&text)).transpose()?;
        let connector = self.connector.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        Ok(SavedRecords {
            progress: progress.map_err(|error| error.to_string())?,
            definitions: text(self.definitions)?,
            commit_number: number,
            connector: connector.map_err(|error| error.to_string())?,
        })
    }
}

fn parse_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("the number of the last commit is `{text}`; expected a number"))
}

#[cfg(test)]
mod tests {
    use super::SavedValues;

    #[test]
    fn damaged_values_are_errors() {
        let check = |progress: Option<&str>, number: Option<&str>, expected: Result<Option<u64>, &str>| {
            let value = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
            let (progress, commit_number) = (value(progress), value(number));
            let parsed = SavedValues { progress, commit_number, ..SavedValues::default() }.parse();
            match (parsed, expected) {
                (Ok(saved), Ok(expected)) => assert_eq!(saved.commit_number, expected),
                (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
                (parsed, _) => panic!("{number:?}: {parsed:?}"),
            }
        };
        check(None, None, Ok(None));
        check(Some("binlog.000001:10\n"), Some("7"), Ok(Some(7)));
        check(None, Some("7x"), Err("the number of the last commit is `7x`; expected a number"));
        check(None, Some(""), Err("the number of the last commit is ``; expected a number"));
        check(None, Some("-1"), Err("the number of the last commit is `-1`; expected a number"));
        check(Some("x"), Some("7"), Err("x"));
    }
}

//! Offsets of Debezium's MySQL connector, as Kafka Connect stores them in a file or a topic.

use std::collections::BTreeMap;

use rdkafka::error::KafkaError;
use serde::Deserialize;
use serde_json::Value;
use stream::{
    BrokerProgress, CommittedPart, DefinitionsUpdate, ResumePosition, ResumeToken, SnapshotProgress,
    StreamGtidState, StreamGtids, TransactionSkip,
};

use crate::java_map::{JavaMapEntry, parse_java_map};
use crate::kafka_connection::ConnectionConfig;
use crate::kafka_sink::KafkaSettings;
use crate::record_identity::RecordPlace;
use crate::topic_reader::{PartitionRange, TopicReader, parts, reader_reason};

/// Name of the server in the progress of an adopted stream: the position counts only for its GTIDs.
const SERVER: &str = "debezium";
/// Offset of a connector: the position where it stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebeziumOffset {
    /// Name of the connector.
    pub connector: String,
    /// Its topic prefix.
    pub prefix: String,
    position: OffsetPosition,
}

/// Value of an offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct OffsetPosition {
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    pos: u64,
    /// GTIDs of complete transactions.
    #[serde(default)]
    gtids: Option<String>,
    /// Processed events of the next transaction, from its BEGIN on.
    #[serde(default)]
    event: u64,
    /// Processed rows of the event after them.
    #[serde(default)]
    row: u64,
    /// Set if the records of transactions' starts and ends are written.
    #[serde(default)]
    transaction_id: Option<String>,
    /// Kind of the snapshot that is taken; `false` or absent without one.
    #[serde(default)]
    snapshot: Option<Value>,
    /// Set if all rows of the snapshot are written.
    #[serde(default)]
    snapshot_completed: bool,
}

impl OffsetPosition {
    fn is_in_snapshot(&self) -> bool {
        let has_begun = self.snapshot.as_ref().is_some_and(|kind| *kind != Value::Bool(false));
        has_begun && !self.snapshot_completed
    }
}

/// Error of reading offsets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DebeziumOffsetError {
    /// Not a file of offsets.
    #[error("this is not a file of offsets of Kafka Connect: expected a serialized java.util.HashMap")]
    Format,
    /// No offset of a connector.
    #[error("there is no offset of a Debezium connector for MySQL")]
    None,
    /// No offset of the connector.
    #[error("there is no offset of the connector {connector}: choose one of these with --connector: {found}")]
    Unknown {
        /// Name of the connector.
        connector: String,
        /// Names of the connectors that have an offset.
        found: String,
    },
    /// Offsets of several connectors.
    #[error("there are offsets of several connectors: {0}; choose one with --connector")]
    Several(String),
    /// A malformed offset.
    #[error("the offset of the connector {connector} is malformed: {reason}")]
    Malformed {
        /// Connector.
        connector: String,
        /// Reason.
        reason: String,
    },
    /// An unfinished snapshot.
    #[error(
        "the connector {0} has not finished its snapshot: let it finish, or start a new stream with --snapshot"
    )]
    Snapshot(String),
    /// A topic that cannot be read.
    #[error("could not read the topic {topic}: {reason}")]
    Topic {
        /// Topic.
        topic: String,
        /// Reason.
        reason: String,
    },
}

impl DebeziumOffset {
    /// Parses a file of offsets, and returns that of a connector. Its name may be left out if there is only one.
    ///
    /// # Errors
    ///
    /// Fails if the file is malformed, or does not have the offset.
    pub fn from_file(bytes: &[u8], connector: Option<&str>) -> Result<Self, DebeziumOffsetError> {
        let entries = parse_java_map(bytes).ok_or(DebeziumOffsetError::Format)?;
        let pairs = entries.into_iter().filter_map(|JavaMapEntry { key, value }| Some((key, value?)));
        Self::choose(pairs.collect(), connector)
    }

    /// Reads a topic of offsets, and returns that of a connector.
    ///
    /// # Errors
    ///
    /// Fails if the topic cannot be read, or does not have the offset.
    pub fn from_topic(
        settings: &KafkaSettings,
        topic: &str,
        connector: Option<&str>,
    ) -> Result<Self, DebeziumOffsetError> {
        let failed = |error: KafkaError| DebeziumOffsetError::Topic {
            topic: topic.to_owned(),
            reason: reader_reason(&error),
        };
        // The last record of a key counts.
        let mut offsets: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let config = ConnectionConfig::new(settings).map_err(|error| DebeziumOffsetError::Topic {
            topic: topic.to_owned(),
            reason: error.to_string(),
        })?;
        let reader = TopicReader::new(&config).map_err(failed)?;
        let partitions = reader.partitions(topic).map_err(failed)?;
        let ranges: Vec<PartitionRange> = partitions.into_iter().map(PartitionRange::whole).collect();
        let read = reader.read(topic, &ranges, |record| {
            let (key, value) = parts(record);
            let key = key.unwrap_or_default().to_vec();
            match value {
                Some(value) => drop(offsets.insert(key, value.to_vec())),
                None => drop(offsets.remove(&key)),
            }
        });
        read.map_err(failed)?;
        Self::choose(offsets, connector)
    }

    fn choose(
        offsets: BTreeMap<Vec<u8>, Vec<u8>>,
        connector: Option<&str>,
    ) -> Result<Self, DebeziumOffsetError> {
        let (mut found, mut names) = (Vec::new(), Vec::new());
        for (key, value) in &offsets {
            let Some((name, prefix)) = connector_of(key) else { continue };
            names.push(name.clone());
            if connector.is_none_or(|chosen| chosen == name) {
                found.push((name, prefix, value));
            }
        }
        let [(name, prefix, value)] = &found[..] else {
            return Err(match connector {
                _ if names.is_empty() => DebeziumOffsetError::None,
                Some(connector) if found.is_empty() => {
                    DebeziumOffsetError::Unknown { connector: connector.to_owned(), found: names.join(", ") }
                }
                _ => DebeziumOffsetError::Several(names.join(", ")),
            });
        };
        let position: OffsetPosition = serde_json::from_slice(value).map_err(|error| {
            DebeziumOffsetError::Malformed { connector: name.clone(), reason: error.to_string() }
        })?;
        if position.is_in_snapshot() {
            return Err(DebeziumOffsetError::Snapshot(name.clone()));
        }
        Ok(Self { connector: name.clone(), prefix: prefix.clone(), position })
    }

    /// Returns the progress of a stream that continues where the connector stopped.
    ///
    /// # Errors
    ///
    /// Fails if the offset is malformed.
    pub fn progress(&self) -> Result<BrokerProgress, DebeziumOffsetError> {
        let OffsetPosition { file, pos, gtids, event, row, .. } = &self.position;
        let malformed = |reason: &str| DebeziumOffsetError::Malformed {
            connector: self.connector.clone(),
            reason: reason.to_owned(),
        };
        let log = file.clone().ok_or_else(|| malformed("the field `file` is missing"))?;
        let gtid_state = match gtids.as_deref().filter(|text| !text.trim().is_empty()) {
            None => None,
            Some(text) => {
                let gtids = StreamGtids::parse(text).ok_or_else(|| malformed("invalid GTIDs"))?;
                Some(StreamGtidState { server: SERVER.to_owned(), gtids: Some(gtids) })
            }
        };
        let has_start = self.has_start(gtid_state.as_ref());
        let skip = TransactionSkip { events: *event, rows: *row, has_start };
        Ok(BrokerProgress {
            token: Some(ResumeToken { at: ResumePosition { log, position: *pos }, gtid: None }),
            part: CommittedPart::default(),
            skip: Some(skip).filter(|skip| skip.events > 0 || skip.rows > 0 || skip.has_start),
            gtid_state,
            definitions: DefinitionsUpdate::Keep,
            snapshot: SnapshotProgress::default(),
        })
    }

    /// Returns whether the offset is before a place: it does not contain the records there.
    pub(crate) fn is_before(&self, place: &RecordPlace) -> bool {
        let OffsetPosition { file, pos, gtids, .. } = &self.position;
        match place {
            RecordPlace::Gtid(gtid) => {
                let complete = gtids.as_deref().and_then(StreamGtids::parse);
                complete.is_some_and(|complete| !complete.contains(gtid))
            }
            RecordPlace::Position { log, position } => file.as_ref().is_some_and(|file| {
                let place = ResumePosition { log: log.clone(), position: *position };
                let offset = ResumePosition { log: file.clone(), position: *pos };
                offset == place || offset.is_before(&place)
            }),
        }
    }

    /// Returns whether the record of the next transaction's start is written. With the record of a transaction's end, the
    /// connector saves the id of the ended transaction.
    fn has_start(&self, gtid_state: Option<&StreamGtidState>) -> bool {
        let OffsetPosition { file, pos, event, row, transaction_id, .. } = &self.position;
        let Some(id) = transaction_id else { return false };
        if *event > 0 || *row > 0 {
            return true;
        }
        match gtid_state {
            Some(complete) => {
                let mut extended = complete.clone();
                extended.add(Some(id.as_str()));
                extended.gtids.is_some() && extended != *complete
            }
            None => file.as_ref().is_some_and(|file| *id == format!("file={file},pos={pos}")),
        }
    }
}

/// Returns connector and topic prefix of a key: `["connector",{"server":"prefix"}]`.
fn connector_of(key: &[u8]) -> Option<(String, String)> {
    let (name, partition): (String, BTreeMap<String, Value>) = serde_json::from_slice(key).ok()?;
    let prefix = partition.get("server")?.as_str()?.to_owned();
    Some((name, prefix))
}

#[cfg(test)]
mod tests {
    use super::DebeziumOffset;

    #[test]
    fn unknown_connectors_are_named() {
        let check = |names: &[&str], connector: Option<&str>, expected: &str| {
            let key = |name: &&str| format!("[\"{name}\",{{\"server\":\"shop\"}}]").into_bytes();
            let offsets =
                names.iter().map(|name| (key(name), br#"{"file":"b.1","pos":4}"#.to_vec())).collect();
            let found = match DebeziumOffset::choose(offsets, connector) {
                Ok(offset) => offset.connector,
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected);
        };
        check(&[], None, "there is no offset of a Debezium connector for MySQL");
        check(&[], Some("a"), "there is no offset of a Debezium connector for MySQL");
        check(&["a"], None, "a");
        check(&["a", "b"], Some("b"), "b");
        check(
            &["a", "b"],
            Some("c"),
            "there is no offset of the connector c: choose one of these with --connector: a, b",
        );
        check(
            &["a", "b"],
            None,
            "there are offsets of several connectors: a, b; choose one with --connector",
        );
    }

    #[test]
    fn offsets_must_state_a_position() {
        let check = |offset: &str, expected: &str| {
            let key = br#"["kafka",{"server":"shop"}]"#.to_vec();
            let found = DebeziumOffset::choose([(key, offset.as_bytes().to_vec())].into(), None);
            let error = found.and_then(|offset| offset.progress()).unwrap_err();
            assert_eq!(error.to_string(), expected, "{offset}");
        };
        check(r#"{"pos":4}"#, "the offset of the connector kafka is malformed: the field `file` is missing");
        check(
            r#"{"file":"b.1","pos":4,"gtids":"x:1"}"#,
            "the offset of the connector kafka is malformed: invalid GTIDs",
        );
        check(
            r#"{"file":7}"#,
            "the offset of the connector kafka is malformed: invalid type: integer `7`, expected a string at line 1 \
             column 9",
        );
        check(
            r#"{"file":"b.1","pos":4,"snapshot":true}"#,
            "the connector kafka has not finished its snapshot: let it finish, or start a new stream with --snapshot",
        );
    }

    #[test]
    fn offsets_become_progress() {
        let check = |offset: &str, expected: &str| {
            let key = br#"["kafka",{"server":"shop"}]"#.to_vec();
            let offset = offset.replace('U', "3e11fa47-71ca-11e1-9e33-c80aa9429562");
            let expected = expected.replace('U', "3e11fa47-71ca-11e1-9e33-c80aa9429562");
            let found = DebeziumOffset::choose([(key, offset.clone().into_bytes())].into(), None).unwrap();
            assert_eq!(found.progress().unwrap().to_string(), expected, "{offset}");
        };
        check(r#"{"file":"b.1","pos":4}"#, "b.1:4\n");
        check(r#"{"file":"b.1","pos":4,"event":2}"#, "b.1:4\nskip 2 0 0\n");
        // Within a transaction, after its start, and after the end of the one before.
        check(
            r#"{"file":"b.1","pos":4,"event":2,"row":1,"transaction_id":"file=b.1,pos=4"}"#,
            "b.1:4\nskip 2 1 1\n",
        );
        check(r#"{"file":"b.1","pos":4,"transaction_id":"file=b.1,pos=4"}"#, "b.1:4\nskip 0 0 1\n");
        check(r#"{"file":"b.1","pos":400,"transaction_id":"file=b.1,pos=4"}"#, "b.1:400\n");
        check(
            r#"{"file":"b.1","pos":4,"gtids":"U:1-5","transaction_id":"U:6"}"#,
            "b.1:4\nskip 0 0 1\nserver debezium\ngtids U:1-5\n",
        );
        check(
            r#"{"file":"b.1","pos":4,"gtids":"U:1-5","transaction_id":"U:5"}"#,
            "b.1:4\nserver debezium\ngtids U:1-5\n",
        );
    }
}

//! Dead letters: records that are too large for their topics, in parts, in a topic of their own.

use std::sync::Arc;

use crate::kafka_context::gtid_of;
use crate::pending_records::PendingRecord;

/// Header with the topic of the record, as Kafka Connect names it.
const TOPIC_HEADER: &str = "__connect.errors.topic";
/// Header with the error, as Kafka Connect names it.
const ERROR_HEADER: &str = "__connect.errors.exception.message";
/// Header with the GTID of the record's transaction.
const GTID_HEADER: &str = "__bintide.gtid";
/// Header with the number of a part and the number of parts: `2/3`.
pub(crate) const PART_HEADER: &str = "__bintide.part";

/// Size of a batch and of a record without key, value and headers: an upper bound.
const OVERHEAD: usize = 512;
/// Minimum size of a part.
const PART_SIZE_MIN: usize = 256;

/// Topic for dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeadLetterTopic {
    /// Its number.
    pub(crate) number: usize,
    /// Maximum size of a record in it.
    pub(crate) size_max: usize,
}

/// Names and values of headers.
pub(crate) type LetterHeaders = Arc<[(&'static str, String)]>;

/// Form of a record as a dead letter.
#[derive(Clone, Debug)]
pub(crate) struct DeadLetter {
    /// Number of the topic for dead letters.
    pub(crate) topic: usize,
    /// Maximum size of the value of a part.
    pub(crate) part_size: usize,
    pub(crate) headers: LetterHeaders,
}

/// Headers of a part of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LetterPart {
    pub(crate) headers: LetterHeaders,
    /// Number of the part, from 1 on.
    pub(crate) number: usize,
    pub(crate) count: usize,
}

impl DeadLetterTopic {
    /// Returns the form of a record of the topic `original`, with an error, as a dead letter.
    pub(crate) fn dead_letter(&self, record: &PendingRecord<'_>, original: &str, error: &str) -> DeadLetter {
        let gtid = gtid_of(record.value).map(|gtid| (GTID_HEADER, gtid));
        let texts = [(TOPIC_HEADER, original.to_owned()), (ERROR_HEADER, error.to_owned())];
        let headers: LetterHeaders = texts.into_iter().chain(gtid).collect();
        let texts: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let key = record.key.map_or(0, <[u8]>::len);
        let other = record.header.map_or(0, |(name, value)| name.len() + value.len());
        let part_size = self.size_max.saturating_sub(OVERHEAD + texts + key + other).max(PART_SIZE_MIN);
        DeadLetter { topic: self.number, part_size, headers }
    }
}

impl LetterPart {
    /// Returns the value of the header with the number of the part.
    pub(crate) fn part_text(&self) -> String {
        format!("{}/{}", self.number, self.count)
    }
}

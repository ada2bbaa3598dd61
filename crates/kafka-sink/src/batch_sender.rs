//! Sending of batches of records in transactions of Kafka, and recovery from transactions that fail.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, Headers as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _};
use stream::{BrokerProgress, DefinitionsUpdate};

use crate::connector_records::ConnectorRanges;
use crate::dead_letter::PART_HEADER;
use crate::error::KafkaSinkError;
use crate::kafka_connection::{ConnectionConfig, connect, is_retriable, size_property, transaction_timeout};
use crate::kafka_context::{DeliveryFailure, is_permanent, key_text, transaction_text};
use crate::kafka_notice::KafkaNotice;
use crate::kafka_sink::KafkaSettings;
use crate::kafka_state::SharedKafkaState;
use crate::pending_records::{PendingRecord, PendingRecords};
use crate::progress_topic::{
    COMMIT_KEY, CONNECTOR_KEY, DEFINITIONS_KEY, PROGRESS_KEY, PROGRESS_PARTITION, read_progress,
};
use crate::record_encoder::{EncodedRecord, RecordEncoder};
use crate::topic_catalogue::TopicCatalogue;
use crate::transaction_committer::{TransactionCommitter, TransactionFailure};

/// Size of a record without key, value and headers: the upper bound with which librdkafka reckons.
const RECORD_OVERHEAD: usize = 36;
/// Interval at which an abort polls the brokers.
const ABORT_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Pause before records are sent again.
const BACKOFF: Duration = Duration::from_secs(1);
/// Timeout of a request for the names of the topics.
const METADATA_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of the attempt to abort a transaction at the end of a run.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(1);

/// Sender of batches: one transaction of Kafka for each batch.
pub(crate) struct BatchSender {
    pub(crate) settings: KafkaSettings,
    pub(crate) committer: TransactionCommitter,
    pub(crate) topics: TopicCatalogue,
    /// `None` for JSON, which needs no encoding.
    pub(crate) encoder: Option<RecordEncoder>,
    /// Memory of the record that is sent.
    pub(crate) encoded: EncodedRecord,
    /// Number of the topic with the progress.
    pub(crate) progress_topic: usize,
    /// Maximum size of a batch of several records.
    pub(crate) batch_size: usize,
    pub(crate) transaction: KafkaTransactionState,
    /// Last committed progress.
    pub(crate) progress: Option<BrokerProgress>,
    /// Number of the last commit without progress, in this run and those before it.
    pub(crate) commit_number: u64,
    pub(crate) state: SharedKafkaState,
}

/// Transaction of the producer. A transaction whose commit runs is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KafkaTransactionState {
    None,
    /// The first `sent` records of its batch were handed to librdkafka.
    Open {
        sent: usize,
    },
    /// It takes no more records. Its commit recovers from the failure.
    Failed,
}

/// Uncommitted records of one transaction of Kafka.
#[derive(Debug, Default)]
pub(crate) struct PendingBatch {
    pub(crate) records: PendingRecords,
    /// Progress that the transaction saves; `None` before its commit, and for commits without progress.
    pub(crate) progress: Option<BrokerProgress>,
    /// Time of its first record, or of the commit's start if there is none.
    pub(crate) begun: Option<Instant>,
}

/// Description of a refused record, for an error message.
struct RefusedRecord {
    topic: String,
    key: String,
    transaction: String,
    size: usize,
}

/// Outcome of a transaction whose producer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailedOutcome {
    Committed,
    NotCommitted,
}

/// Result of handing a record to librdkafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendResult {
    Taken,
    /// The transaction has failed.
    TransactionFailed,
    TooLarge,
}

impl BatchSender {
    /// Hands the records of a batch to librdkafka. Stops at the first one that it refuses because the transaction has
    /// failed.
    pub(crate) fn send(&mut self, records: &mut PendingRecords) -> Result<(), KafkaSinkError> {
        if self.transaction == KafkaTransactionState::None {
            let begun = self.committer.producer.begin_transaction();
            begun.map_err(|error| self.committer.fatal_error("starting a transaction", &error))?;
            self.transaction = KafkaTransactionState::Open { sent: 0 };
        }
        let mut encoded = std::mem::take(&mut self.encoded);
        let result = self.send_rest(records, &mut encoded);
        self.encoded = encoded;
        if result.is_err() {
            self.transaction = KafkaTransactionState::Failed;
        }
        result
    }

    fn send_rest(
        &mut self,
        records: &mut PendingRecords,
        encoded: &mut EncodedRecord,
    ) -> Result<(), KafkaSinkError> {
        while let KafkaTransactionState::Open { sent } = self.transaction
            && let Some(record) = records.get(sent)
        {
            match self.send_record(&record, sent, encoded)? {
                SendResult::Taken => self.transaction = KafkaTransactionState::Open { sent: sent + 1 },
                SendResult::TransactionFailed => self.transaction = KafkaTransactionState::Failed,
                SendResult::TooLarge => self.replace_by_dead_letters(records, &[sent].into())?,
            }
        }
        Ok(())
    }

    /// Hands a record to librdkafka.
    fn send_record(
        &self,
        pending: &PendingRecord<'_>,
        number: usize,
        encoded: &mut EncodedRecord,
    ) -> Result<SendResult, KafkaSinkError> {
        let mut record: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(self.topics.name(pending.topic), number);
        (record.key, record.payload) = (pending.key, pending.value);
        if let (Some(encoder), Some(encoding)) = (&self.encoder, pending.encoding) {
            encoder
                .encode(encoding, pending.key, pending.value, encoded)
                .map_err(|error| self.unencodable(pending, &error))?;
            (record.key, record.payload) =
                (pending.key.map(|_| &*encoded.key), pending.value.map(|_| &*encoded.value));
        }
        if pending.topic == self.progress_topic {
            record.partition = Some(PROGRESS_PARTITION);
        }
        if pending.header.is_some() || pending.dead_letter.is_some() {
            record.headers = Some(headers_of(pending));
        }
        let begun = Instant::now();
        loop {
            let (error, refused) = match self.committer.producer.send(record) {
                Ok(()) => return Ok(SendResult::Taken),
                Err(refused) => refused,
            };
            match error.rdkafka_error_code() {
                Some(RDKafkaErrorCode::QueueFull) => {
                    self.committer.check_stop(begun)?;
                    self.committer.wait_for_delivery();
                    record = refused;
                }
                Some(RDKafkaErrorCode::MessageSizeTooLarge) => return Ok(SendResult::TooLarge),
                Some(code) if is_permanent(code) => {
                    return Err(self.refused(Some(*pending), code));
                }
                _ => {
                    self.settings.notices.notify(KafkaNotice::RecordRefused { error: error.to_string() });
                    return Ok(SendResult::TransactionFailed);
                }
            }
        }
    }

    /// Replaces records that are too large by dead letters. Returns an error if there is no dead-letter topic, or if the
    /// records exceed its limit too.
    fn replace_by_dead_letters(
        &self,
        records: &mut PendingRecords,
        numbers: &BTreeSet<usize>,
    ) -> Result<(), KafkaSinkError> {
        let Some(letters) = self.topics.dead_letters() else { return Err(self.too_large(records, numbers)) };
        let is_replaceable = |number: &usize| {
            let topic = records.get(*number).map(|record| record.topic);
            topic.is_some_and(|topic| topic != letters.number && topic != self.progress_topic)
        };
        if !numbers.iter().all(is_replaceable) {
            return Err(self.too_large(records, numbers));
        }
        for number in numbers {
            let RefusedRecord { topic, key, transaction, size } = self.refused_record(records.get(*number));
            let letters = self.topics.name(letters.number).to_owned();
            self.settings.notices.notify(KafkaNotice::DeadLetter { size, topic, key, transaction, letters });
        }
        let topics = &self.topics;
        records.replace_by_dead_letters(numbers, |record| {
            let size = self.sent_size(record);
            let error =
                format!("a record of {size} bytes is larger than the limit of the producer or of its topic");
            letters.dead_letter(record, topics.name(record.topic), &error)
        });
        self.state.count_dead_letters(numbers.len());
        Ok(())
    }

    /// Sends all records of a batch. Their transaction can then be committed.
    pub(crate) fn finish_sending(&mut self, records: &mut PendingRecords) -> Result<(), TransactionFailure> {
        self.send(records).map_err(TransactionFailure::Fatal)?;
        match self.transaction {
            KafkaTransactionState::Open { .. } => Ok(()),
            KafkaTransactionState::None | KafkaTransactionState::Failed => {
                Err(TransactionFailure::Abort("a record could not be sent".to_owned()))
            }
        }
    }

    /// Recovers from a failure of the transaction of a batch, and commits the batch.
    pub(crate) fn retry_until_committed(
        &mut self,
        batch: &mut PendingBatch,
        mut failure: TransactionFailure,
    ) -> Result<(), KafkaSinkError> {
        let begun = Instant::now();
        loop {
            self.committer.check_stop(begun)?;
            let recovered = match failure {
                TransactionFailure::Abort(reason) => self.recover_from_abort(&mut batch.records, &reason),
                TransactionFailure::Fatal(error) => Err(self.topic_error(&batch.records).unwrap_or(error)),
            };
            if let Err(error) = recovered {
                if !self.may_reconnect(batch, &error) {
                    return Err(error);
                }
                if self.reconnect(batch, error)? == FailedOutcome::Committed {
                    break;
                }
                thread::sleep(BACKOFF);
            }
            let committed = self.finish_sending(&mut batch.records).and_then(|()| self.committer.commit());
            match committed {
                Ok(()) => break,
                Err(again) => failure = again,
            }
        }
        self.transaction = KafkaTransactionState::None;
        Ok(())
    }

    /// Aborts the transaction. The caller sends its records again.
    pub(crate) fn abort_transaction(&mut self) -> Result<(), KafkaSinkError> {
        if self.transaction == KafkaTransactionState::None {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            // The transaction is over only once the results of its records were taken.
            self.committer.producer.poll(Duration::ZERO);
            match self.committer.producer.abort_transaction(ABORT_POLL_INTERVAL) {
                Ok(()) => break,
                Err(error) if is_retriable(&error) => self.committer.check_stop(begun)?,
                Err(error) => return Err(self.committer.fatal_error("aborting a transaction", &error)),
            }
        }
        self.transaction = KafkaTransactionState::None;
        // The records of the transaction are sent again.
        self.committer.producer.context().take_failures();
        self.state.count_abort();
        Ok(())
    }

    /// Aborts the transaction, whose records are discarded. If the brokers ended it while they were out of reach, replaces the
    /// producer.
    pub(crate) fn discard_transaction(&mut self, batch: &PendingBatch) -> Result<(), KafkaSinkError> {
        let Err(error) = self.abort_transaction() else { return Ok(()) };
        if !self.may_reconnect(batch, &error) {
            return Err(error);
        }
        // The batch has saved no progress.
        self.reconnect(batch, error).map(drop)
    }

    /// Tries once to abort the transaction: without an end, readers would wait for its timeout.
    pub(crate) fn abandon_transaction(&self) {
        if self.transaction != KafkaTransactionState::None {
            self.committer.producer.poll(Duration::ZERO);
            // If this fails, the transaction ends at its timeout.
            let _ = self.committer.producer.abort_transaction(ABANDON_TIMEOUT);
        }
    }

    /// Returns the error of the first of these records, which is too large.
    fn too_large(&self, records: &PendingRecords, numbers: &BTreeSet<usize>) -> KafkaSinkError {
        let record = numbers.first().and_then(|number| records.get(*number));
        let RefusedRecord { topic, key, transaction, size } = self.refused_record(record);
        let limit = self.limit_text(record.map(|record| record.topic), size);
        KafkaSinkError::TooLarge { topic, key, transaction, size, limit }
    }

    /// Returns the limit that a record of this size exceeds: that of the producer or of its topic.
    fn limit_text(&self, topic: Option<usize>, size: usize) -> String {
        let producer = size_property(&self.settings, "message.max.bytes");
        if size > producer {
            return format!("message.max.bytes={producer}");
        }
        match topic.and_then(|topic| self.topics.record_size_max(topic)) {
            Some(limit) => format!("max.message.bytes={limit} of the topic"),
            None => "max.message.bytes of the topic".to_owned(),
        }
    }

    /// Returns the error of a record that does not fit its schema.
    fn unencodable(&self, record: &PendingRecord<'_>, error: &serde_json::Error) -> KafkaSinkError {
        let RefusedRecord { topic, key, transaction, .. } = self.refused_record(Some(*record));
        KafkaSinkError::Unencodable { topic, key, transaction, reason: error.to_string() }
    }

    /// Returns the error of a record that was refused, and that another attempt cannot write.
    fn refused(&self, record: Option<PendingRecord<'_>>, code: RDKafkaErrorCode) -> KafkaSinkError {
        if let (Some(record), RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition) =
            (record, code)
            && let Some(error) = self.deletion_error([record.topic].into())
        {
            return error;
        }
        let RefusedRecord { topic, key, transaction, .. } = self.refused_record(record);
        KafkaSinkError::Refused { topic, key, transaction, reason: code.to_string() }
    }

    /// Describes a pending record for an error.
    fn refused_record(&self, record: Option<PendingRecord<'_>>) -> RefusedRecord {
        RefusedRecord {
            topic: record.map_or_else(String::new, |record| self.topics.name(record.topic).to_owned()),
            key: key_text(record.and_then(|record| record.key)),
            transaction: transaction_text(record.and_then(|record| record.value)),
            size: record.map_or(0, |record| self.sent_size(&record)),
        }
    }

    /// Returns the size of a record as librdkafka compares it with `message.max.bytes`: with key, value, headers, and an upper
    /// bound for the other fields.
    fn sent_size(&self, record: &PendingRecord<'_>) -> usize {
        let sizes = |parts: [Option<&[u8]>; 2]| parts.into_iter().flatten().map(<[u8]>::len).sum();
        let mut encoded = EncodedRecord::default();
        let is_encoded = self.encoder.as_ref().zip(record.encoding).is_some_and(|(encoder, number)| {
            encoder.encode(number, record.key, record.value, &mut encoded).is_ok()
        });
        let parts_size: usize = match is_encoded {
            true => sizes([record.key.map(|_| &*encoded.key), record.value.map(|_| &*encoded.value)]),
            false => sizes([record.key, record.value]),
        };
        RECORD_OVERHEAD + parts_size + headers_size(&headers_of(record))
    }

    /// Returns whether a new producer may continue after an error of the old one. If the brokers were out of reach for long,
    /// they have ended its transaction, and it looks as if another run had taken over.
    fn may_reconnect(&self, batch: &PendingBatch, error: &KafkaSinkError) -> bool {
        match error {
            KafkaSinkError::Fenced { .. } => {
                batch.begun.is_some_and(|begun| begun.elapsed() >= transaction_timeout(&self.settings))
            }
            KafkaSinkError::Other { .. } => true,
            _ => false,
        }
    }

    /// Replaces the producer. Returns whether the batch was committed, or the error that another run has committed in the
    /// meantime.
    fn reconnect(
        &mut self,
        batch: &PendingBatch,
        error: KafkaSinkError,
    ) -> Result<FailedOutcome, KafkaSinkError> {
        // Until a commit succeeds, `/readyz` returns the error.
        self.state.set_error(&error.to_string());
        self.settings.notices.notify(KafkaNotice::Reconnecting { error: error.to_string() });
        let config = ConnectionConfig::renewed(&self.settings)?;
        self.replace_producer(&config)?;
        let saved = read_progress(&config, self.topics.name(self.progress_topic))?;
        let is_saved = |progress: Option<&BrokerProgress>| {
            saved.progress.as_ref().map(BrokerProgress::to_string) == progress.map(BrokerProgress::to_string)
        };
        let is_committed = match &batch.progress {
            Some(progress) => is_saved(Some(progress)),
            // No two commits without progress have the same number.
            None => saved.commit_number == Some(self.commit_number),
        };
        // A commit without progress keeps the earlier one: other progress is that of another run.
        let is_ours = match batch.progress.is_some() && is_committed {
            true => true,
            false => is_saved(self.progress.as_ref()),
        };
        match (is_ours, is_committed) {
            (true, true) => Ok(FailedOutcome::Committed),
            (true, false) => Ok(FailedOutcome::NotCommitted),
            (false, _) => Err(KafkaSinkError::Fenced { name: self.settings.name.clone() }),
        }
    }

    fn replace_producer(&mut self, config: &ConnectionConfig) -> Result<(), KafkaSinkError> {
        let (producer, _) = connect(config, &self.settings, &self.state, self.batch_size)?;
        self.committer.producer = Arc::new(producer);
        self.transaction = KafkaTransactionState::None;
        Ok(())
    }

    /// Aborts the transaction, to send its records again after a pause.
    fn recover_from_abort(
        &mut self,
        records: &mut PendingRecords,
        reason: &str,
    ) -> Result<(), KafkaSinkError> {
        if let Some(error) = self.topic_error(records) {
            return Err(error);
        }
        let failures = self.committer.producer.context().take_failures();
        let is_size = |failure: &&DeliveryFailure| failure.code == RDKafkaErrorCode::MessageSizeTooLarge;
        let permanent = failures.iter().find(|failure| is_permanent(failure.code) && !is_size(failure));
        if let Some(DeliveryFailure { number, code }) = permanent {
            return Err(self.refused(records.get(*number), *code));
        }
        let numbers: BTreeSet<usize> =
            failures.iter().filter(is_size).map(|failure| failure.number).collect();
        if !numbers.is_empty() {
            return self.recover_from_oversize(records, &numbers);
        }
        if self.state.set_error(reason) {
            self.settings.notices.notify(KafkaNotice::TransactionAborted { reason: reason.to_owned() });
        }
        self.abort_transaction()?;
        thread::sleep(BACKOFF);
        Ok(())
    }

    /// Returns the error of a failed transaction that cannot succeed if its records are sent again: because of a topic that was
    /// deleted, or to which the account may not write.
    fn topic_error(&self, records: &PendingRecords) -> Option<KafkaSinkError> {
        if self.transaction == KafkaTransactionState::None {
            return None;
        }
        match self.committer.transaction_error()? {
            RDKafkaErrorCode::TopicAuthorizationFailed => Some(self.authorization_error(records)),
            RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition => {
                self.deletion_error(topics_of(records))
            }
            _ => None,
        }
    }

    fn authorization_error(&self, records: &PendingRecords) -> KafkaSinkError {
        let context = self.committer.producer.context();
        let refused = context.refused_record(RDKafkaErrorCode::TopicAuthorizationFailed);
        if let Some(record) = refused.and_then(|number| records.get(number)) {
            return KafkaSinkError::NotAuthorized { topics: self.topics.name(record.topic).to_owned() };
        }
        // Takes librdkafka's log, which names the topic.
        self.committer.producer.poll(ABORT_POLL_INTERVAL);
        let names = || {
            let numbers = topics_of(records).into_iter();
            numbers.map(|number| self.topics.name(number)).collect::<Vec<&str>>().join(", ")
        };
        KafkaSinkError::NotAuthorized { topics: context.unauthorized_topic().unwrap_or_else(names) }
    }

    /// Returns the error of the first of these topics that does not exist any more; `None` if the brokers do not answer.
    fn deletion_error(&self, mut missing: BTreeSet<usize>) -> Option<KafkaSinkError> {
        // A broker may not know a topic that was created a moment ago.
        for pause in [Duration::ZERO, BACKOFF] {
            thread::sleep(pause);
            let metadata = self.committer.producer.client().fetch_metadata(None, METADATA_TIMEOUT).ok()?;
            let existing: HashSet<&str> = metadata.topics().iter().map(|topic| topic.name()).collect();
            missing.retain(|number| !existing.contains(self.topics.name(*number)));
        }
        let topic = *missing.first()?;
        let name = self.topics.name(topic).to_owned();
        Some(match topic == self.progress_topic {
            true => KafkaSinkError::ProgressDeleted { topic: name },
            false => KafkaSinkError::TopicDeleted { topic: name },
        })
    }

    /// Aborts the transaction, of which the brokers refuse batches with these records as too large. With smaller batches,
    /// they may take the records; a record that they refuse alone is too large.
    fn recover_from_oversize(
        &mut self,
        records: &mut PendingRecords,
        numbers: &BTreeSet<usize>,
    ) -> Result<(), KafkaSinkError> {
        let refused = numbers.iter().filter_map(|number| records.get(*number));
        let topics: BTreeSet<usize> = refused.map(|record| record.topic).collect();
        let limits = topics.iter().map(|topic| self.topics.record_size_max(*topic).unwrap_or(1));
        let limit = limits.min().unwrap_or(1).max(1);
        self.abort_transaction()?;
        if self.batch_size <= limit {
            return self.replace_by_dead_letters(records, numbers);
        }
        self.settings.notices.notify(KafkaNotice::BatchSizeReduced { limit });
        self.batch_size = limit;
        self.replace_producer(&ConnectionConfig::renewed(&self.settings)?)
    }

    /// Pushes the progress that a batch saves; without progress, the number of the commit, so that its outcome can be known
    /// after the connection is lost.
    pub(crate) fn push_progress(&mut self, batch: &mut PendingBatch, progress: Option<&BrokerProgress>) {
        batch.progress = progress.cloned();
        let Some(progress) = progress else {
            self.commit_number += 1;
            let text = self.commit_number.to_string();
            batch.records.push_pending(self.progress_record(COMMIT_KEY, Some(text.as_bytes())));
            return;
        };
        let text = progress.to_string();
        let record = |key, value| self.progress_record(key, value);
        let definitions = match &progress.definitions {
            DefinitionsUpdate::Keep => None,
            DefinitionsUpdate::Forget => Some(record(DEFINITIONS_KEY, None)),
            DefinitionsUpdate::Replace(definitions) => {
                Some(record(DEFINITIONS_KEY, Some(definitions.as_bytes())))
            }
        };
        let progress = record(PROGRESS_KEY, Some(text.as_bytes()));
        definitions.into_iter().chain([progress]).for_each(|record| batch.records.push_pending(record));
    }

    /// Pushes the ranges with the records of a connector that a batch saves; `None` forgets them.
    pub(crate) fn push_connector(&self, batch: &mut PendingBatch, ranges: Option<&ConnectorRanges>) {
        let text = ranges.map(|ranges| serde_json::to_string(ranges).expect("ours: names and numbers"));
        batch.records.push_pending(self.progress_record(CONNECTOR_KEY, text.as_ref().map(String::as_bytes)));
    }

    const fn progress_record<'p>(&self, key: &'p [u8], value: Option<&'p [u8]>) -> PendingRecord<'p> {
        let (topic, key) = (self.progress_topic, Some(key));
        PendingRecord { topic, key, value, header: None, dead_letter: None, encoding: None }
    }
}

/// Returns the numbers of the topics of records.
fn topics_of(records: &PendingRecords) -> BTreeSet<usize> {
    (0..records.len()).filter_map(|number| Some(records.get(number)?.topic)).collect()
}

/// Returns the size of headers in a record: each has the sizes of its name and its value before them.
fn headers_size(headers: &OwnedHeaders) -> usize {
    // Kafka's variable-length integers: 7 bits a byte, after a bit for the sign.
    let number_size =
        |number: usize| (usize::BITS - (2 * number).leading_zeros()).div_ceil(7).max(1) as usize;
    let field_size = |field: usize| number_size(field) + field;
    let sizes = headers
        .iter()
        .map(|header| field_size(header.key.len()) + field_size(header.value.map_or(0, <[u8]>::len)));
    sizes.sum()
}

fn headers_of(pending: &PendingRecord<'_>) -> OwnedHeaders {
    let mut headers = OwnedHeaders::new();
    if let Some((key, value)) = pending.header {
        headers = headers.insert(Header { key, value: Some(value) });
    }
    let Some(letter) = pending.dead_letter else { return headers };
    for (key, value) in &*letter.headers {
        headers = headers.insert(Header { key, value: Some(value) });
    }
    headers.insert(Header { key: PART_HEADER, value: Some(&letter.part_text()) })
}

#[cfg(test)]
mod tests {
    use rdkafka::message::{Header, OwnedHeaders};

    use super::headers_size;

    #[test]
    fn headers_have_the_sizes_of_their_parts() {
        let check = |value: usize, expected: usize| {
            let value = vec![b'x'; value];
            let headers = OwnedHeaders::new().insert(Header { key: "name", value: Some(&value) });
            assert_eq!(headers_size(&headers), expected, "{}", value.len());
        };
        check(0, 6);
        check(63, 69);
        check(64, 71);
        assert_eq!(headers_size(&OwnedHeaders::new()), 0);
    }
}

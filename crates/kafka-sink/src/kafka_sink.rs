//! The sink: a transactional producer.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _};
use stream::{BrokerProgress, BrokerSink, CommitStart, DefinitionsUpdate, KeyedRecord, KeyedRecordKind};

use crate::dead_letter::PART_HEADER;
use crate::error::KafkaSinkError;
use crate::kafka_address::KafkaAddress;
use crate::kafka_connection::{
    ConnectionConfig, OPEN_TIMEOUT, config_error, connect, fetch_metadata, is_retriable, reason_of,
    size_property, transaction_timeout,
};
use crate::kafka_context::{DeliveryFailure, key_text, transaction_text};
use crate::kafka_notice::{KafkaNotice, KafkaNoticeReceiver};
use crate::kafka_properties::KafkaProperties;
use crate::kafka_state::SharedKafkaState;
use crate::pending_records::{PendingRecord, PendingRecords};
use crate::progress_topic::{
    COMMIT_KEY, DEFINITIONS_KEY, PROGRESS_KEY, PROGRESS_PARTITION, SavedRecords, read_progress,
};
use crate::record_encoder::{EncodedRecord, RecordEncoder, RecordOrigin};
use crate::record_format::RecordFormats;
use crate::registry_settings::RegistrySettings;
use crate::schema_registry::SchemaRegistry;
use crate::topic_catalogue::{TopicCatalogue, TopicPolicy, progress_topic_name};
use crate::topic_route::TopicRoute;
use crate::transaction_committer::{
    CommitOutcome, CommitThread, RunningCommit, TransactionCommitter, TransactionFailure,
};

/// Size of uncommitted records at which they are committed. Bounds memory, which has them three times: those of the commit
/// that runs, those after it, and in librdkafka.
const PENDING_SIZE_MAX: usize = 24 << 20;
/// Number of uncommitted records at which they are committed. librdkafka needs some 200 bytes for each.
const PENDING_RECORDS_MAX: usize = 75_000;
/// Shortest time after which uncommitted records are committed.
const COMMIT_INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Longest time after which uncommitted records are committed.
const COMMIT_INTERVAL_MAX: Duration = Duration::from_secs(2);
/// Time between two commits as a multiple of the time that a commit takes, so that the brokers mostly take records.
const COMMIT_INTERVAL_FACTOR: u32 = 4;
/// Interval at which progress without records is saved.
const IDLE_COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks at the brokers' answers while a transaction is aborted.
const ABORT_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Pause before records are sent again.
const BACKOFF: Duration = Duration::from_secs(1);
/// Number of records after which the number of uncommitted ones is shown.
const SHOW_INTERVAL: usize = 256;
/// Longest time that a run waits for a commit after an error.
const DROP_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of a sink.
#[derive(Clone, Debug)]
pub struct KafkaSettings {
    /// Brokers.
    pub address: KafkaAddress,
    /// Name of the stream: Debezium's topic prefix.
    pub name: String,
    /// Properties of librdkafka.
    pub properties: KafkaProperties,
    /// Treatment of topics that do not exist.
    pub topics: TopicPolicy,
    /// Topics of tables that do not have topics of their own. The first route that matches a table applies.
    pub routes: Vec<TopicRoute>,
    /// Topic for records that are too large for their topics; `None` to return an error.
    pub dead_letters: Option<String>,
    /// Formats of keys and values.
    pub formats: RecordFormats,
    /// Schema registry; needed for Avro and JSON Schema.
    pub registry: Option<RegistrySettings>,
    /// Returns whether the run is to end.
    pub is_stop_requested: fn() -> bool,
    /// Receiver of notices.
    pub notices: KafkaNoticeReceiver,
}

#[cfg(test)]
impl KafkaSettings {
    /// Returns settings of a stream `p` whose topics must exist.
    pub(crate) fn of_test() -> Self {
        Self {
            address: KafkaAddress { brokers: String::new() },
            name: "p".to_owned(),
            properties: KafkaProperties::default(),
            topics: TopicPolicy::Require,
            routes: Vec::new(),
            dead_letters: None,
            formats: RecordFormats::default(),
            registry: None,
            is_stop_requested: || false,
            notices: KafkaNoticeReceiver::of_test(),
        }
    }
}

/// Sink, and the progress that an earlier run has saved.
#[derive(Debug)]
pub struct OpenedKafka {
    /// Sink.
    pub sink: KafkaSink,
    /// Progress; `None` for a new stream.
    pub progress: Option<BrokerProgress>,
    /// Table definitions, as CREATE TABLE statements.
    pub definitions: Option<String>,
}

/// Apache Kafka as a sink.
///
/// A transaction that the brokers abort is sent again, until they commit it.
pub struct KafkaSink {
    settings: KafkaSettings,
    committer: TransactionCommitter,
    commit_thread: CommitThread,
    topics: TopicCatalogue,
    /// `None` for JSON, which needs no encoding.
    encoder: Option<RecordEncoder>,
    encoded: EncodedRecord,
    /// Key of a row whose table shares its topic. Its memory is used again.
    routed_key: Vec<u8>,
    /// Number of the topic with the progress.
    progress_topic: usize,
    /// Maximum size of a batch of several records.
    batch_size: usize,
    /// Uncommitted records.
    pending: PendingRecords,
    /// Memory of committed records, for later ones.
    spare: PendingRecords,
    /// Number of uncommitted records that were handed to librdkafka.
    sent: usize,
    /// True within a transaction of Kafka.
    is_open: bool,
    /// True after a failure of the transaction, until its commit recovers from it.
    has_failed: bool,
    /// Time of the first uncommitted record.
    begun: Option<Instant>,
    /// Transaction whose commit runs. The uncommitted records come after it.
    running: Option<PendingCommit>,
    commit_interval: Duration,
    committed: Instant,
    /// Last committed progress.
    progress: Option<BrokerProgress>,
    /// Number of the last commit without progress, in this run and those before it.
    commit_number: u64,
    state: SharedKafkaState,
}

/// Transaction whose commit runs.
#[derive(Debug)]
struct PendingCommit {
    commit: RunningCommit,
    records: PendingRecords,
    progress: Option<BrokerProgress>,
    /// Time of its first record, or of the commit's start if there is none.
    begun: Option<Instant>,
}

/// Record that is refused, for an error.
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

impl KafkaSink {
    /// Connects to the brokers, fences off earlier runs of the stream, and reads the progress that they saved.
    ///
    /// # Errors
    ///
    /// If a property is wrong, the brokers cannot be reached, or the progress cannot be read.
    pub fn open(settings: &KafkaSettings, state: &SharedKafkaState) -> Result<OpenedKafka, KafkaSinkError> {
        let config = ConnectionConfig::new(settings)?;
        let batch_size = size_property(settings, "batch.size");
        let (producer, existing) = connect(&config, settings, state, batch_size)?;
        let is_stop_requested = settings.is_stop_requested;
        let mut topics = TopicCatalogue::new(settings, config.clone(), existing);
        let progress_topic = topics.progress_topic()?;
        if let Some(name) = &settings.dead_letters {
            topics.add_dead_letters(name, size_property(settings, "message.max.bytes"))?;
        }
        let encoder = encoder_of(settings, state)?;
        let SavedRecords { progress, definitions, commit_number } =
            read_progress(&config, topics.name(progress_topic))?;
        let (name, state) = (settings.name.clone(), state.clone());
        let committer = TransactionCommitter {
            producer: Arc::new(producer),
            name,
            state: state.clone(),
            is_stop_requested,
        };
        let commit_thread = CommitThread::start().map_err(|error| KafkaSinkError::Other {
            what: "starting the thread of commits",
            reason: error.to_string(),
        })?;
        let sink = Self {
            settings: settings.clone(),
            committer,
            commit_thread,
            topics,
            encoder,
            encoded: EncodedRecord::default(),
            routed_key: Vec::new(),
            progress_topic,
            batch_size,
            pending: PendingRecords::default(),
            spare: PendingRecords::default(),
            sent: 0,
            is_open: false,
            has_failed: false,
            begun: None,
            running: None,
            commit_interval: COMMIT_INTERVAL_MIN,
            committed: Instant::now(),
            progress: progress.clone(),
            commit_number: commit_number.unwrap_or_default(),
            state,
        };
        Ok(OpenedKafka { sink, progress, definitions })
    }

    /// Returns whether a stream of this name has saved progress. Does not disturb a run of the stream.
    ///
    /// # Errors
    ///
    /// If the brokers cannot be reached, or the progress cannot be read.
    pub fn has_progress(settings: &KafkaSettings) -> Result<bool, KafkaSinkError> {
        let config = ConnectionConfig::new(settings)?;
        let consumer = config.consumer().map_err(config_error)?;
        let metadata = fetch_metadata(&consumer, None, OPEN_TIMEOUT);
        let metadata = metadata.map_err(|error| KafkaSinkError::Unreachable {
            brokers: settings.address.brokers.clone(),
            seconds: OPEN_TIMEOUT.as_secs(),
            reason: reason_of(&error),
        })?;
        let topic = progress_topic_name(&settings.name);
        match metadata.topics().iter().any(|existing| existing.name() == topic) {
            true => Ok(read_progress(&config, &topic)?.progress.is_some()),
            false => Ok(false),
        }
    }

    /// Saves the progress of a stream that another program has begun.
    ///
    /// # Errors
    ///
    /// If the brokers do not commit it.
    pub fn save(&mut self, progress: &BrokerProgress) -> Result<(), KafkaSinkError> {
        self.push_progress(progress);
        self.start_commit(Some(progress))?;
        self.finish_commit()
    }

    fn notify(&self, notice: KafkaNotice) {
        self.settings.notices.notify(notice);
    }

    /// Hands all pending records to librdkafka. Stops at the first one that it refuses because its transaction has failed.
    fn send_pending(&mut self) -> Result<(), KafkaSinkError> {
        if !self.is_open {
            let begun = self.committer.producer.begin_transaction();
            begun.map_err(|error| self.committer.fatal_error("starting a transaction", &error))?;
            self.is_open = true;
        }
        let mut encoded = std::mem::take(&mut self.encoded);
        let sent = self.send_rest(&mut encoded);
        self.encoded = encoded;
        sent
    }

    fn send_rest(&mut self, encoded: &mut EncodedRecord) -> Result<(), KafkaSinkError> {
        while let Some(record) = self.pending.get(self.sent) {
            match self.send(&record, encoded)? {
                SendResult::Taken => self.sent += 1,
                SendResult::TransactionFailed => {
                    self.has_failed = true;
                    return Ok(());
                }
                SendResult::TooLarge => self.replace_by_dead_letters(&[self.sent].into())?,
            }
        }
        Ok(())
    }

    /// Hands a record to librdkafka.
    fn send(
        &self,
        pending: &PendingRecord<'_>,
        encoded: &mut EncodedRecord,
    ) -> Result<SendResult, KafkaSinkError> {
        let mut record: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(self.topics.name(pending.topic), self.sent);
        (record.key, record.payload) = (pending.key, pending.value);
        if let (Some(encoder), Some(number)) = (&self.encoder, pending.encoding) {
            encoder
                .encode(number, pending.key, pending.value, encoded)
                .map_err(|error| self.unencodable(&error))?;
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
                _ => {
                    self.notify(KafkaNotice::RecordRefused { error: error.to_string() });
                    return Ok(SendResult::TransactionFailed);
                }
            }
        }
    }

    /// Replaces records that are too large by dead letters. Without a topic for them, or if they are too large for it,
    /// gives an error.
    fn replace_by_dead_letters(&mut self, numbers: &BTreeSet<usize>) -> Result<(), KafkaSinkError> {
        let Some(letters) = self.topics.dead_letters() else { return Err(self.too_large(numbers)) };
        let is_replaceable = |number: &usize| {
            let topic = self.pending.get(*number).map(|record| record.topic);
            topic.is_some_and(|topic| topic != letters.number && topic != self.progress_topic)
        };
        if !numbers.iter().all(is_replaceable) {
            return Err(self.too_large(numbers));
        }
        for number in numbers {
            let RefusedRecord { topic, key, transaction, size } = self.refused_record(Some(number));
            let letters = self.topics.name(letters.number).to_owned();
            self.notify(KafkaNotice::DeadLetter { size, topic, key, transaction, letters });
        }
        let topics = &self.topics;
        self.pending.replace_by_dead_letters(numbers, |record| {
            let size = record.value.map_or(0, <[u8]>::len);
            let error = format!("a record of {size} bytes is larger than the limit of the topic");
            letters.dead_letter(record, topics.name(record.topic), &error)
        });
        self.state.count_dead_letters(numbers.len());
        Ok(())
    }

    /// Sends all pending records. Their transaction can then be committed.
    fn finish_sending(&mut self) -> Result<(), TransactionFailure> {
        self.send_pending().map_err(TransactionFailure::Fatal)?;
        match self.sent < self.pending.len() {
            true => Err(TransactionFailure::Abort("a record could not be sent".to_owned())),
            false => Ok(()),
        }
    }

    /// Starts the commit of all pending records.
    fn start_commit(&mut self, progress: Option<&BrokerProgress>) -> Result<(), KafkaSinkError> {
        if let Err(failure) = self.finish_sending() {
            return self.retry_until_committed(failure, progress);
        }
        let (commit, spare) = (self.commit_thread.commit(&self.committer), std::mem::take(&mut self.spare));
        let records = std::mem::replace(&mut self.pending, spare);
        let progress = progress.cloned();
        let begun = self.begun.take().or_else(|| Some(Instant::now()));
        self.running = Some(PendingCommit { commit, records, progress, begun });
        (self.sent, self.is_open) = (0, false);
        Ok(())
    }

    /// Waits for the end of the commit that runs. If it fails, sends its records again, before those after it.
    fn finish_commit(&mut self) -> Result<(), KafkaSinkError> {
        let Some(PendingCommit { commit, records, progress, begun }) = self.running.take() else {
            return Ok(());
        };
        let CommitOutcome { result, elapsed } = commit.wait();
        self.commit_interval =
            (elapsed * COMMIT_INTERVAL_FACTOR).clamp(COMMIT_INTERVAL_MIN, COMMIT_INTERVAL_MAX);
        let Err(failure) = result else {
            self.record_commit(records, progress.as_ref());
            return Ok(());
        };
        let later = std::mem::replace(&mut self.pending, records);
        let later_begun = std::mem::replace(&mut self.begun, begun);
        (self.sent, self.is_open) = (self.pending.len(), true);
        let settled = self.retry_until_committed(failure, progress.as_ref());
        (self.pending, self.begun) = (later, later_begun);
        if self.pending.len() > 0 {
            self.state.begin_waiting();
        }
        self.show_waiting();
        settled
    }

    /// Recovers from a failure of the transaction of the pending records, and commits them.
    fn retry_until_committed(
        &mut self,
        mut failure: TransactionFailure,
        progress: Option<&BrokerProgress>,
    ) -> Result<(), KafkaSinkError> {
        loop {
            let recovered = match failure {
                TransactionFailure::Abort(reason) => self.recover_from_abort(&reason),
                TransactionFailure::Fatal(error) => Err(error),
            };
            if let Err(error) = recovered {
                if !self.may_reconnect(&error) {
                    return Err(error);
                }
                if self.reconnect(error, progress)? == FailedOutcome::Committed {
                    break;
                }
            }
            self.has_failed = false;
            let committed = self.finish_sending().and_then(|()| self.committer.commit());
            match committed {
                Ok(()) => break,
                Err(again) => failure = again,
            }
        }
        let records = std::mem::take(&mut self.pending);
        (self.sent, self.is_open, self.has_failed, self.begun) = (0, false, false, None);
        self.record_commit(records, progress);
        Ok(())
    }

    /// Takes notice of a committed transaction.
    fn record_commit(&mut self, records: PendingRecords, progress: Option<&BrokerProgress>) {
        self.state.count_commit(records.len(), records.size());
        self.spare = records.cleared();
        if let Some(error) = self.state.end_waiting() {
            self.notify(KafkaNotice::CommitsResumed { error });
        }
        if self.pending.len() > 0 {
            self.state.begin_waiting();
        }
        if let Some(progress) = progress {
            self.progress = Some(progress.clone());
        }
        self.committed = Instant::now();
        self.show_waiting();
    }

    /// Shows the number and size of the uncommitted records.
    fn show_waiting(&self) {
        let running = self.running.as_ref().map(|running| &running.records);
        let [records, bytes] = running.map_or([0, 0], |records| [records.len(), records.size()]);
        self.state.set_waiting(self.pending.len() + records, self.pending.size() + bytes);
    }

    /// Aborts the transaction. All pending records are to be sent again.
    fn abort_transaction(&mut self) -> Result<(), KafkaSinkError> {
        (self.sent, self.has_failed) = (0, false);
        if !self.is_open {
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
        self.is_open = false;
        // The records of the transaction are sent again.
        self.committer.producer.context().take_failures();
        self.state.count_abort();
        Ok(())
    }

    /// Returns the error of the first of these records, which is too large.
    fn too_large(&self, numbers: &BTreeSet<usize>) -> KafkaSinkError {
        let RefusedRecord { topic, key, transaction, size } = self.refused_record(numbers.first());
        KafkaSinkError::TooLarge { topic, key, transaction, size }
    }

    /// Returns the error of the next record to send, which does not fit its schema.
    fn unencodable(&self, error: &serde_json::Error) -> KafkaSinkError {
        let RefusedRecord { topic, key, transaction, .. } = self.refused_record(Some(&self.sent));
        KafkaSinkError::Unencodable { topic, key, transaction, reason: error.to_string() }
    }

    /// Describes a pending record for an error.
    fn refused_record(&self, number: Option<&usize>) -> RefusedRecord {
        let record = number.and_then(|number| self.pending.get(*number));
        RefusedRecord {
            topic: record.map_or_else(String::new, |record| self.topics.name(record.topic).to_owned()),
            key: key_text(record.and_then(|record| record.key)),
            transaction: transaction_text(record.and_then(|record| record.value)),
            size: record.map_or(0, |record| self.sent_size(&record)),
        }
    }

    /// Returns the size of key and value as they are sent.
    fn sent_size(&self, record: &PendingRecord<'_>) -> usize {
        let sizes = |parts: [Option<&[u8]>; 2]| parts.into_iter().flatten().map(<[u8]>::len).sum();
        let mut encoded = EncodedRecord::default();
        let is_encoded = self.encoder.as_ref().zip(record.encoding).is_some_and(|(encoder, number)| {
            encoder.encode(number, record.key, record.value, &mut encoded).is_ok()
        });
        match is_encoded {
            true => sizes([record.key.map(|_| &*encoded.key), record.value.map(|_| &*encoded.value)]),
            false => sizes([record.key, record.value]),
        }
    }

    /// Returns whether a new producer may continue after an error of the old one. If the brokers were out of reach for long,
    /// they have ended its transaction, and it looks as if another run had taken over.
    fn may_reconnect(&self, error: &KafkaSinkError) -> bool {
        match error {
            KafkaSinkError::Fenced { .. } => {
                self.begun.is_some_and(|begun| begun.elapsed() >= transaction_timeout(&self.settings))
            }
            KafkaSinkError::Other { .. } => true,
            _ => false,
        }
    }

    /// Replaces the producer. Gives the error if another run has committed in the meantime.
    fn reconnect(
        &mut self,
        error: KafkaSinkError,
        progress: Option<&BrokerProgress>,
    ) -> Result<FailedOutcome, KafkaSinkError> {
        self.notify(KafkaNotice::Reconnecting { error: error.to_string() });
        let config = ConnectionConfig::renewed(&self.settings)?;
        self.replace_producer(&config)?;
        let saved = read_progress(&config, self.topics.name(self.progress_topic))?;
        let is_saved = |progress: Option<&BrokerProgress>| {
            saved.progress.as_ref().map(BrokerProgress::to_string) == progress.map(BrokerProgress::to_string)
        };
        let is_committed = match progress {
            Some(_) => is_saved(progress),
            // No two commits without progress have the same number.
            None => saved.commit_number == Some(self.commit_number),
        };
        match (is_committed, is_saved(self.progress.as_ref())) {
            (true, _) => Ok(FailedOutcome::Committed),
            (false, true) => Ok(FailedOutcome::NotCommitted),
            (false, false) => Err(KafkaSinkError::Fenced { name: self.settings.name.clone() }),
        }
    }

    fn replace_producer(&mut self, config: &ConnectionConfig) -> Result<(), KafkaSinkError> {
        let (producer, _) = connect(config, &self.settings, &self.state, self.batch_size)?;
        self.committer.producer = Arc::new(producer);
        (self.is_open, self.sent) = (false, 0);
        self.state.begin_waiting();
        Ok(())
    }

    /// Aborts the transaction, to send its records again after a pause.
    fn recover_from_abort(&mut self, reason: &str) -> Result<(), KafkaSinkError> {
        let failures = self.committer.producer.context().take_failures();
        let is_size = |failure: &&DeliveryFailure| failure.code == RDKafkaErrorCode::MessageSizeTooLarge;
        let permanent = failures.iter().find(|failure| failure.is_permanent() && !is_size(failure));
        if let Some(DeliveryFailure { number, code }) = permanent {
            let RefusedRecord { topic, key, transaction, .. } = self.refused_record(Some(number));
            return Err(KafkaSinkError::Refused { topic, key, transaction, reason: code.to_string() });
        }
        let numbers: BTreeSet<usize> =
            failures.iter().filter(is_size).map(|failure| failure.number).collect();
        if !numbers.is_empty() {
            return self.recover_from_oversize(&numbers);
        }
        if self.state.set_error(reason) {
            self.notify(KafkaNotice::TransactionAborted { reason: reason.to_owned() });
        }
        self.abort_transaction()?;
        thread::sleep(BACKOFF);
        Ok(())
    }

    /// Aborts the transaction, of which the brokers refuse batches with these records as too large. With smaller batches,
    /// they may take the records; a record that they refuse alone is too large.
    fn recover_from_oversize(&mut self, numbers: &BTreeSet<usize>) -> Result<(), KafkaSinkError> {
        let records = numbers.iter().filter_map(|number| self.pending.get(*number));
        let topics: BTreeSet<usize> = records.map(|record| record.topic).collect();
        let limits = topics.iter().map(|topic| self.topics.record_size_max(*topic).unwrap_or(1));
        let limit = limits.min().unwrap_or(1).max(1);
        self.abort_transaction()?;
        if self.batch_size <= limit {
            return self.replace_by_dead_letters(numbers);
        }
        self.notify(KafkaNotice::BatchSizeReduced { limit });
        self.batch_size = limit;
        self.replace_producer(&ConnectionConfig::renewed(&self.settings)?)
    }

    /// Pushes the number of a commit without progress, so that its outcome can be known after the connection is lost.
    fn push_commit_number(&mut self) {
        self.commit_number += 1;
        let text = self.commit_number.to_string();
        self.pending.push_pending(self.progress_record(COMMIT_KEY, Some(text.as_bytes())));
    }

    const fn progress_record<'p>(&self, key: &'p [u8], value: Option<&'p [u8]>) -> PendingRecord<'p> {
        let (topic, key) = (self.progress_topic, Some(key));
        PendingRecord { topic, key, value, header: None, dead_letter: None, encoding: None }
    }

    fn push_progress(&mut self, progress: &BrokerProgress) {
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
        definitions.into_iter().chain([progress]).for_each(|record| self.pending.push_pending(record));
    }
}

impl BrokerSink for KafkaSink {
    fn push(&mut self, record: &KeyedRecord<'_>) -> io::Result<()> {
        let topic = self.topics.topic_of(record.kind)?;
        let is_row = matches!(record.kind, KeyedRecordKind::Row(_));
        let routed = self.topics.last_routed().filter(|_| is_row);
        let mut record = *record;
        if let Some(routed) = routed {
            record.kind = routed.kind();
            if let Some(key) = record.key {
                routed.put_key(&mut self.routed_key, key);
                record.key = Some(&self.routed_key);
            }
        }
        let origin = RecordOrigin { topic, routed: routed.map(|routed| routed.number) };
        let encoding = match &mut self.encoder {
            Some(encoder) => Some(encoder.encoding_of(record.kind, origin, self.topics.name(topic))?),
            None => None,
        };
        self.pending.push(topic, encoding, &record);
        if self.begun.is_none() {
            self.begun = Some(Instant::now());
            self.state.begin_waiting();
        }
        if self.pending.len().is_multiple_of(SHOW_INTERVAL) {
            self.show_waiting();
        }
        if self.running.as_ref().is_some_and(|running| running.commit.is_finished()) {
            self.finish_commit()?;
        }
        // While a commit runs, and after a failure, the records wait.
        if self.running.is_none()
            && !self.has_failed
            && let Err(error) = self.send_pending()
        {
            self.has_failed = true;
            if !matches!(error, KafkaSinkError::Fenced { .. } | KafkaSinkError::Other { .. }) {
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn mark(&mut self) {
        self.pending.mark();
    }

    fn is_full(&self) -> bool {
        self.pending.size() >= PENDING_SIZE_MAX || self.pending.len() >= PENDING_RECORDS_MAX
    }

    fn is_commit_due(&self) -> bool {
        let is_running = self.running.as_ref().is_some_and(|running| !running.commit.is_finished());
        !is_running && self.begun.is_some_and(|begun| begun.elapsed() >= self.commit_interval)
    }

    fn committed(&self) -> Option<&BrokerProgress> {
        self.progress.as_ref()
    }

    fn commit(&mut self, progress: Option<&BrokerProgress>) -> io::Result<CommitStart> {
        let is_idle = self.pending.len() == 0
            && progress.is_none_or(|progress| progress.definitions == DefinitionsUpdate::Keep);
        if is_idle && (self.running.is_some() || self.committed.elapsed() < IDLE_COMMIT_INTERVAL) {
            // Transactions without records may be read again.
            return Ok(CommitStart::Deferred);
        }
        self.finish_commit()?;
        self.show_waiting();
        match progress {
            Some(progress) => self.push_progress(progress),
            None => self.push_commit_number(),
        }
        self.start_commit(progress)?;
        Ok(CommitStart::Started)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(self.finish_commit()?)
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.abort_transaction()?;
        self.pending.truncate(self.pending.marked());
        self.show_waiting();
        Ok(())
    }

    fn poll(&mut self) -> io::Result<()> {
        self.committer.producer.poll(Duration::ZERO);
        // No records come: wait for the commit, so that all records that arrive meanwhile share the next commit.
        Ok(self.finish_commit()?)
    }
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KafkaSink").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

/// Ends an open transaction. Otherwise readers would wait for its timeout.
impl Drop for KafkaSink {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.commit.wait_within(DROP_TIMEOUT);
        }
        if self.is_open {
            self.committer.producer.poll(Duration::ZERO);
            let _ = self.committer.producer.abort_transaction(BACKOFF);
        }
    }
}

/// Returns the encoder of keys and values; `None` for JSON, which needs no encoding.
fn encoder_of(
    settings: &KafkaSettings,
    state: &SharedKafkaState,
) -> Result<Option<RecordEncoder>, KafkaSinkError> {
    if !settings.formats.need_schemas() {
        return Ok(None);
    }
    let registry = match &settings.registry {
        Some(registry) => {
            state.begin_registry();
            let (notices, is_stop_requested) = (settings.notices.clone(), settings.is_stop_requested);
            Some(SchemaRegistry::new(registry.clone(), state.clone(), notices, is_stop_requested)?)
        }
        None => None,
    };
    Ok(Some(RecordEncoder::new(settings.formats, registry)))
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

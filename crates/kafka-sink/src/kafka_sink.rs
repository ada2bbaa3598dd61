//! The sink: a transactional producer.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use stream::{BrokerProgress, BrokerSink, CommitStart, DefinitionsUpdate, KeyedRecord, KeyedRecordKind};

use crate::batch_sender::{BatchSender, KafkaTransactionState, PendingBatch};
use crate::connector_records::{ConnectorRanges, ConnectorRecords, RepeatFilter};
use crate::debezium_offset::DebeziumOffset;
use crate::error::KafkaSinkError;
use crate::kafka_address::KafkaAddress;
use crate::kafka_connection::{
    ConnectionConfig, OPEN_TIMEOUT, config_error, connect, fetch_metadata, reason_of, size_property,
};
use crate::kafka_notice::{KafkaNotice, KafkaNoticeReceiver};
use crate::kafka_properties::KafkaProperties;
use crate::kafka_state::SharedKafkaState;
use crate::pending_records::PendingRecords;
use crate::progress_topic::{SavedRecords, read_progress};
use crate::record_encoder::{EncodedRecord, RecordEncoder, RecordOrigin};
use crate::record_format::RecordFormats;
use crate::registry_settings::RegistrySettings;
use crate::schema_registry::SchemaRegistry;
use crate::topic_catalogue::{TopicCatalogue, TopicPolicy, progress_topic_name};
use crate::topic_reader::{TopicReader, reader_reason};
use crate::topic_route::TopicRoute;
use crate::transaction_committer::{CommitOutcome, CommitThread, RunningCommit, TransactionCommitter};

/// Size of uncommitted records at which they are committed. Bounds memory, which has them three times: those of the commit
/// that runs, those after it, and in librdkafka.
const PENDING_SIZE_MAX: usize = 24 << 20;
/// Number of uncommitted records at which they are committed. librdkafka needs some 200 bytes for each.
const PENDING_RECORDS_MAX: usize = 75_000;
/// Shortest time after which uncommitted records are committed.
const COMMIT_INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Longest time after which uncommitted records are committed, so that readers get records of slow brokers soon, too.
const COMMIT_INTERVAL_MAX: Duration = Duration::from_secs(2);
/// Time between two commits as a multiple of the time that a commit takes. So commits run for at most a quarter of the time,
/// and the brokers take records in the rest.
const COMMIT_INTERVAL_FACTOR: u32 = 4;
/// Interval at which progress without records is saved.
const IDLE_COMMIT_INTERVAL: Duration = Duration::from_secs(1);
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
    /// Returns whether a stop was requested.
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
    sender: BatchSender,
    commit_thread: CommitThread,
    /// Filter of records that a connector has written; `None` once the stream has passed them.
    repeats: Option<RepeatFilter>,
    /// Key of a row whose table shares its topic. Its memory is used again.
    routed_key: Vec<u8>,
    /// Uncommitted records after those whose commit runs.
    pending: PendingBatch,
    /// Memory of committed records, for later ones.
    spare: PendingRecords,
    /// Batch whose commit runs.
    running: Option<RunningBatch>,
    commit_interval: Duration,
    committed: Instant,
    state: SharedKafkaState,
}

/// Batch whose commit runs.
#[derive(Debug)]
struct RunningBatch {
    commit: RunningCommit,
    batch: PendingBatch,
}

impl KafkaSink {
    /// Connects to the brokers, fences off earlier runs of the stream, and reads the progress that they saved.
    ///
    /// # Errors
    ///
    /// Fails if a property is wrong, the brokers cannot be reached, or the progress cannot be read.
    pub fn open(settings: &KafkaSettings, state: &SharedKafkaState) -> Result<OpenedKafka, KafkaSinkError> {
        let config = ConnectionConfig::new(settings)?;
        let batch_size = size_property(settings, "batch.size");
        let (producer, existing) = connect(&config, settings, state, batch_size)?;
        state.end_waiting();
        let is_stop_requested = settings.is_stop_requested;
        let mut topics = TopicCatalogue::new(settings, config.clone(), existing);
        let progress_topic = topics.progress_topic()?;
        if let Some(name) = &settings.dead_letters {
            topics.add_dead_letters(name, size_property(settings, "message.max.bytes"))?;
        }
        let encoder = encoder_of(settings, state)?;
        let SavedRecords { progress, definitions, commit_number, connector } =
            read_progress(&config, topics.name(progress_topic))?;
        let repeats = connector.map(|ranges| read_connector_records(&config, &settings.name, &ranges));
        let repeats = repeats.transpose()?.flatten();
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
        let sender = BatchSender {
            settings: settings.clone(),
            committer,
            topics,
            encoder,
            encoded: EncodedRecord::default(),
            progress_topic,
            batch_size,
            transaction: KafkaTransactionState::None,
            progress: progress.clone(),
            commit_number: commit_number.unwrap_or_default(),
            state: state.clone(),
        };
        let sink = Self {
            sender,
            commit_thread,
            repeats,
            routed_key: Vec::new(),
            pending: PendingBatch::default(),
            spare: PendingRecords::default(),
            running: None,
            commit_interval: COMMIT_INTERVAL_MIN,
            committed: Instant::now(),
            state,
        };
        Ok(OpenedKafka { sink, progress, definitions })
    }

    /// Returns whether a stream of this name has saved progress. Does not disturb a run of the stream.
    ///
    /// # Errors
    ///
    /// Fails if the brokers cannot be reached, or the progress cannot be read.
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

    /// Saves the progress of a new stream, which continues at a connector's offset, and which records the connector has written
    /// after it: the stream does not write them again. Returns these records.
    ///
    /// # Errors
    ///
    /// Fails if the topics cannot be read, or the brokers do not commit the progress.
    pub fn adopt(
        &mut self,
        offset: &DebeziumOffset,
        progress: &BrokerProgress,
    ) -> Result<ConnectorRecords, KafkaSinkError> {
        let config = ConnectionConfig::renewed(&self.sender.settings)?;
        let found = TopicReader::new(&config).and_then(|reader| {
            let topics = self.sender.topics.of_stream(&reader.topics()?);
            ConnectorRecords::find(&reader, &self.sender.settings.name, &topics, offset)
        });
        let records = found.map_err(connector_error)?;
        if records.count > 0 {
            self.sender.push_connector(&mut self.pending, Some(&records.ranges));
        }
        self.sender.push_progress(&mut self.pending, Some(progress));
        self.start_commit()?;
        self.finish_commit()?;
        Ok(records)
    }

    /// Starts the commit of all pending records.
    fn start_commit(&mut self) -> Result<(), KafkaSinkError> {
        if let Err(failure) = self.sender.finish_sending(&mut self.pending.records) {
            self.sender.retry_until_committed(&mut self.pending, failure)?;
            let batch = std::mem::take(&mut self.pending);
            self.record_commit(batch);
            return Ok(());
        }
        let next = PendingBatch { records: std::mem::take(&mut self.spare), ..PendingBatch::default() };
        let mut batch = std::mem::replace(&mut self.pending, next);
        batch.begun.get_or_insert_with(Instant::now);
        let commit = self.commit_thread.commit(&self.sender.committer);
        self.sender.transaction = KafkaTransactionState::None;
        self.running = Some(RunningBatch { commit, batch });
        Ok(())
    }

    /// Waits for the end of the commit that runs. If it fails, sends its records again, before those after it.
    fn finish_commit(&mut self) -> Result<(), KafkaSinkError> {
        let Some(RunningBatch { commit, mut batch }) = self.running.take() else { return Ok(()) };
        let CommitOutcome { result, elapsed } = commit.wait();
        self.commit_interval =
            (elapsed * COMMIT_INTERVAL_FACTOR).clamp(COMMIT_INTERVAL_MIN, COMMIT_INTERVAL_MAX);
        if let Err(failure) = result {
            self.sender.transaction = KafkaTransactionState::Open { sent: batch.records.len() };
            self.sender.retry_until_committed(&mut batch, failure)?;
        }
        self.record_commit(batch);
        Ok(())
    }

    /// Records a committed transaction.
    fn record_commit(&mut self, batch: PendingBatch) {
        let PendingBatch { records, progress, .. } = batch;
        self.state.count_commit(records.len(), records.size());
        self.spare = records.cleared();
        if let Some(error) = self.state.end_waiting() {
            self.sender.settings.notices.notify(KafkaNotice::CommitsResumed { error });
        }
        if self.pending.records.len() > 0 {
            self.state.begin_waiting();
        }
        if progress.is_some() {
            self.sender.progress = progress;
        }
        self.committed = Instant::now();
        self.show_waiting();
    }

    /// Marks the end of the records that a commit with this progress contains. Once the stream has passed all records of a
    /// connector, the commit also forgets them.
    fn mark_repeats(&mut self, progress: Option<&BrokerProgress>) {
        let Some(repeats) = &mut self.repeats else { return };
        repeats.mark();
        if progress.is_some_and(|progress| repeats.is_passed(progress)) {
            self.repeats = None;
            self.sender.push_connector(&mut self.pending, None);
        }
    }

    /// Shows the number and size of the uncommitted records.
    fn show_waiting(&self) {
        let running = self.running.as_ref().map(|running| &running.batch.records);
        let [records, bytes] = running.map_or([0, 0], |records| [records.len(), records.size()]);
        let pending = &self.pending.records;
        self.state.set_waiting(pending.len() + records, pending.size() + bytes);
    }
}

impl BrokerSink for KafkaSink {
    fn push(&mut self, record: &KeyedRecord<'_>) -> io::Result<()> {
        let sender = &mut self.sender;
        let topic = sender.topics.topic_of(record.kind)?;
        let is_row = matches!(record.kind, KeyedRecordKind::Row(_));
        let routed = sender.topics.last_routed().filter(|_| is_row);
        let mut record = *record;
        if let Some(routed) = routed {
            record.kind = routed.kind();
            if let Some(key) = record.key {
                routed.put_key(&mut self.routed_key, key);
                record.key = Some(&self.routed_key);
            }
        }
        if let Some(repeats) = &mut self.repeats
            && repeats.is_repeated(sender.topics.name(topic), record.key, record.value)
        {
            return Ok(());
        }
        let origin = RecordOrigin { topic, routed: routed.map(|routed| routed.number) };
        let encoding = match &mut sender.encoder {
            Some(encoder) => Some(encoder.encoding_of(record.kind, origin, sender.topics.name(topic))?),
            None => None,
        };
        self.pending.records.push(topic, encoding, &record);
        if self.pending.begun.is_none() {
            self.pending.begun = Some(Instant::now());
            self.state.begin_waiting();
        }
        if self.pending.records.len().is_multiple_of(SHOW_INTERVAL) {
            self.show_waiting();
        }
        if self.running.as_ref().is_some_and(|running| running.commit.is_finished()) {
            self.finish_commit()?;
        }
        // While a commit runs, and after a failure, the records wait.
        if self.running.is_none()
            && self.sender.transaction != KafkaTransactionState::Failed
            && let Err(error) = self.sender.send(&mut self.pending.records)
            // After these errors, the next commit replaces the producer.
            && !matches!(error, KafkaSinkError::Fenced { .. } | KafkaSinkError::Other { .. })
        {
            return Err(error.into());
        }
        Ok(())
    }

    fn mark(&mut self) {
        self.pending.records.mark();
        if let Some(repeats) = &mut self.repeats {
            repeats.mark();
        }
    }

    fn is_full(&self) -> bool {
        self.pending.records.size() >= PENDING_SIZE_MAX || self.pending.records.len() >= PENDING_RECORDS_MAX
    }

    fn is_commit_due(&self) -> bool {
        let is_running = self.running.as_ref().is_some_and(|running| !running.commit.is_finished());
        !is_running && self.pending.begun.is_some_and(|begun| begun.elapsed() >= self.commit_interval)
    }

    fn committed(&self) -> Option<&BrokerProgress> {
        self.sender.progress.as_ref()
    }

    fn commit(&mut self, progress: Option<&BrokerProgress>) -> io::Result<CommitStart> {
        let is_idle = self.pending.records.len() == 0
            && progress.is_none_or(|progress| progress.definitions == DefinitionsUpdate::Keep);
        if is_idle && (self.running.is_some() || self.committed.elapsed() < IDLE_COMMIT_INTERVAL) {
            // Transactions without records may be read again.
            return Ok(CommitStart::Deferred);
        }
        self.finish_commit()?;
        self.show_waiting();
        self.mark_repeats(progress);
        self.sender.push_progress(&mut self.pending, progress);
        self.start_commit()?;
        Ok(CommitStart::Started)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(self.finish_commit()?)
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.sender.discard_transaction(&self.pending)?;
        let records = &mut self.pending.records;
        records.truncate(records.marked());
        // The transaction is over, and no discarded record waits.
        self.pending.begun = (records.len() > 0).then(Instant::now);
        if self.pending.begun.is_none() && self.running.is_none() {
            self.state.end_waiting();
        }
        if let Some(repeats) = &mut self.repeats {
            repeats.rewind();
        }
        self.show_waiting();
        Ok(())
    }

    fn poll(&mut self) -> io::Result<()> {
        self.sender.committer.producer.poll(Duration::ZERO);
        // No records come: wait for the commit, so that all records that arrive meanwhile share the next commit.
        Ok(self.finish_commit()?)
    }
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KafkaSink").field("name", &self.sender.settings.name).finish_non_exhaustive()
    }
}

/// Ends an open transaction. Otherwise readers would wait for its timeout.
impl Drop for KafkaSink {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.commit.wait_within(DROP_TIMEOUT);
        }
        self.sender.abandon_transaction();
    }
}

/// Reads the records that a connector has written.
fn read_connector_records(
    config: &ConnectionConfig,
    stream: &str,
    ranges: &ConnectorRanges,
) -> Result<Option<RepeatFilter>, KafkaSinkError> {
    let filter = TopicReader::new(config).and_then(|reader| RepeatFilter::read(&reader, stream, ranges));
    filter.map_err(connector_error)
}

fn connector_error(error: KafkaError) -> KafkaSinkError {
    KafkaSinkError::Other { what: "reading the records of the connector", reason: reader_reason(&error) }
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

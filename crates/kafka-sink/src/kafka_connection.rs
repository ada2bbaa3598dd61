//! Connections to the brokers: their configuration, and the start of a producer.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rdkafka::config::{ClientConfig, FromClientConfigAndContext as _, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer as _};

use crate::error::KafkaSinkError;
use crate::kafka_context::KafkaContext;
use crate::kafka_sink::KafkaSettings;
use crate::kafka_state::SharedKafkaState;

/// Size of librdkafka's queue in bytes.
const QUEUE_SIZE: usize = 64 << 20;
/// Timeout of the first contact with the brokers.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which blocking waits poll for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which librdkafka counts the brokers that are connected.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the configuration of a connection.
pub(crate) fn connection_config(settings: &KafkaSettings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("client.id", "bintide").set("bootstrap.servers", &settings.address.brokers);
    config.set_log_level(RDKafkaLogLevel::Warning);
    for (name, value) in &settings.properties.values {
        config.set(name, value);
    }
    // The compiled-in OpenSSL does not know where this system keeps its certificate authorities; librdkafka looks for
    // them (`ssl.ca.location` in librdkafka's CONFIGURATION.md).
    if cfg!(feature = "tls")
        && !["ssl.ca.location", "ssl.ca.pem"].iter().any(|name| config.get(name).is_some())
    {
        config.set("ssl.ca.location", "probe");
    }
    config
}

fn producer_config(connection: &ClientConfig, settings: &KafkaSettings, batch_size: usize) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Warning);
    // Java's partitioner, so that equal keys are in equal partitions of the topics of other producers.
    config.set("partitioner", "murmur2_random").set("linger.ms", "2").set("batch.num.messages", "50000");
    // librdkafka refuses a record that is larger than its queue, even if the queue is empty.
    let queue_size = QUEUE_SIZE.max(2 * size_property(settings, "message.max.bytes"));
    config.set("queue.buffering.max.messages", "150000");
    config.set("queue.buffering.max.kbytes", (queue_size >> 10).to_string());
    config.set("statistics.interval.ms", STATISTICS_INTERVAL.as_millis().to_string());
    for (name, value) in connection.config_map() {
        config.set(name, value);
    }
    config.set("transactional.id", format!("bintide.{}", settings.name)).set("enable.idempotence", "true");
    config.set("delivery.report.only.error", "true").set("batch.size", batch_size.to_string());
    config
}

/// Returns a property in bytes: `batch.size` or `message.max.bytes`.
pub(crate) fn size_property(settings: &KafkaSettings, name: &str) -> usize {
    /// Default of both in librdkafka.
    const DEFAULT: usize = 1_000_000;
    settings.properties.values.get(name).and_then(|text| text.parse().ok()).unwrap_or(DEFAULT)
}

pub(crate) fn config_error(error: KafkaError) -> KafkaSinkError {
    match error {
        KafkaError::ClientConfig(_, reason, name, value) => KafkaSinkError::Property { name, value, reason },
        error => KafkaSinkError::Other { what: "creating a client of Kafka", reason: error.to_string() },
    }
}

/// Returns the time after which the brokers abort a transaction that is not continued.
pub(crate) fn transaction_timeout(settings: &KafkaSettings) -> Duration {
    /// Default of librdkafka.
    const DEFAULT_MS: u64 = 60_000;
    let chosen = settings.properties.values.get("transaction.timeout.ms");
    Duration::from_millis(chosen.and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_MS))
}

/// Creates a producer, and fences off earlier ones of the same stream. Also returns the topics that exist.
pub(crate) fn connect(
    connection: &ClientConfig,
    settings: &KafkaSettings,
    state: &SharedKafkaState,
    batch_size: usize,
) -> Result<(BaseProducer<KafkaContext>, HashSet<String>), KafkaSinkError> {
    let config = producer_config(connection, settings, batch_size);
    state.begin_client();
    let producer = BaseProducer::from_config_and_context(&config, KafkaContext::new(state.clone()));
    let producer = producer.map_err(config_error)?;
    state.begin_waiting();
    let existing = wait_for_topics(&producer, settings, state)?;
    init_transactions(&producer, settings, state)?;
    state.end_waiting();
    Ok((producer, existing))
}

/// Waits for the first contact with the brokers. Returns the topics that exist.
fn wait_for_topics(
    producer: &BaseProducer<KafkaContext>,
    settings: &KafkaSettings,
    state: &SharedKafkaState,
) -> Result<HashSet<String>, KafkaSinkError> {
    let begun = Instant::now();
    loop {
        producer.poll(Duration::ZERO);
        let error = match producer.client().fetch_metadata(None, POLL_INTERVAL) {
            Ok(metadata) => {
                return Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect());
            }
            Err(error) => error,
        };
        check_open(begun, settings, state, &error)?;
    }
}

fn init_transactions(
    producer: &BaseProducer<KafkaContext>,
    settings: &KafkaSettings,
    state: &SharedKafkaState,
) -> Result<(), KafkaSinkError> {
    let begun = Instant::now();
    loop {
        producer.poll(Duration::ZERO);
        match producer.init_transactions(POLL_INTERVAL) {
            Ok(()) => return Ok(()),
            Err(error) if is_retriable(&error) => check_open(begun, settings, state, &error)?,
            Err(error) => {
                return Err(KafkaSinkError::Other {
                    what: "starting transactions",
                    reason: reason_of(&error),
                });
            }
        }
    }
}

fn check_open(
    begun: Instant,
    settings: &KafkaSettings,
    state: &SharedKafkaState,
    error: &KafkaError,
) -> Result<(), KafkaSinkError> {
    if begun.elapsed() < OPEN_TIMEOUT && !(settings.is_stop_requested)() {
        return Ok(());
    }
    Err(KafkaSinkError::Unreachable {
        brokers: settings.address.brokers.clone(),
        seconds: begun.elapsed().as_secs(),
        reason: state.error().unwrap_or_else(|| reason_of(error)),
    })
}

pub(crate) fn is_retriable(error: &KafkaError) -> bool {
    match error {
        KafkaError::Transaction(cause) => !cause.is_fatal() && (cause.is_retriable() || is_timeout(cause)),
        KafkaError::Flush(_) => true,
        _ => false,
    }
}

fn is_timeout(cause: &RDKafkaError) -> bool {
    matches!(cause.code(), RDKafkaErrorCode::OperationTimedOut | RDKafkaErrorCode::RequestTimedOut)
}

pub(crate) fn reason_of(error: &KafkaError) -> String {
    match error {
        KafkaError::Transaction(cause) => cause.to_string(),
        error => error.to_string(),
    }
}

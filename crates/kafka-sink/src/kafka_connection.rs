//! Connections to the brokers: their configuration, and the start of a producer.

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, FromClientConfigAndContext as _, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use rdkafka::producer::{BaseProducer, Producer as _};

use crate::error::KafkaSinkError;
use crate::kafka_context::{KafkaContext, error_notice, log_notice};
use crate::kafka_notice::KafkaNoticeReceiver;
use crate::kafka_sink::KafkaSettings;
use crate::kafka_state::SharedKafkaState;
use crate::lost_transaction::abort_lost_transaction;
use crate::oauth_settings::{OAUTH_PROPERTIES, OauthSettings};
use crate::token_client::TokenClient;
use crate::topic_catalogue::stream_topics;

/// Size of librdkafka's queue in bytes.
const QUEUE_SIZE: usize = 64 << 20;
/// Timeout of the first contact with the brokers.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which a login or TLS that brokers refuse at the first contact ends the run.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which blocking waits poll for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which librdkafka counts the brokers that are connected.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);

/// Configuration of the clients of a connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionConfig {
    pub(crate) client: ClientConfig,
    /// Source of tokens for logins; `None` for other logins.
    pub(crate) tokens: Option<Arc<TokenClient>>,
    /// Timeout of a contact that a broker refuses because of TLS or the login: short until one has succeeded.
    pub(crate) refusal_timeout: Duration,
    /// Returns whether a stop was requested.
    is_stop_requested: fn() -> bool,
    pub(crate) notices: KafkaNoticeReceiver,
}

/// Callbacks of a client that only reads.
#[derive(Clone, Debug)]
pub(crate) struct ReaderContext {
    tokens: Option<Arc<TokenClient>>,
    /// Returns whether a stop was requested.
    pub(crate) is_stop_requested: fn() -> bool,
    notices: KafkaNoticeReceiver,
}

impl ConnectionConfig {
    /// Returns the configuration of a connection.
    pub(crate) fn new(settings: &KafkaSettings) -> Result<Self, KafkaSinkError> {
        let mut client = ClientConfig::new();
        client.set("client.id", "bintide").set("bootstrap.servers", &settings.address.brokers);
        client.set_log_level(RDKafkaLogLevel::Warning);
        let oauth = OauthSettings::from_properties(&settings.properties.values)?;
        for (name, value) in &settings.properties.values {
            if oauth.is_none() || !OAUTH_PROPERTIES.contains(&name.as_str()) {
                client.set(name, value);
            }
        }
        // The compiled-in OpenSSL does not know where this system keeps its certificate authorities; librdkafka looks for
        // them (`ssl.ca.location` in librdkafka's CONFIGURATION.md).
        let is_ca_given = ["ssl.ca.location", "ssl.ca.pem"].iter().any(|name| client.get(name).is_some());
        if cfg!(feature = "tls") && !is_ca_given {
            client.set("ssl.ca.location", "probe");
        }
        let tokens = oauth.map(TokenClient::new).transpose()?.map(Arc::new);
        let (is_stop_requested, notices) = (settings.is_stop_requested, settings.notices.clone());
        Ok(Self { client, tokens, refusal_timeout: REFUSAL_TIMEOUT, is_stop_requested, notices })
    }

    /// Returns the configuration of a connection that replaces one: the brokers have accepted the login before.
    pub(crate) fn renewed(settings: &KafkaSettings) -> Result<Self, KafkaSinkError> {
        Ok(Self { refusal_timeout: OPEN_TIMEOUT, ..Self::new(settings)? })
    }

    /// Creates a consumer.
    pub(crate) fn consumer(&self) -> Result<BaseConsumer<ReaderContext>, KafkaError> {
        let (tokens, notices) = (self.tokens.clone(), self.notices.clone());
        let is_stop_requested = self.is_stop_requested;
        self.client.create_with_context(ReaderContext { tokens, is_stop_requested, notices })
    }
}

impl ClientContext for ReaderContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.notices.notify(log_notice(level, facility, message));
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.notices.notify(error_notice(&error, reason));
    }

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        fetch_token(self.tokens.as_deref())
    }
}

impl ConsumerContext for ReaderContext {}

/// Fetches a token for a login.
pub(crate) fn fetch_token(tokens: Option<&TokenClient>) -> Result<OAuthToken, Box<dyn Error>> {
    let tokens = tokens.ok_or("there is no token server")?;
    Ok(tokens.fetch()?)
}

/// Fetches the metadata of a topic, or of all topics, with a client that has just been created.
pub(crate) fn fetch_metadata(
    consumer: &BaseConsumer<ReaderContext>,
    topic: Option<&str>,
    timeout: Duration,
) -> Result<Metadata, KafkaError> {
    let begun = Instant::now();
    loop {
        // A login by token goes on only within a poll.
        consumer.poll(Duration::ZERO);
        match consumer.fetch_metadata(topic, POLL_INTERVAL) {
            Err(error) if begun.elapsed() >= timeout || (consumer.context().is_stop_requested)() => {
                return Err(error);
            }
            Err(_) => {}
            Ok(metadata) => return Ok(metadata),
        }
    }
}

fn producer_config(connection: &ClientConfig, settings: &KafkaSettings, batch_size: usize) -> ClientConfig {
    // A clone has the secrets, too: `config_map` replaces them.
    let mut config = connection.clone();
    // librdkafka refuses a record that is larger than its queue, even if the queue is empty.
    let queue_size = QUEUE_SIZE.max(2 * size_property(settings, "message.max.bytes"));
    let defaults = [
        // Java's partitioner, so that equal keys are in equal partitions of the topics of other producers.
        ("partitioner", "murmur2_random".to_owned()),
        ("linger.ms", "2".to_owned()),
        ("batch.num.messages", "50000".to_owned()),
        ("queue.buffering.max.messages", "150000".to_owned()),
        ("queue.buffering.max.kbytes", (queue_size >> 10).to_string()),
        ("statistics.interval.ms", STATISTICS_INTERVAL.as_millis().to_string()),
    ];
    for (name, value) in defaults {
        if connection.get(name).is_none() {
            config.set(name, value);
        }
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
        KafkaError::ClientConfig(_, reason, name, _) => KafkaSinkError::Property { name, reason },
        error => KafkaSinkError::Other { what: "creating a Kafka client", reason: error.to_string() },
    }
}

/// Returns the time after which the brokers abort a transaction that is not continued.
pub(crate) fn transaction_timeout(settings: &KafkaSettings) -> Duration {
    /// Default of librdkafka.
    const DEFAULT_MS: u64 = 60_000;
    let chosen = settings.properties.values.get("transaction.timeout.ms");
    Duration::from_millis(chosen.and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_MS))
}

/// Creates a producer, fences off earlier ones of the same stream, and ends their transactions. Also returns the topics that
/// exist. The state remains that of a wait: the caller ends it, unless records wait.
pub(crate) fn connect(
    connection: &ConnectionConfig,
    settings: &KafkaSettings,
    state: &SharedKafkaState,
    batch_size: usize,
) -> Result<(BaseProducer<KafkaContext>, HashSet<String>), KafkaSinkError> {
    let config = producer_config(&connection.client, settings, batch_size);
    state.begin_client();
    let (notices, tokens) = (connection.notices.clone(), connection.tokens.clone());
    let context = KafkaContext::new(state.clone(), notices, tokens);
    let producer = BaseProducer::from_config_and_context(&config, context);
    let producer = producer.map_err(config_error)?;
    state.begin_waiting();
    let existing = wait_for_topics(&producer, settings, connection.refusal_timeout)?;
    init_transactions(&producer, settings, connection.refusal_timeout)?;
    abort_lost_transaction(&producer, connection, &stream_topics(settings, &existing))?;
    Ok((producer, existing))
}

/// Waits for the first contact with the brokers. Returns the topics that exist.
fn wait_for_topics(
    producer: &BaseProducer<KafkaContext>,
    settings: &KafkaSettings,
    refusal_timeout: Duration,
) -> Result<HashSet<String>, KafkaSinkError> {
    let wait = ContactWait { begun: Instant::now(), refusal_timeout };
    loop {
        producer.poll(Duration::ZERO);
        let error = match producer.client().fetch_metadata(None, POLL_INTERVAL) {
            Ok(metadata) => {
                return Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect());
            }
            Err(error) => error,
        };
        check_open(wait, settings, producer.context(), &error)?;
    }
}

fn init_transactions(
    producer: &BaseProducer<KafkaContext>,
    settings: &KafkaSettings,
    refusal_timeout: Duration,
) -> Result<(), KafkaSinkError> {
    let wait = ContactWait { begun: Instant::now(), refusal_timeout };
    loop {
        producer.poll(Duration::ZERO);
        match producer.init_transactions(POLL_INTERVAL) {
            Ok(()) => return Ok(()),
            Err(error) if is_retriable(&error) => {
                check_open(wait, settings, producer.context(), &error)?;
            }
            Err(error) => {
                return Err(KafkaSinkError::Other {
                    what: "starting transactions",
                    reason: reason_of(&error),
                });
            }
        }
    }
}

/// Wait for a contact with the brokers.
#[derive(Clone, Copy, Debug)]
struct ContactWait {
    begun: Instant,
    /// Timeout after a refusal because of TLS or the login.
    refusal_timeout: Duration,
}

fn check_open(
    wait: ContactWait,
    settings: &KafkaSettings,
    context: &KafkaContext,
    error: &KafkaError,
) -> Result<(), KafkaSinkError> {
    let ContactWait { begun, refusal_timeout } = wait;
    let timeout = if context.is_refused() { refusal_timeout } else { OPEN_TIMEOUT };
    if begun.elapsed() < timeout && !(settings.is_stop_requested)() {
        return Ok(());
    }
    Err(KafkaSinkError::Unreachable {
        brokers: settings.address.brokers.clone(),
        seconds: begun.elapsed().as_secs(),
        reason: context.state().error().unwrap_or_else(|| reason_of(error)),
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

#[cfg(test)]
mod tests {
    use rdkafka::config::ClientConfig;

    use super::producer_config;
    use crate::kafka_sink::KafkaSettings;

    #[test]
    fn producers_have_the_properties_of_the_connection() {
        let mut connection = ClientConfig::new();
        connection.set("sasl.password", "secret").set("linger.ms", "7");
        let config = producer_config(&connection, &KafkaSettings::of_test(), 1000);
        let check = |name: &str, expected: &str| assert_eq!(config.get(name), Some(expected), "{name}");
        check("sasl.password", "secret");
        check("linger.ms", "7");
        check("partitioner", "murmur2_random");
        check("batch.size", "1000");
    }
}

//! Apache Kafka as the output of `stream`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use stream::{Envelope, SchemaPolicy};

use crate::commands::stream::live::ResumedOutput;
use crate::commands::stream::stream_metrics::SharedStreamFigures;
use crate::exit::CommandFailure;
use crate::value_parsers::number_within;

/// Options of an output to Kafka.
#[derive(Args, Debug)]
#[command(next_help_heading = "Apache Kafka, instead of a pipe or files")]
pub(super) struct KafkaArgs {
    /// Write records to Kafka: kafka://HOST:PORT,HOST:PORT/. Consumers of committed records get each transaction
    /// exactly once. Topics and keys are those of Debezium; --name is the topic prefix. The progress is saved in Kafka,
    /// too. Needs --format debezium.
    #[arg(long, value_name = "BROKERS", conflicts_with_all = ["progress", "out", "resume"])]
    to: Option<String>,
    /// Property of librdkafka, such as security.protocol=ssl or compression.type=lz4. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", requires = "to")]
    kafka: Vec<String>,
    /// File with properties of librdkafka, one per line, such as sasl.password=…; properties of --kafka override them.
    #[arg(long, value_name = "FILE", requires = "to")]
    kafka_file: Option<PathBuf>,
    /// Format of values [default: json]
    #[arg(long, value_enum, value_name = "FORMAT", requires = "to")]
    value_format: Option<PartForm>,
    /// Format of keys [default: that of values]
    #[arg(long, value_enum, value_name = "FORMAT", requires = "to")]
    key_format: Option<PartForm>,
    /// Schema registry with Confluent's API: http://HOST:PORT/ or https://HOST:PORT/. Required by the formats avro and
    /// json-schema.
    #[arg(long, value_name = "URL", requires = "to")]
    schema_registry: Option<String>,
    /// File with properties of the schema registry, one per line: basic.auth.user.info=USER:PASSWORD, and
    /// ssl.ca.location=FILE with the certificates to trust.
    #[arg(long, value_name = "FILE", requires = "schema_registry")]
    schema_registry_file: Option<PathBuf>,
    /// Partitions of topics that bintide creates [default: the default of the brokers]
    #[arg(long, value_name = "NUMBER", requires = "to")]
    #[arg(value_parser = number_within::<u32>(1..=10_000))]
    partitions: Option<u32>,
    /// Replicas of each partition of topics that bintide creates [default: the default of the brokers]
    #[arg(long, value_name = "NUMBER", requires = "to")]
    #[arg(value_parser = number_within::<u32>(1..=100))]
    replication: Option<u32>,
    /// Property of topics that bintide creates, such as retention.ms=604800000. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", requires = "to")]
    topic_config: Vec<String>,
    /// Fail if a topic does not exist, instead of creating it.
    #[arg(long, requires = "to", conflicts_with_all = ["partitions", "replication", "topic_config"])]
    require_topics: bool,
    /// Write the tables whose names DATABASE.TABLE match to the topic NAME.TOPIC, instead of a topic for each table. $1
    /// in TOPIC is the first group of REGEX. Repeatable; the first match applies. Keys get a field that names the
    /// table.
    #[arg(long, value_name = "REGEX=TOPIC", requires = "to")]
    route: Vec<String>,
    /// Write a record that is too large for its topic to this topic, in parts, instead of failing. Headers name its
    /// topic, its GTID and the error.
    #[arg(long, value_name = "TOPIC", requires = "to", value_parser = parse_topic)]
    dead_letter: Option<String>,
    /// Write a heartbeat to the topic __debezium-heartbeat.NAME at this interval, even if no selected table
    /// changes.
    #[arg(long, value_name = "SECONDS", requires_all = ["to", "from"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    heartbeat_interval: Option<u32>,
}

/// Value of `--key-format` and `--value-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PartForm {
    /// JSON without schemas
    Json,
    /// JSON with its schema in each record, as Kafka Connect's JSON converter writes it
    JsonWithSchema,
    /// Avro, with the schema in the registry
    Avro,
    /// JSON, with a JSON Schema in the registry
    JsonSchema,
}

/// Stream whose records go to Kafka.
#[cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "only Kafka reads the fields"))]
pub(super) struct KafkaStream<'s> {
    pub(super) name: &'s str,
    pub(super) envelope: Envelope,
    pub(super) figures: &'s SharedStreamFigures,
}

impl KafkaArgs {
    /// Returns whether the output is Kafka.
    pub(super) const fn is_given(&self) -> bool {
        self.to.is_some()
    }

    /// Returns whether the records need schemas.
    pub(super) fn schema_policy(&self) -> SchemaPolicy {
        let is_plain = |form: Option<PartForm>| matches!(form, None | Some(PartForm::Json));
        match is_plain(self.key_format) && is_plain(self.value_format) {
            true => SchemaPolicy::Omit,
            false => SchemaPolicy::Describe,
        }
    }

    /// Returns the interval of heartbeats.
    pub(super) fn heartbeat_interval(&self) -> Option<Duration> {
        self.heartbeat_interval.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// Connects to the brokers, and returns the output and the point to resume from; `None` if another output is given.
    pub(super) fn open_output(
        &self,
        stream: &KafkaStream<'_>,
    ) -> Result<Option<ResumedOutput>, CommandFailure> {
        self.to.as_ref().map(|to| self.open(to, stream)).transpose().map_err(CommandFailure::NotStarted)
    }

    #[cfg(not(feature = "kafka"))]
    fn open(&self, _to: &str, _stream: &KafkaStream<'_>) -> Result<ResumedOutput, anyhow::Error> {
        anyhow::bail!("--to: this bintide was built without Kafka: build it with --features kafka")
    }

    #[cfg(feature = "kafka")]
    fn open(&self, to: &str, stream: &KafkaStream<'_>) -> Result<ResumedOutput, anyhow::Error> {
        use anyhow::{Context as _, anyhow};
        use kafka_sink::{KafkaSink, OpenedKafka, SharedKafkaState};
        use stream::{BrokerTarget, DdlSchema, RecordSink};

        use crate::commands::stream::live::ResumePoint;

        if stream.envelope != Envelope::Debezium {
            return Err(anyhow!("--to kafka: needs --format debezium"));
        }
        let state = SharedKafkaState::default();
        let opened = KafkaSink::open(&self.settings(to, stream.name)?, &state).context("--to")?;
        stream.figures.watch_kafka(state);
        let OpenedKafka { sink, progress, definitions } = opened;
        let progress = progress.unwrap_or_default();
        let definitions = definitions.map(|text| DdlSchema::parse(&text));
        let target = BrokerTarget::new(Box::new(sink), progress.part, definitions);
        let resume = ResumePoint { token: progress.token.clone(), gtid_state: progress.gtid_state };
        let output = RecordSink::for_broker(target, progress.skip).resumed_at(progress.token);
        let output = output.resumed_snapshot(progress.snapshot);
        Ok(ResumedOutput { output, resume })
    }

    #[cfg(feature = "kafka")]
    fn settings(&self, to: &str, name: &str) -> Result<kafka_sink::KafkaSettings, anyhow::Error> {
        use anyhow::Context as _;
        use kafka_sink::{KafkaSettings, TopicConfig, TopicPolicy, TopicRoute};

        let mut config = TopicConfig::default();
        self.topic_config.iter().try_for_each(|text| config.add(text)).context("--topic-config")?;
        let (partitions, replication) = (self.partitions, self.replication);
        let connection = KafkaConnection { to, kafka: &self.kafka, kafka_file: self.kafka_file.as_deref() };
        let topics = match self.require_topics {
            true => TopicPolicy::Require,
            false => TopicPolicy::Create { partitions, replication, config },
        };
        let settings = connection_settings(&connection, name, topics)?;
        let routes = self.route.iter().map(|route| route.parse());
        let routes = routes.collect::<Result<Vec<TopicRoute>, _>>().context("--route")?;
        let (dead_letters, formats, registry) = (self.dead_letter.clone(), self.formats(), self.registry()?);
        Ok(KafkaSettings { routes, dead_letters, formats, registry, ..settings })
    }

    #[cfg(feature = "kafka")]
    fn formats(&self) -> kafka_sink::RecordFormats {
        let value = self.value_format.unwrap_or(PartForm::Json);
        let key = self.key_format.unwrap_or(value);
        kafka_sink::RecordFormats { key: key.into(), value: value.into() }
    }

    #[cfg(feature = "kafka")]
    fn registry(&self) -> Result<Option<kafka_sink::RegistrySettings>, anyhow::Error> {
        use anyhow::{Context as _, bail};

        let Some(url) = &self.schema_registry else {
            if self.formats().need_registry() {
                bail!("the formats avro and json-schema need --schema-registry URL");
            }
            return Ok(None);
        };
        if !self.formats().need_registry() {
            bail!("--schema-registry: needs --value-format or --key-format avro or json-schema");
        }
        let mut registry = kafka_sink::RegistrySettings::new(url).context("--schema-registry")?;
        if let Some(path) = &self.schema_registry_file {
            let text = logs::open_regular(path).and_then(std::io::read_to_string);
            let text = text.with_context(|| format!("could not read {}", path.display()))?;
            registry.add_file(&text).with_context(|| path.display().to_string())?;
        }
        if let Some(path) = registry.authority_file.clone() {
            let mut pem = Vec::new();
            let read = logs::open_regular(&path)
                .and_then(|mut file| std::io::Read::read_to_end(&mut file, &mut pem));
            read.with_context(|| format!("ssl.ca.location: could not read {}", path.display()))?;
            registry = registry.with_authority(pem);
        }
        Ok(Some(registry))
    }
}

/// Options of a connection to Kafka.
#[cfg(feature = "kafka")]
pub(super) struct KafkaConnection<'k> {
    pub(super) to: &'k str,
    pub(super) kafka: &'k [String],
    pub(super) kafka_file: Option<&'k std::path::Path>,
}

/// Returns the settings of a connection, with records as JSON.
#[cfg(feature = "kafka")]
pub(super) fn connection_settings(
    connection: &KafkaConnection<'_>,
    name: &str,
    topics: kafka_sink::TopicPolicy,
) -> Result<kafka_sink::KafkaSettings, anyhow::Error> {
    use anyhow::Context as _;
    use kafka_sink::{KafkaNoticeReceiver, KafkaProperties, KafkaSettings, RecordFormats, check_stream_name};

    use crate::commands::stream::kafka_notices::show_notice;

    let KafkaConnection { to, kafka, kafka_file } = *connection;
    check_stream_name(name).context("--name")?;
    let address = to.parse().context("--to")?;
    let mut properties = KafkaProperties::default();
    if let Some(path) = kafka_file {
        let text = logs::open_regular(path).and_then(std::io::read_to_string);
        let text = text.with_context(|| format!("could not read {}", path.display()))?;
        properties.add_file(&text).with_context(|| path.display().to_string())?;
    }
    kafka.iter().try_for_each(|text| properties.add_argument(text)).context("--kafka")?;
    properties.check_build().context("--to")?;
    let (name, is_stop_requested) = (name.to_owned(), crate::interrupt::is_stop_requested);
    let (dead_letters, formats, registry) = (None, RecordFormats::default(), None);
    Ok(KafkaSettings {
        address,
        name,
        properties,
        topics,
        routes: Vec::new(),
        dead_letters,
        formats,
        registry,
        is_stop_requested,
        notices: KafkaNoticeReceiver::new(show_notice),
    })
}

#[cfg(feature = "kafka")]
impl From<PartForm> for kafka_sink::RecordFormat {
    fn from(form: PartForm) -> Self {
        match form {
            PartForm::Json => Self::Json,
            PartForm::JsonWithSchema => Self::JsonWithSchema,
            PartForm::Avro => Self::Avro,
            PartForm::JsonSchema => Self::JsonSchema,
        }
    }
}

/// Parses the name of a topic.
pub(super) fn parse_topic(text: &str) -> Result<String, String> {
    /// Maximum size of a name, in Kafka.
    const NAME_SIZE_MAX: usize = 249;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !matches!(text, "" | "." | "..") && text.len() <= NAME_SIZE_MAX && text.chars().all(is_allowed) {
        true => Ok(text.to_owned()),
        false => Err("expected the name of a topic: letters, digits, `.`, `_` and `-`".to_owned()),
    }
}

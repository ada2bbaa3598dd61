//! `bintide stream adopt`: continues where a Debezium connector stopped.

use std::path::PathBuf;

use clap::Args;

use crate::commands::stream::kafka_args::parse_topic;
use crate::exit::{CommandFailure, CommandResult};
use crate::value_parsers::number_within;

/// Arguments of `bintide stream adopt`.
#[derive(Args, Debug)]
pub(super) struct StreamAdoptArgs {
    /// File with the offsets of Debezium Server, or of Kafka Connect in standalone mode
    #[arg(long, value_name = "FILE", required_unless_present = "debezium_offset_topic")]
    debezium_offsets: Option<PathBuf>,
    /// Topic with the offsets of Kafka Connect in distributed mode (offset.storage.topic)
    #[arg(long, value_name = "TOPIC", value_parser = parse_topic, conflicts_with = "debezium_offsets")]
    debezium_offset_topic: Option<String>,
    /// Name of the connector; required if there are offsets of several connectors
    #[arg(long, value_name = "NAME")]
    connector: Option<String>,
    /// Brokers of the topics: kafka://HOST:PORT,HOST:PORT/
    #[arg(long, value_name = "BROKERS")]
    to: String,
    /// Name of the new stream [default: the topic prefix of the connector]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Property of librdkafka, such as security.protocol=ssl. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    kafka: Vec<String>,
    /// File with properties of librdkafka, one per line, such as sasl.password=…; properties of --kafka override them.
    #[arg(long, value_name = "FILE")]
    kafka_file: Option<PathBuf>,
    /// Replicas of the topic with the progress, which bintide creates [default: the default of the brokers]
    #[arg(long, value_name = "NUMBER", value_parser = number_within::<u32>(1..=100))]
    replication: Option<u32>,
}

/// Saves the position where a connector stopped as the progress of a new stream.
pub(super) fn run(arguments: &StreamAdoptArgs) -> CommandResult {
    arguments.adopt().map_err(CommandFailure::NotStarted)
}

#[cfg(not(feature = "kafka"))]
impl StreamAdoptArgs {
    fn adopt(&self) -> Result<crate::exit::CommandVerdict, anyhow::Error> {
        let _ = (&self.debezium_offsets, &self.debezium_offset_topic, &self.connector, &self.to, &self.name);
        let _ = (&self.kafka, &self.kafka_file, self.replication);
        anyhow::bail!("stream adopt: this bintide was built without Kafka: build it with --features kafka")
    }
}

#[cfg(feature = "kafka")]
impl StreamAdoptArgs {
    fn adopt(&self) -> Result<crate::exit::CommandVerdict, anyhow::Error> {
        use anyhow::{Context as _, ensure};
        use kafka_sink::{KafkaSink, OpenedKafka, SharedKafkaState};

        let offset = self.offset()?;
        let progress = offset.progress()?;
        let name = self.name.clone().unwrap_or_else(|| offset.prefix.clone());
        let settings = self.settings(&name)?;
        // Opening the sink fences a running stream of this name, so first check for progress without opening it.
        ensure!(
            !KafkaSink::has_progress(&settings).context("--to")?,
            "the stream {name} has progress already: choose another name with --name, or delete the topic \
             {name}.bintide-progress"
        );
        let OpenedKafka { mut sink, progress: saved, .. } =
            KafkaSink::open(&settings, &SharedKafkaState::default()).context("--to")?;
        ensure!(saved.is_none(), "another process has started the stream {name}");
        let written = sink.adopt(&offset, &progress).context("--to")?;
        let position = progress.token.map(|token| token.to_string()).unwrap_or_default();
        let gtids = progress.gtid_state.and_then(|state| state.gtids);
        let gtids = gtids.map(|gtids| format!(" (GTIDs {gtids})")).unwrap_or_default();
        tracing::info!(
            "the stream {name} continues where the connector {} stopped: {position}{gtids}. Start it with: bintide \
             stream --format debezium --from SOURCE --name {name} --to {}",
            offset.connector,
            self.to
        );
        report_written(&written);
        Ok(crate::exit::CommandVerdict::Success)
    }

    fn offset(&self) -> Result<kafka_sink::DebeziumOffset, anyhow::Error> {
        use anyhow::Context as _;
        use kafka_sink::DebeziumOffset;

        let connector = self.connector.as_deref();
        if let Some(path) = &self.debezium_offsets {
            let mut bytes = Vec::new();
            let read = logs::open_regular(path)
                .and_then(|mut file| std::io::Read::read_to_end(&mut file, &mut bytes));
            read.with_context(|| format!("could not read {}", path.display()))?;
            return DebeziumOffset::from_file(&bytes, connector).with_context(|| path.display().to_string());
        }
        let topic = self.debezium_offset_topic.as_deref().unwrap_or_default();
        Ok(DebeziumOffset::from_topic(&self.settings("adopt")?, topic, connector)?)
    }

    fn settings(&self, name: &str) -> Result<kafka_sink::KafkaSettings, anyhow::Error> {
        use crate::commands::stream::kafka_args::{KafkaConnection, connection_settings};

        let connection =
            KafkaConnection { to: &self.to, kafka: &self.kafka, kafka_file: self.kafka_file.as_deref() };
        let (replication, config) = (self.replication, kafka_sink::TopicConfig::default());
        let topics = kafka_sink::TopicPolicy::Create { partitions: None, replication, config };
        connection_settings(&connection, name, topics)
    }
}

/// Reports the records that the connector has written after its offset.
#[cfg(feature = "kafka")]
fn report_written(written: &kafka_sink::ConnectorRecords) {
    if written.count > 0 {
        tracing::info!(
            "the connector wrote {} records after its saved offset: the stream does not write them again",
            written.count
        );
    }
    if !written.unknown_topics.is_empty() {
        tracing::warn!(
            "records of these topics are not in JSON with Debezium's field `source`, so the stream can write the last ones \
             again: {}",
            written.unknown_topics.join(", ")
        );
    }
}

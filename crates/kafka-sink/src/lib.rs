//! Apache Kafka as a sink of [`stream`]: each transaction of the source exactly once, for readers of committed records.
//!
//! A transaction of Kafka contains whole transactions of the source, and the progress of the stream in a topic of its own. A
//! run that starts reads this progress back, after it has fenced off any earlier run of the same name.
//!
//! | to | use |
//! |---|---|
//! | parse `kafka://HOST:PORT,…/` | [`KafkaAddress`] |
//! | connect, and read the saved progress | [`KafkaSink::open`] |
//! | choose the topics of tables | [`TopicPolicy`], [`TopicConfig`], [`TopicRoute`] |
//! | choose the formats of keys and values | [`RecordFormats`], [`RegistrySettings`] |
//! | continue where a Debezium connector stopped | [`DebeziumOffset`], [`KafkaSink::adopt`] |
//! | show the state of the connection | [`SharedKafkaState`] |
//! | log what happens to the connection | [`KafkaNotice`] |
//!
//! This crate never reads a log, never writes a record outside of a transaction, and never weakens a connection: TLS and
//! logins are exactly as the properties of librdkafka request them.
#![forbid(unsafe_code)]

mod avro_encoder;
mod avro_schema;
mod batch_sender;
mod client_statistics;
mod connect_json;
mod connector_records;
mod dead_letter;
mod debezium_offset;
mod error;
mod http_client;
mod java_map;
mod json_schema;
mod kafka_address;
mod kafka_connection;
mod kafka_context;
mod kafka_notice;
mod kafka_properties;
mod kafka_sink;
mod kafka_state;
mod lost_transaction;
mod oauth_settings;
mod pending_records;
mod progress_topic;
mod record_encoder;
mod record_format;
mod record_identity;
mod registry_settings;
mod routed_table;
mod schema_registry;
mod token_client;
mod topic_catalogue;
mod topic_config;
mod topic_reader;
mod topic_route;
mod transaction_committer;

pub use crate::connector_records::ConnectorRecords;
pub use crate::debezium_offset::{DebeziumOffset, DebeziumOffsetError};
pub use crate::error::KafkaSinkError;
pub use crate::kafka_address::{KafkaAddress, KafkaAddressError};
pub use crate::kafka_notice::{KafkaNotice, KafkaNoticeReceiver};
pub use crate::kafka_properties::{KafkaProperties, KafkaPropertyError};
pub use crate::kafka_sink::{KafkaSettings, KafkaSink, OpenedKafka};
pub use crate::kafka_state::{BrokerFigures, KafkaFigures, RegistryFigures, SharedKafkaState};
pub use crate::record_format::{RecordFormat, RecordFormats};
pub use crate::registry_settings::{RegistrySettings, RegistrySettingsError};
pub use crate::topic_catalogue::{TopicPolicy, check_stream_name};
pub use crate::topic_config::TopicConfig;
pub use crate::topic_route::{TopicRoute, TopicRouteError};

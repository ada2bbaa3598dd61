//! Errors of a connection to Kafka.

use std::io;

/// Error of a connection to Kafka.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaSinkError {
    /// A property that librdkafka refuses. Its value may be a secret.
    #[error("librdkafka refuses the property {name}: {reason}")]
    Property {
        /// Name.
        name: String,
        /// Reason.
        reason: String,
    },
    /// A login by tokens that is not possible.
    #[error("sasl.mechanism=OAUTHBEARER: {reason}")]
    Oauth {
        /// Reason.
        reason: String,
    },
    /// The brokers cannot be reached.
    #[error("could not reach the brokers {brokers} within {seconds} s: {reason}")]
    Unreachable {
        /// Addresses.
        brokers: String,
        /// Seconds waited.
        seconds: u64,
        /// Last error.
        reason: String,
    },
    /// Another run of the same name has taken over.
    #[error(
        "another bintide with --name {name} has taken over this stream, or the brokers were out of reach for longer than \
         transaction.timeout.ms: stop one of the two, or give each stream a --name of its own"
    )]
    Fenced {
        /// Name of the stream.
        name: String,
    },
    /// A name of a stream from which no names of topics can be made.
    #[error("the name of the stream {name:?} {reason}")]
    StreamName {
        /// Name.
        name: String,
        /// Problem, and the expected form.
        reason: String,
    },
    /// A topic that does not exist.
    #[error(
        "the topic {topic} does not exist: create it, or let bintide create topics (without --require-topics)"
    )]
    NoTopic {
        /// Name.
        topic: String,
    },
    /// A topic of two tables. Their records would overwrite each other in a compacted topic.
    #[error(
        "the tables {first} and {second} have the same topic {topic}: exclude one of them, or write it with a --name of its own"
    )]
    SharedTopic {
        /// Name.
        topic: String,
        /// Table whose records it has.
        first: String,
        /// Other table.
        second: String,
    },
    /// A route to a topic that has other records of the stream.
    #[error(
        "--route: the table {table} cannot use the topic {topic}, which has other records of this stream"
    )]
    ReservedTopic {
        /// Name.
        topic: String,
        /// Table.
        table: String,
    },
    /// A topic for dead letters that has other records of the stream.
    #[error(
        "the topic {topic} of --dead-letter has other records of this stream: give --dead-letter a topic of its own"
    )]
    SharedDeadLetters {
        /// Name.
        topic: String,
    },
    /// A topic that cannot be created.
    #[error("could not create the topic {topic}: {reason}")]
    CreateTopic {
        /// Name.
        topic: String,
        /// Reason.
        reason: String,
    },
    /// A topic that Kafka cannot distinguish from another one.
    #[error(
        "could not create the topic {topic}: Kafka does not distinguish it from the topic {other}, because `.` and `_` count as \
         the same character. Write the table to another topic with --route, or exclude it"
    )]
    CollidingTopic {
        /// Name.
        topic: String,
        /// Existing topic.
        other: String,
    },
    /// A topic of progress whose records Kafka deletes.
    #[error(
        "the topic {topic} does not keep the progress of the stream (cleanup.policy={policy}): set cleanup.policy=compact for it"
    )]
    NotCompacted {
        /// Name.
        topic: String,
        /// Its policy.
        policy: String,
    },
    /// Saved progress that cannot be read.
    #[error("could not read the progress of the stream in the topic {topic}: {reason}{remedy}")]
    ReadProgress {
        /// Name.
        topic: String,
        /// Reason.
        reason: String,
        /// Sentence; empty if there is no remedy.
        remedy: &'static str,
    },
    /// Saved progress that is malformed.
    #[error("the progress of the stream in the topic {topic} is damaged: {reason}")]
    Progress {
        /// Name.
        topic: String,
        /// Reason.
        reason: String,
    },
    /// A record that is larger than its limit.
    #[error(
        "a record of {size} bytes for the topic {topic} is larger than the limit {limit} (key {key}, transaction {transaction}): raise \
         message.max.bytes with --kafka message.max.bytes=BYTES, and max.message.bytes of the topic, or give --dead-letter \
         TOPIC for such records"
    )]
    TooLarge {
        /// Topic.
        topic: String,
        /// Key as text.
        key: String,
        /// GTID of its transaction.
        transaction: String,
        /// Size in bytes, with headers and what Kafka adds to a record.
        size: usize,
        /// Property with the limit, and its value.
        limit: String,
    },
    /// A record that the brokers refuse.
    #[error(
        "the brokers refuse a record for the topic {topic} (key {key}, transaction {transaction}): {reason}"
    )]
    Refused {
        /// Topic.
        topic: String,
        /// Key as text.
        key: String,
        /// GTID of its transaction.
        transaction: String,
        /// Reason.
        reason: String,
    },
    /// A topic that does not exist any more.
    #[error(
        "the topic {topic} was deleted while the stream was running: the next run creates it and continues after the last \
         commit; with --require-topics, create it first"
    )]
    TopicDeleted {
        /// Name.
        topic: String,
    },
    /// A topic of progress that does not exist any more.
    #[error(
        "the topic {topic} with the progress of the stream was deleted while the stream was running: the next run cannot continue, \
         and starts as a new stream"
    )]
    ProgressDeleted {
        /// Name.
        topic: String,
    },
    /// Topics to which the account may not write.
    #[error(
        "the brokers do not allow this account to write to the topic {topics}: give it the permission WRITE on the topic"
    )]
    NotAuthorized {
        /// Name; all topics of the transaction if the brokers do not name one.
        topics: String,
    },
    /// A stop was requested before the brokers confirmed a transaction.
    #[error("the brokers did not confirm the last records, which the next run writes again: {reason}")]
    Unconfirmed {
        /// Last error.
        reason: String,
    },
    /// A schema that is not compatible with those before it.
    #[error(
        "the schema registry refuses the new schema of the subject {subject}: {reason}. Make the table's definition compatible \
         (new columns need a default or NULL), or lower the subject's compatibility level (PUT /config/{subject} with \
         {{\"compatibility\":\"NONE\"}}). Then start the stream again"
    )]
    IncompatibleSchema {
        /// Subject.
        subject: String,
        /// Reason of the registry.
        reason: String,
    },
    /// A schema that the registry refuses for another reason.
    #[error("the schema registry refuses to register a schema of the subject {subject}: {reason}")]
    RefusedSchema {
        /// Subject.
        subject: String,
        /// Reason of the registry.
        reason: String,
    },
    /// The schema registry does not answer.
    #[error(
        "the schema registry {url} is not available: {reason} (tried for {seconds} s). The next run writes the unconfirmed records"
    )]
    RegistryAway {
        /// Address.
        url: String,
        /// Seconds waited.
        seconds: u64,
        /// Last error.
        reason: String,
    },
    /// A record that lacks values of its schema.
    #[error(
        "a record for the topic {topic} does not match its schema (key {key}, transaction {transaction}): {reason}. The source \
         must log whole rows (binlog_row_image=FULL)"
    )]
    Unencodable {
        /// Topic.
        topic: String,
        /// Key as text.
        key: String,
        /// GTID of its transaction.
        transaction: String,
        /// Reason.
        reason: String,
    },
    /// Another error of librdkafka.
    #[error("{what} failed: {reason}")]
    Other {
        /// Operation.
        what: &'static str,
        /// Reason.
        reason: String,
    },
}

impl From<KafkaSinkError> for io::Error {
    fn from(error: KafkaSinkError) -> Self {
        Self::other(error)
    }
}

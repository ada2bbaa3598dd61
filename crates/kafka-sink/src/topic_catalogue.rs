//! Names of topics, which are those of Debezium, and their creation.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use stream::{KeyedRecordKind, RecordTable};

use crate::dead_letter::DeadLetterTopic;
use crate::error::KafkaSinkError;
use crate::kafka_connection::ConnectionConfig;
use crate::kafka_notice::KafkaNotice;
use crate::kafka_sink::KafkaSettings;
use crate::lost_transaction::StreamTopics;
use crate::routed_table::RoutedTable;
use crate::topic_config::TopicConfig;
use crate::topic_route::TopicRoute;

/// Property of a topic: whether old records are deleted, or only those with a later record of their key.
const CLEANUP_POLICY: &str = "cleanup.policy";
/// Time for the brokers to answer a request, with all attempts.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of one attempt: a stop request takes effect between attempts.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Errors of an attempt without an answer.
const TIMEOUT_CODES: [RDKafkaErrorCode; 2] =
    [RDKafkaErrorCode::OperationTimedOut, RDKafkaErrorCode::RequestTimedOut];

/// Pause before another attempt to create a topic.
const BACKOFF: Duration = Duration::from_secs(1);
/// Errors of brokers that are away, or that have just come back.
const LOST_CODES: [RDKafkaErrorCode; 8] = [
    RDKafkaErrorCode::AllBrokersDown,
    RDKafkaErrorCode::BrokerTransportFailure,
    RDKafkaErrorCode::BrokerNotAvailable,
    RDKafkaErrorCode::LeaderNotAvailable,
    RDKafkaErrorCode::NotController,
    RDKafkaErrorCode::OperationTimedOut,
    RDKafkaErrorCode::RequestTimedOut,
    RDKafkaErrorCode::NetworkException,
];

/// Maximum size of a topic's name, in Kafka.
const NAME_SIZE_MAX: usize = 249;

/// Maximum length of a stream's name, in characters. With it, the longest name of an own topic has `NAME_SIZE_MAX`.
const STREAM_NAME_MAX: usize = NAME_SIZE_MAX - HEARTBEAT_TOPIC.len() - 1;

/// Prefix of the topic with heartbeats, longer than the suffix of any other own topic.
const HEARTBEAT_TOPIC: &str = "__debezium-heartbeat";
/// Suffix of the topic with the progress.
const PROGRESS_TOPIC: &str = "bintide-progress";
/// Suffix of the topic with the starts and ends of transactions.
const TRANSACTION_TOPIC: &str = "transaction";

/// Treatment of topics that do not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicPolicy {
    /// Create them.
    Create {
        /// Number of partitions; `None` for the default of the brokers.
        partitions: Option<u32>,
        /// Number of replicas of each partition; `None` for the default of the brokers.
        replication: Option<u32>,
        /// Configuration of all topics but that of the progress.
        config: TopicConfig,
    },
    /// Return an error.
    Require,
}

/// Topics of a stream.
pub(crate) struct TopicCatalogue {
    /// Name of the stream: Debezium's topic prefix.
    prefix: String,
    policy: TopicPolicy,
    /// The first route that matches a table applies.
    routes: Vec<TopicRoute>,
    connection: ConnectionConfig,
    /// Returns whether a stop was requested.
    is_stop_requested: fn() -> bool,
    /// Topics that exist.
    existing: HashSet<String>,
    /// Topics in use, by number.
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    /// Topics of rows by database and table.
    rows: HashMap<[String; 2], RowTopic>,
    /// Table of the last row, and its topic.
    last: Option<(Arc<RecordTable>, RowTopic)>,
    definitions: Option<usize>,
    transactions: Option<usize>,
    heartbeats: Option<usize>,
    dead_letters: Option<DeadLetterTopic>,
}

/// Topic of the rows of a table.
#[derive(Clone)]
struct RowTopic {
    number: usize,
    /// Form of a table that shares its topic; `None` for a table with a topic of its own.
    routed: Option<Arc<RoutedTable>>,
}

impl TopicCatalogue {
    /// Creates a catalogue; `existing`: names of the existing topics. `connection`: configuration of connections to the brokers.
    pub(crate) fn new(
        settings: &KafkaSettings,
        connection: ConnectionConfig,
        existing: HashSet<String>,
    ) -> Self {
        Self {
            prefix: settings.name.clone(),
            policy: settings.topics.clone(),
            routes: settings.routes.clone(),
            connection,
            is_stop_requested: settings.is_stop_requested,
            existing,
            names: Vec::new(),
            numbers: HashMap::new(),
            rows: HashMap::new(),
            last: None,
            definitions: None,
            transactions: None,
            heartbeats: None,
            dead_letters: None,
        }
    }

    pub(crate) fn name(&self, number: usize) -> &str {
        &self.names[number]
    }

    /// Returns those of these topics that can have records of the stream: of its tables, transactions and DDL statements.
    pub(crate) fn of_stream(&self, topics: &[String]) -> Vec<String> {
        let progress = progress_topic_name(&self.prefix);
        let is_own = |topic: &&String| is_of_stream(&self.prefix, topic) && **topic != progress;
        topics.iter().filter(is_own).cloned().collect()
    }

    /// Returns the topic of a kind of records. Creates it if it is missing.
    pub(crate) fn topic_of(&mut self, kind: &KeyedRecordKind) -> Result<usize, KafkaSinkError> {
        match kind {
            KeyedRecordKind::Row(table) => {
                if let Some((last, topic)) = &self.last
                    && Arc::ptr_eq(last, table)
                {
                    return Ok(topic.number);
                }
                let topic = self.row_topic(table)?;
                let number = topic.number;
                self.last = Some((Arc::clone(table), topic));
                Ok(number)
            }
            KeyedRecordKind::Transaction => {
                let number = match self.transactions {
                    Some(number) => number,
                    None => self.add(&topic_name(&[&self.prefix, TRANSACTION_TOPIC]))?,
                };
                self.transactions = Some(number);
                Ok(number)
            }
            KeyedRecordKind::Definition => {
                let number = match self.definitions {
                    Some(number) => number,
                    None => self.add(&topic_name(&[&self.prefix]))?,
                };
                self.definitions = Some(number);
                Ok(number)
            }
            KeyedRecordKind::Heartbeat => {
                let number = match self.heartbeats {
                    Some(number) => number,
                    None => self.add(&heartbeat_topic_name(&self.prefix))?,
                };
                self.heartbeats = Some(number);
                Ok(number)
            }
        }
    }

    /// Returns the form of the table of the last row, if it shares its topic with others.
    pub(crate) fn last_routed(&self) -> Option<&RoutedTable> {
        self.last.as_ref()?.1.routed.as_deref()
    }

    fn row_topic(&mut self, table: &Arc<RecordTable>) -> Result<RowTopic, KafkaSinkError> {
        let names = [table.database.clone(), table.table.clone()];
        let known = self.rows.get(&names);
        if let Some(topic) = known
            && topic.routed.as_ref().is_none_or(|routed| routed.is_of(table))
        {
            return Ok(topic.clone());
        }
        let own_topic = topic_name(&[&self.prefix, &table.database, &table.table]);
        let route = self.routes.iter().find_map(|route| route.topic_of(&table.database, &table.table));
        let topic = match route {
            Some(route) => {
                let number = known.and_then(|topic| topic.routed.as_ref()).map(|routed| routed.number);
                let number = number.unwrap_or(self.rows.len());
                let routed = Some(Arc::new(RoutedTable::new(Arc::clone(table), &own_topic, number)));
                RowTopic { number: self.add_routed(&topic_name(&[&self.prefix, &route]), &names)?, routed }
            }
            None => RowTopic { number: self.add(&own_topic)?, routed: None },
        };
        self.check_unshared(&topic, &names)?;
        self.rows.insert(names, topic.clone());
        Ok(topic)
    }

    /// Returns the topic of a route. Creates it if it is missing.
    fn add_routed(&mut self, name: &str, [database, table]: &[String; 2]) -> Result<usize, KafkaSinkError> {
        let reserved = [progress_topic_name(&self.prefix), topic_name(&[&self.prefix, TRANSACTION_TOPIC])];
        if reserved.iter().any(|reserved| reserved == name) {
            let table = format!("{database}.{table}");
            return Err(KafkaSinkError::ReservedTopic { topic: name.to_owned(), table });
        }
        self.add(name)
    }

    /// Refuses a second table for a topic: names with other characters than Kafka's can become equal. Tables may share the
    /// topic of a route if their keys differ.
    fn check_unshared(&self, topic: &RowTopic, names: &[String; 2]) -> Result<(), KafkaSinkError> {
        let is_conflict = |(other_names, other): &(&[String; 2], &RowTopic)| {
            let is_shared = other.number == topic.number && *other_names != names;
            is_shared
                && match (&topic.routed, &other.routed) {
                    (Some(routed), Some(other)) => routed.has_keys_of(other),
                    _ => true,
                }
        };
        match self.rows.iter().find(is_conflict) {
            None => Ok(()),
            Some((first, _)) => Err(KafkaSinkError::SharedTopic {
                topic: self.names[topic.number].clone(),
                first: first.join("."),
                second: names.join("."),
            }),
        }
    }

    /// Sets the topic for dead letters. Creates it if it is missing.
    pub(crate) fn add_dead_letters(&mut self, name: &str, size_max: usize) -> Result<(), KafkaSinkError> {
        if self.numbers.contains_key(name) {
            return Err(KafkaSinkError::SharedDeadLetters { topic: name.to_owned() });
        }
        let number = self.add(name)?;
        let size_max = self.record_size_max(number).unwrap_or(size_max).min(size_max);
        self.dead_letters = Some(DeadLetterTopic { number, size_max });
        Ok(())
    }

    /// Returns the topic for dead letters, if there is one.
    pub(crate) const fn dead_letters(&self) -> Option<DeadLetterTopic> {
        self.dead_letters
    }

    /// Returns the limit of a topic for the size of a batch; `None` if the account may not read it.
    pub(crate) fn record_size_max(&self, number: usize) -> Option<usize> {
        let text = self.property(self.name(number), "max.message.bytes").ok()??;
        text.parse().ok()
    }

    fn add(&mut self, name: &str) -> Result<usize, KafkaSinkError> {
        if let Some(number) = self.numbers.get(name) {
            if self.dead_letters.is_some_and(|topic| topic.number == *number) {
                return Err(KafkaSinkError::SharedDeadLetters { topic: name.to_owned() });
            }
            return Ok(*number);
        }
        if !self.existing.contains(name) {
            let TopicPolicy::Create { partitions, replication, config } = &self.policy else {
                return Err(KafkaSinkError::NoTopic { topic: name.to_owned() });
            };
            let replication = TopicReplication::Fixed(or_default(*replication));
            self.create(&config.applied_to(NewTopic::new(name, or_default(*partitions), replication)))?;
        }
        Ok(self.add_existing(name))
    }

    fn add_existing(&mut self, name: &str) -> usize {
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Returns the topic of the saved progress, which has one partition and is compacted. Creates it if it is missing.
    pub(crate) fn progress_topic(&mut self) -> Result<usize, KafkaSinkError> {
        let name = progress_topic_name(&self.prefix);
        if self.existing.contains(&name) {
            self.check_compaction(&name)?;
            return Ok(self.add_existing(&name));
        }
        let TopicPolicy::Create { replication, .. } = &self.policy else {
            return Err(KafkaSinkError::NoTopic { topic: name });
        };
        let topic = NewTopic::new(&name, 1, TopicReplication::Fixed(or_default(*replication)));
        // Short segments: only closed ones are compacted, and a run reads all that is left.
        let topic = topic.set(CLEANUP_POLICY, "compact").set("segment.bytes", "8388608");
        self.create(&topic.set("min.cleanable.dirty.ratio", "0.1"))?;
        Ok(self.add_existing(&name))
    }

    /// Creates a topic. Tries again while the brokers are away, or have just come back.
    fn create(&self, topic: &NewTopic<'_>) -> Result<(), KafkaSinkError> {
        let failed = |reason: String| KafkaSinkError::CreateTopic { topic: topic.name.to_owned(), reason };
        if self.connection.tokens.is_some() {
            // The client that creates topics takes no tokens.
            let reason =
                "bintide creates no topics with sasl.mechanism=OAUTHBEARER. Create it with another tool";
            return Err(failed(reason.to_owned()));
        }
        let begun = Instant::now();
        loop {
            let code = match self.try_create(topic) {
                Ok(None) => return Ok(()),
                Ok(Some(code)) => code,
                Err(error) => error.rdkafka_error_code().ok_or_else(|| failed(error.to_string()))?,
            };
            let is_transient = match code {
                // A broker that has just started knows no others, and not even itself.
                RDKafkaErrorCode::InvalidReplicationFactor => begun.elapsed() < ADMIN_TIMEOUT,
                code if TIMEOUT_CODES.contains(&code) => begun.elapsed() < ADMIN_TIMEOUT,
                code => LOST_CODES.contains(&code),
            };
            if code == RDKafkaErrorCode::InvalidTopic
                && let Some(other) = self.colliding_topic(topic.name)
            {
                return Err(KafkaSinkError::CollidingTopic {
                    topic: topic.name.to_owned(),
                    other: other.clone(),
                });
            }
            if !is_transient || (self.is_stop_requested)() {
                return Err(failed(refusal_text(topic, code)));
            }
            thread::sleep(BACKOFF);
        }
    }

    /// Returns a topic whose name is the same for Kafka.
    fn colliding_topic(&self, name: &str) -> Option<&String> {
        let form = |name: &str| name.replace('.', "_");
        let is_same = |other: &&String| *other != name && form(other) == form(name);
        self.names.iter().chain(&self.existing).find(is_same)
    }

    /// Returns the error of the brokers; `None` if the topic exists now.
    fn try_create(&self, topic: &NewTopic<'_>) -> Result<Option<RDKafkaErrorCode>, KafkaError> {
        let options = AdminOptions::new().operation_timeout(Some(ATTEMPT_TIMEOUT));
        let admin = self.admin()?;
        let created = block_on(admin.create_topics([topic], &options.request_timeout(Some(ATTEMPT_TIMEOUT))));
        Ok(match created?.pop() {
            Some(Ok(_)) | Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => None,
            Some(Err((_, code))) => Some(code),
            None => Some(RDKafkaErrorCode::BadMessage),
        })
    }

    /// Checks that Kafka does not delete the records of a topic after a while.
    fn check_compaction(&self, topic: &str) -> Result<(), KafkaSinkError> {
        let policy = self.property(topic, CLEANUP_POLICY).map_err(|error| KafkaSinkError::Other {
            what: "reading the configuration of the topic of the progress",
            reason: error.to_string(),
        })?;
        match policy {
            Some(policy) if policy != "compact" => {
                Err(KafkaSinkError::NotCompacted { topic: topic.to_owned(), policy })
            }
            None => {
                self.connection.notices.notify(KafkaNotice::CompactionUnchecked { topic: topic.to_owned() });
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns a property of a topic; `None` if it cannot be read with this login, or the account has no permission.
    fn property(&self, topic: &str, name: &str) -> Result<Option<String>, KafkaError> {
        if self.connection.tokens.is_some() {
            // The client that reads it takes no tokens.
            return Ok(None);
        }
        let admin = self.admin()?;
        let options = AdminOptions::new().request_timeout(Some(ATTEMPT_TIMEOUT));
        let begun = Instant::now();
        let described = loop {
            match block_on(admin.describe_configs([&ResourceSpecifier::Topic(topic)], &options)) {
                Err(error)
                    if error.rdkafka_error_code().is_some_and(|code| TIMEOUT_CODES.contains(&code))
                        && begun.elapsed() < ADMIN_TIMEOUT
                        && !(self.is_stop_requested)() => {}
                described => break described,
            }
        };
        match described?.pop() {
            Some(Ok(resource)) => Ok(resource.get(name).and_then(|entry| entry.value.clone())),
            Some(Err(RDKafkaErrorCode::TopicAuthorizationFailed)) | None => Ok(None),
            Some(Err(code)) => Err(KafkaError::AdminOp(code)),
        }
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>, KafkaError> {
        self.connection.client.create()
    }
}

/// Returns why the brokers do not create a topic. They do not name the property that they refuse.
fn refusal_text(topic: &NewTopic<'_>, code: RDKafkaErrorCode) -> String {
    let config: Vec<String> = topic.config.iter().map(|(name, value)| format!("{name}={value}")).collect();
    match code {
        RDKafkaErrorCode::InvalidConfig => format!("{code}: {}", config.join(", ")),
        code => code.to_string(),
    }
}

/// Returns a number for librdkafka, for which -1 is the default of the brokers.
fn or_default(number: Option<u32>) -> i32 {
    number.and_then(|number| i32::try_from(number).ok()).unwrap_or(-1)
}

/// Checks the name of a stream: that of its topic with DDL statements, and the start of the names of the others.
///
/// # Errors
///
/// Fails if Kafka does not allow the name for a topic, or if the names of the stream's own topics would be too long.
pub fn check_stream_name(name: &str) -> Result<(), KafkaSinkError> {
    let failed = |reason: String| KafkaSinkError::StreamName { name: name.to_owned(), reason };
    if matches!(name, "" | "." | "..") {
        return Err(failed(
            "is not the name of a topic: expected letters, digits, `.`, `_` and `-`".to_owned(),
        ));
    }
    let characters = name.chars().count();
    if characters > STREAM_NAME_MAX {
        return Err(failed(format!(
            "has {characters} characters: expected at most {STREAM_NAME_MAX}, because names of topics have at most {NAME_SIZE_MAX}"
        )));
    }
    Ok(())
}

/// Returns the existing topics of a stream.
pub(crate) fn stream_topics(settings: &KafkaSettings, existing: &HashSet<String>) -> StreamTopics {
    let name = &settings.name;
    let others = [Some(heartbeat_topic_name(name)), settings.dead_letters.clone()];
    let is_own =
        |topic: &&String| is_of_stream(name, topic) || others.iter().flatten().any(|other| other == *topic);
    let all = existing.iter().filter(is_own).cloned().collect();
    StreamTopics { progress: progress_topic_name(name), all }
}

/// Returns whether a topic has records of a stream's tables, transactions, DDL statements or progress, by its name.
fn is_of_stream(stream: &str, topic: &str) -> bool {
    let own = topic_name(&[stream]);
    topic.strip_prefix(&own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn heartbeat_topic_name(stream: &str) -> String {
    topic_name(&[HEARTBEAT_TOPIC, stream])
}

/// Returns the name of the topic with the progress of a stream.
pub(crate) fn progress_topic_name(stream: &str) -> String {
    topic_name(&[stream, PROGRESS_TOPIC])
}

/// Joins the parts of a topic's name. Kafka does not allow other characters than letters, digits, `.`, `_` and `-`;
/// Debezium replaces each of them by `_`.
fn topic_name(parts: &[&str]) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name = parts.join(".");
    name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(NAME_SIZE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stream::{KeyedRecordKind, RecordTable};

    use super::{
        NAME_SIZE_MAX, TopicCatalogue, TopicConfig, TopicPolicy, check_stream_name, heartbeat_topic_name,
        progress_topic_name, topic_name,
    };
    use crate::error::KafkaSinkError;
    use crate::kafka_connection::ConnectionConfig;
    use crate::kafka_sink::KafkaSettings;

    fn catalogue(routes: &[&str], existing: &[&str]) -> TopicCatalogue {
        let routes = routes.iter().map(|route| route.parse().unwrap()).collect();
        let settings = KafkaSettings { routes, ..KafkaSettings::of_test() };
        let existing = existing.iter().map(|topic| (*topic).to_owned()).collect();
        TopicCatalogue::new(&settings, ConnectionConfig::new(&settings).unwrap(), existing)
    }

    fn table(database: &str, table: &str) -> KeyedRecordKind {
        KeyedRecordKind::Row(Arc::new(RecordTable {
            database: database.into(),
            table: table.into(),
            ..RecordTable::default()
        }))
    }

    #[test]
    fn topics_of_a_stream_begin_with_its_name() {
        let topics = ["p", "p.d.t", "p.transaction", "p.bintide-progress", "pp.d.t", "offsets", "P.d.t"];
        let topics = topics.map(str::to_owned);
        assert_eq!(catalogue(&[], &[]).of_stream(&topics), ["p", "p.d.t", "p.transaction"]);
    }

    #[test]
    fn a_topic_has_the_rows_of_one_table() {
        let mut topics = catalogue(&[], &["p.d.a_b", "p.d.c"]);
        assert_eq!(topics.topic_of(&table("d", "a$b")).unwrap(), 0);
        assert_eq!(topics.topic_of(&table("d", "c")).unwrap(), 1);
        assert_eq!(topics.topic_of(&table("d", "a$b")).unwrap(), 0);
        let refused = topics.topic_of(&table("d", "a_b")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the tables d.a$b and d.a_b have the same topic p.d.a_b: exclude one of them, or write it with a --name of \
             its own"
        );
        assert_eq!(
            topics.add_dead_letters("p.d.c", 1000).unwrap_err().to_string(),
            "the topic p.d.c of --dead-letter has other records of this stream: give --dead-letter a topic of its own"
        );
    }

    #[test]
    fn routed_tables_share_their_topic() {
        let routes = [r"d\.t_(1|2)=d.t", r"(d)\.t_.=$1.others", r"d\.(x)=transaction"];
        let mut topics = catalogue(&routes, &["p.d.t", "p.d.others", "p.d.c"]);
        let mut check = |name: &str, expected: usize, routed: Option<usize>| {
            assert_eq!(topics.topic_of(&table("d", name)).unwrap(), expected, "{name}");
            assert_eq!(topics.last_routed().map(|routed| routed.number), routed, "{name}");
        };
        check("t_1", 0, Some(0));
        check("c", 1, None);
        check("t_2", 0, Some(2));
        check("t_1", 0, Some(0));
        check("t_3", 2, Some(3));
        // Rows without the field in their keys could overwrite those of other tables.
        let refused = topics.topic_of(&table("d", "t"));
        assert!(matches!(refused, Err(KafkaSinkError::SharedTopic { second, .. }) if second == "d.t"));
        assert_eq!(
            topics.topic_of(&table("d", "x")).unwrap_err().to_string(),
            "--route: the table d.x cannot use the topic p.transaction, which has other records of this stream"
        );
    }

    #[test]
    fn topics_are_not_created_with_logins_by_token() {
        let topics =
            TopicPolicy::Create { partitions: None, replication: None, config: TopicConfig::default() };
        let mut settings = KafkaSettings { topics, ..KafkaSettings::of_test() };
        for (name, value) in [
            ("sasl.mechanism", "OAUTHBEARER"),
            ("sasl.oauthbearer.token.endpoint.url", "https://idp/token"),
            ("sasl.oauthbearer.client.id", "me"),
            ("sasl.oauthbearer.client.secret", "x"),
        ] {
            settings.properties.values.insert(name.to_owned(), value.to_owned());
        }
        let connection = ConnectionConfig::new(&settings).unwrap();
        let mut topics = TopicCatalogue::new(&settings, connection, Default::default());
        assert_eq!(
            topics.topic_of(&table("d", "t")).unwrap_err().to_string(),
            "could not create the topic p.d.t: bintide creates no topics with sasl.mechanism=OAUTHBEARER. Create it with another tool"
        );
    }

    #[test]
    fn names_of_streams_leave_room_for_those_of_topics() {
        let check = |name: &str, expected: Option<&str>| {
            let found = check_stream_name(name).err().map(|error| error.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
        };
        let expected = "is not the name of a topic: expected letters, digits, `.`, `_` and `-`";
        for name in ["", ".", ".."] {
            check(name, Some(&format!("the name of the stream {name:?} {expected}")));
        }
        let longest = "n".repeat(228);
        check(&longest, None);
        assert_eq!(heartbeat_topic_name(&longest).len(), NAME_SIZE_MAX);
        assert!(progress_topic_name(&longest).len() < NAME_SIZE_MAX);
        let longer = "n".repeat(229);
        let expected = "has 229 characters: expected at most 228, because names of topics have at most 249";
        check(&longer, Some(&format!("the name of the stream {longer:?} {expected}")));
        check("Zoë's shop", None);
    }

    #[test]
    fn names_have_only_characters_that_kafka_allows() {
        assert_eq!(topic_name(&["bintide", "shop", "orders"]), "bintide.shop.orders");
        assert_eq!(topic_name(&["a", "ü $", "x-1_2"]), "a.___.x-1_2");
        assert_eq!(topic_name(&["a", &"x".repeat(300)]).len(), 249);
    }
}

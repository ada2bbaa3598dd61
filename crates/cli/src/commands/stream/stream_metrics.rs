//! Metrics of `stream`.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use logs::{lock, now_s};
use stream::{ResumePosition, SnapshotProgress};

use crate::http_site::HttpSite;
use crate::metric_table::{MetricRow, log_number};
use crate::metrics_registry::MetricsRegistry;
use crate::service_state::ServiceState;
use crate::units::{counted, duration};

/// Latest figures of a stream, shared between threads.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedStreamFigures {
    figures: Arc<Mutex<StreamFigures>>,
    /// State of the connection to Kafka, if records go there.
    #[cfg(feature = "kafka")]
    kafka: Arc<std::sync::OnceLock<kafka_sink::SharedKafkaState>>,
}

/// Figures of a stream at a moment.
#[derive(Clone, Debug, Default)]
struct StreamFigures {
    transactions: u64,
    /// Set if a server is followed; logs have no connections.
    has_server: bool,
    connections: u64,
    is_connected: bool,
    /// Error of the last connection, until a connection succeeds.
    error: Option<String>,
    /// Time of the last event by the source's clock, in seconds since 1970.
    event_s: Option<u32>,
    /// Set if all events that the source has sent were processed.
    is_caught_up: bool,
    /// Time at which they were last known to be processed, in seconds since 1970.
    caught_up_s: Option<i64>,
    /// Log of the last transaction; empty before the first.
    log: String,
    /// End position of the last transaction in its log.
    position: u64,
    /// Figures of snapshots, if they can be requested.
    snapshot: Option<SnapshotReadings>,
    /// Figures of the connection to Kafka, if records go there.
    kafka: Option<KafkaReadings>,
    /// The moment, in seconds since 1970.
    now_s: i64,
}

/// Figures of snapshots while the stream runs.
#[derive(Clone, Debug, Default)]
struct SnapshotReadings {
    /// Number of tables to read.
    tables: u64,
    /// Table that is being read, and the number of its rows so far.
    table: Option<(String, u64)>,
    written_rows: u64,
    /// Rows that the log has changed meanwhile.
    dropped_rows: u64,
    refused: u64,
    /// Set if the current table cannot be read for the moment.
    is_waiting: bool,
}

/// Figures of a connection to Kafka.
#[derive(Clone, Debug, Default)]
struct KafkaReadings {
    transactions: u64,
    records: u64,
    bytes: u64,
    aborts: u64,
    dead_letters: u64,
    waiting_records: u64,
    waiting_bytes: u64,
    /// Figures of the brokers; `None` before the first ones.
    brokers: Option<BrokerReadings>,
    /// Last error since the last commit, or since the last broker was lost.
    error: Option<String>,
    /// Figures of the schema registry, if there is one.
    registry: Option<RegistryReadings>,
}

/// Figures of a schema registry.
#[derive(Clone, Debug, Default)]
struct RegistryReadings {
    schemas: u64,
    /// Error of the last attempt, until one succeeds.
    error: Option<String>,
}

/// Figures of the brokers.
#[derive(Clone, Copy, Debug, Default)]
struct BrokerReadings {
    connected: u64,
    down: u64,
    retries: u64,
}

/// Row of the table.
type StreamMetric = MetricRow<StreamFigures>;

/// All figures, for Prometheus.
const STREAM_METRICS: &[StreamMetric] = &[
    StreamMetric::counter(
        "bintide_stream_transactions_total",
        "Transactions whose records were written, including those without records.",
        |figures| figures.transactions.into(),
    ),
    StreamMetric::counter("bintide_stream_connections_total", "Connections to the source.", |figures| {
        figures.has_server.then_some(figures.connections).into()
    }),
    StreamMetric::gauge(
        "bintide_stream_connected",
        "1 while connected to the source, otherwise 0.",
        |figures| figures.has_server.then_some(figures.is_connected).into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_lag_seconds",
        "Age of the last event by this machine's clock; 0 if the source has no newer event.",
        |figures| figures.lag().into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_position_bytes",
        "End position of the last transaction in its log.",
        |figures| (!figures.log.is_empty()).then_some(figures.position).into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_log_number",
        "Number of the log with the last transaction.",
        |figures| log_number(&figures.log).into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_snapshot_tables",
        "Tables of requested snapshots that are not read yet.",
        |figures| figures.snapshot.as_ref().map(|snapshot| snapshot.tables).into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_snapshot_waiting",
        "1 while a table cannot be read, otherwise 0. A warning gives the reason.",
        |figures| figures.snapshot.as_ref().map(|snapshot| snapshot.is_waiting).into(),
    ),
    StreamMetric::counter(
        "bintide_stream_snapshot_rows_total",
        "Rows that requested snapshots have written.",
        |figures| figures.snapshot.as_ref().map(|snapshot| snapshot.written_rows).into(),
    ),
    StreamMetric::counter(
        "bintide_stream_snapshot_dropped_rows_total",
        "Rows that requested snapshots have not written, because the log has a later change of them.",
        |figures| figures.snapshot.as_ref().map(|snapshot| snapshot.dropped_rows).into(),
    ),
    StreamMetric::counter(
        "bintide_stream_snapshot_refused_total",
        "Tables of requested snapshots that could not be read.",
        |figures| figures.snapshot.as_ref().map(|snapshot| snapshot.refused).into(),
    ),
    StreamMetric::counter(
        "bintide_stream_kafka_transactions_total",
        "Committed transactions of Kafka; one contains many transactions of the source.",
        |figures| figures.kafka.as_ref().map(|kafka| kafka.transactions).into(),
    ),
    StreamMetric::counter(
        "bintide_stream_kafka_records_total",
        "Records in committed transactions of Kafka, with tombstones and progress.",
        |figures| figures.kafka.as_ref().map(|kafka| kafka.records).into(),
    ),
    StreamMetric::counter(
        "bintide_stream_kafka_bytes_total",
        "Bytes of keys and values in committed transactions of Kafka.",
        |figures| figures.kafka.as_ref().map(|kafka| kafka.bytes).into(),
    ),
    StreamMetric::counter(
        "bintide_stream_kafka_aborts_total",
        "Aborted transactions of Kafka, whose records were sent again.",
        |figures| figures.kafka.as_ref().map(|kafka| kafka.aborts).into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_kafka_working",
        "1 if a broker is connected and there was no error since the last commit, otherwise 0.",
        |figures| figures.kafka.as_ref().map(|kafka| kafka.error.is_none()).into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_kafka_brokers_connected",
        "Brokers of Kafka with a connection.",
        |figures| figures.brokers().map(|brokers| brokers.connected).into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_kafka_brokers_down",
        "Brokers of Kafka whose connection is lost.",
        |figures| figures.brokers().map(|brokers| brokers.down).into(),
    ),
    StreamMetric::counter(
        "bintide_stream_kafka_retries_total",
        "Requests to brokers of Kafka that were sent again.",
        |figures| figures.brokers().map(|brokers| brokers.retries).into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_kafka_waiting_records",
        "Records that are not committed yet, in memory.",
        |figures| figures.kafka.as_ref().map(|kafka| kafka.waiting_records).into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_kafka_waiting_bytes",
        "Bytes of keys and values in records that are not committed yet.",
        |figures| figures.kafka.as_ref().map(|kafka| kafka.waiting_bytes).into(),
    ),
    StreamMetric::counter(
        "bintide_stream_kafka_dead_letters_total",
        "Records that were too large for their topics, and went to the topic of --dead-letter.",
        |figures| figures.kafka.as_ref().map(|kafka| kafka.dead_letters).into(),
    ),
    StreamMetric::gauge(
        "bintide_stream_registry_working",
        "1 if the last request to the schema registry succeeded, otherwise 0.",
        |figures| figures.registry().map(|registry| registry.error.is_none()).into(),
    ),
    StreamMetric::counter(
        "bintide_stream_registry_schemas_total",
        "Schemas that were registered, or found in the schema registry.",
        |figures| figures.registry().map(|registry| registry.schemas).into(),
    ),
];

impl SharedStreamFigures {
    /// Returns the figures of a stream that follows a server, not logs.
    pub(super) fn of_server() -> Self {
        let shared = Self::default();
        shared.figures().has_server = true;
        shared
    }

    /// Returns the site for HTTP.
    pub(super) fn site(&self) -> HttpSite {
        let metrics = self.clone();
        let registry = MetricsRegistry::new().with(STREAM_METRICS, move || metrics.present());
        HttpSite::new(registry, Arc::new(self.clone()))
    }

    /// Records a connection to the source.
    pub(super) fn set_connected(&self) {
        let mut figures = self.figures();
        figures.connections += 1;
        figures.is_connected = true;
        figures.error = None;
    }

    /// Records the end of a connection.
    pub(super) fn set_disconnected(&self, error: Option<String>) {
        let mut figures = self.figures();
        (figures.is_connected, figures.is_caught_up, figures.error) = (false, false, error);
    }

    /// Records an event with this time in its header.
    pub(super) fn set_event(&self, timestamp_s: u32) {
        let mut figures = self.figures();
        figures.is_caught_up = false;
        // Artificial events have no time.
        if timestamp_s > 0 {
            figures.event_s = Some(timestamp_s);
        }
    }

    /// Records whether the source is known to have no event that is not processed.
    pub(super) fn set_caught_up(&self, is_caught_up: bool) {
        let mut figures = self.figures();
        figures.is_caught_up = is_caught_up;
        if is_caught_up {
            figures.caught_up_s = Some(now_s());
        }
    }

    /// Counts a transaction that ends at this position.
    pub(super) fn count_transaction(&self, end: &ResumePosition) {
        let mut figures = self.figures();
        figures.transactions += 1;
        // This runs for each transaction: reuse the memory of the name.
        figures.log.clone_from(&end.log);
        figures.position = end.position;
    }

    /// Shows the tables that snapshots are to read.
    pub(super) fn set_snapshot(&self, progress: &SnapshotProgress) {
        let mut figures = self.figures();
        let snapshot = figures.snapshot.get_or_insert_default();
        snapshot.tables = progress.tables.len() as u64;
        snapshot.table = progress.tables.first().map(|table| (table.names.join("."), table.rows));
    }

    /// Counts rows of snapshots.
    pub(super) fn count_snapshot_rows(&self, written: usize, dropped: usize) {
        let mut figures = self.figures();
        let snapshot = figures.snapshot.get_or_insert_default();
        snapshot.written_rows += written as u64;
        snapshot.dropped_rows += dropped as u64;
    }

    /// Shows whether a table cannot be read for the moment.
    pub(super) fn set_snapshot_waiting(&self, is_waiting: bool) {
        self.figures().snapshot.get_or_insert_default().is_waiting = is_waiting;
    }

    /// Counts a table that a snapshot cannot read.
    pub(super) fn count_refused_snapshot(&self) {
        self.figures().snapshot.get_or_insert_default().refused += 1;
    }

    /// Shows the state of a connection to Kafka.
    #[cfg(feature = "kafka")]
    pub(super) fn watch_kafka(&self, state: kafka_sink::SharedKafkaState) {
        let _ = self.kafka.set(state);
    }

    #[cfg(feature = "kafka")]
    fn kafka(&self) -> Option<KafkaReadings> {
        let figures = self.kafka.get()?.figures();
        let brokers = figures.brokers.map(|brokers| {
            let kafka_sink::BrokerFigures { connected, down, retries } = brokers;
            BrokerReadings { connected, down, retries }
        });
        Some(KafkaReadings {
            transactions: figures.transactions,
            records: figures.records,
            bytes: figures.bytes,
            aborts: figures.aborts,
            dead_letters: figures.dead_letters,
            waiting_records: figures.waiting_records,
            waiting_bytes: figures.waiting_bytes,
            brokers,
            error: figures.error,
            registry: figures.registry.map(|registry| {
                let kafka_sink::RegistryFigures { schemas, error } = registry;
                RegistryReadings { schemas, error }
            }),
        })
    }

    #[cfg(not(feature = "kafka"))]
    fn kafka(&self) -> Option<KafkaReadings> {
        None
    }

    fn present(&self) -> StreamFigures {
        let (now_s, kafka) = (now_s(), self.kafka());
        StreamFigures { now_s, kafka, ..self.figures().clone() }
    }

    fn figures(&self) -> MutexGuard<'_, StreamFigures> {
        lock(&self.figures)
    }
}

impl ServiceState for SharedStreamFigures {
    fn readiness(&self) -> Result<(), String> {
        self.present().readiness()
    }

    fn lag(&self) -> Option<Duration> {
        self.present().lag()
    }

    fn has_source(&self) -> bool {
        self.figures().has_server
    }

    fn summary(&self) -> String {
        self.present().summary()
    }
}

impl StreamFigures {
    fn brokers(&self) -> Option<BrokerReadings> {
        self.kafka.as_ref()?.brokers
    }

    fn registry(&self) -> Option<&RegistryReadings> {
        self.kafka.as_ref()?.registry.as_ref()
    }

    fn readiness(&self) -> Result<(), String> {
        if let Some(error) = self.registry().and_then(|registry| registry.error.as_ref()) {
            return Err(format!("the schema registry does not answer: {error}"));
        }
        if let Some(error) = self.kafka.as_ref().and_then(|kafka| kafka.error.as_ref()) {
            return Err(format!("Kafka accepts no records: {error}"));
        }
        if self.is_connected || !self.has_server {
            return Ok(());
        }
        let why = self.error.as_ref().map_or(String::new(), |error| format!(": {error}"));
        Err(format!("the source is not connected{why}"))
    }

    /// Returns 0 if the source has no newer event. Otherwise returns the age of the last event, or, if that is less, the
    /// time since the source had no newer event; `None` before the first event.
    fn lag(&self) -> Option<Duration> {
        if self.is_caught_up {
            return Some(Duration::ZERO);
        }
        let newest_s = self.event_s.map(i64::from).max(self.caught_up_s)?;
        Some(Duration::from_secs(u64::try_from(self.now_s - newest_s).unwrap_or_default()))
    }

    fn summary(&self) -> String {
        let mut parts = vec![counted(self.transactions, "transaction")];
        if !self.log.is_empty() {
            parts.push(format!("up to {}:{}", self.log, self.position));
        }
        parts.extend(self.lag().map(|lag| match self.is_caught_up {
            true => "caught up".to_owned(),
            false => format!("lag {}", duration(lag)),
        }));
        if let Some(SnapshotReadings { tables, table: Some((table, rows)), .. }) = &self.snapshot {
            parts.push(format!("snapshot of {table}: {}", counted(*rows, "row")));
            if *tables > 1 {
                parts.push(format!("then of {}", counted(tables - 1, "table")));
            }
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{SharedStreamFigures, StreamFigures};

    #[test]
    fn lag_is_never_negative_and_zero_without_newer_events() {
        let check = |event_s, is_caught_up, expected_s: Option<u64>| {
            let figures = StreamFigures { event_s, is_caught_up, now_s: 1000, ..StreamFigures::default() };
            assert_eq!(figures.lag(), expected_s.map(Duration::from_secs));
        };
        check(None, false, None);
        check(None, true, Some(0));
        check(Some(990), false, Some(10));
        check(Some(990), true, Some(0));
        check(Some(1005), false, Some(0));
        let silent = StreamFigures {
            event_s: Some(100),
            caught_up_s: Some(988),
            now_s: 1000,
            ..StreamFigures::default()
        };
        assert_eq!(silent.lag(), Some(Duration::from_secs(12)));
    }

    #[test]
    fn lost_sources_are_not_ready() {
        let shared = SharedStreamFigures::of_server();
        let site = shared.site();
        assert_eq!(site.readiness(), Err("the source is not connected".to_owned()));
        shared.set_connected();
        assert_eq!(site.readiness(), Ok(()));
        shared.set_disconnected(Some("reset".to_owned()));
        assert_eq!(site.readiness(), Err("the source is not connected: reset".to_owned()));
    }
}

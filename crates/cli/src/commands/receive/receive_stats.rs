//! Statistics of `receive`: as a line, as a document, and as metrics. Time is a parameter.

use std::time::Duration;

use binlog::{EventFormat, EventType, RawEvent};
use serde_json::{Value, json};

use crate::commands::receive::compression_statistics::CompressionStatistics;
use crate::commands::receive::received_gtids::ReceivedGtids;
use crate::metrics::{MetricKind, PrometheusText};
use crate::rates::RecentRates;
use crate::units::{bytes, count, counted, duration};

/// Statistics of a `receive` run.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiveStats {
    pub(super) transactions: u64,
    pub(super) events: u64,
    /// Bytes of received events.
    pub(super) bytes: u64,
    /// Bytes transferred over the network: fewer if the connection is compressed.
    pub(super) network_bytes: u64,
    /// Number of compressed logs, and their bytes before and after.
    pub(super) compressed_logs: u64,
    pub(super) compressed_from: u64,
    pub(super) compressed_to: u64,
    /// Closed logs that wait for compression, and the number of failed attempts.
    pub(super) to_compress: u64,
    pub(super) failed_compressions: u64,
    /// Connections on which the source sent its log.
    pub(super) connections: u64,
    pub(super) purged: u64,
    pub(super) syncs: u64,
    pub(super) acknowledgements: u64,
    /// Set if the source waits for acknowledgements. Known after the first connection.
    pub(super) semi_sync: Option<bool>,
    pub(super) is_connected: bool,
    /// Set if all events of the source were received.
    pub(super) is_caught_up: bool,
    pub(super) is_full: bool,
    /// Source's log, and the position of the next event in it.
    pub(super) log: String,
    pub(super) position: u64,
    /// Timestamp of the last event, in seconds since 1970 by the source's clock.
    pub(super) last_s: Option<u32>,
    /// Difference between the source's clock and ours, in seconds; positive if the source's is ahead.
    pub(super) ahead_s: i64,
    /// Compression statistics of received and stored transactions.
    pub(super) statistics: CompressionStatistics,
    /// Stored transactions.
    pub(super) reached: ReceivedGtids,
    rates: RecentRates,
}

impl ReceiveStats {
    /// Adds a sample for the rates at this time since the start.
    pub(super) fn add_rate_sample(&mut self, at: Duration) {
        self.rates.add_sample(at, self.bytes, self.transactions);
    }

    /// Counts a stored event that starts at `position` in the source's log.
    pub(super) fn count_event(&mut self, event: &RawEvent<'_>, position: u64, format: Option<&EventFormat>) {
        let size = event.bytes().len() as u64;
        self.events += 1;
        self.bytes += size;
        self.position = position + size;
        self.last_s = Some(event.header().timestamp);
        self.is_caught_up = false;
        if let Some(format) = format {
            self.statistics.event(event, format);
            self.reached.add_event(event, format);
        }
        self.transactions += u64::from(begins_transaction(event.event_type()));
    }

    /// Returns the age of the last event by the source's clock; 0 if all events were received, `None` before the
    /// first event.
    pub(super) fn lag_s(&self, now_s: i64) -> Option<u64> {
        let last = self.last_s.filter(|last| *last > 0)?;
        match self.is_caught_up && self.is_connected {
            true => Some(0),
            false => Some(u64::try_from(now_s + self.ahead_s - i64::from(last)).unwrap_or_default()),
        }
    }

    /// Returns one line for a log of messages.
    pub(super) fn line(&self, now_s: i64) -> String {
        let last = self.reached.last().map(|last| format!("up to {last}"));
        let parts = [
            vec![self.place_text()],
            last.into_iter().collect(),
            self.received_texts(),
            self.network_texts(),
        ];
        [parts.concat(), vec![self.state_text(now_s)]].concat().join(", ")
    }

    /// Returns several lines for a terminal.
    pub(super) fn terminal_text(&self, now_s: i64) -> String {
        let mut gtids = self.reached.lines();
        if let Some(first) = gtids.first_mut() {
            *first = format!("GTIDs {first}");
        }
        let place = vec![format!("{}, {}", self.place_text(), self.state_text(now_s))];
        let (came, saved) = (vec![self.received_texts().join(", ")], vec![self.network_texts().join(", ")]);
        [place, gtids, came, saved].concat().join("\n  ")
    }

    fn place_text(&self) -> String {
        format!("{} at {}", self.log, count(self.position))
    }

    fn received_texts(&self) -> Vec<String> {
        let came = vec![counted(self.transactions, "transaction"), bytes(self.bytes)];
        came.into_iter().chain(self.rates.texts()).collect()
    }

    /// Returns the bytes transferred, and those that compression saved on the network and the disk.
    fn network_texts(&self) -> Vec<String> {
        // Compression by the source saves on the disk too; compression of the connection does not.
        let by_source = self.statistics.saved_by_source();
        let network = (self.bytes + by_source).saturating_sub(self.network_bytes);
        let disk = by_source + self.bytes_saved().unwrap_or_default();
        let mut parts = vec![format!("{} transferred", bytes(self.network_bytes))];
        parts.extend((network > 0).then(|| format!("{} saved by network compression", bytes(network))));
        parts.extend((disk > 0).then(|| format!("{} saved on the disk", bytes(disk))));
        parts.extend(
            (self.to_compress > 0).then(|| format!("{} to compress", counted(self.to_compress, "log"))),
        );
        parts
    }

    fn state_text(&self, now_s: i64) -> String {
        match (self.is_full, self.is_connected, self.lag_s(now_s)) {
            (true, ..) => "disk full".to_owned(),
            (_, false, _) => "not connected".to_owned(),
            (_, _, Some(0) | None) => "caught up".to_owned(),
            (_, _, Some(lag)) => format!("lag {}", duration(Duration::from_secs(lag))),
        }
    }

    /// Returns the bytes that compression of closed logs has saved; `None` if no log was compressed.
    fn bytes_saved(&self) -> Option<u64> {
        (self.compressed_logs > 0).then(|| self.compressed_from.saturating_sub(self.compressed_to))
    }

    /// Returns the result as text.
    pub(super) fn text(&self, folder: &str) -> String {
        let ends = match self.log.as_str() {
            "" => String::new(),
            log => format!("; {folder} ends at {log}:{}", self.position),
        };
        let saved = self.bytes_saved().map(|saved| format!("; {} saved by compression", bytes(saved)));
        let received =
            format!("{}, {} received", counted(self.transactions, "transaction"), bytes(self.bytes));
        format!("{received}{ends}{}\n", saved.unwrap_or_default())
    }

    /// Returns the result as a JSON document.
    pub(super) fn document(&self, elapsed: Duration) -> Value {
        json!({
            "transactions": self.transactions,
            "events": self.events,
            "bytes": self.bytes,
            "network_bytes": self.network_bytes,
            "logs_compressed": self.compressed_logs,
            "compressed_from": self.compressed_from,
            "compressed_to": self.compressed_to,
            "logs_to_compress": self.to_compress,
            "compressions_failed": self.failed_compressions,
            "connections": self.connections,
            "logs_purged": self.purged,
            "syncs": self.syncs,
            "acknowledgements": self.acknowledgements,
            "semi_sync": self.semi_sync.unwrap_or_default(),
            "log": (!self.log.is_empty()).then_some(&self.log),
            "position": (!self.log.is_empty()).then_some(self.position),
            "compression": self.statistics.rows(),
            "seconds": elapsed.as_secs_f64(),
        })
    }

    /// Returns the metrics as text.
    pub(super) fn metrics_text(&self, now_s: i64) -> String {
        let mut sheet = PrometheusText::new();
        let mut counter = |name, help, value| sheet.counter(name, help, value);
        counter("bintide_receive_transactions_total", "Transactions received.", self.transactions);
        counter("bintide_receive_events_total", "Events received.", self.events);
        counter("bintide_receive_bytes_total", "Bytes of events received.", self.bytes);
        counter(
            "bintide_receive_network_bytes_total",
            "Bytes transferred over the network, after compression.",
            self.network_bytes,
        );
        counter("bintide_receive_logs_compressed_total", "Compressed closed logs.", self.compressed_logs);
        counter(
            "bintide_receive_compressed_from_bytes_total",
            "Bytes of compressed logs before compression.",
            self.compressed_from,
        );
        counter(
            "bintide_receive_compressed_to_bytes_total",
            "Bytes of compressed logs after compression.",
            self.compressed_to,
        );
        counter(
            "bintide_receive_compressions_failed_total",
            "Failed attempts to compress a closed log; they are retried.",
            self.failed_compressions,
        );
        counter("bintide_receive_connections_total", "Connections to the source.", self.connections);
        counter("bintide_receive_syncs_total", "Syncs of received events to disk.", self.syncs);
        counter(
            "bintide_receive_acknowledgements_total",
            "Acknowledgements sent to the source (semi-synchronous replication).",
            self.acknowledgements,
        );
        counter("bintide_receive_logs_purged_total", "Expired logs deleted.", self.purged);
        self.statistics.put(&mut sheet);
        let mut gauge = |name, help, is_so| sheet.gauge(name, help, u8::from(is_so));
        gauge(
            "bintide_receive_connected",
            "1 while connected to the source, otherwise 0.",
            self.is_connected,
        );
        let semi_sync = self.semi_sync.unwrap_or_default();
        gauge(
            "bintide_receive_semi_sync",
            "1 if the source waits for acknowledgements, otherwise 0.",
            semi_sync,
        );
        gauge("bintide_receive_disk_full", "1 while the disk is full, otherwise 0.", self.is_full);
        let help = "Closed logs that wait for compression.";
        sheet.gauge("bintide_receive_logs_to_compress", help, self.to_compress);
        if let Some(lag) = self.lag_s(now_s) {
            let help = "Age of the last received event by the source's clock; 0 if there is no newer one.";
            sheet.gauge("bintide_receive_lag_seconds", help, lag);
        }
        if !self.log.is_empty() {
            let help = "Position of the next event in the source's log.";
            let labels = [("log", self.log.as_str())];
            sheet.put("bintide_receive_position_bytes", help, MetricKind::Gauge, &labels, self.position);
        }
        sheet.into_text()
    }
}

/// Tells whether the event begins a transaction. Servers since MySQL 5.6.5 and MariaDB 10.0.2 begin each transaction
/// with such an event, with or without GTIDs.
fn begins_transaction(event_type: EventType) -> bool {
    matches!(
        event_type,
        EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged | EventType::MariadbGtid
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use logs::{LogReader, ReadOutcome};

    use super::ReceiveStats;

    fn figures() -> ReceiveStats {
        let (log, last_s) = ("b.000003".to_owned(), Some(1000));
        ReceiveStats {
            log,
            last_s,
            position: 4711,
            is_connected: true,
            ahead_s: 5,
            ..ReceiveStats::default()
        }
    }

    #[test]
    fn a_line_shows_position_and_lag() {
        let check =
            |figures: &ReceiveStats, now_s, wanted: &str| assert_eq!(figures.line(now_s), wanted, "{now_s}");
        let mut figures = figures();
        let first = "b.000003 at 4,711, 0 transactions, 0 B, 0 B transferred, lag 1 min 0 s";
        check(&figures, 1055, first);
        figures.add_rate_sample(Duration::ZERO);
        (figures.transactions, figures.bytes, figures.is_caught_up) = (100, 50_000, true);
        figures.network_bytes = 51_000;
        figures.add_rate_sample(Duration::from_secs(2));
        let rates = "b.000003 at 4,711, 100 transactions, 50.0 kB, 50 transactions/s, 25.0 kB/s";
        let plain = format!("{rates}, 51.0 kB transferred");
        check(&figures, 1055, &format!("{plain}, caught up"));
        figures.network_bytes = 8_000;
        let network = "8.0 kB transferred, 42.0 kB saved by network compression";
        check(&figures, 1055, &format!("{rates}, {network}, caught up"));
        (figures.compressed_logs, figures.compressed_from, figures.compressed_to) = (1, 30_000, 10_000);
        let savings = format!("{network}, 20.0 kB saved on the disk");
        check(&figures, 1055, &format!("{rates}, {savings}, caught up"));
        figures.to_compress = 2;
        check(&figures, 1055, &format!("{rates}, {savings}, 2 logs to compress, caught up"));
        (figures.network_bytes, figures.compressed_logs, figures.to_compress) = (51_000, 0, 0);
        figures.is_connected = false;
        check(&figures, 1055, &format!("{plain}, not connected"));
        figures.is_full = true;
        check(&figures, 1055, &format!("{plain}, disk full"));
    }

    /// Statistics after receiving the events of a sample log that a server has compressed.
    fn of_sample(log: &str) -> ReceiveStats {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(log);
        let (mut reader, mut figures) = (LogReader::open(path).unwrap(), figures());
        while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20).unwrap() {
            for event in (0..chunk.len()).filter_map(|index| chunk.get(index)) {
                figures.bytes += event.raw.bytes().len() as u64;
                figures.statistics.event(&event.raw, chunk.format());
                figures.reached.add_event(&event.raw, chunk.format());
            }
        }
        figures.reached.complete_transaction();
        figures
    }

    #[test]
    fn terminal_text_has_gtids_and_savings() {
        let mut figures = of_sample("gtids-compressed/binlog.000002");
        figures.network_bytes = figures.bytes;
        let wanted = "b.000003 at 4,711, lag 5.0 s
  GTIDs 5ea5ca5e-0001-4000-8000-000000000001:1-7:another_tag_of_thirty_two_chars_:1:tag:1-2
  bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb:1:3:9223372036854775806
  cccccccc-cccc-cccc-cccc-cccccccccccc:99:by_hand:77:79
  0 transactions, 802 B
  802 B transferred, 51 B saved by network compression, 51 B saved on the disk";
        assert_eq!(figures.terminal_text(1000), wanted);
        let line = figures.line(1000);
        let start =
            "b.000003 at 4,711, up to 5ea5ca5e-0001-4000-8000-000000000001:7, 0 transactions, 802 B, ";
        assert!(line.starts_with(start), "{line}");
    }

    #[test]
    fn lag_is_by_the_source_and_never_negative() {
        let mut figures = figures();
        assert_eq!((figures.lag_s(1000), figures.lag_s(900)), (Some(5), Some(0)));
        figures.is_caught_up = true;
        assert_eq!(figures.lag_s(1000), Some(0));
        figures.is_connected = false;
        assert_eq!(figures.lag_s(1000), Some(5));
        figures.last_s = None;
        assert_eq!(figures.lag_s(1000), None);
    }

    #[test]
    fn metrics_name_the_log_in_a_label() {
        let sheet = figures().metrics_text(1000);
        assert!(sheet.contains("\nbintide_receive_position_bytes{log=\"b.000003\"} 4711\n"), "{sheet}");
        assert!(sheet.contains("\nbintide_receive_lag_seconds 5\n"), "{sheet}");
    }

    #[test]
    fn results_are_formatted() {
        let figures = figures();
        assert_eq!(figures.text("/backup"), "0 transactions, 0 B received; /backup ends at b.000003:4711\n");
        assert_eq!(ReceiveStats::default().text("/backup"), "0 transactions, 0 B received\n");
        assert_eq!(figures.document(Duration::ZERO)["position"], 4711);
    }
}

//! Metrics of `receive`.

use std::time::Duration;

use inspect::stats::CompressionRow;
use logs::now_s;
use receive::{ReceiveStats, SharedReceiveStats};

use crate::commands::receive::archiving_state::{ArchivingFigures, ArchivingState};
use crate::metric_table::{LabelledValue, MetricRow, MetricValue, log_number};

/// Statistics at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveFigures {
    pub(crate) stats: ReceiveStats,
    pub(super) archiving: ArchivingFigures,
    /// The moment, in seconds since 1970.
    pub(crate) now_s: i64,
    /// Time since the start.
    pub(super) elapsed: Duration,
}

impl ReceiveFigures {
    /// Returns the present statistics.
    pub(crate) fn new(stats: &SharedReceiveStats, archiving: &ArchivingState, elapsed: Duration) -> Self {
        let archiving = archiving.figures();
        Self { stats: stats.read(ReceiveStats::clone), archiving, now_s: now_s(), elapsed }
    }
}

/// Row of the table.
type ReceiveMetric = MetricRow<ReceiveFigures>;

/// All figures, for Prometheus and JSON.
pub(crate) const RECEIVE_METRICS: &[ReceiveMetric] = &[
    ReceiveMetric::counter("bintide_receive_transactions_total", "Transactions received.", |figures| {
        figures.stats.transactions.into()
    })
    .json("transactions"),
    ReceiveMetric::counter("bintide_receive_events_total", "Events received.", |figures| {
        figures.stats.events.into()
    })
    .json("events"),
    ReceiveMetric::counter("bintide_receive_bytes_total", "Bytes of events received.", |figures| {
        figures.stats.bytes.into()
    })
    .json("bytes"),
    ReceiveMetric::counter(
        "bintide_receive_network_bytes_total",
        "Bytes transferred over the network, after compression.",
        |figures| figures.stats.network_bytes.into(),
    )
    .json("network_bytes"),
    ReceiveMetric::counter("bintide_receive_logs_compressed_total", "Compressed closed logs.", |figures| {
        figures.stats.compressed_logs.into()
    })
    .json("logs_compressed"),
    ReceiveMetric::counter(
        "bintide_receive_compressed_from_bytes_total",
        "Bytes of compressed logs before compression.",
        |figures| figures.stats.compressed_from.into(),
    )
    .json("compressed_from"),
    ReceiveMetric::counter(
        "bintide_receive_compressed_to_bytes_total",
        "Bytes of compressed logs after compression.",
        |figures| figures.stats.compressed_to.into(),
    )
    .json("compressed_to"),
    ReceiveMetric::counter(
        "bintide_receive_compressions_failed_total",
        "Failed attempts to compress a closed log; they are retried.",
        |figures| figures.stats.failed_compressions.into(),
    )
    .json("compressions_failed"),
    ReceiveMetric::counter(
        "bintide_receive_logs_archived_total",
        "Closed logs added to the archive.",
        |figures| figures.archiving.logs.into(),
    )
    .json("logs_archived"),
    ReceiveMetric::counter(
        "bintide_receive_archived_from_bytes_total",
        "Bytes of archived logs.",
        |figures| figures.archiving.bytes_from.into(),
    )
    .json("archived_from"),
    ReceiveMetric::counter(
        "bintide_receive_archived_to_bytes_total",
        "Bytes of archived logs in the archive.",
        |figures| figures.archiving.bytes_to.into(),
    )
    .json("archived_to"),
    ReceiveMetric::counter(
        "bintide_receive_archivings_failed_total",
        "Failed attempts to archive a closed log; they are retried.",
        |figures| figures.archiving.failures.into(),
    )
    .json("archivings_failed"),
    ReceiveMetric::counter("bintide_receive_connections_total", "Connections to the source.", |figures| {
        figures.stats.connections.into()
    })
    .json("connections"),
    ReceiveMetric::counter("bintide_receive_syncs_total", "Syncs of received events to disk.", |figures| {
        figures.stats.syncs.into()
    })
    .json("syncs"),
    ReceiveMetric::counter(
        "bintide_receive_acknowledgements_total",
        "Acknowledgements sent to the source (semi-synchronous replication).",
        |figures| figures.stats.acknowledgements.into(),
    )
    .json("acknowledgements"),
    ReceiveMetric::counter("bintide_receive_logs_purged_total", "Expired logs deleted.", |figures| {
        figures.stats.purged.into()
    })
    .json("logs_purged"),
    ReceiveMetric::counter(
        "bintide_receive_compression_transactions_total",
        "Transactions, as binary_log_transaction_compression_stats counts them.",
        |figures| by_compression(figures, |row| row.transaction_counter),
    ),
    ReceiveMetric::counter(
        "bintide_receive_compression_compressed_bytes_total",
        "Bytes of transactions as stored.",
        |figures| by_compression(figures, |row| row.compressed_bytes_counter),
    ),
    ReceiveMetric::counter(
        "bintide_receive_compression_uncompressed_bytes_total",
        "Bytes of transactions before compression.",
        |figures| by_compression(figures, |row| row.uncompressed_bytes_counter),
    ),
    ReceiveMetric::gauge(
        "bintide_receive_connected",
        "1 while connected to the source, otherwise 0.",
        |figures| figures.stats.is_connected.into(),
    ),
    ReceiveMetric::gauge(
        "bintide_receive_semi_sync",
        "1 while connected to a source that waited for acknowledgements when the connection began, otherwise 0.",
        |figures| (figures.stats.is_connected && figures.stats.semi_sync.unwrap_or_default()).into(),
    ),
    // The result is printed after the last connection.
    ReceiveMetric::json_only("semi_sync", |figures| figures.stats.semi_sync.unwrap_or_default().into()),
    ReceiveMetric::gauge("bintide_receive_disk_full", "1 while the disk is full, otherwise 0.", |figures| {
        figures.stats.is_full.into()
    }),
    ReceiveMetric::gauge(
        "bintide_receive_logs_to_compress",
        "Closed logs that wait for compression.",
        |figures| figures.stats.to_compress.into(),
    )
    .json("logs_to_compress"),
    ReceiveMetric::gauge(
        "bintide_receive_logs_to_archive",
        "Closed logs that are not archived yet.",
        |figures| figures.archiving.waiting.into(),
    )
    .json("logs_to_archive"),
    ReceiveMetric::gauge(
        "bintide_receive_archive_failing",
        "1 if the last attempt to archive a log failed, otherwise 0.",
        |figures| figures.archiving.error.is_some().into(),
    ),
    ReceiveMetric::gauge(
        "bintide_receive_lag_seconds",
        "Age of the last received event by the source's clock; 0 if there is no newer one.",
        |figures| figures.stats.lag_s(figures.now_s).into(),
    ),
    ReceiveMetric::gauge(
        "bintide_receive_position_bytes",
        "Position of the next event in the source's log.",
        |figures| (!figures.stats.log.is_empty()).then_some(figures.stats.position).into(),
    )
    .json("position"),
    ReceiveMetric::gauge("bintide_receive_log_number", "Number of the source's log.", |figures| {
        log_number(&figures.stats.log).into()
    }),
    ReceiveMetric::json_only("seconds", |figures| figures.elapsed.into()),
];

/// Returns a column of the compression statistics, with a label for each key of the row.
fn by_compression(figures: &ReceiveFigures, column: fn(&CompressionRow) -> u64) -> MetricValue {
    let rows = figures.stats.statistics.rows();
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_uppercase();
    let counts = rows.iter().map(|row| LabelledValue {
        labels: vec![("log_type", word(&row.log_type)), ("compression_type", word(&row.compression_type))],
        value: column(row).into(),
    });
    MetricValue::Family(counts.collect())
}

#[cfg(test)]
mod tests {
    use receive::ReceiveStats;

    use super::{RECEIVE_METRICS, ReceiveFigures};
    use crate::metrics_registry::{MetricsFormat, MetricsRegistry};

    #[test]
    fn a_lost_source_does_not_wait_for_acknowledgements() {
        for is_connected in [true, false] {
            let stats = ReceiveStats { semi_sync: Some(true), is_connected, ..ReceiveStats::default() };
            let figures = ReceiveFigures { stats, ..ReceiveFigures::default() };
            let registry = MetricsRegistry::new().with(RECEIVE_METRICS, move || figures.clone());
            let metrics = registry.text(MetricsFormat::Classic);
            let expected = format!("\nbintide_receive_semi_sync {}\n", u8::from(is_connected));
            assert!(metrics.contains(&expected), "{metrics}");
        }
    }

    #[test]
    fn metrics_have_the_number_of_the_log() {
        let stats = ReceiveStats {
            log: "b.000003".to_owned(),
            position: 4711,
            last_s: Some(1000),
            is_connected: true,
            ahead_s: 5,
            ..ReceiveStats::default()
        };
        let figures = ReceiveFigures { stats, now_s: 1000, ..ReceiveFigures::default() };
        let registry = MetricsRegistry::new().with(RECEIVE_METRICS, move || figures.clone());
        let metrics = registry.text(MetricsFormat::Classic);
        assert!(metrics.contains("\nbintide_receive_log_number 3\n"), "{metrics}");
        assert!(metrics.contains("\nbintide_receive_position_bytes 4711\n"), "{metrics}");
        assert!(metrics.contains("\nbintide_receive_lag_seconds 5\n"), "{metrics}");
    }
}

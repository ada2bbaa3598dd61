//! Statistics of `receive` as metrics for Prometheus.

use inspect::stats::CompressionRow;
use receive::{CompressionStatistics, ReceiveStats};

use crate::metrics::{MetricKind, PrometheusText};

/// Returns the metrics as text.
pub(super) fn metrics_text(stats: &ReceiveStats, now_s: i64) -> String {
    let mut metrics = PrometheusText::new();
    let mut counter = |name, help, value| metrics.counter(name, help, value);
    counter("bintide_receive_transactions_total", "Transactions received.", stats.transactions);
    counter("bintide_receive_events_total", "Events received.", stats.events);
    counter("bintide_receive_bytes_total", "Bytes of events received.", stats.bytes);
    counter(
        "bintide_receive_network_bytes_total",
        "Bytes transferred over the network, after compression.",
        stats.network_bytes,
    );
    counter("bintide_receive_logs_compressed_total", "Compressed closed logs.", stats.compressed_logs);
    counter(
        "bintide_receive_compressed_from_bytes_total",
        "Bytes of compressed logs before compression.",
        stats.compressed_from,
    );
    counter(
        "bintide_receive_compressed_to_bytes_total",
        "Bytes of compressed logs after compression.",
        stats.compressed_to,
    );
    counter(
        "bintide_receive_compressions_failed_total",
        "Failed attempts to compress a closed log; they are retried.",
        stats.failed_compressions,
    );
    counter("bintide_receive_connections_total", "Connections to the source.", stats.connections);
    counter("bintide_receive_syncs_total", "Syncs of received events to disk.", stats.syncs);
    counter(
        "bintide_receive_acknowledgements_total",
        "Acknowledgements sent to the source (semi-synchronous replication).",
        stats.acknowledgements,
    );
    counter("bintide_receive_logs_purged_total", "Expired logs deleted.", stats.purged);
    put_compression(&stats.statistics, &mut metrics);
    let mut gauge = |name, help, is_so| metrics.gauge(name, help, u8::from(is_so));
    gauge("bintide_receive_connected", "1 while connected to the source, otherwise 0.", stats.is_connected);
    let semi_sync = stats.semi_sync.unwrap_or_default();
    gauge("bintide_receive_semi_sync", "1 if the source waits for acknowledgements, otherwise 0.", semi_sync);
    gauge("bintide_receive_disk_full", "1 while the disk is full, otherwise 0.", stats.is_full);
    let help = "Closed logs that wait for compression.";
    metrics.gauge("bintide_receive_logs_to_compress", help, stats.to_compress);
    if let Some(lag) = stats.lag_s(now_s) {
        let help = "Age of the last received event by the source's clock; 0 if there is no newer one.";
        metrics.gauge("bintide_receive_lag_seconds", help, lag);
    }
    if !stats.log.is_empty() {
        let help = "Position of the next event in the source's log.";
        let labels = [("log", stats.log.as_str())];
        metrics.put("bintide_receive_position_bytes", help, MetricKind::Gauge, &labels, stats.position);
    }
    metrics.into_text()
}

/// Adds the compression statistics.
fn put_compression(statistics: &CompressionStatistics, metrics: &mut PrometheusText) {
    let rows = statistics.rows();
    let mut put = |what: &str, help: &str, value: fn(&CompressionRow) -> u64| {
        let name = format!("bintide_receive_compression_{what}_total");
        let labelled = rows.iter().map(|row| {
            let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_uppercase();
            let labels =
                [("log_type", word(&row.log_type)), ("compression_type", word(&row.compression_type))];
            (labels, value(row))
        });
        metrics.family(&name, help, MetricKind::Counter, labelled);
    };
    put("transactions", "Transactions, as binary_log_transaction_compression_stats counts them.", |row| {
        row.transaction_counter
    });
    put("compressed_bytes", "Their bytes as stored.", |row| row.compressed_bytes_counter);
    put("uncompressed_bytes", "Their bytes before compression.", |row| row.uncompressed_bytes_counter);
}

#[cfg(test)]
mod tests {
    use super::metrics_text;
    use receive::ReceiveStats;

    #[test]
    fn metrics_name_the_log_in_a_label() {
        let stats = ReceiveStats {
            log: "b.000003".to_owned(),
            position: 4711,
            last_s: Some(1000),
            is_connected: true,
            ahead_s: 5,
            ..ReceiveStats::default()
        };
        let metrics = metrics_text(&stats, 1000);
        assert!(metrics.contains("\nbintide_receive_position_bytes{log=\"b.000003\"} 4711\n"), "{metrics}");
        assert!(metrics.contains("\nbintide_receive_lag_seconds 5\n"), "{metrics}");
    }
}

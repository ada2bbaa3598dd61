//! Metrics of `archive --follow`.

use crate::commands::receive::ArchivingFigures;
use crate::metric_table::MetricRow;

/// Row of the table.
type ArchiveMetric = MetricRow<ArchivingFigures>;

/// All figures, for Prometheus.
pub(super) const ARCHIVE_METRICS: &[ArchiveMetric] = &[
    ArchiveMetric::counter("bintide_archive_logs_archived_total", "Logs added to the archive.", |figures| {
        figures.logs.into()
    }),
    ArchiveMetric::counter(
        "bintide_archive_archived_from_bytes_total",
        "Bytes of the archived logs before archiving.",
        |figures| figures.bytes_from.into(),
    ),
    ArchiveMetric::counter(
        "bintide_archive_archived_to_bytes_total",
        "Bytes of the archived logs in the archive, with change tables.",
        |figures| figures.bytes_to.into(),
    ),
    ArchiveMetric::counter(
        "bintide_archive_failures_total",
        "Failed attempts to archive logs; they are retried.",
        |figures| figures.failures.into(),
    ),
    ArchiveMetric::gauge(
        "bintide_archive_logs_to_archive",
        "Closed logs that are not archived yet.",
        |figures| figures.waiting.into(),
    ),
    ArchiveMetric::gauge(
        "bintide_archive_failing",
        "1 if the last attempt failed, otherwise 0.",
        |figures| figures.error.is_some().into(),
    ),
    ArchiveMetric::gauge(
        "bintide_archive_lag_seconds",
        "Time since the last change of the oldest closed log that is not archived yet; 0 if there is none.",
        |figures| figures.lag().into(),
    ),
];

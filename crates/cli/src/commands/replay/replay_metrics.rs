//! Metrics of a replay.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use logs::lock;
use replay::{CommitLag, CommitLagBuckets, ReplayReport, ReplayStatus, SourcePosition};

use crate::commands::receive::ReceivingState;
use crate::commands::warm::{SharedWarmStatus, WARM_METRICS};
use crate::http_site::HttpSite;
use crate::metric_table::{HistogramValue, MetricRow, MetricValue, log_number};
use crate::metrics_registry::MetricsRegistry;
use crate::service_state::ServiceState;
use crate::units::{counted, duration};

/// Latest figures of a replay and of its warming, shared between threads.
#[derive(Clone, Default)]
pub(super) struct SharedReplayFigures {
    figures: Arc<Mutex<ReplayFigures>>,
    warm_status: Option<SharedWarmStatus>,
    /// State of the receiver of `--from`.
    receiving: Option<ReceivingState>,
}

/// Figures of a replay at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplayFigures {
    transactions: u64,
    skipped: u64,
    groups: u64,
    rows: u64,
    retries: u64,
    at_once: u64,
    bytes_read: u64,
    position: Option<SourcePosition>,
    committed_us: Option<u64>,
    commit_lags: CommitLagBuckets,
    /// Lag while the target follows; known at the end.
    following_lag: CommitLag,
    workers: u64,
    workers_busy: u64,
    group_transactions: u64,
    is_caught_up: bool,
    /// The moment, in microseconds since 1970.
    now_us: u64,
    /// Time since the start; known at the end.
    elapsed: Duration,
}

/// Row of the table.
type ReplayMetric = MetricRow<ReplayFigures>;

/// All figures, for Prometheus and JSON.
pub(super) const REPLAY_METRICS: &[ReplayMetric] = &[
    ReplayMetric::counter("bintide_replay_transactions_total", "Source transactions applied.", |figures| {
        figures.transactions.into()
    })
    .json("transactions"),
    ReplayMetric::counter(
        "bintide_replay_skipped_total",
        "Source transactions skipped: applied before, or not selected.",
        |figures| figures.skipped.into(),
    )
    .json("skipped"),
    ReplayMetric::counter(
        "bintide_replay_commits_total",
        "Commits on the target; with --commit-order grouped, of groups.",
        |figures| figures.groups.into(),
    )
    .json("groups"),
    ReplayMetric::counter(
        "bintide_replay_rows_total",
        "Row changes applied to the target; merged changes count as one.",
        |figures| figures.rows.into(),
    )
    .json("rows"),
    ReplayMetric::counter(
        "bintide_replay_retries_total",
        "Commits that were rolled back and retried.",
        |figures| figures.retries.into(),
    )
    .json("retries"),
    ReplayMetric::counter("bintide_replay_log_bytes_total", "Bytes of logs read.", |figures| {
        figures.bytes_read.into()
    })
    .json("bytes"),
    ReplayMetric::gauge("bintide_replay_workers", "Sessions that apply transactions.", |figures| {
        figures.workers.into()
    }),
    ReplayMetric::gauge(
        "bintide_replay_workers_busy",
        "Sessions that are applying or committing.",
        |figures| figures.workers_busy.into(),
    ),
    ReplayMetric::gauge(
        "bintide_replay_commit_transactions",
        "Source transactions in the last commit.",
        |figures| figures.group_transactions.into(),
    ),
    ReplayMetric::gauge(
        "bintide_replay_caught_up",
        "1 if all transactions of the followed logs are applied, otherwise 0.",
        |figures| figures.is_caught_up.into(),
    ),
    ReplayMetric::gauge(
        "bintide_replay_lag_seconds",
        "Time since the source's commit of the last applied transaction; 0 if all are applied.",
        |figures| figures.lag().into(),
    ),
    ReplayMetric::gauge(
        "bintide_replay_last_committed_timestamp_seconds",
        "Time of the source's commit of the last applied transaction, in seconds since 1970.",
        |figures| figures.committed_us.map(Duration::from_micros).into(),
    ),
    ReplayMetric::histogram(
        "bintide_replay_commit_lag_seconds",
        "Time from the source's commit of a transaction to the target's.",
        |figures| {
            let (sum, buckets) = (figures.commit_lags.sum(), figures.commit_lags.buckets());
            MetricValue::Histogram(HistogramValue { sum: sum.as_secs_f64(), buckets: buckets.collect() })
        },
    ),
    ReplayMetric::gauge(
        "bintide_replay_position_bytes",
        "End position of the last applied transaction in its log.",
        |figures| figures.position.as_ref().map(|end| end.position).into(),
    ),
    ReplayMetric::gauge(
        "bintide_replay_log_number",
        "Number of the log with the last transaction.",
        |figures| figures.position.as_ref().and_then(|end| log_number(&end.log)).into(),
    ),
    ReplayMetric::json_only("at_once", |figures| figures.at_once.into()),
    ReplayMetric::json_only("seconds", |figures| figures.elapsed.into()),
    ReplayMetric::json_only("lag.transactions", |figures| {
        figures.followed().map(|lag| lag.transactions).into()
    }),
    ReplayMetric::json_only("lag.p50_seconds", |figures| figures.followed().map(|lag| lag.p50).into()),
    ReplayMetric::json_only("lag.p99_seconds", |figures| figures.followed().map(|lag| lag.p99).into()),
    ReplayMetric::json_only("lag.max_seconds", |figures| figures.followed().map(|lag| lag.max).into()),
];

impl ServiceState for SharedReplayFigures {
    fn readiness(&self) -> Result<(), String> {
        self.receiving.as_ref().map_or(Ok(()), ReceivingState::readiness)?;
        match self.figures().workers {
            0 => Err("no session of the target has started yet".to_owned()),
            _ => Ok(()),
        }
    }

    fn lag(&self) -> Option<Duration> {
        self.present().lag()
    }

    fn summary(&self) -> String {
        self.present().summary()
    }
}

impl SharedReplayFigures {
    /// Returns empty figures, including the figures of warming and the state of the receiver of `--from`.
    pub(super) fn new(warm_status: Option<SharedWarmStatus>, receiving: Option<ReceivingState>) -> Self {
        Self { figures: Arc::default(), warm_status, receiving }
    }

    /// Returns the site for HTTP, with the metrics of warming and of the receiver.
    pub(super) fn site(&self) -> HttpSite {
        let mut registry = self.registry();
        if let Some(receiving) = &self.receiving {
            registry = receiving.add_metrics(registry);
        }
        HttpSite::new(registry, Arc::new(self.clone()))
    }

    /// Returns whether the received logs have all transactions of the source; true without a receiver.
    pub(super) fn has_all_logs(&self) -> bool {
        self.receiving.as_ref().is_none_or(ReceivingState::has_everything)
    }

    /// Returns the metrics, including the metrics of warming.
    fn registry(&self) -> MetricsRegistry {
        let shared = self.clone();
        let registry = MetricsRegistry::new().with(REPLAY_METRICS, move || shared.present());
        match self.warm_status.clone() {
            Some(warm_status) => registry.with(WARM_METRICS, move || warm_status.get()),
            None => registry,
        }
    }

    /// Returns a copy of the figures, at the present moment.
    fn present(&self) -> ReplayFigures {
        let now_us = logs::now_us();
        ReplayFigures { now_us, ..self.figures().clone() }
    }

    /// Returns a line about warming.
    pub(super) fn warming_line(&self) -> Option<String> {
        self.warm_status.as_ref()?.line_of_replay()
    }

    /// Sets the current status.
    pub(super) fn set(&self, status: &ReplayStatus<'_>) {
        let mut figures = self.figures();
        figures.workers = status.workers;
        figures.workers_busy = status.workers_busy;
        figures.group_transactions = status.group_transactions;
        figures.is_caught_up = status.is_caught_up;
        figures.set_report(status.report);
    }

    /// Sets the final figures.
    pub(super) fn set_final(&self, report: &ReplayReport) {
        let mut figures = self.figures();
        figures.workers_busy = 0;
        figures.set_report(report);
    }

    fn figures(&self) -> MutexGuard<'_, ReplayFigures> {
        lock(&self.figures)
    }
}

impl ReplayFigures {
    /// Returns the figures of a finished replay, which took this time.
    pub(super) fn of_report(report: &ReplayReport, elapsed: Duration) -> Self {
        let mut figures = Self { elapsed, ..Self::default() };
        figures.set_report(report);
        figures
    }

    fn set_report(&mut self, report: &ReplayReport) {
        let ReplayReport { transactions, skipped, groups, rows, retries, at_once, bytes_read, .. } = *report;
        (self.transactions, self.skipped, self.groups) = (transactions, skipped, groups);
        (self.rows, self.retries) = (rows, retries);
        (self.at_once, self.bytes_read) = (at_once, bytes_read);
        self.committed_us = report.committed_us;
        self.commit_lags = report.commit_lags;
        self.following_lag = report.lag;
        if self.position != report.position {
            self.position.clone_from(&report.position);
        }
    }

    fn lag(&self) -> Option<Duration> {
        if self.is_caught_up {
            return Some(Duration::ZERO);
        }
        self.committed_us.map(|committed_us| Duration::from_micros(self.now_us.saturating_sub(committed_us)))
    }

    /// Returns one line about the replay.
    fn summary(&self) -> String {
        let applied = format!("{} applied", counted(self.transactions, "transaction"));
        match self.lag() {
            _ if self.is_caught_up => format!("{applied}, caught up"),
            Some(lag) => format!("{applied}, lag {}", duration(lag)),
            None => applied,
        }
    }

    /// Returns the lag while the target followed; `None` if no logs were followed.
    fn followed(&self) -> Option<CommitLag> {
        (self.following_lag.transactions > 0).then_some(self.following_lag)
    }
}

#[cfg(test)]
mod tests {
    use replay::{ReplayReport, ReplayStatus, SourcePosition};

    use super::{REPLAY_METRICS, ReplayFigures, SharedReplayFigures};
    use crate::metrics_registry::{MetricsFormat, MetricsRegistry};

    #[test]
    fn metrics_show_the_last_status() {
        let stats = SharedReplayFigures::default();
        let text = || {
            let figures = ReplayFigures { now_us: 5_500_000, ..stats.figures().clone() };
            MetricsRegistry::new().with(REPLAY_METRICS, move || figures.clone()).text(MetricsFormat::Classic)
        };
        let line = |expected: &str| {
            let text = text();
            assert!(text.lines().any(|line| line == expected), "{expected}: {text}");
        };
        line("bintide_replay_transactions_total 0");
        line("bintide_replay_commit_lag_seconds_count 0");
        assert!(!text().contains("position") && !text().contains("replay_lag"));
        let mut report =
            ReplayReport { transactions: 7, groups: 2, rows: 30, retries: 1, ..ReplayReport::default() };
        report.committed_us = Some(2_000_000);
        report.position = Some(SourcePosition { log: "binlog.000007".into(), position: 4711 });
        let mut status = ReplayStatus::new(&report, 8, 3, 5);
        stats.set(&status);
        line("bintide_replay_transactions_total 7");
        line("bintide_replay_commits_total 2");
        line("bintide_replay_rows_total 30");
        line("bintide_replay_retries_total 1");
        line("bintide_replay_workers 8");
        line("bintide_replay_workers_busy 3");
        line("bintide_replay_commit_transactions 5");
        line("bintide_replay_lag_seconds 3.5");
        line("bintide_replay_last_committed_timestamp_seconds 2.0");
        line("bintide_replay_log_number 7");
        line("bintide_replay_position_bytes 4711");
        status.is_caught_up = true;
        stats.set(&status);
        line("bintide_replay_lag_seconds 0.0");
        line("bintide_replay_caught_up 1");
        stats.set_final(&report);
        line("bintide_replay_workers_busy 0");
    }

    #[test]
    fn warming_adds_its_metrics() {
        let text = SharedReplayFigures::new(Some(Default::default()), None)
            .registry()
            .text(MetricsFormat::OpenMetrics);
        for name in ["bintide_build_info", "bintide_replay_rows", "bintide_warm_rows"] {
            assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "{name}: {text}");
        }
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    }
}

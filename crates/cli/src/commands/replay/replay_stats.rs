//! Metrics of a replay.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use replay::{CommitLag, ReplayReport, ReplayStatus, SourcePosition};

use crate::commands::warm;
use crate::metrics::{MetricKind, PrometheusText};

/// Latest statistics of a replay and of its warming, shared between threads.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedReplayStats {
    numbers: Arc<Mutex<ReplayStats>>,
    ahead: Option<warm::SharedWarmStatus>,
}

/// Statistics of a replay.
#[derive(Clone, Debug, Default)]
struct ReplayStats {
    report: ReplayCounters,
    place: Option<SourcePosition>,
    committed_us: Option<u64>,
    workers: u64,
    workers_busy: u64,
    group_transactions: u64,
    is_caught_up: bool,
    lag: CommitLag,
}

/// Counters: values that never decrease.
#[derive(Clone, Copy, Debug, Default)]
struct ReplayCounters {
    transactions: u64,
    skipped: u64,
    groups: u64,
    rows: u64,
    retries: u64,
    bytes_read: u64,
}

impl From<&ReplayReport> for ReplayCounters {
    fn from(report: &ReplayReport) -> Self {
        let ReplayReport { transactions, skipped, groups, rows, retries, bytes_read, .. } = *report;
        Self { transactions, skipped, groups, rows, retries, bytes_read }
    }
}

impl SharedReplayStats {
    /// Returns empty statistics, with those of warming.
    pub(super) fn new(ahead: Option<warm::SharedWarmStatus>) -> Self {
        Self { numbers: Arc::default(), ahead }
    }

    /// Returns a line about warming.
    pub(super) fn warming_line(&self) -> Option<String> {
        self.ahead.as_ref()?.line_of_replay()
    }

    fn numbers(&self) -> MutexGuard<'_, ReplayStats> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the current status.
    pub(super) fn set(&self, status: &ReplayStatus<'_>, lag: CommitLag) {
        let mut numbers = self.numbers();
        numbers.workers = status.workers;
        numbers.workers_busy = status.workers_busy;
        numbers.group_transactions = status.group_transactions;
        numbers.is_caught_up = status.is_caught_up;
        numbers.lag = lag;
        numbers.count(status.report);
    }

    /// Sets the final counters.
    pub(super) fn set_final(&self, report: &ReplayReport) {
        let mut numbers = self.numbers();
        numbers.workers_busy = 0;
        numbers.count(report);
    }

    /// Returns the metrics as text.
    pub(super) fn text(&self) -> String {
        let numbers = self.numbers().clone();
        let now_us = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default();
        let ahead = self.ahead.as_ref().map(warm::SharedWarmStatus::metrics_text).unwrap_or_default();
        numbers.text(now_us) + &ahead
    }
}

impl ReplayStats {
    fn count(&mut self, report: &ReplayReport) {
        self.report = report.into();
        self.committed_us = report.committed_us;
        if self.place != report.place {
            self.place.clone_from(&report.place);
        }
    }

    fn text(&self, now_us: u64) -> String {
        let mut metrics = PrometheusText::new();
        let ReplayCounters { transactions, skipped, groups, rows, retries, bytes_read } = self.report;
        for (name, help, value) in [
            ("transactions_total", "Source transactions applied.", transactions),
            ("skipped_total", "Source transactions skipped: applied before, or not selected.", skipped),
            ("commits_total", "Commits on the target; with --commit-order grouped, of groups.", groups),
            ("rows_total", "Row changes applied to the target; merged changes count as one.", rows),
            ("retries_total", "Commits that were rolled back and retried.", retries),
            ("log_bytes_total", "Bytes of logs read.", bytes_read),
        ] {
            metrics.counter(&format!("bintide_replay_{name}"), help, value);
        }
        for (name, help, value) in [
            ("workers", "Sessions that apply transactions.", self.workers),
            ("workers_busy", "Sessions that are applying or committing.", self.workers_busy),
            ("commit_transactions", "Source transactions in the last commit.", self.group_transactions),
            (
                "caught_up",
                "1 if all transactions of the followed logs are applied, otherwise 0.",
                self.is_caught_up.into(),
            ),
        ] {
            metrics.gauge(&format!("bintide_replay_{name}"), help, value);
        }
        if let Some(committed_us) = self.committed_us {
            let lag_us = if self.is_caught_up { 0 } else { now_us.saturating_sub(committed_us) };
            let lag = "Time since the source's commit of the last applied transaction; 0 if all are applied.";
            metrics.gauge("bintide_replay_lag_seconds", lag, seconds(lag_us));
            let committed =
                "Time of the source's commit of the last applied transaction, in seconds since 1970.";
            metrics.gauge(
                "bintide_replay_last_committed_timestamp_seconds",
                committed,
                seconds(committed_us),
            );
        }
        if self.lag.transactions > 0 {
            self.put_lag(&mut metrics);
        }
        if let Some(place) = &self.place {
            let help = "End position of the last applied transaction in its log, in bytes.";
            let labels = [("log", place.log.as_str())];
            metrics.put("bintide_replay_position", help, MetricKind::Gauge, &labels, place.position);
        }
        metrics.into_text()
    }

    fn put_lag(&self, metrics: &mut PrometheusText) {
        let CommitLag { p50, p99, max, .. } = self.lag;
        for (part, value, of) in
            [("p50", p50, "Median"), ("p99", p99, "99th percentile"), ("max", max, "Maximum")]
        {
            let help = format!(
                "{of} of the time from the source's commit to the target's, over about the last 30 seconds."
            );
            metrics.gauge(&format!("bintide_replay_commit_lag_{part}_seconds"), &help, value.as_secs_f64());
        }
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use replay::{CommitLag, ReplayReport, ReplayStatus, SourcePosition};

    use super::SharedReplayStats;

    #[test]
    fn metrics_show_the_last_status() {
        let stats = SharedReplayStats::default();
        let line = |wanted: &str| {
            let text = stats.numbers().text(5_500_000);
            assert!(text.lines().any(|line| line == wanted), "{wanted}: {text}");
        };
        line("bintide_replay_transactions_total 0");
        assert!(!stats.text().contains("position") && !stats.text().contains("commit_lag"));
        let mut report =
            ReplayReport { transactions: 7, groups: 2, rows: 30, retries: 1, ..ReplayReport::default() };
        report.committed_us = Some(2_000_000);
        report.place = Some(SourcePosition { log: "binlog.000007".into(), position: 4711 });
        let mut status = ReplayStatus::new(&report, (8, 3), 5);
        let lag = CommitLag { transactions: 5, p50: Duration::from_millis(2), ..CommitLag::default() };
        stats.set(&status, lag);
        line("bintide_replay_commit_lag_p50_seconds 0.002");
        line("bintide_replay_transactions_total 7");
        line("bintide_replay_commits_total 2");
        line("bintide_replay_rows_total 30");
        line("bintide_replay_retries_total 1");
        line("bintide_replay_workers 8");
        line("bintide_replay_workers_busy 3");
        line("bintide_replay_commit_transactions 5");
        line("bintide_replay_lag_seconds 3.5");
        line("bintide_replay_last_committed_timestamp_seconds 2");
        line("bintide_replay_position{log=\"binlog.000007\"} 4711");
        status.is_caught_up = true;
        stats.set(&status, lag);
        line("bintide_replay_lag_seconds 0");
        line("bintide_replay_caught_up 1");
        stats.set_final(&report);
        line("bintide_replay_workers_busy 0");
    }
}

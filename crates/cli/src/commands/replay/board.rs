//! What a replay tells a monitor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use replay::{Lag, Place, Report, Status};

use crate::commands::warm;
use crate::metrics::{Kind, Sheet};

/// The last numbers of a replay, for whoever asks, and those of what goes ahead of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    numbers: Arc<Mutex<Numbers>>,
    ahead: Option<warm::Board>,
}

/// How far a replay is.
#[derive(Clone, Debug, Default)]
struct Numbers {
    report: Counted,
    place: Option<Place>,
    committed_us: Option<u64>,
    workers: u64,
    workers_busy: u64,
    group_transactions: u64,
    is_caught_up: bool,
    lag: Lag,
}

/// What only grows.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    transactions: u64,
    skipped: u64,
    groups: u64,
    rows: u64,
    retries: u64,
    bytes_read: u64,
}

impl From<&Report> for Counted {
    fn from(report: &Report) -> Self {
        let Report { transactions, skipped, groups, rows, retries, bytes_read, .. } = *report;
        Self { transactions, skipped, groups, rows, retries, bytes_read }
    }
}

impl Board {
    /// With this ahead of the replay.
    pub(super) fn new(ahead: Option<warm::Board>) -> Self {
        Self { numbers: Arc::default(), ahead }
    }

    /// What goes ahead, in words.
    pub(super) fn line_of_ahead(&self) -> Option<String> {
        self.ahead.as_ref()?.line_of_replay()
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So far it is.
    pub(super) fn put(&self, status: &Status<'_>, lag: Lag) {
        let mut numbers = self.numbers();
        numbers.workers = status.workers;
        numbers.workers_busy = status.workers_busy;
        numbers.group_transactions = status.group_transactions;
        numbers.is_caught_up = status.is_caught_up;
        numbers.lag = lag;
        numbers.count(status.report);
    }

    /// That is what it came to.
    pub(super) fn end(&self, report: &Report) {
        let mut numbers = self.numbers();
        numbers.workers_busy = 0;
        numbers.count(report);
    }

    /// As Prometheus has them.
    pub(super) fn text(&self) -> String {
        let numbers = self.numbers().clone();
        let now_us = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default();
        let ahead = self.ahead.as_ref().map(warm::Board::sheet).unwrap_or_default();
        numbers.text(now_us) + &ahead
    }
}

impl Numbers {
    fn count(&mut self, report: &Report) {
        self.report = report.into();
        self.committed_us = report.committed_us;
        if self.place != report.place {
            self.place.clone_from(&report.place);
        }
    }

    fn text(&self, now_us: u64) -> String {
        let mut sheet = Sheet::new();
        let Counted { transactions, skipped, groups, rows, retries, bytes_read } = self.report;
        for (name, help, value) in [
            ("transactions_total", "Source transactions applied.", transactions),
            (
                "skipped_total",
                "Source transactions passed over, as the target had them or they are not meant.",
                skipped,
            ),
            ("commits_total", "Commits on the target: with grouped, commit groups.", groups),
            ("rows_total", "Row changes made on the target, those that were merged as one.", rows),
            ("retries_total", "Commits that were rolled back and tried again.", retries),
            ("log_bytes_total", "Bytes of the logs gone over.", bytes_read),
        ] {
            sheet.counter(&format!("bintide_replay_{name}"), help, value);
        }
        for (name, help, value) in [
            ("workers", "Sessions that apply transactions.", self.workers),
            ("workers_busy", "Those that have something to apply or to commit.", self.workers_busy),
            ("commit_transactions", "Source transactions in the last commit.", self.group_transactions),
            (
                "caught_up",
                "Of logs that are followed: is all applied that there is?",
                self.is_caught_up.into(),
            ),
        ] {
            sheet.gauge(&format!("bintide_replay_{name}"), help, value);
        }
        if let Some(committed_us) = self.committed_us {
            let lag_us = if self.is_caught_up { 0 } else { now_us.saturating_sub(committed_us) };
            let lag =
                "Time from the source's commit of what was committed last until now; 0 if all is applied.";
            sheet.gauge("bintide_replay_lag_seconds", lag, seconds(lag_us));
            let committed = "When the source committed what was committed last, since 1970.";
            sheet.gauge("bintide_replay_last_committed_timestamp_seconds", committed, seconds(committed_us));
        }
        if self.lag.transactions > 0 {
            self.put_lag(&mut sheet);
        }
        if let Some(place) = &self.place {
            let help = "Where in its log what was committed last ends, in bytes.";
            let labels = [("log", place.log.as_str())];
            sheet.put("bintide_replay_position", help, Kind::Gauge, &labels, place.position);
        }
        sheet.into_text()
    }

    fn put_lag(&self, sheet: &mut Sheet) {
        let Lag { p50, p99, max, .. } = self.lag;
        for (part, value, of) in [("p50", p50, "half"), ("p99", p99, "99 in 100"), ("max", max, "all")] {
            let help = format!(
                "From the source's commit to the target's, of {of} in the last half minute or a bit more, at most."
            );
            sheet.gauge(&format!("bintide_replay_commit_lag_{part}_seconds"), &help, value.as_secs_f64());
        }
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use replay::{Lag, Place, Report, Status};

    use super::Board;

    #[test]
    fn numbers_are_told_as_they_were_last() {
        let board = Board::default();
        let line = |wanted: &str| {
            let text = board.numbers().text(5_500_000);
            assert!(text.lines().any(|line| line == wanted), "{wanted}: {text}");
        };
        line("bintide_replay_transactions_total 0");
        assert!(!board.text().contains("position") && !board.text().contains("commit_lag"));
        let mut report = Report { transactions: 7, groups: 2, rows: 30, retries: 1, ..Report::default() };
        report.committed_us = Some(2_000_000);
        report.place = Some(Place { log: "binlog.000007".into(), position: 4711 });
        let mut status = Status::new(&report, (8, 3), 5);
        let lag = Lag { transactions: 5, p50: Duration::from_millis(2), ..Lag::default() };
        board.put(&status, lag);
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
        board.put(&status, lag);
        line("bintide_replay_lag_seconds 0");
        line("bintide_replay_caught_up 1");
        board.end(&report);
        line("bintide_replay_workers_busy 0");
    }
}

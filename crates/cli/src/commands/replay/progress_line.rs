//! Progress line of a replay, with its rates. Time is a parameter.

use std::time::Duration;

use replay::{CommitLag, ReplayStatus};

use crate::recent_rates::RecentRates;
use crate::units;

/// Recent rates of a replay.
#[derive(Debug, Default)]
pub(super) struct ProgressLine {
    rates: RecentRates,
}

impl ProgressLine {
    /// Adds a sample for the rates at this time since the start.
    pub(super) fn add_sample(&mut self, at: Duration, status: &ReplayStatus<'_>) {
        self.rates.add_sample(at, status.report.bytes_read, status.report.transactions);
    }

    /// Returns the line: rates, lag, workers, group size, retries and time left.
    pub(super) fn line(
        &self,
        now_us: u64,
        bytes_total: Option<u64>,
        status: &ReplayStatus<'_>,
        recent: CommitLag,
    ) -> String {
        let report = status.report;
        let mut parts: Vec<String> = self.rates.texts().collect();
        if status.is_caught_up {
            parts.push("caught up".to_owned());
        } else if let Some(lag) = lag(now_us, status) {
            parts.push(format!("lag {}", units::duration(lag)));
        }
        if recent.transactions > 0 {
            let [p50, p99, max] = [recent.p50, recent.p99, recent.max].map(units::duration);
            parts.push(format!("commit lag p50 {p50}, p99 {p99}, max {max}"));
        }
        parts.push(format!("{} of {} busy", status.workers_busy, units::counted(status.workers, "worker")));
        if status.group_transactions > 0 {
            parts.push(format!("{} per commit", units::count(status.group_transactions)));
        }
        if report.retries > 0 {
            parts.push(match report.retries {
                1 => "1 retry".to_owned(),
                retries => format!("{} retries", units::count(retries)),
            });
        }
        if let Some(left) = bytes_total.and_then(|total| self.time_left(total)) {
            parts.push(format!("{} left", units::duration(left)));
        }
        parts.join(", ")
    }

    /// Returns the estimated time left; `None` if it is more than 30 days.
    fn time_left(&self, bytes_total: u64) -> Option<Duration> {
        const LONGEST_S: f64 = 30.0 * 86_400.0;
        let seconds = self.rates.seconds_to(bytes_total)?;
        (seconds < LONGEST_S).then(|| Duration::from_secs(seconds as u64))
    }
}

/// Returns the time since the source's commit of the last applied transaction; 0 if all are applied.
pub(super) fn lag(now_us: u64, status: &ReplayStatus<'_>) -> Option<Duration> {
    if status.is_caught_up {
        return Some(Duration::ZERO);
    }
    let committed_us = status.report.committed_us?;
    Some(Duration::from_micros(now_us.saturating_sub(committed_us)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use replay::{CommitLag, ReplayReport, ReplayStatus};

    use super::ProgressLine;

    /// Returns the progress line after ten seconds at these rates.
    fn line(bytes: u64, transactions: u64, bytes_total: Option<u64>, report: ReplayReport) -> String {
        let mut pace = ProgressLine::default();
        let mut report = report;
        for second in 0..=10_u64 {
            (report.bytes_read, report.transactions) = (second * bytes, second * transactions);
            pace.add_sample(Duration::from_secs(second), &status(&report));
        }
        pace.line(7_200_000_000, bytes_total, &status(&report), CommitLag::default())
    }

    fn status(report: &ReplayReport) -> ReplayStatus<'_> {
        ReplayStatus::new(report, 4, 3, 512)
    }

    #[test]
    fn progress_lines_are_formatted() {
        let committed =
            ReplayReport { committed_us: Some(3_600_000_000), retries: 2, ..ReplayReport::default() };
        assert_eq!(
            line(2_000_000, 1_500, Some(50_000_000), committed.clone()),
            "1,500 transactions/s, 2.0 MB/s, lag 1 h 0 min, 3 of 4 workers busy, 512 per commit, 2 retries, 15.0 s left"
        );
        assert_eq!(
            line(2_000_000, 1_500, None, ReplayReport { retries: 1, ..committed.clone() }),
            "1,500 transactions/s, 2.0 MB/s, lag 1 h 0 min, 3 of 4 workers busy, 512 per commit, 1 retry"
        );
        let mut idle = status(&committed);
        idle.is_caught_up = true;
        assert_eq!(
            ProgressLine::default().line(1, None, &idle, CommitLag::default()),
            "caught up, 3 of 4 workers busy, 512 per commit, 2 retries"
        );
        let [p50, p99, max] = [4, 31, 1200].map(Duration::from_millis);
        assert_eq!(
            ProgressLine::default().line(1, None, &idle, CommitLag { transactions: 9, p50, p99, max }),
            "caught up, commit lag p50 4 ms, p99 31 ms, max 1.2 s, 3 of 4 workers busy, 512 per commit, 2 retries"
        );
        assert_eq!(
            line(0, 0, Some(10), ReplayReport::default()),
            "0 transactions/s, 0 B/s, 3 of 4 workers busy, 512 per commit"
        );
    }
}

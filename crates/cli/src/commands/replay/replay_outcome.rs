//! Result of a replay.

use std::io;
use std::time::Duration;

use binlog::TransactionId;
use jiff::Timestamp;
use replay::{CommitLag, LateTransactions, ReplayReport, TransactionHead};
use serde_json::{Value, json};
use tracing::warn;

use crate::commands::replay::replay_metrics::{REPLAY_METRICS, ReplayFigures};
use crate::commands::replay::verification::TargetVerification;
use crate::commands::replay::warming::WarmingOutcome;
use crate::commands::table_args::warn_unmatched;
use crate::exit::{CommandResult, CommandVerdict};
use crate::json_document::write_document;
use crate::metric_table;
use crate::output_format::OutputFormat;
use crate::screen::{self, visible};
use crate::units;

/// Result of a replay.
pub(super) struct ReplayOutcome {
    pub(super) report: ReplayReport,
    pub(super) elapsed: Duration,
    /// Differences from the source, one per line.
    pub(super) remarks: Vec<String>,
    /// Result of the comparison with `--verify`.
    pub(super) verified: Option<TargetVerification>,
    /// Result of warming with `--warm`.
    pub(super) warmed: Option<WarmingOutcome>,
}

/// Prints the result.
pub(super) fn print(done: &ReplayOutcome, format: OutputFormat) -> CommandResult {
    let mut out = io::stdout().lock();
    screen::unless_closed(match format {
        OutputFormat::Json => write_document(&mut out, &document(done)),
        OutputFormat::Text => screen::print(&text(done), &mut out),
    })?;
    let late = done.report.late.as_ref().filter(|late| late.transactions > 0 || late.unread.is_some());
    if let Some(late) = late {
        warn!("{}", late_line(late));
    }
    let stop = done.report.first_after_stop.as_ref().and_then(TransactionHead::gtid);
    if let Some(gtid) = stop.filter(|gtid| done.report.applied.contains(*gtid)) {
        warn!(
            "the target already has {gtid}, before which this replay stops: for the state before it, restore an older \
             backup"
        );
    }
    let extent = match done.report.first_after_stop {
        Some(_) => SearchedLogs::UpToStop,
        None => SearchedLogs::All,
    };
    done.report.undecided.iter().for_each(|xid| warn!("{}", undecided_text(xid, extent)));
    warn_unmatched(&done.report.unmatched, "the logs");
    let besides = done.verified.as_ref().and_then(TargetVerification::remark);
    for remark in done.remarks.iter().chain(&besides) {
        warn!("{remark}");
    }
    let is_equal = done.verified.as_ref().is_none_or(TargetVerification::is_equal);
    Ok(if is_equal { CommandVerdict::Success } else { CommandVerdict::FaultsFound })
}

fn document(done: &ReplayOutcome) -> Value {
    let report = &done.report;
    let mut document =
        metric_table::document(REPLAY_METRICS, &ReplayFigures::of_report(report, done.elapsed));
    let last_committed = report.committed_us.and_then(timestamp).map(|time| format!("{time:.6}"));
    for (key, value) in [
        ("last_committed", last_committed.into()),
        ("last_applied", report.last_applied.as_ref().map(transaction_document).into()),
        ("first_not_applied", report.first_after_stop.as_ref().map(transaction_document).into()),
        ("interrupted", report.is_interrupted.into()),
        ("late", report.late.as_ref().map(late_document).into()),
        ("undecided", report.undecided.clone().into()),
        ("applied", report.applied.to_string().into()),
        ("remarks", done.remarks.clone().into()),
        ("warm", done.warmed.as_ref().map(WarmingOutcome::document).into()),
        ("verify", done.verified.as_ref().map(TargetVerification::document).into()),
    ] {
        document.insert(key.to_owned(), value);
    }
    document.into()
}

/// Returns a transaction's identifier, position in the source's log and commit time as a document.
fn transaction_document(head: &TransactionHead) -> Value {
    json!({
        "gtid": gtid_text(head),
        "log": *head.origin.log_name,
        "position": head.origin.start,
        "committed": timestamp(head.committed_us).map(|time| format!("{time:.6}")),
    })
}

/// Returns a transaction's identifier, position in the source's log and commit time as text.
fn transaction_text(head: &TransactionHead) -> String {
    let start = visible(&head.origin.start_position().to_string());
    let time = timestamp(head.committed_us).map_or_else(String::new, |time| format!(", committed {time:.6}"));
    match gtid_text(head) {
        Some(gtid) => format!("{gtid} at {start}{time}"),
        None => format!("{start}{time}"),
    }
}

/// Returns the transaction's GTID, of MySQL or of MariaDB.
fn gtid_text(head: &TransactionHead) -> Option<String> {
    match head.id {
        TransactionId::Gtid(_) | TransactionId::Mariadb(_) => Some(head.id.to_string()),
        _ => None,
    }
}

/// Returns, as a document, the transactions after the stop position that were committed before the stop time.
pub(super) fn late_document(late: &LateTransactions) -> Value {
    json!({ "transactions": late.transactions, "unread": late.unread })
}

/// Returns these late transactions as a line.
pub(super) fn late_line(late: &LateTransactions) -> String {
    let more = match &late.unread {
        Some(reason) => format!("; there may be more: {reason}"),
        None => String::new(),
    };
    match late.transactions {
        1 => format!("not applied: 1 transaction after the stop, committed before the stop time{more}"),
        several => format!(
            "not applied: {} after the stop, committed before the stop time{more}",
            units::counted(several, "transaction")
        ),
    }
}

/// Part of the logs in which the end of an XA transaction was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchedLogs {
    All,
    UpToStop,
}

/// Returns the message about a prepared XA transaction without an end.
pub(super) fn undecided_text(xid: &str, searched: SearchedLogs) -> String {
    let logs = match searched {
        SearchedLogs::All => "the logs",
        SearchedLogs::UpToStop => "the logs up to the stop",
    };
    format!(
        "not applied: the XA transaction {xid} is prepared, but {logs} neither commit it nor roll it back"
    )
}

fn timestamp(micros: u64) -> Option<Timestamp> {
    Timestamp::from_microsecond(i64::try_from(micros).ok()?).ok()
}

fn lag_line(lag: CommitLag) -> String {
    let [p50, p99, max] = [lag.p50, lag.p99, lag.max].map(units::duration);
    format!(
        "{} while caught up: lag p50 {p50}, p99 {p99}, max {max}\n",
        units::counted(lag.transactions, "transaction")
    )
}

fn text(done: &ReplayOutcome) -> String {
    let report = &done.report;
    let mut text = format!(
        "{} applied in {}, {} skipped\n",
        units::counted(report.transactions, "transaction"),
        units::counted(report.groups, "commit"),
        units::count(report.skipped)
    );
    if let Some(last) = &report.last_applied {
        text.push_str(&format!("last applied: {}\n", transaction_text(last)));
    }
    if let Some(first) = &report.first_after_stop {
        text.push_str(&format!("stopped before: {}\n", transaction_text(first)));
        if report.transactions == 0 && report.skipped == 0 {
            text.push_str("nothing applied: no transaction of the logs is before the stop\n");
        }
    }
    if report.lag.transactions > 0 {
        text.push_str(&lag_line(report.lag));
    }
    if let Some(warmed) = &done.warmed {
        text.push_str(&format!("{}\n", warmed.text()));
    }
    if report.is_interrupted {
        text.push_str("interrupted; run the same command again to resume\n");
    }
    if let Some(verified) = &done.verified {
        text.push_str(&verified.text());
    }
    text
}

//! Errors of a source that cannot send the requested log.

use std::fs;

use binlog::server_error::SOURCE_FATAL_ERROR_READING_BINLOG;
use logs::{LogError, RewritePositions, StoreWriter, positions_path};
use servers::{ConnectionError, ResultRow, ServerLink};

use crate::disconnect::Disconnect;
use crate::error::{ReceiveError, ResumeObstacle};
use crate::receiver::LogReceiver;
use crate::source_candidate::SourceCandidate;
use crate::start_point::StartPoint;

/// Part of the message of a source that cannot send its log, and its meaning.
struct CannotSendReason {
    part: &'static str,
    obstacle: ResumeObstacle,
    /// `None` if the message of the source is clear.
    meaning: Option<&'static str>,
}

impl CannotSendReason {
    const fn new(part: &'static str, obstacle: ResumeObstacle, meaning: Option<&'static str>) -> Self {
        Self { part, obstacle, meaning }
    }

    fn find(error: &ConnectionError) -> Option<&'static Self> {
        let said = error.to_string();
        CANNOT_SEND_REASONS.iter().find(|reason| said.contains(reason.part))
    }
}

const CANNOT_SEND_REASONS: &[CannotSendReason] = &[
    CannotSendReason::new(
        NO_SUCH_LOG,
        ResumeObstacle::LogsGone,
        Some("the source no longer has this log (purged, or its logs were reset)"),
    ),
    CannotSendReason::new("position > file size", ResumeObstacle::LogsGone, Some(LOG_IS_SHORTER)),
    // Text of MariaDB.
    CannotSendReason::new("impossible position", ResumeObstacle::LogsGone, Some(LOG_IS_SHORTER)),
    CannotSendReason::new(
        "exceeded max_allowed_packet",
        ResumeObstacle::Unclear,
        Some(
            "the event is larger than the source's max_allowed_packet, or no event starts at this position because its \
             logs were reset or the received log was changed",
        ),
    ),
    // The source reads from the middle of an event. MySQL's text then mentions a full disk, which is rarely the cause.
    CannotSendReason::new(
        "binlog truncated in the middle of event",
        ResumeObstacle::Unclear,
        Some(NO_EVENT_STARTS),
    ),
    CannotSendReason::new("bogus data in log event", ResumeObstacle::Unclear, Some(NO_EVENT_STARTS)),
    // The file is missing although the source's index names it, or the source may not read it.
    CannotSendReason::new("Could not open log file", ResumeObstacle::Unclear, None),
    // Errors of a request by GTIDs.
    CannotSendReason::new("purged", ResumeObstacle::LogsGone, None),
    CannotSendReason::new("which is not in the master's binlog", ResumeObstacle::LogsGone, None),
    CannotSendReason::new("has more GTIDs than the", ResumeObstacle::LogsGone, None),
];
const NO_SUCH_LOG: &str = "Could not find first log";
const LOG_IS_SHORTER: &str = "the log of this name on the source is shorter: its logs were reset, or a crash lost events that it had sent";
const NO_EVENT_STARTS: &str = "the source's log is damaged, or no event starts at this position because its logs were \
    reset or the received log was changed, such as by compressing it";
/// Part of a source's message if a second replica has the same identity.
const SAME_REPLICA: &str = "with the same server_uuid/server_id";

/// Logs that a source has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceLogs {
    /// Known logs.
    Logs {
        /// Name of the oldest log.
        first: String,
        /// Name of the newest log.
        last: String,
    },
    /// The account may not list the logs.
    Unknown,
}

impl SourceLogs {
    /// Returns the message for a log that the source does not have.
    pub(crate) fn no_log_message(&self, log: &str) -> String {
        let advice = "omit --start-log to start at the oldest";
        match self {
            Self::Logs { first, last } if first == last => {
                format!("the source has no log {log}, only {last}: give --start-log {last}, or {advice}")
            }
            Self::Logs { first, last } => format!(
                "the source has no log {log}: its oldest is {first}, its newest {last}; give one of these logs to \
                 --start-log, or {advice}"
            ),
            Self::Unknown => format!(
                "the source has no log {log}: run SHOW BINARY LOGS on it (privilege REPLICATION CLIENT, on MariaDB \
                 BINLOG MONITOR) and give one of these logs to --start-log, or {advice}"
            ),
        }
    }
}

impl LogReceiver {
    /// Returns a message if the source lacks transactions of the directory; `None` also if the source cannot be queried.
    fn missing_transactions(&self, store: &StoreWriter) -> Option<String> {
        let executed = SourceCandidate::ask(self.address(), &self.options).ok()?.executed;
        let lacking = store.contents().ok()?.gtids.difference(&executed);
        let lacking = Some(lacking).filter(|lacking| !lacking.is_empty())?;
        Some(format!(
            "the source lacks transactions that the directory has: {lacking} (its logs were reset, or it was restored \
             from a backup)"
        ))
    }

    /// Adds the requested position to an error of the source that refuses it.
    pub(crate) fn explain_error(&self, error: ConnectionError, store: &StoreWriter) -> Disconnect {
        let has_shared_identity = error.to_string().contains(SAME_REPLICA);
        match (error.code(), store.store_end()) {
            (Some(SOURCE_FATAL_ERROR_READING_BINLOG), _) if has_shared_identity => {
                Disconnect::Failed(ReceiveError::SharedIdentity(error))
            }
            (Some(SOURCE_FATAL_ERROR_READING_BINLOG), Some(end)) => {
                let (log, position) = (end.log.to_owned(), end.next);
                let (reason, obstacle) = match self.missing_transactions(store) {
                    Some(missing) => (Some(missing), ResumeObstacle::LogsGone),
                    None => cannot_send_reason(&error),
                };
                Disconnect::Failed(ReceiveError::CannotResume { log, position, reason, obstacle, error })
            }
            (Some(SOURCE_FATAL_ERROR_READING_BINLOG), None) if error.to_string().contains(NO_SUCH_LOG) => {
                match &self.settings.begin {
                    StartPoint::Log(log) => Disconnect::StartUnavailable(ReceiveError::NoSuchLog {
                        log: log.clone(),
                        logs: self.source_logs(),
                    }),
                    _ => error.into(),
                }
            }
            _ => error.into(),
        }
    }

    /// Replaces the error of a source that has no event at the end of the store, if `bintide compress` or another
    /// program has rewritten the store's last log.
    pub(crate) fn explain_rewritten_log(&self, ended: Disconnect, store: &StoreWriter) -> Disconnect {
        let is_other_position = match &ended {
            Disconnect::Failed(ReceiveError::CannotResume { error, .. }) => {
                !error.to_string().contains(NO_SUCH_LOG)
            }
            Disconnect::Failed(ReceiveError::OtherLog(LogError::EventMismatch { .. })) => true,
            _ => false,
        };
        // A later series resumes by GTIDs.
        let stored = store.store_end().filter(|stored| is_other_position && stored.series.is_none());
        let Some(stored) = stored else { return ended };
        let log = self.settings.directory.join(stored.log);
        let list = positions_path(&log);
        match fs::metadata(&log).map(|found| RewritePositions::open(&log, found.len())) {
            Ok(Ok(Some(_))) => Disconnect::Failed(ReceiveError::RewrittenLog { log, list }),
            _ => ended,
        }
    }

    /// Adds a remedy to the error of a source that cannot name a start log.
    pub(crate) fn explain_start_error(&self, error: ConnectionError) -> Disconnect {
        match (&self.settings.begin, error.code()) {
            (StartPoint::After(_), Some(SOURCE_FATAL_ERROR_READING_BINLOG)) => {
                Disconnect::StartUnavailable(ReceiveError::CannotStartAfter(error))
            }
            _ => error.into(),
        }
    }

    /// Returns the logs that the source has.
    fn source_logs(&self) -> SourceLogs {
        let listed = || {
            let rows = ServerLink::open(self.address(), &self.options)?.query("SHOW BINARY LOGS")?;
            let name = |row: Option<&ResultRow>| {
                let name = row.and_then(|row| row.first()).and_then(Option::as_deref).unwrap_or_default();
                String::from_utf8_lossy(name).into_owned()
            };
            Ok::<_, ConnectionError>(SourceLogs::Logs { first: name(rows.first()), last: name(rows.last()) })
        };
        listed().unwrap_or(SourceLogs::Unknown)
    }
}

/// Returns the meaning of the source's message, if it is not clear, and the obstacle.
fn cannot_send_reason(error: &ConnectionError) -> (Option<String>, ResumeObstacle) {
    match CannotSendReason::find(error) {
        Some(reason) => (reason.meaning.map(str::to_owned), reason.obstacle),
        None => (None, ResumeObstacle::SourceFault),
    }
}

#[cfg(test)]
mod tests {
    use binlog::server_error::SOURCE_FATAL_ERROR_READING_BINLOG;
    use servers::ConnectionError;

    use super::{ResumeObstacle, SourceLogs, cannot_send_reason};

    #[test]
    fn only_missing_logs_need_another_directory() {
        let check = |message: &str, expected: ResumeObstacle, has_meaning: bool| {
            let message = message.to_owned();
            let error = ConnectionError::Refused { code: SOURCE_FATAL_ERROR_READING_BINLOG, message };
            let (meaning, obstacle) = cannot_send_reason(&error);
            assert_eq!((obstacle, meaning.is_some()), (expected, has_meaning), "{error}");
        };
        check("Could not find first log file name in binary log index file", ResumeObstacle::LogsGone, true);
        check(
            "Client requested source to start replication from position > file size",
            ResumeObstacle::LogsGone,
            true,
        );
        check(
            "Cannot replicate because the source purged required binary logs.",
            ResumeObstacle::LogsGone,
            false,
        );
        check("bogus data in log event; the first event 'b.000001' at 4", ResumeObstacle::Unclear, true);
        check(
            "I/O error reading log event; the first event 'b.000001' at 4",
            ResumeObstacle::SourceFault,
            false,
        );
        check("memory allocation failed reading log event", ResumeObstacle::SourceFault, false);
    }

    #[test]
    fn missing_log_errors_name_the_existing_logs() {
        let check = |offered: &SourceLogs, expected: &str| {
            assert_eq!(
                offered.no_log_message("b.000009"),
                format!("the source has no log b.000009{expected}")
            );
        };
        let logs = |last: &str| SourceLogs::Logs { first: "b.000003".to_owned(), last: last.to_owned() };
        check(
            &logs("b.000007"),
            ": its oldest is b.000003, its newest b.000007; give one of these logs to --start-log, or omit \
             --start-log to start at the oldest",
        );
        check(
            &logs("b.000003"),
            ", only b.000003: give --start-log b.000003, or omit --start-log to start at the oldest",
        );
        check(
            &SourceLogs::Unknown,
            ": run SHOW BINARY LOGS on it (privilege REPLICATION CLIENT, on MariaDB BINLOG MONITOR) and give one of \
             these logs to --start-log, or omit --start-log to start at the oldest",
        );
    }
}

//! Messages for the notices of a receiver.

use std::error::Error;

use receive::{ReceiveError, ReceiveNotice, StartPoint};

use crate::commands::receive::failure::advice;
use crate::messages::MessageSeverity;
use crate::units::{bytes, counted, duration};

/// Warning for a source without semi-synchronous replication.
const NO_SEMI_SYNC_WARNING: &str = "the source does not use semi-synchronous replication, so no acknowledgements are sent: \
    load its plugin semisync_source.so and set rpl_semi_sync_source_enabled = ON (before MySQL 8.0.26: semisync_master.so \
    and rpl_semi_sync_master_enabled; MariaDB: only rpl_semi_sync_master_enabled), then run the command again";

/// Returns the level of a notice: a warning if data was lost, the run waits, or a request was not met.
pub(super) const fn notice_level(notice: &ReceiveNotice<'_>) -> MessageSeverity {
    match notice {
        ReceiveNotice::Reconnected { .. }
        | ReceiveNotice::SourceReplaced { .. }
        | ReceiveNotice::DiskFree
        | ReceiveNotice::IncompleteEventRemoved { .. } => MessageSeverity::Info,
        ReceiveNotice::StartPointIgnored { .. }
        | ReceiveNotice::EncryptionEnds { .. }
        | ReceiveNotice::Retry { .. }
        | ReceiveNotice::Stopped { .. }
        | ReceiveNotice::SemiSyncUnavailable
        | ReceiveNotice::DiskFull { .. }
        | ReceiveNotice::KeyringWait { .. }
        | ReceiveNotice::CompressionNotStarted { .. }
        | ReceiveNotice::CompressionFailed { .. } => MessageSeverity::Warn,
    }
}

/// Returns the message of a notice.
pub(super) fn notice_text(notice: &ReceiveNotice<'_>) -> String {
    match notice {
        ReceiveNotice::IncompleteEventRemoved { bytes } => {
            format!("removed {} of an incomplete event; the source sends it again", counted(*bytes, "byte"))
        }
        ReceiveNotice::StartPointIgnored { begin, directory, log, position } => format!(
            "{} is ignored: it applies to an empty directory only, but {} has logs; resuming in {log} at {position}",
            start_option(begin),
            directory.display()
        ),
        ReceiveNotice::EncryptionEnds { directory } => format!(
            "the last log in {} is encrypted, but new logs will not be: to encrypt them, give --encrypt",
            directory.display()
        ),
        ReceiveNotice::Retry { error, next, pause } => {
            let what = next.as_ref().map_or("retrying".to_owned(), |next| format!("trying {next}"));
            let when = if pause.is_zero() { "now".to_owned() } else { format!("in {}", duration(*pause)) };
            // The advice applies to a run that ends.
            let why = if next.is_some() { causes(error) } else { error_with_causes(error) };
            format!("{why}; {what} {when}")
        }
        ReceiveNotice::Stopped { error } => format!(
            "receiving has stopped: {}. Clients are still served. Correct the source, or name another one with CHANGE \
             REPLICATION SOURCE TO, then run START REPLICA",
            causes(error)
        ),
        ReceiveNotice::Reconnected { endpoint } => format!("connected to the server at {endpoint}"),
        ReceiveNotice::SourceReplaced { uuid, before } => {
            format!("resuming from the server {uuid} in place of {before}")
        }
        ReceiveNotice::SemiSyncUnavailable => NO_SEMI_SYNC_WARNING.to_owned(),
        ReceiveNotice::DiskFull { error, needed } => {
            let until =
                needed.map_or("space is free".to_owned(), |needed| format!("{} are free", bytes(needed)));
            format!("{error}; receiving is paused until {until}")
        }
        ReceiveNotice::DiskFree => "disk space is free again: resuming".to_owned(),
        ReceiveNotice::KeyringWait { error, timeout } => {
            format!("{error}; waiting {} for a valid keyring", duration(*timeout))
        }
        ReceiveNotice::CompressionNotStarted { error } => format!(
            "could not start a thread to compress logs: {error}; closed logs stay uncompressed until a thread can be \
             started"
        ),
        ReceiveNotice::CompressionFailed { error, log, pause } => format!(
            "{error}; {} stays uncompressed; retrying in {}, then at growing intervals",
            log.display(),
            duration(*pause)
        ),
    }
}

/// Returns the option that sets this start point.
fn start_option(begin: &StartPoint) -> String {
    match begin {
        StartPoint::Log(log) => format!("--start-log {log}"),
        _ => "--start-after-gtid".to_owned(),
    }
}

/// Returns the advice for an error, the error and its causes.
pub(super) fn error_with_causes(error: &ReceiveError) -> String {
    match advice(error) {
        Some(advice) => format!("{advice}: {}", causes(error)),
        None => causes(error),
    }
}

/// Returns the error and its causes.
fn causes(error: &ReceiveError) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        parts.push(error.to_string());
        cause = error.source();
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use receive::{ReceiveError, ReceiveNotice, ResumeObstacle, StartPoint};
    use servers::ConnectionError;

    use super::notice_text;

    #[test]
    fn retries_name_the_error_and_the_next_source() {
        let check = |error: ReceiveError, next: Option<&str>, pause_ms, expected: &str| {
            let (next, pause) = (next.map(str::to_owned), Duration::from_millis(pause_ms));
            assert_eq!(notice_text(&ReceiveNotice::Retry { error: &error, next, pause }), expected);
        };
        let lost = || ConnectionError::lost("gone");
        let lost_text = "the connection to the server failed: gone";
        check(lost().into(), None, 500, &format!("{lost_text}; retrying in 500 ms"));
        check(lost().into(), Some("mysql://b/"), 0, &format!("{lost_text}; trying mysql://b/ now"));
        let (log, position, reason) = ("b.000001".to_owned(), 4, Some("its logs were reset".to_owned()));
        let expected = format!(
            "keep this directory as it is, and receive into another one: the source cannot resume after b.000001 at \
             4: its logs were reset: {lost_text}; retrying in 1.0 s"
        );
        let cannot_resume = || ReceiveError::CannotResume {
            log: log.clone(),
            position,
            reason: reason.clone(),
            obstacle: ResumeObstacle::LogsGone,
            error: lost(),
        };
        check(cannot_resume(), None, 1000, &expected);
        let expected = format!(
            "the source cannot resume after b.000001 at 4: its logs were reset: {lost_text}; trying mysql://b/ in 500 ms"
        );
        check(cannot_resume(), Some("mysql://b/"), 500, &expected);
    }

    #[test]
    fn an_ignored_option_is_named() {
        let begin = StartPoint::Log("b.000002".to_owned());
        let notice = ReceiveNotice::StartPointIgnored {
            begin: &begin,
            directory: "/backup".as_ref(),
            log: "b.000001",
            position: 4711,
        };
        let expected = "--start-log b.000002 is ignored: it applies to an empty directory only, but /backup has logs; \
                        resuming in b.000001 at 4711";
        assert_eq!(notice_text(&notice), expected);
    }
}

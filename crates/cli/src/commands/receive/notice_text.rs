//! Messages about occurrences while logs are received.

use std::error::Error;

use receive::{ReceiveError, ReceiveNotice, StartPoint};

use crate::commands::receive::failure::advice;
use crate::units::{bytes, counted, duration};

/// Warning for a source without semi-synchronous replication.
const NO_SEMI_SYNC_WARNING: &str = "the source does not use semi-synchronous replication, so no acknowledgements are sent: \
    load its plugin semisync_source.so (semisync_master.so before MySQL 8.0.26), set rpl_semi_sync_source_enabled = \
    ON, and run the command again";

/// Returns the message of a notice.
pub(super) fn notice_text(notice: &ReceiveNotice<'_>) -> String {
    match notice {
        ReceiveNotice::IncompleteEventRemoved { bytes } => {
            format!("removed {} of an incomplete event; the source sends it again", counted(*bytes, "byte"))
        }
        ReceiveNotice::StartPointIgnored { begin, folder, log, position } => format!(
            "{} is ignored: it applies to an empty directory only, but {} has logs; resuming in {log} at {position}",
            start_option(begin),
            folder.display()
        ),
        ReceiveNotice::Retry { error, next, pause } => {
            let what = next.as_ref().map_or("retrying".to_owned(), |next| format!("trying {next}"));
            let when = if pause.is_zero() { "now".to_owned() } else { format!("in {}", duration(*pause)) };
            format!("{}; {what} {when}", error_with_causes(error))
        }
        ReceiveNotice::Reconnected { endpoint } => format!("connected to the server at {endpoint}"),
        ReceiveNotice::SourceReplaced { uuid, before } => {
            format!("resuming from the server {uuid} in place of {before}")
        }
        ReceiveNotice::SemiSyncUnavailable => NO_SEMI_SYNC_WARNING.to_owned(),
        ReceiveNotice::DiskFull { error, wanted } => {
            let until =
                wanted.map_or("space is free".to_owned(), |wanted| format!("{} are free", bytes(wanted)));
            format!("{error}; receiving is paused until {until}")
        }
        ReceiveNotice::DiskFree => "disk space is free again: resuming".to_owned(),
        ReceiveNotice::KeyringWait { error, timeout } => {
            format!("{error}; waiting {} for a valid keyring", duration(*timeout))
        }
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
fn error_with_causes(error: &ReceiveError) -> String {
    let mut parts: Vec<String> = advice(error).iter().map(ToString::to_string).collect();
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        parts.push(error.to_string());
        cause = error.source();
    }
    parts.join(": ")
}

//! Messages on standard error: levels and formats. The macros of `tracing` write them.

use std::env;
use std::fmt::{self, Write as _};
use std::io;

use clap::ValueEnum;
use jiff::Timestamp;
use nix::sys::stat::fstat;
use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber, debug, error, info, warn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::screen::visible;

/// Value of `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MessageFormat {
    /// Time, level and message
    Text,
    /// A JSON object per line: timestamp, level and message
    Json,
    /// Priority in angle brackets and message, as systemd reads them
    Journald,
}

/// Value of `--log-level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MessageSeverity {
    /// Only errors
    Error,
    /// Also warnings, such as lost connections
    Warn,
    /// Also progress and other notices
    Info,
    /// Also progress if nothing has changed
    Debug,
}

/// Starts to write messages. Only the first call has an effect. Earlier messages are lost.
///
/// Without a format, a message is one line with the program's name, or has the form of journald if standard error goes
/// there.
pub(crate) fn install(format: Option<MessageFormat>, level: MessageSeverity) {
    let format = format.or_else(|| is_stderr_journal().then_some(MessageFormat::Journald));
    let written = tracing_subscriber::fmt::layer()
        .event_format(MessageFormatter { format })
        .with_writer(io::stderr)
        // A closed standard error is ignored.
        .log_internal_errors(false);
    let _ = tracing_subscriber::registry().with(LevelFilter::from(level)).with(written).try_init();
}

/// Starts to write messages in the default form, unless a form is already set. For errors before the options are known.
pub(crate) fn install_default() {
    install(None, MessageSeverity::Info);
}

/// Returns whether standard error is a stream to journald. systemd names the stream that it opened for a service, but a
/// child process may have another standard error (systemd.exec(5), JOURNAL_STREAM).
fn is_stderr_journal() -> bool {
    let named = env::var("JOURNAL_STREAM").ok();
    named.zip(fstat(io::stderr()).ok()).is_some_and(|(named, status)| {
        named.split_once(':').is_some_and(|(device, inode)| {
            device.parse() == Ok(status.st_dev) && inode.parse() == Ok(status.st_ino)
        })
    })
}

impl MessageSeverity {
    /// Writes a message whose level is not fixed.
    pub(crate) fn write(self, text: impl fmt::Display) {
        match self {
            Self::Error => error!("{text}"),
            Self::Warn => warn!("{text}"),
            Self::Info => info!("{text}"),
            Self::Debug => debug!("{text}"),
        }
    }
}

impl From<MessageSeverity> for LevelFilter {
    fn from(level: MessageSeverity) -> Self {
        match level {
            MessageSeverity::Error => Self::ERROR,
            MessageSeverity::Warn => Self::WARN,
            MessageSeverity::Info => Self::INFO,
            MessageSeverity::Debug => Self::DEBUG,
        }
    }
}

/// Formatter of messages; without a format, of the default form.
struct MessageFormatter {
    format: Option<MessageFormat>,
}

impl<S, N> FormatEvent<S, N> for MessageFormatter
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = MessageText::default();
        event.record(&mut message);
        writeln!(out, "{}", line(self.format, *event.metadata().level(), Timestamp::now(), &message.0))
    }
}

/// Text of an event.
#[derive(Debug, Default)]
struct MessageText(String);

impl Visit for MessageText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// Message as a JSON object.
#[derive(Debug, Serialize)]
struct JsonMessage<'m> {
    timestamp: String,
    level: &'static str,
    message: &'m str,
}

/// Returns a message as one line of printable characters.
fn line(format: Option<MessageFormat>, level: Level, time: Timestamp, text: &str) -> String {
    let message = visible(text);
    let timestamp = format!("{time:.3}");
    let (name, priority) = match level {
        Level::ERROR => ("error", 3),
        Level::WARN => ("warn", 4),
        Level::INFO => ("info", 6),
        Level::DEBUG | Level::TRACE => ("debug", 7),
    };
    match format {
        None => format!("bintide: {message}"),
        Some(MessageFormat::Text) => format!("{timestamp} {name} bintide: {message}"),
        Some(MessageFormat::Json) => {
            let object = JsonMessage { timestamp, level: name, message: &message };
            serde_json::to_string(&object).expect("ours: texts are valid JSON")
        }
        // journald itself records the time and the program. The priorities are defined in sd-daemon(3).
        Some(MessageFormat::Journald) => format!("<{priority}>{message}"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tracing::Level;

    use super::MessageFormat::{Journald, Json, Text};

    #[test]
    fn formats() {
        let time = Timestamp::from_microsecond(1_795_442_400_123_456).unwrap();
        let check =
            |format, level, text, expected| assert_eq!(super::line(format, level, time, text), expected);
        check(None, Level::WARN, "lost \"b\"", "bintide: lost \"b\"");
        check(Some(Text), Level::WARN, "lost", "2026-11-23T14:00:00.123Z warn bintide: lost");
        let json = r#"{"timestamp":"2026-11-23T14:00:00.123Z","level":"info","message":"lost \"b\""}"#;
        check(Some(Json), Level::INFO, "lost \"b\"", json);
        check(Some(Journald), Level::ERROR, "lost", "<3>lost");
        check(Some(Journald), Level::WARN, "lost", "<4>lost");
        check(Some(Journald), Level::INFO, "lost", "<6>lost");
        check(Some(Journald), Level::DEBUG, "lost", "<7>lost");
    }

    #[test]
    fn messages_are_one_line_without_control_characters() {
        let check = |format, expected| {
            let line = super::line(format, Level::INFO, Timestamp::UNIX_EPOCH, "a\n\u{1b}[2J\u{9b}");
            assert_eq!(line, expected);
        };
        check(None, r"bintide: a\u{a}\u{1b}[2J\u{9b}");
        check(Some(Journald), r"<6>a\u{a}\u{1b}[2J\u{9b}");
        let json =
            r#"{"timestamp":"1970-01-01T00:00:00.000Z","level":"info","message":"a\\u{a}\\u{1b}[2J\\u{9b}"}"#;
        check(Some(Json), json);
    }
}

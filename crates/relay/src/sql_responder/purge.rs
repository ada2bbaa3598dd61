//! `PURGE BINARY LOGS`: removes logs. Without force, keeps logs that a connected client still reads.

use std::ops::Range;
use std::sync::Arc;

use sql::SqlWord;
use wire::ServerError;

use super::SqlStatement;
use super::date_time::{SqlDateTime, TimeUnit};
use super::done;
use super::refusals::{internal, unknown_log, wrong_date_time};
use super::select_text::offset;
use super::system_variable::PURGE_FORCE;
use crate::log_form::LogForm;
use crate::relay_facts::RelayFacts;
use crate::sql_answer::{SqlAnswer, SqlSession, WarningLevel};
use crate::upstream_control::{LogReaderPosition, log_readers};

/// `ER_WARN_PURGE_LOG_IN_USE`
const LOG_IN_USE: u16 = 1867;
/// `ER_WARN_PURGE_LOG_IS_ACTIVE`
const LOG_IS_ACTIVE: u16 = 1868;

pub(super) fn purge(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let limit = PurgeLimit::parse(statement, session)?;
    let relay = statement.relay;
    let Some(upstream) = relay.upstream_control() else {
        let message = "bintide relay does not support PURGE BINARY LOGS without --from: another program writes these \
                       logs. Purge them there";
        return Err(ServerError::new(1235, "42000", message));
    };
    let names = match relay.source(LogForm::AsIs) {
        Some(source) => source.store().log_names().map_err(|error| internal(&error))?,
        None => Vec::new(),
    };
    let requested = limit.count(&names, relay)?;
    let mut count = requested.min(names.len().saturating_sub(1));
    if let Some(active) = names.get(count).filter(|_| requested > count) {
        let message = format!("file {active} was not purged because it is the active log file.");
        session.warn(WarningLevel::Warning, LOG_IS_ACTIVE, message);
    }
    let logs: Vec<&str> = names.iter().map(|name| &**name).collect();
    let readers = log_readers(relay, &logs);
    let is_forced = is_forced(session);
    if is_forced {
        warn_of_readers(readers.iter().filter(|reader| reader.log < count), &names, session);
    } else if let Some(first) = readers.iter().map(|reader| reader.log).min().filter(|first| *first < count) {
        let here: Vec<_> = readers.iter().filter(|reader| reader.log == first).collect();
        let message = format!(
            "file {} was not purged because it was being read by {} thread(s), purged only {first} out of {count} files.",
            names[first],
            here.len()
        );
        session.warn(WarningLevel::Warning, LOG_IN_USE, message);
        warn_of_readers(here, &names, session);
        count = first;
    }
    if count > 0 {
        upstream.purge_before(&names[count])?;
        session.record_change(format!("PURGE BINARY LOGS TO '{}'", names[count]));
    }
    Ok(done())
}

/// Returns whether the session has set the variable that also purges logs in use.
fn is_forced(session: &SqlSession) -> bool {
    session.system_variables.get(PURGE_FORCE).is_some_and(|value| value.to_number() == Some(1.0))
}

/// Adds a note for each of these clients.
fn warn_of_readers<'r>(
    readers: impl IntoIterator<Item = &'r LogReaderPosition>,
    names: &[Arc<str>],
    session: &mut SqlSession,
) {
    for LogReaderPosition { log, connection_id, client, .. } in readers {
        let message = format!("connection {connection_id} ({client}) reads {}", names[*log]);
        session.note(message);
    }
}

/// Logs to remove.
enum PurgeLimit {
    /// Logs before this one.
    To(String),
    /// Logs last written before this time, in seconds since 1970.
    Before(u64),
}

impl PurgeLimit {
    fn parse(statement: &mut SqlStatement<'_>, session: &SqlSession) -> Result<Self, ServerError> {
        if statement.words.take("TO") {
            let Some(SqlWord::Text(log)) = statement.words.peek().cloned() else {
                return Err(statement.syntax_error());
            };
            statement.words.skip();
            statement.expect_end()?;
            return Ok(Self::To(log));
        }
        if !statement.words.take("BEFORE") || statement.words.is_at_end() {
            return Err(statement.syntax_error());
        }
        let (expression, interval) = take_interval(statement).map_or_else(
            || (statement.words.rest_range(), None),
            |(range, interval)| (range, Some(interval)),
        );
        read_time(statement, session, expression, interval).map(Self::Before)
    }

    /// Returns the number of logs to remove.
    fn count(&self, names: &[Arc<str>], relay: &dyn RelayFacts) -> Result<usize, ServerError> {
        match self {
            Self::To(log) => names.iter().position(|name| **name == **log).ok_or_else(unknown_log),
            Self::Before(time_s) => {
                let is_older = |name: &&Arc<str>| {
                    relay.log_time_us(name).is_some_and(|time_us| time_us / 1_000_000 < *time_s)
                };
                Ok(names.iter().take_while(is_older).count())
            }
        }
    }
}

/// Units of `INTERVAL` in a `PURGE`.
const UNITS: [&str; 8] = ["SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"];

/// Number of units.
#[derive(Clone, Copy)]
struct TimeInterval {
    count: i64,
    unit: TimeUnit,
}

/// Finds `- INTERVAL number unit` at the end of the statement. Returns the expression before it, and the
/// interval.
fn take_interval(statement: &SqlStatement<'_>) -> Option<(Range<usize>, TimeInterval)> {
    let mut words = statement.words.clone();
    let start = words.rest_range().start;
    while !words.is_at_end() {
        let (end, mut interval) = (offset(&words), words.clone());
        if interval.take_sign("-") && interval.take("INTERVAL") {
            let count: u32 = match interval.take_next()? {
                SqlWord::Number(digits) | SqlWord::Text(digits) => digits.parse().ok()?,
                _ => return None,
            };
            let name = UNITS.into_iter().find(|unit| interval.take(unit))?;
            let unit = TimeUnit::of(name)?;
            return interval.is_at_end().then_some((start..end, TimeInterval { count: count.into(), unit }));
        }
        words.skip();
    }
    None
}

/// Evaluates a time in UTC, minus an interval, in seconds since 1970.
fn read_time(
    statement: &SqlStatement<'_>,
    session: &SqlSession,
    expression: Range<usize>,
    interval: Option<TimeInterval>,
) -> Result<u64, ServerError> {
    let context = statement.context(session);
    let text = statement.evaluate(expression, &context)?.to_text().unwrap_or_default();
    if !is_date_time(&text) {
        return Err(wrong_date_time(&text));
    }
    let time = SqlDateTime::parse(&text).ok_or_else(|| wrong_date_time(&text))?;
    let limit = match interval {
        Some(TimeInterval { count, unit }) => {
            time.after(-count, unit).ok_or_else(|| wrong_date_time(&text))?
        }
        None => time,
    };
    Ok(u64::try_from(limit.micros().div_euclid(1_000_000)).unwrap_or(0))
}

/// Returns whether a text is `YYYY-MM-DD`, `YYYY-MM-DD HH:MM` or `YYYY-MM-DD HH:MM:SS[.fraction]`. The engine would
/// also accept a number, as a Julian day, and a time without a date.
fn is_date_time(text: &str) -> bool {
    let shape: String = text.chars().map(|sign| if sign.is_ascii_digit() { '0' } else { sign }).collect();
    match shape.split_once('.') {
        None => matches!(&*shape, "0000-00-00" | "0000-00-00 00:00" | "0000-00-00 00:00:00"),
        Some((whole, fraction)) => {
            whole == "0000-00-00 00:00:00"
                && !fraction.is_empty()
                && fraction.chars().all(|digit| digit == '0')
        }
    }
}

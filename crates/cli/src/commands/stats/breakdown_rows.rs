//! Counts by minute, hour, table, account or statement, as rows of a table for terminals and pages.

use std::collections::HashMap;

use inspect::stats::{Breakdown, BreakdownGroup, BreakdownKind, GroupCounts, GroupKey, LogTime, WriterKey};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::units::{bytes, count, counted, share};

/// A breakdown as a table.
pub(super) struct BreakdownTable {
    pub(super) heading: &'static str,
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
    /// Remark below the table, about data that the log does not have.
    pub(super) remark: Option<String>,
}

impl BreakdownTable {
    /// Creates the table. Except for times, it has at most `count_max` rows; all others become one row.
    pub(super) fn new(breakdown: &Breakdown, zone: &TimeZone, count_max: usize) -> Self {
        let (heading, name) = names(breakdown.by);
        let counter = if breakdown.by == BreakdownKind::Statement { ">statements" } else { ">transactions" };
        let columns = vec![name, counter, ">inserted", ">updated", ">deleted", ">bytes", ">share"];
        let is_time = matches!(breakdown.by, BreakdownKind::Minute | BreakdownKind::Hour);
        let all = breakdown.groups.iter().map(|group| &group.counts);
        let total = sum(all.chain(&breakdown.others).chain(&breakdown.without_text));
        // One row more than the maximum needs no more space than a row for all others.
        let shown = match is_time || breakdown.groups.len() <= count_max.saturating_add(1) {
            true => breakdown.groups.len(),
            false => count_max,
        };
        let (shown, rest) = breakdown.groups.split_at(shown);
        let row = |name: String, counts: &GroupCounts| cells(name, counts, total.bytes);
        let names = group_names(shown, zone);
        let mut rows: Vec<_> =
            shown.iter().zip(names).map(|(group, name)| row(name, &group.counts)).collect();
        if !rest.is_empty() || breakdown.others.is_some() {
            let others = sum(rest.iter().map(|group| &group.counts).chain(&breakdown.others));
            let more = if breakdown.others.is_some() { "more than " } else { "" };
            rows.push(row(format!("{more}{} others", count(rest.len() as u64)), &others));
        }
        if let Some(counts) = &breakdown.without_text {
            rows.push(row("(no text in the log)".to_owned(), counts));
        }
        Self { heading, columns, rows, remark: remark(breakdown) }
    }
}

/// Returns the heading of a breakdown and the name of its first column.
const fn names(by: BreakdownKind) -> (&'static str, &'static str) {
    match by {
        BreakdownKind::Minute => ("By minute", "minute"),
        BreakdownKind::Hour => ("By hour", "hour"),
        BreakdownKind::Table => ("By table", "table"),
        BreakdownKind::Account => ("By account or connection", "account or connection"),
        BreakdownKind::Statement => ("By statement", "statement"),
    }
}

fn cells(name: String, counts: &GroupCounts, bytes_total: u64) -> Vec<String> {
    vec![
        name,
        count(counts.transactions.max(counts.statements)),
        count(counts.inserted),
        count(counts.updated),
        count(counts.deleted),
        bytes(counts.bytes),
        share(counts.bytes, bytes_total),
    ]
}

/// Returns the names of groups. Times that look the same, because the clocks were set back, get their UTC offsets.
fn group_names(groups: &[BreakdownGroup], zone: &TimeZone) -> Vec<String> {
    let names: Vec<String> = groups.iter().map(|group| group_name(group, zone)).collect();
    let mut counts: HashMap<&str, u32> = HashMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let named = groups.iter().zip(&names).map(|(group, name)| match &group.key {
        GroupKey::Time { start } if counts[name.as_str()] > 1 => {
            format!("{name} {}", offset_name(*start, zone))
        }
        _ => name.clone(),
    });
    named.collect()
}

/// Returns the UTC offset of a time, such as `+02:00`.
fn offset_name(time: LogTime, zone: &TimeZone) -> String {
    let time = i64::try_from(time.0).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
    time.map(|time| time.to_zoned(zone.clone()).strftime("%:z").to_string()).unwrap_or_default()
}

fn group_name(group: &BreakdownGroup, zone: &TimeZone) -> String {
    match &group.key {
        GroupKey::Time { start } => minute_name(*start, zone),
        GroupKey::Table { table } => table.clone(),
        GroupKey::Writer(WriterKey { account: Some(account), .. }) => account.to_string(),
        GroupKey::Writer(WriterKey { connection: Some(number), server_id, .. }) => {
            format!("connection {number} of server {server_id}")
        }
        GroupKey::Writer(WriterKey { server_id, .. }) => format!("unknown connection of server {server_id}"),
        GroupKey::Statement { statement } => statement.to_string(),
    }
}

/// Returns a time to the minute.
fn minute_name(time: LogTime, zone: &TimeZone) -> String {
    let text = time.in_zone(zone);
    text.strip_suffix(":00").unwrap_or(&text).to_owned()
}

fn sum<'c>(all: impl Iterator<Item = &'c GroupCounts>) -> GroupCounts {
    all.fold(GroupCounts::default(), |mut sum, counts| {
        sum.add(counts);
        sum
    })
}

/// Returns a remark about data that the log does not have, and about another source of them.
fn remark(breakdown: &Breakdown) -> Option<String> {
    match (breakdown.by, &breakdown.without_text) {
        (BreakdownKind::Account, _) => {
            let is_connection =
                |group: &BreakdownGroup| matches!(&group.key, GroupKey::Writer(key) if key.account.is_none());
            breakdown.groups.iter().any(is_connection).then(|| {
                "For row changes, the log does not contain the account. Find the account of a connection in the audit \
                 log, the general log, or performance_schema.threads (PROCESSLIST_ID)."
                    .to_owned()
            })
        }
        (BreakdownKind::Statement, Some(counts)) => Some(format!(
            "The log has no statement text for {}. Set binlog_rows_query_log_events=ON on the source, so that its next \
             logs have the texts.",
            counted(counts.rows(), "changed row")
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use inspect::stats::{BreakdownGroup, GroupCounts, GroupKey, LogTime};
    use jiff::tz::TimeZone;

    use super::group_names;

    #[test]
    fn equal_local_hours_have_offsets() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let hour = |seconds: u64| BreakdownGroup {
            key: GroupKey::Time { start: LogTime(seconds * 1_000_000) },
            counts: GroupCounts::default(),
        };
        let groups = [1_792_882_800, 1_792_886_400, 1_792_890_000, 1_792_893_600].map(hour);
        let expected =
            ["2026-10-25 01:00", "2026-10-25 02:00 +02:00", "2026-10-25 02:00 +01:00", "2026-10-25 03:00"];
        assert_eq!(group_names(&groups, &zone), expected);
    }
}

//! Report as tables for a terminal.

use std::time::Duration;

use inspect::stats::{
    CompressionRow, GtidReport, LogEnd, LogStats, LogTime, RowChangeCounts, SizeClass, StatsReport,
    TableAmounts, TimeSeries, TransactionReport,
};
use jiff::tz::TimeZone;

use super::breakdown_rows::BreakdownTable;
use super::compression_cells::{COMPRESSION_COLUMNS, compression_cells};
use crate::screen::{ReportStyle, table_lines, visible};
use crate::units::{bytes, bytes_of_two, count, counted, duration, share, sparkline};

/// Maximum number of shown tables; all others become one line.
const TABLES_SHOWN: usize = 20;

/// Maximum number of shown logs. If there are more, only open and torn logs are listed.
const LOGS_SHOWN: usize = 20;

/// Returns the whole report.
///
/// `count_max` is the maximum number of groups to list in a breakdown.
pub(crate) fn render(report: &StatsReport, style: ReportStyle, zone: &TimeZone, count_max: usize) -> String {
    let mut sections = vec![
        ("Logs", logs(report, style)),
        ("Totals", totals(report, style, zone)),
        ("Tables", tables(report, style)),
    ];
    for each in &report.by {
        let table = BreakdownTable::new(each, zone, count_max);
        sections.push((table.heading, breakdown(&table, style)));
    }
    sections.extend([
        ("Transactions by size, before compression", sizes(&report.sizes, style)),
        ("Largest transactions", transactions(&report.largest, style, zone)),
        ("Longest transactions", transactions(&report.longest, style, zone)),
        ("Events", events(report, style)),
        ("Over time", rate(&report.rate, zone)),
        ("Compression", compression(&report.compression, style)),
    ]);
    style.sections(&sections)
}

/// Maximum number of characters of a name in a breakdown: statements are long.
const NAME_SIZE_MAX: usize = 80;

fn breakdown(breakdown: &BreakdownTable, style: ReportStyle) -> String {
    if breakdown.rows.is_empty() {
        return String::new();
    }
    let mut table = style.table(&breakdown.columns);
    for row in &breakdown.rows {
        let mut row = row.clone();
        if let Some(name) = row.first_mut() {
            let short: String = name.chars().take(NAME_SIZE_MAX).collect();
            let mark = if short.len() < name.len() { "…" } else { "" };
            *name = visible(&format!("{short}{mark}"));
        }
        table.add_row(row);
    }
    let remark = breakdown.remark.as_ref().map(|remark| format!("\n{remark}\n"));
    table_lines(&table) + &remark.unwrap_or_default()
}

fn logs(report: &StatsReport, style: ReportStyle) -> String {
    let mut table = style.table(&["log", ">bytes", ">events", ">transactions", "server", "ends"]);
    let is_many = report.logs.len() > LOGS_SHOWN;
    for log in report.logs.iter().filter(|log| !is_many || log.end != LogEnd::Closed) {
        let numbers = [bytes(log.bytes), count(log.events), count(log.transactions)];
        let [size, events, transactions] = numbers;
        let [name, server] = [&log.name, &log.server_version].map(|text| visible(text));
        table.add_row([name, size, events, transactions, server, end(log)]);
    }
    if is_many {
        let closed = report.logs.iter().filter(|log| log.end == LogEnd::Closed);
        let (name, size) =
            (counted(closed.clone().count() as u64, "closed log"), closed.map(|log| log.bytes).sum());
        table.add_row([name, bytes(size)]);
    }
    table_lines(&table)
}

fn end(log: &LogStats) -> String {
    match log.end {
        LogEnd::Closed => "closed".to_owned(),
        LogEnd::Open { in_use: true } => "open: in use, or after a crash".to_owned(),
        LogEnd::Open { in_use: false } => "open".to_owned(),
        LogEnd::Torn { offset, bytes: found, .. } => {
            format!("torn at {offset}: only {} of the last event", bytes(found))
        }
    }
}

fn totals(report: &StatsReport, style: ReportStyle, zone: &TimeZone) -> String {
    let totals = &report.totals;
    let saved = match totals.transactions_compressed {
        0 => String::new(),
        some => format!("; {} of them compressed", count(some)),
    };
    let mut table = style.pairs();
    let mut line = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    line("transactions", count(totals.transactions) + &saved);
    if totals.transactions_incomplete > 0 {
        line("", format!("and {}", counted(totals.transactions_incomplete, "incomplete transaction")));
    }
    line("bytes", size_line(report));
    line(
        "events",
        format!(
            "{}, including {}",
            count(totals.events_uncompressed),
            counted(totals.statements, "statement")
        ),
    );
    line("rows", rows_line(report));
    if let Some(span) = report.span {
        let took = Duration::from_micros(span.last.0.saturating_sub(span.first.0));
        line("commits", format!("{} to {}", span.first.in_zone(zone), span.last.in_zone(zone)));
        line("", format!("{}; {}", duration(took), transaction_rate(totals.transactions, took)));
    }
    let or_none = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    line("GTIDs", or_none(&gtids_text(&report.gtids)));
    if !report.gtids.set.is_empty() && !report.is_selection {
        line("gaps", or_none(&report.gtids.gaps));
    }
    if report.gtids.anonymous > 0 {
        line("without GTID", count(report.gtids.anonymous));
    }
    table_lines(&table)
}

/// Returns the GTID set of MySQL, the last GTID of each domain of MariaDB, or both.
pub(super) fn gtids_text(gtids: &GtidReport) -> String {
    let GtidReport { set, domains, .. } = gtids;
    match (set.as_str(), domains.as_str()) {
        (_, "") => set.clone(),
        ("", _) => format!("last of each domain: {domains}"),
        _ => format!("{set}; last of each domain: {domains}"),
    }
}

fn size_line(report: &StatsReport) -> String {
    let totals = &report.totals;
    match totals.transactions_compressed {
        0 => bytes(totals.bytes),
        _ => {
            let (stored, plain) = report.compression.iter().fold((0, 0), |(stored, plain), row| {
                (stored + row.compressed_bytes_counter, plain + row.uncompressed_bytes_counter)
            });
            let saved = share(plain.saturating_sub(stored), plain);
            format!(
                "{}; {} before compression (saved {saved})",
                bytes(totals.bytes),
                bytes(totals.bytes_uncompressed)
            )
        }
    }
}

fn rows_line(report: &StatsReport) -> String {
    let changes = &report.totals.changes;
    format!(
        "{}: {} inserted, {} updated, {} deleted",
        count(changes.total().rows),
        count(changes.insert.rows),
        count(changes.update.rows),
        count(changes.delete.rows)
    )
}

/// Returns the rate of transactions, with a decimal if it is low.
fn transaction_rate(number: u64, took: Duration) -> String {
    match took.as_secs_f64() {
        seconds if seconds < 0.001 => format!("{} per second", counted(number, "transaction")),
        seconds if number as f64 / seconds < 9.95 => {
            format!("{:.1} transactions per second", number as f64 / seconds)
        }
        seconds => {
            let rate = (number as f64 / seconds).round() as u64;
            format!("{} per second", counted(rate, "transaction"))
        }
    }
}

fn tables(report: &StatsReport, style: ReportStyle) -> String {
    if report.tables.is_empty() {
        return String::new();
    }
    let columns = ["table", ">inserted", ">updated", ">deleted", ">row events", ">bytes", ">share"];
    let mut table = style.table(&columns);
    let whole: u64 = report.tables.iter().map(TableAmounts::bytes).sum();
    let mut add = |name: String, rows: [u64; 3], events: u64, size: u64| {
        let [inserted, updated, deleted] = rows.map(count);
        table.add_row([name, inserted, updated, deleted, count(events), bytes(size), share(size, whole)]);
    };
    let rows = |amounts: &TableAmounts| {
        [amounts.changes.insert, amounts.changes.update, amounts.changes.delete]
            .map(|amount: RowChangeCounts| amount.rows)
    };
    let shown = if report.tables.len() > TABLES_SHOWN + 1 { TABLES_SHOWN } else { report.tables.len() };
    let (shown, others) = report.tables.split_at(shown);
    for each in shown {
        let name = visible(&format!("{}.{}", each.database, each.table));
        add(name, rows(each), each.changes.total().events, each.bytes());
    }
    if !others.is_empty() {
        let sum =
            others.iter().map(rows).fold([0; 3], |sum, rows| [0, 1, 2].map(|kind| sum[kind] + rows[kind]));
        let events = others.iter().map(|each| each.changes.total().events).sum();
        add(format!("{} others", others.len()), sum, events, others.iter().map(TableAmounts::bytes).sum());
    }
    table_lines(&table)
}

fn events(report: &StatsReport, style: ReportStyle) -> String {
    let mut table = style.table(&["type", ">events", ">bytes", ">share"]);
    // Events inside payloads are counted in addition to the payload events.
    let whole = report.events.iter().map(|each| each.bytes).sum();
    for each in &report.events {
        let name = each.event_type.to_owned();
        table.add_row([name, count(each.events), bytes(each.bytes), share(each.bytes, whole)]);
    }
    table_lines(&table)
}

fn sizes(classes: &[SizeClass], style: ReportStyle) -> String {
    if classes.is_empty() {
        return String::new();
    }
    let columns = ["up to", ">transactions", ">share", ">bytes", ">share"];
    let mut table = style.table(&columns);
    let transactions = classes.iter().map(|class| class.transactions).sum();
    let whole = classes.iter().map(|class| class.bytes).sum();
    for class in classes {
        table.add_row([
            class.bytes_max.map_or("more".to_owned(), bytes_of_two),
            count(class.transactions),
            share(class.transactions, transactions),
            bytes(class.bytes),
            share(class.bytes, whole),
        ]);
    }
    table_lines(&table)
}

fn transactions(transactions: &[TransactionReport], style: ReportStyle, zone: &TimeZone) -> String {
    if transactions.is_empty() {
        return String::new();
    }
    let columns =
        [">bytes", ">in the log", ">rows", ">duration", "committed", "GTID", "log", ">position", "tables"];
    let mut table = style.table(&columns);
    for each in transactions {
        let tables: Vec<&str> = each.tables.iter().take(2).map(|table| table.table.as_str()).collect();
        let more = if each.tables.len() > 2 { ", …" } else { "" };
        table.add_row([
            bytes(each.bytes_uncompressed),
            bytes(each.bytes),
            count(each.rows),
            duration(Duration::from_micros(each.duration_us)),
            each.committed.in_zone(zone),
            each.id.to_string(),
            visible(&each.log),
            each.position.to_string(),
            visible(&tables.join(", ")) + more,
        ]);
    }
    table_lines(&table)
}

fn rate(series: &TimeSeries, zone: &TimeZone) -> String {
    if series.buckets.len() < 2 {
        return String::new();
    }
    let width = Duration::from_millis(series.width_ms);
    let line = |name: &str, values: Vec<u64>, shown: fn(u64) -> String| {
        let largest = values.iter().copied().max().unwrap_or_default();
        format!("{name:<12} {}  at most {} per {}\n", sparkline(values), shown(largest), duration(width))
    };
    let pick =
        |of: fn(&inspect::stats::BucketCounts) -> u64| series.buckets.iter().map(of).collect::<Vec<u64>>();
    let start = LogTime(series.start_ms.saturating_mul(1000));
    let end_ms = series.start_ms.saturating_add(series.width_ms.saturating_mul(series.buckets.len() as u64));
    [
        line("transactions", pick(|counts| counts.transactions), count),
        line("rows", pick(|counts| counts.rows), count),
        line("bytes", pick(|counts| counts.bytes), bytes),
        format!(
            "{:<12} {} to {}\n",
            "",
            start.in_zone(zone),
            LogTime(end_ms.saturating_mul(1000)).in_zone(zone)
        ),
    ]
    .concat()
}

pub(super) fn compression(rows: &[CompressionRow], style: ReportStyle) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = style.table(&COMPRESSION_COLUMNS);
    for row in rows {
        table.add_row(compression_cells(row));
    }
    table_lines(&table)
}

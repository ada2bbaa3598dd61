//! Report as an HTML page.

use std::path::Path;
use std::time::Duration;

use inspect::stats::{BucketCounts, RowOperation, StatsReport, TableAmounts, TimeSeries, TransactionReport};
use jiff::tz::TimeZone;

use super::breakdown_rows::BreakdownTable;
use super::compression_cells::{COMPRESSION_COLUMNS, compression_cells};
use super::text::gtids_text;
use crate::page::chart::{self, BarPart, ChartBar, ColumnChart};
use crate::page::{common_directory, escaped, log_below, render_page, render_pairs, render_table};
use crate::units::{bytes, bytes_of_two, count, counted, duration, share};

/// Maximum number of tables in the chart, which shows the largest.
const TABLES_DRAWN: usize = 20;

/// Returns the whole page.
///
/// `count_max` is the maximum number of groups to list in a breakdown.
pub(crate) fn render(report: &StatsReport, zone: &TimeZone, count_max: usize) -> String {
    let names: Vec<&str> = report.logs.iter().map(|log| log.name.as_str()).collect();
    let title = match names.as_slice() {
        [name] => (*name).to_owned(),
        several => format!("{} logs", several.len()),
    };
    let directory = common_directory(names.iter().copied());
    let mut sections = vec![
        ("Totals", summary(report, directory, zone)),
        ("Over time: transactions", rate(&report.rate, zone, |counts| counts.transactions, count)),
        ("Over time: bytes before compression", rate(&report.rate, zone, |counts| counts.bytes, bytes)),
        ("Tables, by bytes of row events", tables(&report.tables)),
    ];
    for each in &report.by {
        let table = BreakdownTable::new(each, zone, count_max);
        sections.push((table.heading, breakdown(&table)));
    }
    sections.extend([
        ("Transactions by size, before compression", sizes(report)),
        ("Compression", compression(report)),
        ("Largest transactions", transactions(&report.largest, directory, zone)),
        ("Longest transactions", transactions(&report.longest, directory, zone)),
        ("Logs", logs(report, directory)),
    ]);
    render_page("stats", &title, &sections)
}

fn breakdown(breakdown: &BreakdownTable) -> String {
    // Names and numbers alike are text, not HTML.
    let rows = breakdown.rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect());
    let remark = breakdown.remark.as_ref().map(|remark| format!("<p>{}</p>\n", escaped(remark)));
    render_table(&breakdown.columns, rows) + &remark.unwrap_or_default()
}

fn summary(report: &StatsReport, directory: &Path, zone: &TimeZone) -> String {
    let totals = &report.totals;
    let rows = &totals.changes;
    let mut values = vec![
        ("Transactions", count(totals.transactions)),
        ("compressed", count(totals.transactions_compressed)),
        ("Bytes", bytes(totals.bytes)),
        ("before compression", bytes(totals.bytes_uncompressed)),
        ("Events", count(totals.events_uncompressed)),
        ("Rows", count(rows.total().rows)),
        ("GTIDs", escaped(&gtids_text(&report.gtids))),
    ];
    if !report.gtids.set.is_empty() && !report.is_selection {
        values.push(("Gaps", escaped(&report.gtids.gaps)));
    }
    if let Some(span) = report.span {
        let took = Duration::from_micros(span.last.0.saturating_sub(span.first.0));
        let (first, last) = (span.first.in_zone(zone), span.last.in_zone(zone));
        values.push(("Commits", format!("{first} to {last} ({})", duration(took))));
    }
    if directory != Path::new("") {
        values.push(("Directory", escaped(&directory.to_string_lossy())));
    }
    render_pairs(&values)
}

fn rate(
    series: &TimeSeries,
    zone: &TimeZone,
    of: fn(&BucketCounts) -> u64,
    shown: fn(u64) -> String,
) -> String {
    let values: Vec<Vec<u64>> = series.buckets.iter().map(|counts| vec![of(counts)]).collect();
    let largest = values.iter().flatten().copied().max().unwrap_or_default();
    let width = duration(Duration::from_millis(series.width_ms));
    let columns = ColumnChart {
        start_ms: series.start_ms,
        width_ms: series.width_ms,
        zone,
        headline: format!("at most {} per {width}", shown(largest)),
    };
    chart::draw_columns(&columns, &["bar"], &values, shown)
}

fn tables(tables: &[TableAmounts]) -> String {
    let class = |change| match change {
        RowOperation::Insert => "insert",
        RowOperation::Update => "update",
        RowOperation::Delete => "delete",
    };
    let bars: Vec<ChartBar> = tables[..tables.len().min(TABLES_DRAWN)]
        .iter()
        .map(|table| {
            let name = escaped(&format!("{}.{}", table.database, table.table));
            let part = |change| {
                let amount = table.changes.of(change);
                let (rows, size) = (counted(amount.rows, "row"), bytes(amount.bytes));
                let title = format!("{name}: {} {rows}, {size}", class(change));
                BarPart { class: class(change), length: amount.bytes as f64, title }
            };
            let parts = RowOperation::ALL.map(part).into();
            ChartBar { name: name.clone(), parts, number: bytes(table.changes.total().bytes), between: None }
        })
        .collect();
    chart::draw_bars(&RowOperation::ALL.map(|change| (class(change), class(change))), &bars)
}

fn sizes(report: &StatsReport) -> String {
    let transactions = report.sizes.iter().map(|class| class.transactions).sum();
    let whole = report.sizes.iter().map(|class| class.bytes).sum();
    let rows = report.sizes.iter().map(|class| {
        let name = class.bytes_max.map_or("more".to_owned(), bytes_of_two);
        let shares = [share(class.transactions, transactions), share(class.bytes, whole)];
        let [of_transactions, of_bytes] = shares;
        vec![name, count(class.transactions), of_transactions, bytes(class.bytes), of_bytes]
    });
    render_table(&["up to", ">transactions", ">share", ">bytes", ">share"], rows)
}

fn compression(report: &StatsReport) -> String {
    render_table(&COMPRESSION_COLUMNS, report.compression.iter().map(|row| compression_cells(row).into()))
}

fn transactions(transactions: &[TransactionReport], directory: &Path, zone: &TimeZone) -> String {
    let rows = transactions.iter().map(|each| {
        vec![
            bytes(each.bytes_uncompressed),
            count(each.rows),
            duration(Duration::from_micros(each.duration_us)),
            each.committed.in_zone(zone),
            escaped(&each.id),
            log_below(directory, &each.log),
            each.position.to_string(),
        ]
    });
    render_table(&[">bytes", ">rows", ">duration", "committed", "GTID", "log", ">position"], rows)
}

fn logs(report: &StatsReport, directory: &Path) -> String {
    let rows = report.logs.iter().map(|log| {
        let name = log_below(directory, &log.name);
        vec![name, bytes(log.bytes), count(log.events), count(log.transactions), escaped(&log.server_version)]
    });
    render_table(&["log", ">bytes", ">events", ">transactions", "server"], rows)
}

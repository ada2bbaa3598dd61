//! Advice as tables for a terminal.

use std::time::Duration;

use advise::{
    AdviseReport, CommitLatency, ConnectionCompression, IntervalEstimate, LevelReport, LevelSetting,
    NetworkWay, SizeReport, StoppedBy, TableReport,
};

use crate::commands::advise::server_readings::ServerReadings;
use crate::screen::{ReportStyle, table_lines, visible};
use crate::units::{bytes, bytes_of_two, count, duration};

/// Maximum number of shown tables; all others become one line.
const TABLES_SHOWN: usize = 15;

/// Ratio of the time span to the time that the logs cover. From this ratio on, the report mentions gaps.
const GAPS_SHOWN: f64 = 1.05;

/// Returns the whole report.
pub(super) fn render(report: &AdviseReport, server: Option<&ServerReadings>, style: ReportStyle) -> String {
    style.sections(&[
        ("Advice", advice(report)),
        ("Measured", measured(report, style)),
        ("Levels", levels(report, style)),
        ("Time", times(report, style)),
        ("Transactions by size, before compression", sizes(report, style)),
        ("Added commit time, by size", latencies(report, style)),
        ("Tables", tables(report, style)),
        ("Transactions that cannot be compressed", refused(report, style)),
        ("Already compressed", found(report, style)),
        ("Server", server.map(|server| server.section(style)).unwrap_or_default()),
        ("Network traffic to each replica", network(report, style)),
        ("Comparison: other methods, which no server supports", comparison(report, style)),
    ])
}

fn advice(report: &AdviseReport) -> String {
    let advice = &report.advice;
    let mut text = format!(" {}\n", visible(&advice.headline));
    let items = advice.reasons.iter().map(|reason| ("+", reason));
    for (sign, item) in items.chain(advice.uncertainties.iter().map(|doubt| ("?", doubt))) {
        text.push_str(&format!(" {sign} {}\n", visible(item)));
    }
    text
}

fn measured(report: &AdviseReport, style: ReportStyle) -> String {
    let (sample, totals) = (&report.sample, &report.totals);
    let mut table = style.pairs();
    let mut line = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    let logs = match report.logs.as_slice() {
        [one] => visible(&one.name),
        all => format!("{}: {} to {}", all.len(), visible(first(all)), visible(last(all))),
    };
    let version = visible(&report.server.version);
    line("logs", format!("{logs}, {} of MySQL {version}", bytes(sample.bytes_total)));
    if totals.bytes_plain.value != totals.bytes {
        line("plain", format!("{} without compression", bytes(totals.bytes_plain.value)));
    }
    line(
        "transactions",
        format!(
            "{}, {} of them compressible or compressed",
            about(totals.transactions),
            about(totals.eligible_transactions)
        ),
    );
    if let Some(span) = report.span {
        let took = Duration::from_micros(span.last.0.saturating_sub(span.first.0));
        let per_day = totals.bytes_plain_per_day.map(|day| format!(", {} per day", bytes(day)));
        line("span", took_and_covered(took, totals.covered_s) + &per_day.unwrap_or_default());
    }
    line("sample", extent(report));
    let cpu = report.machine.cpu.as_deref().unwrap_or("unknown processor");
    line("machine", format!("{cpu}, {} cores, zstd {}", report.machine.cores, report.machine.zstd));
    table_lines(&table)
}

/// Formats a time span. If the logs have gaps, also formats the time that they cover.
pub(crate) fn took_and_covered(took: Duration, covered_s: f64) -> String {
    let covered = Duration::from_secs_f64(covered_s.clamp(0.0, 1e12));
    // Consecutive logs leave short gaps.
    match took.as_secs_f64() > covered_s * GAPS_SHOWN {
        true => format!("{}, of which the logs cover {}", duration(took), duration(covered)),
        false => duration(took),
    }
}

fn first(logs: &[advise::MeasuredLog]) -> &str {
    logs.first().map_or("", |log| &log.name)
}

fn last(logs: &[advise::MeasuredLog]) -> &str {
    logs.last().map_or("", |log| &log.name)
}

fn extent(report: &AdviseReport) -> String {
    let sample = &report.sample;
    let took = duration(Duration::from_secs_f64(sample.elapsed_s.max(0.0)));
    let cut = match sample.transactions_cut {
        0 => String::new(),
        some => format!("; only the start of {} large transactions", count(some)),
    };
    match sample.stopped_by {
        None => format!("all transactions, in {took}{cut}"),
        Some(reason) => {
            let reason = match reason {
                StoppedBy::Time => "time limit",
                StoppedBy::Bytes => "sample size",
            };
            format!(
                "{} in {} of {} samples, in {took} ({reason}){cut}",
                bytes(sample.bytes_measured),
                count(sample.stretches_measured),
                count(sample.stretches_total),
            )
        }
    }
}

/// Formats a count, with "about" if it is an estimate.
fn about(estimate: IntervalEstimate) -> String {
    match estimate.low == estimate.high {
        true => count(estimate.value),
        false => format!("about {}", count(estimate.value)),
    }
}

fn levels(report: &AdviseReport, style: ReportStyle) -> String {
    if report.levels.is_empty() {
        return String::new();
    }
    let columns = [
        "level",
        ">bytes",
        ">error (±)",
        ">saved",
        ">ratio",
        ">saved per day",
        ">break-even size",
        ">growing",
        "server",
    ];
    let mut table = style.table(&columns);
    for level in &report.levels {
        table.add_row([
            level.level.to_string(),
            bytes(level.bytes.value),
            give_or_take(level.bytes),
            percent(level.saved_share),
            format!("{:.2}", level.ratio),
            level.saved_bytes_per_day.map_or("–".to_owned(), signed_bytes),
            level.break_even_bytes.map_or("never".to_owned(), bytes),
            count(level.growing_transactions),
            server(report, level).to_owned(),
        ]);
    }
    table_lines(&table)
}

fn server(report: &AdviseReport, level: &LevelReport) -> &'static str {
    match (report.server.can_compress, level.is_honoured, report.server.level_setting) {
        (false, _, _) => "cannot compress",
        (_, Some(true), _) => "",
        (_, Some(false), _) => "ignores it, uses 3",
        (_, None, LevelSetting::Unknown | LevelSetting::Honoured | LevelSetting::Ignored) => "may ignore it",
    }
}

fn give_or_take(estimate: IntervalEstimate) -> String {
    let half = (estimate.high - estimate.low) as f64 / 2.0;
    match estimate.value {
        0 => String::new(),
        value => format!("{:.1} %", half * 100.0 / value as f64),
    }
}

/// Formats a share; negative for savings of transactions that grow.
fn percent(share: f64) -> String {
    let sign = if share <= -0.0005 { "−" } else { "" };
    format!("{sign}{:.1} %", share.abs() * 100.0)
}

fn signed_bytes(number: i64) -> String {
    let sign = if number < 0 { "−" } else { "" };
    format!("{sign}{}", bytes(number.unsigned_abs()))
}

fn times(report: &AdviseReport, style: ReportStyle) -> String {
    if report.levels.is_empty() {
        return String::new();
    }
    let columns = [
        "level",
        ">compress",
        ">decompress",
        ">CPU per GB",
        ">CPU per day",
        ">replica CPU per day",
        ">p50",
        ">p99",
        ">max",
        ">memory",
        ">max memory",
    ];
    let mut table = style.table(&columns);
    for level in &report.levels {
        let CommitLatency { p50_us, p99_us, max_us, .. } = level.latency;
        table.add_row([
            level.level.to_string(),
            format!("{}/s", bytes(level.compress_bytes_per_s as u64)),
            format!("{}/s", bytes(level.decompress_bytes_per_s as u64)),
            seconds(level.compress_s_per_gb),
            level.compress_s_per_day.map_or("–".to_owned(), seconds),
            level.decompress_s_per_day.map_or("–".to_owned(), seconds),
            micros(p50_us),
            micros(p99_us),
            micros(max_us),
            bytes(level.memory_bytes),
            bytes(level.memory_bytes_max),
        ]);
    }
    table_lines(&table)
}

fn seconds(seconds: f64) -> String {
    match seconds {
        0.0..100.0 => format!("{seconds:.1} s"),
        _ => duration(Duration::try_from_secs_f64(seconds).unwrap_or_default()),
    }
}

fn micros(us: f64) -> String {
    match us {
        0.0..1000.0 => format!("{us:.0} µs"),
        1000.0..1e6 => format!("{:.1} ms", us / 1e3),
        _ => seconds(us / 1e6),
    }
}

/// Returns the columns, and one column per level.
fn by_level<'r>(report: &'r AdviseReport, columns: &[&'r str]) -> Vec<String> {
    let levels = report.levels.iter().map(|level| format!(">level {}", level.level));
    columns.iter().map(ToString::to_string).chain(levels).collect()
}

fn table_of(columns: &[String], style: ReportStyle) -> comfy_table::Table {
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    style.table(&columns)
}

fn class_name(class: &SizeReport) -> String {
    class.bytes_max.map_or("more".to_owned(), bytes_of_two)
}

fn sizes(report: &AdviseReport, style: ReportStyle) -> String {
    if report.sizes.is_empty() {
        return String::new();
    }
    let mut table = table_of(&by_level(report, &["up to", ">transactions", ">bytes"]), style);
    for class in &report.sizes {
        let saved = class.levels.iter().map(|level| match class.transactions {
            0 => String::new(),
            _ => percent(level.saved_share),
        });
        let front = [class_name(class), count(class.transactions), bytes(class.bytes)];
        table.add_row(front.into_iter().chain(saved));
    }
    table_lines(&table)
}

fn latencies(report: &AdviseReport, style: ReportStyle) -> String {
    if report.sizes.is_empty() {
        return String::new();
    }
    let mut table = table_of(&by_level(report, &["up to", ""]), style);
    for class in report.sizes.iter().filter(|class| class.transactions > 0) {
        for name in ["p50", "p99", "max"] {
            let of = |times: &CommitLatency| match name {
                "p50" => times.p50_us,
                "p99" => times.p99_us,
                _ => times.max_us,
            };
            let front = [if name == "p50" { class_name(class) } else { String::new() }, name.to_owned()];
            let values = class.levels.iter().map(|level| micros(of(&level.latency)));
            table.add_row(front.into_iter().chain(values));
        }
    }
    table_lines(&table)
}

fn tables(report: &AdviseReport, style: ReportStyle) -> String {
    if report.tables.is_empty() {
        return String::new();
    }
    let mut table = table_of(&by_level(report, &["table", ">transactions", ">bytes"]), style);
    for one in report.tables.iter().take(TABLES_SHOWN) {
        let TableReport { database, table: name, transactions, bytes: size, levels } = one;
        let front = [visible(&format!("{database}.{name}")), count(*transactions), bytes(*size)];
        table.add_row(front.into_iter().chain(levels.iter().map(|level| percent(level.saved_share))));
    }
    if let Some(rest) = report.tables.get(TABLES_SHOWN..).filter(|rest| !rest.is_empty()) {
        let size = rest.iter().map(|table| table.bytes).sum();
        table.add_row([format!("{} more", count(rest.len() as u64)), String::new(), bytes(size)]);
    }
    table_lines(&table)
}

fn refused(report: &AdviseReport, style: ReportStyle) -> String {
    if report.refused.is_empty() {
        return String::new();
    }
    let mut table = style.table(&["reason", ">transactions", ">bytes", ">share"]);
    for one in &report.refused {
        table.add_row([one.words.clone(), count(one.transactions), bytes(one.bytes), percent(one.share)]);
    }
    table_lines(&table)
}

fn found(report: &AdviseReport, style: ReportStyle) -> String {
    let found = &report.found;
    if found.transactions == 0 {
        return String::new();
    }
    let mut table = style.pairs();
    let saved = 1.0 - found.bytes as f64 / found.bytes_plain.max(1) as f64;
    table.add_row(["transactions".to_owned(), count(found.transactions)]);
    let sizes = format!(
        "{}, {} without compression: saved {}",
        bytes(found.bytes),
        bytes(found.bytes_plain),
        percent(saved)
    );
    table.add_row(["bytes".to_owned(), sizes]);
    let names = |levels: &[u8]| levels.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let level = match (found.levels.as_slice(), found.probed) {
        (_, 0) => "unknown: no measured payload shows it".to_owned(),
        ([], _) => "unknown: no single level of this zstd reproduces the payloads".to_owned(),
        ([one], probed) => {
            let probed = count(probed);
            format!("{one} (checked payloads reproduced: {probed} of {probed})")
        }
        (some, probed) => {
            let (names, probed) = (names(some), count(probed));
            format!("one of {names} (checked payloads reproduced by each: {probed} of {probed})")
        }
    };
    table.add_row(["compression level".to_owned(), level]);
    table_lines(&table)
}

fn network(report: &AdviseReport, style: ReportStyle) -> String {
    if report.network.ways.is_empty() {
        return String::new();
    }
    let columns = ["transactions", "connection", ">bytes", ">per day", ">saved", ">CPU per GB"];
    let mut table = style.table(&columns);
    for way in &report.network.ways {
        let NetworkWay { transactions, connection, saved_share, connection_s_per_gb, .. } = *way;
        table.add_row([
            transactions.map_or("uncompressed".to_owned(), |level| format!("level {level}")),
            connection_name(connection),
            bytes(way.bytes),
            way.bytes_per_day.map_or("–".to_owned(), bytes),
            percent(saved_share),
            seconds(connection_s_per_gb),
        ]);
    }
    table_lines(&table)
}

fn connection_name(connection: ConnectionCompression) -> String {
    match connection {
        ConnectionCompression::Uncompressed => "uncompressed".to_owned(),
        ConnectionCompression::Zlib(_) => "zlib".to_owned(),
        ConnectionCompression::Zstd(level) => format!("zstd, level {level}"),
    }
}

fn comparison(report: &AdviseReport, style: ReportStyle) -> String {
    let mut table = style.pairs();
    if let Some(whole) = &report.whole_file {
        let value = format!(
            "{} (± {}): saves {}; no longer binary logs",
            bytes(whole.bytes.value),
            give_or_take(whole.bytes),
            percent(whole.saved_share)
        );
        table.add_row([format!("compressed files, zstd level {}", whole.level), value]);
    }
    if let Some(one) = &report.dictionary {
        let saved = |with: u64| percent(1.0 - with as f64 / one.bytes_plain.max(1) as f64);
        let value = format!(
            "payloads would save {} with the dictionary, {} without ({} transactions, trained on {} others)",
            saved(one.bytes_with),
            saved(one.bytes_without),
            count(one.transactions_measured),
            count(one.transactions_trained),
        );
        table.add_row([format!("dictionary of {}, level {}", bytes(one.dictionary_bytes), one.level), value]);
    }
    table_lines(&table)
}

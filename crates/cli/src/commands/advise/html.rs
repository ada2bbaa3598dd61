//! Report as an HTML page.

use std::path::Path;
use std::time::Duration;

use advise::{
    AdviseReport, CommitLatency, ConnectionCompression, FoundReport, IntervalEstimate, LevelReport,
    LevelSetting, NetworkReport, RefusedReport, SampleReport, ServerReport, SizeReport, TableReport,
    TimeReport,
};
use jiff::tz::TimeZone;

use super::server_readings::ServerReadings;
use super::text::took_and_covered;
use crate::page::chart::{self, BarPart, ChartBar, ChartRange, ColumnChart, RangeChart};
use crate::page::{common_directory, escaped, log_below, render_page, render_pairs, render_table};
use crate::units::{bytes, bytes_of_two, count, counted, duration};

/// Maximum number of tables in the chart, which shows the largest.
const TABLES_DRAWN: usize = 20;

/// Legend of the bars.
const LEGEND: [(&str, &str); 2] = [("bar", "compressed"), ("rest", "saved")];

/// Returns the whole page. Charts of one level show the advised level, or otherwise the first measured level.
pub(super) fn render(report: &AdviseReport, server: Option<&ServerReadings>, zone: &TimeZone) -> String {
    let names: Vec<&str> = report.logs.iter().map(|log| log.name.as_str()).collect();
    let title = match names.as_slice() {
        [name] => format!("Transaction compression of {name}"),
        several => format!("Transaction compression of {} logs", several.len()),
    };
    let directory = common_directory(names.iter().copied());
    let drawn = drawn_level(report);
    let at = |what: &str| match report.levels.get(drawn) {
        Some(level) => format!("{what}, level {}", level.level),
        None => what.to_owned(),
    };
    let headline = escaped(&report.advice.headline);
    let [by_table, by_size, over_time] = [at("By table"), at("By transaction size"), at("Over time: bytes")];
    let sections = [
        (headline.as_str(), advice(report)),
        ("Measurements", measured(report, directory, zone)),
        ("Size of the logs", sizes_by_level(report)),
        ("Costs", costs(&report.levels)),
        ("Added commit time", latencies(report)),
        (&over_time, savings_over_time(&report.over_time, drawn, zone)),
        (&by_table, tables(&report.tables, drawn)),
        (&by_size, classes(&report.sizes, drawn)),
        ("Transactions that cannot be compressed", refused(&report.refused)),
        ("Network traffic to each replica", network(&report.network)),
        ("Comparison: other methods, which no server supports", comparisons(report)),
        ("Already compressed", found(&report.found)),
        ("Server", server.map(server_text).unwrap_or_default()),
        ("Logs", logs(report, directory)),
    ];
    render_page("advise", &title, &sections)
}

/// Returns the index of the level in the charts.
fn drawn_level(report: &AdviseReport) -> usize {
    let advised = report.advice.level;
    report.levels.iter().position(|level| Some(level.level) == advised).unwrap_or_default()
}

fn server_text(server: &ServerReadings) -> String {
    let said: Vec<(String, String)> =
        server.pairs().iter().map(|(name, value)| (escaped(name), escaped(value))).collect();
    let said: Vec<(&str, String)> = said.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    render_pairs(&said)
}

fn advice(report: &AdviseReport) -> String {
    let list = |class: &str, sentences: &[String]| match sentences.is_empty() {
        true => String::new(),
        false => {
            let items = sentences.iter().map(|sentence| format!("<li>{}</li>\n", escaped(sentence)));
            format!("<ul class=\"{class}\">\n{}</ul>\n", items.collect::<String>())
        }
    };
    list("reasons", &report.advice.reasons) + &list("faint", &report.advice.uncertainties)
}

fn measured(report: &AdviseReport, directory: &Path, zone: &TimeZone) -> String {
    let totals = &report.totals;
    let mut values = vec![
        ("Logs", bytes(totals.bytes)),
        ("before compression", estimate(totals.bytes_plain)),
        ("Transactions", estimated(totals.transactions, count)),
        ("compressible", estimated(totals.eligible_transactions, count)),
        ("their bytes", estimate(totals.eligible_bytes)),
    ];
    if let Some(rate) = totals.bytes_plain_per_day {
        values.push(("Per day", bytes(rate)));
    }
    if let Some(span) = report.span {
        let took = Duration::from_micros(span.last.0.saturating_sub(span.first.0));
        let (first, last) = (span.first.in_zone(zone), span.last.in_zone(zone));
        values.push(("Commits", format!("{first} to {last} ({})", took_and_covered(took, totals.covered_s))));
    }
    values.push(("Measured", sample(&report.sample)));
    values.push(("Server", server(&report.server)));
    let machine = &report.machine;
    let cpu = machine.cpu.as_deref().unwrap_or("unknown processor");
    let cores = counted(machine.cores as u64, "core");
    values.push(("Machine", format!("{} ({cores}), zstd {}", escaped(cpu), escaped(&machine.zstd))));
    if directory != Path::new("") {
        values.push(("Directory", escaped(&directory.to_string_lossy())));
    }
    render_pairs(&values)
}

fn sample(sample: &SampleReport) -> String {
    let took = duration(Duration::from_secs_f64(sample.elapsed_s.clamp(0.0, 1e9)));
    match sample.is_complete {
        true => format!("all transactions, in {took}"),
        false => format!(
            "{} of {} in {} of {} random samples, in {took}; ranges in parentheses are {:.0} % confidence intervals",
            bytes(sample.bytes_measured),
            bytes(sample.bytes_total),
            count(sample.stretches_measured),
            count(sample.stretches_total),
            sample.confidence * 100.0
        ),
    }
}

fn server(server: &ServerReport) -> String {
    let level = match (server.can_compress, server.level_setting) {
        (false, _) => "cannot compress transactions",
        (true, LevelSetting::Honoured) => "compresses at the configured level",
        (true, LevelSetting::Ignored) => "compresses at level 3, ignores the configured level",
        (true, LevelSetting::Unknown) => "compresses; not known whether at the configured level",
    };
    format!("{}: {level}", escaped(&server.version))
}

/// Returns a chart of sizes: uncompressed, as stored, at each level, and as compressed files.
fn sizes_by_level(report: &AdviseReport) -> String {
    let totals = &report.totals;
    let plain = totals.bytes_plain;
    let bar = |name: String, class, size: IntervalEstimate, is_share_said: bool| {
        let share = 1.0 - size.value as f64 / plain.value.max(1) as f64;
        let number = match is_share_said {
            true => format!("{} ({})", bytes(size.value), saved(share)),
            false => bytes(size.value),
        };
        let title = format!("{name}: {}", estimate(size));
        let between = (size.low != size.high).then_some((size.low as f64, size.high as f64));
        ChartBar { name, parts: vec![BarPart { class, length: size.value as f64, title }], number, between }
    };
    let mut bars = vec![bar("uncompressed".to_owned(), "rest", plain, false)];
    if report.found.transactions > 0 {
        bars.push(bar("as stored".to_owned(), "rest", IntervalEstimate::exact(totals.bytes), true));
    }
    for level in &report.levels {
        let ignored = if level.is_honoured == Some(false) { " (this server ignores it)" } else { "" };
        bars.push(bar(format!("level {}{ignored}", level.level), "bar", level.bytes, true));
    }
    if let Some(whole) = &report.whole_file {
        bars.push(bar(format!("compressed files, zstd -{}", whole.level), "other", whole.bytes, true));
    }
    chart::draw_bars(&[("bar", "transactions compressed"), ("rest", "uncompressed, or as stored")], &bars)
}

fn costs(levels: &[LevelReport]) -> String {
    let rows = levels.iter().map(|level| {
        let a_day = |seconds: Option<f64>| seconds.map_or_else(String::new, core_time);
        vec![
            level.level.to_string(),
            format!("{:.2}", level.ratio),
            level.saved_bytes_per_day.map_or_else(String::new, signed_bytes),
            format!("{}/s", bytes(level.compress_bytes_per_s as u64)),
            format!("{}/s", bytes(level.decompress_bytes_per_s as u64)),
            core_time(level.compress_s_per_gb),
            a_day(level.compress_s_per_day),
            a_day(level.decompress_s_per_day),
            bytes(level.memory_bytes),
            level.break_even_bytes.map_or("none".to_owned(), |size| match size {
                0 => "all".to_owned(),
                size => bytes(size),
            }),
        ]
    });
    let columns = [
        ">level",
        ">ratio",
        ">saved per day",
        ">compress",
        ">decompress",
        ">core time per GB",
        ">core time per day",
        ">replica core time per day",
        ">memory per session",
        ">break-even size",
    ];
    render_table(&columns, rows)
}

/// Returns a chart with one group per size class and one line per level: from the median to the maximum, with a mark
/// at the 99th percentile.
fn latencies(report: &AdviseReport) -> String {
    let range = |level: u8, latency: &CommitLatency| ChartRange {
        name: format!("level {level}"),
        low: latency.p50_us,
        mark: latency.p99_us,
        high: latency.max_us,
        title: format!(
            "level {level}: p50 {}, p99 {}, max {}, of {}",
            microseconds(latency.p50_us),
            microseconds(latency.p99_us),
            microseconds(latency.max_us),
            counted(latency.transactions, "transaction")
        ),
    };
    let groups = report.sizes.iter().map(|class| {
        let ranges = class.levels.iter().filter(|level| level.latency.transactions > 0);
        (size_class(class), ranges.map(|level| range(level.level, &level.latency)).collect::<Vec<_>>())
    });
    let groups: Vec<_> = groups.filter(|(_, ranges)| !ranges.is_empty()).collect();
    chart::draw_ranges(&RangeChart {
        headline: "by transaction size: from the median to the maximum, with a mark at the 99th percentile",
        groups: &groups,
        shown: microseconds,
    })
}

fn savings_over_time(time: &TimeReport, drawn: usize, zone: &TimeZone) -> String {
    let buckets: Vec<Vec<u64>> = time
        .buckets
        .iter()
        .map(|bucket| vec![bucket.bytes_plain, bucket.bytes.get(drawn).copied().unwrap_or_default()])
        .collect();
    let largest = buckets.iter().flatten().copied().max().unwrap_or_default();
    let width = duration(Duration::from_millis(time.width_ms));
    let columns = ColumnChart {
        start_ms: time.start_ms,
        width_ms: time.width_ms,
        zone,
        headline: format!("at most {} per {width}; the darker part is the compressed size", bytes(largest)),
    };
    chart::draw_columns(&columns, &["rest", "bar"], &buckets, bytes)
}

fn tables(tables: &[TableReport], drawn: usize) -> String {
    let bars: Vec<ChartBar> = tables[..tables.len().min(TABLES_DRAWN)]
        .iter()
        .filter_map(|table| {
            let at = table.levels.get(drawn)?;
            let name = escaped(&format!("{}.{}", table.database, table.table));
            Some(against_plain(name, table.bytes, at.bytes, at.saved_share))
        })
        .collect();
    chart::draw_bars(&LEGEND, &bars)
}

fn classes(sizes: &[SizeReport], drawn: usize) -> String {
    let bars: Vec<ChartBar> = sizes
        .iter()
        .filter(|class| class.transactions > 0)
        .filter_map(|class| {
            let at = class.levels.get(drawn)?;
            let name = format!("{}, {}", size_class(class), counted(class.transactions, "transaction"));
            Some(against_plain(name, class.bytes, at.bytes, at.saved_share))
        })
        .collect();
    chart::draw_bars(&LEGEND, &bars)
}

/// Returns a bar with the compressed bytes and the saved bytes; only with the compressed bytes if transactions grow.
fn against_plain(name: String, plain: u64, compressed: u64, saved_share: f64) -> ChartBar {
    let part = |class, size: u64, what: &str| {
        let title = format!("{name}: {} {what}", bytes(size));
        BarPart { class, length: size as f64, title }
    };
    let saved = plain.saturating_sub(compressed);
    let parts = vec![part("bar", compressed, "compressed"), part("rest", saved, "saved")];
    let number = format!("{} of {} ({})", bytes(compressed), bytes(plain), self::saved(saved_share));
    ChartBar { name, parts, number, between: None }
}

fn refused(refused: &[RefusedReport]) -> String {
    let rows = refused.iter().map(|each| {
        vec![escaped(&each.words), count(each.transactions), bytes(each.bytes), percent(each.share)]
    });
    render_table(&["reason", ">transactions", ">bytes", ">share of all bytes"], rows)
}

fn network(network: &NetworkReport) -> String {
    let bars: Vec<ChartBar> = network
        .ways
        .iter()
        .map(|way| {
            let transactions = match way.transactions {
                None => "uncompressed".to_owned(),
                Some(level) => format!("level {level}"),
            };
            let connection = match way.connection {
                ConnectionCompression::Uncompressed => String::new(),
                ConnectionCompression::Zlib(level) => format!(", connection zlib {level}"),
                ConnectionCompression::Zstd(level) => format!(", connection zstd {level}"),
            };
            let name = transactions + &connection;
            let title = format!(
                "{name}: {} of core time per GB for the connection",
                core_time(way.connection_s_per_gb)
            );
            let class = if way.transactions.is_some() { "bar" } else { "rest" };
            let number = format!("{} ({})", bytes(way.bytes), saved(way.saved_share));
            let parts = vec![BarPart { class, length: way.bytes as f64, title }];
            ChartBar { name, parts, number, between: None }
        })
        .collect();
    chart::draw_bars(&[("bar", "transactions compressed"), ("rest", "transactions uncompressed")], &bars)
}

fn comparisons(report: &AdviseReport) -> String {
    let whole = report.whole_file.iter().map(|whole| {
        let method = format!("compressed files, zstd -{}: no longer binary logs", whole.level);
        vec![method, bytes(whole.bytes_measured), estimate(whole.bytes), percent(whole.saved_share)]
    });
    let dictionary = report.dictionary.iter().map(|each| {
        let share = 1.0 - each.bytes_with as f64 / each.bytes_plain.max(1) as f64;
        let method = format!(
            "transactions with a dictionary of {}, level {} ({} without dictionary)",
            bytes(each.dictionary_bytes),
            each.level,
            bytes(each.bytes_without)
        );
        vec![method, bytes(each.bytes_plain), bytes(each.bytes_with), percent(share)]
    });
    render_table(&["", ">measured bytes", ">compressed", ">saved"], whole.chain(dictionary))
}

fn found(found: &FoundReport) -> String {
    if found.transactions == 0 {
        return String::new();
    }
    let levels: Vec<String> = found.levels.iter().map(u8::to_string).collect();
    let made_at = match (levels.as_slice(), found.probed) {
        (_, 0) => "not checked".to_owned(),
        ([], _) => "unknown: no level reproduces all payloads".to_owned(),
        (levels, probed) => format!("{} (reproduced {} payloads)", levels.join(" or "), count(probed)),
    };
    render_pairs(&[
        ("Transactions", count(found.transactions)),
        ("Bytes", bytes(found.bytes)),
        ("before compression", bytes(found.bytes_plain)),
        ("Compression level", made_at),
    ])
}

fn logs(report: &AdviseReport, directory: &Path) -> String {
    let rows = report.logs.iter().map(|log| {
        let kind = match (log.is_relay, log.is_encrypted) {
            (false, false) => "",
            (true, false) => "relay",
            (false, true) => "encrypted",
            (true, true) => "relay, encrypted",
        };
        vec![log_below(directory, &log.name), bytes(log.bytes), kind.to_owned(), escaped(&log.server_version)]
    });
    render_table(&["log", ">bytes", "", "server"], rows)
}

fn size_class(class: &SizeReport) -> String {
    class.bytes_max.map_or("more".to_owned(), |size| format!("up to {}", bytes_of_two(size)))
}

fn estimate(estimate: IntervalEstimate) -> String {
    estimated(estimate, bytes)
}

fn estimated(estimate: IntervalEstimate, shown: fn(u64) -> String) -> String {
    match estimate.low == estimate.high {
        true => shown(estimate.value),
        false => format!("{} ({} to {})", shown(estimate.value), shown(estimate.low), shown(estimate.high)),
    }
}

/// Formats a share; negative for savings of transactions that grow.
fn percent(share: f64) -> String {
    let sign = if share <= -0.0005 { "−" } else { "" };
    format!("{sign}{:.1} %", share.abs() * 100.0)
}

/// Formats savings beside numbers that are not labelled as savings.
fn saved(share: f64) -> String {
    format!("saved {}", percent(share))
}

fn signed_bytes(number: i64) -> String {
    let sign = if number < 0 { "−" } else { "" };
    format!("{sign}{}", bytes(number.unsigned_abs()))
}

fn core_time(seconds: f64) -> String {
    duration(Duration::from_secs_f64(seconds.clamp(0.0, 1e12)))
}

fn microseconds(time: f64) -> String {
    match time {
        ..1_000.0 => format!("{time:.0} µs"),
        ..1_000_000.0 => format!("{:.1} ms", time / 1e3),
        _ => format!("{:.1} s", time / 1e6),
    }
}

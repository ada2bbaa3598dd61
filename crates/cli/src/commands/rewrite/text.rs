//! Result of `bintide compress` and `decompress` as text and JSON.

use std::time::Duration;

use rewrite::{RewriteTally, StageTiming};
use serde_json::{Value, json};

use super::{LogRewrite, RewriteEnd, outcome_text, sum_tallies};
use crate::screen::{ReportStyle, table_lines, visible};
use crate::units;

pub(super) fn render(all: &[LogRewrite], style: ReportStyle) -> String {
    let mut table = style.table(&["log", ">before", ">after", ">saved", ">transactions", ">changed", ""]);
    for LogRewrite { path, end } in all {
        let name = visible(&path.display().to_string());
        match end {
            RewriteEnd::FlaggedInUse => table.add_row([
                &name,
                "",
                "",
                "",
                "",
                "",
                "flagged as in use, skipped; if its server has crashed, give --live",
            ]),
            RewriteEnd::InUse
            | RewriteEnd::PerhapsInUse
            | RewriteEnd::NewestReceived
            | RewriteEnd::TargetExists => table.add_row([&name, "", "", "", "", "", outcome_text(end)]),
            RewriteEnd::Rewritten(file) => table.add_row(row(&name, &file.report.tally, outcome_text(end))),
        };
    }
    let sum = sum_tallies(all);
    if all.len() > 1 {
        table.add_row(row("total", &sum, ""));
    }
    let mut text = table_lines(&table);
    text.push_str(&reasons(&sum, style));
    text.push_str(&times(&sum));
    text
}

fn row(name: &str, tally: &RewriteTally, outcome: &str) -> [String; 7] {
    [
        name.to_owned(),
        units::bytes(tally.bytes_before),
        units::bytes(tally.bytes_after),
        saved(tally.bytes_before, tally.bytes_after),
        units::count(tally.transactions),
        units::count(tally.compressed + tally.opened),
        outcome.to_owned(),
    ]
}

fn saved(before: u64, after: u64) -> String {
    match before {
        0 => String::new(),
        _ => {
            let text = format!("{:.1}%", 100.0 * (1.0 - after as f64 / before as f64));
            if text == "-0.0%" { "0.0%".to_owned() } else { text }
        }
    }
}

/// Returns a table of unchanged transactions by reason.
fn reasons(sum: &RewriteTally, style: ReportStyle) -> String {
    let mut table = style.table(&["unchanged because", ">transactions", ">bytes"]);
    for (reason, (count, bytes)) in &sum.refused {
        table.add_row([reason.to_string(), units::count(*count), units::bytes(*bytes)]);
    }
    for (reason, count) in [
        ("compression gains too little", sum.not_worth_it),
        ("the compressed transaction is too large", sum.too_large),
    ] {
        if count > 0 {
            table.add_row([reason.to_owned(), units::count(count), String::new()]);
        }
    }
    match table.row_iter().next() {
        Some(_) => format!("\n{}", table_lines(&table)),
        None => String::new(),
    }
}

fn times(sum: &RewriteTally) -> String {
    let line = |what: &str, timing: &StageTiming| match timing.count {
        0 => String::new(),
        _ => format!(
            "{what}: total {}, average {}, minimum {}, maximum {}\n",
            seconds(timing.total),
            seconds(timing.avg()),
            seconds(timing.min),
            seconds(timing.max)
        ),
    };
    let text = line("compression", &sum.compressing) + &line("decompression", &sum.opening);
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        long @ 1.0.. => format!("{long:.1} s"),
        middle @ 0.001.. => format!("{:.1} ms", middle * 1e3),
        short => format!("{:.1} µs", short * 1e6),
    }
}

pub(super) fn json(all: &[LogRewrite]) -> Value {
    let logs: Vec<Value> = all
        .iter()
        .map(|done| match &done.end {
            RewriteEnd::InUse
            | RewriteEnd::FlaggedInUse
            | RewriteEnd::PerhapsInUse
            | RewriteEnd::NewestReceived
            | RewriteEnd::TargetExists => {
                json!({ "log": done.path.to_string_lossy(), "outcome": outcome_text(&done.end) })
            }
            RewriteEnd::Rewritten(file) => {
                let mut value = tally(&file.report.tally);
                value["log"] = json!(done.path.to_string_lossy());
                value["outcome"] = json!(outcome_text(&done.end));
                value["positions"] = json!(file.positions.as_ref().map(|path| path.to_string_lossy()));
                value
            }
        })
        .collect();
    json!({ "logs": logs, "together": tally(&sum_tallies(all)) })
}

fn tally(tally: &RewriteTally) -> Value {
    let refused: Vec<Value> = tally
        .refused
        .iter()
        .map(|(reason, (count, bytes))| json!({ "reason": reason.to_string(), "transactions": count, "bytes": bytes }))
        .collect();
    json!({
        "bytes_before": tally.bytes_before,
        "bytes_after": tally.bytes_after,
        "transactions": tally.transactions,
        "compressed": tally.compressed,
        "opened": tally.opened,
        "not_worth_it": tally.not_worth_it,
        "too_large": tally.too_large,
        "refused": refused,
        "inner_bytes": tally.inner_bytes,
        "payload_bytes": tally.payload_bytes,
        "compressing": timing(&tally.compressing),
        "opening": timing(&tally.opening),
    })
}

fn timing(timing: &StageTiming) -> Value {
    json!({
        "count": timing.count,
        "total_ns": timing.total.as_nanos() as u64,
        "min_ns": timing.min.as_nanos() as u64,
        "avg_ns": timing.avg().as_nanos() as u64,
        "max_ns": timing.max.as_nanos() as u64,
    })
}

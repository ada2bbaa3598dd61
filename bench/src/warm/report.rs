//! Tables and charts.

use std::fmt::Write as _;

use anyhow::Result;

use super::CatchUpPair;
use super::steady_load::{LATENCY_US, ROWS_AN_UPDATE, SteadyLags, UPDATES_A_SECOND};
use super::warm_fixture::{DISK_QUEUE_DEPTH, PAGES_FREE, POOL_MIB, ROWS};
use crate::chart::{self, BarGroup, ChartLine};
use crate::doc_page;

/// Formats the times of catching up without and with `bintide warm` in one line.
pub(super) fn line(pair: &CatchUpPair) -> String {
    let CatchUpPair { kind, conditions, alone, warmed } = pair;
    format!(
        "{}: {:.1} s alone, {:.1} s with warm: {:.1} times as fast",
        conditions.name(*kind),
        alone.seconds,
        warmed.seconds,
        pair.gain()
    )
}

pub(super) fn write(cold: &[CatchUpPair], in_memory: &[CatchUpPair]) -> Result<()> {
    let mut text = format!(
        "A table of {ROWS} rows, ten times a buffer pool of {POOL_MIB} MiB (`O_DIRECT`; `innodb_lru_scan_depth = \
         {PAGES_FREE}`, because the default would keep half of this pool empty); one changed row in each transaction, \
         at random; the relay log is filled before the applier starts. A library (`bench/warm/slow_disk.c`) adds the \
         delay in the column *disk* to each page read, and allows {DISK_QUEUE_DEPTH} reads at once.\n\n{}",
        table(cold)
    );
    text.push_str("\n\nWith all data in memory, and no delay:\n\n");
    text.push_str(&table(in_memory));
    write!(
        text,
        "\n\nA slow, steady load: {UPDATES_A_SECOND} updates a second of {ROWS_AN_UPDATE} rows each, {} ms. Lag at \
         each second, in seconds:\n\n![lag](warm/steady.svg)\n\n![catch-up](warm/catch-up.svg)\n",
        LATENCY_US / 1000
    )?;
    text.push_str(&doc_page::conditions()?);
    doc_page::WARM.draw("catch-up", &catch_up(cold)?)?;
    doc_page::WARM.write("figures", &text)
}

fn table(pairs: &[CatchUpPair]) -> String {
    let mut text =
        "| changes | disk | workers | transactions | alone | with warm | | pages read by the applier alone \
                    | with warm | by warm |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for pair in pairs {
        let CatchUpPair { kind, conditions, alone, warmed } = pair;
        let disk = match conditions.is_in_memory {
            true => "in memory".to_owned(),
            false => format!("{} ms", f64::from(conditions.latency_us) / 1000.0),
        };
        text += &format!(
            "| {} | {disk} | {} | {} | {:.1} s | {:.1} s | {:.1} × | {} | {} | {} |\n",
            kind.name(),
            conditions.workers,
            alone.transactions,
            alone.seconds,
            warmed.seconds,
            pair.gain(),
            alone.by_applier,
            warmed.by_applier,
            warmed.by_warm
        );
    }
    text.trim_end().to_owned()
}

fn catch_up(cold: &[CatchUpPair]) -> Result<String> {
    let names: Vec<String> = cold.iter().map(|pair| pair.conditions.short(pair.kind)).collect();
    let groups: Vec<BarGroup<'_>> = cold
        .iter()
        .zip(&names)
        .map(|(pair, name)| BarGroup { name, values: vec![pair.alone.seconds, pair.warmed.seconds] })
        .collect();
    chart::bar_chart("Seconds to catch up", &["alone", "with bintide warm"], &groups)
}

/// Draws the lag at each second.
pub(super) fn steady(steady: &SteadyLags) -> Result<String> {
    let labels: Vec<String> = (1..=steady.alone.len())
        .map(|second| if second % 10 == 0 { format!("{second} s") } else { String::new() })
        .collect();
    let lines = [("alone", &steady.alone), ("with bintide warm", &steady.warmed)]
        .map(|(name, values)| ChartLine { name, values: values.clone(), marks: Vec::new() });
    chart::line_chart("Lag, in seconds", &labels, &lines)
}

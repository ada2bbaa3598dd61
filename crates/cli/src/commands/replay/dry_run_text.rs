//! Report of a dry run as tables for a terminal.

use replay::CommitOrder;
use replay::net_change::FoldRefusal;
use replay::schedule::ParallelMode;
use replay::{Parallelism, RowChanges};

use crate::commands::replay::dry_run::{DryRunFinding, DryRunReport};
use crate::commands::replay::replay_outcome::{self, SearchedLogs};
use crate::commands::replay::time_estimate::ESTIMATE_LIMITS;
use crate::screen::{ReportStyle, table_lines, visible};
use crate::units::{bytes, count, counted, duration, share};

/// Maximum number of shown tables; all others become one line.
const TABLES_SHOWN: usize = 20;

/// Returns the whole report.
pub(super) fn text(report: &DryRunReport, style: ReportStyle) -> String {
    let parallelism_title = format!("Parallelism (--parallel {})", mode(report.options.mode));
    style.sections(&[
        ("Work", to_do(report, style)),
        (parallelism_title.as_str(), parallelism(report, style)),
        ("Row changes", row_changes(report, style)),
        ("Failed checks", obstacles(report)),
        ("Time", time(report)),
    ])
}

/// Returns the value of `--commit-order`.
pub(super) const fn order(order: CommitOrder) -> &'static str {
    match order {
        CommitOrder::Strict => "strict",
        CommitOrder::Grouped => "grouped",
        CommitOrder::Any => "any",
    }
}

/// Returns the value of `--parallel`.
pub(super) const fn mode(mode: ParallelMode) -> &'static str {
    match mode {
        ParallelMode::None => "none",
        ParallelMode::Database => "database",
        ParallelMode::LogicalClock => "logical-clock",
        ParallelMode::Writeset => "writeset",
        ParallelMode::WritesetSession => "writeset-session",
    }
}

fn to_do(report: &DryRunReport, style: ReportStyle) -> String {
    let DryRunReport { plan, options, .. } = report;
    let mut table = style.pairs();
    let passed_over = format!("{} ({} skipped)", count(plan.transactions), count(plan.skipped));
    table.add_row(["transactions".to_owned(), passed_over]);
    table.add_row(["run alone".to_owned(), count(plan.alone)]);
    table.add_row(["with a logical clock".to_owned(), count(plan.clocked)]);
    table.add_row(["bytes of logs".to_owned(), bytes(plan.bytes_read)]);
    let workers = counted(options.workers.get() as u64, "worker");
    table.add_row(["commits".to_owned(), format!("{}, by {workers}", order(options.order))]);
    table_lines(&table)
}

fn parallelism(report: &DryRunReport, style: ReportStyle) -> String {
    let plan = &report.plan;
    let mut table = style.table(&["unit", ">count", ">longest chain", ">average parallelism"]);
    let mut row = |name: &str, width: Parallelism| {
        let average = format!("{:.1}", width.average());
        table.add_row([name.to_owned(), count(width.count), count(width.chain), average]);
    };
    row("transactions", plan.units);
    if let Some(groups) = plan.groups {
        row("commit groups", groups);
    }
    table_lines(&table)
}

fn row_changes(report: &DryRunReport, style: ReportStyle) -> String {
    let plan = &report.plan;
    if plan.tables.is_empty() {
        return String::new();
    }
    let mut table = style.table(&["table", ">in the logs", ">applied", ">merged", ""]);
    let mut row = |name: String, changes: RowChanges, remark: &str| {
        let merged = share(changes.before.saturating_sub(changes.after), changes.before);
        table.add_row([name, count(changes.before), count(changes.after), merged, remark.to_owned()]);
    };
    let mut all: Vec<_> = plan.tables.iter().collect();
    all.sort_by_key(|(_, changes)| std::cmp::Reverse(changes.before));
    let text = |name: &[u8]| visible(&String::from_utf8_lossy(name));
    for (name, changes) in all.iter().take(TABLES_SHOWN) {
        let unknown = plan.unknown.contains(*name).then_some(&FoldRefusal::Undefined);
        let refusal = unknown.or_else(|| plan.unmerged.get(*name));
        let remark = refusal.map_or_else(String::new, |refusal| format!("not merged: {refusal}"));
        row(format!("{}.{}", text(&name.database), text(&name.table)), **changes, &remark);
    }
    let sum = |tables: &[(&_, &RowChanges)]| {
        tables.iter().fold(RowChanges::default(), |sum, (_, changes)| RowChanges {
            before: sum.before + changes.before,
            after: sum.after + changes.after,
        })
    };
    if let Some(others) = all.get(TABLES_SHOWN..).filter(|others| !others.is_empty()) {
        row(counted(others.len() as u64, "other table"), sum(others), "");
    }
    if all.len() > 1 {
        row("total".to_owned(), sum(&all), "");
    }
    table_lines(&table)
}

fn obstacles(report: &DryRunReport) -> String {
    let plan = &report.plan;
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(&visible(line));
        text.push('\n');
    };
    for DryRunFinding { finding, is_allowed } in &report.findings {
        match is_allowed {
            true => line(&finding.allowed_text()),
            false => line(&finding.to_string()),
        }
    }
    plan.refused.iter().for_each(|reason| line(&format!("refused: {reason}")));
    let others = plan.refusals - plan.refused.len() as u64;
    if others > 0 {
        line(&format!("and {} more", count(others)));
    }
    if let Some(late) = plan.late.as_ref().filter(|late| late.transactions > 0 || late.unread.is_some()) {
        line(&replay_outcome::late_line(late));
    }
    let searched = match report.options.selection.stop {
        Some(_) => SearchedLogs::UpToStop,
        None => SearchedLogs::All,
    };
    plan.undecided.iter().for_each(|xid| line(&replay_outcome::undecided_text(xid, searched)));
    text
}

fn time(report: &DryRunReport) -> String {
    let estimate = &report.estimate;
    format!("about {}\n{}\n{ESTIMATE_LIMITS}\n", duration(estimate.total()), estimate.figures().join("\n"))
}

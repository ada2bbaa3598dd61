//! Differences of two stores as text.

use std::fmt::Write;

use binlog::events::RowsKind;
use comfy_table::CellAlignment;
use diff::{
    DifferenceKind, DifferentTransaction, FirstDifference, LogPosition, OneSidedTransactions, OrderExample,
    PartSummary, StoreDiff, TransactionRanges,
};

use super::DiffVerdict;
use crate::screen::{ReportStyle, table_lines, visible};
use crate::units::{count, counted};

/// Returns the report: the stores, the transactions by kind of difference, and the verdict.
pub(super) fn render(diff: &StoreDiff, verdict: DiffVerdict, style: ReportStyle) -> String {
    let content: String = diff.content.listed.iter().map(different).collect();
    let unlisted = diff.content.count - diff.content.listed.len() as u64;
    let more = match unlisted {
        0 => String::new(),
        _ => format!("{} more; increase --top to list them\n", count(unlisted)),
    };
    let order = diff.order.example.as_ref().map(order_example).unwrap_or_default();
    let [only_in_a, only_in_b] = &diff.missing;
    let [purged_in_b, purged_in_a] = &diff.purged;
    let sections = [
        ("Stores", stores(diff, style)),
        ("Transactions", transactions(diff, style)),
        ("Only in A", one_sided(only_in_a, "B")),
        ("Only in B", one_sided(only_in_b, "A")),
        ("Different content", content + &more),
        ("Different order", order),
        ("Purged in A", ranges(purged_in_a)),
        ("Purged in B", ranges(purged_in_b)),
    ];
    let verdict = match verdict {
        DiffVerdict::Equal => "equal",
        DiffVerdict::Different => "different",
        DiffVerdict::NotComparable => "not comparable",
    };
    format!("{}\n{verdict}\n", style.sections(&sections))
}

fn stores(diff: &StoreDiff, style: ReportStyle) -> String {
    let mut table = style.table(&["", ">logs", ">transactions", "store"]);
    for (letter, store) in ["A", "B"].into_iter().zip(&diff.stores) {
        table.add_row([letter, &count(store.logs), &count(store.transactions), &visible(&store.name)]);
    }
    table_lines(&table)
}

fn transactions(diff: &StoreDiff, style: ReportStyle) -> String {
    let mut table = style.pairs();
    let [only_in_a, only_in_b] = &diff.missing;
    let [purged_in_b, purged_in_a] = &diff.purged;
    let rows = [
        ("equal in both", diff.common - diff.content.count),
        ("only in A", only_in_a.transactions.count),
        ("only in B", only_in_b.transactions.count),
        ("different content", diff.content.count),
        ("different order", diff.order.moved),
        ("purged in A, not comparable", purged_in_a.count),
        ("purged in B, not comparable", purged_in_b.count),
    ];
    for (index, (name, number)) in rows.into_iter().enumerate() {
        if index == 0 || number > 0 {
            table.add_row([name, &count(number)]);
        }
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table_lines(&table)
}

fn one_sided(missing: &OneSidedTransactions, other: &str) -> String {
    let OneSidedTransactions { transactions, before_first_common, after_last_common, first } = missing;
    let mut text = ranges(transactions);
    if let Some(first) = first {
        let _ = writeln!(text, "first at {}", position(first));
    }
    if *before_first_common > 0 {
        let number = count(*before_first_common);
        let _ = writeln!(
            text,
            "{number} of them before the first transaction that both have; if {other} purged them, exclude them with \
             --exclude-gtids"
        );
    }
    if *after_last_common > 0 {
        let number = count(*after_last_common);
        let _ = writeln!(text, "{number} of them after the last transaction that both have; {other} may lag");
    }
    text
}

fn ranges(ranges: &TransactionRanges) -> String {
    match ranges.is_empty() {
        true => String::new(),
        false => format!("{ranges}\n"),
    }
}

fn position(position: &LogPosition) -> String {
    format!("{} at {}", position.log, position.position)
}

fn different(transaction: &DifferentTransaction) -> String {
    let DifferentTransaction { id, positions: [a, b], tables, first } = transaction;
    let mut text = format!("{id}\n  A: {}\n  B: {}\n", position(a), position(b));
    if !tables.is_empty() {
        let _ = writeln!(text, "  tables: {}", visible(&tables.join(", ")));
    }
    if let Some(first) = first {
        let _ = writeln!(text, "  first difference: {}", visible(&first_difference(first)));
    }
    text
}

fn first_difference(first: &FirstDifference) -> String {
    let FirstDifference { statement, kind, parts: [a, b] } = first;
    let what = difference(*kind);
    let sides = match a == b {
        true => summary(a.as_ref()),
        false => format!("A: {}; B: {}", summary(a.as_ref()), summary(b.as_ref())),
    };
    format!("statement {statement}: {what}: {sides}")
}

const fn difference(kind: DifferenceKind) -> &'static str {
    match kind {
        DifferenceKind::End => "one transaction ends earlier",
        DifferenceKind::Statement => "different statements",
        DifferenceKind::JsonForm => "different form of JSON changes (binlog_row_value_options)",
        DifferenceKind::ColumnTypes => "different column types",
        DifferenceKind::Columns => "different columns in the images (binlog_row_image)",
        DifferenceKind::RowCount => "different number of rows",
        DifferenceKind::RowValues => "different values",
        DifferenceKind::Text => "different text or default database",
        DifferenceKind::File => "different file of LOAD DATA",
        DifferenceKind::Variables => "different variables",
        DifferenceKind::Outcome => "different end: commit, rollback or XA PREPARE",
        DifferenceKind::Other => "different event",
    }
}

fn summary(part: Option<&PartSummary>) -> String {
    match part {
        None => "nothing".to_owned(),
        Some(PartSummary::Rows { kind, table, rows }) => {
            format!("{} {table}, {}", change_verb(*kind), counted(*rows, "row"))
        }
        Some(PartSummary::Statement { database, sql }) if database.is_empty() => sql.clone(),
        Some(PartSummary::Statement { database, sql }) => format!("{sql} (in {database})"),
        Some(PartSummary::Other(what)) => what.clone(),
    }
}

/// Returns the SQL word for a kind of row changes.
pub(super) const fn change_verb(kind: RowsKind) -> &'static str {
    match kind {
        RowsKind::Write => "INSERT",
        RowsKind::Update => "UPDATE",
        RowsKind::Delete => "DELETE",
        RowsKind::PartialUpdate => "UPDATE with changes of JSON documents in",
    }
}

fn order_example(example: &OrderExample) -> String {
    let OrderExample { earlier, later } = example;
    let positions = |side: usize| {
        let [earlier, later] =
            [earlier, later].map(|transaction| transaction.positions.get(side).map(position));
        [earlier, later].map(Option::unwrap_or_default)
    };
    let ([earlier_a, later_a], [earlier_b, later_b]) = (positions(0), positions(1));
    format!(
        "A: {} ({earlier_a}) before {} ({later_a})\nB: {} ({later_b}) before {} ({earlier_b})\n",
        earlier.id, later.id, later.id, earlier.id
    )
}

//! Differences of two stores as JSON.

use diff::{
    DifferentTransaction, FirstDifference, LogPosition, OneSidedTransactions, OrderDifferences, PartSummary,
    StoreDiff, StoreSummary, TransactionRanges,
};
use serde_json::{Value, json};

use super::DiffVerdict;
use super::text::change_verb;

/// Returns the report.
pub(super) fn document(diff: &StoreDiff, verdict: DiffVerdict) -> Value {
    let [store_a, store_b] = diff.stores.each_ref().map(store);
    let [only_in_a, only_in_b] = diff.missing.each_ref().map(one_sided);
    let [purged_in_b, purged_in_a] = diff.purged.each_ref().map(ranges);
    json!({
        "verdict": verdict.name(),
        "a": store_a,
        "b": store_b,
        "in_both": diff.common,
        "only_in_a": only_in_a,
        "only_in_b": only_in_b,
        "purged_in_a": purged_in_a,
        "purged_in_b": purged_in_b,
        "other_content": {
            "count": diff.content.count,
            "transactions": diff.content.listed.iter().map(different).collect::<Vec<_>>(),
        },
        "other_order": order(&diff.order),
    })
}

fn store(store: &StoreSummary) -> Value {
    let StoreSummary { name, logs, transactions, repeated, incomplete, .. } = store;
    json!({
        "store": name,
        "logs": logs,
        "transactions": transactions,
        "repeated": repeated,
        "incomplete": incomplete,
    })
}

fn ranges(ranges: &TransactionRanges) -> Value {
    let mariadb = ranges.mariadb.iter().map(|range| {
        json!({
            "domain_id": range.first.domain_id,
            "server_id": range.first.server_id,
            "first": range.first.sequence_number,
            "last": range.last,
        })
    });
    json!({
        "count": ranges.count,
        "gtids": ranges.gtids.to_string(),
        "mariadb_gtids": mariadb.collect::<Vec<_>>(),
        "without_gtid": ranges.anonymous,
    })
}

fn one_sided(missing: &OneSidedTransactions) -> Value {
    let mut document = ranges(&missing.transactions);
    document["before_first_in_both"] = missing.before_first_common.into();
    document["after_last_in_both"] = missing.after_last_common.into();
    document["first"] = missing.first.as_ref().map(position).into();
    document
}

fn position(position: &LogPosition) -> Value {
    json!({ "log_name": position.log_name(), "pos": position.position })
}

fn positions(positions: &[LogPosition; 2]) -> [Value; 2] {
    positions.each_ref().map(position)
}

fn different(transaction: &DifferentTransaction) -> Value {
    let [a, b] = positions(&transaction.positions);
    json!({
        "gtid": transaction.id.to_string(),
        "a": a,
        "b": b,
        "tables": transaction.tables,
        "first_difference": transaction.first.as_ref().map(first),
    })
}

fn first(first: &FirstDifference) -> Value {
    let [a, b] = first.parts.each_ref().map(|part| part.as_ref().map(summary));
    json!({ "statement": first.statement, "property": first.kind.name(), "a": a, "b": b })
}

fn summary(part: &PartSummary) -> Value {
    match part {
        PartSummary::Rows { kind, table, rows } => {
            json!({ "change": change_verb(*kind), "table": table, "rows": rows })
        }
        PartSummary::Statement { database, sql } => json!({ "database": database, "sql": sql }),
        PartSummary::Other(what) => json!({ "event": what }),
    }
}

fn order(order: &OrderDifferences) -> Value {
    let example = order.example.as_ref().map(|example| {
        let [earlier, later] = [&example.earlier, &example.later].map(|transaction| {
            let [a, b] = positions(&transaction.positions);
            json!({ "gtid": transaction.id.to_string(), "a": a, "b": b })
        });
        json!({ "earlier_in_a": earlier, "later_in_a": later })
    });
    json!({ "count": order.moved, "example": example })
}

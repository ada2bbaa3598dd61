//! Finds the first difference of two transactions.

use std::collections::BTreeSet;

use binlog::events::RowsKind;

use crate::content_hash::ContentHash;
use crate::content_part::{ContentPart, PartBody};
use crate::content_scanner::{EventLocation, ScanNotice};
use crate::error::DiffError;
use crate::store_comparison::DifferentPair;
use crate::store_diff::{DifferenceKind, FirstDifference, PartSummary};
use crate::store_reader::{DiffStore, ReadDemand, ScanMonitor, StoreReader};

/// The differences of a transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransactionDifference {
    pub(crate) tables: Vec<String>,
    pub(crate) first: Option<FirstDifference>,
}

/// Maximum number of parts of a transaction that are compared one by one. Bounds memory.
const PARTS_MAX: usize = 10_000;

/// Maximum number of listed tables of a transaction.
const TABLES_MAX: usize = 20;

/// Maximum number of shown bytes of a statement's text.
const TEXT_SIZE_MAX: usize = 200;

/// Reads a transaction in both stores, and finds its first difference.
pub(crate) fn find_difference(
    stores: [&DiffStore; 2],
    pair: &DifferentPair,
    monitor: &ScanMonitor,
) -> Result<TransactionDifference, DiffError> {
    let [a, b] = pair.locations;
    let a = TransactionParts::read(stores[0], a, monitor)?;
    let b = TransactionParts::read(stores[1], b, monitor)?;
    let tables = a.tables.union(&b.tables).take(TABLES_MAX).cloned().collect();
    Ok(TransactionDifference { tables, first: first_difference(&a.parts, &b.parts) })
}

/// The first parts of a transaction, and its tables.
#[derive(Debug, Default)]
struct TransactionParts {
    parts: Vec<PartRecord>,
    tables: BTreeSet<String>,
}

/// A part of a transaction, without borrowed data.
#[derive(Clone, Debug)]
struct PartRecord {
    statement: u64,
    hash: ContentHash,
    summary: PartSummary,
    detail: PartDetail,
}

/// Property of a part that its summary lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartDetail {
    Rows(ColumnHashes),
    Text,
    /// Hash of the file.
    File(ContentHash),
    Variable,
    Outcome,
    Other,
}

/// Hashes of the columns of row changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ColumnHashes {
    types: ContentHash,
    column_sets: ContentHash,
}

impl TransactionParts {
    /// Reads the transaction that starts at this position.
    fn read(store: &DiffStore, location: EventLocation, monitor: &ScanMonitor) -> Result<Self, DiffError> {
        let (mut parts, mut reader) = (Self::default(), StoreReader::new(store, monitor));
        let (mut log, mut from) = (location.log, Some(location.offset));
        let ended = std::cell::Cell::new(false);
        let mut sink = |notice: ScanNotice<'_>| match notice {
            ScanNotice::Part(part) if !ended.get() => parts.add(&part),
            ScanNotice::End(_) | ScanNotice::Discard => ended.set(true),
            _ => {}
        };
        // A transaction may continue in the next relay log.
        while !ended.get() && (log as usize) < store.logs.len() {
            let mut demand = || if ended.get() { ReadDemand::Enough } else { ReadDemand::More };
            reader.read_log(log, from, &mut sink, &mut demand)?;
            (log, from) = (log + 1, None);
        }
        Ok(parts)
    }

    fn add(&mut self, part: &ContentPart<'_>) {
        let (summary, detail) = summarize(&part.body);
        if let PartSummary::Rows { table, .. } = &summary
            && self.tables.len() < TABLES_MAX
        {
            self.tables.insert(table.clone());
        }
        if self.parts.len() < PARTS_MAX {
            let ContentPart { statement, hash, .. } = *part;
            self.parts.push(PartRecord { statement, hash, summary, detail });
        }
    }
}

fn summarize(body: &PartBody<'_>) -> (PartSummary, PartDetail) {
    match body {
        PartBody::Rows(part) => {
            let table = format!("{}.{}", lossy(part.database), lossy(part.table));
            let detail = PartDetail::Rows(ColumnHashes { types: part.types, column_sets: part.column_sets });
            (PartSummary::Rows { kind: part.kind, table, rows: part.rows }, detail)
        }
        PartBody::Statement { database, sql } => (statement(database, sql), PartDetail::Text),
        PartBody::LoadData { database, sql, file } => (statement(database, sql), PartDetail::File(*file)),
        PartBody::Variable(event_type) => {
            (PartSummary::Other(event_type.name().to_owned()), PartDetail::Variable)
        }
        PartBody::Outcome(outcome) => (PartSummary::Other(outcome.to_string()), PartDetail::Outcome),
        PartBody::Other(event_type) => (PartSummary::Other(event_type.name().to_owned()), PartDetail::Other),
    }
}

fn statement(database: &[u8], sql: &[u8]) -> PartSummary {
    let sql = match sql.split_at_checked(TEXT_SIZE_MAX) {
        Some((start, [_, ..])) => format!("{}…", String::from_utf8_lossy(start).trim_end_matches('\u{fffd}')),
        _ => lossy(sql),
    };
    PartSummary::Statement { database: lossy(database), sql }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn first_difference(a: &[PartRecord], b: &[PartRecord]) -> Option<FirstDifference> {
    let same = a.iter().zip(b).take_while(|(a, b)| a.hash == b.hash).count();
    let pair = [a.get(same), b.get(same)];
    let statement = pair.iter().flatten().map(|part| part.statement).min()?;
    let kind = match pair {
        [Some(a), Some(b)] => difference_kind(a, b),
        // Only the first `PARTS_MAX` parts are known.
        _ if same == PARTS_MAX => return None,
        _ => DifferenceKind::End,
    };
    let parts = pair.map(|part| part.map(|part| part.summary.clone()));
    Some(FirstDifference { statement, kind, parts })
}

fn difference_kind(a: &PartRecord, b: &PartRecord) -> DifferenceKind {
    match (a.detail, b.detail) {
        (PartDetail::Rows(_), PartDetail::Rows(_)) => rows_difference(a, b),
        (PartDetail::Outcome, PartDetail::Outcome) => DifferenceKind::Outcome,
        (PartDetail::Outcome, _) | (_, PartDetail::Outcome) => DifferenceKind::End,
        (PartDetail::Text, PartDetail::Text) => DifferenceKind::Text,
        (PartDetail::File(a), PartDetail::File(b)) if a == b => DifferenceKind::Text,
        (PartDetail::File(_), PartDetail::File(_)) => DifferenceKind::File,
        (PartDetail::Variable, PartDetail::Variable) => DifferenceKind::Variables,
        (PartDetail::Other, PartDetail::Other) if a.summary == b.summary => DifferenceKind::Other,
        _ => DifferenceKind::Statement,
    }
}

/// Returns the property in which row changes differ.
fn rows_difference(a: &PartRecord, b: &PartRecord) -> DifferenceKind {
    let (
        PartSummary::Rows { kind, table, rows },
        PartSummary::Rows { kind: kind_b, table: table_b, rows: rows_b },
    ) = (&a.summary, &b.summary)
    else {
        return DifferenceKind::Statement;
    };
    let (PartDetail::Rows(columns), PartDetail::Rows(columns_b)) = (a.detail, b.detail) else {
        return DifferenceKind::Statement;
    };
    let is_json = |kind: &RowsKind| *kind == RowsKind::PartialUpdate;
    match kind == kind_b {
        _ if table != table_b => DifferenceKind::Statement,
        false if kind.has_after() && kind_b.has_after() && is_json(kind) != is_json(kind_b) => {
            DifferenceKind::JsonForm
        }
        false => DifferenceKind::Statement,
        true if columns.types != columns_b.types => DifferenceKind::ColumnTypes,
        true if columns.column_sets != columns_b.column_sets => DifferenceKind::Columns,
        true if rows != rows_b => DifferenceKind::RowCount,
        true => DifferenceKind::RowValues,
    }
}

//! Builds transactions from pieces, and writes a line for each.

use std::collections::BTreeMap;
use std::sync::Arc;

use binlog::events::{CommitStamps, LogicalClock, PayloadCompression, RowsKind};
use binlog::{DecodeError, EventRole, GrammarLoss, GrammarStep, Table, TransactionGrammar, TransactionId};
use sql::numbers::put_u64;

use super::summary_piece::{EventRowCount, OuterEvent, PayloadFacts, SummaryPiece};
use crate::event_selection::EventSelection;
use crate::events_table::put_escaped;
use crate::json::writer::{JsonObject, put_moment, put_moment_us};

/// Format of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SummaryFormat {
    Table,
    Json,
}

/// Header line of the table.
pub(crate) const HEADER_LINE: &[u8] =
    b"Gtid\tLog_name\tPos\tEnd_pos\tTime\tKind\tRows\tBytes\tCompression\tUncompressed_bytes\tTables\n";

/// Builds transactions from pieces, in order.
pub(crate) struct SummaryBuilder<'s> {
    select: &'s EventSelection,
    shape: SummaryFormat,
    grammar: TransactionGrammar,
    open: Option<TransactionSummary>,
    /// A transaction whose payload event was read, while events inside it may follow.
    ended: Option<TransactionSummary>,
}

/// Contents of a transaction's line.
struct TransactionSummary {
    first: OuterEvent,
    end: u64,
    /// Size of the transaction's events in the log, in bytes.
    size: u64,
    events: u64,
    /// Outcome of the transaction.
    kind: &'static str,
    clock: Option<LogicalClock>,
    stamps: Option<CommitStamps>,
    payload: Option<PayloadFacts>,
    inner_events: u64,
    /// Size of the events inside the transaction's payload, in bytes.
    inner_size: u64,
    tables: RowCountsByTable,
    /// True if the transaction has a statement that passes the filter by database.
    has_selected_statement: bool,
    error: Option<Box<DecodeError>>,
}

/// Database and name of a table.
type SummaryTableName = (Box<[u8]>, Box<[u8]>);

/// Number of changed rows, by table.
#[derive(Default)]
struct RowCountsByTable {
    counts: BTreeMap<SummaryTableName, SummaryRowCounts>,
    /// The last table, kept because most events change the same table as the previous event.
    last: Option<(Arc<Table>, SummaryRowCounts)>,
}

/// Number of changed rows, by kind of change.
#[derive(Clone, Copy, Debug, Default)]
struct SummaryRowCounts {
    inserted: u64,
    updated: u64,
    deleted: u64,
}

impl<'s> SummaryBuilder<'s> {
    /// Creates a builder without an open transaction.
    pub(crate) fn new(select: &'s EventSelection, shape: SummaryFormat) -> Self {
        Self { select, shape, grammar: TransactionGrammar::new(), open: None, ended: None }
    }

    /// Adds pieces, and writes the transactions that they end.
    pub(crate) fn take(&mut self, pieces: Vec<SummaryPiece>, out: &mut Vec<u8>) {
        for mut piece in pieces {
            match piece.outer.take() {
                Some(outer) => self.process_outer(outer, piece, out),
                None => self.process_inner(piece),
            }
        }
    }

    /// Writes the transactions that are still open at the end.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let (ended, open) = (self.ended.take(), self.open.take());
        for mut summary in [ended, open].into_iter().flatten() {
            self.write(&mut summary, out);
        }
    }

    fn process_outer(&mut self, outer: OuterEvent, piece: SummaryPiece, out: &mut Vec<u8>) {
        if let Some(mut ended) = self.ended.take() {
            self.write(&mut ended, out);
        }
        let step = match self.grammar.step(piece.role) {
            Ok(step) => step,
            Err(fault) => {
                if fault.lost == GrammarLoss::Transaction
                    && let Some(mut unfinished) = self.open.take()
                {
                    self.write(&mut unfinished, out);
                }
                fault.step
            }
        };
        if step == GrammarStep::OUTSIDE {
            return;
        }
        let is_payload = piece.payload.is_some();
        let role = piece.role;
        let open = self.open.get_or_insert_with(|| TransactionSummary::new(&outer));
        open.add(&outer, piece);
        if step.transaction.is_last()
            && let Some(mut summary) = self.open.take()
        {
            summary.kind = kind_of_last(role);
            match is_payload {
                true => self.ended = Some(summary),
                false => self.write(&mut summary, out),
            }
        }
    }

    /// Adds an event inside the last payload.
    fn process_inner(&mut self, piece: SummaryPiece) {
        let Some(summary) = self.ended.as_mut().or(self.open.as_mut()) else { return };
        summary.inner_events += 1;
        summary.inner_size += u64::from(piece.size);
        summary.kind = kind_of_last(piece.role);
        summary.add_changes(piece);
    }

    fn write(&self, summary: &mut TransactionSummary, out: &mut Vec<u8>) {
        summary.tables.flush_last();
        let has_selected = !summary.tables.counts.is_empty() || summary.has_selected_statement;
        let is_filtered = self.select.filters_rows() || !self.select.tables.selects_all();
        if !summary.first.is_selected || (is_filtered && !has_selected) {
            return;
        }
        match self.shape {
            SummaryFormat::Table => summary.put_row(out),
            SummaryFormat::Json => summary.put_json(out),
        }
        out.push(b'\n');
    }
}

const fn kind_of_last(role: EventRole) -> &'static str {
    match role {
        EventRole::Commit => "committed",
        EventRole::Rollback => "rolled back",
        EventRole::XaPrepare => "XA prepared",
        EventRole::XaFinish => "XA finished",
        EventRole::Incident => "incident",
        EventRole::Statement | EventRole::LoadEnd | EventRole::RowsEnd => "statement",
        _ => "open",
    }
}

impl TransactionSummary {
    fn new(first: &OuterEvent) -> Self {
        Self {
            first: first.clone(),
            end: first.end,
            size: 0,
            events: 0,
            kind: "open",
            clock: None,
            stamps: None,
            payload: None,
            inner_events: 0,
            inner_size: 0,
            tables: RowCountsByTable::default(),
            has_selected_statement: false,
            error: None,
        }
    }

    fn add(&mut self, outer: &OuterEvent, piece: SummaryPiece) {
        self.end = outer.end;
        self.size += u64::from(piece.size);
        self.events += 1;
        if let Some(start) = &piece.start {
            (self.clock, self.stamps) = (start.clock, start.stamps);
        }
        self.payload = self.payload.or(piece.payload);
        self.add_changes(piece);
    }

    fn add_changes(&mut self, piece: SummaryPiece) {
        if let Some(change) = piece.rows {
            self.tables.add(&change);
        }
        self.has_selected_statement |= piece.is_selected_statement;
        if self.error.is_none() {
            self.error = piece.error;
        }
    }

    fn rows(&self) -> u64 {
        self.tables.counts.values().map(SummaryRowCounts::sum).sum()
    }

    fn id(&self) -> TransactionId {
        self.first.id.unwrap_or(TransactionId::Unsaid)
    }

    /// Returns the commit time in microseconds since 1970, if known.
    fn commit_us(&self) -> Option<u64> {
        self.stamps.map(|stamps| stamps.immediate_commit_us).filter(|micros| *micros != 0)
    }

    fn put_row(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.id().to_string().as_bytes());
        out.push(b'\t');
        put_escaped(out, self.first.log_name.as_bytes());
        for number in [self.first.position, self.end] {
            out.push(b'\t');
            put_u64(out, number);
        }
        out.push(b'\t');
        match self.commit_us() {
            Some(micros) => put_moment_us(out, micros),
            None => put_moment(out, u64::from(self.first.timestamp)),
        }
        out.extend_from_slice(b"Z\t");
        out.extend_from_slice(self.kind.as_bytes());
        for number in [self.rows(), self.size] {
            out.push(b'\t');
            put_u64(out, number);
        }
        match &self.payload {
            None => out.extend_from_slice(b"\t-\t-\t"),
            Some(payload) => {
                out.push(b'\t');
                out.extend_from_slice(payload.compression.name().as_bytes());
                out.push(b'\t');
                put_u64(out, self.inner_size);
                out.push(b'\t');
            }
        }
        let mut separator: &[u8] = b"";
        for ((database, table), counts) in &self.tables.counts {
            out.extend_from_slice(separator);
            put_escaped(out, database);
            out.push(b'.');
            put_escaped(out, table);
            for (sign, count) in [(b" +", counts.inserted), (b" ~", counts.updated), (b" -", counts.deleted)]
            {
                if count > 0 {
                    out.extend_from_slice(sign);
                    put_u64(out, count);
                }
            }
            separator = b", ";
        }
    }

    fn put_json(&self, out: &mut Vec<u8>) {
        let mut line = JsonObject::open(out);
        line.text("gtid", self.id().to_string());
        line.text("log_name", self.first.log_name.as_bytes());
        line.uint("pos", self.first.position);
        line.uint("end_pos", self.end);
        line.uint("timestamp", self.first.timestamp);
        match self.commit_us() {
            Some(micros) => line.time_us("time", micros),
            None => line.time("time", u64::from(self.first.timestamp)),
        }
        if let Some(stamps) = &self.stamps {
            line.uint("original_commit_timestamp", stamps.original_commit_us);
            line.uint("immediate_commit_timestamp", stamps.immediate_commit_us);
        }
        line.uint("server_id", self.first.server_id);
        line.plain("kind", self.kind);
        if let Some(clock) = &self.clock {
            line.int("last_committed", clock.last_committed);
            line.int("sequence_number", clock.sequence_number);
        }
        line.uint("events", self.events);
        line.uint("bytes", self.size);
        if let Some(payload) = &self.payload {
            let mut object = line.object("payload");
            match payload.compression {
                PayloadCompression::Unknown(code) => object.uint("compression", code),
                known => object.plain("compression", known.name()),
            }
            object.uint("bytes", payload.size);
            object.uint("uncompressed_bytes", self.inner_size);
            object.uint("events", self.inner_events);
            object.close();
        }
        line.uint("rows", self.rows());
        let mut tables = line.array("tables");
        for ((database, table), counts) in &self.tables.counts {
            let mut object = tables.object();
            object.text_or_bytes("database", database);
            object.text_or_bytes("table", table);
            object.uint("inserted", counts.inserted);
            object.uint("updated", counts.updated);
            object.uint("deleted", counts.deleted);
            object.close();
        }
        tables.close();
        if let Some(error) = &self.error {
            line.text("error", error.to_string());
        }
        line.close();
    }
}

impl RowCountsByTable {
    fn add(&mut self, change: &EventRowCount) {
        match &mut self.last {
            Some((table, counts)) if Arc::ptr_eq(table, &change.table) => counts.add(change),
            _ => {
                self.flush_last();
                let mut counts = SummaryRowCounts::default();
                counts.add(change);
                self.last = Some((Arc::clone(&change.table), counts));
            }
        }
    }

    /// Adds the counts of the last table to the counts of all tables.
    fn flush_last(&mut self) {
        if let Some((table, counts)) = self.last.take() {
            let all = self.counts.entry((table.database.clone(), table.name.clone())).or_default();
            all.inserted += counts.inserted;
            all.updated += counts.updated;
            all.deleted += counts.deleted;
        }
    }
}

impl SummaryRowCounts {
    const fn add(&mut self, change: &EventRowCount) {
        match change.kind {
            RowsKind::Write => self.inserted += change.rows,
            RowsKind::Update | RowsKind::PartialUpdate => self.updated += change.rows,
            RowsKind::Delete => self.deleted += change.rows,
        }
    }

    const fn sum(&self) -> u64 {
        self.inserted + self.updated + self.deleted
    }
}

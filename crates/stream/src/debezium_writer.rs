//! Debezium's envelope: records of changes, of DDL statements, and of the start and end of transactions.
//!
//! The format is that of its MySQL connector in JSON without schemas, with `provide.transaction.metadata` on. The field
//! `resume` at a transaction's end is ours.

use std::ops::Range;

use binlog::events::RowsKind;
use binlog::{RowChange, RowImage};
use sql::numbers::{put_u32, put_u64};

use crate::broker_sink::KeyedRecordKind;
use crate::change::{
    ChangedRow, DdlRecord, EventCoordinates, FollowedSchema, RowNumber, TransactionMetadata,
};
use crate::ddl_schema::put_changes;
use crate::error::CorruptEvent;
use crate::json_writer::{put_string, put_token};
use crate::record_index::{OtherKeyBounds, RecordIndex, RecordKeys};
use crate::record_sink::RecordSink;
use crate::resume_token::ResumeToken;
use crate::table_plan::{MessageKeyColumn, TablePlan};
use crate::value::debezium::{put, put_json};
use crate::value::{FieldValue, ValueBuffers, value_of};

/// Writer of Debezium's records.
#[derive(Clone, Debug)]
pub(crate) struct DebeziumWriter {
    /// `{"version":…,"connector":…,"name":…`
    source: Vec<u8>,
    /// Identifier of the open transaction, in quotes; empty before its first record.
    id: Vec<u8>,
    /// Bytes between a row's images and its index, the same for all rows of an event.
    front: Vec<u8>,
    /// Bytes between its index and its order in the transaction, the same for all rows of an event.
    middle: Vec<u8>,
    record_end: RecordEnd,
    /// Index of the current event's table in the transaction.
    table: usize,
    buffers: ValueBuffers,
}

/// End of a record, with the time at which it is written.
#[derive(Clone, Debug, Default)]
struct RecordEnd {
    /// Nanoseconds since 1970.
    now_ns: u64,
    bytes: Vec<u8>,
}

/// Source block of a record, up to the index of the row.
struct SourceBlock<'s> {
    database: &'s str,
    /// `None` for a statement on a database.
    table: Option<&'s str>,
    head: &'s TransactionMetadata,
    at: &'s EventCoordinates<'s>,
    /// Time of the change, in microseconds since 1970.
    when_us: u64,
}

/// Result of ending a transaction: an END record, or none for a transaction without a BEGIN record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndRecord {
    Written,
    Omitted,
}

/// Operation on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DebeziumOp {
    Create,
    Update,
    Delete,
}

impl DebeziumWriter {
    /// Creates a writer. `name` is Debezium's topic prefix, `version` the program's version.
    pub(crate) fn new(name: &str, version: &str) -> Self {
        let mut source = b"{\"version\":".to_vec();
        put_string(&mut source, version);
        source.extend_from_slice(b",\"connector\":\"mysql\",\"name\":");
        put_string(&mut source, name);
        Self {
            source,
            id: Vec::new(),
            front: Vec::new(),
            middle: Vec::new(),
            record_end: RecordEnd::default(),
            table: 0,
            buffers: ValueBuffers::default(),
        }
    }

    /// Writes the BEGIN record of the transaction, unless it was written already.
    pub(crate) fn begin(
        &mut self,
        output: &mut RecordSink,
        head: &TransactionMetadata,
        at: &EventCoordinates<'_>,
    ) {
        if !self.id.is_empty() {
            return;
        }
        self.resume(head, at);
        let out = &mut output.bytes;
        out.extend_from_slice(b"{\"status\":\"BEGIN\",\"id\":");
        out.extend_from_slice(&self.id);
        out.extend_from_slice(b",\"event_count\":null,\"data_collections\":null,\"ts_ms\":");
        put_u64(out, at.commit_time_us(head) / 1000);
        out.extend_from_slice(b"}\n");
        self.index_boundary(output);
    }

    /// Continues a transaction whose BEGIN record is written.
    pub(crate) fn resume(&mut self, head: &TransactionMetadata, at: &EventCoordinates<'_>) {
        if !self.id.is_empty() {
            return;
        }
        match &head.gtid {
            Some(gtid) => put_string(&mut self.id, gtid),
            None => put_string(&mut self.id, &format!("file={},pos={}", at.log, at.position)),
        }
    }

    /// Indexes the BEGIN or END record of the transaction.
    fn index_boundary(&self, output: &mut RecordSink) {
        let end = output.bytes.len();
        if let Some(index) = output.index() {
            let keys = index.put_key("id", &self.id);
            index.push(KeyedRecordKind::Transaction, keys, end);
        }
    }

    /// Writes the END record, if the transaction has a BEGIN record. `token` resumes a run after the transaction.
    pub(crate) fn end(
        &mut self,
        output: &mut RecordSink,
        head: &TransactionMetadata,
        at: &EventCoordinates<'_>,
        token: &ResumeToken,
    ) -> EndRecord {
        if self.id.is_empty() {
            return EndRecord::Omitted;
        }
        let out = &mut output.bytes;
        out.extend_from_slice(b"{\"status\":\"END\",\"id\":");
        out.extend_from_slice(&self.id);
        out.extend_from_slice(b",\"event_count\":");
        put_u64(out, head.rows);
        out.extend_from_slice(b",\"data_collections\":[");
        for (index, (table, rows)) in head.rows_by_table.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"{" } else { b",{" });
            out.extend_from_slice(b"\"data_collection\":");
            put_string(out, table);
            out.extend_from_slice(b",\"event_count\":");
            put_u64(out, *rows);
            out.push(b'}');
        }
        out.extend_from_slice(b"],\"ts_ms\":");
        put_u64(out, at.commit_time_us(head) / 1000);
        out.extend_from_slice(b",\"resume\":");
        put_token(out, token);
        out.extend_from_slice(b"}\n");
        self.index_boundary(output);
        self.id.clear();
        EndRecord::Written
    }

    /// Prepares for the rows of one event, all of this table.
    pub(crate) fn begin_rows(
        &mut self,
        plan: &TablePlan,
        head: &mut TransactionMetadata,
        at: &EventCoordinates<'_>,
    ) {
        self.table = head.table_number(&plan.name);
        let RecordEnd { now_ns, bytes } = &mut self.record_end;
        if *now_ns != at.now_ns || bytes.is_empty() {
            *now_ns = at.now_ns;
            bytes.clear();
            put_times(bytes, at.now_ns);
            bytes.extend_from_slice(b"}\n");
        }
        self.front.clear();
        let mut front = std::mem::take(&mut self.front);
        front.extend_from_slice(b",\"source\":");
        let (database, table) = (&plan.database, Some(&*plan.table));
        let when_us = at.commit_time_us(head);
        self.put_source(&mut front, &SourceBlock { database, table, head, at, when_us });
        self.front = front;
        self.middle.clear();
        put_thread_and_query(&mut self.middle, head);
        self.middle.extend_from_slice(b"},\"transaction\":{\"id\":");
        self.middle.extend_from_slice(&self.id);
        self.middle.extend_from_slice(b",\"total_order\":");
    }

    /// Writes a row of the prepared event. An update of the primary key becomes a delete and an insert.
    pub(crate) fn write_row(
        &mut self,
        output: &mut RecordSink,
        head: &mut TransactionMetadata,
        change: &ChangedRow<'_, '_>,
    ) -> Result<(), CorruptEvent> {
        match change.kind {
            RowsKind::Write => self.write_record(output, head, change, DebeziumOp::Create),
            RowsKind::Delete => self.write_record(output, head, change, DebeziumOp::Delete),
            RowsKind::Update | RowsKind::PartialUpdate if changes_primary_key(change) => {
                self.write_record(output, head, change, DebeziumOp::Delete)?;
                self.write_record(output, head, change, DebeziumOp::Create)
            }
            RowsKind::Update | RowsKind::PartialUpdate => {
                self.write_record(output, head, change, DebeziumOp::Update)
            }
        }
    }

    /// Counts the records of a row that are written already.
    pub(crate) fn skip_row(&self, head: &mut TransactionMetadata, change: &ChangedRow<'_, '_>) {
        head.count_row(self.table);
        if matches!(change.kind, RowsKind::Update | RowsKind::PartialUpdate) && changes_primary_key(change) {
            head.count_row(self.table);
        }
    }

    fn write_record(
        &mut self,
        output: &mut RecordSink,
        head: &mut TransactionMetadata,
        change: &ChangedRow<'_, '_>,
        op: DebeziumOp,
    ) -> Result<(), CorruptEvent> {
        output.put_whole(|output| self.put_record(output, head, change, op))
    }

    fn put_record(
        &mut self,
        output: &mut RecordSink,
        head: &mut TransactionMetadata,
        change: &ChangedRow<'_, '_>,
        op: DebeziumOp,
    ) -> Result<(), CorruptEvent> {
        let out = &mut output.bytes;
        out.extend_from_slice(b"{\"before\":");
        match &change.row.before {
            Some(image) if op != DebeziumOp::Create => self.write_image(out, change, image)?,
            _ => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"after\":");
        match &change.row.after {
            Some(image) if op != DebeziumOp::Delete => self.write_image(out, change, image)?,
            _ => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(&self.front);
        put_u64(out, change.index);
        out.extend_from_slice(&self.middle);
        let RowNumber { in_transaction, in_table } = head.count_row(self.table);
        put_u64(out, in_transaction);
        out.extend_from_slice(b",\"data_collection_order\":");
        put_u64(out, in_table);
        out.extend_from_slice(match op {
            DebeziumOp::Create => b"},\"op\":\"c\"",
            DebeziumOp::Update => b"},\"op\":\"u\"",
            DebeziumOp::Delete => b"},\"op\":\"d\"",
        });
        out.extend_from_slice(&self.record_end.bytes);
        let end = output.bytes.len();
        match output.index() {
            Some(index) => self.index_row(index, change, op, end),
            None => Ok(()),
        }
    }

    /// Indexes a row's record, which ends at `end`. A delete has a tombstone after it.
    fn index_row(
        &mut self,
        index: &mut RecordIndex,
        change: &ChangedRow<'_, '_>,
        op: DebeziumOp,
        end: usize,
    ) -> Result<(), CorruptEvent> {
        let [old, new] = [&change.row.before, &change.row.after];
        let (own, other, header) = match op {
            DebeziumOp::Delete => (old, new, "__debezium.newkey"),
            DebeziumOp::Create | DebeziumOp::Update => (new, old, "__debezium.oldkey"),
        };
        let key = self.put_key(&mut index.keys, change, [own.as_ref(), other.as_ref()])?;
        let mut other_key = None;
        if op != DebeziumOp::Update
            && other.is_some()
            && let Some(key) = self.put_key(&mut index.keys, change, [other.as_ref(), own.as_ref()])?
        {
            other_key = Some(OtherKeyBounds { header, key });
        }
        let (kind, keys) = (&change.plan.kind, RecordKeys { key, other_key });
        index.push(kind.clone(), keys.clone(), end);
        if op == DebeziumOp::Delete && keys.key.is_some() {
            index.push_tombstone(kind.clone(), keys);
        }
        Ok(())
    }

    /// Appends the key of a row; `None` if its table has no primary key. A column that the first image lacks is in the
    /// second one.
    fn put_key(
        &mut self,
        out: &mut Vec<u8>,
        change: &ChangedRow<'_, '_>,
        images: [Option<&RowImage<'_, '_>>; 2],
    ) -> Result<Option<Range<usize>>, CorruptEvent> {
        let start = out.len();
        out.push(b'{');
        for MessageKeyColumn { column, plan } in &*change.plan.key {
            let field = images.iter().flatten().find_map(|image| image.field(*column));
            let Some(field) = field else { continue };
            if out.len() > start + 1 {
                out.push(b',');
            }
            out.extend_from_slice(&plan.label);
            put(out, plan, &field.value()?, &mut self.buffers)?;
        }
        out.push(b'}');
        Ok((out.len() > start + 2).then_some(start..out.len()))
    }

    fn write_image(
        &mut self,
        out: &mut Vec<u8>,
        change: &ChangedRow<'_, '_>,
        image: &RowImage<'_, '_>,
    ) -> Result<(), CorruptEvent> {
        out.push(b'{');
        let mut is_first = true;
        for field in image.fields() {
            let column = &change.plan.columns[field.index()];
            if column.is_excluded {
                continue;
            }
            let start = out.len();
            if !is_first {
                out.push(b',');
            }
            out.extend_from_slice(&column.label);
            let value_start = out.len();
            match value_of(change.row, &field)? {
                FieldValue::Value(value) => put(out, column, &value, &mut self.buffers)?,
                FieldValue::Document(document) => put_json(out, &document, &mut self.buffers)?,
                FieldValue::Unknown => {
                    out.truncate(start);
                    continue;
                }
            }
            if let Some(mask) = &column.mask {
                mask.apply(out, value_start);
            }
            is_first = false;
        }
        out.push(b'}');
        Ok(())
    }

    /// Writes a DDL statement.
    pub(crate) fn write_definition(
        &mut self,
        output: &mut RecordSink,
        definition: &DdlRecord<'_>,
        head: &TransactionMetadata,
        at: &EventCoordinates<'_>,
    ) {
        let out = &mut output.bytes;
        // Debezium writes whole milliseconds here.
        let when_us = at.commit_time_us(head) / 1000 * 1000;
        out.extend_from_slice(b"{\"source\":");
        let DdlRecord { database, table, .. } = *definition;
        self.put_source(out, &SourceBlock { database, table, head, at, when_us });
        out.extend_from_slice(b"0,\"thread\":null,\"query\":null},\"ts_ms\":");
        put_u64(out, at.now_ns / 1_000_000);
        out.extend_from_slice(b",\"databaseName\":");
        put_string(out, definition.database);
        out.extend_from_slice(b",\"schemaName\":null,\"ddl\":");
        put_string(out, definition.sql);
        out.extend_from_slice(b",\"tableChanges\":");
        match definition.schema {
            Some(FollowedSchema { changes, after }) => {
                // An ALTER TABLE is recorded whatever it changes, a CREATE INDEX is not.
                let is_alter = definition.sql.trim_start().get(..5);
                let is_alter = is_alter.is_some_and(|word| word.eq_ignore_ascii_case("ALTER"));
                let named = definition.table.filter(|_| is_alter);
                let named = named.map(|table| [definition.database, table]);
                put_changes(out, changes, after, named);
            }
            None => out.extend_from_slice(b"[]"),
        }
        out.extend_from_slice(b"}\n");
        let end = output.bytes.len();
        if let Some(index) = output.index() {
            let mut name = Vec::new();
            put_string(&mut name, definition.database);
            let keys = index.put_key("databaseName", &name);
            index.push(KeyedRecordKind::Definition, keys, end);
        }
    }

    fn put_source(&self, out: &mut Vec<u8>, block: &SourceBlock<'_>) {
        let SourceBlock { database, table, head, at, when_us } = *block;
        out.extend_from_slice(&self.source);
        out.extend_from_slice(b",\"ts_ms\":");
        put_u64(out, when_us / 1000);
        out.extend_from_slice(b",\"snapshot\":\"false\",\"db\":");
        put_string(out, database);
        out.extend_from_slice(b",\"sequence\":null,\"ts_us\":");
        put_u64(out, when_us);
        out.extend_from_slice(b",\"ts_ns\":");
        put_u64(out, when_us.saturating_mul(1000));
        out.extend_from_slice(b",\"table\":");
        put_optional(out, table);
        out.extend_from_slice(b",\"server_id\":");
        put_u32(out, at.server_id);
        out.extend_from_slice(b",\"gtid\":");
        put_optional(out, head.gtid.as_deref());
        out.extend_from_slice(b",\"file\":");
        put_string(out, at.log);
        out.extend_from_slice(b",\"pos\":");
        put_u64(out, at.position);
        out.extend_from_slice(b",\"row\":");
    }
}

fn put_thread_and_query(out: &mut Vec<u8>, head: &TransactionMetadata) {
    out.extend_from_slice(b",\"thread\":");
    match head.thread {
        Some(thread) => put_u32(out, thread),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"query\":");
    put_optional(out, head.query.as_deref());
}

fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => put_string(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

/// Writes the times of writing.
pub(crate) fn put_times(out: &mut Vec<u8>, now_ns: u64) {
    let times: [(&[u8], u64); 3] =
        [(b",\"ts_ms\":", now_ns / 1_000_000), (b",\"ts_us\":", now_ns / 1000), (b",\"ts_ns\":", now_ns)];
    for (label, number) in times {
        out.extend_from_slice(label);
        put_u64(out, number);
    }
}

/// Returns whether an update changes the primary key.
fn changes_primary_key(change: &ChangedRow<'_, '_>) -> bool {
    let RowChange { before: Some(before), after: Some(after) } = change.row else { return false };
    change.plan.key.iter().any(|key| match (before.field(key.column), after.field(key.column)) {
        (Some(before), Some(after)) => before.bytes() != after.bytes(),
        _ => false,
    })
}

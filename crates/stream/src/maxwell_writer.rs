//! Maxwell's envelope: records of changes and of DDL statements.
//!
//! The format has Maxwell's optional fields for positions, GTIDs, servers, threads and the offset in a transaction. The
//! field `resume` of a transaction's last record is ours.

use binlog::events::{Rows, RowsKind};
use binlog::{RowChange, RowField, RowImage, Value};
use sql::numbers::{put_u32, put_u64};

use crate::change::{ChangedRow, DdlRecord, DdlVerb, EventCoordinates, TransactionMetadata};
use crate::error::{CorruptEvent, EventError, StreamError};
use crate::json_document::put_document;
use crate::json_writer::{put_escaped, put_string};
use crate::record_sink::RecordSink;
use crate::resume_token::ResumeToken;
use crate::table_plan::TablePlan;
use crate::transaction_buffer::{
    BufferedItem, BufferedRows, MoreRows, PreparedTable, TransactionBuffer, put_resume,
};
use crate::value::maxwell::put;
use crate::value::{FieldValue, ValueBuffers, value_of};

/// Writer of Maxwell's records. It buffers them until the end of the transaction, which contains its xid.
#[derive(Debug, Default)]
pub(crate) struct MaxwellWriter {
    buffer: TransactionBuffer,
    /// Bytes before the xid, the same for all rows of an event.
    front: Vec<u8>,
    /// Bytes between the xid and the row's values, the same for all rows of an event.
    middle: Vec<u8>,
    buffers: ValueBuffers,
}

impl MaxwellWriter {
    /// Buffers the rows of an event.
    pub(crate) fn push_rows(
        &mut self,
        rows: &Rows<'_>,
        prepared: &PreparedTable,
        head: &mut TransactionMetadata,
        at: &EventCoordinates<'_>,
    ) -> Result<(), EventError> {
        let count = prepared.decoder.count(rows)?;
        if count == 0 {
            return Ok(());
        }
        head.rows += count;
        self.prepare_rows(&prepared.plan, rows.kind, head, at);
        let (offset, front, middle) = (at.offset, self.front.as_slice(), self.middle.as_slice());
        let waiting = BufferedRows { offset, front, middle, rows: *rows, count };
        self.buffer.push_rows(&waiting, prepared).map_err(|error| EventError::Error(error.into()))
    }

    fn prepare_rows(
        &mut self,
        plan: &TablePlan,
        kind: RowsKind,
        head: &TransactionMetadata,
        at: &EventCoordinates<'_>,
    ) {
        let Self { front, middle, .. } = self;
        front.clear();
        front.push(b'{');
        put_names(front, &plan.database, Some(&plan.table));
        if let Some(query) = &head.query {
            front.extend_from_slice(b",\"query\":");
            put_string(front, query);
        }
        front.extend_from_slice(match kind {
            RowsKind::Write => b",\"type\":\"insert\",\"ts\":",
            RowsKind::Delete => b",\"type\":\"delete\",\"ts\":",
            RowsKind::Update | RowsKind::PartialUpdate => b",\"type\":\"update\",\"ts\":",
        });
        put_u32(front, at.timestamp);
        middle.clear();
        put_position(middle, at);
        put_gtid(middle, head);
        middle.extend_from_slice(b",\"server_id\":");
        put_u32(middle, at.server_id);
        if let Some(thread) = head.thread {
            middle.extend_from_slice(b",\"thread_id\":");
            put_u32(middle, thread);
        }
        middle.extend_from_slice(b",\"data\":{");
    }

    /// Ends the transaction: writes its records with its xid, if it has one. `log` is the name of its log, `token`
    /// resumes a run after it.
    pub(crate) fn end(
        &mut self,
        output: &mut RecordSink,
        xid: Option<u64>,
        log: &str,
        token: &ResumeToken,
    ) -> Result<(), StreamError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut number = MaxwellRowNumber { xid, offset: 0, last: None };
        let Self { buffer: held, buffers, .. } = self;
        held.release(|waiting| match waiting {
            BufferedItem::Rows(waiting, prepared, followed) => {
                number.last = if *followed == MoreRows::Yes { None } else { Some(waiting.count - 1) };
                let written = put_rows(output, waiting, prepared, &mut number, buffers);
                written.map_err(|refusal| refusal.at(log, waiting.offset))
            }
            BufferedItem::Record(record) => {
                output.bytes.extend_from_slice(record);
                Ok(())
            }
        })?;
        put_resume(&mut output.bytes, token);
        Ok(output.drain_if_full()?)
    }

    /// Buffers the record of a DDL statement on a table or a database.
    pub(crate) fn push_definition(
        &mut self,
        definition: &DdlRecord<'_>,
        head: &TransactionMetadata,
        at: &EventCoordinates<'_>,
    ) -> Result<(), StreamError> {
        let (verb, thing) = match (definition.verb, definition.table) {
            (DdlVerb::Truncate, _) => return Ok(()),
            (DdlVerb::Create, Some(_)) => ("create", "table"),
            (DdlVerb::Alter, Some(_)) => ("alter", "table"),
            (DdlVerb::Drop, Some(_)) => ("drop", "table"),
            (DdlVerb::Create, None) => ("create", "database"),
            (DdlVerb::Alter, None) => ("alter", "database"),
            (DdlVerb::Drop, None) => ("drop", "database"),
        };
        let mut record = format!("{{\"type\":\"{thing}-{verb}\",").into_bytes();
        let out = &mut record;
        put_names(out, definition.database, definition.table);
        out.extend_from_slice(b",\"ts\":");
        put_u64(out, u64::from(at.timestamp) * 1000);
        out.extend_from_slice(b",\"sql\":");
        put_string(out, definition.sql);
        put_position(out, at);
        put_gtid(out, head);
        out.extend_from_slice(b"}\n");
        Ok(self.buffer.push_record(&record)?)
    }
}

/// Xid, and number of the current row in the transaction.
#[derive(Clone, Copy, Debug)]
struct MaxwellRowNumber {
    xid: Option<u64>,
    /// Number of the row in the transaction, from 0.
    offset: u64,
    /// Index in its event of the transaction's last row, if this event contains it.
    last: Option<u64>,
}

fn put_rows(
    output: &mut RecordSink,
    waiting: &BufferedRows<'_>,
    prepared: &PreparedTable,
    number: &mut MaxwellRowNumber,
    buffers: &mut ValueBuffers,
) -> Result<(), EventError> {
    let PreparedTable { plan, decoder } = prepared;
    for (row, index) in decoder.rows(&waiting.rows).zip(0..) {
        // Drain before the record: the last one must still be in the buffer when the transaction ends.
        output.drain_if_full().map_err(|error| EventError::Error(error.into()))?;
        let change = ChangedRow { plan, kind: waiting.rows.kind, index, row: &row? };
        output.put_whole(|output| {
            let out = &mut output.bytes;
            out.extend_from_slice(waiting.front);
            put_number(out, number, index);
            out.extend_from_slice(waiting.middle);
            put_values(out, &change, buffers)
        })?;
        number.offset += 1;
    }
    Ok(())
}

fn put_number(out: &mut Vec<u8>, number: &MaxwellRowNumber, index: u64) {
    if let Some(xid) = number.xid {
        out.extend_from_slice(b",\"xid\":");
        put_u64(out, xid);
    }
    if number.last == Some(index) {
        out.extend_from_slice(b",\"commit\":true");
    } else {
        out.extend_from_slice(b",\"xoffset\":");
        put_u64(out, number.offset);
    }
}

fn put_values(
    out: &mut Vec<u8>,
    change: &ChangedRow<'_, '_>,
    buffers: &mut ValueBuffers,
) -> Result<(), CorruptEvent> {
    let mut fields = FieldWriter { out, change, buffers, is_first: true };
    let RowChange { before, after } = change.row;
    match (before, after) {
        (None, Some(image)) | (Some(image), None) => fields.put_image(image)?,
        (Some(before), Some(after)) => {
            // Full images have the same columns.
            if [before, after].iter().all(|image| image.fields().len() == change.plan.columns.len()) {
                fields.put_image(after)?;
                fields.put_old(before.fields().zip(after.fields()))?;
            } else {
                fields.put_merged(before, after)?;
                fields.put_old(common_fields(before, after))?;
            }
        }
        (None, None) => {}
    }
    out.extend_from_slice(b"}}\n");
    Ok(())
}

fn put_names(out: &mut Vec<u8>, database: &str, table: Option<&str>) {
    out.extend_from_slice(b"\"database\":");
    put_string(out, database);
    if let Some(table) = table {
        out.extend_from_slice(b",\"table\":");
        put_string(out, table);
    }
}

fn put_position(out: &mut Vec<u8>, at: &EventCoordinates<'_>) {
    out.extend_from_slice(b",\"position\":");
    out.push(b'"');
    put_escaped(out, at.log.as_bytes());
    out.push(b':');
    put_u64(out, at.position);
    out.push(b'"');
}

fn put_gtid(out: &mut Vec<u8>, head: &TransactionMetadata) {
    if let Some(gtid) = &head.gtid {
        out.extend_from_slice(b",\"gtid\":");
        put_string(out, gtid);
    }
}

/// Writer of the columns of a row, as fields of a JSON object.
struct FieldWriter<'w, 'c, 'a> {
    out: &'w mut Vec<u8>,
    change: &'w ChangedRow<'c, 'a>,
    buffers: &'w mut ValueBuffers,
    /// True until the object has a field: the first has no comma in front.
    is_first: bool,
}

impl FieldWriter<'_, '_, '_> {
    fn put_image(&mut self, image: &RowImage<'_, '_>) -> Result<(), CorruptEvent> {
        image.fields().try_for_each(|field| self.put_field(&field))
    }

    /// Appends the row after an update. Columns missing from that image have their value before.
    fn put_merged(
        &mut self,
        before: &RowImage<'_, '_>,
        after: &RowImage<'_, '_>,
    ) -> Result<(), CorruptEvent> {
        let mut before = before.fields().peekable();
        for field in after.fields() {
            while let Some(left_out) = before.next_if(|before| before.index() < field.index()) {
                self.put_field(&left_out)?;
            }
            before.next_if(|before| before.index() == field.index());
            self.put_field(&field)?;
        }
        before.try_for_each(|left_out| self.put_field(&left_out))
    }

    /// Starts the object of the values before the update, and appends those that it changed. Each pair is a column's
    /// value before and after. Leaves the object out if nothing changed.
    fn put_old<'d, 'a>(
        &mut self,
        pairs: impl Iterator<Item = (RowField<'d, 'a>, RowField<'d, 'a>)>,
    ) -> Result<(), CorruptEvent> {
        let start = self.out.len();
        self.out.extend_from_slice(b"},\"old\":{");
        self.is_first = true;
        for (before, after) in pairs {
            if is_changed(&before, &after) {
                self.put_field(&before)?;
            }
        }
        if self.is_first {
            self.out.truncate(start);
        }
        Ok(())
    }

    fn put_field(&mut self, field: &RowField<'_, '_>) -> Result<(), CorruptEvent> {
        let Self { out, change, buffers, is_first } = self;
        let column = &change.plan.columns[field.index()];
        let start = out.len();
        if !*is_first {
            out.push(b',');
        }
        out.extend_from_slice(&column.label);
        match value_of(change.row, field)? {
            FieldValue::Value(value) => put(out, column, &value, buffers)?,
            FieldValue::Document(document) => put_document(out, &document, &mut buffers.bytes)?,
            FieldValue::Unknown => {
                out.truncate(start);
                return Ok(());
            }
        }
        *is_first = false;
        Ok(())
    }
}

/// Returns the columns that both images have.
fn common_fields<'d, 'a>(
    before: &RowImage<'d, 'a>,
    after: &RowImage<'d, 'a>,
) -> impl Iterator<Item = (RowField<'d, 'a>, RowField<'d, 'a>)> {
    let mut after = after.fields().peekable();
    before.fields().filter_map(move |before| {
        while after.next_if(|after| after.index() < before.index()).is_some() {}
        after.next_if(|after| after.index() == before.index()).map(|after| (before, after))
    })
}

fn is_changed(before: &RowField<'_, '_>, after: &RowField<'_, '_>) -> bool {
    match after.is_partial().then(|| after.value()) {
        Some(Ok(Value::JsonChanges(changes))) => changes.iter().next().is_some(),
        _ => before.bytes() != after.bytes(),
    }
}

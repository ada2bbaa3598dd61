//! Maxwell's envelope: of changes and of definitions.
//!
//! As it writes it with its options for positions, GTIDs, servers, threads and places in a transaction on; the field
//! `resume` of a transaction's last record is ours.

use binlog::events::RowsKind;
use binlog::{Field, Image, Row, Value};

use crate::change::{At, Change, Definition, Head, Verb};
use crate::document::put_document;
use crate::error::{Error, Fault};
use crate::held::Held;
use crate::output::Output;
use crate::plan::Plan;
use crate::text::{put_integer, put_string};
use crate::value::maxwell::put;
use crate::value::{Room, Told, value_of};

/// Writes records. They wait for the transaction's end, which alone says its number.
#[derive(Debug, Default)]
pub(crate) struct Maxwell {
    held: Held,
    /// What stands in front of the transaction's number, for the rows of one event.
    front: Vec<u8>,
    /// What stands between that and the row's values.
    middle: Vec<u8>,
    room: Room,
}

impl Maxwell {
    /// Rows of this table follow, from one event.
    pub(crate) fn rows(&mut self, plan: &Plan, kind: RowsKind, head: &Head, at: &At<'_>) {
        let Self { front, middle, .. } = self;
        front.clear();
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
        put_integer(front, at.timestamp);
        middle.clear();
        put_position(middle, at);
        if let Some(gtid) = &head.gtid {
            middle.extend_from_slice(b",\"gtid\":");
            put_string(middle, gtid);
        }
        middle.extend_from_slice(b",\"server_id\":");
        put_integer(middle, at.server_id);
        if let Some(thread) = head.thread {
            middle.extend_from_slice(b",\"thread_id\":");
            put_integer(middle, thread);
        }
        middle.extend_from_slice(b",\"data\":{");
    }

    /// A row of the event that was announced.
    pub(crate) fn row(&mut self, head: &mut Head, change: &Change<'_, '_>) -> Result<(), Fault> {
        head.count(&change.plan.name);
        let out = self.held.text();
        out.push(b'{');
        out.extend_from_slice(&self.front);
        self.held.number_here();
        let Self { held, middle, room, .. } = self;
        let out = held.text();
        out.extend_from_slice(middle);
        let Row { before, after } = change.row;
        match (before, after) {
            (None, Some(image)) | (Some(image), None) => put_image(out, change, image, room)?,
            (Some(before), Some(after)) => {
                put_merged(out, change, (before, after), room)?;
                put_old(out, change, (before, after), room)?;
            }
            (None, None) => {}
        }
        out.extend_from_slice(b"}}\n");
        Ok(())
    }

    /// What came is too much to be held in memory?
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        Ok(self.held.settle()?)
    }

    /// The transaction has ended; this is its number, if it has one. `resume` is where to go on behind it.
    pub(crate) fn end(&mut self, output: &mut Output, xid: Option<u64>, resume: &str) -> Result<(), Error> {
        Ok(self.held.release(output, xid, resume)?)
    }

    /// A statement that defines a table or a database.
    pub(crate) fn definition(&mut self, definition: &Definition<'_>, at: &At<'_>) {
        let (verb, thing) = match (definition.verb, definition.table) {
            (Verb::Truncate, _) => return,
            (Verb::Create, Some(_)) => ("create", "table"),
            (Verb::Alter, Some(_)) => ("alter", "table"),
            (Verb::Drop, Some(_)) => ("drop", "table"),
            (Verb::Create, None) => ("create", "database"),
            (Verb::Alter, None) => ("alter", "database"),
            (Verb::Drop, None) => ("drop", "database"),
        };
        let out = self.held.text();
        out.extend_from_slice(format!("{{\"type\":\"{thing}-{verb}\",").as_bytes());
        put_names(out, definition.database, definition.table);
        out.extend_from_slice(b",\"ts\":");
        put_integer(out, u64::from(at.timestamp) * 1000);
        out.extend_from_slice(b",\"sql\":");
        put_string(out, definition.sql);
        put_position(out, at);
        out.extend_from_slice(b"}\n");
    }
}

fn put_names(out: &mut Vec<u8>, database: &str, table: Option<&str>) {
    out.extend_from_slice(b"\"database\":");
    put_string(out, database);
    if let Some(table) = table {
        out.extend_from_slice(b",\"table\":");
        put_string(out, table);
    }
}

fn put_position(out: &mut Vec<u8>, at: &At<'_>) {
    out.extend_from_slice(b",\"position\":");
    put_string(out, &format!("{}:{}", at.log, at.offset));
}

fn put_image(
    out: &mut Vec<u8>,
    change: &Change<'_, '_>,
    image: &Image<'_, '_>,
    room: &mut Room,
) -> Result<(), Fault> {
    let mut is_first = true;
    for field in image.fields() {
        put_field(out, change, &field, (&mut is_first, room))?;
    }
    Ok(())
}

/// The row after an update; of a column that is not in that image, as it was before.
fn put_merged(
    out: &mut Vec<u8>,
    change: &Change<'_, '_>,
    (before, after): (&Image<'_, '_>, &Image<'_, '_>),
    room: &mut Room,
) -> Result<(), Fault> {
    let (mut before, mut is_first) = (before.fields().peekable(), true);
    for field in after.fields() {
        while let Some(left_out) = before.next_if(|before| before.index() < field.index()) {
            put_field(out, change, &left_out, (&mut is_first, room))?;
        }
        before.next_if(|before| before.index() == field.index());
        put_field(out, change, &field, (&mut is_first, room))?;
    }
    for left_out in before {
        put_field(out, change, &left_out, (&mut is_first, room))?;
    }
    Ok(())
}

/// What an update changed, as it was before.
fn put_old(
    out: &mut Vec<u8>,
    change: &Change<'_, '_>,
    (before, after): (&Image<'_, '_>, &Image<'_, '_>),
    room: &mut Room,
) -> Result<(), Fault> {
    let start = out.len();
    out.extend_from_slice(b"},\"old\":{");
    let (mut after, mut is_first) = (after.fields().peekable(), true);
    for field in before.fields() {
        while after.next_if(|after| after.index() < field.index()).is_some() {}
        let changed = after.next_if(|after| after.index() == field.index());
        if changed.is_some_and(|after| is_changed(&field, &after)) {
            put_field(out, change, &field, (&mut is_first, room))?;
        }
    }
    if is_first {
        out.truncate(start);
    }
    Ok(())
}

fn is_changed(before: &Field<'_, '_>, after: &Field<'_, '_>) -> bool {
    match after.is_partial().then(|| after.value()) {
        Some(Ok(Value::JsonChanges(changes))) => changes.iter().next().is_some(),
        _ => before.bytes() != after.bytes(),
    }
}

fn put_field(
    out: &mut Vec<u8>,
    change: &Change<'_, '_>,
    field: &Field<'_, '_>,
    (is_first, room): (&mut bool, &mut Room),
) -> Result<(), Fault> {
    let column = &change.plan.columns[field.index()];
    let start = out.len();
    if !*is_first {
        out.push(b',');
    }
    out.extend_from_slice(&column.label);
    match value_of(change.row, field)? {
        Told::Value(value) => put(out, column, &value, room)?,
        Told::Document(document) => put_document(out, &document, &mut room.bytes)?,
        Told::Unknown => {
            out.truncate(start);
            return Ok(());
        }
    }
    *is_first = false;
    Ok(())
}

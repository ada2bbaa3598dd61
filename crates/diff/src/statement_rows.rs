//! Row changes of the open statement, by table and kind.

use std::sync::Arc;

use binlog::events::{ColumnSet, Rows, RowsKind};
use binlog::{DecodeError, ImageDecoder, RowChange, RowDecoder, Table, TableRegistry};

use crate::content_hash::{ContentHash, HashedBytes};
use crate::content_part::{PartBody, PartTag, RowsPart};

/// Row changes of the open statement, by table and kind.
///
/// The hash of a part does not depend on the order of its rows, nor on their distribution over events. The parts are in
/// the order of their first rows.
#[derive(Debug, Default)]
pub(crate) struct StatementRows {
    parts: Vec<OpenRowsPart>,
    buffer: HashedBytes,
}

/// Row changes of one kind and one table by the open statement.
#[derive(Debug)]
struct OpenRowsPart {
    /// Hash of the common properties of the rows: kind, names, columns.
    shape: ContentHash,
    types: ContentHash,
    column_sets: ContentHash,
    decoder: Arc<RowDecoder>,
    table: Arc<Table>,
    rows: u64,
    sum: ContentHash,
}

/// Maximum number of parts of a statement. Bounds memory: a statement with more parts is split here.
const PARTS_MAX: usize = 256;

impl StatementRows {
    /// Adds the rows of an event. If the statement has too many parts, passes them to `take`.
    pub(crate) fn add(
        &mut self,
        rows: &Rows<'_>,
        tables: &mut TableRegistry,
        take: &mut dyn FnMut(PartBody<'_>, ContentHash),
    ) -> Result<(), DecodeError> {
        let decoder = tables.decoder(rows)?;
        // Servers write rows events without columns only to end a statement.
        let Some(table) = tables.table(rows.table_id).filter(|_| rows.column_count > 0) else {
            return Ok(());
        };
        let known = self.parts.iter().rposition(|part| Arc::ptr_eq(&part.decoder, &decoder));
        let index = match known {
            Some(index) => index,
            None => {
                if self.parts.len() == PARTS_MAX {
                    self.end(take);
                }
                self.begin_part(rows, &decoder, table)
            }
        };
        let Some(part) = self.parts.get_mut(index) else { return Ok(()) };
        for row in decoder.rows(rows) {
            part.sum = part.sum.with_element(hash_row(&row?, &decoder, &mut self.buffer));
            part.rows += 1;
        }
        Ok(())
    }

    /// Ends the statement, and passes its parts to `take`.
    pub(crate) fn end(&mut self, take: &mut dyn FnMut(PartBody<'_>, ContentHash)) {
        for part in self.parts.drain(..).filter(|part| part.rows > 0) {
            self.buffer.start(PartTag::Rows);
            self.buffer.put_hash(part.shape);
            self.buffer.put_number(part.rows);
            self.buffer.put_hash(part.sum);
            let body = RowsPart {
                kind: part.decoder.kind(),
                database: &part.table.database,
                table: &part.table.name,
                rows: part.rows,
                types: part.types,
                column_sets: part.column_sets,
            };
            take(PartBody::Rows(body), self.buffer.hash());
        }
    }

    /// Drops the open statement.
    pub(crate) fn discard(&mut self) {
        self.parts.clear();
    }

    /// Returns the index of the part for these rows.
    fn begin_part(&mut self, rows: &Rows<'_>, decoder: &Arc<RowDecoder>, table: Arc<Table>) -> usize {
        let buffer = &mut self.buffer;
        buffer.clear();
        for column in &table.columns {
            buffer.put(&[column.type_code]);
            buffer.put(&column.metadata.to_le_bytes());
        }
        let types = buffer.hash();
        buffer.clear();
        for set in [Some(rows.columns), rows.columns_after].into_iter().flatten() {
            put_column_set(set, table.columns.len(), buffer);
        }
        let column_sets = buffer.hash();
        buffer.clear();
        buffer.put(&[kind_code(decoder.kind())]);
        buffer.put_sized(&table.database);
        buffer.put_sized(&table.name);
        buffer.put_hash(types);
        buffer.put_hash(column_sets);
        let shape = buffer.hash();
        if let Some(index) = self.parts.iter().rposition(|part| part.shape == shape) {
            self.parts[index].decoder = Arc::clone(decoder);
            return index;
        }
        let (decoder, sum) = (Arc::clone(decoder), ContentHash::default());
        self.parts.push(OpenRowsPart { shape, types, column_sets, decoder, table, rows: 0, sum });
        self.parts.len() - 1
    }
}

const fn kind_code(kind: RowsKind) -> u8 {
    match kind {
        RowsKind::Write => 0,
        RowsKind::Update => 1,
        RowsKind::Delete => 2,
        RowsKind::PartialUpdate => 3,
    }
}

/// Appends the bits of the table's columns. Servers set the other bits arbitrarily.
fn put_column_set(set: ColumnSet<'_>, columns: usize, buffer: &mut HashedBytes) {
    buffer.put(set.bits);
    if let ([last], used @ 1..) = (buffer.last_mut(set.bits.len().min(1)), columns % 8) {
        *last &= (1 << used) - 1;
    }
}

/// Returns the hash of a row's images.
#[inline]
fn hash_row(row: &RowChange<'_, '_>, decoder: &RowDecoder, buffer: &mut HashedBytes) -> ContentHash {
    buffer.clear();
    if let (Some(image), Some(decoder)) = (&row.before, decoder.before()) {
        put_image(image.bytes(), decoder, buffer);
    }
    match (&row.after, decoder.after()) {
        (Some(image), Some(_)) if decoder.kind() == RowsKind::PartialUpdate => {
            for field in image.fields() {
                buffer.put_number(field.index() as u64);
                buffer.put(&[u8::from(field.is_partial()), u8::from(field.bytes().is_none())]);
                buffer.put_sized(field.bytes().unwrap_or_default());
            }
        }
        (Some(image), Some(decoder)) => put_image(image.bytes(), decoder, buffer),
        _ => {}
    }
    buffer.hash()
}

/// Appends an image without the arbitrary bits after its NULL bits.
#[inline]
fn put_image(image: &[u8], decoder: &ImageDecoder, buffer: &mut HashedBytes) {
    let columns = decoder.column_count();
    let (nulls, values) = image.split_at(columns.div_ceil(8).min(image.len()));
    buffer.put(nulls);
    if let ([last], used @ 1..) = (buffer.last_mut(nulls.len().min(1)), columns % 8) {
        *last &= (1 << used) - 1;
    }
    buffer.put(values);
}

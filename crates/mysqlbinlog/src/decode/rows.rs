//! Table maps and row events.

use binlog::Flavour;
use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, RowsQuery, TableMap};

use super::EventLayout;
use super::event_cursor::EventCursor;

/// Maximum length of a database's or table's name, in bytes.
const NAME_SIZE_MAX: u64 = 192;

/// Maximum number of columns of a table.
const COLUMNS_MAX: u64 = 4096;

/// Size of the fixed part of a row event with extra fields.
const FIXED_SIZE_WITH_EXTRA: usize = 10;

/// Size of the fixed part before MySQL 5.1.4, where the table id has 4 bytes.
const FIXED_SIZE_WITH_SHORT_ID: usize = 6;

pub(super) fn table_map<'a>(fields: &mut EventCursor<'a>, sizes: EventLayout<'_>) -> Option<TableMap<'a>> {
    let table_id = table_id(fields, sizes)?;
    let flags = fields.u16()?;
    let (database, table) = (name(fields)?, name(fields)?);
    let count = fields.lenenc()?;
    let column_types = fields.take(count)?;
    let (mut metadata, mut nullable): (&[u8], &[u8]) = (&[], &[]);
    if fields.remaining() > 0 {
        let size = fields.lenenc()?;
        if size > count * 4 {
            return None;
        }
        metadata = fields.take(size)?;
        nullable = fields.take(count.div_ceil(8))?;
    }
    let optional = fields.take_rest();
    // mysqlbinlog reads every table map as MySQL's, MariaDB's too.
    let flavour = Flavour::MySql;
    Some(TableMap { table_id, flags, database, table, column_types, metadata, nullable, optional, flavour })
}

fn table_id(fields: &mut EventCursor<'_>, sizes: EventLayout<'_>) -> Option<u64> {
    match sizes.fixed_size() {
        FIXED_SIZE_WITH_SHORT_ID => fields.u32().map(u64::from),
        _ => fields.u48(),
    }
}

fn name<'a>(fields: &mut EventCursor<'a>) -> Option<&'a [u8]> {
    let size = fields.lenenc()?;
    if size > NAME_SIZE_MAX {
        return None;
    }
    let (_, name) = fields.take(size + 1)?.split_last()?;
    Some(EventCursor::until_nul(name))
}

pub(super) fn rows<'a>(fields: &mut EventCursor<'a>, sizes: EventLayout<'_>) -> Option<Rows<'a>> {
    let kind = sizes.event_type.rows_kind()?;
    let table_id = table_id(fields, sizes)?;
    let flags = RowsFlags(fields.u16()?);
    let extra = match sizes.fixed_size() {
        FIXED_SIZE_WITH_EXTRA => Some(extra(fields, kind)?),
        _ => None,
    };
    let column_count = fields.lenenc()?;
    if column_count == 0 || column_count > COLUMNS_MAX {
        return None;
    }
    let mut columns = || Some(ColumnSet { bits: fields.take(column_count.div_ceil(8))? });
    let first = columns()?;
    let columns_after = if kind.has_after() { Some(columns()?) } else { None };
    let rows = fields.take_rest();
    Some(Rows { kind, table_id, flags, extra, column_count, columns: first, columns_after, rows })
}

/// Reads the extra fields; `None` if they do not end where their size says.
fn extra<'a>(fields: &mut EventCursor<'a>, kind: RowsKind) -> Option<&'a [u8]> {
    let size = fields.u16()?;
    let start = fields.position();
    // A size below 2, which does not even count itself, stands for no fields.
    let end = start + usize::from(size).saturating_sub(2);
    while fields.position() < end {
        match fields.u8()? {
            0 => {
                let size = fields.u8()?;
                fields.seek(fields.position() - 1)?;
                fields.take(size.into())?;
            }
            1 => {
                fields.u16()?;
                if kind.has_after() {
                    fields.u16()?;
                }
            }
            _ => fields.seek(end)?,
        }
        if fields.position() > end {
            return None;
        }
    }
    Some(fields.between(start, end))
}

pub(super) fn rows_query<'a>(fields: &mut EventCursor<'a>, sizes: EventLayout<'_>) -> Option<RowsQuery<'a>> {
    fields.skip(sizes.fixed_size() + 1)?;
    Some(RowsQuery { size_low: 0, sql: fields.take_rest() })
}

//! Statements, and the events with variables for them.

use binlog::events::{
    DuplicateHandling, ExecuteLoadQuery, Intvar, IntvarKind, Query, Rand, StatusVar, StatusVars, UserVar,
    UserVarValue,
};

use super::EventLayout;
use super::event_cursor::EventCursor;

/// Maximum size of the status variables, in bytes.
const STATUS_MAX: usize = 3961;

/// Size of the fixed part without status variables, which no server writes since MySQL 5.0.
const FIXED_SIZE_OLD: usize = 11;

/// Size of the fixed part.
const FIXED_SIZE: usize = 13;

pub(super) fn query<'a>(fields: &mut EventCursor<'a>, sizes: EventLayout<'_>) -> Option<Query<'a>> {
    let after_fixed = fields.remaining().wrapping_sub(sizes.fixed_size());
    let (thread_id, exec_time) = (fields.u32()?, fields.u32()?);
    let database_size = usize::from(fields.u8()?);
    let error_code = fields.u16()?;
    if sizes.fixed_size() <= FIXED_SIZE_OLD {
        return None;
    }
    let status_size = usize::from(fields.u16()?);
    if status_size > after_fixed.min(STATUS_MAX) {
        return None;
    }
    fields.seek(sizes.format.header_size + sizes.fixed_size())?;
    let start = fields.position();
    let end = start + status_size;
    fields.seek(end)?;
    fields.skip(database_size + 1)?;
    Some(Query {
        thread_id,
        exec_time,
        error_code,
        status: StatusVars { bytes: fields.between(start, end) },
        database: EventCursor::until_nul(fields.between(end, end + database_size)),
        sql: fields.take_rest(),
    })
}

/// Calls `take` for each status variable of a statement. Stops at a variable that mysqlbinlog does not know.
pub(crate) fn for_each_status_var<'a>(status: StatusVars<'a>, take: impl FnMut(StatusVar<'a>)) {
    // The variables were checked before.
    let _ = read_status(status, take);
}

/// Returns whether a statement's status variables can be read.
pub(crate) fn status_is_valid(status: StatusVars<'_>) -> bool {
    read_status(status, |_| {}).is_some()
}

fn read_status<'a>(status: StatusVars<'a>, mut take: impl FnMut(StatusVar<'a>)) -> Option<()> {
    let fields = &mut EventCursor::new(status.bytes);
    while fields.remaining() > 0 {
        take(match fields.u8()? {
            0 => StatusVar::Flags2(fields.u32()?),
            1 => StatusVar::SqlMode(fields.u64()?),
            2 => {
                let size = fields.u8()?;
                // A name is followed by a zero byte; an empty name is not.
                let bytes = if size > 0 { fields.take(u64::from(size) + 1)? } else { &[] };
                StatusVar::Catalog(bytes.split_last().map_or(&[], |(_, catalog)| catalog))
            }
            3 => StatusVar::AutoIncrement { increment: fields.u16()?, offset: fields.u16()? },
            4 => {
                StatusVar::Charset { client: fields.u16()?, connection: fields.u16()?, server: fields.u16()? }
            }
            5 => StatusVar::TimeZone(EventCursor::until_nul(short_text(fields)?)),
            6 => StatusVar::CatalogNz(short_text(fields)?),
            7 => StatusVar::LcTimeNames(fields.u16()?),
            8 => StatusVar::CharsetDatabase(fields.u16()?),
            9 => StatusVar::TableMapForUpdate(fields.u64()?),
            11 => StatusVar::Invoker { user: short_text(fields)?, host: short_text(fields)? },
            12 => {
                skip_databases(fields)?;
                StatusVar::UpdatedDatabases(None)
            }
            13 => StatusVar::Microseconds(fields.u24()?),
            16 => StatusVar::ExplicitDefaultsForTimestamp(fields.u8()?),
            17 => StatusVar::DdlXid(fields.u64()?),
            18 => StatusVar::DefaultCollationForUtf8mb4(fields.u16()?),
            19 => StatusVar::SqlRequirePrimaryKey(fields.u8()?),
            20 => StatusVar::DefaultTableEncryption(fields.u8()?),
            21 => StatusVar::EnableCascadeTriggers(fields.u8()?),
            code => StatusVar::Unknown { code, rest: fields.take_rest() },
        });
    }
    Some(())
}

fn short_text<'a>(fields: &mut EventCursor<'a>) -> Option<&'a [u8]> {
    let size = fields.u8()?;
    fields.take(size.into())
}

/// Maximum number of databases in the list. A statement that changes more has no list.
const DATABASES_MAX: u8 = 16;

/// Maximum size of a database's name, including its zero byte.
const DATABASE_NAME_SIZE_MAX: usize = 192;

fn skip_databases(fields: &mut EventCursor<'_>) -> Option<()> {
    let count = fields.u8()?;
    if count > DATABASES_MAX {
        return Some(());
    }
    let mut found = 0;
    while found < count && fields.remaining() > 0 {
        let room = fields.remaining().min(DATABASE_NAME_SIZE_MAX);
        let bytes = fields.between(fields.position(), fields.position() + room);
        let size = match bytes.iter().position(|byte| *byte == 0) {
            Some(zero) => zero + 1,
            None if bytes.len() == DATABASE_NAME_SIZE_MAX => DATABASE_NAME_SIZE_MAX,
            None => return None,
        };
        fields.take(size as u64)?;
        found += 1;
    }
    (count > 0 && found == count).then_some(())
}

pub(super) fn load_query<'a>(
    fields: &mut EventCursor<'a>,
    sizes: EventLayout<'_>,
) -> Option<ExecuteLoadQuery<'a>> {
    let query = query(fields, sizes)?;
    fields.seek(sizes.format.header_size)?;
    fields.skip(FIXED_SIZE)?;
    let file_id = fields.u32()?;
    let (name_start, name_end) = (fields.u32()?, fields.u32()?);
    let duplicates = match fields.u8()? {
        0 => DuplicateHandling::Error,
        1 => DuplicateHandling::Ignore,
        2 => DuplicateHandling::Replace,
        _ => return None,
    };
    let size = query.sql.len() as u64;
    let is_valid = u64::from(name_start) <= size && u64::from(name_end) <= size && file_id != 0;
    is_valid.then_some(ExecuteLoadQuery { query, file_id, name_start, name_end, duplicates })
}

pub(super) fn intvar(fields: &mut EventCursor<'_>, sizes: EventLayout<'_>) -> Option<Intvar> {
    fields.skip(sizes.fixed_size())?;
    let kind = match fields.u8()? {
        1 => IntvarKind::LastInsertId,
        2 => IntvarKind::InsertId,
        code => IntvarKind::Unknown(code),
    };
    Some(Intvar { kind, value: fields.u64()? })
}

pub(super) fn rand(fields: &mut EventCursor<'_>, sizes: EventLayout<'_>) -> Option<Rand> {
    fields.skip(sizes.fixed_size())?;
    Some(Rand { seed1: fields.u64()?, seed2: fields.u64()? })
}

pub(super) fn user_var<'a>(fields: &mut EventCursor<'a>, sizes: EventLayout<'_>) -> Option<UserVar<'a>> {
    fields.skip(sizes.fixed_size())?;
    let size = fields.u32()?;
    if size == 0 {
        return None;
    }
    let name = fields.take(size.into())?;
    if fields.u8()? != 0 {
        return Some(UserVar { name, value: None });
    }
    let kind = fields.u8()?;
    if !matches!(kind, UserVarValue::STRING | UserVarValue::REAL | UserVarValue::INT | UserVarValue::DECIMAL)
    {
        return None;
    }
    let collation = fields.u32()?;
    let size = fields.u32()?;
    let bytes = fields.take(size.into())?;
    Some(UserVar { name, value: Some(UserVarValue { kind, collation, bytes, flags: fields.take_rest() }) })
}

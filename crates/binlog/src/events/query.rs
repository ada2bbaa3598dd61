//! Statement with its session variables.

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason, EncodeError, checked_number};
use crate::event::{BodyContext, EventBody};

/// Statement with its session variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Query<'a> {
    /// Connection that ran the statement.
    pub thread_id: u32,
    /// Run time in seconds.
    pub exec_time: u32,
    /// Error code of the statement; 0 for success.
    pub error_code: u16,
    /// Session variables that the statement depends on.
    pub status: StatusVars<'a>,
    /// Default database; may be empty.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub database: &'a [u8],
    /// Text of the statement as sent. Not always UTF-8.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub sql: &'a [u8],
}

/// Fixed part of a query's body, before the status variables.
pub(crate) struct QueryHead {
    pub(crate) thread_id: u32,
    pub(crate) exec_time: u32,
    pub(crate) database_size: u8,
    pub(crate) error_code: u16,
    pub(crate) status_size: u16,
}

// size  field
//    4  thread_id
//    4  exec_time
//    1  size of database
//    2  error_code
//    2  size of status variables
impl QueryHead {
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            thread_id: cursor.u32()?,
            exec_time: cursor.u32()?,
            database_size: cursor.u8()?,
            error_code: cursor.u16()?,
            status_size: cursor.u16()?,
        })
    }
}

// size  field
//    *  status variables
//    *  database
//    1  0
//    *  sql: to the end of the body
impl<'a> Query<'a> {
    /// Returns whether this is an ALTER TABLE of MariaDB that has no effect here: with `binlog_alter_two_phase`, MariaDB
    /// logs the statement when it starts, and again when it commits or is rolled back. Only its commit has an effect.
    pub fn is_unexecuted_alter(&self) -> bool {
        /// The ALTER starts.
        const START_ALTER: u8 = 2;
        /// The ALTER is rolled back.
        const ROLLBACK_ALTER: u8 = 8;
        self.status.iter().flatten().any(|variable| match variable {
            StatusVar::MariadbGtidFlags { flags, .. } => flags & (START_ALTER | ROLLBACK_ALTER) != 0,
            _ => false,
        })
    }

    pub(crate) fn decode_after(head: &QueryHead, cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let status = StatusVars { bytes: cursor.bytes(usize::from(head.status_size))? };
        let database = cursor.bytes(usize::from(head.database_size))?;
        let end = cursor.offset();
        match cursor.u8()? {
            0 => {}
            byte => {
                let (field, found) = ("end of the database's name", u64::from(byte));
                return Err(DecodeError::new(end, DecodeReason::Unexpected { field, found, expected: "0" }));
            }
        }
        Ok(Self {
            thread_id: head.thread_id,
            exec_time: head.exec_time,
            error_code: head.error_code,
            status,
            database,
            sql: cursor.take_rest(),
        })
    }

    pub(crate) fn encode_head(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let database_size =
            checked_number("size of the database's name", self.database.len() as u64, u8::MAX)?;
        let status_size =
            checked_number("size of the session variables", self.status.bytes.len() as u64, u16::MAX)?;
        out.extend_from_slice(&self.thread_id.to_le_bytes());
        out.extend_from_slice(&self.exec_time.to_le_bytes());
        out.push(database_size);
        out.extend_from_slice(&self.error_code.to_le_bytes());
        out.extend_from_slice(&status_size.to_le_bytes());
        Ok(())
    }

    pub(crate) fn encode_after(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.status.bytes);
        out.extend_from_slice(self.database);
        out.push(0);
        out.extend_from_slice(self.sql);
    }
}

impl<'a> EventBody<'a> for Query<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let head = QueryHead::decode(cursor)?;
        Self::decode_after(&head, cursor)
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_head(out)?;
        self.encode_after(out);
        Ok(())
    }
}

/// The session variables of a [`Query`], as written: [`StatusVars::iter`] decodes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusVars<'a> {
    /// Code and value of each variable.
    pub bytes: &'a [u8],
}

/// One session variable of a [`Query`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum StatusVar<'a> {
    /// 0: bits of the session's options: 0x4000 `sql_auto_is_null`, 0x80000 autocommit off, 0x4000000 foreign key
    /// checks off, 0x8000000 unique checks off.
    Flags2(u32),
    /// 1: bits of `sql_mode`.
    SqlMode(u64),
    /// 2: the catalog, followed by a zero; old servers only.
    Catalog(#[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))] &'a [u8]),
    /// 3: `auto_increment_increment` and `auto_increment_offset`.
    AutoIncrement {
        /// Increment.
        increment: u16,
        /// First value.
        offset: u16,
    },
    /// 4: collation numbers of client, connection and server.
    Charset {
        /// `character_set_client`.
        client: u16,
        /// `collation_connection`.
        connection: u16,
        /// `collation_server`.
        server: u16,
    },
    /// 5: `time_zone`.
    TimeZone(#[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))] &'a [u8]),
    /// 6: the catalog: `std`.
    CatalogNz(#[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))] &'a [u8]),
    /// 7: `lc_time_names`, by number.
    LcTimeNames(u16),
    /// 8: `collation_database`.
    CharsetDatabase(u16),
    /// 9: bits of the tables that a multi-table update changes.
    TableMapForUpdate(u64),
    /// 10: obsolete.
    MasterDataWritten(u32),
    /// 11: the account that runs the statement.
    Invoker {
        /// User name of the account.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
        user: &'a [u8],
        /// Host name of the account.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
        host: &'a [u8],
    },
    /// 12: the databases that the statement changes; `None` if there are more than 16.
    UpdatedDatabases(Option<DatabaseNames<'a>>),
    /// 13: the fraction of the statement's start time, in microseconds.
    Microseconds(u32),
    /// 14: obsolete.
    CommitTs(u64),
    /// 15: obsolete.
    CommitTs2(u64),
    /// 16: `explicit_defaults_for_timestamp`.
    ExplicitDefaultsForTimestamp(u8),
    /// 17: the XID of a DDL statement.
    DdlXid(u64),
    /// 18: `default_collation_for_utf8mb4`.
    DefaultCollationForUtf8mb4(u16),
    /// 19: `sql_require_primary_key`.
    SqlRequirePrimaryKey(u8),
    /// 20: `default_table_encryption`.
    DefaultTableEncryption(u8),
    /// 21: `enable_cascade_triggers`.
    EnableCascadeTriggers(u8),
    /// 128: MariaDB's [`StatusVar::Microseconds`].
    MariadbMicroseconds(u32),
    /// 129: MariaDB's [`StatusVar::DdlXid`].
    MariadbXid(u64),
    /// 130: more flags of MariaDB's GTID event.
    MariadbGtidFlags {
        /// As [`MariadbGtidDetails::extra_flags`](crate::events::MariadbGtidDetails::extra_flags).
        flags: u8,
        /// Sequence number of the ALTER that commits or rolls back.
        alter_sequence_number: Option<u64>,
    },
    /// 131: MariaDB, `character_set_collations`: pairs of collation numbers, two bytes each.
    MariadbCollations(
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))] &'a [u8],
    ),
    /// Code unknown to this crate. Its size is unknown, so this includes all bytes after it.
    Unknown {
        /// Code of the variable.
        code: u8,
        /// All bytes after the code.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
        rest: &'a [u8],
    },
}

/// Database names, each followed by a zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseNames<'a> {
    /// Names, each followed by a zero.
    pub bytes: &'a [u8],
}

impl<'a> DatabaseNames<'a> {
    /// Returns the names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.split_inclusive(|byte| *byte == 0).map(|name| name.strip_suffix(&[0]).unwrap_or(name))
    }
}

impl<'a> StatusVars<'a> {
    /// Decodes the variables in the order written. The iteration ends after the first error.
    pub fn iter(&self) -> impl Iterator<Item = Result<StatusVar<'a>, DecodeError>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed || cursor.is_empty() {
                return None;
            }
            let next = StatusVar::decode(&mut cursor);
            failed = next.is_err();
            Some(next)
        })
    }
}

/// Count that servers write instead of more than 16 names.
const DATABASES_TOO_MANY: u8 = 254;

impl<'a> StatusVar<'a> {
    fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        Ok(match cursor.u8()? {
            0 => Self::Flags2(cursor.u32()?),
            1 => Self::SqlMode(cursor.u64()?),
            2 => {
                let catalog = short_bytes(cursor)?;
                cursor.u8()?;
                Self::Catalog(catalog)
            }
            3 => Self::AutoIncrement { increment: cursor.u16()?, offset: cursor.u16()? },
            4 => Self::Charset { client: cursor.u16()?, connection: cursor.u16()?, server: cursor.u16()? },
            5 => Self::TimeZone(short_bytes(cursor)?),
            6 => Self::CatalogNz(short_bytes(cursor)?),
            7 => Self::LcTimeNames(cursor.u16()?),
            8 => Self::CharsetDatabase(cursor.u16()?),
            9 => Self::TableMapForUpdate(cursor.u64()?),
            10 => Self::MasterDataWritten(cursor.u32()?),
            11 => Self::Invoker { user: short_bytes(cursor)?, host: short_bytes(cursor)? },
            12 => Self::UpdatedDatabases(database_names(cursor)?),
            13 => Self::Microseconds(cursor.u24()?),
            14 => Self::CommitTs(cursor.u64()?),
            15 => Self::CommitTs2(cursor.u64()?),
            16 => Self::ExplicitDefaultsForTimestamp(cursor.u8()?),
            17 => Self::DdlXid(cursor.u64()?),
            18 => Self::DefaultCollationForUtf8mb4(cursor.u16()?),
            19 => Self::SqlRequirePrimaryKey(cursor.u8()?),
            20 => Self::DefaultTableEncryption(cursor.u8()?),
            21 => Self::EnableCascadeTriggers(cursor.u8()?),
            128 => Self::MariadbMicroseconds(cursor.u24()?),
            129 => Self::MariadbXid(cursor.u64()?),
            130 => {
                let flags = cursor.u8()?;
                let alter_sequence_number = if flags & 12 != 0 { Some(cursor.u64()?) } else { None };
                Self::MariadbGtidFlags { flags, alter_sequence_number }
            }
            131 => {
                let count = usize::from(cursor.u8()?);
                Self::MariadbCollations(cursor.bytes(4 * count)?)
            }
            code => Self::Unknown { code, rest: cursor.take_rest() },
        })
    }
}

fn short_bytes<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], DecodeError> {
    let size = usize::from(cursor.u8()?);
    cursor.bytes(size)
}

fn database_names<'a>(cursor: &mut Cursor<'a>) -> Result<Option<DatabaseNames<'a>>, DecodeError> {
    let count = cursor.u8()?;
    if count == DATABASES_TOO_MANY {
        return Ok(None);
    }
    let all = cursor.rest();
    for _ in 0..count {
        while cursor.u8()? != 0 {}
    }
    Ok(Some(DatabaseNames { bytes: &all[..all.len() - cursor.rest().len()] }))
}

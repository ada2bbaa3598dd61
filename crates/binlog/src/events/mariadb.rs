//! Events that only MariaDB writes.

use std::fmt;

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError, checked_number};
use crate::event::{BodyContext, EventBody};
use crate::events::query::{Query, QueryHead};
use crate::events::rows::Rows;
use crate::events::xa_prepare::XaXid;
use crate::mariadb;

/// GTID of MariaDB, shown as `domain-server-number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MariadbGtid {
    /// Replication domain.
    pub domain_id: u32,
    /// Originating server.
    pub server_id: u32,
    /// Sequence number in the domain.
    pub sequence_number: u64,
}

impl fmt::Display for MariadbGtid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}-{}", self.domain_id, self.server_id, self.sequence_number)
    }
}

/// Error for a text that is not a GTID of MariaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MariadbGtidError;

impl fmt::Display for MariadbGtidError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("expected a GTID of MariaDB, such as 0-1-270: domain, server_id and sequence number")
    }
}

impl std::error::Error for MariadbGtidError {}

impl std::str::FromStr for MariadbGtid {
    type Err = MariadbGtidError;

    fn from_str(text: &str) -> Result<Self, MariadbGtidError> {
        let mut parts = text.split('-');
        let mut part = || parts.next().ok_or(MariadbGtidError);
        let [domain, server, number] = [part()?, part()?, part()?];
        let (Ok(domain_id), Ok(server_id), Ok(sequence_number), None) =
            (domain.parse(), server.parse(), number.parse(), parts.next())
        else {
            return Err(MariadbGtidError);
        };
        Ok(Self { domain_id, server_id, sequence_number })
    }
}

/// Start of a transaction. The server ID is in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbGtidEvent<'a> {
    /// Sequence number in the domain.
    pub sequence_number: u64,
    /// Replication domain.
    pub domain_id: u32,
    /// Flags; see the constants of this type.
    pub flags: u8,
    /// Fields for these flags, or padding: [`MariadbGtidEvent::details`] decodes them.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub rest: &'a [u8],
}

impl MariadbGtidEvent<'_> {
    /// Flag: a single statement that commits implicitly. Without this flag, the event is the `BEGIN` of the
    /// transaction.
    pub const STANDALONE: u8 = 1;
    /// Flag: a commit ID follows.
    pub const GROUP_COMMIT: u8 = 2;
    /// Flag: the transaction can be rolled back.
    pub const TRANSACTIONAL: u8 = 4;
    /// Flag: the transaction may run in parallel with others.
    pub const ALLOW_PARALLEL: u8 = 8;
    /// Flag: the transaction waited for a lock.
    pub const WAITED: u8 = 16;
    /// Flag: the transaction is DDL.
    pub const DDL: u8 = 32;
    /// Flag: the first phase of an XA transaction, whose identifier follows.
    pub const PREPARED_XA: u8 = 64;
    /// Flag: the second phase of an XA transaction, whose identifier follows.
    pub const COMPLETED_XA: u8 = 128;

    /// Returns the identifier; `server_id` is in the header.
    pub const fn gtid(&self, server_id: u32) -> MariadbGtid {
        MariadbGtid { domain_id: self.domain_id, server_id, sequence_number: self.sequence_number }
    }
}

impl<'a> MariadbGtidEvent<'a> {
    /// Decodes the fields after the flags. Offsets in errors count from there.
    ///
    /// # Errors
    ///
    /// Fails if a field for one of the flags is missing or truncated.
    pub fn details(&self) -> Result<MariadbGtidDetails<'a>, DecodeError> {
        MariadbGtidDetails::decode(self.flags, &mut Cursor::new(self.rest))
    }
}

/// Fields after the flags of a [`MariadbGtidEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbGtidDetails<'a> {
    /// Number shared by transactions that committed as a group.
    pub commit_id: Option<u64>,
    /// XA transaction that is prepared or completed.
    pub xid: Option<XaXid<'a>>,
    /// More flags since 10.5: 1 several engines, 2 ALTER starts, 4 ALTER commits, 8 ALTER rolls back.
    pub extra_flags: u8,
    /// Number of engines besides the first.
    pub extra_engines: Option<u8>,
    /// Sequence number of the ALTER that commits or rolls back.
    pub alter_sequence_number: Option<u64>,
    /// Bytes after these fields, usually padding.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub rest: &'a [u8],
}

// size  field
//  0,8  commit_id, with GROUP_COMMIT
//  0,*  with PREPARED_XA or COMPLETED_XA: format (4), sizes of the two parts (1, 1), the parts
//  0-1  extra_flags
//  0-1  extra_engines, with extra flag 1
//  0,8  alter_sequence_number, with extra flags 4 or 8
//    *  zeros, up to 6 bytes in all
impl<'a> MariadbGtidDetails<'a> {
    fn decode(flags: u8, cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let has = |flag: u8| flags & flag != 0;
        let commit_id = if has(MariadbGtidEvent::GROUP_COMMIT) { Some(cursor.u64()?) } else { None };
        let xid = match has(MariadbGtidEvent::PREPARED_XA | MariadbGtidEvent::COMPLETED_XA) {
            true => Some(xid(cursor)?),
            false => None,
        };
        let extra_flags = if cursor.is_empty() { 0 } else { cursor.u8()? };
        let extra_engines = if extra_flags & 1 != 0 { Some(cursor.u8()?) } else { None };
        let alter_sequence_number = if extra_flags & 12 != 0 { Some(cursor.u64()?) } else { None };
        let rest = cursor.take_rest();
        Ok(Self { commit_id, xid, extra_flags, extra_engines, alter_sequence_number, rest })
    }
}

fn xid<'a>(cursor: &mut Cursor<'a>) -> Result<XaXid<'a>, DecodeError> {
    let format_id = cursor.u32()?.cast_signed();
    let (gtrid_size, bqual_size) = (usize::from(cursor.u8()?), usize::from(cursor.u8()?));
    Ok(XaXid { format_id, gtrid: cursor.bytes(gtrid_size)?, bqual: cursor.bytes(bqual_size)? })
}

// size  field
//    8  sequence_number
//    4  domain_id
//    1  flags
//    *  details: to the end of the body
impl<'a> EventBody<'a> for MariadbGtidEvent<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            sequence_number: cursor.u64()?,
            domain_id: cursor.u32()?,
            flags: cursor.u8()?,
            rest: cursor.take_rest(),
        })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.sequence_number.to_le_bytes());
        out.extend_from_slice(&self.domain_id.to_le_bytes());
        out.push(self.flags);
        out.extend_from_slice(self.rest);
        Ok(())
    }
}

/// Transactions of all earlier files, by domain and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MariadbGtidList<'a> {
    /// Number of entries in the low 28 bits, flags in the high four.
    pub count_and_flags: u32,
    /// Domain, server and sequence number of each entry (4, 4 and 8 bytes).
    pub entries: &'a [u8],
}

impl<'a> MariadbGtidList<'a> {
    /// Returns the GTID of each entry.
    pub fn iter(&self) -> impl Iterator<Item = MariadbGtid> + use<'a> {
        let entries: &'a [[u8; 16]] = self.entries.as_chunks().0;
        entries.iter().map(|entry| {
            let mut cursor = Cursor::new(entry);
            let mut word = || cursor.u32().unwrap_or_default();
            let (domain_id, server_id, low, high) = (word(), word(), word(), word());
            MariadbGtid { domain_id, server_id, sequence_number: u64::from(high) << 32 | u64::from(low) }
        })
    }
}

// size  field
//    4  count_and_flags
//    *  entries: to the end of the body
impl<'a> EventBody<'a> for MariadbGtidList<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { count_and_flags: cursor.u32()?, entries: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.count_and_flags.to_le_bytes());
        out.extend_from_slice(self.entries);
        Ok(())
    }
}

/// Statement of the rows that follow, for information only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbAnnotateRows<'a> {
    /// Text of the statement.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub sql: &'a [u8],
}

// size  field
//    *  sql: to the end of the body
impl<'a> EventBody<'a> for MariadbAnnotateRows<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { sql: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.sql);
        Ok(())
    }
}

/// Oldest file needed for crash recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbBinlogCheckpoint<'a> {
    /// Name of the file.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::text"))]
    pub file: &'a [u8],
    /// Bytes after the name.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub rest: &'a [u8],
}

// size  field
//    4  size of file
//    *  file
impl<'a> EventBody<'a> for MariadbBinlogCheckpoint<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let size = cursor.u32()? as usize;
        Ok(Self { file: cursor.bytes(size)?, rest: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let size = checked_number("size of the file's name", self.file.len() as u64, u32::MAX)?;
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(self.file);
        out.extend_from_slice(self.rest);
        Ok(())
    }
}

/// Start of encryption: all later events are encrypted one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbStartEncryption<'a> {
    /// Encryption scheme; only 1 exists.
    pub scheme: u8,
    /// Version of the key.
    pub key_version: u32,
    /// Nonce of twelve bytes.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub nonce: &'a [u8],
}

// size  field
//    1  scheme
//    4  key_version
//    *  nonce: to the end of the body
impl<'a> EventBody<'a> for MariadbStartEncryption<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { scheme: cursor.u8()?, key_version: cursor.u32()?, nonce: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(self.scheme);
        out.extend_from_slice(&self.key_version.to_le_bytes());
        out.extend_from_slice(self.nonce);
        Ok(())
    }
}

/// Query with compressed text: [`Query::sql`] has the compressed form.
///
/// [`RawEvent::decompress_mariadb`](crate::RawEvent::decompress_mariadb) returns the decompressed event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbQueryCompressed<'a> {
    /// Query with compressed text.
    pub query: Query<'a>,
}

impl MariadbQueryCompressed<'_> {
    /// Decompresses the statement, up to `size_max` bytes.
    ///
    /// # Errors
    ///
    /// Fails if the text is corrupt, too large, or uses a compression that is unknown or not in this build. Offsets
    /// count from the start of the compressed form.
    pub fn sql(&self, size_max: usize) -> Result<Vec<u8>, DecodeError> {
        mariadb::decompress(self.query.sql, size_max)
    }
}

impl<'a> EventBody<'a> for MariadbQueryCompressed<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let head = QueryHead::decode(cursor)?;
        Ok(Self { query: Query::decode_after(&head, cursor)? })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.query.encode_head(out)?;
        self.query.encode_after(out);
        Ok(())
    }
}

/// Rows event with compressed rows: [`Rows::rows`] has the compressed form.
///
/// [`RawEvent::decompress_mariadb`](crate::RawEvent::decompress_mariadb) returns the decompressed event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbRowsCompressed<'a> {
    /// Rows event with compressed rows.
    pub rows: Rows<'a>,
}

impl<'a> EventBody<'a> for MariadbRowsCompressed<'a> {
    fn decode(cursor: &mut Cursor<'a>, context: BodyContext<'_>) -> Result<Self, DecodeError> {
        Ok(Self { rows: Rows::decode(cursor, context)? })
    }

    fn encode(&self, context: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.rows.encode(context, out)
    }
}

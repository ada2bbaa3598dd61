//! What only MariaDB writes.

use std::fmt;

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError, narrow};
use crate::event::{Body, Context};
use crate::events::query::{Query, QueryHead};
use crate::events::rows::Rows;

/// MariaDB's identifier of a transaction, shown as `domain-server-number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbGtid {
    /// The replication domain.
    pub domain_id: u32,
    /// The server it began on.
    pub server_id: u32,
    /// Its number in its domain.
    pub sequence_number: u64,
}

impl fmt::Display for MariadbGtid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}-{}", self.domain_id, self.server_id, self.sequence_number)
    }
}

/// The start of a transaction; the server's number is in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbGtidEvent<'a> {
    /// The transaction's number in its domain.
    pub sequence_number: u64,
    /// The replication domain.
    pub domain_id: u32,
    /// 1 standalone (no commit follows), 2 a commit id follows, 4 transactional, 8 may run in parallel, 16 waited,
    /// 32 DDL.
    pub flags: u8,
    /// Which transactions committed together, or padding.
    pub rest: &'a [u8],
}

impl MariadbGtidEvent<'_> {
    /// Flag: one statement that commits by itself.
    pub const STANDALONE: u8 = 1;
    /// Flag: a commit id follows.
    pub const GROUP_COMMIT: u8 = 2;

    /// The identifier; `server_id` is the header's.
    pub const fn gtid(&self, server_id: u32) -> MariadbGtid {
        MariadbGtid { domain_id: self.domain_id, server_id, sequence_number: self.sequence_number }
    }

    /// The number that transactions which committed together share.
    pub fn commit_id(&self) -> Option<u64> {
        match self.flags & Self::GROUP_COMMIT {
            0 => None,
            _ => Cursor::new(self.rest).u64().ok(),
        }
    }
}

// size  field
//    8  sequence_number
//    4  domain_id
//    1  flags
//    *  commit id (8), or padding (6)
impl<'a> Body<'a> for MariadbGtidEvent<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: Context<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            sequence_number: cursor.u64()?,
            domain_id: cursor.u32()?,
            flags: cursor.u8()?,
            rest: cursor.take_rest(),
        })
    }

    fn encode(&self, _: Context<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.sequence_number.to_le_bytes());
        out.extend_from_slice(&self.domain_id.to_le_bytes());
        out.push(self.flags);
        out.extend_from_slice(self.rest);
        Ok(())
    }
}

/// Which transactions all earlier files hold, by domain and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbGtidList<'a> {
    /// The low 28 bits count the entries, the high four are flags.
    pub count_and_flags: u32,
    /// Domain, server and sequence number of each (4, 4 and 8 bytes).
    pub entries: &'a [u8],
}

impl<'a> MariadbGtidList<'a> {
    /// Domain, server and sequence number of each.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, u64)> + use<'a> {
        let entries: &'a [[u8; 16]] = self.entries.as_chunks().0;
        entries.iter().map(|entry| {
            let mut cursor = Cursor::new(entry);
            let mut word = || cursor.u32().unwrap_or_default();
            let (domain, server, low, high) = (word(), word(), word(), word());
            (domain, server, u64::from(high) << 32 | u64::from(low))
        })
    }
}

// size  field
//    4  count_and_flags
//    *  entries: to the end of the body
impl<'a> Body<'a> for MariadbGtidList<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: Context<'_>) -> Result<Self, DecodeError> {
        Ok(Self { count_and_flags: cursor.u32()?, entries: cursor.take_rest() })
    }

    fn encode(&self, _: Context<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(&self.count_and_flags.to_le_bytes());
        out.extend_from_slice(self.entries);
        Ok(())
    }
}

/// The oldest file that crash recovery still needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbBinlogCheckpoint<'a> {
    /// Its name.
    pub file: &'a [u8],
    /// Bytes behind it.
    pub rest: &'a [u8],
}

// size  field
//    4  size of file
//    *  file
impl<'a> Body<'a> for MariadbBinlogCheckpoint<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: Context<'_>) -> Result<Self, DecodeError> {
        let size = cursor.u32()? as usize;
        Ok(Self { file: cursor.bytes(size)?, rest: cursor.take_rest() })
    }

    fn encode(&self, _: Context<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let size = narrow("size of the file's name", self.file.len() as u64, u32::MAX)?;
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(self.file);
        out.extend_from_slice(self.rest);
        Ok(())
    }
}

/// All events behind this one are encrypted, each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbStartEncryption<'a> {
    /// How: 1 is the only one.
    pub scheme: u8,
    /// The key's version.
    pub key_version: u32,
    /// Twelve bytes.
    pub nonce: &'a [u8],
}

// size  field
//    1  scheme
//    4  key_version
//    *  nonce: to the end of the body
impl<'a> Body<'a> for MariadbStartEncryption<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: Context<'_>) -> Result<Self, DecodeError> {
        Ok(Self { scheme: cursor.u8()?, key_version: cursor.u32()?, nonce: cursor.take_rest() })
    }

    fn encode(&self, _: Context<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.push(self.scheme);
        out.extend_from_slice(&self.key_version.to_le_bytes());
        out.extend_from_slice(self.nonce);
        Ok(())
    }
}

/// A query whose text is compressed: [`Query::sql`] holds the compressed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbQueryCompressed<'a> {
    /// The query, its text compressed.
    pub query: Query<'a>,
}

impl<'a> Body<'a> for MariadbQueryCompressed<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: Context<'_>) -> Result<Self, DecodeError> {
        let head = QueryHead::decode(cursor)?;
        Ok(Self { query: Query::decode_after(&head, cursor)? })
    }

    fn encode(&self, _: Context<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.query.encode_head(out)?;
        self.query.encode_after(out);
        Ok(())
    }
}

/// Changed rows, compressed: [`Rows::rows`] holds the compressed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MariadbRowsCompressed<'a> {
    /// The event, its rows compressed.
    pub rows: Rows<'a>,
}

impl<'a> Body<'a> for MariadbRowsCompressed<'a> {
    fn decode(cursor: &mut Cursor<'a>, context: Context<'_>) -> Result<Self, DecodeError> {
        Ok(Self { rows: Rows::decode(cursor, context)? })
    }

    fn encode(&self, context: Context<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.rows.encode(context, out)
    }
}

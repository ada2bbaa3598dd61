//! `LOAD DATA` statement, after the blocks of its file.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::event::{BodyContext, EventBody};
use crate::events::query::{Query, QueryHead};

/// `LOAD DATA` statement, after the blocks of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExecuteLoadQuery<'a> {
    /// Statement.
    pub query: Query<'a>,
    /// Number of the file.
    pub file_id: u32,
    /// Offset in the statement of the part with the file's name: before ` LOCAL INFILE` or ` INFILE`.
    pub name_start: u32,
    /// Offset in the statement after the file's name, `REPLACE` and `INTO`.
    pub name_end: u32,
    /// Treatment of rows with duplicate keys.
    pub duplicates: DuplicateHandling,
}

/// Treatment of rows with duplicate keys by `LOAD DATA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DuplicateHandling {
    /// 0: fail.
    Error,
    /// 1: keep the old row.
    Ignore,
    /// 2: keep the new row.
    Replace,
    /// Any other code.
    Unknown(u8),
}

// size  field
//   13  as a query's
//    4  file_id
//    4  name_start
//    4  name_end
//    1  duplicates
//    *  as a query's
impl<'a> EventBody<'a> for ExecuteLoadQuery<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let head = QueryHead::decode(cursor)?;
        let file_id = cursor.u32()?;
        let name_start = cursor.u32()?;
        let name_end = cursor.u32()?;
        let duplicates = match cursor.u8()? {
            0 => DuplicateHandling::Error,
            1 => DuplicateHandling::Ignore,
            2 => DuplicateHandling::Replace,
            code => DuplicateHandling::Unknown(code),
        };
        let query = Query::decode_after(&head, cursor)?;
        Ok(Self { query, file_id, name_start, name_end, duplicates })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.query.encode_head(out)?;
        out.extend_from_slice(&self.file_id.to_le_bytes());
        out.extend_from_slice(&self.name_start.to_le_bytes());
        out.extend_from_slice(&self.name_end.to_le_bytes());
        out.push(match self.duplicates {
            DuplicateHandling::Error => 0,
            DuplicateHandling::Ignore => 1,
            DuplicateHandling::Replace => 2,
            DuplicateHandling::Unknown(code) => code,
        });
        self.query.encode_after(out);
        Ok(())
    }
}

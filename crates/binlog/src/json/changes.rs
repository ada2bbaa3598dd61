//! What a partial update says of a JSON document: steps that make the new one out of the old one.

use super::edit::Node;
use super::{Json, path};
use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::error::Reason;

/// A path has no more steps: a server takes no deeper documents. Bounds recursion.
pub(super) const PATH_LEGS_MAX: usize = super::DEPTH_MAX;

/// What changed in a JSON document: steps to be taken in order; none if nothing changed.
///
/// Written by servers at `binlog_row_value_options=PARTIAL_JSON`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JsonChanges<'a> {
    bytes: &'a [u8],
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JsonChange<'a> {
    /// What to do.
    pub kind: JsonChangeKind,
    /// Where: `$.name[3]`, as written.
    pub path: &'a [u8],
    /// With what: none if it is removed.
    pub value: Option<Json<'a>>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum JsonChangeKind {
    /// Put another value in place of one (`JSON_REPLACE`).
    Replace,
    /// Put a new value into an object (`JSON_INSERT`) or an array (`JSON_ARRAY_INSERT`).
    Insert,
    /// Take a value out (`JSON_REMOVE`).
    Remove,
}

impl<'a> JsonChanges<'a> {
    /// Takes changes as stored.
    ///
    /// # Errors
    ///
    /// When one stops short or is none of the three kinds. Paths and values are not looked at.
    pub fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            JsonChange::decode(&mut cursor)?;
        }
        Ok(Self { bytes })
    }

    /// As stored.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The steps, in order.
    pub fn iter(&self) -> impl Iterator<Item = JsonChange<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        // What `new` has looked at does not fail.
        std::iter::from_fn(move || JsonChange::decode(&mut cursor).ok())
    }

    /// The new document, as stored, from the old one.
    ///
    /// # Errors
    ///
    /// When a path leads nowhere in the document, or the document or a path is corrupt.
    pub fn apply(&self, before: Json<'_>) -> Result<Vec<u8>, DecodeError> {
        let mut root = Node::of_document(before)?;
        let mut cursor = Cursor::new(self.bytes);
        while !cursor.is_empty() {
            let offset = cursor.offset();
            let change = JsonChange::decode(&mut cursor)?;
            let legs = path::parse(change.path, offset + 2)?;
            let value = change.value.map(Node::of_document).transpose()?;
            let done = match (change.kind, value) {
                (JsonChangeKind::Replace, Some(value)) => root.replace(&legs, value)?,
                (JsonChangeKind::Insert, Some(value)) => root.insert(&legs, value)?,
                (_, _) => root.remove(&legs)?,
            };
            if !done {
                let (field, wanted) = ("kind of a JSON change", "one whose path leads into the document");
                let found = change.kind.code().into();
                return Err(DecodeError::new(offset, Reason::Unexpected { field, found, wanted }));
            }
        }
        root.encode_document()
    }
}

impl JsonChangeKind {
    const fn code(self) -> u8 {
        match self {
            Self::Replace => 0,
            Self::Insert => 1,
            Self::Remove => 2,
        }
    }
}

impl<'a> JsonChange<'a> {
    // size  field
    //    1  kind
    //    *  path: lenenc, then so many bytes
    //    *  value: lenenc, then so many bytes; not if it is removed
    fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let offset = cursor.offset();
        let kind = match cursor.u8()? {
            0 => JsonChangeKind::Replace,
            1 => JsonChangeKind::Insert,
            2 => JsonChangeKind::Remove,
            code => {
                let (field, found) = ("kind of a JSON change", u64::from(code));
                return Err(DecodeError::new(offset, Reason::OutOfRange { field, found, max: 2 }));
            }
        };
        let path = cursor.lenenc_bytes()?;
        let value = match kind {
            JsonChangeKind::Remove => None,
            JsonChangeKind::Replace | JsonChangeKind::Insert => Some(Json::new(cursor.lenenc_bytes()?)),
        };
        Ok(Self { kind, path, value })
    }
}

//! Binary JSON.

use crate::cursor::Cursor;
use crate::error::DecodeError;

/// A JSON document as stored: a type, then a value. No bytes at all stand for `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Json<'a> {
    bytes: &'a [u8],
}

impl<'a> Json<'a> {
    /// Takes a document as stored. Nothing is checked yet.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// As stored.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// What changed in a JSON document: steps to be applied in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JsonChanges<'a> {
    bytes: &'a [u8],
}

impl<'a> JsonChanges<'a> {
    /// Takes changes as stored.
    ///
    /// # Errors
    ///
    /// When they stop short.
    pub fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let _ = Cursor::new(bytes);
        Ok(Self { bytes })
    }

    /// As stored.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

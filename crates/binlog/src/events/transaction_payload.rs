//! Compressed transactions.

use crate::cursor::{Cursor, lenenc_size, put_lenenc};
use crate::error::{DecodeError, DecodeReason, EncodeError};
use crate::event::{BodyContext, EventBody};

/// Compressed transaction in one event: all events after its GTID event, commit included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TransactionPayload<'a> {
    /// Compression algorithm.
    pub compression: PayloadCompression,
    /// Size of the events inside, in bytes, as stated by the writer. Not trusted: nothing is allocated by it.
    pub uncompressed_size: Option<u64>,
    /// Fields before the payload, as written, end mark included.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub fields: &'a [u8],
    /// Compressed events.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub payload: &'a [u8],
    /// Bytes after the payload; no server writes any.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::bytes"))]
    pub rest: &'a [u8],
}

/// Compression algorithm of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum PayloadCompression {
    /// 0: zstd frames.
    Zstd,
    /// 255: no compression. Valid, but no server writes it.
    None,
    /// Any other code.
    Unknown(u64),
}

impl PayloadCompression {
    /// Returns the code.
    pub const fn code(self) -> u64 {
        match self {
            Self::Zstd => 0,
            Self::None => 255,
            Self::Unknown(code) => code,
        }
    }

    /// Returns the name as MySQL shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "ZSTD",
            Self::None => "NONE",
            Self::Unknown(_) => "N/A",
        }
    }
}

/// Fields before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadFields {
    /// Compression algorithm.
    pub compression: PayloadCompression,
    /// Size of the payload itself in bytes.
    pub payload_size: u64,
    /// See [`TransactionPayload::uncompressed_size`].
    pub uncompressed_size: Option<u64>,
}

impl TransactionPayload<'_> {
    /// Encodes the fields that a server writes before a payload.
    pub fn encode_fields(
        compression: PayloadCompression,
        payload_size: u64,
        uncompressed_size: Option<u64>,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        put_number(&mut out, 2, compression.code());
        if let Some(size) = uncompressed_size {
            put_number(&mut out, 3, size);
        }
        put_number(&mut out, 1, payload_size);
        out.push(0);
        out
    }
}

fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    put_lenenc(out, field);
    put_lenenc(out, lenenc_size(number) as u64);
    put_lenenc(out, number);
}

// size  field
//    *  any number of: type, size, value (lenenc, lenenc, size); the values here are lenenc too:
//       1 payload size, 2 compression, 3 uncompressed size
//    1  0: the end of the fields
impl PayloadFields {
    /// Decodes the fields at the front of a body.
    ///
    /// # Errors
    ///
    /// Fails if the fields are truncated, or if the payload's size or compression is missing.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let start = cursor.clone();
        let (mut payload_size, mut compression, mut uncompressed_size) = (None, None, None);
        loop {
            let field = cursor.lenenc()?;
            if field == 0 {
                break;
            }
            let value_start = cursor.offset();
            let value = cursor.lenenc_bytes()?;
            let number = || Cursor::at(value, value_start).lenenc();
            match field {
                1 => payload_size = Some(number()?),
                2 => compression = Some(number()?),
                3 => uncompressed_size = Some(number()?),
                _ => {}
            }
        }
        let payload_size =
            payload_size.ok_or_else(|| start.error(DecodeReason::Missing { field: "payload size" }))?;
        let compression = match compression
            .ok_or_else(|| start.error(DecodeReason::Missing { field: "payload compression" }))?
        {
            0 => PayloadCompression::Zstd,
            255 => PayloadCompression::None,
            code => PayloadCompression::Unknown(code),
        };
        Ok(Self { compression, payload_size, uncompressed_size })
    }
}

// size  field
//    *  fields
//    *  payload
impl<'a> EventBody<'a> for TransactionPayload<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        let start = cursor.rest();
        let PayloadFields { compression, payload_size, uncompressed_size } = PayloadFields::decode(cursor)?;
        let fields = &start[..start.len() - cursor.rest().len()];
        let payload = cursor.bytes(usize::try_from(payload_size).unwrap_or(usize::MAX))?;
        Ok(Self { compression, uncompressed_size, fields, payload, rest: cursor.take_rest() })
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        out.extend_from_slice(self.fields);
        out.extend_from_slice(self.payload);
        out.extend_from_slice(self.rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{PayloadCompression, PayloadFields, TransactionPayload};
    use crate::cursor::Cursor;
    use crate::error::{DecodeError, DecodeReason};

    fn check(bytes: &[u8], expected: Result<(PayloadCompression, u64, Option<u64>), DecodeError>) {
        let found = PayloadFields::decode(&mut Cursor::new(bytes));
        let found = found.map(|found| (found.compression, found.payload_size, found.uncompressed_size));
        assert_eq!(found, expected, "{bytes:02x?}");
    }

    #[test]
    fn fields_in_any_order_of_any_size() {
        use PayloadCompression::{None, Unknown, Zstd};
        check(&[2, 1, 0, 3, 1, 0xf3, 1, 1, 0xb4, 0], Ok((Zstd, 0xb4, Some(0xf3))));
        check(&[1, 1, 9, 2, 3, 0xfc, 0xff, 0, 0], Ok((None, 9, Option::None)));
        check(&[2, 1, 7, 1, 1, 9, 0], Ok((Unknown(7), 9, Option::None)));
        // A field of unknown type, then a size of more than 32 bits.
        let large = [99, 2, 1, 2, 2, 1, 0, 1, 9, 0xfe, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        check(&large, Ok((Zstd, 1 << 32, Option::None)));
        let missing = |field| Err(DecodeError::new(0, DecodeReason::Missing { field }));
        check(&[2, 1, 0, 0], missing("payload size"));
        check(&[1, 1, 9, 0], missing("payload compression"));
        check(&[1, 2, 9], Err(DecodeError::new(2, DecodeReason::Short { expected: 2, found: 1 })));
    }

    #[test]
    fn written_fields_equal_the_servers() {
        let fields = TransactionPayload::encode_fields(PayloadCompression::Zstd, 180, Some(243));
        assert_eq!(fields, [2, 1, 0, 3, 1, 243, 1, 1, 180, 0]);
        let fields = TransactionPayload::encode_fields(PayloadCompression::None, 5, None);
        assert_eq!(fields, [2, 3, 0xfc, 255, 0, 1, 1, 5, 0]);
    }
}

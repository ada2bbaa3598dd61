//! Decompression of MariaDB's compressed events.

use std::borrow::Cow;

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};
use crate::event::{Event, EventType};
use crate::format::EventFormat;
use crate::framer::EVENT_SIZE_MAX;
use crate::header::HEADER_SIZE;
use crate::raw::RawEvent;
use crate::write::{EventFrame, NextPosition, write};

impl EventType {
    /// Returns the type of a compressed MariaDB event after decompression; `None` for all other types.
    pub const fn decompressed(self) -> Option<Self> {
        Some(match self {
            Self::MariadbQueryCompressed => Self::Query,
            Self::MariadbWriteRowsCompressedV1 => Self::WriteRowsV1,
            Self::MariadbUpdateRowsCompressedV1 => Self::UpdateRowsV1,
            Self::MariadbDeleteRowsCompressedV1 => Self::DeleteRowsV1,
            Self::MariadbWriteRowsCompressed => Self::WriteRows,
            Self::MariadbUpdateRowsCompressed => Self::UpdateRows,
            Self::MariadbDeleteRowsCompressed => Self::DeleteRows,
            _ => return None,
        })
    }
}

impl RawEvent<'_> {
    /// Appends the decompressed event, as the server would have written it. Adds a checksum if this event has one.
    /// Events that are not compressed are appended unchanged. Only MariaDB compresses single events; MySQL compresses
    /// whole transactions.
    ///
    /// `size_max` limits the size of the whole decompressed event in bytes, and thus memory.
    ///
    /// # Errors
    ///
    /// Fails if the compressed part is corrupt, differs from its stated size, is too large, or uses a compression
    /// that is unknown or not in this build. `out` is then unchanged.
    pub fn decompress_mariadb(
        &self,
        format: &EventFormat,
        size_max: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let Some(event_type) = self.event_type().decompressed() else {
            out.extend_from_slice(self.bytes());
            return Ok(());
        };
        let compressed = match self.decode(format)? {
            Event::MariadbQueryCompressed(event) => event.query.sql,
            event => rows_of(&event),
        };
        let (before, _) = self.body().split_at(self.body().len() - compressed.len());
        let around = HEADER_SIZE + before.len() + self.checksum().size();
        let size_max = size_max.min(EVENT_SIZE_MAX) as usize;
        let plain = decompress(compressed, size_max.saturating_sub(around))
            .map_err(|error| error.within(HEADER_SIZE + before.len()))?;
        let (origin, next) = (self.header().origin(), NextPosition::Fixed(self.header().next_position));
        let body = |out: &mut Vec<u8>| {
            out.extend_from_slice(before);
            out.extend_from_slice(&plain);
            Ok(())
        };
        let frame = EventFrame { event_type, origin, next, checksum: self.checksum() };
        write(frame, out, body).map_err(|_| {
            DecodeError::new(0, DecodeReason::Unsupported { what: "an event of more than 1 GiB" })
        })
    }
}

impl<'a> RawEvent<'a> {
    /// Returns this event, or the decompressed event in `scratch` if MariaDB compressed this event.
    ///
    /// # Errors
    ///
    /// Fails as [`RawEvent::decompress_mariadb`] does.
    pub fn plain<'b>(
        &self,
        format: &EventFormat,
        size_max: u32,
        scratch: &'b mut Vec<u8>,
    ) -> Result<RawEvent<'b>, DecodeError>
    where
        'a: 'b,
    {
        if self.event_type().decompressed().is_none() {
            return Ok(*self);
        }
        scratch.clear();
        self.decompress_mariadb(format, size_max, scratch)?;
        RawEvent::new(scratch, self.checksum())
    }
}

fn rows_of<'a>(event: &Event<'a>) -> &'a [u8] {
    match event {
        Event::MariadbWriteRowsCompressedV1(event)
        | Event::MariadbUpdateRowsCompressedV1(event)
        | Event::MariadbDeleteRowsCompressedV1(event)
        | Event::MariadbWriteRowsCompressed(event)
        | Event::MariadbUpdateRowsCompressed(event)
        | Event::MariadbDeleteRowsCompressed(event) => event.rows.rows,
        _ => &[],
    }
}

// size  field
//    1  bit 7: set; bits 4 to 6: 0 for zlib; bit 3: not set; bits 0 to 2: bytes in the size, 1 to 4
//  1-4  size when decompressed, big-endian
//    *  a zlib stream: to the end
pub(crate) fn decompress(compressed: &[u8], size_max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut cursor = Cursor::new(compressed);
    let size_bytes = match cursor.u8()? {
        head @ 0x81..=0x84 => usize::from(head & 0x07),
        head => {
            let (field, found) = ("head of a compressed part", u64::from(head));
            return Err(DecodeError::new(
                0,
                DecodeReason::Unexpected { field, found, expected: "0x81 to 0x84 (zlib)" },
            ));
        }
    };
    let big_endian = |value, byte: &u8| value << 8 | usize::from(*byte);
    let size = cursor.bytes(size_bytes)?.iter().fold(0, big_endian);
    if size > size_max {
        let (field, found, max) = ("size of a decompressed part", size as u64, size_max as u64);
        return Err(DecodeError::new(1, DecodeReason::OutOfRange { field, found, max }));
    }
    let start = cursor.offset();
    inflate(cursor.rest(), size, DeflateWrapping::Zlib).map_err(|reason| DecodeError::new(start, reason))
}

/// Decompresses a value of a compressed column.
// size  field
//    1  bits 4 to 7: 0 for not compressed, 8 for deflate; bit 3: no zlib header and checksum; bits 0 to 2: number of
//       bytes in the size, 1 to 4
//  1-4  size when decompressed, big-endian; only if it is compressed
//    *  the bytes, or a stream: to the end
pub(crate) fn decompress_value(stored: &[u8], size_max: usize) -> Result<Cow<'_, [u8]>, DecodeError> {
    // Empty values take no bytes at all.
    let Some((head, plain)) = stored.split_first() else { return Ok(Cow::Borrowed(stored)) };
    let wrapping = match head & 0x08 {
        0 => DeflateWrapping::Zlib,
        _ => DeflateWrapping::Absent,
    };
    let size_bytes = match (head >> 4, head & 0x07) {
        (0, _) => return Ok(Cow::Borrowed(plain)),
        (8, bytes @ 1..=4) => usize::from(bytes),
        _ => {
            let (field, found) = ("head of a compressed value", u64::from(*head));
            let expected = "0, or 0x80 or 0x88 and a size of 1 to 4 bytes";
            return Err(DecodeError::new(0, DecodeReason::Unexpected { field, found, expected }));
        }
    };
    let mut cursor = Cursor::at(plain, 1);
    let big_endian = |value, byte: &u8| value << 8 | u64::from(*byte);
    let found = cursor.bytes(size_bytes)?.iter().fold(0, big_endian);
    let max = size_max as u64;
    if found > max {
        let field = "size of a decompressed value";
        return Err(DecodeError::new(1, DecodeReason::OutOfRange { field, found, max }));
    }
    let start = cursor.offset();
    let value = inflate(cursor.rest(), found as usize, wrapping);
    value.map(Cow::Owned).map_err(|reason| DecodeError::new(start, reason))
}

/// Wrapping around a deflate stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeflateWrapping {
    Absent,
    Zlib,
}

/// Decompresses a stream of exactly `size` bytes. Memory grows with the output, not with the stated size.
#[cfg(feature = "zlib")]
fn inflate(stream: &[u8], size: usize, wrapping: DeflateWrapping) -> Result<Vec<u8>, DecodeReason> {
    use miniz_oxide::inflate::{
        TINFLStatus, decompress_to_vec_with_limit, decompress_to_vec_zlib_with_limit,
    };

    let result = match wrapping {
        DeflateWrapping::Absent => decompress_to_vec_with_limit(stream, size),
        DeflateWrapping::Zlib => decompress_to_vec_zlib_with_limit(stream, size),
    };
    let found = match result {
        Ok(plain) if plain.len() == size => return Ok(plain),
        Ok(plain) => plain.len() as u64,
        // The limit is reached, and the stream continues.
        Err(error) if error.status == TINFLStatus::HasMoreOutput => error.output.len() as u64 + 1,
        Err(_) => return Err(DecodeReason::Unsupported { what: "a corrupt zlib stream" }),
    };
    let field = "size of a decompressed stream";
    Err(DecodeReason::Unexpected { field, found, expected: "the stated size" })
}

#[cfg(not(feature = "zlib"))]
fn inflate(_: &[u8], _: usize, _: DeflateWrapping) -> Result<Vec<u8>, DecodeReason> {
    Err(DecodeReason::Unsupported { what: "zlib data in a build without zlib" })
}

#[cfg(all(test, feature = "zlib"))]
mod tests {
    use super::{decompress, decompress_value};
    use crate::error::{DecodeError, DecodeReason};

    /// `hello hello`, as compressed by Python's `zlib.compress`.
    const HELLO: [u8; 16] =
        [0x78, 0x9c, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x00, 0x91, 0x00, 0x19, 0x91, 0x04, 0x49];

    fn part(head: &[u8]) -> Vec<u8> {
        [head, &HELLO].concat()
    }

    fn check(part: &[u8], size_max: usize, expected: Result<&[u8], DecodeError>) {
        assert_eq!(decompress(part, size_max), expected.map(<[u8]>::to_vec), "{part:02x?}");
    }

    #[test]
    fn parts() {
        check(&part(&[0x81, 11]), 11, Ok(b"hello hello"));
        check(&part(&[0x84, 0, 0, 0, 11]), 100, Ok(b"hello hello"));
    }

    #[test]
    fn sizes_are_not_believed() {
        let field = "size of a decompressed stream";
        let not = |found| DecodeReason::Unexpected { field, found, expected: "the stated size" };
        check(&part(&[0x81, 12]), 100, Err(DecodeError::new(2, not(11))));
        check(&part(&[0x81, 10]), 100, Err(DecodeError::new(2, not(11))));
        check(&part(&[0x84, 0x7f, 0xff, 0xff, 0xff]), usize::MAX, Err(DecodeError::new(5, not(11))));
        let field = "size of a decompressed part";
        check(
            &part(&[0x81, 11]),
            10,
            Err(DecodeError::new(1, DecodeReason::OutOfRange { field, found: 11, max: 10 })),
        );
    }

    #[test]
    fn corrupt_parts() {
        let (field, expected) = ("head of a compressed part", "0x81 to 0x84 (zlib)");
        for found in [0x00, 0x80, 0x85, 0x89, 0x91, 0xff] {
            let reason = DecodeReason::Unexpected { field, found: u64::from(found), expected };
            check(&part(&[found, 11]), 100, Err(DecodeError::new(0, reason)));
        }
        check(&[], 100, Err(DecodeError::new(0, DecodeReason::Short { expected: 1, found: 0 })));
        check(&[0x82, 1], 100, Err(DecodeError::new(1, DecodeReason::Short { expected: 2, found: 1 })));
        let mut corrupt = part(&[0x81, 11]);
        corrupt[5] ^= 0x55;
        let error = decompress(&corrupt, 100).unwrap_err().to_string();
        assert_eq!(error, "byte 2: a corrupt zlib stream cannot be read");
    }

    #[test]
    fn values_of_compressed_columns() {
        let check = |stored: &[u8], expected: &str| {
            let value = decompress_value(stored, 20);
            let found = value
                .map_or_else(|error| error.to_string(), |value| String::from_utf8_lossy(&value).into_owned());
            assert_eq!(found, expected, "{stored:02x?}");
        };
        check(b"", "");
        check(b"\x00plain", "plain");
        check(&part(&[0x81, 11]), "hello hello");
        // Without zlib's header and checksum.
        check(&[&[0x89, 11], &HELLO[2..]].concat(), "hello hello");
        check(
            &part(&[0x90, 11]),
            "byte 0: head of a compressed value is 144, expected 0, or 0x80 or 0x88 and a size of 1 to 4 bytes",
        );
        check(&part(&[0x81, 21]), "byte 1: size of a decompressed value is 21, expected at most 20");
        check(&part(&[0x81, 12]), "byte 2: size of a decompressed stream is 11, expected the stated size");
        check(&[0x82, 1], "byte 1: expected 2 more bytes, found 1");
    }
}

//! Cursor that reads fields from the front of a slice and tracks the offset.

use crate::error::{DecodeError, DecodeReason};

/// Read position in a slice. All integers are little-endian unless the name says otherwise.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `bytes`. Offsets in errors count from there.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    /// Creates a cursor at the start of `bytes`, which are at `offset` of a larger input.
    pub const fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, offset }
    }

    /// Returns the offset of the next field.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the unread bytes.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns true if nothing is left to read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(count) {
            Some((bytes, rest)) => {
                self.rest = rest;
                self.offset += count;
                Ok(bytes)
            }
            None => Err(self.short(count as u64)),
        }
    }

    /// Reads the next `N` bytes.
    #[inline]
    pub fn array_ref<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                self.offset += N;
                Ok(bytes)
            }
            None => Err(self.short(N as u64)),
        }
    }

    /// Reads and copies the next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.array_ref().copied()
    }

    /// Reads all remaining bytes.
    pub fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.offset += rest.len();
        self.rest = &[];
        rest
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Reads two bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads three bytes.
    #[inline]
    pub fn u24(&mut self) -> Result<u32, DecodeError> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Reads four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads six bytes.
    #[inline]
    pub fn u48(&mut self) -> Result<u64, DecodeError> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// Reads seven bytes.
    #[inline]
    pub fn u56(&mut self) -> Result<u64, DecodeError> {
        let [a, b, c, d, e, f, g] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, g, 0]))
    }

    /// Reads eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads eight bytes as a signed integer.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads a length-encoded integer, as in the client/server protocol.
    ///
    /// | first byte | then |
    /// |---|---|
    /// | 0 to 250 | nothing: the value itself |
    /// | 0xfc, 0xfd, 0xfe | 2, 3, 8 bytes |
    #[inline]
    pub fn lenenc(&mut self) -> Result<u64, DecodeError> {
        let start = self.offset;
        match self.u8()? {
            small @ 0..=250 => Ok(u64::from(small)),
            0xfc => Ok(u64::from(self.u16()?)),
            0xfd => Ok(u64::from(self.u24()?)),
            0xfe => self.u64(),
            byte => Err(DecodeError::new(start, DecodeReason::LengthEncoding { byte })),
        }
    }

    /// Reads a length-encoded integer, then that number of bytes.
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let size = self.lenenc()?;
        match usize::try_from(size) {
            Ok(size) => self.bytes(size),
            Err(_) => Err(self.short(size)),
        }
    }

    /// Reads a variable-length integer, as in the tagged GTIDs of MySQL 8.3 and later.
    ///
    /// The number of trailing one bits in the first byte is the number of bytes that follow, up to eight. The value is
    /// the remaining upper bits of the first byte, then the following bytes, low bits first.
    #[inline]
    pub fn varlen(&mut self) -> Result<u64, DecodeError> {
        let first = self.u8()?;
        let more = first.trailing_ones();
        let mut high = [0; 8];
        high[..more as usize].copy_from_slice(self.bytes(more as usize)?);
        let high = u64::from_le_bytes(high);
        let low = u64::from(first) >> (more + 1);
        Ok(low | high << 7_u32.saturating_sub(more))
    }

    /// Reads a signed variable-length integer: the sign is the lowest bit, negative values are inverted.
    #[inline]
    pub fn varlen_signed(&mut self) -> Result<i64, DecodeError> {
        let folded = self.varlen()?;
        let magnitude = (folded >> 1).cast_signed();
        Ok(if folded & 1 == 0 { magnitude } else { !magnitude })
    }

    /// Checks that no bytes are left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(DecodeError::new(self.offset, DecodeReason::Trailing { count })),
        }
    }

    /// Creates an error at the current offset.
    pub const fn error(&self, reason: DecodeReason) -> DecodeError {
        DecodeError::new(self.offset, reason)
    }

    const fn short(&self, expected: u64) -> DecodeError {
        self.error(DecodeReason::Short { expected, found: self.rest.len() })
    }
}

/// Returns the number of bytes that [`put_lenenc`] appends.
pub(crate) const fn lenenc_size(value: u64) -> usize {
    match value {
        0..=250 => 1,
        251..=0xffff => 3,
        0x1_0000..=0xff_ffff => 4,
        _ => 9,
    }
}

/// Appends `value` as [`Cursor::lenenc`] reads it, in the fewest bytes.
pub fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=250 => out.push(bytes[0]),
        251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends `value` as [`Cursor::varlen`] reads it, in the fewest bytes.
pub(crate) fn put_varlen(out: &mut Vec<u8>, value: u64) {
    // Seven value bits per byte; the eighth bit is part of the count.
    match u64::BITS.saturating_sub(value.leading_zeros() + 1) / 7 {
        more @ 0..=7 => {
            let ones = (1 << more) - 1;
            let bytes = (value << more << 1 | ones).to_le_bytes();
            out.extend_from_slice(&bytes[..=more as usize]);
        }
        _ => {
            out.push(0xff);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Appends `value` as [`Cursor::varlen_signed`] reads it, in the fewest bytes.
pub(crate) fn put_varlen_signed(out: &mut Vec<u8>, value: i64) {
    let sign = (value >> 63).cast_unsigned();
    put_varlen(out, (value.cast_unsigned() ^ sign) << 1 | sign & 1);
}

#[cfg(test)]
mod tests {
    use super::{Cursor, put_lenenc, put_varlen, put_varlen_signed};
    use crate::error::{DecodeError, DecodeReason};

    fn check(bytes: &[u8], expected: Result<u64, DecodeError>) {
        assert_eq!(Cursor::new(bytes).lenenc(), expected, "{bytes:?}");
        if let Ok(value) = expected {
            let mut out = Vec::new();
            put_lenenc(&mut out, value);
            assert_eq!(out, bytes, "{value}");
        }
    }

    #[test]
    fn length_encoded_integers() {
        check(&[0], Ok(0));
        check(&[250], Ok(250));
        check(&[0xfc, 251, 0], Ok(251));
        check(&[0xfc, 0xff, 0xff], Ok(0xffff));
        check(&[0xfd, 0, 0, 1], Ok(0x1_0000));
        check(&[0xfe, 0, 0, 0, 1, 0, 0, 0, 0], Ok(0x100_0000));
        check(&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255], Ok(u64::MAX));
        check(&[], Err(DecodeError::new(0, DecodeReason::Short { expected: 1, found: 0 })));
        check(&[0xfc, 1], Err(DecodeError::new(1, DecodeReason::Short { expected: 2, found: 1 })));
        check(&[0xfb], Err(DecodeError::new(0, DecodeReason::LengthEncoding { byte: 0xfb })));
        check(&[0xff], Err(DecodeError::new(0, DecodeReason::LengthEncoding { byte: 0xff })));
    }

    fn check_varlen(bytes: &[u8], expected: u64) {
        let mut cursor = Cursor::new(bytes);
        assert_eq!((cursor.varlen(), cursor.is_empty()), (Ok(expected), true), "{bytes:02x?}");
        let mut out = Vec::new();
        put_varlen(&mut out, expected);
        assert_eq!(out, bytes, "{expected}");
    }

    #[test]
    fn variable_length_integers() {
        check_varlen(&[0x00], 0);
        check_varlen(&[0xfe], 127);
        check_varlen(&[0x01, 0x02], 128);
        check_varlen(&[0xfd, 0xff], 0x3fff);
        check_varlen(&[0x03, 0x00, 0x02], 0x4000);
        check_varlen(&[0x83, 0x12, 0x0b], 90704);
        check_varlen(&[0x7f, 0x15, 0x83, 0x22, 0x2d, 0x5c, 0x2e, 0x06], 1739823289369365);
        check_varlen(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], (1 << 56) - 1);
        check_varlen(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1], 1 << 56);
        check_varlen(&[0xff, 255, 255, 255, 255, 255, 255, 255, 255], u64::MAX);
        let short = Cursor::new(&[0x03, 0]).varlen();
        assert_eq!(short, Err(DecodeError::new(1, DecodeReason::Short { expected: 2, found: 1 })));
    }

    #[test]
    fn variable_length_signed_integers() {
        for (value, first) in [(0, 0x00), (-1, 0x02), (1, 0x04), (-2, 0x06), (63, 0xfc), (-64, 0xfe)] {
            let mut out = Vec::new();
            put_varlen_signed(&mut out, value);
            assert_eq!(out, [first], "{value}");
        }
        for value in [64, -65, i64::MAX, i64::MIN, 1 << 40] {
            let mut out = Vec::new();
            put_varlen_signed(&mut out, value);
            assert_eq!(Cursor::new(&out).varlen_signed(), Ok(value));
        }
    }
}

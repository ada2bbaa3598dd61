//! Reads fields off the front of a slice, and remembers where it is.

use crate::error::{DecodeError, Reason};

/// A place in a slice. All integers are little-endian unless the name says otherwise.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of `bytes`; errors count from there.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self::at(bytes, 0)
    }

    /// At the start of `bytes`, which themselves start at `offset` of something larger.
    pub const fn at(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, offset }
    }

    /// Where the next field starts.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// What has not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Is all read?
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
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

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                self.offset += N;
                Ok(*bytes)
            }
            None => Err(self.short(N as u64)),
        }
    }

    /// All that is left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.offset += rest.len();
        self.rest = &[];
        rest
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Three bytes.
    #[inline]
    pub fn u24(&mut self) -> Result<u32, DecodeError> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Six bytes.
    #[inline]
    pub fn u48(&mut self) -> Result<u64, DecodeError> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// Seven bytes.
    #[inline]
    pub fn u56(&mut self) -> Result<u64, DecodeError> {
        let [a, b, c, d, e, f, g] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, g, 0]))
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Eight bytes, signed.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A length-encoded integer, as the client/server protocol writes them.
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
            byte => Err(DecodeError::new(start, Reason::LengthEncoding { byte })),
        }
    }

    /// A length-encoded integer, then so many bytes.
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let size = self.lenenc()?;
        match usize::try_from(size) {
            Ok(size) => self.bytes(size),
            Err(_) => Err(self.short(size)),
        }
    }

    /// Nothing may be left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(DecodeError::new(self.offset, Reason::Trailing { count })),
        }
    }

    /// An error here and now.
    pub const fn error(&self, reason: Reason) -> DecodeError {
        DecodeError::new(self.offset, reason)
    }

    const fn short(&self, wanted: u64) -> DecodeError {
        self.error(Reason::Short { wanted, found: self.rest.len() })
    }
}

/// Appends `value` as [`Cursor::lenenc`] reads it, in the fewest bytes.
pub(crate) fn put_lenenc(out: &mut Vec<u8>, value: u64) {
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

#[cfg(test)]
mod tests {
    use super::{Cursor, put_lenenc};
    use crate::error::{DecodeError, Reason};

    fn check(bytes: &[u8], wanted: Result<u64, DecodeError>) {
        assert_eq!(Cursor::new(bytes).lenenc(), wanted, "{bytes:?}");
        if let Ok(value) = wanted {
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
        check(&[], Err(DecodeError::new(0, Reason::Short { wanted: 1, found: 0 })));
        check(&[0xfc, 1], Err(DecodeError::new(1, Reason::Short { wanted: 2, found: 1 })));
        check(&[0xfb], Err(DecodeError::new(0, Reason::LengthEncoding { byte: 0xfb })));
        check(&[0xff], Err(DecodeError::new(0, Reason::LengthEncoding { byte: 0xff })));
    }
}

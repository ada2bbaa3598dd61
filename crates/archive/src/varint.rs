//! Numbers of variable size: seven bits a byte, low bits first.

use crate::segment_error::BlockDamage;

/// Appends a number.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the difference of two numbers, modulo 2^64. Small differences of either sign take few bytes.
#[inline]
pub(crate) fn put_difference(out: &mut Vec<u8>, value: u64, base: u64) {
    let difference = value.wrapping_sub(base).cast_signed();
    put_varint(out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

/// Reads numbers and bytes from the front of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamCursor<'a> {
    rest: &'a [u8],
}

const SHORT: BlockDamage = BlockDamage("a stream is too short");

impl<'a> StreamCursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], BlockDamage> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(SHORT)?;
        self.rest = rest;
        Ok(bytes)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], BlockDamage> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*bytes)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, BlockDamage> {
        let (byte, rest) = self.rest.split_first().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*byte)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, BlockDamage> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(BlockDamage("a number is too large"))
    }

    #[inline]
    pub(crate) fn size(&mut self) -> Result<usize, BlockDamage> {
        usize::try_from(self.varint()?).map_err(|_| BlockDamage("a size is too large"))
    }

    /// Reads bytes after their size.
    #[inline]
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], BlockDamage> {
        let size = self.size()?;
        self.bytes(size)
    }

    /// Reads what [`put_difference`] has written.
    #[inline]
    pub(crate) fn difference(&mut self, base: u64) -> Result<u64, BlockDamage> {
        let folded = self.varint()?;
        let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
        Ok(base.wrapping_add(difference))
    }

    pub(crate) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

/// Appends bytes after their size.
pub(crate) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{StreamCursor, put_difference, put_varint};

    proptest! {
        #[test]
        fn numbers_come_back(value in any::<u64>(), base in any::<u64>(), shift in 0..64_u32) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_difference(&mut out, value, base);
            let mut cursor = StreamCursor::new(&out);
            prop_assert_eq!(cursor.varint(), Ok(value));
            prop_assert_eq!(cursor.difference(base), Ok(value));
            prop_assert!(cursor.is_empty());
        }
    }
}

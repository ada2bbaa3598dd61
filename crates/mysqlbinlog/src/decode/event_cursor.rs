//! A cursor over an event, with the bounds checks of MySQL's own reader.

use binlog::{EventChecksum, HEADER_SIZE};

/// A position in an event. The checksum is not part of the readable bytes.
pub(super) struct EventCursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> EventCursor<'a> {
    /// Starts at the event's body; `None` if the event is shorter than header and checksum.
    pub(super) fn of_event(bytes: &'a [u8], checksum: EventChecksum) -> Option<Self> {
        let end = bytes.len().checked_sub(checksum.size())?;
        (end >= HEADER_SIZE).then(|| Self { bytes: &bytes[..end], position: HEADER_SIZE })
    }

    /// Starts at the first of the given bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Returns the position in bytes from the start of the event.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of bytes left.
    pub(super) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    /// Returns the bytes between two positions; none if the range is invalid.
    pub(super) fn between(&self, start: usize, end: usize) -> &'a [u8] {
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Moves to a position; `None` if there is no byte at it.
    pub(super) fn seek(&mut self, position: usize) -> Option<()> {
        (position < self.bytes.len()).then(|| self.position = position)
    }

    /// Skips bytes; `None` if no byte follows them.
    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        self.seek(self.position.checked_add(count)?)
    }

    pub(super) fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let end = self.position.checked_add(usize::try_from(count).ok()?)?;
        let taken = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        self.take(N as u64)?.first_chunk()
    }

    /// Returns the text before the first zero byte, like a C string.
    pub(super) fn until_nul(bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes.iter().position(|byte| *byte == 0);
        &bytes[..end.unwrap_or(bytes.len())]
    }

    pub(super) fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        self.position = self.bytes.len();
        rest
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| *byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(|bytes| u16::from_le_bytes(*bytes))
    }

    pub(super) fn u24(&mut self) -> Option<u32> {
        self.array().map(|[a, b, c]| u32::from_le_bytes([*a, *b, *c, 0]))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(|bytes| u32::from_le_bytes(*bytes))
    }

    pub(super) fn u48(&mut self) -> Option<u64> {
        self.array().map(|[a, b, c, d, e, f]| u64::from_le_bytes([*a, *b, *c, *d, *e, *f, 0, 0]))
    }

    pub(super) fn u56(&mut self) -> Option<u64> {
        self.array().map(|[a, b, c, d, e, f, g]| u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, 0]))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Reads a length-encoded integer. Like mysqlbinlog, it reads 251 as `u64::MAX` and 255 like 254.
    pub(super) fn lenenc(&mut self) -> Option<u64> {
        match self.u8()? {
            small @ 0..=250 => Some(small.into()),
            251 => Some(u64::MAX),
            252 => self.u16().map(u64::from),
            253 => self.u24().map(u64::from),
            254.. => self.u64(),
        }
    }
}

//! The event that begins a transaction with a tagged GTID. It has its own layout: numbered fields, each of which may be
//! missing.

use binlog::Event;
use binlog::events::{CommitStamps, GtidEvent, GtidLayout, GtidTagged, LogicalClock};
use binlog::gtid::{GtidTag, Uuid};

use super::EventLayout;
use super::format::{LogChecksum, LogFormat};

/// Version of the layout.
const VERSION: u64 = 1;

/// Number of known fields.
const FIELD_COUNT: u64 = 12;

/// Maximum length of a tag.
const TAG_SIZE_MAX: u64 = 32;

/// Values of the fields; a missing field keeps its default.
struct TaggedGtidFields<'a> {
    flags: u8,
    uuid: [u8; 16],
    gno: i64,
    tag: &'a [u8],
    clock: LogicalClock,
    immediate_commit_us: u64,
    original_commit_us: u64,
    transaction_size: u64,
    immediate_version: u32,
    original_version: u32,
}

/// Decodes the event. A GTID with an invalid tag becomes an event without a tag, with the tag in `rest`.
pub(super) fn tagged<'a>(bytes: &'a [u8], sizes: EventLayout<'_>) -> Option<Event<'a>> {
    let found = TaggedGtidFields::read(&mut VarintReader::of(bytes, sizes.format)?)?;
    let uuid = Uuid::from_bytes(found.uuid);
    let stamps = CommitStamps {
        immediate_commit_us: found.immediate_commit_us,
        original_commit_us: found.original_commit_us,
        transaction_size: Some(found.transaction_size),
        immediate_server_version: Some(found.immediate_version),
        original_server_version: Some(found.original_version),
        commit_group_ticket: None,
    };
    let TaggedGtidFields { flags, gno, clock, tag, .. } = found;
    Some(match GtidTag::new(tag).filter(|word| word.as_str().as_bytes() == tag) {
        Some(tag) => Event::GtidTagged(GtidTagged {
            flags: flags.into(),
            uuid,
            gno,
            tag,
            clock,
            stamps,
            fields_needed: 0,
            rest: &[],
        }),
        None => {
            let (clock, stamps) = (Some(clock), Some(stamps));
            Event::Gtid(GtidEvent {
                flags,
                uuid,
                gno,
                clock,
                stamps,
                layout: GtidLayout::default(),
                rest: tag,
            })
        }
    })
}

/// Returns whether the event has unknown fields that its reader must know.
pub(super) fn is_from_future(bytes: &[u8], format: &LogFormat) -> bool {
    let needed = VarintReader::of(bytes, format).and_then(|mut archive| {
        let (version, _, needed) = (archive.number()?, archive.number()?, archive.number()?);
        (version == VERSION).then_some(needed)
    });
    needed.is_some_and(|needed| needed > FIELD_COUNT)
}

impl<'a> TaggedGtidFields<'a> {
    fn read(archive: &mut VarintReader<'a>) -> Option<Self> {
        let (version, size, needed) = (archive.number()?, archive.number()?, archive.number()?);
        if version != VERSION || needed > FIELD_COUNT {
            return None;
        }
        let mut found = Self {
            flags: 1,
            uuid: [0; 16],
            gno: 0,
            tag: &[],
            clock: LogicalClock { last_committed: 0, sequence_number: 0 },
            immediate_commit_us: 0,
            original_commit_us: 0,
            transaction_size: 0,
            immediate_version: 0,
            original_version: 0,
        };
        for field in 0..FIELD_COUNT {
            let is_at_end = size != 0 && archive.position as u64 == size;
            if !is_at_end && archive.is_next(field)? {
                found.read_field(archive, field)?;
            } else if field == 7 {
                found.original_commit_us = found.immediate_commit_us;
            } else if field == 10 {
                found.original_version = found.immediate_version;
            }
        }
        Some(found)
    }

    fn read_field(&mut self, archive: &mut VarintReader<'a>, field: u64) -> Option<()> {
        match field {
            0 => self.flags = archive.small()?,
            1 => {
                for byte in &mut self.uuid {
                    *byte = archive.small()?;
                }
            }
            2 => self.gno = archive.signed()?,
            3 => self.tag = archive.text(TAG_SIZE_MAX)?,
            4 => self.clock.last_committed = archive.signed()?,
            5 => self.clock.sequence_number = archive.signed()?,
            6 => self.immediate_commit_us = archive.number()?,
            7 => self.original_commit_us = archive.number()?,
            8 => self.transaction_size = archive.number()?,
            9 => self.immediate_version = archive.small()?,
            10 => self.original_version = archive.small()?,
            _ => _ = archive.number()?,
        }
        Some(())
    }
}

/// Reads variable-length integers.
struct VarintReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> VarintReader<'a> {
    /// Starts at the event's body.
    fn of(bytes: &'a [u8], format: &LogFormat) -> Option<Self> {
        // mysqlbinlog also cuts four bytes if the format has no checksums.
        let checksum_size = if format.checksum == LogChecksum::Off { 0 } else { 4 };
        let end = bytes.len().checked_sub(checksum_size)?;
        Some(Self { bytes: bytes.get(format.header_size..end)?, position: 0 })
    }

    fn number(&mut self) -> Option<u64> {
        self.number_up_to(u64::MAX)
    }

    /// Reads an integer. The number of trailing one bits in its first byte is the number of bytes after it. `max` limits
    /// the value of those.
    fn number_up_to(&mut self, max: u64) -> Option<u64> {
        let rest = self.bytes.get(self.position..)?;
        let (first, more) = rest.split_first()?;
        let count = first.trailing_ones();
        let low = u64::from(*first).checked_shr(count + 1).unwrap_or(0);
        let mut high = [0; 8];
        high[..count as usize].copy_from_slice(more.get(..count as usize)?);
        let high = u64::from_le_bytes(high) << 7_u32.saturating_sub(count);
        if high > max {
            return None;
        }
        self.position += 1 + count as usize;
        Some(low | high)
    }

    fn small<T: TryFrom<u64> + VarintInteger>(&mut self) -> Option<T> {
        T::try_from(self.number_up_to(T::MAX)?).ok()
    }

    fn signed(&mut self) -> Option<i64> {
        let folded = self.number()?;
        let magnitude = (folded >> 1).cast_signed();
        Some(if folded & 1 == 0 { magnitude } else { !magnitude })
    }

    fn text(&mut self, max: u64) -> Option<&'a [u8]> {
        let size = self.number()?;
        if size > max {
            return None;
        }
        let end = self.position + size as usize;
        let text = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(text)
    }

    /// Returns whether the next field is `field`, and skips its number if so.
    fn is_next(&mut self, field: u64) -> Option<bool> {
        let before = self.position;
        let found = self.number()?;
        if found != field {
            self.position = before;
        }
        Some(found == field)
    }
}

trait VarintInteger {
    const MAX: u64;
}

impl VarintInteger for u8 {
    const MAX: u64 = Self::MAX as u64;
}

impl VarintInteger for u32 {
    const MAX: u64 = Self::MAX as u64;
}

//! Rules of transaction compression: the transactions that a server compresses, and the changes to a log when a
//! transaction is compressed or decompressed.
//!
//! The rules are those of MySQL 8.0.20 to 9.7 (`binlog_cache_data::compress` in `sql/binlog.cc`), applied to the log
//! alone.

use std::fmt;

use crate::error::{DecodeError, DecodeReason, EncodeError};
use crate::event::{Event, EventType};
use crate::events::{FormatDescription, GtidEvent, TransactionPayload};
use crate::format::{EventFormat, Flavour};
use crate::header::{EventFlags, EventOrigin};
use crate::payload::inner_size;
use crate::raw::RawEvent;
use crate::transaction::clock_shift::ClockShift;
use crate::transaction::event_role::EventRole;
use crate::transaction::transaction_outline::{TransactionKind, TransactionOutline};
use crate::write::NextPosition;

/// Reason why a transaction is not compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum CompressionRefusal {
    /// The transaction is compressed already.
    Compressed,
    /// A single statement that commits implicitly, such as DDL.
    SingleStatement,
    /// The second phase of an XA transaction, which is a statement.
    XaFinish,
    /// The transaction has changes in statement format, or none.
    Statements,
    /// The transaction ends with a `COMMIT` statement: it changed a table of a nontransactional engine.
    NonTransactional,
    /// The transaction was rolled back as far as possible.
    RolledBack,
    /// An incident event.
    Incident,
    /// Other events interrupt the transaction, as in relay logs after a reconnect.
    Interrupted,
    /// The transaction has no GTID event: it is from a server without compression.
    NoGtid,
    /// The transaction has an event of a type unknown to this crate.
    UnknownEvent,
}

impl CompressionRefusal {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::Compressed,
        Self::SingleStatement,
        Self::XaFinish,
        Self::Statements,
        Self::NonTransactional,
        Self::RolledBack,
        Self::Incident,
        Self::Interrupted,
        Self::NoGtid,
        Self::UnknownEvent,
    ];
}

impl fmt::Display for CompressionRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Compressed => "compressed already",
            Self::SingleStatement => "a single statement, such as DDL",
            Self::XaFinish => "the second phase of an XA transaction",
            Self::Statements => "changes in statement format, or none",
            Self::NonTransactional => "a nontransactional table",
            Self::RolledBack => "rolled back",
            Self::Incident => "an incident",
            Self::Interrupted => "interrupted by other events",
            Self::NoGtid => "no GTID event",
            Self::UnknownEvent => "an event of unknown type",
        })
    }
}

/// Follows the events of one transaction to find out whether a server would compress the transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompressionCheck {
    has_gtid: bool,
    has_statements: bool,
    has_unknown: bool,
    commits_in_words: bool,
    inner_size: u64,
    inner_events: u64,
}

impl CompressionCheck {
    /// Adds the next event of the transaction.
    ///
    /// # Errors
    ///
    /// Fails if a GTID event cannot be decoded.
    pub fn take(
        &mut self,
        role: EventRole,
        raw: &RawEvent<'_>,
        format: &EventFormat,
    ) -> Result<(), DecodeError> {
        if role == EventRole::Gtid {
            self.has_gtid = true;
            self.has_statements = may_have_statements(&raw.decode(format)?);
            return Ok(());
        }
        self.inner_size += u64::from(inner_size(raw));
        self.inner_events += 1;
        self.has_unknown |= matches!(role, EventRole::Unknown(_));
        self.commits_in_words |= role == EventRole::Commit && raw.event_type() == EventType::Query;
        Ok(())
    }

    /// Returns the total size of the events inside a payload.
    pub const fn inner_size(&self) -> u64 {
        self.inner_size
    }

    /// Returns the number of events inside a payload.
    pub const fn inner_events(&self) -> u64 {
        self.inner_events
    }

    /// Returns the reason why the complete transaction is not compressed; `None` if a server would compress it.
    pub fn refusal(&self, outline: &TransactionOutline) -> Option<CompressionRefusal> {
        let refused_by_kind = match outline.kind {
            TransactionKind::Payload => Some(CompressionRefusal::Compressed),
            TransactionKind::Incident => Some(CompressionRefusal::Incident),
            TransactionKind::Statement => Some(CompressionRefusal::SingleStatement),
            TransactionKind::XaFinished => Some(CompressionRefusal::XaFinish),
            TransactionKind::RolledBack => Some(CompressionRefusal::RolledBack),
            _ => None,
        };
        let whole = outline.end.checked_sub(outline.position) == Some(outline.size);
        let checks = [
            (!self.has_gtid, CompressionRefusal::NoGtid),
            (self.has_unknown, CompressionRefusal::UnknownEvent),
            (!whole, CompressionRefusal::Interrupted),
            (self.commits_in_words, CompressionRefusal::NonTransactional),
            (self.has_statements, CompressionRefusal::Statements),
        ];
        refused_by_kind.or_else(|| checks.iter().find(|(holds, _)| *holds).map(|(_, refusal)| *refusal))
    }
}

fn may_have_statements(gtid: &Event<'_>) -> bool {
    let flags = match gtid {
        Event::Gtid(gtid) | Event::AnonymousGtid(gtid) => u64::from(gtid.flags),
        Event::GtidTagged(gtid) => gtid.flags,
        _ => return true,
    };
    flags & u64::from(GtidEvent::MAY_HAVE_STATEMENTS) != 0
}

impl EventFormat {
    /// Returns true if a log of this format may hold compressed transactions. Readers reject event types beyond those
    /// that the format description counts.
    pub fn knows_payloads(&self) -> bool {
        let count = usize::from(EventType::TransactionPayload.code());
        self.flavour == Flavour::MySql && self.post_header_sizes.len() >= count
    }
}

/// Post-header sizes in the format description of MySQL 8.0.20, the first version with payloads. The last entry is as
/// servers write it, although payloads have no post-header.
const POST_HEADER_SIZES: [u8; 40] = [
    0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 98, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10, 10, 10, 42,
    42, 0, 18, 52, 0, 10, 40,
];

impl<'a> FormatDescription<'a> {
    /// Returns this description extended to count event types up to payloads; `sizes` receives all sizes. Readers
    /// reject event types beyond those that the format description counts.
    #[must_use]
    pub fn with_payloads(&self, sizes: &'a mut Vec<u8>) -> Self {
        sizes.clear();
        sizes.extend_from_slice(self.post_header_sizes);
        let added = POST_HEADER_SIZES.len().saturating_sub(sizes.len()) as u8;
        sizes.extend_from_slice(POST_HEADER_SIZES.get(sizes.len()..).unwrap_or_default());
        // The fixed part of a format description includes these sizes and grows with them.
        if let Some(own) = sizes.get_mut(usize::from(EventType::FormatDescription.code()) - 1) {
            *own = own.wrapping_add(added);
        }
        Self { post_header_sizes: sizes, ..*self }
    }
}

/// Appends a transaction's GTID event with the correct size of the transaction: `bytes_after` bytes of other events
/// follow. Nothing else changes.
///
/// # Errors
///
/// Fails if the event is no GTID event, or cannot be decoded or encoded.
pub fn put_gtid_resized(
    raw: &RawEvent<'_>,
    bytes_after: u64,
    next: NextPosition,
    format: &EventFormat,
    out: &mut Vec<u8>,
) -> Result<(), GtidRewriteError> {
    put_gtid_renumbered(raw, &GtidMove { shift: ClockShift::NONE, bytes_after, next }, format, out)
}

/// Change of a GTID event for another position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtidMove {
    /// Shift of the logical clock.
    pub shift: ClockShift,
    /// Bytes of the transaction's events after the GTID event.
    pub bytes_after: u64,
    /// Position of the next event, for the header.
    pub next: NextPosition,
}

/// Appends a transaction's GTID event like [`put_gtid_resized`], with its logical clock shifted for another file.
///
/// # Errors
///
/// Fails as [`put_gtid_resized`] does.
pub fn put_gtid_renumbered(
    raw: &RawEvent<'_>,
    moved: &GtidMove,
    format: &EventFormat,
    out: &mut Vec<u8>,
) -> Result<(), GtidRewriteError> {
    let GtidMove { shift, bytes_after, next } = *moved;
    let mut event = raw.decode(format)?;
    match &mut event {
        Event::Gtid(gtid) | Event::AnonymousGtid(gtid) => {
            gtid.clock = gtid.clock.map(|clock| shift.apply(clock));
            gtid.settle_transaction_size(bytes_after, raw.checksum())?
        }
        Event::GtidTagged(gtid) => {
            // The numbers have variable length, so the size of the event may change, too.
            gtid.clock = shift.apply(gtid.clock);
            gtid.settle_transaction_size(bytes_after, raw.checksum())?
        }
        _ => {
            let (field, found) = ("event type", u64::from(raw.event_type().code()));
            let reason = DecodeReason::Unexpected { field, found, expected: "33, 34 or 42 (a GTID event)" };
            return Err(DecodeError::new(4, reason).into());
        }
    }
    Ok(event.write(raw.header().origin(), next, format, out)?)
}

/// Error in rewriting a GTID event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GtidRewriteError {
    /// The event cannot be decoded.
    Decode(DecodeError),
    /// The event cannot be encoded.
    Encode(EncodeError),
}

impl fmt::Display for GtidRewriteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => error.fmt(out),
            Self::Encode(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for GtidRewriteError {}

impl From<DecodeError> for GtidRewriteError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl From<EncodeError> for GtidRewriteError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

impl TransactionPayload<'_> {
    /// Returns the header fields that a server gives the payload event after this GTID event: its time and server, no
    /// flags.
    pub const fn origin(gtid: &RawEvent<'_>) -> EventOrigin {
        let header = gtid.header();
        EventOrigin { timestamp: header.timestamp, server_id: header.server_id, flags: EventFlags(0) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};

    use super::{GtidMove, put_gtid_renumbered};
    use crate::event::Event;
    use crate::events::{CommitStamps, FormatDescription, GtidTagged, LogicalClock};
    use crate::format::{ChecksumAlgorithm, EventFormat, Flavour};
    use crate::gtid::{GtidTag, Uuid};
    use crate::header::{EventFlags, EventOrigin};
    use crate::raw::RawEvent;
    use crate::transaction::clock_shift::ClockShift;
    use crate::write::NextPosition;

    #[test]
    fn longer_format_descriptions_state_their_own_size() {
        let mut old = [0; 38];
        old[14] = 57 + 38;
        let description = FormatDescription {
            binlog_version: 4,
            server_version: &[0; 50],
            created: 0,
            header_size: 19,
            post_header_sizes: &old,
            checksum_algorithm: Some(1),
        };
        let mut sizes = Vec::new();
        let longer = description.with_payloads(&mut sizes);
        assert_eq!((longer.post_header_sizes.len(), longer.post_header_sizes[14]), (40, 57 + 40));
    }

    /// Generates sizes around those where a variable-length number grows by a byte, and any others.
    fn size() -> impl Strategy<Value = u64> {
        prop_oneof![
            (1..9_u32, 0..120_u64).prop_map(|(bytes, off)| (1_u64 << (7 * bytes)).saturating_sub(off)),
            any::<u32>().prop_map(u64::from),
        ]
    }

    fn tagged(clock: LogicalClock, tag: &[u8]) -> GtidTagged<'static> {
        let stamps = CommitStamps {
            immediate_commit_us: 1 << 50,
            original_commit_us: 1 << 50,
            transaction_size: Some(0),
            immediate_server_version: Some(90704),
            original_server_version: Some(90704),
            commit_group_ticket: None,
        };
        let (uuid, tag) = (Uuid::from_u128(7), GtidTag::new(tag).unwrap());
        GtidTagged { flags: 0, uuid, tag, gno: 5, clock, stamps, fields_needed: 0, rest: &[] }
    }

    proptest! {
        #[test]
        fn the_size_in_a_tagged_gtid_event_includes_the_event(
            bytes_after in size(), number in 1..i64::MAX / 2, by in 0..i64::MAX / 4, is_summed in any::<bool>(),
        ) {
            let checksum = if is_summed { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::Off };
            let (server_version, post_header_sizes) = (b"9.7.4".to_vec(), Vec::new());
            let format = EventFormat { server_version, post_header_sizes, checksum, flavour: Flavour::MySql };
            let clock = LogicalClock { last_committed: number - 1, sequence_number: number };
            let origin = EventOrigin { timestamp: 1, server_id: 1, flags: EventFlags(0) };
            let mut old = Vec::new();
            Event::GtidTagged(tagged(clock, b"tag")).write(origin, NextPosition::Fixed(0), &format, &mut old).unwrap();
            let raw = RawEvent::new(&old, checksum.for_events()).unwrap();
            let (shift, mut new) = (ClockShift::after(by), Vec::new());
            let moved = GtidMove { shift, bytes_after, next: NextPosition::Fixed(0) };
            put_gtid_renumbered(&raw, &moved, &format, &mut new).unwrap();
            let raw = RawEvent::new(&new, checksum.for_events()).unwrap();
            let Event::GtidTagged(found) = raw.decode(&format).unwrap() else { unreachable!() };
            prop_assert_eq!(found.stamps.transaction_size, Some(bytes_after + new.len() as u64));
            prop_assert_eq!(found.clock, shift.apply(clock));
        }
    }
}

//! Encoded row events.

use std::sync::Arc;

use binlog::events::RowsFlags;
use binlog::{EventChecksum, EventFormat, RawEvent};

/// Table maps and rows events, one after the other, without checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowEvents {
    /// Format to decode the events with; it has no checksums.
    pub format: Arc<EventFormat>,
    /// The encoded events.
    pub bytes: Vec<u8>,
}

impl RowEvents {
    /// Returns the events one by one.
    pub fn events(&self) -> impl Iterator<Item = RawEvent<'_>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let size: [u8; 4] = rest.get(9..13)?.try_into().ok()?;
            let (event, after) = rest.split_at_checked(u32::from_le_bytes(size) as usize)?;
            rest = after;
            RawEvent::new(event, EventChecksum::Absent).ok()
        })
    }

    /// Sets the flag of a rows event that ends its statement.
    pub fn end_statement(event: &mut [u8], format: &EventFormat) {
        let Ok(raw) = RawEvent::new(event, EventChecksum::Absent) else { return };
        // The flags follow the table number, which has six bytes, or four in old logs.
        let number_size = match format.post_header_size(raw.event_type()) {
            Some(6) => 4,
            _ => 6,
        };
        if let Some(flags) = event.get_mut(binlog::HEADER_SIZE + number_size) {
            *flags |= RowsFlags::STATEMENT_END.0 as u8;
        }
    }
}

//! Encoded row events.

use std::sync::Arc;

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
            let (event, behind) = rest.split_at_checked(u32::from_le_bytes(size) as usize)?;
            rest = behind;
            RawEvent::new(event, EventChecksum::Absent).ok()
        })
    }
}

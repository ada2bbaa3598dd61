//! Table maps of a statement that is split into pieces: later pieces need the maps of earlier pieces.

use std::sync::Arc;

use binlog::{DecodeError, DecodeReason, EventType, HEADER_SIZE, RawEvent, RawEventBuf};

/// Maximum number of table maps of one statement: the minimum that [`binlog::TableRegistry`] remembers. A server joins
/// at most 61 tables; triggers and foreign keys add some. Bounds the memory of a statement without an end.
const MAPS_MAX: u64 = 4096;

/// Maximum total size of the table maps of one statement in bytes. A map with all column names and the texts of all
/// ENUMs has one or two megabytes.
const MAPS_SIZE_MAX: u64 = 64 << 20;

/// Table maps of the present statement, in order. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct StatementTableMaps {
    maps: Vec<Arc<RawEventBuf>>,
    size: u64,
}

impl StatementTableMaps {
    /// Adds a table map.
    ///
    /// # Errors
    ///
    /// Fails if the statement has more table maps than any server writes: more than 4096, or more than 64 MiB.
    pub fn push(&mut self, map: &RawEvent<'_>) -> Result<(), DecodeError> {
        let (count, size) = (self.maps.len() as u64 + 1, self.size + map.bytes().len() as u64);
        let refuse = |field, found, max| {
            Err(DecodeError::new(HEADER_SIZE, DecodeReason::OutOfRange { field, found, max }))
        };
        if count > MAPS_MAX {
            return refuse("number of table maps of one statement", count, MAPS_MAX);
        }
        if size > MAPS_SIZE_MAX {
            return refuse("size of the table maps of one statement", size, MAPS_SIZE_MAX);
        }
        debug_assert_eq!(map.event_type(), EventType::TableMap, "ours: no other event is kept");
        self.size = size;
        self.maps.push(Arc::new(map.to_buf()));
        Ok(())
    }

    /// Removes all table maps, at the end of the statement.
    pub fn clear(&mut self) {
        self.maps.clear();
        self.size = 0;
    }

    /// Returns the table maps, in order.
    pub fn iter(&self) -> impl Iterator<Item = RawEvent<'_>> {
        self.maps.iter().map(|map| map.as_raw())
    }
}

#[cfg(test)]
mod tests {
    use binlog::events::TableMap;
    use binlog::{
        ChecksumAlgorithm, Event, EventChecksum, EventFormat, EventOrigin, Flavour, NextPosition, RawEvent,
    };

    use super::StatementTableMaps;

    fn map(optional_size: usize) -> Vec<u8> {
        let format = EventFormat {
            server_version: b"9.7.4".to_vec(),
            post_header_sizes: Vec::new(),
            checksum: ChecksumAlgorithm::Off,
            flavour: Flavour::MySql,
        };
        let map = TableMap {
            table_id: 1,
            flags: 0,
            database: b"d",
            table: b"t",
            column_types: &[3],
            metadata: &[],
            nullable: &[1],
            optional: &vec![0; optional_size],
            flavour: Flavour::MySql,
        };
        let mut bytes = Vec::new();
        Event::TableMap(map)
            .write(EventOrigin::default(), NextPosition::Fixed(0), &format, &mut bytes)
            .unwrap();
        bytes
    }

    #[test]
    fn maps_of_one_statement_are_bounded() {
        let check = |optional_size: usize, expected: &str| {
            let bytes = map(optional_size);
            let raw = RawEvent::new(&bytes, EventChecksum::Absent).unwrap();
            let mut maps = StatementTableMaps::default();
            let error = (0..5000).find_map(|_| maps.push(&raw).err()).unwrap();
            assert_eq!(error.to_string(), expected);
        };
        check(0, "byte 19: number of table maps of one statement is 4097, expected at most 4096");
        check(
            1 << 20,
            "byte 19: size of the table maps of one statement is 67111232, expected at most 67108864",
        );
    }
}

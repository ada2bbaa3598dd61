//! Byte records that are read back in reverse order.

use std::io;
use std::path::Path;

use logs::EncryptedSpool;

/// Byte records that are read back in reverse order: in memory, and beyond a limit in an encrypted temporary file.
///
/// The size of each record follows the record, in four bytes, so that a reader at the end of a record can find its
/// start.
#[derive(Debug)]
pub(crate) struct ReverseSpool {
    spool: EncryptedSpool,
    /// Records that are not in the spool yet.
    tail: Vec<u8>,
}

/// The records, from the last to the first.
#[derive(Debug)]
pub(crate) struct ReverseRecords {
    spool: EncryptedSpool,
    /// Bytes of the spool that end at the end of the next record.
    block: Vec<u8>,
    /// Offset of the block in the spool.
    start: u64,
}

/// Size of a block that is written or read at once. A larger record takes more memory.
const BLOCK_SIZE: usize = 1 << 20;

/// Size of the number after each record.
const NUMBER_SIZE: usize = size_of::<u32>();

impl ReverseSpool {
    /// Creates an empty spool. Beyond `memory_max` bytes, the records go to a temporary file in `directory`.
    pub(crate) fn new_in(directory: &Path, memory_max: usize) -> io::Result<Self> {
        Ok(Self { spool: EncryptedSpool::new_in(directory, memory_max)?, tail: Vec::new() })
    }

    /// Appends a record.
    pub(crate) fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let size = u32::try_from(record.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        self.tail.extend_from_slice(record);
        self.tail.extend_from_slice(&size.to_le_bytes());
        if self.tail.len() >= BLOCK_SIZE {
            self.spool.push(&self.tail)?;
            self.tail.clear();
        }
        Ok(())
    }

    /// Returns the records, the last record first.
    pub(crate) fn into_records(self) -> ReverseRecords {
        let start = self.spool.size();
        ReverseRecords { spool: self.spool, block: self.tail, start }
    }
}

impl ReverseRecords {
    /// Returns the size of the remaining records in bytes, including the size fields.
    pub(crate) const fn remaining(&self) -> u64 {
        self.start + self.block.len() as u64
    }

    /// Reads the next record into `record`. Returns false after the last.
    pub(crate) fn pop(&mut self, record: &mut Vec<u8>) -> io::Result<bool> {
        if self.start == 0 && self.block.is_empty() {
            return Ok(false);
        }
        self.fill(NUMBER_SIZE)?;
        let end = self.block.len() - NUMBER_SIZE;
        let mut size = [0; NUMBER_SIZE];
        size.copy_from_slice(&self.block[end..]);
        self.block.truncate(end);
        let size = u32::from_le_bytes(size) as usize;
        self.fill(size)?;
        let start = self.block.len() - size;
        record.clear();
        record.extend_from_slice(&self.block[start..]);
        self.block.truncate(start);
        Ok(true)
    }

    /// Reads further bytes before the block until the block has at least this size.
    fn fill(&mut self, size: usize) -> io::Result<()> {
        if self.block.len() >= size {
            return Ok(());
        }
        let missing = (size - self.block.len()).max(BLOCK_SIZE) as u64;
        let start = self.start.saturating_sub(missing);
        let mut block = vec![0; (self.start - start) as usize];
        self.spool.read_exact_at(start, &mut block)?;
        block.extend_from_slice(&self.block);
        (self.block, self.start) = (block, start);
        assert!(self.block.len() >= size, "ours: a record is as long as its number says");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::{BLOCK_SIZE, ReverseSpool};

    #[test]
    fn records_are_read_in_reverse_order() {
        let sizes = [0, 1, 70_000, BLOCK_SIZE + 5, 3, 2 * BLOCK_SIZE, 0, 500_000, 7];
        let records: Vec<Vec<u8>> = (0..).zip(sizes).map(|(byte, size)| vec![byte; size]).collect();
        for memory_max in [0, 600_000, usize::MAX] {
            for count in 0..=records.len() {
                let mut spool = ReverseSpool::new_in(&env::temp_dir(), memory_max).unwrap();
                records[..count].iter().for_each(|record| spool.push(record).unwrap());
                let (mut popped, mut record) = (spool.into_records(), Vec::new());
                for expected in records[..count].iter().rev() {
                    assert!(popped.pop(&mut record).unwrap());
                    assert!(record == *expected, "{} bytes instead of {}", record.len(), expected.len());
                }
                assert!(!popped.pop(&mut record).unwrap());
            }
        }
    }
}

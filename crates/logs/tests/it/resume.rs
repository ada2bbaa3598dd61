//! Reading that resumes after damage.

use std::fs;
use std::path::Path;

use binlog::EventType;
use logs::{LogError, LogReader, ReadOutcome};

use crate::log_builder::LogDirectory;

fn sample() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types.binlog")).unwrap()
}

fn offsets(log: &[u8]) -> Vec<(u64, EventType)> {
    let logs = LogDirectory::new();
    logs.write(log);
    let mut reader = LogReader::open(logs.directory.path().join("binlog.000001")).unwrap();
    let mut offsets = Vec::new();
    while let ReadOutcome::Some(event) = reader.next_event().unwrap() {
        offsets.push((event.offset, event.raw.event_type()));
    }
    offsets
}

/// Damages the size of event number `index`. Returns the positions where reading stopped and resumed.
fn damage(log: &[u8], index: usize, size: u32) -> (u64, Option<u64>) {
    damage_of(log, log, index, size)
}

/// Does the same for a log that starts with the bytes of `whole`.
fn damage_of(log: &[u8], whole: &[u8], index: usize, size: u32) -> (u64, Option<u64>) {
    let start = offsets(whole)[index].0 as usize;
    let mut log = log.to_vec();
    log[start + 9..start + 13].copy_from_slice(&size.to_le_bytes());
    let logs = LogDirectory::new();
    logs.write(&log);
    let mut reader = LogReader::open(logs.directory.path().join("binlog.000001")).unwrap();
    let stopped = loop {
        match reader.next_chunk(1) {
            Ok(ReadOutcome::Some(_)) => {}
            Ok(ReadOutcome::End(_)) => break reader.position(),
            Err(LogError::Corrupt { offset, .. }) => break offset,
            Err(error) => panic!("{error}"),
        }
    };
    let resumed = reader.resume_at(|event_type| event_type == EventType::Gtid).unwrap();
    if let Some(resumed) = resumed {
        match reader.next_event().unwrap() {
            ReadOutcome::Some(event) => {
                assert_eq!((event.offset, event.raw.event_type()), (resumed, EventType::Gtid))
            }
            ReadOutcome::End(end) => panic!("{end:?}"),
        }
    }
    (stopped, resumed)
}

#[test]
fn reading_resumes_at_the_next_transaction() {
    let log = sample();
    let offsets = offsets(&log);
    for index in [2, 20, 100] {
        let (start, _) = offsets[index];
        let next = offsets[index + 1..].iter().find(|(_, event_type)| *event_type == EventType::Gtid);
        let expected = (start, next.map(|(offset, _)| *offset));
        assert_eq!(damage(&log, index, 0), expected, "event {index} without a size");
        assert_eq!(damage(&log, index, 1 << 29), expected, "event {index} beyond the end");
    }
}

#[test]
fn resume_finds_nothing_after_the_last_transaction() {
    let log = sample();
    let last = offsets(&log).len() - 1;
    assert_eq!(damage(&log, last, 0).1, None);
}

/// The log has plausible headers with huge sizes everywhere: the search must not read and check an event for each of
/// them.
#[test]
fn false_headers_are_skipped_in_linear_time() {
    let mut log = sample();
    let size = log.len() + (32 << 20);
    while log.len() < size {
        let (start, end) = (log.len() as u32, size as u32);
        log.extend([0, 0, 0, 0, EventType::Gtid.code(), 1, 0, 0, 0]);
        log.extend((end - start).to_le_bytes());
        log.extend(end.to_le_bytes());
        log.extend([0, 0]);
    }
    let last = offsets(&sample()).len() - 1;
    assert_eq!(damage_of(&log, &sample(), last, 0).1, None);
}

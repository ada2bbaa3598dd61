//! Compressed transactions that differ from their headers.

use binlog::events::{PayloadCompression, TransactionPayload};
use binlog::{Event, EventFormat, EventType, PayloadOpener, PayloadWriter, RawEvent, ZstdLevel};
use inspect::verify::FaultKind;

use crate::check;
use crate::edit::Log;

const SAMPLE: &str = "types-compressed.binlog";

/// Returns the events inside a payload event.
fn open(log: &Log, index: usize) -> Vec<Vec<u8>> {
    let payload = log.payload(index);
    let mut opener = PayloadOpener::new();
    let mut events = opener.open(&payload).expect("not a payload");
    let mut inner = Vec::new();
    while let Some(event) = events.next_event().expect("could not read the event") {
        inner.push(event.bytes().to_vec());
    }
    inner
}

/// Replaces the payload. `claimed` returns the size to state, from the real one.
fn close(log: &mut Log, index: usize, inner: &[Vec<u8>], claimed: impl Fn(u64) -> u64) {
    let plain = inner.concat();
    let mut writer = PayloadWriter::new(ZstdLevel::DEFAULT).expect("could not create a writer");
    let frame = writer.frame(&plain).expect("could not compress the frame").to_vec();
    let claimed = claimed(plain.len() as u64);
    let size = frame.len() as u64;
    let fields = TransactionPayload::encode_fields(PayloadCompression::Zstd, size, Some(claimed));
    log.body(index, |body| *body = [fields, frame].concat());
    settle(log, index);
}

fn settle(log: &mut Log, index: usize) {
    log.settle_size(index - 1, index);
    log.settle();
}

#[test]
fn payloads_replaced_by_the_same_events_have_no_faults() {
    let mut log = Log::of_sample(SAMPLE);
    let index = log.find(EventType::TransactionPayload, 3);
    let inner = open(&log, index);
    close(&mut log, index, &inner, |size| size);
    assert_eq!(crate::faults(&log.bytes()), []);
}

#[test]
fn wrong_stated_sizes() {
    let mut log = Log::of_sample(SAMPLE);
    let index = log.find(EventType::TransactionPayload, 3);
    let inner = open(&log, index);
    let size = inner.concat().len();
    close(&mut log, index, &inner, |size| size + 1);
    let detail = format!("the uncompressed size is {size} bytes, but the payload states {}", size + 1);
    check(&log, index, FaultKind::Payload, &detail);
}

#[test]
fn payloads_without_a_commit() {
    let mut log = Log::of_sample(SAMPLE);
    let index = log.find(EventType::TransactionPayload, 3);
    let mut inner = open(&log, index);
    inner.pop();
    close(&mut log, index, &inner, |size| size);
    check(&log, index, FaultKind::Grammar, "found the end of the payload, expected a statement or a commit");
}

#[test]
fn payloads_of_two_transactions() {
    let mut log = Log::of_sample(SAMPLE);
    let index = log.find(EventType::TransactionPayload, 3);
    let inner = open(&log, index);
    let size = inner.concat().len();
    let mut twice = inner.clone();
    twice.push(inner.last().expect("no commit").clone());
    close(&mut log, index, &twice, |size| size);
    let found = crate::faults(&log.bytes());
    let inside = format!("in the event at uncompressed byte {size} of the payload: ");
    assert_eq!(
        found[0].2,
        format!("{inside}found another event, expected the payload's end after its transaction")
    );
    assert!(found.iter().all(|fault| (fault.0, fault.1) == (log.offset(index), FaultKind::Grammar)));
}

#[test]
fn incomplete_rows_in_a_payload() {
    let mut log = Log::of_sample(SAMPLE);
    let index = log.find(EventType::TransactionPayload, 0);
    let mut inner = open(&log, index);
    let rows = inner.iter_mut().find(|event| event[4] == EventType::WriteRows.code()).expect("no rows");
    rows.pop();
    let size = rows.len() as u32;
    rows[9..13].copy_from_slice(&size.to_le_bytes());
    close(&mut log, index, &inner, |size| size);
    let found = crate::faults(&log.bytes());
    assert_eq!((found.len(), found[0].0, found[0].1), (1, log.offset(index), FaultKind::Row), "{found:?}");
}

#[test]
fn corrupt_frames() {
    let mut log = Log::of_sample(SAMPLE);
    let index = log.find(EventType::TransactionPayload, 3);
    log.body(index, |body| {
        let middle = body.len() / 2;
        body[middle..].fill(0xff);
    });
    settle(&mut log, index);
    let found = crate::faults(&log.bytes());
    assert_eq!(
        (found.len(), found[0].0, found[0].1),
        (1, log.offset(index), FaultKind::Payload),
        "{found:?}"
    );
}

#[test]
fn bytes_after_the_payload() {
    let mut log = Log::of_sample(SAMPLE);
    let index = log.find(EventType::TransactionPayload, 3);
    log.body(index, |body| body.extend([0; 3]));
    settle(&mut log, index);
    let detail = "3 bytes follow the payload, expected the event's end";
    check(&log, index, FaultKind::Payload, detail);
}

impl Log {
    fn payload(&self, index: usize) -> TransactionPayload<'_> {
        let raw: RawEvent<'_> = self.raw(index);
        let format: &EventFormat = self.format();
        match raw.decode(format) {
            Ok(Event::TransactionPayload(payload)) => payload,
            other => panic!("{other:?}"),
        }
    }
}

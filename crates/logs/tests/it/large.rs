//! Transaction payloads that are read in pieces.

use binlog::{EventType, PayloadLimits, PayloadOpener};
use logs::{EndOfLog, LogError, LogPiece, LogReader, PayloadEnd, RawPiece, ReadOutcome, TornEvent};

use crate::log_builder::{
    LogDirectory, QUERY, STOP, event, format, format_with_checksums, log, with_checksum,
};

const GTID: u8 = 33;
const PAYLOAD: u8 = 40;
const LARGE: usize = 10_000;

/// Returns a payload event and its inner events, which are incompressible, so that the event is large.
fn payload(trailing: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut state = 1_u32;
    let mut noise = |size: usize| -> Vec<u8> {
        let step = |state: &mut u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (*state >> 24) as u8
        };
        (0..size).map(|_| step(&mut state)).collect()
    };
    let sizes = [10, 300_000, 0, 70, 500_000, 4000];
    let inner: Vec<u8> = sizes.iter().flat_map(|size| event(30, 0, &noise(*size))).collect();
    let mut compressed = Vec::with_capacity(zstd_safe::compress_bound(inner.len()));
    zstd_safe::compress(&mut compressed, &inner, 3).unwrap();
    let mut body = vec![2, 1, 0, 3, 4, 0xfd];
    body.extend(&(inner.len() as u32).to_le_bytes()[..3]);
    body.extend([1, 4, 0xfd]);
    body.extend(&(compressed.len() as u32).to_le_bytes()[..3]);
    body.push(0);
    body.extend(&compressed);
    body.extend(trailing);
    (event(PAYLOAD, 0, &body), inner)
}

/// Bytes of plain events and of the events inside large payloads, the results at the ends of the payloads, and a
/// text of the log's
/// end.
#[derive(Debug, Default, PartialEq)]
struct PiecesRead {
    plain: Vec<u8>,
    inner: Vec<u8>,
    ends: Vec<PayloadEnd>,
    end: String,
}

fn read(mut reader: LogReader, size: usize) -> PiecesRead {
    let mut given = PiecesRead::default();
    let mut opener = PayloadOpener::new();
    given.end = loop {
        match reader.next_piece(size, LARGE) {
            Ok(ReadOutcome::Some(LogPiece::Chunk(chunk))) => given.plain.extend(chunk.bytes()),
            Ok(ReadOutcome::Some(LogPiece::LargePayload(payload))) => {
                let head = payload.head();
                assert_eq!(head.end() - head.offset, u64::from(head.header.size));
                let mut events = payload.open(&mut opener).unwrap();
                let result = loop {
                    match events.next_chunk(size, &mut given.inner) {
                        Ok(0) => break Ok(()),
                        Ok(_) => {}
                        Err(error) => break Err(error),
                    }
                };
                match result.and_then(|()| events.finish()) {
                    Ok(end) => given.ends.push(end),
                    Err(error) => break error.to_string(),
                }
            }
            Ok(ReadOutcome::End(end)) => break format!("{end:?}"),
            Err(error) => break error.to_string(),
        }
    };
    given
}

#[test]
fn large_payloads_are_read_in_pieces() {
    let logs = LogDirectory::new();
    let (payload, inner) = payload(b"");
    let (query, stop) = (event(QUERY, 0, b"x"), event(STOP, 0, b""));
    logs.write(&log(&[format(0), query.clone(), payload.clone(), query.clone(), payload, stop.clone()]));
    for size in [1, 100_000, 10_000_000] {
        let given = read(logs.open(), size);
        assert!(given.plain == [format(0), query.clone(), query.clone(), stop.clone()].concat());
        assert!(given.inner == [&inner[..], &inner].concat());
        assert_eq!(given.end, "Closed");
        for end in &given.ends {
            assert_eq!((end.trailing, end.checksum), (0, Ok(())));
            assert_eq!((end.summary.events, end.summary.is_claim_true()), (6, true));
        }
        assert_eq!(given.ends.len(), 2);
    }
}

#[test]
fn checksums_and_trailing_bytes_are_reported() {
    let logs = LogDirectory::new();
    for trailing in [&b""[..], b"abcdefg"] {
        let (payload, inner) = payload(trailing);
        let mut payload = with_checksum(payload);
        for flip in [0, 1] {
            payload[17] ^= flip;
            let stop = with_checksum(event(STOP, 0, b""));
            logs.write(&log(&[format_with_checksums(), payload.clone(), stop]));
            let given = read(logs.open(), 100_000);
            assert!(given.inner == inner);
            assert_eq!(given.ends[0].trailing, trailing.len() as u64);
            assert_eq!(given.ends[0].checksum.is_err(), flip == 1, "{:?}", given.ends[0].checksum);
        }
    }
}

#[test]
fn incomplete_payloads_are_not_started() {
    let logs = LogDirectory::new();
    let (payload, _) = payload(b"");
    let whole = log(&[format(0), payload]);
    for size in [140, 5000, 100_000, whole.len() - 1] {
        logs.write(&whole[..size]);
        let given = read(logs.open(), 100_000);
        assert!(given.inner.is_empty() && given.ends.is_empty());
        assert!(given.end.starts_with("Torn(TornEvent { offset: 126, "), "{}", given.end);
    }
}

#[test]
fn a_log_that_becomes_shorter_within_a_payload_is_torn() {
    let logs = LogDirectory::new();
    let (payload, _) = payload(b"");
    logs.write(&log(&[format(0), payload.clone()]));
    let mut reader = logs.open();
    assert!(matches!(reader.next_raw_piece(1000, LARGE), Ok(ReadOutcome::Some(RawPiece::Chunk(_)))));
    assert!(matches!(reader.next_raw_piece(1000, LARGE), Ok(ReadOutcome::Some(RawPiece::LargeEvent(_)))));
    logs.write(&log(&[format(0), payload[..payload.len() - 1].to_vec()]));
    let error = reader.read_raw_bytes(usize::MAX, &mut Vec::new()).unwrap_err();
    let expected =
        TornEvent { offset: 126, found: payload.len() - 1, expected: payload.len(), in_use: false };
    assert!(matches!(error, LogError::Torn { torn, .. } if torn == expected), "{error}");
}

#[test]
fn large_events_of_any_type_are_returned_in_pieces() {
    let logs = LogDirectory::new();
    let large = event(QUERY, 0, &vec![7; LARGE]);
    logs.write(&log(&[format(0), large.clone(), event(STOP, 0, b"")]));
    let mut reader = logs.open();
    assert!(matches!(reader.next_raw_piece(1000, LARGE), Ok(ReadOutcome::Some(RawPiece::Chunk(_)))));
    let Ok(ReadOutcome::Some(RawPiece::LargeEvent(header))) = reader.next_raw_piece(1000, LARGE) else {
        panic!("no large event")
    };
    assert_eq!(header.size as usize, large.len());
    let mut bytes = Vec::new();
    reader.read_raw_bytes(usize::MAX, &mut bytes).unwrap();
    assert!(bytes == large);
    assert!(matches!(reader.next_raw_piece(1000, LARGE), Ok(ReadOutcome::Some(RawPiece::Chunk(_)))));
    assert!(matches!(reader.next_raw_piece(1000, LARGE), Ok(ReadOutcome::End(EndOfLog::Closed))));
}

#[test]
fn events_of_an_impossible_size_are_not_large() {
    let logs = LogDirectory::new();
    let mut large = event(QUERY, 0, &vec![7; LARGE]);
    large[9..13].copy_from_slice(&(2_u32 << 30).to_le_bytes());
    logs.write(&log(&[format(0), large]));
    let mut reader = logs.open();
    assert!(matches!(reader.next_raw_piece(1000, LARGE), Ok(ReadOutcome::Some(RawPiece::Chunk(_)))));
    let error = reader.next_raw_piece(1000, LARGE).unwrap_err();
    assert!(matches!(error, LogError::Corrupt { offset: 126, .. }), "{error}");
}

#[test]
fn unread_parts_of_a_payload_are_skipped() {
    let logs = LogDirectory::new();
    let (payload, _) = payload(b"");
    logs.write(&log(&[format(0), payload.clone(), event(STOP, 0, b"")]));
    let mut reader = logs.open();
    let mut opener = PayloadOpener::new();
    for chunks in 0..3 {
        let mut reader = logs.open();
        assert!(matches!(reader.next_piece(1000, LARGE), Ok(ReadOutcome::Some(LogPiece::Chunk(_)))));
        let Ok(ReadOutcome::Some(LogPiece::LargePayload(payload))) = reader.next_piece(1000, LARGE) else {
            panic!("no payload")
        };
        assert_eq!(payload.head().offset, 126);
        let mut events = payload.open(&mut opener).unwrap();
        (0..chunks).for_each(|_| assert!(events.next_chunk(1, &mut Vec::new()).unwrap() == 1));
        assert!(matches!(reader.next_piece(1000, LARGE), Ok(ReadOutcome::Some(LogPiece::Chunk(_)))));
        assert!(matches!(reader.next_piece(1000, LARGE), Ok(ReadOutcome::End(EndOfLog::Closed))));
    }
    // `next_event` returns the whole event.
    assert!(matches!(reader.next_event(), Ok(ReadOutcome::Some(_))));
    let Ok(ReadOutcome::Some(event)) = reader.next_event() else { panic!("no payload") };
    assert!(event.raw.bytes() == payload);
}

#[test]
fn errors_name_the_offset() {
    let logs = LogDirectory::new();
    let (mut payload, _) = payload(b"");
    payload[35..45].fill(0xff);
    logs.write(&log(&[format(0), payload.clone()]));
    let given = read(logs.open(), 1000);
    assert!(given.end.contains("binlog.000001 at 126: in the event at uncompressed byte 0"), "{}", given.end);
    // The payload's size field exceeds the event.
    payload[19..35].copy_from_slice(&[2, 1, 0, 1, 4, 0xfd, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0]);
    logs.write(&log(&[format(0), payload]));
    let given = read(logs.open(), 1000);
    assert!(
        given.end.contains("binlog.000001 at 126: byte 29: expected 16777215 more bytes"),
        "{}",
        given.end
    );
}

#[test]
fn reading_resumes_behind_a_damaged_payload() {
    let logs = LogDirectory::new();
    let (mut payload, _) = payload(b"");
    // The payload's size field exceeds the event.
    payload[19..35].copy_from_slice(&[2, 1, 0, 1, 4, 0xfd, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0]);
    let mut events = vec![format(0), payload, event(QUERY, 0, b"x")];
    let start = log(&events).len() as u32;
    let mut gtid = event(GTID, 0, b"");
    gtid[13..17].copy_from_slice(&(start + 19).to_le_bytes());
    events.push(gtid);
    logs.write(&log(&events));
    let mut reader = logs.open();
    let error = loop {
        match reader.next_piece(1000, LARGE) {
            Ok(ReadOutcome::Some(LogPiece::Chunk(_))) => {}
            Err(error) => break error,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(error, LogError::Corrupt { offset: 126, .. }), "{error}");
    let resumed = reader.resume_at(|event_type| event_type == EventType::Gtid).unwrap();
    assert_eq!(resumed, Some(u64::from(start)));
    let Ok(ReadOutcome::Some(LogPiece::Chunk(chunk))) = reader.next_piece(1000, LARGE) else {
        panic!("no event at {start}")
    };
    assert_eq!(chunk.offset(), u64::from(start));
}

#[test]
fn limits_apply_to_pieces() {
    let logs = LogDirectory::new();
    let (payload, _) = payload(b"");
    logs.write(&log(&[format(0), payload]));
    let mut reader = logs.open();
    let limits = PayloadLimits { event_size_max: 400_000, ..PayloadLimits::default() };
    let mut opener = PayloadOpener::with_limits(limits);
    assert!(matches!(reader.next_piece(1000, LARGE), Ok(ReadOutcome::Some(LogPiece::Chunk(_)))));
    let Ok(ReadOutcome::Some(LogPiece::LargePayload(payload))) = reader.next_piece(1000, LARGE) else {
        panic!("no payload")
    };
    let mut events = payload.open(&mut opener).unwrap();
    let mut out = Vec::new();
    let mut count = 0;
    let error = loop {
        match events.next_chunk(10_000_000, &mut out) {
            Ok(more) => count += more,
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(count, 4);
    assert!(error.contains("event size is 500019, expected at most 400000"), "{error}");
}

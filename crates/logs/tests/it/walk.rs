//! Walks over every sample log: the sizes of the pieces do not change the events.

use std::path::Path;

use binlog::{DecodeReason, Event, PayloadOpener};
use logs::{
    ChunkContext, ContextTracker, EventWalk, InnerPosition, LogReader, LogWalk, PayloadFailure, PieceReader,
    PieceSizes, ReadOutcome, WalkPiece, WalkSource, WalkStep,
};

use crate::log_builder::{LogDirectory, QUERY, STOP, event, format, log};
use crate::samples::samples;

/// Event of a walk: its position, and its bytes.
#[derive(Debug, PartialEq)]
struct SeenEvent {
    offset: u64,
    end: u64,
    inner: Option<InnerPosition>,
    bytes: Vec<u8>,
}

/// Reads the events of a sample without a walk.
fn expected_events(path: &Path) -> Vec<SeenEvent> {
    let (mut reader, mut opener) = (LogReader::open(path).unwrap(), PayloadOpener::new());
    let mut seen = Vec::new();
    while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20).unwrap() {
        for event in chunk.iter() {
            let (offset, end) = (event.offset, event.end());
            seen.push(SeenEvent { offset, end, inner: None, bytes: event.raw.bytes().to_vec() });
            let Ok(Event::TransactionPayload(payload)) = event.raw.decode(chunk.format()) else { continue };
            let mut position = InnerPosition::default();
            let mut inner = opener.open(&payload).unwrap();
            while let Some(raw) = inner.next_event().unwrap() {
                seen.push(SeenEvent { offset, end, inner: Some(position), bytes: raw.bytes().to_vec() });
                position.number += 1;
                position.offset += raw.bytes().len() as u64;
            }
        }
    }
    seen
}

fn pieces(path: &Path, chunk_size: usize, large_size: usize) -> PieceReader {
    let reader = LogReader::open(path).unwrap();
    PieceReader::new(reader, PieceSizes { chunk_size, large_size }, PayloadOpener::new())
}

/// Walks over a log. A large payload's own event has no bytes.
fn walk(mut walk: LogWalk) -> Vec<SeenEvent> {
    let mut seen = Vec::new();
    let mut payload = None;
    while let ReadOutcome::Some(step) = walk.next().unwrap() {
        match step {
            WalkStep::Event(event) => {
                assert_eq!(event.inner.is_some(), payload == Some(event.offset));
                assert_eq!(event.raw.decode(event.format).unwrap().event_type(), event.raw.event_type());
                if event.inner.is_none() && event.raw.event_type() == binlog::EventType::TransactionPayload {
                    payload = Some(event.offset);
                }
                let bytes = event.raw.bytes().to_vec();
                seen.push(SeenEvent { offset: event.offset, end: event.end, inner: event.inner, bytes });
            }
            WalkStep::LargePayload(head) => {
                payload = Some(head.offset);
                assert_eq!(head.stand_in().unwrap().as_raw().event_type(), head.header.event_type);
                seen.push(SeenEvent { offset: head.offset, end: head.end(), inner: None, bytes: Vec::new() });
            }
            WalkStep::PayloadEnd(ended) => {
                assert_eq!(payload.take(), Some(ended.offset));
                let end = ended.result.unwrap();
                assert_eq!((end.trailing, end.checksum, end.summary.is_claim_true()), (0, Ok(()), true));
            }
        }
    }
    seen
}

#[test]
fn sizes_do_not_change_the_events() {
    for path in samples() {
        let mut expected = expected_events(&path);
        for (chunk_size, large_size) in
            [(1 << 20, usize::MAX), (1, usize::MAX), (1 << 20, 0), (1, 0), (5000, 0)]
        {
            if large_size == 0 {
                for event in expected.iter_mut().filter(|event| event.inner.is_none()) {
                    if event.bytes.get(4) == Some(&40) {
                        event.bytes.clear();
                    }
                }
            }
            let log = LogWalk::new(pieces(&path, chunk_size, large_size), EventWalk::default());
            assert!(walk(log) == expected, "{} in pieces of {chunk_size}, {large_size}", path.display());
        }
    }
}

#[test]
fn payloads_can_be_skipped() {
    for path in samples() {
        let is_outer = |event: &&SeenEvent| event.inner.is_none();
        let expected: Vec<u64> =
            expected_events(&path).iter().filter(is_outer).map(|event| event.offset).collect();
        for large_size in [usize::MAX, 0] {
            let mut log = LogWalk::new(pieces(&path, 1000, large_size), EventWalk::default());
            let mut offsets: Vec<u64> = Vec::new();
            while let ReadOutcome::Some(step) = log.next().unwrap() {
                match step {
                    WalkStep::Event(event) if event.inner.is_none() => offsets.push(event.offset),
                    WalkStep::LargePayload(head) => offsets.push(head.offset),
                    // The first event of each payload is seen: skipping starts inside.
                    WalkStep::Event(_) => log.skip_payload(),
                    WalkStep::PayloadEnd(ended) => panic!("a payload was not skipped: {ended:?}"),
                }
            }
            assert_eq!(offsets, expected, "{}", path.display());
        }
    }
}

/// The context that is found by reading backwards from a chunk equals the context after all events before it.
#[test]
fn contexts_do_not_depend_on_the_chunks() {
    let text = |context: &ChunkContext| {
        let ChunkContext { grammar, id, maps, next_position, origin } = context;
        format!("{grammar:?} {id:?} {:?} {next_position} {origin:?}", maps.iter().collect::<Vec<_>>())
    };
    for path in samples() {
        // Every event is a chunk: the contexts at each event's start.
        let mut expected = Vec::new();
        let mut steps = (pieces(&path, 1, 0), ContextTracker::default());
        while let ReadOutcome::Some(piece) = steps.0.next_piece().unwrap() {
            if let WalkPiece::Chunk(chunk) = &piece {
                expected.push((chunk.offset(), text(steps.1.context())));
            }
            steps.1.pass(&piece).unwrap();
        }
        for chunk_size in [300, 5000] {
            let (mut pieces, mut contexts) = (pieces(&path, chunk_size, 0), ContextTracker::default());
            while let ReadOutcome::Some(piece) = pieces.next_piece().unwrap() {
                if let WalkPiece::Chunk(chunk) = &piece {
                    let found = (chunk.offset(), text(contexts.context()));
                    assert!(expected.contains(&found), "{}: {found:?}", path.display());
                }
                contexts.pass(&piece).unwrap();
            }
        }
    }
}

#[test]
fn walks_continue_after_a_corrupt_payload() {
    let logs = LogDirectory::new();
    let (query, stop) = (event(QUERY, 0, b"x"), event(STOP, 0, b""));
    let no_fields = event(40, 0, b"\x01\x02");
    let no_zstd = event(40, 0, &[2, 1, 0, 1, 1, 4, 0, 1, 2, 3, 4]);
    logs.write(&log(&[format(0), no_fields, query.clone(), no_zstd, query, stop]));
    let mut reader = logs.open();
    let (mut walk, mut seen) = (EventWalk::default(), Vec::new());
    while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20).unwrap() {
        let mut steps = walk.start(WalkSource::Chunk(&chunk));
        while let Some(step) = steps.next() {
            seen.push(match step {
                WalkStep::Event(event) => event.raw.event_type().code().to_string(),
                WalkStep::PayloadEnd(ended) => match ended.result.unwrap_err() {
                    PayloadFailure::Event(error) => {
                        format!("event: {}", matches!(error.reason, DecodeReason::Short { .. }))
                    }
                    PayloadFailure::Payload(error) => format!("payload: {}", error.inner_offset),
                },
                WalkStep::LargePayload(head) => panic!("{head:?}"),
            });
        }
    }
    assert_eq!(seen, ["15", "40", "event: true", "2", "40", "payload: 0", "2", "3"]);
}

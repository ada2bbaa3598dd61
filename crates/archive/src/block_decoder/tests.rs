//! Damage behind correct checksums: blocks whose streams are not those of events.

use std::fs;
use std::path::Path;

use binlog::EventType;

use super::BlockDecoder;
use crate::block_frame::{BlockFrame, BlockKind, parse_head};
use crate::event_form::{BodyForm, EventForm, PositionForm};
use crate::log_block::BlockContext;
use crate::stream_codec::StreamCompressor;
use crate::stream_set::{FixedStream, StreamSet};
use crate::varint::{put_sized, put_varint};

/// Number of bytes of the log that the blocks state.
const LOG_SIZE: usize = 1000;

/// Position of the block in its segment.
const OFFSET: u64 = 11;

fn damage(kind: BlockKind, content: &[u8]) -> String {
    let frame = BlockFrame { kind, offset: 4, log_size: LOG_SIZE, content };
    let damage = BlockDecoder::new().decode(&frame, &mut Vec::new()).unwrap_err();
    damage.at(OFFSET).to_string()
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    StreamCompressor::new().compress(bytes, 0, &mut out).unwrap();
    out
}

/// Returns the format description of a sample.
fn description() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/xa.binlog");
    let log = fs::read(path).unwrap();
    let size = u32::from_le_bytes(*log[4 + 9..].first_chunk().unwrap());
    log[4..4 + size as usize].to_vec()
}

/// Checks the error of a block with these streams.
fn check_in(description: &[u8], fill: fn(&mut StreamSet), what: &str) {
    let mut streams = StreamSet::default();
    streams.clear();
    let context = BlockContext { description: description.into(), maps: Vec::new() };
    context.put(streams.of(FixedStream::Context));
    fill(&mut streams);
    let mut content = Vec::new();
    streams.write(&mut StreamCompressor::new(), &mut content).unwrap();
    let expected = format!("the segment is damaged in the block at byte {OFFSET}: {what}");
    assert_eq!(damage(BlockKind::Events, &content), expected);
}

fn check(fill: fn(&mut StreamSet), what: &str) {
    check_in(&description(), fill, what);
}

/// Appends the form of an event that has no form yet.
fn put_form(streams: &mut StreamSet, event_type: u8, position: PositionForm, body: BodyForm) {
    let event_type = EventType::from_code(event_type);
    let form = EventForm { event_type, server_id: 1, flags: 0, position, body };
    streams.put(FixedStream::Form, 0);
    put_sized(streams.of(FixedStream::FormText), &form.encode());
}

/// Appends the header of an event at the time 0.
fn put_event(streams: &mut StreamSet, event_type: u8, body: BodyForm) {
    put_form(streams, event_type, PositionForm::Zero, body);
    streams.put(FixedStream::Timestamp, 0);
}

#[test]
fn events_must_have_a_known_form_and_size() {
    check_in(b"no event", |_| {}, "the format description is invalid");
    check(|_| {}, "a block does not have the stated size");
    check(|streams| streams.put(FixedStream::Form, 5), "a text has an unknown number");
    check(
        |streams| {
            streams.put(FixedStream::Form, 0);
            put_sized(streams.of(FixedStream::FormText), &[0; 5]);
        },
        "an event has an unknown form",
    );
    check(
        |streams| {
            put_form(streams, 16, PositionForm::Zero, BodyForm::Whole);
            put_sized(streams.of(FixedStream::Whole), &[0; 2 * LOG_SIZE]);
        },
        "a block is larger than stated",
    );
    check(
        |streams| {
            put_form(streams, 16, PositionForm::Zero, BodyForm::Xid);
            streams.put_difference(FixedStream::Timestamp, 1 << 40, 0);
        },
        "a time is too large",
    );
    check(|streams| put_event(streams, 16, BodyForm::Xid), "a stream is too short");
    check(|streams| streams.put(FixedStream::Xid, 7), "streams have bytes after the last event");
}

#[test]
fn fields_of_events_must_be_valid() {
    check(
        |streams| {
            put_event(streams, 2, BodyForm::Query);
            streams.put_difference(FixedStream::ThreadId, 1 << 40, 0);
        },
        "a connection number is too large",
    );
    check(
        |streams| {
            put_event(streams, 2, BodyForm::Query);
            streams.put(FixedStream::ThreadId, 0);
            streams.put(FixedStream::ExecTime, 1 << 40);
        },
        "a run time is too large",
    );
    check(
        |streams| {
            put_event(streams, 33, BodyForm::Gtid);
            streams.put(FixedStream::GtidTemplate, 0);
            put_sized(streams.of(FixedStream::GtidTemplateText), b"short");
            for stream in [
                FixedStream::TransactionNumber,
                FixedStream::SequenceNumber,
                FixedStream::LastCommitted,
                FixedStream::ImmediateCommit,
                FixedStream::OriginalCommit,
                FixedStream::TransactionSize,
            ] {
                streams.put(stream, 0);
            }
        },
        "a GTID event is invalid",
    );
}

/// Appends a table map of `d.t`, with one INT, and the form of rows.
fn put_table(streams: &mut StreamSet) {
    put_event(streams, 19, BodyForm::TableMap);
    streams.put(FixedStream::TableMap, 0);
    put_sized(streams.of(FixedStream::TableMapText), b"\x07\0\0\0\0\0\x01\0\x01d\0\x01t\0\x01\x03\0\0");
    put_event(streams, 30, BodyForm::Rows);
}

/// Appends the shape of inserts into a table, by its number.
fn put_shape(streams: &mut StreamSet, table: u8) {
    streams.put(FixedStream::RowShape, 0);
    let shape = [&[table, 30][..], b"\x07\0\0\0\0\0\x01\0\x02\0\x01\x01"].concat();
    put_sized(streams.of(FixedStream::RowShapeText), &shape);
}

#[test]
fn rows_must_have_a_known_shape() {
    check(
        |streams| {
            put_table(streams);
            streams.put(FixedStream::RowShape, 5);
        },
        "rows have an unknown shape",
    );
    check(
        |streams| {
            put_table(streams);
            put_shape(streams, 5);
        },
        "the shape of rows is invalid",
    );
    check(
        |streams| {
            put_table(streams);
            put_shape(streams, 0);
            streams.put(FixedStream::RowCount, 1 << 40);
        },
        "a block is larger than stated",
    );
}

#[test]
fn payloads_must_contain_events() {
    check(
        |streams| {
            put_event(streams, 40, BodyForm::Payload);
            streams.put(FixedStream::Payload, 1 << 20);
        },
        "a payload has unknown settings",
    );
    check(
        |streams| {
            put_payload(streams);
            put_event(streams, 16, BodyForm::Whole);
        },
        "a payload has an impossible event",
    );
    check(
        |streams| {
            put_payload(streams);
            put_form(streams, 16, PositionForm::End, BodyForm::Xid);
            streams.put(FixedStream::Timestamp, 0);
        },
        "an event of a payload has a position",
    );
}

/// Appends the start of a payload with one event, compressed at level 3.
fn put_payload(streams: &mut StreamSet) {
    put_event(streams, 40, BodyForm::Payload);
    streams.put(FixedStream::Payload, 3 << 1);
    streams.put(FixedStream::Payload, 1);
}

#[test]
fn contexts_are_bounded() {
    let mut streams = StreamSet::default();
    streams.clear();
    let out = streams.of(FixedStream::Context);
    put_sized(out, &description());
    put_varint(out, 1 << 40);
    let mut content = Vec::new();
    streams.write(&mut StreamCompressor::new(), &mut content).unwrap();
    assert_eq!(
        damage(BlockKind::Events, &content),
        "the segment is damaged in the block at byte 11: a block depends on too many table maps"
    );
}

/// Returns the error of streams with this directory.
fn directory_damage(directory: &[u8], after: &[u8]) -> String {
    let mut content = Vec::new();
    put_varint(&mut content, directory.len() as u64);
    put_sized(&mut content, &compressed(directory));
    content.extend_from_slice(after);
    damage(BlockKind::Events, &content)
}

#[test]
fn directories_of_streams_are_checked() {
    let check = |directory: &[u8], after: &[u8], what: &str| {
        let expected = format!("the segment is damaged in the block at byte {OFFSET}: {what}");
        assert_eq!(directory_damage(directory, after), expected);
    };
    // Each entry: difference to the number before, size, size of the frame or 0, form or the stream itself.
    check(&[1, 1, 0, b'x', 0, 1, 0, b'x'], b"", "a block has a stream twice");
    check(&[0xff, 0xff, 0x7f, 1, 0, b'x'], b"", "a block has too many streams");
    check(&[1, 0xff, 0xff, 0xff, 0x7f, 0, b'x'], b"", "the streams of a block are too large");
    check(&[1, 1, 0, b'x'], b"more", "bytes follow the streams");
    check(&[1, 5, 3, 9, 9], b"abc", "a stream has an unknown form");
    check(&[1, 5, 3, 0, 0], b"abc", "a stream cannot be decompressed");
    check(&[1, 5, 3], b"abc", "a stream is too short");
    check(&[0xff; 11], b"", "a number is too large");
}

#[test]
fn opaque_blocks_have_the_stated_size() {
    assert_eq!(
        damage(BlockKind::Opaque, &compressed(b"short")),
        "the segment is damaged in the block at byte 11: a stream does not have the stated size"
    );
}

#[test]
fn frames_are_checked() {
    let check = |body: &[u8], what: &str| {
        let checksum = crc32fast::hash(body).to_le_bytes();
        let block = [&(body.len() as u32).to_le_bytes()[..], &checksum, body].concat();
        let error = BlockDecoder::new().decode_one(&block).unwrap_err();
        assert_eq!(error.to_string(), format!("the segment is damaged in the block at byte 0: {what}"));
    };
    check(&[9, 0, 0], "its kind is unknown");
    check(&[1, 0, 0xff, 0xff, 0xff, 0x7f], "its part of the log is too large");
    assert_eq!(
        parse_head([0xff; 8], OFFSET).unwrap_err().to_string(),
        "the segment is damaged in the block at byte 11: a block is too large"
    );
}

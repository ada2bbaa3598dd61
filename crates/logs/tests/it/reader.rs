//! Logs of every shape, read event by event, in chunks, and while they grow.

use std::fs;
use std::io::Write;

use crate::log_builder::{
    ARTIFICIAL, FORMAT, IN_USE, LogDirectory, MAGIC, QUERY, RELAY_LOG, ROTATE, STOP, event, format, log,
};
use logs::{EndOfLog, EventChunk, LogError, LogKind, LogReader, ReadOutcome, TornEvent};
use proptest::prelude::{any, prop_assert_eq, proptest};
use tempfile::TempDir;

/// Events of a log with their log numbers and offsets, and a text of its end.
type EventsRead = (Vec<(u64, u64, Vec<u8>)>, String);

fn read_events(mut reader: LogReader) -> EventsRead {
    let mut events = Vec::new();
    loop {
        match reader.next_event() {
            Ok(ReadOutcome::Some(event)) => events.push((0, event.offset, event.raw.bytes().to_vec())),
            Ok(ReadOutcome::End(end)) => return (events, format!("{end:?}")),
            Err(error) => return (events, name_only(&error)),
        }
    }
}

fn read_chunks(mut reader: LogReader, size: usize) -> EventsRead {
    let mut events = Vec::new();
    loop {
        match reader.next_chunk(size) {
            Ok(ReadOutcome::Some(chunk)) => {
                check_chunk(&chunk, size);
                let number = chunk.log_number();
                events.extend(chunk.iter().map(|event| (number, event.offset, event.raw.bytes().to_vec())));
            }
            Ok(ReadOutcome::End(end)) => return (events, format!("{end:?}")),
            Err(error) => return (events, name_only(&error)),
        }
    }
}

fn check_chunk(chunk: &EventChunk, size: usize) {
    assert!(!chunk.is_empty() && (chunk.bytes().len() <= size || chunk.len() == 1));
    assert_eq!(chunk.iter().flat_map(|event| event.raw.bytes().to_vec()).collect::<Vec<u8>>(), chunk.bytes());
    assert_eq!(chunk.offset(), chunk.get(0).unwrap().offset);
    assert_eq!(chunk.end(), chunk.get(chunk.len() - 1).unwrap().end());
    assert!(chunk.get(chunk.len()).is_none());
    let codes = chunk.iter().skip(1).map(|event| event.raw.event_type().code());
    assert!(codes.into_iter().all(|code| code != FORMAT));
}

/// Returns the message without the directory's name, which differs in each run.
fn name_only(error: &LogError) -> String {
    let text = error.to_string();
    let end = text.find("binlog.0").unwrap();
    let start = text[..end].rfind(' ').map_or(0, |space| space + 1);
    format!("{}{}", &text[..start], &text[end..])
}

fn check(bytes: &[u8], events: &[&[u8]], end: &str) {
    let logs = LogDirectory::new();
    logs.write(bytes);
    let mut offset = 4;
    let mut expected = Vec::new();
    for event in events {
        expected.push((0, offset, event.to_vec()));
        offset += event.len() as u64;
    }
    let expected = (expected, end.to_owned());
    assert_eq!(read_events(logs.open()), expected);
    for size in [1, 19, 100, 200, 1 << 20] {
        assert_eq!(read_chunks(logs.open(), size), expected, "in chunks of {size}");
    }
}

#[test]
fn ends() {
    let (format_open, format_closed) = (format(IN_USE), format(0));
    let (query, stop, rotate) = (event(QUERY, 0, b"x"), event(STOP, 0, b""), event(ROTATE, 0, b"12345678n"));
    let made_up = event(ROTATE, ARTIFICIAL, b"12345678n");
    check(
        &log(&[format_closed.clone(), query.clone(), stop.clone()]),
        &[&format_closed, &query, &stop],
        "Closed",
    );
    check(&log(&[format_closed.clone(), rotate.clone()]), &[&format_closed, &rotate], "Closed");
    check(
        &log(&[format_closed.clone(), made_up.clone()]),
        &[&format_closed, &made_up],
        "Open { in_use: false }",
    );
    check(&log(&[format_open.clone(), query.clone()]), &[&format_open, &query], "Open { in_use: true }");
    check(
        &log(&[format_open.clone(), query[..19].to_vec()]),
        &[&format_open],
        "Torn(TornEvent { offset: 126, found: 19, expected: 20, in_use: true })",
    );
    check(
        &log(&[format_closed.clone(), query[..18].to_vec()]),
        &[&format_closed],
        "Torn(TornEvent { offset: 126, found: 18, expected: 19, in_use: false })",
    );
    check(MAGIC, &[], "Torn(TornEvent { offset: 4, found: 0, expected: 19, in_use: false })");
    check(&MAGIC[..3], &[], "Torn(TornEvent { offset: 0, found: 3, expected: 4, in_use: false })");
    check(&[], &[], "Torn(TornEvent { offset: 0, found: 0, expected: 4, in_use: false })");
}

#[test]
fn ends_of_relay_logs() {
    let own = format(RELAY_LOG);
    let of_source = format(ARTIFICIAL);
    let rotate_of_source = event(ROTATE, 0, b"12345678n");
    let rotate = event(ROTATE, RELAY_LOG, b"12345678n");
    let events = [own, of_source, rotate_of_source, rotate].map(|event| event);
    let slices: Vec<&[u8]> = events.iter().map(Vec::as_slice).collect();
    check(&log(&events), &slices, "Closed");
    check(&log(&events[..3]), &slices[..3], "Open { in_use: false }");
    let logs = LogDirectory::new();
    logs.write(&log(&events));
    let mut reader = logs.open();
    reader.next_event().unwrap();
    assert_eq!(reader.kind(), LogKind::Relay);
}

#[test]
fn faults() {
    let (format, query) = (format(0), event(QUERY, 0, b"x"));
    let mut small = query.clone();
    small[9] = 18;
    let message = "binlog.000001 at 146: byte 9: event size is 18, expected 19 bytes or more";
    check(&log(&[format.clone(), query.clone(), small]), &[&format, &query], message);
    let mut large = query.clone();
    large[12] = 0x41;
    let message = "binlog.000001 at 126: byte 9: event size is 1090519060, expected at most 1073741824";
    check(&log(&[format.clone(), large]), &[&format], message);
    let message =
        "binlog.000001 at 4: byte 4: event type is 2, expected 15 (a format description) as the first event";
    check(&log(&[query]), &[], message);
    let message = "binlog.000001 is not a binary log: it starts with 23 20 61 74; expected fe 62 69 6e";
    check(b"# at 4\n", &[], message);
}

#[test]
fn logs_encrypted_by_mariadb() {
    const START_ENCRYPTION: u8 = 164;
    let (format, start) = (format(0), event(START_ENCRYPTION, 0, &[1; 17]));
    for rest in [&b""[..], b"what cannot be read"] {
        let message = "binlog.000001 is encrypted by MariaDB from 162 on: only its server can read it \
                       (mariadb-binlog --read-from-remote-server)";
        check(&log(&[format.clone(), start.clone(), rest.to_vec()]), &[&format, &start], message);
    }
}

#[test]
fn two_logs_in_one_file_are_refused() {
    let (format, query) = (format(0), event(QUERY, 0, b"one"));
    let one = log(&[format.clone(), query.clone()]);
    let message = "binlog.000001 at 148: a second log starts here, but a file must contain one log: split the file at \
                   this position";
    check(&[one.as_slice(), &one].concat(), &[&format, &query], message);
}

#[test]
fn several_logs_in_one_pipe() {
    let logs = LogDirectory::new();
    let one = log(&[format(0), event(QUERY, 0, b"one"), event(STOP, 0, b"")]);
    let two = log(&[format(IN_USE), event(QUERY, 0, b"two")]);
    // The timestamp of an event of 13 September 2028 has the bytes of the magic number.
    let mut disguised = event(QUERY, 0, b"three");
    disguised[..4].copy_from_slice(MAGIC);
    let three = log(&[format(0), disguised, event(QUERY, 0, b"")]);
    let bytes = [one, two, three].concat();
    let expected = [
        (0, 4, 122),
        (0, 126, 22),
        (0, 148, 19),
        (1, 4, 122),
        (1, 126, 22),
        (2, 4, 122),
        (2, 126, 24),
        (2, 150, 19),
    ];
    for size in [1, 100, 160, 250, 1 << 20] {
        let (events, end) = logs.through_pipe(&bytes, |reader| read_chunks(reader, size));
        let extents: Vec<_> =
            events.iter().map(|(log, offset, bytes)| (*log, *offset, bytes.len())).collect();
        assert_eq!((&extents[..], end.as_str()), (&expected[..], "Open { in_use: false }"));
    }
}

#[test]
fn growing_log() {
    let logs = LogDirectory::new();
    let mut file = logs.write(&[]);
    let mut reader = logs.open();
    let whole = log(&[format(IN_USE), event(QUERY, 0, b"one"), event(STOP, 0, b"")]);
    let mut events = 0;
    for (count, byte) in whole.iter().enumerate() {
        match reader.next_event().unwrap() {
            ReadOutcome::Some(_) => events += 1,
            ReadOutcome::End(EndOfLog::Open { in_use }) => assert_eq!(in_use, events > 0),
            ReadOutcome::End(EndOfLog::Torn(TornEvent { offset, found, .. })) => {
                assert_eq!(offset as usize + found, count)
            }
            ReadOutcome::End(EndOfLog::Closed) => panic!("closed at {count}"),
        }
        file.write_all(&[*byte]).unwrap();
    }
    assert!(matches!(reader.next_event(), Ok(ReadOutcome::Some(_))));
    assert_eq!(events, 2);
    assert!(matches!(reader.next_event(), Ok(ReadOutcome::End(EndOfLog::Closed))));
    assert_eq!(reader.position(), whole.len() as u64);
}

#[test]
fn logs_truncated_while_they_are_read() {
    let logs = LogDirectory::new();
    let file = logs.write(&log(&[format(0), event(QUERY, 0, b"one"), event(QUERY, 0, b"two")]));
    let mut reader = logs.open();
    while let Ok(ReadOutcome::Some(_)) = reader.next_event() {}
    file.set_len(130).unwrap();
    let message = name_only(&reader.next_event().unwrap_err());
    assert_eq!(
        message,
        "binlog.000001 was truncated while it was read: 170 bytes were read, and it has 130 bytes now"
    );
}

#[test]
fn skip_to_continues_at_the_offset() {
    let logs = LogDirectory::new();
    let tail = event(QUERY, 0, &vec![b'x'; 1 << 20]);
    logs.write(&log(&[
        format(0),
        event(QUERY, 0, b"one"),
        event(QUERY, 0, b"two"),
        tail,
        event(STOP, 0, b""),
    ]));
    for (offset, size) in [(126, 22), (148, 22), (170, (1 << 20) + 19), (170 + (1 << 20) + 19, 19)] {
        let mut reader = logs.open();
        assert!(matches!(reader.next_event(), Ok(ReadOutcome::Some(_))));
        reader.skip_to(offset).unwrap();
        assert_eq!(reader.position(), offset);
        let ReadOutcome::Some(event) = reader.next_event().unwrap() else { panic!("no event at {offset}") };
        assert_eq!((event.offset, event.raw.bytes().len()), (offset, size));
    }
    let mut reader = logs.open();
    assert!(matches!(reader.next_event(), Ok(ReadOutcome::Some(_))));
    let message = name_only(&reader.skip_to(2_000_000).unwrap_err());
    assert_eq!(message, "binlog.000001 has 1048784 bytes: position 2000000 is beyond its end");
}

#[test]
fn events_then_chunks() {
    let logs = LogDirectory::new();
    logs.write(&log(&[format(0), event(QUERY, 0, b"one"), event(QUERY, 0, b"two"), event(STOP, 0, b"")]));
    let mut reader = logs.open();
    assert!(matches!(reader.next_event(), Ok(ReadOutcome::Some(_))));
    assert!(matches!(reader.next_event(), Ok(ReadOutcome::Some(_))));
    let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20).unwrap() else { panic!("no chunk") };
    assert_eq!((chunk.offset(), chunk.len(), reader.position()), (148, 2, 189));
    assert!(matches!(reader.next_chunk(1 << 20), Ok(ReadOutcome::End(EndOfLog::Closed))));
}

/// A sparse log of 5 GiB: positions exceed 32 bits.
#[test]
fn positions_beyond_four_gib() {
    let logs = LogDirectory::new();
    let mut file = logs.write(&log(&[format(0)]));
    let large = event(QUERY, 0, &[0; 100_000]);
    let mut head = large[..19].to_vec();
    let size = 1_u32 << 30;
    head[9..13].copy_from_slice(&size.to_le_bytes());
    let mut offset = 126_u64;
    for _ in 0..5 {
        std::os::unix::fs::FileExt::write_all_at(&file, &head, offset).unwrap();
        offset += u64::from(size);
    }
    file.set_len(offset).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
    file.write_all(&event(STOP, 0, b"")).unwrap();
    let mut reader = logs.open();
    assert!(matches!(reader.next_event(), Ok(ReadOutcome::Some(_))));
    reader.skip_to(126 + 5 * u64::from(size)).unwrap();
    let ReadOutcome::Some(event) = reader.next_event().unwrap() else { panic!("no event") };
    assert_eq!((event.offset, event.raw.event_type().code()), (5_368_709_246, STOP));
    assert!(matches!(reader.next_event(), Ok(ReadOutcome::End(EndOfLog::Closed))));
}

#[test]
fn missing_file() {
    let directory = TempDir::new().unwrap();
    let error = LogReader::open(directory.path().join("binlog.000009")).unwrap_err();
    assert_eq!(name_only(&error), "could not open binlog.000009: No such file or directory (os error 2)");
}

proptest! {
    #[test]
    fn any_cut_and_any_chunk_size(
        sizes in proptest::collection::vec(0_usize..300, 0..20),
        length in any::<proptest::sample::Index>(),
        size in 1_usize..2000,
    ) {
        let mut events = vec![format(0)];
        events.extend(sizes.iter().map(|size| event(QUERY, 0, &vec![7; *size])));
        let whole = log(&events);
        let logs = LogDirectory::new();
        fs::write(logs.directory.path().join("binlog.000001"), &whole[..length.index(whole.len() + 1)]).unwrap();
        let (events, end) = read_events(logs.open());
        prop_assert_eq!(read_chunks(logs.open(), size), (events.clone(), end));
        let given: Vec<u8> = events.iter().flat_map(|(_, _, bytes)| bytes.clone()).collect();
        prop_assert_eq!(given.as_slice(), &whole[4..][..given.len()]);
    }
}

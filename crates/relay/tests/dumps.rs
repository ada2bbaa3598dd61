//! Dumps of forms, read by our own client side.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its samples has failed")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use binlog::gtid::GtidSet;
use binlog::{ChecksumAlgorithm, Event, EventType, Framer, FramerOutput, MAGIC, NextPosition};
use relay::{
    AheadPolicy, AnnotationPolicy, DumpEndPolicy, DumpError, DumpMode, DumpOptions, DumpPiece, DumpRequest,
    DumpStep, DumpStream, EventBytes, FormSource, HeartbeatVersion, LogForm, RelayStore, RunPolicy,
    ServedChecksum, SourceGtids, can_find_start, find_start,
};
use wire::{DumpFlags, PositionGaps, SourceEvent, StreamReader};

use common::{FORMS, LOG, Reference, TestStore, form_size, next_log, repeat_log, sample, samples, split};

const SERVED: [ServedChecksum; 3] = [ServedChecksum::Stored, ServedChecksum::None, ServedChecksum::Crc32];

fn options(checksum: ServedChecksum) -> DumpOptions {
    DumpOptions {
        server_id: 77,
        checksum,
        heartbeat_period: Some(Duration::from_secs(10)),
        heartbeat_version: HeartbeatVersion::V2,
        end: DumpEndPolicy::Eof,
        annotations: AnnotationPolicy::Send,
        statement_end_for: None,
        event_size_max: 1 << 30,
        runs: RunPolicy::Single,
    }
}

fn by_position(file: &str, position: u64) -> DumpRequest {
    let (mode, flags) = (DumpMode::Position, DumpFlags::NON_BLOCK);
    DumpRequest { file: file.into(), position, mode, flags, server_id: 9 }
}

fn by_gtids(set: &str) -> DumpRequest {
    let mode = DumpMode::Gtids(set.parse().unwrap());
    DumpRequest { mode, ..by_position("", 4) }
}

fn begin(
    source: &Arc<FormSource>,
    request: &DumpRequest,
    options: DumpOptions,
) -> Result<DumpStream, DumpError> {
    let start = find_start(source, request, options.checksum, SourceGtids::default(), AheadPolicy::Refuse)?;
    Ok(DumpStream::new(Arc::clone(source), &start, request.mode.clone(), options, Instant::now()))
}

/// Sends everything that is available. Returns the events, joined from their pieces.
fn send_all(stream: &mut DumpStream, now: Instant) -> Result<Vec<Vec<u8>>, DumpError> {
    let (mut pieces, mut events) = (Vec::new(), Vec::new());
    loop {
        let step = stream.next(now, &mut pieces)?;
        for piece in pieces.drain(..) {
            join_piece(&piece, &mut events);
        }
        if step != DumpStep::More {
            return Ok(events);
        }
    }
}

fn join_piece(piece: &DumpPiece, events: &mut Vec<Vec<u8>>) {
    if piece.is_first() {
        events.push(Vec::new());
    }
    let event = events.last_mut().unwrap();
    assert_eq!(event.len(), piece.skipped as usize);
    event.extend_from_slice(piece.bytes.as_slice());
    assert_eq!(event.len() == piece.event_size as usize, piece.is_last());
}

fn dump(source: &Arc<FormSource>, request: &DumpRequest, options: DumpOptions) -> Vec<Vec<u8>> {
    send_all(&mut begin(source, request, options).unwrap(), Instant::now()).unwrap()
}

/// Returns the reader of a client that has requested these checksums.
fn client(checksum: ServedChecksum, gaps: PositionGaps) -> StreamReader {
    let algorithm =
        if checksum == ServedChecksum::Crc32 { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::Off };
    StreamReader::new(algorithm, gaps)
}

/// Event that a client received from a log.
#[derive(Debug, PartialEq, Eq)]
struct ReceivedEvent {
    event_type: EventType,
    position: u64,
    body: Vec<u8>,
}

/// Reads a dump as a client, which checks positions and checksums. Returns the events of the logs.
fn receive(reader: &mut StreamReader, events: &[Vec<u8>]) -> Vec<ReceivedEvent> {
    let mut received = Vec::new();
    for event in events {
        if let SourceEvent::Event { event, position } = reader.read(event).unwrap() {
            let (event_type, body) = (event.event_type(), event.body().to_vec());
            received.push(ReceivedEvent { event_type, position, body });
        }
    }
    received
}

#[test]
fn every_form_of_every_sample_reaches_a_client() {
    for path in samples() {
        let log = std::fs::read(&path).unwrap();
        let store = TestStore::new(&[&log]);
        for form in FORMS {
            let source = store.source(form);
            let reference = whole_part(form, &log);
            let (stored, sample_events) = split(&reference);
            for checksum in SERVED {
                let events = dump(&source, &by_position("", 4), options(checksum));
                let mut reader = client(checksum, PositionGaps::None);
                let received = receive(&mut reader, &events);
                let context = format!("{} {form} {checksum:?}", path.display());
                assert_eq!(received.len(), sample_events.len() - 1, "{context}");
                for (event, sample_event) in received.iter().zip(&sample_events[1..]) {
                    let bytes = &reference[sample_event.at as usize..][..sample_event.size];
                    assert_eq!(event.event_type, sample_event.event_type, "{context}");
                    assert_eq!(event.body, bytes[19..bytes.len() - stored.size()], "{context}");
                }
                if checksum == ServedChecksum::Stored {
                    let sent = [&MAGIC[..], &events[1..].concat()].concat();
                    assert!(sent == reference, "{context}");
                }
            }
        }
    }
}

/// The part of a log in a form that can be sent while the log may still grow.
fn whole_part(form: LogForm, log: &[u8]) -> Vec<u8> {
    let store = TestStore::new(&[log]);
    let size = form_size(&store.source(form), LOG) as usize;
    let mut bytes = Reference::new(form, log).bytes;
    bytes.truncate(size);
    bytes
}

#[test]
fn dumps_from_any_event_equal_the_rest_of_the_dump() {
    for name in ["types.binlog", "types-no-checksum.binlog", "types-compressed.binlog"] {
        let log = sample(name);
        let store = TestStore::new(&[&log, &next_log()]);
        for form in FORMS {
            let source = store.source(form);
            let count = split(&Reference::new(form, &log).bytes).1.len() - 1;
            for checksum in SERVED {
                let whole = dump(&source, &by_position(LOG, 4), options(checksum));
                let whole = receive(&mut client(checksum, PositionGaps::None), &whole);
                for index in (0..count).step_by(7) {
                    let from = by_position(LOG, whole[index].position);
                    let events = dump(&source, &from, options(checksum));
                    let rest = receive(&mut client(checksum, PositionGaps::None), &events);
                    assert!(rest == whole[index..], "{name} {form} {checksum:?} {index}");
                    // No position, and no creation time: the replica keeps its temporary tables.
                    assert_eq!((&events[1][13..17], &events[1][71..75]), (&[0; 4][..], &[0; 4][..]));
                }
            }
        }
    }
}

/// Returns the GTIDs of the received transactions.
fn gtids_of(events: &[Vec<u8>]) -> GtidSet {
    let (mut framer, mut set) = (Framer::new(), GtidSet::new());
    for event in events {
        if event[4] == EventType::Rotate.code() && framer.format().is_none() {
            continue;
        }
        if let Ok(FramerOutput::Event(raw)) = framer.next(event)
            && let Some(gtid) = raw.decode(framer.format().unwrap()).unwrap().gtid()
        {
            assert!(set.add(gtid), "{gtid} was sent twice");
        }
    }
    set
}

fn gtid_store() -> TestStore {
    let mut names: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/gtids"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| std::fs::read(path).unwrap().starts_with(&MAGIC))
        .collect();
    names.sort();
    let logs: Vec<Vec<u8>> = names.iter().map(|path| std::fs::read(path).unwrap()).collect();
    TestStore::new(&logs.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

#[test]
fn transactions_that_the_client_has_are_skipped() {
    let store = gtid_store();
    for form in FORMS {
        let source = store.source(form);
        let everything = gtids_of(&dump(&source, &by_position("", 4), options(ServedChecksum::Crc32)));
        assert!(everything.count() > 10, "{everything}");
        for checksum in SERVED {
            for step in 1..5 {
                let mut has = GtidSet::new();
                for gtid in everything.gtids().step_by(step) {
                    has.add(gtid);
                }
                has.add_all(
                    &source.store().head(&LOG.into()).unwrap().unwrap().previous_gtids.clone().unwrap(),
                );
                let events = dump(&source, &by_gtids(&has.to_string()), options(checksum));
                let context = format!("{form} {checksum:?} {step}");
                assert_eq!(gtids_of(&events), everything.difference(&has), "{context}");
                let mut reader = client(checksum, PositionGaps::Skipped);
                receive(&mut reader, &events);
                let last = store_end(&source, checksum);
                assert_eq!((reader.file(), reader.position()), (last.0.as_bytes(), last.1), "{context}");
            }
        }
    }
}

/// Returns the last log, and its end as a client of these checksums sees it.
fn store_end(source: &Arc<FormSource>, checksum: ServedChecksum) -> (Arc<str>, u64) {
    let last = source.store().log_names().unwrap().pop().unwrap();
    let events = dump(source, &by_position(&last, 4), options(checksum));
    let mut reader = client(checksum, PositionGaps::None);
    receive(&mut reader, &events);
    (last, reader.position())
}

#[test]
fn dumps_start_at_the_newest_log_with_all_missing_transactions() {
    let store = gtid_store();
    let source = store.source(LogForm::AsIs);
    let names = source.store().log_names().unwrap();
    for name in &names {
        let head = source.store().head(name).unwrap().unwrap();
        let request = by_gtids(&head.previous_gtids.as_ref().unwrap().to_string());
        let start =
            find_start(&source, &request, ServedChecksum::Crc32, SourceGtids::default(), AheadPolicy::Refuse)
                .unwrap();
        let found = source.store().head(&start.log).unwrap().unwrap();
        assert!(start.log >= *name && found.previous_gtids == head.previous_gtids, "{name} {}", start.log);
        assert!(!start.has_first_transaction, "{name}");
    }
}

#[test]
fn unknown_starts_give_the_servers_errors() {
    let store = gtid_store();
    let source = store.source(LogForm::AsIs);
    let check = |request: DumpRequest, gtids: SourceGtids<'_>, expected: &str| {
        let error = find_start(&source, &request, ServedChecksum::Stored, gtids, AheadPolicy::Refuse)
            .unwrap_err()
            .to_server_error();
        assert_eq!((error.code, error.state.as_str()), (1236, "HY000"));
        assert!(error.message.starts_with(expected), "{}", error.message);
    };
    let none = SourceGtids::default();
    let first_log = "Could not find first log file name in binary log index file";
    check(by_position("binlog.000099", 4), none, first_log);
    check(by_position("../binlog.000001", 4), none, first_log);
    let below = "Client requested source to start replication from position < 4";
    check(by_position(LOG, 3), none, below);
    let past = "Client requested source to start replication from position > file size";
    check(by_position(LOG, 1 << 30), none, past);
    check(by_position(LOG, 5), none, "bogus data in log event");
    let uuid = "5ea5ca5e-0001-4000-8000-000000000001";
    let executed = format!("{uuid}:1-5").parse().unwrap();
    let gtids = SourceGtids { server_uuid: uuid.parse().ok(), executed: Some(&executed), mariadb: None };
    check(by_gtids(&format!("{uuid}:1-6")), gtids, "Replica has more GTIDs than the source has");

    let log = sample("gtids/binlog.000002");
    let purged = TestStore::new(&[&log]);
    let source = purged.source(LogForm::AsIs);
    let error = find_start(&source, &by_gtids(""), ServedChecksum::Stored, none, AheadPolicy::Refuse)
        .unwrap_err()
        .to_server_error();
    let expected = "Cannot replicate because the source purged required binary logs. Replicate the missing";
    assert!(error.message.starts_with(expected), "{}", error.message);
    assert!(error.message.contains("the missing transactions are '"), "{}", error.message);
    let anonymous = TestStore::new(&[&sample("anonymous.binlog")]);
    let source = anonymous.source(LogForm::AsIs);
    let mut stream = begin(&source, &by_gtids(""), options(ServedChecksum::Stored)).unwrap();
    let error = send_all(&mut stream, Instant::now()).unwrap_err().to_server_error();
    let expected =
        "Cannot replicate anonymous transaction when AUTO_POSITION = 1, at file binlog.000001, position";
    assert!(error.message.starts_with(expected), "{}", error.message);
    assert!(error.message.contains("; the first event 'binlog.000001' at 4, the last event read from"));
}

#[test]
fn heartbeats_are_sent_after_the_period() {
    let log = sample("types.binlog");
    let store = TestStore::new(&[&log]);
    for version in [HeartbeatVersion::V1, HeartbeatVersion::V2] {
        let source = store.source(LogForm::Plain);
        let waits = DumpOptions {
            end: DumpEndPolicy::Wait,
            heartbeat_version: version,
            ..options(ServedChecksum::Crc32)
        };
        let mut stream = begin(&source, &by_position(LOG, 4), waits).unwrap();
        let (start, second) = (Instant::now() + Duration::from_secs(1), Duration::from_secs(1));
        let mut reader = client(ServedChecksum::Crc32, PositionGaps::None);
        receive(&mut reader, &send_all(&mut stream, start).unwrap());
        let mut out = Vec::new();
        let wait = stream.next(start + second, &mut out).unwrap();
        assert_eq!((wait, out.len()), (DumpStep::Wait { until: Some(start + 10 * second) }, 0));
        let wait = stream.next(start + 10 * second, &mut out).unwrap();
        assert_eq!((wait, out.len()), (DumpStep::Wait { until: Some(start + 20 * second) }, 1));
        let event = out[0].bytes.as_slice();
        let code = if version == HeartbeatVersion::V1 { 27 } else { 41 };
        assert_eq!((event[4], out[0].end), (code, 0));
        let end = reader.position();
        assert_eq!(reader.read(event).unwrap(), SourceEvent::Heartbeat { position: end });
    }
}

#[test]
fn heartbeats_are_sent_during_a_long_skip() {
    let once = sample("gtids/binlog.000001");
    let once_store = TestStore::new(&[&once]);
    let once_source = once_store.source(LogForm::AsIs);
    let everything = gtids_of(&dump(&once_source, &by_position("", 4), options(ServedChecksum::Crc32)));
    let log = repeat_log(&once, 600 << 10);
    let store = TestStore::new(&[&log]);
    let source = store.source(LogForm::AsIs);
    let waits = DumpOptions { end: DumpEndPolicy::Wait, ..options(ServedChecksum::Crc32) };
    let mut stream = begin(&source, &by_gtids(&everything.to_string()), waits).unwrap();
    let (mut out, mut now, mut reader) =
        (Vec::new(), Instant::now(), client(ServedChecksum::Crc32, PositionGaps::Skipped));
    let mut heartbeats = 0;
    while stream.next(now, &mut out).unwrap() == DumpStep::More {
        now += Duration::from_secs(10);
    }
    for piece in out {
        let read = reader.read(piece.bytes.as_slice()).unwrap();
        heartbeats += u32::from(matches!(read, SourceEvent::Heartbeat { .. }));
    }
    assert!(heartbeats >= 2, "{heartbeats}");
    assert_eq!(reader.position(), log.len() as u64);
}

/// Returns a log with a statement of 700 KB.
fn log_with_large_event(name: &str) -> Vec<u8> {
    let log = sample(name);
    let (checksum, sample_events) = split(&log);
    let mut framer = Framer::new();
    framer.next(&log[MAGIC.len()..]).unwrap();
    let format = framer.format().unwrap().clone();
    let sql: Vec<u8> =
        (0..700_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8 | 1).collect();
    let mut out = log[..MAGIC.len()].to_vec();
    let mut is_done = false;
    for sample_event in sample_events {
        let bytes = &log[sample_event.at as usize..][..sample_event.size];
        let raw = match framer.next(bytes).unwrap() {
            FramerOutput::Event(raw) => raw,
            more => panic!("{more:?}"),
        };
        let next = NextPosition::FromStart(out.len() as u64);
        match raw.decode(&format).unwrap() {
            Event::Query(query) if !is_done && !query.sql.eq_ignore_ascii_case(b"begin") => {
                is_done = true;
                let sql = [b"create table ", sql.as_slice()].concat();
                let query = Event::Query(binlog::events::Query { sql: &sql, ..query });
                query.write(raw.header().origin(), next, &format, &mut out).unwrap();
            }
            _ if sample_event.event_type == EventType::FormatDescription => out.extend_from_slice(bytes),
            _ => common::push_event(&mut out, bytes, checksum),
        }
    }
    assert!(is_done && out.len() > 700_000);
    out
}

#[test]
fn large_events_are_sent_in_pieces() {
    for name in ["types.binlog", "types-no-checksum.binlog"] {
        let log = log_with_large_event(name);
        let store = TestStore::new(&[&log, &next_log()]);
        for form in FORMS {
            let source = store.source(form);
            let expected = Reference::new(form, &log).bytes;
            for checksum in SERVED {
                let events = dump(&source, &by_position(LOG, 4), options(checksum));
                let received = receive(&mut client(checksum, PositionGaps::None), &events);
                let large = received.iter().position(|event| event.body.len() > 700_000).unwrap();
                let next = by_position(LOG, received[large + 1].position);
                let rest = receive(
                    &mut client(checksum, PositionGaps::None),
                    &dump(&source, &next, options(checksum)),
                );
                assert!(rest == received[large + 1..], "{name} {form} {checksum:?}");
                if checksum == ServedChecksum::Stored {
                    let sent = [&MAGIC[..], &events[1..].concat()].concat();
                    assert!(sent.starts_with(&expected), "{name} {form}");
                }
            }
            let small = DumpOptions { event_size_max: 500_000, ..options(ServedChecksum::Stored) };
            let mut stream = begin(&source, &by_position(LOG, 4), small).unwrap();
            let error = send_all(&mut stream, Instant::now()).unwrap_err().to_string();
            let expected =
                "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source";
            assert!(error.starts_with(expected), "{error}");
        }
    }
}

#[test]
fn progress_counts_transactions_from_every_start() {
    let log = sample("gtids-compressed/binlog.000002");
    for form in FORMS {
        let store = TestStore::new(&[&log]);
        let source = store.source(form);
        let reference = whole_part(form, &log);
        let (_, sample_events) = split(&reference);
        let starts: Vec<u64> =
            sample_events.iter().filter(|event| event.starts_transaction).map(|event| event.at).collect();
        for (passed, start) in starts.iter().enumerate() {
            let request = by_position("binlog.000001", *start);
            let mut stream = begin(&source, &request, options(ServedChecksum::Stored)).unwrap();
            let mut pieces = Vec::new();
            stream.next(Instant::now(), &mut pieces).unwrap();
            send_all(&mut stream, Instant::now()).unwrap();
            let progress = stream.session().progress();
            assert_eq!(progress.transactions, starts.len() as u64, "{form} from {passed}");
            assert!(progress.committed_us.is_some_and(|us| us > 1_600_000_000_000_000), "{progress:?}");
            assert_eq!(progress.saved_bytes > 0, form != LogForm::Plain, "{form}: {progress:?}");
            let end = source.known_end("binlog.000001").unwrap();
            assert_eq!(end.transactions, starts.len() as u64, "{form}");
            assert_eq!(
                source.estimate_original("binlog.000001", stream.reader().position()),
                Some(end.original)
            );
        }
    }
}

/// A relay that has lost the end of its logs in a crash, or is late: the client waits, and goes on.
#[test]
fn a_client_ahead_of_the_relay_waits_until_its_position_is_received() {
    let log = sample("gtids/binlog.000001");
    let (_, sample_events) = split(&log);
    let starts: Vec<u64> =
        sample_events.iter().filter(|event| event.starts_transaction).map(|event| event.at).collect();
    let truncated = &log[..starts[1] as usize];
    for form in FORMS {
        let whole = TestStore::new(&[&log, &next_log()]);
        let expected = receive(
            &mut client(ServedChecksum::Crc32, PositionGaps::None),
            &dump(&whole.source(form), &by_position(LOG, 4), options(ServedChecksum::Crc32)),
        );
        let first = expected.iter().position(|event| event.event_type == EventType::Gtid).unwrap();
        let start =
            expected[first..].iter().filter(|event| event.event_type == EventType::Gtid).nth(3).unwrap();
        let store = TestStore::new(&[truncated]);
        let source = store.source(form);
        let waits = DumpOptions { end: DumpEndPolicy::Wait, ..options(ServedChecksum::Crc32) };
        let begin_ahead = |request: &DumpRequest| {
            let none = SourceGtids::default();
            let start = find_start(&source, request, waits.checksum, none, AheadPolicy::Wait).unwrap();
            assert!(start.event.is_none());
            DumpStream::new(Arc::clone(&source), &start, request.mode.clone(), waits, Instant::now())
        };
        let mut stream = begin_ahead(&by_position(LOG, start.position));
        let mut later = begin_ahead(&by_position("binlog.000002", 4));
        let mut lost = begin_ahead(&by_position(LOG, 1 << 30));
        let now = Instant::now();
        for stream in [&mut stream, &mut later, &mut lost] {
            let events = send_all(stream, now).unwrap();
            assert_eq!((events.len(), events[0][4]), (1, EventType::Rotate.code()), "{form}");
            assert!(send_all(stream, now).unwrap().is_empty());
            let heartbeats = send_all(stream, now + Duration::from_secs(11)).unwrap();
            assert_eq!(heartbeats.len(), 1, "{form}");
        }
        store.write(1, &log);
        source.record_growth();
        let mut reader = client(ServedChecksum::Crc32, PositionGaps::Skipped);
        let received = receive(&mut reader, &send_all(&mut stream, now).unwrap());
        assert_eq!(received.first(), Some(start), "{form}");
        assert!(send_all(&mut lost, now).unwrap().is_empty());
        store.write(2, &next_log());
        source.record_growth();
        let error = send_all(&mut lost, now).unwrap_err().to_server_error();
        assert!(
            error
                .message
                .starts_with("Client requested source to start replication from position > file size")
        );
        let events = send_all(&mut later, now).unwrap();
        assert_eq!(events[0][4], EventType::FormatDescription.code(), "{form}");
    }
}

/// The kernel can send bytes from a log's file while the log grows: only those that are never cut off.
#[test]
fn stored_bytes_are_those_of_the_file() {
    use std::os::unix::fs::FileExt as _;
    let count = |store: &TestStore, form: LogForm, expected: &str| {
        let source = store.source(form);
        let mut stream = begin(&source, &by_position(LOG, 4), options(ServedChecksum::Stored)).unwrap();
        let (mut pieces, mut stored) = (Vec::new(), 0);
        while stream.next(Instant::now(), &mut pieces).unwrap() == DumpStep::More {}
        for piece in &pieces {
            let Some(found) = piece.bytes.stored() else { continue };
            let mut bytes = vec![0; piece.bytes.as_slice().len()];
            found.file.read_exact_at(&mut bytes, found.offset).unwrap();
            assert!(bytes == piece.bytes.as_slice(), "{expected}");
            stored += 1;
        }
        assert_eq!(if stored > 0 { "some" } else { "none" }, expected);
        stored
    };
    let (uncompressed, compressed) =
        (sample("gtids/binlog.000001"), sample("gtids-compressed/binlog.000002"));
    count(&TestStore::new(&[&uncompressed]), LogForm::AsIs, "none");
    count(&TestStore::new(&[&uncompressed, &next_log()]), LogForm::Plain, "none");
    let open = count(&TestStore::new(&[&compressed]), LogForm::AsIs, "some");
    let closed = count(&TestStore::new(&[&compressed, &next_log()]), LogForm::AsIs, "some");
    assert!(open < closed);
    let large = TestStore::new(&[&log_with_large_event("types.binlog"), &next_log()]);
    count(&large, LogForm::AsIs, "some");
}

/// Sends a dump up to its error. Returns the events and the error.
fn send_until_error(source: &Arc<FormSource>) -> (Vec<Vec<u8>>, String) {
    let mut stream = begin(source, &by_position(LOG, 4), options(ServedChecksum::Stored)).unwrap();
    let (mut pieces, mut events) = (Vec::new(), Vec::new());
    loop {
        let step = stream.next(Instant::now(), &mut pieces);
        pieces.drain(..).for_each(|piece| join_piece(&piece, &mut events));
        match step {
            Ok(step) => assert_eq!(step, DumpStep::More),
            Err(error) => return (events, error.to_server_error().message),
        }
    }
}

#[test]
fn events_in_front_of_damage_are_sent() {
    let log = repeat_log(&sample("types-compressed.binlog"), 700 << 10);
    let (checksum, sample_events) = split(&log);
    let damages: [fn(&mut [u8]); 2] = [
        // A wrong checksum, which only a form that reads the event notices.
        |event| *event.last_mut().unwrap() ^= 1,
        // Status variables of a statement that are longer than the event.
        |event| event[19 + 11..19 + 13].fill(0xff),
    ];
    let types = [EventType::TransactionPayload, EventType::Query];
    for (number, (damage, event_type)) in damages.into_iter().zip(types).enumerate() {
        for third in 1..3 {
            let middle = (log.len() * third / 3) as u64;
            let damaged = sample_events
                .iter()
                .find(|sample_event| sample_event.at > middle && sample_event.event_type == event_type);
            let damaged = damaged.unwrap();
            let started = sample_events
                .iter()
                .rfind(|sample_event| sample_event.at <= damaged.at && sample_event.starts_transaction);
            let mut bytes = log.clone();
            let event = &mut bytes[damaged.at as usize..][..damaged.size];
            damage(event);
            if number == 1 {
                let next = NextPosition::Fixed((damaged.at + damaged.size as u64) as u32);
                binlog::move_event(event, checksum, next);
            }
            let store = TestStore::new(&[&bytes, &next_log()]);
            for form in FORMS {
                if form == LogForm::AsIs && number == 0 {
                    continue;
                }
                let source = store.source(form);
                // Twice: the second client starts with what the first one has left in memory.
                for _ in 0..2 {
                    let (events, error) = send_until_error(&source);
                    let reference = Reference::new(form, &log);
                    let end = match form {
                        LogForm::AsIs => damaged.at,
                        _ => {
                            let moved =
                                reference.moves.iter().find(|moved| moved.before == started.unwrap().at);
                            moved.unwrap().after
                        }
                    };
                    let sent = [&MAGIC[..], &events[1..].concat()].concat();
                    let context = format!("{number} {third} {form} {} {end}", sent.len());
                    assert!(sent == reference.bytes[..end as usize], "{context}");
                    let expected = format!(
                        "bogus data in log event; the first event '{LOG}' at 4, the last event read from '{LOG}' at {end}, "
                    );
                    assert!(error.starts_with(&expected), "{context}: {error}");
                    assert_eq!(form_size(&source, LOG), end, "{context}");
                }
            }
        }
    }
}

#[test]
fn starts_are_found_once_the_first_log_says_what_is_in_front_of_it() {
    let check = |log: &str, position: DumpMode, gtids: DumpMode, gtids_from: EventType| {
        let log = sample(log);
        let (_, sample_events) = split(&log);
        let store = TestStore::new(&[]);
        let found = |mode: &DumpMode| {
            let opened = RelayStore::open(store.directory.path(), None);
            opened.is_ok_and(|opened| can_find_start(&opened, mode).unwrap())
        };
        assert!(!found(&position) && !found(&gtids));
        for sample_event in &sample_events[..4] {
            let end = sample_event.at as usize + sample_event.size;
            store.write(1, &log[..end]);
            let expected = sample_events
                .iter()
                .any(|known| known.event_type == gtids_from && known.at <= sample_event.at);
            assert_eq!((found(&position), found(&gtids)), (true, expected), "{:?}", sample_event.event_type);
        }
    };
    let gtids = DumpMode::Gtids(GtidSet::new());
    check("types.binlog", DumpMode::Position, gtids.clone(), EventType::PreviousGtids);
    check("mariadb.binlog", DumpMode::Position, gtids, EventType::MariadbGtidList);
}

#[test]
fn runs_have_the_same_events_and_transactions_as_single_events() {
    let store = gtid_store();
    let everything = "00000000-0000-0000-0000-000000000000:1";
    for form in FORMS {
        let source = store.source(form);
        for checksum in SERVED {
            for request in [by_position("", 4), by_gtids(everything)] {
                let send = |runs| {
                    let options = DumpOptions { runs, ..options(checksum) };
                    let mut stream = begin(&source, &request, options).unwrap();
                    let (mut pieces, mut sent) = (Vec::new(), Vec::new());
                    while stream.next(Instant::now(), &mut pieces).unwrap() == DumpStep::More {
                        sent.extend(stream.take_sent());
                    }
                    let bytes: Vec<u8> =
                        pieces.iter().flat_map(|piece| piece.bytes.as_slice().to_vec()).collect();
                    let transactions: u32 = pieces.iter().map(|piece| piece.transactions).sum();
                    let runs =
                        pieces.iter().filter(|piece| matches!(piece.bytes, EventBytes::Run { .. })).count();
                    assert_eq!(sent.len(), transactions as usize);
                    assert!(pieces.iter().all(|piece| piece.is_first() && piece.is_last()));
                    (bytes, transactions, pieces.last().unwrap().end, *stream.session().progress(), runs)
                };
                let (single, joined) = (send(RunPolicy::Single), send(RunPolicy::Joined));
                let context = format!("{form} {checksum:?}");
                assert!(single.0 == joined.0, "{context}");
                assert_eq!((single.1, single.2, single.3), (joined.1, joined.2, joined.3), "{context}");
                assert_eq!((single.4, joined.4 > 0), (0, checksum != ServedChecksum::None), "{context}");
            }
        }
    }
}

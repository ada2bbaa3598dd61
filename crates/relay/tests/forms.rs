//! Forms of every sample log: the same bytes as `rewrite` writes, however the log grows and wherever reading
//! starts.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its samples has failed")]

mod common;

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use binlog::events::RowsQuery;
use binlog::{Event, EventChecksum, EventType, Framer, MAGIC, NextPosition, RawEvent};
use relay::{FormRead, FormReader, LogForm, ReaderStep, RelayError, ServedChecksum, StatementInterrupt};

use common::{
    FORMS, LOG, Reference, TestNumbers, TestStore, form_size, next_log, push_event, read_on, repeat_log,
    sample, samples, split,
};

#[test]
fn forms_have_the_bytes_that_rewrite_writes() {
    for path in samples() {
        let log = std::fs::read(&path).unwrap();
        let store = TestStore::new(&[&log, &next_log()]);
        for form in FORMS {
            let mut reader = FormReader::new(store.source(form), LOG.into());
            let found = read_on(&mut reader);
            let expected = Reference::new(form, &log).bytes;
            assert!(found == expected[MAGIC.len()..], "{} {form}", path.display());
            assert_eq!(&**reader.log(), "binlog.000002", "{} {form}", path.display());
        }
    }
}

#[test]
fn growing_logs_give_the_same_bytes() {
    let mut numbers = TestNumbers::new();
    for path in samples() {
        let log = std::fs::read(&path).unwrap();
        for form in FORMS {
            let store = TestStore::new(&[&[]]);
            let source = store.source(form);
            let mut reader = FormReader::new(Arc::clone(&source), LOG.into());
            let expected = Reference::new(form, &log).bytes;
            let (mut found, mut written) = (Vec::new(), 0);
            let mut file =
                std::fs::File::options().append(true).open(store.directory.path().join(LOG)).unwrap();
            while written < log.len() {
                let end = log.len().min(written + 1 + numbers.below(1 + log.len() / 8));
                file.write_all(&log[written..end]).unwrap();
                written = end;
                // Without this, a reader at the end does not look for new events.
                source.record_growth();
                found.extend(read_on(&mut reader));
                assert!(expected[MAGIC.len()..].starts_with(&found), "{} {form} {end}", path.display());
            }
            store.write(2, &next_log());
            source.record_growth();
            found.extend(read_on(&mut reader));
            assert!(found == expected[MAGIC.len()..], "{} {form}", path.display());
        }
    }
}

#[test]
fn only_whole_transactions_are_rendered() {
    let log = sample("types.binlog");
    let (_, sample_events) = split(&log);
    let inside =
        sample_events.iter().rfind(|sample_event| sample_event.event_type == EventType::Xid).unwrap().at
            as usize;
    let start = sample_events
        .iter()
        .rfind(|sample_event| sample_event.starts_transaction && sample_event.at < inside as u64)
        .unwrap()
        .at;
    let store = TestStore::new(&[&log[..inside + 10]]);
    let plain = read_on(&mut FormReader::new(store.source(LogForm::Plain), LOG.into()));
    assert_eq!(plain.len() + MAGIC.len(), start as usize);
    let stored = read_on(&mut FormReader::new(store.source(LogForm::AsIs), LOG.into()));
    assert_eq!(stored.len() + MAGIC.len(), inside);
}

#[test]
fn reading_from_any_transaction_gives_the_rest() {
    for name in
        ["types.binlog", "large.binlog", "types-compressed.binlog", "mariadb.binlog", "gtids/binlog.000001"]
    {
        let path = samples().into_iter().find(|path| path.ends_with(name));
        let Some(path) = path else { continue };
        let log = repeat_log(&std::fs::read(path).unwrap(), 400 << 10);
        let store = TestStore::new(&[&log, &next_log()]);
        for form in FORMS {
            let reference = Reference::new(form, &log);
            for round in 0..2 {
                // The second round starts with the indexes of the first one.
                let source = store.source(form);
                let mut numbers = TestNumbers::new();
                for _ in 0..10 {
                    let moved = reference.moves[numbers.below(reference.moves.len())];
                    let start = source.locate(&LOG.into(), moved.after, ServedChecksum::Stored).unwrap();
                    assert_eq!(start.position, moved.after);
                    let mut reader = FormReader::start_at(Arc::clone(&source), LOG.into(), start);
                    let found = read_on(&mut reader);
                    assert!(
                        found == reference.bytes[moved.after as usize..],
                        "{name} {form} {round} {moved:?}"
                    );
                    let there = source.rendered_position(&LOG.into(), moved.before).unwrap();
                    assert_eq!(
                        (there.original, there.rendered),
                        (moved.before, moved.after),
                        "{name} {form}"
                    );
                    let back = source.stored_position(&LOG.into(), moved.after).unwrap();
                    assert_eq!(back, there, "{name} {form}");
                }
                assert_eq!(form_size(&source, LOG), reference.bytes.len() as u64);
                source.save_indexes().unwrap();
                let saved = source.indexed_size(&LOG.into()).unwrap();
                assert_eq!((saved.bytes, saved.is_whole), (reference.bytes.len() as u64, true));
                assert!(
                    store.cache.path().join(form.to_string().replace(':', "-")).exists(),
                    "{name} {form}"
                );
            }
        }
    }
}

#[test]
fn positions_between_events_are_refused() {
    let log = sample("types.binlog");
    let store = TestStore::new(&[&log, &next_log()]);
    for form in FORMS {
        let reference = Reference::new(form, &log).bytes;
        let (checksum, sample_events) = split(&reference);
        let source = store.source(form);
        for served in [ServedChecksum::Stored, ServedChecksum::None, ServedChecksum::Crc32] {
            let size = match (served, checksum) {
                (ServedChecksum::None, EventChecksum::Crc32) => 4,
                _ => 0,
            };
            for (sample_event, number) in sample_events.iter().zip(0_u64..) {
                let seen = sample_event.at - number.saturating_sub(1) * size;
                let found = source.locate(&LOG.into(), seen, served).unwrap();
                assert_eq!(found.position, sample_event.at, "{form} {served:?}");
                assert_eq!(found.events_before, number.saturating_sub(1), "{form} {served:?}");
                let inside = source.locate(&LOG.into(), seen + 7, served).unwrap_err();
                let is_right = matches!(inside, RelayError::NotAnEvent { before, .. } if before == seen);
                assert!(is_right, "{form} {served:?} {inside}");
            }
            let end = reference.len() as u64 - (sample_events.len() as u64 - 1) * size;
            assert_eq!(source.locate(&LOG.into(), end, served).unwrap().position, reference.len() as u64);
            let past = source.locate(&LOG.into(), end + 1, served).unwrap_err();
            assert!(matches!(past, RelayError::PastEnd { size, .. } if size == end), "{past}");
        }
    }
}

#[test]
fn different_logs_of_the_same_name_have_different_indexes() {
    let log = repeat_log(&sample("types.binlog"), 300 << 10);
    let store = TestStore::new(&[&log, &next_log()]);
    let source = store.source(LogForm::Plain);
    form_size(&source, LOG);
    source.save_indexes().unwrap();
    let other = repeat_log(&sample("types-compressed.binlog"), 300 << 10);
    let (_, sample_events) = split(&log);
    let shorter = &log[..sample_events[sample_events.len() / 2].at as usize];
    for other in [other.as_slice(), shorter] {
        store.write(1, other);
        let source = store.source(LogForm::Plain);
        assert_eq!(source.indexed_size(&LOG.into()).unwrap().bytes, 4);
        let size = Reference::new(LogForm::Plain, other).bytes.len() as u64;
        assert_eq!(form_size(&source, LOG), size);
    }
}

#[test]
fn indexes_are_saved_after_a_failure() {
    let store = TestStore::new(&[&repeat_log(&sample("types.binlog"), 300 << 10), &next_log()]);
    let source = store.source(LogForm::Plain);
    // A file in place of the directory makes saving fail.
    let directory = store.cache.path().join("plain");
    std::fs::write(&directory, "").unwrap();
    form_size(&source, LOG);
    source.save_indexes().unwrap_err();
    std::fs::remove_file(&directory).unwrap();
    source.save_indexes().unwrap();
    assert!(directory.join(format!("{LOG}.positions")).exists());
}

/// After a request to end the statement, no further chunk is rendered. The next call continues there.
#[test]
fn sizes_of_long_logs_are_interrupted() {
    let log = repeat_log(&sample("types.binlog"), 2 << 20);
    let store = TestStore::new(&[&log, &next_log()]);
    let source = store.source(LogForm::Plain);
    let checks = AtomicU64::new(0);
    let interrupt = StatementInterrupt::new(move || checks.fetch_add(1, Ordering::Relaxed) == 3);
    let error = source.form_size(&LOG.into(), &interrupt).unwrap_err();
    assert!(matches!(error, RelayError::Interrupted), "{error}");
    let rendered = source.cost().bytes;
    let whole = Reference::new(LogForm::Plain, &log).bytes.len() as u64;
    assert!((1..whole / 2).contains(&rendered), "{rendered} of {whole} bytes");
    assert_eq!(source.form_size(&LOG.into(), &interrupt).unwrap(), whole);
}

/// A relay that starts does not open the logs whose indexes it has.
#[test]
fn indexes_of_purged_logs_are_removed_after_a_restart() {
    let log = repeat_log(&sample("types.binlog"), 300 << 10);
    let store = TestStore::new(&[&log, &log, &next_log()]);
    let source = store.source(LogForm::Plain);
    let index = |log: &str| store.cache.path().join("plain").join(format!("{log}.positions"));
    for log in [LOG, "binlog.000002"] {
        form_size(&source, log);
    }
    source.save_indexes().unwrap();
    assert!(index(LOG).exists() && index("binlog.000002").exists());
    std::fs::remove_file(store.directory.path().join(LOG)).unwrap();
    store.source(LogForm::Plain).forget_purged().unwrap();
    assert!(!index(LOG).exists() && index("binlog.000002").exists());
}

#[test]
fn logs_replaced_while_they_are_served() {
    let log = repeat_log(&sample("types.binlog"), 2 << 20);
    let compressed = Reference::new(LogForm::Compressed(common::LEVEL), &log).bytes;
    let store = TestStore::new(&[&log, &next_log()]);
    let source = store.source_with(LogForm::Plain, 1 << 20);
    let mut reader = FormReader::new(Arc::clone(&source), LOG.into());
    let ReaderStep::Events { chunk, .. } = reader.read_next().unwrap() else {
        panic!("the log has no events")
    };
    let replace = |bytes: &[u8]| {
        let other = store.cache.path().join("new");
        std::fs::write(&other, bytes).unwrap();
        std::fs::rename(other, store.directory.path().join(LOG)).unwrap();
    };
    // The same log, compressed in place: its plain form is the same.
    replace(&compressed);
    source.locate(&LOG.into(), 4, ServedChecksum::Stored).unwrap();
    let found = [&MAGIC[..], chunk.bytes(), &read_on(&mut reader.clone())].concat();
    assert!(found == Reference::new(LogForm::Plain, &log).bytes);
    // A different log: none of its events may follow the first one's.
    replace(&repeat_log(&sample("types-full-metadata.binlog"), 2 << 20));
    source.locate(&LOG.into(), 4, ServedChecksum::Stored).unwrap();
    let error = reader.read_next().unwrap_err();
    assert!(matches!(error, RelayError::Changed { .. } | RelayError::PastEnd { .. }), "{error}");
}

/// The form `as-is` of a compressed log has other positions, although the format description is the same.
#[test]
fn readers_of_the_stored_form_notice_a_compression() {
    let log = repeat_log(&sample("types.binlog"), 6 << 20);
    let compressed = Reference::new(LogForm::Compressed(common::LEVEL), &log).bytes;
    let store = TestStore::new(&[&log, &next_log()]);
    let source = store.source_with(LogForm::AsIs, 1 << 20);
    let mut reader = FormReader::new(Arc::clone(&source), LOG.into());
    assert!(matches!(reader.read_next().unwrap(), ReaderStep::Events { .. }));
    let other = store.cache.path().join("new");
    std::fs::write(&other, &compressed).unwrap();
    std::fs::rename(other, store.directory.path().join(LOG)).unwrap();
    // Another client reads the new file.
    source.locate(&LOG.into(), 4, ServedChecksum::Stored).unwrap();
    let error = loop {
        match reader.read_next() {
            Ok(ReaderStep::Events { .. }) => {}
            Ok(step) => panic!("{step:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, RelayError::Changed { .. }), "{error}");
}

#[test]
fn the_cache_is_limited_and_shared() {
    const LIMIT: usize = 1 << 20;
    let log = repeat_log(&sample("types.binlog"), 6 << 20);
    let store = TestStore::new(&[&log, &next_log()]);
    for form in FORMS {
        let expected = Reference::new(form, &log).bytes;
        let source = store.source_with(form, LIMIT);
        let mut slow = FormReader::new(Arc::clone(&source), LOG.into());
        let mut slow_bytes = Vec::new();
        let take = |reader: &mut FormReader, bytes: &mut Vec<u8>| match reader.read_next().unwrap() {
            ReaderStep::Events { chunk, first } => {
                bytes.extend_from_slice(&chunk.bytes()[chunk.slices()[first].range().start..]);
                assert!(source.cached_bytes() <= LIMIT, "{form}: {}", source.cached_bytes());
                true
            }
            _ => false,
        };
        take(&mut slow, &mut slow_bytes);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut reader = FormReader::new(Arc::clone(&source), LOG.into());
                    let mut bytes = Vec::new();
                    while take(&mut reader, &mut bytes) {}
                    assert!(bytes == expected[MAGIC.len()..], "{form}");
                });
            }
        });
        // Its chunk is no longer in memory.
        while take(&mut slow, &mut slow_bytes) {}
        assert!(slow_bytes == expected[MAGIC.len()..], "{form}");
        let read = |source: &relay::FormSource| match source.read(&LOG.into(), 4).unwrap() {
            FormRead::Chunk(chunk) => chunk,
            other => panic!("{other:?}"),
        };
        assert!(Arc::ptr_eq(&read(&source), &read(&source)));
    }
}

/// A log with one transaction of `size` bytes.
fn huge_transaction(size: usize) -> Vec<u8> {
    let log = sample("types.binlog");
    let (checksum, sample_events) = split(&log);
    let at = |expected: EventType| {
        sample_events.iter().position(|sample_event| sample_event.event_type == expected).unwrap()
    };
    let map = at(EventType::TableMap);
    let start =
        sample_events[..map].iter().rposition(|sample_event| sample_event.starts_transaction).unwrap();
    let end = map
        + sample_events[map..]
            .iter()
            .position(|sample_event| sample_event.event_type == EventType::Xid)
            .unwrap();
    let event = |index: usize| &log[sample_events[index].at as usize..][..sample_events[index].size];
    let mut out = log[..sample_events[start].at as usize].to_vec();
    (start..map).for_each(|index| push_event(&mut out, event(index), checksum));
    while out.len() < size {
        (map..end).for_each(|index| push_event(&mut out, event(index), checksum));
    }
    push_event(&mut out, event(end), checksum);
    for sample_event in sample_events[end + 1..].iter() {
        push_event(&mut out, &log[sample_event.at as usize..][..sample_event.size], checksum);
    }
    out
}

#[test]
fn transactions_beyond_memory_have_the_same_bytes() {
    let plain = huge_transaction(20 << 20);
    let compressed = Reference::new(LogForm::Compressed(common::LEVEL), &plain).bytes;
    assert!(compressed.len() < plain.len() / 2, "{} of {}", compressed.len(), plain.len());
    for log in [plain, compressed] {
        let store = TestStore::new(&[&log, &next_log()]);
        for form in FORMS {
            let found = read_on(&mut FormReader::new(store.source(form), LOG.into()));
            let expected = Reference::new(form, &log).bytes;
            assert!(found == expected[MAGIC.len()..], "{form}");
        }
    }
}

/// A log whose first transaction with rows also has a text that is 900 KB when it is compressed.
fn log_with_long_text() -> Vec<u8> {
    let log = sample("types-rows-query.binlog");
    let (checksum, sample_events) = split(&log);
    let mut framer = Framer::new();
    framer.next(&log[MAGIC.len()..]).unwrap();
    let format = framer.format().unwrap().clone();
    let mut numbers = TestNumbers::new();
    let text: Vec<u8> = (0..1_200_000).map(|_| numbers.below(64) as u8).collect();
    let mut out = log[..sample_events[1].at as usize].to_vec();
    let mut is_done = false;
    for sample_event in &sample_events[1..] {
        let bytes = &log[sample_event.at as usize..][..sample_event.size];
        let is_text = !is_done && sample_event.event_type == EventType::RowsQuery;
        match RawEvent::new(bytes, checksum).unwrap().decode(&format).unwrap() {
            Event::RowsQuery(query) if is_text => {
                is_done = true;
                let origin = RawEvent::new(bytes, checksum).unwrap().header().origin();
                let query = Event::RowsQuery(RowsQuery { sql: &text, ..query });
                let next = NextPosition::FromStart(out.len() as u64);
                query.write(origin, next, &format, &mut out).unwrap();
            }
            _ => push_event(&mut out, bytes, checksum),
        }
    }
    assert!(is_done);
    out
}

#[test]
fn large_payloads_are_served_in_pieces() {
    let plain = log_with_long_text();
    let compressed = Reference::new(LogForm::Compressed(common::LEVEL), &plain).bytes;
    let (_, sample_events) = split(&compressed);
    let is_large = |sample_event: &&common::SampleEvent| {
        sample_event.event_type == EventType::TransactionPayload && sample_event.size > 700_000
    };
    let large = *sample_events.iter().find(is_large).unwrap();
    // Truncated within the payload, and whole.
    let inside = large.at as usize + 300_000;
    let store = TestStore::new(&[&compressed[..inside]]);
    let source = store.source(LogForm::AsIs);
    let mut reader = FormReader::new(Arc::clone(&source), LOG.into());
    let mut found = read_on(&mut reader);
    assert_eq!(found.len() + MAGIC.len(), large.at as usize);
    let mut file = std::fs::File::options().append(true).open(store.directory.path().join(LOG)).unwrap();
    file.write_all(&compressed[inside..]).unwrap();
    source.record_growth();
    found.extend(read_on(&mut reader));
    assert!(found == compressed[MAGIC.len()..]);
    for form in FORMS {
        let found = read_on(&mut FormReader::new(store.source(form), LOG.into()));
        assert!(found == Reference::new(form, &compressed).bytes[MAGIC.len()..], "{form}");
        let end = large.at + large.size as u64;
        if form != LogForm::Plain {
            let start = source.locate(&LOG.into(), end, ServedChecksum::Stored).unwrap();
            assert_eq!(start.position, end);
            assert!(source.locate(&LOG.into(), large.at + (256 << 10), ServedChecksum::Stored).is_err());
        }
    }
}

#[test]
fn incomplete_heads_are_waited_for_only_in_the_newest_log() {
    let log = sample("types.binlog");
    for size in [0, 3, MAGIC.len(), 60] {
        let store = TestStore::new(&[&log[..size]]);
        for form in FORMS {
            let source = store.source(form);
            let read = source.read(&LOG.into(), 4).unwrap();
            assert!(matches!(read, FormRead::Pending), "{form} {size}: {read:?}");
        }
        store.write(2, &next_log());
        for form in FORMS {
            let error = store.source(form).read(&LOG.into(), 4).unwrap_err();
            assert!(matches!(error, RelayError::NoFormat { .. }), "{form} {size}: {error}");
        }
    }
}

#[test]
fn two_logs_in_one_file_are_refused() {
    let log = sample("types.binlog");
    let both = [log.as_slice(), &next_log()].concat();
    let store = TestStore::new(&[&both, &next_log()]);
    for form in FORMS {
        let mut reader = FormReader::new(store.source(form), LOG.into());
        let error = loop {
            match reader.read_next() {
                Ok(ReaderStep::Events { .. }) => {}
                Ok(other) => panic!("{form}: {other:?}"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("second log") && error.contains("split the file"), "{form}: {error}");
    }
}

#[test]
fn the_head_of_every_log_is_read_once() {
    for path in samples() {
        let log = std::fs::read(&path).unwrap();
        let store = TestStore::new(&[&log]);
        let source = store.source(LogForm::AsIs);
        let head = || source.store().head(&LOG.into()).unwrap().unwrap();
        let has_more = split(&log).1.iter().any(|sample_event| {
            !matches!(
                sample_event.event_type,
                EventType::FormatDescription
                    | EventType::PreviousGtids
                    | EventType::MariadbGtidList
                    | EventType::MariadbBinlogCheckpoint
                    | EventType::MariadbStartEncryption
            )
        });
        assert_eq!(Arc::ptr_eq(&head(), &head()), has_more, "{}", path.display());
        assert!(source.store().writer_version(&LOG.into()).unwrap().is_some());
    }
}

//! Records of sample logs in both envelopes, compared with reviewed golden files. `BINTIDE_GOLDEN=write` rewrites the
//! files.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::{env, fs};

use logs::LogReader;
use sql::ReplicationFilter;
use stream::{
    Envelope, PipeSink, QueryText, RecordSink, ResumeToken, SchemaPolicy, StatementPolicy, StreamHooks,
    StreamSettings, Streamer, UnnamedColumnPolicy, ValueModes, new_stream_walk, seek, stream_log,
};

#[derive(Clone, Default)]
struct SharedBuffer(Rc<RefCell<Vec<u8>>>);

impl io::Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn settings(envelope: Envelope) -> StreamSettings {
    StreamSettings {
        envelope,
        filter: ReplicationFilter::default(),
        modes: ValueModes::default(),
        rules: Arc::default(),
        schemas: SchemaPolicy::Omit,
        unnamed_columns: UnnamedColumnPolicy::Number,
        statements: StatementPolicy::Refuse,
        query_text: QueryText::Include,
        name: "bintide".to_owned(),
        version: "0".to_owned(),
    }
}

/// Streams a sample from `from` on; returns its records, and the tokens of its transactions.
fn stream_sample(sample: &str, envelope: Envelope, from: Option<&ResumeToken>) -> (String, Vec<ResumeToken>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(sample);
    let mut reader = LogReader::open(path).unwrap();
    if let Some(token) = from {
        seek(&mut reader, token, None).unwrap();
    }
    let (written, mut tokens) = (SharedBuffer::default(), Vec::new());
    let mut output = RecordSink::for_pipe(PipeSink::new(Box::new(written.clone())));
    let mut streamer = Streamer::new(settings(envelope));
    let mut boundary = |boundary: stream::TransactionBoundary<'_>| {
        tokens.push(boundary.token.clone());
        Ok(ControlFlow::Continue(()))
    };
    let mut watch = StreamHooks { now_ns: &|| 1_700_000_000_123_456_789, on_boundary: &mut boundary };
    let mut name = "binlog.000001".to_owned();
    let mut walk = new_stream_walk(reader);
    stream_log(&mut walk, &mut name, &mut streamer, &mut output, &mut watch).unwrap();
    output.finish().unwrap();
    (String::from_utf8(written.0.take()).unwrap(), tokens)
}

fn check(sample: &str) {
    for (envelope, form) in [(Envelope::Debezium, "debezium"), (Envelope::Maxwell, "maxwell")] {
        let (text, _) = stream_sample(&format!("{sample}.binlog"), envelope, None);
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
        let golden: PathBuf =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{sample}.{form}.jsonl"));
        if env::var_os("BINTIDE_GOLDEN").is_some() {
            fs::write(&golden, &text).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap();
        for (number, (found, expected)) in text.lines().zip(expected.lines()).enumerate() {
            assert_eq!(found, expected, "{sample} {form} line {}", number + 1);
        }
        assert_eq!(text.len(), expected.len(), "{sample} {form}");
    }
}

#[test]
fn every_type() {
    check("types-full-metadata");
}

#[test]
fn documents_rebuilt_from_partial_updates() {
    check("json-partial-compressed");
}

#[test]
fn minimal_images() {
    check("foreign-keys-minimal");
}

#[test]
fn xa_transactions() {
    check("xa");
}

#[test]
fn mariadb() {
    check("mariadb-annotate");
    check("mariadb-compressed");
}

/// Returns the row records without their positions.
fn rows(text: &str) -> Vec<[serde_json::Value; 4]> {
    let records = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let rows = records.filter(|record| record.get("op").or(record.get("data")).is_some());
    let part = |record: &serde_json::Value, names: [&str; 2]| {
        names.iter().find_map(|name| record.get(name).cloned()).unwrap_or_default()
    };
    rows.map(|row| {
        [
            part(&row, ["before", "data"]),
            part(&row, ["after", "old"]),
            part(&row, ["op", "type"]),
            part(&row, ["table", "database"]),
        ]
    })
    .collect()
}

#[test]
fn compression_and_event_sizes_do_not_change_records() {
    for envelope in [Envelope::Debezium, Envelope::Maxwell] {
        let plain = rows(&stream_sample("types.binlog", envelope, None).0);
        assert!(plain.len() > 100);
        for sample in ["types-compressed.binlog", "types-small-events.binlog", "types-no-checksum.binlog"] {
            assert_eq!(rows(&stream_sample(sample, envelope, None).0), plain, "{sample}");
        }
        let json = rows(&stream_sample("json.binlog", envelope, None).0);
        for sample in ["json-partial.binlog", "json-partial-compressed.binlog"] {
            assert_eq!(rows(&stream_sample(sample, envelope, None).0), json, "{sample}");
        }
    }
}

#[test]
fn streams_resume_after_every_transaction() {
    for sample in ["types-compressed.binlog", "mariadb.binlog", "anonymous.binlog", "xa.binlog"] {
        for envelope in [Envelope::Debezium, Envelope::Maxwell] {
            let (all, tokens) = stream_sample(sample, envelope, None);
            assert!(tokens.len() > 5, "{sample}");
            for (index, token) in tokens.iter().enumerate() {
                let (rest, left) = stream_sample(sample, envelope, Some(token));
                assert_eq!(left, tokens[index + 1..], "{sample} {token}");
                assert!(all.ends_with(&rest), "{sample} {token}");
            }
        }
    }
}

#[test]
fn streams_resume_at_the_start_of_a_log() {
    let all = stream_sample("types.binlog", Envelope::Maxwell, None);
    let start = "binlog.000001:4".parse().unwrap();
    assert_eq!(stream_sample("types.binlog", Envelope::Maxwell, Some(&start)), all);
}

#[test]
fn resume_positions_off_a_boundary_are_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types.binlog");
    let (_, tokens) = stream_sample("types.binlog", Envelope::Maxwell, None);
    let check = |token: ResumeToken, expected: &str| {
        let error = seek(&mut LogReader::open(&path).unwrap(), &token, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let token = &tokens[3];
    let moved = |by: u64| {
        let at = stream::ResumePosition { position: token.at.position + by, ..token.at.clone() };
        ResumeToken { at, gtid: None }
    };
    check(moved(1), "no transaction ends there");
    check(moved(1 << 30), "the log has only");
    check(ResumeToken { gtid: Some("a:1".to_owned()), ..token.clone() }, "this is a different log");
}

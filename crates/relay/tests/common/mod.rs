//! Stores made of sample logs, and references for their forms.
#![allow(dead_code, reason = "each test file uses a part")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use binlog::{
    EVENT_SIZE_MAX, EventChecksum, EventFlags, EventType, Framer, FramerOutput, MAGIC, NextPosition,
    RawEvent, ZstdLevel, move_event,
};
use logs::LogReader;
use logs::ordered::PipelineLimits;
use relay::{FormReader, FormSource, FormSourceOptions, LogForm, ReaderStep, RelayStore, StatementInterrupt};
use rewrite::{
    CompressSettings, CompressedPolicy, MinimumGain, OldFormatPolicy, RewriteAction, RewriteError,
    RewriteLimits, RewriteSettings, TornEndPolicy, TransactionMove, rewrite,
};

pub(crate) const LEVEL: ZstdLevel = ZstdLevel::DEFAULT;
pub(crate) const FORMS: [LogForm; 3] = [LogForm::AsIs, LogForm::Plain, LogForm::Compressed(LEVEL)];
pub(crate) const LOG: &str = "binlog.000001";

/// Returns the complete sample logs that a server wrote as binary logs.
pub(crate) fn samples() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let (mut open, mut found) = (vec![directory], Vec::new());
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => found.push(path),
            }
        }
    }
    found.retain(|path| {
        let bytes = std::fs::read(path).unwrap();
        let flags = bytes.get(MAGIC.len() + 17).copied().unwrap_or_default();
        bytes.starts_with(&MAGIC)
            && u16::from(flags) & EventFlags::RELAY_LOG.0 == 0
            && !path.ends_with("torn.binlog")
    });
    found.sort();
    assert!(found.len() > 50, "too few samples: {}", found.len());
    found
}

pub(crate) fn sample(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)).unwrap()
}

/// A store in a temporary directory, and a directory for the indexes of its forms.
pub(crate) struct TestStore {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) cache: tempfile::TempDir,
}

impl TestStore {
    /// Creates a store of these logs.
    pub(crate) fn new(logs: &[&[u8]]) -> Self {
        let made = Self { directory: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() };
        for (log, number) in logs.iter().zip(1..) {
            made.write(number, log);
        }
        made
    }

    /// Writes a log.
    pub(crate) fn write(&self, number: u32, log: &[u8]) {
        std::fs::write(self.directory.path().join(format!("binlog.{number:06}")), log).unwrap();
    }

    pub(crate) fn source(&self, form: LogForm) -> Arc<FormSource> {
        self.source_with(form, 64 << 20)
    }

    pub(crate) fn source_with(&self, form: LogForm, cache_bytes: usize) -> Arc<FormSource> {
        let store = Arc::new(RelayStore::open(self.directory.path(), None).unwrap());
        let limits = FormSourceOptions {
            directory: self.cache.path().to_owned(),
            cache_bytes,
            thread_cpu_time: || Duration::ZERO,
        };
        Arc::new(FormSource::new(store, form, limits))
    }
}

/// Returns a log to put after another one, so that the other one has ended.
pub(crate) fn next_log() -> Vec<u8> {
    sample("rotation/binlog.000005")
}

/// Reads a log in a form from the reader's position to its end, or as far as it is available.
pub(crate) fn read_on(reader: &mut FormReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        match reader.read_next().unwrap() {
            ReaderStep::Events { chunk, first } => {
                bytes.extend_from_slice(&chunk.bytes()[chunk.slices()[first].range().start..]);
            }
            ReaderStep::NextLog(_) | ReaderStep::Pending => return bytes,
        }
    }
}

/// Returns the size of a log in the source's form.
pub(crate) fn form_size(source: &FormSource, log: &str) -> u64 {
    source.form_size(&log.into(), &StatementInterrupt::default()).unwrap()
}

/// A log in a form, as [`rewrite`] writes it, and the positions of its transactions.
pub(crate) struct Reference {
    pub(crate) bytes: Vec<u8>,
    pub(crate) moves: Vec<TransactionMove>,
}

impl Reference {
    pub(crate) fn new(form: LogForm, log: &[u8]) -> Self {
        let action = match form {
            LogForm::AsIs => None,
            LogForm::Plain => Some(RewriteAction::Decompress),
            LogForm::Compressed(level) => Some(RewriteAction::Compress(CompressSettings {
                level,
                minimum_gain: MinimumGain::Percent(0),
                compressed: CompressedPolicy::Pass,
                event_size_max: EVENT_SIZE_MAX,
                old_format: OldFormatPolicy::Refuse,
            })),
        };
        let result = action.map(|action| Self::rewritten(action, log));
        let mut reference = match result {
            Some(Ok(reference)) => reference,
            // The relay serves incompressible logs like this.
            Some(Err(RewriteError::Mariadb { .. } | RewriteError::Format { .. })) | None => {
                let (_, mut unchanged) = split(log);
                unchanged.retain(|event| event.starts_transaction);
                let moves =
                    unchanged.iter().map(|event| TransactionMove { before: event.at, after: event.at });
                Self { bytes: log.to_vec(), moves: moves.collect() }
            }
            Some(Err(error)) => panic!("{error}"),
        };
        reference.bytes[MAGIC.len() + 17] &= !(EventFlags::IN_USE.0 as u8);
        reference
    }

    fn rewritten(action: RewriteAction, log: &[u8]) -> Result<Self, RewriteError> {
        let sizes = RewriteLimits {
            unit: 1 << 20,
            large: 16 << 20,
            large_threads: 0,
            directory: std::env::temp_dir(),
        };
        let (mut bytes, mut moves) = (Vec::new(), Vec::new());
        let shared: Arc<[u8]> = log.into();
        let open = || Ok(LogReader::from_bytes("log".to_owned(), Arc::clone(&shared)));
        let mut note = |moved| {
            moves.push(moved);
            ControlFlow::Continue(())
        };
        let settings = RewriteSettings {
            action,
            bounds: PipelineLimits::with_bytes(1 << 24),
            sizes: &sizes,
            torn_end: TornEndPolicy::Refuse,
        };
        rewrite(settings, &open, &mut bytes, &mut note)?;
        Ok(Self { bytes, moves })
    }
}

/// Position of an event in a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleEvent {
    pub(crate) at: u64,
    pub(crate) size: usize,
    pub(crate) event_type: EventType,
    /// True for GTID events.
    pub(crate) starts_transaction: bool,
}

/// Splits a log into its events. Also returns the checksum algorithm of its events.
pub(crate) fn split(log: &[u8]) -> (EventChecksum, Vec<SampleEvent>) {
    let (mut framer, mut rest, mut events) = (Framer::new(), &log[MAGIC.len()..], Vec::new());
    while let FramerOutput::Event(raw) = framer.next(rest).unwrap() {
        let event_type = raw.event_type();
        let starts_transaction = matches!(
            event_type,
            EventType::Gtid | EventType::GtidTagged | EventType::AnonymousGtid | EventType::MariadbGtid
        );
        let (at, size) = ((log.len() - rest.len()) as u64, raw.bytes().len());
        events.push(SampleEvent { at, size, event_type, starts_transaction });
        rest = &rest[size..];
    }
    (framer.format().unwrap().checksum.for_events(), events)
}

/// Appends copies of a log's transactions until it has `size` bytes.
pub(crate) fn repeat_log(log: &[u8], size: usize) -> Vec<u8> {
    let (checksum, events) = split(log);
    let first = events.iter().position(|event| event.starts_transaction).unwrap();
    let is_end = |event: &SampleEvent| matches!(event.event_type, EventType::Rotate | EventType::Stop);
    let last = events.iter().position(is_end).unwrap_or(events.len());
    let mut out = log[..events[first].at as usize].to_vec();
    while out.len() < size {
        for event in &events[first..last] {
            push_event(&mut out, &log[event.at as usize..][..event.size], checksum);
        }
    }
    out
}

/// Appends an event at the end of a log.
pub(crate) fn push_event(log: &mut Vec<u8>, event: &[u8], checksum: EventChecksum) {
    let start = log.len();
    log.extend_from_slice(event);
    move_event(&mut log[start..], checksum, NextPosition::FromStart(start as u64));
    RawEvent::new(&log[start..], checksum).unwrap().verify().unwrap();
}

/// Pseudo-random numbers, the same for the same seed.
pub(crate) struct TestNumbers(u64);

impl TestNumbers {
    pub(crate) fn new() -> Self {
        let seed = std::env::var("BINTIDE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("BINTIDE_SEED={seed}");
        Self(seed | 1)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

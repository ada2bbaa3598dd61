//! Access to the sample logs and their events.

// Each test program uses only a part of this module.
#![allow(clippy::unwrap_used, dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use bintide_binlog::{
    Event, EventChecksum, EventFormat, EventType, Framer, FramerOutput, MAGIC, PayloadOpener, RawEvent,
};

/// One sample log.
pub(crate) struct Sample {
    /// Path relative to the samples directory.
    pub(crate) name: String,
    /// Bytes of the log, magic included.
    pub(crate) bytes: Vec<u8>,
}

impl Sample {
    /// Checks for the sample that is truncated on purpose.
    pub(crate) fn is_torn(&self) -> bool {
        self.name == "torn.binlog"
    }
}

/// Returns all sample logs that are not encrypted.
pub(crate) fn samples() -> Vec<Sample> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let mut samples = Vec::new();
    for path in files_below(&directory) {
        let bytes = fs::read(&path).unwrap();
        if bytes.starts_with(&MAGIC) {
            let name = path.strip_prefix(&directory).unwrap().display().to_string();
            samples.push(Sample { name, bytes });
        }
    }
    assert!(samples.len() > 60, "only {} samples", samples.len());
    samples
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.into_iter().flat_map(below).collect()
}

/// Calls `see` with the position, event and format of each whole event. Returns the number of bytes after the last
/// whole event.
pub(crate) fn for_each_event(bytes: &[u8], mut see: impl FnMut(usize, &RawEvent<'_>, &EventFormat)) -> usize {
    let mut framer = Framer::new();
    let mut position = MAGIC.len();
    while let FramerOutput::Event(raw) = framer.next(&bytes[position..]).unwrap() {
        see(position, &raw, framer.format().unwrap());
        position += raw.bytes().len();
    }
    bytes.len() - position
}

/// Calls `see` like [`for_each_event`], and also with the events inside each compressed transaction, after the event
/// that contains them.
pub(crate) fn for_each_event_deep(
    bytes: &[u8],
    mut see: impl FnMut(usize, &RawEvent<'_>, &EventFormat),
) -> usize {
    let mut opener = PayloadOpener::new();
    for_each_event(bytes, |position, raw, format| {
        see(position, raw, format);
        if raw.event_type() != EventType::TransactionPayload {
            return;
        }
        let Event::TransactionPayload(payload) = raw.decode(format).unwrap() else { unreachable!() };
        let mut inner = opener.open(&payload).unwrap();
        while let Some(raw) = inner.next_event().unwrap() {
            assert_eq!(raw.checksum(), EventChecksum::Absent);
            see(position, &raw, &format.inside_payload());
        }
    })
}

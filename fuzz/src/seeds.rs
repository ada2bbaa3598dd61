//! Inputs: real logs, and earlier findings.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use binlog::{
    ChecksumAlgorithm, Event, EventFormat, EventType, Flavour, Framer, FramerOutput, MAGIC, RawEvent,
};

use crate::checks::Target;

/// A real log.
pub struct Sample {
    /// Path below `samples/`.
    pub name: String,
    /// Bytes, magic included.
    pub bytes: Vec<u8>,
}

/// Maximum size of a sample, in bytes. Larger samples contain no other events.
const SAMPLE_SIZE_MAX: u64 = 1 << 20;

/// Returns the inputs for one target without duplicates, the smallest first.
pub fn seeds(target: &Target, samples: &[Sample]) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = samples.iter().flat_map(target.seeds).collect();
    seeds.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    seeds.dedup();
    seeds
}

/// Returns the real logs of `samples/`.
///
/// # Errors
///
/// Fails if the directory cannot be read.
pub fn samples() -> io::Result<Vec<Sample>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples");
    let mut samples = Vec::new();
    for path in files_below(&directory)? {
        if fs::metadata(&path)?.len() > SAMPLE_SIZE_MAX {
            continue;
        }
        let bytes = fs::read(&path)?;
        if bytes.starts_with(&MAGIC) {
            let name = path.strip_prefix(&directory).unwrap_or(&path).display().to_string();
            samples.push(Sample { name, bytes });
        }
    }
    Ok(samples)
}

/// Returns earlier findings of this target: file name and bytes.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn findings(target: &Target) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("findings").join(target.name);
    if !directory.exists() {
        return Ok(Vec::new());
    }
    files_below(&directory)?.into_iter().map(|path| fs::read(&path).map(|bytes| (path, bytes))).collect()
}

/// Returns all files in a directory and its subdirectories, by name.
fn files_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for found in fs::read_dir(directory)? {
        let path = found?.path();
        match path.is_dir() {
            true => paths.extend(files_below(&path)?),
            false => paths.push(path),
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns SQL statements, those of the caller and those of a log, each after a byte that selects a mode: 0.
pub(crate) fn statements(examples: &[&str], sample: &Sample) -> Vec<Vec<u8>> {
    let format = format_of("9.7.4", 8);
    let mut seeds: Vec<Vec<u8>> = examples.iter().map(|sql| [&[0], sql.as_bytes()].concat()).collect();
    for raw in raw_events(sample) {
        if let Ok(Event::Query(query)) = raw.decode(&format) {
            seeds.push([&[0], query.sql].concat());
        }
    }
    seeds
}

/// Returns the events of a log, up to the first framing error.
pub(crate) fn raw_events(sample: &Sample) -> impl Iterator<Item = RawEvent<'_>> {
    let mut framer = Framer::new();
    let mut rest = sample.bytes.strip_prefix(&MAGIC).unwrap_or(&sample.bytes);
    std::iter::from_fn(move || match framer.next(rest) {
        Ok(FramerOutput::Event(raw)) => {
            rest = &rest[raw.bytes().len()..];
            Some(raw)
        }
        _ => None,
    })
}

/// Returns a format description event with `rows_head` bytes as post-header length of table maps and rows.
pub(crate) fn format_of(server_version: &str, rows_head: u8) -> EventFormat {
    let head = |code: u8| match EventType::from_code(code) {
        EventType::TableMap => rows_head,
        EventType::WriteRowsV1 | EventType::UpdateRowsV1 | EventType::DeleteRowsV1 => rows_head,
        EventType::WriteRows | EventType::UpdateRows | EventType::DeleteRows => rows_head + 2,
        _ => 0,
    };
    EventFormat {
        server_version: server_version.into(),
        post_header_sizes: (1..=171).map(head).collect(),
        checksum: ChecksumAlgorithm::Off,
        flavour: match server_version.contains("MariaDB") {
            true => Flavour::MariaDb,
            false => Flavour::MySql,
        },
    }
}

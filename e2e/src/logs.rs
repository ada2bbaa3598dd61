//! Input logs of the tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::compare::LOGS;

/// Size of an event's header, in bytes.
const HEADER_SIZE: usize = 19;
/// First bytes of a plain log.
const MAGIC: &[u8] = b"\xfebin";

/// A directory of logs, and facts about them for drawing sensible arguments.
#[derive(Clone, Debug)]
pub struct Logs {
    /// The directory.
    pub directory: PathBuf,
    /// Series of logs, each a file or the files of one server in order.
    pub sets: Vec<LogSet>,
}

/// Files of one server, in order.
#[derive(Clone, Debug)]
pub struct LogSet {
    /// Paths from the working directory of the programs: under [`LOGS`].
    pub files: Vec<String>,
    /// Start positions of events in the first and in the last file.
    pub positions: Vec<u64>,
    /// Timestamps of events, in seconds since 1970.
    pub times: Vec<u32>,
    /// Names of databases in the logs.
    pub databases: Vec<String>,
}

impl Logs {
    /// Returns the samples of the repository.
    ///
    /// # Errors
    /// Fails if a sample cannot be read.
    pub fn samples() -> Result<Self> {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the crate is not in a workspace")?;
        Self::read(&root.join("samples"))
    }

    /// Reads the logs of a directory: each `*.binlog`, and each directory with an index.
    ///
    /// # Errors
    /// Fails if a log cannot be read.
    pub fn read(directory: &Path) -> Result<Self> {
        let mut sets = Vec::new();
        let entries =
            fs::read_dir(directory).with_context(|| format!("could not read {}", directory.display()))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        for path in paths {
            if path.is_dir() {
                sets.extend(index_of(&path)?.map(|files| LogSet::read(directory, files)).transpose()?);
            } else if path.extension().is_some_and(|extension| extension == "binlog") {
                sets.push(LogSet::read(directory, vec![path])?);
            }
        }
        Ok(Self { directory: directory.to_path_buf(), sets })
    }
}

/// Returns the files that a directory's index lists.
fn index_of(directory: &Path) -> Result<Option<Vec<PathBuf>>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "index") {
            let text = fs::read_to_string(path)?;
            return Ok(Some(
                text.lines().map(|line| directory.join(line.trim_start_matches("./"))).collect(),
            ));
        }
    }
    Ok(None)
}

/// Facts of an event's header.
struct HeaderFacts {
    /// Start of the event.
    position: u64,
    /// In seconds since 1970.
    timestamp: u32,
}

/// Returns the headers of a plain log; none for other files.
fn read_headers(bytes: &[u8]) -> Vec<HeaderFacts> {
    let (mut headers, mut at) = (Vec::new(), MAGIC.len());
    while bytes.starts_with(MAGIC) && at + HEADER_SIZE <= bytes.len() {
        let number = |from: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + from + i]));
        headers.push(HeaderFacts { position: at as u64, timestamp: number(0) });
        at += (number(9) as usize).max(HEADER_SIZE);
    }
    headers
}

impl LogSet {
    fn read(directory: &Path, files: Vec<PathBuf>) -> Result<Self> {
        let mut set =
            Self { files: Vec::new(), positions: Vec::new(), times: Vec::new(), databases: Vec::new() };
        let last = files
            .len()
            .checked_sub(1)
            .with_context(|| format!("an index in {} lists no logs", directory.display()))?;
        for (index, path) in files.iter().enumerate() {
            let bytes = fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
            let headers = read_headers(&bytes);
            if index == 0 || index == last {
                set.positions.extend(headers.iter().map(|header| header.position));
            }
            set.times.extend(headers.iter().map(|header| header.timestamp));
            set.read_databases(&bytes);
            let path = path.strip_prefix(directory).context("the log is outside its directory")?;
            set.files.push(format!("{LOGS}/{}", path.display()));
        }
        Ok(set)
    }

    /// Reads the names after `CREATE DATABASE`, the first statement of every sample.
    fn read_databases(&mut self, bytes: &[u8]) {
        const BEFORE: &[u8] = b"CREATE DATABASE ";
        for (at, window) in bytes.windows(BEFORE.len()).enumerate() {
            if window.eq_ignore_ascii_case(BEFORE) {
                let rest = &bytes[at + BEFORE.len()..];
                let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
                let name = String::from_utf8_lossy(&rest[..end.unwrap_or(rest.len())]).into_owned();
                if !name.is_empty() && !self.databases.contains(&name) {
                    self.databases.push(name);
                }
            }
        }
    }
}

//! Builds small logs of any shape.

use std::fs::{self, File};
use std::io::Write;
use std::thread;

use logs::LogReader;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

pub(crate) const MAGIC: &[u8] = b"\xfebin";
pub(crate) const QUERY: u8 = 2;
pub(crate) const STOP: u8 = 3;
pub(crate) const ROTATE: u8 = 4;
pub(crate) const FORMAT: u8 = 15;
pub(crate) const IN_USE: u16 = 1;
pub(crate) const ARTIFICIAL: u16 = 0x20;
pub(crate) const RELAY_LOG: u16 = 0x40;

pub(crate) fn event(code: u8, flags: u16, body: &[u8]) -> Vec<u8> {
    let size = 19 + body.len() as u32;
    // The next position is wrong on purpose: readers must not use it.
    let mut bytes = vec![1, 2, 3, 4, code, 9, 0, 0, 0];
    bytes.extend(size.to_le_bytes());
    bytes.extend(if code == FORMAT { size + 4 } else { 77 }.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Returns the format description of a log without checksums.
pub(crate) fn format(flags: u16) -> Vec<u8> {
    let mut body = vec![4, 0];
    let mut version = b"8.0.43".to_vec();
    version.resize(50, 0);
    body.extend(version);
    body.extend([0, 0, 0, 0, 19]);
    body.extend([0; 41]);
    body.push(0);
    body.extend([0; 4]);
    event(FORMAT, flags, &body)
}

pub(crate) fn log(events: &[Vec<u8>]) -> Vec<u8> {
    [MAGIC.to_vec(), events.concat()].concat()
}

/// Temporary directory with one log.
pub(crate) struct LogDirectory {
    pub(crate) directory: TempDir,
}

impl LogDirectory {
    pub(crate) fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    /// Reads these bytes from a named pipe.
    pub(crate) fn through_pipe<T>(&self, bytes: &[u8], read: impl FnOnce(LogReader) -> T) -> T {
        let path = self.directory.path().join("pipe");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let result = thread::scope(|scope| {
            scope.spawn(|| fs::write(&path, bytes).unwrap());
            read(LogReader::open(&path).unwrap())
        });
        fs::remove_file(&path).unwrap();
        result
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> File {
        let mut file = File::create(self.directory.path().join("binlog.000001")).unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    pub(crate) fn open(&self) -> LogReader {
        LogReader::open(self.directory.path().join("binlog.000001")).unwrap()
    }
}

/// Returns the format description of a log with checksums.
pub(crate) fn format_with_checksums() -> Vec<u8> {
    let mut bytes = format(0);
    let algorithm = bytes.len() - 5;
    bytes[algorithm] = 1;
    bytes
}

/// Appends the event's checksum, and adjusts the event's size.
pub(crate) fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let size = bytes.len() as u32 + 4;
    bytes[9..13].copy_from_slice(&size.to_le_bytes());
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

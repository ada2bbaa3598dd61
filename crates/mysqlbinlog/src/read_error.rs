//! Errors of reading a log, with mysqlbinlog's texts.

use std::io;

/// Reason why no event can be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The file cannot be opened.
    Open(io::Error),
    /// Reading failed. mysqlbinlog prints the system's error with this text.
    Io(io::Error, &'static str),
    /// Any other error, with mysqlbinlog's text.
    Other(&'static str),
    /// The log ends inside an event.
    Truncated,
}

impl ReadError {
    pub(crate) const INVALID_EVENT: Self = Self::Other("Found invalid event in binary log");
    pub(crate) const INVALID_FORMAT: Self =
        Self::Other("Found invalid Format description event in binary log");
    pub(crate) const CHECKSUM: Self =
        Self::Other("Event crc check failed! Most likely there is event corruption.");
    pub(crate) const MEMORY: Self = Self::Other("memory allocation failed reading log event");
    pub(crate) const FROM_NEWER_SERVER: Self =
        Self::Other("Unrecognized event format. The event appears to originate from a future server version");
    pub(crate) const CORRUPTED: Self = Self::Other("corrupted data in log event");
    pub(crate) const TOO_LARGE: Self = Self::Other("Event too big");
    pub(crate) const FAILED: &'static str = "I/O error reading log event";
    pub(crate) const NO_MAGIC: &'static str = "I/O error reading the header from the binary log";
    pub(crate) const BAD_MAGIC: Self = Self::Other(
        "Binlog has bad magic number;  It's not a binary log file that can be used by this version of MySQL",
    );
    pub(crate) const ENCRYPTED: Self = Self::Other("Reading encrypted log files directly is not supported.");
    pub(crate) const ENCRYPTION_HEADER: Self = Self::Other("Found invalid binary log encryption header");
    pub(crate) const NO_PASSWORD: Self = Self::Other(
        "Cannot get file password for encrypted replication log file, please check if keyring plugin is loaded",
    );

    /// Returns the error of reading an event.
    pub(crate) fn of_event(error: io::Error) -> Self {
        Self::Io(error, Self::FAILED)
    }

    /// Returns mysqlbinlog's text for the error.
    pub(crate) const fn text(&self) -> &'static str {
        match self {
            Self::Open(_) => "Could not open log file",
            Self::Io(_, text) | Self::Other(text) => text,
            Self::Truncated => "binlog truncated in the middle of event; consider out of disk space",
        }
    }
}

//! Recovery of a store after a crash or a failed write: truncates the last log after its last whole event.

use std::mem;
use std::path::Path;

use binlog::{ChecksumAlgorithm, EventType, Framer, MAGIC, RawEvent};

use super::{FailedSync, OpenLog, StoreWriter};
use crate::error::LogError;
use crate::keyring::open_log;
use crate::log_file_writer::LogFileWriter;
use crate::log_reader::ReadOutcome;
use crate::log_series::LogName;
use crate::own_files::private_options;
use crate::regular_file::read_regular_text;
use crate::store_directory::{io_error, log_names, whole_lines};

impl StoreWriter {
    /// Reopens the last log after a failed write or sync, with the same recovery as after a crash. The source must send
    /// the missing events again, including those that may not have reached the disk. Returns the number of missing
    /// bytes that had been appended or were being appended.
    ///
    /// # Errors
    ///
    /// Fails as [`StoreWriter::open`] does. The call can be repeated. No other call is possible until it succeeds.
    pub fn reopen(&mut self) -> Result<u64, LogError> {
        // An error of a sync is recorded. Bytes that may be lost are removed below.
        let _ = self.finish_syncs();
        // Dropping the log writes its buffer; bytes that it cannot write are lost.
        let before = self.log.take().map(|log| (log.name, log.position));
        self.truncate_unsynced()?;
        assert!(self.failed_sync.is_none(), "ours: bytes that may be lost are removed before recovery");
        self.recover_last()?;
        let missing = match (before, &self.log) {
            (Some((name, end)), Some(log)) if name == log.name => end.saturating_sub(log.position),
            _ => 0,
        };
        Ok(missing + mem::take(&mut self.pending_bytes))
    }

    fn truncate_unsynced(&mut self) -> Result<(), LogError> {
        let Some(FailedSync { log, synced, .. }) = &self.failed_sync else { return Ok(()) };
        let path = self.directory.path.join(log);
        if let Some(mut file) = LogFileWriter::open(&path, self.encryption.keyring())? {
            file.truncate(*synced).map_err(io_error("truncate", &path))?;
        }
        self.failed_sync = None;
        Ok(())
    }

    pub(super) fn recover_last(&mut self) -> Result<(), LogError> {
        if let Some(last) = self.last_indexed()? {
            self.directory.created.keep();
            self.log = Some(self.recover(last)?);
        }
        Ok(())
    }

    /// Returns the last log in the index. Removes an incomplete last line of the index, and completes an interrupted
    /// purge.
    fn last_indexed(&self) -> Result<Option<String>, LogError> {
        let Some(index) = self.directory.index()? else { return Ok(None) };
        let text = read_regular_text(&index).map_err(io_error("read", &index))?;
        let whole = whole_lines(&text);
        if whole.len() < text.len() {
            let file = private_options().write(true).open(&index).map_err(io_error("open", &index))?;
            file.set_len(whole.len() as u64)
                .and_then(|()| file.sync_all())
                .map_err(io_error("truncate", &index))?;
        }
        let names = log_names(whole, &index)?;
        self.remove_purged(&names)?;
        match self.complete_purges() {
            // The run waits for space, and the next purge completes this one.
            Err(error) if error.is_disk_full() => {}
            completed => completed?,
        }
        Ok(names.last().map(|name| (*name).to_owned()))
    }

    /// Opens a log, and truncates it after its last whole event.
    pub(super) fn recover(&mut self, name: String) -> Result<OpenLog, LogError> {
        let path = self.directory.path.join(&name);
        if let (false, Some(index)) = (path.exists(), self.directory.index()?) {
            let (name, index) = (path.display().to_string(), index.display().to_string());
            return Err(LogError::MissingLog { name, index });
        }
        let start = MAGIC.len() as u64;
        let (mut file, last, position) = match LogFileWriter::open(&path, self.encryption.keyring())? {
            Some(file) => {
                let (last, position) = find_whole_end(&path, self.encryption.keyring())?;
                (file, last, position)
            }
            None => {
                let key = self.encryption.new_log_key()?;
                (
                    LogFileWriter::overwrite(&path, key.as_ref()).map_err(io_error("write to", &path))?,
                    start,
                    start,
                )
            }
        };
        let size = file.size().map_err(io_error("open", &path))?;
        self.truncated = size.saturating_sub(position);
        file.truncate(position).map_err(io_error("truncate", &path))?;
        file.seek(position).map_err(io_error("open", &path))?;
        let name_at_source =
            LogName::of(Path::new(&name)).map_or_else(|| name.clone(), |log| log.source_name());
        Ok(OpenLog { name, name_at_source, file, last, position, synced: position, requested: position })
    }
}

/// Returns the start and end of the last whole event before the first wrong checksum.
fn find_whole_end(path: &Path, keyring: Option<&Path>) -> Result<(u64, u64), LogError> {
    let mut reader = open_log(path, keyring)?;
    let start = MAGIC.len() as u64;
    let mut found = (start, start);
    loop {
        match reader.next_event() {
            Ok(ReadOutcome::Some(event)) if is_sound(&event.raw) => found = (found.1, event.end()),
            Ok(_) | Err(LogError::Corrupt { .. }) => return Ok(found),
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether the event's checksum is right. Without checksums in the log, the four bytes at the end of its format
/// description are not verified.
fn is_sound(raw: &RawEvent<'_>) -> bool {
    let mut framer = Framer::new();
    let is_verified = match raw.event_type() {
        EventType::FormatDescription => {
            framer.next(raw.bytes()).is_ok()
                && framer.format().is_some_and(|format| format.checksum == ChecksumAlgorithm::Crc32)
        }
        _ => true,
    };
    !is_verified || raw.verify().is_ok()
}

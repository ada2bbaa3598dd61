//! Sparse index of one log in a form: maps positions in the form to positions in the stored log.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use binlog::{Cursor, DecodeError, EventType, MAGIC};
use logs::{LogReader, ReadOutcome};

use crate::error::RelayError;
use crate::log_form::LogForm;
use crate::relay_store::format_stamp;

/// Bytes of the stored log between two entries. After a reconnect, the relay renders at most this much, and the rest of
/// one transaction, before the first event.
pub const INDEX_STRIDE: u64 = 64 << 10;

/// Magic number and version of an index file. Change the version if the bytes of any form change.
const FILE_MARK: [u8; 16] = *b"bintide form\0\0\0\x02";
/// Maximum size of an index file in bytes: enough for a log of 4 TiB.
const FILE_SIZE_MAX: u64 = 2 << 30;
/// Number of bytes of one entry in an index file.
const ENTRY_SIZE: usize = 32;
/// Number of bytes before the entries.
const HEAD_SIZE: usize = FILE_MARK.len() + 8 + 8 + 4 + 4 + ENTRY_SIZE + 8;

/// Position in a log and in its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormPosition {
    /// Position in the stored log, in bytes.
    pub original: u64,
    /// Position in the form, in bytes.
    pub rendered: u64,
    /// Number of the form's events before this position, without the format description. If checksums are removed or
    /// added, each of these events is four bytes smaller or larger.
    pub events: u64,
    /// Number of transactions before this position.
    pub transactions: u64,
}

impl FormPosition {
    /// Start of every log.
    pub const START: Self =
        Self { original: MAGIC.len() as u64, rendered: MAGIC.len() as u64, events: 0, transactions: 0 };
}

/// Sparse index of one log in a form: starts of transactions, about one in [`INDEX_STRIDE`] bytes of the stored log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormIndex {
    starts: Vec<FormPosition>,
    end: FormPosition,
}

impl Default for FormIndex {
    fn default() -> Self {
        Self { starts: Vec::new(), end: FormPosition::START }
    }
}

impl FormIndex {
    /// Returns the end of the known part, which is between two transactions.
    pub const fn end(&self) -> FormPosition {
        self.end
    }

    /// Returns the last entry at or before a position of the form.
    pub fn before_rendered(&self, rendered: u64) -> FormPosition {
        self.last_where(|entry| entry.rendered <= rendered)
    }

    /// Returns the last entry at or before a position of the stored log.
    pub fn before_original(&self, original: u64) -> FormPosition {
        self.last_where(|entry| entry.original <= original)
    }

    /// Estimates the position in the stored log for a position in the form, by interpolation between entries. Exact at
    /// entries and at the end.
    pub fn estimate_original(&self, rendered: u64) -> u64 {
        let before = self.before_rendered(rendered);
        let next = self.starts.partition_point(|entry| entry.rendered <= rendered);
        let next = self.starts.get(next).copied().unwrap_or(self.end);
        let (stored, width) =
            (next.original.saturating_sub(before.original), next.rendered.saturating_sub(before.rendered));
        if width == 0 {
            return before.original;
        }
        let part = (rendered - before.rendered).min(width);
        before.original + (u128::from(stored) * u128::from(part) / u128::from(width)) as u64
    }

    /// Records the start of a transaction, if it is at least [`INDEX_STRIDE`] after the last entry.
    pub fn record(&mut self, start: FormPosition) {
        let last = self.starts.last().copied().unwrap_or(FormPosition::START);
        if start.original >= last.original + INDEX_STRIDE && start.rendered > last.rendered {
            self.starts.push(start);
        }
    }

    /// Moves the end of the known part forward. Ignores an earlier position.
    pub fn advance(&mut self, end: FormPosition) {
        if end.original > self.end.original {
            self.end = end;
        }
    }

    /// Returns the last entry for which `is_before` is true, by binary search.
    pub(crate) fn last_where(&self, is_before: impl Fn(&FormPosition) -> bool) -> FormPosition {
        if is_before(&self.end) {
            return self.end;
        }
        let count = self.starts.partition_point(&is_before);
        count.checked_sub(1).map_or(FormPosition::START, |index| self.starts[index])
    }

    /// Reads the index of a log from a file, and checks that it belongs to the log that `open` opens. Returns `None` if
    /// the file is missing, damaged, of another version, or of another log. The log is then rendered again.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read.
    pub fn load(
        path: &Path,
        form: LogForm,
        open: &dyn Fn() -> Result<LogReader, logs::LogError>,
    ) -> Result<Option<Self>, RelayError> {
        let Some(bytes) = read_file(path) else { return Ok(None) };
        let Ok(Some((index, stamp))) = decode(&bytes, form) else { return Ok(None) };
        let found = LogStamp::of(open()?, &index)?;
        Ok((found == Some(stamp)).then_some(index))
    }

    /// Writes the index of a log to a file, atomically. Does not write an index without entries.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read, or the file cannot be written.
    pub fn save(
        &self,
        path: &Path,
        form: LogForm,
        open: &dyn Fn() -> Result<LogReader, logs::LogError>,
    ) -> Result<(), RelayError> {
        if self.starts.is_empty() {
            return Ok(());
        }
        let Some(stamp) = LogStamp::of(open()?, self)? else { return Ok(()) };
        let bytes = self.encode(form, stamp);
        let write = || {
            let directory = path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(directory)?;
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(&bytes)?;
            file.as_file().sync_data()?;
            file.persist(path).map_err(|error| error.error)
        };
        let written: io::Result<fs::File> = write();
        written.map(drop).map_err(|cause| RelayError::Index {
            verb: "write",
            path: path.display().to_string(),
            cause,
        })
    }

    // size  field
    //   16  magic number and version
    //    8  form
    //    8  version of the zstd library, whose frames a compressed form consists of; else 0
    //    4  CRC32 of the log's format description, without its in-use flag
    //    4  CRC32 of the event at the last entry
    //   32  end: as an entry
    //    8  number of entries
    //    *  entries: original, rendered, events, transactions (8 each)
    //    4  CRC32 of all bytes before
    fn encode(&self, form: LogForm, stamp: LogStamp) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_SIZE + self.starts.len() * ENTRY_SIZE + 4);
        out.extend_from_slice(&FILE_MARK);
        out.extend_from_slice(&form_code(form).to_le_bytes());
        out.extend_from_slice(&zstd_version(form).to_le_bytes());
        out.extend_from_slice(&stamp.format.to_le_bytes());
        out.extend_from_slice(&stamp.last_start.to_le_bytes());
        put_entry(&mut out, self.end);
        out.extend_from_slice(&(self.starts.len() as u64).to_le_bytes());
        for start in &self.starts {
            put_entry(&mut out, *start);
        }
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
        out
    }
}

/// Returns the path of the index of a log in a form, in a directory of indexes.
pub(crate) fn index_path(directory: &Path, form: LogForm, log: &str) -> PathBuf {
    form_directory(directory, form).join(format!("{log}{INDEX_SUFFIX}"))
}

/// Removes a form's indexes of logs that are not kept, including indexes of earlier runs. A remaining file does no
/// harm: each file is checked before use.
pub(crate) fn remove_indexes(directory: &Path, form: LogForm, is_kept: impl Fn(&str) -> bool) {
    let Ok(entries) = std::fs::read_dir(form_directory(directory, form)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let log = name.to_str().and_then(|name| name.strip_suffix(INDEX_SUFFIX));
        if log.is_some_and(|log| !is_kept(log)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

const INDEX_SUFFIX: &str = ".positions";

fn form_directory(directory: &Path, form: LogForm) -> PathBuf {
    directory.join(form.to_string().replace(':', "-"))
}

/// Checksums that identify a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogStamp {
    format: u32,
    last_start: u32,
}

impl LogStamp {
    /// Reads the stamp of a log; `None` if the log is shorter than its index.
    fn of(mut reader: LogReader, index: &FormIndex) -> Result<Option<Self>, RelayError> {
        let format = match reader.next_event()? {
            ReadOutcome::Some(event) if event.raw.event_type() == EventType::FormatDescription => {
                format_stamp(event.raw.bytes())
            }
            _ => return Ok(None),
        };
        let Some(last) = index.starts.last() else { return Ok(None) };
        if last.original < reader.position() || !skip_to(&mut reader, last.original)? {
            return Ok(None);
        }
        // Bytes at a wrong position are not an event.
        let Ok(ReadOutcome::Some(event)) = reader.next_event() else { return Ok(None) };
        let last_start = crc32fast::hash(event.raw.bytes());
        let is_long_enough =
            index.end.original <= reader.position() || skip_to(&mut reader, index.end.original)?;
        Ok(is_long_enough.then_some(Self { format, last_start }))
    }
}

/// Skips to a position. Returns `false` if the log ends before it.
fn skip_to(reader: &mut LogReader, position: u64) -> Result<bool, RelayError> {
    match reader.skip_to(position) {
        Ok(()) => Ok(true),
        Err(logs::LogError::PastEnd { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn read_file(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    logs::open_regular(path).ok()?.take(FILE_SIZE_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Decodes an index file; `None` if it is damaged, of another version or of another form.
fn decode(bytes: &[u8], form: LogForm) -> Result<Option<(FormIndex, LogStamp)>, DecodeError> {
    let Some((covered, stored)) = bytes.split_last_chunk() else { return Ok(None) };
    if crc32fast::hash(covered) != u32::from_le_bytes(*stored) {
        return Ok(None);
    }
    let mut cursor = Cursor::new(covered);
    let is_ours = cursor.array::<16>()? == FILE_MARK
        && cursor.u64()? == form_code(form)
        && cursor.u64()? == zstd_version(form);
    if !is_ours {
        return Ok(None);
    }
    let stamp = LogStamp { format: cursor.u32()?, last_start: cursor.u32()? };
    let end = take_entry(&mut cursor)?;
    let count = cursor.u64()?;
    if count != (cursor.rest().len() / ENTRY_SIZE) as u64 {
        return Ok(None);
    }
    let starts = (0..count).map(|_| take_entry(&mut cursor)).collect::<Result<Vec<_>, _>>()?;
    cursor.finish()?;
    let is_ordered =
        starts.is_sorted_by(|one, next| one.original < next.original && one.rendered < next.rendered);
    Ok(is_ordered.then_some((FormIndex { starts, end }, stamp)))
}

fn put_entry(out: &mut Vec<u8>, entry: FormPosition) {
    for number in [entry.original, entry.rendered, entry.events, entry.transactions] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn take_entry(cursor: &mut Cursor<'_>) -> Result<FormPosition, DecodeError> {
    Ok(FormPosition {
        original: cursor.u64()?,
        rendered: cursor.u64()?,
        events: cursor.u64()?,
        transactions: cursor.u64()?,
    })
}

fn form_code(form: LogForm) -> u64 {
    match form {
        LogForm::AsIs => 0,
        LogForm::Plain => 1,
        LogForm::Compressed(level) => 0x100 + u64::from(level.get()),
    }
}

fn zstd_version(form: LogForm) -> u64 {
    match form {
        LogForm::AsIs | LogForm::Plain => 0,
        LogForm::Compressed(_) => zstd_safe::version_number().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{FormIndex, FormPosition, INDEX_STRIDE, LogStamp, decode};
    use crate::log_form::LogForm;

    const fn at(original: u64, rendered: u64, events: u64) -> FormPosition {
        FormPosition { original, rendered, events, transactions: events / 5 }
    }

    fn index() -> FormIndex {
        let mut index = FormIndex::default();
        for number in 1..=3 {
            index.record(at(number * INDEX_STRIDE + 4, number * 100, number * 10));
            index.record(at(number * INDEX_STRIDE + 5, number * 100 + 1, number * 10 + 1));
        }
        index.advance(at(4 * INDEX_STRIDE, 370, 35));
        index
    }

    #[test]
    fn the_entry_before_a_position_is_found() {
        let check =
            |rendered, expected| assert_eq!(index().before_rendered(rendered), expected, "{rendered}");
        check(4, FormPosition::START);
        check(99, FormPosition::START);
        check(100, at(INDEX_STRIDE + 4, 100, 10));
        check(299, at(2 * INDEX_STRIDE + 4, 200, 20));
        check(369, at(3 * INDEX_STRIDE + 4, 300, 30));
        check(370, at(4 * INDEX_STRIDE, 370, 35));
        check(u64::MAX, at(4 * INDEX_STRIDE, 370, 35));
        assert_eq!(index().before_original(2 * INDEX_STRIDE), at(INDEX_STRIDE + 4, 100, 10));
    }

    #[test]
    fn positions_between_entries_are_estimated() {
        let check =
            |rendered, expected| assert_eq!(index().estimate_original(rendered), expected, "{rendered}");
        check(4, 4);
        check(100, INDEX_STRIDE + 4);
        check(150, INDEX_STRIDE + 4 + INDEX_STRIDE / 2);
        check(370, 4 * INDEX_STRIDE);
        check(u64::MAX, 4 * INDEX_STRIDE);
        assert_eq!(FormIndex::default().estimate_original(100), 4);
    }

    #[test]
    fn damaged_files_are_ignored() {
        let stamp = LogStamp { format: 7, last_start: 9 };
        let bytes = index().encode(LogForm::Plain, stamp);
        assert_eq!(decode(&bytes, LogForm::Plain), Ok(Some((index(), stamp))));
        assert_eq!(decode(&bytes, LogForm::AsIs), Ok(None));
        for size in 0..bytes.len() {
            assert_eq!(decode(&bytes[..size], LogForm::Plain), Ok(None), "{size}");
        }
        for offset in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 1;
            assert_eq!(decode(&damaged, LogForm::Plain), Ok(None), "{offset}");
        }
    }
}

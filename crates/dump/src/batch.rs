//! Output in order: text, and events whose text any thread can produce later.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::mem::{replace, take};
use std::ops::Range;
use std::sync::Arc;

use binlog::{Checksum, Cursor, Event, Header};

use crate::base64::{LINE_BYTES, put_lines};
use crate::bytes::{Bytes, Spare};
use crate::decode::{LogFormat, decode};
use crate::head_text::{GeneratedKeys, Head, HeadText};
use crate::hexdump::Hexdump;
use crate::rows_text::{TableText, put_rows};
use crate::spool::{Away, Spool};

/// Lines of base64 encoded between two checks of the size of the output.
const LINES_AT_ONCE: usize = 8192;

/// Text, and events whose text is not produced yet.
///
/// Formats, tables and buffers are stored once and referred to by index. A reference count per step, changed from two
/// threads, would cost more than the step itself.
#[derive(Default)]
pub(crate) struct Batch {
    text: Vec<u8>,
    /// Length of the text that is printed in any case. The text after it may still be dropped.
    settled: usize,
    steps: Vec<Step>,
    /// The steps, if they are in a temporary file.
    steps_away: Option<Away>,
    buffers: Vec<Buffer>,
    formats: Vec<Arc<LogFormat>>,
    tables: Vec<Arc<TableText>>,
    /// Size of what the steps refer to, in bytes.
    size: usize,
}

/// The bytes of some events.
enum Buffer {
    Here(Arc<Bytes>),
    Away(Away, Option<Seen>),
    /// Read back from its file.
    Back(Vec<u8>),
}

/// Range and checksum of a batch's events when they were read. The log may change before they are read again.
struct Seen {
    /// Range from the first to the last event in the buffer.
    range: Range<usize>,
    checksum: u32,
}

impl Seen {
    fn new(buffer: &[u8], range: Range<usize>) -> Self {
        Self { checksum: crc32fast::hash(&buffer[range.clone()]), range }
    }

    fn is_same(&self, buffer: &[u8]) -> bool {
        buffer.get(self.range.clone()).is_some_and(|bytes| crc32fast::hash(bytes) == self.checksum)
    }
}

/// One event to write, after the text that starts where the step before ends.
#[derive(Clone, Copy)]
struct Step {
    text_end: usize,
    event: Slice,
    work: Work,
}

/// A range of one of the buffers.
#[derive(Clone, Copy)]
struct Slice {
    buffer: u32,
    start: u32,
    end: u32,
}

#[derive(Clone, Copy)]
enum Work {
    Base64,
    Rows { decoding: Decoding, table: Option<u32> },
    Head { decoding: Decoding, at: u64, next_position: u32, keys: GeneratedKeys },
}

/// Checksum and format (by index) to decode an event with.
#[derive(Clone, Copy)]
struct Decoding {
    checksum: Checksum,
    format: u32,
}

/// Buffers in files, by their address in memory. The `Arc` keeps the address from being reused.
pub(crate) type PutAway = HashMap<*const Bytes, (Arc<Bytes>, Away)>;

impl Step {
    const STORED_SIZE: usize = 24;

    // size  field
    //    4  buffer
    //    4  start
    //    4  end
    //    4  1 as base64, 2 as rows, 3 as rows of an unknown table; 256 more with a checksum
    //    4  format
    //    4  table
    /// Appends the step. Heads are not stored: they never wait for the end of a statement. Neither is text.
    fn store(&self, out: &mut Vec<u8>) {
        let (kind, format, table) = match self.work {
            Work::Base64 | Work::Head { .. } => (1, 0, 0),
            Work::Rows { decoding, table } => {
                let checksum = if decoding.checksum == Checksum::Crc32 { 256 } else { 0 };
                let kind = if table.is_some() { 2 } else { 3 };
                (kind + checksum, decoding.format, table.unwrap_or_default())
            }
        };
        for field in [self.event.buffer, self.event.start, self.event.end, kind, format, table] {
            out.extend_from_slice(&field.to_le_bytes());
        }
    }

    fn restore(bytes: &[u8; Self::STORED_SIZE]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let mut field = || cursor.u32().ok();
        let event = Slice { buffer: field()?, start: field()?, end: field()? };
        let (kind, format, table) = (field()?, field()?, field()?);
        let checksum = if kind & 256 == 0 { Checksum::Absent } else { Checksum::Crc32 };
        let work = match kind & 255 {
            1 => Work::Base64,
            2 => Work::Rows { decoding: Decoding { checksum, format }, table: Some(table) },
            _ => Work::Rows { decoding: Decoding { checksum, format }, table: None },
        };
        Some(Self { text_end: 0, event, work })
    }
}

/// One encoded event, with its checksum and format.
pub(crate) struct Source<'a> {
    pub(crate) buffer: &'a Arc<Bytes>,
    /// Range of the event in the buffer.
    pub(crate) range: Range<usize>,
    pub(crate) checksum: Checksum,
    pub(crate) format: &'a Arc<LogFormat>,
}

impl Batch {
    /// Returns an empty batch that reuses a buffer.
    pub(crate) fn new(spare: &Spare) -> Self {
        Self { text: spare.take(), ..Self::default() }
    }

    /// Returns the text, to append to.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Marks all text so far as printed in any case.
    pub(crate) fn settle(&mut self) {
        self.settled = self.text.len();
    }

    /// Inserts text that is printed in any case before the text that may still be dropped.
    pub(crate) fn put_settled(&mut self, text: &[u8]) {
        self.text.splice(self.settled..self.settled, text.iter().copied());
        self.settled += text.len();
    }

    /// Removes and returns the text that may still be dropped.
    pub(crate) fn take_unsettled(&mut self) -> Vec<u8> {
        self.text.split_off(self.settled)
    }

    /// Appends the event in base64.
    pub(crate) fn base64(&mut self, event: &Source<'_>) {
        self.step(event, Work::Base64);
    }

    /// Appends the event's rows. `table` is the table of its table id, if known.
    pub(crate) fn rows(&mut self, event: &Source<'_>, table: Option<&Arc<TableText>>) {
        let decoding = self.decoding(event);
        let table = table.map(|table| number_of(&mut self.tables, table));
        self.step(event, Work::Rows { decoding, table });
    }

    /// Appends header line and text of an event that starts at position `at`.
    pub(crate) fn head(&mut self, event: &Source<'_>, at: u64, next_position: u32, keys: GeneratedKeys) {
        let decoding = self.decoding(event);
        self.step(event, Work::Head { decoding, at, next_position, keys });
    }

    /// Moves all steps of `other` to the end of this batch. `other` must have no text.
    pub(crate) fn append(&mut self, other: &mut Self) {
        let text_end = self.text.len();
        self.steps.reserve(other.steps.len());
        for mut step in other.steps.drain(..) {
            step.text_end = text_end;
            if let Buffer::Here(buffer) = &other.buffers[step.event.buffer as usize] {
                step.event.buffer = buffer_number(&mut self.buffers, buffer);
            }
            match &mut step.work {
                Work::Base64 => {}
                Work::Head { decoding, .. } => {
                    decoding.format = number_of(&mut self.formats, &other.formats[decoding.format as usize]);
                }
                Work::Rows { decoding, table } => {
                    decoding.format = number_of(&mut self.formats, &other.formats[decoding.format as usize]);
                    if let Some(table) = table {
                        *table = number_of(&mut self.tables, &other.tables[*table as usize]);
                    }
                }
            }
            self.steps.push(step);
        }
        self.size += take(&mut other.size);
        keep_last(&mut other.buffers);
        keep_last(&mut other.formats);
        keep_last(&mut other.tables);
    }

    fn decoding(&mut self, event: &Source<'_>) -> Decoding {
        Decoding { checksum: event.checksum, format: number_of(&mut self.formats, event.format) }
    }

    fn step(&mut self, event: &Source<'_>, work: Work) {
        let range = &event.range;
        self.size += range.len() + size_of::<Step>();
        let event = Slice {
            buffer: buffer_number(&mut self.buffers, event.buffer),
            start: range.start as u32,
            end: range.end as u32,
        };
        self.steps.push(Step { text_end: self.text.len(), event, work });
    }

    /// Returns whether the batch has neither text nor steps.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.steps.is_empty() && self.steps_away.is_none()
    }

    /// Returns whether all events of the batch are in files, so that spooling needs no copy of them.
    pub(crate) fn is_in_file(&self) -> bool {
        self.buffers.iter().all(|buffer| match buffer {
            Buffer::Here(buffer) => buffer.origin().is_some(),
            Buffer::Away(..) | Buffer::Back(_) => true,
        })
    }

    /// Moves steps and events into a temporary file. Events of a regular log file are not copied. `known` has the
    /// buffers that are in files already, by address, and keeps these addresses from being reused.
    pub(crate) fn put_away(&mut self, spool: &mut Spool, known: &mut PutAway) -> io::Result<()> {
        let ranges = self.event_ranges();
        for (held, range) in self.buffers.iter_mut().zip(ranges) {
            let Buffer::Here(buffer) = held else { continue };
            // The range of the events only: the head of a log changes when its server closes it.
            let seen = buffer.origin().map(|_| Seen::new(buffer, range));
            let away = match known.get(&Arc::as_ptr(buffer)) {
                Some((_, away)) => away.clone(),
                None => {
                    let away = match buffer.origin() {
                        Some((file, offset)) => Away::in_log(file, *offset, buffer.len()),
                        None => spool.put(buffer)?,
                    };
                    known.insert(Arc::as_ptr(buffer), (Arc::clone(buffer), away.clone()));
                    away
                }
            };
            *held = Buffer::Away(away, seen);
        }
        let mut bytes = Vec::with_capacity(self.steps.len() * Step::STORED_SIZE);
        for step in &self.steps {
            step.store(&mut bytes);
        }
        self.steps_away = Some(spool.put(&bytes)?);
        self.steps = Vec::new();
        Ok(())
    }

    /// Returns the range from the first to the last event in each buffer.
    fn event_ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Option<Range<usize>>> = vec![None; self.buffers.len()];
        for Slice { buffer, start, end } in self.steps.iter().map(|step| step.event) {
            let (start, end) = (start as usize, end as usize);
            let range = ranges[buffer as usize].get_or_insert(start..end);
            *range = range.start.min(start)..range.end.max(end);
        }
        ranges.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn bring_back(&mut self, spare: &Spare) -> io::Result<()> {
        for held in &mut self.buffers {
            if let Buffer::Away(away, seen) = held {
                let bytes = away.read(spare)?;
                if seen.as_ref().is_some_and(|seen| !seen.is_same(&bytes)) {
                    return Err(changed());
                }
                *held = Buffer::Back(bytes);
            }
        }
        if let Some(away) = self.steps_away.take() {
            let bytes = away.read(spare)?;
            self.steps.extend(bytes.as_chunks().0.iter().filter_map(Step::restore));
            spare.put_back(bytes);
        }
        Ok(())
    }

    /// Returns the size of text and events, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size + self.text.len()
    }

    /// Produces the text and passes it on in parts of about `part_size` bytes.
    pub(crate) fn write<E: From<io::Error>>(
        mut self,
        heads: &mut HeadText<'_>,
        spare: &Spare,
        part_size: usize,
        mut hand_on: impl FnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.bring_back(spare)?;
        if self.steps.is_empty() {
            return hand_on(self.text);
        }
        let mut hand_on_if_full = |out: &mut Vec<u8>| match out.len() >= part_size {
            true => hand_on(replace(out, spare.take())),
            false => Ok(()),
        };
        let mut out = spare.take();
        let mut start = 0;
        for step in &self.steps {
            out.extend_from_slice(&self.text[start..step.text_end]);
            start = step.text_end;
            let buffer: &[u8] = match &self.buffers[step.event.buffer as usize] {
                Buffer::Here(buffer) => buffer,
                Buffer::Back(buffer) => buffer,
                Buffer::Away(..) => continue,
            };
            let event = &buffer[step.event.start as usize..step.event.end as usize];
            match step.work {
                Work::Base64 => {
                    // In whole lines, a part at a time: an event can have a gigabyte.
                    for piece in event.chunks(LINES_AT_ONCE * LINE_BYTES) {
                        put_lines(&mut out, piece);
                        hand_on_if_full(&mut out)?;
                    }
                }
                Work::Rows { decoding, table } => {
                    let (_, decoded) = self.decoded(event, decoding)?;
                    if let Some(rows) = decoded.rows() {
                        put_rows(&mut out, table.map(|table| &*self.tables[table as usize]), rows);
                    }
                }
                Work::Head { decoding, at, next_position, keys } => {
                    let (header, decoded) = self.decoded(event, decoding)?;
                    let format = &*self.formats[decoding.format as usize];
                    let header = Header { next_position, ..header };
                    heads.put(
                        &mut out,
                        Head { bytes: event, header, format, at, hexdump: Hexdump::Columns },
                        &decoded,
                        keys,
                    );
                }
            }
            hand_on_if_full(&mut out)?;
        }
        out.extend_from_slice(&self.text[start..]);
        spare.put_back(self.text);
        for buffer in self.buffers {
            if let Buffer::Back(buffer) = buffer {
                spare.put_back(buffer);
            }
        }
        hand_on(out)
    }

    /// Decodes an event again. The event was decoded before, so this fails only if the log has changed.
    fn decoded<'e>(&self, event: &'e [u8], decoding: Decoding) -> io::Result<(Header, Event<'e>)> {
        let format = &self.formats[decoding.format as usize];
        let header = Header::decode(&mut Cursor::new(event)).ok();
        let found = header.and_then(|header| {
            let decoded = decode(event, &header, decoding.checksum, format)?;
            Some((header, decoded))
        });
        found.ok_or_else(changed)
    }
}

fn changed() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the log changed while it was read")
}

/// Returns the index of a buffer, as [`number_of`] does.
fn buffer_number(held: &mut Vec<Buffer>, one: &Arc<Bytes>) -> u32 {
    let is_same = |other: &Buffer| matches!(other, Buffer::Here(other) if Arc::ptr_eq(other, one));
    match held.iter().rposition(is_same) {
        Some(number) => number as u32,
        None => {
            held.push(Buffer::Here(Arc::clone(one)));
            held.len() as u32 - 1
        }
    }
}

/// Returns the index of `one`, after adding it if it is new. Most often it is the last.
fn number_of<T>(held: &mut Vec<Arc<T>>, one: &Arc<T>) -> u32 {
    match held.iter().rposition(|other| Arc::ptr_eq(other, one)) {
        Some(number) => number as u32,
        None => {
            held.push(Arc::clone(one));
            held.len() as u32 - 1
        }
    }
}

/// Removes all but the last element, which is the one most often needed next.
fn keep_last<T>(held: &mut Vec<T>) {
    if held.len() > 1 {
        held.drain(..held.len() - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::ops::Range;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    use binlog::events::TableMap;
    use binlog::{Checksum, Flavour, Table};
    use jiff::tz::TimeZone;

    use super::{Batch, PutAway, Source};
    use crate::bytes::{Bytes, Spare};
    use crate::decode::LogFormat;
    use crate::head_text::HeadText;
    use crate::log_file::LogFile;
    use crate::options::Values;
    use crate::rows_text::{TableText, Types};
    use crate::settings::{Heeded, Settings};
    use crate::spool::Spool;
    use crate::talk::Talk;

    /// Returns a Write_rows event of table 71: one row of one TINYINT.
    fn event(value: u8) -> Vec<u8> {
        let header = [0, 0, 0, 0, 30, 1, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let body = [71, 0, 0, 0, 0, 0, 1, 0, 2, 0, 1, 1, 0, value];
        [&header[..], &body].concat()
    }

    fn batch(buffer: &Arc<Bytes>) -> Batch {
        batch_at(buffer, 0..buffer.len())
    }

    fn batch_at(buffer: &Arc<Bytes>, events: Range<usize>) -> Batch {
        let format = Arc::new(LogFormat::at_first());
        let map = TableMap {
            table_id: 71,
            flags: 1,
            database: b"d",
            table: b"t",
            column_types: &[1],
            metadata: &[],
            nullable: &[1],
            optional: &[],
            flavour: Flavour::MySql,
        };
        let table = Arc::new(TableText::new(&Table::new(&map).unwrap(), Types::Hidden));
        let mut batch = Batch::default();
        for start in events.step_by(event(0).len()) {
            let range = start..start + event(0).len();
            let source = Source { buffer, range, checksum: Checksum::Absent, format: &format };
            batch.base64(&source);
            batch.rows(&source, Some(&table));
            batch.rows(&source, None);
        }
        batch
    }

    fn text(batch: Batch) -> String {
        written(batch).unwrap()
    }

    fn written(batch: Batch) -> io::Result<String> {
        let mut said = Vec::new();
        let mut talk = Talk::new(&mut said, b"test");
        let mut never = |_: &mut Talk<'_>| Vec::new();
        let heeded = Heeded::new(TimeZone::UTC, &mut never);
        let settings = Settings::new(&Values::new(&[]), heeded, &mut talk);
        let mut out = Vec::new();
        let settings = settings.unwrap_or_else(|_| panic!("no option is wrong"));
        batch.write(&mut HeadText::new(&settings), &Spare::default(), 10, |part| {
            out.extend_from_slice(&part);
            Ok::<(), io::Error>(())
        })?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_was_put_away_is_written_the_same() {
        let buffer = Arc::new(Bytes::new([event(1), event(2), event(3)].concat()));
        let wanted = text(batch(&buffer));
        assert!(wanted.contains("### INSERT INTO `d`.`t`\n### SET\n###   @1=3\n"), "{wanted}");
        let mut away = batch(&buffer);
        let (mut spool, mut known) = (Spool::default(), PutAway::new());
        away.put_away(&mut spool, &mut known).unwrap();
        let mut again = batch(&buffer);
        again.put_away(&mut spool, &mut known).unwrap();
        assert_eq!(known.len(), 1);
        drop((spool, known, buffer));
        assert_eq!(text(away), wanted);
        assert_eq!(text(again), wanted);
    }
    /// Writes a batch after one byte of its log was changed.
    fn written_after_change(at: u64) -> io::Result<String> {
        let events = [event(1), event(2), event(3)].concat();
        let file = tempfile::tempfile().unwrap();
        let whole = [&[0; 5][..], &events, &[0; 5]].concat();
        file.write_all_at(&whole, 0).unwrap();
        let log = Arc::new(LogFile::new(file.try_clone().unwrap()).unwrap());
        let buffer = Arc::new(Bytes::new(whole).of_log(&log, 0));
        let mut batch = batch_at(&buffer, 5..5 + events.len());
        batch.put_away(&mut Spool::default(), &mut PutAway::new()).unwrap();
        file.write_all_at(&[9], at).unwrap();
        written(batch)
    }

    #[test]
    fn a_log_that_changes_behind_its_reader_is_an_error() {
        let event_size = event(0).len() as u64;
        let unchanged = written_after_change(0).unwrap();
        assert!(unchanged.contains("@1=3\n"), "{unchanged}");
        assert_eq!(written_after_change(5 + 3 * event_size).unwrap(), unchanged);
        // The first byte and the last value. Both changed logs still decode.
        for at in [5, 5 + 3 * event_size - 1] {
            let error = written_after_change(at).unwrap_err();
            assert_eq!(error.to_string(), "the log changed while it was read");
        }
    }
}

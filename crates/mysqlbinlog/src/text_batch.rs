//! Output in order: text, and events whose text any thread can produce later.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::mem::{replace, take};
use std::ops::Range;
use std::sync::Arc;

use binlog::{BASE64_LINE_BYTES, Cursor, Event, EventChecksum, EventHeader, put_base64_lines};

use crate::decode::{LogFormat, decode};
use crate::dump_spool::{DumpSpool, SpooledBytes};
use crate::event_buffer::{BufferReserve, EventBuffer};
use crate::head_text::{EventHead, GeneratedKeys, HeadText};
use crate::hexdump::HexdumpForm;
use crate::rows_text::{TableText, put_rows};

/// Appends bytes in base64 as `BINLOG` statements have them: in lines of 76 characters, each ended by a newline.
pub(crate) fn put_event_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    put_base64_lines(out, bytes, b"\n");
    if !bytes.is_empty() {
        out.push(b'\n');
    }
}

/// Lines of base64 encoded between two checks of the size of the output.
const BASE64_LINES_PER_CHECK: usize = 8192;

/// Text, and events whose text is not produced yet.
///
/// Formats, tables and buffers are stored once and referred to by index. A reference count per step, changed from two
/// threads, would cost more than the step itself.
#[derive(Default)]
pub(crate) struct TextBatch {
    text: Vec<u8>,
    /// Length of the text that is printed in any case. The text after it may still be dropped.
    final_size: usize,
    steps: Vec<BatchStep>,
    /// The steps, if they are in a temporary file.
    spooled_steps: Option<SpooledBytes>,
    buffers: Vec<BatchBuffer>,
    formats: Vec<Arc<LogFormat>>,
    tables: Vec<Arc<TableText>>,
    /// Size of what the steps refer to, in bytes.
    size: usize,
}

/// The bytes of some events.
enum BatchBuffer {
    InMemory(Arc<EventBuffer>),
    InFile(SpooledBytes, Option<BufferFingerprint>),
    /// Read back from its file.
    Restored(Vec<u8>),
}

/// Range and checksum of a batch's events when they were read. The log may change before they are read again.
struct BufferFingerprint {
    /// Range from the first to the last event in the buffer.
    range: Range<usize>,
    checksum: u32,
}

impl BufferFingerprint {
    fn new(buffer: &[u8], range: Range<usize>) -> Self {
        Self { checksum: crc32fast::hash(&buffer[range.clone()]), range }
    }

    fn matches(&self, buffer: &[u8]) -> bool {
        buffer.get(self.range.clone()).is_some_and(|bytes| crc32fast::hash(bytes) == self.checksum)
    }
}

/// One event to write, after the text that starts where the step before ends.
#[derive(Clone, Copy)]
struct BatchStep {
    text_end: usize,
    event: BufferSlice,
    deferred: DeferredText,
}

/// A range of one of the buffers.
#[derive(Clone, Copy)]
struct BufferSlice {
    buffer: u32,
    start: u32,
    end: u32,
}

#[derive(Clone, Copy)]
enum DeferredText {
    Base64,
    Rows { decoding: DecodeContext, table: Option<u32> },
    Head { decoding: DecodeContext, at: u64, next_position: u32, keys: GeneratedKeys },
}

/// Checksum and format (by index) to decode an event with.
#[derive(Clone, Copy)]
struct DecodeContext {
    checksum: EventChecksum,
    format: u32,
}

/// Buffers in files, by their address in memory. The `Arc` keeps the address from being reused.
pub(crate) type SpooledBuffers = HashMap<*const EventBuffer, (Arc<EventBuffer>, SpooledBytes)>;

impl BatchStep {
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
        let (kind, format, table) = match self.deferred {
            DeferredText::Base64 | DeferredText::Head { .. } => (1, 0, 0),
            DeferredText::Rows { decoding, table } => {
                let checksum = if decoding.checksum == EventChecksum::Crc32 { 256 } else { 0 };
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
        let event = BufferSlice { buffer: field()?, start: field()?, end: field()? };
        let (kind, format, table) = (field()?, field()?, field()?);
        let checksum = if kind & 256 == 0 { EventChecksum::Absent } else { EventChecksum::Crc32 };
        let work = match kind & 255 {
            1 => DeferredText::Base64,
            2 => DeferredText::Rows { decoding: DecodeContext { checksum, format }, table: Some(table) },
            _ => DeferredText::Rows { decoding: DecodeContext { checksum, format }, table: None },
        };
        Some(Self { text_end: 0, event, deferred: work })
    }
}

/// One encoded event, with its checksum and format.
pub(crate) struct EncodedEvent<'a> {
    pub(crate) buffer: &'a Arc<EventBuffer>,
    /// Range of the event in the buffer.
    pub(crate) range: Range<usize>,
    pub(crate) checksum: EventChecksum,
    pub(crate) format: &'a Arc<LogFormat>,
}

impl TextBatch {
    /// Returns an empty batch that reuses a buffer.
    pub(crate) fn new(spare: &BufferReserve) -> Self {
        Self { text: spare.take(), ..Self::default() }
    }

    /// Returns the text, to append to.
    pub(crate) fn text_mut(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Marks all text so far as printed in any case.
    pub(crate) fn mark_final(&mut self) {
        self.final_size = self.text.len();
    }

    /// Inserts text that is printed in any case before the text that may still be dropped.
    pub(crate) fn insert_final(&mut self, text: &[u8]) {
        self.text.splice(self.final_size..self.final_size, text.iter().copied());
        self.final_size += text.len();
    }

    /// Removes and returns the text that may still be dropped.
    pub(crate) fn take_tentative(&mut self) -> Vec<u8> {
        self.text.split_off(self.final_size)
    }

    /// Appends the event in base64.
    pub(crate) fn push_base64(&mut self, event: &EncodedEvent<'_>) {
        self.push_step(event, DeferredText::Base64);
    }

    /// Appends the event's rows. `table` is the table of its table id, if known.
    pub(crate) fn push_rows(&mut self, event: &EncodedEvent<'_>, table: Option<&Arc<TableText>>) {
        let decoding = self.decode_context(event);
        let table = table.map(|table| intern(&mut self.tables, table));
        self.push_step(event, DeferredText::Rows { decoding, table });
    }

    /// Appends header line and text of an event that starts at position `at`.
    pub(crate) fn push_head(
        &mut self,
        event: &EncodedEvent<'_>,
        at: u64,
        next_position: u32,
        keys: GeneratedKeys,
    ) {
        let decoding = self.decode_context(event);
        self.push_step(event, DeferredText::Head { decoding, at, next_position, keys });
    }

    /// Moves all steps of `other` to the end of this batch. `other` must have no text.
    pub(crate) fn append(&mut self, other: &mut Self) {
        let text_end = self.text.len();
        self.steps.reserve(other.steps.len());
        for mut step in other.steps.drain(..) {
            step.text_end = text_end;
            if let BatchBuffer::InMemory(buffer) = &other.buffers[step.event.buffer as usize] {
                step.event.buffer = intern_buffer(&mut self.buffers, buffer);
            }
            match &mut step.deferred {
                DeferredText::Base64 => {}
                DeferredText::Head { decoding, .. } => {
                    decoding.format = intern(&mut self.formats, &other.formats[decoding.format as usize]);
                }
                DeferredText::Rows { decoding, table } => {
                    decoding.format = intern(&mut self.formats, &other.formats[decoding.format as usize]);
                    if let Some(table) = table {
                        *table = intern(&mut self.tables, &other.tables[*table as usize]);
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

    fn decode_context(&mut self, event: &EncodedEvent<'_>) -> DecodeContext {
        DecodeContext { checksum: event.checksum, format: intern(&mut self.formats, event.format) }
    }

    fn push_step(&mut self, event: &EncodedEvent<'_>, work: DeferredText) {
        let range = &event.range;
        self.size += range.len() + size_of::<BatchStep>();
        let event = BufferSlice {
            buffer: intern_buffer(&mut self.buffers, event.buffer),
            start: range.start as u32,
            end: range.end as u32,
        };
        self.steps.push(BatchStep { text_end: self.text.len(), event, deferred: work });
    }

    /// Returns whether the batch has neither text nor steps.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.steps.is_empty() && self.spooled_steps.is_none()
    }

    /// Returns whether all events of the batch are in files, so that spooling needs no copy of them.
    pub(crate) fn is_in_file(&self) -> bool {
        self.buffers.iter().all(|buffer| match buffer {
            BatchBuffer::InMemory(buffer) => buffer.origin().is_some(),
            BatchBuffer::InFile(..) | BatchBuffer::Restored(_) => true,
        })
    }

    /// Moves steps and events into a temporary file. Events of a regular log file are not copied. `known` has the
    /// buffers that are in files already, by address, and keeps these addresses from being reused.
    pub(crate) fn spool(&mut self, spool: &mut DumpSpool, known: &mut SpooledBuffers) -> io::Result<()> {
        let ranges = self.event_ranges();
        for (slot, range) in self.buffers.iter_mut().zip(ranges) {
            let BatchBuffer::InMemory(buffer) = slot else { continue };
            // The range of the events only: the head of a log changes when its server closes it.
            let seen = buffer.origin().map(|_| BufferFingerprint::new(buffer, range));
            let away = match known.get(&Arc::as_ptr(buffer)) {
                Some((_, away)) => away.clone(),
                None => {
                    let away = match buffer.origin() {
                        Some((file, offset)) => SpooledBytes::of_log(file, *offset, buffer.len()),
                        None => spool.put(buffer)?,
                    };
                    known.insert(Arc::as_ptr(buffer), (Arc::clone(buffer), away.clone()));
                    away
                }
            };
            *slot = BatchBuffer::InFile(away, seen);
        }
        let mut bytes = Vec::with_capacity(self.steps.len() * BatchStep::STORED_SIZE);
        for step in &self.steps {
            step.store(&mut bytes);
        }
        self.spooled_steps = Some(spool.put(&bytes)?);
        self.steps = Vec::new();
        Ok(())
    }

    /// Returns the range from the first to the last event in each buffer.
    fn event_ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Option<Range<usize>>> = vec![None; self.buffers.len()];
        for BufferSlice { buffer, start, end } in self.steps.iter().map(|step| step.event) {
            let (start, end) = (start as usize, end as usize);
            let range = ranges[buffer as usize].get_or_insert(start..end);
            *range = range.start.min(start)..range.end.max(end);
        }
        ranges.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn restore(&mut self, spare: &BufferReserve) -> io::Result<()> {
        for slot in &mut self.buffers {
            if let BatchBuffer::InFile(away, seen) = slot {
                let bytes = away.read(spare)?;
                if seen.as_ref().is_some_and(|seen| !seen.matches(&bytes)) {
                    return Err(log_changed());
                }
                *slot = BatchBuffer::Restored(bytes);
            }
        }
        if let Some(away) = self.spooled_steps.take() {
            let bytes = away.read(spare)?;
            self.steps.extend(bytes.as_chunks().0.iter().filter_map(BatchStep::restore));
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
        spare: &BufferReserve,
        part_size: usize,
        mut hand_on: impl FnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.restore(spare)?;
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
                BatchBuffer::InMemory(buffer) => buffer,
                BatchBuffer::Restored(buffer) => buffer,
                BatchBuffer::InFile(..) => continue,
            };
            let event = &buffer[step.event.start as usize..step.event.end as usize];
            match step.deferred {
                DeferredText::Base64 => {
                    // In whole lines, a part at a time: an event can have a gigabyte.
                    for piece in event.chunks(BASE64_LINES_PER_CHECK * BASE64_LINE_BYTES) {
                        put_event_base64(&mut out, piece);
                        hand_on_if_full(&mut out)?;
                    }
                }
                DeferredText::Rows { decoding, table } => {
                    let (_, decoded) = self.decode(event, decoding)?;
                    if let Some(rows) = decoded.rows() {
                        put_rows(&mut out, table.map(|table| &*self.tables[table as usize]), rows);
                    }
                }
                DeferredText::Head { decoding, at, next_position, keys } => {
                    let (header, decoded) = self.decode(event, decoding)?;
                    let format = &*self.formats[decoding.format as usize];
                    let header = EventHeader { next_position, ..header };
                    heads.put(
                        &mut out,
                        EventHead { bytes: event, header, format, at, hexdump: HexdumpForm::Columns },
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
            if let BatchBuffer::Restored(buffer) = buffer {
                spare.put_back(buffer);
            }
        }
        hand_on(out)
    }

    /// Decodes an event again. The event was decoded before, so this fails only if the log has changed.
    fn decode<'e>(&self, event: &'e [u8], decoding: DecodeContext) -> io::Result<(EventHeader, Event<'e>)> {
        let format = &self.formats[decoding.format as usize];
        let header = EventHeader::decode(&mut Cursor::new(event)).ok();
        let found = header.and_then(|header| {
            let decoded = decode(event, &header, decoding.checksum, format)?;
            Some((header, decoded))
        });
        found.ok_or_else(log_changed)
    }
}

fn log_changed() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the log changed while it was read")
}

/// Returns the index of a buffer, as [`intern`] does.
fn intern_buffer(kept: &mut Vec<BatchBuffer>, one: &Arc<EventBuffer>) -> u32 {
    let is_same =
        |other: &BatchBuffer| matches!(other, BatchBuffer::InMemory(other) if Arc::ptr_eq(other, one));
    match kept.iter().rposition(is_same) {
        Some(number) => number as u32,
        None => {
            kept.push(BatchBuffer::InMemory(Arc::clone(one)));
            kept.len() as u32 - 1
        }
    }
}

/// Returns the index of `one`, after adding it if it is new. Most often it is the last.
fn intern<T>(kept: &mut Vec<Arc<T>>, one: &Arc<T>) -> u32 {
    match kept.iter().rposition(|other| Arc::ptr_eq(other, one)) {
        Some(number) => number as u32,
        None => {
            kept.push(Arc::clone(one));
            kept.len() as u32 - 1
        }
    }
}

/// Removes all but the last element, which is the one most often needed next.
fn keep_last<T>(kept: &mut Vec<T>) {
    if kept.len() > 1 {
        kept.drain(..kept.len() - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::ops::Range;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    use binlog::events::TableMap;
    use binlog::{EventChecksum, Flavour, Table};
    use jiff::tz::TimeZone;

    use super::{EncodedEvent, SpooledBuffers, TextBatch};
    use crate::decode::LogFormat;
    use crate::dump_diagnostics::DumpDiagnostics;
    use crate::dump_settings::DumpSettings;
    use crate::dump_spool::DumpSpool;
    use crate::event_buffer::{BufferReserve, EventBuffer};
    use crate::head_text::HeadText;
    use crate::input_log_file::InputLogFile;
    use crate::list_provider::NoLists;
    use crate::options::OptionValues;
    use crate::parsed_options::ParsedOptions;
    use crate::rows_text::{TableText, TypeComments};

    /// Returns a Write_rows event of table 71: one row of one TINYINT.
    fn event(value: u8) -> Vec<u8> {
        let header = [0, 0, 0, 0, 30, 1, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let body = [71, 0, 0, 0, 0, 0, 1, 0, 2, 0, 1, 1, 0, value];
        [&header[..], &body].concat()
    }

    fn batch(buffer: &Arc<EventBuffer>) -> TextBatch {
        batch_at(buffer, 0..buffer.len())
    }

    fn batch_at(buffer: &Arc<EventBuffer>, events: Range<usize>) -> TextBatch {
        let format = Arc::new(LogFormat::initial());
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
        let table = Arc::new(TableText::new(&Table::new(&map).unwrap(), TypeComments::Hidden));
        let mut batch = TextBatch::default();
        for start in events.step_by(event(0).len()) {
            let range = start..start + event(0).len();
            let source = EncodedEvent { buffer, range, checksum: EventChecksum::Absent, format: &format };
            batch.push_base64(&source);
            batch.push_rows(&source, Some(&table));
            batch.push_rows(&source, None);
        }
        batch
    }

    fn text(batch: TextBatch) -> String {
        written(batch).unwrap()
    }

    fn written(batch: TextBatch) -> io::Result<String> {
        let mut said = Vec::new();
        let mut diagnostics = DumpDiagnostics::new(&mut said, b"test");
        let mut never = |_: &mut DumpDiagnostics<'_>| Vec::new();
        let mut lists = NoLists;
        let parsed = ParsedOptions::new(TimeZone::UTC, &mut never, &mut lists);
        let settings = DumpSettings::new(&OptionValues::new(&[]), parsed, &mut diagnostics);
        let mut out = Vec::new();
        let settings = settings.unwrap_or_else(|_| panic!("no option is wrong"));
        batch.write(&mut HeadText::new(&settings), &BufferReserve::default(), 10, |part| {
            out.extend_from_slice(&part);
            Ok::<(), io::Error>(())
        })?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn spooled_batches_write_the_same_text() {
        let buffer = Arc::new(EventBuffer::new([event(1), event(2), event(3)].concat()));
        let expected = text(batch(&buffer));
        assert!(expected.contains("### INSERT INTO `d`.`t`\n### SET\n###   @1=3\n"), "{expected}");
        let mut away = batch(&buffer);
        let (mut spool, mut known) = (DumpSpool::default(), SpooledBuffers::new());
        away.spool(&mut spool, &mut known).unwrap();
        let mut again = batch(&buffer);
        again.spool(&mut spool, &mut known).unwrap();
        assert_eq!(known.len(), 1);
        drop((spool, known, buffer));
        assert_eq!(text(away), expected);
        assert_eq!(text(again), expected);
    }
    /// Writes a batch after one byte of its log was changed.
    fn written_after_change(at: u64) -> io::Result<String> {
        let events = [event(1), event(2), event(3)].concat();
        let file = tempfile::tempfile().unwrap();
        let whole = [&[0; 5][..], &events, &[0; 5]].concat();
        file.write_all_at(&whole, 0).unwrap();
        let log = Arc::new(InputLogFile::new(file.try_clone().unwrap()).unwrap());
        let buffer = Arc::new(EventBuffer::new(whole).with_origin(&log, 0));
        let mut batch = batch_at(&buffer, 5..5 + events.len());
        batch.spool(&mut DumpSpool::default(), &mut SpooledBuffers::new()).unwrap();
        file.write_all_at(&[9], at).unwrap();
        written(batch)
    }

    #[test]
    fn a_log_changed_while_read_is_an_error() {
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

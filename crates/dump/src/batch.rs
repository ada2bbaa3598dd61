//! What is to be printed, in order, with the heavy parts still to be worked out: by any thread, in any order.

use std::mem::replace;
use std::ops::Range;
use std::sync::Arc;

use binlog::events::Rows;
use binlog::{Checksum, Event, Format, RawEvent};

use crate::base64::{LINE_BYTES, put_lines};
use crate::head_text::{GeneratedKeys, Head, HeadText};
use crate::pipeline::Spare;
use crate::rows_text::{TableText, put_rows};

/// Lines of base64 that are made between two looks at how much there is.
const LINES_AT_ONCE: usize = 8192;

/// Text, and events whose text is still to be worked out.
///
/// What many steps share is held once: counting its holders for each of them, in two threads, would cost more than
/// the work itself.
#[derive(Default)]
pub(crate) struct Batch {
    text: Vec<u8>,
    steps: Vec<Step>,
    buffers: Vec<Arc<Vec<u8>>>,
    formats: Vec<Arc<Format>>,
    tables: Vec<Arc<TableText>>,
    /// What the steps hold, in bytes.
    size: usize,
}

/// Work, and the text in front of it, which starts where the step before ends.
struct Step {
    text_end: usize,
    event: Slice,
    work: Work,
}

/// A part of one of the buffers.
#[derive(Clone, Copy)]
struct Slice {
    buffer: u32,
    start: u32,
    end: u32,
}

enum Work {
    Base64,
    Rows { decoding: Decoding, table: Option<u32> },
    Head { decoding: Decoding, at: u64, next_position: u32, keys: GeneratedKeys },
}

/// What it takes to decode an event: its format by number.
#[derive(Clone, Copy)]
struct Decoding {
    checksum: Checksum,
    format: u32,
}

/// One event, and what it takes to decode it.
pub(crate) struct Source<'a> {
    pub(crate) buffer: &'a Arc<Vec<u8>>,
    /// Where it stands in the buffer.
    pub(crate) range: Range<usize>,
    pub(crate) checksum: Checksum,
    pub(crate) format: &'a Arc<Format>,
}

impl Batch {
    /// With memory that has been used before.
    pub(crate) fn new(spare: &Spare) -> Self {
        Self { text: spare.take(), ..Self::default() }
    }

    /// The text that comes next.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// The event in base64 comes next.
    pub(crate) fn base64(&mut self, event: &Source<'_>) {
        self.step(event, Work::Base64);
    }

    /// The event's rows come next; `table` is what its table id stands for, if anything.
    pub(crate) fn rows(&mut self, event: &Source<'_>, table: Option<&Arc<TableText>>) {
        let decoding = self.decoding(event);
        let table = table.map(|table| number_of(&mut self.tables, table));
        self.step(event, Work::Rows { decoding, table });
    }

    /// The header line and the text of an event come next that stands at `at`.
    pub(crate) fn head(&mut self, event: &Source<'_>, at: u64, next_position: u32, keys: GeneratedKeys) {
        let decoding = self.decoding(event);
        self.step(event, Work::Head { decoding, at, next_position, keys });
    }

    /// All that `other` holds comes next.
    pub(crate) fn append(&mut self, other: &mut Self) {
        let text_start = self.text.len();
        self.text.append(&mut other.text);
        self.size += other.size;
        for mut step in other.steps.drain(..) {
            step.text_end += text_start;
            step.event.buffer = number_of(&mut self.buffers, &other.buffers[step.event.buffer as usize]);
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
        other.size = 0;
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
            buffer: number_of(&mut self.buffers, event.buffer),
            start: range.start as u32,
            end: range.end as u32,
        };
        self.steps.push(Step { text_end: self.text.len(), event, work });
    }

    /// Is nothing in it?
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.steps.is_empty()
    }

    /// How much it holds, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size + self.text.len()
    }

    /// Works it out, and hands on the text in parts of about `part_size` bytes.
    pub(crate) fn write<E>(
        self,
        heads: &mut HeadText<'_>,
        spare: &Spare,
        part_size: usize,
        mut hand_on: impl FnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
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
            let event =
                &self.buffers[step.event.buffer as usize][step.event.start as usize..step.event.end as usize];
            match step.work {
                Work::Base64 => {
                    // Whole lines at a time: one event can be a gigabyte.
                    for piece in event.chunks(LINES_AT_ONCE * LINE_BYTES) {
                        put_lines(&mut out, piece);
                        hand_on_if_full(&mut out)?;
                    }
                }
                Work::Rows { decoding, table } => self.put_rows(&mut out, event, decoding, table),
                Work::Head { decoding, at, next_position, keys } => {
                    let format = &*self.formats[decoding.format as usize];
                    // It was decoded before it came here.
                    if let Ok(raw) = RawEvent::new(event, decoding.checksum)
                        && let Ok(decoded) = raw.decode(format)
                    {
                        let header = binlog::Header { next_position, ..*raw.header() };
                        heads.put(&mut out, Head { bytes: event, header, format, at }, &decoded, keys);
                    }
                }
            }
            hand_on_if_full(&mut out)?;
        }
        out.extend_from_slice(&self.text[start..]);
        spare.put_back(self.text);
        hand_on(out)
    }

    fn put_rows(&self, out: &mut Vec<u8>, event: &[u8], decoding: Decoding, table: Option<u32>) {
        let format = &self.formats[decoding.format as usize];
        let event = RawEvent::new(event, decoding.checksum).and_then(|raw| raw.decode(format));
        // It was decoded before it came here.
        if let Ok(event) = &event
            && let Some(rows) = rows_of(event)
        {
            put_rows(out, table.map(|table| &*self.tables[table as usize]), rows);
        }
    }
}

fn rows_of<'e, 'a>(event: &'e Event<'a>) -> Option<&'e Rows<'a>> {
    match event {
        Event::WriteRows(rows)
        | Event::UpdateRows(rows)
        | Event::DeleteRows(rows)
        | Event::PartialUpdateRows(rows)
        | Event::WriteRowsV1(rows)
        | Event::UpdateRowsV1(rows)
        | Event::DeleteRowsV1(rows) => Some(rows),
        _ => None,
    }
}

/// Its number among what is held; it is most often the last.
fn number_of<T>(held: &mut Vec<Arc<T>>, one: &Arc<T>) -> u32 {
    match held.iter().rposition(|other| Arc::ptr_eq(other, one)) {
        Some(number) => number as u32,
        None => {
            held.push(Arc::clone(one));
            held.len() as u32 - 1
        }
    }
}

/// What is used again next, most often.
fn keep_last<T>(held: &mut Vec<Arc<T>>) {
    held.drain(..held.len().saturating_sub(1));
}

//! What is to be printed, in order, with the heavy parts still to be worked out: by any thread, in any order.

use std::mem::replace;
use std::sync::Arc;

use binlog::events::Rows;
use binlog::{Checksum, Event, Format, RawEvent};

use crate::base64::{LINE_BYTES, put_lines};
use crate::event_ref::EventRef;
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

/// A rows event to be shown as pseudo-SQL.
#[derive(Clone)]
pub(crate) struct RowsWork {
    pub(crate) event: EventRef,
    pub(crate) checksum: Checksum,
    pub(crate) format: Arc<Format>,
    /// What its table id stands for, if anything.
    pub(crate) table: Option<Arc<TableText>>,
}

/// An event whose header line and text are wanted.
pub(crate) struct HeadWork {
    pub(crate) event: EventRef,
    pub(crate) checksum: Checksum,
    pub(crate) format: Arc<Format>,
    pub(crate) at: u64,
    pub(crate) next_position: u32,
    pub(crate) keys: GeneratedKeys,
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
    pub(crate) fn base64(&mut self, event: &EventRef) {
        self.step(event, Work::Base64);
    }

    /// The event's rows come next.
    pub(crate) fn rows(&mut self, rows: &RowsWork) {
        let decoding = self.decoding(rows.checksum, &rows.format);
        let table = rows.table.as_ref().map(|table| number_of(&mut self.tables, table));
        self.step(&rows.event, Work::Rows { decoding, table });
    }

    /// The event's header line and text come next.
    pub(crate) fn head(&mut self, head: &HeadWork) {
        let decoding = self.decoding(head.checksum, &head.format);
        let HeadWork { at, next_position, keys, .. } = *head;
        self.step(&head.event, Work::Head { decoding, at, next_position, keys });
    }

    fn decoding(&mut self, checksum: Checksum, format: &Arc<Format>) -> Decoding {
        Decoding { checksum, format: number_of(&mut self.formats, format) }
    }

    fn step(&mut self, event: &EventRef, work: Work) {
        let (buffer, range) = event.parts();
        let event = Slice {
            buffer: number_of(&mut self.buffers, buffer),
            start: range.start as u32,
            end: range.end as u32,
        };
        self.size += range.len() + size_of::<Step>();
        self.steps.push(Step { text_end: self.text.len(), event, work });
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

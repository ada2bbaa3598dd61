//! What is to be printed, in order, with the heavy parts still to be worked out: by any thread, in any order.

use std::mem::replace;
use std::sync::Arc;

use binlog::{Checksum, Event, Format, RawEvent};

use crate::base64::{LINE_BYTES, put_lines};
use crate::event_ref::EventRef;
use crate::pipeline::Spare;
use crate::rows_text::{TableText, put_rows};

/// Lines of base64 that are made between two looks at how much there is.
const LINES_AT_ONCE: usize = 8192;

/// Text, and events whose text is still to be worked out.
#[derive(Default)]
pub(crate) struct Batch {
    text: Vec<u8>,
    /// Where each step's text starts; the first step's is 0.
    steps: Vec<Step>,
    /// What the steps hold, in bytes.
    size: usize,
}

/// Work, and the text in front of it.
struct Step {
    text_end: usize,
    work: Work,
}

enum Work {
    Base64(EventRef),
    Rows(RowsWork),
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

impl Batch {
    /// The text that comes next.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// The event in base64 comes next.
    pub(crate) fn base64(&mut self, event: EventRef) {
        self.step(event.len(), Work::Base64(event));
    }

    /// The event's rows come next.
    pub(crate) fn rows(&mut self, rows: RowsWork) {
        self.step(rows.event.len(), Work::Rows(rows));
    }

    fn step(&mut self, size: usize, work: Work) {
        self.size += size + size_of::<Step>();
        self.steps.push(Step { text_end: self.text.len(), work });
    }

    /// How much it holds, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size + self.text.len()
    }

    /// Works it out, and hands on the text in parts of about `part_size` bytes.
    pub(crate) fn write<E>(
        self,
        spare: &Spare,
        part_size: usize,
        mut hand_on: impl FnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { text, steps, .. } = self;
        let mut hand_on_if_full = |out: &mut Vec<u8>| match out.len() >= part_size {
            true => hand_on(replace(out, spare.take())),
            false => Ok(()),
        };
        let mut out = spare.take();
        let mut start = 0;
        for step in steps {
            out.extend_from_slice(&text[start..step.text_end]);
            start = step.text_end;
            match step.work {
                Work::Base64(event) => {
                    // Whole lines at a time: one event can be a gigabyte.
                    for piece in event.chunks(LINES_AT_ONCE * LINE_BYTES) {
                        put_lines(&mut out, piece);
                        hand_on_if_full(&mut out)?;
                    }
                }
                Work::Rows(rows) => {
                    rows.put(&mut out);
                    hand_on_if_full(&mut out)?;
                }
            }
        }
        out.extend_from_slice(&text[start..]);
        hand_on(out)
    }
}

impl RowsWork {
    fn put(&self, out: &mut Vec<u8>) {
        let raw = RawEvent::new(&self.event, self.checksum);
        let event = raw.and_then(|raw| raw.decode(&self.format));
        let rows = match &event {
            Ok(
                Event::WriteRows(rows)
                | Event::UpdateRows(rows)
                | Event::DeleteRows(rows)
                | Event::PartialUpdateRows(rows)
                | Event::WriteRowsV1(rows)
                | Event::UpdateRowsV1(rows)
                | Event::DeleteRowsV1(rows),
            ) => rows,
            // It was decoded before it came here.
            _ => return,
        };
        put_rows(out, self.table.as_deref(), rows);
    }
}

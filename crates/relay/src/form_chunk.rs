//! Chunks of a log in a form: events or a piece of one event, with marks.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use binlog::{
    EventChecksum, EventFlags, EventFormat, EventType, HEADER_SIZE, RawEvent, TrackError, TransactionId,
    TransactionOutline, TransactionTracker,
};
use logs::EventChunk;
use rewrite::TransactionMove;

use crate::error::RelayError;
use crate::form_index::FormPosition;
use crate::log_form::LogForm;
use crate::sent_transactions::{SentTransaction, TransactionMeter};

/// Maximum size in bytes of a chunk with whole events. Larger events are split into pieces of this size.
pub const CHUNK_SIZE_MAX: usize = 256 << 10;

/// Consecutive bytes of one log in a form, shared by all clients that read them.
#[derive(Debug)]
pub struct FormChunk {
    log: Arc<str>,
    offset: u64,
    bytes: ChunkBytes,
    slices: Vec<EventSlice>,
    transactions: Vec<TransactionMark>,
    format: Arc<EventFormat>,
    /// Number of events before the chunk, without the format description.
    events_before: u64,
    /// Number of transactions that end before the chunk.
    transactions_before: u64,
    /// Transactions that end in the chunk.
    measured: Vec<ChunkTransaction>,
    /// Stamp of the log.
    stamp: u32,
    file: Option<Arc<ChunkFile>>,
}

/// Transaction that ends in a chunk.
#[derive(Clone, Copy, Debug)]
struct ChunkTransaction {
    /// Index of the transaction's last event in the chunk.
    slice: usize,
    sizes: SentTransaction,
}

/// File that contains the bytes of chunks at the same positions.
#[derive(Debug)]
pub(crate) struct ChunkFile {
    /// The open file, which is not encrypted.
    pub(crate) file: File,
    /// True if the file no longer changes. Otherwise, an incomplete last transaction may be truncated.
    pub(crate) is_final: bool,
}

/// Bytes of a chunk.
#[derive(Debug)]
enum ChunkBytes {
    /// Unchanged bytes of the stored log.
    Stored(EventChunk),
    /// Rendered or changed bytes.
    Rendered(Vec<u8>),
}

/// Event in a chunk, or a piece of an event that is larger than a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSlice {
    start: u32,
    end: u32,
    /// Number of the event's bytes before the slice, in earlier chunks.
    pub skipped: u32,
    /// Size of the whole event in bytes.
    pub event_size: u32,
    /// Type of the event.
    pub event_type: EventType,
    /// True if the event is the first of a transaction.
    pub starts_transaction: bool,
    /// True if the event is the last of a transaction.
    pub ends_transaction: bool,
}

/// Start of a transaction in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionMark {
    /// Index of the transaction's first event in the chunk.
    pub slice: usize,
    /// Identifier of the transaction.
    pub id: TransactionId,
    /// Commit time of the transaction on the server that wrote the log, in microseconds since 1970; before MySQL 8.0.1
    /// and in MariaDB, to the second.
    pub committed_us: u64,
}

impl EventSlice {
    /// Returns the position of the slice's bytes in its chunk.
    pub const fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns whether the slice is a whole event.
    pub const fn is_whole(&self) -> bool {
        self.end - self.start == self.event_size
    }

    /// Returns whether the slice has the event's first byte.
    pub const fn is_first(&self) -> bool {
        self.skipped == 0
    }

    /// Returns whether the slice has the event's last byte.
    pub const fn is_last(&self) -> bool {
        self.skipped + (self.end - self.start) == self.event_size
    }

    /// Returns whether a transaction ends with the slice.
    pub const fn is_end_of_transaction(&self) -> bool {
        self.ends_transaction && self.is_last()
    }
}

impl FormChunk {
    /// Returns the name of the log.
    pub fn log(&self) -> &Arc<str> {
        &self.log
    }

    /// Returns the position of the first byte in the log's form.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the position after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes().len() as u64
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            ChunkBytes::Stored(chunk) => chunk.bytes(),
            ChunkBytes::Rendered(bytes) => bytes,
        }
    }

    /// Returns the buffer, if the chunk owns it and it is large enough for a full chunk.
    pub(crate) fn into_buffer(self) -> Option<Vec<u8>> {
        match self.bytes {
            ChunkBytes::Rendered(bytes) => {
                (CHUNK_SIZE_MAX..=2 * CHUNK_SIZE_MAX).contains(&bytes.capacity()).then_some(bytes)
            }
            ChunkBytes::Stored(_) => None,
        }
    }

    /// Returns the file that contains the bytes at the same positions, if there is one.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref().map(|known| &known.file)
    }

    /// Returns whether the file contains the bytes of a slice permanently: a socket may still refer to them after they
    /// are sent.
    pub(crate) fn is_stored(&self, slice: EventSlice) -> bool {
        // A payload is a whole transaction, which is never truncated.
        let is_whole = slice.event_type == EventType::TransactionPayload;
        self.file.as_ref().is_some_and(|known| known.is_final || is_whole)
    }

    /// Returns the events in order, or the only piece of an event.
    pub fn slices(&self) -> &[EventSlice] {
        &self.slices
    }

    /// Returns the transactions that start in the chunk.
    pub fn transactions(&self) -> &[TransactionMark] {
        &self.transactions
    }

    /// Returns the transaction that starts with this slice.
    pub fn mark_at(&self, slice: usize) -> Option<&TransactionMark> {
        let index = self.transactions.binary_search_by_key(&slice, |mark| mark.slice).ok()?;
        Some(&self.transactions[index])
    }

    /// Returns the identifier of the transaction that starts with this slice.
    pub fn transaction_at(&self, slice: usize) -> Option<TransactionId> {
        self.mark_at(slice).map(|mark| mark.id)
    }

    /// Returns the transaction that ends with this slice, with its sizes.
    pub(crate) fn measured_at(&self, slice: usize) -> Option<&SentTransaction> {
        let index = self.measured.binary_search_by_key(&slice, |ended| ended.slice).ok()?;
        Some(&self.measured[index].sizes)
    }

    /// Returns the format of the events.
    pub fn format(&self) -> &Arc<EventFormat> {
        &self.format
    }

    /// Returns the stamp of the log: different for logs of the same name; in the form `as-is`, also for different files
    /// of one log.
    pub(crate) const fn stamp(&self) -> u32 {
        self.stamp
    }

    /// Returns the number of events before this slice in the log, without the format description.
    pub fn events_before(&self, slice: usize) -> u64 {
        let here = self.slices[..slice].iter().filter(|slice| slice.is_last() && slice.is_counted());
        self.events_before + here.count() as u64
    }

    /// Returns the number of transactions that end before this slice in the log.
    pub fn transactions_before(&self, slice: usize) -> u64 {
        let here = self.slices[..slice].iter().filter(|slice| slice.is_end_of_transaction());
        self.transactions_before + here.count() as u64
    }

    /// Returns the index of the slice that starts at a position of the log's form.
    pub fn slice_at(&self, position: u64) -> Option<usize> {
        let start = u32::try_from(position.checked_sub(self.offset)?).ok()?;
        self.slices.binary_search_by_key(&start, |slice| slice.start).ok()
    }

    /// Returns the memory of the chunk, in bytes.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.bytes().len()
            + self.slices.capacity() * size_of::<EventSlice>()
            + self.transactions.capacity() * size_of::<TransactionMark>()
            + self.measured.capacity() * size_of::<ChunkTransaction>()
    }
}

impl EventSlice {
    /// Returns whether the event counts in [`FormChunk::events_before`].
    pub(crate) fn is_counted(&self) -> bool {
        self.event_type != EventType::FormatDescription
    }
}

/// Splits a log's events into chunks, in order, and finds its transactions.
#[derive(Debug)]
pub(crate) struct ChunkMarker {
    log: Arc<str>,
    stamp: u32,
    tracker: TransactionTracker,
    /// Position, and number of events before this position.
    position: u64,
    events: u64,
    /// Number of transactions that have ended.
    transactions: u64,
    /// True if positions in the form and in the stored log are equal.
    is_as_stored: bool,
    /// File of the stored log, if chunks have the same bytes.
    file: Option<Arc<ChunkFile>>,
    /// Position changes of transactions whose new bytes are not marked yet.
    pub(crate) moves: VecDeque<TransactionMove>,
    /// Starts of transactions marked since the last call of `take_starts`.
    starts: Vec<FormPosition>,
    /// Last piece of a large event that is not complete yet.
    large: Option<EventSlice>,
    /// Error in the event after the last chunk.
    failure: Option<RelayError>,
    meter: TransactionMeter,
}

impl ChunkMarker {
    pub(crate) fn new(log: Arc<str>, stamp: u32, at: FormPosition, form: LogForm) -> Self {
        Self {
            log,
            stamp,
            is_as_stored: form == LogForm::AsIs,
            file: None,
            tracker: TransactionTracker::new(),
            position: at.rendered,
            events: at.events,
            transactions: at.transactions,
            moves: VecDeque::new(),
            starts: Vec::new(),
            large: None,
            failure: None,
            meter: TransactionMeter::default(),
        }
    }

    /// Sets the file that contains the bytes of all chunks at the same positions.
    pub(crate) fn set_file(&mut self, file: ChunkFile) {
        assert!(self.is_as_stored, "ours: only the stored form has the file's positions");
        self.file = Some(Arc::new(file));
    }

    /// Returns the position of the next chunk in the form.
    pub(crate) const fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of events before the next chunk, without the format description.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    /// Returns the number of transactions that have ended.
    pub(crate) const fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Returns whether a transaction has started but not ended.
    pub(crate) const fn is_in_transaction(&self) -> bool {
        self.tracker.open().is_some() || self.large.is_some()
    }

    /// Returns whether the event after the last chunk cannot be served.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Takes the error in the event after the last chunk. Nothing can be marked afterwards.
    pub(crate) fn take_failure(&mut self) -> Option<RelayError> {
        self.failure.take()
    }

    /// Returns the size of the unmarked part of a large event.
    pub(crate) fn large_rest(&self) -> Option<usize> {
        let last = self.large?;
        Some((last.event_size - last.skipped - (last.end - last.start)) as usize)
    }

    /// Returns and removes the starts of the transactions marked so far.
    pub(crate) fn take_starts(&mut self) -> Vec<FormPosition> {
        std::mem::take(&mut self.starts)
    }

    /// Creates a chunk of whole, unchanged events.
    pub(crate) fn mark_stored(&mut self, chunk: EventChunk) -> Result<FormChunk, RelayError> {
        let is_format =
            chunk.get(0).is_some_and(|first| first.raw.event_type() == EventType::FormatDescription);
        // The buffer is as large as for a full chunk. A small chunk would keep all of it in memory.
        if is_format || chunk.bytes().len() < CHUNK_SIZE_MAX / 2 {
            let format = Arc::clone(chunk.format());
            return self.mark_rendered(chunk.bytes().to_vec(), &format);
        }
        let mut marks = self.begin_marks();
        let marked = chunk.iter().try_for_each(|event| self.mark(&event.raw, chunk.format(), &mut marks));
        marked.or_else(|error| self.fail_after(error, &mut marks))?;
        let (format, kept) = (Arc::clone(chunk.format()), chunk.part(0..marks.slices.len()));
        Ok(self.chunk(ChunkBytes::Stored(kept), marks, format))
    }

    /// Creates a chunk of whole events.
    pub(crate) fn mark_rendered(
        &mut self,
        mut bytes: Vec<u8>,
        format: &Arc<EventFormat>,
    ) -> Result<FormChunk, RelayError> {
        clear_in_use(&mut bytes);
        let mut marks = self.begin_marks();
        while marks.size < bytes.len() {
            // A format description has its own checksum, which the tracker does not read.
            let checksum = format.checksum.for_events();
            let marked = split_event(&bytes[marks.size..], checksum)
                .map_err(|error| self.event_error(self.position + marks.size as u64, error))
                .and_then(|raw| self.mark(&raw, format, &mut marks));
            if let Err(error) = marked {
                self.fail_after(error, &mut marks)?;
                bytes.truncate(marks.size);
            }
        }
        Ok(self.chunk(ChunkBytes::Rendered(bytes), marks, Arc::clone(format)))
    }

    /// Keeps the events before the faulty event for a chunk, and stores the error to return after that chunk. In a
    /// rendered form, keeps only whole transactions.
    ///
    /// # Errors
    ///
    /// Fails with the error itself if no event is kept.
    fn fail_after(&mut self, error: RelayError, marks: &mut ChunkMarks) -> Result<(), RelayError> {
        let kept = match self.is_as_stored {
            true => marks.slices.len(),
            false => marks.slices.iter().rposition(|slice| slice.ends_transaction).map_or(0, |last| last + 1),
        };
        marks.truncate(kept);
        if kept == 0 {
            return Err(error);
        }
        self.failure = Some(error);
        Ok(())
    }

    /// Creates a chunk with the first piece of an event of `size` bytes.
    pub(crate) fn mark_large(
        &mut self,
        piece: Vec<u8>,
        size: u32,
        format: &Arc<EventFormat>,
    ) -> Result<FormChunk, RelayError> {
        // The first bytes determine the event's role: a statement of this size is no BEGIN or COMMIT.
        let mut head = piece.clone();
        head[9..13].copy_from_slice(&(piece.len() as u32).to_le_bytes());
        let mut marks = self.begin_marks();
        let raw = RawEvent::new(&head, EventChecksum::Absent)
            .map_err(|error| self.event_error(self.position, error))?;
        self.mark(&raw, format, &mut marks)?;
        let Some(slice) = marks.slices.last_mut() else { unreachable!("ours: an event was marked") };
        slice.event_size = size;
        // The transaction ends with the last piece.
        self.transactions -= u64::from(slice.ends_transaction);
        self.large = Some(*slice);
        Ok(self.chunk(ChunkBytes::Rendered(piece), marks, Arc::clone(format)))
    }

    /// Creates a chunk with the next piece of a large event.
    pub(crate) fn mark_piece(&mut self, piece: Vec<u8>, format: &Arc<EventFormat>) -> FormChunk {
        let Some(last) = self.large else { unreachable!("ours: a large event is open") };
        let (start, end) = (0, piece.len() as u32);
        let slice = EventSlice {
            start,
            end,
            skipped: last.skipped + (last.end - last.start),
            starts_transaction: false,
            ..last
        };
        self.large = Some(slice);
        let mut marks = self.begin_marks();
        if slice.is_last() {
            self.transactions += u64::from(slice.ends_transaction);
            self.large = None;
        }
        marks.slices.push(slice);
        self.chunk(ChunkBytes::Rendered(piece), marks, Arc::clone(format))
    }

    fn begin_marks(&self) -> ChunkMarks {
        ChunkMarks {
            size: 0,
            slices: Vec::new(),
            transactions: Vec::new(),
            events_before: self.events - u64::from(self.large.is_some()),
            transactions_before: self.transactions,
        }
    }

    fn mark(
        &mut self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        marks: &mut ChunkMarks,
    ) -> Result<(), RelayError> {
        let position = self.position + marks.size as u64;
        let tracked = match self.tracker.track(position, raw, format) {
            Ok(tracked) => tracked,
            Err(TrackError::Fault(broken)) => broken.tracked,
            Err(TrackError::Decode(error)) => return Err(self.event_error(position, error)),
        };
        let event_place = tracked.step.transaction;
        if event_place.is_first() {
            let outline = tracked.ended.as_ref().or(self.tracker.open());
            let id = outline.map_or(TransactionId::Unsaid, |outline| outline.id);
            let committed_us = outline.map_or(0, commit_time);
            marks.transactions.push(TransactionMark { slice: marks.slices.len(), id, committed_us });
            self.record_start(position);
        }
        let (start, size) = (marks.size as u32, raw.bytes().len() as u32);
        marks.size += size as usize;
        let slice = EventSlice {
            start,
            end: start + size,
            skipped: 0,
            event_size: size,
            event_type: raw.event_type(),
            starts_transaction: event_place.is_first(),
            ends_transaction: event_place.is_last(),
        };
        self.events += u64::from(slice.is_counted());
        self.transactions += u64::from(event_place.is_last());
        marks.slices.push(slice);
        Ok(())
    }

    /// Records the start of a transaction, if its position in the stored log is known.
    fn record_start(&mut self, rendered: u64) {
        while self.moves.front().is_some_and(|moved| moved.after < rendered) {
            self.moves.pop_front();
        }
        let original = match self.is_as_stored {
            true => Some(rendered),
            false => self.moves.front().filter(|moved| moved.after == rendered).map(|moved| moved.before),
        };
        let (events, transactions) = (self.events, self.transactions);
        self.starts.extend(original.map(|original| FormPosition {
            original,
            rendered,
            events,
            transactions,
        }));
    }

    fn chunk(&mut self, bytes: ChunkBytes, marks: ChunkMarks, format: Arc<EventFormat>) -> FormChunk {
        let ChunkMarks { slices, transactions, events_before, transactions_before, .. } = marks;
        let (log, offset, stamp) = (Arc::clone(&self.log), self.position, self.stamp);
        let mut chunk = FormChunk {
            log,
            offset,
            bytes,
            slices,
            transactions,
            format,
            events_before,
            transactions_before,
            measured: Vec::new(),
            stamp,
            file: self.file.clone(),
        };
        for slice in 0..chunk.slices.len() {
            if let Some(sizes) = self.meter.add(&chunk, slice) {
                chunk.measured.push(ChunkTransaction { slice, sizes });
            }
        }
        self.position = chunk.end();
        chunk
    }

    fn event_error(&self, position: u64, error: binlog::DecodeError) -> RelayError {
        RelayError::Event { name: self.log.to_string(), position, error }
    }
}

/// Marks of the chunk under construction.
struct ChunkMarks {
    /// Bytes marked so far.
    size: usize,
    slices: Vec<EventSlice>,
    transactions: Vec<TransactionMark>,
    events_before: u64,
    transactions_before: u64,
}

impl ChunkMarks {
    fn truncate(&mut self, slices: usize) {
        self.slices.truncate(slices);
        self.transactions.retain(|mark| mark.slice < slices);
        self.size = self.slices.last().map_or(0, |last| last.end as usize);
    }
}

/// Returns the time of the commit in microseconds since 1970.
fn commit_time(outline: &TransactionOutline) -> u64 {
    let second_us = u64::from(outline.timestamp) * 1_000_000;
    let stamped_us = outline.stamps.map(|stamps| stamps.immediate_commit_us).filter(|us| *us > 0);
    stamped_us.unwrap_or(second_us)
}

/// Returns the size of the event at the start of `bytes`, as its header states it.
pub(crate) fn event_size(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<HEADER_SIZE>()?;
    Some(u32::from_le_bytes([head[9], head[10], head[11], head[12]]) as usize)
}

/// Returns the first event of `bytes`, which should be whole events.
fn split_event(bytes: &[u8], checksum: EventChecksum) -> Result<RawEvent<'_>, binlog::DecodeError> {
    let size = event_size(bytes).unwrap_or(HEADER_SIZE).clamp(HEADER_SIZE, bytes.len().max(HEADER_SIZE));
    RawEvent::new(bytes.get(..size).unwrap_or(bytes), checksum)
}

/// Clears the in-use flag of a format description at the start of `bytes`. The checksum does not cover the flag.
fn clear_in_use(bytes: &mut [u8]) {
    if let Some(head) = bytes.first_chunk_mut::<HEADER_SIZE>()
        && head[4] == EventType::FormatDescription.code()
    {
        head[17] &= !(EventFlags::IN_USE.0 as u8);
    }
}

//! Fields of the events whose numbers follow from those of earlier events: GTIDs, statements, commits.

use binlog::events::{CommitStamps, GtidEvent, GtidTagged, LogicalClock};
use binlog::{Event, EventChecksum, EventFormat, EventType, RawEvent};

use crate::row_layout::bare_event;
use crate::segment_error::BlockDamage;
use crate::stream_set::{FixedStream, StreamCursors, StreamSet, TextReader, TextStreams, TextWriter};
use crate::varint::put_sized;

/// Values that came last: the next ones are stored as differences.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastValues {
    pub(crate) timestamp: u32,
    pub(crate) next_position: u32,
    number: u64,
    sequence: u64,
    committed_us: u64,
    transaction_size: u64,
    thread_id: u32,
    xid: u64,
}

/// Numbers of a GTID event. Everything else of it is its template, which most transactions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GtidFields {
    number: u64,
    last_committed: u64,
    sequence: u64,
    immediate_us: u64,
    original_us: u64,
    size: u64,
}

const TEMPLATES: TextStreams =
    TextStreams { numbers: FixedStream::GtidTemplate, texts: FixedStream::GtidTemplateText };

/// Stores the fields of a block's events.
#[derive(Default)]
pub(crate) struct EventFieldWriter {
    pub(crate) streams: StreamSet,
    pub(crate) last: LastValues,
    gtids: TextWriter,
    heads: TextWriter,
    statements: TextWriter,
    gtid: GtidScratch,
}

/// Buffers for one GTID event.
#[derive(Default)]
struct GtidScratch {
    template: Vec<u8>,
    /// Template as an event.
    bytes: Vec<u8>,
    /// Body that is put together from the template and the numbers.
    again: Vec<u8>,
}

impl EventFieldWriter {
    /// Starts a block.
    pub(crate) fn clear(&mut self) {
        self.streams.clear();
        self.last = LastValues::default();
        for texts in [&mut self.gtids, &mut self.heads, &mut self.statements] {
            texts.clear();
        }
    }

    /// Appends a GTID event to the streams. Returns false, and appends nothing, if it would not come back exactly.
    pub(crate) fn put_gtid(&mut self, event: &Event<'_>, body: &[u8], format: &EventFormat) -> bool {
        let GtidScratch { template, bytes, again } = &mut self.gtid;
        let Some(numbers) = split_gtid(event, format, template) else { return false };
        again.clear();
        let joined = bare_event(event.event_type(), template, bytes)
            .is_some_and(|bare| join_gtid(bare, numbers, format, again).is_ok());
        if !joined || again != body {
            return false;
        }
        self.gtids.put(template, &mut self.streams, TEMPLATES);
        self.streams.put_difference(
            FixedStream::TransactionNumber,
            numbers.number,
            self.last.number.wrapping_add(1),
        );
        let sequence = self.last.sequence.wrapping_add(1);
        self.streams.put_difference(FixedStream::SequenceNumber, numbers.sequence, sequence);
        let committed = numbers.sequence.wrapping_sub(1);
        self.streams.put_difference(FixedStream::LastCommitted, committed, numbers.last_committed);
        self.streams.put_difference(
            FixedStream::ImmediateCommit,
            numbers.immediate_us,
            self.last.committed_us,
        );
        self.streams.put_difference(FixedStream::OriginalCommit, numbers.immediate_us, numbers.original_us);
        self.streams.put_difference(FixedStream::TransactionSize, numbers.size, self.last.transaction_size);
        self.last.follow(numbers);
        true
    }

    /// Appends a MariaDB GTID event to the streams.
    pub(crate) fn put_mariadb_gtid(&mut self, body: &[u8]) -> bool {
        let Some((number, rest)) = body.split_first_chunk::<NUMBER_SIZE>() else { return false };
        let number = u64::from_le_bytes(*number);
        self.gtids.put(rest, &mut self.streams, TEMPLATES);
        self.streams.put_difference(FixedStream::TransactionNumber, number, self.last.number.wrapping_add(1));
        self.last.number = number;
        true
    }

    /// Appends an Xid event to the streams.
    pub(crate) fn put_xid(&mut self, body: &[u8]) -> bool {
        let Ok(xid) = body.try_into().map(u64::from_le_bytes) else { return false };
        self.streams.put_difference(FixedStream::Xid, xid, self.last.xid);
        self.last.xid = xid;
        true
    }

    /// Appends a statement to the streams. Returns false, and appends nothing, if the body is no statement's.
    // size  field
    //    4  thread_id
    //    4  exec_time
    //    1  size of database
    //    2  error_code
    //    2  size of status variables, then the variables
    //    *  database, 0
    //    *  sql
    pub(crate) fn put_query(&mut self, body: &[u8]) -> bool {
        let Some((fixed, rest)) = body.split_first_chunk::<13>() else { return false };
        let [a, b, c, d, e, f, g, h, database, _, _, low, high] = *fixed;
        let status = usize::from(u16::from_le_bytes([low, high]));
        let after = status + usize::from(database) + 1;
        if rest.len() < after {
            return false;
        }
        let thread_id = u32::from_le_bytes([a, b, c, d]);
        let (head, sql) = body[8..].split_at(5 + after);
        self.streams.put_difference(
            FixedStream::ThreadId,
            u64::from(thread_id),
            u64::from(self.last.thread_id),
        );
        self.streams.put(FixedStream::ExecTime, u64::from(u32::from_le_bytes([e, f, g, h])));
        self.last.thread_id = thread_id;
        self.heads.put(head, &mut self.streams, HEADS);
        match sql.len() <= REPEATED_MAX {
            true => drop(self.statements.put(sql, &mut self.streams, STATEMENTS)),
            false => {
                self.streams.put(FixedStream::Statement, LONG_STATEMENT);
                self.put_long_text(sql);
            }
        }
        true
    }

    /// Appends a text that is unlikely to repeat.
    pub(crate) fn put_long_text(&mut self, text: &[u8]) {
        self.streams.put(FixedStream::LongTextSize, text.len() as u64);
        self.streams.of(FixedStream::LongText).extend_from_slice(text);
    }

    /// Appends a body that is kept as it is.
    pub(crate) fn put_body(&mut self, body: &[u8]) {
        self.streams.put(FixedStream::BodySize, body.len() as u64);
        self.streams.of(FixedStream::Body).extend_from_slice(body);
    }

    /// Appends a whole event that is kept as it is.
    pub(crate) fn put_whole(&mut self, bytes: &[u8]) {
        put_sized(self.streams.of(FixedStream::Whole), bytes);
    }
}

/// Reads the fields of a block's events.
pub(crate) struct FieldReader<'a> {
    pub(crate) streams: StreamCursors<'a>,
    pub(crate) last: LastValues,
    gtids: TextReader<'a>,
    /// Events of the GTID templates, by number.
    templates: Vec<TemplateEvent>,
    heads: TextReader<'a>,
    statements: TextReader<'a>,
}

impl<'a> FieldReader<'a> {
    pub(crate) fn new(streams: StreamCursors<'a>) -> Self {
        let [gtids, heads, statements] = std::array::from_fn(|_| TextReader::default());
        Self { streams, last: LastValues::default(), gtids, templates: Vec::new(), heads, statements }
    }

    /// Appends the body of a GTID event from the streams.
    pub(crate) fn append_gtid(
        &mut self,
        event_type: EventType,
        format: &EventFormat,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockDamage> {
        let (index, template) = self.gtids.take(&mut self.streams, TEMPLATES)?;
        if index >= self.templates.len() {
            self.templates.resize_with(index + 1, TemplateEvent::default);
        }
        let number =
            self.streams.of(FixedStream::TransactionNumber).difference(self.last.number.wrapping_add(1))?;
        let sequence =
            self.streams.of(FixedStream::SequenceNumber).difference(self.last.sequence.wrapping_add(1))?;
        let back = self.streams.of(FixedStream::LastCommitted).difference(0)?;
        let immediate_us =
            self.streams.of(FixedStream::ImmediateCommit).difference(self.last.committed_us)?;
        let earlier = self.streams.of(FixedStream::OriginalCommit).difference(0)?;
        let size = self.streams.of(FixedStream::TransactionSize).difference(self.last.transaction_size)?;
        let last_committed = sequence.wrapping_sub(1).wrapping_sub(back);
        let original_us = immediate_us.wrapping_sub(earlier);
        let numbers = GtidFields { number, last_committed, sequence, immediate_us, original_us, size };
        self.last.follow(numbers);
        let event = self.templates[index].of(event_type, template);
        join_gtid(event.ok_or(INVALID_GTID)?, numbers, format, out)
    }

    /// Appends the body of a MariaDB GTID event from the streams.
    pub(crate) fn append_mariadb_gtid(&mut self, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        let (_, rest) = self.gtids.take(&mut self.streams, TEMPLATES)?;
        self.last.number =
            self.streams.of(FixedStream::TransactionNumber).difference(self.last.number.wrapping_add(1))?;
        out.extend_from_slice(&self.last.number.to_le_bytes());
        out.extend_from_slice(rest);
        Ok(())
    }

    /// Appends the body of an Xid event from the streams.
    pub(crate) fn append_xid(&mut self, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        self.last.xid = self.streams.of(FixedStream::Xid).difference(self.last.xid)?;
        out.extend_from_slice(&self.last.xid.to_le_bytes());
        Ok(())
    }

    /// Appends the body of a statement from the streams.
    pub(crate) fn append_query(&mut self, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        let thread_id = self.streams.of(FixedStream::ThreadId).difference(u64::from(self.last.thread_id))?;
        self.last.thread_id =
            u32::try_from(thread_id).map_err(|_| BlockDamage("a connection number is too large"))?;
        let exec_time = self.streams.of(FixedStream::ExecTime).varint()?;
        let exec_time = u32::try_from(exec_time).map_err(|_| BlockDamage("a run time is too large"))?;
        out.extend_from_slice(&self.last.thread_id.to_le_bytes());
        out.extend_from_slice(&exec_time.to_le_bytes());
        out.extend_from_slice(self.heads.take(&mut self.streams, HEADS)?.1);
        let mut ahead = *self.streams.of(FixedStream::Statement);
        if ahead.varint()? == LONG_STATEMENT {
            *self.streams.of(FixedStream::Statement) = ahead;
            return self.append_long_text(out);
        }
        out.extend_from_slice(self.statements.take(&mut self.streams, STATEMENTS)?.1);
        Ok(())
    }

    /// Appends a text from the streams.
    pub(crate) fn append_long_text(&mut self, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        let size = self.streams.of(FixedStream::LongTextSize).size()?;
        out.extend_from_slice(self.streams.of(FixedStream::LongText).bytes(size)?);
        Ok(())
    }

    /// Appends a body that was kept as it is from the streams.
    pub(crate) fn append_body(&mut self, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        let size = self.streams.of(FixedStream::BodySize).size()?;
        out.extend_from_slice(self.streams.of(FixedStream::Body).bytes(size)?);
        Ok(())
    }
}

impl LastValues {
    fn follow(&mut self, numbers: GtidFields) {
        self.number = numbers.number;
        self.sequence = numbers.sequence;
        self.committed_us = numbers.immediate_us;
        self.transaction_size = numbers.size;
    }
}

/// Replaces `template` with the event's body with all numbers set to 1, and returns the numbers.
fn split_gtid(event: &Event<'_>, format: &EventFormat, template: &mut Vec<u8>) -> Option<GtidFields> {
    let (number, clock, stamps) = match event {
        Event::Gtid(event) | Event::AnonymousGtid(event) => (event.gno, event.clock, event.stamps),
        Event::GtidTagged(event) => (event.gno, Some(event.clock), Some(event.stamps)),
        _ => return None,
    };
    let clock = clock.unwrap_or(LogicalClock { last_committed: 0, sequence_number: 0 });
    let stamps = stamps.unwrap_or_default();
    let numbers = GtidFields {
        number: number.cast_unsigned(),
        last_committed: clock.last_committed.cast_unsigned(),
        sequence: clock.sequence_number.cast_unsigned(),
        immediate_us: stamps.immediate_commit_us,
        original_us: stamps.original_commit_us,
        size: stamps.transaction_size.unwrap_or(0),
    };
    let original_us = if numbers.original_us == numbers.immediate_us { 1 } else { 2 };
    let ones =
        GtidFields { number: 1, last_committed: 1, sequence: 1, immediate_us: 1, original_us, size: 1 };
    template.clear();
    with_numbers(event, ones)?.encode(format, template).ok()?;
    Some(numbers)
}

/// Returns the event with other numbers.
fn with_numbers<'a>(event: &Event<'a>, numbers: GtidFields) -> Option<Event<'a>> {
    let number = numbers.number.cast_signed();
    let clock = LogicalClock {
        last_committed: numbers.last_committed.cast_signed(),
        sequence_number: numbers.sequence.cast_signed(),
    };
    let stamp = |stamps: CommitStamps| CommitStamps {
        immediate_commit_us: numbers.immediate_us,
        original_commit_us: numbers.original_us,
        transaction_size: stamps.transaction_size.map(|_| numbers.size),
        ..stamps
    };
    let plain = |event: &GtidEvent<'a>| GtidEvent {
        gno: number,
        clock: event.clock.map(|_| clock),
        stamps: event.stamps.map(stamp),
        ..*event
    };
    Some(match event {
        Event::Gtid(event) => Event::Gtid(plain(event)),
        Event::AnonymousGtid(event) => Event::AnonymousGtid(plain(event)),
        Event::GtidTagged(event) => {
            Event::GtidTagged(GtidTagged { gno: number, clock, stamps: stamp(event.stamps), ..*event })
        }
        _ => return None,
    })
}

/// Appends the body of a GTID event with the numbers and what its template has beside them.
fn join_gtid(
    template: RawEvent<'_>,
    numbers: GtidFields,
    format: &EventFormat,
    out: &mut Vec<u8>,
) -> Result<(), BlockDamage> {
    let event = template.decode(format).map_err(|_| INVALID_GTID)?;
    let event = with_numbers(&event, numbers).ok_or(INVALID_GTID)?;
    event.encode(format, out).map_err(|_| INVALID_GTID)
}

const INVALID_GTID: BlockDamage = BlockDamage("a GTID event is invalid");

/// Template of GTID events as an event, which most transactions of a block share.
#[derive(Debug, Default)]
struct TemplateEvent {
    event_type: Option<EventType>,
    bytes: Vec<u8>,
}

impl TemplateEvent {
    /// Returns the event of a template. It is put together only for another type than the last time.
    fn of(&mut self, event_type: EventType, template: &[u8]) -> Option<RawEvent<'_>> {
        if self.event_type == Some(event_type) {
            return RawEvent::new(&self.bytes, EventChecksum::Absent).ok();
        }
        self.event_type = Some(event_type);
        bare_event(event_type, template, &mut self.bytes)
    }
}

/// Size of a MariaDB GTID event's number.
const NUMBER_SIZE: usize = 8;

const HEADS: TextStreams = TextStreams { numbers: FixedStream::QueryHead, texts: FixedStream::QueryHeadText };
const STATEMENTS: TextStreams =
    TextStreams { numbers: FixedStream::Statement, texts: FixedStream::StatementText };

/// Longest statement that is looked for among earlier ones. Longer ones seldom repeat.
const REPEATED_MAX: usize = 64;

/// Mark of a statement that is not among the repeated ones.
const LONG_STATEMENT: u64 = u64::MAX;

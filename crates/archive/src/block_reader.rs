//! Splits a log into blocks.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use binlog::events::PayloadFields;
use binlog::{Cursor, EventFormat, EventHeader, EventType, Framer, FramerOutput, HEADER_SIZE, MAGIC};

use crate::log_block::{BlockContent, BlockContext, LogBlock, MAPS_MAX, OpaqueReason};

/// Size of a block: of its bytes, or of its events as far as payloads state their size. Bounds memory.
pub const BLOCK_SIZE: usize = 8 << 20;

/// Maximum size of an event that is divided into fields. Larger events are stored unchanged, in several blocks. Bounds
/// memory.
pub const EVENT_SIZE_LIMIT: usize = 16 << 20;

/// Splits a log into blocks.
pub struct LogBlockReader<R> {
    input: R,
    /// Bytes that were read and are not part of a block yet.
    tail: Vec<u8>,
    /// Position of the tail in the log.
    offset: u64,
    is_at_end: bool,
    state: ReaderState,
    /// Number of bytes to keep as they are, for this reason.
    opaque: Option<(u64, OpaqueReason)>,
    description: Option<(Arc<[u8]>, EventFormat)>,
    maps: StatementMaps,
}

/// Bodies of the table maps of a statement, in order.
#[derive(Debug, Default)]
struct StatementMaps {
    by_id: HashMap<u64, Arc<[u8]>>,
    order: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderState {
    /// In front of the magic number.
    Start,
    Events,
    /// Only bytes of which nothing is known follow.
    Opaque(OpaqueReason),
}

impl<R: Read> LogBlockReader<R> {
    /// Creates a reader of a log from its first byte.
    pub fn new(input: R) -> Self {
        Self {
            input,
            tail: Vec::new(),
            offset: 0,
            is_at_end: false,
            state: ReaderState::Start,
            opaque: None,
            description: None,
            maps: StatementMaps::default(),
        }
    }

    /// Returns the next block, or `None` at the end of the log.
    ///
    /// # Errors
    ///
    /// Fails if the input cannot be read.
    pub fn next_block(&mut self) -> io::Result<Option<LogBlock>> {
        self.fill(BLOCK_SIZE)?;
        if self.state == ReaderState::Start {
            self.read_magic();
        }
        if let Some((left, reason)) = self.opaque.take() {
            let size = left.min(self.tail.len() as u64) as usize;
            if left > size as u64 {
                self.opaque = Some((left - size as u64, reason)).filter(|_| size > 0);
            }
            return Ok(self.split_opaque(size, reason));
        }
        if let ReaderState::Opaque(reason) = self.state {
            return Ok(self.split_opaque(self.tail.len(), reason));
        }
        self.next_events()
    }

    /// Reads until the tail has `size` bytes, or all of the log.
    fn fill(&mut self, size: usize) -> io::Result<()> {
        while self.tail.len() < size && !self.is_at_end {
            let needed = (size - self.tail.len()) as u64;
            let read = self.input.by_ref().take(needed).read_to_end(&mut self.tail)?;
            self.is_at_end = (read as u64) < needed;
        }
        Ok(())
    }

    fn read_magic(&mut self) {
        self.state = match self.tail.starts_with(&MAGIC) {
            true => ReaderState::Events,
            false if self.tail.starts_with(&binlog::MAGIC_ENCRYPTED) => {
                ReaderState::Opaque(OpaqueReason::Encrypted)
            }
            false => ReaderState::Opaque(OpaqueReason::NotEvents),
        };
    }

    fn split_opaque(&mut self, size: usize, reason: OpaqueReason) -> Option<LogBlock> {
        let bytes = self.split_front(size);
        let offset = self.offset - size as u64;
        (size > 0).then_some(LogBlock { offset, bytes, content: BlockContent::Opaque(reason) })
    }

    fn split_front(&mut self, size: usize) -> Vec<u8> {
        let mut rest = Vec::new();
        if !self.is_at_end || size < self.tail.len() {
            // Space for the next block, so that the vector need not grow while it is filled.
            rest.reserve_exact(BLOCK_SIZE.max(self.tail.len() - size));
            rest.extend_from_slice(&self.tail[size..]);
        }
        self.tail.truncate(size);
        self.offset += size as u64;
        std::mem::replace(&mut self.tail, rest)
    }

    fn next_events(&mut self) -> io::Result<Option<LogBlock>> {
        let mut end = if self.offset == 0 { MAGIC.len() } else { 0 };
        let maps = self.maps.bodies();
        // Size of the events once payloads are decompressed.
        let mut expanded = 0;
        let has_first = |end: usize, offset: u64| end > if offset == 0 { MAGIC.len() } else { 0 };
        loop {
            match self.look_at(end) {
                NextEvent::Event { size, .. } if has_first(end, self.offset) && end + size > BLOCK_SIZE => {
                    break;
                }
                NextEvent::Event { .. } if has_first(end, self.offset) && expanded > BLOCK_SIZE as u64 => {
                    break;
                }
                NextEvent::Event { is_description: true, .. } if has_first(end, self.offset) => break,
                NextEvent::Event { size, .. } => {
                    expanded += self.expanded_size(end, size);
                    if !self.follow(end, size) {
                        self.state = ReaderState::Opaque(OpaqueReason::NotEvents);
                        break;
                    }
                    end += size;
                    if matches!(self.state, ReaderState::Opaque(_)) {
                        break;
                    }
                }
                NextEvent::NeedMore(needed) if has_first(end, self.offset) && end + needed > BLOCK_SIZE => {
                    break;
                }
                NextEvent::NeedMore(_) if self.is_at_end => {
                    self.state = ReaderState::Opaque(OpaqueReason::Torn);
                    break;
                }
                NextEvent::NeedMore(needed) => self.fill(end + needed)?,
                NextEvent::Large(size) => {
                    self.opaque = Some((size, OpaqueReason::LargeEvent));
                    self.maps = StatementMaps::default();
                    break;
                }
                NextEvent::Invalid => {
                    self.state = ReaderState::Opaque(OpaqueReason::NotEvents);
                    break;
                }
            }
        }
        let Some((description, _)) = &self.description else {
            // Without a format description, the magic number is kept with the bytes after it.
            self.opaque = None;
            let size = self.tail.len();
            return Ok(self.split_opaque(size, OpaqueReason::NotEvents));
        };
        let description = Arc::clone(description);
        if end == 0 {
            return self.next_block();
        }
        let offset = self.offset;
        let bytes = self.split_front(end);
        let content = BlockContent::Events(BlockContext { description, maps });
        Ok(Some(LogBlock { offset, bytes, content }))
    }

    fn look_at(&self, start: usize) -> NextEvent {
        let bytes = &self.tail[start..];
        let Some(head) = bytes.first_chunk::<HEADER_SIZE>() else {
            return NextEvent::NeedMore(HEADER_SIZE);
        };
        let Ok(header) = EventHeader::decode(&mut Cursor::new(head)) else { return NextEvent::Invalid };
        let size = header.size as usize;
        let checksum = self.description.as_ref().map_or(0, |(_, format)| format.checksum.for_events().size());
        if size < HEADER_SIZE + checksum || header.size > binlog::EVENT_SIZE_MAX {
            return NextEvent::Invalid;
        }
        let is_description = header.event_type == EventType::FormatDescription;
        match size {
            _ if self.description.is_none() && !is_description => NextEvent::Invalid,
            _ if size > EVENT_SIZE_LIMIT && is_description => NextEvent::Invalid,
            _ if size > EVENT_SIZE_LIMIT => NextEvent::Large(u64::from(header.size)),
            _ if bytes.len() < size => NextEvent::NeedMore(size),
            _ => NextEvent::Event { size, is_description },
        }
    }

    /// Returns the size of an event once it is decompressed, as it states it.
    fn expanded_size(&self, start: usize, size: usize) -> u64 {
        let event = &self.tail[start..start + size];
        if event[4] != EventType::TransactionPayload.code() {
            return size as u64;
        }
        let fields = PayloadFields::decode(&mut Cursor::new(&event[HEADER_SIZE..]));
        fields.ok().and_then(|fields| fields.uncompressed_size).unwrap_or(0).max(size as u64)
    }

    /// Takes over what later blocks need from an event. Returns false if the event is an invalid format description.
    fn follow(&mut self, start: usize, size: usize) -> bool {
        let event = &self.tail[start..start + size];
        match EventType::from_code(event[4]) {
            EventType::FormatDescription => {
                let mut framer = Framer::new();
                let is_valid = matches!(framer.next(event), Ok(FramerOutput::Event(_)));
                let Some(format) = framer.format().filter(|_| is_valid) else { return false };
                self.description = Some((event.into(), format.clone()));
            }
            EventType::TableMap => {
                let checksum =
                    self.description.as_ref().map_or(0, |(_, format)| format.checksum.for_events().size());
                let body = &event[HEADER_SIZE..size - checksum];
                if let Some(id) = body.first_chunk::<6>() {
                    let [a, b, c, d, e, f] = *id;
                    self.maps.add(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), body);
                }
            }
            EventType::MariadbStartEncryption => {
                let header = EventHeader::decode(&mut Cursor::new(event));
                if header.is_ok_and(|header| header.starts_encryption()) {
                    self.state = ReaderState::Opaque(OpaqueReason::Encrypted);
                }
            }
            event_type if event_type.rows_kind().is_some() => {}
            EventType::RowsQuery | EventType::MariadbAnnotateRows => {}
            _ => self.maps.clear(),
        }
        true
    }
}

/// Event after those of a block.
enum NextEvent {
    Event {
        size: usize,
        is_description: bool,
    },
    /// Less than an event, of at least this size.
    NeedMore(usize),
    /// Event of this size that is not divided into fields.
    Large(u64),
    Invalid,
}

impl StatementMaps {
    fn add(&mut self, id: u64, body: &[u8]) {
        if self.order.len() >= MAPS_MAX {
            self.clear();
        }
        if self.by_id.get(&id).is_some_and(|known| **known == *body) {
            return;
        }
        if self.by_id.insert(id, body.into()).is_none() {
            self.order.push(id);
        }
    }

    fn clear(&mut self) {
        if !self.order.is_empty() {
            self.by_id.clear();
            self.order.clear();
        }
    }

    fn bodies(&self) -> Vec<Arc<[u8]>> {
        self.order.iter().filter_map(|id| self.by_id.get(id)).map(Arc::clone).collect()
    }
}

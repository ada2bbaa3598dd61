//! Reads one log from a position on, and renders it as chunks of a form.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binlog::{EventFormat, Flavour};
use logs::{EndOfLog, EventChunk, LogEndAction, LogKind, LogReader, RawPiece, ReadOutcome, StoreCursor};
use rewrite::{LogRenderer, RenderStep, RenderTimings, RewriteAction, RewriteLimits, TransactionMove};

use crate::error::RelayError;
use crate::form_chunk::{CHUNK_SIZE_MAX, ChunkFile, ChunkMarker, FormChunk, event_size};
use crate::form_index::FormPosition;
use crate::log_form::LogForm;
use crate::relay_store::{LogFileId, RelayStore, log_name};
use crate::render_buffer::RenderBuffer;

/// Maximum size of a transaction that is rendered in memory. Must never change: the frames of compressed forms depend
/// on it.
const LARGE_TRANSACTION_SIZE: u64 = 16 << 20;

/// Bytes read at once for rendering.
const UNIT_SIZE: usize = 256 << 10;

/// Reads one log from a position on, and renders it as chunks of a form.
pub(crate) struct FormRenderer {
    log: Arc<str>,
    file: LogFileId,
    cursor: StoreCursor,
    marker: ChunkMarker,
    input: RendererInput,
    /// Buffer for the next chunk.
    spare: Vec<u8>,
    /// The next log, once this one is read completely.
    next_log: Option<PathBuf>,
    /// Error to return after the bytes that are ready.
    failure: Option<RelayError>,
}

/// Position in a log's file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilePosition {
    pub(crate) file: LogFileId,
    pub(crate) at: FormPosition,
}

/// Source of the bytes.
enum RendererInput {
    /// The log's own events.
    Stored { reader: LogReader, large: Option<StoredEvent> },
    /// Rewritten events.
    Rewritten { renderer: Box<LogRenderer>, buffer: RenderBuffer, window: Vec<u8> },
}

impl RendererInput {
    fn reader(&self) -> &LogReader {
        match self {
            Self::Stored { reader, .. } => reader,
            Self::Rewritten { renderer, .. } => renderer.reader(),
        }
    }
}

/// Large event that is taken in pieces.
enum StoredEvent {
    /// Format description in memory.
    Read { chunk: EventChunk, taken: usize },
    /// Event that is read in pieces.
    InLog { format: Arc<EventFormat> },
}

/// Result of [`FormRenderer::next`].
pub(crate) enum RenderOutcome {
    /// The next chunk.
    Chunk(FormChunk),
    /// No more chunks are available yet.
    Wait,
    /// The log has ended; this is the next log.
    NextLog(Arc<str>),
}

impl FormRenderer {
    /// Starts at a position of a log. Returns `None` if the log's format description is not written yet. Temporary
    /// files go to `directory`.
    pub(crate) fn new(
        store: &RelayStore,
        log: &Arc<str>,
        form: LogForm,
        position: FilePosition,
        directory: &Path,
    ) -> Result<Option<Self>, RelayError> {
        let FilePosition { file, at } = position;
        let Some(head) = store.head(log)? else { return Ok(None) };
        let cursor = StoreCursor::new(store.list(), store.path(log)?);
        // In the form `as-is`, rewriting the file changes the positions. In other forms, the positions stay.
        let stamp = if form == LogForm::AsIs { head.stamp ^ hash_of(file) } else { head.stamp };
        let mut marker = ChunkMarker::new(Arc::clone(log), stamp, at, form);
        if form == LogForm::AsIs
            && let Some(file) = store.plain_file(log, file)?
        {
            marker.set_file(ChunkFile { file, is_final: store.has_successor(log)? });
        }
        let input = match form.action() {
            None => Self::open_stored(store, log, at)?,
            // Such a log cannot have compressed transactions: decompressing changes nothing.
            Some(_) if !can_compress(&head.format) => {
                Self::open_rewritten(store, log, RewriteAction::Decompress, at, directory)?
            }
            Some(action) => Self::open_rewritten(store, log, action, at, directory)?,
        };
        // The file was replaced meanwhile: the position belongs to another file.
        if store.identity(log)? != file {
            return Err(RelayError::Changed { name: log.to_string() });
        }
        Ok(Some(Self {
            log: Arc::clone(log),
            file,
            cursor,
            marker,
            input,
            spare: Vec::new(),
            next_log: None,
            failure: None,
        }))
    }

    fn open_stored(
        store: &RelayStore,
        log: &Arc<str>,
        at: FormPosition,
    ) -> Result<RendererInput, RelayError> {
        let mut reader = store.open_log(log)?;
        if at.original > FormPosition::START.original {
            let is_read = matches!(reader.next_event()?, ReadOutcome::Some(_));
            if !is_read || at.original < reader.position() {
                return Err(RelayError::Changed { name: log.to_string() });
            }
            reader.skip_to(at.original)?;
        }
        Ok(RendererInput::Stored { reader, large: None })
    }

    fn open_rewritten(
        store: &RelayStore,
        log: &Arc<str>,
        action: RewriteAction,
        at: FormPosition,
        directory: &Path,
    ) -> Result<RendererInput, RelayError> {
        let limits = RewriteLimits {
            unit: UNIT_SIZE,
            large: LARGE_TRANSACTION_SIZE,
            large_threads: 0,
            directory: directory.to_owned(),
        };
        let mut renderer = LogRenderer::new(action, limits, Box::new(store.opener(log)?))?;
        renderer.start_at(TransactionMove { before: at.original, after: at.rendered })?;
        let buffer = RenderBuffer::new(at.rendered, directory.to_owned());
        Ok(RendererInput::Rewritten { renderer: Box::new(renderer), buffer, window: Vec::new() })
    }

    /// Returns the name of the log.
    pub(crate) fn log(&self) -> &Arc<str> {
        &self.log
    }

    /// Returns the identity of the log's file.
    pub(crate) const fn file(&self) -> LogFileId {
        self.file
    }

    /// Returns the position of the next chunk in the form.
    pub(crate) const fn position(&self) -> u64 {
        self.marker.position()
    }

    /// Returns and removes the starts of transactions in the chunks since the last call.
    pub(crate) fn take_starts(&mut self) -> Vec<FormPosition> {
        self.marker.take_starts()
    }

    /// Returns the time spent on compressing and decompressing since the last call.
    pub(crate) fn take_timings(&mut self) -> RenderTimings {
        match &mut self.input {
            RendererInput::Stored { .. } => RenderTimings::default(),
            RendererInput::Rewritten { renderer, .. } => renderer.take_timings(),
        }
    }

    /// Returns the position after the last chunk, if it is between transactions.
    pub(crate) fn boundary(&self) -> Option<FormPosition> {
        let (rendered, events) = (self.marker.position(), self.marker.events());
        let transactions = self.marker.transactions();
        match &self.input {
            _ if self.marker.is_in_transaction() => None,
            // The log was read beyond the last chunk.
            _ if self.failure.is_some() || self.marker.has_failed() => None,
            RendererInput::Stored { .. } => {
                Some(FormPosition { original: rendered, rendered, events, transactions })
            }
            RendererInput::Rewritten { renderer, buffer, window } => {
                let position = renderer.position();
                let is_drained = buffer.is_empty() && window.is_empty() && position.after == rendered;
                is_drained.then_some(FormPosition {
                    original: position.before,
                    rendered,
                    events,
                    transactions,
                })
            }
        }
    }

    /// Provides a buffer for the next chunk.
    pub(crate) fn lend_buffer(&mut self, buffer: Vec<u8>) {
        self.spare = buffer;
    }

    /// Renders the next chunk. Returns all chunks before a fault, and then the error. After an error, the renderer is
    /// unusable.
    pub(crate) fn next(&mut self) -> Result<RenderOutcome, RelayError> {
        loop {
            if let Some(error) = self.marker.take_failure() {
                return Err(error);
            }
            if let Some(chunk) = self.next_ready()? {
                return Ok(RenderOutcome::Chunk(chunk));
            }
            if let Some(error) = self.failure.take() {
                return Err(error);
            }
            if let Some(next) = &self.next_log {
                let unknown = || RelayError::UnknownLog { name: next.display().to_string() };
                return Ok(RenderOutcome::NextLog(log_name(next).ok_or_else(unknown)?));
            }
            let end = match self.advance()? {
                RendererAdvance::Chunk(chunk) => return Ok(RenderOutcome::Chunk(chunk)),
                RendererAdvance::Rendered => continue,
                RendererAdvance::End(end) => end,
            };
            let action = self.cursor.reach_end(end, self.input.reader())?;
            match action {
                LogEndAction::Wait => return Ok(RenderOutcome::Wait),
                LogEndAction::ReadAgain => {}
                LogEndAction::NextLog(next) => {
                    self.finish();
                    self.next_log = Some(next);
                }
            }
        }
    }

    /// Creates a chunk from bytes that are already read.
    fn next_ready(&mut self) -> Result<Option<FormChunk>, RelayError> {
        let Self { marker, input, spare, .. } = self;
        match input {
            RendererInput::Stored { reader, large } => next_stored_piece(reader, large, marker, spare),
            RendererInput::Rewritten { renderer, buffer, window } => {
                let Some(format) = renderer.reader().format().cloned() else { return Ok(None) };
                let size = marker.large_rest().unwrap_or(CHUNK_SIZE_MAX).min(CHUNK_SIZE_MAX);
                buffer.take(size, window).map_err(|cause| read_back_error(&self.log, cause))?;
                split_window(window, &format, marker, spare)
            }
        }
    }

    /// Reads more of the log.
    fn advance(&mut self) -> Result<RendererAdvance, RelayError> {
        let Self { marker, input, log, spare, failure, .. } = self;
        match input {
            RendererInput::Stored { reader, large } => {
                let piece = match reader.next_raw_piece(CHUNK_SIZE_MAX, CHUNK_SIZE_MAX)? {
                    ReadOutcome::Some(piece) => piece,
                    ReadOutcome::End(end) => return Ok(RendererAdvance::End(end)),
                };
                check_kind(log, reader.kind())?;
                let first = match piece {
                    RawPiece::Chunk(chunk) if chunk.bytes().len() <= CHUNK_SIZE_MAX => {
                        marker.mark_stored(chunk)?
                    }
                    RawPiece::Chunk(chunk) => {
                        let mut first = empty_buffer(spare, CHUNK_SIZE_MAX);
                        first.extend_from_slice(&chunk.bytes()[..CHUNK_SIZE_MAX]);
                        let first = marker.mark_large(first, chunk.bytes().len() as u32, chunk.format())?;
                        *large = Some(StoredEvent::Read { chunk, taken: CHUNK_SIZE_MAX });
                        first
                    }
                    RawPiece::LargeEvent(header) => {
                        let Some(format) = reader.format().cloned() else {
                            unreachable!("ours: a log's first event is its format description")
                        };
                        let mut first = empty_buffer(spare, CHUNK_SIZE_MAX);
                        reader.read_raw_bytes(CHUNK_SIZE_MAX, &mut first)?;
                        let first = marker.mark_large(first, header.size, &format)?;
                        *large = Some(StoredEvent::InLog { format });
                        first
                    }
                };
                Ok(RendererAdvance::Chunk(first))
            }
            RendererInput::Rewritten { renderer, buffer, .. } => {
                let step = renderer.render_next(buffer, &mut collect_moves(&mut marker.moves));
                check_kind(log, renderer.kind())?;
                Ok(match step {
                    Ok(RenderStep::Advanced) => RendererAdvance::Rendered,
                    Ok(RenderStep::End(end)) => RendererAdvance::End(end),
                    Err(error) => {
                        buffer.drop_from(renderer.whole_end());
                        *failure = Some(error.into());
                        RendererAdvance::Rendered
                    }
                })
            }
        }
    }

    /// Renders the end of the log.
    fn finish(&mut self) {
        let RendererInput::Rewritten { renderer, buffer, .. } = &mut self.input else { return };
        if let Err(error) = renderer.finish(buffer, &mut collect_moves(&mut self.marker.moves)) {
            buffer.drop_from(renderer.whole_end());
            self.failure = Some(error.into());
        }
    }
}

/// Returns a hash of the file's identity.
fn hash_of(file: LogFileId) -> u32 {
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    hasher.finish() as u32
}

/// Result of reading more of a log.
enum RendererAdvance {
    Chunk(FormChunk),
    /// The buffer may have more bytes, possibly followed by an error.
    Rendered,
    End(EndOfLog),
}

fn collect_moves(
    moves: &mut VecDeque<TransactionMove>,
) -> impl FnMut(TransactionMove) -> ControlFlow<()> + '_ {
    |moved| {
        moves.push_back(moved);
        ControlFlow::Continue(())
    }
}

fn next_stored_piece(
    reader: &mut LogReader,
    large: &mut Option<StoredEvent>,
    marker: &mut ChunkMarker,
    spare: &mut Vec<u8>,
) -> Result<Option<FormChunk>, RelayError> {
    let Some(size) = marker.large_rest().map(|rest| rest.min(CHUNK_SIZE_MAX)) else { return Ok(None) };
    let piece = match large {
        None => return Ok(None),
        Some(StoredEvent::Read { chunk, taken }) => {
            let mut piece = empty_buffer(spare, size);
            piece.extend_from_slice(&chunk.bytes()[*taken..*taken + size]);
            *taken += size;
            marker.mark_piece(piece, chunk.format())
        }
        Some(StoredEvent::InLog { format }) => {
            let mut piece = empty_buffer(spare, size);
            reader.read_raw_bytes(size, &mut piece)?;
            marker.mark_piece(piece, format)
        }
    };
    if marker.large_rest().is_none() {
        *large = None;
    }
    Ok(Some(piece))
}

/// Returns an empty buffer for a chunk of this size.
fn empty_buffer(spare: &mut Vec<u8>, size: usize) -> Vec<u8> {
    // A small chunk would keep a large buffer in memory.
    if size < CHUNK_SIZE_MAX / 2 {
        return Vec::with_capacity(size);
    }
    let mut buffer = std::mem::take(spare);
    buffer.clear();
    buffer.reserve_exact(CHUNK_SIZE_MAX);
    buffer
}

/// Creates a chunk from the whole events, or the piece of an event, at the start of the window.
fn split_window(
    window: &mut Vec<u8>,
    format: &Arc<EventFormat>,
    marker: &mut ChunkMarker,
    spare: &mut Vec<u8>,
) -> Result<Option<FormChunk>, RelayError> {
    if window.is_empty() {
        return Ok(None);
    }
    if marker.large_rest().is_some() {
        return Ok(Some(marker.mark_piece(std::mem::take(window), format)));
    }
    let mut end = 0;
    while let Some(size) = event_size(&window[end..]) {
        if size > window.len() - end {
            break;
        }
        // A size of 0 is a fault, which the marker reports: the loop must still end.
        end += size.max(1);
    }
    if end == 0 {
        let size =
            event_size(window).unwrap_or_else(|| unreachable!("ours: the renderer writes whole headers"));
        let size = size as u32;
        return Ok(Some(marker.mark_large(std::mem::take(window), size, format)?));
    }
    let bytes = match end < CHUNK_SIZE_MAX / 2 {
        true => window.drain(..end).collect(),
        false => {
            let mut rest = empty_buffer(spare, CHUNK_SIZE_MAX);
            rest.extend_from_slice(&window[end..]);
            window.truncate(end);
            std::mem::replace(window, rest)
        }
    };
    Ok(Some(marker.mark_rendered(bytes, format)?))
}

/// Returns whether logs of this format can have compressed transactions.
fn can_compress(format: &EventFormat) -> bool {
    format.flavour == Flavour::MySql && format.knows_payloads()
}

fn check_kind(log: &Arc<str>, kind: LogKind) -> Result<(), RelayError> {
    match kind {
        LogKind::Binary => Ok(()),
        LogKind::Relay => Err(RelayError::RelayLog { name: log.to_string() }),
    }
}

fn read_back_error(log: &str, cause: io::Error) -> RelayError {
    RelayError::Index { verb: "read back a temporary file for", path: log.to_owned(), cause }
}

//! One form of a store, shared by all clients that read it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use binlog::ChecksumAlgorithm;
use logs::lock;
use rewrite::{RenderTimings, StageTiming};

use crate::chunk_cache::ChunkCache;
use crate::error::RelayError;
use crate::form_chunk::FormChunk;
use crate::form_index::{FormIndex, FormPosition, index_path, remove_indexes};
use crate::form_renderer::{FilePosition, FormRenderer, RenderOutcome};
use crate::log_form::LogForm;
use crate::relay_store::{LogFileId, RelayStore};
use crate::served_checksum::ServedChecksum;
use crate::statement_interrupt::StatementInterrupt;

/// One form of a store, shared by all clients that read it.
///
/// The first client that needs a chunk renders it; a cache of limited size keeps it. Clients at the same position wait
/// while one of them renders, and then share the chunk. The cache may drop chunks that a slower client still needs;
/// that client renders them again, from the nearest index entry. No client waits for a slower one: no lock is held
/// while a chunk is rendered or sent.
pub struct FormSource {
    form: LogForm,
    store: Arc<RelayStore>,
    directory: PathBuf,
    thread_cpu_time: fn() -> Duration,
    shared: Mutex<FormSourceState>,
    /// Notified when a chunk has been rendered.
    rendered: Condvar,
}

/// Result of [`FormSource::read`].
#[derive(Clone, Debug)]
pub enum FormRead {
    /// Chunk that contains the position.
    Chunk(Arc<FormChunk>),
    /// The log ends at the position; this is the next log.
    NextLog(Arc<str>),
    /// No more events are available yet: read again after [`FormSource::record_growth`].
    Pending,
}

/// Start of an event in a log's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormStart {
    /// Position in the form, in bytes, with the stored checksums.
    pub position: u64,
    /// Number of events before this position, without the format description.
    pub events_before: u64,
}

impl FormStart {
    /// First event of every log.
    pub const LOG_START: Self = Self { position: FormPosition::START.rendered, events_before: 0 };
}

/// Options of a [`FormSource`].
#[derive(Clone, Debug)]
pub struct FormSourceOptions {
    /// Directory for the indexes of forms, and for transactions too large for memory. Only this relay may use it.
    pub directory: PathBuf,
    /// Memory for recent chunks, in bytes.
    pub cache_bytes: usize,
    /// CPU time of the calling thread, which measures the cost of rendering.
    pub thread_cpu_time: fn() -> Duration,
}

/// Cost of rendering one form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderCost {
    /// Rendered bytes.
    pub bytes: u64,
    /// CPU time: reading the logs, and compressing or decompressing.
    pub time: Duration,
    /// Memory of the recent chunks, in bytes.
    pub cached_bytes: u64,
}

struct FormSourceState {
    cache: ChunkCache,
    /// Buffers of chunks that were dropped. Fresh memory costs more than reading into it.
    buffers: Vec<Vec<u8>>,
    logs: HashMap<Arc<str>, LogState>,
    /// Idle renderers, the most recently used one at the end.
    idle: Vec<FormRenderer>,
    /// Positions that are being rendered.
    busy: HashSet<(Arc<str>, u64)>,
    /// Number of calls of [`FormSource::record_growth`].
    growth: u64,
    /// First error of saving an index since the last [`FormSource::take_index_error`].
    index_error: Option<RelayError>,
    cost: RenderCost,
    /// Time spent on rendering since the last reset.
    timings: RenderTimings,
    /// Time spent on reading each chunk since the last reset.
    reading: StageTiming,
}

/// Time spent on each stage of rendering a form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormTimings {
    /// Compressing and decompressing, per transaction.
    pub rendering: RenderTimings,
    /// Reading the log's file, per chunk: without compressing and decompressing.
    pub reading: StageTiming,
}

/// State of one log.
struct LogState {
    /// File that the other fields describe.
    file: LogFileId,
    index: FormIndex,
    /// End of the index when it was saved last.
    saved: u64,
    end: Option<ClosedLogEnd>,
    end_seen: Option<SeenEnd>,
}

/// Position at which no more events were available.
#[derive(Clone, Copy)]
struct SeenEnd {
    position: u64,
    /// Number of calls of [`FormSource::record_growth`] at that time.
    growth: u64,
}

/// End of a log that no longer grows.
#[derive(Clone)]
struct ClosedLogEnd {
    position: u64,
    next: Arc<str>,
}

/// Maximum number of idle renderers. Each has buffers and an open file.
const IDLE_MAX: usize = 4;

/// Maximum number of unused buffers.
const BUFFERS_MAX: usize = 4;

/// Bytes of a stored log after which its index is saved again.
const SAVE_STRIDE: u64 = 64 << 20;

impl FormSource {
    /// Creates a source of a store in a form.
    pub fn new(store: Arc<RelayStore>, form: LogForm, options: FormSourceOptions) -> Self {
        let shared = FormSourceState {
            cache: ChunkCache::new(options.cache_bytes),
            buffers: Vec::new(),
            logs: HashMap::new(),
            idle: Vec::new(),
            busy: HashSet::new(),
            growth: 0,
            index_error: None,
            cost: RenderCost::default(),
            timings: RenderTimings::default(),
            reading: StageTiming::default(),
        };
        let FormSourceOptions { directory, thread_cpu_time, .. } = options;
        Self { form, store, directory, thread_cpu_time, shared: Mutex::new(shared), rendered: Condvar::new() }
    }

    /// Returns the form.
    pub const fn form(&self) -> LogForm {
        self.form
    }

    /// Returns the store.
    pub const fn store(&self) -> &Arc<RelayStore> {
        &self.store
    }

    /// Returns the memory of the cached chunks in bytes.
    pub fn cached_bytes(&self) -> usize {
        self.lock().cache.bytes()
    }

    /// Records that the store may have grown. Until then, reading at its end needs no system call.
    pub fn record_growth(&self) {
        self.lock().growth += 1;
    }

    /// Returns the chunk that contains a position of a log. The position must be the end of another chunk, or come from
    /// [`FormSource::locate`].
    ///
    /// Waits while another thread renders the same position.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read or rendered, or is not in the store.
    pub fn read(&self, log: &Arc<str>, position: u64) -> Result<FormRead, RelayError> {
        let claimed = (Arc::clone(log), position);
        let mut shared = self.lock();
        loop {
            if let Some(read) = shared.available(log, position) {
                return Ok(read);
            }
            if !shared.busy.contains(&claimed) {
                break;
            }
            shared = self.rendered.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
        shared.busy.insert(claimed.clone());
        let growth = shared.growth;
        let idle = shared.idle.iter().position(|idle| idle.log() == log && idle.position() == position);
        let idle = idle.map(|index| shared.idle.remove(index));
        drop(shared);
        let _claim = RenderClaim { source: self, claimed };
        let opened = match idle {
            Some(renderer) => Some(renderer),
            None => self.open_renderer(log, |entry| entry.rendered <= position)?,
        };
        let Some(mut renderer) = opened else { return self.wait_for_format(log) };
        loop {
            let found = match self.render(&mut renderer, growth)? {
                FormRead::Chunk(chunk) if chunk.end() <= position => None,
                FormRead::Chunk(chunk) if chunk.offset() > position => {
                    return Err(RelayError::Changed { name: log.to_string() });
                }
                FormRead::Chunk(chunk) => Some(FormRead::Chunk(chunk)),
                _ if renderer.position() < position => {
                    return Err(self.past_end(log, renderer.position(), position));
                }
                read => Some(read),
            };
            if let Some(read) = found {
                self.put_back(renderer, &read);
                return Ok(read);
            }
        }
    }

    /// Finds the event that starts at a position of a log, as a client with these checksums sees positions. The end of
    /// the log is a valid position, too.
    ///
    /// # Errors
    ///
    /// Fails with [`RelayError::NotAnEvent`] or [`RelayError::PastEnd`]; otherwise as [`FormSource::read`] does.
    pub fn locate(
        &self,
        log: &Arc<str>,
        position: u64,
        checksum: ServedChecksum,
    ) -> Result<FormStart, RelayError> {
        let stored = self.store.head(log)?.map_or(ChecksumAlgorithm::Undefined, |head| head.format.checksum);
        let shift = checksum.shift(stored);
        let seen = |rendered, events| shift.served(rendered, events);
        let entry = self.index_entry(log, |entry| seen(entry.rendered, entry.events) <= position)?.at;
        let mut found = FormStart { position: entry.rendered, events_before: entry.events };
        let mut before = seen(found.position, found.events_before);
        loop {
            let FormRead::Chunk(chunk) = self.read(log, found.position)? else {
                let end = seen(found.position, found.events_before);
                return match position {
                    _ if position == end => Ok(found),
                    _ if position > end => Err(self.past_end(log, end, position)),
                    _ => Err(self.not_an_event(log, before, position)),
                };
            };
            let changed = || RelayError::Changed { name: log.to_string() };
            let first = chunk.slice_at(found.position).ok_or_else(changed)?;
            for slice in &chunk.slices()[first..] {
                if slice.is_first() {
                    let start = seen(found.position, found.events_before);
                    if start == position {
                        return Ok(found);
                    }
                    if start > position {
                        return Err(self.not_an_event(log, before, position));
                    }
                    before = start;
                }
                found.position += slice.range().len() as u64;
                found.events_before += u64::from(slice.is_last() && slice.is_counted());
            }
        }
    }

    /// Returns the size of a log in the form in bytes, up to its last whole transaction or to a fault. Renders the part
    /// that is not indexed yet, which can take long.
    ///
    /// # Errors
    ///
    /// Fails as [`FormSource::read`] does, except for faults of the log. Fails with
    /// [`RelayError::Interrupted`] after a request of `interrupt`.
    pub fn form_size(&self, log: &Arc<str>, interrupt: &StatementInterrupt) -> Result<u64, RelayError> {
        let mut position = self.index_entry(log, |_| true)?.at.rendered;
        loop {
            if interrupt.is_requested() {
                return Err(RelayError::Interrupted);
            }
            match self.read(log, position) {
                Ok(FormRead::Chunk(chunk)) => position = chunk.end(),
                Err(error) if !error.is_fault_of_log() => return Err(error),
                Ok(_) | Err(_) => return Ok(position),
            }
        }
    }

    /// Returns the size of the indexed part of a log's form, and whether it is the whole log.
    ///
    /// # Errors
    ///
    /// Fails if the log is not in the store or cannot be read.
    pub fn indexed_size(&self, log: &Arc<str>) -> Result<IndexedSize, RelayError> {
        let end = self.index_entry(log, |_| true)?.at.rendered;
        let shared = self.lock();
        let whole = shared.logs.get(log).and_then(|state| state.end.as_ref());
        Ok(IndexedSize { bytes: whole.map_or(end, |end| end.position), is_whole: whole.is_some() })
    }

    /// Returns the cost of rendering since the start.
    pub fn cost(&self) -> RenderCost {
        let shared = self.lock();
        RenderCost { cached_bytes: shared.cache.bytes() as u64, ..shared.cost }
    }

    /// Estimates the position in the stored log for a position in the form. Renders nothing. The error is at most
    /// [`INDEX_STRIDE`](crate::INDEX_STRIDE) or one transaction; at the end of the read part, there is none. `None` if
    /// no part of the log was read.
    pub fn estimate_original(&self, log: &str, rendered: u64) -> Option<u64> {
        Some(self.lock().logs.get(log)?.index.estimate_original(rendered))
    }

    /// Returns the end of the read part of a log. Renders nothing. `None` if no part of the log was read.
    pub fn known_end(&self, log: &str) -> Option<FormPosition> {
        Some(self.lock().logs.get(log)?.index.end())
    }

    /// Translates the start of a transaction in the stored log to its position in the form. Returns the last start of a
    /// transaction at or before `stored`, or the start of the log.
    ///
    /// # Errors
    ///
    /// Fails as [`FormSource::read`] does.
    pub fn rendered_position(&self, log: &Arc<str>, stored: u64) -> Result<FormPosition, RelayError> {
        self.last_start(log, &|start| start.original <= stored)
    }

    /// Translates the start of a transaction in the form to its position in the stored log. Returns the last start of a
    /// transaction at or before `rendered`, or the start of the log.
    ///
    /// # Errors
    ///
    /// Fails as [`FormSource::read`] does.
    pub fn stored_position(&self, log: &Arc<str>, rendered: u64) -> Result<FormPosition, RelayError> {
        self.last_start(log, &|start| start.rendered <= rendered)
    }

    /// Saves all indexes.
    ///
    /// # Errors
    ///
    /// Fails if an index cannot be written.
    pub fn save_indexes(&self) -> Result<(), RelayError> {
        let logs: Vec<Arc<str>> = self.lock().logs.keys().cloned().collect();
        logs.iter().try_for_each(|log| self.save_index(log))
    }

    /// Returns the first error of saving an index since the last call. Serving continues without the index, but a
    /// restarted relay must render more.
    pub fn take_index_error(&self) -> Option<RelayError> {
        self.lock().index_error.take()
    }

    /// Returns the time spent on each stage since the last reset.
    pub fn timings(&self) -> FormTimings {
        let shared = self.lock();
        FormTimings { rendering: shared.timings, reading: shared.reading }
    }

    /// Resets the time spent on each stage.
    pub fn reset_timings(&self) {
        let mut shared = self.lock();
        shared.timings = RenderTimings::default();
        shared.reading = StageTiming::default();
    }

    /// Drops the state of purged logs, and their saved indexes.
    ///
    /// # Errors
    ///
    /// Fails if the list of logs cannot be read.
    pub fn forget_purged(&self) -> Result<(), RelayError> {
        let kept: HashSet<Arc<str>> = self.store.forget_purged()?.into_iter().collect();
        self.lock().forget(|log| !kept.contains(log));
        remove_indexes(&self.directory, self.form, |log| kept.contains(log));
        Ok(())
    }

    /// Returns the result for a log with an incomplete format description. The rest may follow, unless the log has a
    /// successor.
    fn wait_for_format(&self, log: &Arc<str>) -> Result<FormRead, RelayError> {
        // A server writes the format description before it names the next log, so read it again after the list.
        match self.store.has_successor(log)? && self.store.head(log)?.is_none() {
            true => {
                let size = std::fs::metadata(self.store.path(log)?).map_or(0, |found| found.len());
                Err(RelayError::NoFormat { name: log.to_string(), size })
            }
            false => Ok(FormRead::Pending),
        }
    }

    fn last_start(
        &self,
        log: &Arc<str>,
        is_before: &dyn Fn(&FormPosition) -> bool,
    ) -> Result<FormPosition, RelayError> {
        let mut last = self.index_entry(log, is_before)?.at;
        let Some(mut renderer) = self.open_renderer(log, is_before)? else { return Ok(last) };
        loop {
            let outcome = renderer.next()?;
            for start in renderer.take_starts() {
                match is_before(&start) {
                    true => last = start,
                    false => return Ok(last),
                }
            }
            if !matches!(outcome, RenderOutcome::Chunk(_)) {
                return Ok(renderer.boundary().filter(is_before).unwrap_or(last));
            }
        }
    }

    /// Renders one chunk, and makes it available to all clients.
    fn render(&self, renderer: &mut FormRenderer, growth: u64) -> Result<FormRead, RelayError> {
        let (began, began_reading) = ((self.thread_cpu_time)(), Instant::now());
        if let Some(buffer) = self.lock().buffers.pop() {
            renderer.lend_buffer(buffer);
        }
        let outcome = renderer.next()?;
        let (starts, boundary) = (renderer.take_starts(), renderer.boundary());
        let log = Arc::clone(renderer.log());
        let spent = (self.thread_cpu_time)().saturating_sub(began);
        let timings = renderer.take_timings();
        let rewriting = timings.compressing.total + timings.opening.total;
        let reading = began_reading.elapsed().saturating_sub(rewriting);
        let mut shared = self.lock();
        shared.timings.add(&timings);
        shared.cost.time += spent;
        if let RenderOutcome::Chunk(chunk) = &outcome {
            shared.cost.bytes += chunk.bytes().len() as u64;
            shared.reading.record(reading);
        }
        let FormSourceState { cache, buffers, logs, .. } = &mut *shared;
        // If the file was replaced meanwhile, other clients read the new file.
        let state = logs.get_mut(&log).filter(|state| state.file == renderer.file());
        let mut is_due = false;
        if let Some(state) = &state {
            is_due = state.index.end().original >= state.saved + SAVE_STRIDE;
        }
        let read = match outcome {
            RenderOutcome::Chunk(chunk) => FormRead::Chunk(Arc::new(chunk)),
            RenderOutcome::Wait => FormRead::Pending,
            RenderOutcome::NextLog(next) => FormRead::NextLog(next),
        };
        if let Some(state) = state {
            starts.into_iter().for_each(|start| state.index.record(start));
            boundary.into_iter().for_each(|boundary| state.index.advance(boundary));
            match &read {
                FormRead::Chunk(chunk) => {
                    let removed = cache.insert(Arc::clone(chunk));
                    // A chunk that a client is sending cannot be reused.
                    let unused = removed.into_iter().filter_map(Arc::into_inner);
                    buffers.extend(unused.filter_map(FormChunk::into_buffer));
                    buffers.truncate(BUFFERS_MAX);
                }
                FormRead::Pending => {
                    state.end_seen = Some(SeenEnd { position: renderer.position(), growth });
                }
                FormRead::NextLog(next) => {
                    is_due = true;
                    state.end = Some(ClosedLogEnd { position: renderer.position(), next: Arc::clone(next) });
                }
            }
        }
        drop(shared);
        if is_due && let Err(error) = self.save_index(&log) {
            // Serving continues without the index.
            self.lock().index_error.get_or_insert(error);
        }
        Ok(read)
    }

    fn put_back(&self, renderer: FormRenderer, read: &FormRead) {
        if matches!(read, FormRead::NextLog(_)) {
            return;
        }
        let mut shared = self.lock();
        if shared.logs.get(renderer.log()).is_none_or(|state| state.file != renderer.file()) {
            return;
        }
        if shared.idle.len() == IDLE_MAX {
            shared.idle.remove(0);
        }
        shared.idle.push(renderer);
    }

    fn open_renderer(
        &self,
        log: &Arc<str>,
        is_before: impl Fn(&FormPosition) -> bool,
    ) -> Result<Option<FormRenderer>, RelayError> {
        let open = || {
            let position = self.index_entry(log, &is_before)?;
            FormRenderer::new(&self.store, log, self.form, position, &self.directory)
        };
        match open() {
            // The file was replaced at that moment, and the new file has its own index.
            Err(RelayError::Changed { .. }) => open(),
            opened => opened,
        }
    }

    /// Returns the last entry of a log's index for which `is_before` is true.
    fn index_entry(
        &self,
        log: &Arc<str>,
        is_before: impl Fn(&FormPosition) -> bool,
    ) -> Result<FilePosition, RelayError> {
        let file = self.store.identity(log)?;
        if let Some(state) = self.lock().logs.get(log).filter(|state| state.file == file) {
            return Ok(FilePosition { file, at: state.index.last_where(is_before) });
        }
        let path = index_path(&self.directory, self.form, log);
        let open = self.store.opener(log)?;
        let index = FormIndex::load(&path, self.form, &open)?.unwrap_or_default();
        let mut shared = self.lock();
        if shared.logs.get(log).is_none_or(|state| state.file != file) {
            shared.forget(|other| other == log);
            let saved = index.end().original;
            let state = LogState { file, index, saved, end: None, end_seen: None };
            shared.logs.insert(Arc::clone(log), state);
        }
        let at = shared.logs.get(log).map_or(FormPosition::START, |state| state.index.last_where(is_before));
        Ok(FilePosition { file, at })
    }

    fn save_index(&self, log: &Arc<str>) -> Result<(), RelayError> {
        let mut shared = self.lock();
        let Some(state) = shared.logs.get_mut(log) else { return Ok(()) };
        let (index, file) = (state.index.clone(), state.file);
        if index.end().original <= state.saved {
            return Ok(());
        }
        let before = std::mem::replace(&mut state.saved, index.end().original);
        drop(shared);
        let saved = self.save_index_of(log, &index, file);
        if saved.is_err()
            && let Some(state) = self.lock().logs.get_mut(log).filter(|state| state.file == file)
        {
            // The next call tries again.
            state.saved = before;
        }
        saved
    }

    fn save_index_of(&self, log: &Arc<str>, index: &FormIndex, file: LogFileId) -> Result<(), RelayError> {
        // Checksums of another log would make this index valid for that log.
        if self.store.identity(log)? != file {
            return Ok(());
        }
        index.save(&index_path(&self.directory, self.form, log), self.form, &self.store.opener(log)?)
    }

    fn past_end(&self, log: &Arc<str>, size: u64, position: u64) -> RelayError {
        RelayError::PastEnd { name: log.to_string(), form: self.form.to_string(), size, position }
    }

    fn not_an_event(&self, log: &Arc<str>, before: u64, position: u64) -> RelayError {
        RelayError::NotAnEvent { name: log.to_string(), form: self.form.to_string(), before, position }
    }

    fn lock(&self) -> MutexGuard<'_, FormSourceState> {
        lock(&self.shared)
    }
}

/// Indexed part of a log's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedSize {
    /// Size of the part, in bytes.
    pub bytes: u64,
    /// True if the part is the whole log, which no longer grows.
    pub is_whole: bool,
}

impl FormSourceState {
    /// Drops all state of some logs.
    fn forget(&mut self, is_gone: impl Fn(&Arc<str>) -> bool) {
        self.cache.retain(|log| !is_gone(log));
        self.idle.retain(|renderer| !is_gone(renderer.log()));
        self.logs.retain(|log, _| !is_gone(log));
    }

    /// Returns the result if it needs no rendering.
    fn available(&mut self, log: &Arc<str>, position: u64) -> Option<FormRead> {
        if let Some(chunk) = self.cache.get(log, position) {
            return Some(FormRead::Chunk(chunk));
        }
        let state = self.logs.get(log)?;
        match (&state.end, state.end_seen) {
            (Some(end), _) if end.position == position => Some(FormRead::NextLog(Arc::clone(&end.next))),
            (_, Some(seen)) if seen.position == position && seen.growth == self.growth => {
                Some(FormRead::Pending)
            }
            _ => None,
        }
    }
}

/// Position that is being rendered. Dropping it, also after an error or a panic, wakes the waiting threads.
struct RenderClaim<'s> {
    source: &'s FormSource,
    claimed: (Arc<str>, u64),
}

impl Drop for RenderClaim<'_> {
    fn drop(&mut self) {
        self.source.lock().busy.remove(&self.claimed);
        self.source.rendered.notify_all();
    }
}

impl std::fmt::Debug for FormSource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("FormSource").field("form", &self.form).finish_non_exhaustive()
    }
}

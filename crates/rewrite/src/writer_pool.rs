//! Pool of zstd contexts, shared by all workers. A large transaction gets exclusive access.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use binlog::PayloadWriter;

use crate::error::RewriteError;
use crate::{CompressSettings, RewriteAction};

/// Pool of zstd contexts.
///
/// The contexts use most of the memory, and one large transaction uses much of this memory. A large transaction
/// therefore waits until no worker compresses, and blocks the others until it is done.
///
/// A thread that holds a context must not wait for another thread.
pub(crate) struct WriterPool {
    settings: Option<CompressSettings>,
    state: Mutex<WriterPoolState>,
    released: Condvar,
}

#[derive(Default)]
struct WriterPoolState {
    idle: Vec<PayloadWriter>,
    /// Number of contexts in use.
    lent: usize,
    /// Number of large transactions that a worker compresses, or that wait for exclusive access.
    large: usize,
    is_large_at_work: bool,
}

/// A context from the pool.
pub(crate) struct PooledWriter<'w> {
    writers: &'w WriterPool,
    /// `Some` until the drop.
    writer: Option<PayloadWriter>,
}

/// Exclusive access to the pool, while a large transaction is compressed.
pub(crate) struct ExclusiveAccess<'w>(&'w WriterPool);

impl WriterPool {
    pub(crate) fn new(action: RewriteAction) -> Self {
        let settings = match action {
            RewriteAction::Compress(settings) => Some(settings),
            RewriteAction::Decompress => None,
        };
        Self { settings, state: Mutex::default(), released: Condvar::new() }
    }

    /// Takes a context from the pool. The worker must drop it before it waits for anything.
    pub(crate) fn acquire(&self) -> Result<PooledWriter<'_>, RewriteError> {
        let mut state = self.lock();
        while state.large > 0 {
            state = self.wait(state);
        }
        state.lent += 1;
        let mut lent = PooledWriter { writers: self, writer: state.idle.pop() };
        drop(state);
        if lent.writer.is_none() {
            lent.writer = Some(self.new_writer()?);
        }
        Ok(lent)
    }

    /// Waits until no other worker compresses, and frees the idle contexts.
    pub(crate) fn acquire_exclusive(&self) -> ExclusiveAccess<'_> {
        let mut state = self.lock();
        state.large += 1;
        while state.lent > 0 || state.is_large_at_work {
            state = self.wait(state);
        }
        state.is_large_at_work = true;
        state.idle.clear();
        ExclusiveAccess(self)
    }

    /// Creates a context.
    pub(crate) fn new_writer(&self) -> Result<PayloadWriter, RewriteError> {
        let Some(settings) = self.settings else {
            unreachable!("ours: opening a payload compresses nothing")
        };
        Ok(PayloadWriter::new(settings.level)?.with_event_size_max(settings.event_size_max))
    }

    fn lock(&self) -> MutexGuard<'_, WriterPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, state: MutexGuard<'g, WriterPoolState>) -> MutexGuard<'g, WriterPoolState> {
        self.released.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledWriter<'_> {
    pub(crate) fn writer(&mut self) -> &mut PayloadWriter {
        match &mut self.writer {
            Some(writer) => writer,
            None => unreachable!("ours: the context exists until the drop"),
        }
    }
}

impl Drop for PooledWriter<'_> {
    fn drop(&mut self) {
        let mut state = self.writers.lock();
        state.lent -= 1;
        state.idle.extend(self.writer.take());
        self.writers.released.notify_all();
    }
}

impl Drop for ExclusiveAccess<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        (state.large, state.is_large_at_work) = (state.large - 1, false);
        self.0.released.notify_all();
    }
}

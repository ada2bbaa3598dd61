//! Reads logs on a thread, while Python waits for the results.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use logs::ThreadPanic;
use pyo3::Python;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::PyResult;

use crate::log_arguments::LogError;

/// Interval at which waits check for signals, such as Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of results that wait for Python.
const WAITING_MAX: usize = 2;

/// A thread that reads logs, and its results. Dropping it stops the thread.
pub(crate) struct Worker<T> {
    results: Mutex<Receiver<Result<T, String>>>,
    is_stopped: Arc<AtomicBool>,
}

/// Sending half of a worker's results, for the thread.
pub(crate) struct WorkerOutput<T> {
    sender: SyncSender<Result<T, String>>,
    is_stopped: Arc<AtomicBool>,
}

/// Result of waiting for a short time.
pub(crate) enum WaitOutcome<T> {
    /// A result, or the error that ended the thread.
    Result(Result<T, String>),
    /// No result yet.
    Pending,
    /// The thread has ended.
    Ended,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread that runs `read`.
    ///
    /// # Errors
    ///
    /// Fails if the thread cannot be started.
    pub(crate) fn start<E>(
        read: impl FnOnce(&WorkerOutput<T>) -> Result<(), E> + Send + 'static,
    ) -> PyResult<Self>
    where
        E: fmt::Display,
    {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let output = WorkerOutput { sender, is_stopped: Arc::clone(&is_stopped) };
        let run = move || {
            let result = ThreadPanic::catch("reads logs", || read(&output));
            let failure = match result {
                Ok(result) => result.err().map(|error| error.to_string()),
                Err(panic) => Some(panic.to_string()),
            };
            if let Some(failure) = failure {
                // Fails if the worker was dropped.
                let _ = output.sender.send(Err(failure));
            }
        };
        let started = thread::Builder::new().name("bintide".to_owned()).spawn(run);
        started.map_err(|error| PyOSError::new_err(format!("could not start a thread: {error}")))?;
        Ok(Self { results: Mutex::new(receiver), is_stopped })
    }

    /// Returns the next result; `None` at the end. The GIL is released meanwhile.
    pub(crate) fn next(&self, py: Python<'_>) -> PyResult<Option<T>> {
        loop {
            match py.detach(|| self.wait()) {
                WaitOutcome::Result(result) => return result.map(Some).map_err(LogError::new_err),
                WaitOutcome::Ended => return Ok(None),
                WaitOutcome::Pending => py.check_signals()?,
            }
        }
    }

    /// Waits for a result for at most `POLL_INTERVAL`.
    pub(crate) fn wait(&self) -> WaitOutcome<T> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        match results.recv_timeout(POLL_INTERVAL) {
            Ok(result) => WaitOutcome::Result(result),
            Err(RecvTimeoutError::Timeout) => WaitOutcome::Pending,
            Err(RecvTimeoutError::Disconnected) => WaitOutcome::Ended,
        }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

impl<T> WorkerOutput<T> {
    /// Passes a result on. Waits while `WAITING_MAX` earlier ones were not taken. Returns `Break` if the worker was
    /// dropped.
    pub(crate) fn put(&self, result: T) -> ControlFlow<()> {
        match self.sender.send(Ok(result)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Returns `Break` if the worker was dropped.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        match self.is_stopped.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Returns the flag that is set when the worker is dropped.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stopped)
    }
}

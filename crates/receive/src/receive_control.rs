//! Controls a running receiver from other threads: pauses it, replaces its source, purges logs, protects logs in use,
//! and changes their compression.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use binlog::ZstdLevel;
use logs::{LogError, lock};
use servers::ServerAddress;

/// Maximum time until the receiver takes a request: longer than a connection attempt.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);

/// Controls a running receiver from other threads.
#[derive(Clone, Default)]
pub struct ReceiveControl(Arc<ControlState>);

#[derive(Default)]
struct ControlState {
    is_paused: AtomicBool,
    /// True if there is a new source. Atomic, because it is read for each event.
    has_new_source: AtomicBool,
    new_source: Mutex<Option<ServerAddress>>,
    /// True if there are requests. Atomic, because it is read for each event.
    has_requests: AtomicBool,
    requests: Mutex<Vec<PurgeRequest>>,
    /// Number of the next request.
    next_request: AtomicU64,
    first_needed: Mutex<Vec<FirstLogFinder>>,
    first_read_as_is: Mutex<Option<FirstLogFinder>>,
    /// Level at which closed logs are compressed; 0 to leave them as they are.
    compression_level: AtomicU8,
}

/// Function that returns the index of the first log that is in use, among these logs, oldest first.
type FirstLogFinder = Arc<dyn Fn(&[&str]) -> Option<usize> + Send + Sync>;

/// Request to remove the logs before a given one.
struct PurgeRequest {
    number: u64,
    log: String,
    answer: Sender<Result<usize, String>>,
}

/// Error of a request to a receiver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The receiver did not take the request in time.
    #[error("the receiver is busy, or has ended: try again")]
    Timeout,
    /// The receiver could not remove logs.
    #[error("{0}")]
    Failed(String),
}

impl ReceiveControl {
    /// Makes the receiver disconnect, and stay disconnected until [`ReceiveControl::resume`]. Returns false if the
    /// receiver was already paused.
    pub fn pause(&self) -> bool {
        !self.0.is_paused.swap(true, Ordering::Relaxed)
    }

    /// Makes the receiver connect again. Returns false if the receiver was not paused.
    pub fn resume(&self) -> bool {
        self.0.is_paused.swap(false, Ordering::Relaxed)
    }

    /// Returns whether the receiver is paused.
    pub fn is_paused(&self) -> bool {
        self.0.is_paused.load(Ordering::Relaxed)
    }

    /// Makes this server the only source. The receiver disconnects from the present source, and connects to the new
    /// source as soon as the receiver is not paused. Another server must have all stored transactions.
    pub fn replace_source(&self, source: ServerAddress) {
        *lock(&self.0.new_source) = Some(source);
        self.0.has_new_source.store(true, Ordering::Release);
    }

    /// Returns the new source, once.
    pub(crate) fn take_new_source(&self) -> Option<ServerAddress> {
        self.0.has_new_source.store(false, Ordering::Release);
        lock(&self.0.new_source).take()
    }

    /// Returns whether the present connection must end.
    pub(crate) fn ends_connection(&self) -> bool {
        self.is_paused() || self.0.has_new_source.load(Ordering::Acquire)
    }

    /// Removes the logs before this one. Waits until the receiver has removed them, and returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the logs cannot be removed, or the receiver does not take the request in time.
    pub fn purge_before(&self, log: &str) -> Result<usize, ControlError> {
        self.purge_before_within(log, REQUEST_TIMEOUT)
    }

    fn purge_before_within(&self, log: &str, timeout: Duration) -> Result<usize, ControlError> {
        let (answer, answered) = channel();
        let number = self.0.next_request.fetch_add(1, Ordering::Relaxed);
        lock(&self.0.requests).push(PurgeRequest { number, log: log.to_owned(), answer });
        self.0.has_requests.store(true, Ordering::Release);
        if let Ok(result) = answered.recv_timeout(timeout) {
            return result.map_err(ControlError::Failed);
        }
        match self.withdraw(number) {
            // Withdraw the request: later, a client may read these logs, and the caller checked only for now.
            true => Err(ControlError::Timeout),
            // The receiver has already taken the request, and serves it now.
            false => answered.recv().map_err(|_| ControlError::Timeout)?.map_err(ControlError::Failed),
        }
    }

    /// Removes a request. Returns false if the receiver has taken it.
    fn withdraw(&self, number: u64) -> bool {
        let mut requests = lock(&self.0.requests);
        let count = requests.len();
        requests.retain(|request| request.number != number);
        requests.len() < count
    }

    /// Adds a function that returns the index of the first log still needed, among the names of all stored logs, oldest
    /// first. The retention limit spares this log and all later logs. With several functions, it spares what one of them
    /// needs.
    pub fn protect_logs(&self, first_needed: impl Fn(&[&str]) -> Option<usize> + Send + Sync + 'static) {
        lock(&self.0.first_needed).push(Arc::new(first_needed));
    }

    /// Returns the index of the first log still needed, among these, oldest first.
    pub(crate) fn first_needed(&self, logs: &[&str]) -> Option<usize> {
        let all = lock(&self.0.first_needed).clone();
        all.iter().filter_map(|first_needed| first_needed(logs)).min()
    }

    /// Sets the function that finds the first log that a client reads as it is stored, among the names of the logs to
    /// compress, oldest first. This log and all later ones are not compressed now.
    pub fn hold_compression(&self, first: impl Fn(&[&str]) -> Option<usize> + Send + Sync + 'static) {
        *lock(&self.0.first_read_as_is) = Some(Arc::new(first));
    }

    /// Returns the number of logs that may be compressed now, from the oldest on.
    pub(crate) fn count_compressible(&self, logs: &[PathBuf]) -> usize {
        let Some(first) = lock(&self.0.first_read_as_is).clone() else { return logs.len() };
        let name =
            |log: &PathBuf| log.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let names: Vec<String> = logs.iter().map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        first(&names).unwrap_or(logs.len())
    }

    /// Sets the level at which logs are compressed that are closed from now on; `None` to leave them as they are. Logs
    /// that are closed already, and not compressed, then also stay as they are.
    pub fn set_compression(&self, level: Option<ZstdLevel>) {
        self.0.compression_level.store(level.map_or(0, ZstdLevel::get), Ordering::Relaxed);
    }

    /// Returns the level at which closed logs are compressed; `None` if they stay as they are.
    pub fn compression(&self) -> Option<ZstdLevel> {
        ZstdLevel::new(self.0.compression_level.load(Ordering::Relaxed))
    }

    /// Serves the waiting requests.
    pub(crate) fn serve_requests(&self, mut purge_before: impl FnMut(&str) -> Result<usize, LogError>) {
        if !self.0.has_requests.swap(false, Ordering::Acquire) {
            return;
        }
        let requests = std::mem::take(&mut *lock(&self.0.requests));
        for request in requests {
            let result = purge_before(&request.log).map_err(|error| error.to_string());
            // The requester may have given up.
            let _ = request.answer.send(result);
        }
    }
}

impl fmt::Debug for ReceiveControl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ReceiveControl").field("is_paused", &self.is_paused()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{ControlError, ReceiveControl};

    #[test]
    fn unanswered_requests_are_discarded() {
        let control = ReceiveControl::default();
        let timeout = std::time::Duration::from_millis(10);
        assert_eq!(control.purge_before_within("b.000002", timeout), Err(ControlError::Timeout));
        control.serve_requests(|log| panic!("{log} is removed"));
    }

    #[test]
    fn logs_from_the_first_one_in_use_on_are_not_compressed() {
        let (control, logs) = (ReceiveControl::default(), ["d/b.1", "d/b.2"].map(std::path::PathBuf::from));
        assert_eq!(control.count_compressible(&logs), 2);
        control.hold_compression(|names| names.iter().position(|name| *name == "b.2"));
        assert_eq!((control.count_compressible(&logs), control.count_compressible(&logs[..1])), (1, 1));
    }

    #[test]
    fn requests_are_answered_by_the_receiver() {
        let control = ReceiveControl::default();
        let receiving = control.clone();
        let receiver = std::thread::spawn(move || {
            let mut served = 0;
            while served < 2 {
                receiving.serve_requests(|log| {
                    served += 1;
                    match log {
                        "b.000002" => Ok(1),
                        name => {
                            Err(logs::LogError::NotNextLog { name: name.to_owned(), last: String::new() })
                        }
                    }
                });
            }
        });
        assert_eq!(control.purge_before("b.000002"), Ok(1));
        assert!(matches!(control.purge_before("other"), Err(ControlError::Failed(_))));
        receiver.join().unwrap();
        assert!(control.pause() && !control.pause() && control.is_paused());
        assert!(control.resume() && !control.resume() && !control.is_paused());
    }

    #[test]
    fn a_new_source_ends_the_connection_once() {
        let control = ReceiveControl::default();
        assert!(!control.ends_connection() && control.take_new_source().is_none());
        control.replace_source(servers::ServerAddress::parse("mysql://r@b/").unwrap());
        assert!(control.ends_connection());
        assert_eq!(control.take_new_source().map(|source| source.host).as_deref(), Some("b"));
        assert!(!control.ends_connection() && control.take_new_source().is_none());
    }
}

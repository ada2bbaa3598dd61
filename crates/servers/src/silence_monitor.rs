//! Detects a server that no longer answers.
//!
//! A statement may run for hours, and a network may be down for hours: both look like silence. After a timeout, a new
//! connection asks the server whether the statement still runs. If the statement does not run, or the server does not
//! answer, the monitor shuts down the old connection. The waiting thread then gets an error.

use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use logs::{ThreadPanic, lock};
use nix::sys::socket::{Shutdown, shutdown};

use crate::error::ConnectionError;

/// Assumed minimum throughput of a network. It extends the timeout of large requests.
const BYTES_PER_SECOND_MIN: usize = 64 << 10;

/// Monitor of one connection. Must be dropped before the connection.
pub(crate) struct SilenceMonitor {
    shared: Arc<MonitorShared>,
    silence_max: Duration,
}

struct MonitorShared {
    state: Mutex<MonitorState>,
    closed_signal: Condvar,
}

struct MonitorState {
    /// File descriptor of the connection; open unless `is_over` is set.
    fd: RawFd,
    request: Option<PendingRequest>,
    /// Number of requests so far.
    requests: u64,
    /// Reason for which the monitor ended the connection; `None` if the monitor has not ended it.
    end_reason: Option<String>,
    is_over: bool,
}

/// Request without a complete answer.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    number: u64,
    /// Time when the request was sent, or when the server last confirmed that the request still runs.
    last_heard: Instant,
    silence_max: Duration,
}

/// State of a connection, as the server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerActivity {
    /// The server runs a statement of the connection.
    Busy,
    /// The server runs no statement of the connection: the request or its answer was lost.
    Idle,
    /// The server did not answer in time, with this error.
    Unreachable(String),
}

impl SilenceMonitor {
    /// Starts to monitor the connection with this descriptor. `ask` queries the server about this connection over a new
    /// connection, and returns within the given time.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started.
    pub(crate) fn new(
        fd: RawFd,
        silence_max: Duration,
        ask: impl Fn(Duration) -> ServerActivity + Send + 'static,
    ) -> Result<Self, ConnectionError> {
        let state = MonitorState { fd, request: None, requests: 0, end_reason: None, is_over: false };
        let shared = Arc::new(MonitorShared { state: Mutex::new(state), closed_signal: Condvar::new() });
        let watched = Arc::clone(&shared);
        let watching = thread::Builder::new().spawn(move || {
            if let Err(panic) = ThreadPanic::catch("monitors a connection", || watched.run(silence_max, &ask))
            {
                // Without this thread, a request could wait forever.
                watched.state().end(panic.to_string());
            }
        });
        watching.map_err(|error| ConnectionError::lost(error.to_string()))?;
        Ok(Self { shared, silence_max })
    }

    /// Begins a request of `size` bytes. The request is pending until the returned guard is dropped.
    pub(crate) fn request(&self, size: usize) -> RequestGuard {
        let mut state = self.shared.state();
        state.requests += 1;
        let silence_max = self.silence_max + Duration::from_secs((size / BYTES_PER_SECOND_MIN) as u64);
        state.request =
            Some(PendingRequest { number: state.requests, last_heard: Instant::now(), silence_max });
        RequestGuard(Arc::clone(&self.shared))
    }

    /// Returns the reason for which the monitor ended the connection; `None` if the monitor has not ended it.
    pub(crate) fn end_reason(&self) -> Option<String> {
        self.shared.state().end_reason.clone()
    }
}

impl Drop for SilenceMonitor {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.closed_signal.notify_all();
    }
}

/// Guard of a pending request: its answer has not been read completely.
pub(crate) struct RequestGuard(Arc<MonitorShared>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.state().request = None;
    }
}

impl MonitorShared {
    fn state(&self) -> MutexGuard<'_, MonitorState> {
        lock(&self.state)
    }

    fn run(&self, silence_max: Duration, ask: &dyn Fn(Duration) -> ServerActivity) {
        let period = silence_max / 4;
        let mut state = self.state();
        while !state.is_over && state.end_reason.is_none() {
            let waited = self.closed_signal.wait_timeout(state, period);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let Some(request) =
                state.request.filter(|request| request.last_heard.elapsed() > silence_max / 2)
            else {
                continue;
            };
            drop(state);
            let found = ask(silence_max);
            state = self.state();
            state.record_activity(request, found, Instant::now());
        }
    }
}

impl MonitorState {
    /// Records the server's report about a request, received at `now`. Ends the connection if the silence is too long.
    fn record_activity(&mut self, asked: PendingRequest, found: ServerActivity, now: Instant) {
        let Some(request) = self.request.as_mut().filter(|request| request.number == asked.number) else {
            return;
        };
        let silent = now.saturating_duration_since(request.last_heard);
        let why = match found {
            ServerActivity::Busy => {
                request.last_heard = now;
                return;
            }
            _ if silent < request.silence_max => return,
            ServerActivity::Idle => {
                "it is not running a statement of this connection: a request or its answer was lost"
                    .to_owned()
            }
            ServerActivity::Unreachable(error) => format!("it does not answer a new connection: {error}"),
        };
        self.end(format!("the server has been silent for {} seconds, and {why}", silent.as_secs()));
    }

    /// Ends the connection.
    fn end(&mut self, why: String) {
        self.end_reason = Some(why);
        if !self.is_over {
            // A failure means that the connection is already closed, and its waiting thread has an error.
            let _ = shutdown(self.fd, Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::{MonitorState, PendingRequest, ServerActivity, SilenceMonitor};

    const SILENCE_MAX: Duration = Duration::from_secs(60);

    /// Checks a report `silent_s` seconds after the last sign of life: the connection must end with the text `expected`,
    /// or continue.
    fn check(found: ServerActivity, silent_s: u64, expected: Option<&str>) {
        let (pair, begin) = (UnixStream::pair().unwrap(), Instant::now());
        let request = PendingRequest { number: 1, last_heard: begin, silence_max: SILENCE_MAX };
        let mut state = MonitorState {
            fd: pair.0.as_raw_fd(),
            request: Some(request),
            requests: 1,
            end_reason: None,
            is_over: false,
        };
        let now = begin + Duration::from_secs(silent_s);
        state.record_activity(request, found.clone(), now);
        let heard = if found == ServerActivity::Busy { now } else { begin };
        assert_eq!(state.request.map(|request| request.last_heard), Some(heard));
        let ended = state.end_reason.as_deref();
        assert_eq!(ended.is_some(), expected.is_some(), "{found:?} after {silent_s}: {ended:?}");
        assert!(ended.unwrap_or_default().contains(expected.unwrap_or_default()), "{ended:?}");
    }

    #[test]
    fn busy_servers_may_be_silent() {
        let unheard = || ServerActivity::Unreachable("timed out".into());
        check(ServerActivity::Busy, 100_000, None);
        check(ServerActivity::Idle, 59, None);
        check(
            ServerActivity::Idle,
            60,
            Some(
                "silent for 60 seconds, and it is not running a statement of this connection: a request or its answer \
                 was lost",
            ),
        );
        check(unheard(), 59, None);
        check(
            unheard(),
            61,
            Some("silent for 61 seconds, and it does not answer a new connection: timed out"),
        );
    }

    #[test]
    fn activity_of_other_requests_does_not_count() {
        let (pair, now) = (UnixStream::pair().unwrap(), Instant::now());
        let asked = PendingRequest { number: 1, last_heard: now, silence_max: Duration::ZERO };
        let request = Some(PendingRequest { number: 2, ..asked });
        let mut state =
            MonitorState { fd: pair.0.as_raw_fd(), request, requests: 2, end_reason: None, is_over: false };
        state.record_activity(asked, ServerActivity::Idle, now);
        assert_eq!(state.end_reason, None);
    }

    #[test]
    fn silent_connections_are_ended() {
        let (mut ours, _theirs) = UnixStream::pair().unwrap();
        let watch =
            SilenceMonitor::new(ours.as_raw_fd(), Duration::from_millis(20), |_| ServerActivity::Idle)
                .unwrap();
        let _under_way = watch.request(0);
        // The peer never sends anything.
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        assert!(watch.end_reason().is_some());
    }

    #[test]
    fn panics_of_the_monitor_end_the_connection() {
        let (mut ours, _theirs) = UnixStream::pair().unwrap();
        let watch =
            SilenceMonitor::new(ours.as_raw_fd(), Duration::from_millis(20), |_| panic!("injected")).unwrap();
        let _under_way = watch.request(0);
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        let why = watch.end_reason().unwrap();
        assert!(why.contains("panicked: injected"), "{why}");
    }
}

//! Detects a server that no longer answers.
//!
//! A statement may run for hours, and a network may be down for hours: both look like silence. If an answer does not
//! come, a new connection asks the server whether the statement still runs. If it does not, or if the server does not
//! answer, the old connection is shut down, and its waiting thread gets an error.

use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use logs::ThreadPanic;
use nix::sys::socket::{Shutdown, shutdown};

use crate::error::Error;

/// Assumed minimum throughput of a network. It extends the timeout of large requests.
const BYTES_A_SECOND: usize = 64 << 10;

/// Monitor of one connection. It must be dropped before its connection.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    silence_max: Duration,
}

struct Shared {
    state: Mutex<State>,
    over: Condvar,
}

struct State {
    /// File descriptor of the connection; open unless `is_over` is set.
    fd: RawFd,
    request: Option<Request>,
    /// Number of requests so far.
    requests: u64,
    /// Reason for which the monitor ended the connection, if it did.
    ended: Option<String>,
    is_over: bool,
}

/// Request without a complete answer.
#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    /// Time when the request was sent, or when the server last confirmed that it still runs.
    heard: Instant,
    silence_max: Duration,
}

/// State of a connection, as the server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The server runs a statement of the connection.
    Busy,
    /// The server runs no statement of the connection: the request or its answer was lost.
    Idle,
    /// The server did not answer in time, with this error.
    Unheard(String),
}

impl Watch {
    /// Starts to monitor the connection with this descriptor. `ask` asks the server about it over a new connection, and
    /// returns within the given time.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub(crate) fn new(
        fd: RawFd,
        silence_max: Duration,
        ask: impl Fn(Duration) -> Found + Send + 'static,
    ) -> Result<Self, Error> {
        let state = State { fd, request: None, requests: 0, ended: None, is_over: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), over: Condvar::new() });
        let watched = Arc::clone(&shared);
        let watching = thread::Builder::new().spawn(move || {
            if let Err(panic) =
                ThreadPanic::catch("monitors a connection", || watched.watch(silence_max, &ask))
            {
                // Without this thread, a request could wait forever.
                watched.state().end(panic.to_string());
            }
        });
        watching.map_err(|error| Error::lost(error.to_string()))?;
        Ok(Self { shared, silence_max })
    }

    /// Begins a request of `size` bytes. The request is pending until the returned guard is dropped.
    pub(crate) fn request(&self, size: usize) -> UnderWay {
        let mut state = self.shared.state();
        state.requests += 1;
        let silence_max = self.silence_max + Duration::from_secs((size / BYTES_A_SECOND) as u64);
        state.request = Some(Request { number: state.requests, heard: Instant::now(), silence_max });
        UnderWay(Arc::clone(&self.shared))
    }

    /// Returns the reason for which the monitor ended the connection, if it did.
    pub(crate) fn ended(&self) -> Option<String> {
        self.shared.state().ended.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.over.notify_all();
    }
}

/// Guard of a pending request: its answer has not been read completely.
pub(crate) struct UnderWay(Arc<Shared>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.state().request = None;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, silence_max: Duration, ask: &dyn Fn(Duration) -> Found) {
        let period = silence_max / 4;
        let mut state = self.state();
        while !state.is_over && state.ended.is_none() {
            let waited = self.over.wait_timeout(state, period);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let Some(request) = state.request.filter(|request| request.heard.elapsed() > silence_max / 2)
            else {
                continue;
            };
            drop(state);
            let found = ask(silence_max);
            state = self.state();
            state.hear(request, found, Instant::now());
        }
    }
}

impl State {
    /// Records the server's report about a request, received at `now`. Ends the connection after too long a silence.
    fn hear(&mut self, asked: Request, found: Found, now: Instant) {
        let Some(request) = self.request.as_mut().filter(|request| request.number == asked.number) else {
            return;
        };
        let silent = now.saturating_duration_since(request.heard);
        let why = match found {
            Found::Busy => {
                request.heard = now;
                return;
            }
            _ if silent < request.silence_max => return,
            Found::Idle => {
                "it runs no statement of this connection: a request or its answer was lost".to_owned()
            }
            Found::Unheard(error) => format!("it does not answer a new connection: {error}"),
        };
        self.end(format!("the server has been silent for {} seconds, and {why}", silent.as_secs()));
    }

    /// Ends the connection.
    fn end(&mut self, why: String) {
        self.ended = Some(why);
        if !self.is_over {
            // A failure means that the connection is closed already, and its waiting thread has an error.
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

    use super::{Found, Request, State, Watch};

    const SILENCE_MAX: Duration = Duration::from_secs(60);

    /// Checks a report `silent_s` seconds after the last sign of life: the connection must end with the text `wanted`,
    /// or continue.
    fn check(found: Found, silent_s: u64, wanted: Option<&str>) {
        let (pair, begin) = (UnixStream::pair().unwrap(), Instant::now());
        let request = Request { number: 1, heard: begin, silence_max: SILENCE_MAX };
        let mut state = State {
            fd: pair.0.as_raw_fd(),
            request: Some(request),
            requests: 1,
            ended: None,
            is_over: false,
        };
        let now = begin + Duration::from_secs(silent_s);
        state.hear(request, found.clone(), now);
        let heard = if found == Found::Busy { now } else { begin };
        assert_eq!(state.request.map(|request| request.heard), Some(heard));
        let ended = state.ended.as_deref();
        assert_eq!(ended.is_some(), wanted.is_some(), "{found:?} after {silent_s}: {ended:?}");
        assert!(ended.unwrap_or_default().contains(wanted.unwrap_or_default()), "{ended:?}");
    }

    #[test]
    fn a_server_at_work_may_be_silent() {
        let unheard = || Found::Unheard("timed out".into());
        check(Found::Busy, 100_000, None);
        check(Found::Idle, 59, None);
        check(Found::Idle, 60, Some("silent for 60 seconds, and it runs no statement"));
        check(unheard(), 59, None);
        check(
            unheard(),
            61,
            Some("silent for 61 seconds, and it does not answer a new connection: timed out"),
        );
    }

    #[test]
    fn another_request_is_not_the_one_asked_for() {
        let (pair, now) = (UnixStream::pair().unwrap(), Instant::now());
        let asked = Request { number: 1, heard: now, silence_max: Duration::ZERO };
        let request = Some(Request { number: 2, ..asked });
        let mut state = State { fd: pair.0.as_raw_fd(), request, requests: 2, ended: None, is_over: false };
        state.hear(asked, Found::Idle, now);
        assert_eq!(state.ended, None);
    }

    #[test]
    fn whoever_waits_in_vain_hears_of_it() {
        let (mut ours, _theirs) = UnixStream::pair().unwrap();
        let watch = Watch::new(ours.as_raw_fd(), Duration::from_millis(20), |_| Found::Idle).unwrap();
        let _under_way = watch.request(0);
        // The peer never sends anything.
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        assert!(watch.ended().is_some());
    }

    #[test]
    fn a_panic_of_the_watch_ends_the_connection() {
        let (mut ours, _theirs) = UnixStream::pair().unwrap();
        let watch = Watch::new(ours.as_raw_fd(), Duration::from_millis(20), |_| panic!("injected")).unwrap();
        let _under_way = watch.request(0);
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        let why = watch.ended().unwrap();
        assert!(why.contains("panicked: injected"), "{why}");
    }
}

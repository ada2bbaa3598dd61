//! Notices when a server does not answer any more.
//!
//! A statement may take hours, and a network may be gone for hours: from here, both are silence. So where an answer
//! does not come, the server is asked over a new connection whether it is still at it. If it is not, or does not
//! answer that either, the connection is ended, and whoever waits hears of it.

use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use logs::ThreadPanic;
use nix::sys::socket::{Shutdown, shutdown};

use crate::error::Error;

/// What a large request may take longer: so many bytes a second are to be had of any network.
const BYTES_A_SECOND: usize = 64 << 10;

/// Looks after one connection. It must be dropped before its connection is.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    silence_max: Duration,
}

struct Shared {
    state: Mutex<State>,
    over: Condvar,
}

struct State {
    /// The connection's file descriptor: it is open as long as `is_over` is not set.
    fd: RawFd,
    request: Option<Request>,
    /// How many requests there have been.
    requests: u64,
    /// Why the connection was ended, if we did that.
    ended: Option<String>,
    is_over: bool,
}

/// What an answer has not come to.
#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    /// When it was sent, or the server last said that it was still at it.
    heard: Instant,
    silence_max: Duration,
}

/// What a server says of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is running something for it.
    Busy,
    /// It has nothing to do for it: our request, or its answer, is lost.
    Idle,
    /// Nothing came back in time.
    Unheard(String),
}

impl Watch {
    /// Looks after the connection with this descriptor; `ask` asks the server for it, over another one, and takes no
    /// longer than the time that it is given.
    ///
    /// # Errors
    ///
    /// When the system has no thread for it.
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
                // Without this thread, a request could wait for ever.
                watched.state().end(panic.to_string());
            }
        });
        watching.map_err(|error| Error::lost(error.to_string()))?;
        Ok(Self { shared, silence_max })
    }

    /// A request of so many bytes is about to be sent. It is under way until what this gives is dropped.
    pub(crate) fn request(&self, size: usize) -> UnderWay {
        let mut state = self.shared.state();
        state.requests += 1;
        let silence_max = self.silence_max + Duration::from_secs((size / BYTES_A_SECOND) as u64);
        state.request = Some(Request { number: state.requests, heard: Instant::now(), silence_max });
        UnderWay(Arc::clone(&self.shared))
    }

    /// Why the connection was ended, if it was ended from here.
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

/// A request whose answer has not been read to its end.
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
    /// What the server was found to do for a request: `now` is when that was heard.
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
                "it has nothing to do for this connection: a request, or its answer, was lost".to_owned()
            }
            Found::Unheard(error) => format!("it does not answer a new connection: {error}"),
        };
        self.end(format!("the server has been silent for {} seconds, and {why}", silent.as_secs()));
    }

    /// Ends the connection.
    fn end(&mut self, why: String) {
        self.ended = Some(why);
        if !self.is_over {
            // Where it is gone already, whoever waits has heard of it.
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

    /// A request that was heard of so many seconds ago: is its connection ended, and when is it heard of now?
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
        check(Found::Idle, 60, Some("silent for 60 seconds, and it has nothing to do"));
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
        // Nothing ever comes.
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

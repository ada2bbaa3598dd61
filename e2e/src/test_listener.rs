//! A TCP server of a test, with a thread for each connection.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Listens on a free port of 127.0.0.1, and serves connections until it is dropped.
#[derive(Debug)]
pub struct TestListener {
    port: u16,
    state: Arc<ListenerState>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct ListenerState {
    is_over: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// Interval at which the accepting thread checks for the end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl TestListener {
    /// Calls `serve` with each connection, in a thread of its own. An error of `serve` ends only that connection.
    ///
    /// # Errors
    ///
    /// Fails if no port is free.
    pub fn start(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(ListenerState::default());
        let accepted = Arc::clone(&state);
        let accepting = thread::spawn(move || accept(&listener, &accepted, &Arc::new(serve)));
        Ok(Self { port, state, accepting: Some(accepting) })
    }

    /// Returns the port of 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for TestListener {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        if let Some(accepting) = self.accepting.take() {
            // After a panic, the thread has already printed its message.
            let _ = accepting.join();
        }
        for stream in self.state.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept<F>(listener: &TcpListener, state: &ListenerState, serve: &Arc<F>)
where
    F: Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
{
    while !state.is_over.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(POLL_INTERVAL);
            continue;
        };
        // A client that disconnects is no error.
        let Ok(kept) = configure(&stream) else { continue };
        state.streams.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        let serve = Arc::clone(serve);
        thread::spawn(move || serve(stream));
    }
}

fn configure(stream: &TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.try_clone()
}

//! Metrics of long-running commands, published for Prometheus: over HTTP, and in a file.
//!
//! Each request has its own thread, so that a slow client blocks neither the work nor other requests.

use std::collections::VecDeque;
use std::io::{self, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::Args;
use logs::{FileAccess, replace_file};
use tracing::{error, info};

use crate::exit::CommandFailure;
use crate::metrics_registry::{MetricsFormat, MetricsRegistry};

/// Options that publish metrics.
#[derive(Args, Debug)]
pub(crate) struct MetricsArgs {
    /// Serve metrics for Prometheus over HTTP at this address, for example 127.0.0.1:9104.
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Write metrics to this file every five seconds and at the end; the file is replaced as a whole.
    #[arg(long, value_name = "FILE")]
    metrics_file: Option<PathBuf>,
}

/// Timeout of a whole request and its answer. Monitors need milliseconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of concurrent requests. One more closes the oldest, so that silent clients cannot block others.
const REQUESTS_MAX: usize = 16;

/// Pause after a failed accept, for example when the process has too many open files.
const ACCEPT_BACKOFF: Duration = Duration::from_secs(1);

/// Maximum size of a request, in bytes. Only its first line matters.
const REQUEST_MAX: usize = 8 << 10;

/// Interval at which the file is written. Monitors read it every ten seconds or less often.
const FILE_INTERVAL: Duration = Duration::from_secs(5);

/// Running publication of metrics. Dropping it writes the file for the last time.
#[derive(Debug, Default)]
pub(crate) struct MetricsService {
    file: Option<(Sender<()>, JoinHandle<()>)>,
}

impl MetricsArgs {
    /// Refuses an unusable file before the work begins.
    pub(crate) fn check(&self) -> Result<(), CommandFailure> {
        let Some(path) = &self.metrics_file else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let why = match folder {
            _ if path.is_dir() => "it is a directory",
            Some(folder) if !folder.is_dir() => "its directory does not exist",
            _ => return Ok(()),
        };
        Err(CommandFailure::NotStarted(anyhow!("could not write metrics to {}: {why}", path.display())))
    }

    /// Starts publishing metrics. Prints the address on standard error, because port 0 means any free port.
    pub(crate) fn serve(&self, registry: MetricsRegistry) -> Result<MetricsService, CommandFailure> {
        let registry = Arc::new(registry);
        if let Some(address) = &self.metrics {
            let bound = listen(address, Arc::clone(&registry)).map_err(CommandFailure::NotStarted)?;
            info!("metrics are at http://{bound}/metrics");
        }
        let Some(path) = self.metrics_file.clone() else { return Ok(MetricsService::default()) };
        let written = write(&path, &registry.text(MetricsFormat::Classic));
        written
            .with_context(|| format!("could not write metrics to {}", path.display()))
            .map_err(CommandFailure::NotStarted)?;
        let (alive, is_alive) = channel();
        let writer = thread::spawn(move || write_periodically(&path, &registry, &is_alive));
        Ok(MetricsService { file: Some((alive, writer)) })
    }
}

impl Drop for MetricsService {
    fn drop(&mut self) {
        if let Some((alive, writer)) = self.file.take() {
            drop(alive);
            // The error of a file was reported before.
            let _ = writer.join();
        }
    }
}

fn write_periodically(path: &Path, registry: &MetricsRegistry, is_alive: &Receiver<()>) {
    let mut has_failed = false;
    loop {
        let is_last = is_alive.recv_timeout(FILE_INTERVAL) != Err(RecvTimeoutError::Timeout);
        if let Err(error) = write(path, &registry.text(MetricsFormat::Classic))
            && !has_failed
        {
            error!("could not write metrics to {}: {error}", path.display());
            has_failed = true;
        }
        if is_last {
            return;
        }
    }
}

/// Replaces the file atomically.
fn write(path: &Path, text: &str) -> io::Result<()> {
    replace_file(path, text.as_bytes(), FileAccess::Shared)
}

/// Starts a thread that answers requests at an address. Returns the address with its actual port.
fn listen(address: &str, registry: Arc<MetricsRegistry>) -> Result<SocketAddr, anyhow::Error> {
    let listener = TcpListener::bind(address).map_err(|error| {
        anyhow!(
            "could not serve metrics at {address}: {error}; expected HOST:PORT of this machine, such as \
             127.0.0.1:9104"
        )
    })?;
    let bound = listener.local_addr().context("could not get the address of the metrics")?;
    thread::spawn(move || {
        let requests = Arc::new(OpenRequests::default());
        for stream in listener.incoming() {
            match stream {
                // A client without an answer asks again.
                Ok(stream) => drop(requests.answer(stream, Arc::clone(&registry))),
                Err(_) => thread::sleep(ACCEPT_BACKOFF),
            }
        }
    });
    Ok(bound)
}

/// Connections that are being answered, oldest first.
#[derive(Debug, Default)]
struct OpenRequests(Mutex<VecDeque<Arc<TcpStream>>>);

impl OpenRequests {
    /// Answers in a new thread, and closes the oldest connection if there are too many.
    fn answer(self: &Arc<Self>, stream: TcpStream, registry: Arc<MetricsRegistry>) -> io::Result<()> {
        let stream = Arc::new(stream);
        let mut open = self.open();
        open.push_back(Arc::clone(&stream));
        let oldest = if open.len() > REQUESTS_MAX { open.pop_front() } else { None };
        drop(open);
        if let Some(oldest) = oldest {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let requests = Arc::clone(self);
        let answered = Arc::clone(&stream);
        let answering = thread::Builder::new().spawn(move || {
            let client = TimedStream { stream: &answered, end: Instant::now() + REQUEST_TIMEOUT };
            let _ = answer(client, &registry);
            requests.close(&answered);
        });
        if answering.is_err() {
            self.close(&stream);
        }
        answering.map(drop)
    }

    fn close(&self, stream: &Arc<TcpStream>) {
        self.open().retain(|open| !Arc::ptr_eq(open, stream));
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<Arc<TcpStream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connection with one deadline for all reads and writes.
struct TimedStream<'s> {
    stream: &'s TcpStream,
    end: Instant,
}

impl TimedStream<'_> {
    fn time_left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for TimedStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.time_left()?)?;
        self.stream.read(out)
    }
}

impl io::Write for TimedStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.time_left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn answer(mut stream: TimedStream<'_>, registry: &MetricsRegistry) -> io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        match stream.read(&mut part)? {
            0 => break,
            size => request.extend_from_slice(&part[..size]),
        }
    }
    let (status, content_type, body) = match parse_request(&request) {
        HttpRequest::Metrics(format) => ("200 OK", format.content_type(), registry.text(format)),
        HttpRequest::Other => ("404 Not Found", PLAIN_TEXT, "see /metrics\n".to_owned()),
        HttpRequest::Nothing => ("405 Method Not Allowed", PLAIN_TEXT, "only GET is supported\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Content type of messages.
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Media type of OpenMetrics in the header `Accept` of Prometheus.
const OPEN_METRICS: &str = "application/openmetrics-text";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HttpRequest {
    /// The metrics, in the format that the client accepts.
    Metrics(MetricsFormat),
    Other,
    Nothing,
}

fn parse_request(request: &[u8]) -> HttpRequest {
    let request = String::from_utf8_lossy(request);
    let mut lines = request.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    match (words.next(), words.next()) {
        (Some("GET"), Some(target)) => match target.split('?').next() {
            Some("/" | "/metrics") => HttpRequest::Metrics(accepted_format(lines)),
            _ => HttpRequest::Other,
        },
        _ => HttpRequest::Nothing,
    }
}

/// Returns the format for a request with these headers. A client that does not ask for OpenMetrics may not read it.
fn accepted_format<'h>(headers: impl Iterator<Item = &'h str>) -> MetricsFormat {
    let mut accepts = headers
        .filter_map(|header| header.split_once(':'))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("accept"));
    match accepts.any(|(_, types)| types.to_ascii_lowercase().contains(OPEN_METRICS)) {
        true => MetricsFormat::OpenMetrics,
        false => MetricsFormat::Classic,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{HttpRequest, REQUEST_TIMEOUT, REQUESTS_MAX, listen, parse_request, write};
    use crate::metrics_registry::{MetricsFormat, MetricsRegistry};

    #[test]
    fn requests() {
        let check =
            |request: &str, wanted| assert_eq!(parse_request(request.as_bytes()), wanted, "{request}");
        let classic = HttpRequest::Metrics(MetricsFormat::Classic);
        check("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", classic);
        check("GET / HTTP/1.0\r\n\r\n", classic);
        check("GET /metrics?x=1 HTTP/1.1\r\n\r\n", classic);
        check("GET /metrics HTTP/1.1\r\nAccept: text/plain;version=0.0.4;q=1,*/*;q=0.1\r\n\r\n", classic);
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4";
        let open_metrics = HttpRequest::Metrics(MetricsFormat::OpenMetrics);
        check(&format!("GET /metrics HTTP/1.1\r\nHost: x\r\naccept: {prometheus}\r\n\r\n"), open_metrics);
        check("GET /else HTTP/1.1\r\n\r\n", HttpRequest::Other);
        check("POST /metrics HTTP/1.1\r\n\r\n", HttpRequest::Nothing);
        check("", HttpRequest::Nothing);
        check("GET", HttpRequest::Nothing);
    }

    #[test]
    fn slow_clients_block_no_others_and_are_closed() {
        let bound = listen("127.0.0.1:0", Arc::new(MetricsRegistry::new())).unwrap();
        let text = MetricsRegistry::new().text(MetricsFormat::Classic);
        let began = Instant::now();
        let silent: Vec<_> = (0..3 * REQUESTS_MAX).map(|_| TcpStream::connect(bound).unwrap()).collect();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(bound).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(&format!("\r\n\r\n{text}")),
                "{answer}"
            );
        }
        assert!(began.elapsed() < REQUEST_TIMEOUT, "{:?}", began.elapsed());
        drop(silent);
        // Each byte arrives in time, but the whole request does not.
        let mut slow = TcpStream::connect(bound).unwrap();
        let closed = (0..200).find(|_| {
            thread::sleep(Duration::from_millis(50));
            slow.write_all(b"G").is_err()
        });
        assert!(closed.is_some(), "an endless request is never closed");
        assert!(listen(&bound.to_string(), Arc::new(MetricsRegistry::new())).is_err());
    }

    #[test]
    fn the_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bintide.prom");
        for text in ["one", "two"] {
            write(&path, text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert!(write(folder.path(), "three").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(!folder.path().with_extension("new").exists());
    }
}

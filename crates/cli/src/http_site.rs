//! HTTP site of a long-running command: metrics, health, and for the relay a live page.
//!
//! | path | content |
//! |---|---|
//! | `/metrics` | metrics for Prometheus |
//! | `/healthz` | 200 while the process runs |
//! | `/readyz` | 200 if the command can do its work, else 503 and the reason |
//! | `/`, `/status.json`, `/events` | the live page, its document, and its server-sent events |
//!
//! Each request has its own thread, so that a slow client blocks neither the work nor other requests.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use logs::lock;

use crate::background_thread::start_thread;
use crate::exit::CommandFailure;
use crate::live_page::{EventStreamSlot, LivePage};
use crate::metrics_registry::{MetricsFormat, MetricsRegistry};
use crate::service_state::ServiceState;
use crate::units::duration;

/// Timeout of a whole request and its answer. Monitors need milliseconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of concurrent requests. Another request closes the oldest, so that silent clients cannot block
/// others.
const REQUESTS_MAX: usize = 16;

/// Pause after a failed accept, for example when the process has too many open files.
const ACCEPT_BACKOFF: Duration = Duration::from_secs(1);

/// Maximum size of a request, in bytes. Only its first line matters.
const REQUEST_MAX: usize = 8 << 10;

/// Interval between two events of a stream.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of one event: a client that takes longer is dropped.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Content type of messages.
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Media type of OpenMetrics in the header `Accept` of Prometheus.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// Headers of all answers. The page may only use its own content and its own site.
const COMMON_HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
    Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
    img-src data:; connect-src 'self'; frame-ancestors 'none'\r\nConnection: close\r\n";

/// Content of the site. systemd is notified of the same state.
pub(crate) struct HttpSite {
    pub(crate) registry: MetricsRegistry,
    state: Arc<dyn ServiceState>,
    /// Lag beyond which the command is not ready.
    lag_max: Option<Duration>,
    page: Option<Arc<LivePage>>,
}

impl HttpSite {
    pub(crate) fn new(registry: MetricsRegistry, state: Arc<dyn ServiceState>) -> Self {
        Self { registry, state, lag_max: None, page: None }
    }

    /// Sets the lag beyond which the command is not ready; `None` for any lag.
    pub(crate) fn limit_lag(&mut self, lag_max: Option<Duration>) {
        self.lag_max = lag_max;
    }

    /// Checks that the command can do its work within the limit of the lag. Otherwise returns the reason.
    pub(crate) fn readiness(&self) -> Result<(), String> {
        self.state.readiness()?;
        match (self.lag_max, self.state.lag()) {
            (Some(lag_max), Some(lag)) if lag > lag_max => {
                Err(format!("the lag is {}, the limit {}", duration(lag), duration(lag_max)))
            }
            (Some(_), None) if self.state.has_source() => Err("the lag is unknown".to_owned()),
            _ => Ok(()),
        }
    }

    /// Returns whether the start is complete.
    pub(crate) fn is_started(&self) -> bool {
        self.state.is_started()
    }

    /// Returns one line about the work, or the reason why it is blocked.
    pub(crate) fn status_line(&self) -> String {
        match self.readiness() {
            Ok(()) => self.state.summary(),
            Err(why) => format!("not ready: {why}"),
        }
    }

    /// Sets the live page at `/`. Without a page, `/` has the metrics.
    pub(crate) fn with_page(mut self, page: Arc<LivePage>) -> Self {
        self.page = Some(page);
        self
    }

    /// Starts a thread that answers requests at an address. Returns the address with its actual port.
    pub(crate) fn listen(self: &Arc<Self>, address: &str) -> Result<SocketAddr, CommandFailure> {
        let (listener, bound) = bind(address).map_err(CommandFailure::NotStarted)?;
        let site = Arc::clone(self);
        start_thread("metrics", move || {
            let requests = Arc::new(OpenRequests::default());
            for stream in listener.incoming() {
                match stream {
                    // A client without an answer repeats its request.
                    Ok(stream) => drop(requests.answer(stream, Arc::clone(&site))),
                    Err(_) => thread::sleep(ACCEPT_BACKOFF),
                }
            }
        })?;
        Ok(bound)
    }

    /// Returns the answer to a request.
    fn answer(&self, request: HttpRequest) -> HttpAnswer {
        let message = |status, text: &str| HttpAnswer::Text {
            status,
            content_type: PLAIN_TEXT,
            body: format!("{text}\n"),
        };
        let found = |content_type, body| HttpAnswer::Text { status: "200 OK", content_type, body };
        match (request, &self.page) {
            (HttpRequest::Page(_), Some(page)) => found("text/html; charset=utf-8", page.html()),
            (HttpRequest::Metrics(format) | HttpRequest::Page(format), _) => {
                found(format.content_type(), self.registry.text(format))
            }
            (HttpRequest::Health, _) => message("200 OK", "ok"),
            (HttpRequest::Readiness, _) => match self.readiness() {
                Ok(()) => message("200 OK", "ready"),
                Err(why) => message("503 Service Unavailable", &format!("not ready: {why}")),
            },
            (HttpRequest::Document, Some(page)) => found("application/json", page.document().to_string()),
            (HttpRequest::Events, Some(page)) => match page.open_stream() {
                Some(slot) => HttpAnswer::Events(slot),
                None => message("503 Service Unavailable", "too many live pages are open"),
            },
            (HttpRequest::Unsupported, _) => {
                message("405 Method Not Allowed", "only GET and HEAD are supported")
            }
            (HttpRequest::Other | HttpRequest::Document | HttpRequest::Events, _) => {
                message("404 Not Found", "see /metrics")
            }
        }
    }
}

/// Listens at an address. Returns the listener, and the address with its actual port.
fn bind(address: &str) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => anyhow!("could not serve metrics at {address}: {error}; give another port"),
        _ => anyhow!(
            "could not serve metrics at {address}: {error}; expected HOST:PORT of this machine, such as \
             127.0.0.1:9104"
        ),
    })?;
    let bound = listener.local_addr().context("could not get the address of the metrics")?;
    Ok((listener, bound))
}

/// Answer to a request.
enum HttpAnswer {
    Text { status: &'static str, content_type: &'static str, body: String },
    Events(EventStreamSlot),
}

/// Connections that are being answered, oldest first.
#[derive(Debug, Default)]
struct OpenRequests(Mutex<VecDeque<Arc<TcpStream>>>);

impl OpenRequests {
    /// Answers in a new thread, and closes the oldest connection if there are too many.
    fn answer(self: &Arc<Self>, stream: TcpStream, site: Arc<HttpSite>) -> io::Result<()> {
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
            let events = answer(client, &site).ok().flatten();
            requests.close(&answered);
            // A stream of events has its own limits.
            if let Some(slot) = events {
                // Fails if the client has disconnected or is too slow.
                let _ = send_events(&answered, &slot);
            }
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
        lock(&self.0)
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

/// Answers a request. Returns a slot if the request is for a stream of events.
fn answer(mut stream: TimedStream<'_>, site: &HttpSite) -> io::Result<Option<EventStreamSlot>> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        match stream.read(&mut part)? {
            0 => break,
            size => request.extend_from_slice(&part[..size]),
        }
    }
    // The answer to HEAD is that to GET, without the body.
    let is_head_request = request.starts_with(b"HEAD ");
    match site.answer(parse_request(&request)) {
        HttpAnswer::Text { status, content_type, body } => {
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{COMMON_HEADERS}Content-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes())?;
            if !is_head_request {
                stream.write_all(body.as_bytes())?;
            }
            Ok(None)
        }
        HttpAnswer::Events(slot) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{COMMON_HEADERS}\r\n");
            stream.write_all(head.as_bytes())?;
            Ok((!is_head_request).then_some(slot))
        }
    }
}

/// Sends the history once, and then the document at each interval, until the client disconnects or is too slow.
fn send_events(stream: &TcpStream, slot: &EventStreamSlot) -> io::Result<()> {
    let mut event = format!("retry: 2000\nevent: history\ndata: {}\n\n", slot.page().history());
    loop {
        event += &format!("event: status\ndata: {}\n\n", slot.page().document());
        TimedStream { stream, end: Instant::now() + EVENT_TIMEOUT }.write_all(event.as_bytes())?;
        thread::sleep(EVENT_INTERVAL);
        event.clear();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HttpRequest {
    /// The metrics, in the format that the client accepts.
    Metrics(MetricsFormat),
    /// The page; a command without a page answers with the metrics.
    Page(MetricsFormat),
    Document,
    Events,
    Health,
    Readiness,
    Other,
    Unsupported,
}

fn parse_request(request: &[u8]) -> HttpRequest {
    let request = String::from_utf8_lossy(request);
    let mut lines = request.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    match (words.next(), words.next()) {
        (Some("GET" | "HEAD"), Some(target)) => match target.split('?').next() {
            Some("/") => HttpRequest::Page(accepted_format(lines)),
            Some("/metrics") => HttpRequest::Metrics(accepted_format(lines)),
            Some("/status.json") => HttpRequest::Document,
            Some("/events") => HttpRequest::Events,
            Some("/healthz") => HttpRequest::Health,
            Some("/readyz") => HttpRequest::Readiness,
            _ => HttpRequest::Other,
        },
        _ => HttpRequest::Unsupported,
    }
}

/// Returns the format for a request with these headers. A client that does not request OpenMetrics may be unable to
/// read it.
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
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{HttpRequest, HttpSite, REQUEST_TIMEOUT, REQUESTS_MAX, parse_request};
    use crate::live_page::{EVENT_STREAMS_MAX, LivePage};
    use crate::metrics_registry::{MetricsFormat, MetricsRegistry};
    use crate::service_state::ServiceState;

    /// State of a command with fixed values.
    struct FixedState {
        readiness: Result<(), &'static str>,
        lag: Option<Duration>,
    }

    impl ServiceState for FixedState {
        fn readiness(&self) -> Result<(), String> {
            self.readiness.map_err(str::to_owned)
        }

        fn lag(&self) -> Option<Duration> {
            self.lag
        }

        fn summary(&self) -> String {
            "working".to_owned()
        }
    }

    fn site(readiness: Result<(), &'static str>, lag_s: Option<u64>) -> HttpSite {
        let lag = lag_s.map(Duration::from_secs);
        HttpSite::new(MetricsRegistry::new(), Arc::new(FixedState { readiness, lag }))
    }

    fn listen(site: HttpSite) -> SocketAddr {
        Arc::new(site).listen("127.0.0.1:0").unwrap()
    }

    fn request(bound: SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(bound).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        stream
    }

    fn get(bound: SocketAddr, path: &str) -> String {
        let mut answer = String::new();
        request(bound, path).read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn requests() {
        let check =
            |request: &str, expected| assert_eq!(parse_request(request.as_bytes()), expected, "{request}");
        let classic = HttpRequest::Metrics(MetricsFormat::Classic);
        check("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", classic);
        check("GET / HTTP/1.0\r\n\r\n", HttpRequest::Page(MetricsFormat::Classic));
        check("GET /metrics?x=1 HTTP/1.1\r\n\r\n", classic);
        check("GET /metrics HTTP/1.1\r\nAccept: text/plain;version=0.0.4;q=1,*/*;q=0.1\r\n\r\n", classic);
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4";
        let open_metrics = HttpRequest::Metrics(MetricsFormat::OpenMetrics);
        check(&format!("GET /metrics HTTP/1.1\r\nHost: x\r\naccept: {prometheus}\r\n\r\n"), open_metrics);
        check("GET /healthz HTTP/1.1\r\n\r\n", HttpRequest::Health);
        check("GET /readyz HTTP/1.1\r\n\r\n", HttpRequest::Readiness);
        check("GET /events HTTP/1.1\r\n\r\n", HttpRequest::Events);
        check("HEAD /readyz HTTP/1.1\r\n\r\n", HttpRequest::Readiness);
        check("GET /else HTTP/1.1\r\n\r\n", HttpRequest::Other);
        check("POST /metrics HTTP/1.1\r\n\r\n", HttpRequest::Unsupported);
        check("", HttpRequest::Unsupported);
        check("GET", HttpRequest::Unsupported);
    }

    #[test]
    fn commands_without_a_page_have_metrics_and_health() {
        let bound = listen(site(Err("no source"), None));
        let check = |path, status: &str, expected: &str| {
            let answer = get(bound, path);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(expected),
                "{answer}"
            );
        };
        check("/", "200 OK", "bintide_build_info");
        check("/healthz", "200 OK", "\r\n\r\nok\n");
        check("/readyz", "503 Service Unavailable", "\r\n\r\nnot ready: no source\n");
        check("/status.json", "404 Not Found", "/metrics");
        check("/events", "404 Not Found", "/metrics");
    }

    #[test]
    fn heads_are_answers_without_a_body() {
        let bound = listen(site(Err("no source"), None));
        for path in ["/healthz", "/readyz", "/metrics", "/else"] {
            let mut stream = TcpStream::connect(bound).unwrap();
            stream.write_all(format!("HEAD {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let whole = get(bound, path);
            let (head, body) = whole.split_once("\r\n\r\n").unwrap();
            assert_eq!(answer, format!("{head}\r\n\r\n"), "{path}");
            assert!(head.contains(&format!("Content-Length: {}", body.len())) && !body.is_empty(), "{head}");
        }
    }

    #[test]
    fn commands_beyond_the_limit_of_lag_are_not_ready() {
        let check = |lag_s: Option<u64>, lag_max_s: Option<u64>, expected: Result<(), &str>| {
            let mut site = site(Ok(()), lag_s);
            site.limit_lag(lag_max_s.map(Duration::from_secs));
            assert_eq!(site.readiness(), expected.map_err(str::to_owned));
            let status = expected.map_or_else(|why| format!("not ready: {why}"), |()| "working".to_owned());
            assert_eq!(site.status_line(), status);
            assert!(site.is_started());
        };
        check(Some(60), None, Ok(()));
        check(None, Some(30), Err("the lag is unknown"));
        check(Some(30), Some(30), Ok(()));
        check(Some(60), Some(30), Err("the lag is 1 min 0 s, the limit 30.0 s"));
        assert!(!site(Err("no source"), None).is_started());
    }

    #[test]
    fn pages_are_live_and_their_streams_are_limited() {
        let page = Arc::new(LivePage::new("<p>page</p>".to_owned(), || "{\"a\":1}".to_owned()));
        let bound = listen(site(Ok(()), None).with_page(page));
        assert!(get(bound, "/").ends_with("<p>page</p>"));
        assert!(get(bound, "/status.json").ends_with("{\"a\":1}"));
        let mut streams: Vec<TcpStream> = (0..EVENT_STREAMS_MAX).map(|_| request(bound, "/events")).collect();
        for stream in &mut streams {
            let lines: Vec<String> = BufReader::new(stream).lines().take(16).map(Result::unwrap).collect();
            let is_there = |expected: &str| lines.iter().any(|line| line == expected);
            assert!(is_there("Content-Type: text/event-stream") && is_there("event: history"), "{lines:?}");
            assert!(is_there("event: status") && is_there("data: {\"a\":1}"), "{lines:?}");
        }
        assert!(get(bound, "/events").starts_with("HTTP/1.1 503"));
        assert!(get(bound, "/healthz").ends_with("ok\n"), "streams block requests");
        drop(streams);
        let freed = (0..100).any(|_| {
            thread::sleep(Duration::from_millis(100));
            let mut first = [0; 12];
            request(bound, "/events").read_exact(&mut first).unwrap();
            &first == b"HTTP/1.1 200"
        });
        assert!(freed, "streams of disconnected clients are not freed");
    }

    #[test]
    fn slow_clients_do_not_block_others_and_are_closed() {
        let bound = listen(site(Ok(()), None));
        let text = MetricsRegistry::new().text(MetricsFormat::Classic);
        let began = Instant::now();
        let silent: Vec<_> = (0..3 * REQUESTS_MAX).map(|_| TcpStream::connect(bound).unwrap()).collect();
        for _ in 0..2 {
            let answer = get(bound, "/metrics");
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
        let site = Arc::new(site(Ok(()), None));
        assert!(site.listen(&bound.to_string()).is_err());
    }
}

//! Requests over HTTP/1, as tests need them: one connection for each request, and no encryption.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result};

/// Timeout for each part of an answer, long enough for a loaded machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// A request. The server closes the connection after the answer.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a> {
    /// Version of the protocol.
    pub version: HttpVersion,
    /// Method, such as `GET`.
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// Names and values of headers, besides `Host` and `Content-Length`.
    pub headers: &'a [(&'a str, &'a str)],
    /// Content; empty for none.
    pub body: &'a [u8],
}

/// Version of the protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0: every server closes the connection after its answer, and sends the body in one piece.
    V1_0,
    /// HTTP/1.1.
    V1_1,
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Status.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    /// Content.
    pub body: Vec<u8>,
}

impl<'a> HttpRequest<'a> {
    /// Creates a request that reads `path`.
    pub const fn get(path: &'a str) -> Self {
        Self { version: HttpVersion::V1_1, method: "GET", path, headers: &[], body: &[] }
    }

    /// Sends the request, and returns the connection, for an answer without an end.
    ///
    /// # Errors
    /// Fails if the server cannot be reached.
    pub fn open(&self, server: impl ToSocketAddrs) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let version = match self.version {
            HttpVersion::V1_0 => "HTTP/1.0",
            HttpVersion::V1_1 => "HTTP/1.1\r\nConnection: close",
        };
        let mut text = format!("{} {} {version}\r\nHost: 127.0.0.1\r\n", self.method, self.path);
        for (name, value) in self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if self.method != "GET" || !self.body.is_empty() {
            text += &format!("Content-Length: {}\r\n", self.body.len());
        }
        stream.write_all(&[text.as_bytes(), b"\r\n", self.body].concat())?;
        Ok(stream)
    }

    /// Sends the request, and returns the whole answer.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, or its answer is not HTTP.
    pub fn send(&self, server: impl ToSocketAddrs) -> Result<HttpAnswer> {
        let mut answer = Vec::new();
        self.open(server)?.read_to_end(&mut answer)?;
        HttpAnswer::parse(&answer).with_context(|| format!("{} {}", self.method, self.path))
    }
}

impl HttpAnswer {
    fn parse(answer: &[u8]) -> Result<Self> {
        const END_OF_HEAD: &[u8] = b"\r\n\r\n";
        let size = answer.windows(END_OF_HEAD.len()).position(|bytes| bytes == END_OF_HEAD);
        let size = size.context("the answer has no end of its headers")?;
        let head = String::from_utf8(answer[..size].to_vec()).context("the headers are not text")?;
        let status_line = head.lines().next().unwrap_or_default();
        let status =
            status_line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        let status = status.with_context(|| format!("no status in {status_line:?}"))?;
        Ok(Self { status, head, body: answer[size + END_OF_HEAD.len()..].to_vec() })
    }

    /// Returns the content as text.
    ///
    /// # Errors
    /// Fails if the content is not text.
    pub fn text(&self) -> Result<&str> {
        str::from_utf8(&self.body).context("the content is not text")
    }
}

#[cfg(test)]
mod tests {
    use super::HttpAnswer;

    #[test]
    fn answers_have_a_status_and_a_body() {
        let answer = HttpAnswer::parse(b"HTTP/1.1 204 No Content\r\nA: b\r\n\r\nx\r\n\r\n").unwrap();
        assert_eq!((answer.status, answer.text().unwrap()), (204, "x\r\n\r\n"));
        assert_eq!(answer.head, "HTTP/1.1 204 No Content\r\nA: b");
    }

    #[test]
    fn other_answers_are_errors() {
        let cut = HttpAnswer::parse(b"HTTP/1.1 200 OK\r\n").unwrap_err();
        assert_eq!(cut.to_string(), "the answer has no end of its headers");
        let other = HttpAnswer::parse(b"220 ready\xff\r\n\r\n").unwrap_err();
        assert_eq!(other.to_string(), "the headers are not text");
        let odd = HttpAnswer::parse(b"SSH-2.0-OpenSSH 200\r\n\r\n").unwrap_err();
        assert_eq!(odd.to_string(), "no status in \"SSH-2.0-OpenSSH 200\"");
        let bytes = HttpAnswer::parse(b"HTTP/1.0 200 OK\r\n\r\n\xff").unwrap();
        assert_eq!(bytes.text().unwrap_err().to_string(), "the content is not text");
    }
}

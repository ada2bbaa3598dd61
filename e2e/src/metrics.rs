//! What a monitor is told by a command that runs for long.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};

/// What a monitor is told at this address: metrics by their names, with labels.
///
/// # Errors
///
/// When nobody answers, or not as HTTP has it.
pub fn scraped(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer has a head")?;
    ensure!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/plain; version=0.0.4"), "{head}");
    ensure!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    Ok(body.to_owned())
}

/// The value of the first metric of this name.
///
/// # Errors
///
/// When there is none.
pub fn number(metrics: &str, name: &str) -> Result<f64> {
    let lines =
        metrics.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    let mut found = lines.filter(|(found, _)| found.split('{').next() == Some(name));
    let (_, value) = found.next().with_context(|| format!("{name} is not in {metrics}"))?;
    Ok(value.parse()?)
}

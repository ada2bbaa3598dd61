//! Reads the metrics of a process over HTTP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Timeout of the connection, and of each read and write.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum size of an answer in bytes.
const ANSWER_MAX: u64 = 4 << 20;

/// Values of metrics by name, of each the values of all its labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MetricValues(BTreeMap<String, Vec<f64>>);

impl MetricValues {
    /// Parses metrics in Prometheus' text format. Lines that are no metric are skipped.
    pub(super) fn parse(text: &str) -> Self {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.trim_end().rsplit_once(' ') else { continue };
            let Ok(value) = value.parse() else { continue };
            let name = name.split('{').next().unwrap_or_default();
            values.entry(name.to_owned()).or_default().push(value);
        }
        Self(values)
    }

    /// Returns the sum of a metric over all its labels.
    pub(super) fn sum(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(|values| values.iter().sum())
    }

    /// Returns the largest value of a metric.
    pub(super) fn max(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.iter().copied().reduce(f64::max)
    }

    /// Returns whether any name begins with this text.
    pub(super) fn has_prefix(&self, prefix: &str) -> bool {
        self.0.range(prefix.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(prefix))
    }
}

/// Returns the metrics of the process at an address.
pub(super) fn read_metrics(address: &str) -> Result<MetricValues> {
    let answer = get(address, "/metrics")?;
    ensure!(answer.status == 200, "{address} answers with HTTP status {}", answer.status);
    let values = MetricValues::parse(&answer.body);
    ensure!(values.has_prefix("bintide_"), "{address} has no metrics of bintide");
    Ok(values)
}

/// Returns `ready`, or the reason why the process is not ready.
pub(super) fn read_readiness(address: &str) -> Result<String> {
    Ok(get(address, "/readyz")?.body.trim().to_owned())
}

struct HttpResponse {
    status: u16,
    body: String,
}

fn get(address: &str, path: &str) -> Result<HttpResponse> {
    let failed = || format!("could not read http://{address}{path}");
    let socket_address = address.to_socket_addrs().with_context(failed)?.next().with_context(failed)?;
    let mut stream = TcpStream::connect_timeout(&socket_address, TIMEOUT).with_context(failed)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n"
    )
    .with_context(failed)?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut bytes).with_context(failed)?;
    parse_response(&String::from_utf8_lossy(&bytes)).with_context(failed)
}

fn parse_response(text: &str) -> Result<HttpResponse> {
    let Some((head, body)) = text.split_once("\r\n\r\n") else { bail!("the answer is not HTTP") };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let is_http = head.starts_with("HTTP/");
    match status.filter(|_| is_http) {
        Some(status) => Ok(HttpResponse { status, body: body.to_owned() }),
        None => bail!("the answer is not HTTP"),
    }
}

#[cfg(test)]
mod tests {
    use super::{MetricValues, parse_response};

    #[test]
    fn metrics_are_parsed() {
        let text = "# HELP a b\n# TYPE bintide_relay_clients gauge\nbintide_relay_clients 2\n\
            bintide_relay_client_lag_seconds{connection=\"1\",user=\"a b\"} 0.5\n\
            bintide_relay_client_lag_seconds{connection=\"2\",user=\"} 9\"} 3\nnonsense\n";
        let values = MetricValues::parse(text);
        assert_eq!(values.sum("bintide_relay_clients"), Some(2.0));
        assert_eq!(values.max("bintide_relay_client_lag_seconds"), Some(3.0));
        assert_eq!(values.max("bintide_replay_lag_seconds"), None);
        assert!(values.has_prefix("bintide_relay_") && !values.has_prefix("bintide_replay_"));
    }

    #[test]
    fn answers_are_parsed() {
        let answer = parse_response("HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\nnot ready\n").unwrap();
        assert_eq!((answer.status, &*answer.body), (503, "not ready\n"));
        assert!(parse_response("5.7.1-relay\r\n\r\n").is_err());
        assert!(parse_response("").is_err());
    }
}

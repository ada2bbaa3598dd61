//! Metrics of a running command, as a monitoring system reads them.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use testkit::{HttpAnswer, HttpRequest};

use crate::command::wait_for_within;

/// Text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// Prometheus text format 0.0.4, the older one.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl ExpositionFormat {
    /// Returns the value of the Accept header that requests the format, and the content type of the answer.
    const fn headers(self) -> (&'static str, &'static str) {
        match self {
            Self::Classic => ("text/plain", "text/plain; version=0.0.4"),
            Self::OpenMetrics => (
                "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
                "application/openmetrics-text; version=1.0.0",
            ),
        }
    }
}

/// Returns the metrics at this address in the older format, after checking both formats.
///
/// # Errors
///
/// Fails if the server does not answer, or the answer violates HTTP or its format.
pub fn scraped(address: &str) -> Result<String> {
    scraped_as(address, ExpositionFormat::OpenMetrics)?;
    scraped_as(address, ExpositionFormat::Classic)
}

/// Reads a path of a server on this port of the machine.
///
/// # Errors
///
/// Fails if the server does not answer, or its answer is not HTTP.
pub fn get(port: u16, path: &str) -> Result<HttpAnswer> {
    HttpRequest::get(path).send(("127.0.0.1", port))
}

/// Waits until the answer of `/readyz` and the metrics of a command on this port contain all these texts.
///
/// # Errors
///
/// Fails if they do not after this time.
pub fn wait_until_reported(port: u16, texts: &[&str], limit: Duration) -> Result<()> {
    wait_for_within(limit, || {
        let ready = get(port, "/readyz")?;
        let metrics = scraped(&format!("127.0.0.1:{port}"))?;
        let answer = [&ready.head, ready.text()?, &metrics].concat();
        ensure!(texts.iter().all(|text| answer.contains(text)), "expected {texts:?}: {answer}");
        Ok(())
    })
}

fn scraped_as(address: &str, format: ExpositionFormat) -> Result<String> {
    let (accept, content_type) = format.headers();
    let request = HttpRequest { headers: &[("Accept", accept)], ..HttpRequest::get("/metrics") };
    let answer = request.send(address)?;
    let (head, body) = (&answer.head, answer.text()?);
    ensure!(head.starts_with("HTTP/1.1 200 OK") && head.contains(content_type), "{head}");
    ensure!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    check_format(body, format).with_context(|| body.to_owned())?;
    Ok(body.to_owned())
}

/// Checks the rules of the format that matter here: each metric is described once, before its values, which are
/// adjacent; names have the characters and the suffix of their kind; no value occurs twice; the buckets of a
/// histogram increase up to infinity.
///
/// # Errors
///
/// Fails if a line violates a rule.
pub fn check_format(text: &str, format: ExpositionFormat) -> Result<()> {
    let body = match format {
        ExpositionFormat::Classic => {
            ensure!(
                !text.contains("# EOF") && !text.contains("# UNIT"),
                "these lines are valid in OpenMetrics only"
            );
            text
        }
        ExpositionFormat::OpenMetrics => {
            text.strip_suffix("# EOF\n").context("the last line is not # EOF")?
        }
    };
    ensure!(body.ends_with('\n') && !body.contains("\n\n"), "an empty or incomplete line");
    let comment = Regex::new("^# (HELP|TYPE|UNIT) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$")?;
    let value = Regex::new(
        r#"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\["\\n])*",?)+\})? ([-+.0-9eE]+|[+-]Inf|NaN)$"#,
    )?;
    let (mut described, mut values, mut family) = (HashSet::new(), HashSet::new(), MetricFamily::default());
    for line in body.lines() {
        if let Some(parts) = comment.captures(line) {
            let (keyword, name, rest) = (&parts[1], &parts[2], &parts[3]);
            ensure!(described.insert((keyword.to_owned(), name.to_owned())), "described twice: {line}");
            match keyword {
                "HELP" => {
                    family.finish()?;
                    family = MetricFamily { name: name.to_owned(), ..MetricFamily::default() };
                }
                "TYPE" => family.kind = rest.to_owned(),
                _ => ensure!(name.ends_with(&format!("_{rest}")), "the unit is not in the name: {line}"),
            }
            ensure!(
                family.name == name && family.count.is_none(),
                "between the lines of another metric: {line}"
            );
            continue;
        }
        let parts = value.captures(line).with_context(|| format!("not a value: {line}"))?;
        let labels = parts.get(2).map_or("", |labels| labels.as_str());
        ensure!(values.insert((parts[1].to_owned(), labels.to_owned())), "duplicate value: {line}");
        family.take(&parts[1], labels, parts[3].parse()?, format).with_context(|| line.to_owned())?;
    }
    family.finish()
}

/// Lines of one metric.
#[derive(Debug, Default)]
struct MetricFamily {
    name: String,
    kind: String,
    /// Number of the values; for a histogram, the number of its observations.
    count: Option<f64>,
    /// Last bucket of a histogram.
    bucket: f64,
    is_bucket_infinite: bool,
}

impl MetricFamily {
    fn take(&mut self, name: &str, labels: &str, value: f64, format: ExpositionFormat) -> Result<()> {
        let ending = name.strip_prefix(&self.name).context("a value without a description")?;
        match (self.kind.as_str(), ending, format) {
            ("gauge", "", _) => {
                ensure!(!name.ends_with("_total"), "the name of a gauge must not end in _total")
            }
            ("counter", "_total", ExpositionFormat::OpenMetrics) => {}
            ("counter", "", ExpositionFormat::Classic) => {
                ensure!(name.ends_with("_total"), "the name of a counter must end in _total");
            }
            ("histogram", "_sum", _) => {}
            ("histogram", "_count", _) => {
                self.count = Some(value);
                return Ok(());
            }
            ("histogram", "_bucket", _) => {
                ensure!(labels.contains("le=") && value >= self.bucket, "buckets must not decrease");
                (self.bucket, self.is_bucket_infinite) = (value, labels.contains("le=\"+Inf\""));
            }
            (kind, ending, _) => bail!("a {kind} has no {ending:?}"),
        }
        self.count = Some(self.count.unwrap_or_default());
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        if self.kind == "histogram" {
            ensure!(self.is_bucket_infinite && self.count == Some(self.bucket), "{self:?}");
        }
        ensure!(self.name.is_empty() || self.count.is_some(), "{} has no value", self.name);
        Ok(())
    }
}

/// Returns the value of the first metric of this name.
///
/// # Errors
///
/// Fails if the metric is missing.
pub fn number(metrics: &str, name: &str) -> Result<f64> {
    let lines =
        metrics.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    let mut found = lines.filter(|(found, _)| found.split('{').next() == Some(name));
    let (_, value) = found.next().with_context(|| format!("{name} is not in {metrics}"))?;
    Ok(value.parse()?)
}

#[cfg(test)]
mod tests {
    use super::ExpositionFormat::{self, Classic, OpenMetrics};

    #[test]
    fn formats_are_checked() {
        let check = |text: &str, format: ExpositionFormat, is_valid| {
            assert_eq!(super::check_format(text, format).is_ok(), is_valid, "{format:?}: {text}");
        };
        let counter = "# HELP a_total A.\n# TYPE a_total counter\na_total{b=\"c\\\"\"} 1\n";
        check(counter, Classic, true);
        check(&format!("{counter}{counter}"), Classic, false);
        check(&format!("{counter}a_total{{b=\"c\\\"\"}} 2\n"), Classic, false);
        check(&format!("{counter}# EOF\n"), OpenMetrics, false);
        check(&format!("{counter}b 1\n"), Classic, false);
        let counter = "# HELP a A.\n# TYPE a counter\na_total 1\n";
        check(&format!("{counter}# EOF\n"), OpenMetrics, true);
        check(counter, OpenMetrics, false);
        check(counter, Classic, false);
        check("# HELP a A.\n# TYPE a gauge\na 1.5e3\n", Classic, true);
        check("# HELP a A.\n# TYPE a gauge\n", Classic, false);
        check("# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n", Classic, false);
        check("# HELP a A.\n# TYPE a gauge\n# UNIT a bytes\na 1\n# EOF\n", OpenMetrics, false);
        let histogram = |last: u64| {
            let head =
                "# HELP h_seconds H.\n# TYPE h_seconds histogram\nh_seconds_sum 3\nh_seconds_count 2\n";
            format!("{head}h_seconds_bucket{{le=\"1.0\"}} 1\nh_seconds_bucket{{le=\"+Inf\"}} {last}\n")
        };
        check(&histogram(2), Classic, true);
        check(&histogram(3), Classic, false);
        check(&histogram(0), Classic, false);
    }
}

//! Metrics of a command as text for Prometheus, in both of its formats.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use crate::metric_table::{MetricDescription, MetricLabels, MetricRow, MetricValue};

/// Metrics of a command.
#[derive(Debug)]
pub(crate) struct MetricsRegistry(Registry);

/// Text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' older format 0.0.4, the only one that the textfile collector of the node exporter reads.
    Classic,
}

/// Metric that all commands have.
const BUILD_METRICS: &[MetricRow<()>] =
    &[MetricRow::gauge("bintide_build_info", "Version of bintide.", |()| 1.into())
        .labels(|()| vec![("version", env!("CARGO_PKG_VERSION").to_owned())])];

impl MetricsRegistry {
    /// Returns a registry with the metric that all commands have.
    pub(crate) fn new() -> Self {
        Self(Registry::default()).with(BUILD_METRICS, || ())
    }

    /// Adds the metrics of a table. `state` returns the present state at each request.
    pub(crate) fn with<S: 'static>(
        mut self,
        rows: &'static [MetricRow<S>],
        state: impl Fn() -> S + Send + Sync + 'static,
    ) -> Self {
        self.0.register_collector(Box::new(TableCollector { rows, state }));
        self
    }

    /// Returns the present values as text.
    pub(crate) fn text(&self, format: MetricsFormat) -> String {
        let mut text = String::new();
        encode(&mut text, &self.0).expect("ours: writing to a string does not fail");
        match format {
            MetricsFormat::OpenMetrics => text,
            MetricsFormat::Classic => classic_text(&text),
        }
    }
}

impl MetricsFormat {
    /// Returns the content type in HTTP.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Returns OpenMetrics text in the classic format. There, `HELP` and `TYPE` name a counter with its `_total`, and
/// `UNIT` and `EOF` do not exist.
fn classic_text(text: &str) -> String {
    let mut classic = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let of_counter = |line: &str| line.starts_with("# TYPE ") && line.ends_with(" counter");
        let is_counter = of_counter(line)
            || line.starts_with("# HELP ") && lines.peek().is_some_and(|next| of_counter(next));
        let mut words = line.splitn(4, ' ');
        match (is_counter, words.next(), words.next(), words.next(), words.next()) {
            (true, Some(hash), Some(keyword), Some(name), Some(rest)) => {
                classic.extend([hash, " ", keyword, " ", name, "_total ", rest]);
            }
            _ => classic.push_str(line),
        }
        classic.push('\n');
    }
    classic
}

/// Collector of the metrics of a table.
struct TableCollector<S: 'static, F> {
    rows: &'static [MetricRow<S>],
    state: F,
}

impl<S, F> fmt::Debug for TableCollector<S, F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TableCollector").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

impl<S: 'static, F: Fn() -> S + Send + Sync + 'static> Collector for TableCollector<S, F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = (self.state)();
        for row in self.rows {
            if let Some(series) = &row.series {
                encode_row(&mut encoder, series, &state, (row.value)(&state))?;
            }
        }
        Ok(())
    }
}

fn encode_row<S>(
    encoder: &mut DescriptorEncoder<'_>,
    series: &MetricDescription<S>,
    state: &S,
    value: MetricValue,
) -> fmt::Result {
    let is_known = |value: &MetricValue| match value {
        MetricValue::Unknown => false,
        MetricValue::Family(values) => values.iter().any(|each| each.value != MetricValue::Unknown),
        _ => true,
    };
    if !is_known(&value) {
        return Ok(());
    }
    let (base, unit) = split_name(series.name);
    let mut metric = encoder.encode_descriptor(base, series.help, unit.as_ref(), series.kind)?;
    let labels = series.labels.map_or_else(Vec::new, |labels| labels(state));
    match value {
        MetricValue::Family(values) => {
            for each in values.iter().filter(|each| each.value != MetricValue::Unknown) {
                encode_value(&mut metric, series.kind, &each.labels, &each.value)?;
            }
            Ok(())
        }
        value => encode_value(&mut metric, series.kind, &labels, &value),
    }
}

/// Splits a whole name into the parts for the encoder, which adds the unit, and `_total` to a counter.
fn split_name(name: &'static str) -> (&'static str, Option<Unit>) {
    let name = name.strip_suffix("_total").unwrap_or(name);
    // A rate has no base unit.
    if name.ends_with("_per_second") {
        return (name, None);
    }
    let units = [("_bytes", Unit::Bytes), ("_seconds", Unit::Seconds)];
    let mut found =
        units.into_iter().filter_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, Some(unit))));
    found.next().unwrap_or((name, None))
}

fn encode_value(
    metric: &mut MetricEncoder<'_>,
    kind: MetricType,
    labels: &MetricLabels,
    value: &MetricValue,
) -> fmt::Result {
    if !labels.is_empty() {
        return encode_value(&mut metric.encode_family(labels)?, kind, &Vec::new(), value);
    }
    const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, u64>> = None;
    match (kind, value) {
        (MetricType::Counter, MetricValue::Count(count)) => metric.encode_counter(count, NO_EXEMPLAR),
        (MetricType::Counter, MetricValue::Number(number)) => metric.encode_counter(number, NO_EXEMPLAR),
        (MetricType::Histogram, MetricValue::Histogram(histogram)) => {
            metric.encode_histogram::<NoLabelSet>(histogram.sum, histogram.count(), &histogram.buckets, None)
        }
        (_, MetricValue::Count(count)) => metric.encode_gauge(count),
        (_, MetricValue::Number(number)) => metric.encode_gauge(number),
        (_, MetricValue::Flag(flag)) => metric.encode_gauge(&u64::from(*flag)),
        (_, MetricValue::Unknown | MetricValue::Family(_) | MetricValue::Histogram(_)) => {
            unreachable!("ours: the row of a table has a value of its kind")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MetricsFormat, MetricsRegistry};
    use crate::metric_table::{HistogramValue, LabelledValue, MetricRow, MetricValue};

    type EncodedMetric = MetricRow<Option<u64>>;

    const ROWS: &[EncodedMetric] = &[
        EncodedMetric::counter("x_rows_total", "Rows.", |state| state.unwrap_or_default().into()),
        EncodedMetric::counter("x_sent_bytes_total", "Bytes.", |_| 5.into()),
        EncodedMetric::gauge("x_lag_seconds", "Lag.", |state| (*state).into()),
        EncodedMetric::gauge("x_rows_per_second", "Rate.", |_| 2.5.into()),
        EncodedMetric::gauge("x_position_bytes", "Position.", |_| 4.into())
            .labels(|_| vec![("log", "a\"b\\\n".to_owned()), ("y", "z".to_owned())]),
        EncodedMetric::counter("x_kinds_total", "By kind.", |state| {
            let kinds = state.iter().flat_map(|count| [("A", *count), ("B", 1)]);
            let family = kinds.map(|(kind, count)| LabelledValue {
                labels: vec![("kind", kind.to_owned())],
                value: count.into(),
            });
            MetricValue::Family(family.collect())
        }),
        EncodedMetric::histogram("x_wait_seconds", "Waits.", |_| {
            let buckets = vec![(0.5, 2), (1.0, 0), (f64::INFINITY, 1)];
            MetricValue::Histogram(HistogramValue { sum: 3.5, buckets })
        }),
        EncodedMetric::json_only("y", |_| 1.into()),
    ];

    fn text(format: MetricsFormat, state: Option<u64>) -> String {
        let text = MetricsRegistry::new().with(ROWS, move || state).text(format);
        let version = env!("CARGO_PKG_VERSION");
        let build = format!(
            "# HELP bintide_build_info Version of bintide.\n# TYPE bintide_build_info gauge\n\
             bintide_build_info{{version=\"{version}\"}} 1\n"
        );
        text.strip_prefix(&build).expect("the version is not first").to_owned()
    }

    #[test]
    fn open_metrics_text() {
        let expected = r#"# HELP x_rows Rows.
# TYPE x_rows counter
x_rows_total 3
# HELP x_sent_bytes Bytes.
# TYPE x_sent_bytes counter
# UNIT x_sent_bytes bytes
x_sent_bytes_total 5
# HELP x_lag_seconds Lag.
# TYPE x_lag_seconds gauge
# UNIT x_lag_seconds seconds
x_lag_seconds 3
# HELP x_rows_per_second Rate.
# TYPE x_rows_per_second gauge
x_rows_per_second 2.5
# HELP x_position_bytes Position.
# TYPE x_position_bytes gauge
# UNIT x_position_bytes bytes
x_position_bytes{log="a\"b\\\n",y="z"} 4
# HELP x_kinds By kind.
# TYPE x_kinds counter
x_kinds_total{kind="A"} 3
x_kinds_total{kind="B"} 1
# HELP x_wait_seconds Waits.
# TYPE x_wait_seconds histogram
# UNIT x_wait_seconds seconds
x_wait_seconds_sum 3.5
x_wait_seconds_count 3
x_wait_seconds_bucket{le="0.5"} 2
x_wait_seconds_bucket{le="1.0"} 2
x_wait_seconds_bucket{le="+Inf"} 3
# EOF
"#;
        assert_eq!(text(MetricsFormat::OpenMetrics, Some(3)), expected);
    }

    #[test]
    fn classic_text_names_counters_with_their_ending() {
        let expected = "# HELP x_rows_total Rows.\n# TYPE x_rows_total counter\nx_rows_total 0\n\
                        # HELP x_sent_bytes_total Bytes.\n# TYPE x_sent_bytes_total counter\nx_sent_bytes_total 5\n\
                        # HELP x_rows_per_second Rate.\n# TYPE x_rows_per_second gauge\n";
        let classic = text(MetricsFormat::Classic, None);
        assert!(classic.starts_with(expected), "{classic}");
        assert!(!classic.contains("UNIT") && !classic.contains("EOF"), "{classic}");
        for absent in ["x_lag_seconds", "x_kinds"] {
            assert!(!classic.contains(absent), "{absent} must be absent: {classic}");
        }
    }
}

//! Tables of metrics: each figure of a command has one row, used for Prometheus, JSON and text.

use std::time::Duration;

use prometheus_client::metrics::MetricType;
use serde_json::{Map, Value};

use crate::units;

/// Figure of a command. `S` is the state of the command that the figure is taken from.
#[derive(Debug)]
pub(crate) struct MetricRow<S> {
    /// Description for Prometheus; `None` if the figure is only in JSON or text.
    pub(crate) series: Option<MetricDescription<S>>,
    /// Key in the JSON document, with dots between the keys of nested objects.
    json_key: Option<&'static str>,
    text: Option<TextLabel>,
    pub(crate) value: fn(&S) -> MetricValue,
}

/// Description of a metric for Prometheus.
#[derive(Debug)]
pub(crate) struct MetricDescription<S> {
    /// Whole name. By Prometheus' conventions, a name ends in its unit, and the name of a counter in `_total`.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: MetricType,
    pub(crate) labels: Option<fn(&S) -> MetricLabels>,
}

/// Labels of a value: their names, and values of any text.
pub(crate) type MetricLabels = Vec<(&'static str, String)>;

/// Section and label of a figure in text for people.
#[derive(Debug)]
struct TextLabel {
    section: &'static str,
    label: &'static str,
}

/// Value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MetricValue {
    /// Not known at present: `null` in JSON, absent elsewhere.
    Unknown,
    Count(u64),
    Number(f64),
    /// `true` or `false` in JSON, 1 or 0 for Prometheus.
    Flag(bool),
    /// Values with different labels. Not in JSON.
    Family(Vec<LabelledValue>),
    /// Observations by size. Not in JSON.
    Histogram(HistogramValue),
}

/// Value with labels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LabelledValue {
    pub(crate) labels: MetricLabels,
    pub(crate) value: MetricValue,
}

/// Observations by size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HistogramValue {
    /// Sum of all observations.
    pub(crate) sum: f64,
    /// Upper bounds, in ascending order up to infinity, each with the number of observations since the previous bound.
    pub(crate) buckets: Vec<(f64, u64)>,
}

impl<S> MetricRow<S> {
    /// Returns the row of a counter: a value that never decreases until the command ends.
    pub(crate) const fn counter(
        name: &'static str,
        help: &'static str,
        value: fn(&S) -> MetricValue,
    ) -> Self {
        Self::published(name, help, MetricType::Counter, value)
    }

    /// Returns the row of a gauge: a value that can also decrease.
    pub(crate) const fn gauge(name: &'static str, help: &'static str, value: fn(&S) -> MetricValue) -> Self {
        Self::published(name, help, MetricType::Gauge, value)
    }

    /// Returns the row of a histogram.
    pub(crate) const fn histogram(
        name: &'static str,
        help: &'static str,
        value: fn(&S) -> MetricValue,
    ) -> Self {
        Self::published(name, help, MetricType::Histogram, value)
    }

    /// Returns the row of a figure that is only in JSON.
    pub(crate) const fn json_only(key: &'static str, value: fn(&S) -> MetricValue) -> Self {
        Self { series: None, json_key: Some(key), text: None, value }
    }

    const fn published(
        name: &'static str,
        help: &'static str,
        kind: MetricType,
        value: fn(&S) -> MetricValue,
    ) -> Self {
        let series = Some(MetricDescription { name, help, kind, labels: None });
        Self { series, json_key: None, text: None, value }
    }

    /// Adds the key in JSON.
    pub(crate) const fn json(mut self, key: &'static str) -> Self {
        self.json_key = Some(key);
        self
    }

    /// Adds a line in a section of the text.
    pub(crate) const fn text(mut self, section: &'static str, label: &'static str) -> Self {
        self.text = Some(TextLabel { section, label });
        self
    }

    /// Adds labels for Prometheus.
    pub(crate) const fn labels(mut self, labels: fn(&S) -> MetricLabels) -> Self {
        if let Some(series) = &mut self.series {
            series.labels = Some(labels);
        }
        self
    }
}

/// Returns the number in the name of a log. Its name as a label would make a new series for each log.
pub(crate) fn log_number(log: &str) -> Option<u64> {
    log.rsplit_once('.').and_then(|(_, number)| number.parse().ok())
}

/// Returns the rows that have a key as a JSON object. An object without any known value is `null`.
pub(crate) fn document<S>(rows: &[MetricRow<S>], state: &S) -> Map<String, Value> {
    let mut document = Map::new();
    for row in rows {
        if let Some(key) = row.json_key {
            insert(&mut document, key, (row.value)(state).to_json());
        }
    }
    for value in document.values_mut() {
        clear_unknown(value);
    }
    document
}

/// Inserts a value under a key with dots.
fn insert(document: &mut Map<String, Value>, key: &'static str, value: Value) {
    match key.split_once('.') {
        None => drop(document.insert(key.to_owned(), value)),
        Some((outer, inner)) => {
            let nested = document.entry(outer).or_insert_with(|| Map::new().into());
            if let Value::Object(nested) = nested {
                insert(nested, inner, value);
            }
        }
    }
}

fn clear_unknown(value: &mut Value) {
    if let Value::Object(object) = value {
        object.values_mut().for_each(clear_unknown);
        if object.values().all(Value::is_null) {
            *value = Value::Null;
        }
    }
}

/// Returns the lines of a section of the text: label and value.
pub(crate) fn text_lines<S>(
    rows: &[MetricRow<S>],
    section: &str,
    state: &S,
) -> impl Iterator<Item = (&'static str, String)> {
    rows.iter().filter_map(move |row| {
        let text = row.text.as_ref().filter(|text| text.section == section)?;
        Some((text.label, (row.value)(state).to_text()?))
    })
}

impl HistogramValue {
    /// Returns the number of observations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

impl MetricValue {
    fn to_json(&self) -> Value {
        match self {
            Self::Unknown | Self::Family(_) | Self::Histogram(_) => Value::Null,
            Self::Count(count) => (*count).into(),
            Self::Number(number) => (*number).into(),
            Self::Flag(flag) => (*flag).into(),
        }
    }

    fn to_text(&self) -> Option<String> {
        match self {
            Self::Unknown | Self::Family(_) | Self::Histogram(_) => None,
            Self::Count(count) => Some(units::count(*count)),
            Self::Number(number) => Some(number.to_string()),
            Self::Flag(flag) => Some(if *flag { "yes" } else { "no" }.to_owned()),
        }
    }
}

impl From<u64> for MetricValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for MetricValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for MetricValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// In seconds, the unit of times for Prometheus and in JSON.
impl From<Duration> for MetricValue {
    fn from(time: Duration) -> Self {
        Self::Number(time.as_secs_f64())
    }
}

impl<V: Into<Self>> From<Option<V>> for MetricValue {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Unknown, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{MetricRow, MetricValue, document, text_lines};

    type TestMetric = MetricRow<Option<u64>>;

    const ROWS: &[TestMetric] = &[
        TestMetric::counter("a_total", "Count.", |state| state.unwrap_or(1234).into())
            .json("a")
            .text("Counts", "of a"),
        TestMetric::gauge("b", "Distance.", |state| (*state).into()).json("nested.b").text("Counts", "of b"),
        TestMetric::json_only("nested.deeper.c", |state| state.map(|number| number as f64 / 2.0).into()),
        TestMetric::gauge("d", "State.", |state| state.is_some().into()).text("Others", "known"),
    ];

    #[test]
    fn documents_are_nested_and_unknown_values_are_null() {
        let check = |state, expected| assert_eq!(serde_json::Value::from(document(ROWS, &state)), expected);
        check(Some(7), json!({ "a": 7, "nested": { "b": 7, "deeper": { "c": 3.5 } } }));
        check(None, json!({ "a": 1234, "nested": null }));
    }

    #[test]
    fn text_has_the_known_figures_of_a_section() {
        let check = |section, state, expected: &[(&str, &str)]| {
            let lines: Vec<_> = text_lines(ROWS, section, &state).collect();
            let expected: Vec<_> =
                expected.iter().map(|(label, value)| (*label, (*value).to_owned())).collect();
            assert_eq!(lines, expected);
        };
        check("Counts", Some(7), &[("of a", "7"), ("of b", "7")]);
        check("Counts", None, &[("of a", "1,234")]);
        check("Others", None, &[("known", "no")]);
        check("None", None, &[]);
        assert_eq!(MetricValue::from(2.5), MetricValue::Number(2.5));
    }
}

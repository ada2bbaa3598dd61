//! Metrics of `relay`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relay::{ClientFacts, ClientLag, ClientTotals, FormFacts};
use relay_server::{AckGate, RelayCounters};

use crate::metric_table::{LabelledValue, MetricRow, MetricValue};

/// Figures at a moment. Before the first log, there are none.
#[derive(Clone, Debug, Default)]
pub(super) struct RelayFigures {
    pub(super) counters: Arc<RelayCounters>,
    /// Gate of `--wait-for-replicas`.
    pub(super) gate: Option<Arc<AckGate>>,
    pub(super) clients: Vec<ClientFigures>,
    pub(super) client_totals: Vec<ClientTotals>,
    pub(super) forms: Vec<FormFacts>,
    /// True if clients can connect, and the newest log can be read.
    pub(super) is_ready: bool,
}

/// Client, and its lag.
#[derive(Clone, Debug)]
pub(super) struct ClientFigures {
    pub(super) facts: ClientFacts,
    pub(super) lag: Option<ClientLag>,
}

type RelayMetric = MetricRow<RelayFigures>;

/// All figures.
pub(super) const RELAY_METRICS: &[RelayMetric] = &[
    RelayMetric::gauge(
        "bintide_relay_ready",
        "1 while new transactions can be served, otherwise 0.",
        |figures| figures.is_ready.into(),
    ),
    RelayMetric::gauge("bintide_relay_clients", "Connected clients.", |figures| {
        (figures.clients.len() as u64).into()
    }),
    RelayMetric::counter("bintide_relay_logins_total", "Successful logins.", |figures| {
        count(&figures.counters.logins)
    }),
    RelayMetric::counter("bintide_relay_failed_logins_total", "Failed logins.", |figures| {
        count(&figures.counters.failed_logins)
    }),
    RelayMetric::counter(
        "bintide_relay_unencrypted_logins_total",
        "Successful logins without TLS.",
        |figures| count(&figures.counters.unencrypted_logins),
    ),
    RelayMetric::counter("bintide_relay_tls_failures_total", "Failed TLS handshakes.", |figures| {
        count(&figures.counters.tls_failures)
    }),
    RelayMetric::counter(
        "bintide_relay_refused_connections_total",
        "Connections refused because of --max-connections or the limit of an account.",
        |figures| count(&figures.counters.refused_connections),
    ),
    RelayMetric::counter("bintide_relay_dumps_total", "Dumps started.", |figures| {
        count(&figures.counters.dumps)
    }),
    RelayMetric::counter("bintide_relay_sent_bytes_total", "Bytes of events sent.", |figures| {
        count(&figures.counters.sent_bytes)
    }),
    RelayMetric::counter("bintide_relay_sent_transactions_total", "Transactions sent.", |figures| {
        count(&figures.counters.sent_transactions)
    }),
    RelayMetric::counter(
        "bintide_relay_acknowledgements_total",
        "Acknowledgements of replicas in semi-synchronous replication.",
        |figures| count(&figures.counters.acknowledgements),
    ),
    RelayMetric::counter(
        "bintide_relay_ack_timeouts_total",
        "Waits of --wait-for-replicas that have timed out.",
        |figures| figures.gate.as_ref().map_or(0, |gate| gate.timeouts()).into(),
    ),
    RelayMetric::gauge(
        "bintide_relay_asynchronous",
        "1 after a timeout of --wait-for-replicas, until enough replicas have caught up.",
        |figures| figures.gate.as_ref().is_some_and(|gate| gate.is_asynchronous()).into(),
    ),
    RelayMetric::counter(
        "bintide_relay_client_sent_bytes_total",
        "Bytes of events sent to the clients of a user, host and form.",
        |figures| totals_by_client(figures, |totals| totals.bytes_sent),
    ),
    RelayMetric::counter(
        "bintide_relay_client_sent_transactions_total",
        "Transactions sent to the clients of a user, host and form.",
        |figures| totals_by_client(figures, |totals| totals.transactions_sent),
    ),
    RelayMetric::counter(
        "bintide_relay_client_saved_bytes_total",
        "Bytes saved by compression in the transactions sent to the clients of a user, host and form.",
        |figures| totals_by_client(figures, |totals| totals.bytes_saved),
    ),
    RelayMetric::gauge(
        "bintide_relay_client_lag_transactions",
        "Stored transactions not yet sent to the slowest client of a user, host and form.",
        |figures| {
            max_by_client(figures, |client| {
                client.lag.and_then(|lag| lag.transactions).map(|transactions| transactions as f64)
            })
        },
    ),
    RelayMetric::gauge(
        "bintide_relay_client_lag_bytes",
        "Bytes of the stored logs not yet sent to the slowest client of a user, host and form.",
        |figures| max_by_client(figures, |client| client.lag.map(|lag| lag.bytes as f64)),
    ),
    RelayMetric::gauge(
        "bintide_relay_client_lag_seconds",
        "Time since the source's commit of the last transaction sent to the slowest client of a user, host and form; 0 if it has all.",
        |figures| {
            max_by_client(figures, |client| client.lag.and_then(|lag| lag.time_us).map(|us| us as f64 / 1e6))
        },
    ),
    RelayMetric::counter(
        "bintide_relay_form_sent_bytes_total",
        "Bytes of events sent in a form.",
        |figures| by_form(figures, |form| form.bytes_sent.into()),
    ),
    RelayMetric::counter(
        "bintide_relay_form_saved_bytes_total",
        "Bytes saved by compression in the transactions sent in a form.",
        |figures| by_form(figures, |form| form.bytes_saved.into()),
    ),
    RelayMetric::counter("bintide_relay_form_rendered_bytes_total", "Bytes produced in a form.", |figures| {
        by_form(figures, |form| form.cost.bytes.into())
    }),
    RelayMetric::counter(
        "bintide_relay_form_render_cpu_seconds_total",
        "CPU time to produce a form.",
        |figures| by_form(figures, |form| form.cost.time.into()),
    ),
    RelayMetric::gauge(
        "bintide_relay_form_cached_bytes",
        "Memory for the newest data of a form.",
        |figures| by_form(figures, |form| form.cost.cached_bytes.into()),
    ),
];

fn count(counter: &AtomicU64) -> MetricValue {
    counter.load(Ordering::Relaxed).into()
}

/// Returns a total for each user, host and form. The labels have no number of the connection and no port of the client:
/// each reconnect would make a new series. Ended connections are included: a counter must not decrease.
fn totals_by_client(figures: &RelayFigures, total: fn(&ClientTotals) -> u64) -> MetricValue {
    let values = figures.client_totals.iter().map(|totals| LabelledValue {
        labels: vec![
            ("user", totals.user.clone()),
            ("host", totals.host.clone()),
            ("form", totals.form.to_string()),
        ],
        value: total(totals).into(),
    });
    MetricValue::Family(values.collect())
}

/// Returns the largest value of the clients of one user, host and form; absent if no client has a value.
fn max_by_client(figures: &RelayFigures, value: fn(&ClientFigures) -> Option<f64>) -> MetricValue {
    by_client(figures, |clients| clients.iter().filter_map(|client| value(client)).reduce(f64::max).into())
}

/// Returns a value for each user, host and form of the clients that have requested a log.
fn by_client(figures: &RelayFigures, value: impl Fn(&[&ClientFigures]) -> MetricValue) -> MetricValue {
    let mut groups: BTreeMap<[String; 3], Vec<&ClientFigures>> = BTreeMap::new();
    for client in &figures.clients {
        let Some(form) = client.facts.form else { continue };
        let host = client.facts.host_without_port().to_owned();
        let group = [client.facts.user.clone(), host, form.to_string()];
        groups.entry(group).or_default().push(client);
    }
    let values = groups.into_iter().map(|([user, host, form], clients)| LabelledValue {
        labels: vec![("user", user), ("host", host), ("form", form)],
        value: value(&clients),
    });
    MetricValue::Family(values.collect())
}

fn by_form(figures: &RelayFigures, value: fn(&FormFacts) -> MetricValue) -> MetricValue {
    let values = figures
        .forms
        .iter()
        .map(|form| LabelledValue { labels: vec![("form", form.form.to_string())], value: value(form) });
    MetricValue::Family(values.collect())
}

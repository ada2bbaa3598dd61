//! Metrics of `relay`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relay::RelayFacts;
use relay_server::{AckGate, RelayCounters, RelayServer};

use crate::metric_table::{LabelledCount, MetricRow, MetricValue};

/// Source of the figures.
#[derive(Clone)]
pub(super) struct RelayFigures {
    counters: Arc<RelayCounters>,
    facts: Arc<dyn RelayFacts>,
    gate: Option<Arc<AckGate>>,
}

type RelayMetric = MetricRow<RelayFigures>;

/// All figures.
pub(super) const RELAY_METRICS: &[RelayMetric] = &[
    RelayMetric::gauge("bintide_relay_clients", "Connected clients.", |figures| {
        (figures.facts.clients().len() as u64).into()
    }),
    RelayMetric::counter("bintide_relay_logins_total", "Successful logins.", |figures| {
        count(&figures.counters.logins)
    }),
    RelayMetric::counter("bintide_relay_failed_logins_total", "Failed logins.", |figures| {
        count(&figures.counters.failed_logins)
    }),
    RelayMetric::counter(
        "bintide_relay_refused_connections_total",
        "Connections refused because of --max-connections.",
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
        "Bytes of events sent to each connected client.",
        |figures| MetricValue::Family(figures.by_client()),
    ),
];

fn count(counter: &AtomicU64) -> MetricValue {
    counter.load(Ordering::Relaxed).into()
}

impl RelayFigures {
    pub(super) fn of(server: &RelayServer) -> Self {
        Self { counters: server.counters(), facts: server.facts(), gate: server.ack_gate() }
    }

    fn by_client(&self) -> Vec<LabelledCount> {
        let dumps = self.facts.clients().into_iter().filter_map(|client| Some((client.form?, client)));
        dumps
            .map(|(form, client)| LabelledCount {
                labels: vec![
                    ("connection", client.connection_id.to_string()),
                    ("user", client.user),
                    ("host", client.host),
                    ("form", form.to_string()),
                ],
                count: client.bytes_sent,
            })
            .collect()
    }
}

//! State of a relay, for its metrics, its health checks and its page.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use relay::{
    AccountRole, LogForm, RelayFacts, SqlAnswer, SqlResponder, SqlSession, SqlValue, StatementInterrupt,
};
use relay_server::{AckGate, RelayCounters, RelayServer};
use serde_json::{Map, Value, json};

use crate::commands::receive::ReceivingState;
use crate::commands::relay::relay_metrics::{ClientFigures, RELAY_METRICS, RelayFigures};
use crate::http_site::HttpSite;
use crate::live_page::LivePage;
use crate::metrics_registry::MetricsRegistry;
use crate::page;
use crate::service_state::ServiceState;
use crate::units::counted;

/// Interval between two samples of the history.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// Largest number of clients in a sample.
const SAMPLED_CLIENTS_MAX: usize = 64;

/// Tables of the document, by the key of their rows.
const TABLES: [DocumentTable; 4] = [
    DocumentTable { key: "upstream", name: "bintide.upstream" },
    DocumentTable { key: "clients", name: "bintide.clients" },
    DocumentTable { key: "forms", name: "bintide.forms" },
    DocumentTable { key: "logs", name: "bintide.log_sizes" },
];

struct DocumentTable {
    key: &'static str,
    name: &'static str,
}

/// Serving clients, from the first log on.
struct ServingState {
    counters: Arc<RelayCounters>,
    gate: Option<Arc<AckGate>>,
    facts: Arc<dyn RelayFacts>,
    responder: SqlResponder,
    address: String,
}

/// State of a relay, for its metrics, its health checks and its page.
pub(super) struct RelaySite {
    receiving: Option<ReceivingState>,
    serving: OnceLock<ServingState>,
}

/// Samples of the clients' lag.
pub(super) struct LagSampler {
    site: Arc<RelaySite>,
    page: Arc<LivePage>,
    due: Instant,
}

impl RelaySite {
    /// Creates the state of a relay that does not serve yet.
    pub(super) fn new(receiving: Option<ReceivingState>) -> Arc<Self> {
        Arc::new(Self { receiving, serving: OnceLock::new() })
    }

    /// Sets the server, when the server starts to serve.
    pub(super) fn set_serving(&self, server: &RelayServer) {
        let facts = server.facts();
        let responder = SqlResponder::new(Arc::clone(&facts));
        let address = server.address().to_string();
        // The server is set only once.
        let _ = self.serving.set(ServingState {
            counters: server.counters(),
            gate: server.ack_gate(),
            facts,
            responder,
            address,
        });
    }

    /// Returns the site for HTTP, and the sampler of its history.
    pub(super) fn http_site(self: &Arc<Self>) -> (HttpSite, LagSampler) {
        let [figures, upstream, state, document] = [(); 4].map(|()| Arc::clone(self));
        let mut registry = MetricsRegistry::new().with(RELAY_METRICS, move || figures.figures());
        if let Some(receiving) = &self.receiving {
            registry = receiving.add_metrics(registry);
        }
        let page = Arc::new(LivePage::new(page::relay_page(), move || document.document().to_string()));
        let site = HttpSite::new(registry, state).with_page(Arc::clone(&page));
        (site, LagSampler { site: upstream, page, due: Instant::now() })
    }

    fn figures(&self) -> RelayFigures {
        let Some(ServingState { counters, gate, facts, .. }) = self.serving.get() else {
            return RelayFigures::default();
        };
        let clients = facts.clients();
        let lags = facts.lags(&clients);
        let clients = clients.into_iter().zip(lags).map(|(facts, lag)| ClientFigures { facts, lag });
        RelayFigures {
            counters: Arc::clone(counters),
            gate: gate.clone(),
            clients: clients.collect(),
            client_totals: facts.client_totals(),
            forms: facts.forms(),
            is_ready: self.readiness().is_ok(),
        }
    }

    /// Returns the document of the page: the rows of the relay's own tables.
    fn document(&self) -> Value {
        let readiness = self.readiness();
        let mut document = json!({ "version": 1, "bintide": env!("CARGO_PKG_VERSION"), "time_ms": now_ms(),
            "ready": readiness.is_ok(), "not_ready_reason": readiness.err() });
        let Some(ServingState { facts, responder, address, .. }) = self.serving.get() else {
            return document;
        };
        let server = facts.server();
        document["server"] = json!({ "address": address, "version": server.version,
            "server_id": server.server_id, "server_uuid": server.server_uuid,
            "uptime_seconds": facts.uptime_s() });
        for DocumentTable { key, name } in TABLES {
            document[key] = table_rows(responder, name);
        }
        document
    }

    /// Returns the lag of the clients with the largest lag, in seconds, by connection.
    fn lags_s(&self) -> Map<String, Value> {
        let Some(ServingState { facts, .. }) = self.serving.get() else { return Map::new() };
        let clients = facts.clients();
        let lags = facts.lags(&clients);
        let known = clients.iter().zip(lags);
        let mut known: Vec<(u32, u64)> =
            known.filter_map(|(client, lag)| Some((client.connection_id, lag?.time_us?))).collect();
        known.sort_by_key(|(_, time_us)| std::cmp::Reverse(*time_us));
        known.truncate(SAMPLED_CLIENTS_MAX);
        known.into_iter().map(|(id, time_us)| (id.to_string(), (time_us as f64 / 1e6).into())).collect()
    }
}

impl ServiceState for RelaySite {
    fn readiness(&self) -> Result<(), String> {
        let receiving = self.receiving.as_ref().map_or(Ok(()), ReceivingState::readiness);
        let Some(serving) = self.serving.get() else {
            return Err(match receiving {
                Ok(()) => "waiting for the first log".to_owned(),
                Err(why) => format!("waiting for the first log: {why}"),
            });
        };
        let end = serving.facts.end(LogForm::AsIs, &StatementInterrupt::default());
        end.map_err(|error| format!("the logs cannot be read: {error}"))?;
        receiving
    }

    /// Returns true once clients are served, even if the source is not connected.
    fn is_started(&self) -> bool {
        self.serving.get().is_some()
    }

    fn lag(&self) -> Option<Duration> {
        self.receiving.as_ref()?.lag()
    }

    fn has_source(&self) -> bool {
        self.receiving.is_some()
    }

    fn summary(&self) -> String {
        let Some(ServingState { facts, address, .. }) = self.serving.get() else { return String::new() };
        let clients = u64::try_from(facts.clients().len()).unwrap_or(u64::MAX);
        let serving = format!("serving {} at {address}", counted(clients, "client"));
        match &self.receiving {
            Some(receiving) => format!("{serving}; {}", receiving.summary()),
            None => serving,
        }
    }
}

impl LagSampler {
    /// Adds a sample to the history if one is due.
    pub(super) fn sample(&mut self) {
        if Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + SAMPLE_INTERVAL;
        self.page.add_sample(json!({ "time_ms": now_ms(), "lag": self.site.lags_s() }).to_string());
    }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Returns the rows of a table as JSON objects.
fn table_rows(responder: &SqlResponder, table: &str) -> Value {
    let mut session = SqlSession::new(0, "page@localhost".to_owned(), AccountRole::Monitor, LogForm::AsIs);
    let SqlAnswer::Rows(rows) = responder.execute(&format!("SELECT * FROM {table}"), &mut session) else {
        return Value::Array(Vec::new());
    };
    let object = |row: Vec<SqlValue>| {
        let names = rows.columns.iter().map(|column| column.name.clone());
        Value::Object(names.zip(row.into_iter().map(json_value)).collect())
    };
    rows.rows.clone().into_iter().map(object).collect()
}

fn json_value(value: SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Int(number) => number.into(),
        SqlValue::UInt(number) => number.into(),
        SqlValue::Double(number) => number.into(),
        SqlValue::Text(text) => text.into(),
    }
}

//! State shared by all threads of a relay.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Instant, UNIX_EPOCH};

use binlog::gtid::{GtidSet, Uuid};
use logs::ServerIdentity;
use logs::lock;
use relay::{
    ClientAttributes, ClientFacts, ClientLag, ClientTotals, CompressionCounters, FormChoice, FormFacts,
    FormSource, LogForm, LogSize, MariadbState, NewestLogEnd, RelayAccounts, RelayError, RelayFacts,
    RelayedServer, SemiSyncSettings, SentTransactions, ServedCompression, ServedLog, SqlResponder, SqlRows,
    StageTotals, StateReader, StatementInterrupt, UpstreamControl,
};
use rustls::ServerConfig;
use wire::{PasswordDigest, PasswordKey, ServerError};

use crate::client_registry::ClientRegistry;
use crate::definition_source::DefinitionSource;
use crate::form_registry::FormRegistry;
use crate::login_throttle::LoginThrottle;
use crate::relay_counters::RelayCounters;
use crate::relay_identity::server_uuid_of;
use crate::relay_server::{RelayNotice, RelayServerOptions};
use crate::store_extent::{StoreExtent, is_encrypted, log_sizes, stored_end};
use crate::store_growth::StoreGrowth;
use crate::store_gtid_state::StoreGtidState;

/// Version in the greeting before the first log exists.
const VERSION_DEFAULT: &str = "8.0.0";

/// State shared by all threads of a relay.
pub(crate) struct RelayShared {
    pub(crate) options: RelayServerOptions,
    /// Address of the listening socket.
    pub(crate) address: SocketAddr,
    pub(crate) identity: ServerIdentity,
    pub(crate) forms: FormRegistry,
    pub(crate) growth: StoreGrowth,
    pub(crate) clients: ClientRegistry,
    pub(crate) counters: Arc<RelayCounters>,
    pub(crate) throttle: LoginThrottle,
    pub(crate) password_key: Arc<PasswordKey>,
    pub(crate) files: RwLock<LoadedFiles>,
    /// Digests of passwords by account, for fast logins.
    pub(crate) digests: Mutex<HashMap<String, PasswordDigest>>,
    pub(crate) started: Instant,
    pub(crate) is_stopping: AtomicBool,
    /// Sums over the transactions sent to all clients.
    pub(crate) sent: Mutex<SentTransactions>,
    /// Compression for accounts without a form.
    compression: Mutex<ServedCompression>,
    gtids: Mutex<StateReader<StoreGtidState>>,
    definitions: Option<DefinitionSource>,
    /// True if the relay has had no accounts since its start: all clients of this machine may log in.
    pub(crate) has_never_had_accounts: AtomicBool,
    mariadb: Mutex<StateReader<MariadbState>>,
    /// Logs without a file that were reported.
    reported_missing: Mutex<HashSet<Arc<str>>>,
}

/// Relay with its SQL answers.
pub(crate) struct RelayWithSql {
    pub(crate) shared: Arc<RelayShared>,
    pub(crate) responder: SqlResponder,
}

/// Content of files that can be reloaded.
#[derive(Clone)]
pub(crate) struct LoadedFiles {
    pub(crate) tls: Arc<ServerConfig>,
    pub(crate) accounts: Arc<RelayAccounts>,
}

/// Parts of a relay, prepared by its start.
pub(crate) struct RelayParts {
    pub(crate) address: SocketAddr,
    pub(crate) identity: ServerIdentity,
    pub(crate) forms: FormRegistry,
    pub(crate) password_key: PasswordKey,
    pub(crate) files: LoadedFiles,
}

impl RelayShared {
    pub(crate) fn new(options: RelayServerOptions, parts: RelayParts) -> Self {
        let RelayParts { address, identity, forms, password_key, files } = parts;
        let has_never_had_accounts = AtomicBool::new(files.accounts.is_empty());
        let definitions = options.definitions_from.clone().map(DefinitionSource::new);
        Self {
            compression: Mutex::new(ServedCompression::of(options.form)),
            options,
            address,
            identity,
            forms,
            growth: StoreGrowth::default(),
            clients: ClientRegistry::default(),
            counters: Arc::default(),
            throttle: LoginThrottle::default(),
            password_key: Arc::new(password_key),
            files: RwLock::new(files),
            digests: Mutex::default(),
            started: Instant::now(),
            is_stopping: AtomicBool::new(false),
            sent: Mutex::default(),
            gtids: Mutex::default(),
            definitions,
            has_never_had_accounts,
            mariadb: Mutex::default(),
            reported_missing: Mutex::default(),
        }
    }

    /// Returns the present content of the files.
    pub(crate) fn files(&self) -> LoadedFiles {
        self.files.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether the relay is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Passes a notice to the caller.
    pub(crate) fn notify(&self, notice: RelayNotice) {
        (self.options.notices)(notice);
    }

    /// Reports a log whose file is missing, once. Returns true if it is missing.
    pub(crate) fn report_if_missing(&self, log: &Arc<str>) -> Result<bool, RelayError> {
        let store = self.forms.store();
        let found = std::fs::metadata(store.path(log)?);
        if !found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            lock(&self.reported_missing).remove(log);
            return Ok(false);
        }
        // A purged log is no longer in the index.
        if store.log_names()?.contains(log) && lock(&self.reported_missing).insert(Arc::clone(log)) {
            self.notify(RelayNotice::LogMissing { log: log.to_string() });
        }
        Ok(true)
    }

    /// Returns the form for a client: from its account, otherwise from the relay's options, otherwise from its
    /// attributes.
    pub(crate) fn form_for(&self, account: FormChoice, attributes: &ClientAttributes<'_>) -> LogForm {
        match account {
            FormChoice::Auto => self.compression().form_for(self.options.form, attributes),
            FormChoice::Fixed(form) => form,
        }
    }

    /// Returns the `server_id` of the relay.
    pub(crate) fn server_id(&self) -> u32 {
        self.options.server_id.unwrap_or(self.identity.server_id)
    }

    /// Returns the MariaDB GTIDs of all stored transactions.
    pub(crate) fn mariadb_state(&self) -> Result<MariadbState, RelayError> {
        let as_is = self.forms.source(LogForm::AsIs);
        // The store may have grown since the last call.
        as_is.record_growth();
        Ok(lock(&self.mariadb).read(&as_is)?.clone())
    }

    /// Returns the GTIDs of all transactions that are stored at this moment.
    pub(crate) fn present_gtids(&self) -> Result<GtidSet, RelayError> {
        // The store may have grown since the last call.
        self.forms.source(LogForm::AsIs).record_growth();
        self.gtids()
    }

    /// Returns the `server_uuid` of the server that writes the logs; `None` if it is unknown.
    pub(crate) fn source_uuid(&self) -> Option<Uuid> {
        match &self.options.upstream_control {
            Some(upstream) => upstream.status().server_uuid?.parse().ok(),
            None => server_uuid_of(self.newest_log()?.parent()?),
        }
    }

    /// Makes events added to the store visible to the clients.
    pub(crate) fn record_growth(&self) {
        self.forms.record_growth();
        self.growth.record();
    }

    /// Returns the path of the newest log.
    pub(crate) fn newest_log(&self) -> Option<PathBuf> {
        let store = self.forms.store();
        let newest = store.log_names().ok()?.pop()?;
        store.path(&newest).ok()
    }
}

impl RelayFacts for RelayShared {
    fn server(&self) -> RelayedServer {
        let store = self.forms.store();
        let newest = store.log_names().ok().and_then(|mut names| names.pop());
        let version = newest.and_then(|newest| store.writer_version(&newest).ok().flatten());
        RelayedServer {
            version: version.unwrap_or_else(|| VERSION_DEFAULT.to_owned()),
            server_id: self.server_id(),
            server_uuid: self.identity.server_uuid.clone(),
            port: self.address.port(),
            connections_max: self.options.connections_max,
        }
    }

    fn logs(&self, form: LogForm, interrupt: &StatementInterrupt) -> Result<Vec<ServedLog>, RelayError> {
        let (store, source) = (self.forms.store(), self.forms.source(form));
        let size = |name: &Arc<str>| match form {
            LogForm::AsIs => stored_end(&self.forms, name),
            _ => source.form_size(name, interrupt),
        };
        let served = |name: Arc<str>| {
            let path = store.path(&name)?;
            Ok(ServedLog {
                // As a server does.
                size: if self.report_if_missing(&name)? { 0 } else { size(&name)? },
                stored_size: std::fs::metadata(&path).map_or(0, |metadata| metadata.len()),
                is_encrypted: is_encrypted(&path),
                name: name.to_string(),
            })
        };
        store.log_names()?.into_iter().map(served).collect()
    }

    fn gtids(&self) -> Result<GtidSet, RelayError> {
        let as_is = self.forms.source(LogForm::AsIs);
        Ok(lock(&self.gtids).read(&as_is)?.gtids().clone())
    }

    fn end(&self, form: LogForm, interrupt: &StatementInterrupt) -> Result<NewestLogEnd, RelayError> {
        let gtids = self.gtids()?;
        let Some(newest) = self.forms.store().log_names()?.pop() else { return Ok(NewestLogEnd::default()) };
        let position = self.forms.source(form).form_size(&newest, interrupt)?;
        Ok(NewestLogEnd { log: newest.to_string(), position, gtids })
    }

    fn source(&self, form: LogForm) -> Option<Arc<FormSource>> {
        Some(self.forms.source(form))
    }

    fn log_time_us(&self, log: &str) -> Option<u64> {
        let path = self.forms.store().path(log).ok()?;
        let written = std::fs::metadata(path).ok()?.modified().ok()?;
        let since = written.duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(since.as_micros()).ok()
    }

    fn compression(&self) -> ServedCompression {
        *lock(&self.compression)
    }

    fn set_compression(&self, compression: ServedCompression) {
        *lock(&self.compression) = compression;
    }

    fn mariadb_gtids(&self) -> Result<String, RelayError> {
        self.mariadb_state().map(|state| state.to_string())
    }

    fn semi_sync_settings(&self) -> Option<SemiSyncSettings> {
        self.options.ack_gate.as_ref().map(|gate| gate.settings())
    }

    fn is_semi_synchronous(&self) -> bool {
        let gate = self.options.ack_gate.as_ref();
        gate.is_some_and(|gate| gate.settings().replicas > 0 && !gate.is_asynchronous())
    }

    fn set_semi_sync_settings(&self, settings: SemiSyncSettings) {
        if let Some(gate) = &self.options.ack_gate {
            gate.set_settings(settings);
        }
    }

    fn upstream_control(&self) -> Option<&dyn UpstreamControl> {
        self.options.upstream_control.as_deref()
    }

    fn clients(&self) -> Vec<ClientFacts> {
        self.clients.facts()
    }

    fn client_totals(&self) -> Vec<ClientTotals> {
        self.clients.totals()
    }

    fn lags(&self, clients: &[ClientFacts]) -> Vec<Option<ClientLag>> {
        let Ok(extent) = StoreExtent::read(&self.forms, clients) else {
            return vec![None; clients.len()];
        };
        let now_us = self.now_us();
        clients.iter().map(|client| extent.lag(client, now_us)).collect()
    }

    fn forms(&self) -> Vec<FormFacts> {
        self.forms.facts()
    }

    fn log_sizes(&self, limit: usize) -> Result<Vec<LogSize>, RelayError> {
        log_sizes(&self.forms, limit, |name| self.report_if_missing(name))
    }

    fn kill(&self, connection_id: u32) -> bool {
        let is_found = self.clients.kill(connection_id);
        // Wake waiting dumps, which then notice the end.
        self.growth.record();
        is_found
    }

    fn kill_query(&self, connection_id: u32) -> bool {
        self.clients.kill_query(connection_id)
    }

    fn ask_source(&self, sql: &str, interrupt: &StatementInterrupt) -> Option<Result<SqlRows, ServerError>> {
        self.definitions.as_ref().map(|source| source.ask(sql, interrupt))
    }

    fn uptime_s(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    fn now_us(&self) -> u64 {
        logs::now_us()
    }

    fn purged_gtids(&self) -> Result<GtidSet, RelayError> {
        let store = self.forms.store();
        let Some(oldest) = store.log_names()?.into_iter().next() else { return Ok(GtidSet::new()) };
        let head = store.head(&oldest)?;
        Ok(head.and_then(|head| head.previous_gtids.clone()).unwrap_or_default())
    }

    fn compression_counters(&self) -> Vec<CompressionCounters> {
        let mut rows = lock(&self.sent).rows();
        rows.extend(self.upstream_control().map(|upstream| upstream.received()).unwrap_or_default());
        rows
    }

    fn stage_totals(&self) -> Vec<StageTotals> {
        self.forms.stage_totals()
    }

    fn reset_compression_counters(&self) {
        *lock(&self.sent) = SentTransactions::default();
        if let Some(upstream) = self.upstream_control() {
            upstream.reset_received();
        }
    }

    fn reset_stage_totals(&self) {
        self.forms.reset_stage_totals();
    }
}

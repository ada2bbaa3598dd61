//! The receiver of `relay --from`, as the relay's SQL statements show and control it.

#[cfg(feature = "archive")]
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use binlog::ZstdLevel;
use inspect::stats::{CompressionRow, CompressionType, LogType};
#[cfg(feature = "archive")]
use logs::Store;
use logs::{lock, now_s};
use receive::{ReceiveControl, SharedReceiveStats};
use relay::{
    CompressionCounters, CountedTransaction, SourceChange, UpstreamControl, UpstreamError, UpstreamStatus,
    UpstreamTls,
};
use servers::{ConnectionError, LinkOptions, ServerAddress, ServerLink, SslMode};
use wire::ServerError;

#[cfg(feature = "archive")]
use crate::commands::archive::ArchivedLogCheck;
use crate::commands::relay::changed_source::changed_source;

/// Maximum time that `STOP REPLICA` waits for the end of the connection.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the stop polls for the receiver's end.
const STOP_INTERVAL: Duration = Duration::from_millis(10);

/// Receiver of `relay --from`.
pub(super) struct ReceivedLogs {
    /// Sources; at least one.
    pub(super) sources: Mutex<Vec<ServerAddress>>,
    pub(super) stats: SharedReceiveStats,
    pub(super) control: ReceiveControl,
    /// Logs of `--archive`.
    #[cfg(feature = "archive")]
    pub(super) archive: Option<ArchivedDirectory>,
    /// Options of a connection for statements.
    pub(super) options: LinkOptions,
}

/// Directory whose logs are archived.
#[cfg(feature = "archive")]
pub(super) struct ArchivedDirectory {
    pub(super) directory: PathBuf,
    pub(super) archived: ArchivedLogCheck,
}

#[cfg(feature = "archive")]
impl ArchivedDirectory {
    /// Refuses to remove logs before this one that are not archived.
    fn check_purge(&self, before: &str) -> Result<(), ServerError> {
        let store = Store::open(&self.directory).map_err(|error| other_error(&error))?;
        let names = store.logs().iter().filter_map(|log| log.file_name()?.to_str());
        let missing = names.take_while(|name| *name != before).find(|name| !(self.archived)(name));
        missing.map_or(Ok(()), |log| {
            Err(other_error(&format!(
                "cannot purge {log}: it is not archived yet. Wait, or purge only the logs before it"
            )))
        })
    }
}

impl UpstreamControl for ReceivedLogs {
    fn status(&self) -> UpstreamStatus {
        let address = self.source();
        let mut status = self.stats.read(|stats| UpstreamStatus {
            sources: self.sources().iter().map(ServerAddress::endpoint).collect(),
            is_connected: stats.is_connected,
            log: stats.log.clone(),
            position: stats.position,
            stored_log: stats.stored_log.clone(),
            stored_position: stats.stored_position,
            server_id: stats.source.server_id,
            server_uuid: stats.source.server_uuid.clone(),
            gtid_mode: stats.source.gtid_mode.clone(),
            lag_s: stats.lag_s(now_s()),
            transactions: stats.transactions,
            bytes: stats.bytes,
            error: stats.source.last_error.as_ref().map(|error| UpstreamError {
                code: error.code,
                message: error.message.clone(),
                time_us: error.time_us,
            }),
            heartbeats: stats.source.heartbeats,
            last_heartbeat_us: stats.source.last_heartbeat_us,
            ..of_address(&address)
        });
        // A paused receiver stores the event that arrives at that moment, and then disconnects.
        status.is_running = !self.control.is_paused() || status.is_connected;
        status
    }

    fn received(&self) -> Vec<CompressionCounters> {
        let rows = self.stats.read(|stats| stats.statistics.rows());
        rows.iter().filter(|row| row.log_type == LogType::Relay).map(counters).collect()
    }

    fn reset_received(&self) {
        self.stats.reset_compression();
    }

    fn stop(&self) -> bool {
        let was_running = self.control.pause();
        let begin = Instant::now();
        while self.stats.read(|stats| stats.is_connected) && begin.elapsed() < STOP_TIMEOUT {
            thread::sleep(STOP_INTERVAL);
        }
        was_running
    }

    fn start(&self) -> bool {
        self.control.resume()
    }

    fn change_source(&self, change: &SourceChange) -> Result<(), ServerError> {
        let source = changed_source(&self.source(), change)?;
        *self.sources() = vec![source.clone()];
        self.control.replace_source(source);
        Ok(())
    }

    fn purge_before(&self, log: &str) -> Result<usize, ServerError> {
        #[cfg(feature = "archive")]
        if let Some(archive) = &self.archive {
            archive.check_purge(log)?;
        }
        self.control.purge_before(log).map_err(|error| other_error(&error))
    }

    fn compression(&self) -> Option<ZstdLevel> {
        self.control.compression()
    }

    fn set_compression(&self, level: Option<ZstdLevel>) -> bool {
        let can_compress = !self.has_archive() && self.status().gtid_mode.as_deref() == Some("ON");
        if level.is_some() && !can_compress {
            return false;
        }
        self.control.set_compression(level);
        true
    }

    fn flush_logs(&self) -> Result<(), ServerError> {
        let flushed = ServerLink::open(&self.source(), &self.options)
            .and_then(|mut link| link.query("FLUSH BINARY LOGS").map(drop));
        flushed.map_err(|error| match error {
            ConnectionError::Refused { code, message } => {
                ServerError::new(code, "HY000", format!("the source refused FLUSH BINARY LOGS: {message}"))
            }
            error => other_error(&error),
        })
    }
}

impl ReceivedLogs {
    /// Returns whether the logs are archived: archived logs must not change.
    #[cfg(feature = "archive")]
    const fn has_archive(&self) -> bool {
        self.archive.is_some()
    }

    #[cfg(not(feature = "archive"))]
    const fn has_archive(&self) -> bool {
        false
    }

    fn sources(&self) -> MutexGuard<'_, Vec<ServerAddress>> {
        lock(&self.sources)
    }

    /// Returns the source of the next connection.
    fn source(&self) -> ServerAddress {
        let present = self.stats.read(|stats| stats.source.address.clone());
        let sources = self.sources();
        // A single source may have been changed while the receiver is stopped.
        let several = if sources.len() > 1 { present } else { None };
        several.unwrap_or_else(|| sources[0].clone())
    }
}

/// Returns `ER_UNKNOWN_ERROR` with the text of the error.
fn other_error(error: &impl ToString) -> ServerError {
    ServerError::new(1105, "HY000", error.to_string())
}

fn of_address(address: &ServerAddress) -> UpstreamStatus {
    let tls = &address.tls;
    let host = match &address.socket {
        Some(socket) => socket.display().to_string(),
        None => address.host.clone(),
    };
    UpstreamStatus {
        host,
        port: address.port,
        user: address.user.clone(),
        heartbeat_interval: address.heartbeat_interval(),
        tls: UpstreamTls {
            is_allowed: tls.mode > SslMode::Disabled,
            is_verified: tls.mode >= SslMode::VerifyIdentity,
            authorities: tls.authorities.clone(),
            authority_directory: tls.authority_directory.clone(),
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
        },
        ..UpstreamStatus::default()
    }
}

fn counters(row: &CompressionRow) -> CompressionCounters {
    CompressionCounters {
        log_type: "RELAY",
        compression_type: match row.compression_type {
            CompressionType::Zstd => "ZSTD",
            CompressionType::None => "NONE",
        },
        transactions: row.transaction_counter,
        compressed_bytes: row.compressed_bytes_counter,
        uncompressed_bytes: row.uncompressed_bytes_counter,
        first: CountedTransaction {
            id: row.first_transaction_id.clone(),
            compressed_bytes: row.first_transaction_compressed_bytes,
            uncompressed_bytes: row.first_transaction_uncompressed_bytes,
            time_us: row.first_transaction_timestamp.map_or(0, |time| time.0),
        },
        last: CountedTransaction {
            id: row.last_transaction_id.clone(),
            compressed_bytes: row.last_transaction_compressed_bytes,
            uncompressed_bytes: row.last_transaction_uncompressed_bytes,
            time_us: row.last_transaction_timestamp.map_or(0, |time| time.0),
        },
    }
}

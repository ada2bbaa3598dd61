//! The receiver of `relay --from`, as its SQL shows and steers it.

use std::time::{SystemTime, UNIX_EPOCH};

use inspect::stats::{CompressionRow, CompressionType, LogType};
use receive::{ReceiveControl, SharedReceiveStats};
use relay::{
    CompressionCounters, CountedTransaction, UpstreamControl, UpstreamError, UpstreamStatus, UpstreamTls,
};
use servers::{ConnectionError, LinkOptions, ServerAddress, ServerLink, SslMode};
use wire::ServerError;

/// Receiver of `relay --from`.
pub(super) struct ReceivedLogs {
    /// Sources, as host and port or socket.
    pub(super) sources: Vec<String>,
    pub(super) stats: SharedReceiveStats,
    pub(super) control: ReceiveControl,
    /// Options of a connection for statements.
    pub(super) options: LinkOptions,
}

impl UpstreamControl for ReceivedLogs {
    fn status(&self) -> UpstreamStatus {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let mut status = self.stats.read(|stats| UpstreamStatus {
            sources: self.sources.clone(),
            is_connected: stats.is_connected,
            log: stats.log.clone(),
            position: stats.position,
            stored_log: stats.stored_log.clone(),
            stored_position: stats.stored_position,
            server_id: stats.source.server_id,
            server_uuid: stats.source.server_uuid.clone(),
            lag_s: stats.lag_s(i64::try_from(now_s).unwrap_or(i64::MAX)),
            transactions: stats.transactions,
            bytes: stats.bytes,
            error: stats.source.last_error.as_ref().map(|error| UpstreamError {
                code: error.code,
                message: error.message.clone(),
                time_us: error.time_us,
            }),
            heartbeats: stats.source.heartbeats,
            last_heartbeat_us: stats.source.last_heartbeat_us,
            ..stats.source.address.as_ref().map(of_address).unwrap_or_default()
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
        self.control.pause()
    }

    fn start(&self) -> bool {
        self.control.resume()
    }

    fn purge_before(&self, log: &str) -> Result<usize, ServerError> {
        self.control.purge_before(log).map_err(|error| other_error(&error))
    }

    fn flush_logs(&self) -> Result<(), ServerError> {
        let address = self.stats.read(|stats| stats.source.address.clone());
        let Some(address) = address else { return Ok(()) };
        let flushed = ServerLink::open(&address, &self.options)
            .and_then(|mut link| link.query("FLUSH BINARY LOGS").map(drop));
        flushed.map_err(|error| match error {
            ConnectionError::Refused { code, message } => {
                ServerError::new(code, "HY000", format!("the source refused FLUSH BINARY LOGS: {message}"))
            }
            error => other_error(&error),
        })
    }
}

/// `ER_UNKNOWN_ERROR`, with a text of our own.
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
        tls: UpstreamTls {
            is_allowed: tls.mode > SslMode::Disabled,
            is_verified: tls.mode >= SslMode::VerifyIdentity,
            authorities: tls.authorities.clone(),
            authority_folder: tls.authority_folder.clone(),
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

//! Readings of a running server: settings, statistics, times, and replication clients.

use binlog::ServerVersion;
use serde::Serialize;
use servers::{ResultRow, SqlConnection, row_text};

use crate::screen::{ReportStyle, table_lines, visible};
use crate::units::{bytes, count, counted};

/// Readings of a server. Querying them changes nothing on the server.
#[derive(Debug, Default, Serialize)]
pub(super) struct ServerReadings {
    /// A document has the version of the server that wrote the logs, which is this server.
    #[serde(skip)]
    version: String,
    settings: Vec<(String, String)>,
    statistics: Vec<ServerCompressionRow>,
    stages: Vec<PayloadStageTiming>,
    log_io: Option<BinlogIo>,
    readers: Vec<ReplicationClient>,
    /// Readings that failed, with the errors.
    unknown: Vec<String>,
}

/// Row of performance_schema.binary_log_transaction_compression_stats.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ServerCompressionRow {
    log: String,
    compression: String,
    transactions: u64,
    compressed_bytes: u64,
    uncompressed_bytes: u64,
}

/// Time of compression or decompression, if its instrument is enabled.
#[derive(Debug, PartialEq, Serialize)]
struct PayloadStageTiming {
    name: String,
    count: u64,
    seconds: f64,
}

/// I/O of the binary log, since the server's start.
#[derive(Debug, PartialEq, Serialize)]
struct BinlogIo {
    writes: u64,
    bytes: u64,
    write_seconds: f64,
    /// Mostly time of syncs.
    other_seconds: f64,
}

/// Client that reads the log by the replication protocol.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ReplicationClient {
    host: String,
    program: String,
    version: String,
    reads_compressed: PayloadSupport,
}

/// Support for compressed transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum PayloadSupport {
    Yes,
    No,
    Unknown,
}

/// Relevant settings. Each server has only some of them.
const SETTINGS: [&str; 9] = [
    "binlog_transaction_compression",
    "binlog_transaction_compression_level_zstd",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_encryption",
    "sync_binlog",
    "protocol_compression_algorithms",
    "max_binlog_cache_size",
];

const STATISTICS_QUERY: &str = "SELECT LOG_TYPE, COMPRESSION_TYPE, TRANSACTION_COUNTER, COMPRESSED_BYTES_COUNTER, \
    UNCOMPRESSED_BYTES_COUNTER FROM performance_schema.binary_log_transaction_compression_stats";

const STAGES_QUERY: &str = "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT / 1e12 FROM \
    performance_schema.events_stages_summary_global_by_event_name \
    WHERE EVENT_NAME LIKE 'stage/sql/%ompressing transaction changes.' AND COUNT_STAR > 0";

const LOG_IO_QUERY: &str = "SELECT COUNT_WRITE, SUM_NUMBER_OF_BYTES_WRITE, SUM_TIMER_WRITE / 1e12, SUM_TIMER_MISC / 1e12 \
    FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME = 'wait/io/file/sql/binlog'";

const READERS_QUERY: &str = "SELECT t.PROCESSLIST_HOST, MAX(IF(a.ATTR_NAME = 'program_name', a.ATTR_VALUE, NULL)), \
    MAX(IF(a.ATTR_NAME = '_client_version', a.ATTR_VALUE, NULL)) FROM performance_schema.threads t \
    LEFT JOIN performance_schema.session_connect_attrs a USING (PROCESSLIST_ID) \
    WHERE t.PROCESSLIST_COMMAND LIKE 'Binlog Dump%' GROUP BY t.PROCESSLIST_ID, t.PROCESSLIST_HOST";

impl ServerReadings {
    /// Queries the server. Readings that the server refuses are listed as unknown.
    pub(super) fn query(connection: &mut SqlConnection) -> Self {
        let mut server = Self::default();
        let names = SETTINGS.map(|name| format!("'{name}'")).join(", ");
        let settings = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})");
        let mut unknown = Vec::new();
        let mut query = |name: &str, sql: &str| {
            connection.rows(sql).unwrap_or_else(|error| {
                unknown.push(format!("{name}: {error}"));
                Vec::new()
            })
        };
        server.version =
            query("version", "SELECT @@version").first().map(|row| row_text(row, 0)).unwrap_or_default();
        server.settings =
            query("settings", &settings).iter().map(|row| (row_text(row, 0), row_text(row, 1))).collect();
        server.statistics =
            query("compression statistics", STATISTICS_QUERY).iter().map(statistics).collect();
        server.stages = query("times of compression", STAGES_QUERY).iter().map(stage).collect();
        server.log_io = query("times of the binary log", LOG_IO_QUERY).first().map(log_io);
        server.readers = query("replicas", READERS_QUERY).iter().map(reader).collect();
        server.unknown = unknown;
        server
    }

    pub(super) fn is_mariadb(&self) -> bool {
        self.version.contains("MariaDB")
    }

    /// Returns the readings by name.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let mut pairs = vec![("version".to_owned(), self.version.clone())];
        pairs.extend(self.settings.iter().cloned());
        let statistics =
            |row: &ServerCompressionRow| (format!("{} log, {}", row.log, row.compression), row.text());
        pairs.extend(self.statistics.iter().map(statistics));
        let stage = |stage: &PayloadStageTiming| format!("{} in {:.3} s", count(stage.count), stage.seconds);
        pairs.extend(self.stages.iter().map(|row| (row.name.clone(), stage(row))));
        pairs.extend(self.log_io.iter().map(|io| ("binary log".to_owned(), io.text())));
        pairs.extend(self.readers.iter().map(|reader| ("replication client".to_owned(), reader.text())));
        pairs.extend(self.unknown.iter().map(|unknown| ("unknown".to_owned(), unknown.clone())));
        pairs
    }

    /// Returns a section of the report.
    pub(super) fn section(&self, style: ReportStyle) -> String {
        let mut table = style.pairs();
        for (name, value) in self.pairs() {
            table.add_row([visible(&name), visible(&value)]);
        }
        table_lines(&table)
    }
}

impl BinlogIo {
    fn text(&self) -> String {
        let Self { writes, bytes: written, write_seconds, other_seconds } = self;
        let written = format!("{} in {}", bytes(*written), counted(*writes, "write"));
        format!("{written}, {write_seconds:.3} s; {other_seconds:.3} s for syncs and other I/O")
    }
}

impl ServerCompressionRow {
    fn text(&self) -> String {
        // Negative if the transactions have grown.
        let saved = 1.0 - self.compressed_bytes as f64 / self.uncompressed_bytes.max(1) as f64;
        format!(
            "{}, {} instead of {}: saves {:.1} %",
            counted(self.transactions, "transaction"),
            bytes(self.compressed_bytes),
            bytes(self.uncompressed_bytes),
            saved * 100.0
        )
    }
}

impl ReplicationClient {
    fn text(&self) -> String {
        let Self { host, program, version, reads_compressed } = self;
        let verdict = match reads_compressed {
            PayloadSupport::Yes => "reads compressed transactions",
            PayloadSupport::No => "does not read compressed transactions",
            PayloadSupport::Unknown => "not known whether it reads compressed transactions",
        };
        format!("{program} {version} at {host}: {verdict}")
    }
}

fn number<N: std::str::FromStr + Default>(row: &ResultRow, index: usize) -> N {
    row_text(row, index).parse().unwrap_or_default()
}

fn statistics(row: &ResultRow) -> ServerCompressionRow {
    ServerCompressionRow {
        log: row_text(row, 0),
        compression: row_text(row, 1),
        transactions: number(row, 2),
        compressed_bytes: number(row, 3),
        uncompressed_bytes: number(row, 4),
    }
}

fn stage(row: &ResultRow) -> PayloadStageTiming {
    PayloadStageTiming { name: row_text(row, 0), count: number(row, 1), seconds: number(row, 2) }
}

fn log_io(row: &ResultRow) -> BinlogIo {
    BinlogIo {
        writes: number(row, 0),
        bytes: number(row, 1),
        write_seconds: number(row, 2),
        other_seconds: number(row, 3),
    }
}

fn reader(row: &ResultRow) -> ReplicationClient {
    let (program, version) = (row_text(row, 1), row_text(row, 2));
    let reads_compressed = reads_compressed(&program, &version);
    ReplicationClient { host: row_text(row, 0), program, version, reads_compressed }
}

/// Returns whether a client can read compressed transactions: MySQL's programs since 8.0.20, and bintide.
fn reads_compressed(program: &str, version: &str) -> PayloadSupport {
    let version = ServerVersion::parse(version);
    match program {
        "bintide" => PayloadSupport::Yes,
        "mysqld" | "mysqlbinlog" if version.is_mysql_since([8, 0, 20]) => PayloadSupport::Yes,
        "mysqld" | "mysqlbinlog" if version.is_mysql_before([8, 0, 20]) => PayloadSupport::No,
        "mariadbd" | "mariadb-binlog" => PayloadSupport::No,
        _ => PayloadSupport::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::{PayloadSupport, ServerCompressionRow, reads_compressed};

    #[test]
    fn clients_that_read_compressed_transactions_are_recognised() {
        let check = |program, version, expected| {
            assert_eq!(reads_compressed(program, version), expected, "{program} {version}")
        };
        check("mysqld", "9.7.4", PayloadSupport::Yes);
        check("mysqld", "8.0.20", PayloadSupport::Yes);
        check("mysqld", "8.0.19-debug", PayloadSupport::No);
        check("mysqld", "5.7.44", PayloadSupport::No);
        check("mysqlbinlog", "8.4.0", PayloadSupport::Yes);
        check("mysqld", "", PayloadSupport::Unknown);
        check("mysqld", "10.11.6-MariaDB", PayloadSupport::Unknown);
        check("bintide", "0.1.0", PayloadSupport::Yes);
        check("", "3.1.20", PayloadSupport::Unknown);
    }

    #[test]
    fn statistics_show_savings() {
        let (log, compression) = ("BINARY".to_owned(), "ZSTD".to_owned());
        let row = ServerCompressionRow {
            log,
            compression,
            transactions: 2,
            compressed_bytes: 250,
            uncompressed_bytes: 1000,
        };
        assert_eq!(row.text(), "2 transactions, 250 B instead of 1.0 kB: saves 75.0 %");
    }
}

//! Report of the statistics.

use binlog::EventType;
use serde::Serialize;

use super::breakdown::Breakdown;
use super::collect::StatsSettings;
use super::commit_rate::TimeSeries;
use super::compression::CompressionRow;
use super::log_time::LogTime;
use super::size_histogram::SizeClass;
use super::stats_tally::{NotableTransaction, StatsTally};
use super::tables::{ChangeTotals, TableAmounts, TableCounts};
use super::transaction_tally::RowsByTable;

/// Number of buckets in the report's series: as many as a screen shows well.
const BUCKETS_SHOWN_MAX: usize = 60;

/// Statistics of logs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StatsReport {
    /// Each log, in the order read.
    pub logs: Vec<LogStats>,
    /// Figures of all logs together.
    pub totals: StatsTotals,
    /// First and last commit.
    pub span: Option<CommitSpan>,
    /// GTIDs in the logs, and gaps.
    pub gtids: GtidReport,
    /// Tables, the largest first.
    pub tables: Vec<TableAmounts>,
    /// Event types, including events inside payloads; most bytes first.
    pub events: Vec<TypeReport>,
    /// Transactions by size before compression.
    pub sizes: Vec<SizeClass>,
    /// The largest transactions, by size before compression.
    pub largest: Vec<TransactionReport>,
    /// The longest transactions, from the start of the first statement to the commit.
    pub longest: Vec<TransactionReport>,
    /// Counts over time, by commit.
    pub rate: TimeSeries,
    /// The rows of the server's table `performance_schema.binary_log_transaction_compression_stats`.
    pub compression: Vec<CompressionRow>,
    /// Counts by the requested properties.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Breakdown>,
    /// True if only a selection of the transactions or tables was counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_selection: bool,
    #[serde(skip)]
    pub(crate) rows_lines: Vec<u8>,
}

/// One log.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogStats {
    /// The name as given by the user.
    pub name: String,
    /// Bytes read.
    pub bytes: u64,
    /// Creation of the log: the time of its first event.
    #[serde(skip)]
    pub begun: Option<LogTime>,
    /// Version of the server that wrote the log.
    pub server_version: String,
    /// Number of events, without those inside payloads.
    pub events: u64,
    /// Number of transactions that start in the log.
    pub transactions: u64,
    /// End of the log.
    pub end: LogEnd,
}

/// End of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEnd {
    /// Ends with a Rotate or Stop event.
    #[default]
    Closed,
    /// Ends after a whole event: the log is still being written to, its server crashed, or the log was truncated.
    Open {
        /// True if the log is flagged as in use. Relay logs never are.
        in_use: bool,
    },
    /// Ends within an event: the event is not completely written, or torn.
    Torn {
        /// Start of this event.
        offset: u64,
        /// Number of the event's bytes that are present.
        bytes: u64,
        /// True if the log is flagged as in use.
        in_use: bool,
    },
}

/// Figures of all logs together.
#[derive(Clone, Debug, Serialize)]
pub struct StatsTotals {
    /// Bytes of the logs.
    pub bytes: u64,
    /// Bytes of the transactions before compression.
    pub bytes_uncompressed: u64,
    /// Number of events, without those inside payloads.
    pub events: u64,
    /// Number of events, with those inside payloads instead of the payloads.
    pub events_uncompressed: u64,
    /// Number of transactions that start in the logs.
    pub transactions: u64,
    /// Number of transactions stored in a payload.
    pub transactions_compressed: u64,
    /// Number of transactions without an end: interrupted by a crash, or not completely written. Not counted elsewhere.
    pub transactions_incomplete: u64,
    /// Number of statements logged as SQL, not as rows; without BEGIN, COMMIT and similar statements.
    pub statements: u64,
    /// Row changes.
    #[serde(flatten)]
    pub changes: ChangeTotals,
}

/// First and last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CommitSpan {
    /// The earliest commit.
    pub first: LogTime,
    /// The latest commit.
    pub last: LogTime,
}

/// GTIDs in the logs, and gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GtidReport {
    /// GTIDs of MySQL's transactions in the logs.
    pub set: String,
    /// Last GTID of each domain in the logs, for MariaDB.
    pub domains: String,
    /// Previous GTIDs of the first log.
    pub previous: Option<String>,
    /// Missing GTIDs: neither in the logs nor before them, although larger numbers are.
    pub gaps: String,
    /// Number of transactions without a GTID.
    pub anonymous: u64,
}

/// Events of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeReport {
    /// Name of the type in `SHOW BINLOG EVENTS`.
    pub event_type: &'static str,
    /// Code of the type.
    pub code: u8,
    /// Number of events.
    pub events: u64,
    /// Bytes of the events.
    pub bytes: u64,
}

/// A notable transaction: one of the largest or longest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransactionReport {
    /// GTID of the transaction, or `ANONYMOUS`.
    pub id: String,
    /// Log in which the transaction starts.
    pub log: String,
    /// Start of the transaction in the log.
    pub position: u64,
    /// Bytes of the transaction in the log.
    pub bytes: u64,
    /// Bytes of the transaction before compression.
    pub bytes_uncompressed: u64,
    /// True if the transaction is compressed, in a payload event.
    pub is_compressed: bool,
    /// Number of its events, including those inside a payload.
    pub events: u64,
    /// Number of rows changed.
    pub rows: u64,
    /// Time of the commit.
    pub committed: LogTime,
    /// Time from the start of the first statement to the commit, in microseconds; statements have timestamps in whole
    /// seconds.
    pub duration_us: u64,
    /// The tables it changed, most rows first.
    pub tables: Vec<TransactionTable>,
}

/// Rows that a transaction changed in one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransactionTable {
    /// `database.table`.
    pub table: String,
    /// Number of rows inserted.
    pub inserted: u64,
    /// Number of rows updated.
    pub updated: u64,
    /// Number of rows deleted.
    pub deleted: u64,
}

/// Minimum duration of the longest transactions. Statements have timestamps in whole seconds, so shorter durations
/// cannot be measured.
const LONG_MIN_US: u64 = 1_000_000;

/// Maximum number of tables listed for a notable transaction.
const TABLES_SHOWN_MAX: usize = 8;

impl StatsReport {
    /// Returns exactly the output of this command:
    ///
    /// ```text
    /// mysqlbinlog --base64-output=decode-rows -vvv LOG… | perl -ne '
    ///   $n{"$1 $2.$3"}++ if /^### (INSERT|UPDATE|DELETE)(?: INTO| FROM)? `(.*)`\.`(.*)`(?: VALUES \(\))?$/;
    ///   END { print "$n{$_} $_\n" for sort { $n{$b} <=> $n{$a} || $a cmp $b } keys %n }'
    /// ```
    pub fn rows_lines(&self) -> &[u8] {
        &self.rows_lines
    }

    pub(crate) fn new(
        tally: &StatsTally,
        mut logs: Vec<LogStats>,
        gtids: GtidReport,
        settings: &StatsSettings,
    ) -> Self {
        let is_selection = !settings.selection.selects_all();
        for (number, log) in (0..).zip(&mut logs) {
            let count = tally.logs.get(&number).cloned().unwrap_or_default();
            (log.events, log.transactions) = (count.events, count.transactions);
        }
        let tables = tally.tables.amounts();
        let reports = |top: Vec<&NotableTransaction>| {
            top.iter().map(|one| transaction(one, &logs, &tally.tables)).collect()
        };
        let largest = reports(tally.largest.sorted());
        let longest = reports(
            tally.longest.sorted().into_iter().filter(|one| one.duration_us >= LONG_MIN_US).collect(),
        );
        Self {
            totals: if is_selection {
                totals_selected(tally, &tables)
            } else {
                totals(tally, &logs, &tables)
            },
            span: tally.span.map(|(first, last)| CommitSpan { first: LogTime(first), last: LogTime(last) }),
            gtids,
            tables,
            events: types(tally),
            sizes: tally.sizes.classes(),
            largest,
            longest,
            rate: tally.rate.series(BUCKETS_SHOWN_MAX),
            compression: tally.compression.rows(),
            by: settings
                .breakdowns
                .iter()
                .map(|by| tally.breakdown.breakdown(*by, &tally.tables, &settings.zone))
                .collect(),
            is_selection,
            rows_lines: tally.tables.rows_lines(),
            logs,
        }
    }
}

fn totals(tally: &StatsTally, logs: &[LogStats], tables: &[TableAmounts]) -> StatsTotals {
    let mut changes = ChangeTotals::default();
    tables.iter().for_each(|table| changes.add(&table.changes));
    let of_type = |event_type: EventType| tally.types[usize::from(event_type.code())].events;
    let all: u64 = tally.types.iter().map(|count| count.events).sum();
    StatsTotals {
        bytes: logs.iter().map(|log| log.bytes).sum(),
        bytes_uncompressed: tally.bytes_plain,
        events: logs.iter().map(|log| log.events).sum(),
        events_uncompressed: all - of_type(EventType::TransactionPayload),
        transactions: tally.transactions,
        transactions_compressed: tally.transactions_compressed,
        transactions_incomplete: tally.incomplete,
        statements: tally.statements,
        changes,
    }
}

/// Returns the figures of the selected transactions and tables.
fn totals_selected(tally: &StatsTally, tables: &[TableAmounts]) -> StatsTotals {
    let all = totals(tally, &[], tables);
    StatsTotals { bytes: tally.bytes_stored, events: tally.events_outer, ..all }
}

fn types(tally: &StatsTally) -> Vec<TypeReport> {
    let counted = (0..=u8::MAX).zip(tally.types.iter()).filter(|(_, count)| count.events > 0);
    let mut types: Vec<_> = counted
        .map(|(code, count)| TypeReport {
            event_type: EventType::from_code(code).name(),
            code,
            events: count.events,
            bytes: count.bytes,
        })
        .collect();
    types.sort_by(|one, two| two.bytes.cmp(&one.bytes).then(one.code.cmp(&two.code)));
    types
}

fn transaction(highlight: &NotableTransaction, logs: &[LogStats], tables: &TableCounts) -> TransactionReport {
    let log = logs.get(highlight.address.log as usize);
    let named = transaction_tables(&highlight.tables, tables);
    TransactionReport {
        id: highlight.id.to_string(),
        log: log.map(|log| log.name.clone()).unwrap_or_default(),
        position: highlight.address.offset,
        bytes: highlight.bytes_stored,
        bytes_uncompressed: highlight.bytes_plain,
        is_compressed: highlight.is_compressed,
        events: highlight.events,
        rows: highlight.tables.iter().flat_map(|(_, rows)| rows).sum(),
        committed: LogTime(highlight.commit_us),
        duration_us: highlight.duration_us,
        tables: named,
    }
}

fn transaction_tables(rows: &RowsByTable, tables: &TableCounts) -> Vec<TransactionTable> {
    let mut sorted: Vec<_> = rows.iter().collect();
    sorted.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.iter().sum::<u64>()));
    let named = sorted.into_iter().take(TABLES_SHOWN_MAX).map(|(index, rows)| TransactionTable {
        table: tables.name(*index),
        inserted: rows[0],
        updated: rows[1],
        deleted: rows[2],
    });
    named.collect()
}

//! What was counted, as it is shown.

use binlog::EventType;
use serde::Serialize;

use super::compression::CompressionRow;
use super::open::RowsByTable;
use super::rate::Series;
use super::sizes::SizeClass;
use super::tables::{Changes, TableAmounts, Tables};
use super::tally::{Highlight, Tally};
use super::when::Moment;

/// Buckets in a report's series: what a screen shows well.
const BUCKETS_SHOWN: usize = 60;

/// What logs hold.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Each log, in the order read.
    pub logs: Vec<LogReport>,
    /// All of them together.
    pub totals: Totals,
    /// From the first commit to the last.
    pub span: Option<Span>,
    /// Which GTIDs there are, and which are not.
    pub gtids: GtidReport,
    /// By table, the largest first.
    pub tables: Vec<TableAmounts>,
    /// By event type, those inside payloads included; most bytes first.
    pub events: Vec<TypeReport>,
    /// Transactions by size before compression.
    pub sizes: Vec<SizeClass>,
    /// The largest transactions, by size before compression.
    pub largest: Vec<TransactionReport>,
    /// The transactions that took longest from their first statement's start to their commit.
    pub longest: Vec<TransactionReport>,
    /// Over time, by commit.
    pub rate: Series,
    /// As the server's table `performance_schema.binary_log_transaction_compression_stats` would say it.
    pub compression: Vec<CompressionRow>,
    #[serde(skip)]
    pub(crate) rows_lines: Vec<u8>,
}

/// One log.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogReport {
    /// As it was given.
    pub name: String,
    /// Bytes read.
    pub bytes: u64,
    /// The version of the server that wrote it.
    pub server_version: String,
    /// Events in it, those inside payloads not included.
    pub events: u64,
    /// Transactions that start in it.
    pub transactions: u64,
    /// How it ends.
    pub end: LogEnd,
}

/// How a log ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEnd {
    /// With a Rotate or Stop event.
    #[default]
    Closed,
    /// Behind a whole event: it is still being written to, or its server crashed, or it was cut.
    Open {
        /// Does it say that it is being written to? Relay logs never do.
        in_use: bool,
    },
    /// Within an event: not yet written, or torn.
    Torn {
        /// Where that event starts.
        offset: u64,
        /// How many bytes of it are there.
        bytes: u64,
        /// Does the log say that it is being written to?
        in_use: bool,
    },
}

/// All logs together.
#[derive(Clone, Debug, Serialize)]
pub struct Totals {
    /// Bytes of the logs.
    pub bytes: u64,
    /// Bytes of their transactions before compression.
    pub bytes_uncompressed: u64,
    /// Events in the logs, those inside payloads not included.
    pub events: u64,
    /// Events, those inside payloads included instead of the payloads.
    pub events_uncompressed: u64,
    /// Transactions that start in them.
    pub transactions: u64,
    /// Transactions stored in a payload.
    pub transactions_compressed: u64,
    /// Transactions without an end, not counted otherwise: broken off by a crash, or not yet written to their end.
    pub transactions_incomplete: u64,
    /// Statements: what is logged as SQL, not as rows; BEGIN, COMMIT and the like not included.
    pub statements: u64,
    /// Row changes.
    #[serde(flatten)]
    pub changes: Changes,
}

/// From the first commit to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The earliest commit.
    pub first: Moment,
    /// The latest commit.
    pub last: Moment,
}

/// Which GTIDs there are, and which are not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GtidReport {
    /// Those of the transactions in the logs.
    pub set: String,
    /// What the first log says came before it.
    pub previous: Option<String>,
    /// Numbers that are neither in the logs nor before them, though larger ones are.
    pub gaps: String,
    /// Transactions without a GTID.
    pub anonymous: u64,
}

/// Events of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeReport {
    /// Its name in `SHOW BINLOG EVENTS`.
    pub event_type: &'static str,
    /// Its code.
    pub code: u8,
    /// How many.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A transaction that stands out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransactionReport {
    /// Its GTID, or `ANONYMOUS`.
    pub id: String,
    /// The log that it starts in.
    pub log: String,
    /// Where it starts there.
    pub position: u64,
    /// Its bytes in the log.
    pub bytes: u64,
    /// Its bytes before compression.
    pub bytes_uncompressed: u64,
    /// Is it stored in a payload?
    pub is_compressed: bool,
    /// Its events, those inside a payload included.
    pub events: u64,
    /// Rows changed.
    pub rows: u64,
    /// When it committed.
    pub committed: Moment,
    /// From its first statement's start to its commit, in microseconds; statements start at whole seconds.
    pub duration_us: u64,
    /// The tables it changed, most rows first.
    pub tables: Vec<TransactionTable>,
}

/// What a transaction did to one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransactionTable {
    /// `database.table`.
    pub table: String,
    /// Rows that came.
    pub inserted: u64,
    /// Rows that changed.
    pub updated: u64,
    /// Rows that went.
    pub deleted: u64,
}

/// Statements start at whole seconds, so nothing shorter is known to be long.
const LONG_US: u64 = 1_000_000;

/// Tables named with each transaction that stands out.
const TABLES_NAMED: usize = 8;

impl Report {
    /// The lines that this prints, byte for byte:
    ///
    /// ```text
    /// mysqlbinlog --base64-output=decode-rows -vvv LOG… | perl -ne '
    ///   $n{"$1 $2.$3"}++ if /^### (INSERT|UPDATE|DELETE)(?: INTO| FROM)? `(.*)`\.`(.*)`(?: VALUES \(\))?$/;
    ///   END { print "$n{$_} $_\n" for sort { $n{$b} <=> $n{$a} || $a cmp $b } keys %n }'
    /// ```
    pub fn rows_lines(&self) -> &[u8] {
        &self.rows_lines
    }

    pub(crate) fn new(tally: &Tally, mut logs: Vec<LogReport>, gtids: GtidReport) -> Self {
        for (number, log) in (0..).zip(&mut logs) {
            let count = tally.logs.get(&number).cloned().unwrap_or_default();
            (log.events, log.transactions) = (count.events, count.transactions);
        }
        let tables = tally.tables.amounts();
        let reports =
            |top: Vec<&Highlight>| top.iter().map(|one| transaction(one, &logs, &tally.tables)).collect();
        let largest = reports(tally.largest.sorted());
        let longest =
            reports(tally.longest.sorted().into_iter().filter(|one| one.duration_us >= LONG_US).collect());
        Self {
            totals: totals(tally, &logs, &tables),
            span: tally.span.map(|(first, last)| Span { first: Moment(first), last: Moment(last) }),
            gtids,
            tables,
            events: types(tally),
            sizes: tally.sizes.classes(),
            largest,
            longest,
            rate: tally.rate.series(BUCKETS_SHOWN),
            compression: tally.compression.rows(),
            rows_lines: tally.tables.rows_lines(),
            logs,
        }
    }
}

fn totals(tally: &Tally, logs: &[LogReport], tables: &[TableAmounts]) -> Totals {
    let mut changes = Changes::default();
    tables.iter().for_each(|table| changes.add(&table.changes));
    let of_type = |event_type: EventType| tally.types[usize::from(event_type.code())].events;
    let all: u64 = tally.types.iter().map(|count| count.events).sum();
    Totals {
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

fn types(tally: &Tally) -> Vec<TypeReport> {
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

fn transaction(highlight: &Highlight, logs: &[LogReport], tables: &Tables) -> TransactionReport {
    let log = logs.get(highlight.place.log as usize);
    let named = named(&highlight.tables, tables);
    TransactionReport {
        id: highlight.id.to_string(),
        log: log.map(|log| log.name.clone()).unwrap_or_default(),
        position: highlight.place.offset,
        bytes: highlight.bytes_stored,
        bytes_uncompressed: highlight.bytes_plain,
        is_compressed: highlight.is_compressed,
        events: highlight.events,
        rows: highlight.tables.iter().flat_map(|(_, rows)| rows).sum(),
        committed: Moment(highlight.commit_us),
        duration_us: highlight.duration_us,
        tables: named,
    }
}

fn named(rows: &RowsByTable, tables: &Tables) -> Vec<TransactionTable> {
    let mut sorted: Vec<_> = rows.iter().collect();
    sorted.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.iter().sum::<u64>()));
    let named = sorted.into_iter().take(TABLES_NAMED).map(|(place, rows)| TransactionTable {
        table: tables.name(*place),
        inserted: rows[0],
        updated: rows[1],
        deleted: rows[2],
    });
    named.collect()
}

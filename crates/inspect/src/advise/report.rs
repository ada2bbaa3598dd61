//! What compressing transactions would do to logs, as it is shown.
//!
//! Everything speaks of all logs that were given, also where only a sample of them was measured. Bytes are bytes,
//! times are seconds or, of single commits, microseconds; a gigabyte has 10⁹ bytes and a day 86,400 seconds. Shares
//! are parts of one: 0.6 is 60 %. What is not known is `null`, and what does not apply is an empty list.

use binlog::Refusal;
use serde::Serialize;

use crate::stats::Span;

/// What compressing transactions would do to logs.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// What to do, in words.
    pub advice: Advice,
    /// Each log, in the order given.
    pub logs: Vec<LogReport>,
    /// What the servers that wrote them can do.
    pub server: ServerReport,
    /// How much of the logs was measured.
    pub sample: SampleReport,
    /// What it was measured on.
    pub machine: MachineReport,
    /// From the first commit to the last.
    pub span: Option<Span>,
    /// All logs together, as they stand.
    pub totals: Totals,
    /// By level, in the order asked for.
    pub levels: Vec<LevelReport>,
    /// Transactions by size before compression, from the first class that has any to the last.
    pub sizes: Vec<SizeReport>,
    /// By table, the largest first.
    pub tables: Vec<TableReport>,
    /// What cannot be compressed, by reason, most bytes first.
    pub refused: Vec<RefusedReport>,
    /// What levels would save over time, by commit.
    pub over_time: TimeReport,
    /// Payloads that are in the logs already.
    pub found: FoundReport,
    /// Files compressed whole: not what a server does.
    pub whole_file: Option<WholeFileReport>,
    /// Transactions compressed with a trained dictionary: not what a server does.
    pub dictionary: Option<DictionaryReport>,
    /// What goes to each replica.
    pub network: NetworkReport,
}

/// An estimate, and the interval that holds the truth 95 times in 100. Where all was measured, all three are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// The likeliest.
    pub value: u64,
    /// Not less, most likely.
    pub low: u64,
    /// Not more, most likely.
    pub high: u64,
}

/// What to do, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// In a word.
    pub verdict: Verdict,
    /// The level to switch on or stay at.
    pub level: Option<u8>,
    /// In a sentence.
    pub headline: String,
    /// Why, a sentence each.
    pub reasons: Vec<String>,
    /// What may be otherwise, a sentence each.
    pub uncertainties: Vec<String>,
}

/// What to do, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// Switch compression on.
    SwitchOn,
    /// Leave it off: it would cost more than it saves.
    LeaveOff,
    /// It is on, and rightly so.
    Keep,
    /// It is on; another level would be better.
    ChangeLevel,
    /// It is on, and saves nothing.
    SwitchOff,
    /// Hardly anything in the logs could be compressed.
    NothingToGain,
    /// The server that wrote the logs cannot compress.
    CannotCompress,
    /// There are no transactions to judge by.
    #[default]
    NothingToMeasure,
}

/// One log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogReport {
    /// As it was given.
    pub name: String,
    /// The file's size.
    pub bytes: u64,
    /// The version of the server that wrote it; of a relay log, of the source.
    pub server_version: String,
    /// Is it a relay log?
    pub is_relay: bool,
    /// Is it encrypted?
    pub is_encrypted: bool,
}

/// What the servers that wrote the logs can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerReport {
    /// The version of the last log's server.
    pub version: String,
    /// Can it compress transactions at all?
    pub can_compress: bool,
    /// What it makes of `binlog_transaction_compression_level_zstd`.
    pub level_setting: LevelSetting,
}

/// What a server makes of `binlog_transaction_compression_level_zstd`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelSetting {
    /// It compresses at that level.
    Honoured,
    /// It takes the setting, and compresses at level 3 whatever it says.
    Ignored,
    /// Nobody has looked.
    #[default]
    Unknown,
}

/// How much of the logs was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SampleReport {
    /// Was everything measured? If not, stretches at random places were.
    pub is_complete: bool,
    /// Bytes of all logs.
    pub bytes_total: u64,
    /// Bytes of the transactions measured, as they stand.
    pub bytes_measured: u64,
    /// Transactions measured.
    pub transactions_measured: u64,
    /// Large ones among them that were measured by their front only; the rest counts as like it.
    pub transactions_cut: u64,
    /// Stretches measured.
    pub stretches_measured: u64,
    /// Stretches in all.
    pub stretches_total: u64,
    /// How often intervals hold the truth: 0.95.
    pub confidence: f64,
    /// What the random places were drawn from.
    pub seed: u64,
    /// How long it took, in seconds.
    pub elapsed_s: f64,
    /// Why measuring stopped before it was complete.
    pub stopped_by: Option<StoppedBy>,
}

/// Why measuring stopped before it was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// The time that it was given was up.
    Time,
    /// As many bytes as were asked for were measured.
    Bytes,
}

/// What was measured on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MachineReport {
    /// The processor's name, where the system tells.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// The version of zstd: others make other sizes, by fractions of a percent.
    pub zstd: String,
}

/// All logs together, as they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Their bytes as they stand.
    pub bytes: u64,
    /// Their bytes if no transaction were compressed.
    pub bytes_plain: Estimate,
    /// Transactions.
    pub transactions: Estimate,
    /// Bytes of transactions that are or could be compressed, before compression.
    pub eligible_bytes: Estimate,
    /// Such transactions.
    pub eligible_transactions: Estimate,
    /// Seconds from the first commit to the last of each log, together: what several logs cover counts once, gaps
    /// between logs do not.
    pub covered_s: f64,
    /// Bytes before compression a day, by the time that the logs cover; `None` when that is too short to tell.
    pub bytes_plain_per_day: Option<u64>,
}

/// What compressing at one level would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LevelReport {
    /// 1 to 22.
    pub level: u8,
    /// Would the server that wrote the logs compress at this level? `None` when nobody knows.
    pub is_honoured: Option<bool>,
    /// What the log files would have in all: compressed transactions, plain ones, everything between.
    pub bytes: Estimate,
    /// The part of the plain logs that is saved; negative when they grow.
    pub saved_share: f64,
    /// Plain bytes by compressed bytes, of whole log files.
    pub ratio: f64,
    /// The same of payloads alone: bytes of the events inside by bytes of the frames.
    pub payload_ratio: f64,
    /// Bytes saved against the plain logs; negative when they grow.
    pub saved_bytes: i64,
    /// Bytes saved against the logs as they stand.
    pub saved_bytes_now: i64,
    /// Bytes saved against the plain logs, a day, on the source and on each replica that keeps them.
    pub saved_bytes_per_day: Option<i64>,
    /// Bytes of events compressed in a second by one core.
    pub compress_bytes_per_s: f64,
    /// Bytes of events decompressed in a second by one core.
    pub decompress_bytes_per_s: f64,
    /// Seconds of one core to compress a gigabyte of plain logs, what stays plain included.
    pub compress_s_per_gb: f64,
    /// Seconds of one core to decompress it, on each replica.
    pub decompress_s_per_gb: f64,
    /// Seconds of one core a day to compress, at the logs' own rate.
    pub compress_s_per_day: Option<f64>,
    /// Seconds of one core a day to decompress, on each replica.
    pub decompress_s_per_day: Option<f64>,
    /// What commits would take longer.
    pub latency: Latency,
    /// The largest zstd context that a transaction measured needed, in bytes: a session keeps it.
    pub memory_bytes: u64,
    /// What zstd takes for the largest of transactions, in bytes.
    pub memory_bytes_max: u64,
    /// Transactions smaller than this, before compression, are better left plain; 0: all are better compressed, `None`:
    /// none is. A server knows no such bound, `bintide compress` does better still, transaction by transaction.
    pub break_even_bytes: Option<u64>,
    /// Transactions that would grow.
    pub growing_transactions: u64,
    /// By how many bytes they would grow together.
    pub growing_bytes: u64,
}

/// What commits take longer, in microseconds: the time to compress a transaction with a context that is used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Transactions measured.
    pub transactions: u64,
    /// Half of them take no longer.
    pub p50_us: f64,
    /// 99 of 100 take no longer.
    pub p99_us: f64,
    /// The longest measured.
    pub max_us: f64,
}

/// Transactions of one size class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeReport {
    /// The largest size in it, in bytes before compression; `None` for all beyond the class before.
    pub bytes_max: Option<u64>,
    /// Transactions that are or could be compressed.
    pub transactions: u64,
    /// Their bytes before compression, GTID event and checksums included.
    pub bytes: u64,
    /// What each level makes of them, in the order of [`Report::levels`].
    pub levels: Vec<SizeAtLevel>,
}

/// What a level makes of a size class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeAtLevel {
    /// 1 to 22.
    pub level: u8,
    /// Their bytes in the log.
    pub bytes: u64,
    /// The part that is saved; negative when they grow.
    pub saved_share: f64,
    /// What their commits would take longer.
    pub latency: Latency,
}

/// One table. What a transaction saves is shared among its tables by the bytes of their events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableReport {
    /// The database. Bytes that are not UTF-8 are replaced.
    pub database: String,
    /// The table. Bytes that are not UTF-8 are replaced.
    pub table: String,
    /// Transactions that are or could be compressed and change it.
    pub transactions: u64,
    /// Its bytes in them before compression, with its share of BEGIN, COMMIT and the GTID event.
    pub bytes: u64,
    /// What each level makes of them, in the order of [`Report::levels`].
    pub levels: Vec<TableAtLevel>,
}

/// What a level makes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TableAtLevel {
    /// 1 to 22.
    pub level: u8,
    /// Its bytes in the log.
    pub bytes: u64,
    /// The part that is saved; negative when it grows.
    pub saved_share: f64,
}

/// Transactions that cannot be compressed for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RefusedReport {
    /// The reason.
    pub reason: Refusal,
    /// The reason in words.
    pub words: String,
    /// Transactions.
    pub transactions: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The part of the plain logs' bytes.
    pub share: f64,
}

/// What levels would save over time, by commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeReport {
    /// When the first bucket starts, in milliseconds since 1970.
    pub start_ms: u64,
    /// How long each bucket is, in milliseconds; 0 when there is none.
    pub width_ms: u64,
    /// Bytes in each bucket; those between buckets measured are scaled up from the sample.
    pub buckets: Vec<TimeBucket>,
}

/// A stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeBucket {
    /// Bytes before compression.
    pub bytes_plain: u64,
    /// Bytes at each level, in the order of [`Report::levels`].
    pub bytes: Vec<u64>,
}

/// Payloads that are in the logs already.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FoundReport {
    /// Transactions that are compressed.
    pub transactions: u64,
    /// Their bytes in the logs.
    pub bytes: u64,
    /// Their bytes before compression.
    pub bytes_plain: u64,
    /// How many of them were compressed again at each level, to see which one makes the same bytes.
    pub probed: u64,
    /// The levels that make the same bytes of all that were probed; empty when none does: another version of zstd, or
    /// more than one level.
    pub levels: Vec<u8>,
    /// How many payloads each level makes the same bytes of, if it does of any.
    pub matches: Vec<LevelMatches>,
}

/// Payloads that one level makes the same bytes of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelMatches {
    /// 1 to 22.
    pub level: u8,
    /// Payloads.
    pub payloads: u64,
}

/// Files compressed whole by zstd: smaller, but no binary logs any more, and neither server nor network gain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WholeFileReport {
    /// zstd's level.
    pub level: u8,
    /// What the files would have in all.
    pub bytes: Estimate,
    /// Their bytes before, as they stand, by these.
    pub ratio: f64,
    /// The part of them that is saved.
    pub saved_share: f64,
    /// Bytes that were measured.
    pub bytes_measured: u64,
}

/// Transactions compressed with a dictionary that was trained on other transactions of the same logs: no server does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DictionaryReport {
    /// zstd's level.
    pub level: u8,
    /// The dictionary's size.
    pub dictionary_bytes: u64,
    /// Transactions that it was trained on.
    pub transactions_trained: u64,
    /// Other transactions that it was measured on.
    pub transactions_measured: u64,
    /// The bytes of these before compression.
    pub bytes_plain: u64,
    /// Their payloads' bytes without it.
    pub bytes_without: u64,
    /// Their payloads' bytes with it.
    pub bytes_with: u64,
}

/// What goes to each replica that follows as fast as transactions commit, one transaction at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkReport {
    /// Every way to send the same transactions; the first is plain in every respect.
    pub ways: Vec<NetworkWay>,
}

/// A way to send transactions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NetworkWay {
    /// The level at which transactions are compressed in the log; `None` when they are plain there.
    pub transactions: Option<u8>,
    /// How the replica's connection is compressed.
    pub connection: Connection,
    /// Bytes for all of the logs, headers of packets included.
    pub bytes: u64,
    /// Bytes a day.
    pub bytes_per_day: Option<u64>,
    /// The part of the first way's bytes that is saved.
    pub saved_share: f64,
    /// Seconds of one core on the source to compress the connection for each replica, for a gigabyte of plain logs.
    pub connection_s_per_gb: f64,
}

/// How a replica's connection is compressed (`SOURCE_COMPRESSION_ALGORITHMS`, `SOURCE_ZSTD_COMPRESSION_LEVEL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "algorithm", content = "level")]
pub enum Connection {
    /// Not at all.
    Uncompressed,
    /// zlib, at this level.
    Zlib(u8),
    /// zstd, at this level.
    Zstd(u8),
}

impl Estimate {
    /// What was measured, not estimated.
    pub const fn exact(value: u64) -> Self {
        Self { value, low: value, high: value }
    }
}

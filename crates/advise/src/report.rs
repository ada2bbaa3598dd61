//! Report of the effects of compressing transactions.
//!
//! All figures are for all given logs, even if only a sample was measured. Sizes are in bytes. Times are in seconds or,
//! for single commits, in microseconds. A gigabyte has 10⁹ bytes, a day 86,400 seconds. Shares are fractions of one:
//! 0.6 is 60 %. Unknown values are `null`, and lists that do not apply are empty.

use binlog::CompressionRefusal;
use serde::Serialize;

use inspect::stats::CommitSpan;

/// Report of the effects of compressing transactions.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct AdviseReport {
    /// Advice in words.
    pub advice: CompressionAdvice,
    /// Each log, in the order given.
    pub logs: Vec<MeasuredLog>,
    /// Compression features of the servers that wrote the logs. A document has them together with the readings of a
    /// running server.
    #[serde(skip)]
    pub server: ServerReport,
    /// Part of the logs that was measured.
    pub sample: SampleReport,
    /// Machine that measured.
    pub machine: MachineReport,
    /// First and last commit.
    pub span: Option<CommitSpan>,
    /// Totals of all logs, as they are now.
    pub totals: AdviseTotals,
    /// Figures by level, in the order of the requested levels.
    pub levels: Vec<LevelReport>,
    /// Transactions by size before compression, from the first class with transactions to the last.
    pub sizes: Vec<SizeReport>,
    /// Tables, the largest first.
    pub tables: Vec<TableReport>,
    /// Transactions that cannot be compressed, by reason, most bytes first.
    pub refused: Vec<RefusedReport>,
    /// Sizes over time, by commit, at each level.
    pub over_time: TimeReport,
    /// Payloads that the logs contain already.
    pub found: FoundReport,
    /// Whole files compressed. No server does this.
    pub whole_file: Option<WholeFileReport>,
    /// Transactions compressed with a trained dictionary. No server does this.
    pub dictionary: Option<DictionaryReport>,
    /// Network traffic to each replica.
    pub network: NetworkReport,
}

/// An estimate with its interval of 95 % confidence. If everything was measured, all three values are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IntervalEstimate {
    /// Most likely value.
    pub value: u64,
    /// Lower end of the interval.
    pub low: u64,
    /// Upper end of the interval.
    pub high: u64,
}

/// Advice in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompressionAdvice {
    /// The advice as one value.
    pub verdict: AdviceVerdict,
    /// The level to set or keep.
    pub level: Option<u8>,
    /// The advice in one sentence.
    pub headline: String,
    /// Reasons, one sentence each.
    pub reasons: Vec<String>,
    /// Uncertainties, one sentence each.
    pub uncertainties: Vec<String>,
}

/// The advice as one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AdviceVerdict {
    /// Turn compression on.
    SwitchOn,
    /// Leave compression off: it saves too little.
    LeaveOff,
    /// Compression is on; keep it.
    Keep,
    /// Compression is on; change its level.
    ChangeLevel,
    /// Compression is on and saves nothing; turn it off.
    SwitchOff,
    /// Almost none of the bytes can be compressed.
    NothingToGain,
    /// The server that wrote the logs has no transaction compression.
    CannotCompress,
    /// The logs contain no transactions.
    #[default]
    NothingToMeasure,
}

/// One log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MeasuredLog {
    /// The name as given by the user.
    pub name: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Version of the server that wrote the log; for a relay log, version of the source.
    pub server_version: String,
    /// True for a relay log.
    pub is_relay: bool,
    /// True for an encrypted log.
    pub is_encrypted: bool,
    /// False for a file that is empty or torn before its first event.
    #[serde(skip)]
    pub has_events: bool,
}

/// Compression features of the servers that wrote the logs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerReport {
    /// Version of the server that wrote the last log.
    pub version: String,
    /// True if this version has transaction compression.
    pub can_compress: bool,
    /// Effect of `binlog_transaction_compression_level_zstd` in this version.
    pub level_setting: LevelSetting,
}

/// Effect of `binlog_transaction_compression_level_zstd`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelSetting {
    /// The server compresses at the configured level.
    Honoured,
    /// The server accepts the setting, but always compresses at level 3.
    Ignored,
    /// The effect is unknown.
    #[default]
    Unknown,
}

/// Part of the logs that was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SampleReport {
    /// True if all logs were measured, false if only stretches at random places.
    pub is_complete: bool,
    /// Bytes of all logs.
    pub bytes_total: u64,
    /// Bytes of the measured transactions in the logs.
    pub bytes_measured: u64,
    /// Transactions measured.
    pub transactions_measured: u64,
    /// Large transactions of which only the front was measured. All other bytes are assumed to be similar.
    pub transactions_cut: u64,
    /// Stretches measured.
    pub stretches_measured: u64,
    /// Number of all stretches.
    pub stretches_total: u64,
    /// Confidence level of the intervals: 0.95.
    pub confidence: f64,
    /// Seed of the random places.
    pub seed: u64,
    /// Duration of the run in seconds.
    pub elapsed_s: f64,
    /// Limit that ended the measurement before it was complete.
    pub stopped_by: Option<StoppedBy>,
}

/// Limit that ended a measurement before it was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// The time limit.
    Time,
    /// The limit on bytes.
    Bytes,
}

/// Machine that measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MachineReport {
    /// Name of the processor, if the operating system tells it.
    pub cpu: Option<String>,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Version of zstd. Sizes of other versions differ by fractions of a percent.
    pub zstd: String,
}

/// Totals of all logs, as they are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct AdviseTotals {
    /// Bytes of the log files.
    pub bytes: u64,
    /// Bytes of the log files if no transaction were compressed.
    pub bytes_plain: IntervalEstimate,
    /// Number of transactions.
    pub transactions: IntervalEstimate,
    /// Bytes of eligible transactions before compression. A transaction is eligible if it is or could be compressed.
    pub eligible_bytes: IntervalEstimate,
    /// Number of eligible transactions.
    pub eligible_transactions: IntervalEstimate,
    /// Seconds from the first to the last commit of each log, together. Overlaps of logs count once, gaps between logs
    /// do not count.
    pub covered_s: f64,
    /// Bytes before compression per day, by the time that the logs cover; `None` if that is too short.
    pub bytes_plain_per_day: Option<u64>,
}

/// Effects of compressing at one level.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LevelReport {
    /// 1 to 22.
    pub level: u8,
    /// True if the server that wrote the logs would compress at this level; `None` if unknown.
    pub is_honoured: Option<bool>,
    /// Bytes of the log files at this level: compressed transactions, plain ones, and all other events.
    pub bytes: IntervalEstimate,
    /// Share of the plain logs' bytes that is saved; negative if they grow.
    pub saved_share: f64,
    /// Plain bytes divided by compressed bytes, of whole log files.
    pub ratio: f64,
    /// Plain bytes divided by compressed bytes, of payloads only: bytes of the events by bytes of the frames.
    pub payload_ratio: f64,
    /// Bytes saved compared with the plain logs; negative if they grow.
    pub saved_bytes: i64,
    /// Bytes saved compared with the present logs.
    pub saved_bytes_now: i64,
    /// Bytes saved per day compared with the plain logs, on the source and on each replica that keeps them.
    pub saved_bytes_per_day: Option<i64>,
    /// Compression speed of one core, in bytes of events per second.
    pub compress_bytes_per_s: f64,
    /// Decompression speed of one core, in bytes of events per second.
    pub decompress_bytes_per_s: f64,
    /// Seconds of one core to compress a gigabyte of plain logs, including the transactions that stay plain.
    pub compress_s_per_gb: f64,
    /// Seconds of one core to decompress a gigabyte of plain logs, on each replica.
    pub decompress_s_per_gb: f64,
    /// Seconds of one core per day to compress, at the logs' own rate.
    pub compress_s_per_day: Option<f64>,
    /// Seconds of one core per day to decompress, on each replica.
    pub decompress_s_per_day: Option<f64>,
    /// Time added to commits.
    pub latency: CommitLatency,
    /// Largest zstd context that a measured transaction needed, in bytes. A session keeps its context.
    pub memory_bytes: u64,
    /// Largest zstd context at this level, in bytes.
    pub memory_bytes_max: u64,
    /// Break-even size: smaller transactions, before compression, are better left plain; 0: all are better compressed;
    /// `None`: none is. Servers have no such threshold. `bintide compress` decides for each transaction, which is
    /// better still.
    pub break_even_bytes: Option<u64>,
    /// Number of transactions that would grow.
    pub growing_transactions: u64,
    /// Bytes by which these transactions would grow.
    pub growing_bytes: u64,
}

/// Time added to commits, in microseconds: the time to compress a transaction with a reused context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CommitLatency {
    /// Number of measured transactions.
    pub transactions: u64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Maximum.
    pub max_us: f64,
}

/// Transactions of one size class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeReport {
    /// Largest size of the class, in bytes before compression; `None` for the last class.
    pub bytes_max: Option<u64>,
    /// Number of eligible transactions.
    pub transactions: u64,
    /// Bytes of these transactions before compression, with GTID events and checksums.
    pub bytes: u64,
    /// Effects of each level, in the order of [`AdviseReport::levels`].
    pub levels: Vec<SizeAtLevel>,
}

/// Effect of one level on a size class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeAtLevel {
    /// 1 to 22.
    pub level: u8,
    /// Bytes of the transactions in the log.
    pub bytes: u64,
    /// Saved share; negative if the transactions grow.
    pub saved_share: f64,
    /// Time added to their commits.
    pub latency: CommitLatency,
}

/// Effects on one table. The savings of a transaction are divided among its tables by the bytes of their events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableReport {
    /// The database. Bytes that are not UTF-8 are replaced.
    pub database: String,
    /// The table. Bytes that are not UTF-8 are replaced.
    pub table: String,
    /// Number of eligible transactions that change the table.
    pub transactions: u64,
    /// Bytes of the table in them before compression, with its share of BEGIN, COMMIT and GTID event.
    pub bytes: u64,
    /// Effects of each level, in the order of [`AdviseReport::levels`].
    pub levels: Vec<TableAtLevel>,
}

/// Effect of one level on a table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TableAtLevel {
    /// 1 to 22.
    pub level: u8,
    /// Bytes of the table in the log.
    pub bytes: u64,
    /// Share that is saved; negative if it grows.
    pub saved_share: f64,
}

/// Transactions that cannot be compressed, for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RefusedReport {
    /// The reason.
    pub reason: CompressionRefusal,
    /// The reason in words.
    pub words: String,
    /// Number of transactions.
    pub transactions: u64,
    /// Bytes of the transactions.
    pub bytes: u64,
    /// Share of the plain logs' bytes.
    pub share: f64,
}

/// Sizes over time, by commit, at each level.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeReport {
    /// Start of the first bucket, in milliseconds since 1970.
    pub start_ms: u64,
    /// Width of a bucket in milliseconds; 0 if there are none.
    pub width_ms: u64,
    /// Buckets in order, without gaps. A sample is scaled up, and times it did not reach are 0.
    pub buckets: Vec<TimeBucket>,
}

/// Bytes committed in one bucket of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeBucket {
    /// Bytes before compression.
    pub bytes_plain: u64,
    /// Bytes at each level, in the order of [`AdviseReport::levels`].
    pub bytes: Vec<u64>,
}

/// Payloads that the logs contain already.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FoundReport {
    /// Number of compressed transactions.
    pub transactions: u64,
    /// Bytes of the transactions in the logs.
    pub bytes: u64,
    /// Bytes of the transactions before compression.
    pub bytes_plain: u64,
    /// Number of payloads that were compressed again at each level, to find the level that reproduces their bytes.
    pub probed: u64,
    /// Levels that reproduce the bytes of all probed payloads. Empty if there is none: the server used another version
    /// of zstd, or several levels.
    pub levels: Vec<u8>,
    /// Number of reproduced payloads by level, for levels that reproduce any.
    pub matches: Vec<LevelMatches>,
}

/// Payloads that one level reproduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelMatches {
    /// 1 to 22.
    pub level: u8,
    /// Number of payloads.
    pub payloads: u64,
}

/// Whole files compressed by zstd. They are smaller, but no binary logs, and help neither the server nor the network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WholeFileReport {
    /// zstd's level.
    pub level: u8,
    /// Bytes of all compressed files.
    pub bytes: IntervalEstimate,
    /// Bytes of the files now, divided by compressed bytes.
    pub ratio: f64,
    /// Share of the files' bytes that is saved.
    pub saved_share: f64,
    /// Bytes measured.
    pub bytes_measured: u64,
}

/// Transactions compressed with a dictionary trained on other transactions of the same logs. No server does this.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DictionaryReport {
    /// zstd's level.
    pub level: u8,
    /// Size of the dictionary in bytes.
    pub dictionary_bytes: u64,
    /// Number of transactions used for training.
    pub transactions_trained: u64,
    /// Number of transactions measured; others than those used for training.
    pub transactions_measured: u64,
    /// Bytes of the measured transactions before compression.
    pub bytes_plain: u64,
    /// Bytes of the payloads without the dictionary.
    pub bytes_without: u64,
    /// Bytes of the payloads with the dictionary.
    pub bytes_with: u64,
}

/// Network traffic to a replica that keeps up and receives one transaction at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkReport {
    /// Combinations of log compression and connection compression. The first one has neither.
    pub ways: Vec<NetworkWay>,
}

/// One combination of log compression and connection compression.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NetworkWay {
    /// Level of the transactions in the log; `None` if they are plain.
    pub transactions: Option<u8>,
    /// Compression of the replica's connection.
    pub connection: ConnectionCompression,
    /// Bytes sent for all logs, with packet headers.
    pub bytes: u64,
    /// Bytes sent per day.
    pub bytes_per_day: Option<u64>,
    /// Share saved, compared with the first combination.
    pub saved_share: f64,
    /// Seconds of one core on the source to compress a replica's connection, per gigabyte of plain logs.
    pub connection_s_per_gb: f64,
}

/// Compression of a replica's connection (`SOURCE_COMPRESSION_ALGORITHMS`, `SOURCE_ZSTD_COMPRESSION_LEVEL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "algorithm", content = "level")]
pub enum ConnectionCompression {
    /// No compression.
    Uncompressed,
    /// zlib at this level.
    Zlib(u8),
    /// zstd at this level.
    Zstd(u8),
}

impl IntervalEstimate {
    /// Returns a measured value, without an interval.
    pub const fn exact(value: u64) -> Self {
        Self { value, low: value, high: value }
    }
}

//! Builds the report from the tally.

use binlog::{ServerVersion, ZstdLevel};

use super::AdviseSettings;
use super::advise_tally::{AdviseTally, FINE_STEPS, LevelBytes, TableTally};
use super::estimate::{CONFIDENCE, Population, RatioSums};
use super::network::{SentBytes, ZLIB_LEVEL, ZSTD_LEVEL};
use super::pieces::LogPreview;
use super::report::{
    AdviseTotals, ConnectionCompression, FoundReport, IntervalEstimate, LevelReport, LevelSetting,
    NetworkReport, NetworkWay, RefusedReport, SampleReport, ServerReport, SizeAtLevel, SizeReport,
    TableAtLevel, TableReport,
};
use super::span::covered_us;
use inspect::stats::{CommitSpan, LogTime, class_bytes_max};

/// Input of all parts of a report.
pub(crate) struct ReportBuilder<'b> {
    pub(crate) tally: &'b AdviseTally,
    pub(crate) settings: &'b AdviseSettings,
    pub(crate) previews: &'b [LogPreview],
    pub(crate) server: ServerReport,
    /// First and last commit of each log that has one, in microseconds since 1970.
    pub(crate) spans: Vec<(u64, u64)>,
    /// Number of stretches in all logs; `None` if all logs were measured completely.
    pub(crate) stretches: Option<u64>,
    /// The level that represents compressed transactions in network traffic.
    pub(crate) base: ZstdLevel,
}

/// Relative allowance for the unmeasured rest of large transactions. It widens the interval in both directions.
const TRUNCATION_ALLOWANCE: f64 = 0.03;

/// Logs that cover less time allow no daily figures, in microseconds.
const SPAN_MIN_US: u64 = 60_000_000;

const DAY_US: f64 = 86_400e6;

impl ReportBuilder<'_> {
    /// Returns the bytes of the files that are not events.
    fn overhead(&self) -> u64 {
        self.previews.iter().map(|preview| preview.overhead).sum()
    }

    /// Returns the bytes of all events in the log files.
    pub(crate) fn events(&self) -> u64 {
        self.previews.iter().map(|preview| preview.bytes.end - preview.bytes.start).sum()
    }

    /// Returns the factor from the measured bytes to all bytes.
    pub(crate) fn factor(&self) -> f64 {
        match (self.stretches, self.tally.now) {
            (None, _) | (_, 0) => 1.0,
            (Some(_), now) => self.events() as f64 / now as f64,
        }
    }

    fn scale(&self, value: u64) -> u64 {
        (value as f64 * self.factor()).round() as u64
    }

    fn estimate(&self, pairs: &RatioSums) -> IntervalEstimate {
        pairs.estimate(Population { x: self.events() as f64, stretches: self.stretches })
    }

    /// Estimates the bytes of whole files: events plus overhead.
    fn file_bytes(&self, pairs: &RatioSums) -> IntervalEstimate {
        let IntervalEstimate { value, low, high } = self.estimate(pairs);
        let more = self.overhead();
        IntervalEstimate { value: value + more, low: low + more, high: high + more }
    }

    pub(crate) fn span(&self) -> Option<CommitSpan> {
        let first = self.spans.iter().map(|(first, _)| *first).min()?;
        let last = self.spans.iter().map(|(_, last)| *last).max()?;
        Some(CommitSpan { first: LogTime(first), last: LogTime(last) })
    }

    /// Returns the factor from the logs' figures to daily figures.
    fn per_day(&self) -> Option<f64> {
        let us = covered_us(&self.spans);
        (us >= SPAN_MIN_US).then(|| DAY_US / us as f64)
    }

    pub(crate) fn totals(&self) -> AdviseTotals {
        let bytes_plain = self.file_bytes(&self.tally.plain);
        AdviseTotals {
            bytes: self.previews.iter().map(|preview| preview.report.bytes).sum(),
            bytes_plain,
            transactions: self.estimate(&self.tally.transactions),
            eligible_bytes: self.estimate(&self.tally.eligible_bytes),
            eligible_transactions: self.estimate(&self.tally.eligible_transactions),
            covered_s: covered_us(&self.spans) as f64 / 1e6,
            bytes_plain_per_day: self.per_day().map(|days| (bytes_plain.value as f64 * days).round() as u64),
        }
    }

    pub(crate) fn sample(&self) -> SampleReport {
        let tally = self.tally;
        SampleReport {
            is_complete: self.stretches.is_none(),
            bytes_total: self.previews.iter().map(|preview| preview.report.bytes).sum(),
            bytes_measured: tally.now,
            transactions_measured: tally.transactions_measured,
            transactions_cut: tally.transactions_cut,
            stretches_measured: tally.stretches,
            stretches_total: self.stretches.unwrap_or(tally.stretches),
            confidence: CONFIDENCE,
            seed: self.settings.seed,
            elapsed_s: 0.0,
            stopped_by: None,
        }
    }

    pub(crate) fn levels(&self) -> Vec<LevelReport> {
        let plain = self.totals().bytes_plain.value;
        self.settings
            .levels
            .iter()
            .enumerate()
            .map(|(index, level)| self.level(index, *level, plain))
            .collect()
    }

    fn level(&self, index: usize, level: ZstdLevel, plain: u64) -> LevelReport {
        let (by, taken) = (&self.tally.by_level[index], &self.tally.taken[index]);
        let mut bytes = self.file_bytes(&self.tally.after[index]);
        let allowance = (self.scale(self.tally.truncated_after[index]) as f64 * TRUNCATION_ALLOWANCE) as u64;
        bytes.low = bytes.low.saturating_sub(allowance);
        bytes.high += allowance;
        let saved_bytes = signed(plain) - signed(bytes.value);
        let speed = |bytes: u64, ns: u64| if ns == 0 { 0.0 } else { bytes as f64 * 1e9 / ns as f64 };
        let compress_bytes_per_s = speed(taken.bytes, taken.compress_ns);
        let decompress_bytes_per_s = speed(taken.bytes_opened, taken.decompress_ns);
        let inner = self.scale(by.inner) as f64;
        let per_gb = |speed: f64| ratio(ratio(inner, speed) * 1e9, plain as f64);
        let per_day = |speed: f64| self.per_day().map(|days| ratio(inner, speed) * days);
        let now = self.totals().bytes;
        LevelReport {
            level: level.get(),
            is_honoured: honoured(self.server.level_setting, level),
            bytes,
            saved_share: ratio(saved_bytes as f64, plain as f64),
            ratio: ratio(plain as f64, bytes.value as f64),
            payload_ratio: ratio(by.inner as f64, by.frames as f64),
            saved_bytes,
            saved_bytes_now: signed(now) - signed(bytes.value),
            saved_bytes_per_day: self.per_day().map(|days| (saved_bytes as f64 * days).round() as i64),
            compress_bytes_per_s,
            decompress_bytes_per_s,
            compress_s_per_gb: per_gb(compress_bytes_per_s),
            decompress_s_per_gb: per_gb(decompress_bytes_per_s),
            compress_s_per_day: per_day(compress_bytes_per_s),
            decompress_s_per_day: per_day(decompress_bytes_per_s),
            latency: by.latency.latency(),
            memory_bytes: taken.memory,
            memory_bytes_max: memory_max(level),
            break_even_bytes: self.break_even(index),
            growing_transactions: (by.growing * self.factor()).round() as u64,
            growing_bytes: self.scale(by.growing_bytes),
        }
    }

    /// Returns the break-even size: the logs are smallest if all smaller transactions stay plain.
    fn break_even(&self, index: usize) -> Option<u64> {
        let fine = &self.tally.fine;
        let gain = |bytes: &LevelBytes| {
            signed(bytes.plain) - signed(bytes.after.get(index).copied().unwrap_or(bytes.plain))
        };
        let mut left: i64 = fine.values().map(gain).sum();
        let mut best = (left, fine.keys().next().map(|_| 0));
        let mut classes = fine.iter().peekable();
        while let Some((_, bytes)) = classes.next() {
            left -= gain(bytes);
            let next =
                classes.peek().map(|(class, _)| (f64::from(**class) / FINE_STEPS).exp2().ceil() as u64);
            if left > best.0 {
                best = (left, next);
            }
        }
        best.1
    }

    pub(crate) fn sizes(&self) -> Vec<SizeReport> {
        let (Some((first, _)), Some((last, _))) =
            (self.tally.sizes.first_key_value(), self.tally.sizes.last_key_value())
        else {
            return Vec::new();
        };
        let class = |class: usize| {
            let size = self.tally.sizes.get(&class).cloned().unwrap_or_default();
            let at_level = |(index, level): (usize, &ZstdLevel)| {
                let bytes = size.bytes.after.get(index).copied().unwrap_or_default();
                SizeAtLevel {
                    level: level.get(),
                    bytes: self.scale(bytes),
                    saved_share: saved_share(size.bytes.plain, bytes),
                    latency: size.latency.get(index).map(|times| times.latency()).unwrap_or_default(),
                }
            };
            SizeReport {
                bytes_max: class_bytes_max(class),
                transactions: (size.transactions * self.factor()).round() as u64,
                bytes: self.scale(size.bytes.plain),
                levels: self.settings.levels.iter().enumerate().map(at_level).collect(),
            }
        };
        (*first..=*last).map(class).collect()
    }

    pub(crate) fn tables(&self) -> Vec<TableReport> {
        let table = |((database, table), by): (&super::transaction_tables::QualifiedTable, &TableTally)| {
            let at_level = |(index, level): (usize, &ZstdLevel)| {
                let bytes = by.bytes.after.get(index).copied().unwrap_or_default();
                TableAtLevel {
                    level: level.get(),
                    bytes: self.scale(bytes),
                    saved_share: saved_share(by.bytes.plain, bytes),
                }
            };
            TableReport {
                database: String::from_utf8_lossy(database).into_owned(),
                table: String::from_utf8_lossy(table).into_owned(),
                transactions: (by.transactions * self.factor()).round() as u64,
                bytes: self.scale(by.bytes.plain),
                levels: self.settings.levels.iter().enumerate().map(at_level).collect(),
            }
        };
        let mut tables: Vec<TableReport> = self.tally.tables.iter().map(table).collect();
        tables.sort_by(|one, two| {
            two.bytes
                .cmp(&one.bytes)
                .then_with(|| (&one.database, &one.table).cmp(&(&two.database, &two.table)))
        });
        tables
    }

    pub(crate) fn refused(&self) -> Vec<RefusedReport> {
        let plain = self.totals().bytes_plain.value;
        let mut refused: Vec<RefusedReport> = (self.tally.refused.iter())
            .map(|(reason, (transactions, bytes))| RefusedReport {
                reason: *reason,
                words: reason.to_string(),
                transactions: (transactions * self.factor()).round() as u64,
                bytes: self.scale(*bytes),
                share: ratio(self.scale(*bytes) as f64, plain as f64),
            })
            .collect();
        refused.sort_by_key(|refused| std::cmp::Reverse(refused.bytes));
        refused
    }

    pub(crate) fn found(&self) -> FoundReport {
        let found = self.tally.found;
        FoundReport {
            transactions: (found.transactions * self.factor()).round() as u64,
            bytes: self.scale(found.now),
            bytes_plain: self.scale(found.plain),
            ..FoundReport::default()
        }
    }

    /// Returns the network traffic to a replica, extrapolated from the transactions it was measured for.
    pub(crate) fn network(&self) -> NetworkReport {
        let network = self.tally.network;
        if network.now == 0 {
            return NetworkReport::default();
        }
        let factor = self.events() as f64 / network.now as f64;
        let (plain_bytes, per_day) = (self.totals().bytes_plain.value as f64, self.per_day());
        let way = |transactions, connection, sent: &SentBytes| {
            let (bytes, ns) = match connection {
                ConnectionCompression::Uncompressed => (sent.uncompressed, 0),
                ConnectionCompression::Zlib(_) => (sent.zlib, sent.zlib_ns),
                ConnectionCompression::Zstd(_) => (sent.zstd, sent.zstd_ns),
            };
            let bytes = bytes as f64 * factor;
            NetworkWay {
                transactions,
                connection,
                bytes: bytes.round() as u64,
                bytes_per_day: per_day.map(|days| (bytes * days).round() as u64),
                saved_share: 1.0 - ratio(bytes, network.plain.uncompressed as f64 * factor),
                connection_s_per_gb: ratio(ns as f64 * factor, plain_bytes),
            }
        };
        let connections = [
            ConnectionCompression::Uncompressed,
            ConnectionCompression::Zlib(ZLIB_LEVEL),
            ConnectionCompression::Zstd(ZSTD_LEVEL),
        ];
        let base = Some(self.base.get());
        let plain = connections.iter().map(|connection| way(None, *connection, &network.plain));
        let compressed = connections.iter().map(|connection| way(base, *connection, &network.compressed));
        NetworkReport { ways: plain.chain(compressed).collect() }
    }
}

/// Returns true if a server with this setting compresses at `level`. Returns `None` if that is unknown.
pub(crate) fn honoured(setting: LevelSetting, level: ZstdLevel) -> Option<bool> {
    match (setting, level == ZstdLevel::DEFAULT) {
        (_, true) | (LevelSetting::Honoured, _) => Some(true),
        (LevelSetting::Ignored, false) => Some(false),
        (LevelSetting::Unknown, false) => None,
    }
}

/// Returns the effect of `binlog_transaction_compression_level_zstd` in this server version. Tests show that MySQL 9.7
/// honours it. In the sources of 8.0.20, 8.0.43 and 8.3, it reaches no compressor.
pub(crate) fn level_setting(version: &str) -> LevelSetting {
    let version = ServerVersion::parse(version);
    match (version.is_mysql_since([9, 7, 0]), version.is_mysql_since([8, 4, 0])) {
        (true, _) => LevelSetting::Honoured,
        (false, true) => LevelSetting::Unknown,
        (false, false) => LevelSetting::Ignored,
    }
}

/// Returns zstd 1.5.7's memory for inputs of unlimited size at each level, in bytes (its `ZSTD_estimateCStreamSize`).
fn memory_max(level: ZstdLevel) -> u64 {
    const BYTES: [u64; 22] = [
        1_369_625,
        2_090_521,
        3_663_385,
        4_974_105,
        6_022_681,
        6_022_681,
        9_168_409,
        9_168_409,
        17_557_017,
        30_139_929,
        30_139_929,
        55_305_753,
        55_305_753,
        55_305_753,
        72_082_969,
        72_082_969,
        72_082_969,
        72_082_969,
        93_848_215,
        202_900_119,
        404_226_711,
        874_070_679,
    ];
    BYTES[usize::from(level.get()) - 1]
}

fn saved_share(plain: u64, after: u64) -> f64 {
    ratio((signed(plain) - signed(after)) as f64, plain as f64)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Returns the ratio `part / whole`, or 0 if `whole` is 0.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

#[cfg(test)]
mod tests {
    use super::{LevelSetting, level_setting};

    #[test]
    fn level_setting_depends_on_the_version() {
        let check = |version, expected| assert_eq!(level_setting(version), expected, "{version}");
        check("9.7.4-2", LevelSetting::Honoured);
        check("9.10.0", LevelSetting::Honoured);
        check("26.10.0", LevelSetting::Honoured);
        check("9.2.0", LevelSetting::Unknown);
        check("8.4.3-log", LevelSetting::Unknown);
        check("8.3.0", LevelSetting::Ignored);
        check("8.0.43-debug", LevelSetting::Ignored);
        check("", LevelSetting::Ignored);
    }
}

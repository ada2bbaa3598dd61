//! Adds up the measurements of all workers.

use std::collections::{BTreeMap, HashMap, HashSet};

use binlog::CompressionRefusal;

use super::commit_timeline::CommitTimeline;
use super::estimate::RatioSums;
use super::latency_histogram::LatencyHistogram;
use super::level_bench::LevelCost;
use super::record::{MeasuredPart, NetworkTraffic, PayloadProbe, RecordKind, TransactionRecord};
use super::transaction_tables::QualifiedTable;
use inspect::stats::size_class;

/// Maximum bytes of payloads kept for the dictionary.
const SAMPLES_MAX: usize = 24 << 20;

/// Maximum number of payloads kept to find their level.
const PROBES_MAX: usize = 12;

/// Maximum number of tables. Tables that appear later are not listed.
const TABLES_MAX: usize = 10_000;

/// Size classes per doubling, for the break-even size.
pub(crate) const FINE_STEPS: f64 = 8.0;

/// Sums of all measurements.
#[derive(Debug, Default)]
pub(crate) struct AdviseTally {
    levels: usize,
    /// Sums of the current stretch.
    stretch: StretchSums,
    pub(crate) stretches: u64,
    /// Bytes in the logs.
    pub(crate) now: u64,
    pub(crate) plain: RatioSums,
    pub(crate) transactions: RatioSums,
    pub(crate) eligible_bytes: RatioSums,
    pub(crate) eligible_transactions: RatioSums,
    /// Bytes of whole logs, by level.
    pub(crate) after: Vec<RatioSums>,
    pub(crate) transactions_measured: u64,
    pub(crate) transactions_cut: u64,
    /// Transactions that overlap several cells: their logs and starts.
    wide: HashSet<(usize, u64)>,
    /// Bytes of transactions whose front alone was measured, by level.
    pub(crate) truncated_after: Vec<u64>,
    /// First and last measured commit of each log, in microseconds since 1970.
    pub(crate) spans: BTreeMap<usize, (u64, u64)>,
    pub(crate) refused: BTreeMap<CompressionRefusal, (f64, u64)>,
    pub(crate) found: FoundPayloads,
    pub(crate) by_level: Vec<LevelTally>,
    pub(crate) taken: Vec<LevelCost>,
    pub(crate) sizes: BTreeMap<usize, SizeTally>,
    pub(crate) fine: BTreeMap<u32, LevelBytes>,
    pub(crate) tables: HashMap<QualifiedTable, TableTally>,
    pub(crate) timeline: CommitTimeline,
    pub(crate) network: NetworkTraffic,
    pub(crate) samples: Vec<Vec<u8>>,
    samples_size: usize,
    pub(crate) probes: Vec<PayloadProbe>,
}

#[derive(Debug, Default)]
struct StretchSums {
    now: u64,
    plain: u64,
    transactions: f64,
    eligible_bytes: u64,
    eligible_transactions: f64,
    after: Vec<u64>,
}

/// Payloads that the logs contain already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FoundPayloads {
    pub(crate) transactions: f64,
    pub(crate) now: u64,
    pub(crate) plain: u64,
}

/// Sums of one level.
#[derive(Clone, Debug, Default)]
pub(crate) struct LevelTally {
    pub(crate) inner: u64,
    pub(crate) frames: u64,
    pub(crate) latency: LatencyHistogram,
    pub(crate) growing: f64,
    pub(crate) growing_bytes: u64,
}

/// Bytes uncompressed, and at every level.
#[derive(Clone, Debug, Default)]
pub(crate) struct LevelBytes {
    pub(crate) plain: u64,
    pub(crate) after: Vec<u64>,
}

/// Transactions of one size class.
#[derive(Clone, Debug, Default)]
pub(crate) struct SizeTally {
    pub(crate) transactions: f64,
    pub(crate) bytes: LevelBytes,
    pub(crate) latency: Vec<LatencyHistogram>,
}

/// Sums of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableTally {
    pub(crate) transactions: f64,
    pub(crate) bytes: LevelBytes,
}

impl LevelBytes {
    pub(crate) fn add(&mut self, plain: u64, after: impl Iterator<Item = u64>) {
        self.plain += plain;
        for (index, bytes) in after.enumerate() {
            match self.after.get_mut(index) {
                Some(sum) => *sum += bytes,
                None => self.after.push(bytes),
            }
        }
    }
}

/// Returns true if one cell contains the whole transaction.
const fn share_is_whole(record: &TransactionRecord) -> bool {
    record.share.from == 0 && record.share.to == record.share.of
}

impl AdviseTally {
    pub(crate) fn new(levels: usize) -> Self {
        Self {
            levels,
            after: vec![RatioSums::default(); levels],
            truncated_after: vec![0; levels],
            by_level: vec![LevelTally::default(); levels],
            taken: vec![LevelCost::default(); levels],
            ..Self::default()
        }
    }

    pub(crate) fn take(&mut self, part: MeasuredPart) {
        for record in &part.records {
            self.add_record(record, &part);
        }
        for (sum, taken) in self.taken.iter_mut().zip(&part.taken) {
            sum.add(taken);
        }
        self.network.add(&part.network);
        for sample in part.samples {
            if self.samples_size + sample.len() <= SAMPLES_MAX {
                self.samples_size += sample.len();
                self.samples.push(sample);
            }
        }
        if let Some(probe) = part.probe {
            self.probes.push(probe);
            self.probes.sort_by_key(|probe| std::cmp::Reverse(probe.inner.len()));
            self.probes.truncate(PROBES_MAX);
        }
        if part.is_end {
            self.end_stretch();
        }
    }

    fn end_stretch(&mut self) {
        let stretch = std::mem::take(&mut self.stretch);
        let x = stretch.now as f64;
        self.stretches += 1;
        self.now += stretch.now;
        self.plain.add(x, stretch.plain as f64);
        self.transactions.add(x, stretch.transactions);
        self.eligible_bytes.add(x, stretch.eligible_bytes as f64);
        self.eligible_transactions.add(x, stretch.eligible_transactions);
        let after = stretch.after.into_iter().chain(std::iter::repeat(0));
        self.after.iter_mut().zip(after).for_each(|(pairs, after)| pairs.add(x, after as f64));
    }

    fn add_record(&mut self, record: &TransactionRecord, part: &MeasuredPart) {
        let share = record.share;
        let (now, plain) = (share.part(record.now), share.part(record.plain));
        self.stretch.now += now;
        self.stretch.plain += plain;
        self.stretch.after.resize(self.levels, 0);
        let mut is_new = false;
        if record.kind != RecordKind::Between {
            self.stretch.transactions += share.weight();
            is_new = share_is_whole(record) || self.wide.insert((part.source, record.start));
            self.transactions_measured += u64::from(is_new);
            self.transactions_cut += u64::from(record.is_truncated && is_new);
            let us = record.commit_us;
            // 0 means that the time is unknown.
            if us > 0 {
                let span = self.spans.entry(part.source).or_insert((us, us));
                *span = (span.0.min(us), span.1.max(us));
            }
        }
        if let RecordKind::Measured { number, was_compressed } = record.kind {
            self.add_measured(record, part, number, is_new);
            if was_compressed {
                self.found.transactions += share.weight();
                self.found.now += now;
                self.found.plain += plain;
            }
            return;
        }
        self.stretch.after.iter_mut().for_each(|after| *after += now);
        if let RecordKind::Refused(reason) = record.kind {
            let refused = self.refused.entry(reason).or_default();
            *refused = (refused.0 + share.weight(), refused.1 + now);
            self.add_to_timeline(record.commit_us, now, (0..self.levels).map(|_| now));
        }
    }

    fn add_to_timeline(&mut self, commit_us: u64, plain: u64, after: impl Iterator<Item = u64>) {
        if commit_us > 0 {
            self.timeline.add(commit_us / 1000, plain, after);
        }
    }

    fn add_measured(&mut self, record: &TransactionRecord, part: &MeasuredPart, number: usize, is_new: bool) {
        let (share, weight) = (record.share, record.share.weight());
        let plain = share.part(record.plain);
        let index = number * self.levels..(number + 1) * self.levels;
        let (Some(made), Some(whole)) = (part.made.get(index.clone()), part.after.get(index)) else {
            unreachable!("ours: the worker measured it at every level");
        };
        let after = || whole.iter().map(|after| share.part(*after));
        self.stretch.eligible_bytes += plain;
        self.stretch.eligible_transactions += weight;
        self.stretch.after.iter_mut().zip(after()).for_each(|(sum, after)| *sum += after);
        if record.is_truncated {
            self.truncated_after.iter_mut().zip(after()).for_each(|(sum, after)| *sum += after);
        }
        let size = self.sizes.entry(size_class(record.plain)).or_default();
        size.transactions += weight;
        size.bytes.add(plain, after());
        size.latency.resize(self.levels, LatencyHistogram::default());
        for (index, (made, whole)) in made.iter().zip(whole).enumerate() {
            size.latency[index].add(made.ns, weight, u64::from(is_new));
            let level = &mut self.by_level[index];
            level.latency.add(made.ns, weight, u64::from(is_new));
            level.inner += share.part(record.inner);
            level.frames += share.part(made.frame.unwrap_or(record.inner));
            if *whole > record.plain {
                level.growing += weight;
                level.growing_bytes += share.part(*whole - record.plain);
            }
        }
        let fine = ((record.plain.max(1) as f64).log2() * FINE_STEPS) as u32;
        self.fine.entry(fine).or_default().add(plain, after());
        self.add_to_timeline(record.commit_us, plain, after());
        self.add_tables(record, part, whole);
    }

    /// Divides a transaction among its tables, by the bytes of their events.
    fn add_tables(&mut self, record: &TransactionRecord, part: &MeasuredPart, whole: &[u64]) {
        let tables = part.tables.get(record.tables.clone()).unwrap_or_default();
        let sum: u64 = tables.iter().map(|(_, bytes)| bytes).sum();
        let weight = record.share.weight() / sum.max(1) as f64;
        for (number, bytes) in tables {
            let Some(name) = part.names.get(*number as usize) else { continue };
            if self.tables.len() >= TABLES_MAX && !self.tables.contains_key(name) {
                continue;
            }
            let table = self.tables.entry(name.clone()).or_default();
            let of = |value: u64| (value as f64 * weight * *bytes as f64).round() as u64;
            table.transactions += record.share.weight();
            table.bytes.add(of(record.plain), whole.iter().map(|after| of(*after)));
        }
    }
}

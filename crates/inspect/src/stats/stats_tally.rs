//! All counters, in one value that can be merged with others.

use std::collections::BTreeMap;
use std::sync::Arc;

use binlog::events::MariadbGtid;
use binlog::{EventType, TransactionId};

use super::breakdown::{BreakdownKind, BreakdownTally};
use super::collect::StatsSettings;
use super::commit_rate::CommitRate;
use super::compression::CompressionTotals;
use super::event_address::EventAddress;
use super::gtid_collector::GtidCollector;
use super::size_histogram::SizeHistogram;
use super::tables::{RowChangeCounts, RowOperation, TableCounts};
use super::top_list::TopList;
use super::transaction_tally::{RowsByTable, TransactionTally};

/// All counters.
#[derive(Clone, Debug)]
pub(crate) struct StatsTally {
    pub(crate) tables: TableCounts,
    /// By event type code.
    pub(crate) types: Box<[TypeCount; 256]>,
    pub(crate) logs: BTreeMap<u32, LogCount>,
    pub(crate) transactions: u64,
    pub(crate) transactions_compressed: u64,
    /// Transactions without an end. Not counted elsewhere.
    pub(crate) incomplete: u64,
    pub(crate) anonymous: u64,
    pub(crate) statements: u64,
    pub(crate) bytes_plain: u64,
    /// Bytes of the transactions in the logs.
    pub(crate) bytes_stored: u64,
    /// Number of selected events, without those inside payloads.
    pub(crate) events_outer: u64,
    pub(crate) sizes: SizeHistogram,
    pub(crate) rate: CommitRate,
    pub(crate) compression: CompressionTotals,
    pub(crate) gtids: GtidCollector,
    /// Last GTID of each domain of MariaDB.
    pub(crate) domains: BTreeMap<u32, MariadbGtid>,
    pub(crate) largest: TopList<NotableTransaction>,
    pub(crate) longest: TopList<NotableTransaction>,
    pub(crate) span: Option<(u64, u64)>,
    /// Properties by which changes are counted.
    pub(crate) breakdown_kinds: Arc<[BreakdownKind]>,
    pub(crate) breakdown: BreakdownTally,
}

/// Events of one type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TypeCount {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

/// Counts of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogCount {
    pub(crate) events: u64,
    pub(crate) transactions: u64,
}

/// A notable transaction: one of the largest or longest.
#[derive(Clone, Debug)]
pub(crate) struct NotableTransaction {
    pub(crate) id: TransactionId,
    pub(crate) address: EventAddress,
    pub(crate) bytes_stored: u64,
    pub(crate) bytes_plain: u64,
    pub(crate) is_compressed: bool,
    pub(crate) events: u64,
    pub(crate) commit_us: u64,
    pub(crate) duration_us: u64,
    pub(crate) tables: RowsByTable,
}

/// Counts of one chunk of a log.
#[derive(Clone, Debug)]
pub(crate) struct ChunkTally {
    pub(crate) tally: StatsTally,
    /// The end of a transaction that started in an earlier chunk, or its middle.
    pub(crate) head: Option<ContinuedTransaction>,
    /// The start of a transaction that continues in the next chunk.
    pub(crate) tail: Option<TransactionTally>,
}

/// Part of a transaction that started in an earlier chunk.
#[derive(Clone, Debug)]
pub(crate) enum ContinuedTransaction {
    /// The transaction ends in this chunk.
    Ends(TransactionTally),
    /// The transaction continues in the next chunk.
    Continues(TransactionTally),
    /// The transaction is incomplete, if there is one.
    Lost,
}

impl StatsTally {
    /// Creates counters for these settings.
    pub(crate) fn new(settings: &StatsSettings) -> Self {
        let top = settings.top;
        Self {
            tables: TableCounts::default(),
            types: Box::new([TypeCount::default(); 256]),
            logs: BTreeMap::new(),
            transactions: 0,
            transactions_compressed: 0,
            incomplete: 0,
            anonymous: 0,
            statements: 0,
            bytes_plain: 0,
            bytes_stored: 0,
            events_outer: 0,
            sizes: SizeHistogram::default(),
            rate: CommitRate::default(),
            compression: CompressionTotals::default(),
            gtids: GtidCollector::default(),
            domains: BTreeMap::new(),
            largest: TopList::new(top),
            longest: TopList::new(top),
            span: None,
            breakdown_kinds: Arc::clone(&settings.breakdowns),
            breakdown: BreakdownTally::default(),
        }
    }

    /// Counts an event of a log or of a payload.
    pub(crate) fn add_event(&mut self, event_type: EventType, bytes: u64) {
        let count = &mut self.types[usize::from(event_type.code())];
        count.events += 1;
        count.bytes += bytes;
    }

    pub(crate) fn add_rows(
        &mut self,
        open: &mut TransactionTally,
        table: usize,
        change: RowOperation,
        amount: RowChangeCounts,
    ) {
        self.tables.add_rows(table, change, amount);
        open.tables.add(table, change, amount.rows);
    }

    /// Counts a complete transaction, if it is selected.
    pub(crate) fn add_transaction(&mut self, open: &TransactionTally) {
        if !open.is_counted {
            return;
        }
        self.bytes_stored += open.bytes_stored;
        self.breakdown.add_transaction(&self.breakdown_kinds, open);
        let address = open.start.map(|start| start.address).unwrap_or_default();
        let commit_us = open.commit_us();
        self.transactions += 1;
        self.transactions_compressed += u64::from(open.payload.is_some());
        self.logs.entry(address.log).or_default().transactions += 1;
        self.sizes.add(open.bytes_plain);
        self.bytes_plain += open.bytes_plain;
        self.rate.add(commit_us, open.counts());
        self.compression.add(open.stored());
        self.span = Some(
            self.span
                .map_or((commit_us, commit_us), |(first, last)| (first.min(commit_us), last.max(commit_us))),
        );
        match open.id() {
            TransactionId::Gtid(gtid) => self.gtids.add(gtid),
            TransactionId::Mariadb(gtid) => {
                self.domains.insert(gtid.domain_id, gtid);
            }
            TransactionId::Anonymous | TransactionId::Unsaid => self.anonymous += 1,
            _ => {}
        }
        self.add_notable(open, address);
    }

    fn add_notable(&mut self, open: &TransactionTally, address: EventAddress) {
        let duration_us = open.duration_us();
        let make = || NotableTransaction {
            id: open.id(),
            address,
            bytes_stored: open.bytes_stored,
            bytes_plain: open.bytes_plain,
            is_compressed: open.payload.is_some(),
            events: open.events,
            commit_us: open.commit_us(),
            duration_us,
            tables: open.tables.clone(),
        };
        if self.largest.wants(open.bytes_plain, address) {
            self.largest.add(open.bytes_plain, address, make());
        }
        if self.longest.wants(duration_us, address) {
            self.longest.add(duration_us, address, make());
        }
    }

    /// Adds the counters of the following chunk, without its tables. `table_indexes` has the new indexes of that chunk's
    /// tables.
    fn merge(&mut self, later: Self, table_indexes: &[usize]) {
        for (mine, count) in self.types.iter_mut().zip(later.types.iter()) {
            mine.events += count.events;
            mine.bytes += count.bytes;
        }
        for (log, count) in later.logs {
            let mine = self.logs.entry(log).or_default();
            mine.events += count.events;
            mine.transactions += count.transactions;
        }
        self.transactions += later.transactions;
        self.transactions_compressed += later.transactions_compressed;
        self.incomplete += later.incomplete;
        self.anonymous += later.anonymous;
        self.statements += later.statements;
        self.bytes_plain += later.bytes_plain;
        self.bytes_stored += later.bytes_stored;
        self.events_outer += later.events_outer;
        self.breakdown.merge(later.breakdown, table_indexes);
        self.sizes.merge(&later.sizes);
        self.rate.merge(later.rate);
        self.compression.merge(later.compression);
        self.gtids.merge(later.gtids);
        self.domains.extend(later.domains);
        let adopt = |mut highlight: NotableTransaction| {
            highlight.tables = highlight.tables.moved(table_indexes);
            highlight
        };
        self.largest.merge(later.largest, adopt);
        self.longest.merge(later.longest, adopt);
        self.span = match (self.span, later.span) {
            (Some(mine), Some(later)) => Some((mine.0.min(later.0), mine.1.max(later.1))),
            (mine, later) => mine.or(later),
        };
    }
}

impl ChunkTally {
    /// Creates a part without any counts.
    pub(crate) fn new(settings: &StatsSettings) -> Self {
        Self { tally: StatsTally::new(settings), head: None, tail: None }
    }

    /// Adds the part of the next chunk: first the transaction that ends in it, then the transactions that start in it.
    pub(crate) fn join(&mut self, mut later: Self) {
        let table_indexes = self.tally.tables.merge(std::mem::take(&mut later.tally.tables));
        let moved = |mut open: TransactionTally| {
            open.tables = open.tables.moved(&table_indexes);
            open
        };
        match later.head {
            None => {}
            Some(ContinuedTransaction::Continues(open)) => self.continue_transaction(moved(open)),
            Some(ContinuedTransaction::Lost) => {
                self.tally.incomplete += u64::from(self.tail.take().is_some_and(|open| open.is_counted));
            }
            Some(ContinuedTransaction::Ends(open)) => {
                self.continue_transaction(moved(open));
                if let Some(whole) = self.tail.take() {
                    self.tally.add_transaction(&whole);
                }
            }
        }
        self.tally.merge(later.tally, &table_indexes);
        if let Some(tail) = later.tail {
            self.tail = Some(moved(tail));
        }
    }

    /// Adds a part to the open transaction. A transaction without a start also counts, because a log can start within a
    /// transaction.
    fn continue_transaction(&mut self, open: TransactionTally) {
        match &mut self.tail {
            Some(tail) => tail.join(open),
            None => self.tail = Some(open),
        }
    }
}

//! All counters, in one value that can be merged with others.

use std::collections::BTreeMap;

use binlog::{EventType, TransactionId};

use super::compression::Compression;
use super::gtids::Gtids;
use super::open::{Open, RowsByTable};
use super::place::Place;
use super::rate::Rate;
use super::sizes::Sizes;
use super::tables::{Amount, Change, Tables};
use super::top::Top;

/// All counters.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) tables: Tables,
    /// By event type code.
    pub(crate) types: Box<[TypeCount; 256]>,
    pub(crate) logs: BTreeMap<u32, LogCount>,
    pub(crate) transactions: u64,
    pub(crate) transactions_compressed: u64,
    /// Transactions without an end. They are not counted elsewhere.
    pub(crate) incomplete: u64,
    pub(crate) anonymous: u64,
    pub(crate) statements: u64,
    pub(crate) bytes_plain: u64,
    pub(crate) sizes: Sizes,
    pub(crate) rate: Rate,
    pub(crate) compression: Compression,
    pub(crate) gtids: Gtids,
    pub(crate) largest: Top<Highlight>,
    pub(crate) longest: Top<Highlight>,
    pub(crate) span: Option<(u64, u64)>,
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
pub(crate) struct Highlight {
    pub(crate) id: TransactionId,
    pub(crate) place: Place,
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
pub(crate) struct Part {
    pub(crate) tally: Tally,
    /// The end of a transaction that started in an earlier chunk, or its middle.
    pub(crate) head: Option<Head>,
    /// The start of a transaction that continues in the next chunk.
    pub(crate) tail: Option<Open>,
}

/// Part of a transaction that started in an earlier chunk.
#[derive(Clone, Debug)]
pub(crate) enum Head {
    /// The transaction ends in this chunk.
    Ends(Open),
    /// The transaction continues in the next chunk.
    GoesOn(Open),
    /// The transaction is incomplete, if there is one.
    Lost,
}

impl Tally {
    /// Creates counters that keep this number of largest and longest transactions.
    pub(crate) fn new(top: usize) -> Self {
        Self {
            tables: Tables::default(),
            types: Box::new([TypeCount::default(); 256]),
            logs: BTreeMap::new(),
            transactions: 0,
            transactions_compressed: 0,
            incomplete: 0,
            anonymous: 0,
            statements: 0,
            bytes_plain: 0,
            sizes: Sizes::default(),
            rate: Rate::default(),
            compression: Compression::default(),
            gtids: Gtids::default(),
            largest: Top::new(top),
            longest: Top::new(top),
            span: None,
        }
    }

    /// Counts an event of a log or of a payload.
    pub(crate) fn event(&mut self, event_type: EventType, bytes: u64) {
        let count = &mut self.types[usize::from(event_type.code())];
        count.events += 1;
        count.bytes += bytes;
    }

    pub(crate) fn rows(&mut self, open: &mut Open, table: usize, change: Change, amount: Amount) {
        self.tables.add_rows(table, change, amount);
        open.tables.add(table, change, amount.rows);
    }

    /// Counts a complete transaction.
    pub(crate) fn transaction(&mut self, open: &Open) {
        let place = open.start.map(|start| start.place).unwrap_or_default();
        let commit_us = open.commit_us();
        self.transactions += 1;
        self.transactions_compressed += u64::from(open.payload.is_some());
        self.logs.entry(place.log).or_default().transactions += 1;
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
            TransactionId::Anonymous | TransactionId::Unsaid => self.anonymous += 1,
            _ => {}
        }
        self.highlight(open, place);
    }

    fn highlight(&mut self, open: &Open, place: Place) {
        let duration_us = open.duration_us();
        let make = || Highlight {
            id: open.id(),
            place,
            bytes_stored: open.bytes_stored,
            bytes_plain: open.bytes_plain,
            is_compressed: open.payload.is_some(),
            events: open.events,
            commit_us: open.commit_us(),
            duration_us,
            tables: open.tables.clone(),
        };
        if self.largest.wants(open.bytes_plain, place) {
            self.largest.add(open.bytes_plain, place, make());
        }
        if self.longest.wants(duration_us, place) {
            self.longest.add(duration_us, place, make());
        }
    }

    /// Adds the counters of the chunk that follows, without its tables. Those are at the indexes `places` now.
    fn merge(&mut self, later: Self, places: &[usize]) {
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
        self.sizes.merge(&later.sizes);
        self.rate.merge(later.rate);
        self.compression.merge(later.compression);
        self.gtids.merge(later.gtids);
        let adopt = |mut highlight: Highlight| {
            highlight.tables = highlight.tables.moved(places);
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

impl Part {
    /// Creates a part without any counts.
    pub(crate) fn new(top: usize) -> Self {
        Self { tally: Tally::new(top), head: None, tail: None }
    }

    /// Adds the part of the next chunk. The transaction that ends in it comes before those that start in it.
    pub(crate) fn join(&mut self, mut later: Self) {
        let places = self.tally.tables.merge(std::mem::take(&mut later.tally.tables));
        let moved = |mut open: Open| {
            open.tables = open.tables.moved(&places);
            open
        };
        match later.head {
            None => {}
            Some(Head::GoesOn(open)) => self.go_on(moved(open)),
            Some(Head::Lost) => {
                self.tally.incomplete += u64::from(self.tail.take().is_some());
            }
            Some(Head::Ends(open)) => {
                self.go_on(moved(open));
                if let Some(whole) = self.tail.take() {
                    self.tally.transaction(&whole);
                }
            }
        }
        self.tally.merge(later.tally, &places);
        if let Some(tail) = later.tail {
            self.tail = Some(moved(tail));
        }
    }

    /// Adds a part to the open transaction. If its start is missing, it counts as a transaction nevertheless: a log can
    /// start in the middle of one.
    fn go_on(&mut self, open: Open) {
        match &mut self.tail {
            Some(tail) => tail.join(open),
            None => self.tail = Some(open),
        }
    }
}

//! Contents of a block, in numbers.

use std::collections::BTreeMap;

use binlog::Event;
use binlog::gtid::GtidSet;

/// Reason for keeping an event whole: its checksum is wrong, so its contents are not known.
pub(crate) const WRONG_CHECKSUM: &str = "wrong checksum";

/// Contents of a block, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSummary {
    /// Number of bytes of the log.
    pub log_size: u64,
    /// Number of events of the log.
    pub events: u64,
    /// Number of events inside payloads that were decompressed.
    pub inner_events: u64,
    /// Number of transactions, by their GTID events.
    pub transactions: u64,
    /// Number of rows in streams.
    pub rows: u64,
    /// Number of compressed payloads whose events are stored without compression by the server.
    pub payloads_opened: u64,
    /// Number of payloads that are kept as they are, because compressing them again gives other bytes.
    pub payloads_kept: u64,
    /// Number of events that are kept whole, by reason.
    pub whole_events: BTreeMap<&'static str, u64>,
    /// Number of bytes that are kept as they are, by reason.
    pub kept: BTreeMap<&'static str, u64>,
    /// Rows of each table in streams, by database and table.
    pub tables: BTreeMap<[Box<[u8]>; 2], u64>,
    /// Set if there are tables that `tables` lacks.
    pub has_unknown_tables: bool,
    /// Number of statements that may change tables, and of events of unknown meaning.
    pub statements: u64,
    /// Set if there are events of a relay log.
    pub is_relay_log: bool,
    /// Transactions of MySQL.
    pub gtids: GtidSet,
    /// First and last number of MariaDB's transactions, by domain.
    pub mariadb_gtids: BTreeMap<u32, (u64, u64)>,
    /// Earliest and latest time in the events' headers, in seconds since 1970.
    pub times: Option<(u32, u32)>,
}

/// Largest number of tables that are listed. Bounds memory, and the size of a manifest.
const TABLES_MAX: usize = 10_000;

impl BlockSummary {
    pub(crate) fn add_table(&mut self, names: &[Box<[u8]>; 2], rows: u64) {
        let has_room = self.tables.len() < TABLES_MAX;
        match self.tables.get_mut(names) {
            Some(known) => *known += rows,
            None if has_room => {
                self.tables.insert(names.clone(), rows);
            }
            None => self.has_unknown_tables = true,
        }
    }

    pub(crate) fn see_time(&mut self, time: u32) {
        // Artificial events and format descriptions of relay logs have no time.
        if time > 0 {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
    }

    pub(crate) fn see_transaction(&mut self, event: &Event<'_>) {
        self.transactions += 1;
        if let Some(gtid) = event.gtid() {
            self.gtids.add(gtid);
        }
        let stamps = match event {
            Event::Gtid(event) | Event::AnonymousGtid(event) => event.stamps,
            Event::GtidTagged(event) => Some(event.stamps),
            _ => None,
        };
        let times = stamps.map(|stamps| [stamps.immediate_commit_us, stamps.original_commit_us]);
        for time in times.into_iter().flatten() {
            self.see_time(u32::try_from(time / 1_000_000).unwrap_or(0));
        }
    }

    pub(crate) fn see_mariadb_transaction(&mut self, body: &[u8]) {
        self.transactions += 1;
        if let Some((number, rest)) = body.split_first_chunk::<8>()
            && let Some(domain) = rest.first_chunk::<4>()
        {
            let number = u64::from_le_bytes(*number);
            let range = self.mariadb_gtids.entry(u32::from_le_bytes(*domain)).or_insert((number, number));
            *range = (range.0.min(number), range.1.max(number));
        }
    }

    /// Adds the contents of a later block.
    pub fn add(&mut self, other: &Self) {
        self.log_size += other.log_size;
        self.events += other.events;
        self.inner_events += other.inner_events;
        self.transactions += other.transactions;
        self.rows += other.rows;
        self.payloads_opened += other.payloads_opened;
        self.payloads_kept += other.payloads_kept;
        for (reason, count) in &other.whole_events {
            *self.whole_events.entry(reason).or_default() += count;
        }
        for (reason, size) in &other.kept {
            *self.kept.entry(reason).or_default() += size;
        }
        other.tables.iter().for_each(|(names, rows)| self.add_table(names, *rows));
        self.has_unknown_tables |= other.has_unknown_tables;
        self.statements += other.statements;
        self.is_relay_log |= other.is_relay_log;
        self.gtids.add_all(&other.gtids);
        for (domain, (first, last)) in &other.mariadb_gtids {
            let range = self.mariadb_gtids.entry(*domain).or_insert((*first, *last));
            *range = (range.0.min(*first), range.1.max(*last));
        }
        for time in other.times.into_iter().flat_map(|(first, last)| [first, last]) {
            self.see_time(time);
        }
    }
}

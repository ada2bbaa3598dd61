//! The transactions of a store: the identifier, position and content hash of each.

use std::collections::HashMap;
use std::path::Path;

use binlog::TransactionId;
use binlog::events::{MariadbGtid, MariadbGtidList};
use binlog::gtid::{Gno, Gtid, GtidSet, Tsid};
use logs::{GtidSelection, split_log_number};

use crate::content_hash::ContentHash;
use crate::content_scanner::{EventLocation, ScanNotice, ScannedStart};
use crate::error::DiffError;
use crate::store_reader::{DiffStore, ReadDemand, ScanMonitor, StoreReader};
use crate::transaction_ranges::PurgedTransactions;

/// The transactions of a store, in the order of its logs.
#[derive(Debug, Default)]
pub(crate) struct TransactionIndex {
    pub(crate) sources: Vec<GtidOrigin>,
    pub(crate) entries: Vec<IndexEntry>,
    pub(crate) purged: PurgedTransactions,
    /// Remarks about ends of logs.
    pub(crate) remarks: Vec<String>,
    /// Transactions without an end.
    pub(crate) incomplete: u64,
    /// The selected GTIDs that the store has; empty if all are selected.
    pub(crate) selected: GtidSet,
}

/// Origin of transactions: their identifier without the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum GtidOrigin {
    MySql(Tsid),
    Mariadb {
        domain_id: u32,
        server_id: u32,
    },
    /// Transactions without GTIDs.
    Nameless,
}

/// A transaction of a store. Small, because stores have many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexEntry {
    /// Halves of the content's hash.
    pub(crate) hash: [u64; 2],
    pub(crate) number: u64,
    offset: u64,
    log: u32,
    /// Index of the origin.
    pub(crate) source: u32,
}

const _: () = assert!(size_of::<IndexEntry>() == 40, "documented");

/// Maximum number of transactions in a store.
const ENTRIES_MAX: usize = u32::MAX as usize;

impl IndexEntry {
    pub(crate) const fn location(&self) -> EventLocation {
        EventLocation { log: self.log, offset: self.offset }
    }
}

impl GtidOrigin {
    const fn of(id: TransactionId) -> (Self, u64) {
        match id {
            TransactionId::Gtid(Gtid { tsid, gno }) => (Self::MySql(tsid), gno.get()),
            TransactionId::Mariadb(MariadbGtid { domain_id, server_id, sequence_number }) => {
                (Self::Mariadb { domain_id, server_id }, sequence_number)
            }
            _ => (Self::Nameless, 0),
        }
    }

    /// Returns the identifier of a transaction of this origin.
    pub(crate) fn id(self, number: u64) -> TransactionId {
        match self {
            Self::MySql(tsid) => {
                Gno::new(number).map_or(TransactionId::Unsaid, |gno| TransactionId::Gtid(Gtid { tsid, gno }))
            }
            Self::Mariadb { domain_id, server_id } => {
                TransactionId::Mariadb(MariadbGtid { domain_id, server_id, sequence_number: number })
            }
            Self::Nameless => TransactionId::Unsaid,
        }
    }

    /// Returns the domain within which servers keep the order of transactions.
    pub(crate) const fn domain(self) -> u32 {
        match self {
            Self::Mariadb { domain_id, .. } => domain_id,
            Self::MySql(_) | Self::Nameless => 0,
        }
    }
}

impl TransactionIndex {
    /// Reads a store.
    pub(crate) fn read(
        store: &DiffStore,
        gtids: &GtidSelection,
        monitor: &ScanMonitor,
    ) -> Result<Self, DiffError> {
        let count = u32::try_from(store.logs.len());
        let count =
            count.map_err(|_| DiffError::TooMany { name: store.name.clone(), max: ENTRIES_MAX as u64 })?;
        let mut reader = StoreReader::new(store, monitor);
        let mut builder = IndexBuilder::new(gtids);
        for number in 0..count {
            builder.begin_log(store, number);
            let torn = reader
                .read_log(number, None, &mut |notice| builder.take(notice), &mut || ReadDemand::More)?;
            builder.index.remarks.extend(torn);
            if builder.index.entries.len() > ENTRIES_MAX {
                return Err(DiffError::TooMany { name: store.name.clone(), max: ENTRIES_MAX as u64 });
            }
        }
        builder.index.incomplete += u64::from(reader.scanner.open().is_some());
        Ok(builder.index)
    }

    pub(crate) fn id(&self, entry: &IndexEntry) -> TransactionId {
        let source = self.sources.get(entry.source as usize);
        source.map_or(TransactionId::Unsaid, |source| source.id(entry.number))
    }

    pub(crate) fn source(&self, entry: &IndexEntry) -> GtidOrigin {
        self.sources.get(entry.source as usize).copied().unwrap_or(GtidOrigin::Nameless)
    }
}

/// Builds the index of a store.
#[derive(Debug)]
struct IndexBuilder<'g> {
    gtids: &'g GtidSelection,
    index: TransactionIndex,
    source_indexes: HashMap<GtidOrigin, u32>,
    /// Hash of the open transaction's parts so far.
    hash: ContentHash,
    /// GTIDs in the logs so far, and before them.
    known: GtidSet,
    log: LogSuccession,
}

/// Relation of the current log to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogSuccession {
    First,
    /// Directly after the previous log, by their names.
    Follows,
    /// After a gap.
    AfterGap,
}

impl<'g> IndexBuilder<'g> {
    fn new(gtids: &'g GtidSelection) -> Self {
        Self {
            gtids,
            index: TransactionIndex::default(),
            source_indexes: HashMap::new(),
            hash: ContentHash::default(),
            known: GtidSet::new(),
            log: LogSuccession::First,
        }
    }

    fn begin_log(&mut self, store: &DiffStore, number: u32) {
        let log = |number: usize| store.logs.get(number).map(|path| path.as_path());
        let number = number as usize;
        self.log = match number.checked_sub(1).map(|before| (log(before), log(number))) {
            None => LogSuccession::First,
            Some((Some(before), Some(log))) if is_directly_before(before, log) => LogSuccession::Follows,
            Some(_) => LogSuccession::AfterGap,
        };
    }

    fn take(&mut self, notice: ScanNotice<'_>) {
        match notice {
            ScanNotice::PreviousGtids(previous) => self.record_previous(&previous),
            ScanNotice::MariadbGtidList(list) => self.record_gtid_list(&list),
            ScanNotice::Part(part) => self.hash = self.hash.followed_by(part.hash),
            ScanNotice::End(start) => self.end(start),
            ScanNotice::Discard => {
                self.hash = ContentHash::default();
                self.index.incomplete += 1;
            }
        }
    }

    fn end(&mut self, ScannedStart { id, location }: ScannedStart) {
        let hash = std::mem::take(&mut self.hash).halves();
        if let TransactionId::Gtid(gtid) = id {
            self.known.add(gtid);
        }
        if !self.gtids.selects(Some(id)) {
            return;
        }
        if let (TransactionId::Gtid(gtid), Some(_)) = (id, &self.gtids.included) {
            self.index.selected.add(gtid);
        }
        let (origin, number) = GtidOrigin::of(id);
        let sources = &mut self.index.sources;
        let source = *self.source_indexes.entry(origin).or_insert_with(|| {
            sources.push(origin);
            sources.len() as u32 - 1
        });
        let EventLocation { log, offset } = location;
        self.index.entries.push(IndexEntry { hash, number, offset, log, source });
    }

    /// Takes the GTIDs before a log. `SET GLOBAL gtid_purged` on a running server can add GTIDs between two logs.
    fn record_previous(&mut self, previous: &GtidSet) {
        if self.log != LogSuccession::AfterGap {
            self.index.purged.gtids.add_all(&previous.difference(&self.known));
        }
        self.known.add_all(previous);
    }

    fn record_gtid_list(&mut self, list: &MariadbGtidList<'_>) {
        if self.log == LogSuccession::First {
            let last = list.iter().map(|gtid| ((gtid.domain_id, gtid.server_id), gtid.sequence_number));
            self.index.purged.mariadb.extend(last);
        }
    }
}

fn log_number(path: &Path) -> Option<(&str, u64)> {
    path.to_str().and_then(split_log_number)
}

/// Returns whether a log directly follows another by its name.
fn is_directly_before(before: &Path, after: &Path) -> bool {
    match (log_number(before), log_number(after)) {
        (Some((base, number)), Some((next_base, next))) => {
            before.parent() == after.parent() && base == next_base && number.checked_add(1) == Some(next)
        }
        _ => false,
    }
}

//! Manifests: what an archive knows of each log. A log is archived once its manifest exists.

use std::collections::BTreeMap;

use binlog::gtid::GtidSet;
use logs::ArchivedContents;
use serde::{Deserialize, Serialize};

use crate::block_summary::{BlockSummary, WRONG_CHECKSUM};
use crate::change_tables::ManifestTables;
use crate::log_block::OpaqueReason;
use crate::segment::{SEGMENT_FORMAT, SegmentSummary};

/// Manifest of an archived log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of the segment.
    pub format: u8,
    /// Name of the log's file.
    pub log: String,
    /// Size of the log's file in bytes.
    pub size: u64,
    /// SHA-256 of the log's file.
    pub sha256: String,
    /// SHA-256 of the first bytes of the file, up to [`FRONT_SIZE`]. It identifies the log without reading all of it.
    pub front_sha256: String,
    /// SHA-256 of the decrypted log, without its header; only for encrypted logs that are stored decrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain_sha256: Option<String>,
    /// Object with the segment, from the archive's prefix on.
    pub segment: String,
    /// Size of the segment's object in bytes.
    pub segment_size: u64,
    /// SHA-256 of the segment's object.
    pub segment_sha256: String,
    /// Name of the key with which the segment is encrypted; `None` if it is plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment_key: Option<String>,
    /// Transactions of MySQL.
    pub gtids: String,
    /// First and last number of MariaDB's transactions, by domain.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mariadb_gtids: BTreeMap<u32, (u64, u64)>,
    /// Earliest and latest time of events and commits, in seconds since 1970.
    pub times: Option<(u32, u32)>,
    /// Time at which the log was archived, in seconds since 1970.
    pub archived_at: i64,
    /// Version of bintide.
    pub bintide: String,
    /// Version of libzstd. Payloads that were decompressed come back byte for byte only with a version that compresses
    /// in the same way.
    pub libzstd: u32,
    /// Contents of the log, in numbers.
    pub statistics: ManifestStatistics,
    /// Tables whose rows the log changes, and its statements; `None` if not all are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<ChangedTables>,
    /// Change tables of the log; `None` if they were not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_tables: Option<ManifestTables>,
}

/// Object with a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestSegment {
    /// Name, from the archive's prefix on.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256.
    pub sha256: String,
    /// Name of the key with which it is encrypted; `None` if it is plain.
    pub key: Option<String>,
}

/// Tables whose rows a log changes, and statements that may change more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTables {
    /// Tables, by database and name.
    pub tables: Vec<ChangedTable>,
    /// Number of statements except those that begin or end transactions, and of events of unknown meaning.
    pub statements: u64,
    /// Set if the log is a relay log, whose transactions may continue in the next log.
    pub relay_log: bool,
}

/// Table whose rows a log changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTable {
    /// Database.
    pub database: String,
    /// Name.
    pub table: String,
    /// Number of rows that are stored column by column.
    pub rows: u64,
}

impl ChangedTables {
    /// Returns the changed tables of a log; `None` if some are not known: in parts that are kept as they are, with names
    /// that are not UTF-8, or too many.
    fn of(content: &BlockSummary) -> Option<Self> {
        let is_known = content.events > 0
            && !content.has_unknown_tables
            && content.payloads_kept == 0
            && content.whole_events.is_empty()
            && content.kept.is_empty();
        if !is_known {
            return None;
        }
        let text = |name: &[u8]| str::from_utf8(name).ok().map(str::to_owned);
        let table = |([database, table], rows): (&[Box<[u8]>; 2], &u64)| {
            Some(ChangedTable { database: text(database)?, table: text(table)?, rows: *rows })
        };
        let tables = content.tables.iter().map(table).collect::<Option<_>>()?;
        Some(Self { tables, statements: content.statements, relay_log: content.is_relay_log })
    }
}

/// Contents of a log, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestStatistics {
    /// Number of events.
    pub events: u64,
    /// Number of transactions.
    pub transactions: u64,
    /// Number of rows that are stored column by column.
    pub rows: u64,
    /// Number of payloads that are stored decompressed.
    pub payloads_decompressed: u64,
    /// Number of payloads that are kept as they are.
    pub payloads_kept: u64,
    /// Number of events that are kept whole, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub whole_events: BTreeMap<String, u64>,
    /// Number of bytes that are kept as they are, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept_bytes: BTreeMap<String, u64>,
}

/// Number of bytes at the start of a log that identify it.
pub const FRONT_SIZE: usize = 4096;

impl Manifest {
    /// Creates the manifest of a segment.
    pub fn new(log: &str, front_sha256: String, segment: ManifestSegment, summary: &SegmentSummary) -> Self {
        let content = &summary.content;
        let named = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        Self {
            format: SEGMENT_FORMAT,
            log: log.to_owned(),
            size: summary.file_size,
            sha256: summary.file_digest.clone(),
            front_sha256,
            plain_sha256: summary.plain_digest.clone(),
            segment: segment.name,
            segment_size: segment.size,
            segment_sha256: segment.sha256,
            segment_key: segment.key,
            gtids: content.gtids.to_string(),
            mariadb_gtids: content.mariadb_gtids.clone(),
            times: content.times,
            archived_at: jiff::Timestamp::now().as_second(),
            bintide: env!("CARGO_PKG_VERSION").to_owned(),
            libzstd: zstd_safe::version_number(),
            statistics: ManifestStatistics {
                events: content.events,
                transactions: content.transactions,
                rows: content.rows,
                payloads_decompressed: content.payloads_opened,
                payloads_kept: content.payloads_kept,
                whole_events: named(&content.whole_events),
                kept_bytes: named(&content.kept),
            },
            changed: ChangedTables::of(content),
            change_tables: None,
        }
    }

    /// Returns the size of the segment and the change tables in bytes.
    pub fn stored_size(&self) -> u64 {
        let tables = self.change_tables.as_ref().map_or(0, ManifestTables::size);
        self.segment_size.saturating_add(tables)
    }

    /// Returns the transactions of MySQL.
    pub fn gtid_set(&self) -> Option<GtidSet> {
        self.gtids.parse().ok()
    }

    /// Returns what is known of the log without reading it.
    pub fn contents(&self) -> ArchivedContents {
        let is_known = self.describes_all_events();
        ArchivedContents {
            size: self.size,
            transactions: self.statistics.transactions,
            gtids: self.gtid_set().filter(|_| is_known),
            times: self.times.filter(|_| is_known),
            tables: self.changed.as_ref().filter(|changed| changed.statements == 0).map(|changed| {
                let tables = changed.tables.iter();
                tables.map(|table| [table.database.clone(), table.table.clone()]).collect()
            }),
            is_whole: is_known
                && self.statistics.whole_events.is_empty()
                && self.statistics.kept_bytes.keys().all(|reason| reason == OpaqueReason::LargeEvent.name()),
            has_whole_transactions: self.changed.as_ref().is_some_and(|changed| !changed.relay_log),
        }
    }

    /// Returns whether the GTIDs and times are those of all events in the log. Nothing is known of events with a wrong
    /// checksum, and of bytes that were stored unchanged, except of a torn event, which is no part of a transaction, and
    /// of a large event, whose GTID is in an event of its own.
    fn describes_all_events(&self) -> bool {
        let known = [OpaqueReason::Torn.name(), OpaqueReason::LargeEvent.name()];
        self.statistics.events > 0
            && !self.statistics.whole_events.contains_key(WRONG_CHECKSUM)
            && self.statistics.kept_bytes.keys().all(|reason| known.contains(&reason.as_str()))
    }
}

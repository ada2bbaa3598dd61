//! Manifests: what an archive knows of each log. A log is archived once its manifest exists.

use std::collections::BTreeMap;

use binlog::gtid::GtidSet;
use logs::ArchivedContents;
use serde::{Deserialize, Serialize};

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
    /// Size of the segment in bytes.
    pub segment_size: u64,
    /// SHA-256 of the segment.
    pub segment_sha256: String,
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
    /// Change tables of the log; `None` if they were not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_tables: Option<ManifestTables>,
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
    pub fn new(log: &str, front_sha256: String, segment: String, summary: &SegmentSummary) -> Self {
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
            segment,
            segment_size: summary.segment_size,
            segment_sha256: summary.segment_digest.clone(),
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
        }
    }

    /// Returns whether the GTIDs and times are those of all events in the log. Nothing is known of bytes that were stored
    /// unchanged, except of a torn event, which is no part of a transaction, and of a large event, whose GTID is in an
    /// event of its own.
    fn describes_all_events(&self) -> bool {
        let known = [OpaqueReason::Torn.name(), OpaqueReason::LargeEvent.name()];
        self.statistics.events > 0
            && self.statistics.kept_bytes.keys().all(|reason| known.contains(&reason.as_str()))
    }
}

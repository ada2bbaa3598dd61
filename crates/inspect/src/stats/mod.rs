//! Statistics of logs: transactions, rows and bytes, by table, size and time.

mod breakdown;
mod chunk_counter;
mod collect;
mod commit_rate;
mod compression;
mod compression_counter;
mod event_address;
mod gtid_collector;
mod log_time;
mod report;
mod size_histogram;
mod stats_selection;
mod stats_tally;
mod tables;
mod top_list;
mod transaction_tally;

pub use breakdown::{Breakdown, BreakdownGroup, BreakdownKind, GroupCounts, GroupKey, WriterKey};
pub use collect::{ChecksumVerification, StatsSettings, collect};
pub use commit_rate::{BucketCounts, TimeSeries};
pub use compression::{CompressionRow, CompressionType, LogType};
pub use compression_counter::CompressionCounter;
pub use log_time::LogTime;
pub use report::{
    CommitSpan, GtidReport, LogEnd, LogStats, StatsReport, StatsTotals, TransactionReport, TransactionTable,
    TypeReport,
};
pub use size_histogram::{SizeClass, class_bytes_max, size_class};
pub use stats_selection::StatsSelection;
pub use tables::{ChangeTotals, RowChangeCounts, RowOperation, TableAmounts, TableMapCounts};

//! Statistics of logs: transactions, rows and bytes, by table, size and time.

mod collect;
mod compression;
mod counted;
mod counter;
mod gtids;
mod open;
mod place;
mod rate;
mod report;
mod sizes;
mod tables;
mod tally;
mod top;
mod when;

pub use collect::{Settings, collect};
pub use compression::{CompressionRow, CompressionType, LogType};
pub use counted::CompressionCounter;
pub use rate::{Counts, Series};
pub use report::{
    GtidReport, LogEnd, LogReport, Report, Span, Totals, TransactionReport, TransactionTable, TypeReport,
};
pub use sizes::SizeClass;
pub(crate) use sizes::{class_bytes_max, size_class};
pub use tables::{Amount, Change, Changes, Maps, TableAmounts};
pub use when::Moment;

//! History of a row: all changes of one row, from its creation on, also if its key changed.
//!
//! The newest log is read first. As soon as it is known which row is meant, earlier changes are those that led to its
//! state: a change of the key is followed to the key before. Reading ends at the INSERT of the row. If the row got
//! another key after the changes that were found, later logs are read again for this key.
//!
//! Where changes may be missed, a [`HistoryGap`] says so.

mod history_gap;
mod row_history;
mod row_search;
mod row_tracer;
mod table_statement;

pub use self::history_gap::{HistoryGap, HistoryGaps};
pub use self::row_history::{
    HistoryBeginning, HistoryChange, HistoryEntry, HistorySettings, HistoryValue, RowHistory,
};
pub use self::row_tracer::row_history;

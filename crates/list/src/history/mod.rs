//! History of a row: all changes of one row, from its creation on, also if its key changed.
//!
//! The search reads the newest log first. Once it has identified the row, it follows the changes that led to the row's
//! state: at a change of the key, it continues with the previous key. The search ends at the INSERT of the row. If the
//! row later got another key, it reads the later logs again for that key.
//!
//! In a table without a primary key, no row can be followed: the history has all changes that meet the conditions.
//!
//! Where changes may be missed, a [`HistoryGap`] says so.

mod history_gap;
mod row_history;
mod row_search;
mod row_tracer;
mod table_completion;
mod table_statement;

pub use self::history_gap::{HistoryGap, HistoryGaps};
pub use self::row_history::{
    HistoryBeginning, HistoryChange, HistoryEntry, HistorySettings, HistoryValue, RowHistory, RowKey,
};
pub use self::row_tracer::row_history;
pub use self::table_completion::TableCompletion;

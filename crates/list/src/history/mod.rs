//! History of a row: all changes of one row, from its creation on, also if its key changed.
//!
//! The search reads the newest log first. Once it has identified the row, it follows the changes that led to the row's
//! state: at a change of the key, it continues with the previous key. The search ends at the INSERT of the row. If the
//! row later got another key, it reads the later logs again for that key.
//!
//! In a table without a primary key, no row can be followed: the history has all changes that meet the conditions.
//!
//! Changes of XA transactions that were rolled back, or neither committed nor rolled back, are left out.
//!
//! Where changes may be missed, a [`HistoryGap`] says so.

mod history_gap;
mod row_history;
mod row_search;
mod row_tracer;
mod table_completion;
mod table_statement;
mod xa_outcomes;

use logs::ordered::PipelineLimits;

pub use self::history_gap::{HistoryGap, HistoryGaps};
pub use self::row_history::{
    HistoryBeginning, HistoryChange, HistoryEntry, HistorySettings, HistoryValue, RowHistory, RowKey,
};
pub use self::row_tracer::row_history;
pub use self::table_completion::TableCompletion;
use crate::IN_FLIGHT_MAX;
use crate::event_range::EventRange;
use crate::list_settings::{ChecksumPolicy, ListDamagePolicy, PAYLOAD_SIZE_LARGE};
use crate::log_walk::ListWalk;

/// Returns the walk over a whole log that ends at damage.
fn history_walk(settings: &HistorySettings) -> ListWalk {
    ListWalk {
        range: EventRange::default(),
        bounds: PipelineLimits { workers: settings.jobs, bytes: IN_FLIGHT_MAX },
        checksums: ChecksumPolicy::Verify,
        damage: ListDamagePolicy::Stop,
        keyring: settings.keyring.clone(),
        payload_size_large: PAYLOAD_SIZE_LARGE,
    }
}

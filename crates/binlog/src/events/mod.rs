//! Views of event bodies, with one file per event.
//!
//! Views borrow from the bytes they were decoded from. Names and layouts follow MySQL's sources. Each file shows the
//! layout above the decoder.

mod delete_file;
mod execute_load_query;
pub(crate) mod format_description;
mod gtid;
mod gtid_tagged;
mod heartbeat;
mod incident;
mod intvar;
mod load_block;
mod mariadb;
mod opaque;
mod option_flag;
mod previous_gtids;
mod query;
mod rand;
mod rotate;
mod rows;
mod rows_query;
mod stop;
mod table_map;
mod transaction_context;
mod transaction_payload;
mod user_var;
mod view_change;
mod xa_prepare;
mod xid;

pub use self::delete_file::DeleteFile;
pub use self::execute_load_query::{DuplicateHandling, ExecuteLoadQuery};
pub use self::format_description::FormatDescription;
pub use self::gtid::{CommitStamps, GtidEvent, GtidLayout, LogicalClock};
pub use self::gtid_tagged::GtidTagged;
pub use self::heartbeat::{Heartbeat, HeartbeatV2};
pub use self::incident::Incident;
pub use self::intvar::{Intvar, IntvarKind};
pub use self::load_block::LoadBlock;
pub use self::mariadb::{
    MariadbAnnotateRows, MariadbBinlogCheckpoint, MariadbGtid, MariadbGtidDetails, MariadbGtidError,
    MariadbGtidEvent, MariadbGtidList, MariadbQueryCompressed, MariadbRowsCompressed, MariadbStartEncryption,
};
pub use self::opaque::{Opaque, Unknown};
pub use self::option_flag::{OptionFlag, OptionFlagMeaning};
pub use self::previous_gtids::PreviousGtids;
pub use self::query::{DatabaseNames, Query, StatusVar, StatusVars};
pub use self::rand::Rand;
pub use self::rotate::Rotate;
pub use self::rows::{ColumnSet, Rows, RowsFlags, RowsKind};
pub use self::rows_query::RowsQuery;
pub use self::stop::Stop;
pub use self::table_map::TableMap;
pub(crate) use self::table_map::table_id;
pub use self::transaction_context::TransactionContext;
pub use self::transaction_payload::{PayloadCompression, PayloadFields, TransactionPayload};
pub use self::user_var::{UserVar, UserVarValue};
pub use self::view_change::ViewChange;
pub use self::xa_prepare::{XaPrepare, XaXid};
pub use self::xid::Xid;

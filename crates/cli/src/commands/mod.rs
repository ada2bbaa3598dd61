//! Commands: one module for each.

pub(crate) mod advise;
#[cfg(feature = "archive")]
pub(crate) mod archive;
pub(crate) mod completions;
pub(crate) mod diff;
pub(crate) mod dump;
#[cfg(feature = "columns")]
pub(crate) mod export;
pub(crate) mod history;
pub(crate) mod man;
pub(crate) mod receive;
pub(crate) mod relay;
pub(crate) mod replay;
pub(crate) mod rewrite;
pub(crate) mod stats;
pub(crate) mod stream;
pub(crate) mod table_args;
pub(crate) mod top;
pub(crate) mod undo;
pub(crate) mod verify;
pub(crate) mod warm;

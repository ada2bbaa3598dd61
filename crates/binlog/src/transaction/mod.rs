//! Transactions in a log: their boundaries, their outlines, and whole transactions.

mod clock_shift;
mod compression;
mod event_role;
mod transaction_assembler;
mod transaction_grammar;
mod transaction_outline;
mod transaction_verb;

pub use self::clock_shift::ClockShift;
pub use self::compression::{
    CompressionCheck, CompressionRefusal, GtidMove, GtidRewriteError, put_gtid_renumbered, put_gtid_resized,
};
pub use self::event_role::EventRole;
pub use self::transaction_assembler::{AssembleError, Transaction, TransactionAssembler};
pub use self::transaction_grammar::{EventPlace, GrammarFault, GrammarLoss, GrammarStep, TransactionGrammar};
pub use self::transaction_outline::{
    TrackError, TrackFault, TrackedEvent, TransactionId, TransactionKind, TransactionOutline,
    TransactionTracker,
};
pub use self::transaction_verb::TransactionVerb;

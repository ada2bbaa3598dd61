//! Transactions in a log: their boundaries, their outlines, and whole transactions.

mod assembler;
mod clock;
mod compression;
mod grammar;
mod outline;
mod role;
mod verb;

pub use self::assembler::{AssembleError, Transaction, TransactionAssembler};
pub use self::clock::ClockShift;
pub use self::compression::{
    CompressionCheck, CompressionRefusal, GtidMove, GtidRewriteError, put_gtid_renumbered, put_gtid_resized,
};
pub use self::grammar::{EventPlace, GrammarFault, GrammarLoss, GrammarStep, TransactionGrammar};
pub use self::outline::{
    TrackError, TrackFault, TrackedEvent, TransactionId, TransactionKind, TransactionOutline,
    TransactionTracker,
};
pub use self::role::EventRole;
pub use self::verb::TransactionVerb;

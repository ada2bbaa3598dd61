//! Transactions in a log: their boundaries, their outlines, and whole transactions.

mod assembler;
mod clock;
mod compression;
mod grammar;
mod outline;
mod role;
mod verb;

pub use self::assembler::{AssembleError, Assembler, Transaction};
pub use self::clock::ClockShift;
pub use self::compression::{Candidate, Refusal, ResizeError, put_gtid_renumbered, put_gtid_resized};
pub use self::grammar::{Fault, Grammar, Lost, Place, Step};
pub use self::outline::{Outline, TrackError, TrackFault, Tracked, Tracker, TransactionId, TransactionKind};
pub use self::role::Role;
pub use self::verb::Verb;

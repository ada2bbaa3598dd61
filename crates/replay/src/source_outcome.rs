//! Outcome of a statement on its source, by the error code in its event.

use crate::replay_error::TargetFailure;
use binlog::server_error::LOCK_WAIT_TIMEOUT;

/// Outcome of a statement on its source. The classes are those of the server's own applier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceOutcome {
    /// The statement succeeded.
    Success,
    /// The statement failed with this error, for a reason in the statement or its data: it fails on the target, too.
    Failure(u16),
    /// The statement failed with this error because of other sessions, or a replication filter. It may succeed on the
    /// target; its effect on transactional tables must be rolled back there.
    RolledBack(u16),
    /// The statement ended early with this error: its client, its server or its connection was stopped. Its effect may
    /// be partial.
    Interruption(u16),
}

/// Errors of a statement that was stopped: `unexpected_error_code` of MySQL and MariaDB.
const INTERRUPTIONS: [u16; 7] = [
    1053, // ER_SERVER_SHUTDOWN
    1158, // ER_NET_READ_ERROR
    1160, // ER_NET_ERROR_ON_WRITE
    1184, // ER_NEW_ABORTING_CONNECTION
    1317, // ER_QUERY_INTERRUPTED
    1927, // ER_CONNECTION_KILLED (MariaDB)
    1969, // ER_STATEMENT_TIMEOUT (MariaDB)
];

/// Errors whose statement the server's applier rolls back if it succeeds there: `concurrency_error_code`, and the one
/// error that `ignored_error_code` contains without an option.
const ROLLED_BACK: [u16; 4] = [
    LOCK_WAIT_TIMEOUT,
    1213, // ER_LOCK_DEADLOCK
    1614, // ER_XA_RBDEADLOCK
    1237, // ER_REPLICA_IGNORED_TABLE
];

impl SourceOutcome {
    /// Returns the outcome that this error code of an event means.
    pub fn of(error_code: u16) -> Self {
        match error_code {
            0 => Self::Success,
            code if INTERRUPTIONS.contains(&code) => Self::Interruption(code),
            code if ROLLED_BACK.contains(&code) => Self::RolledBack(code),
            code => Self::Failure(code),
        }
    }

    /// Refuses a statement that was interrupted on the source: no target can repeat its partial effect.
    ///
    /// # Errors
    ///
    /// Fails if the statement was interrupted.
    pub fn check_complete(self) -> Result<(), TargetFailure> {
        let Self::Interruption(code) = self else { return Ok(()) };
        Err(TargetFailure::refused(format!(
            "the statement was interrupted on the source (error {code}), and its effect there may be partial. Compare \
             its tables with the source, make the same changes on the target, and exclude the transaction with \
             --exclude-gtids"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::SourceOutcome::{self, Failure, Interruption, RolledBack, Success};

    #[test]
    fn error_codes_have_the_classes_of_the_servers_applier() {
        check(0, Success);
        check(1051, Failure(1051));
        check(1062, Failure(1062));
        // ER_ABORTING_CONNECTION, and ER_QUERY_TIMEOUT of MySQL.
        check(1152, Failure(1152));
        check(3024, Failure(3024));
        for code in [1205, 1213, 1614, 1237] {
            check(code, RolledBack(code));
        }
        for code in [1053, 1158, 1160, 1184, 1317, 1927, 1969] {
            check(code, Interruption(code));
        }
    }

    #[test]
    fn only_interrupted_statements_are_refused() {
        for code in [0, 1051, 1062, 1205] {
            assert!(SourceOutcome::of(code).check_complete().is_ok(), "{code}");
        }
        let refusal = SourceOutcome::of(1317).check_complete().unwrap_err();
        assert!(refusal.message.contains("error 1317"), "{}", refusal.message);
    }

    fn check(code: u16, expected: SourceOutcome) {
        assert_eq!(SourceOutcome::of(code), expected, "{code}");
    }
}

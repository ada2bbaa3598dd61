//! The form in which row changes are sent.

/// The form in which row changes are sent to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApplyAs {
    /// As events if the server and the account allow it, otherwise as statements.
    #[default]
    Auto,
    /// As their own events, in `BINLOG` statements.
    Binlog,
    /// As `INSERT`, `UPDATE` and `DELETE` statements with parameters.
    Sql,
}

/// Reason why row changes are sent as statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqlApplyReason {
    /// The caller requested statements.
    Requested,
    /// The server is MariaDB.
    MariaDb,
    /// The account lacks the privilege to send events.
    MissingPrivilege,
}

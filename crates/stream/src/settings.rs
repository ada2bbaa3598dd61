//! Settings of a stream.

use filter::Filter;

use crate::plan::Nameless;

/// Settings of a stream.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Format of the records.
    pub envelope: Envelope,
    /// Databases and tables to stream.
    pub filter: Filter,
    /// Treatment of columns whose names the log lacks.
    pub nameless: Nameless,
    /// Treatment of changes logged as statements.
    pub statements: Statements,
    /// Inclusion of the original statement in records.
    pub queries: Queries,
    /// Name of the source in every record: Debezium's topic prefix.
    pub name: String,
    /// Program version in every Debezium record.
    pub version: String,
}

/// Format of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// Format of Debezium's MySQL connector.
    Debezium,
    /// Format of Maxwell.
    Maxwell,
}

impl Envelope {
    /// Returns `debezium` or `maxwell`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Debezium => "debezium",
            Self::Maxwell => "maxwell",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        [Self::Debezium, Self::Maxwell].into_iter().find(|envelope| envelope.name() == name)
    }
}

/// Treatment of changes logged as statements, without the rows that they change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statements {
    /// Return an error.
    #[default]
    Refused,
    /// Skip them.
    Skipped,
}

/// Inclusion of the original statement in records, if the source logs it (`binlog_rows_query_log_events`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queries {
    /// Leave it out, as Debezium and Maxwell do by default.
    #[default]
    Untold,
    /// Include it.
    Told,
}

//! How changes are told.

use filter::Filter;

use crate::plan::Nameless;

/// How changes are told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// In whose form.
    pub envelope: Envelope,
    /// Which databases and tables are meant.
    pub filter: Filter,
    /// What columns are called that the log has no names for.
    pub nameless: Nameless,
    /// What becomes of changes that are in the log as statements.
    pub statements: Statements,
    /// Whether records say the statement that changed their row.
    pub queries: Queries,
    /// What Debezium calls the topic prefix: the source's name in every record.
    pub name: String,
    /// The program's version, in every record of Debezium's.
    pub version: String,
}

/// In whose form changes are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// Debezium's, as its MySQL connector has it.
    Debezium,
    /// Maxwell's.
    Maxwell,
}

impl Envelope {
    /// `debezium` or `maxwell`
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

/// What becomes of changes that are in the log as statements: which rows they change it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statements {
    /// They are an error.
    #[default]
    Refused,
    /// They are passed over.
    Skipped,
}

/// Whether records say the statement that changed their row, where the source logs it
/// (`binlog_rows_query_log_events`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queries {
    /// They do not, as the tools where nothing else is configured.
    #[default]
    Untold,
    /// They do.
    Told,
}

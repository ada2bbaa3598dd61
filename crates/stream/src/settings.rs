//! Settings of a stream.

use std::sync::Arc;

use sql::ReplicationFilter;

use crate::column_rules::ColumnRules;
use crate::table_plan::UnnamedColumnPolicy;
use crate::value_modes::ValueModes;

/// Settings of a stream.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// Format of the records.
    pub envelope: Envelope,
    /// Databases and tables to stream.
    pub filter: ReplicationFilter,
    /// Form of values in Debezium's records.
    pub modes: ValueModes,
    /// Selection, masks and keys of columns in Debezium's records.
    pub rules: Arc<ColumnRules>,
    /// Treatment of columns whose names the log lacks.
    pub unnamed_columns: UnnamedColumnPolicy,
    /// Treatment of changes logged as statements.
    pub statements: StatementPolicy,
    /// Inclusion of the original statement in records.
    pub query_text: QueryText,
    /// Schemas of the records.
    pub schemas: SchemaPolicy,
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

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Debezium, Self::Maxwell].into_iter().find(|envelope| envelope.name() == name)
    }
}

/// Treatment of changes logged as statements, without the rows that they change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatementPolicy {
    /// Return an error.
    #[default]
    Refuse,
    /// Skip them.
    Skip,
}

/// Schemas of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaPolicy {
    /// They are not needed.
    #[default]
    Omit,
    /// They are needed. The catalogue tells the default values of columns, which the log lacks.
    Describe,
}

/// Inclusion of the original statement in records, if the source logs it (`binlog_rows_query_log_events`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryText {
    /// Leave it out, as Debezium and Maxwell do by default.
    #[default]
    Omit,
    /// Include it.
    Include,
}

//! `--require-row-format`: allows rows, and statements that change no rows.

use binlog::{Event, EventType};

use super::transaction_word::TransactionWord;

/// State of the current transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RowFormatState {
    #[default]
    Outside,
    /// After the GTID.
    Begun,
    /// After variables for a statement.
    BeforeStatement,
    /// In a transaction of several statements.
    Inside,
}

/// Role of an event in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowFormatRole {
    Gtid,
    Begin,
    End,
    Statement,
    Variable,
    Payload,
    None,
}

/// Statements allowed inside a transaction because they change no rows. CREATE TABLE is one of them: CREATE TABLE ...
/// SELECT logs the table and its rows in one transaction.
const CONTROL_STATEMENTS: [&str; 4] = ["XA END", "XA PREPARE", "SAVEPOINT", "CREATE TABLE"];

impl RowFormatState {
    /// Advances the state by one event. Returns whether the event is allowed.
    pub(super) fn admit(&mut self, event_type: EventType, event: &Event<'_>) -> bool {
        let role = RowFormatRole::of(event);
        *self = self.after(role);
        let sql = match event {
            Event::Query(query) => query.sql,
            _ => b"",
        };
        let starts = |word: &str| {
            sql.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        match (role, event_type) {
            // User variables are allowed before a statement: DDL may use them too.
            (RowFormatRole::Variable, _) => {
                event_type == EventType::UserVar && *self == Self::BeforeStatement
            }
            (
                _,
                EventType::BeginLoadQuery
                | EventType::ExecuteLoadQuery
                | EventType::AppendBlock
                | EventType::DeleteFile,
            ) => false,
            (RowFormatRole::Statement, EventType::Query) if is_temporary(sql) => false,
            (RowFormatRole::Statement, EventType::Query) => {
                *self != Self::Inside || CONTROL_STATEMENTS.into_iter().any(starts)
            }
            _ => true,
        }
    }

    fn after(self, role: RowFormatRole) -> Self {
        match (role, self) {
            (RowFormatRole::Gtid, _) => Self::Begun,
            (RowFormatRole::Begin, _) => Self::Inside,
            (RowFormatRole::End | RowFormatRole::Payload, _) => Self::Outside,
            (RowFormatRole::Statement, Self::Inside) => Self::Inside,
            (RowFormatRole::Statement, _) => Self::Outside,
            (RowFormatRole::Variable, Self::Inside) => Self::Inside,
            (RowFormatRole::Variable, _) => Self::BeforeStatement,
            (RowFormatRole::None, state) => state,
        }
    }
}

/// Returns whether a statement creates or drops a temporary table. The two words alone do not count.
fn is_temporary(sql: &[u8]) -> bool {
    let starts =
        |word: &str| sql.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()));
    sql.len() > 16 && (starts("CREATE TEMPORARY") || starts("DROP TEMPORARY"))
}

impl RowFormatRole {
    fn of(event: &Event<'_>) -> Self {
        match event {
            Event::Gtid(_) | Event::AnonymousGtid(_) | Event::GtidTagged(_) => Self::Gtid,
            Event::Query(query) => match TransactionWord::of(query.sql) {
                TransactionWord::Starts => Self::Begin,
                TransactionWord::Ends => Self::End,
                TransactionWord::Stays | TransactionWord::Other => Self::Statement,
            },
            Event::Xid(_) | Event::XaPrepare(_) | Event::Incident(_) => Self::End,
            Event::Intvar(_) | Event::Rand(_) | Event::UserVar(_) => Self::Variable,
            Event::TransactionPayload(_) => Self::Payload,
            Event::ExecuteLoadQuery(_)
            | Event::TableMap(_)
            | Event::AppendBlock(_)
            | Event::BeginLoadQuery(_)
            | Event::RowsQuery(_)
            | Event::WriteRows(_)
            | Event::UpdateRows(_)
            | Event::DeleteRows(_)
            | Event::PartialUpdateRows(_)
            | Event::WriteRowsV1(_)
            | Event::UpdateRowsV1(_)
            | Event::DeleteRowsV1(_)
            | Event::ViewChange(_) => Self::Statement,
            _ => Self::None,
        }
    }
}

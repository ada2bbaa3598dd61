//! `--require-row-format`: allows rows, and statements that change no rows.

use binlog::{Event, EventType};

use super::words::TransactionWord;

/// State of the current transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RowFormat {
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
enum Role {
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
const CONTROLS: [&str; 4] = ["XA END", "XA PREPARE", "SAVEPOINT", "CREATE TABLE"];

impl RowFormat {
    /// Advances the state by one event. Returns whether the event is allowed.
    pub(super) fn takes(&mut self, event_type: EventType, event: &Event<'_>) -> bool {
        let role = Role::of(event);
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
            (Role::Variable, _) => event_type == EventType::UserVar && *self == Self::BeforeStatement,
            (
                _,
                EventType::BeginLoadQuery
                | EventType::ExecuteLoadQuery
                | EventType::AppendBlock
                | EventType::DeleteFile,
            ) => false,
            (Role::Statement, EventType::Query) if is_temporary(sql) => false,
            (Role::Statement, EventType::Query) => *self != Self::Inside || CONTROLS.into_iter().any(starts),
            _ => true,
        }
    }

    fn after(self, role: Role) -> Self {
        match (role, self) {
            (Role::Gtid, _) => Self::Begun,
            (Role::Begin, _) => Self::Inside,
            (Role::End | Role::Payload, _) => Self::Outside,
            (Role::Statement, Self::Inside) => Self::Inside,
            (Role::Statement, _) => Self::Outside,
            (Role::Variable, Self::Inside) => Self::Inside,
            (Role::Variable, _) => Self::BeforeStatement,
            (Role::None, state) => state,
        }
    }
}

/// Returns whether a statement creates or drops a temporary table. The two words alone do not count.
fn is_temporary(sql: &[u8]) -> bool {
    let starts =
        |word: &str| sql.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()));
    sql.len() > 16 && (starts("CREATE TEMPORARY") || starts("DROP TEMPORARY"))
}

impl Role {
    fn of(event: &Event<'_>) -> Self {
        match event {
            Event::Gtid(_) | Event::AnonymousGtid(_) | Event::GtidTagged(_) => Self::Gtid,
            Event::Query(query) => match TransactionWord::of(query.sql) {
                TransactionWord::Starts => Self::Begin,
                TransactionWord::Ends => Self::End,
                TransactionWord::Stays | TransactionWord::Not => Self::Statement,
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

//! Grammar of transactions and statements: a state machine over the roles of events.
//!
//! ```text
//! log          = { transaction | aside }
//! transaction  = [ GTID ] ( begin { statement } commit | statement | payload | incident )
//! begin        = BEGIN | XA START            (MariaDB: its GTID event)
//! commit       = Xid | COMMIT | ROLLBACK | XA PREPARE
//! statement    = { variable } SQL | { variable } load | { RowsQuery | TableMap | Rows } last Rows
//! load         = first block { variable | block } LOAD DATA
//! ```

use std::error::Error;
use std::fmt;

use crate::transaction::event_role::EventRole;

/// State machine that finds the start and end of transactions and statements in a log.
///
/// Has constant size. Start it where no transaction is open: at the start of a log, or after a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionGrammar {
    state: GrammarState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum GrammarState {
    /// No transaction is open.
    #[default]
    Between,
    /// The last event is a GTID event.
    Announced,
    /// A transaction is open, and has events besides the GTID event.
    Inside(TransactionScope, OpenStatement),
}

/// End of the open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactionScope {
    /// A commit.
    ToCommit,
    /// The end of its only statement.
    ToStatementEnd,
}

/// Kind of the open statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenStatement {
    Nothing,
    Variables,
    Load,
    Rows,
}

/// Place of an event in a transaction or statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum EventPlace {
    /// Not part of a transaction.
    Outside,
    /// First event of several.
    Starts,
    /// Neither first nor last event.
    Inside,
    /// Last event of several.
    Ends,
    /// The only event.
    Alone,
}

impl EventPlace {
    /// Returns true for the first event, including the only one.
    pub const fn is_first(self) -> bool {
        matches!(self, Self::Starts | Self::Alone)
    }

    /// Returns true for the last event, including the only one.
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Ends | Self::Alone)
    }

    const fn of(is_first: bool, is_last: bool) -> Self {
        match (is_first, is_last) {
            (true, true) => Self::Alone,
            (true, false) => Self::Starts,
            (false, true) => Self::Ends,
            (false, false) => Self::Inside,
        }
    }
}

/// Places of an event in its transaction and statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GrammarStep {
    /// Place in the transaction.
    pub transaction: EventPlace,
    /// Place in the statement. GTID, `BEGIN` and commit are in no statement.
    pub statement: EventPlace,
}

impl GrammarStep {
    /// Place outside of transactions.
    pub const OUTSIDE: Self = Self { transaction: EventPlace::Outside, statement: EventPlace::Outside };
}

/// Event that is not allowed in its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrammarFault {
    /// Role of the event found.
    pub found: EventRole,
    /// Description of the events allowed.
    pub expected: &'static str,
    /// Part that was discarded to continue.
    pub lost: GrammarLoss,
    /// Place of the event after recovery; [`GrammarStep::OUTSIDE`] if it was skipped.
    pub step: GrammarStep,
}

/// Part that is discarded to continue after a [`GrammarFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum GrammarLoss {
    /// The unexpected event.
    Event,
    /// The open statement, which has no end.
    Statement,
    /// The open transaction, which has no end. This is common in relay logs after a lost connection.
    Transaction,
}

impl fmt::Display for GrammarFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "found {}, expected {}", self.found, self.expected)?;
        match self.lost {
            GrammarLoss::Event => Ok(()),
            GrammarLoss::Statement => out.write_str(": the statement before it is incomplete"),
            GrammarLoss::Transaction => out.write_str(": the transaction before it is incomplete"),
        }
    }
}

impl Error for GrammarFault {}

impl TransactionGrammar {
    /// Creates a grammar with no open transaction.
    pub const fn new() -> Self {
        Self { state: GrammarState::Between }
    }

    /// Creates a grammar for the events inside a payload, after the transaction's GTID event.
    pub const fn inside_payload() -> Self {
        Self { state: GrammarState::Announced }
    }

    /// Returns true if a transaction is open.
    pub fn is_open(&self) -> bool {
        self.state != GrammarState::Between
    }

    /// Describes the events allowed next.
    pub const fn expected(&self) -> &'static str {
        match self.state {
            GrammarState::Between => "the start of a transaction",
            GrammarState::Announced => "BEGIN, a statement or a compressed transaction",
            GrammarState::Inside(TransactionScope::ToCommit, OpenStatement::Nothing) => {
                "a statement or a commit"
            }
            GrammarState::Inside(_, OpenStatement::Nothing | OpenStatement::Variables) => {
                "the statement that needs the variables"
            }
            GrammarState::Inside(_, OpenStatement::Load) => "more of a file, or LOAD DATA",
            GrammarState::Inside(_, OpenStatement::Rows) => "rows that end the statement",
        }
    }

    /// Advances by one event.
    ///
    /// # Errors
    ///
    /// Fails if the event is not allowed here. The grammar has then discarded [`GrammarFault::lost`], and continues.
    pub fn step(&mut self, role: EventRole) -> Result<GrammarStep, GrammarFault> {
        match next(self.state, role) {
            Some((state, step)) => {
                self.state = state;
                Ok(step)
            }
            None => Err(self.recover(role)),
        }
    }

    fn recover(&mut self, role: EventRole) -> GrammarFault {
        let (expected, before) = (self.expected(), self.state);
        let without_statement = match before {
            GrammarState::Inside(TransactionScope::ToCommit, _) => {
                GrammarState::Inside(TransactionScope::ToCommit, OpenStatement::Nothing)
            }
            _ => before,
        };
        let candidates =
            [(without_statement, GrammarLoss::Statement), (GrammarState::Between, GrammarLoss::Transaction)];
        let recovery = candidates.into_iter().find_map(|(state, lost)| Some((next(state, role)?, lost)));
        let ((state, step), lost) = recovery.unwrap_or(((before, GrammarStep::OUTSIDE), GrammarLoss::Event));
        self.state = state;
        GrammarFault { found: role, expected, lost, step }
    }
}

/// Returns the state after `role` and the place of the event; `None` if `role` is not allowed.
fn next(state: GrammarState, role: EventRole) -> Option<(GrammarState, GrammarStep)> {
    use GrammarState::{Announced, Between, Inside};
    let (next, transaction) = match (state, role) {
        (_, EventRole::Aside) => return Some((state, GrammarStep::OUTSIDE)),
        (Between, EventRole::LogBoundary) => (Between, EventPlace::Outside),
        (Between, EventRole::Gtid) => (Announced, EventPlace::Starts),
        (Between, EventRole::GtidAndBegin | EventRole::Begin) => {
            (Inside(TransactionScope::ToCommit, OpenStatement::Nothing), EventPlace::Starts)
        }
        (Announced, EventRole::Begin) => {
            (Inside(TransactionScope::ToCommit, OpenStatement::Nothing), EventPlace::Inside)
        }
        (Between, EventRole::Payload) => (Between, EventPlace::Alone),
        (Announced, EventRole::Payload) => (Between, EventPlace::Ends),
        (Inside(TransactionScope::ToCommit, OpenStatement::Nothing), role) if commits(role) => {
            (Between, EventPlace::Ends)
        }
        _ => return next_in_statement(state, role),
    };
    Some((next, GrammarStep { transaction, statement: EventPlace::Outside }))
}

fn commits(role: EventRole) -> bool {
    matches!(role, EventRole::Commit | EventRole::Rollback | EventRole::XaPrepare | EventRole::XaFinish)
}

fn next_in_statement(state: GrammarState, role: EventRole) -> Option<(GrammarState, GrammarStep)> {
    let (scope, open) = match state {
        GrammarState::Between | GrammarState::Announced => {
            (TransactionScope::ToStatementEnd, OpenStatement::Nothing)
        }
        GrammarState::Inside(scope, open) => (scope, open),
    };
    let (open, statement) = match (open, role) {
        (
            OpenStatement::Nothing,
            EventRole::Statement | EventRole::XaFinish | EventRole::RowsEnd | EventRole::Incident,
        ) => (OpenStatement::Nothing, EventPlace::Alone),
        (OpenStatement::Variables, EventRole::Statement | EventRole::RowsEnd) => {
            (OpenStatement::Nothing, EventPlace::Ends)
        }
        (OpenStatement::Nothing, EventRole::Variable) => (OpenStatement::Variables, EventPlace::Starts),
        (OpenStatement::Variables, EventRole::Variable) => (OpenStatement::Variables, EventPlace::Inside),
        (OpenStatement::Nothing, EventRole::LoadBegin) => (OpenStatement::Load, EventPlace::Starts),
        (OpenStatement::Variables, EventRole::LoadBegin) => (OpenStatement::Load, EventPlace::Inside),
        (OpenStatement::Load, EventRole::LoadBlock | EventRole::Variable) => {
            (OpenStatement::Load, EventPlace::Inside)
        }
        (OpenStatement::Load, EventRole::LoadEnd) => (OpenStatement::Nothing, EventPlace::Ends),
        (OpenStatement::Nothing, EventRole::RowsBegin | EventRole::Rows) => {
            (OpenStatement::Rows, EventPlace::Starts)
        }
        (OpenStatement::Variables | OpenStatement::Rows, EventRole::RowsBegin | EventRole::Rows) => {
            (OpenStatement::Rows, EventPlace::Inside)
        }
        (OpenStatement::Rows, EventRole::RowsEnd) => (OpenStatement::Nothing, EventPlace::Ends),
        _ => return None,
    };
    // An incident ends the open transaction; later events belong to another transaction.
    let ends =
        statement.is_last() && (scope == TransactionScope::ToStatementEnd || role == EventRole::Incident);
    let transaction = EventPlace::of(state == GrammarState::Between, ends);
    let next = if ends { GrammarState::Between } else { GrammarState::Inside(scope, open) };
    Some((next, GrammarStep { transaction, statement }))
}

#[cfg(test)]
mod tests {
    use super::{EventPlace, GrammarFault, GrammarLoss, GrammarStep, TransactionGrammar};
    use crate::transaction::event_role::EventRole;

    const ROLES: [(&str, EventRole); 20] = [
        ("aside", EventRole::Aside),
        ("log", EventRole::LogBoundary),
        ("gtid", EventRole::Gtid),
        ("gtid+begin", EventRole::GtidAndBegin),
        ("begin", EventRole::Begin),
        ("payload", EventRole::Payload),
        ("incident", EventRole::Incident),
        ("sql", EventRole::Statement),
        ("xa-finish", EventRole::XaFinish),
        ("var", EventRole::Variable),
        ("load", EventRole::LoadBegin),
        ("block", EventRole::LoadBlock),
        ("loaded", EventRole::LoadEnd),
        ("map", EventRole::RowsBegin),
        ("rows", EventRole::Rows),
        ("rows-end", EventRole::RowsEnd),
        ("commit", EventRole::Commit),
        ("rollback", EventRole::Rollback),
        ("prepare", EventRole::XaPrepare),
        ("?", EventRole::Unknown(99)),
    ];

    fn roles(text: &str) -> impl Iterator<Item = EventRole> {
        text.split_whitespace().map(|word| ROLES.iter().find(|(name, _)| *name == word).unwrap().1)
    }

    /// Returns the mark of a place: outside `-`, starts `(`, inside `.`, ends `)`, alone `o`.
    fn mark(place: EventPlace) -> char {
        match place {
            EventPlace::Outside => '-',
            EventPlace::Starts => '(',
            EventPlace::Inside => '.',
            EventPlace::Ends => ')',
            EventPlace::Alone => 'o',
        }
    }

    /// Returns a mark for each event, preceded by a letter for a discarded event `e`, statement `s` or transaction
    /// `t`.
    fn marks(grammar: TransactionGrammar, events: &str, place: fn(GrammarStep) -> EventPlace) -> String {
        let mut grammar = grammar;
        let mut marks = String::new();
        for role in roles(events) {
            let step = grammar.step(role).unwrap_or_else(|fault| {
                marks.push(match fault.lost {
                    GrammarLoss::Event => 'e',
                    GrammarLoss::Statement => 's',
                    GrammarLoss::Transaction => 't',
                });
                fault.step
            });
            marks.push(mark(place(step)));
        }
        marks
    }

    fn check_from(grammar: TransactionGrammar, events: &str, transactions: &str, statements: &str) {
        assert_eq!(marks(grammar, events, |step| step.transaction), transactions, "{events}");
        assert_eq!(marks(grammar, events, |step| step.statement), statements, "{events}");
    }

    fn check(events: &str, transactions: &str, statements: &str) {
        check_from(TransactionGrammar::new(), events, transactions, statements);
    }

    #[test]
    fn transactions_of_rows() {
        check("gtid begin map rows-end commit", "(...)", "--()-");
        check("gtid begin map map map rows rows rows-end map rows-end commit", "(.........)", "--(....)()-");
        check("begin map rows-end commit", "(..)", "-()-");
        check("gtid begin sql map rows-end commit", "(....)", "--o()-");
        check("gtid begin rows-end commit", "(..)", "--o-");
        check("gtid begin commit gtid begin rollback", "(.)(.)", "------");
    }

    #[test]
    fn transactions_of_statements() {
        check("gtid sql", "()", "-o");
        check("sql sql", "oo", "oo");
        check("gtid var var sql gtid sql", "(..)()", "-(.)-o");
        check("var sql", "()", "()");
        check("gtid begin var sql sql commit", "(....)", "--()o-");
        check("gtid begin load block var block loaded commit", "(......)", "--(...)-");
        check("gtid begin var load loaded commit", "(....)", "--(.)-");
        check("load block loaded sql", "(.)o", "(.)o");
    }

    #[test]
    fn rows_without_begin_of_old_servers() {
        check("map rows rows-end map rows-end sql", "(.)()o", "(.)()o");
    }

    #[test]
    fn xa_transactions() {
        check("gtid begin map rows-end sql prepare gtid xa-finish", "(....)()", "--()o--o");
        check("gtid begin sql xa-finish", "(..)", "--o-");
        check("xa-finish", "o", "o");
    }

    #[test]
    fn mariadb() {
        check("log aside gtid+begin map rows-end commit gtid sql", "--(..)()", "---()--o");
        check("gtid+begin sql map rows-end commit", "(...)", "-o()-");
    }

    #[test]
    fn payloads_and_their_events() {
        check("gtid payload gtid payload payload", "()()o", "-----");
        check_from(TransactionGrammar::inside_payload(), "begin map rows-end commit", "...)", "-()-");
    }

    #[test]
    fn incidents() {
        check("gtid incident incident", "()o", "-oo");
        check("gtid begin map rows-end incident gtid sql", "(...)()", "--()o-o");
    }

    #[test]
    fn events_outside_transactions_change_no_state() {
        check("aside gtid aside begin aside map aside rows-end aside commit", "-(-.-.-.-)", "-----(-)--");
    }

    #[test]
    fn transactions_without_an_end() {
        check("gtid begin map gtid begin commit", "(..t(.)", "--(t---");
        check("gtid gtid sql", "(t()", "-t-o");
        check("gtid begin begin commit", "(.t()", "--t--");
        check("gtid begin log log gtid sql", "(.t--()", "--t---o");
        check("gtid var payload", "(.to", "-(t-");
    }

    #[test]
    fn statements_without_an_end() {
        check("gtid begin map commit gtid sql", "(..s)()", "--(s--o");
        check("gtid begin var map rows sql commit", "(....s.)", "--(..so-");
        check("gtid begin load sql commit", "(..s.)", "--(so-");
    }

    #[test]
    fn skipped_events() {
        check("commit block loaded ? gtid sql", "e-e-e-e-()", "e-e-e-e--o");
        check("gtid commit begin block ? commit", "(e-.e-e-)", "-e--e-e--");
    }

    #[test]
    fn faults_name_the_found_and_the_expected_event() {
        for (events, expected) in [
            ("commit", "found a commit, expected the start of a transaction"),
            ("block", "found a further block of a file, expected the start of a transaction"),
            ("gtid commit", "found a commit, expected BEGIN, a statement or a compressed transaction"),
            (
                "gtid begin log",
                "found the start or end of a log, expected a statement or a commit: the transaction before it is incomplete",
            ),
            (
                "gtid begin var commit",
                "found a commit, expected the statement that needs the variables: the statement before it is incomplete",
            ),
            (
                "gtid begin load load",
                "found the first block of a file, expected more of a file, or LOAD DATA: the statement before it is incomplete",
            ),
            (
                "gtid begin load map",
                "found a table map or a statement's text, expected more of a file, or LOAD DATA: the statement before it is incomplete",
            ),
            (
                "gtid begin load rows",
                "found a rows event, expected more of a file, or LOAD DATA: the statement before it is incomplete",
            ),
            (
                "gtid begin map var",
                "found a variable for a statement, expected rows that end the statement: the statement before it is incomplete",
            ),
            (
                "gtid begin map commit",
                "found a commit, expected rows that end the statement: the statement before it is incomplete",
            ),
        ] {
            let mut grammar = TransactionGrammar::new();
            let last: Option<Result<GrammarStep, GrammarFault>> =
                roles(events).map(|role| grammar.step(role)).last();
            assert_eq!(last.unwrap().unwrap_err().to_string(), expected, "{events}");
        }
    }
}

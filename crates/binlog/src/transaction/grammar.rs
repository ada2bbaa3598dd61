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

use crate::transaction::role::Role;

/// State machine that finds the start and end of transactions and statements in a log.
///
/// It has constant size. Start it where no transaction is open: at the start of a log, or after a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grammar {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No transaction is open.
    #[default]
    Between,
    /// A GTID event came.
    Announced,
    /// Other events came after the GTID, or without one.
    Inside(Scope, Open),
}

/// End of the open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// A commit.
    ToCommit,
    /// The end of its only statement.
    ToStatementEnd,
}

/// Kind of the open statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    Variables,
    Load,
    Rows,
}

/// Place of an event in a transaction or statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Place {
    /// Not part of one.
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

impl Place {
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
pub struct Step {
    /// Place in the transaction.
    pub transaction: Place,
    /// Place in the statement. GTID, `BEGIN` and commit are in no statement.
    pub statement: Place,
}

impl Step {
    /// Place outside of transactions.
    pub const OUTSIDE: Self = Self { transaction: Place::Outside, statement: Place::Outside };
}

/// Event that is not allowed at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Role of the event found.
    pub found: Role,
    /// Description of the events allowed.
    pub wanted: &'static str,
    /// Part that was discarded to continue.
    pub lost: Lost,
    /// Place of the event after recovery; [`Step::OUTSIDE`] if it was skipped.
    pub step: Step,
}

/// Part that is discarded to continue after a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Lost {
    /// The unexpected event.
    Event,
    /// The open statement, which has no end.
    Statement,
    /// The open transaction, which has no end. This is common in relay logs after a lost connection.
    Transaction,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "found {}, wanted {}", self.found, self.wanted)?;
        match self.lost {
            Lost::Event => Ok(()),
            Lost::Statement => out.write_str(": the statement before it has no end"),
            Lost::Transaction => out.write_str(": the transaction before it has no end"),
        }
    }
}

impl Error for Fault {}

impl Grammar {
    /// Creates a grammar with no open transaction.
    pub const fn new() -> Self {
        Self { state: State::Between }
    }

    /// Creates a grammar for the events inside a payload, after the transaction's GTID event.
    pub const fn inside_payload() -> Self {
        Self { state: State::Announced }
    }

    /// Returns true if a transaction is open.
    pub fn is_open(&self) -> bool {
        self.state != State::Between
    }

    /// Describes the events allowed next.
    pub const fn wanted(&self) -> &'static str {
        match self.state {
            State::Between => "the start of a transaction",
            State::Announced => "BEGIN, a statement or a compressed transaction",
            State::Inside(Scope::ToCommit, Open::Nothing) => "a statement or a commit",
            State::Inside(_, Open::Nothing | Open::Variables) => "the statement that needs the variables",
            State::Inside(_, Open::Load) => "more of a file, or LOAD DATA",
            State::Inside(_, Open::Rows) => "rows that end the statement",
        }
    }

    /// Advances by one event.
    ///
    /// # Errors
    ///
    /// Fails if the event is not allowed here. The grammar has then discarded [`Fault::lost`], and continues.
    pub fn step(&mut self, role: Role) -> Result<Step, Fault> {
        match next(self.state, role) {
            Some((state, step)) => {
                self.state = state;
                Ok(step)
            }
            None => Err(self.recover(role)),
        }
    }

    fn recover(&mut self, role: Role) -> Fault {
        let (wanted, before) = (self.wanted(), self.state);
        let without_statement = match before {
            State::Inside(Scope::ToCommit, _) => State::Inside(Scope::ToCommit, Open::Nothing),
            _ => before,
        };
        let ways = [(without_statement, Lost::Statement), (State::Between, Lost::Transaction)];
        let taken = ways.into_iter().find_map(|(state, lost)| Some((next(state, role)?, lost)));
        let ((state, step), lost) = taken.unwrap_or(((before, Step::OUTSIDE), Lost::Event));
        self.state = state;
        Fault { found: role, wanted, lost, step }
    }
}

/// Returns the state after `role` and the place of the event; `None` if `role` is not allowed.
fn next(state: State, role: Role) -> Option<(State, Step)> {
    use State::{Announced, Between, Inside};
    let (next, transaction) = match (state, role) {
        (_, Role::Aside) => return Some((state, Step::OUTSIDE)),
        (Between, Role::LogBoundary) => (Between, Place::Outside),
        (Between, Role::Gtid) => (Announced, Place::Starts),
        (Between, Role::GtidAndBegin | Role::Begin) => {
            (Inside(Scope::ToCommit, Open::Nothing), Place::Starts)
        }
        (Announced, Role::Begin) => (Inside(Scope::ToCommit, Open::Nothing), Place::Inside),
        (Between, Role::Payload) => (Between, Place::Alone),
        (Announced, Role::Payload) => (Between, Place::Ends),
        (Inside(Scope::ToCommit, Open::Nothing), role) if commits(role) => (Between, Place::Ends),
        _ => return next_in_statement(state, role),
    };
    Some((next, Step { transaction, statement: Place::Outside }))
}

fn commits(role: Role) -> bool {
    matches!(role, Role::Commit | Role::Rollback | Role::XaPrepare | Role::XaFinish)
}

fn next_in_statement(state: State, role: Role) -> Option<(State, Step)> {
    let (scope, open) = match state {
        State::Between | State::Announced => (Scope::ToStatementEnd, Open::Nothing),
        State::Inside(scope, open) => (scope, open),
    };
    let (open, statement) = match (open, role) {
        (Open::Nothing, Role::Statement | Role::XaFinish | Role::RowsEnd | Role::Incident) => {
            (Open::Nothing, Place::Alone)
        }
        (Open::Variables, Role::Statement | Role::RowsEnd) => (Open::Nothing, Place::Ends),
        (Open::Nothing, Role::Variable) => (Open::Variables, Place::Starts),
        (Open::Variables, Role::Variable) => (Open::Variables, Place::Inside),
        (Open::Nothing, Role::LoadBegin) => (Open::Load, Place::Starts),
        (Open::Variables, Role::LoadBegin) => (Open::Load, Place::Inside),
        (Open::Load, Role::LoadBlock | Role::Variable) => (Open::Load, Place::Inside),
        (Open::Load, Role::LoadEnd) => (Open::Nothing, Place::Ends),
        (Open::Nothing, Role::RowsBegin | Role::Rows) => (Open::Rows, Place::Starts),
        (Open::Variables | Open::Rows, Role::RowsBegin | Role::Rows) => (Open::Rows, Place::Inside),
        (Open::Rows, Role::RowsEnd) => (Open::Nothing, Place::Ends),
        _ => return None,
    };
    // An incident ends the open transaction; later events belong to another one.
    let ends = statement.is_last() && (scope == Scope::ToStatementEnd || role == Role::Incident);
    let transaction = Place::of(state == State::Between, ends);
    let next = if ends { State::Between } else { State::Inside(scope, open) };
    Some((next, Step { transaction, statement }))
}

#[cfg(test)]
mod tests {
    use super::{Fault, Grammar, Lost, Place, Step};
    use crate::transaction::role::Role;

    const ROLES: [(&str, Role); 20] = [
        ("aside", Role::Aside),
        ("log", Role::LogBoundary),
        ("gtid", Role::Gtid),
        ("gtid+begin", Role::GtidAndBegin),
        ("begin", Role::Begin),
        ("payload", Role::Payload),
        ("incident", Role::Incident),
        ("sql", Role::Statement),
        ("xa-finish", Role::XaFinish),
        ("var", Role::Variable),
        ("load", Role::LoadBegin),
        ("block", Role::LoadBlock),
        ("loaded", Role::LoadEnd),
        ("map", Role::RowsBegin),
        ("rows", Role::Rows),
        ("rows-end", Role::RowsEnd),
        ("commit", Role::Commit),
        ("rollback", Role::Rollback),
        ("prepare", Role::XaPrepare),
        ("?", Role::Unknown(99)),
    ];

    fn roles(text: &str) -> impl Iterator<Item = Role> {
        text.split_whitespace().map(|word| ROLES.iter().find(|(name, _)| *name == word).unwrap().1)
    }

    /// Returns the mark of a place: outside `-`, starts `(`, inside `.`, ends `)`, alone `o`.
    fn mark(place: Place) -> char {
        match place {
            Place::Outside => '-',
            Place::Starts => '(',
            Place::Inside => '.',
            Place::Ends => ')',
            Place::Alone => 'o',
        }
    }

    /// Returns a mark for each event, preceded by a letter for a discarded event `e`, statement `s` or transaction
    /// `t`.
    fn marks(grammar: Grammar, events: &str, place: fn(Step) -> Place) -> String {
        let mut grammar = grammar;
        let mut marks = String::new();
        for role in roles(events) {
            let step = grammar.step(role).unwrap_or_else(|fault| {
                marks.push(match fault.lost {
                    Lost::Event => 'e',
                    Lost::Statement => 's',
                    Lost::Transaction => 't',
                });
                fault.step
            });
            marks.push(mark(place(step)));
        }
        marks
    }

    fn check_from(grammar: Grammar, events: &str, transactions: &str, statements: &str) {
        assert_eq!(marks(grammar, events, |step| step.transaction), transactions, "{events}");
        assert_eq!(marks(grammar, events, |step| step.statement), statements, "{events}");
    }

    fn check(events: &str, transactions: &str, statements: &str) {
        check_from(Grammar::new(), events, transactions, statements);
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
    fn rows_without_begin_as_old_servers_wrote_them() {
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
    fn payloads_and_what_is_inside() {
        check("gtid payload gtid payload payload", "()()o", "-----");
        check_from(Grammar::inside_payload(), "begin map rows-end commit", "...)", "-()-");
    }

    #[test]
    fn incidents() {
        check("gtid incident incident", "()o", "-oo");
        check("gtid begin map rows-end incident gtid sql", "(...)()", "--()o-o");
    }

    #[test]
    fn what_stands_aside_disturbs_nothing() {
        check("aside gtid aside begin aside map aside rows-end aside commit", "-(-.-.-.-)", "-----(-)--");
    }

    #[test]
    fn a_transaction_without_an_end() {
        check("gtid begin map gtid begin commit", "(..t(.)", "--(t---");
        check("gtid gtid sql", "(t()", "-t-o");
        check("gtid begin begin commit", "(.t()", "--t--");
        check("gtid begin log log gtid sql", "(.t--()", "--t---o");
        check("gtid var payload", "(.to", "-(t-");
    }

    #[test]
    fn a_statement_without_an_end() {
        check("gtid begin map commit gtid sql", "(..s)()", "--(s--o");
        check("gtid begin var map rows sql commit", "(....s.)", "--(..so-");
        check("gtid begin load sql commit", "(..s.)", "--(so-");
    }

    #[test]
    fn events_passed_over() {
        check("commit block loaded ? gtid sql", "e-e-e-e-()", "e-e-e-e--o");
        check("gtid commit begin block ? commit", "(e-.e-e-)", "-e--e-e--");
    }

    #[test]
    fn a_fault_says_what_it_found_and_wanted() {
        let mut grammar = Grammar::new();
        let results: Vec<Result<Step, Fault>> =
            roles("gtid begin map commit").map(|role| grammar.step(role)).collect();
        let text = results[3].unwrap_err().to_string();
        assert_eq!(
            text,
            "found a commit, wanted rows that end the statement: the statement before it has no end"
        );
        assert!(!grammar.is_open());
    }
}

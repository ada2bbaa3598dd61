//! Where transactions and statements start and end: a state machine over the roles of events.
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

/// Follows a log event by event, and says where transactions and statements start and end.
///
/// It needs a few bytes, whatever the log holds. Start it where no transaction is open: at the start of a log, or
/// behind a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grammar {
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No transaction is open.
    #[default]
    Between,
    /// A GTID came.
    Announced,
    /// Something came behind it, or without it.
    Inside(Scope, Open),
}

/// What ends the open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// A commit.
    ToCommit,
    /// The end of its only statement.
    ToStatementEnd,
}

/// The open statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    Variables,
    Load,
    Rows,
}

/// Where an event stands in a transaction, or in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Place {
    /// It is no part of one.
    Outside,
    /// It is its first event, and others follow.
    Starts,
    /// Others came, and others follow.
    Inside,
    /// It is its last event, and others came before.
    Ends,
    /// It is all of it.
    Alone,
}

impl Place {
    /// Is it the first event?
    pub const fn is_first(self) -> bool {
        matches!(self, Self::Starts | Self::Alone)
    }

    /// Is it the last event?
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

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Step {
    /// In its transaction.
    pub transaction: Place,
    /// In its statement: GTID, `BEGIN` and commit are part of none.
    pub statement: Place,
}

impl Step {
    /// No part of a transaction.
    pub const OUTSIDE: Self = Self { transaction: Place::Outside, statement: Place::Outside };
}

/// An event that cannot stand where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What was found.
    pub found: Role,
    /// What could have stood there.
    pub wanted: &'static str,
    /// What was given up to go on.
    pub lost: Lost,
    /// How the event was then taken; [`Step::OUTSIDE`] if it was passed over.
    pub step: Step,
}

/// What is given up to go on behind a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Lost {
    /// The event that is at fault.
    Event,
    /// The open statement: it has no end.
    Statement,
    /// The open transaction: it has no end. In relay logs this is common where a connection broke off.
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
    /// No transaction is open.
    pub const fn new() -> Self {
        Self { state: State::Between }
    }

    /// For the events inside a payload, whose GTID stands outside.
    pub const fn inside_payload() -> Self {
        Self { state: State::Announced }
    }

    /// Is a transaction open?
    pub fn is_open(&self) -> bool {
        self.state != State::Between
    }

    /// What may come next, in words.
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

    /// Takes the next event.
    ///
    /// # Errors
    ///
    /// When the event cannot stand there. The grammar has then given up what [`Fault::lost`] says, and goes on.
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

/// Where `role` leads from `state`, if it can stand there.
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
    // An incident ends whatever is open: what follows is another transaction.
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

    /// Outside `-`, starts `(`, inside `.`, ends `)`, alone `o`.
    fn mark(place: Place) -> char {
        match place {
            Place::Outside => '-',
            Place::Starts => '(',
            Place::Inside => '.',
            Place::Ends => ')',
            Place::Alone => 'o',
        }
    }

    /// A mark for each event; in front of it, what was lost: the event `e`, a statement `s`, a transaction `t`.
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

//! Check that the text after a SELECT's FROM does nothing but read rows, and extraction of its tables.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, SetExpr, Statement, TableFactor, TableWithJoins, Visit, Visitor,
};
use sqlparser::dialect::MySqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Whitespace};

use crate::statement::function_set::FunctionSet;
use crate::statement::statement_text::{LocatedToken, StatementText};
use crate::statement::{FromTable, SkipReason, StatementTable};

/// Tables that are read, and all tables that occur.
#[derive(Debug)]
pub(super) struct ReadTables {
    pub(super) tables: Vec<FromTable>,
    pub(super) all: Vec<StatementTable>,
}

/// Words and signs of a text. Bounds the nesting depth that the parser must handle.
const WORDS_MAX: usize = 1000;

/// Returns the tables of `SELECT 0 FROM` followed by this text.
///
/// # Errors
///
/// If a part of the text is not known to do nothing but read.
pub(super) fn check_tables(rows: &StatementText, functions: FunctionSet) -> Result<ReadTables, SkipReason> {
    let pieces = rows.tokens()?;
    check_words(&pieces, functions)?;
    let statements = Parser::new(&MySqlDialect {}).try_with_sql(&format!("SELECT 0 FROM {}", rows.text));
    let statements =
        statements.and_then(|mut parser| parser.parse_statements()).map_err(|_| SkipReason::Unknown)?;
    let [Statement::Query(query)] = statements.as_slice() else { return Err(SkipReason::Unknown) };
    let SetExpr::Select(select) = &*query.body else { return Err(SkipReason::Clause) };
    let mut names = TableNameVisitor::default();
    if let ControlFlow::Break(left) = query.visit(&mut names) {
        return Err(left);
    }
    let mut tables = Vec::new();
    for from in &select.from {
        put_from_tables(from, &mut tables)?;
    }
    let is_told = tables.iter().map(|table| &table.name).chain(&names.all).all(|name| {
        rows.has_exact_names() || name.database.iter().chain([&name.table]).all(|name| name.is_ascii())
    });
    match (is_told, tables.is_empty()) {
        (false, _) => Err(SkipReason::Charset),
        (_, true) => Err(SkipReason::Table),
        _ => Ok(ReadTables { tables, all: names.all }),
    }
}

/// Checks that each word and sign is a known one.
fn check_words(pieces: &[LocatedToken], functions: FunctionSet) -> Result<(), SkipReason> {
    let mut nested = 0;
    for (at, piece) in pieces.iter().enumerate() {
        match &piece.token {
            Token::Whitespace(Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_)) => {
                return Err(SkipReason::Comment);
            }
            Token::Whitespace(_) | Token::Comma | Token::Number(..) => continue,
            // In `ANSI_QUOTES` mode, it is a name.
            Token::DoubleQuotedString(_) if next(&pieces[at + 1..]) == Some(&Token::LParen) => {
                return Err(SkipReason::Function);
            }
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => continue,
            Token::HexStringLiteral(digits) => check_digits(digits, |one| one.is_ascii_hexdigit())?,
            Token::SingleQuotedByteStringLiteral(digits) => {
                check_digits(digits, |one| matches!(one, '0' | '1'))?
            }
            Token::Word(word) if word.quote_style.is_none() => {
                check_word(&word.value, &pieces[..at], &pieces[at + 1..], functions)?
            }
            // Built-in functions cannot be called by a quoted name.
            Token::Word(_) if next(&pieces[at + 1..]) == Some(&Token::LParen) => {
                return Err(SkipReason::Function);
            }
            Token::AtSign | Token::Assignment | Token::Placeholder(_) => return Err(SkipReason::Variable),
            Token::Word(_) => {}
            sign if SIGNS.contains(sign) => {}
            _ => return Err(SkipReason::Unknown),
        }
        nested += 1;
    }
    if nested > WORDS_MAX { Err(SkipReason::Size) } else { Ok(()) }
}

fn check_word(
    word: &str,
    before: &[LocatedToken],
    behind: &[LocatedToken],
    functions: FunctionSet,
) -> Result<(), SkipReason> {
    let lower = word.to_ascii_lowercase();
    if lower.contains('@') {
        return Err(SkipReason::Variable);
    }
    let is_part = before.last().is_some_and(|piece| piece.token == Token::Period);
    if next(behind) == Some(&Token::LParen) {
        let is_adjacent = behind.first().is_some_and(|piece| piece.token == Token::LParen);
        // A name after a period is that of a stored function. So may be a name with a space before the parenthesis.
        let is_known =
            functions.contains(&lower) && is_adjacent || BEFORE_PARENTHESES.contains(&lower.as_str());
        return if is_known && !is_part { Ok(()) } else { Err(SkipReason::Function) };
    }
    match !is_part && REFUSED_CLAUSE_WORDS.contains(&lower.as_str()) {
        true => Err(SkipReason::Clause),
        false => Ok(()),
    }
}

/// Returns the first token that is not whitespace.
fn next(pieces: &[LocatedToken]) -> Option<&Token> {
    pieces.iter().map(|piece| &piece.token).find(|token| !matches!(token, Token::Whitespace(_)))
}

fn check_digits(digits: &str, is_one: impl Fn(char) -> bool) -> Result<(), SkipReason> {
    if digits.chars().all(is_one) { Ok(()) } else { Err(SkipReason::Unknown) }
}

/// Operators and punctuation that are allowed.
const SIGNS: [Token; 26] = [
    Token::Eq,
    Token::Neq,
    Token::Lt,
    Token::Gt,
    Token::LtEq,
    Token::GtEq,
    Token::Spaceship,
    Token::Plus,
    Token::Minus,
    Token::Mul,
    Token::Div,
    Token::Mod,
    Token::StringConcat,
    Token::LParen,
    Token::RParen,
    Token::Period,
    Token::Ampersand,
    Token::Pipe,
    Token::Caret,
    Token::Tilde,
    Token::ShiftLeft,
    Token::ShiftRight,
    Token::Overlap,
    Token::ExclamationMark,
    Token::Arrow,
    Token::LongArrow,
];

/// Words that start a clause that does more than read: locks, writes, or takes the next value of a sequence.
const REFUSED_CLAUSE_WORDS: [&str; 6] = ["into", "for", "lock", "procedure", "set", "with"];

/// Words other than functions that parentheses may follow.
const BEFORE_PARENTHESES: [&str; 34] = [
    "and",
    "as",
    "between",
    "binary",
    "by",
    "case",
    "decimal",
    "distinct",
    "div",
    "else",
    "exists",
    "from",
    "having",
    "in",
    "index",
    "interval",
    "is",
    "join",
    "key",
    "like",
    "limit",
    "mod",
    "not",
    "on",
    "or",
    "partition",
    "regexp",
    "rlike",
    "select",
    "then",
    "using",
    "when",
    "where",
    "xor",
];

/// Visitor that collects the names of all tables, and checks that all SELECTs do nothing but read.
#[derive(Debug, Default)]
struct TableNameVisitor {
    all: Vec<StatementTable>,
}

impl Visitor for TableNameVisitor {
    type Break = SkipReason;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SkipReason> {
        let is_plain = query.with.is_none() && query.locks.is_empty() && query.fetch.is_none();
        match is_plain && query.for_clause.is_none() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(SkipReason::Clause),
        }
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<SkipReason> {
        match table_name(relation) {
            Some(name) => {
                self.all.push(name);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(SkipReason::Unknown),
        }
    }
}

/// Appends the tables of a FROM clause, in order.
fn put_from_tables(from: &TableWithJoins, tables: &mut Vec<FromTable>) -> Result<(), SkipReason> {
    let joined = from.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&from.relation).chain(joined) {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let name = table_name(name).ok_or(SkipReason::Unknown)?;
                tables.push(FromTable { name, alias: alias.as_ref().map(|alias| alias.name.value.clone()) });
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                put_from_tables(table_with_joins, tables)?
            }
            // A derived table: the server reads its tables by its own plan.
            TableFactor::Derived { .. } => {}
            _ => return Err(SkipReason::Unknown),
        }
    }
    Ok(())
}

fn table_name(name: &ObjectName) -> Option<StatementTable> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(Ident { value, .. }) => Some(value.clone()),
        ObjectNamePart::Function(_) => None,
    };
    match name.0.as_slice() {
        [table] => Some(StatementTable { database: None, table: part(table)? }),
        [database, table] => Some(StatementTable { database: Some(part(database)?), table: part(table)? }),
        _ => None,
    }
}

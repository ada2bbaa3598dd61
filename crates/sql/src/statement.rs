//! Finds the tables that a statement changes. Reads only the necessary part of the SQL text.

use std::borrow::Cow;
use std::ops::Range;

use binlog::events::{Query, StatusVar};
use binlog::sql_mode::{ANSI_QUOTES, effective_modes};
use binlog::{Charset, Collation, Flavour};

use crate::ddl::DdlStatement;
use crate::lexer::{SqlLexer, SqlTokenKind, name_of};
use crate::sql_words::SqlWords;
use crate::token_cursor::TokenCursor;

/// A table that a statement names, in the bytes of the statement. Row events have names in UTF-8: to compare names, decode
/// the statement first. [`NamedTable`](crate::ddl::NamedTable) has decoded names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReference {
    /// The database, if the statement names it.
    pub database: Option<Vec<u8>>,
    /// The table.
    pub table: Vec<u8>,
}

impl TableReference {
    /// Returns database and table, for a statement with this default database.
    pub fn resolve<'n>(&'n self, default: &'n [u8]) -> (&'n [u8], &'n [u8]) {
        (self.database.as_deref().unwrap_or(default), &self.table)
    }
}

/// Kind of a statement, as filters distinguish them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// Creates, alters or drops a database.
    Database,
    /// Changes these tables, or names none.
    Tables(Vec<TableReference>),
    /// Drops temporary tables if they exist: always executed.
    DropTemporary,
    /// Drops a trigger. Only the server knows the trigger's table. Without `IF EXISTS`, contains the offset at which to
    /// insert `IF EXISTS`.
    DropTrigger(Option<usize>),
}

/// Returns the kind of a statement.
pub fn classify_statement(sql: &[u8]) -> StatementKind {
    let words = &mut statement_start(sql);
    let common = take_common_tables(words);
    match take_keyword(words).as_str() {
        "CREATE" => create(words),
        "ALTER" => alter(words),
        "DROP" => drop_kind(words),
        "RENAME" if words.take_word("TABLE") || words.take_word("TABLES") => {
            words.skip_words(&["IF", "EXISTS"]);
            StatementKind::Tables(take_renames(words))
        }
        "TRUNCATE" => {
            words.take_word("TABLE");
            one_table(words)
        }
        "INSERT" | "REPLACE" => {
            words.skip_words(&["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"]);
            one_table(words)
        }
        "UPDATE" => {
            words.skip_words(&["LOW_PRIORITY", "IGNORE"]);
            let is_common = |table: &TableReference| {
                table.database.is_none() && common.iter().any(|name| name.eq_ignore_ascii_case(&table.table))
            };
            let tables = take_joined(words, "SET").into_iter().map(|joined| joined.table);
            StatementKind::Tables(tables.filter(|table| !is_common(table)).collect())
        }
        "DELETE" => delete(words),
        "LOAD" => match words.skip_past("INTO") && words.take_word("TABLE") {
            true => one_table(words),
            false => StatementKind::Tables(Vec::new()),
        },
        "ANALYZE" | "OPTIMIZE" | "REPAIR" | "CHECK" => {
            words.skip_words(&["NO_WRITE_TO_BINLOG", "LOCAL"]);
            match words.take_word("TABLE") || words.take_word("TABLES") {
                true => StatementKind::Tables(take_list(words)),
                false => StatementKind::Tables(Vec::new()),
            }
        }
        "GRANT" | "REVOKE" if words.skip_past("ON") => {
            words.take_word("TABLE");
            one_table(words)
        }
        _ => StatementKind::Tables(Vec::new()),
    }
}

/// Returns whether a statement changes only accounts, roles or privileges.
pub fn is_account_statement(sql: &[u8]) -> bool {
    let words = &mut TokenCursor::new(sql, ANSI_QUOTES);
    words.skip_set_statement();
    match take_keyword(words).as_str() {
        "GRANT" | "REVOKE" => true,
        "CREATE" | "ALTER" | "DROP" => {
            // MariaDB's `OR REPLACE`.
            words.skip_words(&["OR", "REPLACE"]);
            matches!(take_keyword(words).as_str(), "USER" | "ROLE")
        }
        "RENAME" => words.take_word("USER"),
        "SET" => words.take_word("PASSWORD") || words.take_word("DEFAULT") && words.take_word("ROLE"),
        _ => false,
    }
}

/// Change of the temporary tables of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemporaryTableChange {
    /// Creates this table.
    Create(TableReference),
    /// Drops these tables.
    Drop(Vec<TableReference>),
}

/// Returns the change that `CREATE TEMPORARY TABLE` or `DROP TEMPORARY TABLE` makes; `None` for other statements.
pub fn temporary_table_change(sql: &[u8]) -> Option<TemporaryTableChange> {
    let words = &mut TokenCursor::new(sql, ANSI_QUOTES);
    words.skip_set_statement();
    let verb = take_keyword(words);
    skip_create_options(words);
    if !words.take_word("TEMPORARY") || !(words.take_word("TABLE") || words.take_word("TABLES")) {
        return None;
    }
    match verb.as_str() {
        "CREATE" => {
            words.skip_words(&["IF", "NOT", "EXISTS"]);
            take_table(words).map(TemporaryTableChange::Create)
        }
        "DROP" => {
            words.skip_words(&["IF", "EXISTS"]);
            Some(TemporaryTableChange::Drop(take_list(words)))
        }
        _ => None,
    }
}

/// Returns the first word of a statement after comments, in upper case. Comments that servers execute are part of the
/// statement. Skips MariaDB's `SET STATEMENT … FOR`, and `ANALYZE` before a statement that it executes. Returns an
/// empty string if the statement does not start with a word.
pub fn first_word(sql: &[u8]) -> String {
    take_keyword(&mut statement_start(sql))
}

/// First words of statements that change rows. Servers log `SELECT` only for a stored function that has changed rows.
pub(crate) const ROW_VERBS: [&str; 8] =
    ["INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "WITH", "SELECT"];

/// Returns whether a logged statement changes rows and no definitions. `CREATE TABLE … SELECT` changes both:
/// [`NewTable::Query`](crate::ddl::NewTable::Query).
pub fn is_row_statement(sql: &[u8]) -> bool {
    statement_start(sql).is_any_word(&ROW_VERBS)
}

/// Returns the statement as the server that logged it has executed it. MariaDB executes the comments `/*M! … */`: they
/// become `/*! … */`, and all offsets stay the same. A server logs a comment that it has skipped without its `!`.
pub fn executed_statement(sql: &[u8], sql_mode: u64, flavour: Flavour) -> Cow<'_, [u8]> {
    const START: &[u8] = b"/*M!";
    if flavour != Flavour::MariaDb || !sql.windows(START.len()).any(|part| part == START) {
        return sql.into();
    }
    let mut executed = sql.to_vec();
    let mut start = 0;
    loop {
        // The marks in an executed comment become tokens only after its own mark has changed.
        let mut tokens = SqlLexer::new(&executed[start..], sql_mode);
        let Some(comment) = tokens.find(|token| token.kind == SqlTokenKind::MariadbComment) else {
            return executed.into();
        };
        start += comment.at.start;
        executed[start..start + START.len()].copy_from_slice(b" /*!");
    }
}

/// Returns the bits of `sql_mode` with which a server of this flavour has run a logged statement.
pub fn query_sql_mode(query: &Query<'_>, flavour: Flavour) -> u64 {
    let mode = query.status.iter().flatten().find_map(|variable| match variable {
        StatusVar::SqlMode(bits) => Some(bits),
        _ => None,
    });
    effective_modes(mode.unwrap_or(0), flavour)
}

/// Returns a logged statement as the server that logged it has executed it, parsed as DDL.
pub fn query_ddl(query: &Query<'_>, flavour: Flavour) -> DdlStatement {
    let sql_mode = query_sql_mode(query, flavour);
    let sql = executed_statement(query.sql, sql_mode, flavour);
    let words = SqlWords::parse(&query_text(&Query { sql: &sql, ..*query }, flavour), sql_mode);
    words.map_or(DdlStatement::Unknown, |words| DdlStatement::parse(&words))
}

/// Returns the text of a statement in the log, from its client's character set.
pub fn query_text<'q>(query: &Query<'q>, flavour: Flavour) -> Cow<'q, str> {
    let client = query.status.iter().flatten().find_map(|variable| match variable {
        StatusVar::Charset { client, .. } => Some(client),
        _ => None,
    });
    decode_statement(query.sql, client, flavour)
}

/// Decodes a statement from its client's character set, which `client` has as the number of a collation. Servers write
/// a `CREATE TABLE … START TRANSACTION` in UTF-8, whatever the client's character set is.
pub fn decode_statement(sql: &[u8], client: Option<u16>, flavour: Flavour) -> Cow<'_, str> {
    let collation = client.and_then(|client| Collation::new(client, flavour));
    let charset = collation.map_or(Charset::Utf8mb4, |collation| collation.charset());
    match sql.is_ascii() || find_start_transaction(sql).is_some() {
        true => Charset::Utf8mb4.decode_lossy(sql),
        false => charset.decode_lossy(sql),
    }
}

/// Returns the range of `START TRANSACTION` in a `CREATE TABLE`, after the columns and before the table's options
/// and partitions. Servers log it for `CREATE TABLE … SELECT`.
pub fn find_start_transaction(sql: &[u8]) -> Option<Range<usize>> {
    const START: &str = "START";
    let mut words = TokenCursor::new(sql, ANSI_QUOTES);
    if !words.take_word("CREATE") || !words.take_word("TABLE") {
        return None;
    }
    let mut depth = 0_u32;
    loop {
        if words.take_sign(b'(') {
            depth += 1;
        } else if words.take_sign(b')') {
            depth = depth.checked_sub(1)?;
        } else if depth == 0 && words.take_word(START) {
            let start = words.offset() - START.len();
            if words.take_word("TRANSACTION") {
                return Some(start..words.offset());
            }
        } else {
            words.take_next()?;
        }
    }
}

/// Returns a cursor before the first word of the executed statement.
fn statement_start(sql: &[u8]) -> TokenCursor<'_> {
    // Double quotes quote names: no string occurs in place of a table's name.
    let mut words = TokenCursor::new(sql, ANSI_QUOTES);
    words.skip_set_statement();
    let mut analyzed = words.clone();
    // MariaDB's `ANALYZE` executes a statement; `ANALYZE TABLE` is another statement.
    if analyzed.take_word("ANALYZE") {
        if analyzed.take_word("FORMAT") {
            analyzed.take_sign(b'=');
            analyzed.take_next();
        }
        if analyzed.is_any_word(&ROW_VERBS) {
            return analyzed;
        }
    }
    words
}

/// Takes `WITH a AS (…), b (c) AS (…)`, if it comes next. Returns the names of the common table expressions.
fn take_common_tables(words: &mut TokenCursor<'_>) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    if !words.take_word("WITH") {
        return names;
    }
    words.take_word("RECURSIVE");
    while let Some(name) = take_identifier(words) {
        names.push(name);
        words.skip_group();
        words.take_word("AS");
        words.skip_group();
        // MariaDB's syntax.
        if words.take_word("CYCLE") {
            words.skip_past("RESTRICT");
        }
        if !words.take_sign(b',') {
            break;
        }
    }
    names
}

fn one_table(words: &mut TokenCursor<'_>) -> StatementKind {
    StatementKind::Tables(take_table(words).into_iter().collect())
}

fn create(words: &mut TokenCursor<'_>) -> StatementKind {
    skip_create_options(words);
    words.take_word("TEMPORARY");
    match take_keyword(words).as_str() {
        "DATABASE" | "SCHEMA" => StatementKind::Database,
        "TABLE" | "VIEW" => {
            words.skip_words(&["IF", "NOT", "EXISTS"]);
            one_table(words)
        }
        "UNIQUE" | "FULLTEXT" | "SPATIAL" | "INDEX" | "TRIGGER" if words.skip_past("ON") => one_table(words),
        _ => StatementKind::Tables(Vec::new()),
    }
}

fn alter(words: &mut TokenCursor<'_>) -> StatementKind {
    skip_create_options(words);
    // MariaDB's syntax.
    words.skip_words(&["ONLINE", "IGNORE"]);
    match take_keyword(words).as_str() {
        "DATABASE" | "SCHEMA" => StatementKind::Database,
        "TABLE" | "VIEW" => {
            words.skip_words(&["IF", "EXISTS"]);
            let mut tables: Vec<_> = take_table(words).into_iter().collect();
            // `ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b` moves rows between the tables.
            if words.take_word("EXCHANGE") && words.skip_past("WITH") && words.take_word("TABLE") {
                tables.extend(take_table(words));
            }
            StatementKind::Tables(tables)
        }
        _ => StatementKind::Tables(Vec::new()),
    }
}

fn drop_kind(words: &mut TokenCursor<'_>) -> StatementKind {
    let is_temporary = words.take_word("TEMPORARY");
    match take_keyword(words).as_str() {
        "DATABASE" | "SCHEMA" => StatementKind::Database,
        "TABLE" | "TABLES" | "VIEW" => {
            let is_lenient = words.take_word("IF") && words.take_word("EXISTS");
            match is_temporary && is_lenient {
                true => StatementKind::DropTemporary,
                false => StatementKind::Tables(take_list(words)),
            }
        }
        "INDEX" if words.skip_past("ON") => one_table(words),
        "TRIGGER" => {
            let at = words.offset();
            StatementKind::DropTrigger((!words.take_word("IF")).then_some(at))
        }
        _ => StatementKind::Tables(Vec::new()),
    }
}

/// Parses `DELETE FROM a`, `DELETE a, b FROM d.t a JOIN b …`, `DELETE FROM a, b USING d.t a JOIN b …`. Aliases are
/// replaced by their tables.
fn delete(words: &mut TokenCursor<'_>) -> StatementKind {
    words.skip_words(&["LOW_PRIORITY", "QUICK", "IGNORE"]);
    let is_from = words.take_word("FROM");
    let mut named = take_list(words);
    if words.take_word(if is_from { "USING" } else { "FROM" }) {
        let joined = take_joined(words, "WHERE");
        for name in &mut named {
            if let Some(found) = joined.iter().find(|joined| joined.is_called(name)) {
                *name = found.table.clone();
            }
        }
    }
    StatementKind::Tables(named)
}

/// A table of a join.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AliasedTable {
    table: TableReference,
    alias: Option<Vec<u8>>,
}

impl AliasedTable {
    fn is_called(&self, name: &TableReference) -> bool {
        match (&self.alias, &name.database) {
            (Some(alias), None) => alias.eq_ignore_ascii_case(&name.table),
            (None, None) => self.table.table == name.table,
            (_, Some(_)) => self.table == *name,
        }
    }
}

/// Keywords that may follow a table of a join and are no alias.
const AFTER_TABLE: [&str; 16] = [
    "CROSS",
    "FORCE",
    "IGNORE",
    "INNER",
    "JOIN",
    "LEFT",
    "LIMIT",
    "NATURAL",
    "ON",
    "ORDER",
    "PARTITION",
    "RIGHT",
    "SET",
    "STRAIGHT_JOIN",
    "USE",
    "WHERE",
];

/// Takes the next token, and returns it in capitals. Returns an empty string unless it is an unquoted word.
fn take_keyword(words: &mut TokenCursor<'_>) -> String {
    let token = words.take_next().filter(|token| token.kind == SqlTokenKind::Word);
    token.map_or_else(String::new, |token| String::from_utf8_lossy(words.bytes(&token)).to_ascii_uppercase())
}

/// Skips `OR REPLACE`, `ALGORITHM = …`, `DEFINER = …`, `SQL SECURITY …`.
fn skip_create_options(words: &mut TokenCursor<'_>) {
    loop {
        if words.take_word("OR") {
            words.take_next();
        } else if words.take_word("ALGORITHM") || words.take_word("SQL") {
            words.take_next();
            words.take_next();
        } else if words.take_word("DEFINER") {
            words.take_next();
            words.take_next();
            if words.take_sign(b'@') || words.take_sign(b'(') {
                words.take_next();
            }
        } else {
            return;
        }
    }
}

/// Takes `table` or `database.table`. Returns `None` for `*` and `database.*`.
fn take_table(words: &mut TokenCursor<'_>) -> Option<TableReference> {
    let first = take_identifier(words)?;
    if !words.take_sign(b'.') {
        return Some(TableReference { database: None, table: first });
    }
    match take_identifier(words) {
        Some(table) => Some(TableReference { database: Some(first), table }),
        None => {
            words.take_sign(b'*');
            None
        }
    }
}

fn take_identifier(words: &mut TokenCursor<'_>) -> Option<Vec<u8>> {
    let token = words.take_name()?;
    Some(name_of(words.bytes(&token)).into_owned())
}

/// Takes a list of names separated by commas.
fn take_list(words: &mut TokenCursor<'_>) -> Vec<TableReference> {
    let mut names = Vec::new();
    while let Some(name) = take_delete_target(words) {
        names.push(name);
        if !words.take_sign(b',') {
            break;
        }
    }
    names
}

/// Takes `table`, `database.table` or, as DELETE allows, `table.*` and `database.table.*`.
fn take_delete_target(words: &mut TokenCursor<'_>) -> Option<TableReference> {
    let first = take_identifier(words)?;
    if !words.take_sign(b'.') || words.take_sign(b'*') {
        return Some(TableReference { database: None, table: first });
    }
    let table = take_identifier(words)?;
    if words.take_sign(b'.') {
        words.take_sign(b'*');
    }
    Some(TableReference { database: Some(first), table })
}

/// Takes `a TO b, c TO d`.
fn take_renames(words: &mut TokenCursor<'_>) -> Vec<TableReference> {
    let mut names = Vec::new();
    while let Some(name) = take_table(words) {
        names.push(name);
        if !(words.take_word("TO") || words.take_sign(b',')) {
            break;
        }
    }
    names
}

/// Takes the tables before this word, separated by commas or joins.
fn take_joined(words: &mut TokenCursor<'_>, end: &str) -> Vec<AliasedTable> {
    let mut tables: Vec<AliasedTable> = take_aliased(words).into_iter().collect();
    while words.peek().is_some() && !words.take_word(end) {
        let is_separator = words.is_any_word(&["JOIN", "STRAIGHT_JOIN"]) || words.is_sign(b',');
        words.take_next();
        if is_separator {
            tables.extend(take_aliased(words));
        }
    }
    tables
}

/// Takes `table`, `table alias` or `table AS alias`, possibly after parentheses.
fn take_aliased(words: &mut TokenCursor<'_>) -> Option<AliasedTable> {
    while words.take_sign(b'(') {}
    let table = take_table(words)?;
    words.take_word("AS");
    let alias = if words.is_any_word(&AFTER_TABLE) { None } else { take_identifier(words) };
    Some(AliasedTable { table, alias })
}

#[cfg(test)]
mod tests {
    use super::{
        StatementKind, TableReference, classify_statement, decode_statement, executed_statement,
        find_start_transaction, first_word, is_account_statement, is_row_statement,
    };
    use binlog::Flavour;

    #[test]
    fn statements_are_decoded_from_the_clients_character_set() {
        let check = |sql: &[u8], client, expected: &str| {
            assert_eq!(decode_statement(sql, client, Flavour::MySql), expected);
        };
        let [latin1, gbk, utf8mb4] = [Some(8), Some(28), Some(45)];
        check(b"DROP TABLE gr\xf6\xdfe", latin1, "DROP TABLE größe");
        check("DROP TABLE größe".as_bytes(), utf8mb4, "DROP TABLE größe");
        check("DROP TABLE größe".as_bytes(), None, "DROP TABLE größe");
        // The second byte of a character is a backquote.
        check(b"DROP TABLE `\x81\x60`", gbk, "DROP TABLE `乣`");
        // The server writes this statement itself.
        let created = "CREATE TABLE größe (a int) START TRANSACTION";
        check(created.as_bytes(), latin1, created);
    }

    #[test]
    fn account_statements_are_recognised() {
        for sql in [
            "GRANT SELECT ON d.t TO u",
            "revoke all on *.* from u",
            "/* x */ CREATE USER 'u'@'%' IDENTIFIED WITH 'sha256_password'",
            "create or replace role r",
            "ALTER USER u ACCOUNT LOCK",
            "DROP ROLE IF EXISTS r",
            "RENAME USER a TO b",
            "SET PASSWORD FOR 'u'@'%'='x'",
            "SET DEFAULT ROLE r TO u",
            "SET STATEMENT a=1 FOR GRANT SELECT ON d.t TO u",
        ] {
            assert!(is_account_statement(sql.as_bytes()), "{sql}");
        }
        for sql in ["CREATE TABLE user (a int)", "RENAME TABLE a TO b", "SET @a = 1", "DROP TABLE user", ""] {
            assert!(!is_account_statement(sql.as_bytes()), "{sql}");
        }
    }

    #[test]
    fn create_table_select_contains_start_transaction() {
        let check = |sql: &str, expected: Option<&str>| {
            let without =
                |clause: std::ops::Range<usize>| format!("{}{}", &sql[..clause.start], &sql[clause.end..]);
            assert_eq!(find_start_transaction(sql.as_bytes()).map(without).as_deref(), expected, "{sql}");
        };
        check(
            "CREATE TABLE `t` (\n  `a` int\n) START TRANSACTION",
            Some("CREATE TABLE `t` (\n  `a` int\n) "),
        );
        check(
            "CREATE TABLE `t` (`a` int) START TRANSACTION ENGINE=InnoDB\n/*!50100 PARTITION BY HASH (`a`) */",
            Some("CREATE TABLE `t` (`a` int)  ENGINE=InnoDB\n/*!50100 PARTITION BY HASH (`a`) */"),
        );
        check("create table t (a int) start  transaction", Some("create table t (a int) "));
        check("CREATE TABLE t (a int COMMENT 'x) START TRANSACTION')", None);
        check("CREATE TABLE t (`START` int, TRANSACTION int)", None);
        check("CREATE TABLE t (a int) COMMENT 'START TRANSACTION'", None);
        check("CREATE DATABASE d", None);
        check("START TRANSACTION", None);
    }

    /// Checks the tables of a statement: `a`, `d.a`, separated by blanks.
    fn check(sql: &str, expected: &str) {
        let named = |word: &str| match word.split_once('.') {
            Some((database, table)) => {
                TableReference { database: Some(database.into()), table: table.into() }
            }
            None => TableReference { database: None, table: word.into() },
        };
        let expected = expected.split_whitespace().map(named).collect();
        assert_eq!(classify_statement(sql.as_bytes()), StatementKind::Tables(expected), "{sql}");
    }

    #[test]
    fn definitions() {
        check("CREATE TABLE t (a INT)", "t");
        check("create table if not exists `d`.`t` (a INT)", "d.t");
        check("/* c */ CREATE /*!32302 TEMPORARY */ TABLE d . t LIKE e.u", "d.t");
        check(
            "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW d.v AS SELECT 1",
            "d.v",
        );
        check("CREATE UNIQUE INDEX i USING BTREE ON t (a)", "t");
        check("CREATE DEFINER=`root`@`%` TRIGGER g BEFORE INSERT ON d.t FOR EACH ROW SET @a = 1", "d.t");
        check("CREATE DEFINER=CURRENT_USER() PROCEDURE p() INSERT INTO t VALUES (1)", "");
        check("ALTER TABLE t RENAME TO u", "t");
        check("DROP TABLE IF EXISTS `a`,`d`.`b` /* generated by server */", "a d.b");
        check("DROP VIEW v", "v");
        check("DROP INDEX i ON t", "t");
        check("RENAME TABLE a TO b, d.c TO e.d", "a b d.c e.d");
        check("ALTER ONLINE IGNORE TABLE IF EXISTS d.t ADD a INT", "d.t");
        check("RENAME TABLE IF EXISTS a TO b", "a b");
        check("TRUNCATE t", "t");
        check("TRUNCATE TABLE d.t", "d.t");
        check("-- a line\nTRUNCATE TABLE d.t", "d.t");
        check("GRANT SELECT, INSERT ON d.t TO u", "d.t");
        check("GRANT SELECT ON d.* TO u", "");
        check("CREATE USER u", "");
    }

    #[test]
    fn changes() {
        check("INSERT INTO t VALUES (1)", "t");
        check("insert ignore d.t select * from u", "d.t");
        check("REPLACE `a``b` VALUES (1)", "a`b");
        check("UPDATE t SET a = 1", "t");
        check("UPDATE a, d.b AS x LEFT JOIN c ON 1 SET x.a = 1", "a d.b c");
        check("DELETE FROM t WHERE a = 1", "t");
        check("DELETE a, b FROM a JOIN b ON 1", "a b");
        check("DELETE FROM d.t AS x WHERE x.a = 1", "d.t");
        check(
            "DELETE A, `b`, e.v FROM d.t a JOIN (u AS `b` LEFT JOIN e.v ON 1) WHERE a.n = b.n",
            "d.t u e.v",
        );
        check("DELETE FROM x.*, d.b USING t x STRAIGHT_JOIN d.b", "t d.b");
        check("DELETE t FROM d.t, d.u WHERE t.a = u.a", "d.t");
        check("LOAD DATA INFILE 'x' REPLACE INTO TABLE d.t", "d.t");
        check("ANALYZE TABLE a, b", "a b");
        check("", "");
        check("SELECT 1", "");
        check("with c as (select 1 x) update t join c on c.x=t.id set t.v=77", "t");
        check(
            "with recursive `c` (x) as (select (1)), e as (select 2 x) delete from d.t where id in (select x from c)",
            "d.t",
        );
        check("with c as (select 1 x) update t join C join d.c set t.v=77", "t d.c");
        check("with c as (select 1) select * from c", "");
        check("with c", "");
        check("with c as (select (1) update t set v = 1", "");
        check("with c as (select 1), d as (select 2) update t set v = 1", "t");
        check("/*!80000 insert into d.t values (2,2) */", "d.t");
        check("analyze format=json update t set v=9", "t");
        check("SET STATEMENT max_statement_time=60 FOR INSERT INTO d.t VALUES (1)", "d.t");
        check("set statement a=(select 1 for update), b='for' for alter table t add a int", "t");
        check("SET STATEMENT a=1", "");
        check("-- it's\n# it's\nINSERT INTO d.1t VALUES (1)", "d.1t");
        check(r"LOAD DATA INFILE 'it\'s' INTO TABLE t", "t");
        check("CREATE DEFINER=u@10.0.0.1 VIEW v AS SELECT 1", "v");
    }

    #[test]
    fn row_statements() {
        let check = |sql: &str, expected: bool| {
            assert_eq!(is_row_statement(sql.as_bytes()), expected, "{sql}");
        };
        check("insert into t values (1)", true);
        check(" \n UPDATE t SET a = 1", true);
        check("/* x */ DELETE\tFROM t", true);
        check("replace t values (1)", true);
        check("with c as (select 1 x) update t join c on c.x=t.id set t.v=77", true);
        check("/*!80000 insert into t values (2,2) */", true);
        check("/*! update t set v = 1 */;", true);
        check("SELECT `d`.`f`()", true);
        check("set statement max_statement_time=1 for analyze update t set a = 1", true);
        check("create table cs select * from t", false);
        check("ALTER TABLE t ADD b INT", false);
        check("/*!40000 drop database if exists x*/", false);
        check("analyze table t", false);
        check("set @a = (select 1)", false);
        check("DO RELEASE_LOCK('x')", false);
        check("SAVEPOINT `insert`", false);
        check("`insert`", false);
        check("updates", false);
        check("", false);
    }

    #[test]
    fn executed_statements() {
        let check = |sql: &str, expected: &str| {
            let executed = executed_statement(sql.as_bytes(), 0, Flavour::MariaDb);
            assert_eq!(str::from_utf8(&executed).unwrap(), expected);
            assert_eq!(&*executed_statement(sql.as_bytes(), 0, Flavour::MySql), sql.as_bytes());
        };
        check("/*M! insert into t values (2,2) */", " /*! insert into t values (2,2) */");
        check("insert /*M!100500 a */ '/*M!' /*M! b */", "insert  /*!100500 a */ '/*M!'  /*! b */");
        check("/*M! a /*M! b */ c */", " /*! a  /*! b */ c */");
        check("/* 80000 a */ /*! b */", "/* 80000 a */ /*! b */");
    }

    #[test]
    fn first_words() {
        let check = |sql: &str, expected: &str| assert_eq!(first_word(sql.as_bytes()), expected, "{sql}");
        check(" /* a */ -- b\n# c\n\tinsert into t", "INSERT");
        check("/*!50003 create table t (a int) */", "CREATE");
        check("/*! */ /*!40000 drop */ /*!50000 database x*/", "DROP");
        check("/*M!100100 a */ create table t (a int)", "CREATE");
        check("analyze format = json delete from t", "DELETE");
        check("analyze table t", "ANALYZE");
        check("analyze local table `insert`", "ANALYZE");
        check("/* c */ set statement a=1 for Update t set a=1", "UPDATE");
        check("set a=1", "SET");
        check("(select 1)", "");
        check("/* open", "");
        check("", "");
    }

    #[test]
    fn others() {
        let check = |sql: &str, expected| assert_eq!(classify_statement(sql.as_bytes()), expected, "{sql}");
        check("CREATE DATABASE d", StatementKind::Database);
        check("drop schema if exists d", StatementKind::Database);
        check("ALTER DATABASE d CHARACTER SET latin1", StatementKind::Database);
        check("DROP TEMPORARY TABLE IF EXISTS `t`", StatementKind::DropTemporary);
        check("DROP TRIGGER g", StatementKind::DropTrigger(Some(12)));
        check("SET STATEMENT a=1 FOR DROP TRIGGER g", StatementKind::DropTrigger(Some(34)));
        check("SET STATEMENT a=1 FOR CREATE DATABASE d", StatementKind::Database);
        check("DROP TRIGGER IF EXISTS g", StatementKind::DropTrigger(None));
    }
}

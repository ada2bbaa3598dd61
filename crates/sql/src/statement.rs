//! Finds the tables that a statement changes, from as much of its SQL as that needs.

use std::ops::Range;

/// A table that a statement names.
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
    /// Drops a trigger, of a table that only the server knows. Without `IF EXISTS`, contains the offset where that
    /// would be inserted.
    DropTrigger(Option<usize>),
}

/// Returns the kind of a statement.
pub fn classify_statement(sql: &[u8]) -> StatementKind {
    let mut words = NameScanner::new(sql);
    match words.keyword().as_str() {
        "CREATE" => create(&mut words),
        "ALTER" => alter(&mut words),
        "DROP" => drop_kind(&mut words),
        "RENAME" if words.take("TABLE") || words.take("TABLES") => {
            StatementKind::Tables(words.take_renames())
        }
        "TRUNCATE" => {
            words.take("TABLE");
            one_table(&mut words)
        }
        "INSERT" | "REPLACE" => {
            words.skip(&["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"]);
            one_table(&mut words)
        }
        "UPDATE" => {
            words.skip(&["LOW_PRIORITY", "IGNORE"]);
            StatementKind::Tables(words.take_joined("SET").into_iter().map(|joined| joined.table).collect())
        }
        "DELETE" => delete(&mut words),
        "LOAD" => match words.skip_past("INTO") && words.take("TABLE") {
            true => one_table(&mut words),
            false => StatementKind::Tables(Vec::new()),
        },
        "ANALYZE" | "OPTIMIZE" | "REPAIR" | "CHECK" => {
            words.skip(&["NO_WRITE_TO_BINLOG", "LOCAL"]);
            match words.take("TABLE") || words.take("TABLES") {
                true => StatementKind::Tables(words.take_list()),
                false => StatementKind::Tables(Vec::new()),
            }
        }
        "GRANT" | "REVOKE" if words.skip_past("ON") => {
            words.take("TABLE");
            one_table(&mut words)
        }
        _ => StatementKind::Tables(Vec::new()),
    }
}

/// Returns the range of `START TRANSACTION` in a `CREATE TABLE`, behind the columns and in front of the table's options
/// and partitions. Servers log it for `CREATE TABLE … SELECT`.
pub fn find_start_transaction(sql: &[u8]) -> Option<Range<usize>> {
    const START: &str = "START";
    let mut words = NameScanner::new(sql);
    if !words.take("CREATE") || !words.take("TABLE") {
        return None;
    }
    let mut depth = 0_u32;
    loop {
        match words.next()? {
            NameToken::Sign(b'(') => depth += 1,
            NameToken::Sign(b')') => depth = depth.checked_sub(1)?,
            NameToken::Bare(word) if depth == 0 && word.eq_ignore_ascii_case(START.as_bytes()) => {
                let start = words.at - START.len();
                if words.take("TRANSACTION") {
                    return Some(start..words.at);
                }
            }
            _ => {}
        }
    }
}

fn one_table(words: &mut NameScanner<'_>) -> StatementKind {
    StatementKind::Tables(words.take_name().into_iter().collect())
}

fn create(words: &mut NameScanner<'_>) -> StatementKind {
    words.skip_create_options();
    words.take("TEMPORARY");
    match words.keyword().as_str() {
        "DATABASE" | "SCHEMA" => StatementKind::Database,
        "TABLE" | "VIEW" => {
            words.skip(&["IF", "NOT", "EXISTS"]);
            one_table(words)
        }
        "UNIQUE" | "FULLTEXT" | "SPATIAL" | "INDEX" | "TRIGGER" if words.skip_past("ON") => one_table(words),
        _ => StatementKind::Tables(Vec::new()),
    }
}

fn alter(words: &mut NameScanner<'_>) -> StatementKind {
    words.skip_create_options();
    match words.keyword().as_str() {
        "DATABASE" | "SCHEMA" => StatementKind::Database,
        "TABLE" | "VIEW" => one_table(words),
        _ => StatementKind::Tables(Vec::new()),
    }
}

fn drop_kind(words: &mut NameScanner<'_>) -> StatementKind {
    let is_temporary = words.take("TEMPORARY");
    match words.keyword().as_str() {
        "DATABASE" | "SCHEMA" => StatementKind::Database,
        "TABLE" | "TABLES" | "VIEW" => {
            let is_lenient = words.take("IF") && words.take("EXISTS");
            match is_temporary && is_lenient {
                true => StatementKind::DropTemporary,
                false => StatementKind::Tables(words.take_list()),
            }
        }
        "INDEX" if words.skip_past("ON") => one_table(words),
        "TRIGGER" => {
            let at = words.at;
            StatementKind::DropTrigger((!words.take("IF")).then_some(at))
        }
        _ => StatementKind::Tables(Vec::new()),
    }
}

/// Parses `DELETE FROM a`, `DELETE a, b FROM d.t a JOIN b …`, `DELETE FROM a, b USING d.t a JOIN b …`. Aliases are
/// replaced by their tables.
fn delete(words: &mut NameScanner<'_>) -> StatementKind {
    words.skip(&["LOW_PRIORITY", "QUICK", "IGNORE"]);
    let is_from = words.take("FROM");
    let mut named = words.take_list();
    if words.take(if is_from { "USING" } else { "FROM" }) {
        let joined = words.take_joined("WHERE");
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
const BEHIND_TABLE: [&str; 16] = [
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

/// Cursor over the words of a statement. Comments are skipped, except for versioned ones, which servers execute.
struct NameScanner<'s> {
    sql: &'s [u8],
    at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NameToken {
    /// Keyword or unquoted name.
    Bare(Vec<u8>),
    Quoted(Vec<u8>),
    Sign(u8),
}

impl<'s> NameScanner<'s> {
    const fn new(sql: &'s [u8]) -> Self {
        Self { sql, at: 0 }
    }

    /// Takes the next word, in capitals. Returns an empty string if it is no bare word.
    fn keyword(&mut self) -> String {
        match self.next() {
            Some(NameToken::Bare(word)) => String::from_utf8_lossy(&word).to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    /// Takes this word, if it is next.
    fn take(&mut self, wanted: &str) -> bool {
        let at = self.at;
        let is_next = self.keyword() == wanted;
        if !is_next {
            self.at = at;
        }
        is_next
    }

    fn take_sign(&mut self, wanted: u8) -> bool {
        let at = self.at;
        let is_next = self.next() == Some(NameToken::Sign(wanted));
        if !is_next {
            self.at = at;
        }
        is_next
    }

    /// Skips any of these words, repeatedly.
    fn skip(&mut self, words: &[&str]) {
        while words.iter().any(|word| self.take(word)) {}
    }

    /// Skips `OR REPLACE`, `ALGORITHM = …`, `DEFINER = …`, `SQL SECURITY …`.
    fn skip_create_options(&mut self) {
        loop {
            if self.take("OR") {
                self.next();
            } else if self.take("ALGORITHM") || self.take("SQL") {
                self.next();
                self.next();
            } else if self.take("DEFINER") {
                self.next();
                self.next();
                if self.take_sign(b'@') || self.take_sign(b'(') {
                    self.next();
                }
            } else {
                return;
            }
        }
    }

    /// Skips everything up to and including this word. Returns false if it does not occur.
    fn skip_past(&mut self, wanted: &str) -> bool {
        loop {
            match self.next() {
                Some(NameToken::Bare(word)) if word.eq_ignore_ascii_case(wanted.as_bytes()) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// Takes `table` or `database.table`. Returns `None` for `*` and `database.*`.
    fn take_name(&mut self) -> Option<TableReference> {
        let first = self.take_identifier()?;
        if !self.take_sign(b'.') {
            return Some(TableReference { database: None, table: first });
        }
        let at = self.at;
        match self.take_identifier() {
            Some(table) => Some(TableReference { database: Some(first), table }),
            None => {
                self.at = at;
                self.take_sign(b'*');
                None
            }
        }
    }

    fn take_identifier(&mut self) -> Option<Vec<u8>> {
        let at = self.at;
        match self.next() {
            Some(NameToken::Bare(name) | NameToken::Quoted(name)) => Some(name),
            _ => {
                self.at = at;
                None
            }
        }
    }

    /// Takes a list of names separated by commas.
    fn take_list(&mut self) -> Vec<TableReference> {
        let mut names = Vec::new();
        while let Some(name) = self.take_delete_target() {
            names.push(name);
            if !self.take_sign(b',') {
                break;
            }
        }
        names
    }

    /// Takes `table`, `database.table` or, as DELETE allows, `table.*` and `database.table.*`.
    fn take_delete_target(&mut self) -> Option<TableReference> {
        let first = self.take_identifier()?;
        if !self.take_sign(b'.') || self.take_sign(b'*') {
            return Some(TableReference { database: None, table: first });
        }
        let table = self.take_identifier()?;
        if self.take_sign(b'.') {
            self.take_sign(b'*');
        }
        Some(TableReference { database: Some(first), table })
    }

    /// Takes `a TO b, c TO d`.
    fn take_renames(&mut self) -> Vec<TableReference> {
        let mut names = Vec::new();
        while let Some(name) = self.take_name() {
            names.push(name);
            if !(self.take("TO") || self.take_sign(b',')) {
                break;
            }
        }
        names
    }

    /// Takes the tables in front of this word, separated by commas or joins.
    fn take_joined(&mut self, end: &str) -> Vec<AliasedTable> {
        let mut tables: Vec<AliasedTable> = self.take_aliased().into_iter().collect();
        loop {
            match self.next() {
                Some(NameToken::Bare(word)) if word.eq_ignore_ascii_case(end.as_bytes()) => return tables,
                Some(NameToken::Bare(word)) if is_join(&word) => tables.extend(self.take_aliased()),
                Some(NameToken::Sign(b',')) => tables.extend(self.take_aliased()),
                Some(_) => {}
                None => return tables,
            }
        }
    }

    /// Takes `table`, `table alias` or `table AS alias`, possibly behind parentheses.
    fn take_aliased(&mut self) -> Option<AliasedTable> {
        while self.take_sign(b'(') {}
        let table = self.take_name()?;
        self.take("AS");
        Some(AliasedTable { table, alias: self.take_alias() })
    }

    fn take_alias(&mut self) -> Option<Vec<u8>> {
        let at = self.at;
        let is_name = |word: &[u8]| !BEHIND_TABLE.iter().any(|no| word.eq_ignore_ascii_case(no.as_bytes()));
        match self.next() {
            Some(NameToken::Quoted(name)) => Some(name),
            Some(NameToken::Bare(name)) if is_name(&name) => Some(name),
            _ => {
                self.at = at;
                None
            }
        }
    }

    fn next(&mut self) -> Option<NameToken> {
        self.skip_blanks();
        let rest = self.sql.get(self.at..)?;
        let first = *rest.first()?;
        let (word, size) = match first {
            b'`' | b'"' | b'\'' => quoted(rest, first),
            _ if is_of_a_name(first) => {
                let size = rest.iter().take_while(|byte| is_of_a_name(**byte)).count();
                (NameToken::Bare(rest[..size].to_vec()), size)
            }
            sign => (NameToken::Sign(sign), 1),
        };
        self.at += size;
        Some(word)
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.sql.get(self.at..).unwrap_or_default();
            self.at += match rest {
                [b'/', b'*', b'!', ..] => {
                    3 + rest[3..].iter().take_while(|byte| byte.is_ascii_digit()).count()
                }
                [b'/', b'*', ..] => end_of(rest, b"*/"),
                [b'*', b'/', ..] => 2,
                [b'#', ..] => end_of(rest, b"\n"),
                [b'-', b'-', blank, ..] if blank.is_ascii_whitespace() => end_of(rest, b"\n"),
                [blank, ..] if blank.is_ascii_whitespace() => 1,
                _ => return,
            };
        }
    }
}

fn is_join(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"JOIN") || word.eq_ignore_ascii_case(b"STRAIGHT_JOIN")
}

/// Returns the number of bytes up to and including this mark.
fn end_of(text: &[u8], mark: &[u8]) -> usize {
    let at = text.windows(mark.len()).position(|window| window == mark);
    at.map_or(text.len(), |at| at + mark.len())
}

/// Returns a quoted name and the number of bytes that it takes. A doubled quote stands for one.
fn quoted(text: &[u8], quote: u8) -> (NameToken, usize) {
    let (mut name, mut at) = (Vec::new(), 1);
    while let Some(byte) = text.get(at) {
        at += 1;
        if *byte == quote {
            if text.get(at) != Some(&quote) {
                break;
            }
            at += 1;
        }
        name.push(*byte);
    }
    (NameToken::Quoted(name), at)
}

const fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::{StatementKind, TableReference, classify_statement, find_start_transaction};

    #[test]
    fn tables_of_queries_say_start_transaction() {
        let check = |sql: &str, wanted: Option<&str>| {
            let without =
                |clause: std::ops::Range<usize>| format!("{}{}", &sql[..clause.start], &sql[clause.end..]);
            assert_eq!(find_start_transaction(sql.as_bytes()).map(without).as_deref(), wanted, "{sql}");
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
    fn check(sql: &str, wanted: &str) {
        let named = |word: &str| match word.split_once('.') {
            Some((database, table)) => {
                TableReference { database: Some(database.into()), table: table.into() }
            }
            None => TableReference { database: None, table: word.into() },
        };
        let wanted = wanted.split_whitespace().map(named).collect();
        assert_eq!(classify_statement(sql.as_bytes()), StatementKind::Tables(wanted), "{sql}");
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
    }

    #[test]
    fn others() {
        let check = |sql: &str, wanted| assert_eq!(classify_statement(sql.as_bytes()), wanted, "{sql}");
        check("CREATE DATABASE d", StatementKind::Database);
        check("drop schema if exists d", StatementKind::Database);
        check("ALTER DATABASE d CHARACTER SET latin1", StatementKind::Database);
        check("DROP TEMPORARY TABLE IF EXISTS `t`", StatementKind::DropTemporary);
        check("DROP TRIGGER g", StatementKind::DropTrigger(Some(12)));
        check("DROP TRIGGER IF EXISTS g", StatementKind::DropTrigger(None));
    }
}

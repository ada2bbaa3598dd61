//! Table definitions from the DDL statements in the log: names for columns that rows events do not name.
//!
//! A DDL statement that cannot be parsed is no error: from there on, the tables that it names are unknown.

mod column;
mod told;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use filter::Words;

use crate::catalogue::TableFacts;
use crate::defined::column::{
    CHARACTER_SET, Place, charset_name, charset_of, column, key, of_charset, put_column, recode, rename,
    set_default, written,
};

pub(crate) use crate::defined::told::put_changes;

/// Table definitions that DDL statements have created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    /// Tables by database and name. Shared with copies that wait to be saved.
    tables: Arc<BTreeMap<Name, TableFacts>>,
    /// Default character sets of databases, as far as DDL statements state them.
    charsets: Arc<BTreeMap<String, String>>,
}

/// Session state that the meaning of a statement depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ambient<'a> {
    /// Default database.
    pub(crate) database: &'a str,
    /// Bits of `sql_mode`.
    pub(crate) sql_mode: u64,
    /// Character set of the server.
    pub(crate) charset: Option<&'a str>,
    /// True if the statement may have had no effect. A server logs `IF NOT EXISTS` even if the table existed.
    pub(crate) may_be_idle: bool,
}

/// Changes that a statement made to table definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Changed tables, each with its definition before; `None` if it did not exist.
    were: BTreeMap<Name, Option<TableFacts>>,
    /// True if the character set of a database has changed.
    has_charsets: bool,
}

/// Database and name of a table.
type Name = [String; 2];

/// Keywords that start an element of CREATE TABLE that is no column. A word that is not reserved is listed with its
/// next word, because it may be a column name otherwise.
const ELEMENTS: [&str; 10] = [
    "CONSTRAINT",
    "PRIMARY",
    "UNIQUE",
    "INDEX",
    "KEY",
    "FULLTEXT",
    "SPATIAL",
    "FOREIGN",
    "CHECK",
    "PERIOD FOR",
];

/// Keywords that follow ALTER TABLE … DROP when no column is dropped.
const OTHERS: [&str; 8] =
    ["PARTITION", "INDEX", "KEY", "FOREIGN", "CHECK", "CONSTRAINT", "SYSTEM VERSIONING", "PERIOD FOR"];

impl Definitions {
    /// Applies a statement, if it defines tables. Returns the changes.
    pub(crate) fn take(&mut self, sql: &str, ambient: Ambient<'_>) -> Changes {
        let Some(mut words) = Words::of(sql, ambient.sql_mode) else { return Changes::default() };
        let naming = Naming { database: ambient.database };
        let charsets = Charsets { of: &mut self.charsets, server: ambient.charset };
        let (may_be_idle, changes) = (ambient.may_be_idle, Changes::default());
        let mut tables = Tables { all: &mut self.tables, charsets, may_be_idle, changes };
        tables.read(&mut words, &naming);
        let mut changes = tables.changes;
        changes.were.retain(|name, was| self.tables.get(name) != was.as_ref());
        changes
    }

    /// Returns a table; `None` if no DDL statement on it could be parsed.
    pub fn table(&self, database: &str, table: &str) -> Option<&TableFacts> {
        find(&self.tables, [database, table]).map(|(_, facts)| facts)
    }

    /// Inserts a table from another source. `statement` is its SHOW CREATE TABLE, if available, which has more detail.
    pub fn put(&mut self, names: [&str; 2], mut facts: TableFacts, statement: Option<&str>) {
        if let Some(made) = statement.and_then(made)
            && made
                .columns
                .iter()
                .map(|column| &column.name)
                .eq(facts.columns.iter().map(|column| &column.name))
        {
            facts.charset = made.charset;
            for (column, made) in facts.columns.iter_mut().zip(made.columns) {
                column.written = made.written;
            }
        }
        for column in &mut facts.columns {
            if column.written.type_name.is_empty() {
                column.written = written(&column.column_type).unwrap_or_default();
            }
            // Saved definitions contain names of character sets, not of collations.
            column.collation = column.collation.map(of_charset);
        }
        Arc::make_mut(&mut self.tables).insert(names.map(str::to_owned), facts);
    }

    /// Inserts the character set of a database from another source.
    pub fn put_database(&mut self, name: &str, charset: &str) {
        Arc::make_mut(&mut self.charsets).insert(name.to_owned(), charset.to_ascii_lowercase());
    }

    /// Parses saved definitions, the format that `Display` writes.
    pub fn parse(text: &str) -> Self {
        let (mut tables, mut charsets) = (BTreeMap::new(), BTreeMap::new());
        for mut words in text.split(END).filter_map(|statement| Words::of(statement, 0)) {
            if words.take("CREATE DATABASE") {
                charsets.extend(words.name().zip(charset(&mut words)));
            } else if words.take("CREATE TABLE") {
                tables.extend(saved(&mut words));
            }
        }
        Self { tables: Arc::new(tables), charsets: Arc::new(charsets) }
    }
}

/// Parses the output of SHOW CREATE TABLE.
fn made(statement: &str) -> Option<TableFacts> {
    let mut words = Words::of(statement, 0)?;
    words.take("CREATE TABLE").then_some(())?;
    words.table()?;
    created(words.group()?, &mut words, None)
}

/// Parses a saved table. The character set of its database does not apply to it.
fn saved(words: &mut Words) -> Option<(Name, TableFacts)> {
    let (database, table) = words.table()?;
    let facts = created(words.group()?, words, None)?;
    Some(([database?, table], facts))
}

impl Changes {
    /// Returns whether nothing has changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.were.is_empty() && !self.has_charsets
    }
}

/// End of a saved statement.
const END: &str = ";\n";

/// Writes the definitions as CREATE statements, one per line.
impl fmt::Display for Definitions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (database, charset) in self.charsets.iter() {
            write!(out, "CREATE DATABASE {} CHARACTER SET {charset}{END}", quoted(database))?;
        }
        for ([database, table], facts) in self.tables.iter() {
            write!(out, "CREATE TABLE {}.{} (", quoted(database), quoted(table))?;
            for (index, column) in facts.columns.iter().enumerate() {
                let mut text = String::from(if index > 0 { ", " } else { "" });
                put_column(&mut text, column);
                out.write_str(&text)?;
            }
            if !facts.primary_key.is_empty() {
                let names: Vec<String> = facts.primary_key.iter().map(|name| quoted(name)).collect();
                write!(out, ", PRIMARY KEY ({})", names.join(", "))?;
            }
            out.write_char(')')?;
            if let Some(charset) = &facts.charset {
                write!(out, " DEFAULT CHARACTER SET {charset}")?;
            }
            out.write_str(END)?;
        }
        Ok(())
    }
}

/// Returns a name quoted for SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Default database of table names that have none.
struct Naming<'n> {
    database: &'n str,
}

impl Naming<'_> {
    fn table(&self, words: &mut Words) -> Option<Name> {
        let (database, table) = words.table()?;
        Some([database.unwrap_or_else(|| self.database.to_owned()), table])
    }
}

/// Finds a table by its exact name, or else by a name that differs only in case.
fn find<'t>(tables: &'t BTreeMap<Name, TableFacts>, name: [&str; 2]) -> Option<(&'t Name, &'t TableFacts)> {
    let exact = tables.get_key_value(&name.map(str::to_owned));
    exact.or_else(|| {
        let is_it =
            |found: &Name| found.iter().zip(name).all(|(found, name)| found.eq_ignore_ascii_case(name));
        tables.iter().find(|(found, _)| is_it(found))
    })
}

/// Applies DDL statements to the definitions.
struct Tables<'t> {
    /// Copied before the first change, if shared.
    all: &'t mut Arc<BTreeMap<Name, TableFacts>>,
    charsets: Charsets<'t>,
    may_be_idle: bool,
    changes: Changes,
}

/// Default character sets, for databases and tables that do not name one.
struct Charsets<'t> {
    /// Character sets of databases.
    of: &'t mut Arc<BTreeMap<String, String>>,
    server: Option<&'t str>,
}

impl Tables<'_> {
    fn read(&mut self, words: &mut Words, naming: &Naming<'_>) {
        if words.take("CREATE") {
            words.take("OR REPLACE");
            if words.take("TABLE") {
                self.create(words, naming);
            } else if words.take_any(&["DATABASE", "SCHEMA"]) {
                // If the database existed, its character set is unknown.
                if !words.take("IF NOT EXISTS") {
                    self.database(words, naming, self.charsets.server);
                }
            }
        } else if words.take("ALTER") {
            words.take_any(&["ONLINE", "IGNORE"]);
            if words.take("TABLE") {
                words.take("IF EXISTS");
                self.alter(words, naming);
            } else if words.take_any(&["DATABASE", "SCHEMA"]) {
                self.database(words, naming, None);
            }
        } else if words.take("DROP") {
            self.drop(words, naming);
        } else if words.take_any(&["RENAME TABLE", "RENAME TABLES"]) {
            self.rename_all(words, naming);
        }
    }

    /// Sets the character set of a database. `server` is the default for CREATE.
    fn database(&mut self, words: &mut Words, naming: &Naming<'_>, server: Option<&str>) {
        let is_named =
            !["CHARACTER", "CHAR", "CHARSET", "COLLATE", "DEFAULT"].iter().any(|word| words.is(word));
        let name = if is_named { words.name() } else { Some(naming.database.to_owned()) };
        if let (Some(name), Some(charset)) = (name, charset(words).or(server.map(str::to_owned))) {
            let was = Arc::make_mut(self.charsets.of).insert(name, charset.clone());
            self.changes.has_charsets |= was.is_none_or(|was| was != charset);
        }
    }

    fn create(&mut self, words: &mut Words, naming: &Naming<'_>) {
        let is_kept = words.take("IF NOT EXISTS");
        let Some(name) = naming.table(words) else { return };
        // A table that existed before may have other columns.
        if is_kept && (self.may_be_idle || self.find(&name).is_some()) {
            return;
        }
        let mut inner = words.clone().group().unwrap_or_else(|| words.clone());
        let facts = match inner.take("LIKE") {
            true => naming.table(&mut inner).and_then(|model| Some(self.find(&model)?.1.clone())),
            false => {
                let charset = self.charsets.of.get(&name[0]).cloned();
                words.group().and_then(|group| created(group, words, charset))
            }
        };
        self.put(name, facts);
    }

    /// Sets the definition of a table; `None` if it could not be parsed.
    fn put(&mut self, name: Name, facts: Option<TableFacts>) {
        self.remove(&name);
        if facts.is_some() {
            self.set(name, facts);
        }
    }

    /// Replaces or removes a table, and records the change. All changes go through this method.
    fn set(&mut self, name: Name, facts: Option<TableFacts>) {
        let all = Arc::make_mut(self.all);
        let was = match facts {
            Some(facts) => all.insert(name.clone(), facts),
            None => all.remove(&name),
        };
        self.changes.were.entry(name).or_insert(was);
    }

    fn find(&self, [database, table]: &Name) -> Option<(&Name, &TableFacts)> {
        find(self.all, [database, table])
    }

    fn remove(&mut self, name: &Name) -> Option<TableFacts> {
        let (name, facts) = self.find(name)?;
        let (name, facts) = (name.clone(), facts.clone());
        self.set(name, None);
        Some(facts)
    }

    fn drop(&mut self, words: &mut Words, naming: &Naming<'_>) {
        if words.take_any(&["DATABASE", "SCHEMA"]) {
            words.take("IF EXISTS");
            if let Some(name) = words.name() {
                let is_in = |[database, _]: &&Name| database.eq_ignore_ascii_case(&name);
                let names: Vec<Name> = self.all.keys().filter(is_in).cloned().collect();
                names.into_iter().for_each(|table| self.set(table, None));
                self.changes.has_charsets |= Arc::make_mut(self.charsets.of).remove(&name).is_some();
            }
        } else if words.take_any(&["TABLE", "TABLES"]) {
            words.take("IF EXISTS");
            while let Some(name) = naming.table(words) {
                self.remove(&name);
                words.take_sign(",");
            }
        }
    }

    fn rename_all(&mut self, words: &mut Words, naming: &Naming<'_>) {
        words.take("IF EXISTS");
        while let Some(old) = naming.table(words) {
            words.take("TO");
            let Some(new) = naming.table(words) else { return };
            let facts = self.remove(&old);
            self.put(new, facts);
            words.take_sign(",");
        }
    }

    fn alter(&mut self, words: &mut Words, naming: &Naming<'_>) {
        let Some(name) = naming.table(words) else { return };
        let Some((name, facts)) = self.find(&name) else { return };
        let (name, mut facts) = (name.clone(), facts.clone());
        let database_charset = self.charsets.of.get(&name[0]).cloned();
        let mut new_name = None;
        let mut is_understood = true;
        for mut part in words.parts() {
            // The elements after ORDER BY may be column names.
            if part.is("ORDER") || part.is("PARTITION") {
                break;
            }
            if let Some(new) = renamed(&part, naming) {
                new_name = Some(new);
                continue;
            }
            is_understood &= change(&mut part, &mut facts, database_charset.as_deref()).is_some();
        }
        if !is_understood || new_name.is_some() {
            self.remove(&name);
        }
        if is_understood {
            self.put(new_name.unwrap_or(name), Some(facts));
        }
    }
}

/// Parses the parentheses of CREATE TABLE, and the table options after them.
fn created(mut group: Words, options: &mut Words, database_charset: Option<String>) -> Option<TableFacts> {
    let mut facts = TableFacts::default();
    // A query appends columns whose definitions are unknown.
    if options.holds(&["SELECT", "AS", "WITH", "VALUES", "TABLE"]) {
        return None;
    }
    let charset = charset(options).or(database_charset);
    for mut part in group.parts() {
        if !element(&mut part, &mut facts)? {
            let (column, is_key) = column(&mut part, charset.as_deref())?;
            if is_key {
                facts.primary_key = vec![column.name.clone()];
            }
            facts.columns.push(column);
        }
    }
    facts.charset = charset;
    Some(facts)
}

/// Returns the character set from the options of a table or database.
fn charset(options: &mut Words) -> Option<String> {
    let mut charset = None;
    while !options.is_over() {
        if options.take_any(&CHARACTER_SET) {
            options.take_sign("=");
            charset = charset_name(options).map(|name| name.to_ascii_lowercase());
        } else if options.take("COLLATE") {
            options.take_sign("=");
            charset = charset.or(charset_name(options).map(|name| charset_of(&name)));
        } else {
            options.skip();
        }
    }
    charset
}

/// Takes an element that is no column, and sets the primary key if it declares one. Returns whether it was one.
fn element(words: &mut Words, facts: &mut TableFacts) -> Option<bool> {
    if !ELEMENTS.iter().any(|element| words.is(element)) {
        return Some(false);
    }
    if words.take("CONSTRAINT") && !words.is("PRIMARY") {
        words.name();
    }
    if words.take("PRIMARY KEY") {
        if words.take("USING") {
            words.skip();
        }
        facts.primary_key = key(words.group()?)?;
    }
    Some(true)
}

/// Parses `RENAME [TO] name` and `RENAME = name`, which rename the table itself.
fn renamed(words: &Words, naming: &Naming<'_>) -> Option<Name> {
    let mut words = words.clone();
    let is_it = words.take("RENAME") && !["COLUMN", "INDEX", "KEY"].iter().any(|part| words.is(part));
    if !is_it {
        return None;
    }
    words.take_any(&["TO", "AS"]);
    words.take_sign("=");
    naming.table(&mut words)
}

/// Applies one alteration of ALTER TABLE; `None` if it cannot be parsed.
fn change(words: &mut Words, facts: &mut TableFacts, database_charset: Option<&str>) -> Option<()> {
    if words.take("ADD") {
        return add(words, facts);
    }
    if words.take("DROP") {
        return dropped(words, facts);
    }
    if words.take("MODIFY") {
        words.take("COLUMN");
        words.take("IF EXISTS");
        let old = words.clone().name()?;
        return replace(words, facts, &old);
    }
    if words.take("CHANGE") {
        words.take("COLUMN");
        words.take("IF EXISTS");
        let old = words.name()?;
        return replace(words, facts, &old);
    }
    if words.take("RENAME COLUMN") {
        words.take("IF EXISTS");
        let old = words.name()?;
        words.take("TO").then_some(())?;
        return rename(facts, &old, &words.name()?);
    }
    if words.take("ALTER") {
        words.take("COLUMN");
        return set_default(words, facts);
    }
    if words.take("CONVERT TO") {
        let charset = charset(words)?;
        recode(facts, if charset == "default" { database_charset } else { Some(&charset) });
        return Some(());
    }
    // Table options, some of which may set a character set, and partitions. Column names stay.
    facts.charset = charset(words).or(facts.charset.take());
    Some(())
}

fn add(words: &mut Words, facts: &mut TableFacts) -> Option<()> {
    if words.is("PARTITION") || words.is("SYSTEM VERSIONING") || element(words, facts)? {
        return Some(());
    }
    words.take("COLUMN");
    let has = words.take("IF NOT EXISTS");
    let mut added = |words: &mut Words| {
        let (column, is_key) = column(words, facts.charset.as_deref())?;
        if has && facts.columns.iter().any(|other| other.name.eq_ignore_ascii_case(&column.name)) {
            return Some(());
        }
        if is_key {
            facts.primary_key = vec![column.name.clone()];
        }
        let at = Place::of(words)?.at(facts)?.unwrap_or(facts.columns.len());
        facts.columns.insert(at, column);
        Some(())
    };
    match words.group() {
        Some(mut group) => {
            group.parts().iter_mut().try_for_each(|part| match ELEMENTS.iter().any(|word| part.is(word)) {
                true => Some(()),
                false => added(part),
            })
        }
        None => added(words),
    }
}

fn dropped(words: &mut Words, facts: &mut TableFacts) -> Option<()> {
    if words.take("PRIMARY KEY") {
        facts.primary_key.clear();
        return Some(());
    }
    if OTHERS.iter().any(|other| words.is(other)) {
        return Some(());
    }
    words.take("COLUMN");
    let may_lack = words.take("IF EXISTS");
    let name = words.name()?;
    let at = facts.columns.iter().position(|column| column.name.eq_ignore_ascii_case(&name));
    match at {
        Some(at) => drop(facts.columns.remove(at)),
        None => may_lack.then_some(())?,
    }
    facts.primary_key.retain(|column| !column.eq_ignore_ascii_case(&name));
    Some(())
}

/// Replaces a column definition.
fn replace(words: &mut Words, facts: &mut TableFacts, old: &str) -> Option<()> {
    let (column, is_key) = column(words, facts.charset.as_deref())?;
    rename(facts, old, &column.name)?;
    if is_key {
        facts.primary_key = vec![column.name.clone()];
    }
    let was = facts.columns.iter().position(|other| other.name == column.name)?;
    facts.columns.remove(was);
    let at = Place::of(words)?.at(facts)?.unwrap_or(was);
    facts.columns.insert(at, column);
    Some(())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::Arc;

    use super::{Ambient, Definitions};
    use crate::catalogue::{ColumnFacts, TableFacts};

    /// Checks the tables that statements create, and that these survive saving.
    fn check(statements: &[&str], wanted: &str) {
        let mut definitions = Definitions::default();
        for statement in statements {
            definitions.take(statement, Ambient { database: "d", ..Ambient::default() });
        }
        assert_eq!(definitions.to_string().trim_end(), wanted, "{statements:?}");
        assert_eq!(Definitions::parse(&definitions.to_string()), definitions);
    }

    #[test]
    fn tables_are_made() {
        check(
            &["create table t (a int primary key, b varchar(9) not null default 'x' comment 'a, (b')"],
            "CREATE TABLE `d`.`t` (`a` int NOT NULL, `b` varchar(9) NOT NULL DEFAULT 'x', PRIMARY KEY (`a`));",
        );
        check(
            &[
                "CREATE TABLE IF NOT EXISTS `e`.`t``u` (a BIGINT UNSIGNED AUTO_INCREMENT, `key` ENUM('it''s','x\\\\y') \
               CHARACTER SET latin1, c DECIMAL(5,2) ZEROFILL, d DOUBLE PRECISION, j int generated always as (a + 1), \
               PRIMARY KEY USING BTREE (a, c), UNIQUE KEY k (d), CONSTRAINT f FOREIGN KEY (a) REFERENCES x (y), \
               CHECK (a > 0)) ENGINE=InnoDB PARTITION BY HASH(a) PARTITIONS 3",
            ],
            "CREATE TABLE `e`.`t``u` (`a` bigint unsigned AUTO_INCREMENT, `key` enum('it''s','x\\\\y') \
             CHARACTER SET latin1, `c` decimal(5,2) unsigned zerofill, `d` double precision, `j` int, \
             PRIMARY KEY (`a`, `c`));",
        );
        check(
            &["create table t (a serial, b char(3) byte, c national varchar(4), d long varbinary, e bool)"],
            "CREATE TABLE `d`.`t` (`a` bigint unsigned NOT NULL AUTO_INCREMENT, `b` binary(3), `c` varchar(4), \
             `d` long varbinary, `e` bool);",
        );
        check(
            &["create table t (a int)", "create table u like t"],
            "CREATE TABLE `d`.`t` (`a` int);\nCREATE TABLE `d`.`u` (`a` int);",
        );
        // MariaDB keywords that may also be column names.
        check(
            &[
                "create table t (id int, period date, system int, period for p (period, q), q date)",
                "alter table t add period for system_time (a, b), add system versioning, drop period for p",
                "alter table t drop system versioning, drop system, add (system text, period for z (q, period))",
            ],
            "CREATE TABLE `d`.`t` (`id` int, `period` date, `q` date, `system` text);",
        );
        check(
            &[
                "create table t (id int)",
                "alter table t add period date",
                "alter table t drop period, add period time",
            ],
            "CREATE TABLE `d`.`t` (`id` int, `period` time);",
        );
        check(&["create table t (a int) as select 1 b"], "");
        check(&["create table t (a int) start transaction"], "CREATE TABLE `d`.`t` (`a` int);");
        check(
            &["create temporary table t (a int)", "create view v as select 1", "grant select on t to u"],
            "",
        );
    }

    #[test]
    fn character_sets_come_from_what_is_around() {
        check(
            &[
                "create database e character set = koi8r",
                "create table e.t (a char(3), b text character set latin1, c int default -1)",
                "create table e.u (a char(3)) collate utf8mb4_bin",
                "alter table e.u add b text, convert to charset latin2",
                "alter table e.t add d tinytext, alter column c drop default",
            ],
            "CREATE DATABASE `e` CHARACTER SET koi8r;\n\
             CREATE TABLE `e`.`t` (`a` char(3) CHARACTER SET koi8r, `b` text CHARACTER SET latin1, `c` int, \
             `d` tinytext CHARACTER SET koi8r) DEFAULT CHARACTER SET koi8r;\n\
             CREATE TABLE `e`.`u` (`a` char(3) CHARACTER SET latin2, `b` text CHARACTER SET latin2) \
             DEFAULT CHARACTER SET latin2;",
        );
        // Verified with MySQL 9.7.4.
        check(
            &[
                "create table t (a varchar(9) char set latin1, b text, c enum('a') charset 'latin1', d char(3) ascii)",
                "alter table t convert to charset binary",
            ],
            "CREATE TABLE `d`.`t` (`a` varbinary(9), `b` blob, `c` enum('a') CHARACTER SET binary, \
             `d` binary(3)) DEFAULT CHARACTER SET binary;",
        );
        check(
            &[
                "create table t (a varchar(9), b text, c char(3) char set utf8mb4, d char unicode) char set = latin1",
                "alter table t engine=innodb default char set = 'koi8r'",
                "alter table t add e text",
            ],
            "CREATE TABLE `d`.`t` (`a` varchar(9) CHARACTER SET latin1, `b` text CHARACTER SET latin1, \
             `c` char(3) CHARACTER SET utf8mb4, `d` char CHARACTER SET ucs2, `e` text CHARACTER SET koi8r) \
             DEFAULT CHARACTER SET koi8r;",
        );
        check(
            &[
                "create database e char set koi8r",
                "create table e.t (a char(3)) char set latin1",
                "alter table e.t convert to character set default",
            ],
            "CREATE DATABASE `e` CHARACTER SET koi8r;\n\
             CREATE TABLE `e`.`t` (`a` char(3) CHARACTER SET koi8r) DEFAULT CHARACTER SET koi8r;",
        );
        // A database's character set does not apply to tables that existed before.
        check(
            &["create table e.t (a char(3))", "alter database e char set koi8r"],
            "CREATE DATABASE `e` CHARACTER SET koi8r;\nCREATE TABLE `e`.`t` (`a` char(3));",
        );
    }

    #[test]
    fn tables_from_elsewhere_are_kept_with_their_character_sets() {
        let column = |name: &str, collation| ColumnFacts {
            name: name.to_owned(),
            data_type: "varchar".to_owned(),
            column_type: "varchar(9)".to_owned(),
            collation,
            nullable: true,
            ..ColumnFacts::default()
        };
        // latin1_bin, utf8mb4_0900_ai_ci, MariaDB's utf8mb4_uca1400_ai_ci
        let columns = [Some(47), Some(255), Some(2304)].map(|collation| column("a", collation)).to_vec();
        let mut definitions = Definitions::default();
        definitions.put(["d", "t"], TableFacts { columns, ..TableFacts::default() }, None);
        let wanted =
            ["latin1", "utf8mb4", "utf8mb4"].map(|set| format!("`a` varchar(9) CHARACTER SET {set}"));
        assert_eq!(definitions.to_string(), format!("CREATE TABLE `d`.`t` ({});\n", wanted.join(", ")));
        assert_eq!(Definitions::parse(&definitions.to_string()), definitions);
    }

    #[test]
    fn a_table_that_may_have_been_there_is_not_the_one_that_is_made() {
        let mut definitions = Definitions::default();
        let mut check = |statement: &str, may_be_idle: bool, wanted: Option<&str>| {
            definitions.take(statement, Ambient { database: "d", may_be_idle, ..Ambient::default() });
            let column = definitions.table("d", "t").map(|facts| facts.columns[0].name.as_str());
            assert_eq!(column, wanted, "{statement}");
        };
        check("create table if not exists t (a int)", true, None);
        check("create table if not exists t (b int)", false, Some("b"));
        check("create table if not exists t (c int)", true, Some("b"));
        check("drop table t", true, None);
        check("create table t (d int)", true, Some("d"));
    }

    #[test]
    fn tables_are_copied_only_if_somebody_else_has_them() {
        let mut definitions = Definitions::default();
        let mut check = |statement: &str, is_changed: bool| {
            let before = Arc::as_ptr(&definitions.tables);
            let changes = definitions.take(statement, Ambient { database: "d", ..Ambient::default() });
            assert_eq!(changes.is_empty(), !is_changed, "{statement}");
            assert_eq!(Arc::as_ptr(&definitions.tables), before, "{statement}");
        };
        check("create table t (a int)", true);
        check("create table u (a int)", true);
        check("create table if not exists t (b int)", false);
        check("create or replace table t (a int)", false);
        check("alter table t engine = innodb", false);
        check("alter table t modify a bigint", true);
        check("rename table t to x, u to t", true);
        check("rename table q to r", false);
        check("drop table if exists q", false);
        check("drop table t", true);
        check("create database e character set latin1", true);
        check("alter database e character set latin1", false);
        check("drop database e", true);
        check("drop database e", false);
        check("drop database d", true);
        let kept = definitions.clone();
        let changes = definitions.take("create table d.t (a int)", Ambient::default());
        assert!(!changes.is_empty());
        assert_eq!((kept.to_string(), definitions.tables.len()), (String::new(), 1));
    }

    /// This would take minutes if each statement copied all tables.
    #[test]
    fn many_tables() {
        const TABLES: usize = 20_000;
        let mut text = String::new();
        for number in 0..TABLES {
            let _ = writeln!(text, "CREATE TABLE `d`.`t{number:05}` (`a` int NOT NULL, `b` text);");
        }
        let mut definitions = Definitions::parse(&text);
        assert_eq!(definitions.tables.len(), TABLES);
        assert!(definitions.to_string() == text);
        for number in 0..TABLES {
            let statement = format!("alter table d.t{number:05} add c int");
            assert!(!definitions.take(&statement, Ambient::default()).is_empty());
        }
        assert_eq!(definitions.to_string().matches("`c` int").count(), TABLES);
    }

    #[test]
    fn tables_are_changed() {
        let check_all = |changes: &[&str], wanted: &str| {
            let statements = [&["create table t (a int primary key, b int, c text)"], changes].concat();
            check(&statements, wanted);
        };
        check_all(
            &["alter table T add column x int first, add (y date, z time), add key (b), engine = innodb"],
            "CREATE TABLE `d`.`t` (`x` int, `a` int NOT NULL, `b` int, `c` text, `y` date, `z` time, PRIMARY KEY (`a`));",
        );
        check_all(
            &["alter table t change a k bigint after b, drop c, rename column b to bb, algorithm = inplace"],
            "CREATE TABLE `d`.`t` (`bb` int, `k` bigint, PRIMARY KEY (`k`));",
        );
        check_all(
            &["alter table t drop primary key, modify b varchar(3) not null first, rename to e.u"],
            "CREATE TABLE `e`.`u` (`b` varchar(3) NOT NULL, `a` int NOT NULL, `c` text);",
        );
        check_all(
            &[
                "rename table t to x, x to e.y",
                "alter table e.y alter column b set default 7, drop key k, order by a, b",
            ],
            "CREATE TABLE `e`.`y` (`a` int NOT NULL, `b` int DEFAULT '7', `c` text, PRIMARY KEY (`a`));",
        );
        check_all(&["drop table if exists q, t /* generated by server */"], "");
        check_all(&["drop database d"], "");
        check_all(
            &["create table if not exists t (z int)"],
            "CREATE TABLE `d`.`t` (`a` int NOT NULL, `b` int, `c` text, PRIMARY KEY (`a`));",
        );
        // Cannot be applied: the table is unknown from there on.
        check_all(&["alter table t drop column nobody"], "");
    }
}

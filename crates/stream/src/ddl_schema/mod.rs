//! Table definitions from the DDL statements in the log: names for columns that rows events do not name.
//!
//! A DDL statement that cannot be parsed is no error: from there on, the tables that it names are unknown.

mod column;
mod table_changes;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use sql::SqlWords;
use sql::ddl::{
    AlteredColumn, ColumnKey, DdlColumn, DdlStatement, ExistenceCheck, ExistingTablePolicy, NamedTable,
    NewTable, TableChange, TableDefinition, TableElement, TableRename, VersioningChange,
};
use sql::lexer::split_statements;
use sql::quote::{quote_name, quote_table};

use crate::column_catalogue::{ColumnSchema, SystemPeriod, TableSchema};
use crate::ddl_schema::column::{
    column_of, convert_charset, default_collation_of, is_binary, put_column, set_default,
};

pub(crate) use crate::ddl_schema::column::{has_charset, parse_column_ddl};
pub(crate) use crate::ddl_schema::table_changes::put_changes;

/// Table definitions that DDL statements have created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DdlSchema {
    /// Tables by database and name. Shared with copies that wait to be saved.
    tables: Arc<BTreeMap<DdlTableName, TableSchema>>,
    /// Default character sets of databases, as far as DDL statements state them.
    charsets: Arc<BTreeMap<String, String>>,
}

/// Session state that the meaning of a statement depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DdlContext<'a> {
    /// Default database.
    pub(crate) database: &'a str,
    /// Bits of `sql_mode`.
    pub(crate) sql_mode: u64,
    /// Character set of the server.
    pub(crate) charset: Option<&'a str>,
    /// True if the statement may have had no effect. A server logs `IF NOT EXISTS` even if the table existed.
    pub(crate) may_have_no_effect: bool,
}

/// Changes that a statement made to table definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaChanges {
    /// Changed tables, each with its definition before; `None` if it did not exist.
    tables_before: BTreeMap<DdlTableName, Option<TableSchema>>,
    /// True if the character set of a database has changed.
    has_charset_changes: bool,
}

/// Database and name of a table.
type DdlTableName = [String; 2];

impl DdlSchema {
    /// Applies a statement, if it defines tables. Returns the changes.
    pub(crate) fn apply_statement(&mut self, sql: &str, ambient: DdlContext<'_>) -> SchemaChanges {
        let Some(words) = SqlWords::parse(sql, ambient.sql_mode) else { return SchemaChanges::default() };
        let charsets = DatabaseCharsets { by_database: &mut self.charsets, server: ambient.charset };
        let (may_be_idle, changes) = (ambient.may_have_no_effect, SchemaChanges::default());
        let mut tables = DdlApplier {
            all: &mut self.tables,
            charsets,
            default_database: ambient.database,
            may_have_no_effect: may_be_idle,
            changes,
        };
        tables.apply(DdlStatement::parse(&words));
        let mut changes = tables.changes;
        changes.tables_before.retain(|name, was| self.tables.get(name) != was.as_ref());
        changes
    }

    /// Returns a table; `None` if no DDL statement on it could be parsed.
    pub fn table(&self, database: &str, table: &str) -> Option<&TableSchema> {
        find_table(&self.tables, [database, table]).map(|(_, facts)| facts)
    }

    /// Inserts a table from another source. `statement` is its SHOW CREATE TABLE, if available, which has more detail.
    pub fn insert_table(&mut self, names: [&str; 2], mut facts: TableSchema, statement: Option<&str>) {
        if let Some(made) = statement.and_then(parse_show_create_table)
            && made
                .columns
                .iter()
                .map(|column| &column.name)
                .eq(facts.columns.iter().map(|column| &column.name))
        {
            (facts.charset, facts.period) = (made.charset, made.period);
            for (column, made) in facts.columns.iter_mut().zip(made.columns) {
                column.ddl = made.ddl;
            }
        }
        for column in &mut facts.columns {
            if column.ddl.type_name.is_empty() {
                column.ddl = parse_column_ddl(&column.column_type).unwrap_or_default();
            }
            // Saved definitions contain names of character sets, not of collations.
            column.collation = column.collation.map(default_collation_of);
        }
        Arc::make_mut(&mut self.tables).insert(names.map(str::to_owned), facts);
    }

    /// Inserts the character set of a database from another source.
    pub fn insert_database(&mut self, name: &str, charset: &str) {
        Arc::make_mut(&mut self.charsets).insert(name.to_owned(), charset.to_ascii_lowercase());
    }

    /// Parses saved definitions, the format that `Display` writes.
    pub fn parse(text: &str) -> Self {
        let (mut tables, mut charsets) = (BTreeMap::new(), BTreeMap::new());
        for words in split_statements(text, 0).filter_map(|statement| SqlWords::parse(statement, 0)) {
            match DdlStatement::parse(&words) {
                DdlStatement::CreateDatabase { name, charset: Some(charset), .. } => {
                    charsets.insert(name, charset);
                }
                // The character set of its database does not apply to a saved table.
                DdlStatement::CreateTable { name, content: NewTable::Defined(definition), .. } => {
                    tables.extend(table_of(&definition, None).map(|table| (name.resolve(""), table)));
                }
                _ => {}
            }
        }
        Self { tables: Arc::new(tables), charsets: Arc::new(charsets) }
    }
}

impl TableSchema {
    /// Returns whether a column of bytes has a default value. For these, `information_schema` has hexadecimal digits,
    /// or omits what follows a zero byte.
    pub fn has_byte_defaults(&self) -> bool {
        self.columns.iter().any(|column| is_binary(column) && column.ddl.default.is_some())
    }

    /// Takes the default values of columns of bytes from the table's SHOW CREATE TABLE; without it, they have none.
    pub fn set_byte_defaults(&mut self, statement: Option<&str>) {
        let made = statement.and_then(parse_show_create_table).unwrap_or_default();
        for column in self.columns.iter_mut().filter(|column| is_binary(column)) {
            let found = made.columns.iter().find(|made| made.name == column.name);
            let default = found.and_then(|made| made.ddl.default.clone());
            // Servers without hexadecimal literals there replace bytes that are not UTF-8.
            column.ddl.default = default.filter(|text| !text.contains(['?', char::REPLACEMENT_CHARACTER]));
        }
    }
}

/// Parses the output of SHOW CREATE TABLE.
fn parse_show_create_table(statement: &str) -> Option<TableSchema> {
    match DdlStatement::parse(&SqlWords::parse(statement, 0)?) {
        DdlStatement::CreateTable { content: NewTable::Defined(definition), .. } => {
            table_of(&definition, None)
        }
        _ => None,
    }
}

impl SchemaChanges {
    /// Returns whether nothing has changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables_before.is_empty() && !self.has_charset_changes
    }
}

/// End of a saved statement.
const STATEMENT_END: &str = ";\n";

/// Writes the definitions as CREATE statements, one per line.
impl fmt::Display for DdlSchema {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (database, charset) in self.charsets.iter() {
            write!(out, "CREATE DATABASE {} CHARACTER SET {charset}{STATEMENT_END}", quote_name(database))?;
        }
        for ([database, table], facts) in self.tables.iter() {
            write!(out, "CREATE TABLE {} (", quote_table(database, table))?;
            let (period, facts) = (&facts.period, facts.without_period());
            for (index, column) in facts.columns.iter().enumerate() {
                let mut text = String::from(if index > 0 { ", " } else { "" });
                put_column(&mut text, column);
                out.write_str(&text)?;
            }
            if !facts.primary_key.is_empty() {
                let names: Vec<String> = facts.primary_key.iter().map(|name| quote_name(name)).collect();
                write!(out, ", PRIMARY KEY ({})", names.join(", "))?;
            }
            if let Some(SystemPeriod::Declared([start, end])) = period {
                write!(out, ", PERIOD FOR SYSTEM_TIME ({}, {})", quote_name(start), quote_name(end))?;
            }
            out.write_char(')')?;
            if let Some(charset) = &facts.charset {
                write!(out, " DEFAULT CHARACTER SET {charset}")?;
            }
            if period.is_some() {
                out.write_str(" WITH SYSTEM VERSIONING")?;
            }
            out.write_str(STATEMENT_END)?;
        }
        Ok(())
    }
}

/// Finds a table by its exact name, or else by the only name that differs from it in case: statements of a server with
/// `lower_case_table_names=1` name a table in any case.
fn find_table<'t>(
    tables: &'t BTreeMap<DdlTableName, TableSchema>,
    name: [&str; 2],
) -> Option<(&'t DdlTableName, &'t TableSchema)> {
    let exact = tables.get_key_value(&name.map(str::to_owned));
    exact.or_else(|| {
        let is_it = |found: &DdlTableName| {
            found.iter().zip(name).all(|(found, name)| found.eq_ignore_ascii_case(name))
        };
        let mut found = tables.iter().filter(|(found, _)| is_it(found));
        found.next().filter(|_| found.next().is_none())
    })
}

/// Applies DDL statements to the definitions.
struct DdlApplier<'t> {
    /// Copied before the first change, if shared.
    all: &'t mut Arc<BTreeMap<DdlTableName, TableSchema>>,
    charsets: DatabaseCharsets<'t>,
    /// Database of table names without one.
    default_database: &'t str,
    may_have_no_effect: bool,
    changes: SchemaChanges,
}

/// Default character sets, for databases and tables that do not name one.
struct DatabaseCharsets<'t> {
    /// Character sets of databases.
    by_database: &'t mut Arc<BTreeMap<String, String>>,
    server: Option<&'t str>,
}

impl DdlApplier<'_> {
    fn apply(&mut self, statement: DdlStatement) {
        match statement {
            // If the database existed, its character set may be another one: a known one is more certain.
            DdlStatement::CreateDatabase { name, exists: ExistingTablePolicy::Keep, charset } => {
                if !self.charsets.by_database.contains_key(&name) {
                    self.set_database_charset(name, charset);
                }
            }
            DdlStatement::CreateDatabase { name, charset, .. } => {
                self.set_database_charset(name, charset.or(self.charsets.server.map(str::to_owned)));
            }
            DdlStatement::AlterDatabase { name, charset } => {
                self.set_database_charset(name.unwrap_or_else(|| self.default_database.to_owned()), charset);
            }
            DdlStatement::DropDatabase(name) => self.drop_database(&name),
            DdlStatement::CreateTable { name, exists, content } => {
                self.create_table(self.qualify(&name), exists, content);
            }
            DdlStatement::CreateSequence { name, exists, definition } => {
                self.create_table(self.qualify(&name), exists, NewTable::Defined(definition));
            }
            DdlStatement::DropTables(names) | DdlStatement::DropSequences(names) => {
                for name in names {
                    self.remove(&self.qualify(&name));
                }
            }
            DdlStatement::RenameTables(renames) => {
                for TableRename { old, new } in renames {
                    let facts = self.remove(&self.qualify(&old));
                    self.put(self.qualify(&new), facts);
                }
            }
            DdlStatement::AlterTable { name, changes } => self.alter_table(&self.qualify(&name), &changes),
            DdlStatement::DropIndex { table, name } if name.eq_ignore_ascii_case("PRIMARY") => {
                self.alter_table(&self.qualify(&table), &[TableChange::DropPrimaryKey]);
            }
            DdlStatement::DropIndex { .. }
            | DdlStatement::CreateIndex { .. }
            | DdlStatement::Truncate(_)
            | DdlStatement::CreateTemporaryTable
            | DdlStatement::DropTemporaryTables
            | DdlStatement::Other
            | DdlStatement::Unknown => {}
        }
    }

    fn qualify(&self, name: &NamedTable) -> DdlTableName {
        name.resolve(self.default_database)
    }

    /// Sets the character set of a database, if known.
    fn set_database_charset(&mut self, name: String, charset: Option<String>) {
        if let Some(charset) = charset {
            let was = Arc::make_mut(self.charsets.by_database).insert(name, charset.clone());
            self.changes.has_charset_changes |= was.is_none_or(|was| was != charset);
        }
    }

    fn create_table(&mut self, name: DdlTableName, exists: ExistingTablePolicy, content: NewTable) {
        let is_kept = exists == ExistingTablePolicy::Keep;
        // A table that existed before may have other columns.
        if is_kept && (self.may_have_no_effect || self.all.contains_key(&name)) {
            return;
        }
        // With `lower_case_table_names=1`, a name in another case is that of the same table; otherwise, of another one.
        // It is unknown which table the statement has created, so forget both.
        if exists != ExistingTablePolicy::Refuse
            && let Some((other, _)) = self.find(&name).filter(|(other, _)| **other != name)
        {
            let other = other.clone();
            return self.replace_table(other, None);
        }
        let facts = match content {
            NewTable::Like(model) => self.find(&self.qualify(&model)).map(|(_, model)| model.clone()),
            NewTable::Defined(definition) => {
                let charset = self.charsets.by_database.get(&name[0]).cloned();
                table_of(&definition, charset)
            }
            // A query appends columns whose definitions are unknown.
            NewTable::Query | NewTable::Unknown => None,
        };
        self.put(name, facts);
    }

    /// Sets the definition of a table; `None` if it could not be parsed.
    fn put(&mut self, name: DdlTableName, facts: Option<TableSchema>) {
        if facts.is_some() || self.all.contains_key(&name) {
            self.replace_table(name, facts);
        }
    }

    /// Replaces or removes a table, and records the change. All changes go through this method.
    fn replace_table(&mut self, name: DdlTableName, facts: Option<TableSchema>) {
        let all = Arc::make_mut(self.all);
        let was = match facts {
            Some(facts) => all.insert(name.clone(), facts),
            None => all.remove(&name),
        };
        self.changes.tables_before.entry(name).or_insert(was);
    }

    fn find(&self, [database, table]: &DdlTableName) -> Option<(&DdlTableName, &TableSchema)> {
        find_table(self.all, [database, table])
    }

    fn remove(&mut self, name: &DdlTableName) -> Option<TableSchema> {
        let (name, facts) = self.find(name)?;
        let (name, facts) = (name.clone(), facts.clone());
        self.replace_table(name, None);
        Some(facts)
    }

    fn drop_database(&mut self, name: &str) {
        let is_exact = self.all.keys().any(|[database, _]| database == name);
        let is_in = |[database, _]: &&DdlTableName| match is_exact {
            true => database == name,
            false => database.eq_ignore_ascii_case(name),
        };
        let names: Vec<DdlTableName> = self.all.keys().filter(is_in).cloned().collect();
        names.into_iter().for_each(|table| self.replace_table(table, None));
        self.changes.has_charset_changes |= Arc::make_mut(self.charsets.by_database).remove(name).is_some();
    }

    fn alter_table(&mut self, name: &DdlTableName, changes: &[TableChange]) {
        let Some((name, facts)) = self.find(name) else { return };
        let database_charset = self.charsets.by_database.get(&name[0]).map(String::as_str);
        let altered = alter_table(facts, changes, database_charset);
        let name = name.clone();
        let new_name = changes.iter().rev().find_map(|change| match change {
            TableChange::RenameTable(new) => Some(self.qualify(new)),
            _ => None,
        });
        if altered.is_none() || new_name.is_some() {
            self.remove(&name);
        }
        if altered.is_some() {
            self.put(new_name.unwrap_or(name), altered);
        }
    }
}

/// Returns the table of a definition; `None` if a part of it could not be parsed.
fn table_of(definition: &TableDefinition, database_charset: Option<String>) -> Option<TableSchema> {
    let charset = definition.options.charset.clone().or(database_charset);
    let mut facts = TableSchema { charset, ..TableSchema::default() };
    for element in &definition.elements {
        add_element(element, &mut facts)?;
    }
    let declared = || definition.declared_period().cloned().map(SystemPeriod::Declared);
    let period = definition.is_versioned.then(|| declared().unwrap_or(SystemPeriod::Hidden));
    Some(facts.with_period(period))
}

/// Adds a column or a key to a new table. Returns `None` if it could not be parsed.
fn add_element(element: &TableElement, facts: &mut TableSchema) -> Option<()> {
    if let TableElement::Column(definition) = element {
        facts.columns.push(column_of(definition, facts.charset.as_deref()));
    }
    add_key(element, facts)
}

/// Sets the primary key, if this element defines it. Returns `None` if the element could not be parsed.
fn add_key(element: &TableElement, facts: &mut TableSchema) -> Option<()> {
    match element {
        TableElement::Column(definition) => add_column_key(definition, facts),
        TableElement::PrimaryKey(parts) => {
            facts.primary_key = parts.iter().map(|part| part.column.clone()).collect::<Option<_>>()?;
        }
        TableElement::Key(_)
        | TableElement::ForeignKey(_)
        | TableElement::Check
        | TableElement::Period
        | TableElement::SystemPeriod(_) => {}
        TableElement::Unknown(_) => return None,
    }
    Some(())
}

fn add_column_key(definition: &DdlColumn, facts: &mut TableSchema) {
    if definition.keys.contains(&ColumnKey::Primary) {
        facts.primary_key = vec![definition.name.clone()];
    }
}

/// Returns a table after ALTER TABLE; `None` if that is not possible.
fn alter_table(
    before: &TableSchema,
    changes: &[TableChange],
    database_charset: Option<&str>,
) -> Option<TableSchema> {
    let altered = alter_columns(&before.without_period(), changes, database_charset)?;
    Some(altered.with_period(alter_period(before.period.as_ref(), changes)))
}

/// Returns the period of a table after ALTER TABLE.
fn alter_period(before: Option<&SystemPeriod>, changes: &[TableChange]) -> Option<SystemPeriod> {
    let (mut period, mut declared) = (before.cloned(), None);
    for change in changes {
        match change {
            TableChange::Versioning(VersioningChange::Add) => period = period.or(Some(SystemPeriod::Hidden)),
            TableChange::Versioning(VersioningChange::Drop) => period = None,
            TableChange::Add { element: TableElement::SystemPeriod(columns), .. } => declared = Some(columns),
            _ => {}
        }
    }
    match declared {
        Some(columns) if period.is_some() => Some(SystemPeriod::Declared(columns.clone())),
        _ => period,
    }
}

/// Returns a table without its period after ALTER TABLE; `None` if that is not possible.
fn alter_columns(
    before: &TableSchema,
    changes: &[TableChange],
    database_charset: Option<&str>,
) -> Option<TableSchema> {
    let names: Vec<&str> = before.columns.iter().map(|column| &*column.name).collect();
    let columns = AlteredColumn::of_changes(&names, changes)?;
    let mut facts = TableSchema { charset: before.charset.clone(), ..TableSchema::default() };
    for change in changes {
        if let TableChange::Options(options) = change {
            facts.charset = options.charset.clone().or(facts.charset.take());
        }
    }
    let alter = |column: &AlteredColumn<'_>| match *column {
        AlteredColumn::Kept { source, name } => {
            ColumnSchema { name: name.to_owned(), ..before.columns[source].clone() }
        }
        AlteredColumn::Replaced { definition, .. } | AlteredColumn::Added(definition) => {
            column_of(definition, facts.charset.as_deref())
        }
    };
    let altered = columns.iter().map(alter).collect();
    facts.columns = altered;
    set_defaults(&mut facts.columns, changes)?;
    facts.primary_key = alter_primary_key(before, &columns, changes);
    columns.iter().filter_map(AlteredColumn::definition).for_each(|added| add_column_key(added, &mut facts));
    for change in changes {
        match change {
            TableChange::Add { element: TableElement::Column(_), .. } => {}
            TableChange::Add { element, .. } => add_key(element, &mut facts)?,
            TableChange::ConvertCharset(charset) => {
                convert_charset(&mut facts, if charset == "default" { database_charset } else { Some(charset) });
            }
            TableChange::Unknown(_) => return None,
            // Applied above.
            TableChange::ReplaceColumn { .. }
            | TableChange::DropColumn { .. }
            | TableChange::SetDefault { .. }
            | TableChange::RenameColumn { .. }
            | TableChange::DropPrimaryKey
            | TableChange::Options(_)
            // Column names and the primary key stay.
            | TableChange::DropKey(_)
            | TableChange::DropForeignKey(_)
            | TableChange::DropConstraint(_)
            | TableChange::RenameKey { .. }
            | TableChange::RenameTable(_)
            | TableChange::Rows(_)
            | TableChange::Versioning(_)
            | TableChange::Other(_) => {}
        }
    }
    Some(facts)
}

/// Sets new defaults of columns; `None` if a column does not exist. Servers accept no default for a column that the same
/// statement renames.
fn set_defaults(columns: &mut [ColumnSchema], changes: &[TableChange]) -> Option<()> {
    for change in changes {
        if let TableChange::SetDefault { column: name, default, check } = change {
            match columns.iter_mut().find(|column| column.name.eq_ignore_ascii_case(name)) {
                Some(column) => set_default(column, default.as_ref()),
                None => (*check == ExistenceCheck::Skip).then_some(())?,
            }
        }
    }
    Some(())
}

/// Returns the columns of the primary key that are left, with their new names.
fn alter_primary_key(
    before: &TableSchema,
    columns: &[AlteredColumn<'_>],
    changes: &[TableChange],
) -> Vec<String> {
    if changes.contains(&TableChange::DropPrimaryKey) {
        return Vec::new();
    }
    let altered = |part: &String| {
        let source = before.columns.iter().position(|column| column.name.eq_ignore_ascii_case(part))?;
        let column = columns.iter().find(|column| column.source() == Some(source))?;
        Some(column.name().to_owned())
    };
    before.primary_key.iter().filter_map(altered).collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::Arc;

    use super::{DdlContext, DdlSchema};
    use crate::column_catalogue::{ColumnDdl, ColumnSchema, SystemPeriod, TableSchema};

    /// Checks the tables that statements create, and that these survive saving.
    fn check(statements: &[&str], expected: &str) {
        let mut definitions = DdlSchema::default();
        for statement in statements {
            definitions.apply_statement(statement, DdlContext { database: "d", ..DdlContext::default() });
        }
        assert_eq!(definitions.to_string().trim_end(), expected, "{statements:?}");
        assert_eq!(DdlSchema::parse(&definitions.to_string()), definitions);
    }

    #[test]
    fn versioned_tables_have_two_more_columns() {
        let check = |statements: &[&str], expected: &str, columns: &[&str], key: &[&str]| {
            check(statements, expected);
            let mut definitions = DdlSchema::default();
            for statement in statements {
                let ambient = DdlContext { database: "d", ..DdlContext::default() };
                definitions.apply_statement(statement, ambient);
            }
            let table = definitions.table("d", "t").unwrap();
            assert!(table.columns.iter().map(|column| &*column.name).eq(columns.iter().copied()));
            assert_eq!(table.primary_key, key, "{statements:?}");
        };
        const CREATE: &str = "create table t (a int) with system versioning";
        const CREATED: &str = "CREATE TABLE `d`.`t` (`a` int) WITH SYSTEM VERSIONING;";
        check(&[CREATE], CREATED, &["a", "row_start", "row_end"], &[]);
        check(&[CREATE, "alter table t add key (a)"], CREATED, &["a", "row_start", "row_end"], &[]);
        // Verified with MariaDB 10.5 and 11.8: the hidden columns stay the last ones.
        check(
            &[CREATE, "alter table t add b int, add primary key (a)"],
            "CREATE TABLE `d`.`t` (`a` int, `b` int, PRIMARY KEY (`a`)) WITH SYSTEM VERSIONING;",
            &["a", "b", "row_start", "row_end"],
            &["a", "row_end"],
        );
        check(
            &["create table t (a int primary key)", "alter table t add system versioning, add b int"],
            "CREATE TABLE `d`.`t` (`a` int NOT NULL, `b` int, PRIMARY KEY (`a`)) WITH SYSTEM VERSIONING;",
            &["a", "b", "row_start", "row_end"],
            &["a", "row_end"],
        );
        check(
            &[CREATE, "alter table t add primary key (a)", "alter table t drop system versioning"],
            "CREATE TABLE `d`.`t` (`a` int, PRIMARY KEY (`a`));",
            &["a"],
            &["a"],
        );
        // No hidden columns, but their names.
        check(
            &["create table t (row_start timestamp, row_end timestamp)", "alter table t add b int"],
            "CREATE TABLE `d`.`t` (`row_start` timestamp, `row_end` timestamp, `b` int);",
            &["row_start", "row_end", "b"],
            &[],
        );
    }

    #[test]
    fn declared_periods_end_the_primary_key() {
        let columns =
            "s timestamp(6) generated always as row start, e timestamp(6) generated always as row end";
        let period = "period for system_time (s, e)";
        let create =
            format!("create table t (id int primary key, {columns}, {period}) with system versioning");
        let expected = "CREATE TABLE `d`.`t` (`id` int NOT NULL, `s` timestamp(6), `e` timestamp(6), \
                        PRIMARY KEY (`id`), PERIOD FOR SYSTEM_TIME (`s`, `e`)) WITH SYSTEM VERSIONING;";
        let plain = "create table t (id int primary key)";
        let [add, key] = [
            format!("alter table t add ({columns}), add {period}, add system versioning"),
            "alter table t drop primary key, add primary key (id)".to_owned(),
        ];
        for statements in [&[&*create][..], &[plain, &add], &[&create, &key]] {
            check(statements, expected);
            let mut definitions = DdlSchema::default();
            for statement in statements {
                let ambient = DdlContext { database: "d", ..DdlContext::default() };
                definitions.apply_statement(statement, ambient);
            }
            assert_eq!(definitions.table("d", "t").unwrap().primary_key, ["id", "e"]);
        }
    }

    #[test]
    fn sequences_are_tables() {
        let shown = |value_type: &str| {
            format!(
                "CREATE TABLE `d`.`s` (`next_not_cached_value` {value_type} NOT NULL, \
                 `minimum_value` {value_type} NOT NULL, `maximum_value` {value_type} NOT NULL, \
                 `start_value` {value_type} NOT NULL, `increment` bigint(21) NOT NULL, \
                 `cache_size` bigint(21) unsigned NOT NULL, `cycle_option` tinyint(1) unsigned NOT NULL, \
                 `cycle_count` bigint(21) NOT NULL);"
            )
        };
        check(&["create sequence s start with 100", "alter sequence s restart 5"], &shown("bigint"));
        check(
            &["create or replace sequence if not exists s as int unsigned increment 2"],
            &shown("int unsigned"),
        );
        check(&["create sequence s", "drop sequence if exists q, s"], "");
        check(&["create table sequence (sequence int)"], "CREATE TABLE `d`.`sequence` (`sequence` int);");
    }

    #[test]
    fn names_that_differ_in_case_are_those_of_two_tables() {
        let both = ["create table t (a int)", "create table T (b int)"];
        let (upper, lower) = ("CREATE TABLE `d`.`T` (`b` int);", "CREATE TABLE `d`.`t` (`a` int);");
        check(&both, &[upper, lower].join("\n"));
        check(&[&both[..], &["drop table T"]].concat(), lower);
        check(
            &[&both[..], &["alter table t rename to u"]].concat(),
            &[upper, &lower.replace("`t`", "`u`")].join("\n"),
        );
        check(&[both[0], "create table if not exists T (b int)"], "");
        check(&[both[0], "create or replace table T (b int)"], "");
        check(
            &["create table x.t (a int)", "create table X.t (a int)", "drop database X"],
            &lower.replace('d', "x"),
        );
        // A server whose names have no case.
        check(&[both[0], "drop table T"], "");
        check(&[both[0], "alter table T add b int"], "CREATE TABLE `d`.`t` (`a` int, `b` int);");
    }

    #[test]
    fn tables_are_created() {
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
        check(
            &[
                "-- a\n# b\n/*!50100 create */ table /*!32312 if not exists */ t (a int default 'x' 'y' /* c */)",
            ],
            "CREATE TABLE `d`.`t` (`a` int DEFAULT 'xy');",
        );
        check(&["create table t (a int) as select 1 b"], "");
        check(&["create table t (a int) start transaction"], "CREATE TABLE `d`.`t` (`a` int);");
        check(
            &["create temporary table t (a int)", "create view v as select 1", "grant select on t to u"],
            "",
        );
    }

    #[test]
    fn character_sets_are_inherited() {
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
    fn databases_that_may_exist_have_a_stated_character_set() {
        let table = "create table e.t (a char(3))";
        let created = |set: &str| {
            format!(
                "CREATE DATABASE `e` CHARACTER SET {set};\n\
                 CREATE TABLE `e`.`t` (`a` char(3) CHARACTER SET {set}) DEFAULT CHARACTER SET {set};"
            )
        };
        check(&["create database if not exists e character set latin1", table], &created("latin1"));
        check(
            &[
                "create database e character set koi8r",
                "create database if not exists e character set latin1",
                table,
            ],
            &created("koi8r"),
        );
        check(&["create database if not exists e", table], "CREATE TABLE `e`.`t` (`a` char(3));");
    }

    #[test]
    fn inserted_tables_keep_their_character_sets() {
        let column = |name: &str, collation| ColumnSchema {
            name: name.to_owned(),
            data_type: "varchar".to_owned(),
            column_type: "varchar(9)".to_owned(),
            collation,
            nullable: true,
            ..ColumnSchema::default()
        };
        // latin1_bin, utf8mb4_0900_ai_ci, MariaDB's utf8mb4_uca1400_ai_ci
        let columns = [Some(47), Some(255), Some(2304)].map(|collation| column("a", collation)).to_vec();
        let mut definitions = DdlSchema::default();
        definitions.insert_table(["d", "t"], TableSchema { columns, ..TableSchema::default() }, None);
        let expected =
            ["latin1", "utf8mb4", "utf8mb4"].map(|set| format!("`a` varchar(9) CHARACTER SET {set}"));
        assert_eq!(definitions.to_string(), format!("CREATE TABLE `d`.`t` ({});\n", expected.join(", ")));
        assert_eq!(DdlSchema::parse(&definitions.to_string()), definitions);
    }

    #[test]
    fn inserted_tables_have_their_hidden_period() {
        let column = |name: &str, data_type: &str, column_type: &str| {
            let [name, data_type, column_type] = [name, data_type, column_type].map(str::to_owned);
            ColumnSchema { name, data_type, column_type, ..ColumnSchema::default() }
        };
        let columns = vec![column("id", "tinyint", "tinyint(1)")];
        let facts = TableSchema { columns, primary_key: vec!["id".to_owned()], ..TableSchema::default() };
        let facts = facts.with_period(Some(SystemPeriod::Hidden));
        let mut definitions = DdlSchema::default();
        let statement = "CREATE TABLE `t` (`id` boolean NOT NULL, PRIMARY KEY (`id`)) WITH SYSTEM VERSIONING";
        definitions.insert_table(["d", "t"], facts, Some(statement));
        // The type has the words of the statement.
        let expected =
            "CREATE TABLE `d`.`t` (`id` boolean NOT NULL, PRIMARY KEY (`id`)) WITH SYSTEM VERSIONING;\n";
        assert_eq!(definitions.to_string(), expected);
        let primary_key = &definitions.table("d", "t").unwrap().primary_key;
        assert_eq!(*primary_key, ["id", "row_end"]);
    }

    #[test]
    fn byte_defaults_are_those_of_the_statement() {
        let check = |definition: &str, expected: Option<&str>| {
            let ddl = ColumnDdl { default: Some("0x".to_owned()), ..ColumnDdl::default() };
            let [name, data_type] = ["a", "varbinary"].map(str::to_owned);
            let columns = vec![ColumnSchema { name, data_type, ddl, ..ColumnSchema::default() }];
            let mut table = TableSchema { columns, ..TableSchema::default() };
            assert!(table.has_byte_defaults());
            let statement = format!("CREATE TABLE `t` (\n  `a` varbinary(9) DEFAULT {definition}\n)");
            table.set_byte_defaults(Some(&statement).filter(|_| !definition.is_empty()).map(String::as_str));
            assert_eq!(table.columns[0].ddl.default.as_deref(), expected, "{definition}");
        };
        check("'xyz'", Some("xyz"));
        check("'a''b\\\\c\\0'", Some("a'b\\c\0"));
        check("x'78797a'", Some("xyz"));
        check("0x00FF", None);
        check("'?\\0?'", None);
        check("'\u{fffd}'", None);
        check("(uuid_to_bin('a'))", None);
        check("NULL", None);
        check("", None);
    }

    #[test]
    fn names_may_contain_the_end_of_a_statement() {
        check(
            &[
                "create table `a;\n` (`b;\n` int default 1, c char(3) default ';\n')",
                "create table z (a int)",
            ],
            "CREATE TABLE `d`.`a;\n` (`b;\n` int DEFAULT '1', `c` char(3) DEFAULT ';\\n');\n\
             CREATE TABLE `d`.`z` (`a` int);",
        );
    }

    #[test]
    fn quotes_depend_on_the_sql_mode() {
        use binlog::sql_mode::{ANSI_QUOTES, NO_BACKSLASH_ESCAPES};

        let sql_mode = ANSI_QUOTES | NO_BACKSLASH_ESCAPES;
        let ambient = DdlContext { database: "d", sql_mode, ..DdlContext::default() };
        let mut definitions = DdlSchema::default();
        definitions.apply_statement("create table \"t\" (\"a\\\" char(9) default 'b\\', c int)", ambient);
        let expected = "CREATE TABLE `d`.`t` (`a\\` char(9) DEFAULT 'b\\\\', `c` int);\n";
        assert_eq!(definitions.to_string(), expected);
    }

    #[test]
    fn real_depends_on_the_sql_mode() {
        let check = |sql_mode: u64, data_type: &str| {
            let mut definitions = DdlSchema::default();
            let ambient = DdlContext { database: "d", sql_mode, ..DdlContext::default() };
            definitions.apply_statement("create table t (a real)", ambient);
            assert_eq!(definitions.table("d", "t").unwrap().columns[0].data_type, data_type);
            let saved = DdlSchema::parse(&definitions.to_string());
            assert_eq!(saved, definitions);
        };
        check(0, "double");
        check(binlog::sql_mode::REAL_AS_FLOAT, "float");
    }

    #[test]
    fn types_of_oracle_depend_on_the_sql_mode() {
        let check = |sql_mode: u64, expected: [&str; 4]| {
            let mut definitions = DdlSchema::default();
            let ambient = DdlContext { database: "d", sql_mode, ..DdlContext::default() };
            let sql = "create table t (a date, b blob, c number, d number(5,2))";
            definitions.apply_statement(sql, ambient);
            let columns = definitions.table("d", "t").unwrap().columns.iter();
            assert_eq!(columns.map(|column| column.data_type.as_str()).collect::<Vec<_>>(), expected);
            let saved = DdlSchema::parse(&definitions.to_string());
            assert_eq!(saved, definitions);
        };
        check(0, ["date", "blob", "decimal", "decimal"]);
        check(binlog::sql_mode::ORACLE, ["datetime", "longblob", "double", "decimal"]);
    }

    #[test]
    fn rare_spellings_of_types() {
        let check = |column_type: &str, expected: &str| {
            let mut definitions = DdlSchema::default();
            let ambient = DdlContext { database: "d", ..DdlContext::default() };
            definitions.apply_statement(&format!("create table t (a {column_type})"), ambient);
            assert_eq!(definitions.table("d", "t").unwrap().columns[0].column_type, expected);
            assert_eq!(DdlSchema::parse(&definitions.to_string()), definitions);
        };
        check("nchar(9)", "char(9)");
        check("nchar varying(9)", "varchar(9)");
        check("nchar varchar(9)", "varchar(9)");
        check("nchar varcharacter(9)", "varchar(9)");
        check("national char varying(9)", "varchar(9)");
        check("national character varying(9)", "varchar(9)");
        check("national varchar(9)", "varchar(9)");
        check("enum(0x61,b'01100010','c')", "enum('a','b','c')");
        check("set(x'6162',0b1100001)", "set('ab','a')");
    }

    #[test]
    fn create_if_not_exists_without_effect_defines_nothing() {
        let mut definitions = DdlSchema::default();
        let mut check = |statement: &str, may_be_idle: bool, expected: Option<&str>| {
            definitions.apply_statement(
                statement,
                DdlContext { database: "d", may_have_no_effect: may_be_idle, ..DdlContext::default() },
            );
            let column = definitions.table("d", "t").map(|facts| facts.columns[0].name.as_str());
            assert_eq!(column, expected, "{statement}");
        };
        check("create table if not exists t (a int)", true, None);
        check("create table if not exists t (b int)", false, Some("b"));
        check("create table if not exists t (c int)", true, Some("b"));
        check("drop table t", true, None);
        check("create table t (d int)", true, Some("d"));
    }

    #[test]
    fn tables_are_copied_only_if_shared() {
        let mut definitions = DdlSchema::default();
        let mut check = |statement: &str, is_changed: bool| {
            let before = Arc::as_ptr(&definitions.tables);
            let changes =
                definitions.apply_statement(statement, DdlContext { database: "d", ..DdlContext::default() });
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
        let changes = definitions.apply_statement("create table d.t (a int)", DdlContext::default());
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
        let mut definitions = DdlSchema::parse(&text);
        assert_eq!(definitions.tables.len(), TABLES);
        assert!(definitions.to_string() == text);
        for number in 0..TABLES {
            let statement = format!("alter table d.t{number:05} add c int");
            assert!(!definitions.apply_statement(&statement, DdlContext::default()).is_empty());
        }
        assert_eq!(definitions.to_string().matches("`c` int").count(), TABLES);
    }

    #[test]
    fn tables_are_changed() {
        let check_all = |changes: &[&str], expected: &str| {
            let statements = [&["create table t (a int primary key, b int, c text)"], changes].concat();
            check(&statements, expected);
        };
        check_all(
            &["alter table T add column x int first, add (y date, z time), add key (b), engine = innodb"],
            "CREATE TABLE `d`.`t` (`x` int, `a` int NOT NULL, `b` int, `c` text, `y` date, `z` time, PRIMARY KEY (`a`));",
        );
        check_all(
            &["alter table t change a k bigint after bb, drop c, rename column b to bb, algorithm = inplace"],
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
        // Forms that only the parser of the SQLite target knew.
        check_all(
            &["drop index `PRIMARY` on t", "alter table t add (d int storage default, primary key (b))"],
            "CREATE TABLE `d`.`t` (`a` int NOT NULL, `b` int, `c` text, `d` int, PRIMARY KEY (`b`));",
        );
        check_all(
            &["alter table t add e int references p (q) on delete set default, drop key `primary`"],
            "CREATE TABLE `d`.`t` (`a` int NOT NULL, `b` int, `c` text, `e` int);",
        );
        check_all(
            &[
                "create table u (a int default 5 column_format default, vector key (a)) /* e */",
                "drop table t",
            ],
            "CREATE TABLE `d`.`u` (`a` int DEFAULT '5');",
        );
        // A statement that cannot be applied makes the table unknown.
        check_all(&["alter table t frobnicate"], "");
        check_all(&["alter table t drop column nobody"], "");
    }
    #[test]
    fn several_columns_are_changed_at_once() {
        let check_all = |changes: &[&str], expected: &str| {
            let statements = [&["create table t (a int primary key, b int, c text)"], changes].concat();
            check(&statements, expected);
        };
        check_all(
            &["alter table t rename column a to b, rename column b to a"],
            "CREATE TABLE `d`.`t` (`b` int NOT NULL, `a` int, `c` text, PRIMARY KEY (`b`));",
        );
        check_all(
            &[
                "alter table t change b c int, change c a text, change a b bigint, add x int after c, drop primary key",
            ],
            "CREATE TABLE `d`.`t` (`b` bigint, `c` int, `x` int, `a` text);",
        );
        check_all(
            &[
                "alter table t drop a, add a int first, add primary key (c), rename column b to c, rename column c to b",
            ],
            "CREATE TABLE `d`.`t` (`a` int, `c` int, `b` text, PRIMARY KEY (`c`));",
        );
        check_all(
            &[
                "alter table t add primary key (b2), drop primary key, alter c set default 3, rename column b to b2",
            ],
            "CREATE TABLE `d`.`t` (`a` int NOT NULL, `b2` int, `c` text DEFAULT '3', PRIMARY KEY (`b2`));",
        );
        // MariaDB's syntax.
        check_all(
            &["alter table t add x int, alter column x set default 5, drop column if exists y"],
            "CREATE TABLE `d`.`t` (`a` int NOT NULL, `b` int, `c` text, `x` int DEFAULT '5', PRIMARY KEY (`a`));",
        );
        check_all(
            &[
                "alter table t alter column if exists y set default 5, alter column if exists b set default 3, \
                 modify column if exists z int, rename column if exists y to z",
            ],
            "CREATE TABLE `d`.`t` (`a` int NOT NULL, `b` int DEFAULT '3', `c` text, PRIMARY KEY (`a`));",
        );
    }
}

//! ALTER TABLE: the resulting columns and keys, and the conversion of the rows.

use std::sync::Arc;

use binlog::sql_mode::{STRICT_ALL_TABLES, STRICT_TRANS_TABLES};
use replay::{SessionVariables, SourceStatement, StatementTime, TargetFailure};
use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;
use sql::SqlWords;
use sql::ddl::{
    AlteredColumn, DdlColumn, DefaultClause, ExistenceCheck, TableChange, TableElement, TableOptions,
    TypeArgument,
};
use sql::quote::quote_ansi_name;

use crate::catalogue_table::{CatalogueColumn, CatalogueTable, QualifiedName, SourceEngine};
use crate::default_value::{DefaultValue, implicit_default, sql_literal};
use crate::mysql_type::MysqlType;
use crate::schema_editor::{SchemaEditor, create_sql, drop_key, qualified, unknown};
use crate::sqlite_failure::sqlite_failure;
use crate::table_elements::{ForeignKeyRules, TableElements};
use crate::value_conversion::convert;

/// The state of a table during ALTER TABLE.
struct TableAlteration {
    table: CatalogueTable,
    /// Index of each column in the old table; `None` for new columns.
    sources: Vec<Option<usize>>,
    /// Old and new names of renamed columns.
    renamed: Vec<(String, String)>,
    old_name: QualifiedName,
    foreign_key_rules: ForeignKeyRules,
    name: Option<QualifiedName>,
    /// The clause that removes rows without row events, if any.
    rows_lost: Option<String>,
    /// A new TIMESTAMP column that is NOT NULL without `explicit_defaults_for_timestamp`, if any.
    implicit_timestamp: Option<String>,
    /// Limits of the new types of columns.
    limits: Vec<ColumnLimit>,
}

/// Maximum length of the values of a column. Without a strict SQL mode, the source truncates longer values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ColumnLimit {
    /// Index of the column in the old table.
    source: usize,
    unit: LimitUnit,
    max: u32,
}

/// Unit of the length of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitUnit {
    /// Characters of a text, except for spaces at its end.
    Character,
    /// Bytes. Those of a text in UTF-8, which has at most as many in its character set.
    Byte,
    /// Digits before the decimal point.
    Digit,
    /// Digits before the decimal point of a number that must not be negative.
    UnsignedDigit,
}

impl ColumnLimit {
    /// Returns the limit of the new definition of a column; `None` for types whose values `convert` checks.
    fn of(source: usize, definition: &DdlColumn) -> Option<Self> {
        let argument = |at: usize| match definition.column_type.arguments.get(at) {
            Some(TypeArgument::Number(number)) => number.parse::<u32>().ok(),
            _ => None,
        };
        let (unit, max) = match definition.column_type.data_type() {
            "char" => (LimitUnit::Character, argument(0).unwrap_or(1)),
            "varchar" => (LimitUnit::Character, argument(0)?),
            "binary" => (LimitUnit::Byte, argument(0).unwrap_or(1)),
            "varbinary" => (LimitUnit::Byte, argument(0)?),
            "tinytext" | "tinyblob" => (LimitUnit::Byte, u8::MAX.into()),
            "text" | "blob" => (LimitUnit::Byte, u16::MAX.into()),
            "mediumtext" | "mediumblob" => (LimitUnit::Byte, (1 << 24) - 1),
            "decimal" => {
                let (precision, scale) = (argument(0).unwrap_or(10), argument(1).unwrap_or(0));
                let is_unsigned = definition.column_type.is_unsigned;
                let unit = if is_unsigned { LimitUnit::UnsignedDigit } else { LimitUnit::Digit };
                (unit, precision.saturating_sub(scale))
            }
            _ => return None,
        };
        Some(Self { source, unit, max })
    }

    /// Checks that no value of the old table exceeds the limit.
    fn check(
        &self,
        editor: &SchemaEditor<'_>,
        name: &QualifiedName,
        old: &CatalogueTable,
    ) -> Result<(), TargetFailure> {
        let column = &old.columns[self.source].name;
        let (value, table) = (quote_ansi_name(column), quote_ansi_name(&old.name));
        let max = self.max;
        let digits = format!("INSTR(LTRIM({value}, '-0') || '.', '.') - 1");
        let is_truncated = match self.unit {
            LimitUnit::Character => format!("LENGTH(RTRIM({value}, ' ')) > {max}"),
            LimitUnit::Byte => format!("LENGTH(CAST({value} AS BLOB)) > {max}"),
            LimitUnit::Digit => format!("{digits} > {max}"),
            LimitUnit::UnsignedDigit => format!("{digits} > {max} OR {value} LIKE '-%'"),
        };
        let query = format!("SELECT 1 FROM {table} WHERE {is_truncated}");
        let mut statement = editor.connection.prepare(&query).map_err(sqlite_failure)?;
        match statement.exists([]).map_err(sqlite_failure)? {
            false => Ok(()),
            true => Err(TargetFailure::refused(format!(
                "cannot apply ALTER TABLE {}.{}: the source has truncated values of the column {column}, because the \
                 sql_mode of its session was not strict",
                name.0, name.1
            ))),
        }
    }
}

/// Returns whether the server refuses values that a column cannot hold.
fn is_strict(context: &SessionVariables) -> bool {
    const STRICT: u64 = STRICT_TRANS_TABLES | STRICT_ALL_TABLES;
    context.sql_mode.is_none_or(|mode| mode & STRICT != 0)
}

/// Reason why a change cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AlterationFailure {
    MissingColumn,
    /// The change has no equivalent here.
    Unknown,
}

/// The statement of an ALTER TABLE.
#[derive(Clone, Copy)]
pub(crate) struct AlterationSource<'s> {
    pub(crate) statement: &'s SourceStatement,
    pub(crate) words: &'s SqlWords,
    pub(crate) default_database: &'s str,
}

/// Executes an ALTER TABLE.
pub(crate) fn alter(
    editor: &mut SchemaEditor<'_>,
    name: &QualifiedName,
    changes: &[TableChange],
    source: AlterationSource<'_>,
) -> Result<(), TargetFailure> {
    let Some((name, old)) = editor.catalogue.find(name) else {
        editor.remarks.count_passed_over("ALTER TABLE of a table that the logs did not create");
        return Ok(());
    };
    let (name, old) = (name.clone(), Arc::clone(old));
    let mut altered = TableAlteration {
        table: CatalogueTable::clone(&old),
        sources: (0..old.columns.len()).map(Some).collect(),
        renamed: Vec::new(),
        foreign_key_rules: ForeignKeyRules::of(source.statement).after(&name, &old.foreign_keys),
        old_name: name.clone(),
        name: None,
        rows_lost: None,
        implicit_timestamp: None,
        limits: Vec::new(),
    };
    altered.apply(changes, source.default_database).map_err(|failure| match failure {
        AlterationFailure::MissingColumn => TargetFailure::refused(format!(
            "ALTER TABLE {}.{} changes a column that does not exist",
            name.0, name.1
        )),
        AlterationFailure::Unknown => unknown(source.words),
    })?;
    altered.close_primary_key();
    let is_empty = is_empty(editor, &old)?;
    if let Some(what) = altered.rows_lost.take().filter(|_| !is_empty) {
        return Err(TargetFailure::refused(format!(
            "ALTER TABLE {}.{} … {what} removes rows, and the log does not contain which",
            name.0, name.1
        )));
    }
    if let Some(column) = altered.implicit_timestamp.take()
        && !is_empty
        && !has_explicit_timestamps(&source.statement.context)
    {
        return Err(unknown_values(&name, &column));
    }
    if !is_empty && !is_strict(&source.statement.context) {
        altered.limits.iter().try_for_each(|limit| limit.check(editor, &name, &old))?;
    }
    let TableAlteration { mut table, sources, renamed, name: new_name, .. } = altered;
    if is_same_shape(&old, &table, &sources) {
        editor.update_indexes(&old, &mut table)?;
    } else {
        let fills = fill_values(&table, &sources, &name, is_empty, source.statement)?;
        match only_appends(&old, &table, &sources) {
            true => append(editor, &old, &mut table, &fills)?,
            false => rebuild(editor, &old, &mut table, &sources, &fills)?,
        }
    }
    editor.catalogue.put(editor.connection, name.clone(), table)?;
    editor.update_references(&name, |_, columns| {
        for column in columns {
            if let Some((_, new)) = renamed.iter().find(|(old, _)| old.eq_ignore_ascii_case(column)) {
                column.clone_from(new);
            }
        }
    })?;
    new_name.map_or(Ok(()), |new| editor.rename(&name, new))
}

impl TableAlteration {
    /// Applies all changes. Columns and keys that exist are changed first, because the statement names them by their
    /// names before it. New keys have the columns' names after the statement.
    fn apply(&mut self, changes: &[TableChange], default_database: &str) -> Result<(), AlterationFailure> {
        for change in changes {
            match change {
                TableChange::Options(options) => self.set_options(options),
                TableChange::Versioning(_) | TableChange::Unknown(_) => {
                    return Err(AlterationFailure::Unknown);
                }
                _ => {}
            }
        }
        let before = self.table.columns.clone();
        let names: Vec<&str> = before.iter().map(|column| &*column.name).collect();
        let columns = AlteredColumn::of_changes(&names, changes).ok_or(AlterationFailure::MissingColumn)?;
        self.alter_columns(&before, &columns)?;
        changes.iter().for_each(|change| self.drop_key(change));
        self.rename_keys(changes);
        for change in changes {
            self.apply_change(change, &columns, default_database)?;
        }
        Ok(())
    }

    /// Replaces the columns by those after the statement, and adapts the keys.
    fn alter_columns(
        &mut self,
        before: &[CatalogueColumn],
        columns: &[AlteredColumn<'_>],
    ) -> Result<(), AlterationFailure> {
        let charset = self.table.charset.clone();
        let alter = |column: &AlteredColumn<'_>| match *column {
            AlteredColumn::Kept { source, name } => {
                Ok(CatalogueColumn { name: name.to_owned(), ..before[source].clone() })
            }
            AlteredColumn::Replaced { definition, .. } | AlteredColumn::Added(definition) => {
                let mut body = TableElements::new(self.old_name.clone(), self.foreign_key_rules);
                let mut column = body.column(definition).ok_or(AlterationFailure::Unknown)?;
                column.inherit_charset(charset.as_deref());
                Ok(column)
            }
        };
        let limit = |column: &AlteredColumn<'_>| match *column {
            AlteredColumn::Replaced { source, definition } => ColumnLimit::of(source, definition),
            AlteredColumn::Kept { .. } | AlteredColumn::Added(_) => None,
        };
        self.limits = columns.iter().filter_map(limit).collect();
        self.table.columns = columns.iter().map(alter).collect::<Result<_, _>>()?;
        self.sources = columns.iter().map(AlteredColumn::source).collect();
        assert_eq!(self.sources.len(), self.table.columns.len(), "ours: one source for each column");
        let source_of = |name: &str| before.iter().position(|column| column.name.eq_ignore_ascii_case(name));
        self.table.alter_keys(|name| {
            let source = source_of(name)?;
            columns.iter().find(|column| column.source() == Some(source)).map(AlteredColumn::name)
        });
        self.renamed = columns
            .iter()
            .filter_map(|column| Some((before[column.source()?].name.clone(), column.name().to_owned())))
            .filter(|(old, new)| old != new)
            .collect();
        Ok(())
    }

    /// Applies a change, except to the positions and names of columns, and to keys that exist. `columns` has the columns
    /// after the statement.
    fn apply_change(
        &mut self,
        change: &TableChange,
        columns: &[AlteredColumn<'_>],
        default_database: &str,
    ) -> Result<(), AlterationFailure> {
        match change {
            TableChange::Add { element: TableElement::Column(definition), .. } => {
                let is_it = |column: &AlteredColumn<'_>| {
                    column.definition().is_some_and(|added| std::ptr::eq(added, &**definition))
                };
                // A column that existed is not added.
                if columns.iter().any(is_it) {
                    self.note_implicit_timestamp(definition);
                    self.add_keys_of(&TableElement::Column(definition.clone()))?;
                }
            }
            TableChange::Add { element, .. } => self.add_keys_of(element)?,
            // With IF EXISTS, the column may be missing.
            TableChange::ReplaceColumn { definition, .. }
                if self.table.column(&definition.name).is_none() => {}
            TableChange::ReplaceColumn { definition, .. } => {
                self.add_keys_of(&TableElement::Column(definition.clone()))?;
            }
            // Servers accept no default for a column that the same statement renames.
            TableChange::SetDefault { column, check: ExistenceCheck::Skip, .. }
                if self.table.column(column).is_none() => {}
            TableChange::SetDefault { column, default, .. } => self.set_default(column, default.as_ref())?,
            TableChange::RenameTable(name) => self.name = Some(qualified(name, default_database)),
            TableChange::ConvertCharset(charset) => self.convert_charset(charset),
            TableChange::Rows(what) => self.rows_lost = Some(what.clone()),
            // Applied or refused before.
            TableChange::DropColumn { .. }
            | TableChange::RenameColumn { .. }
            | TableChange::DropPrimaryKey
            | TableChange::DropKey(_)
            | TableChange::DropForeignKey(_)
            | TableChange::DropConstraint(_)
            | TableChange::RenameKey { .. }
            | TableChange::Options(_)
            | TableChange::Versioning(_)
            | TableChange::Unknown(_)
            | TableChange::Other(_) => {}
        }
        Ok(())
    }

    fn set_options(&mut self, options: &TableOptions) {
        if options.engine.is_some() {
            self.table.engine = SourceEngine::of(options.engine.as_deref());
        }
        self.table.charset = options.charset.clone().or(self.table.charset.take());
    }

    fn set_default(
        &mut self,
        column: &str,
        default: Option<&DefaultClause>,
    ) -> Result<(), AlterationFailure> {
        let at = self.table.column(column).ok_or(AlterationFailure::MissingColumn)?;
        let column = &mut self.table.columns[at];
        let of_clause = |clause| DefaultValue::of_clause(clause, &column.kind);
        column.default = default.map_or(DefaultValue::None, of_clause);
        Ok(())
    }

    fn drop_key(&mut self, change: &TableChange) {
        match change {
            TableChange::DropKey(name) => drop_key(&mut self.table, name),
            TableChange::DropPrimaryKey => self.table.primary_key = None,
            TableChange::DropForeignKey(name) => self.drop_foreign_key(name),
            TableChange::DropConstraint(name) => {
                self.drop_foreign_key(name);
                drop_key(&mut self.table, name);
            }
            _ => {}
        }
    }

    /// Renames all keys at once: two keys can exchange their names.
    fn rename_keys(&mut self, changes: &[TableChange]) {
        for key in &mut self.table.keys {
            let new_name = changes.iter().find_map(|change| match change {
                TableChange::RenameKey { old, new } if old.eq_ignore_ascii_case(&key.name) => Some(new),
                _ => None,
            });
            if let Some(new) = new_name {
                key.name.clone_from(new);
            }
        }
    }

    /// Changes the character set of the table and its text columns.
    fn convert_charset(&mut self, name: &str) {
        // The default character set of the database is unknown here.
        if name == "default" {
            return;
        }
        for column in &mut self.table.columns {
            if let MysqlType::Text { charset } = &mut column.kind {
                match name {
                    "binary" => column.kind = MysqlType::Bytes { size: None },
                    name => *charset = Some(name.to_owned()),
                }
            }
        }
        self.table.charset = Some(name.to_owned());
    }

    fn note_implicit_timestamp(&mut self, definition: &DdlColumn) {
        let is_undeclared = definition.nullable && !definition.is_declared_null;
        let kind = self.table.column(&definition.name).map(|at| &self.table.columns[at].kind);
        if is_undeclared && definition.default.is_none() && matches!(kind, Some(MysqlType::Timestamp { .. }))
        {
            self.implicit_timestamp = Some(definition.name.clone());
        }
    }

    /// Adds the keys of an element.
    fn add_keys_of(&mut self, element: &TableElement) -> Result<(), AlterationFailure> {
        let mut body = TableElements::new(self.old_name.clone(), self.foreign_key_rules);
        body.add(element).ok_or(AlterationFailure::Unknown)?;
        self.foreign_key_rules = body.foreign_key_rules;
        self.add_keys(&body);
        Ok(())
    }

    fn add_keys(&mut self, body: &TableElements) {
        if body.primary_key.is_some() {
            self.table.primary_key.clone_from(&body.primary_key);
        }
        for key in &body.keys {
            let is_taken = |keys: &[_], name: &str| {
                keys.iter()
                    .any(|key: &crate::catalogue_table::SecondaryKey| key.name.eq_ignore_ascii_case(name))
            };
            let mut key = key.clone();
            let base = key.name.clone();
            for number in 2.. {
                if !is_taken(&self.table.keys, &key.name) {
                    break;
                }
                key.name = format!("{base}_{number}");
            }
            self.table.keys.push(key);
        }
        // Other engines ignore foreign keys.
        if self.table.engine == SourceEngine::Transactional {
            self.table.foreign_keys.extend(body.foreign_keys.iter().cloned());
        }
    }

    /// Makes the columns of the resulting primary key NOT NULL.
    fn close_primary_key(&mut self) {
        for part in self.table.primary_key.iter().flatten() {
            let columns = self.table.columns.iter_mut();
            for column in columns.filter(|column| column.name.eq_ignore_ascii_case(&part.column)) {
                column.nullable = false;
            }
        }
    }

    fn drop_foreign_key(&mut self, name: &str) {
        self.table.foreign_keys.retain(|key| !key.name.eq_ignore_ascii_case(name));
    }
}

fn is_empty(editor: &SchemaEditor<'_>, table: &CatalogueTable) -> Result<bool, TargetFailure> {
    let mut statement = editor
        .connection
        .prepare(&format!("SELECT 1 FROM {}", quote_ansi_name(&table.name)))
        .map_err(sqlite_failure)?;
    Ok(!statement.exists([]).map_err(sqlite_failure)?)
}

/// Returns true if SQLite's columns and primary key stay unchanged.
fn is_same_shape(old: &CatalogueTable, new: &CatalogueTable, sources: &[Option<usize>]) -> bool {
    assert_eq!(new.columns.len(), sources.len(), "ours: one source for each column");
    let all = old.columns.len() == new.columns.len();
    all && sources.iter().enumerate().all(|(at, source)| *source == Some(at))
        && create_sql(old, "") == create_sql(new, "")
        && old.columns.iter().zip(&new.columns).all(|(old, new)| is_same_kind(&old.kind, &new.kind))
}

/// Returns true if values of one type are also values of the other, unchanged.
fn is_same_kind(old: &MysqlType, new: &MysqlType) -> bool {
    match (old, new) {
        (MysqlType::Text { .. }, MysqlType::Text { .. }) => true,
        (old, new) => old == new,
    }
}

/// Returns true if the alteration only appends columns.
fn only_appends(old: &CatalogueTable, new: &CatalogueTable, sources: &[Option<usize>]) -> bool {
    let (kept, added) = sources.split_at(old.columns.len().min(sources.len()));
    let head = CatalogueTable { columns: new.columns[..kept.len()].to_vec(), ..new.clone() };
    added.iter().all(Option::is_none)
        && old.columns.len() == kept.len()
        && is_same_shape(old, &head, kept)
        && old.sqlite_key() == new.sqlite_key()
        && new.columns[kept.len()..]
            .iter()
            .all(|column| column.default.value(&column.kind, column.nullable).is_some())
}

fn append(
    editor: &mut SchemaEditor<'_>,
    old: &CatalogueTable,
    new: &mut CatalogueTable,
    _: &[Value],
) -> Result<(), TargetFailure> {
    let count = old.columns.len();
    assert!(count <= new.columns.len(), "ours: columns are only added");
    for column in &new.columns[count..] {
        let one = CatalogueTable { columns: vec![column.clone()], primary_key: None, ..new.clone() };
        let sql = create_sql(&one, "");
        let definition =
            sql.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or("", |(inner, _)| inner);
        editor
            .connection
            .execute_batch(&format!("ALTER TABLE {} ADD COLUMN {definition}", quote_ansi_name(&old.name)))
            .map_err(sqlite_failure)?;
    }
    editor.update_indexes(old, new)
}

/// Returns the values of new columns in existing rows.
fn fill_values(
    table: &CatalogueTable,
    sources: &[Option<usize>],
    name: &QualifiedName,
    is_empty: bool,
    statement: &SourceStatement,
) -> Result<Vec<Value>, TargetFailure> {
    let fill = |(column, source): (&CatalogueColumn, &Option<usize>)| match source {
        Some(_) => Ok(Value::Null),
        None if is_empty => Ok(implicit_default(&column.kind)),
        None => fill_value(column, statement).ok_or_else(|| unknown_values(name, &column.name)),
    };
    table.columns.iter().zip(sources).map(fill).collect()
}

fn unknown_values(table: &QualifiedName, column: &str) -> TargetFailure {
    TargetFailure::refused(format!(
        "the values of the new column {column} in existing rows of {}.{} are unknown: the server computes them, or \
         bintide does not know this form of the default",
        table.0, table.1
    ))
}

/// Returns whether a statement ran with `explicit_defaults_for_timestamp`. MySQL before 8.0 does not log this variable,
/// and its default is OFF.
fn has_explicit_timestamps(context: &SessionVariables) -> bool {
    context.explicit_timestamp == Some(1)
}

fn fill_value(column: &CatalogueColumn, statement: &SourceStatement) -> Option<Value> {
    if column.generated {
        return None;
    }
    match (&column.default, &column.kind) {
        (DefaultValue::Now, MysqlType::Timestamp { fraction }) => {
            let StatementTime { seconds, micros } = statement.time;
            let now = binlog::Timestamp { seconds, micros: micros.unwrap_or(0), fraction: *fraction };
            let mut text = Vec::new();
            now.to_utc().write(&mut text);
            String::from_utf8(text).ok().map(Value::Text)
        }
        (DefaultValue::Now, _) => None,
        (default, kind) => default.value(kind, column.nullable),
    }
}

/// Creates the table again and copies its rows.
fn rebuild(
    editor: &mut SchemaEditor<'_>,
    old: &CatalogueTable,
    new: &mut CatalogueTable,
    sources: &[Option<usize>],
    fills: &[Value],
) -> Result<(), TargetFailure> {
    let rebuilt = editor.free_name("bintide.rebuilt")?;
    assert_eq!(new.columns.len(), sources.len(), "ours: the origin of each column is known");
    assert_eq!(new.columns.len(), fills.len(), "ours: each column has a value for rows that lack it");
    let mut kinds = Vec::new();
    let expressions: Vec<String> = new
        .columns
        .iter()
        .zip(sources)
        .zip(fills)
        .map(|((column, source), fill)| {
            let Some(source) = source.map(|source| &old.columns[source]) else { return sql_literal(fill) };
            let own = quote_ansi_name(&source.name);
            let value = match is_same_kind(&source.kind, &column.kind) {
                true => own,
                false => {
                    kinds.push((source.kind.clone(), column.kind.clone()));
                    format!("bintide_convert({}, {own})", kinds.len() - 1)
                }
            };
            match source.nullable && !column.nullable {
                true => format!("COALESCE({value}, {})", sql_literal(&implicit_default(&column.kind))),
                false => value,
            }
        })
        .collect();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    editor
        .connection
        .create_scalar_function("bintide_convert", 2, flags, move |context| {
            let at: usize = usize::try_from(context.get::<i64>(0)?).unwrap_or(usize::MAX);
            let value: Value = context.get(1)?;
            let kinds = kinds.get(at);
            let converted = kinds.and_then(|(from, to)| convert(value.clone(), from, to));
            converted.ok_or_else(|| {
                let message =
                    format!("the value {} cannot be converted as on the server", sql_literal(&value));
                rusqlite::Error::UserFunctionError(message.into())
            })
        })
        .map_err(sqlite_failure)?;
    editor.connection.execute_batch(&create_sql(new, &rebuilt)).map_err(sqlite_failure)?;
    let (from, to) = (quote_ansi_name(&old.name), quote_ansi_name(&rebuilt));
    let columns = expressions.join(", ");
    editor
        .connection
        .execute_batch(&format!("INSERT INTO {to} SELECT {columns} FROM {from}"))
        .map_err(sqlite_failure)?;
    editor
        .connection
        .execute_batch(&format!("DROP TABLE {from}; ALTER TABLE {to} RENAME TO {from}"))
        .map_err(sqlite_failure)?;
    for key in &mut new.keys {
        key.index.clear();
    }
    editor.create_indexes(new)
}

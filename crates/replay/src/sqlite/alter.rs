//! ALTER TABLE: the resulting columns and keys, and the conversion of the rows.

use std::sync::Arc;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;

use crate::error::Failure;
use crate::sqlite::convert::convert;
use crate::sqlite::ddl::{Body, Change, Name, Place, default_of};
use crate::sqlite::define::{Bench, create_sql, drop_key, quoted};
use crate::sqlite::definition::{Column, Engine, Table};
use crate::sqlite::literal::{Default, fractioned, sql, zero};
use crate::sqlite::types::Type;
use crate::work::Statement;

/// The state of a table during ALTER TABLE.
struct Altered {
    table: Table,
    /// Index of each column in the old table; `None` for new columns.
    sources: Vec<Option<usize>>,
    /// Old and new names of renamed columns.
    renamed: Vec<(String, String)>,
    name: Option<Name>,
    /// The clause that removes rows without row events, if any.
    rows_lost: Option<String>,
}

/// Executes an ALTER TABLE.
pub(super) fn alter(
    bench: &mut Bench<'_>,
    name: &Name,
    changes: &[Change],
    statement: &Statement,
) -> Result<(), Failure> {
    let Some((name, old)) = bench.catalogue.find(name) else {
        bench.remarks.passed_over("ALTER TABLE of a table that the logs did not create");
        return Ok(());
    };
    let (name, old) = (name.clone(), Arc::clone(old));
    let mut altered = Altered {
        table: Table::clone(&old),
        sources: (0..old.columns.len()).map(Some).collect(),
        renamed: Vec::new(),
        name: None,
        rows_lost: None,
    };
    for change in changes {
        altered.take(change).ok_or_else(|| {
            Failure::refused(format!(
                "ALTER TABLE {}.{} changes a column that does not exist",
                name.0, name.1
            ))
        })?;
    }
    altered.close_primary_key();
    let is_empty = is_empty(bench, &old)?;
    if let Some(what) = altered.rows_lost.take().filter(|_| !is_empty) {
        return Err(Failure::refused(format!(
            "ALTER TABLE {}.{} … {what} removes rows, and the log does not contain which",
            name.0, name.1
        )));
    }
    let Altered { mut table, sources, renamed, name: new_name, .. } = altered;
    if is_same_shape(&old, &table, &sources) {
        bench.follow_keys(&old, &mut table)?;
    } else {
        let fills = fills(&table, &sources, &name, is_empty, statement)?;
        match appends(&old, &table, &sources) {
            true => append(bench, &old, &mut table, &fills)?,
            false => rebuild(bench, &old, &mut table, &sources, &fills)?,
        }
    }
    bench.catalogue.put(bench.connection, name.clone(), table)?;
    bench.change_children(&name, |_, columns| {
        for column in columns {
            if let Some((_, new)) = renamed.iter().find(|(old, _)| old.eq_ignore_ascii_case(column)) {
                column.clone_from(new);
            }
        }
    })?;
    new_name.map_or(Ok(()), |new| bench.rename(&name, new))
}

impl Altered {
    fn take(&mut self, change: &Change) -> Option<()> {
        match change {
            Change::Add(column, place, body) => {
                self.insert(Column::clone(column), None, self.table.columns.len(), place)?;
                self.add_keys(body);
            }
            Change::Modify(old, column, place, body) => {
                let at = self.table.column(old)?;
                let source = self.sources.remove(at);
                let mut new = Column::clone(column);
                if let (Type::Text { charset: charset @ None }, table) = (&mut new.kind, &self.table) {
                    charset.clone_from(&table.charset);
                }
                self.table.columns.remove(at);
                self.insert(new, source, at, place)?;
                self.rename_column(old, &column.name);
                self.add_keys(body);
            }
            Change::Drop(name) => self.drop_column(name)?,
            Change::SetDefault(name, words) => {
                let at = self.table.column(name)?;
                let column = &mut self.table.columns[at];
                column.default = default_of(words, column);
            }
            Change::RenameColumn(old, new) => {
                let at = self.table.column(old)?;
                self.table.columns[at].name.clone_from(new);
                self.rename_column(old, new);
            }
            Change::AddKeys(body) => self.add_keys(body),
            Change::DropKey(name) => drop_key(&mut self.table, name),
            Change::DropPrimaryKey => self.table.primary_key = None,
            Change::DropForeignKey(name) => self.drop_foreign_key(name),
            Change::DropConstraint(name) => {
                self.drop_foreign_key(name);
                drop_key(&mut self.table, name);
            }
            Change::RenameKey(old, new) => {
                for key in self.table.keys.iter_mut().filter(|key| key.name.eq_ignore_ascii_case(old)) {
                    key.name.clone_from(new);
                }
            }
            Change::Rename(name) => self.name = Some(name.clone()),
            Change::Engine(engine) => self.table.engine = Engine::of(Some(engine)),
            Change::Rows(what) => self.rows_lost = Some(what.clone()),
        }
        Some(())
    }

    /// Inserts a column at its position; `there` if none is given.
    fn insert(&mut self, column: Column, source: Option<usize>, there: usize, place: &Place) -> Option<()> {
        let at = match place {
            Place::Same => there,
            Place::First => 0,
            Place::After(name) => self.table.column(name)? + 1,
        };
        self.table.columns.insert(at, column);
        self.sources.insert(at, source);
        Some(())
    }

    fn rename_column(&mut self, old: &str, new: &str) {
        if old != new {
            self.table.rename_column(old, new);
            self.renamed.push((old.to_owned(), new.to_owned()));
        }
    }

    fn drop_column(&mut self, name: &str) -> Option<()> {
        let at = self.table.column(name)?;
        self.table.columns.remove(at);
        self.sources.remove(at);
        let is_dropped = |column: &str| column.eq_ignore_ascii_case(name);
        for key in &mut self.table.keys {
            key.parts.retain(|part| !is_dropped(&part.column));
        }
        // Keeps keys of expressions: they have no parts, and no index here.
        self.table.keys.retain(|key| !key.parts.is_empty() || key.index.is_empty());
        if let Some(parts) = &mut self.table.primary_key {
            parts.retain(|part| !is_dropped(&part.column));
        }
        self.table.primary_key.take_if(|parts| parts.is_empty());
        Some(())
    }

    fn add_keys(&mut self, body: &Body) {
        if body.primary_key.is_some() {
            self.table.primary_key.clone_from(&body.primary_key);
        }
        for key in &body.keys {
            let is_taken = |keys: &[_], name: &str| {
                keys.iter().any(|key: &crate::sqlite::definition::Key| key.name.eq_ignore_ascii_case(name))
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
        self.table.foreign_keys.extend(body.foreign_keys.iter().cloned());
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

fn is_empty(bench: &Bench<'_>, table: &Table) -> Result<bool, Failure> {
    let mut statement = bench.connection.prepare(&format!("SELECT 1 FROM {}", quoted(&table.name)))?;
    Ok(!statement.exists([])?)
}

/// Returns true if SQLite's columns and primary key stay unchanged.
fn is_same_shape(old: &Table, new: &Table, sources: &[Option<usize>]) -> bool {
    let all = old.columns.len() == new.columns.len();
    all && sources.iter().enumerate().all(|(at, source)| *source == Some(at))
        && create_sql(old, "") == create_sql(new, "")
        && old.columns.iter().zip(&new.columns).all(|(old, new)| is_same_kind(&old.kind, &new.kind))
}

/// Returns true if values of one type are also values of the other, unchanged.
fn is_same_kind(old: &Type, new: &Type) -> bool {
    match (old, new) {
        (Type::Text { .. }, Type::Text { .. }) => true,
        (old, new) => old == new,
    }
}

/// Returns true if the only change is new columns at the end.
fn appends(old: &Table, new: &Table, sources: &[Option<usize>]) -> bool {
    let (kept, added) = sources.split_at(old.columns.len().min(sources.len()));
    let head = Table { columns: new.columns[..kept.len()].to_vec(), ..new.clone() };
    added.iter().all(Option::is_none)
        && old.columns.len() == kept.len()
        && is_same_shape(old, &head, kept)
        && new.columns[kept.len()..]
            .iter()
            .all(|column| column.default.value(&column.kind, column.nullable).is_some())
}

fn append(bench: &mut Bench<'_>, old: &Table, new: &mut Table, _: &[Value]) -> Result<(), Failure> {
    let count = old.columns.len();
    for column in &new.columns[count..] {
        let one = Table { columns: vec![column.clone()], primary_key: None, ..new.clone() };
        let sql = create_sql(&one, "");
        let definition =
            sql.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or("", |(inner, _)| inner);
        bench
            .connection
            .execute_batch(&format!("ALTER TABLE {} ADD COLUMN {definition}", quoted(&old.name)))?;
    }
    bench.follow_keys(old, new)
}

/// Returns the values of new columns in existing rows.
fn fills(
    table: &Table,
    sources: &[Option<usize>],
    name: &Name,
    is_empty: bool,
    statement: &Statement,
) -> Result<Vec<Value>, Failure> {
    let fill = |(column, source): (&Column, &Option<usize>)| {
        match source {
        Some(_) => Ok(Value::Null),
        None if is_empty => Ok(zero(&column.kind)),
        None => fill(column, statement).ok_or_else(|| {
            Failure::refused(format!(
                "the values of the new column {2} in existing rows of {0}.{1} are unknown: the server computes them",
                name.0, name.1, column.name
            ))
        }),
    }
    };
    table.columns.iter().zip(sources).map(fill).collect()
}

fn fill(column: &Column, statement: &Statement) -> Option<Value> {
    if column.generated {
        return None;
    }
    match (&column.default, &column.kind) {
        (Default::Now, Type::Timestamp { fraction }) => {
            let (seconds, micros) = statement.timestamp;
            let now = binlog::Timestamp { seconds, micros: micros.unwrap_or(0), fraction: *fraction };
            let mut text = Vec::new();
            now.to_utc().write(&mut text);
            String::from_utf8(text).ok().map(Value::Text)
        }
        (Default::Now, _) => None,
        (default, kind) => default.value(kind, column.nullable),
    }
}

/// Creates the table again and copies its rows.
fn rebuild(
    bench: &mut Bench<'_>,
    old: &Table,
    new: &mut Table,
    sources: &[Option<usize>],
    fills: &[Value],
) -> Result<(), Failure> {
    const REBUILT: &str = "bintide.rebuilt";
    let mut kinds = Vec::new();
    let expressions: Vec<String> = new
        .columns
        .iter()
        .zip(sources)
        .zip(fills)
        .map(|((column, source), fill)| {
            let Some(source) = source.map(|source| &old.columns[source]) else { return sql(fill) };
            let own = quoted(&source.name);
            let value = match is_same_kind(&source.kind, &column.kind) {
                true => own,
                false => {
                    kinds.push((source.kind.clone(), column.kind.clone()));
                    format!("bintide_convert({}, {own})", kinds.len() - 1)
                }
            };
            match source.nullable && !column.nullable {
                true => format!("COALESCE({value}, {})", sql(&zero(&column.kind))),
                false => value,
            }
        })
        .collect();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    bench.connection.create_scalar_function("bintide_convert", 2, flags, move |context| {
        let at: usize = usize::try_from(context.get::<i64>(0)?).unwrap_or(usize::MAX);
        let value: Value = context.get(1)?;
        let kinds = kinds.get(at);
        let converted = kinds.and_then(|(from, to)| convert(value.clone(), from, to));
        converted.ok_or_else(|| {
            let message = format!("the value {} cannot be converted as on the server", sql(&value));
            rusqlite::Error::UserFunctionError(message.into())
        })
    })?;
    bench.connection.execute_batch(&create_sql(new, REBUILT))?;
    let (from, to) = (quoted(&old.name), quoted(REBUILT));
    let columns = expressions.join(", ");
    bench.connection.execute_batch(&format!("INSERT INTO {to} SELECT {columns} FROM {from}"))?;
    bench.connection.execute_batch(&format!("DROP TABLE {from}; ALTER TABLE {to} RENAME TO {from}"))?;
    for key in &mut new.keys {
        key.index.clear();
    }
    bench.make_indexes(new)
}

/// Returns a date and time with this number of fractional digits.
pub(super) fn moment(text: &str, fraction: u8) -> Option<String> {
    fractioned(text, "dddd-dd-dd dd:dd:dd", fraction)
}

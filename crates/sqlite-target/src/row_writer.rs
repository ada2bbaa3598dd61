//! Applies row events.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::events::{RowsFlags, RowsKind};
use binlog::{Column as LogColumn, Flavour, RowChange, RowImage};
use replay::row_reader::{EventRows, RowLookup, RowReader};
use replay::{RowEvents, TargetFailure};
use rusqlite::CachedStatement;
use rusqlite::types::{ToSqlOutput, Value};
use sql::quote::quote_ansi_name;

use crate::catalogue_table::{CatalogueColumn, CatalogueTable, KeyColumn, QualifiedName, SourceEngine};
use crate::default_value::DefaultValue;
use crate::foreign_key_cascade::ForeignKeyCascade;
use crate::mysql_type::{MysqlType, StrictType};
use crate::schema_editor::SchemaEditor;
use crate::sqlite_failure::sqlite_failure;
use crate::sqlite_value::{ValueContext, to_sqlite_value};

/// Maximum number of cached plans. Bounds memory: with MINIMAL images, each set of changed columns needs a plan.
const ROW_PLANS_MAX: usize = 4096;

/// Applies row events with cached plans.
#[derive(Debug, Default)]
pub(crate) struct RowWriter {
    reader: RowReader,
    plans: HashMap<Box<[u8]>, Arc<RowPlan>>,
    /// Buffer for a key of `plans`.
    key: Vec<u8>,
    space: Vec<u8>,
    /// True if rows changed in a table whose engine is not transactional on the source.
    pub(crate) touched_nontransactional: bool,
}

/// A plan for events of one kind with the same columns of one table.
#[derive(Debug)]
struct RowPlan {
    name: QualifiedName,
    table: Arc<CatalogueTable>,
    logged: Box<[LogColumn]>,
    sql: String,
    /// Parameter number of each column's value before the change; 0 for none.
    before: Vec<usize>,
    /// Parameter number of each column's value after the change; 0 for none.
    after: Vec<usize>,
    /// True if a foreign key refers to the table.
    has_children: bool,
    /// True if the log has partial JSON updates without the original documents.
    lacks_documents: bool,
    /// Query for a row before its change, if one may be needed.
    lookup: Option<LookupStatement>,
}

impl RowWriter {
    /// Clears the plans, because tables have changed.
    pub(crate) fn forget(&mut self) {
        self.plans.clear();
    }

    /// Applies these row events.
    pub(crate) fn write(
        &mut self,
        editor: &mut SchemaEditor<'_>,
        events: &RowEvents,
    ) -> Result<(), TargetFailure> {
        let mut reader = std::mem::take(&mut self.reader);
        let flavour = events.format.flavour;
        let result = reader.read(events, &mut |rows| self.write_event(editor, rows, flavour));
        self.reader = reader;
        result
    }

    fn write_event(
        &mut self,
        editor: &mut SchemaEditor<'_>,
        rows: &EventRows<'_>,
        flavour: Flavour,
    ) -> Result<(), TargetFailure> {
        let plan = self.plan(editor, rows, flavour)?;
        if plan.table.engine == SourceEngine::Blackhole {
            return Ok(());
        }
        self.touched_nontransactional |= plan.table.engine == SourceEngine::Other;
        // Since MySQL 9.6, the log contains the changes by foreign keys. Before, the engine of each replica executes
        // them.
        let by_engine = !rows.flags.contains(RowsFlags::USE_SQL_FOREIGN_KEY)
            && !rows.flags.contains(RowsFlags::NO_FOREIGN_KEY_CHECKS);
        let follows = by_engine && plan.has_children;
        match &plan.lookup {
            Some(lookup) if follows || plan.lacks_documents => {
                let (connection, catalogue) = (editor.connection, &*editor.catalogue);
                let cascade = ForeignKeyCascade { connection, catalogue, depth: 0 };
                for row in rows.rows() {
                    let row = row?;
                    let logged = LoggedRow { plan: &plan, row: &row, flavour, old: None };
                    let old = self.look_up(logged, &cascade, lookup)?;
                    let logged = LoggedRow { old: Some(&old), ..logged };
                    let new = self.new_row(logged)?;
                    if !plan.sql.is_empty() {
                        let mut statement =
                            editor.connection.prepare_cached(&plan.sql).map_err(sqlite_failure)?;
                        self.write_row(logged, &mut statement)?;
                    }
                    if follows {
                        cascade.follow(&plan.name, &plan.table, &old, new.as_deref())?;
                    }
                }
            }
            _ => {
                if plan.sql.is_empty() {
                    return Ok(()); // An update without columns.
                }
                let mut statement = editor.connection.prepare_cached(&plan.sql).map_err(sqlite_failure)?;
                for row in rows.rows() {
                    let logged = LoggedRow { plan: &plan, row: &row?, flavour, old: None };
                    self.write_row(logged, &mut statement)?;
                }
            }
        }
        Ok(())
    }

    fn write_row(
        &mut self,
        logged: LoggedRow<'_, '_, '_>,
        statement: &mut CachedStatement<'_>,
    ) -> Result<(), TargetFailure> {
        let LoggedRow { plan, row, .. } = logged;
        if let Some(image) = &row.after {
            self.bind(logged, image, &plan.after, statement)?;
        }
        if let Some(image) = &row.before {
            self.bind(LoggedRow { old: None, ..logged }, image, &plan.before, statement)?;
        }
        match statement.raw_execute() {
            Ok(1) => Ok(()),
            Ok(_) => Err(lacks_row(&plan.name)),
            Err(error) => Err(TargetFailure::refused(format!("{}.{}: {error}", plan.name.0, plan.name.1))),
        }
    }

    fn bind<'a>(
        &mut self,
        logged: LoggedRow<'_, '_, 'a>,
        image: &RowImage<'_, 'a>,
        slots: &[usize],
        statement: &mut CachedStatement<'_>,
    ) -> Result<(), TargetFailure> {
        for field in image.fields() {
            let slot = slots[field.index()];
            if slot == 0 {
                continue;
            }
            let context = logged.context(field.index());
            let value = to_sqlite_value(logged.row, &field, &context, &mut self.space)?;
            statement.raw_bind_parameter(slot, ToSqlOutput::Borrowed(value)).map_err(sqlite_failure)?;
        }
        Ok(())
    }

    /// Reads the row from the target.
    fn look_up(
        &mut self,
        logged: LoggedRow<'_, '_, '_>,
        cascade: &ForeignKeyCascade<'_>,
        lookup: &LookupStatement,
    ) -> Result<Vec<Value>, TargetFailure> {
        let mut find = cascade.connection.prepare_cached(&lookup.sql).map_err(sqlite_failure)?;
        if let Some(image) = &logged.row.before {
            self.bind(logged, image, &lookup.slots, &mut find)?;
        }
        let plan = logged.plan;
        let mut found = find.raw_query();
        let found = found.next().map_err(sqlite_failure)?.ok_or_else(|| lacks_row(&plan.name))?;
        (0..plan.table.columns.len())
            .map(|at| found.get(at))
            .collect::<Result<_, _>>()
            .map_err(sqlite_failure)
    }

    /// Returns the row after its change, computed from the values before; `None` if it is deleted.
    fn new_row(&mut self, logged: LoggedRow<'_, '_, '_>) -> Result<Option<Vec<Value>>, TargetFailure> {
        let Some(image) = &logged.row.after else { return Ok(None) };
        assert!(logged.old.is_some(), "ours: the row was read before its new values are computed");
        let mut new = logged.old.unwrap_or_default().to_vec();
        for field in image.fields() {
            let at = field.index();
            let value = to_sqlite_value(logged.row, &field, &logged.context(at), &mut self.space)?;
            new[at] = Value::try_from(value).map_err(|error| TargetFailure::refused(error.to_string()))?;
        }
        Ok(Some(new))
    }

    fn plan(
        &mut self,
        editor: &mut SchemaEditor<'_>,
        rows: &EventRows<'_>,
        flavour: Flavour,
    ) -> Result<Arc<RowPlan>, TargetFailure> {
        self.key.clear();
        rows.append_shape(&mut self.key);
        let known = self.plans.get(self.key.as_slice());
        if let Some(plan) = known.filter(|plan| *plan.logged == *rows.table.columns) {
            return Ok(Arc::clone(plan));
        }
        let (name, table) = find_or_create_table(editor, rows, flavour)?;
        if rows.kind != RowsKind::Write {
            create_lookup_index(editor, &table)?;
        }
        let has_children = editor.catalogue.children(&name).next().is_some();
        let plan = RowPlan::new(name, table, rows, has_children)?;
        if rows.kind == RowsKind::Update && flavour == Flavour::MariaDb {
            plan.check_generated(rows)?;
        }
        let plan = Arc::new(plan);
        if self.plans.len() >= ROW_PLANS_MAX {
            self.plans.clear();
        }
        self.plans.insert(self.key.as_slice().into(), Arc::clone(&plan));
        assert!(self.plans.len() <= ROW_PLANS_MAX, "ours: the cache of plans is bounded");
        Ok(plan)
    }
}

/// Row of an event, with the context of its values.
#[derive(Clone, Copy)]
struct LoggedRow<'w, 'r, 'a> {
    plan: &'w RowPlan,
    row: &'w RowChange<'r, 'a>,
    flavour: Flavour,
    /// The row on the target before the change, if it was read.
    old: Option<&'w [Value]>,
}

impl<'w> LoggedRow<'w, '_, '_> {
    /// Returns the context of the value in the column at this index.
    fn context(&self, at: usize) -> ValueContext<'w> {
        let old = self.old.map(|old| &old[at]);
        ValueContext { column: &self.plan.table.columns[at], flavour: self.flavour, old }
    }
}

/// Query for a row on the target.
#[derive(Debug)]
struct LookupStatement {
    sql: String,
    /// Parameter number of each column of the log, from 1; 0 for none.
    slots: Vec<usize>,
}

fn lacks_row(name: &QualifiedName) -> TargetFailure {
    TargetFailure::refused(format!(
        "{}.{} lacks a row that was changed on the source: another program changed the target, or the target \
         lacks transactions",
        name.0, name.1
    ))
}

/// Maximum number of columns in the index of a table without keys.
const LOOKUP_INDEX_COLUMNS_MAX: usize = 4;

/// Creates an index for a table without keys before its first update or delete. Otherwise each row would need a scan of
/// the table.
fn create_lookup_index(editor: &SchemaEditor<'_>, table: &CatalogueTable) -> Result<(), TargetFailure> {
    let has_key = table.sqlite_key().is_some() || table.keys.iter().any(|key| !key.index.is_empty());
    let sql = "SELECT 1 FROM sqlite_master WHERE type = 'index' AND tbl_name = ?1";
    if has_key
        || editor
            .connection
            .prepare_cached(sql)
            .map_err(sqlite_failure)?
            .exists([&table.name])
            .map_err(sqlite_failure)?
    {
        return Ok(());
    }
    let is_short = |column: &&CatalogueColumn| {
        !matches!(column.kind.strict_type(), StrictType::Blob | StrictType::Real)
            && column.kind != MysqlType::Json
    };
    let columns: Vec<String> = table
        .columns
        .iter()
        .filter(is_short)
        .take(LOOKUP_INDEX_COLUMNS_MAX)
        .map(|column| quote_ansi_name(&column.name))
        .collect();
    if columns.is_empty() {
        return Ok(());
    }
    let (name, on) = (
        quote_ansi_name(&editor.free_name(&format!("{}.bintide", table.name))?),
        quote_ansi_name(&table.name),
    );
    editor
        .connection
        .execute_batch(&format!("CREATE INDEX {name} ON {on} ({})", columns.join(", ")))
        .map_err(sqlite_failure)
}

/// Finds the table of these rows in the catalogue, or creates it from the table map.
fn find_or_create_table(
    editor: &mut SchemaEditor<'_>,
    rows: &EventRows<'_>,
    flavour: Flavour,
) -> Result<(QualifiedName, Arc<CatalogueTable>), TargetFailure> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let name = (text(&rows.table.database), text(&rows.table.name));
    if editor.catalogue.find(&name).is_none() {
        if let Some(like) = editor.catalogue.find_like(&name) {
            return Err(TargetFailure::refused(format!(
                "the logs create {}.{} but change {}.{}: sources with case-insensitive names (lower_case_table_names) \
                 are not supported",
                like.0, like.1, name.0, name.1
            )));
        }
        let new_table = table_from_map(rows, flavour).ok_or_else(|| {
            TargetFailure::refused(format!("{}.{} has a column of an unknown type", name.0, name.1))
        })?;
        editor.remarks.from_maps.push(format!("{}.{}", name.0, name.1));
        editor.create_empty(name.clone(), new_table)?;
    }
    let (found, table) = editor.catalogue.find(&name).expect("ours: a missing table was created");
    check_table(&name, table, rows, flavour)?;
    Ok((found.clone(), Arc::clone(table)))
}

/// Checks that the log's columns match the table's.
fn check_table(
    name: &QualifiedName,
    table: &CatalogueTable,
    rows: &EventRows<'_>,
    flavour: Flavour,
) -> Result<(), TargetFailure> {
    let own = table.columns.len();
    let Some(visible) = rows.columns_of(own) else {
        let logged = rows.table.columns.len();
        return Err(TargetFailure::refused(format!(
            "{}.{} has {own} columns on the target, but {logged} in the log",
            name.0, name.1
        )));
    };
    for (own, logged) in table.columns.iter().zip(visible) {
        let logged_name = logged.name.as_deref().map(String::from_utf8_lossy);
        if let Some(other) =
            logged_name.filter(|logged| !logged.eq_ignore_ascii_case(&own.name) && own.name.is_ascii())
        {
            return Err(TargetFailure::refused(format!(
                "the column {} of {}.{} has the name {other} in the log",
                own.name, name.0, name.1
            )));
        }
        if !own.kind.fits(logged, flavour) {
            let logged = MysqlType::of(logged, flavour);
            let logged = logged.map_or_else(|| "of an unknown type".to_owned(), |kind| kind.to_string());
            return Err(TargetFailure::refused(format!(
                "the column {} of {}.{} is {} on the target, but {logged} in the log",
                own.name, name.0, name.1, own.kind
            )));
        }
    }
    Ok(())
}

/// Creates a definition from a table map. Unnamed columns are called `col1`, `col2`…
fn table_from_map(rows: &EventRows<'_>, flavour: Flavour) -> Option<CatalogueTable> {
    let column = |(number, column): (usize, &LogColumn)| {
        let name = column.name.as_ref().map(|name| String::from_utf8_lossy(name).into_owned());
        Some(CatalogueColumn {
            name: name.unwrap_or_else(|| format!("col{}", number + 1)),
            kind: MysqlType::of(column, flavour)?,
            nullable: column.nullable,
            default: DefaultValue::None,
            generated: false,
        })
    };
    let columns: Vec<CatalogueColumn> =
        rows.table.columns.iter().enumerate().map(column).collect::<Option<_>>()?;
    let key = rows.table.primary_key.as_ref().map(|parts| {
        let part = |part: &binlog::KeyPart| {
            let column = columns.get(part.column)?.name.clone();
            Some(KeyColumn { column, is_prefix: part.prefix > 0 })
        };
        parts.iter().map(part).collect::<Option<Vec<KeyColumn>>>()
    });
    Some(CatalogueTable {
        name: String::new(),
        columns,
        primary_key: key.flatten(),
        keys: Vec::new(),
        foreign_keys: Vec::new(),
        engine: SourceEngine::Transactional,
        charset: None,
    })
}

impl RowPlan {
    fn new(
        name: QualifiedName,
        table: Arc<CatalogueTable>,
        rows: &EventRows<'_>,
        has_children: bool,
    ) -> Result<Self, TargetFailure> {
        let count = table.columns.len();
        let (mut before, mut after) = (vec![0; count], vec![0; count]);
        let mut parameters = 0;
        for column in rows.columns_after() {
            parameters += 1;
            after[column] = parameters;
        }
        let own = quote_ansi_name(&table.name);
        let column = |at: usize| quote_ansi_name(&table.columns[at].name);
        let finder = rows.lookup_columns(table.lookup_keys().iter().map(Vec::as_slice));
        let sql = match rows.kind {
            RowsKind::Write => {
                check_defaults(&name, &table, rows)?;
                let columns: Vec<String> = rows.columns_after().map(column).collect();
                let values: Vec<String> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
                match columns.is_empty() {
                    true => format!("INSERT INTO {own} DEFAULT VALUES"),
                    false => {
                        format!("INSERT INTO {own} ({}) VALUES ({})", columns.join(", "), values.join(", "))
                    }
                }
            }
            RowsKind::Delete => {
                format!("DELETE FROM {own} WHERE {}", lookup_condition(&table, &finder, 0, &mut before))
            }
            RowsKind::Update | RowsKind::PartialUpdate => {
                let sets: Vec<String> =
                    rows.columns_after().map(|at| format!("{} = ?{}", column(at), after[at])).collect();
                let found = lookup_condition(&table, &finder, parameters, &mut before);
                match sets.is_empty() {
                    true => String::new(),
                    false => format!("UPDATE {own} SET {} WHERE {found}", sets.join(", ")),
                }
            }
        };
        let lacks_documents = rows.kind == RowsKind::PartialUpdate
            && rows
                .columns_after()
                .any(|at| table.columns[at].kind == MysqlType::Json && !rows.has_before(at));
        let lookup = (lacks_documents || (has_children && rows.kind != RowsKind::Write)).then(|| {
            let mut slots = vec![0; count];
            let columns: Vec<String> = (0..count).map(column).collect();
            let found = lookup_condition(&table, &finder, 0, &mut slots);
            LookupStatement { sql: format!("SELECT {} FROM {own} WHERE {found}", columns.join(", ")), slots }
        });
        let logged = rows.table.columns.clone();
        Ok(Self { name, logged, sql, before, after, has_children, lacks_documents, lookup, table })
    }

    /// Checks that an update of MariaDB has the new values of all generated columns. MariaDB leaves out these columns,
    /// with every `binlog_row_image` (seen with MariaDB 11.8); MySQL logs those that change.
    fn check_generated(&self, rows: &EventRows<'_>) -> Result<(), TargetFailure> {
        let is_omitted = |(at, column): &(usize, &CatalogueColumn)| column.generated && !rows.has_after(*at);
        match self.table.columns.iter().enumerate().find(is_omitted) {
            Some((_, column)) => Err(omits_column(&self.name, column)),
            None => Ok(()),
        }
    }
}

/// Checks that each column omitted in the log has a known default.
fn check_defaults(
    name: &QualifiedName,
    table: &CatalogueTable,
    rows: &EventRows<'_>,
) -> Result<(), TargetFailure> {
    for (at, column) in table.columns.iter().enumerate() {
        let is_known = !column.generated && column.default.value(&column.kind, column.nullable).is_some();
        if !rows.has_after(at) && !is_known {
            return Err(omits_column(name, column));
        }
    }
    Ok(())
}

fn omits_column(name: &QualifiedName, column: &CatalogueColumn) -> TargetFailure {
    TargetFailure::refused(format!(
        "the log omits the column {2} of a row in {0}.{1}, and the server computes its value",
        name.0, name.1, column.name
    ))
}

/// Returns the condition that finds a row. Parameter numbers start after `parameters`.
fn lookup_condition(
    table: &CatalogueTable,
    finder: &RowLookup,
    mut parameters: usize,
    slots: &mut [usize],
) -> String {
    let mut condition = |columns: &[usize], sign: &str| {
        let conditions: Vec<String> = columns
            .iter()
            .map(|at| {
                parameters += 1;
                slots[*at] = parameters;
                format!("{} {sign} ?{parameters}", quote_ansi_name(&table.columns[*at].name))
            })
            .collect();
        conditions.join(" AND ")
    };
    match finder {
        RowLookup::Key(columns) => condition(columns, "="),
        RowLookup::All(columns) if columns.is_empty() => "FALSE".to_owned(),
        // A table without rowid has a key, so at most one row matches all columns.
        RowLookup::All(columns) if table.is_without_rowid() => condition(columns, "IS"),
        RowLookup::All(columns) => {
            let condition = condition(columns, "IS");
            format!("rowid = (SELECT rowid FROM {} WHERE {condition} LIMIT 1)", quote_ansi_name(&table.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
    use binlog::{ChecksumAlgorithm, Event, EventFormat, EventOrigin, Flavour, NextPosition};
    use replay::RowEvents;
    use rusqlite::Connection;

    use super::RowWriter;
    use crate::schema_draft::tests::statement;
    use crate::schema_editor::SchemaEditor;
    use crate::sqlite_remarks::SqliteRemarks;
    use crate::table_catalogue::{CREATE_CATALOGUE_TABLE, TableCatalogue};

    /// Columns in a table map of `d.t`: types, metadata and optional metadata; and bits of the columns in a row.
    #[derive(Clone, Copy)]
    struct LogColumns<'a> {
        types: &'a [u8],
        metadata: &'a [u8],
        optional: &'a [u8],
        present: u8,
    }

    /// An INT without a name.
    const INT: LogColumns<'static> = LogColumns { types: &[3], metadata: &[], optional: &[], present: 1 };

    fn insert(columns: LogColumns<'_>, row: &[u8]) -> RowEvents {
        let format = EventFormat {
            server_version: b"9.7.4".to_vec(),
            post_header_sizes: vec![8; 42],
            checksum: ChecksumAlgorithm::Off,
            flavour: Flavour::MySql,
        };
        let LogColumns { types, metadata, optional, present } = columns;
        let (database, table, nullable, flavour) = (b"d", b"t", &[0], Flavour::MySql);
        let map = TableMap {
            table_id: 7,
            flags: 1,
            database,
            table,
            column_types: types,
            metadata,
            nullable,
            optional,
            flavour,
        };
        let rows = Rows {
            kind: RowsKind::Write,
            table_id: 7,
            flags: RowsFlags::STATEMENT_END,
            extra: Some(&[]),
            column_count: types.len() as u64,
            columns: ColumnSet { bits: &[present] },
            columns_after: None,
            rows: row,
        };
        let mut bytes = Vec::new();
        for event in [Event::TableMap(map), Event::WriteRows(rows)] {
            event.write(EventOrigin::default(), NextPosition::Fixed(0), &format, &mut bytes).unwrap();
        }
        RowEvents { format: format.into(), bytes }
    }

    /// Inserts a row after these statements; checks the error.
    fn check(definitions: &[&str], columns: LogColumns<'_>, row: &[u8], expected: &str) {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(CREATE_CATALOGUE_TABLE).unwrap();
        let (mut catalogue, mut remarks) = (TableCatalogue::default(), SqliteRemarks::default());
        let mut editor =
            SchemaEditor { connection: &connection, catalogue: &mut catalogue, remarks: &mut remarks };
        for sql in definitions {
            editor.execute(&statement(sql)).unwrap();
        }
        let failure = RowWriter::default().write(&mut editor, &insert(columns, row)).unwrap_err();
        assert_eq!(failure.message, expected, "{definitions:?}");
    }

    #[test]
    fn rows_match_the_definition_of_their_table() {
        let one = &[0, 1, 0, 0, 0];
        check(
            &["create table T (a int)"],
            INT,
            one,
            "the logs create d.T but change d.t: sources with case-insensitive names (lower_case_table_names) are not \
             supported",
        );
        check(&[], LogColumns { types: &[6], ..INT }, &[0], "d.t has a column of an unknown type");
        check(
            &["create table t (a int, b int)"],
            INT,
            one,
            "d.t has 2 columns on the target, but 1 in the log",
        );
        check(
            &["create table t (a varchar(10))"],
            INT,
            one,
            "the column a of d.t is text on the target, but an integer of 32 bits in the log",
        );
        check(
            &["create table t (a int)"],
            LogColumns { optional: b"\x04\x02\x01b", ..INT },
            one,
            "the column a of d.t has the name b in the log",
        );
        check(
            &["create table t (a int, b char(36) not null default (uuid()))"],
            LogColumns { types: &[3, 254], metadata: &[254, 144], ..INT },
            one,
            "the log omits the column b of a row in d.t, and the server computes its value",
        );
        check(
            &["create table t (a enum('x'))"],
            LogColumns { types: &[254], metadata: &[247, 1], ..INT },
            &[0, 7],
            "a has a value that its definition does not contain",
        );
    }
}

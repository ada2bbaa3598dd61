//! The tables that logs change or define.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use binlog::Event;
use sql::{ReplicationFilter, StatementKind};

use crate::apply_plan::{ApplyPlan, ApplyPlanError, ApplyStep, SourceStatement, TransactionShape};
use crate::replay_error::ReplayError;
use crate::row_events::RowEvents;
use crate::target_table_definition::TargetTableName;
use crate::transaction_filter::TransactionFilter;
use crate::transaction_selection::{SelectionChoice, TransactionSelection, TransactionSelector};
use crate::transaction_source::TransactionSource;

/// A table's names on the source and on the target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TablePair {
    /// Name in the logs.
    pub source: TargetTableName,
    /// Name on the target.
    pub target: TargetTableName,
}

/// The tables of a selection of logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTables {
    /// Tables that the logs name.
    pub pairs: BTreeSet<TablePair>,
    /// Databases in which statements changed rows, by their names in the logs. Triggers and procedures may have changed
    /// further tables there.
    pub databases: BTreeSet<Box<[u8]>>,
}

/// System databases of a server.
const SYSTEM_DATABASES: [&[u8]; 4] = [b"mysql", b"sys", b"information_schema", b"performance_schema"];

impl LogTables {
    /// Adds a table, given by its name on the source, if the filter selects it.
    pub(crate) fn add(&mut self, filter: &ReplicationFilter, database: &[u8], table: &[u8]) {
        TransactionFilter(filter).put_table(database, table, &mut self.pairs);
    }
}

/// Collects the tables that the selected transactions change or define, from table maps and statements. Also collects
/// the databases of statements that change rows. Includes transactions that the target already has. Calls `seen` with
/// the number of bytes read so far; `seen` can stop the collection.
///
/// # Errors
///
/// Fails if the logs cannot be read, or `seen` stops the collection.
pub fn collect_tables(
    source: &mut TransactionSource,
    selection: &TransactionSelection,
    filter: &ReplicationFilter,
    seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<LogTables, ReplayError> {
    let mut selector = TransactionSelector::new(selection, source.log_names())?;
    let (mut opener, mut tables) = (source.opener(), LogTables::default());
    while let Some(found) = source.next_found()? {
        if seen(source.bytes_read()).is_break() {
            return Err(ReplayError::Interrupted);
        }
        let head = found.head();
        match selector.choose(&head) {
            SelectionChoice::Take => {}
            SelectionChoice::Leave => continue,
            SelectionChoice::Stop => break,
        }
        let plan = found.plan(&mut opener, source.held_max());
        let put = plan.and_then(|plan| TransactionFilter(filter).put_tables(&plan, &mut tables));
        put.map_err(|error| ReplayError::Plan { transaction: head.to_string(), error })?;
    }
    Ok(tables)
}

impl TransactionFilter<'_> {
    /// Adds the selected tables that a transaction changes or defines, from table maps and statements. A table of a
    /// rewritten database has its new name on the target.
    fn put_tables(self, plan: &ApplyPlan, out: &mut LogTables) -> Result<(), ApplyPlanError> {
        let changes_rows = !matches!(plan.shape, TransactionShape::ImplicitCommit { .. });
        for step in &plan.steps {
            match step {
                ApplyStep::Rows(_, rows) => self.put_tables_of_rows(rows, &mut out.pairs)?,
                ApplyStep::Spooled(_, rows) => {
                    for part in rows.parts() {
                        self.put_tables_of_rows(&part?, &mut out.pairs)?;
                    }
                }
                ApplyStep::Statement(statement) => {
                    self.put_tables_of_statement(statement, &mut out.pairs);
                    if changes_rows {
                        self.put_databases_of_statement(statement, &mut out.databases);
                    }
                }
                ApplyStep::SpooledStatements(statements) => {
                    for part in statements.parts() {
                        for statement in &part? {
                            self.put_tables_of_statement(statement, &mut out.pairs);
                            self.put_databases_of_statement(statement, &mut out.databases);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn put_tables_of_rows(
        self,
        rows: &RowEvents,
        out: &mut BTreeSet<TablePair>,
    ) -> Result<(), ApplyPlanError> {
        for raw in rows.events() {
            if let Event::TableMap(map) = raw.decode(&rows.format)? {
                self.put_table(map.database, map.table, out);
            }
        }
        Ok(())
    }

    fn put_tables_of_statement(self, statement: &SourceStatement, out: &mut BTreeSet<TablePair>) {
        if !self.0.accepts_database(self.0.target_database(&statement.default_database)) {
            return;
        }
        let StatementKind::Tables(tables) = statement.kind() else { return };
        for named in &tables {
            let database = named.database.as_deref().unwrap_or(&statement.default_database);
            self.put_table(database, &named.table, out);
        }
    }

    /// Adds the default database of a statement, and the databases of the tables that it names.
    fn put_databases_of_statement(self, statement: &SourceStatement, out: &mut BTreeSet<Box<[u8]>>) {
        let tables = match statement.kind() {
            StatementKind::Tables(tables) => tables,
            _ => return,
        };
        let named = tables.iter().filter_map(|named| named.database.as_deref());
        for database in named.chain([statement.default_database.as_slice()]) {
            let is_selected = self.0.accepts_database(self.0.target_database(database));
            if is_selected && !database.is_empty() && !SYSTEM_DATABASES.contains(&database) {
                out.insert(database.into());
            }
        }
    }

    /// Adds a table, given by its name in the logs, if the filter selects it.
    fn put_table(self, database: &[u8], table: &[u8], out: &mut BTreeSet<TablePair>) {
        let name = |database: &[u8]| TargetTableName { database: database.into(), table: table.into() };
        let (source, target) = (name(database), name(self.0.target_database(database)));
        if self.0.accepts_database(&target.database) && self.0.accepts_tables([(&*target.database, table)]) {
            out.insert(TablePair { source, target });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sql::{FilterRule, ReplicationFilter};

    use crate::transaction_filter::TransactionFilter;

    fn check(rules: &[FilterRule], expected: &[(&str, &str)]) {
        let filter = ReplicationFilter::new(rules.iter().cloned()).unwrap();
        let mut found = BTreeSet::new();
        for (database, table) in [("d", "t"), ("d", "u"), ("e", "t")] {
            TransactionFilter(&filter).put_table(database.as_bytes(), table.as_bytes(), &mut found);
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = |name: &crate::target_table_definition::TargetTableName| {
            format!("{}.{}", text(&name.database), text(&name.table))
        };
        let found: Vec<_> = found.iter().map(|pair| (name(&pair.source), name(&pair.target))).collect();
        let expected: Vec<_> = expected.iter().map(|(one, other)| ((*one).into(), (*other).into())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn selected_tables_have_both_names() {
        let all = [("d.t", "d.t"), ("d.u", "d.u"), ("e.t", "e.t")];
        check(&[], &all);
        check(&[FilterRule::IgnoreTable("d.u".into())], &[all[0], all[2]]);
        let rewrite = FilterRule::RewriteDatabase("d".into(), "x".into());
        check(&[rewrite.clone(), FilterRule::DoDatabase("x".into())], &[("d.t", "x.t"), ("d.u", "x.u")]);
        check(&[rewrite, FilterRule::DoTable("d.t".into())], &[]);
    }
}

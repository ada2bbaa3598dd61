//! Temporary tables of transactions that the target already has. They existed in a session that has ended, and a later
//! statement that uses one of them would use a table of the same name that is not temporary.

use std::collections::BTreeSet;

use binlog::{Event, EventFlags, EventType};
use sql::{StatementKind, TableReference, TemporaryTableChange, classify_statement, temporary_table_change};

use crate::apply_plan::{ApplyPlan, ApplyStep};
use crate::source_transaction::SourceTransaction;

/// Temporary tables that were open on the source at the end of the transactions that the target already has.
#[derive(Debug, Default)]
pub(crate) struct LostTemporaryTables {
    open: BTreeSet<OpenTable>,
}

/// Temporary table of a connection of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OpenTable {
    thread_id: u32,
    database: Vec<u8>,
    table: Vec<u8>,
}

impl OpenTable {
    fn new(thread_id: u32, name: &TableReference, default_database: &[u8]) -> Self {
        let (database, table) = name.resolve(default_database);
        Self { thread_id, database: database.to_vec(), table: table.to_vec() }
    }
}

impl LostTemporaryTables {
    /// Records which temporary tables a transaction that the target already has leaves open.
    pub(crate) fn skip(&mut self, source: &SourceTransaction) {
        for raw in source.transaction.events() {
            if raw.event_type() != EventType::Query
                || !raw.header().flags.contains(EventFlags::THREAD_SPECIFIC)
            {
                continue;
            }
            if let Ok(Event::Query(query)) = raw.decode(source.transaction.format()) {
                self.record(query.thread_id, query.database, query.sql);
            }
        }
    }

    fn record(&mut self, thread_id: u32, default_database: &[u8], sql: &[u8]) {
        let table = |name: &TableReference| OpenTable::new(thread_id, name, default_database);
        match temporary_table_change(sql) {
            Some(TemporaryTableChange::Create(name)) => drop(self.open.insert(table(&name))),
            Some(TemporaryTableChange::Drop(names)) => {
                for name in &names {
                    self.open.remove(&table(name));
                }
            }
            None => {}
        }
    }

    /// Returns the reason for which a transaction cannot be applied: one of its statements may use a lost table.
    pub(crate) fn reason_against(&self, plan: &ApplyPlan) -> Option<String> {
        if self.open.is_empty() {
            return None;
        }
        plan.steps.iter().find_map(|step| {
            let ApplyStep::Statement(statement) = step else { return None };
            let thread_id = statement.thread_id?;
            if classify_statement(&statement.sql) == StatementKind::DropTemporary {
                return None;
            }
            let lost = self.open.iter().find(|table| table.thread_id == thread_id)?;
            Some(format!(
                "the temporary table {}.{} of connection {thread_id} is lost: an earlier run created it, and it ended \
                 with that run. Restore the target to a state before this table was created, and run the replay again",
                String::from_utf8_lossy(&lost.database),
                String::from_utf8_lossy(&lost.table)
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LostTemporaryTables;

    #[test]
    fn open_tables_are_those_that_were_not_dropped() {
        check(&[(1, "create temporary table t (a int)")], &["1 d.t"]);
        check(&[(1, "CREATE TEMPORARY TABLE IF NOT EXISTS `e`.`t` LIKE u")], &["1 e.t"]);
        check(&[(1, "create temporary table t (a int)"), (1, "DROP TEMPORARY TABLE t")], &[]);
        check(&[(1, "create temporary table t (a int)"), (2, "drop temporary table t")], &["1 d.t"]);
        let ended = "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`,`e`.`u`";
        let both = [(1, "create temporary table t (a int)"), (1, "create temporary table e.u (a int)")];
        check(&both, &["1 d.t", "1 e.u"]);
        check(&[both[0], both[1], (1, ended)], &[]);
        check(&[(1, "insert into t values (connection_id())")], &[]);
    }

    #[track_caller]
    fn check(statements: &[(u32, &str)], expected: &[&str]) {
        let mut lost = LostTemporaryTables::default();
        for (thread_id, sql) in statements {
            lost.record(*thread_id, b"d", sql.as_bytes());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let open = lost.open.iter();
        let open =
            open.map(|open| format!("{} {}.{}", open.thread_id, text(&open.database), text(&open.table)));
        assert_eq!(open.collect::<Vec<_>>(), expected, "{statements:?}");
    }
}

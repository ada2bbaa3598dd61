//! Scope of an undo, and the statements outside of it.

use binlog::TransactionVerb;
use sql::ddl::{DdlStatement, ExistingTablePolicy, NamedTable, NewTable};
use sql::{SqlWords, StatementKind, TableSelection, classify_statement, first_word, is_account_statement};

/// Scope of an undo: the rows whose changes are undone. Only row changes have an inverse, so a statement within the
/// scope cannot be undone.
#[derive(Clone, Copy, Debug)]
pub struct UndoScope<'s> {
    /// The selected tables.
    pub tables: &'s TableSelection,
    /// The selected rows of these tables.
    pub rows: SelectedRows,
}

/// Selected rows of the selected tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedRows {
    /// All rows.
    All,
    /// Rows with chosen values.
    Some,
}

impl UndoScope<'_> {
    /// Returns whether a logged statement certainly changes no row in the scope.
    pub fn excludes(&self, sql: &[u8], default_database: &[u8]) -> bool {
        let is_everything = self.tables.selects_all();
        if TransactionVerb::of(sql) == TransactionVerb::Savepoint {
            return true;
        }
        if is_account_statement(sql) && !is_everything {
            return true;
        }
        let is_selected = |table: &sql::TableReference| {
            let (database, table) = table.resolve(default_database);
            self.tables.selects_ignoring_case(database, table)
        };
        // Row changes of a new table are undone back to the empty table, unless the statement has inserted rows.
        if first_word(sql) == "CREATE" {
            let has_rows = filled_table(sql).is_some_and(|name| {
                let [database, table] = name.resolve(&String::from_utf8_lossy(default_database));
                self.tables.selects_ignoring_case(database.as_bytes(), table.as_bytes())
            });
            return (!is_everything || self.rows == SelectedRows::Some) && !has_rows;
        }
        match classify_statement(sql) {
            StatementKind::Tables(tables) => !tables.is_empty() && !tables.iter().any(is_selected),
            StatementKind::Database => false,
            StatementKind::DropTemporary | StatementKind::DropTrigger(_) => !is_everything,
        }
    }
}

/// Returns the table of a `CREATE TABLE … SELECT`, or of MariaDB's `CREATE OR REPLACE TABLE`, which drops its rows.
fn filled_table(sql: &[u8]) -> Option<NamedTable> {
    match DdlStatement::parse(&SqlWords::parse(&String::from_utf8_lossy(sql), 0)?) {
        DdlStatement::CreateTable { name, exists, content } => {
            let changes_rows = exists == ExistingTablePolicy::Replace || matches!(content, NewTable::Query);
            changes_rows.then_some(name)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sql::{TablePattern, TableSelection};

    use super::{SelectedRows, UndoScope};

    #[test]
    fn statements_on_other_tables_are_excluded() {
        check("", "ALTER TABLE t ADD n INT", false);
        check("d.t", "ALTER TABLE t ADD n INT", false);
        check("d.t", "ALTER TABLE other.t ADD n INT", true);
        check("d.u", "ALTER TABLE t ADD n INT", true);
        check("d.u", "INSERT INTO t SELECT * FROM v", true);
        check("d.t", "INSERT INTO t VALUES (1)", false);
        check("d.t", "TRUNCATE TABLE d.t", false);
        check("d.t", "DROP TABLE u, t", false);
        check("d.t", "TRUNCATE TABLE D.T", false);
        check("d.t", "ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t WITHOUT VALIDATION", false);
    }

    #[test]
    fn statements_without_rows_are_excluded() {
        check("", "SAVEPOINT a", true);
        check("d.t", "CREATE TABLE t (id INT)", true);
        check("", "CREATE TABLE t (id INT)", false);
        check("d.t", "CREATE TABLE t AS SELECT 1 AS id", false);
        check("d.t", "CREATE TABLE t (id INT) SELECT 1 AS id", false);
        check("d.u", "CREATE TABLE t AS SELECT * FROM u", true);
        check("d.t", "CREATE OR REPLACE TABLE t (id INT)", false);
        check("d.u", "CREATE OR REPLACE TABLE t (id INT)", true);
        check("d.t", "CREATE VIEW t AS SELECT 1 AS id", true);
        check("", "GRANT SELECT ON *.* TO a", false);
        check("d.t", "GRANT SELECT ON *.* TO a", true);
        check("d.t", "DROP TRIGGER r", true);
        check("", "DROP TRIGGER r", false);
        check("d.t", "DROP DATABASE other", false);
    }

    #[test]
    fn conditions_exclude_new_tables() {
        let tables = selection("");
        let excludes = |rows| UndoScope { tables: &tables, rows }.excludes(b"CREATE TABLE t (id INT)", b"d");
        assert!(!excludes(SelectedRows::All));
        assert!(excludes(SelectedRows::Some));
    }

    /// `pattern` selects tables; all if it is empty. The default database is `d`.
    fn check(pattern: &str, sql: &str, expected: bool) {
        let tables = selection(pattern);
        let scope = UndoScope { tables: &tables, rows: SelectedRows::All };
        assert_eq!(scope.excludes(sql.as_bytes(), b"d"), expected, "{pattern}: {sql}");
    }

    fn selection(pattern: &str) -> TableSelection {
        let patterns =
            if pattern.is_empty() { Vec::new() } else { vec![TablePattern::new(pattern.as_bytes())] };
        TableSelection { database: None, patterns }
    }
}

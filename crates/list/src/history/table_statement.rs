//! Statements after which a search for a row can miss changes: they change the table's rows without row events, or the
//! table's name or columns.

use binlog::events::Query;
use binlog::{Flavour, TransactionVerb};
use sql::ddl::{ColumnKey, DdlStatement, NamedTable, TableChange, TableElement};
use sql::{
    SqlWords, StatementKind, TableReference, classify_statement, executed_statement, first_word,
    is_row_statement, query_text,
};

use crate::row_condition::RowCondition;

/// A table, and the conditions on its columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchedTable<'s> {
    pub(super) database: &'s [u8],
    pub(super) table: &'s [u8],
    pub(super) identity: &'s [RowCondition],
    /// True if the log has no column names: the names are those of one definition, for all logs.
    pub(super) has_one_definition: bool,
}

impl SearchedTable<'_> {
    /// Returns whether a search can miss changes because of this statement.
    pub(super) fn is_hidden_by(&self, query: &Query<'_>, sql_mode: u64, flavour: Flavour) -> bool {
        let sql = executed_statement(query.sql, sql_mode, flavour);
        let text = query_text(&Query { sql: &sql, ..*query }, flavour);
        let query = &Query { sql: text.as_bytes(), ..*query };
        if TransactionVerb::of(query.sql) != TransactionVerb::Other
            || query.is_unexecuted_alter()
            || !self.may_be_named(query)
        {
            return false;
        }
        let words = SqlWords::parse(&text, sql_mode);
        let statement = words.map_or(DdlStatement::Unknown, |words| DdlStatement::parse(&words));
        let is_table = |name: &NamedTable| self.is_table(name, query.database);
        match statement {
            DdlStatement::DropDatabase(database) => is_same(database.as_bytes(), self.database),
            DdlStatement::CreateTable { name, .. } | DdlStatement::Truncate(name) => is_table(&name),
            DdlStatement::DropTables(names) => names.iter().any(is_table),
            DdlStatement::RenameTables(renames) => {
                renames.iter().any(|rename| is_table(&rename.old) || is_table(&rename.new))
            }
            DdlStatement::AlterTable { name, changes } => {
                let is_hiding = |change: &TableChange| match change {
                    TableChange::RenameTable(new) => is_table(&name) || is_table(new),
                    change => is_table(&name) && self.is_changed_by(change),
                };
                changes.iter().any(is_hiding) || self.is_exchanged_by(query)
            }
            DdlStatement::CreateSequence { .. } | DdlStatement::DropSequences(_) | DdlStatement::Other => {
                self.is_row_statement(query)
            }
            DdlStatement::CreateDatabase { .. }
            | DdlStatement::AlterDatabase { .. }
            | DdlStatement::CreateTemporaryTable
            | DdlStatement::DropTemporaryTables
            | DdlStatement::CreateIndex { .. }
            | DdlStatement::DropIndex { .. } => false,
            DdlStatement::Unknown => true,
        }
    }

    /// Returns whether the statement contains the name of the table, or of its database if it can drop that. Stored
    /// functions can change tables that the statement does not name.
    fn may_be_named(&self, query: &Query<'_>) -> bool {
        may_contain(query.sql, self.table)
            || match first_word(query.sql).as_str() {
                "DROP" => may_contain(query.sql, self.database),
                "SELECT" | "CALL" => true,
                _ => false,
            }
    }

    /// Returns whether `ALTER TABLE … EXCHANGE PARTITION … WITH TABLE` names the table as the other one.
    fn is_exchanged_by(&self, query: &Query<'_>) -> bool {
        let StatementKind::Tables(tables) = classify_statement(query.sql) else { return false };
        tables.iter().skip(1).any(|other| self.is_referenced(other, query.database))
    }

    fn is_referenced(&self, named: &TableReference, default: &[u8]) -> bool {
        let (database, table) = named.resolve(default);
        is_same(database, self.database) && is_same(table, self.table)
    }

    fn is_table(&self, name: &NamedTable, default: &[u8]) -> bool {
        let database = name.database.as_deref().map_or(default, str::as_bytes);
        is_same(database, self.database) && is_same(name.table.as_bytes(), self.table)
    }

    /// Returns whether a change of the table changes the columns by which the row is found.
    fn is_changed_by(&self, change: &TableChange) -> bool {
        let is_searched = |name: &str| self.identity.iter().any(|condition| condition.has_column_name(name));
        let is_numbered =
            self.has_one_definition || self.identity.iter().any(RowCondition::has_column_number);
        if is_numbered && change.renumbers_columns() {
            return true;
        }
        match change {
            TableChange::Add { element: TableElement::Column(column), .. } => {
                is_searched(&column.name) || column.keys.contains(&ColumnKey::Primary)
            }
            TableChange::Add { element, .. } => {
                matches!(element, TableElement::PrimaryKey(_) | TableElement::Unknown(_))
            }
            TableChange::ReplaceColumn { old, definition, .. } => {
                let is_renamed = !old.eq_ignore_ascii_case(&definition.name);
                is_renamed && (self.has_one_definition || is_searched(old) || is_searched(&definition.name))
            }
            TableChange::DropColumn { name, .. } => is_searched(name),
            TableChange::RenameColumn { old, new, .. } => {
                self.has_one_definition || is_searched(old) || is_searched(new)
            }
            TableChange::DropPrimaryKey
            | TableChange::RenameTable(_)
            | TableChange::Rows(_)
            | TableChange::Versioning(_)
            | TableChange::Unknown(_) => true,
            TableChange::SetDefault { .. }
            | TableChange::DropKey(_)
            | TableChange::DropForeignKey(_)
            | TableChange::DropConstraint(_)
            | TableChange::RenameKey { .. }
            | TableChange::ConvertCharset(_)
            | TableChange::Options(_)
            | TableChange::Other(_) => false,
        }
    }

    /// Returns whether the statement changes rows of the table.
    fn is_row_statement(&self, query: &Query<'_>) -> bool {
        if !is_row_statement(query.sql) {
            return false;
        }
        match classify_statement(query.sql) {
            // Functions, and other statements whose tables are not found.
            StatementKind::Tables(tables) if tables.is_empty() => true,
            StatementKind::Tables(tables) => {
                tables.iter().any(|named| self.is_referenced(named, query.database))
            }
            _ => false,
        }
    }
}

/// Returns whether two names are the same, also on a server whose names have no case.
fn is_same(name: &[u8], other: &[u8]) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// Returns whether a statement may contain a name. A quotation mark in the name is doubled in a quoted name.
fn may_contain(sql: &[u8], name: &[u8]) -> bool {
    let is_part = |part: &[u8]| part.eq_ignore_ascii_case(name);
    !name.is_empty() && (name.contains(&b'`') || name.contains(&b'"') || sql.windows(name.len()).any(is_part))
}

#[cfg(test)]
mod tests {
    use binlog::Flavour;
    use binlog::events::{Query, StatusVars};

    use super::SearchedTable;
    use crate::row_condition::RowCondition;

    #[test]
    fn statements_that_can_hide_changes() {
        check("rename table orders to orders_old", true);
        check("rename table `a` to shop.`orders`", true);
        check("RENAME TABLE other.orders TO other.old", false);
        check("alter table a rename to orders", true);
        check("truncate orders", true);
        check("drop table if exists a, orders", true);
        check("drop database shop", true);
        check("drop database other", false);
        check("create table orders (id int)", true);
        check("create table orders_old like orders", false);
        check("update orders set status = 'x'", true);
        check("with c as (select 1) delete from orders", true);
        check("with c as (select 1 x) update other join c join orders set x = 1", true);
        check("with orders as (select 1 x) delete from other where x in (select x from orders)", false);
        check("/*! insert into orders values (1) */", true);
        check("/*M! insert into orders values (1) */", true);
        check("/*!80000 truncate orders */", true);
        check("/*!40000 DROP DATABASE IF EXISTS shop*/", true);
        check("SELECT `d`.`f`()", true);
        check("analyze delete from orders", true);
        check("analyze table orders", false);
        check("create table orders select 1 id", true);
        check("/*!40000 ALTER TABLE `orders` DISABLE KEYS */", false);
        check("insert into orders_old select * from orders", false);
        check("create view v as select * from orders", false);
        check("create index i on orders (status)", false);
        check("alter table orders add index i (status), comment = 'x'", false);
        check("alter table orders drop partition p", true);
        check("alter table orders add primary key (a)", true);
        check("set statement max_statement_time=1 for update orders set status = 'x'", true);
        check("set statement max_statement_time=1 for rename table orders to orders_old", true);
        check("set statement max_statement_time=1 for update other set status = 'orders'", false);
        check("set @orders = 1", false);
        check("BEGIN", false);
    }

    #[test]
    fn changes_of_other_columns_matter_only_to_numbers() {
        for (sql, with_name, with_number) in [
            ("alter table orders rename column id to order_id", true, false),
            ("alter table orders change order_id id int", true, false),
            ("alter table orders rename column a to b", false, false),
            ("alter table orders drop column id", true, true),
            ("alter table orders drop column a", false, true),
            ("alter table orders add column a int", false, false),
            ("alter table orders add column a int first", false, true),
            ("alter table orders modify a int after b", false, true),
            ("alter table orders modify id bigint", false, false),
        ] {
            check_with("id=1", sql, with_name);
            check_with("@1=1", sql, with_number);
        }
    }

    #[test]
    fn names_of_one_definition_are_wrong_after_renames() {
        for sql in [
            "alter table orders rename column a to b, rename column b to a",
            "alter table orders change a b int",
        ] {
            for has_one_definition in [false, true] {
                check_named(has_one_definition, "id=1", sql, has_one_definition);
            }
        }
        check_named(true, "id=1", "alter table orders modify a bigint", false);
    }

    #[track_caller]
    fn check(sql: &str, expected: bool) {
        check_with("id=1", sql, expected);
        check_with("@1=1", sql, expected);
    }

    #[track_caller]
    fn check_with(condition: &str, sql: &str, expected: bool) {
        check_named(false, condition, sql, expected);
    }

    #[track_caller]
    fn check_named(has_one_definition: bool, condition: &str, sql: &str, expected: bool) {
        let identity = [RowCondition::new(condition).unwrap()];
        let table =
            SearchedTable { database: b"shop", table: b"orders", identity: &identity, has_one_definition };
        check_table(table, sql, expected);
    }

    #[test]
    fn names_with_quotation_marks_are_found() {
        let identity = [RowCondition::new("id=1").unwrap()];
        let table =
            SearchedTable { database: b"a`b", table: b"x`y", identity: &identity, has_one_definition: false };
        check_table(table, "truncate table `a``b`.`x``y`", true);
        check_table(table, "update `a``b`.`x``y` set v = 1", true);
        check_table(table, "drop database `a``b`", true);
        check_table(table, "truncate table `a``b`.`other`", false);
    }

    #[track_caller]
    fn check_table(table: SearchedTable<'_>, sql: &str, expected: bool) {
        let query = Query {
            thread_id: 1,
            exec_time: 0,
            error_code: 0,
            status: StatusVars { bytes: &[] },
            database: b"shop",
            sql: sql.as_bytes(),
        };
        assert_eq!(table.is_hidden_by(&query, 0, Flavour::MariaDb), expected, "{:?}: {sql}", table.identity);
    }
}

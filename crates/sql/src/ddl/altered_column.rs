//! Columns of a table after ALTER TABLE.

use crate::ddl::ddl_column::DdlColumn;
use crate::ddl::table_change::{ColumnPosition, ExistenceCheck, TableChange};
use crate::ddl::table_definition::TableElement;

/// A column of a table after ALTER TABLE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AlteredColumn<'c> {
    /// A column with its definition from before the statement, possibly with another name.
    Kept {
        /// Index of the column before the statement.
        source: usize,
        /// Name after the statement.
        name: &'c str,
    },
    /// A column with another definition.
    Replaced {
        /// Index of the column before the statement.
        source: usize,
        /// Definition after the statement.
        definition: &'c DdlColumn,
    },
    /// A new column.
    Added(&'c DdlColumn),
}

impl<'c> AlteredColumn<'c> {
    /// Returns the columns of a table after these changes, in order. `before` has the names of the columns before the
    /// statement. Returns `None` if a column does not exist.
    ///
    /// As MySQL does, drops and renames all columns by their names before the statement. Then moves and adds columns
    /// one by one; `AFTER` names a column by its name after the statement.
    pub fn of_changes(before: &[&'c str], changes: &'c [TableChange]) -> Option<Vec<Self>> {
        let mut columns = keep_columns(before, changes)?;
        for change in changes {
            match change {
                TableChange::ReplaceColumn { old, position, check, .. }
                    if *position != ColumnPosition::Same =>
                {
                    let Some(source) = find_checked(before, old, *check)? else { continue };
                    let at = columns.iter().position(|column| column.source() == Some(source))?;
                    let moved = columns.remove(at);
                    insert(&mut columns, moved, position)?;
                }
                TableChange::Add { element: TableElement::Column(definition), position, check } => {
                    let is_added =
                        |column: &Self| matches!(column, Self::Added(_)) && column.is_named(&definition.name);
                    let exists =
                        find_name(before, &definition.name).is_some() || columns.iter().any(is_added);
                    if *check == ExistenceCheck::Fail || !exists {
                        insert(&mut columns, Self::Added(definition), position)?;
                    }
                }
                _ => {}
            }
        }
        Some(columns)
    }

    /// Returns the name after the statement.
    pub fn name(&self) -> &'c str {
        match self {
            Self::Kept { name, .. } => name,
            Self::Replaced { definition, .. } | Self::Added(definition) => &definition.name,
        }
    }

    /// Returns the index of the column before the statement; `None` for a new column.
    pub const fn source(&self) -> Option<usize> {
        match self {
            Self::Kept { source, .. } | Self::Replaced { source, .. } => Some(*source),
            Self::Added(_) => None,
        }
    }

    /// Returns the definition in the statement; `None` if the column keeps its definition.
    pub const fn definition(&self) -> Option<&'c DdlColumn> {
        match self {
            Self::Kept { .. } => None,
            Self::Replaced { definition, .. } | Self::Added(definition) => Some(definition),
        }
    }

    fn is_named(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name)
    }
}

/// Returns the columns that the changes do not drop, with their new names and definitions, in the order before the
/// statement.
fn keep_columns<'c>(before: &[&'c str], changes: &'c [TableChange]) -> Option<Vec<AlteredColumn<'c>>> {
    let keep = |(source, name): (usize, &&'c str)| Some(AlteredColumn::Kept { source, name });
    let mut columns: Vec<Option<AlteredColumn<'c>>> = before.iter().enumerate().map(keep).collect();
    for change in changes {
        match change {
            TableChange::DropColumn { name, check } => {
                if let Some(source) = find_checked(before, name, *check)? {
                    columns[source] = None;
                }
            }
            TableChange::RenameColumn { old, new, check } => {
                if let Some(source) = find_checked(before, old, *check)? {
                    columns[source] = Some(AlteredColumn::Kept { source, name: new });
                }
            }
            TableChange::ReplaceColumn { old, definition, check, .. } => {
                if let Some(source) = find_checked(before, old, *check)? {
                    columns[source] = Some(AlteredColumn::Replaced { source, definition });
                }
            }
            _ => {}
        }
    }
    Some(columns.into_iter().flatten().collect())
}

fn find_name(names: &[&str], name: &str) -> Option<usize> {
    names.iter().position(|found| found.eq_ignore_ascii_case(name))
}

/// Returns the index of the column of a change. The inner `None` means that the change has no effect, the outer one that
/// the statement fails.
fn find_checked(names: &[&str], name: &str, check: ExistenceCheck) -> Option<Option<usize>> {
    let found = find_name(names, name);
    (found.is_some() || check == ExistenceCheck::Skip).then_some(found)
}

/// Inserts a column at this position; at the end without a position. Returns `None` if the column of AFTER does not
/// exist.
fn insert<'c>(
    columns: &mut Vec<AlteredColumn<'c>>,
    column: AlteredColumn<'c>,
    position: &ColumnPosition,
) -> Option<()> {
    let at = match position {
        ColumnPosition::Same => columns.len(),
        ColumnPosition::First => 0,
        ColumnPosition::After(name) => columns.iter().position(|found| found.is_named(name))? + 1,
    };
    columns.insert(at, column);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::AlteredColumn;
    use crate::SqlWords;
    use crate::ddl::DdlStatement;

    /// Checks the columns of a table (id, a, b, c) after an ALTER TABLE. `b<a` is the column that was called a.
    #[track_caller]
    fn check(clauses: &str, expected: &str) {
        const BEFORE: [&str; 4] = ["id", "a", "b", "c"];
        let words = SqlWords::parse(&format!("alter table t {clauses}"), 0).unwrap();
        let DdlStatement::AlterTable { changes, .. } = DdlStatement::parse(&words) else {
            panic!("{clauses}");
        };
        let shown = |column: &AlteredColumn<'_>| match column.source().map(|source| BEFORE[source]) {
            Some(source) if source == column.name() => source.to_owned(),
            source => format!("{}<{}", column.name(), source.unwrap_or_default()),
        };
        let columns = AlteredColumn::of_changes(&BEFORE, &changes);
        let found = columns.map_or_else(
            || "missing".to_owned(),
            |columns| columns.iter().map(shown).collect::<Vec<_>>().join(" "),
        );
        assert_eq!(found, expected, "{clauses}");
    }

    /// Compared with MySQL 9.7 and MariaDB 11.8 by the end-to-end tests.
    #[test]
    fn names_are_exchanged() {
        check("rename column a to b, rename column b to a", "id b<a a<b c");
        check("change a b int, change b a int", "id b<a a<b c");
        check("rename column a to b, rename column b to c, rename column c to a", "id b<a c<b a<c");
        check("rename column id to a, rename column a to id", "a<id id<a b c");
        check("change a b int, rename column b to a", "id b<a a<b c");
        check("change a b int, drop b", "id b<a c");
        check("drop a, add a int", "id b c a<");
        check("add a int first, drop column a", "a< id b c");
        check("rename column A to x, rename column b to A", "id x<a A<b c");
    }

    #[test]
    fn positions_refer_to_new_names() {
        check("add column b2 int after b, drop column b, change c b int", "id a b<c b2<");
        check("add x int after q, rename column a to q", "id q<a x< b c");
        check("change a x int after y, change b y int", "id y<b x<a c");
        check("modify a int after c, modify c int first", "c id b a");
        check("modify a int after b, modify b int after a", "id a b c");
        check("add x int first, add y int after x, modify id int after y", "x< y< id a b c");
        check("add x int after a, rename column a to b, rename column b to a", "id b<a a<b x< c");
        check("add x int after a, drop a", "missing");
        check("add x int after a, rename column a to b, rename column b to x2", "missing");
    }

    #[test]
    fn existing_and_missing_columns() {
        check("add column if not exists a int first, drop column if exists x", "id a b c");
        check("add column if not exists x int, add column if not exists x int first", "id a b c x<");
        check("modify column if exists x int first, modify if exists a int after c", "id b c a");
        check("change column if exists x y int, change if exists a z int", "id z<a b c");
        check("rename column if exists x to y, rename column if exists a to z", "id z<a b c");
        check("alter column if exists x set default 1", "id a b c");
        check("drop column x", "missing");
        check("change x y int", "missing");
        check("rename column x to y", "missing");
        check("add key (a), alter a set default 1", "id a b c");
    }
}

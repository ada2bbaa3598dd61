//! Searches for the pages that the applier needs to change a row.
//!
//! A search for a row descends an index to the page where the row is, or will be inserted. The search therefore also
//! reads the pages for inserts.

use std::sync::Arc;

use binlog::events::RowsKind;
use binlog::{DecodeError, Flavour, RowChange, RowField, RowImage, Table};
use sql::quote::quote_name;

use crate::literal;
use crate::replica_table::{IndexKind, ReplicaColumn, ReplicaIndex, ReplicaTable};

/// Changes of secondary indexes that InnoDB's change buffer accepts: `innodb_change_buffering`. These changes need no
/// page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeBuffering {
    /// Inserting index entries.
    pub inserts: bool,
    /// Marking index entries as deleted.
    pub deletes: bool,
}

impl ChangeBuffering {
    /// Parses the variable's value.
    pub fn from_setting(value: &str) -> Self {
        let is_one_of = |values: &[&str]| values.contains(&value);
        Self {
            inserts: is_one_of(&["inserts", "changes", "all"]),
            deletes: is_one_of(&["deletes", "changes", "all"]),
        }
    }
}

/// Index to search in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchTarget {
    /// Database and table, quoted.
    pub table: String,
    /// Index, quoted.
    pub index: String,
    /// Columns to search by, quoted, in index order.
    pub columns: Vec<String>,
}

/// Search that reads a page into memory.
#[derive(Clone, Debug)]
pub struct PageSearch<'p> {
    /// Index to search in.
    pub target: &'p Arc<SearchTarget>,
    /// SQL condition that identifies the entry.
    pub key: String,
}

/// Plan of the searches for changes of a table's rows.
#[derive(Clone, Debug)]
pub struct SearchPlan {
    flavour: Flavour,
    columns: Vec<ReplicaColumn>,
    searches: Vec<PlannedSearch>,
}

/// Search in one index.
#[derive(Clone, Debug)]
struct PlannedSearch {
    target: Arc<SearchTarget>,
    purpose: SearchPurpose,
    /// Columns to search by.
    parts: Vec<SearchColumn>,
    /// Columns of the log; an update needs this search only if it changes one of them.
    deciding_columns: Vec<usize>,
}

/// A column to search by.
#[derive(Clone, Copy, Debug)]
struct SearchColumn {
    /// Index in the log's table.
    in_log: usize,
    /// Index in the replica's table.
    in_replica: usize,
}

/// Values of a row to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SearchedValues {
    old: bool,
    new: bool,
}

/// Purpose of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchPurpose {
    /// Finds, changes or inserts the row.
    Row,
    /// Inserts an index entry, or marks one as deleted.
    Entry { inserts: bool, deletes: bool },
    /// Checks that the parent row exists.
    Parent,
}

/// Fields of a row, by column index of the log.
type RowFields<'d, 'a> = Vec<Option<RowField<'d, 'a>>>;

impl SearchPlan {
    /// Creates a plan for a table in a log of this flavour; `None` if the log's columns do not match the replica's, or
    /// the replica has no key to find rows by.
    pub fn new(
        log: &Table,
        flavour: Flavour,
        definition: &ReplicaTable,
        buffering: ChangeBuffering,
    ) -> Option<Self> {
        let matched = match_columns(log, definition)?;
        let clustered = definition.clustered()?;
        let known = |column: usize| {
            let at = matched.iter().position(|target| *target == column)?;
            let target = &definition.columns[column];
            let is_searchable = !target.is_virtual && literal::is_comparable(&log.columns[at], target);
            is_searchable.then_some(SearchColumn { in_log: at, in_replica: column })
        };
        let parts =
            |columns: &[usize]| columns.iter().map(|column| known(*column)).collect::<Option<Vec<_>>>();
        let mut searches = Vec::new();
        for index in &definition.indexes {
            let columns = search_columns(index, clustered);
            let Some(parts) = parts(&columns) else { continue };
            let names = columns.iter().map(|column| quote_name(&definition.columns[*column].name)).collect();
            let aim = SearchTarget {
                table: definition.name.clone(),
                index: quote_name(&index.name),
                columns: names,
            };
            // Each index entry contains the row's clustered key.
            let decisive = log_columns(&index.columns, &clustered.columns, &matched);
            searches.push(PlannedSearch {
                target: Arc::new(aim),
                purpose: purpose(index, clustered, buffering),
                parts,
                deciding_columns: decisive,
            });
        }
        for parent in &definition.foreign_keys {
            let Some(parts) = parts(&parent.columns) else { continue };
            let columns = parent.parent_columns.iter().map(|name| quote_name(name)).collect();
            let aim = SearchTarget { table: parent.table.clone(), index: quote_name(&parent.index), columns };
            let decisive = log_columns(&parent.columns, &[], &matched);
            searches.push(PlannedSearch {
                target: Arc::new(aim),
                purpose: SearchPurpose::Parent,
                parts,
                deciding_columns: decisive,
            });
        }
        Some(Self { flavour, columns: definition.columns.clone(), searches })
    }

    /// Passes the searches for a row change to `take`.
    ///
    /// # Errors
    ///
    /// Fails if a value of the row is corrupt.
    pub fn for_each_search<'p>(
        &'p self,
        kind: RowsKind,
        row: &RowChange<'_, '_>,
        take: &mut dyn FnMut(PageSearch<'p>),
    ) -> Result<(), DecodeError> {
        let before = row.before.as_ref().map(fields);
        let mut after = row.after.as_ref().map(fields);
        if let (Some(before), Some(after)) = (&before, &mut after) {
            // Columns missing in the after image keep their value.
            for (after, before) in after.iter_mut().zip(before) {
                *after = after.or(*before);
            }
        }
        for search in &self.searches {
            let is_changed = match (&before, &after) {
                (Some(before), Some(after)) => {
                    search.deciding_columns.iter().any(|at| is_changed(*at, before, after))
                }
                _ => true,
            };
            let needed = search.purpose.needed_values(kind, is_changed);
            let key = |is_needed: bool, fields: &Option<RowFields<'_, '_>>| match fields {
                Some(fields) if is_needed => self.key(search, fields),
                _ => Ok(None),
            };
            let (old, new) = (key(needed.old, &before)?, key(needed.new, &after)?);
            let new = new.filter(|new| old.as_ref() != Some(new));
            for key in [old, new].into_iter().flatten() {
                take(PageSearch { target: &search.target, key });
            }
        }
        Ok(())
    }

    /// Returns the condition of a search; `None` if the log lacks a value.
    fn key(&self, search: &PlannedSearch, fields: &RowFields<'_, '_>) -> Result<Option<String>, DecodeError> {
        let mut condition = String::new();
        for (part, name) in search.parts.iter().zip(&search.target.columns) {
            let Some(field) = fields.get(part.in_log).copied().flatten() else { return Ok(None) };
            if !condition.is_empty() {
                condition.push_str(" AND ");
            }
            condition.push_str(name);
            if field.bytes().is_some() {
                condition.push('=');
                let (value, column) = (field.value()?, &self.columns[part.in_replica]);
                if !literal::put_literal(&mut condition, value, field.column(), self.flavour, column) {
                    return Ok(None);
                }
            } else if search.purpose == SearchPurpose::Parent {
                // A foreign key with a NULL has no parent row.
                return Ok(None);
            } else {
                condition.push_str(" IS NULL");
            }
        }
        Ok(Some(condition))
    }
}

impl SearchPurpose {
    /// Returns the values to search for when a row changes. `is_changed` is true if an update changes a column of the
    /// index.
    const fn needed_values(self, kind: RowsKind, is_changed: bool) -> SearchedValues {
        let is_update = matches!(kind, RowsKind::Update | RowsKind::PartialUpdate);
        let (has_old, has_new) = match kind {
            RowsKind::Write => (false, true),
            RowsKind::Delete => (true, false),
            RowsKind::Update | RowsKind::PartialUpdate => (true, true),
        };
        match self {
            Self::Row => SearchedValues { old: has_old, new: has_new && is_changed },
            Self::Entry { inserts, deletes } => {
                let is_due = !is_update || is_changed;
                SearchedValues { old: has_old && is_due && deletes, new: has_new && is_due && inserts }
            }
            Self::Parent => SearchedValues { old: false, new: has_new && is_changed },
        }
    }
}

fn fields<'d, 'a>(image: &RowImage<'d, 'a>) -> RowFields<'d, 'a> {
    let mut fields = vec![None; image.table().columns.len()];
    for field in image.fields() {
        fields[field.index()] = Some(field);
    }
    fields
}

/// Returns whether a value has changed. A value missing from the before image may have changed.
fn is_changed(at: usize, before: &RowFields<'_, '_>, after: &RowFields<'_, '_>) -> bool {
    match (before.get(at).copied().flatten(), after.get(at).copied().flatten()) {
        (Some(before), Some(after)) => before.bytes() != after.bytes(),
        (None, after) => after.is_some(),
        (Some(_), None) => false,
    }
}

/// Returns the columns that identify an index entry. For an index that allows duplicates, this includes the clustered
/// key, which InnoDB appends to each entry.
fn search_columns(index: &ReplicaIndex, clustered: &ReplicaIndex) -> Vec<usize> {
    let mut columns = index.columns.clone();
    if index.kind == IndexKind::Plain {
        columns.extend(clustered.columns.iter().filter(|column| !index.columns.contains(column)));
    }
    columns
}

/// Returns the purpose of a search in this index. The change buffer never accepts unique indexes or indexes with
/// columns in descending order.
fn purpose(index: &ReplicaIndex, clustered: &ReplicaIndex, buffering: ChangeBuffering) -> SearchPurpose {
    let is_descending = index.is_descending || clustered.is_descending;
    let is_buffered = !index.is_unique && !is_descending;
    match index.kind {
        IndexKind::Clustered => SearchPurpose::Row,
        _ if is_buffered => SearchPurpose::Entry { inserts: !buffering.inserts, deletes: !buffering.deletes },
        _ => SearchPurpose::Entry { inserts: true, deletes: true },
    }
}

/// Returns the log's columns for these columns of the replica.
fn log_columns(columns: &[usize], more: &[usize], matched: &[usize]) -> Vec<usize> {
    let at = |column: &usize| matched.iter().position(|target| target == column);
    columns.iter().chain(more).filter_map(at).collect()
}

/// Returns the replica's column for each column of the log: by name, or else by position.
fn match_columns(log: &Table, definition: &ReplicaTable) -> Option<Vec<usize>> {
    let named = log.columns.iter().map(|column| {
        let name = column.name.as_deref()?;
        definition.columns.iter().position(|target| target.name.as_bytes().eq_ignore_ascii_case(name))
    });
    let by_index = || (0..log.columns.len()).collect();
    let is_of_size = log.columns.len() == definition.columns.len();
    named.collect::<Option<Vec<_>>>().or_else(|| is_of_size.then(by_index))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binlog::events::RowsKind;
    use binlog::{Flavour, RowDecoder};

    use super::{ChangeBuffering, SearchPlan};
    use crate::replica_table::{IndexKind, ReplicaColumn, ReplicaForeignKey, ReplicaIndex, ReplicaTable};
    use crate::test_tables::{image, rows, table};

    /// Returns a table with columns `a` to `e`: primary key (a), unique index u (b), index k (c), index kd (d, b),
    /// and a foreign key on e.
    fn definition() -> ReplicaTable {
        let column = |name: &str| ReplicaColumn {
            name: name.into(),
            data_type: "int".into(),
            ..ReplicaColumn::default()
        };
        let index = |name: &str, kind, columns: &[usize]| ReplicaIndex {
            name: name.into(),
            kind,
            columns: columns.to_vec(),
            is_unique: kind != IndexKind::Plain,
            is_descending: false,
        };
        ReplicaTable {
            name: "`d`.`t`".into(),
            columns: ["a", "b", "c", "d", "e"].map(column).into(),
            indexes: vec![
                index("PRIMARY", IndexKind::Clustered, &[0]),
                index("u", IndexKind::Unique, &[1]),
                index("k", IndexKind::Plain, &[2]),
                index("kd", IndexKind::Plain, &[3, 1]),
            ],
            foreign_keys: vec![ReplicaForeignKey {
                table: "`d`.`p`".into(),
                index: "PRIMARY".into(),
                parent_columns: vec!["id".into()],
                columns: vec![4],
            }],
        }
    }

    /// Rows have one digit per column, `n` for NULL; the images of an update are separated by `>`.
    fn check(buffering: &str, kind: RowsKind, change: &str, expected: &[&str]) {
        let values =
            |text: &str| text.chars().map(|one| one.to_digit(10).map(|digit| digit as i32)).collect();
        let images = change.split('>').map(|text| image(&Vec::from_iter::<Vec<_>>(values(text))));
        let bytes = images.collect::<Vec<_>>().concat();
        let event = rows(kind, 5, &[0xff], &bytes);
        let log = Arc::new(table(5));
        let plan =
            SearchPlan::new(&log, Flavour::MySql, &definition(), ChangeBuffering::from_setting(buffering))
                .unwrap();
        let decoder = RowDecoder::new(log, &event).unwrap();
        let mut found = Vec::new();
        for row in decoder.rows(&event) {
            let mut take = |search: super::PageSearch<'_>| {
                let table = search.target.table.trim_start_matches("`d`.").replace('`', "");
                found.push(format!("{table}.{}: {}", search.target.index, search.key).replace('`', ""));
            };
            plan.for_each_search(kind, &row.unwrap(), &mut take).unwrap();
        }
        assert_eq!(found, expected, "{kind:?} {change}");
    }

    #[test]
    fn updates_need_the_row_and_the_changed_indexes() {
        let update = RowsKind::Update;
        check("none", update, "12345>12345", &["t.PRIMARY: a=1"]);
        check("none", update, "12345>12945", &["t.PRIMARY: a=1", "t.k: c=3 AND a=1", "t.k: c=9 AND a=1"]);
        let moved = [
            "t.PRIMARY: a=1",
            "t.PRIMARY: a=9",
            "t.u: b=2",
            "t.k: c=3 AND a=1",
            "t.k: c=3 AND a=9",
            "t.kd: d=4 AND b=2 AND a=1",
            "t.kd: d=4 AND b=2 AND a=9",
        ];
        check("none", update, "12345>92345", &moved);
        check("none", update, "12345>12349", &["t.PRIMARY: a=1", "p.PRIMARY: id=9"]);
        check("none", update, "12345>1234n", &["t.PRIMARY: a=1"]);
    }

    #[test]
    fn inserts_and_deletes_need_all_indexes() {
        let entries = ["t.PRIMARY: a=1", "t.u: b=2", "t.k: c=3 AND a=1", "t.kd: d IS NULL AND b=2 AND a=1"];
        check("none", RowsKind::Delete, "123n5", &entries);
        check("none", RowsKind::Write, "123n5", &[&entries[..], &["p.PRIMARY: id=5"]].concat());
    }

    #[test]
    fn changes_in_the_change_buffer_need_no_page() {
        let unique = ["t.PRIMARY: a=1", "t.u: b=2"];
        check("all", RowsKind::Delete, "12345", &unique);
        check("deletes", RowsKind::Delete, "12345", &unique);
        check("inserts", RowsKind::Write, "1234n", &unique);
        check("changes", RowsKind::Update, "12345>12945", &["t.PRIMARY: a=1"]);
        check("inserts", RowsKind::Update, "12345>12945", &["t.PRIMARY: a=1", "t.k: c=3 AND a=1"]);
        let both = ["t.PRIMARY: a=1", "t.k: c=3 AND a=1", "t.k: c=9 AND a=1"];
        check("purges", RowsKind::Update, "12345>12945", &both);
    }

    #[test]
    fn other_tables_are_skipped() {
        let plan = |columns, definition: &ReplicaTable| {
            SearchPlan::new(&table(columns), Flavour::MySql, definition, ChangeBuffering::default()).is_some()
        };
        assert!(plan(5, &definition()));
        assert!(!plan(4, &definition()));
        let keyless = ReplicaTable { indexes: definition().indexes[2..].to_vec(), ..definition() };
        assert!(!plan(5, &keyless));
    }

    #[test]
    fn columns_missing_in_the_log_are_not_searched_for() {
        // Only the primary key and column c: binlog_row_image=MINIMAL logs even less.
        let bits = [0b101];
        let bytes = [image(&[Some(1), Some(3)]), image(&[Some(1), Some(9)])].concat();
        let event = rows(RowsKind::Update, 5, &bits, &bytes);
        let log = Arc::new(table(5));
        let plan = SearchPlan::new(&log, Flavour::MySql, &definition(), ChangeBuffering::default()).unwrap();
        let decoder = RowDecoder::new(log, &event).unwrap();
        let mut indexes = Vec::new();
        for row in decoder.rows(&event) {
            let mut take = |search: super::PageSearch<'_>| indexes.push(search.target.index.clone());
            plan.for_each_search(RowsKind::Update, &row.unwrap(), &mut take).unwrap();
        }
        assert_eq!(indexes, ["`PRIMARY`", "`k`", "`k`"]);
    }
}

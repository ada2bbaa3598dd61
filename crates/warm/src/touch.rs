//! Searches for the pages that the applier needs to change a row.
//!
//! A search for a row descends an index to the page where the row is, or will be inserted. So it reads the pages for
//! inserts, too.

use std::sync::Arc;

use binlog::events::RowsKind;
use binlog::{DecodeError, Field, Flavour, Image, Row, Table};

use crate::definition::{Column, Definition, Index, IndexKind, quoted};
use crate::literal;

/// Changes of secondary indexes that InnoDB's change buffer takes, and that need no page: `innodb_change_buffering`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffering {
    /// Inserting index entries.
    pub inserts: bool,
    /// Marking index entries as deleted.
    pub deletes: bool,
}

impl Buffering {
    /// Parses the variable's value.
    pub fn of(value: &str) -> Self {
        let is_one_of = |values: &[&str]| values.contains(&value);
        Self {
            inserts: is_one_of(&["inserts", "changes", "all"]),
            deletes: is_one_of(&["deletes", "changes", "all"]),
        }
    }
}

/// Index to search in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aim {
    /// Database and table, quoted.
    pub table: String,
    /// Index, quoted.
    pub index: String,
    /// Columns to search by, quoted, in index order.
    pub columns: Vec<String>,
}

/// Search that reads a page into memory.
#[derive(Clone, Debug)]
pub struct Touch<'p> {
    /// Index to search in.
    pub aim: &'p Arc<Aim>,
    /// SQL condition that identifies the entry.
    pub key: String,
}

/// Plan of the searches for changes of a table's rows.
#[derive(Clone, Debug)]
pub struct Plan {
    flavour: Flavour,
    columns: Vec<Column>,
    searches: Vec<Search>,
}

/// Search in one index.
#[derive(Clone, Debug)]
struct Search {
    aim: Arc<Aim>,
    purpose: Purpose,
    /// Columns to search by: their index in the log's table and in the replica's.
    parts: Vec<(usize, usize)>,
    /// Columns of the log; an update needs this search only if it changes one of them.
    decisive: Vec<usize>,
}

/// Purpose of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Finds, changes or inserts the row.
    Row,
    /// Inserts an index entry, or marks one as deleted.
    Entry { inserts: bool, deletes: bool },
    /// Checks that the parent row exists.
    Parent,
}

/// Fields of a row, by column index of the log.
type Fields<'d, 'a> = Vec<Option<Field<'d, 'a>>>;

impl Plan {
    /// Creates a plan for a table in a log of this flavour; `None` if the log's columns do not match the replica's, or
    /// the replica has no key to find rows by.
    pub fn new(log: &Table, flavour: Flavour, definition: &Definition, buffering: Buffering) -> Option<Self> {
        let matched = matched(log, definition)?;
        let clustered = definition.clustered()?;
        let known = |column: usize| {
            let at = matched.iter().position(|target| *target == column)?;
            let target = &definition.columns[column];
            (!target.is_virtual && literal::agree(&log.columns[at], target)).then_some((at, column))
        };
        let parts =
            |columns: &[usize]| columns.iter().map(|column| known(*column)).collect::<Option<Vec<_>>>();
        let mut searches = Vec::new();
        for index in &definition.indexes {
            let columns = searched(index, clustered);
            let Some(parts) = parts(&columns) else { continue };
            let names = columns.iter().map(|column| quoted(&definition.columns[*column].name)).collect();
            let aim = Aim { table: definition.name.clone(), index: quoted(&index.name), columns: names };
            // Each index entry contains the row's clustered key.
            let decisive = matched_all(&index.columns, &clustered.columns, &matched);
            searches.push(Search {
                aim: Arc::new(aim),
                purpose: purpose(index, clustered, buffering),
                parts,
                decisive,
            });
        }
        for parent in &definition.parents {
            let Some(parts) = parts(&parent.columns) else { continue };
            let columns = parent.names.iter().map(|name| quoted(name)).collect();
            let aim = Aim { table: parent.table.clone(), index: quoted(&parent.index), columns };
            let decisive = matched_all(&parent.columns, &[], &matched);
            searches.push(Search { aim: Arc::new(aim), purpose: Purpose::Parent, parts, decisive });
        }
        Some(Self { flavour, columns: definition.columns.clone(), searches })
    }

    /// Passes the searches for a row change to `take`.
    ///
    /// # Errors
    ///
    /// If a value of the row is corrupt.
    pub fn touches<'p>(
        &'p self,
        kind: RowsKind,
        row: &Row<'_, '_>,
        take: &mut dyn FnMut(Touch<'p>),
    ) -> Result<(), DecodeError> {
        let before = row.before.as_ref().map(fields);
        let mut after = row.after.as_ref().map(fields);
        if let (Some(before), Some(after)) = (&before, &mut after) {
            // Columns missing from the after image keep their value.
            for (after, before) in after.iter_mut().zip(before) {
                *after = after.or(*before);
            }
        }
        for search in &self.searches {
            let is_changed = match (&before, &after) {
                (Some(before), Some(after)) => {
                    search.decisive.iter().any(|at| is_changed(*at, before, after))
                }
                _ => true,
            };
            let (old, new) = search.purpose.needs(kind, is_changed);
            let key = |wanted: bool, fields: &Option<Fields<'_, '_>>| match fields {
                Some(fields) if wanted => self.key(search, fields),
                _ => Ok(None),
            };
            let (old, new) = (key(old, &before)?, key(new, &after)?);
            let new = new.filter(|new| old.as_ref() != Some(new));
            for key in [old, new].into_iter().flatten() {
                take(Touch { aim: &search.aim, key });
            }
        }
        Ok(())
    }

    /// Returns the condition of a search; `None` if the log lacks one of the values.
    fn key(&self, search: &Search, fields: &Fields<'_, '_>) -> Result<Option<String>, DecodeError> {
        let mut condition = String::new();
        for ((at, column), name) in search.parts.iter().zip(&search.aim.columns) {
            let Some(field) = fields.get(*at).copied().flatten() else { return Ok(None) };
            if !condition.is_empty() {
                condition.push_str(" AND ");
            }
            condition.push_str(name);
            if field.bytes().is_some() {
                condition.push('=');
                let (value, column) = (field.value()?, &self.columns[*column]);
                if !literal::put(&mut condition, value, field.column(), self.flavour, column) {
                    return Ok(None);
                }
            } else if search.purpose == Purpose::Parent {
                // A foreign key with a NULL has no parent row.
                return Ok(None);
            } else {
                condition.push_str(" IS NULL");
            }
        }
        Ok(Some(condition))
    }
}

impl Purpose {
    /// Returns whether to search for the old values, and for the new values.
    const fn needs(self, kind: RowsKind, is_changed: bool) -> (bool, bool) {
        let is_update = matches!(kind, RowsKind::Update | RowsKind::PartialUpdate);
        let (has_old, has_new) = match kind {
            RowsKind::Write => (false, true),
            RowsKind::Delete => (true, false),
            RowsKind::Update | RowsKind::PartialUpdate => (true, true),
        };
        match self {
            Self::Row => (has_old, has_new && is_changed),
            Self::Entry { inserts, deletes } => {
                let is_due = !is_update || is_changed;
                (has_old && is_due && deletes, has_new && is_due && inserts)
            }
            Self::Parent => (false, has_new && is_changed),
        }
    }
}

fn fields<'d, 'a>(image: &Image<'d, 'a>) -> Fields<'d, 'a> {
    let mut fields = vec![None; image.table().columns.len()];
    for field in image.fields() {
        fields[field.index()] = Some(field);
    }
    fields
}

/// Returns whether a value has changed. A value missing from the before image may have changed.
fn is_changed(at: usize, before: &Fields<'_, '_>, after: &Fields<'_, '_>) -> bool {
    match (before.get(at).copied().flatten(), after.get(at).copied().flatten()) {
        (Some(before), Some(after)) => before.bytes() != after.bytes(),
        (None, after) => after.is_some(),
        (Some(_), None) => false,
    }
}

/// Returns the columns that identify an index entry. For an index that allows duplicates, this includes the clustered
/// key, which InnoDB appends to each entry.
fn searched(index: &Index, clustered: &Index) -> Vec<usize> {
    let mut columns = index.columns.clone();
    if index.kind == IndexKind::Plain {
        columns.extend(clustered.columns.iter().filter(|column| !index.columns.contains(column)));
    }
    columns
}

/// Returns the purpose of a search in this index. The change buffer never takes unique indexes, nor indexes with
/// columns in descending order.
fn purpose(index: &Index, clustered: &Index, buffering: Buffering) -> Purpose {
    let is_descending = index.is_descending || clustered.is_descending;
    let is_buffered = !index.is_unique && !is_descending;
    match index.kind {
        IndexKind::Clustered => Purpose::Row,
        _ if is_buffered => Purpose::Entry { inserts: !buffering.inserts, deletes: !buffering.deletes },
        _ => Purpose::Entry { inserts: true, deletes: true },
    }
}

/// Returns the log's columns for these columns of the replica.
fn matched_all(columns: &[usize], more: &[usize], matched: &[usize]) -> Vec<usize> {
    let at = |column: &usize| matched.iter().position(|target| target == column);
    columns.iter().chain(more).filter_map(at).collect()
}

/// Returns the replica's column for each of the log's: by name, or else by position.
fn matched(log: &Table, definition: &Definition) -> Option<Vec<usize>> {
    let named = log.columns.iter().map(|column| {
        let name = column.name.as_deref()?;
        definition.columns.iter().position(|target| target.name.as_bytes().eq_ignore_ascii_case(name))
    });
    let by_place = || (0..log.columns.len()).collect();
    let is_of_size = log.columns.len() == definition.columns.len();
    named.collect::<Option<Vec<_>>>().or_else(|| is_of_size.then(by_place))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binlog::events::RowsKind;
    use binlog::{Flavour, RowDecoder};

    use super::{Buffering, Plan};
    use crate::definition::{Column, Definition, Index, IndexKind, Parent};
    use crate::sample::{image, rows, table};

    /// Table with columns `a` to `e`: primary key (a), unique index u (b), index k (c), index kd (d, b), and a foreign
    /// key on e.
    fn definition() -> Definition {
        let column = |name: &str| Column { name: name.into(), data_type: "int".into(), ..Column::default() };
        let index = |name: &str, kind, columns: &[usize]| Index {
            name: name.into(),
            kind,
            columns: columns.to_vec(),
            is_unique: kind != IndexKind::Plain,
            is_descending: false,
        };
        Definition {
            name: "`d`.`t`".into(),
            columns: ["a", "b", "c", "d", "e"].map(column).into(),
            indexes: vec![
                index("PRIMARY", IndexKind::Clustered, &[0]),
                index("u", IndexKind::Unique, &[1]),
                index("k", IndexKind::Plain, &[2]),
                index("kd", IndexKind::Plain, &[3, 1]),
            ],
            parents: vec![Parent {
                table: "`d`.`p`".into(),
                index: "PRIMARY".into(),
                names: vec!["id".into()],
                columns: vec![4],
            }],
        }
    }

    /// Rows have one digit per column, `n` for NULL; the images of an update are separated by `>`.
    fn check(buffering: &str, kind: RowsKind, change: &str, wanted: &[&str]) {
        let values =
            |text: &str| text.chars().map(|one| one.to_digit(10).map(|digit| digit as i32)).collect();
        let images = change.split('>').map(|text| image(&Vec::from_iter::<Vec<_>>(values(text))));
        let bytes = images.collect::<Vec<_>>().concat();
        let event = rows(kind, 5, &[0xff], &bytes);
        let log = Arc::new(table(5));
        let plan = Plan::new(&log, Flavour::MySql, &definition(), Buffering::of(buffering)).unwrap();
        let decoder = RowDecoder::new(log, &event).unwrap();
        let mut found = Vec::new();
        for row in decoder.rows(&event) {
            let mut take = |touch: super::Touch<'_>| {
                let table = touch.aim.table.trim_start_matches("`d`.").replace('`', "");
                found.push(format!("{table}.{}: {}", touch.aim.index, touch.key).replace('`', ""));
            };
            plan.touches(kind, &row.unwrap(), &mut take).unwrap();
        }
        assert_eq!(found, wanted, "{kind:?} {change}");
    }

    #[test]
    fn an_update_needs_the_row_and_the_indexes_that_change() {
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
    fn all_indexes_take_new_and_lose_old_rows() {
        let entries = ["t.PRIMARY: a=1", "t.u: b=2", "t.k: c=3 AND a=1", "t.kd: d IS NULL AND b=2 AND a=1"];
        check("none", RowsKind::Delete, "123n5", &entries);
        check("none", RowsKind::Write, "123n5", &[&entries[..], &["p.PRIMARY: id=5"]].concat());
    }

    #[test]
    fn what_the_change_buffer_takes_needs_no_page() {
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
    fn other_tables_are_left_alone() {
        let plan = |columns, definition: &Definition| {
            Plan::new(&table(columns), Flavour::MySql, definition, Buffering::default()).is_some()
        };
        assert!(plan(5, &definition()));
        assert!(!plan(4, &definition()));
        let keyless = Definition { indexes: definition().indexes[2..].to_vec(), ..definition() };
        assert!(!plan(5, &keyless));
    }

    #[test]
    fn what_the_log_does_not_have_is_not_searched_for() {
        // Only the primary key and column c: binlog_row_image=MINIMAL logs even less.
        let bits = [0b101];
        let bytes = [image(&[Some(1), Some(3)]), image(&[Some(1), Some(9)])].concat();
        let event = rows(RowsKind::Update, 5, &bits, &bytes);
        let log = Arc::new(table(5));
        let plan = Plan::new(&log, Flavour::MySql, &definition(), Buffering::default()).unwrap();
        let decoder = RowDecoder::new(log, &event).unwrap();
        let mut indexes = Vec::new();
        for row in decoder.rows(&event) {
            let mut take = |touch: super::Touch<'_>| indexes.push(touch.aim.index.clone());
            plan.touches(RowsKind::Update, &row.unwrap(), &mut take).unwrap();
        }
        assert_eq!(indexes, ["`PRIMARY`", "`k`", "`k`"]);
    }
}

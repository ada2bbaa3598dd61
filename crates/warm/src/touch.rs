//! What is touched for a change of a row: the pages that the applier will need for it.
//!
//! A search for a row goes down an index to the page where the row is, or, if it is not there yet, will be: that is how
//! the neighbours of a row to be inserted come into memory, too.

use std::sync::Arc;

use binlog::events::RowsKind;
use binlog::{DecodeError, Field, Flavour, Image, Row, Table};

use crate::definition::{Column, Definition, Index, IndexKind, quoted};
use crate::literal;

/// Which changes of secondary indexes wait in InnoDB's change buffer, and so need no page: `innodb_change_buffering`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffering {
    /// Entries that are added.
    pub inserts: bool,
    /// Entries that are marked as deleted.
    pub deletes: bool,
}

impl Buffering {
    /// The variable's value; a server without it buffers nothing.
    pub fn of(value: &str) -> Self {
        let is_one_of = |values: &[&str]| values.contains(&value);
        Self {
            inserts: is_one_of(&["inserts", "changes", "all"]),
            deletes: is_one_of(&["deletes", "changes", "all"]),
        }
    }
}

/// An index to search in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aim {
    /// Database and table, quoted.
    pub table: String,
    /// The index, quoted.
    pub index: String,
    /// The columns that are searched by, quoted, in the index's order.
    pub columns: Vec<String>,
}

/// A search that brings a page into memory.
#[derive(Clone, Debug)]
pub struct Touch<'p> {
    /// Where.
    pub aim: &'p Arc<Aim>,
    /// A condition that only what is searched for meets.
    pub key: String,
}

/// What is touched for the changes of a table's rows.
#[derive(Clone, Debug)]
pub struct Plan {
    flavour: Flavour,
    columns: Vec<Column>,
    searches: Vec<Search>,
}

#[derive(Clone, Debug)]
struct Search {
    aim: Arc<Aim>,
    purpose: Purpose,
    /// The log's columns by which it is searched, and the replica's.
    parts: Vec<(usize, usize)>,
    /// The log's columns without a change of which an update does not need it.
    decisive: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To find, change or add the row.
    Row,
    /// To add an entry, or to mark one as deleted.
    Entry { inserts: bool, deletes: bool },
    /// To see that a row is there.
    Parent,
}

/// What is known of a row, by the log's columns.
type Fields<'d, 'a> = Vec<Option<Field<'d, 'a>>>;

impl Plan {
    /// For rows of this table in a log of this flavour; `None` if the log's columns are not the replica's, or if the
    /// replica has no key to find rows by.
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
            // Each entry of an index has the row's key.
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

    /// What is touched for this change.
    ///
    /// # Errors
    ///
    /// When the row holds what is no value.
    pub fn touches<'p>(
        &'p self,
        kind: RowsKind,
        row: &Row<'_, '_>,
        take: &mut dyn FnMut(Touch<'p>),
    ) -> Result<(), DecodeError> {
        let before = row.before.as_ref().map(fields);
        let mut after = row.after.as_ref().map(fields);
        if let (Some(before), Some(after)) = (&before, &mut after) {
            // What an update leaves out stays.
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

    /// What to search for; `None` if the log does not have all of it.
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
                // A foreign key that is NULL refers to nothing.
                return Ok(None);
            } else {
                condition.push_str(" IS NULL");
            }
        }
        Ok(Some(condition))
    }
}

impl Purpose {
    /// Are the old and the new values searched for?
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

/// What is not known before the change may be another value.
fn is_changed(at: usize, before: &Fields<'_, '_>, after: &Fields<'_, '_>) -> bool {
    match (before.get(at).copied().flatten(), after.get(at).copied().flatten()) {
        (Some(before), Some(after)) => before.bytes() != after.bytes(),
        (None, after) => after.is_some(),
        (Some(_), None) => false,
    }
}

/// The columns that lead to one entry: of an index whose values may be there many times, with those of the row's key,
/// which InnoDB adds to it.
fn searched(index: &Index, clustered: &Index) -> Vec<usize> {
    let mut columns = index.columns.clone();
    if index.kind == IndexKind::Plain {
        columns.extend(clustered.columns.iter().filter(|column| !index.columns.contains(column)));
    }
    columns
}

/// Unique indexes are never buffered, nor those with columns in descending order.
fn purpose(index: &Index, clustered: &Index, buffering: Buffering) -> Purpose {
    let is_descending = index.is_descending || clustered.is_descending;
    let is_buffered = !index.is_unique && !is_descending;
    match index.kind {
        IndexKind::Clustered => Purpose::Row,
        _ if is_buffered => Purpose::Entry { inserts: !buffering.inserts, deletes: !buffering.deletes },
        _ => Purpose::Entry { inserts: true, deletes: true },
    }
}

/// The log's columns that are these of the replica's.
fn matched_all(columns: &[usize], more: &[usize], matched: &[usize]) -> Vec<usize> {
    let at = |column: &usize| matched.iter().position(|target| target == column);
    columns.iter().chain(more).filter_map(at).collect()
}

/// Which of the replica's columns each of the log's is: the one of its name, or else of its place.
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

    /// Columns `a` to `e`: the primary key (a), the unique index u (b), the index k (c), the index kd (d, b), and a
    /// foreign key of e.
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

    /// Rows by words, a digit a column, `n` for NULL; an update's with `>` between them.
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
        // The primary key and column c alone: binlog_row_image=MINIMAL writes less still.
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

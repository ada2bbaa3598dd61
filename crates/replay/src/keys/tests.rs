//! Tests of rows that conflict, and rows that do not.

use binlog::events::{ColumnSet, Rows, RowsKind};
use binlog::{Flavour, RowDecoder};
use proptest::prelude::{any, proptest};
use proptest::strategy::Strategy;
use proptest::{prop_assert, prop_assert_eq};

use super::{KeyReader, table_hash};
use crate::sample_table::{SampleTable, StoredValue, definition, image, int, text};
use crate::schedule::KeySet;
use crate::target_table_definition::{TargetTableDefinition, TargetTableName};

fn read(sample: &SampleTable, definition: &TargetTableDefinition, kind: RowsKind, rows: &[u8]) -> KeySet {
    let rows = sample.rows(kind, rows);
    let mut keys = KeySet::default();
    let reader = KeyReader::new(&sample.table(), Some(definition), Flavour::MySql);
    reader.read(&rows, &sample.decoder(&rows), &mut keys).unwrap();
    keys
}

fn do_conflict(a: &KeySet, b: &KeySet) -> bool {
    let has = |keys: &[u64], set: &KeySet| keys.iter().any(|key| set.exclusive.contains(key));
    has(&a.exclusive, b) || has(&a.shared, b) || has(&b.shared, a)
}

/// Checks whether inserts of these two rows conflict.
fn check(columns: &str, keys: &str, a: &[StoredValue], b: &[StoredValue], expected: bool) {
    let (sample, definition) = (SampleTable::new(columns), definition(keys));
    let insert = |row: &[StoredValue]| read(&sample, &definition, RowsKind::Write, &image(row));
    assert_eq!(do_conflict(&insert(a), &insert(b)), expected, "{columns}, {keys}: {a:?} {b:?}");
}

const CONFLICT: bool = true;
const NO_CONFLICT: bool = false;

#[test]
fn rows_with_equal_keys_conflict() {
    check("int int", "0", &[int(1), int(2)], &[int(1), int(3)], CONFLICT);
    check("int int", "0", &[int(1), int(2)], &[int(2), int(2)], NO_CONFLICT);
    check("int int", "0;1", &[int(1), int(2)], &[int(2), int(2)], CONFLICT);
    check("int int", "0;1", &[int(1), int(2)], &[int(2), int(1)], NO_CONFLICT);
    check("int int", "0 1", &[int(1), int(2)], &[int(1), int(3)], NO_CONFLICT);
    check("int int", "1 0", &[int(1), int(2)], &[int(1), int(2)], CONFLICT);
    check("int int", "0;1", &[int(1), None], &[int(2), None], NO_CONFLICT);
    check("int int int", "0;1 2", &[int(1), int(5), None], &[int(2), int(5), None], NO_CONFLICT);
}

#[test]
fn tables_without_distinguishable_rows_conflict_as_a_whole() {
    check("int int", "", &[int(1), int(1)], &[int(2), int(2)], CONFLICT);
    check("int int", "0;?", &[int(1), int(1)], &[int(2), int(2)], CONFLICT);
    check("int varchar:8", "0;1", &[int(1), text("a")], &[int(2), text("b")], CONFLICT);
    check("int varchar:8", "0", &[int(1), text("a")], &[int(2), text("b")], NO_CONFLICT);
    check("int int", "0;5", &[int(1), int(1)], &[int(2), int(2)], CONFLICT);
}

#[test]
fn texts_conflict_if_their_collation_treats_them_as_equal() {
    let texts = |collation: &str, prefix: &str, a: &str, b: &str, expected| {
        let columns = format!("int varchar:{collation}");
        check(&columns, &format!("0;1{prefix}"), &[int(1), text(a)], &[int(2), text(b)], expected);
    };
    let [ai_ci, bin, bin_0900, binary, utf16_bin] = ["255", "46", "309", "63", "55"];
    texts(ai_ci, "", "Straße", "strasse", CONFLICT);
    texts(ai_ci, "", "a", "b", NO_CONFLICT);
    texts(ai_ci, "", "a", "a ", NO_CONFLICT);
    // An unknown character conflicts with every text.
    texts(ai_ci, "", "😀", "b", CONFLICT);
    texts(ai_ci, "(2)", "äbc", "abd", CONFLICT);
    texts(ai_ci, "(3)", "äbc", "abd", NO_CONFLICT);
    texts(bin, "", "a", "a  ", CONFLICT);
    texts(bin, "", "a", "A", NO_CONFLICT);
    texts(bin, "(2)", "abc", "abd", CONFLICT);
    texts(bin_0900, "", "a", "a  ", NO_CONFLICT);
    texts(binary, "", "a", "a ", NO_CONFLICT);
    texts(utf16_bin, "", "\0a", "\0a\0 ", CONFLICT);
    texts(utf16_bin, "", "\0a", "\0b", NO_CONFLICT);
    texts(utf16_bin, "(1)", "\0a", "\0b", CONFLICT);
    check("char:255", "0", &[text("a")], &[text("A ")], CONFLICT);
    check("char:63", "0", &[text("a")], &[text("a\0")], CONFLICT);
}

#[test]
fn both_images_of_an_update_count() {
    let (sample, definition) = (SampleTable::new("int int"), definition("0;1"));
    let update = [image(&[int(1), int(10)]), image(&[int(2), int(10)])].concat();
    let update = read(&sample, &definition, RowsKind::Update, &update);
    // Two primary keys and one other key.
    assert_eq!(update.exclusive.len(), 3);
    for (row, expected) in
        [((1, 5), CONFLICT), ((2, 5), CONFLICT), ((3, 10), CONFLICT), ((3, 5), NO_CONFLICT)]
    {
        let delete = image(&[int(row.0), int(row.1)]);
        let delete = read(&sample, &definition, RowsKind::Delete, &delete);
        assert_eq!(do_conflict(&update, &delete), expected, "{row:?}");
    }
}

/// Images as with a `binlog_row_image` that omits columns.
#[test]
fn columns_omitted_in_an_update_keep_their_values() {
    let sample = SampleTable::new("int int");
    let check = |keys: &str, expected: &[usize]| {
        let bytes = [vec![0, 1, 0, 0, 0], vec![0, 9, 0, 0, 0]].concat();
        let rows = Rows {
            columns: ColumnSet { bits: &[1] },
            columns_after: Some(ColumnSet { bits: &[2] }),
            ..sample.rows(RowsKind::Update, &bytes)
        };
        let reader = KeyReader::new(&sample.table(), Some(&definition(keys)), Flavour::MySql);
        let mut keys = KeySet::default();
        let decoder = RowDecoder::new(sample.table(), &rows).unwrap();
        reader.read(&rows, &decoder, &mut keys).unwrap();
        let is_whole = keys.exclusive.contains(&reader.table);
        assert_eq!([keys.exclusive.len(), usize::from(is_whole)], expected);
    };
    check("0", &[1, 0]);
    check("0 1", &[1, 1]); // The second column before is unknown.
}

#[test]
fn changes_conflict_across_foreign_keys() {
    let name =
        |table: &str| TargetTableName { database: b"d".as_slice().into(), table: table.as_bytes().into() };
    let sample = SampleTable::new("int");
    let keys = |table: &str, parents: &[&str], descendants: &[&str], row: i32| {
        let mut definition = definition("0");
        definition.name = name(table);
        definition.foreign_keys.parents = parents.iter().map(|table| name(table)).collect();
        definition.foreign_keys.descendants = descendants.iter().map(|table| name(table)).collect();
        read(&sample, &definition, RowsKind::Write, &image(&[int(row)]))
    };
    let parent = |row| keys("p", &[], &["c", "g"], row);
    let child = |row| keys("c", &["p"], &["g"], row);
    let grandchild = |row| keys("g", &["c"], &[], row);
    let sibling = |row| keys("s", &["p"], &[], row);
    assert!(
        do_conflict(&parent(1), &child(2))
            && do_conflict(&parent(1), &grandchild(2))
            && do_conflict(&parent(1), &parent(2))
    );
    assert!(do_conflict(&child(1), &grandchild(2)) && do_conflict(&parent(1), &keys("p", &[], &["s"], 2)));
    assert!(!do_conflict(&grandchild(1), &grandchild(2)) && do_conflict(&grandchild(1), &grandchild(1)));
    assert!(!do_conflict(&sibling(1), &sibling(2)) && !do_conflict(&sibling(1), &child(2)));
}

#[test]
fn tables_are_known_by_their_target_names() {
    let (sample, mut one) = (SampleTable::new("int"), definition("0"));
    let other = definition("0");
    one.name = TargetTableName { database: b"other".as_slice().into(), table: b"t".as_slice().into() };
    let keys = |definition| read(&sample, definition, RowsKind::Write, &image(&[int(1)]));
    assert!(!do_conflict(&keys(&one), &keys(&other)));
    let reader = KeyReader::new(&sample.table(), None, Flavour::MySql);
    assert_eq!((reader.is_by_row(), reader.changed), (false, vec![table_hash(&other.name)]));
}

/// Texts that often are equal except for case and accents.
fn word() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(vec!['a', 'A', 'á', 'b', 'ß', 's', ' ']), 0..3)
        .prop_map(|letters| letters.into_iter().collect())
}

/// Returns the form in which equal words are the same.
fn folded(word: &str) -> String {
    word.to_lowercase().replace('á', "a").replace('ß', "ss")
}

proptest! {
    #[test]
    fn rows_conflict_if_and_only_if_a_key_is_equal(
        (a, b) in ((0..4_i32, word(), word()), (0..4_i32, word(), word())),
        nulls in any::<[bool; 2]>(),
    ) {
        let (sample, definition) = (SampleTable::new("int varchar:255 varchar:46"), definition("0;1;2"));
        let row = |(id, first, second): &(i32, String, String), is_null: bool| {
            let second = if is_null { None } else { text(second) };
            read(&sample, &definition, RowsKind::Write, &image(&[int(*id), text(first), second]))
        };
        let equal = a.0 == b.0
            || folded(&a.1) == folded(&b.1)
            || nulls == [false; 2] && a.2.trim_end_matches(' ') == b.2.trim_end_matches(' ');
        prop_assert_eq!(do_conflict(&row(&a, nulls[0]), &row(&b, nulls[1])), equal);
    }

    #[test]
    fn rows_of_any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let (sample, definition) = (SampleTable::new("int varchar:255 decimal double"), definition("0 1(2);2;3"));
        let rows = sample.rows(RowsKind::Update, &bytes);
        let reader = KeyReader::new(&sample.table(), Some(&definition), Flavour::MySql);
        let decoder = sample.decoder(&rows);
        let mut keys = KeySet::default();
        let result = reader.read(&rows, &decoder, &mut keys);
        prop_assert_eq!(result.is_ok(), decoder.count(&rows).is_ok());
        prop_assert!(keys.len() <= 2 + 6 * bytes.len());
    }
}

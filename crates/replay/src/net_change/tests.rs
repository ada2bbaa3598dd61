//! Comparison of the net change with the single changes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind};
use binlog::{
    ChecksumAlgorithm, Event, EventChecksum, EventFlags, EventFormat, EventOrigin, Flavour, RawEvent,
    RowDecoder, TableRegistry,
};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use proptest::prop_assert_eq;
use proptest::strategy::Strategy;

use super::{FoldRefusal, NetChangeError, NetChanges, NetRows, NetRowsForm};
use crate::sample_table::{SampleTable, StoredValue, definition, image, int, text};
use crate::target_table_definition::{ForeignKeys, StorageEngine, TargetTableDefinition, UniqueKey};

pub(super) const ORIGIN: EventOrigin = EventOrigin { timestamp: 1, server_id: 2, flags: EventFlags(0) };

pub(super) fn format() -> EventFormat {
    let (server_version, post_header_sizes) = (b"9.7.4".to_vec(), Vec::new());
    let checksum = ChecksumAlgorithm::Off;
    EventFormat { server_version, post_header_sizes, checksum, flavour: Flavour::MySql }
}

fn write(net: &NetChanges, rows_size_max: usize) -> (Vec<u8>, NetRows) {
    let mut out = Vec::new();
    let rows = net.write(&NetRowsForm { origin: ORIGIN, format: format(), rows_size_max }, &mut out).unwrap();
    (out, rows)
}

/// Calls `see` with each of several consecutive events.
pub(super) fn each(mut bytes: &[u8], mut see: impl FnMut(&Event<'_>)) {
    while !bytes.is_empty() {
        let size = u32::from_le_bytes(bytes[9..13].try_into().unwrap()) as usize;
        let (event, rest) = bytes.split_at(size);
        see(&RawEvent::new(event, EventChecksum::Absent).unwrap().decode(&format()).unwrap());
        bytes = rest;
    }
}

/// Folds rows with an INT key and an INT: `+1=5` inserts, `-1=5` deletes, `1=5>1=6` updates; `;` separates
/// transactions.
fn take(
    net: &mut NetChanges,
    sample: &SampleTable,
    definition: &TargetTableDefinition,
    script: &str,
) -> Result<(), NetChangeError> {
    for transaction in script.split(';') {
        net.add_map(&sample.map(), Some(definition))?;
        for word in transaction.split_whitespace() {
            let (kind, images) = match word.split_at(1) {
                ("+", row) => (RowsKind::Write, row_of(row)),
                ("-", row) => (RowsKind::Delete, row_of(row)),
                _ => {
                    let (before, after) = word.split_once('>').unwrap();
                    (RowsKind::Update, [row_of(before), row_of(after)].concat())
                }
            };
            net.rows(&sample.rows(kind, &images))?;
        }
        net.commit_transaction();
    }
    Ok(())
}

fn row_of(text: &str) -> Vec<u8> {
    let (key, value) = text.split_once('=').unwrap();
    image(&[int(key.parse().unwrap()), int(value.parse().unwrap())])
}

/// Returns the events of [`write`] in the notation of [`take`]; `|` follows each event, `.` the end of a statement.
fn shown(bytes: &[u8]) -> String {
    let mut shown = String::new();
    let mut tables = TableRegistry::new();
    each(bytes, |event| match event {
        Event::TableMap(map) => drop(tables.register(map).unwrap()),
        event => {
            let rows = event.rows().unwrap();
            let number = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().unwrap());
            for row in tables.decoder(rows).unwrap().rows(rows) {
                let images: Vec<String> = row
                    .unwrap()
                    .images()
                    .map(|image| {
                        let fields: Vec<String> =
                            image.fields().map(|field| number(field.bytes().unwrap()).to_string()).collect();
                        fields.join("=")
                    })
                    .collect();
                let sign = match rows.kind {
                    RowsKind::Write => "+",
                    RowsKind::Delete => "-",
                    _ => "",
                };
                write!(shown, "{sign}{} ", images.join(">")).unwrap();
            }
            shown.push(if rows.flags.contains(RowsFlags::STATEMENT_END) { '.' } else { '|' });
        }
    });
    shown
}

fn check(script: &str, expected: &str) {
    let (sample, definition) = (SampleTable::new("int int"), definition("0"));
    let mut net = NetChanges::new(Flavour::MySql);
    take(&mut net, &sample, &definition, script).unwrap();
    assert_eq!(shown(&write(&net, 1000).0), expected, "{script}");
}

#[test]
fn changes_of_a_row_become_one() {
    check("+1=5", "+1=5 .");
    check("+1=5 1=5>1=6; 1=6>1=7", "+1=7 .");
    check("+1=5; -1=5", "");
    check("-1=5; +1=6", "1=5>1=6 .");
    check("-1=5; +1=5", "");
    check("1=5>1=6; 1=6>1=7", "1=5>1=7 .");
    check("1=5>1=6 1=6>1=5", "");
    check("1=5>1=6; -1=6", "-1=5 .");
    check("-1=5; +1=6; -1=6", "-1=5 .");
    check("+1=5; -1=5; +1=6", "+1=6 .");
    check("1=5>2=5", "-1=5 |+2=5 .");
    check("1=5>2=5; 2=5>3=6; 3=6>1=7", "1=5>1=7 .");
    check("2=0>3=0 1=0>2=0", "-1=0 |2=0>2=0 |+3=0 .".replace("2=0>2=0 |", "").as_str());
    check("+1=1 +2=2 -3=3 4=4>4=5; 5=5>5=6", "-3=3 |4=4>4=5 5=5>5=6 |+1=1 +2=2 .");
    check("", "");
}

#[test]
fn rows_that_differ_from_earlier_results_are_refused() {
    let (sample, definition) = (SampleTable::new("int int"), definition("0"));
    for script in ["+1=5; +1=6", "-1=5; -1=5", "-1=5; 1=5>1=6", "+1=5 2=5>1=5", "2=2>1=1 2=2>3=3"] {
        let mut net = NetChanges::new(Flavour::MySql);
        let result = take(&mut net, &sample, &definition, script);
        assert_eq!(result, Err(NetChangeError::Refused(FoldRefusal::Unexplained)), "{script}");
    }
}

#[test]
fn a_transaction_can_be_taken_back() {
    let (sample, definition) = (SampleTable::new("int int"), definition("0"));
    let mut net = NetChanges::new(Flavour::MySql);
    take(&mut net, &sample, &definition, "+1=5 2=5>2=6").unwrap();
    let (before, size) = (write(&net, 1000), net.size());
    let result = take(&mut net, &sample, &definition, "1=5>1=6 -2=6 +3=7 1=6>4=6 +2=2 +5=5 -9=9 -9=9");
    assert!(result.is_err());
    net.undo();
    assert_eq!((write(&net, 1000), net.size()), (before, size));
    take(&mut net, &sample, &definition, "1=5>1=6 -2=6 +3=7").unwrap();
    assert_eq!(shown(&write(&net, 1000).0), "-2=5 |+1=6 +3=7 .");
    net.clear();
    assert_eq!((write(&net, 1000).0.len(), net.size()), (0, 0));
}

#[test]
fn highest_auto_increment_is_inserted_even_if_deleted() {
    let (sample, mut definition) = (SampleTable::new("int int"), definition("0"));
    definition.auto_increment = Some(0);
    let check = |script: &str, expected: &str| {
        let mut net = NetChanges::new(Flavour::MySql);
        take(&mut net, &sample, &definition, script).unwrap();
        assert_eq!(shown(&write(&net, 1000).0), expected, "{script}");
    };
    check("+8=1 +9=2; -8=1 -9=2", "+9=2 |-9=2 .");
    check("+8=1 +9=2; -8=1", "+9=2 .");
    check("+8=1 +9=2; 9=2>9=3 -8=1 -9=3; +5=5", "+5=5 +9=2 |-9=2 .");
    check("-9=1; +9=2; -9=2", "-9=1 |+9=2 |-9=2 .");
    check("-9=1; +9=2", "-9=1 |+9=2 .");
    check("-9=1 -8=1; +8=1 +9=1", "-9=1 |+9=1 .");
    check("9=1>9=2 +8=1", "9=1>9=2 |+8=1 .");
    check("5=5>9=5; -9=5", "-5=5 |+9=5 |-9=5 .");
    check("+9=1; -9=1; +9=2", "+9=2 .");
    // Changes that were taken back do not count.
    let mut net = NetChanges::new(Flavour::MySql);
    take(&mut net, &sample, &definition, "+3=1; -3=1").unwrap();
    take(&mut net, &sample, &definition, "+9=1 -9=1 -9=1").unwrap_err();
    net.undo();
    assert_eq!(shown(&write(&net, 1000).0), "+3=1 |-3=1 .");
}

#[test]
fn events_are_of_bounded_size() {
    let (sample, definition) = (SampleTable::new("int int"), definition("0"));
    let mut net = NetChanges::new(Flavour::MySql);
    take(&mut net, &sample, &definition, "+1=1 +2=2 +3=3 4=4>4=5 6=6>6=7").unwrap();
    assert_eq!(shown(&write(&net, 18).0), "4=4>4=5 |6=6>6=7 |+1=1 +2=2 |+3=3 .");
    assert_eq!(shown(&write(&net, 0).0), "4=4>4=5 |6=6>6=7 |+1=1 |+2=2 |+3=3 .");
}

#[test]
fn tables_that_cannot_be_folded_are_refused() {
    let map = |columns: &str, change: &dyn Fn(&mut TargetTableDefinition), keys: &str| {
        let mut definition = definition(keys);
        change(&mut definition);
        NetChanges::new(Flavour::MySql).add_map(&SampleTable::new(columns).map(), Some(&definition))
    };
    let check = |columns: &str,
                 keys: &str,
                 change: &dyn Fn(&mut TargetTableDefinition),
                 expected: Option<FoldRefusal>| {
        let refused = map(columns, change, keys).err();
        assert_eq!(refused, expected.map(NetChangeError::Refused), "{columns}, {keys}");
        assert!(expected.is_none_or(FoldRefusal::is_of_table));
    };
    let as_it_is = |_: &mut TargetTableDefinition| {};
    check("int int", "0", &as_it_is, None);
    check("int int", "1 0", &as_it_is, None);
    check("varchar:63 decimal double", "0 1 2", &as_it_is, None);
    check("varchar:309 varchar:46 char:46", "0 1 2", &as_it_is, None);
    check("int int", "", &as_it_is, Some(FoldRefusal::NoPrimaryKey));
    check("int int", "7", &as_it_is, Some(FoldRefusal::Columns));
    check("int int", "0;1", &as_it_is, Some(FoldRefusal::UniqueKey));
    check("int int", "0;?", &as_it_is, Some(FoldRefusal::UniqueKey));
    check("varchar:255", "0", &as_it_is, Some(FoldRefusal::InexactKey));
    check("varchar:8", "0", &as_it_is, Some(FoldRefusal::InexactKey));
    check("varchar:63", "0(3)", &as_it_is, Some(FoldRefusal::InexactKey));
    check("int", "0", &|definition| definition.engine = StorageEngine::Other, Some(FoldRefusal::Engine));
    let parent = ForeignKeys { parents: vec![definition("0").name], descendants: Vec::new() };
    check("int", "0", &|definition| definition.foreign_keys = parent.clone(), Some(FoldRefusal::ForeignKey));
    check("int int", "0", &|definition| definition.auto_increment = Some(0), None);
    check(
        "int int",
        "0",
        &|definition| definition.auto_increment = Some(1),
        Some(FoldRefusal::AutoIncrement),
    );
    check("double", "0", &|definition| definition.auto_increment = Some(0), Some(FoldRefusal::AutoIncrement));
    check(
        "int",
        "0",
        &|definition| definition.unique_keys.push(UniqueKey::Other),
        Some(FoldRefusal::UniqueKey),
    );
    let unknown = NetChanges::new(Flavour::MySql).add_map(&SampleTable::new("int").map(), None);
    assert_eq!(unknown, Err(NetChangeError::Refused(FoldRefusal::Undefined)));
}

#[test]
fn events_that_differ_are_refused() {
    let (sample, definition) = (SampleTable::new("int int"), definition("0"));
    let row = image(&[int(1), int(2)]);
    let both = [row.clone(), row.clone()].concat();
    let check = |rows: &Rows<'_>, expected: FoldRefusal| {
        let mut net = NetChanges::new(Flavour::MySql);
        take(&mut net, &sample, &definition, "+5=5").unwrap();
        net.add_map(&sample.map(), Some(&definition)).unwrap();
        assert_eq!(net.rows(rows), Err(NetChangeError::Refused(expected)));
        assert!(!expected.is_of_table());
        net.undo();
        assert_eq!(shown(&write(&net, 1000).0), "+5=5 .");
    };
    let insert = sample.rows(RowsKind::Write, &row);
    let update = sample.rows(RowsKind::Update, &both);
    let some = ColumnSet { bits: &[1] };
    check(&Rows { columns: some, ..insert }, FoldRefusal::PartialImage);
    check(&Rows { columns_after: Some(some), ..update }, FoldRefusal::PartialImage);
    check(&Rows { kind: RowsKind::PartialUpdate, ..update }, FoldRefusal::PartialImage);
    check(&Rows { extra: Some(&[0, 3, 0]), ..insert }, FoldRefusal::Extra);
    check(&Rows { flags: RowsFlags::NO_FOREIGN_KEY_CHECKS, ..insert }, FoldRefusal::Changed);
    check(&Rows { table_id: 8, ..insert }, FoldRefusal::Unnamed);
    let mut net = NetChanges::new(Flavour::MySql);
    take(&mut net, &sample, &definition, "+5=5").unwrap();
    let other = SampleTable::new("int bigint");
    assert_eq!(
        net.add_map(&other.map(), Some(&definition)),
        Err(NetChangeError::Refused(FoldRefusal::Changed))
    );
    // Table numbers are valid until the transaction's end.
    net.commit_transaction();
    assert_eq!(net.rows(&insert), Err(NetChangeError::Refused(FoldRefusal::Unnamed)));
}

/// A table: its rows by key, and its AUTO_INCREMENT counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NetModel {
    rows: BTreeMap<Vec<Vec<u8>>, Vec<u8>>,
    highest: i32,
}

/// A change of a row. The key has two columns, and may be written in several ways.
#[derive(Clone, Debug)]
struct RandomRowChange {
    key: (i32, u8),
    new_key: (i32, u8),
    spaces: usize,
    value: i32,
    moves: bool,
    ends: TransactionEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactionEnd {
    GoesOn,
    Kept,
    TakenBack,
}

fn changes() -> impl Strategy<Value = Vec<RandomRowChange>> {
    let key = || (0..4_i32, 0..2_u8);
    let change = (key(), key(), 0..2_usize, 0..3_i32, any::<bool>(), 0..6_u8);
    let change = change.prop_map(|(key, new_key, spaces, value, moves, end)| {
        let ends = match end {
            0 => TransactionEnd::Kept,
            1 => TransactionEnd::TakenBack,
            _ => TransactionEnd::GoesOn,
        };
        RandomRowChange { key, new_key, spaces, value, moves, ends }
    });
    vec(change, 0..60)
}

impl NetModel {
    fn key(key: (i32, u8)) -> Vec<Vec<u8>> {
        vec![key.0.to_le_bytes().to_vec(), vec![key.1]]
    }

    /// Returns a row whose key text ends in `spaces` spaces, which do not count.
    fn row(key: (i32, u8), spaces: usize, value: i32) -> Vec<u8> {
        let name: StoredValue = text(&format!("{}{}", key.1, " ".repeat(spaces)));
        image(&[name, int(value), int(key.0)])
    }

    /// Applies a change as far as it is possible. Returns the event's kind and rows.
    fn change(&mut self, change: &RandomRowChange) -> Option<(RowsKind, Vec<u8>)> {
        let RandomRowChange { key, new_key, spaces, value, moves, .. } = *change;
        let new_key = if moves { new_key } else { key };
        let row = Self::row(new_key, spaces, value);
        let Some(before) = self.rows.remove(&Self::key(key)) else {
            let row = Self::row(key, spaces, value);
            self.insert(key, row.clone());
            return Some((RowsKind::Write, row));
        };
        if value == 0 {
            return Some((RowsKind::Delete, before));
        }
        if self.rows.contains_key(&Self::key(new_key)) {
            self.rows.insert(Self::key(key), before); // The new key exists: no source could do that.
            return None;
        }
        match new_key != key {
            true => self.insert(new_key, row.clone()),
            false => drop(self.rows.insert(Self::key(new_key), row.clone())),
        }
        Some((RowsKind::Update, [before, row].concat()))
    }

    fn insert(&mut self, key: (i32, u8), row: Vec<u8>) {
        self.highest = self.highest.max(key.0);
        assert_eq!(self.rows.insert(Self::key(key), row), None);
    }

    /// Applies an event row by row.
    fn apply(&mut self, rows: &Rows<'_>, decoder: &RowDecoder) {
        for row in decoder.rows(rows) {
            let row = row.unwrap();
            if let Some(before) = row.before {
                let removed = self.rows.remove(&Self::key_in(&before));
                assert_eq!(removed.as_deref(), Some(before.bytes()));
            }
            if let Some(after) = row.after {
                let key = Self::key_in(&after);
                let number = i32::from_le_bytes(key[0].as_slice().try_into().unwrap());
                if rows.kind == RowsKind::Write {
                    self.highest = self.highest.max(number);
                }
                assert_eq!(self.rows.insert(key, after.bytes().to_vec()), None);
            }
        }
    }

    fn key_in(image: &binlog::RowImage<'_, '_>) -> Vec<Vec<u8>> {
        let bytes = |column| image.field(column).unwrap().bytes().unwrap().to_vec();
        let name = String::from_utf8(bytes(0)).unwrap();
        vec![bytes(2), vec![name.trim_end().parse().unwrap()]]
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 2000, ..Default::default() })]

    #[test]
    fn net_change_has_the_result_of_all_changes(
        (first, changes) in (changes(), changes()),
        rows_size_max in 1..100_usize,
    ) {
        let sample = SampleTable::new("varchar:46 int int");
        let mut definition = definition("2 0");
        definition.auto_increment = Some(2);
        let mut start = NetModel::default();
        for change in &first {
            start.change(change);
        }
        // Treat the existing rows as if they had not moved the counter.
        start.highest = 0;
        // Apply the changes one by one.
        let mut net = NetChanges::new(Flavour::MySql);
        let (mut kept, mut now) = (start.clone(), start.clone());
        net.add_map(&sample.map(), Some(&definition)).unwrap();
        for change in &changes {
            if let Some((kind, rows)) = now.change(change) {
                net.rows(&sample.rows(kind, &rows)).unwrap();
            }
            match change.ends {
                TransactionEnd::GoesOn => continue,
                TransactionEnd::Kept => { net.commit_transaction(); kept = now.clone() }
                TransactionEnd::TakenBack => { net.undo(); now = kept.clone() }
            }
            net.add_map(&sample.map(), Some(&definition)).unwrap();
        }
        net.commit_transaction();
        // Apply the net change.
        let (bytes, counts) = write(&net, rows_size_max);
        let mut tables = TableRegistry::new();
        let (mut target, mut ends, mut rows_seen) = (start, 0, 0);
        each(&bytes, |event| match event {
            Event::TableMap(map) => drop(tables.register(map).unwrap()),
            event => {
                let rows = event.rows().unwrap();
                let decoder = tables.decoder(rows).unwrap();
                assert!(rows.rows.len() <= rows_size_max || decoder.count(rows) == Ok(1));
                assert_eq!(ends, 0);
                ends += u32::from(rows.flags.contains(RowsFlags::STATEMENT_END));
                rows_seen += decoder.count(rows).unwrap();
                target.apply(rows, &decoder);
            }
        });
        prop_assert_eq!(ends, u32::from(!bytes.is_empty()));
        prop_assert_eq!(rows_seen, counts.deleted + counts.updated + counts.inserted + counts.counted);
        prop_assert_eq!(&target.rows, &now.rows);
        // AUTO_INCREMENT may be higher: an update of the key moves the counter here, but not always on the source.
        assert!(target.highest >= now.highest);
    }

    #[test]
    fn any_bytes_are_folded_or_refused(bytes: Vec<u8>, kind in 0..3_u8) {
        let (sample, definition) = (SampleTable::new("varchar:46 int decimal"), definition("0 2"));
        let kind = [RowsKind::Write, RowsKind::Delete, RowsKind::Update][usize::from(kind)];
        let mut net = NetChanges::new(Flavour::MySql);
        net.add_map(&sample.map(), Some(&definition)).unwrap();
        match net.rows(&sample.rows(kind, &bytes)) {
            Ok(()) => net.commit_transaction(),
            Err(_) => net.undo(),
        }
        let (written, _) = write(&net, 10);
        each(&written, |_| {});
    }
}

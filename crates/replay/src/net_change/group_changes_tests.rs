//! A commit group compared with its transactions one by one.

use std::collections::{BTreeMap, BTreeSet};

use binlog::events::{Intvar, IntvarKind, Rows, RowsFlags, RowsKind, Xid};
use binlog::{Event, EventChecksum, EventType, Flavour, NextPosition, RawEvent, RowDecoder, TableRegistry};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use proptest::strategy::Strategy;
use proptest::{prop_assert, prop_assert_eq};

use super::tests::{ORIGIN, each, format};
use super::{ChangesReport, FoldRefusal, GroupChanges, GroupChangesError, NetRows, NetRowsForm};
use crate::sample_table::{SampleTable, definition, image, int};
use crate::target_table_definition::{TargetTableDefinition, TargetTableName};

/// Tables `a` and `b` can be folded; `p` has another unique key, `q` has no definition.
const TABLES: [&str; 4] = ["a", "b", "p", "q"];

struct ChangesFixture {
    samples: Vec<SampleTable>,
    definitions: BTreeMap<TargetTableName, TargetTableDefinition>,
}

impl ChangesFixture {
    fn new() -> Self {
        let sample = SampleTable::new("int int");
        let samples = TABLES.iter().zip(20..).map(|(name, id)| sample.named(name, id)).collect();
        let define = |name: &str, keys: &str| {
            let name = TargetTableName { database: b"d".as_slice().into(), table: name.as_bytes().into() };
            (name.clone(), TargetTableDefinition { name, ..definition(keys) })
        };
        let definitions = [define("a", "0"), define("b", "0"), define("p", "0;1")].into();
        Self { samples, definitions }
    }

    fn changes(&self) -> GroupChanges {
        GroupChanges::new(Flavour::MySql, NetRowsForm { origin: ORIGIN, format: format(), rows_size_max: 30 })
    }

    fn take(&self, changes: &mut GroupChanges, events: &[u8]) -> Result<(), GroupChangesError> {
        let mut raws = Vec::new();
        let mut rest = events;
        while !rest.is_empty() {
            let size = u32::from_le_bytes(rest[9..13].try_into().unwrap()) as usize;
            raws.push(RawEvent::new(&rest[..size], EventChecksum::Absent).unwrap());
            rest = &rest[size..];
        }
        changes.take(&raws, &format(), &|map| {
            let name = TargetTableName { database: map.database.into(), table: map.table.into() };
            self.definitions.get(&name)
        })
    }
}

/// A change of a row of a table.
#[derive(Clone, Debug)]
struct RandomChange {
    table: usize,
    key: i32,
    value: i32,
    ends_statement: bool,
    ends_transaction: bool,
    ends_group: bool,
    flags: bool,
}

fn change() -> impl Strategy<Value = RandomChange> {
    (0..4_usize, 0..4_i32, 0..3_i32, any::<bool>(), 0..4_u8, 0..12_u8, 0..20_u8).prop_map(
        |(table, key, value, ends_statement, transaction, group, flags)| RandomChange {
            table,
            key,
            value,
            ends_statement,
            ends_transaction: transaction == 0,
            ends_group: group == 0,
            flags: flags == 0,
        },
    )
}

/// Rows of each table by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TableModel(BTreeMap<(usize, i32), Vec<u8>>);

impl TableModel {
    fn change(&mut self, change: &RandomChange) -> (RowsKind, Vec<u8>) {
        let position = (change.table, change.key);
        let row = image(&[int(change.key), int(change.value)]);
        match (self.0.remove(&position), change.value) {
            (None, _) => {
                self.0.insert(position, row.clone());
                (RowsKind::Write, row)
            }
            (Some(before), 0) => (RowsKind::Delete, before),
            (Some(before), _) => {
                self.0.insert(position, row.clone());
                (RowsKind::Update, [before, row].concat())
            }
        }
    }

    fn apply(&mut self, table: usize, rows: &Rows<'_>, decoder: &RowDecoder) {
        for row in decoder.rows(rows) {
            let row = row.unwrap();
            let position = |image: &binlog::RowImage<'_, '_>| {
                let key = image.field(0).unwrap().bytes().unwrap();
                (table, i32::from_le_bytes(key.try_into().unwrap()))
            };
            if let Some(before) = row.before {
                assert_eq!(self.0.remove(&position(&before)).as_deref(), Some(before.bytes()));
            }
            if let Some(after) = row.after {
                assert_eq!(self.0.insert(position(&after), after.bytes().to_vec()), None);
            }
        }
    }

    /// Applies events as a server would: each statement names its tables, and each statement ends.
    fn apply_all(&mut self, events: &[u8]) {
        let mut tables = TableRegistry::new();
        let mut named: BTreeMap<u64, usize> = BTreeMap::new();
        each(events, |event| match event {
            Event::TableMap(map) => {
                let table = tables.register(map).unwrap();
                let index = TABLES.iter().position(|name| name.as_bytes() == &*table.name).unwrap();
                named.insert(map.table_id, index);
            }
            event => {
                let rows = event.rows().unwrap();
                self.apply(named[&rows.table_id], rows, &tables.decoder(rows).unwrap());
                if rows.flags.contains(RowsFlags::STATEMENT_END) {
                    named.clear();
                }
            }
        });
        assert!(named.is_empty(), "a statement has no end");
    }
}

fn write(event: &Event<'_>, out: &mut Vec<u8>) {
    event.write(ORIGIN, NextPosition::Fixed(0), &format(), out).unwrap();
}

/// Writes a statement: maps of its tables, then the rows of each change.
fn write_statement(
    world: &ChangesFixture,
    rows: &[(usize, RowsKind, Vec<u8>)],
    flags: RowsFlags,
    out: &mut Vec<u8>,
) {
    let tables: BTreeSet<usize> = rows.iter().map(|(table, ..)| *table).collect();
    for table in tables {
        write(&Event::TableMap(world.samples[table].map()), out);
    }
    for (index, (table, kind, images)) in rows.iter().enumerate() {
        let end = if index + 1 == rows.len() { RowsFlags::STATEMENT_END } else { RowsFlags(0) };
        let rows = Rows { flags: RowsFlags(flags.0 | end.0), ..world.samples[*table].rows(*kind, images) };
        write(
            &match kind {
                RowsKind::Write => Event::WriteRows(rows),
                RowsKind::Delete => Event::DeleteRows(rows),
                _ => Event::UpdateRows(rows),
            },
            out,
        );
    }
}

/// Returns transactions as events, and whether each is the last of its group.
fn transactions(
    world: &ChangesFixture,
    model: &mut TableModel,
    changes: &[RandomChange],
) -> Vec<(Vec<u8>, bool)> {
    let (mut transactions, mut events, mut statement) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        let (kind, images) = model.change(change);
        statement.push((change.table, kind, images));
        if change.ends_statement || change.ends_transaction {
            let flags = if change.flags { RowsFlags::NO_FOREIGN_KEY_CHECKS } else { RowsFlags(0) };
            write_statement(world, &statement, flags, &mut events);
            statement.clear();
        }
        if change.ends_transaction {
            write(&Event::Xid(Xid { xid: 1 }), &mut events);
            transactions.push((std::mem::take(&mut events), change.ends_group));
        }
    }
    transactions
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 2000, ..Default::default() })]

    #[test]
    fn a_group_has_the_result_of_its_transactions(first in vec(change(), 0..20), changes in vec(change(), 0..60)) {
        let world = ChangesFixture::new();
        let mut model = TableModel::default();
        for change in &first {
            model.change(change);
        }
        let mut target = model.clone();
        let mut changes = changes;
        changes.extend(changes.last().cloned().map(|last| RandomChange { ends_transaction: true, ..last }));
        let transactions = transactions(&world, &mut model, &changes);
        let (mut group, mut total) = (world.changes(), 0);
        for (events, ends_group) in &transactions {
            world.take(&mut group, events).unwrap();
            if *ends_group {
                let mut out = Vec::new();
                total += group.write(&mut out).unwrap().plain_transactions;
                assert_eq!(group.size(), 0);
                target.apply_all(&out);
            }
        }
        let mut out = Vec::new();
        total += group.write(&mut out).unwrap().plain_transactions;
        target.apply_all(&out);
        prop_assert_eq!(target, model);
        prop_assert!(total <= transactions.len() as u64);
    }
}

/// Parses statements such as `a+1=5` or, with several tables, `a+1=5,p+1=5`; `;` separates transactions.
fn script(world: &ChangesFixture, script: &str) -> Vec<Vec<u8>> {
    let number = |text: &str| -> i32 { text.parse().unwrap() };
    let row = |text: &str| {
        let (key, value) = text.split_once('=').unwrap();
        image(&[int(number(key)), int(number(value))])
    };
    let transaction = |transaction: &str| {
        let mut events = Vec::new();
        for statement in transaction.split_whitespace() {
            let change = |word: &str| {
                let table = TABLES.iter().position(|name| word.starts_with(name)).unwrap();
                let kind = if word[1..].starts_with('+') { RowsKind::Write } else { RowsKind::Delete };
                (table, kind, row(&word[2..]))
            };
            let rows: Vec<_> = statement.split(',').map(change).collect();
            write_statement(world, &rows, RowsFlags(0), &mut events);
        }
        write(&Event::Xid(Xid { xid: 1 }), &mut events);
        events
    };
    script.split(';').map(transaction).collect()
}

fn check(transactions: &str, expected: ChangesReport) {
    let world = ChangesFixture::new();
    let mut changes = world.changes();
    for events in script(&world, transactions) {
        world.take(&mut changes, &events).unwrap();
    }
    assert_eq!(changes.write(&mut Vec::new()), Ok(expected), "{transactions}");
}

#[test]
fn changes_are_folded_or_kept() {
    let folded = |deleted, inserted| ChangesReport {
        net: NetRows { deleted, inserted, ..NetRows::default() },
        ..ChangesReport::default()
    };
    check("a+1=5; a+2=5 b+2=5; a-1=5", folded(0, 2));
    check("a-1=5 p+1=5; b+2=5 q+1=1", ChangesReport { plain_events: 2, ..folded(1, 1) });
    // One statement of foldable and other tables.
    let mixed = ChangesReport {
        plain_events: 2,
        plain_transactions: 1,
        refusal: Some(FoldRefusal::Mixed),
        ..folded(0, 2)
    };
    check("a+1=5; a+2=5,p+1=5; a+3=5", mixed);
    // The row differs from the result of earlier changes: only a server knows the outcome.
    let refusal = Some(FoldRefusal::Unexplained);
    let twice = ChangesReport { plain_events: 2, plain_transactions: 1, refusal, ..folded(0, 1) };
    check("a+1=5; b+2=2 b+2=2", twice);
    // A single such change can be folded.
    check("a+1=5; a+1=5", folded(0, 2));
}

#[test]
fn transactions_with_other_events_are_not_taken() {
    let world = ChangesFixture::new();
    let mut changes = world.changes();
    world.take(&mut changes, &script(&world, "a+1=1 p+1=1")[0]).unwrap();
    let size = changes.size();
    let mut events = script(&world, "a+2=2 p+2=2").remove(0);
    write(&Event::Intvar(Intvar { kind: IntvarKind::InsertId, value: 7 }), &mut events);
    assert_eq!(world.take(&mut changes, &events), Err(GroupChangesError::NotRows(EventType::Intvar)));
    assert_eq!(changes.size(), size);
    let mut torn = Vec::new();
    write(&Event::TableMap(world.samples[0].map()), &mut torn);
    write(&Event::WriteRows(world.samples[0].rows(RowsKind::Write, &[0, 1])), &mut torn);
    assert!(matches!(world.take(&mut changes, &torn), Err(GroupChangesError::Decode(_))));
    let mut out = Vec::new();
    assert_eq!(changes.write(&mut out).unwrap().net.inserted, 1);
}

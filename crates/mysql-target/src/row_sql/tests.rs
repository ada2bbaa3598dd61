//! Row changes that the columns of the target's table cannot hold.

use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
use binlog::{ChecksumAlgorithm, Event, EventFormat, EventOrigin, Flavour, NextPosition, Table};
use replay::{RowEvents, TargetFailure};

use super::target_table::TargetColumn;
use super::{
    ForeignKeyChecks, RowMatch, RowSessionSettings, RowStatement, StatementRunner, StatementWriter,
    TargetTable,
};
use crate::session_state::SessionState;

/// Target that accepts all statements.
struct AcceptingTarget(TargetTable);

impl StatementRunner for AcceptingTarget {
    fn load_table(&mut self, _: &Table) -> Result<TargetTable, TargetFailure> {
        Ok(self.0.clone())
    }

    fn check_table(&self, _: &TargetTable, _: RowsKind) -> Result<(), TargetFailure> {
        Ok(())
    }

    fn run(&mut self, _: RowStatement) -> Result<u64, TargetFailure> {
        Ok(1)
    }
}

/// Table of a log: types, metadata and optional metadata of its columns.
#[derive(Clone, Copy)]
struct LogColumns<'a> {
    types: &'a [u8],
    metadata: &'a [u8],
    optional: &'a [u8],
}

/// INT, and VARCHAR(10) with one collation.
const INT: LogColumns<'static> = LogColumns { types: &[3], metadata: &[], optional: &[1, 1, 0] };
const TEXT: LogColumns<'static> = LogColumns { types: &[15], metadata: &[10, 0], optional: &[3, 1, 45] };
const BYTES: LogColumns<'static> = LogColumns { optional: &[3, 1, 63], ..TEXT };

fn insert(columns: LogColumns<'_>, row: &[u8]) -> RowEvents {
    let format = EventFormat {
        server_version: b"9.7.4".to_vec(),
        post_header_sizes: vec![8; 42],
        checksum: ChecksumAlgorithm::Off,
        flavour: Flavour::MySql,
    };
    let LogColumns { types, metadata, optional } = columns;
    let map = TableMap {
        table_id: 7,
        flags: 1,
        database: b"d",
        table: b"t",
        column_types: types,
        metadata,
        nullable: &[0],
        optional,
        flavour: Flavour::MySql,
    };
    let rows = Rows {
        kind: RowsKind::Write,
        table_id: 7,
        flags: RowsFlags::STATEMENT_END,
        extra: Some(&[]),
        column_count: types.len() as u64,
        columns: ColumnSet { bits: &[(1 << types.len()) - 1] },
        columns_after: None,
        rows: row,
    };
    let mut bytes = Vec::new();
    for event in [Event::TableMap(map), Event::WriteRows(rows)] {
        event.write(EventOrigin::default(), NextPosition::Fixed(0), &format, &mut bytes).unwrap();
    }
    RowEvents { format: format.into(), bytes }
}

fn column(data_type: &str, charset: Option<&str>) -> TargetColumn {
    let charset = charset.map(str::to_owned);
    TargetColumn {
        raw_name: "a".into(),
        name: "`a`".into(),
        data_type: data_type.into(),
        charset,
        ..TargetColumn::default()
    }
}

fn refusal(rows: &RowEvents, column: TargetColumn) -> String {
    let table = TargetTable { name: "`d`.`t`".into(), columns: vec![column], ..TargetTable::default() };
    let mut writer = StatementWriter::new(Flavour::MySql, RowMatch::Key);
    writer.write(rows, &mut AcceptingTarget(table)).unwrap_err().message
}

#[test]
fn columns_of_the_target_must_hold_the_values() {
    let two = LogColumns { types: &[3, 3], ..INT };
    assert_eq!(
        refusal(&insert(two, &[0, 1, 0, 0, 0, 2, 0, 0, 0]), column("int", None)),
        "`d`.`t` has 2 columns in the log, but 1 on the target"
    );
    assert_eq!(
        refusal(&insert(INT, &[0, 1, 0, 0, 0]), column("varchar", Some("utf8mb4"))),
        "column `a` of `d`.`t` is int in the log, but varchar on the target"
    );
    assert_eq!(
        refusal(&insert(TEXT, b"\0\x01x"), column("int", None)),
        "column `a` of `d`.`t` is varchar in the log, but int on the target"
    );
    assert_eq!(
        refusal(&insert(BYTES, b"\0\x01x"), column("varchar", Some("utf8mb4"))),
        "column `a` of `d`.`t` holds bytes in the log, but utf8mb4 on the target"
    );
    assert_eq!(
        refusal(&insert(TEXT, b"\0\x01x"), column("varbinary", None)),
        "column `a` of `d`.`t` holds utf8mb4 in the log, but bytes on the target"
    );
    assert_eq!(
        refusal(
            &insert(INT, &[0, 0xff, 0xff, 0xff, 0xff]),
            TargetColumn { is_unsigned: true, ..column("int", None) }
        ),
        "`a` is -1 in the log, but UNSIGNED on the target"
    );
}

#[test]
fn checks_are_off_as_on_the_source() {
    let check = |flags, checks: u8, flags2| {
        let settings = RowSessionSettings::new(flags, ForeignKeyChecks::ByFlags, false);
        let context = settings.context_of(&SessionState::default());
        assert_eq!((context.check_constraint_checks, context.flags2), (Some(checks), Some(flags2)));
        assert_eq!(settings.checks_constraints(), checks == 1);
    };
    check(RowsFlags::STATEMENT_END, 1, 0);
    check(RowsFlags::RELAXED_UNIQUE_CHECKS, 1, 0x0800_0000);
    check(RowsFlags::NO_CHECK_CONSTRAINT_CHECKS, 0, 0x8000);
}

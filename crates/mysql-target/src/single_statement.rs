//! Row events of several statements as one statement: the server opens each table once.
//!
//! With `autocommit`, the server commits at the end of a statement of row events. So one `BINLOG` statement that also
//! saves progress is a whole transaction, without `START TRANSACTION`, `UPDATE` and `COMMIT`.

use std::collections::BTreeMap;

use binlog::events::RowsFlags;
use binlog::{EventType, HEADER_SIZE, RawEvent};
use replay::{ReplayProgress, RowEvents};

use crate::binlog_statement::end_run;
use crate::progress_event::{LOG_NAME_SIZE_MAX, PROGRESS_TABLE_ID, put_table_map, put_update};

/// Size of the table number in table maps and rows events.
const TABLE_ID_SIZE: usize = 6;

/// Returns events that make the same changes as one statement. `None` if the events must remain separate statements: if
/// their flags differ, or a table has two definitions, or a table is a system table, or the format is older than MySQL
/// 5.6.
pub(crate) fn unite(rows: &RowEvents) -> Option<Vec<u8>> {
    let UnitedEvents { maps, rows: mut united, flags } = UnitedEvents::of(rows)?;
    // Without rows, there is nothing to unite.
    flags?;
    end_run(&mut united, &rows.format);
    let mut out = Vec::with_capacity(rows.bytes.len());
    maps.values().for_each(|map| out.extend_from_slice(map));
    out.append(&mut united);
    Some(out)
}

/// Returns events that make the same changes as one statement, and save progress in a row of the progress table.
///
/// `None` in the cases of [`unite`]. Also if the name of the log is too long for the table: the server's error for
/// another statement says so.
pub(crate) fn unite_with_progress(
    rows: &RowEvents,
    progress: &ReplayProgress,
    stream: usize,
) -> Option<Vec<u8>> {
    if progress.position.as_ref().is_some_and(|position| position.log.len() > LOG_NAME_SIZE_MAX.into()) {
        return None;
    }
    let UnitedEvents { maps, rows: mut united, .. } = UnitedEvents::of(rows)?;
    let mut out = Vec::with_capacity(rows.bytes.len() + 512);
    maps.values().for_each(|map| out.extend_from_slice(map));
    put_table_map(&mut out, &rows.format).ok()?;
    out.append(&mut united);
    put_update(&mut out, progress, stream, &rows.format).ok()?;
    Some(out)
}

#[derive(Default)]
struct UnitedEvents<'a> {
    /// Table maps by table number.
    maps: BTreeMap<u64, &'a [u8]>,
    /// Rows events, of which none ends the statement.
    rows: Vec<u8>,
    /// Flags of all rows events, without the statement's end.
    flags: Option<u16>,
}

impl<'a> UnitedEvents<'a> {
    fn of(rows: &'a RowEvents) -> Option<Self> {
        // Rows events of version 1 have flags of other sizes.
        rows.format.post_header_size(EventType::UpdateRows).filter(|size| *size == 10)?;
        let mut united = Self::default();
        rows.events().try_for_each(|event| united.add(&event))?;
        Some(united)
    }

    fn add(&mut self, event: &RawEvent<'a>) -> Option<()> {
        let bytes = event.bytes();
        let table_id = read_table_id(bytes).filter(|id| *id != PROGRESS_TABLE_ID)?;
        match event.event_type() {
            // The server refuses a statement that changes system tables and other tables: error 1428.
            EventType::TableMap if read_database(bytes)?.eq_ignore_ascii_case(b"mysql") => None,
            EventType::TableMap => {
                let known = *self.maps.entry(table_id).or_insert(bytes);
                (known[HEADER_SIZE..] == bytes[HEADER_SIZE..]).then_some(())
            }
            EventType::WriteRows
            | EventType::UpdateRows
            | EventType::DeleteRows
            | EventType::PartialUpdateRows => {
                let flags_at = HEADER_SIZE + TABLE_ID_SIZE;
                let flags = u16::from_le_bytes(*bytes.get(flags_at..)?.first_chunk()?);
                let flags = flags & !RowsFlags::STATEMENT_END.0;
                let is_same = *self.flags.get_or_insert(flags) == flags;
                let start = self.rows.len();
                self.rows.extend_from_slice(bytes);
                self.rows[start + flags_at..start + flags_at + 2].copy_from_slice(&flags.to_le_bytes());
                is_same.then_some(())
            }
            _ => None,
        }
    }
}

fn read_table_id(event: &[u8]) -> Option<u64> {
    let bytes: &[u8; TABLE_ID_SIZE] = event.get(HEADER_SIZE..)?.first_chunk()?;
    let mut id = [0; 8];
    id[..TABLE_ID_SIZE].copy_from_slice(bytes);
    Some(u64::from_le_bytes(id))
}

/// Returns the database of a table map, which has two bytes of flags before the name and its size.
fn read_database(event: &[u8]) -> Option<&[u8]> {
    let (size, rest) = event.get(HEADER_SIZE + TABLE_ID_SIZE + 2..)?.split_first()?;
    rest.get(..usize::from(*size))
}

#[cfg(test)]
mod tests {
    use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
    use binlog::{
        ChecksumAlgorithm, Event, EventFlags, EventFormat, EventOrigin, Flavour, NextPosition, TableRegistry,
    };
    use replay::{ReplayProgress, RowEvents, SourcePosition};

    use super::{unite, unite_with_progress};

    const ORIGIN: EventOrigin = EventOrigin { timestamp: 1, server_id: 1, flags: EventFlags(0) };

    fn format() -> EventFormat {
        let (server_version, checksum) = (b"9.7.4".to_vec(), ChecksumAlgorithm::Off);
        let mut post_header_sizes = vec![8; 42];
        // Write_rows, Update_rows and Delete_rows of version 2.
        post_header_sizes[29..32].fill(10);
        EventFormat { server_version, post_header_sizes, checksum, flavour: Flavour::MySql }
    }

    /// Statements that insert one row each: number and name of a table, and the flags of the rows event. The database is
    /// `d` if the name has no other.
    fn statements(all: &[(u64, &str, RowsFlags)]) -> RowEvents {
        let format = format();
        let mut bytes = Vec::new();
        for (value, (table_id, table, flags)) in (0..).zip(all) {
            let (database, table) = table.split_once('.').unwrap_or(("d", table));
            let map = TableMap {
                table_id: *table_id,
                flags: 1,
                database: database.as_bytes(),
                table: table.as_bytes(),
                column_types: &[1],
                metadata: &[],
                nullable: &[0],
                optional: &[],
                flavour: Flavour::MySql,
            };
            let rows = Rows {
                kind: RowsKind::Write,
                table_id: *table_id,
                flags: RowsFlags(flags.0 | RowsFlags::STATEMENT_END.0),
                extra: Some(&[]),
                column_count: 1,
                columns: ColumnSet { bits: &[1] },
                columns_after: None,
                rows: &[0, value],
            };
            for event in [Event::TableMap(map), Event::WriteRows(rows)] {
                event.write(ORIGIN, NextPosition::Fixed(0), &format, &mut bytes).unwrap();
            }
        }
        RowEvents { format: format.into(), bytes }
    }

    fn progress() -> ReplayProgress {
        ReplayProgress {
            gtids: "00000000-0000-0000-0000-000000000001:1-7".parse().unwrap(),
            position: Some(SourcePosition { log: "b.1".into(), position: 99 }),
            beyond: Vec::new(),
            commits: Some(7),
        }
    }

    /// Returns a line for each event: the table, or the rows and the flags.
    fn lines(bytes: Vec<u8>) -> Vec<String> {
        let events = RowEvents { format: format().into(), bytes };
        let mut tables = TableRegistry::new();
        let mut lines = Vec::new();
        for event in events.events() {
            match event.decode(&events.format).unwrap() {
                Event::TableMap(map) => {
                    tables.register(&map).unwrap();
                    lines.push(String::from_utf8(map.table.to_vec()).unwrap());
                }
                event => {
                    let rows = event.rows().unwrap();
                    let decoder = tables.decoder(rows).unwrap();
                    let count = decoder.rows(rows).map(|row| row.map(drop)).collect::<Result<Vec<_>, _>>();
                    let size = rows.rows.len();
                    lines.push(format!("{} row, {size} bytes, flags {}", count.unwrap().len(), rows.flags.0));
                }
            }
        }
        lines
    }

    #[test]
    fn statements_become_one_that_saves_progress() {
        let none = RowsFlags(0);
        let rows = statements(&[(7, "a", none), (8, "b", none), (7, "a", none)]);
        let row = "1 row, 2 bytes, flags 0";
        // 5 bytes are the key; 1 byte has the NULL bits; then texts and numbers with their sizes.
        let saved = format!("1 row, {} bytes, flags 1", 5 + 1 + (4 + 40) + (2 + 3) + 8 + 4 + 8);
        let expected = ["a", "b", "progress", row, row, row, &saved];
        assert_eq!(lines(unite_with_progress(&rows, &progress(), 3).unwrap()), expected);
        let expected = ["a", "b", row, row, "1 row, 2 bytes, flags 1"];
        assert_eq!(lines(unite(&rows).unwrap()), expected);
    }

    #[test]
    fn statements_that_differ_stay_apart() {
        let (none, unchecked) = (RowsFlags(0), RowsFlags::NO_FOREIGN_KEY_CHECKS);
        let is_united = |all: &[(u64, &str, RowsFlags)]| unite(&statements(all)).is_some();
        assert!(is_united(&[(7, "a", unchecked), (8, "b", unchecked)]));
        assert!(!is_united(&[(7, "a", none), (8, "b", unchecked)]));
        assert!(!is_united(&[(7, "a", none), (7, "b", none)]));
    }

    #[test]
    fn statements_of_system_tables_stay_apart() {
        let check = |tables: [&str; 2], expected: bool| {
            let [first, second] = tables.map(|table| (u64::from(table.as_bytes()[0]), table, RowsFlags(0)));
            let rows = statements(&[first, second]);
            assert_eq!(unite(&rows).is_some(), expected, "{tables:?}");
            assert_eq!(unite_with_progress(&rows, &progress(), 1).is_some(), expected, "{tables:?}");
        };
        check(["a", "b"], true);
        check(["a", "mysql.time_zone"], false);
        check(["mysql.help_topic", "a"], false);
        check(["mysql.time_zone", "mysql.time_zone"], false);
        check(["mysqlx.time_zone", "a"], true);
        check(["a", "mysq.time_zone"], true);
    }
}

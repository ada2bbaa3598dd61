//! Logs written as text.

use binlog::events::{
    ColumnSet, GtidEvent, GtidLayout, PreviousGtids, Query, Rows, RowsFlags, RowsKind, StatusVars, TableMap,
    Xid,
};
use binlog::gtid::{GtidSet, GtidSetFormat, Uuid};
use binlog::{Event, EventOrigin, Framer, FramerOutput, MAGIC, NextPosition};

/// Traits of a log that are no content.
pub(crate) struct WriterTraits {
    pub(crate) server_id: u32,
    pub(crate) first_table_id: u64,
    pub(crate) time: u32,
}

/// Writes a log. Transactions are separated by `|`. Each starts with the number of its GTID, or with `-`; then
/// statements follow, separated by `;`:
///
/// | text | statement |
/// |---|---|
/// | `+t 1 2 / 3` | inserts rows of table `t`, by two events |
/// | `-t 1` | deletes a row |
/// | `~t 1>2` | updates a row |
/// | `+t:big 1` | inserts a row of a table with other column types |
/// | `rollback` | ends the transaction with ROLLBACK |
/// | `open` | begins the transaction, which has no end |
/// | anything else | a statement that commits implicitly |
///
/// `previous 1-3` instead of a transaction is the set of earlier GTIDs.
pub(crate) fn write_log(text: &str, traits: &WriterTraits) -> Vec<u8> {
    let sample = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/types.binlog")).unwrap();
    let (mut framer, mut log) = (Framer::new(), MAGIC.to_vec());
    let FramerOutput::Event(raw) = framer.next(&sample[MAGIC.len()..]).unwrap() else { panic!("no event") };
    log.extend_from_slice(raw.bytes());
    let format = framer.format().unwrap().clone();
    let mut writer = LogTextWriter { log, format, traits, table_id: traits.first_table_id };
    for transaction in text.split('|').map(str::trim).filter(|transaction| !transaction.is_empty()) {
        writer.put_transaction(transaction);
    }
    writer.log
}

struct LogTextWriter<'t> {
    log: Vec<u8>,
    format: binlog::EventFormat,
    traits: &'t WriterTraits,
    table_id: u64,
}

impl LogTextWriter<'_> {
    fn put(&mut self, event: &Event<'_>) {
        let WriterTraits { server_id, time, .. } = *self.traits;
        let origin = EventOrigin { timestamp: time, server_id, ..EventOrigin::default() };
        let start = self.log.len() as u64;
        event.write(origin, NextPosition::FromStart(start), &self.format, &mut self.log).unwrap();
    }

    fn put_transaction(&mut self, text: &str) {
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        if first == "previous" {
            let set = match rest {
                "" => GtidSet::new(),
                numbers => format!("00000000-0000-0000-0000-000000000001:{numbers}").parse().unwrap(),
            };
            let mut bytes = Vec::new();
            set.encode(GtidSetFormat::Untagged, &mut bytes);
            return self.put(&Event::PreviousGtids(PreviousGtids { set: &bytes }));
        }
        let gno = first.parse().unwrap_or(0);
        let gtid = GtidEvent {
            flags: 0,
            uuid: if gno > 0 { Uuid::from_u128(1) } else { Uuid::nil() },
            gno,
            clock: None,
            stamps: None,
            layout: GtidLayout::default(),
            rest: &[],
        };
        self.put(&if gno > 0 { Event::Gtid(gtid) } else { Event::AnonymousGtid(gtid) });
        let statements: Vec<&str> = rest.split(';').map(str::trim).collect();
        if !rest.starts_with(['+', '-', '~']) && rest != "open" {
            return self.put_query(rest);
        }
        self.put_query("BEGIN");
        statements
            .iter()
            .filter(|text| text.starts_with(['+', '-', '~']))
            .for_each(|text| self.put_rows(text));
        match statements.last() {
            Some(&"open") => {}
            Some(&"rollback") => self.put_query("ROLLBACK"),
            _ => self.put(&Event::Xid(Xid { xid: self.log.len() as u64 })),
        }
    }

    fn put_query(&mut self, sql: &str) {
        let status = StatusVars { bytes: &[] };
        let (thread_id, exec_time) = (self.traits.server_id, self.traits.server_id);
        let sql = sql.as_bytes();
        self.put(&Event::Query(Query { thread_id, exec_time, error_code: 0, status, database: b"d", sql }));
    }

    fn put_rows(&mut self, text: &str) {
        let (table, rows) = text.split_once(' ').unwrap();
        let (kind, table) = table.split_at(1);
        let kind = match kind {
            "+" => RowsKind::Write,
            "-" => RowsKind::Delete,
            _ => RowsKind::Update,
        };
        let (table, is_big) = table.split_once(':').map_or((table, false), |(table, _)| (table, true));
        self.table_id += 1;
        let (table_id, flavour) = (self.table_id, self.format.flavour);
        self.put(&Event::TableMap(TableMap {
            table_id,
            flags: 1,
            database: b"d",
            table: table.as_bytes(),
            column_types: if is_big { &[8] } else { &[3] },
            metadata: &[],
            nullable: &[0],
            optional: &[],
            flavour,
        }));
        let mut events = rows.split('/').peekable();
        // Servers set the bits after the columns arbitrarily.
        let bits = if self.traits.server_id == 1 { [0xff] } else { [0x01] };
        while let Some(rows) = events.next() {
            let mut images = Vec::new();
            for number in rows.split_whitespace().flat_map(|row| row.split('>')) {
                images.push(bits[0] & 0xfe);
                let number: i64 = number.parse().unwrap();
                images.extend_from_slice(&number.to_le_bytes()[..if is_big { 8 } else { 4 }]);
            }
            let columns = ColumnSet { bits: &bits };
            let flags = if events.peek().is_none() { RowsFlags::STATEMENT_END } else { RowsFlags::default() };
            let rows = Rows {
                kind,
                table_id,
                flags,
                extra: Some(&[]),
                column_count: 1,
                columns,
                columns_after: kind.has_after().then_some(columns),
                rows: &images,
            };
            self.put(&match kind {
                RowsKind::Write => Event::WriteRows(rows),
                RowsKind::Delete => Event::DeleteRows(rows),
                RowsKind::Update | RowsKind::PartialUpdate => Event::UpdateRows(rows),
            });
        }
    }
}

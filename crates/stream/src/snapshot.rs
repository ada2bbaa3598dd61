//! Rows that tables have already, as records in front of the changes of a log.
//!
//! Debezium tells them as reads, whose source says which is the first and the last; Maxwell as what its bootstrapping
//! inserts. Behind the last record a run can be resumed, and no earlier.

use crate::catalogue::TableFacts;
use crate::cell::Cell;
use crate::error::Error;
use crate::held::put_resume;
use crate::output::Output;
use crate::settings::{Envelope, Settings};
use crate::text::{put_integer, put_string};
use crate::token::Token;
use crate::value::Room;

/// Writes the records of rows that tables have.
#[derive(Debug)]
pub struct Snapshot {
    envelope: Envelope,
    /// Of Debezium's records: what says of whom they are.
    source: Vec<u8>,
    /// What is in front of this is in the rows, and what is behind it is not.
    token: Token,
    /// When they were read, in seconds since 1970.
    taken_s: u64,
    table: Option<Open>,
    last: Last,
    room: Room,
}

/// A table whose rows come.
#[derive(Debug)]
struct Open {
    names: [String; 2],
    cells: Vec<Cell>,
    /// In Debezium's records: what stands between a row's values and its mark, and between that and its time.
    parts: [Vec<u8>; 2],
    is_begun: bool,
}

/// The last record, which is kept back: what follows says what it is.
#[derive(Debug, Default)]
struct Last {
    record: Vec<u8>,
    /// Where its mark goes.
    mark_at: usize,
    mark: Option<Mark>,
}

/// Which of the records a row's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    First,
    FirstOfTable,
    Other,
    LastOfTable,
    Last,
}

impl Snapshot {
    /// Of rows that were read at this time, in seconds since 1970, as they were at this place of the source's log.
    pub fn new(settings: &Settings, token: Token, taken_s: u64) -> Self {
        let mut source = b"{\"version\":".to_vec();
        put_string(&mut source, &settings.version);
        source.extend_from_slice(b",\"connector\":\"mysql\",\"name\":");
        put_string(&mut source, &settings.name);
        let (envelope, table, last, room) = (settings.envelope, None, Last::default(), Room::default());
        Self { envelope, source, token, taken_s, table, last, room }
    }

    /// Rows of this table follow: of each, what [`ColumnFacts::selected`](crate::ColumnFacts::selected) asks for.
    ///
    /// # Errors
    ///
    /// When the output cannot be written.
    pub fn begin_table(
        &mut self,
        names: [&str; 2],
        facts: &TableFacts,
        output: &mut Output,
    ) -> Result<(), Error> {
        let cells = facts.columns.iter().map(Cell::new).collect();
        let parts = self.parts(names);
        self.table = Some(Open { names: names.map(str::to_owned), cells, parts, is_begun: false });
        self.bootstrap("bootstrap-start", output)
    }

    /// A row of the table that was begun; `now_ns` is the time, in nanoseconds since 1970.
    ///
    /// # Errors
    ///
    /// When a value is none of its column's, or the output cannot be written.
    pub fn row(&mut self, row: &[Option<Vec<u8>>], now_ns: u64, output: &mut Output) -> Result<(), Error> {
        self.last.pass_on(output)?;
        let table = self.table.as_mut().expect("ours: rows come behind the start of their table");
        let out = &mut self.last.record;
        match self.envelope {
            Envelope::Debezium => {
                out.extend_from_slice(b"{\"before\":null,\"after\":{");
                put_values(out, table, row, (self.envelope, &mut self.room))?;
                out.extend_from_slice(&table.parts[0]);
                self.last.mark_at = out.len();
                out.extend_from_slice(&table.parts[1]);
                for (label, number) in [(",\"ts_ms\":", 1_000_000), (",\"ts_us\":", 1000), (",\"ts_ns\":", 1)]
                {
                    out.extend_from_slice(label.as_bytes());
                    put_integer(out, now_ns / number);
                }
                out.extend_from_slice(b"}\n");
                self.last.mark = Some(match (output.is_empty(), table.is_begun) {
                    (true, false) => Mark::First,
                    (false, false) => Mark::FirstOfTable,
                    (_, true) => Mark::Other,
                });
            }
            Envelope::Maxwell => {
                put_head(out, table, "bootstrap-insert", self.taken_s);
                put_values(out, table, row, (self.envelope, &mut self.room))?;
                out.extend_from_slice(b"}}\n");
            }
        }
        table.is_begun = true;
        Ok(())
    }

    /// The table that was begun has no more rows.
    ///
    /// # Errors
    ///
    /// When the output cannot be written.
    pub fn end_table(&mut self, output: &mut Output) -> Result<(), Error> {
        if let (Some(mark), Some(Open { is_begun: true, .. })) = (&mut self.last.mark, &self.table) {
            *mark = if *mark == Mark::First { Mark::First } else { Mark::LastOfTable };
        }
        self.bootstrap("bootstrap-complete", output)?;
        self.table = None;
        Ok(())
    }

    /// No more tables follow: from here on a run can be resumed.
    ///
    /// # Errors
    ///
    /// When the output cannot be written.
    pub fn finish(mut self, output: &mut Output) -> Result<(), Error> {
        if let Some(mark) = &mut self.last.mark {
            *mark = Mark::Last;
        }
        self.last.pass_on(output)?;
        if !output.bytes.is_empty() {
            put_resume(&mut output.bytes, &self.token);
        }
        output.mark_place(self.token);
        Ok(output.save()?)
    }

    /// Maxwell's records around a table's rows.
    fn bootstrap(&mut self, kind: &str, output: &mut Output) -> Result<(), Error> {
        let Some(table) = self.table.as_ref().filter(|_| self.envelope == Envelope::Maxwell) else {
            return Ok(());
        };
        self.last.pass_on(output)?;
        put_head(&mut self.last.record, table, kind, self.taken_s);
        self.last.record.extend_from_slice(b"}}\n");
        Ok(())
    }

    fn parts(&self, [database, table]: [&str; 2]) -> [Vec<u8>; 2] {
        let mut front = b"},\"source\":".to_vec();
        front.extend_from_slice(&self.source);
        front.extend_from_slice(b",\"ts_ms\":");
        put_integer(&mut front, self.taken_s * 1000);
        front.extend_from_slice(b",\"snapshot\":\"");
        let mut back = b"\",\"db\":".to_vec();
        put_string(&mut back, database);
        back.extend_from_slice(b",\"sequence\":null");
        for (label, unit) in [(",\"ts_us\":", 1_000_000), (",\"ts_ns\":", 1_000_000_000)] {
            back.extend_from_slice(label.as_bytes());
            put_integer(&mut back, self.taken_s * unit);
        }
        back.extend_from_slice(b",\"table\":");
        put_string(&mut back, table);
        back.extend_from_slice(b",\"server_id\":0,\"gtid\":null,\"file\":");
        put_string(&mut back, &self.token.place.log);
        back.extend_from_slice(b",\"pos\":");
        put_integer(&mut back, self.token.place.position);
        back.extend_from_slice(
            b",\"row\":0,\"thread\":null,\"query\":null},\"transaction\":null,\"op\":\"r\"",
        );
        [front, back]
    }
}

impl Last {
    /// Writes the record that was kept back. The output is not drained behind it: it may be the very last.
    fn pass_on(&mut self, output: &mut Output) -> Result<(), Error> {
        if self.record.is_empty() {
            return Ok(());
        }
        output.drain_if_full()?;
        let (front, back) = self.record.split_at(self.mark_at);
        output.bytes.extend_from_slice(front);
        if let Some(mark) = self.mark.take() {
            output.bytes.extend_from_slice(mark.text());
        }
        output.bytes.extend_from_slice(back);
        self.record.clear();
        self.mark_at = 0;
        Ok(())
    }
}

impl Mark {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::First => b"first",
            Self::FirstOfTable => b"first_in_data_collection",
            Self::Other => b"true",
            Self::LastOfTable => b"last_in_data_collection",
            Self::Last => b"last",
        }
    }
}

fn put_head(out: &mut Vec<u8>, table: &Open, kind: &str, taken_s: u64) {
    let [database, name] = &table.names;
    out.extend_from_slice(b"{\"database\":");
    put_string(out, database);
    out.extend_from_slice(b",\"table\":");
    put_string(out, name);
    out.extend_from_slice(b",\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"ts\":");
    put_integer(out, taken_s);
    out.extend_from_slice(b",\"data\":{");
}

fn put_values(
    out: &mut Vec<u8>,
    table: &Open,
    row: &[Option<Vec<u8>>],
    (to, room): (Envelope, &mut Room),
) -> Result<(), Error> {
    for (index, cell) in table.cells.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&cell.plan.label);
        let text = row.get(index).and_then(Option::as_deref);
        let Some(text) = text else {
            out.extend_from_slice(b"null");
            continue;
        };
        cell.put(out, text, to, room).ok_or_else(|| Error::Row {
            table: table.names.join("."),
            column: index + 1,
            found: String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned(),
        })?;
    }
    Ok(())
}

//! Existing rows of tables, as records before the changes of a log.
//!
//! Debezium writes them as reads, whose source block marks the first and the last. Maxwell writes them as bootstrap
//! inserts. A run can resume only after the last record.

use std::sync::Arc;

use sql::numbers::put_u64;

use crate::broker_sink::KeyedRecordKind;
use crate::column_catalogue::TableSchema;
use crate::column_rules::ColumnRules;
use crate::debezium_writer::put_times;
use crate::error::StreamError;
use crate::json_writer::put_string;
use crate::record_sink::RecordSink;
use crate::resume_token::ResumeToken;
use crate::settings::{Envelope, StreamSettings};
use crate::table_snapshot::TableSnapshot;
use crate::value::ValueBuffers;
use crate::value_modes::ValueModes;

/// Writer of the existing rows of tables.
#[derive(Debug)]
pub struct SnapshotWriter {
    envelope: Envelope,
    modes: ValueModes,
    rules: Arc<ColumnRules>,
    /// Start of the source block of Debezium's records.
    source: Vec<u8>,
    /// Position of the snapshot: the rows include all changes before it, and none after it.
    token: ResumeToken,
    /// Time of the snapshot, in seconds since 1970.
    taken_s: u64,
    table: Option<CurrentTable>,
    last: LastRecord,
    buffers: ValueBuffers,
}

/// Table whose rows are being written.
#[derive(Debug)]
struct CurrentTable {
    snapshot: TableSnapshot,
    /// For Debezium's records: bytes between a row's values and its marker, and between the marker and the time.
    parts: [Vec<u8>; 2],
    has_rows: bool,
}

/// The latest record, held back because its marker depends on what follows.
#[derive(Debug, Default)]
struct LastRecord {
    record: Vec<u8>,
    /// Offset of its marker.
    mark_at: usize,
    mark: Option<SnapshotMarker>,
    kind: Option<KeyedRecordKind>,
    /// Key; empty for a table without a primary key.
    key: Vec<u8>,
}

/// Marker of a record: its position among the records of the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SnapshotMarker {
    First,
    FirstOfTable,
    Other,
    LastOfTable,
    Last,
}

impl SnapshotWriter {
    /// Creates a writer for a snapshot taken at the position `token` of the source's log. `taken_s` is its time, in
    /// seconds since 1970.
    pub fn new(settings: &StreamSettings, token: ResumeToken, taken_s: u64) -> Self {
        let mut source = b"{\"version\":".to_vec();
        put_string(&mut source, &settings.version);
        source.extend_from_slice(b",\"connector\":\"mysql\",\"name\":");
        put_string(&mut source, &settings.name);
        Self {
            envelope: settings.envelope,
            modes: settings.modes,
            rules: Arc::clone(&settings.rules),
            source,
            token,
            taken_s,
            table: None,
            last: LastRecord::default(),
            buffers: ValueBuffers::default(),
        }
    }

    /// Starts a table. Its rows must be selected with [`ColumnSchema::select_expression`](crate::ColumnSchema::select_expression).
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn begin_table(
        &mut self,
        names: [&str; 2],
        facts: &TableSchema,
        output: &mut RecordSink,
    ) -> Result<(), StreamError> {
        output.begin_snapshot();
        let parts = self.source_parts(names);
        let snapshot = TableSnapshot::new(names, facts, self.modes, &self.rules);
        self.table = Some(CurrentTable { snapshot, parts, has_rows: false });
        self.write_bootstrap("bootstrap-start", output)
    }

    /// Writes a row of the current table; `now_ns` is the time, in nanoseconds since 1970.
    ///
    /// # Errors
    ///
    /// Fails if a value is not of its column's type, or the output cannot be written.
    pub fn write_row(
        &mut self,
        row: &[Option<Vec<u8>>],
        now_ns: u64,
        output: &mut RecordSink,
    ) -> Result<(), StreamError> {
        self.last.flush(output)?;
        let table = self.table.as_mut().expect("ours: begin_table comes before the rows");
        if output.index().is_some() {
            self.last.kind = Some(table.snapshot.kind.clone());
            table.snapshot.put_key(&mut self.last.key, row, &mut self.buffers)?;
        }
        let out = &mut self.last.record;
        match self.envelope {
            Envelope::Debezium => {
                out.extend_from_slice(b"{\"before\":null,\"after\":{");
                table.snapshot.put_values(out, row, self.envelope, &mut self.buffers)?;
                out.extend_from_slice(&table.parts[0]);
                self.last.mark_at = out.len();
                out.extend_from_slice(&table.parts[1]);
                put_times(out, now_ns);
                out.extend_from_slice(b"}\n");
                self.last.mark = Some(match (output.is_empty(), table.has_rows) {
                    (true, false) => SnapshotMarker::First,
                    (false, false) => SnapshotMarker::FirstOfTable,
                    (_, true) => SnapshotMarker::Other,
                });
            }
            Envelope::Maxwell => {
                table.snapshot.put_maxwell_head(out, "bootstrap-insert", self.taken_s);
                table.snapshot.put_values(out, row, self.envelope, &mut self.buffers)?;
                out.extend_from_slice(b"}}\n");
            }
        }
        table.has_rows = true;
        Ok(())
    }

    /// Ends the current table.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn end_table(&mut self, output: &mut RecordSink) -> Result<(), StreamError> {
        if let (Some(mark), Some(CurrentTable { has_rows: true, .. })) = (&mut self.last.mark, &self.table) {
            *mark = if *mark == SnapshotMarker::First {
                SnapshotMarker::First
            } else {
                SnapshotMarker::LastOfTable
            };
        }
        self.write_bootstrap("bootstrap-complete", output)?;
        self.table = None;
        Ok(())
    }

    /// Ends the snapshot, and saves its position: from here on, a run can resume.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub fn finish(mut self, output: &mut RecordSink) -> Result<(), StreamError> {
        if let Some(mark) = &mut self.last.mark {
            *mark = SnapshotMarker::Last;
        }
        self.last.flush(output)?;
        if !output.bytes.is_empty() {
            output.put_resume(&self.token);
        }
        output.mark_position(self.token);
        Ok(output.save()?)
    }

    /// Writes Maxwell's record before or after a table's rows.
    fn write_bootstrap(&mut self, kind: &str, output: &mut RecordSink) -> Result<(), StreamError> {
        let Some(table) = self.table.as_ref().filter(|_| self.envelope == Envelope::Maxwell) else {
            return Ok(());
        };
        self.last.flush(output)?;
        table.snapshot.put_maxwell_head(&mut self.last.record, kind, self.taken_s);
        self.last.record.extend_from_slice(b"}}\n");
        Ok(())
    }

    fn source_parts(&self, [database, table]: [&str; 2]) -> [Vec<u8>; 2] {
        let mut front = b"},\"source\":".to_vec();
        front.extend_from_slice(&self.source);
        front.extend_from_slice(b",\"ts_ms\":");
        put_u64(&mut front, self.taken_s * 1000);
        front.extend_from_slice(b",\"snapshot\":\"");
        let mut back = b"\",\"db\":".to_vec();
        put_string(&mut back, database);
        back.extend_from_slice(b",\"sequence\":null");
        for (label, unit) in [(",\"ts_us\":", 1_000_000), (",\"ts_ns\":", 1_000_000_000)] {
            back.extend_from_slice(label.as_bytes());
            put_u64(&mut back, self.taken_s * unit);
        }
        back.extend_from_slice(b",\"table\":");
        put_string(&mut back, table);
        back.extend_from_slice(b",\"server_id\":0,\"gtid\":null,\"file\":");
        put_string(&mut back, &self.token.at.log);
        back.extend_from_slice(b",\"pos\":");
        put_u64(&mut back, self.token.at.position);
        back.extend_from_slice(
            b",\"row\":0,\"thread\":null,\"query\":null},\"transaction\":null,\"op\":\"r\"",
        );
        [front, back]
    }
}

impl LastRecord {
    /// Writes the held record. Does not drain the output after it, because it may be the last one.
    fn flush(&mut self, output: &mut RecordSink) -> Result<(), StreamError> {
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
        let end = output.bytes.len();
        if let (Some(index), Some(kind)) = (output.index(), self.kind.take()) {
            index.push_row(kind, &self.key, end);
        }
        self.record.clear();
        self.mark_at = 0;
        Ok(())
    }
}

impl SnapshotMarker {
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

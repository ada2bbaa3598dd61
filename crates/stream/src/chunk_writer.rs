//! Rows of a chunk of an incremental snapshot, as records between those of the log.
//!
//! Debezium writes them as reads with `"snapshot":"incremental"`, Maxwell as bootstrap inserts.

use sql::numbers::put_u64;

use crate::column_catalogue::TableSchema;
use crate::debezium_writer::put_times;
use crate::error::StreamError;
use crate::incremental_snapshot::TableChunk;
use crate::json_writer::put_string;
use crate::key_watch::KeyWatch;
use crate::record_sink::RecordSink;
use crate::resume_token::ResumeToken;
use crate::settings::{Envelope, StreamSettings};
use crate::table_snapshot::TableSnapshot;
use crate::value::ValueBuffers;

/// Writer of the rows of a chunk.
#[derive(Debug)]
pub struct ChunkWriter<'s> {
    settings: &'s StreamSettings,
    table: TableSnapshot,
    /// Position of the records: that of the stream between two transactions.
    token: &'s ResumeToken,
    /// Time at which the records are written, in nanoseconds since 1970.
    now_ns: u64,
    buffers: ValueBuffers,
}

/// Position of a chunk in its table, for Maxwell's records at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkEnds {
    /// True for the first chunk of a table.
    pub is_first: bool,
    /// True for the last chunk of a table.
    pub is_last: bool,
}

impl<'s> ChunkWriter<'s> {
    /// Creates a writer for a table of this definition.
    pub fn new(
        settings: &'s StreamSettings,
        names: [&str; 2],
        definition: &TableSchema,
        token: &'s ResumeToken,
        now_ns: u64,
    ) -> Self {
        let table = TableSnapshot::new(names, definition, settings.modes, &settings.rules);
        Self { settings, table, token, now_ns, buffers: ValueBuffers::default() }
    }

    /// Writes the rows of a chunk, without those that the log has changed. Returns the number of written rows. The caller
    /// marks the position: all rows are one transaction of a broker.
    ///
    /// # Errors
    ///
    /// Fails if a value is not of its column's type.
    pub fn write(
        &mut self,
        chunk: &TableChunk,
        watch: &KeyWatch,
        ends: ChunkEnds,
        output: &mut RecordSink,
    ) -> Result<usize, StreamError> {
        if ends.is_first {
            self.write_bootstrap("bootstrap-start", output);
        }
        let (mut written, mut key) = (0, Vec::new());
        let source = self.source();
        for row in &chunk.rows {
            self.table.put_primary_key(&mut key, row, &mut self.buffers)?;
            if watch.contains(&key) {
                continue;
            }
            output.put_whole(|output| self.write_row(row, &source, output))?;
            let end = output.bytes.len();
            if let Some(index) = output.index() {
                self.table.put_key(&mut key, row, &mut self.buffers)?;
                index.push_row(self.table.kind.clone(), &key, end);
            }
            written += 1;
        }
        if ends.is_last {
            self.write_bootstrap("bootstrap-complete", output);
        }
        Ok(written)
    }

    fn write_row(
        &mut self,
        row: &[Option<Vec<u8>>],
        source: &[u8],
        output: &mut RecordSink,
    ) -> Result<(), StreamError> {
        let out = &mut output.bytes;
        match self.settings.envelope {
            Envelope::Debezium => {
                out.extend_from_slice(b"{\"before\":null,\"after\":{");
                self.table.put_values(out, row, Envelope::Debezium, &mut self.buffers)?;
                out.extend_from_slice(b"},\"source\":");
                out.extend_from_slice(source);
                out.extend_from_slice(b",\"transaction\":null,\"op\":\"r\"");
                put_times(out, self.now_ns);
                out.extend_from_slice(b"}\n");
            }
            Envelope::Maxwell => {
                self.table.put_maxwell_head(out, "bootstrap-insert", self.now_ns / 1_000_000_000);
                self.table.put_values(out, row, Envelope::Maxwell, &mut self.buffers)?;
                out.extend_from_slice(b"}}\n");
            }
        }
        Ok(())
    }

    fn write_bootstrap(&self, kind: &str, output: &mut RecordSink) {
        if self.settings.envelope == Envelope::Maxwell {
            self.table.put_maxwell_head(&mut output.bytes, kind, self.now_ns / 1_000_000_000);
            output.bytes.extend_from_slice(b"}}\n");
        }
    }

    /// Returns the source block of Debezium's records, the same for all rows.
    fn source(&self) -> Vec<u8> {
        let mut out = b"{\"version\":".to_vec();
        put_string(&mut out, &self.settings.version);
        out.extend_from_slice(b",\"connector\":\"mysql\",\"name\":");
        put_string(&mut out, &self.settings.name);
        out.extend_from_slice(b",\"ts_ms\":");
        put_u64(&mut out, self.now_ns / 1_000_000);
        out.extend_from_slice(b",\"snapshot\":\"incremental\",\"db\":");
        let [database, table] = &self.table.names;
        put_string(&mut out, database);
        out.extend_from_slice(b",\"sequence\":null,\"ts_us\":");
        put_u64(&mut out, self.now_ns / 1000);
        out.extend_from_slice(b",\"ts_ns\":");
        put_u64(&mut out, self.now_ns);
        out.extend_from_slice(b",\"table\":");
        put_string(&mut out, table);
        out.extend_from_slice(b",\"server_id\":0,\"gtid\":null,\"file\":");
        put_string(&mut out, &self.token.at.log);
        out.extend_from_slice(b",\"pos\":");
        put_u64(&mut out, self.token.at.position);
        out.extend_from_slice(b",\"row\":0,\"thread\":null,\"query\":null}");
        out
    }
}

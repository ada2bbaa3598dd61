//! Incremental snapshots: rows of tables on request, while the log is followed.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use servers::ServerAddress;
use stream::{
    ChunkEnds, ChunkStep, ChunkWriter, IncrementalSnapshot, RecordSink, ResumePosition, ResumeToken,
    SnapshotProgress, StreamError, StreamGtids, StreamSettings, Streamer, TableChunk, WatchFault,
};
use tracing::{info, warn};

use crate::commands::stream::log_stream::now_ns;
use crate::commands::stream::snapshot::chunk_reader::{ChunkReader, ReaderAnswer, ReaderResult, ReaderTask};
use crate::commands::stream::snapshot::request_directory::RequestDirectory;
use crate::commands::stream::stream_metrics::SharedStreamFigures;
use crate::units::counted;

/// Pause before a query is tried again.
const BACKOFF: Duration = Duration::from_secs(1);
/// Intended size of a chunk in bytes, which determines its number of rows.
const CHUNK_SIZE_GOAL: usize = 1 << 20;

/// Incremental snapshots of a stream.
pub(in crate::commands::stream) struct IncrementalSnapshots {
    settings: StreamSettings,
    directory: Option<RequestDirectory>,
    snapshot: IncrementalSnapshot,
    reader: ChunkReader,
    figures: SharedStreamFigures,
    /// Name of the server whose log is read.
    server: String,
    /// Time before which no query is sent.
    pause_until: Option<Instant>,
    /// Last reason for a delay, so that each is reported once.
    delay: Option<String>,
}

/// Settings of incremental snapshots.
pub(in crate::commands::stream) struct IncrementalSettings<'s> {
    pub(in crate::commands::stream) stream: &'s StreamSettings,
    pub(in crate::commands::stream) address: &'s ServerAddress,
    /// Directory of requests; `None` if only saved snapshots are finished.
    pub(in crate::commands::stream) directory: Option<RequestDirectory>,
    pub(in crate::commands::stream) figures: &'s SharedStreamFigures,
}

impl IncrementalSnapshots {
    /// Continues from saved progress. Returns `None` if no table is left to read, and none can be requested.
    pub(in crate::commands::stream) fn new(
        settings: IncrementalSettings<'_>,
        saved: SnapshotProgress,
    ) -> std::io::Result<Option<Self>> {
        let IncrementalSettings { stream, address, directory, figures } = settings;
        if directory.is_none() && saved.tables.is_empty() {
            return Ok(None);
        }
        let snapshot = IncrementalSnapshot::new(saved);
        let (reader, settings, figures) = (ChunkReader::start(address)?, stream.clone(), figures.clone());
        figures.set_snapshot(snapshot.progress());
        let (server, pause_until, delay) = (String::new(), None, None);
        Ok(Some(Self { settings, directory, snapshot, reader, figures, server, pause_until, delay }))
    }

    /// Starts over with the current chunk, after a new connection to a server.
    pub(in crate::commands::stream) fn begin_connection(&mut self, server: &str) {
        self.snapshot.abandon();
        server.clone_into(&mut self.server);
    }

    /// Returns a descriptor that is readable once there is an answer; `None` if no table is to be read.
    pub(in crate::commands::stream) fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.snapshot.table().is_some().then(|| self.reader.wake())
    }

    /// Advances the snapshots after the stream has read the log up to `reached`: takes requests, writes rows, and
    /// sends the next query.
    pub(in crate::commands::stream) fn advance(
        &mut self,
        streamer: &mut Streamer,
        output: &mut RecordSink,
        reached: &ResumePosition,
    ) -> Result<(), StreamError> {
        if streamer.open_transaction().is_some()
            || !output.is_between_transactions()
            || reached.log.is_empty()
        {
            return Ok(());
        }
        self.take_requests(output, reached)?;
        while let Some(answer) = self.reader.take_answer() {
            self.take_answer(answer, streamer, output, reached)?;
        }
        if let Some(watch) = streamer.watch() {
            match self.snapshot.step(reached, watch) {
                ChunkStep::Wait => {}
                ChunkStep::Repeat(fault) => self.repeat(fault),
                ChunkStep::Write(chunk) => self.write(&chunk, streamer, output, reached)?,
            }
        }
        self.send_next_query(streamer, output);
        Ok(())
    }

    fn take_requests(
        &mut self,
        output: &mut RecordSink,
        reached: &ResumePosition,
    ) -> Result<(), StreamError> {
        let Some(directory) = &mut self.directory else { return Ok(()) };
        if !directory.take_due(Instant::now()) {
            return Ok(());
        }
        let requests = match directory.requests() {
            Ok(requests) => requests,
            Err(error) => {
                self.report_delay(format!("could not read requests for snapshots: {error}"));
                return Ok(());
            }
        };
        let mut is_changed =
            self.snapshot.keep_requests(|id| requests.iter().any(|request| request.id == id));
        for request in &requests {
            if !self.snapshot.progress().requests.contains(&request.id) {
                let (settings, figures) = (&self.settings, &self.figures);
                let tables = request.tables.iter().filter(|names| is_selected(settings, figures, names));
                let tables: Vec<[String; 2]> = tables.cloned().collect();
                for names in &tables {
                    info!("snapshot of {}: requested", names.join("."));
                }
                self.snapshot.add_request(&request.id, tables);
                is_changed = true;
            }
        }
        if is_changed {
            self.mark(output, reached)?;
        }
        let saved = output.saved_snapshot();
        for request in &requests {
            // Without saved progress, the request is only in memory.
            if saved.is_none_or(|saved| saved.requests.contains(&request.id))
                && let Some(directory) = &self.directory
                && let Err(error) = directory.remove(&request.id)
            {
                warn!("could not remove a request for a snapshot: {error}");
            }
        }
        Ok(())
    }

    fn take_answer(
        &mut self,
        answer: ReaderAnswer,
        streamer: &mut Streamer,
        output: &mut RecordSink,
        reached: &ResumePosition,
    ) -> Result<(), StreamError> {
        let ReaderAnswer { number, result } = answer;
        if !self.snapshot.is_current(number) {
            return Ok(());
        }
        match result {
            ReaderResult::Definition(definition, end) => {
                if let Some(watch) = streamer.take_watch() {
                    self.snapshot.take_definition(number, *definition, end, &watch);
                }
            }
            ReaderResult::Rows(chunk) => self.snapshot.take_rows(number, chunk),
            ReaderResult::Redefined => self.pause(),
            ReaderResult::Refused(reason) => self.refuse(&reason, output, reached)?,
            ReaderResult::Delayed(reason) => {
                self.pause();
                let table = self.table_name();
                self.report_delay(format!("snapshot of {table} waits: {reason}"));
            }
        }
        Ok(())
    }

    fn send_next_query(&mut self, streamer: &mut Streamer, output: &RecordSink) {
        if self.snapshot.table().is_none() || self.pause_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let seen = match output.gtid_state().and_then(|state| state.gtids.as_ref()) {
            Some(StreamGtids::Set(seen)) => Some(seen),
            Some(StreamGtids::LastByDomain(_)) | None => None,
        };
        if let Some((query, watch)) = self.snapshot.next_query() {
            streamer.set_watch(watch);
            self.reader.send(ReaderTask { query, server: self.server.clone(), seen: seen.cloned() });
        }
    }

    /// Writes the rows of a chunk that the log has not changed.
    fn write(
        &mut self,
        chunk: &TableChunk,
        streamer: &mut Streamer,
        output: &mut RecordSink,
        reached: &ResumePosition,
    ) -> Result<(), StreamError> {
        let (Some(watch), Some(table), Some(definition)) =
            (streamer.take_watch(), self.snapshot.table().cloned(), self.snapshot.definition().cloned())
        else {
            return Ok(());
        };
        let last = chunk.rows.last().map(|row| definition.key_literals(row));
        if last == Some(None) {
            return self.refuse("its primary key has a value that bintide cannot compare", output, reached);
        }
        let ends = ChunkEnds { is_first: table.last.is_none(), is_last: chunk.is_last };
        let token = token(output, reached);
        let names = table.names.each_ref().map(String::as_str);
        let mut writer = ChunkWriter::new(&self.settings, names, &definition, &token, now_ns());
        let written = writer.write(chunk, &watch, ends, output)?;
        self.figures.count_snapshot_rows(written, chunk.rows.len() - written);
        let finished = self.snapshot.finish_chunk(chunk.rows.len(), last.flatten(), chunk.is_last);
        self.snapshot.limit_rows(rows_of_size(chunk));
        self.end_delay();
        output.mark_snapshot(token, self.snapshot.progress().clone())?;
        self.figures.set_snapshot(self.snapshot.progress());
        if let Some(table) = finished {
            info!("snapshot of {}: complete, {} read", table.names.join("."), counted(table.rows, "row"));
        }
        if output.is_save_due() {
            output.save()?;
        }
        Ok(())
    }

    fn repeat(&mut self, fault: WatchFault) {
        let table = self.table_name();
        match fault {
            WatchFault::Redefined => info!("snapshot of {table}: the table was altered; a part of it is read again"),
            WatchFault::TooManyKeys => self.report_delay(format!(
                "snapshot of {table}: too many rows change meanwhile; a part of it is read again"
            )),
            WatchFault::NoKey => self.report_delay(format!(
                "snapshot of {table} waits: the log has rows of it without its primary key; set binlog_row_image=FULL on the \
                 source"
            )),
        }
        self.pause();
    }

    /// Skips the current table for this reason.
    fn refuse(
        &mut self,
        reason: &str,
        output: &mut RecordSink,
        reached: &ResumePosition,
    ) -> Result<(), StreamError> {
        warn!("no snapshot of {}: {reason}", self.table_name());
        self.figures.count_refused_snapshot();
        self.end_delay();
        self.snapshot.drop_table();
        self.mark(output, reached)
    }

    /// Saves the tables that are to be read, with the next save.
    fn mark(&mut self, output: &mut RecordSink, reached: &ResumePosition) -> Result<(), StreamError> {
        let token = token(output, reached);
        self.figures.set_snapshot(self.snapshot.progress());
        Ok(output.mark_snapshot(token, self.snapshot.progress().clone())?)
    }

    /// Starts over with the current chunk after a pause.
    fn pause(&mut self) {
        self.snapshot.abandon();
        self.pause_until = Some(Instant::now() + BACKOFF);
    }

    fn report_delay(&mut self, reason: String) {
        if self.delay.as_ref() != Some(&reason) {
            warn!("{reason}");
            self.delay = Some(reason);
            self.figures.set_snapshot_waiting(true);
        }
    }

    fn end_delay(&mut self) {
        if self.delay.take().is_some() {
            self.figures.set_snapshot_waiting(false);
        }
    }

    fn table_name(&self) -> String {
        self.snapshot.table().map(|table| table.names.join(".")).unwrap_or_default()
    }
}

/// Returns whether the stream includes a table. Otherwise its changes would be missing after the snapshot.
fn is_selected(settings: &StreamSettings, figures: &SharedStreamFigures, names: &[String; 2]) -> bool {
    let [database, table] = names.each_ref().map(|name| name.as_bytes());
    let is_selected =
        settings.filter.accepts_database(database) && settings.filter.accepts_tables([(database, table)]);
    if !is_selected {
        warn!(
            "no snapshot of {}: the stream excludes it; start the stream with other filters",
            names.join(".")
        );
        figures.count_refused_snapshot();
    }
    is_selected
}

/// Returns the token of a position between two transactions.
fn token(output: &RecordSink, reached: &ResumePosition) -> ResumeToken {
    match output.token().filter(|token| token.at == *reached) {
        Some(token) => token.clone(),
        None => ResumeToken { at: reached.clone(), gtid: None },
    }
}

/// Returns the number of rows of the next chunk, by the size of the rows of this one.
fn rows_of_size(chunk: &TableChunk) -> usize {
    let size: usize = chunk.rows.iter().flatten().flatten().map(Vec::len).sum();
    CHUNK_SIZE_GOAL * chunk.rows.len().max(1) / size.max(1)
}

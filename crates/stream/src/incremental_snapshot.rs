//! Incremental snapshots: the rows of tables, read in chunks while the log is followed.
//!
//! A chunk is correct because of four steps, in this order:
//!
//! 1. The stream is between two transactions. From here on, a [`KeyWatch`] collects the keys that the log changes.
//! 2. The reader waits until all transactions that the stream has read are visible on the server.
//! 3. The reader selects the rows, and then asks for the end of the log. All transactions that the rows contain are before
//!    this position, because servers write the log before they commit.
//! 4. When the stream has read the log up to there, it writes the rows whose keys the log has not changed. These rows have
//!    the state of this moment.

use std::cmp::Ordering;

use logs::log_order;

use crate::change::ResumePosition;
use crate::column_catalogue::TableSchema;
use crate::key_watch::{KeyWatch, WatchFault};
use crate::snapshot_key::{ChunkBounds, KeyLiterals};
use crate::snapshot_progress::{PendingTable, SnapshotProgress};

/// Incremental snapshots of a stream: the tables to read, and the chunk that is being read.
#[derive(Debug)]
pub struct IncrementalSnapshot {
    progress: SnapshotProgress,
    /// Definition of the first table, once it was queried.
    definition: Option<TableSchema>,
    phase: ChunkPhase,
    /// Number of the current query. Answers to earlier ones do not count.
    query: u64,
    rows_max: usize,
}

/// Phase of the current chunk.
#[derive(Debug)]
enum ChunkPhase {
    Idle,
    /// The definition of the table is being queried.
    Describing,
    /// The rows are being selected.
    Reading,
    /// The rows wait until the stream has read the log up to their position.
    Waiting(TableChunk),
}

/// Query that a reader is to run, after the transactions that the stream has read have become visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotQuery {
    /// Number, which the answer must have.
    pub number: u64,
    /// Database and table.
    pub names: [String; 2],
    /// Part of the query.
    pub kind: SnapshotQueryKind,
}

/// Kind of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotQueryKind {
    /// Definition and largest key.
    Describe,
    /// Rows, by a table's definition.
    Rows(Box<TableSchema>, ChunkBounds),
}

/// Rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableChunk {
    /// Rows: all columns, and then the key.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// End of the log after the rows were read.
    pub end_of_log: ResumePosition,
    /// True if there are no rows after these.
    pub is_last: bool,
}

/// Step that a chunk allows.
#[derive(Debug, PartialEq, Eq)]
pub enum ChunkStep {
    /// Nothing: the reader or the stream is not far enough.
    Wait,
    /// The chunk is read again, for this reason.
    Repeat(WatchFault),
    /// The caller writes the rows that the log has not changed.
    Write(TableChunk),
}

/// Maximum number of rows of a chunk.
const CHUNK_ROWS_MAX: usize = 1024;

impl IncrementalSnapshot {
    /// Continues from saved progress.
    pub const fn new(progress: SnapshotProgress) -> Self {
        Self { progress, definition: None, phase: ChunkPhase::Idle, query: 0, rows_max: CHUNK_ROWS_MAX }
    }

    /// Returns the progress to save.
    pub const fn progress(&self) -> &SnapshotProgress {
        &self.progress
    }

    /// Returns the table that is being read.
    pub fn table(&self) -> Option<&PendingTable> {
        self.progress.tables.first()
    }

    /// Returns whether an answer to the query of this number is still of use.
    pub const fn is_current(&self, number: u64) -> bool {
        self.query == number
    }

    /// Returns the definition of the table that is being read, once it is known.
    pub const fn definition(&self) -> Option<&TableSchema> {
        self.definition.as_ref()
    }

    /// Adds the tables of a request, unless it was added already. A table that waits, or is being read, is then read from its
    /// start, once.
    pub fn add_request(&mut self, id: &str, tables: impl IntoIterator<Item = [String; 2]>) {
        if self.progress.requests.iter().any(|known| known == id) {
            return;
        }
        for names in tables {
            let is_current = self.table().is_some_and(|table| table.names == names);
            match self.progress.tables.iter_mut().find(|table| table.names == names) {
                Some(table) => table.restart(),
                None => self.progress.tables.push(PendingTable { names, ..PendingTable::default() }),
            }
            if is_current {
                self.abandon();
            }
        }
        self.progress.requests.push(id.to_owned());
    }

    /// Forgets requests whose files no longer exist. Returns whether there were any.
    pub fn keep_requests(&mut self, exists: impl Fn(&str) -> bool) -> bool {
        let count = self.progress.requests.len();
        self.progress.requests.retain(|id| exists(id));
        self.progress.requests.len() < count
    }

    /// Starts the next query, if none runs, with the watch that the stream must have from now on.
    pub fn next_query(&mut self) -> Option<(SnapshotQuery, KeyWatch)> {
        let (ChunkPhase::Idle, Some(table)) = (&self.phase, self.progress.tables.first()) else {
            return None;
        };
        let names = table.names.clone();
        let [database, name] = names.each_ref().map(String::as_str);
        self.query += 1;
        let (kind, watch) = match &self.definition {
            None => {
                self.phase = ChunkPhase::Describing;
                (SnapshotQueryKind::Describe, KeyWatch::of_definition([database, name]))
            }
            Some(definition) => {
                self.phase = ChunkPhase::Reading;
                let (after, end) = (table.last.clone(), table.end.clone());
                let bounds = ChunkBounds { after, end, rows_max: self.rows_max };
                let watch = KeyWatch::of_rows([database, name], definition);
                (SnapshotQueryKind::Rows(Box::new(definition.clone()), bounds), watch)
            }
        };
        Some((SnapshotQuery { number: self.query, names, kind }, watch))
    }

    /// Takes the definition of the table, which has a primary key, and its largest key; `None` if it has no rows. `watch` is
    /// the watch since the query.
    pub fn take_definition(
        &mut self,
        number: u64,
        definition: TableSchema,
        end: Option<KeyLiterals>,
        watch: &KeyWatch,
    ) {
        if number != self.query || !matches!(self.phase, ChunkPhase::Describing) {
            return;
        }
        self.phase = ChunkPhase::Idle;
        let (None, Some(table)) = (watch.fault(), self.progress.tables.first_mut()) else { return };
        if table.key != definition.primary_key {
            table.restart();
        }
        if table.last.is_none() {
            table.end = end;
            table.key.clone_from(&definition.primary_key);
        }
        self.definition = Some(definition);
    }

    /// Takes the rows of the chunk.
    pub fn take_rows(&mut self, number: u64, chunk: TableChunk) {
        if number == self.query && matches!(self.phase, ChunkPhase::Reading) {
            self.phase = ChunkPhase::Waiting(chunk);
        }
    }

    /// Returns what to do when the stream is between two transactions, and has read the log up to `reached`.
    pub fn step(&mut self, reached: &ResumePosition, watch: &KeyWatch) -> ChunkStep {
        let ChunkPhase::Waiting(chunk) = &self.phase else { return ChunkStep::Wait };
        if let Some(fault) = watch.fault() {
            self.phase = ChunkPhase::Idle;
            if fault == WatchFault::Redefined {
                self.definition = None;
            }
            return ChunkStep::Repeat(fault);
        }
        if !is_reached(reached, &chunk.end_of_log) {
            return ChunkStep::Wait;
        }
        match std::mem::replace(&mut self.phase, ChunkPhase::Idle) {
            ChunkPhase::Waiting(chunk) => ChunkStep::Write(chunk),
            ChunkPhase::Idle | ChunkPhase::Describing | ChunkPhase::Reading => ChunkStep::Wait,
        }
    }

    /// Moves the progress after a chunk that was written. `last` is the key of its last row. Returns the table if it is
    /// complete.
    pub fn finish_chunk(
        &mut self,
        rows: usize,
        last: Option<KeyLiterals>,
        is_last: bool,
    ) -> Option<PendingTable> {
        let table = self.progress.tables.first_mut()?;
        table.rows += rows as u64;
        table.last = last.or_else(|| table.last.take());
        if !is_last {
            return None;
        }
        self.drop_table()
    }

    /// Removes the table that is being read, because it is complete or cannot be read.
    pub fn drop_table(&mut self) -> Option<PendingTable> {
        self.abandon();
        (!self.progress.tables.is_empty()).then(|| self.progress.tables.remove(0))
    }

    /// Lets the next chunks have fewer rows, because the rows are large.
    pub fn limit_rows(&mut self, rows_max: usize) {
        self.rows_max = rows_max.clamp(1, CHUNK_ROWS_MAX);
    }

    /// Forgets the current query, whose answer does not count any more.
    pub fn abandon(&mut self) {
        (self.phase, self.definition) = (ChunkPhase::Idle, None);
        self.query += 1;
    }
}

/// Returns whether a position in the log is at another one or after it.
fn is_reached(reached: &ResumePosition, goal: &ResumePosition) -> bool {
    match log_order(&reached.log).cmp(&log_order(&goal.log)) {
        Ordering::Less => false,
        Ordering::Equal => reached.position >= goal.position,
        Ordering::Greater => true,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{ChunkStep, IncrementalSnapshot, SnapshotQuery, SnapshotQueryKind, TableChunk};
    use crate::change::ResumePosition;
    use crate::column_catalogue::{ColumnSchema, TableSchema};
    use crate::key_watch::{KeyWatch, WatchFault};
    use crate::snapshot_progress::{PendingTable, SnapshotProgress};

    /// Rows of a table: values by key.
    type Rows = BTreeMap<u64, u64>;

    /// Change of a row, or an ALTER TABLE.
    #[derive(Clone, Copy, Debug)]
    enum Change {
        Put(u64, u64),
        Delete(u64),
        Alter,
    }

    /// A rule that a simulation leaves out.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Omission {
        None,
        /// The reader does not wait until the transactions that the stream has read are visible.
        Visibility,
        /// The stream does not wait for the end of the log.
        EndOfLog,
        /// Keys of the log do not count.
        Watch,
    }

    /// A server, a stream, a reader and a consumer, which take steps in any order.
    struct Simulation {
        omission: Omission,
        /// Rows before the log.
        initial: Rows,
        log: Vec<Change>,
        /// Number of changes that are visible in the table. The log is written before.
        visible: usize,
        /// Number of changes that the stream has read.
        read: usize,
        snapshot: IncrementalSnapshot,
        watch: Option<KeyWatch>,
        query: Option<(SnapshotQuery, usize)>,
        selected: Option<(u64, TableChunk)>,
        consumer: BTreeMap<u64, Option<u64>>,
        /// Progress of the last save, and the state of the consumer then.
        saved: (SnapshotProgress, usize),
        /// Set if a row was written that is not the one of the table where the stream is.
        has_wrong_row: bool,
        random: u64,
    }

    fn definition(columns: usize) -> TableSchema {
        let column = |name: String| ColumnSchema {
            name,
            data_type: "int".to_owned(),
            column_type: "int".to_owned(),
            ..ColumnSchema::default()
        };
        let columns =
            ["id".to_owned(), "value".to_owned()].into_iter().chain((2..columns).map(|n| n.to_string()));
        TableSchema {
            columns: columns.map(column).collect(),
            primary_key: vec!["id".to_owned()],
            ..TableSchema::default()
        }
    }

    fn key(id: u64) -> Vec<u8> {
        format!("{{\"id\":{id}}}").into_bytes()
    }

    fn position_of(read: usize) -> ResumePosition {
        ResumePosition { log: "log.000001".to_owned(), position: read as u64 }
    }

    impl Simulation {
        fn new(seed: u64, omission: Omission) -> Self {
            let tables = vec![PendingTable::new(["d", "t"])];
            let progress = SnapshotProgress { tables, requests: Vec::new() };
            let mut snapshot = IncrementalSnapshot::new(progress.clone());
            snapshot.limit_rows(3);
            Self {
                omission,
                initial: (0..10).map(|id| (id * 2, 1000 + id)).collect(),
                log: Vec::new(),
                visible: 0,
                read: 0,
                snapshot,
                watch: None,
                query: None,
                selected: None,
                consumer: BTreeMap::new(),
                saved: (progress, 0),
                has_wrong_row: false,
                random: seed,
            }
        }

        fn random(&mut self, below: u64) -> u64 {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) % below
        }

        fn rows(&self, changes: usize) -> Rows {
            let mut rows = self.initial.clone();
            for change in &self.log[..changes] {
                match change {
                    Change::Put(id, value) => drop(rows.insert(*id, *value)),
                    Change::Delete(id) => drop(rows.remove(id)),
                    Change::Alter => {}
                }
            }
            rows
        }

        fn columns(&self, changes: usize) -> usize {
            2 + self.log[..changes].iter().filter(|change| matches!(change, Change::Alter)).count()
        }

        fn write_log(&mut self) {
            let (id, value) = (self.random(24), self.log.len() as u64);
            let change = match self.random(12) {
                0 => Change::Alter,
                1..4 => Change::Delete(id),
                _ => Change::Put(id, value),
            };
            self.log.push(change);
        }

        fn read_log(&mut self) {
            let Some(change) = self.log.get(self.read).copied() else { return };
            self.read += 1;
            match (change, &mut self.watch) {
                (Change::Put(id, _) | Change::Delete(id), Some(watch)) => watch.add_key(&key(id)),
                (Change::Alter, Some(watch)) => watch.redefine(),
                (_, None) => {}
            }
            match change {
                Change::Put(id, value) => drop(self.consumer.insert(id, Some(value))),
                Change::Delete(id) => drop(self.consumer.insert(id, None)),
                Change::Alter => {}
            }
        }

        /// Runs a step of the reader: the query, or the end of the log after it.
        fn read_table(&mut self) {
            if let Some((number, mut chunk)) = self.selected.take() {
                chunk.end_of_log = position_of(self.log.len());
                self.snapshot.take_rows(number, chunk);
                return;
            }
            let Some((query, seen)) = self.query.clone() else { return };
            if self.omission != Omission::Visibility && self.visible < seen {
                return;
            }
            self.query = None;
            let (rows, columns) = (self.rows(self.visible), self.columns(self.visible));
            match query.kind {
                SnapshotQueryKind::Describe => {
                    let Some(watch) = self.watch.take() else { return };
                    let end = rows.keys().next_back().map(|id| vec![id.to_string()]);
                    self.snapshot.take_definition(query.number, definition(columns), end, &watch);
                }
                // The server refuses a query of columns that do not exist.
                SnapshotQueryKind::Rows(known, _) if known.columns.len() > columns => self.snapshot.abandon(),
                SnapshotQueryKind::Rows(_, bounds) => {
                    let number = |key: &Vec<String>| key[0].parse::<u64>().unwrap();
                    let after = bounds.after.as_ref().map(number);
                    let end = bounds.end.as_ref().map(number);
                    let is_meant =
                        |id: &u64| after.is_none_or(|after| *id > after) && end.is_none_or(|end| *id <= end);
                    let rows: Vec<_> =
                        rows.into_iter().filter(|(id, _)| is_meant(id)).take(bounds.rows_max).collect();
                    let is_last = rows.len() < bounds.rows_max;
                    let cell = |number: u64| Some(number.to_string().into_bytes());
                    let rows =
                        rows.into_iter().map(|(id, value)| vec![cell(id), cell(value), cell(id)]).collect();
                    let chunk = TableChunk { rows, is_last, ..TableChunk::default() };
                    self.selected = Some((query.number, chunk));
                }
            }
        }

        fn advance(&mut self) {
            if let Some(watch) = &self.watch {
                let end = if self.omission == Omission::EndOfLog { usize::MAX >> 1 } else { self.read };
                if let ChunkStep::Write(chunk) = self.snapshot.step(&position_of(end), watch) {
                    self.write(&chunk);
                }
            }
            if let Some((query, watch)) = self.snapshot.next_query() {
                (self.query, self.watch, self.selected) = (Some((query, self.read)), Some(watch), None);
            }
        }

        fn write(&mut self, chunk: &TableChunk) {
            let (watch, present) = (self.watch.take().unwrap(), self.rows(self.read));
            let number = |cell: &Option<Vec<u8>>| {
                std::str::from_utf8(cell.as_ref().unwrap()).unwrap().parse::<u64>().unwrap()
            };
            for row in &chunk.rows {
                let (id, value) = (number(&row[0]), number(&row[1]));
                if self.omission == Omission::Watch || !watch.contains(&key(id)) {
                    self.consumer.insert(id, Some(value));
                    self.has_wrong_row |= present.get(&id) != Some(&value);
                }
            }
            let last = chunk.rows.last().map(|row| vec![number(&row[2]).to_string()]);
            self.snapshot.finish_chunk(chunk.rows.len(), last, chunk.is_last);
            // The consumer has the chunk and the progress at once.
            self.saved = (self.snapshot.progress().clone(), self.read);
        }

        /// Ends the stream between two saves, and starts it again: the log since the last save is read again.
        fn kill(&mut self) {
            self.snapshot = IncrementalSnapshot::new(self.saved.0.clone());
            self.snapshot.limit_rows(3);
            (self.read, self.watch, self.query, self.selected) = (self.saved.1, None, None, None);
        }

        /// Runs random steps, and then all that is left. Returns whether the consumer has the rows of the table, and never
        /// got a row of another time.
        fn run(mut self) -> bool {
            for _ in 0..400 {
                match self.random(40) {
                    0..6 if self.log.len() < 60 => self.write_log(),
                    6..12 if self.visible < self.log.len() => self.visible += 1,
                    12..19 => self.read_log(),
                    19..27 => self.read_table(),
                    27 => self.kill(),
                    _ => self.advance(),
                }
            }
            self.visible = self.log.len();
            for _ in 0..400 {
                self.read_log();
                self.read_table();
                self.advance();
            }
            assert!(self.snapshot.table().is_none(), "the snapshot does not end: {:?}", self.snapshot);
            let shown: Rows = self.consumer.iter().filter_map(|(id, value)| Some((*id, (*value)?))).collect();
            shown == self.rows(self.log.len()) && !self.has_wrong_row
        }
    }

    #[test]
    fn consumers_have_the_table_whatever_the_order_of_steps() {
        for seed in 0..2000 {
            assert!(Simulation::new(seed, Omission::None).run(), "seed {seed}");
        }
    }

    #[test]
    fn no_rule_can_be_left_out() {
        for omission in [Omission::Visibility, Omission::EndOfLog, Omission::Watch] {
            let is_found = (0..2000).any(|seed| !Simulation::new(seed, omission).run());
            assert!(is_found, "{omission:?}");
        }
    }

    #[test]
    fn altered_tables_are_described_again() {
        let mut snapshot = IncrementalSnapshot::new(SnapshotProgress::default());
        let tables = ["t", "u"].map(|table| ["d", table].map(str::to_owned));
        snapshot.add_request("1", tables.clone());
        // The same request is found again after a kill.
        snapshot.add_request("1", tables.clone());
        assert_eq!(snapshot.progress().tables.len(), 2);
        let (query, watch) = snapshot.next_query().unwrap();
        assert_eq!((&query.kind, snapshot.next_query().is_none()), (&SnapshotQueryKind::Describe, true));
        snapshot.take_definition(query.number, definition(2), Some(vec!["9".to_owned()]), &watch);
        let (query, mut watch) = snapshot.next_query().unwrap();
        assert!(matches!(query.kind, SnapshotQueryKind::Rows(..)));
        watch.redefine();
        // An answer to an earlier query.
        snapshot.take_rows(query.number - 1, TableChunk::default());
        assert_eq!(snapshot.step(&position_of(7), &watch), ChunkStep::Wait);
        snapshot.take_rows(query.number, TableChunk::default());
        assert_eq!(snapshot.step(&position_of(7), &watch), ChunkStep::Repeat(WatchFault::Redefined));
        let (query, watch) = snapshot.next_query().unwrap();
        assert_eq!(query.kind, SnapshotQueryKind::Describe);
        // Another primary key: the table is read from its start.
        let mut altered = definition(3);
        altered.primary_key.push("value".to_owned());
        snapshot.take_definition(query.number, altered, Some(vec!["9".to_owned(), "1".to_owned()]), &watch);
        assert_eq!(snapshot.table().unwrap().key, ["id", "value"]);
        // Another request for the table that is being read, and for one that waits.
        snapshot.add_request("2", tables);
        assert_eq!(
            snapshot.progress().tables,
            [PendingTable::new(["d", "t"]), PendingTable::new(["d", "u"])]
        );
        assert!(snapshot.keep_requests(|id| id == "2"));
        assert_eq!(snapshot.progress().requests, ["2"]);
    }
}

//! Speed of the pure parts of replay, on one core.
//!
//! Usage: `cargo bench -p bintide-replay --bench changes -- [--way=WAY] [--group=TRANSACTIONS] LOG...`. Prints a line for each log
//! and way: `NAME WAY: ROWS row changes, TRANSACTIONS transactions, ROWS/S, TRANSACTIONS/S`. The time is the thread's
//! CPU time: the median of several runs over events in memory. The first column of each table counts as its
//! primary key and only unique key. Without a log it measures nothing and reports that.
//!
//! | way | operation |
//! |---|---|
//! | fold | folds the row changes of TRANSACTIONS transactions (500) and writes the net change as events |
//! | keys | finds the keys of each transaction |
//! | schedule | finds the keys, then claims, schedules (four workers) and commits the transactions |

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use binlog::events::TableMap;
use binlog::{
    Event, EventFlags, EventFormat, EventOrigin, EventRole, Flavour, Framer, FramerOutput, KeyPart, MAGIC,
    RawEvent, RawEventBuf, TableRegistry,
};
use replay::keys::TransactionKeys;
use replay::net_change::{GroupChanges, NetRowsForm};
use replay::schedule::{ChangedKeys, ClaimBuilder, KeySet, ParallelMode, Schedule, TransactionFootprint};
use replay::{StorageEngine, TargetTableDefinition, TargetTableName};

/// Runs of each way; the result is their median.
const RUNS: usize = 5;

type Error = Box<dyn std::error::Error>;

/// A log in memory.
struct Log {
    format: EventFormat,
    /// Events of each transaction that changes rows.
    transactions: Vec<Vec<RawEventBuf>>,
    definitions: HashMap<TargetTableName, TargetTableDefinition>,
    rows: u64,
}

fn main() -> Result<(), Error> {
    let (options, logs): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let option = |name: &str| options.iter().find_map(|option| option.strip_prefix(name));
    let group = option("--group=").map_or(Ok(500), str::parse)?;
    if logs.is_empty() {
        println!("no log given: nothing to measure");
    }
    for name in logs {
        let log = Log::read(&name)?;
        for (way, run) in [("fold", fold as Way), ("keys", keys), ("schedule", schedule)] {
            if option("--way=").is_none_or(|only| only == way) {
                measure(&format!("{name} {way}"), &log, || run(&log, group))?;
            }
        }
    }
    Ok(())
}

type Way = fn(&Log, usize) -> Result<(), Error>;

fn measure(name: &str, log: &Log, run: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = processor_time();
        run()?;
        times.push(processor_time() - start);
    }
    times.sort();
    let seconds = times[RUNS / 2].as_secs_f64();
    let (rows, transactions) = (log.rows, log.transactions.len());
    let rate = |count: f64| count / seconds / 1e6;
    println!(
        "{name}: {rows} row changes, {transactions} transactions, {:.2} M rows/s, {:.3} M transactions/s",
        rate(rows as f64),
        rate(transactions as f64)
    );
    Ok(())
}

fn processor_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("the thread has a clock").into()
}

fn fold(log: &Log, group: usize) -> Result<(), Error> {
    let origin = EventOrigin { timestamp: 1, server_id: 1, flags: EventFlags(0) };
    let form = NetRowsForm { origin, format: log.format.inside_payload(), rows_size_max: 1 << 16 };
    let mut changes = GroupChanges::new(Flavour::MySql, form);
    let mut out = Vec::new();
    for group in log.transactions.chunks(group) {
        for events in group {
            let events: Vec<RawEvent<'_>> = events.iter().map(RawEventBuf::as_raw).collect();
            changes.take(&events, &log.format, &|map| log.definitions.get(&name_of(map)))?;
        }
        out.clear();
        let report = changes.write(&mut out)?;
        if let Some(refusal) = report.refusal {
            return Err(refusal.into());
        }
        black_box(&out);
    }
    Ok(())
}

fn keys(log: &Log, _: usize) -> Result<(), Error> {
    black_box(log.keys()?);
    Ok(())
}

fn schedule(log: &Log, _: usize) -> Result<(), Error> {
    let (mut claims, mut schedule) = (ClaimBuilder::new(ParallelMode::Writeset), Schedule::new(4));
    for (keys, number) in log.keys()?.into_iter().zip(0..) {
        let footprint = TransactionFootprint { keys, ..TransactionFootprint::default() };
        while schedule.open_count() > 1000 {
            let Some(first) = schedule.start() else { break };
            schedule.mark_committed(first);
        }
        schedule.offer(claims.claim(number, &footprint)?);
    }
    while let Some(number) = schedule.start() {
        schedule.mark_committed(number);
    }
    assert_eq!((schedule.open_count(), log.transactions.is_empty()), (0, false));
    Ok(())
}

fn name_of(map: &TableMap<'_>) -> TargetTableName {
    TargetTableName { database: map.database.into(), table: map.table.into() }
}

impl Log {
    fn read(name: &str) -> Result<Self, Error> {
        let bytes = std::fs::read(name)?;
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or("not a binary log")?;
        let mut framer = Framer::new();
        let mut tables = TableRegistry::new();
        let (mut transactions, mut events, mut rows) = (Vec::new(), Vec::new(), 0);
        let mut definitions = HashMap::new();
        while let FramerOutput::Event(raw) = framer.next(rest)? {
            rest = &rest[raw.bytes().len()..];
            let format = framer.format().ok_or("no format")?;
            match raw.decode(format)? {
                Event::TableMap(map) => {
                    tables.register(&map)?;
                    definitions.entry(name_of(&map)).or_insert_with(|| define(&map));
                }
                event => {
                    if let Some(changes) = event.rows() {
                        rows += tables.decoder(changes)?.count(changes)?;
                    }
                }
            }
            match EventRole::of(&raw, format)? {
                EventRole::Gtid | EventRole::Statement => events.clear(),
                EventRole::Commit => transactions.push(std::mem::take(&mut events)),
                _ => events.push(raw.to_buf()),
            }
        }
        let format = framer.format().ok_or("no format")?.clone();
        Ok(Self { format, transactions, definitions, rows })
    }

    fn keys(&self) -> Result<Vec<ChangedKeys>, Error> {
        let mut reader = TransactionKeys::new(Flavour::MySql);
        let mut all = Vec::new();
        for events in &self.transactions {
            let events: Vec<RawEvent<'_>> = events.iter().map(RawEventBuf::as_raw).collect();
            let mut keys = ChangedKeys::Known(KeySet::default());
            reader.read(&events, &self.format, &|map| self.definitions.get(&name_of(map)), &mut keys)?;
            all.push(keys);
        }
        Ok(all)
    }
}

fn define(map: &TableMap<'_>) -> TargetTableDefinition {
    let primary_key = Some(vec![KeyPart { column: 0, prefix: 0 }]);
    TargetTableDefinition {
        name: name_of(map),
        engine: StorageEngine::InnoDb,
        primary_key,
        ..TargetTableDefinition::default()
    }
}

//! Property: every order that the schedule allows has the same result as a serial run.
//!
//! Transactions read and write a few keys. Each write depends on the value there and on all values read before, so that
//! swapping two conflicting transactions changes the result. Reads and writes of all started transactions are
//! interleaved at random.

use std::collections::BTreeMap;

use super::{
    ChangedDatabases, ChangedKeys, ClaimBuilder, Exclusivity, KeySet, ParallelMode, Schedule, ScheduleClaim,
    TransactionFootprint,
};
use binlog::events::LogicalClock;
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::strategy::{Just, Strategy};
use proptest::test_runner::{Config, TestRunner};
use proptest::{prop_assert, prop_assert_eq, prop_oneof};

#[derive(Clone, Debug)]
struct RandomTransaction {
    writes: Vec<u8>,
    reads: Vec<u8>,
    /// `true` for the first transaction of another log.
    starts_log: bool,
    /// `true` if the source ran the transaction, but replay leaves it out.
    left_out: bool,
    /// Number of transactions by which the clock's dependency is later than necessary.
    later: i64,
    alone: bool,
    session: Option<u64>,
    /// `true` if the transaction joins the previous one.
    joined: bool,
}

#[derive(Clone, Debug)]
struct ScheduleCase {
    mode: ParallelMode,
    workers: usize,
    in_order: bool,
    transactions: Vec<RandomTransaction>,
    seed: u64,
}

const STEPS: u64 = 1_000_000;

/// Runs of each case, each in another order.
const RUNS: u64 = 16;

#[test]
fn any_schedule_has_the_result_of_a_serial_run() {
    let mut steps = 0;
    while steps < STEPS {
        let mut runner = TestRunner::new(Config { cases: 128, ..Config::default() });
        let counted = std::cell::Cell::new(0);
        let result = runner.run(&case(), |case| {
            let expected = serial(&case);
            for seed in 0..RUNS {
                let (model, taken) = run(&case, seed)?;
                counted.set(counted.get() + taken);
                prop_assert_eq!(&model, &expected);
            }
            Ok(())
        });
        result.unwrap();
        steps += counted.get();
    }
}

fn case() -> impl Strategy<Value = ScheduleCase> {
    let mode = prop_oneof![
        Just(ParallelMode::None),
        Just(ParallelMode::Database),
        Just(ParallelMode::LogicalClock),
        Just(ParallelMode::Writeset),
        Just(ParallelMode::WritesetSession),
    ];
    let key = || 0..6_u8;
    let transaction = (
        (vec(key(), 0..4), vec(key(), 0..2), 0..20_u8, 0..12_u8),
        (0..4_i64, 0..30_u8, proptest::option::weighted(0.8, 0..3_u64), any::<bool>()),
    );
    let transaction = transaction.prop_map(|((writes, reads, log, out), (later, alone, session, joined))| {
        let (starts_log, left_out, alone) = (log == 0, out == 0, alone == 0);
        RandomTransaction { writes, reads, starts_log, left_out, later, alone, session, joined }
    });
    let parts = (mode, 1..6_usize, any::<bool>(), vec(transaction, 1..40), any::<u64>());
    parts.prop_map(|(mode, workers, in_order, transactions, seed)| ScheduleCase {
        mode,
        workers,
        in_order,
        transactions,
        seed,
    })
}

/// Final value of each key.
type KeyValues = BTreeMap<u8, u64>;

fn mix(old: u64, new: u64) -> u64 {
    (old ^ new.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// A running transaction.
#[derive(Debug)]
struct RunningTransaction<'a> {
    transaction: &'a RandomTransaction,
    seen: u64,
    next: usize,
}

impl<'a> RunningTransaction<'a> {
    fn new(index: usize, transaction: &'a RandomTransaction) -> Self {
        Self { transaction, seen: index as u64 + 1, next: 0 }
    }

    /// Reads or writes one key; `false` if none is left.
    fn step(&mut self, model: &mut KeyValues) -> bool {
        let RandomTransaction { reads, writes, .. } = self.transaction;
        if let Some(key) = reads.get(self.next) {
            self.seen = mix(self.seen, model.get(key).copied().unwrap_or_default());
        } else if let Some(key) = writes.get(self.next - reads.len()) {
            let value = model.entry(*key).or_default();
            *value = mix(*value, self.seen);
        } else {
            return false;
        }
        self.next += 1;
        true
    }
}

fn serial(case: &ScheduleCase) -> KeyValues {
    let mut model = KeyValues::new();
    for (index, transaction) in case.transactions.iter().enumerate() {
        if !transaction.left_out {
            let mut work = RunningTransaction::new(index, transaction);
            while work.step(&mut model) {}
        }
    }
    model
}

/// Returns the clocks that a source would have logged: each transaction depends at least on the last conflicting one.
fn clocks(transactions: &[RandomTransaction]) -> Vec<(u64, LogicalClock)> {
    let (mut log, mut start) = (0, 0);
    let mut clocks = Vec::new();
    for (index, transaction) in transactions.iter().enumerate() {
        if transaction.starts_log {
            (log, start) = (log + 1, index);
        }
        let conflicts = |other: &RandomTransaction| {
            let touches = |key: &u8| transaction.writes.contains(key) || transaction.reads.contains(key);
            other.writes.iter().any(touches) || other.reads.iter().any(|key| transaction.writes.contains(key))
        };
        let needed = (start..index).rev().find(|other| conflicts(&transactions[*other]));
        let needed = needed.map_or(0, |other| (other - start + 1) as i64);
        let sequence_number = (index - start + 1) as i64;
        let last_committed = (needed + transaction.later).min(sequence_number - 1);
        clocks.push((log, LogicalClock { last_committed, sequence_number }));
    }
    clocks
}

fn footprint(transaction: &RandomTransaction, (log, clock): (u64, LogicalClock)) -> TransactionFootprint {
    let hashes = |keys: &[u8]| keys.iter().map(|key| mix(7, u64::from(*key))).collect();
    let databases =
        transaction.writes.iter().chain(&transaction.reads).map(|key| Box::from([*key])).collect();
    TransactionFootprint {
        exclusivity: if transaction.alone { Exclusivity::Exclusive } else { Exclusivity::Shared },
        log,
        clock: Some(clock),
        databases: ChangedDatabases::Known(databases),
        keys: ChangedKeys::Known(KeySet {
            exclusive: hashes(&transaction.writes),
            shared: hashes(&transaction.reads),
        }),
        session: transaction.session,
    }
}

/// Returns groups: the transactions of each, and its claim.
fn pieces(case: &ScheduleCase) -> Vec<(Vec<usize>, ScheduleClaim)> {
    let mut claims = ClaimBuilder::new(case.mode);
    let clocks = clocks(&case.transactions);
    let mut pieces: Vec<(Vec<usize>, ScheduleClaim)> = Vec::new();
    for (index, transaction) in case.transactions.iter().enumerate() {
        if transaction.left_out {
            continue;
        }
        let claim = claims.claim(index as u64, &footprint(transaction, clocks[index])).unwrap();
        match pieces.last_mut().filter(|_| transaction.joined) {
            Some((members, joined)) => {
                members.push(index);
                joined.join(claim);
            }
            None => pieces.push((vec![index], claim)),
        }
    }
    pieces
}

fn run(case: &ScheduleCase, seed: u64) -> Result<(KeyValues, u64), proptest::test_runner::TestCaseError> {
    let mut schedule = Schedule::new(case.workers);
    let pieces = pieces(case);
    let mut offered = 0;
    let mut chance = mix(case.seed, seed);
    let (mut model, mut first) = (KeyValues::new(), 0);
    let mut active: Vec<(u64, Vec<RunningTransaction<'_>>)> = Vec::new();
    let mut done = vec![false; pieces.len()];
    let mut steps = 0;
    loop {
        while let Some(number) = schedule.start() {
            let members = pieces[number as usize].0.iter().rev();
            let works = members.map(|index| RunningTransaction::new(*index, &case.transactions[*index]));
            active.push((number, works.collect()));
        }
        prop_assert_eq!(active.len(), schedule.running_count());
        prop_assert!(active.len() <= case.workers);
        if first == pieces.len() {
            break;
        }
        let is_at_work = active.iter().any(|(number, _)| *number == first as u64);
        prop_assert!(is_at_work || first == offered, "the first is not at work");
        steps += 1;
        chance = mix(chance, steps);
        // Offer groups one by one, between the other steps.
        if let Some((_, claim)) = pieces.get(offered)
            && (active.is_empty() || chance.is_multiple_of(3))
        {
            schedule.offer(claim.clone());
            offered += 1;
            continue;
        }
        let choice = (chance >> 32) as usize % active.len();
        let (number, works) = &mut active[choice];
        while works.last_mut().is_some_and(|work| !work.step(&mut model)) {
            works.pop();
        }
        let may_commit = !case.in_order || *number == first as u64;
        if works.is_empty() && may_commit {
            schedule.mark_committed(*number);
            done[*number as usize] = true;
            active.swap_remove(choice);
            while done.get(first) == Some(&true) {
                first += 1;
            }
        }
    }
    prop_assert_eq!(schedule.open_count(), 0);
    Ok((model, steps))
}

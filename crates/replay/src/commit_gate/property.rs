//! Property: for any behaviour of the workers, commits come in order and completely, and none follows a failure.

use proptest::collection::vec;
use proptest::prelude::proptest;
use proptest::prop_assert;
use proptest::strategy::{Just, Strategy};
use proptest::{prop_assert_eq, prop_oneof};

use super::{CommitDecision, CommitGate, CommitOrder, RetryDecision};

/// Activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerActivity {
    Applying,
    Waiting,
    Committing,
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct RandomStep {
    who: u8,
    luck: InjectedResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectedResult {
    Fine,
    Locked,
    Conflict,
    Hard,
}

fn choice() -> impl Strategy<Value = RandomStep> {
    let luck = prop_oneof![
        20 => Just(InjectedResult::Fine),
        3 => Just(InjectedResult::Locked),
        3 => Just(InjectedResult::Conflict),
        1 => Just(InjectedResult::Hard),
    ];
    (0..4_u8, luck).prop_map(|(who, luck)| RandomStep { who, luck })
}

struct GateSimulation {
    gate: CommitGate,
    workers: Vec<Option<(u64, WorkerActivity)>>,
    next: u64,
    committed: Vec<u64>,
    /// Consecutive failures of the first open group.
    unlucky: u32,
}

impl GateSimulation {
    /// Makes one worker do one step.
    fn step(&mut self, RandomStep { who, luck }: RandomStep, end: u64) {
        let who = usize::from(who);
        let Some((number, doing)) = self.workers[who] else {
            if self.next < end && self.gate.failed().is_none() {
                self.gate.begin(self.next);
                self.workers[who] = Some((self.next, WorkerActivity::Applying));
                self.next += 1;
            }
            return;
        };
        // Limits the failures: after more of them, the gate would give up the first open group.
        let is_first = number == self.gate.first_uncommitted();
        let luck = if is_first && luck == InjectedResult::Locked && self.unlucky >= 10 {
            InjectedResult::Fine
        } else {
            luck
        };
        let doing = match (doing, luck) {
            (WorkerActivity::Ended, _) => WorkerActivity::Ended,
            (WorkerActivity::Applying | WorkerActivity::Committing, InjectedResult::Locked) => {
                self.fail(number, 1205)
            }
            (WorkerActivity::Applying | WorkerActivity::Committing, InjectedResult::Hard) => {
                self.fail(number, 1062)
            }
            (WorkerActivity::Applying, InjectedResult::Conflict) => {
                for other in self.workers.iter().flatten() {
                    self.gate.resolve_conflict(number, other.0.max(number));
                }
                WorkerActivity::Applying
            }
            (WorkerActivity::Applying, InjectedResult::Fine) => {
                self.gate.mark_applied(number);
                WorkerActivity::Waiting
            }
            (WorkerActivity::Committing, _) => {
                self.gate.mark_committed(number);
                self.committed.push(number);
                self.unlucky = 0;
                WorkerActivity::Ended
            }
            (WorkerActivity::Waiting, _) => self.turn(number),
        };
        self.workers[who] = if doing == WorkerActivity::Ended { None } else { Some((number, doing)) };
    }

    fn fail(&mut self, number: u64, code: u16) -> WorkerActivity {
        self.unlucky += u32::from(number == self.gate.first_uncommitted());
        match self.gate.fail(number, code) {
            RetryDecision::Retry { .. } => WorkerActivity::Waiting,
            RetryDecision::Stop => WorkerActivity::Ended,
        }
    }

    fn turn(&mut self, number: u64) -> WorkerActivity {
        match self.gate.decide(number) {
            CommitDecision::Wait => WorkerActivity::Waiting,
            CommitDecision::Commit => WorkerActivity::Committing,
            CommitDecision::Abandon => WorkerActivity::Ended,
            CommitDecision::RollBack => {
                self.gate.mark_rolled_back(number);
                WorkerActivity::Waiting
            }
            CommitDecision::Apply => {
                self.gate.begin(number);
                WorkerActivity::Applying
            }
        }
    }
}

proptest! {
    #[test]
    fn commits_come_in_order(
        order in prop_oneof![Just(CommitOrder::Strict), Just(CommitOrder::Grouped), Just(CommitOrder::Any)],
        choices in vec(choice(), 0..400),
        end in 1..20_u64,
    ) {
        let (gate, workers) = (CommitGate::new(order), vec![None; 4]);
        let mut run = GateSimulation { gate, workers, next: 0, committed: Vec::new(), unlucky: 0 };
        for choice in choices {
            run.step(choice, end);
        }
        // From here on nothing fails, and all workers must finish.
        for turn in 0..400_u16 {
            run.step(RandomStep { who: (turn % 4) as u8, luck: InjectedResult::Fine }, end);
        }
        prop_assert!(run.workers.iter().all(Option::is_none), "a worker waits forever");
        let failed = run.gate.failed();
        match order {
            CommitOrder::Any => prop_assert!(failed.is_some() || run.committed.len() as u64 == end),
            _ => {
                let expected: Vec<u64> = (0..failed.unwrap_or(end)).collect();
                prop_assert_eq!(run.committed, expected);
            }
        }
    }
}

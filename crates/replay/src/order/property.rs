//! Property: for any behaviour of the workers, commits come in order and completely, and none follows a failure.

use proptest::collection::vec;
use proptest::prelude::proptest;
use proptest::prop_assert;
use proptest::strategy::{Just, Strategy};
use proptest::{prop_assert_eq, prop_oneof};

use super::{CommitOrder, Gate, Turn, Verdict};

/// Activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Applying,
    Waiting,
    Committing,
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Choice {
    who: u8,
    luck: Luck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Luck {
    Fine,
    Locked,
    Conflict,
    Hard,
}

fn choice() -> impl Strategy<Value = Choice> {
    let luck = prop_oneof![
        20 => Just(Luck::Fine),
        3 => Just(Luck::Locked),
        3 => Just(Luck::Conflict),
        1 => Just(Luck::Hard),
    ];
    (0..4_u8, luck).prop_map(|(who, luck)| Choice { who, luck })
}

struct Run {
    gate: Gate,
    workers: Vec<Option<(u64, Doing)>>,
    next: u64,
    committed: Vec<u64>,
    /// Consecutive failures of the first open group.
    unlucky: u32,
}

impl Run {
    /// Makes one worker do one step.
    fn step(&mut self, Choice { who, luck }: Choice, end: u64) {
        let who = usize::from(who);
        let Some((number, doing)) = self.workers[who] else {
            if self.next < end && self.gate.failed().is_none() {
                self.gate.begin(self.next);
                self.workers[who] = Some((self.next, Doing::Applying));
                self.next += 1;
            }
            return;
        };
        // Limited: after more failures the first open group would be given up.
        let is_first = number == self.gate.first();
        let luck = if is_first && luck == Luck::Locked && self.unlucky >= 10 { Luck::Fine } else { luck };
        let doing = match (doing, luck) {
            (Doing::Ended, _) => Doing::Ended,
            (Doing::Applying | Doing::Committing, Luck::Locked) => self.fail(number, 1205),
            (Doing::Applying | Doing::Committing, Luck::Hard) => self.fail(number, 1062),
            (Doing::Applying, Luck::Conflict) => {
                for other in self.workers.iter().flatten() {
                    self.gate.conflict(number, other.0.max(number));
                }
                Doing::Applying
            }
            (Doing::Applying, Luck::Fine) => {
                self.gate.applied(number);
                Doing::Waiting
            }
            (Doing::Committing, _) => {
                self.gate.committed(number);
                self.committed.push(number);
                self.unlucky = 0;
                Doing::Ended
            }
            (Doing::Waiting, _) => self.turn(number),
        };
        self.workers[who] = if doing == Doing::Ended { None } else { Some((number, doing)) };
    }

    fn fail(&mut self, number: u64, code: u16) -> Doing {
        self.unlucky += u32::from(number == self.gate.first());
        match self.gate.fail(number, code) {
            Verdict::Retry { .. } => Doing::Waiting,
            Verdict::Stop => Doing::Ended,
        }
    }

    fn turn(&mut self, number: u64) -> Doing {
        match self.gate.turn(number) {
            Turn::Wait => Doing::Waiting,
            Turn::Commit => Doing::Committing,
            Turn::Abandon => Doing::Ended,
            Turn::RollBack => {
                self.gate.rolled_back(number);
                Doing::Waiting
            }
            Turn::Apply => {
                self.gate.begin(number);
                Doing::Applying
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
        let (gate, workers) = (Gate::new(order), vec![None; 4]);
        let mut run = Run { gate, workers, next: 0, committed: Vec::new(), unlucky: 0 };
        for choice in choices {
            run.step(choice, end);
        }
        // From here on nothing fails, and all workers must finish.
        for turn in 0..400_u16 {
            run.step(Choice { who: (turn % 4) as u8, luck: Luck::Fine }, end);
        }
        prop_assert!(run.workers.iter().all(Option::is_none), "a worker waits forever");
        let failed = run.gate.failed();
        match order {
            CommitOrder::Any => prop_assert!(failed.is_some() || run.committed.len() as u64 == end),
            _ => {
                let wanted: Vec<u64> = (0..failed.unwrap_or(end)).collect();
                prop_assert_eq!(run.committed, wanted);
            }
        }
    }
}

//! Scripts for the commit gate.
//!
//! Each file of `scripts` is a script. `gate order=grouped` makes a new gate; each line of `do` is a step: `begin 1`,
//! `applied 1`, `ordered 1`, `committed 1`, `rolled-back 1`, `fail 1 1205`, `lose 1`, `conflict 1 2` (1 waits for 2),
//! or just `turns`. Below each line is its answer, if it has one, and the decision for each group that has begun and
//! need not wait. `REWRITE=1` rewrites the answers.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{CommitDecision, CommitGate, CommitOrder, RetryDecision};

#[test]
fn scripts() {
    let directory = std::path::Path::new("src/commit_gate/scripts");
    // The search reports no error for a missing directory: the test would pass without running a script.
    assert!(directory.is_dir(), "the scripts must be in {}", directory.display());
    datadriven::walk("src/commit_gate/scripts", |file| {
        let mut gate = CommitGate::new(CommitOrder::Any);
        let mut open = BTreeSet::new();
        file.run(|case| match case.directive.as_str() {
            "gate" => {
                let order: String = case.take_arg("order").unwrap();
                let order = match order.as_str() {
                    "strict" => CommitOrder::Strict,
                    "grouped" => CommitOrder::Grouped,
                    "any" => CommitOrder::Any,
                    other => panic!("{other} is no order"),
                };
                gate = CommitGate::new(order);
                open.clear();
                String::new()
            }
            "do" => case.input.lines().map(|line| step(&mut gate, &mut open, line)).collect(),
            other => panic!("{other} is no directive"),
        });
    });
}

fn step(gate: &mut CommitGate, open: &mut BTreeSet<u64>, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = words.get(1).map_or(0, |word| word.parse().unwrap());
    let mut answer = String::new();
    match words[0] {
        "begin" => {
            gate.begin(number);
            open.insert(number);
        }
        "applied" => gate.mark_applied(number),
        "ordered" => gate.mark_ordered(number),
        "committed" => {
            gate.mark_committed(number);
            open.remove(&number);
        }
        "rolled-back" => gate.mark_rolled_back(number),
        "conflict" => gate.resolve_conflict(number, words[2].parse().unwrap()),
        "fail" => {
            answer = match gate.fail(number, words[2].parse().unwrap()) {
                RetryDecision::Retry { after } => format!(" retry after {after:?};"),
                RetryDecision::Stop => " stop;".to_owned(),
            };
        }
        "lose" => {
            let decision = gate.lose(number);
            answer = format!(" {decision:?};");
        }
        "turns" => {}
        other => panic!("{other} is no step"),
    }
    for number in open.iter() {
        match gate.decide(*number) {
            CommitDecision::Wait => {}
            turn => write!(answer, " {number} {turn:?}").unwrap(),
        }
    }
    format!("{line}:{answer}\n")
}

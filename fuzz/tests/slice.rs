//! A short, repeatable run of fuzzing: earlier findings, and a fixed number of mutated seeds.

use std::panic::catch_unwind;

use fuzz::{TARGETS, Target, findings, mutate, samples, seeds};
use testkit::SeededRandom;

#[test]
fn earlier_findings_do_not_fail_again() {
    for target in TARGETS {
        for (path, bytes) in findings(target).unwrap() {
            run(target, &bytes, &path.display().to_string());
        }
    }
}

#[test]
fn mutated_seeds_do_not_fail() {
    let samples = samples().unwrap();
    for target in TARGETS {
        let seeds = seeds(target, &samples);
        assert!(!seeds.is_empty(), "no seeds for {}", target.name);
        for (number, seed) in seeds.iter().enumerate() {
            run(target, seed, &format!("seed {number} itself"));
        }
        for round in 0..target.rounds {
            let bytes = mutate(&seeds, &mut SeededRandom::new(round));
            run(target, &bytes, &format!("round {round}"));
        }
    }
}

/// Runs a target; a failure prints the input, so that it can be saved as a finding.
fn run(target: &Target, bytes: &[u8], description: &str) {
    let broke = catch_unwind(|| (target.check)(bytes)).is_err();
    assert!(!broke, "{}, {description}: {}", target.name, hex(bytes));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

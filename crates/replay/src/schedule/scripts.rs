//! Scripts for the schedule: groups offered, groups committed, and groups that start then.
//!
//! Each file of `scripts` is a script. A line of `offer` is a group: transactions joined by `+`. A transaction consists
//! of words:
//!
//! | word | meaning |
//! |---|---|
//! | `3/5` | `last_committed` is 3, `sequence_number` is 5 |
//! | `log=2` | in log 2 (default 1) |
//! | `db=a,b` | the databases that it changes |
//! | `key=a,b` `share=t` | the keys that it changes, and those that it shares; only `key=`: none |
//! | `session=7` | its session |
//! | `alone` | must run alone |
//!
//! A line of `commit` is a number. Below each line are the groups that start then. `REWRITE=1` rewrites the answers.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use super::{
    ChangedDatabases, ChangedKeys, ClaimBuilder, ClockError, Exclusivity, KeySet, ParallelMode, Schedule,
    ScheduleClaim, TransactionFootprint,
};
use binlog::events::LogicalClock;

struct ScheduleScript {
    claims: ClaimBuilder,
    schedule: Schedule,
    next: u64,
}

#[test]
fn scripts() {
    let directory = std::path::Path::new("src/schedule/scripts");
    // The search reports no error for a missing directory: the test would pass without running a script.
    assert!(directory.is_dir(), "the scripts must be in {}", directory.display());
    datadriven::walk("src/schedule/scripts", |file| {
        let mut script = ScheduleScript::new("none", 1);
        file.run(|case| {
            let input = case.input.as_str();
            match case.directive.as_str() {
                "schedule" => {
                    let mode: String = case.take_arg("mode").unwrap();
                    script = ScheduleScript::new(&mode, case.take_arg("workers").unwrap());
                    String::new()
                }
                "offer" => script.lines(input, ScheduleScript::offer),
                "commit" => script.lines(input, ScheduleScript::commit),
                other => panic!("{other} is no directive"),
            }
        });
    });
}

impl ScheduleScript {
    fn new(mode: &str, workers: usize) -> Self {
        let mode = match mode {
            "none" => ParallelMode::None,
            "database" => ParallelMode::Database,
            "logical-clock" => ParallelMode::LogicalClock,
            "writeset" => ParallelMode::Writeset,
            "writeset-session" => ParallelMode::WritesetSession,
            other => panic!("{other} is no mode"),
        };
        Self { claims: ClaimBuilder::new(mode), schedule: Schedule::new(workers), next: 0 }
    }

    fn lines(
        &mut self,
        input: &str,
        mut take: impl FnMut(&mut Self, &str) -> Result<(), ClockError>,
    ) -> String {
        let mut output = String::new();
        for line in input.lines() {
            let taken = take(self, line);
            let starts: Vec<String> =
                std::iter::from_fn(|| self.schedule.start()).map(|n| n.to_string()).collect();
            match (taken, starts.as_slice()) {
                (Err(error), _) => writeln!(output, "{line}: {error}").unwrap(),
                (Ok(()), []) => writeln!(output, "{line}: nothing").unwrap(),
                (Ok(()), starts) => writeln!(output, "{line}: {}", starts.join(" ")).unwrap(),
            }
        }
        output
    }

    fn commit(&mut self, line: &str) -> Result<(), ClockError> {
        self.schedule.mark_committed(line.parse().unwrap());
        Ok(())
    }

    fn offer(&mut self, line: &str) -> Result<(), ClockError> {
        let mut joined: Option<ScheduleClaim> = None;
        for words in line.split('+') {
            let claim = self.claims.claim(self.next, &footprint(words))?;
            self.next += 1;
            match &mut joined {
                Some(joined) => joined.join(claim),
                None => joined = Some(claim),
            }
        }
        self.schedule.offer(joined.unwrap());
        Ok(())
    }
}

fn footprint(words: &str) -> TransactionFootprint {
    let mut footprint = TransactionFootprint { log: 1, ..TransactionFootprint::default() };
    let mut keys: Option<KeySet> = None;
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("log", log)) => footprint.log = log.parse().unwrap(),
            Some(("db", names)) => {
                footprint.databases =
                    ChangedDatabases::Known(names.split(',').map(|name| name.as_bytes().into()).collect());
            }
            Some(("key", names)) => keys.get_or_insert_default().exclusive = hashes(names),
            Some(("share", names)) => keys.get_or_insert_default().shared = hashes(names),
            Some(("session", number)) => footprint.session = Some(number.parse().unwrap()),
            Some(other) => panic!("{other:?}"),
            None if word == "alone" => footprint.exclusivity = Exclusivity::Exclusive,
            None if word == "none" => {}
            None => {
                let (last_committed, sequence_number) = word.split_once('/').unwrap();
                let (last_committed, sequence_number) =
                    (last_committed.parse().unwrap(), sequence_number.parse().unwrap());
                footprint.clock = Some(LogicalClock { last_committed, sequence_number });
            }
        }
    }
    footprint.keys = keys.map_or(ChangedKeys::Unknown, ChangedKeys::Known);
    footprint
}

fn hashes(names: &str) -> Vec<u64> {
    let hash = |name: &str| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        hasher.finish()
    };
    names.split(',').filter(|name| !name.is_empty()).map(hash).collect()
}

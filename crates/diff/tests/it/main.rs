//! Comparisons of small logs, and of the samples.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the verdict")]

mod samples;
mod text_log;

use std::ops::ControlFlow;
use std::path::PathBuf;

use diff::{DiffError, DiffSettings, DiffStore, FirstDifference, PartSummary, StoreDiff, compare_stores};
use logs::GtidSelection;
use text_log::{WriterTraits, write_log};

/// Compares two stores of one log each, which are written as in [`write_log`].
fn check(a: &str, b: &str, expected: &str) {
    check_logs(&[a], &[b], expected);
}

/// Compares two stores of logs.
fn check_logs(a: &[&str], b: &[&str], expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    let store = |name: &str, logs: &[&str], traits: &WriterTraits| {
        let logs = logs.iter().enumerate().map(|(number, text)| {
            let path = directory.path().join(format!("{name}.{:06}", number + 1));
            std::fs::write(&path, write_log(text, traits)).unwrap();
            path
        });
        DiffStore { name: name.to_owned(), logs: logs.collect(), keyring: None }
    };
    let one = WriterTraits { server_id: 1, first_table_id: 90, time: 1_700_000_000 };
    let other = WriterTraits { server_id: 2, first_table_id: 500, time: 1_800_000_000 };
    let diff = compare([store("a", a, &one), store("b", b, &other)]);
    assert_eq!(show(&diff), expected, "{a:?} and {b:?}");
}

fn compare(stores: [DiffStore; 2]) -> StoreDiff {
    try_compare(stores).unwrap()
}

fn try_compare(stores: [DiffStore; 2]) -> Result<StoreDiff, DiffError> {
    let settings = DiffSettings { stores, gtids: GtidSelection::default(), listed_max: 10 };
    compare_stores(&settings, &mut |_| ControlFlow::Continue(()))
}

/// Shows a result in one line.
fn show(diff: &StoreDiff) -> String {
    let mut parts = vec![format!("{} common", diff.common)];
    let numbers = |ranges: &diff::TransactionRanges| {
        ranges.to_string().replace("00000000-0000-0000-0000-000000000001:", "")
    };
    for (letter, missing) in ["A", "B"].into_iter().zip(&diff.missing) {
        if !missing.transactions.is_empty() {
            parts.push(format!("{letter} only: {}", numbers(&missing.transactions)));
            if missing.before_first_common > 0 {
                parts.push(format!("{} at the start", missing.before_first_common));
            }
            if missing.after_last_common > 0 {
                parts.push(format!("{} at the end", missing.after_last_common));
            }
        }
    }
    for (letter, purged) in ["A", "B"].into_iter().zip(&diff.purged) {
        if !purged.is_empty() {
            parts.push(format!("{letter} purged elsewhere: {}", numbers(purged)));
        }
    }
    for transaction in &diff.content.listed {
        let id = transaction.id.to_string();
        let id = id.rsplit(':').next().unwrap_or_default();
        let first = transaction.first.as_ref().map(show_first).unwrap_or_default();
        parts.push(format!("{id} differs{}: {first}", transaction.tables.join(",").replace("d.", " in d.")));
    }
    if diff.order.moved > 0 {
        parts.push(format!("{} moved", diff.order.moved));
    }
    for (letter, store) in ["A", "B"].into_iter().zip(&diff.stores) {
        if store.repeated > 0 {
            parts.push(format!("{} repeated in {letter}", store.repeated));
        }
        if store.incomplete > 0 {
            parts.push(format!("{} incomplete in {letter}", store.incomplete));
        }
    }
    parts.join("; ")
}

fn show_first(first: &FirstDifference) -> String {
    let part = |part: &Option<PartSummary>| match part {
        None => "-".to_owned(),
        Some(PartSummary::Rows { kind, rows, .. }) => format!("{rows} {kind:?}"),
        Some(PartSummary::Statement { sql, .. }) => sql.clone(),
        Some(PartSummary::Other(what)) => what.clone(),
    };
    let [a, b] = first.parts.each_ref().map(part);
    format!("statement {} {}: {a} <> {b}", first.statement, first.kind.name())
}

#[test]
fn equal_transactions() {
    check("", "", "0 common");
    check("1 +t 1 2", "1 +t 1 2", "1 common");
    // The order of rows and their distribution over events do not matter.
    check("1 +t 1 2 3", "1 +t 3 / 1 / 2", "1 common");
    check("1 ~t 1>2 3>4 ; -u 5", "1 ~t 3>4 / 1>2 ; -u 5", "1 common");
    check("1 create table x (a int)", "1 create table x (a int)", "1 common");
}

#[test]
fn other_content() {
    check("1 +t 1 2", "1 +t 1 3", "1 common; 1 differs in d.t: statement 1 row_values: 2 Write <> 2 Write");
    check(
        "1 +t 1 1 2",
        "1 +t 1 2 2",
        "1 common; 1 differs in d.t: statement 1 row_values: 3 Write <> 3 Write",
    );
    check("1 +t 1 2", "1 +t 1 2 2", "1 common; 1 differs in d.t: statement 1 row_count: 2 Write <> 3 Write");
    check("1 ~t 1>2", "1 ~t 2>1", "1 common; 1 differs in d.t: statement 1 row_values: 1 Update <> 1 Update");
    check("1 +t 1", "1 -t 1", "1 common; 1 differs in d.t: statement 1 statement: 1 Write <> 1 Delete");
    check(
        "1 +t 1",
        "1 +u 1",
        "1 common; 1 differs in d.t, in d.u: statement 1 statement: 1 Write <> 1 Write",
    );
    check(
        "1 +t 1 ; +t 2",
        "1 +t 2 ; +t 1",
        "1 common; 1 differs in d.t: statement 1 row_values: 1 Write <> 1 Write",
    );
    check("1 +t 1", "1 +t 1 ; +t 2", "1 common; 1 differs in d.t: statement 2 end: COMMIT <> 1 Write");
    check(
        "1 +t 1 ; +t 2",
        "1 +t 1 2",
        "1 common; 1 differs in d.t: statement 1 row_count: 1 Write <> 2 Write",
    );
    check("1 +t 1", "1 +t:big 1", "1 common; 1 differs in d.t: statement 1 column_types: 1 Write <> 1 Write");
    check(
        "1 +t 1",
        "1 +t 1 ; rollback",
        "1 common; 1 differs in d.t: statement 2 outcome: COMMIT <> ROLLBACK",
    );
    check(
        "1 drop table x",
        "1 drop table y",
        "1 common; 1 differs: statement 1 text: drop table x <> drop table y",
    );
    check(
        "1 drop table x",
        "1 +t 1",
        "1 common; 1 differs in d.t: statement 1 statement: drop table x <> 1 Write",
    );
}

#[test]
fn missing_and_purged_transactions() {
    check("1 +t 1 | 2 +t 2", "1 +t 1", "1 common; A only: 2; 1 at the end");
    check("1 +t 1 | 2 +t 2 | 3 +t 3", "1 +t 1 | 3 +t 3", "2 common; A only: 2");
    check("2 +t 2", "1 +t 1 | 2 +t 2", "1 common; B only: 1; 1 at the start");
    check("previous 1 | 2 +t 2", "1 +t 1 | 2 +t 2", "1 common; B purged elsewhere: 1");
    check("previous 1-5 | 6 +t 2", "previous 1 | 2 +t 2", "0 common; A only: 6; B purged elsewhere: 2");
    // A transaction that is given twice counts once.
    check("1 +t 1 | 1 +t 1 | 2 +t 2", "1 +t 1 | 2 +t 2", "2 common; 1 repeated in A");
    check("1 +t 1 | 2 open", "1 +t 1", "1 common; 1 incomplete in A");
}

#[test]
fn gtids_purged_between_two_logs_are_not_missing() {
    let a = ["1 +t 1 | 2 +t 2 | 3 +t 3"];
    check_logs(&a, &["previous", "previous 1-2 | 3 +t 3"], "1 common; A purged elsewhere: 1-2");
    check_logs(&a, &["previous | 1 +t 1", "previous 1 | 2 +t 2 | 3 +t 3"], "3 common");
}

#[test]
fn order() {
    check("1 +t 1 | 2 +t 2 | 3 +t 3", "1 +t 1 | 3 +t 3 | 2 +t 2", "3 common; 1 moved");
    check("1 +t 1 | 2 +t 2 | 3 +t 3", "3 +t 3 | 1 +t 1 | 2 +t 2", "3 common; 1 moved");
    check(
        "1 +t 1 | 2 +t 2 | 4 +t 4",
        "4 +t 4 | 3 +t 3 | 2 +t 2",
        "2 common; A only: 1; 1 at the start; B only: 3; 1 moved",
    );
}

#[test]
fn transactions_without_gtids_are_compared_by_content() {
    check("- +t 1 | - +t 2", "- +t 1 | - +t 2", "2 common");
    check("- +t 1 | - +t 2 | - +t 3", "- +t 1 | - +t 3", "2 common; A only: 1 without a GTID");
    check(
        "- +t 1 | - +t 2 | - +t 3",
        "- +t 1 | - +t 4 | - +t 3",
        "3 common; ANONYMOUS differs in d.t: statement 1 row_values: 1 Write <> 1 Write",
    );
    check("- +t 2 | - +t 3", "- +t 1 | - +t 2 | - +t 3", "2 common; B purged elsewhere: 1 without a GTID");
    check("- +t 1 | - +t 2", "- +t 1", "1 common; A only: 1 without a GTID; 1 at the end");
    check("- +t 1 | - +t 1 | - +t 1", "- +t 1 | - +t 1", "2 common; A only: 1 without a GTID; 1 at the end");
}

#[test]
fn damage_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let traits = WriterTraits { server_id: 1, first_table_id: 90, time: 0 };
    let mut log = write_log("1 +t 1 2 3", &traits);
    let store = |log: &[u8]| {
        let path = directory.path().join("log");
        std::fs::write(&path, log).unwrap();
        DiffStore { name: "store".to_owned(), logs: vec![path], keyring: None }
    };
    let sound = store(&log);
    assert!(try_compare([sound.clone(), sound]).is_ok());
    let middle = log.len() - 60;
    log[middle] ^= 1;
    let damaged = store(&log);
    let error = try_compare([damaged.clone(), damaged]).unwrap_err();
    assert!(matches!(error, DiffError::Log(_)), "{error}");
    let none = DiffStore { name: String::new(), logs: vec![PathBuf::from("/none")], keyring: None };
    let error = try_compare([none.clone(), none]).unwrap_err();
    assert!(error.to_string().contains("/none"), "{error}");
}

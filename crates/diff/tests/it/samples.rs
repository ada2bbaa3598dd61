//! Samples that real servers wrote from the same script, in different forms.

use std::path::{Path, PathBuf};

use diff::DiffStore;
use logs::{Store, read_keyring};

use crate::{compare, show, try_compare};

/// Compares two samples: logs or directories.
fn check(a: &str, b: &str, expected: &str) {
    assert_eq!(show(&compare([a, b].map(sample))), expected, "{a} and {b}");
}

fn sample(name: &str) -> DiffStore {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name);
    let keyring = path.join("keyring");
    let keyring = keyring.exists().then(|| read_keyring(&keyring).unwrap().into());
    let logs: Vec<PathBuf> = match path.is_dir() {
        true => Store::open(&path).unwrap().logs().to_vec(),
        false => vec![path],
    };
    DiffStore { name: name.to_owned(), logs, keyring }
}

#[test]
fn forms_of_the_same_transactions_are_equal() {
    check("types.binlog", "types-compressed.binlog", "58 common");
    check("charsets.binlog", "charsets-full-metadata.binlog", "14 common");
    check("json-partial.binlog", "json-partial-compressed.binlog", "23 common");
    check("triggers.binlog", "triggers-compressed.binlog", "23 common");
    check("xa.binlog", "xa-compressed.binlog", "16 common");
    check("large.binlog", "large-level-22.binlog", "8 common");
    check("anonymous.binlog", "anonymous-compressed.binlog", "20 common");
    check("mariadb.binlog", "mariadb-compressed.binlog", "27 common");
    check("mariadb.binlog", "mariadb-annotate.binlog", "27 common");
    check("mariadb-statements.binlog", "mariadb-statements-compressed.binlog", "27 common");
    check("gtids", "gtids-compressed", "16 common");
    check("encrypted", "encrypted-compressed", "5 common");
    check("relay", "relay-compressed", "8 common");
}

#[test]
fn server_settings_that_change_the_content_are_named() {
    let check = |a: &str, b: &str, expected: &str| {
        let diff = compare([a, b].map(sample));
        let first = diff.content.listed.first().and_then(|transaction| transaction.first.as_ref());
        assert_eq!(first.map(|first| first.kind.name()), Some(expected), "{a} and {b}");
    };
    check("json.binlog", "json-partial.binlog", "json_form");
    check("foreign-keys.binlog", "foreign-keys-minimal.binlog", "columns");
    check("triggers.binlog", "triggers-statements.binlog", "statement");
    check("load-data.binlog", "load-data-rows.binlog", "statement");
}

/// Without checksums, changed bytes reach the decoders of events and rows.
#[test]
fn damaged_logs_never_panic() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["mariadb.binlog", "mariadb-compressed.binlog", "torn.binlog"] {
        let original = sample(name);
        let bytes = std::fs::read(&original.logs[0]).unwrap();
        let path = directory.path().join(name);
        let store = DiffStore { logs: vec![path.clone()], ..original.clone() };
        for at in (0..bytes.len()).step_by(13) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            for damaged in [&changed[..], &bytes[..at]] {
                std::fs::write(&path, damaged).unwrap();
                let _ = try_compare([original.clone(), store.clone()]);
            }
        }
    }
}

#[test]
fn purged_transactions_are_not_missing() {
    let uuid = "5ea5ca5e-0001-4000-8000-000000000001";
    let expected = format!("2 common; A only: {uuid}:7-9; 3 at the end; A purged elsewhere: {uuid}:1-5");
    check("rotation", "rotation/binlog.000004", &expected);
    let expected = "1 common; A purged elsewhere: 1-1-1 to 1-1-3, 2-77-1, 4294967295-77-18446744073709551000";
    check("mariadb-gtids", "mariadb-gtids/binlog.000002", expected);
}

//! Lists of every sample log.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use list::{ListError, ListFormat, ListSettings, ListSource, list};
use serde_json::Value;

fn samples() -> Vec<PathBuf> {
    let mut samples = below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples"));
    samples.retain(|path| fs::read(path).unwrap().starts_with(&[0xfe, b'b', b'i', b'n']));
    assert!(samples.len() > 60);
    samples
}

fn below(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|found| found.unwrap().path()).collect();
    paths.sort();
    let below = |path: PathBuf| if path.is_dir() { below(&path) } else { vec![path] };
    paths.into_iter().flat_map(below).collect()
}

fn settings(form: ListFormat, path: &Path, jobs: usize) -> ListSettings {
    let mut settings = ListSettings::new(form, vec![ListSource::File(path.to_owned())]);
    settings.jobs = NonZeroUsize::new(jobs).unwrap();
    settings
}

fn text(settings: &ListSettings) -> Result<String, ListError> {
    let mut out = Vec::new();
    list(settings, &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

const FORMS: [ListFormat; 4] =
    [ListFormat::Events, ListFormat::Json, ListFormat::Transactions, ListFormat::TransactionsJson];

#[test]
fn more_threads_make_no_difference() {
    for path in samples() {
        for form in FORMS {
            let one = text(&settings(form, &path, 1)).unwrap();
            let many = text(&settings(form, &path, 5)).unwrap();
            let is_transactions = matches!(form, ListFormat::Transactions | ListFormat::TransactionsJson);
            assert!(is_transactions || one.lines().count() > 1, "{}", path.display());
            assert!(one == many, "{form:?} {}", path.display());
        }
    }
}

#[test]
fn every_event_is_a_line_of_json() {
    for path in samples() {
        let table = text(&settings(ListFormat::Events, &path, 1)).unwrap();
        let lines = text(&settings(ListFormat::Json, &path, 1)).unwrap();
        assert_eq!(lines.lines().count() + 1, table.lines().count(), "{}", path.display());
        for (line, row) in lines.lines().zip(table.lines().skip(1)) {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let mut cells = row.split('\t');
            let mut cell = || cells.next().unwrap();
            assert_eq!(line["log_name"], cell());
            // The table gives events of a payload the position of the payload's end.
            let position: u64 = cell().parse().unwrap();
            match line["inner"].is_null() {
                true => assert_eq!(line["pos"], position),
                false => assert!(line["pos"].as_u64() < Some(position)),
            }
            assert_eq!(line["event_type"], cell());
            assert_eq!(line["server_id"].to_string(), cell());
            assert_eq!(line["end_log_pos"].to_string(), cell());
            assert!(line["time"].as_str().unwrap().ends_with('Z'));
        }
    }
}

/// An endless number of table maps in one statement: refused where the next chunk starts, before memory fills.
#[test]
fn too_many_table_maps_are_an_error() {
    let log = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types.binlog")).unwrap();
    let size = |at: usize| u32::from_le_bytes(log[at + 9..at + 13].try_into().unwrap()) as usize;
    let mut at = 4;
    while log[at + 4] != 19 {
        at += size(at);
    }
    let (map, after) = (&log[at..at + size(at)], at + size(at));
    let hostile: Vec<u8> = [&log[..after], &map.repeat(20_000), &log[after..]].concat();
    for form in FORMS {
        for jobs in [1, 2] {
            let mut settings = ListSettings::new(
                form,
                vec![ListSource::Bytes("hostile".to_owned(), hostile.clone().into())],
            );
            settings.jobs = NonZeroUsize::new(jobs).unwrap();
            let error = text(&settings).unwrap_err().to_string();
            assert!(error.contains("number of table maps of one statement"), "{error}");
        }
    }
}

//! Options of `bintide dump` that request lists, and options that work with lists and with the text.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use mysqlbinlog::remote::NoServerAccess;
use mysqlbinlog::{DumpDialect, StandardStreams, run};
use serde_json::Value;

use super::DumpLists;

/// Returns output, errors and exit code.
fn dump(args: &str, sample: &str) -> (String, String, u8) {
    let mut output = Vec::new();
    let (error, code) = dump_to(&mut output, args, sample);
    (String::from_utf8_lossy(&output).into_owned(), error, code)
}

fn dump_to(output: &mut (dyn Write + Send), args: &str, sample: &str) -> (String, u8) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(sample);
    dump_logs_to(output, DumpDialect::Bintide, args, &[path])
}

fn dump_logs(dialect: DumpDialect, args: &str, logs: &[PathBuf]) -> (String, String, u8) {
    let mut output = Vec::new();
    let (error, code) = dump_logs_to(&mut output, dialect, args, logs);
    (String::from_utf8_lossy(&output).into_owned(), error, code)
}

fn dump_logs_to(
    output: &mut (dyn Write + Send),
    dialect: DumpDialect,
    args: &str,
    logs: &[PathBuf],
) -> (String, u8) {
    let words = ["dump", "--no-defaults"].into_iter().chain(args.split_whitespace()).map(OsString::from);
    let mut error = Vec::new();
    let streams = StandardStreams {
        input: &mut io::empty(),
        output,
        error: &mut error,
        servers: &mut NoServerAccess,
        lists: &mut DumpLists::default(),
    };
    let code = run(dialect, words.chain(logs.iter().map(|log| log.clone().into_os_string())), streams);
    (String::from_utf8_lossy(&error).into_owned(), code)
}

fn lines(args: &str, sample: &str) -> Vec<Value> {
    let (output, error, code) = dump(args, sample);
    assert_eq!((error.as_str(), code), ("", 0), "{args}");
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks the number of lines, and of rows in them.
#[track_caller]
fn check(args: &str, sample: &str, expected: (usize, usize)) {
    let lines = lines(&format!("--quiet --json {args}"), sample);
    let rows = lines.iter().filter_map(|line| line["rows"].as_array()).map(Vec::len).sum();
    assert_eq!((lines.len(), rows), expected, "{args}");
}

const NAMED: &str = "types-full-metadata.binlog";

#[test]
fn filters_select_tables_and_values() {
    // Row 3 is inserted, and later changed.
    let all = lines("--json --table=types.integers", NAMED);
    assert!(all.iter().all(|line| line["table"] == "integers"));
    let rows: usize = all.iter().filter_map(|line| line["rows"].as_array()).map(Vec::len).sum();
    check("--table=types.integers", NAMED, (all.len(), rows));
    check("--table=t*s.int?gers", NAMED, (all.len(), rows));
    check("--table=integers", NAMED, (all.len(), rows));
    check("--table=types.nothing", NAMED, (0, 0));
    check("--table=integers --where=id=3 --where=tiny=-1", NAMED, (2, 2));
    check("--table=integers --where=ID=3 --where=tiny=-2", NAMED, (0, 0));
    let by_name = lines("--json --table=integers --where=id=1", NAMED);
    let by_number = lines("--json --table=integers --where=@1=1", NAMED);
    let by_key = lines("--json --table=integers --where=pk=1", NAMED);
    assert!(!by_name.is_empty());
    assert_eq!(by_name, by_number);
    assert_eq!(by_name, by_key);
    for line in &by_name {
        for row in line["rows"].as_array().unwrap() {
            assert!(row["before"]["id"] == 1 || row["after"]["id"] == 1, "{row}");
        }
    }
    let (_, error, code) = dump("--json --where=id=1", "types.binlog");
    assert!(code == 1 && error.contains("has no column names"), "{error}");
}

#[test]
fn transactions_are_chosen() {
    let sample = "gtids/binlog.000001";
    let all = lines("--json --transactions", sample);
    let gtid = all[2]["gtid"].as_str().unwrap().to_owned();
    let one = lines(&format!("--json --transactions --gtid={gtid}"), sample);
    assert_eq!(one, [all[2].clone()]);
    for line in lines(&format!("--json --gtid={gtid}"), sample) {
        assert_eq!(line["gtid"], gtid.as_str());
    }
    let others = lines(&format!("--json --transactions --exclude-gtids={gtid}"), sample);
    assert_eq!(others.len(), all.len() - 1);
    let (text, _, code) = dump(&format!("--gtid={gtid}"), sample);
    let (included, ..) = dump(&format!("--include-gtids={gtid}"), sample);
    assert_eq!((code, &text), (0, &included));
    assert_eq!(text.matches("SET @@SESSION.GTID_NEXT= '5").count(), 1);
    assert_eq!(lines("--json --transactions --database=none", sample).len(), 0);
    let of_database = lines("--json --transactions --database=gtids", sample);
    let is_definition = |line: &Value| line["kind"] == "statement";
    assert!(of_database.iter().any(is_definition) && !of_database.iter().all(is_definition));
    let with_rows = lines("--json --transactions --table=gtids.t", sample);
    assert!(!with_rows.is_empty() && with_rows.len() < all.len());
}

#[test]
fn positions_cut_the_list() {
    let all = lines("--json", NAMED);
    let start = all[4]["pos"].as_u64().unwrap();
    let stop = all[9]["pos"].as_u64().unwrap();
    assert_eq!(lines(&format!("--json -j {start} --stop-position={stop}"), NAMED), all[4..9]);
    assert_eq!(lines("--json --offset=7", NAMED), all[7..]);
    assert_eq!(lines("--json --server-id=77", NAMED), [] as [Value; 0]);
}

#[test]
fn directories_and_indexes_give_the_same_logs() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let logs: Vec<PathBuf> =
        (1..=6).map(|number| samples.join(format!("rotation/binlog.{number:06}"))).collect();
    for args in ["-vv", "--json", "--events", "--transactions", "-j 158 --stop-position=158"] {
        let expected = dump_logs(DumpDialect::Bintide, args, &logs);
        assert!(expected.0.lines().count() > 5 && expected.2 == 0, "{args}: {expected:?}");
        for store in ["rotation", "rotation/", "rotation/binlog.index"] {
            let found = dump_logs(DumpDialect::Bintide, args, &[samples.join(store)]);
            assert_eq!(found, expected, "{args} {store}");
        }
    }
    // mysqlbinlog accepts only files.
    let (_, error, code) = dump_logs(DumpDialect::Mysqlbinlog, "", &[samples.join("rotation")]);
    assert!(code == 1 && error.contains("Is a directory"), "{error}");
}

#[test]
fn inconsistent_indexes_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let store = [directory.path().to_owned()];
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types.binlog");
    fs::copy(&sample, directory.path().join("binlog.000001")).unwrap();
    let index = directory.path().join("binlog.index");
    fs::write(&index, "./binlog.000001\n./binlog.000002\n").unwrap();
    for (args, expected) in [("", 1), ("--json", 2)] {
        let (output, error, code) = dump_logs(DumpDialect::Bintide, args, &store);
        assert!(error.contains("binlog.000002 does not exist, but "), "{error}");
        assert_eq!((output.as_str(), code), ("", expected), "{args}");
    }
    fs::write(&index, "./binlog.000001\n").unwrap();
    fs::copy(&sample, directory.path().join("binlog.000002")).unwrap();
    let expected = dump_logs(DumpDialect::Bintide, "--json", &[directory.path().join("binlog.000001")]).0;
    let (output, error, code) = dump_logs(DumpDialect::Bintide, "--json", &store);
    assert!(output == expected && code == 0, "{error}");
    assert!(error.contains("binlog.000002 is not listed in the index and was not read"), "{error}");
    assert_eq!(dump_logs(DumpDialect::Bintide, "--json --quiet", &store).1, "");
}

#[test]
fn contradictory_options_are_refused() {
    for (args, expected) in [
        ("--events --json", "--events cannot be combined"),
        ("--events --transactions", "--events cannot be combined"),
        ("--where=id=1", "--where requires"),
        ("--json --where=id", "invalid condition"),
        ("--json --rewrite-db=a->b", "--rewrite-db cannot be combined"),
        ("--json --require-row-format", "--require-row-format cannot be combined"),
        ("--json --gtid=x", "--gtid"),
        ("--json --keyring=/nowhere", "keyring"),
    ] {
        let (output, error, code) = dump(args, NAMED);
        assert_eq!((output.as_str(), code), ("", 2), "{args}");
        assert!(error.contains(expected), "{args}: {error}");
    }
}

#[test]
fn filters_without_a_match_warn() {
    for (args, sample) in [
        ("--json --table=types.nothing", NAMED),
        ("--json --table=types.integers --where=id=77", NAMED),
        ("--events --where=@1=NULL --table=integers", NAMED),
        ("--transactions --table=no.thing", NAMED),
        ("--json --transactions --gtid=5ea5ca5e-0001-4000-8000-000000000001:99", "gtids/binlog.000001"),
        ("--table=types.nothing", NAMED),
        ("-vv --gtid=5ea5ca5e-0001-4000-8000-000000000001:99", "gtids/binlog.000001"),
    ] {
        let filters: Vec<&str> = args
            .split(' ')
            .filter(|word| ["--table", "--where", "--gtid"].iter().any(|name| word.starts_with(name)))
            .collect();
        let (_, error, code) = dump(args, sample);
        assert_eq!(code, 0, "{args}");
        assert!(error.starts_with("WARNING: nothing in these logs matches "), "{args}: {error}");
        assert!(filters.iter().all(|filter| error.contains(filter)), "{args}: {error}");
        assert_eq!(dump(&format!("--quiet {args}"), sample).1, "", "{args}");
    }
    // Neither a filter that matched nor a filter of mysqlbinlog causes a warning.
    for (args, sample) in [
        ("--table=types.integers", NAMED),
        ("--gtid=5ea5ca5e-0001-4000-8000-000000000001:1", "gtids/binlog.000001"),
        ("--json --server-id=77", NAMED),
        ("--include-gtids=5ea5ca5e-0001-4000-8000-000000000001:99", "gtids/binlog.000001"),
    ] {
        assert_eq!(dump(args, sample).1, "", "{args}");
    }
}

#[test]
fn a_column_that_no_table_has_is_an_error() {
    for (args, column) in [
        ("--json --where=no_such_column=1", "no_such_column=1"),
        ("--events --where=@99=1", "@99=1"),
        ("--transactions --table=types.integers --where=id=1 --where=idd=1", "idd=1"),
        ("--quiet --json --jobs=3 --where=no_such_column=1", "no_such_column=1"),
    ] {
        let (_, error, code) = dump(args, NAMED);
        let expected = format!("ERROR: no selected table in these logs has the column of --where={column}: ");
        assert!(code == 1 && error.starts_with(&expected), "{args}: {code} {error}");
    }
    let (_, error, _) = dump("--json --table=types.integers --where=@99=1", NAMED);
    assert!(error.contains("columns; write @N=VALUE with N from 1 to "), "{error}");
    // Without a table, no column is missing.
    let (_, error, code) = dump("--json --table=no.thing --where=no_such_column=1", NAMED);
    assert!(code == 0 && error.starts_with("WARNING: nothing in these logs matches "), "{error}");
}

#[test]
fn options_that_only_affect_text_are_named() {
    let (_, error, code) = dump("--json -vv --hexdump --skip-gtids --force-if-open", NAMED);
    let expected = "WARNING: --hexdump, --skip-gtids and --verbose have no effect with --json\n";
    assert_eq!((error.as_str(), code), (expected, 0));
    let (_, error, _) = dump("--events --base64-output=decode-rows", NAMED);
    assert!(error.starts_with("WARNING: --base64-output has no effect with --events"), "{error}");
    assert_eq!(dump("-vv --hexdump", NAMED).1, "");
}

#[test]
fn color_adds_only_escape_sequences() {
    for args in ["--events", "--json", "--transactions", "--json --transactions", "-vv"] {
        let (plain, ..) = dump(args, NAMED);
        let (coloured, ..) = dump(&format!("--color=always {args}"), NAMED);
        assert_ne!(plain, coloured, "{args}");
        assert_eq!(plain, without_colour(&coloured), "{args}");
        assert_eq!(plain, dump(&format!("--color=never {args}"), NAMED).0, "{args}");
    }
}

fn without_colour(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').unwrap().1)
}

/// Returns the rows of a sample: before and after image, and whether the change was partial.
fn rows(sample: &str) -> Vec<(Value, Value, bool)> {
    let of_line = |line: Value| line["rows"].as_array().cloned().unwrap_or_default();
    let parts = |row: Value| (row["before"].clone(), row["after"].clone(), !row["changes"].is_null());
    lines("--json", sample).into_iter().flat_map(of_line).map(parts).collect()
}

#[test]
fn json_changes_produce_the_full_documents() {
    for (whole, partial) in [
        ("json.binlog", "json-partial.binlog"),
        ("json.binlog", "json-partial-compressed.binlog"),
        ("json-large.binlog", "json-large-partial.binlog"),
    ] {
        let (whole, partial) = (rows(whole), rows(partial));
        assert!(whole.iter().all(|row| !row.2) && partial.iter().any(|row| row.2));
        assert_eq!(whole.len(), partial.len());
        for (whole, partial) in whole.iter().zip(&partial) {
            assert_eq!((&whole.0, &whole.1), (&partial.0, &partial.1));
        }
    }
}

#[test]
fn encrypted_logs_are_listed() {
    let keyring = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/encrypted/keyring");
    let listed = lines(&format!("--json --keyring={}", keyring.display()), "encrypted/binlog.000001");
    assert!(listed.len() > 2);
    assert_eq!(dump("--json", "encrypted/binlog.000001").2, 2);
}

/// Accepts some bytes, then reports a closed pipe.
struct Pager(usize);

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_output_is_no_error() {
    for args in ["--events", "--json", "--transactions", "--json --transactions", "-vv"] {
        for size in [0, 10, 1000] {
            let ended = dump_to(&mut Pager(size), args, NAMED);
            assert_eq!(ended, (String::new(), 0), "{args} {size}");
        }
    }
}

//! bintide's own options for mysqlbinlog's text.

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use mysqlbinlog::list_provider::NoLists;
use mysqlbinlog::remote::NoServerAccess;
use mysqlbinlog::{DumpDialect, OptionPreset, StandardStreams, run_with};

/// Returns output, errors and exit code.
fn dump(dialect: DumpDialect, args: &str, log: &Path, presets: &[OptionPreset]) -> (String, String, u8) {
    let words = ["dump", "--no-defaults"].into_iter().chain(args.split_whitespace()).map(OsString::from);
    let (mut output, mut error) = (Vec::new(), Vec::new());
    let streams = StandardStreams {
        input: &mut io::empty(),
        output: &mut output,
        error: &mut error,
        servers: &mut NoServerAccess,
        lists: &mut NoLists,
    };
    let code = run_with(dialect, words.chain([log.as_os_str().to_owned()]), presets, streams);
    (String::from_utf8_lossy(&output).into_owned(), String::from_utf8_lossy(&error).into_owned(), code)
}

/// Returns the path of a sample whose tables have column names.
fn named() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types-full-metadata.binlog")
}

#[test]
fn table_filters_apply_to_text() {
    let (text, error, code) =
        dump(DumpDialect::Bintide, "-v --base64-output=decode-rows --table=types.integers", &named(), &[]);
    assert_eq!((error.as_str(), code), ("", 0));
    assert!(text.contains("### INSERT INTO `types`.`integers`"));
    let tables = text.lines().filter(|line| line.starts_with("### ") && line.contains("`.`"));
    assert!(tables.into_iter().all(|line| line.ends_with("`types`.`integers`")));
    assert!(!text.contains("CREATE TABLE"));
}

#[test]
fn presets_yield_to_the_command_line() {
    let preset = |option: &str, values: &[&str]| OptionPreset {
        option: option.to_owned(),
        values: values.iter().map(OsString::from).collect(),
    };
    let presets = [
        preset("verbose", &["2"]),
        preset("base64-output", &["decode-rows"]),
        preset("table", &["types.integers", "types.decimals"]),
    ];
    let run = |args: &str, presets: &[OptionPreset]| dump(DumpDialect::Bintide, args, &named(), presets);
    let all = "-vv --base64-output=decode-rows --table=types.integers --table=types.decimals";
    assert_eq!(run("", &presets), run(all, &[]));
    let one = "-vv --base64-output=decode-rows --table=types.decimals";
    assert_eq!(run("--table=types.decimals", &presets), run(one, &[]));
    assert_eq!(run("-v", &presets), run(&all.replace("-vv", "-v"), &[]));
    let (_, error, code) = run("", &[preset("verbose", &["much"])]);
    assert_eq!(
        (error.as_str(), code),
        ("ERROR: invalid setting verbose = 'much': expected true, false or a number of times\n", 2)
    );
}

#[test]
fn lists_and_their_options_are_refused_without_lists() {
    for args in ["--json", "--events", "--transactions", "--where=id=1"] {
        let (output, error, code) = dump(DumpDialect::Bintide, args, &named(), &[]);
        assert_eq!(
            (output.as_str(), error.as_str(), code),
            ("", "ERROR: this program writes no lists\n", 2),
            "{args}"
        );
    }
}

/// Returns the path of a log, written by the server version at the end of its name: see `samples/README.md`.
fn old(log: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old").join(log)
}

/// mysqlbinlog 9.7 refuses row events of version 1. Under the name bintide, they are printed as mysqlbinlog 8.0 prints
/// them.
#[test]
fn rows_of_version_1_are_printed_and_refused_under_mysqlbinlogs_name() {
    for sample in ["rows-v1-5.5.34.binlog", "rows-v1-5.7.22.binlog"] {
        let (text, error, code) = dump(DumpDialect::Bintide, "-vv", &old(sample), &[]);
        assert_eq!((error.as_str(), code), ("", 0), "{sample}");
        for (expected, times) in [
            ("\tWrite_rows_v1: table id ", 2),
            ("\tUpdate_rows_v1: table id ", 4),
            ("\tDelete_rows_v1: table id ", 2),
            ("### UPDATE `v1`.`t`\n", 4),
            (r"###   @9='it\'s' /* STRING(60) meta=65084 nullable=1 is_null=0 */", 7),
            ("COMMIT/*!*/;\n", 6),
        ] {
            assert_eq!(text.matches(expected).count(), times, "{sample}: {expected} in {text}");
        }
        let (text, error, code) = dump(DumpDialect::Mysqlbinlog, "-vv", &old(sample), &[]);
        assert!(error.contains("ERROR: Found invalid event in binary log") && code == 1, "{sample}: {error}");
        assert!(!text.contains("_v1: table id"), "{sample}: {text}");
    }
}

/// Binary strings in JSON documents of MySQL 5.7 are text, as in mysqlbinlog.
#[test]
fn binary_strings_in_old_documents_are_text() {
    let options = "-v --base64-output=decode-rows";
    let (text, error, code) = dump(DumpDialect::Bintide, options, &old("json-5.7.22.binlog"), &[]);
    assert_eq!((error.as_str(), code), ("", 0));
    assert!(text.contains(r#"###   @1='{"b": "abc"}'"#), "{text}");
}

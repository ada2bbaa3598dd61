//! Cases of the benches of `dump`, `stats` and memory.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testkit::{PackageHome, TestPackage};

use super::{BenchCase, CaseContender, CaseGoal, large};
use crate::workloads::{LogCompression, Workload, workload_log};

/// Common filter for the output of mysqlbinlog, which counts rows by table and kind of change.
const ONE_LINER: &str = r#"perl -ne '$c{"$1 $2"}++ if /^### (INSERT INTO|UPDATE|DELETE FROM) (\S+)/;
END { print "$c{$_} $_\n" for sort { $c{$b} <=> $c{$a} } keys %c }'"#;

/// Largest peak memory of dump, stats and verify, in bytes.
const MEMORY_MAX: u64 = 200_000_000;

/// Returns the cases of `dump` and `mysqlbinlog`.
pub(super) fn dump_cases() -> Result<Vec<BenchCase>> {
    let (bintide, mysqlbinlog) = (build_bintide()?, mysqlbinlog_words()?);
    let directory = testkit::target_dir().join("bench/output");
    fs::create_dir_all(&directory)?;
    let mut cases = Vec::new();
    for (workload, form) in workload_logs() {
        let log = workload_log(workload, form)?;
        for (options, words) in [(&["-vv"][..], "-vv"), (&[][..], "no -v")] {
            for (output, destination) in [(None, "/dev/null"), (Some(&directory), "file")] {
                let run = |program: &[OsString]| command_words(program, options, &log);
                let contenders = vec![
                    CaseContender {
                        name: "bintide dump",
                        command: run(&[bintide.clone().into(), "dump".into()]),
                    },
                    CaseContender { name: "mysqlbinlog", command: run(&mysqlbinlog) },
                ];
                let name = format!("{} {} {words} to {destination}", workload.name(), form.name());
                let goal = match (words, workload) {
                    ("no -v", _) => CaseGoal::Faster(&[2.0]),
                    (_, Workload::Load | Workload::Update) => CaseGoal::Faster(&[8.0]),
                    _ => CaseGoal::Faster(&[5.0]),
                };
                let bytes = fs::metadata(&log)?.len();
                cases.push(BenchCase { name, bytes, contenders, output: output.cloned(), goal });
            }
        }
    }
    Ok(cases)
}

/// Returns the cases of `stats`, mysqlbinlog with the one-liner, and go-mysql.
pub(super) fn stats_cases() -> Result<Vec<BenchCase>> {
    let (bintide, mysqlbinlog, go) =
        (build_bintide()?, mysqlbinlog_words()?, build_go_program("go-mysql", ".", "go-mysql")?);
    let mut cases = Vec::new();
    for (workload, form) in workload_logs() {
        let log = workload_log(workload, form)?;
        let mut pipe = command_words(&mysqlbinlog, &["-v", "--base64-output=decode-rows"], &log);
        pipe.splice(0..0, ["sh", "-c", &format!("\"$0\" \"$@\" | {ONE_LINER}")].map(OsString::from));
        let contenders = vec![
            CaseContender {
                name: "bintide stats",
                command: command_words(&[bintide.clone().into()], &["stats"], &log),
            },
            CaseContender { name: "mysqlbinlog, perl", command: pipe },
            CaseContender { name: "go-mysql", command: command_words(&[go.clone().into()], &[], &log) },
        ];
        let name = format!("{} {}", workload.name(), form.name());
        let bytes = fs::metadata(&log)?.len();
        cases.push(BenchCase {
            name,
            bytes,
            contenders,
            output: None,
            goal: CaseGoal::Faster(&[30.0, 10.0]),
        });
    }
    Ok(cases)
}

/// Returns the cases of dump, stats and verify on one large transaction, with `mysqlbinlog`.
pub(super) fn memory_cases() -> Result<Vec<BenchCase>> {
    let (bintide, mysqlbinlog, log) = (build_bintide()?, mysqlbinlog_words()?, large::log()?);
    let bytes = fs::metadata(&log)?.len();
    let mut cases = Vec::new();
    for (name, options) in [
        ("dump", &["dump"][..]),
        ("dump -vv", &["dump", "-vv"]),
        ("stats", &["stats"]),
        ("verify", &["verify"]),
    ] {
        let mut contenders = vec![CaseContender {
            name: "bintide",
            command: command_words(&[bintide.clone().into()], options, &log),
        }];
        if let ["dump", more @ ..] = options {
            contenders.push(CaseContender {
                name: "mysqlbinlog",
                command: command_words(&mysqlbinlog, more, &log),
            });
        }
        let name = format!("{name}, a transaction of 1 GiB");
        cases.push(BenchCase { name, bytes, contenders, output: None, goal: CaseGoal::Memory(MEMORY_MAX) });
    }
    Ok(cases)
}

/// Returns the cases of `history`, and of `stats` with options, each beside `stats` without a selection.
pub(super) fn answer_cases() -> Result<Vec<BenchCase>> {
    let bintide: OsString = build_bintide()?.into();
    let mut cases = Vec::new();
    for (workload, form) in workload_logs() {
        let log = workload_log(workload, form)?;
        for (name, options) in [
            ("stats --table", &["stats", "--table=employees.salaries"][..]),
            ("stats --by", &["stats", "--by=minute,table,account,statement"]),
            ("history", &["history", "--quiet", "--table=employees.salaries", "--where=@1=0"]),
        ] {
            let contenders = [(name, options), ("stats", &["stats"])].map(|(name, options)| CaseContender {
                name,
                command: command_words(std::slice::from_ref(&bintide), options, &log),
            });
            cases.push(BenchCase {
                name: format!("{name}, {} {}", workload.name(), form.name()),
                bytes: fs::metadata(&log)?.len(),
                contenders: contenders.into(),
                output: None,
                goal: CaseGoal::Faster(&[0.5]),
            });
        }
    }
    Ok(cases)
}

/// Returns the cases of `undo`: its speed beside `mysqlbinlog`, which prints the rows, and its memory.
pub(super) fn undo_cases() -> Result<Vec<BenchCase>> {
    let (bintide, mysqlbinlog) = (build_bintide()?, mysqlbinlog_words()?);
    let undo = |log: &Path| CaseContender {
        name: "bintide undo",
        command: command_words(&[bintide.clone().into()], &["undo", "--quiet", "--table=*"], log),
    };
    let mut cases = Vec::new();
    for form in LogCompression::ALL {
        let log = workload_log(Workload::Update, form)?;
        let print = command_words(&mysqlbinlog, &["-v", "--base64-output=decode-rows"], &log);
        let contenders = vec![undo(&log), CaseContender { name: "mysqlbinlog", command: print }];
        let (bytes, output) = (fs::metadata(&log)?.len(), None);
        let name = format!("update {}", form.name());
        let goal = CaseGoal::Faster(&[3.0]);
        cases.push(BenchCase { name: name.clone(), bytes, contenders, output: output.clone(), goal });
        let (name, goal) = (format!("{name}, memory"), CaseGoal::Memory(MEMORY_MAX));
        cases.push(BenchCase { name, bytes, contenders: vec![undo(&log)], output, goal });
    }
    Ok(cases)
}

fn workload_logs() -> impl Iterator<Item = (Workload, LogCompression)> {
    Workload::ALL.into_iter().flat_map(|workload| LogCompression::ALL.map(|form| (workload, form)))
}

fn command_words(program: &[OsString], options: &[&str], log: &Path) -> Vec<OsString> {
    let options = options.iter().map(OsString::from);
    program.iter().cloned().chain(options).chain([log.as_os_str().to_owned()]).collect()
}

/// Builds bintide with the release profile, plus debug information, and returns its path.
pub(super) fn build_bintide() -> Result<PathBuf> {
    let features = "archive,columns";
    testkit::run_cargo(&["build", "--quiet", "--release", "--package", "bintide", "--features", features])?;
    Ok(testkit::target_dir().join("release/bintide"))
}

/// Returns the words of a command as text for the shell.
pub(super) fn shell_words(words: &[OsString]) -> String {
    let quoted = |word: &OsString| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

pub(super) fn mysqlbinlog_words() -> Result<Vec<OsString>> {
    let command = PackageHome::find(TestPackage::Mysql)?.command("mysqlbinlog")?;
    let mut words = vec![command.get_program().to_owned()];
    words.extend(command.get_args().map(OsString::from));
    words.push("--no-defaults".into());
    Ok(words)
}

/// Builds a package of a Go module in `bench/` with the installed Go, and returns the program's path.
pub(super) fn build_go_program(module: &str, package: &str, name: &str) -> Result<PathBuf> {
    let program = testkit::target_dir().join("bench").join(name);
    let mut command = Command::new("go");
    command
        .args(["build", "-o"])
        .arg(&program)
        .arg(package)
        .current_dir(testkit::workspace_root().join("bench").join(module));
    let status = command.status().context("could not run go: install Go to run this bench")?;
    ensure!(status.success(), "the Go program {name} does not build");
    Ok(program)
}

//! The dry run of a replay, its start and stop options, and comparisons with the result.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::command::{CommandOutput, replay};
use e2e::replays::{ends_equal, target};
use tempfile::TempDir;
use testkit::{Launch, TestServer, workspace_root};

fn source(options: &[&str], sql: &str) -> Result<TestServer> {
    let source = Launch::mysql().option("--server-id=1").options(options.iter().copied()).start()?;
    source.sql(sql)?;
    source.sql("flush binary logs")?;
    Ok(source)
}

/// Returns a document without blanks.
fn squeezed(ran: &CommandOutput) -> String {
    ran.stdout.split_whitespace().collect()
}

fn says(ran: &CommandOutput, code: i32, expected: &[&str]) -> Result<()> {
    ensure!(ran.code == Some(code), "{ran:?}");
    let text = squeezed(ran);
    for expected in expected {
        ensure!(text.contains(expected), "{expected} is not in {text}; {}", ran.stderr);
    }
    Ok(())
}

/// Returns ten rows, each inserted and changed five times, three of them deleted, and changes of a table that does
/// not use InnoDB.
fn changes() -> String {
    let mut sql = "create database d; create table d.t (id int primary key, n int);
        create table d.m (id int primary key, n int) engine = MyISAM;"
        .to_owned();
    sql.extend((0..10).map(|id| format!("insert into d.t values ({id}, 0);")));
    sql.extend(
        (1..=5).flat_map(|n| (0..10).map(move |id| format!("update d.t set n = {n} where id = {id};"))),
    );
    sql.push_str("delete from d.t where id < 3; insert into d.m values (1, 1); update d.m set n = 2;");
    sql
}

/// Without GTIDs, a transaction is known by its log's name and its position.
#[test]
fn logs_of_one_name_without_gtids_are_refused_before_the_first_change() -> Result<()> {
    let (directory, target) = (TempDir::new()?, target("--skip-log-bin")?);
    let mut logs = Vec::new();
    for parent in ["a", "b"] {
        fs::create_dir(directory.path().join(parent))?;
        logs.push(directory.path().join(parent).join("binlog.000001"));
        fs::copy(workspace_root().join("samples/anonymous.binlog"), &logs[logs.len() - 1])?;
    }
    let databases = target.sql("show databases")?;
    for (more, code) in [(&["--dry-run"][..], 1), (&[], 2)] {
        let ran = replay(&logs, &target, more)?;
        let text = format!("{}{}", ran.stdout, ran.stderr);
        ensure!(
            ran.code == Some(code) && text.contains("two of the logs are named binlog.000001"),
            "{ran:?}"
        );
    }
    ensure!(target.sql("show databases")? == databases, "something was applied");
    Ok(())
}

#[test]
fn dry_runs_report_the_plan_and_change_nothing() -> Result<()> {
    let source = source(&[], &changes())?;
    let (logs, target) = (source.binlogs()?, target("--skip-log-bin")?);
    let dry = |more: &[&str]| replay(&logs, &target, &[&["--dry-run", "--json"], more].concat());
    let merged = "\"table\":\"t\"";
    let ran = dry(&[])?;
    // 3 definitions, 60 changes of single rows, one of three rows, two of the other table.
    says(
        &ran,
        0,
        &[
            "\"transactions\":66,",
            "\"skipped\":0,",
            "\"alone\":3,",
            "\"parallel\":\"writeset\"",
            merged,
            "\"applied\":7,\"database\":\"d\",\"in_logs\":63,\"is_known\":true,\"not_merged\":null,\"table\":\"t\"",
            "\"applied\":2,\"database\":\"d\",\"in_logs\":2,\"is_known\":true,\"not_merged\":\"thetable'sengineisnotInnoDB\",\"table\":\"m\"",
            // The definitions one after the other, the two changes of the table without transactions, and the rest
            // as one group.
            "\"groups\":{\"at_once\":1.0,\"count\":6,\"longest_chain\":6}",
            "\"findings\":[],",
            "\"refusals\":0,",
        ],
    )?;
    // Changes of the same row wait for each other, changes of other rows do not: 3 definitions, then an insert,
    // five updates, a delete. The two transactions that change a table of another engine than InnoDB run alone.
    let strict = dry(&["--commit-order", "strict", "--parallel", "writeset"])?;
    says(&strict, 0, &["\"count\":66,\"longest_chain\":12}", "\"groups\":null,", "\"applied\":63,"])?;
    let none = dry(&["--commit-order", "strict", "--parallel", "none"])?;
    says(&none, 0, &["\"count\":66,\"longest_chain\":66}"])?;
    let databases = target.sql("show databases")?;
    ensure!(!databases.contains("bintide") && !databases.contains("d\n"), "{databases}");
    says(&dry(&["--stop-position", "binlog.000002:4"])?, 0, &["\"transactions\":66,"])?;
    // The dry run reports obstacles as a replay does, in addition to the plan.
    target.sql("set global super_read_only = 1")?;
    says(&dry(&[])?, 1, &["\"check\":\"read-only\"", "\"allowed\":false", "\"transactions\":66,"])?;
    target.sql("set global super_read_only = 0, global read_only = 0")?;
    // The replay has the number of transactions that the dry run reported.
    let ran = replay(&logs, &target, &["--json"])?;
    says(&ran, 0, &["\"transactions\":66,"])?;
    ends_equal(&source, &target)?;
    says(&dry(&[])?, 0, &["\"transactions\":0,", "\"skipped\":66,", "\"tables\":[]"])?;
    // Without a target, the dry run assumes an empty one.
    says(&dry(&["--offline"])?, 0, &["\"transactions\":66,", "\"in_logs\":63"])?;
    let text = replay(&logs, &target, &["--dry-run", "--offline"])?;
    says(&text, 0, &["transactions66(0skipped)", "d.t63788.9%", "about"])
}

#[test]
fn dry_runs_explain_changes_that_are_not_merged() -> Result<()> {
    let tables = [
        ("merged", "id int primary key, n int", ""),
        ("parent", "id int primary key, n int", "the table is part of a foreign key"),
        ("myisam", "id int primary key, n int", "the table's engine is not InnoDB"),
        ("keyless", "id int, n int", "the table has no primary key"),
        (
            "text_key",
            "id varchar(9) primary key, n int",
            "different bytes in the primary key may be the same value, as in most collations",
        ),
        ("unique_key", "id int primary key, n int unique", "the table has another unique key"),
        (
            "child",
            "id int primary key, n int, foreign key (n) references parent (id)",
            "the table is part of a foreign key",
        ),
        (
            "counter",
            "id int primary key, n int auto_increment, key (n)",
            "AUTO_INCREMENT is not on an integer column of the primary key",
        ),
        (
            "minimal",
            "id int primary key, n int, m int",
            "row images lack columns or parts of JSON documents (binlog_row_image, binlog_row_value_options)",
        ),
    ];
    let mut definitions = "create database d; use d;\n".to_owned();
    for (name, columns, _) in tables {
        definitions += &format!("create table {name} ({columns});\n");
    }
    definitions += "alter table myisam engine=MyISAM; flush binary logs;\n";
    let mut sql = definitions.clone();
    for (name, ..) in tables {
        sql += &format!("insert into {name} (id, n) values (1, 1);\n");
    }
    sql += "set binlog_row_image = minimal; update minimal set n = 2;\n";
    let source = source(&[], &sql)?;
    let (logs, target) = (source.binlogs()?, target("--skip-log-bin")?);
    target.sql(&definitions)?;
    // The first log has the definitions.
    let run = |more: &[&str]| replay(&logs[1..2], &target, &[&["--dry-run", "--allow-gap"], more].concat());
    let (text, found) = (run(&[])?, document(&run(&["--json"])?)?);
    for (name, _, reason) in tables {
        let rows = found["tables"].as_array().context("no tables")?;
        let row = rows.iter().find(|row| row["table"] == name).with_context(|| format!("no {name}"))?;
        ensure!(row["not_merged"].as_str().unwrap_or_default() == reason, "{name}: {row}");
        let line = text.stdout.lines().find(|line| line.contains(&format!("d.{name} ")));
        let line = line.with_context(|| format!("no {name}: {text:?}"))?;
        let is_explained = line.contains("not merged");
        ensure!(is_explained != reason.is_empty() && line.contains(reason), "{name}: {line}");
    }
    says(&run(&["--offline"])?, 0, &["notmerged:thetable'sdefinitionisnotknown"])
}

#[test]
fn dry_runs_name_refused_statements() -> Result<()> {
    let sql = "create database d; create table d.t (id int primary key); insert into d.t values (1), (2);
        update d.t set id = 3 where id = 2; create function d.f() returns int deterministic return 1";
    let source = source(&["--binlog-format=STATEMENT"], sql)?;
    let directory = tempfile::tempdir()?;
    let logs = source.binlogs()?;
    let to = format!("sqlite:{}", directory.path().join("copy.db").display());
    let mut command = std::process::Command::new(e2e::program::bintide()?);
    command.env_clear().arg("replay").args(&logs).args(["--to", &to, "--dry-run", "--json"]);
    let ran: CommandOutput = command.output()?.into();
    says(&ran, 1, &["\"refusals\":2,", "binlog_format=STATEMENT", "\"transactions\":5,"])?;
    ensure!(std::fs::read_dir(directory.path())?.next().is_none(), "a file was created");
    // A server accepts them.
    let target = target("--skip-log-bin")?;
    says(&replay(&logs, &target, &["--dry-run", "--json"])?, 0, &["\"refusals\":0,", "\"alone\":5,"])
}

#[test]
fn earlier_commits_after_stop_datetime_are_counted() -> Result<()> {
    let sql = "create database d; create table d.t (id int primary key); insert into d.t values (1)";
    let source = source(&[], sql)?;
    // Logs of two servers in sequence are not in the order of their commit times.
    let other = Launch::mysql().option("--server-id=3").start()?;
    other.sql("create database e; create table e.t (id int primary key)")?;
    let now = |server: &TestServer| server.sql("select now(6) + interval 0 second");
    source.sql("do sleep(0.01)")?;
    let limit = now(&source)?.trim().to_owned();
    source.sql("do sleep(0.01); insert into d.t values (2), (3); flush binary logs")?;
    other.sql("flush binary logs")?;
    let logs = [source.binlogs()?, other.binlogs()?].concat();
    let target = target("--skip-log-bin")?;
    let stop = ["--stop-datetime", &limit, "--json", "--allow-gap"];
    let dry = replay(&logs, &target, &[&stop[..], &["--dry-run"]].concat())?;
    let late = "\"late\":{\"transactions\":2,\"unread\":null}";
    says(&dry, 0, &[late, "\"transactions\":3,"])?;
    let ran = replay(&logs, &target, &stop)?;
    says(&ran, 0, &[late, "\"transactions\":3,", "\"skipped\":0,"])?;
    ensure!(
        ran.stderr.contains("not applied: 2 transactions after the stop, committed before the stop time"),
        "{ran:?}"
    );
    let there = target.sql("select group_concat(id) from d.t; show databases like 'e'")?;
    ensure!(there.trim() == "1", "{there}");
    Ok(())
}

#[test]
fn start_points_can_be_gtids() -> Result<()> {
    let mut sql = "create database d; create table d.t (id int primary key);".to_owned();
    sql.extend((3..=9).map(|id| format!("insert into d.t values ({id});")));
    let source = source(&["--binlog-transaction-compression=ON"], &sql)?;
    let uuid = source.sql("select @@server_uuid")?.trim().to_owned();
    let logs = source.binlogs()?;
    let target = target("--skip-log-bin")?;
    target.sql("create database d; create table d.t (id int primary key)")?;
    let check = |options: &[(&str, &str)], expected: &str| -> Result<()> {
        let set =
            |text: &str| text.split(',').map(|part| format!("{uuid}:{part}")).collect::<Vec<_>>().join(",");
        let options: Vec<String> = options
            .iter()
            .flat_map(|(name, value)| {
                [(*name).to_owned(), if *name == "--skip" { (*value).to_owned() } else { set(value) }]
            })
            .collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let ran = replay(&logs, &target, &options)?;
        ensure!(ran.code == Some(0), "{options:?}: {ran:?}");
        let ids = target.sql("select group_concat(id order by id) from d.t")?;
        ensure!(ids.trim() == expected, "{options:?}: {ids}, not {expected}");
        target.sql("truncate d.t; drop database bintide; reset binary logs and gtids").map(drop)
    };
    check(&[("--start-gtid", "5"), ("--stop-gtid", "8")], "5,6,7")?;
    check(&[("--start-after-gtid", "5"), ("--stop-after-gtid", "8")], "6,7,8")?;
    // A compressed transaction counts as one.
    check(&[("--start-gtid", "3"), ("--skip", "4")], "7,8,9")?;
    check(&[("--start-gtid", "3"), ("--skip", "1"), ("--exclude-gtids", "5-7")], "4,8,9")
}

/// Returns the output of `replay --json` as a document.
fn document(ran: &CommandOutput) -> Result<serde_json::Value> {
    ensure!(ran.code == Some(0), "{ran:?}");
    Ok(serde_json::from_str(&ran.stdout)?)
}

#[test]
fn the_result_names_the_transactions_at_the_stop() -> Result<()> {
    let sql = "create database d; create table d.t (id int primary key); insert into d.t values (1);
        insert into d.t values (2)";
    for gtid_mode in ["ON", "OFF"] {
        let mode = format!("--gtid-mode={gtid_mode}");
        let source = source(&[&mode, "--enforce-gtid-consistency=ON"], sql)?;
        let uuid = source.sql("select @@server_uuid")?.trim().to_owned();
        let logs = source.binlogs()?;
        let ends = source.sql("show binlog events in 'binlog.000001'")?;
        let starts: Vec<u64> = ends
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>())
            .filter(|columns| matches!(columns[2], "Gtid" | "Anonymous_Gtid"))
            .map(|columns| Ok(columns[1].parse()?))
            .collect::<Result<_>>()?;
        let target = target("--skip-log-bin")?;
        let gtid = |number: u32| (gtid_mode == "ON").then(|| format!("{uuid}:{number}"));
        let stop = |position: u64| format!("binlog.000001:{position}");
        let before_all = replay(&logs, &target, &["--stop-position", &stop(1)])?;
        says(
            &before_all,
            0,
            &["0transactionsapplied", "stoppedbefore:", "notransactionofthelogsisbeforethestop"],
        )?;
        let found = document(&replay(&logs, &target, &["--json", "--stop-position", &stop(starts[3])])?)?;
        let check = |found: &serde_json::Value, number: usize| {
            ensure!(
                found["gtid"] == serde_json::json!(gtid(number as u32 + 1))
                    && found["log"] == "binlog.000001"
                    && found["position"] == starts[number]
                    && found["committed"].is_string(),
                "{number}: {found}, {starts:?}"
            );
            Ok(())
        };
        check(&found["last_applied"], 2)?;
        check(&found["first_not_applied"], 3)?;
        let rest = replay(&logs, &target, &[])?;
        let last = gtid(4).map_or_else(String::new, |gtid| format!("{gtid}at"));
        says(&rest, 0, &[&format!("lastapplied:{last}binlog.000001:{},committed", starts[3])])?;
        ensure!(!rest.stdout.contains("stopped before"), "{rest:?}");
        let again = document(&replay(&logs, &target, &["--json"])?)?;
        ensure!(again["last_applied"].is_null() && again["first_not_applied"].is_null(), "{again}");
        // A stop that is not after the start.
        let (first, second) = (stop(starts[0]), stop(starts[1]));
        let mut contradictions = vec![
            ["--start-position", &second, "--stop-position", &first],
            ["--start-datetime", "2026-01-02 00:00:00", "--stop-datetime", "2026-01-01 00:00:00Z"],
        ];
        let (later, earlier) = (gtid(3).unwrap_or_default(), gtid(2).unwrap_or_default());
        if gtid_mode == "ON" {
            contradictions.push(["--start-gtid", &later, "--stop-gtid", &earlier]);
        }
        for options in contradictions {
            let ran = replay(&logs, &target, &options)?;
            let is_named = ["the stop is not after the start", "is not before the stop"]
                .iter()
                .any(|message| ran.stderr.contains(message));
            ensure!(matches!(ran.code, Some(1 | 2)) && is_named, "{options:?}: {ran:?}");
        }
    }
    Ok(())
}

/// Applies logs with mysqlbinlog and the server's client, up to this time in UTC.
fn apply_with_mysqlbinlog(logs: &[std::path::PathBuf], target: &TestServer, stop: &str) -> Result<()> {
    let mut command = target.home().command("mysqlbinlog")?;
    command.env("TZ", "UTC").args(["--no-defaults", "--stop-datetime", stop]).args(logs);
    let text = command.output()?;
    ensure!(text.status.success(), "{text:?}");
    target.sql(&String::from_utf8(text.stdout)?)?;
    Ok(())
}

#[test]
fn stops_by_time_are_those_of_mysqlbinlog() -> Result<()> {
    let source = source(&[], "create database d; create table d.t (id int primary key)")?;
    // Each insert is committed within the second of its start, which mysqlbinlog compares.
    for id in 1..=3 {
        source
            .sql(&format!("do sleep(1.2 - mod(unix_timestamp(now(6)), 1)); insert into d.t values ({id})"))?;
    }
    source.sql("flush binary logs")?;
    let logs = source.binlogs()?;
    let found = document(&replay(&logs, &target("--skip-log-bin")?, &["--json", "--dry-run"])?)?;
    ensure!(found["transactions"] == 5, "{found}");
    let times = commit_times(&logs)?;
    let second = times[3] / 1_000_000;
    let at = |time_us: u64, shift: i64| -> Result<String> {
        let text = source.sql(&format!(
            "set time_zone = '+00:00'; select from_unixtime({}.{:06}) + interval {shift} hour",
            time_us / 1_000_000,
            time_us % 1_000_000
        ))?;
        Ok(text.trim().to_owned())
    };
    let whole = second * 1_000_000;
    let ids = |target: &TestServer| target.sql("select group_concat(id) from d.t");
    // mysqlbinlog takes whole seconds of the local time.
    for (seconds, expected) in [(second, "1"), (second + 1, "1,2")] {
        let text = at(seconds * 1_000_000, 0)?;
        let text = text.split('.').next().unwrap_or_default();
        let (by_mysqlbinlog, by_replay) = (target("--skip-log-bin")?, target("--skip-log-bin")?);
        apply_with_mysqlbinlog(&logs, &by_mysqlbinlog, text)?;
        let ran = replay(&logs, &by_replay, &["--stop-datetime", &format!("{text}Z")])?;
        ensure!(ran.code == Some(0), "{ran:?}");
        let (theirs, ours) = (ids(&by_mysqlbinlog)?, ids(&by_replay)?);
        ensure!(
            theirs == ours && ours.trim() == expected,
            "{text}: {theirs} by mysqlbinlog, {ours} by replay"
        );
    }
    for (option, text, expected) in [
        ("--stop-datetime", format!("{}Z", at(whole, 0)?), "1"),
        ("--stop-datetime", format!("{}+02:00", at(whole, 2)?), "1"),
        ("--stop-datetime", format!("{}-05:30", at(whole - 1_800_000_000, -5)?), "1"),
        ("--stop-datetime", format!("{}Z", at(times[3], 0)?), "1"),
        ("--stop-datetime", format!("{}Z", at(times[3] + 1, 0)?), "1,2"),
        ("--stop-datetime-inclusive", format!("{}Z", at(times[3] - 1, 0)?), "1"),
        ("--stop-datetime-inclusive", format!("{}+02:00", at(times[3], 2)?), "1,2"),
        ("--stop-datetime", format!("{}+02:00", at(times[4] + 1, 2)?), "1,2,3"),
    ] {
        let target = target("--skip-log-bin")?;
        let ran = replay(&logs, &target, &[option, &text])?;
        ensure!(ran.code == Some(0), "{ran:?}");
        let ids = ids(&target)?;
        ensure!(ids.trim() == expected, "{option} {text}: {ids}, not {expected}");
    }
    Ok(())
}

/// Returns the immediate commit time of each transaction, in microseconds since 1970.
fn commit_times(logs: &[std::path::PathBuf]) -> Result<Vec<u64>> {
    let logs = logs.iter().cloned().map(replay::ReplayLog::File).collect();
    let mut source = replay::TransactionSource::new(logs, None, usize::MAX);
    let mut times = Vec::new();
    while let Some(unit) = source.next_transaction()? {
        times.push(unit.head().committed_us);
    }
    Ok(times)
}

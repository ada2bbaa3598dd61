//! Logs of a real server replayed to a SQLite database: it ends with the server's rows, and no change is applied
//! twice, wherever the replay is stopped.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use e2e::alterations::alteration_script;
use e2e::command::CommandOutput;
use e2e::program::bintide;
use e2e::replays::{self, kill_and_resume, replay_on};
use e2e::workload;
use replay::CommitOrder;
use replay::schedule::ParallelMode;
use replay::{ReplayOptions, ReplayReport};
use rusqlite::Connection as Sqlite;
use rusqlite::types::Value;
use servers::{ServerAddress, SqlConnection};
use sql::quote::{quote_name, quote_table, quote_text};
use sqlite_target::SqliteTarget;
use tempfile::TempDir;
use testkit::{Launch, SeededRandom, TestPackage, TestServer, seed_from_env};

/// Sample scripts whose tables exist at the end; statements that drop them are left out.
const SCRIPTS: [&str; 13] = [
    "gtids",
    "types",
    "json",
    "triggers",
    "savepoints",
    "foreign-keys",
    "partitions",
    "ddl",
    "xa",
    "charsets",
    "invisible-keys",
    "mixed-engines",
    "rotation",
];

fn script(name: &str) -> Result<String> {
    let sql = replays::script(name)?;
    let is_end =
        |line: &&str| !line.starts_with("DROP DATABASE ddl") && !line.starts_with("DROP TABLE grandchild");
    Ok(sql.lines().filter(is_end).collect::<Vec<_>>().join("\n"))
}

fn source(options: &[&str], scripts: &[&str]) -> Result<TestServer> {
    let source = Launch::mysql().option("--server-id=1").options(options.iter().copied()).start()?;
    for name in scripts {
        source.sql(&script(name)?).with_context(|| format!("run {name}"))?;
    }
    source.sql("flush binary logs")?;
    Ok(source)
}

fn options(order: CommitOrder) -> ReplayOptions {
    ReplayOptions { workers: NonZeroUsize::MIN, mode: ParallelMode::None, ..replays::options(order) }
}

fn replay_all(logs: &[PathBuf], file: &Path, order: CommitOrder) -> Result<ReplayReport> {
    replay_on(&SqliteTarget::open(file)?, logs, &options(order))
}

/// Returns an expression that makes the server show a value in SQLite's form.
fn shown(name: &str, data_type: &str) -> String {
    let name = quote_name(name);
    match data_type {
        "float" | "double" => format!("{name} + 0e0"),
        "bit" | "year" | "zerofill" => format!("{name} + 0"),
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "vector" | "geometry"
        | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring" | "multipolygon"
        | "geomcollection" => format!("HEX({name})"),
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "enum" | "set" | "json" => {
            format!("HEX(CONVERT({name} USING utf8mb4))")
        }
        _ => format!("CAST({name} AS CHAR)"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn number(text: &str) -> String {
    // SQLite has no negative zero.
    text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| format!("{:?}", number + 0.0))
}

/// Returns hexadecimal digits with a question mark for every U+FFFD: servers show either for an invalid character.
fn plain(digits: &str) -> String {
    let pairs = digits.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap_or_default());
    pairs.collect::<Vec<_>>().join(" ").replace("EF BF BD", "3F").replace(' ', "")
}

/// Returns a SQLite value in the form of [`shown`].
fn own(value: Value, data_type: &str) -> Option<String> {
    let is_hex = shown("x", data_type).starts_with("HEX");
    match value {
        Value::Null => None,
        Value::Integer(value) => Some(value.to_string()),
        Value::Real(value) => Some(format!("{:?}", value + 0.0)),
        Value::Text(text) if is_hex => Some(plain(&hex(text.as_bytes()))),
        Value::Text(text) => Some(text),
        Value::Blob(bytes) => Some(hex(&bytes)),
    }
}

type Rows = Vec<Vec<Option<String>>>;

fn sorted(mut rows: Rows) -> Rows {
    rows.sort();
    rows
}

fn text(value: &Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned()
}

/// Compares the rows of every table with SQLite's; returns their number.
fn compare(source: &TestServer, file: &Path) -> Result<usize> {
    let address = format!("mysql://root@localhost/?socket={}", source.socket().display());
    let mut server = SqlConnection::open(&ServerAddress::parse(&address)?)?;
    server.run("SET NAMES utf8mb4")?;
    server.run("SET time_zone = '+00:00', sql_mode = ''")?;
    let sqlite = Sqlite::open(file)?;
    let tables = server.rows(
        "select table_schema, table_name from information_schema.tables where table_type = 'BASE TABLE'
         and table_schema not in ('mysql', 'sys', 'performance_schema', 'information_schema') order by 1, 2",
    )?;
    ensure!(!tables.is_empty(), "the source has no tables");
    let (mut names, mut count) = (Vec::new(), 0);
    for table in &tables {
        let (database, table) = (text(&table[0]), text(&table[1]));
        names.push(format!("{database}.{table}"));
        count += compare_table(&mut server, &sqlite, &database, &table)?;
    }
    let mut statement = sqlite.prepare(
        "select name from sqlite_master where type = 'table' and name not in ('bintide.tables', 'bintide.progress')",
    )?;
    let mut own: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    own.retain(|name| !name.starts_with("mysql."));
    own.sort();
    names.sort();
    ensure!(own == names, "SQLite has the tables {own:?}, the source {names:?}");
    Ok(count)
}

fn compare_table(server: &mut SqlConnection, sqlite: &Sqlite, database: &str, table: &str) -> Result<usize> {
    let columns = server.rows(&format!(
        "select column_name, if(column_type like '%zerofill%', 'zerofill', data_type) from information_schema.columns where table_schema = {} and table_name = {}
         order by ordinal_position",
        quote_text(database),
        quote_text(table)
    ))?;
    let columns: Vec<(String, String)> =
        columns.iter().map(|column| (text(&column[0]), text(&column[1]))).collect();
    let all: Vec<String> = columns.iter().map(|(name, data_type)| shown(name, data_type)).collect();
    let theirs = server.rows(&format!("select {} from {}", all.join(", "), quote_table(database, table)))?;
    let theirs: Rows = theirs
        .iter()
        .map(|row| {
            let value = |(value, (_, data_type)): (&Option<Vec<u8>>, &(String, String))| {
                let text = value.as_ref().map(|_| text(value));
                match data_type.as_str() {
                    "float" | "double" => text.map(|text| number(&text)),
                    kind if shown("x", kind).starts_with("HEX(CONVERT") => text.map(|text| plain(&text)),
                    _ => text,
                }
            };
            row.iter().zip(&columns).map(value).collect()
        })
        .collect();
    let name = format!("{database}.{table}");
    let names: Vec<String> =
        columns.iter().map(|(name, _)| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    let sql = format!("select {} from \"{}\"", names.join(", "), name.replace('"', "\"\""));
    let mut statement = sqlite.prepare(&sql).with_context(|| format!("{name}: {sql}"))?;
    let ours = statement.query_map([], |row| {
        let value = |(at, (_, data_type)): (usize, &(String, String))| Ok(own(row.get(at)?, data_type));
        columns.iter().enumerate().map(value).collect()
    })?;
    let (ours, theirs) = (sorted(ours.collect::<Result<_, _>>()?), sorted(theirs));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        for ((ours, theirs), (column, _)) in ours.iter().zip(theirs).zip(&columns) {
            ensure!(ours == theirs, "{name}.{column}: SQLite has {ours:?}, the source {theirs:?}");
        }
    }
    ensure!(
        ours.len() == theirs.len(),
        "{name}: SQLite has {} rows, the source {}",
        ours.len(),
        theirs.len()
    );
    Ok(ours.len())
}

/// Applies the logs twice: the second run must find nothing to apply.
fn applies(source: &TestServer, order: CommitOrder) -> Result<()> {
    let directory = TempDir::new()?;
    let file = directory.path().join("copy.db");
    let first = replay_all(&source.binlogs()?, &file, order)?;
    ensure!(first.transactions > 5, "{first:?}");
    ensure!(compare(source, &file)? > 5, "too few rows");
    let again = replay_all(&source.binlogs()?, &file, order)?;
    ensure!(again.transactions == 0 && again.applied == first.applied, "{again:?}");
    compare(source, &file)?;
    Ok(())
}

#[test]
fn samples_end_with_the_same_rows() -> Result<()> {
    let source = source(&[], &SCRIPTS)?;
    applies(&source, CommitOrder::Strict)?;
    applies(&source, CommitOrder::Grouped)
}

#[test]
fn samples_with_minimal_images_end_with_the_same_rows() -> Result<()> {
    let options = [
        "--binlog-row-image=MINIMAL",
        "--binlog-row-metadata=FULL",
        "--binlog-row-value-options=PARTIAL_JSON",
        "--binlog-transaction-compression=ON",
    ];
    applies(&source(&options, &SCRIPTS)?, CommitOrder::Grouped)
}

#[test]
fn samples_without_gtids_and_with_innodb_foreign_keys_end_with_the_same_rows() -> Result<()> {
    let options = ["--gtid-mode=OFF", "--innodb-native-foreign-keys=ON", "--binlog-row-image=NOBLOB"];
    let scripts =
        SCRIPTS.into_iter().filter(|name| !["rotation", "gtids"].contains(name)).collect::<Vec<_>>();
    applies(&source(&options, &scripts)?, CommitOrder::Grouped)
}

/// Definitions of tables with rows.
const DEFINITIONS: &str = "create database d; use d;
    create table a (id int primary key, v varchar(20) default 'x', key (v));
    insert into a values (1, 'one'), (2, 'two'), (3, null);
    alter table a add column n int not null, add column m decimal(5,2) not null default 1.5 first;
    alter table a add column e enum('p','q') not null, add column s set('a','b') default 'b,a' after v;
    alter table a add column b binary(4) not null default 'ab', add column bits bit(9) not null default b'101',
        add column d date not null default '2026-01-02', add column t time(2) default '10:20:30.5',
        add column dt datetime(1) default '2026-01-02 03:04:05', add column f float default 0.1,
        add column big bigint unsigned default 18446744073709551615, add column y year default 2026;
    alter table a add column ts timestamp(3) not null default current_timestamp(3);
    insert into a (id, n) values (4, 7);
    alter table a drop key v, modify n bigint, modify v text, change m money decimal(9,4) after id, drop column s;
    update a set n = 5000000000, v = 'changed' where id = 2;
    alter table a rename column y to year_of, alter column n set default 12, add unique key u (n, id);
    insert into a (id) values (5);
    alter table a modify column dt datetime(3), modify column t time(4), modify n varchar(30), rename to a2;
    create table b like a2; insert into b select * from a2; delete from b where id < 3;
    alter table b drop primary key, drop key u; delete from b where id = 3 limit 1; insert into b select * from a2 where id = 4;
    delete from b where id = 4 limit 1; alter table b add column k int not null default 3 first;
    create index i on b (v(5)); create unique index j on b (e, id); drop index i on b;
    rename table b to c, a2 to b; insert into c (id) values (9); update b set v = 'after';
    create table q as select id, v from b; update q set v = 'q' where id = 2; alter table q add primary key (id);
    delete from q where id = 1;
    create table T (x int); create table t (x int); insert into T values (1); insert into t values (2);
    create table keyless (a int, f float, j json, x text); insert into keyless values (1, 0.1, '{\"b\":1,\"a\":[1.50]}', 'x');
    insert into keyless select * from keyless; insert into keyless values (null, null, null, null);
    update keyless set a = 2 limit 1; delete from keyless where a is null; update keyless set j = '[]' where a = 2;
    create table gone (x int); insert into gone values (1); drop table gone;
    create table emptied (x int); insert into emptied values (1); truncate emptied; insert into emptied values (2);
    create database other; create table other.t (x int); drop database other;
    create table made (id int primary key, w int, twice int as (w * 2) stored, thrice int as (w * 3));
    insert into made (id, w) values (1, 2), (2, 3); update made set w = 10 where id = 1;
    create table parts (id int primary key, y int) partition by range (id)
        (partition p0 values less than (10), partition p1 values less than maxvalue);
    insert into parts values (1, 1), (20, 2); alter table parts remove partitioning;
    create table defaults (id int primary key, a int default 3, b varchar(9) default 'it''s', c timestamp default
        current_timestamp, d json default (json_array()), e text default ('x'));
    insert into defaults (id) values (1); insert into defaults (id, a) values (2, null);
    create table parent (k varchar(9) collate utf8mb4_bin, l int, primary key (k, l)); create table child (id int primary key,
        k varchar(9) collate utf8mb4_bin, l int, foreign key (k, l) references parent (k, l) on delete set null on update cascade);
    insert into parent values ('a', 1), ('b', 2); insert into child values (1, 'a', 1), (2, 'b', 2), (3, 'a', 1);
    update parent set l = 5 where k = 'a'; delete from parent where k = 'b';
    alter table parent rename to father; update father set k = 'z'; alter table father rename column l to ll;
    update father set ll = 8;";

fn keeps_definitions(options: &[&str]) -> Result<()> {
    let source = source(options, &[])?;
    // SQLite does not distinguish `T` and `t`, so the later table is created under another name.
    source
        .sql(&DEFINITIONS.replace("create table T (x int);", "").replace("insert into T values (1);", ""))?;
    source.sql("flush binary logs")?;
    applies(&source, CommitOrder::Grouped)
}

#[test]
fn tables_follow_their_definitions() -> Result<()> {
    keeps_definitions(&[])
}

#[test]
fn tables_follow_their_definitions_with_minimal_images_and_innodb_foreign_keys() -> Result<()> {
    keeps_definitions(&[
        "--innodb-native-foreign-keys=ON",
        "--binlog-row-image=MINIMAL",
        "--binlog-row-metadata=FULL",
    ])
}

/// Columns that exchange their names in one statement, and positions after new names.
#[test]
fn tables_follow_changes_of_several_columns() -> Result<()> {
    let source = source(&["--binlog-row-metadata=MINIMAL"], &[])?;
    source.sql(&alteration_script())?;
    source.sql("flush binary logs")?;
    applies(&source, CommitOrder::Grouped)
}

#[test]
fn random_sql_ends_with_the_same_rows() -> Result<()> {
    let directory = TempDir::new()?;
    let first = seed_from_env("BINTIDE_E2E_SEED");
    println!("BINTIDE_E2E_SEED={first}");
    for seed in first..first + 3 {
        let name = format!("random-{seed}");
        let source = workload::record_rows_on(seed, &name, directory.path())?;
        source.sql("flush binary logs")?;
        let file = directory.path().join(format!("{seed}.db"));
        replay_all(&source.binlogs()?, &file, CommitOrder::Grouped)
            .with_context(|| format!("seed {seed}"))?;
        compare(&source, &file).with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

/// Rows that reference each other, in statement and row format.
#[test]
fn foreign_keys_act_equally_in_both_binlog_formats() -> Result<()> {
    let seed = seed_from_env("BINTIDE_E2E_SEED");
    println!("BINTIDE_E2E_SEED={seed}");
    for option in ["--innodb-native-foreign-keys=ON", "--innodb-native-foreign-keys=OFF"] {
        let mut random = SeededRandom::new(seed);
        let source = source(&[option], &[])?;
        let mut sql = "create database d; use d;
            create table a (id int primary key, u int unique);
            create table b (id int primary key, a int, foreign key (a) references a (id) on delete cascade on update cascade);
            create table c (id int primary key, u int, b int, foreign key (u) references a (u) on delete set null on update cascade,
                foreign key (b) references b (id) on delete cascade);
            create table s (id int primary key, up int, foreign key (up) references s (id) on delete cascade);"
            .to_owned();
        for step in 0..400 {
            let (one, other) = (random.below(30), random.below(30));
            sql.push_str(&match random.below(11) {
                0 | 1 => format!("insert ignore into a values ({one}, {other});"),
                2 | 3 => format!("insert ignore into b values ({step}, {one});"),
                4 => format!("insert ignore into c values ({step}, {one}, (select max(id) from b));"),
                5 => format!("update ignore a set id = {one} where id = {other};"),
                6 => format!("update ignore a set u = {one} where id = {other};"),
                7 => format!("delete from a where id = {one};"),
                8 => {
                    // Three levels deep: a server follows at most fifteen.
                    let of = ["false", "up is null", "up in (select id from s where up is null)"];
                    format!("insert into s select {step}, max(id) from s where {};", random.pick(&of))
                }
                9 => format!("delete from s where id % 40 = {one};"),
                _ => format!("set foreign_key_checks = {};", usize::from(!random.once_in(3))),
            });
        }
        // A server refuses deletes whose cascades are too deep.
        let failures = workload::run(&source, TempDir::new()?.path(), &(sql + "flush binary logs;"))?;
        ensure!(failures < 40, "{failures} statements failed");
        applies(&source, CommitOrder::Grouped).with_context(|| option.to_owned())?;
    }
    Ok(())
}

/// Statements that must be refused, run after a table with one row was created, and the errors.
const REFUSED: [(&str, &str); 6] = [
    (
        "the log contains INSERT as a statement",
        "set binlog_format = mixed; begin; insert into d.t values (2, 2); insert into d.t values (3, 3); commit",
    ),
    ("new column k", "alter table d.t add column w int, add column k int auto_increment, add key (k)"),
    ("new column twice", "alter table d.t add column twice int as (n * 2) stored"),
    ("cannot be converted as on the server", "alter table d.t modify n date"),
    ("TRUNCATE PARTITION removes rows", "alter table d.t truncate partition p0"),
    ("cannot translate this statement for SQLite", "set names binary; create table d.e (e enum('é'))"),
];

#[test]
fn refused_transactions_are_not_applied_in_part() -> Result<()> {
    let source = source(&[], &[])?;
    let directory = TempDir::new()?;
    for (number, (expected, sql)) in REFUSED.iter().enumerate() {
        source.sql(
            "drop database if exists d; reset binary logs and gtids; create database d;
             create table d.t (id int primary key, n int) partition by range (id)
                 (partition p0 values less than maxvalue); insert into d.t values (1, 20260101)",
        )?;
        source.sql(&format!("{sql}; flush binary logs"))?;
        let file = directory.path().join(format!("{number}.db"));
        let Err(error) = replay_all(&source.binlogs()?, &file, CommitOrder::Grouped) else {
            bail!("the transaction was applied: {sql}")
        };
        let message = format!("{error:#}");
        ensure!(message.contains(expected), "{message}");
        let sqlite = Sqlite::open(&file)?;
        let count = |sql: &str| sqlite.query_row(sql, [], |row| row.get::<_, i64>(0));
        let (rows, columns) =
            (count("select sum(id) from \"d.t\"")?, count("select count(*) from pragma_table_info('d.t')")?);
        ensure!((rows, columns) == (1, 2), "{sql}: {rows} {columns}");
    }
    Ok(())
}

#[test]
fn references_equal_only_under_a_collation_are_refused() -> Result<()> {
    let source = source(&["--innodb-native-foreign-keys=ON"], &[])?;
    source.sql(
        "create database d; use d; create table p (k varchar(9) primary key); create table c (k varchar(9),
             foreign key (k) references p (k) on update cascade); insert into p values ('a'), ('b');
         insert into c values ('b'), ('A'); update p set k = 'bb' where k = 'b'; update p set k = 'aa' where k = 'a';
         flush binary logs",
    )?;
    let directory = TempDir::new()?;
    let file = directory.path().join("copy.db");
    let Err(error) = replay_all(&source.binlogs()?, &file, CommitOrder::Strict) else {
        bail!("the transaction was applied")
    };
    ensure!(error.to_string().contains("with a different spelling"), "{error}");
    let rows: String =
        Sqlite::open(&file)?.query_row("select group_concat(k, ' ') from \"d.c\"", [], |row| row.get(0))?;
    ensure!(rows == "bb A", "{rows}");
    Ok(())
}

#[test]
fn databases_of_other_programs_are_not_changed() -> Result<()> {
    let directory = TempDir::new()?;
    let file = directory.path().join("theirs.db");
    Sqlite::open(&file)?.execute_batch("create table theirs (x int); insert into theirs values (1)")?;
    let before = fs::read(&file)?;
    let Err(error) = SqliteTarget::open(&file) else { bail!("the database was opened") };
    ensure!(
        error.to_string().contains("the database contains the table theirs, but no replay progress"),
        "{error}"
    );
    ensure!(fs::read(&file)? == before, "the database has changed");
    Ok(())
}

#[test]
fn gaps_are_refused_before_a_file_is_created_and_progress_is_shown() -> Result<()> {
    let source = source(&[], &[])?;
    source.sql("create database d; create table d.t (id int primary key); flush binary logs")?;
    source.sql("insert into d.t values (1)")?;
    let logs = source.binlogs()?;
    let directory = TempDir::new()?;
    let file = directory.path().join("copy.db");
    let run = |logs: &[PathBuf], options: &[&str]| -> Result<CommandOutput> {
        let mut command = Command::new(bintide()?);
        command.env_clear().arg("replay").args(logs).args(["--to", &format!("sqlite:{}", file.display())]);
        Ok(command.args(options).output()?.into())
    };
    let ran = run(&logs[2..], &[])?;
    ensure!(ran.code == Some(2) && ran.stderr.starts_with("bintide: gap: the target lacks "), "{ran:?}");
    let ran = run(&[], &["--status"])?;
    let missing = format!("No progress is saved: the file {} does not exist.", file.display());
    ensure!(ran.code == Some(0) && ran.stdout.trim() == missing, "{ran:?}");
    ensure!(!file.exists(), "a file was created");
    ensure!(run(&logs, &[])?.code == Some(0));
    let applied = source.sql("select @@global.gtid_executed")?;
    for (option, expected) in [
        ("--status", format!("applied        {}", applied.trim())),
        ("--json", format!("\"applied\": \"{}\"", applied.trim())),
    ] {
        let ran = run(&[], &["--status", option][usize::from(option == "--status")..])?;
        ensure!(ran.code == Some(0) && ran.stdout.contains(&expected), "{expected}: {ran:?}");
    }
    ensure!(run(&logs, &["--dry-run"])?.code == Some(0));
    let names: Vec<_> =
        directory.path().read_dir()?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    ensure!(names == ["copy.db"], "reading left files: {names:?}");
    Ok(())
}

#[test]
fn dry_runs_expect_no_merging() -> Result<()> {
    let source = source(&[], &[])?;
    source.sql(
        "create database d; create table d.t (id int primary key, n int); insert into d.t values (1, 0);
         update d.t set n = 1; update d.t set n = 2; delete from d.t",
    )?;
    let logs = source.binlogs()?;
    let directory = TempDir::new()?;
    let to = format!("sqlite:{}", directory.path().join("copy.db").display());
    for options in [&["--dry-run", "--json"][..], &["--dry-run", "--json", "--offline"], &["--json"]] {
        let mut command = Command::new(bintide()?);
        let ran: CommandOutput =
            command.env_clear().arg("replay").args(&logs).args(["--to", &to]).args(options).output()?.into();
        let document: serde_json::Value = serde_json::from_str(&ran.stdout)?;
        let applied = if options.len() == 1 { &document["rows"] } else { &document["tables"][0]["applied"] };
        ensure!(ran.code == Some(0) && *applied == 4, "{options:?}: {ran:?}");
        ensure!(options.len() == 1 || document["tables"][0]["is_known"] == true, "{document}");
    }
    Ok(())
}

#[test]
fn later_replays_take_over() -> Result<()> {
    let directory = TempDir::new()?;
    let file = directory.path().join("copy.db");
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples/types.binlog");
    let earlier = SqliteTarget::open(&file)?;
    let later = SqliteTarget::open(&file)?;
    let replay = |target| replay_on(target, std::slice::from_ref(&log), &options(CommitOrder::Strict));
    let Err(error) = replay(&earlier) else { bail!("the earlier replay continues") };
    ensure!(error.to_string().contains("another replay has taken over"), "{error}");
    let report = replay(&later)?;
    ensure!(report.transactions > 20 && report.skipped == 0, "{report:?}");
    Ok(())
}

/// Transactions change two counters in turn: in any state of the source, the first counter equals the second, or is
/// one ahead.
#[test]
fn readers_see_only_states_that_the_source_had() -> Result<()> {
    let source = source(&[], &[])?;
    source.sql("create database d; create table d.a (n int); create table d.b (n int)")?;
    source.sql("insert into d.a values (0); insert into d.b values (0)")?;
    source.sql(&"update d.a set n = n + 1; update d.b set n = n + 1;".repeat(1500))?;
    source.sql("flush binary logs")?;
    let directory = TempDir::new()?;
    let (file, over) = (directory.path().join("copy.db"), AtomicBool::new(false));
    let logs = source.binlogs()?;
    let seen = thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<BTreeSet<i64>> {
            let mut seen = BTreeSet::new();
            while !over.load(Ordering::SeqCst) {
                // The tables may not exist yet.
                let Ok(sqlite) = Sqlite::open(&file) else { continue };
                let question = "select (select n from \"d.a\"), (select n from \"d.b\")";
                let Ok(state) = sqlite.query_row(question, [], |row| Ok((row.get(0)?, row.get(1)?))) else {
                    continue;
                };
                let (a, b): (Option<i64>, Option<i64>) = state;
                let (Some(a), Some(b)) = (a, b) else { continue };
                ensure!(a == b || a == b + 1, "the source never had the state {a} and {b}");
                ensure!(seen.last().is_none_or(|last| *last <= a), "the counter went back to {a}");
                seen.insert(a);
            }
            Ok(seen)
        });
        let replayed = replay_all(&logs, &file, CommitOrder::Strict);
        over.store(true, Ordering::SeqCst);
        let seen = reader.join().map_err(|_| anyhow!("the reader panicked"))?;
        replayed.and(seen)
    })?;
    ensure!(seen.len() > 2, "the reader saw {} states", seen.len());
    compare(&source, &file)?;
    Ok(())
}

#[test]
fn names_that_sqlite_does_not_distinguish_are_kept_apart() -> Result<()> {
    let source = source(&[], &[])?;
    source.sql(
        "create database d; use d; create table T (x int); create table t (x int); insert into T values (1);
         insert into t values (2), (3); drop table T; flush binary logs",
    )?;
    let directory = TempDir::new()?;
    let file = directory.path().join("copy.db");
    replay_all(&source.binlogs()?, &file, CommitOrder::Grouped)?;
    let rows: i64 = Sqlite::open(&file)?.query_row("select sum(x) from \"d.t~2\"", [], |row| row.get(0))?;
    ensure!(rows == 5, "{rows}");
    Ok(())
}

#[test]
fn killed_replays_resume() -> Result<()> {
    let seed = seed_from_env("BINTIDE_E2E_SEED");
    println!("BINTIDE_E2E_SEED={seed}");
    let mut random = SeededRandom::new(seed);
    for options in [&[][..], &["--gtid-mode=OFF"]] {
        let source = source(options, &[])?;
        source.sql("create database d; create table d.t (id int primary key auto_increment, n int)")?;
        source.sql(&"insert into d.t (n) values (1); update d.t set n = n + 1;".repeat(300))?;
        let changes = "insert into d.v values (1), (2); alter table d.v add column m int default 7;
                       delete from d.v limit 1; alter table d.v drop column m;";
        source.sql(&format!("create table d.v (n int); {}", changes.repeat(40)))?;
        source.sql("create table d.u as select * from d.t; flush binary logs")?;
        let directory = TempDir::new()?;
        let file = directory.path().join("copy.db");
        let command = || -> Result<Command> {
            let mut command = Command::new(bintide()?);
            command.env_clear().arg("replay").args(source.binlogs()?).args(["--group-max", "3", "--to"]);
            command.arg(format!("sqlite:{}", file.display()));
            Ok(command)
        };
        kill_and_resume(command, (0..12).map(|_| 20 + random.below(400) as u64))?;
        compare(&source, &file)?;
    }
    Ok(())
}

/// MariaDB logs an ALTER in two phases: only its commit has an effect. Its logs lack the zero bytes of a BINARY.
#[test]
fn alterations_of_mariadb_in_two_phases_are_executed_once() -> Result<()> {
    let source = Launch::of(TestPackage::MariaDb11_8)
        .options(["--binlog-format=ROW", "--binlog-alter-two-phase=ON"])
        .start()?;
    source.sql(
        "create database d; create table d.t (id int primary key, k binary(4)); \
         insert into d.t values (1, 'a'), (2, ''); alter table d.t add column q int default 7",
    )?;
    let failing = "alter table d.t add column r int, add constraint c check (id < 1)";
    ensure!(source.sql(failing).is_err(), "the server has executed {failing}");
    has_one_equal_table(&source)
}

/// With `sql_mode=ORACLE`, MariaDB's DATE has a time, a BLOB is a LONGBLOB, and a NUMBER is a DOUBLE.
#[test]
fn types_of_oracle_are_those_of_the_source() -> Result<()> {
    let source = Launch::of(TestPackage::MariaDb11_8).options(["--binlog-format=ROW"]).start()?;
    source.sql(
        "create database d; use d; set sql_mode = 'ORACLE';
         create table t (id int primary key, day date, data blob, n number, d number(5,2), v varchar2(5), r raw(3));
         insert into t values (1, '2024-01-02 03:04:05', repeat('a', 70000), 1.5, 2.25, 'text', 'raw');
         alter table t add column later date default '2024-02-03 04:05:06'; update t set n = 2.5",
    )?;
    has_one_equal_table(&source)
}

/// Replays a server's logs to a new file, and compares its only table with the server's.
fn has_one_equal_table(source: &TestServer) -> Result<()> {
    let directory = TempDir::new()?;
    let target = format!("sqlite:{}", directory.path().join("copy.db").display());
    let server = format!("mysql://root@127.0.0.1:{}/", source.port());
    let mut replay = Command::new(bintide()?);
    replay.env_clear().args(["replay", "--to", &target, "--verify", &server]).args(source.binlogs()?);
    let ran = CommandOutput::from(replay.output()?);
    ensure!(ran.code == Some(0) && ran.stdout.contains(": 1 equal"), "{} {}", ran.stdout, ran.stderr);
    Ok(())
}

/// Only a server computes generated columns. MariaDB's log lacks their values in updates, and no log has the rows that
/// the engine changes for a foreign key.
#[test]
fn unknown_values_of_generated_columns_are_refused() -> Result<()> {
    let source = Launch::of(TestPackage::MariaDb11_8).options(["--binlog-format=ROW"]).start()?;
    let directory = TempDir::new()?;
    let check = |database: &str, script: &str, expected: &str| -> Result<()> {
        source.sql(&format!("flush binary logs; create database {database}; use {database}; {script}"))?;
        let logs = source.binlogs()?;
        let target = format!("sqlite:{}", directory.path().join(database).display());
        let mut replay = Command::new(bintide()?);
        replay.env_clear().args(["replay", "--to", &target]).args(logs.last());
        let ran = CommandOutput::from(replay.output()?);
        ensure!(
            ran.code == Some(1) && ran.stderr.contains(expected),
            "{script}: {} {}",
            ran.stdout,
            ran.stderr
        );
        Ok(())
    };
    check(
        "updated",
        "create table t (id int primary key, a int, g int as (a + 1) stored);
         insert into t (id, a) values (1, 1); update t set a = 2",
        "the log omits the column g of a row in updated.t, and the server computes its value",
    )?;
    check(
        "cascaded",
        "create table p (id int primary key); create table c (id int primary key, p int, v int as (p * 10) virtual,
         constraint k foreign key (p) references p (id) on update cascade);
         insert into p values (1), (2); insert into c (id, p) values (1, 1);
         update p set id = 3 where id = 2; update p set id = 7 where id = 1",
        "the foreign key k changes rows of cascaded.c, and the server computes the values of the generated column v",
    )
}

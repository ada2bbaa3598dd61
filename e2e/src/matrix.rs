//! One server of each chosen version, with logs of the same statements, for tests that run a command on all servers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use testkit::{Launch, ServerFlavour, TestPackage, TestServer};

use crate::as_sql::TYPES;

/// A running server whose binary logs contain the shared statements. It runs until the test program ends, because
/// the tests of all commands share it.
#[derive(Debug)]
pub struct MatrixServer {
    /// Version of the server.
    pub package: TestPackage,
    /// The server.
    pub server: TestServer,
    /// Directory of the copied logs; each is a `*.binlog`.
    pub directory: PathBuf,
    /// Copies of the closed logs, in order.
    pub logs: Vec<PathBuf>,
}

type ServerSlot = &'static Mutex<Option<&'static MatrixServer>>;

static SLOTS: LazyLock<Mutex<BTreeMap<TestPackage, ServerSlot>>> = LazyLock::new(Mutex::default);

impl MatrixServer {
    /// Returns the server of this version. The first call starts it and runs the shared statements.
    ///
    /// # Errors
    ///
    /// Fails if the server does not start, or refuses a statement.
    pub fn of(package: TestPackage) -> Result<&'static Self> {
        let slot = *lock(&SLOTS).entry(package).or_insert_with(|| Box::leak(Box::default()));
        let mut slot = lock(slot);
        if let Some(server) = *slot {
            return Ok(server);
        }
        let server: &'static Self = Box::leak(Box::new(Self::start(package)?));
        *slot = Some(server);
        Ok(server)
    }

    fn start(package: TestPackage) -> Result<Self> {
        let server = launch(package).option("--server-id=1").start()?;
        server.sql(&work(package)).context("the shared statements failed")?;
        server.sql("flush logs")?;
        let directory = server.datadir().with_file_name("copies");
        fs::create_dir(&directory)?;
        let logs = server.binlogs()?;
        let closed = &logs[..logs.len() - 1];
        ensure!(closed.len() > 1, "{} has too few logs", package.name());
        let copies = closed.iter().enumerate().map(|(number, log)| {
            let copy = directory.join(format!("{number}.binlog"));
            fs::copy(log, &copy)?;
            Ok(copy)
        });
        let logs = copies.collect::<Result<_>>()?;
        Ok(Self { package, server, directory, logs })
    }

    /// Starts an empty server of the same version.
    ///
    /// # Errors
    ///
    /// Fails if the server does not start.
    pub fn target(&self) -> Result<TestServer> {
        launch(self.package).option("--server-id=2").start()
    }

    /// Returns `true` for a MariaDB server.
    pub fn is_mariadb(&self) -> bool {
        self.package.flavour() == Some(ServerFlavour::MariaDb)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A failed test does not make the server unusable for the others.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn launch(package: TestPackage) -> Launch {
    Launch::of(package).option("--binlog-format=ROW")
}

/// Runs a check on each of these versions, two at a time; reports all failures at the end.
///
/// # Errors
///
/// Fails if a check fails on a server.
pub fn check_each(
    packages: &[TestPackage],
    check: impl Fn(&'static MatrixServer) -> Result<()> + Sync,
) -> Result<()> {
    let check_all = |packages: &[TestPackage]| -> Vec<String> {
        let run = |package: &TestPackage| {
            let error = MatrixServer::of(*package).and_then(&check).err()?;
            Some(format!("{}: {error:#}", package.name()))
        };
        packages.iter().filter_map(run).collect()
    };
    let (first, second) = packages.split_at(packages.len() / 2);
    let failures = thread::scope(|scope| {
        let other = scope.spawn(|| check_all(first));
        let mut failures = check_all(second);
        failures.extend(other.join().unwrap_or_else(|_| vec!["a check panicked".to_owned()]));
        failures
    });
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

/// Transactions, definitions and large rows for all versions.
pub const PLAIN: &str = "create database w; use w;
    create table account (id int primary key auto_increment, owner varchar(40) character set latin1, n int, unique (owner))
      engine=innodb;
    insert into account (owner, n) values ('é', 1), ('b', 2), ('c', 3);
    begin; update account set n = n + 10 where id = 1; update account set n = n - 10 where id = 2; commit;
    begin; insert into account (owner, n) values ('d', 4); savepoint s; insert into account (owner, n) values ('gone', 5);
    rollback to s; insert into account (owner, n) values ('z', 6); commit;
    begin; delete from account; rollback;
    create table large (id int primary key, b longblob, t mediumtext) engine=innodb;
    insert into large values (1, repeat('x', 400000), repeat('é', 50000)), (2, repeat(x'00ff', 9000), ''), (3, null, null);
    update large set b = concat(b, 'y') where id = 1; delete from large where id = 3;
    create table log_of (id int primary key auto_increment, said varchar(60)) engine=innodb;
    alter table account add column note varchar(20) not null default 'none' after owner, add index i (n);
    insert into account (owner, n, note) values ('f', 7, 'later');
    alter table account modify n bigint; update account set n = 9000000000 where owner = 'f';
    alter table account drop column note; update account set n = n + 1 where owner = 'f';
    rename table large to larger; delete from larger where id = 2; update account set n = n * 2; truncate table log_of;
    create table old_engine (a int, b varchar(10)) engine=myisam; insert into old_engine values (1, 'a'), (1, 'a'), (2, null);
    update old_engine set b = 'b' where a = 1 limit 1; delete from old_engine where a = 2;
    create table parts (id int not null, y int not null, primary key (id, y)) engine=innodb
      partition by range (y) (partition p0 values less than (10), partition p1 values less than maxvalue);
    insert into parts values (1, 1), (2, 20); update parts set y = 30 where id = 1; flush logs;
    create table parent (id int primary key) engine=innodb;
    create table child (id int primary key, p int, foreign key (p) references parent (id) on delete cascade) engine=innodb;
    insert into parent values (1), (2); insert into child values (1, 1), (2, 2); delete from parent where id = 1;
    create table said (id int primary key auto_increment, owner varchar(40), n int) engine=innodb; set binlog_format = statement;
    insert into said (owner, n) values ('statement', 8); update said set n = n + 1 where owner = 'statement';
    set @x = 5; insert into said (owner, n) values (concat('variable ', @x), @x); set binlog_format = row;
    create view v as select id from account; drop view v; drop table old_engine;";

/// A trigger whose changes are in the log, which a replay as SQL statements refuses. Logs of MariaDB and MySQL 5.5
/// are replayed as SQL statements.
const TRIGGER: &str = "use w;
    create trigger t after update on account for each row insert into log_of (said) values (concat(new.owner, ' ', new.n));
    update account set n = n * 2; drop trigger t;";

/// JSON and generated columns, for MySQL since 5.7.
const JSON: &str = "use w; create table j (id int primary key, j json, v int as (json_extract(j, '$.a')) virtual, key (v));
    insert into j (id, j) values (1, '{\"a\": 1, \"b\": [1, 2.5, \"é\", null, true]}'), (2, '[]'), (3, null), (4, '\"text\"');
    update j set j = json_set(j, '$.a', 2, '$.c', cast('2020-01-01 10:00:00.5' as datetime(3))) where id = 1;
    delete from j where id = 2;";

/// Features of MySQL 8.0 only.
const MYSQL_8: &str = "use w;
    set binlog_row_value_options = partial_json; update j set j = json_set(j, '$.b[1]', 7) where id = 1;
    set binlog_row_value_options = ''; alter table account add column added int default 7, algorithm=instant;
    insert into account (owner, n) values ('instant', 1); update account set added = 8 where owner = 'instant';
    create role r; create user u identified by 'x'; grant select on w.* to u;";

/// A `CREATE TABLE … SELECT`, which a server with GTIDs allows since 8.0.21.
const CREATE_SELECT: &str = "use w; create table made as select id, owner from account;";

/// Features of MariaDB only, since 10.5.
const MARIADB: &str = "use w; create table own (id int primary key, i6 inet6, t varchar(500) compressed, b blob compressed, j json);
    insert into own values (1, '2001:db8::1', repeat('abc', 150), repeat('x', 300), '{\"a\": 1}'), (2, null, null, null, null);
    update own set i6 = '::' where id = 1; delete from own where id = 2;
    create sequence seq; create table made as select id, owner from account;
    begin; insert into account (owner, n) values ('xa', 1); commit;";

/// Servers of 8.0 that refuse [`CREATE_SELECT`].
const WITHOUT_CREATE_SELECT: [TestPackage; 2] = [TestPackage::Mysql8_0_15, TestPackage::Mysql8_0_12];

/// Returns the shared statements for this version: values of all its types, then transactions and definitions.
pub fn work(package: TestPackage) -> String {
    let mut parts = vec![types(package), PLAIN.to_owned()];
    match (package.flavour(), package.version()) {
        (Some(ServerFlavour::MariaDb), _) => parts.push(MARIADB.to_owned()),
        (_, version) if version >= (8, 0) && !WITHOUT_CREATE_SELECT.contains(&package) => {
            parts.extend([JSON, MYSQL_8, CREATE_SELECT].map(str::to_owned));
        }
        (_, version) if version >= (8, 0) => parts.extend([JSON, MYSQL_8].map(str::to_owned)),
        (_, version) if version >= (5, 7) => parts.push(JSON.to_owned()),
        _ => {}
    }
    if package.flavour() == Some(ServerFlavour::Mysql) && package.version() >= (5, 6) {
        parts.push(TRIGGER.to_owned());
    }
    parts.join("\n")
}

/// Returns edge values of all types that this version supports.
fn types(package: TestPackage) -> String {
    let version = package.version();
    let mut text = TYPES.to_owned();
    if version < (5, 6) {
        for (known, unknown) in [("", "(6)"), ("", "ST_")] {
            text = text.replace(unknown, known);
        }
        text = text.replace("time(2)", "time").replace("datetime(3)", "datetime");
    }
    if version < (5, 7) {
        let statements = text.split(';').filter(|statement| !statement.contains(" computed "));
        text = statements.collect::<Vec<_>>().join(";");
    }
    text
}

/// Returns the newest program that prints row events of this version, and its arguments: `mysqlbinlog` 9.7 does not
/// print version 1 of row events, which 5.5 writes.
pub fn log_printer(package: TestPackage) -> TestPackage {
    match (package.flavour(), package.version()) {
        (Some(ServerFlavour::MariaDb), (11, 4)) => TestPackage::MariaDb11_8,
        (Some(ServerFlavour::MariaDb), _) => package,
        (_, (5, 5)) => TestPackage::Mysql8_0,
        _ => TestPackage::Mysql,
    }
}

/// Counts the row changes in the output of `mysqlbinlog -v`: inserted, updated, deleted.
pub fn changes_shown(text: &[u8]) -> [usize; 3] {
    let lines = || text.split(|byte| *byte == b'\n');
    ["### INSERT INTO", "### UPDATE", "### DELETE FROM"]
        .map(|begin| lines().filter(|line| line.starts_with(begin.as_bytes())).count())
}

/// Returns the output of mysqlbinlog for these logs, with rows.
///
/// # Errors
///
/// Fails if mysqlbinlog refuses a log.
pub fn shown_by(printer: TestPackage, logs: &[PathBuf]) -> Result<Vec<u8>> {
    let mut arguments = vec!["--no-defaults".to_owned(), "-v".to_owned()];
    arguments.push("--base64-output=decode-rows".to_owned());
    arguments.extend(logs.iter().map(|log| path_text(log)));
    let output = testkit::PackageHome::find(printer)?.mysqlbinlog(&arguments, b"")?;
    ensure!(output.status.success(), "{}: {}", printer.name(), String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

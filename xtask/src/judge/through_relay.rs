//! Runs Debezium, Maxwell, canal and python-mysql-replication on a relay whose source writes compressed transactions.
//! All must report each change once, in the order of the log.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use testkit::{Launch, TestServer, free_port, target_dir, wait_until, workspace_root};

use super::{
    JavaProcess, LAST_VALUE, bintide_program, class_path, fetch_jars, make_directory, parse_lines, run,
    wait_for_end,
};

/// Name, password and database of the account that the programs use.
const ACCOUNT: &str = "judge";
/// Directory of Maxwell without the changed login of `bench/maxwell`.
const MAXWELL: &str = "maxwell-for-relay";
/// Maximum time of a program.
const RUN_TIME_MAX: Duration = Duration::from_secs(180);
/// Version of python-mysql-replication.
const PYTHON_PACKAGES: [&str; 2] = ["mysql-replication==1.0.17", "cryptography"];

/// Runs a program until the last change, and returns the changes that it reports.
type ChangeReader = fn(&JudgedRelay) -> Result<Vec<String>>;

/// Running relay, its source, and its files.
struct JudgedRelay {
    source: TestServer,
    port: u16,
    directory: PathBuf,
    process: Child,
}

impl Drop for JudgedRelay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs all programs, one after the other.
pub(super) fn judge(directory: &Path) -> Result<()> {
    super::debezium::fetch(&make_directory(&directory.join("debezium"))?)?;
    // The login of Maxwell needs mysql_native_password, which the relay has.
    fetch_jars(
        &make_directory(&directory.join(MAXWELL))?,
        "maxwell",
        &["Renamed.java", "ScriptObjectMirror.java"],
    )?;
    let relay = JudgedRelay::start(&directory.join("relay"))?;
    let expected = run_workload(&relay.source)?;
    let programs: [(&str, ChangeReader); 4] = [
        ("Debezium", run_debezium),
        ("Maxwell", run_maxwell),
        ("canal", run_canal),
        ("python-mysql-replication", run_python),
    ];
    for (name, changes) in programs {
        let found = changes(&relay).with_context(|| format!("{name} through a relay"))?;
        ensure!(found == expected, "{name} through a relay: changes {found:?}, expected {expected:?}");
        println!("{name} through a relay: {} changes, as expected", found.len());
    }
    Ok(())
}

impl JudgedRelay {
    fn start(directory: &Path) -> Result<Self> {
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        fs::create_dir_all(directory)?;
        let source = Launch::mysql().start()?;
        source.sql(&format!(
            "CREATE USER {ACCOUNT}@'%' IDENTIFIED BY '{ACCOUNT}'; GRANT ALL ON *.* TO {ACCOUNT}@'%'"
        ))?;
        let (accounts, password) = (directory.join("accounts.toml"), directory.join("password"));
        fs::write(&password, ACCOUNT)?;
        let mut add = Command::new(bintide_program());
        add.args(["relay", "user", "add", ACCOUNT, "--role=admin", "--native-password"]);
        run(add.arg("--accounts").arg(&accounts).arg("--password-file").arg(&password))?;
        let (port, address) = (free_port()?, format!("mysql://{ACCOUNT}@127.0.0.1:{}/", source.port()));
        let mut relay = Command::new(bintide_program());
        relay.arg("relay").arg(directory.join("logs")).args([
            "--from",
            &address,
            "--definitions-from",
            &address,
        ]);
        relay.arg("--password-file").arg(&password).arg("--accounts").arg(&accounts);
        relay
            .arg(format!("--listen=127.0.0.1:{port}"))
            .stderr(fs::File::create(directory.join("relay.log"))?);
        let relay = Self { source, port, directory: directory.to_owned(), process: relay.spawn()? };
        wait_until("the relay's port", || Ok(TcpStream::connect(("127.0.0.1", port)).is_ok()))
            .with_context(|| format!("see {}", directory.display()))?;
        Ok(relay)
    }
}

/// Changes rows with and without compression. Returns the changes, as the programs report them.
fn run_workload(source: &TestServer) -> Result<Vec<String>> {
    source.sql(
        "CREATE DATABASE judge; CREATE TABLE judge.t (id INT PRIMARY KEY, b VARCHAR(100)); FLUSH BINARY LOGS",
    )?;
    let mut changes = Vec::new();
    for round in 0..20 {
        let (first, second) = (round * 10, round * 10 + 1);
        let compression = ["ON", "OFF"][round % 2];
        source.sql(&format!(
            "SET SESSION binlog_transaction_compression = {compression}; BEGIN; \
             INSERT INTO judge.t VALUES ({first}, REPEAT('a', 90)), ({second}, REPEAT('b', 90)); \
             UPDATE judge.t SET b = 'c' WHERE id = {first}; DELETE FROM judge.t WHERE id = {second}; COMMIT"
        ))?;
        changes.extend([
            format!("insert {first}"),
            format!("insert {second}"),
            format!("update {first}"),
            format!("delete {second}"),
        ]);
    }
    source.sql(&format!("INSERT INTO judge.t VALUES ({LAST_VALUE}, 'end')"))?;
    changes.push(format!("insert {LAST_VALUE}"));
    Ok(changes)
}

fn run_debezium(relay: &JudgedRelay) -> Result<Vec<String>> {
    let jars = target_dir().join("judge/debezium");
    let path = |name: &str| relay.directory.join(format!("debezium.{name}"));
    // The logs have all definitions from the start, so no snapshot is needed.
    let settings = super::debezium::settings(relay.port, "never");
    fs::write(path("properties"), settings)?;
    let mut java = Command::new("java");
    java.arg("-cp").arg(class_path(&jars)).arg("Judge").args([path("properties"), path("records")]);
    java.arg(LAST_VALUE).stdout(Stdio::null()).stderr(fs::File::create(path("log"))?);
    run(&mut java).with_context(|| format!("see {}", path("log").display()))?;
    let changes = parse_lines(&fs::read_to_string(path("records"))?)?.into_iter().filter_map(|record| {
        let (kind, row) = match record["op"].as_str()? {
            "c" => ("insert", "after"),
            "u" => ("update", "after"),
            _ => ("delete", "before"),
        };
        (record["source"]["db"] == ACCOUNT).then(|| format!("{kind} {}", record[row]["id"]))
    });
    Ok(changes.collect())
}

fn run_maxwell(relay: &JudgedRelay) -> Result<Vec<String>> {
    let jars = target_dir().join("judge").join(MAXWELL);
    let [records, log] = ["records", "log"].map(|name| relay.directory.join(format!("maxwell.{name}")));
    fs::write(&records, "")?;
    let jdbc = "queryInterceptors=Renamed&allowPublicKeyRetrieval=true";
    let mut java = Command::new("java");
    java.arg("-cp").arg(class_path(&jars)).arg("com.zendesk.maxwell.Maxwell");
    java.args(["--host=127.0.0.1", "--replication_host=127.0.0.1", "--replica_server_id=9989"]);
    java.args([format!("--port={}", relay.source.port()), format!("--replication_port={}", relay.port)]);
    java.args(
        ["--user", "--password", "--replication_user", "--replication_password"]
            .map(|option| format!("{option}={ACCOUNT}")),
    );
    java.args([&format!("--jdbc_options={jdbc}"), "--filter=exclude: maxwell.*", "--producer=file"]);
    // Maxwell reads the definitions of the tables from the source, so it must not read those in the first log.
    java.args(["--init_position=binlog.000002:4:0"]).arg("--output_file").arg(&records);
    java.stdout(Stdio::null()).stderr(fs::File::create(&log)?);
    let mut engine = JavaProcess(java.spawn().context("could not run java")?);
    wait_for_end(&mut engine, &records, &log)?;
    let changes = parse_lines(&fs::read_to_string(&records)?)?.into_iter().filter_map(|record| {
        let kind = record["type"].as_str()?.to_owned();
        (record["database"] == ACCOUNT).then(|| format!("{kind} {}", record["data"]["id"]))
    });
    Ok(changes.collect())
}

fn run_canal(relay: &JudgedRelay) -> Result<Vec<String>> {
    let program = relay.directory.join("canal");
    let directory = workspace_root().join("bench/go-mysql");
    let mut build = Command::new("go");
    run(build.args(["build", "-o"]).arg(&program).arg("./canal").current_dir(directory))?;
    let mut canal = Command::new(program);
    canal.arg(format!("127.0.0.1:{}", relay.port)).args([ACCOUNT, ACCOUNT, ACCOUNT, LAST_VALUE]);
    Ok(run_to_end(&mut canal)?.lines().map(str::to_owned).collect())
}

fn run_python(relay: &JudgedRelay) -> Result<Vec<String>> {
    let environment = target_dir().join("judge/python");
    if !environment.join("complete").exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        let mut pip = Command::new(environment.join("bin/pip"));
        run(pip.args(["install", "--quiet"]).args(PYTHON_PACKAGES))?;
        fs::write(environment.join("complete"), "")?;
    }
    let mut python = Command::new(environment.join("bin/python"));
    python.arg(workspace_root().join("bench/python-mysql-replication/changes.py"));
    python.arg(relay.port.to_string()).args([ACCOUNT, ACCOUNT, ACCOUNT, LAST_VALUE]);
    let output = run_to_end(&mut python)?;
    Ok(output.lines().filter_map(|line| line.strip_prefix("changed ")).map(str::to_owned).collect())
}

/// Returns what a program prints until it ends by itself.
fn run_to_end(command: &mut Command) -> Result<String> {
    let mut process = command.stdout(Stdio::piped()).spawn().with_context(|| format!("{command:?}"))?;
    let began = Instant::now();
    while process.try_wait()?.is_none() {
        if began.elapsed() > RUN_TIME_MAX {
            process.kill()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = process.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{command:?}: {}, after it has printed {text:?}", output.status);
    Ok(text)
}

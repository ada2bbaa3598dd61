//! `bintide receive` compared with its source: the same bytes, wherever it is stopped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use binlog::EventType;
use e2e::command::{ChildGuard, wait_for};
use e2e::metrics::{number, scraped};
use e2e::program::bintide;
use e2e::received::{same_logs, same_logs_encrypted, write_keyring};
use logs::{LogReader, ReadOutcome};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{CutMode, HttpRequest, Launch, Proxy, SeededRandom, TestPackage, TestServer, seed_from_env};

const TABLE: &str = "create database d; create table d.t (a int primary key auto_increment, b longtext)";

fn receive(port: u16, directory: &Path, more: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    let from = format!("mysql://root@127.0.0.1:{port}/?timeout=8");
    command.env_clear().arg("receive").arg(directory).args(["--from", &from]).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn receive_all(server: &TestServer, directory: &Path, more: &[&str]) -> Result<String> {
    let ran = receive(server.port(), directory, more)?.arg("--stop-at-end").output()?;
    ensure!(ran.status.success(), "{}", stderr(&ran));
    Ok(String::from_utf8(ran.stdout)?)
}

fn stderr(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

/// Receives until the directory has the server's logs. Some time after a rotation, MariaDB writes an event to the
/// new log when the old one is synced.
fn receive_until_equal(server: &TestServer, directory: &Path) -> Result<()> {
    wait_for(|| {
        receive_all(server, directory, &[])?;
        same_logs(server, directory)
    })
}

/// A server with encrypted logs sends them in plain: bintide reads the copy, but not the server's own file.
#[test]
fn logs_encrypted_by_mariadb_are_received_in_plain() -> Result<()> {
    let directory = TempDir::new()?;
    let keys = directory.path().join("keys");
    fs::write(&keys, format!("1;{}\n", "5e".repeat(32)))?;
    let server = Launch::of(TestPackage::MariaDb11_8)
        .options(["--plugin-load-add=file_key_management", "--encrypt-binlog=ON"])
        .option(format!("--file-key-management-filename={}", keys.display()))
        .start()?;
    server.sql(TABLE)?;
    server.sql("insert into d.t (b) values ('one'), ('two')")?;
    let copy = directory.path().join("copy");
    receive_all(&server, &copy, &[])?;
    // From the middle of a log, the server sends the start of the encryption again.
    server.sql("insert into d.t (b) values ('three')")?;
    receive_all(&server, &copy, &[])?;
    let program = bintide()?;
    let stats = |log: &Path| Command::new(program).args(["stats", "--json"]).arg(log).output();
    let log = server.binlogs()?.first().context("no log")?.clone();
    let name = log.file_name().context("no name")?;
    let ran = stats(&copy.join(name))?;
    ensure!(ran.status.success(), "{}", stderr(&ran));
    let counted: Value = serde_json::from_slice(&ran.stdout)?;
    ensure!(counted["totals"]["transactions"] == 4, "{counted}");
    let ran = stats(&log)?;
    ensure!(
        ran.status.code() == Some(2) && stderr(&ran).contains(" is encrypted by MariaDB from "),
        "{}",
        stderr(&ran)
    );
    Ok(())
}

/// Sends SIGINT, as Ctrl-C does; returns exit status and output.
fn interrupt(child: Child) -> Result<Output> {
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
    Ok(child.wait_with_output()?)
}

#[test]
fn received_logs_equal_the_sources_after_a_second_run() -> Result<()> {
    for launch in [Launch::mysql(), Launch::mariadb()] {
        let server = launch.start()?;
        let directory = TempDir::new()?;
        server.sql(TABLE)?;
        for compression in ["none", "zlib"] {
            server.sql(
                "insert into d.t (b) values ('one'), (repeat('two', 100000)); flush binary logs;
                 insert into d.t (b) values ('three')",
            )?;
            let printed = receive_all(&server, directory.path(), &["--compression", compression])?;
            ensure!(
                printed.contains(" received; ") && printed.contains(" ends at binlog.00000"),
                "{printed}"
            );
            receive_until_equal(&server, directory.path())?;
        }
        // A second run without new transactions.
        wait_for(|| {
            let printed = receive_all(&server, directory.path(), &["--json"])?;
            ensure!(
                printed.contains("\"transactions\": 0") && printed.contains("\"events\": 0,"),
                "{printed}"
            );
            Ok(())
        })?;
        receive_until_equal(&server, directory.path())?;
    }
    Ok(())
}

/// After repeated kills while the server writes, the logs have the same bytes.
#[test]
fn kills_neither_lose_nor_repeat_bytes() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    for launch in [Launch::mysql(), Launch::mariadb()] {
        let server = launch.options(["--max-binlog-size=256K", "--binlog-format=row"]).start()?;
        let directory = TempDir::new()?;
        server.sql(TABLE)?;
        let inserts = "insert into d.t (b) values (repeat('x', 2000)); ".repeat(800);
        thread::scope(|scope| -> Result<()> {
            let client = scope.spawn(|| server.sql(&inserts));
            let mut kills = 0;
            while !client.is_finished() || kills < 8 {
                let mut child = receive(server.port(), directory.path(), &["-q"])?.spawn()?;
                thread::sleep(Duration::from_millis(20 + random.below(300) as u64));
                child.kill()?;
                child.wait()?;
                kills += 1;
            }
            client.join().map_err(|_| anyhow!("the client panicked"))?.map(drop)
        })?;
        receive_until_equal(&server, directory.path())?;
        ensure!(server.binlogs()?.len() > 3, "the server has not rotated its log");
    }
    Ok(())
}

/// Closed logs are compressed. After any kill, they decompress to the source's bytes, and a stream that follows the
/// directory misses nothing.
#[test]
fn closed_logs_are_compressed() -> Result<()> {
    kept_compressed(None)
}

/// Repeats the test with logs that are encrypted from the start, or later.
#[test]
fn closed_logs_are_compressed_and_encrypted() -> Result<()> {
    let directory = TempDir::new()?;
    let keyring = directory.path().join("keyring");
    write_keyring(&keyring)?;
    kept_compressed(Some(text(&keyring)?))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

fn kept_compressed(keyring: Option<&str>) -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let server = Launch::mysql().options(["--max-binlog-size=128K", "--binlog-format=row"]).start()?;
    let target = e2e::replays::target("--skip-log-bin")?;
    let (directory, opened) = (TempDir::new()?, TempDir::new()?);
    let key: Vec<&str> = keyring.map(|keyring| ["--keyring", keyring]).into_iter().flatten().collect();
    let encrypt = keyring.map(|_| "--encrypt");
    let compress = ["--compress", "3", "--compression", "zlib", "--json"];
    let compress: Vec<&str> = compress.into_iter().chain(encrypt).chain(key.iter().copied()).collect();
    server.sql(TABLE)?;
    receive_all(&server, directory.path(), &compress)?;
    let to = format!("mysql://root@localhost/?socket={}", target.socket().display());
    let mut replay = Command::new(bintide()?);
    replay
        .env_clear()
        .args(["replay", "-q", "--follow"])
        .arg(directory.path())
        .args(["--to", &to])
        .args(&key);
    let mut replay = replay.stdout(Stdio::null()).spawn()?;
    let inserts =
        "insert into d.t (b) values (repeat('x', 2000)); update d.t set b = 'y' limit 2;".repeat(400);
    thread::scope(|scope| -> Result<()> {
        let client = scope.spawn(|| server.sql(&inserts));
        let mut kills = 0;
        while !client.is_finished() || kills < 8 {
            let mut child = receive(server.port(), directory.path(), &compress)?.spawn()?;
            thread::sleep(Duration::from_millis(20 + random.below(300) as u64));
            child.kill()?;
            child.wait()?;
            kills += 1;
        }
        client.join().map_err(|_| anyhow!("the client panicked"))?.map(drop)
    })?;
    server.sql("flush binary logs; insert into d.t (b) values (repeat('end', 1000)); flush binary logs")?;
    let printed: serde_json::Value =
        serde_json::from_str(&receive_all(&server, directory.path(), &compress)?)?;
    let figure = |name: &str| printed[name].as_u64().with_context(|| format!("{name} is missing: {printed}"));
    ensure!(figure("logs_compressed")? > 0, "{printed}");
    ensure!(figure("compressed_to")? < figure("compressed_from")?, "{printed}");
    // The receiver requests the last event, of a few bytes, again.
    ensure!(figure("network_bytes")? > 0 && figure("bytes")? > 0, "{printed}");
    wait_for(|| e2e::as_sql::are_equal(&server, &target, e2e::replays::checksum))?;
    replay.kill()?;
    replay.wait()?;
    let mut decompress = Command::new(bintide()?);
    decompress.env_clear().args(["decompress", "-q", "--plain"]).args(&key).arg(directory.path());
    decompress.arg("--output").arg(opened.path());
    let ran = decompress.output()?;
    ensure!(ran.status.success(), "{}", stderr(&ran));
    let size =
        |directory: &Path, name: &Path| Ok::<_, anyhow::Error>(fs::metadata(directory.join(name))?.len());
    let logs = server.binlogs()?;
    for log in &logs {
        let name = Path::new(log.file_name().context("a log without a name")?);
        let is_sealed = fs::read(directory.path().join(name))?.starts_with(&binlog::MAGIC_ENCRYPTED);
        ensure!(is_sealed == keyring.is_some(), "{}: encrypted is not as expected", name.display());
        let is_smaller = size(directory.path(), name)? * 4 < size(opened.path(), name)?;
        ensure!(is_smaller || fs::metadata(log)?.len() < 4000, "{} is not compressed", name.display());
    }
    fs::copy(directory.path().join("binlog.index"), opened.path().join("binlog.index"))?;
    same_logs(&server, opened.path())?;
    // Without GTIDs, a replica has no position in a compressed log.
    let without = Launch::mysql().option("--gtid-mode=OFF").start()?;
    let ran = receive(without.port(), TempDir::new()?.path(), &compress)?.output()?;
    ensure!(ran.status.code() == Some(2) && stderr(&ran).contains("gtid_mode=ON"), "{ran:?}");
    Ok(())
}

/// After any kill, the logs are encrypted, and decrypt to the source's bytes.
#[test]
fn received_logs_can_be_encrypted() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let server = Launch::mysql().options(["--max-binlog-size=128K", "--binlog-format=row"]).start()?;
    let (directory, keys) = (TempDir::new()?, TempDir::new()?);
    let keyring = keys.path().join("keyring");
    write_keyring(&keyring)?;
    let encrypt = ["--encrypt", "--keyring", text(&keyring)?];
    server.sql(TABLE)?;
    let inserts = "insert into d.t (b) values (repeat('readable ', 300)); ".repeat(500);
    thread::scope(|scope| -> Result<()> {
        let client = scope.spawn(|| server.sql(&inserts));
        let mut kills = 0;
        while !client.is_finished() || kills < 8 {
            let mut child = receive(server.port(), directory.path(), &encrypt)?.spawn()?;
            thread::sleep(Duration::from_millis(20 + random.below(200) as u64));
            child.kill()?;
            child.wait()?;
            kills += 1;
        }
        client.join().map_err(|_| anyhow!("the client panicked"))?.map(drop)
    })?;
    receive_all(&server, directory.path(), &encrypt)?;
    same_logs_encrypted(&server, directory.path(), &keyring)?;
    for log in server.binlogs()? {
        let kept = fs::read(directory.path().join(log.file_name().context("a log without a name")?))?;
        ensure!(!kept.windows(8).any(|part| part == b"readable"), "{} is not encrypted", log.display());
    }
    readers_need_the_key(&server, directory.path(), text(&keyring)?)?;
    // An encrypted log resumes encrypted, and only with its key; --encrypt applies to new logs.
    let without = receive(server.port(), directory.path(), &["--stop-at-end"])?.output()?;
    ensure!(without.status.code() == Some(2), "{without:?}");
    ensure!(stderr(&without).contains("give this file with --keyring"), "{}", stderr(&without));
    let without = receive(server.port(), directory.path(), &["--encrypt"])?.output()?;
    ensure!(without.status.code() == Some(2), "{without:?}");
    ensure!(stderr(&without).contains("--encrypt needs --keyring FILE"), "{}", stderr(&without));
    server.sql("insert into d.t (b) values ('more'); flush binary logs; create table d.u (a int)")?;
    let plain = receive(server.port(), directory.path(), &["--stop-at-end", "--keyring", text(&keyring)?])?
        .output()?;
    ensure!(
        plain.status.success() && stderr(&plain).contains("is encrypted, but new logs will not be"),
        "{plain:?}"
    );
    let logs = server.binlogs()?;
    let last = logs.last().and_then(|log| log.file_name()).context("a log without a name")?;
    ensure!(fs::read(directory.path().join(last))?.starts_with(&binlog::MAGIC), "the log is encrypted");
    Ok(())
}

/// Checks that each command which reads a directory reads this one with its key, and names the missing key without
/// it.
fn readers_need_the_key(server: &TestServer, directory: &Path, keyring: &str) -> Result<()> {
    let run = |command: &str, log: &Path, more: &[&str]| -> Result<Output> {
        let mut ran = Command::new(bintide()?);
        Ok(ran.env_clear().env("TZ", "UTC").arg(command).arg(log).args(more).output()?)
    };
    let key = ["--keyring", keyring];
    for (command, more) in [
        ("verify", &["-q"][..]),
        ("stats", &["-q"]),
        ("dump", &[]),
        ("stream", &["--format", "maxwell", "--columns", "numbered", "-q"]),
    ] {
        let (there, here) = (server.datadir().join("binlog.000001"), directory.join("binlog.000001"));
        let expected = run(command, &there, more)?;
        let found = run(command, &here, &[more, &key].concat())?;
        ensure!(expected.status.success() && found.status.success(), "{command}: {expected:?} {found:?}");
        let is_of_text = matches!(command, "dump" | "stream");
        ensure!(!is_of_text || found.stdout == expected.stdout, "{command} prints different output");
        let without = run(command, &here, more)?;
        ensure!(!without.status.success(), "{command} needs no key");
        ensure!(stderr(&without).contains("encrypted"), "{command}: {}", stderr(&without));
    }
    Ok(())
}

/// A source whose logs cannot contain compressed transactions is refused at the start.
#[test]
fn sources_whose_logs_cannot_be_compressed_are_refused() -> Result<()> {
    let server = Launch::of(TestPackage::Mysql5_7)
        .options(["--server-id=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"])
        .start()?;
    let directory = TempDir::new()?;
    let ran = receive(server.port(), directory.path(), &["--stop-at-end", "--compress", "3"])?.output()?;
    let expected = "--compress needs a source of MySQL 8.0.20 or later";
    ensure!(ran.status.code() == Some(2) && stderr(&ran).contains(expected), "{ran:?}");
    ensure!(stderr(&ran).contains("the source has version 5.7.22"), "{ran:?}");
    receive_all(&server, directory.path(), &[]).map(drop)
}

/// A failed compression is retried, and the metrics report it.
#[test]
fn failed_compressions_are_retried() -> Result<()> {
    let server = Launch::mysql().start()?;
    let (directory, keys) = (TempDir::new()?, TempDir::new()?);
    let keyring = keys.path().join("keyring");
    write_keyring(&keyring)?;
    server.sql(TABLE)?;
    server.sql("insert into d.t (b) values (repeat('x', 100000)); flush binary logs; flush binary logs")?;
    let key = ["--keyring", text(&keyring)?];
    receive_all(&server, directory.path(), &[&["--encrypt"], &key[..]].concat())?;
    // The current log is not encrypted, so nothing else needs the key.
    server.sql("flush binary logs")?;
    receive_all(&server, directory.path(), &key)?;
    let whole = fs::read(&keyring)?;
    fs::write(&keyring, r#"{"version":"1.0","elements":[]}"#)?;
    let log = directory.path().join("binlog.000001");
    let before = fs::metadata(&log)?.len();
    let more = [&key[..], &["--compress", "3", "--metrics", "127.0.0.1:0"]].concat();
    let mut child = ChildGuard::start(&mut receive(server.port(), directory.path(), &more)?)?;
    let mut lines = BufReader::new(child.stderr.take().context("standard error is not piped")?).lines();
    let metrics = &metrics_of(&lines.next().context("the command ended")??)?;
    let failed = lines.next().context("the command ended")??;
    ensure!(
        failed.contains("is not in the keyring") && failed.contains("retrying in 1.0 s, then"),
        "{failed}"
    );
    let told = scraped(metrics)?;
    ensure!(number(&told, "bintide_receive_logs_to_compress")? >= 1.0, "{told}");
    wait_for(|| {
        let told = scraped(metrics)?;
        let failed = number(&told, "bintide_receive_compressions_failed_total")?;
        ensure!(failed >= 1.0, "{told}");
        Ok(())
    })?;
    fs::write(&keyring, whole)?;
    wait_for(|| {
        let told = scraped(metrics)?;
        ensure!(number(&told, "bintide_receive_logs_to_compress")? == 0.0, "{told}");
        Ok(())
    })?;
    ensure!(fs::metadata(&log)?.len() * 10 < before, "the log is not compressed");
    Ok(())
}

/// A server reads logs that were received with its keyring like its own.
#[test]
fn servers_read_our_encrypted_logs() -> Result<()> {
    let mut server = Launch::mysql().keyring().option("--binlog-encryption=ON").start()?;
    server.sql(TABLE)?;
    server
        .sql("insert into d.t (b) values (repeat('one', 20000)); alter instance rotate binlog master key")?;
    server.sql("insert into d.t (b) values ('two'); flush binary logs; flush binary logs")?;
    let (directory, keyring) = (TempDir::new()?, server.datadir().join("keyring"));
    receive_all(&server, directory.path(), &["--encrypt", "--keyring", text(&keyring)?])?;
    let logs = server.binlogs()?;
    let Some((_, closed)) = logs.split_last() else { return Err(anyhow!("no logs")) };
    let shown = |server: &TestServer| -> Result<Vec<String>> {
        let names = closed.iter().filter_map(|log| log.file_name()?.to_str());
        names.map(|name| server.sql(&format!("show binlog events in '{name}'"))).collect()
    };
    let expected = shown(&server)?;
    server.stop()?;
    for log in closed {
        let ours = fs::read(directory.path().join(log.file_name().context("a log without a name")?))?;
        let theirs = fs::read(log)?;
        ensure!(ours.len() == theirs.len() && ours[512..] != theirs[512..], "{}", log.display());
        fs::write(log, ours)?;
    }
    server.start_again(&[])?;
    ensure!(shown(&server)? == expected, "the server shows different events");
    // The server re-encrypts the headers with its new key, and removes the old key.
    server.sql("alter instance rotate binlog master key")?;
    ensure!(shown(&server)? == expected, "with its new key, the server shows different events");
    Ok(())
}

/// The receiver follows through a restart of the server, and ends at SIGINT.
#[test]
fn receiving_continues_after_a_restart_of_the_server() -> Result<()> {
    let mut server = Launch::mysql().start()?;
    let directory = TempDir::new()?;
    server.sql(TABLE)?;
    let child = receive(server.port(), directory.path(), &[])?.spawn()?;
    wait_for(|| same_logs(&server, directory.path()))?;
    server.stop()?;
    server.start_again(&[])?;
    server.sql("insert into d.t (b) values ('after')")?;
    wait_for(|| same_logs(&server, directory.path()))?;
    let ran = interrupt(child)?;
    ensure!(ran.status.code() == Some(130), "{ran:?}");
    let (lost, back) = ("retrying in", format!("connected to the server at 127.0.0.1:{}\n", server.port()));
    ensure!(stderr(&ran).contains(lost) && stderr(&ran).contains(&back), "{}", stderr(&ran));
    ensure!(String::from_utf8_lossy(&ran.stdout).contains("received"), "{ran:?}");
    same_logs(&server, directory.path())
}

/// Messages of a run that loses its server and reconnects, in JSON for log collectors.
#[test]
fn messages_have_levels_in_json() -> Result<()> {
    let mut server = Launch::mysql().start()?;
    let directory = TempDir::new()?;
    server.sql(TABLE)?;
    let options = ["--log-format", "json", "--metrics", "127.0.0.1:0"];
    let child = receive(server.port(), directory.path(), &options)?.spawn()?;
    wait_for(|| same_logs(&server, directory.path()))?;
    server.stop()?;
    server.start_again(&[])?;
    server.sql("insert into d.t (b) values ('after')")?;
    wait_for(|| same_logs(&server, directory.path()))?;
    let ran = interrupt(child)?;
    let printed = stderr(&ran);
    let messages: Vec<Value> = printed.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    for (level, expected) in [("info", "metrics are at"), ("warn", "retrying in"), ("info", "connected to")] {
        let is_it = |message: &Value| {
            message["level"] == level
                && message["message"].as_str().is_some_and(|text| text.contains(expected))
        };
        ensure!(messages.iter().any(is_it), "{level} {expected}: {printed}");
    }
    // The same run as text, with warnings and errors only.
    let (port, levels) =
        (server.port(), ["--log-level", "warn", "--stop-at-end", "--metrics", "127.0.0.1:0"]);
    let quieter = receive(port, directory.path(), &levels)?.output()?;
    ensure!(quieter.status.success() && quieter.stderr.is_empty(), "{quieter:?}");
    Ok(())
}

/// The receiver reconnects after every kind of cut, at any byte.
#[test]
fn receiving_continues_after_network_failures() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let server = Launch::mysql().option("--max-binlog-size=1M").start()?;
    server.sql(TABLE)?;
    server.sql(&"insert into d.t (b) values (repeat('x', 20000)); ".repeat(100))?;
    let proxy = Proxy::to(server.port())?;
    let directory = TempDir::new()?;
    // A silent network is detected after the 8 seconds in the address.
    let cuts = [CutMode::Close, CutMode::Reset, CutMode::Close, CutMode::Reset, CutMode::Silence];
    proxy.cut_after(5000 + random.below(200_000) as u64, cuts[0]);
    let child = receive(proxy.port(), directory.path(), &[])?.spawn()?;
    for next in cuts.iter().skip(1).map(Some).chain([None]) {
        wait_for(|| proxy.is_cut().then_some(()).context("the proxy has not cut the connection"))?;
        proxy.mend();
        if let Some(cut) = next {
            proxy.cut_after(5000 + random.below(400_000) as u64, *cut);
            server.sql(&"insert into d.t (b) values (repeat('y', 20000)); ".repeat(20))?;
        }
    }
    wait_for(|| same_logs(&server, directory.path()))?;
    let ran = interrupt(child)?;
    ensure!(ran.status.code() == Some(130), "{ran:?}");
    ensure!(stderr(&ran).matches("retrying in").count() >= 3, "{}", stderr(&ran));
    Ok(())
}

fn fails(from: &str, directory: &Path, code: i32, expected: &[&str]) -> Result<()> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("receive").arg(directory).args(["--from", from, "--stop-at-end", "-q"]);
    let ran = command.output()?;
    let printed = stderr(&ran);
    ensure!(ran.status.code() == Some(code), "{:?} {printed}", ran.status.code());
    for expected in expected {
        ensure!(printed.contains(expected), "{expected}: {printed}");
    }
    Ok(())
}

#[test]
fn obstacles_are_named() -> Result<()> {
    let server = Launch::mysql().start()?;
    let directory = TempDir::new()?;
    server.sql("create user r@'%' identified by 'secret'")?;
    let port = server.port();
    let from = format!("mysql://r:secret@127.0.0.1:{port}/?tls=required");
    fails(&from, directory.path(), 2, &["REPLICATION SLAVE"])?;
    server.sql("grant replication slave on *.* to r@'%'")?;
    let wrong = format!("mysql://r:wrong@127.0.0.1:{port}/?tls=required");
    fails(&wrong, directory.path(), 2, &["Access denied for user 'r'", "1045"])?;
    fails("mysql://r@127.0.0.1:1/", directory.path(), 2, &["the connection to the server at 127.0.0.1:1"])?;
    fails(&from, &server.datadir(), 2, &["is a server's data directory"])?;
    fails(&from, directory.path(), 0, &[])?;
    fails("mysql://r@127.0.0.1/?tls=maybe", directory.path(), 2, &["--from: tls is maybe"])?;
    // The source purges a log that the receiver needs.
    server.sql("flush binary logs")?;
    receive_all(&server, directory.path(), &[])?;
    server.sql(
        "create database gone; flush binary logs; flush binary logs; purge binary logs to 'binlog.000004'",
    )?;
    let another = "keep this directory as it is, and receive into another one";
    fails(&from, directory.path(), 1, &["cannot resume after binlog.000002", "1236", another])?;
    // An empty directory starts with the available logs.
    let fresh = TempDir::new()?;
    fails(&from, fresh.path(), 0, &[])?;
    same_logs(&server, fresh.path())
}

/// A failed start removes the files and directories that it created, and no others.
#[test]
fn failed_starts_leave_no_files() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql("flush binary logs; purge binary logs to 'binlog.000002'; flush binary logs")?;
    server.sql("create user r@'%' identified by 's'; grant replication slave on *.* to r@'%'")?;
    let port = server.port();
    let (root, r) =
        (format!("mysql://root@127.0.0.1:{port}/"), format!("mysql://r:s@127.0.0.1:{port}/?tls=required"));
    let there = TempDir::new()?;
    let (directory, file) = (there.path().join("of/this"), there.path().join("file"));
    fs::write(&file, "mine")?;
    let check = |directory: &Path, from: &str, more: &[&str], expected: &[&str]| -> Result<()> {
        let mut command = Command::new(bintide()?);
        command.env_clear().arg("receive").arg(directory).args(["--from", from, "--stop-at-end"]).args(more);
        let ran = command.output()?;
        let printed = stderr(&ran);
        ensure!(ran.status.code() == Some(2), "{more:?}: {:?} {printed}", ran.status.code());
        for expected in expected {
            ensure!(printed.contains(expected), "{expected} is not in {printed}");
        }
        let left: Vec<_> =
            fs::read_dir(there.path())?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
        ensure!(left == ["file"] && fs::read(&file)? == b"mine", "{more:?} leaves {left:?}");
        Ok(())
    };
    let known = ["binlog.000009", "its oldest is binlog.000002, its newest binlog.000003"];
    check(&directory, &root, &["--start-log", "binlog.000009"], &known)?;
    let unknown =
        ["the source has no log nonsense", "SHOW BINARY LOGS", "REPLICATION CLIENT", "omit --start-log"];
    check(&directory, &r, &["--start-log", "nonsense"], &unknown)?;
    check(&directory, &root, &["--start-log", ""], &["--start-log", "none was supplied"])?;
    let later = "5ea5ca5e-0001-4000-8000-000000000001:1";
    let purged = [
        "1236",
        "after the GTIDs of --start-after-gtid",
        "a backup that is not older than the source's logs",
    ];
    server.sql("create database gone; flush binary logs; purge binary logs to 'binlog.000004'")?;
    check(&directory, &root, &["--start-after-gtid", later], &purged)?;
    check(&directory, &r.replace(":s@", ":wrong@"), &[], &["Access denied for user 'r'"])?;
    check(&directory, "mysql://r@127.0.0.1:1/", &[], &["the connection to the server at 127.0.0.1:1"])?;
    check(&directory, "mysql://r@nowhere.invalid/", &[], &["nowhere.invalid"])?;
    check(&directory, &root, &["--metrics", &format!("127.0.0.1:{port}")], &["could not serve metrics"])?;
    check(
        &directory,
        &root,
        &["--keyring", "/nowhere/keyring"],
        &["could not read the keyring /nowhere/keyring"],
    )?;
    // No directory is created below a file, or in a system directory.
    let expected = format!("{} is a file; expected a directory", file.display());
    check(&file, &root, &[], &[&expected])?;
    check(&file.join("below"), &root, &[], &[&expected])?;
    check(Path::new("/proc/below"), &root, &[], &["could not create /proc/below: "])?;
    // An existing directory is kept with its files.
    fs::create_dir_all(&directory)?;
    fs::write(directory.join("note"), "mine")?;
    let ran = receive(port, &directory, &["--start-log", "binlog.000009"])?.output()?;
    ensure!(ran.status.code() == Some(2), "{ran:?}");
    let left: Vec<_> =
        fs::read_dir(&directory)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    ensure!(left == ["note"], "{left:?}");
    // Start options apply to an empty directory only.
    receive_all(&server, &directory, &[])?;
    let ran = receive(port, &directory, &["--start-log", "binlog.000009", "--stop-at-end"])?.output()?;
    ensure!(ran.status.success(), "{ran:?}");
    let printed = stderr(&ran);
    ensure!(printed.contains("--start-log binlog.000009 is ignored"), "{printed}");
    ensure!(printed.contains("resuming in binlog.00000"), "{printed}");
    same_logs(&server, &directory)
}

/// The receiver waits for a keyring that is being written when a log starts; after the timeout it ends.
#[test]
fn receiving_waits_for_half_written_keyrings() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql(TABLE)?;
    let (directory, keys) = (TempDir::new()?, TempDir::new()?);
    let keyring = keys.path().join("keyring");
    write_keyring(&keyring)?;
    let whole = fs::read(&keyring)?;
    let more = ["--encrypt", "--keyring", text(&keyring)?];
    let mut child = ChildGuard::start(&mut receive(server.port(), directory.path(), &more)?)?;
    let mut lines = BufReader::new(child.stderr.take().context("standard error is not piped")?).lines();
    wait_for(|| same_logs_encrypted(&server, directory.path(), &keyring))?;
    let mut half_written = || -> Result<()> {
        fs::write(&keyring, &whole[..whole.len() / 2])?;
        server.sql("flush binary logs; insert into d.t (b) values ('more')")?;
        let line = lines.next().context("the command ended")??;
        ensure!(line.contains("keyring") && line.ends_with("waiting 10.0 s for a valid keyring"), "{line}");
        Ok(())
    };
    half_written()?;
    fs::write(&keyring, &whole)?;
    wait_for(|| same_logs_encrypted(&server, directory.path(), &keyring))?;
    half_written()?;
    let line = lines.next().context("the command ended")??;
    ensure!(line.ends_with("rename it over the old one, and run the command again"), "{line}");
    let ran = child.output()?;
    ensure!(ran.status.code() == Some(1), "{ran:?}");
    fs::write(&keyring, &whole)?;
    receive_all(&server, directory.path(), &more)?;
    same_logs_encrypted(&server, directory.path(), &keyring)
}

/// A compressed log has other positions than the source's.
#[test]
fn compressed_newest_logs_are_refused_until_they_are_restored() -> Result<()> {
    let server = Launch::mysql().start()?;
    let directory = TempDir::new()?;
    server.sql(TABLE)?;
    for _ in 0..20 {
        server.sql("insert into d.t (b) values (repeat('abc', 2000))")?;
    }
    receive_all(&server, directory.path(), &[])?;
    let log = directory.path().join("binlog.000001");
    let replace = |command: &str| -> Result<()> {
        let output = TempDir::new()?;
        let ran =
            Command::new(bintide()?).arg(command).arg("--output").arg(output.path()).arg(&log).output()?;
        ensure!(ran.status.success(), "{}", stderr(&ran));
        for entry in fs::read_dir(output.path())? {
            let entry = entry?;
            fs::copy(entry.path(), directory.path().join(entry.file_name()))?;
        }
        Ok(())
    };
    let list = directory.path().join("positions.binlog.000001");
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    let compressed_text =
        ["has rewritten this log", "positions.binlog.000001", "bintide decompress --output DIR"];
    for more in ["", "insert into d.t (b) values (repeat('abc', 100000))"] {
        server.sql(more)?;
        replace("compress")?;
        fails(&from, directory.path(), 1, &compressed_text)?;
        // Without the list of compressed logs, nothing shows that the log was compressed.
        fs::rename(&list, directory.path().join("list"))?;
        fails(&from, directory.path(), 1, &["because its logs were reset or the received log was changed"])?;
        fs::rename(directory.path().join("list"), &list)?;
        replace("decompress")?;
        fs::remove_file(&list)?;
        receive_all(&server, directory.path(), &[])?;
        same_logs(&server, directory.path())?;
    }
    Ok(())
}

/// After RESET, the source's logs have their old names and different events.
#[test]
fn different_logs_with_the_same_name_are_refused() -> Result<()> {
    let server = Launch::mysql().start()?;
    let directory = TempDir::new()?;
    server.sql("create database one")?;
    receive_all(&server, directory.path(), &[])?;
    let before = fs::read(directory.path().join("binlog.000001"))?;
    server.sql("reset binary logs and gtids; create database two; create database three")?;
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    fails(
        &from,
        directory.path(),
        1,
        &["the source has a different event at this position: its logs were reset"],
    )?;
    ensure!(fs::read(directory.path().join("binlog.000001"))? == before, "the store was changed");
    // The source's log is shorter than the received one.
    server.sql("reset binary logs and gtids")?;
    fails(&from, directory.path(), 1, &["cannot resume after binlog.000001", "1236"])?;
    // Another server is refused for any logs.
    let other = Launch::mysql().start()?;
    let from = format!("mysql://root@127.0.0.1:{}/", other.port());
    fails(
        &from,
        directory.path(),
        2,
        &["the source's server_uuid is", "another directory for another server"],
    )
}

#[test]
fn directories_have_one_receiver() -> Result<()> {
    let server = Launch::mysql().start()?;
    let directory = TempDir::new()?;
    server.sql(TABLE)?;
    let first = receive(server.port(), directory.path(), &[])?.spawn()?;
    wait_for(|| same_logs(&server, directory.path()))?;
    let second = receive(server.port(), directory.path(), &["--stop-at-end"])?.output()?;
    ensure!(second.status.code() == Some(2), "{second:?}");
    ensure!(
        stderr(&second).contains("is in use: another bintide process writes to it"),
        "{}",
        stderr(&second)
    );
    // A copy of the directory connects with the same server UUID, so the source ends the older connection.
    let copy = TempDir::new()?;
    fs::copy(directory.path().join("replica.cnf"), copy.path().join("replica.cnf"))?;
    let mut third = receive(server.port(), copy.path(), &[])?.spawn()?;
    let ran = first.wait_with_output()?;
    ensure!(ran.status.code() == Some(1), "{ran:?}");
    ensure!(stderr(&ran).contains("a copy of this directory's replica.cnf"), "{}", stderr(&ran));
    third.kill()?;
    third.wait()?;
    Ok(())
}

/// Events that are written to a removed file would be lost, without any other error.
#[test]
fn removed_logs_are_noticed() -> Result<()> {
    let server = Launch::mysql().start()?;
    let directory = TempDir::new()?;
    server.sql(TABLE)?;
    let receiver = receive(server.port(), directory.path(), &[])?.spawn()?;
    wait_for(|| same_logs(&server, directory.path()))?;
    let last = server.binlogs()?.pop().context("the server has no log")?;
    let last = directory.path().join(last.file_name().context("the log has no name")?);
    let copy = directory.path().join("copy");
    fs::rename(&last, &copy)?;
    server.sql("insert into d.t (b) values ('one')")?;
    let ran = receiver.wait_with_output()?;
    ensure!(ran.status.code() == Some(1), "{ran:?}");
    let expected = format!("{} does not exist, but", last.display());
    ensure!(stderr(&ran).contains(&expected), "{}", stderr(&ran));
    fs::rename(&copy, &last)?;
    receive_until_equal(&server, directory.path())
}

/// SIGINT ends the receiver even if the source writes without a pause.
#[test]
fn receiving_stops_while_the_source_writes() -> Result<()> {
    let server = Launch::mysql().start()?;
    let directory = TempDir::new()?;
    server.sql(TABLE)?;
    let over = AtomicBool::new(false);
    let inserts = "insert into d.t (b) values (repeat('x', 2000)); ".repeat(300);
    thread::scope(|scope| -> Result<()> {
        let write = || -> Result<()> {
            while !over.load(Ordering::Relaxed) {
                server.sql(&inserts)?;
            }
            Ok(())
        };
        let writers = [scope.spawn(write), scope.spawn(write)];
        let ran = stop_in_the_middle(&server, directory.path());
        over.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().map_err(|_| anyhow!("a writer panicked"))??;
        }
        ensure!(ran?.contains(" ends at binlog.000001"), "unexpected output");
        Ok(())
    })?;
    receive_until_equal(&server, directory.path())
}

/// Stops a receiver once it has received a part; returns its output.
fn stop_in_the_middle(server: &TestServer, directory: &Path) -> Result<String> {
    let mut child = receive(server.port(), directory, &[])?.spawn()?;
    wait_for(|| {
        let size = fs::metadata(directory.join("binlog.000001"))?.len();
        ensure!(size > 1 << 16, "only {size} bytes were received");
        Ok(())
    })?;
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
    let ended = wait_for(|| child.try_wait()?.map(drop).context("the command does not end"));
    if ended.is_err() {
        child.kill()?;
    }
    let ran = child.wait_with_output()?;
    ended.map(|()| String::from_utf8_lossy(&ran.stdout).into_owned())
}

#[test]
fn old_logs_are_deleted_and_start_log_is_obeyed() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql(TABLE)?;
    server.sql(&"insert into d.t (b) values (repeat('x', 9000)); flush binary logs; ".repeat(6))?;
    let directory = TempDir::new()?;
    receive_all(&server, directory.path(), &["--start-log", "binlog.000003"])?;
    ensure!(!directory.path().join("binlog.000002").exists(), "receiving started too early");
    receive_all(&server, directory.path(), &["--keep", "15K"])?;
    let index = fs::read_to_string(directory.path().join("binlog.index"))?;
    ensure!(index == "./binlog.000006\n./binlog.000007\n", "{index}");
    ensure!(!directory.path().join("binlog.000005").exists(), "the log is not deleted");
    // The remaining logs are complete, and receiving resumes in them.
    server.sql(&"insert into d.t (b) values (repeat('x', 9000)); flush binary logs; ".repeat(3))?;
    receive_all(&server, directory.path(), &["--keep", "7d"])?;
    for number in 6..=9 {
        let name = format!("binlog.{number:06}");
        ensure!(fs::read(directory.path().join(&name))? == fs::read(server.datadir().join(&name))?, "{name}");
    }
    Ok(())
}

/// A request by GTIDs starts at a whole log, which the source selects.
#[test]
fn gtids_of_a_backup_select_the_first_log() -> Result<()> {
    let flush = "flush binary logs; insert into d.t (b) values ('one'); insert into d.t (b) values ('two');";
    let uuid = "5ea5ca5e-0001-4000-8000-000000000001:1";
    for (launch, variable, none) in
        [(Launch::mysql(), "gtid_executed", uuid), (Launch::mariadb(), "gtid_binlog_pos", "0-1-1")]
    {
        let server = launch.start()?;
        server.sql(TABLE)?;
        server.sql(&format!("{flush} flush binary logs; insert into d.t (b) values ('three')"))?;
        let had = server.sql(&format!("select @@global.{variable}"))?;
        server.sql(&format!("insert into d.t (b) values ('four'); {flush}"))?;
        server.sql("purge binary logs to 'binlog.000002'")?;
        let directory = TempDir::new()?;
        receive_all(&server, directory.path(), &["--start-after-gtid", had.trim()])?;
        ensure!(!directory.path().join("binlog.000002").exists(), "receiving started too early");
        for name in ["binlog.000003", "binlog.000004"] {
            let (found, expected) =
                (fs::read(directory.path().join(name)), fs::read(server.datadir().join(name))?);
            ensure!(found.context("receiving started too late")?.len() == expected.len(), "{name}");
        }
        // The source has purged the transactions after these GTIDs.
        let fresh = TempDir::new()?;
        let from = format!("mysql://root@127.0.0.1:{}/", server.port());
        let mut command = Command::new(bintide()?);
        command.env_clear().arg("receive").arg(fresh.path()).args(["--from", &from, "--stop-at-end", "-q"]);
        let ran = command.args(["--start-after-gtid", none]).output()?;
        ensure!(ran.status.code() == Some(2) && stderr(&ran).contains("1236"), "{ran:?}");
    }
    Ok(())
}

/// Maximum file size of the run, which acts like a full disk until it is raised. While the disk is full, the
/// metrics count only stored transactions, nothing is acknowledged, and retries become rare, so that little is
/// received twice.
const FILE_MAX: u64 = 2000 * 512;

#[test]
fn receiving_waits_for_free_disk_space() -> Result<()> {
    let server = Launch::mysql().option("--plugin-load-add=semisync_source.so").start()?;
    server.sql(TABLE)?;
    let insert = "insert into d.t (b) values (repeat('x', 100000)); ";
    server.sql(&format!("{} flush binary logs; {}", insert.repeat(6), insert.repeat(20)))?;
    server.sql(
        "set global rpl_semi_sync_source_timeout = 60000, global rpl_semi_sync_source_enabled = 1,
             global rpl_semi_sync_source_wait_no_replica = 1",
    )?;
    thread::scope(|scope| -> Result<()> {
        let mut client = None;
        let plain = |_: &Path| {
            let client =
                client.get_or_insert_with(|| scope.spawn(|| server.sql("insert into d.t values ()")));
            ensure!(!client.is_finished(), "the transaction was acknowledged");
            Ok(())
        };
        check_wait_for_space(&server, &["--semi-sync"], plain, same_logs)?;
        let client = client.context("no client waits")?;
        client.join().map_err(|_| anyhow!("the client panicked"))?.map(drop)
    })?;
    server.sql("set global rpl_semi_sync_source_enabled = 0; flush binary logs")?;
    let keys = TempDir::new()?;
    let keyring = keys.path().join("keyring");
    write_keyring(&keyring)?;
    let encrypt = ["--encrypt", "--keyring", text(&keyring)?];
    let nothing = |_: &Path| Ok(());
    check_wait_for_space(&server, &encrypt, nothing, |server, directory| {
        same_logs_encrypted(server, directory, &keyring)
    })?;
    check_wait_for_space(&server, &["--compress", "3"], nothing, |server, directory| {
        let logs = server.binlogs()?;
        let name = logs[1].file_name().context("a log without a name")?;
        let (found, there) = (fs::metadata(directory.join(name))?.len(), fs::metadata(&logs[1])?.len());
        ensure!(found * 10 < there, "{found} of {there} bytes are left");
        Ok(())
    })?;
    // --keep is exceeded because receiving resumed in the last log.
    let gone = |directory: &Path| {
        ensure!(!directory.join("binlog.000001").exists(), "the log is not deleted");
        Ok(())
    };
    check_wait_for_space(&server, &["--keep", "1500K"], gone, |server, directory| {
        let logs = server.binlogs()?;
        let last = logs.last().and_then(|log| log.file_name()).context("a log without a name")?;
        ensure!(fs::metadata(directory.join(last)).is_ok(), "receiving does not resume");
        Ok(())
    })
}

fn check_wait_for_space(
    server: &TestServer,
    more: &[&str],
    mut meanwhile: impl FnMut(&Path) -> Result<()>,
    mut in_the_end: impl FnMut(&TestServer, &Path) -> Result<()>,
) -> Result<()> {
    let directory = TempDir::new()?;
    let mut limited = Command::new("/bin/sh");
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    limited.env_clear().args(["-c", "ulimit -S -f 2000 && trap '' XFSZ && exec \"$0\" \"$@\""]);
    limited.arg(bintide()?).arg("receive").arg(directory.path()).args(["--from", &from]).args(more);
    limited.args(["--metrics", "127.0.0.1:0"]).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut child = ChildGuard::start(&mut limited)?;
    let mut lines = BufReader::new(child.stderr.take().context("standard error is not piped")?).lines();
    let metrics = metrics_of(&lines.next().context("the command ended")??)?;
    let mut told = String::new();
    wait_for(|| {
        told = scraped(&metrics)?;
        let number = |name: &str| number(&told, &format!("bintide_receive_{name}"));
        ensure!(number("disk_full")? == 1.0, "the disk is not full: {told}");
        meanwhile(directory.path())?;
        // Between two retries.
        ensure!(number("connections_total")? >= 2.0 && number("connected")? == 0.0, "{told}");
        Ok(())
    })?;
    let header = if more.contains(&"--encrypt") { 512 } else { 0 };
    let logs = server.binlogs()?;
    let (before, first_end) = fitting(&logs[0], FILE_MAX)?;
    let (after, end) = fitting(&logs[1], FILE_MAX - header)?;
    let transactions = before + after;
    let number = |name: &str| number(&told, &format!("bintide_receive_{name}"));
    ensure!(number("transactions_total")? == f64::from(transactions), "not {transactions}: {told}");
    ensure!(number("position_bytes")? == end as f64, "not {end}: {told}");
    ensure!(number("acknowledgements_total")? == 0.0, "{told}");
    let again = number("network_bytes_total")? - (first_end + end) as f64;
    ensure!(again < 3.0 * f64::from(1 << 20), "{again} bytes were received twice: {told}");
    let pid = child.id().to_string();
    let raised = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &pid]).status()?;
    ensure!(raised.success(), "the limit was not raised");
    wait_for(|| in_the_end(server, directory.path()))?;
    wait_for(|| {
        let told = scraped(&metrics)?;
        ensure!(e2e::metrics::number(&told, "bintide_receive_disk_full")? == 0.0, "{told}");
        Ok(())
    })?;
    child.kill()?;
    child.wait()?;
    let printed: Vec<String> = lines.collect::<Result<_, _>>()?;
    let count = |part: &str| printed.iter().filter(|line| line.contains(part)).count();
    ensure!(count("receiving is paused until space is free") == 1, "{printed:?}");
    ensure!(count("disk space is free again") == 1, "{printed:?}");
    ensure!(count("retrying") == 0, "{printed:?}");
    Ok(())
}
/// Counts the transactions that start in the first `size` bytes of a log; also returns the end of the last complete
/// event in them.
fn fitting(log: &Path, size: u64) -> Result<(u32, u64)> {
    let mut reader = LogReader::open(log)?;
    let (mut transactions, mut end) = (0, 0);
    while let ReadOutcome::Some(event) = reader.next_event()? {
        if event.end() > size {
            break;
        }
        transactions += u32::from(event.raw.event_type() == EventType::Gtid);
        end = event.end();
    }
    Ok((transactions, end))
}

/// Returns the address of the metrics from the first line of a run.
fn metrics_of(line: &str) -> Result<String> {
    let address = line.split("http://").nth(1).and_then(|rest| rest.strip_suffix("/metrics"));
    Ok(address.with_context(|| line.to_owned())?.to_owned())
}

/// A source with semi-synchronous replication receives the acknowledgement after the transaction is written to the
/// file.
#[test]
fn semi_synchronous_sources_get_acknowledgements() -> Result<()> {
    let server = Launch::mysql().option("--plugin-load-add=semisync_source.so").start()?;
    server.sql(TABLE)?;
    server.sql(
        "set global rpl_semi_sync_source_timeout = 60000, global rpl_semi_sync_source_enabled = 1,
             global rpl_semi_sync_source_wait_no_replica = 1",
    )?;
    let directory = TempDir::new()?;
    let child = receive(server.port(), directory.path(), &["--semi-sync", "--json"])?.spawn()?;
    let status = |name: &str| -> Result<String> {
        let found = server.sql(&format!("show status like 'Rpl_semi_sync_source_{name}'"))?;
        Ok(found.split_whitespace().last().unwrap_or_default().to_owned())
    };
    wait_for(|| (status("clients")? == "1").then_some(()).context("no replica"))?;
    for number in 0..20 {
        server.sql(&format!("insert into d.t (b) values (repeat('{number} ', 20000))"))?;
        // The commit has returned, so the transaction is in the file.
        let logs = server.binlogs()?;
        let last = logs.last().context("no logs")?;
        let name = last.file_name().context("a log without a name")?;
        ensure!(fs::metadata(directory.path().join(name))?.len() == fs::metadata(last)?.len(), "{number}");
    }
    ensure!(status("yes_tx")?.parse::<u32>()? >= 20, "{}", status("yes_tx")?);
    ensure!(status("no_tx")? == "0" && status("status")? == "ON", "{}", status("no_tx")?);
    let ran = interrupt(child)?;
    let printed = String::from_utf8(ran.stdout)?;
    ensure!(
        printed.contains("\"acknowledgements\": ") && !printed.contains("\"acknowledgements\": 0"),
        "{printed}"
    );
    same_logs(&server, directory.path())
}

#[test]
fn metrics_are_served() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql(TABLE)?;
    let directory = TempDir::new()?;
    let mut child = receive(server.port(), directory.path(), &["--metrics", "127.0.0.1:0"])?.spawn()?;
    let mut lines = BufReader::new(child.stderr.take().context("standard error is not piped")?).lines();
    let address = metrics_of(&lines.next().context("the command ended")??)?;
    wait_for(|| same_logs(&server, directory.path()))?;
    let answer = HttpRequest::get("/metrics").send(address)?;
    let printed = answer.text()?;
    let size = fs::metadata(directory.path().join("binlog.000002")).map_or(0, |found| found.len());
    for expected in [
        "bintide_receive_connected 1\n".to_owned(),
        "bintide_receive_lag_seconds 0\n".to_owned(),
        "bintide_receive_disk_full 0\n".to_owned(),
        format!("bintide_receive_position_bytes {size}\n"),
    ] {
        ensure!(size == 0 || printed.contains(&expected), "{expected}: {printed}");
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

//! Error messages of commands that connect to servers, and the time until they appear.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::command::ChildGuard;
use e2e::program::bintide;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, TestServer, UnresponsivePort, wait_until};

fn command(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Returns a command that handles SIGINT as in a terminal: background processes of a shell ignore it, and so do
/// their children.
fn interruptible(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new("/usr/bin/env");
    command.env_clear().arg("--default-signal=INT").arg(bintide()?).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn run(arguments: &[&str]) -> Result<Output> {
    Ok(command(arguments)?.output()?)
}

fn stderr(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

/// Checks the exit code of a command, and that its messages contain these texts.
fn check_messages(arguments: &[&str], code: i32, expected: &[&str]) -> Result<()> {
    let ran = run(arguments)?;
    let printed = stderr(&ran);
    ensure!(ran.status.code() == Some(code), "{arguments:?}: {:?} {printed}", ran.status.code());
    for expected in expected {
        ensure!(printed.contains(expected), "{arguments:?}: {expected} is not in {printed}");
    }
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

/// Creates a directory with a log and an index.
fn store() -> Result<TempDir> {
    let directory = TempDir::new()?;
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples/gtids/binlog.000001");
    fs::copy(sample, directory.path().join("binlog.000001"))?;
    fs::write(directory.path().join("binlog.index"), "./binlog.000001\n")?;
    Ok(directory)
}

/// Returns every command that connects, for the server at this port.
fn connecting(port: u16, directory: &Path, log: &Path) -> Result<Vec<Vec<String>>> {
    let address = format!("mysql://root@127.0.0.1:{port}/");
    let sqlite = format!("sqlite:{}", directory.join("x.db").display());
    let port = port.to_string();
    let (relay, out, log) = (text(directory)?, directory.join("store"), text(log)?);
    let lines: [&[&str]; 7] = [
        &["advise", "--from", &address],
        &["replay", log, "--to", &address],
        &["replay", "--from", &address, "--relay", relay, "--to", &sqlite],
        &["replay", log, "--to", &sqlite, "--verify", &address],
        &["receive", text(&out)?, "--from", &address],
        &["stream", "--format", "maxwell", "--from", &address],
        &["warm", "-h", "127.0.0.1", "-P", &port],
    ];
    Ok(lines.iter().map(|line| line.iter().map(|word| (*word).to_owned()).collect()).collect())
}

fn ended(child: &mut Child) -> Result<()> {
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        // Without SIGINT, the command ends after a minute.
        if start.elapsed() > Duration::from_secs(30) {
            child.kill()?;
            bail!("the command does not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A command waits up to a minute for a connection; SIGINT ends the wait.
#[test]
fn ctrl_c_ends_the_wait_for_a_connection() -> Result<()> {
    let mute = TcpListener::bind("127.0.0.1:0")?;
    let store = store()?;
    for arguments in
        connecting(mute.local_addr()?.port(), TempDir::new()?.path(), &store.path().join("binlog.000001"))?
    {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut child = ChildGuard::start(&mut interruptible(&arguments)?)?;
        let reached = mute.accept()?;
        child.interrupt()?;
        ended(&mut child).with_context(|| format!("{arguments:?}"))?;
        drop(reached);
        let ran = child.output()?;
        ensure!(ran.status.code() == Some(130), "{arguments:?}: {:?} {}", ran.status, stderr(&ran));
    }
    Ok(())
}

/// A named pipe has no writer, or a writer that writes nothing. The first SIGINT or SIGTERM ends the wait.
#[test]
fn the_first_signal_ends_the_wait_for_a_pipe() -> Result<()> {
    let directory = TempDir::new()?;
    let pipe = directory.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU)?;
    let (name, database) = (text(&pipe)?, format!("sqlite:{}", directory.path().join("x.db").display()));
    let lines: [&[&str]; 5] = [
        &["stats", name],
        &["verify", name],
        &["stream", "--format", "maxwell", name],
        &["replay", name, "--to", &database],
        &["undo", "--table", "a.b", name],
    ];
    for (number, arguments) in lines.into_iter().enumerate() {
        for has_writer in [false, true] {
            let mut child = ChildGuard::start(&mut interruptible(arguments)?)?;
            let open = format!("/proc/{}/fd", child.id());
            wait_until("the command opens the pipe", || {
                let links = fs::read_dir(&open).into_iter().flatten().flatten();
                Ok(links.filter_map(|link| fs::read_link(link.path()).ok()).any(|target| target == pipe))
            })?;
            let writer = has_writer.then(|| fs::OpenOptions::new().write(true).open(&pipe)).transpose()?;
            let signal = if number % 2 == 0 { Signal::SIGINT } else { Signal::SIGTERM };
            kill(Pid::from_raw(child.id().try_into()?), signal)?;
            ended(&mut child).with_context(|| format!("{arguments:?}"))?;
            drop(writer);
            let ran = child.output()?;
            ensure!(ran.status.code() == Some(130), "{arguments:?}: {:?} {}", ran.status, stderr(&ran));
        }
    }
    Ok(())
}

#[test]
fn pipes_are_refused_where_logs_are_read_twice() -> Result<()> {
    let directory = TempDir::new()?;
    let pipe = directory.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU)?;
    check_messages(
        &["history", "--table", "a.b", "--where", "id=1", text(&pipe)?],
        2,
        &["is not a regular file"],
    )
}

/// Checks whether a connection to this port of 127.0.0.1 waits for an answer.
fn is_waited_for(port: u16) -> Result<bool> {
    // Columns of a line: number, local address, remote address, state, which is 02 (SYN_SENT) until the peer
    // answers.
    let address = format!("0100007F:{port:04X}");
    let is_so = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        words.next() == Some(&address) && words.next() == Some("02")
    };
    Ok(fs::read_to_string("/proc/net/tcp")?.lines().any(is_so))
}

/// A host that drops packets gives no answer; name lookup and connecting run in another thread.
#[test]
fn ctrl_c_ends_the_wait_for_a_host_that_drops_packets() -> Result<()> {
    let unresponsive = UnresponsivePort::open()?;
    let (directory, logs, port) = (TempDir::new()?, store()?, unresponsive.port().to_string());
    let mut lines = connecting(unresponsive.port(), directory.path(), &logs.path().join("binlog.000001"))?;
    let from = format!("mysql://root@127.0.0.1:{port}/");
    let two = directory.path().join("two");
    lines.push(["receive", text(&two)?, "--from", &from, "--from", &from].map(str::to_owned).to_vec());
    let dump = ["dump", "--no-defaults", "-R", "-h", "127.0.0.1", "-P", &port, "-u", "root", "binlog.000001"];
    lines.push(dump.map(str::to_owned).to_vec());
    for arguments in lines {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        wait_until("the end of the previous connection", || Ok(!is_waited_for(unresponsive.port())?))?;
        let mut child = ChildGuard::start(&mut interruptible(&arguments)?)?;
        wait_until("a pending connection", || is_waited_for(unresponsive.port()))?;
        child.interrupt()?;
        ended(&mut child).with_context(|| format!("{arguments:?}"))?;
        let ran = child.output()?;
        let is_dump = arguments[0] == "dump";
        let how = (ran.status.code(), ran.status.signal());
        let expected = if is_dump { (None, Some(2)) } else { (Some(130), None) };
        ensure!(how == expected, "{arguments:?}: {how:?} {}", stderr(&ran));
        ensure!(!stderr(&ran).contains("timed out"), "{arguments:?}: {}", stderr(&ran));
    }
    Ok(())
}

/// The command tries the next source after some seconds.
#[test]
fn sources_that_drop_packets_are_skipped() -> Result<()> {
    let (unresponsive, server) = (UnresponsivePort::open()?, Launch::mysql().start()?);
    let [unresponsive, server] =
        [unresponsive.port(), server.port()].map(|port| format!("mysql://root@127.0.0.1:{port}/"));
    let directory = TempDir::new()?;
    let receive =
        ["receive", text(directory.path())?, "--stop-at-end", "--from", &unresponsive, "--from", &server];
    let expected = ["Connection timed out (os error 110); trying mysql://root@127.0.0.1:"];
    check_messages(&receive, 0, &expected)
}

#[test]
fn unreachable_servers_are_named() -> Result<()> {
    let store = store()?;
    for arguments in connecting(1, TempDir::new()?.path(), &store.path().join("binlog.000001"))? {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran = run(&arguments)?;
        let expected = "the connection to the server at 127.0.0.1:1 failed: Connection refused";
        ensure!(!ran.status.success() && stderr(&ran).contains(expected), "{arguments:?}: {}", stderr(&ran));
    }
    let socket = "mysql://root@localhost/?socket=/nowhere/x.sock";
    let directory = TempDir::new()?;
    check_messages(
        &["receive", text(&directory.path().join("s"))?, "--from", socket],
        2,
        &["the connection to the server at /nowhere/x.sock failed: No such file"],
    )
}

/// An authentication plugin may require encryption: every command names the remedy, and none requests the server's
/// public key without --get-server-public-key.
#[test]
fn passwords_are_not_sent_in_plain_text() -> Result<()> {
    // A server without TLS: with TLS, passwords are protected unless an option weakens it.
    let server = Launch::mysql().option("--tls-version=").start()?;
    server.sql(
        "create user r@'%' identified with caching_sha2_password by 'secret'; grant all on *.* to r@'%'",
    )?;
    let (directory, logs, port) = (TempDir::new()?, store()?, server.port().to_string());
    let (open, sqlite) = (format!("mysql://r:secret@127.0.0.1:{port}/"), directory.path().join("x.db"));
    let [relay, out, sqlite] = [directory.path().join("r"), directory.path().join("s"), sqlite]
        .map(|path| path.display().to_string());
    let (log, sqlite) = (logs.path().join("binlog.000001"), format!("sqlite:{sqlite}"));
    let expected = [
        "caching_sha2_password needs",
        "set --ssl-mode=REQUIRED",
        "--get-server-public-key",
        "--server-public-key-path",
    ];
    let of_warm =
        ["caching_sha2_password needs", "or the password is wrong", expected[1], expected[2], expected[3]];
    let lines: [&[&str]; 7] = [
        &["receive", &out, "--stop-at-end", "--from", &open],
        &["advise", "--from", &open],
        &["replay", text(&log)?, "--to", &open],
        &["replay", "--to", &sqlite, "--relay", &relay, "--from", &open],
        &["replay", text(&log)?, "--to", &sqlite, "--verify", &open],
        &["stream", "--format", "maxwell", "--stop-at-end", "--from", &open],
        &["warm", "-h", "127.0.0.1", "-P", &port, "-u", "r", "-psecret"],
    ];
    for line in lines {
        // FLUSH PRIVILEGES clears the server's authentication cache.
        server.sql("flush privileges")?;
        let (code, expected) = match line[0] {
            "warm" => (2, &of_warm[..]),
            _ => (2, &expected[..]),
        };
        check_messages(line, code, expected)?;
    }
    let key = server.datadir().join("public_key.pem").display().to_string();
    for told in [&["--get-server-public-key"][..], &["--server-public-key-path", &key]] {
        // The other commands keep running, or print more messages.
        for line in [lines[0], lines[1], lines[5]] {
            server.sql("flush privileges")?;
            check_messages(&[line, told].concat(), 0, &[])?;
        }
    }
    let no_key = directory.path().join("no.pem").display().to_string();
    for line in [lines[0], lines[1]] {
        let expected = format!("could not use the public key in {no_key}: No such file");
        check_messages(&[line, &["--server-public-key-path", &no_key]].concat(), 2, &[&expected])?;
    }
    server.sql("flush privileges")?;
    let dump = ["dump", "-R", "-h", "127.0.0.1", "-P", &port, "-u", "r", "-psecret", "binlog.000001"];
    let asked = ["--ssl-mode=DISABLED", "--get-server-public-key"];
    let expected = [
        "Authentication plugin 'caching_sha2_password' reported error: Authentication requires secure connection",
        "--ssl-mode=REQUIRED",
        "--get-server-public-key",
    ];
    check_messages(&[&dump[..], &asked[..1]].concat(), 1, &expected)?;
    check_messages(&[&dump[..], &asked].concat(), 0, &[])
}

/// A source without semi-synchronous replication is reported once if acknowledgements are requested.
#[test]
fn sources_without_semi_sync_are_reported() -> Result<()> {
    let server = Launch::mysql().start()?;
    let directory = TempDir::new()?;
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    let ran = run(&[
        "receive",
        text(directory.path())?,
        "--from",
        &from,
        "--stop-at-end",
        "--semi-sync",
        "--json",
    ])?;
    let printed = stderr(&ran);
    let expected = "the source does not use semi-synchronous replication";
    ensure!(ran.status.success() && printed.matches(expected).count() == 1, "{printed}");
    let outcome: Value = serde_json::from_slice(&ran.stdout)?;
    ensure!(outcome["semi_sync"] == false && outcome["acknowledgements"] == 0, "{outcome}");
    let ran = run(&["receive", text(directory.path())?, "--from", &from, "--stop-at-end"])?;
    ensure!(ran.status.success() && !stderr(&ran).contains(expected), "{}", stderr(&ran));
    Ok(())
}

/// A log that is in the index but does not exist is named, with the remedy.
#[test]
fn missing_logs_are_named() -> Result<()> {
    let directory = store()?;
    let path = text(directory.path())?;
    fs::write(directory.path().join("binlog.index"), "./binlog.000001\n./binlog.000002\n")?;
    // The directory looks like a store of receive, which refuses other directories.
    fs::write(directory.path().join("bintide.lock"), "")?;
    let missing = format!(
        "{path}/binlog.000002 does not exist, but {path}/binlog.index names it: restore the log, or remove its line"
    );
    for arguments in [
        &["verify", path][..],
        &["stats", path],
        &["stream", "--format", "maxwell", "--columns", "numbered", path],
        &["replay", path, "--to", "mysql://root@127.0.0.1:1/"],
        &["receive", path, "--from", "mysql://root@127.0.0.1:1/"],
    ] {
        check_messages(arguments, 2, &[&missing])?;
    }
    Ok(())
}

/// Output files that cannot be written are refused before anything else.
#[test]
fn unwritable_files_are_refused_first() -> Result<()> {
    let (directory, logs) = (TempDir::new()?, store()?);
    let [parent, store, log] =
        [directory.path(), &directory.path().join("store"), &logs.path().join("binlog.000001")];
    let unreachable = "mysql://root@127.0.0.1:1/";
    for (file, why) in [
        (parent.to_owned(), "it is a directory"),
        (parent.join("no/x.prom"), "its directory does not exist"),
        ("/dev/null".into(), "it is not a regular file"),
        (log.to_owned(), "it is a binary log"),
    ] {
        let expected = format!("could not write metrics to {}: {why}", file.display());
        let metrics = ["--metrics-file", text(&file)?];
        for command in [
            &["receive", text(store)?, "--from", unreachable][..],
            &["replay", text(log)?, "--to", unreachable],
            &["warm", "-P", "1"],
        ] {
            check_messages(&[command, &metrics].concat(), 2, &[&expected])?;
        }
        ensure!(!store.exists() && !parent.with_extension("new").exists(), "a directory or file was created");
    }
    let page = parent.join("no/page.html");
    let expected = format!("could not write {}", page.display());
    check_messages(&["advise", "--from", unreachable, "--html", text(&page)?], 2, &[&expected])?;
    check_messages(
        &["stats", text(log)?, "--html", text(parent)?],
        2,
        &["could not write", "Is a directory"],
    )?;
    let page = parent.join("page.html");
    check_messages(
        &["advise", "--from", unreachable, "--html", text(&page)?],
        2,
        &["the connection to the server at ", " failed: "],
    )?;
    ensure!(!page.exists(), "an empty page was created");
    check_messages(
        &["advise", "--from", unreachable, "--fetch", "0"],
        2,
        &["expected a size of at least one byte"],
    )
}

/// If source and target were one server, rows would be applied twice.
#[test]
fn a_server_as_source_and_target_is_refused() -> Result<()> {
    let server = Launch::mysql().start()?;
    server.sql("create database d; create table d.t (a int)")?;
    let directory = TempDir::new()?;
    let [one, other] =
        ["127.0.0.1", "localhost"].map(|host| format!("mysql://root@{host}:{}/", server.port()));
    let relay = directory.path().join("relay");
    let replay = ["replay", "--from", &one, "--relay", text(&relay)?, "--to", &other];
    check_messages(&replay, 2, &["are the same server", "give another target"])?;
    ensure!(!relay.exists(), "a relay directory was created");
    let datadir = server.datadir();
    let follow = ["replay", "--follow", text(&datadir)?, "--to", &other];
    check_messages(&follow, 2, &["is the data directory of --to", "give another target"])?;
    Ok(())
}

/// MariaDB is refused as one of several sources, because no other server can replace it.
#[test]
fn mariadb_is_refused_among_several_sources() -> Result<()> {
    let (mariadb, mysql) = (Launch::mariadb().start()?, Launch::mysql().start()?);
    let [mariadb, mysql] =
        [&mariadb, &mysql].map(|server| format!("mysql://root@127.0.0.1:{}/", server.port()));
    let directory = TempDir::new()?;
    let (store, expected) = (directory.path().join("s"), ["a MariaDB server must be the only --from"]);
    let receive = ["receive", text(&store)?, "--stop-at-end"];
    check_messages(&[&receive[..], &["--from", &mariadb, "--from", &mariadb]].concat(), 2, &expected)?;
    check_messages(&[&receive[..], &["--from", &mysql, "--from", &mariadb]].concat(), 0, &[])?;
    // After a MySQL source that was lost.
    let lost = "mysql://root@127.0.0.1:1/";
    check_messages(&[&receive[..], &["--from", lost, "--from", &mariadb]].concat(), 2, &expected)
}

fn receives(server: &TestServer, directory: &Path, code: i32, expected: &[&str]) -> Result<()> {
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    check_messages(&["receive", text(directory)?, "--from", &from, "--stop-at-end"], code, expected)
}

/// After RESET, the source's logs do not continue the received ones; the error names this cause and the remedy.
#[test]
fn reset_logs_are_reported() -> Result<()> {
    let server = Launch::mysql().start()?;
    let directory = TempDir::new()?;
    server.sql("create database one; create database two; flush binary logs; create database three")?;
    receives(&server, directory.path(), 0, &[])?;
    let another = "keep this directory as it is, and receive into another one";
    let reset = ["its logs were reset", another];
    server.sql("reset binary logs and gtids")?;
    // The source has no log of this name.
    receives(&server, directory.path(), 1, &reset)?;
    server.sql("flush binary logs")?;
    // The source's log is shorter.
    receives(&server, directory.path(), 1, &reset)?;
    // The source's log is a different one, without an event at this position.
    server.sql(&format!("create database {}; create database four", "x".repeat(60)))?;
    receives(&server, directory.path(), 1, &reset)?;
    // RESET while the log is followed.
    let directory = TempDir::new()?;
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    let mut child = ChildGuard::start(&mut command(&["receive", text(directory.path())?, "--from", &from])?)?;
    let started = Instant::now();
    while !fs::read_to_string(directory.path().join("binlog.index"))
        .is_ok_and(|index| index.contains("binlog.000002"))
    {
        ensure!(started.elapsed() < Duration::from_secs(60), "no message");
        thread::sleep(Duration::from_millis(20));
    }
    server.sql("reset binary logs and gtids; create database five")?;
    let done = ended(&mut child);
    let ran = child.output()?;
    done.with_context(|| stderr(&ran))?;
    ensure!(ran.status.code() == Some(1), "{:?} {}", ran.status, stderr(&ran));
    for expected in reset {
        ensure!(stderr(&ran).contains(expected), "{}", stderr(&ran));
    }
    Ok(())
}

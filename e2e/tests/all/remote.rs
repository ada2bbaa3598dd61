//! `bintide dump -R`, called mysqlbinlog, compared with mysqlbinlog on the same server's logs.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::compare::Run;
use e2e::identity;
use e2e::logs::Logs;
use e2e::program::{Outcome, Program, RunEnvironment, bintide};
use tempfile::TempDir;
use testkit::{Launch, TestServer};

const SQL: &str = "create database d; use d;
    create table t (a int primary key auto_increment, b longtext, c datetime default '2026-11-22 10:00:00');
    insert into t (b) values ('one'), (repeat('two', 3000)); flush binary logs;
    insert into t (b) values ('three'); update t set b = 'four' where a = 1; flush binary logs;
    set binlog_format = statement; insert into t (b) values ('five'); set binlog_format = row;
    set binlog_transaction_compression = on; insert into t (b) select b from t; delete from t where a = 2;
    create database other; create table other.o (a int primary key); insert into other.o values (1)";

fn server() -> Result<TestServer> {
    let server = Launch::mysql().uuid("5ea5ca5e-0001-4000-8000-000000000001").start()?;
    server.sql(SQL)?;
    server.sql("create user s@'%' identified by 'secret'; grant replication slave on *.* to s@'%'")?;
    Ok(server)
}

/// Compares runs with these options before the log's name; `SOCKET` and `DATA` stand for the server's paths.
fn check(server: &TestServer, name: &str, runs: &[&str]) -> Result<()> {
    let port = server.port();
    let runs: Vec<Run> = runs
        .iter()
        .map(|words| {
            let line = format!("--no-defaults -R -h 127.0.0.1 -P {port} -u root {words}");
            // The paths may contain spaces.
            let [socket, data] = [server.socket(), &server.datadir()].map(|path| path.display().to_string());
            let with_paths = |word: &str| word.replace("SOCKET", &socket).replace("DATA", &data);
            Run::new(line.split_whitespace().map(with_paths))
        })
        .collect();
    let directory = TempDir::new()?;
    let logs = Logs { directory: directory.path().to_owned(), sets: Vec::new() };
    identity::check_all(name, &logs, &runs)
}

#[test]
fn text_is_the_same() -> Result<()> {
    check(
        &server()?,
        "remote-text",
        &[
            "binlog.000001",
            "binlog.000003",
            "-vv binlog.000002",
            "-vv binlog.000001 binlog.000002 binlog.000003",
            "--to-last-log binlog.000001",
            "-vv --to-last-log binlog.000002",
            "--start-position=158 binlog.000001",
            "--start-position=158 --to-last-log binlog.000001",
            "--start-position=158 --stop-position=700 binlog.000001",
            "--stop-position=600 binlog.000001 binlog.000002",
            "--base64-output=decode-rows -vv --database=other binlog.000003",
            "--hexdump --skip-gtids binlog.000002",
            "--verify-binlog-checksum --short-form binlog.000003",
            "--offset=5 --rewrite-db=d->e binlog.000002",
            "--exclude-gtids=5ea5ca5e-0001-4000-8000-000000000001:2-3 binlog.000001",
            "--include-gtids=5ea5ca5e-0001-4000-8000-000000000001:2-3 --to-last-log binlog.000001",
            "--stop-datetime=2001-01-01 binlog.000001",
            "--start-datetime=2001-01-01 -t binlog.000002",
            "--server-id=1 -t binlog.000001",
            "--connection-server-id=7 binlog.000001",
            "--require-row-format binlog.000002",
            "--disable-log-bin --idempotent --set-charset=latin1 binlog.000001",
            "--result-file=out.sql binlog.000001",
        ],
    )
}

#[test]
fn text_by_gtids_is_the_same() -> Result<()> {
    let server = server()?;
    let port = server.port();
    let uuid = "5ea5ca5e-0001-4000-8000-000000000001";
    let words = [
        "binlog.000001".to_owned(),
        format!("--exclude-gtids={uuid}:1-2 binlog.000001"),
        format!("-vv --exclude-gtids={uuid}:1-4 --to-last-log binlog.000001"),
        format!("--include-gtids={uuid}:3 binlog.000001"),
        format!("--exclude-gtids={uuid}:2:4:6-7 -t binlog.000002"),
        format!("--raw --exclude-gtids={uuid}:2:4 -t binlog.000001"),
    ];
    let runs: Vec<Run> = words
        .iter()
        .map(|words| {
            let by = "--read-from-remote-source=BINLOG-DUMP-GTIDS";
            let words = format!("--no-defaults {by} -h 127.0.0.1 -P {port} -u root {words}");
            Run::new(words.split_whitespace().map(str::to_owned))
        })
        .collect();
    let directory = TempDir::new()?;
    let logs = Logs { directory: directory.path().to_owned(), sets: Vec::new() };
    identity::check_all("remote-gtids", &logs, &runs)
}

#[test]
fn files_are_the_same() -> Result<()> {
    check(
        &server()?,
        "remote-raw",
        &[
            "--raw binlog.000001",
            "--raw --to-last-log binlog.000001",
            "--raw -t --result-file=copy- binlog.000002",
            "--raw binlog.000001 binlog.000003",
            "--raw --start-position=158 binlog.000001",
            "--raw --stop-position=300 --stop-datetime=2001-01-01 --database=d binlog.000001",
            "--raw --result-file=no/such/directory/ binlog.000001",
            "--raw --include-gtids=5ea5ca5e-0001-4000-8000-000000000001:2 binlog.000001",
            "--raw --exclude-gtids=5ea5ca5e-0001-4000-8000-000000000001:2 binlog.000001",
        ],
    )
}

/// Pairs of options that affect each other, before a log: with text and with raw files, by position and by GTIDs.
const PAIRED: [&str; 22] = [
    "--rewrite-db=d->renamed binlog.000001",
    "--rewrite-db=d->renamed --rewrite-db=other->o -t binlog.000001",
    "--rewrite-db=d->renamed binlog.000003 binlog.000004",
    "--rewrite-db=none->x binlog.000003",
    "--rewrite-db=d->renamed --database=renamed binlog.000003",
    "--require-row-format binlog.000003",
    "--require-row-format binlog.000001 binlog.000003",
    "--require-row-format -t binlog.000002",
    "--require-row-format --start-position=158 binlog.000001",
    "--idempotent binlog.000001 binlog.000002",
    "--idempotent --require-row-format binlog.000099",
    "--idempotent --disable-log-bin --set-charset=latin1 binlog.000002 binlog.000099",
    "--hexdump -t binlog.000002",
    "--hexdump binlog.000001 -t binlog.000003",
    "--offset=3 --skip-gtids -vv binlog.000002",
    "--start-datetime=2040-01-01 --server-id=2 binlog.000002",
    "--start-position=4294967295 binlog.000001",
    "--start-position=4294967296 binlog.000001",
    "--start-position=5G --result-file=copy- --database=d --stop-position=9 binlog.000001",
    "--start-position=5G --include-gtids=nonsense binlog.000001",
    "--exclude-gtids=5ea5ca5e-0001-4000-8000-000000000001:2-3 --rewrite-db=d->e binlog.000001",
    "--local-load=/nonexistent --print-table-metadata --short-form binlog.000003",
];

#[test]
fn options_in_pairs_are_the_same() -> Result<()> {
    let server = server()?;
    server.sql(
        "flush binary logs; set global binlog_checksum = none; set binlog_transaction_compression = on;
         insert into d.t (b) select repeat(concat('abcdefg', a, uuid()), 4000) from d.t; use d; create table o (a int)",
    )?;
    let port = server.port();
    let ways = ["-R", "--read-from-remote-source=BINLOG-DUMP-GTIDS"];
    let ways = ways.iter().flat_map(|way| [(*way).to_owned(), format!("{way} --raw")]);
    let all = ways.flat_map(|way| PAIRED.map(|words| format!("{way} {words}")));
    let runs: Vec<Run> = all
        .map(|words| {
            let words = format!("--no-defaults -h 127.0.0.1 -P {port} -u root {words}");
            Run::new(words.split_whitespace().map(str::to_owned))
        })
        .collect();
    let directory = TempDir::new()?;
    let logs = Logs { directory: directory.path().to_owned(), sets: Vec::new() };
    identity::check_all("remote-pairs", &logs, &runs)
}

/// With --idempotent, mysqlbinlog appends SQL to raw files; under its own name, bintide writes unchanged logs.
#[test]
fn raw_files_of_an_idempotent_dump_are_logs() -> Result<()> {
    let server = server()?;
    let directory = TempDir::new()?;
    let mut command = Command::new(bintide()?);
    command.env_clear().current_dir(directory.path()).args([
        "dump",
        "-R",
        "-h",
        "127.0.0.1",
        "-u",
        "root",
        "-P",
    ]);
    command.arg(server.port().to_string()).args(["--raw", "--idempotent", "binlog.000002"]);
    let ran = command.output()?;
    ensure!(ran.status.success(), "{ran:?}");
    let (copy, log) = (directory.path().join("binlog.000002"), server.datadir().join("binlog.000002"));
    ensure!(std::fs::read(copy)? == std::fs::read(log)?, "the copy is not the log");
    Ok(())
}

#[test]
fn connections_are_the_same() -> Result<()> {
    let server = server()?;
    check(
        &server,
        "remote-connection",
        &[
            "--protocol=socket -S SOCKET binlog.000002",
            "-h localhost --protocol=socket -S SOCKET binlog.000002",
            "-h localhost --protocol=pipe -S SOCKET binlog.000002",
            "-h localhost -S SOCKET binlog.000002",
            "--ssl-mode=DISABLED binlog.000002",
            "--ssl-mode=REQUIRED binlog.000002",
            "--compression-algorithms=zlib binlog.000002",
            "--compression-algorithms=zstd,uncompressed --zstd-compression-level=7 binlog.000002",
            "--compress binlog.000002",
            "-u s -psecret binlog.000002",
            "-u s -psecret --ssl-mode=DISABLED --get-server-public-key binlog.000002",
            "-u s -pwrong binlog.000002",
            "-P 1 binlog.000002",
            "--bind-address=127.0.0.2 binlog.000002",
            "--bind-address=192.0.2.1 binlog.000002",
            "-h localhost -S /no/such.sock binlog.000002",
            "binlog.000099",
            "--start-position=99999999 binlog.000001",
        ],
    )
}

/// Uses the certificates that a server creates for itself.
#[test]
fn encrypted_connections_are_the_same() -> Result<()> {
    let server = server()?;
    // An account that requires a cipher also requires a certificate here.
    server.sql(
        "create user x@'%' require x509; create user c@'%' require cipher 'ECDHE-RSA-AES128-GCM-SHA256';
         create user t@'%' require cipher 'TLS_CHACHA20_POLY1305_SHA256';
         grant replication slave on *.* to x@'%', c@'%', t@'%'",
    )?;
    let (identity, verified) =
        ("--ssl-cert=DATA/client-cert.pem --ssl-key=DATA/client-key.pem", "--ssl-mode=VERIFY_CA");
    let runs = [
        format!("{verified} --ssl-ca=DATA/ca.pem binlog.000002"),
        format!("{verified} binlog.000002"),
        "--ssl-ca=DATA/ca.pem binlog.000002".to_owned(),
        "--ssl-mode=REQUIRED --ssl-ca=DATA/ca.pem binlog.000002".to_owned(),
        format!("-u x {identity} binlog.000002"),
        format!("-u x {identity} {verified} --ssl-ca=DATA/ca.pem --tls-version=TLSv1.2 binlog.000002"),
        "-u x binlog.000002".to_owned(),
        format!(
            "-u c {identity} --tls-version=TLSv1.2 --ssl-cipher=ECDHE-RSA-AES128-GCM-SHA256 binlog.000002"
        ),
        format!(
            "-u c {identity} --tls-version=TLSv1.2 --ssl-cipher=ECDHE-RSA-AES256-GCM-SHA384 binlog.000002"
        ),
        format!(
            "-u t {identity} --tls-version=TLSv1.3 --tls-ciphersuites=TLS_CHACHA20_POLY1305_SHA256 binlog.000002"
        ),
        "-u t --tls-version=TLSv1.2,TLSv1.3 --tls-ciphersuites=TLS_AES_128_GCM_SHA256 binlog.000002"
            .to_owned(),
        "--ssl-mode=REQUIRED --tls-sni-servername=db.example binlog.000002".to_owned(),
    ];
    check(&server, "remote-tls", &runs.each_ref().map(String::as_str))
}

/// mysqlbinlog 9.7 fails earlier: it lacks the authentication plugin.
#[test]
fn mariadb_is_refused() -> Result<()> {
    let server = Launch::mariadb().start()?;
    let mut command = Command::new(bintide()?);
    command.env_clear().args(["dump", "-R", "-h", "127.0.0.1", "-u", "root", "-P"]);
    let ran = command.arg(server.port().to_string()).arg("binlog.000001").output()?;
    let messages = String::from_utf8_lossy(&ran.stderr);
    ensure!(
        ran.status.code() == Some(1) && messages.contains("unrecognized MySQL version '10.11"),
        "{messages}"
    );
    Ok(())
}

/// New events are printed soon after they are written, until the server ends the dump.
#[test]
fn dumps_wait_for_new_events() -> Result<()> {
    let server = server()?;
    for raw in [false, true] {
        let directory = TempDir::new()?;
        let mut command = Command::new(bintide()?);
        command.env_clear().current_dir(directory.path()).args([
            "dump",
            "-R",
            "-h",
            "127.0.0.1",
            "-u",
            "root",
            "-P",
        ]);
        command.arg(server.port().to_string()).args(["--stop-never", "--connection-server-id=9"]);
        if raw {
            command.arg("--raw");
        }
        let out = directory.path().join("out");
        let last = server.binlogs()?.last().and_then(|log| log.file_name()?.to_str().map(str::to_owned));
        let last = last.context("no logs")?;
        command.arg(&last).stdout(std::fs::File::create(&out)?).stderr(Stdio::inherit());
        let mut child = command.spawn()?;
        let has = |path: &Path, text: &str| -> Result<()> {
            let start = Instant::now();
            while !String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).contains(text) {
                ensure!(start.elapsed() < Duration::from_secs(30), "{text} is not in {}", path.display());
                thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        };
        for number in 0..3 {
            let name = format!("made_meanwhile_{number}_{raw}");
            server.sql(&format!("create database {name}"))?;
            has(if raw { directory.path().join(&last) } else { out.clone() }.as_path(), &name)?;
        }
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

/// Forwards connections to a server until the test ends, and replaces one name in the server's packets by another
/// of the same length.
fn rename_in_transit(server: u16, from: &'static [u8], to: Vec<u8>) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let to = to.clone();
            thread::spawn(move || pass(client, server, from, &to));
        }
    });
    Ok(port)
}

fn pass(mut client: TcpStream, server: u16, from: &[u8], to: &[u8]) -> std::io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", server))?;
    let (mut hears, mut asks) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || std::io::copy(&mut hears, &mut asks).and_then(|_| asks.shutdown(Shutdown::Write)));
    let mut bytes = vec![0; 1 << 16];
    loop {
        let count = server.read(&mut bytes)?;
        let chunk = &mut bytes[..count];
        for at in 0..(count + 1).saturating_sub(from.len()) {
            if chunk[at..].starts_with(from) {
                chunk[at..at + to.len()].copy_from_slice(to);
            }
        }
        client.write_all(chunk)?;
        if count == 0 {
            return client.shutdown(Shutdown::Write);
        }
    }
}

/// A server could name any file of this machine; mysqlbinlog's rule defines valid names of logs.
#[test]
fn raw_files_are_not_written_to_paths_from_a_server() -> Result<()> {
    let server = server()?;
    let parent = TempDir::new()?;
    let directory = parent.path().join("outer/inner");
    for name in ["../../x.00001", "./binlog.0001", "/tmp/x.000001", "binlog.00000/", "binlog\u{1b}00001"] {
        let port = rename_in_transit(server.port(), b"binlog.000001", name.as_bytes().to_vec())?;
        for more in ["--raw", "--raw -t", "--raw -t --result-file=kept-"] {
            let expected = outcome_in(&directory, Program::Real, more, port)?;
            let found = outcome_in(&directory, Program::Ours, more, port)?;
            ensure!(found == expected, "{name:?} {more}: {found:?}, and mysqlbinlog {expected:?}");
            let is_refused = expected.0.stderr.ends_with(b"ERROR: Invalid log file name in rotate event.\n");
            ensure!(is_refused == name.contains('/'), "{name:?} {more}: {expected:?}");
            ensure!(!parent.path().join("x.00001").exists(), "{name:?} {more}");
        }
    }
    Ok(())
}

/// Returns the outcome of a program in a new directory, and the files that it leaves there.
fn outcome_in(directory: &Path, program: Program, more: &str, port: u16) -> Result<(Outcome, Vec<OsString>)> {
    std::fs::create_dir_all(directory)?;
    let words =
        format!("--no-defaults --ssl-mode=DISABLED -R -h 127.0.0.1 -P {port} -u root {more} binlog.000001");
    let arguments: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let outcome = program.run(&arguments, &RunEnvironment { directory, time_zone: "UTC", stdin: b"" })?;
    let mut names: Vec<OsString> =
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    names.sort();
    std::fs::remove_dir_all(directory)?;
    Ok((outcome, names))
}

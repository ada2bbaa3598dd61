//! `bintide relay` between real servers: a source, and replicas that cannot read the source's logs themselves.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::command::ChildGuard;
use e2e::metrics::{ExpositionFormat, check_format, get};
use e2e::program::bintide;
use e2e::received::same_logs;
use e2e::relayed::{
    RelayProcess, ReplicaStartPoint, TABLE, error_of, follow, index_of, relay_address, replica, source,
    wait_for_equal, work,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use servers::{LinkOptions, ServerAddress, ServerLink, SqlConnection};
use tempfile::TempDir;
use testkit::{
    HttpRequest, Launch, PackageHome, ProcessMemory, TestPackage, TestServer, dump_page, free_port,
    wait_until,
};

/// A replica that stopped at the source's compressed transactions resumes at the relay.
#[test]
fn stopped_replicas_resume_at_the_relay() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    let replica = replica(TestPackage::Mysql8_0_15)?;
    source.sql("create user repl identified with mysql_native_password by ''; grant replication slave on *.* to repl")?;
    source.sql(TABLE)?;
    follow(&replica, source.port(), ReplicaStartPoint::Gtids)?;
    source.sql(&work(0, "on"))?;
    wait_until("the replica's error", || Ok(error_of(&replica)?.is_some()))?;
    let error = error_of(&replica)?.context("the replica has not stopped")?;
    ensure!(error.contains("13121"), "{error}");
    replica.sql("stop slave; reset slave all")?;
    let relay = RelayProcess::of(&source, &[])?;
    follow(&replica, relay.port, ReplicaStartPoint::Gtids)?;
    wait_for_equal(&source, &replica)
}

/// Replicas that connect before the source has a transaction wait for the first one.
#[test]
fn replicas_wait_for_the_first_transaction() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source.sql("reset binary logs and gtids")?;
    let logs = TempDir::new()?;
    let from = format!("--from=mysql://root@127.0.0.1:{}/", source.port());
    let relay = RelayProcess::start(logs.path(), &[&from])?;
    let replicas = [
        (replica(TestPackage::Mysql)?, ReplicaStartPoint::Gtids),
        (replica(TestPackage::Mysql8_0_15)?, ReplicaStartPoint::FirstLog),
    ];
    for (replica, start) in &replicas {
        follow(replica, relay.port, *start)?;
    }
    for (replica, start) in &replicas {
        let heartbeats =
            "select count_received_heartbeats from performance_schema.replication_connection_status";
        wait_until("heartbeats", || {
            ensure!(error_of(replica)?.is_none(), "{start:?}: {:?}", error_of(replica)?);
            Ok(replica.sql(heartbeats)?.trim().parse::<u32>()? > 1)
        })?;
    }
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    replicas.iter().try_for_each(|(replica, _)| wait_for_equal(&source, replica))
}

/// Replicas of several versions read the relay, each in its form, while the relay is stopped and restarted.
#[test]
fn replicas_of_other_versions_resume_after_a_restart() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    let directory = TempDir::new()?;
    let mut command = Command::new(bintide()?);
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    command.env_clear().arg("receive").arg(directory.path()).args(["--from", &from]);
    let receiving = ChildGuard::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    wait_until("the first log", || Ok(fs::metadata(directory.path().join("binlog.000001")).is_ok()))?;
    let mut relay = RelayProcess::start(directory.path(), &[])?;
    let replicas = [
        (TestPackage::Mysql, ReplicaStartPoint::Gtids),
        (TestPackage::Mysql5_7, ReplicaStartPoint::Gtids),
        (TestPackage::MariaDb, ReplicaStartPoint::FirstLog),
    ];
    let replicas: Vec<(TestServer, ReplicaStartPoint)> =
        replicas.into_iter().map(|(package, start)| Ok((replica(package)?, start))).collect::<Result<_>>()?;
    for (replica, start) in &replicas {
        follow(replica, relay.port, *start).context("could not start replication")?;
        wait_for_equal(&source, replica).with_context(|| format!("{:?}", replica.home().package()))?;
    }
    relay.stop()?;
    source.sql(&work(100, "on"))?;
    relay.run(&[])?;
    source.sql(&work(200, "off"))?;
    for (replica, _) in &replicas {
        wait_for_equal(&source, replica).with_context(|| format!("{:?}", replica.home().package()))?;
    }
    drop(receiving);
    Ok(())
}

/// mysqlbinlog --raw copies the source's logs from the relay.
#[test]
fn mysqlbinlog_copies_the_logs_byte_for_byte() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    source.sql("flush binary logs")?;
    source.sql(&work(100, "off"))?;
    // Events of 60 kB, and one payload that is larger than a chunk.
    let large = "insert into d.t with recursive n (i) as (select 1 union all select i + 1 from n where i < 930) \
                 select @id := @id + 1, group_concat(sha2(rand(), 256) separator '') from n;";
    let large = large.repeat(10);
    source.sql(&format!(
        "use d; set @id = 5000, session group_concat_max_len = 100000; {large} \
         set session binlog_transaction_compression = on; begin; {large} commit"
    ))?;
    let relay = RelayProcess::of(&source, &[])?;
    for ssl in ["--ssl-mode=DISABLED", "--ssl-mode=REQUIRED"] {
        copy_with_mysqlbinlog(&source, &relay, ssl)?;
    }
    Ok(())
}

fn copy_with_mysqlbinlog(source: &TestServer, relay: &RelayProcess, ssl: &str) -> Result<()> {
    let directory = TempDir::new()?;
    let home = PackageHome::find(TestPackage::Mysql)?;
    for log in &source.binlogs()? {
        let name = log.file_name().and_then(|name| name.to_str()).context("a log without a name")?;
        let mut command = home.command("mysqlbinlog")?;
        command.args(["--no-defaults", "-R", "--raw", "--host=127.0.0.1", "--user=repl"]);
        command.arg(format!("--port={}", relay.port)).args([ssl, name]).current_dir(directory.path());
        let output = command.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut expected = fs::read(log)?;
        // A source clears the flag of an open log when it sends it.
        expected[21] &= !1;
        ensure!(fs::read(directory.path().join(name))? == expected, "{name} differs");
    }
    Ok(())
}

#[test]
fn wrong_passwords_and_unknown_accounts_are_refused() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    let directory = TempDir::new()?;
    let accounts = write_account(directory.path(), "secret")?;
    let relay = RelayProcess::start(&index_of(&source)?, &["--accounts", &accounts])?;
    let home = PackageHome::find(TestPackage::Mysql)?;
    for (user, password, is_right) in
        [("repl", "secret", true), ("repl", "wrong", false), ("nobody", "secret", false)]
    {
        let mut command = home.command("mysql")?;
        command.args(["--no-defaults", "--host=127.0.0.1", "--ssl-mode=REQUIRED", "-e", "SELECT 1"]);
        command.arg(format!("--port={}", relay.port)).arg(format!("--user={user}"));
        let output = command.env("MYSQL_PWD", password).output()?;
        let printed = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() == is_right && is_right != printed.contains("1045"), "{printed}");
    }
    Ok(())
}

/// Writes an accounts file with the account `repl` and this password.
fn write_account(directory: &Path, password: &str) -> Result<String> {
    let (accounts, file) = (directory.join("accounts.toml"), directory.join("password"));
    // The account may not exist yet.
    let _ = fs::remove_file(&accounts);
    fs::write(&file, password)?;
    let mut add = Command::new(bintide()?);
    add.env_clear().args(["relay", "user", "add", "repl", "--role=admin", "--require=tls", "--accounts"]);
    let added = add.arg(&accounts).arg("--password-file").arg(&file).output()?;
    ensure!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    Ok(accounts.display().to_string())
}

/// Logs in with a password; returns the error if the login is refused.
fn login(port: u16, password: &str, option: &str) -> Result<Option<String>> {
    let mut command = PackageHome::find(TestPackage::Mysql)?.command("mysql")?;
    command.args(["--no-defaults", "--host=127.0.0.1", "--user=repl", "-e", "SELECT 1", option]);
    let output = command.arg(format!("--port={port}")).env("MYSQL_PWD", password).output()?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((!output.status.success()).then_some(printed))
}

#[test]
fn receiving_relays_serve_over_tls() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    let directory = TempDir::new()?;
    let (logs, accounts) = (directory.path().join("logs"), write_account(directory.path(), "secret")?);
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    let relay = RelayProcess::start(&logs, &["--accounts", &accounts, "--from", &from])?;
    let replica = replica(TestPackage::Mysql)?;
    replica.sql(&format!(
        "change replication source to source_host = '127.0.0.1', source_port = {}, source_user = 'repl', \
         source_password = 'secret', source_ssl = 1, source_auto_position = 1; start replica",
        relay.port
    ))?;
    wait_for_equal(&source, &replica)?;
    source.sql(&work(100, "off"))?;
    wait_for_equal(&source, &replica)
}

#[test]
fn accounts_are_read_again_after_sighup() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    let directory = TempDir::new()?;
    let accounts = write_account(directory.path(), "before")?;
    let relay = RelayProcess::start(&index_of(&source)?, &["--accounts", &accounts])?;
    let tls = "--ssl-mode=REQUIRED";
    ensure!(login(relay.port, "before", tls)?.is_none());
    let without = login(relay.port, "before", "--ssl-mode=DISABLED")?;
    ensure!(without.is_some(), "the account requires TLS");
    write_account(directory.path(), "after")?;
    ensure!(login(relay.port, "before", tls)?.is_none());
    let id = relay.running.as_ref().context("the relay does not run")?.id();
    kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGHUP)?;
    wait_until("the new password", || Ok(login(relay.port, "after", tls)?.is_none()))?;
    let refused = login(relay.port, "before", tls)?;
    ensure!(refused.as_ref().is_some_and(|printed| printed.contains("1045")), "{refused:?}");
    Ok(())
}

/// Writes a certificate that is its own authority, with its key.
fn write_certificate(directory: &Path) -> Result<String> {
    let mut certificate = CertificateParams::new(vec!["localhost".to_owned()])?;
    certificate.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let pem = certificate.self_signed(&key)?.pem();
    fs::write(directory.join("server.pem"), format!("{pem}{}", key.serialize_pem()))?;
    Ok(pem)
}

/// The certificate is read again after SIGHUP. If it is not valid, the old one remains in use.
#[test]
fn certificates_are_read_again_after_sighup() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    let directory = TempDir::new()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let accounts = write_account(directory.path(), "secret")?;
    let [before, after] = [path("before.pem"), path("after.pem")];
    fs::write(&before, write_certificate(directory.path())?)?;
    let options = ["--accounts", &accounts, "--server-cert", &path("server.pem")];
    let relay = RelayProcess::start(&index_of(&source)?, &options)?;
    let shows = |authority: &str| -> Result<bool> {
        let mut command = PackageHome::find(TestPackage::Mysql)?.command("mysql")?;
        command.args(["--no-defaults", "--host=127.0.0.1", "--user=repl", "-e", "SELECT 1"]);
        command.args(["--ssl-mode=VERIFY_CA", &format!("--ssl-ca={authority}")]);
        let output = command.arg(format!("--port={}", relay.port)).env("MYSQL_PWD", "secret").output()?;
        Ok(output.status.success())
    };
    ensure!(shows(&before)?, "the first certificate");
    let id = Pid::from_raw(i32::try_from(relay.running.as_ref().context("the relay does not run")?.id())?);
    fs::write(&after, write_certificate(directory.path())?)?;
    ensure!(shows(&before)? && !shows(&after)?, "before SIGHUP");
    kill(id, Signal::SIGHUP)?;
    wait_until("the second certificate", || shows(&after))?;
    ensure!(!shows(&before)?, "the first certificate is still in use");
    fs::write(path("server.pem"), "no certificate")?;
    write_account(directory.path(), "other")?;
    kill(id, Signal::SIGHUP)?;
    for _ in 0..10 {
        ensure!(shows(&after)?, "neither the certificate nor the account changes");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Logins without TLS and failed TLS handshakes are counted, and TLS versions are shown.
#[test]
fn connections_without_tls_are_counted() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    let (relay, http) = RelayProcess::with_metrics(&index_of(&source)?, &[])?;
    let mysql = |options: &[&str]| -> Result<Output> {
        let mut command = PackageHome::find(TestPackage::Mysql)?.command("mysql")?;
        command.args(["--no-defaults", "--host=127.0.0.1", "--user=repl", "-N"]).args(options);
        command.args(["-e", "select tls_version from bintide.clients where connection_id = connection_id()"]);
        Ok(command.arg(format!("--port={}", relay.port)).output()?)
    };
    for (option, expected) in [
        ("--ssl-mode=DISABLED", "NULL\n"),
        ("--tls-version=TLSv1.2", "TLSv1.2\n"),
        ("--tls-version=TLSv1.3", "TLSv1.3\n"),
    ] {
        let output = mysql(&[option])?;
        ensure!(output.stdout == expected.as_bytes(), "{option}: {output:?}");
    }
    // The relay has no ciphers with DHE.
    let output = mysql(&["--tls-version=TLSv1.2", "--ssl-cipher=DHE-RSA-AES256-GCM-SHA384"])?;
    ensure!(!output.status.success(), "{output:?}");
    let number = |name: &str| -> Result<f64> {
        let answer = get(http, "/metrics")?;
        let line = answer.text()?.lines().find(|line| line.starts_with(name)).context("no such metric")?;
        Ok(line.rsplit(' ').next().unwrap_or_default().parse()?)
    };
    wait_until("the failure", || Ok(number("bintide_relay_tls_failures_total ")? == 1.0))?;
    ensure!(number("bintide_relay_unencrypted_logins_total ")? == 1.0);
    ensure!(number("bintide_relay_logins_total ")? == 3.0);
    Ok(())
}

/// A browser shows the page with live data: an error of its script would leave it empty.
#[test]
fn browsers_show_the_page() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    let (relay, http) = RelayProcess::with_metrics(&index_of(&source)?, &[])?;
    let replica = replica(TestPackage::Mysql)?;
    follow(&replica, relay.port, ReplicaStartPoint::Gtids)?;
    wait_for_equal(&source, &replica)?;
    // The chart needs two samples of the lag.
    thread::sleep(Duration::from_secs(5));
    let expected = ["repl@127.0.0.1:", "<path class=\"line\" d=\"M", "binlog.000001", ">as-is<", ">ready<"];
    let is_complete = |page: &str| {
        expected.iter().all(|part| page.contains(part)) && !page.contains(">Waiting for the first report.<")
    };
    let page = dump_page(&format!("http://127.0.0.1:{http}/"), is_complete)?;
    ensure!(is_complete(&page), "the page lacks one of {expected:?}, or shows no report: {page}");
    check_narrow_page(http)
}

/// A page with the relay's page in a frame of a phone's width. Its attributes show the width of the content, and its
/// number of rows. Chromium prints a page once it has loaded, so it has an image that never arrives, and is removed
/// when the frame shows data.
const NARROW_PAGE: &str = r#"<!doctype html><html><body>
<iframe id="frame" src="/" style="width: 400px; height: 800px; border: 0"></iframe>
<img id="pending" src="/pending">
<script>
setInterval(() => {
  const page = document.getElementById("frame").contentDocument;
  document.body.dataset.width = page.documentElement.scrollWidth;
  document.body.dataset.rows = page.querySelectorAll("td").length;
  if (document.body.dataset.rows > 10) document.getElementById("pending").removeAttribute("src");
}, 100);
</script></body></html>"#;

/// Checks that the page needs no horizontal scrolling on a phone.
fn check_narrow_page(http: u16) -> Result<()> {
    let page = get(http, "/")?.text()?.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(io::Result::ok) {
            let page = page.clone();
            thread::spawn(move || serve_in_frame(stream, &page, http));
        }
    });
    let value = |page: &str, name: &str| -> Option<u32> {
        let (_, rest) = page.split_once(&format!("data-{name}=\""))?;
        rest.split('"').next()?.parse().ok()
    };
    let shows_data = |page: &str| value(page, "rows").is_some_and(|rows| rows > 10);
    let dumped = dump_page(&format!("http://127.0.0.1:{port}/narrow"), shows_data)?;
    ensure!(shows_data(&dumped), "the page shows no data: {dumped}");
    let width = value(&dumped, "width").with_context(|| dumped.clone())?;
    ensure!(width <= 400, "the page is {width} pixels wide");
    Ok(())
}

/// Answers one request: with a page that has the relay's page in a frame, with the relay's page without its headers,
/// which forbid frames, or with the relay's answer. Leaves the request for the pending image without an answer.
fn serve_in_frame(mut stream: TcpStream, page: &str, http: u16) -> Result<()> {
    let mut line = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    while reader.read_line(&mut line)? > 2 {}
    let content = match path.as_str() {
        "/narrow" => NARROW_PAGE,
        "/" => page,
        "/pending" => {
            // Ends when Chromium closes the connection.
            reader.read_line(&mut line)?;
            return Ok(());
        }
        _ => {
            io::copy(&mut HttpRequest::get(&path).open(("127.0.0.1", http))?, &mut stream)?;
            return Ok(());
        }
    };
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", content.len());
    stream.write_all([head.as_str(), content].concat().as_bytes())?;
    Ok(())
}

/// mysqlbinlog 8.0 receives the logs unchanged. Those of MySQL 5.6 and MariaDB refuse a source with the version 8.0.33.
#[test]
fn mysqlbinlog_8_0_copies_the_logs_over_tls() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    source.sql("flush binary logs")?;
    source.sql(&work(100, "off"))?;
    source.sql("flush binary logs")?;
    let relay = RelayProcess::of(&source, &[])?;
    let directory = TempDir::new()?;
    for log in &source.binlogs()?[..2] {
        let name = log.file_name().and_then(|name| name.to_str()).context("a log without a name")?;
        let mut command = PackageHome::find(TestPackage::Mysql8_0)?.command("mysqlbinlog")?;
        command.args(["--no-defaults", "-R", "--raw", "--host=127.0.0.1", "--user=repl"]);
        command.arg("--ssl-mode=REQUIRED").arg(format!("--port={}", relay.port)).arg(name);
        let output = command.current_dir(directory.path()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ensure!(fs::read(directory.path().join(name))? == fs::read(log)?, "{name} differs");
    }
    Ok(())
}

#[test]
fn relays_without_accounts_listen_on_loopback_only() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    let state = TempDir::new()?;
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("relay").arg(index_of(&source)?).arg("--listen=0.0.0.0:0");
    let without_state = command.output()?;
    let printed = String::from_utf8_lossy(&without_state.stderr).into_owned();
    ensure!(without_state.status.code() == Some(2) && printed.contains("--state"), "{printed}");
    let ran = command.arg("--state").arg(state.path()).output()?;
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(ran.status.code() == Some(2) && printed.contains("without accounts"), "{printed}");
    Ok(())
}

/// `bintide receive` copies the source's logs byte for byte from a relay.
#[test]
fn receive_copies_the_logs_from_a_relay() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    source.sql("flush binary logs")?;
    source.sql(&work(100, "off"))?;
    let relay = RelayProcess::start(&index_of(&source)?, &["--form", "as-is"])?;
    let directory = TempDir::new()?;
    let mut command = Command::new(bintide()?);
    let from = format!("mysql://repl@127.0.0.1:{}/", relay.port);
    command.env_clear().arg("receive").arg(directory.path()).args(["--from", &from, "--stop-at-end"]);
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    same_logs(&source, directory.path())
}

#[test]
fn mariadb_follows_mariadb() -> Result<()> {
    let source = Launch::mariadb().options(["--server-id=1", "--log-bin=binlog"]).start()?;
    source.sql(TABLE)?;
    source.sql("insert into d.t values (1, repeat('x', 5000)), (2, 'y'); flush binary logs; delete from d.t where id = 2")?;
    let replica = replica(TestPackage::MariaDb)?;
    let relay = RelayProcess::of(&source, &[])?;
    follow(&replica, relay.port, ReplicaStartPoint::FirstLog)?;
    wait_for_equal(&source, &replica)?;
    source.sql("insert into d.t values (3, 'z')")?;
    wait_for_equal(&source, &replica)
}

/// Tests a MariaDB replica by GTID that stops and resumes, also at another relay.
fn mariadb_follows_mariadb_by_gtid(package: TestPackage) -> Result<()> {
    let source = Launch::of(package).options(["--server-id=1", "--log-bin=binlog"]).start()?;
    source.sql(TABLE)?;
    source.sql(
        "insert into d.t values (1, repeat('x', 5000)), (2, 'y'); flush binary logs; \
         set gtid_domain_id = 7; insert into d.t values (5, 'other domain'); set gtid_domain_id = 0; \
         delete from d.t where id = 2",
    )?;
    let replica = replica(package)?;
    let mut relay = RelayProcess::of(&source, &[])?;
    let follow = |port: u16| {
        replica.sql(&format!(
            "stop slave; change master to master_host = '127.0.0.1', master_port = {port}, master_user = 'repl', \
             master_use_gtid = slave_pos, master_connect_retry = 1, master_heartbeat_period = 1; start slave"
        ))
    };
    follow(relay.port)?;
    wait_for_equal(&source, &replica)?;
    source.sql("flush binary logs; insert into d.t values (3, 'z')")?;
    wait_for_equal(&source, &replica)?;
    relay.stop()?;
    source.sql("insert into d.t values (4, 'while it is stopped'); set gtid_domain_id = 7; insert into d.t values (6, 'o')")?;
    relay.run(&[])?;
    wait_for_equal(&source, &replica)?;
    let other = RelayProcess::of(&source, &[])?;
    follow(other.port)?;
    source.sql("insert into d.t values (7, 'at the other relay')")?;
    wait_for_equal(&source, &replica)?;
    ensure!(replica.sql("select @@gtid_slave_pos")? == source.sql("select @@gtid_binlog_pos")?);
    // Transactions that the source does not have.
    replica.sql("stop slave; set global gtid_slave_pos = '0-1-999'; start slave")?;
    wait_until("the error", || Ok(error_of(&replica)?.is_some()))?;
    let error = error_of(&replica)?.context("the replica has not stopped")?;
    ensure!(error.contains("1236") && error.contains("requested to start from GTID 0-1-999"), "{error}");
    Ok(())
}

#[test]
fn mariadb_10_11_follows_by_gtid() -> Result<()> {
    mariadb_follows_mariadb_by_gtid(TestPackage::MariaDb)
}

#[test]
fn mariadb_11_8_follows_by_gtid() -> Result<()> {
    mariadb_follows_mariadb_by_gtid(TestPackage::MariaDb11_8)
}

/// The memory of idle clients is below the limit.
#[test]
fn idle_clients_take_little_memory() -> Result<()> {
    const CLIENTS: u64 = 200;
    const KILOBYTES_MAX: u64 = 150;
    let source = source(TestPackage::Mysql)?;
    let relay = RelayProcess::of(&source, &[])?;
    let address = relay_address(relay.port);
    let id = relay.running.as_ref().context("the relay does not run")?.id();
    let before = ProcessMemory::of(id)?.resident_kib;
    let mut links: Vec<ServerLink> = Vec::new();
    for _ in 0..CLIENTS {
        links.push(ServerLink::open(&address, &LinkOptions::default())?);
    }
    let after = ProcessMemory::of(id)?.resident_kib;
    println!("{before} kB alone, {after} kB with {CLIENTS} idle clients");
    ensure!(after.saturating_sub(before) < CLIENTS * KILOBYTES_MAX, "{before} kB, {after} kB");
    for link in &mut links {
        link.query("SELECT 1")?;
    }
    Ok(())
}

#[test]
fn definitions_are_queried_at_the_named_server_and_rows_are_not() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source.sql("create database shop; create table shop.orders (id int primary key, note text)")?;
    let relay = RelayProcess::of(&source, &[])?;
    let sql = |port: u16, statement: &str| -> Result<String> {
        let address = ServerAddress::parse(&format!("mysql://root@127.0.0.1:{port}/"))?;
        let mut connection = SqlConnection::open(&address)?;
        Ok(format!("{:?}", connection.result_table(statement).map_err(|error| error.to_string())))
    };
    let questions = [
        "show full columns from `shop`.`orders`",
        "show index from shop.orders",
        "show create table shop.orders",
        "select table_name from information_schema.tables where table_schema = 'shop'",
        "select column_name, column_type from information_schema.columns where table_name = 'orders'",
        "show columns from shop.missing",
    ];
    let refused = sql(relay.port, questions[0])?;
    ensure!(refused.contains("1235"), "{refused}");
    drop(relay);
    let address = format!("--definitions-from=mysql://root@127.0.0.1:{}/", source.port());
    let mut relay = RelayProcess::start(&index_of(&source)?, &[&address])?;
    for question in questions {
        let [direct, relayed] = [source.port(), relay.port].map(|port| sql(port, question));
        assert_eq!(relayed?, direct?, "{question}");
    }
    for question in ["select * from shop.orders", "show tables; drop table shop.orders", "table shop.orders"]
    {
        let refused = sql(relay.port, question)?;
        ensure!(refused.starts_with("Err"), "{question}: {refused}");
    }
    // A lost connection is replaced.
    let others = "select group_concat(id) from information_schema.processlist where user = 'root' and id <> connection_id()";
    let address = ServerAddress::parse(&format!("mysql://root@127.0.0.1:{}/", source.port()))?;
    let mut connection = SqlConnection::open(&address)?;
    let ids = connection.value(others)?.context("the relay has no connection")?;
    for id in ids.split(',') {
        connection.run(&format!("kill {id}"))?;
    }
    let answer = sql(relay.port, questions[2])?;
    ensure!(answer.starts_with("Ok"), "{answer}");
    relay.stop()
}

#[test]
fn relays_with_accounts_refuse_other_accounts() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    let directory = TempDir::new()?;
    let accounts = write_account(directory.path(), "secret")?;
    let relay = RelayProcess::start(&index_of(&source)?, &["--accounts", &accounts])?;
    let pid = Pid::from_raw(relay.running.as_ref().context("the relay does not run")?.id().try_into()?);
    let tls = "--ssl-mode=REQUIRED";
    // Deleting the file changes nothing.
    let saved = fs::read(&accounts)?;
    fs::remove_file(&accounts)?;
    kill(pid, Signal::SIGHUP)?;
    thread::sleep(Duration::from_millis(500));
    ensure!(login(relay.port, "secret", tls)?.is_none());
    ensure!(login(relay.port, "", tls)?.is_some_and(|error| error.contains("1045")));
    // With an empty accounts file, no client can log in.
    write_no_accounts(&accounts)?;
    kill(pid, Signal::SIGHUP)?;
    wait_until("the refusal of the removed account", || Ok(login(relay.port, "secret", tls)?.is_some()))?;
    ensure!(login(relay.port, "", tls)?.is_some_and(|error| error.contains("1045")));
    fs::write(&accounts, saved)?;
    kill(pid, Signal::SIGHUP)?;
    wait_until("the restored account", || Ok(login(relay.port, "secret", tls)?.is_none()))
}

fn write_no_accounts(path: &str) -> Result<()> {
    fs::write(path, "")?;
    let mut permissions = fs::metadata(path)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    Ok(fs::set_permissions(path, permissions)?)
}

/// A relay without accounts admits every client of this machine, but not after it had accounts.
#[test]
fn accounts_that_are_added_and_removed_admit_no_client() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    let directory = TempDir::new()?;
    let accounts = directory.path().join("accounts.toml").display().to_string();
    write_no_accounts(&accounts)?;
    let relay = RelayProcess::start(&index_of(&source)?, &["--accounts", &accounts])?;
    let pid = Pid::from_raw(relay.running.as_ref().context("the relay does not run")?.id().try_into()?);
    let tls = "--ssl-mode=REQUIRED";
    ensure!(login(relay.port, "", tls)?.is_none());
    ensure!(write_account(directory.path(), "secret")? == accounts);
    kill(pid, Signal::SIGHUP)?;
    wait_until("the new account", || Ok(login(relay.port, "", tls)?.is_some()))?;
    ensure!(login(relay.port, "secret", tls)?.is_none());
    write_no_accounts(&accounts)?;
    kill(pid, Signal::SIGHUP)?;
    wait_until("the refusal of the removed account", || Ok(login(relay.port, "secret", tls)?.is_some()))?;
    ensure!(login(relay.port, "", tls)?.is_some_and(|error| error.contains("1045")));
    Ok(())
}

/// Options for received logs are refused without `--from`; settings, which may be for other commands, have no effect.
#[test]
fn receive_options_need_a_source() -> Result<()> {
    let directory = TempDir::new()?;
    let logs = testkit::workspace_root().join("samples/rotation").display().to_string();
    let run = |options: &[&str]| -> Result<Output> {
        let mut command = Command::new(bintide()?);
        command
            .env_clear()
            .env("BINTIDE_KEEP", "1d")
            .env("BINTIDE_USER", "repl")
            .current_dir(directory.path());
        // The accounts file does not exist, so that no relay starts.
        command.args(["relay", &logs, "--state=state", "--accounts=missing.toml", "--listen=127.0.0.1:0"]);
        Ok(command.args(options).output()?)
    };
    for options in [
        "--keep=1d",
        "--compress=3",
        "--encrypt",
        "--semi-sync",
        "--start-log=binlog.000001",
        "--start-after-gtid=5ea5ca5e-0001-4000-8000-000000000001:1-4711",
        "--user=repl",
        "--password-file=password",
        "--semi-sync --wait-for-replicas=1",
    ] {
        let output = run(&options.split(' ').collect::<Vec<_>>())?;
        let printed = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && printed.contains("give --from"), "{options}: {printed}");
    }
    let output = run(&[])?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(printed.contains("missing.toml does not exist"), "{printed}");
    // The server of --definitions-from has the account of --user.
    let output = run(&["--definitions-from=mysql://127.0.0.1/", "--user=repl"])?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(printed.contains("missing.toml does not exist"), "{printed}");
    Ok(())
}

#[test]
fn missing_accounts_files_and_empty_passwords_are_errors() -> Result<()> {
    let directory = TempDir::new()?;
    let run = |arguments: &[&str]| -> Result<String> {
        let mut command = Command::new(bintide()?);
        let output = command.env_clear().current_dir(directory.path()).args(arguments).output()?;
        ensure!(output.status.code() == Some(2), "{arguments:?}: {output:?}");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let logs = testkit::workspace_root().join("samples/rotation").display().to_string();
    let missing = run(&["relay", &logs, "--state=state", "--accounts=missing.toml", "--listen=127.0.0.1:0"])?;
    ensure!(missing.contains("missing.toml does not exist"), "{missing}");
    for content in ["", "\nsecret\n"] {
        fs::write(directory.path().join("password"), content)?;
        let empty =
            run(&["relay", "user", "add", "repl", "--accounts=new.toml", "--password-file=password"])?;
        ensure!(empty.contains("--no-password"), "{empty}");
    }
    ensure!(!directory.path().join("new.toml").exists());
    Ok(())
}

/// Transactions are sent compressed between two relays, and uncompressed to an old replica.
#[test]
fn relays_of_relays_receive_compressed_transactions() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "off"))?;
    source.sql("flush binary logs")?;
    let first = RelayProcess::start(&index_of(&source)?, &["--form", "compressed:9"])?;
    let directory = TempDir::new()?;
    let logs = directory.path().join("logs");
    let from = format!("mysql://relay2@127.0.0.1:{}/", first.port);
    let second = RelayProcess::start(&logs, &["--from", &from])?;
    let replica = replica(TestPackage::Mysql8_0_15)?;
    follow(&replica, second.port, ReplicaStartPoint::Gtids)?;
    wait_for_equal(&source, &replica)?;
    source.sql(&work(100, "off"))?;
    wait_for_equal(&source, &replica)?;
    let sizes: Vec<u64> = [source.binlogs()?[0].clone(), logs.join("binlog.000001")]
        .into_iter()
        .map(|log| Ok(fs::metadata(log)?.len()))
        .collect::<Result<_>>()?;
    ensure!(sizes[1] * 2 < sizes[0], "{sizes:?}");
    Ok(())
}

/// Lag, saved bytes and CPU time of two clients in two forms: as metrics, on the page, as events, and in a
/// terminal.
#[test]
fn clients_and_their_lag_are_shown() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    source.sql("flush binary logs")?;
    source.sql(&work(100, "on"))?;
    let (relay, http) = RelayProcess::with_metrics(&index_of(&source)?, &[])?;
    let replicas = [replica(TestPackage::Mysql)?, replica(TestPackage::Mysql5_7)?];
    for replica in &replicas {
        follow(replica, relay.port, ReplicaStartPoint::Gtids)?;
        wait_for_equal(&source, replica)?;
    }
    let number = |name: &str, form: &str| -> Result<f64> {
        let answer = get(http, "/metrics")?;
        let metrics = answer.text()?;
        check_format(metrics, ExpositionFormat::Classic)?;
        let label = format!("form=\"{form}\"}}");
        let line = metrics.lines().find(|line| line.starts_with(name) && line.contains(&label));
        let line = line.with_context(|| format!("{name} of {form} is not in {metrics}"))?;
        Ok(line.rsplit(' ').next().unwrap_or_default().parse()?)
    };
    for form in ["as-is", "plain"] {
        wait_until("no lag", || Ok(number("bintide_relay_client_lag_bytes{", form)? == 0.0))?;
        ensure!(number("bintide_relay_client_lag_transactions{", form)? == 0.0);
        ensure!(number("bintide_relay_client_lag_seconds{", form)? == 0.0);
        ensure!(number("bintide_relay_form_render_cpu_seconds_total{", form)? > 0.0);
        ensure!((number("bintide_relay_client_saved_bytes_total{", form)? > 0.0) == (form == "as-is"));
    }
    check_page(http)?;
    check_status(&relay)
}

fn check_page(http: u16) -> Result<()> {
    for (path, expected) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let answer = get(http, path)?;
        ensure!(answer.status == 200 && answer.text()? == expected, "{path}: {answer:?}");
    }
    let page = get(http, "/")?;
    ensure!(page.text()?.contains("<title>bintide relay</title>"), "{page:?}");
    let document: serde_json::Value = serde_json::from_slice(&get(http, "/status.json")?.body)?;
    let forms = document["forms"].as_array().context("no forms")?;
    ensure!(forms.len() == 2 && document["ready"] == true, "{document}");
    ensure!(document["clients"].as_array().is_some_and(|clients| clients.len() == 2), "{document}");
    let plain = document["logs"]
        .as_array()
        .and_then(|logs| logs.iter().find(|log| log["form"] == "plain" && log["complete"] == "Yes"));
    ensure!(plain.is_some_and(|log| log["size"].as_u64() > log["stored_size"].as_u64()), "{document}");
    let mut events = BufReader::new(HttpRequest::get("/events").open(("127.0.0.1", http))?).lines();
    for expected in ["event: history", "event: status", "event: status"] {
        let found = events.find(|line| line.as_ref().is_ok_and(|line| line == expected));
        ensure!(found.is_some(), "no {expected}");
        let data = events.next().context("the event has no data")??;
        let data = data.strip_prefix("data: ").context("no data line after the event's name")?;
        serde_json::from_str::<serde_json::Value>(data)?;
    }
    Ok(())
}

fn check_status(relay: &RelayProcess) -> Result<()> {
    let address = format!("mysql://root@127.0.0.1:{}/", relay.port);
    let mut command = Command::new(bintide()?);
    command.env_clear().args(["relay", "status", &address]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for expected in ["none: another program writes the logs", "binlog.000002", "plain", "as-is", "0 s"] {
        ensure!(text.contains(expected), "{expected} is not in\n{text}");
    }
    let output = command.arg("--json").output()?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let lags = document["relays"][0]["clients"].as_array().context("no clients")?.iter();
    let lags: Vec<u64> = lags.filter_map(|client| client["lag_transactions"].as_u64()).collect();
    ensure!(lags == [0, 0], "{document}");
    // After a relay that cannot be queried, the status of the others is printed.
    let unreachable = format!("mysql://root@127.0.0.1:{}/", free_port()?);
    let mut command = Command::new(bintide()?);
    let output = command.env_clear().args(["relay", "status", &unreachable, &address, "--json"]).output()?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let relays = document["relays"].as_array().context("no relays")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(relays.len() == 1 && output.status.code() == Some(1), "{document}");
    ensure!(
        printed.lines().count() == 1 && printed.contains("could not read the relay's status"),
        "{printed}"
    );
    Ok(())
}

fn signal(server: &TestServer, signal: Signal) -> Result<()> {
    let id = server.pid().context("the relay does not run")?;
    Ok(kill(Pid::from_raw(i32::try_from(id)?), signal)?)
}

/// The lag of a client that reads nothing grows with the store, and a lost source is shown.
#[test]
fn slow_clients_and_lost_sources_are_shown() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    source.sql("insert into d.t values (1, '')")?;
    let directory = TempDir::new()?;
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    let (relay, http) = RelayProcess::with_metrics(&directory.path().join("logs"), &["--from", &from])?;
    wait_until("the source", || Ok(get(http, "/readyz")?.status == 200))?;
    let replica = replica(TestPackage::Mysql)?;
    follow(&replica, relay.port, ReplicaStartPoint::Gtids)?;
    wait_for_equal(&source, &replica)?;
    signal(&replica, Signal::SIGSTOP)?;
    // More data than the socket buffers hold.
    source.sql("set session cte_max_recursion_depth = 100000; insert into d.t with recursive n (i) as (select 100 union all select i + 1 from n where i < 20000) select i, repeat(uuid(), 60) from n")?;
    source.sql("insert into d.t values (2, ''); insert into d.t values (3, '')")?;
    wait_until("the lag", || {
        let document: serde_json::Value = serde_json::from_slice(&get(http, "/status.json")?.body)?;
        let client = &document["clients"][0];
        Ok(client["lag_transactions"].as_u64() >= Some(2)
            && client["lag_bytes"].as_u64() > Some(1_000_000)
            && client["lag_seconds"].as_f64() > Some(1.0))
    })?;
    signal(&replica, Signal::SIGCONT)?;
    wait_for_equal(&source, &replica)?;
    drop(source);
    wait_until("the loss", || Ok(get(http, "/readyz")?.status == 503))?;
    wait_until("the reason", || Ok(get(http, "/readyz")?.text()?.contains("no source is connected: ")))?;
    ensure!(get(http, "/healthz")?.status == 200);
    // The relay updates the document once a second.
    wait_until("the document", || {
        let document: serde_json::Value = serde_json::from_slice(&get(http, "/status.json")?.body)?;
        let upstream = &document["upstream"][0];
        Ok(upstream["connected"] == "No" && upstream["error"].is_string())
    })?;
    Ok(())
}

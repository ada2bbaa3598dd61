//! TLS connections to a target: verification, and the error messages when it fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::as_sql::are_equal;
use e2e::program::bintide;
use e2e::replays::{self, checksum};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rcgen::DnType::CommonName;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;
use testkit::{Launch, TestServer};

type Authority = CertifiedIssuer<'static, KeyPair>;

/// Returns a certificate authority, and its certificate in a file.
fn authority(directory: &Path, name: &str) -> Result<(Authority, PathBuf)> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name.push(CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = Authority::self_signed(params, KeyPair::generate()?)?;
    let path = directory.join(name);
    fs::write(&path, authority.pem())?;
    Ok((authority, path))
}

/// Starts a server that requires TLS, with a certificate for these names that is valid until the end of a year.
fn target(directory: &Path, authority: &Authority, names: &[&str], until: i32) -> Result<TestServer> {
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(until, 12, 31));
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    let path = |what: &str| directory.join(format!("{}-{until}.{what}", names.len()));
    fs::write(path("pem"), certificate.pem())?;
    fs::write(path("key"), key.serialize_pem())?;
    let files = [("cert", path("pem")), ("key", path("key"))];
    let files = files.map(|(option, path)| format!("--ssl-{option}={}", path.display()));
    let options = ["--server-id=2", "--skip-log-bin", "--require-secure-transport=ON"];
    Launch::mysql().options(options).options(files).start()
}

fn replay(source: &TestServer, to: &str, more: &[&str]) -> Result<Output> {
    let mut command = Command::new(bintide()?);
    Ok(command.env_clear().arg("replay").args(source.binlogs()?).args(["--to", to]).args(more).output()?)
}

fn source() -> Result<TestServer> {
    let source = replays::source(&Launch::mysql(), &[])?;
    source.sql("create database d; create table d.t (id int primary key); insert into d.t values (1), (2); flush binary logs")?;
    Ok(source)
}

/// Checks that the connection is refused with this message before anything is applied.
fn refused(source: &TestServer, target: &TestServer, options: &str, expected: &str) -> Result<()> {
    let output = replay(source, &format!("mysql://root@127.0.0.1:{}/{options}", target.port()), &[])?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(2) && printed.contains(expected),
        "{options}: expected {expected}: {printed}"
    );
    ensure!(target.sql("show databases like 'd'")?.is_empty(), "{options}: something was applied");
    Ok(())
}

#[test]
fn the_ssl_mode_selects_the_verification() -> Result<()> {
    let (directory, source) = (TempDir::new()?, source()?);
    let (ours, ca) = authority(directory.path(), "ca.pem")?;
    let (_, other_ca) = authority(directory.path(), "other.pem")?;
    let target = target(directory.path(), &ours, &["localhost", "127.0.0.1"], 2099)?;
    let verified = |ca: &Path| format!("?tls-ca={}", ca.display());
    refused(&source, &target, "?tls=off", "set --ssl-mode=REQUIRED")?;
    refused(&source, &target, &verified(&other_ca), "not signed by an authority in")?;
    refused(&source, &target, &verified(&directory.path().join("none.pem")), "none.pem")?;
    fs::write(directory.path().join("odd.pem"), "odd")?;
    refused(&source, &target, &verified(&directory.path().join("odd.pem")), "odd.pem")?;
    for (host, options) in [
        ("127.0.0.1", String::new()),
        ("127.0.0.1", "?tls=required".to_owned()),
        ("localhost", verified(&ca)),
        ("127.0.0.1", verified(&ca)),
    ] {
        let to = format!("mysql://root@{host}:{}/{options}", target.port());
        let output = replay(&source, &to, &[])?;
        ensure!(output.status.success(), "{to}: {}", String::from_utf8_lossy(&output.stderr));
        are_equal(&source, &target, checksum)?;
        target.sql("drop database d; drop database bintide; reset binary logs and gtids")?;
    }
    let file = directory.path().join("my.cnf");
    for (ca, mode, is_right) in
        [(&ca, "VERIFY_IDENTITY", true), (&other_ca, "VERIFY_CA", false), (&ca, "VERIFY_CA", true)]
    {
        fs::write(&file, format!("[client]\nssl-ca={}\nssl-mode={mode}\nuser=root\n", ca.display()))?;
        let to = format!("mysql://localhost:{}/", target.port());
        let output = replay(&source, &to, &["--defaults-file", &file.display().to_string()])?;
        let printed = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() == is_right, "{mode}: {printed}");
    }
    Ok(())
}

#[test]
fn certificates_of_other_hosts_and_expired_ones_are_refused() -> Result<()> {
    let (directory, source) = (TempDir::new()?, source()?);
    let (ours, ca) = authority(directory.path(), "ca.pem")?;
    let verified = format!("?tls-ca={}", ca.display());
    let others = target(directory.path(), &ours, &["db.example.org"], 2099)?;
    refused(&source, &others, &verified, "certificate is not for 127.0.0.1")?;
    let expired = target(directory.path(), &ours, &["localhost", "127.0.0.1"], 2021)?;
    refused(&source, &expired, &verified, "certificate has expired")?;
    let mut command = Command::new(bintide()?);
    let from = format!("mysql://root@127.0.0.1:{}/{verified}", expired.port());
    command.env_clear().arg("receive").arg(directory.path().join("store")).args(["--from", &from]);
    let ran = command.output()?;
    let printed = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.code() == Some(2) && printed.contains("certificate has expired"), "{printed}");
    let without = Launch::mysql().options(["--server-id=2", "--tls-version="]).start()?;
    refused(&source, &without, "?tls=required", "does not offer TLS")
}

#[test]
fn a_refused_certificate_of_the_source_is_the_only_message() -> Result<()> {
    let (directory, source) = (TempDir::new()?, source()?);
    let (_, other_ca) = authority(directory.path(), "other.pem")?;
    let relay = directory.path().join("relay");
    let to = format!("sqlite:{}", directory.path().join("copy.db").display());
    let run = |from: String, more: &[&str]| {
        let mut command = Command::new(bintide()?);
        command.env_clear().args(["replay", "--to", &to, "--from", &from, "--relay"]).arg(&relay).args(more);
        Ok::<_, anyhow::Error>(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    };
    let plain = format!("mysql://root@127.0.0.1:{}/", source.port());
    let child = run(plain.clone(), &[])?;
    let log = relay.join(source.binlogs()?[0].file_name().context("a name")?);
    let is_received = || std::fs::metadata(&log).is_ok_and(|log| log.len() > 500);
    for _ in 0..300 {
        if is_received() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    ensure!(is_received(), "nothing was received");
    thread::sleep(Duration::from_secs(1));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT)?;
    child.wait_with_output()?;
    // The logs in the relay directory were all applied.
    for _ in 0..5 {
        let verified = format!("{plain}?ssl-mode=VERIFY_CA&ssl-ca={}", other_ca.display());
        let ran = run(verified, &[])?.wait_with_output()?;
        let printed = String::from_utf8_lossy(&ran.stderr);
        ensure!(
            ran.status.code() == Some(2) && printed.contains("not signed by an authority in"),
            "{printed}"
        );
        ensure!(ran.stdout.is_empty(), "{}", String::from_utf8_lossy(&ran.stdout));
    }
    Ok(())
}

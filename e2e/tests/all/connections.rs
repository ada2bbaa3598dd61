//! Connection options from every source of options, for each command that connects.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use std::{iter, thread};

use anyhow::{Context, Result, ensure};
use e2e::command::ChildGuard;
use e2e::program::bintide;
use e2e::replays;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{Launch, PackageHome, TestPackage, TestServer, wait_until, wait_until_within};

/// Password of the account `c`.
const PASSWORD: &str = "se/c@r?e#t%";

/// Starts a server with accounts that log in with a password, without one, and with a certificate.
fn server() -> Result<TestServer> {
    let server = replays::source(&Launch::mysql(), &[])?;
    server.sql(&format!(
        "create user c@'%' identified by '{PASSWORD}'; create user n@'%'; create user x@'%' require x509;
         grant all on *.* to c@'%', n@'%', x@'%'; create database d; create table d.t (a int primary key);
         insert into d.t values (1), (2); flush binary logs"
    ))?;
    Ok(server)
}

/// Commands that connect.
const COMMANDS: [&str; 6] = ["receive", "replay --to", "replay --from", "stream", "warm", "advise"];

struct Commands {
    server: TestServer,
    log: PathBuf,
    directory: TempDir,
}

impl Commands {
    fn new() -> Result<Self> {
        let server = server()?;
        let log = server.binlogs()?.into_iter().next().context("the server has no log")?;
        Ok(Self { server, log, directory: TempDir::new()? })
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Returns a command without connection options.
    fn command(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(bintide()?);
        command.env_clear().env("NOTIFY_SOCKET", "/nowhere").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        match name {
            "receive" => command.args(["receive", &self.path("store")]),
            // Other commands of this test have read the server's log.
            "replay --to" => command.args(["replay", "--no-log"]).arg(&self.log),
            "replay --from" => {
                let sqlite = format!("sqlite:{}", self.path("copy.db"));
                command.args([
                    "replay",
                    "--relay",
                    &self.path("relay"),
                    "--to",
                    &sqlite,
                    "--from",
                    "mysql://",
                ])
            }
            "stream" => command.args(["stream", "--format", "maxwell"]),
            "warm" => command.args(["warm", "--force", "--relay-logs"]).arg(self.server.datadir()),
            _ => command.args([name, "--fetch", "1M"]),
        };
        Ok(command)
    }

    /// Returns the options for host and port, as this command names them.
    fn host_options(&self, name: &str) -> Vec<String> {
        let port = self.server.port();
        options(name, &["--host=127.0.0.1".to_owned(), format!("--port={port}")])
    }

    /// Runs a command until it ends; stops a command that keeps running with SIGTERM once it is connected.
    fn run_until_connected(&self, name: &str, mut command: Command, user: &str) -> Result<Output> {
        let ends = matches!(name, "replay --to" | "advise");
        wait_until("the end of the connections of earlier commands", || {
            // The server notices the end of a client that reads its log only at the next event.
            let ids = self.connection_ids(user)?;
            for id in ids.split_whitespace() {
                // The connection may just have ended.
                let _ = self.server.sql(&format!("kill {id}"));
            }
            Ok(ids.is_empty())
        })?;
        end(command.spawn()?, || Ok(!ends && !self.connection_ids(user)?.is_empty()))
    }

    /// Returns the connection ids of a user, one in each line.
    fn connection_ids(&self, user: &str) -> Result<String> {
        self.server.sql(&format!("select id from information_schema.processlist where user = '{user}'"))
    }

    fn check(&self, name: &str, origin: &str, more: &[String], user: &str) -> Result<()> {
        let mut command = self.command(name)?;
        command.args(more).env("MYSQL_TEST_LOGIN_FILE", self.directory.path().join("login.cnf"));
        let ran = self.run_until_connected(name, command, user)?;
        let printed = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.code() == Some(0), "{name}, by {origin}: {:?}: {printed}", ran.status);
        Ok(())
    }
}

/// Returns options with the prefix of the command's server.
fn options(name: &str, words: &[String]) -> Vec<String> {
    let prefix = if name == "replay --from" { "--source-" } else { "--" };
    words.iter().map(|word| word.replacen("--", prefix, 1)).collect()
}

/// Waits for the end of a child; sends SIGTERM once it is connected, if it has not ended before.
fn end(mut child: Child, is_in: impl Fn() -> Result<bool>) -> Result<Output> {
    let limit = Duration::from_secs(60);
    wait_until_within(limit, "the command to end or to connect", || {
        Ok(child.try_wait()?.is_some() || is_in()?)
    })?;
    if child.try_wait()?.is_none() {
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
    }
    Ok(child.wait_with_output()?)
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o600))?)
}

#[test]
fn every_command_takes_options_from_every_source() -> Result<()> {
    let commands = Commands::new()?;
    let (port, data) = (commands.server.port(), commands.server.datadir());
    let file = commands.directory.path().join("my.cnf");
    let host = format!("host=127.0.0.1\nport={port}\n");
    write_private(
        &file,
        &format!(
            "[client]\nuser=c\npassword='{PASSWORD}'\nmax-allowed-packet=1G\n{host}[bintide]\nloose-ssl_mode=REQUIRED\n"
        ),
    )?;
    let certificate = |name: &str| data.join(name).display().to_string();
    let login = PackageHome::find(TestPackage::Mysql)?
        .command("mysql_config_editor")?
        .env("MYSQL_TEST_LOGIN_FILE", commands.directory.path().join("login.cnf"))
        .args(["set", "--login-path=here", "--host=127.0.0.1", "--user=n", &format!("--port={port}")])
        .output()?;
    ensure!(login.status.success(), "{login:?}");
    for name in COMMANDS {
        let mut of_file = vec![format!("--defaults-file={}", file.display())];
        if name == "replay --from" {
            // host and port in an option file apply to the main server.
            of_file.extend(commands.host_options(name));
        }
        // An option file alone does not select a server.
        match name {
            "replay --to" => of_file.push("--to=mysql://".to_owned()),
            "stream" | "advise" => of_file.push("--from=mysql://".to_owned()),
            _ => {}
        }
        commands.check(name, "option file", &of_file, "c")?;

        let of_login = options(name, &["--login-path=here".to_owned()]);
        let of_login: Vec<String> = iter::once("--no-defaults".to_owned()).chain(of_login).collect();
        commands.check(name, "login path", &of_login, "n")?;

        let words = ["--user=c".to_owned(), format!("--password-command=printf '%s' '{PASSWORD}'")];
        let of_command = [commands.host_options(name), options(name, &words)].concat();
        commands.check(name, "password command", &of_command, "c")?;

        let words = [
            "--user=x".to_owned(),
            "--ssl-mode=REQUIRED".to_owned(),
            format!("--ssl-cert={}", certificate("client-cert.pem")),
            format!("--ssl-key={}", certificate("client-key.pem")),
        ];
        commands.check(
            name,
            "certificate",
            &[commands.host_options(name), options(name, &words)].concat(),
            "x",
        )?;
    }
    // Short names, and a password attached to its option or in an address.
    let short = ["-h127.0.0.1".to_owned(), format!("-P{port}"), "-uc".to_owned(), format!("-p{PASSWORD}")];
    commands.check("stream", "short options", &short, "c")?;
    let escaped: String = PASSWORD.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let address =
        format!("--from=mysql://c:{escaped}@127.0.0.1:{port}/?ssl-mode=REQUIRED&compression-algorithms=zstd");
    commands.check("receive", "address", &[address], "c")
}

#[test]
fn changed_passwords_are_read_again() -> Result<()> {
    let commands = Commands::new()?;
    let (server, secret) = (&commands.server, commands.directory.path().join("secret"));
    write_private(&secret, PASSWORD)?;
    let mut command = commands.command("receive")?;
    command.args(commands.host_options("receive")).arg("--user=c");
    command.arg(format!("--password-command=cat '{}'", secret.display()));
    let running = ChildGuard::start(&mut command)?;
    let wait_for_entry = |before: &str| -> Result<String> {
        let mut id = String::new();
        wait_until_within(Duration::from_secs(30), "the command to connect", || {
            id = commands.connection_ids("c")?.trim().to_owned();
            Ok(!id.is_empty() && id != before)
        })?;
        Ok(id)
    };
    let first = wait_for_entry("")?;
    server.sql("alter user c@'%' identified by 'other'")?;
    write_private(&secret, "other\n")?;
    server.sql(&format!("kill {first}"))?;
    wait_for_entry(&first)?;
    kill(Pid::from_raw(i32::try_from(running.id())?), Signal::SIGTERM)?;
    let ran = running.output()?;
    ensure!(ran.status.code() == Some(0), "{ran:?}");
    Ok(())
}

/// Runs a command that must be refused before it connects; returns the message.
fn refused(arguments: &[&str]) -> Result<String> {
    let ran = Command::new(bintide()?).env_clear().args(arguments).stdin(Stdio::null()).output()?;
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    ensure!(ran.status.code() == Some(2), "{arguments:?}: {:?}: {printed}", ran.status);
    Ok(printed)
}

#[test]
fn unsupported_options_are_refused() -> Result<()> {
    let directory = TempDir::new()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (store, file, unreachable) = (path("store"), path("my.cnf"), "mysql://root@127.0.0.1:1/");
    let sqlite = format!("sqlite:{}", path("copy.db"));
    let of_file = format!("--defaults-file={file}");
    let cases = [
        ("ssl-mode=VERIFY_CA", "CA certificate is required"),
        ("loose-ssl-mode=VERIFY_IDENTITY", "CA certificate is required"),
        ("ssl-crl=/list.pem", "CA certificate is required"),
        ("ssl-session-data=/session", "my.cnf, line 2: ssl-session-data is not supported"),
        ("loose-ssl-session-data=/session", "ssl-session-data is not supported"),
        ("ssl-verify-server-cert", "set ssl-mode=VERIFY_IDENTITY"),
        ("tls-version=TLSv1.1", "tls-version has TLSv1.1"),
        ("port=x", "my.cnf, line 2: port is x"),
    ];
    for (line, expected) in cases {
        write_private(Path::new(&file), &format!("[client]\n{line}\n"))?;
        for command in [
            &["receive", &store, "--from", unreachable, &of_file][..],
            // For both servers of a command.
            &["replay", "--relay", &store, "--to", &sqlite, "--from", unreachable, &of_file],
            &["advise", "--from", unreachable, &of_file],
            &["stream", "--format", "maxwell", "--from", unreachable, &of_file],
            &["warm", "-P", "1", &of_file],
        ] {
            let printed = refused(command)?;
            ensure!(printed.contains(expected), "{command:?}, {line}: expected {expected}: {printed}");
        }
    }
    let printed = refused(&["receive", &store, "--from", unreachable, "--ssl-mode=odd"])?;
    ensure!(printed.contains("'odd' for '--ssl-mode <MODE>': expected one of DISABLED"), "{printed}");
    let printed = refused(&["receive", &store, "--no-defaults"])?;
    ensure!(printed.contains("no server given: use --from, --host or --socket"), "{printed}");
    Ok(())
}

#[test]
fn errors_show_no_password() -> Result<()> {
    let directory = TempDir::new()?;
    let store = directory.path().join("store").display().to_string();
    for address in [
        "mysql://root:se/cret@h/",
        "mysql://root:se?cret@h/",
        "mysql://root:cret@h/path",
        "mysql://root:cret@h:port/",
        "mysql://root:cret@h/?odd=1",
        "mysq://root:cret@h/",
        "root:cret@h",
    ] {
        for command in [
            &["receive", &store, "--from", address][..],
            &["replay", "log", "--to", address],
            &["replay", "log", "--to", "sqlite:x", "--verify", address],
            &["advise", "--from", address],
            &["stream", "--format", "maxwell", "--from", address],
        ] {
            let printed = refused(command)?;
            ensure!(!printed.contains("cret") && !printed.contains("root"), "{command:?}: {printed}");
        }
    }
    let printed = refused(&["receive", &store, "--from", "mysql://root:se/cret@h/"])?;
    ensure!(printed.contains("write / as %2F"), "{printed}");
    Ok(())
}

/// Under `nohup`, SIGHUP is ignored and must stay ignored; otherwise SIGHUP interrupts the run.
#[test]
fn ignored_sighup_stays_ignored() -> Result<()> {
    let commands = Commands::new()?;
    let count = "select count(*) from information_schema.processlist where user = 'n'";
    let is_in = || -> Result<bool> { Ok(commands.server.sql(count)?.trim() != "0") };
    for (ignored, expected) in [(true, 0), (false, 130)] {
        // Without this wait, the session of the first command could be taken for that of the second.
        wait_until("the end of the session before", || Ok(!is_in()?))?;
        let mut command = Command::new("/usr/bin/env");
        let handling = if ignored { "--ignore-signal=HUP" } else { "--default-signal=HUP" };
        command.env_clear().env("NOTIFY_SOCKET", "/nowhere").arg(handling).arg(bintide()?);
        command.args(["receive", &commands.path("store"), "--user=n"]).args(commands.host_options("receive"));
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let id = Pid::from_raw(i32::try_from(child.id())?);
        let ran = end(child, || {
            let is_in = is_in()?;
            if is_in {
                kill(id, Signal::SIGHUP)?;
                // Wait, so that the command has time to end.
                thread::sleep(Duration::from_millis(500));
            }
            Ok(is_in)
        })?;
        let printed = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.code() == Some(expected), "ignored: {ignored}: {:?}: {printed}", ran.status);
    }
    Ok(())
}

/// Ignoring the file could ignore its options, for example a verified connection.
#[test]
fn unusable_option_files_end_the_command() -> Result<()> {
    let directory = TempDir::new()?;
    let path = |name: &str| directory.path().join(name);
    let files = [
        ("open.cnf", "[client]\nhost=127.0.0.1\n", 0o666),
        ("included.cnf", "!include open.cnf\n", 0o600),
        ("lost.cnf", "!include lost-too.cnf\n", 0o600),
        ("upper.cnf", "[client]\nSSL-CA=ca.pem\n", 0o600),
        ("login", "\0\0\0\0no login path file at all", 0o600),
    ];
    for (name, text, mode) in files {
        fs::write(path(name), text)?;
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode))?;
    }
    let check = |options: &[&str], expected: &str| {
        let mut command = Command::new(bintide()?);
        command.env_clear().env("MYSQL_TEST_LOGIN_FILE", path("none")).current_dir(&directory);
        command.args(["receive", "store", "--quiet", "--from", "mysql://r@127.0.0.1:1/"]).args(options);
        if options.contains(&"--login-path=damaged") {
            command.env("MYSQL_TEST_LOGIN_FILE", path("login"));
        }
        let output = command.output()?;
        let printed = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && printed.contains(expected), "{options:?}: {output:?}");
        Ok(())
    };
    check(
        &["--defaults-file=open.cnf"],
        "open.cnf cannot be used: all users may write to it; run chmod o-w",
    )?;
    check(&["--defaults-extra-file=open.cnf"], "open.cnf cannot be used: all users may write to it")?;
    check(&["--defaults-file=included.cnf"], "open.cnf cannot be used: all users may write to it")?;
    check(&["--defaults-file=lost.cnf"], "Can't get stat of 'lost-too.cnf'")?;
    check(&["--defaults-file=."], "cannot be used: it is a directory; expected a file")?;
    check(&["--defaults-file=upper.cnf"], "SSL-CA is not an option: write it in lower case, ssl-ca")?;
    check(&["--no-defaults", "--login-path=damaged"], "a part of it cannot be decrypted")?;
    check(&["--no-defaults", "--login-path=other"], "the login path file does not contain other")?;
    check(&["--password-file=/dev/null"], "it is not a regular file")
}

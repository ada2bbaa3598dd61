//! The server's side of the protocol with real clients: each logs in with every plugin that it supports, and is
//! refused with a wrong password.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use binlog::events::Rotate;
use binlog::{Event, EventFlags, EventOrigin, Framer, FramerOutput, MAGIC, NextPosition};
use e2e::login_server::{LoginRecord, LoginServer, LoginServerOptions, PASSWORD};
use servers::{
    CancelToken, LinkOptions, PasswordSource, PublicKeySource, ServerAddress, ServerLink, SslMode, TlsPolicy,
};
use tempfile::TempDir;
use testkit::{Launch, PackageHome, TestPackage, TestServer};
use wire::{CleartextPolicy, PacketCompression, PasswordKey, PasswordPlugin, ServerSession, StoredPassword};

fn server(version: &str, plugin: PasswordPlugin) -> Result<LoginServer> {
    LoginServer::start(LoginServerOptions::usual(version, plugin)?)
}

/// A client program, and its options.
struct Client<'a> {
    home: &'a PackageHome,
    program: &'a str,
    options: &'a [&'a str],
}

impl Client<'_> {
    fn is_old(&self) -> bool {
        self.home.package().version() < (5, 7)
    }

    fn command(&self, server: &LoginServer, user: &str, password: &str) -> Result<Command> {
        let mut command = self.home.command(self.program)?;
        command.args(["--no-defaults", "--host=127.0.0.1"]).args(self.options);
        command.arg(format!("--port={}", server.port())).arg(format!("--user={user}"));
        command.env("MYSQL_PWD", password).env_remove("MYSQL_TEST_LOGIN_FILE");
        Ok(command)
    }

    /// Runs statements; returns the output, or the client's error message.
    fn run(&self, server: &LoginServer, user: &str, password: &str) -> Result<Result<String, String>> {
        let mut command = self.command(server, user, password)?;
        command.args(["--batch", "--skip-column-names", "-e", "SELECT 1; SHOW VARIABLES LIKE 'version'"]);
        let output = command.output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Ok(match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        })
    }

    /// Logs in with the right password, and checks that a wrong password and an unknown user are refused.
    fn check(&self, server: &LoginServer, user: &str) -> Result<ServerSession> {
        let what = format!("{} {} {:?}, {user}", self.home.package().name(), self.program, self.options);
        let password = if user == "empty" { "" } else { PASSWORD };
        server.take_records();
        match self.run(server, user, password)? {
            Ok(text) => ensure!(text == format!("1\n{}", server.version()), "{what}: {text}"),
            Err(error) => bail!("{what}: {error}"),
        }
        let record = one_record(server).context(what.clone())?;
        let shown = "SHOW VARIABLES LIKE 'version'".to_owned();
        ensure!(
            record.commands.contains(&"SELECT 1".to_owned()) && record.commands.contains(&shown),
            "{what}"
        );
        for (user, password) in [(user, "wrong"), ("nobody", PASSWORD)] {
            match self.run(server, user, password)? {
                Err(error) if error.contains("1045 (28000): Access denied for user") => {}
                // For a client without the plugin, an unknown user appears as an account of that plugin.
                Err(error)
                    if self.is_old() && user == "nobody" && error.contains("caching_sha2_password") =>
                {
                    server.take_records();
                    continue;
                }
                other => bail!("{what}: {other:?}"),
            }
            let refused = one_record(server)?.outcome.map(drop);
            ensure!(refused == Err(1045), "{what}: {refused:?}");
        }
        record.outcome.map_err(|code| anyhow::anyhow!("{what}: {code}"))
    }
}

/// Returns the record of the client that has just disconnected.
fn one_record(server: &LoginServer) -> Result<LoginRecord> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut records = server.take_records();
        match (records.pop(), records.is_empty()) {
            (Some(record), true) => return Ok(record),
            (Some(_), false) => bail!("more than one client has logged in"),
            (None, _) if Instant::now() > deadline => bail!("no client has logged in"),
            (None, _) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn attribute(session: &ServerSession, name: &str) -> String {
    let value = session.login.attributes.get(name).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

#[test]
fn mysql_9_7_logs_in() -> Result<()> {
    let home = PackageHome::find(TestPackage::Mysql)?;
    let server = server("9.7.4", PasswordPlugin::CachingSha2)?;
    fn client<'a>(home: &'a PackageHome, options: &'a [&'a str]) -> Client<'a> {
        Client { home, program: "mysql", options }
    }
    let plain: &[&str] = &["--ssl-mode=DISABLED", "--get-server-public-key"];
    let session = client(&home, plain).check(&server, "caching")?;
    ensure!(
        attribute(&session, "program_name") == "mysql" && attribute(&session, "_client_version") == "9.7.4"
    );
    ensure!(!session.login.is_encrypted && session.compression.is_none());
    // The server has cached the digest.
    let answer = client(&home, &["--ssl-mode=DISABLED"]).run(&server, "caching", PASSWORD)?;
    ensure!(answer.is_ok() && one_record(&server)?.outcome.is_ok(), "{answer:?}");
    server.forget();
    let encrypted: &[&str] = &["--ssl-mode=REQUIRED"];
    ensure!(client(&home, encrypted).check(&server, "caching")?.login.is_encrypted);
    ensure!(
        client(&home, &["--ssl-mode=REQUIRED", "--tls-version=TLSv1.2"])
            .check(&server, "caching")?
            .login
            .is_encrypted
    );
    client(&home, encrypted).check(&server, "empty")?;
    for (algorithms, expected) in [
        ("zlib", PacketCompression::Zlib { level: 6 }),
        ("zstd", PacketCompression::Zstd { level: 7 }),
        ("zstd,zlib", PacketCompression::Zlib { level: 6 }),
    ] {
        for mode in ["--ssl-mode=DISABLED", "--ssl-mode=REQUIRED"] {
            let algorithms = format!("--compression-algorithms={algorithms}");
            let options = [mode, &algorithms, "--zstd-compression-level=7", "--get-server-public-key"];
            let session = client(&home, &options).check(&server, "caching")?;
            ensure!(session.compression == Some(expected), "{options:?}: {:?}", session.compression);
        }
    }
    // Without the key, the client does not send its password.
    server.forget();
    let error =
        client(&home, &["--ssl-mode=DISABLED"]).run(&server, "caching", PASSWORD)?.err().unwrap_or_default();
    ensure!(error.contains("Authentication requires secure connection"), "{error}");
    Ok(())
}

#[test]
fn mysql_8_0_logs_in() -> Result<()> {
    let home = PackageHome::find(TestPackage::Mysql8_0)?;
    for plugin in [PasswordPlugin::CachingSha2, PasswordPlugin::Native] {
        let server = server("8.0.33", plugin)?;
        for options in [
            &["--ssl-mode=DISABLED", "--get-server-public-key"][..],
            &["--ssl-mode=REQUIRED"],
            &["--ssl-mode=REQUIRED", "--default-auth=mysql_native_password"],
            &["--ssl-mode=DISABLED", "--get-server-public-key", "--compression-algorithms=zstd"],
            &["--ssl-mode=REQUIRED", "--compress"],
        ] {
            for user in ["caching", "native", "empty"] {
                server.forget();
                let client = Client { home: &home, program: "mysql", options };
                let session = client.check(&server, user)?;
                ensure!(attribute(&session, "_client_version") == "8.0.33");
            }
        }
    }
    Ok(())
}

/// A client without connection attributes that supports the native plugin only.
#[test]
fn mysql_5_5_logs_in() -> Result<()> {
    let home = PackageHome::find(TestPackage::Mysql5_5)?;
    for plugin in [PasswordPlugin::CachingSha2, PasswordPlugin::Native] {
        let server = server("8.0.33", plugin)?;
        for options in [&[][..], &["--compress"], &["--skip-ssl"]] {
            let client = Client { home: &home, program: "mysql", options };
            let session = client.check(&server, "native")?;
            ensure!(session.login.attributes.iter().count() == 0);
        }
    }
    Ok(())
}

#[test]
fn mariadb_logs_in() -> Result<()> {
    for package in [TestPackage::MariaDb, TestPackage::MariaDb11_8] {
        let home = PackageHome::find(package)?;
        let server = server("9.7.4", PasswordPlugin::CachingSha2)?;
        let directory = home.prefix().join("lib/x86_64-linux-gnu/libmariadb3/plugin");
        let plugins = format!("--plugin-dir={}", directory.display());
        let encrypted: &[&str] = &["--ssl", "--skip-ssl-verify-server-cert", &plugins];
        for (options, user) in [
            (&["--skip-ssl", &plugins][..], "native"),
            (&["--skip-ssl", "--compress", &plugins], "native"),
            (encrypted, "native"),
            (encrypted, "caching"),
            (encrypted, "empty"),
        ] {
            let client = Client { home: &home, program: "mariadb", options };
            let session = client.check(&server, user)?;
            ensure!(attribute(&session, "_client_name") == "libmariadb");
            ensure!(
                session.login.is_encrypted == (options.len() == encrypted.len() && options[0] == "--ssl")
            );
        }
    }
    Ok(())
}

#[test]
fn mysqlbinlog_logs_in() -> Result<()> {
    for (package, program, version) in [
        (TestPackage::Mysql, "mysqlbinlog", "9.7.4"),
        (TestPackage::Mysql8_0, "mysqlbinlog", "8.0.33"),
        (TestPackage::MariaDb, "mariadb-binlog", "10.11.6-MariaDB-log"),
    ] {
        let server = server(version, PasswordPlugin::CachingSha2)?;
        let home = PackageHome::find(package)?;
        let client = Client { home: &home, program, options: &[] };
        let user = if package == TestPackage::MariaDb { "native" } else { "caching" };
        for password in [PASSWORD, "wrong"] {
            let mut command = client.command(&server, user, password)?;
            let output = command.args(["--read-from-remote-server", "binlog.000001"]).output()?;
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let record = one_record(&server)?;
            let Ok(session) = record.outcome else {
                ensure!(
                    password == "wrong" && error.contains("Access denied for user"),
                    "{program}: {error}"
                );
                continue;
            };
            ensure!(password == PASSWORD && error.contains("Could not find first log file name"), "{error}");
            ensure!(
                record.commands.last().is_some_and(|last| last == "dump binlog.000001"),
                "{:?}",
                record.commands
            );
            let role = if package == TestPackage::MariaDb { "" } else { "binary_log_listener" };
            ensure!(attribute(&session, "_client_role") == role, "{program}");
        }
    }
    Ok(())
}

/// A sysbench script: one prepared statement, run twice.
const PREPARED: &str = r#"
function event()
   local connection = sysbench.sql.driver():connect()
   local statement = connection:prepare("SELECT ?, ?")
   local number = statement:bind_create(sysbench.sql.type.INT)
   local text = statement:bind_create(sysbench.sql.type.VARCHAR, 10)
   statement:bind_param(number, text)
   for round = 1, 2 do
      number:set(round)
      text:set("abc")
      local result = statement:execute()
      assert(result.nrows == 1, tostring(result.nrows) .. " rows")
      result:free()
   end
   statement:close()
   connection:disconnect()
end
"#;

#[test]
fn prepared_statements_are_run() -> Result<()> {
    let directory = TempDir::new()?;
    let script = directory.path().join("prepared.lua");
    std::fs::write(&script, PREPARED)?;
    let server = server("9.7.4", PasswordPlugin::CachingSha2)?;
    let mut command = PackageHome::find(TestPackage::Sysbench)?.command("sysbench")?;
    command.arg(&script).args(["--db-driver=mysql", "--events=1", "--time=10", "--mysql-host=127.0.0.1"]);
    command.arg(format!("--mysql-port={}", server.port())).arg(format!("--mysql-password={PASSWORD}"));
    let output = command.args(["--mysql-user=native", "run"]).output()?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{text}");
    let record = one_record(&server)?;
    let expected = [1, 2].map(|round| format!("execute [Int({round}), Bytes([97, 98, 99])]"));
    ensure!(record.commands == expected, "{:?}: {text}", record.commands);
    Ok(())
}

/// A replica logs in to our server, and requests its log; returns the replica's error.
fn replicate(replica: &TestServer, server: &LoginServer, words: [&str; 2], password: &str) -> Result<String> {
    let [source, change] = words;
    let key = if source == "source" { ", get_source_public_key=1" } else { "" };
    let user = if source == "source" { "caching" } else { "native" };
    replica.sql(&format!(
        "{change} to {source}_host='127.0.0.1', {source}_port={}, {source}_user='{user}', \
         {source}_password='{password}', {source}_log_file='binlog.000001', {source}_log_pos=4, \
         {source}_connect_retry=60{key}",
        server.port()
    ))?;
    let (start, stop) =
        if source == "source" { ("start replica", "stop replica") } else { ("start slave", "stop slave") };
    replica.sql(start)?;
    let deadline = Instant::now() + Duration::from_secs(30);
    let sql =
        "select last_error_number, last_error_message from performance_schema.replication_connection_status";
    let number = loop {
        let number = replica.sql(sql)?.trim().to_owned();
        if !number.starts_with('0') || Instant::now() > deadline {
            break number;
        }
        thread::sleep(Duration::from_millis(50));
    };
    replica.sql(stop)?;
    Ok(number)
}

#[test]
fn replicas_log_in() -> Result<()> {
    for (package, words) in [
        (TestPackage::Mysql5_7, ["master", "change master"]),
        (TestPackage::Mysql, ["source", "change replication source"]),
    ] {
        let server = server("8.0.33", PasswordPlugin::CachingSha2)?;
        let replica = Launch::of(package).option("--server-id=5").start()?;
        let number = replicate(&replica, &server, words, "wrong")?;
        ensure!(number.starts_with("1045"), "{words:?}: {number}");
        ensure!(one_record(&server)?.outcome.map(drop) == Err(1045));
        // The login succeeds, and the dump is refused.
        let number = replicate(&replica, &server, words, PASSWORD)?;
        let record = one_record(&server)?;
        ensure!(
            number.starts_with("13114") || number.starts_with("1236"),
            "{words:?}: {number}, {:?}",
            record.commands
        );
        let session = record.outcome.clone().map_err(|code| anyhow::anyhow!("{code}"))?;
        ensure!(attribute(&session, "program_name") == "mysqld");
        let register = record.commands.iter().position(|command| command == "register 5");
        ensure!(
            register.is_some_and(|index| record.commands[index + 1..] == ["dump binlog.000001"]),
            "{record:?}"
        );
    }
    Ok(())
}

/// Returns the events of a server's first log, after the artificial Rotate event.
fn first_log(source: &TestServer) -> Result<Vec<Vec<u8>>> {
    source.sql(
        "create database d; create table d.t (a int primary key); insert into d.t values (1), (2);
         insert into d.t values (3); flush binary logs",
    )?;
    let bytes = std::fs::read(&source.binlogs()?[0])?;
    let (mut framer, mut rest) = (Framer::new(), &bytes[MAGIC.len()..]);
    let mut events: Vec<Vec<u8>> = Vec::new();
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        events.push(raw.bytes().to_vec());
        rest = &rest[raw.bytes().len()..];
    }
    let mut rotate = Vec::new();
    let origin = EventOrigin { timestamp: 0, server_id: 1, flags: EventFlags::ARTIFICIAL };
    let format = framer.format().context("no format description")?;
    Event::Rotate(Rotate { position: 4, file: b"binlog.000001" }).write(
        origin,
        NextPosition::Fixed(0),
        format,
        &mut rotate,
    )?;
    events.insert(0, rotate);
    Ok(events)
}

/// A real replica accepts our packet numbers, and acknowledges each event.
#[test]
fn replicas_acknowledge_events() -> Result<()> {
    let log = first_log(&Launch::mysql().option("--server-id=1").start()?)?;
    for compression in ["uncompressed", "zlib", "zstd"] {
        let options = LoginServerOptions::usual("9.7.4", PasswordPlugin::CachingSha2)?;
        let server = LoginServer::start(LoginServerOptions { log: log.clone(), ..options })?;
        let replica = Launch::mysql()
            .options(["--server-id=5", "--plugin-load-add=semisync_replica.so"])
            .option("--rpl-semi-sync-replica-enabled=ON")
            .start()?;
        replica.sql(&format!(
            "change replication source to source_host='127.0.0.1', source_port={}, source_user='caching', \
             source_password='{PASSWORD}', source_log_file='binlog.000001', source_log_pos=4, \
             source_ssl=1, source_compression_algorithms='{compression}'; start replica",
            server.port()
        ))?;
        let deadline = Instant::now() + Duration::from_secs(30);
        let count = || replica.sql("select count(*) from d.t");
        while count().map_or(true, |count| count.trim() != "3") {
            let errors = replica
                .sql("select last_error_message from performance_schema.replication_connection_status")?;
            ensure!(Instant::now() < deadline && errors.trim().is_empty(), "{compression}: {errors}");
            thread::sleep(Duration::from_millis(50));
        }
        replica.sql("stop replica")?;
        let record = one_record(&server)?;
        let acks = record.commands.iter().filter(|command| command.starts_with("ack binlog.000001 ")).count();
        // All events except the artificial Rotate event and the format description.
        ensure!(acks + 2 >= log.len() - 1, "{compression}: {acks} of {}", log.len());
        let session = record.outcome.map_err(|code| anyhow::anyhow!("{code}"))?;
        ensure!(session.compression.is_some() == (compression != "uncompressed"), "{compression}");
        ensure!(attribute(&session, "_client_role") == "binary_log_listener");
    }
    Ok(())
}

fn address(port: u16, user: &str, mode: SslMode) -> ServerAddress {
    ServerAddress {
        user: user.to_owned(),
        password: PasswordSource::Text(PASSWORD.to_owned()),
        host: "127.0.0.1".to_owned(),
        port,
        socket: None,
        tls: TlsPolicy::with_mode(mode),
        public_key: PublicKeySource::Server,
        compressions: vec![None],
        cleartext: CleartextPolicy::Refuse,
        timeout: ServerAddress::DEFAULT_TIMEOUT,
        cancel: CancelToken::default(),
    }
}

/// A real server accepts our password hashes, and we accept the server's.
#[test]
fn hashes_are_exchanged_with_servers() -> Result<()> {
    let real = Launch::mysql().start()?;
    let hex = |text: &[u8]| text.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let ours = StoredPassword::caching_sha2(PASSWORD.as_bytes(), [9; 32])?;
    real.sql(&format!(
        "create user ours identified with caching_sha2_password as 0x{};
         create user theirs identified with caching_sha2_password by '{PASSWORD}'",
        hex(&ours.to_text())
    ))?;
    ServerLink::open(&address(real.port(), "ours", SslMode::Required), &LinkOptions::default())?;
    let theirs = real.sql("select hex(authentication_string) from mysql.user where user = 'theirs'")?;
    let theirs = StoredPassword::parse(format!("0x{}", theirs.trim()).as_bytes())?;
    let key = std::fs::read_to_string(real.datadir().join("private_key.pem"))?;
    let server = LoginServer::start(LoginServerOptions {
        version: "9.7.4".to_owned(),
        plugin: PasswordPlugin::CachingSha2,
        accounts: HashMap::from([("theirs".to_owned(), theirs)]),
        password_key: Some(Arc::new(PasswordKey::from_pem(&key)?)),
        log: Vec::new(),
    })?;
    for mode in [SslMode::Required, SslMode::Disabled] {
        server.forget();
        ServerLink::open(&address(server.port(), "theirs", mode), &LinkOptions::default())?;
    }
    Ok(())
}

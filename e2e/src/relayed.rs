//! Running relays, and replicas that follow them.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use servers::{CancelToken, PasswordSource, PublicKeySource, ServerAddress, SslMode, TlsPolicy};
use tempfile::TempDir;
use testkit::{Launch, PackageHome, ServerFlavour, TestPackage, TestServer, free_port, wait_until};
use wire::{BinlogDump, Capabilities, CleartextPolicy, ClientCommand, DumpFlags};

use crate::command::ChildGuard;
use crate::program::bintide;

/// A running relay, and the directories that it uses.
pub struct RelayProcess {
    /// Port that the relay listens on.
    pub port: u16,
    logs: String,
    /// Directory of its state and its messages.
    directory: TempDir,
    /// The running program; `None` while it is stopped.
    pub running: Option<ChildGuard>,
}

impl RelayProcess {
    /// Starts a relay that serves the logs of an index or a directory.
    ///
    /// # Errors
    ///
    /// Fails if the relay does not start.
    pub fn start(logs: &Path, more: &[&str]) -> Result<Self> {
        let logs = logs.display().to_string();
        let mut relay = Self { port: free_port()?, logs, directory: TempDir::new()?, running: None };
        relay.run(more)?;
        Ok(relay)
    }

    /// Starts a relay that serves a server's own directory.
    ///
    /// # Errors
    ///
    /// Fails if the relay does not start.
    pub fn of(server: &TestServer, more: &[&str]) -> Result<Self> {
        Self::start(&index_of(server)?, more)
    }

    /// Starts the program, also after a stop: on the same port, with the same state.
    ///
    /// # Errors
    ///
    /// Fails if the relay does not start.
    pub fn run(&mut self, more: &[&str]) -> Result<()> {
        let mut command = Command::new(bintide()?);
        command
            .env_clear()
            .args(["relay", &self.logs])
            .arg("--state")
            .arg(self.directory.path().join("state"));
        command.arg(format!("--listen=127.0.0.1:{}", self.port)).args(more);
        command.stderr(File::options().create(true).append(true).open(self.messages_path())?);
        self.running = Some(ChildGuard::start(&mut command)?);
        let port = self.port;
        wait_until("the relay", || Ok(TcpStream::connect(("127.0.0.1", port)).is_ok()))
    }

    /// Returns the messages of all runs so far.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be read.
    pub fn messages(&self) -> Result<String> {
        Ok(fs::read_to_string(self.messages_path())?)
    }

    fn messages_path(&self) -> PathBuf {
        self.directory.path().join("messages")
    }

    /// Starts a relay that serves the logs of an index or a directory, with metrics at the returned port.
    ///
    /// # Errors
    ///
    /// Fails if the relay does not start.
    pub fn with_metrics(logs: &Path, more: &[&str]) -> Result<(Self, u16)> {
        let http = free_port()?;
        let metrics = format!("--metrics=127.0.0.1:{http}");
        Ok((Self::start(logs, &[&[metrics.as_str()], more].concat())?, http))
    }

    /// Runs SQL with the mysql client. Returns the client's output, including errors.
    ///
    /// # Errors
    ///
    /// Fails if the client does not start.
    pub fn ask(&self, sql: &str) -> Result<String> {
        ask(self.port, sql, &[])
    }

    /// Stops the relay with SIGINT, as Ctrl-C does.
    ///
    /// # Errors
    ///
    /// Fails if the exit code is not the one of SIGINT.
    pub fn stop(&mut self) -> Result<()> {
        let running = self.running.take().context("the relay does not run")?;
        running.interrupt()?;
        let output = running.output()?;
        ensure!(output.status.code() == Some(130), "{:?}", output.status);
        Ok(())
    }
}

/// Returns the address of a relay without accounts.
pub fn relay_address(port: u16) -> ServerAddress {
    ServerAddress {
        user: "repl".to_owned(),
        password: PasswordSource::Text(String::new()),
        host: "127.0.0.1".to_owned(),
        port,
        socket: None,
        tls: TlsPolicy::with_mode(SslMode::Disabled),
        public_key: PublicKeySource::Unknown,
        compressions: vec![None],
        cleartext: CleartextPolicy::Refuse,
        timeout: ServerAddress::DEFAULT_TIMEOUT,
        cancel: CancelToken::default(),
    }
}

/// Queries a relay or a source on this machine with the mysql client. Returns the client's output, including errors.
///
/// # Errors
///
/// Fails if the client does not start.
pub fn ask(port: u16, sql: &str, more: &[&str]) -> Result<String> {
    let mut command = PackageHome::find(TestPackage::Mysql)?.command("mysql")?;
    command.args(["--no-defaults", "--host=127.0.0.1", "--user=root", "--batch", "-e", sql]).args(more);
    let output = command.arg(format!("--port={port}")).output()?;
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(printed.concat())
}

/// Adds an account without a password to a file of accounts, with these options of `bintide relay user add`.
///
/// # Errors
///
/// Fails if the command fails.
pub fn add_account(accounts: &Path, name: &str, options: &[&str]) -> Result<()> {
    let mut add = Command::new(bintide()?);
    add.env_clear().args(["relay", "user", "add", name, "--no-password", "--accounts"]).arg(accounts);
    let added = add.args(options).output()?;
    ensure!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    Ok(())
}

/// Returns the packets that a replica sends: the login as `repl` without a password, the queries of a replica, and the
/// command for a dump to the end of the logs.
///
/// # Errors
///
/// Fails if a command cannot be encoded.
pub fn replica_packets(server_id: u32) -> Result<Vec<Vec<u8>>> {
    let capabilities = Capabilities::PROTOCOL_41
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::CONNECT_ATTRS;
    let mut login = capabilities.0.to_le_bytes()[..4].to_vec();
    login.extend_from_slice(&(1_u32 << 24).to_le_bytes());
    login.push(33);
    login.extend_from_slice(&[0; 23]);
    // For a client of this version, the relay does not switch the authentication plugin.
    login.extend_from_slice(b"repl\0\0caching_sha2_password\0\x16\x0f_client_version\x059.7.4");
    let dump = BinlogDump { position: 4, flags: DumpFlags::NON_BLOCK, server_id, file: b"binlog.000001" };
    let commands = [
        ClientCommand::Query { sql: b"SET @source_binlog_checksum = 'CRC32', @rpl_semi_sync_replica = 1" },
        ClientCommand::BinlogDump(dump),
    ];
    let mut packets = vec![packet(1, &login)];
    for command in commands {
        let mut payload = Vec::new();
        command.encode(&mut payload)?;
        packets.push(packet(0, &payload));
    }
    Ok(packets)
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap_or_default().to_le_bytes();
    [&size[..3], &[sequence], payload].concat()
}

/// Returns the index of a server's logs.
///
/// # Errors
///
/// Fails if the server has no logs.
pub fn index_of(server: &TestServer) -> Result<PathBuf> {
    Ok(server.binlogs()?.first().context("the server has no logs")?.with_extension("index"))
}

/// Starts a MySQL source with GTIDs.
///
/// # Errors
///
/// Fails if the server does not start.
pub fn source(package: TestPackage) -> Result<TestServer> {
    source_launch(package).start()
}

/// Returns the launch of a MySQL source with GTIDs.
pub fn source_launch(package: TestPackage) -> Launch {
    Launch::of(package)
        .options(["--server-id=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin=binlog"])
        // All replicas support these collations.
        .options(["--character-set-server=latin1", "--collation-server=latin1_swedish_ci"])
}

/// Starts a replica whose replication is not started yet.
///
/// # Errors
///
/// Fails if the server does not start.
pub fn replica(package: TestPackage) -> Result<TestServer> {
    replica_launch(package, 2).start()
}

/// Returns the launch of a replica whose replication does not start by itself.
pub fn replica_launch(package: TestPackage, server_id: usize) -> Launch {
    let launch = Launch::of(package).option(format!("--server-id={server_id}")).option("--skip-slave-start");
    match package.flavour() {
        Some(ServerFlavour::MariaDb) => launch,
        _ => launch.options([
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            "--log-bin=binlog",
            "--log-slave-updates=ON",
        ]),
    }
}

/// Returns statements that the relay serves in several forms, and that all versions can apply.
pub fn work(from: u32, compression: &str) -> String {
    let first = format!("set names latin1; set session binlog_transaction_compression = {compression};");
    let rows: Vec<String> = (from..from + 20)
        .map(|id| format!("insert into d.t values ({id}, repeat('row {id} ', 200));"))
        .collect();
    format!(
        "{first} {} begin; update d.t set s = concat(s, '!') where id > {from}; delete from d.t where id = {from}; \
         commit; create table d.t{from} (id int primary key) engine=innodb; insert into d.t{from} values (1);",
        rows.concat()
    )
}

/// Statements that create the table that [`work`] changes.
pub const TABLE: &str = "set names latin1; create database d default character set latin1; \
                     create table d.t (id int primary key, s text) engine=innodb;";

/// Start position of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaStartPoint {
    /// Automatic, by GTID.
    Gtids,
    /// Start of the first log.
    FirstLog,
}

/// Makes a replica follow a relay or a source on this machine.
///
/// # Errors
///
/// Fails if the replica refuses a statement.
pub fn follow(replica: &TestServer, port: u16, start: ReplicaStartPoint) -> Result<()> {
    let is_new = replica.home().package() == TestPackage::Mysql;
    let mut options = vec![
        "HOST = '127.0.0.1'".to_owned(),
        format!("PORT = {port}"),
        "USER = 'repl'".to_owned(),
        "CONNECT_RETRY = 1".to_owned(),
        "HEARTBEAT_PERIOD = 1".to_owned(),
    ];
    match start {
        ReplicaStartPoint::Gtids => options.push("AUTO_POSITION = 1".to_owned()),
        ReplicaStartPoint::FirstLog => {
            options.extend(["LOG_FILE = 'binlog.000001'".to_owned(), "LOG_POS = 4".to_owned()]);
        }
    }
    let word = if is_new { "SOURCE" } else { "MASTER" };
    let options: Vec<String> = options.iter().map(|option| format!("{word}_{option}")).collect();
    let options = options.join(", ");
    replica.sql(&match is_new {
        true => format!("CHANGE REPLICATION SOURCE TO {options}; START REPLICA"),
        false => format!("CHANGE MASTER TO {options}; START SLAVE"),
    })?;
    Ok(())
}

/// Waits until the tables of a replica equal those of the source.
///
/// # Errors
///
/// Fails if the replica stops with an error, or the data are still different after the timeout.
pub fn wait_for_equal(source: &TestServer, replica: &TestServer) -> Result<()> {
    let tables = source.sql(
        "select concat(table_schema, '.', table_name) from information_schema.tables \
                             where table_schema = 'd' order by 1",
    )?;
    let statement = format!("checksum table {}", tables.lines().collect::<Vec<_>>().join(", "));
    let expected = source.sql(&statement)?;
    let mut found = String::new();
    let mut tries = 0;
    let equal = wait_until("the same data", || {
        tries += 1;
        found = replica.sql(&statement).unwrap_or_default();
        if found != expected
            && tries % 20 == 0
            && let Some(error) = error_of(replica)?
        {
            anyhow::bail!("{error}");
        }
        Ok(found == expected)
    });
    equal.with_context(|| format!("expected\n{expected}\nfound\n{found}\n{:?}", status(replica)))
}

/// Returns the replica's status in one line.
///
/// # Errors
///
/// Fails if the query fails.
pub fn status(replica: &TestServer) -> Result<String> {
    let word = if replica.home().package() == TestPackage::Mysql { "replica" } else { "slave" };
    replica.sql(&format!("show {word} status"))
}

/// Returns the status if the applier or the receiver has stopped with an error.
///
/// # Errors
///
/// Fails if the query fails.
pub fn error_of(replica: &TestServer) -> Result<Option<String>> {
    let status = status(replica)?;
    let fields: Vec<&str> = status.split('\t').collect();
    let is_stopped = fields.get(10) == Some(&"No") || fields.get(11) == Some(&"No");
    Ok(is_stopped.then_some(status))
}

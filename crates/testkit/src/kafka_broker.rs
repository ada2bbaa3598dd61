//! Brokers of Apache Kafka: fetched once with Maven, started on free ports of this machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cache;
use crate::fetch;
use crate::launch::free_port;
use crate::spawner;

/// Version of Kafka.
const VERSION: &str = "4.3.1";
/// Timeout for a broker's start and stop, long enough for a loaded machine.
const BROKER_TIMEOUT: Duration = Duration::from_secs(180);
/// Interval at which start and stop are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Goal of a Maven plugin that fetches artifacts with their dependencies.
const COPY_GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// Names and contents of the files that Kafka's tool writes into a broker's directory of data.
type PreparedFiles = Vec<(OsString, Vec<u8>)>;

/// A running broker, which is also a controller. Dropping it kills the broker and removes its data.
#[derive(Debug)]
pub struct KafkaBroker {
    libraries: PathBuf,
    directory: PathBuf,
    port: u16,
    /// Addresses of all brokers of the cluster, its own first.
    addresses: String,
    /// Ports of the listeners that need a login or TLS.
    secured_ports: Vec<u16>,
    /// Number of starts. Each start writes another log.
    starts: u32,
    child: Option<Child>,
}

/// Listeners of a broker that need a login or TLS, besides the one that needs neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct SecuredListeners<'l> {
    /// Protocols, such as `SASL_PLAINTEXT`; each is also the name of its listener.
    pub protocols: &'l [&'l str],
    /// Properties of the listeners, as `key=value`.
    pub properties: &'l [&'l str],
    /// Users of SCRAM, as Kafka's tool for storage takes them: `SCRAM-SHA-512=[name=…,password=…]`.
    pub scram_users: &'l [&'l str],
}

impl KafkaBroker {
    /// Fetches Kafka, unless it is fetched already.
    ///
    /// # Errors
    /// Fails if Maven cannot fetch it.
    pub fn fetch() -> Result<PathBuf> {
        cache::cached_dir(&format!("kafka-{VERSION}"), fetch_jars)
            .context("could not fetch Apache Kafka: install Maven and Java 17")
    }

    /// Starts a broker with these properties, as `key=value`, in addition to those of all brokers.
    ///
    /// # Errors
    /// Fails if the broker cannot be fetched or does not start. The error includes the end of its log.
    pub fn start(properties: &[&str]) -> Result<Self> {
        let mut brokers = Self::start_cluster(1, properties)?;
        brokers.pop().context("no broker")
    }

    /// Starts a broker that also has these listeners.
    ///
    /// # Errors
    /// Fails if the broker cannot be fetched or does not start. The error includes the end of its log.
    pub fn start_secured(secured: SecuredListeners<'_>) -> Result<Self> {
        let mut brokers = Self::start_all(1, secured.properties, secured)?;
        brokers.pop().context("no broker")
    }

    /// Starts the brokers of a cluster, with these properties. Each topic of Kafka itself is on all of them.
    ///
    /// # Errors
    /// Fails if a broker cannot be fetched or does not start. The error includes the end of its log.
    pub fn start_cluster(count: usize, properties: &[&str]) -> Result<Vec<Self>> {
        Self::start_all(count, properties, SecuredListeners::default())
    }

    fn start_all(count: usize, properties: &[&str], secured: SecuredListeners<'_>) -> Result<Vec<Self>> {
        let libraries = Self::fetch()?;
        let ports = (0..count).map(|_| Ok([free_port()?, free_port()?])).collect::<Result<Vec<_>>>()?;
        let mut brokers = Vec::new();
        for index in 0..count {
            let mut in_order = ports.clone();
            in_order.rotate_left(index);
            let addresses: Vec<String> =
                in_order.iter().map(|[port, _]| format!("127.0.0.1:{port}")).collect();
            let (libraries, directory, port) = (libraries.clone(), new_directory()?, ports[index][0]);
            let secured_ports = secured.protocols.iter().map(|_| free_port()).collect::<Result<Vec<_>>>()?;
            let addresses = addresses.join(",");
            let broker =
                Self { libraries, directory, port, addresses, secured_ports, starts: 0, child: None };
            let mut text = broker_properties(&broker.directory, index, &ports, properties);
            text.push_str(&listener_properties(ports[index], secured.protocols, &broker.secured_ports));
            fs::write(broker.directory.join("server.properties"), text)?;
            fs::write(broker.directory.join("log4j2.properties"), LOG_PROPERTIES)?;
            broker.format(index, secured.scram_users)?;
            brokers.push(broker);
        }
        // All brokers start before the first wait: a broker is up only once most of them run.
        brokers.iter_mut().try_for_each(Self::spawn)?;
        brokers.iter_mut().try_for_each(Self::wait_until_up)?;
        Ok(brokers)
    }

    /// Returns the addresses of all brokers of the cluster, this one first: HOST:PORT, separated by commas.
    pub fn address(&self) -> String {
        self.addresses.clone()
    }

    /// Returns the address of a listener that needs a login or TLS, as HOST:PORT, by its number.
    pub fn secured_address(&self, number: usize) -> String {
        format!("127.0.0.1:{}", self.secured_ports[number])
    }

    /// Returns the broker's process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Starts the broker again on its data after [`KafkaBroker::stop`] or [`KafkaBroker::kill`].
    ///
    /// # Errors
    /// Fails if the broker does not start.
    pub fn start_again(&mut self) -> Result<()> {
        self.spawn()?;
        self.wait_until_up()
    }

    fn spawn(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "the broker is already running");
        self.starts += 1;
        let mut java = self.java();
        java.arg("kafka.Kafka").arg(self.directory.join("server.properties"));
        self.child = Some(spawner::spawn_bound(&java).context("could not run java")?);
        Ok(())
    }

    fn wait_until_up(&mut self) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < BROKER_TIMEOUT {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                self.child = None;
                bail!("the broker ended during its start ({status}): {}", self.last_log_lines());
            }
            let is_listening = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok();
            if is_listening && self.log().matches(STARTED).count() > 0 {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        bail!("the broker does not start: {}", self.last_log_lines())
    }

    /// Shuts the broker down, and waits until it has ended.
    ///
    /// # Errors
    /// Fails if the broker does not end.
    pub fn stop(&mut self) -> Result<()> {
        let Some(child) = &self.child else { return Ok(()) };
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
        self.wait_until_down()
    }

    /// Kills the broker, and keeps its data.
    ///
    /// # Errors
    /// Fails if the broker cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        child.kill()?;
        self.wait_until_down()
    }

    fn wait_until_down(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let begin = Instant::now();
        while child.try_wait()?.is_none() {
            if begin.elapsed() > BROKER_TIMEOUT {
                child.kill()?;
                bail!("the broker does not stop: {}", self.last_log_lines());
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Stops the broker, and copies its data and its logs to this new directory.
    ///
    /// # Errors
    /// Fails if the broker does not end, or its files cannot be copied.
    pub fn keep(&mut self, directory: &Path) -> Result<()> {
        self.stop()?;
        fetch::run(Command::new("cp").arg("-r").arg(&self.directory).arg(directory))
    }

    /// Stops the broker, and cuts the markers at the ends of a stream's partitions that were written at this time or later, in
    /// milliseconds. Kafka 4.3.1 loses them itself if it crashes after it has decided to commit a transaction, and no broker
    /// leads the partitions at the first moment after its restart. Returns the number of markers.
    ///
    /// # Errors
    /// Fails if the broker does not end, or its files cannot be changed.
    pub fn lose_markers(&mut self, stream: &str, since_ms: i64) -> Result<usize> {
        self.stop()?;
        let data = self.directory.join("data");
        let mut count = 0;
        for entry in fs::read_dir(&data)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&format!("{stream}.")) && cut_marker(&path, since_ms)? {
                count += 1;
            }
        }
        // The broker then reads all logs, as after a crash.
        for name in
            [".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"]
        {
            fs::remove_file(data.join(name))?;
        }
        Ok(count)
    }

    /// Prepares the directory of its data. The prepared files depend only on the broker's number and the users, so
    /// Kafka's tool, which takes two seconds, runs once in a process for each of them.
    fn format(&self, index: usize, scram_users: &[&str]) -> Result<()> {
        static FORMATTED: Mutex<BTreeMap<(usize, String), PreparedFiles>> = Mutex::new(BTreeMap::new());
        let data = self.directory.join("data");
        let key = (index, scram_users.join(" "));
        let known = FORMATTED.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(files) = known {
            fs::create_dir(&data)?;
            return files.iter().try_for_each(|(name, content)| Ok(fs::write(data.join(name), content)?));
        }
        let mut java = self.java();
        java.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]);
        java.args(scram_users.iter().flat_map(|user| ["--add-scram", user]));
        fetch::run(java.arg("-c").arg(self.directory.join("server.properties")))?;
        let mut files = PreparedFiles::new();
        for entry in fs::read_dir(&data)? {
            let entry = entry?;
            files.push((entry.file_name(), fs::read(entry.path())?));
        }
        FORMATTED.lock().unwrap_or_else(PoisonError::into_inner).insert(key, files);
        Ok(())
    }

    fn java(&self) -> Command {
        let mut java = Command::new("java");
        // The process is short-lived: a fast start matters more than optimized code.
        java.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Xshare:auto"]);
        java.args(["-Djava.net.preferIPv4Stack=true", "-Dlog4j2.disable.jmx=true"]);
        java.arg(format!("-Dbintide.log={}", self.log_path().display()));
        let settings = self.directory.join("log4j2.properties");
        java.arg(format!("-Dlog4j2.configurationFile={}", settings.display()));
        java.arg("-cp").arg(format!("{}/*", self.libraries.display()));
        java
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join(format!("broker.{}.log", self.starts))
    }

    fn log(&self) -> String {
        fs::read(self.log_path()).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }

    fn last_log_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        // A drop cannot report errors, and the next start of a database server removes leftover files.
        let _ = self.kill();
        let _ = cache::remove_dir(&self.directory);
    }
}

/// Text that the broker logs once it has started.
const STARTED: &str = "Kafka Server started";

/// Identifier of every cluster: base64 of 16 bytes.
const CLUSTER_ID: &str = "YmludGlkZS10ZXN0LTEyMw";

const LOG_PROPERTIES: &str = "\
rootLogger.level=INFO
rootLogger.appenderRef.f.ref=F
appender.f.type=File
appender.f.name=F
appender.f.fileName=${sys:bintide.log}
appender.f.layout.type=PatternLayout
appender.f.layout.pattern=%d %p %c{1} %m%n
";

/// Creates the directory of a broker.
fn new_directory() -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = cache::running_dir().join(format!("{}-kafka-{count}", std::process::id()));
    cache::remove_dir(&directory)?;
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// Returns the properties of a broker, by the ports of all brokers and of their controllers.
fn broker_properties(directory: &Path, index: usize, ports: &[[u16; 2]], more: &[&str]) -> String {
    let directory = directory.display();
    let node = index + 1;
    let voters = ports.iter().zip(1..).map(|([_, port], node)| format!("{node}@127.0.0.1:{port}"));
    let voters = voters.collect::<Vec<String>>().join(",");
    let replicas = ports.len();
    // Transactions continue while one broker is down.
    let in_sync = replicas.saturating_sub(1).max(1);
    let mut text = format!(
        "process.roles=broker,controller
node.id={node}
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={directory}/data
auto.create.topics.enable=false
num.partitions=3
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=1
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
group.initial.rebalance.delay.ms=0
"
    );
    more.iter().for_each(|property| {
        text.push_str(property);
        text.push('\n');
    });
    text
}

/// Returns the properties of the listeners of a broker, whose own ports are those for clients and controllers.
fn listener_properties([port, controller]: [u16; 2], protocols: &[&str], secured_ports: &[u16]) -> String {
    let (mut clients, mut map) = (format!("PLAINTEXT://127.0.0.1:{port}"), String::new());
    for (protocol, port) in protocols.iter().zip(secured_ports) {
        clients.push_str(&format!(",{protocol}://127.0.0.1:{port}"));
        map.push_str(&format!(",{protocol}:{protocol}"));
    }
    format!(
        "listeners={clients},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={clients}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{map}
"
    )
}

fn fetch_jars(directory: &Path) -> Result<()> {
    let dependency = |artifact: &str| {
        let mut parts = artifact.split(':');
        let mut part = || parts.next().unwrap_or_default();
        let (group, name, version) = (part(), part(), part());
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        )
    };
    let artifacts = [
        format!("org.apache.kafka:kafka_2.13:{VERSION}"),
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.1".to_owned(),
        "org.apache.logging.log4j:log4j-core:2.25.1".to_owned(),
    ];
    let dependencies: String = artifacts.iter().map(|artifact| dependency(artifact)).collect();
    let project = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>bintide</groupId>\
         <artifactId>kafka</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    );
    let work = directory.join("work");
    fs::create_dir(&work)?;
    fs::write(work.join("pom.xml"), project)?;
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", COPY_GOAL, "-DincludeScope=runtime"]).current_dir(&work);
    fetch::run(maven.arg(format!("-DoutputDirectory={}", directory.display())))?;
    cache::remove_dir(&work)
}

/// Cuts the marker at the end of a partition, and removes the files that the broker derives from the log. Returns whether there
/// was one.
fn cut_marker(partition: &Path, since_ms: i64) -> Result<bool> {
    let log = partition.join("00000000000000000000.log");
    let bytes = fs::read(&log)?;
    let Some(start) = last_marker(&bytes, since_ms) else { return Ok(false) };
    fs::OpenOptions::new().write(true).open(&log)?.set_len(start as u64)?;
    for entry in fs::read_dir(partition)? {
        let path = entry?.path();
        let is_derived =
            |extension| ["index", "timeindex", "txnindex", "snapshot"].iter().any(|name| extension == *name);
        if path.extension().is_some_and(is_derived) {
            fs::remove_file(path)?;
        }
    }
    Ok(true)
}

/// Returns the offset in bytes of the last batch of a log, if it is a marker that was written at this time or later.
///
/// Layout of a batch (Kafka's documentation, "Record Batch"): base offset (8 bytes), length of the rest (4), leader epoch (4),
/// magic (1), CRC (4), attributes (2; bit 5 is set for a marker), last offset (4), first time (8).
fn last_marker(bytes: &[u8], since_ms: i64) -> Option<usize> {
    const MARKER: u16 = 1 << 5;
    let (mut start, mut last) = (0, None);
    while let Some(batch) = bytes.get(start..).filter(|batch| batch.len() >= 35) {
        let size = 12 + u32::from_be_bytes(batch[8..12].try_into().ok()?) as usize;
        let attributes = u16::from_be_bytes(batch[21..23].try_into().ok()?);
        let written_ms = i64::from_be_bytes(batch[27..35].try_into().ok()?);
        last = Some(start).filter(|_| attributes & MARKER != 0 && written_ms >= since_ms);
        start += size;
    }
    last
}

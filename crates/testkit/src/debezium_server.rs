//! Debezium Server, which writes a MySQL server's changes to Kafka.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{self, Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cache::{cached_dir, remove_dir, running_dir};
use crate::fetch::run;
use crate::java_runtime::ensure_java;
use crate::kafka_broker::KafkaBroker;
use crate::launch::free_port;
use crate::server::TestServer;
use crate::spawner::spawn_bound;

/// Version of Debezium Server.
const VERSION: &str = "3.6.0.Final";
/// Goal of a Maven plugin that fetches one artifact. Later versions of the plugin do not fetch it.
const COPY_GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy";
/// Options of its Java. Without the access to `java.lang`, a thread fails with Java 24 or later.
const JAVA_OPTIONS: [&str; 3] = ["-Xmx1g", "--add-opens", "java.base/java.lang=ALL-UNNAMED"];
/// Timeout for the end of Debezium Server.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the wait for the end polls.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Debezium Server, with its offsets and its history of definitions. Dropping this value kills the server and removes
/// these files.
#[derive(Debug)]
pub struct DebeziumServer {
    directory: PathBuf,
    child: Option<Child>,
}

impl DebeziumServer {
    /// Prepares Debezium Server for the account `debezium` with the password `debezium`, and fetches it if the cache
    /// lacks it. `name` is the topic prefix; `more` are further properties, as `key=value`.
    ///
    /// # Errors
    /// Fails if Debezium Server cannot be fetched.
    pub fn new(name: &str, source: &TestServer, broker: &KafkaBroker, more: &[&str]) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = running_dir().join(format!("{}-debezium-{count}", process::id()));
        remove_dir(&directory)?;
        fs::create_dir_all(directory.join("config"))?;
        let server = Self { directory, child: None };
        let mut text = format!(
            "debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers={}
debezium.sink.kafka.producer.key.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.sink.kafka.producer.value.serializer=org.apache.kafka.common.serialization.StringSerializer
debezium.format.key=json
debezium.format.key.schemas.enable=false
debezium.format.value=json
debezium.format.value.schemas.enable=false
debezium.source.connector.class=io.debezium.connector.mysql.MySqlConnector
debezium.source.database.hostname=127.0.0.1
debezium.source.database.port={}
debezium.source.database.user=debezium
debezium.source.database.password=debezium
debezium.source.database.server.id=9977
debezium.source.topic.prefix={name}
debezium.source.snapshot.mode=no_data
debezium.source.schema.history.internal=io.debezium.storage.file.history.FileSchemaHistory
debezium.source.schema.history.internal.file.filename={}
debezium.source.offset.storage.file.filename={}
debezium.source.offset.flush.interval.ms=1000
quarkus.http.host=127.0.0.1
quarkus.http.port={}
quarkus.log.console.json=false
",
            broker.address(),
            source.port(),
            server.directory.join("history.dat").display(),
            server.offsets().display(),
            free_port()?
        );
        more.iter().try_for_each(|property| writeln!(text, "{property}"))?;
        fs::write(server.directory.join("config/application.properties"), text)?;
        Ok(server)
    }

    /// Returns the file with the offsets.
    pub fn offsets(&self) -> PathBuf {
        self.directory.join("offsets.dat")
    }

    /// Starts the server with the offsets of an earlier run, if there are any.
    ///
    /// # Errors
    /// Fails if the server cannot be started.
    pub fn start(&mut self) -> Result<()> {
        let (java, home) = (ensure_java()?, ensure_home()?.join("debezium-server"));
        let mut command = Command::new("sh");
        let classes = format!(
            "{}:{}:{}/lib/*",
            runner(&home)?.display(),
            self.directory.join("config").display(),
            home.display()
        );
        command.arg("-c").arg(r#"log=$1; shift; exec "$@" >"$log" 2>&1"#).arg("sh").arg(self.log_path());
        command.arg(java).args(JAVA_OPTIONS).args(["-cp", &classes, "io.debezium.server.Main"]);
        command.current_dir(&self.directory);
        self.child = Some(spawn_bound(&command)?);
        Ok(())
    }

    /// Returns the process id, while the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns the end of the server's log.
    pub fn last_log_lines(&self) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Stops the server, which then saves its offsets.
    ///
    /// # Errors
    /// Fails if the server does not end.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
        let begin = Instant::now();
        while child.try_wait()?.is_none() {
            if begin.elapsed() > STOP_TIMEOUT {
                child.kill()?;
                child.wait()?;
                bail!("Debezium does not stop: {}", self.last_log_lines());
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("debezium.log")
    }
}

impl Drop for DebeziumServer {
    fn drop(&mut self) {
        // A drop cannot report errors, and the next start removes leftover files.
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = remove_dir(&self.directory);
    }
}

fn ensure_home() -> Result<PathBuf> {
    cached_dir(&format!("debezium-server-{VERSION}"), |part| {
        eprintln!("fetching Debezium Server {VERSION} with Maven: once");
        let artifact = format!("-Dartifact=io.debezium:debezium-server-dist:{VERSION}:tar.gz");
        let directory = format!("-DoutputDirectory={}", part.display());
        run(Command::new("mvn").args(["--quiet", "--batch-mode", COPY_GOAL, &artifact, &directory]))?;
        let packed = part.join(format!("debezium-server-dist-{VERSION}.tar.gz"));
        run(Command::new("tar").arg("xzf").arg(&packed).arg("-C").arg(part))?;
        fs::remove_file(packed)?;
        Ok(())
    })
}

/// Returns the library that starts the server.
fn runner(home: &std::path::Path) -> Result<PathBuf> {
    for entry in fs::read_dir(home)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-runner.jar")) {
            return Ok(path);
        }
    }
    None.context("Debezium Server has no runner")
}

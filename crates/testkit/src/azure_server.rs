//! A server of Azure Blob Storage for tests: Azurite, Microsoft's emulator.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::{cached_dir, remove_dir, running_dir};
use crate::fetch::run;
use crate::http::HttpRequest;
use crate::launch::free_port;
use crate::polling::wait_until;
use crate::spawner::spawn_bound;

/// Version of npm's package `azurite`. Later versions need Node 22.
const VERSION: &str = "3.35.0";

/// Path of the program in the package.
const PROGRAM: &str = "node_modules/azurite/dist/src/blob/main.js";

/// Script that creates a container, which Azurite permits only in a signed request.
const CREATE_CONTAINER: &str = include_str!("create_container.js");

/// A running emulator of Azure Blob Storage with one container. It ends when this value is dropped.
#[derive(Debug)]
pub struct AzureServer {
    child: Child,
    port: u16,
    /// Data of the server, removed with it.
    directory: PathBuf,
}

impl AzureServer {
    /// Name of the container.
    pub const CONTAINER: &'static str = "archives";

    /// Starts a server, and downloads it first if the cache lacks it.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be downloaded, or does not start.
    pub fn start() -> Result<Self> {
        let (program, port) = (ensure_program()?, free_port()?);
        let directory = running_dir().join(format!("{}-azure-{port}", process::id()));
        fs::create_dir_all(&directory)?;
        let child = spawn_bound(&command(&program, &directory, port))
            .context("could not run node: install Node.js 20 or later")?;
        let mut server = Self { child, port, directory };
        wait_until("the start of Azurite", || {
            if let Some(status) = server.child.try_wait()? {
                bail!("Azurite has ended: {status}");
            }
            // Any answer shows that it runs.
            Ok(HttpRequest::get("/").send((Ipv4Addr::LOCALHOST, port)).is_ok())
        })?;
        let mut create = Command::new("node");
        create.args(["-e", CREATE_CONTAINER, &server.endpoint(), Self::CONTAINER]);
        let created = create.output().context("could not run node")?;
        ensure!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        Ok(server)
    }

    /// Returns the URL of a prefix in the container.
    pub fn url(&self, prefix: &str) -> String {
        format!("az://{}/{prefix}", Self::CONTAINER)
    }

    /// Returns the environment variables with which a client finds the server. The account and its key are the same in
    /// all installations of Azurite, and clients know them.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![("AZURE_STORAGE_USE_EMULATOR", "true".to_owned()), ("AZURITE_BLOB_STORAGE_URL", self.endpoint())]
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for AzureServer {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The next start of a server removes leftover files.
        let _ = remove_dir(&self.directory);
    }
}

fn ensure_program() -> Result<PathBuf> {
    let directory = cached_dir(&format!("azurite-{VERSION}"), |part| {
        eprintln!("fetching azurite {VERSION} with npm: once");
        let mut install = Command::new("npm");
        install.args(["install", "--silent", "--no-audit", "--no-fund", "--omit=dev", "--ignore-scripts"]);
        // Without a file of its own, npm installs into a directory above.
        fs::write(part.join("package.json"), "{}")?;
        run(install.arg(format!("azurite@{VERSION}")).current_dir(part))
    })?;
    Ok(directory.join(PROGRAM))
}

fn command(program: &Path, directory: &Path, port: u16) -> Command {
    let mut command = Command::new("node");
    command.arg(program).args(["--silent", "--disableTelemetry", "--blobHost", "127.0.0.1"]);
    command.arg(format!("--blobPort={port}")).arg("--location").arg(directory).current_dir(directory);
    command
}

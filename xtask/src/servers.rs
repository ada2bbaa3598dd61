//! Fetches real servers, and runs them manually.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::{fs, io};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use testkit::{Launch, PackageHome, ServerClient, TestPackage};

#[derive(Subcommand)]
pub(crate) enum ServersCommand {
    /// Fetch missing servers into the user's cache
    Fetch {
        /// Names such as mysql-5.7.22, or "all" [default: those that the tests need]
        names: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum ServerCommand {
    /// Start a server that runs until it is stopped
    Start {
        #[command(flatten)]
        selection: ServerSelection,
        /// Name of the server, as for `cargo xtask servers fetch`
        #[arg(long, default_value = "mysql", value_parser = server_named)]
        server: TestPackage,
        /// TCP port [default: a free one]
        #[arg(long)]
        port: Option<u16>,
        /// Server options, after `--`
        #[arg(last = true)]
        options: Vec<String>,
    },
    /// Open the command line client on the server, or run it with the given arguments
    Sql {
        #[command(flatten)]
        selection: ServerSelection,
        /// Arguments of the client, after `--`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Stop the server, and remove its data
    Stop {
        #[command(flatten)]
        selection: ServerSelection,
    },
}

#[derive(Args)]
pub(crate) struct ServerSelection {
    /// Name that you choose, to run several servers at once
    #[arg(long, default_value = "default")]
    name: String,
}

/// Parses the name of one server.
fn server_named(name: &str) -> Result<TestPackage> {
    let servers = TestPackage::parse_list(name)?;
    servers.first().copied().filter(|_| servers.len() == 1).context("expected one server")
}

/// Fetches the missing packages, and prints the paths of all.
pub(crate) fn fetch_servers(command: ServersCommand) -> Result<()> {
    let ServersCommand::Fetch { names } = command;
    let named = |name: &String| {
        TestPackage::from_name(name).map_or_else(|| TestPackage::parse_list(name), |one| Ok(vec![one]))
    };
    let packages = match &names[..] {
        [] => needed_packages(&TestPackage::from_env()?),
        names => names.iter().map(named).collect::<Result<Vec<_>>>()?.concat(),
    };
    for package in packages {
        let home = PackageHome::find(package)?;
        println!("{:14} {}  {}", package.name(), home.version()?, home.prefix().display());
    }
    Ok(())
}

/// Returns the packages that all tests need, if the tests of many servers run on these servers.
pub(crate) fn needed_packages(chosen: &[TestPackage]) -> Vec<TestPackage> {
    let mut packages = [&TestPackage::USUAL, chosen, &TestPackage::REPRESENTATIVE].concat();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Starts, uses or stops a server manually.
pub(crate) fn run_server_command(command: ServerCommand) -> Result<()> {
    match command {
        ServerCommand::Start { selection, server, port, options } => start(&selection, server, port, options),
        ServerCommand::Sql { selection, arguments } => sql(&selection, &arguments),
        ServerCommand::Stop { selection } => testkit::stop_lasting(&selection.directory()),
    }
}

fn start(
    selection: &ServerSelection,
    package: TestPackage,
    port: Option<u16>,
    options: Vec<String>,
) -> Result<()> {
    let directory = selection.directory();
    let launch = Launch::of(package).options(options).lasting(&directory);
    let server = port.into_iter().fold(launch, Launch::port).start()?;
    fs::write(directory.join("client"), format!("{}\n{}\n", package.name(), server.socket().display()))?;
    println!(
        "port {}  socket {}  data {}",
        server.port(),
        server.socket().display(),
        server.datadir().display()
    );
    Ok(())
}

fn sql(selection: &ServerSelection, arguments: &[String]) -> Result<()> {
    let text = fs::read_to_string(selection.directory().join("client")).with_context(|| {
        format!("server {} is not running; start it with: cargo xtask server start", selection.name)
    })?;
    let (name, socket) =
        text.trim().split_once('\n').context("the file with the server's socket is damaged")?;
    let home = PackageHome::find(
        TestPackage::from_name(name).context("the file with the server's socket is damaged")?,
    )?;
    let client = ServerClient::new(home, PathBuf::from(socket));
    let error: io::Error = client.command()?.args(arguments).exec();
    Err(error).context("could not run the client")
}

impl ServerSelection {
    fn directory(&self) -> PathBuf {
        testkit::target_dir().join("servers/by-hand").join(&self.name)
    }
}

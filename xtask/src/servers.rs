//! Fetches real servers, and runs them manually.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::{fs, io};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use testkit::{Client, Home, Launch, Package};

#[derive(Subcommand)]
pub(crate) enum Fetching {
    /// Fetch missing servers into the user's cache
    Fetch {
        /// Names such as mysql-5.7.22, or "all" [default: those that the tests need]
        names: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum ByHand {
    /// Start a server that runs until it is stopped
    Start {
        #[command(flatten)]
        which: Which,
        /// Name of the server, as for `cargo xtask servers fetch`
        #[arg(long, default_value = "mysql", value_parser = server_named)]
        server: Package,
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
        which: Which,
        /// Arguments of the client, after `--`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Stop the server, and remove its data
    Stop {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Args)]
pub(crate) struct Which {
    /// Name that you choose, to run several servers at once
    #[arg(long, default_value = "default")]
    name: String,
}

/// Parses the name of one server.
fn server_named(name: &str) -> Result<Package> {
    let servers = Package::listed(name)?;
    servers.first().copied().filter(|_| servers.len() == 1).context("expected one server")
}

/// Fetches the missing packages, and prints the paths of all.
pub(crate) fn fetch(command: Fetching) -> Result<()> {
    let Fetching::Fetch { names } = command;
    let named =
        |name: &String| Package::named(name).map_or_else(|| Package::listed(name), |one| Ok(vec![one]));
    let packages = match &names[..] {
        [] => needed(&Package::chosen()?),
        names => names.iter().map(named).collect::<Result<Vec<_>>>()?.concat(),
    };
    for package in packages {
        let home = Home::find(package)?;
        println!("{:14} {}  {}", package.name(), home.version()?, home.prefix().display());
    }
    Ok(())
}

/// Returns the packages that all tests need, if the tests of many servers run on these servers.
pub(crate) fn needed(chosen: &[Package]) -> Vec<Package> {
    let mut packages = [&Package::USUAL, chosen, &Package::TELLING].concat();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Starts, uses or stops a server manually.
pub(crate) fn by_hand(command: ByHand) -> Result<()> {
    match command {
        ByHand::Start { which, server, port, options } => start(&which, server, port, options),
        ByHand::Sql { which, arguments } => sql(&which, &arguments),
        ByHand::Stop { which } => testkit::server::stop_lasting(&which.folder()),
    }
}

fn start(which: &Which, package: Package, port: Option<u16>, options: Vec<String>) -> Result<()> {
    let folder = which.folder();
    let launch = Launch::of(package).options(options).lasting(&folder);
    let server = port.into_iter().fold(launch, Launch::port).start()?;
    fs::write(folder.join("client"), format!("{}\n{}\n", package.name(), server.socket().display()))?;
    println!(
        "port {}  socket {}  data {}",
        server.port(),
        server.socket().display(),
        server.datadir().display()
    );
    Ok(())
}

fn sql(which: &Which, arguments: &[String]) -> Result<()> {
    let text = fs::read_to_string(which.folder().join("client")).with_context(|| {
        format!("server {} is not running; start it with: cargo xtask server start", which.name)
    })?;
    let (name, socket) = text.trim().split_once('\n').context("the notes about the server are damaged")?;
    let home = Home::find(Package::named(name).context("the notes about the server are damaged")?)?;
    let client = Client::new(home, PathBuf::from(socket));
    let error: io::Error = client.command()?.args(arguments).exec();
    Err(error).context("could not run the client")
}

impl Which {
    fn folder(&self) -> PathBuf {
        testkit::target_dir().join("servers/by-hand").join(&self.name)
    }
}

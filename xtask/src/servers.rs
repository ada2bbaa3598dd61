//! Real servers: fetching them, and one to play with by hand.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::{fs, io};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use testkit::{Client, Home, Launch, Package};

#[derive(Subcommand)]
pub(crate) enum Fetching {
    /// Fetch servers into the user's cache, unless they are there
    Fetch {
        /// Names such as mysql-5.7.22, or "all"; without any, those that the tests need
        names: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum ByHand {
    /// Start a server that stays until it is stopped
    Start {
        #[command(flatten)]
        which: Which,
        /// The server, by a name that `cargo xtask servers fetch` knows
        #[arg(long, default_value = "mysql", value_parser = server_named)]
        server: Package,
        /// The TCP port; one that is free is taken otherwise
        #[arg(long)]
        port: Option<u16>,
        /// Server options, after `--`
        #[arg(last = true)]
        options: Vec<String>,
    },
    /// Open the command line client on it, or run it with the given arguments
    Sql {
        #[command(flatten)]
        which: Which,
        /// Arguments of the client, after `--`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Stop it, and remove its data
    Stop {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Args)]
pub(crate) struct Which {
    /// A name of your choice, for several at once
    #[arg(long, default_value = "default")]
    name: String,
}

/// A server by its name.
fn server_named(name: &str) -> Result<Package> {
    let servers = Package::listed(name)?;
    servers.first().copied().filter(|_| servers.len() == 1).context("expected one server")
}

/// Fetches what is not there yet, and says where all of it is.
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

/// The packages that all tests together need when these servers are chosen for the tests of many servers.
pub(crate) fn needed(chosen: &[Package]) -> Vec<Package> {
    let mut packages = [&Package::USUAL, chosen, &Package::TELLING].concat();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Starts, uses or stops a server by hand.
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
    let text = fs::read_to_string(which.folder().join("client"))
        .with_context(|| format!("no server {} runs; start it with: cargo xtask server start", which.name))?;
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

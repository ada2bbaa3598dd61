//! Real servers: fetching them, and one to play with by hand.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::{fs, io};

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use testkit::{Client, Flavour, Home, Launch, Package};

#[derive(Subcommand)]
pub(crate) enum Fetching {
    /// Fetch MySQL, MariaDB and sysbench into the target directory, unless they are there
    Fetch,
}

#[derive(Subcommand)]
pub(crate) enum ByHand {
    /// Start a server that stays until it is stopped
    Start {
        #[command(flatten)]
        which: Which,
        /// Whose server
        #[arg(long, value_enum, default_value = "mysql")]
        flavour: Named,
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

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Named {
    Mysql,
    Mariadb,
}

/// Fetches what is not there yet, and says where all of it is.
pub(crate) fn fetch(command: Fetching) -> Result<()> {
    let Fetching::Fetch = command;
    for package in Package::ALL {
        let home = Home::find(package)?;
        println!("{:9} {}  {}", package.name(), home.version()?, home.prefix().display());
    }
    Ok(())
}

/// Starts, uses or stops a server by hand.
pub(crate) fn by_hand(command: ByHand) -> Result<()> {
    match command {
        ByHand::Start { which, flavour, port, options } => start(&which, flavour, port, options),
        ByHand::Sql { which, arguments } => sql(&which, &arguments),
        ByHand::Stop { which } => testkit::server::stop_lasting(&which.folder()),
    }
}

fn start(which: &Which, flavour: Named, port: Option<u16>, options: Vec<String>) -> Result<()> {
    let (flavour, package) = match flavour {
        Named::Mysql => (Flavour::Mysql, Package::Mysql),
        Named::Mariadb => (Flavour::MariaDb, Package::MariaDb),
    };
    let folder = which.folder();
    let launch = Launch::new(flavour).options(options).lasting(&folder);
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
    let package = Package::ALL.into_iter().find(|package| package.name() == name);
    let home = Home::find(package.context("the notes about the server are damaged")?)?;
    let client = Client::new(home, PathBuf::from(socket));
    let error: io::Error = client.command()?.args(arguments).exec();
    Err(error).context("could not run the client")
}

impl Which {
    fn folder(&self) -> PathBuf {
        testkit::target_dir().join("servers/by-hand").join(&self.name)
    }
}

//! The workspace's chores, in Rust: `cargo xtask help`.
#![forbid(unsafe_code)]

mod bench;
mod chaos;
mod checks;
mod demo;
mod fuzz;
mod judge;
mod samples;
mod servers;
mod soak;
mod tidy;
mod workloads;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the bintide workspace")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Fetch the real servers that tests and benches use
    Servers {
        #[command(subcommand)]
        command: servers::Fetching,
    },
    /// Start, use and stop a real server by hand
    Server {
        #[command(subcommand)]
        command: servers::ByHand,
    },
    /// Throw bytes at whatever reads bytes, guided by coverage (needs cargo-fuzz)
    Fuzz(fuzz::Fuzzing),
    /// Record the sample logs from real servers again
    Samples {
        /// Only these, by the name of their SQL file without `.sql`; all if none is named
        names: Vec<String>,
        /// Record no logs, but run the scripts again to count the rows that their sources end with
        #[arg(long)]
        rows: bool,
    },
    /// Build bintide and show what it does, on the sample logs
    Demo,
    /// Run every test of the workspace, the ones against real servers included
    Test {
        /// Arguments of the tests, such as a part of a test's name
        filters: Vec<String>,
        /// The servers that the tests of many servers run: "all", or names such as mysql-5.7.22,mariadb-11.8; six
        /// telling ones otherwise
        #[arg(long)]
        servers: Option<String>,
    },
    /// Stop replays at random points, again and again, and compare what their targets end with
    Chaos(chaos::Chaos),
    /// Have a target follow a working source for an hour, or as long as asked for, while everything is stopped at random
    Soak(soak::Soak),
    /// Hold the records of `bintide stream` to those of Debezium and of Maxwell, fetched with Maven and run on the same
    /// server
    Judge,
    /// Check what neither the compiler nor clippy checks
    Tidy,
    /// Check that the format crate's features can be left out, one by one
    Features,
    /// Make the logs that the benches read, by running five workloads on a real server
    Workloads,
    /// Compare with other programs, side by side
    Bench(bench::Benching),
    #[command(hide = true)]
    Measure(bench::Measuring),
}

fn main() -> Result<()> {
    match Arguments::parse().chore {
        Chore::Servers { command } => servers::fetch(command),
        Chore::Server { command } => servers::by_hand(command),
        Chore::Fuzz(fuzzing) => fuzz::fuzz(&fuzzing),
        Chore::Samples { names, rows: true } => samples::count_rows(&names),
        Chore::Samples { names, rows: false } => samples::record(&names),
        Chore::Demo => demo::demo(),
        Chore::Test { filters, servers } => checks::test(&filters, servers.as_deref()),
        Chore::Chaos(chaos) => chaos::chaos(&chaos),
        Chore::Soak(soak) => soak::soak(&soak),
        Chore::Judge => judge::judge(),
        Chore::Tidy => tidy::check(),
        Chore::Features => checks::features(),
        Chore::Workloads => workloads::make_all(),
        Chore::Bench(benching) => bench::bench(&benching),
        Chore::Measure(measuring) => bench::measure_once(&measuring),
    }
}

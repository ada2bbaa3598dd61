//! Developer tasks of the workspace: `cargo xtask help`.
#![forbid(unsafe_code)]

mod book;
mod cargo_tool;
mod chaos;
mod checks;
mod demo;
mod dist;
mod fuzz;
mod judge;
mod python;
mod samples;
mod screenshot;
mod servers;
mod soak;
mod tidy;
mod words;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::demo::DemoBuild;
use crate::judge::JudgePart;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer tasks of the bintide workspace")]
struct XtaskArgs {
    #[command(subcommand)]
    task: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Fetch the real servers that tests and benches use
    Servers {
        #[command(subcommand)]
        command: servers::ServersCommand,
    },
    /// Start, use and stop a real server manually
    Server {
        #[command(subcommand)]
        command: servers::ServerCommand,
    },
    /// Fuzz the decoders, guided by coverage (needs cargo-fuzz)
    Fuzz(fuzz::FuzzOptions),
    /// Record the sample logs again, with real servers
    Samples {
        /// Samples to record, by the name of their SQL file without `.sql` [default: all]
        names: Vec<String>,
        /// Only run the scripts, and count the rows that their servers end with
        #[arg(long)]
        rows: bool,
    },
    /// Build bintide, and demonstrate its commands on the sample logs
    Demo {
        /// Take the build of `cargo xtask test` instead of another one
        #[arg(long)]
        tested: bool,
    },
    /// Run all tests of the workspace, including those against real servers
    Test {
        /// Arguments of the test programs, such as part of a test's name
        filters: Vec<String>,
        /// Servers for the tests that run on many servers: "all", or names such as mysql-5.7.22,mariadb-11.8 [default:
        /// six representative ones]
        #[arg(long)]
        servers: Option<String>,
    },
    /// Stop replays repeatedly at random points, and compare the resulting target data
    Chaos(chaos::ChaosOptions),
    /// Replicate from a busy source while processes are stopped at random
    Soak(soak::SoakOptions),
    /// Compare the records of `bintide stream` with those of Debezium and Maxwell, fetched with Maven and run on the
    /// same server
    Judge {
        /// Run only this part
        part: Option<JudgePart>,
    },
    /// Check the project's rules that neither the compiler nor clippy checks
    Tidy,
    /// Write the reviewed snapshot of all text that a user can see, e2e/words/, and the output shown in docs/
    Words {
        /// Also take examples of messages from this recording of the tests (BINTIDE_RECORD=DIRECTORY)
        #[arg(long, value_name = "DIRECTORY")]
        recorded: Option<PathBuf>,
    },
    /// Take pictures of the pages of stats, advise and relay with Debian's Chromium: target/screenshots, and
    /// docs/reference/relay/page.png
    Screenshots,
    /// Build the documentation as a book, target/book
    Book,
    /// Build the Python package in target/dist, and test it
    Python(python::PythonOptions),
    /// Check that each feature of the format crate can be disabled
    Features,
    /// Check that bintide compiles with the oldest supported version of Rust (needs rustup)
    OldestRust,
    /// Pack each published crate, and build it from its package
    Package,
    /// Make packages for x86_64 and aarch64 in target/dist: archives, .deb, .rpm and OCI images with a static binary
    Dist(dist::DistOptions),
    /// Create the logs that the benches read, by running five workloads on a real server
    Workloads,
    /// Benchmark bintide against other programs
    #[command(disable_help_flag = true)]
    Bench {
        /// Name and options of the bench; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> Result<()> {
    match XtaskArgs::parse().task {
        XtaskCommand::Servers { command } => servers::fetch_servers(command),
        XtaskCommand::Server { command } => servers::run_server_command(command),
        XtaskCommand::Fuzz(fuzzing) => fuzz::fuzz(&fuzzing),
        XtaskCommand::Samples { names, rows: true } => samples::count_rows(&names),
        XtaskCommand::Samples { names, rows: false } => samples::record_samples(&names),
        XtaskCommand::Demo { tested: true } => demo::run_demo(DemoBuild::Tests),
        XtaskCommand::Demo { tested: false } => demo::run_demo(DemoBuild::Demo),
        XtaskCommand::Test { filters, servers } => checks::run_tests(&filters, servers.as_deref()),
        XtaskCommand::Chaos(chaos) => chaos::run_chaos(&chaos),
        XtaskCommand::Soak(soak) => soak::run_soak(&soak),
        XtaskCommand::Judge { part } => judge::run_judges(part),
        XtaskCommand::Screenshots => screenshot::take_screenshots(),
        XtaskCommand::Tidy => tidy::check(),
        XtaskCommand::Words { recorded } => words::write(recorded.as_deref()),
        XtaskCommand::Book => book::build_book(),
        XtaskCommand::Python(options) => python::check_python(&options),
        XtaskCommand::Features => checks::check_features(),
        XtaskCommand::OldestRust => checks::check_oldest_rust(),
        XtaskCommand::Package => checks::check_packages(),
        XtaskCommand::Dist(options) => dist::make_packages(&options),
        XtaskCommand::Workloads => checks::run_bench(&["workloads".to_owned()]),
        XtaskCommand::Bench { arguments } => checks::run_bench(&arguments),
    }
}

//! Real servers for tests and benches: fetched once into the user's cache, started in about a second, and removed at
//! the end of the test.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let server = testkit::Launch::mysql().option("--binlog-transaction-compression=ON").start()?;
//! server.sql("create database shop; create table shop.t (id int primary key); insert into shop.t values (1)")?;
//! for log in server.binlogs()? {
//!     println!("{}", log.display());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`cargo_command()`], [`run_cargo()`] | cargo, started by a program that cargo runs |
//! | [`take_screenshot`], [`dump_page`] | pictures and content of a page, by a headless Chromium |
//! | `unresponsive_port` | a host that drops packets: [`UnresponsivePort`] |
//! | `faulty_disk` | a disk that fails: [`FaultyDisk`] |
//! | `object_server` | an object store with the protocol of S3: [`ObjectServer`] |
//! | `output_recorder` | the output of `bintide` in tests: [`OutputRecorder`] |
//! | `package_home` | the programs of a server: [`PackageHome`] |
//! | [`AzureServer`] | a server of Azure Blob Storage |
//! | [`DebeziumServer`] | Debezium Server |
//! | [`KafkaBroker`] | a broker of Apache Kafka, or a cluster |
//! | `kafka_topics` | its topics, with the feature `kafka` |
//! | `launch` | a server to start: [`Launch`] |
//! | `lone_query` | scripts of one query, with the feature `queries` |
//! | [`RegistryServer`] | a schema registry |
//! | [`ProcessMemory`] | the memory of a running process |
//! | [`PythonEnvironment`] | a Python with packages, such as DuckDB |
//! | [`TestPackage`] | all available servers, from MySQL 5.5.9 to MariaDB 11.8 |
//! | `proxy` | a network in front of a server that can be cut, silenced and slowed: [`Proxy`] |
//! | `tamper` | a proxy that changes a server's packets: [`TamperProxy`] |
//! | `server`, `replication` | a running server: [`TestServer`], [`ServerClient`] |
//! | [`wait_until`], [`wait_until_within`] | waits for a condition |
//!
//! This crate never installs anything on the machine, and never touches a server that it did not start. Its servers end
//! with the process that started them, except with [`Launch::lasting`]. The `bintide` command does not use it: it
//! serves tests, benches and chores only.
#![forbid(unsafe_code)]

mod apt;
mod azure_server;
mod cache;
mod calendar;
mod cargo;
mod chromium;
mod debezium_server;
mod faulty_disk;
mod fetch;
mod http;
mod java_runtime;
mod kafka_broker;
#[cfg(feature = "kafka")]
mod kafka_topics;
mod launch;
#[cfg(feature = "queries")]
mod lone_query;
mod object_server;
mod output_recorder;
mod package;
mod package_home;
mod polling;
mod preloaded_library;
mod process_memory;
mod proxy;
mod python_environment;
mod registry_server;
mod replication;
mod seeded_random;
mod server;
mod spawner;
mod tamper;
mod template;
mod unresponsive_port;

pub use crate::apt::mirror as debian_mirror;
pub use crate::azure_server::AzureServer;
pub use crate::cache::{cache_dir, remove_dir, target_dir};
pub use crate::calendar::civil_date;
pub use crate::cargo::{cargo_command, run_cargo, run_cargo_with, without_package_variables, workspace_root};
pub use crate::chromium::{ColorScheme, Screenshot, dump_page, take_screenshot};
pub use crate::debezium_server::DebeziumServer;
pub use crate::faulty_disk::{DiskCall, DiskFault, FaultyDisk};
pub use crate::http::{HttpAnswer, HttpRequest, HttpVersion};
pub use crate::kafka_broker::{KafkaBroker, SecuredListeners};
#[cfg(feature = "kafka")]
pub use crate::kafka_topics::KafkaTopics;
pub use crate::launch::{Launch, ServerFlavour, free_port};
pub use crate::object_server::ObjectServer;
pub use crate::output_recorder::{OutputRecorder, OutputRecording};
pub use crate::package::{SERVERS_VARIABLE, TestPackage};
pub use crate::package_home::PackageHome;
pub use crate::polling::{wait_until, wait_until_within};
pub use crate::process_memory::ProcessMemory;
pub use crate::proxy::{CutMode, Proxy, TrafficRecording};
pub use crate::python_environment::PythonEnvironment;
pub use crate::registry_server::RegistryServer;
pub use crate::seeded_random::{SeededRandom, seed_from_env};
pub use crate::server::{ServerClient, TestServer, stop_lasting};
pub use crate::tamper::{AfterPacket, ServerPacket, TamperProxy};
pub use crate::unresponsive_port::UnresponsivePort;

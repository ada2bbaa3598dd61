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
//! | [`cargo()`] | cargo, started by a program that cargo runs |
//! | [`deaf`] | a host that drops packets: [`Deaf`] |
//! | [`faulty_disk`] | a disk that fails: [`FaultyDisk`] |
//! | [`home`] | the programs of a server: [`Home`] |
//! | [`launch`] | a server to start: [`Launch`] |
//! | [`Package`] | all available servers, from MySQL 5.5.9 to MariaDB 11.8 |
//! | [`proxy`] | a network in front of a server that can be cut, silenced and slowed: [`Proxy`] |
//! | [`tamper`] | a proxy that changes a server's packets: [`TamperProxy`] |
//! | [`server`] | a running server: [`Server`], [`Client`] |
//!
//! This crate never installs anything on the machine, and never touches a server that it did not start. Its servers end
//! with the process that started them, except with [`Launch::lasting`]. The `bintide` command does not use it: it
//! serves tests, benches and chores only.
#![forbid(unsafe_code)]

mod apt;
mod cache;
mod calendar;
mod cargo;
pub mod deaf;
mod dice;
pub mod faulty_disk;
mod fetch;
pub mod home;
pub mod launch;
mod package;
pub mod proxy;
pub mod server;
mod spawner;
pub mod tamper;
mod template;

pub use crate::cache::{cache_dir, target_dir};
pub use crate::calendar::civil_date;
pub use crate::cargo::cargo;
pub use crate::deaf::Deaf;
pub use crate::dice::{Dice, seed};
pub use crate::faulty_disk::{DiskCall, DiskFault, FaultyDisk};
pub use crate::home::Home;
pub use crate::launch::{Flavour, Launch, free_port};
pub use crate::package::{Package, SERVERS_VARIABLE};
pub use crate::proxy::{Cut, Proxy, Recording};
pub use crate::server::{Client, Server};
pub use crate::tamper::{Behind, ServerPacket, TamperProxy};

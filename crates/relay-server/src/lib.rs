//! Listens for replicas and clients, and serves them a directory of binary logs.
//!
//! ```text
//! RelayServer: accepts ─▶ a thread for each client: login ─▶ ServedSession: commands ─▶ SQL answers
//!      └─ StoreGrowth: wakes the clients that wait                      └─▶ dump: DumpStream ─▶ ClientLink ─▶ socket
//! ```
//!
//! | task | item |
//! |---|---|
//! | start and stop a relay | [`RelayServer`], [`RelayServerOptions`] |
//! | give a relay a certificate | [`TlsFiles`] |
//! | read the counters of a relay | [`RelayCounters`] |
//! | wait for acknowledgements of replicas | [`AckGate`] |
//!
//! Each client has its own thread, with a small stack, so that a slow client delays no other. An idle client has no
//! buffers.
//!
//! This crate never writes to the logs or their directory, except into the given state directory. It prints nothing:
//! the caller gets notices.
#![forbid(unsafe_code)]

mod ack_gate;
mod ack_tracker;
mod client_dump;
mod client_link;
mod client_login;
mod client_registry;
mod client_session;
mod definition_source;
mod error;
mod form_registry;
mod login_throttle;
mod prepared_text;
mod relay_counters;
mod relay_identity;
mod relay_server;
mod relay_shared;
mod store_extent;
mod store_growth;
mod store_gtid_state;
mod tls_files;

pub use crate::ack_gate::{AckGate, AckOutcome};
pub use crate::error::RelayServerError;
pub use crate::relay_counters::RelayCounters;
pub use crate::relay_server::{RelayNotice, RelayServer, RelayServerOptions};
pub use crate::tls_files::TlsFiles;

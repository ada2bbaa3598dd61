//! Connections to MySQL and MariaDB servers: addresses, TLS, SQL, server facts, and live binary logs.
//!
//! | task | item |
//! |---|---|
//! | name a server and an account | [`Address`]: `mysql://user@host:port/`, `mysql://user@localhost/?socket=PATH` |
//! | merge command line, address, settings and option files into an address | [`OptionSources`] |
//! | run SQL on a server | [`Connection`] |
//! | set the encryption of a connection | [`TlsPolicy`]: MySQL's `ssl-mode`, CA certificates, a client certificate |
//! | read a server's version and settings | [`Facts`] |
//! | send and receive protocol packets | [`Link`] |
//! | receive a server's binary log | [`LiveSource`] |
//! | quote names and bytes in SQL | [`quote`] |
//!
//! Only this crate parses connection options.
//!
//! This crate never changes a server by itself: its callers supply every statement that does. It never keeps a password
//! longer than a connection needs it, and never shows one in an error or a log.
#![forbid(unsafe_code)]

mod address;
mod address_text;
mod connection;
mod connection_options;
mod error;
mod facts;
mod link;
mod live;
mod option_files;
mod password;
pub mod quote;
mod reach;
mod resolution;
mod silence;
mod socket;
mod statement_cache;
mod tls;
mod tls_error;
mod tls_policy;
mod tls_request;

pub use crate::address::{Address, AddressError, PublicKey};
pub use crate::connection::{Connection, NamedRow, Parameter, Row, fit};
pub use crate::connection_options::{
    CompressionAlgorithm, ConnectionOptions, PasswordOption, Protocol, Recognition,
};
pub use crate::error::Error;
pub use crate::facts::{Facts, GTIDS_SINCE, GtidMode, version_numbers};
pub use crate::link::{Cancel, Link, LinkOptions};
pub use crate::live::{Live, LiveSource};
pub use crate::option_files::{OPTION_GROUPS, OptionFileError};
pub use crate::password::PasswordSource;
pub use crate::resolution::{OptionOrigin, OptionSources, Prompt, Resolution, ResolutionError};
pub use crate::tls_policy::{SslMode, TlsPolicy, TlsVersion};
pub use crate::tls_request::{Identity, TlsRequest};

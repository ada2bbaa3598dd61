//! Other people's servers: how to reach them, SQL connections, what they are and what they allow.
//!
//! | to | use |
//! |---|---|
//! | say which server, and as whom | [`Address`]: `mysql://user@host:port/`, `mysql://user@localhost/?socket=PATH` |
//! | make an address of a command line, an address, settings and option files | [`OptionSources`] |
//! | run SQL on it | [`Connection`] |
//! | say how a connection is encrypted | [`TlsPolicy`]: MySQL's `ssl-mode`, authorities, a certificate of one's own |
//! | know what it is and how it is set | [`Facts`] |
//! | speak the protocol itself with it | [`Link`] |
//! | receive its log | [`LiveSource`] |
//! | write names and bytes into SQL | [`quote`] |
//!
//! Connection options are parsed here and nowhere else.
//!
//! What this crate never does: change a server on its own account (its callers say every statement that does), keep
//! a password longer than a connection needs it, or show one in an error or a log.
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

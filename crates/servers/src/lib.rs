//! Connections to MySQL and MariaDB servers: addresses, TLS, SQL, server facts, and live binary logs.
//!
//! | task | item |
//! |---|---|
//! | name a server and an account | [`ServerAddress`]: `mysql://user@host:port/`, `mysql://user@localhost/?socket=PATH` |
//! | merge command line, address, settings and option files into an address | [`OptionSources`] |
//! | run SQL on a server | [`SqlConnection`] |
//! | set the encryption of a connection | [`TlsPolicy`]: MySQL's `ssl-mode`, CA certificates, a client certificate |
//! | read a server's version and settings | [`ServerFacts`] |
//! | send and receive protocol packets | [`ServerLink`] |
//! | receive a server's binary log | [`LiveSource`] |
//!
//! Only this crate parses connection options.
//!
//! This crate never changes a server by itself: callers supply all statements that change a server. It keeps no
//! password longer than a connection needs it, and shows none in errors or logs.
#![forbid(unsafe_code)]

mod address_text;
mod answer_signal;
mod connect;
mod connection_options;
mod error;
mod live_source;
mod load_data_counts;
mod option_files;
mod option_sources;
mod password_source;
mod server_address;
mod server_catalogue;
mod server_facts;
mod server_link;
mod server_stream;
mod silence_monitor;
mod source_end;
mod sql_connection;
mod statement_cache;
mod tls;
mod tls_error;
mod tls_policy;
mod tls_request;

pub use crate::answer_signal::{AnswerSignal, SignalCause};
pub use crate::connection_options::{
    CompressionAlgorithm, ConnectionOptions, ConnectionProtocol, OptionRecognition, PasswordOption,
};
pub use crate::error::ConnectionError;
pub use crate::live_source::{LiveEvent, LivePosition, LiveSource};
pub use crate::load_data_counts::LoadDataCounts;
pub use crate::option_files::{OPTION_GROUPS, OptionFileError};
pub use crate::option_sources::{
    AddressResolutionError, DEFAULT_PORT, OptionOrigin, OptionSources, PasswordPrompt, ResolvedAddress,
    default_socket,
};
pub use crate::password_source::PasswordSource;
pub use crate::server_address::{AddressError, PublicKeySource, ServerAddress};
pub use crate::server_catalogue::{
    ForeignKeyTables, IS_ROW_TABLE, ServerCatalogue, ServerColumn, ServerForeignKey, ServerIndexPart,
    ServerTable,
};
pub use crate::server_facts::{GTIDS_SINCE, GtidMode, ServerFacts};
pub use crate::server_link::{CancelToken, LinkOptions, ServerLink};
pub use crate::sql_connection::{
    NamedRow, ResultRow, ResultTable, SqlConnection, StatementParameter, check_fit, row_text,
};
pub use crate::tls_policy::{SslMode, TlsPolicy, TlsVersion};
pub use crate::tls_request::{HostVerification, TlsRequest};

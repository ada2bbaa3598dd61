//! Roles of servers in a command: each role has its own options.

use std::fmt;

/// Role of the server that options are for.
pub(crate) trait ServerRole: fmt::Debug + Clone {
    /// Prefix of the options, without the hyphen; empty for the main server of a command.
    const PREFIX: &'static str;
    /// Option that names the server.
    const OPTION: &'static str;
}

/// Main server of a command: its options have no prefix.
#[derive(Clone, Debug)]
pub(crate) struct MainServer;

/// Source of `replay --from`: `--source-…`.
#[derive(Clone, Debug)]
pub(crate) struct ReplaySource;

/// Server of `replay --verify`: `--verify-…`.
#[derive(Clone, Debug)]
pub(crate) struct VerifyServer;

/// Server of `stream --schema`: `--schema-…`.
#[derive(Clone, Debug)]
pub(crate) struct SchemaServer;

/// Server of `relay --definitions-from`: `--definitions-…`.
#[derive(Clone, Debug)]
pub(crate) struct DefinitionServer;

impl ServerRole for MainServer {
    const PREFIX: &'static str = "";
    const OPTION: &'static str = "";
}

impl ServerRole for ReplaySource {
    const PREFIX: &'static str = "source";
    const OPTION: &'static str = "from";
}

impl ServerRole for VerifyServer {
    const PREFIX: &'static str = "verify";
    const OPTION: &'static str = "verify";
}

impl ServerRole for SchemaServer {
    const PREFIX: &'static str = "schema";
    const OPTION: &'static str = "schema";
}

impl ServerRole for DefinitionServer {
    const PREFIX: &'static str = "definitions";
    const OPTION: &'static str = "definitions-from";
}

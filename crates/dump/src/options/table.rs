//! The options: mysqlbinlog's in its order, then bintide's own.

use super::number::{Limits, Number};

/// Identifier of an option, used as index of the parsed values. The order is that of the tables below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Help,
    Base64Output,
    BindAddress,
    CharacterSetsDir,
    Database,
    RewriteDb,
    Debug,
    DebugCheck,
    DebugInfo,
    DefaultAuth,
    DisableLogBin,
    ForceIfOpen,
    ForceRead,
    Hexdump,
    Host,
    Idempotent,
    LocalLoad,
    Offset,
    Password,
    PluginDir,
    Port,
    Protocol,
    ReadFromRemoteServer,
    ReadFromRemoteMaster,
    ReadFromRemoteSource,
    Raw,
    ResultFile,
    ServerId,
    ServerIdBits,
    SetCharset,
    ShortForm,
    Socket,
    ServerPublicKeyPath,
    GetServerPublicKey,
    SslMode,
    SslCa,
    SslCapath,
    SslCert,
    SslCipher,
    SslKey,
    SslCrl,
    SslCrlpath,
    TlsVersion,
    SslFipsMode,
    TlsCiphersuites,
    SslSessionData,
    SslSessionDataContinue,
    TlsSniServername,
    StartDatetime,
    StartPosition,
    StopDatetime,
    StopNever,
    StopNeverSlaveServerId,
    ConnectionServerId,
    StopPosition,
    ToLastLog,
    User,
    Verbose,
    Version,
    OpenFilesLimit,
    VerifyBinlogChecksum,
    BinlogRowEventMaxSize,
    SkipGtids,
    IncludeGtids,
    ExcludeGtids,
    PrintTableMetadata,
    Compress,
    CompressionAlgorithms,
    ZstdCompressionLevel,
    RequireRowFormat,
    // bintide's own.
    Json,
    Events,
    Transactions,
    Table,
    Where,
    Gtid,
    Jobs,
    TemporaryMax,
    Color,
    Keyring,
    Config,
    Quiet,
}

/// Number of options.
pub(crate) const KEYS: usize = Which::Quiet as usize + 1;

/// Kind of an option's argument and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No argument: given or not.
    Mark,
    /// On or off; the argument is optional.
    Switch {
        /// Default.
        default: bool,
        /// An invalid value means off. Without this, the option is ignored.
        lax: bool,
    },
    /// Any text.
    Text,
    /// Text that is checked at once, and not listed among the variables.
    Word,
    /// Password; the argument is optional.
    Password,
    /// A number.
    Number(Number),
    /// Refused: exists only in debug builds of MySQL.
    Disabled {
        /// True if an argument may follow.
        argument: bool,
    },
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) key: Which,
    /// Name in messages; `-` and `_` are the same on a command line.
    pub(crate) name: &'static str,
    pub(crate) short: Option<u8>,
    pub(crate) kind: Kind,
    /// Description for `--help`: one sentence or more.
    pub(crate) about: &'static str,
}

const OFF: Kind = Kind::Switch { default: false, lax: false };
const ON: Kind = Kind::Switch { default: true, lax: false };

const fn short(key: Which, name: &'static str, letter: u8, kind: Kind, about: &'static str) -> Spec {
    Spec { key, name, short: Some(letter), kind, about }
}

const fn long(key: Which, name: &'static str, kind: Kind, about: &'static str) -> Spec {
    Spec { key, name, short: None, kind, about }
}

const fn unsigned(default: u64, min: u64, max: u64, block: u64, type_max: u64) -> Kind {
    Kind::Number(Number::Unsigned(Limits { default, min, max, type_max }, block))
}

const fn signed(default: i64, min: i64, max: i64, type_max: i64) -> Kind {
    Kind::Number(Number::Signed(Limits { default, min, max, type_max }))
}

const U32: u64 = u32::MAX as u64;
const SERVER_ID: Kind = signed(-1, -1, U32 as i64, i64::MAX);

/// mysqlbinlog's options, in the order of its help.
pub(crate) static MYSQLBINLOG: &[Spec] = &[
    short(Which::Help, "help", b'?', Kind::Mark, "Show this help."),
    long(
        Which::Base64Output,
        "base64-output",
        Kind::Text,
        "Which events to print as BINLOG statements. 'auto': row events and format descriptions, which have no other \
         form. 'never': none; fails if the log has row events. 'decode-rows': none; --verbose prints rows as \
         pseudo-SQL. [default: auto]",
    ),
    long(Which::BindAddress, "bind-address", Kind::Text, "Local address to connect from."),
    long(Which::CharacterSetsDir, "character-sets-dir", Kind::Text, "Directory of character set files."),
    short(
        Which::Database,
        "database",
        b'd',
        Kind::Text,
        "Print only rows of this database's tables, and statements with it as the default database.",
    ),
    long(
        Which::RewriteDb,
        "rewrite-db",
        Kind::Text,
        "Rename a database in the output: 'from->to'. May be given several times.",
    ),
    short(
        Which::Debug,
        "debug",
        b'#',
        Kind::Disabled { argument: true },
        "Not in this build: ends the program with an error.",
    ),
    long(
        Which::DebugCheck,
        "debug-check",
        Kind::Disabled { argument: false },
        "Not in this build: ends the program with an error.",
    ),
    long(
        Which::DebugInfo,
        "debug-info",
        Kind::Disabled { argument: false },
        "Not in this build: ends the program with an error.",
    ),
    long(Which::DefaultAuth, "default_auth", Kind::Text, "Authentication plugin to try first."),
    short(
        Which::DisableLogBin,
        "disable-log-bin",
        b'D',
        OFF,
        "Print SQL that keeps the replayed statements out of the target's own binary log. Requires the privilege to \
         do so on the target.",
    ),
    short(
        Which::ForceIfOpen,
        "force-if-open",
        b'F',
        ON,
        "Read a log that is in use or whose server crashed, and accept a torn last event in it.",
    ),
    short(Which::ForceRead, "force-read", b'f', OFF, "Continue after events of unknown types."),
    short(
        Which::Hexdump,
        "hexdump",
        b'H',
        OFF,
        "Also print each event's bytes, in hexadecimal and as characters.",
    ),
    short(Which::Host, "host", b'h', Kind::Text, "Server to read from."),
    short(
        Which::Idempotent,
        "idempotent",
        b'i',
        OFF,
        "Print SQL that makes the target ignore rows that already exist or are already deleted.",
    ),
    short(
        Which::LocalLoad,
        "local-load",
        b'l',
        Kind::Text,
        "Directory for the files of LOAD DATA statements.",
    ),
    short(Which::Offset, "offset", b'o', unsigned(0, 0, 0, 0, u64::MAX), "Skip the first N events."),
    short(Which::Password, "password", b'p', Kind::Password, "Password to connect with."),
    long(Which::PluginDir, "plugin_dir", Kind::Text, "Directory of client plugins."),
    short(
        Which::Port,
        "port",
        b'P',
        signed(0, 0, 0, i32::MAX as i64),
        "Port to connect to; 0 for the default port.",
    ),
    long(
        Which::Protocol,
        "protocol",
        Kind::Word,
        "Transport of the connection: tcp, socket, pipe or memory.",
    ),
    short(
        Which::ReadFromRemoteServer,
        "read-from-remote-server",
        b'R',
        OFF,
        "Read from a server, by position.",
    ),
    long(
        Which::ReadFromRemoteMaster,
        "read-from-remote-master",
        Kind::Text,
        "Old name of --read-from-remote-source.",
    ),
    long(
        Which::ReadFromRemoteSource,
        "read-from-remote-source",
        Kind::Text,
        "Read from a server, by position (BINLOG-DUMP-NON-GTIDS) or by GTID set (BINLOG-DUMP-GTIDS).",
    ),
    long(Which::Raw, "raw", OFF, "Write the logs as files instead of text. Requires -R."),
    short(
        Which::ResultFile,
        "result-file",
        b'r',
        Kind::Text,
        "File to write to; with --raw, prefix of the files' names.",
    ),
    long(
        Which::ServerId,
        "server-id",
        unsigned(0, 0, 0, 0, u64::MAX),
        "Print only events first written by the server with this id.",
    ),
    long(
        Which::ServerIdBits,
        "server-id-bits",
        unsigned(32, 7, 32, 0, U32),
        "Number of low bits of a server id to compare.",
    ),
    long(Which::SetCharset, "set-charset", Kind::Text, "Print SET NAMES with this character set first."),
    short(
        Which::ShortForm,
        "short-form",
        b's',
        OFF,
        "Print statements only, without rows and comments. Deprecated: use --base64-output.",
    ),
    short(Which::Socket, "socket", b'S', Kind::Text, "Socket file to connect to."),
    long(
        Which::ServerPublicKeyPath,
        "server-public-key-path",
        Kind::Text,
        "File of the server's public RSA key.",
    ),
    long(Which::GetServerPublicKey, "get-server-public-key", OFF, "Request the server's public RSA key."),
    long(
        Which::SslMode,
        "ssl-mode",
        Kind::Word,
        "Encryption and verification of the connection: DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY.",
    ),
    long(Which::SslCa, "ssl-ca", Kind::Text, "File of trusted CA certificates."),
    long(Which::SslCapath, "ssl-capath", Kind::Text, "Directory of trusted CA certificates."),
    long(Which::SslCert, "ssl-cert", Kind::Text, "File of the client certificate."),
    long(Which::SslCipher, "ssl-cipher", Kind::Text, "Ciphers to offer before TLS 1.3."),
    long(Which::SslKey, "ssl-key", Kind::Text, "File of the client certificate's key."),
    long(Which::SslCrl, "ssl-crl", Kind::Text, "File of certificate revocation lists."),
    long(Which::SslCrlpath, "ssl-crlpath", Kind::Text, "Directory of certificate revocation lists."),
    long(Which::TlsVersion, "tls-version", Kind::Text, "TLS versions to offer: TLSv1.2, TLSv1.3."),
    long(Which::SslFipsMode, "ssl-fips-mode", Kind::Word, "FIPS mode: OFF, ON or STRICT."),
    long(Which::TlsCiphersuites, "tls-ciphersuites", Kind::Text, "Ciphersuites to offer in TLS 1.3."),
    long(Which::SslSessionData, "ssl-session-data", Kind::Text, "File of a TLS session to resume."),
    long(
        Which::SslSessionDataContinue,
        "ssl-session-data-continue-on-failed-reuse",
        Kind::Switch { default: false, lax: true },
        "Connect even if that session cannot be resumed.",
    ),
    long(
        Which::TlsSniServername,
        "tls-sni-servername",
        Kind::Text,
        "Server name to request in the TLS handshake (SNI).",
    ),
    long(
        Which::StartDatetime,
        "start-datetime",
        Kind::Text,
        "Start at the first event not older than this local date and time, for example '2004-12-25 11:25:56'.",
    ),
    short(
        Which::StartPosition,
        "start-position",
        b'j',
        unsigned(4, 4, u64::MAX, 0, u64::MAX),
        "Start at this position of the first log.",
    ),
    long(
        Which::StopDatetime,
        "stop-datetime",
        Kind::Text,
        "Stop at the first event not older than this local date and time, for example '2004-12-25 11:25:56'.",
    ),
    long(
        Which::StopNever,
        "stop-never",
        OFF,
        "Wait for new events at the end of the server's last log, until the server disconnects.",
    ),
    long(
        Which::StopNeverSlaveServerId,
        "stop-never-slave-server-id",
        SERVER_ID,
        "Old name of --connection-server-id.",
    ),
    long(
        Which::ConnectionServerId,
        "connection-server-id",
        SERVER_ID,
        "Server id to register with at the server.",
    ),
    long(
        Which::StopPosition,
        "stop-position",
        unsigned(u64::MAX, 4, u64::MAX, 0, u64::MAX),
        "Stop at this position of the last log.",
    ),
    short(
        Which::ToLastLog,
        "to-last-log",
        b't',
        OFF,
        "Continue with the server's next logs, up to its last. Requires -R.",
    ),
    short(Which::User, "user", b'u', Kind::Text, "Account to connect with."),
    short(Which::Verbose, "verbose", b'v', Kind::Mark, "Print rows as pseudo-SQL; twice: with column types."),
    short(Which::Version, "version", b'V', Kind::Mark, "Show the version."),
    long(
        Which::OpenFilesLimit,
        "open_files_limit",
        unsigned(64, 8, U32, 1, u64::MAX),
        "Number of files that may be open at once.",
    ),
    short(
        Which::VerifyBinlogChecksum,
        "verify-binlog-checksum",
        b'c',
        OFF,
        "Verify the checksum of each event.",
    ),
    long(
        Which::BinlogRowEventMaxSize,
        "binlog-row-event-max-size",
        unsigned(U32, 256, u64::MAX, 256, u64::MAX),
        "Maximum size of a row event, in bytes: a multiple of 256.",
    ),
    long(
        Which::SkipGtids,
        "skip-gtids",
        OFF,
        "Print no GTIDs, so that the target assigns its own to what is replayed.",
    ),
    long(Which::IncludeGtids, "include-gtids", Kind::Text, "Print only the transactions in this GTID set."),
    long(Which::ExcludeGtids, "exclude-gtids", Kind::Text, "Print no transactions in this GTID set."),
    long(
        Which::PrintTableMetadata,
        "print-table-metadata",
        OFF,
        "Print each table's columns and keys, as far as the log has them.",
    ),
    short(Which::Compress, "compress", b'C', OFF, "Compress the connection."),
    long(
        Which::CompressionAlgorithms,
        "compression-algorithms",
        Kind::Text,
        "Allowed compression of the connection: any of 'zstd', 'zlib', 'uncompressed'.",
    ),
    long(
        Which::ZstdCompressionLevel,
        "zstd-compression-level",
        unsigned(3, 1, 22, 0, U32),
        "zstd level of the connection, from 1 to 22.",
    ),
    long(
        Which::RequireRowFormat,
        "require-row-format",
        OFF,
        "Fail at statements that change rows, at LOAD DATA, and at temporary tables.",
    ),
];

/// Options of `bintide dump` that mysqlbinlog does not have.
pub(crate) static OURS: &[Spec] = &[
    long(
        Which::Json,
        "json",
        OFF,
        "Print one JSON line per event, including events inside compressed transactions; with --transactions, one per \
         transaction.",
    ),
    long(
        Which::Events,
        "events",
        OFF,
        "Print the table of SHOW BINLOG EVENTS, with tabs between the columns.",
    ),
    long(
        Which::Transactions,
        "transactions",
        OFF,
        "Print one line per transaction: GTID, position, time, outcome, rows, bytes, compression, tables.",
    ),
    long(
        Which::Table,
        "table",
        Kind::Text,
        "Print only row changes of this table: 'database.table', or 'table' in any database; '*' matches any text, \
         '?' any one character. May be given several times.",
    ),
    long(
        Which::Where,
        "where",
        Kind::Text,
        "Print only row changes where this column has this value, before or after: 'column=value', or '@N=value' with \
         the column's number if the log has no column names. May be given several times: all must match. Requires \
         --json, --events or --transactions.",
    ),
    long(
        Which::Gtid,
        "gtid",
        Kind::Text,
        "Print only transactions in this GTID set: 'uuid:1-5', 'uuid:tag:7'.",
    ),
    long(
        Which::Jobs,
        "jobs",
        unsigned(0, 0, 1024, 0, u64::MAX),
        "Number of formatting threads; 0 for one per core.",
    ),
    long(
        Which::TemporaryMax,
        "temporary-max",
        unsigned(0, 0, u64::MAX, 0, u64::MAX),
        "Maximum size of all temporary files together, in bytes; 0 for half of the free space. They contain the \
         events of a compressed statement that do not fit in memory.",
    ),
    long(
        Which::Color,
        "color",
        Kind::Text,
        "When to use colour: 'auto' (on a terminal), 'always' or 'never'. [default: auto]",
    ),
    long(Which::Keyring, "keyring", Kind::Text, "Keyring file with the keys of encrypted logs."),
    long(
        Which::Config,
        "config",
        Kind::Text,
        "Settings file to read instead of bintide/bintide.toml in the user's configuration directory.",
    ),
    long(Which::Quiet, "quiet", OFF, "Suppress bintide's own warnings on standard error."),
];

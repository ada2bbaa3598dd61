//! The options: mysqlbinlog's in its order, then bintide's own.

use super::number::{NumberKind, NumberLimits};

/// Identifier of an option, used as index of the parsed values. The order is that of the tables below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionId {
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
pub(crate) const OPTION_COUNT: usize = OptionId::Quiet as usize + 1;

/// Kind of an option's argument and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionKind {
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
    Number(NumberKind),
    /// Refused: exists only in debug builds of MySQL.
    Disabled {
        /// True if an argument may follow.
        argument: bool,
    },
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionEntry {
    pub(crate) id: OptionId,
    /// Name in messages; `-` and `_` are the same on a command line.
    pub(crate) name: &'static str,
    pub(crate) short: Option<u8>,
    pub(crate) kind: OptionKind,
    /// Description for `--help`: one sentence or more.
    pub(crate) description: &'static str,
}

const OFF: OptionKind = OptionKind::Switch { default: false, lax: false };
const ON: OptionKind = OptionKind::Switch { default: true, lax: false };

const fn short(
    key: OptionId,
    name: &'static str,
    letter: u8,
    kind: OptionKind,
    about: &'static str,
) -> OptionEntry {
    OptionEntry { id: key, name, short: Some(letter), kind, description: about }
}

const fn long(key: OptionId, name: &'static str, kind: OptionKind, about: &'static str) -> OptionEntry {
    OptionEntry { id: key, name, short: None, kind, description: about }
}

const fn unsigned(default: u64, min: u64, max: u64, block: u64, type_max: u64) -> OptionKind {
    OptionKind::Number(NumberKind::Unsigned(NumberLimits { default, min, max, type_max }, block))
}

const fn signed(default: i64, min: i64, max: i64, type_max: i64) -> OptionKind {
    OptionKind::Number(NumberKind::Signed(NumberLimits { default, min, max, type_max }))
}

const U32: u64 = u32::MAX as u64;
const SERVER_ID: OptionKind = signed(-1, -1, U32 as i64, i64::MAX);

/// mysqlbinlog's options, in the order of its help.
pub(crate) static MYSQLBINLOG_OPTIONS: &[OptionEntry] = &[
    short(OptionId::Help, "help", b'?', OptionKind::Mark, "Show this help."),
    long(
        OptionId::Base64Output,
        "base64-output",
        OptionKind::Text,
        "Events to print as BINLOG statements. 'auto': only row events and format descriptions, because SQL cannot \
         express them. 'never': none; fails if the log has row events. 'decode-rows': none; --verbose prints rows as \
         pseudo-SQL. [default: auto]",
    ),
    long(OptionId::BindAddress, "bind-address", OptionKind::Text, "Local address to connect from."),
    long(
        OptionId::CharacterSetsDir,
        "character-sets-dir",
        OptionKind::Text,
        "Directory of character set files.",
    ),
    short(
        OptionId::Database,
        "database",
        b'd',
        OptionKind::Text,
        "Print only rows of this database's tables, and statements with it as the default database.",
    ),
    long(
        OptionId::RewriteDb,
        "rewrite-db",
        OptionKind::Text,
        "Rename a database in the output: 'from->to'. Repeatable.",
    ),
    short(
        OptionId::Debug,
        "debug",
        b'#',
        OptionKind::Disabled { argument: true },
        "Not supported; using it is an error.",
    ),
    long(
        OptionId::DebugCheck,
        "debug-check",
        OptionKind::Disabled { argument: false },
        "Not supported; using it is an error.",
    ),
    long(
        OptionId::DebugInfo,
        "debug-info",
        OptionKind::Disabled { argument: false },
        "Not supported; using it is an error.",
    ),
    long(OptionId::DefaultAuth, "default_auth", OptionKind::Text, "Not supported; using it is an error."),
    short(
        OptionId::DisableLogBin,
        "disable-log-bin",
        b'D',
        OFF,
        "Print SET SQL_LOG_BIN=0 first, so that the target does not log the statements. Needs the privilege to set \
         sql_log_bin.",
    ),
    short(
        OptionId::ForceIfOpen,
        "force-if-open",
        b'F',
        ON,
        "Also read logs that are open or were not closed (server crash), and accept a torn last event.",
    ),
    short(
        OptionId::ForceRead,
        "force-read",
        b'f',
        OFF,
        "Continue after events of unknown types; with --json, --events or --transactions, after every event that \
         cannot be decoded.",
    ),
    short(
        OptionId::Hexdump,
        "hexdump",
        b'H',
        OFF,
        "Also print each event's bytes, in hexadecimal and as characters.",
    ),
    short(OptionId::Host, "host", b'h', OptionKind::Text, "Host name of the server to read from."),
    short(
        OptionId::Idempotent,
        "idempotent",
        b'i',
        OFF,
        "Print SQL that makes the target ignore rows that already exist or are already deleted.",
    ),
    short(
        OptionId::LocalLoad,
        "local-load",
        b'l',
        OptionKind::Text,
        "Directory for the files of LOAD DATA statements.",
    ),
    short(
        OptionId::Offset,
        "offset",
        b'o',
        unsigned(0, 0, 0, 0, u64::MAX),
        "Skip this number of events at the start.",
    ),
    short(OptionId::Password, "password", b'p', OptionKind::Password, "Password of the account."),
    long(OptionId::PluginDir, "plugin_dir", OptionKind::Text, "Directory of client plugins."),
    short(
        OptionId::Port,
        "port",
        b'P',
        signed(0, 0, 0, i32::MAX as i64),
        "TCP port of the server; 0 for the default port.",
    ),
    long(OptionId::Protocol, "protocol", OptionKind::Word, "Transport protocol: tcp or socket."),
    short(
        OptionId::ReadFromRemoteServer,
        "read-from-remote-server",
        b'R',
        OFF,
        "Read from a server, by position.",
    ),
    long(
        OptionId::ReadFromRemoteMaster,
        "read-from-remote-master",
        OptionKind::Text,
        "Old name of --read-from-remote-source.",
    ),
    long(
        OptionId::ReadFromRemoteSource,
        "read-from-remote-source",
        OptionKind::Text,
        "Read from a server, by position (BINLOG-DUMP-NON-GTIDS) or by GTID set (BINLOG-DUMP-GTIDS).",
    ),
    long(OptionId::Raw, "raw", OFF, "Write the logs as files instead of text. Requires -R."),
    short(
        OptionId::ResultFile,
        "result-file",
        b'r',
        OptionKind::Text,
        "File to write to; with --raw, prefix of the files' names.",
    ),
    long(
        OptionId::ServerId,
        "server-id",
        unsigned(0, 0, 0, 0, u64::MAX),
        "Print only events first written by the server with this id.",
    ),
    long(
        OptionId::ServerIdBits,
        "server-id-bits",
        unsigned(32, 7, 32, 0, U32),
        "Number of least significant bits of the server id that are compared.",
    ),
    long(
        OptionId::SetCharset,
        "set-charset",
        OptionKind::Text,
        "Print SET NAMES with this character set first.",
    ),
    short(
        OptionId::ShortForm,
        "short-form",
        b's',
        OFF,
        "Print statements only, without rows and comments. Deprecated: use --base64-output.",
    ),
    short(OptionId::Socket, "socket", b'S', OptionKind::Text, "Unix socket file of the server."),
    long(
        OptionId::ServerPublicKeyPath,
        "server-public-key-path",
        OptionKind::Text,
        "File of the server's public RSA key.",
    ),
    long(OptionId::GetServerPublicKey, "get-server-public-key", OFF, "Request the server's public RSA key."),
    long(
        OptionId::SslMode,
        "ssl-mode",
        OptionKind::Word,
        "Encryption and verification of the connection: DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY.",
    ),
    long(OptionId::SslCa, "ssl-ca", OptionKind::Text, "File of trusted CA certificates."),
    long(OptionId::SslCapath, "ssl-capath", OptionKind::Text, "Directory of trusted CA certificates."),
    long(OptionId::SslCert, "ssl-cert", OptionKind::Text, "File of the client certificate."),
    long(OptionId::SslCipher, "ssl-cipher", OptionKind::Text, "Ciphers to offer before TLS 1.3."),
    long(OptionId::SslKey, "ssl-key", OptionKind::Text, "File of the client certificate's key."),
    long(OptionId::SslCrl, "ssl-crl", OptionKind::Text, "File of certificate revocation lists."),
    long(OptionId::SslCrlpath, "ssl-crlpath", OptionKind::Text, "Directory of certificate revocation lists."),
    long(OptionId::TlsVersion, "tls-version", OptionKind::Text, "TLS versions to offer: TLSv1.2, TLSv1.3."),
    long(
        OptionId::SslFipsMode,
        "ssl-fips-mode",
        OptionKind::Word,
        "FIPS mode: OFF. When reading from a server, ON and STRICT are refused.",
    ),
    long(
        OptionId::TlsCiphersuites,
        "tls-ciphersuites",
        OptionKind::Text,
        "Ciphersuites to offer in TLS 1.3.",
    ),
    long(
        OptionId::SslSessionData,
        "ssl-session-data",
        OptionKind::Text,
        "Not supported; using it is an error.",
    ),
    long(
        OptionId::SslSessionDataContinue,
        "ssl-session-data-continue-on-failed-reuse",
        OptionKind::Switch { default: false, lax: true },
        "No effect: --ssl-session-data is not supported.",
    ),
    long(
        OptionId::TlsSniServername,
        "tls-sni-servername",
        OptionKind::Text,
        "Server name to request in the TLS handshake (SNI).",
    ),
    long(
        OptionId::StartDatetime,
        "start-datetime",
        OptionKind::Text,
        "Start at the first event not older than this local date and time, for example '2004-12-25 11:25:56'.",
    ),
    short(
        OptionId::StartPosition,
        "start-position",
        b'j',
        unsigned(4, 4, u64::MAX, 0, u64::MAX),
        "Start at this position of the first log.",
    ),
    long(
        OptionId::StopDatetime,
        "stop-datetime",
        OptionKind::Text,
        "Stop at the first event not older than this local date and time, for example '2004-12-25 11:25:56'.",
    ),
    long(
        OptionId::StopNever,
        "stop-never",
        OFF,
        "Wait for new events at the end of the server's last log, until the server disconnects.",
    ),
    long(
        OptionId::StopNeverSlaveServerId,
        "stop-never-slave-server-id",
        SERVER_ID,
        "Old name of --connection-server-id.",
    ),
    long(
        OptionId::ConnectionServerId,
        "connection-server-id",
        SERVER_ID,
        "Server id that dump reports to the server.",
    ),
    long(
        OptionId::StopPosition,
        "stop-position",
        unsigned(u64::MAX, 4, u64::MAX, 0, u64::MAX),
        "Stop at this position of the last log.",
    ),
    short(
        OptionId::ToLastLog,
        "to-last-log",
        b't',
        OFF,
        "Continue with the server's next logs, up to its last. Requires -R.",
    ),
    short(OptionId::User, "user", b'u', OptionKind::Text, "User name of the account."),
    short(
        OptionId::Verbose,
        "verbose",
        b'v',
        OptionKind::Mark,
        "Print rows as pseudo-SQL; twice: with column types.",
    ),
    short(OptionId::Version, "version", b'V', OptionKind::Mark, "Show the version."),
    long(
        OptionId::OpenFilesLimit,
        "open_files_limit",
        unsigned(64, 8, U32, 1, u64::MAX),
        "Number of files that may be open at once.",
    ),
    short(
        OptionId::VerifyBinlogChecksum,
        "verify-binlog-checksum",
        b'c',
        OFF,
        "Verify the checksum of each event.",
    ),
    long(
        OptionId::BinlogRowEventMaxSize,
        "binlog-row-event-max-size",
        unsigned(U32, 256, u64::MAX, 256, u64::MAX),
        "Maximum size of a row event, in bytes: a multiple of 256.",
    ),
    long(
        OptionId::SkipGtids,
        "skip-gtids",
        OFF,
        "Print no GTIDs, so that the target assigns new GTIDs to the transactions.",
    ),
    long(
        OptionId::IncludeGtids,
        "include-gtids",
        OptionKind::Text,
        "Print only the transactions in this GTID set.",
    ),
    long(
        OptionId::ExcludeGtids,
        "exclude-gtids",
        OptionKind::Text,
        "Print no transactions in this GTID set.",
    ),
    long(
        OptionId::PrintTableMetadata,
        "print-table-metadata",
        OFF,
        "Print each table's columns and keys, as far as the log has them.",
    ),
    short(OptionId::Compress, "compress", b'C', OFF, "Compress the connection."),
    long(
        OptionId::CompressionAlgorithms,
        "compression-algorithms",
        OptionKind::Text,
        "Allowed compression of the connection: any of 'zstd', 'zlib', 'uncompressed'.",
    ),
    long(
        OptionId::ZstdCompressionLevel,
        "zstd-compression-level",
        unsigned(3, 1, 22, 0, U32),
        "zstd level of the connection, from 1 to 22.",
    ),
    long(
        OptionId::RequireRowFormat,
        "require-row-format",
        OFF,
        "Fail if the log contains statements that change rows, LOAD DATA, or temporary tables.",
    ),
];

/// Options of `bintide dump` that mysqlbinlog does not have.
pub(crate) static BINTIDE_OPTIONS: &[OptionEntry] = &[
    long(
        OptionId::Json,
        "json",
        OFF,
        "Print one JSON line per event, including events inside compressed transactions; with --transactions, one per \
         transaction.",
    ),
    long(
        OptionId::Events,
        "events",
        OFF,
        "Print the table of SHOW BINLOG EVENTS, with tabs between the columns.",
    ),
    long(
        OptionId::Transactions,
        "transactions",
        OFF,
        "Print one line per transaction: GTID, position, time, kind, rows, bytes, compression, tables.",
    ),
    long(
        OptionId::Table,
        "table",
        OptionKind::Text,
        "Print only row changes of this table: 'database.table', or 'table' in any database; '*' matches any text, \
         '?' any one character. Repeatable.",
    ),
    long(
        OptionId::Where,
        "where",
        OptionKind::Text,
        "Print only row changes where this column has this value, before or after: 'column=value', or '@N=value' with \
         the column's number if the log has no column names. Repeatable: all must match. Requires \
         --json, --events or --transactions.",
    ),
    long(
        OptionId::Gtid,
        "gtid",
        OptionKind::Text,
        "Print only transactions in this GTID set: 'uuid:1-5', 'uuid:tag:7'.",
    ),
    long(
        OptionId::Jobs,
        "jobs",
        unsigned(0, 0, 1024, 0, u64::MAX),
        "Number of formatting threads; 0 for one per core.",
    ),
    long(
        OptionId::TemporaryMax,
        "temporary-max",
        unsigned(0, 0, u64::MAX, 0, u64::MAX),
        "Maximum size of all temporary files together, in bytes; 0 for half of the free space. These files \
         hold events of large compressed statements that do not fit in memory.",
    ),
    long(
        OptionId::Color,
        "color",
        OptionKind::Text,
        "Colour of the output: 'auto' (on a terminal), 'always' or 'never'. [default: auto]",
    ),
    long(
        OptionId::Keyring,
        "keyring",
        OptionKind::Text,
        "Keyring file with the keys of encrypted logs and archives.",
    ),
    long(
        OptionId::Config,
        "config",
        OptionKind::Text,
        "Settings file to read instead of bintide/bintide.toml in the user's configuration directory.",
    ),
    short(OptionId::Quiet, "quiet", b'q', OFF, "Print only errors on standard error, no warnings."),
];

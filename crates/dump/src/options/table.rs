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
        "Which events to print as BINLOG statements: 'auto' (the default) those that have no other form, that is \
         rows and format descriptions; 'never' none, which fails if the log has rows; 'decode-rows' none, rows \
         appear only as pseudo-SQL if --verbose asks for it.",
    ),
    long(Which::BindAddress, "bind-address", Kind::Text, "The address to connect from."),
    long(Which::CharacterSetsDir, "character-sets-dir", Kind::Text, "Where character set files are."),
    short(
        Which::Database,
        "database",
        b'd',
        Kind::Text,
        "Print only what belongs to this database: rows of its tables, and statements run with it as the default.",
    ),
    long(
        Which::RewriteDb,
        "rewrite-db",
        Kind::Text,
        "Print another name in place of a database's: 'from->to'. May be given several times.",
    ),
    short(
        Which::Debug,
        "debug",
        b'#',
        Kind::Disabled { argument: true },
        "Not in this build: stops the program.",
    ),
    long(
        Which::DebugCheck,
        "debug-check",
        Kind::Disabled { argument: false },
        "Not in this build: stops the program.",
    ),
    long(
        Which::DebugInfo,
        "debug-info",
        Kind::Disabled { argument: false },
        "Not in this build: stops the program.",
    ),
    long(Which::DefaultAuth, "default_auth", Kind::Text, "The authentication plugin to try first."),
    short(
        Which::DisableLogBin,
        "disable-log-bin",
        b'D',
        OFF,
        "Print SQL that keeps what is replayed out of the target's own binary log. Needs the privilege to do so on \
         the target.",
    ),
    short(
        Which::ForceIfOpen,
        "force-if-open",
        b'F',
        ON,
        "Read a log that is still in use, or whose server crashed, and do not take a torn last event in it for an \
         error.",
    ),
    short(Which::ForceRead, "force-read", b'f', OFF, "Go on at events of unknown types."),
    short(
        Which::Hexdump,
        "hexdump",
        b'H',
        OFF,
        "Show each event's bytes too, in hexadecimal and as characters.",
    ),
    short(Which::Host, "host", b'h', Kind::Text, "The server to read from."),
    short(
        Which::Idempotent,
        "idempotent",
        b'i',
        OFF,
        "Print SQL that makes the target pass over rows that are already there or already gone.",
    ),
    short(
        Which::LocalLoad,
        "local-load",
        b'l',
        Kind::Text,
        "The directory for the files that LOAD DATA statements read.",
    ),
    short(Which::Offset, "offset", b'o', unsigned(0, 0, 0, 0, u64::MAX), "Leave out the first N events."),
    short(Which::Password, "password", b'p', Kind::Password, "The password to connect with."),
    long(Which::PluginDir, "plugin_dir", Kind::Text, "Where client plugins are."),
    short(
        Which::Port,
        "port",
        b'P',
        signed(0, 0, 0, i32::MAX as i64),
        "The port to connect to; 0 for the usual one.",
    ),
    long(Which::Protocol, "protocol", Kind::Word, "How to connect (tcp, socket, pipe, memory)."),
    short(
        Which::ReadFromRemoteServer,
        "read-from-remote-server",
        b'R',
        OFF,
        "Read from a server, as a replica that asks by position.",
    ),
    long(
        Which::ReadFromRemoteMaster,
        "read-from-remote-master",
        Kind::Text,
        "The old name of --read-from-remote-source.",
    ),
    long(
        Which::ReadFromRemoteSource,
        "read-from-remote-source",
        Kind::Text,
        "Read from a server, as a replica that asks by position (BINLOG-DUMP-NON-GTIDS) or by GTID set \
         (BINLOG-DUMP-GTIDS).",
    ),
    long(Which::Raw, "raw", OFF, "Write the logs themselves, as files. Needs -R."),
    short(
        Which::ResultFile,
        "result-file",
        b'r',
        Kind::Text,
        "The file to write to; with --raw what the names of files start with.",
    ),
    long(
        Which::ServerId,
        "server-id",
        unsigned(0, 0, 0, 0, u64::MAX),
        "Print only events that were made first by the server of this number.",
    ),
    long(
        Which::ServerIdBits,
        "server-id-bits",
        unsigned(32, 7, 32, 0, U32),
        "How many low bits of a server's number count.",
    ),
    long(Which::SetCharset, "set-charset", Kind::Text, "Print SET NAMES with this character set first."),
    short(
        Which::ShortForm,
        "short-form",
        b's',
        OFF,
        "Print statements only, without rows and comments. Deprecated: see --base64-output.",
    ),
    short(Which::Socket, "socket", b'S', Kind::Text, "The socket file to connect through."),
    long(
        Which::ServerPublicKeyPath,
        "server-public-key-path",
        Kind::Text,
        "The file with the server's public RSA key.",
    ),
    long(Which::GetServerPublicKey, "get-server-public-key", OFF, "Ask the server for its public RSA key."),
    long(Which::SslMode, "ssl-mode", Kind::Word, "Whether the connection is encrypted, and what is checked."),
    long(Which::SslCa, "ssl-ca", Kind::Text, "The file of trusted authorities."),
    long(Which::SslCapath, "ssl-capath", Kind::Text, "The directory of trusted authorities."),
    long(Which::SslCert, "ssl-cert", Kind::Text, "The certificate to show."),
    long(Which::SslCipher, "ssl-cipher", Kind::Text, "The ciphers to offer."),
    long(Which::SslKey, "ssl-key", Kind::Text, "The certificate's key."),
    long(Which::SslCrl, "ssl-crl", Kind::Text, "The file of revoked certificates."),
    long(Which::SslCrlpath, "ssl-crlpath", Kind::Text, "The directory of revoked certificates."),
    long(Which::TlsVersion, "tls-version", Kind::Text, "The versions of TLS to offer: TLSv1.2, TLSv1.3."),
    long(Which::SslFipsMode, "ssl-fips-mode", Kind::Word, "OFF, ON or STRICT."),
    long(Which::TlsCiphersuites, "tls-ciphersuites", Kind::Text, "The ciphers to offer in TLS 1.3."),
    long(
        Which::SslSessionData,
        "ssl-session-data",
        Kind::Text,
        "The file of a TLS session to take up again.",
    ),
    long(
        Which::SslSessionDataContinue,
        "ssl-session-data-continue-on-failed-reuse",
        Kind::Switch { default: false, lax: true },
        "Connect also if that session cannot be taken up again.",
    ),
    long(
        Which::TlsSniServername,
        "tls-sni-servername",
        Kind::Text,
        "The name to ask for in the TLS handshake.",
    ),
    long(
        Which::StartDatetime,
        "start-datetime",
        Kind::Text,
        "Start at the first event that is not older than this date and time, in the local time zone: for example \
         '2004-12-25 11:25:56'.",
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
        "Stop at the first event that is not older than this date and time, in the local time zone: for example \
         '2004-12-25 11:25:56'.",
    ),
    long(
        Which::StopNever,
        "stop-never",
        OFF,
        "Wait for more at the end of the server's last log, until it disconnects.",
    ),
    long(
        Which::StopNeverSlaveServerId,
        "stop-never-slave-server-id",
        SERVER_ID,
        "The old name of --connection-server-id.",
    ),
    long(
        Which::ConnectionServerId,
        "connection-server-id",
        SERVER_ID,
        "The number by which to register at the server read from.",
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
        "Go on with the logs that follow the one asked for, to the server's last. Needs -R.",
    ),
    short(Which::User, "user", b'u', Kind::Text, "The account to connect with."),
    short(
        Which::Verbose,
        "verbose",
        b'v',
        Kind::Mark,
        "Show rows as pseudo-SQL; given twice, with the columns' types.",
    ),
    short(Which::Version, "version", b'V', Kind::Mark, "Show the version."),
    long(
        Which::OpenFilesLimit,
        "open_files_limit",
        unsigned(64, 8, U32, 1, u64::MAX),
        "How many files may be open at once.",
    ),
    short(
        Which::VerifyBinlogChecksum,
        "verify-binlog-checksum",
        b'c',
        OFF,
        "Compare each event with its checksum.",
    ),
    long(
        Which::BinlogRowEventMaxSize,
        "binlog-row-event-max-size",
        unsigned(U32, 256, u64::MAX, 256, u64::MAX),
        "How large an event of rows may be, in bytes: a multiple of 256.",
    ),
    long(
        Which::SkipGtids,
        "skip-gtids",
        OFF,
        "Leave out the GTIDs, so that the target gives its own to what is replayed.",
    ),
    long(Which::IncludeGtids, "include-gtids", Kind::Text, "Print only the transactions in this GTID set."),
    long(Which::ExcludeGtids, "exclude-gtids", Kind::Text, "Print no transaction that is in this GTID set."),
    long(
        Which::PrintTableMetadata,
        "print-table-metadata",
        OFF,
        "Show the columns and keys that the log knows of each table.",
    ),
    short(Which::Compress, "compress", b'C', OFF, "Compress the connection."),
    long(
        Which::CompressionAlgorithms,
        "compression-algorithms",
        Kind::Text,
        "How the connection may be compressed: any of 'zstd', 'zlib', 'uncompressed'.",
    ),
    long(
        Which::ZstdCompressionLevel,
        "zstd-compression-level",
        unsigned(3, 1, 22, 0, U32),
        "The zstd level for the connection, from 1 to 22.",
    ),
    long(
        Which::RequireRowFormat,
        "require-row-format",
        OFF,
        "Stop at statements that change rows, at LOAD DATA, and at temporary tables.",
    ),
];

/// Options of `bintide dump` that mysqlbinlog does not have.
pub(crate) static OURS: &[Spec] = &[
    long(
        Which::Json,
        "json",
        OFF,
        "Print a line of JSON for each event, those inside compressed transactions too; with --transactions, for each \
         transaction.",
    ),
    long(
        Which::Events,
        "events",
        OFF,
        "Print the table that SHOW BINLOG EVENTS shows, row for row, with tabs between the columns.",
    ),
    long(
        Which::Transactions,
        "transactions",
        OFF,
        "Print a line for each transaction: GTID, position, time, what became of it, rows, bytes, compression, tables.",
    ),
    long(
        Which::Table,
        "table",
        Kind::Text,
        "Only row changes of this table: 'database.table', or 'table' in any database; '*' stands for any text, '?' for \
         one character. May be given several times.",
    ),
    long(
        Which::Where,
        "where",
        Kind::Text,
        "Only row changes where this column has this value, before or after: 'column=value', where the log names \
         columns, or '@N=value' with the column's number. May be given several times: all must hold. Needs --json, \
         --events or --transactions.",
    ),
    long(Which::Gtid, "gtid", Kind::Text, "Only transactions in this GTID set: 'uuid:1-5', 'uuid:tag:7'."),
    long(
        Which::Jobs,
        "jobs",
        unsigned(0, 0, 1024, 0, u64::MAX),
        "How many threads format at once; 0 for one a core.",
    ),
    long(
        Which::TemporaryMax,
        "temporary-max",
        unsigned(0, 0, u64::MAX, 0, u64::MAX),
        "Maximum bytes of all temporary files together; 0 means half of the free space. They hold the events of a \
         compressed statement that do not fit in memory.",
    ),
    long(Which::Color, "color", Kind::Text, "Colour: 'auto' (on a terminal), 'always' or 'never'."),
    long(Which::Keyring, "keyring", Kind::Text, "The keyring file with the keys of encrypted logs."),
    long(
        Which::Config,
        "config",
        Kind::Text,
        "The file with bintide's own settings, instead of bintide/bintide.toml in the user's configuration directory.",
    ),
    long(Which::Quiet, "quiet", OFF, "No remarks of bintide's own on standard error."),
];

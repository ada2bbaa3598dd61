//! Reading logs from a server: mysqlbinlog's options for it, and the interface to the code that connects.

use crate::dump_diagnostics::DumpDiagnostics;
use crate::dump_settings::{ParsedOptions, RemoteMode};
pub use crate::dump_settings::{RemoteProtocol, RemoteSslMode};
use crate::options::option_table::OptionId;
use crate::options::{DumpExit, OptionValues};

/// Access to servers, one connection at a time. Errors are texts of MySQL's client library.
pub trait ServerAccess {
    /// Connects, and closes the connection before.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or refuses the account.
    fn connect(&mut self, connection: &RemoteServerOptions) -> Result<(), String>;

    /// Runs a statement, and returns the first value of its first row; empty if there is none.
    ///
    /// # Errors
    ///
    /// If the server refuses the statement, or the connection is lost.
    fn query(&mut self, sql: &str) -> Result<Vec<u8>, String>;

    /// Requests a log.
    ///
    /// # Errors
    ///
    /// If the connection is lost.
    fn request_log(&mut self, log: &LogRequest<'_>) -> Result<(), String>;

    /// Returns whether the next event has arrived.
    ///
    /// # Errors
    ///
    /// If the connection is lost.
    fn has_more(&mut self) -> Result<bool, String>;

    /// Returns the next event; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the server reports an error, or the connection is lost.
    fn next(&mut self) -> Result<Option<&[u8]>, String>;
}

/// No access: every connection fails.
pub struct NoServerAccess;

impl ServerAccess for NoServerAccess {
    fn connect(&mut self, _: &RemoteServerOptions) -> Result<(), String> {
        Err("this program has no access to servers".to_owned())
    }

    fn query(&mut self, _: &str) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }

    fn request_log(&mut self, _: &LogRequest<'_>) -> Result<(), String> {
        Ok(())
    }

    fn has_more(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        Ok(None)
    }
}

/// Request for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest<'a> {
    /// The log's name.
    pub name: &'a [u8],
    /// Start position in the log; 4 is its first event.
    pub position: u64,
    /// Server id to register with; 0 for none.
    pub server_id: u32,
    /// Action of the server at the end of its last log.
    pub at_end: RemoteEndAction,
    /// GTIDs to exclude, encoded as in a Previous_gtids event, if the log is requested by GTID set.
    pub gtids: Option<&'a [u8]>,
}

/// Action of the server at the end of its last log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteEndAction {
    /// It ends the stream.
    Stop,
    /// It waits for more events.
    Wait,
}

/// Options of a connection, as given.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteServerOptions {
    /// Host; `None` for this machine.
    pub host: Option<Vec<u8>>,
    /// TCP port; 0 for the default.
    pub port: u16,
    /// Path of the socket file.
    pub socket: Option<Vec<u8>>,
    /// Transport.
    pub protocol: Option<RemoteProtocol>,
    /// Account.
    pub user: Option<Vec<u8>>,
    /// Password.
    pub password: Option<Vec<u8>>,
    /// Encryption and verification.
    pub ssl_mode: Option<RemoteSslMode>,
    /// Other TLS options.
    pub tls: RemoteTlsOptions,
    /// Local address to connect from.
    pub bind_address: Option<Vec<u8>>,
    /// Permission to request the server's RSA key, which encrypts passwords without TLS.
    pub get_server_public_key: bool,
    /// Path of the server's RSA key.
    pub server_public_key_path: Option<Vec<u8>>,
    /// `--compress`: compress the connection if the server supports it.
    pub compress: bool,
    /// Allowed compression algorithms, separated by commas.
    pub compression_algorithms: Option<Vec<u8>>,
    /// Compression level of zstd.
    pub zstd_level: u32,
}

impl RemoteServerOptions {
    /// Returns whether a CA is given together with an explicit SSL mode that does not verify certificates.
    pub(crate) const fn has_unused_ca(&self) -> bool {
        matches!(
            self.ssl_mode,
            Some(RemoteSslMode::Disabled | RemoteSslMode::Preferred | RemoteSslMode::Required)
        ) && (self.tls.ca.is_some() || self.tls.capath.is_some())
    }
}

/// TLS options of a connection, as given, except the SSL mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteTlsOptions {
    /// File of trusted CA certificates.
    pub ca: Option<Vec<u8>>,
    /// Directory of trusted CA certificates.
    pub capath: Option<Vec<u8>>,
    /// File of the client certificate.
    pub cert: Option<Vec<u8>>,
    /// File of the client certificate's key.
    pub key: Option<Vec<u8>>,
    /// File of certificate revocation lists.
    pub crl: Option<Vec<u8>>,
    /// Directory of certificate revocation lists.
    pub crlpath: Option<Vec<u8>>,
    /// Ciphers before TLS 1.3, separated by colons.
    pub cipher: Option<Vec<u8>>,
    /// Ciphersuites of TLS 1.3, separated by colons.
    pub ciphersuites: Option<Vec<u8>>,
    /// Versions of TLS, separated by commas.
    pub version: Option<Vec<u8>>,
    /// Server name to request (SNI).
    pub server_name: Option<Vec<u8>>,
}

/// Settings for reading from a server.
pub(crate) struct RemoteSettings {
    pub(crate) mode: RemoteMode,
    pub(crate) connection: RemoteServerOptions,
    pub(crate) to_last_log: bool,
    pub(crate) at_end: RemoteEndAction,
    pub(crate) server_id: u32,
    /// Prefix of output files, if logs are written as raw files.
    pub(crate) raw: Option<Vec<u8>>,
}

/// Options that are parsed, but not supported.
const UNSUPPORTED: [(OptionId, &str); 2] =
    [(OptionId::DefaultAuth, "default_auth"), (OptionId::SslSessionData, "ssl-session-data")];

impl RemoteSettings {
    /// Creates the settings; `None` if no server is to be read.
    pub(crate) fn new(
        values: &OptionValues,
        parsed: &ParsedOptions<'_>,
        diagnostics: &mut DumpDiagnostics<'_>,
    ) -> Result<Option<Self>, DumpExit> {
        let Some(by) = parsed.remote else { return Ok(None) };
        for (which, name) in UNSUPPORTED {
            if values.text(which).is_some() {
                diagnostics.error(&[b"--", name.as_bytes(), b" is not supported: remove the option."]);
                return Err(DumpExit::NOT_STARTED);
            }
        }
        let text = |key| values.text(key).map(<[u8]>::to_vec);
        let (to_last_log, stop_never) =
            (values.switch(OptionId::ToLastLog), values.switch(OptionId::StopNever));
        let raw = values.switch(OptionId::Raw).then(|| text(OptionId::ResultFile).unwrap_or_default());
        Ok(Some(Self {
            mode: by,
            connection: RemoteServerOptions {
                host: text(OptionId::Host),
                port: u16::try_from(values.signed(OptionId::Port)).unwrap_or_default(),
                socket: text(OptionId::Socket),
                protocol: parsed.protocol,
                user: text(OptionId::User),
                password: parsed.password.clone(),
                ssl_mode: parsed.ssl_mode,
                tls: RemoteTlsOptions {
                    ca: text(OptionId::SslCa),
                    capath: text(OptionId::SslCapath),
                    cert: text(OptionId::SslCert),
                    key: text(OptionId::SslKey),
                    crl: text(OptionId::SslCrl),
                    crlpath: text(OptionId::SslCrlpath),
                    cipher: text(OptionId::SslCipher),
                    ciphersuites: text(OptionId::TlsCiphersuites),
                    version: text(OptionId::TlsVersion),
                    server_name: text(OptionId::TlsSniServername),
                },
                bind_address: text(OptionId::BindAddress),
                get_server_public_key: values.switch(OptionId::GetServerPublicKey),
                server_public_key_path: text(OptionId::ServerPublicKeyPath),
                compress: values.switch(OptionId::Compress),
                compression_algorithms: text(OptionId::CompressionAlgorithms),
                zstd_level: u32::try_from(values.unsigned(OptionId::ZstdCompressionLevel)).unwrap_or(3),
            },
            to_last_log,
            at_end: if stop_never { RemoteEndAction::Wait } else { RemoteEndAction::Stop },
            server_id: server_id(values, to_last_log && stop_never),
            raw,
        }))
    }
}

/// Returns the server id to register with. A server that waits for more events needs one.
fn server_id(values: &OptionValues, is_needed: bool) -> u32 {
    let given = |key| u32::try_from(values.signed(key)).ok();
    let needed = is_needed.then(|| given(OptionId::StopNeverSlaveServerId).unwrap_or(1));
    given(OptionId::ConnectionServerId).or(needed).unwrap_or_default()
}

/// mysqlbinlog's error for a start position that the protocol cannot represent. The wrong number is mysqlbinlog's.
const START_TOO_LARGE: &[u8] =
    b"The option --start-position cannot be used with values greater than 4 GiB (4294967854), when one of \
    read-from-remote-server or read-from-remote-source is used.";

/// Refuses combinations of options that no server can satisfy.
pub(crate) fn check(
    values: &OptionValues,
    parsed: &ParsedOptions<'_>,
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<(), DumpExit> {
    if parsed.remote_server_switch && parsed.remote == Some(RemoteMode::ByGtids) {
        diagnostics.error(&[
            b"The option read-from-remote-server cannot be used when read-from-remote-source is defined and is not \
            equal to BINLOG-DUMP-NON-GTIDS",
        ]);
        return Err(DumpExit::FAILURE);
    }
    if parsed.remote.is_some() && values.unsigned(OptionId::StartPosition) > u64::from(u32::MAX) {
        diagnostics.error(&[START_TOO_LARGE]);
        return Err(DumpExit::FAILURE);
    }
    if !values.switch(OptionId::Raw) {
        return Ok(());
    }
    if values.text(OptionId::Database).is_some() {
        diagnostics.warning(&[b"The --database option is ignored with --raw mode"]);
    }
    let mut refuse = |why: &[u8]| {
        diagnostics.error(&[why]);
        Err(DumpExit::FAILURE)
    };
    if parsed.remote.is_none() {
        return refuse(
            b"The --raw flag requires one of --read-from-remote-source or --read-from-remote-server",
        );
    }
    if values.text(OptionId::IncludeGtids).is_some() {
        return refuse(b"You cannot use --include-gtids and --raw together.");
    }
    if parsed.remote == Some(RemoteMode::ByPosition) && values.text(OptionId::ExcludeGtids).is_some() {
        return refuse(
            b"You cannot use both of --exclude-gtids and --raw together with one of --read-from-remote-server or \
            --read-from-remote-source=BINLOG-DUMP-NON-GTID.",
        );
    }
    if values.unsigned(OptionId::StopPosition) != u64::MAX {
        diagnostics.warning(&[b"The --stop-position option is ignored in raw mode"]);
    }
    if parsed.stop_time != i64::MAX {
        diagnostics.warning(&[b"The --stop-datetime option is ignored in raw mode"]);
    }
    Ok(())
}

//! Settings for reading from a server, from mysqlbinlog's options.

use crate::dump_diagnostics::DumpDiagnostics;
use crate::options::option_table::OptionId;
use crate::options::{DumpExit, OptionValues};
use crate::parsed_options::{ParsedOptions, RemoteMode};
use crate::remote::{RemoteEndAction, RemoteServerOptions, RemoteTlsOptions};

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
        let fips = parsed.needs_fips.then_some("ssl-fips-mode");
        let unsupported = UNSUPPORTED.into_iter().filter(|(option, _)| values.text(*option).is_some());
        if let Some(name) = unsupported.map(|(_, name)| name).chain(fips).next() {
            diagnostics.error(&[b"--", name.as_bytes(), b" is not supported: remove the option."]);
            return Err(DumpExit::NOT_STARTED);
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

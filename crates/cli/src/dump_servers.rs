//! Servers that `bintide dump` reads from, with the connection rules and error texts of MySQL's client library.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use mysqlbinlog::remote::{
    LogRequest, RemoteEndAction, RemoteProtocol, RemoteServerOptions, RemoteSslMode, RemoteTlsOptions,
    ServerAccess,
};
use servers::{
    CancelToken, ConnectionError, DEFAULT_PORT, LinkOptions, PasswordOption, PasswordSource, PublicKeySource,
    ServerAddress, ServerLink, SslMode, TlsPolicy, TlsVersion, default_socket,
};
use wire::{
    BinlogDump, BinlogDumpGtid, CleartextPolicy, ClientCommand, DumpFlags, EofPacket, EventPacket,
    PacketCompression, SemiSync, WireError,
};

use crate::connection_args::options_of_environment;

/// Connection to the present server. A new connection replaces it.
#[derive(Default)]
pub(crate) struct DumpServers {
    link: Option<ServerLink>,
    event: Vec<u8>,
}

/// Read timeout: an idle server sends nothing until the next event, so 100 years.
const READ_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Default level of zlib.
const ZLIB_LEVEL: u8 = 6;

impl ServerAccess for DumpServers {
    fn connect(&mut self, connection: &RemoteServerOptions) -> Result<(), String> {
        self.link = None;
        let address = address(connection)?;
        let options = LinkOptions {
            bind: connection.bind_address.as_ref().map(|text| String::from_utf8_lossy(text).into_owned()),
            ..LinkOptions::default()
        };
        self.link =
            Some(ServerLink::open(&address, &options).map_err(|error| connect_error_text(&error, &address))?);
        Ok(())
    }

    fn query(&mut self, sql: &str) -> Result<Vec<u8>, String> {
        let rows = self.link()?.query(sql).map_err(|error| error_text(&error))?;
        Ok(rows.into_iter().flatten().next().flatten().unwrap_or_default())
    }

    fn request_log(&mut self, log: &LogRequest<'_>) -> Result<(), String> {
        let mut flags = DumpFlags::HEARTBEAT_V2;
        if log.at_end == RemoteEndAction::Stop {
            flags.0 |= DumpFlags::NON_BLOCK.0;
        }
        let (server_id, file) = (log.server_id, log.name);
        let command = match log.gtids {
            Some(gtids) => ClientCommand::BinlogDumpGtid(BinlogDumpGtid {
                flags,
                server_id,
                file,
                position: log.position,
                gtids,
            }),
            None => {
                let position = u32::try_from(log.position)
                    .map_err(|_| "the protocol does not support positions beyond 4 GiB".to_owned())?;
                ClientCommand::BinlogDump(BinlogDump { position, flags, server_id, file })
            }
        };
        self.link()?.send(&command).map_err(|error| error_text(&error))
    }

    fn has_more(&mut self) -> Result<bool, String> {
        self.link()?.has_more().map_err(|error| error_text(&error))
    }

    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        let link = self.link.as_mut().ok_or_else(no_link_error)?;
        let capabilities = link.session().capabilities;
        let packet = link.next().map_err(|error| error_text(&error))?;
        if EventPacket::is(packet) {
            let found = EventPacket::decode(packet, SemiSync::Off).map_err(|error| error.to_string())?;
            self.event.clear();
            self.event.extend_from_slice(found.event);
            return Ok(Some(&self.event));
        }
        if EofPacket::is(packet, capabilities) {
            return Ok(None);
        }
        match wire::CommandResponse::decode(packet, capabilities) {
            Err(error) => Err(error_text(&error.into())),
            Ok(_) => {
                Err(WireError::Unexpected { found: packet.first().copied(), expected: "an event" }
                    .to_string())
            }
        }
    }
}

impl DumpServers {
    fn link(&mut self) -> Result<&mut ServerLink, String> {
        self.link.as_mut().ok_or_else(no_link_error)
    }
}

fn no_link_error() -> String {
    "MySQL server has gone away".to_owned()
}

/// Returns the server's address by the rules of MySQL's client library: localhost means the socket.
fn address(connection: &RemoteServerOptions) -> Result<ServerAddress, String> {
    let text =
        |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|text| String::from_utf8_lossy(text).into_owned());
    let defaults = options_of_environment();
    let host = text(&connection.host).unwrap_or_else(|| "localhost".to_owned());
    let is_local = match connection.protocol {
        Some(RemoteProtocol::Socket) if host != "localhost" => {
            return Err("Wrong or unknown protocol".to_owned());
        }
        Some(RemoteProtocol::Socket) => true,
        Some(RemoteProtocol::Tcp) => false,
        Some(RemoteProtocol::WindowsOnly) => return Err("Wrong or unknown protocol".to_owned()),
        None => host == "localhost",
    };
    let socket = is_local.then(|| {
        let named = text(&connection.socket).map(PathBuf::from);
        named.or(defaults.socket).unwrap_or_else(default_socket)
    });
    let port = match connection.port {
        0 => defaults.port.unwrap_or(DEFAULT_PORT),
        port => port,
    };
    let user = text(&connection.user).or(defaults.user).unwrap_or_else(|| "root".to_owned());
    let password = match (text(&connection.password), defaults.password) {
        (Some(password), _) => PasswordSource::Text(password),
        (None, Some(PasswordOption::Source(password))) => password,
        (None, _) => PasswordSource::None,
    };
    let compressions = compressions(connection)?;
    let tls = tls(connection)?;
    let public_key = public_key(connection);
    let cancel = CancelToken::default();
    Ok(ServerAddress {
        user,
        password,
        host,
        port,
        socket,
        tls,
        public_key,
        compressions,
        cleartext: CleartextPolicy::Refuse,
        timeout: READ_TIMEOUT,
        cancel,
    })
}

fn tls(connection: &RemoteServerOptions) -> Result<TlsPolicy, String> {
    let RemoteTlsOptions { ca, capath, cert, key, crl, crlpath, cipher, ciphersuites, version, server_name } =
        &connection.tls;
    let names = |text: &Option<Vec<u8>>| {
        let text = String::from_utf8_lossy(text.as_deref()?).into_owned();
        Some(text.split(':').map(|name| name.trim().to_owned()).collect())
    };
    let path = |text: &Option<Vec<u8>>| text.as_deref().map(as_path);
    let policy = TlsPolicy {
        mode: match connection.ssl_mode {
            Some(RemoteSslMode::Disabled) => SslMode::Disabled,
            // As in MySQL's programs, a CA without a mode means VERIFY_CA.
            None if ca.is_some() || capath.is_some() => SslMode::VerifyCa,
            None | Some(RemoteSslMode::Preferred) => SslMode::Preferred,
            Some(RemoteSslMode::Required) => SslMode::Required,
            Some(RemoteSslMode::VerifyCa) => SslMode::VerifyCa,
            Some(RemoteSslMode::VerifyIdentity) => SslMode::VerifyIdentity,
        },
        authorities: path(ca),
        authority_directory: path(capath),
        revocations: path(crl),
        revocation_directory: path(crlpath),
        certificate: path(cert),
        key: path(key),
        versions: versions(version.as_deref())?,
        ciphers: names(cipher),
        suites: names(ciphersuites),
        server_name: server_name.as_ref().map(|name| String::from_utf8_lossy(name).into_owned()),
    };
    match policy.check() {
        Ok(()) => Ok(policy),
        Err(_) => Err(
            "SSL connection error: CA certificate is required if ssl-mode is VERIFY_CA or VERIFY_IDENTITY"
                .to_owned(),
        ),
    }
}

fn versions(text: Option<&[u8]>) -> Result<Vec<TlsVersion>, String> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let text = String::from_utf8_lossy(text).into_owned();
    let version = |name: &str| match name.trim().to_ascii_lowercase().as_str() {
        "tlsv1.2" => Ok(TlsVersion::Tls12),
        "tlsv1.3" => Ok(TlsVersion::Tls13),
        _ => Err("SSL connection error: TLS version is invalid".to_owned()),
    };
    text.split(',').map(version).collect()
}

fn as_path(text: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(text))
}

/// Returns the algorithms in order of preference. An algorithm that is not named is not used.
fn compressions(connection: &RemoteServerOptions) -> Result<Vec<Option<PacketCompression>>, String> {
    let zlib = PacketCompression::Zlib { level: ZLIB_LEVEL };
    let Some(names) = &connection.compression_algorithms else {
        return Ok(if connection.compress { vec![Some(zlib), None] } else { vec![None] });
    };
    let names = String::from_utf8_lossy(names).into_owned();
    let named = names.split(',').map(|name| match name.trim().to_ascii_lowercase().as_str() {
        "zlib" => Ok(Some(zlib)),
        "zstd" => {
            Ok(Some(PacketCompression::Zstd { level: u8::try_from(connection.zstd_level).unwrap_or(3) }))
        }
        "uncompressed" => Ok(None),
        _ => Err(format!("invalid algorithm ({name}) specified for option --compression-algorithms")),
    });
    named.collect()
}

fn public_key(connection: &RemoteServerOptions) -> PublicKeySource {
    match (&connection.server_public_key_path, connection.get_server_public_key) {
        (Some(path), _) => PublicKeySource::File(as_path(path)),
        (None, true) => PublicKeySource::Server,
        (None, false) => PublicKeySource::Unknown,
    }
}

/// Returns the text of MySQL's client library for a failed connection.
fn connect_error_text(error: &ConnectionError, address: &ServerAddress) -> String {
    let ConnectionError::Lost { reason, .. } = error else { return error_text(error) };
    let code = reason.rsplit_once("(os error ").and_then(|(_, rest)| rest.strip_suffix(')'));
    match (code, &address.socket) {
        (Some(code), Some(socket)) => {
            format!("Can't connect to local MySQL server through socket '{}' ({code})", socket.display())
        }
        (Some(code), None) => {
            format!("Can't connect to MySQL server on '{}:{}' ({code})", address.host, address.port)
        }
        (None, _) => reason.clone(),
    }
}

/// Returns the text of MySQL's client library for an error: only the server's message, if it has one.
fn error_text(error: &ConnectionError) -> String {
    match error {
        ConnectionError::Refused { message, .. } => message.clone(),
        ConnectionError::Lost { .. } => "Lost connection to MySQL server during query".to_owned(),
        ConnectionError::PlaintextPassword { plugin } => format!(
            "Authentication plugin '{plugin}' reported error: Authentication requires secure connection; give \
             --ssl-mode=REQUIRED, or --get-server-public-key to request the RSA public key that encrypts the password"
        ),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use servers::{ConnectionError, ServerAddress};

    use super::{connect_error_text, error_text};

    #[test]
    fn errors_are_worded_as_by_the_client_library() {
        let lost = ConnectionError::lost("Connection refused (os error 111)");
        let check = |address: &str, expected: &str| {
            assert_eq!(connect_error_text(&lost, &ServerAddress::parse(address).unwrap()), expected);
        };
        check("mysql://r@127.0.0.1:1/", "Can't connect to MySQL server on '127.0.0.1:1' (111)");
        check(
            "mysql://r@x/?socket=/run/x.sock",
            "Can't connect to local MySQL server through socket '/run/x.sock' (111)",
        );
        let refused = ConnectionError::Refused { code: 1236, message: "no such log".to_owned() };
        assert_eq!(error_text(&refused), "no such log");
    }
}

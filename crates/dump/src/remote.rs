//! Logs that a server sends: what mysqlbinlog asks of it. How it is reached is for others to know.

use crate::options::table::Which;
use crate::options::{Exit, Values};
use crate::settings::{Heeded, Remote};
pub use crate::settings::{Protocol, SslMode};
use crate::talk::Talk;

/// Reaches servers, one connection after the other. Errors are what MySQL's client library would say.
pub trait Servers {
    /// Connects, in place of the connection before.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, or does not let this account in.
    fn connect(&mut self, connection: &Connection) -> Result<(), String>;

    /// Runs a statement, and gives the first value of its first row; empty if there is none.
    ///
    /// # Errors
    ///
    /// When the server refuses, or is gone.
    fn query(&mut self, sql: &str) -> Result<Vec<u8>, String>;

    /// Asks for a log.
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    fn ask(&mut self, log: &AskedLog<'_>) -> Result<(), String>;

    /// Has the next event come already?
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    fn has_more(&mut self) -> Result<bool, String>;

    /// The next event; none at the end.
    ///
    /// # Errors
    ///
    /// When the server refuses to go on, or is gone.
    fn next(&mut self) -> Result<Option<&[u8]>, String>;
}

/// Reaches none.
pub struct NoServers;

impl Servers for NoServers {
    fn connect(&mut self, _: &Connection) -> Result<(), String> {
        Err("there is no way to a server from here".to_owned())
    }

    fn query(&mut self, _: &str) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }

    fn ask(&mut self, _: &AskedLog<'_>) -> Result<(), String> {
        Ok(())
    }

    fn has_more(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        Ok(None)
    }
}

/// Which log to send, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedLog<'a> {
    /// The log's name.
    pub name: &'a [u8],
    /// Where to start in it: 4 is its first event.
    pub position: u64,
    /// The number to register by; 0 for none.
    pub server_id: u32,
    /// Whether to wait for more at the end of the last log.
    pub waits: Waits,
    /// The GTIDs to leave out, as in a Previous_gtids event, if the log is asked for by GTIDs.
    pub gtids: Option<&'a [u8]>,
}

/// What the server does at the end of its last log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// It says so.
    No,
    /// It waits for more.
    Yes,
}

/// Which server, as whom, and how. Texts are as they were given.
#[derive(Clone, PartialEq, Eq)]
pub struct Connection {
    /// The host; none for this machine.
    pub host: Option<Vec<u8>>,
    /// The TCP port; 0 for the usual one.
    pub port: u16,
    /// The socket file.
    pub socket: Option<Vec<u8>>,
    /// What carries the bytes.
    pub protocol: Option<Protocol>,
    /// The account.
    pub user: Option<Vec<u8>>,
    /// Its password.
    pub password: Option<Vec<u8>>,
    /// Whether the connection is encrypted.
    pub ssl_mode: Option<SslMode>,
    /// How it is encrypted.
    pub tls: TlsTexts,
    /// The address of this machine to connect from.
    pub bind_address: Option<Vec<u8>>,
    /// May the server be asked for the key that passwords are encrypted by without TLS?
    pub get_server_public_key: bool,
    /// The file with that key.
    pub server_public_key_path: Option<Vec<u8>>,
    /// Is the connection to be compressed if the server can?
    pub compress: bool,
    /// How it may be compressed: names, with commas between.
    pub compression_algorithms: Option<Vec<u8>>,
    /// The level of zstd.
    pub zstd_level: u32,
}

impl Connection {
    /// Is an authority given with a mode, named, that does not verify anything?
    pub(crate) const fn has_idle_authority(&self) -> bool {
        matches!(self.ssl_mode, Some(SslMode::Disabled | SslMode::Preferred | SslMode::Required))
            && (self.tls.ca.is_some() || self.tls.capath.is_some())
    }
}

/// How a connection is encrypted, beside what is checked. Texts are as they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsTexts {
    /// The file of trusted authorities.
    pub ca: Option<Vec<u8>>,
    /// A folder of them.
    pub capath: Option<Vec<u8>>,
    /// The file of the certificate to show.
    pub cert: Option<Vec<u8>>,
    /// The file of its key.
    pub key: Option<Vec<u8>>,
    /// The file of revoked certificates.
    pub crl: Option<Vec<u8>>,
    /// A folder of them.
    pub crlpath: Option<Vec<u8>>,
    /// The ciphers to offer before TLS 1.3: names with colons between.
    pub cipher: Option<Vec<u8>>,
    /// Those of TLS 1.3.
    pub ciphersuites: Option<Vec<u8>>,
    /// The versions to offer: names with commas between.
    pub version: Option<Vec<u8>>,
    /// The name to ask the server for.
    pub server_name: Option<Vec<u8>>,
}

/// What is asked of a server.
pub(crate) struct RemoteSettings {
    pub(crate) by: Remote,
    pub(crate) connection: Connection,
    pub(crate) to_last_log: bool,
    pub(crate) waits: Waits,
    pub(crate) server_id: u32,
    /// What the names of files start with, if logs are written as they are.
    pub(crate) raw: Option<Vec<u8>>,
}

/// What there is an option for, and nothing else.
const UNSUPPORTED: [(Which, &str); 2] =
    [(Which::DefaultAuth, "default_auth"), (Which::SslSessionData, "ssl-session-data")];

impl RemoteSettings {
    /// What options say of a server, if one is to be read from.
    pub(crate) fn new(
        values: &Values,
        heeded: &Heeded<'_>,
        talk: &mut Talk<'_>,
    ) -> Result<Option<Self>, Exit> {
        let Some(by) = heeded.remote else { return Ok(None) };
        for (which, name) in UNSUPPORTED {
            if values.text(which).is_some() {
                talk.error(&[b"--", name.as_bytes(), b" is not supported: remove the option."]);
                return Err(Exit::NOT_BEGUN);
            }
        }
        let text = |key| values.text(key).map(<[u8]>::to_vec);
        let (to_last_log, stop_never) = (values.switch(Which::ToLastLog), values.switch(Which::StopNever));
        let raw = values.switch(Which::Raw).then(|| text(Which::ResultFile).unwrap_or_default());
        Ok(Some(Self {
            by,
            connection: Connection {
                host: text(Which::Host),
                port: u16::try_from(values.signed(Which::Port)).unwrap_or_default(),
                socket: text(Which::Socket),
                protocol: heeded.protocol,
                user: text(Which::User),
                password: heeded.password.clone(),
                ssl_mode: heeded.ssl_mode,
                tls: TlsTexts {
                    ca: text(Which::SslCa),
                    capath: text(Which::SslCapath),
                    cert: text(Which::SslCert),
                    key: text(Which::SslKey),
                    crl: text(Which::SslCrl),
                    crlpath: text(Which::SslCrlpath),
                    cipher: text(Which::SslCipher),
                    ciphersuites: text(Which::TlsCiphersuites),
                    version: text(Which::TlsVersion),
                    server_name: text(Which::TlsSniServername),
                },
                bind_address: text(Which::BindAddress),
                get_server_public_key: values.switch(Which::GetServerPublicKey),
                server_public_key_path: text(Which::ServerPublicKeyPath),
                compress: values.switch(Which::Compress),
                compression_algorithms: text(Which::CompressionAlgorithms),
                zstd_level: u32::try_from(values.unsigned(Which::ZstdCompressionLevel)).unwrap_or(3),
            },
            to_last_log,
            waits: if stop_never { Waits::Yes } else { Waits::No },
            server_id: server_id(values, to_last_log && stop_never),
            raw,
        }))
    }
}

/// The number to register by. A server that waits for more needs one.
fn server_id(values: &Values, is_needed: bool) -> u32 {
    let given = |key| u32::try_from(values.signed(key)).ok();
    let needed = is_needed.then(|| given(Which::StopNeverSlaveServerId).unwrap_or(1));
    given(Which::ConnectionServerId).or(needed).unwrap_or_default()
}

/// mysqlbinlog's words for a start that the protocol has no room for; the number in them is mysqlbinlog's, too.
const START_BEYOND_MAX: &[u8] =
    b"The option --start-position cannot be used with values greater than 4 GiB (4294967854), when one of \
    read-from-remote-server or read-from-remote-source is used.";

/// Refuses what cannot be asked of any server.
pub(crate) fn check(values: &Values, heeded: &Heeded<'_>, talk: &mut Talk<'_>) -> Result<(), Exit> {
    if heeded.remote_by_switch && heeded.remote == Some(Remote::ByGtids) {
        talk.error(&[
            b"The option read-from-remote-server cannot be used when read-from-remote-source is defined and is not \
            equal to BINLOG-DUMP-NON-GTIDS",
        ]);
        return Err(Exit::FAILURE);
    }
    if heeded.remote.is_some() && values.unsigned(Which::StartPosition) > u64::from(u32::MAX) {
        talk.error(&[START_BEYOND_MAX]);
        return Err(Exit::FAILURE);
    }
    if !values.switch(Which::Raw) {
        return Ok(());
    }
    if values.text(Which::Database).is_some() {
        talk.warning(&[b"The --database option is ignored with --raw mode"]);
    }
    let mut refuse = |why: &[u8]| {
        talk.error(&[why]);
        Err(Exit::FAILURE)
    };
    if heeded.remote.is_none() {
        return refuse(
            b"The --raw flag requires one of --read-from-remote-source or --read-from-remote-server",
        );
    }
    if values.text(Which::IncludeGtids).is_some() {
        return refuse(b"You cannot use --include-gtids and --raw together.");
    }
    if heeded.remote == Some(Remote::ByPosition) && values.text(Which::ExcludeGtids).is_some() {
        return refuse(
            b"You cannot use both of --exclude-gtids and --raw together with one of --read-from-remote-server or \
            --read-from-remote-source=BINLOG-DUMP-NON-GTID.",
        );
    }
    if values.unsigned(Which::StopPosition) != u64::MAX {
        talk.warning(&[b"The --stop-position option is ignored in raw mode"]);
    }
    if heeded.stop_time != i64::MAX {
        talk.warning(&[b"The --stop-datetime option is ignored in raw mode"]);
    }
    Ok(())
}

//! A client's side of the handshake.

use std::mem;

use binlog::Flavour;

use super::auth::{self, PADDING_SIZE, Plugin};
use super::{AuthMoreData, AuthSwitchRequest, Greeting, LoginRequest, SslRequest};
use crate::answer::{ErrPacket, OkPacket};
use crate::capability::Capabilities;
use crate::compress::Compression;
use crate::error::WireError;

/// What a client asks for whenever the server has it.
const WANTED: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::DEPRECATE_EOF.0,
);
/// What every server since MySQL 4.1 has, and a client cannot do without.
const NEEDED: Capabilities = Capabilities(
    Capabilities::PROTOCOL_41.0 | Capabilities::SECURE_CONNECTION.0 | Capabilities::PLUGIN_AUTH.0,
);
/// utf8mb4_general_ci: MySQL and MariaDB have it under the same number.
const COLLATION: u8 = 45;
/// The largest packet that any server can be set to send.
const PACKET_MAX: u32 = 1 << 30;
/// What a MariaDB of before version 11 puts in front of its version, for the sake of old replicas.
const MARIADB_PREFIX: &str = "5.5.5-";

/// The server's answer of caching_sha2_password: it has seen this password before.
const CACHED: &[u8] = &[3];
/// It has not, and wants the password itself.
const NOT_CACHED: &[u8] = &[4];
/// A client's wish for the server's public key: of caching_sha2_password, and of sha256_password.
const KEY_WISH_CACHING: u8 = 2;
const KEY_WISH_SHA256: u8 = 1;

/// Who wants to be let in, and how.
#[derive(Clone)]
pub struct ClientOptions {
    /// The account's name.
    pub user: Vec<u8>,
    /// Its password; empty for none. Never shown.
    pub password: Vec<u8>,
    /// What to ask for, beside what every client asks for, if the server has it.
    pub capabilities: Capabilities,
    /// Whether the connection goes over to TLS.
    pub tls: TlsWish,
    /// What carries the bytes.
    pub transport: Transport,
    /// Where the key comes from that a password is encrypted by without TLS.
    pub server_key: ServerKey,
    /// Whether a server may ask for the password itself, as `mysql_clear_password` does.
    pub cleartext: Cleartext,
    /// How packets are to be compressed (`None`: not at all), the best first: what the server has is taken.
    pub compressions: Vec<Option<Compression>>,
    /// What the client says of itself: names and values, shown in the server's
    /// `performance_schema.session_connect_attrs`.
    pub attributes: Vec<(String, String)>,
    /// Random bytes, others for each connection: what the password is encrypted with besides.
    pub padding: [u8; PADDING_SIZE],
}

/// Whether a connection goes over to TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsWish {
    /// No.
    Never,
    /// If the server can. Whoever sits in between can keep it from that.
    IfOffered,
    /// Yes, or there is no connection.
    Always,
}

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A network: others may read.
    Network,
    /// A socket on the same machine: nobody else reads.
    Local,
}

/// Where the key comes from that a password is encrypted by without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerKey {
    /// Nowhere: passwords of such accounts need TLS.
    Refuse,
    /// From the server. Whoever sits in between can send another, and read the password.
    Ask,
    /// From the user, as PEM.
    Known(Vec<u8>),
}

impl ServerKey {
    /// A key that is known, as PEM, which this password can be encrypted by.
    ///
    /// # Errors
    ///
    /// [`WireError::ServerKey`] when it is no such key, or the password is too long for it.
    pub fn known(key: Vec<u8>, password: &[u8]) -> Result<Self, WireError> {
        auth::encrypted(password, &[0; PADDING_SIZE], &key, &[0; PADDING_SIZE])?;
        Ok(Self::Known(key))
    }
}

/// Whether a server may ask for the password itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleartext {
    /// No.
    Refuse,
    /// Over TLS, yes.
    OverTls,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this, then read.
    Send(Vec<u8>),
    /// Send this, begin TLS, then call [`ClientHandshake::encrypted`]. Nothing may have been read ahead.
    StartTls(Vec<u8>),
    /// Read.
    Wait,
    /// The server has let the client in: commands may follow, compressed if that was agreed on.
    Done(Session),
}

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// What both can do.
    pub capabilities: Capabilities,
    /// The server's version, as it calls it: `9.7.4`, `10.11.6-MariaDB-log`.
    pub server_version: String,
    /// Whose server it is.
    pub flavour: Flavour,
    /// The server's number for this connection.
    pub connection_id: u32,
    /// How packets are compressed from here on.
    pub compression: Option<Compression>,
    /// How the password was proved.
    pub plugin: &'static str,
    /// Is the connection encrypted?
    pub is_encrypted: bool,
}

/// A client's side of the handshake: what came in, what is to be done next.
pub struct ClientHandshake {
    options: ClientOptions,
    phase: Phase,
}

enum Phase {
    /// The server speaks first.
    Greeting,
    /// TLS was asked for.
    Tls(Exchange),
    /// A proof was sent.
    Proving(Exchange),
    /// The server was asked for its key.
    Key(Exchange),
    /// In, or refused.
    Over,
}

struct Exchange {
    session: Session,
    plugin: Plugin,
    nonce: Vec<u8>,
}

impl ClientHandshake {
    /// At the start: the server speaks first.
    pub fn new(options: ClientOptions) -> Self {
        Self { options, phase: Phase::Greeting }
    }

    /// A packet came.
    ///
    /// # Errors
    ///
    /// [`WireError::Refused`] when the server refuses; otherwise when server and options do not go together, or the
    /// packet is not what must come now. The connection is of no use after that.
    pub fn read(&mut self, payload: &[u8]) -> Result<Next, WireError> {
        let phase = mem::replace(&mut self.phase, Phase::Over);
        if ErrPacket::is(payload) {
            return Err(ErrPacket::decode(payload)?.to_error().into());
        }
        match phase {
            Phase::Greeting => self.greeted(&Greeting::decode(payload)?),
            Phase::Proving(exchange) if OkPacket::is(payload) => {
                OkPacket::decode(payload, exchange.session.capabilities)?;
                let plugin = exchange.plugin.name();
                Ok(Next::Done(Session { plugin, ..exchange.session }))
            }
            Phase::Proving(exchange) if AuthSwitchRequest::is(payload) => {
                self.switched(exchange, &AuthSwitchRequest::decode(payload)?)
            }
            Phase::Proving(exchange) if AuthMoreData::is(payload) => {
                self.told_more(exchange, AuthMoreData::decode(payload)?.data)
            }
            Phase::Key(exchange) => {
                let key = AuthMoreData::decode(payload)?.data;
                let proof =
                    auth::encrypted(&self.options.password, &exchange.nonce, key, &self.options.padding)?;
                self.prove(exchange, proof)
            }
            Phase::Proving(_) => Err(WireError::unexpected(payload, "a step of the proof of a password")),
            Phase::Tls(_) | Phase::Over => Err(WireError::unexpected(payload, "nothing")),
        }
    }

    /// TLS stands.
    ///
    /// # Errors
    ///
    /// As [`ClientHandshake::read`].
    ///
    /// # Panics
    ///
    /// When TLS was not asked for.
    pub fn encrypted(&mut self) -> Result<Next, WireError> {
        match mem::replace(&mut self.phase, Phase::Over) {
            Phase::Tls(mut exchange) => {
                exchange.session.is_encrypted = true;
                self.log_in(exchange)
            }
            _ => panic!("ours: TLS begins when it was asked for"),
        }
    }

    /// Returns the server's version, once it has been asked to begin TLS and until that has begun.
    pub fn server_version(&self) -> Option<&str> {
        match &self.phase {
            Phase::Tls(exchange) => Some(&exchange.session.server_version),
            _ => None,
        }
    }

    fn greeted(&mut self, greeting: &Greeting<'_>) -> Result<Next, WireError> {
        let exchange = self.agree(greeting)?;
        if !exchange.session.capabilities.contains(Capabilities::SSL) {
            return self.log_in(exchange);
        }
        let mut request = Vec::new();
        head(&exchange.session).encode(&mut request);
        self.phase = Phase::Tls(exchange);
        Ok(Next::StartTls(request))
    }

    /// What both can do.
    fn agree(&self, greeting: &Greeting<'_>) -> Result<Exchange, WireError> {
        let offered = greeting.capabilities;
        if !offered.contains(NEEDED) {
            return Err(WireError::TooOld { version: lossy(greeting.server_version) });
        }
        let mut capabilities = offered.both(WANTED | self.options.capabilities);
        match (self.options.tls, offered.contains(Capabilities::SSL)) {
            (TlsWish::Always, false) => return Err(WireError::NoTls),
            (TlsWish::Always | TlsWish::IfOffered, true) => capabilities = capabilities | Capabilities::SSL,
            (TlsWish::Never, _) | (TlsWish::IfOffered, false) => {}
        }
        let wishes = self.options.compressions.iter();
        let compression = wishes.copied().find(|wish| offered.contains(needed_for(*wish)));
        let compression = compression.ok_or(WireError::NoCompression)?;
        capabilities = capabilities | needed_for(compression);
        let (head, tail) = greeting.nonce;
        let (flavour, server_version) = version(greeting);
        let session = Session {
            capabilities,
            server_version,
            flavour,
            connection_id: greeting.connection_id,
            compression,
            plugin: "",
            is_encrypted: false,
        };
        // A hash is safe to show to any server. Where the account needs another proof, the server asks for it.
        let plugin = match Plugin::find(greeting.plugin) {
            Ok(Plugin::Native) => Plugin::Native,
            _ => Plugin::CachingSha2,
        };
        Ok(Exchange { session, plugin, nonce: [head, tail].concat() })
    }

    fn log_in(&mut self, exchange: Exchange) -> Result<Next, WireError> {
        let attributes: Vec<(&str, &str)> =
            self.options.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let proof = match exchange.plugin {
            Plugin::Native => auth::native(&self.options.password, &exchange.nonce),
            _ => auth::caching_sha2(&self.options.password, &exchange.nonce),
        };
        let request = LoginRequest {
            head: head(&exchange.session),
            user: &self.options.user,
            proof: &proof,
            database: &[],
            plugin: exchange.plugin.name().as_bytes(),
            attributes: &LoginRequest::encode_attributes(&attributes),
            zstd_level: match exchange.session.compression {
                Some(Compression::Zstd { level }) => level,
                _ => 0,
            },
        };
        let mut payload = Vec::new();
        request.encode(&mut payload);
        self.prove(exchange, payload)
    }

    fn switched(&mut self, exchange: Exchange, wish: &AuthSwitchRequest<'_>) -> Result<Next, WireError> {
        let plugin = Plugin::find(wish.plugin)?;
        let exchange = Exchange { plugin, nonce: wish.nonce.to_vec(), ..exchange };
        let password = self.options.password.as_slice();
        match plugin {
            Plugin::Native => self.prove(exchange, auth::native(password, wish.nonce)),
            Plugin::CachingSha2 => self.prove(exchange, auth::caching_sha2(password, wish.nonce)),
            Plugin::Ed25519 => self.prove(exchange, auth::ed25519(password, wish.nonce)),
            Plugin::Sha256 if password.is_empty() => self.prove(exchange, vec![0]),
            Plugin::Sha256 => self.prove_itself(exchange, KEY_WISH_SHA256),
            Plugin::Clear
                if self.options.cleartext == Cleartext::OverTls && exchange.session.is_encrypted =>
            {
                self.prove(exchange, auth::clear(password))
            }
            Plugin::Clear => Err(WireError::Cleartext),
        }
    }

    fn told_more(&mut self, exchange: Exchange, data: &[u8]) -> Result<Next, WireError> {
        match (exchange.plugin, data) {
            (Plugin::CachingSha2, CACHED) => {
                self.phase = Phase::Proving(exchange);
                Ok(Next::Wait)
            }
            (Plugin::CachingSha2, NOT_CACHED) => self.prove_itself(exchange, KEY_WISH_CACHING),
            _ => Err(WireError::unexpected(data, "a step of the proof of a password")),
        }
    }

    /// The server wants the password itself.
    fn prove_itself(&mut self, exchange: Exchange, key_wish: u8) -> Result<Next, WireError> {
        let password = &self.options.password;
        if exchange.session.is_encrypted || self.options.transport == Transport::Local {
            let proof = auth::clear(password);
            return self.prove(exchange, proof);
        }
        match &self.options.server_key {
            ServerKey::Refuse => Err(WireError::NeedsTls { plugin: exchange.plugin.name() }),
            ServerKey::Ask => {
                self.phase = Phase::Key(exchange);
                Ok(Next::Send(vec![key_wish]))
            }
            ServerKey::Known(key) => {
                let proof = auth::encrypted(password, &exchange.nonce, key, &self.options.padding)?;
                self.prove(exchange, proof)
            }
        }
    }

    fn prove(&mut self, exchange: Exchange, payload: Vec<u8>) -> Result<Next, WireError> {
        self.phase = Phase::Proving(exchange);
        Ok(Next::Send(payload))
    }
}

fn head(session: &Session) -> SslRequest {
    SslRequest { capabilities: session.capabilities, packet_max: PACKET_MAX, collation: COLLATION }
}

fn needed_for(compression: Option<Compression>) -> Capabilities {
    match compression {
        None => Capabilities::default(),
        Some(Compression::Zlib { .. }) => Capabilities::COMPRESS,
        Some(Compression::Zstd { .. }) => Capabilities::ZSTD_COMPRESSION_ALGORITHM,
    }
}

fn version(greeting: &Greeting<'_>) -> (Flavour, String) {
    let version = lossy(greeting.server_version);
    let is_mariadb =
        !greeting.capabilities.contains(Capabilities::LONG_PASSWORD) || version.contains("MariaDB");
    match is_mariadb {
        true => (Flavour::MariaDb, version.strip_prefix(MARIADB_PREFIX).unwrap_or(&version).to_owned()),
        false => (Flavour::MySql, version),
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

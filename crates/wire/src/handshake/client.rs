//! Client side of the handshake.

use std::mem;

use binlog::Flavour;

use super::auth::{
    self, AuthPlugin, FAST_AUTH_SUCCESS, FULL_AUTHENTICATION, KEY_REQUEST_CACHING_SHA2, KEY_REQUEST_SHA256,
    PADDING_SIZE,
};
use super::{AuthMoreData, AuthSwitchRequest, LoginRequest, ServerGreeting, SslRequest};
use crate::capability::Capabilities;
use crate::compressed_frames::PacketCompression;
use crate::error::WireError;
use crate::generic_packets::{ErrPacket, OkPacket};

/// Capabilities that the client uses if the server has them.
const REQUESTED_CAPABILITIES: Capabilities = Capabilities(
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
/// Capabilities that the client requires; every server since MySQL 4.1 has them.
const REQUIRED_CAPABILITIES: Capabilities = Capabilities(
    Capabilities::PROTOCOL_41.0 | Capabilities::SECURE_CONNECTION.0 | Capabilities::PLUGIN_AUTH.0,
);
/// Number of utf8mb4_general_ci, the same in MySQL and MariaDB.
const COLLATION: u8 = 45;
/// Maximum packet size that a server can be configured for.
const PACKET_MAX: u32 = 1 << 30;
/// Version prefix of MariaDB before version 11, added for old replicas.
const MARIADB_PREFIX: &str = "5.5.5-";

/// Account and options of a client.
#[derive(Clone)]
pub struct ClientOptions {
    /// Name of the account.
    pub user: Vec<u8>,
    /// Password; empty for none. Never shown.
    pub password: Vec<u8>,
    /// Capabilities to use, besides the usual ones, if the server has them.
    pub capabilities: Capabilities,
    /// Use of TLS.
    pub tls: TlsMode,
    /// Transport of the connection.
    pub transport: Transport,
    /// Source of the public key that encrypts passwords without TLS.
    pub server_key: ServerKeySource,
    /// Permission to send the password itself, as `mysql_clear_password` requires.
    pub cleartext: CleartextPolicy,
    /// Compression methods in order of preference (`None` for no compression); the first method that the server
    /// supports is used.
    pub compressions: Vec<Option<PacketCompression>>,
    /// Connection attributes: names and values, shown in the server's `performance_schema.session_connect_attrs`.
    pub attributes: Vec<(String, String)>,
    /// Random bytes for the encryption of the password, different for each connection.
    pub padding: [u8; PADDING_SIZE],
}

impl ClientOptions {
    /// Creates the options of a client on a network that uses neither TLS nor compression, and no key of the server.
    ///
    /// `padding` must be random and different for each connection.
    pub fn new(user: &str, password: &str, padding: [u8; PADDING_SIZE]) -> Self {
        Self {
            user: user.as_bytes().to_vec(),
            password: password.as_bytes().to_vec(),
            capabilities: Capabilities::default(),
            tls: TlsMode::Never,
            transport: Transport::Network,
            server_key: ServerKeySource::Refuse,
            cleartext: CleartextPolicy::Refuse,
            compressions: vec![None],
            attributes: Vec::new(),
            padding,
        }
    }
}

/// Use of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// No TLS.
    Never,
    /// TLS if the server offers it. An attacker on the network can suppress this.
    IfOffered,
    /// TLS is required.
    Always,
}

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A network, where others can read the packets.
    Network,
    /// A socket on the same machine, where no other user can read the packets.
    Local,
}

/// Source of the public key that encrypts passwords without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerKeySource {
    /// No key: accounts that need a key require TLS.
    Refuse,
    /// From the server. An attacker on the network can replace the key and read the password.
    Ask,
    /// From the user, as PEM.
    Known(Vec<u8>),
}

impl ServerKeySource {
    /// Creates the source for a key from the user, as PEM. Checks that the key can encrypt the password.
    ///
    /// # Errors
    ///
    /// Fails if the key is invalid, or if the password is too long for the key ([`WireError::ServerKey`]).
    pub fn known(key: Vec<u8>, password: &[u8]) -> Result<Self, WireError> {
        auth::encrypted(password, &[0; PADDING_SIZE], &key, &[0; PADDING_SIZE])?;
        Ok(Self::Known(key))
    }
}

/// Permission to send the password itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleartextPolicy {
    /// Never.
    Refuse,
    /// Only over TLS.
    OverTls,
}

/// Next action of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeStep {
    /// Send this payload, then read.
    Send(Vec<u8>),
    /// Send this payload, start TLS, then call [`ClientHandshake::continue_over_tls`]. No bytes may have been read
    /// beyond this point.
    StartTls(Vec<u8>),
    /// Read the next packet.
    Wait,
    /// The login succeeded. Commands may follow, compressed if agreed.
    Done(ClientSession),
}

/// Result of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSession {
    /// Capabilities of both sides.
    pub capabilities: Capabilities,
    /// Version of the server, without a prefix: `9.7.4`, `10.11.6-MariaDB-log`.
    pub server_version: String,
    /// Server family.
    pub flavour: Flavour,
    /// Server's number of this connection.
    pub connection_id: u32,
    /// Compression of all later packets.
    pub compression: Option<PacketCompression>,
    /// Authentication plugin used.
    pub plugin: &'static str,
    /// True if the connection uses TLS.
    pub is_encrypted: bool,
}

/// Client side of the handshake, as a state machine: packets in, actions out.
pub struct ClientHandshake {
    options: ClientOptions,
    phase: HandshakePhase,
}

enum HandshakePhase {
    /// Waiting for the greeting.
    Greeting,
    /// TLS was requested.
    Tls(AuthExchange),
    /// Authentication data was sent.
    Proving(AuthExchange),
    /// The server's public key was requested.
    Key(AuthExchange),
    /// Finished or failed.
    Over,
}

struct AuthExchange {
    session: ClientSession,
    plugin: AuthPlugin,
    nonce: Vec<u8>,
}

impl ClientHandshake {
    /// Creates the state for a new connection, on which the server sends the first packet.
    pub fn new(options: ClientOptions) -> Self {
        Self { options, phase: HandshakePhase::Greeting }
    }

    /// Handles a packet from the server.
    ///
    /// # Errors
    ///
    /// Fails if the server refuses ([`WireError::Refused`]), if server and options are incompatible, or if the packet
    /// is not allowed at this point. The connection cannot be used after an error.
    pub fn read(&mut self, payload: &[u8]) -> Result<HandshakeStep, WireError> {
        let phase = mem::replace(&mut self.phase, HandshakePhase::Over);
        if ErrPacket::is(payload) {
            return Err(ErrPacket::decode(payload)?.to_error().into());
        }
        match phase {
            HandshakePhase::Greeting => self.read_greeting(&ServerGreeting::decode(payload)?),
            HandshakePhase::Proving(exchange) if OkPacket::is(payload) => {
                OkPacket::decode(payload, exchange.session.capabilities)?;
                let plugin = exchange.plugin.name();
                Ok(HandshakeStep::Done(ClientSession { plugin, ..exchange.session }))
            }
            HandshakePhase::Proving(exchange) if AuthSwitchRequest::is(payload) => {
                self.switch_plugin(exchange, &AuthSwitchRequest::decode(payload)?)
            }
            HandshakePhase::Proving(exchange) if AuthMoreData::is(payload) => {
                self.read_more_data(exchange, AuthMoreData::decode(payload)?.data)
            }
            HandshakePhase::Key(exchange) => {
                let key = AuthMoreData::decode(payload)?.data;
                let proof =
                    auth::encrypted(&self.options.password, &exchange.nonce, key, &self.options.padding)?;
                self.send_proof(exchange, proof)
            }
            HandshakePhase::Proving(_) => Err(WireError::unexpected(payload, "an authentication packet")),
            HandshakePhase::Tls(_) | HandshakePhase::Over => Err(WireError::unexpected(payload, "nothing")),
        }
    }

    /// Continues after TLS was established.
    ///
    /// # Errors
    ///
    /// Fails if [`ClientHandshake::read`] fails.
    ///
    /// # Panics
    ///
    /// Panics if TLS was not requested.
    pub fn continue_over_tls(&mut self) -> Result<HandshakeStep, WireError> {
        match mem::replace(&mut self.phase, HandshakePhase::Over) {
            HandshakePhase::Tls(mut exchange) => {
                exchange.session.is_encrypted = true;
                self.log_in(exchange)
            }
            _ => panic!("ours: TLS starts only after its request"),
        }
    }

    /// Returns the server's version between the request for TLS and its start.
    pub fn server_version(&self) -> Option<&str> {
        match &self.phase {
            HandshakePhase::Tls(exchange) => Some(&exchange.session.server_version),
            _ => None,
        }
    }

    fn read_greeting(&mut self, greeting: &ServerGreeting<'_>) -> Result<HandshakeStep, WireError> {
        let exchange = self.negotiate(greeting)?;
        if !exchange.session.capabilities.contains(Capabilities::SSL) {
            return self.log_in(exchange);
        }
        let mut request = Vec::new();
        head(&exchange.session).encode(&mut request);
        self.phase = HandshakePhase::Tls(exchange);
        Ok(HandshakeStep::StartTls(request))
    }

    /// Negotiates capabilities, compression and plugin.
    fn negotiate(&self, greeting: &ServerGreeting<'_>) -> Result<AuthExchange, WireError> {
        let offered = greeting.capabilities;
        if !offered.contains(REQUIRED_CAPABILITIES) {
            return Err(WireError::TooOld { version: lossy(greeting.server_version) });
        }
        let mut capabilities = offered.both(REQUESTED_CAPABILITIES | self.options.capabilities);
        match (self.options.tls, offered.contains(Capabilities::SSL)) {
            (TlsMode::Always, false) => return Err(WireError::NoTls),
            (TlsMode::Always | TlsMode::IfOffered, true) => capabilities = capabilities | Capabilities::SSL,
            (TlsMode::Never, _) | (TlsMode::IfOffered, false) => {}
        }
        let wishes = self.options.compressions.iter();
        let compression = wishes.copied().find(|wish| offered.contains(needed_for(*wish)));
        let compression = compression.ok_or(WireError::NoCompression)?;
        capabilities = capabilities | needed_for(compression);
        let (head, tail) = greeting.nonce;
        let (flavour, server_version) = version(greeting);
        let session = ClientSession {
            capabilities,
            server_version,
            flavour,
            connection_id: greeting.connection_id,
            compression,
            plugin: "",
            is_encrypted: false,
        };
        // A hash is safe to send to any server. If the account needs another plugin, the server requests it.
        let plugin = match AuthPlugin::find(greeting.plugin) {
            Ok(AuthPlugin::Native) => AuthPlugin::Native,
            _ => AuthPlugin::CachingSha2,
        };
        Ok(AuthExchange { session, plugin, nonce: [head, tail].concat() })
    }

    fn log_in(&mut self, exchange: AuthExchange) -> Result<HandshakeStep, WireError> {
        let attributes: Vec<(&str, &str)> =
            self.options.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let proof = match exchange.plugin {
            AuthPlugin::Native => auth::native(&self.options.password, &exchange.nonce),
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
                Some(PacketCompression::Zstd { level }) => level,
                _ => 0,
            },
        };
        let mut payload = Vec::new();
        request.encode(&mut payload);
        self.send_proof(exchange, payload)
    }

    fn switch_plugin(
        &mut self,
        exchange: AuthExchange,
        wish: &AuthSwitchRequest<'_>,
    ) -> Result<HandshakeStep, WireError> {
        let plugin = AuthPlugin::find(wish.plugin)?;
        let exchange = AuthExchange { plugin, nonce: wish.nonce.to_vec(), ..exchange };
        let password = self.options.password.as_slice();
        match plugin {
            AuthPlugin::Native => self.send_proof(exchange, auth::native(password, wish.nonce)),
            AuthPlugin::CachingSha2 => self.send_proof(exchange, auth::caching_sha2(password, wish.nonce)),
            AuthPlugin::Ed25519 => self.send_proof(exchange, auth::ed25519(password, wish.nonce)),
            AuthPlugin::Sha256 if password.is_empty() => self.send_proof(exchange, vec![0]),
            AuthPlugin::Sha256 => self.send_password(exchange, KEY_REQUEST_SHA256),
            AuthPlugin::Clear => match self.options.cleartext {
                CleartextPolicy::Refuse => Err(WireError::CleartextNotAllowed),
                CleartextPolicy::OverTls if !exchange.session.is_encrypted => {
                    Err(WireError::CleartextWithoutTls)
                }
                CleartextPolicy::OverTls => self.send_proof(exchange, auth::clear(password)),
            },
        }
    }

    fn read_more_data(&mut self, exchange: AuthExchange, data: &[u8]) -> Result<HandshakeStep, WireError> {
        match (exchange.plugin, data) {
            (AuthPlugin::CachingSha2, FAST_AUTH_SUCCESS) => {
                self.phase = HandshakePhase::Proving(exchange);
                Ok(HandshakeStep::Wait)
            }
            (AuthPlugin::CachingSha2, FULL_AUTHENTICATION) => {
                self.send_password(exchange, KEY_REQUEST_CACHING_SHA2)
            }
            _ => Err(WireError::unexpected(data, "an authentication packet")),
        }
    }

    /// Sends the password itself, over a secure connection or encrypted with the server's public key.
    fn send_password(&mut self, exchange: AuthExchange, key_wish: u8) -> Result<HandshakeStep, WireError> {
        let password = &self.options.password;
        if exchange.session.is_encrypted || self.options.transport == Transport::Local {
            let proof = auth::clear(password);
            return self.send_proof(exchange, proof);
        }
        match &self.options.server_key {
            ServerKeySource::Refuse => Err(WireError::NeedsTls { plugin: exchange.plugin.name() }),
            ServerKeySource::Ask => {
                self.phase = HandshakePhase::Key(exchange);
                Ok(HandshakeStep::Send(vec![key_wish]))
            }
            ServerKeySource::Known(key) => {
                let proof = auth::encrypted(password, &exchange.nonce, key, &self.options.padding)?;
                self.send_proof(exchange, proof)
            }
        }
    }

    fn send_proof(&mut self, exchange: AuthExchange, payload: Vec<u8>) -> Result<HandshakeStep, WireError> {
        self.phase = HandshakePhase::Proving(exchange);
        Ok(HandshakeStep::Send(payload))
    }
}

fn head(session: &ClientSession) -> SslRequest {
    SslRequest { capabilities: session.capabilities, packet_max: PACKET_MAX, collation: COLLATION }
}

fn needed_for(compression: Option<PacketCompression>) -> Capabilities {
    match compression {
        None => Capabilities::default(),
        Some(PacketCompression::Zlib { .. }) => Capabilities::COMPRESS,
        Some(PacketCompression::Zstd { .. }) => Capabilities::ZSTD_COMPRESSION_ALGORITHM,
    }
}

fn version(greeting: &ServerGreeting<'_>) -> (Flavour, String) {
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

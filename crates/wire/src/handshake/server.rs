//! Server side of the handshake.

use std::mem;
use std::sync::Arc;

use rsa::rand_core::RngCore as _;

use super::attributes::ConnectionAttributes;
use super::auth::{FAST_AUTH_SUCCESS, FULL_AUTHENTICATION, KEY_REQUEST_CACHING_SHA2};
use super::client::Transport;
use super::password_key::PasswordKey;
use super::seeded_bytes::SeededBytes;
use super::stored_password::{PasswordDigest, PasswordPlugin, StoredPassword};
use super::{AuthMoreData, AuthSwitchRequest, LoginRequest, NONCE_HEAD_SIZE, ServerGreeting, SslRequest};
use crate::capability::Capabilities;
use crate::compressed_frames::PacketCompression;
use crate::error::{PasswordUse, ServerError, WireError};
use crate::generic_packets::{OkPacket, ServerStatus};
use crate::packet_codec::{PACKET_LIMIT_MIN, PacketCodec};
use crate::response_writer::send_encoded;

/// Number of utf8mb4_0900_ai_ci, the collation that MySQL 8 and later name in their greeting.
const COLLATION: u8 = 255;
/// Size of a nonce, without the NUL after it: `SCRAMBLE_LENGTH`.
const NONCE_SIZE: usize = 20;
/// Level of zlib that servers use.
const ZLIB_LEVEL: u8 = 6;
/// Level of zstd if the client sends none: `default_zstd_compression_level`.
const ZSTD_LEVEL_DEFAULT: u8 = 3;
/// Maximum level of zstd.
const ZSTD_LEVEL_MAX: u8 = 22;

/// Identity and offers of a server, for one connection.
#[derive(Clone, Debug)]
pub struct HandshakeOptions {
    /// Version in the greeting, such as `9.7.4`. The behaviour of clients depends on it.
    pub server_version: String,
    /// Number of this connection.
    pub connection_id: u32,
    /// Capabilities to offer: [`ServerHandshake::CAPABILITIES`], or fewer. With [`Capabilities::SSL`], the caller must
    /// be able to start TLS.
    pub capabilities: Capabilities,
    /// Plugin in the greeting. Accounts with the other plugin need one more round trip.
    pub plugin: PasswordPlugin,
    /// Transport of the connection. A local transport is as secure as TLS.
    pub transport: Transport,
    /// Host of the client, for the text of refusals.
    pub client_host: String,
    /// Key with which clients without TLS can encrypt their passwords; `None` to refuse such passwords.
    pub password_key: Option<Arc<PasswordKey>>,
    /// Maximum size of a packet after the login, in bytes.
    pub packet_limit: usize,
    /// Random bytes, secret and different for each connection.
    pub seed: [u8; 32],
}

/// Next action of a server.
#[derive(Debug)]
pub enum ServerStep {
    /// Send the output of the codec, receive, then call [`ServerHandshake::advance`].
    Receive,
    /// Start TLS as its server, then call [`ServerHandshake::continue_over_tls`].
    StartTls {
        /// Bytes received after the request: the start of the TLS stream.
        received: Vec<u8>,
    },
    /// Find the account for this client, then call [`ServerHandshake::authenticate`].
    FindAccount(LoginDetails),
    /// The client has proved its password. Call [`ServerHandshake::accept`] or [`ServerHandshake::refuse`].
    Authenticated(AuthenticatedLogin),
    /// The login failed. Send the output of the codec, then close the connection.
    Refused(LoginRefusal),
}

/// Login request of a client, which is not authenticated yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginDetails {
    /// Name of the account, in the client's character set.
    pub user: Vec<u8>,
    /// Requested default database; empty for none.
    pub database: Vec<u8>,
    /// Attributes by which the client describes itself.
    pub attributes: ConnectionAttributes,
    /// True if the connection uses TLS.
    pub is_encrypted: bool,
}

/// Login of a client that has proved its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatedLogin {
    /// Plugin with which the client has proved its password.
    pub plugin: PasswordPlugin,
    /// Digest to remember for the next login with this account. Set after a login with the password itself.
    pub digest: Option<PasswordDigest>,
}

/// Failed login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRefusal {
    /// Error sent to the client.
    pub error: ServerError,
    /// Error in the client's packets, if this is the reason.
    pub cause: Option<WireError>,
}

/// Result of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSession {
    /// Capabilities of both sides.
    pub capabilities: Capabilities,
    /// Login request of the client.
    pub login: LoginDetails,
    /// Number of the client's collation.
    pub collation: u8,
    /// Maximum size of a packet to the client, as the client states it.
    pub packet_max: u32,
    /// Compression of all later packets, already started.
    pub compression: Option<PacketCompression>,
}

/// Server side of the handshake, as a state machine: reads packets from a [`PacketCodec`], and writes to it.
///
/// ```
/// use wire::{
///     HandshakeOptions, PacketCodec, PasswordPlugin, ServerHandshake, ServerStep, StoredPassword, Transport,
/// };
/// # fn main() -> Result<(), wire::WireError> {
/// # fn exchange(_: &mut PacketCodec) -> bool { false }
/// let mut packets = PacketCodec::new(0);
/// let options = HandshakeOptions {
///     server_version: "9.7.4".to_owned(),
///     connection_id: 8,
///     capabilities: ServerHandshake::CAPABILITIES,
///     plugin: PasswordPlugin::CachingSha2,
///     transport: Transport::Network,
///     client_host: "10.0.0.7".to_owned(),
///     password_key: None,
///     packet_limit: 64 << 20,
///     seed: [7; 32], // From the system's random numbers.
/// };
/// let account = StoredPassword::caching_sha2(b"secret", [8; 32])?;
/// let mut handshake = ServerHandshake::begin(options, &mut packets);
/// let mut step = ServerStep::Receive;
/// let session = loop {
///     step = match step {
///         // Sends `packets.output()`, and receives into `packets.read_buffer()`.
///         ServerStep::Receive if exchange(&mut packets) => handshake.advance(&mut packets),
///         ServerStep::Receive | ServerStep::Refused(_) => break None,
///         ServerStep::StartTls { .. } => handshake.continue_over_tls(),
///         ServerStep::FindAccount(_) => handshake.authenticate(&account, None, &mut packets),
///         ServerStep::Authenticated(_) => break Some(handshake.accept(&mut packets)),
///     };
/// };
/// assert_eq!(packets.output()[4], 10); // The greeting.
/// # assert!(session.is_none());
/// # Ok(())
/// # }
/// ```
pub struct ServerHandshake {
    options: HandshakeOptions,
    random: SeededBytes,
    nonce: [u8; NONCE_SIZE],
    /// Name of the account, once known.
    user: Vec<u8>,
    password_use: PasswordUse,
    phase: LoginPhase,
}

enum LoginPhase {
    /// The greeting was sent. The client may request TLS.
    Greeted,
    /// TLS is starting.
    Tls,
    /// The client logs in over TLS.
    Encrypted,
    /// The caller looks for the account.
    Finding(PendingLogin),
    /// The server has requested another plugin.
    Switching(AccountCheck),
    /// The server has requested the password itself, and waits for the password or for a request for the key.
    Asking(AccountCheck),
    /// The key was sent.
    KeySent(AccountCheck),
    /// The client has proved its password.
    Authenticated(ServerSession),
    /// Finished or failed.
    Over,
}

/// Connection on which a client logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkSecurity {
    Plain,
    Tls,
}

/// Login request, and the session that it would start.
struct PendingLogin {
    session: ServerSession,
    plugin: Vec<u8>,
    proof: Vec<u8>,
}

/// Check of a client's password.
struct AccountCheck {
    login: PendingLogin,
    password: StoredPassword,
    digest: Option<PasswordDigest>,
}

impl ServerHandshake {
    /// Capabilities that this crate implements on the server side.
    pub const CAPABILITIES: Capabilities = Capabilities(
        Capabilities::LONG_PASSWORD.0
            | Capabilities::FOUND_ROWS.0
            | Capabilities::LONG_FLAG.0
            | Capabilities::CONNECT_WITH_DB.0
            | Capabilities::COMPRESS.0
            | Capabilities::PROTOCOL_41.0
            | Capabilities::SSL.0
            | Capabilities::TRANSACTIONS.0
            | Capabilities::SECURE_CONNECTION.0
            | Capabilities::MULTI_STATEMENTS.0
            | Capabilities::MULTI_RESULTS.0
            | Capabilities::PS_MULTI_RESULTS.0
            | Capabilities::PLUGIN_AUTH.0
            | Capabilities::CONNECT_ATTRS.0
            | Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA.0
            | Capabilities::SESSION_TRACK.0
            | Capabilities::DEPRECATE_EOF.0
            | Capabilities::ZSTD_COMPRESSION_ALGORITHM.0
            | Capabilities::QUERY_ATTRIBUTES.0,
    );

    /// Sends the greeting. Until the login succeeds, `packets` accepts no packet of more than 64 KiB.
    pub fn begin(options: HandshakeOptions, packets: &mut PacketCodec) -> Self {
        let mut random = SeededBytes::new(options.seed);
        let nonce = new_nonce(&mut random);
        packets.set_limit(PACKET_LIMIT_MIN);
        packets.begin_command();
        let (head, tail) = nonce.split_first_chunk::<NONCE_HEAD_SIZE>().expect("ours: nonces are longer");
        let greeting = ServerGreeting {
            server_version: options.server_version.as_bytes(),
            connection_id: options.connection_id,
            nonce: (head, tail),
            capabilities: options.capabilities,
            collation: COLLATION,
            status: ServerStatus::AUTOCOMMIT.0,
            plugin: options.plugin.name().as_bytes(),
        };
        send_encoded(packets, |out| greeting.encode(out));
        Self {
            options,
            random,
            nonce,
            user: Vec::new(),
            password_use: PasswordUse::No,
            phase: LoginPhase::Greeted,
        }
    }

    /// Sends an error instead of the greeting, such as [`ServerError::too_many_connections`].
    pub fn turn_away(error: &ServerError, packets: &mut PacketCodec) {
        packets.begin_command();
        send_encoded(packets, |out| error.encode_without_state(out));
    }

    /// Handles the next packet of the client, if it has arrived. An unexpected packet ends the handshake.
    pub fn advance(&mut self, packets: &mut PacketCodec) -> ServerStep {
        let payload = match packets.next() {
            Ok(Some(payload)) => payload.to_vec(),
            Ok(None) => return ServerStep::Receive,
            Err(cause) => return self.refuse_packet(cause, packets),
        };
        match mem::replace(&mut self.phase, LoginPhase::Over) {
            LoginPhase::Greeted if self.is_tls_request(&payload) => {
                self.phase = LoginPhase::Tls;
                ServerStep::StartTls { received: packets.take_unread() }
            }
            LoginPhase::Greeted => {
                self.phase = LoginPhase::Greeted;
                self.read_login(&payload, LinkSecurity::Plain, packets)
            }
            LoginPhase::Encrypted => self.read_login(&payload, LinkSecurity::Tls, packets),
            LoginPhase::Switching(check) => self.check(check, &payload, packets),
            LoginPhase::Asking(check) => self.read_password(check, &payload, packets),
            LoginPhase::KeySent(check) => self.decrypt_password(check, &payload, packets),
            LoginPhase::Tls | LoginPhase::Finding(_) | LoginPhase::Authenticated(_) | LoginPhase::Over => {
                self.refuse_packet(WireError::unexpected(&payload, "nothing"), packets)
            }
        }
    }

    fn is_tls_request(&self, payload: &[u8]) -> bool {
        let request = SslRequest::decode(payload).ok();
        request.is_some_and(|request| {
            request.capabilities.both(self.options.capabilities).contains(Capabilities::SSL)
        })
    }

    /// Continues after TLS was established.
    ///
    /// # Panics
    ///
    /// Panics if the client did not request TLS.
    pub fn continue_over_tls(&mut self) -> ServerStep {
        assert!(matches!(self.phase, LoginPhase::Tls), "ours: TLS starts when the client requests it");
        self.phase = LoginPhase::Encrypted;
        ServerStep::Receive
    }

    /// Checks the client's password. For a name without an account, pass [`StoredPassword::no_account`].
    ///
    /// `digest` is the digest in the last [`AuthenticatedLogin`] for this account. Without it, and after a change of
    /// the password, caching_sha2_password needs the password itself.
    ///
    /// # Panics
    ///
    /// Panics unless the last step was [`ServerStep::FindAccount`].
    pub fn authenticate(
        &mut self,
        password: &StoredPassword,
        digest: Option<&PasswordDigest>,
        packets: &mut PacketCodec,
    ) -> ServerStep {
        let LoginPhase::Finding(login) = mem::replace(&mut self.phase, LoginPhase::Over) else {
            panic!("ours: an account is passed only when requested");
        };
        let plugin = password.plugin();
        let knows_plugins = login.session.capabilities.contains(Capabilities::PLUGIN_AUTH);
        if !knows_plugins && plugin != PasswordPlugin::Native {
            return self.refuse(ServerError::unsupported_authentication(), packets);
        }
        // As on servers, the first response counts only if it is for the greeting's plugin. A client that does not
        // support that plugin names another plugin, and sends an empty response.
        let is_answer = plugin == self.options.plugin && login.plugin == plugin.name().as_bytes();
        let proof = login.proof.clone();
        let check = AccountCheck { login, password: password.clone(), digest: digest.cloned() };
        if is_answer || !knows_plugins {
            return self.check(check, &proof, packets);
        }
        self.nonce = new_nonce(&mut self.random);
        let request = AuthSwitchRequest { plugin: plugin.name().as_bytes(), nonce: &self.nonce };
        send_encoded(packets, |out| request.encode(out));
        self.phase = LoginPhase::Switching(check);
        ServerStep::Receive
    }

    /// Accepts the client. Starts compression if agreed. Commands follow.
    ///
    /// # Panics
    ///
    /// Panics unless the last step was [`ServerStep::Authenticated`].
    pub fn accept(mut self, packets: &mut PacketCodec) -> ServerSession {
        let LoginPhase::Authenticated(session) = mem::replace(&mut self.phase, LoginPhase::Over) else {
            panic!("ours: a client is accepted after the password check");
        };
        let ok = OkPacket { status: ServerStatus::AUTOCOMMIT, ..OkPacket::default() };
        send_encoded(packets, |out| ok.encode(session.capabilities, out));
        packets.set_limit(self.options.packet_limit);
        if let Some(compression) = session.compression {
            packets.start_compression(compression);
        }
        session
    }

    /// Refuses the client with this error. Possible after each step.
    pub fn refuse(&mut self, error: ServerError, packets: &mut PacketCodec) -> ServerStep {
        self.end(LoginRefusal { error, cause: None }, packets)
    }

    /// Refuses the client with error 1045, as servers do if the account does not exist, the password is wrong, or the
    /// account requires TLS.
    pub fn deny(&mut self, packets: &mut PacketCodec) -> ServerStep {
        let error = ServerError::access_denied(&self.user, &self.options.client_host, self.password_use);
        self.refuse(error, packets)
    }

    fn refuse_packet(&mut self, cause: WireError, packets: &mut PacketCodec) -> ServerStep {
        let error = match &cause {
            WireError::Packet { .. } | WireError::Unexpected { .. } => ServerError::bad_handshake(),
            cause => ServerError::from_wire(cause),
        };
        self.end(LoginRefusal { error, cause: Some(cause) }, packets)
    }

    fn end(&mut self, refusal: LoginRefusal, packets: &mut PacketCodec) -> ServerStep {
        // Servers omit the SQL state before they know the client's capabilities.
        let is_known = !matches!(self.phase, LoginPhase::Greeted);
        self.phase = LoginPhase::Over;
        send_encoded(packets, |out| match is_known {
            true => refusal.error.encode(out),
            false => refusal.error.encode_without_state(out),
        });
        ServerStep::Refused(refusal)
    }

    fn read_login(
        &mut self,
        payload: &[u8],
        security: LinkSecurity,
        packets: &mut PacketCodec,
    ) -> ServerStep {
        match self.decode_login(payload, security) {
            Ok(login) => {
                let details = login.session.login.clone();
                self.user = details.user.clone();
                self.phase = LoginPhase::Finding(login);
                ServerStep::FindAccount(details)
            }
            Err(cause) => self.refuse_packet(cause, packets),
        }
    }

    fn decode_login(&self, payload: &[u8], security: LinkSecurity) -> Result<PendingLogin, WireError> {
        let request = LoginRequest::decode(payload)?;
        let capabilities = request.head.capabilities.both(self.options.capabilities);
        let is_encrypted = security == LinkSecurity::Tls;
        // Over TLS, servers do not check this capability again, and mysql-binlog-connector-java omits it there.
        if capabilities.contains(Capabilities::SSL) && !is_encrypted {
            return Err(WireError::unexpected(payload, "TLS before a login request with the capability SSL"));
        }
        let login = LoginDetails {
            user: request.user.to_vec(),
            database: request.database.to_vec(),
            attributes: ConnectionAttributes::decode(request.attributes)?,
            is_encrypted,
        };
        let session = ServerSession {
            capabilities,
            login,
            collation: request.head.collation,
            packet_max: request.head.packet_max,
            compression: compression(capabilities, request.zstd_level),
        };
        Ok(PendingLogin { session, plugin: request.plugin.to_vec(), proof: request.proof.to_vec() })
    }

    /// Checks the first response to a nonce.
    fn check(&mut self, check: AccountCheck, proof: &[u8], packets: &mut PacketCodec) -> ServerStep {
        // The empty response of caching_sha2_password is a NUL.
        let is_empty = matches!(proof, [] | [0]);
        self.password_use = if is_empty { PasswordUse::No } else { PasswordUse::Yes };
        if is_empty || check.password.is_empty() {
            return match is_empty && check.password.is_empty() {
                true => self.authenticated(check, None),
                false => self.deny(packets),
            };
        }
        match check.password.plugin() {
            PasswordPlugin::Native => match <&[u8; 20]>::try_from(proof) {
                Ok(proof) if check.password.accepts_native(proof, &self.nonce) => {
                    self.authenticated(check, None)
                }
                Ok(_) => self.deny(packets),
                Err(_) => {
                    let cause = WireError::unexpected(proof, "20 bytes of mysql_native_password");
                    self.refuse_packet(cause, packets)
                }
            },
            PasswordPlugin::CachingSha2 => match <&[u8; 32]>::try_from(proof) {
                Ok(proof) => self.check_digest(check, proof, packets),
                Err(_) => self.deny(packets),
            },
        }
    }

    /// Checks the digest of the password, if it is known. Otherwise, requests the password itself.
    fn check_digest(
        &mut self,
        check: AccountCheck,
        proof: &[u8; 32],
        packets: &mut PacketCodec,
    ) -> ServerStep {
        if check.digest.as_ref().is_some_and(|digest| digest.accepts(proof, &self.nonce, &check.password)) {
            send_encoded(packets, |out| AuthMoreData { data: FAST_AUTH_SUCCESS }.encode(out));
            return self.authenticated(check, None);
        }
        send_encoded(packets, |out| AuthMoreData { data: FULL_AUTHENTICATION }.encode(out));
        self.phase = LoginPhase::Asking(check);
        ServerStep::Receive
    }

    /// Reads the password itself, or the request for the key.
    fn read_password(
        &mut self,
        check: AccountCheck,
        payload: &[u8],
        packets: &mut PacketCodec,
    ) -> ServerStep {
        if check.login.session.login.is_encrypted || self.options.transport == Transport::Local {
            // Servers use all bytes except the last one, which is NUL.
            let password = payload.split_last().map_or(&[][..], |(_, password)| password);
            return self.check_password(check, password, packets);
        }
        match &self.options.password_key {
            Some(key) if payload == [KEY_REQUEST_CACHING_SHA2] => {
                send_encoded(packets, |out| AuthMoreData { data: key.public_pem().as_bytes() }.encode(out));
                self.phase = LoginPhase::KeySent(check);
                ServerStep::Receive
            }
            Some(_) => self.decrypt_password(check, payload, packets),
            None => self.deny(packets),
        }
    }

    fn decrypt_password(
        &mut self,
        check: AccountCheck,
        payload: &[u8],
        packets: &mut PacketCodec,
    ) -> ServerStep {
        let mut blinding = [0; 32];
        self.random.fill_bytes(&mut blinding);
        let key = self.options.password_key.as_ref();
        let Some(text) = key.and_then(|key| key.decrypt(payload, &self.nonce, blinding)) else {
            return self.deny(packets);
        };
        // Servers read up to the first NUL.
        let password = text.split(|byte| *byte == 0).next().unwrap_or_default();
        self.check_password(check, password, packets)
    }

    fn check_password(
        &mut self,
        check: AccountCheck,
        password: &[u8],
        packets: &mut PacketCodec,
    ) -> ServerStep {
        match check.password.accepts_password(password) {
            true => {
                let digest = PasswordDigest::new(password, &check.password);
                self.authenticated(check, Some(digest))
            }
            false => self.deny(packets),
        }
    }

    fn authenticated(&mut self, check: AccountCheck, digest: Option<PasswordDigest>) -> ServerStep {
        self.phase = LoginPhase::Authenticated(check.login.session);
        ServerStep::Authenticated(AuthenticatedLogin { plugin: check.password.plugin(), digest })
    }
}

/// Draws a nonce as servers do (`generate_user_salt` of `sql/auth/password.c`): bytes below 128, and neither NUL nor
/// `$`.
fn new_nonce(random: &mut SeededBytes) -> [u8; NONCE_SIZE] {
    let mut nonce = [0; NONCE_SIZE];
    random.fill_bytes(&mut nonce);
    nonce.map(|byte| match byte & 0x7f {
        byte @ (0 | b'$') => byte + 1,
        byte => byte,
    })
}

/// Returns the compression that the client uses after the login. A client with both flags uses zlib
/// (`sql-common/client.cc`).
fn compression(capabilities: Capabilities, zstd_level: u8) -> Option<PacketCompression> {
    if capabilities.contains(Capabilities::COMPRESS) {
        return Some(PacketCompression::Zlib { level: ZLIB_LEVEL });
    }
    let level = match zstd_level {
        0 => ZSTD_LEVEL_DEFAULT,
        level => level.min(ZSTD_LEVEL_MAX),
    };
    capabilities
        .contains(Capabilities::ZSTD_COMPRESSION_ALGORITHM)
        .then_some(PacketCompression::Zstd { level })
}

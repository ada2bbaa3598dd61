//! Packets of the handshake, from the greeting to the end of authentication.

mod attributes;
mod auth;
mod client;
mod password_key;
mod seeded_bytes;
mod server;
mod stored_password;

use binlog::{Cursor, DecodeError, DecodeReason, put_lenenc};

pub use self::attributes::ConnectionAttributes;
pub use self::client::{
    CleartextPolicy, ClientHandshake, ClientOptions, ClientSession, HandshakeStep, ServerKeySource, TlsMode,
    Transport,
};
pub use self::password_key::PasswordKey;
pub use self::server::{
    AuthenticatedLogin, HandshakeOptions, LoginDetails, LoginRefusal, ServerHandshake, ServerSession,
    ServerStep,
};
pub use self::stored_password::{PasswordDigest, PasswordPlugin, StoredPassword};
use crate::capability::Capabilities;
use crate::error::WireError;
use crate::generic_packets::put_lenenc_bytes;

/// Version of the protocol, the only one since MySQL 3.21.
const PROTOCOL_VERSION: u8 = 10;
/// Size of the first part of the nonce in a greeting.
const NONCE_HEAD_SIZE: usize = 8;
/// Minimum size of the second part, including the NUL after it.
const NONCE_TAIL_SIZE_MIN: usize = 13;
/// First byte of a request to switch the authentication plugin.
const AUTH_SWITCH: u8 = 0xfe;
/// First byte of further authentication data.
const AUTH_MORE_DATA: u8 = 0x01;

/// Greeting: the first packet of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerGreeting<'a> {
    /// Version of the server as written. MariaDB before version 11 adds the prefix `5.5.5-`.
    pub server_version: &'a [u8],
    /// Server's number of this connection.
    pub connection_id: u32,
    /// Nonce for authentication: random bytes, in two parts.
    pub nonce: (&'a [u8; NONCE_HEAD_SIZE], &'a [u8]),
    /// Capabilities of the server.
    pub capabilities: Capabilities,
    /// Number of the server's collation.
    pub collation: u8,
    /// `server_status`.
    pub status: u16,
    /// Default authentication plugin.
    pub plugin: &'a [u8],
}

impl<'a> ServerGreeting<'a> {
    /// Decodes a greeting.
    ///
    /// # Errors
    ///
    /// Fails if the payload is no greeting, or a greeting of a server older than MySQL 4.1.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        Self::decode_fields(payload).map_err(WireError::packet("greeting"))
    }

    // size  field
    //    1  10: the version of the protocol
    //    *  server_version, NUL
    //    4  connection_id
    //    8  nonce, first part
    //    1  0
    //    2  capabilities, the lowest 16
    //    1  collation
    //    2  status
    //    2  capabilities, the next 16
    //    1  size of the nonce, NUL included; 0 without PLUGIN_AUTH
    //    6  unused
    //    4  MariaDB's capabilities; unused with LONG_PASSWORD
    //    *  nonce, second part, NUL: 13 bytes or more
    //    *  plugin, NUL, with PLUGIN_AUTH
    fn decode_fields(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        let version = cursor.u8()?;
        if version != PROTOCOL_VERSION {
            let reason = DecodeReason::Differs {
                field: "version of the protocol",
                found: version.into(),
                expected: PROTOCOL_VERSION.into(),
            };
            return Err(DecodeError::new(0, reason));
        }
        let server_version = nul_ended(&mut cursor)?;
        let connection_id = cursor.u32()?;
        let nonce_head = cursor.array_ref()?;
        cursor.u8()?;
        let low = u64::from(cursor.u16()?);
        let collation = cursor.u8()?;
        let status = cursor.u16()?;
        let high = u64::from(cursor.u16()?);
        let nonce_size = usize::from(cursor.u8()?);
        cursor.bytes(6)?;
        let extended = u64::from(cursor.u32()?);
        let mut capabilities = Capabilities(high << 16 | low);
        if !capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities.0 |= extended << 32;
        }
        let nonce_tail = cursor.bytes(nonce_size.saturating_sub(NONCE_HEAD_SIZE).max(NONCE_TAIL_SIZE_MIN))?;
        let nonce_tail = nonce_tail.strip_suffix(&[0]).unwrap_or(nonce_tail);
        let plugin = match capabilities.contains(Capabilities::PLUGIN_AUTH) {
            true => nul_ended_or_rest(&mut cursor),
            false => &[],
        };
        let nonce = (nonce_head, nonce_tail);
        Ok(Self { server_version, connection_id, nonce, capabilities, collation, status, plugin })
    }

    /// Encodes the greeting.
    ///
    /// # Panics
    ///
    /// Panics unless the second part of the nonce has 12 to 246 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (nonce_head, nonce_tail) = self.nonce;
        let nonce_size = u8::try_from(NONCE_HEAD_SIZE + nonce_tail.len() + 1);
        assert!(nonce_tail.len() + 1 >= NONCE_TAIL_SIZE_MIN, "ours: nonces have 20 bytes or more");
        let bits = self.capabilities.0.to_le_bytes();
        out.push(PROTOCOL_VERSION);
        put_nul_ended(out, self.server_version);
        out.extend_from_slice(&self.connection_id.to_le_bytes());
        out.extend_from_slice(nonce_head);
        out.push(0);
        out.extend_from_slice(&bits[..2]);
        out.push(self.collation);
        out.extend_from_slice(&self.status.to_le_bytes());
        out.extend_from_slice(&bits[2..4]);
        out.push(nonce_size.expect("ours: nonces have less than 256 bytes"));
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&bits[4..]);
        put_nul_ended(out, nonce_tail);
        if self.capabilities.contains(Capabilities::PLUGIN_AUTH) {
            put_nul_ended(out, self.plugin);
        }
    }
}

/// Request to start TLS before login; also the first fields of a [`LoginRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SslRequest {
    /// Capabilities of both sides.
    pub capabilities: Capabilities,
    /// Maximum size of a packet to the client.
    pub packet_max: u32,
    /// Number of the client's collation.
    pub collation: u8,
}

impl SslRequest {
    /// Decodes a TLS request.
    ///
    /// # Errors
    ///
    /// Fails if the payload is no TLS request. Login requests are longer, and fail too.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(payload);
        let request = Self::decode_head(&mut cursor);
        let request = request.and_then(|request| cursor.finish().map(|()| request));
        request.map_err(WireError::packet("SSL request"))
    }

    // size  field
    //    4  capabilities, the lowest 32
    //    4  packet_max
    //    1  collation
    //   19  unused
    //    4  MariaDB's capabilities; unused with LONG_PASSWORD
    fn decode_head(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let mut capabilities = Capabilities(cursor.u32()?.into());
        if !capabilities.contains(Capabilities::PROTOCOL_41) {
            let reason = DecodeReason::Unsupported { what: "the protocol of MySQL before 4.1" };
            return Err(DecodeError::new(0, reason));
        }
        let packet_max = cursor.u32()?;
        let collation = cursor.u8()?;
        cursor.bytes(19)?;
        let extended = u64::from(cursor.u32()?);
        if !capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities.0 |= extended << 32;
        }
        Ok(Self { capabilities, packet_max, collation })
    }

    /// Encodes the request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let bits = self.capabilities.0.to_le_bytes();
        out.extend_from_slice(&bits[..4]);
        out.extend_from_slice(&self.packet_max.to_le_bytes());
        out.push(self.collation);
        out.extend_from_slice(&[0; 19]);
        out.extend_from_slice(&bits[4..]);
    }
}

/// Login request with authentication data: MySQL's `HandshakeResponse41`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginRequest<'a> {
    /// Capabilities and other first fields.
    pub head: SslRequest,
    /// Name of the account.
    pub user: &'a [u8],
    /// Authentication data, computed from the password.
    pub proof: &'a [u8],
    /// Default database, with [`Capabilities::CONNECT_WITH_DB`].
    pub database: &'a [u8],
    /// Plugin that computed the authentication data.
    pub plugin: &'a [u8],
    /// Connection attributes: names and values in turn, each length-encoded.
    pub attributes: &'a [u8],
    /// Compression level, with [`Capabilities::ZSTD_COMPRESSION_ALGORITHM`].
    pub zstd_level: u8,
}

impl<'a> LoginRequest<'a> {
    /// Decodes a login request.
    ///
    /// # Errors
    ///
    /// Fails if the payload is no login request.
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        Self::decode_fields(payload).map_err(WireError::packet("login request"))
    }

    // size  field
    //   32  head: as SslRequest
    //    *  user, NUL
    //    *  proof: size (lenenc with PLUGIN_AUTH_LENENC_CLIENT_DATA, else 1), then the bytes
    //    *  database, NUL, with CONNECT_WITH_DB
    //    *  plugin, NUL, with PLUGIN_AUTH
    //    *  attributes: lenenc size, then the bytes, with CONNECT_ATTRS
    //    1  zstd_level, with ZSTD_COMPRESSION_ALGORITHM
    fn decode_fields(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        let head = SslRequest::decode_head(&mut cursor)?;
        let has = |one| head.capabilities.contains(one);
        let user = nul_ended(&mut cursor)?;
        let proof = match has(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA) {
            true => cursor.lenenc_bytes()?,
            false => {
                let size = cursor.u8()?;
                cursor.bytes(size.into())?
            }
        };
        let (mut database, mut plugin, mut attributes, mut zstd_level) = (&[][..], &[][..], &[][..], 0);
        if has(Capabilities::CONNECT_WITH_DB) {
            database = nul_ended_or_rest(&mut cursor);
        }
        if has(Capabilities::PLUGIN_AUTH) {
            plugin = nul_ended_or_rest(&mut cursor);
        }
        if has(Capabilities::CONNECT_ATTRS) {
            attributes = cursor.lenenc_bytes()?;
        }
        if has(Capabilities::ZSTD_COMPRESSION_ALGORITHM) {
            zstd_level = cursor.u8()?;
        }
        // Servers ignore further fields, so they accept future clients.
        Ok(Self { head, user, proof, database, plugin, attributes, zstd_level })
    }

    /// Encodes the request. Without [`Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA`], authentication data is truncated
    /// to 255 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let has = |one| self.head.capabilities.contains(one);
        self.head.encode(out);
        put_nul_ended(out, self.user);
        if has(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA) {
            put_lenenc_bytes(out, self.proof);
        } else {
            let proof = &self.proof[..self.proof.len().min(u8::MAX.into())];
            out.push(proof.len() as u8);
            out.extend_from_slice(proof);
        }
        if has(Capabilities::CONNECT_WITH_DB) {
            put_nul_ended(out, self.database);
        }
        if has(Capabilities::PLUGIN_AUTH) {
            put_nul_ended(out, self.plugin);
        }
        if has(Capabilities::CONNECT_ATTRS) {
            put_lenenc_bytes(out, self.attributes);
        }
        if has(Capabilities::ZSTD_COMPRESSION_ALGORITHM) {
            out.push(self.zstd_level);
        }
    }

    /// Encodes names and values for [`LoginRequest::attributes`].
    pub fn encode_attributes(attributes: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in attributes {
            put_lenenc(&mut out, name.len() as u64);
            out.extend_from_slice(name.as_bytes());
            put_lenenc(&mut out, value.len() as u64);
            out.extend_from_slice(value.as_bytes());
        }
        out
    }
}

/// Request of the server to switch to another authentication plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthSwitchRequest<'a> {
    /// Name of the plugin; empty for the authentication before MySQL 4.1.
    pub plugin: &'a [u8],
    /// New nonce, for most plugins.
    pub nonce: &'a [u8],
}

impl<'a> AuthSwitchRequest<'a> {
    /// Returns true if `payload`, in a handshake, looks like this request.
    pub fn is(payload: &[u8]) -> bool {
        payload.first() == Some(&AUTH_SWITCH)
    }

    /// Decodes the request.
    ///
    /// # Errors
    ///
    /// Fails if the payload has another first byte.
    // size  field
    //    1  0xfe
    //    *  plugin, NUL
    //    *  nonce: to the end, usually with a trailing NUL
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        let Some((&AUTH_SWITCH, rest)) = payload.split_first() else {
            return Err(WireError::unexpected(payload, "an authentication switch request (0xfe)"));
        };
        let mut cursor = Cursor::new(rest);
        let plugin = nul_ended_or_rest(&mut cursor);
        let nonce = cursor.take_rest();
        Ok(Self { plugin, nonce: nonce.strip_suffix(&[0]).unwrap_or(nonce) })
    }

    /// Encodes the request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(AUTH_SWITCH);
        put_nul_ended(out, self.plugin);
        put_nul_ended(out, self.nonce);
    }
}

/// Further authentication data, specific to the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthMoreData<'a> {
    /// Data for the plugin.
    pub data: &'a [u8],
}

impl<'a> AuthMoreData<'a> {
    /// Returns true if `payload`, in a handshake, looks like this packet.
    pub fn is(payload: &[u8]) -> bool {
        payload.first() == Some(&AUTH_MORE_DATA)
    }

    /// Decodes the packet.
    ///
    /// # Errors
    ///
    /// Fails if the payload has another first byte.
    // size  field
    //    1  0x01
    //    *  data: to the end
    pub fn decode(payload: &'a [u8]) -> Result<Self, WireError> {
        match payload.split_first() {
            Some((&AUTH_MORE_DATA, data)) => Ok(Self { data }),
            _ => Err(WireError::unexpected(payload, "authentication data (0x01)")),
        }
    }

    /// Encodes the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(AUTH_MORE_DATA);
        out.extend_from_slice(self.data);
    }
}

fn nul_ended<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], DecodeError> {
    match cursor.rest().iter().position(|byte| *byte == 0) {
        Some(size) => {
            let text = cursor.bytes(size)?;
            cursor.u8()?;
            Ok(text)
        }
        None => {
            let found = cursor.rest().len();
            Err(cursor.error(DecodeReason::Short { expected: found as u64 + 1, found }))
        }
    }
}

/// Reads text up to a NUL, or all of the rest: some servers and clients omit the last NUL.
fn nul_ended_or_rest<'a>(cursor: &mut Cursor<'a>) -> &'a [u8] {
    nul_ended(cursor).unwrap_or_else(|_| cursor.take_rest())
}

fn put_nul_ended(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.push(0);
}

//! Authentication plugins.

use ed25519_dalek::VerifyingKey;
use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use rsa::pkcs8::DecodePublicKey as _;
use rsa::rand_core::{CryptoRng, Error as RandError, RngCore, impls};
use rsa::{Oaep, RsaPublicKey};
use sha1::{Digest as _, Sha1};
use sha2::{Digest as _, Sha256, Sha512};

use crate::error::WireError;

/// caching_sha2_password: the server has cached the hash of the password.
pub(super) const FAST_AUTH_SUCCESS: &[u8] = &[3];
/// caching_sha2_password: the hash is not cached; the server requests the password itself.
pub(super) const FULL_AUTHENTICATION: &[u8] = &[4];
/// Request for the server's public key, of caching_sha2_password and of sha256_password.
pub(super) const KEY_REQUEST_CACHING_SHA2: u8 = 2;
pub(super) const KEY_REQUEST_SHA256: u8 = 1;

/// Authentication plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthPlugin {
    /// MySQL 8 and later: a hash of the password, or the password itself if the server has not cached the hash.
    CachingSha2,
    /// The password itself, encrypted.
    Sha256,
    /// SHA-1 hash of the password.
    Native,
    /// The password itself.
    Clear,
    /// MariaDB: a signature with a key derived from the password.
    Ed25519,
}

/// Supported plugins, with their names in the protocol.
const PLUGINS: [(AuthPlugin, &str); 5] = [
    (AuthPlugin::CachingSha2, "caching_sha2_password"),
    (AuthPlugin::Sha256, "sha256_password"),
    (AuthPlugin::Native, "mysql_native_password"),
    (AuthPlugin::Clear, "mysql_clear_password"),
    (AuthPlugin::Ed25519, "client_ed25519"),
];

impl AuthPlugin {
    pub(super) fn find(name: &[u8]) -> Result<Self, WireError> {
        let found = PLUGINS.iter().find(|(_, known)| known.as_bytes() == name);
        found.map(|(plugin, _)| *plugin).ok_or_else(|| WireError::UnknownPlugin {
            name: match name {
                b"" => "mysql_old_password".to_owned(),
                _ => String::from_utf8_lossy(name).into_owned(),
            },
        })
    }

    pub(super) fn name(self) -> &'static str {
        let found = PLUGINS.iter().find(|(plugin, _)| *plugin == self);
        found.map(|(_, name)| *name).expect("ours: the table has every plugin")
    }
}

/// Computes `SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password)))`; empty without a password.
pub(super) fn native(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    xor(&once, &mask)
}

/// Computes `SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce)`; a single 0 without a password.
pub(super) fn caching_sha2(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return vec![0];
    }
    let once = Sha256::digest(password);
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    xor(&once, &mask)
}

/// Signs the nonce with the key whose seed is the password (MariaDB).
pub(super) fn ed25519(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let hash: [u8; 64] = Sha512::digest(password).into();
    let key = ExpandedSecretKey::from_bytes(&hash);
    raw_sign::<Sha512>(&key, nonce, &VerifyingKey::from(&key)).to_bytes().to_vec()
}

/// Returns the password itself, as sent over a secure connection.
pub(super) fn clear(password: &[u8]) -> Vec<u8> {
    [password, &[0]].concat()
}

/// Encrypts the password, XORed with the nonce, with the public key `key` (RSA, OAEP with SHA-1).
///
/// `padding` must be random and different each time.
pub(super) fn encrypted(
    password: &[u8],
    nonce: &[u8],
    key: &[u8],
    padding: &[u8; PADDING_SIZE],
) -> Result<Vec<u8>, WireError> {
    let unusable = |reason: String| WireError::ServerKey { reason };
    let pem = str::from_utf8(key).map_err(|_| unusable("not PEM".into()))?;
    let key = RsaPublicKey::from_public_key_pem(trim_pem(pem))
        .map_err(|_| unusable("not an RSA key in PEM form".into()))?;
    let mask = nonce.iter().cycle();
    let mixed: Vec<u8> = clear(password).iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
    key.encrypt(&mut PaddingSource(padding), Oaep::new::<Sha1>(), &mixed)
        .map_err(|error| unusable(error.to_string()))
}

/// Removes bytes around a key in PEM form. Servers write a NUL after the key in the files that they create.
pub(super) fn trim_pem(pem: &str) -> &str {
    pem.trim_matches(|one: char| one == '\0' || one.is_ascii_whitespace())
}

/// Number of random bytes for one encryption.
pub(super) const PADDING_SIZE: usize = 20;

/// Random number generator that returns the given bytes: exactly as many as the encryption needs.
struct PaddingSource<'a>(&'a [u8; PADDING_SIZE]);

impl RngCore for PaddingSource<'_> {
    fn next_u32(&mut self) -> u32 {
        impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for (byte, random) in bytes.iter_mut().zip(self.0.iter().cycle()) {
            *byte = *random;
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), RandError> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

impl CryptoRng for PaddingSource<'_> {}

fn xor(bytes: &[u8], mask: &[u8]) -> Vec<u8> {
    bytes.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect()
}

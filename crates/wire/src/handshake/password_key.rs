//! The server's RSA key, with which clients encrypt passwords.

use std::fmt;

use rsa::pkcs1::DecodeRsaPrivateKey as _;
use rsa::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, EncodePublicKey as _, LineEnding};
use rsa::traits::PublicKeyParts as _;
use rsa::{Oaep, RsaPrivateKey, RsaPublicKey};
use sha1::Sha1;

use super::auth::trim_pem;
use super::seeded_bytes::SeededBytes;
use crate::error::WireError;

/// Size of generated keys in bits, the same as in servers.
const KEY_BITS: usize = 2048;
/// Maximum size of a key in bytes: `MAX_CIPHER_LENGTH` of `sql/auth/sha2_password.cc`.
const KEY_SIZE_MAX: usize = 1024;

/// RSA key pair of a server. Clients without TLS encrypt their passwords with the public key.
///
/// Corresponds to MySQL's `caching_sha2_password_private_key_path` and `…_public_key_path`.
pub struct PasswordKey {
    key: RsaPrivateKey,
    public_pem: String,
}

impl PasswordKey {
    /// Reads a private key in PEM form (PKCS #8 or PKCS #1), as in a server's `private_key.pem`.
    ///
    /// # Errors
    ///
    /// Fails if this is no RSA key, or a key of more than 8192 bits ([`WireError::PrivateKey`]).
    pub fn from_pem(pem: &str) -> Result<Self, WireError> {
        let pem = trim_pem(pem);
        let key = RsaPrivateKey::from_pkcs8_pem(pem).or_else(|_| RsaPrivateKey::from_pkcs1_pem(pem));
        let key =
            key.map_err(|_| WireError::PrivateKey { reason: "not an RSA key in PEM form".to_owned() })?;
        if key.size() > KEY_SIZE_MAX {
            return Err(WireError::PrivateKey {
                reason: format!("it has more than {} bits", 8 * KEY_SIZE_MAX),
            });
        }
        Self::new(key)
    }

    /// Generates a key of 2048 bits from a seed, which must be random and secret. Takes about a second.
    ///
    /// # Errors
    ///
    /// Fails if the key cannot be generated ([`WireError::PrivateKey`]).
    pub fn generate(seed: [u8; 32]) -> Result<Self, WireError> {
        let key = RsaPrivateKey::new(&mut SeededBytes::new(seed), KEY_BITS);
        Self::new(key.map_err(|error| WireError::PrivateKey { reason: error.to_string() })?)
    }

    fn new(key: RsaPrivateKey) -> Result<Self, WireError> {
        let public_pem = RsaPublicKey::from(&key).to_public_key_pem(LineEnding::LF);
        let public_pem = public_pem.map_err(|error| WireError::PrivateKey { reason: error.to_string() })?;
        Ok(Self { key, public_pem })
    }

    /// Returns the private key in PEM form (PKCS #8), for [`PasswordKey::from_pem`].
    ///
    /// # Errors
    ///
    /// Fails if the key cannot be encoded ([`WireError::PrivateKey`]).
    pub fn private_pem(&self) -> Result<String, WireError> {
        let pem = self.key.to_pkcs8_pem(LineEnding::LF);
        pem.map(|pem| pem.to_string()).map_err(|error| WireError::PrivateKey { reason: error.to_string() })
    }

    /// Returns the public key in PEM form, as clients request it.
    pub fn public_pem(&self) -> &str {
        &self.public_pem
    }

    /// Decrypts a password that a client has XORed with the nonce. Returns `None` for other bytes.
    ///
    /// The seed hides the duration of the decryption (blinding).
    pub(super) fn decrypt(&self, encrypted: &[u8], nonce: &[u8], seed: [u8; 32]) -> Option<Vec<u8>> {
        if encrypted.len() != self.key.size() {
            return None;
        }
        let mixed =
            self.key.decrypt_blinded(&mut SeededBytes::new(seed), Oaep::new::<Sha1>(), encrypted).ok()?;
        let mask = nonce.iter().cycle();
        Some(mixed.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect())
    }
}

/// Shows the public key only.
impl fmt::Debug for PasswordKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PasswordKey").field("public_pem", &self.public_pem).finish_non_exhaustive()
    }
}

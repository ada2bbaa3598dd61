//! Keys of a keyring that protect the objects of an archive.

use std::fmt;
use std::sync::Arc;

use binlog::encryption::{EncryptionKeyError, KEY_SIZE, Keyring, NoLogKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

use crate::encrypted_object_error::EncryptedObjectError;

/// Maximum size of a key's name in bytes: the head of an object states it in one byte.
const KEY_ID_SIZE_MAX: usize = u8::MAX as usize;

/// Size of the value that shows whether a key is the one that encrypted an object.
pub(crate) const CHECK_SIZE: usize = 8;

/// Key of a keyring, from which the keys of an archive are derived.
#[derive(Clone)]
pub struct MasterKey {
    id: String,
    bytes: [u8; KEY_SIZE],
}

/// Reason why a keyring has no key with which an archive can be encrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoMasterKey {
    /// The keyring has no key for logs, or keys of several servers.
    #[error("the keyring has {0}")]
    NoLogKey(#[from] NoLogKey),
    /// The key has a wrong size, or is missing.
    #[error(transparent)]
    Key(#[from] EncryptionKeyError),
    /// The name of the key is not valid, or too long.
    #[error("the name of the key {key_id} has more than 255 bytes, or is not valid UTF-8")]
    Name {
        /// Name of the key.
        key_id: String,
    },
}

/// Key that encrypts change tables, for the programs that read them. It does not decrypt segments or manifests.
#[derive(Clone)]
pub struct TableKey {
    /// Name of the master key from which it is derived.
    pub key_id: String,
    /// Bytes of the AES-256 key.
    pub bytes: [u8; KEY_SIZE],
}

impl fmt::Debug for MasterKey {
    /// Omits the key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("MasterKey").field(&self.id).finish()
    }
}

impl fmt::Debug for TableKey {
    /// Omits the key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("TableKey").field(&self.key_id).finish()
    }
}

impl TableKey {
    /// Returns the key in base64, as DuckDB takes it.
    pub fn base64(&self) -> String {
        base64_simd::STANDARD.encode_to_string(self.bytes)
    }
}

impl MasterKey {
    /// Returns the newest key for logs of a keyring.
    ///
    /// # Errors
    ///
    /// Fails if the keyring has no key for logs, or keys of several servers, or if the key is no AES-256 key.
    pub fn newest(keyring: &Keyring) -> Result<Self, NoMasterKey> {
        let key = keyring.newest_log_key()?;
        let id = String::from_utf8(key.id.clone()).ok().filter(|id| id.len() <= KEY_ID_SIZE_MAX);
        let id = id.ok_or_else(|| NoMasterKey::Name { key_id: key.name() })?;
        Ok(Self { id, bytes: *key.aes_key()? })
    }

    /// Returns the key of this name.
    ///
    /// # Errors
    ///
    /// Fails if the keyring lacks the key, or if it is no AES-256 key.
    pub fn named(keyring: &Keyring, id: &str) -> Result<Self, EncryptionKeyError> {
        Ok(Self { id: id.to_owned(), bytes: *keyring.aes_key(id.as_bytes())? })
    }

    /// Returns the name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the key of change tables.
    pub fn table_key(&self) -> TableKey {
        TableKey { key_id: self.id.clone(), bytes: self.derive(b"bintide archive: change tables") }
    }

    /// Returns the key that encrypts the data keys of objects.
    pub(crate) fn wrapping_key(&self) -> [u8; KEY_SIZE] {
        self.derive(b"bintide archive: data keys")
    }

    /// Returns a value that shows whether another key has the same bytes, and nothing else of them.
    pub(crate) fn check_value(&self) -> [u8; CHECK_SIZE] {
        self.derive(b"bintide archive: check")
    }

    /// Derives bytes for one purpose. The server uses the same master key for its own logs, so that no purpose gets the
    /// key itself.
    fn derive<const SIZE: usize>(&self, purpose: &[u8]) -> [u8; SIZE] {
        let mut derived = [0; SIZE];
        let pseudo_random_key = Salt::new(HKDF_SHA256, &[]).extract(&self.bytes);
        pseudo_random_key
            .expand(&[purpose], DerivedSize(SIZE))
            .and_then(|output| output.fill(&mut derived))
            .expect("ours: HKDF-SHA-256 derives up to 8160 bytes");
        derived
    }
}

/// Size of a derived value in bytes.
struct DerivedSize(usize);

impl KeyType for DerivedSize {
    fn len(&self) -> usize {
        self.0
    }
}

/// Keyrings with which the objects of archives are decrypted.
#[derive(Clone, Debug, Default)]
pub struct ArchiveKeys(Vec<Arc<Keyring>>);

impl ArchiveKeys {
    /// Adds the keys of a keyring.
    pub fn add(&mut self, keyring: Arc<Keyring>) {
        if !self.0.contains(&keyring) {
            self.0.push(keyring);
        }
    }

    /// Returns the key of this name and this check value.
    pub(crate) fn find(&self, id: &str, check: [u8; CHECK_SIZE]) -> Result<MasterKey, EncryptedObjectError> {
        let mut failure = EncryptedObjectError::KeyringRequired { key_id: id.to_owned() };
        for keyring in &self.0 {
            match MasterKey::named(keyring, id) {
                Ok(key) if key.check_value() == check => return Ok(key),
                Ok(_) => failure = EncryptedObjectError::WrongKey { key_id: id.to_owned() },
                // Another keyring has a key of this name, which says more.
                Err(_) if matches!(failure, EncryptedObjectError::WrongKey { .. }) => {}
                Err(error) => failure = EncryptedObjectError::Key(error),
            }
        }
        Err(failure)
    }
}

impl From<Option<Arc<Keyring>>> for ArchiveKeys {
    fn from(keyring: Option<Arc<Keyring>>) -> Self {
        Self(keyring.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binlog::encryption::{Keyring, KeyringKey};

    use super::{ArchiveKeys, MasterKey};

    fn keyring(keys: &[(&str, u8)]) -> Keyring {
        let key = |(id, byte): &(&str, u8)| KeyringKey {
            id: id.as_bytes().to_vec(),
            user: Vec::new(),
            bytes: vec![*byte; 32],
        };
        Keyring::new(keys.iter().map(key).collect())
    }

    #[test]
    fn each_purpose_has_its_own_key() {
        let key = MasterKey::newest(&keyring(&[("MySQLReplicationKey_u_1", 1)])).unwrap();
        let derived = [key.wrapping_key(), key.table_key().bytes, [1; 32]];
        assert!(derived.iter().all(|one| derived.iter().filter(|other| one == *other).count() == 1));
        assert!(!format!("{key:?} {:?}", key.table_key()).contains("1, 1"));
    }

    #[test]
    fn a_key_is_found_in_any_keyring() {
        let (one, two) = (keyring(&[("k", 1)]), keyring(&[("k", 2), ("l", 3)]));
        let check = |keyrings: &[&Keyring], id: &str, byte: u8, expected: &str| {
            let mut keys = ArchiveKeys::default();
            keyrings.iter().for_each(|keyring| keys.add(Arc::new((*keyring).clone())));
            let check = MasterKey::named(&keyring(&[(id, byte)]), id).unwrap().check_value();
            let found = keys.find(id, check).map(|key| key.bytes[0].to_string());
            let found = found.unwrap_or_else(|error| error.to_string());
            assert!(found.contains(expected), "{found}");
        };
        check(&[&one, &two], "k", 2, "2");
        check(&[&two, &one], "l", 3, "3");
        check(&[&one, &two], "k", 4, "a different key with this name");
        check(&[&two, &one], "l", 4, "a different key with this name");
        check(&[], "k", 1, "Give the keyring file that has this key");
        check(&[&two], "m", 1, "not in the keyring, which has k, l");
    }
}

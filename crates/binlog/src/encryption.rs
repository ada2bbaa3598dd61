//! Encrypted logs: their header and their cipher.
//!
//! An encrypted log is a header of 512 bytes, followed by a log encrypted with AES-256-CTR from the magic number on.
//! The log's key is derived from a password in the header. The password is encrypted with AES-256-CBC and a key of the
//! server's keyring. When that key is rotated, the server replaces the header and leaves the log unchanged.
//!
//! Positions in the log do not include the header.

mod keyring;

use std::fmt;

use aes::Aes256;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use ctr::Ctr64BE;
use ctr::cipher::{StreamCipher, StreamCipherSeek};
use sha2::{Digest, Sha512};

pub use self::keyring::{Keyring, KeyringError, KeyringKey, NoLogKey};
use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};
use crate::framer::MAGIC_ENCRYPTED;

/// Size of the header of an encrypted log in bytes.
pub const ENCRYPTED_HEADER_SIZE: usize = 512;

/// Size of a keyring key for logs in bytes.
pub const KEY_SIZE: usize = 32;

const PASSWORD_SIZE: usize = 32;
const IV_SIZE: usize = 16;

/// Header of an encrypted log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedHeader {
    /// Name of the keyring key that encrypts the password: `MySQLReplicationKey_UUID_NUMBER`.
    key_id: Vec<u8>,
    password: [u8; PASSWORD_SIZE],
    iv: [u8; IV_SIZE],
}

/// Key problem that keeps an encrypted log from being opened or created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncryptionKeyError {
    /// The keyring has no key with this name.
    MissingKey {
        /// Name of the missing key.
        key_id: String,
        /// Names of the keyring's keys for logs.
        known: Vec<String>,
    },
    /// The key is no AES-256 key.
    KeySize {
        /// Name of the key.
        key_id: String,
        /// Size of the key in bytes.
        found: usize,
    },
}

impl fmt::Display for EncryptionKeyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingKey { key_id, known } if known.is_empty() => {
                write!(out, "the key {key_id} is not in the keyring, which has no keys for logs")
            }
            Self::MissingKey { key_id, known } => {
                write!(out, "the key {key_id} is not in the keyring, which has {}", known.join(", "))
            }
            Self::KeySize { key_id, found } => {
                write!(out, "the key {key_id} has {found} bytes, expected {KEY_SIZE}")
            }
        }
    }
}

impl std::error::Error for EncryptionKeyError {}

const VERSION: u8 = 1;
const FIELD_END: u8 = 0;
const FIELD_KEY_ID: u8 = 1;
const FIELD_PASSWORD: u8 = 2;
const FIELD_IV: u8 = 3;

// size  field
//    4  magic
//    1  version: 1
//       fields, each preceded by its type (1):
//    *  1: size of the key's name (1), then the name
//   32  2: the password, encrypted
//   16  3: the initialisation vector for it
//    *  zeros, up to 512 bytes
impl EncryptedHeader {
    /// Decodes the first 512 bytes of an encrypted log.
    ///
    /// # Errors
    ///
    /// Fails if the bytes do not start with the magic number of encrypted logs, or if the version or a field is
    /// unknown. Also fails if a field is missing, or if other bytes follow the fields.
    pub fn decode(bytes: &[u8; ENCRYPTED_HEADER_SIZE]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes);
        let magic = cursor.array()?;
        if magic != MAGIC_ENCRYPTED {
            let (field, found) = ("magic number", u64::from(u32::from_be_bytes(magic)));
            let expected = "4251085166 (fd 62 69 6e, an encrypted log)";
            return Err(DecodeError::new(0, DecodeReason::Unexpected { field, found, expected }));
        }
        if cursor.u8()? != VERSION {
            let what = "an encrypted log whose version is not 1";
            return Err(DecodeError::new(MAGIC_ENCRYPTED.len(), DecodeReason::Unsupported { what }));
        }
        let (mut key_id, mut password, mut iv) = (None, None, None);
        while !cursor.is_empty() {
            let at = cursor.clone();
            match cursor.u8()? {
                FIELD_END => break,
                FIELD_KEY_ID => {
                    let size = cursor.u8()?;
                    key_id = Some(cursor.bytes(usize::from(size))?.to_vec());
                }
                FIELD_PASSWORD => password = Some(cursor.array()?),
                FIELD_IV => iv = Some(cursor.array()?),
                _ => {
                    return Err(at.error(DecodeReason::Unsupported {
                        what: "an unknown field in the header of an encrypted log",
                    }));
                }
            }
        }
        let padding = cursor.rest();
        if let Some(index) = padding.iter().position(|byte| *byte != 0) {
            let (field, found) = ("padding", u64::from(padding[index]));
            let reason = DecodeReason::Unexpected { field, found, expected: "zeros to the header's end" };
            return Err(DecodeError::new(cursor.offset() + index, reason));
        }
        let missing = |field| cursor.error(DecodeReason::Missing { field });
        Ok(Self {
            key_id: key_id.ok_or_else(|| missing("key name"))?,
            password: password.ok_or_else(|| missing("password"))?,
            iv: iv.ok_or_else(|| missing("initialisation vector"))?,
        })
    }

    /// Encodes the first 512 bytes of an encrypted log.
    pub fn encode(&self) -> [u8; ENCRYPTED_HEADER_SIZE] {
        let mut bytes = Vec::with_capacity(ENCRYPTED_HEADER_SIZE);
        bytes.extend_from_slice(&MAGIC_ENCRYPTED);
        bytes.push(VERSION);
        // `seal` and `decode` limit names to 255 bytes.
        bytes.extend_from_slice(&[FIELD_KEY_ID, self.key_id.len() as u8]);
        bytes.extend_from_slice(&self.key_id);
        bytes.push(FIELD_PASSWORD);
        bytes.extend_from_slice(&self.password);
        bytes.push(FIELD_IV);
        bytes.extend_from_slice(&self.iv);
        let mut header = [0; ENCRYPTED_HEADER_SIZE];
        header[..bytes.len()].copy_from_slice(&bytes);
        header
    }

    /// Creates the header of a log, with its password encrypted by a key of the keyring. Password and initialisation
    /// vector must be random and new for each log.
    ///
    /// # Errors
    ///
    /// Fails if the key is no AES-256 key, or if its name is longer than 255 bytes.
    pub fn seal(
        key: &KeyringKey,
        password: &FilePassword,
        iv: [u8; IV_SIZE],
    ) -> Result<Self, EncryptionKeyError> {
        let key_bytes = key.aes_key()?;
        let key_id = key.id.clone();
        if key_id.len() > usize::from(u8::MAX) {
            return Err(EncryptionKeyError::MissingKey { key_id: key.name(), known: Vec::new() });
        }
        let mut sealed = password.0;
        let mut cipher = cbc::Encryptor::<Aes256>::new(key_bytes.into(), &iv.into());
        let (blocks, _) = sealed.as_chunks_mut::<16>();
        blocks.iter_mut().for_each(|block| cipher.encrypt_block(block.into()));
        Ok(Self { key_id, password: sealed, iv })
    }

    /// Returns the name of the keyring key that opens the log.
    pub fn key_id(&self) -> &[u8] {
        &self.key_id
    }

    /// Decrypts the log's password. A wrong key of the right size is not detected here: the decrypted log then does not
    /// start with a log's magic number.
    ///
    /// # Errors
    ///
    /// Fails if the keyring lacks the key, or if it is no AES-256 key.
    pub fn open(&self, keyring: &Keyring) -> Result<FilePassword, EncryptionKeyError> {
        let mut password = self.password;
        let mut cipher =
            cbc::Decryptor::<Aes256>::new(keyring.aes_key(&self.key_id)?.into(), &self.iv.into());
        let (blocks, _) = password.as_chunks_mut::<16>();
        blocks.iter_mut().for_each(|block| cipher.decrypt_block(block.into()));
        Ok(FilePassword(password))
    }
}

/// Password of one log, from which its key is derived.
#[derive(Clone, PartialEq, Eq)]
pub struct FilePassword([u8; PASSWORD_SIZE]);

impl fmt::Debug for FilePassword {
    /// Omits the password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("FilePassword")
    }
}

impl FilePassword {
    /// Creates a password from random bytes.
    pub const fn new(bytes: [u8; PASSWORD_SIZE]) -> Self {
        Self(bytes)
    }

    /// Returns the cipher of the log.
    pub fn cipher(&self) -> LogCipher {
        let digest: [u8; 64] = Sha512::digest(self.0).into();
        let mut key = [0; KEY_SIZE];
        key.copy_from_slice(&digest[..KEY_SIZE]);
        // The second half of the vector is the block counter.
        let mut iv = [0; IV_SIZE];
        iv[..8].copy_from_slice(&digest[KEY_SIZE..KEY_SIZE + 8]);
        LogCipher(Ctr64BE::new(&key.into(), &iv.into()))
    }
}

/// Cipher of one log, for both directions and any offset.
pub struct LogCipher(Ctr64BE<Aes256>);

impl fmt::Debug for LogCipher {
    /// Omits the key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("LogCipher")
    }
}

impl LogCipher {
    /// Encrypts or decrypts in place the bytes at `offset` of the log. The offset does not include the header.
    pub fn apply(&mut self, offset: u64, bytes: &mut [u8]) {
        // The keystream has 2^68 bytes, so that every 64-bit offset is valid.
        let _ = self.0.try_seek(offset);
        let _ = self.0.try_apply_keystream(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{
        ENCRYPTED_HEADER_SIZE, EncryptedHeader, EncryptionKeyError, FilePassword, IV_SIZE, KEY_SIZE, Keyring,
        KeyringKey, PASSWORD_SIZE,
    };
    use crate::framer::{Framer, FramerOutput, MAGIC};

    fn samples() -> impl Iterator<Item = (PathBuf, Keyring)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
        ["encrypted", "encrypted-compressed"].into_iter().flat_map(move |directory| {
            let directory = root.join(directory);
            let keyring = Keyring::parse(&std::fs::read(directory.join("keyring")).unwrap()).unwrap();
            let index = std::fs::read_to_string(directory.join("binlog.index")).unwrap();
            let logs: Vec<PathBuf> =
                index.lines().map(|line| directory.join(line.trim_start_matches("./"))).collect();
            assert!(!logs.is_empty());
            logs.into_iter().map(move |log| (log, keyring.clone()))
        })
    }

    fn header(bytes: &[u8]) -> [u8; ENCRYPTED_HEADER_SIZE] {
        *bytes.first_chunk().unwrap()
    }

    #[test]
    fn logs_of_a_real_server_are_decrypted() {
        for (path, keyring) in samples() {
            let mut bytes = std::fs::read(&path).unwrap();
            let head = EncryptedHeader::decode(&header(&bytes)).unwrap();
            assert_eq!(head.encode(), header(&bytes));
            let log = &mut bytes[ENCRYPTED_HEADER_SIZE..];
            head.open(&keyring).unwrap().cipher().apply(0, log);
            assert_eq!(log[..4], MAGIC);
            let (mut framer, mut rest, mut count) = (Framer::new(), &log[4..], 0);
            while let FramerOutput::Event(raw) = framer.next(rest).unwrap() {
                raw.verify().unwrap();
                rest = &rest[raw.bytes().len()..];
                count += 1;
            }
            assert!(rest.is_empty() && count > 3, "{}", path.display());
        }
    }

    fn key(id: &[u8], size: usize) -> KeyringKey {
        KeyringKey { id: id.to_vec(), user: Vec::new(), bytes: vec![0; size] }
    }

    #[test]
    fn encrypted_headers_round_trip() {
        let (password, iv) = (FilePassword::new([7; 32]), [9; IV_SIZE]);
        let keyring = Keyring::new(vec![key(b"a", KEY_SIZE), key(b"short", 16)]);
        let header = EncryptedHeader::seal(&keyring.keys()[0], &password, iv).unwrap();
        assert_eq!(EncryptedHeader::decode(&header.encode()), Ok(header.clone()));
        assert_eq!(header.open(&keyring), Ok(password.clone()));
        let missing =
            header.open(&Keyring::new(vec![key(b"b", KEY_SIZE), key(b"c", KEY_SIZE), key(b"d", 16)]));
        let error = missing.unwrap_err();
        assert_eq!(
            error,
            EncryptionKeyError::MissingKey { key_id: "a".into(), known: vec!["b".into(), "c".into()] }
        );
        assert_eq!(error.to_string(), "the key a is not in the keyring, which has b, c");
        let error = header.open(&Keyring::default()).unwrap_err().to_string();
        assert_eq!(error, "the key a is not in the keyring, which has no keys for logs");
        let error = header.open(&Keyring::new(vec![key(b"a", 16)])).unwrap_err().to_string();
        assert_eq!(error, "the key a has 16 bytes, expected 32");
        assert!(EncryptedHeader::seal(&key(&[b'x'; 256], KEY_SIZE), &password, iv).is_err());
        assert!(EncryptedHeader::seal(&key(&[b'x'; 255], KEY_SIZE), &password, iv).is_ok());
        // Keys of other users are not used.
        let other = KeyringKey { user: b"joe".to_vec(), ..key(b"a", KEY_SIZE) };
        assert!(header.open(&Keyring::new(vec![other])).is_err());
    }

    #[test]
    fn faults_in_headers() {
        let (path, _) = samples().next().unwrap();
        let good = header(&std::fs::read(path).unwrap());
        let check = |changes: &[(usize, u8)], expected: &str| {
            let mut bad = good;
            changes.iter().for_each(|(at, byte)| bad[*at] = *byte);
            assert_eq!(EncryptedHeader::decode(&bad).unwrap_err().to_string(), expected);
        };
        let unknown = "an unknown field in the header of an encrypted log cannot be read";
        check(
            &[(0, 0xfe)],
            "byte 0: magic number is 4267862382, expected 4251085166 (fd 62 69 6e, an encrypted log)",
        );
        check(&[(4, 2)], "byte 4: an encrypted log whose version is not 1 cannot be read");
        check(&[(5, 9)], &format!("byte 5: {unknown}"));
        // The size of the name: the next field then has an unknown type.
        check(&[(6, 57)], &format!("byte 64: {unknown}"));
        check(&[(5, 0)], "byte 6: padding is 58, expected zeros to the header's end");
        check(&[(511, 1)], "byte 511: padding is 1, expected zeros to the header's end");
        // Each field by itself.
        let alone = |range: std::ops::Range<usize>| {
            let mut bad = [0; ENCRYPTED_HEADER_SIZE];
            let size = range.len();
            bad[..5].copy_from_slice(&good[..5]);
            bad[5..5 + size].copy_from_slice(&good[range]);
            EncryptedHeader::decode(&bad).unwrap_err().to_string()
        };
        let (password, iv) = (65, 65 + 1 + PASSWORD_SIZE);
        assert_eq!(alone(password..iv), "byte 39: key name is missing");
        assert_eq!(alone(5..password), "byte 66: password is missing");
        assert_eq!(alone(5..iv), "byte 99: initialisation vector is missing");
    }

    proptest! {
        #[test]
        fn any_part_of_a_log_is_decrypted(start in 0_usize..5000, size in 0_usize..500, beyond in any::<u32>()) {
            let password = FilePassword::new([3; 32]);
            let base = u64::from(beyond) << 8;
            let mut whole = vec![0; 5500];
            password.cipher().apply(base, &mut whole);
            let mut part = vec![0; size];
            password.cipher().apply(base + start as u64, &mut part);
            prop_assert_eq!(&part[..], &whole[start..start + size]);
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), ENCRYPTED_HEADER_SIZE), valid in 0_usize..100) {
            let (path, _) = samples().next().unwrap();
            let mut bytes = header(&bytes);
            bytes[..valid].copy_from_slice(&std::fs::read(path).unwrap()[..valid]);
            if let Ok(header) = EncryptedHeader::decode(&bytes) {
                prop_assert_eq!(EncryptedHeader::decode(&header.encode()), Ok(header));
            }
        }
    }
}

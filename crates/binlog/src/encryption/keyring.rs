//! Keyrings: the files in which a server's keyring component or plugin stores its keys.

use std::fmt;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::cursor::Cursor;
use crate::encryption::{EncryptionKeyError, KEY_SIZE};
use crate::error::DecodeError;

/// Keys of one keyring file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    keys: Vec<KeyringKey>,
}

/// One key of a keyring.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyringKey {
    /// Name of the key.
    pub id: Vec<u8>,
    /// Owner of the key; empty for the server.
    pub user: Vec<u8>,
    /// Bytes of the key.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for KeyringKey {
    /// Omits the key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "KeyringKey({}, {} bytes)", self.name(), self.bytes.len())
    }
}

impl KeyringKey {
    /// Returns the name as text.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.id).into_owned()
    }

    /// Returns the bytes of an AES-256 key.
    ///
    /// # Errors
    ///
    /// Fails if the key has another size.
    pub fn aes_key(&self) -> Result<&[u8; KEY_SIZE], EncryptionKeyError> {
        let found = self.bytes.len();
        self.bytes
            .as_slice()
            .try_into()
            .map_err(|_| EncryptionKeyError::KeySize { key_id: self.name(), found })
    }
}

/// Reason why a keyring has no usable key for new logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoLogKey {
    /// No key is for logs.
    None,
    /// The keys for logs belong to several servers.
    Several {
        /// UUIDs of the servers.
        servers: Vec<String>,
    },
}

impl fmt::Display for NoLogKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => {
                out.write_str("no key for logs: add one named MySQLReplicationKey_UUID_1, of 32 bytes")
            }
            Self::Several { servers } => write!(
                out,
                "keys for logs of several servers ({}): use a keyring with the keys of one server",
                servers.join(", ")
            ),
        }
    }
}

impl std::error::Error for NoLogKey {}

/// Error in a keyring file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyringError {
    /// The file is of no known kind.
    UnknownFormat,
    /// The file begins like a data file of component_keyring_file, but is corrupt.
    Component {
        /// Description of the error. Never quotes the file, which holds keys.
        message: String,
    },
    /// The file begins like a keyring_file file, but is corrupt.
    Plugin(DecodeError),
    /// The digest at the end of a keyring_file file does not match its keys.
    Digest,
}

impl fmt::Display for KeyringError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFormat => out.write_str(
                "not a keyring: neither a file of component_keyring_file (JSON) nor one of the plugin keyring_file",
            ),
            Self::Component { message } => write!(out, "corrupt data file of component_keyring_file: {message}"),
            Self::Plugin(error) => write!(out, "corrupt data file of the plugin keyring_file: {error}"),
            Self::Digest => {
                out.write_str("corrupt data file of the plugin keyring_file: the digest does not match the keys")
            }
        }
    }
}

impl std::error::Error for KeyringError {}

impl Keyring {
    /// Parses a keyring file: a data file of `component_keyring_file`, or a file of the old plugin `keyring_file`.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are of neither kind.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyringError> {
        match bytes {
            _ if bytes.starts_with(PLUGIN_HEAD) => parse_plugin(bytes),
            _ if bytes.trim_ascii_start().starts_with(b"{") => parse_component(bytes),
            _ => Err(KeyringError::UnknownFormat),
        }
    }

    /// Creates a keyring with these keys.
    pub fn new(keys: Vec<KeyringKey>) -> Self {
        Self { keys }
    }

    /// Returns all keys, in the order of the file.
    pub fn keys(&self) -> &[KeyringKey] {
        &self.keys
    }

    /// Returns the server's key with this name.
    pub fn key(&self, id: &[u8]) -> Option<&KeyringKey> {
        self.keys.iter().find(|key| key.id == id && key.user.is_empty())
    }

    /// Returns the bytes of the server's AES-256 key with this name.
    ///
    /// # Errors
    ///
    /// Fails if the keyring lacks the key, or if the key has another size.
    pub fn aes_key(&self, id: &[u8]) -> Result<&[u8; KEY_SIZE], EncryptionKeyError> {
        let missing = || {
            let key_id = String::from_utf8_lossy(id).into_owned();
            let known = self.keys.iter().filter(|key| key.bytes.len() == KEY_SIZE).map(KeyringKey::name);
            EncryptionKeyError::MissingKey { key_id, known: known.collect() }
        };
        self.key(id).ok_or_else(missing)?.aes_key()
    }

    /// Returns the key that the server would use for its next log: the key for logs with the highest number.
    ///
    /// # Errors
    ///
    /// Fails if there is no key for logs, or if the keys for logs belong to several servers.
    pub fn newest_log_key(&self) -> Result<&KeyringKey, NoLogKey> {
        let named = self.keys.iter().filter_map(|key| Some((log_key_name(key)?, key)));
        let mut named: Vec<((&str, u32), &KeyringKey)> = named.collect();
        named.sort_by_key(|(name, _)| *name);
        let mut servers: Vec<String> = named.iter().map(|((uuid, _), _)| (*uuid).to_owned()).collect();
        servers.dedup();
        match (named.last(), servers.len()) {
            (Some((_, key)), 1) => Ok(key),
            (None, _) => Err(NoLogKey::None),
            _ => Err(NoLogKey::Several { servers }),
        }
    }
}

/// Prefix of the names of keys for logs; the server's UUID and a number follow. Keys with this prefix but without a
/// number store which numbers are in use.
const LOG_KEY_PREFIX: &str = "MySQLReplicationKey_";

/// Returns the server's UUID and the number of a key for logs; `None` for other keys.
fn log_key_name(key: &KeyringKey) -> Option<(&str, u32)> {
    let name = str::from_utf8(&key.id).ok().filter(|_| key.user.is_empty())?;
    let (uuid, number) = name.strip_prefix(LOG_KEY_PREFIX)?.rsplit_once('_')?;
    Some((uuid, number.parse().ok()?))
}

#[derive(Deserialize)]
struct ComponentFile {
    version: String,
    elements: Vec<ComponentElement>,
}

#[derive(Deserialize)]
struct ComponentElement {
    user: String,
    data_id: String,
    data: String,
}

fn parse_component(bytes: &[u8]) -> Result<Keyring, KeyringError> {
    let corrupt = |message: String| KeyringError::Component { message };
    let file: ComponentFile = serde_json::from_slice(bytes).map_err(|error| {
        // serde_json's message quotes unexpected input, which could be a key.
        corrupt(format!("unexpected JSON at line {}, column {}", error.line(), error.column()))
    })?;
    if file.version != "1.0" {
        return Err(corrupt("the version is not 1.0".to_owned()));
    }
    let keys = file.elements.into_iter().map(|element| match decode_hex(&element.data) {
        Some(bytes) => {
            Ok(KeyringKey { id: element.data_id.into_bytes(), user: element.user.into_bytes(), bytes })
        }
        None => Err(corrupt(format!("the data of {} is not hexadecimal", element.data_id))),
    });
    Ok(Keyring { keys: keys.collect::<Result<_, _>>()? })
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

const PLUGIN_HEAD: &[u8] = b"Keyring file version:";
const PLUGIN_VERSION_1: &[u8] = b"1.0";
const PLUGIN_VERSION_2: &[u8] = b"2.0";
const PLUGIN_END: &[u8] = b"EOF";

/// Repeating mask that keys in a plugin's file are XORed with.
const PLUGIN_MASK: &[u8] = b"*305=Ljt0*!@$Hnm(*-9-w;:";

// size  field
//   24  `Keyring file version:2.0` (or 1.0)
//       for each key:
//    8  total size of its fields, padding included
//    8  size of its name
//    8  size of its type
//    8  size of its user
//    8  size of the key
//    *  name, type, user, key (masked)
//    *  padding, to a multiple of 8 bytes
//    3  `EOF`
//   32  2.0 only: SHA-256 of all keys in this form
fn parse_plugin(bytes: &[u8]) -> Result<Keyring, KeyringError> {
    let mut cursor = Cursor::new(bytes);
    let mut take = |count| cursor.bytes(count).map_err(KeyringError::Plugin);
    take(PLUGIN_HEAD.len())?;
    let has_digest = match take(PLUGIN_VERSION_2.len())? {
        PLUGIN_VERSION_1 => false,
        PLUGIN_VERSION_2 => true,
        _ => return Err(KeyringError::UnknownFormat),
    };
    let (mut keys, start) = (Vec::new(), cursor.offset());
    while !cursor.rest().starts_with(PLUGIN_END) {
        keys.push(read_plugin_key(&mut cursor).map_err(KeyringError::Plugin)?);
    }
    let covered = &bytes[start..cursor.offset()];
    cursor.bytes(PLUGIN_END.len()).map_err(KeyringError::Plugin)?;
    if has_digest {
        let stored: [u8; 32] = cursor.array().map_err(KeyringError::Plugin)?;
        // Without keys, the bytes at this position are no digest.
        if !keys.is_empty() && stored != <[u8; 32]>::from(Sha256::digest(covered)) {
            return Err(KeyringError::Digest);
        }
    }
    cursor.finish().map_err(KeyringError::Plugin)?;
    Ok(Keyring { keys })
}

fn read_plugin_key(cursor: &mut Cursor<'_>) -> Result<KeyringKey, DecodeError> {
    let start = cursor.offset();
    let mut size = || cursor.u64().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let (all_size, id_size, type_size) = (size()?, size()?, size()?);
    let (user_size, key_size) = (size()?, size()?);
    let id = cursor.bytes(id_size)?.to_vec();
    cursor.bytes(type_size)?;
    let user = cursor.bytes(user_size)?.to_vec();
    let masked = cursor.bytes(key_size)?;
    let bytes = masked.iter().zip(PLUGIN_MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    let read = cursor.offset() - start;
    cursor.bytes(all_size.saturating_sub(read))?;
    Ok(KeyringKey { id, user, bytes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use sha2::{Digest, Sha256};

    use super::{Keyring, KeyringError, KeyringKey, PLUGIN_MASK};

    fn plugin_key(id: &[u8], kind: &[u8], user: &[u8], key: &[u8]) -> Vec<u8> {
        let size = 40 + id.len() + kind.len() + user.len() + key.len();
        let padded = size.next_multiple_of(8);
        let sizes = [padded, id.len(), kind.len(), user.len(), key.len()];
        let mut bytes: Vec<u8> = sizes.iter().flat_map(|size| (*size as u64).to_le_bytes()).collect();
        bytes.extend([id, kind, user].concat());
        bytes.extend(key.iter().zip(PLUGIN_MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes.resize(padded, 0);
        bytes
    }

    fn plugin_file(version: &str, keys: &[u8], digest: &[u8]) -> Vec<u8> {
        [b"Keyring file version:", version.as_bytes(), keys, b"EOF", digest].concat()
    }

    #[test]
    fn files_of_the_plugin() {
        let keys = [
            plugin_key(b"MySQLReplicationKey_x_1", b"AES", b"", &[5; 32]),
            plugin_key(b"mine", b"AES", b"joe@%", b"0123456789abcdef"),
        ]
        .concat();
        let digest = Sha256::digest(&keys);
        for file in [plugin_file("2.0", &keys, &digest), plugin_file("1.0", &keys, &[])] {
            let keyring = Keyring::parse(&file).unwrap();
            assert_eq!(keyring.key(b"MySQLReplicationKey_x_1").unwrap().bytes, [5; 32]);
            assert_eq!(keyring.keys()[1].bytes, b"0123456789abcdef");
            assert_eq!(keyring.keys()[1].user, b"joe@%");
            assert_eq!(keyring.key(b"mine"), None);
            assert_eq!(keyring.keys().len(), 2);
            for size in 0..file.len() {
                assert!(Keyring::parse(&file[..size]).is_err(), "{size}");
            }
            let long = [&file[..], b"x"].concat();
            assert!(matches!(Keyring::parse(&long), Err(KeyringError::Plugin(_))));
        }
        let error = Keyring::parse(&plugin_file("2.0", &keys, &[0; 32])).unwrap_err().to_string();
        assert_eq!(error, "corrupt data file of the plugin keyring_file: the digest does not match the keys");
        assert_eq!(Keyring::parse(&plugin_file("3.0", &keys, &[])), Err(KeyringError::UnknownFormat));
        let empty = plugin_file("2.0", &[], b"01234567890123456789012345678901");
        assert_eq!(Keyring::parse(&empty), Ok(Keyring::default()));
    }

    #[test]
    fn files_of_the_component() {
        let file = |data: &str| {
            format!(
                r#"{{"version":"1.0","elements":[{{"user":"","data_id":"a","data_type":"AES","data":"{data}","extension":[]}}]}}"#
            )
        };
        let keyring = Keyring::parse(file("00fFA1").as_bytes()).unwrap();
        assert_eq!(keyring.key(b"a").unwrap().bytes, [0x00, 0xff, 0xa1]);
        assert_eq!(format!("{keyring:?}"), "Keyring { keys: [KeyringKey(a, 3 bytes)] }");
        let check = |text: &str, expected: &str| {
            let error = Keyring::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        };
        check(&file("0g"), "the data of a is not hexadecimal");
        check(&file("123"), "the data of a is not hexadecimal");
        check(&file("é"), "the data of a is not hexadecimal");
        check(&file("\u{1F511}"), "the data of a is not hexadecimal");
        check(r#"{"version":"1.1","elements":[]}"#, "the version is not 1.0");
        check(r#"{"version":"1.0","elements":["SECRET"]}"#, "unexpected JSON at line 1, column 37");
        check("", "nor one of the plugin keyring_file");
        check("SECRET", "nor one of the plugin keyring_file");
        assert_eq!(Keyring::parse(b" {\"version\":\"1.0\",\"elements\":[]}\n"), Ok(Keyring::default()));
    }

    #[test]
    fn logs_are_written_with_the_newest_key_of_one_server() {
        let check = |names: &[&str], expected: Result<&str, &str>| {
            let key = |name: &&str| KeyringKey {
                id: name.as_bytes().to_vec(),
                user: Vec::new(),
                bytes: vec![1; 32],
            };
            let keyring = Keyring::new(names.iter().map(key).collect());
            let found = keyring.newest_log_key().map(|key| key.name()).map_err(|error| error.to_string());
            let found = found.as_ref().map(String::as_str).map_err(String::as_str);
            match (found, expected) {
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => assert_eq!(found, expected),
            }
        };
        let (two, ten, other) =
            ("MySQLReplicationKey_u_2", "MySQLReplicationKey_u_10", "MySQLReplicationKey_v_3");
        let beside = ["MySQLReplicationKey_u", "MySQLReplicationKey_u_new", "INNODBKey-u-7"];
        check(&[ten, two, beside[0], beside[1], beside[2]], Ok(ten));
        check(&beside, Err("no key for logs"));
        check(&[], Err("no key for logs"));
        check(
            &[ten, other, two],
            Err("keys for logs of several servers (u, v): use a keyring with the keys of one server"),
        );
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200), plugin in any::<bool>()) {
            let head = if plugin { &b"Keyring file version:1.0"[..] } else { b"{\"version\"" };
            let _ = Keyring::parse(&[head, &bytes].concat());
        }
    }
}

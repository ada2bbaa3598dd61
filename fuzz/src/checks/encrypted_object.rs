//! Encrypted objects of archives: content is restored, any change is found, and any bytes are decrypted or refused.

use std::sync::Arc;

use archive::{ArchiveKeys, MasterKey, ObjectDecryptor, decrypt_object, encrypt_object};
use binlog::encryption::{Keyring, KeyringKey};

use crate::seeds::Sample;

const NAME: &str = "segments/binlog.000001.0";

fn keyring() -> Keyring {
    let id = b"MySQLReplicationKey_u_1".to_vec();
    Keyring::new(vec![KeyringKey { id, user: Vec::new(), bytes: vec![7; 32] }])
}

fn encrypted(content: &[u8]) -> Vec<u8> {
    let key = MasterKey::newest(&keyring()).expect("the keyring has a key for logs");
    encrypt_object(NAME, &key, content).expect("the system has random bytes")
}

pub(super) fn check(bytes: &[u8]) {
    let keys: ArchiveKeys = Some(Arc::new(keyring())).into();
    if let Ok(decryptor) = ObjectDecryptor::open(NAME, &keys, bytes, bytes.len() as u64) {
        let layout = decryptor.layout();
        assert!(layout.content_size() < bytes.len() as u64);
        for number in layout.chunks_of(0..u64::MAX) {
            let range = layout.stored_range(number..number + 1);
            let _ = decryptor.decrypt(number, &mut bytes[range.start as usize..range.end as usize].to_vec());
        }
    }
    let _ = decrypt_object(NAME, &keys, bytes);
    let mut stored = encrypted(bytes);
    assert_eq!(decrypt_object(NAME, &keys, &stored).as_deref(), Ok(bytes));
    let sum = bytes.iter().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let changed = sum % stored.len();
    stored[changed] ^= 1 << (sum % 8);
    assert!(decrypt_object(NAME, &keys, &stored).is_err(), "the change of byte {changed} was not found");
}

/// Largest content of a seed in bytes.
const CONTENT_SIZE_MAX: usize = 300;

pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    vec![encrypted(&sample.bytes[..sample.bytes.len().min(CONTENT_SIZE_MAX)])]
}

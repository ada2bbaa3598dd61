//! Headers of encrypted logs, and keyrings.

use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, FilePassword, Keyring, KeyringKey};

use crate::seeds::Sample;

const COMPONENT: &str = r#"{"version":"1.0","elements":[{"user":"","data_id":"k","data_type":"AES","data":"00FF","extension":[]}]}"#;

pub(super) fn seeds(_: &Sample) -> Vec<Vec<u8>> {
    let key = KeyringKey { id: b"k".to_vec(), user: Vec::new(), bytes: vec![7; 32] };
    let header =
        EncryptedHeader::seal(&key, &FilePassword::new([1; 32]), [2; 16]).expect("the key has 32 bytes");
    let numbers = [48_u64, 1, 3, 0, 4].map(u64::to_le_bytes);
    let plugin = [b"Keyring file version:1.0", numbers.as_flattened(), b"kAESabcdEOF"].concat();
    vec![header.encode().to_vec(), COMPONENT.into(), plugin]
}

/// Checks `bytes`, a header or a keyring.
pub(super) fn check(bytes: &[u8]) {
    let mut header = [0; ENCRYPTED_HEADER_SIZE];
    let size = bytes.len().min(ENCRYPTED_HEADER_SIZE);
    header[..size].copy_from_slice(&bytes[..size]);
    let keyring = Keyring::parse(bytes).unwrap_or_default();
    if let Ok(header) = EncryptedHeader::decode(&header) {
        assert_eq!(EncryptedHeader::decode(&header.encode()).as_ref(), Ok(&header));
        assert!(header.open(&keyring).is_err());
        let key = KeyringKey { id: header.key_id().to_vec(), user: Vec::new(), bytes: vec![7; 32] };
        assert!(header.open(&Keyring::new(vec![key])).is_ok());
    }
    for key in keyring.keys() {
        assert!(keyring.key(&key.id).is_some() || !key.user.is_empty());
    }
}

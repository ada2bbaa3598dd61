use std::sync::Arc;

use binlog::encryption::{Keyring, KeyringKey};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;

use super::{
    CHUNK_SIZE, ChunkLayout, OBJECT_HEAD_SIZE, ObjectDecryptor, ObjectEncryptor, STORED_CHUNK_SIZE, TAG_SIZE,
    decrypt_object, encrypt_object,
};
use crate::encrypted_object_error::EncryptedObjectError;
use crate::master_key::{ArchiveKeys, MasterKey};

const NAME: &str = "segments/binlog.000001.0123456789abcdef";

fn keyring(numbers: &[u8]) -> Keyring {
    let key = |number: &u8| KeyringKey {
        id: format!("MySQLReplicationKey_u_{number}").into_bytes(),
        user: Vec::new(),
        bytes: vec![*number; 32],
    };
    Keyring::new(numbers.iter().map(key).collect())
}

fn keys(numbers: &[u8]) -> ArchiveKeys {
    Some(Arc::new(keyring(numbers))).into()
}

fn newest(numbers: &[u8]) -> MasterKey {
    MasterKey::newest(&keyring(numbers)).unwrap()
}

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|index| (index % 251) as u8).collect()
}

fn encrypted(size: usize) -> Vec<u8> {
    encrypt_object(NAME, &newest(&[1]), &content(size)).unwrap()
}

fn decrypted(bytes: &[u8]) -> Result<Vec<u8>, EncryptedObjectError> {
    decrypt_object(NAME, &keys(&[1]), bytes)
}

/// Returns the stored bytes of a chunk.
fn chunk(bytes: &[u8], number: u64) -> Vec<u8> {
    let range = ChunkLayout::of(bytes.len() as u64).unwrap().stored_range(number..number + 1);
    bytes[range.start as usize..range.end as usize].to_vec()
}

#[test]
fn content_of_any_size_comes_back() {
    for size in [0, 1, 100, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 3 * CHUNK_SIZE, 3 * CHUNK_SIZE + 7] {
        let stored = encrypted(size);
        assert_eq!(decrypted(&stored), Ok(content(size)), "{size}");
        let layout = ChunkLayout::of(stored.len() as u64).unwrap();
        assert_eq!(layout.content_size(), size as u64);
        let mut pieces = Vec::new();
        let mut encryptor = ObjectEncryptor::new(NAME, &newest(&[1])).unwrap();
        content(size).chunks(1000).for_each(|piece| encryptor.push(piece, &mut pieces));
        encryptor.finish(&mut pieces);
        assert_eq!((pieces.len(), decrypted(&pieces)), (stored.len(), Ok(content(size))));
    }
}

#[test]
fn the_content_is_not_readable_and_never_encrypted_the_same() {
    let (one, other) = (encrypted(1000), encrypted(1000));
    assert!(!one.windows(8).any(|part| part == &content(1000)[..8]));
    assert_ne!(one[OBJECT_HEAD_SIZE..], other[OBJECT_HEAD_SIZE..]);
}

#[test]
fn every_damaged_byte_is_an_error() {
    let stored = encrypted(100);
    for index in 0..stored.len() {
        for bit in [1, 0x80] {
            let mut damaged = stored.clone();
            damaged[index] ^= bit;
            assert!(decrypted(&damaged).is_err(), "byte {index}");
        }
    }
}

#[test]
fn every_truncated_object_is_an_error() {
    let stored = encrypted(2 * CHUNK_SIZE + 10);
    let bounds = [0, OBJECT_HEAD_SIZE, OBJECT_HEAD_SIZE + STORED_CHUNK_SIZE, stored.len() - 26];
    for bound in bounds {
        for size in bound.saturating_sub(20)..(bound + 20).min(stored.len()) {
            assert!(decrypted(&stored[..size]).is_err(), "{size}");
        }
    }
    assert!(decrypted(&[&stored[..], &[0]].concat()).is_err());
}

#[test]
fn chunks_cannot_be_moved_left_out_or_exchanged() {
    let (stored, other) = (encrypted(3 * CHUNK_SIZE + 10), encrypted(3 * CHUNK_SIZE + 10));
    let head = &stored[..OBJECT_HEAD_SIZE];
    let [first, second, third, last] = [0, 1, 2, 3].map(|number| chunk(&stored, number));
    let check = |chunks: &[&[u8]], expected: u64| {
        let object = [head, &chunks.concat()].concat();
        match decrypted(&object) {
            Err(EncryptedObjectError::Chunk { number, .. }) => assert_eq!(number, expected),
            other => panic!("{other:?}"),
        }
    };
    check(&[&second, &first, &third, &last], 0);
    check(&[&first, &third, &second, &last], 1);
    check(&[&first, &first, &third, &last], 1);
    check(&[&first, &third, &last], 1);
    check(&[&first, &second, &third], 2);
    check(&[&first, &second, &last], 2);
    check(&[&first, &second, &third, &last, &last], 3);
    check(&[&first, &chunk(&other, 1), &third, &last], 1);
    assert!(decrypted(&[head, &first[..], &second, &third, &last].concat()).is_ok());
}

#[test]
fn an_object_cannot_take_the_place_of_another_one() {
    let stored = encrypted(100);
    let error = decrypt_object("segments/binlog.000002.0123456789abcdef", &keys(&[1]), &stored).unwrap_err();
    assert!(matches!(error, EncryptedObjectError::Head { .. }), "{error}");
    assert!(error.to_string().contains("stored under another name"), "{error}");
    // The head of one object with the chunks of another one.
    let exchanged = [&stored[..OBJECT_HEAD_SIZE], &encrypted(100)[OBJECT_HEAD_SIZE..]].concat();
    assert!(matches!(decrypted(&exchanged), Err(EncryptedObjectError::Chunk { number: 0, .. })));
}

#[test]
fn older_keys_read_older_objects() {
    let stored = encrypt_object(NAME, &newest(&[1, 2]), &content(10)).unwrap();
    let older = encrypted(10);
    let check = |object: &[u8], numbers: &[u8], expected: &str| {
        let read = decrypt_object(NAME, &keys(numbers), object).map(|_| "read".to_owned());
        let found = read.unwrap_or_else(|error| error.to_string());
        assert!(found.contains(expected), "{found}");
    };
    check(&stored, &[1, 2, 3], "read");
    check(&older, &[1, 2, 3], "read");
    check(&older, &[2, 3], "the key MySQLReplicationKey_u_1 is not in the keyring, which has");
    let other = KeyringKey { id: b"MySQLReplicationKey_u_1".to_vec(), user: Vec::new(), bytes: vec![9; 32] };
    let other = Some(Arc::new(Keyring::new(vec![other]))).into();
    let error = decrypt_object(NAME, &other, &older).unwrap_err();
    assert_eq!(error, EncryptedObjectError::WrongKey { key_id: "MySQLReplicationKey_u_1".to_owned() });
    let none = decrypt_object(NAME, &ArchiveKeys::default(), &older).unwrap_err();
    assert!(none.is_key_error() && none.to_string().contains("--keyring"), "{none}");
}

#[test]
fn later_formats_and_plain_objects_are_named() {
    let mut stored = encrypted(1);
    stored[8] = 2;
    assert_eq!(decrypted(&stored), Err(EncryptedObjectError::Version { found: 2, expected: 1 }));
    assert_eq!(decrypted(b"{}"), Err(EncryptedObjectError::NotEncrypted));
}

#[test]
fn a_range_needs_only_its_chunks() {
    let stored = encrypted(3 * CHUNK_SIZE + 10);
    let decryptor =
        ObjectDecryptor::open(NAME, &keys(&[1]), &stored[..OBJECT_HEAD_SIZE], stored.len() as u64).unwrap();
    let layout = decryptor.layout();
    let chunk_size = CHUNK_SIZE as u64;
    assert_eq!(layout.chunks_of(0..1), 0..1);
    assert_eq!(layout.chunks_of(chunk_size - 1..chunk_size + 1), 0..2);
    assert_eq!(layout.chunks_of(chunk_size..2 * chunk_size), 1..2);
    assert_eq!(layout.chunks_of(3 * chunk_size..u64::MAX), 3..4);
    assert_eq!(layout.chunks_of(u64::MAX..u64::MAX), 4..4);
    let range = layout.stored_range(2..4);
    assert_eq!(range.end - range.start, (STORED_CHUNK_SIZE + TAG_SIZE + 10) as u64);
    let mut third = chunk(&stored, 2);
    decryptor.decrypt(2, &mut third).unwrap();
    assert_eq!(third, content(3 * CHUNK_SIZE)[2 * CHUNK_SIZE..]);
    assert!(decryptor.decrypt(1, &mut chunk(&stored, 2)).is_err());
    assert!(decryptor.decrypt(9, &mut chunk(&stored, 2)).is_err());
}

#[test]
fn sizes_that_no_object_has_are_refused() {
    let head = OBJECT_HEAD_SIZE as u64;
    let (chunk, tag) = (STORED_CHUNK_SIZE as u64, TAG_SIZE as u64);
    let check = |size: u64, expected: Option<u64>| {
        assert_eq!(ChunkLayout::of(size).ok().map(|layout| layout.content_size()), expected, "{size}");
    };
    check(0, None);
    check(head, None);
    check(head + tag - 1, None);
    check(head + tag, Some(0));
    check(head + chunk, Some(CHUNK_SIZE as u64));
    check(head + chunk + tag, None);
    check(head + chunk + tag + 1, Some(CHUNK_SIZE as u64 + 1));
    assert!(ChunkLayout::of(u64::MAX).is_ok_and(|layout| layout.content_size() < u64::MAX));
}

proptest! {
    #[test]
    fn any_bytes_are_decrypted_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
        prop_assert!(decrypted(&bytes).is_err());
        let stored = encrypted(1);
        let front = bytes.len().min(9);
        bytes[..front].copy_from_slice(&stored[..front]);
        prop_assert!(decrypted(&bytes).is_err());
    }

    #[test]
    fn damage_is_found(size in 0..3 * CHUNK_SIZE, at in any::<Index>(), change in 1..=u8::MAX) {
        let mut stored = encrypted(size);
        prop_assert_eq!(decrypted(&stored).map(|content| content.len()), Ok(size));
        let at = at.index(stored.len());
        stored[at] ^= change;
        prop_assert!(decrypted(&stored).is_err());
    }
}

#[test]
fn heads_are_checked() {
    let stored = encrypted(100);
    let check = |at: usize, byte: u8, what: &str| {
        let mut damaged = stored.clone();
        damaged[at] = byte;
        let expected = format!("its head is damaged, or it was stored under another name: {what}");
        assert_eq!(decrypted(&damaged).unwrap_err().to_string(), expected);
    };
    check(10, 0xff, "the name of its key is not UTF-8");
    check(OBJECT_HEAD_SIZE - 1, 1, "bytes follow its last field");
}

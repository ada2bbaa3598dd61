//! Encrypted logs of a real server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binlog::encryption::{EncryptedHeader, FilePassword, Keyring, KeyringKey};
use logs::{EndOfLog, LogReader, ReadOutcome, read_keyring};

use crate::log_builder::{LogDirectory, QUERY, STOP, event, format, log};

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)
}

#[test]
fn samples_are_decrypted() {
    for name in ["encrypted", "encrypted-compressed"] {
        let keyring = Arc::new(read_keyring(directory(name).join("keyring")).unwrap());
        for number in 1..=3 {
            let log = directory(name).join(format!("binlog.00000{number}"));
            let mut reader = LogReader::open(&log).unwrap().with_keyring(Arc::clone(&keyring));
            let mut count = 0;
            let end = loop {
                match reader.next_event().unwrap() {
                    ReadOutcome::Some(event) => {
                        event.raw.verify().unwrap();
                        // Positions do not count the encryption header.
                        assert_eq!(event.end(), u64::from(event.raw.header().next_position));
                        count += 1;
                    }
                    ReadOutcome::End(end) => break end,
                }
            };
            assert!(count > 3 && end == EndOfLog::Closed && reader.is_encrypted());
            assert_eq!(reader.position() + 512, fs::metadata(&log).unwrap().len());
        }
    }
}

#[test]
fn skip_to_counts_without_the_encrypted_header() {
    let keyring = Arc::new(read_keyring(directory("encrypted").join("keyring")).unwrap());
    let open = || {
        let path = directory("encrypted").join("binlog.000001");
        let mut reader = LogReader::open(path).unwrap().with_keyring(Arc::clone(&keyring));
        assert!(matches!(reader.next_event(), Ok(ReadOutcome::Some(_))));
        reader
    };
    let mut all = open();
    while let Ok(ReadOutcome::Some(event)) = all.next_event() {
        let mut reader = open();
        reader.skip_to(event.offset).unwrap();
        let Ok(ReadOutcome::Some(found)) = reader.next_event() else { panic!("nothing at {}", event.offset) };
        assert_eq!(found, event);
    }
}

fn message(path: &Path, keyring: Option<Keyring>) -> String {
    let mut reader = LogReader::open(path).unwrap();
    if let Some(keyring) = keyring {
        reader = reader.with_keyring(Arc::new(keyring));
    }
    let text = reader.next_event().unwrap_err().to_string();
    text[text.find(" is encrypted").unwrap()..].to_owned()
}

#[test]
fn missing_and_wrong_keys_are_named() {
    let log = directory("encrypted").join("binlog.000001");
    let id = "MySQLReplicationKey_5ea5ca5e-0001-4000-8000-000000000001_2";
    assert_eq!(
        message(&log, None),
        format!(" is encrypted with the key {id}: reading it requires the keyring file of its server")
    );
    let key = |id: &[u8]| KeyringKey { id: id.to_vec(), user: Vec::new(), bytes: vec![1; 32] };
    assert_eq!(
        message(&log, Some(Keyring::new(vec![key(b"other_1"), key(b"other_2")]))),
        format!(" is encrypted: the key {id} is not in the keyring, which has other_1, other_2")
    );
    assert_eq!(
        message(&log, Some(Keyring::new(vec![key(id.as_bytes())]))),
        format!(" is encrypted with the key {id}: the keyring has a different key with this name")
    );
}

#[test]
fn encrypted_logs_may_be_incomplete_and_grow() {
    let key = KeyringKey { id: b"k".to_vec(), user: Vec::new(), bytes: vec![0; 32] };
    let password = FilePassword::new([4; 32]);
    let header = EncryptedHeader::seal(&key, &password, [5; 16]).unwrap().encode();
    let mut body = log(&[format(0), event(QUERY, 0, b"one"), event(STOP, 0, b"")]);
    let size = body.len();
    password.cipher().apply(0, &mut body);
    let whole = [&header[..], &body].concat();
    let logs = LogDirectory::new();
    logs.write(&[]);
    let mut reader = logs.open().with_keyring(Arc::new(Keyring::new(vec![key])));
    let mut found = 0;
    for end in 0..=whole.len() {
        logs.write(&whole[..end]);
        while let ReadOutcome::Some(event) = reader.next_event().unwrap() {
            found += event.raw.bytes().len();
        }
    }
    assert_eq!(found, size - 4);
    assert!(matches!(reader.next_event(), Ok(ReadOutcome::End(EndOfLog::Closed))));
}

#[test]
fn invalid_keyrings_are_refused() {
    let logs = LogDirectory::new();
    logs.write(b"nothing");
    let path = logs.directory.path().join("binlog.000001");
    let error = read_keyring(&path).unwrap_err().to_string();
    assert!(error.ends_with("binlog.000001: not a keyring: neither a file of component_keyring_file (JSON) nor one of the plugin keyring_file"), "{error}");
    let error = read_keyring(path.with_file_name("none")).unwrap_err().to_string();
    assert!(error.starts_with("could not read the keyring "), "{error}");
}

//! Encrypted archives: their keys, tampering, and archives of which only a part is encrypted.
#![cfg(feature = "storage")]

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::{
    AddOptions, Archive, ArchiveError, ArchiveOutcome, ArchiveStorage, EncryptedObjectError, LocalTables,
    Manifest, MasterKey, MissingDirectory, TableWriter,
};
use binlog::encryption::{Keyring, KeyringKey};
use tempfile::TempDir;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)
}

fn keyring(numbers: &[u8]) -> Arc<Keyring> {
    let key = |number: &u8| KeyringKey {
        id: format!("MySQLReplicationKey_u_{number}").into_bytes(),
        user: Vec::new(),
        bytes: vec![*number; 32],
    };
    Arc::new(Keyring::new(numbers.iter().map(key).collect()))
}

struct TestArchive {
    directory: TempDir,
}

impl TestArchive {
    fn new() -> Self {
        Self { directory: TempDir::new().expect("a temporary directory can be created") }
    }

    /// Returns the archive as a run without a keyring opens it.
    fn plain(&self) -> Archive {
        let location = self.directory.path().to_str().expect("the path is UTF-8");
        Archive::new(
            ArchiveStorage::open(location, MissingDirectory::Create).expect("a directory can be opened"),
        )
    }

    /// Returns the archive as a run opens it that reads with these keys.
    fn reading(&self, numbers: &[u8]) -> Archive {
        self.plain().with_keys(Some(keyring(numbers)).into())
    }

    /// Returns the archive as a run opens it that encrypts with the newest of these keys.
    fn encrypting(&self, numbers: &[u8]) -> Archive {
        let key = MasterKey::newest(&keyring(numbers)).expect("the keyring has a key for logs");
        self.reading(numbers).with_master_key(Some(key))
    }

    fn object(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns all files of the archive.
    fn files(&self) -> Vec<PathBuf> {
        let (mut files, mut directories) = (Vec::new(), vec![self.directory.path().to_owned()]);
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("a directory of the archive can be read").flatten() {
                let path = entry.path();
                if path.is_dir() { directories.push(path) } else { files.push(path) }
            }
        }
        files
    }
}

fn add(archive: &Archive, name: &str) -> Result<ArchiveOutcome, ArchiveError> {
    archive.add(&sample(name), AddOptions::default(), &mut |_| ControlFlow::Continue(()))
}

fn restored(archive: &Archive, manifest: &Manifest) -> Result<Vec<u8>, ArchiveError> {
    let mut log = Vec::new();
    archive.restore(manifest, None, |bytes| {
        log.extend_from_slice(bytes);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(log)
}

const TABLES: &str = "types.binlog";
const GTIDS: &str = "gtids/binlog.000001";

#[test]
fn logs_come_back_and_nothing_is_readable() {
    let archive = TestArchive::new();
    for name in [TABLES, GTIDS] {
        assert!(matches!(add(&archive.encrypting(&[1]), name), Ok(ArchiveOutcome::Archived(_))));
    }
    let reader = archive.reading(&[1]);
    let list = reader.manifests().unwrap();
    assert_eq!((list.manifests.len(), list.damaged.len()), (2, 0));
    for manifest in &list.manifests {
        assert_eq!(manifest.segment_key.as_deref(), Some("MySQLReplicationKey_u_1"));
        reader.verify(manifest).unwrap();
        let name = if manifest.log == TABLES { TABLES } else { GTIDS };
        assert!(restored(&reader, manifest).unwrap() == fs::read(sample(name)).unwrap());
        let stored = fs::read(archive.object(&manifest.segment)).unwrap();
        let mut digest = archive::LogDigest::default();
        digest.update(&stored);
        assert_eq!(
            (stored.len() as u64, digest.finish()),
            (manifest.segment_size, manifest.segment_sha256.clone())
        );
    }
    let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    for file in archive.files() {
        let bytes = fs::read(&file).unwrap();
        assert!(!has(&bytes, b"sha256") && !has(&bytes, b"BTSEGM"), "{}", file.display());
    }
}

#[test]
fn an_encrypted_archive_refuses_plain_logs() {
    let archive = TestArchive::new();
    add(&archive.encrypting(&[1]), GTIDS).unwrap();
    for plain in [archive.plain(), archive.reading(&[1])] {
        let error = add(&plain, TABLES).unwrap_err();
        assert!(matches!(error, ArchiveError::EncryptionRequired { .. }), "{error}");
    }
    assert_eq!(archive.reading(&[1]).manifests().unwrap().manifests.len(), 1);
    // Also once no log is left.
    let reader = archive.reading(&[1]);
    let manifest = reader.manifest("binlog.000001").unwrap().unwrap();
    archive.plain().remove(&manifest).unwrap();
    assert!(matches!(add(&archive.plain(), GTIDS), Err(ArchiveError::EncryptionRequired { .. })));
}

#[test]
fn plain_logs_stay_readable_beside_encrypted_ones() {
    let archive = TestArchive::new();
    add(&archive.plain(), GTIDS).unwrap();
    add(&archive.encrypting(&[1]), TABLES).unwrap();
    assert!(matches!(add(&archive.encrypting(&[1]), GTIDS), Ok(ArchiveOutcome::Present(_))));
    let reader = archive.reading(&[1]);
    let list = reader.manifests().unwrap();
    let keys: Vec<bool> = list.manifests.iter().map(|manifest| manifest.segment_key.is_some()).collect();
    assert_eq!(keys.iter().filter(|is_encrypted| **is_encrypted).count(), 1);
    list.manifests.iter().for_each(|manifest| reader.verify(manifest).unwrap());
    let plain = archive.plain().manifest("binlog.000001").unwrap().unwrap();
    archive.plain().verify(&plain).unwrap();
}

#[test]
fn missing_and_wrong_keys_are_named() {
    let archive = TestArchive::new();
    add(&archive.encrypting(&[1]), GTIDS).unwrap();
    let other = KeyringKey { id: b"MySQLReplicationKey_u_1".to_vec(), user: Vec::new(), bytes: vec![9; 32] };
    let other = archive.plain().with_keys(Some(Arc::new(Keyring::new(vec![other]))).into());
    for (reader, expected) in [
        (
            archive.plain(),
            "is encrypted with the key MySQLReplicationKey_u_1. Give the keyring file that has this key",
        ),
        (
            archive.reading(&[2]),
            "the key MySQLReplicationKey_u_1 is not in the keyring, which has MySQLReplicationKey_u_2",
        ),
        (other, "the keyring has a different key with this name"),
    ] {
        let errors = [reader.manifests().unwrap_err(), reader.manifest("binlog.000001").unwrap_err()];
        for error in errors {
            let text = error.to_string();
            assert!(error.is_key_error() && text.contains(expected), "{text}");
            assert!(text.contains("/manifests/binlog.000001.json: "), "{text}");
        }
    }
}

#[test]
fn a_rotated_key_encrypts_new_logs_and_older_keys_read_older_ones() {
    let archive = TestArchive::new();
    add(&archive.encrypting(&[1]), GTIDS).unwrap();
    add(&archive.encrypting(&[1, 2]), TABLES).unwrap();
    let reader = archive.reading(&[1, 2]);
    let list = reader.manifests().unwrap();
    let mut keys: Vec<_> =
        list.manifests.iter().filter_map(|manifest| manifest.segment_key.clone()).collect();
    keys.sort();
    assert_eq!(keys, ["MySQLReplicationKey_u_1", "MySQLReplicationKey_u_2"]);
    list.manifests.iter().for_each(|manifest| reader.verify(manifest).unwrap());
    assert!(archive.reading(&[2]).manifests().unwrap_err().is_key_error());
    assert!(archive.reading(&[2]).manifest(TABLES).unwrap().is_some());
}

/// Checks that an error names this object.
fn check_named(error: &ArchiveError, object: &str) {
    match error {
        ArchiveError::EncryptedObject { name, error } => {
            assert!(name.ends_with(object) && !error.is_key_error(), "{name}: {error}");
        }
        error => panic!("{error}"),
    }
}

#[test]
fn tampering_is_found_and_named() {
    let archive = TestArchive::new();
    let encrypting = archive.encrypting(&[1]);
    let mut manifests = Vec::new();
    for name in ["gtids/binlog.000001", "gtids/binlog.000002"] {
        match add(&encrypting, name) {
            Ok(ArchiveOutcome::Archived(manifest)) => manifests.push(manifest),
            other => panic!("{other:?}"),
        }
    }
    let reader = archive.reading(&[1]);
    let manifest = &manifests[0];
    let segment = archive.object(&manifest.segment);
    let stored = fs::read(&segment).unwrap();
    let check = |bytes: &[u8]| {
        fs::write(&segment, bytes).unwrap();
        check_named(&reader.verify(manifest).unwrap_err(), &manifest.segment);
        fs::write(&segment, &stored).unwrap();
        reader.verify(manifest).unwrap();
    };
    for index in [9, 100, 511, 512, stored.len() - 1] {
        let mut damaged = stored.clone();
        damaged[index] ^= 1;
        fs::write(&segment, &damaged).unwrap();
        let error = reader.verify(manifest).unwrap_err();
        assert!(error.to_string().contains(&manifest.segment), "{error}");
    }
    fs::write(&segment, &stored).unwrap();
    // A plain object in the place of an encrypted one, and another encrypted one of the same size.
    check(&vec![0; stored.len()]);
    let mut other = fs::read(archive.object(&manifests[1].segment)).unwrap();
    other.resize(stored.len(), 0);
    check(&other);
    fs::write(&segment, &stored[..stored.len() - 1]).unwrap();
    assert!(reader.verify(manifest).unwrap_err().to_string().contains("truncated"));
    fs::write(&segment, &stored).unwrap();
    // Manifests of two logs are exchanged.
    let [one, two] =
        ["manifests/binlog.000001.json", "manifests/binlog.000002.json"].map(|name| archive.object(name));
    fs::copy(&two, &one).unwrap();
    let list = reader.manifests().unwrap();
    assert_eq!((list.manifests.len(), list.damaged.len()), (1, 1));
    check_named(&list.damaged[0].error, "manifests/binlog.000001.json");
    assert!(matches!(
        reader.manifest("binlog.000001"),
        Err(ArchiveError::EncryptedObject { error: EncryptedObjectError::Head { .. }, .. })
    ));
}

#[test]
fn heads_of_encrypted_logs_are_read_from_their_first_chunk() {
    let archive = TestArchive::new();
    let path = sample("encrypted/binlog.000001");
    let log_keys = Keyring::parse(&fs::read(sample("encrypted/keyring")).unwrap()).unwrap();
    let options = AddOptions { keyring: Some(&log_keys), ..AddOptions::default() };
    archive.encrypting(&[1]).add(&path, options, &mut |_| ControlFlow::Continue(())).unwrap();
    let reader = archive.reading(&[1]);
    let manifest = reader.manifest("binlog.000001").unwrap().unwrap();
    assert!(matches!(restored(&reader, &manifest), Err(ArchiveError::KeyringRequired { .. })));
    let mut log = Vec::new();
    reader
        .restore(&manifest, Some(&log_keys), |bytes| {
            log.extend_from_slice(bytes);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    assert!(log == fs::read(&path).unwrap());
}

/// Writes a change table as a writer does whose encryption is never the same.
fn local_tables(directory: &Path, content: &str) -> LocalTables {
    let name = "database=d/table=t/day=2026-11-22/types.binlog.1.parquet";
    let path = directory.join(name);
    let made = path.parent().map(fs::create_dir_all).transpose().and_then(|_| fs::write(&path, content));
    made.expect("a file can be written");
    let key = Some("MySQLReplicationKey_u_1".to_owned());
    LocalTables { directory: directory.to_owned(), names: vec![name.to_owned()], key, missing: None }
}

#[test]
fn tables_of_two_writers_match_the_manifest() {
    let (archive, first, second) = (TestArchive::new(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let add = |tables: &mut TableWriter<'_>| {
        let options = AddOptions { tables: Some(tables), ..AddOptions::default() };
        archive.encrypting(&[1]).add(&sample(TABLES), options, &mut |_| ControlFlow::Continue(()))
    };
    // The second writer is complete before the first one uploads its files.
    let outcome = add(&mut |_| {
        let outcome = add(&mut |_| Ok(local_tables(second.path(), "second")))?;
        assert!(matches!(outcome, ArchiveOutcome::Archived(_)));
        Ok(local_tables(first.path(), "first"))
    });
    assert!(matches!(outcome, Ok(ArchiveOutcome::Present(_))), "{outcome:?}");
    let manifest = archive.reading(&[1]).manifest(TABLES).unwrap().unwrap();
    archive.reading(&[1]).verify_tables(&manifest).unwrap();
    archive.reading(&[1]).verify(&manifest).unwrap();
}

//! An archive: segments and manifests of logs in one storage.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, Keyring};
use sha2::{Digest, Sha256};

use crate::archive_error::ArchiveError;
use crate::archive_objects::{ArchiveObjects, KnownObject, SmallObject, UploadSummary};
use crate::change_table_store::ChangeTableStore;
use crate::change_tables::{
    LocalTables, ManifestTables, TABLE_ROOT, TABLE_STATE, TABLES, TableFile, TableWriter,
};
use crate::manifest::{FRONT_SIZE, Manifest, ManifestSegment};
use crate::master_key::{ArchiveKeys, MasterKey, TableKey};
use crate::segment::{
    LogDigest, SEGMENT_HEAD_SIZE_MAX, SegmentHead, hex, open_cipher, read_failed, read_segment, write_segment,
};
use crate::segment_error::SegmentError;
use crate::storage::{ArchiveStorage, CreateOutcome, StoredObject};

/// Directory of the manifests.
const MANIFESTS: &str = "manifests";
/// Directory of the segments.
const SEGMENTS: &str = "segments";
/// Object that shows that an archive is encrypted.
const ENCRYPTION_MARK: &str = "encryption.json";
/// Content of this object.
const ENCRYPTION_MARK_TEXT: &[u8] = b"{\"new_objects\": \"encrypted\"}\n";

/// An archive of one server's logs, in any storage.
#[derive(Clone, Debug)]
pub struct Archive {
    pub(crate) objects: ArchiveObjects,
}

/// Result of archiving one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveOutcome {
    /// The log was archived.
    Archived(Manifest),
    /// The log was in the archive already.
    Present(Manifest),
    /// The archive had lost the log's segment or a change table, which was written again.
    Repaired(Manifest),
    /// The log was in the archive already, without change tables: those were added.
    TablesAdded(Manifest),
}

/// Manifests of an archive.
#[derive(Debug, Default)]
pub struct ManifestList {
    /// Manifests of the archived logs, the oldest log first.
    pub manifests: Vec<Manifest>,
    /// Manifests that cannot be read.
    pub damaged: Vec<DamagedManifest>,
}

/// Manifest that is no description of a log.
#[derive(Debug)]
pub struct DamagedManifest {
    /// Name of the log.
    pub log: String,
    /// Error, which names the manifest.
    pub error: ArchiveError,
}

/// Trial of a segment before its manifest is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentTrial {
    /// Each block is rebuilt in memory, and the size of the segment is checked.
    #[default]
    Blocks,
    /// The segment is also read back from the storage, and the log rebuilt from it.
    ReadBack,
}

/// Options of archiving one log.
#[derive(Default)]
pub struct AddOptions<'a> {
    /// Keys of encrypted logs, which are then stored decrypted.
    pub keyring: Option<&'a Keyring>,
    /// Trial of the segment.
    pub trial: SegmentTrial,
    /// Writer of the log's change tables; `None` for none.
    pub tables: Option<&'a mut TableWriter<'a>>,
}

impl fmt::Debug for AddOptions<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AddOptions").field("trial", &self.trial).finish_non_exhaustive()
    }
}

impl Archive {
    /// Creates the archive in a storage, without keys.
    pub fn new(storage: ArchiveStorage) -> Self {
        Self { objects: ArchiveObjects::new(storage) }
    }

    /// Returns the archive with the keys that decrypt its objects.
    #[must_use]
    pub fn with_keys(mut self, keys: ArchiveKeys) -> Self {
        self.objects.keys = keys;
        self
    }

    /// Returns the archive with a key that encrypts new objects; `None` for plain objects.
    #[must_use]
    pub fn with_master_key(mut self, master_key: Option<MasterKey>) -> Self {
        self.objects.master_key = master_key;
        self
    }

    /// Returns the key of new change tables; `None` if they are not encrypted.
    pub fn table_key(&self) -> Option<TableKey> {
        self.objects.master_key.as_ref().map(MasterKey::table_key)
    }

    /// Returns the location of the archive as it was given.
    pub fn location(&self) -> &str {
        self.storage().location()
    }

    const fn storage(&self) -> &ArchiveStorage {
        &self.objects.storage
    }

    /// Returns the manifests of all archived logs.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn manifests(&self) -> Result<ManifestList, ArchiveError> {
        let objects = self.storage().list(MANIFESTS)?;
        let mut list = ManifestList::default();
        for SmallObject { name, content } in self.objects.read_all(&objects)? {
            match content.and_then(|content| parse_manifest(&name, &content)) {
                Ok(manifest) => list.manifests.push(manifest),
                Err(error) => list.damaged.push(DamagedManifest { log: log_of_manifest(&name), error }),
            }
        }
        sort_by_age(&mut list.manifests);
        Ok(list)
    }

    /// Returns whether the archive has segments, with or without manifests.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn has_segments(&self) -> Result<bool, ArchiveError> {
        Ok(!self.storage().list(SEGMENTS)?.is_empty())
    }

    /// Returns the manifest of one log; `None` if the log is not archived.
    ///
    /// # Errors
    ///
    /// If the manifest cannot be read, or is invalid.
    pub fn manifest(&self, log: &str) -> Result<Option<Manifest>, ArchiveError> {
        let object = StoredObject { name: manifest_name(log), size: 0, modified_at: 0 };
        let found = self.objects.read_all(&[object])?.pop();
        found.map(|found| parse_manifest(&found.name, &found.content?)).transpose()
    }

    /// Archives a log that its server has closed.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or changes meanwhile; if the archive has another log of this name, or is encrypted and
    /// the log would be plain; or if the storage fails. Nothing is archived then.
    pub fn add(
        &self,
        path: &Path,
        options: AddOptions<'_>,
        progress: &mut (dyn FnMut(u64) -> ControlFlow<()> + Send),
    ) -> Result<ArchiveOutcome, ArchiveError> {
        let log = file_name(path)?;
        self.mark_encryption()?;
        let open = || File::open(path).map_err(read_failed);
        let size = open()?.metadata().map_err(read_failed)?.len();
        let front = front_digest(open()?)?;
        let known = self.manifest(&log)?;
        if let Some(known) = &known {
            if known.size != size || known.front_sha256 != front {
                return Err(ArchiveError::OtherLog { name: log });
            }
            if self.has_segment(known)? {
                return self.complete_tables(path, options, known);
            }
        }
        let segment = format!("{SEGMENTS}/{log}.{}", random_suffix());
        let mut upload = self.objects.upload(&segment)?;
        let mut source = ProgressReader { input: open()?, done: 0, progress };
        let summary = write_segment(&mut source, options.keyring, |bytes| upload.put(bytes));
        let summary = summary.map_err(as_interruption)?;
        if summary.file_size != size || open()?.metadata().map_err(read_failed)?.len() != size {
            return Err(ArchiveError::Changed { name: log });
        }
        let UploadSummary { size, sha256 } = upload.finish()?;
        let segment = ManifestSegment { name: segment, size, sha256, key: self.objects.key_id() };
        let mut manifest = Manifest::new(&log, front, segment, &summary);
        let tables = self.complete(path, options, known.as_ref(), &mut manifest).inspect_err(|_| {
            // Without a manifest, the segment counts for nothing: `prune` finds it if it cannot be deleted now.
            let _ = self.storage().delete(&manifest.segment);
        })?;
        let Some(known) = known else { return self.seal(manifest, tables.as_ref()) };
        self.replace(&known, &manifest)?;
        Ok(ArchiveOutcome::Repaired(self.settle_tables(manifest, tables.as_ref())?))
    }

    /// Marks the archive as encrypted before its first encrypted object. The mark is in plain, so that a run without a
    /// key finds it, too.
    fn mark_encryption(&self) -> Result<(), ArchiveError> {
        let is_marked = self.storage().size(ENCRYPTION_MARK)?.is_some();
        match &self.objects.master_key {
            None if is_marked => {
                Err(ArchiveError::EncryptionRequired { location: self.location().to_owned() })
            }
            Some(_) if !is_marked => {
                self.storage().create(ENCRYPTION_MARK, ENCRYPTION_MARK_TEXT.to_vec()).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Adds the change tables to a new manifest, and checks what is stored. `known` is the manifest that it replaces.
    /// Returns the change tables that were uploaded.
    fn complete(
        &self,
        path: &Path,
        options: AddOptions<'_>,
        known: Option<&Manifest>,
        manifest: &mut Manifest,
    ) -> Result<Option<LocalTables>, ArchiveError> {
        if known.is_some_and(|known| known.sha256 != manifest.sha256) {
            return Err(ArchiveError::OtherLog { name: manifest.log.clone() });
        }
        let mut local = None;
        match options.tables {
            // Another writer was first: its files stay.
            Some(_) if known.is_none() && self.manifest(&manifest.log)?.is_some() => {}
            Some(tables) => {
                let tables = tables(path)?;
                self.upload_tables(&tables, manifest)?;
                self.check_tables(manifest, options.trial)?;
                local = Some(tables);
            }
            None => manifest.change_tables = known.and_then(|known| known.change_tables.clone()),
        }
        self.check_segment(manifest, options.trial)?;
        Ok(local)
    }

    /// Returns whether the archive still has the segment of a log.
    fn has_segment(&self, known: &Manifest) -> Result<bool, ArchiveError> {
        Ok(self.storage().size(&known.segment)? == Some(known.segment_size))
    }

    /// Writes the change tables of an archived log if they are requested and the archive lacks one of them.
    fn complete_tables(
        &self,
        path: &Path,
        options: AddOptions<'_>,
        known: &Manifest,
    ) -> Result<ArchiveOutcome, ArchiveError> {
        let AddOptions { tables: Some(tables), trial, .. } = options else {
            return Ok(ArchiveOutcome::Present(known.clone()));
        };
        let mut is_complete = known.change_tables.is_some();
        for file in tables_of(known) {
            is_complete &= self.storage().size(&file.name)? == Some(file.size);
        }
        if is_complete {
            return Ok(ArchiveOutcome::Present(known.clone()));
        }
        let (mut manifest, local) = (known.clone(), tables(path)?);
        self.upload_tables(&local, &mut manifest)?;
        self.check_tables(&manifest, trial)?;
        self.replace(known, &manifest)?;
        let manifest = self.settle_tables(manifest, Some(&local))?;
        Ok(match known.change_tables {
            Some(_) => ArchiveOutcome::Repaired(manifest),
            None => ArchiveOutcome::TablesAdded(manifest),
        })
    }

    /// Uploads the change tables of a log. Their names are the same at each attempt, so that readers never find a change
    /// twice: a file replaces that of an attempt that was interrupted.
    fn upload_tables(&self, local: &LocalTables, manifest: &mut Manifest) -> Result<(), ArchiveError> {
        let LocalTables { directory, names, key, missing } = local;
        let mut files = Vec::new();
        let store = self.change_tables();
        for name in names {
            files.push(store.upload(&directory.join(name), name, key.as_deref())?);
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        manifest.change_tables = Some(ManifestTables { files, missing: missing.clone() });
        Ok(())
    }

    /// Checks that the change tables are those of the manifest after this process has uploaded its own. Two processes
    /// that archive the same log encrypt its tables differently, so one may have replaced files of the other. A process
    /// that finds foreign files uploads its own again, and then replaces the manifest.
    fn settle_tables(
        &self,
        mut manifest: Manifest,
        local: Option<&LocalTables>,
    ) -> Result<Manifest, ArchiveError> {
        let Some(local) = local.filter(|local| local.key.is_some()) else { return Ok(manifest) };
        for _ in 0..TABLE_UPLOADS_MAX {
            match self.verify_tables(&manifest) {
                Err(ArchiveError::Table { .. }) => {}
                verified => return verified.map(|()| manifest),
            }
            let known = manifest.clone();
            self.upload_tables(local, &mut manifest)?;
            self.replace(&known, &manifest)?;
            manifest = self.manifest(&manifest.log)?.unwrap_or(manifest);
        }
        self.verify_tables(&manifest)?;
        Ok(manifest)
    }

    /// Returns the store of the change tables.
    pub fn change_tables(&self) -> ChangeTableStore {
        ChangeTableStore::below(self.objects.clone(), TABLE_ROOT)
    }

    /// Replaces the manifest of a log, and deletes what only the earlier one names.
    fn replace(&self, known: &Manifest, manifest: &Manifest) -> Result<(), ArchiveError> {
        self.objects.replace(&manifest_name(&manifest.log), manifest_text(manifest))?;
        // `prune` finds what cannot be deleted now.
        if known.segment != manifest.segment {
            let _ = self.storage().delete(&known.segment);
        }
        self.delete_other_tables(known, manifest);
        Ok(())
    }

    /// Deletes the change tables of one manifest that another one does not name.
    fn delete_other_tables(&self, of: &Manifest, kept: &Manifest) {
        let is_kept = |name: &str| tables_of(kept).any(|file| file.name == name);
        for file in tables_of(of).filter(|file| !is_kept(&file.name)) {
            let _ = self.storage().delete(&file.name);
        }
    }

    /// Writes the manifest of a checked segment.
    ///
    /// A request that failed may have been carried out, and a repeated one then finds the manifest of the first. So the
    /// segment is deleted only if another manifest was read: `prune` finds segments without one.
    fn seal(&self, manifest: Manifest, tables: Option<&LocalTables>) -> Result<ArchiveOutcome, ArchiveError> {
        match self.objects.create(&manifest_name(&manifest.log), manifest_text(&manifest))? {
            CreateOutcome::Created => return Ok(ArchiveOutcome::Archived(manifest)),
            CreateOutcome::Exists => {}
        }
        let Some(other) = self.manifest(&manifest.log)? else {
            return Err(ArchiveError::OtherLog { name: manifest.log });
        };
        if other.segment == manifest.segment {
            return Ok(ArchiveOutcome::Archived(manifest));
        }
        let _ = self.storage().delete(&manifest.segment);
        self.delete_other_tables(&manifest, &other);
        match other.sha256 == manifest.sha256 {
            true => Ok(ArchiveOutcome::Present(self.settle_tables(other, tables)?)),
            false => Err(ArchiveError::OtherLog { name: manifest.log }),
        }
    }

    /// Checks that the storage has the segment.
    fn check_segment(&self, manifest: &Manifest, trial: SegmentTrial) -> Result<(), ArchiveError> {
        let found = self.storage().size(&manifest.segment)?;
        if found != Some(manifest.segment_size) {
            return Err(ArchiveError::MissingSegment { name: manifest.segment.clone() });
        }
        match trial {
            SegmentTrial::Blocks => Ok(()),
            SegmentTrial::ReadBack => self.verify(manifest),
        }
    }

    /// Checks that the storage has the change tables.
    fn check_tables(&self, manifest: &Manifest, trial: SegmentTrial) -> Result<(), ArchiveError> {
        match trial {
            SegmentTrial::Blocks => tables_of(manifest).try_for_each(|file| self.check_table_size(file)),
            SegmentTrial::ReadBack => self.verify_tables(manifest),
        }
    }

    fn check_table_size(&self, file: &TableFile) -> Result<(), ArchiveError> {
        let what = match self.storage().size(&file.name)? {
            Some(size) if size == file.size => return Ok(()),
            Some(_) => "does not have the size in its manifest",
            None => "is missing",
        };
        Err(ArchiveError::Table { name: file.name.clone(), what })
    }

    /// Reads the change tables of a log, and checks that they have the archived bytes.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is missing, or has other bytes.
    pub fn verify_tables(&self, manifest: &Manifest) -> Result<(), ArchiveError> {
        let mut piece = vec![0; COPY_SIZE];
        for file in tables_of(manifest) {
            self.check_table_size(file)?;
            let (mut reader, mut digest) =
                (self.storage().reader(&file.name, file.size), LogDigest::default());
            loop {
                let count = reader.read(&mut piece).map_err(read_failed)?;
                if count == 0 {
                    break;
                }
                digest.update(&piece[..count]);
            }
            if digest.finish() != file.sha256 {
                let what = "does not have the SHA-256 in its manifest";
                return Err(ArchiveError::Table { name: file.name.clone(), what });
            }
        }
        Ok(())
    }

    /// Rebuilds an archived log, and checks that it has the archived bytes. An encrypted log that was stored decrypted
    /// needs no key for that.
    ///
    /// # Errors
    ///
    /// If the segment cannot be read, is damaged, or gives other bytes.
    pub fn verify(&self, manifest: &Manifest) -> Result<(), ArchiveError> {
        let mut digest = LogDigest::default();
        let head = self.read(manifest, |bytes| {
            digest.update(bytes);
            Ok(ControlFlow::Continue(()))
        })?;
        let expected = match (&head.encrypted_header, &manifest.plain_sha256) {
            (Some(_), Some(plain)) => plain,
            _ => &manifest.sha256,
        };
        check_digest(digest, expected)
    }

    /// Rebuilds an archived log byte for byte, and passes it to `take`. The log is complete and correct only if this
    /// returns without an error.
    ///
    /// # Errors
    ///
    /// Those of [`Archive::verify`], and if the log was encrypted and the keyring lacks its key.
    pub fn restore(
        &self,
        manifest: &Manifest,
        keyring: Option<&Keyring>,
        mut take: impl FnMut(&[u8]) -> Result<ControlFlow<()>, ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let mut digest = LogDigest::default();
        let (mut header, mut cipher) = (None, None);
        if manifest.plain_sha256.is_some() {
            let found = self.head(manifest)?.encrypted_header;
            let name = || manifest.log.clone();
            let keyring = keyring.ok_or_else(|| ArchiveError::KeyringRequired { name: name() })?;
            let found = found.ok_or(SegmentError::NotASegment)?;
            cipher = Some(open_cipher(&found, keyring)?);
            digest.update(&found[..]);
            if take(&found[..])?.is_break() {
                return Ok(());
            }
            header = Some(found);
        }
        let (mut position, mut is_stopped) = (0, false);
        self.read(manifest, |bytes| {
            let encrypted = cipher.as_mut().map(|cipher| {
                let mut bytes = bytes.to_vec();
                cipher.apply(position, &mut bytes);
                bytes
            });
            position += bytes.len() as u64;
            let bytes = encrypted.as_deref().unwrap_or(bytes);
            digest.update(bytes);
            let flow = take(bytes)?;
            is_stopped = flow.is_break();
            Ok(flow)
        })?;
        if is_stopped {
            return Ok(());
        }
        check_digest(digest, &manifest.sha256).map_err(|error| match header {
            Some(header) => self.wrong_key_or(error, manifest, &header),
            None => error,
        })
    }

    /// Returns the error for a log that was restored with a wrong key, if the segment itself is sound.
    fn wrong_key_or(
        &self,
        error: ArchiveError,
        manifest: &Manifest,
        header: &[u8; ENCRYPTED_HEADER_SIZE],
    ) -> ArchiveError {
        match (self.verify(manifest), EncryptedHeader::decode(header)) {
            (Ok(()), Ok(header)) => {
                ArchiveError::WrongKey { key_id: String::from_utf8_lossy(header.key_id()).into_owned() }
            }
            _ => error,
        }
    }

    fn head(&self, manifest: &Manifest) -> Result<SegmentHead, ArchiveError> {
        let front = self.objects.read_front(segment_of(manifest), SEGMENT_HEAD_SIZE_MAX as u64)?;
        SegmentHead::read_from(&mut &front[..])
    }

    fn read(
        &self,
        manifest: &Manifest,
        take: impl FnMut(&[u8]) -> Result<ControlFlow<()>, ArchiveError>,
    ) -> Result<SegmentHead, ArchiveError> {
        match self.storage().size(&manifest.segment)? {
            None => return Err(ArchiveError::MissingSegment { name: manifest.segment.clone() }),
            Some(size) if size < manifest.segment_size => {
                return Err(SegmentError::Truncated { offset: size }.into());
            }
            Some(size) if size > manifest.segment_size => {
                let what = "bytes follow its end";
                return Err(SegmentError::Damaged { offset: manifest.segment_size, what }.into());
            }
            Some(_) => {}
        }
        read_segment(self.objects.reader(segment_of(manifest))?, take)
    }

    /// Opens an archived log to be read from front to back, decrypted. Its end is an error if the log does not come
    /// back as it was archived.
    ///
    /// # Errors
    ///
    /// If the system starts no more threads.
    pub fn open_log(&self, manifest: &Manifest) -> io::Result<ArchivedLog> {
        let (sender, blocks) = sync_channel(READ_AHEAD);
        let (archive, manifest) = (self.clone(), manifest.clone());
        let thread = thread::Builder::new().name("archive-reader".to_owned());
        let thread = thread.spawn(move || archive.send_log(&manifest, &sender))?;
        Ok(ArchivedLog { blocks: Some(blocks), thread: Some(thread), current: io::Cursor::default() })
    }

    fn send_log(&self, manifest: &Manifest, sender: &SyncSender<Vec<u8>>) -> Result<(), ArchiveError> {
        let (mut digest, mut is_stopped) = (LogDigest::default(), false);
        self.read(manifest, |bytes| {
            digest.update(bytes);
            is_stopped = sender.send(bytes.to_vec()).is_err();
            Ok(if is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        match is_stopped {
            true => Ok(()),
            false => check_digest(digest, manifest.plain_sha256.as_ref().unwrap_or(&manifest.sha256)),
        }
    }

    /// Deletes an archived log: first its manifest, then its segment and its change tables.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn remove(&self, manifest: &Manifest) -> Result<(), ArchiveError> {
        self.storage().delete(&manifest_name(&manifest.log))?;
        self.storage().delete(&manifest.segment)?;
        tables_of(manifest).try_for_each(|file| self.storage().delete(&file.name))
    }

    /// Returns segments and change tables that no manifest names and that did not change since this time, in seconds
    /// since 1970: uploads that were stopped. There are none while a manifest is damaged, because it may name them.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn orphans(
        &self,
        known: &ManifestList,
        unchanged_since_s: i64,
    ) -> Result<Vec<StoredObject>, ArchiveError> {
        if !known.damaged.is_empty() {
            return Ok(Vec::new());
        }
        let named: HashSet<&str> = known
            .manifests
            .iter()
            .flat_map(|manifest| {
                let tables = tables_of(manifest).map(|file| file.name.as_str());
                tables.chain([manifest.segment.as_str()])
            })
            .collect();
        let mut objects = self.storage().list(SEGMENTS)?;
        objects.extend(self.storage().list(TABLES)?);
        objects.retain(|object| {
            object.modified_at <= unchanged_since_s
                && !named.contains(object.name.as_str())
                && !object.name.starts_with(TABLE_STATE)
        });
        Ok(objects)
    }

    /// Deletes a segment without a manifest.
    ///
    /// # Errors
    ///
    /// Those of the storage.
    pub fn remove_orphan(&self, object: &StoredObject) -> Result<(), ArchiveError> {
        self.storage().delete(&object.name)
    }
}

/// Number of blocks that are rebuilt ahead of a reader. Bounds memory.
const READ_AHEAD: usize = 2;

/// Archived log that is rebuilt while it is read.
#[derive(Debug)]
pub struct ArchivedLog {
    blocks: Option<Receiver<Vec<u8>>>,
    thread: Option<JoinHandle<Result<(), ArchiveError>>>,
    current: io::Cursor<Vec<u8>>,
}

impl Read for ArchivedLog {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let size = self.current.read(out)?;
            if size > 0 || out.is_empty() {
                return Ok(size);
            }
            match self.blocks.as_ref().and_then(|blocks| blocks.recv().ok()) {
                Some(block) => self.current = io::Cursor::new(block),
                None => {
                    let Some(thread) = self.thread.take() else { return Ok(0) };
                    return match thread.join() {
                        Ok(Ok(())) => Ok(0),
                        Ok(Err(error)) => Err(io::Error::other(error)),
                        Err(_) => Err(io::Error::other("a thread that rebuilds the log has panicked")),
                    };
                }
            }
        }
    }
}

impl Drop for ArchivedLog {
    fn drop(&mut self) {
        // The thread ends once nothing receives its blocks.
        self.blocks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reader that reports the number of bytes read, and can be stopped.
struct ProgressReader<'p, R> {
    input: R,
    done: u64,
    progress: &'p mut (dyn FnMut(u64) -> ControlFlow<()> + Send),
}

impl<R: Read> Read for ProgressReader<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let size = self.input.read(out)?;
        self.done += size as u64;
        match (self.progress)(self.done) {
            ControlFlow::Continue(()) => Ok(size),
            ControlFlow::Break(()) => Err(io::Error::other(StopRequest)),
        }
    }
}

/// Cause of a read that was stopped.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
struct StopRequest;

fn as_interruption(error: ArchiveError) -> ArchiveError {
    match &error {
        ArchiveError::Read { cause } if cause.get_ref().is_some_and(|cause| cause.is::<StopRequest>()) => {
            ArchiveError::Interrupted
        }
        _ => error,
    }
}

fn file_name(path: &Path) -> Result<String, ArchiveError> {
    let name = path.file_name().and_then(OsStr::to_str).filter(|name| logs::is_file_name(name.as_bytes()));
    name.map(str::to_owned).ok_or_else(|| ArchiveError::Location {
        location: path.display().to_string(),
        why: "the name of a log must be valid UTF-8".to_owned(),
    })
}

/// Size of the pieces in which files of change tables are copied and read.
const COPY_SIZE: usize = 1 << 20;

/// Number of uploads of change tables while another process replaces them.
const TABLE_UPLOADS_MAX: usize = 16;

fn segment_of(manifest: &Manifest) -> KnownObject<'_> {
    KnownObject {
        name: &manifest.segment,
        size: manifest.segment_size,
        is_encrypted: manifest.segment_key.is_some(),
    }
}

fn tables_of(manifest: &Manifest) -> impl Iterator<Item = &TableFile> {
    manifest.change_tables.iter().flat_map(|tables| &tables.files)
}

fn manifest_name(log: &str) -> String {
    format!("{MANIFESTS}/{log}.json")
}

/// Returns the log of the manifest of this name.
fn log_of_manifest(name: &str) -> String {
    let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
    file.strip_suffix(".json").unwrap_or(file).to_owned()
}

fn manifest_text(manifest: &Manifest) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(manifest).expect("ours: a manifest is plain data");
    text.push(b'\n');
    text
}

fn parse_manifest(name: &str, bytes: &[u8]) -> Result<Manifest, ArchiveError> {
    let parsed: Result<Manifest, _> = serde_json::from_slice(bytes);
    let invalid = |why: String| ArchiveError::Manifest { name: name.to_owned(), why };
    let manifest = parsed.map_err(|cause| invalid(cause.to_string()))?;
    // The name of a restored file comes from here.
    if !logs::is_file_name(manifest.log.as_bytes()) || manifest_name(&manifest.log) != name {
        return Err(invalid(format!("it describes {}", manifest.log)));
    }
    // `prune` deletes these objects.
    if let Some(file) = tables_of(&manifest).find(|file| !file.has_valid_name()) {
        return Err(invalid(format!("one of its change tables is {}", file.name)));
    }
    if !manifest.segment.starts_with(&format!("{SEGMENTS}/{}.", manifest.log)) {
        return Err(invalid(format!("its segment is {}", manifest.segment)));
    }
    Ok(manifest)
}

/// Returns the digest of the first bytes of a log.
fn front_digest(file: File) -> Result<String, ArchiveError> {
    let mut front = Vec::new();
    file.take(FRONT_SIZE as u64).read_to_end(&mut front).map_err(read_failed)?;
    Ok(hex(Sha256::new_with_prefix(&front)))
}

fn check_digest(digest: LogDigest, expected: &str) -> Result<(), ArchiveError> {
    let found = digest.finish();
    match found == expected {
        true => Ok(()),
        false => Err(SegmentError::Digest { found, expected: expected.to_owned() }.into()),
    }
}

/// Sorts manifests by the age of their logs: by series and number. If a server's logs got another base name, as between
/// MySQL 5.7 and 8.0, the base name whose logs begin earlier comes first.
fn sort_by_age(manifests: &mut [Manifest]) {
    let mut beginnings: HashMap<(u32, String), i64> = HashMap::new();
    for manifest in manifests.iter() {
        let (series, base, _) = logs::log_order(&manifest.log);
        let begin = manifest.times.map_or(manifest.archived_at, |(first, _)| i64::from(first));
        let known = beginnings.entry((series, base.to_owned())).or_insert(begin);
        *known = begin.min(*known);
    }
    manifests.sort_by_cached_key(|manifest| {
        let (series, base, number) = logs::log_order(&manifest.log);
        let begin = beginnings.get(&(series, base.to_owned())).copied();
        (series, begin, base.to_owned(), number, manifest.log.clone())
    });
}

/// Returns a suffix that no other upload has, so that no upload replaces the segment of another one.
fn random_suffix() -> String {
    let mut bytes = [0; 8];
    if getrandom::fill(&mut bytes).is_err() {
        bytes = (jiff::Timestamp::now().as_nanosecond() as u64 ^ u64::from(std::process::id())).to_le_bytes();
    }
    format!("{:016x}", u64::from_le_bytes(bytes))
}

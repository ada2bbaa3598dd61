//! Adds logs to an archive: segment, change tables, then the manifest that makes them count.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use binlog::encryption::Keyring;
use sha2::{Digest, Sha256};

use super::Archive;
use super::grown_log::is_beginning;
use super::manifest_objects::{SEGMENTS, manifest_name, manifest_text, tables_of};
use crate::archive_error::ArchiveError;
use crate::archive_objects::UploadSummary;
use crate::change_tables::{LocalTables, ManifestTables, TableWriter};
use crate::manifest::{FRONT_SIZE, Manifest, ManifestSegment};
use crate::segment::{hex, read_failed, write_segment};
use crate::storage::CreateOutcome;

/// Object that shows that an archive is encrypted.
const ENCRYPTION_MARK: &str = "encryption.json";

/// Content of this object.
const ENCRYPTION_MARK_TEXT: &[u8] = b"{\"new_objects\": \"encrypted\"}\n";

/// Number of uploads of change tables while another process replaces them.
const TABLE_UPLOADS_MAX: usize = 16;

/// Archived log, of which a new manifest is written.
#[derive(Clone, Copy)]
struct KnownLog<'m> {
    manifest: &'m Manifest,
    /// The log has grown since: it is archived again as a whole.
    is_grown: bool,
}

/// Result of archiving one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveOutcome {
    /// The log was archived. If the archive had only the beginning of the log, the whole log replaces it.
    Archived(Manifest),
    /// The log was in the archive already.
    Present(Manifest),
    /// The archive had lost the log's segment or a change table, which was written again.
    Repaired(Manifest),
    /// The log was in the archive already, without change tables, or with the reason why they are missing: they were
    /// added, or another reason.
    TablesAdded(Manifest),
}

impl ArchiveOutcome {
    /// Returns the log's manifest.
    pub fn into_manifest(self) -> Manifest {
        match self {
            Self::Archived(manifest)
            | Self::Present(manifest)
            | Self::Repaired(manifest)
            | Self::TablesAdded(manifest) => manifest,
        }
    }
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
    /// Archives a log that its server has closed.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read, or changes meanwhile; if the archive has another log of this name, or is encrypted and
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
        let is_grown = match &known {
            Some(known) if known.size == size && known.front_sha256 == front => {
                if self.has_segment(known)? {
                    return self.complete_tables(path, options, known);
                }
                false
            }
            Some(known) if !is_beginning(known, path)? => return Err(ArchiveError::OtherLog { name: log }),
            known => known.is_some(),
        };
        let segment = format!("{SEGMENTS}/{log}.{}", random_suffix()?);
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
        let before = known.as_ref().map(|known| KnownLog { manifest: known, is_grown });
        let tables = self.complete(path, options, before, &mut manifest).inspect_err(|_| {
            // Without a manifest, the segment counts for nothing: `prune` finds it if it cannot be deleted now.
            let _ = self.storage().delete(&manifest.segment);
        })?;
        let Some(known) = known else { return self.seal(manifest, tables.as_ref()) };
        self.replace(&known, &manifest)?;
        let manifest = self.settle_tables(manifest, tables.as_ref())?;
        Ok(if is_grown { ArchiveOutcome::Archived(manifest) } else { ArchiveOutcome::Repaired(manifest) })
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

    /// Adds the change tables to a new manifest, and checks what is stored. `known` is the log that it replaces. Returns
    /// the change tables that were uploaded.
    fn complete(
        &self,
        path: &Path,
        options: AddOptions<'_>,
        known: Option<KnownLog<'_>>,
        manifest: &mut Manifest,
    ) -> Result<Option<LocalTables>, ArchiveError> {
        let unchanged = known.filter(|known| !known.is_grown).map(|known| known.manifest);
        if unchanged.is_some_and(|known| known.sha256 != manifest.sha256) {
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
            None => manifest.change_tables = unchanged.and_then(|known| known.change_tables.clone()),
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
        let before = known.change_tables.as_ref();
        // The reason for missing tables may be gone: a keyring or --skip-statements may be given now.
        let missing = before.and_then(|tables| tables.missing.as_ref());
        let mut is_complete = before.is_some() && missing.is_none();
        for file in tables_of(known) {
            is_complete &= self.storage().size(&file.name)? == Some(file.size);
        }
        if is_complete {
            return Ok(ArchiveOutcome::Present(known.clone()));
        }
        let (mut manifest, local) = (known.clone(), tables(path)?);
        if missing.is_some() && local.missing.as_ref() == missing {
            return Ok(ArchiveOutcome::Present(manifest));
        }
        self.upload_tables(&local, &mut manifest)?;
        self.check_tables(&manifest, trial)?;
        self.replace(known, &manifest)?;
        let manifest = self.settle_tables(manifest, Some(&local))?;
        Ok(match before {
            Some(_) if missing.is_none() => ArchiveOutcome::Repaired(manifest),
            _ => ArchiveOutcome::TablesAdded(manifest),
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

    /// Replaces the manifest of a log, and deletes what only the earlier one names.
    fn replace(&self, known: &Manifest, manifest: &Manifest) -> Result<(), ArchiveError> {
        // If `prune` has deleted the log meanwhile, the manifest would name a deleted segment. Only the short time until the
        // next request remains: not all object stores can replace an object only if it still exists.
        if self.manifest(&manifest.log)?.is_none() {
            return Err(ArchiveError::Deleted { name: manifest.log.clone() });
        }
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

/// Returns the digest of the first bytes of a log.
fn front_digest(file: File) -> Result<String, ArchiveError> {
    let mut front = Vec::new();
    file.take(FRONT_SIZE as u64).read_to_end(&mut front).map_err(read_failed)?;
    Ok(hex(Sha256::new_with_prefix(&front)))
}

/// Returns a suffix that no other upload has, so that no upload replaces the segment of another one.
fn random_suffix() -> Result<String, ArchiveError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|cause| ArchiveError::Read { cause: io::Error::other(cause) })?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

//! Checks that an archive has a log's segment and change tables, with the archived bytes.

use std::io::Read;
use std::ops::ControlFlow;

use super::Archive;
use super::log_adder::SegmentTrial;
use super::manifest_objects::tables_of;
use crate::archive_error::ArchiveError;
use crate::change_tables::TableFile;
use crate::manifest::Manifest;
use crate::segment::{LogDigest, read_failed};
use crate::segment_error::SegmentError;

/// Size of the pieces in which files of change tables are copied and read.
const COPY_SIZE: usize = 1 << 20;

impl Archive {
    /// Checks that the storage has the segment.
    pub(super) fn check_segment(&self, manifest: &Manifest, trial: SegmentTrial) -> Result<(), ArchiveError> {
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
    pub(super) fn check_tables(&self, manifest: &Manifest, trial: SegmentTrial) -> Result<(), ArchiveError> {
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
    /// Fails if a file cannot be read, is missing, or has other bytes.
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
    /// Fails if the segment cannot be read, is damaged, or gives other bytes.
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
}

pub(super) fn check_digest(digest: LogDigest, expected: &str) -> Result<(), ArchiveError> {
    let found = digest.finish();
    match found == expected {
        true => Ok(()),
        false => Err(SegmentError::Digest { found, expected: expected.to_owned() }.into()),
    }
}

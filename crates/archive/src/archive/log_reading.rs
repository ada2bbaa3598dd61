//! Rebuilds archived logs: byte for byte, or decrypted for a reader.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, Keyring};

use super::Archive;
use super::verification::check_digest;
use crate::archive_error::ArchiveError;
use crate::archive_objects::KnownObject;
use crate::manifest::Manifest;
use crate::segment::{LogDigest, SEGMENT_HEAD_SIZE_MAX, SegmentHead, open_cipher, read_segment};
use crate::segment_error::SegmentError;

/// Number of blocks that are rebuilt ahead of a reader. Bounds memory.
const READ_AHEAD: usize = 2;

impl Archive {
    /// Rebuilds an archived log byte for byte, and passes it to `take`, until `take` returns `Break`. The log is complete
    /// and correct only if this returns without an error and `take` never returned `Break`.
    ///
    /// # Errors
    ///
    /// Fails as [`Archive::verify`] does, and if the log was encrypted and the keyring lacks its key.
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

    pub(super) fn read(
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
    /// Fails if the system starts no more threads.
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
}

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

fn segment_of(manifest: &Manifest) -> KnownObject<'_> {
    KnownObject {
        name: &manifest.segment,
        size: manifest.segment_size,
        is_encrypted: manifest.segment_key.is_some(),
    }
}

//! Writer of a log's file, plain or encrypted.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, FilePassword, KeyringKey, LogCipher};
use binlog::{MAGIC, MAGIC_ENCRYPTED};
use nix::errno::Errno;

use crate::error::LogError;
use crate::keyring::{open_header, read_keyring};
use crate::own_files::{is_at, private_options};
use crate::regular_file::open_regular;

/// Size of the write buffer.
const BUFFER_SIZE: usize = 256 << 10;
/// Number of bytes encrypted at once.
const PIECE_SIZE: usize = 64 << 10;

/// File of a log being written. All positions are positions in the log: they do not include the header of an encrypted
/// log.
#[derive(Debug)]
pub(crate) struct LogFileWriter {
    file: BufWriter<File>,
    /// The same open file, for the thread that syncs it.
    shared: Option<Arc<File>>,
    cipher: Option<LogCipher>,
    /// Position of the next byte.
    position: u64,
    scratch: Vec<u8>,
}

impl LogFileWriter {
    /// Creates the file of a new log, readable by owner and group, as on a server. With a key, encrypts the log.
    /// Refuses an existing file with events. Overwrites a file with at most the first bytes of a log: a crash before
    /// the log's line in the index was written can leave such a file.
    pub(crate) fn create(path: &Path, key: Option<&KeyringKey>) -> io::Result<Self> {
        if !has_at_most_log_start(path)? {
            let reason = "it exists, but the index does not name it: restore the index, or give another \
                          directory";
            return Err(io::Error::new(ErrorKind::AlreadyExists, reason));
        }
        Self::overwrite(path, key)
    }

    /// Creates the file of a new log, and overwrites an existing file.
    pub(crate) fn overwrite(path: &Path, key: Option<&KeyringKey>) -> io::Result<Self> {
        let file = private_options().write(true).truncate(true).open(path).map_err(explain_open_error)?;
        let mut log = Self::from_file(file, None);
        if let Some(key) = key {
            let (header, password) = new_encrypted_header(key)?;
            log.file.write_all(&header.encode())?;
            log.cipher = Some(password.cipher());
        }
        log.write_all(&MAGIC)?;
        log.file.flush()?;
        log.file.get_ref().sync_all()?;
        Ok(log)
    }

    /// Opens an existing log to continue it at a [position](LogFileWriter::seek); `None` if its header or magic number
    /// is incomplete. An encrypted log needs the keyring file.
    pub(crate) fn open(path: &Path, keyring: Option<&Path>) -> Result<Option<Self>, LogError> {
        let name = path.display().to_string();
        let file = private_options().create(false).read(true).write(true).open(path);
        let file = file.map_err(|cause| LogError::io("open", &name, explain_open_error(cause)))?;
        let head = read_head(&file).map_err(|cause| LogError::io("read", &name, cause))?;
        let size = file.metadata().map_err(|cause| LogError::io("open", &name, cause))?.len();
        if is_zeros(&head, size) {
            return Ok(None);
        }
        if !head.starts_with(&MAGIC_ENCRYPTED) {
            return Ok((head.len() >= MAGIC.len()).then(|| Self::from_file(file, None)));
        }
        let Some(header) = head.first_chunk().filter(|_| head.len() == ENCRYPTED_START_SIZE) else {
            return Ok(None);
        };
        let keyring = keyring.map(read_keyring).transpose()?;
        let (password, _) = open_header(&name, header, keyring.as_ref())?;
        Ok(Some(Self::from_file(file, Some(password.cipher()))))
    }

    pub(crate) const fn is_encrypted(&self) -> bool {
        self.cipher.is_some()
    }

    fn from_file(file: File, cipher: Option<LogCipher>) -> Self {
        let file = BufWriter::with_capacity(BUFFER_SIZE, file);
        Self { file, shared: None, cipher, position: 0, scratch: Vec::new() }
    }

    /// Returns the size of the encryption header, which is not part of the log.
    const fn header_size(&self) -> u64 {
        if self.is_encrypted() { ENCRYPTED_HEADER_SIZE as u64 } else { 0 }
    }

    /// Moves to this position, where the next bytes are written.
    pub(crate) fn seek(&mut self, position: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.header_size() + position))?;
        self.position = position;
        Ok(())
    }

    /// Returns the present position, where the next bytes are written.
    pub(crate) const fn position(&self) -> u64 {
        self.position
    }

    /// Writes bytes at the present position.
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.cipher {
            None => self.file.write_all(bytes)?,
            Some(cipher) => {
                let mut position = self.position;
                for piece in bytes.chunks(PIECE_SIZE) {
                    self.scratch.clear();
                    self.scratch.extend_from_slice(piece);
                    cipher.apply(position, &mut self.scratch);
                    self.file.write_all(&self.scratch)?;
                    position += piece.len() as u64;
                }
                let end = self.position + bytes.len() as u64;
                assert_eq!(position, end, "ours: each byte is encrypted for its own position");
            }
        }
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Writes all buffered bytes to the file.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Syncs the file to disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        assert!(self.file.buffer().is_empty(), "ours: bytes are written before they are synced");
        self.file.get_ref().sync_data()
    }

    /// Returns the open file, for a thread that syncs it. The system reports an error of a sync only once, so only one
    /// of the two may sync at a time.
    pub(crate) fn share(&mut self) -> io::Result<Arc<File>> {
        let shared = match self.shared.take() {
            Some(shared) => shared,
            None => Arc::new(self.file.get_ref().try_clone()?),
        };
        Ok(Arc::clone(self.shared.insert(shared)))
    }

    /// Returns whether the open file is still the file at this path.
    pub(crate) fn is_at(&self, path: &Path) -> io::Result<bool> {
        is_at(self.file.get_ref(), path)
    }

    /// Returns the number of buffered bytes.
    pub(crate) fn buffered_size(&self) -> u64 {
        self.file.buffer().len() as u64
    }

    /// Returns the size of the log.
    pub(crate) fn size(&mut self) -> io::Result<u64> {
        self.file.flush()?;
        Ok(self.file.get_ref().metadata()?.len().saturating_sub(self.header_size()))
    }

    /// Truncates the log to this size, and syncs it.
    pub(crate) fn truncate(&mut self, position: u64) -> io::Result<()> {
        self.file.flush()?;
        let file = self.file.get_ref();
        file.set_len(self.header_size() + position)?;
        file.sync_all()
    }

    /// Reads `size` bytes at this position. `path` must be the path of this file.
    pub(crate) fn read(&mut self, path: &Path, position: u64, size: usize) -> io::Result<Vec<u8>> {
        self.file.flush()?;
        let mut bytes = vec![0; size];
        File::open(path)?.read_exact_at(&mut bytes, self.header_size() + position)?;
        if let Some(cipher) = &mut self.cipher {
            cipher.apply(position, &mut bytes);
        }
        Ok(bytes)
    }
}

/// Size of the part of an encrypted log before its first event.
const ENCRYPTED_START_SIZE: usize = ENCRYPTED_HEADER_SIZE + MAGIC.len();

/// Creates the header of a new encrypted log: a random password, encrypted with `key`.
///
/// # Errors
///
/// Fails if the system has no random bytes, or the key cannot encrypt logs.
pub fn new_encrypted_header(key: &KeyringKey) -> io::Result<(EncryptedHeader, FilePassword)> {
    let (mut password, mut iv) = ([0; 32], [0; 16]);
    getrandom::fill(&mut password).map_err(io::Error::other)?;
    getrandom::fill(&mut iv).map_err(io::Error::other)?;
    let password = FilePassword::new(password);
    let header = EncryptedHeader::seal(key, &password, iv).map_err(io::Error::other)?;
    Ok((header, password))
}

/// Adds a reason to unclear errors of opening a log's file.
fn explain_open_error(cause: io::Error) -> io::Error {
    match Errno::from_raw(cause.raw_os_error().unwrap_or_default()) {
        Errno::ELOOP => {
            let reason =
                "it is a symbolic link, and receive writes only to regular files. Move the file here";
            io::Error::new(cause.kind(), reason)
        }
        _ => cause,
    }
}

/// Returns whether the file does not exist, or has at most the bytes before a log's first event.
pub(crate) fn has_at_most_log_start(path: &Path) -> io::Result<bool> {
    let file = match open_regular(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(true),
        opened => opened?,
    };
    let size = file.metadata()?.len();
    let head = read_head(&file)?;
    Ok(is_log_start_only(&head, size))
}

/// Returns whether a file with this size and these first bytes can be the torn beginning of a log, without events.
fn is_log_start_only(head: &[u8], size: u64) -> bool {
    let is_encrypted = head.starts_with(&MAGIC_ENCRYPTED);
    is_zeros(head, size)
        || size <= if is_encrypted { ENCRYPTED_START_SIZE as u64 } else { MAGIC.len() as u64 }
}

/// Returns whether the file is no larger than the start of a log, and has only zeros. After a power failure, a file may
/// have its size but no content.
fn is_zeros(head: &[u8], size: u64) -> bool {
    size <= ENCRYPTED_START_SIZE as u64 && head.iter().all(|byte| *byte == 0)
}

fn read_head(file: &File) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(ENCRYPTED_START_SIZE as u64).read_to_end(&mut head)?;
    Ok(head)
}

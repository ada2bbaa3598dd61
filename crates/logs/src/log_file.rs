//! The file of a log that is written to, in the open or encrypted.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use binlog::encryption::{ENCRYPTED_HEADER_SIZE, EncryptedHeader, FilePassword, KeyringKey, LogCipher};
use binlog::{MAGIC, MAGIC_ENCRYPTED};
use nix::errno::Errno;

use crate::error::Error;
use crate::keyring::{open_header, read_keyring};
use crate::own_files::private_options;
use crate::regular_file::open_regular;

/// Bytes that wait to be written at once.
const BUFFER_SIZE: usize = 256 << 10;
/// Bytes that are encrypted at once.
const PIECE_SIZE: usize = 64 << 10;

/// The file of a log that is written to. All positions are those of the log: an encrypted one's header is not counted.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: BufWriter<File>,
    cipher: Option<LogCipher>,
    /// Where the next byte goes.
    position: u64,
    piece: Vec<u8>,
}

impl LogFile {
    /// A new log's file, for its owner's eyes and its group's, as a server's own: encrypted, if there is a key for it. One
    /// that is there and has something in it is nobody's to overwrite: only a crash between the file and its line in the
    /// index leaves one with no more than the first bytes of a log.
    pub(crate) fn make(path: &Path, key: Option<&KeyringKey>) -> io::Result<Self> {
        if !has_at_most_a_beginning(path)? {
            let reason = "it is there already, and the index does not name it: put the index back as it was, or give \
                          another directory";
            return Err(io::Error::new(ErrorKind::AlreadyExists, reason));
        }
        Self::begin(path, key)
    }

    /// The same, over whatever is there.
    pub(crate) fn begin(path: &Path, key: Option<&KeyringKey>) -> io::Result<Self> {
        let file = private_options().write(true).truncate(true).open(path).map_err(explained)?;
        let mut log = Self::of(file, None);
        if let Some(key) = key {
            let (header, password) = new_header(key)?;
            log.file.write_all(&header.encode())?;
            log.cipher = Some(password.cipher());
        }
        log.write_all(&MAGIC)?;
        log.file.flush()?;
        log.file.get_ref().sync_all()?;
        Ok(log)
    }

    /// One that is there, to be written on at a [place](LogFile::seek); none if it was not even begun, and has no header
    /// or no magic. An encrypted one needs the keyring file.
    pub(crate) fn open(path: &Path, keyring: Option<&Path>) -> Result<Option<Self>, Error> {
        let name = path.display().to_string();
        let file = private_options().create(false).read(true).write(true).open(path);
        let file = file.map_err(|cause| Error::io("open", &name, explained(cause)))?;
        let head = head_of(&file).map_err(|cause| Error::io("read", &name, cause))?;
        let size = file.metadata().map_err(|cause| Error::io("open", &name, cause))?.len();
        if is_zeros(&head, size) {
            return Ok(None);
        }
        if !head.starts_with(&MAGIC_ENCRYPTED) {
            return Ok((head.len() >= MAGIC.len()).then(|| Self::of(file, None)));
        }
        let Some(header) = head.first_chunk().filter(|_| head.len() == BEGINNING_SIZE) else {
            return Ok(None);
        };
        let keyring = keyring.map(read_keyring).transpose()?;
        let (password, _) = open_header(&name, header, keyring.as_ref())?;
        Ok(Some(Self::of(file, Some(password.cipher()))))
    }

    fn of(file: File, cipher: Option<LogCipher>) -> Self {
        let file = BufWriter::with_capacity(BUFFER_SIZE, file);
        Self { file, cipher, position: 0, piece: Vec::new() }
    }

    /// Bytes of the file that are not the log's.
    const fn header_size(&self) -> u64 {
        if self.cipher.is_some() { ENCRYPTED_HEADER_SIZE as u64 } else { 0 }
    }

    /// Writes what follows at this position.
    pub(crate) fn seek(&mut self, position: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.header_size() + position))?;
        self.position = position;
        Ok(())
    }

    /// Writes these bytes behind what was written last.
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.cipher {
            None => self.file.write_all(bytes)?,
            Some(cipher) => {
                let mut position = self.position;
                for piece in bytes.chunks(PIECE_SIZE) {
                    self.piece.clear();
                    self.piece.extend_from_slice(piece);
                    cipher.apply(position, &mut self.piece);
                    self.file.write_all(&self.piece)?;
                    position += piece.len() as u64;
                }
            }
        }
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Has all that was written in the file.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Has all that is in the file on the disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.get_ref().sync_data()
    }

    /// Bytes that still wait to be written.
    pub(crate) fn waiting(&self) -> u64 {
        self.file.buffer().len() as u64
    }

    /// The log's size.
    pub(crate) fn size(&mut self) -> io::Result<u64> {
        self.file.flush()?;
        Ok(self.file.get_ref().metadata()?.len().saturating_sub(self.header_size()))
    }

    /// Nothing is behind this position any more.
    pub(crate) fn cut(&mut self, position: u64) -> io::Result<()> {
        self.file.flush()?;
        let file = self.file.get_ref();
        file.set_len(self.header_size() + position)?;
        file.sync_all()
    }

    /// So many bytes from this position on, of the file at this path, which is this one.
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

/// What an encrypted log has in front of its first event.
const BEGINNING_SIZE: usize = ENCRYPTED_HEADER_SIZE + MAGIC.len();

/// The header of a new log: a password from the system's randomness, itself encrypted with `key`.
///
/// # Errors
///
/// When the system has no randomness, or the key is none for logs.
pub fn new_header(key: &KeyringKey) -> io::Result<(EncryptedHeader, FilePassword)> {
    let (mut password, mut iv) = ([0; 32], [0; 16]);
    getrandom::fill(&mut password).map_err(io::Error::other)?;
    getrandom::fill(&mut iv).map_err(io::Error::other)?;
    let password = FilePassword::new(password);
    let header = EncryptedHeader::seal(key, &password, iv).map_err(io::Error::other)?;
    Ok((header, password))
}

/// Explains why a log's file cannot be opened, where the system's own words say little.
fn explained(cause: io::Error) -> io::Error {
    match Errno::from_raw(cause.raw_os_error().unwrap_or_default()) {
        Errno::ELOOP => {
            let reason = "it is a symbolic link; receive writes to regular files only. Move the file here";
            io::Error::new(cause.kind(), reason)
        }
        _ => cause,
    }
}

/// Tells whether nothing is there that a log has behind its first bytes.
pub(crate) fn has_at_most_a_beginning(path: &Path) -> io::Result<bool> {
    let file = match open_regular(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(true),
        opened => opened?,
    };
    let size = file.metadata()?.len();
    let head = head_of(&file)?;
    Ok(is_beginning(&head, size))
}

/// Tells whether a file of this size that starts like this may be no more than the torn beginning of a log.
fn is_beginning(head: &[u8], size: u64) -> bool {
    let is_encrypted = head.starts_with(&MAGIC_ENCRYPTED);
    is_zeros(head, size) || size <= if is_encrypted { BEGINNING_SIZE as u64 } else { MAGIC.len() as u64 }
}

/// Tells whether it has the size of a beginning, and only zeros. After a power cut, a file may have its size and nothing of its content.
fn is_zeros(head: &[u8], size: u64) -> bool {
    size <= BEGINNING_SIZE as u64 && head.iter().all(|byte| *byte == 0)
}

fn head_of(file: &File) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(BEGINNING_SIZE as u64).read_to_end(&mut head)?;
    Ok(head)
}

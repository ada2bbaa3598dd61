//! Writes a log encrypted, as a server does.

use std::io::{self, Write};

use binlog::encryption::{EncryptedHeader, FilePassword, KeyringKey, LogCipher};

/// Writes a log encrypted: a header of 512 bytes, then the log under a new password of its own.
pub(crate) struct EncryptedWriter<W> {
    out: W,
    cipher: LogCipher,
    /// Bytes of the log so far, the header not counted.
    offset: u64,
    buffer: Vec<u8>,
}

impl<W: Write> EncryptedWriter<W> {
    /// Writes the header: a password from the system's randomness, itself encrypted with `key`.
    pub(crate) fn begin(mut out: W, key: &KeyringKey) -> io::Result<Self> {
        let (mut password, mut iv) = ([0; 32], [0; 16]);
        getrandom::fill(&mut password).map_err(io::Error::other)?;
        getrandom::fill(&mut iv).map_err(io::Error::other)?;
        let password = FilePassword::new(password);
        let header = EncryptedHeader::seal(key, &password, iv).map_err(io::Error::other)?;
        out.write_all(&header.encode())?;
        Ok(Self { out, cipher: password.cipher(), offset: 0, buffer: Vec::new() })
    }
}

impl<W: Write> Write for EncryptedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.clear();
        self.buffer.extend_from_slice(bytes);
        self.cipher.apply(self.offset, &mut self.buffer);
        self.out.write_all(&self.buffer)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

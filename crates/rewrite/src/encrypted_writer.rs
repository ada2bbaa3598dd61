//! Writes a log encrypted, as a server does.

use std::io::{self, Write};

use binlog::encryption::{ENCRYPTED_HEADER_SIZE, KeyringKey, LogCipher};

use crate::rewrite_output::RewriteOutput;

/// Encrypts a log while it is written: a header of 512 bytes, then the log under a new password.
pub(crate) struct EncryptedWriter<W> {
    out: W,
    cipher: LogCipher,
    /// Bytes of the log written so far, without the header.
    offset: u64,
    buffer: Vec<u8>,
}

impl<W: Write> EncryptedWriter<W> {
    /// Writes the header: a random password from the operating system, itself encrypted with `key`.
    pub(crate) fn begin(mut out: W, key: &KeyringKey) -> io::Result<Self> {
        let (header, password) = logs::new_encrypted_header(key)?;
        out.write_all(&header.encode())?;
        Ok(Self { out, cipher: password.cipher(), offset: 0, buffer: Vec::new() })
    }
}

impl<W> EncryptedWriter<W> {
    /// Encrypts these bytes of the log into the buffer, as the file stores them.
    fn encrypt(&mut self, offset: u64, bytes: &[u8]) {
        self.buffer.clear();
        self.buffer.extend_from_slice(bytes);
        self.cipher.apply(offset, &mut self.buffer);
    }
}

impl<W: RewriteOutput> RewriteOutput for EncryptedWriter<W> {
    fn write_over(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        self.encrypt(start, bytes);
        self.out.write_over(ENCRYPTED_HEADER_SIZE as u64 + start, &self.buffer)
    }
}

impl<W: Write> Write for EncryptedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.encrypt(self.offset, bytes);
        self.out.write_all(&self.buffer)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot write has failed")]
mod tests {
    use std::io::Write;

    use binlog::encryption::{ENCRYPTED_HEADER_SIZE, FilePassword};

    use super::EncryptedWriter;
    use crate::rewrite_output::RewriteOutput;

    #[test]
    fn overwritten_bytes_decrypt_in_place() {
        let password = FilePassword::new([7; 32]);
        let out = vec![0; ENCRYPTED_HEADER_SIZE];
        let mut writer = EncryptedWriter { out, cipher: password.cipher(), offset: 0, buffer: Vec::new() };
        writer.write_all(&[1; 100]).unwrap();
        writer.write_over(33, &[2; 20]).unwrap();
        writer.write_all(&[3; 10]).unwrap();
        let mut log = writer.out.split_off(ENCRYPTED_HEADER_SIZE);
        password.cipher().apply(0, &mut log);
        assert_eq!(log, [&[1; 33][..], &[2; 20], &[1; 47], &[3; 10]].concat());
    }
}

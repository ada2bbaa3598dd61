//! Content of an encrypted object, decrypted while the object is read.

use std::io::{self, Read};
use std::ops::Range;

use crate::encrypted_object::ObjectDecryptor;

/// Reader of the content of an encrypted object. Only one chunk is in memory.
pub(crate) struct DecryptionReader<R> {
    object: ObjectDecryptor,
    /// Stored chunks, from the next one on.
    input: R,
    /// Numbers of the chunks that are not read yet.
    chunks: Range<u64>,
    current: io::Cursor<Vec<u8>>,
}

impl<R: Read> DecryptionReader<R> {
    /// Creates a reader whose input is behind the head of the object.
    pub(crate) fn new(object: ObjectDecryptor, input: R) -> Self {
        let chunks = object.layout().chunks_of(0..u64::MAX);
        Self { object, input, chunks, current: io::Cursor::default() }
    }
}

impl<R: Read> Read for DecryptionReader<R> {
    /// The error of a damaged chunk is an [`EncryptedObjectError`](crate::EncryptedObjectError).
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let size = self.current.read(out)?;
            if size > 0 || out.is_empty() {
                return Ok(size);
            }
            let Some(number) = self.chunks.next() else { return Ok(0) };
            let range = self.object.layout().stored_range(number..number + 1);
            let mut chunk = std::mem::take(&mut self.current).into_inner();
            chunk.clear();
            self.input.by_ref().take(range.end - range.start).read_to_end(&mut chunk)?;
            self.object.decrypt(number, &mut chunk).map_err(io::Error::other)?;
            self.current = io::Cursor::new(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor, Read};
    use std::sync::Arc;

    use binlog::encryption::{Keyring, KeyringKey};

    use super::DecryptionReader;
    use crate::encrypted_object::{CHUNK_SIZE, OBJECT_HEAD_SIZE, ObjectDecryptor, encrypt_object};
    use crate::master_key::MasterKey;

    #[test]
    fn readers_find_the_end() {
        let id = b"MySQLReplicationKey_u_1".to_vec();
        let keyring = Keyring::new(vec![KeyringKey { id, user: Vec::new(), bytes: vec![1; 32] }]);
        let key = MasterKey::newest(&keyring).unwrap();
        let keys = Some(Arc::new(keyring)).into();
        let read = |stored: &[u8], size: usize| -> io::Result<Vec<u8>> {
            let object = ObjectDecryptor::open("o", &keys, stored, size as u64).map_err(io::Error::other)?;
            let mut content = Vec::new();
            DecryptionReader::new(object, Cursor::new(&stored[OBJECT_HEAD_SIZE..]))
                .read_to_end(&mut content)?;
            Ok(content)
        };
        for size in [0, 1, CHUNK_SIZE, CHUNK_SIZE + 1] {
            let content = vec![7; size];
            let stored = encrypt_object("o", &key, &content).unwrap();
            assert_eq!(read(&stored, stored.len()).unwrap(), content);
            // The storage has less or more than the manifest states.
            assert!(read(&stored[..stored.len() - 1], stored.len()).is_err());
            assert!(read(&stored, stored.len() + 1).is_err());
        }
    }
}

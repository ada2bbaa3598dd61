//! Encrypted objects: a head with the data key, and chunks of one size.
//!
//! Each object has a random data key, which a key of the keyring encrypts: the master key. The content is divided into
//! chunks of 64 KiB; only the last one is smaller. Each chunk is encrypted on its own with AES-256-GCM, so that a part of
//! an object can be decrypted without the rest.
//!
//! ```text
//! size in bytes   part
//!           512   head
//!        65,552   chunk 0: 65,536 encrypted bytes, and a tag of 16 bytes
//!        65,552   chunk 1
//!             …
//!   16 to 65,552  last chunk: 0 to 65,536 encrypted bytes, and a tag of 16 bytes
//! ```
//!
//! Only an empty object has an empty last chunk. The tag of a chunk also protects its number, whether it is the last
//! chunk, and the name of the object below the archive's location. So a chunk cannot be moved, left out or exchanged, an
//! object cannot be truncated, and no object can take the place of another one.

use std::io;
use std::ops::Range;

use binlog::encryption::KEY_SIZE;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::encrypted_object_error::EncryptedObjectError;
use crate::master_key::{ArchiveKeys, CHECK_SIZE, MasterKey};

/// First bytes of an encrypted object.
const OBJECT_MAGIC: [u8; 8] = *b"\xffBTENCR\n";

/// Format of the encrypted objects that this version writes.
const OBJECT_FORMAT: u8 = 1;

/// Size of the head in bytes.
pub const OBJECT_HEAD_SIZE: usize = 512;

/// Size of a chunk's content in bytes. Only the last chunk is smaller.
pub const CHUNK_SIZE: usize = 64 << 10;

/// Size of a chunk's tag in bytes.
const TAG_SIZE: usize = 16;

/// Size of a stored chunk in bytes.
const STORED_CHUNK_SIZE: usize = CHUNK_SIZE + TAG_SIZE;

/// Head of an encrypted object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ObjectHead {
    key_id: String,
    check: [u8; CHECK_SIZE],
    nonce: [u8; NONCE_LEN],
    /// Data key, encrypted, with its tag.
    wrapped_key: [u8; KEY_SIZE + TAG_SIZE],
}

/// Returns whether an object is encrypted, by its first bytes.
pub fn is_encrypted(object: &[u8]) -> bool {
    object.starts_with(&OBJECT_MAGIC)
}

// size  field
//    8  magic number
//    1  format
//    1  size of the name of the master key
//    *  name of the master key
//    8  check value of the master key: it shows a different key with the same name
//   12  nonce of the data key
//   48  data key, encrypted with AES-256-GCM; its last 16 bytes are the tag, which also protects all fields above and
//       the name of the object
//    *  zeros, up to 512 bytes
impl ObjectHead {
    fn encode(&self) -> [u8; OBJECT_HEAD_SIZE] {
        let mut bytes = self.protected_fields();
        bytes.extend_from_slice(&self.wrapped_key);
        let mut head = [0; OBJECT_HEAD_SIZE];
        head[..bytes.len()].copy_from_slice(&bytes);
        head
    }

    /// Returns the fields in front of the data key.
    fn protected_fields(&self) -> Vec<u8> {
        let mut bytes = OBJECT_MAGIC.to_vec();
        // `MasterKey` limits names to 255 bytes.
        bytes.extend_from_slice(&[OBJECT_FORMAT, self.key_id.len() as u8]);
        bytes.extend_from_slice(self.key_id.as_bytes());
        bytes.extend_from_slice(&self.check);
        bytes.extend_from_slice(&self.nonce);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, EncryptedObjectError> {
        let Some(rest) = bytes.strip_prefix(&OBJECT_MAGIC) else {
            return Err(EncryptedObjectError::NotEncrypted);
        };
        if bytes.len() < OBJECT_HEAD_SIZE {
            return Err(EncryptedObjectError::Truncated { size: bytes.len() as u64 });
        }
        let damaged = |what| EncryptedObjectError::Head { what };
        let mut rest = rest;
        let [format, key_id_size] = take(&mut rest)?;
        if format != OBJECT_FORMAT {
            return Err(EncryptedObjectError::Version { found: format, expected: OBJECT_FORMAT });
        }
        let key_id = rest.split_off(..usize::from(key_id_size)).ok_or_else(|| damaged("it is too short"))?;
        let key_id = str::from_utf8(key_id).map_err(|_| damaged("the name of its key is not UTF-8"))?;
        let (check, nonce, wrapped_key) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
        let padding = OBJECT_HEAD_SIZE - (bytes.len() - rest.len());
        if rest.iter().take(padding).any(|byte| *byte != 0) {
            return Err(damaged("bytes follow its last field"));
        }
        Ok(Self { key_id: key_id.to_owned(), check, nonce, wrapped_key })
    }

    /// Returns what the tag of the data key protects.
    fn protected(&self, object: &str) -> Vec<u8> {
        [&self.protected_fields(), object.as_bytes()].concat()
    }
}

fn take<const SIZE: usize>(rest: &mut &[u8]) -> Result<[u8; SIZE], EncryptedObjectError> {
    let (field, after) =
        rest.split_first_chunk().ok_or(EncryptedObjectError::Head { what: "it is too short" })?;
    *rest = after;
    Ok(*field)
}

/// Positions of the chunks in an encrypted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLayout {
    stored_size: u64,
    /// Number of chunks, at least one.
    chunks: u64,
}

impl ChunkLayout {
    /// Returns the layout of an object of this size in bytes.
    ///
    /// # Errors
    ///
    /// Fails if no encrypted object has this size.
    pub fn of(stored_size: u64) -> Result<Self, EncryptedObjectError> {
        let truncated = EncryptedObjectError::Truncated { size: stored_size };
        let Some(body) = stored_size.checked_sub(OBJECT_HEAD_SIZE as u64) else { return Err(truncated) };
        let chunks = body.div_ceil(STORED_CHUNK_SIZE as u64);
        let Some(others) = chunks.checked_sub(1) else { return Err(truncated) };
        let last = body - others * STORED_CHUNK_SIZE as u64;
        match last >= TAG_SIZE as u64 && (last > TAG_SIZE as u64 || chunks == 1) {
            true => Ok(Self { stored_size, chunks }),
            false => Err(truncated),
        }
    }

    /// Returns the size of the content in bytes.
    pub const fn content_size(&self) -> u64 {
        self.stored_size - OBJECT_HEAD_SIZE as u64 - self.chunks * TAG_SIZE as u64
    }

    /// Returns the numbers of the chunks that have these bytes of the content.
    pub fn chunks_of(&self, content: Range<u64>) -> Range<u64> {
        let first = (content.start / CHUNK_SIZE as u64).min(self.chunks);
        let end = content.end.div_ceil(CHUNK_SIZE as u64).min(self.chunks);
        first..end.max(first)
    }

    /// Returns the bytes of these chunks in the stored object.
    pub fn stored_range(&self, chunks: Range<u64>) -> Range<u64> {
        let start = |number: u64| {
            let position = OBJECT_HEAD_SIZE as u64 + number.min(self.chunks) * STORED_CHUNK_SIZE as u64;
            position.min(self.stored_size)
        };
        start(chunks.start)..start(chunks.end)
    }
}

/// Cipher of the chunks of one object.
struct ChunkCipher {
    key: LessSafeKey,
    /// Name of the object below the archive's location.
    object: String,
}

/// Place of a chunk in its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkPlace {
    Inner,
    Last,
}

impl ChunkCipher {
    fn new(data_key: &[u8; KEY_SIZE], object: &str) -> Self {
        Self { key: cipher(data_key), object: object.to_owned() }
    }

    // size  field
    //    8  number of the chunk
    //    1  1 for the last chunk, otherwise 0
    //    *  name of the object
    fn protected(&self, number: u64, place: ChunkPlace) -> Vec<u8> {
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.push(u8::from(place == ChunkPlace::Last));
        bytes.extend_from_slice(self.object.as_bytes());
        bytes
    }

    /// Encrypts a chunk from `start` to the end of `out`, and appends its tag.
    fn encrypt(&self, number: u64, place: ChunkPlace, out: &mut Vec<u8>, start: usize) {
        let protected = Aad::from(self.protected(number, place));
        let tag = self.key.seal_in_place_separate_tag(chunk_nonce(number), protected, &mut out[start..]);
        let tag = tag.expect("ours: a chunk is smaller than the limit of AES-GCM");
        out.extend_from_slice(tag.as_ref());
    }

    /// Decrypts a stored chunk, and removes its tag. Returns false if the chunk is not the one that was stored here.
    fn decrypt(&self, number: u64, place: ChunkPlace, chunk: &mut Vec<u8>) -> bool {
        let protected = Aad::from(self.protected(number, place));
        let opened = self.key.open_in_place(chunk_nonce(number), protected, chunk);
        let size = opened.map(|content| content.len());
        chunk.truncate(size.unwrap_or(0));
        size.is_ok()
    }
}

/// Returns the nonce of a chunk. No two chunks of an object have the same number, and no two objects the same key.
fn chunk_nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn cipher(key: &[u8; KEY_SIZE]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("ours: a key of AES-256 has 32 bytes"))
}

/// Encrypts an object while it is written.
pub struct ObjectEncryptor {
    chunks: ChunkCipher,
    number: u64,
    /// Content of the current chunk.
    pending: Vec<u8>,
    head: Option<[u8; OBJECT_HEAD_SIZE]>,
}

impl ObjectEncryptor {
    /// Starts the object of this name, below the archive's location.
    ///
    /// # Errors
    ///
    /// Fails if the system has no random bytes for the data key.
    pub fn new(object: &str, master_key: &MasterKey) -> io::Result<Self> {
        let (mut data_key, mut nonce) = ([0; KEY_SIZE], [0; NONCE_LEN]);
        getrandom::fill(&mut data_key).map_err(io::Error::other)?;
        getrandom::fill(&mut nonce).map_err(io::Error::other)?;
        let wrapped_key = [0; KEY_SIZE + TAG_SIZE];
        let (key_id, check) = (master_key.id().to_owned(), master_key.check_value());
        let mut head = ObjectHead { key_id, check, nonce, wrapped_key };
        let mut wrapped = data_key;
        let tag = cipher(&master_key.wrapping_key()).seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(head.protected(object)),
            &mut wrapped,
        );
        let tag = tag.expect("ours: a data key is smaller than the limit of AES-GCM");
        head.wrapped_key[..KEY_SIZE].copy_from_slice(&wrapped);
        head.wrapped_key[KEY_SIZE..].copy_from_slice(tag.as_ref());
        let chunks = ChunkCipher::new(&data_key, object);
        Ok(Self { chunks, number: 0, pending: Vec::new(), head: Some(head.encode()) })
    }

    /// Takes content, and appends what can be stored to `out`.
    pub fn push(&mut self, mut content: &[u8], out: &mut Vec<u8>) {
        out.extend(self.head.take().into_iter().flatten());
        while !content.is_empty() {
            // Only more content shows that a full chunk is not the last one.
            if self.pending.len() == CHUNK_SIZE {
                self.put_chunk(ChunkPlace::Inner, out);
            }
            let (now, later) = content.split_at(content.len().min(CHUNK_SIZE - self.pending.len()));
            self.pending.extend_from_slice(now);
            content = later;
        }
    }

    /// Appends the last chunk to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        out.extend(self.head.take().into_iter().flatten());
        self.put_chunk(ChunkPlace::Last, out);
    }

    fn put_chunk(&mut self, place: ChunkPlace, out: &mut Vec<u8>) {
        let start = out.len();
        out.append(&mut self.pending);
        self.chunks.encrypt(self.number, place, out, start);
        self.number += 1;
    }
}

/// Encrypts a small object.
///
/// # Errors
///
/// Fails if the system has no random bytes for the data key.
pub fn encrypt_object(object: &str, master_key: &MasterKey, content: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut encryptor = ObjectEncryptor::new(object, master_key)?;
    encryptor.push(content, &mut out);
    encryptor.finish(&mut out);
    Ok(out)
}

/// Decrypts a small object.
///
/// # Errors
///
/// Fails if the keys lack that of the object, or if the object is damaged.
pub fn decrypt_object(
    object: &str,
    keys: &ArchiveKeys,
    bytes: &[u8],
) -> Result<Vec<u8>, EncryptedObjectError> {
    let opened = ObjectDecryptor::open(object, keys, bytes, bytes.len() as u64)?;
    let mut content = Vec::new();
    let mut chunk = Vec::new();
    for number in 0..opened.layout.chunks {
        let range = opened.layout.stored_range(number..number + 1);
        chunk.clear();
        chunk.extend_from_slice(&bytes[range.start as usize..range.end as usize]);
        opened.decrypt(number, &mut chunk)?;
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

/// Decrypts the chunks of one object, in any order.
pub struct ObjectDecryptor {
    layout: ChunkLayout,
    chunks: ChunkCipher,
}

impl ObjectDecryptor {
    /// Opens the object of this name and size by its first bytes, which have at least the head.
    ///
    /// # Errors
    ///
    /// Fails if the keys lack that of the object, or if the head or the size is not that of this object.
    pub fn open(
        object: &str,
        keys: &ArchiveKeys,
        front: &[u8],
        stored_size: u64,
    ) -> Result<Self, EncryptedObjectError> {
        let head = ObjectHead::decode(front)?;
        let master_key = keys.find(&head.key_id, head.check)?;
        let mut data_key = head.wrapped_key;
        let opened = cipher(&master_key.wrapping_key()).open_in_place(
            Nonce::assume_unique_for_key(head.nonce),
            Aad::from(head.protected(object)),
            &mut data_key,
        );
        let damaged = EncryptedObjectError::Head { what: "the tag of its data key is wrong" };
        let data_key = opened.ok().and_then(|opened| opened.first_chunk()).ok_or(damaged)?;
        Ok(Self { layout: ChunkLayout::of(stored_size)?, chunks: ChunkCipher::new(data_key, object) })
    }

    /// Returns the positions of the chunks.
    pub const fn layout(&self) -> ChunkLayout {
        self.layout
    }

    /// Decrypts the stored chunk of this number in place.
    ///
    /// # Errors
    ///
    /// Fails if it is not the chunk that was stored there.
    pub fn decrypt(&self, number: u64, chunk: &mut Vec<u8>) -> Result<(), EncryptedObjectError> {
        let place = if number == self.layout.chunks - 1 { ChunkPlace::Last } else { ChunkPlace::Inner };
        let Range { start, end } = self.layout.stored_range(number..number.saturating_add(1));
        let is_whole = chunk.len() as u64 == end - start;
        match is_whole && self.chunks.decrypt(number, place, chunk) {
            true => Ok(()),
            false => Err(EncryptedObjectError::Chunk { number, start, end }),
        }
    }
}

#[cfg(test)]
mod tests;

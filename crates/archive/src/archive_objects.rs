//! Objects of an archive: plain, or encrypted with a key of a keyring.

use std::io::{self, Read};

use crate::archive_error::ArchiveError;
use crate::decryption_reader::DecryptionReader;
use crate::encrypted_object::{
    OBJECT_HEAD_SIZE, ObjectDecryptor, ObjectEncryptor, decrypt_object, encrypt_object, is_encrypted,
};
use crate::encrypted_object_error::EncryptedObjectError;
use crate::master_key::{ArchiveKeys, MasterKey};
use crate::segment::{LogDigest, read_failed};
use crate::storage::{ArchiveStorage, CreateOutcome, ObjectReader, ObjectUpload, StoredObject};

/// Objects in a storage, with the keys that read and write them.
#[derive(Clone, Debug)]
pub(crate) struct ArchiveObjects {
    pub(crate) storage: ArchiveStorage,
    /// Keys that read encrypted objects.
    pub(crate) keys: ArchiveKeys,
    /// Key that encrypts new objects; `None` for plain objects.
    pub(crate) master_key: Option<MasterKey>,
}

/// Object as its manifest describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownObject<'m> {
    /// Name below the location.
    pub(crate) name: &'m str,
    /// Size of the stored object in bytes.
    pub(crate) size: u64,
    /// Set if the object must be encrypted: a plain object of this name comes from elsewhere.
    pub(crate) is_encrypted: bool,
}

/// Small object that was read.
#[derive(Debug)]
pub(crate) struct SmallObject {
    /// Name below the location.
    pub(crate) name: String,
    /// Content; an error if it cannot be decrypted.
    pub(crate) content: Result<Vec<u8>, ArchiveError>,
}

impl ArchiveObjects {
    /// Uses plain objects.
    pub(crate) fn new(storage: ArchiveStorage) -> Self {
        Self { storage, keys: ArchiveKeys::default(), master_key: None }
    }

    /// Returns the name of the key that encrypts new objects.
    pub(crate) fn key_id(&self) -> Option<String> {
        self.master_key.as_ref().map(|key| key.id().to_owned())
    }

    /// Creates a small object, unless it exists.
    pub(crate) fn create(&self, name: &str, content: Vec<u8>) -> Result<CreateOutcome, ArchiveError> {
        self.storage.create(name, self.stored_form(name, content)?)
    }

    /// Creates a small object, or replaces the one of this name.
    pub(crate) fn replace(&self, name: &str, content: Vec<u8>) -> Result<(), ArchiveError> {
        self.storage.replace(name, self.stored_form(name, content)?)
    }

    fn stored_form(&self, name: &str, content: Vec<u8>) -> Result<Vec<u8>, ArchiveError> {
        match &self.master_key {
            Some(key) => {
                encrypt_object(name, key, &content).map_err(|cause| self.no_random_bytes(name, cause))
            }
            None => Ok(content),
        }
    }

    /// Reads small objects. One that has disappeared is left out. Damage to one object is no error for the others.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails, and if a key is missing.
    pub(crate) fn read_all(&self, objects: &[StoredObject]) -> Result<Vec<SmallObject>, ArchiveError> {
        let mut found = Vec::new();
        for (name, bytes) in self.storage.read_all(objects)? {
            let content = bytes.and_then(|bytes| match is_encrypted(&bytes) {
                true => decrypt_object(&name, &self.keys, &bytes)
                    .map_err(|error| self.not_decrypted(&name, error)),
                false => Ok(bytes),
            });
            match content {
                Err(error) if error.is_key_error() => return Err(error),
                content => found.push(SmallObject { name, content }),
            }
        }
        Ok(found)
    }

    /// Starts the upload of an object, which is encrypted if new objects are.
    pub(crate) fn upload(&self, name: &str) -> Result<ArchiveUpload, ArchiveError> {
        let encryptor = self.master_key.as_ref().map(|key| ObjectEncryptor::new(name, key)).transpose();
        let encryptor = encryptor.map_err(|cause| self.no_random_bytes(name, cause))?;
        Ok(ArchiveUpload { encryptor, ..self.upload_unchanged(name)? })
    }

    /// Starts the upload of an object whose content is stored unchanged.
    pub(crate) fn upload_unchanged(&self, name: &str) -> Result<ArchiveUpload, ArchiveError> {
        let upload = self.storage.upload(name)?;
        Ok(ArchiveUpload { upload, encryptor: None, digest: LogDigest::default(), size: 0 })
    }

    /// Opens an object to be read from front to back, decrypted.
    pub(crate) fn reader(&self, object: KnownObject<'_>) -> Result<ContentReader, ArchiveError> {
        let mut input = self.storage.reader(object.name, object.size);
        if !object.is_encrypted {
            return Ok(ContentReader::Plain(input));
        }
        let mut head = Vec::new();
        input.by_ref().take(OBJECT_HEAD_SIZE as u64).read_to_end(&mut head).map_err(read_failed)?;
        let decryptor = self.decryptor(object, &head)?;
        let (name, reader) = (self.storage.full_name(object.name), DecryptionReader::new(decryptor, input));
        Ok(ContentReader::Encrypted { name, reader: Box::new(reader) })
    }

    /// Reads the first bytes of an object's content, up to `size`.
    pub(crate) fn read_front(&self, object: KnownObject<'_>, size: u64) -> Result<Vec<u8>, ArchiveError> {
        let KnownObject { name, is_encrypted, .. } = object;
        if !is_encrypted {
            return self.storage.read_range(name, 0..size.min(object.size));
        }
        let head = self.storage.read_range(name, 0..object.size.min(OBJECT_HEAD_SIZE as u64))?;
        let decryptor = self.decryptor(object, &head)?;
        let layout = decryptor.layout();
        let mut content = Vec::new();
        for number in layout.chunks_of(0..size) {
            let mut chunk = self.storage.read_range(name, layout.stored_range(number..number + 1))?;
            decryptor.decrypt(number, &mut chunk).map_err(|error| self.not_decrypted(name, error))?;
            content.append(&mut chunk);
        }
        content.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        Ok(content)
    }

    fn decryptor(&self, object: KnownObject<'_>, head: &[u8]) -> Result<ObjectDecryptor, ArchiveError> {
        ObjectDecryptor::open(object.name, &self.keys, head, object.size)
            .map_err(|error| self.not_decrypted(object.name, error))
    }

    fn not_decrypted(&self, name: &str, error: EncryptedObjectError) -> ArchiveError {
        ArchiveError::EncryptedObject { name: self.storage.full_name(name), error }
    }

    fn no_random_bytes(&self, name: &str, cause: io::Error) -> ArchiveError {
        ArchiveError::Storage { verb: "encrypt", name: self.storage.full_name(name), cause: Box::new(cause) }
    }
}

/// Upload of an object. Without [`ArchiveUpload::finish`], no object is created.
pub(crate) struct ArchiveUpload {
    upload: ObjectUpload,
    encryptor: Option<ObjectEncryptor>,
    /// Digest of the stored bytes.
    digest: LogDigest,
    /// Number of stored bytes.
    size: u64,
}

/// Size and digest of a stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadSummary {
    /// Size in bytes.
    pub(crate) size: u64,
    /// SHA-256.
    pub(crate) sha256: String,
}

impl ArchiveUpload {
    /// Appends content.
    pub(crate) fn put(&mut self, content: &[u8]) -> Result<(), ArchiveError> {
        match &mut self.encryptor {
            Some(encryptor) => {
                let mut encrypted = Vec::new();
                encryptor.push(content, &mut encrypted);
                self.put_stored(&encrypted)
            }
            None => self.put_stored(content),
        }
    }

    fn put_stored(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.digest.update(bytes);
        self.size += bytes.len() as u64;
        self.upload.put(bytes)
    }

    /// Completes the object.
    pub(crate) fn finish(mut self) -> Result<UploadSummary, ArchiveError> {
        if let Some(encryptor) = self.encryptor.take() {
            let mut encrypted = Vec::new();
            encryptor.finish(&mut encrypted);
            self.put_stored(&encrypted)?;
        }
        self.upload.finish()?;
        Ok(UploadSummary { size: self.size, sha256: self.digest.finish() })
    }
}

/// Reader of an object's content.
pub(crate) enum ContentReader {
    Plain(ObjectReader),
    Encrypted {
        /// Name of the object with its location, for errors.
        name: String,
        reader: Box<DecryptionReader<ObjectReader>>,
    },
}

impl Read for ContentReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(out),
            Self::Encrypted { name, reader } => reader.read(out).map_err(|cause| match cause
                .downcast::<EncryptedObjectError>(
            ) {
                Ok(error) => io::Error::other(ArchiveError::EncryptedObject { name: name.clone(), error }),
                Err(cause) => cause,
            }),
        }
    }
}

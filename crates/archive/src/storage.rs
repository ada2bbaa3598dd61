//! Storage of archives: object stores and directories, behind calls that wait.

mod aws_profile;
mod credential_process;
mod unfinished_files;

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::iter;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::{Path as ObjectPath, PathPart};
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, WriteMultipart};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use url::Url;

use crate::archive_error::ArchiveError;
pub(crate) use crate::storage::unfinished_files::is_unfinished;

/// Size of the parts of an upload. S3 allows 10,000 parts of 5 MiB and more.
const PART_SIZE: usize = 8 << 20;

/// Size of the pieces of a download.
const PIECE_SIZE: u64 = 4 << 20;

/// Number of parts that are sent, and of pieces that are fetched, at the same time. Bounds memory.
const PARTS_MAX: usize = 3;

/// Number of manifests that are read at the same time.
const REQUESTS_MAX: usize = 16;

/// Largest manifest. Bounds memory.
const SMALL_OBJECT_MAX: u64 = 64 << 20;

/// Storage of one archive: a prefix in a bucket, or a directory.
#[derive(Clone)]
pub struct ArchiveStorage {
    shared: Arc<SharedStorage>,
}

struct SharedStorage {
    /// As it was given.
    location: String,
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    runtime: Runtime,
}

/// Handling of a directory that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingDirectory {
    /// It is created.
    Create,
    /// It is an error.
    Refuse,
}

/// Result of creating an object that must not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// It was created.
    Created,
    /// It exists already.
    Exists,
}

/// An object of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Name, from the archive's prefix on.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of its last change, in seconds since 1970.
    pub modified_at: i64,
}

impl fmt::Debug for ArchiveStorage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("ArchiveStorage").field(&self.shared.location).finish()
    }
}

/// Returns whether a location is an object store's URL.
pub fn is_object_url(location: &str) -> bool {
    const SCHEMES: [&str; 7] = ["s3", "s3a", "gs", "az", "azure", "abfs", "abfss"];
    location.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

impl ArchiveStorage {
    /// Opens the storage at a URL (`s3://bucket/prefix`, `gs://…`, `az://…`) or in a directory. Credentials come from
    /// the environment, from the files of the AWS command line, or from the machine.
    ///
    /// # Errors
    ///
    /// Fails if the location is invalid, or the directory is missing or cannot be created.
    pub fn open(location: &str, missing: MissingDirectory) -> Result<Self, ArchiveError> {
        if location.is_empty() {
            let why = "give a directory, or a URL such as s3://BUCKET/PREFIX";
            return Err(invalid("an empty text", why));
        }
        let (store, prefix) = match is_object_url(location) {
            true => open_url(location)?,
            false => (open_directory(location, missing)?, ObjectPath::default()),
        };
        let runtime =
            Builder::new_multi_thread().worker_threads(2).thread_name("storage").enable_all().build();
        let runtime = runtime.map_err(|cause| invalid(location, cause))?;
        Ok(Self { shared: Arc::new(SharedStorage { location: location.to_owned(), store, prefix, runtime }) })
    }

    /// Returns the location as it was given.
    pub fn location(&self) -> &str {
        &self.shared.location
    }

    /// Returns the name of an object with the location, for messages.
    pub(crate) fn full_name(&self, name: &str) -> String {
        format!("{}/{name}", self.shared.location.trim_end_matches('/'))
    }

    /// Returns the objects whose names start with this directory.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn list(&self, directory: &str) -> Result<Vec<StoredObject>, ArchiveError> {
        let path = self.path(directory);
        let found = self.shared.store.list(Some(&path));
        let objects: Vec<_> = self
            .shared
            .runtime
            .block_on(found.try_collect())
            .map_err(|cause| self.failed("list", directory, cause))?;
        let prefix = self.shared.prefix.as_ref().len();
        let name = |path: &ObjectPath| path.as_ref()[prefix..].trim_start_matches('/').to_owned();
        let mut objects: Vec<StoredObject> = objects
            .iter()
            .map(|object: &object_store::ObjectMeta| StoredObject {
                name: name(&object.location),
                size: object.size,
                modified_at: object.last_modified.timestamp(),
            })
            .collect();
        objects.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(objects)
    }

    /// Returns whether there are objects whose names start with this directory.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn has_objects(&self, directory: &str) -> Result<bool, ArchiveError> {
        let path = self.path(directory);
        let mut found = self.shared.store.list(Some(&path));
        let first = self.shared.runtime.block_on(found.try_next());
        first.map(|object| object.is_some()).map_err(|cause| self.failed("list", directory, cause))
    }

    /// Reads small objects.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails. An object that has disappeared is left out; one that is too large has an error of
    /// its own.
    pub(crate) fn read_all(&self, objects: &[StoredObject]) -> Result<Vec<ReadObject>, ArchiveError> {
        let get = |name: String| async move {
            let result = match self.shared.store.get(&self.path(&name)).await {
                Ok(found) if found.meta.size <= SMALL_OBJECT_MAX => found.bytes().await.map(Some),
                Ok(_) => {
                    let error =
                        ArchiveError::Manifest { name: name.clone(), why: "it is too large".to_owned() };
                    return Ok(Some((name, Err(error))));
                }
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            };
            let bytes = result.map_err(|cause| self.failed("read", &name, cause))?;
            Ok::<Option<ReadObject>, ArchiveError>(bytes.map(|bytes| (name, Ok(bytes.to_vec()))))
        };
        let names = objects.iter().map(|object| object.name.clone());
        let found = futures_util::stream::iter(names.map(get)).buffered(REQUESTS_MAX);
        let found: Vec<_> = self.shared.runtime.block_on(found.try_collect())?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns the size of an object; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn size(&self, name: &str) -> Result<Option<u64>, ArchiveError> {
        Ok(self.find(name)?.map(|object| object.size))
    }

    /// Returns an object; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn find(&self, name: &str) -> Result<Option<StoredObject>, ArchiveError> {
        match self.shared.runtime.block_on(self.shared.store.head(&self.path(name))) {
            Ok(found) => Ok(Some(StoredObject {
                name: name.to_owned(),
                size: found.size,
                modified_at: found.last_modified.timestamp(),
            })),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(cause) => Err(self.failed("find", name, cause)),
        }
    }

    /// Creates a small object, unless it exists.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn create(&self, name: &str, bytes: Vec<u8>) -> Result<CreateOutcome, ArchiveError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let path = self.path(name);
        let put = self.shared.store.put_opts(&path, PutPayload::from(bytes), options);
        match self.shared.runtime.block_on(put) {
            Ok(_) => Ok(CreateOutcome::Created),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(CreateOutcome::Exists)
            }
            Err(cause) => Err(self.failed("create", name, cause)),
        }
    }

    /// Creates a small object, or replaces the one of this name.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn replace(&self, name: &str, bytes: Vec<u8>) -> Result<(), ArchiveError> {
        let path = self.path(name);
        let put = self.shared.runtime.block_on(self.shared.store.put(&path, PutPayload::from(bytes)));
        put.map(drop).map_err(|cause| self.failed("replace", name, cause))
    }

    /// Deletes an object. One that does not exist is no error.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn delete(&self, name: &str) -> Result<(), ArchiveError> {
        match self.shared.runtime.block_on(self.shared.store.delete(&self.path(name))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(cause) => Err(self.failed("delete", name, cause)),
        }
    }

    /// Starts the upload of an object. It exists once the upload is finished, and not before.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn upload(&self, name: &str) -> Result<ObjectUpload, ArchiveError> {
        let upload = self.shared.runtime.block_on(self.shared.store.put_multipart(&self.path(name)));
        let upload = upload.map_err(|cause| self.failed("create", name, cause))?;
        let writer = WriteMultipart::new_with_chunk_size(upload, PART_SIZE);
        Ok(ObjectUpload { storage: self.clone(), name: name.to_owned(), writer: Some(writer) })
    }

    /// Returns these bytes of an object.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, ArchiveError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let path = self.path(name);
        let found = self.shared.runtime.block_on(self.shared.store.get_range(&path, range));
        found.map(|bytes| bytes.to_vec()).map_err(|cause| self.failed("read", name, cause))
    }

    /// Returns a reader of an object of this size, which fetches pieces ahead.
    pub fn reader(&self, name: &str, size: u64) -> ObjectReader {
        self.reader_of(name, 0..size)
    }

    /// Returns a reader of these bytes of an object, which fetches pieces ahead.
    pub fn reader_of(&self, name: &str, range: Range<u64>) -> ObjectReader {
        ObjectReader {
            storage: self.clone(),
            name: name.to_owned(),
            end: range.end,
            next: range.start,
            pieces: VecDeque::new(),
            current: io::Cursor::default(),
            is_failed: false,
        }
    }

    fn path(&self, name: &str) -> ObjectPath {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.fold(self.shared.prefix.clone(), |path, part| {
            // As it is, so that `list` returns the same name.
            let part = PathPart::parse(part).unwrap_or_else(|_| PathPart::from(part));
            path.join(part)
        })
    }

    fn failed(&self, verb: &'static str, name: &str, cause: object_store::Error) -> ArchiveError {
        let location = self.shared.location.trim_end_matches('/');
        let cause = match is_object_url(location) {
            true => service_cause(cause),
            false => system_cause(&cause),
        };
        ArchiveError::Storage { verb, name: self.full_name(name), cause }
    }
}

/// Returns the cause of a failure in a directory, in the words of the operating system.
fn system_cause(error: &object_store::Error) -> Box<dyn Error + Send + Sync> {
    let mut causes = iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source());
    let Some(cause) = causes.find_map(|cause| cause.downcast_ref::<io::Error>()) else {
        return error.to_string().into();
    };
    // The error of a walk through a directory contains the operating system's error.
    let inner = iter::successors(Some(cause as &(dyn Error + 'static)), |&error| error.source());
    let of_system = inner.filter_map(|cause| cause.downcast_ref::<io::Error>()).last().unwrap_or(cause);
    let remedy = match of_system.kind() {
        io::ErrorKind::PermissionDenied => ". Run bintide as a user that has access to the archive",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ". Free disk space",
        io::ErrorKind::NotADirectory => ". Give the directory of an archive",
        _ => "",
    };
    format!("{of_system}{remedy}").into()
}

/// Parts of the addresses at which machines in a cloud get credentials, and the variables for other machines.
const MACHINE_CREDENTIALS: [(&str, &str); 4] = [
    ("/latest/api/token", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"),
    ("/latest/meta-data/iam", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"),
    ("/metadata/identity/oauth2/token", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
    ("/computeMetadata/", "GOOGLE_APPLICATION_CREDENTIALS"),
];

/// Returns the cause of a failure of an object store. Without credentials, the library's last attempt is to ask the
/// machine for some.
fn service_cause(error: object_store::Error) -> Box<dyn Error + Send + Sync> {
    let text = error.to_string();
    match MACHINE_CREDENTIALS.iter().find(|(address, _)| text.contains(address)) {
        Some((_, variables)) => {
            format!("there are no credentials, and this machine provides none. Set {variables}").into()
        }
        None => with_cause(text, &error).into(),
    }
}

/// Returns the text of an error, and its innermost cause if the text lacks it, such as a refused connection.
fn with_cause(text: String, error: &(dyn Error + 'static)) -> String {
    let innermost = iter::successors(Some(error), |&error| error.source()).last();
    match innermost.map(ToString::to_string) {
        Some(cause) if !text.contains(&cause) => format!("{text}: {cause}"),
        _ => text,
    }
}

fn open_url(location: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath), ArchiveError> {
    // Any other provider would be one more implementation of cryptography. It may be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = Url::parse(location).map_err(|cause| invalid(location, cause))?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid(location, "it names no bucket"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        let why = "credentials and options come from the environment, not from the URL";
        return Err(invalid(location, why));
    }
    let store: Result<Arc<dyn ObjectStore>, object_store::Error> = match url.scheme() {
        "gs" => {
            GoogleCloudStorageBuilder::from_env().with_url(location).build().map(|store| Arc::new(store) as _)
        }
        "s3" | "s3a" => aws_profile::with_profile(AmazonS3Builder::from_env())
            .map_err(|why| invalid(location, why))?
            .with_url(location)
            .build()
            .map(|store| Arc::new(store) as _),
        _ => MicrosoftAzureBuilder::from_env().with_url(location).build().map(|store| Arc::new(store) as _),
    };
    let prefix = ObjectPath::from_url_path(url.path()).map_err(|cause| invalid(location, cause))?;
    Ok((store.map_err(|cause| invalid(location, cause))?, prefix))
}

fn open_directory(location: &str, missing: MissingDirectory) -> Result<Arc<dyn ObjectStore>, ArchiveError> {
    if location.contains("://") {
        return Err(invalid(location, "expected s3://, gs://, az://, or a directory"));
    }
    let directory = PathBuf::from(location);
    if directory.exists() && !directory.is_dir() {
        return Err(invalid(location, "it is a file; expected a directory"));
    }
    if missing == MissingDirectory::Create {
        fs::create_dir_all(&directory).map_err(|cause| invalid(location, cause))?;
    }
    fs::metadata(&directory).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => invalid(location, "there is no such directory"),
        _ => ArchiveError::Storage { verb: "open", name: location.to_owned(), cause: cause.into() },
    })?;
    let store = LocalFileSystem::new_with_prefix(&directory)
        .map_err(|cause| invalid(location, system_cause(&cause)))?;
    Ok(Arc::new(store.with_fsync(true)))
}

/// Returns the error for a location. A URL with `@` or `?` may contain a secret: the error has only its scheme.
fn invalid(location: &str, why: impl fmt::Display) -> ArchiveError {
    let location = match location.split_once("://") {
        Some((scheme, rest)) if rest.contains(['@', '?']) => format!("{scheme}://…"),
        _ => location.to_owned(),
    };
    ArchiveError::Location { location, why: why.to_string() }
}

/// Name and content of an object that was read.
pub(crate) type ReadObject = (String, Result<Vec<u8>, ArchiveError>);

/// Upload of an object in parts. Without [`ObjectUpload::finish`], no object is created.
pub struct ObjectUpload {
    storage: ArchiveStorage,
    name: String,
    writer: Option<WriteMultipart>,
}

impl fmt::Debug for ObjectUpload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("ObjectUpload").field(&self.name).finish()
    }
}

impl ObjectUpload {
    /// Appends bytes. Waits while too many parts are being sent.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let writer =
            self.writer.as_mut().unwrap_or_else(|| unreachable!("ours: only `finish` takes the writer"));
        for piece in bytes.chunks(PART_SIZE) {
            let sent = self.storage.shared.runtime.block_on(async {
                writer.wait_for_capacity(PARTS_MAX).await?;
                writer.write(piece);
                Ok(())
            });
            sent.map_err(|cause| self.storage.failed("upload", &self.name, cause))?;
        }
        Ok(())
    }

    /// Completes the object.
    ///
    /// # Errors
    ///
    /// Fails if the object store fails.
    pub fn finish(mut self) -> Result<(), ArchiveError> {
        let writer =
            self.writer.take().unwrap_or_else(|| unreachable!("ours: only `finish` takes the writer"));
        let finished = self.storage.shared.runtime.block_on(writer.finish());
        finished.map(drop).map_err(|cause| self.storage.failed("complete", &self.name, cause))
    }
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // An upload that cannot be aborted counts for nothing either.
            let _ = self.storage.shared.runtime.block_on(writer.abort());
        }
    }
}

/// Reads an object from front to back.
pub struct ObjectReader {
    storage: ArchiveStorage,
    name: String,
    /// Position after the last byte to read.
    end: u64,
    /// Start of the next piece to fetch.
    next: u64,
    pieces: VecDeque<JoinHandle<Result<Vec<u8>, object_store::Error>>>,
    current: io::Cursor<Vec<u8>>,
    /// A piece could not be read: later pieces must not follow in its place.
    is_failed: bool,
}

impl fmt::Debug for ObjectReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ObjectReader").field("name", &self.name).field("end", &self.end).finish()
    }
}

impl ObjectReader {
    fn fetch_ahead(&mut self) {
        while self.pieces.len() < PARTS_MAX && self.next < self.end {
            let end = (self.next + PIECE_SIZE).min(self.end);
            let (store, path) = (Arc::clone(&self.storage.shared.store), self.storage.path(&self.name));
            let range = self.next..end;
            self.next = end;
            self.pieces.push_back(self.storage.shared.runtime.spawn(async move {
                let bytes = store.get_range(&path, range).await?;
                Ok(bytes.to_vec())
            }));
        }
    }
}

impl Read for ObjectReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let size = self.current.read(out)?;
            if size > 0 || out.is_empty() {
                return Ok(size);
            }
            if self.is_failed {
                return Err(io::Error::other(format!("an earlier read of {} failed", self.name)));
            }
            self.fetch_ahead();
            let Some(piece) = self.pieces.pop_front() else { return Ok(0) };
            let piece = self.storage.shared.runtime.block_on(piece).map_err(io::Error::other);
            let piece = piece.and_then(|piece| {
                piece.map_err(|cause| io::Error::other(self.storage.failed("read", &self.name, cause)))
            });
            self.is_failed = piece.is_err();
            self.current = io::Cursor::new(piece?);
        }
    }
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        self.pieces.iter().for_each(JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{ArchiveStorage, MissingDirectory, service_cause, system_cause};

    #[test]
    fn locations_that_are_no_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        for missing in [MissingDirectory::Create, MissingDirectory::Refuse] {
            let check = |location: &str, expected: &str| {
                let error = ArchiveStorage::open(location, missing).unwrap_err().to_string();
                assert_eq!(error, expected);
            };
            check(
                "",
                "an empty text is not a directory or the URL of an object store: give a directory, or a URL such as s3://BUCKET/PREFIX",
            );
            let expected = format!(
                "{file} is not a directory or the URL of an object store: it is a file; expected a directory"
            );
            check(file, &expected);
        }
    }

    #[test]
    fn failures_in_a_directory_have_the_systems_words() {
        let directory = tempfile::tempdir().unwrap();
        let location = directory.path().to_str().unwrap();
        let storage = ArchiveStorage::open(location, MissingDirectory::Refuse).unwrap();
        fs::write(directory.path().join("manifests"), "").unwrap();
        let error = storage.create("manifests/a.json", vec![1]).unwrap_err().to_string();
        let expected = format!(
            "could not create {location}/manifests/a.json: Not a directory (os error 20). Give the directory of an \
             archive"
        );
        assert_eq!(error, expected);
        let denied = std::io::Error::from_raw_os_error(13);
        let denied = object_store::Error::Generic { store: "LocalFileSystem", source: denied.into() };
        assert_eq!(
            system_cause(&denied).to_string(),
            "Permission denied (os error 13). Run bintide as a user that has access to the archive"
        );
    }

    #[test]
    fn missing_credentials_are_named() {
        let error = |text: &str| object_store::Error::Generic { store: "S3", source: text.into() };
        let missing = error("Error performing PUT http://169.254.169.254/latest/api/token in 3s: timed out");
        let found = service_cause(missing).to_string();
        assert!(
            found.ends_with("Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"),
            "{found}"
        );
        assert!(service_cause(error("403 Forbidden")).to_string().contains("403 Forbidden"));
    }
}

//! Records in files, each exactly once: after a crash, the last file is truncated to the last saved transaction.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use logs::{DirectoryLock, make_directories, sync_parent};

use crate::ddl_schema::DdlSchema;
use crate::progress_file::{SavedProgress, create_options, in_use_error, with_path, write_atomically};
use crate::resume_token::ResumeToken;
use crate::schema_files::SchemaFiles;
use crate::settings::Envelope;
use crate::snapshot_progress::SnapshotProgress;
use crate::stream_gtid_state::StreamGtidState;

/// Writer of records into the files of a directory.
///
/// `changes.000001.json` and so on are finished: they end between transactions and no longer change.
/// `changes.000002.json.part` grows. The file `progress` states how much of it is saved, and where to resume.
#[derive(Debug)]
pub struct DirectorySink {
    directory: PathBuf,
    /// Size in bytes at which a file is finished.
    size_max: u64,
    /// Format of the records.
    envelope: Envelope,
    number: u64,
    file: File,
    size: u64,
    /// Size up to the last saved transaction.
    complete_size: u64,
    saved: Option<SavedProgress>,
    /// Saved table definitions.
    schema_files: SchemaFiles,
    /// Prevents a second process from writing into the same directory.
    _lock: DirectoryLock,
}

/// State of the stream after a transaction, to be saved.
#[derive(Debug)]
pub(crate) struct StreamCheckpoint<'s> {
    /// Position from which a run resumes.
    pub(crate) token: &'s ResumeToken,
    /// GTIDs received from a server.
    pub(crate) gtid_state: Option<&'s StreamGtidState>,
    /// Table definitions, if they changed since the last save.
    pub(crate) new_schema: Option<DdlSchema>,
    /// Progress of incremental snapshots.
    pub(crate) snapshot: &'s SnapshotProgress,
}

/// Contents of the progress file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DirectoryProgress {
    saved: SavedProgress,
    number: u64,
    size: u64,
    /// Format of the records; `None` in files of older versions.
    envelope: Option<Envelope>,
}

impl DirectorySink {
    /// Opens a directory, which it creates if needed, and truncates the last file after the last saved transaction.
    ///
    /// # Errors
    ///
    /// Fails if an I/O operation fails, another process uses the directory, its files do not match the saved progress,
    /// or their records have another format.
    pub fn open(directory: &Path, size_max: u64, envelope: Envelope) -> io::Result<Self> {
        make_directories(directory).map_err(io::Error::other)?;
        let mark = directory.join(LOCK_FILE);
        let lock = DirectoryLock::take(directory).map_err(|error| with_path(directory, &error))?;
        let lock = lock
            .ok_or_else(|| in_use_error(directory))?
            .with_mark(&mark)
            .map_err(|error| with_path(&mark, &error))?;
        let lock = lock.ok_or_else(|| in_use_error(directory))?;
        let progress_path = directory.join(PROGRESS_FILE);
        let saved = match fs::read_to_string(&progress_path) {
            Ok(text) => Some(
                DirectoryProgress::parse(&text)
                    .ok_or_else(|| damaged_error(directory, "its progress file is damaged"))?,
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(with_path(&progress_path, &error)),
        };
        if let Some(DirectoryProgress { envelope: Some(other), .. }) = &saved
            && *other != envelope
        {
            return Err(envelope_error(directory, *other, envelope));
        }
        let (number, size) = match &saved {
            None if finished_path(directory, 1).exists() => {
                return Err(damaged_error(directory, "it has record files but no progress file"));
            }
            None => (1, 0),
            Some(saved) if finished_path(directory, saved.number).exists() => (saved.number + 1, 0),
            Some(saved) => (saved.number, saved.size),
        };
        let path = growing_path(directory, number);
        let mut file =
            create_options().truncate(false).open(&path).map_err(|error| with_path(&path, &error))?;
        if file.metadata().map_err(|error| with_path(&path, &error))?.len() < size {
            return Err(damaged_error(directory, "its last file is shorter than the saved size"));
        }
        let cut = file.set_len(size).and_then(|()| file.seek(SeekFrom::Start(size)));
        cut.map_err(|error| with_path(&path, &error))?;
        let saved = saved.map(|progress| progress.saved);
        let schema_number = saved.as_ref().and_then(|saved| saved.schema_number);
        let schema_files = SchemaFiles::beside(&progress_path, schema_number);
        let directory = directory.to_owned();
        Ok(Self {
            directory,
            size_max,
            envelope,
            number,
            file,
            size,
            complete_size: size,
            saved,
            schema_files,
            _lock: lock,
        })
    }

    /// Returns the saved position; `None` in a new directory.
    pub fn resume_token(&self) -> Option<&ResumeToken> {
        self.saved.as_ref().map(|saved| &saved.token)
    }

    /// Returns the saved GTIDs received from a server; `None` if the records came from log files.
    pub fn gtid_state(&self) -> Option<&StreamGtidState> {
        self.saved.as_ref().and_then(|saved| saved.gtid_state.as_ref())
    }

    /// Returns the saved progress of incremental snapshots; `None` in a new directory.
    pub fn snapshot(&self) -> Option<&SnapshotProgress> {
        self.saved.as_ref().map(|saved| &saved.snapshot)
    }

    /// Reads the saved table definitions; `None` if there are none.
    pub(crate) fn read_schema(&self) -> io::Result<Option<DdlSchema>> {
        self.schema_files.read()
    }

    /// Drops the saved definitions: what follows is read without them.
    pub(crate) const fn forget_schema(&mut self) {
        self.schema_files.forget();
    }

    /// Truncates the last `torn` written bytes.
    pub(crate) fn cut_tail(&mut self, torn: u64) -> io::Result<()> {
        self.size = self.size.saturating_sub(torn);
        let cut = self.file.set_len(self.size).and_then(|()| self.file.seek(SeekFrom::Start(self.size)));
        cut.map(drop).map_err(|error| self.with_path(&error))
    }

    /// Adds the path of the growing file to an error.
    fn with_path(&self, error: &io::Error) -> io::Error {
        with_path(&growing_path(&self.directory, self.number), error)
    }

    /// Returns the size of the growing file in bytes.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Size in bytes at which a file is finished.
    pub(crate) const fn size_max(&self) -> u64 {
        self.size_max
    }

    /// Saves progress up to the last `torn` written bytes. Finishes the file if it is large enough.
    pub(crate) fn save(&mut self, checkpoint: StreamCheckpoint<'_>, torn: u64) -> io::Result<()> {
        let StreamCheckpoint { token, gtid_state, new_schema, snapshot } = checkpoint;
        self.file.sync_data().map_err(|error| self.with_path(&error))?;
        self.complete_size = self.size.saturating_sub(torn);
        let written = self.schema_files.write(new_schema.as_ref())?;
        let saved = SavedProgress {
            token: token.clone(),
            schema_number: self.schema_files.number(),
            snapshot: snapshot.clone(),
            gtid_state: gtid_state.cloned(),
        };
        let (number, size, envelope) = (self.number, self.complete_size, Some(self.envelope));
        let progress = DirectoryProgress { saved, number, size, envelope };
        write_atomically(&self.directory.join(PROGRESS_FILE), &progress.to_text())?;
        written.remove();
        self.saved = Some(progress.saved);
        if torn == 0 && self.size >= self.size_max { self.finish_file() } else { Ok(()) }
    }

    /// Ends writing: finishes the last file, without the bytes after the last saved transaction.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let cut = self.file.set_len(self.complete_size).and_then(|()| self.file.sync_all());
        cut.map_err(|error| self.with_path(&error))?;
        if self.complete_size > 0 {
            self.finish_file()?;
        }
        fs::remove_file(growing_path(&self.directory, self.number)).map_err(|error| self.with_path(&error))
    }

    /// Finishes the file. All of its bytes must be saved.
    fn finish_file(&mut self) -> io::Result<()> {
        let whole = finished_path(&self.directory, self.number);
        let renamed = fs::rename(growing_path(&self.directory, self.number), &whole);
        renamed.and_then(|()| sync_parent(&whole)).map_err(|error| with_path(&whole, &error))?;
        // The number grows only once the next file exists: saved progress must not name a file that is missing.
        let next = growing_path(&self.directory, self.number + 1);
        self.file = create_options().truncate(true).open(&next).map_err(|error| with_path(&next, &error))?;
        self.number += 1;
        (self.size, self.complete_size) = (0, 0);
        Ok(())
    }
}

impl Write for DirectorySink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes).map_err(|error| self.with_path(&error))?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

const PROGRESS_FILE: &str = "progress";
const LOCK_FILE: &str = "bintide-stream.lock";

fn finished_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("changes.{number:06}.json"))
}

fn growing_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("changes.{number:06}.json.part"))
}

fn envelope_error(directory: &Path, found: Envelope, asked: Envelope) -> io::Error {
    let [found, asked] = [found, asked].map(Envelope::name);
    let directory = directory.display();
    let text = format!(
        "the records in {directory} have the format {found}, not {asked}: give --format={found}, or an empty directory"
    );
    io::Error::other(text)
}

fn damaged_error(directory: &Path, what: &str) -> io::Error {
    io::Error::other(format!("cannot resume in {}: {what}; give an empty directory", directory.display()))
}

impl DirectoryProgress {
    /// Formats the contents of the progress file: [`SavedProgress`] with the line `NUMBER SIZE FORMAT` of the growing file
    /// after the first line.
    fn to_text(&self) -> String {
        let envelope = self.envelope.map(|envelope| format!(" {}", envelope.name())).unwrap_or_default();
        let Self { saved, number, size, .. } = self;
        format!("{}\n{number} {size}{envelope}\n{}", saved.token, saved.state_text())
    }

    fn parse(text: &str) -> Option<Self> {
        let (token, rest) = text.split_once('\n')?;
        let (numbers, rest) = rest.split_once('\n').unwrap_or((rest, ""));
        let (number, size) = numbers.split_once(' ')?;
        let (size, envelope) = match size.split_once(' ') {
            Some((size, name)) => (size, Some(Envelope::from_name(name)?)),
            None => (size, None),
        };
        let saved = SavedProgress::parse_parts(token, rest).ok()?;
        Some(Self { saved, number: number.parse().ok()?, size: size.parse().ok()?, envelope })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use super::{DirectorySink, LOCK_FILE, StreamCheckpoint};
    use crate::ddl_schema::DdlSchema;
    use crate::resume_token::ResumeToken;
    use crate::settings::Envelope;
    use crate::snapshot_progress::SnapshotProgress;
    use crate::stream_gtid_state::StreamGtidState;

    const FORM: Envelope = Envelope::Maxwell;

    fn token(position: u64) -> ResumeToken {
        format!("binlog.000001:{position}").parse().unwrap()
    }

    const fn at(token: &ResumeToken) -> StreamCheckpoint<'_> {
        const NONE: &SnapshotProgress = &SnapshotProgress { tables: Vec::new(), requests: Vec::new() };
        StreamCheckpoint { token, gtid_state: None, new_schema: None, snapshot: NONE }
    }

    fn names(directory: &Path) -> String {
        let mut names: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name() != LOCK_FILE)
            .map(|entry| {
                let text = fs::read_to_string(entry.path()).unwrap().replace('\n', "|");
                format!("{}={text}", entry.file_name().to_string_lossy())
            })
            .collect();
        names.sort();
        names.join(" ")
    }

    #[test]
    fn records_after_the_last_saved_transaction_are_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut files = DirectorySink::open(&path, 8, FORM).unwrap();
        assert_eq!(files.resume_token(), None);
        files.write_all(b"one\n").unwrap();
        files.save(at(&token(10)), 0).unwrap();
        files.write_all(b"torn").unwrap();
        drop(files);
        let gtid_state = StreamGtidState::new("here".to_owned());
        let mut files = DirectorySink::open(&path, 8, FORM).unwrap();
        let error = DirectorySink::open(&path, 8, FORM).unwrap_err().to_string();
        assert!(error.contains("in use by another process"), "{error}");
        assert_eq!((files.resume_token(), files.gtid_state()), (Some(&token(10)), None));
        files.write_all(b"two\n").unwrap();
        files.save(StreamCheckpoint { gtid_state: Some(&gtid_state), ..at(&token(20)) }, 0).unwrap();
        files.write_all(b"torn").unwrap();
        drop(files);
        assert_eq!(
            names(&path),
            "changes.000001.json=one|two| changes.000002.json.part=torn progress=binlog.000001:20|1 8 maxwell|server here|"
        );
        let mut files = DirectorySink::open(&path, 8, FORM).unwrap();
        assert_eq!((files.resume_token(), files.gtid_state()), (Some(&token(20)), Some(&gtid_state)));
        files.write_all(b"torn").unwrap();
        files.cut_tail(4).unwrap();
        files.write_all(b"3\n").unwrap();
        files.save(at(&token(30)), 0).unwrap();
        files.finish().unwrap();
        assert_eq!(
            names(&path),
            "changes.000001.json=one|two| changes.000002.json=3| progress=binlog.000001:30|2 2 maxwell|"
        );
        let error = DirectorySink::open(&path, 8, Envelope::Debezium).unwrap_err().to_string();
        assert!(error.contains("give --format=maxwell"), "{error}");
        let files = DirectorySink::open(&path, 8, FORM).unwrap();
        assert_eq!(files.resume_token(), Some(&token(30)));
        files.finish().unwrap();
        // The state after a crash between saving and renaming.
        fs::rename(path.join("changes.000002.json"), path.join("changes.000002.json.part")).unwrap();
        DirectorySink::open(&path, 8, FORM).unwrap().finish().unwrap();
        assert!(names(&path).contains("changes.000002.json=3|"));
    }

    #[test]
    fn outdated_definitions_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let save = |files: &mut DirectorySink, position, defined| {
            files.save(StreamCheckpoint { new_schema: defined, ..at(&token(position)) }, 0).unwrap();
            names(&path)
        };
        let mut files = DirectorySink::open(&path, 8, FORM).unwrap();
        let begun = save(&mut files, 10, Some(DdlSchema::default()));
        let expected =
            "changes.000001.json.part= progress.schema.1= progress=binlog.000001:10|1 0 maxwell|schema 1|";
        assert_eq!(begun, expected);
        drop(files);
        // Nothing was saved since then: the definitions still apply.
        let mut files = DirectorySink::open(&path, 8, FORM).unwrap();
        files.forget_schema();
        assert_eq!(names(&path), begun);
        let ended = save(&mut files, 20, None);
        assert_eq!(ended, "changes.000001.json.part= progress=binlog.000001:20|1 0 maxwell|");
    }

    /// A link could point to any file that the user may write to.
    #[test]
    fn symbolic_links_in_place_of_files_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        fs::write(&target, "text").unwrap();
        for name in [LOCK_FILE, "changes.000001.json.part", "progress.new"] {
            let out = directory.path().join(name).join("out");
            fs::create_dir_all(&out).unwrap();
            std::os::unix::fs::symlink(&target, out.join(name)).unwrap();
            let result = DirectorySink::open(&out, 8, FORM).and_then(|mut files| {
                files.write_all(b"one\n")?;
                files.save(at(&token(10)), 0)
            });
            assert!(result.is_err(), "{name}");
            assert_eq!(fs::read_to_string(&target).unwrap(), "text", "{name}");
        }
    }

    #[test]
    fn directories_of_other_programs_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let check = |expected: &str| {
            let error = DirectorySink::open(directory.path(), 8, FORM).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        fs::create_dir(directory.path().join("progress")).unwrap();
        check("/progress: ");
        fs::remove_dir(directory.path().join("progress")).unwrap();
        fs::write(directory.path().join("changes.000001.json"), "x").unwrap();
        check("no progress file");
        fs::write(directory.path().join("progress"), "x").unwrap();
        check("damaged");
        fs::write(directory.path().join("progress"), "binlog.000001:10\n2 5\n").unwrap();
        check("shorter");
    }
}

//! Records as bytes: to a pipe, or to the files of a directory.

use std::io::{self, Write as _};

use crate::ddl_schema::DdlSchema;
use crate::directory_sink::{DirectorySink, StreamCheckpoint};
use crate::pipe_sink::{PipeMark, PipeSink};
use crate::sink_progress::{SinkMark, SinkProgress};
use crate::snapshot_progress::SnapshotProgress;

/// Output of records as bytes.
#[derive(Debug)]
pub(crate) struct ByteOutput {
    target: ByteTarget,
    /// Bytes written so far.
    written: u64,
}

/// Target of records as bytes.
#[derive(Debug)]
pub(crate) enum ByteTarget {
    /// Pipe or standard output, with a reader.
    Pipe(Box<PipeSink>),
    /// Files that contain each transaction exactly once.
    Files(Box<DirectorySink>),
}

impl ByteOutput {
    pub(crate) const fn new(target: ByteTarget) -> Self {
        Self { target, written: 0 }
    }

    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Returns the saved progress of incremental snapshots; `None` if the target saves none.
    pub(crate) fn saved_snapshot(&self) -> Option<&SnapshotProgress> {
        match &self.target {
            ByteTarget::Pipe(pipe) => pipe.saved_snapshot(),
            ByteTarget::Files(files) => Some(files.snapshot().unwrap_or(SnapshotProgress::NONE)),
        }
    }

    /// Reads the saved table definitions; `None` if there are none.
    pub(crate) fn read_schema(&self) -> io::Result<Option<DdlSchema>> {
        match &self.target {
            ByteTarget::Pipe(pipe) => pipe.read_schema(),
            ByteTarget::Files(files) => files.read_schema(),
        }
    }

    /// Drops the saved definitions: what follows is read without them.
    pub(crate) fn forget_schema(&mut self) {
        match &mut self.target {
            ByteTarget::Pipe(pipe) => pipe.forget_schema(),
            ByteTarget::Files(files) => files.forget_schema(),
        }
    }

    /// Returns whether the next run resumes where this one stops.
    pub(crate) const fn saves_progress(&self) -> bool {
        match &self.target {
            ByteTarget::Pipe(pipe) => pipe.saves_progress(),
            ByteTarget::Files(_) => true,
        }
    }

    /// Returns whether the reader of the pipe has yet to read records before a mark.
    pub(crate) fn has_unread_marks(&self) -> bool {
        match &self.target {
            ByteTarget::Pipe(pipe) => pipe.has_unread_marks(),
            ByteTarget::Files(_) => false,
        }
    }

    /// Returns whether a file reaches its maximum size with the bytes of the buffer.
    pub(crate) fn is_save_due(&self, buffer: &[u8]) -> bool {
        match &self.target {
            ByteTarget::Pipe(_) => false,
            ByteTarget::Files(files) => files.size() + buffer.len() as u64 >= files.size_max(),
        }
    }

    /// Discards the bytes after the mark. Files are truncated; bytes in a pipe cannot be withdrawn.
    pub(crate) fn rewind(&mut self, buffer: &mut Vec<u8>, progress: &SinkProgress) -> io::Result<()> {
        let whole = progress.mark.as_ref().map_or(0, |mark| mark.size);
        if let Some(buffered) = whole.checked_sub(self.written) {
            buffer.truncate(buffered as usize);
            return Ok(());
        }
        buffer.clear();
        if let ByteTarget::Files(files) = &mut self.target {
            files.cut_tail(self.written - whole)?;
            self.written = whole;
        }
        Ok(())
    }

    /// Passes a new mark to the pipe if it is due.
    pub(crate) fn mark(&mut self, progress: &mut SinkProgress) {
        if let (ByteTarget::Pipe(pipe), Some(mark)) = (&mut self.target, &progress.mark)
            && pipe.is_mark_due(mark.size)
        {
            pass_mark(pipe, progress);
        }
    }

    /// Writes the buffer.
    pub(crate) fn drain(&mut self, buffer: &mut Vec<u8>, progress: &mut SinkProgress) -> io::Result<()> {
        let result = match &mut self.target {
            ByteTarget::Pipe(pipe) => pipe.write_all(buffer),
            ByteTarget::Files(files) => files.write_all(buffer),
        };
        self.written += buffer.len() as u64;
        buffer.clear();
        if result.is_err() {
            progress.discard_mark();
        }
        result
    }

    /// Writes the buffer, and saves progress: for files, the last complete transaction; for a pipe, the last one that the
    /// reader has read.
    pub(crate) fn save(&mut self, buffer: &mut Vec<u8>, progress: &mut SinkProgress) -> io::Result<()> {
        if let ByteTarget::Pipe(pipe) = &mut self.target {
            pass_mark(pipe, progress);
        }
        let drained = self.drain(buffer, progress);
        match &mut self.target {
            // Save what was read even if the pipe takes no more.
            ByteTarget::Pipe(pipe) => drained.and(pipe.save())?,
            ByteTarget::Files(files) => {
                drained?;
                if let (Some(mark), true) = (&progress.mark, progress.is_newer) {
                    let checkpoint = StreamCheckpoint {
                        token: &mark.token,
                        gtid_state: progress.gtid_state.as_ref(),
                        snapshot: &progress.snapshot,
                        new_schema: progress.new_schema.take(),
                    };
                    files.save(checkpoint, self.written - mark.size)?;
                }
            }
        }
        progress.is_newer = false;
        Ok(())
    }

    /// Finishes the last file.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.target {
            ByteTarget::Pipe(_) => Ok(()),
            ByteTarget::Files(files) => files.finish(),
        }
    }
}

/// Passes the mark to a pipe, which saves it once the reader has read all records before it.
fn pass_mark(pipe: &mut PipeSink, progress: &mut SinkProgress) {
    if let (Some(SinkMark { token, size }), true) = (&progress.mark, progress.is_newer) {
        let (token, size, gtid_state) = (token.clone(), *size, progress.gtid_state.clone());
        let (snapshot, new_schema) = (progress.snapshot.clone(), progress.new_schema.take());
        pipe.mark(PipeMark { token, size, gtid_state, new_schema, snapshot });
        progress.is_newer = false;
    }
}

//! Files that are written instead of standard output.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::dump_diagnostics::DumpDiagnostics;
use crate::errno::os_error;
use crate::options::DumpExit;

/// Mode of a result file: readable by owner and group.
const RESULT_MODE: u32 = 0o640;

/// Creates or truncates an output file, and reports an error.
pub(crate) fn create_or_report(name: &[u8], talk: &mut DumpDiagnostics<'_>) -> Result<File, DumpExit> {
    create_result(name).map_err(|error| {
        talk.file_message(&[b"Can't create/write to file '", name, b"' (", &os_error(&error), b")"]);
        talk.error(&[b"Could not create log file '", name, b"'"]);
        DumpExit::FAILURE
    })
}

/// Creates or truncates an output file.
pub(crate) fn create_result(name: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(RESULT_MODE);
    options.open(Path::new(OsStr::from_bytes(name)))
}

//! Comparisons of received logs with the server's own.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use binlog::MAGIC;
use logs::{LogReader, ReadOutcome, read_keyring};
use testkit::TestServer;

/// Checks that a directory has the logs of a server, and its index. Closed files must be equal; the last one, which
/// the server has open, differs in one flag of its header.
///
/// # Errors
///
/// Fails if there is a difference, with the first one.
pub fn same_logs(server: &TestServer, directory: &Path) -> Result<()> {
    same_logs_read(server, directory, |log| Ok(fs::read(log)?))
}

/// Checks the same for a directory whose logs are all encrypted with keys of this keyring.
///
/// # Errors
///
/// Fails if [`same_logs`] fails, or if a log is not encrypted.
pub fn same_logs_encrypted(server: &TestServer, directory: &Path, keyring: &Path) -> Result<()> {
    let keyring = Arc::new(read_keyring(keyring)?);
    same_logs_read(server, directory, |log| {
        let mut reader = LogReader::open(log)?.with_keyring(Arc::clone(&keyring));
        let mut bytes = MAGIC.to_vec();
        while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20)? {
            bytes.extend_from_slice(chunk.bytes());
        }
        ensure!(reader.is_encrypted(), "{} is not encrypted", log.display());
        Ok(bytes)
    })
}

/// Writes a keyring file with one key for logs, in the format of component_keyring_file.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write_keyring(path: &Path) -> Result<()> {
    let id = "MySQLReplicationKey_5ea5ca5e-0009-4000-8000-000000000009_1";
    let data = "0123456789ABCDEF".repeat(4);
    let key = format!(r#"{{"user":"","data_id":"{id}","data_type":"AES","data":"{data}","extension":[]}}"#);
    Ok(fs::write(path, format!(r#"{{"version":"1.0","elements":[{key}]}}"#))?)
}

fn same_logs_read(
    server: &TestServer,
    directory: &Path,
    read: impl Fn(&Path) -> Result<Vec<u8>>,
) -> Result<()> {
    let logs = server.binlogs()?;
    for (number, log) in logs.iter().enumerate() {
        let name = log.file_name().context("a log without a name")?;
        let mut expected = fs::read(log)?;
        if number + 1 == logs.len() {
            expected[21] &= !1;
        }
        let found = read(&directory.join(name))?;
        let first = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        let (name, sizes) = (name.display(), (found.len(), expected.len()));
        ensure!(found == expected, "{name} differs: sizes {sizes:?}, first difference at {first:?}");
    }
    let index = fs::read_to_string(directory.join("binlog.index"))?;
    ensure!(index == fs::read_to_string(server.datadir().join("binlog.index"))?, "{index}");
    Ok(())
}

//! A server's logs as they were received, beside the server's own.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use binlog::MAGIC;
use logs::{LogReader, ReadOutcome, read_keyring};
use testkit::TestServer;

/// A folder has the logs of a server, and its index: the closed files are the same; of the last one, which the server
/// has open, one flag in its head differs.
///
/// # Errors
///
/// With where they differ.
pub fn same_logs(server: &TestServer, folder: &Path) -> Result<()> {
    same_logs_read(server, folder, |log| Ok(fs::read(log)?))
}

/// The same of a folder whose logs are encrypted, all of them, with keys of this keyring.
///
/// # Errors
///
/// As [`same_logs`]; also when a log is in the open.
pub fn same_logs_encrypted(server: &TestServer, folder: &Path, keyring: &Path) -> Result<()> {
    let keyring = Arc::new(read_keyring(keyring)?);
    same_logs_read(server, folder, |log| {
        let mut reader = LogReader::open(log)?.with_keyring(Arc::clone(&keyring));
        let mut bytes = MAGIC.to_vec();
        while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20)? {
            bytes.extend_from_slice(chunk.bytes());
        }
        ensure!(reader.is_encrypted(), "{} is not encrypted", log.display());
        Ok(bytes)
    })
}

/// A keyring file with one key for logs, as component_keyring_file has it.
///
/// # Errors
///
/// When it cannot be written.
pub fn write_keyring(path: &Path) -> Result<()> {
    let id = "MySQLReplicationKey_5ea5ca5e-0009-4000-8000-000000000009_1";
    let data = "0123456789ABCDEF".repeat(4);
    let key = format!(r#"{{"user":"","data_id":"{id}","data_type":"AES","data":"{data}","extension":[]}}"#);
    Ok(fs::write(path, format!(r#"{{"version":"1.0","elements":[{key}]}}"#))?)
}

fn same_logs_read(server: &TestServer, folder: &Path, read: impl Fn(&Path) -> Result<Vec<u8>>) -> Result<()> {
    let logs = server.binlogs()?;
    for (number, log) in logs.iter().enumerate() {
        let name = log.file_name().context("a log has a name")?;
        let mut wanted = fs::read(log)?;
        if number + 1 == logs.len() {
            wanted[21] &= !1;
        }
        let found = read(&folder.join(name))?;
        let first = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
        let (name, sizes) = (name.display(), (found.len(), wanted.len()));
        ensure!(found == wanted, "{name} is another one: of {sizes:?} bytes, from {first:?} on");
    }
    let index = fs::read_to_string(folder.join("binlog.index"))?;
    ensure!(index == fs::read_to_string(server.datadir().join("binlog.index"))?, "{index}");
    Ok(())
}

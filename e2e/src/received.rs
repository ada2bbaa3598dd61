//! A server's logs as they were received, beside the server's own.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use testkit::Server;

/// A folder has the logs of a server, and its index: the closed files are the same; of the last one, which the server
/// has open, one flag in its head differs.
///
/// # Errors
///
/// With where they differ.
pub fn same_logs(server: &Server, folder: &Path) -> Result<()> {
    let logs = server.binlogs()?;
    for (number, log) in logs.iter().enumerate() {
        let name = log.file_name().context("a log has a name")?;
        let mut wanted = fs::read(log)?;
        if number + 1 == logs.len() {
            wanted[21] &= !1;
        }
        let found = fs::read(folder.join(name))?;
        let first = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
        let (name, sizes) = (name.display(), (found.len(), wanted.len()));
        ensure!(found == wanted, "{name} is another one: of {sizes:?} bytes, from {first:?} on");
    }
    let index = fs::read_to_string(folder.join("binlog.index"))?;
    ensure!(index == fs::read_to_string(server.datadir().join("binlog.index"))?, "{index}");
    Ok(())
}

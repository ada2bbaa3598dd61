//! Dumps of a log that is processed in many chunks in parallel, compared with mysqlbinlog.

use anyhow::Result;
use e2e::compare::Run;
use e2e::logs::Logs;
use e2e::{identity, large};
use tempfile::TempDir;

#[test]
fn large_logs_with_usual_options() -> Result<()> {
    let directory = TempDir::new()?;
    large::record(&[], "plain", directory.path())?;
    large::record(&["--binlog-transaction-compression=ON"], "compressed", directory.path())?;
    let logs = Logs::read(directory.path())?;
    let usual: [&[&str]; 6] = [
        &[],
        &["-vv"],
        &["-v", "--base64-output=decode-rows", "--start-position=1000000"],
        &["--skip-gtids", "--database=large", "--rewrite-db=large->small"],
        &["-vv", "--hexdump", "--stop-position=9000000"],
        &["--start-datetime=2020-09-13 12:40:00", "--offset=20"],
    ];
    let runs = logs.sets.iter().flat_map(|set| {
        usual.map(|options| {
            Run::new(options.iter().map(|option| (*option).to_owned()).chain(set.files.iter().cloned()))
        })
    });
    identity::check_all("large", &logs, &runs.collect::<Vec<_>>())
}

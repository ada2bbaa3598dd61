//! Whole logs through the text of `dump`: no panic, and every failure has a message.

use std::ffi::OsString;

use binlog::MAGIC;
use mysqlbinlog::list_provider::NoLists;
use mysqlbinlog::remote::NoServerAccess;
use mysqlbinlog::{DumpDialect, StandardStreams, run};

pub(super) use super::lists::seeds;

/// Checks `bytes`, a log without its magic. There is no directory for files of LOAD DATA, so none is written.
pub(super) fn check(bytes: &[u8]) {
    let log = [&MAGIC, bytes].concat();
    for options in [["-vv", "--force-read"], ["--hexdump", "--print-table-metadata"]] {
        let fixed = ["dump", "--no-defaults", "--jobs=1", "--local-load=/nowhere/at/all"];
        let args = fixed.into_iter().chain(options).chain(["-"]).map(OsString::from);
        let (mut input, mut output, mut error) = (log.as_slice(), Vec::new(), Vec::new());
        let streams = StandardStreams {
            input: &mut input,
            output: &mut output,
            error: &mut error,
            servers: &mut NoServerAccess,
            lists: &mut NoLists,
        };
        let code = run(DumpDialect::Bintide, args, streams);
        assert!(code == 0 || !error.is_empty(), "a failure without a message");
    }
}

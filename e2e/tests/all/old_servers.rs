//! Logs of server versions that are not run here: a sample whose GTID events are reduced to the fields of each
//! version. `matrix.rs` tests logs of real old servers.

use std::fs;

use anyhow::{Context, Result};
use binlog::{Event, EventChecksum, Framer, FramerOutput, MAGIC, NextPosition, RawEvent};
use e2e::compare::{LOGS, Run};
use e2e::identity;
use e2e::logs::Logs;
use tempfile::TempDir;

/// Fields of a version's GTID events.
#[derive(Clone, Copy, Debug, PartialEq)]
enum GtidFields {
    /// 5.6: the identifier, without the logical clock of 5.7.
    Identifier,
    /// 8.0.1: also the commit timestamps, without the transaction's length.
    Times,
}

const VERSIONS: [(&str, GtidFields); 2] =
    [("5.6.51-log", GtidFields::Identifier), ("8.0.1-dmr", GtidFields::Times)];

#[test]
fn fields_missing_in_old_logs_are_printed_as_by_mysqlbinlog() -> Result<()> {
    let directory = TempDir::new()?;
    let mut runs = Vec::new();
    for (number, (version, gtid_fields)) in VERSIONS.iter().enumerate() {
        for sample in ["savepoints", "anonymous", "statements"] {
            let samples = Logs::samples()?.directory;
            let bytes = fs::read(samples.join(format!("{sample}.binlog")))?;
            let name = format!("{sample}-{number}.binlog");
            fs::write(directory.path().join(&name), older(&bytes, version, *gtid_fields)?)?;
            for options in
                [&[][..], &["-vv", "--base64-output=decode-rows"], &["--hexdump"], &["--short-form"]]
            {
                let log = format!("{LOGS}/{name}");
                runs.push(Run::new(options.iter().map(|option| (*option).to_owned()).chain([log])));
            }
        }
    }
    identity::check_all("old servers", &Logs::read(directory.path())?, &runs)
}

/// Returns the same log as a server of this version would have written it.
fn older(log: &[u8], version: &str, gtid_fields: GtidFields) -> Result<Vec<u8>> {
    let (mut framer, mut rest, mut out) = (Framer::new(), &log[MAGIC.len()..], MAGIC.to_vec());
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        rest = &rest[raw.bytes().len()..];
        let format = framer.format().context("no format description")?.clone();
        let next = NextPosition::FromStart(out.len() as u64);
        let mut event = raw.decode(&format)?;
        let mut server_version = [0; 50];
        server_version[..version.len()].copy_from_slice(version.as_bytes());
        match &mut event {
            Event::FormatDescription(description) => description.server_version = &server_version,
            Event::Gtid(gtid) | Event::AnonymousGtid(gtid) => {
                if gtid_fields == GtidFields::Identifier {
                    gtid.clock = None;
                }
                match (&mut gtid.stamps, gtid_fields) {
                    (stamps, GtidFields::Identifier) => *stamps = None,
                    (Some(stamps), GtidFields::Times) => {
                        (stamps.immediate_server_version, stamps.original_server_version) = (None, None);
                        stamps.transaction_size = None;
                    }
                    (None, _) => {}
                }
            }
            _ => {
                move_to(&raw, next, &mut out)?;
                continue;
            }
        }
        event.write(raw.header().origin(), next, &format, &mut out)?;
    }
    Ok(out)
}

fn move_to(raw: &RawEvent<'_>, next: NextPosition, out: &mut Vec<u8>) -> Result<()> {
    let checksum: EventChecksum = raw.checksum();
    Ok(raw.rewrite(raw.header().origin(), next, checksum, out)?)
}

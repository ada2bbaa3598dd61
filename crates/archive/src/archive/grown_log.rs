//! Logs that have grown since they were archived: copies of a log that its server was still writing.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use binlog::encryption::ENCRYPTED_HEADER_SIZE;
use binlog::{EventFlags, MAGIC, MAGIC_ENCRYPTED};
use sha2::{Digest, Sha256};

use crate::archive_error::ArchiveError;
use crate::manifest::Manifest;
use crate::segment::{hex, read_failed};

/// Offset of the flags in an event's header.
const FLAGS_AT: usize = 17;

/// Size of the pieces in which a log is read.
const PIECE_SIZE: usize = 1 << 20;

/// Returns whether the archived log is the beginning of this longer log.
pub(super) fn is_beginning(archived: &Manifest, log: &Path) -> Result<bool, ArchiveError> {
    let mut file = File::open(log).map_err(read_failed)?;
    if file.metadata().map_err(read_failed)?.len() <= archived.size {
        return Ok(false);
    }
    let digests = beginning_digests(&mut file, archived.size).map_err(read_failed)?;
    Ok(digests.contains(&archived.sha256))
}

/// Returns the digests of the first `size` bytes: as they are, and with the other value of the in-use flag.
fn beginning_digests(log: &mut impl Read, size: u64) -> io::Result<[String; 2]> {
    let (mut same, mut flipped) = (Sha256::new(), Sha256::new());
    let (mut left, mut is_first) = (log.take(size), true);
    loop {
        let mut piece = Vec::with_capacity(PIECE_SIZE);
        if left.by_ref().take(PIECE_SIZE as u64).read_to_end(&mut piece)? == 0 {
            return Ok([hex(same), hex(flipped)]);
        }
        same.update(&piece);
        if std::mem::take(&mut is_first) {
            flip_in_use(&mut piece);
        }
        flipped.update(&piece);
    }
}

/// Changes the in-use flag, which the server clears in the first event when it closes the log. The event's checksum
/// does not cover the flag. In an encrypted log, too: MySQL's cipher combines each byte with a key byte by XOR.
fn flip_in_use(log: &mut [u8]) {
    let header = if log.starts_with(&MAGIC_ENCRYPTED) { ENCRYPTED_HEADER_SIZE } else { 0 };
    if let Some(flags) = log.get_mut(header + MAGIC.len() + FLAGS_AT) {
        *flags ^= EventFlags::IN_USE.0 as u8;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;
    use sha2::{Digest, Sha256};

    use super::{flip_in_use, is_beginning};
    use crate::manifest::Manifest;
    use crate::segment::hex;

    fn archived(log: &[u8]) -> Manifest {
        let document = json!({
            "format": 1, "log": "b.000001", "size": log.len(), "sha256": hex(Sha256::new_with_prefix(log)),
            "front_sha256": "", "segment": "segments/b.0", "segment_size": 1, "segment_sha256": "", "gtids": "",
            "times": null, "archived_at": 1, "bintide": "", "libzstd": 0,
            "statistics": { "events": 1, "transactions": 1, "rows": 1, "payloads_decompressed": 0, "payloads_kept": 0 },
        });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn logs_may_grow_and_be_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("b.000001");
        for magic in [b"\xfebin", b"\xfdbin"] {
            let log = [magic.as_slice(), &[7; 2000]].concat();
            let check = |log: &[u8], now: &[u8], expected| {
                fs::write(&path, now).unwrap();
                assert_eq!(is_beginning(&archived(log), &path).unwrap(), expected);
            };
            let grown = [log.as_slice(), b"more"].concat();
            let mut closed = grown.clone();
            flip_in_use(&mut closed);
            assert_ne!(closed, grown);
            check(&log, &grown, true);
            check(&log, &closed, true);
            check(&log, &log, false);
            check(&grown, &log, false);
            closed[30] ^= 1;
            check(&log, &closed, false);
        }
    }
}

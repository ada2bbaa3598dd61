//! Every sample log, whole and truncated.

use std::fs;
use std::path::{Path, PathBuf};

use binlog::{Event, PayloadOpener};
use logs::{EndOfLog, LogPiece, LogReader, ReadOutcome};
use tempfile::TempDir;

/// Returns the paths of the unencrypted logs in the samples' directory and below.
pub(crate) fn samples() -> Vec<PathBuf> {
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples")];
    let mut samples = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if fs::read(&path).unwrap().starts_with(b"\xfebin") {
                samples.push(path);
            }
        }
    }
    assert!(samples.len() > 60, "only {} samples", samples.len());
    samples.sort();
    samples
}

/// Reads a whole log in pieces. Returns its bytes, the events of its payloads, and its end.
fn read(path: &Path, size: usize, large: usize) -> (Vec<u8>, Vec<u8>, EndOfLog) {
    let mut reader = LogReader::open(path).unwrap();
    let (mut opener, mut bytes, mut inner) = (PayloadOpener::new(), Vec::new(), Vec::new());
    loop {
        match reader.next_piece(size, large).unwrap() {
            ReadOutcome::End(end) => return (bytes, inner, end),
            ReadOutcome::Some(LogPiece::LargePayload(payload)) => {
                let (start, end) = (payload.head().offset as usize, payload.head().end() as usize);
                bytes.extend_from_slice(&fs::read(path).unwrap()[start..end]);
                let mut events = payload.open(&mut opener).unwrap();
                while events.next_chunk(size, &mut inner).unwrap() > 0 {}
                let end = events.finish().unwrap();
                assert_eq!((end.trailing, end.checksum), (0, Ok(())), "{}", path.display());
                assert!(end.summary.is_claim_true());
            }
            ReadOutcome::Some(LogPiece::Chunk(chunk)) => {
                bytes.extend_from_slice(chunk.bytes());
                for event in chunk.iter() {
                    event.raw.verify().unwrap();
                    if let Ok(Event::TransactionPayload(payload)) = event.raw.decode(chunk.format()) {
                        let mut events = opener.open(&payload).unwrap();
                        while events.next_chunk(size, &mut inner).unwrap() > 0 {}
                        assert!(events.summary().is_claim_true());
                    }
                }
            }
        }
    }
}

#[test]
fn all_piece_sizes_give_the_same_bytes() {
    for path in samples() {
        let (bytes, inner, end) = read(&path, 1 << 20, usize::MAX);
        let whole = fs::read(&path).unwrap();
        assert!(whole[4..].starts_with(&bytes));
        match end {
            EndOfLog::Torn(torn) => assert_eq!(torn.offset as usize + torn.found, whole.len()),
            _ => assert_eq!(bytes.len() + 4, whole.len(), "{}", path.display()),
        }
        for (size, large) in [(1, 0), (777, 100), (70_000, 0), (70_000, 2000)] {
            let (bytes_again, inner_again, end_again) = read(&path, size, large);
            assert!(bytes_again == bytes && inner_again == inner && end_again == end, "{}", path.display());
        }
    }
}

/// A log that is truncated anywhere returns all of its whole events, and reports the incomplete one.
#[test]
fn truncated_logs_return_their_whole_events() {
    let directory = TempDir::new().unwrap();
    let truncated_path = directory.path().join("cut");
    for path in samples() {
        let whole = fs::read(&path).unwrap();
        // Many positions in every sample. The odd step varies them between samples.
        let step = (whole.len() / 40).max(1) | 1;
        for size in (4..whole.len()).step_by(step) {
            fs::write(&truncated_path, &whole[..size]).unwrap();
            let (bytes, _, end) = read(&truncated_path, 5000, 3000);
            assert!(whole[4..].starts_with(&bytes));
            let torn = match end {
                EndOfLog::Torn(torn) => {
                    assert_eq!(torn.offset as usize, bytes.len() + 4);
                    torn.found
                }
                _ => 0,
            };
            assert_eq!(bytes.len() + 4 + torn, size, "{} cut at {size}", path.display());
        }
    }
}

//! Logs come back byte for byte, also damaged ones.

use std::fs;
use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use archive::{ArchiveError, SegmentError, SegmentSummary, read_segment, write_segment};
use binlog::encryption::Keyring;
use proptest::prelude::{any, prop_assert_eq, proptest};
use proptest::sample::Index;

fn samples() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let mut logs = Vec::new();
    for entry in fs::read_dir(root).expect("the samples exist").flatten() {
        match entry.path() {
            path if path.is_dir() => logs
                .extend(fs::read_dir(path).expect("a directory of samples").flatten().map(|log| log.path())),
            path => logs.push(path),
        }
    }
    logs.retain(|path| {
        let bytes = fs::read(path).expect("a sample can be read");
        bytes.starts_with(b"\xfebin") || bytes.starts_with(b"\xfdbin")
    });
    logs.sort();
    logs
}

fn write(log: &[u8]) -> (Vec<u8>, SegmentSummary) {
    let mut segment = Vec::new();
    let summary = write_segment(Cursor::new(log), None, |bytes| {
        segment.extend_from_slice(bytes);
        Ok(())
    });
    (segment, summary.expect("memory takes every segment"))
}

fn read(segment: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let mut log = Vec::new();
    read_segment(Cursor::new(segment), |bytes| {
        log.extend_from_slice(bytes);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(log)
}

#[test]
fn every_sample_comes_back() {
    let samples = samples();
    assert!(samples.len() > 80, "{} samples", samples.len());
    for path in samples {
        let log = fs::read(&path).unwrap();
        let (segment, summary) = write(&log);
        assert!(read(&segment).unwrap() == log, "{}", path.display());
        assert_eq!(summary.file_size, log.len() as u64);
        let is_encrypted = log.starts_with(b"\xfdbin");
        let is_torn = path.ends_with("torn.binlog");
        assert_eq!(summary.content.kept.is_empty(), !is_encrypted && !is_torn, "{}", path.display());
        assert!(summary.content.whole_events.is_empty(), "{}: {:?}", path.display(), summary.content);
    }
}

#[test]
fn payloads_of_servers_are_decompressed() {
    for (name, opened, kept) in
        [("types-compressed", 43, 0), ("json-partial-compressed", 20, 0), ("large-level-22", 0, 5)]
    {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
        let log = fs::read(root.join(name).with_extension("binlog")).unwrap();
        let content = write(&log).1.content;
        assert_eq!((content.payloads_opened, content.payloads_kept), (opened, kept), "{name}");
    }
}

#[test]
fn an_event_with_a_wrong_checksum_is_kept_whole_and_counted() {
    let mut log =
        fs::read(samples().into_iter().find(|path| path.ends_with("types.binlog")).unwrap()).unwrap();
    let last = log.len() - 1;
    log[last] ^= 1;
    let (segment, summary) = write(&log);
    assert!(read(&segment).unwrap() == log);
    assert_eq!(summary.content.whole_events.get("wrong checksum"), Some(&1));
}

#[test]
fn other_files_come_back_too() {
    for file in [&b""[..], b"\xfe", b"\xfebin", b"\xfebin\0\0\0", b"no log at all", &[0; 100_000]] {
        let (segment, _) = write(file);
        assert_eq!(read(&segment).unwrap(), file);
    }
}

#[test]
fn truncated_segments_are_errors() {
    let log =
        fs::read(samples().into_iter().find(|path| path.ends_with("gtids/binlog.000001")).unwrap()).unwrap();
    let (segment, _) = write(&log);
    for size in 0..segment.len() {
        let error = read(&segment[..size]).unwrap_err();
        let is_clear = matches!(
            error,
            ArchiveError::Segment(SegmentError::Truncated { .. } | SegmentError::NotASegment)
        );
        assert!(is_clear, "{size}: {error}");
    }
    let more = [&segment[..], &[0]].concat();
    assert!(matches!(read(&more), Err(ArchiveError::Segment(SegmentError::Damaged { .. }))));
}

/// Log that cannot be read.
struct DamagedDisk;

impl Read for DamagedDisk {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is damaged"))
    }
}

#[test]
fn logs_that_cannot_be_read_are_errors() {
    let error = write_segment(DamagedDisk, None, |_| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "could not read: the disk is damaged");
    // The magic number of an encrypted log, and zeros.
    let mut log = [0; 600];
    log[..4].copy_from_slice(b"\xfdbin");
    let error = write_segment(Cursor::new(log), Some(&Keyring::default()), |_| Ok(())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the header of the encrypted log is invalid: byte 4: an encrypted log whose version is not 1 cannot be read"
    );
}

#[test]
fn segments_have_a_head_and_blocks_in_order() {
    let log =
        fs::read(samples().into_iter().find(|path| path.ends_with("gtids/binlog.000001")).unwrap()).unwrap();
    let (segment, _) = write(&log);
    let check = |segment: &[u8], expected: &str| {
        assert_eq!(read(segment).unwrap_err().to_string(), expected);
    };
    check(b"\xfebin", "this is not a segment of an archive");
    let mut flagged = segment.clone();
    flagged[9] = 7;
    check(&flagged, "the segment is damaged in the block at byte 9: its head has an unknown flag");
    // The first block, and again the first block.
    let size = u32::from_le_bytes(*segment[10..].first_chunk().unwrap()) as usize;
    let block = &segment[10..10 + 8 + size];
    let twice = [&segment[..10], block, block, &segment[10 + 8 + size..]].concat();
    let second = 10 + block.len();
    assert_eq!(
        read(&twice).unwrap_err().to_string().replace(&second.to_string(), "SECOND"),
        "the segment is damaged in the block at byte SECOND: it does not follow the block before"
    );
}

#[test]
fn every_damaged_byte_of_a_segment_is_an_error() {
    let log =
        fs::read(samples().into_iter().find(|path| path.ends_with("gtids/binlog.000002")).unwrap()).unwrap();
    let (segment, _) = write(&log);
    for index in 0..segment.len() {
        let mut damaged = segment.clone();
        damaged[index] ^= 0x10;
        assert!(read(&damaged).is_err(), "byte {index}");
    }
}

proptest! {
    #[test]
    fn damaged_logs_come_back(
        sample in any::<Index>(), changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..8), removed in any::<Index>(),
    ) {
        let samples = samples();
        let mut log = fs::read(&samples[sample.index(samples.len())]).unwrap();
        for (offset, byte) in changes {
            let offset = offset.index(log.len());
            log[offset] = byte;
        }
        log.truncate(log.len() - removed.index(log.len()) / 4);
        let (segment, _) = write(&log);
        prop_assert_eq!(read(&segment).unwrap(), log);
    }
}

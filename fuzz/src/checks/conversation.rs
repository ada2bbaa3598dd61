//! Any answers and events of a source: the replica continues, or returns an error.

use std::time::Duration;

use binlog::Flavour;
use wire::{
    Capabilities, ClientSession, PositionGaps, ReplicaConversation, ReplicaOptions, ReplicaStart,
    ReplicaStep, SemiSync, SourceEvent, StreamReader,
};

use crate::seeds::{Sample, raw_events};

/// Approximate maximum size of a seed, in bytes.
const SEED_SIZE_MAX: usize = 4096;

/// A row of one value, between its column and the end, with results that end in an OK packet.
const COLUMN: &[u8] = b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\xfd\0\0\0\0\0";
const END: &[u8] = b"\xfe\0\0\x02\0\0\0";
const OK: &[u8] = b"\0\0\0\x02\0\0\0";

pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    let answers: [Option<&[u8]>; 7] = [
        Some(b"\x0a1790000000"),
        Some(b"\x011"),
        None,
        Some(b"\x04NONE"),
        Some(b"\x02ON"),
        Some(b"\x24896e7882-18fe-11ef-ab88-22222d34d411"),
        None,
    ];
    let mut seed = vec![0];
    for answer in answers {
        match answer {
            Some(row) => [b"\x01", COLUMN, row, END].iter().for_each(|part| put_packet(&mut seed, part)),
            None => put_packet(&mut seed, OK),
        }
    }
    put_packet(&mut seed, b"\0\0\0\0\0\x04\x01\0\0\0\x1c\0\0\0\0\0\0\0\x20\0\x04\0\0\0\0\0\0\0b");
    for raw in raw_events(sample) {
        if seed.len() + raw.bytes().len() > SEED_SIZE_MAX {
            break;
        }
        put_packet(&mut seed, &[&[0], raw.bytes()].concat());
    }
    vec![seed]
}

/// Checks `bytes`: a replica's options in one byte, and packets of the source.
pub(super) fn check(bytes: &[u8]) {
    events(bytes);
}

/// Returns the number of events of files before the end or an error.
fn events(bytes: &[u8]) -> usize {
    let Some((wishes, rest)) = bytes.split_first() else { return 0 };
    let has = |bit: u8| wishes & bit != 0;
    let (flavour, gtids) = match has(1) {
        true => (Flavour::MariaDb, ReplicaStart::MariadbGtids { state: "0-1-2".into() }),
        false => (Flavour::MySql, ReplicaStart::Gtids { set: vec![0; 8] }),
    };
    let start = match has(2) {
        true => gtids,
        false => ReplicaStart::Position { file: b"b".to_vec(), position: 4 },
    };
    let gaps = if has(2) { PositionGaps::Skipped } else { PositionGaps::None };
    let semi_sync = if has(4) { SemiSync::On } else { SemiSync::Off };
    let (mut conversation, _) = ReplicaConversation::begin(options(start, semi_sync), session(flavour))
        .expect("the options are consistent");
    let mut reader: Option<StreamReader> = None;
    let mut count = 0;
    for payload in packets(rest) {
        match conversation.read(payload) {
            Ok(ReplicaStep::Event(packet)) => {
                let reader =
                    reader.get_or_insert_with(|| StreamReader::new(conversation.source().checksum, gaps));
                let before = reader.position();
                match reader.read(packet.event) {
                    Ok(SourceEvent::Event { event, position }) => {
                        assert!(position >= before, "position {position} after {before}");
                        assert_eq!(reader.position(), position + event.bytes().len() as u64);
                        count += 1;
                    }
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
            Ok(ReplicaStep::Send(_) | ReplicaStep::Wait) => {}
            Ok(ReplicaStep::End) | Err(_) => break,
        }
    }
    count
}

fn options(start: ReplicaStart, semi_sync: SemiSync) -> ReplicaOptions {
    ReplicaOptions {
        server_id: 2,
        uuid: String::new(),
        report_host: String::new(),
        report_port: 0,
        heartbeat: Duration::ZERO,
        semi_sync,
        start,
        end: wire::ReplicaEnd::Never,
    }
}

fn session(flavour: Flavour) -> ClientSession {
    ClientSession {
        capabilities: Capabilities::PROTOCOL_41 | Capabilities::DEPRECATE_EOF,
        server_version: String::new(),
        flavour,
        connection_id: 1,
        compression: None,
        plugin: "",
        is_encrypted: false,
    }
}

/// Appends a payload after its size, in two bytes.
pub(super) fn put_packet(out: &mut Vec<u8>, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    out.extend_from_slice(payload);
}

/// Returns the payloads that [`put_packet`] has written; the last one ends at the end of the bytes.
pub(super) fn packets(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (size, after) = rest.split_first_chunk()?;
        let size = usize::from(u16::from_le_bytes(*size)).min(after.len());
        let (payload, after) = after.split_at(size);
        rest = after;
        Some(payload)
    })
}

#[cfg(test)]
mod tests {
    use super::{events, seeds};
    use crate::seeds::samples;

    /// A seed that ended at the first query would test nothing else.
    #[test]
    fn seeds_reach_the_log() {
        let samples = samples().unwrap();
        let reached = samples.iter().flat_map(seeds).filter(|seed| events(seed) > 2).count();
        assert!(reached > samples.len() / 2, "{reached} of {}", samples.len());
    }
}

//! Packets: the same ones for all sizes of reads, plain or compressed.

use wire::{PACKET_LIMIT_MIN, PacketCodec, PacketCompression};

use crate::seeds::{Sample, raw_events};

/// Compression of the connection; the first byte selects one.
const COMPRESSIONS: [Option<PacketCompression>; 3] =
    [None, Some(PacketCompression::Zlib { level: 6 }), Some(PacketCompression::Zstd { level: 3 })];

pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, compression) in COMPRESSIONS.into_iter().enumerate() {
        let mut packets = new(compression);
        for raw in raw_events(sample).take(6).filter(|raw| raw.bytes().len() < 400) {
            packets.send(raw.bytes());
        }
        let mut seed = vec![number as u8];
        seed.extend_from_slice(packets.output());
        seeds.push(seed);
    }
    seeds
}

/// Checks `bytes`: a compression, and the bytes from the other side.
pub(super) fn check(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let compression = COMPRESSIONS[usize::from(*first) % COMPRESSIONS.len()];
    let whole = take(compression, bytes, usize::MAX);
    for piece in [1, 7, 1000] {
        assert_eq!(take(compression, bytes, piece), whole, "in pieces of {piece} bytes");
    }
}

fn new(compression: Option<PacketCompression>) -> PacketCodec {
    let mut packets = PacketCodec::new(PACKET_LIMIT_MIN);
    if let Some(compression) = compression {
        packets.start_compression(compression);
    }
    packets
}

/// Returns the packets, and the final error if there is one.
fn take(
    compression: Option<PacketCompression>,
    bytes: &[u8],
    piece: usize,
) -> (Vec<Vec<u8>>, Option<String>) {
    let mut packets = new(compression);
    let mut taken = Vec::new();
    for piece in bytes.chunks(piece.min(bytes.len().max(1))) {
        packets.receive(piece);
        loop {
            match packets.next() {
                Ok(Some(payload)) => taken.push(payload.to_vec()),
                Ok(None) => break,
                Err(error) => return (taken, Some(error.to_string())),
            }
        }
    }
    (taken, None)
}

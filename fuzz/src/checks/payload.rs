//! Transaction payloads: decompressed at once or in pieces, by event or in chunks, they give the same events.

use binlog::events::{PayloadCompression, TransactionPayload};
use binlog::{DecodeReason, Event, PayloadError, PayloadLimits, PayloadOpener, SizeClaimPolicy};

use crate::seeds::{Sample, format_of, raw_events};

/// Limits of memory: a few bytes can decompress to many megabytes.
const LIMITS: PayloadLimits = PayloadLimits {
    event_size_max: 1 << 20,
    total_size_max: 1 << 22,
    claim_policy: SizeClaimPolicy::Ignored,
};

/// Maximum size of a seed, in bytes.
const SEED_SIZE_MAX: usize = 4096;

pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    let format = format_of("9.7.4", 8);
    let mut seeds = Vec::new();
    for raw in raw_events(sample) {
        if let Ok(Event::TransactionPayload(payload)) = raw.decode(&format) {
            seeds.push([&[0, 7], payload.payload].concat());
            let mut opener = PayloadOpener::with_limits(LIMITS);
            let plain = match opener.open(&payload) {
                Ok(mut events) => {
                    let mut plain = vec![1, 100];
                    // One chunk is enough.
                    let _ = events.next_chunk(SEED_SIZE_MAX, &mut plain);
                    plain
                }
                Err(_) => continue,
            };
            seeds.push(plain);
        }
    }
    seeds.retain(|seed| seed.len() <= SEED_SIZE_MAX);
    seeds
}

/// Decompressed bytes, and the error with its offset in them. Offsets in the compressed payload are not compared,
/// because pieces end at other offsets.
type DecompressedPayload = (Vec<u8>, Option<(u64, binlog::DecodeError)>);

/// Checks a compression in the first byte, the size of pieces and chunks in the second, and a payload in the rest.
pub(super) fn check(bytes: &[u8]) {
    let [compression, size, payload @ ..] = bytes else { return };
    let compression = match compression % 2 {
        0 => PayloadCompression::Zstd,
        _ => PayloadCompression::None,
    };
    let size = usize::from(*size) * 16 + 1;
    let payload =
        TransactionPayload { compression, uncompressed_size: None, fields: &[], payload, rest: &[] };
    let mut opener = PayloadOpener::with_limits(LIMITS);
    let expected = by_event(&mut opener, &payload);
    assert!(expected.0.len() as u64 <= LIMITS.total_size_max);
    assert_eq!(by_chunk(&mut opener, &payload, size), expected);
    assert_eq!(by_piece(&mut opener, &payload, size), expected);
}

/// Returns the parts of an error that are compared. The offset in the frame is left out: it depends on the size of
/// zstd's input.
fn fault(error: PayloadError) -> (u64, binlog::DecodeError) {
    let PayloadError { inner_offset, mut error, .. } = error;
    if matches!(error.reason, DecodeReason::Zstd { .. }) {
        error.offset = 0;
    }
    (inner_offset, error)
}

fn by_event(opener: &mut PayloadOpener, payload: &TransactionPayload<'_>) -> DecompressedPayload {
    let mut events = opener.open(payload).expect("a known compression");
    let mut out = Vec::new();
    loop {
        match events.next_event() {
            Ok(Some(raw)) => out.extend_from_slice(raw.bytes()),
            Ok(None) => return (out, None),
            Err(error) => return (out, Some(fault(error))),
        }
    }
}

fn by_chunk(
    opener: &mut PayloadOpener,
    payload: &TransactionPayload<'_>,
    size: usize,
) -> DecompressedPayload {
    let mut events = opener.open(payload).expect("a known compression");
    let mut out = Vec::new();
    loop {
        match events.next_chunk(size, &mut out) {
            Ok(0) => return (out, None),
            Ok(_) => {}
            Err(error) => return (out, Some(fault(error))),
        }
    }
}

fn by_piece(
    opener: &mut PayloadOpener,
    payload: &TransactionPayload<'_>,
    size: usize,
) -> DecompressedPayload {
    let stream = opener.open_stream(payload.compression, payload.uncompressed_size);
    let mut stream = stream.expect("a known compression");
    let mut out = Vec::new();
    for mut piece in payload.payload.chunks(size) {
        loop {
            match stream.next_event(&mut piece) {
                Ok(Some(raw)) => out.extend_from_slice(raw.bytes()),
                Ok(None) => break,
                Err(error) => return (out, Some(fault(error))),
            }
        }
        assert!(piece.is_empty());
    }
    match stream.finish() {
        Ok(_) => (out, None),
        Err(error) => (out, Some(fault(error))),
    }
}

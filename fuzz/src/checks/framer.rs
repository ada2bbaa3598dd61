//! Framing: the same events for all sizes of reads, without lost or additional bytes.

use binlog::{Framer, FramerOutput, MAGIC};

use crate::seeds::Sample;

/// Maximum size of a seed, in bytes. A dozen events cover all cases of framing.
const SEED_SIZE_MAX: usize = 2048;

pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    let log = sample.bytes.strip_prefix(&MAGIC).unwrap_or(&sample.bytes);
    vec![log[..log.len().min(SEED_SIZE_MAX)].to_vec()]
}

/// Checks `bytes`, a log without its magic.
pub(super) fn check(bytes: &[u8]) {
    let whole = frame(bytes, usize::MAX);
    for piece in [1, 7, 19, 1000] {
        assert_eq!(frame(bytes, piece), whole, "in pieces of {piece} bytes");
    }
}

/// End of framing.
#[derive(Debug, PartialEq)]
enum End {
    /// An error.
    Error(String),
    /// An incomplete event, with the number of bytes that it needs.
    NeedMore { needed: usize },
}

/// Returns the sizes of all events, when `piece` more bytes arrive each time.
fn frame(bytes: &[u8], piece: usize) -> (Vec<usize>, End) {
    let mut framer = Framer::new();
    let (mut sizes, mut start, mut end) = (Vec::new(), 0, 0);
    loop {
        match framer.next(&bytes[start..end]) {
            Ok(FramerOutput::Event(raw)) => {
                assert_eq!(raw.bytes(), &bytes[start..start + raw.header().size as usize]);
                let _ = raw.verify();
                sizes.push(raw.bytes().len());
                start += raw.bytes().len();
            }
            Ok(FramerOutput::NeedMore { needed }) => {
                assert!(needed > end - start, "wants {needed}, has {}", end - start);
                if end == bytes.len() {
                    return (sizes, End::NeedMore { needed });
                }
                end = end.saturating_add(piece).min(bytes.len());
            }
            Err(error) => return (sizes, End::Error(error.to_string())),
        }
    }
}

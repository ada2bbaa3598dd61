//! Prints size and speed of the blocks of logs.

use std::fs::File;
use std::time::Instant;

use archive::{BlockDecoder, BlockEncoder, BlockSummary, LogBlockReader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let mut reader = LogBlockReader::new(File::open(&path)?);
        let (mut encoder, mut decoder) = (BlockEncoder::new(), BlockDecoder::new());
        let (mut summary, mut size) = (BlockSummary::default(), 0);
        let (mut encode, mut decode) = (0.0, 0.0);
        while let Some(block) = reader.next_block()? {
            let start = Instant::now();
            let encoded = encoder.encode(&block)?;
            encode += start.elapsed().as_secs_f64();
            let start = Instant::now();
            let restored = decoder.decode_one(&encoded.bytes)?;
            decode += start.elapsed().as_secs_f64();
            assert!(restored == block.bytes, "block at {} of {path}", block.offset);
            size += encoded.bytes.len();
            summary.add(&encoded.summary);
        }
        let megabytes = summary.log_size as f64 / 1e6;
        println!(
            "{path}: {} to {size}; written {:.0} MB/s, restored {:.0} MB/s; {} events, payloads {}+{}, whole {:?}, kept {:?}",
            summary.log_size,
            megabytes / encode,
            megabytes / decode,
            summary.events,
            summary.payloads_opened,
            summary.payloads_kept,
            summary.whole_events,
            summary.kept
        );
    }
    Ok(())
}

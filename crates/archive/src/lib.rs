//! Archives of binary logs: each log is taken apart into streams of fields, which compress better than the log, and
//! comes back byte for byte.
#![forbid(unsafe_code)]

mod block_decoder;
mod block_encoder;
mod block_frame;
mod block_reader;
mod block_summary;
mod event_fields;
mod event_form;
mod fixed_rows;
mod log_block;
mod payload_frames;
mod row_layout;
mod segment_error;
mod stream_codec;
mod stream_set;
mod varint;

pub use crate::block_decoder::BlockDecoder;
pub use crate::block_encoder::{BlockEncoder, EncodedBlock};
pub use crate::block_reader::{BLOCK_SIZE, BlockReader, EVENT_SIZE_LIMIT};
pub use crate::block_summary::BlockSummary;
pub use crate::log_block::{BlockContent, BlockContext, LogBlock, OpaqueReason};
pub use crate::segment_error::SegmentError;

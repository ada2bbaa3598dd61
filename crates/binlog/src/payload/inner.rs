//! Encoding of events inside a payload, and of the fields before it.

use crate::cursor::put_lenenc;
use crate::events::{PayloadCompression, TransactionPayload};
use crate::header::{EventHeader, HEADER_SIZE};
use crate::raw::RawEvent;

/// Appends an event in its form inside a payload: without checksum, position 0, and the size reduced accordingly.
pub fn put_inner(raw: &RawEvent<'_>, out: &mut Vec<u8>) {
    let size = inner_size(raw);
    let header = EventHeader { size, next_position: 0, ..*raw.header() };
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(raw.body());
}

/// Returns the size of an event inside a payload.
pub fn inner_size(raw: &RawEvent<'_>) -> u32 {
    (HEADER_SIZE + raw.body().len()) as u32
}

impl<'a> TransactionPayload<'a> {
    /// Creates a payload event from the output of [`PayloadWriter`](crate::PayloadWriter). `fields` receives the
    /// fields that a server writes before the payload.
    pub fn zstd(uncompressed_size: u64, payload: &'a [u8], fields: &'a mut Vec<u8>) -> Self {
        fields.clear();
        Self::put_zstd_fields(uncompressed_size, payload.len() as u64, fields);
        let (compression, uncompressed_size) = (PayloadCompression::Zstd, Some(uncompressed_size));
        Self { compression, uncompressed_size, fields, payload, rest: &[] }
    }

    /// Appends these fields, end mark included.
    pub fn put_zstd_fields(uncompressed_size: u64, payload_size: u64, out: &mut Vec<u8>) {
        put_field(out, 2, 0);
        put_field(out, 3, uncompressed_size);
        put_field(out, 1, payload_size);
        put_lenenc(out, 0);
    }
}

fn put_field(out: &mut Vec<u8>, field: u64, value: u64) {
    let mut bytes = Vec::with_capacity(9);
    put_lenenc(&mut bytes, value);
    put_lenenc(out, field);
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use crate::events::TransactionPayload;

    fn fields(uncompressed: u64, payload: usize) -> Vec<u8> {
        let (payload, mut fields) = (vec![0; payload], Vec::new());
        TransactionPayload::zstd(uncompressed, &payload, &mut fields);
        fields
    }

    #[test]
    fn fields_equal_the_servers() {
        assert_eq!(fields(243, 180), [2, 1, 0, 3, 1, 0xf3, 1, 1, 0xb4, 0]);
        assert_eq!(fields(938, 226), [2, 1, 0, 3, 3, 0xfc, 0xaa, 3, 1, 1, 0xe2, 0]);
        assert_eq!(fields(0x1_0000, 251), [2, 1, 0, 3, 4, 0xfd, 0, 0, 1, 1, 3, 0xfc, 251, 0, 0]);
    }
}

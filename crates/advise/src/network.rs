//! Models the network traffic from a source to a replica, with and without connection compression.
//!
//! The dump thread writes each event as one packet into a buffer. It sends the buffer when it is full or when there are
//! no more events (`Binlog_sender::get_binlog_end_pos`, `net_write_buff` in `sql-common/net_serv.cc`). A replica that
//! keeps up receives about one transaction at a time. This module models such a replica. A replica that is catching up
//! receives full buffers, which compress better.

use binlog::CompressError;
use miniz_oxide::deflate::compress_to_vec_zlib;
use zstd_safe::CCtx;

use super::cpu_time::CpuTime;

/// Bytes before an event: packet length, sequence number, status byte.
const PACKET_HEAD: usize = 4 + 1;

/// Bytes before a compressed packet: compressed length, sequence number, uncompressed length.
const COMPRESSED_HEAD: u64 = 7;

/// Smaller packets are sent uncompressed (`MIN_COMPRESS_LENGTH`).
const COMPRESS_MIN: usize = 50;

/// Size of the buffer (`net_buffer_length`).
const BUFFER_SIZE: usize = 16 << 10;

/// zlib level of the server.
pub(crate) const ZLIB_LEVEL: u8 = 6;

/// The default of `SOURCE_ZSTD_COMPRESSION_LEVEL`.
pub(crate) const ZSTD_LEVEL: u8 = 3;

/// Bytes sent, and nanoseconds to compress them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentBytes {
    pub(crate) uncompressed: u64,
    pub(crate) zlib: u64,
    pub(crate) zlib_ns: u64,
    pub(crate) zstd: u64,
    pub(crate) zstd_ns: u64,
}

impl SentBytes {
    pub(crate) fn add(&mut self, other: &Self) {
        self.uncompressed += other.uncompressed;
        self.zlib += other.zlib;
        self.zlib_ns += other.zlib_ns;
        self.zstd += other.zstd;
        self.zstd_ns += other.zstd_ns;
    }
}

impl SentBytes {
    /// Extrapolates from `measured` bytes to `whole` bytes.
    pub(crate) fn scaled(&self, whole: u64, measured: u64) -> Self {
        if measured == 0 || measured == whole {
            return *self;
        }
        let scale = |value: u64| {
            let scaled = u128::from(value) * u128::from(whole) / u128::from(measured);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        Self {
            uncompressed: scale(self.uncompressed),
            zlib: scale(self.zlib),
            zlib_ns: scale(self.zlib_ns),
            zstd: scale(self.zstd),
            zstd_ns: scale(self.zstd_ns),
        }
    }
}

/// Simulated connection, uncompressed and with each compression algorithm.
pub(crate) struct SimulatedConnection {
    zstd: CCtx<'static>,
    waiting: Vec<u8>,
    out: Vec<u8>,
    sent: SentBytes,
}

impl SimulatedConnection {
    pub(crate) fn new() -> Result<Self, CompressError> {
        let zstd = CCtx::try_create().ok_or(CompressError::Zstd { message: "no memory" })?;
        Ok(Self { zstd, waiting: Vec::new(), out: Vec::new(), sent: SentBytes::default() })
    }

    /// Appends an event to the buffer, given in parts.
    pub(crate) fn put(&mut self, event: &[&[u8]]) {
        let size: usize = event.iter().map(|part| part.len()).sum();
        self.sent.uncompressed += (PACKET_HEAD + size) as u64;
        let before = self.waiting.len();
        self.waiting.extend_from_slice(&(size as u32 + 1).to_le_bytes());
        self.waiting.push(0);
        event.iter().for_each(|part| self.waiting.extend_from_slice(part));
        if self.waiting.len() < BUFFER_SIZE {
            return;
        }
        // The server first sends a full buffer, and then the rest of a large event in one piece.
        let waiting = std::mem::take(&mut self.waiting);
        let (full, rest) = waiting.split_at(if before > 0 { BUFFER_SIZE } else { 0 });
        self.send(full);
        match rest.len() >= BUFFER_SIZE {
            true => self.send(rest),
            false => self.waiting.extend_from_slice(rest),
        }
    }

    /// Sends the buffer: there are no more events.
    pub(crate) fn flush(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.send(&waiting);
        self.waiting = waiting;
        self.waiting.clear();
    }

    /// Takes the sums since the last call.
    pub(crate) fn take(&mut self) -> SentBytes {
        std::mem::take(&mut self.sent)
    }

    fn send(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let plain = bytes.len();
        let (mut zlib, mut zstd) = (plain, plain);
        if plain >= COMPRESS_MIN {
            let work = CpuTime::start();
            zlib = compress_to_vec_zlib(bytes, ZLIB_LEVEL).len().min(plain);
            self.sent.zlib_ns += work.ns();
            let work = CpuTime::start();
            self.out.clear();
            self.out.reserve(zstd_safe::compress_bound(plain));
            if let Ok(size) = self.zstd.compress(&mut self.out, bytes, i32::from(ZSTD_LEVEL)) {
                zstd = size.min(plain);
            }
            self.sent.zstd_ns += work.ns();
        }
        self.sent.zlib += COMPRESSED_HEAD + zlib as u64;
        self.sent.zstd += COMPRESSED_HEAD + zstd as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::SimulatedConnection;

    fn check(events: &[usize], uncompressed: u64, zlib: std::ops::RangeInclusive<u64>) {
        let mut wire = SimulatedConnection::new().expect("out of memory");
        events.iter().for_each(|size| wire.put(&[&vec![7; *size]]));
        wire.flush();
        let sent = wire.take();
        assert_eq!(sent.uncompressed, uncompressed, "{events:?}");
        assert!(zlib.contains(&sent.zlib), "{events:?}: {}", sent.zlib);
    }

    #[test]
    fn packets_have_headers_and_small_ones_stay_uncompressed() {
        check(&[], 0, 0..=0);
        check(&[44], 49, 49 + 7..=49 + 7);
        check(&[45], 50, 7 + 8..=40);
        check(&[20, 30], 60, 7 + 8..=45);
        check(&[1000; 10], 10_050, 7 + 20..=200);
    }

    #[test]
    fn large_events_are_sent_in_one_piece_after_a_full_buffer() {
        check(&[100, 1 << 20], (1 << 20) + 110, 14 + 20..=2_000);
        check(&[1 << 20], (1 << 20) + 5, 7 + 20..=2_000);
        check(&[10_000; 4], 40_020, 21 + 30..=600);
    }
}

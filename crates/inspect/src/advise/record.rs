//! What was measured of each transaction, on its way from the workers to the sums.

use std::ops::Range;

use binlog::Refusal;

use super::measure::{Made, Taken};
use super::network::Sent;
use super::tables::Name;

/// What was measured in one go, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Which log it is of.
    pub(crate) source: usize,
    pub(crate) records: Vec<Record>,
    /// Records that were measured.
    pub(crate) measured: usize,
    /// By record that was measured and by level: what became of its payload.
    pub(crate) made: Vec<Made>,
    /// By record that was measured and by level: its bytes in the log.
    pub(crate) after: Vec<u64>,
    /// Tables of records, and their bytes.
    pub(crate) tables: Vec<(u32, u64)>,
    /// The names of tables.
    pub(crate) names: Vec<Name>,
    /// By level.
    pub(crate) taken: Vec<Taken>,
    pub(crate) network: Network,
    /// Payloads to train and measure a dictionary with.
    pub(crate) samples: Vec<Vec<u8>>,
    /// A payload found in the log, to see which level it was made at.
    pub(crate) probe: Option<Probe>,
    /// Does a stretch end here?
    pub(crate) is_end: bool,
    /// Bytes of logs that are done with it.
    pub(crate) bytes_done: u64,
}

/// A transaction, or events between two.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    /// Where it starts in its log; 0 if nobody asks.
    pub(crate) start: u64,
    /// Its bytes as it stands.
    pub(crate) now: u64,
    /// Its bytes without compression.
    pub(crate) plain: u64,
    /// The bytes of its events inside a payload.
    pub(crate) inner: u64,
    /// When it committed, in microseconds since 1970.
    pub(crate) commit_us: u64,
    /// How much of it counts here.
    pub(crate) share: Share,
    /// Its place in [`Part::tables`].
    pub(crate) tables: Range<usize>,
    /// Was only its front measured?
    pub(crate) is_cut: bool,
}

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Events between transactions.
    Between,
    /// A transaction that cannot be compressed.
    Refused(Refusal),
    /// A transaction that was measured.
    Measured {
        /// Its number among those of its part.
        number: usize,
        /// Is it compressed in the log?
        was_compressed: bool,
    },
}

/// A part of a transaction, by its bytes as they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) of: u64,
}

/// What was sent, for some of the transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Network {
    /// Bytes of the log, as it stands.
    pub(crate) now: u64,
    /// With transactions plain.
    pub(crate) plain: Sent,
    /// With transactions compressed at the base level.
    pub(crate) compressed: Sent,
}

/// A payload found in a log.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) inner: Vec<u8>,
    pub(crate) frame: Vec<u8>,
}

impl Record {
    /// Of so many bytes that stay as they are.
    pub(crate) const fn plain(now: u64, share: Share) -> Self {
        Self {
            kind: Kind::Between,
            start: 0,
            now,
            plain: now,
            inner: 0,
            commit_us: 0,
            share,
            tables: 0..0,
            is_cut: false,
        }
    }
}

impl Share {
    pub(crate) const fn whole(of: u64) -> Self {
        Self { from: 0, to: of, of }
    }

    /// The part of `whole` that counts here. Shares that make up the whole get parts that do.
    pub(crate) fn part(self, whole: u64) -> u64 {
        let up_to = |at: u64| (u128::from(whole) * u128::from(at) / u128::from(self.of.max(1))) as u64;
        match self.of {
            0 => whole,
            _ => up_to(self.to) - up_to(self.from),
        }
    }

    /// The same as a weight.
    pub(crate) fn weight(self) -> f64 {
        match self.of {
            0 => 1.0,
            of => (self.to - self.from) as f64 / of as f64,
        }
    }
}

impl Network {
    /// The part that counts here.
    pub(crate) fn part(&self, share: Share) -> Self {
        let part = |sent: &Sent| Sent {
            uncompressed: share.part(sent.uncompressed),
            zlib: share.part(sent.zlib),
            zlib_ns: share.part(sent.zlib_ns),
            zstd: share.part(sent.zstd),
            zstd_ns: share.part(sent.zstd_ns),
        };
        Self { now: share.part(self.now), plain: part(&self.plain), compressed: part(&self.compressed) }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.now += other.now;
        self.plain.add(&other.plain);
        self.compressed.add(&other.compressed);
    }
}

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn shares_make_up_the_whole() {
        for of in [1, 7, 100, 12_345] {
            for whole in [0, 1, 99, 1 << 40] {
                let cuts = [0, of / 3, of / 2, of];
                let parts = cuts.windows(2).map(|cut| Share { from: cut[0], to: cut[1], of }.part(whole));
                assert_eq!(parts.sum::<u64>(), whole);
            }
        }
        assert_eq!(Share::whole(0).part(5), 5);
    }
}

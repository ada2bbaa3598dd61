//! Global transaction identifiers (GTIDs) and sets of them.

use std::fmt;
use std::num::NonZeroU64;

pub use uuid::Uuid;

pub use crate::gtid_set::{
    GtidInterval, GtidSet, GtidSetComment, GtidSetFormat, GtidSetServerText, GtidTextError,
};

/// Number of a transaction on its source: 1 to 2^63 - 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Gno(NonZeroU64);

impl Gno {
    /// Largest number. The exclusive end of an interval is at most 2^63 - 1.
    pub const MAX: u64 = (1 << 63) - 2;

    /// Returns `raw` as a number, or `None` if it is out of range.
    pub fn new(raw: u64) -> Option<Self> {
        NonZeroU64::new(raw).filter(|raw| raw.get() <= Self::MAX).map(Self)
    }

    /// Returns the plain number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Gno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// GTID tag: a letter or underscore, then letters, digits, underscores; at most 32 bytes, lower case.
///
/// The empty tag means no tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GtidTag {
    bytes: [u8; Self::SIZE_MAX],
    size: u8,
}

impl GtidTag {
    /// Maximum size in bytes.
    pub const SIZE_MAX: usize = 32;

    /// No tag.
    pub const NONE: Self = Self { bytes: [0; Self::SIZE_MAX], size: 0 };

    /// Checks the syntax and converts to lower case. The empty text is [`GtidTag::NONE`].
    pub fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::SIZE_MAX];
        let slot = bytes.get_mut(..text.len())?;
        slot.copy_from_slice(text);
        slot.make_ascii_lowercase();
        let word = slot.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let starts = !slot.first().is_some_and(u8::is_ascii_digit);
        (word && starts).then_some(Self { bytes, size: text.len() as u8 })
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.size)]).unwrap_or_default()
    }

    /// Returns true if there is no tag.
    pub const fn is_none(&self) -> bool {
        self.size == 0
    }
}

impl fmt::Debug for GtidTag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Tag({:?})", self.as_str())
    }
}

impl fmt::Display for GtidTag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for GtidTag {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.as_str())
    }
}

/// Transaction source identifier: a server's UUID and an optional tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tsid {
    /// UUID of the source.
    pub uuid: Uuid,
    /// Tag; usually [`GtidTag::NONE`].
    pub tag: GtidTag,
}

impl fmt::Display for Tsid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tag.is_none() {
            true => write!(out, "{}", self.uuid),
            false => write!(out, "{}:{}", self.uuid, self.tag),
        }
    }
}

/// Global transaction identifier: `uuid:number` or `uuid:tag:number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gtid {
    /// Source and tag.
    pub tsid: Tsid,
    /// Number on the source.
    pub gno: Gno,
}

impl fmt::Display for Gtid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.tsid, self.gno)
    }
}

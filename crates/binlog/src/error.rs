//! What can be wrong with bytes, and where.

use std::fmt;

/// Bytes that are not what the format says they must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Where, in bytes from the start of what was handed in: usually the event, header included.
    pub offset: usize,
    /// What was found there, and what was wanted.
    pub reason: Reason,
}

/// What was found, and what was wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The bytes stop before the field does.
    Short {
        /// How many bytes the field needs.
        wanted: u64,
        /// How many are left.
        found: usize,
    },
    /// Bytes are left over behind the last field.
    Trailing {
        /// How many.
        count: usize,
    },
    /// A length-encoded integer starts with 0xfb or 0xff, which start none.
    LengthEncoding {
        /// The byte found.
        byte: u8,
    },
    /// The CRC32 stored behind the event is not that of its bytes.
    Checksum {
        /// As stored, little-endian, in the event's last four bytes.
        stored: u32,
        /// As computed over the bytes before them.
        computed: u32,
    },
    /// A number outside the range that the format gives it.
    OutOfRange {
        /// The field's name.
        field: &'static str,
        /// What was found.
        found: u64,
        /// The largest value there is.
        max: u64,
    },
    /// A field that must have one of a few values has another.
    Unexpected {
        /// The field's name.
        field: &'static str,
        /// What was found.
        found: u64,
        /// What was wanted, in words.
        wanted: &'static str,
    },
    /// zstd refuses what stands there.
    Zstd {
        /// Its own words.
        message: &'static str,
    },
    /// A number that two places give, and they do not agree.
    Differs {
        /// The field's name.
        field: &'static str,
        /// What was found here.
        found: u64,
        /// What the other place says.
        wanted: u64,
    },
    /// A byte that starts no character.
    Character {
        /// The character set's name.
        charset: &'static str,
        /// The byte.
        byte: u8,
    },
    /// Right, but not something this build or this crate reads.
    Unsupported {
        /// What it is.
        what: &'static str,
    },
}

impl Reason {
    /// A zstd frame stops before its end.
    pub(crate) const TORN_FRAME: Self = Self::Zstd { message: "the frame is torn" };
}

impl DecodeError {
    /// Is something missing at the end, rather than wrong?
    pub fn is_short(&self) -> bool {
        matches!(self.reason, Reason::Short { .. }) || self.reason == Reason::TORN_FRAME
    }

    /// An error at `offset`.
    pub const fn new(offset: usize, reason: Reason) -> Self {
        Self { offset, reason }
    }

    /// The same error, seen from `base` bytes further out.
    #[must_use]
    pub const fn within(mut self, base: usize) -> Self {
        self.offset += base;
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "byte {}: {}", self.offset, self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { wanted, found } => write!(out, "wanted {wanted} more bytes, found {found}"),
            Self::Trailing { count } => write!(out, "wanted the end, found {count} more bytes"),
            Self::LengthEncoding { byte } => {
                write!(out, "wanted a length-encoded integer, found 0x{byte:02x}, which starts none")
            }
            Self::Checksum { stored, computed } => {
                write!(out, "checksum is 0x{stored:08x}, should be 0x{computed:08x}")
            }
            Self::OutOfRange { field, found, max } => {
                write!(out, "{field} is {found}, must be at most {max}")
            }
            Self::Unexpected { field, found, wanted } => write!(out, "{field} is {found}, wanted {wanted}"),
            Self::Zstd { message } => write!(out, "zstd refuses it: {message}"),
            Self::Differs { field, found, wanted } => write!(out, "{field} is {found}, wanted {wanted}"),
            Self::Character { charset, byte } => {
                write!(out, "wanted a character of {charset}, found byte 0x{byte:02x}")
            }
            Self::Unsupported { what } => write!(out, "{what} cannot be read"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A value that the format has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// A number, or a size, larger than its field can hold.
    TooLarge {
        /// The field's name.
        field: &'static str,
        /// What it should have held.
        found: u64,
        /// The most that it can hold.
        max: u64,
    },
    /// A part whose size follows from another field has a different size.
    Mismatch {
        /// The part's name.
        field: &'static str,
        /// Its size in bytes.
        found: u64,
        /// The size that the other field asks for.
        wanted: u64,
    },
    /// A field is absent although one that must stand behind it is there.
    Missing {
        /// The absent field's name.
        field: &'static str,
        /// The name of the one behind it.
        behind: &'static str,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { field, found, max } => {
                write!(out, "{field} is {found}, there is room for at most {max}")
            }
            Self::Mismatch { field, found, wanted } => {
                write!(out, "{field} is of {found} bytes, must be of {wanted}")
            }
            Self::Missing { field, behind } => {
                write!(out, "{field} is absent, must stand in front of {behind}")
            }
        }
    }
}

impl std::error::Error for EncodeError {}

/// `found` as a number of at most `max`.
pub(crate) fn narrow<T>(field: &'static str, found: u64, max: T) -> Result<T, EncodeError>
where
    T: TryFrom<u64> + Into<u64>,
{
    let max = max.into();
    match T::try_from(found) {
        Ok(narrow) if found <= max => Ok(narrow),
        _ => Err(EncodeError::TooLarge { field, found, max }),
    }
}

/// A part of `found` bytes must be of `wanted`.
pub(crate) fn same_size(field: &'static str, found: usize, wanted: usize) -> Result<(), EncodeError> {
    match found == wanted {
        true => Ok(()),
        false => Err(EncodeError::Mismatch { field, found: found as u64, wanted: wanted as u64 }),
    }
}

/// A field must be there when `behind`, the one behind it, is.
pub(crate) fn present<T>(
    field: &'static str,
    value: Option<T>,
    behind: &'static str,
) -> Result<T, EncodeError> {
    value.ok_or(EncodeError::Missing { field, behind })
}

//! Errors of decoding and encoding.

use std::fmt;

use crate::header::HEADER_SIZE;

/// Bytes that do not match the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Offset in bytes from the start of the input: usually of the event, header included.
    pub offset: usize,
    /// Kind of the error, with the found and expected values.
    pub reason: DecodeReason,
}

/// Kind of a decoding error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeReason {
    /// The input ends before the field does.
    Short {
        /// Number of bytes that the field needs.
        expected: u64,
        /// Number of bytes left.
        found: usize,
    },
    /// Bytes are left after the last field.
    Trailing {
        /// Number of bytes left.
        count: usize,
    },
    /// The first byte of a length-encoded integer is 0xfb or 0xff.
    LengthEncoding {
        /// The byte found.
        byte: u8,
    },
    /// The stored CRC32 does not match the event's bytes.
    Checksum {
        /// Stored value, little-endian, from the last four bytes of the event.
        stored: u32,
        /// Value computed over the bytes before it.
        computed: u32,
    },
    /// A number is outside the range of its field.
    OutOfRange {
        /// Name of the field.
        field: &'static str,
        /// Value found.
        found: u64,
        /// Largest valid value.
        max: u64,
    },
    /// A field has a value that the format does not allow.
    Unexpected {
        /// Name of the field.
        field: &'static str,
        /// Value found.
        found: u64,
        /// Description of the allowed values.
        expected: &'static str,
    },
    /// A mandatory field is missing.
    Missing {
        /// Name of the field.
        field: &'static str,
    },
    /// zstd reports an error.
    Zstd {
        /// zstd's error message.
        message: &'static str,
    },
    /// A number disagrees with the same number stated elsewhere.
    Differs {
        /// Name of the field.
        field: &'static str,
        /// Value found here.
        found: u64,
        /// Value stated elsewhere.
        expected: u64,
    },
    /// The byte starts no character of the character set.
    Character {
        /// Name of the character set.
        charset: &'static str,
        /// Byte found.
        byte: u8,
    },
    /// The input is valid, but this crate or this build cannot read it.
    Unsupported {
        /// Description of the unsupported input.
        what: &'static str,
    },
}

impl DecodeReason {
    /// Error for a zstd frame that is truncated.
    pub(crate) const TORN_FRAME: Self = Self::Zstd { message: "the frame is cut off" };
}

impl DecodeError {
    /// Returns true if the input is truncated rather than wrong.
    pub fn is_short(&self) -> bool {
        matches!(self.reason, DecodeReason::Short { .. }) || self.reason == DecodeReason::TORN_FRAME
    }

    /// Creates an error at `offset`.
    pub const fn new(offset: usize, reason: DecodeReason) -> Self {
        Self { offset, reason }
    }

    /// Creates the error for a rows event without a map of its table.
    pub const fn unmapped_table(table_id: u64) -> Self {
        let (field, expected) = ("table id", "one from a table map of the statement");
        Self::new(HEADER_SIZE, DecodeReason::Unexpected { field, found: table_id, expected })
    }

    /// Adds `base` to the offset, for an input that starts at `base` of a larger one.
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

impl fmt::Display for DecodeReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { expected, found } => write!(out, "expected {expected} more bytes, found {found}"),
            Self::Trailing { count } => write!(out, "expected the end, found {count} extra bytes"),
            Self::LengthEncoding { byte } => {
                write!(out, "expected a length-encoded integer, found byte 0x{byte:02x}")
            }
            Self::Checksum { stored, computed } => {
                write!(out, "checksum is 0x{stored:08x}, expected 0x{computed:08x}")
            }
            Self::OutOfRange { field, found, max } => {
                write!(out, "{field} is {found}, expected at most {max}")
            }
            Self::Unexpected { field, found, expected } => {
                write!(out, "{field} is {found}, expected {expected}")
            }
            Self::Missing { field } => write!(out, "{field} is missing"),
            Self::Zstd { message } => write!(out, "cannot be decompressed (zstd: {message})"),
            Self::Differs { field, found, expected } => {
                write!(out, "{field} is {found}, expected {expected}")
            }
            Self::Character { charset, byte } => {
                write!(out, "expected a character of {charset}, found byte 0x{byte:02x}")
            }
            Self::Unsupported { what } => write!(out, "{what} cannot be read"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A value that does not fit the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// A number or size exceeds the maximum of its field.
    TooLarge {
        /// Name of the field.
        field: &'static str,
        /// Value to be encoded.
        found: u64,
        /// Largest value of the field.
        max: u64,
    },
    /// The size of a part differs from the size stated by another field.
    Mismatch {
        /// Name of the part.
        field: &'static str,
        /// Size of the part in bytes.
        found: u64,
        /// Size stated by the other field.
        expected: u64,
    },
    /// A field is absent, but a field that must follow it is present.
    Missing {
        /// Name of the absent field.
        field: &'static str,
        /// Name of the field after it.
        next: &'static str,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { field, found, max } => {
                write!(out, "{field} is {found}, expected at most {max}")
            }
            Self::Mismatch { field, found, expected } => {
                write!(out, "{field} has {found} bytes, expected {expected}")
            }
            Self::Missing { field, next } => {
                write!(out, "{field} is missing, but required before {next}")
            }
        }
    }
}

impl std::error::Error for EncodeError {}

/// Returns `found` as a `T`, if it is at most `max`.
pub(crate) fn checked_number<T>(field: &'static str, found: u64, max: T) -> Result<T, EncodeError>
where
    T: TryFrom<u64> + Into<u64>,
{
    let max = max.into();
    match T::try_from(found) {
        Ok(narrow) if found <= max => Ok(narrow),
        _ => Err(EncodeError::TooLarge { field, found, max }),
    }
}

/// Checks that a part has `expected` bytes.
pub(crate) fn check_size(field: &'static str, found: usize, expected: usize) -> Result<(), EncodeError> {
    match found == expected {
        true => Ok(()),
        false => Err(EncodeError::Mismatch { field, found: found as u64, expected: expected as u64 }),
    }
}

/// Returns the value of a field that must be present because `next`, the field after it, is present.
pub(crate) fn require_field<T>(
    field: &'static str,
    value: Option<T>,
    next: &'static str,
) -> Result<T, EncodeError> {
    value.ok_or(EncodeError::Missing { field, next })
}

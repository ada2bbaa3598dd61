//! Forms of values in Debezium's records, under the names of its connector's properties.

/// Forms of values in Debezium's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueModes {
    /// `decimal.handling.mode`
    pub decimals: DecimalMode,
    /// `bigint.unsigned.handling.mode`
    pub unsigned_bigints: UnsignedBigintMode,
    /// `time.precision.mode`
    pub times: TimeMode,
    /// `binary.handling.mode`
    pub bytes: BinaryMode,
}

/// Form of DECIMAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecimalMode {
    /// Unscaled number as base64.
    #[default]
    Precise,
    /// Nearest DOUBLE.
    Double,
    /// Text.
    Text,
}

/// Form of BIGINT UNSIGNED.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnsignedBigintMode {
    /// Signed number: from 2^63 on, it is negative.
    #[default]
    Long,
    /// Number as base64.
    Precise,
}

/// Form of DATE, TIME and DATETIME.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeMode {
    /// TIME in microseconds, DATETIME in milliseconds or microseconds.
    #[default]
    AdaptiveTimeMicroseconds,
    /// Milliseconds.
    Connect,
    /// Text by ISO 8601.
    IsoString,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// Form of BINARY, VARBINARY and BLOB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BinaryMode {
    /// Bytes, which JSON has as base64.
    #[default]
    Bytes,
    /// Base64.
    Base64,
    /// Base64 with `-` and `_` instead of `+` and `/`.
    Base64UrlSafe,
    /// Hexadecimal digits.
    Hex,
}

//! Dates and times in binary form, as prepared statements use them.

use std::fmt;

use binlog::{Cursor, DecodeError, DecodeReason};

/// DATE, DATETIME or TIMESTAMP as sent; not checked against the calendar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DateTimeValue {
    /// Year, 0 to 9999.
    pub year: u16,
    /// Month, 1 to 12; 0 in zero dates.
    pub month: u8,
    /// Day of the month; 0 in zero dates.
    pub day: u8,
    /// Hour.
    pub hour: u8,
    /// Minute.
    pub minute: u8,
    /// Second.
    pub second: u8,
    /// Microsecond.
    pub microsecond: u32,
}

/// TIME as sent: a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeValue {
    /// True for a negative span.
    pub is_negative: bool,
    /// Number of days.
    pub days: u32,
    /// Hours.
    pub hours: u8,
    /// Minutes.
    pub minutes: u8,
    /// Seconds.
    pub seconds: u8,
    /// Microseconds.
    pub microseconds: u32,
}

// Source: "Binary Protocol Value" of the MySQL source documentation.
impl DateTimeValue {
    // size  field
    //    1  size of the rest: 0, 4, 7 or 11
    //    2  year
    //    1  month
    //    1  day
    //  with a size of 7 or 11
    //    3  hour, minute, second
    //  with a size of 11
    //    4  microsecond
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let size = size(cursor, &[0, 4, 7, 11], "0, 4, 7 or 11")?;
        let mut value = Self::default();
        if size >= 4 {
            (value.year, value.month, value.day) = (cursor.u16()?, cursor.u8()?, cursor.u8()?);
        }
        if size >= 7 {
            (value.hour, value.minute, value.second) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
        }
        if size == 11 {
            value.microsecond = cursor.u32()?;
        }
        Ok(value)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(11);
        out.extend_from_slice(&self.year.to_le_bytes());
        out.extend_from_slice(&[self.month, self.day, self.hour, self.minute, self.second]);
        out.extend_from_slice(&self.microsecond.to_le_bytes());
    }
}

/// Shows the value as MySQL does: `2026-11-23 14:09:18`, with six more digits unless the microseconds are 0.
impl fmt::Display for DateTimeValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second, microsecond } = self;
        write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")?;
        match microsecond {
            0 => Ok(()),
            _ => write!(out, ".{microsecond:06}"),
        }
    }
}

impl TimeValue {
    // size  field
    //    1  size of the rest: 0, 8 or 12
    //    1  1 for a negative span, else 0
    //    4  days
    //    3  hours, minutes, seconds
    //  with a size of 12
    //    4  microseconds
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let size = size(cursor, &[0, 8, 12], "0, 8 or 12")?;
        let mut value = Self::default();
        if size >= 8 {
            value.is_negative = cursor.u8()? != 0;
            value.days = cursor.u32()?;
            (value.hours, value.minutes, value.seconds) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
        }
        if size == 12 {
            value.microseconds = cursor.u32()?;
        }
        Ok(value)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[12, u8::from(self.is_negative)]);
        out.extend_from_slice(&self.days.to_le_bytes());
        out.extend_from_slice(&[self.hours, self.minutes, self.seconds]);
        out.extend_from_slice(&self.microseconds.to_le_bytes());
    }
}

fn size(cursor: &mut Cursor<'_>, known: &[u8], expected: &'static str) -> Result<u8, DecodeError> {
    let start = cursor.offset();
    let size = cursor.u8()?;
    match known.contains(&size) {
        true => Ok(size),
        false => {
            let field = "size of a date or time";
            Err(DecodeError::new(start, DecodeReason::Unexpected { field, found: size.into(), expected }))
        }
    }
}

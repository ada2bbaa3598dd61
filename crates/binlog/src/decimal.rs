//! Exact numbers of up to 65 digits.

use std::fmt;

use crate::column::decimal_size;
use crate::error::{DecodeError, Reason};

/// Digits that a server computes with. A column has 65 at most; in JSON, a number's whole digits are rounded up to
/// groups of nine.
const PRECISION_MAX: u8 = 81;

/// An exact number of up to 65 digits, as stored.
///
/// Digits stand in groups of nine, each a big-endian number of four bytes; what is left over at either end takes
/// fewer. The first bit is set unless the number is negative; a negative number has all bits inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal<'a> {
    bytes: &'a [u8],
    precision: u8,
    scale: u8,
}

impl<'a> Decimal<'a> {
    /// Takes the stored bytes of a DECIMAL(precision, scale).
    ///
    /// # Errors
    ///
    /// When there are too few or too many bytes, or a group of digits has more digits than its place.
    pub fn new(bytes: &'a [u8], precision: u8, scale: u8) -> Result<Self, DecodeError> {
        if precision > PRECISION_MAX || scale > precision {
            let (found, max) = (u64::from(precision), u64::from(PRECISION_MAX));
            let reason = Reason::OutOfRange { field: "precision of DECIMAL", found, max };
            return Err(DecodeError::new(0, reason));
        }
        let (found, wanted) = (bytes.len(), usize::from(decimal_size(precision, scale)));
        if found != wanted {
            let (found, wanted) = (found as u64, wanted as u64);
            return Err(DecodeError::new(0, Reason::Differs { field: "size of DECIMAL", found, wanted }));
        }
        let decimal = Self { bytes, precision, scale };
        for group in decimal.groups() {
            let max = 10_u32.pow(u32::from(group.digits)) - 1;
            if group.number > max {
                let (found, max) = (u64::from(group.number), u64::from(max));
                let reason = Reason::OutOfRange { field: "digits of DECIMAL", found, max };
                return Err(DecodeError::new(group.offset, reason));
            }
        }
        Ok(decimal)
    }

    /// Digits in all.
    pub const fn precision(&self) -> u8 {
        self.precision
    }

    /// Digits behind the point.
    pub const fn scale(&self) -> u8 {
        self.scale
    }

    /// The stored bytes.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Is it below zero?
    pub fn is_negative(&self) -> bool {
        self.bytes.first().is_some_and(|first| first & 0x80 == 0)
    }

    /// Appends `[-]digits[.digits]`: no needless zeros in front, all of the scale behind.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.is_negative() {
            out.push(b'-');
        }
        let whole_start = out.len();
        let mut point = None;
        for group in self.groups() {
            if group.is_fraction && point.is_none() {
                zero_if_nothing(out, whole_start);
                point = Some(out.len());
                out.push(b'.');
            }
            let leads = !group.is_fraction && out.len() == whole_start;
            put_group(out, group.number, usize::from(group.digits), leads);
        }
        if point.is_none() {
            zero_if_nothing(out, whole_start);
        }
    }

    fn groups(&self) -> Groups<'a> {
        let mask = match self.is_negative() {
            true => 0xff,
            false => 0,
        };
        Groups {
            bytes: self.bytes,
            offset: 0,
            mask,
            whole: self.precision - self.scale,
            fraction: self.scale,
        }
    }
}

fn zero_if_nothing(out: &mut Vec<u8>, start: usize) {
    if out.len() == start {
        out.push(b'0');
    }
}

/// Appends `number` as `width` digits; as few as it needs, none for 0, if it `leads`.
fn put_group(out: &mut Vec<u8>, mut number: u32, width: usize, leads: bool) {
    let mut digits = [b'0'; 9];
    let mut start = digits.len();
    while number > 0 && start > 0 {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    let start = if leads { start } else { digits.len() - width };
    out.extend_from_slice(&digits[start..]);
}

/// So many digits, as one number.
struct Group {
    number: u32,
    digits: u8,
    is_fraction: bool,
    offset: usize,
}

struct Groups<'a> {
    bytes: &'a [u8],
    offset: usize,
    mask: u8,
    whole: u8,
    fraction: u8,
}

impl Iterator for Groups<'_> {
    type Item = Group;

    fn next(&mut self) -> Option<Group> {
        const DIGITS: u8 = 9;
        // What is left over stands in front of the point's left side, and at the end of its right side.
        let is_fraction = self.whole == 0;
        let digits = match (self.whole, self.fraction) {
            (0, 0) => return None,
            (0, fraction) => fraction.min(DIGITS),
            (whole, _) if whole % DIGITS > 0 => whole % DIGITS,
            _ => DIGITS,
        };
        let size = usize::from(digits).div_ceil(2).min(4);
        let (group, rest) = self.bytes.split_at_checked(size)?;
        let mut number = 0;
        for (index, byte) in group.iter().enumerate() {
            // The first bit of all is the sign.
            let sign = if self.offset + index == 0 { 0x80 } else { 0 };
            number = number << 8 | u32::from(byte ^ sign ^ self.mask);
        }
        let group = Group { number, digits, is_fraction, offset: self.offset };
        self.bytes = rest;
        self.offset += size;
        match is_fraction {
            true => self.fraction -= digits,
            false => self.whole -= digits,
        }
        Some(group)
    }
}

impl fmt::Display for Decimal<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(68);
        self.write(&mut text);
        out.pad(&String::from_utf8_lossy(&text))
    }
}

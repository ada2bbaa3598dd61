//! Exact numbers of up to 65 digits.

use std::fmt;

use crate::column_type::decimal_size;
use crate::error::{DecodeError, DecodeReason};

/// Largest precision in a server's arithmetic. Columns have at most 65 digits; JSON rounds the digits before the
/// point up to groups of nine.
const PRECISION_MAX: u8 = 81;

/// An exact number of up to 65 digits, as stored.
///
/// Digits are stored in groups of nine, each as a four-byte big-endian number. The incomplete groups at both ends
/// take fewer bytes. The first bit is set unless the number is negative; negative numbers have all bits inverted.
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
    /// Fails if the number of bytes is wrong, or if a group holds a number with more digits than the group.
    pub fn new(bytes: &'a [u8], precision: u8, scale: u8) -> Result<Self, DecodeError> {
        if precision > PRECISION_MAX || scale > precision {
            let (found, max) = (u64::from(precision), u64::from(PRECISION_MAX));
            let reason = DecodeReason::OutOfRange { field: "precision of DECIMAL", found, max };
            return Err(DecodeError::new(0, reason));
        }
        let (found, expected) = (bytes.len(), usize::from(decimal_size(precision, scale)));
        if found != expected {
            let (found, expected) = (found as u64, expected as u64);
            return Err(DecodeError::new(
                0,
                DecodeReason::Differs { field: "size of DECIMAL", found, expected },
            ));
        }
        let decimal = Self { bytes, precision, scale };
        for group in decimal.digit_groups() {
            let max = 10_u32.pow(u32::from(group.digits)) - 1;
            if group.number > max {
                let (found, max) = (u64::from(group.number), u64::from(max));
                let reason = DecodeReason::OutOfRange { field: "group of digits of DECIMAL", found, max };
                return Err(DecodeError::new(group.offset, reason));
            }
        }
        Ok(decimal)
    }

    /// Returns the total number of digits.
    pub const fn precision(&self) -> u8 {
        self.precision
    }

    /// Returns the number of digits after the decimal point.
    pub const fn scale(&self) -> u8 {
        self.scale
    }

    /// Returns the stored bytes.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns true if the number is negative.
    pub fn is_negative(&self) -> bool {
        self.bytes.first().is_some_and(|first| first & 0x80 == 0)
    }

    /// Appends `[-]digits[.digits]` without leading zeros and with all digits of the scale.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.is_negative() {
            out.push(b'-');
        }
        let whole_start = out.len();
        let mut point = None;
        for group in self.digit_groups() {
            if group.is_fraction && point.is_none() {
                put_zero_if_empty(out, whole_start);
                point = Some(out.len());
                out.push(b'.');
            }
            let leads = !group.is_fraction && out.len() == whole_start;
            put_group(out, group.number, usize::from(group.digits), leads);
        }
        if point.is_none() {
            put_zero_if_empty(out, whole_start);
        }
    }

    /// Returns the groups of digits, from the most significant one on. The number without its sign and decimal point is
    /// obtained by multiplying the preceding groups by 10 to the power of [`DigitGroup::digits`], and adding the group.
    pub fn groups(&self) -> impl Iterator<Item = DigitGroup> + use<'a> {
        self.digit_groups()
    }

    fn digit_groups(&self) -> DigitGroups<'a> {
        let mask = match self.is_negative() {
            true => 0xff,
            false => 0,
        };
        DigitGroups {
            bytes: self.bytes,
            offset: 0,
            mask,
            whole: self.precision - self.scale,
            fraction: self.scale,
        }
    }
}

fn put_zero_if_empty(out: &mut Vec<u8>, start: usize) {
    if out.len() == start {
        out.push(b'0');
    }
}

/// Appends `number` as `width` digits. If `leads`, omits leading zeros; 0 then appends nothing.
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

/// A group of digits, stored as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DigitGroup {
    /// Digits as a number.
    pub number: u32,
    /// Number of digits, 1 to 9.
    pub digits: u8,
    /// True after the decimal point.
    pub is_fraction: bool,
    offset: usize,
}

struct DigitGroups<'a> {
    bytes: &'a [u8],
    offset: usize,
    mask: u8,
    whole: u8,
    fraction: u8,
}

impl Iterator for DigitGroups<'_> {
    type Item = DigitGroup;

    fn next(&mut self) -> Option<DigitGroup> {
        const DIGITS: u8 = 9;
        // The incomplete group comes first before the decimal point, and last after it.
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
            // The very first bit is the sign.
            let sign = if self.offset + index == 0 { 0x80 } else { 0 };
            number = number << 8 | u32::from(byte ^ sign ^ self.mask);
        }
        let group = DigitGroup { number, digits, is_fraction, offset: self.offset };
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

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::Decimal;
    use crate::error::{DecodeError, DecodeReason};

    fn check(precision: u8, scale: u8, bytes: &[u8], expected: &str) {
        let text = Decimal::new(bytes, precision, scale).map(|decimal| decimal.to_string());
        assert_eq!(text.as_deref(), Ok(expected), "DECIMAL({precision},{scale}) {bytes:02x?}");
    }

    fn check_error(precision: u8, scale: u8, bytes: &[u8], offset: usize, reason: DecodeReason) {
        assert_eq!(Decimal::new(bytes, precision, scale), Err(DecodeError::new(offset, reason)));
    }

    #[test]
    fn incomplete_groups_of_digits() {
        check(1, 0, &[0x85], "5");
        check(2, 0, &[0x80 | 42], "42");
        check(3, 0, &[0x83, 0xe7], "999");
        check(4, 0, &[0xa7, 0x0f], "9999");
        check(5, 0, &[0x81, 0x86, 0x9f], "99999");
        check(6, 0, &[0x8f, 0x42, 0x3f], "999999");
        check(7, 0, &[0x80, 0x98, 0x96, 0x7f], "9999999");
        check(8, 0, &[0x85, 0xf5, 0xe0, 0xff], "99999999");
        check(9, 0, &[0xbb, 0x9a, 0xc9, 0xff], "999999999");
        check(10, 0, &[0x81, 0, 0, 0, 7], "1000000007");
        check(1, 1, &[0x85], "0.5");
        check(3, 3, &[0x80, 7], "0.007");
        check(10, 10, &[0x80, 0, 0, 1, 2], "0.0000000012");
    }

    #[test]
    fn digits_before_and_after_the_point() {
        // The example of MySQL's manual: 1234567890.1234.
        check(14, 4, &[0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2], "1234567890.1234");
        check(14, 4, &[0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d], "-1234567890.1234");
        check(4, 2, &[0x80, 0], "0.00");
        check(4, 2, &[0x7f, 0xfe], "-0.01");
        check(4, 2, &[0x80, 0x05], "0.05");
        check(11, 2, &[0x80, 0, 0, 100, 9], "100.09");
        check(0, 0, &[], "0");
    }

    #[test]
    fn sixty_five_digits() {
        // Seven groups of nine digits, preceded by two digits.
        let mut whole = vec![0x80 | 99];
        whole.extend([0x3b, 0x9a, 0xc9, 0xff].repeat(7));
        check(65, 0, &whole, &"9".repeat(65));
        let mut half = vec![0x85, 0xf5, 0xe0, 0xff];
        half.extend([0x3b, 0x9a, 0xc9, 0xff].repeat(6));
        half.extend([0x03, 0xe7]);
        check(65, 30, &half, &format!("{}.{}", "9".repeat(35), "9".repeat(30)));
        let zero: Vec<u8> =
            half.iter().enumerate().map(|(index, _)| if index == 0 { 0x80 } else { 0 }).collect();
        check(65, 30, &zero, &format!("0.{}", "0".repeat(30)));
        let minus: Vec<u8> = half.iter().map(|byte| !byte).collect();
        check(65, 30, &minus, &format!("-{}.{}", "9".repeat(35), "9".repeat(30)));
    }

    #[test]
    fn corrupt_bytes() {
        let size = |found, expected| DecodeReason::Differs { field: "size of DECIMAL", found, expected };
        check_error(4, 2, &[0x80], 0, size(1, 2));
        check_error(4, 2, &[0x80, 0, 0], 0, size(3, 2));
        let digits =
            |found, max| DecodeReason::OutOfRange { field: "group of digits of DECIMAL", found, max };
        check_error(4, 2, &[0x80, 100], 1, digits(100, 99));
        check_error(9, 0, &[0xbb, 0x9a, 0xca, 0x00], 0, digits(1_000_000_000, 999_999_999));
        let precision = DecodeReason::OutOfRange { field: "precision of DECIMAL", found: 82, max: 81 };
        check_error(82, 0, &[0; 37], 0, precision);
    }

    proptest! {
        #[test]
        fn any_bytes_are_digits_or_an_error(bytes: Vec<u8>, precision in any::<u8>(), scale in any::<u8>()) {
            if let Ok(decimal) = Decimal::new(&bytes, precision, scale) {
                let text = decimal.to_string();
                let digits = text.bytes().filter(u8::is_ascii_digit).count();
                assert!(digits <= usize::from(precision) + 1, "{text}");
                assert_eq!(text.starts_with('-'), decimal.is_negative());
                assert_eq!(text.split_once('.').map_or(0, |(_, after)| after.len()), usize::from(scale));
            }
        }
    }
}

//! Writes numbers in decimal into bytes, as C's `printf` does.

use std::io::Write;

/// Appends `value` in decimal.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    if value < EIGHT_DIGITS {
        put_short(out, value);
    } else {
        put_u64(out, u64::from(value));
    }
}

/// Appends `value` in decimal.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    const SIXTEEN_DIGITS: u64 = (EIGHT_DIGITS as u64) * (EIGHT_DIGITS as u64);
    let low = (value % u64::from(EIGHT_DIGITS)) as u32;
    match value {
        value if value < u64::from(EIGHT_DIGITS) => return put_short(out, low),
        value if value < SIXTEEN_DIGITS => put_short(out, (value / u64::from(EIGHT_DIGITS)) as u32),
        value => {
            put_short(out, (value / SIXTEEN_DIGITS) as u32);
            put_eight(out, (value / u64::from(EIGHT_DIGITS) % u64::from(EIGHT_DIGITS)) as u32);
        }
    }
    put_eight(out, low);
}

/// Appends `value` in decimal.
#[inline]
pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    put_u64(out, value.unsigned_abs());
}

/// Appends the last two digits of `value`.
#[inline]
pub fn put_two(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&two_digits(value));
}

/// Appends the last four digits of `value`.
#[inline]
pub fn put_four(out: &mut Vec<u8>, value: u32) {
    let [a, b] = two_digits(value / 100);
    let [c, d] = two_digits(value);
    out.extend_from_slice(&[a, b, c, d]);
}

/// Appends `value` in at least `width` digits.
#[inline]
pub fn put_padded(out: &mut Vec<u8>, value: u64, width: usize) {
    match (width, value) {
        (2, 0..100) => put_two(out, value as u32),
        _ => put_any_padded(out, value, width),
    }
}

fn put_any_padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let start = out.len();
    put_u64(out, value);
    let digits = out.len() - start;
    if digits < width {
        out.splice(start..start, std::iter::repeat_n(b'0', width - digits));
    }
}

/// Appends the last `width` digits of `value`, padded with zeros.
pub fn put_last(out: &mut Vec<u8>, value: u64, width: usize) {
    put_padded(out, value % 10_u64.pow(width as u32), width);
}

/// Appends the last eight digits of `value`, padded with zeros.
#[inline]
pub fn put_eight(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&(eight_digits(value % EIGHT_DIGITS) | ZEROS).to_le_bytes());
}

/// Appends `value` as `%.Pg` does: `precision` significant digits, exact, without trailing zeros.
pub fn put_general(out: &mut Vec<u8>, value: f64, precision: usize) {
    if !value.is_finite() {
        return put_not_finite(out, value);
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let value = value.abs();
    let whole = value as u64;
    // Whole numbers, by far the most frequent, do not need the general code.
    if whole as f64 == value && whole < 10_u64.pow(precision.min(19) as u32) {
        return put_u64(out, whole);
    }
    let (digits, exponent) = SignificantDigits::of(value, precision);
    let digits = digits.without_trailing_zeros();
    if exponent < -4 || exponent >= precision as i32 {
        put_with_exponent(out, digits, exponent);
    } else {
        put_plain(out, digits, exponent);
    }
}

/// Appends `value` in the fewest digits that identify it, as MySQL shows a DOUBLE. Uses an exponent if the point would
/// be more than fifteen digits from the first digit.
pub fn put_shortest(out: &mut Vec<u8>, value: f64) {
    /// `DBL_DIG`: MySQL writes larger exponents in scientific notation.
    const PLAIN_MAX: i32 = 15;
    if !value.is_finite() {
        return out.push(b'0');
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let (digits, exponent) = SignificantDigits::shortest(value.abs());
    if (-PLAIN_MAX..PLAIN_MAX).contains(&exponent) {
        return put_plain(out, digits.as_slice(), exponent);
    }
    put_mantissa(out, digits.as_slice());
    out.push(b'e');
    put_i64(out, i64::from(exponent));
}

/// Appends `value` as `%.Pe` does: one digit, a point, `decimals` digits, the exponent.
pub fn put_exponential(out: &mut Vec<u8>, value: f64, decimals: usize) {
    if !value.is_finite() {
        return put_not_finite(out, value);
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let (digits, exponent) = SignificantDigits::of(value.abs(), decimals + 1);
    put_with_exponent(out, digits.as_slice(), exponent);
}

/// A number in decimal, for text that contains it several times.
#[derive(Clone, Copy)]
pub struct DecimalText {
    digits: [u8; Self::SIZE_MAX],
    /// Index of the first digit.
    start: u8,
}

impl DecimalText {
    const SIZE_MAX: usize = 24;

    /// Converts a number.
    #[inline]
    pub fn of(value: u64) -> Self {
        const EIGHT: u64 = EIGHT_DIGITS as u64;
        let groups = [value / EIGHT / EIGHT, value / EIGHT % EIGHT, value % EIGHT];
        let mut digits = [0; Self::SIZE_MAX];
        let mut skipped = 0;
        for (index, (slot, group)) in digits.as_chunks_mut::<8>().0.iter_mut().zip(groups).enumerate() {
            let group = eight_digits(group as u32);
            *slot = (group | ZEROS).to_le_bytes();
            if skipped == index as u32 * 8 {
                skipped += group.trailing_zeros().min(64) / 8;
            }
        }
        // The number zero keeps one digit.
        Self { digits, start: skipped.min(Self::SIZE_MAX as u32 - 1) as u8 }
    }

    /// Returns the digits without leading zeros.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[usize::from(self.start)..]
    }
}

/// The first number with more than eight digits.
const EIGHT_DIGITS: u32 = 100_000_000;

/// Eight characters `0`.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Appends a number below [`EIGHT_DIGITS`], without leading zeros.
#[inline]
fn put_short(out: &mut Vec<u8>, value: u32) {
    let digits = eight_digits(value);
    // The lowest byte is the first digit. The number zero keeps one digit.
    let skipped = (digits | 1 << 56).trailing_zeros() / 8;
    let text = (digits | ZEROS) >> (skipped * 8);
    let end = out.len() + 8 - skipped as usize;
    out.extend_from_slice(&text.to_le_bytes());
    out.truncate(end);
}

/// Returns the eight digits of a number below [`EIGHT_DIGITS`], one per byte, the first in the lowest byte. Splits the
/// number into halves, pairs and digits by multiplication instead of division.
#[inline]
const fn eight_digits(value: u32) -> u64 {
    let value = value as u64;
    let fours = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let pairs = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((pairs - tens * 10) << 8)
}

#[inline]
const fn two_digits(value: u32) -> [u8; 2] {
    [b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]
}

/// The significant digits of a number, in ASCII.
struct SignificantDigits {
    bytes: [u8; Self::SIZE_MAX],
    size: usize,
}

impl SignificantDigits {
    /// More than any format needs.
    const SIZE_MAX: usize = 32;

    /// Returns the first `count` significant digits, rounded correctly (ties to even), and the power of ten of the
    /// first digit.
    fn of(value: f64, count: usize) -> (Self, i32) {
        let decimals = count.min(Self::SIZE_MAX) - 1;
        Self::parse(format_args!("{value:.decimals$e}"))
    }

    /// Returns the fewest digits that identify the number, and the power of ten of the first digit.
    fn shortest(value: f64) -> (Self, i32) {
        Self::parse(format_args!("{value:e}"))
    }

    /// Parses one digit, a point, more digits, `e`, and the exponent.
    fn parse(formatted: std::fmt::Arguments<'_>) -> (Self, i32) {
        let mut text = [0; Self::SIZE_MAX + 16];
        let mut rest = &mut text[..];
        // The text is always shorter than the buffer.
        let _ = rest.write_fmt(formatted);
        let unused = rest.len();
        let text = &text[..text.len() - unused];
        let (mantissa, exponent) = match text.iter().position(|byte| *byte == b'e') {
            Some(slot) => (&text[..slot], &text[slot + 1..]),
            None => (text, &b"0"[..]),
        };
        let mut digits = Self { bytes: [b'0'; Self::SIZE_MAX], size: 0 };
        for digit in mantissa.iter().filter(|byte| **byte != b'.') {
            digits.bytes[digits.size] = *digit;
            digits.size += 1;
        }
        let exponent = std::str::from_utf8(exponent).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        (digits, exponent)
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.size]
    }

    fn without_trailing_zeros(&self) -> &[u8] {
        let size = self.as_slice().iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
        &self.bytes[..size]
    }
}

fn put_not_finite(out: &mut Vec<u8>, value: f64) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
    out.extend_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
}

/// Appends `1.25e+07`, with at least two digits of exponent.
fn put_with_exponent(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    put_mantissa(out, digits);
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    put_padded(out, u64::from(exponent.unsigned_abs()), 2);
}

fn put_mantissa(out: &mut Vec<u8>, digits: &[u8]) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
}

/// Appends `0.00125`, `12.5` or `1250`.
fn put_plain(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        out.resize(out.len() + whole - digits.len(), b'0');
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        put_eight, put_exponential, put_four, put_general, put_i64, put_last, put_padded, put_shortest,
        put_two, put_u32, put_u64,
    };

    #[test]
    fn whole_numbers() {
        for value in [0, 1, 9, 10, 99, 100, 12_345_678, 99_999_999, 100_000_000, u32::MAX] {
            check(|out| put_u32(out, value), &value.to_string());
        }
        for value in [0, 9, 99_999_999, 100_000_000, 9_999_999_999_999_999, 10_000_000_000_000_000, u64::MAX]
        {
            check(|out| put_u64(out, value), &value.to_string());
        }
        for power in 0..20 {
            for value in [10u64.pow(power) - 1, 10u64.pow(power), 10u64.pow(power) + 1] {
                check(|out| put_u64(out, value), &value.to_string());
            }
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            check(|out| put_i64(out, value), &value.to_string());
        }
    }

    #[test]
    fn numbers_of_a_width() {
        check(|out| put_two(out, 7), "07");
        check(|out| put_four(out, 2026), "2026");
        check(|out| put_four(out, 26), "0026");
        check(|out| put_eight(out, 1234), "00001234");
        check(|out| put_padded(out, 12, 6), "000012");
        check(|out| put_padded(out, 1_234_567, 6), "1234567");
        check(|out| put_last(out, 1_234_567, 6), "234567");
        check(|out| put_last(out, 1_000_007, 6), "000007");
    }

    #[test]
    fn general_numbers_equal_printfs() {
        for (value, precision, expected) in [
            (0.0, 20, "0"),
            (-0.0, 6, "-0"),
            (0.1, 20, "0.10000000000000000555"),
            (1e15, 20, "1000000000000000"),
            (1e19, 20, "10000000000000000000"),
            (1e20, 20, "1e+20"),
            (1e300, 20, "1.0000000000000000525e+300"),
            (5e-324, 20, "4.9406564584124654418e-324"),
            (1e-4, 20, "0.00010000000000000000479"),
            (1e-5, 20, "1.0000000000000000818e-05"),
            (-123.456, 20, "-123.45600000000000307"),
            (999_999.5, 6, "1e+06"),
            (123_456.0, 6, "123456"),
            (1_234_567.0, 6, "1.23457e+06"),
            (0.0001, 6, "0.0001"),
            // Exact ties are rounded to even.
            (100_000.5, 6, "100000"),
            (100_001.5, 6, "100002"),
            (f64::INFINITY, 6, "inf"),
            (f64::NEG_INFINITY, 6, "-inf"),
            (f64::NAN, 6, "nan"),
            (-f64::NAN, 6, "-nan"),
        ] {
            check(|out| put_general(out, value, precision), expected);
        }
    }

    #[test]
    fn shortest_numbers_equal_mysqls() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (100.0, "100"),
            (0.1, "0.1"),
            (-12_345.678_901_234_567, "-12345.678901234567"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (1e100, "1e100"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e308"),
        ] {
            check(|out| put_shortest(out, value), expected);
        }
    }

    #[test]
    fn exponential_numbers_equal_printfs() {
        for (value, expected) in [
            (0.0, "0.00000e+00"),
            (-0.0, "-0.00000e+00"),
            (1.0, "1.00000e+00"),
            (-1.5, "-1.50000e+00"),
            (3e38, "3.00000e+38"),
            (1e-30, "1.00000e-30"),
            (123_456_789.0, "1.23457e+08"),
            (1e100, "1.00000e+100"),
        ] {
            check(|out| put_exponential(out, value, 5), expected);
        }
    }

    #[track_caller]
    fn check(put: impl Fn(&mut Vec<u8>), expected: &str) {
        let mut out = b"before ".to_vec();
        put(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("before {expected}"));
    }
}

//! Numbers in options: a sign, digits, a unit from K to E, and limits.

/// Kind and limits of a numeric option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberKind {
    /// May be negative.
    Signed(NumberLimits<i64>),
    /// Not negative. Rounded down to a multiple of the second value, if that is above 1.
    Unsigned(NumberLimits<u64>, u64),
}

/// Limits of a numeric option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberLimits<T> {
    pub(crate) default: T,
    pub(crate) min: T,
    /// Maximum; 0 for none.
    pub(crate) max: T,
    /// Maximum of the variable's type.
    pub(crate) type_max: T,
}

/// A number within the limits, and whether they changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitedNumber<T> {
    pub(crate) value: T,
    pub(crate) adjusted: bool,
}

/// Error of parsing a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// The first byte that is neither digit nor unit.
    UnknownSuffix(u8),
    /// The number exceeds 64 bits.
    OutOfRange,
}

impl NumberLimits<i64> {
    /// Moves a value into the limits.
    pub(crate) fn clamp(&self, given: i64) -> LimitedNumber<i64> {
        let mut value = given;
        if value > 0 && self.max != 0 && value > self.max {
            value = self.max;
        }
        value = value.min(self.type_max);
        let mut adjusted = value != given;
        if value < self.min {
            value = self.min;
            adjusted |= given < self.min;
        }
        LimitedNumber { value, adjusted }
    }
}

impl NumberLimits<u64> {
    /// Moves a value into the limits and down to a multiple of `block`.
    pub(crate) fn clamp(&self, given: u64, block: u64) -> LimitedNumber<u64> {
        let mut value = given;
        if self.max != 0 && value > self.max {
            value = self.max;
        }
        value = value.min(self.type_max);
        let mut adjusted = value != given;
        if block > 1 {
            value -= value % block;
        }
        if value < self.min {
            value = self.min;
            adjusted |= given < self.min;
        }
        LimitedNumber { value, adjusted }
    }
}

/// Returns whether the text is a negative number.
pub(crate) fn is_negative(text: &[u8]) -> bool {
    skip_space(text).first() == Some(&b'-')
}

/// Parses digits and a unit.
pub(crate) fn parse_unsigned(text: &[u8]) -> Result<u64, NumberError> {
    let (_, magnitude, rest) = scan(text);
    let value = magnitude.ok_or(NumberError::OutOfRange)?;
    scale(value, rest)
}

/// Parses a sign, digits and a unit.
pub(crate) fn parse_signed(text: &[u8]) -> Result<i64, NumberError> {
    let (negative, magnitude, rest) = scan(text);
    let most = if negative { 1 << 63 } else { (1 << 63) - 1 };
    let value = magnitude.filter(|value| *value <= most).ok_or(NumberError::OutOfRange)?;
    let value = scale(value, rest)?;
    match (negative, value) {
        (true, value) if value <= 1 << 63 => Ok(value.wrapping_neg().cast_signed()),
        (false, value) if value < 1 << 63 => Ok(value.cast_signed()),
        _ => Err(NumberError::OutOfRange),
    }
}

fn skip_space(text: &[u8]) -> &[u8] {
    let space = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    &text[space..]
}

/// Splits text into sign, digits (`None` on overflow) and the rest. Without digits, all of the text is the rest.
fn scan(text: &[u8]) -> (bool, Option<u64>, &[u8]) {
    let trimmed = skip_space(text);
    let (negative, unsigned) = match trimmed.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, trimmed),
    };
    let count = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return (false, Some(0), text);
    }
    let (digits, rest) = unsigned.split_at(count);
    let value = digits
        .iter()
        .try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    (negative, value, rest)
}

fn scale(value: u64, rest: &[u8]) -> Result<u64, NumberError> {
    let Some(unit) = rest.first() else { return Ok(value) };
    let shift = match unit.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        b't' => 40,
        b'p' => 50,
        b'e' => 60,
        _ => return Err(NumberError::UnknownSuffix(*unit)),
    };
    match value << shift >> shift == value {
        true => Ok(value << shift),
        false => Err(NumberError::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::{NumberError, NumberLimits, parse_signed, parse_unsigned};

    #[test]
    fn units_and_ranges() {
        let check = |text: &str, expected| assert_eq!(parse_unsigned(text.as_bytes()), expected, "{text}");
        check("12", Ok(12));
        check("5k", Ok(5120));
        check("5Kzzz", Ok(5120));
        check("1E", Ok(1 << 60));
        check("16E", Err(NumberError::OutOfRange));
        check("18446744073709551615", Ok(u64::MAX));
        check("18446744073709551616", Err(NumberError::OutOfRange));
        check("abc", Err(NumberError::UnknownSuffix(b'a')));
        check("1z", Err(NumberError::UnknownSuffix(b'z')));
    }

    #[test]
    fn signs() {
        let check = |text: &str, expected| assert_eq!(parse_signed(text.as_bytes()), expected, "{text}");
        check("-12", Ok(-12));
        check("-1k", Ok(-1024));
        check("9223372036854775808", Err(NumberError::OutOfRange));
        check("-9223372036854775808", Ok(i64::MIN));
    }

    #[test]
    fn limits() {
        let check = |limits: NumberLimits<u64>, block, given, expected| {
            let found = limits.clamp(given, block);
            assert_eq!((found.value, found.adjusted), expected, "{given}");
        };
        let bits = NumberLimits { default: 32, min: 7, max: 32, type_max: u64::from(u32::MAX) };
        check(bits, 0, 50, (32, true));
        check(bits, 0, 0, (7, true));
        check(bits, 0, 9, (9, false));
        let size = NumberLimits { default: 0, min: 256, max: u64::MAX, type_max: u64::MAX };
        check(size, 256, 300, (256, false));
        check(size, 256, 100, (256, true));
    }
}

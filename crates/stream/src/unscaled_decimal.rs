//! The unscaled value of an exact number as bytes, the format of Kafka Connect's Decimal.

/// Returns the two's complement of the unscaled value, most significant byte first, in as few bytes as possible. The
/// number is given as text: digits, optionally with a sign and a decimal point.
pub(crate) fn unscaled_from_text<'s>(text: &[u8], bytes: &'s mut Vec<u8>) -> &'s [u8] {
    /// Number of digits that always fit into 16 bytes.
    const SHORT_MAX: usize = 38;
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).map(|digit| digit - b'0');
    let is_negative = text.first() == Some(&b'-');
    bytes.clear();
    if text.len() <= SHORT_MAX {
        let absolute = digits.fold(0_i128, |number, digit| number * 10 + i128::from(digit));
        let number = if is_negative { -absolute } else { absolute };
        bytes.extend_from_slice(&number.to_be_bytes());
    } else {
        digits.for_each(|digit| multiply_and_add(bytes, digit));
        bytes.push(0);
        if is_negative {
            negate(bytes);
        }
        bytes.reverse();
    }
    trim_sign_bytes(bytes)
}

/// Passes the two's complement of a whole number to `put`.
pub(crate) fn unscaled_integer(number: u64, put: impl FnOnce(&[u8])) {
    put(trim_sign_bytes(&i128::from(number).to_be_bytes()));
}

/// Multiplies a number by ten and adds a digit; least significant byte first.
fn multiply_and_add(bytes: &mut Vec<u8>, digit: u8) {
    let mut carry = u16::from(digit);
    for byte in bytes.iter_mut() {
        let product = u16::from(*byte) * 10 + carry;
        *byte = product as u8;
        carry = product >> 8;
    }
    if carry > 0 {
        bytes.push(carry as u8);
    }
}

/// Negates a number in two's complement; least significant byte first.
fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes {
        let (sum, overflows) = (!*byte).overflowing_add(u8::from(carry));
        (*byte, carry) = (sum, overflows);
    }
}

/// Removes leading bytes that only extend the sign.
fn trim_sign_bytes(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && let Some(next) = rest.first()
        && (*first == 0 && next & 0x80 == 0 || *first == 0xff && next & 0x80 != 0)
    {
        bytes = rest;
    }
    bytes
}

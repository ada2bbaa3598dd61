//! Text of floating-point numbers in JSON, as MySQL writes it.

use std::io::Write as _;

/// Appends the shortest digits that parse to the same number, in the form used in JSON text.
///
/// The plain form (`0.001`, `100.0`) is used if the decimal point is between digits or at most fifteen places away
/// from the first digit; otherwise the exponent form (`1e20`, `1.5e-20`).
pub(super) fn put_double(out: &mut Vec<u8>, number: f64) {
    let mut scientific = [0; 32];
    let mut rest = &mut scientific[..];
    // Rust writes the shortest digits, and the nearest among those, like MySQL's dtoa.
    if !number.is_finite() || write!(rest, "{:e}", number.abs()).is_err() {
        // JSON has no infinities and NaNs; servers write 0 for them.
        return out.extend_from_slice(b"0.0");
    }
    let unused = rest.len();
    let used = &scientific[..scientific.len() - unused];
    let Some(split) = used.iter().position(|byte| *byte == b'e') else { return };
    let exponent = exponent(&used[split + 1..]);
    let mut digits = [0; 20];
    let mut count = 0;
    for digit in used[..split].iter().filter(|byte| **byte != b'.') {
        digits[count] = *digit;
        count += 1;
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    // The point follows this many digits.
    put_digits_with_point(out, &digits[..count], exponent + 1);
}

fn exponent(text: &[u8]) -> i32 {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    sign * digits.iter().fold(0, |number, digit| number * 10 + i32::from(digit - b'0'))
}

fn put_digits_with_point(out: &mut Vec<u8>, digits: &[u8], point: i32) {
    const DECIMALS_MAX: i32 = 15;
    let count = digits.len() as i32;
    if point < 1 - DECIMALS_MAX || (point > DECIMALS_MAX && count <= point) {
        put_scientific(out, digits, point - 1);
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend((point..0).map(|_| b'0'));
        out.extend_from_slice(digits);
    } else if count <= point {
        out.extend_from_slice(digits);
        out.extend((count..point).map(|_| b'0'));
        out.extend_from_slice(b".0");
    } else {
        let (whole, fraction) = digits.split_at(point as usize);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
}

fn put_scientific(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    let (first, others) = digits.split_at(1);
    out.extend_from_slice(first);
    if !others.is_empty() {
        out.push(b'.');
        out.extend_from_slice(others);
    }
    out.push(b'e');
    // Writing to a `Vec` does not fail.
    let _ = write!(out, "{exponent}");
}

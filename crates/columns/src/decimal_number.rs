//! Exact numbers as integers without a decimal point.

use arrow_buffer::i256;
use binlog::Decimal;

/// Returns the number without its decimal point. It must have at most 38 digits.
pub(crate) fn to_i128(decimal: &Decimal<'_>) -> i128 {
    let groups = decimal.groups();
    let absolute = groups.fold(0_i128, |number, group| {
        let shift = 10_i128.pow(u32::from(group.digits));
        number.wrapping_mul(shift).wrapping_add(i128::from(group.number))
    });
    if decimal.is_negative() { -absolute } else { absolute }
}

/// Returns the number without its decimal point. It must have at most 76 digits.
pub(crate) fn to_i256(decimal: &Decimal<'_>) -> i256 {
    let groups = decimal.groups();
    let absolute = groups.fold(i256::ZERO, |number, group| {
        let shift = i256::from_i128(10_i128.pow(u32::from(group.digits)));
        number.wrapping_mul(shift).wrapping_add(i256::from_i128(i128::from(group.number)))
    });
    if decimal.is_negative() { absolute.wrapping_neg() } else { absolute }
}

#[cfg(test)]
mod tests {
    use binlog::Decimal;
    use proptest::prelude::{any, prop, proptest};

    use super::{to_i128, to_i256};

    /// Returns the stored form of digits before and after the decimal point.
    fn stored(digits: &[u8], scale: usize, is_negative: bool) -> Vec<u8> {
        const SIZES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let (first, rest) = whole.split_at(whole.len() % 9);
        let mut bytes = Vec::new();
        for group in [first].into_iter().chain(rest.chunks(9)).chain(fraction.chunks(9)) {
            let number = group.iter().fold(0_u32, |number, digit| number * 10 + u32::from(*digit));
            bytes.extend_from_slice(&number.to_be_bytes()[4 - SIZES[group.len()]..]);
        }
        if let Some(first) = bytes.first_mut() {
            *first ^= 0x80;
        }
        if is_negative {
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
        }
        bytes
    }

    proptest! {
        #[test]
        fn numbers_have_the_digits_of_their_text(
            digits in prop::collection::vec(0_u8..10, 1..66), scale in any::<usize>(), is_negative: bool,
        ) {
            let scale = scale % (digits.len().min(30) + 1);
            let bytes = stored(&digits, scale, is_negative);
            let decimal = Decimal::new(&bytes, digits.len() as u8, scale as u8).unwrap();
            let text: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
            let text = text.trim_start_matches('0');
            let sign = if is_negative && !text.is_empty() { "-" } else { "" };
            let expected = format!("{sign}{}", if text.is_empty() { "0" } else { text });
            assert_eq!(to_i256(&decimal).to_string(), expected);
            let shown = decimal.to_string().replace('.', "");
            let shown = shown.trim_start_matches('-').trim_start_matches('0');
            assert_eq!(shown, text);
            if digits.len() <= 38 {
                assert_eq!(to_i128(&decimal).to_string(), expected);
            }
        }

        #[test]
        fn any_bytes_are_a_number(bytes in any::<[u8; 32]>(), precision in 1_u8..66, scale in 0_u8..31) {
            for size in 0..bytes.len() {
                if let Ok(decimal) = Decimal::new(&bytes[..size], precision, scale) {
                    let number = to_i256(&decimal).to_string();
                    assert!(number.trim_start_matches('-').len() <= usize::from(precision), "{number}");
                }
            }
        }
    }
}

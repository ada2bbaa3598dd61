//! Spaces at the ends of bytes, by C's rules.

/// Returns whether the byte is a space in the C locale. Unlike [`u8::is_ascii_whitespace`], this includes the vertical
/// tab.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns the text from the first byte on that is no space, by the caller's rule.
pub fn trim_start(text: &[u8], is_space: impl Fn(u8) -> bool) -> &[u8] {
    let count = text.iter().take_while(|byte| is_space(**byte)).count();
    &text[count..]
}

/// Returns the text up to the last byte that is no space, by the caller's rule.
pub fn trim_end(text: &[u8], is_space: impl Fn(u8) -> bool) -> &[u8] {
    let count = text.iter().rev().take_while(|byte| is_space(**byte)).count();
    &text[..text.len() - count]
}

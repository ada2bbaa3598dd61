//! Errors of the operating system, as MySQL's programs print them.

use std::io;

/// `OS errno 2 - No such file or directory`.
pub(crate) fn os_error(error: &io::Error) -> Vec<u8> {
    let code = error.raw_os_error().unwrap_or(0);
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("OS errno {code} - {text}").into_bytes()
}

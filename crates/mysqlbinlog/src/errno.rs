//! Errors of the operating system, as MySQL's programs print them.

use std::io;

/// Returns `OS errno 2 - No such file or directory`, or only the text for an error without an OS code.
pub(crate) fn os_error(error: &io::Error) -> Vec<u8> {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    match error.raw_os_error() {
        Some(code) => format!("OS errno {code} - {text}").into_bytes(),
        None => text.as_bytes().to_vec(),
    }
}

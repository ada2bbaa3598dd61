//! Options with a fixed set of words, which may be abbreviated if the abbreviation is unique.

use super::DumpExit;
use crate::dump_diagnostics::DumpDiagnostics;

/// Returns the index in `words` of the word that `text` abbreviates, ignoring case. Prints an error if there is none.
pub(crate) fn match_choice(
    text: &[u8],
    option: &str,
    words: &[&str],
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<usize, DumpExit> {
    match find(text, words) {
        Some(index) => Ok(index),
        None => {
            match text.is_empty() {
                true => diagnostics.plain(&[b"No option given to ", option.as_bytes()]),
                false => diagnostics.plain(&[b"Unknown option to ", option.as_bytes(), b": ", text]),
            }
            let words = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(",");
            diagnostics.plain(&[b"Alternatives are: ", words.as_bytes()]);
            Err(DumpExit::FAILURE)
        }
    }
}

fn find(text: &[u8], words: &[&str]) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    let starts =
        |word: &&str| word.as_bytes().get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text));
    if let Some(whole) = words.iter().position(|word| word.as_bytes().eq_ignore_ascii_case(text)) {
        return Some(whole);
    }
    let mut fits = words.iter().enumerate().filter(|(_, word)| starts(word));
    match (fits.next(), fits.next()) {
        (Some((index, _)), None) => Some(index),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn beginnings() {
        let check = |text: &str, expected| {
            assert_eq!(find(text.as_bytes(), &["NEVER", "AUTO", "ON", "ONLY"]), expected, "{text}");
        };
        check("a", Some(1));
        check("never", Some(0));
        check("on", Some(2));
        check("onl", Some(3));
        check("o", None);
        check("", None);
        check("neverx", None);
    }
}

//! Name that a user perhaps meant.

/// Returns the known name that differs from `name` by the fewest letters, at most a third of `letters`: the number of
/// letters that count, without a prefix that many names have. The limit is that of rustc's suggestions.
pub fn nearest_name<'n>(
    name: &str,
    letters: usize,
    known: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let distance_max = (letters / 3).max(1);
    let distances = known.into_iter().map(|known| (strsim::osa_distance(name, known), known));
    distances.filter(|(distance, _)| *distance <= distance_max).min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::nearest_name;

    #[test]
    fn names_that_differ_by_a_few_letters() {
        let check = |name: &str, letters: usize, expected: Option<&str>| {
            assert_eq!(nearest_name(name, letters, ["top", "rows", "keyring"]), expected, "{name}");
        };
        check("tpo", 3, Some("top"));
        check("row", 3, Some("rows"));
        check("keyrnig", 7, Some("keyring"));
        check("keys", 4, None);
        check("x", 1, None);
    }
}

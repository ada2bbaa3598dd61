//! Comments before a statement.

/// Returns a statement from its first word on, without leading whitespace and comments. Executable comments
/// (`/*! … */`) are kept.
pub(crate) fn without_comments(sql: &[u8]) -> &[u8] {
    let mut rest = sql.trim_ascii_start();
    while let Some(behind) = behind_comment(rest) {
        rest = behind.trim_ascii_start();
    }
    rest
}

/// Returns the text after a leading comment; `None` if there is no comment.
fn behind_comment(sql: &[u8]) -> Option<&[u8]> {
    let is_line = sql.starts_with(b"#")
        || sql.strip_prefix(b"--").is_some_and(|behind| behind.first().is_none_or(u8::is_ascii_whitespace));
    if is_line {
        return behind(sql, b"\n");
    }
    let text = sql.strip_prefix(b"/*")?;
    let is_code = text.starts_with(b"!") || text.starts_with(b"M!");
    if is_code { None } else { behind(text, b"*/") }
}

fn behind<'s>(sql: &'s [u8], end: &[u8]) -> Option<&'s [u8]> {
    let at = sql.windows(end.len()).position(|bytes| bytes == end)?;
    Some(&sql[at + end.len()..])
}

#[cfg(test)]
mod tests {
    use super::without_comments;

    #[test]
    fn leading_comments_are_skipped() {
        let check = |sql: &str, wanted: &str| {
            let found = without_comments(sql.as_bytes());
            assert_eq!(String::from_utf8_lossy(found), wanted, "{sql}");
        };
        check("  update t", "update t");
        check("/* by app */\n/**/ update t /* x */", "update t /* x */");
        check("-- one\n# two\n\tinsert", "insert");
        check("--1", "--1");
        for sql in ["/*! alter table t */", "/*M!100 x */ update", "/* open", "-- open", "#", ""] {
            check(sql, sql);
        }
    }
}

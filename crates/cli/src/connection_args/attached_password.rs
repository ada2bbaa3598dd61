//! Passwords that are attached to their option, as MySQL's programs accept them.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Commands with connection options.
const COMMANDS: [&str; 11] = [
    "receive", "relay", "replay", "stream", "warm", "advise", "stats", "undo", "export", "history", "archive",
];

/// Rewrites `-pPASSWORD` as `--password=PASSWORD`: clap expects an optional value after `=`.
pub(crate) fn with_long_passwords(args: Vec<OsString>) -> Vec<OsString> {
    let command = args.iter().skip(1).position(|word| COMMANDS.iter().any(|name| word == name));
    let Some(command) = command.map(|at| at + 1) else { return args };
    // Options of Replication Booster use the next argument as value.
    let takes_next = args.get(command).is_some_and(|word| word == "warm");
    let mut rest = args.into_iter();
    let mut words: Vec<OsString> = rest.by_ref().take(command + 1).collect();
    while let Some(word) = rest.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            words.push(word);
            words.extend(rest);
            return words;
        }
        let is_bare = bytes == b"-p" || bytes == b"--password";
        let attached = bytes.strip_prefix(b"-p").filter(|value| !value.is_empty());
        let next = rest
            .as_slice()
            .first()
            .filter(|next| is_bare && takes_next && !next.as_bytes().starts_with(b"-"));
        let value = match (attached, next) {
            (Some(value), _) => Some(value.to_vec()),
            (None, Some(next)) => Some(next.as_bytes().to_vec()),
            (None, None) => None,
        };
        if next.is_some() {
            rest.next();
        }
        words.push(match value {
            Some(value) => OsString::from_vec([b"--password=".as_slice(), &value].concat()),
            None if is_bare => OsString::from("--password"),
            None => word,
        });
    }
    words
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::with_long_passwords;

    #[test]
    fn passwords_that_are_attached() {
        let check = |line: &str, expected: &str| {
            let words = with_long_passwords(line.split(' ').map(OsString::from).collect());
            let words: Vec<String> =
                words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
            assert_eq!(words.join(" "), expected, "{line}");
        };
        check("bintide receive d -psecret", "bintide receive d --password=secret");
        check("bintide -q receive -p=s d", "bintide -q receive --password==s d");
        check("bintide receive -p d", "bintide receive --password d");
        check("bintide receive --password d", "bintide receive --password d");
        check("bintide history -psecret d", "bintide history --password=secret d");
        check("bintide stream -- -plog", "bintide stream -- -plog");
        // Options of Replication Booster use the next argument as value.
        check("bintide warm -p secret -t 1", "bintide warm --password=secret -t 1");
        check("bintide warm --password secret", "bintide warm --password=secret");
        check("bintide warm -p -t 1", "bintide warm --password -t 1");
        check("bintide verify -plog", "bintide verify -plog");
    }
}

//! The options that select option files, and the environment variables that they depend on.

use std::env;
use std::os::unix::ffi::OsStringExt;

/// Environment variables that affect option files.
#[derive(Clone, Debug, Default)]
pub struct OptionFileEnvironment {
    /// `HOME`: the user's home directory.
    pub home: Option<Vec<u8>>,
    /// `MYSQL_HOME`: one more directory with an option file.
    pub mysql_home: Option<Vec<u8>>,
    /// `MYSQL_GROUP_SUFFIX`: suffix of additional groups to read.
    pub group_suffix: Option<Vec<u8>>,
    /// `MYSQL_TEST_LOGIN_FILE`: path of the login file, instead of the default.
    pub login_file: Option<Vec<u8>>,
}

impl OptionFileEnvironment {
    /// Returns the environment of this process.
    pub fn of_process() -> Self {
        let get = |name: &str| env::var_os(name).map(OsStringExt::into_vec);
        Self {
            home: get("HOME"),
            mysql_home: get("MYSQL_HOME"),
            group_suffix: get("MYSQL_GROUP_SUFFIX"),
            login_file: get("MYSQL_TEST_LOGIN_FILE"),
        }
    }
}

/// The options that select option files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileChoice {
    /// `--no-defaults`: only the login file is read.
    pub none: bool,
    /// `--defaults-file`: this file is read instead of the default ones.
    pub only: Option<Vec<u8>>,
    /// `--defaults-extra-file`: this file is read after the global ones.
    pub extra: Option<Vec<u8>>,
    /// `--defaults-group-suffix`: suffix of additional groups to read.
    pub group_suffix: Option<Vec<u8>>,
    /// `--login-path`: group of the login file to read, too.
    pub login_path: Option<Vec<u8>>,
    /// `--no-login-paths`: the login file is not read.
    pub login_none: bool,
    /// `--print-defaults`: the options are printed, and nothing else is done.
    pub print: bool,
}

impl FileChoice {
    /// Takes these options off the front of a command line, and returns the rest of it.
    pub fn take<'w>(words: &'w [Vec<u8>], environment: &OptionFileEnvironment) -> (Self, &'w [Vec<u8>]) {
        let mut choice =
            Self { none: words.first().is_some_and(|word| word == b"--no-defaults"), ..Self::default() };
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            let first = rest.len() == words.len();
            if !choice.take_one(word, first) {
                break;
            }
            rest = after;
        }
        if let Some((word, after)) = rest.split_first()
            && word == b"--print-defaults"
        {
            choice.print = !choice.none;
            rest = after;
        }
        if choice.group_suffix.is_none() {
            choice.group_suffix.clone_from(&environment.group_suffix);
        }
        (choice, rest)
    }

    fn take_one(&mut self, word: &[u8], first: bool) -> bool {
        if first && word.starts_with(b"--no-defaults") {
            return true;
        }
        if word.starts_with(b"--no-login-paths") && !self.login_none {
            self.login_none = true;
            return true;
        }
        let one = |slot: &mut Option<Vec<u8>>, prefix: &str| match word.strip_prefix(prefix.as_bytes()) {
            Some(value) if slot.is_none() => {
                *slot = Some(value.to_vec());
                true
            }
            _ => false,
        };
        let files = !self.none
            && (one(&mut self.only, "--defaults-file=") || one(&mut self.extra, "--defaults-extra-file="));
        files
            || one(&mut self.group_suffix, "--defaults-group-suffix=")
            || one(&mut self.login_path, "--login-path=")
    }
}

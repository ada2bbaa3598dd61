//! Sources of an account's password.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use logs::open_regular;
use shell_command::{ShellCommand, ShellCommandError};

use crate::error::ConnectionError;
use crate::server_link::CancelToken;

/// Source of an account's password. Each new connection reads it again, so that expiring tokens are replaced.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum PasswordSource {
    /// The account has no password.
    #[default]
    None,
    /// This text is the password.
    Text(String),
    /// The password is the first line of this file.
    File(PathBuf),
    /// The password is the first line that this shell command prints.
    Command(String),
}

/// Time limit of a password command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a password in bytes. Cloud tokens have about two thousand.
const PASSWORD_MAX: u64 = 64 << 10;

impl PasswordSource {
    /// Returns whether the account has a password.
    pub const fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the present password; empty for an account without a password.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or the command fails.
    pub fn read(&self, cancel: &CancelToken) -> Result<String, ConnectionError> {
        match self {
            Self::None => Ok(String::new()),
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => read_password_file(path).map_err(ConnectionError::Password),
            Self::Command(command) => run_command(command, cancel),
        }
    }
}

/// Omits the password, and a command, which may contain a password.
impl fmt::Debug for PasswordSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::None => "None",
            Self::Text(_) => "Text(..)",
            Self::File(_) => "File(..)",
            Self::Command(_) => "Command(..)",
        })
    }
}

/// Returns the first line of a password file.
fn read_password_file(path: &Path) -> Result<String, String> {
    let unreadable = |error| format!("could not read the password file {}: {error}", path.display());
    // A pipe would be empty at the next connection, which would then log in without a password.
    let file = open_regular(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & MODE_OTHERS_WRITE != 0 {
        return Err(format!("all users may write to the password file {}: run chmod o-w", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(PASSWORD_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    first_line(&bytes).map_err(|why| format!("the password file {}: {why}", path.display()))
}

/// Permission of all users to write to a file.
const MODE_OTHERS_WRITE: u32 = 0o002;

fn first_line(bytes: &[u8]) -> Result<String, String> {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.len() as u64 > PASSWORD_MAX {
        return Err(format!("the first line is longer than {PASSWORD_MAX} bytes"));
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8(line.to_vec()).map_err(|_| "the first line is not UTF-8".to_owned())
}

/// Runs a shell command, and returns the first line that it prints.
fn run_command(text: &str, cancel: &CancelToken) -> Result<String, ConnectionError> {
    let failed = |why: String| ConnectionError::Password(format!("the password command failed: {why}"));
    let command = ShellCommand { text, timeout: COMMAND_TIMEOUT, output_max: PASSWORD_MAX };
    let output = command.run(|| cancel.is_cancelled()).map_err(|error| match error {
        ShellCommandError::Cancelled => ConnectionError::Cancelled,
        error => failed(error.to_string()),
    })?;
    let line = first_line(&output).map_err(failed)?;
    match line.is_empty() {
        true => Err(failed("it printed nothing".to_owned())),
        false => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::PasswordSource;
    use crate::error::ConnectionError;
    use crate::server_link::CancelToken;

    #[test]
    fn passwords_of_commands() {
        let check = |command: &str, expected: Result<&str, &str>| {
            let read = PasswordSource::Command(command.to_owned()).read(&CancelToken::default());
            let read = read.map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expected, "{command}");
        };
        check("echo secret", Ok("secret"));
        check("printf 'a b\\r\\nmore'", Ok("a b"));
        check("printf secret", Ok("secret"));
        check("true", Err("the password command failed: it printed nothing"));
        check("echo secret; exit 3", Err("the password command failed: exit status: 3"));
        check(
            "head -c 70000 /dev/zero | tr '\\0' x",
            Err("the password command failed: it printed more than 65536 bytes"),
        );
    }

    #[test]
    fn password_files_that_all_users_may_write_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        fs::write(&path, "secret\nmore\n").unwrap();
        let check = |mode: u32, expected: Result<&str, String>| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = PasswordSource::File(path.clone()).read(&CancelToken::default());
            assert_eq!(read.map_err(|error| error.to_string()), expected.map(str::to_owned), "{mode:o}");
        };
        check(0o600, Ok("secret"));
        check(0o664, Ok("secret"));
        let refused = format!("all users may write to the password file {}: run chmod o-w", path.display());
        check(0o602, Err(refused));
    }

    #[test]
    fn hanging_commands_are_cancelled() {
        let cancel = CancelToken::default();
        cancel.cancel();
        let read = PasswordSource::Command("sleep 60".to_owned()).read(&cancel);
        assert!(matches!(read, Err(ConnectionError::Cancelled)), "{read:?}");
    }

    #[test]
    fn passwords_are_never_shown() {
        for source in [PasswordSource::Text("secret".into()), PasswordSource::Command("echo secret".into())] {
            assert!(!format!("{source:?}").contains("secret"));
        }
    }
}

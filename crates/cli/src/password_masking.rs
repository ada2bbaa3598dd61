//! Command line arguments, without passwords in the process list.
//!
//! `ps` shows all users the arguments of a process. MySQL's programs overwrite their arguments, which safe code cannot
//! do. If its arguments contain a password, bintide re-executes itself with masked passwords. The original arguments
//! are in a memory file of this process.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use nix::sys::memfd::{MFdFlags, memfd_create};

/// Variable with the location of the arguments: the process id, and the file descriptor.
const ARGUMENTS_VARIABLE: &str = "_BINTIDE_ARGUMENTS";
const ARGUMENTS_FILE_NAME: &str = "bintide-arguments";
/// Text in place of a password. As in MySQL's programs, it does not show the password's length.
const MASK: &[u8] = b"x";

/// Returns the arguments. If the passwords cannot be hidden, they stay visible, as with MySQL's programs during their
/// start.
pub(crate) fn read_arguments() -> Vec<OsString> {
    if is_restarted() {
        return read_kept_arguments().unwrap_or_else(|| {
            // The arguments of this process have masks instead of passwords, so they are useless, and so is another
            // restart.
            eprintln!(
                "bintide: could not read the password of the command line: /proc/self/fd is not readable; use \
                 --password-file"
            );
            process::exit(2)
        });
    }
    let arguments: Vec<OsString> = env::args_os().collect();
    if let Some(masked) = mask_passwords(&arguments) {
        let _ = restart_masked(&arguments, &masked);
    }
    arguments
}

/// Returns whether this process has re-executed itself. A child inherits the variable, but has another process id.
fn is_restarted() -> bool {
    env::var(ARGUMENTS_VARIABLE).is_ok_and(|text| {
        text.split_once(' ').is_some_and(|(process, _)| process.parse() == Ok(process::id()))
    })
}

/// Returns the arguments that this process saved before it re-executed itself.
fn read_kept_arguments() -> Option<Vec<OsString>> {
    let text = env::var(ARGUMENTS_VARIABLE).ok()?;
    let number: i32 = text.split_once(' ')?.1.parse().ok()?;
    let path = PathBuf::from(format!("/proc/self/fd/{number}"));
    let is_ours =
        |target: PathBuf| target.to_string_lossy().starts_with(&format!("/memfd:{ARGUMENTS_FILE_NAME}"));
    fs::read_link(&path).ok().filter(|target| is_ours(target.clone()))?;
    let mut file = File::options().read(true).write(true).open(&path).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    // Later readers of this process's files find no password.
    let _ = file.set_len(0);
    let _ = nix::unistd::close(number);
    Some(bytes.split(|byte| *byte == 0).map(|argument| OsString::from_vec(argument.to_vec())).collect())
}

/// Re-executes this program. Returns only if that fails.
fn restart_masked(arguments: &[OsString], masked: &[OsString]) -> Option<()> {
    let name = masked.first()?;
    // Without MFD_CLOEXEC, the file stays open in the new program.
    let mut file = File::from(memfd_create(ARGUMENTS_FILE_NAME, MFdFlags::empty()).ok()?);
    file.write_all(&arguments.join(OsStr::from_bytes(b"\0")).into_vec()).ok()?;
    let owner = format!("{} {}", process::id(), file.as_raw_fd());
    let _ =
        Command::new(program_path(name)?).arg0(name).args(&masked[1..]).env(ARGUMENTS_VARIABLE, owner).exec();
    None
}

/// Returns this program's path under the name of the call, because the process list shows this name.
fn program_path(name: &OsStr) -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let is_own = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == own);
    let named = match Path::new(name).components().count() {
        0 | 1 => env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .map(|directory| directory.join(name))
            .find(is_own),
        _ => Some(PathBuf::from(name)).filter(is_own),
    };
    Some(named.unwrap_or(own))
}

/// Returns the arguments with masks in place of passwords; `None` if there is no password.
fn mask_passwords(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let mut has_password = false;
    // `warm` accepts passwords as the argument after their option.
    let is_warm = arguments.iter().any(|argument| argument == "warm");
    let mut is_after_option = false;
    let masked = arguments.iter().map(|argument| {
        let bytes = argument.as_bytes();
        let masked = match is_after_option && !bytes.starts_with(b"-") {
            true => Some(MASK.to_vec()),
            false => mask_option(bytes, is_warm.then_some(b'b')).or_else(|| mask_url(bytes)),
        };
        is_after_option = is_warm
            && [&b"-p"[..], b"-b", b"--password", b"--admin_password", b"--admin-password"].contains(&bytes);
        has_password |= masked.is_some();
        masked.map_or_else(|| argument.clone(), OsString::from_vec)
    });
    let masked = masked.collect();
    has_password.then_some(masked)
}

/// Masks `--password=X`, also abbreviated or with a prefix, and `-pX`, also after letters of options without values.
fn mask_option(argument: &[u8], other_letter: Option<u8>) -> Option<Vec<u8>> {
    const LETTERS_WITHOUT_VALUES: &[u8] = b"?CDFfHRcijqstvV";
    let option = argument.strip_prefix(b"-")?;
    if let Some(long) = option.strip_prefix(b"-") {
        let at = long.iter().position(|byte| *byte == b'=')?;
        let name = String::from_utf8_lossy(&long[..at]).replace('_', "-");
        let name = name.strip_prefix("loose-").unwrap_or(&name);
        let is_password = (name.len() > 1 && "password".starts_with(name))
            || name.trim_end_matches(['1', '2', '3']).ends_with("password");
        return (is_password && at + 1 < long.len()).then(|| [b"--", &long[..=at], MASK].concat());
    }
    let is_password = |letter: u8| letter == b'p' || Some(letter) == other_letter;
    let at = option.iter().position(|letter| !LETTERS_WITHOUT_VALUES.contains(letter))?;
    (is_password(option[at]) && at + 1 < option.len()).then(|| [b"-", &option[..=at], MASK].concat())
}

/// Masks all passwords of an address, also after an option's name.
fn mask_url(argument: &[u8]) -> Option<Vec<u8>> {
    let address = mask_address(argument);
    mask_query(address.as_deref().unwrap_or(argument)).or(address)
}

/// Masks passwords in the query of an address: `mysql://user@host/?password=X`.
fn mask_query(argument: &[u8]) -> Option<Vec<u8>> {
    let start = argument.windows(3).position(|bytes| bytes == b"://")? + 3;
    let query = start + argument[start..].iter().position(|byte| *byte == b'?')? + 1;
    let mut masked = argument[..query].to_vec();
    for (index, pair) in argument[query..].split(|byte| *byte == b'&').enumerate() {
        if index > 0 {
            masked.push(b'&');
        }
        let is_password = |name: &[u8]| {
            name.strip_prefix(b"password").is_some_and(|rest| matches!(rest, b"" | b"1" | b"2" | b"3"))
        };
        match pair.iter().position(|byte| *byte == b'=') {
            Some(at) if is_password(&pair[..at]) && at + 1 < pair.len() => {
                masked.extend_from_slice(&pair[..=at]);
                masked.extend_from_slice(MASK);
            }
            _ => masked.extend_from_slice(pair),
        }
    }
    (masked != argument).then_some(masked)
}

/// Masks the password of an address: `mysql://user:X@host/`.
fn mask_address(argument: &[u8]) -> Option<Vec<u8>> {
    let start = argument.windows(3).position(|bytes| bytes == b"://")? + 3;
    let front = argument[start..].split(|byte| *byte == b'/').next()?;
    let last_at = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'@');
    // A password may have a slash that should be written as %2F.
    let end = start + last_at(front).or_else(|| last_at(&argument[start..]))?;
    let colon = start + argument[start..end].iter().position(|byte| *byte == b':')?;
    (colon + 1 < end).then(|| [&argument[..=colon], MASK, &argument[end..]].concat())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::mask_passwords;

    fn check(line: &str, expected: Option<&str>) {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let found = mask_passwords(&arguments).map(|words| words.join(" ".as_ref()).into_string().unwrap());
        assert_eq!(found.as_deref(), expected, "{line}");
    }

    #[test]
    fn passwords_are_masked_in_all_places() {
        for (line, expected) in [
            ("mysqlbinlog -R -uroot -psecret binlog.000001", "mysqlbinlog -R -uroot -px binlog.000001"),
            ("bintide dump -vvpsecret b", "bintide dump -vvpx b"),
            ("bintide dump --password=a=b --pass=x1 b", "bintide dump --password=x --pass=x b"),
            (
                "bintide x --to-password=s --loose_password1=s",
                "bintide x --to-password=x --loose_password1=x",
            ),
            ("bintide receive d --from mysql://r:s@h/", "bintide receive d --from mysql://r:x@h/"),
            ("bintide replay --to=mysql://r:a/b@c@h:3/", "bintide replay --to=mysql://r:x@h:3/"),
            (
                "bintide receive d --from=mysql://r@h/?timeout=9&password=s&password1=t",
                "bintide receive d --from=mysql://r@h/?timeout=9&password=x&password1=x",
            ),
            ("bintide receive d mysql://r:s@h/?password=t", "bintide receive d mysql://r:x@h/?password=x"),
            ("bintide warm -p secret -b other -u u", "bintide warm -p x -b x -u u"),
            ("bintide warm -bother --admin_password other", "bintide warm -bx --admin_password x"),
        ] {
            check(line, Some(expected));
        }
    }

    #[test]
    fn other_arguments_are_not_changed() {
        for line in [
            "bintide dump -R -p -hpost -P3306 -upeter binlog.000001",
            "bintide receive d --from mysql://r@h:3306/?a=b@c --password-file /tmp/p",
            "bintide receive d --from mysql://h/ --password --keyring=k",
            "bintide dump --password= --position=4 --p=3",
            "bintide stats -p",
        ] {
            check(line, None);
        }
    }
}

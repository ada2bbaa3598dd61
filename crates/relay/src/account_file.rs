//! File of a relay's accounts.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use logs::{FileAccess, FileLock, replace_file};
use option_files::nearest_name;
use toml::{Table, Value};
use wire::{PasswordPlugin, StoredPassword};

use crate::host_pattern::HostPattern;
use crate::log_form::FormChoice;
use crate::relay_account::{AccountRole, RelayAccount, RelayAccounts, TransportRequirement};

/// Maximum size of the file in bytes: far more than a relay needs.
const SIZE_MAX: u64 = 4 << 20;
/// Header of an account.
const HEADER: &str = "[[account]]";
/// Keys of an account.
const KEYS: [&str; 7] = ["name", "hosts", "password", "role", "require", "form", "connections"];

/// File of a relay's accounts, `accounts.toml`. Only its owner and group may read it.
#[derive(Clone, Debug)]
pub struct AccountFile {
    path: PathBuf,
}

/// Error of reading or changing a file of accounts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountFileError {
    /// The operating system has returned an error.
    #[error("could not {verb} {path}: {cause}", path = path.display())]
    Io {
        /// Action that failed.
        verb: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// Other users can read the hashes.
    #[error("all users can access {path}: it holds hashes of passwords; run `chmod o= {path}`", path = path.display())]
    Exposed {
        /// Path of the file.
        path: PathBuf,
    },
    /// The text is not valid.
    #[error("{path}: {message}", path = path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// The fault, and its position in the file.
        message: String,
    },
    /// Another process changes the file.
    #[error("another process is changing {path}; try again", path = path.display())]
    Locked {
        /// Path of the file.
        path: PathBuf,
    },
    /// An account for the same name and host exists.
    #[error("{path} already has an account {name:?} for the host {host}; remove it first", path = path.display())]
    Duplicate {
        /// Path of the file.
        path: PathBuf,
        /// Name of the account.
        name: String,
        /// Host of both accounts.
        host: String,
    },
    /// There is no account with this name.
    #[error("{path} has no account {name:?}", path = path.display())]
    UnknownName {
        /// Path of the file.
        path: PathBuf,
        /// Requested name.
        name: String,
    },
}

impl AccountFile {
    /// Creates the handle of a file, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file exists.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Reads the accounts; none if the file does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, users other than its owner and group can access it, or a part of the file is
    /// unknown or invalid.
    pub fn load(&self) -> Result<RelayAccounts, AccountFileError> {
        self.parse(&self.read_text()?).map(RelayAccounts::new)
    }

    /// Appends an account. Creates a missing file and its directory. Only the owner can access the directory.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or replaced, the account is invalid, or an account with its name and one of its
    /// hosts exists.
    pub fn add(&self, account: &RelayAccount) -> Result<(), AccountFileError> {
        if let Some(directory) = self.path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
            created.map_err(self.io("create the directory of"))?;
        }
        self.change(|mut text| {
            if !text.is_empty() {
                text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
            }
            text.push_str(&account_text(account));
            Ok(text)
        })
    }

    /// Removes all accounts of a name.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or replaced, or has no such account.
    pub fn remove(&self, name: &str) -> Result<(), AccountFileError> {
        self.change(|text| {
            let accounts = self.parse(&text)?;
            if !accounts.iter().any(|account| account.name == name) {
                return Err(AccountFileError::UnknownName { path: self.path.clone(), name: name.to_owned() });
            }
            let kept: Vec<bool> = accounts.iter().map(|account| account.name != name).collect();
            let text = keep_blocks(&text, &kept);
            let expected: Vec<RelayAccount> =
                accounts.into_iter().filter(|account| account.name != name).collect();
            match self.parse(&text) {
                Ok(found) if found == expected => Ok(text),
                _ => Err(self.content("the layout of its accounts is unusual: edit it by hand".to_owned())),
            }
        })
    }

    /// Replaces the text under a lock, if the result is valid.
    fn change(
        &self,
        edit: impl FnOnce(String) -> Result<String, AccountFileError>,
    ) -> Result<(), AccountFileError> {
        // Replace the target of a symbolic link, not the link.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let lock = FileLock::take(&path).map_err(self.io("lock"))?;
        let _lock = lock.ok_or_else(|| AccountFileError::Locked { path: self.path.clone() })?;
        let text = edit(self.read_text()?)?;
        self.parse(&text)?;
        replace_file(&path, text.as_bytes(), FileAccess::SameOwner).map_err(self.io("replace"))
    }

    fn read_text(&self) -> Result<String, AccountFileError> {
        let file = match logs::open_regular(&self.path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(String::new()),
            opened => opened.map_err(self.io("open"))?,
        };
        let metadata = file.metadata().map_err(self.io("read"))?;
        if metadata.permissions().mode() & 0o007 != 0 {
            return Err(AccountFileError::Exposed { path: self.path.clone() });
        }
        let mut text = String::new();
        file.take(SIZE_MAX + 1).read_to_string(&mut text).map_err(self.io("read"))?;
        if text.len() as u64 > SIZE_MAX {
            return Err(self.content(format!("expected at most {SIZE_MAX} bytes, found more")));
        }
        Ok(text)
    }

    fn parse(&self, text: &str) -> Result<Vec<RelayAccount>, AccountFileError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            self.content(format!("line {line}: {}", error.message()))
        })?;
        let accounts = parse_accounts(&table).map_err(|message| self.content(message))?;
        for (number, account) in accounts.iter().enumerate() {
            let before = accounts[..number].iter().filter(|before| before.name == account.name);
            if let Some(host) =
                before.flat_map(|before| &before.hosts).find(|host| account.hosts.contains(host))
            {
                return Err(AccountFileError::Duplicate {
                    path: self.path.clone(),
                    name: account.name.clone(),
                    host: host.to_string(),
                });
            }
        }
        Ok(accounts)
    }

    fn content(&self, message: String) -> AccountFileError {
        AccountFileError::Content { path: self.path.clone(), message }
    }

    fn io(&self, verb: &'static str) -> impl Fn(io::Error) -> AccountFileError {
        let path = self.path.clone();
        move |cause| AccountFileError::Io { verb, path: path.clone(), cause }
    }
}

/// Returns the text without the removed accounts. Comments and other text stay.
fn keep_blocks(text: &str, kept: &[bool]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut number = None;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with(HEADER) {
            number = Some(number.map_or(0, |number| number + 1));
        }
        if number.is_none_or(|number| kept.get(number).copied().unwrap_or(true)) {
            out.push_str(line);
        }
    }
    out
}

// Reading. Errors are messages without the path.

fn parse_accounts(table: &Table) -> Result<Vec<RelayAccount>, String> {
    refuse_unknown(table, &["account"])?;
    let accounts = match table.get("account") {
        None => return Ok(Vec::new()),
        Some(Value::Array(accounts)) => accounts,
        Some(_) => return Err(format!("`account` is not a list: start each account with {HEADER}")),
    };
    let parsed = accounts.iter().enumerate().map(|(number, account)| {
        let Value::Table(account) = account else {
            return Err(format!("account {} is not a table: start it with {HEADER}", number + 1));
        };
        let name = account.get("name").and_then(Value::as_str);
        let location =
            name.map_or_else(|| format!("account {}", number + 1), |name| format!("account {name:?}"));
        parse_account(account).map_err(|message| format!("{location}: {message}"))
    });
    parsed.collect()
}

fn parse_account(table: &Table) -> Result<RelayAccount, String> {
    refuse_unknown(table, &KEYS)?;
    let name = required(table, "name")?;
    if name.is_empty() || name.chars().count() > RelayAccount::NAME_MAX || name.contains(char::is_control) {
        return Err(format!("the name must have 1 to {} printable characters", RelayAccount::NAME_MAX));
    }
    let password = match required(table, "password")? {
        "" => StoredPassword::empty(PasswordPlugin::CachingSha2),
        text => StoredPassword::parse(text.as_bytes()).map_err(|error| error.to_string())?,
    };
    Ok(RelayAccount {
        name: name.to_owned(),
        hosts: parse_host_list(table)?,
        password,
        role: word(table, "role")?.unwrap_or(AccountRole::Replica),
        requirement: word(table, "require")?.unwrap_or(TransportRequirement::Anything),
        form: word(table, "form")?.unwrap_or(FormChoice::Auto),
        connections_max: connections(table)?,
    })
}

fn parse_host_list(table: &Table) -> Result<Vec<HostPattern>, String> {
    let expected = "`hosts` must be a list of texts with at least one host";
    let hosts = match table.get("hosts") {
        None => return Ok(vec![HostPattern::any()]),
        Some(Value::Array(hosts)) if !hosts.is_empty() => hosts,
        Some(_) => return Err(expected.to_owned()),
    };
    let host = |host: &Value| {
        let text = host.as_str().ok_or_else(|| expected.to_owned())?;
        text.parse::<HostPattern>().map_err(|error| error.to_string())
    };
    hosts.iter().map(host).collect()
}

fn connections(table: &Table) -> Result<Option<u32>, String> {
    let Some(value) = table.get("connections") else { return Ok(None) };
    let number =
        value.as_integer().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
    number.map(Some).ok_or_else(|| "`connections` must be a number, 1 or more".to_owned())
}

fn refuse_unknown(table: &Table, known: &[&str]) -> Result<(), String> {
    let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let nearest = nearest_name(key, key.len(), known.iter().copied());
    Err(match nearest {
        Some(nearest) => format!("unknown key `{key}`; did you mean `{nearest}`?"),
        None => format!("unknown key `{key}`; expected one of: {}", known.join(", ")),
    })
}

fn required<'t>(table: &'t Table, key: &str) -> Result<&'t str, String> {
    table.get(key).and_then(Value::as_str).ok_or_else(|| format!("`{key}` is missing, or is not a text"))
}

fn word<T: std::str::FromStr<Err: ToString>>(table: &Table, key: &str) -> Result<Option<T>, String> {
    let Some(value) = table.get(key) else { return Ok(None) };
    let text = value.as_str().ok_or_else(|| format!("`{key}` is not a text"))?;
    text.parse().map(Some).map_err(|error: T::Err| error.to_string())
}

// Writing.

fn account_text(account: &RelayAccount) -> String {
    let hosts: Vec<String> = account.hosts.iter().map(|host| quoted(&host.to_string())).collect();
    let password = account.password.to_text();
    let password = match std::str::from_utf8(&password) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        // MySQL's hash: its salt may be any bytes.
        _ => format!("0x{}", password.iter().map(|byte| format!("{byte:02X}")).collect::<String>()),
    };
    let mut text = format!(
        "{HEADER}\nname = {}\nhosts = [{}]\npassword = {}\nrole = \"{}\"\n",
        quoted(&account.name),
        hosts.join(", "),
        quoted(&password),
        account.role,
    );
    if account.requirement != TransportRequirement::Anything {
        text.push_str(&format!("require = \"{}\"\n", account.requirement));
    }
    if account.form != FormChoice::Auto {
        text.push_str(&format!("form = \"{}\"\n", account.form));
    }
    if let Some(connections) = account.connections_max {
        text.push_str(&format!("connections = {connections}\n"));
    }
    text
}

/// Returns a string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use wire::{PasswordPlugin, StoredPassword};

    use super::AccountFile;
    use crate::log_form::FormChoice;
    use crate::relay_account::{AccountRole, RelayAccount, TransportRequirement};

    fn account(name: &str, host: &str) -> RelayAccount {
        RelayAccount {
            name: name.to_owned(),
            hosts: vec![host.parse().unwrap()],
            password: StoredPassword::caching_sha2(b"secret", [7; 32]).unwrap(),
            role: AccountRole::Monitor,
            requirement: TransportRequirement::Tls,
            form: "compressed:7".parse().unwrap(),
            connections_max: Some(3),
        }
    }

    #[test]
    fn accounts_are_added_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("etc/relay/accounts.toml");
        let file = AccountFile::new(&path);
        assert!(file.load().unwrap().is_empty());
        let (first, second) = (account("a \"b\\", "%"), account("repl", "10.0.0.0/8"));
        let mut third = account("repl", "10.0.0.7");
        third.password = StoredPassword::empty(PasswordPlugin::CachingSha2);
        third.form = FormChoice::Auto;
        for account in [&first, &second, &third] {
            file.add(account).unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o007, 0);
        let found = file.load().unwrap();
        assert!(found.iter().eq([&first, &second, &third]));
        let twice = file.add(&account("repl", "10.0.0.7")).unwrap_err().to_string();
        assert!(
            twice.ends_with("already has an account \"repl\" for the host 10.0.0.7; remove it first"),
            "{twice}"
        );
        file.remove("repl").unwrap();
        assert!(file.load().unwrap().iter().eq([&first]));
        let missing = file.remove("repl").unwrap_err().to_string();
        assert!(missing.ends_with("has no account \"repl\""), "{missing}");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn other_parts_of_the_file_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("accounts.toml");
        fs::write(&path, "# Ours.\n\n[[account]] # Old.\nname = \"a\"\npassword = \"\"\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let file = AccountFile::new(&path);
        file.add(&account("b", "%")).unwrap();
        file.remove("a").unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("# Ours.\n\n[[account]]\nname = \"b\"\n"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "account = [{name = \"a\", password = \"\"}]\n").unwrap();
        let error = file.remove("a").unwrap_err().to_string();
        assert!(error.contains("edit it by hand"), "{error}");
    }

    #[test]
    fn faults_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("accounts.toml");
        let check = |text: &str, expected: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
            let error = AccountFile::new(&path).load().unwrap_err().to_string();
            assert_eq!(error.strip_prefix(&format!("{}: ", path.display())), Some(expected), "{text}");
        };
        let start = "[[account]]\nname = \"a\"\npassword = \"\"\n";
        let with = |line: &str| format!("{start}{line}\n");
        check(&with("rol = \"admin\""), "account \"a\": unknown key `rol`; did you mean `role`?");
        check(
            &with("colour = 1"),
            "account \"a\": unknown key `colour`; expected one of: name, hosts, password, role, require, form, connections",
        );
        check("[[acount]]", "unknown key `acount`; did you mean `account`?");
        check("account = 1", "`account` is not a list: start each account with [[account]]");
        check("[[account]]", "account 1: `name` is missing, or is not a text");
        check("[[account]]\nname = \"a\"", "account \"a\": `password` is missing, or is not a text");
        check(
            &with("role = \"root\""),
            "account \"a\": \"root\" is not a role: expected replica, monitor or admin",
        );
        check(
            &with("require = \"ssl\""),
            "account \"a\": \"ssl\" is not a requirement: expected tls, certificate or none",
        );
        check(&with("connections = 0"), "account \"a\": `connections` must be a number, 1 or more");
        check(&with("hosts = []"), "account \"a\": `hosts` must be a list of texts with at least one host");
        check("\n[[account]", "line 2: unclosed array table, expected `]`");
    }

    #[test]
    fn files_readable_by_all_users_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("accounts.toml");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let error = AccountFile::new(&path).load().unwrap_err().to_string();
        assert!(error.starts_with("all users can access"), "{error}");
    }
}

//! Connection options of the command line: the same for all commands that connect.
//!
//! One table defines them. Options of a command's main server have no prefix; options of another server have one.
//! [`ConnectionOptions::set`] defines their meaning, also for addresses and option files.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::marker::PhantomData;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::{Once, OnceLock};

use anyhow::{Context, anyhow};
use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, Error, FromArgMatches};
use option_files::{FileChoice, FileOption, OptionFileEnvironment};
use servers::{
    ConnectionOptions, OPTION_GROUPS, OptionOrigin, OptionSources, PasswordOption, PasswordPrompt,
    PasswordSource, ServerAddress,
};
use tracing::warn;

use crate::exit::CommandFailure;
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::option_file_messages::OptionFileMessages;

/// One connection option.
struct OptionSpec {
    /// Long name.
    name: &'static str,
    /// Short name.
    short: Option<char>,
    /// Name of the value; `None` for a switch.
    value: Option<&'static str>,
    /// Help text.
    help: &'static str,
}

const fn valued(name: &'static str, value: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, short: None, value: Some(value), help }
}

const fn short(name: &'static str, short: char, value: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, short: Some(short), value: Some(value), help }
}

const fn switch(name: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, short: None, value: None, help }
}

/// Connection options.
const CONNECTION_OPTIONS: [OptionSpec; 26] = [
    short("host", 'h', "HOST", "Host name of the server; localhost means its Unix socket file"),
    short("port", 'P', "PORT", "TCP port of the server [default: 3306]"),
    short("socket", 'S', "FILE", "Unix socket file of a server on this machine"),
    valued("protocol", "PROTOCOL", "Transport protocol: TCP or SOCKET"),
    short("user", 'u', "USER", "User name of the account [default: the login name, from $USER]"),
    OptionSpec {
        name: PASSWORD,
        short: Some('p'),
        value: Some("PASSWORD"),
        help: "Password of the account, also as -pPASSWORD; without a value, bintide prompts for it",
    },
    valued("password-file", "FILE", "Read the password from the first line of this file"),
    valued(
        "password-command",
        "COMMAND",
        "Read the password from the first line that this shell command prints; the command runs for each new connection, \
         so that it can print a token that expires",
    ),
    valued(
        "ssl-mode",
        "MODE",
        "Encryption: DISABLED, PREFERRED, REQUIRED, VERIFY_CA (the server's certificate must be signed by an authority \
         of --ssl-ca) or VERIFY_IDENTITY (the certificate must also be for the host name) [default: PREFERRED, or VERIFY_CA with --ssl-ca]",
    ),
    valued("ssl-ca", "FILE", "Trust the certificate authorities in this file (PEM)"),
    valued(
        "ssl-capath",
        "DIR",
        "Trust the certificate authorities in this directory; prepare it with `openssl rehash`",
    ),
    valued("ssl-crl", "FILE", "Refuse certificates that the revocation lists in this file contain (PEM)"),
    valued(
        "ssl-crlpath",
        "DIR",
        "Refuse certificates that the revocation lists in this directory contain; prepare it with `openssl rehash`",
    ),
    valued("ssl-cert", "FILE", "Client certificate (PEM)"),
    valued("ssl-key", "FILE", "Private key of the client certificate (PEM)"),
    valued("ssl-cipher", "LIST", "TLS 1.2 ciphers to offer: OpenSSL names, separated by colons"),
    valued("tls-version", "LIST", "TLS versions to offer, separated by commas: TLSv1.2, TLSv1.3"),
    valued("tls-ciphersuites", "LIST", "TLS 1.3 ciphersuites to offer, separated by colons"),
    valued("tls-sni-servername", "NAME", "Server name (SNI) to send in the TLS handshake"),
    valued("tls-ca", "FILE", "The same as --ssl-ca with --ssl-mode=VERIFY_IDENTITY"),
    switch(
        "get-server-public-key",
        "Without TLS, request from the server the RSA public key that encrypts the password. Unsafe: a man in the middle \
         can send another key and then read the password",
    ),
    valued(
        "server-public-key-path",
        "FILE",
        "File with the server's RSA public key (PEM): a copy of its public_key.pem",
    ),
    switch(
        "enable-cleartext-plugin",
        "Send the password as cleartext, over TLS only, if the server requests it, as for IAM and LDAP",
    ),
    valued(
        "compression-algorithms",
        "LIST",
        "Compression algorithms of the connection, the preferred one first: zstd, zlib, uncompressed",
    ),
    valued("zstd-compression-level", "LEVEL", "zstd compression level, 1 to 22 [default: 3]"),
    valued("login-path", "NAME", "Read this login path from the login path file (mysql_config_editor)"),
];

/// Returns the ids of the connection options of a command's main server.
pub(crate) fn main_server_options() -> impl Iterator<Item = &'static str> {
    CONNECTION_OPTIONS.iter().map(|spec| spec.name)
}

/// Options that choose option files.
const OPTION_FILE_OPTIONS: [OptionSpec; 5] = [
    valued("defaults-file", "FILE", "Read only this option file, and the login path file"),
    valued("defaults-extra-file", "FILE", "Read this option file after the global option files"),
    valued("defaults-group-suffix", "SUFFIX", "Also read groups with this suffix: [client_east] for _east"),
    switch("no-defaults", "Read no option file except the login path file"),
    switch("no-login-paths", "Do not read the login path file"),
];

/// Heading of the options in help texts.
const HEADING: &str = "Connection options";
const PASSWORD: &str = "password";
/// Mutually exclusive options.
const PASSWORD_OPTIONS: [&str; 3] = [PASSWORD, "password-file", "password-command"];
const LOGIN_PATH: &str = "login-path";
/// Options that each suffice to name a server.
pub(crate) const SERVER_OPTIONS: [&str; 6] = ["from", "host", "port", "socket", "protocol", LOGIN_PATH];
/// Commands with connection options.
const COMMANDS: [&str; 11] = [
    "receive", "relay", "replay", "stream", "warm", "advise", "stats", "undo", "export", "history", "archive",
];

/// Role of the server that options are for.
pub(crate) trait ServerRole: fmt::Debug + Clone {
    /// Prefix of the options, without the hyphen; empty for the main server of a command.
    const PREFIX: &'static str;
    /// Option that names the server.
    const OPTION: &'static str;
}

/// Main server of a command: its options have no prefix.
#[derive(Clone, Debug)]
pub(crate) struct MainServer;

/// Source of `replay --from`: `--source-…`.
#[derive(Clone, Debug)]
pub(crate) struct ReplaySource;

/// Server of `replay --verify`: `--verify-…`.
#[derive(Clone, Debug)]
pub(crate) struct VerifyServer;

/// Server of `stream --schema`: `--schema-…`.
#[derive(Clone, Debug)]
pub(crate) struct SchemaServer;

/// Server of `relay --definitions-from`: `--definitions-…`.
#[derive(Clone, Debug)]
pub(crate) struct DefinitionServer;

impl ServerRole for MainServer {
    const PREFIX: &'static str = "";
    const OPTION: &'static str = "";
}

impl ServerRole for ReplaySource {
    const PREFIX: &'static str = "source";
    const OPTION: &'static str = "from";
}

impl ServerRole for VerifyServer {
    const PREFIX: &'static str = "verify";
    const OPTION: &'static str = "verify";
}

impl ServerRole for SchemaServer {
    const PREFIX: &'static str = "schema";
    const OPTION: &'static str = "schema";
}

impl ServerRole for DefinitionServer {
    const PREFIX: &'static str = "definitions";
    const OPTION: &'static str = "definitions-from";
}

/// Connection options of one server.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionArgs<R: ServerRole = MainServer> {
    command_line: ConnectionOptions,
    settings: ConnectionOptions,
    files: FileChoice,
    /// Lines of the option files; set after they are read.
    lines: OnceLock<Vec<FileOption>>,
    /// Password that the user typed.
    typed: OnceLock<String>,
    role: PhantomData<R>,
}

/// Options of the main server that also apply to another server of the command, with lower priority than that server's
/// options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CredentialSharing {
    /// Options that strengthen TLS, and the transport options.
    Method,
    /// The options of `Method`, and this password.
    Password(PasswordSource),
    /// The options of `Method`, and the account.
    Account,
    /// All options: the command has no main server.
    All,
}

impl<R: ServerRole> clap::Args for ConnectionArgs<R> {
    fn augment_args(mut command: Command) -> Command {
        for spec in &CONNECTION_OPTIONS {
            command = command.arg(argument::<R>(spec));
        }
        let passwords = PASSWORD_OPTIONS.map(option_name::<R>);
        command = command.group(ArgGroup::new(option_name::<R>("password-options")).args(passwords));
        if !R::PREFIX.is_empty() {
            return command;
        }
        for spec in &OPTION_FILE_OPTIONS {
            command = command.arg(argument::<R>(spec));
        }
        // `-h` is `--host`, as in MySQL's programs.
        let help = Arg::new("help")
            .long("help")
            .short('?')
            .action(ArgAction::HelpLong)
            .help("Print help")
            .help_heading(None::<&'static str>)
            .global(true);
        command.disable_help_flag(true).arg(help)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<R: ServerRole> FromArgMatches for ConnectionArgs<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut found = Self {
            command_line: ConnectionOptions::default(),
            settings: ConnectionOptions::default(),
            files: FileChoice::default(),
            lines: OnceLock::new(),
            typed: OnceLock::new(),
            role: PhantomData,
        };
        found.update_from_arg_matches(matches)?;
        Ok(found)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for spec in &CONNECTION_OPTIONS {
            let id = option_name::<R>(spec.name);
            let options = match matches.value_source(&id) {
                Some(ValueSource::CommandLine) => &mut self.command_line,
                Some(_) => &mut self.settings,
                None => continue,
            };
            let value = match spec.value {
                Some(_) => matches.get_one::<String>(&id).map(String::as_str),
                None if matches.get_flag(&id) => None,
                // A switch that is off by default.
                None => continue,
            };
            if spec.name == LOGIN_PATH {
                self.files.login_path = value.map(|name| name.as_bytes().to_vec());
                continue;
            }
            options
                .set(spec.name, value)
                .map_err(|why| Error::raw(ErrorKind::ValueValidation, format!("--{id}: {why}\n")))?;
        }
        if R::PREFIX.is_empty() {
            self.files.only = file(matches, "defaults-file");
            self.files.extra = file(matches, "defaults-extra-file");
            self.files.group_suffix = file(matches, "defaults-group-suffix");
            self.files.none = matches.get_flag("no-defaults");
            self.files.login_none = matches.get_flag("no-login-paths");
        }
        Ok(())
    }
}

fn file(matches: &ArgMatches, id: &str) -> Option<Vec<u8>> {
    matches.get_one::<String>(id).map(|text| text.as_bytes().to_vec())
}

fn option_name<R: ServerRole>(name: &str) -> String {
    match R::PREFIX {
        "" => name.to_owned(),
        prefix => format!("{prefix}-{name}"),
    }
}

fn argument<R: ServerRole>(spec: &OptionSpec) -> Arg {
    let id = option_name::<R>(spec.name);
    let mut arg = Arg::new(id.clone()).long(id.clone()).help_heading(HEADING);
    arg = match R::PREFIX {
        "" => arg.help(spec.help),
        // Hide these options, which would double the length of help texts. Help texts refer to the page on connections.
        _ => {
            let help = StyledStr::from(format!("As --{}, for the server of --{}", spec.name, R::OPTION));
            arg.help(help).hide_short_help(true).hide_long_help(true).requires(R::OPTION)
        }
    };
    if let (Some(short), true) = (spec.short, R::PREFIX.is_empty()) {
        arg = arg.short(short);
    }
    let Some(value) = spec.value else { return arg.action(ArgAction::SetTrue).overrides_with(id) };
    let name = spec.name;
    let parser = move |text: &str| match ConnectionOptions::default().set(name, Some(text)) {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(without_value(why)),
    };
    arg = arg.value_name(value).action(ArgAction::Set).overrides_with(id).value_parser(parser);
    match name {
        // The next argument is not the password, as in MySQL's programs.
        PASSWORD => arg.num_args(0..=1).require_equals(true).hide_default_value(true),
        _ => arg,
    }
}

/// Returns the expected value of an option: the command line's message already has the option and the given value.
fn without_value(why: String) -> String {
    match why.split_once("; ") {
        Some((_, expected)) => expected.to_owned(),
        None => why,
    }
}

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

impl ConnectionArgs<MainServer> {
    /// Refuses LOG arguments together with a server.
    pub(crate) fn refuse_beside_logs(&self) -> Result<(), CommandFailure> {
        match self.names_server() {
            true => Err(CommandFailure::NotStarted(anyhow!(
                "both logs and a server are given: give only one of them"
            ))),
            false => Ok(()),
        }
    }

    /// Returns whether the command line names the server.
    pub(crate) fn names_server(&self) -> bool {
        OptionSources::default().with(OptionOrigin::CommandLine, self.command_line.clone()).names_server()
            || self.files.login_path.is_some()
    }

    /// Returns the main server of a command, from the address and the options. `option` is the option with the address.
    /// Does not connect.
    pub(crate) fn address(
        &self,
        text: Option<&str>,
        option: &str,
        global: &GlobalArgs,
    ) -> Result<ServerAddress, CommandFailure> {
        self.address_with(text, option, &ConnectionOptions::default(), global)
    }

    /// Returns the main server of a command, with the command's defaults. These override only MySQL's environment
    /// variables.
    pub(crate) fn address_with(
        &self,
        text: Option<&str>,
        option: &str,
        own: &ConnectionOptions,
        global: &GlobalArgs,
    ) -> Result<ServerAddress, CommandFailure> {
        let lines = self.option_file_lines()?;
        let sources = OptionSources::default()
            .with(OptionOrigin::CommandLine, self.command_line.clone())
            .with(OptionOrigin::Address, options_of_address(text, option, global)?)
            .with(OptionOrigin::Settings, self.settings.clone())
            .with(OptionOrigin::OptionFiles, options_of_lines(lines)?)
            .with(OptionOrigin::Fallback, own.clone())
            .with(OptionOrigin::Fallback, options_of_environment());
        if text.is_none() && !sources.names_server() && !self.names_server() {
            return Err(CommandFailure::NotStarted(anyhow!(
                "no server given: use {option}, --host or --socket"
            )));
        }
        if self.command_line.password.as_ref().is_some_and(is_text) {
            remark_on_open_password(global);
        }
        self.resolve_address(&sources, option)
    }

    /// Returns the lines of the option files, read once.
    fn option_file_lines(&self) -> Result<&[FileOption], CommandFailure> {
        if let Some(lines) = self.lines.get() {
            return Ok(lines);
        }
        let environment = OptionFileEnvironment::of_process();
        let mut choice = self.files.clone();
        if choice.group_suffix.is_none() {
            choice.group_suffix.clone_from(&environment.group_suffix);
        }
        let lines = read_files(choice, &OPTION_GROUPS, &environment)?;
        Ok(self.lines.get_or_init(|| lines))
    }
}

impl<R: ServerRole> ConnectionArgs<R> {
    /// Returns a second server of a command.
    pub(crate) fn address_beside(
        &self,
        main: &ConnectionArgs<MainServer>,
        sharing: CredentialSharing,
        text: &str,
        global: &GlobalArgs,
    ) -> Result<ServerAddress, CommandFailure> {
        let option = format!("--{}", R::OPTION);
        let mut known = ConnectionOptions::default();
        if let CredentialSharing::Password(password) = &sharing {
            known.password = password.is_some().then(|| PasswordOption::Source(password.clone()));
        }
        let shared = |options: &ConnectionOptions| match sharing {
            CredentialSharing::Method | CredentialSharing::Password(_) => options.for_other_server(),
            CredentialSharing::Account => options.for_other_endpoint(),
            CredentialSharing::All => options.clone(),
        };
        let mut files = options_of_lines(main.option_file_lines()?)?;
        let strong = OptionSources::default()
            .with(OptionOrigin::CommandLine, self.command_line.clone())
            .with(OptionOrigin::Address, options_of_address(Some(text), &option, global)?)
            .with(OptionOrigin::Settings, self.settings.clone())
            .with(OptionOrigin::OptionFiles, self.login_path()?);
        if sharing != CredentialSharing::All {
            // The password in an option file is for the account that the file names.
            let user = strong.user(&[
                OptionOrigin::CommandLine,
                OptionOrigin::Address,
                OptionOrigin::Settings,
                OptionOrigin::OptionFiles,
            ]);
            if user.is_some() && user != files.user.as_deref() {
                files.password = None;
            }
            files = files.for_other_endpoint();
        }
        let sources = strong
            .with(OptionOrigin::CommandLine, shared(&main.command_line))
            .with(OptionOrigin::Settings, shared(&main.settings))
            .with(OptionOrigin::Settings, known)
            .with(OptionOrigin::OptionFiles, files)
            .with(OptionOrigin::Fallback, options_of_environment());
        self.resolve_address(&sources, &option)
    }

    /// Returns the options of this server's login path.
    fn login_path(&self) -> Result<ConnectionOptions, CommandFailure> {
        let Some(path) = &self.files.login_path else { return Ok(ConnectionOptions::default()) };
        let choice = FileChoice { none: true, login_path: Some(path.clone()), ..FileChoice::default() };
        options_of_lines(&read_files(choice, &[], &OptionFileEnvironment::of_process())?)
    }

    fn resolve_address(
        &self,
        sources: &OptionSources,
        option: &str,
    ) -> Result<ServerAddress, CommandFailure> {
        let found =
            sources.resolve().map_err(|error| CommandFailure::NotStarted(anyhow!("{option}: {error}")))?;
        let mut address = ServerAddress { cancel: interrupt::cancel_on_interrupt(), ..found.address };
        if found.prompt == PasswordPrompt::Needed {
            address.password =
                PasswordSource::Text(self.prompt_password().map_err(CommandFailure::NotStarted)?);
        }
        if let PasswordSource::File(_) = address.password {
            // Read the password now, to report a missing file before the work begins.
            let read = address.password.read(&address.cancel);
            read.map_err(|error| CommandFailure::NotStarted(error.into()))?;
        }
        Ok(address)
    }

    fn prompt_password(&self) -> Result<String, anyhow::Error> {
        if let Some(typed) = self.typed.get() {
            return Ok(typed.clone());
        }
        let prompt = match R::PREFIX {
            "" => "Enter password: ".to_owned(),
            prefix => format!("Enter password ({prefix}): "),
        };
        let typed = rpassword::prompt_password(prompt);
        let typed =
            typed.context("could not prompt for the password without a terminal (use --password-file)")?;
        Ok(self.typed.get_or_init(|| typed).clone())
    }
}

fn read_files(
    mut choice: FileChoice,
    groups: &[&str],
    environment: &OptionFileEnvironment,
) -> Result<Vec<FileOption>, CommandFailure> {
    let mut messages = OptionFileMessages::default();
    let read = option_files::read(&mut choice, groups, environment, &mut messages);
    // MySQL's programs ignore a missing included file. bintide does not: the options in it would be lost.
    let lines = read.ok().filter(|_| !messages.has_errors()).ok_or_else(|| {
        CommandFailure::NotStarted(anyhow!("could not read the option files: {}", messages.errors()))
    })?;
    match &choice.login_path {
        Some(path)
            if !choice.login_none && !lines.iter().any(|line| line.group.eq_ignore_ascii_case(path)) =>
        {
            let path = String::from_utf8_lossy(path);
            Err(CommandFailure::NotStarted(anyhow!(
                "--login-path: the login path file does not contain {path}; run mysql_config_editor print --all to \
                 list its login paths"
            )))
        }
        _ => Ok(lines),
    }
}

fn options_of_lines(lines: &[FileOption]) -> Result<ConnectionOptions, CommandFailure> {
    ConnectionOptions::of_files(lines).map_err(|error| CommandFailure::NotStarted(error.into()))
}

fn options_of_address(
    text: Option<&str>,
    option: &str,
    global: &GlobalArgs,
) -> Result<ConnectionOptions, CommandFailure> {
    let Some(text) = text else { return Ok(ConnectionOptions::default()) };
    let options = ConnectionOptions::of_address(text);
    let options = options.map_err(|error| CommandFailure::NotStarted(anyhow!("{option}: {error}")))?;
    if options.password.as_ref().is_some_and(is_text) {
        remark_on_open_password(global);
    }
    Ok(options)
}

/// Returns the options of MySQL's environment variables.
pub(crate) fn options_of_environment() -> ConnectionOptions {
    const VARIABLES: [(&str, &str); 6] = [
        ("MYSQL_HOST", "host"),
        ("MYSQL_TCP_PORT", "port"),
        ("MYSQL_UNIX_PORT", "socket"),
        ("MYSQL_PWD", PASSWORD),
        ("LOGNAME", "user"),
        ("USER", "user"),
    ];
    let mut options = ConnectionOptions::default();
    for (variable, name) in VARIABLES {
        if let Some(value) = env::var(variable).ok().filter(|value| !value.is_empty()) {
            // MySQL's programs also ignore a port that is not a number.
            let _ = options.set(name, Some(&value));
        }
    }
    options
}

fn is_text(password: &PasswordOption) -> bool {
    matches!(password, PasswordOption::Source(PasswordSource::Text(_)))
}

/// Warns once about a password on the command line.
pub(crate) fn remark_on_open_password(global: &GlobalArgs) {
    static REMARK: Once = Once::new();
    if global.quiet {
        return;
    }
    REMARK.call_once(|| {
        warn!(
            "other users of this machine may see a password on the command line; use --password-file, \
             --password-command, --defaults-file or --login-path"
        );
    });
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use servers::{ConnectionOptions, OptionRecognition};

    use super::{CONNECTION_OPTIONS, LOGIN_PATH, with_long_passwords};

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

    #[test]
    fn every_option_is_known_everywhere() {
        for spec in CONNECTION_OPTIONS.iter().filter(|spec| spec.name != LOGIN_PATH) {
            let taken = ConnectionOptions::default().set(spec.name, Some("x"));
            assert_ne!(taken, Ok(OptionRecognition::Unknown), "{}", spec.name);
            assert!(!taken.is_err_and(|why| why.contains("not supported")), "{}", spec.name);
        }
    }
}

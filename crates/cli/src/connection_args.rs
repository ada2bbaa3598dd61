//! Connection options of the command line: the same for all commands that connect.
//!
//! One table defines them. Options of a command's main server have no prefix; options of another server have one.
//! [`ConnectionOptions::set`] defines their meaning, also for addresses and option files.

mod attached_password;
mod option_sources;
mod option_table;
mod server_role;

use std::io;
use std::marker::PhantomData;
use std::sync::OnceLock;

use anyhow::anyhow;
use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, Error, FromArgMatches};
use option_files::{FileChoice, FileOption, OptionFileEnvironment};
use servers::{
    ConnectionOptions, OPTION_GROUPS, OptionOrigin, OptionSources, PasswordOption, PasswordPrompt,
    PasswordSource, ServerAddress,
};

pub(crate) use self::attached_password::with_long_passwords;
use self::option_sources::{is_text, options_of_address, options_of_lines, read_files};
pub(crate) use self::option_sources::{options_of_environment, remark_on_open_password};
use self::option_table::{
    CONNECTION_OPTIONS, LOGIN_PATH, OPTION_FILE_OPTIONS, OptionSpec, PASSWORD, PASSWORD_OPTIONS,
    VERIFICATION_OPTIONS,
};
pub(crate) use self::option_table::{SERVER_OPTIONS, main_server_options};
pub(crate) use self::server_role::{
    DefinitionServer, MainServer, ReplaySource, SchemaServer, ServerRole, VerifyServer,
};
use crate::exit::CommandFailure;
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::settings::{LAYERED_OPTIONS, SETTING_LAYERS, layers_id};

/// Heading of the options in help texts.
const HEADING: &str = "Connection options";

/// Connection options of one server.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionArgs<R: ServerRole = MainServer> {
    command_line: ConnectionOptions,
    settings: ConnectionOptions,
    /// TLS options of each layer of the settings, the strongest first: a weaker mode on the command line, or in a stronger
    /// layer, does not lower them.
    layers: [ConnectionOptions; SETTING_LAYERS],
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
        let layered = ArgGroup::new(option_name::<R>(LAYERED_OPTIONS)).multiple(true);
        command = command.group(layered.args(VERIFICATION_OPTIONS.map(option_name::<R>)));
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
            layers: Default::default(),
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
        for name in VERIFICATION_OPTIONS {
            // The argument exists only if a layer has the option.
            let values = matches.try_get_many::<String>(&layers_id(&option_name::<R>(name)));
            let values = values.ok().flatten().into_iter().flatten();
            for (layer, value) in self.layers.iter_mut().zip(values).filter(|(_, value)| !value.is_empty()) {
                layer
                    .set(name, Some(value))
                    .map_err(|why| Error::raw(ErrorKind::ValueValidation, format!("--{name}: {why}\n")))?;
            }
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
            .with_all(OptionOrigin::Settings, self.settings())
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
    /// Returns the options in bintide's settings: those that count if the command line has none, then the TLS options of
    /// each layer.
    fn settings(&self) -> impl Iterator<Item = ConnectionOptions> {
        [&self.settings].into_iter().chain(&self.layers).cloned()
    }

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
            .with_all(OptionOrigin::Settings, self.settings())
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
            .with_all(OptionOrigin::Settings, main.settings().map(|options| shared(&options)))
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
        let typed = rpassword::prompt_password(prompt).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => anyhow!(servers::ConnectionError::Cancelled),
            _ => anyhow!(error)
                .context("could not prompt for the password without a terminal (use --password-file)"),
        })?;
        Ok(self.typed.get_or_init(|| typed).clone())
    }
}

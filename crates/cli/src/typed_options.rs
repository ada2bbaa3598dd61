//! Options that the command line gives, in contrast to settings.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Error, FromArgMatches};

/// Ids of the arguments on the command line. In a struct of arguments, it must be the first field: clap removes an
/// argument once a field has read it.
#[derive(Debug, Default)]
pub(crate) struct CommandLineOptions(Vec<String>);

impl CommandLineOptions {
    /// Returns the first of these arguments that the command line gives.
    pub(crate) fn first_of<'i>(&self, ids: impl IntoIterator<Item = &'i str>) -> Option<&'i str> {
        ids.into_iter().find(|id| self.0.iter().any(|given| given == id))
    }
}

impl clap::Args for CommandLineOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for CommandLineOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut found = Self::default();
        found.update_from_arg_matches(matches)?;
        Ok(found)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        self.0 = matches.ids().map(|id| id.as_str().to_owned()).filter(|id| is_typed(id)).collect();
        Ok(())
    }
}

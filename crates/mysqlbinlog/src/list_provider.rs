//! Lists in place of mysqlbinlog's text: the interface to the code that writes them.

use std::io::Write;

pub use crate::common_settings::CommonSettings;

/// Source of the lists that can be written in place of mysqlbinlog's text.
pub trait ListProvider {
    /// Adds a condition on rows, the text of `--where`. Returns it as messages show it.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a condition; the error is the message.
    fn add_condition(&mut self, condition: &str) -> Result<String, String>;

    /// Returns the writer of the requested list; `None` for mysqlbinlog's text.
    ///
    /// # Errors
    ///
    /// Fails if the switches exclude each other; the error is the message.
    fn writer(&mut self, switches: ListSwitches) -> Result<Option<Box<dyn ListWriter>>, String>;
}

/// Writes one list.
pub trait ListWriter {
    /// Returns the layout of the list.
    fn layout(&self) -> ListLayout;

    /// Writes the list of `logs`: paths, or `-` for standard input.
    ///
    /// # Errors
    ///
    /// Fails if a log cannot be read or is damaged, or if `output` cannot be written.
    fn write(
        &self,
        settings: &CommonSettings,
        logs: &[Vec<u8>],
        output: &mut dyn Write,
    ) -> Result<ListOutcome, ListFailure>;
}

/// Switches that request a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListSwitches {
    /// `--json`
    pub json: bool,
    /// `--events`
    pub events: bool,
    /// `--transactions`
    pub transactions: bool,
}

/// Layout of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLayout {
    /// Option that requests the list, in messages.
    pub option: &'static str,
    /// Kind of the lines.
    pub lines: ListLines,
}

/// Kind of the lines of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListLines {
    /// Columns with tabs between them, below a header.
    Table {
        /// Columns that identify a row, from 0. They are coloured.
        key_columns: &'static [usize],
    },
    /// One JSON document per line.
    Json,
}

/// Result of a list that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOutcome {
    /// True if the list has no line except its header.
    pub is_empty: bool,
    /// Torn ends of logs that are in use.
    pub torn_ends: Vec<String>,
    /// Warnings about checks that the list could not make.
    pub warnings: Vec<String>,
}

/// Error of a list: the message, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListFailure {
    /// A log cannot be opened or read.
    NotStarted(String),
    /// Any other error.
    Failed(String),
}

/// No lists: every list is an error.
pub struct NoLists;

impl ListProvider for NoLists {
    fn add_condition(&mut self, _: &str) -> Result<String, String> {
        Err(NO_LISTS.to_owned())
    }

    fn writer(&mut self, switches: ListSwitches) -> Result<Option<Box<dyn ListWriter>>, String> {
        let ListSwitches { json, events, transactions } = switches;
        if json || events || transactions { Err(NO_LISTS.to_owned()) } else { Ok(None) }
    }
}

const NO_LISTS: &str = "this program writes no lists";

//! Reads MySQL's option files: finds them in the right order, and returns the options in them.
//!
//! | to | use |
//! |---|---|
//! | take `--defaults-file` and similar options off the front of a command line | [`FileChoice::take`] |
//! | read the files | [`read`] |
//! | list the directories that are searched | [`directories`] |
//! | suggest the name that was perhaps meant | [`nearest_name`] |
//!
//! Files are read exactly as MySQL's own programs read them: the same search order, directives, quoting and warnings.
//! The caller interprets the options.
#![forbid(unsafe_code)]

mod choice;
mod login_path;
mod nearest_name;
mod reader;
mod space;

pub use crate::choice::{FileChoice, OptionFileEnvironment};
pub use crate::nearest_name::nearest_name;
pub use crate::reader::{
    Diagnostics, FileIgnoreReason, FileOption, FileOrigin, ReadFailure, directories, is_named_pipe,
    is_writable_by_all, read,
};
pub use crate::space::{is_space, trim_end, trim_start};

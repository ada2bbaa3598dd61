//! MySQL's option files: which are read, in which order, and the options in them.
//!
//! | to | use |
//! |---|---|
//! | take `--defaults-file` and its like off the front of a command line | [`FileChoice::take`] |
//! | read the files | [`read`] |
//! | know which directories are searched | [`directories`] |
//!
//! Files are read exactly as MySQL's own programs read them: the same search order, directives, quoting and warnings.
//! The meaning of an option is known to the caller.
//!
//! What this crate never does: connect, print, or keep a password.
#![forbid(unsafe_code)]

mod choice;
mod login_path;
mod reader;

pub use crate::choice::{Environment, FileChoice};
pub use crate::reader::{Diagnostics, FileOption, FileOrigin, Neglect, ReadFailed, directories, read};

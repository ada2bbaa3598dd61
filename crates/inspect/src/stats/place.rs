//! Where in the logs something stands.

/// Where an event starts: which log, counted from 0, and how many bytes into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) log: u32,
    pub(crate) offset: u64,
}

//! Address of an event in the logs.

/// Address of an event: the number of its log, from 0, and its offset in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventAddress {
    pub(crate) log: u32,
    pub(crate) offset: u64,
}

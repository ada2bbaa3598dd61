//! Error of writing a value.

/// Error: a value cannot be written. The text says so already; the rest of the event is omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnwritableValue;

//! Format of a command's result.

/// Format of a command's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
}

impl OutputFormat {
    /// Returns the format that a command's option `--json` selects.
    pub(crate) const fn of(json: bool) -> Self {
        match json {
            true => Self::Json,
            false => Self::Text,
        }
    }
}

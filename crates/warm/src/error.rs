//! Why pages cannot be touched.

use crate::place::Place;

/// Why pages cannot be touched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The replica cannot be asked.
    #[error("could not {doing}: {cause}")]
    Server {
        /// What was to be done.
        doing: &'static str,
        /// What it said.
        #[source]
        cause: servers::Error,
    },
    /// The server is not what it has to be.
    #[error("{0}")]
    Refused(String),
    /// A thread of the run panicked.
    #[error(transparent)]
    Panic(#[from] logs::ThreadPanic),
    /// Relay logs cannot be read.
    #[error(transparent)]
    Log(#[from] logs::Error),
    /// A relay log holds what it should not.
    #[error("{log} is corrupt at {}: {reason}", place.offset)]
    Corrupt {
        /// The log.
        log: String,
        /// Where the event starts.
        place: Place,
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    pub(crate) const fn server(doing: &'static str) -> impl FnOnce(servers::Error) -> Self {
        move |cause| Self::Server { doing, cause }
    }

    /// Does it pass by itself, as when the server is started again?
    pub(crate) const fn is_passing(&self) -> bool {
        let Self::Server { cause, .. } = self else { return false };
        match cause {
            // A cancelled one ends with the run, which its observer ends.
            servers::Error::Lost { .. } | servers::Error::Silent { .. } | servers::Error::Cancelled => true,
            servers::Error::Refused { code, .. } => matches!(
                *code,
                1040 | 1053 | 1077 | 1158..=1161 | 1203 | 1317 | 1927 | 3032 | 3100 | 3168 | 3169
            ),
            _ => false,
        }
    }
}

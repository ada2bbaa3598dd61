//! Errors of starting a relay.

use std::io;
use std::path::PathBuf;

/// Error of starting a relay, or of reloading its files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayServerError {
    /// The logs cannot be read.
    #[error(transparent)]
    Store(#[from] relay::RelayError),
    /// The file of accounts cannot be used.
    #[error(transparent)]
    Accounts(#[from] relay::AccountFileError),
    /// The address cannot be used.
    #[error("could not listen on {address}: {cause}")]
    Listen {
        /// Address, as given.
        address: String,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// Without accounts, only clients of the same machine may connect.
    #[error("refused to listen on {address} without accounts: every client would have the role admin")]
    NoAccounts {
        /// Address, as given.
        address: String,
    },
    /// The file of accounts was removed.
    #[error("the file of accounts {} does not exist any more", path.display())]
    AccountsMissing {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file of the state directory cannot be used.
    #[error("could not {verb} {}: {cause}", path.display())]
    State {
        /// Action that failed.
        verb: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The identity file is incomplete.
    #[error("{} has no server-id and server-uuid: remove the file", path.display())]
    Identity {
        /// Path of the file.
        path: PathBuf,
    },
    /// A certificate or a key cannot be used.
    #[error("could not use the certificate {}: {reason}", path.display())]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// Error of the TLS library.
        reason: String,
    },
    /// A certificate or a key cannot be created.
    #[error("could not create a certificate: {reason}")]
    NewCertificate {
        /// Error of the TLS library.
        reason: String,
    },
    /// The RSA key for clients without TLS cannot be used.
    #[error("could not use the RSA key {}: {cause}", path.display())]
    PasswordKey {
        /// Path of the file.
        path: PathBuf,
        /// Error in the key.
        cause: wire::WireError,
    },
    /// The system has no random numbers.
    #[error("could not get random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// A thread cannot be started.
    #[error("could not start a thread: {0}")]
    Thread(io::Error),
}

//! Conversion of panics of threads into errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Panic of a thread: a defect of this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("internal error: the thread that {task} panicked: {message}; please report this defect")]
pub struct ThreadPanic {
    /// Task of the thread, as a verb in the third person.
    pub task: &'static str,
    /// Message of the panic.
    pub message: String,
}

impl ThreadPanic {
    /// Runs `work`, and returns its panic as an error.
    ///
    /// Values that `work` shares with other threads must tolerate an incomplete change, because they stay in use.
    ///
    /// # Errors
    ///
    /// Fails if `work` panics.
    pub fn catch<T>(task: &'static str, work: impl FnOnce() -> T) -> Result<T, Self> {
        catch_unwind(AssertUnwindSafe(work))
            .map_err(|panic| Self { task, message: panic_message(&*panic).to_owned() })
    }

    /// Does the same as [`ThreadPanic::catch`], for work with its own errors.
    ///
    /// # Errors
    ///
    /// Fails if `work` fails or panics.
    pub fn catch_in<T, E: From<Self>>(
        task: &'static str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        Self::catch(task, work)?
    }
}

/// Returns the message of a panic, from its payload.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (_, Some(message)) => message,
        _ => "no message",
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadPanic;

    #[test]
    fn panics_become_errors_with_their_message() {
        assert_eq!(ThreadPanic::catch("counts", || 7), Ok(7));
        let check = |work: fn(), message: &str| {
            let panic = ThreadPanic::catch("counts", work).unwrap_err();
            assert_eq!(panic, ThreadPanic { task: "counts", message: message.to_owned() });
        };
        check(|| panic!("as text"), "as text");
        check(|| panic!("with a number: {}", 7), "with a number: 7");
        check(|| std::panic::panic_any(7), "no message");
        let panic = ThreadPanic::catch("counts events", || panic!("index out of bounds")).unwrap_err();
        assert_eq!(
            panic.to_string(),
            "internal error: the thread that counts events panicked: index out of bounds; please report this defect"
        );
    }
}

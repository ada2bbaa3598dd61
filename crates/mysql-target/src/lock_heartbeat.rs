//! Signs of life of a replay, for other replays to the same target. After a network failure, a server may keep the
//! locks of a client that has ended long ago.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use replay::TargetFailure;
use servers::SqlConnection;

use crate::server_failure::server_failure;

/// Interval at which the session with the target's lock runs a statement, so that it is never idle for long.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Idle seconds after which a session may belong to a replay that has ended.
const SUSPECT_IDLE_S: u64 = 8;

/// Idle seconds after which a session certainly belongs to a replay that has ended.
const DEAD_IDLE_S: u64 = 20;

/// Seconds to wait for a lock before looking up the connection that holds it.
const LOCK_POLL_S: u64 = 5;

/// Maximum number of attempts to take a lock without an owner: the owner may just have released it.
const OWNERLESS_ATTEMPTS_MAX: u32 = 3;

/// A thread that uses a session at intervals until this value is dropped.
#[derive(Debug)]
pub(crate) struct LockHeartbeat {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LockHeartbeat {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails if the system starts no more threads.
    pub(crate) fn start(control: &Arc<Mutex<SqlConnection>>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let control = Arc::clone(control);
        let beating = thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
            while stopped.recv_timeout(HEARTBEAT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // If the connection is lost, its next user gets the error.
                let Ok(mut control) = control.lock() else { return };
                let _ = control.run("DO 1");
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(beating) })
    }
}

impl Drop for LockHeartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(beating) = self.thread.take() {
            // After a panic of the thread, the session's mutex is poisoned, and the session's next use fails.
            let _ = beating.join();
        }
    }
}

/// Takes a lock on the server. Waits up to `timeout` for a replay that holds the lock and is about to end. Kills the
/// session of a replay that has ended unnoticed by the server.
pub(crate) fn acquire_lock(
    connection: &mut SqlConnection,
    name: &str,
    timeout: Duration,
) -> Result<(), TargetFailure> {
    let begin = Instant::now();
    let mut ownerless_attempts = 0;
    loop {
        let got =
            connection.value(&format!("SELECT GET_LOCK('{name}', {LOCK_POLL_S})")).map_err(server_failure)?;
        match LockAttempt::of(got.as_deref()) {
            LockAttempt::Taken => return Ok(()),
            LockAttempt::TimedOut => {}
            LockAttempt::Failed => {
                return Err(TargetFailure::refused(format!(
                    "the server could not take the lock {name}: GET_LOCK returned NULL. Its error log may state the reason"
                )));
            }
        }
        let owner = connection.value(&format!("SELECT IS_USED_LOCK('{name}')")).map_err(server_failure)?;
        let Some(owner) = owner.and_then(|owner| owner.parse().ok()) else {
            // The owner may have released the lock in the meantime.
            ownerless_attempts += 1;
            if ownerless_attempts >= OWNERLESS_ATTEMPTS_MAX && begin.elapsed() >= timeout {
                return Err(TargetFailure::refused(format!(
                    "could not take the lock {name} of the server: it is not free, but IS_USED_LOCK names no owner"
                )));
            }
            continue;
        };
        let idle_s = idle_s(connection, owner)?;
        if idle_s >= DEAD_IDLE_S {
            kill_connection(connection, owner)?;
        } else if idle_s < SUSPECT_IDLE_S && begin.elapsed() >= timeout {
            return Err(TargetFailure::refused(format!(
                "another replay is using this target: connection {owner} of the server holds the lock {name}"
            )));
        }
    }
}

/// Result of `GET_LOCK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockAttempt {
    Taken,
    /// Another session has the lock.
    TimedOut,
    /// The server had an error: it returned NULL.
    Failed,
}

impl LockAttempt {
    fn of(value: Option<&str>) -> Self {
        match value {
            Some("1") => Self::Taken,
            Some(_) => Self::TimedOut,
            None => Self::Failed,
        }
    }
}

/// Returns the seconds for which a connection has been idle; 0 if it is busy, or invisible to this account.
fn idle_s(connection: &mut SqlConnection, id: u64) -> Result<u64, TargetFailure> {
    let number = |value: Option<&Option<Vec<u8>>>| {
        value.and_then(|value| str::from_utf8(value.as_ref()?).ok()?.parse::<u64>().ok())
    };
    // Id, User, Host, db, Command, Time.
    let rows = connection.rows("SHOW PROCESSLIST").map_err(server_failure)?;
    let row = rows.iter().find(|row| number(row.first()) == Some(id));
    let idle = row.filter(|row| row.get(4).and_then(Option::as_deref) == Some(b"Sleep"));
    Ok(idle.and_then(|row| number(row.get(5))).unwrap_or(0))
}

fn kill_connection(connection: &mut SqlConnection, id: u64) -> Result<(), TargetFailure> {
    const NO_SUCH_THREAD: u16 = 1094;
    match connection.run(&format!("KILL {id}")) {
        Err(error) if error.code() != Some(NO_SUCH_THREAD) => Err(TargetFailure::refused(format!(
            "a replay that seems to have ended holds the target's lock in the server's connection {id}, which could \
             not be killed: {error}. Run KILL {id}"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::LockAttempt::{self, Failed, Taken, TimedOut};

    #[test]
    fn get_lock_has_three_results() {
        check(Some("1"), Taken);
        check(Some("0"), TimedOut);
        check(None, Failed);
    }

    fn check(value: Option<&str>, expected: LockAttempt) {
        assert_eq!(LockAttempt::of(value), expected, "{value:?}");
    }
}

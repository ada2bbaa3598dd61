//! Signs of life of a replay, for others that want the same target: a server may hold the locks of a client that is
//! long gone, when the network between them fell silent.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use servers::Connection;

use crate::error::Failure;

/// How often the session that holds the target's lock is used, if only for that.
const PERIOD: Duration = Duration::from_secs(5);

/// A session that was idle for so long, in seconds, is of a replay that may be gone.
const DOUBTFUL_S: u64 = 8;

/// And one that was idle for so long is.
const GONE_S: u64 = 20;

/// How long to wait for a lock before looking who holds it, in seconds.
const LOOK_S: u64 = 5;

/// Uses a session again and again, until it is dropped.
#[derive(Debug)]
pub(super) struct Heartbeat {
    stop: Option<Sender<()>>,
    beating: Option<JoinHandle<()>>,
}

impl Heartbeat {
    pub(super) fn of(control: &Arc<Mutex<Connection>>) -> Self {
        let (stop, stopped) = channel();
        let control = Arc::clone(control);
        let beating = thread::spawn(move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                // Whoever uses it next hears of it when it is lost.
                let Ok(mut control) = control.lock() else { return };
                let _ = control.run("DO 1");
            }
        });
        Self { stop: Some(stop), beating: Some(beating) }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(beating) = self.beating.take() {
            // After a panic of it, the next use of the session fails: the lock around it is poisoned.
            let _ = beating.join();
        }
    }
}

/// Takes a lock of the server's, and waits so long for a replay that holds it and is on its way out. One that has gone
/// without the server's hearing of it is ended there.
pub(super) fn lock(connection: &mut Connection, name: &str, patience: Duration) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        let got = connection.value(&format!("SELECT GET_LOCK('{name}', {LOOK_S})"))?;
        if got.as_deref() == Some("1") {
            return Ok(());
        }
        let owner = connection.value(&format!("SELECT IS_USED_LOCK('{name}')"))?;
        // It may have been released just now.
        let Some(owner) = owner.and_then(|owner| owner.parse().ok()) else { continue };
        let idle_s = idle_s(connection, owner)?;
        if idle_s >= GONE_S {
            end(connection, owner)?;
        } else if idle_s < DOUBTFUL_S && begin.elapsed() >= patience {
            return Err(Failure::refused(format!(
                "another replay uses this target: the server's connection {owner} holds the lock {name}"
            )));
        }
    }
}

/// How long the server has had nothing to do for a connection, in seconds; 0 if it is at work, or not for us to see.
fn idle_s(connection: &mut Connection, id: u64) -> Result<u64, Failure> {
    let number = |value: Option<&Option<Vec<u8>>>| {
        value.and_then(|value| str::from_utf8(value.as_ref()?).ok()?.parse::<u64>().ok())
    };
    // Id, User, Host, db, Command, Time.
    let rows = connection.rows("SHOW PROCESSLIST")?;
    let row = rows.iter().find(|row| number(row.first()) == Some(id));
    let idle = row.filter(|row| row.get(4).and_then(Option::as_deref) == Some(b"Sleep"));
    Ok(idle.and_then(|row| number(row.get(5))).unwrap_or(0))
}

fn end(connection: &mut Connection, id: u64) -> Result<(), Failure> {
    const NO_SUCH_THREAD: u16 = 1094;
    match connection.run(&format!("KILL {id}")) {
        Err(error) if error.code() != Some(NO_SUCH_THREAD) => Err(Failure::refused(format!(
            "a replay that seems to be gone holds the target's lock in the server's connection {id}, which could not \
             be ended: {error}; KILL {id}"
        ))),
        _ => Ok(()),
    }
}

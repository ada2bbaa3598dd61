//! Notifications to systemd, for units with `Type=notify` (sd_notify(3)).
//!
//! | message | sent |
//! |---|---|
//! | `READY=1` | once the start is complete, and after each reload |
//! | `STATUS=` | when the line about the work changes, at most once per interval |
//! | `WATCHDOG=1` | twice per `WATCHDOG_USEC`, after the state of the command was read |
//! | `RELOADING=1` | when the command reads its files again |
//! | `STOPPING=1` | when a stop is requested, or the command ends by itself |

use std::env;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::background_thread::start_thread;
use crate::exit::CommandFailure;
use crate::http_site::HttpSite;
use crate::interrupt;
use crate::screen::visible;

/// Interval at which the thread polls for the end of the start, and for requests to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum interval between two lines of status.
const STATUS_INTERVAL: Duration = Duration::from_secs(2);

/// Thread that notifies systemd. Dropping it sends the last message and ends the thread.
#[derive(Debug)]
pub(crate) struct ServiceNotifier {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl ServiceNotifier {
    /// Starts notifying of the site's state; `None` if no service manager waits for messages.
    pub(crate) fn start(site: Arc<HttpSite>) -> Result<Option<Self>, CommandFailure> {
        if env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(None);
        }
        let (alive, is_alive) = channel();
        let notifying = start_thread("notifier", move || notify_until_end(&site, &is_alive))?;
        Ok(Some(Self { thread: Some((alive, notifying)) }))
    }
}

impl Drop for ServiceNotifier {
    fn drop(&mut self) {
        if let Some((alive, notifying)) = self.thread.take() {
            drop(alive);
            // A panic there was reported by the panic hook.
            let _ = notifying.join();
        }
    }
}

/// Reloads the command's files, and notifies systemd.
pub(crate) fn notify_reload<T>(reload: impl FnOnce() -> T) -> T {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(_) => send(&[NotifyState::Reloading]),
    }
    let reloaded = reload();
    send(&[NotifyState::Ready]);
    reloaded
}

/// Sends messages, if a service manager waits for them. Ignores failures.
fn send(messages: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(messages);
}

fn notify_until_end(site: &HttpSite, is_alive: &Receiver<()>) {
    // Half of the limit leaves time for a delayed message.
    let mut schedule = NotificationSchedule::new(sd_notify::watchdog_enabled().map(|limit| limit / 2));
    let mut shown = String::new();
    loop {
        let has_ended = is_alive.recv_timeout(POLL_INTERVAL) != Err(RecvTimeoutError::Timeout);
        let (now, is_stopping) = (Instant::now(), has_ended || interrupt::is_stop_requested());
        let mut messages = schedule.due(now, is_stopping, || site.is_started());
        if schedule.is_status_due(now) || !messages.is_empty() {
            // The status is read before a ping is sent. Reading it needs the locks of the command's threads, so a
            // deadlock also stops the pings.
            let status = if is_stopping { "stopping".to_owned() } else { visible(&site.status_line()) };
            if status != shown {
                shown = status;
                messages.push(NotifyState::Status(&shown));
            }
            send(&messages);
        }
        if has_ended {
            return;
        }
    }
}

/// Messages already sent, and times of the next messages.
#[derive(Debug)]
struct NotificationSchedule {
    ping_interval: Option<Duration>,
    pinged: Option<Instant>,
    status_read: Option<Instant>,
    is_ready: bool,
    is_stopping: bool,
}

impl NotificationSchedule {
    const fn new(ping_interval: Option<Duration>) -> Self {
        Self { ping_interval, pinged: None, status_read: None, is_ready: false, is_stopping: false }
    }

    /// Returns the messages that are due, without the status.
    fn due<'s>(
        &mut self,
        now: Instant,
        is_stopping: bool,
        is_started: impl FnOnce() -> bool,
    ) -> Vec<NotifyState<'s>> {
        let mut messages = Vec::new();
        if is_stopping && !self.is_stopping {
            self.is_stopping = true;
            messages.push(NotifyState::Stopping);
        }
        if !is_stopping && !self.is_ready && is_started() {
            self.is_ready = true;
            messages.push(NotifyState::Ready);
        }
        if self.ping_interval.is_some_and(|interval| is_due(self.pinged, interval, now)) {
            self.pinged = Some(now);
            messages.push(NotifyState::Watchdog);
        }
        messages
    }

    /// Returns whether the status must be read again.
    fn is_status_due(&mut self, now: Instant) -> bool {
        let is_due = is_due(self.status_read, STATUS_INTERVAL, now);
        if is_due {
            self.status_read = Some(now);
        }
        is_due
    }
}

fn is_due(last: Option<Instant>, interval: Duration, now: Instant) -> bool {
    last.is_none_or(|last| now.saturating_duration_since(last) >= interval)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::NotificationSchedule;

    #[test]
    fn messages_are_sent_once_and_pings_at_their_interval() {
        let began = Instant::now();
        let mut schedule = NotificationSchedule::new(Some(Duration::from_secs(10)));
        let mut check = |after_s, is_stopping, is_started, expected: &[&str]| {
            let now = began + Duration::from_secs(after_s);
            let messages = schedule.due(now, is_stopping, || is_started);
            let messages: Vec<String> = messages.iter().map(ToString::to_string).collect();
            assert_eq!(messages, expected, "after {after_s} s");
        };
        check(0, false, false, &["WATCHDOG=1"]);
        check(9, false, true, &["READY=1"]);
        check(10, false, true, &["WATCHDOG=1"]);
        check(11, false, false, &[]);
        check(12, true, true, &["STOPPING=1"]);
        check(20, true, true, &["WATCHDOG=1"]);
        let mut schedule = NotificationSchedule::new(None);
        assert!(schedule.is_status_due(began) && !schedule.is_status_due(began + Duration::from_secs(1)));
        assert!(schedule.is_status_due(began + Duration::from_secs(2)));
    }
}

//! What a replica reads from its disks, and who.

use std::time::Duration;

use servers::Connection;

use crate::error::Error;
use crate::replica::Replica;
use crate::report::{Reads, Waits};

/// Reads of InnoDB's files by our connections (1) and by the replica's applier (0).
fn question(connections: &[u32]) -> String {
    let mut ours: Vec<String> = connections.iter().map(u32::to_string).collect();
    ours.push("0".to_owned());
    let ours = ours.join(",");
    format!(
        "SELECT IFNULL(t.processlist_id IN ({ours}), 0), SUM(w.count_star), SUM(w.sum_timer_wait) DIV 1000
         FROM performance_schema.threads t
         JOIN performance_schema.events_waits_summary_by_thread_by_event_name w USING (thread_id)
         WHERE w.event_name = 'wait/io/file/innodb/innodb_data_file'
           AND EXISTS (SELECT 1 FROM performance_schema.setup_instruments i
             WHERE i.name = 'wait/io/file/innodb/innodb_data_file' AND i.enabled = 'YES') AND (t.processlist_id IN ({ours})
           OR t.name IN ('thread/sql/replica_sql', 'thread/sql/replica_worker', 'thread/sql/slave_sql',
             'thread/sql/slave_worker', 'thread/sql/rpl_parallel_thread'))
         GROUP BY 1"
    )
}

/// Asks.
pub(crate) fn reads(replica: &mut Replica, connections: &[u32]) -> Result<Reads, Error> {
    let all = replica.counter("Innodb_buffer_pool_reads")?;
    let (ours, applier) = match waits(replica.connection(), connections) {
        Ok(Some((ours, applier))) => (Some(ours), Some(applier)),
        Ok(None) => (None, None),
        // The account may not know, or nobody does.
        Err(servers::Error::Refused { .. }) => (None, None),
        Err(cause) => return Err(Error::Server { doing: "ask who reads", cause }),
    };
    Ok(Reads { all, ours, applier })
}

/// `None` if nobody counts them, as where `performance_schema` is off.
fn waits(connection: &mut Connection, connections: &[u32]) -> Result<Option<(Waits, Waits)>, servers::Error> {
    let (mut ours, mut applier) = (Waits::default(), Waits::default());
    let rows = connection.rows(&question(connections))?;
    if rows.is_empty() {
        return Ok(None);
    }
    for row in rows {
        let number = |at: usize| {
            let text = row.get(at).and_then(|value| value.as_deref()).unwrap_or_default();
            str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
        };
        let waits = Waits { pages: number(1), time: Duration::from_nanos(number(2)) };
        match number(0) {
            0 => applier = waits,
            _ => ours = waits,
        }
    }
    Ok(Some((ours, applier)))
}

/// Threads of the server that run statements of others: neither of its applier's nor of ours.
pub(crate) fn others_running(replica: &mut Replica, ours: usize, appliers: u64) -> Result<u64, Error> {
    let running = replica.counter("Threads_running")?;
    // One is the connection that asks.
    Ok(running.saturating_sub(1 + ours as u64 + appliers))
}

/// What was read since the beginning: threads come and go, and with each goes what it counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    last: Option<Reads>,
    total: Reads,
}

impl Account {
    /// The replica says so now.
    pub(crate) fn add(&mut self, now: Reads) {
        let last = self.last.replace(now).unwrap_or(now);
        // One that has begun anew counts from nothing.
        self.total.all += now.all.checked_sub(last.all).unwrap_or(now.all);
        grow(&mut self.total.ours, now.ours, last.ours);
        grow(&mut self.total.applier, now.applier, last.applier);
    }

    pub(crate) const fn total(&self) -> Reads {
        self.total
    }
}

fn grow(total: &mut Option<Waits>, now: Option<Waits>, last: Option<Waits>) {
    let Some(now) = now else { return };
    let last = last.unwrap_or_default();
    let more = if now.pages < last.pages { now } else { now.since(last) };
    let total = total.get_or_insert_default();
    total.pages += more.pages;
    total.time += more.time;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Account;
    use crate::report::{Reads, Waits};

    fn waits(pages: u64) -> Option<Waits> {
        Some(Waits { pages, time: Duration::from_millis(pages) })
    }

    #[test]
    fn what_was_read_before_does_not_count_and_threads_begin_anew() {
        let mut account = Account::default();
        let mut check = |all, ours, applier, wanted: (u64, u64, u64)| {
            account.add(Reads { all, ours: waits(ours), applier: waits(applier) });
            let total = account.total();
            let pages = |waits: Option<Waits>| waits.unwrap().pages;
            assert_eq!((total.all, pages(total.ours), pages(total.applier)), wanted);
        };
        check(1000, 0, 500, (0, 0, 0));
        check(1100, 60, 540, (100, 60, 40));
        check(1200, 10, 640, (200, 70, 140));
        check(5, 20, 3, (205, 80, 143));
    }
}

//! Measurement of a replica's disk reads, by thread.

use std::collections::HashMap;
use std::time::Duration;

use servers::{ResultRow, SqlConnection};

use crate::error::WarmError;
use crate::replica_monitor::ReplicaMonitor;
use crate::report::{DiskReads, DiskWaits};

/// Current values of the replica's counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadCounters {
    /// Reads by all threads.
    all: u64,
    /// Waits of our connections and of the applier's threads; `None` if the server does not count them.
    threads: Option<Vec<ThreadWaits>>,
}

/// Disk waits of one thread of the server.
#[derive(Clone, Copy, Debug)]
struct ThreadWaits {
    /// Thread ID.
    id: u64,
    /// True for connections of searches, false for the applier's threads.
    is_ours: bool,
    waits: DiskWaits,
}

/// Returns one row if all instruments and consumers that count waits per thread are enabled.
const INSTRUMENTS_QUERY: &str = "SELECT 1 FROM performance_schema.setup_instruments
    WHERE @@GLOBAL.performance_schema = 1 AND name = 'wait/io/file/innodb/innodb_data_file'
      AND enabled = 'YES' AND timed = 'YES'
      AND 2 = (SELECT COUNT(*) FROM performance_schema.setup_consumers
        WHERE name IN ('global_instrumentation', 'thread_instrumentation') AND enabled = 'YES')";

/// Returns the query for waits on InnoDB's data files: by `connections` (1), and by the replica's applier threads or
/// the connections `appliers` (0). Includes a thread's few writes, which the server does not count separately.
fn waits_query(connections: &[u32], appliers: &[u32]) -> String {
    let list = |ids: &[u32]| ids.iter().chain(&[0]).map(u32::to_string).collect::<Vec<_>>().join(",");
    let (ours, appliers) = (list(connections), list(appliers));
    format!(
        "SELECT t.thread_id, IFNULL(t.processlist_id IN ({ours}), 0), w.count_star, w.sum_timer_wait DIV 1000
         FROM performance_schema.threads t
         JOIN performance_schema.events_waits_summary_by_thread_by_event_name w USING (thread_id)
         WHERE w.event_name = 'wait/io/file/innodb/innodb_data_file'
           AND (t.processlist_id IN ({ours},{appliers})
           OR t.name IN ('thread/sql/replica_sql', 'thread/sql/replica_worker', 'thread/sql/slave_sql',
             'thread/sql/slave_worker', 'thread/sql/rpl_parallel_thread'))"
    )
}

/// Queries the counters.
pub(crate) fn query_counters(
    replica: &mut ReplicaMonitor,
    connections: &[u32],
    appliers: &[u32],
) -> Result<ReadCounters, WarmError> {
    let all = replica.counter("Innodb_buffer_pool_reads")?;
    let threads = match threads(replica.connection(), connections, appliers) {
        Ok(threads) => threads,
        // The account lacks the privilege, or the server lacks the tables.
        Err(servers::ConnectionError::Refused { .. }) => None,
        Err(cause) => return Err(WarmError::Server { doing: "query disk reads by thread", cause }),
    };
    Ok(ReadCounters { all, threads })
}

/// Returns the waits per thread; `None` if the server does not count them, for example with `performance_schema` off.
fn threads(
    connection: &mut SqlConnection,
    connections: &[u32],
    appliers: &[u32],
) -> Result<Option<Vec<ThreadWaits>>, servers::ConnectionError> {
    if connection.rows(INSTRUMENTS_QUERY)?.is_empty() {
        return Ok(None);
    }
    let rows = connection.rows(&waits_query(connections, appliers))?;
    Ok(Some(rows.iter().map(thread).collect()))
}

fn thread(row: &ResultRow) -> ThreadWaits {
    let number = |at: usize| {
        let text = row.get(at).and_then(|value| value.as_deref()).unwrap_or_default();
        str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    let waits = DiskWaits { pages: number(2), time: Duration::from_nanos(number(3)) };
    ThreadWaits { id: number(0), is_ours: number(1) != 0, waits }
}

/// Returns the number of threads that run statements of other clients.
pub(crate) fn others_running(
    replica: &mut ReplicaMonitor,
    ours: usize,
    appliers: u64,
) -> Result<u64, WarmError> {
    let running = replica.counter("Threads_running")?;
    // One thread is the connection of this query.
    Ok(running.saturating_sub(1 + ours as u64 + appliers))
}

/// Totals of reads since the start. The counters of a thread exist only while the thread runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadTotals {
    /// Previous counters, of all threads and of each thread; `None` at first.
    all: Option<u64>,
    threads: Option<HashMap<u64, DiskWaits>>,
    is_counted: bool,
    total: DiskReads,
}

impl ReadTotals {
    /// Adds the growth of the counters since the previous ones.
    pub(crate) fn add(&mut self, now: &ReadCounters) {
        let last = self.all.replace(now.all).unwrap_or(now.all);
        // A restarted server counts from zero.
        self.total.all += now.all.checked_sub(last).unwrap_or(now.all);
        self.is_counted = now.threads.is_some();
        let Some(threads) = &now.threads else { return };
        let all = threads.iter().map(|thread| (thread.id, thread.waits)).collect();
        let last = self.threads.replace(all);
        let ours = self.total.ours.get_or_insert_default();
        let applier = self.total.applier.get_or_insert_default();
        for thread in threads {
            let more = match &last {
                // Reads before the start do not count.
                None => DiskWaits::default(),
                Some(last) => waits_since(thread.waits, last.get(&thread.id)),
            };
            let total = if thread.is_ours { &mut *ours } else { &mut *applier };
            total.pages += more.pages;
            total.time += more.time;
        }
    }

    pub(crate) const fn total(&self) -> DiskReads {
        self.total
    }

    /// Returns whether the latest counters include waits per thread.
    pub(crate) const fn has_thread_waits(&self) -> bool {
        self.is_counted
    }
}

/// Returns the growth of a thread's waits. A new thread, or one that reuses an ID, counts from zero.
fn waits_since(now: DiskWaits, last: Option<&DiskWaits>) -> DiskWaits {
    match last {
        Some(last) if now.pages >= last.pages => now.since(*last),
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ReadCounters, ReadTotals, ThreadWaits};
    use crate::report::{DiskReads, DiskWaits};

    /// Returns counters; our threads have even IDs.
    fn counted(all: u64, threads: &[(u64, u64)]) -> ReadCounters {
        let thread = |(id, pages): &(u64, u64)| {
            let waits = DiskWaits { pages: *pages, time: Duration::from_millis(*pages) };
            ThreadWaits { id: *id, is_ours: id % 2 == 0, waits }
        };
        ReadCounters { all, threads: Some(threads.iter().map(thread).collect()) }
    }

    #[test]
    fn totals_survive_the_end_of_threads() {
        let mut account = ReadTotals::default();
        let mut check = |all, threads: &[(u64, u64)], expected: (u64, u64, u64)| {
            account.add(&counted(all, threads));
            let total = account.total();
            let pages = |waits: Option<DiskWaits>| waits.unwrap().pages;
            assert_eq!((total.all, pages(total.ours), pages(total.applier)), expected, "{threads:?}");
        };
        check(1000, &[(1, 500)], (0, 0, 0));
        check(1100, &[(1, 540), (2, 40), (4, 20)], (100, 60, 40));
        // After one connection is lost, the reads of the others must not count twice.
        check(1150, &[(1, 540), (4, 30)], (150, 70, 40));
        check(1200, &[(1, 640), (4, 30), (6, 5)], (200, 75, 140));
        // The server has restarted.
        check(5, &[(1, 3), (6, 4)], (205, 79, 143));
    }

    #[test]
    fn uncounted_reads_are_unknown_not_zero() {
        let mut account = ReadTotals::default();
        account.add(&ReadCounters { all: 7, threads: None });
        account.add(&ReadCounters { all: 9, threads: None });
        assert_eq!(account.total(), DiskReads { all: 2, ours: None, applier: None });
        assert!(!account.has_thread_waits());
        account.add(&counted(9, &[]));
        assert_eq!((account.total().ours, account.has_thread_waits()), (Some(DiskWaits::default()), true));
        // Counting is switched off while the server runs.
        account.add(&ReadCounters { all: 9, threads: None });
        assert!(!account.has_thread_waits());
    }
}

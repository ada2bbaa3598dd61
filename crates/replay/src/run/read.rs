//! Reads transactions ahead, in order, each with its apply plan.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use binlog::PayloadOpener;
use filter::Filter;

use crate::error::Error;
use crate::filter::Filtering;
use crate::run::Gap;
use crate::run::flow::Flow;
use crate::run::skip::Skip;
use crate::select::{Choice, Late, Selector};
use crate::source::Source;
use crate::unit::Head;
use crate::work::{Step, Work};

/// Some transactions, and the read position after them.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) units: Vec<(Head, Work)>,
    pub(super) so_far: SoFar,
    /// Nothing more is available yet.
    pub(super) is_last: bool,
    /// Reason why nothing follows.
    pub(super) failure: Option<Error>,
}

/// Progress of reading.
#[derive(Debug, Default)]
pub(super) struct SoFar {
    /// Further transactions that were skipped because the target has them, or they are not selected.
    pub(super) skipped: u64,
    /// Bytes of the logs read so far.
    pub(super) bytes_read: u64,
    /// Transactions after the stop, once they are counted.
    pub(super) late: Option<Late>,
}

/// Maximum batches between reader and group builder. Bounds memory, with the size of a batch.
const BATCHES_MAX: usize = 4;
/// Approximate bytes of transactions in a batch; a larger transaction is a batch by itself.
const BATCH_SIZE: usize = 1 << 20;

pub(super) fn channel() -> (SyncSender<Batch>, Receiver<Batch>) {
    sync_channel(BATCHES_MAX)
}

/// Interval at which a followed log is polled. Each poll tries to read the log and reads the index.
const POLL_PAUSE: Duration = Duration::from_millis(5);

/// Reads the source to its end, or until the receiver is gone.
pub(super) fn read(source: &mut Source, mut sieve: Sieve<'_>, out: &SyncSender<Batch>, flow: &Flow) {
    let (mut opener, mut was_last) = (source.opener(), false);
    loop {
        let mut batch = Batch::default();
        let result = fill(source, &mut sieve, &mut opener, &mut batch);
        batch.so_far.bytes_read = source.bytes_read();
        batch.is_last = matches!(result, Ok(More::Later));
        let (is_last, more) = (batch.is_last, result.as_ref().map_or(More::No, |more| *more));
        batch.failure = result.err();
        let is_news = !is_last || !was_last || !batch.units.is_empty() || batch.so_far.skipped > 0;
        was_last = is_last;
        if is_news && out.send(batch).is_err() {
            return;
        }
        match more {
            More::Yes => {}
            More::Later if flow.is_stopped() => return,
            More::Later => thread::sleep(POLL_PAUSE),
            More::No => return,
            More::Behind(limit) => return look_behind(source, limit, &mut opener, out),
        }
    }
}

/// Bytes between two progress reports after the stop.
const TELL_PERIOD: u64 = 64 << 20;

/// Counts transactions after the stop that are not applied.
fn look_behind(source: &mut Source, limit: u64, opener: &mut PayloadOpener, out: &SyncSender<Batch>) {
    let mut told = source.bytes_read();
    let mut go_on = |bytes_read| {
        if bytes_read < told + TELL_PERIOD {
            return ControlFlow::Continue(());
        }
        told = bytes_read;
        let so_far = SoFar { bytes_read, ..SoFar::default() };
        match out.send(Batch { so_far, ..Batch::default() }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    };
    let late = Late::of(source, limit, opener, &mut go_on);
    let so_far = SoFar { bytes_read: source.bytes_read(), late: Some(late), skipped: 0 };
    // If the receiver is gone, another thread failed first.
    let _ = out.send(Batch { so_far, ..Batch::default() });
}

/// Rules that decide which transactions are applied.
pub(super) struct Sieve<'s> {
    pub(super) selector: Selector,
    pub(super) skip: Skip,
    pub(super) filter: &'s Filter,
    pub(super) gap: Gap,
}

#[derive(Clone, Copy)]
enum More {
    Yes,
    /// Maybe: logs are still being written.
    Later,
    No,
    /// No more that are selected. The stop is this time, in microseconds since 1970.
    Behind(u64),
}

fn fill(
    source: &mut Source,
    sieve: &mut Sieve<'_>,
    opener: &mut PayloadOpener,
    batch: &mut Batch,
) -> Result<More, Error> {
    let mut size = 0;
    while size < BATCH_SIZE {
        let Some(found) = source.next_found(opener)? else {
            if source.is_followed() {
                return Ok(More::Later);
            }
            sieve.selector.finish()?;
            return Ok(More::No);
        };
        let head = found.head();
        if sieve.gap == Gap::Refuse {
            sieve.skip.check_gap(&head, source.previous())?;
        }
        let is_again = sieve.skip.is_again(&head)?;
        match sieve.selector.choose(&head) {
            Choice::Take if !is_again && !sieve.skip.has(&head)? => {}
            Choice::Take | Choice::Leave => {
                batch.so_far.skipped += 1;
                continue;
            }
            Choice::Stop => return Ok(sieve.selector.stop_time().map_or(More::No, More::Behind)),
        }
        let work = found.work(opener, source.held_max()).and_then(|work| Filtering(sieve.filter).apply(work));
        let work = work.map_err(|error| Error::Work { unit: head.to_string(), error })?;
        size += work.steps.iter().map(Step::size).sum::<usize>() + size_of::<(Head, Work)>();
        if !work.is_held() {
            // Its temporary file takes disk space: end the batch, since the number of batches is bounded.
            size = BATCH_SIZE;
        }
        batch.units.push((head, work));
    }
    Ok(More::Yes)
}

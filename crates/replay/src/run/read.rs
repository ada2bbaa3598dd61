//! Reads ahead: transactions in order, each with what it asks of a target.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use binlog::PayloadOpener;

use crate::error::Error;
use crate::filter::Filter;
use crate::run::Gap;
use crate::run::skip::Skip;
use crate::select::{Choice, Selector};
use crate::source::Source;
use crate::unit::Head;
use crate::work::{Step, Work};

/// Some transactions, and how far the source has been read with them.
pub(super) struct Batch {
    pub(super) units: Vec<(Head, Work)>,
    /// Of these, so many more were passed over, because the target has them, or they are not meant.
    pub(super) skipped: u64,
    /// Bytes of the logs gone over by now.
    pub(super) bytes_read: u64,
    /// Why there is nothing behind them.
    pub(super) failure: Option<Error>,
}

/// Batches between the reader and who forms groups. Bounds memory, with the size of one.
const BATCHES_MAX: usize = 4;
/// Bytes of transactions in a batch, about: a larger transaction is one by itself.
const BATCH_SIZE: usize = 1 << 20;

pub(super) fn channel() -> (SyncSender<Batch>, Receiver<Batch>) {
    sync_channel(BATCHES_MAX)
}

/// Reads the source to its end, or until nobody listens any more.
pub(super) fn read(source: &mut Source, mut sieve: Sieve<'_>, out: &SyncSender<Batch>) {
    let mut opener = PayloadOpener::new();
    loop {
        let mut batch = Batch { units: Vec::new(), skipped: 0, bytes_read: 0, failure: None };
        let result = fill(source, &mut sieve, &mut opener, &mut batch);
        batch.bytes_read = source.bytes_read();
        let is_over = !matches!(result, Ok(More::Yes));
        batch.failure = result.err();
        if out.send(batch).is_err() || is_over {
            return;
        }
    }
}

/// What decides which transactions are applied.
pub(super) struct Sieve<'s> {
    pub(super) selector: Selector,
    pub(super) skip: Skip,
    pub(super) filter: &'s Filter,
    pub(super) gap: Gap,
}

enum More {
    Yes,
    No,
}

fn fill(
    source: &mut Source,
    sieve: &mut Sieve<'_>,
    opener: &mut PayloadOpener,
    batch: &mut Batch,
) -> Result<More, Error> {
    let mut size = 0;
    while size < BATCH_SIZE {
        let Some(found) = source.next_found(opener)? else { return Ok(More::No) };
        let head = found.head();
        if sieve.gap == Gap::Refuse {
            sieve.skip.check_gap(&head, source.previous())?;
        }
        let is_again = sieve.skip.is_again(&head)?;
        match sieve.selector.choose(&head) {
            Choice::Take if !is_again && !sieve.skip.has(&head)? => {}
            Choice::Take | Choice::Leave => {
                batch.skipped += 1;
                continue;
            }
            Choice::Stop => return Ok(More::No),
        }
        let work = found.work(opener, source.held_max()).and_then(|work| sieve.filter.apply(work));
        let work = work.map_err(|error| Error::Work { unit: head.to_string(), error })?;
        size += work.steps.iter().map(Step::size).sum::<usize>() + size_of::<(Head, Work)>();
        if !work.is_held() {
            size = BATCH_SIZE; // A file is open for it, and fills a disk: no more are read ahead than batches.
        }
        batch.units.push((head, work));
    }
    Ok(More::Yes)
}

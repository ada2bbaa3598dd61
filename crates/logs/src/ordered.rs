//! Pipeline that reads items in order, processes them in parallel, and delivers the results in order, bounded in bytes.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::mutex_lock::lock;

/// Limits of threads and memory of [`run_ordered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineLimits {
    /// Number of worker threads, besides the feeder's thread and the caller's.
    pub workers: NonZeroUsize,
    /// Total size of all items and parts in bytes, as stated by their creators. One item, and one part for each worker,
    /// may exceed the limit.
    pub bytes: usize,
}

impl PipelineLimits {
    /// Returns limits with one worker for each core that this process may use.
    pub fn with_bytes(bytes: usize) -> Self {
        Self { workers: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN), bytes }
    }
}

/// Reads items in order, processes them in parallel, and delivers the results in order.
///
/// `feed` runs in its own thread and pushes items. Workers turn each item into any number of parts. `take` gets the
/// parts in the caller's thread, in the order of their items. Each worker thread creates one `worker`, and reuses its
/// context and buffers.
///
/// The feeder waits while items fill their half of [`PipelineLimits::bytes`]. A worker waits while parts fill the other
/// half, unless its item is the next to be delivered. Therefore, one item can have any number of parts.
///
/// The run ends early, without an error, when `take` returns `Break`.
///
/// # Errors
///
/// Fails with the first error in the order of the items, after all parts before it have been delivered. An error of `feed`
/// comes after all items that were pushed, an error of `take` immediately.
///
/// # Panics
///
/// If one of the closures panics.
pub fn run_ordered<Item, Part, Worker, E>(
    bounds: PipelineLimits,
    feed: impl FnOnce(&ItemSender<'_, Item>) -> Result<(), E> + Send,
    worker: impl Fn() -> Worker + Sync,
    work: impl Fn(&mut Worker, Item, &PartSender<'_, Part>) -> Result<(), E> + Sync,
    mut take: impl FnMut(Part) -> Result<ControlFlow<()>, E>,
) -> Result<(), E>
where
    Item: Send,
    Part: Send,
    E: Send + From<PipelineShutdown>,
{
    let line = PipelineShared::new(bounds);
    let outcome = thread::scope(|scope| {
        // Stop the threads at any end of this scope, also a panic. Otherwise the scope would wait for them forever.
        let _stop = StopOnDrop(&line);
        scope.spawn(|| {
            let _stop = StopOnPanic(&line);
            line.end_feed(feed(&ItemSender(&line)));
        });
        for _ in 0..bounds.workers.get() {
            scope.spawn(|| {
                let _stop = StopOnPanic(&line);
                let mut worker = worker();
                while let Some(QueuedItem { number, item, bytes }) = line.next_item() {
                    let result = work(&mut worker, item, &PartSender { line: &line, number });
                    line.finish_item(number, bytes, result);
                }
            });
        }
        loop {
            match line.next_part() {
                NextOutput::Part(part) => match take(part) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return Some(Ok(())),
                    Err(error) => return Some(Err(error)),
                },
                NextOutput::End(result) => return Some(result),
                NextOutput::Panic => return None,
            }
        }
    });
    match outcome {
        Some(result) => result,
        None => unreachable!("ours: the scope panics if one of its threads panicked"),
    }
}

/// Signal to a closure that the run has ended, by an error or a `Break`. The closure returns this signal as its error;
/// [`run_ordered`] never returns the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineShutdown;

impl fmt::Display for PipelineShutdown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the run has ended")
    }
}

impl std::error::Error for PipelineShutdown {}

/// Sends items to the workers.
pub struct ItemSender<'l, Item>(&'l (dyn SendItem<Item> + 'l));

impl<Item> ItemSender<'_, Item> {
    /// Sends one item of this size in bytes, once there is room.
    ///
    /// # Errors
    ///
    /// Fails if the run has ended.
    pub fn push(&self, item: Item, bytes: usize) -> Result<(), PipelineShutdown> {
        self.0.accept_item(item, bytes)
    }
}

/// Sends the parts of one item.
pub struct PartSender<'l, Part> {
    line: &'l (dyn SendPart<Part> + 'l),
    number: u64,
}

impl<Part> PartSender<'_, Part> {
    /// Sends one part of this size in bytes, once there is room or all items before this one are delivered.
    ///
    /// # Errors
    ///
    /// Fails if the run has ended.
    pub fn push(&self, part: Part, bytes: usize) -> Result<(), PipelineShutdown> {
        self.line.accept_part(self.number, part, bytes)
    }
}

/// Hides the types of parts and errors from [`ItemSender`].
trait SendItem<Item>: Sync {
    fn accept_item(&self, item: Item, bytes: usize) -> Result<(), PipelineShutdown>;
}

/// Hides the types of items and errors from [`PartSender`].
trait SendPart<Part>: Sync {
    fn accept_part(&self, number: u64, part: Part, bytes: usize) -> Result<(), PipelineShutdown>;
}

impl<Item: Send, Part: Send, E: Send> SendItem<Item> for PipelineShared<Item, Part, E> {
    fn accept_item(&self, item: Item, bytes: usize) -> Result<(), PipelineShutdown> {
        let bytes = bytes + OVERHEAD_SIZE;
        let mut state = self.lock();
        while !state.stopped && state.item_bytes > 0 && state.item_bytes + bytes > self.half {
            state = wait(&self.feed_room, state);
        }
        if state.stopped {
            return Err(PipelineShutdown);
        }
        assert!(state.fed.is_none(), "ours: no item follows the end of the feed");
        let number = state.first + state.open.len() as u64;
        state.open.push_back(OpenItem { parts: VecDeque::new(), result: None });
        state.items.push_back(QueuedItem { number, item, bytes });
        state.item_bytes += bytes;
        self.has_item.notify_one();
        Ok(())
    }
}

impl<Item: Send, Part: Send, E: Send> SendPart<Part> for PipelineShared<Item, Part, E> {
    fn accept_part(&self, number: u64, part: Part, bytes: usize) -> Result<(), PipelineShutdown> {
        let bytes = bytes + OVERHEAD_SIZE;
        let mut state = self.lock();
        while !state.stopped {
            let index = state.open_index(number);
            let fits = state.part_bytes + bytes <= self.half;
            // The next item in order may always have one waiting part. Otherwise all threads could wait forever.
            if fits || (index == 0 && state.open[0].parts.is_empty()) {
                state.open[index].parts.push_back(QueuedPart { part, bytes });
                state.part_bytes += bytes;
                if index == 0 {
                    self.has_part.notify_one();
                }
                return Ok(());
            }
            state = wait(&self.part_room, state);
        }
        Err(PipelineShutdown)
    }
}

/// Memory of an item or a part besides its own bytes. Also bounds the number of small items and parts.
const OVERHEAD_SIZE: usize = 128;

/// State and condition variables, shared by the threads.
struct PipelineShared<Item, Part, E> {
    half: usize,
    state: Mutex<PipelineState<Item, Part, E>>,
    feed_room: Condvar,
    has_item: Condvar,
    part_room: Condvar,
    has_part: Condvar,
}

struct PipelineState<Item, Part, E> {
    /// Items that no worker has taken yet.
    items: VecDeque<QueuedItem<Item>>,
    /// Items whose parts are not all delivered, in order. The first of them has the number `first`.
    open: VecDeque<OpenItem<Part, E>>,
    first: u64,
    /// Bytes of the items that are queued or being processed.
    item_bytes: usize,
    /// Bytes of the parts that wait for delivery.
    part_bytes: usize,
    /// Result of `feed`, once it has returned.
    fed: Option<Result<(), E>>,
    stopped: bool,
    panicked: bool,
}

struct QueuedItem<Item> {
    /// Number of the item in the run, from 0.
    number: u64,
    item: Item,
    bytes: usize,
}

struct QueuedPart<Part> {
    part: Part,
    bytes: usize,
}

struct OpenItem<Part, E> {
    parts: VecDeque<QueuedPart<Part>>,
    /// Result of the item's worker, once the worker has finished it.
    result: Option<Result<(), E>>,
}

enum NextOutput<Part, E> {
    Part(Part),
    End(Result<(), E>),
    Panic,
}

impl<Item, Part, E> PipelineState<Item, Part, E> {
    /// Returns the index in `open` of the item with this number.
    fn open_index(&self, number: u64) -> usize {
        assert!(number >= self.first, "ours: an item is open until its worker has finished it");
        let index = (number - self.first) as usize;
        assert!(index < self.open.len(), "ours: only items that were fed have numbers");
        index
    }
}

impl<Item, Part, E> PipelineShared<Item, Part, E> {
    fn new(bounds: PipelineLimits) -> Self {
        let state = PipelineState {
            items: VecDeque::new(),
            open: VecDeque::new(),
            first: 0,
            item_bytes: 0,
            part_bytes: 0,
            fed: None,
            stopped: false,
            panicked: false,
        };
        Self {
            half: bounds.bytes / 2,
            state: Mutex::new(state),
            feed_room: Condvar::new(),
            has_item: Condvar::new(),
            part_room: Condvar::new(),
            has_part: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PipelineState<Item, Part, E>> {
        // No closure of a caller runs under the lock, so a panic leaves the state consistent.
        lock(&self.state)
    }

    fn end_feed(&self, result: Result<(), E>) {
        let mut state = self.lock();
        assert!(state.fed.is_none(), "ours: the feed ends once");
        state.fed = Some(result);
        self.has_item.notify_all();
        self.has_part.notify_one();
    }

    fn next_item(&self) -> Option<QueuedItem<Item>> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(item) = state.items.pop_front() {
                return Some(item);
            }
            if state.fed.is_some() {
                return None;
            }
            state = wait(&self.has_item, state);
        }
    }

    fn finish_item(&self, number: u64, bytes: usize, result: Result<(), E>) {
        let mut state = self.lock();
        let index = state.open_index(number);
        assert!(bytes <= state.item_bytes, "ours: an item releases the bytes that it reserved");
        assert!(state.open[index].result.is_none(), "ours: an item is finished once");
        state.item_bytes -= bytes;
        state.open[index].result = Some(result);
        self.feed_room.notify_one();
        if index == 0 {
            self.has_part.notify_one();
        }
    }

    fn next_part(&self) -> NextOutput<Part, E> {
        let mut state = self.lock();
        loop {
            if state.panicked {
                return NextOutput::Panic;
            }
            match state.open.front_mut() {
                Some(open) => {
                    if let Some(QueuedPart { part, bytes }) = open.parts.pop_front() {
                        assert!(
                            bytes <= state.part_bytes,
                            "ours: a part releases the bytes that it reserved"
                        );
                        state.part_bytes -= bytes;
                        self.part_room.notify_all();
                        return NextOutput::Part(part);
                    }
                    match open.result.take() {
                        Some(Ok(())) => {
                            state.open.pop_front();
                            state.first += 1;
                            self.part_room.notify_all();
                            continue;
                        }
                        Some(Err(error)) => return NextOutput::End(Err(error)),
                        None => {}
                    }
                }
                None => {
                    if let Some(result) = state.fed.take() {
                        return NextOutput::End(result);
                    }
                }
            }
            state = wait(&self.has_part, state);
        }
    }

    fn stop(&self, why: PipelineStop) {
        let mut state = self.lock();
        state.stopped = true;
        state.panicked |= why == PipelineStop::Panic;
        self.feed_room.notify_all();
        self.has_item.notify_all();
        self.part_room.notify_all();
        self.has_part.notify_all();
    }
}

fn wait<'g, T>(condvar: &Condvar, guard: MutexGuard<'g, T>) -> MutexGuard<'g, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Copy, PartialEq)]
enum PipelineStop {
    Complete,
    Panic,
}

struct StopOnDrop<'l, Item, Part, E>(&'l PipelineShared<Item, Part, E>);

impl<Item, Part, E> Drop for StopOnDrop<'_, Item, Part, E> {
    fn drop(&mut self) {
        self.0.stop(PipelineStop::Complete);
    }
}

struct StopOnPanic<'l, Item, Part, E>(&'l PipelineShared<Item, Part, E>);

impl<Item, Part, E> Drop for StopOnPanic<'_, Item, Part, E> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop(PipelineStop::Panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::num::NonZeroUsize;
    use std::ops::ControlFlow;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicIsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

    use super::{OVERHEAD_SIZE, PipelineLimits, PipelineShutdown, run_ordered};

    #[derive(Debug, PartialEq)]
    enum PipelineTestError {
        Stopped,
        At(&'static str, u64),
    }

    impl From<PipelineShutdown> for PipelineTestError {
        fn from(_: PipelineShutdown) -> Self {
            Self::Stopped
        }
    }

    /// Numbers of the items at which the closures fail or `take` breaks.
    #[derive(Clone, Copy, Default)]
    struct InjectedFault {
        feed: Option<u64>,
        work: Option<u64>,
        take: Option<u64>,
        enough: Option<u64>,
    }

    /// Feeds one item for each element of `parts`, which is its number of parts. Returns the delivered parts and the
    /// result.
    fn run(parts: &[u64], bytes: usize, fault: InjectedFault) -> (String, Result<(), PipelineTestError>) {
        let mut out = String::new();
        let bounds = PipelineLimits { workers: NonZeroUsize::new(3).unwrap(), bytes };
        let at = |kind, number, fault| {
            if Some(number) == fault { Err(PipelineTestError::At(kind, number)) } else { Ok(()) }
        };
        let result = run_ordered(
            bounds,
            |feed| {
                for (number, parts) in (0..).zip(parts) {
                    at("feed", number, fault.feed)?;
                    feed.push((number, *parts), 100)?;
                }
                Ok(())
            },
            || 0_u64,
            |worked, (number, parts), sender| {
                *worked += 1;
                if number % 3 == 0 {
                    thread::sleep(Duration::from_micros(number % 7 * 50));
                }
                for part in 0..parts {
                    sender.push((number, part), 70)?;
                }
                at("work", number, fault.work)
            },
            |(number, part)| {
                at("take", number, fault.take)?;
                write!(out, "{number}.{part} ").unwrap();
                Ok(if Some(number) == fault.enough {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            },
        );
        (out, result)
    }

    fn expected(parts: &[u64]) -> String {
        let mut out = String::new();
        for (number, parts) in parts.iter().enumerate() {
            (0..*parts).for_each(|part| write!(out, "{number}.{part} ").unwrap());
        }
        out
    }

    /// Runs forty items of two parts each. Expects the parts of the first `items` items, then `more`.
    fn check(fault: InjectedFault, items: usize, more: &str, result: Result<(), (&'static str, u64)>) {
        let parts = [2; 40];
        for bytes in [0, 1000, 1 << 20] {
            let (out, found) = run(&parts, bytes, fault);
            assert_eq!(out, expected(&parts[..items]) + more, "{bytes}");
            assert_eq!(
                found,
                result.map_err(|(kind, number)| PipelineTestError::At(kind, number)),
                "{bytes}"
            );
        }
    }

    #[test]
    fn errors_are_returned_in_item_order() {
        let none = InjectedFault::default();
        check(none, 40, "", Ok(()));
        check(InjectedFault { feed: Some(30), ..none }, 30, "", Err(("feed", 30)));
        check(InjectedFault { feed: Some(30), work: Some(20), ..none }, 21, "", Err(("work", 20)));
        check(InjectedFault { work: Some(20), take: Some(9), ..none }, 9, "", Err(("take", 9)));
        check(InjectedFault { work: Some(6), enough: Some(5), ..none }, 5, "5.0 ", Ok(()));
    }

    #[test]
    fn panics_end_the_pipeline() {
        for guilty in 0..4 {
            let run = || {
                run_ordered(
                    PipelineLimits { workers: NonZeroUsize::new(2).unwrap(), bytes: 500 },
                    |feed| loop {
                        feed.push(1_u8, 100)?;
                        assert!(guilty != 0);
                    },
                    || assert!(guilty != 1),
                    |(), item, sender| {
                        assert!(guilty != 2);
                        Ok(sender.push(item, 100)?)
                    },
                    |_| -> Result<_, PipelineTestError> {
                        assert!(guilty != 3);
                        Ok(ControlFlow::Continue(()))
                    },
                )
            };
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "{guilty}");
        }
    }

    #[test]
    fn runs_without_items_or_parts() {
        assert_eq!(run(&[], 0, InjectedFault::default()), (String::new(), Ok(())));
        assert_eq!(run(&[0, 0, 0], 0, InjectedFault::default()), (String::new(), Ok(())));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn order_and_bounds(sizes in vec(0_usize..300, 0..80), bytes in 0_usize..4000, slow in 0_usize..80) {
            let (buffered, buffered_max) = (AtomicIsize::new(0), AtomicIsize::new(0));
            let hold = |bytes: usize| {
                let more = (bytes + OVERHEAD_SIZE) as isize;
                buffered_max.fetch_max(buffered.fetch_add(more, Ordering::SeqCst) + more, Ordering::SeqCst);
            };
            let free = |bytes: usize| buffered.fetch_sub((bytes + OVERHEAD_SIZE) as isize, Ordering::SeqCst);
            let mut out = Vec::new();
            let result = run_ordered(
                PipelineLimits { workers: NonZeroUsize::new(3).unwrap(), bytes },
                |feed| {
                    for (number, size) in sizes.iter().enumerate() {
                        feed.push((number, *size), *size)?;
                        // Counted after the push: an item that waits for room is not in the pipeline.
                        hold(*size);
                    }
                    Ok::<(), PipelineTestError>(())
                },
                || (),
                |(), (number, size), sender| {
                    if number == slow {
                        thread::sleep(Duration::from_millis(1));
                    }
                    for part in 0..size / 50 {
                        sender.push((number, part, size), size)?;
                        hold(size);
                    }
                    free(size);
                    Ok(())
                },
                |(number, part, size)| {
                    free(size);
                    out.push((number, part));
                    Ok(ControlFlow::Continue(()))
                },
            );
            prop_assert_eq!(result, Ok(()));
            let expected: Vec<(usize, usize)> = sizes
                .iter()
                .enumerate()
                .flat_map(|(number, size)| (0..size / 50).map(move |part| (number, part)))
                .collect();
            prop_assert_eq!(out, expected);
            // One more item, one part for each of three workers, and one part that is being delivered.
            let most = (bytes + 5 * (300 + OVERHEAD_SIZE)) as isize;
            prop_assert!(buffered_max.load(Ordering::SeqCst) <= most, "{:?} of {}", buffered_max, most);
        }
    }
}

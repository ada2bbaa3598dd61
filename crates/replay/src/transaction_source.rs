//! Source of transactions: logs, read one after the other.

mod archived_log_rule;
mod followed_store;
mod log_beginning;
mod log_cursor;
mod log_omissions;
mod log_queue;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use binlog::encryption::Keyring;
use binlog::gtid::GtidSet;
use binlog::{PayloadLimits, PayloadOpener};
use logs::{EndOfLog, LogEndAction, LogReader, RewritePositions, Store, read_keyring};
use sql::TableSelection;

use crate::apply_plan::{ApplyPlan, ApplyPlanError, event_size_max};
use crate::replay_error::ReplayError;
use crate::replay_log::ReplayLog;
use crate::replay_progress::AppliedState;
use crate::source_transaction::{SourceTransaction, TransactionHead};
use crate::transaction_selection::TransactionSelection;
use crate::transaction_source::archived_log_rule::ArchivedLogRule;
use crate::transaction_source::followed_store::FollowedStore;
use crate::transaction_source::log_beginning::{first_needed, read_beginning};
use crate::transaction_source::log_cursor::{
    FollowingLog, GatheredEvents, LogCursor, LogItem, PartialTransaction, SourceLog,
};
pub(crate) use crate::transaction_source::log_omissions::LeftOutLogs;
use crate::transaction_source::log_omissions::LogOmissions;
use crate::transaction_source::log_queue::LogQueue;

/// The transactions of a list of logs, in order.
#[derive(Debug)]
pub struct TransactionSource {
    queue: LogQueue,
    /// The store, if the logs are still being written.
    followed: Option<FollowedStore>,
    keys: KeyringSource,
    held_max: usize,
    current: Option<LogCursor>,
    /// The transaction within which the last relay log ends.
    carried: Option<PartialTransaction>,
    progress: SourceProgress,
    omissions: LogOmissions,
    torn_end: TornEndPolicy,
    positions: PositionPolicy,
    torn_ends: Vec<String>,
}

/// Treatment of a log that is flagged as in use, and ends within an event or a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TornEndPolicy {
    /// The end is an error.
    Refuse,
    /// The source ends before the incomplete transaction.
    EndBefore,
}

/// Positions of a log that was compressed or decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PositionPolicy {
    /// Positions in the source's log.
    Source,
    /// Positions in the file itself.
    File,
}

/// Counts and findings of the logs read so far.
#[derive(Debug, Default)]
struct SourceProgress {
    transactions: u64,
    bytes: u64,
    /// `Previous_gtids` of the current log: the GTIDs in earlier logs.
    previous: GtidSet,
    /// `server_id` of the server that wrote the first log.
    writer: Option<u32>,
}

/// Keys for encrypted logs.
#[derive(Debug)]
enum KeyringSource {
    Held(Option<Arc<Keyring>>),
    /// Keyring file, read again for each log because keys are rotated.
    File(PathBuf),
}

/// A transaction of a source.
#[derive(Debug)]
pub enum SizedTransaction {
    /// A transaction in memory.
    Held(SourceTransaction),
    /// A transaction too large for memory.
    Large(OversizedTransaction),
}

/// A transaction too large for memory. Its apply plan is built while the log is read, and its rows are in a temporary
/// file.
#[derive(Debug)]
pub struct OversizedTransaction {
    /// The transaction without its events.
    pub head: TransactionHead,
    /// Apply plan of the transaction, or the reason why it cannot be applied.
    pub plan: Result<ApplyPlan, ApplyPlanError>,
}

impl TransactionSource {
    /// Creates a source that reads these logs one after the other. Rows of a transaction beyond `held_max` bytes go to
    /// a temporary file.
    pub fn new(logs: Vec<ReplayLog>, keyring: Option<Arc<Keyring>>, held_max: usize) -> Self {
        let names = logs.iter().map(ReplayLog::name).collect();
        Self::of(logs, names, KeyringSource::Held(keyring), held_max)
    }

    /// Creates a source that follows a store while it is written, from its first log on. Encrypted logs need the
    /// server's keyring file.
    ///
    /// # Errors
    ///
    /// Fails if the store has no logs.
    pub fn follow(store: Store, keyring: Option<PathBuf>, held_max: usize) -> Result<Self, ReplayError> {
        let logs = store.logs().iter().cloned().map(ReplayLog::File);
        let names = logs.clone().map(|log| log.name()).collect();
        let none = || ReplayError::Refused(format!("{} has no logs", store.path().display()));
        let first = store.logs().first().ok_or_else(none)?.clone();
        let logs = logs.take(1).collect();
        let keys = keyring.map_or(KeyringSource::Held(None), KeyringSource::File);
        let followed = Some(FollowedStore::new(store, first));
        Ok(Self { followed, ..Self::of(logs, names, keys, held_max) })
    }

    fn of(logs: Vec<ReplayLog>, names: Vec<String>, keys: KeyringSource, held_max: usize) -> Self {
        Self {
            queue: LogQueue::new(logs, names),
            followed: None,
            keys,
            held_max,
            current: None,
            carried: None,
            progress: SourceProgress::default(),
            omissions: LogOmissions::default(),
            torn_end: TornEndPolicy::Refuse,
            positions: PositionPolicy::Source,
            torn_ends: Vec::new(),
        }
    }

    /// Returns the names of the logs on their own server, in order.
    pub fn log_names(&self) -> &[String] {
        self.queue.names()
    }

    /// Returns the GTIDs in the `Previous_gtids` event of the last transaction's log, without the GTIDs of archived
    /// logs that were left out.
    pub const fn previous(&self) -> &GtidSet {
        &self.progress.previous
    }

    /// Returns the `server_id` of the server that wrote the first log, from its format description. Known once the
    /// first transaction has been read. Logs with `server_id` 0, which no server wrote, do not count.
    pub const fn writer(&self) -> Option<u32> {
        self.progress.writer
    }

    /// Returns the number of bytes of the logs read so far, including archived logs that were left out.
    pub const fn bytes_read(&self) -> u64 {
        self.progress.bytes + self.omissions.total().bytes
    }

    /// Returns the number of bytes of archived logs that were left out.
    pub(crate) const fn bytes_left_out(&self) -> u64 {
        self.omissions.total().bytes
    }

    /// Returns the transactions that were left out since the last call.
    pub(crate) fn take_left_out(&mut self) -> LeftOutLogs {
        self.omissions.take_unreported()
    }

    /// From now on, leaves out archived logs without a transaction from before this time, in microseconds since 1970.
    pub(crate) fn leave_out_logs_after(&mut self, limit_us: u64) {
        self.omissions.set_late_limit(limit_us);
    }

    /// From now on, leaves out archived logs that change none of these tables, except logs with the stop. Must be called
    /// after [`TransactionSource::leave_out_logs`], and when the start of its selection was reached: later logs would
    /// not show where it is.
    pub fn leave_out_other_tables(&mut self, tables: TableSelection) {
        self.omissions.set_tables(tables);
    }

    /// From now on, a log that is flagged as in use may end within an event or a transaction, which is left out. For
    /// callers that need only the complete transactions of a log that its server still writes.
    pub const fn end_before_torn_transactions(&mut self) {
        self.torn_end = TornEndPolicy::EndBefore;
    }

    /// From now on, positions are those in the files themselves, not in the source's logs. They differ in logs that were
    /// compressed or decompressed.
    pub const fn use_file_positions(&mut self) {
        self.positions = PositionPolicy::File;
    }

    /// Returns the incomplete ends of logs in use that were left out so far, as texts.
    pub fn torn_ends(&self) -> &[String] {
        &self.torn_ends
    }

    /// Returns whether the logs are still being written. More transactions may then follow the last one.
    pub const fn is_followed(&self) -> bool {
        self.followed.is_some()
    }

    /// Waits until followed logs may have grown since the last call, at most for this time.
    pub(crate) fn wait_for_growth(&mut self, longest: Duration) {
        if let Some(followed) = &mut self.followed {
            followed.wait_for_growth(longest);
        }
    }

    /// Returns the maximum number of bytes of a transaction held in memory.
    pub const fn held_max(&self) -> usize {
        self.held_max
    }

    /// Returns an opener of payloads within the source's memory limit.
    pub fn opener(&self) -> PayloadOpener {
        let event_size_max = event_size_max(self.held_max);
        PayloadOpener::with_limits(PayloadLimits { event_size_max, ..PayloadLimits::default() })
    }

    /// Returns the next transaction; `None` after the last.
    ///
    /// # Errors
    ///
    /// Fails if a log cannot be read, is corrupt, ends within a transaction, or has a transaction too large for memory.
    pub fn next_transaction(&mut self) -> Result<Option<SourceTransaction>, ReplayError> {
        match self.next_found()? {
            None => Ok(None),
            Some(SizedTransaction::Held(transaction)) => Ok(Some(transaction)),
            Some(SizedTransaction::Large(large)) => Err(ReplayError::Refused(format!(
                "{} does not fit in memory: it has more than {} bytes",
                large.head, self.held_max
            ))),
        }
    }

    /// Returns the next transaction, of any size; `None` after the last. For logs that are still being written, `None`
    /// means that there is no further transaction yet.
    ///
    /// # Errors
    ///
    /// Fails if a log cannot be read, is corrupt, or ends within a transaction. For logs that are still being written,
    /// also when a log was purged before it was read.
    pub fn next_found(&mut self) -> Result<Option<SizedTransaction>, ReplayError> {
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some(current) = &mut self.current else { continue };
            let before = current.reader().position();
            let reached = match current.next_found() {
                // The replica receives this part again, from the server that replaced the source.
                Err(ReplayError::Read(logs::LogError::Truncated { size, .. }))
                    if self.followed.is_some() && current.forget_cut_transaction(size) =>
                {
                    LogItem::End(EndOfLog::Open { in_use: false })
                }
                Err(ReplayError::Read(logs::LogError::Torn { torn, .. })) if self.followed.is_none() => {
                    LogItem::End(EndOfLog::Torn(torn))
                }
                reached => reached?,
            };
            self.progress.writer = self.progress.writer.or(current.writer());
            if let Some(previous) = current.take_previous() {
                self.progress.previous = previous.difference(&self.omissions.total().gtids);
            }
            self.progress.bytes += current.reader().position().saturating_sub(before);
            let whole = match reached {
                LogItem::Whole(whole) => *whole,
                LogItem::End(end) => match self.advance_log(end)? {
                    ReadNext::Now => continue,
                    ReadNext::Later => return Ok(None),
                },
            };
            let Some(current) = &mut self.current else { continue };
            assert!(self.queue.taken() > 0, "ours: a transaction is in a log that was opened");
            let (number, log_number) = (self.progress.transactions, self.queue.taken() - 1);
            self.progress.transactions += 1;
            let origin = current.origin(&whole, log_number)?;
            return Ok(Some(match whole.events {
                GatheredEvents::Held(transaction) => {
                    SizedTransaction::Held(SourceTransaction { number, origin, transaction })
                }
                GatheredEvents::Large(outline, plan) => SizedTransaction::Large(OversizedTransaction {
                    head: TransactionHead::of(number, origin, &outline),
                    plan,
                }),
            }));
        }
    }

    /// Continues after the end of a log, or of its present content.
    fn advance_log(&mut self, end: EndOfLog) -> Result<ReadNext, ReplayError> {
        let Some(current) = &self.current else { return Ok(ReadNext::Now) };
        match (&mut self.followed, end) {
            (None, EndOfLog::Torn(torn)) => {
                let error = current.reader().torn_error(torn);
                self.current = None;
                return self.leave_out_end(torn.in_use, error.into());
            }
            (None, _) => {}
            (Some(followed), end) => match followed.cursor.reach_end(end, current.reader())? {
                LogEndAction::Wait => return Ok(ReadNext::Later),
                LogEndAction::ReadAgain => return Ok(ReadNext::Now),
                LogEndAction::NextLog(next) => self.queue.follow_with(ReplayLog::File(next)),
            },
        }
        let next = match self.followed.is_some() || !self.queue.is_empty() {
            true => FollowingLog::Follows,
            false => FollowingLog::None,
        };
        let Some(current) = self.current.take() else { return Ok(ReadNext::Now) };
        match current.finish(next) {
            Ok(carried) => self.carried = carried,
            Err(error) => return self.leave_out_end(matches!(end, EndOfLog::Open { in_use: true }), error),
        }
        Ok(ReadNext::Now)
    }

    /// Continues after a log that ends within an event or a transaction, if the policy allows it.
    fn leave_out_end(&mut self, in_use: bool, error: ReplayError) -> Result<ReadNext, ReplayError> {
        if !in_use || self.torn_end == TornEndPolicy::Refuse {
            return Err(error);
        }
        self.torn_ends.push(error.to_string());
        Ok(ReadNext::Now)
    }

    /// Leaves out logs that need not be read. Manifests show which archived logs have no transaction to apply. At the
    /// start of a followed store, the `Previous_gtids` events of later logs show which logs the target has applied
    /// completely. Must be called before the first read.
    ///
    /// # Errors
    ///
    /// Fails if the keyring cannot be read.
    pub fn leave_out_logs(
        &mut self,
        selection: &TransactionSelection,
        applied: &AppliedState,
    ) -> Result<(), ReplayError> {
        if self.followed.is_none() {
            self.omissions.set_rule(ArchivedLogRule::new(selection, applied));
            return Ok(());
        }
        match selection.can_skip_applied_logs() {
            true => self.skip_applied_logs(applied),
            false => Ok(()),
        }
    }

    fn skip_applied_logs(&mut self, applied: &AppliedState) -> Result<(), ReplayError> {
        let Some(FollowedStore { cursor, .. }) = &mut self.followed else { return Ok(()) };
        assert!(
            self.current.is_none() && self.progress.transactions == 0,
            "ours: logs are skipped before any is read"
        );
        let logs = cursor.logs().to_vec();
        let saved = applied.progress.position.as_ref();
        let saved_log = saved.and_then(|saved| self.queue.names().iter().position(|name| *name == saved.log));
        let is_applied = |gtids: &GtidSet| {
            gtids.difference(&applied.executed).difference(&applied.progress.gtids).is_empty()
        };
        let keyring = self.keys.keyring()?;
        let read_start = |number: usize| read_beginning(logs.get(number)?, keyring.clone());
        let number = first_needed(logs.len(), saved_log, is_applied, read_start);
        if let Some(log) = logs.get(number) {
            cursor.start_at(log.clone());
            self.queue.start_at(number, ReplayLog::File(log.clone()));
        }
        Ok(())
    }

    /// Returns the next log that must be read.
    fn next_needed(&mut self) -> Option<ReplayLog> {
        // A transaction that began in the previous log continues in this one.
        while self.carried.is_none() && self.omissions.leaves_out(self.queue.peek()?, &self.queue) {
            self.queue.take();
        }
        self.queue.take()
    }

    fn open_next(&mut self) -> Result<bool, ReplayError> {
        let Some(log) = self.next_needed() else { return Ok(false) };
        let mut reader = match &log {
            ReplayLog::File(path) if self.followed.is_some() => LogReader::open_stored(path)?,
            ReplayLog::File(path) => LogReader::open(path)?,
            ReplayLog::Stdin => LogReader::from_stdin(),
        };
        // The file of rewritten positions is written before its log, and states the size of the log's file.
        let positions = match (&log, reader.size()?, self.positions) {
            (ReplayLog::File(path), Some(size), PositionPolicy::Source) => {
                RewritePositions::open(path, size)?
            }
            _ => None,
        };
        if let Some(keyring) = self.keys.keyring()? {
            reader = reader.with_keyring(keyring);
        }
        let source_log = (log != ReplayLog::Stdin).then(|| SourceLog { name: log.name().into(), positions });
        let (opener, carried) = (self.opener(), self.carried.take());
        self.current = Some(LogCursor::new(reader, opener, source_log, carried, self.held_max));
        Ok(true)
    }
}

impl KeyringSource {
    fn keyring(&self) -> Result<Option<Arc<Keyring>>, ReplayError> {
        Ok(match self {
            Self::Held(keyring) => keyring.clone(),
            Self::File(path) => Some(Arc::new(read_keyring(path)?)),
        })
    }
}

impl SizedTransaction {
    /// Returns the transaction without its events.
    pub fn head(&self) -> TransactionHead {
        match self {
            Self::Held(transaction) => transaction.head(),
            Self::Large(large) => large.head.clone(),
        }
    }

    /// Returns the apply plan of the transaction. Row events beyond `held_max` bytes go to a temporary file.
    ///
    /// # Errors
    ///
    /// Fails if [`ApplyPlan::with_memory_limit`] fails.
    pub fn plan(self, opener: &mut PayloadOpener, held_max: usize) -> Result<ApplyPlan, ApplyPlanError> {
        match self {
            Self::Held(transaction) => ApplyPlan::with_memory_limit(&transaction, opener, held_max),
            Self::Large(large) => large.plan,
        }
    }
}

/// Availability of further transactions.
enum ReadNext {
    Now,
    Later,
}

//! Start of a dump: its log and event, found as on a server.

use std::sync::Arc;

use binlog::gtid::GtidSet;
use binlog::{DecodeError, MAGIC};
use logs::is_later_log;
use uuid::Uuid;
use wire::{BinlogDump, BinlogDumpGtid, DumpFlags};

use crate::dump_error::DumpError;
use crate::error::RelayError;
use crate::form_source::{FormSource, FormStart};
use crate::mariadb_dump::{MariadbProgress, MariadbRequest};
use crate::mariadb_position::MariadbState;
use crate::relay_store::{HeadEvents, RelayStore};
use crate::served_checksum::ServedChecksum;

/// Request of a client for a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpRequest {
    /// Name of the log; empty to let the relay find it.
    pub file: Vec<u8>,
    /// Position of the first event, as the client sees positions.
    pub position: u64,
    /// Way in which the client gives the start.
    pub mode: DumpMode,
    /// See [`DumpFlags`].
    pub flags: DumpFlags,
    /// `server_id` of the client.
    pub server_id: u32,
}

/// Way in which a client gives the start of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpMode {
    /// By file and position.
    Position,
    /// By the GTIDs that the client already has.
    Gtids(GtidSet),
    /// By the GTID position of a MariaDB replica. File and position do not matter.
    MariadbGtids(MariadbRequest),
}

/// Start of a dump.
#[derive(Clone, Debug)]
pub struct DumpStart {
    /// Name of the log.
    pub log: Arc<str>,
    /// First event to send after the format description; `None` if the store does not have it yet.
    pub event: Option<FormStart>,
    /// Position of that event in the client's form and checksums.
    pub position: u64,
    /// True if the replica must not drop its temporary tables: it already has the log's first transaction.
    pub has_first_transaction: bool,
    /// State of a dump by MariaDB GTIDs.
    pub mariadb: Option<MariadbProgress>,
}

/// Handling of a position after the end of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AheadPolicy {
    /// The dump fails, as on a server.
    Refuse,
    /// The client waits until the logs reach the position: the relay has not received it yet, or has lost it.
    Wait,
}

/// Transactions of the relay's source.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceGtids<'a> {
    /// `server_uuid` of the source; `None` if it is unknown.
    pub server_uuid: Option<Uuid>,
    /// All transactions in the store or purged from it; `None` if unknown. A replica must not have further transactions
    /// of this source.
    pub executed: Option<&'a GtidSet>,
    /// MariaDB GTIDs of all transactions in the store, for dumps by MariaDB GTIDs.
    pub mariadb: Option<&'a MariadbState>,
}

impl DumpRequest {
    /// Creates the request of a `COM_BINLOG_DUMP`.
    pub fn from_position(dump: &BinlogDump<'_>) -> Self {
        let BinlogDump { position, flags, server_id, file } = *dump;
        let mode = DumpMode::Position;
        Self { file: log_name(file), position: position.into(), mode, flags, server_id }
    }

    /// Creates the request of a `COM_BINLOG_DUMP_GTID`.
    ///
    /// # Errors
    ///
    /// Fails if the GTID set cannot be decoded.
    pub fn from_gtids(dump: &BinlogDumpGtid<'_>) -> Result<Self, DecodeError> {
        let BinlogDumpGtid { flags, server_id, file, position, gtids } = *dump;
        let mode = DumpMode::Gtids(GtidSet::decode(gtids)?);
        Ok(Self { file: log_name(file), position, mode, flags, server_id })
    }

    /// Returns whether the dump ends at the end of the last log. Old clients request this by `server_id` 0.
    pub const fn is_non_blocking(&self) -> bool {
        self.server_id == 0 || self.flags.contains(DumpFlags::NON_BLOCK)
    }
}

/// Returns the name up to the first NUL, as servers read it. A 5.7 replica that reconnects by GTID sends one NUL for
/// each byte of its log's name.
fn log_name(file: &[u8]) -> Vec<u8> {
    file.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

/// Returns whether the start of a dump can be found yet. A dump by file and position needs a log in the store. A dump
/// by GTIDs needs a log that states the transactions before it.
///
/// # Errors
///
/// Fails if the store cannot be read.
pub fn can_find_start(store: &RelayStore, mode: &DumpMode) -> Result<bool, RelayError> {
    let names = store.log_names()?;
    match (names.as_slice(), mode) {
        ([], _) => Ok(false),
        ([only], DumpMode::Gtids(_) | DumpMode::MariadbGtids(_)) => {
            let head = store.head(only)?;
            let has_set = |head: &HeadEvents| head.previous_gtids.is_some() || head.gtid_list.is_some();
            Ok(head.is_some_and(|head| head.is_final || has_set(&head)))
        }
        _ => Ok(true),
    }
}

/// Finds the start of a dump, as a server does. `checksum` are the client's checksums.
///
/// # Errors
///
/// Fails with error 1236 and the server's message.
pub fn find_start(
    source: &FormSource,
    request: &DumpRequest,
    checksum: ServedChecksum,
    gtids: SourceGtids<'_>,
    ahead: AheadPolicy,
) -> Result<DumpStart, DumpError> {
    let names = source.store().log_names().map_err(DumpError::start)?;
    if let DumpMode::MariadbGtids(request) = &request.mode {
        let none = MariadbState::default();
        let stored = gtids.mariadb.unwrap_or(&none);
        let (log, progress) = MariadbProgress::start(source, &names, request, stored)?;
        let (event, position) = (Some(FormStart::LOG_START), MAGIC.len() as u64);
        return Ok(DumpStart { log, event, position, has_first_transaction: false, mariadb: Some(progress) });
    }
    if ahead == AheadPolicy::Wait
        && request.mode == DumpMode::Position
        && let Some(log) = log_ahead(&names, request)
    {
        let position = request.position;
        return Ok(DumpStart { log, event: None, position, has_first_transaction: false, mariadb: None });
    }
    let mut has_first_transaction = false;
    let log = match &request.mode {
        _ if !request.file.is_empty() => names
            .iter()
            .find(|name| name.as_bytes() == request.file)
            .ok_or_else(DumpError::unknown_first_log)?,
        DumpMode::Position | DumpMode::MariadbGtids(_) => {
            names.first().ok_or_else(DumpError::unknown_first_log)?
        }
        DumpMode::Gtids(set) => {
            check_has_no_more(set, gtids)?;
            let log = find_log(source, &names, set)?;
            let head = source.store().head(log).map_err(DumpError::start)?;
            let first = head.and_then(|head| head.first_gtid);
            has_first_transaction = first.is_some_and(|first| set.contains(first));
            log
        }
    };
    if request.position < MAGIC.len() as u64 {
        return Err(DumpError::position_below_4());
    }
    // Do not read at the start of a log: its first read reports errors, as on a server.
    let event = match request.position == MAGIC.len() as u64 {
        true => Some(FormStart::LOG_START),
        false if ahead == AheadPolicy::Wait => find_event(source, log, request.position, checksum)?,
        false => Some(source.locate(log, request.position, checksum).map_err(DumpError::start)?),
    };
    let (log, position) = (Arc::clone(log), request.position);
    Ok(DumpStart { log, event, position, has_first_transaction, mariadb: None })
}

/// Returns the requested log if it follows the stored logs.
fn log_ahead(names: &[Arc<str>], request: &DumpRequest) -> Option<Arc<str>> {
    let name = std::str::from_utf8(&request.file).ok()?;
    let is_ahead = names.last().is_some_and(|newest| is_later_log(name, newest));
    (is_ahead && request.position >= MAGIC.len() as u64).then(|| name.into())
}

/// Finds the event at a position; `None` if the log may still reach the position.
pub(crate) fn find_event(
    source: &FormSource,
    log: &Arc<str>,
    position: u64,
    checksum: ServedChecksum,
) -> Result<Option<FormStart>, DumpError> {
    let names = source.store().log_names().map_err(DumpError::start)?;
    // Checked before the log is read: a log that already has a successor does not grow.
    let is_newest = names.last() == Some(log);
    if names.last().is_some_and(|newest| is_later_log(log, newest)) {
        return Ok(None);
    }
    match source.locate(log, position, checksum) {
        Err(RelayError::PastEnd { .. }) if is_newest => Ok(None),
        found => found.map(Some).map_err(DumpError::start),
    }
}

/// Returns the newest log such that the replica has all transactions before it.
fn find_log<'n>(
    source: &FormSource,
    names: &'n [Arc<str>],
    set: &GtidSet,
) -> Result<&'n Arc<str>, DumpError> {
    let mut oldest = None;
    for name in names.iter().rev() {
        let head = source.store().head(name).map_err(DumpError::start)?;
        let Some(previous) = head.and_then(|head| head.previous_gtids.clone()) else { continue };
        if previous.is_subset(set) {
            return Ok(name);
        }
        oldest = Some(previous);
    }
    match oldest {
        Some(previous) => Err(DumpError::purged(set, &previous.difference(set))),
        None => Err(DumpError::no_log_with_gtids()),
    }
}

/// Checks that a replica has no transaction with the source's UUID that the source lacks.
fn check_has_no_more(set: &GtidSet, gtids: SourceGtids<'_>) -> Result<(), DumpError> {
    let (Some(uuid), Some(executed)) = (gtids.server_uuid, gtids.executed) else { return Ok(()) };
    let surplus = set.difference(executed);
    match surplus.iter().any(|(tsid, _)| tsid.uuid == uuid) {
        true => Err(DumpError::more_gtids()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use wire::{BinlogDumpGtid, DumpFlags};

    use super::DumpRequest;

    #[test]
    fn names_end_at_the_first_nul() {
        let check = |file: &[u8], expected: &[u8]| {
            // An empty set: no source identifiers.
            let gtids = [0; 8];
            let (flags, server_id, position) = (DumpFlags::default(), 2, 4);
            let dump = BinlogDumpGtid { flags, server_id, file, position, gtids: &gtids };
            assert_eq!(DumpRequest::from_gtids(&dump).unwrap().file, expected);
        };
        check(b"", b"");
        check(b"binlog.000001", b"binlog.000001");
        check(&[0; 13], b"");
        check(b"binlog.000001\0", b"binlog.000001");
    }
}

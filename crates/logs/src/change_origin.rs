//! Origin of changes: time and author, derived from the preceding events.

use std::sync::Arc;

use binlog::events::StatusVar;
use binlog::{Event, EventFormat, EventHeader, EventType, RawEvent, TransactionVerb};

/// Origin of a change, from its transaction's GTID event and from the latest events with a statement.
///
/// Logs contain the account only for statements whose effect depends on it, such as `CREATE VIEW`. For all others, they
/// contain the connection id: in `Query` events, including `BEGIN`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeOrigin {
    /// Time of the commit on the server that wrote the log, in microseconds since 1970; `None` before MySQL 8.0.1, and
    /// in logs of MariaDB.
    pub commit_us: Option<u64>,
    /// Timestamp of the transaction's first event, in seconds since 1970.
    pub begun_s: u32,
    /// Server on which the transaction originated.
    pub server_id: u32,
    /// Connection on that server; `None` before the transaction's first statement.
    pub connection: Option<u32>,
    /// Account, if the log has it.
    pub account: Option<Arc<str>>,
    /// Bits of `sql_mode` of the latest statement.
    pub sql_mode: u64,
    /// Text of the statement that the row changes belong to, if the log has it (`binlog_rows_query_log_events`, or
    /// `binlog_annotate_row_events` of MariaDB).
    pub statement: Option<Arc<[u8]>>,
    /// XID of an XA transaction, such as `X'67',X'62',1`. A later event tells whether the transaction was committed.
    pub xid: Option<Arc<str>>,
}

impl ChangeOrigin {
    /// Creates the origin of a transaction that begins with this event.
    pub fn begin(header: &EventHeader) -> Self {
        Self { begun_s: header.timestamp, server_id: header.server_id, ..Self::default() }
    }

    /// Advances over an event. GTID events begin a transaction. For any other first event, call
    /// [`ChangeOrigin::begin`].
    pub fn pass(&mut self, raw: &RawEvent<'_>, format: &EventFormat) {
        match raw.event_type() {
            EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged | EventType::MariadbGtid => {
                *self = Self::of_gtid(raw, format)
            }
            EventType::Query => self.pass_query(raw, format),
            // Ignore errors of the event: the code that uses the event reports them.
            EventType::RowsQuery | EventType::MariadbAnnotateRows => {
                self.statement = match raw.decode(format) {
                    Ok(Event::RowsQuery(event)) => Some(event.sql.into()),
                    Ok(Event::MariadbAnnotateRows(event)) => Some(event.sql.into()),
                    _ => None,
                };
            }
            _ => {}
        }
    }

    /// Advances over the end of a statement: its text does not apply to later changes.
    pub fn end_statement(&mut self) {
        self.statement = None;
    }

    /// Returns the commit time in microseconds since 1970; if the log lacks it, the time of the first event.
    pub fn time_us(&self) -> u64 {
        self.commit_us.unwrap_or_else(|| u64::from(self.begun_s) * 1_000_000)
    }

    fn of_gtid(raw: &RawEvent<'_>, format: &EventFormat) -> Self {
        let (stamps, xid) = match raw.decode(format) {
            Ok(Event::Gtid(event) | Event::AnonymousGtid(event)) => (event.stamps, None),
            Ok(Event::GtidTagged(event)) => (Some(event.stamps), None),
            // MariaDB logs no XA START.
            Ok(Event::MariadbGtid(event)) => {
                let xid = event.details().ok().and_then(|details| details.xid);
                (None, xid.map(|xid| xid.to_string().into()))
            }
            _ => (None, None),
        };
        let commit_us = stamps.map(|stamps| stamps.immediate_commit_us).filter(|micros| *micros > 0);
        Self { commit_us, xid, ..Self::begin(raw.header()) }
    }

    fn pass_query(&mut self, raw: &RawEvent<'_>, format: &EventFormat) {
        let Ok(Event::Query(query)) = raw.decode(format) else { return };
        self.connection = Some(query.thread_id);
        self.sql_mode = 0;
        match TransactionVerb::of(query.sql) {
            TransactionVerb::Begin => self.xid = None,
            TransactionVerb::XaStart => self.xid = TransactionVerb::xid(query.sql).map(Arc::from),
            _ => {}
        }
        // An unknown variable ends the list: its size is unknown.
        for variable in query.status.iter().map_while(Result::ok) {
            match variable {
                StatusVar::SqlMode(mode) => self.sql_mode = mode,
                StatusVar::Invoker { user, host } if !user.is_empty() => {
                    let (user, host) = (String::from_utf8_lossy(user), String::from_utf8_lossy(host));
                    self.account = Some(format!("{user}@{host}").into());
                }
                _ => {}
            }
        }
    }
}

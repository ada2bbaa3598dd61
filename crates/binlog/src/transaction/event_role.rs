//! Roles of events in transactions.

use std::fmt;

use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::event::{BodyContext, Event, EventType};
use crate::events::{MariadbGtidEvent, RowsFlags, table_id};
use crate::format::EventFormat;
use crate::header::{EventFlags, EventHeader, HEADER_SIZE};
use crate::raw::RawEvent;
use crate::transaction::transaction_verb::TransactionVerb;

/// Role of an event in a transaction: the input of [`TransactionGrammar`](crate::TransactionGrammar).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventRole {
    /// No role: heartbeats, Previous_gtids, artificial rotations, ignorable events.
    Aside,
    /// Start or end of a log: a format description, a rotation. No transaction continues across it.
    LogBoundary,
    /// GTID event of a transaction, also of an anonymous one.
    Gtid,
    /// MariaDB GTID event that also is the `BEGIN`.
    GtidAndBegin,
    /// `BEGIN`, `XA START`.
    Begin,
    /// Compressed transaction.
    Payload,
    /// An incident: replicas must stop.
    Incident,
    /// Statement as SQL text.
    Statement,
    /// `XA COMMIT` or `XA ROLLBACK`, of an earlier prepared transaction or of the open one.
    XaFinish,
    /// Variable used by the next statement.
    Variable,
    /// First block of a file for `LOAD DATA`.
    LoadBegin,
    /// Further block of the file.
    LoadBlock,
    /// `LOAD DATA` itself, or the notice that it failed.
    LoadEnd,
    /// Event before a statement's rows: its text, a table map.
    RowsBegin,
    /// Rows event that does not end its statement.
    Rows,
    /// Last rows event of a statement.
    RowsEnd,
    /// Xid event, `COMMIT`, `XA COMMIT … ONE PHASE`.
    Commit,
    /// `ROLLBACK`
    Rollback,
    /// End of an XA transaction's first phase.
    XaPrepare,
    /// Event of a type unknown to this crate that must not be ignored.
    Unknown(u8),
}

impl EventRole {
    /// Returns the role of an event, which follows from its type, and for some types from a flag or the statement's
    /// verb.
    ///
    /// # Errors
    ///
    /// Fails if the event is too short for the fields that are needed.
    pub fn of(raw: &RawEvent<'_>, format: &EventFormat) -> Result<Self, DecodeError> {
        Ok(match raw.event_type() {
            EventType::FormatDescription | EventType::Rotate if is_made_up(raw.header()) => Self::Aside,
            EventType::FormatDescription | EventType::Rotate | EventType::StartV3 => Self::LogBoundary,
            EventType::Query => Self::of_query(raw, format)?,
            EventType::XaPrepare if raw.body().first().is_some_and(|phase| *phase != 0) => Self::Commit,
            EventType::MariadbGtid => Self::of_mariadb_gtid(raw, format)?,
            EventType::PreGaWriteRows | EventType::PreGaUpdateRows | EventType::PreGaDeleteRows => {
                Self::of_rows(raw, format)?
            }
            event_type if event_type.rows_kind().is_some() => Self::of_rows(raw, format)?,
            EventType::Unknown(_) if raw.header().flags.contains(EventFlags::IGNORABLE) => Self::Aside,
            event_type => Self::of_type(event_type),
        })
    }

    fn of_type(event_type: EventType) -> Self {
        match event_type {
            EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged => Self::Gtid,
            EventType::TransactionPayload => Self::Payload,
            EventType::Incident => Self::Incident,
            EventType::Xid => Self::Commit,
            EventType::XaPrepare => Self::XaPrepare,
            EventType::Load
            | EventType::NewLoad
            | EventType::ViewChange
            | EventType::MariadbQueryCompressed => Self::Statement,
            EventType::Intvar | EventType::Rand | EventType::UserVar => Self::Variable,
            EventType::CreateFile | EventType::BeginLoadQuery => Self::LoadBegin,
            EventType::AppendBlock => Self::LoadBlock,
            EventType::ExecLoad | EventType::ExecuteLoadQuery | EventType::DeleteFile => Self::LoadEnd,
            EventType::TableMap | EventType::RowsQuery | EventType::MariadbAnnotateRows => Self::RowsBegin,
            EventType::Unknown(code) => Self::Unknown(code),
            _ => Self::Aside,
        }
    }

    fn of_query(raw: &RawEvent<'_>, format: &EventFormat) -> Result<Self, DecodeError> {
        let Event::Query(query) = raw.decode(format)? else { return Ok(Self::Statement) };
        Ok(match TransactionVerb::of(query.sql) {
            TransactionVerb::Begin | TransactionVerb::XaStart => Self::Begin,
            TransactionVerb::Commit => Self::Commit,
            TransactionVerb::Rollback => Self::Rollback,
            TransactionVerb::XaCommit | TransactionVerb::XaRollback => Self::XaFinish,
            TransactionVerb::RollbackTo
            | TransactionVerb::Savepoint
            | TransactionVerb::XaEnd
            | TransactionVerb::Other => Self::Statement,
        })
    }

    fn of_mariadb_gtid(raw: &RawEvent<'_>, format: &EventFormat) -> Result<Self, DecodeError> {
        match raw.decode(format)? {
            Event::MariadbGtid(gtid) if gtid.flags & MariadbGtidEvent::STANDALONE == 0 => {
                Ok(Self::GtidAndBegin)
            }
            _ => Ok(Self::Gtid),
        }
    }

    /// Reads no further than the flags: a rows event can be large.
    fn of_rows(raw: &RawEvent<'_>, format: &EventFormat) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::at(raw.body(), HEADER_SIZE);
        table_id(&mut cursor, BodyContext { event_type: raw.event_type(), format })?;
        match RowsFlags(cursor.u16()?).contains(RowsFlags::STATEMENT_END) {
            true => Ok(Self::RowsEnd),
            false => Ok(Self::Rows),
        }
    }
}

/// Returns true for events that are not from the source's file: artificial events of the sender, which have no
/// position, and events that a replica generates for its relay log.
fn is_made_up(header: &EventHeader) -> bool {
    header.next_position == 0 || header.flags.contains(EventFlags::RELAY_LOG)
}

impl fmt::Display for EventRole {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Aside => "an event outside transactions",
            Self::LogBoundary => "the start or end of a log",
            Self::Gtid | Self::GtidAndBegin => "a GTID",
            Self::Begin => "BEGIN or XA START",
            Self::Payload => "a compressed transaction",
            Self::Incident => "an incident",
            Self::Statement => "a statement",
            Self::XaFinish => "XA COMMIT or XA ROLLBACK",
            Self::Variable => "a variable for a statement",
            Self::LoadBegin => "the first block of a file",
            Self::LoadBlock => "a further block of a file",
            Self::LoadEnd => "LOAD DATA",
            Self::RowsBegin => "a table map or a statement's text",
            Self::Rows | Self::RowsEnd => "a rows event",
            Self::Commit => "a commit",
            Self::Rollback => "ROLLBACK",
            Self::XaPrepare => "XA PREPARE",
            Self::Unknown(code) => return write!(out, "an event of unknown type {code}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::EventRole;
    use crate::event::Event;
    use crate::events::{
        ColumnSet, FormatDescription, MariadbGtidEvent, Opaque, Query, Rotate, Rows, RowsFlags, RowsKind,
        StatusVars, Unknown, XaPrepare, XaXid,
    };
    use crate::format::{ChecksumAlgorithm, EventFormat, Flavour};
    use crate::header::{EventFlags, EventOrigin};
    use crate::raw::RawEvent;
    use crate::write::NextPosition;

    fn check_at(event: &Event<'_>, flags: EventFlags, next_position: u32, expected: EventRole) {
        let format = EventFormat {
            server_version: b"9.7.4".to_vec(),
            post_header_sizes: Vec::new(),
            checksum: ChecksumAlgorithm::Off,
            flavour: Flavour::MySql,
        };
        let (origin, mut bytes) = (EventOrigin { flags, ..EventOrigin::default() }, Vec::new());
        event.write(origin, NextPosition::Fixed(next_position), &format, &mut bytes).unwrap();
        let raw = RawEvent::new(&bytes, format.checksum.for_events()).unwrap();
        assert_eq!(EventRole::of(&raw, &format), Ok(expected), "{event:?}");
    }

    fn check(event: &Event<'_>, expected: EventRole) {
        check_at(event, EventFlags(0), 1000, expected);
    }

    #[test]
    fn only_the_sources_own_events_are_log_boundaries() {
        let rotate = Event::Rotate(Rotate { position: 4, file: b"binlog.000002" });
        check(&rotate, EventRole::LogBoundary);
        check_at(&rotate, EventFlags::ARTIFICIAL, 0, EventRole::Aside);
        check_at(&rotate, EventFlags::RELAY_LOG, 1000, EventRole::Aside);
        let description = Event::FormatDescription(FormatDescription {
            binlog_version: 4,
            server_version: &[0; 50],
            created: 0,
            header_size: 19,
            post_header_sizes: &[],
            checksum_algorithm: None,
        });
        check(&description, EventRole::LogBoundary);
        check_at(&description, EventFlags::ARTIFICIAL, 0, EventRole::Aside);
        check_at(&description, EventFlags::RELAY_LOG, 127, EventRole::Aside);
    }

    #[test]
    fn unknown_events_are_ignored_only_if_flagged_as_ignorable() {
        let unknown = Event::Unknown(Unknown { code: 99, body: b"?" });
        check(&unknown, EventRole::Unknown(99));
        check_at(&unknown, EventFlags::IGNORABLE, 1000, EventRole::Aside);
        check(&Event::LargeTransactionHeader(Opaque { body: &[1; 10] }), EventRole::Aside);
    }

    #[test]
    fn statements_have_the_role_of_their_verb() {
        let status = StatusVars { bytes: &[] };
        let query = |sql: &'static [u8]| {
            Event::Query(Query { thread_id: 1, exec_time: 0, error_code: 0, status, database: b"", sql })
        };
        check(&query(b"BEGIN"), EventRole::Begin);
        check(&query(b"XA START X'61',X'',1"), EventRole::Begin);
        check(&query(b"XA END X'61',X'',1"), EventRole::Statement);
        check(&query(b"XA COMMIT X'61',X'',1"), EventRole::XaFinish);
        check(&query(b"COMMIT"), EventRole::Commit);
        check(&query(b"ROLLBACK"), EventRole::Rollback);
        check(&query(b"ROLLBACK TO `s`"), EventRole::Statement);
        check(&query(b"DROP TABLE t"), EventRole::Statement);
    }

    #[test]
    fn xa_prepare_in_one_phase_is_a_commit() {
        let xid = XaXid { format_id: 1, gtrid: b"a", bqual: b"" };
        check(&Event::XaPrepare(XaPrepare { one_phase: 0, xid, rest: &[] }), EventRole::XaPrepare);
        check(&Event::XaPrepare(XaPrepare { one_phase: 1, xid, rest: &[] }), EventRole::Commit);
    }

    #[test]
    fn a_flag_marks_the_last_rows_of_a_statement() {
        let rows = |flags| {
            let columns = ColumnSet { bits: &[] };
            Event::WriteRows(Rows {
                kind: RowsKind::Write,
                table_id: 0xff_ffff,
                flags: RowsFlags(flags),
                extra: Some(&[]),
                column_count: 0,
                columns,
                columns_after: None,
                rows: &[],
            })
        };
        check(&rows(0x12), EventRole::Rows);
        check(&rows(0x13), EventRole::RowsEnd);
    }

    #[test]
    fn mariadb_gtids_begin_transactions_unless_standalone() {
        let gtid = |flags| {
            Event::MariadbGtid(MariadbGtidEvent { sequence_number: 1, domain_id: 0, flags, rest: &[0; 6] })
        };
        check(&gtid(0x0c), EventRole::GtidAndBegin);
        check(&gtid(0x29), EventRole::Gtid);
    }
}

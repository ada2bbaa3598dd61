//! The text of events that begin a transaction.

use binlog::events::{CommitStamps, LogicalClock};
use binlog::gtid::Uuid;
use sql::numbers::{DecimalText, put_i64, put_u32, put_u64};

use crate::decode::VERSION_UNKNOWN;
use crate::delimiter::end_statement;
use crate::event_text::put;
use crate::local_time::LocalTime;
use crate::text_memo::TextMemo;

/// The GTID without its number.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum GtidName {
    Anonymous,
    Source { uuid: Uuid, tag: Box<[u8]> },
}

/// The other fields of the event.
pub(crate) struct GtidNumbers {
    pub(crate) number: i64,
    pub(crate) may_have_statements: bool,
    pub(crate) clock: LogicalClock,
    pub(crate) stamps: CommitStamps,
}

/// Writes the statements that set the GTID, and caches text that most transactions share.
#[derive(Default)]
pub(crate) struct GtidText {
    /// The versions statement, by original and immediate server version.
    versions: TextMemo<(Option<u32>, Option<u32>)>,
    /// The GTID_NEXT statement up to the number.
    next: TextMemo<GtidName>,
}

impl GtidName {
    pub(crate) fn new(uuid: Uuid, tag: &[u8]) -> Self {
        Self::Source { uuid, tag: tag.into() }
    }
}

impl GtidNumbers {
    /// Appends the rest of the header line.
    pub(crate) fn put_line(&self, out: &mut Vec<u8>, name: &GtidName) {
        let title: &[u8] = if *name == GtidName::Anonymous { b"\tAnonymous_GTID" } else { b"\tGTID" };
        put(out, &[title, b"\tlast_committed="]);
        put_u64(out, self.clock.last_committed.cast_unsigned());
        out.extend_from_slice(b"\tsequence_number=");
        put_u64(out, self.clock.sequence_number.cast_unsigned());
        let rows_only: &[u8] = if self.may_have_statements { b"no" } else { b"yes" };
        put(out, &[b"\trbr_only=", rows_only, b"\toriginal_committed_timestamp="]);
        put_u64(out, self.stamps.original_commit_us);
        out.extend_from_slice(b"\timmediate_commit_timestamp=");
        put_u64(out, self.stamps.immediate_commit_us);
        out.extend_from_slice(b"\ttransaction_length=");
        put_u64(out, self.stamps.transaction_size.unwrap_or(0));
        out.push(b'\n');
    }
}

impl GtidText {
    /// Appends the session variables of the transaction that follows.
    pub(crate) fn put_settings(
        &mut self,
        out: &mut Vec<u8>,
        name: GtidName,
        numbers: &GtidNumbers,
        time: &mut LocalTime,
    ) {
        if !numbers.may_have_statements {
            out.extend_from_slice(b"/*!50718 SET TRANSACTION ISOLATION LEVEL READ COMMITTED*/");
            end_statement(out);
        }
        let stamps = &numbers.stamps;
        let original = DecimalText::of(stamps.original_commit_us);
        put(out, &[b"# original_commit_timestamp=", original.as_bytes(), b" ("]);
        time.put_long(out, stamps.original_commit_us);
        let immediate = DecimalText::of(stamps.immediate_commit_us);
        put(out, &[b")\n# immediate_commit_timestamp=", immediate.as_bytes(), b" ("]);
        time.put_long(out, stamps.immediate_commit_us);
        let original = original.as_bytes();
        put(out, &[b")\n/*!80001 SET @@session.original_commit_timestamp=", original, b"*/"]);
        end_statement(out);
        let versions = (stamps.original_server_version, stamps.immediate_server_version);
        out.extend_from_slice(self.versions.text(versions, |out| put_versions(out, versions)));
        let is_anonymous = name == GtidName::Anonymous;
        out.extend_from_slice(self.next.text(name.clone(), |out| put_name(out, &name)));
        if !is_anonymous {
            put_i64(out, numbers.number);
        }
        out.push(b'\'');
        end_statement(out);
    }
}

fn put_versions(out: &mut Vec<u8>, (original, immediate): (Option<u32>, Option<u32>)) {
    for (name, version) in [(b"original".as_slice(), original), (b"immediate", immediate)] {
        put(out, &[b"/*!80014 SET @@session.", name, b"_server_version="]);
        put_u32(out, version.unwrap_or(VERSION_UNKNOWN));
        out.extend_from_slice(b"*/");
        end_statement(out);
    }
}

fn put_name(out: &mut Vec<u8>, name: &GtidName) {
    out.extend_from_slice(b"SET @@SESSION.GTID_NEXT= '");
    match name {
        GtidName::Anonymous => out.extend_from_slice(b"ANONYMOUS"),
        GtidName::Source { uuid, tag } => {
            put(out, &[uuid.to_string().as_bytes(), b":"]);
            if !tag.is_empty() {
                put(out, &[tag, b":"]);
            }
        }
    }
}

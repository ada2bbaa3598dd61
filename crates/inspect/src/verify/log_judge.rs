//! Judges pieces together: transactions that span pieces, GTIDs, logical clocks, and the sequence of logs.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use binlog::TransactionId;
use binlog::events::{LogicalClock, MariadbGtid};
use binlog::gtid::GtidSet;
use logs::{EndOfLog, LogKind, TornEvent, split_log_number};

use super::LogOrder;
use super::fault::{FaultKind, LogFault, LogRemark};
use super::findings::{LogFact, PieceFindings, PreviousGtidsRule, TransactionStart};
use super::missing_logs::{MissingLogs, base_name, precedes};
use super::report::{LogVerdict, UnreadableLog, VerifyReport};

/// Maximum number of faults listed for one log. All are counted.
const FAULTS_LISTED_MAX: usize = 1000;
/// Maximum number of remarks listed on the content of one log.
const REMARKS_LISTED_MAX: usize = 1000;

/// Judges logs, in the order given.
#[derive(Debug, Default)]
pub(crate) struct LogJudge {
    verdicts: VerifyReport,
    /// Listed faults, each with the number of its log: several logs may have the same name.
    faults: Vec<(usize, LogFault)>,
    log: JudgedLog,
    /// The previous log, if this log follows it.
    before: Option<JudgedLog>,
    /// Relation of this log to the log before it.
    order: LogOrder,
    /// Name of the last log, even if it could not be opened.
    last_name: Option<String>,
    /// Logs that are missing before this one, until its previous GTIDs show whether they had transactions.
    gap: Option<LogGap>,
}

/// Logs that are missing in a directory or an index.
#[derive(Debug)]
struct LogGap {
    missing: MissingLogs,
    before: JudgedLog,
}

/// State of one log.
#[derive(Debug, Default)]
struct JudgedLog {
    /// Number of the log, from 0.
    number: usize,
    name: String,
    kind: Option<LogKind>,
    /// GTIDs of all earlier logs, and of the read part of this log; `None` if the log has no previous GTIDs.
    gtids: Option<GtidSet>,
    /// True if a Previous_gtids event is required before the first transaction.
    wants_previous: bool,
    /// Last MariaDB sequence number by domain and server.
    mariadb: BTreeMap<(u32, u32), MariadbGtid>,
    sequence_number: i64,
    /// True if transactions may have been skipped since.
    is_clock_lost: bool,
    open: Option<UnfinishedTransaction>,
    next: Option<NamedSuccessor>,
    end: Option<LogEndPosition>,
    /// True if a part could not be read, so its transactions are unknown.
    is_damaged: bool,
    /// Number of remarks on the log's content.
    remarks: usize,
}

/// The next log according to a log's Rotate event.
#[derive(Debug)]
struct NamedSuccessor {
    /// Name of the next log.
    name: String,
    /// Start of the Rotate event, in bytes from the start of its log.
    offset: u64,
}

/// End of a log, and its position in bytes from the log's start.
#[derive(Clone, Copy, Debug)]
struct LogEndPosition {
    end: EndOfLog,
    position: u64,
}

/// The open transaction, not yet at its end.
#[derive(Debug)]
struct UnfinishedTransaction {
    starts: TransactionStart,
    bytes: u64,
}

impl LogJudge {
    /// Sets the relation of the next log to the log before it.
    pub(crate) fn set_order(&mut self, order: LogOrder) {
        self.order = order;
    }

    pub(crate) fn start_log(&mut self, name: &str) {
        self.judge_gap(None);
        let order = self.order;
        let before = std::mem::take(&mut self.log);
        self.log.name = name.to_owned();
        self.log.number = self.verdicts.logs.len();
        self.verdicts.logs.push(LogVerdict { name: name.to_owned(), ..LogVerdict::default() });
        let last_name = self.last_name.replace(name.to_owned());
        if let Some(last) = last_name.as_deref().filter(|last| precedes(name, last)) {
            let detail =
                format!("this log comes after {}, a later one: give the logs in order", base_name(last));
            self.add_fault(0, FaultKind::Rotation, detail);
        }
        self.before = None;
        let Some(end) = before.end else { return };
        let is_next = follows(&before, name);
        let missing = last_name.and_then(|last| MissingLogs::between(&last, name));
        // In a wrong order, logs between the two may have been given earlier.
        let missing =
            missing.filter(|missing| !self.verdicts.logs.iter().any(|log| missing.contains(&log.name)));
        let is_given = is_next || missing.is_some() && order == LogOrder::Listed;
        self.judge_end(&before, end, if is_given { NextLog::Given } else { NextLog::Absent });
        match (missing, order) {
            // The previous log names this one as the next: that is a separate fault.
            _ if is_next || before.names_as_next(name) => self.before = is_next.then_some(before),
            (Some(missing), LogOrder::Listed) => self.gap = Some(LogGap { missing, before }),
            (Some(missing), LogOrder::Unknown) => {
                let (verb, before) = (missing.verb(), base_name(&before.name));
                let detail = format!("not compared with {before}, because {missing} {verb} not given");
                self.add_remark(name, detail);
            }
            (None, _) => {}
        }
    }

    /// Judges the logs that are missing before this one. They have no transactions if this log continues after
    /// `previous`, the transactions of the last log before the gap.
    fn judge_gap(&mut self, previous: Option<PreviousTransactions<'_>>) {
        let Some(LogGap { missing, before }) = self.gap.take() else { return };
        let verb = missing.verb();
        let is_complete = !before.is_damaged && previous.as_ref().is_some_and(|set| set.are_all_of(&before));
        if is_complete {
            let detail = format!("{missing} {verb} missing, but had no transactions: the GTIDs continue");
            self.add_remark(&self.log.name.clone(), detail);
            return;
        }
        let after = base_name(&self.log.name);
        let mut detail = format!("{missing} {verb} missing between this log and {after}");
        if let (Some(PreviousTransactions::Gtids(set)), Some(gtids)) = (previous, &before.gtids) {
            let lost = set.difference(gtids);
            if !lost.is_empty() && !before.is_damaged {
                detail.push_str(&format!(", with the transactions {lost}"));
            }
        }
        let end = before.end.map_or(0, |end| end.position);
        let offset = before.next.as_ref().map_or(end, |next| next.offset);
        self.add_fault_of(before.number, offset, FaultKind::Rotation, detail);
    }

    pub(crate) fn judge_piece(&mut self, kind: LogKind, findings: PieceFindings) {
        self.log.kind = Some(kind);
        if let Some(verdict) = self.verdicts.logs.last_mut() {
            verdict.events += findings.events;
            verdict.bytes = verdict.bytes.max(findings.end);
        }
        for found in findings.faults {
            self.add_fault(found.offset, found.kind, found.detail);
        }
        if let Some(verdict) = self.verdicts.logs.last_mut() {
            verdict.faults += findings.faults_more;
        }
        for detail in findings.remarks {
            self.log.remarks += 1;
            let detail = match self.log.remarks.cmp(&REMARKS_LISTED_MAX) {
                Ordering::Less => detail,
                Ordering::Equal => "further remarks are not listed".to_owned(),
                Ordering::Greater => continue,
            };
            self.add_remark(&self.log.name.clone(), detail);
        }
        for seen in findings.facts {
            self.judge_fact(seen);
        }
    }

    /// Records that the log cannot be read at this position.
    pub(crate) fn log_unreadable(&mut self, offset: u64, error: logs::LogError, resumed: Option<u64>) {
        (self.log.is_damaged, self.log.is_clock_lost) = (true, true);
        self.log.open = None;
        match error {
            logs::LogError::NotALog { found, .. } => {
                let found = found.map(|byte| format!("{byte:02x}")).join(" ");
                self.add_fault(
                    0,
                    FaultKind::Start,
                    format!("the file starts with {found}, expected fe 62 69 6e"),
                );
            }
            logs::LogError::Corrupt { offset, error, .. } => {
                let detail = match resumed {
                    Some(resumed) => {
                        format!("{error}; skipped {} bytes, resumed at {resumed}", resumed - offset)
                    }
                    None => format!("{error}; the rest of the log cannot be read"),
                };
                self.add_fault(offset, FaultKind::Framing, detail);
            }
            logs::LogError::Payload { offset, error, .. } => {
                self.add_fault(offset, FaultKind::Payload, error.to_string())
            }
            logs::LogError::SecondLog { offset, .. } => {
                let detail = "a second log starts here, and is not verified: servers and mysqlbinlog read the file \
                              only up to here. Split the file at this position";
                self.add_fault(offset, FaultKind::Framing, detail.to_owned());
            }
            logs::LogError::Torn { torn, .. } => {
                self.log.end = Some(LogEndPosition { end: EndOfLog::Torn(torn), position: offset });
            }
            error => self.verdicts.unreadable.push(UnreadableLog::new(&self.log.name, &error)),
        }
    }

    /// Records that a log cannot be opened.
    pub(crate) fn open_failed(&mut self, name: &str, error: &logs::LogError) {
        self.last_name = Some(name.to_owned());
        self.verdicts.unreadable.push(UnreadableLog::new(name, error));
    }

    pub(crate) fn end_log(&mut self, kind: LogKind, end: EndOfLog, position: u64) {
        self.log.kind = Some(kind);
        self.log.end = Some(LogEndPosition { end, position });
    }

    /// Returns the verdicts, after all logs have been read.
    pub(crate) fn finish(mut self) -> VerifyReport {
        self.judge_gap(None);
        let last = std::mem::take(&mut self.log);
        if let Some(end) = last.end {
            self.judge_end(&last, end, NextLog::Absent);
        }
        self.faults.sort_by_key(|(number, fault)| (*number, fault.offset));
        self.verdicts.faults = self.faults.into_iter().map(|(_, fault)| fault).collect();
        self.verdicts
    }

    fn judge_fact(&mut self, seen: LogFact) {
        match seen {
            LogFact::Format { previous } => {
                self.log.sequence_number = 0;
                self.log.wants_previous =
                    previous == PreviousGtidsRule::Always && self.log.kind == Some(LogKind::Binary);
            }
            LogFact::HasPrevious => self.log.wants_previous = false,
            LogFact::Previous { offset, set } => self.judge_previous_gtids(offset, set),
            LogFact::PreviousMariadb { offset, list } => self.judge_previous_mariadb(offset, list),
            LogFact::TransactionStart(starts) => self.start_transaction(starts),
            LogFact::TransactionBytes { bytes } => {
                if let Some(open) = &mut self.log.open {
                    open.bytes += bytes;
                }
            }
            LogFact::TransactionEnd => self.end_transaction(),
            LogFact::TransactionLost => self.log.open = None,
            LogFact::InDoubt => {
                if let Some(open) = self.log.open.take() {
                    self.add_committed(open.starts.id);
                }
            }
            LogFact::Rotate { offset, name } => {
                let expected = split_log_number(&self.log.name).and_then(|(_, number)| number.checked_add(1));
                if let (Some(expected), Some((_, found))) = (expected, split_log_number(&name))
                    && expected != found
                {
                    let detail = format!("the log names {name} as the next one, expected number {expected}");
                    self.add_fault(offset, FaultKind::Rotation, detail);
                }
                self.log.next = Some(NamedSuccessor { name, offset });
            }
        }
    }

    fn judge_previous_gtids(&mut self, offset: u64, set: GtidSet) {
        // Relay logs also contain the previous GTIDs of their source, which refer to other logs.
        if self.log.gtids.is_some() {
            return;
        }
        self.judge_gap(Some(PreviousTransactions::Gtids(&set)));
        let before = self.before.as_ref().filter(|before| !before.is_damaged);
        if let Some(expected) = before.and_then(|before| before.gtids.as_ref())
            && *expected != set
        {
            let before = self.before.as_ref().map(|before| before.name.clone()).unwrap_or_default();
            let (more, less) = (set.difference(expected), expected.difference(&set));
            let mut detail = Vec::new();
            if !more.is_empty() {
                detail.push(format!("the previous GTIDs include {more}, which {before} does not contain"));
            }
            if !less.is_empty() {
                detail.push(format!("the previous GTIDs lack {less}, which {before} contains"));
            }
            self.add_fault(offset, FaultKind::Continuity, detail.join("; "));
        }
        self.log.gtids = Some(set);
    }

    fn judge_previous_mariadb(&mut self, offset: u64, list: Vec<MariadbGtid>) {
        self.judge_gap(Some(PreviousTransactions::Mariadb(&list)));
        let mut faults = Vec::new();
        for gtid in list {
            let before = self.before.as_ref().filter(|before| !before.is_damaged);
            let before = before.and_then(|before| before.mariadb.get(&(gtid.domain_id, gtid.server_id)));
            if let Some(expected) = before.filter(|expected| **expected != gtid) {
                faults.push(format!("the last GTID before it is {gtid}, expected {expected}"));
            }
            self.log.mariadb.insert((gtid.domain_id, gtid.server_id), gtid);
        }
        for detail in faults {
            self.add_fault(offset, FaultKind::Continuity, detail);
        }
    }

    fn start_transaction(&mut self, starts: TransactionStart) {
        if let TransactionId::Gtid(gtid) = starts.id
            && self.log.gtids.as_ref().is_some_and(|gtids| gtids.contains(gtid))
        {
            self.add_fault(starts.offset, FaultKind::Gtid, format!("{gtid} is a duplicate"));
        }
        if let TransactionId::Mariadb(gtid) = starts.id
            && self.log.mariadb.get(&(gtid.domain_id, gtid.server_id)) == Some(&gtid)
        {
            self.add_fault(starts.offset, FaultKind::Gtid, format!("{gtid} is a duplicate"));
        }
        if std::mem::take(&mut self.log.wants_previous) && !self.log.is_damaged {
            let detail = "no Previous_gtids event precedes the first transaction";
            self.add_fault(starts.offset, FaultKind::Continuity, detail.to_owned());
        }
        if let Some(clock) = starts.clock {
            self.judge_clock(starts.offset, clock);
        }
        self.log.open = Some(UnfinishedTransaction { starts, bytes: 0 });
    }

    fn judge_clock(&mut self, offset: u64, clock: LogicalClock) {
        let LogicalClock { last_committed, sequence_number } = clock;
        if clock == (LogicalClock { last_committed: 0, sequence_number: 0 }) {
            return;
        }
        let before = std::mem::replace(&mut self.log.sequence_number, sequence_number);
        let is_known = !std::mem::take(&mut self.log.is_clock_lost);
        // A replica does not receive transactions that it has, and its source's numbers start again with each log.
        if is_known && self.log.kind == Some(LogKind::Binary) && sequence_number != before.saturating_add(1) {
            let detail =
                format!("sequence_number is {sequence_number}, expected {}", before.saturating_add(1));
            self.add_fault(offset, FaultKind::Clock, detail);
        }
        if !(0..sequence_number).contains(&last_committed) {
            let detail = format!("last_committed is {last_committed}, expected less than {sequence_number}");
            self.add_fault(offset, FaultKind::Clock, detail);
        }
    }

    fn end_transaction(&mut self) {
        let Some(UnfinishedTransaction { starts, bytes }) = self.log.open.take() else { return };
        if let Some(expected) = starts.size.filter(|expected| *expected != bytes) {
            let detail = format!("the transaction has {bytes} bytes, but its GTID event states {expected}");
            self.add_fault(starts.offset, FaultKind::Size, detail);
        }
        self.add_committed(starts.id);
    }

    fn add_committed(&mut self, id: TransactionId) {
        if let Some(verdict) = self.verdicts.logs.last_mut() {
            verdict.transactions += 1;
        }
        match id {
            TransactionId::Gtid(gtid) => {
                if let Some(gtids) = &mut self.log.gtids {
                    gtids.add(gtid);
                }
            }
            TransactionId::Mariadb(gtid) => {
                self.log.mariadb.insert((gtid.domain_id, gtid.server_id), gtid);
            }
            _ => {}
        }
    }

    fn judge_end(&mut self, log: &JudgedLog, log_end: LogEndPosition, followed: NextLog) {
        let LogEndPosition { end, position } = log_end;
        let open = log.open.as_ref().map(|open| open.starts.offset);
        let unfinished =
            open.map(|offset| format!("; the transaction at {offset} is incomplete")).unwrap_or_default();
        if end == EndOfLog::Closed && log.wants_previous && !log.is_damaged {
            let detail = "the log has no Previous_gtids event";
            self.add_fault_of(log.number, position, FaultKind::Continuity, detail.to_owned());
        }
        match (end, followed) {
            // A replica that loses its connection within a transaction closes its relay log.
            (EndOfLog::Closed, _) if log.kind == Some(LogKind::Relay) => {
                if let Some(offset) = open {
                    let remark = format!("the log is closed; the transaction at {offset} is incomplete");
                    self.add_remark(&log.name, remark);
                }
            }
            (EndOfLog::Closed, _) => {
                if let Some(offset) = open {
                    let detail = "the log is closed, but the transaction has no commit";
                    self.add_fault_of(log.number, offset, FaultKind::Grammar, detail.to_owned());
                }
            }
            (EndOfLog::Torn(torn), NextLog::Absent) if torn.in_use || log.kind == Some(LogKind::Relay) => {
                self.add_remark(&log.name, format!("{}{unfinished}", still_written(&torn)));
            }
            (EndOfLog::Torn(torn), _) => {
                let detail = match (torn.offset, torn.found) {
                    (0, 0) => "the file is empty".to_owned(),
                    (4, 0) => {
                        "the file contains only the magic number of a binary log, and no event".to_owned()
                    }
                    _ => format!("the log is torn: {}{unfinished}", torn_bytes(&torn)),
                };
                self.add_fault_of(log.number, torn.offset, FaultKind::Tail, detail);
            }
            (EndOfLog::Open { in_use: true }, NextLog::Absent) => {
                let detail =
                    format!("its server still writes to it, or crashed: ends at {position}{unfinished}");
                self.add_remark(&log.name, detail);
            }
            (EndOfLog::Open { .. }, NextLog::Absent)
                if open.is_none() || log.kind == Some(LogKind::Relay) =>
            {
                let detail = format!(
                    "ends at {position} without Rotate or Stop: its server still writes to it, or crashed"
                );
                self.add_remark(&log.name, detail + &unfinished);
            }
            (EndOfLog::Open { .. }, NextLog::Given) if open.is_none() => {
                let detail = format!("ends at {position} without Rotate or Stop: its server crashed");
                self.add_remark(&log.name, detail);
            }
            (EndOfLog::Open { .. }, _) => {
                let detail = "the log ends before the transaction's commit";
                self.add_fault_of(log.number, open.unwrap_or(position), FaultKind::Tail, detail.to_owned());
            }
        }
    }

    fn add_fault(&mut self, offset: u64, kind: FaultKind, detail: String) {
        self.add_fault_of(self.log.number, offset, kind, detail);
    }

    fn add_fault_of(&mut self, number: usize, offset: u64, kind: FaultKind, detail: String) {
        let verdict = &mut self.verdicts.logs[number];
        verdict.faults += 1;
        if verdict.faults <= FAULTS_LISTED_MAX as u64 {
            self.faults.push((number, LogFault { log: verdict.name.clone(), offset, kind, detail }));
        }
    }

    fn add_remark(&mut self, log: &str, detail: String) {
        self.verdicts.remarks.push(LogRemark { log: log.to_owned(), detail });
    }
}

/// Presence of the next log among the given ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextLog {
    Given,
    Absent,
}

/// Transactions before a log, as the log states them.
#[derive(Clone, Copy, Debug)]
enum PreviousTransactions<'s> {
    Gtids(&'s GtidSet),
    /// Last GTID of each domain and server.
    Mariadb(&'s [MariadbGtid]),
}

impl PreviousTransactions<'_> {
    /// Returns true if these are the transactions up to the end of the log. Without GTIDs, this is unknown.
    fn are_all_of(&self, log: &JudgedLog) -> bool {
        match self {
            Self::Gtids(set) => !set.is_empty() && log.gtids.as_ref() == Some(*set),
            Self::Mariadb(list) => {
                let list = list.iter().map(|gtid| ((gtid.domain_id, gtid.server_id), *gtid));
                let last: BTreeMap<(u32, u32), MariadbGtid> = list.collect();
                !last.is_empty() && last == log.mariadb
            }
        }
    }
}

impl JudgedLog {
    fn names_as_next(&self, name: &str) -> bool {
        self.next.as_ref().is_some_and(|next| next.name == base_name(name))
    }
}

/// Returns true if the log with this name directly follows `before`.
fn follows(before: &JudgedLog, name: &str) -> bool {
    match (&before.next, split_log_number(&before.name), split_log_number(name)) {
        (_, Some((stem, number)), Some((next_stem, next))) => {
            stem == next_stem && Some(next) == number.checked_add(1)
        }
        (Some(expected), _, _) => base_name(name) == expected.name,
        _ => false,
    }
}

fn still_written(torn: &TornEvent) -> String {
    format!("its server still writes to it, or crashed: {}", torn_bytes(torn))
}

fn torn_bytes(torn: &TornEvent) -> String {
    let TornEvent { offset, found, expected, .. } = torn;
    format!("the event at {offset} has {found} of {expected} bytes")
}

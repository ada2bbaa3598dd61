//! Judges pieces together: transactions that span pieces, GTIDs, logical clocks, and the sequence of logs.

use std::collections::BTreeMap;
use std::path::Path;

use binlog::TransactionId;
use binlog::events::LogicalClock;
use binlog::gtid::GtidSet;
use logs::{End, LogKind, Torn};

use super::fault::{Fault, FaultKind, Remark};
use super::findings::{Findings, Previous, Seen, Starts};
use super::report::{LogVerdict, Unreadable, Verdicts};

/// Maximum number of faults listed for one log. All are counted.
const FAULTS_LISTED: usize = 1000;

/// Judges logs, in the order given.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    verdicts: Verdicts,
    log: Log,
    /// The previous log, if this one follows it.
    before: Option<Log>,
}

/// State of one log.
#[derive(Debug, Default)]
struct Log {
    name: String,
    kind: Option<LogKind>,
    /// GTIDs of all earlier logs, and of this one as far as read; `None` if the log has no previous GTIDs.
    gtids: Option<GtidSet>,
    /// True if a Previous_gtids event is required before the first transaction.
    wants_previous: bool,
    /// Last MariaDB sequence number by domain and server.
    mariadb: BTreeMap<(u32, u32), u64>,
    sequence_number: i64,
    /// True if transactions may have been skipped since.
    is_clock_lost: bool,
    open: Option<Open>,
    /// Name of the next log according to this one, and the offset of that event.
    next: Option<(String, u64)>,
    end: Option<(End, u64)>,
    /// True if a part could not be read, so its transactions are unknown.
    is_damaged: bool,
}

/// The open transaction, not yet at its end.
#[derive(Debug)]
struct Open {
    starts: Starts,
    bytes: u64,
}

impl Judge {
    pub(crate) fn begins(&mut self, name: &str) {
        let before = std::mem::take(&mut self.log);
        self.log.name = name.to_owned();
        self.verdicts.logs.push(LogVerdict { name: name.to_owned(), ..LogVerdict::default() });
        self.before = before.end.is_some().then_some(before);
        let Some(before) = &self.before else { return };
        let is_next = follows(before, name);
        if let Some((end, position)) = before.end {
            let before = self.before.take().unwrap_or_default();
            self.judge_end(&before, end, position, if is_next { Followed::Yes } else { Followed::No });
            self.before = is_next.then_some(before);
        }
    }

    pub(crate) fn piece(&mut self, kind: LogKind, findings: Findings) {
        self.log.kind = Some(kind);
        if let Some(verdict) = self.verdicts.logs.last_mut() {
            verdict.events += findings.events;
            verdict.bytes = verdict.bytes.max(findings.end);
        }
        for found in findings.faults {
            self.fault(found.offset, found.kind, found.detail);
        }
        if let Some(verdict) = self.verdicts.logs.last_mut() {
            verdict.faults += findings.faults_more;
        }
        for detail in findings.remarks {
            self.remark(&self.log.name.clone(), detail);
        }
        for seen in findings.seen {
            self.seen(seen);
        }
    }

    /// Records that the log cannot be read at this place.
    pub(crate) fn broken(&mut self, offset: u64, error: logs::Error, resumed: Option<u64>) {
        (self.log.is_damaged, self.log.is_clock_lost) = (true, true);
        self.log.open = None;
        match error {
            logs::Error::NotALog { found, .. } => {
                let found = found.map(|byte| format!("{byte:02x}")).join(" ");
                self.fault(0, FaultKind::Start, format!("it starts with {found}, wanted fe 62 69 6e"));
            }
            logs::Error::Corrupt { offset, error, .. } => {
                let detail = match resumed {
                    Some(resumed) => {
                        format!("{error}; skipped {} bytes, to {resumed}", resumed - offset)
                    }
                    None => format!("{error}; the rest of the log cannot be read"),
                };
                self.fault(offset, FaultKind::Framing, detail);
            }
            logs::Error::Payload { offset, error, .. } => {
                self.fault(offset, FaultKind::Payload, error.to_string())
            }
            logs::Error::Torn { torn, .. } => {
                self.log.end = Some((End::Torn(torn), offset));
            }
            error => self.verdicts.unreadable.push(Unreadable::new(&self.log.name, &error)),
        }
    }

    /// Records that a log cannot be opened.
    pub(crate) fn unreadable(&mut self, name: &str, error: &logs::Error) {
        self.verdicts.unreadable.push(Unreadable::new(name, error));
    }

    pub(crate) fn ends(&mut self, kind: LogKind, end: End, position: u64) {
        self.log.kind = Some(kind);
        self.log.end = Some((end, position));
    }

    /// Returns the verdicts, after all logs have been read.
    pub(crate) fn finish(mut self) -> Verdicts {
        let last = std::mem::take(&mut self.log);
        if let Some((end, position)) = last.end {
            self.judge_end(&last, end, position, Followed::No);
        }
        let order: Vec<String> = self.verdicts.logs.iter().map(|log| log.name.clone()).collect();
        let place = |name: &str| order.iter().position(|each| each == name);
        self.verdicts.faults.sort_by_key(|fault| (place(&fault.log), fault.offset));
        self.verdicts
    }

    fn seen(&mut self, seen: Seen) {
        match seen {
            Seen::Format { previous } => {
                self.log.sequence_number = 0;
                self.log.wants_previous =
                    previous == Previous::Always && self.log.kind == Some(LogKind::Binary);
            }
            Seen::HasPrevious => self.log.wants_previous = false,
            Seen::Previous { offset, set } => self.previous(offset, set),
            Seen::PreviousMariadb { offset, list } => self.previous_mariadb(offset, list),
            Seen::Starts(starts) => self.starts(starts),
            Seen::Part { bytes } => {
                if let Some(open) = &mut self.log.open {
                    open.bytes += bytes;
                }
            }
            Seen::Ends => self.transaction_ends(),
            Seen::Lost => self.log.open = None,
            Seen::InDoubt => {
                if let Some(open) = self.log.open.take() {
                    self.committed(open.starts.id);
                }
            }
            Seen::Rotate { offset, name } => {
                let wanted = numbered(&self.log.name).and_then(|(_, number)| number.checked_add(1));
                if let (Some(wanted), Some((_, found))) = (wanted, numbered(&name))
                    && wanted != found
                {
                    let detail = format!("the next log is {name}, wanted number {wanted}");
                    self.fault(offset, FaultKind::Rotation, detail);
                }
                self.log.next = Some((name, offset));
            }
        }
    }

    fn previous(&mut self, offset: u64, set: GtidSet) {
        // Relay logs also contain the previous GTIDs of their source, which refer to other logs.
        if self.log.gtids.is_some() {
            return;
        }
        let before = self.before.as_ref().filter(|before| !before.is_damaged);
        if let Some(wanted) = before.and_then(|before| before.gtids.as_ref())
            && *wanted != set
        {
            let before = self.before.as_ref().map(|before| before.name.clone()).unwrap_or_default();
            let (more, less) = (set.difference(wanted), wanted.difference(&set));
            let mut detail = Vec::new();
            if !more.is_empty() {
                detail.push(format!(
                    "the previous GTIDs include {}, which {before} does not contain",
                    one_line(&more)
                ));
            }
            if !less.is_empty() {
                detail.push(format!("the previous GTIDs lack {}, which {before} contains", one_line(&less)));
            }
            self.fault(offset, FaultKind::Continuity, detail.join("; "));
        }
        self.log.gtids = Some(set);
    }

    fn previous_mariadb(&mut self, offset: u64, list: Vec<(u32, u32, u64)>) {
        let mut faults = Vec::new();
        for (domain, server, number) in list {
            let before = self.before.as_ref().filter(|before| !before.is_damaged);
            let before = before.and_then(|before| before.mariadb.get(&(domain, server)));
            if let Some(wanted) = before.filter(|wanted| **wanted != number) {
                faults.push(format!(
                    "the last GTID before it is {domain}-{server}-{number}, wanted {domain}-{server}-{wanted}"
                ));
            }
            self.log.mariadb.insert((domain, server), number);
        }
        for detail in faults {
            self.fault(offset, FaultKind::Continuity, detail);
        }
    }

    fn starts(&mut self, starts: Starts) {
        if let Some(verdict) = self.verdicts.logs.last_mut() {
            verdict.transactions += 1;
        }
        if let TransactionId::Gtid(gtid) = starts.id
            && self.log.gtids.as_ref().is_some_and(|gtids| gtids.contains(gtid))
        {
            self.fault(starts.offset, FaultKind::Gtid, format!("{gtid} is a duplicate"));
        }
        if std::mem::take(&mut self.log.wants_previous) && !self.log.is_damaged {
            let detail = "no Previous_gtids event precedes the first transaction";
            self.fault(starts.offset, FaultKind::Continuity, detail.to_owned());
        }
        if let Some(clock) = starts.clock {
            self.clock(starts.offset, clock);
        }
        self.log.open = Some(Open { starts, bytes: 0 });
    }

    fn clock(&mut self, offset: u64, clock: LogicalClock) {
        let LogicalClock { last_committed, sequence_number } = clock;
        if clock == (LogicalClock { last_committed: 0, sequence_number: 0 }) {
            return;
        }
        let before = std::mem::replace(&mut self.log.sequence_number, sequence_number);
        let is_known = !std::mem::take(&mut self.log.is_clock_lost);
        // A replica does not receive transactions that it has, and its source's numbers start again with each log.
        if is_known && self.log.kind == Some(LogKind::Binary) && sequence_number != before.saturating_add(1) {
            let detail = format!("sequence_number is {sequence_number}, wanted {}", before.saturating_add(1));
            self.fault(offset, FaultKind::Clock, detail);
        }
        if !(0..sequence_number).contains(&last_committed) {
            let detail = format!("last_committed is {last_committed}, wanted less than {sequence_number}");
            self.fault(offset, FaultKind::Clock, detail);
        }
    }

    fn transaction_ends(&mut self) {
        let Some(Open { starts, bytes }) = self.log.open.take() else { return };
        if let Some(wanted) = starts.size.filter(|wanted| *wanted != bytes) {
            let detail = format!("the transaction has {bytes} bytes, but its GTID event states {wanted}");
            self.fault(starts.offset, FaultKind::Size, detail);
        }
        self.committed(starts.id);
    }

    fn committed(&mut self, id: TransactionId) {
        match id {
            TransactionId::Gtid(gtid) => {
                if let Some(gtids) = &mut self.log.gtids {
                    gtids.add(gtid);
                }
            }
            TransactionId::Mariadb(gtid) => {
                self.log.mariadb.insert((gtid.domain_id, gtid.server_id), gtid.sequence_number);
            }
            _ => {}
        }
    }

    fn judge_end(&mut self, log: &Log, end: End, position: u64, followed: Followed) {
        let open = log.open.as_ref().map(|open| open.starts.offset);
        let unfinished =
            open.map(|offset| format!("; the transaction at {offset} is incomplete")).unwrap_or_default();
        match (end, followed) {
            (End::Closed, _) => {
                if let Some(offset) = open {
                    let detail = "the log is closed within the transaction, wanted its commit";
                    self.fault_of(&log.name, offset, FaultKind::Grammar, detail.to_owned());
                }
            }
            (End::Torn(torn), Followed::No) if torn.in_use || log.kind == Some(LogKind::Relay) => {
                self.remark(&log.name, format!("{}{unfinished}", still_written(&torn)));
            }
            (End::Torn(torn), _) => {
                let detail = format!("the log stops within an event: {}{unfinished}", missing(&torn));
                self.fault_of(&log.name, torn.offset, FaultKind::Tail, detail);
            }
            (End::Open { in_use: true }, Followed::No) => {
                let detail = format!("is in use, or its server crashed: ends at {position}{unfinished}");
                self.remark(&log.name, detail);
            }
            (End::Open { .. }, Followed::No) if open.is_none() || log.kind == Some(LogKind::Relay) => {
                let detail =
                    format!("ends at {position} without Rotate or Stop: still open, or its server crashed");
                self.remark(&log.name, detail + &unfinished);
            }
            (End::Open { .. }, Followed::Yes) if open.is_none() => {
                let detail = format!("ends at {position} without Rotate or Stop: its server crashed");
                self.remark(&log.name, detail);
            }
            (End::Open { .. }, _) => {
                let detail = "the log stops within the transaction, wanted its commit";
                self.fault_of(&log.name, open.unwrap_or(position), FaultKind::Tail, detail.to_owned());
            }
        }
    }

    fn fault(&mut self, offset: u64, kind: FaultKind, detail: String) {
        let name = self.log.name.clone();
        self.fault_of(&name, offset, kind, detail);
    }

    fn fault_of(&mut self, log: &str, offset: u64, kind: FaultKind, detail: String) {
        let Some(verdict) = self.verdicts.logs.iter_mut().rev().find(|verdict| verdict.name == log) else {
            return;
        };
        verdict.faults += 1;
        if verdict.faults <= FAULTS_LISTED as u64 {
            self.verdicts.faults.push(Fault { log: log.to_owned(), offset, kind, detail });
        }
    }

    fn remark(&mut self, log: &str, detail: String) {
        self.verdicts.remarks.push(Remark { log: log.to_owned(), detail });
    }
}

/// Presence of the next log among the given ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Followed {
    Yes,
    No,
}

/// Returns true if the log with this name directly follows `before`.
fn follows(before: &Log, name: &str) -> bool {
    match (&before.next, numbered(&before.name), numbered(name)) {
        (_, Some((stem, number)), Some((next_stem, next))) => {
            stem == next_stem && Some(next) == number.checked_add(1)
        }
        (Some((wanted, _)), _, _) => base_name(name) == wanted,
        _ => false,
    }
}

/// Splits a log's name: `binlog.000012` is number 12 of `binlog`.
fn numbered(name: &str) -> Option<(&str, u64)> {
    let (stem, number) = base_name(name).rsplit_once('.')?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((stem, number.parse().ok().filter(|_| digits)?))
}

fn base_name(name: &str) -> &str {
    Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or(name)
}

fn still_written(torn: &Torn) -> String {
    format!("is still being written to, or its server crashed: {}", missing(torn))
}

fn missing(torn: &Torn) -> String {
    let Torn { offset, found, wanted, .. } = torn;
    format!("the event at {offset} has {found} of {wanted} bytes")
}

fn one_line(set: &GtidSet) -> String {
    set.to_string().replace('\n', "")
}

#[cfg(test)]
mod tests {
    use super::{base_name, numbered};

    #[test]
    fn logs_are_numbered_by_their_names() {
        let check = |name: &str, wanted| assert_eq!(numbered(name), wanted, "{name}");
        check("binlog.000012", Some(("binlog", 12)));
        check("/var/lib/mysql/a.b.1000000", Some(("a.b", 1_000_000)));
        check("binlog", None);
        check("binlog.", None);
        check("binlog.1x", None);
        check("binlog.+1", None);
        assert_eq!(base_name("standard input"), "standard input");
    }
}

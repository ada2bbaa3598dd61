//! Checks the events of one piece of a log, each on its own and in its transaction.

use std::fmt::Display;
use std::sync::Arc;

use binlog::events::{FormatDescription, GtidEvent, Rows, TransactionPayload};
use binlog::gtid::GtidSet;
use binlog::{
    DecodeError, EVENT_SIZE_MAX, Event, EventType, Flags, Format, Grammar, Header, Lost, PayloadOpener,
    PayloadSummary, Place, RawEvent, Reason, Role, Step, Tables, TransactionId,
};
use logs::{Chunk, LogKind};

use super::fault::FaultKind;
use super::findings::{Findings, Seen, Starts};
use super::{fields, format, rows};
use crate::carry::Carry;
use crate::walk::{Inside, Origin, PayloadEnds, each_event};

/// Checks a chunk that starts in the state `carry`.
pub(crate) fn chunk(chunk: &Chunk, carry: &Carry, origin: Origin, opener: &mut PayloadOpener) -> Findings {
    let mut checker = Checker::new(chunk.format(), carry, origin.kind);
    for event in chunk.iter() {
        checker.event(event.offset, &event.raw, opener);
    }
    checker.findings.events = chunk.len() as u64;
    checker.findings.bytes = chunk.bytes().len() as u64;
    checker.findings.end = chunk.end();
    checker.findings
}

/// Checks some events of a large payload.
pub(crate) fn inside(inside: &Inside) -> Findings {
    let mut checker = Checker::new(&inside.format, &inside.carry, inside.origin.kind);
    each_event(&inside.bytes, &inside.format, |offset, raw| {
        checker.inner_event(inside.offset, inside.inner_offset + offset, raw);
    });
    checker.findings
}

/// Checks a large payload at its end.
pub(crate) fn payload_end(ends: &PayloadEnds) -> Findings {
    let mut checker = Checker::new(&ends.format, &ends.before, ends.origin.kind);
    let (offset, size) = (ends.offset, u64::from(ends.header.size));
    checker.position(offset, &ends.header);
    let step = checker.step(offset, Role::Payload);
    match &ends.end {
        Ok(end) => {
            if let Err(error) = end.checksum {
                checker.checksum(offset, error.reason);
            }
            checker.payload_summary(offset, &end.summary, end.trailing);
            checker.payload_ends(offset, &ends.inside.grammar);
        }
        Err(logs::Error::Payload { error, .. }) => checker.findings.fault(offset, FaultKind::Payload, error),
        Err(error) => checker.findings.fault(offset, FaultKind::Payload, error),
    }
    checker.place(offset, &step, size, None);
    checker.findings.events = 1;
    checker.findings.bytes = size;
    checker.findings.end = offset + size;
    checker.findings
}

struct Checker {
    format: Arc<Format>,
    format_inside: Arc<Format>,
    kind: LogKind,
    grammar: Grammar,
    /// True if an event since the last transaction's start could not be interpreted.
    in_doubt: bool,
    /// `end_log_pos` of the previous event.
    next_position: u32,
    tables: Tables,
    /// Table ids that the current statement has mapped.
    named: Vec<u64>,
    findings: Findings,
    /// Buffer for an event that was compressed individually.
    plain: Vec<u8>,
}

impl Checker {
    fn new(format: &Arc<Format>, carry: &Carry, kind: LogKind) -> Self {
        let mut checker = Self {
            format: Arc::clone(format),
            format_inside: Arc::new(format.inside_payload()),
            kind,
            grammar: carry.grammar,
            in_doubt: false,
            next_position: carry.next_position,
            tables: Tables::new(),
            named: Vec::new(),
            findings: Findings::default(),
            plain: Vec::new(),
        };
        for map in carry.maps.iter() {
            // The check of the table map itself reported the error.
            if let Ok(Event::TableMap(map)) = map.decode(&checker.format)
                && checker.tables.map(&map).is_ok()
            {
                checker.named.push(map.table_id);
            }
        }
        checker
    }

    fn event(&mut self, offset: u64, raw: &RawEvent<'_>, opener: &mut PayloadOpener) {
        let size = u64::from(raw.header().size);
        let format = Arc::clone(&self.format);
        let role = Role::of(raw, &format);
        if let Err(error) = raw.verify() {
            self.checksum(offset, error.reason);
            // All other faults of the event would follow from the wrong checksum.
            self.next_position = raw.header().next_position;
            match role {
                Ok(role) => {
                    let step = self.step_quietly(role);
                    self.place(offset, &step, size, None);
                }
                Err(_) => self.doubt(),
            }
            return;
        }
        let header = raw.header();
        self.position(offset, header);
        let role = match role {
            Ok(role) => role,
            Err(error) => {
                self.findings.fault(offset, FaultKind::Event, named(raw, &error));
                return self.doubt();
            }
        };
        let step = self.step(offset, role);
        match raw.decode(&format) {
            Ok(event) => {
                self.place(offset, &step, size, Some((&event, raw)));
                match &event {
                    Event::TransactionPayload(payload) => self.payload(offset, payload, opener),
                    _ => self.content(offset, raw, &event),
                }
            }
            Err(error) => {
                self.findings.fault(offset, FaultKind::Event, named(raw, &error));
                self.place(offset, &step, size, None);
            }
        }
        if step.statement.is_last() || step.transaction == Place::Outside {
            self.named.clear();
        }
    }

    /// Suspends grammar checks until the next transaction starts, behind an event that cannot be interpreted.
    fn doubt(&mut self) {
        self.findings.seen.push(Seen::InDoubt);
        self.grammar = Grammar::new();
        self.in_doubt = true;
    }

    fn checksum(&mut self, offset: u64, reason: Reason) {
        let detail = match reason {
            Reason::Checksum { stored, computed } => format!("found 0x{stored:08x}, wanted 0x{computed:08x}"),
            other => other.to_string(),
        };
        self.findings.fault(offset, FaultKind::Checksum, detail);
    }

    fn position(&mut self, offset: u64, header: &Header) {
        let Header { next_position: found, size, flags, event_type, .. } = *header;
        let before = std::mem::replace(&mut self.next_position, found);
        if found == 0 || flags.contains(Flags::ARTIFICIAL) {
            return;
        }
        // In a relay log that was compressed later, a payload has the position of its last event at the source.
        let is_free = self.kind == LogKind::Relay && event_type == EventType::TransactionPayload;
        let before = (before != 0 && self.grammar.is_open() && !is_free).then_some(before);
        let wanted = wanted_position(self.kind, flags, offset, size, before);
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            let detail = format!("end_log_pos is {found}, should be {wanted}");
            self.findings.fault(offset, FaultKind::Position, detail);
        }
    }

    fn step(&mut self, offset: u64, role: Role) -> Step {
        let in_doubt = self.in_doubt;
        self.in_doubt &= !matches!(role, Role::Gtid | Role::GtidAndBegin | Role::LogBoundary);
        match self.grammar.step(role) {
            Ok(step) => step,
            Err(fault) if in_doubt => fault.step,
            Err(fault) => {
                if fault.lost == Lost::Transaction {
                    self.findings.seen.push(Seen::Lost);
                }
                match (self.kind, fault.lost) {
                    (LogKind::Relay, Lost::Transaction) => self.findings.remarks.push(format!(
                        "at {offset}: a transaction is incomplete, as after a lost connection"
                    )),
                    _ => self.findings.fault(offset, FaultKind::Grammar, fault),
                }
                fault.step
            }
        }
    }

    fn step_quietly(&mut self, role: Role) -> Step {
        self.grammar.step(role).unwrap_or_else(|fault| {
            if fault.lost == Lost::Transaction {
                self.findings.seen.push(Seen::Lost);
            }
            fault.step
        })
    }

    /// Records the event's role in its transaction.
    fn place(&mut self, offset: u64, step: &Step, bytes: u64, event: Option<(&Event<'_>, &RawEvent<'_>)>) {
        if step.transaction == Place::Outside {
            return;
        }
        if step.transaction.is_first() {
            let starts = self.starts(offset, event);
            self.findings.seen.push(Seen::Starts(starts));
        }
        match self.findings.seen.last_mut() {
            Some(Seen::Part { bytes: sum }) => *sum += bytes,
            _ => self.findings.seen.push(Seen::Part { bytes }),
        }
        if step.transaction.is_last() {
            self.findings.seen.push(Seen::Ends);
        }
    }

    fn starts(&mut self, offset: u64, event: Option<(&Event<'_>, &RawEvent<'_>)>) -> Starts {
        let mut starts = Starts { offset, id: TransactionId::Unsaid, clock: None, size: None };
        let Some((event, raw)) = event else { return starts };
        let mut take = |gtid: Option<TransactionId>, clock, size| {
            starts.id = gtid.unwrap_or(TransactionId::Unsaid);
            (starts.clock, starts.size) = (clock, size);
            gtid.is_none()
        };
        let size = |event: &GtidEvent<'_>| event.stamps.as_ref().and_then(|stamps| stamps.transaction_size);
        let is_wrong = match event {
            Event::Gtid(event) => take(event.gtid().map(TransactionId::Gtid), event.clock, size(event)),
            Event::AnonymousGtid(event) => take(Some(TransactionId::Anonymous), event.clock, size(event)),
            Event::GtidTagged(event) => {
                take(event.gtid().map(TransactionId::Gtid), Some(event.clock), event.stamps.transaction_size)
            }
            Event::MariadbGtid(event) => {
                take(Some(TransactionId::Mariadb(event.gtid(raw.header().server_id))), None, None)
            }
            _ => false,
        };
        if is_wrong {
            let detail = "the transaction number is not in the range 1 to 2^63 - 2";
            self.findings.fault(offset, FaultKind::Gtid, detail);
        }
        starts
    }

    /// Checks the content of an event of the log itself.
    fn content(&mut self, offset: u64, raw: &RawEvent<'_>, event: &Event<'_>) {
        if raw.event_type() == EventType::PreviousGtids {
            self.findings.seen.push(Seen::HasPrevious);
        }
        if let Err(error) = fields::check(raw, event, &self.format) {
            return self.findings.fault(offset, FaultKind::Event, named(raw, &error));
        }
        match event {
            Event::FormatDescription(description) => self.format(offset, raw, description),
            Event::PreviousGtids(previous) => match GtidSet::decode(previous.set) {
                Ok(set) => self.findings.seen.push(Seen::Previous { offset, set }),
                Err(error) => {
                    let error = error.within(binlog::HEADER_SIZE);
                    self.findings.fault(offset, FaultKind::Event, named(raw, &error));
                }
            },
            Event::MariadbGtidList(list) => {
                let list = list.iter().collect();
                self.findings.seen.push(Seen::PreviousMariadb { offset, list });
            }
            Event::Rotate(rotate) if self.is_own(raw) => {
                let name = String::from_utf8_lossy(rotate.file).into_owned();
                self.findings.seen.push(Seen::Rotate { offset, name });
            }
            _ => {
                if let Err((kind, error)) = self.rows(raw, event) {
                    self.findings.fault(offset, kind, named(raw, &error));
                }
            }
        }
    }

    /// Returns true if the event belongs to this log: it is not artificial and, in a relay log, not from the source.
    fn is_own(&self, raw: &RawEvent<'_>) -> bool {
        let flags = raw.header().flags;
        !flags.contains(Flags::ARTIFICIAL)
            && (self.kind == LogKind::Binary || flags.contains(Flags::RELAY_LOG))
    }

    fn format(&mut self, offset: u64, raw: &RawEvent<'_>, description: &FormatDescription<'_>) {
        if raw.header().next_position != 0 {
            let previous = format::previous(description);
            self.findings.seen.push(Seen::Format { previous });
        }
        for detail in format::faults(raw.header(), description) {
            self.findings.fault(offset, FaultKind::Format, detail);
        }
    }

    fn rows(&mut self, raw: &RawEvent<'_>, event: &Event<'_>) -> Result<(), (FaultKind, DecodeError)> {
        let in_row = |error| (FaultKind::Row, error);
        match event {
            Event::TableMap(map) => {
                self.tables.map(map).map_err(in_row)?;
                self.named.push(map.table_id);
                Ok(())
            }
            _ if raw.event_type().decompressed().is_some() => self.decompressed(raw),
            _ => event.rows().map_or(Ok(()), |rows| self.decode_rows(rows).map_err(in_row)),
        }
    }

    fn decode_rows(&mut self, event: &Rows<'_>) -> Result<(), DecodeError> {
        if event.column_count > 0 && !self.named.contains(&event.table_id) {
            return Err(rows::unnamed(event.table_id));
        }
        let decoder = self.tables.decoder(event)?;
        rows::decode(&decoder, event)
    }

    /// Checks rows that MariaDB compressed in its own way.
    fn decompressed(&mut self, raw: &RawEvent<'_>) -> Result<(), (FaultKind, DecodeError)> {
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let format = Arc::clone(&self.format);
        let in_event = |error| (FaultKind::Event, error);
        let result = raw
            .decompress_mariadb(&format, EVENT_SIZE_MAX, &mut plain)
            .and_then(|()| RawEvent::new(&plain, raw.checksum()))
            .and_then(|raw| Ok((raw, raw.decode(&format)?)))
            .map_err(in_event)
            .and_then(|(raw, event)| self.rows(&raw, &event));
        self.plain = plain;
        result
    }

    fn payload(&mut self, offset: u64, payload: &TransactionPayload<'_>, opener: &mut PayloadOpener) {
        let mut events = match opener.open(payload) {
            Ok(events) => events,
            Err(error) => return self.findings.fault(offset, FaultKind::Payload, error),
        };
        let outer = std::mem::replace(&mut self.grammar, Grammar::inside_payload());
        loop {
            let inner_offset = events.summary().uncompressed_size;
            match events.next_event() {
                Ok(Some(raw)) => self.inner_event(offset, inner_offset, &raw),
                Ok(None) => {
                    let summary = *events.summary();
                    self.payload_summary(offset, &summary, payload.rest.len() as u64);
                    let inner = self.grammar;
                    self.payload_ends(offset, &inner);
                    break;
                }
                Err(error) => {
                    self.findings.fault(offset, FaultKind::Payload, error);
                    break;
                }
            }
        }
        self.grammar = outer;
    }

    fn inner_event(&mut self, offset: u64, inner_offset: u64, raw: &RawEvent<'_>) {
        let format = Arc::clone(&self.format_inside);
        let decoded = Role::of(raw, &format).and_then(|role| Ok((role, raw.decode(&format)?)));
        let (role, event) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                return self.inner_fault(offset, inner_offset, FaultKind::Event, named(raw, &error));
            }
        };
        if !self.grammar.is_open() {
            let wanted = "found another event, wanted the payload's end after its transaction";
            self.inner_fault(offset, inner_offset, FaultKind::Grammar, wanted);
        }
        let step = self.grammar.step(role).unwrap_or_else(|fault| {
            self.inner_fault(offset, inner_offset, FaultKind::Grammar, fault);
            fault.step
        });
        let looked = fields::check(raw, &event, &format).map_err(|error| (FaultKind::Event, error));
        if let Err((kind, error)) = looked.and_then(|()| self.rows(raw, &event)) {
            self.inner_fault(offset, inner_offset, kind, named(raw, &error));
        }
        if step.statement.is_last() {
            self.named.clear();
        }
    }

    fn inner_fault(&mut self, offset: u64, inner_offset: u64, kind: FaultKind, detail: impl Display) {
        let detail = format!("in the event at uncompressed byte {inner_offset} of the payload: {detail}");
        self.findings.fault(offset, kind, detail);
    }

    fn payload_summary(&mut self, offset: u64, summary: &PayloadSummary, trailing: u64) {
        if !summary.is_claim_true() {
            let (found, claimed) = (summary.uncompressed_size, summary.claimed_size.unwrap_or_default());
            let detail = format!("the uncompressed size is {found} bytes, but the payload states {claimed}");
            self.findings.fault(offset, FaultKind::Payload, detail);
        }
        if trailing > 0 {
            let detail = format!("{trailing} bytes follow the payload, wanted the event's end");
            self.findings.fault(offset, FaultKind::Payload, detail);
        }
        if summary.frames > 1 || summary.frames_skippable > 0 {
            let frames = summary.frames + summary.frames_skippable;
            let remark =
                format!("at {offset}: the payload has {frames} frames: servers before 8.0.32 read only one");
            self.findings.remarks.push(remark);
        }
    }

    fn payload_ends(&mut self, offset: u64, inner: &Grammar) {
        if inner.is_open() {
            let detail = format!("the payload ends, wanted {}", inner.wanted());
            self.findings.fault(offset, FaultKind::Grammar, detail);
        }
    }
}

/// Returns the expected `end_log_pos`. In a binary log, it is the end of the event. In a relay log, it is the event's
/// end in the source's log, which follows from the event before in the same transaction. It has 32 bits and wraps at 4
/// GiB.
fn wanted_position(kind: LogKind, flags: Flags, offset: u64, size: u32, before: Option<u32>) -> Option<u32> {
    match kind {
        LogKind::Relay if !flags.contains(Flags::RELAY_LOG) => Some(before?.wrapping_add(size)),
        LogKind::Binary | LogKind::Relay => Some((offset as u32).wrapping_add(size)),
    }
}

/// Formats the error with the name of the event.
fn named(raw: &RawEvent<'_>, error: &DecodeError) -> String {
    format!("{}: {error}", fields::name_of(raw.event_type()))
}

#[cfg(test)]
mod tests {
    use binlog::Flags;
    use logs::LogKind;

    use super::wanted_position;

    #[test]
    fn positions_wrap_and_belong_to_the_source_in_relay_logs() {
        let check = |kind, flags, offset, before, wanted| {
            assert_eq!(wanted_position(kind, flags, offset, 100, before), wanted);
        };
        let none = Flags::default();
        check(LogKind::Binary, none, 4, Some(9), Some(104));
        check(LogKind::Binary, none, (1 << 32) - 100, None, Some(0));
        check(LogKind::Binary, none, (1 << 32) - 99, None, Some(1));
        check(LogKind::Binary, none, (5 << 32) + 4, None, Some(104));
        check(LogKind::Relay, Flags::RELAY_LOG, 4, Some(9), Some(104));
        check(LogKind::Relay, none, 4, Some(9), Some(109));
        check(LogKind::Relay, none, 4, Some(u32::MAX), Some(99));
        check(LogKind::Relay, none, 4, None, None);
    }
}

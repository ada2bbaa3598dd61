//! Checks the events of one piece of a log: each event separately, and in its transaction.

use std::fmt::Display;
use std::sync::Arc;

use binlog::events::{FormatDescription, GtidEvent, Rows};
use binlog::gtid::GtidSet;
use binlog::{
    DecodeError, DecodeReason, EVENT_SIZE_MAX, Event, EventFlags, EventFormat, EventHeader, EventPlace,
    EventRole, EventType, GrammarLoss, GrammarStep, PayloadSummary, RawEvent, TableRegistry,
    TransactionGrammar, TransactionId,
};
use logs::{
    ChunkContext, EventWalk, LargePayloadHead, LogKind, PayloadEnd, PayloadEndStep, PayloadFailure,
    WalkEvent, WalkPiece, WalkSource, WalkStep, WalkSteps, ends_statement,
};

use super::fault::FaultKind;
use super::findings::{LogFact, PieceFindings, TransactionStart};
use super::{fields, format, rows};
use crate::log_pieces::PieceEvents;

/// Checks the events of a piece, or a large payload at its end.
pub(crate) fn check_events(events: &PieceEvents, walk: &mut EventWalk) -> PieceFindings {
    let PieceEvents { origin, piece, context, inside } = events;
    match piece {
        WalkPiece::Chunk(chunk) => {
            let mut checker = ChunkChecker::new(chunk.format(), context, origin.kind);
            checker.check(walk.start(WalkSource::Chunk(chunk)));
            checker.findings.events = chunk.len() as u64;
            checker.findings.bytes = chunk.bytes().len() as u64;
            checker.findings.end = chunk.end();
            checker.findings
        }
        WalkPiece::PayloadPart(part) => {
            let mut checker = ChunkChecker::new(&part.format, context, origin.kind);
            checker.check(walk.start(WalkSource::Part(part)));
            checker.findings
        }
        WalkPiece::PayloadStart(_) => PieceFindings::default(),
        WalkPiece::PayloadEnd { head, end } => {
            let mut checker = ChunkChecker::new(&head.format, context, origin.kind);
            checker.check_payload_end(head, end, inside);
            checker.findings
        }
    }
}

/// Decision on the payload of an event that was checked.
#[derive(Clone, Copy, PartialEq)]
enum PayloadTrust {
    Open,
    Skip,
}

struct ChunkChecker {
    format: Arc<EventFormat>,
    format_inside: Arc<EventFormat>,
    kind: LogKind,
    grammar: TransactionGrammar,
    /// State after the payload, while its events are checked.
    grammar_after_payload: Option<TransactionGrammar>,
    /// True if an event since the last transaction's start could not be interpreted.
    in_doubt: bool,
    /// `end_log_pos` of the previous event.
    next_position: u32,
    tables: TableRegistry,
    /// Table ids that the current statement has mapped.
    named_tables: Vec<u64>,
    findings: PieceFindings,
    /// Buffer for the uncompressed form of an event that MariaDB compressed individually.
    plain: Vec<u8>,
}

/// Fault of an event or of its rows.
struct RowsFault {
    kind: FaultKind,
    error: DecodeError,
}

impl ChunkChecker {
    fn new(format: &Arc<EventFormat>, context: &ChunkContext, kind: LogKind) -> Self {
        let mut checker = Self {
            format: Arc::clone(format),
            format_inside: Arc::new(format.inside_payload()),
            kind,
            grammar: context.grammar,
            grammar_after_payload: None,
            in_doubt: false,
            next_position: context.next_position,
            tables: TableRegistry::new(),
            named_tables: Vec::new(),
            findings: PieceFindings::default(),
            plain: Vec::new(),
        };
        for map in context.maps.iter() {
            // The check of the table map itself reported the error.
            if let Ok(Event::TableMap(map)) = map.decode(&checker.format)
                && checker.tables.register(&map).is_ok()
            {
                checker.named_tables.push(map.table_id);
            }
        }
        checker
    }

    fn check(&mut self, mut steps: WalkSteps<'_, '_>) {
        while let Some(step) = steps.next() {
            match step {
                WalkStep::Event(WalkEvent { offset, raw, inner: Some(position), .. }) => {
                    self.check_inner_event(offset, position.offset, &raw);
                }
                WalkStep::Event(WalkEvent { offset, raw, inner: None, .. }) => {
                    if self.check_event(offset, &raw) == PayloadTrust::Skip {
                        steps.skip_payload();
                    }
                }
                WalkStep::PayloadEnd(PayloadEndStep { offset, result, .. }) => {
                    match result {
                        Ok(PayloadEnd { summary, trailing, .. }) => {
                            self.check_payload_summary(offset, &summary, trailing);
                            let inside = self.grammar;
                            self.check_payload_grammar(offset, &inside);
                        }
                        Err(PayloadFailure::Payload(error)) => {
                            self.findings.add_fault(offset, FaultKind::Payload, error);
                        }
                        // The check of the event itself reported the error.
                        Err(PayloadFailure::Event(_)) => {}
                    }
                    self.grammar = self.grammar_after_payload.take().unwrap_or(self.grammar);
                }
                WalkStep::LargePayload(_) => {}
            }
        }
    }

    /// Checks a large payload at its end.
    fn check_payload_end(
        &mut self,
        head: &LargePayloadHead,
        end: &Result<PayloadEnd, logs::LogError>,
        inside: &TransactionGrammar,
    ) {
        let (offset, size) = (head.offset, u64::from(head.header.size));
        self.check_position(offset, &head.header);
        let step = self.step(offset, EventRole::Payload);
        match end {
            Ok(end) => {
                if let Err(error) = end.checksum {
                    self.report_checksum(offset, error.reason);
                }
                self.check_payload_summary(offset, &end.summary, end.trailing);
                self.check_payload_grammar(offset, inside);
            }
            Err(logs::LogError::Payload { error, .. }) => {
                self.findings.add_fault(offset, FaultKind::Payload, error)
            }
            Err(error) => self.findings.add_fault(offset, FaultKind::Payload, error),
        }
        self.record_step(offset, &step, size, None);
        self.findings.events = 1;
        self.findings.bytes = size;
        self.findings.end = offset + size;
    }

    /// Checks an event of the log itself.
    fn check_event(&mut self, offset: u64, raw: &RawEvent<'_>) -> PayloadTrust {
        let size = u64::from(raw.header().size);
        let format = Arc::clone(&self.format);
        let role = EventRole::of(raw, &format);
        if let Err(error) = raw.verify() {
            self.report_checksum(offset, error.reason);
            // All other faults of the event would follow from the wrong checksum.
            self.next_position = raw.header().next_position;
            match role {
                Ok(role) => {
                    let step = self.step_quietly(role);
                    self.record_step(offset, &step, size, None);
                }
                Err(_) => self.mark_doubtful(),
            }
            return PayloadTrust::Skip;
        }
        let header = raw.header();
        self.check_position(offset, header);
        let role = match role {
            Ok(role) => role,
            Err(error) => {
                self.findings.add_fault(offset, FaultKind::Event, name_error(raw, &error));
                self.mark_doubtful();
                return PayloadTrust::Skip;
            }
        };
        let step = self.step(offset, role);
        let mut trust = PayloadTrust::Open;
        match raw.decode(&format) {
            Ok(event) => {
                self.record_step(offset, &step, size, Some((&event, raw)));
                match &event {
                    Event::TransactionPayload(_) => {
                        let inside = TransactionGrammar::inside_payload();
                        self.grammar_after_payload = Some(std::mem::replace(&mut self.grammar, inside));
                    }
                    _ => self.check_content(offset, raw, &event),
                }
            }
            Err(error) => {
                self.findings.add_fault(offset, FaultKind::Event, name_error(raw, &error));
                self.record_step(offset, &step, size, None);
                trust = PayloadTrust::Skip;
            }
        }
        if ends_statement(raw, &format) {
            self.named_tables.clear();
        }
        trust
    }

    /// Suspends grammar checks until the next transaction starts, after an event that cannot be interpreted.
    fn mark_doubtful(&mut self) {
        self.findings.facts.push(LogFact::InDoubt);
        self.grammar = TransactionGrammar::new();
        self.in_doubt = true;
    }

    fn report_checksum(&mut self, offset: u64, reason: DecodeReason) {
        let detail = match reason {
            DecodeReason::Checksum { stored, computed } => {
                format!("found 0x{stored:08x}, expected 0x{computed:08x}")
            }
            other => other.to_string(),
        };
        self.findings.add_fault(offset, FaultKind::Checksum, detail);
    }

    fn check_position(&mut self, offset: u64, header: &EventHeader) {
        let EventHeader { next_position: found, size, flags, event_type, .. } = *header;
        let before = std::mem::replace(&mut self.next_position, found);
        if found == 0 || flags.contains(EventFlags::ARTIFICIAL) {
            return;
        }
        // In a relay log that was compressed later, a payload has the position of its last event at the source.
        let is_free = self.kind == LogKind::Relay && event_type == EventType::TransactionPayload;
        let before = (before != 0 && self.grammar.is_open() && !is_free).then_some(before);
        let expected = expected_position(self.kind, flags, offset, size, before);
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            let detail = format!("end_log_pos is {found}, expected {expected}");
            self.findings.add_fault(offset, FaultKind::Position, detail);
        }
    }

    fn step(&mut self, offset: u64, role: EventRole) -> GrammarStep {
        let in_doubt = self.in_doubt;
        self.in_doubt &= !matches!(role, EventRole::Gtid | EventRole::GtidAndBegin | EventRole::LogBoundary);
        match self.grammar.step(role) {
            Ok(step) => step,
            Err(fault) if in_doubt => fault.step,
            Err(fault) => {
                if fault.lost == GrammarLoss::Transaction {
                    self.findings.facts.push(LogFact::TransactionLost);
                }
                match (self.kind, fault.lost) {
                    (LogKind::Relay, GrammarLoss::Transaction) => self.findings.remarks.push(format!(
                        "at {offset}: a transaction is incomplete, as after a lost connection"
                    )),
                    _ => self.findings.add_fault(offset, FaultKind::Grammar, fault),
                }
                fault.step
            }
        }
    }

    fn step_quietly(&mut self, role: EventRole) -> GrammarStep {
        self.grammar.step(role).unwrap_or_else(|fault| {
            if fault.lost == GrammarLoss::Transaction {
                self.findings.facts.push(LogFact::TransactionLost);
            }
            fault.step
        })
    }

    /// Records the event's role in its transaction.
    fn record_step(
        &mut self,
        offset: u64,
        step: &GrammarStep,
        bytes: u64,
        event: Option<(&Event<'_>, &RawEvent<'_>)>,
    ) {
        if step.transaction == EventPlace::Outside {
            return;
        }
        if step.transaction.is_first() {
            let starts = self.transaction_start(offset, event);
            self.findings.facts.push(LogFact::TransactionStart(starts));
        }
        match self.findings.facts.last_mut() {
            Some(LogFact::TransactionBytes { bytes: sum }) => *sum += bytes,
            _ => self.findings.facts.push(LogFact::TransactionBytes { bytes }),
        }
        if step.transaction.is_last() {
            self.findings.facts.push(LogFact::TransactionEnd);
        }
    }

    fn transaction_start(
        &mut self,
        offset: u64,
        event: Option<(&Event<'_>, &RawEvent<'_>)>,
    ) -> TransactionStart {
        let mut starts = TransactionStart { offset, id: TransactionId::Unsaid, clock: None, size: None };
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
            self.findings.add_fault(offset, FaultKind::Gtid, detail);
        }
        starts
    }

    /// Checks the content of an event of the log itself.
    fn check_content(&mut self, offset: u64, raw: &RawEvent<'_>, event: &Event<'_>) {
        if raw.event_type() == EventType::PreviousGtids {
            self.findings.facts.push(LogFact::HasPrevious);
        }
        if let Err(error) = fields::check(raw, event, &self.format) {
            return self.findings.add_fault(offset, FaultKind::Event, name_error(raw, &error));
        }
        match event {
            Event::FormatDescription(description) => self.check_format(offset, raw, description),
            Event::PreviousGtids(previous) => match GtidSet::decode(previous.set) {
                Ok(set) => self.findings.facts.push(LogFact::Previous { offset, set }),
                Err(error) => {
                    let error = error.within(binlog::HEADER_SIZE);
                    self.findings.add_fault(offset, FaultKind::Event, name_error(raw, &error));
                }
            },
            Event::MariadbGtidList(list) => {
                let list = list.iter().collect();
                self.findings.facts.push(LogFact::PreviousMariadb { offset, list });
            }
            Event::Rotate(rotate) if self.is_own(raw) => {
                let name = String::from_utf8_lossy(rotate.file).into_owned();
                self.findings.facts.push(LogFact::Rotate { offset, name });
            }
            _ => {
                if let Err(RowsFault { kind, error }) = self.check_rows(raw, event) {
                    self.findings.add_fault(offset, kind, name_error(raw, &error));
                }
            }
        }
    }

    /// Returns true if the event belongs to this log: it is not artificial and, in a relay log, not from the source.
    fn is_own(&self, raw: &RawEvent<'_>) -> bool {
        let flags = raw.header().flags;
        !flags.contains(EventFlags::ARTIFICIAL)
            && (self.kind == LogKind::Binary || flags.contains(EventFlags::RELAY_LOG))
    }

    fn check_format(&mut self, offset: u64, raw: &RawEvent<'_>, description: &FormatDescription<'_>) {
        if raw.header().next_position != 0 {
            let previous = format::previous_gtids_rule(description);
            self.findings.facts.push(LogFact::Format { previous });
        }
        for detail in format::faults(raw.header(), description) {
            self.findings.add_fault(offset, FaultKind::Format, detail);
        }
    }

    fn check_rows(&mut self, raw: &RawEvent<'_>, event: &Event<'_>) -> Result<(), RowsFault> {
        let in_row = |error| RowsFault { kind: FaultKind::Row, error };
        match event {
            Event::TableMap(map) => {
                self.tables.register(map).map_err(in_row)?;
                self.named_tables.push(map.table_id);
                Ok(())
            }
            _ if raw.event_type().decompressed().is_some() => self.check_compressed_rows(raw),
            _ => event.rows().map_or(Ok(()), |rows| self.decode_rows(rows).map_err(in_row)),
        }
    }

    fn decode_rows(&mut self, event: &Rows<'_>) -> Result<(), DecodeError> {
        if event.column_count > 0 && !self.named_tables.contains(&event.table_id) {
            return Err(DecodeError::unmapped_table(event.table_id));
        }
        let decoder = self.tables.decoder(event)?;
        rows::decode_rows(&decoder, event)
    }

    /// Checks rows in MariaDB's compression.
    fn check_compressed_rows(&mut self, raw: &RawEvent<'_>) -> Result<(), RowsFault> {
        let mut plain = std::mem::take(&mut self.plain);
        let format = Arc::clone(&self.format);
        let in_event = |error| RowsFault { kind: FaultKind::Event, error };
        let result = raw
            .plain(&format, EVENT_SIZE_MAX, &mut plain)
            .and_then(|raw| Ok((raw, raw.decode(&format)?)))
            .map_err(in_event)
            .and_then(|(raw, event)| self.check_rows(&raw, &event));
        self.plain = plain;
        result
    }

    fn check_inner_event(&mut self, offset: u64, inner_offset: u64, raw: &RawEvent<'_>) {
        let format = Arc::clone(&self.format_inside);
        let decoded = EventRole::of(raw, &format).and_then(|role| Ok((role, raw.decode(&format)?)));
        let (role, event) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                return self.report_inner_fault(
                    offset,
                    inner_offset,
                    FaultKind::Event,
                    name_error(raw, &error),
                );
            }
        };
        if !self.grammar.is_open() {
            let expected = "found another event, expected the payload's end after its transaction";
            self.report_inner_fault(offset, inner_offset, FaultKind::Grammar, expected);
        }
        if let Err(fault) = self.grammar.step(role) {
            self.report_inner_fault(offset, inner_offset, FaultKind::Grammar, fault);
        }
        let looked =
            fields::check(raw, &event, &format).map_err(|error| RowsFault { kind: FaultKind::Event, error });
        if let Err(RowsFault { kind, error }) = looked.and_then(|()| self.check_rows(raw, &event)) {
            self.report_inner_fault(offset, inner_offset, kind, name_error(raw, &error));
        }
        if ends_statement(raw, &format) {
            self.named_tables.clear();
        }
    }

    fn report_inner_fault(&mut self, offset: u64, inner_offset: u64, kind: FaultKind, detail: impl Display) {
        let detail = format!("in the event at uncompressed byte {inner_offset} of the payload: {detail}");
        self.findings.add_fault(offset, kind, detail);
    }

    fn check_payload_summary(&mut self, offset: u64, summary: &PayloadSummary, trailing: u64) {
        if !summary.is_claim_true() {
            let (found, claimed) = (summary.uncompressed_size, summary.claimed_size.unwrap_or_default());
            let detail = format!("the uncompressed size is {found} bytes, but the payload states {claimed}");
            self.findings.add_fault(offset, FaultKind::Payload, detail);
        }
        if trailing > 0 {
            let detail = format!("{trailing} bytes follow the payload, expected the event's end");
            self.findings.add_fault(offset, FaultKind::Payload, detail);
        }
        if summary.frames > 1 || summary.frames_skippable > 0 {
            let frames = summary.frames + summary.frames_skippable;
            let remark =
                format!("at {offset}: the payload has {frames} frames: servers before 8.0.32 read only one");
            self.findings.remarks.push(remark);
        }
    }

    fn check_payload_grammar(&mut self, offset: u64, inner: &TransactionGrammar) {
        if inner.is_open() {
            let detail = format!("found the end of the payload, expected {}", inner.expected());
            self.findings.add_fault(offset, FaultKind::Grammar, detail);
        }
    }
}

/// Returns the expected `end_log_pos`. In a binary log, it is the end of the event. In a relay log, it is the event's
/// end in the source's log, derived from the previous event of the transaction. It has 32 bits and wraps at 4 GiB.
fn expected_position(
    kind: LogKind,
    flags: EventFlags,
    offset: u64,
    size: u32,
    before: Option<u32>,
) -> Option<u32> {
    match kind {
        LogKind::Relay if !flags.contains(EventFlags::RELAY_LOG) => Some(before?.wrapping_add(size)),
        LogKind::Binary | LogKind::Relay => Some((offset as u32).wrapping_add(size)),
    }
}

/// Formats the error with the name of the event.
fn name_error(raw: &RawEvent<'_>, error: &DecodeError) -> String {
    format!("{}: {error}", fields::name_of(raw.event_type()))
}

#[cfg(test)]
mod tests {
    use binlog::EventFlags;
    use logs::LogKind;

    use super::expected_position;

    #[test]
    fn positions_wrap_and_belong_to_the_source_in_relay_logs() {
        let check = |kind, flags, offset, before, expected| {
            assert_eq!(expected_position(kind, flags, offset, 100, before), expected);
        };
        let none = EventFlags::default();
        check(LogKind::Binary, none, 4, Some(9), Some(104));
        check(LogKind::Binary, none, (1 << 32) - 100, None, Some(0));
        check(LogKind::Binary, none, (1 << 32) - 99, None, Some(1));
        check(LogKind::Binary, none, (5 << 32) + 4, None, Some(104));
        check(LogKind::Relay, EventFlags::RELAY_LOG, 4, Some(9), Some(104));
        check(LogKind::Relay, none, 4, Some(9), Some(109));
        check(LogKind::Relay, none, 4, Some(u32::MAX), Some(99));
        check(LogKind::Relay, none, 4, None, None);
    }
}

//! Counts the row changes of transactions, event by event.

use std::collections::BTreeMap;

use binlog::{
    DecodeError, EVENT_SIZE_MAX, Event, EventFormat, EventRole, EventType, RawEvent, TableRegistry,
    TransactionGrammar, TransactionId,
};
use logs::{ChangeOrigin, WalkEvent, transaction_at};

use super::store_activity::{RowActivity, TransactionActivity, add_rows};

/// Counts transactions of one log after the other.
#[derive(Debug, Default)]
pub(super) struct TransactionCounter {
    grammar: TransactionGrammar,
    tables: TableRegistry,
    open: Option<GrowingTransaction>,
    /// Buffer for the uncompressed form of an event that MariaDB compressed individually.
    plain: Vec<u8>,
}

/// Transaction that has not ended yet.
#[derive(Debug, Default)]
struct GrowingTransaction {
    id: Option<TransactionId>,
    origin: ChangeOrigin,
    bytes: u64,
    rows: BTreeMap<String, RowActivity>,
}

impl TransactionCounter {
    /// Returns the commit time of the open transaction, in microseconds since 1970.
    pub(super) fn commit_us(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.origin.time_us())
    }

    /// Counts an event. Returns the transaction that it ends. A transaction in a payload ends with
    /// [`TransactionCounter::end_payload`].
    pub(super) fn add(&mut self, event: &WalkEvent<'_>) -> Result<Option<TransactionActivity>, DecodeError> {
        let WalkEvent { raw, format, .. } = event;
        if event.inner.is_some() {
            self.add_content(raw, format)?;
            return Ok(None);
        }
        let role = EventRole::of(raw, format)?;
        let step = match self.grammar.step(role) {
            Ok(step) => step,
            Err(fault) => {
                self.open = None;
                fault.step
            }
        };
        if step.transaction == binlog::EventPlace::Outside {
            return Ok(None);
        }
        if step.transaction.is_first() {
            let origin = ChangeOrigin::begin(raw.header());
            self.open = Some(GrowingTransaction { origin, ..GrowingTransaction::default() });
        }
        if let Some(open) = &mut self.open {
            open.bytes += u64::from(raw.header().size);
            open.id = transaction_at(raw, format, open.id);
            open.origin.pass(raw, format);
        }
        self.add_content(raw, format)?;
        Ok(match step.transaction.is_last() && role != EventRole::Payload {
            true => self.end(),
            false => None,
        })
    }

    /// Counts the event of a payload too large for memory: its size and its role in the transaction.
    pub(super) fn add_large_payload(&mut self, size: u64) {
        let _ = self.grammar.step(EventRole::Payload);
        self.open.get_or_insert_default().bytes += size;
    }

    /// Ends the transaction of a payload, and returns it.
    pub(super) fn end_payload(&mut self) -> Option<TransactionActivity> {
        self.end()
    }

    fn end(&mut self) -> Option<TransactionActivity> {
        let open = self.open.take()?;
        Some(TransactionActivity {
            id: open.id.unwrap_or(TransactionId::Unsaid),
            commit_us: open.origin.time_us(),
            bytes: open.bytes,
            tables: open.rows,
        })
    }

    /// Counts rows.
    fn add_content(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        let is_rows = raw.event_type().decompressed().unwrap_or(raw.event_type()).rows_kind().is_some();
        if raw.event_type() != EventType::TableMap && !is_rows {
            return Ok(());
        }
        let bytes = u64::from(raw.header().size);
        let event = match raw.event_type().decompressed() {
            None => raw.decode(format)?,
            Some(_) => raw.plain(format, EVENT_SIZE_MAX, &mut self.plain)?.decode(format)?,
        };
        match &event {
            Event::TableMap(map) => drop(self.tables.register(map)?),
            event => {
                let Some(rows) = event.rows() else { return Ok(()) };
                let Some(table) = self.tables.table(rows.table_id) else { return Ok(()) };
                let rows = self.tables.decoder(rows)?.count(rows)?;
                if let Some(open) = &mut self.open {
                    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
                    let name = format!("{}.{}", text(&table.database), text(&table.name));
                    add_rows(&mut open.rows, &name, RowActivity { rows, bytes });
                }
            }
        }
        Ok(())
    }
}

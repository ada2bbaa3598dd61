//! Stored transactions, by their GTIDs.

use std::collections::BTreeMap;
use std::path::Path;

use binlog::events::MariadbGtid;
use binlog::gtid::{Gtid, GtidSet};
use binlog::{DecodeError, Event, EventFormat, EventRole, EventType, RawEvent, TransactionGrammar};
use logs::{LogError, LogReader, ReadOutcome, Store};

/// GTIDs of completely stored transactions: a set for MySQL, the last GTID of each domain for MariaDB.
#[derive(Clone, Debug, Default)]
pub struct ReceivedGtids {
    set: GtidSet,
    domains: BTreeMap<u32, MariadbGtid>,
    grammar: TransactionGrammar,
    /// Transaction whose end is not received yet.
    open: Option<ReceivedGtid>,
    /// Last complete transaction.
    last: Option<ReceivedGtid>,
}

#[derive(Clone, Copy, Debug)]
enum ReceivedGtid {
    Mysql(Gtid),
    Mariadb(MariadbGtid),
}

impl ReceivedGtids {
    /// Returns the GTIDs of a store: of its last log, and of earlier logs by its Previous_gtids event.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read.
    pub(crate) fn read_store(directory: &Path, keyring: Option<&Path>) -> Result<Self, LogError> {
        let mut received = Self::default();
        let store = Store::open(directory)?;
        let Some(log) = store.logs().last() else { return Ok(received) };
        let mut reader = LogReader::open_stored(log)?.with_keyring_file(keyring)?;
        while let ReadOutcome::Some(chunk) = reader.next_chunk(CHUNK_SIZE)? {
            for event in (0..chunk.len()).filter_map(|index| chunk.get(index)) {
                received.add_event(&event.raw, chunk.format());
            }
        }
        Ok(received)
    }

    /// Adds a stored event. Ignores an event that cannot be decoded.
    pub fn add_event(&mut self, raw: &RawEvent<'_>, format: &EventFormat) {
        let _ = self.try_add_event(raw, format);
    }

    fn try_add_event(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        match raw.event_type() {
            EventType::Gtid
            | EventType::GtidTagged
            | EventType::AnonymousGtid
            | EventType::MariadbGtid
            | EventType::PreviousGtids
            | EventType::MariadbGtidList => self.take_gtids(raw, format)?,
            _ => {}
        }
        let step = self.grammar.step(EventRole::of(raw, format)?).unwrap_or_else(|fault| fault.step);
        if step.transaction.is_last() {
            self.complete_transaction();
        }
        Ok(())
    }

    fn take_gtids(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        self.open = None;
        match raw.decode(format)? {
            Event::PreviousGtids(previous) => self.set.add_all(&GtidSet::decode(previous.set)?),
            Event::MariadbGtidList(list) => {
                self.domains.extend(list.iter().map(|gtid| (gtid.domain_id, gtid)));
            }
            Event::MariadbGtid(gtid) => {
                self.open = Some(ReceivedGtid::Mariadb(gtid.gtid(raw.header().server_id)))
            }
            event => self.open = event.gtid().map(ReceivedGtid::Mysql),
        }
        Ok(())
    }

    fn complete_transaction(&mut self) {
        let Some(came) = self.open.take() else { return };
        match came {
            ReceivedGtid::Mysql(gtid) => {
                self.set.add(gtid);
            }
            ReceivedGtid::Mariadb(gtid) => {
                self.domains.insert(gtid.domain_id, gtid);
            }
        }
        self.last = Some(came);
    }

    /// Returns the GTID of the last transaction, if it has one.
    pub fn last(&self) -> Option<String> {
        self.last.map(|last| match last {
            ReceivedGtid::Mysql(gtid) => gtid.to_string(),
            ReceivedGtid::Mariadb(gtid) => gtid.to_string(),
        })
    }

    /// Returns the GTIDs of MySQL transactions.
    pub const fn set(&self) -> &GtidSet {
        &self.set
    }

    /// Returns the last GTID of each domain of MariaDB.
    pub fn domains(&self) -> impl Iterator<Item = &MariadbGtid> {
        self.domains.values()
    }
}

/// Bytes read at once.
const CHUNK_SIZE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::ReceivedGtids;

    const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples");

    #[test]
    fn the_last_log_has_the_stored_gtids() {
        let check = |store: &str, expected: &str| {
            let received = ReceivedGtids::read_store(&Path::new(SAMPLES).join(store), None).unwrap();
            let domains: Vec<String> = received.domains().map(ToString::to_string).collect();
            let found = received.set().to_string() + &domains.join(",");
            assert_eq!(found.replace("5ea5ca5e-0001-4000-8000-000000000001", "U"), expected, "{store}");
        };
        check("gtids", GTIDS);
        check("mariadb-gtids", "1-77-4,2-77-1,4294967295-77-18446744073709551000");
        check("relay", "U:1-7:tag:1");
    }

    const GTIDS: &str = "U:1-7:another_tag_of_thirty_two_chars_:1:tag:1-2,\
        bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb:1:3:9223372036854775806,\
        cccccccc-cccc-cccc-cccc-cccccccccccc:99:by_hand:77:79";
}

//! Prepared XA transactions that are not yet committed or rolled back.

use std::collections::HashMap;

use sql::quote;

use crate::apply_plan::{ApplyPlan, ApplyPlanError, ApplyStep, TransactionShape};
use crate::replay_error::ReplayError;
use crate::source_transaction::TransactionHead;
use crate::spooled_rows::RowSpooler;

/// Prepared XA transactions that are not yet committed or rolled back, by XID. Beyond a limit, their row changes go to
/// temporary files.
pub(super) struct UndecidedTransactions {
    by_xid: HashMap<String, PreparedTransaction>,
    /// Bytes of all transactions in memory.
    held_bytes: usize,
    held_bytes_max: usize,
}

struct PreparedTransaction {
    head: TransactionHead,
    plan: ApplyPlan,
}

/// Approximate bytes of a transaction without its changes: XID, head and session variables.
const TRANSACTION_SIZE: usize = 1 << 10;

/// Minimum bytes of row changes that are worth a temporary file.
const SPOOLED_SIZE_MIN: usize = 16 << 10;

/// Maximum number of transactions in temporary files, each of which is an open file of the process.
const SPOOLED_MAX: usize = 256;

impl UndecidedTransactions {
    /// Creates an empty set that keeps up to `held_bytes_max` bytes in memory.
    pub(super) fn new(held_bytes_max: usize) -> Self {
        Self { by_xid: HashMap::new(), held_bytes: 0, held_bytes_max }
    }

    /// Adds a transaction.
    ///
    /// # Errors
    ///
    /// Fails if a prepared transaction has the same XID, or if the transactions do not fit into memory and cannot go to
    /// temporary files.
    pub(super) fn insert(
        &mut self,
        xid: String,
        head: &TransactionHead,
        plan: ApplyPlan,
    ) -> Result<(), ReplayError> {
        if let Some(first) = self.by_xid.get(&xid) {
            // The logs lack the commit or rollback of the first.
            return Err(ReplayError::Refused(format!(
                "{head} prepares the XA transaction {} again, but the logs contain no XA COMMIT or XA ROLLBACK of the \
                 earlier one, {first}. If {first} was rolled back on the source, exclude it with --exclude-gtids",
                format_xid(&xid),
                first = first.head
            )));
        }
        let transaction = PreparedTransaction { head: head.clone(), plan };
        self.held_bytes += transaction.held_bytes();
        self.by_xid.insert(xid, transaction);
        while self.held_bytes > self.held_bytes_max {
            self.spool_largest(head)?;
        }
        Ok(())
    }

    /// Removes the transaction that `head` commits or rolls back. Returns its head and its changes.
    ///
    /// # Errors
    ///
    /// Fails if no prepared transaction has this XID.
    pub(super) fn take(
        &mut self,
        xid: &str,
        head: &TransactionHead,
    ) -> Result<(TransactionHead, ApplyPlan), ReplayError> {
        let prepared = self.by_xid.remove(xid).ok_or_else(|| {
            ReplayError::Refused(format!(
                "{head} commits or rolls back the XA transaction {}, which was prepared before the first transaction \
                 applied here. Give the log that has its XA PREPARE too, and start before that",
                format_xid(xid)
            ))
        })?;
        assert!(self.held_bytes >= prepared.held_bytes(), "ours: the bytes of each transaction are counted");
        self.held_bytes -= prepared.held_bytes();
        Ok((prepared.head, ApplyPlan { shape: TransactionShape::Statements, ..prepared.plan }))
    }

    /// Returns the XIDs, sorted.
    pub(super) fn into_xids(self) -> Vec<String> {
        let mut xids: Vec<String> = self.by_xid.into_keys().map(|xid| format_xid(&xid)).collect();
        xids.sort();
        xids
    }

    /// Moves the row changes of the transaction with most of them to a temporary file.
    fn spool_largest(&mut self, head: &TransactionHead) -> Result<(), ReplayError> {
        let (count, held_max) = (self.by_xid.len(), self.held_bytes_max);
        let in_files = self.by_xid.values().filter(|prepared| !prepared.plan.is_in_memory()).count();
        let largest = self.by_xid.values_mut().max_by_key(|prepared| prepared.row_bytes());
        let largest =
            largest.filter(|prepared| in_files < SPOOLED_MAX && prepared.row_bytes() >= SPOOLED_SIZE_MIN);
        let Some(prepared) = largest else {
            return Err(ReplayError::Refused(format!(
                "{head} cannot be held until it is committed or rolled back: the {count} undecided XA transactions \
                 have more than {held_max} bytes, and {in_files} of them are in temporary files. Increase --memory"
            )));
        };
        let before = prepared.held_bytes();
        prepared
            .spool_rows()
            .map_err(|error| ReplayError::Plan { transaction: prepared.head.to_string(), error })?;
        self.held_bytes = self.held_bytes - before + prepared.held_bytes();
        Ok(())
    }
}

impl PreparedTransaction {
    fn held_bytes(&self) -> usize {
        TRANSACTION_SIZE + self.plan.size()
    }

    /// Returns the bytes of the row changes in memory.
    fn row_bytes(&self) -> usize {
        let sizes = self.plan.steps.iter().map(|step| match step {
            ApplyStep::Rows(_, rows) => rows.bytes.len(),
            _ => 0,
        });
        sizes.sum()
    }

    fn spool_rows(&mut self) -> Result<(), ApplyPlanError> {
        for step in &mut self.plan.steps {
            if let ApplyStep::Rows(context, rows) = step {
                let mut spooler = RowSpooler::new(&rows.format)?;
                for raw in rows.events() {
                    spooler.push(&raw)?;
                }
                *step = ApplyStep::Spooled(context.clone(), spooler.finish()?);
            }
        }
        Ok(())
    }
}

/// Formats an XID as a client would write it: `X'67',X'62',1`, with printable text instead of hex digits.
fn format_xid(xid: &str) -> String {
    let shown = |part: &str| -> Option<String> {
        let digits = part.strip_prefix("X'").or(part.strip_prefix("x'"))?.strip_suffix('\'')?;
        let bytes = quote::parse_hex(digits)?;
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && !matches!(byte, b'\'' | b'\\');
        bytes.iter().all(is_plain).then(|| format!("'{}'", String::from_utf8_lossy(&bytes)))
    };
    xid.split(',').map(|part| shown(part).unwrap_or_else(|| part.to_owned())).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binlog::events::RowsKind;
    use binlog::{
        ChecksumAlgorithm, Event, EventFlags, EventFormat, EventOrigin, Flavour, NextPosition, TransactionId,
    };

    use super::{UndecidedTransactions, format_xid};
    use crate::apply_plan::{ApplyPlan, ApplyStep, TransactionShape};
    use crate::row_events::RowEvents;
    use crate::sample_table::{SampleTable, image, int};
    use crate::session_variables::SessionVariables;
    use crate::source_transaction::{TransactionHead, TransactionOrigin};

    /// Sizes of transactions in KiB, and for each whether it is in memory at the end. The limit is 100 KiB.
    #[test]
    fn large_transactions_go_to_files() {
        check(&[10, 20, 30], Ok("mmm"));
        check(&[200], Ok("f"));
        check(&[60, 30, 20], Ok("fmm"));
        check(&[20, 60, 30, 60], Ok("mfmf"));
        check(&[10; 8], Ok("mmmmmmmm"));
        check(&[10; 12], Err("the 10 undecided XA transactions have more than 102400 bytes"));
    }

    #[test]
    fn a_taken_transaction_frees_its_memory() {
        let mut prepared = UndecidedTransactions::new(100 << 10);
        for round in 0..100 {
            let xid = round.to_string();
            prepared.insert(xid.clone(), &head(), plan(10 << 10)).unwrap();
            let (_, taken) = prepared.take(&xid, &head()).unwrap();
            assert_eq!(taken, ApplyPlan { shape: TransactionShape::Statements, ..plan(10 << 10) });
        }
        assert_eq!(prepared.held_bytes, 0);
        assert!(prepared.take("1", &head()).is_err());
    }

    #[test]
    fn xids_are_text_where_they_can_be_printed() {
        let check = |xid: &str, expected: &str| assert_eq!(format_xid(xid), expected);
        check("X'6f72646572',X'31',1", "'order','1',1");
        check("X'61',X'',1", "'a','',1");
        check("X'00ff',X'61',7", "X'00ff','a',7");
        check("X'27',X'5c',1", "X'27',X'5c',1");
        check("'a'", "'a'");
        check("X'é'", "X'é'");
    }

    fn check(sizes: &[usize], expected: Result<&str, &str>) {
        let mut prepared = UndecidedTransactions::new(100 << 10);
        let inserted = (0..).zip(sizes).try_for_each(|(number, size): (u32, _)| {
            prepared.insert(number.to_string(), &head(), plan(size << 10))
        });
        if let Err(part) = expected {
            let message = inserted.unwrap_err().to_string();
            return assert!(message.contains(part), "{message}");
        }
        inserted.unwrap();
        let mut places = String::new();
        for (number, size) in sizes.iter().enumerate() {
            let (_, taken) = prepared.take(&number.to_string(), &head()).unwrap();
            places.push(if taken.is_in_memory() { 'm' } else { 'f' });
            assert_eq!(events(&taken), events(&plan(size << 10)), "{sizes:?}");
        }
        assert_eq!((places.as_str(), prepared.held_bytes), (expected.unwrap(), 0), "{sizes:?}");
    }

    fn head() -> TransactionHead {
        let log: Arc<str> = Arc::from("binlog.000001");
        let origin = TransactionOrigin {
            log: Arc::clone(&log),
            log_name: log,
            log_number: 0,
            start: 4,
            end: 100,
            file_range: 4..100,
        };
        TransactionHead { number: 0, origin, id: TransactionId::Anonymous, clock: None, committed_us: 0 }
    }

    /// Returns a plan with row events of at least this size.
    fn plan(size: usize) -> ApplyPlan {
        let format = EventFormat {
            server_version: b"9.7.4".to_vec(),
            post_header_sizes: Vec::new(),
            checksum: ChecksumAlgorithm::Off,
            flavour: Flavour::MySql,
        };
        let table = SampleTable::new("int");
        let origin = EventOrigin { timestamp: 1, server_id: 1, flags: EventFlags(0) };
        let mut bytes = Vec::new();
        let row = image(&[int(7)]);
        while bytes.len() < size {
            for event in [Event::TableMap(table.map()), Event::WriteRows(table.rows(RowsKind::Write, &row))] {
                event.write(origin, NextPosition::Fixed(0), &format, &mut bytes).unwrap();
            }
        }
        let rows = RowEvents { format: Arc::new(format), bytes };
        let steps = vec![ApplyStep::Rows(Arc::new(SessionVariables::default()), rows)];
        ApplyPlan { shape: TransactionShape::XaPrepare(String::new()), steps, session: None }
    }

    fn events(plan: &ApplyPlan) -> Vec<u8> {
        let of_step = |step: &ApplyStep| match step {
            ApplyStep::Rows(_, rows) => rows.bytes.clone(),
            ApplyStep::Spooled(_, rows) => rows.parts().flat_map(|part| part.unwrap().bytes).collect(),
            other => panic!("{other:?}"),
        };
        plan.steps.iter().flat_map(of_step).collect()
    }
}

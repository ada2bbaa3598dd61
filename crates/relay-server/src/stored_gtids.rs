//! GTIDs of all stored transactions.

use std::sync::Arc;

use binlog::TransactionId;
use binlog::gtid::GtidSet;
use relay::{FormReader, FormSource, ReaderStep, RelayError};

/// GTIDs of all stored transactions, read as far as the store has grown.
#[derive(Debug, Default)]
pub(crate) struct StoredGtids {
    gtids: GtidSet,
    /// Place behind the last transaction that was read.
    reader: Option<FormReader>,
    /// Transaction whose last event was not read yet.
    open: Option<TransactionId>,
}

impl StoredGtids {
    /// Reads on to the end of the store. Returns the GTIDs of all whole transactions.
    ///
    /// # Errors
    ///
    /// When a log cannot be read. The next call then starts again at the newest log.
    pub(crate) fn read(&mut self, as_is: &Arc<FormSource>) -> Result<&GtidSet, RelayError> {
        if let Err(error) = self.advance(as_is) {
            *self = Self::default();
            return Err(error);
        }
        Ok(&self.gtids)
    }

    fn advance(&mut self, as_is: &Arc<FormSource>) -> Result<(), RelayError> {
        if self.reader.is_none() {
            let Some(newest) = as_is.store().log_names()?.pop() else { return Ok(()) };
            let head = as_is.store().head(&newest)?;
            self.gtids = head.and_then(|head| head.previous_gtids.clone()).unwrap_or_default();
            self.reader = Some(FormReader::new(Arc::clone(as_is), newest));
        }
        let Some(reader) = &mut self.reader else { return Ok(()) };
        loop {
            let ReaderStep::Events { chunk, first } = (match reader.read_next()? {
                ReaderStep::Pending => return Ok(()),
                step => step,
            }) else {
                continue;
            };
            for (index, slice) in chunk.slices().iter().enumerate().skip(first) {
                if slice.starts_transaction && slice.is_first() {
                    self.open = chunk.transaction_at(index);
                }
                if slice.ends_transaction
                    && slice.is_last()
                    && let Some(TransactionId::Gtid(gtid)) = self.open.take()
                {
                    self.gtids.add(gtid);
                }
            }
        }
    }
}

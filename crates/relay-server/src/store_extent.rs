//! Extent of the store: sizes and transactions of its logs, and the lag of clients.

use std::collections::HashSet;
use std::sync::Arc;

use binlog::encryption::ENCRYPTED_HEADER_SIZE;
use relay::{
    ClientFacts, ClientLag, ClientProgress, FormPosition, LogForm, LogSize, RelayError, StatementInterrupt,
};

use crate::form_registry::FormRegistry;

/// Extent of the store at one time.
#[derive(Debug)]
pub(crate) struct StoreExtent<'f> {
    forms: &'f FormRegistry,
    logs: Vec<LogExtent>,
    /// Number of transactions of the newest log.
    newest_transactions: u64,
}

#[derive(Debug)]
struct LogExtent {
    name: Arc<str>,
    /// End of the last event, in bytes.
    end: u64,
    /// Number of transactions in all earlier logs of the source; `None` without GTIDs.
    transactions_before: Option<u128>,
}

impl<'f> StoreExtent<'f> {
    /// Reads the store, starting at the oldest log that a client reads. Reads the newest log to its end, and only the
    /// head of all other logs.
    pub(crate) fn read(forms: &'f FormRegistry, clients: &[ClientFacts]) -> Result<Self, RelayError> {
        let store = forms.store();
        let mut names = store.log_names()?;
        let read: HashSet<&Arc<str>> =
            clients.iter().filter_map(|client| Some(&client.progress.as_ref()?.log)).collect();
        let oldest = names.iter().position(|name| read.contains(name)).unwrap_or(names.len());
        names.drain(..oldest);
        let as_is = forms.source(LogForm::AsIs);
        let (mut logs, newest) = (Vec::with_capacity(names.len()), names.len().saturating_sub(1));
        for (index, name) in names.into_iter().enumerate() {
            let head = store.head(&name)?;
            let gtids = head.as_ref().and_then(|head| head.previous_gtids.as_ref());
            let transactions_before = gtids.map(binlog::gtid::GtidSet::count);
            let end = match index == newest {
                true => as_is.form_size(&name, &StatementInterrupt::default())?,
                false => stored_end(forms, &name)?,
            };
            logs.push(LogExtent { name, end, transactions_before });
        }
        let known_end = logs.last().and_then(|newest| as_is.known_end(&newest.name));
        Ok(Self { forms, logs, newest_transactions: known_end.map_or(0, |end| end.transactions) })
    }

    /// Returns the lag of a client. `None` if the store no longer has the client's log.
    pub(crate) fn lag(&self, client: &ClientFacts, now_us: u64) -> Option<ClientLag> {
        let (form, progress) = (client.form?, client.progress.as_ref()?);
        let index = self.logs.iter().position(|log| log.name == progress.log)?;
        let position = match form {
            LogForm::AsIs => progress.position,
            form => self.forms.source(form).estimate_original(&progress.log, progress.position)?,
        };
        let start = FormPosition::START.original;
        let later: u64 = self.logs[index + 1..].iter().map(|log| log.end.saturating_sub(start)).sum();
        let bytes = self.logs[index].end.saturating_sub(position) + later;
        if bytes == 0 {
            return Some(ClientLag { transactions: Some(0), bytes, time_us: Some(0) });
        }
        let since_us = progress.dump.committed_us.max(progress.caught_up_us);
        let time_us = since_us.map(|since_us| now_us.saturating_sub(since_us));
        Some(ClientLag { transactions: self.transaction_lag(index, progress), bytes, time_us })
    }

    fn transaction_lag(&self, index: usize, progress: &ClientProgress) -> Option<u64> {
        let newest = self.logs.len() - 1;
        if index == newest {
            return Some(self.newest_transactions.saturating_sub(progress.dump.transactions));
        }
        let before_newest = self.logs[newest].transactions_before?;
        let passed = self.logs[index].transactions_before? + u128::from(progress.dump.transactions);
        let lag = before_newest.saturating_sub(passed) + u128::from(self.newest_transactions);
        u64::try_from(lag).ok()
    }
}

/// Returns the end of a log, without reading it. While a log grows, it may end within an event.
pub(crate) fn stored_end(forms: &FormRegistry, name: &Arc<str>) -> Result<u64, RelayError> {
    let path = forms.store().path(name)?;
    let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    // Positions do not include the header of an encrypted log.
    let header = if is_encrypted(&path) { ENCRYPTED_HEADER_SIZE as u64 } else { 0 };
    Ok(size.saturating_sub(header))
}

/// Returns whether a log is encrypted, from its first bytes.
pub(crate) fn is_encrypted(path: &std::path::Path) -> bool {
    let mut magic = [0; 4];
    let head =
        std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic));
    head.is_ok() && magic == binlog::MAGIC_ENCRYPTED
}

/// Returns the sizes of the newest logs in each form in which they were read; 0 for a log whose file is missing.
pub(crate) fn log_sizes(
    forms: &FormRegistry,
    limit: usize,
    is_missing: impl Fn(&Arc<str>) -> Result<bool, RelayError>,
) -> Result<Vec<LogSize>, RelayError> {
    let mut names = forms.store().log_names()?;
    names.drain(..names.len().saturating_sub(limit));
    let mut sizes = Vec::new();
    let others: Vec<_> = forms.all().into_iter().filter(|source| source.form() != LogForm::AsIs).collect();
    for name in names {
        let stored_bytes = stored_end(forms, &name)?;
        let size = |form, bytes, stored_bytes, is_whole| LogSize {
            name: name.to_string(),
            form,
            bytes,
            stored_bytes,
            is_whole,
        };
        sizes.push(size(LogForm::AsIs, stored_bytes, stored_bytes, true));
        if is_missing(&name)? {
            continue;
        }
        for source in &others {
            let indexed = source.indexed_size(&name)?;
            let stored = source.known_end(&name).map_or(0, |end| end.original);
            sizes.push(size(source.form(), indexed.bytes, stored, indexed.is_whole));
        }
    }
    Ok(sizes)
}

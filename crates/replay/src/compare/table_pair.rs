//! The tables that logs change or define.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sql::ReplicationFilter;

use crate::error::ReplayError;
use crate::filter::TransactionFilter;
use crate::selection::{SelectionChoice, TransactionSelection, TransactionSelector};
use crate::source::TransactionSource;
use crate::target_table::TargetTableName;

/// A table's names on the source and on the target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TablePair {
    /// Name in the logs.
    pub source: TargetTableName,
    /// Name on the target.
    pub target: TargetTableName,
}

/// Collects the tables that the selected transactions change or define, whether or not the target had applied them
/// before: from table maps and from statements. `seen` receives the number of bytes read so far, and can stop the
/// collection.
///
/// # Errors
///
/// The logs cannot be read, or `seen` stops the collection.
pub fn collect_tables(
    source: &mut TransactionSource,
    selection: &TransactionSelection,
    filter: &ReplicationFilter,
    seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<BTreeSet<TablePair>, ReplayError> {
    let mut selector = TransactionSelector::new(selection, source.log_names())?;
    let (mut opener, mut pairs) = (source.opener(), BTreeSet::new());
    while let Some(found) = source.next_found()? {
        if seen(source.bytes_read()).is_break() {
            return Err(ReplayError::Interrupted);
        }
        let head = found.head();
        match selector.choose(&head) {
            SelectionChoice::Take => {}
            SelectionChoice::Leave => continue,
            SelectionChoice::Stop => break,
        }
        let work = found.work(&mut opener, source.held_max());
        let put = work.and_then(|work| TransactionFilter(filter).put_tables(&work, &mut pairs));
        put.map_err(|error| ReplayError::Work { unit: head.to_string(), error })?;
    }
    Ok(pairs)
}

//! Which tables logs are about.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use filter::Filter;

use crate::definition::TableName;
use crate::error::Error;
use crate::filter::Filtering;
use crate::select::{Choice, Selection, Selector};
use crate::source::Source;

/// A table by its names on both sides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// As the logs have it.
    pub source: TableName,
    /// As it is called on the target.
    pub target: TableName,
}

/// The tables that the transactions meant change or define, whether the target had them before or not: those of
/// table maps, and those that statements name. `seen` is told how many bytes have been gone over, and says whether to
/// go on.
///
/// # Errors
///
/// When the logs cannot be read, or `seen` wants no more.
pub fn tables(
    source: &mut Source,
    selection: &Selection,
    filter: &Filter,
    seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<BTreeSet<Pair>, Error> {
    let mut selector = Selector::new(selection, source.log_names())?;
    let (mut opener, mut pairs) = (source.opener(), BTreeSet::new());
    while let Some(found) = source.next_found(&mut opener)? {
        if seen(source.bytes_read()).is_break() {
            return Err(Error::Interrupted);
        }
        let head = found.head();
        match selector.choose(&head) {
            Choice::Take => {}
            Choice::Leave => continue,
            Choice::Stop => break,
        }
        let work = found.work(&mut opener, source.held_max());
        let put = work.and_then(|work| Filtering(filter).put_tables(&work, &mut pairs));
        put.map_err(|error| Error::Work { unit: head.to_string(), error })?;
    }
    Ok(pairs)
}

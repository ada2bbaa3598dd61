//! The tables that logs change or define.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use filter::Filter;

use crate::definition::TableName;
use crate::error::Error;
use crate::filter::Filtering;
use crate::select::{Choice, Selection, Selector};
use crate::source::Source;

/// A table's names on the source and on the target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// Name in the logs.
    pub source: TableName,
    /// Name on the target.
    pub target: TableName,
}

/// Collects the tables that the selected transactions change or define, whether or not the target had applied them
/// before: from table maps and from statements. `seen` receives the number of bytes read so far, and can stop the
/// collection.
///
/// # Errors
///
/// The logs cannot be read, or `seen` stops the collection.
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

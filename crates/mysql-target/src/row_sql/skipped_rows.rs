//! Rows whose changes are skipped, so that their earlier changes are skipped too.

use std::collections::{HashMap, HashSet};

use binlog::events::RowsKind;
use binlog::{RowChange, RowImage};
use replay::TargetFailure;
use sha2::{Digest, Sha256};

use crate::row_sql::StatementBatch;
use crate::row_sql::parameter_literal::literal;

/// Maximum number of tracked rows. Bounds memory.
const ROWS_MAX: usize = 4_000_000;

/// Hash of a row's table and of the values that identify the row.
pub(super) type RowIdentity = [u8; 16];

/// A row before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowTransition {
    /// The row that the change finds; `None` if an INSERT does not show which row it continues.
    pub(super) start: Option<RowIdentity>,
    /// The row that the change leaves; `None` if a DELETE does not show which row the next changes continue.
    pub(super) end: Option<RowIdentity>,
    /// True if a unique key identifies the row, so that a table has it only once.
    has_key: bool,
}

/// Rows with a skipped change. An undo makes the changes in reverse order: the earlier changes of a row come later.
///
/// A unique key identifies a row, also over a DELETE and an INSERT with this key. Without a key, all values identify
/// it; equal rows are counted.
#[derive(Debug, Default)]
pub(super) struct SkippedRows {
    rows: HashMap<RowIdentity, u64>,
}

impl SkippedRows {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Records that a change of a row is skipped.
    ///
    /// # Errors
    ///
    /// Fails if too many rows are tracked.
    pub(super) fn skip(&mut self, transition: RowTransition) -> Result<(), TargetFailure> {
        let Some(end) = transition.end else { return Ok(()) };
        let count = self.rows.entry(end).or_default();
        assert!(*count <= 1 || !transition.has_key, "ours: a key identifies one row");
        *count = if transition.has_key { 1 } else { *count + 1 };
        match self.rows.len() <= ROWS_MAX {
            true => Ok(()),
            false => Err(TargetFailure::refused(format!(
                "the changes of more than {ROWS_MAX} rows cannot be undone"
            ))),
        }
    }

    /// Returns whether the previous change of this row was skipped. Then skips this change too.
    ///
    /// # Errors
    ///
    /// Fails if too many rows are tracked.
    pub(super) fn follow(&mut self, transition: RowTransition) -> Result<bool, TargetFailure> {
        let Some(start) = transition.start else { return Ok(false) };
        let Some(count) = self.rows.get_mut(&start) else { return Ok(false) };
        assert!(*count > 0, "ours: only rows with a skipped change are tracked");
        *count -= 1;
        if *count == 0 {
            self.rows.remove(&start);
        }
        self.skip(transition)?;
        Ok(true)
    }
}

/// Rows of which a change was made.
#[derive(Debug, Default)]
pub(super) struct ChangedRows {
    rows: HashSet<RowIdentity>,
}

impl ChangedRows {
    /// Records that a change of a row was made.
    ///
    /// # Errors
    ///
    /// Fails if too many rows are tracked.
    pub(super) fn add(&mut self, transition: RowTransition) -> Result<(), TargetFailure> {
        assert!(self.rows.len() <= ROWS_MAX, "ours: nothing is changed after too many rows");
        if let Some(start) = transition.start {
            self.rows.remove(&start);
        }
        self.rows.extend(transition.end);
        match self.rows.len() <= ROWS_MAX {
            true => Ok(()),
            false => Err(TargetFailure::refused(format!(
                "the changes of more than {ROWS_MAX} rows cannot be undone with --skip-changed"
            ))),
        }
    }

    /// Returns whether a change of the row that this change finds was made.
    pub(super) fn contains(&self, transition: RowTransition) -> bool {
        transition.start.is_some_and(|start| self.rows.contains(&start))
    }
}

impl StatementBatch<'_> {
    /// Returns the row before and after a change.
    pub(super) fn transition(&self, row: &RowChange<'_, '_>) -> Result<RowTransition, TargetFailure> {
        let has_key = self.plan.key_size > 0;
        let identity = |image: Option<&RowImage<'_, '_>>| image.map(|image| self.identity(image)).transpose();
        let (before, after) = (row.before.as_ref(), row.after.as_ref());
        Ok(match self.kind {
            RowsKind::Update | RowsKind::PartialUpdate => {
                RowTransition { start: identity(before)?, end: identity(after)?, has_key }
            }
            RowsKind::Write => {
                let end = identity(after)?;
                RowTransition { start: end.filter(|_| has_key), end, has_key }
            }
            RowsKind::Delete => {
                let start = identity(before)?;
                RowTransition { start, end: start.filter(|_| has_key), has_key }
            }
        })
    }

    /// Returns the identity of a row: its table and its key, without a key all its values.
    fn identity(&self, image: &RowImage<'_, '_>) -> Result<RowIdentity, TargetFailure> {
        let columns = &self.plan.condition_columns;
        assert!(self.plan.key_size <= columns.len(), "ours: conditions begin with the key");
        let key = &columns[..self.plan.key_size];
        let mut text = self.plan.table.name.clone();
        for mapping in if key.is_empty() { columns } else { key } {
            text += &format!(" {}", mapping.target);
            for parameter in &self.column_condition(image, mapping)?.parameters {
                text += &format!("={}", literal(parameter));
            }
        }
        let mut identity = RowIdentity::default();
        identity.copy_from_slice(&Sha256::digest(&text)[..size_of::<RowIdentity>()]);
        Ok(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::{RowTransition, SkippedRows};

    /// Changes as `FROM>TO`, in the order of an undo; `!` marks a conflict. Returns the changes that were not skipped
    /// because of an earlier one.
    fn made(changes: &str, has_key: bool) -> String {
        let mut skipped = SkippedRows::default();
        let mut made = Vec::new();
        let identity = |text: &str| text.bytes().next().map(|byte| [byte; 16]);
        for change in changes.split_whitespace() {
            let (start, end) = change.trim_end_matches('!').split_once('>').unwrap();
            let transition = RowTransition { start: identity(start), end: identity(end), has_key };
            if skipped.follow(transition).unwrap() {
                continue;
            }
            if change.ends_with('!') {
                skipped.skip(transition).unwrap();
            }
            made.push(change);
        }
        made.join(" ")
    }

    #[test]
    fn earlier_changes_of_a_skipped_row_are_skipped() {
        let check = |changes: &str, has_key: bool, expected: &str| {
            assert_eq!(made(changes, has_key), expected, "{changes}");
        };
        check("1>1 1>1", true, "1>1 1>1");
        check("1>1! 1>1 2>2 1>1", true, "1>1! 2>2");
        // The key changes: another row may have the earlier key.
        check("3>2! 2>1 1>1 3>3", true, "3>2! 3>3");
        check("3>2! 3>1", true, "3>2! 3>1");
        // A row that was inserted again with its key.
        check("1>1! 1>1 1>1", true, "1>1!");
        check("1>! 2>", true, "1>! 2>");
        // Without a key, equal rows are counted.
        check("b>a! b>a! a>c a>c a>c", false, "b>a! b>a! a>c");
        check("b>a! a>b b>c a>c", false, "b>a! a>c");
        check("b>! >b", false, "b>! >b");
    }
}

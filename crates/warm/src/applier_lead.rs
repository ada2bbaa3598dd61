//! Tracking of the searches' lead over the applier.

use std::collections::VecDeque;

use crate::relay_position::RelayPosition;

/// The changes between the applier and the searches, and the applier's progress in them.
#[derive(Clone, Debug, Default)]
pub struct ApplierLead {
    marks: VecDeque<LeadMark>,
    ahead: LeadMark,
    /// Number of first marks whose rows the applier has changed, although their transaction has not ended.
    changed_marks: usize,
    /// Rows of these marks.
    changed_rows: u64,
}

/// Events up to a position in the log, and their totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeadMark {
    /// End of the events.
    pub position: RelayPosition,
    /// Number of events.
    pub events: u64,
    /// Approximate number of pages searched for.
    pub searches: u64,
    /// Number of row changes.
    pub rows: u64,
    /// Timestamp of the last event, in seconds since 1970.
    pub timestamp: u32,
}

impl ApplierLead {
    /// Adds a mark after all others.
    pub fn add(&mut self, mark: LeadMark) {
        self.ahead.join(&mark);
        let is_last_ahead = self.marks.len() > self.changed_marks;
        match self.marks.back_mut() {
            Some(last) if is_last_ahead && last.can_join(&mark) => last.join(&mark),
            _ => self.marks.push_back(mark),
        }
    }

    /// Updates the applier's progress: the applier is at this position, and has changed `rows` rows beyond it. Returns
    /// the totals of the newly passed marks.
    pub fn pass(&mut self, applier: RelayPosition, rows: u64) -> LeadMark {
        let mut passed = LeadMark::default();
        while let Some(mark) = self.marks.front().copied().filter(|mark| mark.position <= applier) {
            self.marks.pop_front();
            match self.changed_marks.checked_sub(1) {
                Some(begun) => {
                    self.changed_marks = begun;
                    self.changed_rows -= mark.rows;
                }
                None => self.subtract(&mark, &mut passed),
            }
        }
        while let Some(mark) =
            self.marks.get(self.changed_marks).copied().filter(|mark| self.has_begun(mark.rows, rows))
        {
            self.changed_marks += 1;
            self.changed_rows += mark.rows;
            self.subtract(&mark, &mut passed);
        }
        passed
    }

    /// Returns whether the next `rows` rows are already changed, given that the applier has changed `changed` rows
    /// beyond its position.
    pub fn is_already_changed(&self, rows: u64, changed: u64) -> bool {
        self.changed_marks == self.marks.len() && self.has_begun(rows, changed)
    }

    /// Returns the last position that the applier has reached within a transaction.
    pub fn reached_in_transaction(&self) -> Option<RelayPosition> {
        let next = self.marks.get(self.changed_marks)?.position;
        let begun = self.marks.range(..self.changed_marks).rev();
        // All events of a compressed transaction have the same position.
        begun.map(|mark| mark.position).find(|position| *position < next)
    }

    fn has_begun(&self, rows: u64, changed: u64) -> bool {
        changed > 0 && self.changed_rows + rows <= changed
    }

    fn subtract(&mut self, mark: &LeadMark, passed: &mut LeadMark) {
        self.ahead.events -= mark.events;
        self.ahead.searches -= mark.searches;
        self.ahead.rows -= mark.rows;
        passed.join(mark);
    }

    /// Returns the totals of all marks ahead of the applier.
    pub const fn ahead(&self) -> &LeadMark {
        &self.ahead
    }

    /// Returns the seconds, by the source's timestamps, between the applier's current change and the last change
    /// searched for.
    pub fn seconds(&self) -> u32 {
        let first = self.marks.get(self.changed_marks).map_or(self.ahead.timestamp, |mark| mark.timestamp);
        self.ahead.timestamp.saturating_sub(first)
    }

    /// Removes all marks: reading restarts elsewhere.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl LeadMark {
    /// Returns whether `next` can be joined to this mark: both have the same position, or neither has searches.
    fn can_join(&self, next: &Self) -> bool {
        let is_nothing = self.searches == 0 && next.searches == 0 && self.timestamp == next.timestamp;
        let is_one = self.position == next.position || (is_nothing && self.events < MARK_EVENTS_MAX);
        is_one && self.rows + next.rows <= MARK_ROWS_MAX
    }

    /// Joins the following mark to this one.
    const fn join(&mut self, next: &Self) {
        self.events += next.events;
        self.searches += next.searches;
        self.rows += next.rows;
        (self.position, self.timestamp) = (next.position, next.timestamp);
    }
}

/// Events without searches in one mark.
const MARK_EVENTS_MAX: u64 = 64;
/// Rows in one mark, unless a single event has more. Limits the error of the applier's progress within a transaction,
/// which is known in rows.
const MARK_ROWS_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::{ApplierLead, LeadMark};
    use crate::relay_position::RelayPosition;

    fn at(offset: u64) -> RelayPosition {
        RelayPosition { log: 1.into(), offset }
    }

    #[test]
    fn applied_events_are_not_ahead() {
        let mut lead = ApplierLead::default();
        for (offset, searches, timestamp) in [(100, 1, 10), (100, 2, 10), (200, 4, 12), (300, 8, 17)] {
            lead.add(LeadMark { position: at(offset), events: 1, searches, rows: 1, timestamp });
        }
        let mut check = |applier, passed, ahead, seconds| {
            assert_eq!(lead.pass(at(applier), 0).searches, passed, "{applier}");
            assert_eq!((lead.ahead().searches, lead.seconds()), (ahead, seconds), "{applier}");
        };
        check(99, 0, 15, 7);
        check(100, 3, 12, 5);
        check(299, 4, 8, 0);
        check(300, 8, 0, 0);
        assert_eq!(lead.ahead().events, 0);
    }

    #[test]
    fn events_without_searches_take_little_memory() {
        let mut lead = ApplierLead::default();
        for offset in 0..1000 {
            lead.add(LeadMark { position: at(offset), events: 1, searches: 0, rows: 0, timestamp: 10 });
        }
        assert_eq!((lead.marks.len(), lead.ahead().events), (16, 1000));
        lead.add(LeadMark { position: at(1000), events: 1, searches: 5, rows: 1, timestamp: 10 });
        assert_eq!((lead.pass(at(999), 0).events, lead.ahead().searches), (1000, 5));
    }

    /// Returns ten events of a hundred rows each, of an open transaction, at these positions.
    fn large(positions: impl Fn(u64) -> u64) -> ApplierLead {
        let mut lead = ApplierLead::default();
        for number in 1..=10 {
            lead.add(LeadMark {
                position: at(positions(number)),
                events: 1,
                searches: 7,
                rows: 100,
                timestamp: 10,
            });
        }
        lead
    }

    #[test]
    fn row_counts_locate_the_applier_within_a_transaction() {
        let mut lead = large(|number| 1000 * number);
        let mut check = |(applier, rows), passed: u64, ahead: u64, reached: Option<u64>| {
            assert_eq!(lead.pass(at(applier), rows).searches, 7 * passed, "{applier} {rows}");
            assert_eq!(
                (lead.ahead().searches, lead.reached_in_transaction()),
                (7 * ahead, reached.map(at)),
                "{applier} {rows}"
            );
        };
        check((4, 0), 0, 10, None);
        check((4, 99), 0, 10, None);
        check((4, 350), 3, 7, Some(3000));
        // No new report for some time.
        check((4, 0), 0, 7, Some(3000));
        check((4, 400), 1, 6, Some(4000));
        // The transaction has ended: rows counted before do not count again.
        check((6000, 0), 2, 4, None);
        check((6000, 250), 2, 2, Some(8000));
        check((10_000, 0), 2, 0, None);
        assert_eq!(lead.ahead().rows, 0);
    }

    #[test]
    fn compressed_transactions_have_one_position() {
        let mut lead = large(|_| 9000);
        assert_eq!((lead.marks.len(), lead.pass(at(4), 450).searches), (5, 28));
        assert_eq!((lead.reached_in_transaction(), lead.ahead().searches), (None, 42));
        lead.add(LeadMark { position: at(9500), events: 1, searches: 1, rows: 1, timestamp: 10 });
        assert_eq!((lead.pass(at(9000), 0).searches, lead.ahead().searches), (42, 1));
    }

    #[test]
    fn next_rows_may_be_changed_already() {
        let mut lead = ApplierLead::default();
        assert!(!lead.is_already_changed(1, 0));
        assert!(lead.is_already_changed(100, 150));
        lead.add(LeadMark { position: at(100), events: 1, searches: 0, rows: 100, timestamp: 10 });
        assert!(!lead.is_already_changed(10, 150));
        lead.pass(at(4), 150);
        assert!(lead.is_already_changed(50, 150));
        assert!(!lead.is_already_changed(51, 150));
    }
}

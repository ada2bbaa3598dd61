//! How fast work goes that has no certain end: over the last while. Time is handed in.

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::{bytes, counted};

/// How far back rates look. Long enough to be steady, short enough to follow what the logs hold now.
const WINDOW: Duration = Duration::from_secs(15);

/// Between two looks back. Bounds memory, with the window.
const STEP: Duration = Duration::from_millis(250);

/// Transactions and bytes, over the last while.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    marks: VecDeque<Mark>,
}

/// How far it was.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Since it began.
    at: Duration,
    bytes: u64,
    transactions: u64,
}

impl Rates {
    /// So far it is, so long after it began.
    pub(crate) fn mark(&mut self, at: Duration, bytes: u64, transactions: u64) {
        if self.marks.back().is_some_and(|last| at < last.at + STEP) {
            return;
        }
        self.marks.push_back(Mark { at, bytes, transactions });
        while self.marks.get(1).is_some_and(|second| second.at + WINDOW <= at) {
            self.marks.pop_front();
        }
    }

    /// As people read them; nothing until some time has passed.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> {
        self.a_second().into_iter().flat_map(|(transactions, bytes_a_second)| {
            [
                format!("{}/s", counted(transactions as u64, "transaction")),
                format!("{}/s", bytes(bytes_a_second as u64)),
            ]
        })
    }

    /// How many seconds it takes to get to so many bytes, if it goes on so.
    pub(crate) fn seconds_to(&self, bytes_total: u64) -> Option<f64> {
        let (_, bytes) = self.a_second()?;
        Some(bytes_total.saturating_sub(self.marks.back()?.bytes) as f64 / bytes)
    }

    /// Transactions and bytes a second; nothing until some time has passed.
    fn a_second(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        let seconds = last.at.saturating_sub(first.at).as_secs_f64();
        let a_second = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        let rates = (a_second(first.transactions, last.transactions), a_second(first.bytes, last.bytes));
        (seconds > 0.0).then_some(rates)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Rates;

    #[test]
    fn rates_look_back_a_while_only() {
        let mut rates = Rates::default();
        let mut transactions = 0;
        for second in 0..100_u64 {
            transactions += if second < 50 { 1000 } else { 10 };
            rates.mark(Duration::from_secs(second), 0, transactions);
        }
        assert!(rates.marks.len() <= 17, "{}", rates.marks.len());
        assert_eq!(rates.a_second().map(|(transactions, _)| transactions as u64), Some(10));
    }
}

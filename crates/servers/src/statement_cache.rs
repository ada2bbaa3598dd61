//! Cache of one connection's prepared statements, by their text.

use std::collections::HashMap;

use wire::PreparedStatement;

/// Maximum number of prepared statements of a connection. Bounds the server's memory: 64 workers with 64 statements
/// each are a quarter of the default of `max_prepared_stmt_count`, 16,382.
pub(crate) const PREPARED_MAX: usize = 64;

/// Cache of one connection's prepared statements. Keeps the most recently used statements.
#[derive(Default)]
pub(crate) struct StatementCache {
    statements: HashMap<Box<str>, CachedStatement>,
    /// Number of lookups so far.
    clock: u64,
}

struct CachedStatement {
    prepared: PreparedStatement,
    used: u64,
}

impl StatementCache {
    /// Returns the statement with this text, if it is prepared.
    pub(crate) fn find(&mut self, sql: &str) -> Option<PreparedStatement> {
        self.clock += 1;
        let cached = self.statements.get_mut(sql)?;
        cached.used = self.clock;
        Some(cached.prepared)
    }

    /// Adds a statement. If the cache is full, it removes the least recently used statement and returns its number, to
    /// close it.
    pub(crate) fn insert(&mut self, sql: &str, prepared: PreparedStatement) -> Option<u32> {
        let evicted = match self.statements.len() < PREPARED_MAX {
            true => None,
            false => self.evict(),
        };
        self.statements.insert(sql.into(), CachedStatement { prepared, used: self.clock });
        evicted
    }

    /// Removes a statement. Returns its number, to close it.
    pub(crate) fn remove(&mut self, sql: &str) -> Option<u32> {
        self.statements.remove(sql).map(|cached| cached.prepared.statement)
    }

    // The list is short, and its search is cheap compared with the following round trip to the server.
    fn evict(&mut self) -> Option<u32> {
        let oldest = self.statements.iter().min_by_key(|(_, cached)| cached.used);
        let oldest = oldest.map(|(sql, _)| sql.clone())?;
        self.remove(&oldest)
    }
}

#[cfg(test)]
mod tests {
    use wire::PreparedStatement;

    use super::{PREPARED_MAX, StatementCache};

    #[test]
    fn the_least_recently_used_is_removed_first() {
        let mut cache = StatementCache::default();
        let prepared = |statement: u32| PreparedStatement { statement, ..PreparedStatement::default() };
        let text = |number: u32| format!("DO {number}");
        let most = PREPARED_MAX as u32;
        for number in 0..most {
            assert_eq!(cache.find(&text(number)), None);
            assert_eq!(cache.insert(&text(number), prepared(number)), None);
        }
        assert_eq!(cache.find(&text(0)), Some(prepared(0)));
        assert_eq!(cache.find("DO 'new'"), None);
        assert_eq!(cache.insert("DO 'new'", prepared(most)), Some(1));
        assert_eq!(cache.find(&text(0)), Some(prepared(0)));
        assert_eq!(cache.remove("DO 'new'"), Some(most));
        assert_eq!(cache.find("DO 'new'"), None);
    }
}

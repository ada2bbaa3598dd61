//! Rules that have matched nothing yet. They are tracked because a misspelt name would silently select nothing.

use crate::replication_filter::parse_table_name;
use crate::{FilterRule, ReplicationFilter, StatementKind, WildcardPattern};

/// Selecting rules of a filter (`do-db`, `do-table`, `wild-do-table`) that have matched nothing yet.
#[derive(Clone, Debug, Default)]
pub struct UnmatchedRules(Vec<UnmatchedRule>);

#[derive(Clone, Debug)]
struct UnmatchedRule {
    rule: FilterRule,
    names: RuleNames,
}

/// Names that a rule matches.
#[derive(Clone, Debug)]
enum RuleNames {
    Database(Vec<u8>),
    /// `database.table`
    Table(Vec<u8>),
    Tables(WildcardPattern),
}

impl UnmatchedRules {
    pub(crate) fn of(filter: &ReplicationFilter) -> Self {
        let rules = filter.selecting_rules.iter().filter_map(|rule| {
            let names = match rule {
                FilterRule::DoDatabase(name) => RuleNames::Database(name.clone().into_bytes()),
                FilterRule::DoTable(name) => RuleNames::Table(parse_table_name(name).ok()?),
                FilterRule::WildDoTable(name) => {
                    RuleNames::Tables(WildcardPattern::new(parse_table_name(name).ok()?))
                }
                _ => return None,
            };
            Some(UnmatchedRule { rule: rule.clone(), names })
        });
        Self(rules.collect())
    }

    /// Returns whether all rules have matched: no more names need to be recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the rules.
    pub fn into_rules(self) -> Vec<FilterRule> {
        self.0.into_iter().map(|unmatched| unmatched.rule).collect()
    }

    /// Removes the rules that have matched elsewhere: rules that are not in `other`.
    pub fn retain_unmatched(&mut self, other: &Self) {
        self.0.retain(|this| other.0.iter().any(|that| that.rule == this.rule));
    }

    /// Removes the rules that match a table with changed rows, by its names on the target.
    pub fn record_table(&mut self, database: &[u8], table: &[u8]) {
        self.record_database(database);
        self.record_named_table(database, table);
    }

    /// Removes the rules that match a statement. `default` is the statement's default database on the target.
    pub fn record_statement(&mut self, kind: &StatementKind, default: &[u8]) {
        self.record_database(default);
        if let StatementKind::Tables(tables) = kind {
            for named in tables {
                let (database, table) = named.resolve(default);
                self.record_named_table(database, table);
            }
        }
    }

    fn record_database(&mut self, database: &[u8]) {
        self.0.retain(|this| !matches!(&this.names, RuleNames::Database(name) if *name == database));
    }

    fn record_named_table(&mut self, database: &[u8], table: &[u8]) {
        let name = [database, b".", table].concat();
        self.0.retain(|this| match &this.names {
            RuleNames::Database(_) => true,
            RuleNames::Table(table) => *table != name,
            RuleNames::Tables(pattern) => !pattern.matches(&name),
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::{FilterRule, ReplicationFilter, UnmatchedRules, classify_statement};

    fn unmatched() -> UnmatchedRules {
        let rules = [
            FilterRule::DoDatabase("d".into()),
            FilterRule::IgnoreDatabase("nothing".into()),
            FilterRule::DoTable("d.t".into()),
            FilterRule::WildDoTable("d.x%".into()),
            FilterRule::DoTable("d.t".into()),
        ];
        ReplicationFilter::new(rules).unwrap().unmatched_rules()
    }

    fn check(note: impl FnOnce(&mut UnmatchedRules), expected: &[&str]) {
        let mut unmatched = unmatched();
        note(&mut unmatched);
        let rules: Vec<_> = unmatched.into_rules().iter().map(ToString::to_string).collect();
        assert_eq!(rules, expected);
    }

    #[test]
    fn names_may_be_in_backticks() {
        let rules = ["`od.d db`.`t``x`", "a.b", "`a`.b"].map(|name| FilterRule::DoTable(name.into()));
        let filter = ReplicationFilter::new(rules).unwrap();
        assert!(filter.accepts_tables([(&b"od.d db"[..], &b"t`x"[..])]));
        assert!(
            filter.accepts_tables([(&b"a"[..], &b"b"[..])])
                && !filter.accepts_tables([(&b"`a`"[..], &b"b"[..])])
        );
        let mut unmatched = filter.unmatched_rules();
        unmatched.record_table(b"od.d db", b"t`x");
        unmatched.record_table(b"a", b"b");
        assert!(unmatched.is_empty());
        assert!(ReplicationFilter::new([FilterRule::DoTable("`a.b`".into())]).is_err());
    }

    #[test]
    fn seen_names_match_their_rules() {
        let all = ["--do-db d", "--do-table d.t", "--wild-do-table d.x%"];
        check(|_| {}, &all);
        check(|rules| rules.record_table(b"e", b"t"), &all);
        check(|rules| rules.record_table(b"d", b"u"), &all[1..]);
        check(|rules| rules.record_table(b"d", b"t"), &all[2..]);
        check(|rules| rules.record_table(b"d", b"x1"), &all[1..2]);
        // Rules on databases apply to the default database.
        let statement = |sql: &str| classify_statement(sql.as_bytes());
        check(
            |rules| rules.record_statement(&statement("insert into d.t values (1)"), b"e"),
            &[all[0], all[2]],
        );
        check(|rules| rules.record_statement(&statement("insert into t values (1)"), b"d"), &all[2..]);
        check(|rules| rules.record_statement(&statement("create database d"), b"d"), &all[1..]);
    }

    #[test]
    fn rules_that_matched_elsewhere_are_removed() {
        let mut other = unmatched();
        other.record_table(b"d", b"u");
        check(|rules| rules.retain_unmatched(&other), &["--do-table d.t", "--wild-do-table d.x%"]);
    }
}

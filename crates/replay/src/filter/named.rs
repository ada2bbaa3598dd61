//! The tables that the selected part of a transaction changes or defines.

use std::collections::BTreeSet;

use binlog::Event;
use filter::{Kind, kind};

use crate::compare::Pair;
use crate::definition::TableName;
use crate::filter::Filtering;
use crate::work::{RowEvents, Statement, Step, Work, WorkError};

impl Filtering<'_> {
    /// Adds the selected tables that a transaction changes or defines: from table maps and from statements. A table of
    /// a rewritten database has its new name on the target.
    pub(crate) fn put_tables(self, work: &Work, out: &mut BTreeSet<Pair>) -> Result<(), WorkError> {
        for step in &work.steps {
            match step {
                Step::Rows(_, rows) => self.put_tables_of_rows(rows, out)?,
                Step::Spooled(_, rows) => {
                    for part in rows.parts() {
                        self.put_tables_of_rows(&part?, out)?;
                    }
                }
                Step::Statement(statement) => self.put_tables_of_statement(statement, out),
            }
        }
        Ok(())
    }

    fn put_tables_of_rows(self, rows: &RowEvents, out: &mut BTreeSet<Pair>) -> Result<(), WorkError> {
        for raw in rows.events() {
            if let Event::TableMap(map) = raw.decode(&rows.format)? {
                self.put_table(map.database, map.table, out);
            }
        }
        Ok(())
    }

    fn put_tables_of_statement(self, statement: &Statement, out: &mut BTreeSet<Pair>) {
        if !self.0.takes_database(self.0.rewritten(&statement.default_database)) {
            return;
        }
        let Kind::Tables(tables) = kind(&statement.sql) else { return };
        for named in &tables {
            let database = named.database.as_deref().unwrap_or(&statement.default_database);
            self.put_table(database, &named.table, out);
        }
    }

    /// Adds a table, given by its name in the logs, if the filter selects it.
    fn put_table(self, database: &[u8], table: &[u8], out: &mut BTreeSet<Pair>) {
        let name = |database: &[u8]| TableName { database: database.into(), table: table.into() };
        let (source, target) = (name(database), name(self.0.rewritten(database)));
        if self.0.takes_database(&target.database) && self.0.takes_tables([(&*target.database, table)]) {
            out.insert(Pair { source, target });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use filter::{Filter, Rule};

    use crate::filter::Filtering;

    fn check(rules: &[Rule], wanted: &[(&str, &str)]) {
        let filter = Filter::new(rules.iter().cloned()).unwrap();
        let mut found = BTreeSet::new();
        for (database, table) in [("d", "t"), ("d", "u"), ("e", "t")] {
            Filtering(&filter).put_table(database.as_bytes(), table.as_bytes(), &mut found);
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name =
            |name: &crate::definition::TableName| format!("{}.{}", text(&name.database), text(&name.table));
        let found: Vec<_> = found.iter().map(|pair| (name(&pair.source), name(&pair.target))).collect();
        let wanted: Vec<_> = wanted.iter().map(|(one, other)| ((*one).into(), (*other).into())).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn tables_that_are_meant_under_both_names() {
        let all = [("d.t", "d.t"), ("d.u", "d.u"), ("e.t", "e.t")];
        check(&[], &all);
        check(&[Rule::IgnoreTable("d.u".into())], &[all[0], all[2]]);
        let rewrite = Rule::RewriteDatabase("d".into(), "x".into());
        check(&[rewrite.clone(), Rule::DoDatabase("x".into())], &[("d.t", "x.t"), ("d.u", "x.u")]);
        check(&[rewrite, Rule::DoTable("d.t".into())], &[]);
    }
}

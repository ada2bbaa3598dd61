//! Collects the inverse of chosen row changes, transaction by transaction.

use std::collections::BTreeSet;
use std::env;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use binlog::{EventFormat, Flavour, PayloadOpener, TransactionId};
use list::RowConditions;
use replay::{
    ApplyPlan, ApplyStep, RowEvents, SizedTransaction, SourceStatement, TransactionHead, TransactionShape,
};
use sql::{TableSelection, is_row_statement};
use tracing::warn;
use undo::{CollectError, InverseCollector, SelectedRows, UndoScope};

use super::TRANSACTION_MEMORY;
use super::other_tables::OtherTables;
use super::renumbered_tables::RenumberedTables;
use super::undo_choice::UndoChoice;
use crate::column_name_source::ServerDefinitions;
use crate::exit::CommandFailure;

/// Bytes of the inverse that are kept in memory; the rest is in temporary files.
const INVERSE_MEMORY: usize = 64 << 20;

/// Collects the inverse of transactions.
pub(super) struct UndoCollector<'c> {
    tables: &'c TableSelection,
    conditions: &'c RowConditions,
    /// Source of column names that the logs lack.
    definitions: Option<ServerDefinitions>,
    pub(super) collector: InverseCollector,
    opener: PayloadOpener,
    /// Format of the last event with a chosen row change.
    pub(super) format: Option<Arc<EventFormat>>,
    /// Set if other tables were changed by statements.
    has_other_statements: bool,
    other_tables: OtherTables,
    pub(super) renumbered: RenumberedTables,
    /// Patterns of `tables` that no changed table matches so far, by their indexes.
    unmatched: BTreeSet<usize>,
}

impl<'c> UndoCollector<'c> {
    pub(super) fn new(
        tables: &'c TableSelection,
        conditions: &'c RowConditions,
        definitions: Option<ServerDefinitions>,
        opener: PayloadOpener,
    ) -> Result<Self, CommandFailure> {
        let collector = InverseCollector::new(&env::temp_dir(), INVERSE_MEMORY);
        let collector = collector.context("could not prepare a temporary file")?;
        let unmatched = (0..tables.patterns.len()).collect();
        let (format, has_other_statements) = (None, false);
        Ok(Self {
            tables,
            conditions,
            definitions,
            collector,
            opener,
            format,
            has_other_statements,
            other_tables: OtherTables::default(),
            renumbered: RenumberedTables::default(),
            unmatched,
        })
    }

    /// Warns of each `--table` that matches no changed table, and of changes that cannot be seen.
    pub(super) fn warn_unmatched(&self) {
        if self.has_other_statements {
            warn!(
                "the chosen transactions change other tables by statements: changes of the chosen tables that these made \
                 through views, triggers or functions are not undone"
            );
        }
        if let Some(warning) = self.other_tables.warning() {
            warn!("{warning}");
        }
        for pattern in self.unmatched.iter().filter_map(|number| self.tables.patterns.get(*number)) {
            warn!("the chosen transactions change no row of --table {pattern}");
        }
    }

    /// Adds the chosen row changes of a transaction.
    pub(super) fn add(
        &mut self,
        found: SizedTransaction,
        head: &TransactionHead,
    ) -> Result<(), CommandFailure> {
        if matches!(head.id, TransactionId::Mariadb(_)) {
            return Err(refused(head, FROM_MARIADB));
        }
        let plan = found.plan(&mut self.opener, TRANSACTION_MEMORY).map_err(|error| {
            CommandFailure::Failed(
                anyhow::Error::new(error).context(format!("could not read the transaction {head}")),
            )
        })?;
        let counts = self.collector.counts();
        for step in &plan.steps {
            match step {
                ApplyStep::Rows(_, rows) => self.add_rows(rows, head)?,
                ApplyStep::Spooled(_, rows) => {
                    for part in rows.parts() {
                        self.add_rows(&part.context("could not read a temporary file")?, head)?;
                    }
                }
                ApplyStep::Statement(statement) => self.check_statement(statement, head)?,
                ApplyStep::SpooledStatements(statements) => {
                    for part in statements.parts() {
                        for statement in &part.context("could not read a temporary file")? {
                            self.check_statement(statement, head)?;
                        }
                    }
                }
            }
        }
        let is_undone = self.collector.counts() != counts;
        if is_undone {
            self.check_shape(&plan, head)?;
        }
        self.other_tables.end_transaction(is_undone);
        let ended = self.collector.end_transaction(&head.to_string());
        ended.map_err(|error| CommandFailure::Failed(error.into()))
    }

    /// Adds a transaction that is not undone: it can alter a table after the undone changes.
    pub(super) fn add_later(&mut self, found: &SizedTransaction, head: &TransactionHead) {
        if let Err(error) = self.renumbered.add_later(found, head) {
            warn!("could not check whether {head} alters a table: {error}");
        }
    }

    /// Refuses transactions whose row changes may not have been committed with them.
    fn check_shape(&self, plan: &ApplyPlan, head: &TransactionHead) -> Result<(), CommandFailure> {
        match &plan.shape {
            TransactionShape::Rows
            | TransactionShape::Statements
            | TransactionShape::ImplicitCommit { .. } => Ok(()),
            TransactionShape::RolledBack => Err(refused(
                head,
                "the transaction was rolled back, except for changes of nontransactional tables",
            )),
            TransactionShape::XaPrepare(_)
            | TransactionShape::XaCommit(_)
            | TransactionShape::XaRollback(_) => {
                Err(refused(head, "the transaction is a part of an XA transaction"))
            }
        }
    }

    /// Refuses a statement, unless it certainly changes no selected rows.
    fn check_statement(
        &mut self,
        statement: &SourceStatement,
        head: &TransactionHead,
    ) -> Result<(), CommandFailure> {
        let rows = if self.conditions.is_empty() { SelectedRows::All } else { SelectedRows::Some };
        let text = statement.text();
        let scope = UndoScope { tables: self.tables, rows };
        if scope.excludes(text.as_bytes(), &statement.default_database) {
            self.has_other_statements |= is_row_statement(text.as_bytes());
            return Ok(());
        }
        let text: String = text.chars().take(STATEMENT_LENGTH_MAX).collect();
        Err(refused(head, &format!("the inverse of this statement is not known: {text}")))
    }

    fn add_rows(&mut self, rows: &RowEvents, head: &TransactionHead) -> Result<(), CommandFailure> {
        if rows.format.flavour == Flavour::MariaDb {
            return Err(refused(head, FROM_MARIADB));
        }
        let mut choice = UndoChoice {
            tables: self.tables,
            unmatched: &mut self.unmatched,
            conditions: self.conditions,
            definitions: self.definitions.as_mut(),
            format: &rows.format,
            test: None,
            unnamed: None,
            renumbered: &mut self.renumbered,
            has_chosen: false,
        };
        let counts = self.collector.counts();
        for event in rows.events() {
            self.collector
                .push(&event, &rows.format, &mut choice)
                .map_err(|error| refuse_change(head, error))?;
            if !self.tables.selects_all() {
                let added = self.other_tables.add(&event, &rows.format, self.tables);
                added.map_err(|error| refuse_change(head, error.into()))?;
            }
        }
        if let Some(unnamed) = choice.unnamed {
            return Err(CommandFailure::Failed(unnamed.into_error(head)));
        }
        if self.collector.counts() != counts {
            self.format = Some(Arc::clone(&rows.format));
        }
        Ok(())
    }
}

/// Maximum length of a statement in a message, in characters.
const STATEMENT_LENGTH_MAX: usize = 100;

/// Reason to refuse a transaction of MariaDB.
const FROM_MARIADB: &str = "the log is from a MariaDB server: use mariadb-binlog --flashback";

fn refused(head: &TransactionHead, why: &str) -> CommandFailure {
    CommandFailure::Failed(anyhow!("cannot undo {head}: {why}"))
}

fn refuse_change(head: &TransactionHead, error: CollectError) -> CommandFailure {
    CommandFailure::Failed(match error {
        CollectError::Spool(_) => error.into(),
        error => anyhow!("cannot undo {head}: {error}"),
    })
}

//! Statements in a temporary file: too many to hold in memory until they are applied.

use std::env;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use binlog::{EncodeError, EventChecksum, EventFormat, NextPosition, RawEvent};
use logs::EncryptedSpool;
use sql::ReplicationFilter;

use crate::apply_plan::{ApplyPlanBuilder, ApplyPlanError, SourceStatement};
use crate::transaction_filter::TransactionFilter;

/// Statements of one transaction, as events in a private temporary file, which is removed when the process ends.
/// Readers get them in parts.
#[derive(Clone, Debug)]
pub struct SpooledStatements {
    format: Arc<EventFormat>,
    spool: Arc<EncryptedSpool>,
    parts: Vec<Range<u64>>,
    filter: Option<Arc<ReplicationFilter>>,
}

/// Equal if file, parts and filter are the same.
impl PartialEq for SpooledStatements {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.spool, &other.spool) && self.parts == other.parts && self.filter == other.filter
    }
}

impl Eq for SpooledStatements {}

impl SpooledStatements {
    /// Returns the statements in parts, in order. A part may be empty if a filter excludes its statements.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or an event cannot be decoded.
    pub fn parts(&self) -> impl Iterator<Item = Result<Vec<SourceStatement>, ApplyPlanError>> {
        self.parts.iter().map(|part| {
            assert!(part.start < part.end, "ours: a part has events");
            let mut bytes = vec![0; (part.end - part.start) as usize];
            self.spool.read_exact_at(part.start, &mut bytes)?;
            let statements = ApplyPlanBuilder::read_statements(&self.format, &bytes)?;
            Ok(match &self.filter {
                Some(filter) => {
                    let filter = TransactionFilter(filter);
                    statements
                        .into_iter()
                        .filter_map(|statement| filter.filter_statement(statement))
                        .collect()
                }
                None => statements,
            })
        })
    }

    /// Returns the statements that the filter selects, under the rewritten database names.
    pub(crate) fn filtered(self, filter: &ReplicationFilter) -> Self {
        assert!(self.filter.is_none(), "ours: statements are filtered once");
        Self { filter: Some(Arc::new(filter.clone())), ..self }
    }
}

/// Size at which a part ends, in bytes. A longer statement makes a longer part.
const PART_SIZE: usize = 1 << 20;

/// Writes the events of statements to a temporary file.
pub(crate) struct StatementSpooler {
    statements: SpooledStatements,
    /// The current part.
    part: Vec<u8>,
}

impl StatementSpooler {
    /// Creates an empty spool for events of this format, which has no checksums.
    pub(crate) fn new(format: &Arc<EventFormat>) -> io::Result<Self> {
        let spool = Arc::new(EncryptedSpool::new_in(&env::temp_dir(), 0)?);
        let statements =
            SpooledStatements { format: Arc::clone(format), spool, parts: Vec::new(), filter: None };
        Ok(Self { statements, part: Vec::new() })
    }

    /// Adds a statement, preceded by the events of its variables.
    pub(crate) fn push(&mut self, variables: &[u8], statement: &RawEvent<'_>) -> Result<(), ApplyPlanError> {
        self.part.extend_from_slice(variables);
        put_event(statement, &mut self.part)?;
        if self.part.len() >= PART_SIZE {
            self.put()?;
        }
        Ok(())
    }

    /// Returns all statements that were added.
    pub(crate) fn finish(mut self) -> io::Result<SpooledStatements> {
        if !self.part.is_empty() {
            self.put()?;
        }
        Ok(self.statements)
    }

    /// Writes the part to the file.
    fn put(&mut self) -> io::Result<()> {
        let start = self.statements.spool.push(&self.part)?;
        self.statements.parts.push(start..start + self.part.len() as u64);
        self.part.clear();
        Ok(())
    }
}

/// Appends an event without its checksum.
pub(crate) fn put_event(raw: &RawEvent<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    raw.rewrite(raw.header().origin(), NextPosition::Fixed(0), EventChecksum::Absent, out)
}

//! Conditions under which the net change has provably the same result as the single changes.

use binlog::events::{Rows, RowsFlags, RowsKind};
use binlog::{Column, ColumnType, Flavour, RowImage, Table};

use crate::keys::KeyNormalizer;
use crate::target_table_definition::{StorageEngine, TargetTableDefinition};

/// Reason why rows cannot be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FoldRefusal {
    /// The target gives no definition of the table.
    #[error("the table's definition is not known")]
    Undefined,
    /// The engine is not InnoDB: it may be unable to roll back, or may find rows in another way.
    #[error("the table's engine is not InnoDB")]
    Engine,
    /// Rows cannot be identified.
    #[error("the table has no primary key")]
    NoPrimaryKey,
    /// Different values of the primary key may compare as equal.
    #[error("different bytes in the primary key may be the same value, as in most collations")]
    InexactKey,
    /// A unique value may move from one row to another: in another order it would exist twice.
    #[error("the table has another unique key")]
    UniqueKey,
    /// A change of another table may require that a row of this table exists, or does not exist, at that moment.
    #[error("the table is part of a foreign key")]
    ForeignKey,
    /// The row with the highest AUTO_INCREMENT value cannot be found by primary key.
    #[error("AUTO_INCREMENT is not on an integer column of the primary key")]
    AutoIncrement,
    /// The log's columns differ from the definition's.
    #[error("the log does not have all columns of the primary key")]
    Columns,
    /// An image lacks columns.
    #[error(
        "row images lack columns or parts of JSON documents (binlog_row_image, binlog_row_value_options)"
    )]
    PartialImage,
    /// The event holds more than rows (NDB).
    #[error("the event has extra fields")]
    Extra,
    /// The table has other columns or other flags than before.
    #[error("the table's columns or its rows' flags differ from those before")]
    Changed,
    /// The statement also changes tables whose rows cannot be folded.
    #[error("the statement also changes tables whose row changes cannot be merged")]
    Mixed,
    /// The log inserts an existing row, or changes a missing one: only the target knows the result.
    #[error("a row is not as earlier changes left it")]
    Unexplained,
    /// The memory limit is reached.
    #[error("the rows do not fit in memory")]
    TooLarge,
    /// The rows have no table map.
    #[error("the rows have no table map")]
    Unnamed,
}

impl FoldRefusal {
    /// Returns whether the refusal holds for all rows of the table. The table's changes can then be applied beside the
    /// net change of other tables. Otherwise, the changes folded so far must be applied first.
    pub const fn is_of_table(self) -> bool {
        !matches!(
            self,
            Self::PartialImage
                | Self::Extra
                | Self::Changed
                | Self::Mixed
                | Self::Unexplained
                | Self::TooLarge
                | Self::Unnamed
        )
    }
}

/// Position of the primary key in an image.
#[derive(Clone, Debug)]
pub(super) struct PrimaryKey {
    /// Key columns, in the order of the table's columns.
    parts: Vec<PrimaryKeyPart>,
    /// The key is one column, and the bytes of the value identify it.
    is_plain: bool,
}

#[derive(Clone, Copy, Debug)]
struct PrimaryKeyPart {
    column: usize,
    normal: KeyNormalizer,
    /// Set for the AUTO_INCREMENT column.
    counts: Option<CounterSign>,
}

/// Signedness of an AUTO_INCREMENT column, stored with the low byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CounterSign {
    Unsigned,
    Signed,
}

/// Primary key of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowKey<'k> {
    pub(super) bytes: &'k [u8],
    /// Value of its AUTO_INCREMENT column; 0 if it has none.
    pub(super) count: u64,
}

impl PrimaryKey {
    /// Returns the table's primary key, or the reason why its rows cannot be folded.
    pub(super) fn of(
        table: &Table,
        definition: Option<&TargetTableDefinition>,
        flavour: Flavour,
    ) -> Result<Self, FoldRefusal> {
        let definition = definition.ok_or(FoldRefusal::Undefined)?;
        if definition.engine != StorageEngine::InnoDb {
            return Err(FoldRefusal::Engine);
        }
        if !definition.foreign_keys.is_empty() {
            return Err(FoldRefusal::ForeignKey);
        }
        if !definition.unique_keys.is_empty() {
            return Err(FoldRefusal::UniqueKey);
        }
        let key = definition.primary_key.as_ref().filter(|key| !key.is_empty());
        let mut parts = Vec::new();
        for part in key.ok_or(FoldRefusal::NoPrimaryKey)? {
            let column = table.columns.get(part.column).ok_or(FoldRefusal::Columns)?;
            let normal = KeyNormalizer::of(column, part.prefix, flavour).filter(|normal| normal.is_exact());
            let normal = normal.ok_or(FoldRefusal::InexactKey)?;
            let counts = match definition.auto_increment {
                Some(counting) if counting == part.column => Some(counter_sign(column)?),
                _ => None,
            };
            parts.push(PrimaryKeyPart { column: part.column, normal, counts });
        }
        if definition.auto_increment.is_some() && parts.iter().all(|part| part.counts.is_none()) {
            return Err(FoldRefusal::AutoIncrement);
        }
        parts.sort_unstable_by_key(|part| part.column);
        let is_plain = matches!(parts.as_slice(), [part] if part.normal.is_raw());
        Ok(Self { parts, is_plain })
    }

    /// Returns the key of a row that has all columns; `None` if a part is NULL.
    #[inline]
    pub(super) fn find<'k>(&self, image: &RowImage<'_, 'k>, space: &'k mut Vec<u8>) -> Option<RowKey<'k>> {
        if self.is_plain {
            let part = self.parts.first()?;
            let bytes = image.fields().nth(part.column)?.bytes()?;
            return Some(RowKey { bytes, count: part.count(bytes) });
        }
        space.clear();
        let mut count = 0;
        let mut fields = image.fields();
        let mut next = 0;
        for part in &self.parts {
            let bytes = fields.nth(part.column - next)?.bytes()?;
            next = part.column + 1;
            let start = space.len();
            part.normal.put(bytes, space)?;
            let size = (space.len() - start) as u32;
            space.extend_from_slice(&size.to_le_bytes());
            count = count.max(part.count(bytes));
        }
        Some(RowKey { bytes: space, count })
    }
}

impl PrimaryKeyPart {
    fn count(&self, bytes: &[u8]) -> u64 {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        match (self.counts, bytes.last()) {
            (None, _) => 0,
            // Negative numbers do not move the counter.
            (Some(CounterSign::Signed), Some(0x80..)) => 0,
            (Some(_), _) => number(bytes),
        }
    }
}

/// Returns the signedness of an AUTO_INCREMENT column, which must be an integer.
fn counter_sign(column: &Column) -> Result<CounterSign, FoldRefusal> {
    match column.column_type {
        ColumnType::TinyInt
        | ColumnType::SmallInt
        | ColumnType::MediumInt
        | ColumnType::Int
        | ColumnType::BigInt => Ok(match column.unsigned {
            Some(false) => CounterSign::Signed,
            // If the sign is unknown, a negative number counts as a high one. That causes one needless insert.
            Some(true) | None => CounterSign::Unsigned,
        }),
        _ => Err(FoldRefusal::AutoIncrement),
    }
}

/// Checks that the event's rows have all columns.
pub(super) fn check_event(rows: &Rows<'_>) -> Result<(), FoldRefusal> {
    if rows.kind == RowsKind::PartialUpdate {
        return Err(FoldRefusal::PartialImage);
    }
    let is_all = |bits: &[u8]| {
        let mut columns = 0..rows.column_count as usize;
        columns.all(|column| bits.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 == 1))
    };
    let after = rows.columns_after.is_none_or(|columns| is_all(columns.bits));
    if !after || !is_all(rows.columns.bits) {
        return Err(FoldRefusal::PartialImage);
    }
    match rows.extra {
        // The target finds the partition itself.
        None | Some([] | [PARTITION, ..]) => Ok(()),
        Some(_) => Err(FoldRefusal::Extra),
    }
}

/// Type of the extra field with the partition of the rows.
const PARTITION: u8 = 1;

/// Returns the flags that affect how rows are applied: all except the end of the statement.
pub(super) fn apply_flags(flags: RowsFlags) -> RowsFlags {
    RowsFlags(flags.0 & !RowsFlags::STATEMENT_END.0)
}

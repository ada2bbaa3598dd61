//! Where the net change is provably the same as all changes one after the other, and why elsewhere it is not tried.

use binlog::events::{Rows, RowsFlags, RowsKind};
use binlog::{Column, ColumnType, Flavour, Image, Table};

use crate::definition::{Definition, Engine};
use crate::keys::Normal;

/// Why rows cannot be folded into what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing is known of the table.
    #[error("the table's definition is not known")]
    Undefined,
    /// Another engine could not take all changes back, or finds rows otherwise.
    #[error("the table's engine is not InnoDB")]
    Engine,
    /// Nothing says which rows are the same one.
    #[error("the table has no primary key")]
    NoPrimaryKey,
    /// Values of the primary key may be equal without being the same.
    #[error("the primary key does not compare byte by byte")]
    InexactKey,
    /// A value may move from one row to another: in another order it would be there twice.
    #[error("the table has another unique key")]
    UniqueKey,
    /// Changes of other tables may need rows of this one to be there or gone at their time.
    #[error("the table is part of a foreign key")]
    ForeignKey,
    /// What the column counts up to would not follow from rows that have the same primary key.
    #[error("AUTO_INCREMENT is not on a whole number in the primary key")]
    AutoIncrement,
    /// The log's columns are not those of the definition.
    #[error("the primary key names a column that the log does not have")]
    Columns,
    /// What a row was or became is not all there.
    #[error("an image does not have all columns")]
    PartialImage,
    /// The event holds more than rows (NDB).
    #[error("the event has extra fields")]
    Extra,
    /// The same table with other columns or other flags.
    #[error("the table's columns or its rows' flags differ from those before")]
    Changed,
    /// A statement changes other tables, too, whose rows cannot be folded.
    #[error("the statement changes other tables, too, that cannot be folded")]
    Mixed,
    /// A row is inserted that is there, or changed though it is not: only doing just that shows what comes of it.
    #[error("a row is not as earlier changes left it")]
    Unexplained,
    /// There is no room for more.
    #[error("the rows are too large to be held")]
    TooLarge,
    /// No table map stands in front of the rows.
    #[error("the rows are of a table that was not named")]
    Unnamed,
}

impl Refusal {
    /// Does it hold for the table whatever its rows are? Then its changes can be done one by one beside the net
    /// change of others; else, whatever is folded already must be done first.
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

/// How the primary key is found in an image.
#[derive(Clone, Debug)]
pub(super) struct PrimaryKey {
    /// In the order of the columns.
    parts: Vec<Part>,
    /// Is it one column, and its bytes the key?
    is_plain: bool,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    column: usize,
    normal: Normal,
    /// Does it count by itself?
    counts: Option<Counts>,
}

/// Whole numbers are stored with the low byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Unsigned,
    Signed,
}

/// A row's primary key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'k> {
    pub(super) bytes: &'k [u8],
    /// What its AUTO_INCREMENT column holds; 0 if it has none.
    pub(super) count: u64,
}

impl PrimaryKey {
    /// The table's, if its rows may be folded at all.
    pub(super) fn of(
        table: &Table,
        definition: Option<&Definition>,
        flavour: Flavour,
    ) -> Result<Self, Refusal> {
        let definition = definition.ok_or(Refusal::Undefined)?;
        if definition.engine != Engine::InnoDb {
            return Err(Refusal::Engine);
        }
        if !definition.relatives.is_empty() {
            return Err(Refusal::ForeignKey);
        }
        if !definition.unique_keys.is_empty() {
            return Err(Refusal::UniqueKey);
        }
        let key = definition.primary_key.as_ref().filter(|key| !key.is_empty());
        let mut parts = Vec::new();
        for part in key.ok_or(Refusal::NoPrimaryKey)? {
            let column = table.columns.get(part.column).ok_or(Refusal::Columns)?;
            let normal = Normal::of(column, part.prefix, flavour).filter(|normal| normal.is_exact());
            let normal = normal.ok_or(Refusal::InexactKey)?;
            let counts = match definition.auto_increment {
                Some(counting) if counting == part.column => Some(counts(column)?),
                _ => None,
            };
            parts.push(Part { column: part.column, normal, counts });
        }
        if definition.auto_increment.is_some() && parts.iter().all(|part| part.counts.is_none()) {
            return Err(Refusal::AutoIncrement);
        }
        parts.sort_unstable_by_key(|part| part.column);
        let is_plain = matches!(parts.as_slice(), [part] if part.normal.is_raw());
        Ok(Self { parts, is_plain })
    }

    /// The key of a row that has all columns; `None` if a part is NULL.
    #[inline]
    pub(super) fn find<'k>(&self, image: &Image<'_, 'k>, space: &'k mut Vec<u8>) -> Option<Key<'k>> {
        if self.is_plain {
            let part = self.parts.first()?;
            let bytes = image.fields().nth(part.column)?.bytes()?;
            return Some(Key { bytes, count: part.count(bytes) });
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
        Some(Key { bytes: space, count })
    }
}

impl Part {
    fn count(&self, bytes: &[u8]) -> u64 {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        match (self.counts, bytes.last()) {
            (None, _) => 0,
            // Nothing counts down.
            (Some(Counts::Signed), Some(0x80..)) => 0,
            (Some(_), _) => number(bytes),
        }
    }
}

/// A column that counts must be a whole number whose sign is known.
fn counts(column: &Column) -> Result<Counts, Refusal> {
    match column.column_type {
        ColumnType::TinyInt
        | ColumnType::SmallInt
        | ColumnType::MediumInt
        | ColumnType::Int
        | ColumnType::BigInt => Ok(match column.unsigned {
            Some(false) => Counts::Signed,
            // Not known: a negative number would be taken as a high one, and be inserted for nothing.
            Some(true) | None => Counts::Unsigned,
        }),
        _ => Err(Refusal::AutoIncrement),
    }
}

/// Are the event's rows whole?
pub(super) fn check_event(rows: &Rows<'_>) -> Result<(), Refusal> {
    if rows.kind == RowsKind::PartialUpdate {
        return Err(Refusal::PartialImage);
    }
    let is_all = |bits: &[u8]| {
        let mut columns = 0..rows.column_count as usize;
        columns.all(|column| bits.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 == 1))
    };
    let after = rows.columns_after.is_none_or(|columns| is_all(columns.bits));
    if !after || !is_all(rows.columns.bits) {
        return Err(Refusal::PartialImage);
    }
    match rows.extra {
        // Which partition a row was in is for the target to find.
        None | Some([] | [PARTITION, ..]) => Ok(()),
        Some(_) => Err(Refusal::Extra),
    }
}

/// The extra field that says which partition the rows are in.
const PARTITION: u8 = 1;

/// Flags that say how rows are to be applied, not where a statement ends.
pub(super) fn manner(flags: RowsFlags) -> RowsFlags {
    RowsFlags(flags.0 & !RowsFlags::STATEMENT_END.0)
}

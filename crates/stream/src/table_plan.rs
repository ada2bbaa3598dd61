//! Tables prepared for writing rows as JSON: column names, primary key, members of ENUMs and SETs.

use std::sync::Arc;

use binlog::{Charset, Collation, Column, ColumnType, Flavour, GeometryType, Table};

use crate::broker_sink::KeyedRecordKind;
use crate::column_catalogue::TableSchema;
use crate::column_default::default_json;
use crate::column_domain::ColumnDomain;
use crate::column_rules::ColumnRules;
use crate::connect_schema::ConnectField;
use crate::json_writer::put_string;
use crate::record_table::RecordTable;
use crate::value_mask::{MaskedColumn, MaskedKind, ValueMask};
use crate::value_modes::{DecimalMode, TimeMode, ValueModes};

/// Treatment of columns whose names the log lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnnamedColumnPolicy {
    /// Return an error.
    #[default]
    Refuse,
    /// Use the names `@1`, `@2` and so on, as mysqlbinlog does.
    Number,
}

/// Settings of prepared tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanSettings<'s> {
    pub(crate) unnamed_columns: UnnamedColumnPolicy,
    pub(crate) unknown_members: UnnamedColumnPolicy,
    pub(crate) modes: ValueModes,
    pub(crate) rules: &'s ColumnRules,
    /// Definition of the table with its default values, if the catalogue has it.
    pub(crate) definition: Option<&'s TableSchema>,
}

/// A table prepared for writing its rows as JSON.
#[derive(Clone, Debug)]
pub(crate) struct TablePlan {
    pub(crate) database: String,
    pub(crate) table: String,
    /// `database.table`
    pub(crate) name: Arc<str>,
    pub(crate) columns: Box<[ColumnPlan]>,
    /// Columns of its primary key, or of the key that replaces it.
    pub(crate) key: Box<[MessageKeyColumn]>,
    /// Kind of its records.
    pub(crate) kind: KeyedRecordKind,
}

/// A column of a key. No rule leaves it out or masks it there.
#[derive(Clone, Debug)]
pub(crate) struct MessageKeyColumn {
    /// Index of the column in its table.
    pub(crate) column: usize,
    pub(crate) plan: ColumnPlan,
}

/// A column prepared for writing its values as JSON.
#[derive(Clone, Debug)]
pub(crate) struct ColumnPlan {
    /// `database.table.column`
    pub(crate) name: Arc<str>,
    /// `"name":`
    pub(crate) label: Box<[u8]>,
    pub(crate) charset: Charset,
    /// Members of an ENUM or SET, each in quotes.
    pub(crate) texts: Box<[Box<[u8]>]>,
    /// Treatment of values that are not among the members.
    pub(crate) unknown_members: UnnamedColumnPolicy,
    pub(crate) nullable: bool,
    pub(crate) is_point: bool,
    pub(crate) is_bigint: bool,
    pub(crate) modes: ValueModes,
    pub(crate) is_excluded: bool,
    pub(crate) mask: Option<ValueMask>,
}

impl TablePlan {
    /// Prepares a table; `None` if its columns have no names and are not to be numbered.
    pub(crate) fn new(table: &Table, flavour: Flavour, settings: PlanSettings<'_>) -> Option<Self> {
        let PlanSettings { unnamed_columns, unknown_members, modes, rules, .. } = settings;
        let columns = table.columns.iter().enumerate().map(|(index, column)| {
            let name = match (&column.name, unnamed_columns) {
                (Some(name), _) => String::from_utf8_lossy(name).into_owned(),
                (None, UnnamedColumnPolicy::Number) => format!("@{}", index + 1),
                (None, UnnamedColumnPolicy::Refuse) => return None,
            };
            Some(name)
        });
        let names = columns.collect::<Option<Vec<String>>>()?;
        let [database, table_name] =
            [&table.database, &table.name].map(|name| String::from_utf8_lossy(name).into_owned());
        let full_name = |name: &String| format!("{database}.{table_name}.{name}");
        let full_names: Vec<String> = names.iter().map(full_name).collect();
        let plans = names.iter().zip(&full_names).zip(&table.columns).map(|((name, full_name), column)| {
            let plan = ColumnPlan::new(name, column, flavour);
            ColumnPlan { name: full_name.as_str().into(), unknown_members, modes, ..plan }
        });
        let mut columns: Vec<ColumnPlan> = plans.collect();
        let primary_key = || table.primary_key.iter().flatten().map(|part| part.column).collect();
        let key = rules.keys.key_of(&full_names).unwrap_or_else(primary_key);
        let key_column = |column: &usize| {
            let plan = columns.get(*column)?.clone();
            Some(MessageKeyColumn { column: *column, plan })
        };
        let key: Box<[MessageKeyColumn]> = key.iter().filter_map(key_column).collect();
        for ((plan, column), name) in columns.iter_mut().zip(&table.columns).zip(&full_names) {
            plan.apply_rules(rules, name, masked_column(column, plan));
        }
        let field = |index: usize| {
            column_field(&names[index], &table.columns[index], &columns[index], settings.definition)
        };
        let shown = (0..columns.len()).filter(|index| !columns[*index].is_excluded);
        let records = RecordTable {
            database: database.clone(),
            table: table_name.clone(),
            key: key.iter().map(|key: &MessageKeyColumn| field(key.column)).collect(),
            columns: shown.map(field).collect(),
        };
        Some(Self {
            name: format!("{database}.{table_name}").into(),
            kind: KeyedRecordKind::Row(Arc::new(records)),
            database,
            table: table_name,
            columns: columns.into(),
            key,
        })
    }
}

impl ColumnPlan {
    fn new(name: &str, column: &Column, flavour: Flavour) -> Self {
        let mut label = Vec::new();
        put_string(&mut label, name);
        label.push(b':');
        let collation = column.collation.and_then(|id| Collation::new(id, flavour));
        let charset = collation.map_or(Charset::Utf8mb4, |collation| collation.charset());
        let quoted = |text: &[u8]| {
            let mut out = Vec::new();
            put_string(&mut out, &charset.decode_lossy(text));
            out.into()
        };
        let is_point = matches!(column.column_type, ColumnType::Geometry { .. })
            && column.geometry_type == Some(GeometryType::Point);
        Self {
            name: name.into(),
            label: label.into(),
            charset,
            texts: column.texts.iter().map(|text| quoted(text)).collect(),
            unknown_members: UnnamedColumnPolicy::default(),
            nullable: column.nullable,
            is_point,
            is_bigint: column.column_type == ColumnType::BigInt,
            modes: ValueModes::default(),
            is_excluded: false,
            mask: None,
        }
    }

    /// Applies the rules for this column, whose full name is `name`.
    pub(crate) fn apply_rules(&mut self, rules: &ColumnRules, name: &str, masked: MaskedColumn) {
        self.is_excluded = !rules.selects(name);
        self.mask = rules.mask_of(name).and_then(|mask| ValueMask::new(mask, masked));
    }
}

/// Returns the field of a column in records.
fn column_field(
    name: &str,
    column: &Column,
    plan: &ColumnPlan,
    definition: Option<&TableSchema>,
) -> ConnectField {
    let defined = definition.and_then(|table| table.columns.iter().find(|column| column.name == name));
    let domain = ColumnDomain::from_log(column, plan);
    let mut schema = domain.schema(plan.modes);
    schema.is_optional = domain.is_optional(plan.nullable);
    schema.default = defined.and_then(|column| default_json(column, plan.modes));
    schema.field(name)
}

/// Returns the properties that decide on the mask of a column.
fn masked_column(column: &Column, plan: &ColumnPlan) -> MaskedColumn {
    let (is_binary, modes) = (plan.charset == Charset::Binary, plan.modes);
    let is_iso = modes.times == TimeMode::IsoString;
    let fraction = |fraction: u8| (fraction > 0).then_some(usize::from(fraction));
    let (kind, length) = match column.column_type {
        ColumnType::Char { size_max }
        | ColumnType::Varchar { size_max }
        | ColumnType::CompressedVarchar { size_max, .. } => match is_binary {
            true => (MaskedKind::of_bytes(modes), Some(usize::from(size_max))),
            false => {
                let character_size = usize::from(plan.charset.character_size_max()).max(1);
                (MaskedKind::Text, Some(usize::from(size_max) / character_size))
            }
        },
        ColumnType::Blob { .. } | ColumnType::CompressedBlob { .. } => match is_binary {
            true => (MaskedKind::of_bytes(modes), None),
            false => (MaskedKind::Text, None),
        },
        ColumnType::Enum { .. } => (MaskedKind::Text, Some(1)),
        ColumnType::Set { .. } => (MaskedKind::Text, Some((column.texts.len() * 2).saturating_sub(1))),
        ColumnType::Json { .. } => (MaskedKind::WrittenText, None),
        ColumnType::Timestamp { fraction: digits } => (MaskedKind::WrittenText, fraction(digits)),
        ColumnType::OldTimestamp => (MaskedKind::WrittenText, None),
        ColumnType::DateTime { fraction: digits } | ColumnType::Time { fraction: digits } if is_iso => {
            (MaskedKind::WrittenText, fraction(digits))
        }
        ColumnType::Date | ColumnType::OldDateTime | ColumnType::OldTime if is_iso => {
            (MaskedKind::WrittenText, None)
        }
        ColumnType::Decimal { precision, .. } if modes.decimals == DecimalMode::Text => {
            (MaskedKind::WrittenText, Some(usize::from(precision)))
        }
        _ => (MaskedKind::Other, None),
    };
    MaskedColumn { kind, length }
}

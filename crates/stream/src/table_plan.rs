//! Tables prepared for writing rows as JSON: column names, primary key, members of ENUMs and SETs.

use std::sync::Arc;

use binlog::{Charset, Collation, Column, ColumnType, Flavour, GeometryType, Table};

use crate::broker_sink::{KeyedRecordKind, RecordTable};
use crate::json_writer::put_string;
use crate::value_modes::ValueModes;

/// Treatment of columns whose names the log lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnnamedColumnPolicy {
    /// Return an error.
    #[default]
    Refuse,
    /// Use the names `@1`, `@2` and so on, as mysqlbinlog does.
    Number,
}

/// A table prepared for writing its rows as JSON.
#[derive(Clone, Debug)]
pub(crate) struct TablePlan {
    pub(crate) database: String,
    pub(crate) table: String,
    /// `database.table`
    pub(crate) name: Arc<str>,
    pub(crate) columns: Box<[ColumnPlan]>,
    /// Indexes of the columns of its primary key.
    pub(crate) key: Box<[usize]>,
    /// Kind of its records.
    pub(crate) kind: KeyedRecordKind,
}

/// A column prepared for writing its values as JSON.
#[derive(Clone, Debug)]
pub(crate) struct ColumnPlan {
    /// `"name":`
    pub(crate) label: Box<[u8]>,
    pub(crate) charset: Charset,
    /// Members of an ENUM or SET, each in quotes.
    pub(crate) texts: Box<[Box<[u8]>]>,
    pub(crate) nullable: bool,
    pub(crate) is_point: bool,
    pub(crate) is_bigint: bool,
    pub(crate) modes: ValueModes,
}

impl TablePlan {
    /// Prepares a table; `None` if its columns have no names and are not to be numbered.
    pub(crate) fn new(
        table: &Table,
        flavour: Flavour,
        nameless: UnnamedColumnPolicy,
        modes: ValueModes,
    ) -> Option<Self> {
        let columns = table.columns.iter().enumerate().map(|(index, column)| {
            let name = match (&column.name, nameless) {
                (Some(name), _) => String::from_utf8_lossy(name).into_owned(),
                (None, UnnamedColumnPolicy::Number) => format!("@{}", index + 1),
                (None, UnnamedColumnPolicy::Refuse) => return None,
            };
            Some(ColumnPlan { modes, ..ColumnPlan::new(&name, column, flavour) })
        });
        let columns: Option<Vec<ColumnPlan>> = columns.collect();
        let [database, table_name] =
            [&table.database, &table.name].map(|name| String::from_utf8_lossy(name).into_owned());
        let names = RecordTable { database: database.clone(), table: table_name.clone() };
        Some(Self {
            name: format!("{database}.{table_name}").into(),
            kind: KeyedRecordKind::Row(Arc::new(names)),
            database,
            table: table_name,
            columns: columns?.into(),
            key: table.primary_key.iter().flatten().map(|part| part.column).collect(),
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
            label: label.into(),
            charset,
            texts: column.texts.iter().map(|text| quoted(text)).collect(),
            nullable: column.nullable,
            is_point,
            is_bigint: column.column_type == ColumnType::BigInt,
            modes: ValueModes::default(),
        }
    }
}

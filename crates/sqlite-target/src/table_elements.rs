//! Columns and keys of a definition, in the form of the catalogue.

use sql::ddl::{
    ColumnKey, DdlColumn, ForeignKeyAction, ForeignKeyDefinition, KeyDefinition, KeyKind, KeyPartDefinition,
    TableDefinition, TableElement,
};

use crate::catalogue_table::{
    CatalogueColumn, CatalogueTable, ForeignKey, KeyColumn, QualifiedName, ReferentialAction, SecondaryKey,
    SourceEngine,
};
use crate::default_value::DefaultValue;
use crate::mysql_type::MysqlType;

/// Columns, keys and options of a definition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableElements {
    /// The defined table.
    table: QualifiedName,
    pub(crate) columns: Vec<CatalogueColumn>,
    pub(crate) primary_key: Option<Vec<KeyColumn>>,
    pub(crate) keys: Vec<SecondaryKey>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    engine: Option<String>,
    charset: Option<String>,
}

impl TableElements {
    /// Returns a body without columns and keys.
    pub(crate) const fn new(table: QualifiedName) -> Self {
        Self {
            table,
            columns: Vec::new(),
            primary_key: None,
            keys: Vec::new(),
            foreign_keys: Vec::new(),
            engine: None,
            charset: None,
        }
    }

    /// Returns the body of a definition; `None` if a part has no equivalent in SQLite.
    pub(crate) fn of(definition: &TableDefinition, table: QualifiedName) -> Option<Self> {
        if definition.is_versioned {
            return None;
        }
        let mut body = Self::new(table);
        for element in &definition.elements {
            body.add(element)?;
        }
        body.engine.clone_from(&definition.options.engine);
        body.charset.clone_from(&definition.options.charset);
        Some(body)
    }

    /// Returns a table that has no name in SQLite yet.
    pub(crate) fn into_table(self) -> CatalogueTable {
        let mut table = CatalogueTable {
            name: String::new(),
            columns: self.columns,
            primary_key: self.primary_key,
            keys: self.keys,
            foreign_keys: self.foreign_keys,
            engine: SourceEngine::of(self.engine.as_deref()),
            charset: self.charset,
        };
        for column in &mut table.columns {
            column.inherit_charset(table.charset.as_deref());
        }
        table
    }

    /// Adds a column or a key; `None` if the element has no equivalent in SQLite.
    pub(crate) fn add(&mut self, element: &TableElement) -> Option<()> {
        match element {
            TableElement::Column(definition) => {
                let column = self.column(definition)?;
                self.columns.push(column);
            }
            TableElement::PrimaryKey(parts) => {
                self.primary_key = key_columns(parts);
                for part in self.primary_key.iter().flatten() {
                    let mut columns = self.columns.iter_mut();
                    let column = columns.find(|column| column.name.eq_ignore_ascii_case(&part.column));
                    if let Some(column) = column {
                        column.nullable = false;
                    }
                }
            }
            TableElement::Key(KeyDefinition { kind, name, parts }) => {
                let parts = if *kind == KeyKind::Special { None } else { key_columns(parts) };
                add_key(self, name.clone(), *kind == KeyKind::Unique, parts);
            }
            TableElement::ForeignKey(key) => self.add_foreign_key(key),
            TableElement::Check => {}
            TableElement::Period | TableElement::SystemPeriod | TableElement::Unknown(_) => return None,
        }
        Some(())
    }

    /// Returns a column, and adds the keys that its definition creates. Returns `None` if its type is unknown.
    pub(crate) fn column(&mut self, definition: &DdlColumn) -> Option<CatalogueColumn> {
        let kind = MysqlType::of_definition(&definition.column_type, definition.charset.as_deref())?;
        let name = definition.name.clone();
        let default = match &definition.default {
            _ if definition.is_auto_increment && !definition.is_serial => DefaultValue::Unknown,
            Some(default) => DefaultValue::of_clause(default, &kind),
            None => DefaultValue::None,
        };
        for key in &definition.keys {
            let own = vec![KeyColumn { column: name.clone(), is_prefix: false }];
            match key {
                ColumnKey::Primary => self.primary_key = Some(own),
                ColumnKey::Unique => add_key(self, None, true, Some(own)),
            }
        }
        if let Some(key) = &definition.references {
            self.add_foreign_key(key);
        }
        let (nullable, generated) = (definition.nullable, definition.is_generated);
        Some(CatalogueColumn { name, kind, nullable, default, generated })
    }

    fn add_foreign_key(&mut self, key: &ForeignKeyDefinition) {
        let number = self.foreign_keys.len() + 1;
        let name = key.name.clone().unwrap_or_else(|| format!("{}_ibfk_{number}", self.table.1));
        let [database, parent] = key.parent.resolve(&self.table.0);
        self.foreign_keys.push(ForeignKey {
            name,
            columns: key.columns.clone(),
            parent: (database, parent),
            parent_columns: key.parent_columns.clone(),
            on_delete: action(key.on_delete),
            on_update: action(key.on_update),
        });
    }
}

const fn action(action: ForeignKeyAction) -> ReferentialAction {
    match action {
        ForeignKeyAction::Restrict => ReferentialAction::Restrict,
        ForeignKeyAction::Cascade => ReferentialAction::Cascade,
        ForeignKeyAction::SetNull => ReferentialAction::SetNull,
    }
}

fn add_key(body: &mut TableElements, name: Option<String>, unique: bool, parts: Option<Vec<KeyColumn>>) {
    let first = parts.as_ref().and_then(|parts| parts.first()).map(|part| part.column.clone());
    let base = name.clone().or(first).unwrap_or_else(|| "functional_index".to_owned());
    let is_taken = |name: &str| body.keys.iter().any(|key| key.name.eq_ignore_ascii_case(name));
    let numbered = (2..).map(|number| format!("{base}_{number}"));
    let own = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name));
    let key = SecondaryKey {
        name: own.unwrap_or(base),
        unique,
        parts: parts.unwrap_or_default(),
        index: String::new(),
    };
    body.keys.push(key);
}

/// Returns the columns of a key; `None` if a part is an expression.
pub(crate) fn key_columns(parts: &[KeyPartDefinition]) -> Option<Vec<KeyColumn>> {
    let column = |part: &KeyPartDefinition| {
        Some(KeyColumn { column: part.column.clone()?, is_prefix: part.is_prefix })
    };
    parts.iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use sql::SqlWords;
    use sql::ddl::{DdlStatement, NewTable};

    use super::TableElements;
    use crate::mysql_type::MysqlType;
    use crate::schema_editor::create_sql;

    /// Returns the body of a table in the database `d`; `None` if it has no equivalent.
    fn body(sql: &str) -> Option<TableElements> {
        let words = SqlWords::parse(sql, 0).unwrap();
        let DdlStatement::CreateTable { name, content: NewTable::Defined(definition), .. } =
            DdlStatement::parse(&words)
        else {
            panic!("{sql}")
        };
        let [database, table] = name.resolve("d");
        assert_eq!((database.as_str(), table.as_str()), ("d", "t"), "{sql}");
        TableElements::of(&definition, (database, table))
    }

    /// Checks the SQLite columns of `CREATE TABLE d.t (…)`, its keys and its foreign keys.
    fn check_table(sql: &str, expected: &str) {
        let table = body(sql).unwrap().into_table();
        let created = create_sql(&table, "t");
        let mut found = created.strip_prefix("CREATE TABLE \"t\" ").unwrap().to_owned();
        for key in &table.keys {
            let columns: Vec<_> = key.parts.iter().map(|part| part.column.as_str()).collect();
            let unique = if key.unique { "unique " } else { "" };
            found.push_str(&format!("; {unique}{} {}", key.name, columns.join(",")));
        }
        for key in &table.foreign_keys {
            let parent = format!("{}.{}({})", key.parent.0, key.parent.1, key.parent_columns.join(","));
            found.push_str(&format!("; {} -> {parent} {:?} {:?}", key.name, key.on_delete, key.on_update));
        }
        assert_eq!(found, expected, "{sql}");
    }

    #[test]
    fn tables_are_understood() {
        check_table(
            "create table t (id int primary key)",
            r#"("id" INTEGER NOT NULL DEFAULT 0, PRIMARY KEY ("id")) STRICT"#,
        );
        check_table(
            "CREATE TABLE IF NOT EXISTS `d`.`t` (a BIGINT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT 'it''s, (x)', \
             b VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT _latin1'q' /* , */, PRIMARY KEY (a, b), \
             UNIQUE KEY (b), KEY k (b(3) DESC, a) USING BTREE) ENGINE=InnoDB PARTITION BY HASH(a) PARTITIONS 3",
            r#"("a" ANY NOT NULL, "b" TEXT NOT NULL DEFAULT 'q', PRIMARY KEY ("a", "b")) STRICT, WITHOUT ROWID; unique b b; k b,a"#,
        );
        check_table(
            "create table t (x decimal(5,2) unsigned zerofill default -1, y bit(9) default b'11', z datetime(3) default \
             '2026-01-02', w enum('a','b') not null, v int generated always as (x + (1)) stored, u serial)",
            r#"("x" TEXT DEFAULT '-1.00', "y" INTEGER DEFAULT 3, "z" TEXT DEFAULT '2026-01-02 00:00:00.000', "w" TEXT NOT NULL DEFAULT 'a', "v" INTEGER, "u" ANY NOT NULL DEFAULT 0) STRICT; unique u u"#,
        );
        check_table(
            "create table t (p int references q (i) on delete cascade, constraint f foreign key (p) references \
             e.r (j, k) on update set null, check (p > 0), fulltext key g (p))",
            r#"("p" INTEGER) STRICT; g ; t_ibfk_1 -> d.q(i) Cascade Restrict; f -> e.r(j,k) Restrict SetNull"#,
        );
    }

    #[test]
    fn types_without_equivalent() {
        assert_eq!(body("create table t (x unknowntype)"), None);
        assert_eq!(body("create table t (x int, period for p (x, x))"), None);
        assert_eq!(body("create table t (x int) with system versioning"), None);
        assert_eq!(body("create table t (x int, key k ((x + 1)))").unwrap().keys[0].parts, []);
    }

    /// Forms that only the parser of streams knew.
    #[test]
    fn character_sets_and_sizes() {
        let check = |sql: &str, expected: MysqlType| {
            let table = body(sql).unwrap().into_table();
            assert_eq!(table.columns[0].kind, expected, "{sql}");
        };
        let text = |charset: &str| MysqlType::Text { charset: Some(charset.to_owned()) };
        check("create table t (x text char set latin1)", text("latin1"));
        check("create table t (x text charset 'latin1')", text("latin1"));
        check("create table t (x char(3) ascii)", text("latin1"));
        check("create table t (x char(3) unicode) charset latin1", text("ucs2"));
        check("create table t (x text) default char set = 'KOI8R'", text("koi8r"));
        check("create table t (x text) collate latin2_bin", text("latin2"));
        check("create table t (x text(70000), y long varchar, z clob)", MysqlType::Text { charset: None });
        check("create table t (x char(3) charset binary)", MysqlType::Bytes { size: Some(3) });
        check("create table t (x varchar(3) byte)", MysqlType::Bytes { size: None });
        check(
            "create table t (x int not secondary comment 'a' 'b')",
            MysqlType::Integer { bits: 32, unsigned: false },
        );
    }
}

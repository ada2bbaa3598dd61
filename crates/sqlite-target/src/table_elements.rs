//! Columns and keys of a definition, in the form of the catalogue.

use replay::SourceStatement;
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
    pub(crate) foreign_key_rules: ForeignKeyRules,
    engine: Option<String>,
    charset: Option<String>,
}

/// Rules of the source for the foreign keys of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForeignKeyRules {
    /// True if `REFERENCES` in the definition of a column makes a foreign key: since MySQL 9.0 and MariaDB 10.5. Earlier
    /// servers ignore it.
    has_inline_keys: bool,
    /// Highest number of a generated name of the table.
    last_number: u32,
}

impl ForeignKeyRules {
    /// Returns the rules for a statement that creates a table.
    pub(crate) fn of(statement: &SourceStatement) -> Self {
        let since = if statement.context.is_mariadb { (10, 5, 0) } else { (9, 0, 0) };
        Self { has_inline_keys: statement.server_version >= since, last_number: 0 }
    }

    /// Returns the rules for a statement that alters a table with these foreign keys.
    pub(crate) fn after(self, table: &QualifiedName, keys: &[ForeignKey]) -> Self {
        let numbers = keys.iter().filter_map(|key| generated_number(&key.name, &table.1));
        Self { last_number: numbers.max().unwrap_or(0), ..self }
    }
}

/// Returns the name that a server generates for a foreign key.
pub(crate) fn generated_name(table: &str, number: u32) -> String {
    format!("{table}_ibfk_{number}")
}

/// Returns the number in a name that a server has generated for a foreign key of this table.
pub(crate) fn generated_number(name: &str, table: &str) -> Option<u32> {
    let (start, number) = name.rsplit_once("_ibfk_")?;
    number.parse().ok().filter(|_| start.eq_ignore_ascii_case(table))
}

impl TableElements {
    /// Returns a body without columns and keys.
    pub(crate) const fn new(table: QualifiedName, foreign_key_rules: ForeignKeyRules) -> Self {
        Self {
            table,
            foreign_key_rules,
            columns: Vec::new(),
            primary_key: None,
            keys: Vec::new(),
            foreign_keys: Vec::new(),
            engine: None,
            charset: None,
        }
    }

    /// Returns the body of a definition; `None` if a part has no equivalent in SQLite.
    pub(crate) fn of(
        definition: &TableDefinition,
        table: QualifiedName,
        rules: ForeignKeyRules,
    ) -> Option<Self> {
        if definition.is_versioned {
            return None;
        }
        let mut body = Self::new(table, rules);
        for element in &definition.elements {
            body.add(element)?;
        }
        body.engine.clone_from(&definition.options.engine);
        body.charset.clone_from(&definition.options.charset);
        Some(body)
    }

    /// Returns a table that has no name in SQLite yet.
    pub(crate) fn into_table(self) -> CatalogueTable {
        let engine = SourceEngine::of(self.engine.as_deref());
        // Other engines ignore foreign keys.
        let foreign_keys = if engine == SourceEngine::Transactional { self.foreign_keys } else { Vec::new() };
        let mut table = CatalogueTable {
            name: String::new(),
            columns: self.columns,
            primary_key: self.primary_key,
            keys: self.keys,
            foreign_keys,
            engine,
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
            TableElement::Period | TableElement::SystemPeriod(_) | TableElement::Unknown(_) => return None,
        }
        Some(())
    }

    /// Returns a column, and adds the keys that its definition creates. Returns `None` if its type is unknown.
    pub(crate) fn column(&mut self, definition: &DdlColumn) -> Option<CatalogueColumn> {
        let kind = MysqlType::of_definition(&definition.column_type, definition.charset.as_deref())?;
        let name = definition.name.clone();
        let default = match &definition.default {
            _ if definition.is_auto_increment => DefaultValue::Unknown,
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
        if let Some(key) = definition.references.as_ref().filter(|_| self.foreign_key_rules.has_inline_keys) {
            self.add_foreign_key(key);
        }
        let (nullable, generated) = (definition.nullable, definition.is_generated);
        Some(CatalogueColumn { name, kind, nullable, default, generated })
    }

    fn add_foreign_key(&mut self, key: &ForeignKeyDefinition) {
        let last_number = &mut self.foreign_key_rules.last_number;
        let name = key.name.clone().unwrap_or_else(|| {
            *last_number += 1;
            generated_name(&self.table.1, *last_number)
        });
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

    use super::{ForeignKeyRules, TableElements};
    use crate::mysql_type::MysqlType;
    use crate::schema_draft::tests::statement;
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
        TableElements::of(&definition, (database, table), ForeignKeyRules::of(&statement(sql)))
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
            r#"("x" TEXT DEFAULT '-1.00', "y" INTEGER DEFAULT 3, "z" TEXT DEFAULT '2026-01-02 00:00:00.000', "w" TEXT NOT NULL DEFAULT 'a', "v" INTEGER, "u" ANY NOT NULL) STRICT; unique u u"#,
        );
        check_table(
            "create table t (p int references q (i) on delete cascade, constraint f foreign key (p) references \
             e.r (j, k) on update set null, check (p > 0), fulltext key g (p))",
            r#"("p" INTEGER) STRICT; g ; t_ibfk_1 -> d.q(i) Cascade Restrict; f -> e.r(j,k) Restrict SetNull"#,
        );
        check_table("create table t (p int references q (i)) engine=myisam", r#"("p" INTEGER) STRICT"#);
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

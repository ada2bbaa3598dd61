//! Definitions in the logs, executed in memory and without rows: the resulting tables, and definitions that a SQLite
//! target would refuse.

use std::path::Path;

use binlog::KeyPart;
use rusqlite::{Connection, OpenFlags};

use crate::definition::{Definition, Engine, Relatives, TableName, UniqueKey};
use crate::error::{Error, Failure};
use crate::progress::Applied;
use crate::sqlite::catalogue::{CREATE, Catalogue};
use crate::sqlite::ddl::Name;
use crate::sqlite::define::Bench;
use crate::sqlite::definition::{self, Part, Table};
use crate::sqlite::remarks::Remarks;
use crate::sqlite::{check_own, read_progress_of};
use crate::work::Statement;

/// An in-memory database with the tables that definitions create.
#[derive(Debug)]
pub(crate) struct Draft {
    connection: Connection,
    catalogue: Catalogue,
    remarks: Remarks,
}

impl Draft {
    /// Creates a draft without tables.
    pub(crate) fn new() -> Result<Self, Failure> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(CREATE)?;
        Ok(Self { connection, catalogue: Catalogue::default(), remarks: Remarks::default() })
    }

    /// Creates a draft with the tables of a SQLite database, which is only read, and returns what was applied to it.
    /// Both are empty if there is no file.
    pub(crate) fn of(path: &Path) -> Result<(Self, Applied), Error> {
        let read = || -> Result<(Self, Applied), Failure> {
            let mut draft = Self::new()?;
            if !path.exists() {
                return Ok((draft, Applied::default()));
            }
            let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            check_own(&file)?;
            let progress = read_progress_of(&file)?;
            for (name, table) in Catalogue::load(&file)?.into_tables() {
                draft.bench().make(name, table)?;
            }
            Ok((draft, Applied { progress, ..Applied::default() }))
        };
        read().map_err(|failure| failure.at("read the SQLite database"))
    }

    /// Executes the definition in a statement.
    pub(crate) fn run(&mut self, statement: &Statement) -> Result<(), Failure> {
        self.bench().carry_out(statement)
    }

    /// Returns the definition of a table, if there is one.
    pub(crate) fn definition(&self, database: &[u8], table: &[u8]) -> Option<Definition> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let wanted = (text(database), text(table));
        let (_, table) = self.catalogue.find(&wanted)?;
        let referring = self.catalogue.tables().flat_map(|(name, table)| {
            table.foreign_keys.iter().map(|key| (table_name(name), table_name(&key.parent)))
        });
        let relatives = Relatives::of_all(&referring.collect::<Vec<_>>());
        let name = table_name(&wanted);
        let is_transactional = table.engine == definition::Engine::Transactional;
        let unique = table.keys.iter().filter(|key| key.unique);
        Some(Definition {
            engine: if is_transactional { Engine::InnoDb } else { Engine::Other },
            primary_key: table.primary_key.as_ref().and_then(|parts| key_parts(table, parts)),
            unique_keys: unique
                .map(|key| key_parts(table, &key.parts).map_or(UniqueKey::Other, UniqueKey::Columns))
                .collect(),
            auto_increment: None,
            relatives: relatives.get(&name).cloned().unwrap_or_default(),
            name,
        })
    }

    fn bench(&mut self) -> Bench<'_> {
        let Self { connection, catalogue, remarks } = self;
        Bench { connection, catalogue, remarks }
    }
}

/// Returns the parts of a key; `None` if one is a column prefix, whose size the catalogue does not record.
fn key_parts(table: &Table, parts: &[Part]) -> Option<Vec<KeyPart>> {
    let part = |part: &Part| match part.is_prefix {
        true => None,
        false => Some(KeyPart { column: table.column(&part.column)?, prefix: 0 }),
    };
    let parts: Vec<KeyPart> = parts.iter().map(part).collect::<Option<_>>()?;
    (!parts.is_empty()).then_some(parts)
}

fn table_name(name: &Name) -> TableName {
    TableName { database: name.0.as_bytes().into(), table: name.1.as_bytes().into() }
}

//! Bits of `sql_mode` as logged with a statement (`enum enum_sql_mode`, which servers never renumber).

use crate::Flavour;

/// REAL is FLOAT, not DOUBLE.
pub const REAL_AS_FLOAT: u64 = 1;
/// `"x"` is an identifier.
pub const ANSI_QUOTES: u64 = 4;
/// MariaDB: types have their meaning in Oracle; a DATE has a time. MySQL before 8.0 has the mode without this effect.
pub const ORACLE: u64 = 512;
/// The backslash is an ordinary character.
pub const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;
/// Values that a column of a transactional table cannot hold are errors.
pub const STRICT_TRANS_TABLES: u64 = 1 << 21;
/// Values that a column cannot hold are errors.
pub const STRICT_ALL_TABLES: u64 = 1 << 22;

/// Modes that change the parsing of a statement.
pub const PARSING_MODES: u64 = REAL_AS_FLOAT
    | PIPES_AS_CONCAT
    | ANSI_QUOTES
    | IGNORE_SPACE
    | NO_UNSIGNED_SUBTRACTION
    | NO_BACKSLASH_ESCAPES
    | HIGH_NOT_PRECEDENCE
    | PAD_CHAR_TO_FULL_LENGTH;

/// Clears the modes that have no effect on servers of this flavour.
pub const fn effective_modes(sql_mode: u64, flavour: Flavour) -> u64 {
    match flavour {
        Flavour::MariaDb => sql_mode,
        Flavour::MySql => sql_mode & !ORACLE,
    }
}

const PIPES_AS_CONCAT: u64 = 2;
const IGNORE_SPACE: u64 = 8;
const NO_UNSIGNED_SUBTRACTION: u64 = 64;
const HIGH_NOT_PRECEDENCE: u64 = 1 << 29;
const PAD_CHAR_TO_FULL_LENGTH: u64 = 1 << 31;

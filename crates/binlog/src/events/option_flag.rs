//! Session variables in a statement's `flags2`.

/// Bit of a statement's `flags2` ([`StatusVar::Flags2`](super::StatusVar::Flags2)), and its session variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionFlag {
    /// The bit.
    pub bit: u32,
    /// Name of the session variable.
    pub variable: &'static str,
    /// Value of the variable if the bit is set.
    pub meaning: OptionFlagMeaning,
}

/// Value of a session variable if its bit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionFlagMeaning {
    /// The variable is on.
    On,
    /// The variable is off.
    Off,
}

impl OptionFlag {
    /// The flags of MySQL and MariaDB, in the order in which mysqlbinlog prints them.
    pub const ALL: [Self; 4] = [
        Self { bit: 0x0400_0000, variable: "foreign_key_checks", meaning: OptionFlagMeaning::Off },
        Self { bit: 0x0000_4000, variable: "sql_auto_is_null", meaning: OptionFlagMeaning::On },
        Self { bit: 0x0800_0000, variable: "unique_checks", meaning: OptionFlagMeaning::Off },
        Self { bit: 0x0008_0000, variable: "autocommit", meaning: OptionFlagMeaning::Off },
    ];

    /// `check_constraint_checks`.
    pub const CHECK_CONSTRAINT_CHECKS: Self =
        Self { bit: 0x0000_8000, variable: "check_constraint_checks", meaning: OptionFlagMeaning::Off };
    /// `sql_if_exists`: statements run as if they had the clause IF EXISTS.
    pub const SQL_IF_EXISTS: Self =
        Self { bit: 0x1000_0000, variable: "sql_if_exists", meaning: OptionFlagMeaning::On };
    /// `explicit_defaults_for_timestamp`. MariaDB logs this variable since the releases of August 2022. Earlier
    /// releases have it only as an option of the server; the default is OFF.
    pub const EXPLICIT_DEFAULTS_FOR_TIMESTAMP: Self = Self {
        bit: 0x0100_0000,
        variable: "explicit_defaults_for_timestamp",
        meaning: OptionFlagMeaning::On,
    };
    /// `system_versioning_insert_history`, since MariaDB 10.11.
    pub const INSERT_HISTORY: Self = Self {
        bit: 0x4000_0000,
        variable: "system_versioning_insert_history",
        meaning: OptionFlagMeaning::On,
    };

    /// The flags that only MariaDB has, in the order in which mariadb-binlog prints them after [`OptionFlag::ALL`].
    pub const MARIADB: [Self; 4] = [
        Self::CHECK_CONSTRAINT_CHECKS,
        Self::SQL_IF_EXISTS,
        Self::EXPLICIT_DEFAULTS_FOR_TIMESTAMP,
        Self::INSERT_HISTORY,
    ];

    /// Returns whether the variable is on.
    pub const fn is_on(&self, flags2: u32) -> bool {
        let is_set = flags2 & self.bit != 0;
        match self.meaning {
            OptionFlagMeaning::On => is_set,
            OptionFlagMeaning::Off => !is_set,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OptionFlag;

    #[test]
    fn bits_turn_variables_on_or_off() {
        let check = |flags2, expected: [bool; 4]| {
            assert_eq!(OptionFlag::ALL.map(|flag| flag.is_on(flags2)), expected, "{flags2:#x}");
        };
        check(0, [true, false, true, true]);
        check(0x0c00_4000, [false, true, false, true]);
        check(u32::MAX, [false, true, false, false]);
    }

    /// The bits are those of statements that MariaDB 11.8 logged after a `SET` of one variable.
    #[test]
    fn mariadb_has_more_variables() {
        let check = |flags2, expected: [bool; 4]| {
            assert_eq!(OptionFlag::MARIADB.map(|flag| flag.is_on(flags2)), expected, "{flags2:#x}");
        };
        check(0, [true, false, false, false]);
        check(0x0100_0000, [true, false, true, false]);
        check(0x0100_8000, [false, false, true, false]);
        check(0x1100_0000, [true, true, true, false]);
        check(0x4100_0000, [true, false, true, true]);
    }
}

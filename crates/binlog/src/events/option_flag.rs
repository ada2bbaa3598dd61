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
    /// All known flags, in the order in which mysqlbinlog prints them.
    pub const ALL: [Self; 4] = [
        Self { bit: 0x0400_0000, variable: "foreign_key_checks", meaning: OptionFlagMeaning::Off },
        Self { bit: 0x0000_4000, variable: "sql_auto_is_null", meaning: OptionFlagMeaning::On },
        Self { bit: 0x0800_0000, variable: "unique_checks", meaning: OptionFlagMeaning::Off },
        Self { bit: 0x0008_0000, variable: "autocommit", meaning: OptionFlagMeaning::Off },
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
}

//! The set of options that a command line accepts.

/// The set of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpDialect {
    /// mysqlbinlog's options only.
    Mysqlbinlog,
    /// mysqlbinlog's options, and bintide's own.
    Bintide,
}

//! The Python package `bintide`: row changes of binary logs as Arrow record batches, transactions, statistics and GTID
//! sets.
//!
//! Rust threads read the logs. Python only waits for their results, without the GIL, and checks for signals meanwhile.
//! This crate decodes nothing itself, and never prints.

mod changes;
mod gtid_set;
mod log_arguments;
mod stats;
mod transactions;
mod worker;

/// Reads binary logs of MySQL and MariaDB: row changes as Arrow record batches, transactions, statistics, GTID sets.
#[pyo3::pymodule]
mod bintide {
    use pyo3::prelude::{Bound, PyModule, PyModuleMethods as _, PyResult};

    #[pymodule_export]
    use crate::changes::{Changes, changes};
    #[pymodule_export]
    use crate::gtid_set::GtidSet;
    #[pymodule_export]
    use crate::log_arguments::LogError;
    #[pymodule_export]
    use crate::stats::stats;
    #[pymodule_export]
    use crate::transactions::{Transactions, transactions};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        archive::make_archives_readable();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

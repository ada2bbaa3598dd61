//! Sources of logs other than files.

use std::io::Read;

use crate::remote::ServerAccess;

/// Sources of logs other than files.
pub(crate) struct DumpInputs<'i> {
    pub(crate) stdin: &'i mut (dyn Read + Send),
    pub(crate) servers: &'i mut (dyn ServerAccess + Send),
}

//! Replication between two servers of a test, by GTIDs, as `root`. For MySQL from 8.0.23 on.

use anyhow::{Result, ensure};

use crate::polling::wait_until;
use crate::server::TestServer;

impl TestServer {
    /// Makes this server a replica of another one, without starting its threads.
    ///
    /// # Errors
    /// Fails if the server refuses the statement.
    pub fn set_source(&self, source: &Self) -> Result<()> {
        self.sql(&format!(
            "change replication source to source_host = '127.0.0.1', source_port = {}, source_user = 'root',
               source_auto_position = 1, get_source_public_key = 1",
            source.port()
        ))?;
        Ok(())
    }

    /// Makes this server a replica of another one, and starts it.
    ///
    /// # Errors
    /// Fails if the server refuses a statement.
    pub fn replicate_from(&self, source: &Self) -> Result<()> {
        self.set_source(source)?;
        self.sql("start replica")?;
        Ok(())
    }

    /// Returns the GTIDs of the transactions that this server has committed, on one line.
    ///
    /// # Errors
    /// Fails if the query fails.
    pub fn gtid_executed(&self) -> Result<String> {
        Ok(self.sql("select replace(@@global.gtid_executed, '\n', '')")?.trim().to_owned())
    }

    /// Waits until this replica has applied all transactions of a source.
    ///
    /// # Errors
    /// Fails if the replica has not applied them after four minutes, or reports an error.
    pub fn wait_until_applied(&self, source: &Self) -> Result<()> {
        let applied = format!("select gtid_subset('{}', @@global.gtid_executed)", source.gtid_executed()?);
        wait_until("the transactions of the source", || {
            let errors = self.sql(
                "select last_error_message from performance_schema.replication_applier_status_by_worker
                 where last_error_number <> 0",
            )?;
            ensure!(errors.is_empty(), "the replica reports: {errors}");
            Ok(self.sql(&applied)?.trim() == "1")
        })
    }
}

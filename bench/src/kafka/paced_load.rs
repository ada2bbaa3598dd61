//! Transactions at a steady rate, each with the time of its row.

use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use testkit::TestServer;

/// Table and procedure of the load.
pub(super) const DEFINITIONS: &str = "create table bench.l (id bigint primary key auto_increment, at bigint);
    delimiter //
    create procedure bench.pace(n int, gap double) begin
      declare i int default 0; declare begun, pause double; set begun = unix_timestamp(sysdate(6));
      while i < n do
        set pause = begun + i * gap - unix_timestamp(sysdate(6));
        if pause > 0 then do sleep(pause); end if;
        insert into bench.l (at) values (unix_timestamp(sysdate(6)) * 1000000);
        set i = i + 1;
      end while; end//";

/// Number of sessions that write at once.
const SESSIONS: u32 = 8;

/// Load of transactions of one row.
#[derive(Clone, Copy)]
pub(super) struct PacedLoad {
    /// Transactions a second.
    pub(super) rate: u32,
    pub(super) seconds: u32,
}

impl PacedLoad {
    /// Returns the number of transactions.
    pub(super) const fn transactions(self) -> u64 {
        (self.rate / SESSIONS * self.seconds * SESSIONS) as u64
    }

    /// Runs the load.
    pub(super) fn run(self, source: &TestServer) -> Result<()> {
        let count = self.rate / SESSIONS * self.seconds;
        let gap = f64::from(SESSIONS) / f64::from(self.rate);
        let sessions: Result<Vec<Child>> = (0..SESSIONS)
            .map(|_| {
                let mut client = source.client().command()?;
                client.arg("-e").arg(format!("call bench.pace({count}, {gap})"));
                client.stdin(Stdio::null()).spawn().context("could not start a session")
            })
            .collect();
        for mut session in sessions? {
            ensure!(session.wait()?.success(), "a session has failed");
        }
        Ok(())
    }
}

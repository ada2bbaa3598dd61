//! Logs read while a real server writes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use logs::{EndOfLog, LogReader, ReadOutcome, Store, StoreFollower, read_keyring};
use testkit::{Launch, TestServer};

const TABLE: &str = "create database d; create table d.t (a int primary key auto_increment, b longtext);";

/// Changes a log in several ways while it is followed.
fn live(server: &mut TestServer) -> Result<()> {
    server.sql(TABLE)?;
    for step in 0..12 {
        server.sql(&format!(
            "set binlog_transaction_compression = {}; \
             insert into d.t (b) values ('one'), (repeat('x', {})); update d.t set b = concat(b, 'y');",
            step % 2,
            step * 20_000
        ))?;
        match step % 6 {
            1 => drop(server.sql("flush binary logs")?),
            3 => drop(server.sql("alter instance rotate binlog master key")?),
            5 if step > 6 => {
                server.stop()?;
                server.start_again(&[])?;
            }
            5 => {
                server.kill()?;
                server.start_again(&[])?;
            }
            _ => {}
        }
    }
    server.stop()
}

/// Follows until `over` is set, then to the end of the logs.
fn follow(follower: &mut StoreFollower, over: &AtomicBool) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let is_over = over.load(Ordering::SeqCst);
        while let Some(chunk) = follower.next_chunk(10_000)? {
            for event in chunk.iter() {
                event.raw.verify()?;
            }
            bytes.extend_from_slice(chunk.bytes());
        }
        if is_over {
            return Ok(bytes);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns all events of all logs in order, after the server was stopped.
fn all_events(logs: &[PathBuf], keyring: &PathBuf) -> Result<Vec<u8>> {
    let keyring = Arc::new(read_keyring(keyring)?);
    let mut bytes = Vec::new();
    for log in logs {
        let mut reader = LogReader::open(log)?.with_keyring(Arc::clone(&keyring));
        let end = loop {
            match reader.next_chunk(1 << 20)? {
                ReadOutcome::Some(chunk) => bytes.extend_from_slice(chunk.bytes()),
                ReadOutcome::End(end) => break end,
            }
        };
        ensure!(reader.is_encrypted(), "{} is not encrypted", log.display());
        ensure!(matches!(end, EndOfLog::Closed | EndOfLog::Open { .. }), "{} ends {end:?}", log.display());
    }
    Ok(bytes)
}

#[test]
fn encrypted_logs_are_followed_through_rotation_key_rotation_and_crash() -> Result<()> {
    let mut server = Launch::mysql().keyring().option("--binlog-encryption=ON").start()?;
    let keyring = server.datadir().join("keyring");
    let store = Store::open(server.datadir().join("binlog.index"))?;
    let first = store.logs().first().context("no log")?.clone();
    let over = AtomicBool::new(false);
    let (followed, done) = thread::scope(|scope| {
        let follower = scope.spawn(|| -> Result<Vec<u8>> {
            let mut follower = StoreFollower::new(store, first, Some(keyring.clone()))?;
            follow(&mut follower, &over)
        });
        let done = live(&mut server);
        over.store(true, Ordering::SeqCst);
        (follower.join(), done)
    });
    done?;
    let Ok(followed) = followed else { bail!("the follower panicked") };
    let logs = server.binlogs()?;
    ensure!(logs.len() == 7, "{} logs", logs.len());
    let mut expected = all_events(&logs, &keyring)?;
    let mut followed = followed?;
    // Crash recovery clears the in-use flag after the reader has passed it.
    clear_in_use(&mut expected);
    clear_in_use(&mut followed);
    ensure!(followed == expected, "followed {} bytes of {}", followed.len(), expected.len());
    Ok(())
}

/// Clears the in-use flag of every format description.
fn clear_in_use(events: &mut [u8]) {
    let mut at = 0;
    while let Some(head) = events.get_mut(at..at + 19) {
        if head[4] == 15 {
            head[17] &= !1;
        }
        at += u32::from_le_bytes([head[9], head[10], head[11], head[12]]) as usize;
    }
}

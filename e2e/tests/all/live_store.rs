//! A source's log written by the store: the same files as the source's, wherever the writer was stopped.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use binlog::MAGIC;
use e2e::received::same_logs;
use logs::{LogEncryption, StoreWriter};
use servers::{LinkOptions, LiveSource, ServerAddress};
use tempfile::TempDir;
use testkit::{Launch, TestServer};
use wire::{FormatOrigin, ReplicaEnd, ReplicaOptions, ReplicaStart, SemiSync, SourceEvent};

/// Receives events after the end of the store, up to the source's end or `events_max` events.
fn receive(server: &TestServer, directory: &Path, events_max: usize) -> Result<usize> {
    let mut store = StoreWriter::open(directory, LogEncryption::Plain { keyring: None })?;
    let (file, position) = store.store_end().map_or(("", MAGIC.len() as u64), |end| (end.log, end.next));
    let wishes = ReplicaOptions {
        server_id: 77,
        uuid: "0afe4a3e-5a5b-11ef-9f3a-000000000077".to_owned(),
        report_host: String::new(),
        report_port: 0,
        heartbeat: Duration::from_secs(1),
        semi_sync: SemiSync::Off,
        start: ReplicaStart::Position { file: file.as_bytes().to_vec(), position },
        end: ReplicaEnd::LastEvent,
    };
    let address = ServerAddress::parse(&format!("mysql://root@127.0.0.1:{}/", server.port()))?;
    let mut source = LiveSource::open(&address, &LinkOptions::default(), wishes)?;
    let mut count = 0;
    while let Some(live) = source.next()? {
        match live.arrival {
            SourceEvent::File { file, position } => store.begin_log(str::from_utf8(file)?, position)?,
            SourceEvent::Format { event, origin: FormatOrigin::File } => {
                store.append(MAGIC.len() as u64, event.bytes())?;
            }
            SourceEvent::Event { event, position } => {
                store.append(position, event.bytes())?;
                count += 1;
            }
            SourceEvent::Format { .. } | SourceEvent::Heartbeat { .. } | SourceEvent::Artificial(_) => {}
        }
        if count == events_max {
            break;
        }
    }
    store.sync()?;
    Ok(count)
}

#[test]
fn interrupted_stores_resume_until_they_equal_the_source() -> Result<()> {
    for launch in [Launch::mysql(), Launch::mariadb()] {
        let server = launch.start()?;
        let directory = TempDir::new()?;
        server.sql(
            "create database d; create table d.t (a int primary key auto_increment, b longtext);
             insert into d.t (b) values ('one'), (repeat('two', 100000)); flush binary logs;
             insert into d.t (b) values ('three'); flush binary logs; insert into d.t (b) values ('four')",
        )?;
        // A few events at a time; in between, the end of the last log is cut off, as by a crash.
        while receive(&server, directory.path(), 4)? == 4 {
            let store = StoreWriter::open(directory.path(), LogEncryption::Plain { keyring: None })?;
            let store_end = store.store_end().context("no logs")?;
            let log = fs::OpenOptions::new().write(true).open(directory.path().join(store_end.log))?;
            let end = store_end.next;
            drop(store);
            log.set_len(end - 1)?;
        }
        same_logs(&server, directory.path())?;
        server.sql("insert into d.t (b) values ('five'); flush binary logs")?;
        receive(&server, directory.path(), usize::MAX)?;
        same_logs(&server, directory.path())?;
    }
    Ok(())
}

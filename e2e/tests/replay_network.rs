//! A network between bintide and its target that fails: the same command again goes on, and repeats nothing.

use std::process::{Command, Output};

use anyhow::{Result, ensure};
use e2e::as_sql::{are_equal, checksum};
use e2e::program::bintide;
use e2e::replays::{source, target};
use testkit::{Cut, Dice, Launch, Proxy, Server, seed};

/// Every way to apply: the options.
const WAYS: [&[&str]; 4] = [
    &["--commit-order", "grouped", "--group-max", "7"],
    &["--commit-order", "strict"],
    &["--commit-order", "any"],
    &["--commit-order", "strict", "--apply-as", "sql"],
];

/// How often each way is cut.
const CUTS: usize = 6;

/// Changes of many kinds, of rows without a key too: what is done twice shows.
fn changes() -> Result<Server> {
    let source = source(&Launch::mysql(), &[])?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, n int); create table d.v (n int)")?;
    source.sql(&"insert into d.t (n) values (1), (2), (3); update d.t set n = n + 1;".repeat(120))?;
    let changes = "insert into d.v values (1), (2); alter table d.v add index i (n);
                   delete from d.v limit 1; alter table d.v drop index i;
                   create table d.u as select * from d.t; drop table d.u;";
    source.sql(&changes.repeat(8))?;
    source.sql(&"insert into d.v select n from d.t;".repeat(20))?;
    source.sql("flush binary logs")?;
    Ok(source)
}

fn replay(source: &Server, proxy: &Proxy, way: &[&str]) -> Result<Output> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("replay").args(source.binlogs()?).args(way).arg("--to");
    Ok(command.arg(format!("mysql://root@127.0.0.1:{}/", proxy.port())).output()?)
}

#[test]
fn a_cut_network_loses_nothing_and_repeats_nothing() -> Result<()> {
    let first = seed("BINTIDE_E2E_SEED");
    println!("seed {first}");
    let mut dice = Dice::new(first);
    let source = changes()?;
    for way in WAYS {
        let whole = target("--skip-log-bin")?;
        let proxy = Proxy::to(whole.port())?;
        let output = replay(&source, &proxy, way)?;
        ensure!(output.status.success(), "{way:?}: {}", String::from_utf8_lossy(&output.stderr));
        let bytes = usize::try_from(proxy.passed())?;
        let target = target("--skip-log-bin")?;
        let proxy = Proxy::to(target.port())?;
        for _ in 0..CUTS {
            let at = dice.below(bytes * 2 / CUTS) as u64;
            proxy.cut_after(at, *dice.pick(&[Cut::Close, Cut::Reset]));
            let output = replay(&source, &proxy, way)?;
            let said = String::from_utf8_lossy(&output.stderr);
            // One that was done before was not cut.
            ensure!(output.status.success() != proxy.is_cut(), "{way:?}, cut after {at}: {said}");
            ensure!(
                output.status.success() || said.contains("no connection to the server"),
                "{way:?}, cut after {at}: {said}"
            );
            proxy.mend();
        }
        let output = replay(&source, &proxy, way)?;
        ensure!(output.status.success(), "{way:?}: {}", String::from_utf8_lossy(&output.stderr));
        are_equal(&source, &target, checksum).map_err(|error| error.context(format!("{way:?}")))?;
    }
    Ok(())
}

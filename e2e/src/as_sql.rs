//! Logs applied as SQL statements, by any account, and servers of different kinds compared.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use replay::order::CommitOrder;
use replay::{ApplyAs, Log, MysqlTarget, Observer, Report, Source, Status};
use servers::Address;
use testkit::Server;

use crate::program::bintide;
use crate::replays::options;

/// An account of a server.
///
/// # Errors
/// When the server's socket is no part of an address.
pub fn address(server: &Server, user: &str) -> Result<Address> {
    let text = format!("mysql://{user}@localhost/?socket={}", server.socket().display());
    Address::parse(&text).context("the socket is no part of an address")
}

struct Quiet;

impl Observer for Quiet {
    fn at(&mut self, _: &Status<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Replays all of these logs.
///
/// # Errors
/// When that fails.
pub fn replay(logs: &[PathBuf], address: Address, apply_as: ApplyAs, order: CommitOrder) -> Result<Report> {
    let target = MysqlTarget::open_as(address, apply_as)?;
    let logs = logs.iter().cloned().map(Log::File).collect();
    Ok(replay::replay(&mut Source::new(logs, None, 1 << 30), &target, &options(order), &mut Quiet)?)
}

/// Replays all of a server's logs by the command, with these options, killing it again and again, and then to the end.
///
/// # Errors
/// When it fails in the end.
pub fn replay_killed(source: &Server, target: &Server, options: &[&str]) -> Result<()> {
    let command = || -> Result<Command> {
        let mut command = Command::new(bintide()?);
        command.env_clear().arg("replay").args(source.binlogs()?).args(options).arg("--to");
        command.arg(format!("mysql://root@localhost/?socket={}", target.socket().display()));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    };
    for pause in [40, 70, 110, 160, 230, 350, 500, 700] {
        let mut child = command()?.spawn()?;
        thread::sleep(Duration::from_millis(pause));
        child.kill()?;
        child.wait()?;
    }
    let output = command()?.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Every table of every database but our own, quoted, in order.
///
/// # Errors
/// When the server does not say.
pub fn tables(server: &Server) -> Result<Vec<String>> {
    let tables = server.sql(
        "select concat('`', replace(table_schema, '`', '``'), '`.`', replace(table_name, '`', '``'), '`')
         from information_schema.tables where table_type = 'BASE TABLE'
           and table_schema not in ('mysql', 'sys', 'performance_schema', 'information_schema', 'bintide')",
    )?;
    // Each server would put them in an order of its own.
    let mut tables: Vec<String> = tables.lines().map(str::to_owned).collect();
    tables.sort_unstable();
    Ok(tables)
}

/// Do both have the same tables, with the same rows?
///
/// # Errors
/// When they do not: the first table that differs is named.
pub fn are_equal(source: &Server, target: &Server, same: fn(&Server, &str) -> Result<String>) -> Result<()> {
    let (theirs, ours) = (tables(source)?, tables(target)?);
    ensure!(theirs == ours, "the source has {theirs:?}, the target {ours:?}");
    ensure!(!theirs.is_empty(), "there are tables");
    for table in &theirs {
        let (theirs, ours) = (same(source, table)?, same(target, table)?);
        ensure!(theirs == ours, "{table}: the source has\n{theirs}\nthe target\n{ours}");
    }
    Ok(())
}

/// What a server says of a table's rows: for two servers of the same kind.
///
/// # Errors
/// When it does not.
pub fn checksum(server: &Server, table: &str) -> Result<String> {
    server.sql(&format!("checksum table {table}"))
}

/// Every row of a table, its values in hexadecimal, in some order that both have: for servers of different kinds.
///
/// # Errors
/// When the server does not say.
pub fn rows(server: &Server, table: &str) -> Result<String> {
    let (database, name) = table.split_once("`.`").context("a table has two names")?;
    let names = server.sql(&format!(
        "select column_name, data_type from information_schema.columns
         where table_schema = '{}' and table_name = '{}' order by ordinal_position",
        database.trim_matches('`').replace("``", "`"),
        name.trim_matches('`').replace("``", "`"),
    ))?;
    let shown = names.lines().filter_map(|line| line.split_once('\t')).map(|(name, data_type)| {
        let name = format!("`{}`", name.replace('`', "``"));
        match data_type {
            // As numbers, they are what the log has.
            "enum" | "set" | "bit" => format!("{name}+0"),
            // As the number that it is, not as its few digits.
            "float" => format!("{name} + 0e0"),
            "char" | "varchar" | "text" | "tinytext" | "mediumtext" | "longtext" | "json" => {
                format!("hex(convert({name} using utf8mb4))")
            }
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "geometry"
            | "point" | "linestring" | "polygon" => format!("hex({name})"),
            _ => name,
        }
    });
    let shown: Vec<String> = shown.collect();
    let text = server.sql(&format!("select {} from {table}", shown.join(",")))?;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    Ok(lines.join("\n"))
}

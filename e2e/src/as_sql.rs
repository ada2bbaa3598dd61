//! Logs applied as SQL statements, by any account, and servers of different kinds compared.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use replay::order::CommitOrder;
use replay::{ApplyAs, MysqlTarget, Report};
use servers::Address;
use testkit::Server;

use crate::command::command;
use crate::replays::{kill_and_go_on, options, replay_on, tables};

/// An account of a server.
///
/// # Errors
/// When the server's socket is no part of an address.
pub fn address(server: &Server, user: &str) -> Result<Address> {
    let text = format!("mysql://{user}@localhost/?socket={}", server.socket().display());
    Address::parse(&text).context("the socket is no part of an address")
}

/// Replays all of these logs.
///
/// # Errors
/// When that fails.
pub fn replay(logs: &[PathBuf], address: Address, apply_as: ApplyAs, order: CommitOrder) -> Result<Report> {
    replay_on(&MysqlTarget::open_as(address, apply_as)?, logs, &options(order))
}

/// Replays all of a server's logs by the command, with these options, killing it again and again, and then to the end.
///
/// # Errors
/// When it fails in the end.
pub fn replay_killed(source: &Server, target: &Server, options: &[&str]) -> Result<()> {
    let logs = source.binlogs()?;
    kill_and_go_on(|| command(&logs, target, options), [40, 70, 110, 160, 230, 350, 500, 700])
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

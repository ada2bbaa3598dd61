//! Replays logs as SQL statements, with any account, and compares servers of different kinds.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use mysql_target::{ApplyAs, MysqlTarget};
use replay::CommitOrder;
use replay::ReplayReport;
use servers::ServerAddress;
use sql::quote::quote_name;
use testkit::TestServer;

use crate::command::command;
use crate::replays::{kill_and_resume, options, replay_on, tables};

/// Edge values of every type that MySQL and MariaDB share.
pub const TYPES: &str = "create database d; use d;
    create table n (id int primary key auto_increment, a tinyint, b tinyint unsigned, c smallint unsigned, d mediumint,
      e mediumint unsigned, f int unsigned, g bigint, h bigint unsigned, i float, j double, k decimal(65,30), l decimal(5,2),
      m bit(1), n bit(64), o year);
    insert into n values (1, -128, 255, 65535, -8388608, 16777215, 4294967295, -9223372036854775808, 18446744073709551615,
      -3.4028234e38, 1.7976931348623157e308, '-12345678901234567890123456789012345.123456789012345678901234567890', -999.99,
      b'1', b'1111111111111111111111111111111111111111111111111111111111111111', 2155),
      (2, 127, 0, 0, 8388607, 0, 0, 9223372036854775807, 0, 1.1754944e-38, 5e-324, 0, 0.01, b'0', b'0', 0),
      (3, 0, 1, 1, 0, 1, 1, -1, 9223372036854775808, 0.1, 0.1, 1e-30, -0.01, null, b'1010', 1901);
    create table t (id int primary key, a date, b time, c time(6), d datetime, e datetime(6), f timestamp null, g timestamp(6) null,
      h timestamp default current_timestamp on update current_timestamp);
    set sql_mode = 'ALLOW_INVALID_DATES';
    insert into t values (1, '0000-00-00', '-838:59:59', '-00:00:00.000001', '0000-00-00', '9999-12-31 23:59:59.999999',
        '0000-00-00', '2038-01-19 03:14:07.999999', '2020-02-02 02:02:02'),
      (2, '2026-02-31', '838:59:59', '12:00:00.5', '1000-01-01', '2026-00-00 00:00:00', '1970-01-01 00:00:01', null, '1999-01-01');
    set sql_mode = default;
    create table s (id int primary key, a char(5), b varchar(20) character set latin1, c varchar(20) character set utf16,
      d text character set gbk, e tinytext, f mediumtext, g longtext, h binary(4), i varbinary(20), j blob, k longblob,
      l enum('x','y','é'), m set('p','q','r'), n varchar(9) character set koi8r, o char(3) character set sjis);
    insert into s values (1, 'a ', 'é\\'\"\\\\', '漢😀', '汉', '', repeat('m', 70000), repeat('l', 100000), 'a', x'00ff', x'', x'27',
      'é', 'p,r', 'ж', 'あ'), (2, '', null, '', null, null, null, null, x'00', '', null, null, null, '', '', '');
    set sql_mode = ''; insert into s (id, l) values (3, 'wrong'); set sql_mode = default;
    create table g (id int primary key, a geometry, b point, c linestring, d polygon);
    insert into g values (1, ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POINT(-1.5 1e10)'),
      ST_GeomFromText('LINESTRING(0 0, 1 1)'), ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'));
    create table keyless (a int, b float, c decimal(9,3), d varchar(9), e datetime(3), f bit(9), g enum('a','b'), h blob,
      i char(4) character set utf16, j year, k set('a','b'), l time(2), m binary(3));
    insert into keyless values (1, 0.1, 1.5, 'a', '2020-01-01 00:00:00.123', 5, 'a', 'x', 'é', 2000, 'a,b', '-1:2:3.04', 'a'),
      (1, 0.1, 1.5, 'A', '2020-01-01 00:00:00.123', 5, 'a', 'x', 'é', 2000, 'a,b', '-1:2:3.04', 'a'),
      (null, null, null, null, null, null, null, null, null, null, null, null, null);
    update keyless set a = a + 1, i = 'x' where d = binary 'A'; delete from keyless where a is null;
    create table computed (id int primary key, a int, b int as (a + 1) virtual, c int as (a * 2) stored, unique (c));
    insert into computed (id, a) values (1, 1), (2, 2); update computed set a = 10 where id = 2; delete from computed where id = 1;
    create table word (w varchar(20) character set latin1 primary key, n int); insert into word values ('É', 1), ('b ', 2);
    update word set n = n + 1 where w = 'É'; update word set w = 'C' where w = 'b '; delete from word where w = 'é';
    update n set b = b - 1 where id = 1; update t set a = '2020-01-01'; update s set d = '字' where id = 1; update g set b = null;
    delete from n where id = 2;";

/// Returns the address of a server for an account.
///
/// # Errors
/// Fails if the socket's path cannot be part of an address.
pub fn address(server: &TestServer, user: &str) -> Result<ServerAddress> {
    let text = format!("mysql://{user}@localhost/?socket={}", server.socket().display());
    ServerAddress::parse(&text).context("the socket's path cannot be part of an address")
}

/// Replays all of these logs.
///
/// # Errors
/// Fails if the replay fails.
pub fn replay(
    logs: &[PathBuf],
    address: ServerAddress,
    apply_as: ApplyAs,
    order: CommitOrder,
) -> Result<ReplayReport> {
    replay_on(&MysqlTarget::open_as(address, apply_as)?, logs, &options(order))
}

/// Replays all logs of a server with the command and these options. Kills it repeatedly, then lets it finish.
///
/// # Errors
/// Fails if the last run fails.
pub fn replay_killed(source: &TestServer, target: &TestServer, options: &[&str]) -> Result<()> {
    let logs = source.binlogs()?;
    kill_and_resume(|| command(&logs, target, options), [40, 70, 110, 160, 230, 350, 500, 700])
}

/// Checks that both servers have the same tables with the same rows.
///
/// # Errors
/// Fails if a table differs, with the name of the first one.
pub fn are_equal(
    source: &TestServer,
    target: &TestServer,
    same: fn(&TestServer, &str) -> Result<String>,
) -> Result<()> {
    let (theirs, ours) = (tables(source)?, tables(target)?);
    ensure!(theirs == ours, "the source has {theirs:?}, the target {ours:?}");
    ensure!(!theirs.is_empty(), "the source has no tables");
    for table in &theirs {
        let (theirs, ours) = (same(source, table)?, same(target, table)?);
        ensure!(theirs == ours, "{table}: the source has\n{theirs}\nthe target\n{ours}");
    }
    Ok(())
}

/// Returns every row of a table, with hexadecimal values, in the same order on servers of different kinds.
///
/// # Errors
/// Fails if a query fails.
pub fn rows(server: &TestServer, table: &str) -> Result<String> {
    let (database, name) = table.split_once("`.`").context("a table name without a database")?;
    let names = server.sql(&format!(
        "select column_name, data_type from information_schema.columns
         where table_schema = '{}' and table_name = '{}' order by ordinal_position",
        database.trim_matches('`').replace("``", "`"),
        name.trim_matches('`').replace("``", "`"),
    ))?;
    let shown = names.lines().filter_map(|line| line.split_once('\t')).map(|(name, data_type)| {
        let name = quote_name(name);
        match data_type {
            // The log contains these values as numbers.
            "enum" | "set" | "bit" => format!("{name}+0"),
            // Without the addition, the server rounds the number to fewer digits.
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

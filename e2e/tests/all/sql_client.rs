//! The SQL client on real servers, new and old: the servers in `BINTIDE_SERVERS`, or a selection by default.

use std::ops::ControlFlow;

use anyhow::{Context, Result, bail, ensure};
use servers::{
    CancelToken, ConnectionError, LinkOptions, LoadDataCounts, PasswordSource, PublicKeySource,
    ServerAddress, ServerFacts, ServerLink, SqlConnection, SslMode, StatementParameter, TlsPolicy, check_fit,
};
use testkit::{Launch, ServerFlavour, TestPackage, TestServer};
use wire::CleartextPolicy;

const PASSWORD: &str = "secret";
/// The server's max_allowed_packet.
const PACKET_MAX: usize = 32 << 20;

fn start(package: TestPackage) -> Result<TestServer> {
    let options = ["--server-id=1", "--local-infile=1", "--max-allowed-packet=32M"];
    let server = Launch::of(package).options(options).start()?;
    server.sql(
        "create user sql_client@'%' identified by 'secret'; grant all on *.* to sql_client@'%';
         create database d default character set utf8mb4",
    )?;
    Ok(server)
}

fn address(server: &TestServer, mode: SslMode) -> ServerAddress {
    ServerAddress {
        user: "sql_client".to_owned(),
        password: PasswordSource::Text(PASSWORD.to_owned()),
        host: "127.0.0.1".to_owned(),
        port: server.port(),
        socket: None,
        tls: TlsPolicy::with_mode(mode),
        public_key: PublicKeySource::Server,
        compressions: vec![None],
        cleartext: CleartextPolicy::Refuse,
        timeout: ServerAddress::DEFAULT_TIMEOUT,
        cancel: CancelToken::default(),
    }
}

/// Runs `LOAD DATA LOCAL` with this file.
fn load_bytes(connection: &mut SqlConnection, sql: &[u8], file: Vec<u8>) -> Result<LoadDataCounts> {
    let counts = connection.load(sql, file.len() as u64, Box::new(std::io::Cursor::new(file)))?;
    counts.context("the answer has no row counts")
}

#[test]
fn all_servers_are_supported() -> Result<()> {
    let mut packages = TestPackage::from_env()?;
    packages.extend([TestPackage::Mysql, TestPackage::MariaDb]);
    packages.sort();
    packages.dedup();
    for package in packages {
        check_server(package).with_context(|| package.name())?;
    }
    Ok(())
}

fn check_server(package: TestPackage) -> Result<()> {
    let server = start(package)?;
    login(&server, package)?;
    let mut connection = SqlConnection::open(&address(&server, SslMode::Disabled))?;
    several_statements(&mut connection)?;
    let mut single = SqlConnection::open_for_single_statements(&address(&server, SslMode::Disabled))?;
    ensure!(matches!(single.run("select 1; select 2"), Err(ConnectionError::Refused { code: 1064, .. })));
    rows(&mut connection)?;
    prepared(&mut connection)?;
    // Client and server split packets at the same sizes.
    if matches!(package, TestPackage::Mysql | TestPackage::MariaDb) {
        large(&mut connection)?;
        small_packets(&server)?;
    }
    files(&mut connection)?;
    bytes_of_other_character_sets(&mut connection)?;
    drop(connection);
    // By socket too, as the mysql client does.
    let by_socket =
        ServerAddress { socket: Some(server.socket().to_path_buf()), ..address(&server, SslMode::Preferred) };
    server.sql("create user sql_client@localhost identified by 'secret'")?;
    ensure!(SqlConnection::open(&by_socket)?.value("SELECT 1")?.as_deref() == Some("1"));
    Ok(())
}

/// Connections to servers that offer TLS are encrypted by default; an error names servers whose TLS is not
/// supported.
fn login(server: &TestServer, package: TestPackage) -> Result<()> {
    let preferred = address(server, SslMode::Preferred);
    let has_only_dhe = matches!(package, TestPackage::Mysql8_0_15 | TestPackage::Mysql8_0_12);
    match SqlConnection::open(&preferred) {
        Ok(mut connection) => {
            ensure!(!has_only_dhe, "the server has a TLS that bintide supports");
            let cipher = connection.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")?;
            let cipher = cipher.into_iter().flatten().nth(1).flatten().unwrap_or_default();
            let offers = package.flavour() == Some(ServerFlavour::Mysql) && package.version() >= (8, 0)
                || package.flavour() == Some(ServerFlavour::MariaDb) && package.version() >= (11, 4);
            ensure!(cipher.is_empty() != offers, "the cipher is {:?}", String::from_utf8_lossy(&cipher));
        }
        Err(error) if has_only_dhe => {
            let message = error.to_string();
            ensure!(message.contains("(8.0.1") && message.contains("--ssl-mode=DISABLED"), "{message}");
        }
        Err(error) => bail!("{error}"),
    }
    let wrong = ServerAddress {
        password: PasswordSource::Text("wrong".to_owned()),
        ..address(server, SslMode::Disabled)
    };
    for refused in
        [SqlConnection::open(&wrong).map(drop), ServerLink::open(&wrong, &LinkOptions::default()).map(drop)]
    {
        ensure!(matches!(refused, Err(ConnectionError::Refused { code: 1045, .. })), "{refused:?}");
    }
    Ok(())
}

fn several_statements(connection: &mut SqlConnection) -> Result<()> {
    connection.run("CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(20)); INSERT INTO d.t VALUES (1, 'x')")?;
    let mut is_first_done = false;
    let error = connection
        .run_then("UPDATE d.t SET b = 'y'; SELECT 1; SELECT nonsense; DELETE FROM d.t", || {
            is_first_done = true
        });
    ensure!(matches!(error, Err(ConnectionError::Refused { code: 1054, .. })), "{error:?}");
    ensure!(is_first_done, "the first statement was not reported as done");
    let mut is_called = false;
    let error = connection.run_then("SELECT nonsense; SELECT 1", || is_called = true);
    ensure!(error.is_err() && !is_called, "the failed statement was reported as done");
    // Statements after the failed one were not run, and the connection is still usable.
    let left = connection.rows("SELECT a, b, NULL, '' FROM d.t")?;
    let text = |text: &str| Some(text.as_bytes().to_vec());
    ensure!(left == [vec![text("1"), text("y"), None, text("")]], "{left:?}");
    let id = connection.value("SELECT CONNECTION_ID()")?;
    ensure!(id == Some(connection.id().to_string()), "{id:?}, not {}", connection.id());
    Ok(())
}

fn rows(connection: &mut SqlConnection) -> Result<()> {
    let named = connection.named_rows("SELECT 1 AS one, NULL AS none UNION SELECT 2, 'x'")?;
    let names: Vec<&str> = named.iter().flatten().map(|(name, _)| name.as_str()).collect();
    ensure!(names == ["one", "none", "one", "none"], "{names:?}");
    let mut count = 0;
    // All statements are sent, and the remaining results are skipped.
    let many =
        "SELECT x.a FROM (SELECT 1 AS a UNION SELECT 2 UNION SELECT 3) x, information_schema.character_sets";
    connection.each_row(many, &mut |_| {
        count += 1;
        if count == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    ensure!(count == 5 && connection.value("SELECT 7")?.as_deref() == Some("7"));
    ensure!(connection.value("SELECT NULL")?.is_none());
    Ok(())
}

fn prepared(connection: &mut SqlConnection) -> Result<()> {
    connection.run(
        "CREATE TABLE d.p (id INT PRIMARY KEY, i BIGINT, u BIGINT UNSIGNED, f FLOAT, g DOUBLE,
         s VARCHAR(20) CHARACTER SET utf8mb4, b LONGBLOB)",
    )?;
    let insert = "INSERT INTO d.p VALUES (?, ?, ?, ?, ?, ?, ?)";
    let row = |id: i64| {
        let text = |text: &str| StatementParameter::Bytes(text.as_bytes().to_vec());
        vec![
            StatementParameter::Int(id),
            StatementParameter::Int(i64::MIN),
            StatementParameter::UInt(u64::MAX),
            StatementParameter::Float(1.5),
            StatementParameter::Double(-2.25),
            text("grün"),
            StatementParameter::Null,
        ]
    };
    for id in 0..3 {
        ensure!(connection.execute(insert, row(id))? == 1);
    }
    let found = connection.rows("SELECT i, u, f, g, HEX(s), b FROM d.p WHERE id = 2")?;
    let text: Vec<String> = found[0].iter().flatten().map(|v| String::from_utf8_lossy(v).into()).collect();
    let expected = ["-9223372036854775808", "18446744073709551615", "1.5", "-2.25", "6772C3BC6E"];
    ensure!(text == expected && found[0][5].is_none(), "{text:?}");
    // The count includes rows that were found but not changed.
    ensure!(
        connection.execute("UPDATE d.p SET f = 1.5 WHERE id < ?", vec![StatementParameter::UInt(2)])? == 2
    );
    let error = connection.execute(insert, row(2));
    ensure!(matches!(error, Err(ConnectionError::Refused { code: 1062, .. })), "{error:?}");
    let error = connection.execute("INSERT INTO d.nowhere VALUES (?)", vec![StatementParameter::Null]);
    ensure!(matches!(error, Err(ConnectionError::Refused { code: 1146, .. })), "{error:?}");
    let error = connection.execute(insert, vec![StatementParameter::Null]);
    ensure!(
        matches!(error, Err(ConnectionError::StatementShape { parameters: 7, columns: 0, values: 1 })),
        "{error:?}"
    );
    // More statements than the cache holds: old ones are closed, and prepared again.
    for _ in 0..2 {
        for number in 0..100 {
            let sql = format!("UPDATE d.p SET i = ? WHERE id = {number}");
            let changed = connection.execute(&sql, vec![StatementParameter::Int(number)])?;
            ensure!(changed == u64::from(number < 3), "{changed} of {number}");
        }
    }
    let kept = connection.rows("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")?;
    let kept = kept.into_iter().flatten().nth(1).flatten().unwrap_or_default();
    let kept: u32 = String::from_utf8_lossy(&kept).parse()?;
    ensure!((50..=65).contains(&kept), "the server holds {kept} statements");
    Ok(())
}

/// Tests packets of more than 16 MiB in both directions, and parameters in pieces.
fn large(connection: &mut SqlConnection) -> Result<()> {
    let size = 17_000_000;
    let sql = format!("SELECT '{}'", "x".repeat(size));
    ensure!(connection.value(&sql)?.is_some_and(|text| text.len() == size), "the size differs");
    let bytes = |size: usize, byte: u8| StatementParameter::Bytes(vec![byte; size]);
    connection.run("CREATE TABLE d.l (id INT PRIMARY KEY, a LONGBLOB, b LONGBLOB, c LONGTEXT, d INT)")?;
    let insert = "INSERT INTO d.l VALUES (?, ?, ?, ?, ?)";
    // 3 rows are less than 16 MiB together, 9 rows exceed the server's max_allowed_packet: each value is sent
    // separately.
    for (id, millions) in [(1, 3), (2, 9)] {
        let row = vec![
            StatementParameter::Int(id),
            bytes(millions * 2_000_000, 0),
            bytes(0, 0),
            bytes(millions * 2_000_000, b'x'),
            StatementParameter::Null,
        ];
        ensure!(check_fit(&row, PACKET_MAX).is_ok());
        ensure!(connection.execute(insert, row.clone())? == 1);
        let error = connection.execute(insert, row);
        ensure!(matches!(error, Err(ConnectionError::Refused { code: 1062, .. })), "{error:?}");
        let found = connection.rows(&format!(
            "SELECT LENGTH(a), LENGTH(b), LENGTH(c), d IS NULL, c = REPEAT('x', LENGTH(c)) FROM d.l WHERE id = {id}"
        ))?;
        let text: Vec<String> =
            found[0].iter().flatten().map(|v| String::from_utf8_lossy(v).into()).collect();
        let size = (millions * 2_000_000).to_string();
        ensure!(text == [size.as_str(), "0", &size, "1", "1"], "{text:?}");
    }
    Ok(())
}

/// Tests values that fit into a packet each but not together, and pieces smaller than usual.
fn small_packets(server: &TestServer) -> Result<()> {
    let load = b"LOAD DATA LOCAL INFILE 'any' INTO TABLE d.s FIELDS TERMINATED BY ',' (a, b)";
    for (id, packet_max, size) in [(1, 4 << 20, 3 << 20), (2, 256 << 10, 200 << 10)] {
        server.sql(&format!("set global max_allowed_packet = {packet_max}"))?;
        let mut connection = SqlConnection::open(&address(server, SslMode::Disabled))?;
        ensure!(ServerFacts::query(&mut connection)?.packet_max == packet_max);
        connection.run("CREATE TABLE IF NOT EXISTS d.s (id INT, a LONGBLOB, b LONGBLOB)")?;
        let row = vec![
            StatementParameter::Int(id),
            StatementParameter::Bytes(vec![b'x'; size]),
            StatementParameter::Bytes(vec![b'y'; size]),
        ];
        ensure!(check_fit(&row, packet_max).is_ok());
        ensure!(connection.execute("INSERT INTO d.s VALUES (?, ?, ?)", row)? == 1);
        load_bytes(&mut connection, load, "some,text\n".repeat(80_000).into_bytes())?;
        let found = connection.value(&format!(
            "SELECT CONCAT(SUM(LENGTH(a)), ' ', COUNT(*)) FROM d.s WHERE id = {id} OR id IS NULL"
        ))?;
        let lines = 80_000 * id as usize;
        ensure!(found == Some(format!("{} {}", size + lines * 4, lines + 1)), "{packet_max}: {found:?}");
    }
    server.sql(&format!("set global max_allowed_packet = {PACKET_MAX}")).map(drop)
}

fn files(connection: &mut SqlConnection) -> Result<()> {
    connection.run("CREATE TABLE d.f (a INT PRIMARY KEY, b TEXT)")?;
    let mut file = Vec::new();
    for number in 0..60_000 {
        file.extend_from_slice(format!("{number}\tsome more text\n").as_bytes());
    }
    let load = b"LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE d.f";
    load_bytes(connection, load, file)?;
    ensure!(connection.value("SELECT COUNT(*) FROM d.f")?.as_deref() == Some("60000"));
    let counts = load_bytes(connection, load, b"7\tseven\n60000\tnew\n".to_vec())?;
    // MySQL 5.6 does not warn of the skipped row.
    ensure!(matches!(counts, LoadDataCounts { records: 2, deleted: 0, skipped: 1, .. }), "{counts:?}");
    connection.run("DELETE FROM d.f WHERE a = 60000")?;
    // The client did not send LOAD DATA LOCAL, so it must not read a file for the server.
    let error = connection.run_bytes(load);
    ensure!(matches!(error, Err(ConnectionError::FileRequest { .. })), "{error:?}");
    ensure!(connection.value("SELECT COUNT(*) FROM d.f")?.as_deref() == Some("60000"));
    Ok(())
}

/// Tests statements in the form that logs have, including those that cannot be prepared.
fn bytes_of_other_character_sets(connection: &mut SqlConnection) -> Result<()> {
    connection.run("SET NAMES latin1")?;
    connection.run_bytes(b"CREATE TABLE d.b (a VARCHAR(20) CHARACTER SET utf8)")?;
    connection.run_bytes(b"INSERT INTO d.b VALUES ('gr\xfcn')")?;
    connection.run_bytes(b"CREATE TRIGGER d.r BEFORE INSERT ON d.b FOR EACH ROW SET NEW.a = 'gr\xfc\xdf'")?;
    connection.run("INSERT INTO d.b VALUES ('')")?;
    connection.run("SET NAMES utf8mb4")?;
    let found = connection.rows("SELECT a FROM d.b ORDER BY a DESC")?;
    let text: Vec<String> =
        found.into_iter().flatten().flatten().map(|value| String::from_utf8_lossy(&value).into()).collect();
    ensure!(text.contains(&"grün".to_owned()) && text.contains(&"grüß".to_owned()), "{text:?}");
    Ok(())
}

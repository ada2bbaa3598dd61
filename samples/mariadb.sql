-- MariaDB 10.11: its own GTIDs, ANNOTATE_ROWS, compressed events, version 1 row events.
--
-- mariadb-log mariadb.binlog --binlog-format=ROW --binlog-annotate-row-events=OFF
-- mariadb-log mariadb-annotate.binlog --binlog-format=ROW --binlog-row-metadata=FULL
-- mariadb-log mariadb-compressed.binlog --binlog-format=ROW --log-bin-compress=ON --log-bin-compress-min-len=10
-- mariadb-log mariadb-statements.binlog --binlog-format=STATEMENT
-- mariadb-log mariadb-statements-compressed.binlog --binlog-format=STATEMENT --log-bin-compress=ON --log-bin-compress-min-len=10
-- mariadb-log mariadb-checksum.binlog --binlog-format=ROW --binlog-checksum=CRC32 --gtid-domain-id=7 --server-id=42
SET timestamp = 1700002300;
CREATE DATABASE maria;
USE maria;
CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(300), d DECIMAL(10, 3), dt DATETIME(6), ts TIMESTAMP(3) NULL, tm TIME(2), j JSON, e ENUM('x', 'y'), s SET('p', 'q'), b BIT(10),
  u UUID, i6 INET6, i4 INET4, f FLOAT, db DOUBLE, y YEAR, lb LONGBLOB, g GEOMETRY);
INSERT INTO t VALUES (1, 'first', 1.5, '2026-11-21 01:02:03.456789', '2026-11-21 01:02:03.456', '-10:11:12.13', '{"a": 1}', 'x', 'p,q', 5,
  '123e4567-e89b-12d3-a456-426655440000', '2001:db8::1', '192.0.2.1', 1.5, 2.5, 2026, REPEAT('long ', 200), POINT(1, 2));
INSERT INTO t (a) VALUES (REPEAT('repeated ', 30)), (NULL);
UPDATE t SET a = CONCAT(a, '!'), d = 2 WHERE id < 3;
DELETE FROM t WHERE id = 1;
BEGIN; INSERT INTO t (a) VALUES ('one'); INSERT INTO t (a) VALUES ('two'); SAVEPOINT s; DELETE FROM t WHERE a = 'one'; ROLLBACK TO s; COMMIT;
CREATE TABLE isam (id INT PRIMARY KEY) ENGINE = MyISAM;
INSERT INTO isam VALUES (1);
BEGIN; INSERT INTO isam VALUES (2); INSERT INTO t (a) VALUES ('mixed'); COMMIT;
CREATE TABLE copied SELECT id, a FROM t;
SET @v = 'user variable', @n = 12;
INSERT INTO t (a, d) VALUES (@v, @n), (RAND(5), LAST_INSERT_ID());
XA START 'x'; INSERT INTO t (a) VALUES ('xa'); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x';
SET gtid_domain_id = 3; INSERT INTO t (a) VALUES ('another domain'); SET gtid_domain_id = 0;
SET gtid_seq_no = 5000; INSERT INTO t (a) VALUES ('a number by hand');
CREATE SEQUENCE seq; ALTER SEQUENCE seq RESTART 50;
CREATE TABLE versioned (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING; INSERT INTO versioned VALUES (1, 1); UPDATE versioned SET a = 2; DELETE FROM versioned;
CREATE TABLE packed (id INT, v VARCHAR(1000) COMPRESSED, b BLOB COMPRESSED); INSERT INTO packed VALUES (1, REPEAT('abc', 200), REPEAT('x', 500));
LOAD DATA LOCAL INFILE 'load-data.tsv' INTO TABLE t (id, a, @c) SET id = id + 9000;
ALTER TABLE t ADD COLUMN extra INT;

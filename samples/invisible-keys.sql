-- Generated invisible primary keys.
--
-- log invisible-keys.binlog
-- log invisible-keys-full-metadata.binlog --binlog-row-metadata=FULL
SET timestamp = 1700001300;
CREATE DATABASE gipk;
USE gipk;
SET sql_generate_invisible_primary_key = ON;
CREATE TABLE t (a INT, b VARCHAR(20));
INSERT INTO t VALUES (1, 'x'), (2, 'y');
UPDATE t SET a = 3 WHERE b = 'y';
DELETE FROM t WHERE a = 1;
CREATE TABLE c AS SELECT * FROM t;
SET sql_generate_invisible_primary_key = OFF;
CREATE TABLE without (a INT, b INT INVISIBLE);
INSERT INTO without (a, b) VALUES (1, 2);

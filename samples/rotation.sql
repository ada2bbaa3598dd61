-- Several files and their index, rotated by size and by hand; a source with the largest server id.
--
-- directory rotation --max-binlog-size=4096 --server-id=4294967295
SET timestamp = 1700001700;
CREATE DATABASE rotation;
USE rotation;
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(2000));
INSERT INTO t VALUES (1, REPEAT('a', 1000));
INSERT INTO t VALUES (2, REPEAT('b', 1000));
INSERT INTO t VALUES (3, REPEAT('c', 1500));
FLUSH BINARY LOGS;
FLUSH BINARY LOGS;
INSERT INTO t VALUES (4, REPEAT('d', 2000));
SET gtid_next = 'AUTOMATIC:tagged';
INSERT INTO t VALUES (5, REPEAT('e', 2000));
SET gtid_next = 'AUTOMATIC';
UPDATE t SET a = 'short';
DELETE FROM t;
INSERT INTO t VALUES (6, 'the last file');

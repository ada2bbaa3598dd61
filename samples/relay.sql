-- The relay logs of a real replica, with their index; the source's transactions plain and compressed.
--
-- relay relay
-- relay relay-compressed --binlog-transaction-compression=ON
SET timestamp = 1700001900;
CREATE DATABASE relayed;
USE relayed;
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(200));
INSERT INTO t VALUES (1, 'first');
BEGIN; INSERT INTO t VALUES (2, REPEAT('x', 200)), (3, REPEAT('y', 200)); UPDATE t SET a = 'two' WHERE id = 2; COMMIT;
FLUSH BINARY LOGS;
SET gtid_next = 'AUTOMATIC:tag';
DELETE FROM t WHERE id = 1;
SET gtid_next = 'AUTOMATIC';
XA START 'x'; INSERT INTO t VALUES (4, 'xa'); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x';
SET SESSION binlog_format = STATEMENT;
INSERT INTO t VALUES (5, CONCAT('statement ', @unset));

-- Transactions of several megabytes whose payloads are small, and long rows.
--
-- log large.binlog --binlog-transaction-compression=ON
-- log large-level-22.binlog --binlog-transaction-compression=ON --binlog-transaction-compression-level-zstd=22
SET timestamp = 1700000800;
CREATE DATABASE large;
USE large;
SET SESSION cte_max_recursion_depth = 1000000;
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(200), n INT);
INSERT INTO t WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 30000) SELECT n, REPEAT('the same again ', 8), 0 FROM r;
UPDATE t SET n = 1 WHERE id <= 10000;
BEGIN;
DELETE FROM t WHERE id > 25000;
INSERT INTO t VALUES (70000, 'in between', 2);
UPDATE t SET a = 'short' WHERE id > 20000;
COMMIT;
CREATE TABLE blobs (id INT PRIMARY KEY, b LONGBLOB);
INSERT INTO blobs VALUES (1, REPEAT('0123456789abcdef', 200000));
UPDATE blobs SET b = CONCAT(b, b);

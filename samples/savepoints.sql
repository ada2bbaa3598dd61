-- Savepoints, rollbacks, transactions that change nothing, autocommit off.
--
-- log savepoints.binlog
-- log savepoints-compressed.binlog --binlog-transaction-compression=ON
SET timestamp = 1700001100;
CREATE DATABASE saves;
USE saves;
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20));
BEGIN; INSERT INTO t VALUES (1, 'kept'); SAVEPOINT one; INSERT INTO t VALUES (2, 'lost'); ROLLBACK TO one; INSERT INTO t VALUES (3, 'kept'); COMMIT;
BEGIN; SAVEPOINT `odd ``name; é`; INSERT INTO t VALUES (4, 'kept'); SAVEPOINT two; INSERT INTO t VALUES (5, 'kept'); RELEASE SAVEPOINT two; COMMIT;
BEGIN; INSERT INTO t VALUES (6, 'lost'); ROLLBACK;
BEGIN; UPDATE t SET a = 'nothing' WHERE id = 99; COMMIT;
UPDATE t SET a = a;
START TRANSACTION READ ONLY; SELECT * FROM t; COMMIT;
START TRANSACTION WITH CONSISTENT SNAPSHOT; INSERT INTO t VALUES (7, 'snapshot'); COMMIT AND CHAIN; INSERT INTO t VALUES (8, 'chained'); COMMIT;
SET autocommit = 0;
INSERT INTO t VALUES (9, 'by itself'); INSERT INTO t VALUES (10, 'by itself'); COMMIT;
INSERT INTO t VALUES (11, 'closed by DDL');
CREATE TABLE u (id INT);
SET autocommit = 1;
BEGIN; INSERT INTO t VALUES (12, 'a'); INSERT INTO u VALUES (1); SAVEPOINT a; DELETE FROM t; DELETE FROM u; ROLLBACK TO a; UPDATE u SET id = 2; COMMIT;
LOCK TABLES t WRITE; INSERT INTO t VALUES (13, 'locked'); UNLOCK TABLES;

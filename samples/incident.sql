-- An incident: a change to a MyISAM table that did not fit into the log's cache.
--
-- directory incident --max-binlog-stmt-cache-size=4096 --binlog-stmt-cache-size=4096
SET timestamp = 1700002100;
CREATE DATABASE incident;
USE incident;
CREATE TABLE t (id INT, a VARCHAR(2000)) ENGINE = MyISAM;
-- fails
INSERT INTO t VALUES (1, REPEAT('a', 2000)), (2, REPEAT('b', 2000)), (3, REPEAT('c', 2000)), (4, REPEAT('d', 2000)), (5, REPEAT('e', 2000)), (6, REPEAT('f', 2000)), (7, REPEAT('g', 2000));
INSERT INTO t VALUES (8, 'after');

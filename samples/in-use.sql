-- A log that was being written when the server was killed: flagged in use; and one cut in the middle of an event.
--
-- killed in-use.binlog
-- torn torn.binlog
SET timestamp = 1700001800;
CREATE DATABASE torn;
USE torn;
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20));
INSERT INTO t VALUES (1, 'whole');
INSERT INTO t VALUES (2, 'the last');

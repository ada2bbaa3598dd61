-- Encrypted logs, and the data file of component_keyring_file that opens them; the key was rotated on the way.
--
-- encrypted encrypted --binlog-encryption=ON
-- encrypted encrypted-compressed --binlog-encryption=ON --binlog-transaction-compression=ON
SET timestamp = 1700002000;
CREATE DATABASE secret;
USE secret;
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(200));
INSERT INTO t VALUES (1, REPEAT('nobody sees this ', 10));
ALTER INSTANCE ROTATE BINLOG MASTER KEY;
INSERT INTO t VALUES (2, REPEAT('nor this ', 10));
FLUSH BINARY LOGS;
UPDATE t SET a = 'third file';

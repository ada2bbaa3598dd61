-- No GTIDs (gtid_mode=OFF), also with both engines in one transaction.
--
-- log anonymous.binlog --gtid-mode=OFF --enforce-gtid-consistency=OFF
-- log anonymous-compressed.binlog --gtid-mode=OFF --enforce-gtid-consistency=OFF --binlog-transaction-compression=ON
-- log anonymous-statements.binlog --gtid-mode=OFF --enforce-gtid-consistency=OFF --binlog-format=STATEMENT
-- log anonymous-direct.binlog --gtid-mode=OFF --enforce-gtid-consistency=OFF --binlog-format=STATEMENT --binlog-direct-non-transactional-updates=ON
SET timestamp = 1700001000;
CREATE DATABASE anonymous;
USE anonymous;
CREATE TABLE inno (id INT PRIMARY KEY, a VARCHAR(20));
CREATE TABLE isam (id INT PRIMARY KEY, a VARCHAR(20)) ENGINE = MyISAM;
INSERT INTO inno VALUES (1, 'a');
INSERT INTO isam VALUES (1, 'a');
BEGIN; INSERT INTO inno VALUES (2, 'b'); INSERT INTO isam VALUES (2, 'b'); UPDATE inno SET a = 'c' WHERE id = 2; COMMIT;
BEGIN; INSERT INTO isam VALUES (3, 'c'); INSERT INTO inno VALUES (3, 'c'); ROLLBACK;
BEGIN; INSERT INTO inno VALUES (4, 'd'); SAVEPOINT `s p`; INSERT INTO isam VALUES (4, 'd'); ROLLBACK TO `s p`; INSERT INTO inno VALUES (5, 'e'); COMMIT;
UPDATE inno, isam SET inno.a = 'both', isam.a = 'both' WHERE inno.id = isam.id;
CREATE TEMPORARY TABLE temp (id INT);
BEGIN; INSERT INTO inno VALUES (6, 'f'); CREATE TEMPORARY TABLE inside (id INT); INSERT INTO inside VALUES (1); DROP TEMPORARY TABLE inside; COMMIT;
CREATE TABLE copied SELECT * FROM inno;
XA START 'x'; INSERT INTO inno VALUES (7, 'g'); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x';
DELETE inno, isam FROM inno JOIN isam USING (id);
DROP TABLE inno, isam, copied;

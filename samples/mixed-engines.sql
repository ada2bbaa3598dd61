-- MyISAM, MEMORY, ARCHIVE, CSV, BLACKHOLE and InnoDB tables in one log (in one transaction: see anonymous.sql).
--
-- log mixed-engines.binlog
-- log mixed-engines-compressed.binlog --binlog-transaction-compression=ON
SET timestamp = 1700000400;
CREATE DATABASE engines;
USE engines;
CREATE TABLE inno (id INT PRIMARY KEY, a VARCHAR(20)) ENGINE = InnoDB;
CREATE TABLE isam (id INT PRIMARY KEY, a VARCHAR(20)) ENGINE = MyISAM;
CREATE TABLE mem (id INT PRIMARY KEY, a VARCHAR(20)) ENGINE = MEMORY;
CREATE TABLE arch (id INT, a VARCHAR(20)) ENGINE = ARCHIVE;
CREATE TABLE csv (id INT NOT NULL, a VARCHAR(20) NOT NULL) ENGINE = CSV;
CREATE TABLE hole (id INT, a VARCHAR(20)) ENGINE = BLACKHOLE;
INSERT INTO isam VALUES (1, 'alone');
INSERT INTO mem VALUES (1, 'memory');
INSERT INTO arch VALUES (1, 'archive');
INSERT INTO csv VALUES (1, 'csv');
INSERT INTO hole VALUES (1, 'hole');
BEGIN; INSERT INTO inno VALUES (1, 'a'); INSERT INTO inno VALUES (2, 'b'); COMMIT;
BEGIN; INSERT INTO isam VALUES (2, 'b'); COMMIT;
UPDATE isam SET a = 'c';
DELETE FROM isam WHERE id = 1;
BEGIN; INSERT INTO inno VALUES (3, 'c'); ROLLBACK;
DELETE FROM mem;
UPDATE inno SET a = 'several rows', id = id + 10;
REPLACE INTO inno VALUES (11, 'replaced'), (14, 'new');
REPLACE INTO isam VALUES (2, 'replaced'), (5, 'new');
INSERT INTO inno VALUES (11, 'x') ON DUPLICATE KEY UPDATE a = 'duplicate';
TRUNCATE TABLE isam;

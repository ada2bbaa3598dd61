-- LOAD DATA: as rows, and as statements with the file's blocks in the log.
--
-- log load-data.binlog --binlog-format=STATEMENT
-- log load-data-rows.binlog
SET timestamp = 1700000700;
CREATE DATABASE loaded;
USE loaded;
CREATE TABLE t (id INT, a VARCHAR(100), b VARCHAR(100));
LOAD DATA LOCAL INFILE 'load-data.tsv' INTO TABLE t;
LOAD DATA LOCAL INFILE 'load-data.tsv' REPLACE INTO TABLE t CHARACTER SET latin1 FIELDS TERMINATED BY '\t' OPTIONALLY ENCLOSED BY '"' ESCAPED BY '\\'
  LINES STARTING BY '' TERMINATED BY '\n' IGNORE 2 LINES (id, @a, b) SET a = CONCAT(@a, ' it''s');
LOAD DATA LOCAL INFILE 'load-data.tsv' IGNORE INTO TABLE loaded.t LINES TERMINATED BY '\n' (@all) SET a = @all;
-- More than one block: read_buffer_size bounds each.
SET SESSION read_buffer_size = 8192;
LOAD DATA LOCAL INFILE 'load-data-large.txt' INTO TABLE t (b);
CREATE TABLE keyed (id INT PRIMARY KEY, a VARCHAR(100), b VARCHAR(100)) ENGINE = MyISAM;
INSERT INTO keyed VALUES (5, 'in the way', '');
LOAD DATA LOCAL INFILE 'load-data.tsv' INTO TABLE keyed;
CREATE TABLE empty_one (id INT);
LOAD DATA LOCAL INFILE 'load-data-empty.txt' INTO TABLE empty_one;
-- A load that fails at its first row leaves a file to be deleted.
SELECT 5, 'in the way', '' INTO OUTFILE './load-data.out';
-- fails
LOAD DATA INFILE './load-data.out' INTO TABLE keyed;

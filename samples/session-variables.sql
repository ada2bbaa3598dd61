-- Statements under session settings that a replica must know: the status variables of Query events.
--
-- log session-variables.binlog --binlog-format=STATEMENT
-- log session-variables-rows.binlog
SET timestamp = 1700001600;
CREATE DATABASE vars CHARACTER SET latin2;
USE vars;
CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(100), d DATETIME(6));
SET sql_mode = ''; INSERT INTO t (a) VALUES ('no mode');
SET sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE,NO_DIR_IN_CREATE,TIME_TRUNCATE_FRACTIONAL'; INSERT INTO "t" (a) VALUES ('back\slash');
SET sql_mode = 'TRADITIONAL,IGNORE_SPACE,NO_UNSIGNED_SUBTRACTION,ALLOW_INVALID_DATES,REAL_AS_FLOAT'; INSERT INTO t (a) VALUES ('traditional');
SET sql_mode = DEFAULT; INSERT INTO t (a) VALUES ('default');
SET time_zone = '+05:30'; INSERT INTO t (d) VALUES (NOW());
SET time_zone = 'SYSTEM'; INSERT INTO t (d) VALUES (NOW());
SET time_zone = '+00:00'; INSERT INTO t (d) VALUES (FROM_UNIXTIME(1700000000));
SET timestamp = 1700001600.123456; INSERT INTO t (d) VALUES (NOW(6));
SET timestamp = 1700001601; INSERT INTO t (d) VALUES (NOW(6));
SET lc_time_names = 'de_DE'; INSERT INTO t (a) VALUES (DATE_FORMAT('2026-05-01', '%M'));
SET lc_time_names = 'en_US'; INSERT INTO t (a) VALUES (DATE_FORMAT('2026-05-01', '%M'));
SET auto_increment_increment = 10, auto_increment_offset = 3; INSERT INTO t (a) VALUES ('three'), ('thirteen');
SET auto_increment_increment = 1, auto_increment_offset = 1; INSERT INTO t (a) VALUES ('one');
SET foreign_key_checks = 0; INSERT INTO t (a) VALUES ('no foreign keys');
SET unique_checks = 0; INSERT INTO t (a) VALUES ('no unique checks');
SET foreign_key_checks = 1, unique_checks = 1, sql_auto_is_null = 1; INSERT INTO t (a) VALUES ('auto is null');
SET sql_auto_is_null = 0; INSERT INTO t (a) VALUES ('auto is not null');
SET autocommit = 0; INSERT INTO t (a) VALUES ('no autocommit'); COMMIT; SET autocommit = 1;
SET NAMES latin1; INSERT INTO t (a) VALUES ('latin');
SET NAMES utf8mb3; INSERT INTO t (a) VALUES ('utf8mb3');
SET NAMES gbk; INSERT INTO t (a) VALUES ('gbk');
SET NAMES sjis; INSERT INTO t (a) VALUES ('sjis');
SET NAMES binary; INSERT INTO t (a) VALUES ('binary');
SET NAMES utf8mb4 COLLATE utf8mb4_bin; INSERT INTO t (a) VALUES ('é');
SET collation_connection = 'latin1_german2_ci'; INSERT INTO t (a) VALUES ('mixed');
SET collation_server = 'utf8mb4_da_0900_ai_ci'; INSERT INTO t (a) VALUES ('server');
SET collation_database = 'latin7_general_ci'; CREATE TABLE by_database (a VARCHAR(10));
SET NAMES utf8mb4; SET collation_server = DEFAULT;
SET default_collation_for_utf8mb4 = utf8mb4_general_ci; CREATE TABLE general (a VARCHAR(10) CHARACTER SET utf8mb4); SET default_collation_for_utf8mb4 = utf8mb4_0900_ai_ci;
SET sql_require_primary_key = ON; CREATE TABLE keyed (id INT PRIMARY KEY); SET sql_require_primary_key = OFF;
SET default_table_encryption = OFF; CREATE DATABASE plain_text; DROP DATABASE plain_text;
SET explicit_defaults_for_timestamp = OFF, sql_mode = ''; CREATE TABLE stamps (a TIMESTAMP, b TIMESTAMP); INSERT INTO stamps VALUES (NULL, '2020-01-01'); SET explicit_defaults_for_timestamp = ON, sql_mode = DEFAULT;
SET pseudo_thread_id = 99; INSERT INTO t (a) VALUES ('thread 99');
SET SESSION binlog_format = ROW; INSERT INTO t (a) VALUES ('as rows');
SET SESSION binlog_rows_query_log_events = ON; UPDATE t SET a = 'with its text /* and a comment */' WHERE id = 1;
SET SESSION binlog_row_image = MINIMAL; UPDATE t SET a = 'minimal' WHERE id = 1;
SET SESSION binlog_row_image = NOBLOB; DELETE FROM t WHERE id = 1;
SET sql_log_bin = 0; INSERT INTO t (a) VALUES ('not in the log'); SET sql_log_bin = 1;
INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N');
CREATE DEFINER = 'some''body'@'localhost' PROCEDURE definer() SELECT 1;
CREATE DEFINER = nobody@`%` FUNCTION definer_f() RETURNS INT DETERMINISTIC RETURN 1;
UPDATE t SET a = 'from no database' WHERE id = 3;
-- new session
CREATE TABLE vars.without_use (id INT);
INSERT INTO vars.without_use VALUES (1);

-- Statement-based: Intvar, Rand, User_var of every kind, temporary tables, functions, unsafe statements.
--
-- log statements.binlog --binlog-format=STATEMENT
-- log statements-mixed.binlog --binlog-format=MIXED
-- log statements-mixed-compressed.binlog --binlog-format=MIXED --binlog-transaction-compression=ON
SET timestamp = 1700000300;
CREATE DATABASE stmt;
USE stmt;
CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(200), n DOUBLE, d DECIMAL(40, 10));
INSERT INTO t (a) VALUES ('first'), ('second');
SET INSERT_ID = 50;
INSERT INTO t (a) VALUES ('fifty');
INSERT INTO t (a, n) VALUES ('last', LAST_INSERT_ID());
INSERT INTO t (a, n) VALUES ('random', RAND());
SET rand_seed1 = 123456, rand_seed2 = 654321;
INSERT INTO t (a, n) VALUES ('seeded', RAND());
SET @null = NULL, @string = 'it''s "quoted" \\ é', @empty = '', @bytes = 0x00FF27, @int = -42, @max = 18446744073709551615, @min = -9223372036854775808,
    @big = 9223372036854775807, @real = 1.5e300, @tiny = -2.5e-300, @decimal = 12345678901234567890.123456789, @negative = -0.000000001, @zero = 0, @dzero = 0.00;
SET @latin = _latin1 0xE9 COLLATE latin1_german2_ci, @utf16 = _utf16 0x00E9, @`odd ``name` = 'odd', @date = CAST('2026-11-21' AS DATE), @json = JSON_OBJECT('k', 1), @bit = b'1010';
INSERT INTO t (a) VALUES (@null), (@string), (@empty), (HEX(@bytes)), (@latin), (@utf16), (@`odd ``name`), (@date), (CAST(@json AS CHAR)), (@bit + 0);
INSERT INTO t (n) VALUES (@int), (@max), (@min), (@big), (@real), (@tiny), (@zero);
INSERT INTO t (d) VALUES (@decimal), (@negative), (@dzero), (@int);
UPDATE t SET a = CONCAT(a, @string), n = n + @real WHERE id < 3;
DELETE FROM t WHERE id = 2;
INSERT INTO t (a) SELECT CONCAT('copy ', a) FROM t WHERE id < 10 ORDER BY id;
UPDATE t SET a = UUID() WHERE id = 1;
INSERT INTO t (a) VALUES (CONCAT(USER(), CONNECTION_ID() * 0));
INSERT INTO t (n) VALUES (UNIX_TIMESTAMP()), (YEAR(NOW()));
UPDATE t SET n = 0 LIMIT 1;
BEGIN;
INSERT INTO t (a) VALUES ('in a transaction');
UPDATE t SET a = 'changed in a transaction' WHERE a = 'in a transaction';
COMMIT;
CREATE TEMPORARY TABLE temp (id INT, a VARCHAR(20));
INSERT INTO temp VALUES (1, 'kept only here');
INSERT INTO t (a) SELECT a FROM temp;
CREATE TEMPORARY TABLE temp2 LIKE t;
ALTER TABLE temp ADD COLUMN b INT;
DROP TEMPORARY TABLE temp2;
CREATE TABLE noise (a VARCHAR(30), n INT);
DELIMITER //
CREATE FUNCTION noisy(x INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN INSERT INTO noise VALUES ('from the function', x); RETURN x * 2; END//
CREATE PROCEDURE twice(IN x VARCHAR(100), OUT y INT) BEGIN DECLARE k INT DEFAULT 3; INSERT INTO t (a, n) VALUES (x, k); UPDATE t SET a = CONCAT(x, '!') WHERE a = x; SET y = k; END//
DELIMITER ;
SELECT noisy(21);
INSERT INTO t (n) VALUES (noisy(22));
CALL twice('it''s called', @out);
INSERT INTO t (n) VALUES (@out);
CREATE TABLE no_transaction (id INT, a TEXT) ENGINE = MyISAM;
INSERT INTO no_transaction VALUES (1, 'one'), (2, 'two');
BEGIN;
INSERT INTO t (a) VALUES ('rolled back');
SAVEPOINT s1;
INSERT INTO t (a) VALUES ('back to here');
ROLLBACK TO SAVEPOINT s1;
COMMIT;
-- A statement that fails half way is logged with its error where it changed a table that cannot roll back.
CREATE TABLE keyed (id INT PRIMARY KEY) ENGINE = MyISAM;
-- fails
INSERT INTO keyed VALUES (1), (2), (2), (3);
REPLACE INTO keyed VALUES (1), (9);
INSERT IGNORE INTO keyed VALUES (1), (10);
INSERT INTO keyed VALUES (1) ON DUPLICATE KEY UPDATE id = 100;
TRUNCATE TABLE keyed;
FLUSH TABLES;
ANALYZE TABLE t;
-- new session
USE stmt;
INSERT INTO t (a) VALUES ('a second session');
CREATE TEMPORARY TABLE gone_at_the_end (id INT);

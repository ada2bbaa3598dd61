-- JSON documents over 64 KiB, whose offsets take four bytes; compressed, so that the log stays small.
--
-- log json-large.binlog --binlog-transaction-compression=ON
-- log json-large-partial.binlog --binlog-transaction-compression=ON --binlog-row-value-options=PARTIAL_JSON
SET timestamp = 1700000250;
CREATE DATABASE docs;
USE docs;
CREATE TABLE docs (id INT PRIMARY KEY AUTO_INCREMENT, doc JSON);
INSERT INTO docs (doc) VALUES (JSON_QUOTE(REPEAT('x', 16383))), (JSON_QUOTE(REPEAT('x', 16384))), (JSON_QUOTE(REPEAT('x', 2097152)));
INSERT INTO docs (doc) VALUES (JSON_ARRAY(REPEAT('large', 14000), 1, -2, 70000, TRUE, NULL, JSON_OBJECT('k', JSON_ARRAY(1, 2)), 1.5));
INSERT INTO docs (doc) VALUES (JSON_OBJECT('pad', REPEAT('p', 66000), 'i16', 300, 'i32', 70000, 'i64', 5000000000, 'u64', 18446744073709551615, 't', TRUE, 'n', NULL, 'o', JSON_OBJECT('in', JSON_ARRAY()), 's', 'x'));
UPDATE docs SET doc = JSON_SET(doc, '$[1]', 2) WHERE JSON_TYPE(doc) = 'ARRAY';
UPDATE docs SET doc = JSON_SET(doc, '$.i32', 80000, '$.o.in', CAST('[1, "two"]' AS JSON)) WHERE JSON_TYPE(doc) = 'OBJECT';
SET @many = (SELECT JSON_ARRAYAGG(n) FROM (WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 900) SELECT n FROM r) AS numbers);
INSERT INTO docs (doc) VALUES (@many);
UPDATE docs SET doc = JSON_REMOVE(doc, '$[500]') WHERE JSON_LENGTH(doc) = 900;
UPDATE docs SET doc = JSON_ARRAY_INSERT(doc, '$[10]', 'ten') WHERE JSON_LENGTH(doc) = 899;
DELETE FROM docs;

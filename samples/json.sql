-- JSON of every kind and size, its updates whole and as differences (PARTIAL_JSON).
--
-- log json.binlog
-- log json-partial.binlog --binlog-row-value-options=PARTIAL_JSON
-- log json-partial-minimal.binlog --binlog-row-value-options=PARTIAL_JSON --binlog-row-image=MINIMAL
-- log json-partial-compressed.binlog --binlog-row-value-options=PARTIAL_JSON --binlog-transaction-compression=ON
SET timestamp = 1700000200;
CREATE DATABASE docs;
USE docs;
CREATE TABLE docs (id INT PRIMARY KEY AUTO_INCREMENT, doc JSON, other JSON);
INSERT INTO docs (doc) VALUES
  ('null'), ('true'), ('false'), ('0'), ('1'), ('-1'), ('32767'), ('-32768'), ('32768'), ('65535'), ('2147483647'), ('-2147483648'),
  ('4294967295'), ('9223372036854775807'), ('-9223372036854775808'), ('18446744073709551615'), ('18446744073709551616'),
  ('0.1'), ('-1.5e300'), ('1e-300'), ('1.0'), ('123456789.123456789'), ('5e-324'), ('1.7976931348623157e308'),
  ('""'), ('"a"'), ('"quote\\" back\\\\ slash\\/ nl\\n tab\\t cr\\r bs\\b ff\\f nul\\u0000 bell\\u0007 del\\u007f"'), ('"é漢😀"'),
  ('[]'), ('{}'), ('[null, true, false, 1, -1, 70000, 5000000000, 1.5, "s", [], {}, [[[]]], {"a": {"b": {"c": []}}}]'),
  ('{"": "empty key", "a": 1, "bb": 2, "ccc": [1, 2, {"d": null}], "é": "key", "quote\\"key": 1}'), (NULL);
INSERT INTO docs (doc) VALUES
  (CAST(CAST('12345.678' AS DECIMAL(20,5)) AS JSON)), (CAST(CAST('-99999999999999999999999999999999999.999999999999999999999999999999' AS DECIMAL(65,30)) AS JSON)),
  (CAST(CAST('2026-11-21' AS DATE) AS JSON)), (CAST(CAST('-12:34:56.789012' AS TIME(6)) AS JSON)), (CAST(CAST('2026-11-21 01:02:03.000004' AS DATETIME(6)) AS JSON)),
  (CAST(TIMESTAMP'2026-11-21 01:02:03' AS JSON)), (CAST(CAST(2026 AS YEAR) AS JSON)), (CAST(0x00FF10 AS JSON)), (CAST(b'101' AS JSON)), (CAST(POINT(1, 2) AS JSON)),
  (JSON_ARRAY(CAST('1.10' AS DECIMAL(5,2)), CURRENT_DATE - CURRENT_DATE, DATE'2000-01-01', TIME'00:00:00', 0x62696e617279, 18446744073709551615, -9223372036854775808)),
  (JSON_OBJECT('blob', CAST(REPEAT(0x61, 300) AS BINARY), 'big', REPEAT('y', 300), 'd', 1e0, 'f', CAST(0.1 AS FLOAT))),
  (JSON_QUOTE(REPEAT('x', 127))), (JSON_QUOTE(REPEAT('x', 128))), (CAST(REPEAT(0xFF, 200) AS JSON));
-- Deep: the server allows 100 levels.
INSERT INTO docs (doc) VALUES (CONCAT(REPEAT('[', 100), REPEAT(']', 100))), (CONCAT(REPEAT('{"k":', 99), '1', REPEAT('}', 99)));
CREATE TABLE changes (id INT PRIMARY KEY, doc JSON, name VARCHAR(20), second JSON);
INSERT INTO changes VALUES
  (1, '{"a": 1, "b": [1, 2, 3, 4, 5], "c": {"d": "some longer text to leave room", "e": null}, "key with \\"quote": 1}', 'first', '[1, 2, 3]'),
  (2, '[10, 20, {"x": "yyyyyyyyyyyyyyyyyyyyyyyyy"}, [1, [2, [3]]]]', 'second', '{"k": "vvvvvvvvvvvvvvvvvvvvvv"}'),
  (3, '{"n": 1}', 'third', NULL), (4, NULL, 'fourth', '{}');
UPDATE changes SET doc = JSON_SET(doc, '$.a', 2) WHERE id = 1;
UPDATE changes SET doc = JSON_REPLACE(doc, '$.b[1]', 'two') WHERE id = 1;
UPDATE changes SET doc = JSON_REPLACE(doc, '$.b[2]', CAST('[3]' AS JSON), '$.c.d', 'short') WHERE id = 1;
UPDATE changes SET doc = JSON_REMOVE(doc, '$.b[0]') WHERE id = 1;
UPDATE changes SET doc = JSON_REMOVE(doc, '$.c.e'), second = JSON_SET(second, '$[0]', 9) WHERE id = 1;
UPDATE changes SET doc = JSON_SET(doc, '$.new', CAST('{"inner": [true, false, null]}' AS JSON)) WHERE id = 1;
UPDATE changes SET doc = JSON_SET(doc, '$."key with \\"quote"', 1.25) WHERE id = 1;
UPDATE changes SET doc = JSON_SET(doc, '$[3][1][1][0]', 'deep'), name = 'renamed' WHERE id = 2;
UPDATE changes SET doc = JSON_SET(doc, '$[9]', 'appended') WHERE id = 2;
UPDATE changes SET doc = JSON_REPLACE(doc, '$[2].x', CAST('2026-11-21' AS DATE)), second = JSON_REMOVE(second, '$.k') WHERE id = 2;
UPDATE changes SET doc = JSON_SET(doc, '$.n', 1) WHERE id = 3;
UPDATE changes SET doc = JSON_SET(doc, '$.n', CAST(0xFF AS JSON)), name = NULL WHERE id = 3;
UPDATE changes SET doc = JSON_SET(doc, '$.a', 3), second = JSON_SET(second, '$.z', 1);
UPDATE changes SET doc = NULL WHERE id = 3;
UPDATE changes SET doc = '{"whole": "new"}' WHERE id = 4;
UPDATE changes SET id = id + 100, doc = JSON_SET(doc, '$.id', 1) WHERE id IN (1, 4);
DELETE FROM changes WHERE id = 2;

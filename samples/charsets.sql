-- A column in every character set: all bytes of the one-byte sets, samples of the others; ENUM and SET among them.
--
-- log charsets.binlog
-- log charsets-full-metadata.binlog --binlog-row-metadata=FULL
SET timestamp = 1700000100;
CREATE DATABASE charsets CHARACTER SET latin1;
USE charsets;
CREATE TABLE one_byte (
  id INT PRIMARY KEY, armscii8 VARCHAR(256) CHARACTER SET armscii8, ascii VARCHAR(256) CHARACTER SET ascii, bin VARCHAR(256) CHARACTER SET binary,
  cp1250 VARCHAR(256) CHARACTER SET cp1250, cp1251 VARCHAR(256) CHARACTER SET cp1251, cp1256 VARCHAR(256) CHARACTER SET cp1256, cp1257 VARCHAR(256) CHARACTER SET cp1257,
  cp850 VARCHAR(256) CHARACTER SET cp850, cp852 VARCHAR(256) CHARACTER SET cp852, cp866 VARCHAR(256) CHARACTER SET cp866, dec8 VARCHAR(256) CHARACTER SET dec8,
  geostd8 VARCHAR(256) CHARACTER SET geostd8, greek VARCHAR(256) CHARACTER SET greek, hebrew VARCHAR(256) CHARACTER SET hebrew, hp8 VARCHAR(256) CHARACTER SET hp8,
  keybcs2 VARCHAR(256) CHARACTER SET keybcs2, koi8r VARCHAR(256) CHARACTER SET koi8r, koi8u VARCHAR(256) CHARACTER SET koi8u, latin1 VARCHAR(256) CHARACTER SET latin1,
  latin2 VARCHAR(256) CHARACTER SET latin2, latin5 VARCHAR(256) CHARACTER SET latin5, latin7 VARCHAR(256) CHARACTER SET latin7, macce VARCHAR(256) CHARACTER SET macce,
  macroman VARCHAR(256) CHARACTER SET macroman, swe7 VARCHAR(256) CHARACTER SET swe7, tis620 VARCHAR(256) CHARACTER SET tis620);
SET @low = UNHEX(CONCAT(
  '000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F202122232425262728292A2B2C2D2E2F303132333435363738393A3B3C3D3E3F',
  '404142434445464748494A4B4C4D4E4F505152535455565758595A5B5C5D5E5F606162636465666768696A6B6C6D6E6F707172737475767778797A7B7C7D7E7F'));
SET @all = CONCAT(@low, UNHEX(CONCAT(
  '808182838485868788898A8B8C8D8E8F909192939495969798999A9B9C9D9E9FA0A1A2A3A4A5A6A7A8A9AAABACADAEAFB0B1B2B3B4B5B6B7B8B9BABBBCBDBEBF',
  'C0C1C2C3C4C5C6C7C8C9CACBCCCDCECFD0D1D2D3D4D5D6D7D8D9DADBDCDDDEDFE0E1E2E3E4E5E6E7E8E9EAEBECEDEEEFF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF')));
INSERT INTO one_byte VALUES (1, @all, @low, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all, @all);
INSERT INTO one_byte (id, cp1251, greek, hebrew, koi8r, latin1, latin2, tis620) VALUES (2, 'Привет', 'Γειά', 'שלום', 'Привет', 'naïve €', 'Žluťoučký', 'สวัสดี');
CREATE TABLE many_bytes (
  id INT PRIMARY KEY, big5 VARCHAR(100) CHARACTER SET big5, cp932 VARCHAR(100) CHARACTER SET cp932, eucjpms VARCHAR(100) CHARACTER SET eucjpms, euckr VARCHAR(100) CHARACTER SET euckr,
  gb18030 VARCHAR(100) CHARACTER SET gb18030, gb2312 VARCHAR(100) CHARACTER SET gb2312, gbk VARCHAR(100) CHARACTER SET gbk, sjis VARCHAR(100) CHARACTER SET sjis,
  ucs2 VARCHAR(100) CHARACTER SET ucs2, ujis VARCHAR(100) CHARACTER SET ujis, utf16 VARCHAR(100) CHARACTER SET utf16, utf16le VARCHAR(100) CHARACTER SET utf16le,
  utf32 VARCHAR(100) CHARACTER SET utf32, utf8mb3 VARCHAR(100) CHARACTER SET utf8mb3, utf8mb4 VARCHAR(100) CHARACTER SET utf8mb4);
INSERT INTO many_bytes VALUES
  (1, '中文字', '日本語', '日本語', '한국어', '中文😀', '中文', '中文', '日本語', '日本語', '日本語', '日本語😀', '日本語😀', '日本語😀', '日本語', '日本語😀'),
  (2, 'a功b', 'ソ表能', 'ｱｲｳ', '가나다', '€ÿ', '啊', '丂狛', 'ソ表能', 'aé', 'ｱｲｳ', 'aé', 'aé', 'aé', 'aé', 'aé'),
  (3, '', '', '', '', '', '', '', '', '', '', '', '', '', '', ''),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE many_bytes SET gbk = CONCAT(gbk, '\\'), utf32 = 'x' WHERE id = 2;
CREATE TABLE fixed (id INT PRIMARY KEY, u4 CHAR(64) CHARACTER SET utf8mb4, u32 CHAR(100) CHARACTER SET utf32, u16 CHAR(255) CHARACTER SET utf16, g CHAR(63) CHARACTER SET gb18030, l CHAR(255) CHARACTER SET latin1);
INSERT INTO fixed VALUES (1, 'é😀', 'é😀', 'é😀', 'é😀', 'é'), (2, '', '', '', '', '');
CREATE TABLE collations (
  id INT PRIMARY KEY, a VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, b VARCHAR(20) COLLATE utf8mb4_bin, c VARCHAR(20) COLLATE utf8mb4_0900_bin, d VARCHAR(20) COLLATE utf8mb4_ja_0900_as_cs,
  e VARCHAR(20) COLLATE utf8mb4_general_ci, f VARCHAR(20) COLLATE latin1_german1_ci, g TEXT COLLATE latin1_bin, h TEXT COLLATE utf8mb3_general_ci, i CHAR(5) COLLATE ascii_bin, j VARBINARY(20), k BLOB, l JSON,
  m ENUM('é', 'ß') COLLATE latin1_german2_ci, n ENUM('я') COLLATE cp1251_bin, o SET('字') COLLATE utf8mb4_zh_0900_as_cs);
INSERT INTO collations VALUES (1, 'straße', 'é', 'é', '日本', 'é', 'ü', 'ü', 'é', 'abc', 'é', 'é', '"é"', 'é', 'я', '字');
DELETE FROM collations;
-- Column defaults of the table: the optional metadata stores either a default and exceptions, or all.
CREATE TABLE mostly_one (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9), c VARCHAR(9), d VARCHAR(9) CHARACTER SET utf8mb4, e TEXT) CHARACTER SET latin2;
INSERT INTO mostly_one VALUES (1, 'a', 'b', 'c', 'd', 'e');

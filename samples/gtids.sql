-- GTIDs: automatic, with tags, given by hand, empty transactions, several sources, large numbers.
--
-- directory gtids
-- directory gtids-compressed --binlog-transaction-compression=ON
SET timestamp = 1700000900;
CREATE DATABASE gtids;
USE gtids;
CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(40));
INSERT INTO t (a) VALUES ('automatic');
SET gtid_next = 'AUTOMATIC:tag';
INSERT INTO t (a) VALUES ('tagged');
CREATE TABLE tagged_ddl (id INT);
SET gtid_next = 'AUTOMATIC:another_tag_of_thirty_two_chars_';
INSERT INTO t (a) VALUES ('longest tag');
SET gtid_next = 'AUTOMATIC';
INSERT INTO t (a) VALUES ('automatic again');
SET gtid_next = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb:1';
INSERT INTO t (a) VALUES ('by hand');
SET gtid_next = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb:3';
BEGIN; COMMIT;
SET gtid_next = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb:9223372036854775806';
INSERT INTO t (a) VALUES ('the last of its kind');
SET gtid_next = 'cccccccc-cccc-cccc-cccc-cccccccccccc:by_hand:77';
INSERT INTO t (a) VALUES ('by hand with a tag');
SET gtid_next = 'cccccccc-cccc-cccc-cccc-cccccccccccc:by_hand:79';
BEGIN; COMMIT;
SET gtid_next = 'cccccccc-cccc-cccc-cccc-cccccccccccc:99';
CREATE TABLE by_hand (id INT);
SET gtid_next = 'AUTOMATIC';
SET original_commit_timestamp = 1600000000123456;
INSERT INTO t (a) VALUES ('committed elsewhere before');
SET original_commit_timestamp = DEFAULT;
SET original_server_version = 50744, immediate_server_version = 80036;
INSERT INTO t (a) VALUES ('from an older server');
SET original_server_version = DEFAULT, immediate_server_version = DEFAULT;
FLUSH BINARY LOGS;
INSERT INTO t (a) VALUES ('in the next file, after all of the above');

-- MariaDB 10.11: several domains, two files, the GTID list at the head of the second.
--
-- mariadb-directory mariadb-gtids --binlog-format=ROW --gtid-domain-id=1
SET timestamp = 1700002400;
CREATE DATABASE maria;
CREATE TABLE maria.t (id INT PRIMARY KEY);
INSERT INTO maria.t VALUES (1);
SET gtid_domain_id = 2, server_id = 77;
INSERT INTO maria.t VALUES (2);
SET gtid_domain_id = 4294967295, gtid_seq_no = 18446744073709551000;
INSERT INTO maria.t VALUES (3);
SET gtid_domain_id = 1;
FLUSH BINARY LOGS;
BEGIN; INSERT INTO maria.t VALUES (4); ROLLBACK;
UPDATE maria.t SET id = id + 10;

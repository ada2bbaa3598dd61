-- Cascades of foreign keys: as the server does them since 9.6, and in the engine (--innodb-native-foreign-keys).
--
-- log foreign-keys.binlog
-- log foreign-keys-native.binlog --innodb-native-foreign-keys=ON
-- log foreign-keys-minimal.binlog --binlog-row-image=MINIMAL --binlog-row-metadata=FULL
SET timestamp = 1700001200;
CREATE DATABASE fk;
USE fk;
CREATE TABLE parent (id INT PRIMARY KEY, a VARCHAR(20));
CREATE TABLE child (id INT PRIMARY KEY, parent_id INT, FOREIGN KEY (parent_id) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE grandchild (id INT PRIMARY KEY, child_id INT, FOREIGN KEY (child_id) REFERENCES child (id) ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE self (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES self (id) ON DELETE CASCADE);
CREATE TABLE noted (at INT);
DELIMITER //
CREATE TRIGGER note AFTER DELETE ON child FOR EACH ROW INSERT INTO noted VALUES (OLD.id)//
DELIMITER ;
INSERT INTO parent VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO child VALUES (1, 1), (2, 1), (3, 2), (4, NULL);
INSERT INTO grandchild VALUES (1, 1), (2, 2), (3, 3);
INSERT INTO self VALUES (1, NULL), (2, 1), (3, 2);
UPDATE parent SET id = 10 WHERE id = 1;
DELETE FROM parent WHERE id = 10;
DELETE FROM self WHERE id = 1;
SET foreign_key_checks = 0;
DELETE FROM parent WHERE id = 2;
INSERT INTO child VALUES (50, 500);
SET foreign_key_checks = 1, unique_checks = 0;
INSERT INTO parent VALUES (4, 'd');
SET unique_checks = 1;
REPLACE INTO parent VALUES (3, 'replaced');
DROP TABLE grandchild, child, parent;

-- Several tables in one statement: triggers, multi-table UPDATE and DELETE, INSERT … SELECT, views, functions.
--
-- log triggers.binlog
-- log triggers-compressed.binlog --binlog-transaction-compression=ON
-- log triggers-statements.binlog --binlog-format=STATEMENT
CREATE DATABASE trig;
USE trig;
CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20));
CREATE TABLE b (id INT PRIMARY KEY AUTO_INCREMENT, a_id INT, v VARCHAR(20));
CREATE TABLE audit (id INT PRIMARY KEY AUTO_INCREMENT, what VARCHAR(40));
DELIMITER //
CREATE TRIGGER a_in AFTER INSERT ON a FOR EACH ROW INSERT INTO b (a_id, v) VALUES (NEW.id, NEW.v)//
CREATE TRIGGER b_in BEFORE INSERT ON b FOR EACH ROW BEGIN INSERT INTO audit (what) VALUES (CONCAT('insert ', NEW.v)); SET NEW.v = UPPER(NEW.v); END//
CREATE TRIGGER a_up AFTER UPDATE ON a FOR EACH ROW BEGIN UPDATE b SET v = NEW.v WHERE a_id = OLD.id; DELETE FROM audit WHERE id % 2 = 0; END//
CREATE TRIGGER a_de BEFORE DELETE ON a FOR EACH ROW DELETE FROM b WHERE a_id = OLD.id//
DELIMITER ;
INSERT INTO a (v) VALUES ('one'), ('two'), ('three');
UPDATE a SET v = 'changed' WHERE id = 1;
DELETE FROM a WHERE id = 2;
CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(20));
INSERT INTO plain SELECT * FROM a;
UPDATE a JOIN plain USING (id) SET a.v = 'joined', plain.v = 'joined' WHERE a.id = 3;
DELETE a, plain FROM a JOIN plain USING (id) WHERE a.id = 3;
INSERT INTO audit (what) SELECT v FROM a;
CREATE VIEW shown AS SELECT id, v FROM a;
INSERT INTO shown (v) VALUES ('through the view');
UPDATE shown SET v = 'view' WHERE id = 4;
CREATE DATABASE other_db;
CREATE TABLE other_db.c (id INT);
INSERT INTO other_db.c SELECT id FROM a;
UPDATE other_db.c, trig.a SET other_db.c.id = 1, trig.a.v = 'two databases';

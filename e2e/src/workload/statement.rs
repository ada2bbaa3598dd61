//! Random statements and transactions on the tables of a session.

use std::fmt::Write as _;

use testkit::SeededRandom;

use super::literal::{KINDS, text};

/// Maximum number of tables of one session; older ones are dropped.
const TABLES_MAX: usize = 6;

/// Objects of a session, which works in a database of its own.
pub(super) struct Session {
    database: String,
    tables: Vec<Table>,
    made: usize,
    out: String,
}

struct Table {
    name: String,
    /// Indexes in [`KINDS`]; the columns are `c0`, `c1`, …, after a key `id`.
    columns: Vec<usize>,
}

type Step = fn(&mut Session, &mut SeededRandom);

/// Relative frequency of each kind of step.
const STEPS: [(usize, Step); 24] = [
    (20, Session::insert),
    (12, Session::update),
    (8, Session::delete),
    (4, Session::replace),
    (4, Session::insert_select),
    (3, Session::update_two),
    (14, Session::transaction),
    (4, Session::xa),
    (5, Session::create),
    (5, Session::alter),
    (2, Session::rename),
    (2, Session::truncate),
    (2, Session::drop_table),
    (3, Session::index),
    (2, Session::view),
    (3, Session::trigger),
    (3, Session::temporary),
    (3, Session::load),
    (4, Session::gtid),
    (8, Session::setting),
    (4, Session::user_variable),
    (2, Session::account),
    (2, Session::create_select),
    (1, Session::flush),
];

/// Session settings; one is drawn at a time.
const SETTINGS: [&str; 44] = [
    "SET NAMES utf8mb4",
    "SET NAMES latin1",
    "SET NAMES gbk",
    "SET NAMES binary",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET time_zone = '+00:00'",
    "SET time_zone = '+05:45'",
    "SET time_zone = 'SYSTEM'",
    "SET time_zone = '-11:00'",
    "SET sql_mode = DEFAULT",
    "SET sql_mode = ''",
    "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'",
    "SET sql_mode = 'TRADITIONAL'",
    "SET timestamp = DEFAULT",
    "SET timestamp = 1700000000",
    "SET timestamp = 1700000001.234567",
    "SET timestamp = 1",
    "SET foreign_key_checks = 0",
    "SET foreign_key_checks = 1",
    "SET unique_checks = 0",
    "SET unique_checks = 1",
    "SET auto_increment_increment = 5, auto_increment_offset = 2",
    "SET auto_increment_increment = 1, auto_increment_offset = 1",
    "SET lc_time_names = 'fr_FR'",
    "SET lc_time_names = 'en_US'",
    "SET collation_connection = 'latin2_general_ci'",
    "SET collation_database = 'utf8mb4_bin'",
    "SET collation_server = 'latin1_swedish_ci'",
    "SET sql_auto_is_null = 1",
    "SET sql_auto_is_null = 0",
    "SET binlog_format = ROW",
    "SET binlog_format = STATEMENT",
    "SET binlog_format = MIXED",
    "SET binlog_row_image = FULL",
    "SET binlog_row_image = MINIMAL",
    "SET binlog_row_image = NOBLOB",
    "SET binlog_row_value_options = PARTIAL_JSON",
    "SET binlog_row_value_options = ''",
    "SET binlog_rows_query_log_events = ON",
    "SET binlog_transaction_compression = ON",
    "SET binlog_transaction_compression = OFF",
    "SET sql_generate_invisible_primary_key = ON",
    "SET sql_generate_invisible_primary_key = OFF",
    "SET rand_seed1 = 7, rand_seed2 = 11",
];

impl Session {
    pub(super) fn new(number: usize) -> Self {
        Self { database: format!("random_{number}"), tables: Vec::new(), made: 0, out: String::new() }
    }

    /// Returns the SQL of a session, one statement a line.
    pub(super) fn script(mut self, random: &mut SeededRandom, steps: usize) -> String {
        let charset = *random.pick(&["utf8mb4", "latin1", "utf8mb4 COLLATE utf8mb4_bin", "koi8r"]);
        self.push(format!("CREATE DATABASE {} CHARACTER SET {charset}", self.database));
        self.push(format!("USE {}", self.database));
        (0..2).for_each(|_| self.create(random));
        let weights: usize = STEPS.iter().map(|(weight, _)| weight).sum();
        for _ in 0..steps {
            let mut at = random.below(weights);
            for (weight, step) in STEPS {
                if at < weight {
                    step(&mut self, random);
                    break;
                }
                at -= weight;
            }
        }
        self.out
    }

    fn push(&mut self, statement: impl AsRef<str>) {
        self.out.push_str(statement.as_ref());
        self.out.push_str(";\n");
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        match self.made % 7 {
            0 => format!("`odd ``name; {}`", self.made),
            3 => format!("`é漢{}`", self.made),
            made => format!("t{made}_{}", self.made),
        }
    }

    /// Draws a table; creates one if there is none.
    fn table(&mut self, random: &mut SeededRandom) -> (String, Vec<usize>) {
        if self.tables.is_empty() {
            self.create(random);
        }
        let table = random.pick(&self.tables);
        (table.name.clone(), table.columns.clone())
    }

    fn create(&mut self, random: &mut SeededRandom) {
        if self.tables.len() >= TABLES_MAX {
            self.drop_table(random);
        }
        let name = self.new_name();
        let columns: Vec<usize> = (0..1 + random.below(8)).map(|_| random.below(KINDS.len())).collect();
        let mut sql = format!("CREATE TABLE {name} (id INT {}", key(random));
        for (number, column) in columns.iter().enumerate() {
            let _ = write!(sql, ", c{number} {}", KINDS[*column].sql);
        }
        let engine = *random.pick(&["", "", "", " ENGINE = MyISAM", " COMMENT = 'it''s random'"]);
        self.push(format!("{sql}){engine}"));
        self.tables.push(Table { name, columns });
    }

    fn insert(&mut self, random: &mut SeededRandom) {
        let (name, columns) = self.table(random);
        let rows: Vec<String> = (0..1 + random.below(5)).map(|_| row(random, &columns)).collect();
        let ignore = if random.once_in(2) { "IGNORE " } else { "" };
        self.push(format!("INSERT {ignore}INTO {name} ({}) VALUES {}", names(&columns), rows.join(", ")));
    }

    fn replace(&mut self, random: &mut SeededRandom) {
        let (name, columns) = self.table(random);
        self.push(format!("REPLACE INTO {name} ({}) VALUES {}", names(&columns), row(random, &columns)));
    }

    fn update(&mut self, random: &mut SeededRandom) {
        let (name, columns) = self.table(random);
        let number = random.below(columns.len());
        let value = value(random, columns[number]);
        let (set, of) = (random.below(4), 1 + random.below(6));
        self.push(match set {
            0 => format!("UPDATE IGNORE {name} SET id = id + 1000 WHERE id % {of} = 0 ORDER BY id DESC"),
            1 if KINDS[columns[number]].sql == "JSON" => {
                format!("UPDATE {name} SET c{number} = JSON_SET(c{number}, '$.k1', {of}, '$[0]', 'x') WHERE id % {of} = 0")
            }
            _ => format!("UPDATE IGNORE {name} SET c{number} = {value} WHERE id % {of} = 0"),
        });
    }

    fn delete(&mut self, random: &mut SeededRandom) {
        let (name, _) = self.table(random);
        let of = 2 + random.below(8);
        let limit = if random.once_in(5) { " LIMIT 1" } else { "" };
        self.push(format!("DELETE FROM {name} WHERE id % {of} = 1{limit}"));
    }

    fn insert_select(&mut self, random: &mut SeededRandom) {
        let (name, columns) = self.table(random);
        let names = names(&columns);
        self.push(format!(
            "INSERT IGNORE INTO {name} ({names}) SELECT {} FROM {name} LIMIT 9",
            names.replace("id", "id + 100")
        ));
    }

    fn update_two(&mut self, random: &mut SeededRandom) {
        let ((one, _), (two, _)) = (self.table(random), self.table(random));
        if one == two {
            return self.delete(random);
        }
        let of = 1 + random.below(4);
        self.push(match random.below(2) {
            0 => format!("UPDATE IGNORE {one} a, {two} b SET a.c0 = NULL, b.c0 = NULL WHERE a.id = b.id AND a.id % {of} = 0"),
            _ => format!("DELETE a, b FROM {one} a JOIN {two} b USING (id) WHERE a.id % {of} = 0"),
        });
    }

    fn change(&mut self, random: &mut SeededRandom) {
        let several: [Step; 5] =
            [Self::insert, Self::update, Self::delete, Self::replace, Self::user_variable];
        random.pick(&several)(self, random);
    }

    fn transaction(&mut self, random: &mut SeededRandom) {
        self.push(*random.pick(&[
            "BEGIN",
            "START TRANSACTION",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        ]));
        let mut saved = 0;
        for _ in 0..1 + random.below(8) {
            match random.below(8) {
                0 => {
                    saved += 1;
                    self.push(format!("SAVEPOINT `save {saved}`"));
                }
                1 if saved > 0 => {
                    let back = 1 + random.below(saved);
                    self.push(format!("ROLLBACK TO `save {back}`"));
                    saved = back;
                }
                2 if saved > 0 => {
                    self.push(format!("RELEASE SAVEPOINT `save {saved}`"));
                    saved -= 1;
                }
                _ => self.change(random),
            }
        }
        self.push(*random.pick(&["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]));
    }

    fn xa(&mut self, random: &mut SeededRandom) {
        self.made += 1;
        let id = match random.below(3) {
            0 => format!("'x{}'", self.made),
            1 => format!("'x{}', 'branch it''s'", self.made),
            _ => format!("x'00FF{:04X}', x'5C', {}", self.made, random.below(1 << 31)),
        };
        self.push(format!("XA START {id}"));
        (0..1 + random.below(3)).for_each(|_| self.change(random));
        self.push(format!("XA END {id}"));
        match random.below(4) {
            0 => self.push(format!("XA COMMIT {id} ONE PHASE")),
            1 => self.push(format!("XA PREPARE {id};\nXA ROLLBACK {id}")),
            _ => self.push(format!("XA PREPARE {id};\nXA COMMIT {id}")),
        }
    }

    fn alter(&mut self, random: &mut SeededRandom) {
        if self.tables.is_empty() {
            return self.create(random);
        }
        let at = random.below(self.tables.len());
        let (name, count) = (self.tables[at].name.clone(), self.tables[at].columns.len());
        let added = random.below(KINDS.len());
        let statement = match random.below(5) {
            0 => {
                self.tables[at].columns.push(added);
                format!("ALTER TABLE {name} ADD COLUMN c{count} {}", KINDS[added].sql)
            }
            1 if count > 1 => {
                self.tables[at].columns.pop();
                format!("ALTER TABLE {name} DROP COLUMN c{}", count - 1)
            }
            2 => format!("ALTER TABLE {name} ADD COLUMN extra_{} INT INVISIBLE DEFAULT 5", self.made),
            3 => format!("ALTER TABLE {name} COMMENT = {}", text(random, 30)),
            _ => format!("ALTER TABLE {name} ENGINE = InnoDB"),
        };
        self.push(statement);
    }

    fn rename(&mut self, random: &mut SeededRandom) {
        if self.tables.is_empty() {
            return self.create(random);
        }
        let at = random.below(self.tables.len());
        let (old, new) = (self.tables[at].name.clone(), self.new_name());
        self.push(format!("RENAME TABLE {old} TO {new}"));
        self.tables[at].name = new;
    }

    fn truncate(&mut self, random: &mut SeededRandom) {
        let (name, _) = self.table(random);
        self.push(format!("TRUNCATE TABLE {name}"));
    }

    fn drop_table(&mut self, random: &mut SeededRandom) {
        if !self.tables.is_empty() {
            let table = self.tables.remove(random.below(self.tables.len()));
            self.push(format!("DROP TABLE {} /* no longer wanted */", table.name));
        }
    }

    fn index(&mut self, random: &mut SeededRandom) {
        let (name, _) = self.table(random);
        self.made += 1;
        self.push(format!("CREATE INDEX i{} ON {name} (id)", self.made));
    }

    fn view(&mut self, random: &mut SeededRandom) {
        let (name, _) = self.table(random);
        self.made += 1;
        let view = format!("v{}", self.made);
        self.push(format!("CREATE OR REPLACE VIEW {view} AS SELECT id, c0 FROM {name}"));
        self.push(format!("UPDATE IGNORE {view} SET id = id + 5000 WHERE id < 3"));
        self.push(format!("DROP VIEW {view}"));
    }

    fn trigger(&mut self, random: &mut SeededRandom) {
        let ((one, _), (two, _)) = (self.table(random), self.table(random));
        if one == two {
            return self.insert(random);
        }
        self.made += 1;
        let number = self.made;
        self.push(format!("CREATE TRIGGER tr{number} AFTER INSERT ON {one} FOR EACH ROW DELETE FROM {two} WHERE id = NEW.id % 7"));
        self.insert(random);
        self.push(format!("DROP TRIGGER tr{number}"));
    }

    fn temporary(&mut self, random: &mut SeededRandom) {
        let (name, _) = self.table(random);
        self.made += 1;
        let temporary = format!("temp{}", self.made);
        self.push(format!("CREATE TEMPORARY TABLE {temporary} (id INT, a VARCHAR(20))"));
        self.push(format!(
            "INSERT INTO {temporary} VALUES ({}, 'kept here'), (NULL, {})",
            self.made + 3000,
            text(random, 15)
        ));
        self.push(format!("INSERT IGNORE INTO {name} (id) SELECT id FROM {temporary} WHERE id IS NOT NULL"));
        if !random.once_in(3) {
            self.push(format!("DROP TEMPORARY TABLE {temporary}"));
        }
    }

    fn load(&mut self, random: &mut SeededRandom) {
        self.made += 1;
        let name = format!("load{}", self.made);
        self.push(format!("CREATE TABLE {name} (a INT, b VARCHAR(40), c TEXT)"));
        let format = *random.pick(&[
            "",
            "CHARACTER SET latin1 ",
            "FIELDS TERMINATED BY '\\t' ENCLOSED BY '\"' ",
            "LINES TERMINATED BY '\\n' IGNORE 1 LINES ",
        ]);
        let columns = *random.pick(&["", "(@x, b, c) SET a = @x + 1", "(a, b, @y)"]);
        self.push(format!("LOAD DATA LOCAL INFILE 'load.tsv' INTO TABLE {name} {format}{columns}"));
        self.push(format!("DROP TABLE {name}"));
    }

    fn gtid(&mut self, random: &mut SeededRandom) {
        self.made += 1;
        match random.below(4) {
            0 => self.push("SET gtid_next = 'AUTOMATIC:tagged'"),
            1 => self.push(format!("SET gtid_next = 'AUTOMATIC:t_{}'", random.below(5))),
            2 => {
                let tag = *random.pick(&["", "by_hand:"]);
                let database = self.database.bytes().last().unwrap_or(b'0') - b'0';
                self.push(format!(
                    "SET gtid_next = 'dddddddd-dddd-dddd-dddd-{database:012}:{tag}{}'",
                    self.made
                ));
                self.push("BEGIN");
                self.change(random);
                self.push("COMMIT");
            }
            _ => {}
        }
        if !random.once_in(4) {
            self.change(random);
        }
        self.push("SET gtid_next = 'AUTOMATIC'");
    }

    fn setting(&mut self, random: &mut SeededRandom) {
        let setting = *random.pick(&SETTINGS);
        // With this setting, MySQL logs its own text of a CREATE TABLE: in UTF-8, but with the client's character
        // set. A replica, and the mysql client after mysqlbinlog, then create a table with a different name.
        if setting == "SET sql_generate_invisible_primary_key = ON" {
            self.push("SET NAMES utf8mb4");
        }
        if setting.starts_with("SET NAMES") && !setting.contains("utf8mb4") {
            self.push("SET sql_generate_invisible_primary_key = OFF");
        }
        self.push(setting);
    }

    fn user_variable(&mut self, random: &mut SeededRandom) {
        let (name, columns) = self.table(random);
        let value = value(random, columns[0]);
        self.push(format!(
            "SET @v = {value}, @n = {}, @`odd name` = {}",
            random.next_u64() as i64,
            text(random, 20)
        ));
        self.push(match random.below(3) {
            0 => format!("UPDATE IGNORE {name} SET c0 = @v WHERE id < 20"),
            1 => format!("DELETE FROM {name} WHERE id = @n % 50 OR CHAR_LENGTH(@`odd name`) = 99"),
            _ => format!(
                "INSERT IGNORE INTO {name} (id) VALUES (FLOOR(RAND() * 1000) + LAST_INSERT_ID() % 10)"
            ),
        });
    }

    fn account(&mut self, random: &mut SeededRandom) {
        self.made += 1;
        let user = format!("'u{}'@'%'", self.made);
        self.push(format!("CREATE USER {user} IDENTIFIED BY 'secret'"));
        self.push(format!("GRANT SELECT ON {}.* TO {user}", self.database));
        self.push(*random.pick(&["FLUSH PRIVILEGES", "FLUSH TABLES", "DO 0"]));
        self.push(format!("DROP USER {user}"));
    }

    fn create_select(&mut self, random: &mut SeededRandom) {
        let (name, _) = self.table(random);
        self.made += 1;
        let copy = format!("copy{}", self.made);
        self.push(format!("CREATE TABLE {copy} AS SELECT * FROM {name} LIMIT 20"));
        self.push(format!("DROP TABLE {copy}"));
    }

    fn flush(&mut self, _: &mut SeededRandom) {
        self.push("FLUSH BINARY LOGS");
    }
}

fn key(random: &mut SeededRandom) -> &'static str {
    const KEYS: [&str; 4] =
        ["PRIMARY KEY", "PRIMARY KEY AUTO_INCREMENT", "NOT NULL, KEY (id)", "NOT NULL UNIQUE"];
    KEYS[random.below(KEYS.len())]
}

fn names(columns: &[usize]) -> String {
    let names = (0..columns.len()).map(|number| format!(", c{number}"));
    names.fold("id".to_owned(), |all, name| all + &name)
}

fn row(random: &mut SeededRandom, columns: &[usize]) -> String {
    let mut row = format!("({}", random.below(60));
    for column in columns {
        let _ = write!(row, ", {}", value(random, *column));
    }
    row + ")"
}

fn value(random: &mut SeededRandom, column: usize) -> String {
    if random.once_in(8) { "NULL".to_owned() } else { (KINDS[column].literal)(random) }
}

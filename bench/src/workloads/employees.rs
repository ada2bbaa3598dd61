//! SQL that creates a database like the employees sample: the same tables, row counts and kinds of values. The text is
//! always the same.

use std::fmt::Write as _;

use testkit::SeededRandom;

/// Number of rows in one INSERT.
const ROWS: usize = 20_000;
/// 1985-01-01 and 1952-01-01, in days since 1970.
const HIRED_FROM: i64 = 5479;
const BORN_FROM: i64 = -6575;

const TABLES: &str = "CREATE DATABASE employees; USE employees;
CREATE TABLE employees (emp_no INT NOT NULL, birth_date DATE NOT NULL, first_name VARCHAR(14) NOT NULL,
  last_name VARCHAR(16) NOT NULL, gender ENUM('M','F') NOT NULL, hire_date DATE NOT NULL, PRIMARY KEY (emp_no));
CREATE TABLE titles (emp_no INT NOT NULL, title VARCHAR(50) NOT NULL, from_date DATE NOT NULL, to_date DATE,
  PRIMARY KEY (emp_no, title, from_date));
CREATE TABLE salaries (emp_no INT NOT NULL, salary INT NOT NULL, from_date DATE NOT NULL, to_date DATE NOT NULL,
  PRIMARY KEY (emp_no, from_date));
";

const FIRST_NAMES: [&str; 20] = [
    "Amara", "Bjarne", "Chidi", "Dolores", "Emre", "Farida", "Goran", "Hanneke", "Ichiro", "Jolanta",
    "Kwame", "Lucia", "Matthias", "Nadezhda", "Olufemi", "Priyanka", "Quentin", "Rosalind", "Sigurd",
    "Theodora",
];
const LAST_NAMES: [&str; 20] = [
    "Abernathy",
    "Bergström",
    "Castellano",
    "Dlamini",
    "Eriksen",
    "Fujimoto",
    "Grigoryan",
    "Halloran",
    "Ibrahim",
    "Jovanovic",
    "Kowalczyk",
    "Lindqvist",
    "Mbeki",
    "Novak",
    "Okonkwo",
    "Petrov",
    "Quispe",
    "Rasmussen",
    "Schneider",
    "Takahashi",
];
const TITLES: [&str; 6] =
    ["Engineer", "Senior Engineer", "Staff", "Senior Staff", "Assistant Engineer", "Technique Leader"];

/// Returns the SQL of a database with this number of employees, their titles, and their salaries of up to 17 years
/// each.
pub(super) fn sql(employees: usize) -> String {
    let mut random = SeededRandom::new(7);
    let (mut people, mut titles, mut salaries) = (Vec::new(), Vec::new(), Vec::new());
    for number in 10_001..10_001 + employees {
        let hired = HIRED_FROM + random.below(5400) as i64;
        let born = BORN_FROM + random.below(4748) as i64;
        let (first, last) = (random.pick(&FIRST_NAMES), random.pick(&LAST_NAMES));
        let gender = random.pick(&['M', 'F']);
        people.push(format!("({number},'{}','{first}','{last}','{gender}','{}')", date(born), date(hired)));
        titles.push(format!("({number},'{}','{}','9999-01-01')", random.pick(&TITLES), date(hired)));
        let mut salary = 38_000 + random.below(52_000) as i64;
        for year in 0..1 + random.below(17) as i64 {
            let from = hired + 365 * year;
            salaries.push(format!("({number},{salary},'{}','{}')", date(from), date(from + 365)));
            salary += random.below(4300) as i64 - 300;
        }
    }
    let mut sql = TABLES.to_owned();
    for (table, rows) in [("employees", people), ("titles", titles), ("salaries", salaries)] {
        for rows in rows.chunks(ROWS) {
            let _ = writeln!(sql, "INSERT INTO {table} VALUES {};", rows.join(","));
        }
    }
    sql
}

/// Formats a day since 1970 as an SQL date.
fn date(day: i64) -> String {
    let (year, month, day) = testkit::civil_date(day);
    format!("{year:04}-{month:02}-{day:02}")
}

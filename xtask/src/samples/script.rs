//! The SQL of a sample, and what its head asks for.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use testkit::Flavour;

/// One `samples/NAME.sql`.
pub(crate) struct Script {
    pub(crate) name: String,
    /// What is in its logs, in one line.
    pub(crate) title: String,
    pub(crate) recipes: Vec<Recipe>,
    text: String,
}

/// One log, or folder of logs, that a script makes.
pub(crate) struct Recipe {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) options: Vec<String>,
}

/// How a sample comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The one log of a server that was then stopped.
    Log(Flavour),
    /// All logs of it, and their index.
    Folder(Flavour),
    /// The log of a server that was killed.
    Killed,
    /// The same, without its last bytes.
    Torn,
    /// The relay logs of a replica of the server, and their index.
    Relay,
    /// All logs of a server with a keyring, and the keyring's data.
    Encrypted,
}

impl Kind {
    const NAMES: [(&str, Self, &str); 8] = [
        ("log", Self::Log(Flavour::Mysql), "MySQL"),
        ("folder", Self::Folder(Flavour::Mysql), "MySQL, all logs and their index"),
        ("killed", Self::Killed, "MySQL, killed"),
        ("torn", Self::Torn, "MySQL, killed, and the last event cut"),
        ("relay", Self::Relay, "the relay logs of a MySQL replica, and their index"),
        ("encrypted", Self::Encrypted, "MySQL, all logs, their index, the keyring"),
        ("mariadb-log", Self::Log(Flavour::MariaDb), "MariaDB"),
        ("mariadb-folder", Self::Folder(Flavour::MariaDb), "MariaDB, all logs and their index"),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Is it the one log of a MySQL server that ran to its end? Its rows are counted.
    pub(crate) fn is_one_log(self) -> bool {
        self == Self::Log(Flavour::Mysql)
    }

    /// The kind in words.
    pub(crate) fn words(self) -> &'static str {
        Self::NAMES.iter().find(|row| row.1 == self).map_or("", |row| row.2)
    }
}

impl Script {
    /// Reads all scripts of the samples' folder, in the order of their names.
    pub(crate) fn read_all(folder: &Path) -> Result<Vec<Self>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "sql") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Result<Self> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
        Self::parse(name, text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(name: String, text: String) -> Result<Self> {
        let mut head = text.lines().map_while(|line| line.strip_prefix("--")).map(str::trim);
        let title = head.next().context("the first line must say what is in it")?.to_owned();
        ensure!(head.next() == Some(""), "the second line must be --");
        let recipes = head.map(Recipe::parse).collect::<Result<Vec<_>>>()?;
        Ok(Self { name, title, recipes, text })
    }

    /// The texts to run, each in a session of its own, and how many of its statements must fail.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (&str, usize)> {
        let sessions = self.text.split("\n-- new session\n");
        sessions.map(|text| (text, text.lines().filter(|line| *line == "-- fails").count()))
    }
}

impl Recipe {
    fn parse(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let (Some(kind), Some(name)) = (words.next(), words.next()) else {
            bail!("the head has a line that is no recipe: {line:?}");
        };
        let kind = Kind::from_name(kind).with_context(|| format!("no such kind of sample: {kind}"))?;
        Ok(Self { kind, name: name.to_owned(), options: words.map(str::to_owned).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Script};

    #[test]
    fn head_is_read() {
        let text = "-- What it is.\n--\n-- torn a.binlog --x=1 --y\nSELECT 1;\n-- fails\nSELECT;\n-- new session\nSELECT 2;\n";
        let script = Script::parse("a".to_owned(), text.to_owned()).unwrap();
        assert_eq!(script.title, "What it is.");
        assert_eq!(script.recipes[0].kind, Kind::Torn);
        assert_eq!(script.recipes[0].options, ["--x=1", "--y"]);
        assert_eq!(script.sessions().map(|(_, failing)| failing).collect::<Vec<_>>(), [1, 0]);
        assert!(Script::parse("b".to_owned(), "-- Title.\n--\n-- nonsense a\n".to_owned()).is_err());
    }
}

